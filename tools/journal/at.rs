//! `inspect --at`: one place of the journal, byte by byte.

use super::failure::{DAMAGED, DONE, Failure, NOTHING};
use super::place::Store;
use super::verify::things;
use midwatch::engine::codec;
use midwatch::engine::dump::record_json;
use midwatch::engine::hex;
use midwatch::journal::disk::{Disk as _, read_full_at};
use midwatch::journal::frame::{FRAME_HEADER_BYTES, RECORD_HEADER_BYTES, SECTOR_BYTES};
use midwatch::journal::{
    Damage, FrameAt, Header, JournalError, Place, Record, Visitor, salvage, scan,
};
use midwatch::kernel::ids::Seq;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::str::FromStr;

/// Records shown of a frame when no one of them was asked for.
const RECORDS_SHOWN_MAX: usize = 10;
/// Bytes shown where no whole frame is.
const BYTES_SHOWN: usize = 128;

/// The place that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// A sequence number, or a byte of whichever segment has so many.
    Number(u64),
    /// A byte of one segment.
    Byte { segment: u64, byte: u64 },
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().ok();
        let at = match text.split_once(':') {
            None => number(text).map(Self::Number),
            Some((segment, byte)) => number(segment)
                .zip(number(byte))
                .map(|(segment, byte)| Self::Byte { segment, byte }),
        };
        at.ok_or_else(|| "write a sequence number, a byte offset, or SEGMENT:BYTE".to_owned())
    }
}

/// Where the next frame may begin.
pub(crate) fn frame_end(frame: &FrameAt<'_>, alignment: u32) -> u64 {
    let bytes = frame.body_bytes + FRAME_HEADER_BYTES as u64 + 1; // and the end mark
    frame.offset + bytes.next_multiple_of(u64::from(alignment))
}

/// Shows the place; the exit code.
pub(crate) fn run(
    store: &Store,
    at: At,
    as_json: bool,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let mut find = Find { at, headers: Vec::new(), frames: Vec::new(), taken: false };
    salvage(&store.disk, &mut find).map_err(|error| store.refusal(&error))?;
    let mut damage = None;
    match scan(&store.disk, &mut ()) {
        Ok(report) => store.check_there(&report)?,
        Err(JournalError::Damage(found)) => damage = Some(*found),
        Err(_) => {} // told by the commands that look at the whole
    }
    find.judge();
    if find.frames.is_empty() {
        return show_bytes(store, &find, damage.as_ref(), as_json, out);
    }
    for found in &mut find.frames {
        found.head = bytes_at(store, &found.file, found.offset, FRAME_HEADER_BYTES)?;
        for record in &mut found.records {
            record.head = bytes_at(store, &found.file, record.offset, RECORD_HEADER_BYTES)?;
        }
    }
    if as_json {
        let frames: Vec<_> = find.frames.iter().map(Found::json).collect();
        writeln!(out, "{}", json!({"frames": frames, "bytes": null}))?;
        return Ok(DONE);
    }
    for found in &find.frames {
        found.print(out)?;
    }
    Ok(DONE)
}

/// What stands where no whole frame is.
fn show_bytes(
    store: &Store,
    find: &Find,
    damage: Option<&Damage>,
    as_json: bool,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let bad = damage.filter(|damage| find.is_about(damage));
    let (file, offset) = match (bad, find.at) {
        (Some(damage), _) => (damage.file.clone(), damage.offset),
        (None, At::Byte { segment, byte }) => {
            let header = find.headers.iter().find(|(_, header)| header.number == segment);
            let (file, _) = header.ok_or_else(|| {
                Failure::new(NOTHING, format!("there is no readable segment {segment}"))
            })?;
            (file.clone(), byte - byte % SECTOR_BYTES as u64)
        }
        (None, At::Number(number)) => {
            return Err(Failure::new(
                NOTHING,
                format!("no record {number}, and no frame over byte {number}"),
            )
            .with_help(format!("midwatch-journal inspect{} shows what there is", store.argument)));
        }
    };
    let bytes = bytes_at(store, &file, offset, BYTES_SHOWN)?;
    let what = bad.map_or("no whole frame is there", |damage| &damage.what);
    if as_json {
        let raw = json!({"file": file, "offset": offset, "what": what, "hex": hex(&bytes)});
        writeln!(out, "{}", json!({"frames": [], "bytes": raw}))?;
    } else {
        writeln!(out, "{file}, byte {offset}: {what}")?;
        for (line, place) in bytes.chunks(16).zip((offset..).step_by(16)) {
            writeln!(out, "  {place:>10}  {}  {}", grouped(line), readable(line))?;
        }
        if bytes.is_empty() {
            writeln!(out, "  the file ends before it")?;
        }
    }
    Ok(match bad {
        Some(_) => DAMAGED,
        None if bytes.is_empty() => NOTHING,
        None => DONE,
    })
}

