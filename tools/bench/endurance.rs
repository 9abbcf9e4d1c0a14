//! What very many failing attempts, and as many connections that break off, leave in the daemon's
//! processes: nothing.

#[path = "../metal/taken.rs"]
mod taken;

use crate::Plan;
use crate::daemon::{bulk, lines, start};
use crate::http::Http;
use crate::load::{Fallible, Running, fresh, patiently};
use crate::table::float;
use midwatch::api::{StatusView, TaskList, Workers};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use taken::Taken;

/// Failing attempts, by so many tasks.
const ATTEMPTS: u64 = 20_000;
const TASKS: u64 = 20;

/// Connections that break off.
const CONNECTIONS: u64 = 20_000;

/// Longest time that the attempts may take.
const LIMIT: Duration = Duration::from_mins(20);

/// How much more memory the last quarter may show than the first.
const GROWTH: f64 = 1.1;

/// How many more descriptors it may show: what is under way at one look and not at another. One
/// that stayed of each thousand attempts would be more.
const JITTER: u64 = 8;

/// What a client says before it is gone: nothing, half a head, half a body, a whole request whose
/// answer it does not take.
const HALVES: [&str; 4] = [
    "",
    "POST /v1/tasks HTTP/1.1\r\nhost: m\r\ncontent-len",
    "POST /v1/tasks HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\n\
     content-length: 15\r\n\r\n{\"type\"",
    "GET /v1/status HTTP/1.1\r\nhost: m\r\n\r\n",
];

pub(crate) fn run(plan: &Plan) -> Fallible<()> {
    let config = format!(
        "[log]\nlevel = \"warn\"\n[handlers.job]\ncommand = [\"/bin/false\"]\n\
         retry = {{ max_retry = {}, base = \"1ms\", cap = \"1ms\" }}\n",
        ATTEMPTS / TASKS - 1
    );
    let dir = fresh(&plan.dir, "endurance")?;
    let arguments = ["daemon", "--workers", "1", "--slots", "2"];
    let running = start(&plan.program, &dir, &config, &arguments)?;
    let mut processes = Processes::of(&running)?;
    let began = Instant::now();
    let done = processes.watch_attempts(&running.socket)?;
    let rate = float(done) / began.elapsed().as_secs_f64();
    let steady = processes.judge(&format!("{done} failing attempts, {rate:.0} a second"));
    processes.forget();
    let began = Instant::now();
    processes.watch_connections(&running.socket)?;
    let rate = float(CONNECTIONS) / began.elapsed().as_secs_f64();
    let steady =
        processes.judge(&format!("{CONNECTIONS} broken connections, {rate:.0} a second")) && steady;
    if steady { Ok(()) } else { Err("something grows".into()) }
}

/// Supervisor, engine and worker, and what they took from look to look.
struct Processes {
    all: [(&'static str, u32, Vec<Taken>); 3],
}

impl Processes {
    fn of(running: &Running) -> Fallible<Self> {
        let mut http = Http::connect(&running.socket)?;
        let worker = patiently("no worker registers", || {
            let workers: Workers = serde_json::from_str(http.get("/v1/workers")?)?;
            workers.workers.first().map(|worker| worker.pid).ok_or_else(|| "no worker".into())
        })?;
        let status: StatusView = serde_json::from_str(http.get("/v1/status")?)?;
        let all = [
            ("supervisor", running.process.id(), Vec::new()),
            ("engine", status.pid, Vec::new()),
            ("worker", worker, Vec::new()),
        ];
        Ok(Self { all })
    }

    fn look(&mut self) -> Fallible<()> {
        for (name, pid, looks) in &mut self.all {
            looks.push(Taken::of(*pid).ok_or_else(|| format!("the {name} is gone"))?);
        }
        Ok(())
    }

    /// Waits until the engine has no more open than `before`.
    fn until_cleared(&self, before: u64) -> Fallible<()> {
        patiently("the engine keeps broken connections", || {
            let now = self.engine()?;
            if now <= before + JITTER { Ok(()) } else { Err("it has more open".into()) }
        })
    }

    /// Descriptors that the engine has open now.
    fn engine(&self) -> Fallible<u64> {
        let [_, (_, pid, _), _] = &self.all;
        Ok(Taken::of(*pid).ok_or("the engine is gone")?.descriptors)
    }

    fn forget(&mut self) {
        for (.., looks) in &mut self.all {
            looks.clear();
        }
    }

    /// Looks until every task is out of retries; how many attempts failed.
    fn watch_attempts(&mut self, socket: &Path) -> Fallible<u64> {
        let mut http = Http::connect(socket)?;
        let mut text = String::new();
        lines(&mut text, 1, TASKS);
        bulk(&mut http, &text, TASKS)?;
        let began = Instant::now();
        loop {
            thread::sleep(Duration::from_millis(200));
            self.look()?;
            let status: StatusView = serde_json::from_str(http.get("/v1/status")?)?;
            if status.tasks.get("DEAD") == Some(&TASKS) {
                break;
            }
            if LIMIT < began.elapsed() {
                return Err("the attempts do not end".into());
            }
        }
        let list: TaskList = serde_json::from_str(http.get("/v1/tasks?limit=500")?)?;
        Ok(list.tasks.iter().map(|task| u64::from(task.retry_count)).sum())
    }

    /// Breaks connections off; now and then what they left must have been cleared away.
    fn watch_connections(&mut self, socket: &Path) -> Fallible<()> {
        self.look()?;
        let before = self.engine()?;
        for (number, half) in (0..CONNECTIONS).zip(HALVES.iter().cycle()) {
            UnixStream::connect(socket)?.write_all(half.as_bytes())?;
            if number % 200 == 199 {
                self.until_cleared(before)?;
                self.look()?;
            }
        }
        Ok(())
    }

    /// Prints a table of the most taken in the first quarter and in the last; whether nothing grew.
    fn judge(&self, title: &str) -> bool {
        println!("\n{title}: most in the first quarter, most in the last, at the end");
        let mut is_steady = true;
        for (name, _, looks) in &self.all {
            let quarter = looks.len() / 4;
            let most = |looks: &[Taken]| looks.iter().copied().fold(Taken::default(), Taken::most);
            let first = most(looks.get(..quarter).unwrap_or_default());
            let last = most(looks.get(looks.len() - quarter..).unwrap_or_default());
            let end = looks.last().copied().unwrap_or_default();
            let growth = float(last.resident_kib) / float(first.resident_kib);
            let grew = GROWTH < growth
                || first.descriptors + JITTER < last.descriptors
                || first.threads < last.threads;
            is_steady &= !grew;
            let verdict = if grew { "GROWS" } else { "steady" };
            println!("  {name:<10} {first}");
            println!("  {:<10} {last}", "");
            println!("  {:<10} {end}; memory × {growth:.2}, {verdict}", "");
        }
        is_steady
    }
}
