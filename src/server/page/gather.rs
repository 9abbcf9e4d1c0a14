//! What the pages show, from the facts after a turn. Everything is bounded before it leaves the
//! engine's thread, and nothing walks all tasks.

use super::view::{Alerts, Dead, Overview, Rows, Running, Waiting, Worker};
use crate::api::{StatsView, StatusView};
use crate::kernel::State;
use crate::kernel::event::Standing;
use crate::kernel::ids::{Millis, Moment, Timestamp};
use crate::kernel::status::Status;
use crate::kernel::task::{Attempt, Task};
use crate::kernel::text::Text;
use crate::kernel::{Queue, task_type::Order};
use crate::server::app::App;
use crate::server::host::Facts;
use crate::server::problems::Failure;
use crate::server::{alerts, schedules, stats, status};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Tasks of each kind that are looked at for a list.
const LOOKED_AT_MAX: usize = 500;

/// Rows of each list; what of them is shown depends on their bytes.
const ROWS_MAX: usize = 40;

/// Alerts that are over: so many at most, and none that has been for so long.
const OVER_MAX: usize = 3;
const OVER_FOR: Millis = Millis::secs(24 * 3600);

/// Letters of an error that are taken along.
const ERROR_BYTES: usize = 1 << 10;

/// What there is to show.
pub(super) enum Shown {
    /// All of it.
    Whole(Box<Overview>),
    /// What is known without the engine.
    Stalled(Box<StatusView>),
}

/// What one look gives.
struct Look {
    now: Timestamp,
    stats: StatsView,
    running: Rows<Running>,
    waiting: Rows<Waiting>,
    dead: Rows<Dead>,
    alerts: Alerts,
    schedules: Rows<schedules::Sketch>,
    workers: Rows<Worker>,
}

/// Everything on the status page, or what can be said while the engine does not answer. The status
/// comes first: what happens afterwards is told by the events behind its record.
pub(super) async fn overview(app: &App) -> Result<Shown, Failure> {
    let status = status::view(app, false).await?;
    if status.stalled_ms.is_some() {
        return Ok(Shown::Stalled(Box::new(status)));
    }
    let said = status.attention.iter().filter_map(|point| point.alert.clone()).collect();
    let Look { now, stats, running, waiting, dead, alerts, schedules, workers } =
        app.read(move |facts| look(facts, &said)).await?;
    let Rows { rows, total } = schedules;
    let rows = rows.into_iter().map(schedules::Sketch::summary).collect();
    let schedules = Rows { rows, total };
    Ok(Shown::Whole(Box::new(Overview {
        now,
        status,
        stats,
        running,
        waiting,
        dead,
        alerts,
        schedules,
        workers,
    })))
}

