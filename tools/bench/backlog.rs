//! What a large backlog costs: memory and disk for each waiting task, the way back after a SIGKILL,
//! and whether the pace of dispatch depends on how much waits.

use crate::Plan;
use crate::daemon::Midwatch;
use crate::load::{Fallible, Load, Op, Running, Server, fresh, patiently};
use crate::table::{OURS, Round, Table, float, spread};
use midwatch::engine::codec;
use midwatch::journal::{Place, RealDisk, Record, Visitor, scan};
use midwatch::kernel::event::Event;
use midwatch::kernel::ids::Seq;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Tasks that wait beside the large backlog's in the comparison of paces.
const FEW: u64 = 20_000;

/// Workers that take and finish.
const WORKERS: usize = 8;

pub(crate) fn run(plan: &Plan, servers: &[Box<dyn Server>], tasks: u64) -> Fallible<()> {
    let mut few = Table::new(format!("take and finish, {WORKERS} workers, {FEW} waiting"));
    let mut many = Table::new(format!("take and finish, {WORKERS} workers, {tasks} waiting"));
    let mut back = Table::new(format!("SIGKILL, start, first task taken, {tasks} waiting"));
    println!("\nwith {tasks} waiting tasks of 200 bytes");
    println!("  {:<45} {:>15} {:>15}", "", "memory, B/task", "disk, B/task");
    for server in servers {
        let dir = fresh(&plan.dir, server.name())?;
        let running = filled(&**server, &dir, tasks)?;
        let mut running = running;
        for round in 0..plan.rounds {
            if server.name() == OURS {
                running.kill()?;
                back.add("limit: read, check, decode, build", limit(&running.dir.join("data"))?);
            }
            let (again, took) = killed_and_back(&**server, running)?;
            running = again;
            if round == 0 {
                // Whoever has handed out a task has loaded them all.
                let memory = float(memory(&running)?) / float(tasks);
                let disk = float(bytes_below(&running.dir)?) / float(tasks);
                println!("  {:<45} {memory:>15.0} {disk:>15.0}", server.name());
            }
            back.add(server.name(), Round::once(1, took.as_secs_f64()));
            let load = Load { op: Op::Take, clients: WORKERS, span: plan.span };
            many.add(server.name(), load.run(&**server, &running)?);
        }
        drop(running);
        for _ in 0..plan.rounds {
            let dir = fresh(&plan.dir, server.name())?;
            let running = filled(&**server, &dir, FEW)?;
            let load = Load { op: Op::Take, clients: WORKERS, span: plan.span / 4 };
            few.add(server.name(), load.run(&**server, &running)?);
        }
    }
    back.print();
    many.print();
    few.print();
    let pace = many.rates_of(OURS).into_iter().zip(few.rates_of(OURS));
    let pace = spread(pace.map(|(many, few)| many / few).collect(), 2);
    println!("  our pace with {tasks} waiting ÷ with {FEW}: {pace}");
    Ok(())
}

/// A system with a backlog, started for good.
pub(crate) fn filled(server: &dyn Server, dir: &Path, tasks: u64) -> Fallible<Running> {
    let running = server.start_loading(dir)?;
    let mut client = server.client(&running, Op::Bulk)?;
    let (mut done, mut number) = (0, 0);
    while done < tasks {
        done += client.act(Op::Bulk, number)?;
        number += 1;
    }
    drop(client);
    server.start(&running.leave())
}

/// Starts again in the directory of one that was killed, up to the first task in a worker's hand.
fn killed_and_back(server: &dyn Server, mut running: Running) -> Fallible<(Running, Duration)> {
    running.kill()?;
    let began = Instant::now();
    let running = server.start(&running.leave())?;
    patiently("no task after a restart", || {
        server.client(&running, Op::Take)?.act(Op::Take, 0).map(drop)
    })?;
    Ok((running, began.elapsed()))
}

/// Proportional set size of the process, in bytes.
fn memory(running: &Running) -> Fallible<u64> {
    let path = format!("/proc/{}/smaps_rollup", running.process.id());
    let text = fs::read_to_string(path)?;
    let pss = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let digits = pss.and_then(|rest| rest.split_whitespace().next()).ok_or("no PSS")?;
    Ok(digits.parse::<u64>()? * 1024)
}

/// Bytes on disk of all files below a directory.
pub(crate) fn bytes_below(dir: &Path) -> Fallible<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        bytes += if facts.is_dir() { bytes_below(&entry.path())? } else { facts.blocks() * 512 };
    }
    Ok(bytes)
}

/// What any engine of this kind must do at a start, one after the other on one core: read and check
/// each byte, decode each record, put each task into a table and into an ordered map.
fn limit(data: &Path) -> Fallible<Round> {
    #[derive(Default)]
    struct Build {
        table: Vec<[u64; 16]>,
        kept: Vec<Event>,
        order: BTreeMap<(i64, u64), u64>,
    }
    impl Visitor for Build {
        fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
            let decoded = codec::decode(Seq(place.seq), record.kind, record.body);
            let (stamp, event) = decoded.map_err(|error| error.to_string())?;
            let id = event.task().map_or(0, |task| task.0);
            self.table.push([id; 16]);
            self.order.insert((i64::from(record.kind), stamp.life.0 << 32 | id), id);
            self.kept.push(event); // it stays in the table of whoever builds one
            Ok(())
        }
    }
    let began = Instant::now();
    let mut build = Build::default();
    scan(&RealDisk::open(data)?, &mut build)?;
    let took = began.elapsed();
    if build.table.is_empty() || build.order.is_empty() || build.kept.is_empty() {
        return Err("nothing was read".into());
    }
    Ok(Round::once(1, took.as_secs_f64()))
}

/// How many bytes a waiting task takes after a compaction by the journal tool.
pub(crate) fn compacted(plan: &Plan, tasks: u64) -> Fallible<()> {
    let server = Midwatch::new(&plan.program).alone();
    let dir = fresh(&plan.dir, "compacted")?;
    let mut running = filled(&server, &dir, tasks)?;
    running.end()?;
    let tool = plan.program.with_file_name("midwatch-journal");
    let data = running.dir.join("data");
    let status = std::process::Command::new(tool).arg("compact").arg(&data).status()?;
    if !status.success() {
        return Err("the compaction failed".into());
    }
    let reserve = fs::metadata(data.join("reserve")).map_or(0, |file| file.blocks() * 512);
    let bytes = bytes_below(&data)?.saturating_sub(reserve);
    println!("\nafter a compaction: {:.0} bytes on disk a task", float(bytes) / float(tasks));
    Ok(())
}
