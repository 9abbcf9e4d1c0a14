//! `stats`: what the bytes on the disk are, and which of them are needed.

use super::at::frame_end;
use super::check::{Checked, check};
use super::compact::{File, Plan, files};
use super::failure::{DONE, Failure};
use super::place::Store;
use super::state::{by_status, statuses};
use super::verify::print_records;
use midwatch::engine::codec;
use midwatch::journal::frame::RECORD_HEADER_BYTES;
use midwatch::journal::store::JOURNAL_DIR;
use midwatch::journal::{
    FrameAt, Header, JournalError, Place, RealDisk, Record, Report, Visitor, scan,
};
use midwatch::kernel::State;
use midwatch::kernel::ids::{Seq, Timestamp};
use midwatch::units::{Zone, bytes, count, rfc3339};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Snapshots that a running daemon keeps.
const KEPT: usize = 2;

/// Shows the figures; the exit code.
pub(crate) fn run(store: &Store, as_json: bool, out: &mut impl Write) -> Result<u8, Failure> {
    let figures = store.read(Figures::of).map_err(|error| store.refusal(&error))?;
    store.check_there(&figures.report)?;
    if as_json {
        writeln!(out, "{}", figures.json(store))?;
    } else {
        figures.print(store, out)?;
    }
    Ok(DONE)
}

/// All that is counted.
struct Figures {
    report: Report,
    state: State,
    plan: Plan,
    counts: Counts,
    files: Vec<File>,
}

/// What the frames and records are.
#[derive(Default)]
struct Counts {
    /// Records and their bytes by the word of their event, or `kind N`.
    kinds: BTreeMap<String, (u64, u64)>,
    segments: Vec<Segment>,
    /// Bytes of all frames, padding included.
    frame_bytes: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

struct Segment {
    header: Header,
    file: String,
    frames: u64,
    records: u64,
}

impl Visitor for Counts {
    fn segment(&mut self, file: &str, header: &Header) -> Result<(), String> {
        let (header, file) = (*header, file.to_owned());
        self.segments.push(Segment { header, file, frames: 0, records: 0 });
        Ok(())
    }

    fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
        let Some(segment) = self.segments.last_mut() else { return Ok(()) };
        segment.frames += 1;
        segment.records += u64::from(frame.count);
        self.frame_bytes += frame_end(frame, segment.header.alignment) - frame.offset;
        Ok(())
    }

    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        let decoded = codec::decode(Seq(place.seq), record.kind, record.body);
        let word = match &decoded {
            Ok((_, event)) => event.word().to_owned(),
            Err(_) => format!("kind {}", record.kind),
        };
        let kind = self.kinds.entry(word).or_default();
        kind.0 += 1;
        kind.1 += (record.body.len() + RECORD_HEADER_BYTES) as u64;
        if let Ok((stamp, _)) = decoded {
            self.first.get_or_insert(stamp.wall);
            self.last = Some(stamp.wall);
        }
        Ok(())
    }
}

impl Figures {
    fn of(disk: &RealDisk) -> Result<Self, JournalError> {
        let Checked { report, state, .. } = check(disk)?;
        let mut counts = Counts::default();
        scan(disk, &mut counts)?;
        let plan = Plan::of(disk, &report, &state)?;
        Ok(Self { plan, counts, files: files(disk)?, report, state })
    }

    /// Bytes of the segments, and of the snapshots.
    fn sizes(&self) -> (u64, u64) {
        let sum = |segments: bool| {
            let files = self.files.iter();
            let wanted = files.filter(|file| file.path.starts_with(JOURNAL_DIR) == segments);
            wanted.map(|file| file.bytes).sum()
        };
        (sum(true), sum(false))
    }

    fn live(&self) -> u64 {
        let live = statuses(&self.state).into_iter().filter(|(status, _)| !status.is_terminal());
        live.map(|(_, number)| number).sum()
    }

    /// The sequence of the older of the snapshots that a daemon keeps; none while the whole journal
    /// stands in for it.
    fn older_snapshot(&self) -> Option<u64> {
        let good = self.report.snapshots.iter().filter(|snapshot| snapshot.fault.is_none());
        good.rev().nth(KEPT - 1).map(|snapshot| snapshot.seq)
    }

    /// The oldest segment that holds a record behind that snapshot, or is being written.
    fn oldest_needed(&self) -> Option<u64> {
        let older = self.older_snapshot().unwrap_or_default();
        let segments = &self.counts.segments;
        let after = |index: usize| segments.get(index + 1).map(|next| next.header.first_seq);
        let needed = (0..segments.len())
            .find(|&index| after(index).is_none_or(|next| older.saturating_add(1) < next));
        needed.and_then(|index| segments.get(index)).map(|segment| segment.header.number)
    }

    fn length(&self, file: &str) -> u64 {
        self.files.iter().find(|found| found.path == file).map_or(0, |found| found.bytes)
    }

    /// What of the frames is not records, in percent.
    fn overhead(&self) -> u64 {
        let rest = self.counts.frame_bytes.saturating_sub(self.report.record_bytes);
        (rest * 100).checked_div(self.counts.frame_bytes).unwrap_or_default()
    }

