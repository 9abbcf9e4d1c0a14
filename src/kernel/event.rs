//! What can happen: the closed list of events, and the stamp each record carries.
//!
//! A kind number or a map key is never reused, and what is absent means what it meant before the
//! field existed, so that every journal ever written can be read.

use super::alerts::{Grade, Rule, Told};
use super::ids::{
    Fence, LifeTime, Millis, ProcessId, Seq, ServiceTime, TaskId, Timestamp, WorkerId,
};
use super::schedule::{Origin, Passed, ScheduleSpec, Scheduled};
use super::status::{Outcome, Reason, Status, Stop};
use super::task::{InputDigest, Progress, SecretHash, TaskSpec, Usage};
use super::task_type::Rate;
use super::text::Text;
use minicbor::{Decode, Encode};
use std::fmt;

/// Who or what caused an event.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Actor {
    /// The daemon itself.
    #[n(0)]
    Daemon,
    /// A person or program, by user id.
    #[n(1)]
    User(#[n(0)] u32),
    /// A worker.
    #[n(2)]
    Worker(#[n(0)] WorkerId),
    /// Something from outside that makes tasks: `inbox`, `hook deploy`.
    #[n(3)]
    Trigger(#[n(0)] Text),
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Daemon => f.write_str("daemon"),
            Self::User(uid) => write!(f, "uid {uid}"),
            Self::Worker(worker) => write!(f, "worker {worker}"),
            Self::Trigger(trigger) => f.write_str(trigger),
        }
    }
}

/// When and by whom: stored with every event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Place in the journal.
    pub seq: Seq,
    /// The wall clock.
    pub wall: Timestamp,
    /// The life clock.
    pub life: LifeTime,
    /// The service clock.
    pub service: ServiceTime,
    /// Who or what caused it.
    pub by: Actor,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A task was submitted: it exists, PENDING.
    Submitted(Submitted),
    /// A task was leased to a worker: RUNNING.
    Leased(Leased),
    /// A worker told what it holds. Not synced on its own.
    Heard(Heard),
    /// A handler left a checkpoint.
    Checkpointed(Checkpointed),
    /// An attempt ended, as its executor or the clock tells.
    Ended(Ended),
    /// A task changed its status otherwise.
    Moved(Moved),
    /// A person asked for a running task to stop.
    StopRequested(StopRequested),
    /// A waiting task was made due at once.
    Hurried(Hurried),
    /// A worker registered.
    WorkerJoined(WorkerJoined),
    /// A worker's standing changed.
    WorkerMoved(WorkerMoved),
    /// A worker took up another config.
    WorkerChanged(WorkerChanged),
    /// Somebody spoke for a lease that is not theirs, and was refused.
    Refused(Refused),
    /// The engine started.
    Started(Started),
    /// Ended tasks left the state. Not synced on its own.
    Forgotten(Forgotten),
    /// Nothing of a type is dispatched any more.
    TypePaused(TypePaused),
    /// A paused type is dispatched again.
    TypeResumed(TypeResumed),
    /// The bounds of a type were set, or given back to the config.
    TypeLimited(TypeLimited),
    /// A waiting task was changed by a person.
    Edited(Edited),
    /// The wall clock was put forward or back.
    ClockStepped(ClockStepped),
    /// A schedule was made or changed.
    ScheduleSet(ScheduleSet),
    /// A schedule was removed.
    ScheduleRemoved(ScheduleRemoved),
    /// A schedule does not fire any more.
    SchedulePaused(SchedulePaused),
    /// A paused schedule fires again.
    ScheduleResumed(ScheduleResumed),
    /// Planned times of a schedule were decided; where one was fired, its task was made.
    Fired(Fired),
    /// A task that another one waited for ended as hoped.
    Released(Released),
    /// Something that no other event tells of is wrong.
    AlertRaised(AlertRaised),
    /// It is not wrong any more.
    AlertCleared(AlertCleared),
    /// A person knows of an alert.
    AlertAcked(AlertAcked),
    /// A channel was told of alerts.
    AlertsTold(AlertsTold),
}

/// A task was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Submitted {
    /// Its id.
    #[n(0)]
    pub task: TaskId,
    /// What is wanted.
    #[n(1)]
    pub spec: TaskSpec,
    /// When it is due, on the life clock.
    #[n(2)]
    pub due: LifeTime,
}

