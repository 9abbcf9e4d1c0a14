//! What happens in the demo, in its order.

use super::account::{Account, Checkpoint};
use super::house::{House, utf8, write_files};
use super::proof::{self, Finding};
use super::tell::{Tell, Tone};
use super::{BATCH, DemoError, HANDLER, TEXT};
use crate::api::{History, StatusView, SubmitRequest, Submitted, Workers};
use crate::client::ClientError;
use crate::kernel::ids::TaskId;
use crate::kernel::status::{Outcome, Status};
use crate::units::count;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How often the demo looks.
const LOOK_EVERY: Duration = Duration::from_millis(15);
/// The demo gives up then; it promised to be done in a minute.
const GIVE_UP: Duration = Duration::from_secs(55);
/// Seconds the handler pauses in each batch, so that there is a story to watch.
const PAUSE: f64 = 0.25;
/// Batches between the two murders.
const BATCHES_BETWEEN: usize = 2;

/// A murder: who, and up to which line the batch in flight goes.
#[derive(Clone, Copy, Debug)]
struct Murder {
    pid: u32,
    at: Duration,
    line: usize,
}

/// The checkpoint that the handler keeps, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Counted {
    lines: u64,
    words: u64,
}

/// Writes what the story needs: the text, the handler, the config.
pub(super) fn furnish(dir: &Path) -> io::Result<()> {
    let handler = dir.join("count-words.sh");
    let mut command = vec!["/bin/sh".to_owned(), utf8(&handler)?];
    for name in ["paradise-lost.txt", "counted", "marks"] {
        command.push(utf8(&dir.join(name))?);
    }
    let command = toml::Value::try_from(command).map_err(io::Error::other)?;
    let mut config = "[worker]\nprocesses = 1\nslots = 1\n\n".to_owned();
    writeln!(config, "[handlers.count_words]\ncommand = {command}").map_err(io::Error::other)?;
    write_files(&[
        (dir.join("paradise-lost.txt"), TEXT),
        (handler, HANDLER),
        (dir.join("midwatch.toml"), &config),
    ])
}

pub(super) struct Story<'a, 'b> {
    tell: &'a mut Tell<'b>,
    house: &'a mut House,
    task: TaskId,
    checkpoint: Option<Counted>,
    transitions: usize,
    attempts: usize,
    worker: Option<Murder>,
    engine: Option<Murder>,
    engine_is_back: bool,
}

impl<'a, 'b> Story<'a, 'b> {
    pub(super) fn new(tell: &'a mut Tell<'b>, house: &'a mut House) -> Self {
        Self {
            tell,
            house,
            task: TaskId(0),
            checkpoint: None,
            transitions: 0,
            attempts: 0,
            worker: None,
            engine: None,
            engine_is_back: false,
        }
    }

    /// Tells it from beginning to end; returns whether everything held.
    pub(super) fn run(mut self) -> Result<bool, DemoError> {
        self.prologue()?;
        self.until_all_serve()?;
        self.submit()?;
        let history = self.until_the_end()?;
        let mut findings = self.findings(&history);
        findings.extend(self.account()?);
        self.epilogue(&findings)
    }

    /// The journal's own words: what the daemon says of the task, and, once the daemon has gone,
    /// what is on disk.
    fn account(&mut self) -> Result<Vec<Finding>, DemoError> {
        self.tell.gap()?;
        self.tell.line(Tone::Plain, &format_args!("$ midwatch history {}", self.task))?;
        let history = self.house.ask(&["history", &self.task.to_string()])?;
        for line in String::from_utf8_lossy(&history.stdout).lines() {
            self.tell.line(Tone::Plain, &format_args!("  {line}").to_string().trim_end())?;
        }
        let end = self.house.stop()?;
        let account = Account::read(&self.house.dir().join("data"), self.task)?;
        self.tell.gap()?;
        self.tell.line(Tone::Plain, &"its checkpoints, from the journal on disk")?;
        for Checkpoint { seq, fence, data } in &account.checkpoints {
            let words = format_args!("  record {:>3}  fence {:>2}  {data}", seq.0, fence.0);
            self.tell.line(Tone::Plain, &words)?;
        }
        let batches = TEXT.lines().count().div_ceil(BATCH);
        let mut findings = vec![
            Finding::new(history.status.success(), "the daemon gave its account"),
            Finding::new(end.success(), "the daemon was told to go, drained, and went: exit 0"),
        ];
        findings.extend(account.findings(batches));
        Ok(findings)
    }