    fn print(&self, store: &Store, out: &mut impl Write) -> io::Result<()> {
        let Self { report, counts, plan, .. } = self;
        writeln!(out, "store in {}", store.path.display())?;
        print_records(report, out)?;
        for (name, seq, wall) in [
            ("first", report.first_seq, counts.first),
            ("last", report.next_seq.saturating_sub(1), counts.last),
        ] {
            if let Some(wall) = wall {
                writeln!(out, "  {name:<9}  sequence {seq}, {}", Zone::Local.date_time(wall))?;
            }
        }
        let tenths = (report.records * 10).checked_div(report.frames).unwrap_or_default();
        let (whole, tenth, overhead) = (tenths / 10, tenths % 10, self.overhead());
        writeln!(
            out,
            "  frames     {whole}.{tenth} records each; {overhead} % headers and padding"
        )?;
        writeln!(out, "  tasks      {}", by_status(&self.state))?;
        let (journal, snapshots) = self.sizes();
        write!(out, "  on disk    {} journal, {} snapshots", bytes(journal), bytes(snapshots))?;
        match (journal + snapshots).checked_div(self.live()) {
            Some(each) => writeln!(out, "; {} a task not ended", bytes(each))?,
            None => writeln!(out)?,
        }
        match (self.oldest_needed(), self.older_snapshot()) {
            (Some(segment), Some(seq)) => {
                writeln!(out, "  needed     from segment {segment} on, behind snapshot {seq}")?;
            }
            _ => {
                writeln!(out, "  needed     every segment: no second snapshot stands in for them")?;
            }
        }
        match plan.freed() {
            0 => writeln!(out, "  compact    would free nothing")?,
            freed => writeln!(out, "  compact    would free {}", bytes(freed))?,
        }
        self.print_kinds(out)?;
        self.print_files(out)
    }

    fn print_kinds(&self, out: &mut impl Write) -> io::Result<()> {
        if self.counts.kinds.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n  {:<16}  {:>12}  {:>10}  SHARE", "KIND", "RECORDS", "SIZE")?;
        for (kind, records, size) in self.kinds() {
            let share = (size * 100).checked_div(self.report.record_bytes).unwrap_or_default();
            let (records, size) = (count(records), bytes(size));
            writeln!(out, "  {kind:<16}  {records:>12}  {size:>10}  {share:>3} %")?;
        }
        Ok(())
    }

    /// The kinds, those with the most bytes first.
    fn kinds(&self) -> Vec<(&str, u64, u64)> {
        let kinds = self.counts.kinds.iter();
        let mut kinds: Vec<_> =
            kinds.map(|(kind, (records, size))| (kind.as_str(), *records, *size)).collect();
        kinds.sort_by_key(|(_, _, size)| std::cmp::Reverse(*size));
        kinds
    }

    fn print_files(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\n  {:<10}  {:>20}  {:>12}  {:>10}", "FILE", "SEQUENCE", "RECORDS", "SIZE")?;
        for Segment { header, file, records, .. } in &self.counts.segments {
            let (number, first) = (header.number, header.first_seq);
            let (records, size) = (count(*records), bytes(self.length(file)));
            writeln!(out, "  {number:<10}  {first:>20}  {records:>12}  {size:>10}")?;
        }
        for snapshot in &self.report.snapshots {
            let (seq, records) = (snapshot.seq, count(snapshot.records));
            let size = bytes(snapshot.bytes);
            writeln!(out, "  {:<10}  {seq:>20}  {records:>12}  {size:>10}", "snapshot")?;
        }
        Ok(())
    }

    fn json(&self, store: &Store) -> Value {
        let Self { report, counts, plan, state, .. } = self;
        let (journal, snapshots) = self.sizes();
        let point = |seq: u64, wall: Option<Timestamp>| {
            wall.map(|wall| json!({"seq": seq, "time": rfc3339(wall)}))
        };
        let kinds = self.kinds().into_iter().map(
            |(kind, records, bytes)| json!({"kind": kind, "records": records, "bytes": bytes}),
        );
        let segments = counts.segments.iter().map(|Segment { header, file, frames, records }| {
            json!({
                "file": file,
                "number": header.number,
                "first_seq": header.first_seq,
                "frames": frames,
                "records": records,
                "bytes": self.length(file),
            })
        });
        let kept = report.snapshots.iter().map(|snapshot| {
            let (file, seq) = (&snapshot.file, snapshot.seq);
            json!({"file": file, "seq": seq, "records": snapshot.records, "bytes": snapshot.bytes})
        });
        let tasks: serde_json::Map<_, _> = statuses(state)
            .into_iter()
            .map(|(status, number)| (status.word().to_owned(), Value::from(number)))
            .collect();
        json!({
            "data_dir": store.path.display().to_string(),
            "records": report.records,
            "record_bytes": report.record_bytes,
            "frames": report.frames,
            "frame_bytes": counts.frame_bytes,
            "kinds": kinds.collect::<Vec<_>>(),
            "first": point(report.first_seq, counts.first),
            "last": point(report.next_seq.saturating_sub(1), counts.last),
            "segments": segments.collect::<Vec<_>>(),
            "snapshots": kept.collect::<Vec<_>>(),
            "journal_bytes": journal,
            "snapshot_bytes": snapshots,
            "tasks": tasks,
            "live_tasks": self.live(),
            "bytes_per_live_task": (journal + snapshots).checked_div(self.live()),
            "oldest_needed_segment": self.oldest_needed(),
            "compaction_frees": plan.freed(),
        })
    }
}
