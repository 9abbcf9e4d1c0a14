//! What is known of one task.

use super::event::Actor;
use super::ids::{
    Fence, LifeTime, Millis, ProcessId, Seq, ServiceTime, TaskId, Timestamp, WorkerId,
};
use super::schedule::Scheduled;
use super::shared::Shared;
use super::status::{Outcome, Reason, Status, Stop};
use super::text::Text;
use crate::limits::{ATTEMPTS_KEPT, TRANSITIONS_KEPT};
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

/// What somebody wants done. It travels whole from the command line to the disk and back.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TaskSpec {
    /// The task type.
    #[n(0)]
    pub kind: Text,
    /// The payload, as the JSON text it came in.
    #[n(1)]
    pub payload: Text,
    /// Smaller runs first.
    #[n(2)]
    pub priority: i32,
    /// Failed attempts it may be retried after.
    #[n(3)]
    pub max_retry: u32,
    /// Longest run of one attempt.
    #[n(4)]
    pub timeout: Option<Millis>,
    /// Not before this wall time.
    #[n(5)]
    pub at: Option<Timestamp>,
    /// Not before this much time after the submission.
    #[n(6)]
    pub delay: Option<Millis>,
    /// Idempotency key.
    #[n(7)]
    pub key: Option<Text>,
    /// The task that this one runs again.
    #[n(8)]
    pub retry_of: Option<TaskId>,
    /// The checkpoint it starts from.
    #[n(9)]
    pub checkpoint: Option<Text>,
    /// The schedule that made it.
    #[n(10)]
    pub scheduled: Option<Scheduled>,
    /// The tasks it waits for.
    #[n(11)]
    pub after: Option<After>,
}

/// Tasks that another one waits for.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct After {
    /// The tasks, each once.
    #[n(0)]
    pub tasks: Vec<TaskId>,
    /// Whether any end of theirs will do; otherwise each must end in SUCCESS.
    #[n(1)]
    pub any: bool,
}

impl TaskSpec {
    /// A task of type `kind` with the defaults: priority 100, five retries, due at once.
    pub fn new(kind: impl Into<Text>, payload: impl Into<Text>) -> Self {
        Self {
            kind: kind.into(),
            payload: payload.into(),
            priority: 100,
            max_retry: 5,
            timeout: None,
            at: None,
            delay: None,
            key: None,
            retry_of: None,
            checkpoint: None,
            scheduled: None,
            after: None,
        }
    }
}

/// How far a handler says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(map)]
pub struct Progress {
    /// Units done.
    #[n(0)]
    pub done: u64,
    /// Units in all, where known.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// A word about it.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What the processes of an attempt used, as far as its worker could tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(map)]
pub struct Usage {
    /// The most memory at once, in bytes.
    #[n(0)]
    pub peak_memory: u64,
    /// Time on a processor.
    #[n(1)]
    pub cpu_ms: Millis,
}

/// Hash of a lease's secret; the secret itself is known to the worker alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct SecretHash(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub [u8; 16],
);

/// The first half of the SHA-256 of a payload, which tells one input from another. Its text is 32
/// hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct InputDigest(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub [u8; 16],
);

impl InputDigest {
    /// That of a payload, as the JSON text it is.
    pub fn of(payload: &str) -> Self {
        let mut half = [0; 16];
        half.iter_mut().zip(Sha256::digest(payload)).for_each(|(to, from)| *to = from);
        Self(half)
    }
}

impl fmt::Display for InputDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for InputDigest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
        let number = number.ok_or_else(|| "a digest is 32 hex digits".to_owned())?;
        Ok(Self(number.swap_bytes().to_le_bytes()))
    }
}

/// One task.
///
/// Slim while it waits (about 120 bytes and its payload): what only a task has that once ran, or
/// was touched by a person, is behind `life`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Task {
    /// The id.
    #[n(0)]
    pub id: TaskId,
    /// The type.
    #[n(1)]
    pub kind: Text,
    /// The payload.
    #[n(2)]
    pub payload: Text,
    /// The status.
    #[n(3)]
    pub status: Status,
    /// Smaller runs first.
    #[n(4)]
    pub priority: i32,
    /// When it is, or was, due on the life clock. Orders the queue.
    #[n(5)]
    pub due: LifeTime,
    /// Failed attempts that were followed by a retry.
    #[n(6)]
    pub retry_count: u32,
    /// Failed attempts it may be retried after.
    #[n(7)]
    pub max_retry: u32,
    /// Times its executor was lost.
    #[n(8)]
    pub lost_count: u32,
    /// Longest run of one attempt.
    #[n(9)]
    pub timeout: Option<Millis>,
    /// When it was submitted.
    #[n(10)]
    pub created: Timestamp,
    /// When its record last changed.
    #[n(11)]
    pub updated: Timestamp,
    /// Sequence number of its submission.
    #[n(12)]
    pub born: Seq,
    /// What few tasks have.
    #[n(13)]
    pub extra: Option<Shared<Extra>>,
    /// What happened to it since.
    #[n(14)]
    pub life: Option<Box<Life>>,
}

