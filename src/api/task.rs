//! Tasks as clients see them.

use crate::kernel::ids::{Fence, Millis, ProcessId, Seq, TaskId, WorkerId};
use crate::kernel::status::{Outcome, Reason, Status, Stop};
use crate::kernel::task::{Progress, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `POST /v1/tasks`, and each line of a bulk submission.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The task type: a handler of the config, or `exec`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The payload as the JSON text it is; absent means `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    /// Smaller runs first; absent means 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Earliest start, RFC 3339; not together with `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Earliest start as a span from now, `90s` or `1h30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// Retries after the first failed attempt; absent means the type's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retry: Option<u32>,
    /// Longest run of one attempt, `10m`; absent means the type's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Tasks that must end in SUCCESS before it runs; not together with `after_any`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
    /// Tasks that must end, in whatever way, before it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_any: Vec<TaskId>,
}

impl SubmitRequest {
    /// A task of this type with this payload; everything else is left to the defaults.
    pub fn new(kind: impl Into<String>, payload: Option<Box<RawValue>>) -> Self {
        Self {
            kind: kind.into(),
            payload,
            priority: None,
            at: None,
            delay: None,
            max_retry: None,
            timeout: None,
            key: None,
            after: Vec::new(),
            after_any: Vec::new(),
        }
    }
}

/// Answer to a submission: 201 when the task is new, 200 when its key was known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The task.
    pub id: TaskId,
    /// Whether it was there already, under the same key.
    pub existed: bool,
}

/// One line of the answer to a bulk submission; exactly one of `id` and `error` is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BulkLine {
    /// Number of the line that was read, from 1.
    pub line: u64,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskId>,
    /// Whether it was there already.
    #[serde(default)]
    pub existed: bool,
    /// Why the line was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<super::Problem>,
}

/// A task, as `show --json` prints it. Times are RFC 3339 in UTC with milliseconds; what is
/// absent is null.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskView {
    /// The id.
    pub id: TaskId,
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The payload.
    pub payload: Box<RawValue>,
    /// The status.
    pub status: Status,
    /// Smaller runs first.
    pub priority: i32,
    /// When it may run next, while it waits.
    pub next_run_time: Option<String>,
    /// Failed attempts so far that were followed by a retry.
    pub retry_count: u32,
    /// Failed attempts it may be retried after.
    pub max_retry: u32,
    /// Times its executor was lost.
    pub lost_count: u32,
    /// The last checkpoint.
    pub checkpoint: Option<Box<RawValue>>,
    /// The worker that runs it.
    pub executor_id: Option<WorkerId>,
    /// When its lease ends if nothing renews it (an estimate on the wall clock).
    pub lease_expire_time: Option<String>,
    /// When it was submitted.
    pub created_at: String,
    /// When its record last changed.
    pub updated_at: String,
    /// When it took its status.
    pub status_since: String,
    /// Idempotency key.
    pub key: Option<String>,
    /// Longest run of one attempt, such as `10m`.
    pub timeout: Option<String>,
    /// What its handler left as result.
    pub result: Option<Box<RawValue>>,
    /// The last error.
    pub error: Option<String>,
    /// The task that this one runs again.
    pub retry_of: Option<TaskId>,
    /// The schedule it came from.
    pub schedule: Option<String>,
    /// Tasks it waits for, or waited for.
    pub after: Option<Vec<TaskId>>,
    /// Whether any end of theirs will do; null where it waits for none.
    #[serde(default)]
    pub after_any: Option<bool>,
    /// Those of them that have not ended yet; null when there is none.
    #[serde(default)]
    pub waiting_for: Option<Vec<TaskId>>,
    /// What a person asked of it while it runs.
    pub stop_requested: Option<Stop>,
    /// The last progress its handler told.
    pub progress: Option<Progress>,
    /// What the last attempt that ended used.
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// `GET /v1/tasks`: a page of tasks, newest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskList {
    /// The tasks.
    pub tasks: Vec<TaskView>,
    /// Give this as `after` for the next page; null when there is none.
    pub next: Option<TaskId>,
    /// How many tasks there are in all, whatever the filter.
    pub total: u64,
}

/// Query of `GET /v1/tasks`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// Statuses, separated by commas; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// One type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// One schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Only tasks created at or after this instant (RFC 3339) or within this span (`2h`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Tasks in the answer; absent means 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only tasks older than this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<TaskId>,
}

/// The header of a log's answer that says with which byte of the log it begins.
pub const OFFSET_HEADER: &str = "midwatch-offset";

/// `GET /v1/tasks/{id}/history`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct History {
    /// The task itself.
    pub task: TaskView,
    /// Its transitions, oldest first.
    pub transitions: Vec<TransitionView>,
    /// Transitions left out between the first and the last hundred.
    pub transitions_dropped: u64,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptView>,
}

/// One line of a task's life.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransitionView {
    /// When.
    pub at: String,
    /// The sequence number of its record.
    pub seq: Seq,
    /// The status before; null for the first.
    pub from: Option<Status>,
    /// The status after; the same as before where only something about the task changed.
    pub to: Status,
    /// Why; null where the status stayed.
    pub reason: Option<Reason>,
    /// Who or what caused it.
    pub by: String,
    /// More, for people: worker and fence, error and wait, what was refused.
    pub note: Option<String>,
}

/// One execution of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttemptView {
    /// Number, from 1.
    pub attempt: u32,
    /// Fencing token.
    pub fence: Fence,
    /// The worker.
    pub executor_id: WorkerId,
    /// When it was leased.
    pub leased_at: String,
    /// When its process started, as far as was reported.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Milliseconds it had been due before it was leased.
    pub wait_ms: Millis,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Exit status of its process.
    pub exit_code: Option<i32>,
    /// Signal that ended its process.
    pub signal: Option<i32>,
    /// Its error.
    pub error: Option<String>,
    /// What its processes used.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Path of its log below the data directory.
    pub log: String,
    /// Its process, while it has one that was reported.
    #[serde(default)]
    pub process: Option<ProcessId>,
    /// Bytes of that log; null where it is not there, or not any more.
    #[serde(default)]
    pub log_bytes: Option<u64>,
}

/// Answer to cancel, pause, resume, run-now, reset, retry, edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acted {
    /// The task; for retry the new one.
    pub id: TaskId,
    /// Its status now.
    pub status: Status,
    /// The stop that its executor still has to obey.
    pub stop_requested: Option<Stop>,
    /// Whether anything changed; false when it was so already.
    pub changed: bool,
}

/// Body of retry.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// Whether to leave the old task's checkpoint behind.
    #[serde(default)]
    pub fresh: bool,
}

/// Body of reset.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResetRequest {
    /// A new limit of retries.
    #[serde(default)]
    pub max_retry: Option<u32>,
}

/// Body of edit; what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditRequest {
    /// Smaller runs first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// A new limit of retries, never lower than what has failed already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retry: Option<u32>,
    /// Earliest start, RFC 3339; not together with `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Earliest start as a span from now, `90s` or `1h30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// Longest run of one attempt, `10m`, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// `GET /v1/status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusView {
    /// Version of the daemon.
    pub version: String,
    /// Name of the host.
    pub host: String,
    /// Pid of the engine.
    pub pid: u32,
    /// Milliseconds since the engine started to serve.
    pub uptime_ms: u64,
    /// The data directory.
    pub data_dir: String,
    /// The fsync policy in force.
    pub fsync: String,
    /// `OK`, `ATTENTION` or `CRITICAL`.
    pub health: String,
    /// The points of attention, each with the command that helps.
    pub attention: Vec<Attention>,
    /// Sequence number of the last durable record.
    pub seq: Seq,
    /// Tasks by status.
    pub tasks: std::collections::BTreeMap<String, u64>,
    /// Milliseconds that the task has been due which waits longest.
    pub oldest_waiting_ms: Option<u64>,
    /// Schedules.
    #[serde(default)]
    pub schedules: u64,
    /// The one that fires next, and when.
    #[serde(default)]
    pub next_fire: Option<NextFire>,
    /// Workers alive.
    pub workers_alive: u32,
    /// Workers silent for a while.
    pub workers_suspect: u32,
    /// Workers silent for too long.
    pub workers_offline: u32,
    /// Slots of all living workers.
    pub slots: u32,
    /// Slots that hold a lease.
    pub slots_busy: u32,
    /// Bytes that all tasks take together, as `max_state` counts them.
    pub state_bytes: u64,
    /// Bytes that they may take.
    pub state_bytes_max: u64,
    /// Segment files of the journal.
    pub journal_segments: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Syncs since the engine started.
    pub syncs: u64,
    /// Bytes free on the file system of the data directory.
    pub disk_free: Option<u64>,
    /// What recovery found at the last start.
    pub recovery: String,
    /// Whether the config was taken when it was last read; if not, the one before is in force.
    #[serde(default = "yes")]
    pub config_reload_ok: bool,
    /// The wall clock.
    #[serde(default)]
    pub clock: ClockView,
    /// Midwatch's own processes on this host, as they were a minute ago at most, or when the
    /// engine had something to do last.
    #[serde(default)]
    pub processes: Vec<ProcessView>,
    /// Set where the engine does not answer: milliseconds since it did. The figures of tasks,
    /// workers, schedules and journal are then the last that it gave, or none.
    #[serde(default)]
    pub stalled_ms: Option<u64>,
    /// Digest of the state, when it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// One of midwatch's own processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessView {
    /// `supervisor`, `engine` or `worker`.
    pub role: String,
    /// The worker's name; that of the role for the others.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// Bytes of memory that it holds, program and libraries included.
    pub memory: u64,
    /// Bytes of it that are its alone.
    pub memory_own: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors; null where they may not be counted.
    pub open_files: Option<u64>,
    /// What of these keeps growing: `memory`, `threads`, `open_files`.
    pub growing: Vec<String>,
}

/// What is known of the wall clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockView {
    /// Whether it is not believed, so that schedules by the calendar wait.
    pub held: bool,
    /// How often it was put forward or back since the data directory was made.
    pub steps: u64,
    /// The last time that it was.
    pub last_step: Option<StepView>,
}

/// A wall clock that was put forward or back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepView {
    /// What it would have shown.
    pub from: String,
    /// What it showed.
    pub to: String,
}

/// Which schedule fires next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextFire {
    /// Its name.
    pub schedule: String,
    /// When.
    pub at: String,
}

const fn yes() -> bool {
    true
}

/// One thing that needs a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attention {
    /// Whether somebody should get up for it.
    pub critical: bool,
    /// What is wrong.
    pub what: String,
    /// The commands that help.
    pub commands: Vec<String>,
}

/// One event of `GET /v1/events`, the data of a server-sent event whose id is `seq`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventView {
    /// Its sequence number.
    pub seq: Seq,
    /// When.
    pub at: String,
    /// Kind of event, such as `leased`.
    pub event: String,
    /// The task it is about.
    pub task: Option<TaskId>,
    /// The type of that task, or the type that it is about.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The status before, where it changed.
    pub from: Option<Status>,
    /// The status after, where it changed.
    pub to: Option<Status>,
    /// Why it changed.
    pub reason: Option<Reason>,
    /// Who or what caused it.
    pub by: String,
    /// More, for people.
    pub note: Option<String>,
}
