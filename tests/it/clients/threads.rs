//! Handlers on threads of this very process, against an engine that knows no rules.

use crate::eventually::eventually;
use crate::fake_engine::FakeEngine;
use midwatch::api::{End, StopWord};
use midwatch::kernel::ids::{Fence, Millis};
use midwatch::kernel::status::Outcome;
use midwatch::process::{self, Held};
use midwatch::worker::{Context, Failure, Stopper, Worker, WorkerError};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// What handlers wait for, and where they say that they are there.
#[derive(Default)]
struct Gate {
    seen: Mutex<(Vec<String>, Vec<String>)>,
    moved: Condvar,
}

impl Gate {
    fn say(&self, word: &str) {
        self.seen.lock().unwrap().0.push(word.to_owned());
    }

    fn heard(&self, word: &str) {
        eventually(word, || {
            self.seen.lock().unwrap().0.iter().any(|said| said == word).then_some(())
        });
    }

    fn open(&self, name: &str) {
        self.seen.lock().unwrap().1.push(name.to_owned());
        self.moved.notify_all();
    }

    fn wait(&self, name: &str) {
        let seen = self.seen.lock().unwrap();
        let closed = |seen: &mut (Vec<String>, Vec<String>)| !seen.1.iter().any(|it| it == name);
        drop(self.moved.wait_while(seen, closed).unwrap());
    }
}

struct Team {
    engine: FakeEngine,
    gate: Arc<Gate>,
    stopper: Stopper,
    worker: Option<JoinHandle<Result<(), WorkerError>>>,
    _dir: tempfile::TempDir,
}

impl Team {
    fn new(slots: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = FakeEngine::start(&dir.path().canonicalize().unwrap());
        let gate = Arc::new(Gate::default());
        let held = Arc::clone(&gate);
        let [stays, saves, waits] = [0; 3].map(|_| Arc::clone(&gate));
        let worker = Worker::new(&engine.data_dir)
            .slots(slots)
            .without_signals()
            .handle("nop", |_: &Context| Ok(()))
            .handle("facts", facts)
            .handle("save", move |task: &Context| {
                let saved = task.checkpoint(&task.payload::<Value>()?);
                saves.say(&format!("through {}", task.fence()));
                saved
            })
            .handle("gated save", move |task: &Context| {
                waits.say(&format!("in {}", task.fence()));
                waits.wait(&format!("out {}", task.fence()));
                let saved = task.checkpoint(&1);
                let error = format!("{:?}", saved.as_ref().unwrap_err());
                let is_broken = error.contains("the control channel is broken");
                let why = if is_broken { "the control channel is broken" } else { &error };
                waits.say(&format!("through {}: {why}", task.fence()));
                saved
            })
            .handle("panic", |task: &Context| -> Result<(), Failure> {
                panic!("at attempt {}", task.attempt())
            })
            .handle("ugly", |_: &Context| -> Result<(), Failure> {
                std::panic::panic_any(PanicsAgain)
            })
            .handle("parse", |task: &Context| {
                let _number: u32 = task.payload::<String>()?.parse()?;
                Ok(())
            })
            .handle("refuse", |_: &Context| Err(Failure::fatal("never")))
            .handle("gate", move |task: &Context| {
                held.say(&format!("in {}", task.fence()));
                held.wait(&format!("out {}", task.fence()));
                Ok(())
            })
            .handle("patient", move |task: &Context| {
                stays.say(&format!("in {}", task.fence()));
                while !task.should_stop() {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                writeln!(task.log(), "{:?}", task.stop_reason().unwrap())?;
                if task.payload::<Value>()? == json!("finish") {
                    task.result(&"all of it")?;
                }
                // After a stop was told, an error means no more than having obeyed.
                Err(Failure::fatal("stopped"))
            });
        let stopper = worker.stopper();
        let worker = Some(std::thread::spawn(|| worker.run()));
        Self { engine, gate, stopper, worker, _dir: dir }
    }

    fn run(&self, kind: &str, payload: &str) -> End {
        self.engine.end_of(self.engine.lease(kind, payload))
    }

    fn log(&self, fence: Fence) -> String {
        fs::read_to_string(self.engine.log_of(fence)).unwrap()
    }

    fn end(&mut self) -> Result<(), WorkerError> {
        self.worker.take().unwrap().join().unwrap()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            eventually("the worker has ended", || {
                self.stopper.stop();
                worker.is_finished().then_some(())
            });
            drop(worker.join());
        }
    }
}

