//! Whether anybody notices a snapshot: the slowest submissions and the peak memory while one is
//! written, against the same load without one.

use crate::Plan;
use crate::backlog::filled;
use crate::daemon::Midwatch;
use crate::load::{Fallible, Load, Op, Running, Server, fresh};
use crate::table::{Table, float, spread};
use std::fs;
use std::path::Path;

/// Clients that submit meanwhile.
const CLIENTS: usize = 8;

/// Without a snapshot while the backlog is loaded and in the rounds that are compared with.
const NEVER: &str = "[journal]\nsnapshot_after = \"64GiB\"\n";

/// One at the first chance after the start.
const AT_ONCE: &str = "[journal]\nsnapshot_after = \"1MiB\"\n";

pub(crate) fn run(plan: &Plan, tasks: u64) -> Fallible<()> {
    for op in [Op::Submit, Op::Cycle] {
        let what = match op {
            Op::Cycle => "submit, take and finish",
            Op::Submit | Op::Bulk | Op::Take => "submit",
        };
        let title = format!("{what}, {CLIENTS} clients, beside {tasks} waiting tasks");
        let mut table = Table::new(title);
        let (mut slow, mut peaks) = (Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            let server = Midwatch::new(&plan.program).alone().with_config(NEVER);
            let dir = fresh(&plan.dir, "snapshots")?;
            filled(&server, &dir, tasks)?.leave();
            let (without, calm) = loaded(plan, &server, &dir, op)?;
            let server = Midwatch::new(&plan.program).alone().with_config(AT_ONCE);
            let (with, busy) = loaded(plan, &server, &dir, op)?;
            if busy.written == 0 {
                return Err("no snapshot was written meanwhile".into());
            }
            slow.push(with.p99 / without.p99);
            peaks.push(float(busy.peak) / float(calm.peak));
            table.add("without a snapshot", without);
            table.add("midwatch", with);
        }
        table.print();
        println!("  p99 with ÷ without: {}", spread(slow, 2));
        println!("  peak memory with ÷ without: {}", spread(peaks, 2));
    }
    Ok(())
}

/// What was seen beside a load.
struct Seen {
    /// Peak of the resident memory, in KiB.
    peak: u64,
    /// Snapshots that appeared.
    written: usize,
}

/// Starts the engine in a directory that holds a backlog, and loads it for as long as a snapshot
/// takes.
fn loaded(
    plan: &Plan,
    server: &Midwatch,
    dir: &Path,
    op: Op,
) -> Fallible<(crate::table::Round, Seen)> {
    let before = snapshots(dir)?;
    let mut running = server.start(dir)?;
    let load = Load { op, clients: CLIENTS, span: plan.span };
    let round = load.run(server, &running)?;
    let peak = peak(&running)?;
    let written = snapshots(dir)?.saturating_sub(before);
    running.end()?;
    running.leave();
    Ok((round, Seen { peak, written }))
}

fn snapshots(dir: &Path) -> Fallible<usize> {
    let Ok(entries) = fs::read_dir(dir.join("data/snapshots")) else { return Ok(0) };
    let names: Result<Vec<_>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let names: Vec<_> = names.map_err(|error: std::io::Error| error)?;
    Ok(names.iter().filter(|path| path.extension().is_some_and(|end| end == "snapshot")).count())
}

fn peak(running: &Running) -> Fallible<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", running.process.id()))?;
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let digits = peak.and_then(|rest| rest.split_whitespace().next()).ok_or("no VmHWM")?;
    Ok(digits.parse()?)
}
