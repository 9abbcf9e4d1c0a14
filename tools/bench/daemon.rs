//! midwatch under load: supervisor and engine, and clients that speak its API.

use crate::http::Http;
use crate::load::{Client, Fallible, Op, Running, Server, patiently, payload};
use midwatch::process::{self, WorkerLock};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tasks in one bulk submission.
const BULK: u64 = 1000;

/// Slots of the worker that works in bulk.
const SLOTS: usize = 32;

pub(crate) struct Midwatch {
    program: PathBuf,
    batched: bool,
    /// Without a supervisor, so that the process is the engine.
    alone: bool,
    config: &'static str,
}

impl Midwatch {
    pub(crate) fn new(program: &Path) -> Self {
        Self { program: program.to_owned(), batched: false, alone: false, config: "" }
    }

    /// One worker with many slots and bulk submission, as a real worker does it.
    pub(crate) fn batched(self) -> Self {
        Self { batched: true, ..self }
    }

    /// The engine without a supervisor.
    pub(crate) fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// With more in its config: keys of `[retention]`, or tables.
    pub(crate) fn with_config(self, config: &'static str) -> Self {
        Self { config, ..self }
    }
}

/// Starts a command of midwatch in `dir` with this config.
pub(crate) fn start(
    program: &Path,
    dir: &Path,
    config: &str,
    arguments: &[&str],
) -> Fallible<Running> {
    let path = dir.join("midwatch.toml");
    fs::write(&path, config)?;
    let data = dir.join("data");
    let mut command = Command::new(program);
    command.arg("--config").arg(&path).arg("--data-dir").arg(&data).args(arguments);
    let log = fs::File::create(dir.join("log"))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let socket = data.join("midwatch.sock");
    let running = Running::new(command.spawn()?, dir, socket);
    patiently("midwatch does not answer", || {
        Http::connect(&running.socket)?.get("/readyz").map(drop)
    })?;
    Ok(running)
}

impl Server for Midwatch {
    fn name(&self) -> &'static str {
        "midwatch"
    }

    fn version(&self) -> Fallible<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn start(&self, dir: &Path) -> Fallible<Running> {
        // As in service: a supervisor and the engine; the workers are ours.
        // The backlog is what is measured, not where it would be refused. Last, so that what is
        // added may go on in this table.
        let handlers =
            "[handlers.job]\ncommand = [\"/bin/true\"]\n[retention]\nmax_state = \"16GiB\"\n";
        let arguments: &[&str] =
            if self.alone { &["engine"] } else { &["daemon", "--workers", "0"] };
        start(&self.program, dir, &format!("{handlers}{}", self.config), arguments)
    }

    fn client(&self, running: &Running, op: Op) -> Fallible<Box<dyn Client>> {
        let mut http = Http::connect(&running.socket)?;
        match op {
            Op::Submit | Op::Bulk => Ok(Box::new(Submitter { http, text: String::new() })),
            Op::Cycle | Op::Take => {
                let slots = if self.batched { SLOTS } else { 1 };
                let (lock, worker) = register(&mut http, running, slots)?;
                let paths = Paths {
                    lease: format!("/v1/workers/{worker}/lease"),
                    finish: format!("/v1/workers/{worker}/finish"),
                };
                let mut client = Worker {
                    http,
                    paths,
                    slots,
                    held: Vec::new(),
                    text: String::new(),
                    left: 0,
                    _lock: lock,
                };
                client.begin(op)?;
                Ok(Box::new(client))
            }
        }
    }
}

