//! Real commands: how soon one starts after it was submitted, and how many run in a second.

use crate::Plan;
use crate::daemon::{bulk, lines, start};
use crate::http::Http;
use crate::load::{Fallible, fresh, patiently};
use crate::table::{Round, Table, float};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts that are timed in each round.
const STARTS: usize = 60;

/// Commands of one round.
const COMMANDS: u64 = 500;

/// Commands of one round for the queues that start a program for each submission.
const QUEUED: u64 = 200;

/// What the job does: says that it runs.
pub(crate) fn stamp(socket: &str) -> Fallible<()> {
    let now = nanos().to_le_bytes();
    UnixDatagram::unbound()?.send_to(&now, socket)?;
    Ok(())
}

fn nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Hears when a job runs.
struct Ear {
    socket: UnixDatagram,
    path: PathBuf,
    program: PathBuf,
}

impl Ear {
    fn open(dir: &Path) -> Fallible<Self> {
        let path = fresh(dir, "ear")?.join("socket");
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self { socket, path, program: std::env::current_exe()? })
    }

    /// The time from just before `submit` until the job said that it runs.
    fn time(&self, submit: impl FnOnce() -> Fallible<()>) -> Fallible<u64> {
        let began = nanos();
        submit()?;
        let mut ran = [0; 8];
        self.socket.recv(&mut ran)?;
        Ok(u64::from_le_bytes(ran).saturating_sub(began))
    }

    /// The job as a command line of its own.
    fn job(&self) -> [&Path; 3] {
        [&self.program, Path::new("stamp"), &self.path]
    }

    fn round(&self, mut submit: impl FnMut() -> Fallible<()>) -> Fallible<Round> {
        let mut times = Vec::with_capacity(STARTS);
        for place in 0..STARTS + 5 {
            let took = self.time(&mut submit)?;
            if 5 <= place {
                times.push(took);
            }
            // The end of the one must not stand in the way of the next.
            thread::sleep(Duration::from_millis(5));
        }
        let sum: u64 = times.iter().sum();
        Ok(Round::of(times, STARTS as u64, float(sum) / 1e9))
    }
}

