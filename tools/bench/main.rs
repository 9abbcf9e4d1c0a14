//! The project's own figures, for `tools/bench.sh`: how fast work is taken on and handed out, against
//! what the machine allows and against peers, side by side in one run.
//!
//! Every system is started in an empty directory on the same file system, is loaded over a unix
//! socket, and is compared round by round: the round is the outer loop, so that all of them meet the
//! same noise. Only the ratios travel between machines.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a load generator measures time, starts programs and prints what it found"
)]

mod backlog;
mod commands;
mod daemon;
mod endurance;
mod http;
mod limits;
mod load;
mod peers;
mod snapshots;
mod table;
mod wear;

use load::{Fallible, Load, Op, Server};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use table::Table;

/// What to run.
struct Plan {
    /// The `midwatch` program.
    program: PathBuf,
    /// Where everything keeps its files.
    dir: PathBuf,
    rounds: usize,
    /// How long one load runs.
    span: Duration,
}

/// Tasks in a large backlog.
const BACKLOG: u64 = 1_000_000;

const USAGE: &str = "usage: bench PROGRAM DIR ROUNDS MILLISECONDS [submit] [bulk] [cycle] [commands] [endurance] [backlog] [snapshots] [wear]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, socket] = arguments.as_slice()
        && word == "stamp"
    {
        return ended(commands::stamp(socket));
    }
    let [program, dir, rounds, span, names @ ..] = arguments.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (Ok(rounds), Ok(span)) = (rounds.parse(), span.parse()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let span = Duration::from_millis(span);
    ended(run(&Plan { program: program.into(), dir: dir.into(), rounds, span }, names))
}

fn ended(done: Fallible<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan, names: &[String]) -> Fallible<()> {
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let millis = plan.span.as_millis();
    println!("{} rounds of {millis} ms a load, medians, (least to most)", plan.rounds);
    let servers = servers(plan);
    if wanted("submit") {
        submit(plan, &servers, 1)?;
        submit(plan, &servers, 32)?;
    }
    if wanted("bulk") {
        bulk(plan)?;
    }
    if wanted("cycle") {
        for workers in [1, 8, 32] {
            cycle(plan, &servers, workers)?;
        }
    }
    if wanted("commands") {
        commands::run(plan)?;
    }
    if wanted("endurance") {
        endurance::run(plan)?;
    }
    if wanted("backlog") {
        let mut servers = servers;
        if let Some(ours) = servers.first_mut() {
            *ours = Box::new(daemon::Midwatch::new(&plan.program).alone());
        }
        backlog::run(plan, &servers, BACKLOG)?;
        backlog::compacted(plan, BACKLOG)?;
    }
    if wanted("snapshots") {
        snapshots::run(plan, BACKLOG)?;
    }
    if wanted("wear") {
        wear::run(plan, BACKLOG)?;
    }
    Ok(())
}

/// midwatch, and the peers that are installed.
fn servers(plan: &Plan) -> Vec<Box<dyn Server>> {
    let mut servers: Vec<Box<dyn Server>> = vec![Box::new(daemon::Midwatch::new(&plan.program))];
    let peers: [Box<dyn Server>; 2] = [Box::new(peers::Beanstalkd), Box::new(peers::Redis)];
    for peer in peers {
        match peer.version() {
            Ok(version) => {
                println!("peer: {}, {version}", peer.name());
                servers.push(peer);
            }
            Err(error) => println!("peer: {} is left out: {error}", peer.name()),
        }
    }
    servers
}

fn submit(plan: &Plan, servers: &[Box<dyn Server>], clients: usize) -> Fallible<()> {
    let mut table = Table::new(format!("submit, durable, {clients} client(s), one task a request"));
    for _ in 0..plan.rounds {
        if clients == 1 {
            table.add("limit: append + sync, and one round trip", limits::one_by_one(plan)?);
        }
        table.add("limit: bare loop, one sync a turn", limits::bare_loop(plan, clients)?);
        for server in servers {
            let load = Load { op: Op::Submit, clients, span: plan.span };
            table.add(server.name(), load.on(&**server, &plan.dir)?);
        }
    }
    table.print();
    Ok(())
}

fn bulk(plan: &Plan) -> Fallible<()> {
    let mut table =
        Table::new("submit in bulk, durable, 1 client, 1,000 tasks a request".to_owned());
    let server = daemon::Midwatch::new(&plan.program);
    for _ in 0..plan.rounds {
        table.add("limit: 1,000 × 256 bytes in one append + sync", limits::bulk(plan)?);
        let load = Load { op: Op::Bulk, clients: 1, span: plan.span };
        table.add(server.name(), load.on(&server, &plan.dir)?);
    }
    table.print();
    Ok(())
}

fn cycle(plan: &Plan, servers: &[Box<dyn Server>], workers: usize) -> Fallible<()> {
    let title = format!("submit, take, finish, all durable, {workers} worker(s)");
    let mut table = Table::new(title);
    let batched = daemon::Midwatch::new(&plan.program).batched();
    for _ in 0..plan.rounds {
        for server in servers {
            let load = Load { op: Op::Cycle, clients: workers, span: plan.span };
            table.add(server.name(), load.on(&**server, &plan.dir)?);
        }
        if workers == 1 {
            let load = Load { op: Op::Cycle, clients: 1, span: plan.span };
            table.add("midwatch, 32 slots, in bulk", load.on(&batched, &plan.dir)?);
        }
    }
    table.print();
    Ok(())
}