/// What few tasks have from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Extra {
    /// Idempotency key.
    #[n(0)]
    pub key: Option<Text>,
    /// The task that this one runs again.
    #[n(1)]
    pub retry_of: Option<TaskId>,
    /// Not before this wall time; cleared when it was run once.
    #[n(2)]
    pub at: Option<Timestamp>,
    /// Who submitted it, unless it was the daemon's own user.
    #[n(3)]
    pub by: Option<Actor>,
    /// The schedule that made it.
    #[n(4)]
    pub scheduled: Option<Scheduled>,
    /// The tasks it waits for, or waited for.
    #[n(5)]
    pub after: Option<After>,
    /// Those of them that are still open.
    #[n(6)]
    pub open: Option<Vec<TaskId>>,
}

/// What happened to a task after it was submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Life {
    /// Its transitions after the first, and what else is worth a line.
    #[n(0)]
    pub transitions: Transitions,
    /// Its latest attempts, oldest first.
    #[n(1)]
    pub attempts: VecDeque<Attempt>,
    /// Attempts in all.
    #[n(2)]
    pub attempt_count: u32,
    /// The last checkpoint.
    #[n(3)]
    pub checkpoint: Option<Checkpoint>,
    /// What its handler left as result.
    #[n(4)]
    pub result: Option<Text>,
    /// The last error.
    #[n(5)]
    pub error: Option<Text>,
    /// What a person asked of it while it runs.
    #[n(6)]
    pub stop: Option<Stop>,
    /// The lease, while it is RUNNING or LOST.
    #[n(7)]
    pub lease: Option<Lease>,
    /// The last progress of the current attempt.
    #[n(8)]
    pub progress: Option<Progress>,
    /// When the task ended, on the life clock.
    #[n(9)]
    pub ended: Option<LifeTime>,
}

/// A handler's own account of how far it came; the next attempt receives it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Checkpoint {
    /// The JSON text.
    #[n(0)]
    pub data: Text,
    /// When it was recorded.
    #[n(1)]
    pub at: Timestamp,
    /// Sequence number of its record.
    #[n(2)]
    pub seq: Seq,
}

/// The right to run a task, given to one executor for a time.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Lease {
    /// Fencing token.
    #[n(0)]
    pub fence: Fence,
    /// The executor.
    #[n(1)]
    pub worker: WorkerId,
    /// When it ends unless renewed, on the service clock. Zero when it was revoked.
    #[n(2)]
    pub ends: ServiceTime,
    /// Hash of its secret.
    #[n(3)]
    pub secret: SecretHash,
    /// The handler's process, once its start was reported.
    #[n(4)]
    pub process: Option<ProcessId>,
}

/// One execution.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Attempt {
    /// Number, from 1.
    #[n(0)]
    pub number: u32,
    /// Fencing token.
    #[n(1)]
    pub fence: Fence,
    /// The executor.
    #[n(2)]
    pub worker: WorkerId,
    /// The executor's name, for people.
    #[n(3)]
    pub worker_name: Text,
    /// When it was leased.
    #[n(4)]
    pub leased: Timestamp,
    /// How long the task had been due by then.
    #[n(5)]
    pub waited: Millis,
    /// When its process started, as far as was reported.
    #[n(6)]
    pub started: Option<Timestamp>,
    /// How it ended.
    #[n(7)]
    pub end: Option<AttemptEnd>,
    /// Hash of its lease's secret, so that a repeated finish is known for what it is.
    #[n(8)]
    pub secret: SecretHash,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AttemptEnd {
    /// The outcome.
    #[n(0)]
    pub outcome: Outcome,
    /// When.
    #[n(1)]
    pub at: Timestamp,
    /// The status that the task took.
    #[n(2)]
    pub status: Status,
    /// Exit status of the handler.
    #[n(3)]
    pub exit_code: Option<i32>,
    /// Signal that ended the handler.
    #[n(4)]
    pub signal: Option<i32>,
    /// The error.
    #[n(5)]
    pub error: Option<Text>,
    /// What its processes used.
    #[n(6)]
    pub usage: Option<Usage>,
}