    fn prologue(&mut self) -> Result<(), DemoError> {
        let place = self.house.dir().display().to_string();
        let lines = count(u64::try_from(TEXT.lines().count()).unwrap_or(u64::MAX));
        self.tell.line(Tone::Plain, &"midwatch demo: the night watch reads Paradise Lost")?;
        self.tell.gap()?;
        for line in [
            format!(
                "  text   {lines} lines of John Milton, 1667, which came to us on punched cards"
            ),
            format!("  task   count the words, {} lines a batch, a checkpoint each", count(1000)),
            "  plan   kill -9 the worker half way, and the engine a little later".to_owned(),
            format!("  place  {place}"),
        ] {
            self.tell.line(Tone::Plain, &line)?;
        }
        self.tell.gap()
    }

    fn until_all_serve(&mut self) -> Result<(), DemoError> {
        let supervisor = self.house.supervisor();
        self.tell.event(Tone::Plain, &format_args!("midwatch daemon: supervisor {supervisor}"))?;
        loop {
            if let Some(status) = self.get::<StatusView>("/v1/status")?
                && let Some(worker) = self.living_worker()?
            {
                let engine = status.pid;
                let words = format_args!("engine {engine} serves, worker {worker} has registered");
                return self.tell.event(Tone::Plain, &words);
            }
            self.pass()?;
        }
    }

    fn submit(&mut self) -> Result<(), DemoError> {
        let doing = "submit its task";
        let payload = serde_json::json!({ "batch": BATCH, "pause": PAUSE });
        let payload = to_raw_value(&payload).map_err(|error| DemoError::new(doing, &error))?;
        let words = format!("count_words {payload}");
        let request = SubmitRequest {
            key: Some("demo".to_owned()),
            ..SubmitRequest::new("count_words", Some(payload))
        };
        let submitted: Result<Submitted, _> = self.house.client().post("/v1/tasks", &request);
        self.task = submitted.map_err(|error| DemoError::new(doing, &error))?.id;
        self.tell.event(Tone::Plain, &format_args!("task {} submitted: {words}", self.task))
    }

    fn until_the_end(&mut self) -> Result<History, DemoError> {
        let path = format!("/v1/tasks/{}/history", self.task);
        loop {
            self.engine_back()?;
            if let Some(history) = self.get::<History>(&path)? {
                self.tell_news(&history)?;
                if history.task.status.is_terminal() {
                    return Ok(history);
                }
            }
            self.strike()?;
            self.pass()?;
        }
    }

    /// Tells what has happened since the last look.
    fn tell_news(&mut self, history: &History) -> Result<(), DemoError> {
        let checkpoint = history.task.checkpoint.as_deref().and_then(counted);
        if let Some(counted) = checkpoint.filter(|_| checkpoint != self.checkpoint) {
            self.checkpoint = checkpoint;
            let (lines, words) = (count(counted.lines), count(counted.words));
            let book = book_of(counted.lines);
            let words = format_args!("checkpoint  {lines:>6} lines  {words:>6} words  {book}");
            self.tell.event(Tone::Plain, &words)?;
        }
        for transition in history.transitions.iter().skip(self.transitions) {
            let Some(from) = transition.from.filter(|from| *from != transition.to) else {
                continue;
            };
            if transition.to == Status::Running && from != Status::Lost {
                continue; // told as an attempt
            }
            let reason = transition.reason.map_or("", |reason| reason.word());
            let tone = if transition.to == Status::Success { Tone::Good } else { Tone::Plain };
            self.tell.event(tone, &format_args!("{from} → {}  {reason}", transition.to))?;
        }
        self.transitions = history.transitions.len();
        for attempt in history.attempts.iter().skip(self.attempts) {
            let (number, fence) = (attempt.attempt, attempt.fence);
            let line = count(self.checkpoint.map_or(0, |counted| counted.lines) + 1);
            let words = format_args!("attempt {number} begins at line {line}, fence {fence}");
            self.tell.event(Tone::Good, &words)?;
            if self.worker.is_some() && number == 2 {
                self.quote("Awake, arise")?;
            }
        }
        self.attempts = history.attempts.len();
        Ok(())
    }