struct PanicsAgain;

impl Drop for PanicsAgain {
    fn drop(&mut self) {
        panic!("and again");
    }
}

fn facts(task: &Context) -> Result<(), Failure> {
    let dir = task.temp_dir()?;
    fs::write(dir.join("note"), "x")?;
    assert!(task.last_checkpoint::<Value>()?.is_some_and(|data| data == json!({"at": 2})));
    task.progress(3, Some(9), Some("third"))?;
    writeln!(task.log(), "to the log")?;
    task.result(&json!({
        "task": task.task_id().to_string(), "kind": task.kind(), "attempt": task.attempt(),
        "max_retry": task.max_retry(), "fence": task.fence().to_string(), "key": task.key(),
        "scheduled_for": task.scheduled_for(), "payload": task.payload::<Value>()?,
        "token": task.token(), "dir": dir,
    }))
}

// spec: HND-050
#[test]
fn a_handler_in_rust_finds_the_facts_and_leaves_its_word() {
    let team = Team::new(1);
    let fence = team.engine.lease_with("facts", r#"{"a": [1]}"#, |lease| {
        lease.key = Some("k 1".into());
        lease.attempt = 1;
        lease.checkpoint = serde_json::value::to_raw_value(&json!({"at": 2})).ok();
    });
    let end = team.engine.end_of(fence);
    assert_eq!((end.outcome, end.error.as_deref(), end.started), (Outcome::Success, None, true));
    assert_eq!((end.exit_code, end.signal), (None, None));
    let result: Value = serde_json::from_str(end.result.unwrap().get()).unwrap();
    let run = team.engine.data_dir.join("run");
    let (task, dir) = ((fence.0 - 100).to_string(), process::tmp_dir(&run, fence));
    let expected = json!({
        "task": task, "kind": "facts", "attempt": 1, "max_retry": 5, "fence": fence.to_string(),
        "key": "k 1", "scheduled_for": "2026-01-01T00:00:00.000Z", "payload": {"a": [1]},
        "token": format!("{}:{task}:{fence}", team.engine.store), "dir": dir,
    });
    assert_eq!(result, expected);
    assert_eq!(team.log(fence), "to the log\n");
    assert!(!dir.exists(), "the directory goes with the attempt");
    eventually("its claim is gone", || {
        process::read_claim(&run, fence).unwrap().is_none().then_some(())
    });
    let types = &team.engine.book().registrations[0].types;
    assert!(!types.iter().any(|kind| kind == "exec"), "{types:?}");
}

