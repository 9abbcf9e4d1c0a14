//! The world's own account of what was acknowledged: small, independent, and compared with the
//! engine.

use crate::engine::{Recorded, Ticket};
use crate::kernel::event::Event;
use crate::kernel::ids::{Fence, Seq, TaskId};
use crate::kernel::status::Status;
use crate::kernel::task::Task;
use crate::kernel::{Answer, Command, Rejection, State};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of one task from answers and published events alone.
#[derive(Clone, Debug, Default)]
struct Known {
    payload: Option<String>,
    key: Option<String>,
    end: Option<Status>,
    checkpoint: Option<(Seq, String)>,
    failed_attempts: u32,
    max_retry: u32,
}

/// The account.
#[derive(Debug, Default)]
pub(super) struct Account {
    tasks: BTreeMap<TaskId, Known>,
    keys: BTreeMap<String, TaskId>,
    last_seq: Seq,
    last_fence: Fence,
    /// What is durable in the archive.
    archive: BTreeSet<TaskId>,
    /// Records of heartbeats published with a frame; their loss is allowed only with that frame.
    asked: Vec<Command>,
    answers: BTreeMap<Ticket, Vec<Result<Answer, Rejection>>>,
}

impl Account {
    /// Notes what is being asked, to be matched with the answers.
    pub(super) fn asked(&mut self, commands: &[Command]) {
        self.asked = commands.to_vec();
    }

    /// The engine is gone: nobody waits any more.
    pub(super) fn engine_gone(&mut self) {
        self.answers.clear();
    }

    pub(super) fn answered(&mut self, to: Ticket, answers: Vec<Result<Answer, Rejection>>) {
        for (command, answer) in self.asked.iter().zip(&answers) {
            if let (Command::Submit(spec), Ok(Answer::Submitted { task, .. })) = (command, answer) {
                let known = self.tasks.entry(*task).or_default();
                known.payload = Some(spec.payload.to_string());
                known.key = spec.key.as_ref().map(ToString::to_string);
                if let Some(key) = &spec.key {
                    let first = *self.keys.entry(key.to_string()).or_insert(*task);
                    assert_eq!(first, *task, "I18: key {key} names two tasks");
                }
            }
        }
        self.asked.clear();
        self.answers.insert(to, answers);
    }

    pub(super) fn take_answers(
        &mut self,
        ticket: Ticket,
    ) -> Option<Vec<Result<Answer, Rejection>>> {
        self.answers.remove(&ticket)
    }

    /// Ended tasks are durable in the archive.
    pub(super) fn archived(&mut self, tasks: &[Task]) {
        for task in tasks {
            assert!(task.status.is_terminal(), "task {} goes and has not ended", task.id);
            self.archive.insert(task.id);
        }
    }

    /// A task is gone: it had ended, and is in the archive where there is one.
    fn forget(&mut self, id: TaskId, archive: bool) {
        let known = self.tasks.remove(&id).unwrap_or_default();
        assert!(known.end.is_some(), "I1: task {id} is gone and had not ended");
        assert!(!archive || self.archive.contains(&id), "task {id} went without the archive");
        if let Some(key) = known.key {
            self.keys.remove(&key);
        }
    }