fn silent(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn run_one(mut command: Command) -> Fallible<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

pub(crate) fn run(plan: &Plan) -> Fallible<()> {
    let ear = Ear::open(&plan.dir)?;
    let mut starts =
        Table::new("from just before the submission to the running process".to_owned());
    let mut rates = Table::new("/bin/true, two at a time".to_owned());
    let queues = [Queue::spooler(), Queue::nq()];
    let queues: Vec<_> = queues.into_iter().filter(Queue::is_installed).collect();
    for _ in 0..plan.rounds {
        let [program, word, path] = ear.job();
        starts.add(
            "limit: fork and exec in a loop",
            ear.round(|| {
                let mut command = silent(program);
                command.arg(word).arg(path);
                run_one(command)
            })?,
        );
        rates.add("limit: fork and exec in a loop, one thread", spawn_all(1)?);
        rates.add("limit: fork and exec in a loop, two threads", spawn_all(2)?);
        ours(plan, &ear, &mut starts, &mut rates)?;
        for queue in &queues {
            let dir = fresh(&plan.dir, queue.name)?;
            queue.start(&dir)?;
            starts.add(queue.name, ear.round(|| queue.submit(&dir, &ear.job()))?);
            rates.add(queue.name, queue.all(&dir)?);
            queue.stop(&dir)?;
        }
    }
    starts.print();
    rates.print();
    Ok(())
}

fn spawn_all(threads: u64) -> Fallible<Round> {
    let began = Instant::now();
    let share = COMMANDS / threads;
    let results = thread::scope(|scope| {
        let one = |_| scope.spawn(move || run_many(share));
        let threads: Vec<_> = (0..threads).map(one).collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    for result in results {
        result.map_err(|_panic| "a thread broke off")??;
    }
    Ok(per_command(COMMANDS, began))
}

fn run_many(count: u64) -> Fallible<()> {
    for _ in 0..count {
        run_one(silent(Path::new("/bin/true")))?;
    }
    Ok(())
}

/// The rate, and the time that one command took on average.
fn per_command(count: u64, began: Instant) -> Round {
    let seconds = began.elapsed().as_secs_f64();
    Round::once(count, seconds)
}

/// The whole daemon: supervisor, engine, one worker with two slots.
fn ours(plan: &Plan, ear: &Ear, starts: &mut Table, rates: &mut Table) -> Fallible<()> {
    let [program, word, path] = ear.job().map(|part| part.display().to_string());
    let config = format!(
        "[handlers.job]\ncommand = [\"/bin/true\"]\n\
         [handlers.stamp]\ncommand = [\"{program}\", \"{word}\", \"{path}\"]\n"
    );
    let dir = fresh(&plan.dir, "midwatch")?;
    let arguments = ["daemon", "--workers", "1", "--slots", "2"];
    let running = start(&plan.program, &dir, &config, &arguments)?;
    let mut http = Http::connect(&running.socket)?;
    patiently("no worker registers", || {
        let workers = http.get("/v1/workers")?;
        if workers.contains("\"name\"") { Ok(()) } else { Err("no worker".into()) }
    })?;
    starts.add("midwatch", ear.round(|| http.json("/v1/tasks", "{\"type\":\"stamp\"}").map(drop))?);
    starts.add(
        "midwatch, by its command line",
        ear.round(|| {
            let mut command = silent(&plan.program);
            command.arg("--socket").arg(&running.socket).args(["submit", "stamp"]);
            run_one(command)
        })?,
    );
    let before = successes(&mut http)?;
    let mut text = String::new();
    lines(&mut text, 1, COMMANDS);
    let began = Instant::now();
    bulk(&mut http, &text, COMMANDS)?;
    let limit = Duration::from_mins(2);
    while successes(&mut http)? < before + COMMANDS {
        if limit < began.elapsed() {
            return Err("the commands do not end".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    rates.add("midwatch", per_command(COMMANDS, began));
    Ok(())
}

fn successes(http: &mut Http) -> Fallible<u64> {
    let status: midwatch::api::StatusView = serde_json::from_str(http.get("/v1/status")?)?;
    Ok(status.tasks.get("SUCCESS").copied().unwrap_or(0))
}

/// A queue of commands that is used through programs.
struct Queue {
    name: &'static str,
    program: &'static str,
    submit: &'static [&'static str],
}

impl Queue {
    const fn spooler() -> Self {
        Self { name: "task-spooler", program: "tsp", submit: &["-n"] }
    }

    /// One at a time; it knows no slots.
    const fn nq() -> Self {
        Self { name: "nq, one at a time", program: "nq", submit: &["-q"] }
    }

    fn is_installed(&self) -> bool {
        // A queue directory of its own, so that a look at the version starts nothing that stays.
        let found = std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|dir| dir.join(self.program).exists())
        });
        if !found {
            println!("peer: {} is left out: it is not installed", self.name);
        }
        found
    }

    fn command(&self, dir: &Path) -> Command {
        let mut command = silent(Path::new(self.program));
        command.current_dir(dir).env("NQDIR", dir).env("TMPDIR", dir);
        command.env("TS_SOCKET", dir.join("socket")).env("TS_MAXFINISHED", "100000");
        command
    }

    fn start(&self, dir: &Path) -> Fallible<()> {
        if self.program != "tsp" {
            return Ok(());
        }
        let mut command = self.command(dir);
        command.args(["-S", "2"]);
        run_one(command)
    }

    fn stop(&self, dir: &Path) -> Fallible<()> {
        if self.program != "tsp" {
            return Ok(());
        }
        let mut command = self.command(dir);
        command.arg("-K");
        run_one(command)
    }

    fn submit(&self, dir: &Path, job: &[&Path]) -> Fallible<()> {
        let mut command = self.command(dir);
        command.args(self.submit).args(job);
        run_one(command)
    }

    fn all(&self, dir: &Path) -> Fallible<Round> {
        let began = Instant::now();
        for _ in 0..QUEUED {
            self.submit(dir, &[Path::new("/bin/true")])?;
        }
        patiently("the queue does not empty itself", || self.is_idle(dir))?;
        Ok(per_command(QUEUED, began))
    }

    fn is_idle(&self, dir: &Path) -> Fallible<()> {
        let mut command = self.command(dir);
        if self.program == "nq" {
            command.arg("-w");
            return run_one(command);
        }
        let output = command.stdout(Stdio::piped()).output()?;
        let list = String::from_utf8_lossy(&output.stdout);
        if list.contains(" queued ") || list.contains(" running ") {
            return Err("some are left".into());
        }
        Ok(())
    }
}