/// One line of a task's life.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Transition {
    /// Sequence number of its record.
    #[n(0)]
    pub seq: Seq,
    /// When.
    #[n(1)]
    pub at: Timestamp,
    /// The status before.
    #[n(2)]
    pub from: Status,
    /// The status after; the same where only something about the task changed.
    #[n(3)]
    pub to: Status,
    /// Why; absent where the status stayed.
    #[n(4)]
    pub reason: Option<Reason>,
    /// Who or what caused it.
    #[n(5)]
    pub by: Actor,
    /// The wait until the next run, where one was set.
    #[n(6)]
    pub wait: Option<Millis>,
    /// More, in words.
    #[n(7)]
    pub note: Option<Text>,
}

/// The first and the last transitions of a task; those between are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Transitions {
    /// The first ones.
    #[n(0)]
    pub first: Vec<Transition>,
    /// The last ones.
    #[n(1)]
    pub last: VecDeque<Transition>,
    /// How many were dropped between them.
    #[n(2)]
    pub dropped: u64,
}

impl Transitions {
    /// Adds one; the oldest of the last ones makes room.
    pub fn push(&mut self, transition: Transition) {
        if self.first.len() < TRANSITIONS_KEPT {
            self.first.push(transition);
            return;
        }
        if self.last.len() == TRANSITIONS_KEPT {
            self.last.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
        self.last.push_back(transition);
    }

    /// All that are kept, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Transition> {
        self.first.iter().chain(&self.last)
    }
}

impl Life {
    /// Adds an attempt; the oldest kept one makes room.
    pub fn push_attempt(&mut self, attempt: Attempt) {
        if self.attempts.len() == ATTEMPTS_KEPT {
            self.attempts.pop_front();
        }
        self.attempt_count = attempt.number;
        self.attempts.push_back(attempt);
    }
}

/// What a task counts for before anything of its own: its place in the table and in the indexes.
const TASK_BYTES: u64 = 200;

/// What each attempt that is kept counts for before its texts.
const ATTEMPT_BYTES: u64 = 256;

/// What each line of history counts for before its text.
const TRANSITION_BYTES: u64 = 128;

/// What each task counts for that another one waits for: two places in lists, and one in an index.
const AFTER_BYTES: u64 = 64;

fn after_bytes(after: Option<&After>) -> u64 {
    let tasks = after.map_or(0, |after| after.tasks.len());
    u64::try_from(tasks).unwrap_or(u64::MAX).saturating_mul(AFTER_BYTES)
}

fn length(text: Option<&Text>) -> u64 {
    text.map_or(0, |text| u64::try_from(text.len()).unwrap_or(u64::MAX))
}

impl TaskSpec {
    /// What the task counts for against `max_state` when it is submitted; see [`Task::bytes`].
    pub fn bytes(&self) -> u64 {
        let texts = [Some(&self.payload), self.key.as_ref(), self.checkpoint.as_ref()];
        let own = TASK_BYTES.saturating_add(after_bytes(self.after.as_ref()));
        texts.into_iter().map(length).fold(own, u64::saturating_add)
    }
}

impl Task {
    /// What the task counts for against `max_state`, in bytes: 200, the lengths of its payload,
    /// key, checkpoint, result and error, for each task it waits or waited for 64, for each attempt that is kept 256 and the lengths of its
    /// texts, and for each line of history that is kept 128 and the length of its note.
    ///
    /// A text that several of these share in memory counts for each of them, for after a restart
    /// they do not share it. The name of the type is shared by all tasks and counts for none.
    pub fn bytes(&self) -> u64 {
        let own = [Some(&self.payload), self.key()].into_iter().map(length);
        let own = own.fold(TASK_BYTES, u64::saturating_add);
        let own = own.saturating_add(after_bytes(self.after()));
        let Some(life) = self.life.as_deref() else { return own };
        let checkpoint = life.checkpoint.as_ref().map(|checkpoint| &checkpoint.data);
        let texts = [checkpoint, life.result.as_ref(), life.error.as_ref()].into_iter().map(length);
        let attempts = life.attempts.iter().map(|attempt| {
            let error = attempt.end.as_ref().and_then(|end| end.error.as_ref());
            let texts = length(error).saturating_add(length(Some(&attempt.worker_name)));
            texts.saturating_add(ATTEMPT_BYTES)
        });
        let lines = life.transitions.iter();
        let lines = lines.map(|line| length(line.note.as_ref()).saturating_add(TRANSITION_BYTES));
        texts.chain(attempts).chain(lines).fold(own, u64::saturating_add)
    }

    /// When it ended, on the life clock; none while it has not. What was recorded before this was
    /// kept counts from when it was due.
    pub fn ended(&self) -> Option<LifeTime> {
        let ended = self.life.as_ref().and_then(|life| life.ended);
        self.status.is_terminal().then(|| ended.unwrap_or(self.due))
    }

