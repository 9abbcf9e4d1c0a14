//! What a command would change, as events. Touches nothing.

mod after;
mod alerts;
mod lease;
mod people;
mod schedules;
mod types;

pub use alerts::AlertAct;
pub use schedules::ScheduleAct;
pub use types::{Change, TypeAct};

use super::calendar::CalendarError;
use super::event::{Actor, Event, Moved, Registration, Standing};
use super::ids::{Fence, Millis, Moment, ProcessId, Seq, TaskId, Timestamp, WorkerId};
use super::rules::Rules;
use super::state::State;
use super::status::{Outcome, Reason, Status, Stop};
use super::task::{InputDigest, Progress, SecretHash, TaskSpec, Usage};
use super::text::Text;
use super::verdict::Verb;
use crate::limits::FIRES_QUEUED_MAX;
use crate::limits::{AFTER_MAX, SCHEDULES_MAX};
use std::fmt;

/// What somebody wants.
#[derive(Clone, Debug)]
pub enum Command {
    /// A new task.
    Submit(TaskSpec),
    /// A new task whose payload does not fit its handler, from where nobody hears a refusal: it is
    /// recorded, and has FAILED.
    SubmitInvalid {
        /// What was wanted.
        spec: TaskSpec,
        /// What does not fit.
        error: Text,
    },
    /// Something about a task that exists.
    Act {
        /// The task.
        task: TaskId,
        /// What is wanted.
        verb: Verb,
        /// For reset and edit: a new limit of retries.
        max_retry: Option<u32>,
        /// For retry: whether to leave the checkpoint behind.
        fresh: bool,
    },
    /// A waiting or paused task is to be changed.
    Edit {
        /// The task.
        task: TaskId,
        /// What is wanted.
        edit: Edit,
    },
    /// Something about a whole task type.
    ActOnType {
        /// The type.
        kind: Text,
        /// What is wanted.
        act: TypeAct,
    },
    /// Something about a schedule.
    ActOnSchedule {
        /// Its name.
        name: Text,
        /// What is wanted.
        act: ScheduleAct,
    },
    /// Something about alerts.
    ActOnAlerts(AlertAct),
    /// A task has ended for which others wait.
    Settle(TaskId),
    /// A planned time of a schedule has come, or a fire that waited has room.
    Fire(Text),
    /// The wall clock was put forward or back.
    StepClock {
        /// What it would show without the step.
        from: Timestamp,
        /// What it shows.
        to: Timestamp,
    },
    /// A worker registers.
    Register(Registration),
    /// A worker took up another config.
    Offer {
        /// The worker.
        worker: WorkerId,
        /// Task types it can run from now on.
        kinds: Vec<Text>,
        /// Attempts it can run at once from now on.
        slots: u32,
    },
    /// A worker leaves; it holds nothing more.
    Leave(WorkerId),
    /// A worker has free slots: one hashed secret for each lease it would take.
    Lease {
        /// The worker.
        worker: WorkerId,
        /// Hashes of the secrets for the leases.
        secrets: Vec<SecretHash>,
    },
    /// A worker tells what it holds.
    Heartbeat {
        /// The worker.
        worker: WorkerId,
        /// Its attempts.
        holds: Vec<HoldReport>,
    },
    /// A handler leaves a checkpoint.
    Checkpoint {
        /// The lease.
        proof: Proof,
        /// The JSON text.
        data: Text,
    },
    /// An attempt ended.
    End {
        /// The lease.
        proof: Proof,
        /// How.
        report: EndReport,
    },
    /// A worker was silent for so long that it stands otherwise now.
    Silent {
        /// The worker.
        worker: WorkerId,
        /// Suspect or offline.
        standing: Standing,
    },
    /// A worker is known to be dead.
    Died {
        /// The worker.
        worker: WorkerId,
        /// `worker_crash` or `host_rebooted`.
        reason: Reason,
    },
    /// A lease is over, and whatever ran under it is known to be dead.
    Expire {
        /// The task.
        task: TaskId,
        /// Token of the lease.
        fence: Fence,
        /// Whether a handler had ever been started.
        ran: bool,
    },
    /// A task waits for a retry that its limit no longer allows.
    Bury(TaskId),
    /// Ended tasks need not stay any longer; those that did not end, or are waited for, are left
    /// alone.
    Forget(Vec<TaskId>),
}

