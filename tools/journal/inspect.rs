//! `inspect`: what the directory holds, also when it is damaged.

use super::at::frame_end;
use super::failure::Failure;
use super::place::Store;
use super::verify::{error_json, print_records, print_tail, report_json};
use midwatch::engine::hex;
use midwatch::journal::segment::{FLAG_SKIPPED_AHEAD, FLAG_WEAK};
use midwatch::journal::{
    FrameAt, Header, JournalError, Report, SnapshotFile, Visitor, salvage, scan,
};
use midwatch::units::{bytes, count};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Shows the store; the exit code.
pub(crate) fn run(store: &Store, as_json: bool, out: &mut impl Write) -> Result<u8, Failure> {
    let mut table = Table::default();
    let scanned = store.read(|disk| {
        table = Table::default();
        scan(disk, &mut table)
    });
    if scanned.is_err() {
        // Whatever is wrong: show every segment whose header can be read.
        table = Table::default();
        salvage(&store.disk, &mut table).map_err(|error| store.refusal(&error))?;
    }
    if let Ok(report) = &scanned {
        store.check_there(report)?;
    }
    if as_json {
        writeln!(out, "{}", as_value(store, &table, &scanned))?;
        return Ok(scanned.map_or_else(|error| error.exit_code(), |report| report.exit_code()));
    }
    writeln!(out, "store in {}", store.path.display())?;
    if let Ok(report) = &scanned {
        print_head(store, report, out)?;
    }
    table.print(out)?;
    match scanned {
        Ok(report) => {
            print_snapshots(&report, out)?;
            Ok(report.exit_code())
        }
        Err(error) => Err(store.refusal(&error)),
    }
}

fn print_head(store: &Store, report: &Report, out: &mut impl Write) -> io::Result<()> {
    if let Some(uuid) = &report.store {
        writeln!(out, "  uuid       {}", hex(uuid))?;
    }
    print_records(report, out)?;
    match report.floor {
        Some(floor) => writeln!(out, "  floor      {floor} is known to be durable")?,
        None => writeln!(out, "  floor      no whole floor file")?,
    }
    print_tail(store, report, out)?;
    for note in &report.notes {
        writeln!(out, "  note       {note}")?;
    }
    Ok(())
}

fn print_snapshots(report: &Report, out: &mut impl Write) -> io::Result<()> {
    if report.snapshots.is_empty() {
        return writeln!(out, "\n  no snapshots");
    }
    writeln!(out, "\n  {:>20}  {:>9}  {:>9}  STATE", "SNAPSHOT AT", "RECORDS", "SIZE")?;
    for SnapshotFile { seq, file: _, records, bytes: size, fault } in &report.snapshots {
        let state = fault.as_deref().unwrap_or("whole");
        writeln!(out, "  {seq:>20}  {:>9}  {:>9}  {state}", count(*records), bytes(*size))?;
    }
    Ok(())
}

/// The segments, oldest first.
#[derive(Default)]
struct Table(Vec<Row>);

/// What is known of one segment.
struct Row {
    file: String,
    header: Header,
    frames: u64,
    records: u64,
    copied: u64,
    /// Behind the last whole frame.
    end: u64,
}

impl Table {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "\n  {:>10}  {:>20}  {:>9}  {:>9}  {:>10}  NOTE",
            "SEGMENT", "FIRST", "RECORDS", "FRAMES", "END"
        )?;
        for row in &self.0 {
            let Row { header, frames, records, end, .. } = row;
            let (records, frames) = (count(*records), count(*frames));
            let Header { number, first_seq, .. } = header;
            let notes = row.notes().join(", ");
            let line = format!(
                "  {number:>10}  {first_seq:>20}  {records:>9}  {frames:>9}  {end:>10}  {notes}"
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl Row {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.copied != 0 {
            notes.push(format!("{} records copied from the one before", count(self.copied)));
        }
        if self.header.has(FLAG_SKIPPED_AHEAD) {
            notes.push(format!("sequence skips ahead to {}", self.header.resume_seq));
        }
        if self.header.has(FLAG_WEAK) {
            notes.push("weak fsync".to_owned());
        }
        notes
    }

    fn json(&self) -> Value {
        let Self { file, header, frames, records, copied, end } = self;
        json!({
            "file": file,
            "number": header.number,
            "first_seq": header.first_seq,
            "resume_seq": header.resume_seq,
            "alignment": header.alignment,
            "machine_id": hex(&header.machine_id),
            "boot_id": hex(&header.boot_id),
            "skipped_ahead": header.has(FLAG_SKIPPED_AHEAD),
            "weak_fsync": header.has(FLAG_WEAK),
            "frames": frames,
            "records": records,
            "copied": copied,
            "end": end,
        })
    }
}

impl Visitor for Table {
    fn segment(&mut self, file: &str, header: &Header) -> Result<(), String> {
        self.0.push(Row {
            file: file.to_owned(),
            header: *header,
            frames: 0,
            records: 0,
            copied: 0,
            end: midwatch::journal::segment::HEADER_BYTES,
        });
        Ok(())
    }

    fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
        let Some(row) = self.0.last_mut() else { return Ok(()) };
        row.frames += 1;
        row.records += u64::from(frame.count);
        if frame.copied {
            row.copied += u64::from(frame.count);
        }
        row.end = frame_end(frame, row.header.alignment);
        Ok(())
    }
}

fn as_value(store: &Store, table: &Table, scanned: &Result<Report, JournalError>) -> Value {
    json!({
        "data_dir": store.path.display().to_string(),
        "segments": table.0.iter().map(Row::json).collect::<Vec<_>>(),
        "report": scanned.as_ref().ok().map(report_json),
        "error": scanned.as_ref().err().map(error_json),
    })
}
