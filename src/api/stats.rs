//! Figures as clients see them.

use crate::kernel::ids::TaskId;
use serde::{Deserialize, Serialize};

/// Query of `GET /v1/stats`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatsQuery {
    /// The span to look at, such as `1h`; at most a day, which is also what it is when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Not 0: with the last two hours minute by minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u8>,
}

/// `GET /v1/stats`: health in five figures, and what each type did.
///
/// They are counted in the state, from its records, so they are the same after any number of
/// restarts. A span begins at a quarter of an hour, so it may be up to 15 minutes longer than asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatsView {
    /// When it was made, RFC 3339.
    pub at: String,
    /// Where the span begins, RFC 3339.
    pub since: String,
    /// Its length in milliseconds.
    pub span_ms: u64,
    /// Triggers: whether schedules fire when they should.
    pub punctuality: Punctuality,
    /// What ended, and how.
    pub success: Success,
    /// Attempts after a failed one.
    pub retries: Retries,
    /// What waits.
    pub backlog: Backlog,
    /// Whether every submission has exactly one end, of the input that was given.
    pub consistency: Consistency,
    /// From when a task is due until it starts.
    pub wait: Spread,
    /// How long attempts run.
    pub run: Spread,
    /// Each type of which anything was counted, by name.
    pub types: Vec<TypeStats>,
    /// The last two hours minute by minute, oldest first; minutes in which nothing happened are
    /// left out. Absent unless it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<Vec<MinuteStats>>,
}

/// Whether schedules fire when they should.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Punctuality {
    /// Planned times for which a run was made.
    pub fired: u64,
    /// Of these, within five seconds of their time.
    pub on_time: u64,
    /// Planned times without a run: missed, skipped, or replaced while they waited.
    pub without_run: u64,
    /// The latest run was made so long after its time, in milliseconds.
    pub latest_ms: u64,
}

/// What ended, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Success {
    /// Tasks that ended in SUCCESS, FAILED or DEAD.
    pub ended: u64,
    /// Of these, in SUCCESS.
    pub succeeded: u64,
    /// The part of them, from 0 to 1; null when none ended.
    pub rate: Option<f64>,
}

/// Attempts after a failed one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retries {
    /// How many there were.
    pub retried: u64,
    /// The most that one of the ended tasks needed.
    pub most: u32,
    /// That task; null when none was retried.
    pub task: Option<TaskId>,
}

/// What waits now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Tasks that are PENDING.
    pub waiting: u64,
    /// Of these and those that are RETRYING, due now.
    pub due: u64,
    /// How long the oldest of those has been due, in milliseconds; null when there is none.
    pub oldest_ms: Option<u64>,
}

/// The account of all tasks since counting began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consistency {
    /// Tasks that were there when counting began, or were submitted since.
    pub taken: u64,
    /// Tasks that ended.
    pub ended: u64,
    /// Tasks that have not ended.
    pub live: u64,
    /// Attempts that ran another input than the one that was submitted.
    pub wrong_input: u64,
    /// Whether `taken` is `ended` and `live` together, and no input was wrong.
    pub ok: bool,
}

/// How a time is spread; all in milliseconds, null when nothing was counted. The percentiles are
/// estimated from a histogram whose bounds are 1, 2 and 5 times powers of ten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// How many were counted.
    pub count: u64,
    /// The mean.
    pub mean_ms: Option<u64>,
    /// The median.
    pub p50_ms: Option<u64>,
    /// The 95th percentile.
    pub p95_ms: Option<u64>,
    /// The 99th percentile.
    pub p99_ms: Option<u64>,
    /// The longest.
    pub max_ms: Option<u64>,
}

/// What one type did within the span, and how it stands now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TypeStats {
    /// The type; `(others)` stands for those beyond the number that is counted apart.
    #[serde(rename = "type")]
    pub kind: String,
    /// Tasks that were submitted.
    pub created: u64,
    /// Tasks that ended in SUCCESS.
    pub succeeded: u64,
    /// Tasks that ended in FAILED.
    pub failed: u64,
    /// Tasks that ended in DEAD.
    pub dead: u64,
    /// Tasks that were CANCELLED.
    pub cancelled: u64,
    /// Attempts after a failed one.
    pub retried: u64,
    /// Attempts whose executor was lost.
    pub lost: u64,
    /// Tasks that wait now, PENDING or RETRYING.
    pub waiting: u64,
    /// Tasks that hold a lease now, RUNNING or LOST.
    pub running: u64,
    /// From when a task is due until it starts.
    pub wait: Spread,
    /// How long attempts run.
    pub run: Spread,
    /// When one last ended in SUCCESS, RFC 3339, whatever the span.
    pub last_success: Option<String>,
    /// When one last ended in FAILED or DEAD, RFC 3339, whatever the span.
    pub last_failure: Option<String>,
    /// Tasks that ended in FAILED or DEAD since then without a SUCCESS between.
    pub failures_in_a_row: u32,
}

/// What happened within one minute, over all types.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MinuteStats {
    /// When it began, RFC 3339.
    pub at: String,
    /// Tasks that were submitted.
    pub created: u64,
    /// Tasks that ended in SUCCESS.
    pub succeeded: u64,
    /// Tasks that ended in FAILED or DEAD.
    pub failed: u64,
    /// Attempts after a failed one.
    pub retried: u64,
    /// Attempts whose executor was lost.
    pub lost: u64,
    /// 95th percentile of the waits that ended in it, in milliseconds; null where none did.
    pub wait_p95_ms: Option<u64>,
    /// 95th percentile of the runs that ended in it, in milliseconds; null where none did.
    pub run_p95_ms: Option<u64>,
}