/// What a person may change of a task that waits or is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Smaller runs first.
    pub priority: Option<i32>,
    /// Failed attempts it may be retried after; never fewer than it has had.
    pub max_retry: Option<u32>,
    /// Longest run of one attempt.
    pub timeout: Change<Millis>,
    /// When it may run next.
    pub next_run: Option<NextRun>,
}

/// When a task may run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRun {
    /// Not before this wall time.
    At(Timestamp),
    /// After this span. A paused task keeps it as a wall time, for nothing of it waits meanwhile.
    In(Millis),
}

/// Names a lease and proves that it is the speaker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Who speaks.
    pub worker: WorkerId,
    /// The task.
    pub task: TaskId,
    /// Token of the lease.
    pub fence: Fence,
    /// Hash of the secret that was shown.
    pub secret: SecretHash,
}

/// What a worker tells of one attempt.
#[derive(Clone, Debug)]
pub struct HoldReport {
    /// The lease.
    pub proof: Proof,
    /// The handler's process, once it was started.
    pub process: Option<ProcessId>,
    /// The handler's progress.
    pub progress: Option<Progress>,
}

/// What a worker tells of an attempt's end.
#[derive(Clone, Debug)]
pub struct EndReport {
    /// How it ended: anything but `lost`.
    pub outcome: Outcome,
    /// Whether a handler was ever started.
    pub started: bool,
    /// Exit status of the handler.
    pub exit_code: Option<i32>,
    /// Signal that ended the handler.
    pub signal: Option<i32>,
    /// Its result.
    pub result: Option<Text>,
    /// Its error.
    pub error: Option<Text>,
    /// What its processes used.
    pub usage: Option<Usage>,
    /// How long the handler ran, where one was started.
    pub ran: Option<Millis>,
    /// Digest of the input that it was given.
    pub input: Option<InputDigest>,
}

/// What a command would change, and what to answer once that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The events, in order; all of them go into one frame.
    pub events: Vec<Event>,
    /// The answer.
    pub answer: Answer,
}

/// What the speaker learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but that it was done.
    Done,
    /// The task, and whether it existed under its key.
    Submitted {
        /// The task.
        task: TaskId,
        /// Whether it was there already.
        existed: bool,
    },
    /// The task (for retry the new one), and whether anything changed.
    Acted {
        /// The task.
        task: TaskId,
        /// Whether anything changed.
        changed: bool,
    },
    /// Whether anything changed about the type.
    TypeActed {
        /// Whether anything changed.
        changed: bool,
    },
    /// Whether anything changed about the schedule, and the task that was made for it.
    ScheduleActed {
        /// Whether anything changed.
        changed: bool,
        /// The task.
        task: Option<TaskId>,
    },
    /// Whether anything changed about the alert.
    AlertActed {
        /// Whether anything changed.
        changed: bool,
    },
    /// The id of the worker.
    Registered(WorkerId),
    /// The leases; the n-th carries the n-th of the secrets.
    Leased(Vec<(TaskId, Fence)>),
    /// The attempts whose lease is not the speaker's: they must be stopped.
    Heard(Vec<(TaskId, Fence)>),
    /// Where the checkpoint is recorded.
    Checkpointed(Seq),
    /// The status that the task took.
    Ended(Status),
    /// It was refused, and that is on record.
    Refused(Rejection),
}

