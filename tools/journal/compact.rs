//! `compact`: one proven snapshot and an empty journal in place of the history.

use super::check::{Checked, check};
use super::failure::{DONE, Failure};
use super::place::Store;
use super::verify::things;
use midwatch::engine::{Compacted, compact, for_each_record};
use midwatch::journal::segment::{SEGMENT_BYTES_MIN, parse_segment_name, parse_snapshot_name};
use midwatch::journal::store::{JOURNAL_DIR, SNAPSHOT_DIR, list};
use midwatch::journal::{DirLock, Disk as _, DiskFile as _, JournalError, Options, RESERVE_FILE};
use midwatch::journal::{RealDisk, Report, SnapshotLength, newest_header};
use midwatch::kernel::State;
use midwatch::units::bytes;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;

/// A file, relative to the data directory, and its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// The files of the journal: segments, then snapshots.
pub(crate) fn files(disk: &RealDisk) -> Result<Vec<File>, JournalError> {
    let mut found = Vec::new();
    for dir in [JOURNAL_DIR, SNAPSHOT_DIR] {
        for name in list(disk, dir)? {
            let path = format!("{dir}/{name}");
            if parse_segment_name(&name).is_some() || parse_snapshot_name(&name).is_some() {
                let length = disk.open_read(&path).and_then(|file| file.len());
                let io = |source| JournalError::Io { doing: "look at", file: path.clone(), source };
                found.push(File { bytes: length.map_err(io)?, path });
            }
        }
    }
    Ok(found)
}

