//! Those who use the daemon meanwhile: some submit, some interfere, some look. What they were told
//! is noted in the ledger the moment they know it.

use super::account::{Acknowledged, is_terminal};
use midwatch::api::{Acted, Code, History, SubmitRequest, Submitted, TaskList, TaskView};
use midwatch::client::{Blocking, ClientError};
use midwatch::kernel::ids::TaskId;
use midwatch::sim::Dice;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What handlers do, and how often of all.
const WAYS: [(&str, usize); 18] = [
    ("plain", 12),
    ("steps", 8),
    ("polls", 3),
    ("result", 3),
    ("gives_up", 2),
    ("deaf", 2),
    ("slow", 4),
    ("hangs", 1),
    ("fails", 4),
    ("fatal", 2),
    ("dies", 2),
    ("talks", 2),
    ("stubborn", 2),
    ("forks", 2),
    ("holds_output", 1),
    ("leaves_session", 2),
    ("leaves_deaf", 2),
    ("forgets", 1),
];

/// Open tasks beyond which nobody submits.
const OPEN_MAX: u64 = 60;

/// Shared by everybody.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) acknowledged: Mutex<BTreeMap<TaskId, Acknowledged>>,
    /// What must not have happened.
    pub(super) wrong: Mutex<Vec<String>>,
    /// Submissions that were said again with their key after an unknown outcome.
    pub(super) repeated: AtomicU64,
    /// What people asked of tasks, by what came of it.
    pub(super) acts: Mutex<BTreeMap<String, u64>>,
    /// Tasks that had not ended when last asked.
    pub(super) open: AtomicU64,
    pub(super) stop: AtomicBool,
}

impl Ledger {
    pub(super) fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn acknowledge(&self, id: TaskId, known: Acknowledged) {
        let before = self.acknowledged.lock().unwrap().insert(id, known);
        if let Some(before) = before.filter(|before| before.key.is_none()) {
            self.wrong(format!("the id {id} was given twice, once to {before:?}"));
        }
    }

    /// One of the tasks that were acknowledged of late.
    fn any(&self, dice: &mut Dice) -> Option<(TaskId, Acknowledged)> {
        let acknowledged = self.acknowledged.lock().unwrap();
        let back = dice.below(acknowledged.len().clamp(1, 120));
        acknowledged.iter().rev().nth(back).map(|(id, known)| (*id, known.clone()))
    }

    /// An end that somebody was told of is the only one.
    fn told(&self, id: TaskId, status: &str) {
        if !is_terminal(status) {
            return;
        }
        let mut acknowledged = self.acknowledged.lock().unwrap();
        let Some(known) = acknowledged.get_mut(&id) else { return };
        match &known.end {
            Some(end) if end != status => {
                let what = format!("task {id} was told to be {end}, and then {status}");
                self.wrong.lock().unwrap().push(what);
            }
            _ => known.end = Some(status.to_owned()),
        }
    }
}

/// A client that gives up on an answer before anybody loses patience.
pub(super) fn client(socket: &Path) -> Blocking {
    Blocking::connect(socket).unwrap().answering_within(Duration::from_secs(20))
}

/// Starts everybody: half of them behind the proxy.
pub(super) fn begin(
    ledger: &Arc<Ledger>,
    sockets: [&Path; 2],
    dice: &mut Dice,
    can_forget: bool,
) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    for number in 0..10 {
        let ledger = Arc::clone(ledger);
        let socket = sockets[number % 2].to_owned();
        let dice = dice.fork();
        threads.push(thread::spawn(move || {
            let user = User { http: client(&socket), ledger, dice, can_forget };
            match number {
                0..6 => user.submit(number),
                6..8 => user.interfere(),
                _ => user.look(),
            }
        }));
    }
    threads
}

struct User {
    http: Blocking,
    ledger: Arc<Ledger>,
    dice: Dice,
    /// Whether a process can be found that has dropped its environment.
    can_forget: bool,
}

impl User {
    fn pause(&mut self, least: u64, spread: usize) {
        thread::sleep(Duration::from_millis(least + self.dice.below(spread) as u64));
    }

