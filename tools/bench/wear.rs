//! What the disk has to bear: bytes written for each transition that is made durable, one at a time
//! and in batches, and how large the journal grows while many tasks pass through small files.
//!
//! Bytes are those that the kernel charges to the process (`write_bytes` of `/proc/PID/io`): whole
//! pages, as they go to the device, without what the file system adds for itself. A bare append with
//! its sync is measured the same way in the same round.

use crate::Plan;
use crate::daemon::Midwatch;
use crate::http::Http;
use crate::limits;
use crate::load::{Fallible, Op, Running, Server, fresh};
use crate::table::{float, spread};
use midwatch::journal::{RealDisk, scan};
use std::fs::{self, DirEntry};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Nothing is taken together, so that the journal can be counted afterwards.
const WHOLE: &str = "[journal]\nsnapshot_after = \"64GiB\"\n";

/// Small files, frequent snapshots, and few ended tasks that stay.
const SMALL: &str = "max_finished = 1000\n\
     [journal]\nsegment_size = \"64KiB\"\nsnapshot_after = \"1MiB\"\nreserve = \"64KiB\"\n";
const SMALL_SEGMENT: u64 = 64 << 10;
const SMALL_AFTER: u64 = 1 << 20;

/// What one turn of the load commits at most: 1,000 tasks submitted in one request.
const TURN: u64 = 1_000 * 300;

/// Tasks submitted one by one in a round.
const SINGLE: u64 = 2_000;
/// Bulk submissions in a round, 1,000 tasks each.
const BATCHES: u64 = 40;
/// Tasks that are moved between two looks at the sizes.
const LOOK_EVERY: u64 = 20_000;

pub(crate) fn run(plan: &Plan, tasks: u64) -> Fallible<()> {
    let (mut singles, mut batches) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let limit = limits::page_and_sync(plan, SINGLE)?;
        let single = cost(plan, Op::Submit, SINGLE)?;
        singles.push(single.written / limit);
        println!(
            "one at a time: {:.0} bytes a transition, {limit:.0} for an append and a sync alone",
            single.written
        );
        let batch = cost(plan, Op::Bulk, BATCHES)?;
        batches.push(batch.written / batch.records);
        println!(
            "in batches: {:.0} bytes a transition, {:.0} of them records",
            batch.written, batch.records
        );
    }
    println!("\none at a time ÷ an append and a sync: {}", spread(singles, 2));
    println!("in batches ÷ record bytes: {}", spread(batches, 2));
    bounded(plan, tasks)
}

/// Bytes for each transition.
struct Cost {
    written: f64,
    records: f64,
}

fn cost(plan: &Plan, op: Op, times: u64) -> Fallible<Cost> {
    let server = Midwatch::new(&plan.program).alone().with_config(WHOLE);
    let mut running = server.start(&fresh(&plan.dir, "wear")?)?;
    let mut client = server.client(&running, op)?;
    let before = limits::written_by(running.process.id())?;
    let mut moved = 0;
    for number in 0..times {
        moved += client.act(op, number)?;
    }
    let written = limits::written_by(running.process.id())? - before;
    drop(client);
    running.end()?;
    let report = scan(&RealDisk::open(&running.dir.join("data"))?, &mut ())?;
    Ok(Cost {
        written: float(written) / float(moved),
        records: float(report.record_bytes) / float(moved),
    })
}

/// What is in a data directory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    journal: u64,
    /// The largest snapshot that counts.
    snapshot: u64,
}

impl Sizes {
    /// Sizes once no snapshot is being written: what is committed meanwhile depends on how fast the
    /// load is, and the bound leaves it out.
    fn at_rest(running: &Running) -> Fallible<Self> {
        let snapshots = running.dir.join("data/snapshots");
        while fs::read_dir(&snapshots)?.flatten().any(|entry| !is_finished(&entry)) {
            thread::sleep(Duration::from_millis(5));
        }
        // The engine takes note of a finished snapshot in the turn after it.
        Http::connect(&running.socket)?.get("/v1/status")?;
        Self::of(running)
    }

    fn of(running: &Running) -> Fallible<Self> {
        let data = running.dir.join("data");
        let snapshots = lengths(&data.join("snapshots"))?;
        Ok(Self {
            journal: lengths(&data.join("journal"))?.iter().sum(),
            snapshot: snapshots.into_iter().max().unwrap_or(0),
        })
    }

    /// The bound of `spec/journal.md` for frames of many records, at a time when no snapshot is
    /// being written.
    fn bound(self) -> u64 {
        (2 * SMALL_AFTER.max(2 * self.snapshot) + TURN) * 9 / 8 + 3 * SMALL_SEGMENT
    }
}

fn is_finished(entry: &DirEntry) -> bool {
    entry.path().extension().is_some_and(|ending| ending != "tmp")
}

/// Lengths of the finished files in a directory; one that goes meanwhile counts no more.
fn lengths(dir: &Path) -> Fallible<Vec<u64>> {
    let mut lengths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let (true, Ok(facts)) = (is_finished(&entry), entry.metadata()) {
            lengths.push(facts.len());
        }
    }
    Ok(lengths)
}

/// Submits, leases and finishes `tasks` tasks through small files.
fn bounded(plan: &Plan, tasks: u64) -> Fallible<()> {
    let server = Midwatch::new(&plan.program).batched().alone().with_config(SMALL);
    let mut running = server.start(&fresh(&plan.dir, "bounded")?)?;
    let mut client = server.client(&running, Op::Cycle)?;
    let before = limits::written_by(running.process.id())?;
    let (mut moved, mut number, mut next) = (0, 0, LOOK_EVERY);
    let (mut most, mut fullest, mut last) = (0, 0.0_f64, Sizes::default());
    while moved < tasks {
        number += 1;
        moved += client.act(Op::Cycle, number)?;
        if next <= moved {
            next += LOOK_EVERY;
            last = Sizes::at_rest(&running)?;
            most = most.max(last.journal);
            fullest = fullest.max(float(last.journal) / float(last.bound()));
        }
    }
    let written = limits::written_by(running.process.id())? - before;
    drop(client);
    running.end()?;
    println!(
        "\n{moved} tasks through segments of 64 KiB: the journal had {most} bytes at most, at most \
         {fullest:.2} of its bound; the last snapshot has {} bytes; {:.0} bytes written a task, \
         snapshots included",
        last.snapshot,
        float(written) / float(moved)
    );
    if fullest <= 1.0 { Ok(()) } else { Err("the journal outgrew its bound".into()) }
}