/// A task was leased. Its fencing token is the sequence number of this record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Leased {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// Fencing token: equal to the record's own sequence number.
    #[n(1)]
    pub fence: Fence,
    /// The executor.
    #[n(2)]
    pub worker: WorkerId,
    /// When the lease ends unless renewed.
    #[n(3)]
    pub ends: ServiceTime,
    /// Hash of its secret.
    #[n(4)]
    pub secret: SecretHash,
    /// The rate of its type, which counts this dispatch.
    #[n(5)]
    pub rate: Option<Rate>,
    /// Set where it was taken out of turn, for it had waited too long.
    #[n(6)]
    pub promoted: Option<bool>,
}

/// A worker told what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Heard {
    /// The worker.
    #[n(0)]
    pub worker: WorkerId,
    /// What changed about its attempts.
    #[n(1)]
    pub holds: Vec<Held>,
}

/// What a heartbeat changed about one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Held {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// Fencing token.
    #[n(1)]
    pub fence: Fence,
    /// When the lease ends now.
    #[n(2)]
    pub ends: ServiceTime,
    /// The handler's process, when this is the first word of its start.
    #[n(3)]
    pub process: Option<ProcessId>,
    /// New progress.
    #[n(4)]
    pub progress: Option<Progress>,
}

/// A handler left a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Checkpointed {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// Fencing token.
    #[n(1)]
    pub fence: Fence,
    /// The JSON text.
    #[n(2)]
    pub data: Text,
}

/// An attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Ended {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// Fencing token.
    #[n(1)]
    pub fence: Fence,
    /// How the attempt ended.
    #[n(2)]
    pub outcome: Outcome,
    /// The status the task takes.
    #[n(3)]
    pub to: Status,
    /// Why.
    #[n(4)]
    pub reason: Reason,
    /// The wait until the next run, where there is one.
    #[n(5)]
    pub wait: Option<Millis>,
    /// Exit status of the handler.
    #[n(6)]
    pub exit_code: Option<i32>,
    /// Signal that ended the handler.
    #[n(7)]
    pub signal: Option<i32>,
    /// The handler's result.
    #[n(8)]
    pub result: Option<Text>,
    /// The error.
    #[n(9)]
    pub error: Option<Text>,
    /// What its processes used.
    #[n(10)]
    pub usage: Option<Usage>,
    /// The attempt's number, from 1.
    #[n(11)]
    pub attempt: Option<u32>,
    /// How long the handler ran, as its worker measured it.
    #[n(12)]
    pub ran: Option<Millis>,
    /// Digest of the input that it ran.
    #[n(13)]
    pub input: Option<InputDigest>,
    /// Set where that is not the digest of the payload.
    #[n(14)]
    pub wrong_input: Option<bool>,
}

/// A task changed its status otherwise than by a lease or the end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Moved {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// The status it takes.
    #[n(1)]
    pub to: Status,
    /// Why.
    #[n(2)]
    pub reason: Reason,
    /// The wait until the next run, where there is one.
    #[n(3)]
    pub wait: Option<Millis>,
    /// The error, where it ends without an attempt.
    #[n(4)]
    pub error: Option<Text>,
}

/// A person asked for a running task to stop.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StopRequested {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// What is wanted of it.
    #[n(1)]
    pub stop: Stop,
    /// A new limit of retries, for a reset.
    #[n(2)]
    pub max_retry: Option<u32>,
}

/// A waiting task was made due at once.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Hurried {
    /// The task.
    #[n(0)]
    pub task: TaskId,
}

/// A worker registered. Its id is the sequence number of this record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WorkerJoined {
    /// Its id.
    #[n(0)]
    pub worker: WorkerId,
    /// What it said of itself.
    #[n(1)]
    pub registration: Registration,
}

/// What a worker says of itself when it registers.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Registration {
    /// A name for people.
    #[n(0)]
    pub name: Text,
    /// The process.
    #[n(1)]
    pub process: ProcessId,
    /// Host name.
    #[n(2)]
    pub host: Text,
    /// Version of the program.
    #[n(3)]
    pub version: Text,
    /// Name of its lock file below `run/`.
    #[n(4)]
    pub lock: Text,
    /// Task types it can run.
    #[n(5)]
    pub kinds: Vec<Text>,
    /// Attempts it can run at once.
    #[n(6)]
    pub slots: u32,
}

/// A worker's standing changed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WorkerMoved {
    /// The worker.
    #[n(0)]
    pub worker: WorkerId,
    /// Its standing now.
    #[n(1)]
    pub to: Standing,
    /// Why, where it is gone.
    #[n(2)]
    pub reason: Option<Reason>,
}

