//! What the metrics are made of, taken in one look at the state.

use crate::api::{Consistency, ProcessView};
use crate::journal::{SYNC_BOUNDS, Stats};
use crate::kernel::alerts::Grade;
use crate::kernel::figures::{Figures, OTHERS, TypeFigures};
use crate::kernel::ids::{Millis, Seq, Timestamp};
use crate::kernel::schedule::Counts;
use crate::kernel::shared::Shared;
use crate::kernel::status::Status;
use crate::kernel::text::Text;
use crate::limits::TYPES_COUNTED_MAX;
use crate::server::app::App;
use crate::server::host::Facts;
use crate::server::problems::Failure;
use crate::server::stalled::within_patience;
use crate::server::stats::{consistency, standing};
use crate::server::status;

/// Schedules that have metrics of their own, by name; the others are counted together.
const SCHEDULES_TOLD_MAX: usize = 1000;

/// Everything that is told.
#[derive(Debug)]
pub(super) struct Sheet {
    /// None while the engine does not answer: figures that may be old would look like new ones.
    pub(super) facts: Option<Sight>,
    /// For how long it has not answered.
    pub(super) stalled: Millis,
    pub(super) version: String,
    pub(super) uptime: Millis,
    pub(super) replay: Millis,
    pub(super) disk_free: Option<u64>,
    pub(super) config_is_ok: bool,
    pub(super) processes: Vec<ProcessView>,
    pub(super) sync_buckets: [u64; SYNC_BOUNDS.len() + 1],
    pub(super) sync_sum_micros: u64,
}

/// What one look at the engine gives.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) figures: Figures,
    pub(super) consistency: Consistency,
    /// Each type: how many wait, how many run.
    pub(super) standing: Vec<(Text, u64, u64)>,
    pub(super) statuses: Vec<(Status, u64)>,
    pub(super) due: u64,
    pub(super) schedules: Vec<ScheduleSight>,
    /// Of workers and of the longest wait, as status tells them.
    pub(super) now: status::Figures,
    pub(super) state_bytes: u64,
    pub(super) state_bytes_max: u64,
    pub(super) seq: Seq,
    pub(super) clock_steps: u64,
    pub(super) clock_held: bool,
    /// Alerts that stand: info, warning, critical.
    pub(super) alerts: [u64; 3],
    pub(super) journal: Stats,
}

/// One schedule, or those beyond the number that is told apart.
#[derive(Debug)]
pub(super) struct ScheduleSight {
    pub(super) name: Text,
    pub(super) counts: Counts,
    pub(super) failures: u64,
    pub(super) last_success: Option<Timestamp>,
    pub(super) next: Option<Timestamp>,
}

/// Looks; what the engine knows is left out when it does not answer for a while.
pub(super) async fn sheet(app: &App) -> Result<Sheet, Failure> {
    let facts = within_patience(app.hand.read(look), &app.pulse).await?;
    let about = &app.about;
    // A disk that hangs may hold up whoever asks it anything.
    let disk_free = facts.as_ref().and_then(|_| fs2::available_space(&app.data_dir).ok());
    Ok(Sheet {
        stalled: if facts.is_some() { Millis(0) } else { app.silent_for() },
        facts,
        version: about.version.clone(),
        uptime: Millis(crate::clock::monotonic().0.saturating_sub(about.since.0)),
        replay: about.recovery.took,
        disk_free,
        config_is_ok: app.house.config_is_ok(),
        processes: app.own_health.processes(),
        sync_buckets: about.sync_times.buckets(),
        sync_sum_micros: about.sync_times.sum(),
    })
}

fn look(facts: &Facts<'_>) -> Sight {
    let state = facts.engine.state();
    let (index, figures) = (state.index(), state.figures());
    let standing = figures.types.keys().map(|kind| {
        let (waiting, running) = standing(state, kind);
        (kind.clone(), waiting, running)
    });
    // A type of which nothing was counted yet has zeros, or the first failure would be no increase.
    let mut figures = figures.clone();
    for kind in facts.engine.rules().kinds.keys() {
        if figures.types.len() < TYPES_COUNTED_MAX {
            let none = || Shared::new(TypeFigures { kind: kind.clone(), ..TypeFigures::default() });
            figures.types.entry(kind.clone()).or_insert_with(none);
        }
    }
    Sight {
        figures,
        consistency: consistency(state),
        standing: standing.collect(),
        statuses: Status::ALL.iter().map(|it| (*it, index.count(*it) as u64)).collect(),
        due: index.ready_count() as u64,
        schedules: schedules(facts),
        now: status::figures(facts),
        state_bytes: state.bytes(),
        state_bytes_max: facts.engine.rules().max_state,
        seq: state.head().seq,
        clock_steps: state.head().steps.unwrap_or(0),
        clock_held: facts.now.doubtful,
        alerts: [Grade::Info, Grade::Warning, Grade::Critical].map(|grade| {
            state.alerts().standing().filter(|alert| alert.grade == grade).count() as u64
        }),
        journal: facts.engine.journal().stats(),
    }
}

fn schedules(facts: &Facts<'_>) -> Vec<ScheduleSight> {
    let mut schedules = facts.engine.state().schedules();
    let told = schedules.by_ref().take(SCHEDULES_TOLD_MAX).map(|schedule| ScheduleSight {
        name: schedule.name.clone(),
        counts: schedule.counts,
        failures: u64::from(schedule.failures),
        last_success: schedule.last_success,
        next: schedule.next.filter(|_| schedule.look.is_none()),
    });
    let mut told: Vec<_> = told.collect();
    let mut others = Counts::default();
    let mut is_more = false;
    for schedule in schedules {
        is_more = true;
        let Counts { fired, coalesced, skipped, missed } = schedule.counts;
        others.fired = others.fired.saturating_add(fired);
        others.coalesced = others.coalesced.saturating_add(coalesced);
        others.skipped = others.skipped.saturating_add(skipped);
        others.missed = others.missed.saturating_add(missed);
    }
    if is_more {
        let name = Text::from(OTHERS);
        let (last_success, next) = (None, None);
        told.push(ScheduleSight { name, counts: others, failures: 0, last_success, next });
    }
    told
}