    /// A task that waits and has nothing to it.
    #[cfg(test)]
    pub(crate) fn pending(id: TaskId) -> Self {
        Self {
            id,
            kind: "job".into(),
            payload: "null".into(),
            status: Status::Pending,
            priority: 100,
            due: LifeTime(0),
            retry_count: 0,
            max_retry: 5,
            lost_count: 0,
            timeout: None,
            created: Timestamp(0),
            updated: Timestamp(0),
            born: Seq(1),
            extra: None,
            life: None,
        }
    }

    /// Whether what it holds fits its status: the first thing that does not, in words.
    pub fn check(&self) -> Result<(), String> {
        let (id, status) = (self.id, self.status);
        if status.is_leased() != self.lease().is_some() {
            return Err(format!("task {id} is {status} and its lease does not fit that"));
        }
        if self.stop().is_some() && !status.is_leased() {
            return Err(format!("task {id} is {status} and still has a stop to obey"));
        }
        let has_ended = self.life.as_ref().is_some_and(|life| life.ended.is_some());
        if has_ended && !status.is_terminal() {
            return Err(format!("task {id} is {status} and has ended"));
        }
        // It has never run, and may have ended all the same.
        let ran = status.is_leased() || matches!(status, Status::Retrying | Status::Success);
        if !self.open().is_empty() && ran {
            return Err(format!("task {id} is {status} and waits for other tasks"));
        }
        Ok(())
    }

    /// The lease, while the task is RUNNING or LOST.
    pub fn lease(&self) -> Option<&Lease> {
        self.life.as_ref()?.lease.as_ref()
    }

    /// What a person asked of it while it runs.
    pub fn stop(&self) -> Option<Stop> {
        self.life.as_ref()?.stop
    }

    /// The last checkpoint.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.life.as_ref()?.checkpoint.as_ref()
    }

    /// Attempts so far.
    pub fn attempt_count(&self) -> u32 {
        self.life.as_ref().map_or(0, |life| life.attempt_count)
    }

    /// The kept attempt that has this fence.
    pub fn attempt(&self, fence: Fence) -> Option<&Attempt> {
        self.life.as_ref()?.attempts.iter().rev().find(|attempt| attempt.fence == fence)
    }

    /// When it took its status.
    pub fn status_since(&self) -> Timestamp {
        let lines = self.life.iter().flat_map(|life| life.transitions.iter().rev());
        let mut moves = lines.filter(|line| line.reason.is_some());
        moves.next().map_or(self.created, |line| line.at)
    }

    /// What the last attempt that ended used, where that is known.
    pub fn usage(&self) -> Option<Usage> {
        let mut attempts = self.life.iter().flat_map(|life| life.attempts.iter().rev());
        attempts.find_map(|attempt| attempt.end.as_ref())?.usage
    }

    /// Idempotency key.
    pub fn key(&self) -> Option<&Text> {
        self.extra.as_ref()?.key.as_ref()
    }

    /// Not before this wall time.
    pub fn at(&self) -> Option<Timestamp> {
        self.extra.as_ref()?.at
    }

    /// Lets it be due at a wall time, or by the life clock alone.
    pub fn set_at(&mut self, at: Option<Timestamp>) {
        match at {
            Some(at) => {
                let none = || Shared::new(Extra::default());
                self.extra.get_or_insert_with(none).make_mut().at = Some(at);
            }
            None => self.forget_at(),
        }
    }

    /// Lets it be due by the life clock alone.
    pub fn forget_at(&mut self) {
        if let Some(extra) = self.extra.as_mut().filter(|extra| extra.at.is_some()) {
            extra.make_mut().at = None;
        }
    }

    /// The task that this one runs again.
    pub fn retry_of(&self) -> Option<TaskId> {
        self.extra.as_ref()?.retry_of
    }

    /// The schedule that made it, and for which time.
    pub fn scheduled(&self) -> Option<&Scheduled> {
        self.extra.as_ref()?.scheduled.as_ref()
    }

    /// The tasks it waits for, or waited for.
    pub fn after(&self) -> Option<&After> {
        self.extra.as_ref()?.after.as_ref()
    }

    /// The tasks it still waits for.
    pub fn open(&self) -> &[TaskId] {
        let open = self.extra.as_ref().and_then(|extra| extra.open.as_deref());
        open.unwrap_or_default()
    }

    /// It waits no longer for that task.
    pub(super) fn release(&mut self, of: TaskId) {
        if let Some(extra) = &mut self.extra {
            let open = &mut extra.make_mut().open;
            if let Some(open) = open {
                open.retain(|id| *id != of);
            }
            if open.as_ref().is_some_and(Vec::is_empty) {
                *open = None;
            }
        }
    }

    /// Who submitted it.
    pub fn submitter(&self) -> Actor {
        self.extra.as_ref().and_then(|extra| extra.by.clone()).unwrap_or(Actor::Daemon)
    }
}