/// A worker took up another config; what it runs goes on.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WorkerChanged {
    /// The worker.
    #[n(0)]
    pub worker: WorkerId,
    /// Task types it can run from now on.
    #[n(1)]
    pub kinds: Vec<Text>,
    /// Attempts it can run at once from now on; what is more runs to its end.
    #[n(2)]
    pub slots: u32,
}

/// How a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Standing {
    /// It was heard of lately.
    #[n(0)]
    Alive,
    /// It was silent for a while; nothing is taken from it.
    #[n(1)]
    Suspect,
    /// It was silent for too long; its tasks are LOST.
    #[n(2)]
    Offline,
    /// It left, or is known to be dead; its entry is removed.
    #[n(3)]
    Gone,
}

impl Standing {
    /// The word that people and programs see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Offline => "offline",
            Self::Gone => "gone",
        }
    }
}

/// Somebody spoke for a lease that is not theirs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Refused {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// The token that was shown.
    #[n(1)]
    pub fence: Fence,
    /// What was refused.
    #[n(2)]
    pub act: Act,
}

impl Refused {
    /// The refusal in words, as it stands in the task's history.
    pub fn note(&self) -> String {
        let Self { task: _, fence, act } = self;
        format!("refused a {} with token {fence}, which is no longer valid", act.word())
    }
}

/// What an executor may do with its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Act {
    /// Renew it.
    #[n(0)]
    Heartbeat,
    /// Leave a checkpoint.
    #[n(1)]
    Checkpoint,
    /// End the attempt.
    #[n(2)]
    Finish,
}

impl Act {
    /// The act in a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Heartbeat => "heartbeat",
            Self::Checkpoint => "checkpoint",
            Self::Finish => "result",
        }
    }
}

/// The engine started; the first record of each run.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Started {
    /// Its version.
    #[n(0)]
    pub version: Text,
    /// Boot id of the kernel it runs under.
    #[n(1)]
    pub boot_id: Text,
    /// Milliseconds of `CLOCK_BOOTTIME` at this record's reading of the life clock.
    #[n(2)]
    pub boot_clock: Millis,
    /// The smallest id that the next task may have; raised after a start that may have lost ids
    /// already handed out.
    #[n(3)]
    pub next_task: TaskId,
    /// The stretch of wall time that nobody lived through, if there was one: from the last record
    /// to this one.
    #[n(4)]
    pub jump: Option<Jump>,
}

/// A stretch of wall time that was passed over, by a step of the clock or by an absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Jump {
    /// The last wall time before it.
    #[n(0)]
    pub from: Timestamp,
    /// The first one after it.
    #[n(1)]
    pub to: Timestamp,
}

/// The wall clock was put forward or back.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ClockStepped {
    /// What it would show without the step.
    #[n(0)]
    pub from: Timestamp,
    /// What it shows.
    #[n(1)]
    pub to: Timestamp,
    /// The stretch that counts as passed over from now on.
    #[n(2)]
    pub jump: Option<Jump>,
    /// Set where the step takes back what a jump had opened: planned times that were decided in it
    /// without a run are open again. False where that holds only for schedules that were made, or
    /// given other times, after what the clock shows now.
    #[n(3)]
    pub reopens: Option<bool>,
    /// Set where the clock had not been set before: what a schedule that was made meanwhile would
    /// have planned before this step was no time of its.
    #[n(4)]
    pub first_set: Option<bool>,
}

/// A schedule was made or changed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ScheduleSet {
    /// Its name.
    #[n(0)]
    pub name: Text,
    /// What is wanted.
    #[n(1)]
    pub spec: ScheduleSpec,
    /// Where it comes from.
    #[n(2)]
    pub origin: Origin,
    /// The planned time that is decided next; absent where nothing is planned.
    #[n(3)]
    pub next: Option<Timestamp>,
    /// Set where it fires at the same times as before: what was decided stays so.
    #[n(4)]
    pub keeps: Option<bool>,
}

/// A schedule was removed. Its tasks stay.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ScheduleRemoved {
    /// Its name.
    #[n(0)]
    pub name: Text,
}

/// A schedule does not fire any more; what it made goes on.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SchedulePaused {
    /// Its name.
    #[n(0)]
    pub name: Text,
    /// Why, where it was said.
    #[n(1)]
    pub reason: Option<Text>,
}

/// A paused schedule fires again; what was planned meanwhile is not made up for.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ScheduleResumed {
    /// Its name.
    #[n(0)]
    pub name: Text,
    /// The planned time that is decided next.
    #[n(1)]
    pub next: Option<Timestamp>,
}

