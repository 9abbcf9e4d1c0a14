//! What the pages show, gathered and bounded; rendering needs nothing else.

use crate::api::{
    AlertView, AttemptView, ScheduleView, StatsView, StatusView, TaskView, TransitionView,
};
use crate::kernel::ids::{Millis, TaskId, Timestamp, WorkerId};
use crate::kernel::status::Status;
use crate::kernel::task::Progress;

/// Some of the rows that there are.
#[derive(Clone, Debug)]
pub(super) struct Rows<T> {
    /// Those that are shown at most.
    pub(super) rows: Vec<T>,
    /// How many there are in all.
    pub(super) total: usize,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), total: 0 }
    }
}

/// What whoever looks may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// Look.
    Look,
    /// Also give orders, with this word of ours in each form.
    Operate(String),
}

/// The status page.
#[derive(Clone, Debug)]
pub(super) struct Overview {
    /// When it was made.
    pub(super) now: Timestamp,
    /// Health.
    pub(super) status: StatusView,
    /// Figures of the last day, with its last two hours minute by minute.
    pub(super) stats: StatsView,
    /// What runs, longest first.
    pub(super) running: Rows<Running>,
    /// Types of which something waits, most first.
    pub(super) waiting: Rows<Waiting>,
    /// What failed for good, latest first.
    pub(super) dead: Rows<Dead>,
    /// Alerts.
    pub(super) alerts: Alerts,
    /// Schedules, the next to fire first.
    pub(super) schedules: Rows<ScheduleView>,
    /// Workers.
    pub(super) workers: Rows<Worker>,
}

/// A task that holds a lease.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) id: TaskId,
    pub(super) kind: String,
    pub(super) status: Status,
    pub(super) attempt: u32,
    pub(super) tries: u32,
    pub(super) worker: Option<WorkerId>,
    /// For how long the attempt has had its lease.
    pub(super) ran: Millis,
    pub(super) progress: Option<Progress>,
    /// Whether its progress says something about its speed.
    pub(super) paced: bool,
}

/// A type of which something waits, or that is paused.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) kind: String,
    /// PENDING and due.
    pub(super) due: u64,
    /// PENDING or RETRYING for a later time, or for another task.
    pub(super) later: u64,
    pub(super) running: u64,
    /// Who paused it, and why.
    pub(super) paused: Option<String>,
}

/// A task that failed for good.
#[derive(Clone, Debug)]
pub(super) struct Dead {
    pub(super) id: TaskId,
    pub(super) kind: String,
    pub(super) status: Status,
    pub(super) attempts: u32,
    pub(super) ended: Timestamp,
    pub(super) error: Option<String>,
}

/// Alerts, but for those that a point of attention tells.
#[derive(Clone, Debug, Default)]
pub(super) struct Alerts {
    /// Those that stand, the worst first, then the last few that are over.
    pub(super) rows: Rows<AlertView>,
    /// How many of them stand.
    pub(super) standing: usize,
    /// How many more stand, which points of attention tell.
    pub(super) above: usize,
}

/// A worker.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) id: WorkerId,
    pub(super) name: String,
    pub(super) standing: &'static str,
    pub(super) silent: Millis,
    pub(super) slots: u32,
    pub(super) held: u32,
    pub(super) kinds: String,
}

/// A task's own page.
#[derive(Clone, Debug)]
pub(super) struct TaskPage {
    /// When it was made.
    pub(super) now: Timestamp,
    /// The daemon's last durable record then.
    pub(super) seq: u64,
    /// The host.
    pub(super) host: String,
    pub(super) task: TaskView,
    pub(super) transitions: Vec<TransitionView>,
    pub(super) dropped: u64,
    pub(super) attempts: Vec<AttemptView>,
    /// For how long its attempt has run, if its progress says something about its speed.
    pub(super) paced: Option<Millis>,
    /// The last lines of the last attempt's log; none where it has none.
    pub(super) log: Option<String>,
}
