//! Simulated clients, workers and handlers: they do what real ones do, at the worst moments.

use super::world::World;
use crate::kernel::event::{Actor, Registration};
use crate::kernel::ids::{Fence, Millis, ProcessId, TaskId, Timestamp, WorkerId};
use crate::kernel::status::{Outcome, Status};
use crate::kernel::task::{After, InputDigest, Progress, SecretHash, TaskSpec};
use crate::kernel::verdict::Verb;
use crate::kernel::{Answer, Command, EndReport, HoldReport, Proof, Rejection};

/// A worker's process.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) id: Option<WorkerId>,
    pub(super) slots: u32,
    pub(super) runs: Vec<Run>,
    /// Steps it does nothing for, as if stopped.
    pub(super) stalled: usize,
    pub(super) boot_id: u64,
    pub(super) lock: String,
}

/// An attempt that a worker holds.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) task: TaskId,
    pub(super) fence: Fence,
    secret: SecretHash,
    started: bool,
    /// Whether its end was told and the answer is not known.
    told: Option<Outcome>,
    checkpoints: u64,
}

impl Worker {
    pub(super) fn new(slots: u32) -> Self {
        let lock = String::from("first");
        Self { id: None, slots, runs: Vec::new(), stalled: 0, boot_id: 1, lock }
    }

    /// The connection broke: what was asked will be asked again.
    pub(super) fn answers_lost(&mut self) {
        self.stalled = self.stalled.min(3);
    }
}

impl World {
    /// A client asks something.
    pub(super) fn client(&mut self) {
        if self.state().is_none() {
            return;
        }
        let known = self.account.known();
        let by = Actor::User(1000);
        let command = if known == 0 || self.dice.one_in(3) {
            Command::Submit(self.draw_spec())
        } else if self.dice.one_in(4) {
            self.order()
        } else {
            let verb = Verb::ALL[self.dice.below(Verb::ALL.len())];
            let task = self.account.known_at(self.dice.below(known));
            let max_retry = self.dice.one_in(3).then_some(2);
            Command::Act {
                task,
                verb,
                max_retry: max_retry.filter(|_| matches!(verb, Verb::Reset | Verb::Edit)),
                fresh: false,
            }
        };
        let answers = self.ask(by, vec![command.clone()]);
        if let (Command::Act { task, verb: Verb::Cancel, .. }, Some([Ok(Answer::Acted { .. })])) =
            (&command, answers.as_deref())
            && let Some(task) = self.state().and_then(|state| state.task(*task))
        {
            let obeyed = task.status == Status::Cancelled || task.stop().is_some();
            assert!(obeyed, "a cancel was acknowledged and task {} is {}", task.id, task.status);
        }
    }

    fn draw_spec(&mut self) -> TaskSpec {
        let size = [2, 40, 300, 5_000][self.dice.below(4)];
        let payload = format!("\"{}\"", "x".repeat(self.dice.below(size)));
        let mut spec = TaskSpec::new(["a", "b"][self.dice.below(2)], payload);
        spec.priority = self.dice.below(3) as i32;
        spec.max_retry = self.dice.below(3) as u32;
        spec.timeout = self.dice.one_in(2).then_some(Millis(2_000));
        spec.delay = self.dice.one_in(4).then(|| Millis(self.dice.below(4_000) as u64));
        if self.dice.one_in(9) {
            spec.at = Some(Timestamp((1 << 40) + self.dice.below(60_000) as u64));
        }
        let known = self.account.known();
        if known != 0 && self.dice.one_in(4) {
            let number = 1 + self.dice.below(3);
            let places: Vec<_> = (0..number).map(|_| self.dice.below(known)).collect();
            let tasks = places.into_iter().map(|place| self.account.known_at(place)).collect();
            spec.after = Some(After { tasks, any: self.dice.one_in(3) });
        }
        if self.dice.one_in(3) {
            // One payload a key, so that a repeated submission is the same one.
            let key = self.dice.below(6);
            spec = TaskSpec::new("a", format!("{key}"));
            spec.key = Some(format!("key {key}").into());
        }
        spec
    }