/// Planned times of a schedule were decided.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Fired {
    /// The schedule.
    #[n(0)]
    pub schedule: Text,
    /// What became of which planned times, in their order.
    #[n(1)]
    pub passed: Vec<Passed>,
    /// The task that was made. Its `scheduled` says for which time.
    #[n(2)]
    pub task: Option<Submitted>,
    /// The planned time that is decided next.
    #[n(3)]
    pub next: Option<Timestamp>,
    /// Nothing up to here is decided again.
    #[n(4)]
    pub decided: Timestamp,
    /// The fires that wait afterwards, where that changed.
    #[n(5)]
    pub queued: Option<Vec<Scheduled>>,
}

/// A task that another one waited for ended as hoped.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Released {
    /// The task that waited.
    #[n(0)]
    pub task: TaskId,
    /// The task that ended.
    #[n(1)]
    pub of: TaskId,
}

/// Something that no other event tells of is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AlertRaised {
    /// What.
    #[n(0)]
    pub rule: Rule,
    /// With what.
    #[n(1)]
    pub subject: Text,
    /// How bad it is.
    #[n(2)]
    pub grade: Grade,
    /// In words.
    #[n(3)]
    pub what: Text,
}

/// What was wrong is not wrong any more.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AlertCleared {
    /// What.
    #[n(0)]
    pub rule: Rule,
    /// With what.
    #[n(1)]
    pub subject: Text,
}

/// A person knows of an alert, and wants to hear no more of it until it comes back.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AlertAcked {
    /// Its number.
    #[n(0)]
    pub alert: u64,
}

/// A channel was told of alerts; of none, where it is new.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AlertsTold {
    /// The channel.
    #[n(0)]
    pub channel: Text,
    /// What it knows now.
    #[n(1)]
    pub told: Vec<Told>,
}

/// Ended tasks left the state, as retention has it; nothing of them is known any more.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Forgotten {
    /// The tasks, each once; at most [`crate::limits::FORGOTTEN_PER_RECORD_MAX`].
    #[n(0)]
    pub tasks: Vec<TaskId>,
}

/// Nothing of a type is dispatched any more; what runs goes on.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TypePaused {
    /// The type.
    #[n(0)]
    pub kind: Text,
    /// Why, where it was said.
    #[n(1)]
    pub reason: Option<Text>,
}

/// A paused type is dispatched again.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TypeResumed {
    /// The type.
    #[n(0)]
    pub kind: Text,
}

/// The bounds that people set for a type, all of them as they are now.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TypeLimited {
    /// The type.
    #[n(0)]
    pub kind: Text,
    /// Tasks that hold a lease at once; zero for no bound.
    #[n(1)]
    pub max_running: Option<u32>,
    /// Its rate; a count of zero for none.
    #[n(2)]
    pub rate: Option<Rate>,
}

/// A waiting or paused task was changed by a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Edited {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// Its priority now.
    #[n(1)]
    pub priority: Option<i32>,
    /// Its limit of retries now.
    #[n(2)]
    pub max_retry: Option<u32>,
    /// Longest run of one attempt now; zero for no limit.
    #[n(3)]
    pub timeout: Option<Millis>,
    /// When it is due now, on the life clock.
    #[n(4)]
    pub due: Option<LifeTime>,
    /// Where it has a new due time: not before this wall time.
    #[n(5)]
    pub at: Option<Timestamp>,
}

impl Edited {
    /// What was changed, as it stands in the task's history.
    pub fn note(&self) -> String {
        let Self { task: _, priority, max_retry, timeout, due, at: _ } = self;
        let words = [
            priority.map(|priority| format!("priority {priority}")),
            max_retry.map(|max_retry| format!("max_retry {max_retry}")),
            timeout.map(|timeout| match timeout {
                Millis(0) => "no timeout".to_owned(),
                Millis(ms) => format!("timeout {ms} ms"),
            }),
            due.map(|_| "next run".to_owned()),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
        format!("edited: {}", words.join(", "))
    }
}

impl Event {
    /// The task that the event is about.
    pub fn task(&self) -> Option<TaskId> {
        match self {
            Self::Submitted(event) => Some(event.task),
            Self::Leased(event) => Some(event.task),
            Self::Checkpointed(event) => Some(event.task),
            Self::Ended(event) => Some(event.task),
            Self::Moved(event) => Some(event.task),
            Self::StopRequested(event) => Some(event.task),
            Self::Hurried(event) => Some(event.task),
            Self::Refused(event) => Some(event.task),
            Self::Edited(event) => Some(event.task),
            Self::Fired(event) => event.task.as_ref().map(|submitted| submitted.task),
            Self::Released(event) => Some(event.task),
            Self::Heard(_)
            | Self::WorkerJoined(_)
            | Self::WorkerMoved(_)
            | Self::WorkerChanged(_)
            | Self::Started(_)
            | Self::Forgotten(_)
            | Self::TypePaused(_)
            | Self::TypeResumed(_)
            | Self::TypeLimited(_)
            | Self::ClockStepped(_)
            | Self::ScheduleSet(_)
            | Self::ScheduleRemoved(_)
            | Self::SchedulePaused(_)
            | Self::ScheduleResumed(_)
            | Self::AlertRaised(_)
            | Self::AlertCleared(_)
            | Self::AlertAcked(_)
            | Self::AlertsTold(_) => None,
        }
    }