fn register(http: &mut Http, running: &Running, slots: usize) -> Fallible<(WorkerLock, u64)> {
    let lock = WorkerLock::take(&running.dir.join("data/run"))?;
    let us = serde_json::to_string(&process::current()?)?;
    let request = format!(
        "{{\"name\":\"bench\",\"process\":{us},\"host\":\"bench\",\"version\":\"0\",\
         \"lock\":\"{}\",\"types\":[\"job\"],\"slots\":{slots}}}",
        lock.name()
    );
    let answer = http.json("/v1/workers", &request)?;
    let worker = number_after(answer, "\"worker\":").ok_or("no worker in the answer")?;
    Ok((lock, worker))
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(name)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn submission(text: &mut String, number: u64) {
    text.push_str("{\"type\":\"job\",\"payload\":");
    text.push_str(&payload(number));
    text.push('}');
}

/// A body of many lines.
pub(crate) fn lines(text: &mut String, number: u64, count: u64) {
    text.clear();
    for line in 0..count {
        submission(text, number.wrapping_mul(count).wrapping_add(line));
        text.push('\n');
    }
}

struct Submitter {
    http: Http,
    text: String,
}

impl Client for Submitter {
    fn act(&mut self, op: Op, number: u64) -> Fallible<u64> {
        if let Op::Bulk = op {
            lines(&mut self.text, number, BULK);
            return bulk(&mut self.http, &self.text, BULK);
        }
        self.text.clear();
        submission(&mut self.text, number);
        let answer = self.http.json("/v1/tasks", &self.text)?;
        number_after(answer, "\"id\":").ok_or("no id in the answer")?;
        Ok(1)
    }
}

/// Submits lines; every one of them must be taken.
pub(crate) fn bulk(http: &mut Http, lines: &str, count: u64) -> Fallible<u64> {
    let answer = http.post("/v1/tasks", "application/x-ndjson", lines)?;
    let taken = answer.lines().filter(|line| line.contains("\"id\":")).count();
    if taken as u64 == count {
        Ok(count)
    } else {
        Err(format!("only {taken} of {count} lines were taken").into())
    }
}

struct Paths {
    lease: String,
    finish: String,
}

struct Worker {
    http: Http,
    paths: Paths,
    slots: usize,
    held: Vec<Held>,
    text: String,
    /// Tasks submitted in bulk that were not yet leased.
    left: usize,
    _lock: WorkerLock,
}

struct Held {
    task: u64,
    fence: u64,
    secret: String,
}

/// The leases in an answer; payloads cannot hold the words that are looked for.
fn leases(answer: &str, held: &mut Vec<Held>) -> Option<()> {
    held.clear();
    let (_, mut rest) = answer.split_once("\"leases\":[")?;
    while let Some((_, from)) = rest.split_once("\"task\":") {
        let task = number_after(rest, "\"task\":")?;
        let fence = number_after(from, "\"fence\":")?;
        let (_, secret) = from.split_once("\"secret\":\"")?;
        let (secret, after) = secret.split_once('"')?;
        held.push(Held { task, fence, secret: secret.to_owned() });
        rest = after;
    }
    Some(())
}

impl Worker {
    /// Takes its first tasks, so that every later request finishes some and takes the next.
    fn begin(&mut self, op: Op) -> Fallible<()> {
        if let Op::Cycle = op {
            self.submit(0)?;
        }
        let request = format!("{{\"slots\":{},\"wait_ms\":0}}", self.slots);
        let answer = self.http.json(&self.paths.lease, &request)?;
        leases(answer, &mut self.held).ok_or("no leases in the answer")?;
        self.left = self.left.saturating_sub(self.held.len());
        Ok(())
    }

    fn submit(&mut self, number: u64) -> Fallible<()> {
        if self.slots == 1 {
            self.text.clear();
            submission(&mut self.text, number);
            self.http.json("/v1/tasks", &self.text)?;
        } else if self.left < self.slots {
            lines(&mut self.text, number, BULK);
            bulk(&mut self.http, &self.text, BULK)?;
            self.left += usize::try_from(BULK)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Fallible<u64> {
        let ended = self.held.len();
        self.text.clear();
        self.text.push_str("{\"ends\":[");
        for (place, Held { task, fence, secret }) in self.held.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(
                self.text,
                "{comma}{{\"task\":{task},\"fence\":{fence},\"secret\":\"{secret}\",\
                 \"outcome\":\"success\",\"started\":true,\"exit_code\":0}}"
            )?;
        }
        write!(self.text, "],\"slots\":{}}}", self.slots)?;
        let answer = self.http.json(&self.paths.finish, &self.text)?;
        if answer.matches("\"status\":\"SUCCESS\"").count() != ended {
            return Err(format!("an end was refused: {answer}").into());
        }
        leases(answer, &mut self.held).ok_or("no leases in the answer")?;
        self.left = self.left.saturating_sub(self.held.len());
        if self.held.is_empty() {
            return Err(format!("nothing was leased: {answer}").into());
        }
        Ok(ended as u64)
    }
}

impl Client for Worker {
    fn act(&mut self, op: Op, number: u64) -> Fallible<u64> {
        if let Op::Cycle = op {
            self.submit(number)?;
        }
        self.finish()
    }
}