fn look(facts: &Facts<'_>, said: &BTreeSet<String>) -> Look {
    let state = facts.engine.state();
    Look {
        now: facts.now.wall,
        stats: stats::view(facts, stats::DAY, true),
        running: running(facts),
        waiting: waiting(state),
        dead: dead(state, facts.now),
        alerts: alerts_besides(facts, said),
        schedules: planned(facts),
        workers: workers(facts),
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// For how long the attempt of a task has run, if its progress says something about its speed: it
/// did not begin at a checkpoint of an earlier attempt, and it has run for so many heartbeats that
/// it does not matter much when the last one told the progress.
pub(super) fn paced(facts: &Facts<'_>, task: &Task) -> Option<Millis> {
    let attempt = task.attempt(task.lease()?.fence)?;
    let resumed = task.checkpoint().is_some() && (1 < attempt.number || task.retry_of().is_some());
    let ran = ran(attempt, facts.now.wall);
    (!resumed && facts.engine.rules().heartbeat.times(3) <= ran).then_some(ran)
}

fn ran(attempt: &Attempt, now: Timestamp) -> Millis {
    now.since(attempt.started.unwrap_or(attempt.leased))
}

fn running(facts: &Facts<'_>) -> Rows<Running> {
    let state = facts.engine.state();
    let statuses = [Status::Lost, Status::Running];
    let total = statuses.iter().map(|status| state.index().count(*status)).sum();
    let tasks = statuses.iter().flat_map(|status| state.with_status(*status).take(LOOKED_AT_MAX));
    let mut rows: Vec<_> = tasks.filter_map(|task| run(facts, task)).collect();
    rows.sort_by_key(|row| (row.status != Status::Lost, Reverse(row.ran), row.id));
    rows.truncate(ROWS_MAX);
    Rows { rows, total }
}

fn run(facts: &Facts<'_>, task: &Task) -> Option<Running> {
    let lease = task.lease()?;
    let attempt = task.attempt(lease.fence)?;
    Some(Running {
        id: task.id,
        kind: task.kind.to_string(),
        status: task.status,
        attempt: attempt.number,
        tries: task.max_retry.saturating_add(1).max(attempt.number),
        worker: Some(lease.worker),
        ran: ran(attempt, facts.now.wall),
        progress: task.life.as_ref().and_then(|life| life.progress.clone()),
        paced: paced(facts, task).is_some(),
    })
}

fn waiting(state: &State) -> Rows<Waiting> {
    let used = state.index().by_type.keys();
    let names: BTreeSet<&Text> = used.chain(state.task_types().map(|known| &known.kind)).collect();
    let row = |kind: &Text| {
        let tally = state.tally(kind);
        let due = number(state.index().ready.get(kind).map_or(0, Queue::len));
        let all = number(tally.count(Status::Pending)) + number(tally.count(Status::Retrying));
        let paused = state.task_type(kind).and_then(|known| known.paused.as_ref());
        let paused = paused.map(|Order { by, reason, .. }| match reason {
            Some(reason) => format!("{by}: {reason}"),
            None => by.to_string(),
        });
        let later = all.saturating_sub(due);
        let running = number(tally.leased());
        let there = 0 < all || paused.is_some();
        there.then(|| Waiting { kind: kind.to_string(), due, later, running, paused })
    };
    let mut rows: Vec<_> = names.into_iter().filter_map(row).collect();
    let total = rows.len();
    rows.sort_by_key(|row| Reverse(row.due.saturating_add(row.later)));
    rows.truncate(ROWS_MAX);
    Rows { rows, total }
}

fn dead(state: &State, now: Moment) -> Rows<Dead> {
    let statuses = [Status::Dead, Status::Failed];
    let total = statuses.iter().map(|status| state.index().count(*status)).sum();
    let latest =
        statuses.iter().flat_map(|status| state.with_status(*status).rev().take(LOOKED_AT_MAX));
    let row = |task: &Task| {
        let error = task.life.as_ref().and_then(|life| life.error.as_deref());
        let first = error.and_then(|error| error.lines().find(|line| !line.trim().is_empty()));
        Dead {
            id: task.id,
            kind: task.kind.to_string(),
            status: task.status,
            attempts: task.attempt_count(),
            ended: task.updated.min(now.wall),
            error: first.map(|first| Text::clipped(first, ERROR_BYTES).to_string()),
        }
    };
    let mut tasks: Vec<&Task> = latest.collect();
    tasks.sort_by_key(|task| (Reverse(task.updated), Reverse(task.id)));
    Rows { rows: tasks.into_iter().take(ROWS_MAX).map(row).collect(), total }
}

/// The alerts but for those that are said already.
fn alerts_besides(facts: &Facts<'_>, said: &BTreeSet<String>) -> Alerts {
    let kept = alerts::kept(facts).into_iter();
    let (mut standing, mut over): (Vec<_>, Vec<_>) = kept.partition(|alert| alert.stands());
    let all = standing.len();
    standing.retain(|alert| !said.contains(&alerts::key(alert.rule, &alert.subject)));
    over.retain(|alert| alert.over.is_some_and(|at| facts.now.life < at.after(OVER_FOR)));
    over.sort_by_key(|alert| Reverse(alert.over));
    over.truncate(OVER_MAX);
    let total = standing.len() + over.len();
    let rows = standing.iter().chain(&over).take(ROWS_MAX);
    let rows = rows.map(|alert| alerts::view_of(facts, alert)).collect();
    let above = all - standing.len();
    Alerts { rows: Rows { rows, total }, standing: standing.len(), above }
}

/// Those that need somebody first, then by their next time.
fn planned(facts: &Facts<'_>) -> Rows<schedules::Sketch> {
    let state = facts.engine.state();
    let all = state.schedules_after("");
    let key = |known: &crate::kernel::schedule::Schedule| {
        let stuck = known.next.is_none() && known.paused.is_none();
        (!(stuck || 0 < known.failures), known.next.is_none(), known.next)
    };
    let mut all: Vec<_> = all.map(|known| (key(known), known)).collect();
    let total = all.len();
    all.sort_by(|(one, first), (other, second)| one.cmp(other).then(first.name.cmp(&second.name)));
    let rows = all.into_iter().take(ROWS_MAX);
    Rows { rows: rows.map(|(_, known)| schedules::Sketch::of(facts, known)).collect(), total }
}

fn workers(facts: &Facts<'_>) -> Rows<Worker> {
    let state = facts.engine.state();
    let row = |worker: &crate::kernel::Worker| {
        let said = &worker.registration;
        let kinds: Vec<&str> = said.kinds.iter().take(20).map(|kind| &**kind).collect();
        Worker {
            id: worker.id,
            name: said.name.to_string(),
            standing: worker.standing.word(),
            silent: facts.engine.silence(worker.id, facts.now.service),
            slots: said.slots,
            held: u32::try_from(state.held_count(worker.id)).unwrap_or(u32::MAX),
            kinds: kinds.join(", "),
        }
    };
    let mut all: Vec<_> = state.workers().collect();
    let total = all.len();
    all.sort_by_key(|worker| (worker.standing == Standing::Alive, worker.id));
    Rows { rows: all.into_iter().take(ROWS_MAX).map(row).collect(), total }
}