    fn way(&mut self) -> &'static str {
        let mut place = self.dice.below(WAYS.iter().map(|(_, weight)| weight).sum());
        for (way, weight) in WAYS {
            if place < weight {
                return if way == "forgets" && !self.can_forget { "plain" } else { way };
            }
            place -= weight;
        }
        "plain"
    }

    /// Submits; an unknown outcome is settled by saying it again with the same key, and where there
    /// is no key it stays unknown.
    fn submit(mut self, number: usize) {
        let mut count = 0_u64;
        while !self.ledger.is_over() {
            self.pause(40, 200);
            if OPEN_MAX < self.ledger.open.load(Ordering::Relaxed) {
                continue;
            }
            count += 1;
            let name = format!("client {number} task {count}");
            let key = (!self.dice.one_in(5)).then(|| name.clone());
            let payload = format!("{{\"how\":\"{}\",\"name\":\"{name}\"}}", self.way());
            let raw = RawValue::from_string(payload.clone()).unwrap();
            let mut request = SubmitRequest::new("metal", Some(raw));
            request.key.clone_from(&key);
            request.priority = self.dice.one_in(4).then(|| 50 + i32::from(self.dice.one_in(2)));
            request.delay = self.dice.one_in(6).then(|| "700ms".to_owned());
            if self.dice.one_in(8) {
                (request.timeout, request.max_retry) = (Some("400ms".to_owned()), Some(2));
            }
            let known = Acknowledged { key, payload, retry_of: None, end: None };
            self.say_until_known(&request, known);
        }
    }

    fn say_until_known(&mut self, request: &SubmitRequest, known: Acknowledged) {
        let mut is_unknown = false;
        loop {
            match self.http.post::<_, Submitted>("/v1/tasks", request) {
                Ok(done) => {
                    if done.existed && !is_unknown {
                        self.ledger.wrong(format!("the fresh key of {known:?} existed"));
                    }
                    return self.ledger.acknowledge(done.id, known);
                }
                Err(error) if !error.is_passing() => {
                    return self.ledger.wrong(format!("a good submission failed: {error:?}"));
                }
                Err(ClientError::Problem(problem)) if problem.code != Code::OutcomeUnknown => {}
                Err(ClientError::Unreachable { .. }) => {}
                Err(_) if known.key.is_none() => return,
                Err(_) => {
                    is_unknown = true;
                    self.ledger.repeated.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.pause(20, 60);
        }
    }

    /// Cancels, pauses, resumes, repeats, hurries, resets.
    fn interfere(mut self) {
        while !self.ledger.is_over() {
            self.pause(30, 220);
            if self.dice.one_in(4) {
                self.resume_some();
                continue;
            }
            let Some((id, known)) = self.ledger.any(&mut self.dice) else { continue };
            let acts = ["cancel", "pause", "pause", "resume", "retry", "run-now", "reset"];
            let act = acts[self.dice.below(acts.len())];
            self.act(id, &known, act);
        }
    }

    fn resume_some(&mut self) {
        let Ok(list) = self.http.get::<TaskList>("/v1/tasks?status=PAUSED&limit=50") else {
            return;
        };
        for task in list.tasks {
            if self.dice.one_in(2) {
                let path = format!("/v1/tasks/{}/resume", task.id);
                let done = self.http.post::<_, Acted>(&path, &json!({}));
                self.count("resume", &done);
            }
        }
    }

    fn act(&self, id: TaskId, known: &Acknowledged, act: &'static str) {
        let done = self.http.post::<_, Acted>(&format!("/v1/tasks/{id}/{act}"), &json!({}));
        self.count(act, &done);
        match done {
            Ok(done) if act == "retry" => {
                let (key, payload) = (None, known.payload.clone());
                let again = Acknowledged { key, payload, retry_of: Some(id), end: None };
                self.ledger.acknowledge(done.id, again);
            }
            Ok(done) => self.ledger.told(id, &done.status.to_string()),
            Err(_) => {}
        }
    }

    fn count(&self, act: &str, done: &Result<Acted, ClientError>) {
        let what = match done {
            Ok(done) if done.changed => "done",
            Ok(_) => "so already",
            Err(ClientError::Problem(problem))
                if !done.as_ref().is_err_and(ClientError::is_passing) =>
            {
                let expected = [Code::WrongStatus, Code::NoSuchTask];
                if !expected.contains(&problem.code) {
                    self.ledger.wrong(format!("{act} was answered with {problem:?}"));
                }
                "refused"
            }
            Err(_) => "unanswered",
        };
        *self.ledger.acts.lock().unwrap().entry(format!("{act} {what}")).or_default() += 1;
    }

    /// Looks at tasks; an end that was told once is told again.
    fn look(mut self) {
        while !self.ledger.is_over() {
            self.pause(20, 100);
            let Some((id, known)) = self.ledger.any(&mut self.dice) else { continue };
            let found = match self.dice.below(3) {
                0 => self.http.get::<History>(&format!("/v1/tasks/{id}/history")).map(|it| it.task),
                1 => self.http.get(&format!("/v1/tasks/{id}/wait?timeout_ms=300")),
                _ => self.http.get::<TaskView>(&format!("/v1/tasks/{id}")),
            };
            let Ok(task) = found else { continue };
            if task.payload.get() != known.payload || task.key != known.key {
                self.ledger.wrong(format!("task {id} is shown as {task:?}, not {known:?}"));
            }
            self.ledger.told(id, &task.status.to_string());
        }
    }
}