fn total(files: &[File]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

/// What a compaction would do.
pub(crate) struct Plan {
    /// What is there now; all of it goes.
    pub(crate) files: Vec<File>,
    /// Sequence and length of the snapshot that comes.
    pub(crate) seq: u64,
    pub(crate) snapshot_bytes: u64,
    /// One snapshot and an empty segment are all there is already.
    pub(crate) is_done: bool,
}

impl Plan {
    pub(crate) fn of(
        disk: &RealDisk,
        report: &Report,
        state: &State,
    ) -> Result<Self, JournalError> {
        let seq = report.next_seq.saturating_sub(1);
        let mut length = SnapshotLength::new(Options::default().alignment);
        let counted: Result<(), std::convert::Infallible> =
            for_each_record(&state.image(), |_, body| {
                length.add(body.len());
                Ok(())
            });
        let Ok(()) = counted;
        let one = matches!(&*report.snapshots, [only] if only.seq == seq && only.fault.is_none());
        Ok(Self {
            files: files(disk)?,
            seq,
            snapshot_bytes: length.finish(),
            is_done: seq == 0 || (one && report.segments == 1 && report.records == 0),
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        total(&self.files)
    }

    pub(crate) fn bytes_after(&self) -> u64 {
        if self.is_done { self.bytes() } else { self.snapshot_bytes + SEGMENT_BYTES_MIN }
    }

    pub(crate) fn freed(&self) -> u64 {
        self.bytes().saturating_sub(self.bytes_after())
    }
}

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Only say what would be done.
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
}

/// Compacts, or says what it would do; the exit code.
pub(crate) fn run(store: &Store, wanted: Wanted, out: &mut impl Write) -> Result<u8, Failure> {
    let Wanted { dry_run, json } = wanted;
    let refusal = |error: JournalError| store.refusal(&error);
    if newest_header(&store.disk).map_err(refusal)?.is_none() {
        store.check_there(&Report::default())?; // before a lock file is made
    }
    let _lock = if dry_run { None } else { Some(lock(store)?) };
    let Checked { report, state, .. } = store.read(check).map_err(refusal)?;
    if report.exit_code() != 0 {
        return Err(suspicious(store));
    }
    let plan = Plan::of(&store.disk, &report, &state).map_err(refusal)?;
    drop(state);
    if dry_run || plan.is_done {
        let print = if json { print_plan_json } else { print_plan };
        print(store, &plan, out)?;
        return Ok(DONE);
    }
    let reserve = store.disk.open_read(RESERVE_FILE).and_then(|file| file.len()).unwrap_or(0);
    // The next start begins a segment of its own: the empty one may be as small as there are any.
    let options = Options { reserve, segment_size: SEGMENT_BYTES_MIN, ..Options::default() };
    let compacted = compact(&store.disk, options, rand::random()).map_err(refusal)?;
    let left = files(&store.disk).map_err(refusal)?;
    if let Some(compacted) = compacted {
        let print = if json { print_done_json } else { print_done };
        print(store, (&compacted, &plan, &left), out)?;
    }
    Ok(DONE)
}

/// The right to write, for as long as it is held.
fn lock(store: &Store) -> Result<DirLock, Failure> {
    let owner = std::fs::metadata(&store.path).map(|facts| facts.uid());
    let owner = owner.map_err(|error| Failure::new(1, format!("cannot look at it: {error}")))?;
    let us = rustix::process::geteuid().as_raw();
    if owner != us {
        let dir = store.path.display();
        return Err(Failure::new(7, format!("{dir} belongs to user {owner}, this is user {us}"))
            .with_help("the daemon could not open what is made here: run it as that user"));
    }
    DirLock::acquire(&store.path).map_err(|error| store.refusal(&error))
}

fn suspicious(store: &Store) -> Failure {
    let dir = &store.argument;
    Failure::new(8, "something here is suspicious, and a compaction would remove the evidence")
        .with_help(format!("midwatch-journal verify{dir} says what it is"))
        .with_help("a start of the daemon sets it aside in quarantine/; compact then")
}

fn print_plan(store: &Store, plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let dir = store.path.display();
    if plan.is_done {
        return writeln!(out, "nothing to free in {dir}: it is compact");
    }
    writeln!(out, "a compaction of {dir} would keep")?;
    writeln!(out, "  snapshot   at {}, {}", plan.seq, bytes(plan.snapshot_bytes))?;
    writeln!(out, "  segment    an empty one, {}", bytes(SEGMENT_BYTES_MIN))?;
    writeln!(out, "and remove")?;
    for File { path, bytes: length } in &plan.files {
        writeln!(out, "  {path}  {}", bytes(*length))?;
    }
    let (freed, before, after) = (freed(plan.freed()), plan.bytes(), plan.bytes_after());
    writeln!(out, "  frees      {freed}: {} now, {} then", bytes(before), bytes(after))?;
    writeln!(out, "What `dump` and `state --at` can show would begin at {}", plan.seq)?;
    writeln!(out, "Nothing was changed")
}

fn print_plan_json(store: &Store, plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let removed: &[File] = if plan.is_done { &[] } else { &plan.files };
    let document = json!({
        "data_dir": store.path.display().to_string(),
        "done": false,
        "compact_already": plan.is_done,
        "seq": plan.seq,
        "digest": null,
        "removed": files_json(removed),
        "bytes_before": plan.bytes(),
        "bytes_after": plan.bytes_after(),
    });
    writeln!(out, "{document}")
}

type Done<'d> = (&'d Compacted, &'d Plan, &'d [File]);

fn print_done(
    store: &Store,
    (compacted, plan, left): Done<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Compacted { seq, file, records, bytes: length, digest } = compacted;
    let (before, after) = (plan.bytes(), total(left));
    let removed = removed(plan, left);
    let segments = removed.iter().filter(|file| file.path.starts_with(JOURNAL_DIR)).count() as u64;
    let snapshots = removed.len() as u64 - segments;
    writeln!(out, "compacted {}", store.path.display())?;
    writeln!(out, "  snapshot   {file}")?;
    writeln!(out, "             at {seq}, {}, {}", things(*records, "record"), bytes(*length))?;
    writeln!(out, "  digest     {digest}")?;
    writeln!(out, "             read back from the disk; the same as before")?;
    let (segments, snapshots) = (things(segments, "segment"), things(snapshots, "snapshot"));
    writeln!(out, "  removed    {segments}, {snapshots}")?;
    let freed = freed(before.saturating_sub(after));
    writeln!(out, "  freed      {freed}: {} before, {} now", bytes(before), bytes(after))
}

fn freed(number: u64) -> String {
    if number == 0 { "nothing".to_owned() } else { bytes(number) }
}

fn print_done_json(
    store: &Store,
    (compacted, plan, left): Done<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Compacted { seq, file, records, bytes: length, digest } = compacted;
    let document = json!({
        "data_dir": store.path.display().to_string(),
        "done": true,
        "compact_already": false,
        "seq": seq,
        "digest": digest,
        "snapshot": {"file": file, "records": records, "bytes": length},
        "removed": files_json(&removed(plan, left)),
        "bytes_before": plan.bytes(),
        "bytes_after": total(left),
    });
    writeln!(out, "{document}")
}

/// The files that were there and are no more.
fn removed(plan: &Plan, left: &[File]) -> Vec<File> {
    let gone = |file: &&File| left.iter().all(|kept| kept.path != file.path);
    plan.files.iter().filter(gone).cloned().collect()
}

fn files_json(files: &[File]) -> Vec<Value> {
    files.iter().map(|File { path, bytes }| json!({"file": path, "bytes": bytes})).collect()
}