/// Why a command was refused: the speaker was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// There is no such task, and there never was.
    NoSuchTask(TaskId),
    /// There is no such task any more, if there ever was: ids up to there were given.
    Forgotten(TaskId),
    /// There is no such worker: it must register anew.
    NoSuchWorker(WorkerId),
    /// No handler, task or order names this type.
    NoSuchType(Text),
    /// There is no such schedule.
    NoSuchSchedule(Text),
    /// There is no alert with that number.
    NoSuchAlert(u64),
    /// There is a schedule of that name already.
    ScheduleExists(Text),
    /// The config names it, so only the config can take it away or change it.
    ScheduleOfConfig(Text),
    /// Its times cannot be planned.
    BadTimes(CalendarError),
    /// There would be more schedules than there may be.
    TooManySchedules,
    /// A run of the schedule is not over, and there may be no more at once.
    Overlaps {
        /// The schedule.
        schedule: Text,
        /// The run.
        task: TaskId,
    },
    /// As many fires of the schedule wait as may.
    FiresQueued(Text),
    /// It has failed more often than the new limit of retries would allow.
    RetriesUsed {
        /// The task.
        task: TaskId,
        /// How often it has failed.
        failed: u32,
        /// The limit that was wanted.
        max_retry: u32,
    },
    /// The status of the task does not allow it.
    WrongStatus {
        /// The task.
        task: TaskId,
        /// Its status.
        status: Status,
        /// What was wanted.
        verb: Verb,
    },
    /// It waits for other tasks, and nothing but their ends lets it run.
    Blocked {
        /// The task.
        task: TaskId,
        /// The tasks it waits for.
        open: Vec<TaskId>,
    },
    /// It would wait for so many tasks, more than one may.
    TooManyToWaitFor(usize),
    /// The key belongs to a submission with another type or payload.
    KeyConflict {
        /// The task under that key.
        task: TaskId,
        /// The key.
        key: Text,
    },
    /// The lease is not the speaker's, or is over.
    Stale {
        /// The task.
        task: TaskId,
        /// The token that was shown.
        fence: Fence,
    },
    /// The lease is not over.
    StillHeld(TaskId),
    /// Nothing is to be done about it.
    Needless,
    /// There is no room on the disk for new work.
    NoSpace,
    /// All tasks together would take more than they may.
    StateFull {
        /// Bytes that they take.
        bytes: u64,
        /// Bytes that they may take.
        max: u64,
    },
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchTask(task) => write!(f, "there is no task {task}"),
            Self::Forgotten(task) => write!(
                f,
                "there is no task {task} any more: ended tasks are forgotten after a time"
            ),
            Self::NoSuchWorker(worker) => write!(f, "there is no worker {worker}"),
            Self::NoSuchType(kind) => {
                write!(f, "there is no task type `{}`", Text::clipped(kind, 100).escape_debug())
            }
            Self::NoSuchSchedule(name) => {
                write!(f, "there is no schedule `{}`", Text::clipped(name, 100).escape_debug())
            }
            Self::NoSuchAlert(number) => write!(f, "there is no alert {number}"),
            Self::ScheduleExists(name) => write!(f, "there is a schedule `{name}` already"),
            Self::ScheduleOfConfig(name) => write!(
                f,
                "schedule `{name}` comes from the config: it can be paused, but only the config can \
                 change it or take it away"
            ),
            Self::BadTimes(error) => error.fmt(f),
            Self::TooManySchedules => {
                write!(f, "there are {SCHEDULES_MAX} schedules already, as many as there may be")
            }
            Self::Overlaps { schedule, task } => write!(
                f,
                "task {task} of schedule `{schedule}` is not over, and there may be no more of them \
                 at once"
            ),
            Self::FiresQueued(name) => write!(
                f,
                "{FIRES_QUEUED_MAX} runs of schedule `{name}` wait already, as many as may wait"
            ),
            Self::RetriesUsed { task, failed, max_retry } => write!(
                f,
                "task {task} has failed {failed} times already, more often than max_retry \
                 {max_retry} allows"
            ),
            Self::WrongStatus { task, status, verb } => f.write_str(&no_way(*task, *status, *verb)),
            Self::Blocked { task, open } => {
                let (first, more) = first_of(open);
                write!(f, "task {task} waits for task {first}{more} and cannot run before")
            }
            Self::TooManyToWaitFor(number) => {
                write!(f, "a task may wait for at most {AFTER_MAX} others, not {number}")
            }
            Self::KeyConflict { task, key } => write!(
                f,
                "the key `{key}` belongs to task {task}, which has another type or payload"
            ),
            Self::Stale { task, fence } => {
                write!(f, "the lease of task {task} with token {fence} is no longer valid")
            }
            Self::StillHeld(task) => write!(f, "the lease of task {task} is not over"),
            Self::Needless => f.write_str("nothing is to be done"),
            Self::NoSpace => {
                f.write_str("no space is left for new work on the data directory's disk")
            }
            Self::StateFull { bytes, max } => write!(
                f,
                "the tasks take {bytes} bytes together, and with one more they would take more than \
                 the {max} bytes of `retention.max_state`"
            ),
        }
    }
}

/// Why a status does not allow what was wanted.
fn no_way(task: TaskId, status: Status, verb: Verb) -> String {
    let ended = if status.is_terminal() { ", and ended tasks stay as they are" } else { "" };
    let why = verb.leads_to().map_or_else(
        || "only PENDING, PAUSED and RETRYING ones can change".to_owned(),
        |to| format!("there is no way from {status} to {to}"),
    );
    format!("cannot {} task {task}: it is {status}{ended} ({why})", verb.word())
}