// spec: HND-051
#[test]
fn a_checkpoint_returns_once_the_engine_has_it() {
    let team = Team::new(1);
    let fence = team.engine.lease("save", r#"{"row": 7}"#);
    assert_eq!(team.engine.end_of(fence).outcome, Outcome::Success);
    assert_eq!(team.engine.book().checkpoints, [(fence, r#"{"row":7}"#.to_owned())]);
    // Too deep for the channel: refused, and answered.
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let end = team.run("save", &deep);
    assert_eq!(end.outcome, Outcome::Retryable);
    assert!(end.error.as_deref().unwrap_or_default().contains("nested deeper"), "{end:?}");
    let end = team.run("save", &format!("\"{}\"", "x".repeat(1 << 20)));
    assert_eq!(end.outcome, Outcome::Fatal);
    assert_eq!(team.engine.book().checkpoints.len(), 1);
}

// spec: HND-052
#[test]
fn a_panic_is_a_failure_to_be_retried_and_harms_nobody() {
    let team = Team::new(2);
    let beside = team.engine.lease("gate", "null");
    team.gate.heard(&format!("in {beside}"));
    let fence = team.engine.lease("panic", "null");
    let end = team.engine.end_of(fence);
    let message = "the handler panicked: at attempt 1";
    assert_eq!((end.outcome, end.error.as_deref()), (Outcome::Retryable, Some(message)));
    assert_eq!(team.log(fence), format!("midwatch: {message}\n"));
    let end = team.run("ugly", "null");
    assert_eq!(
        (end.outcome, end.error.as_deref()),
        (Outcome::Retryable, Some("the handler panicked"))
    );
    team.gate.open(&format!("out {beside}"));
    assert_eq!(team.engine.end_of(beside).outcome, Outcome::Success);
    assert_eq!(team.run("nop", "null").outcome, Outcome::Success);
}

#[test]
fn errors_are_retryable_unless_they_say_otherwise() {
    let team = Team::new(1);
    let end = team.run("parse", r#""twelve""#);
    let error = "invalid digit found in string";
    assert_eq!((end.outcome, end.error.as_deref()), (Outcome::Retryable, Some(error)));
    let end = team.run("parse", "12");
    assert_eq!(end.outcome, Outcome::Fatal);
    assert!(end.error.unwrap().starts_with("the payload is wrong: "));
    let end = team.run("refuse", "null");
    assert_eq!((end.outcome, end.error.as_deref()), (Outcome::Fatal, Some("never")));
    let end = team.run("unheard_of", "null");
    assert_eq!((end.outcome, end.started), (Outcome::Retryable, false));
}

// spec: HND-053
#[test]
fn threads_are_as_many_as_slots() {
    let team = Team::new(2);
    let fences: Vec<Fence> = (0..5).map(|_| team.engine.lease("gate", "null")).collect();
    for pair in fences.chunks(2) {
        for fence in pair {
            team.gate.heard(&format!("in {fence}"));
        }
        assert!(team.engine.book().held <= 2);
        for fence in pair {
            team.gate.open(&format!("out {fence}"));
        }
    }
    for fence in &fences {
        assert_eq!(team.engine.end_of(*fence).outcome, Outcome::Success);
    }
    assert_eq!(team.engine.book().held_most, 2);
}

#[test]
fn a_handler_in_rust_is_told_to_stop_and_obeys() {
    let team = Team::new(1);
    for (word, outcome) in
        [(StopWord::Cancel, Outcome::Cancelled), (StopWord::Pause, Outcome::Paused)]
    {
        let fence = team.engine.lease("patient", "null");
        team.gate.heard(&format!("in {fence}"));
        team.engine.stop(fence, word);
        let end = team.engine.end_of(fence);
        assert_eq!((end.outcome, end.error), (outcome, None));
        assert_eq!(team.log(fence), format!("{word:?}\n"));
    }
    let fence = team.engine.lease_with("patient", "null", |lease| {
        lease.timeout_ms = Some(Millis(50));
    });
    assert_eq!(team.engine.end_of(fence).outcome, Outcome::TimedOut);
}

// A stop that a handler never heard of did not end it: what it did counts.
#[test]
fn a_handler_that_never_asks_ends_as_it_ends() {
    let team = Team::new(1);
    let fence = team.engine.lease_with("gate", "null", |lease| {
        lease.cancel_grace_ms = Millis(1);
        lease.kill_grace_ms = Millis(1);
    });
    team.gate.heard(&format!("in {fence}"));
    team.engine.stop(fence, StopWord::Cancel);
    let heard = team.engine.book().heartbeats.len();
    team.engine.wait("the order has come", |book| heard + 2 < book.heartbeats.len());
    team.gate.open(&format!("out {fence}"));
    assert_eq!(team.engine.end_of(fence).outcome, Outcome::Success);
}

// spec: HND-054
#[test]
fn a_thread_whose_lease_is_somebody_elses_is_refused_and_not_reported() {
    let team = Team::new(1);
    let fence = team.engine.lease("gate", "null");
    team.gate.heard(&format!("in {fence}"));
    team.engine.stop(fence, StopWord::Superseded);
    let heard = team.engine.book().heartbeats.len();
    team.engine.wait("the order has come", |book| heard + 2 < book.heartbeats.len());
    // Its thread still runs, so its slot is not free.
    let next = team.engine.lease("nop", "null");
    team.gate.open(&format!("out {fence}"));
    assert_eq!(team.engine.end_of(next).outcome, Outcome::Success);
    assert!(team.engine.book().ends.iter().all(|end| end.lease.fence != fence));

    team.engine.book().is_stale = true;
    let stale = team.engine.lease("save", "1");
    team.gate.heard(&format!("through {stale}"));
    team.engine.book().is_stale = false;
    team.engine.end_of(team.engine.lease("nop", "null"));
    let book = team.engine.book();
    assert!(book.checkpoints.is_empty());
    assert!(book.ends.iter().all(|end| end.lease.fence != stale));
}

// spec: HND-054, PRC-014
#[test]
fn a_sweep_finds_the_claim_of_a_thread_and_kills_no_worker() {
    let team = Team::new(1);
    let fence = team.engine.lease("gate", "null");
    team.gate.heard(&format!("in {fence}"));
    let run = team.engine.data_dir.join("run");
    let worker = process::current().unwrap();
    let claim = process::read_claim(&run, fence).unwrap();
    assert_eq!(claim, Some(Held::Thread { worker }));
    // What it started bears its token, and is found.
    let task = midwatch::kernel::ids::TaskId(fence.0 - 100);
    let token = format!("{}:{task}:{fence}", team.engine.store);
    let mut child = std::process::Command::new("sleep")
        .arg("600")
        .env("MIDWATCH_TOKEN", token)
        .spawn()
        .unwrap();
    let boot = process::boot_id().unwrap();
    let swept = process::sweep(&run, &team.engine.store, task, fence, &boot).unwrap();
    child.wait().unwrap();
    assert!(swept.started);
    let killed: Vec<u32> = swept.killed.iter().map(|killed| killed.pid).collect();
    assert_eq!(killed, [child.id()]);
    let swept = process::sweep(&run, &team.engine.store, task, fence, "another boot").unwrap();
    assert!(!swept.started);
    team.gate.open(&format!("out {fence}"));
    assert_eq!(team.engine.end_of(fence).outcome, Outcome::Success);
}

// spec: HND-055
#[test]
fn a_stopper_hands_back_and_a_second_word_does_not_wait() {
    let mut team = Team::new(1);
    let fence = team.engine.lease("patient", "null");
    team.gate.heard(&format!("in {fence}"));
    team.stopper.stop();
    assert!(team.end().is_ok());
    assert_eq!(team.engine.end_of(fence).outcome, Outcome::Released);
    assert_eq!(team.engine.book().left, 1);

    let mut team = Team::new(1);
    let fence = team.engine.lease("gate", "null");
    team.gate.heard(&format!("in {fence}"));
    // Two words that come together may be taken for one.
    eventually("it does not wait for the handler", || {
        team.stopper.stop();
        team.worker.as_ref().unwrap().is_finished().then_some(())
    });
    assert!(team.end().is_ok());
    assert!(team.engine.book().ends.is_empty());
    team.gate.open(&format!("out {fence}"));
}

// A thread that waits for the engine cannot be killed, so it is let go when the worker gives up.
#[test]
fn a_worker_that_is_to_end_does_not_wait_for_ever_for_an_engine_that_is_away() {
    let mut team = Team::new(1);
    team.engine.wait("registration", |book| !book.registrations.is_empty());
    let fence = team.engine.lease("gated save", "1");
    team.gate.heard(&format!("in {fence}"));
    team.engine.book().is_away = true;
    team.gate.open(&format!("out {fence}"));
    team.stopper.stop();
    team.gate.heard(&format!("through {fence}: the control channel is broken"));
    assert!(team.end().is_ok());
    assert!(team.engine.book().checkpoints.is_empty());
}

#[test]
fn a_result_after_a_stop_says_that_the_work_was_done() {
    let team = Team::new(1);
    let fence = team.engine.lease("patient", r#""finish""#);
    team.gate.heard(&format!("in {fence}"));
    team.engine.stop(fence, StopWord::Cancel);
    // Its last word is the error that it returned, so the stop counts.
    assert_eq!(team.engine.end_of(fence).outcome, Outcome::Cancelled);
}

#[test]
fn a_worker_without_handlers_or_slots_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Worker::new(dir.path()).run().unwrap_err().exit(), 2);
    let worker = Worker::new(dir.path()).handle("nop", |_: &Context| Ok(())).slots(0);
    assert_eq!(worker.run().unwrap_err().exit(), 2);
}
