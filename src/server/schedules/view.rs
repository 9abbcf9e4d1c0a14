//! A schedule as clients see it.

use super::local::Local;
use crate::api::{AwayView, CountsView, DecisionView, OrderView, ScheduleView};
use crate::kernel::event::Jump;
use crate::kernel::ids::TaskId;
use crate::kernel::schedule::{
    Counts, Decided, Fold, Gap, Origin, Passed, Plan, Schedule, ScheduleSpec,
};
use crate::kernel::shared::Shared;
use crate::kernel::task_type::Order;
use crate::kernel::text::Text;
use crate::server::host::Facts;
use crate::server::views::raw;
use crate::units::{format_duration, rfc3339};

/// What the engine's thread gives out; all words are made elsewhere.
pub(crate) struct Sketch {
    schedule: Shared<Schedule>,
    running: Vec<TaskId>,
    held: bool,
    away: Option<Jump>,
    trouble: Option<String>,
}

/// Runs of one schedule that an answer names at most.
const RUNNING_MAX: usize = 1000;

impl Sketch {
    pub(crate) fn of(facts: &Facts<'_>, schedule: &Shared<Schedule>) -> Self {
        let state = facts.engine.state();
        let running = state.live(&schedule.name).take(RUNNING_MAX).map(|task| task.id);
        Self {
            running: running.collect(),
            held: facts.now.doubtful && !schedule.spec.plan.is_elapsed(),
            away: state.head().started.as_ref().and_then(|started| started.jump),
            trouble: trouble(facts, schedule),
            schedule: schedule.clone(),
        }
    }

    pub(super) fn name(&self) -> &Text {
        &self.schedule.name
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The view without its last decisions, for lists.
    pub(crate) fn summary(self) -> ScheduleView {
        let local = Local::of(&self.schedule.spec);
        self.view(&local)
    }

    /// The view.
    pub(super) fn finish(self) -> ScheduleView {
        let local = Local::of(&self.schedule.spec);
        let recent = self.schedule.recent.iter().map(|decided| decision(decided, &local));
        let recent = recent.collect();
        ScheduleView { recent, ..self.view(&local) }
    }

    fn view(self, local: &Local) -> ScheduleView {
        let Self { schedule, running, held, away, trouble } = self;
        let spec: &ScheduleSpec = &schedule.spec;
        let ScheduleSpec { plan, gap, fold, max_retry, timeout, .. } = spec;
        let (mut cron, mut every, mut from, mut at) = (None, None, None, None);
        match plan {
            Plan::Cron(words) => cron = Some(words.to_string()),
            Plan::Every(span, counted) => {
                every = Some(format_duration(*span));
                from = Some(counted.word().to_owned());
            }
            Plan::Once(instant) => at = Some(rfc3339(*instant)),
            Plan::Boot => {}
        }
        let Counts { fired, coalesced, skipped, missed } = schedule.counts;
        ScheduleView {
            name: schedule.name.to_string(),
            kind: spec.kind.to_string(),
            payload: raw(&spec.payload),
            cron,
            every,
            from,
            at,
            boot: *plan == Plan::Boot,
            timezone: spec.zone.to_string(),
            priority: spec.priority,
            max_retry: *max_retry,
            timeout: timeout.map(format_duration),
            misfire_grace: format_duration(spec.misfire_grace),
            coalesce: spec.coalesce,
            max_instances: spec.max_instances,
            overlap: spec.overlap.word().to_owned(),
            jitter: format_duration(spec.jitter),
            dst_gap: gap.map(Gap::word).map(str::to_owned),
            dst_fold: fold.map(Fold::word).map(str::to_owned),
            origin: schedule.origin.word().to_owned(),
            since: rfc3339(schedule.since),
            by: author(&schedule),
            paused: schedule.paused.as_ref().map(order),
            held,
            trouble,
            next: schedule.next.map(|next| local.view(next)),
            last: schedule.last_planned.map(|last| local.view(last)),
            last_task: schedule.last_task,
            last_success: schedule.last_success.map(rfc3339),
            failures: schedule.failures,
            counts: CountsView { fired, coalesced, skipped, missed },
            running,
            queued: schedule.queued.iter().map(|fire| rfc3339(fire.planned)).collect(),
            recent: Vec::new(),
            away: away.map(|Jump { from, to }| AwayView { from: rfc3339(from), to: rfc3339(to) }),
        }
    }
}

fn author(schedule: &Schedule) -> String {
    match schedule.origin {
        Origin::Config => "the config".to_owned(),
        Origin::Runtime => schedule.by.to_string(),
    }
}

fn order(order: &Order) -> OrderView {
    let Order { by, at, reason } = order;
    OrderView { by: by.to_string(), at: rfc3339(*at), reason: reason.as_ref().map(Text::to_string) }
}

fn decision(decided: &Decided, local: &Local) -> DecisionView {
    let Decided { at, passed } = decided;
    let Passed { first, last, count, passing, task, more } = passed;
    DecisionView {
        first: local.view(*first),
        last: local.view(*last),
        count: *count,
        outcome: passing.word().to_owned(),
        task: *task,
        at: rfc3339(*at),
        more: *more == Some(true),
    }
}

/// Why nothing comes of a schedule any more, though it should: its type may have gone from the
/// config, another version may know other zones, and a date may never come again.
pub(super) fn trouble(facts: &Facts<'_>, schedule: &Schedule) -> Option<String> {
    let kind = &schedule.spec.kind;
    if !facts.engine.rules().kinds.contains_key(kind) {
        return Some(format!("no handler runs its tasks: the config has no type `{kind}`"));
    }
    let stuck = schedule.next.is_none() && schedule.paused.is_none();
    if !stuck || !matches!(schedule.spec.plan, Plan::Cron(_)) {
        return None;
    }
    Some(match schedule.spec.times() {
        Ok(_) => "it fires no more: there is no date any more that it matches".to_owned(),
        Err(error) => format!("it fires no more: {error}"),
    })
}