fn bytes_at(store: &Store, file: &str, offset: u64, count: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; count];
    let read = store.disk.open_read(file).and_then(|open| read_full_at(&open, offset, &mut bytes));
    let read = read.map_err(|error| Failure::new(1, format!("cannot read {file}: {error}")))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Hex digits in groups of four bytes.
fn grouped(bytes: &[u8]) -> String {
    bytes.chunks(4).map(hex).collect::<Vec<_>>().join(" ")
}

fn readable(bytes: &[u8]) -> String {
    let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
    bytes.iter().map(shown).collect()
}

/// Gathers the frames that are asked for.
struct Find {
    at: At,
    /// Every readable segment with its header.
    headers: Vec<(String, Header)>,
    frames: Vec<Found>,
    /// The records that come now belong to the last of `frames`.
    taken: bool,
}

struct Found {
    file: String,
    segment: u64,
    offset: u64,
    end: u64,
    first_seq: u64,
    count: u32,
    /// `synced`, `skipped`, `copied`, `dead`.
    marks: Vec<&'static str>,
    head: Vec<u8>,
    records: Vec<FoundRecord>,
}

struct FoundRecord {
    seq: u64,
    offset: u64,
    kind: u16,
    ignorable: bool,
    length: usize,
    head: Vec<u8>,
    /// As JSON, or why not and the bytes.
    body: Result<String, (String, Vec<u8>)>,
}

impl Find {
    fn covers(&self, first: u64, end: u64) -> bool {
        let number = self.headers.last().map_or(0, |(_, header)| header.number);
        match self.at {
            At::Number(byte) => (first..end).contains(&byte),
            At::Byte { segment, byte } => segment == number && (first..end).contains(&byte),
        }
    }

    fn is_about(&self, damage: &Damage) -> bool {
        let file = self.headers.iter().find(|(file, _)| *file == damage.file);
        match self.at {
            At::Number(number) => damage.seq == number || damage.offset == number,
            At::Byte { segment, byte } => {
                let sector = byte - byte % SECTOR_BYTES as u64;
                file.is_none_or(|(_, header)| header.number == segment) && sector == damage.offset
            }
        }
    }

    /// Marks what is dead, and drops the records nobody asked for.
    fn judge(&mut self) {
        for found in &mut self.frames {
            let next = self.headers.iter().find(|(_, next)| next.previous.number == found.segment);
            if next.is_some_and(|(_, next)| next.previous.end <= found.offset) {
                found.marks.push("dead"); // what it says no longer counts
            }
            let asked = |record: &FoundRecord| {
                let end = record.offset + (RECORD_HEADER_BYTES + record.length) as u64;
                match self.at {
                    At::Number(number) => {
                        record.seq == number || (record.offset..end).contains(&number)
                    }
                    At::Byte { byte, .. } => (record.offset..end).contains(&byte),
                }
            };
            if found.records.iter().any(asked) {
                found.records.retain(asked);
            } else {
                found.records.truncate(RECORDS_SHOWN_MAX);
            }
        }
    }
}

impl Visitor for Find {
    fn segment(&mut self, file: &str, header: &Header) -> Result<(), String> {
        self.headers.push((file.to_owned(), *header));
        Ok(())
    }

    fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
        let header = self.headers.last().map(|(_, header)| *header).unwrap_or_default();
        let end = frame_end(frame, header.alignment);
        let seqs = frame.first_seq..frame.first_seq.saturating_add(u64::from(frame.count));
        let by_seq = matches!(self.at, At::Number(number) if seqs.contains(&number));
        self.taken = by_seq || self.covers(frame.offset, end);
        if self.taken {
            self.frames.push(Found {
                file: frame.file.to_owned(),
                segment: header.number,
                offset: frame.offset,
                end,
                first_seq: frame.first_seq,
                count: frame.count,
                marks: marks(frame),
                head: Vec::new(),
                records: Vec::new(),
            });
        }
        Ok(())
    }

    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        let Some(found) = self.frames.last_mut().filter(|_| self.taken) else { return Ok(()) };
        let body = match codec::decode(Seq(place.seq), record.kind, record.body) {
            Ok((stamp, event)) => Ok(record_json(&stamp, &event)),
            Err(error) => Err((error.to_string(), record.body.to_vec())),
        };
        found.records.push(FoundRecord {
            seq: place.seq,
            offset: place.offset,
            kind: record.kind,
            ignorable: record.ignorable,
            length: record.body.len(),
            head: Vec::new(),
            body,
        });
        Ok(())
    }
}

fn marks(frame: &FrameAt<'_>) -> Vec<&'static str> {
    let marks = [(frame.synced, "synced"), (frame.skipped, "skipped"), (frame.copied, "copied")];
    marks.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark).collect()
}

impl Found {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { file, offset, end, first_seq, count, .. } = self;
        let last = first_seq.saturating_add(u64::from(*count)).saturating_sub(1);
        writeln!(out, "{file}, byte {offset} to {}", end.saturating_sub(1))?;
        let (records, words) = (things(u64::from(*count), "record"), self.words());
        writeln!(out, "  frame of {records}, sequence {first_seq} to {last}{words}")?;
        writeln!(out, "  header  {}", grouped(&self.head))?;
        for record in &self.records {
            record.print(out)?;
        }
        let shown = self.records.len();
        let hidden = usize::try_from(*count).unwrap_or(usize::MAX).saturating_sub(shown);
        if hidden != 0 {
            writeln!(out, "  and {hidden} records more in this frame")?;
        }
        Ok(())
    }

    /// The marks in words.
    fn words(&self) -> String {
        let words = self.marks.iter().map(|mark| match *mark {
            "synced" => "; all before it was synced first",
            "skipped" => "; the sequence skipped ahead before it",
            "copied" => "; copied from the segment before",
            _ => "; DEAD: the next segment says that this one ends before it",
        });
        words.collect()
    }

    fn json(&self) -> Value {
        let Self { file, segment, offset, end, first_seq, count, .. } = self;
        json!({
            "file": file,
            "segment": segment,
            "offset": offset,
            "end": end,
            "first_seq": first_seq,
            "count": count,
            "marks": self.marks,
            "header": hex(&self.head),
            "records": self.records.iter().map(FoundRecord::json).collect::<Vec<_>>(),
        })
    }
}

impl FoundRecord {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { seq, offset, kind, ignorable, length, head, body } = self;
        let may = if *ignorable { ", may be skipped by who does not know it" } else { "" };
        writeln!(out, "  record {seq} at byte {offset}: kind {kind}, body of {length} bytes{may}")?;
        writeln!(out, "    header  {}", grouped(head))?;
        match body {
            Ok(json) => writeln!(out, "    {json}"),
            Err((why, bytes)) => {
                writeln!(out, "    unreadable: {why}")?;
                writeln!(out, "    {}", grouped(bytes.get(..BYTES_SHOWN).unwrap_or(bytes)))
            }
        }
    }

    fn json(&self) -> Value {
        let Self { seq, offset, kind, ignorable, length, head, body } = self;
        let parsed = |json: &String| serde_json::from_str::<Value>(json).unwrap_or_default();
        json!({
            "seq": seq,
            "offset": offset,
            "kind": kind,
            "ignorable": ignorable,
            "length": length,
            "header": hex(head),
            "record": body.as_ref().ok().map(parsed),
            "error": body.as_ref().err().map(|(why, _)| why),
            "body": body.as_ref().err().map(|(_, bytes)| hex(bytes)),
        })
    }
}