    /// Kills the worker in the batch that reaches the middle, and the engine some batches later,
    /// each time between what a batch wrote and its checkpoint: the worst moment there is.
    fn strike(&mut self) -> Result<(), DemoError> {
        if self.engine.is_some() {
            return Ok(());
        }
        let marks = self.house.read("marks");
        let Some(line) = line_in_flight(&marks) else { return Ok(()) };
        let middle = TEXT.lines().count() / 2;
        match self.worker {
            None if middle < line => {
                let Some(pid) = self.living_worker()? else { return Ok(()) };
                let batch = line.div_ceil(BATCH);
                let words = format!("batch {batch} is written, its checkpoint is not");
                self.worker = Some(self.kill("worker", pid, line, &words)?);
            }
            Some(worker) if worker.line + BATCHES_BETWEEN * BATCH <= line && 1 < self.attempts => {
                let Some(status) = self.get::<StatusView>("/v1/status")? else { return Ok(()) };
                let words = "nobody is left to take the next checkpoint";
                self.engine = Some(self.kill("engine", status.pid, line, words)?);
            }
            None | Some(_) => {}
        }
        Ok(())
    }

    fn kill(&mut self, who: &str, pid: u32, line: usize, words: &str) -> Result<Murder, DemoError> {
        let doing = || format!("kill the {who} {pid}");
        let target = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let target = target.ok_or_else(|| DemoError::new(doing(), &"that is no pid"))?;
        kill_process(target, Signal::KILL).map_err(|error| DemoError::new(doing(), &error))?;
        self.tell.event(Tone::Bad, &format_args!("KILL -9 {who} {pid}: {words}"))?;
        Ok(Murder { pid, at: self.tell.elapsed(), line })
    }

    fn engine_back(&mut self) -> Result<(), DemoError> {
        let Some(murder) = self.engine.filter(|_| !self.engine_is_back) else { return Ok(()) };
        let Some(status) = self.get::<StatusView>("/v1/status")? else { return Ok(()) };
        if status.pid == murder.pid {
            return Ok(());
        }
        self.engine_is_back = true;
        let (pid, gap) = (status.pid, self.tell.elapsed().saturating_sub(murder.at).as_millis());
        let words = format_args!("engine {pid} serves in its place, {gap} ms later");
        self.tell.event(Tone::Good, &words)
    }

    fn findings(&self, history: &History) -> Vec<Finding> {
        let fences: Vec<u64> = history.attempts.iter().map(|attempt| attempt.fence.0).collect();
        let outcomes = history.attempts.iter().map(|attempt| attempt.outcome);
        let killed = outcomes.filter(|outcome| *outcome == Some(Outcome::Lost)).count();
        let task = &history.task;
        let result = task.result.as_deref().and_then(counted);
        let mut findings = proof::lines(TEXT, &self.house.read("counted"), BATCH, killed);
        findings.push(proof::sum(TEXT, result.map(|counted| counted.words)));
        findings.push(proof::overlaps(&self.house.read("marks"), &fences));
        findings.push(Finding::new(
            task.status == Status::Success && task.retry_count == 0 && task.lost_count == 1,
            format!(
                "{}, {} loss counted as a loss, {} of {} retries used",
                task.status, task.lost_count, task.retry_count, task.max_retry
            ),
        ));
        findings.push(Finding::new(
            self.worker.is_some() && self.engine_is_back,
            "one worker and one engine were killed on the way, and replaced",
        ));
        findings
    }