    /// The type that the event is about, where it is about a whole type.
    pub const fn task_type(&self) -> Option<&Text> {
        let (Self::TypePaused(TypePaused { kind, .. })
        | Self::TypeResumed(TypeResumed { kind })
        | Self::TypeLimited(TypeLimited { kind, .. })) = self
        else {
            return None;
        };
        Some(kind)
    }

    /// The schedule that the event is about.
    pub const fn schedule(&self) -> Option<&Text> {
        match self {
            Self::ScheduleSet(ScheduleSet { name, .. })
            | Self::ScheduleRemoved(ScheduleRemoved { name })
            | Self::SchedulePaused(SchedulePaused { name, .. })
            | Self::ScheduleResumed(ScheduleResumed { name, .. })
            | Self::Fired(Fired { schedule: name, .. }) => Some(name),
            Self::Submitted(_)
            | Self::Leased(_)
            | Self::Heard(_)
            | Self::Checkpointed(_)
            | Self::Ended(_)
            | Self::Moved(_)
            | Self::StopRequested(_)
            | Self::Hurried(_)
            | Self::WorkerJoined(_)
            | Self::WorkerMoved(_)
            | Self::WorkerChanged(_)
            | Self::Refused(_)
            | Self::Started(_)
            | Self::Forgotten(_)
            | Self::TypePaused(_)
            | Self::TypeResumed(_)
            | Self::TypeLimited(_)
            | Self::Edited(_)
            | Self::ClockStepped(_)
            | Self::Released(_)
            | Self::AlertRaised(_)
            | Self::AlertCleared(_)
            | Self::AlertAcked(_)
            | Self::AlertsTold(_) => None,
        }
    }

    /// Whether it must be on disk as soon as can be, for an answer rests on it. Losing a heartbeat
    /// only shortens a lease, and a restart adds a grace; what was forgotten and is there again is
    /// forgotten again; a planned time whose decision made nothing is decided again.
    pub const fn is_durable(&self) -> bool {
        if let Self::Fired(fired) = self {
            return fired.task.is_some() || fired.queued.is_some();
        }
        !matches!(self, Self::Heard(_) | Self::Forgotten(_))
    }

    /// The event's name in dumps and streams.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Submitted(_) => "submitted",
            Self::Leased(_) => "leased",
            Self::Heard(_) => "heard",
            Self::Checkpointed(_) => "checkpointed",
            Self::Ended(_) => "ended",
            Self::Moved(_) => "moved",
            Self::StopRequested(_) => "stop_requested",
            Self::Hurried(_) => "hurried",
            Self::WorkerJoined(_) => "worker_joined",
            Self::WorkerMoved(_) => "worker_moved",
            Self::WorkerChanged(_) => "worker_changed",
            Self::Refused(_) => "refused",
            Self::Started(_) => "started",
            Self::Forgotten(_) => "forgotten",
            Self::TypePaused(_) => "type_paused",
            Self::TypeResumed(_) => "type_resumed",
            Self::TypeLimited(_) => "type_limited",
            Self::Edited(_) => "edited",
            Self::ClockStepped(_) => "clock_stepped",
            Self::ScheduleSet(_) => "schedule_set",
            Self::ScheduleRemoved(_) => "schedule_removed",
            Self::SchedulePaused(_) => "schedule_paused",
            Self::ScheduleResumed(_) => "schedule_resumed",
            Self::Fired(_) => "fired",
            Self::Released(_) => "released",
            Self::AlertRaised(_) => "alert_raised",
            Self::AlertCleared(_) => "alert_cleared",
            Self::AlertAcked(_) => "alert_acked",
            Self::AlertsTold(_) => "alerts_told",
        }
    }
}
