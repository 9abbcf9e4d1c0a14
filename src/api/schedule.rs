//! Schedules as clients see them.

use super::OrderView;
use crate::kernel::ids::TaskId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Body of making or changing a schedule. Exactly one of `cron`, `every`, `at` and `boot` says when
/// it fires; what else is absent takes its default.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRequest {
    /// The type of its tasks: a handler of the config, or `exec`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Their payload as the JSON text it is; absent means `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    /// A cron expression of five fields, or six with seconds, or `@daily` and its like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// A span of elapsed time between two runs, `30s` or `1h30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// From where that span is counted: `start` or `end` of the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// One instant, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Each start of the host.
    #[serde(default, skip_serializing_if = "is_false")]
    pub boot: bool,
    /// The IANA name of the zone of its local times; absent means UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Smaller runs first; absent means 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Retries of each of its tasks; absent means the type's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retry: Option<u32>,
    /// Longest run of one attempt, `10m`; absent means the type's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// How long ago a planned time may be and still be run; absent means `1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire_grace: Option<String>,
    /// Whether several planned times that passed become one run; absent means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalesce: Option<bool>,
    /// Runs that may be unfinished at once; absent means 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_instances: Option<u32>,
    /// What becomes of a fire while there are as many: `skip`, `queue` or `replace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    /// Each task waits for a random part of this span; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Local times that do not exist: `shift` or `skip`; absent leaves it to the expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<String>,
    /// Local times that exist twice: `first`, `second` or `both`; absent leaves it to the
    /// expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_fold: Option<String>,
    /// Whether a schedule of that name may be changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replace: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Answer to making, changing, removing, pausing, resuming and triggering a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleActed {
    /// The schedule.
    pub name: String,
    /// Whether anything changed; false when it was so already.
    pub changed: bool,
    /// The planned time that comes next.
    pub next: Option<String>,
    /// The task that was made; null also where the run waits for another one to end.
    pub task: Option<TaskId>,
}

/// Body of pausing a schedule.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseScheduleRequest {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `GET /v1/schedules`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Schedules {
    /// Every schedule, by name.
    pub schedules: Vec<ScheduleView>,
    /// Schedules of the config that are not as it says, and why.
    pub refused: Vec<RefusedSchedule>,
}

/// A schedule of the config that could not be made or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedSchedule {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// A schedule. Times are RFC 3339 in UTC with milliseconds, spans as the config has them; what is
/// absent is null.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own")]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// The type of its tasks.
    #[serde(rename = "type")]
    pub kind: String,
    /// Their payload.
    pub payload: Box<RawValue>,
    /// The cron expression.
    pub cron: Option<String>,
    /// The span between two runs.
    pub every: Option<String>,
    /// From where it is counted.
    pub from: Option<String>,
    /// The one instant.
    pub at: Option<String>,
    /// Whether it fires at each start of the host.
    pub boot: bool,
    /// The zone of its local times.
    pub timezone: String,
    /// Smaller runs first.
    pub priority: i32,
    /// Retries of its tasks, where it is not the type's number.
    pub max_retry: Option<u32>,
    /// Longest run of one attempt, where it is not the type's.
    pub timeout: Option<String>,
    /// How long ago a planned time may be and still be run.
    pub misfire_grace: String,
    /// Whether several planned times that passed become one run.
    pub coalesce: bool,
    /// Runs that may be unfinished at once.
    pub max_instances: u32,
    /// What becomes of a fire while there are as many.
    pub overlap: String,
    /// Each task waits for a random part of this span.
    pub jitter: String,
    /// Local times that do not exist; null leaves it to the expression.
    pub dst_gap: Option<String>,
    /// Local times that exist twice; null leaves it to the expression.
    pub dst_fold: Option<String>,
    /// `config` or `runtime`.
    pub origin: String,
    /// When it was made or last changed.
    pub since: String,
    /// By whom.
    pub by: String,
    /// Who paused it.
    pub paused: Option<OrderView>,
    /// Whether it waits because the clock cannot be believed.
    pub held: bool,
    /// Why nothing of it can be planned any more, though it should be.
    pub trouble: Option<String>,
    /// The planned time that is decided next.
    pub next: Option<PlannedView>,
    /// The planned time of the last run.
    pub last: Option<PlannedView>,
    /// The task of the last run.
    pub last_task: Option<TaskId>,
    /// When a run last ended well.
    pub last_success: Option<String>,
    /// Runs that ended otherwise since.
    pub failures: u32,
    /// How often each thing became of a planned time.
    pub counts: CountsView,
    /// Runs that have not ended.
    pub running: Vec<TaskId>,
    /// Planned times that wait until a run has ended.
    pub queued: Vec<String>,
    /// The last decisions, oldest first.
    pub recent: Vec<DecisionView>,
    /// The last stretch in which the daemon did not run, as far as it was longer than a second.
    pub away: Option<AwayView>,
}

/// A planned time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedView {
    /// When, in UTC.
    pub at: String,
    /// The same in the zone of the schedule, for people: `Sun 2026-03-15 03:00:00 EDT`.
    pub local: String,
    /// What is odd about it, such as that the local time the expression names does not exist.
    pub note: Option<String>,
}

/// How often each thing became of a planned time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountsView {
    /// Runs.
    pub fired: u64,
    /// Another run stood for it.
    pub coalesced: u64,
    /// Skipped, or replaced while it waited.
    pub skipped: u64,
    /// Missed.
    pub missed: u64,
}

/// What became of one planned time, or of several one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionView {
    /// The first of them.
    pub first: PlannedView,
    /// The last of them.
    pub last: PlannedView,
    /// How many.
    pub count: u64,
    /// `fired`, `coalesced`, `skipped`, `missed`, `queued` or `replaced`.
    pub outcome: String,
    /// The task that was made for them, or that still ran.
    pub task: Option<TaskId>,
    /// When it was decided.
    pub at: String,
    /// Whether there are more that were not counted.
    pub more: bool,
}

/// A stretch of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwayView {
    /// Its beginning.
    pub from: String,
    /// Its end.
    pub to: String,
}

/// Query of `GET /v1/schedules/{name}/next`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextQuery {
    /// How many; absent means 5, and at most 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<usize>,
    /// From this instant on, RFC 3339; absent means now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// `GET /v1/schedules/{name}/next`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextTimes {
    /// The schedule.
    pub name: String,
    /// The zone of its local times.
    pub timezone: String,
    /// What is planned.
    pub planned: Vec<PlannedView>,
    /// Why there is no more, where there is none.
    pub end: Option<String>,
}