    /// A worker does one of its chores.
    pub(super) fn worker(&mut self, place: usize) {
        if 0 < self.workers[place].stalled {
            self.workers[place].stalled -= 1;
            return;
        }
        let Some(id) = self.workers[place].id else {
            self.register(place);
            return;
        };
        match self.dice.below(6) {
            0 => self.heartbeat(place, id),
            1 | 2 => self.lease(place, id),
            _ => self.work(place, id),
        }
    }

    fn register(&mut self, place: usize) {
        let Worker { slots, boot_id, ref lock, .. } = self.workers[place];
        let command = Command::Register(Registration {
            name: format!("w{place}").into(),
            process: ProcessId { boot_id: boot_id.to_string(), ..ProcessId::default() },
            host: "sim".into(),
            version: "sim".into(),
            lock: lock.as_str().into(),
            kinds: vec!["a".into(), "b".into()],
            slots,
        });
        let answers = self.ask(Actor::User(0), vec![command]);
        if let Some([Ok(Answer::Registered(id))]) = answers.as_deref() {
            self.workers[place].id = Some(*id);
        }
    }

    /// The engine does not know the worker: everything it holds is void.
    fn start_over(&mut self, place: usize) {
        for run in std::mem::take(&mut self.workers[place].runs) {
            self.alive.remove(&(run.task, run.fence));
        }
        self.workers[place].id = None;
    }

    fn drop_run(&mut self, place: usize, fence: Fence) {
        let runs = &mut self.workers[place].runs;
        let Some(at) = runs.iter().position(|run| run.fence == fence) else { return };
        let run = runs.swap_remove(at);
        self.alive.remove(&(run.task, run.fence));
    }

    fn heartbeat(&mut self, place: usize, worker: WorkerId) {
        let mut holds = Vec::new();
        for run in &self.workers[place].runs {
            let proof = Proof { worker, task: run.task, fence: run.fence, secret: run.secret };
            let process = run.started.then(ProcessId::default);
            let progress =
                run.started.then(|| Progress { done: run.checkpoints, ..Progress::default() });
            holds.push(HoldReport { proof, process, progress });
        }
        let answers = self.ask(Actor::Daemon, vec![Command::Heartbeat { worker, holds }]);
        match answers.as_deref() {
            Some([Ok(Answer::Heard(stale))]) => {
                for (_, fence) in stale {
                    self.drop_run(place, *fence);
                }
            }
            Some([Err(Rejection::NoSuchWorker(_))]) => self.start_over(place),
            _ => {}
        }
    }

    fn lease(&mut self, place: usize, worker: WorkerId) {
        let free =
            (self.workers[place].slots as usize).saturating_sub(self.workers[place].runs.len());
        let secrets: Vec<_> = (0..free).map(|_| self.draw_secret()).collect();
        let command = Command::Lease { worker, secrets: secrets.clone() };
        let answers = self.ask(Actor::Daemon, vec![command]);
        self.take_leases(place, answers.as_deref().and_then(<[_]>::last), &secrets);
    }

    fn draw_secret(&mut self) -> SecretHash {
        let mut secret = [0; 16];
        self.dice.fill(&mut secret);
        SecretHash(secret)
    }

    fn take_leases(
        &mut self,
        place: usize,
        answer: Option<&Result<Answer, Rejection>>,
        secrets: &[SecretHash],
    ) {
        match answer {
            Some(Ok(Answer::Leased(leases))) => {
                for ((task, fence), secret) in leases.iter().zip(secrets) {
                    self.check_checkpoint(*task);
                    let run = Run {
                        task: *task,
                        fence: *fence,
                        secret: *secret,
                        started: false,
                        told: None,
                        checkpoints: 0,
                    };
                    self.workers[place].runs.push(run);
                }
            }
            Some(Err(Rejection::NoSuchWorker(_))) => self.start_over(place),
            _ => {}
        }
    }