    /// A published event is durable.
    pub(super) fn saw(&mut self, recorded: &Recorded, archive: bool) {
        assert!(
            self.last_seq < recorded.stamp.seq,
            "I6: sequence {} after {}",
            recorded.stamp.seq,
            self.last_seq
        );
        self.last_seq = recorded.stamp.seq;
        if let Event::Forgotten(forgotten) = &recorded.event {
            forgotten.tasks.iter().for_each(|id| self.forget(*id, archive));
        }
        let Some(id) = recorded.event.task() else { return };
        let known = self.tasks.entry(id).or_default();
        if let (Some(end), Some(to)) = (known.end, recorded.to) {
            assert_eq!(end, to, "I12: task {id} ended as {end} and is now {to}");
        }
        if let Some(to) = recorded.to.filter(|to| to.is_terminal()) {
            known.end = Some(to);
        }
        match &recorded.event {
            Event::Submitted(event) => known.max_retry = event.spec.max_retry,
            Event::StopRequested(event) => {
                // A limit below what has failed already ends the task with its next failure.
                let limit = event.max_retry.map(|limit| limit.max(known.failed_attempts));
                known.max_retry = limit.unwrap_or(known.max_retry);
            }
            Event::Leased(event) => {
                assert!(
                    self.last_fence < event.fence,
                    "I13: token {} after {}",
                    event.fence,
                    self.last_fence
                );
                self.last_fence = event.fence;
            }
            Event::Checkpointed(event) => {
                known.checkpoint = Some((recorded.stamp.seq, event.data.to_string()));
            }
            Event::Ended(event) if event.to == Status::Retrying => {
                known.failed_attempts += 1;
                let allowed = known.max_retry + 1;
                assert!(
                    known.failed_attempts <= allowed,
                    "I15: task {id} failed {} times",
                    known.failed_attempts
                );
            }
            _ => {}
        }
    }

    /// After a recovery: everything acknowledged is there, as it was acknowledged.
    pub(super) fn compare(&mut self, state: &State, archive: bool) {
        // What was durable and not yet published when the engine died is true all the same.
        for task in state.tasks() {
            let known = self.tasks.entry(task.id).or_default();
            if task.status.is_terminal() {
                known.end.get_or_insert(task.status);
            }
            known.key = known.key.take().or_else(|| task.key().map(ToString::to_string));
            known.failed_attempts = known.failed_attempts.max(task.retry_count);
            known.max_retry = task.max_retry.max(known.failed_attempts);
            let acknowledged = known.checkpoint.as_ref().map_or(Seq(0), |(seq, _)| *seq);
            if let Some(newer) = task.checkpoint().filter(|kept| acknowledged < kept.seq) {
                known.checkpoint = Some((newer.seq, newer.data.to_string()));
            }
        }
        assert!(self.last_seq < state.next_seq(), "I1: sequence {} is gone", self.last_seq);
        let ended = self.tasks.iter().filter(|(_, known)| known.end.is_some());
        let gone = ended.map(|(id, _)| *id).filter(|id| state.task(*id).is_none());
        for id in gone.collect::<Vec<_>>() {
            self.forget(id, archive);
        }
        for (id, known) in &self.tasks {
            let Some(task) = state.task(*id) else { panic!("I1: task {id} is gone") };
            if let Some(payload) = &known.payload {
                assert_eq!(&*task.payload, payload, "I2: task {id} has another payload");
            }
            if let Some(key) = &known.key {
                assert_eq!(
                    task.key().map(ToString::to_string).as_ref(),
                    Some(key),
                    "I18: task {id}"
                );
            }
            if let Some(end) = known.end {
                assert_eq!(task.status, end, "I12: task {id} ended as {end}");
            }
            if let Some((seq, data)) = &known.checkpoint {
                let kept =
                    task.checkpoint().unwrap_or_else(|| panic!("I1: a checkpoint of {id} is gone"));
                assert!(*seq <= kept.seq, "I16: task {id} went back to an older checkpoint");
                if *seq == kept.seq {
                    assert_eq!(&*kept.data, data, "I16: task {id} has another checkpoint");
                }
            }
        }
    }

    /// What costs little and must hold after every step.
    pub(super) fn glance(&self, state: &State) {
        assert!(self.last_seq < state.next_seq(), "I7: published ahead of the state");
    }

    /// The last checkpoint that was published for a task.
    pub(super) fn checkpoint(&self, id: TaskId) -> Option<&str> {
        self.tasks.get(&id)?.checkpoint.as_ref().map(|(_, data)| data.as_str())
    }
}