/// The first of some tasks in words, and how many more there are.
fn first_of(tasks: &[TaskId]) -> (String, String) {
    let first: Vec<_> = tasks.iter().take(5).map(ToString::to_string).collect();
    let more = match tasks.len().saturating_sub(first.len()) {
        0 => String::new(),
        more => format!(" and {more} more,"),
    };
    (first.join(", "), more)
}

/// What `command` would change. Touches nothing; `rules` and `now` leave their results in the
/// events.
pub fn decide(
    state: &State,
    rules: &Rules,
    command: &Command,
    now: Moment,
) -> Result<Decision, Rejection> {
    let ask = Ask { state, rules, now };
    match command {
        Command::Submit(spec) => ask.submit(spec),
        Command::SubmitInvalid { spec, error } => ask.submit_invalid(spec, error),
        Command::Act { task, verb, max_retry, fresh } => ask.act(*task, *verb, *max_retry, *fresh),
        Command::Edit { task, edit } => ask.edit(*task, edit),
        Command::ActOnType { kind, act } => ask.act_on_type(kind, act),
        Command::ActOnSchedule { name, act } => ask.act_on_schedule(name, act),
        Command::ActOnAlerts(act) => ask.act_on_alerts(act),
        Command::Settle(task) => ask.settle(*task),
        Command::Fire(name) => ask.fire(name),
        Command::StepClock { from, to } => Ok(ask.step_clock(*from, *to)),
        Command::Register(registration) => Ok(ask.register(registration)),
        Command::Offer { worker, kinds, slots } => ask.offer(*worker, kinds, *slots),
        Command::Leave(worker) => ask.leave(*worker),
        Command::Lease { worker, secrets } => ask.lease(*worker, secrets),
        Command::Heartbeat { worker, holds } => ask.heartbeat(*worker, holds),
        Command::Checkpoint { proof, data } => Ok(ask.checkpoint(proof, data)),
        Command::End { proof, report } => Ok(ask.end(proof, report)),
        Command::Silent { worker, standing } => ask.silent(*worker, *standing),
        Command::Died { worker, reason } => ask.died(*worker, *reason),
        Command::Expire { task, fence, ran } => ask.expire(*task, *fence, *ran),
        Command::Bury(task) => ask.bury(*task),
        Command::Forget(tasks) => ask.forget(tasks),
    }
}

/// One question to the rules.
#[derive(Clone, Copy)]
struct Ask<'a> {
    state: &'a State,
    rules: &'a Rules,
    now: Moment,
}

impl Command {
    /// Whether it brings new work, and so must be refused when the disk is nearly full.
    pub const fn is_new_work(&self) -> bool {
        matches!(
            self,
            Self::Submit(_)
                | Self::SubmitInvalid { .. }
                | Self::Act { verb: Verb::Retry, .. }
                | Self::Fire(_)
                | Self::ActOnSchedule {
                    act: ScheduleAct::Trigger { .. } | ScheduleAct::Set { .. },
                    ..
                }
        )
    }

    /// The actor, where the command itself names one.
    pub fn speaker(&self) -> Option<Actor> {
        match self {
            Self::Offer { worker, .. }
            | Self::Lease { worker, .. }
            | Self::Heartbeat { worker, .. }
            | Self::Leave(worker) => Some(Actor::Worker(*worker)),
            Self::Checkpoint { proof, .. } | Self::End { proof, .. } => {
                Some(Actor::Worker(proof.worker))
            }
            Self::Silent { .. }
            | Self::Died { .. }
            | Self::Expire { .. }
            | Self::Settle(_)
            | Self::Fire(_)
            | Self::StepClock { .. }
            | Self::Bury(_)
            | Self::Forget(_) => Some(Actor::Daemon),
            Self::Submit(_)
            | Self::SubmitInvalid { .. }
            | Self::Act { .. }
            | Self::Edit { .. }
            | Self::ActOnType { .. }
            | Self::ActOnSchedule { .. }
            | Self::ActOnAlerts(_)
            | Self::Register(_) => None,
        }
    }
}

/// A change of status without a wait.
fn moved(task: TaskId, to: Status, reason: Reason) -> Event {
    Event::Moved(Moved { task, to, reason, wait: None, error: None })
}

/// Which of two stops counts: cancel before pause before reset.
pub(super) fn stronger(old: Option<Stop>, new: Stop) -> Option<Stop> {
    match old {
        Some(old) if old <= new => None,
        _ => Some(new),
    }
}