    /// I16: the checkpoint handed out is the last one that was acknowledged.
    fn check_checkpoint(&self, id: TaskId) {
        let Some(task) = self.state().and_then(|state| state.task(id)) else { return };
        let handed = task.checkpoint().map(|checkpoint| &*checkpoint.data);
        let known = self.account.checkpoint(id);
        assert!(
            known.is_none() || handed == known,
            "I16: task {id} got {handed:?} instead of {known:?}"
        );
    }

    /// One attempt goes on: starts, leaves a checkpoint, or ends.
    fn work(&mut self, place: usize, worker: WorkerId) {
        if self.workers[place].runs.is_empty() {
            return;
        }
        let at = self.dice.below(self.workers[place].runs.len());
        let run = self.workers[place].runs[at].clone();
        let proof = Proof { worker, task: run.task, fence: run.fence, secret: run.secret };
        if let Some(outcome) = run.told {
            self.finish(place, proof, outcome, true);
        } else if !run.started {
            if self.start_attempt(&run) {
                self.workers[place].runs[at].started = true;
            } else {
                self.drop_run(place, run.fence); // it was given up before it began
            }
        } else if !self.alive.contains(&(run.task, run.fence)) {
            self.finish(place, proof, Outcome::Retryable, true); // swept under its worker
        } else if self.dice.one_in(2) {
            self.leave_checkpoint(place, at, proof);
        } else {
            let outcomes = [
                Outcome::Success,
                Outcome::Success,
                Outcome::Retryable,
                Outcome::Fatal,
                Outcome::TimedOut,
                Outcome::Cancelled,
                Outcome::Paused,
                Outcome::Released,
            ];
            let outcome = outcomes[self.dice.below(outcomes.len())];
            self.finish(place, proof, outcome, true);
        }
    }

    fn leave_checkpoint(&mut self, place: usize, at: usize, proof: Proof) {
        self.workers[place].runs[at].checkpoints += 1;
        let data = format!(
            "{{\"fence\":{},\"n\":{}}}",
            proof.fence, self.workers[place].runs[at].checkpoints
        );
        let answers =
            self.ask(Actor::Daemon, vec![Command::Checkpoint { proof, data: data.into() }]);
        if let Some([Ok(Answer::Refused(_))]) = answers.as_deref() {
            self.drop_run(place, proof.fence);
        }
    }

    /// Tells an end, together with a request for the next lease, until an answer arrives.
    fn finish(&mut self, place: usize, proof: Proof, outcome: Outcome, started: bool) {
        // The process is gone before its end is told.
        self.alive.remove(&(proof.task, proof.fence));
        let runs = &mut self.workers[place].runs;
        if let Some(run) = runs.iter_mut().find(|run| run.fence == proof.fence) {
            run.told = Some(outcome);
        }
        let report = EndReport {
            outcome,
            started,
            exit_code: None,
            signal: None,
            result: None,
            error: (outcome == Outcome::Retryable).then(|| "no".into()),
            usage: None,
            ran: started.then(|| Millis(u64::try_from(self.dice.below(100_000)).unwrap_or(0))),
            // Of some tasks it is the right one.
            input: started.then(|| InputDigest::of("\"\"")),
        };
        let secrets = vec![self.draw_secret()];
        let commands = vec![
            Command::End { proof, report },
            Command::Lease { worker: proof.worker, secrets: secrets.clone() },
        ];
        let Some(answers) = self.ask(Actor::Daemon, commands) else { return };
        if let Some(Ok(Answer::Ended(_) | Answer::Refused(_))) = answers.first() {
            self.drop_run(place, proof.fence);
        }
        self.take_leases(place, answers.last(), &secrets);
    }

    /// So that everything can end.
    pub(super) fn resume_paused(&mut self) {
        let Some(state) = self.state() else { return };
        let paused: Vec<_> = state.with_status(Status::Paused).map(|task| task.id).collect();
        for task in paused {
            let command = Command::Act { task, verb: Verb::Resume, max_retry: None, fresh: false };
            self.ask(Actor::User(0), vec![command]);
        }
    }
}