    fn epilogue(&mut self, findings: &[Finding]) -> Result<bool, DemoError> {
        self.tell.gap()?;
        self.tell.line(Tone::Plain, &"the proof, from the files that the handler wrote")?;
        for Finding { holds, words } in findings {
            let (mark, tone) = if *holds { ("ok", Tone::Good) } else { ("NO", Tone::Bad) };
            self.tell.line(tone, &format_args!("  {mark}  {words}"))?;
        }
        let holds = findings.iter().all(|finding| finding.holds);
        self.tell.gap()?;
        if holds {
            self.quote("The world was all before them")?;
            let program = self.house.program();
            self.tell
                .line(Tone::Plain, &format_args!("  {program} daemon --data-dir /tmp/watch &"))?;
            let words =
                format_args!("  {program} --data-dir /tmp/watch submit --exec -- echo all is well");
            self.tell.line(Tone::Plain, &words)?;
        }
        Ok(holds)
    }

    fn quote(&mut self, beginning: &str) -> Result<(), DemoError> {
        let Some((number, line)) = find_line(beginning) else { return Ok(()) };
        let line = line.trim_matches(['"', ' ', ',']);
        self.tell.line(Tone::Faint, &format_args!("           “{line}”  line {}", count(number)))
    }

    fn living_worker(&self) -> Result<Option<u32>, DemoError> {
        let workers = self.get::<Workers>("/v1/workers")?;
        let mut workers = workers.into_iter().flat_map(|workers| workers.workers);
        Ok(workers.find(|worker| worker.status == "alive").map(|worker| worker.pid))
    }

    /// An answer, or none because there is no engine to give it.
    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, DemoError> {
        match self.house.client().get(path) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_passing() => Ok(None),
            Err(ClientError::Protocol { what }) => {
                Err(DemoError::new(format!("read what {path} answers"), &what))
            }
            Err(error) => Err(DemoError::new(format!("get {path}"), &error)),
        }
    }

    fn pass(&mut self) -> Result<(), DemoError> {
        if GIVE_UP < self.tell.elapsed() {
            return Err(DemoError::new("finish within a minute", &"it was still going on"));
        }
        self.house.pass(LOOK_EVERY)
    }
}

fn counted(json: &RawValue) -> Option<Counted> {
    serde_json::from_str(json.get()).ok()
}

/// The last line of the batch that is written and has no checkpoint yet.
fn line_in_flight(marks: &str) -> Option<usize> {
    let mut words = marks.lines().next_back()?.split(' ').skip(1);
    (words.next() == Some("wrote")).then(|| words.nth(1))?.and_then(|line| line.parse().ok())
}

/// The book of the poem that a line stands in.
fn book_of(line: u64) -> &'static str {
    let lines = TEXT.lines().take(usize::try_from(line).unwrap_or(usize::MAX));
    lines.filter(|line| line.starts_with("Book ")).last().unwrap_or("")
}

fn find_line(beginning: &str) -> Option<(u64, &'static str)> {
    (1..).zip(TEXT.lines()).find(|(_, line)| line.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_to_strike_is_between_what_was_written_and_its_checkpoint() {
        assert_eq!(line_in_flight(""), None);
        assert_eq!(line_in_flight("7 start 0\n7 begin 1 1000\n"), None);
        assert_eq!(line_in_flight("7 begin 1 1000\n7 wrote 1 1000\n"), Some(1000));
        assert_eq!(line_in_flight("7 wrote 1 1000\n7 checkpoint 1000\n"), None);
    }

    #[test]
    fn lines_of_the_poem_are_found_where_they_stand() {
        assert_eq!(book_of(1000), "Book II");
        assert_eq!(book_of(10_600), "Book XII");
        assert_eq!(find_line("Awake, arise").map(|(number, _)| number), Some(334));
        assert!(find_line("The world was all before them").is_some());
    }
}
