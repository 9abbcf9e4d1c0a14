//! Attempts of which nothing comes any more: those that told of their progress and tell nothing
//! new, and those that never tell and run much longer than others of their type.
//!
//! Nothing is stopped for it. What an attempt told is no record of its own time, so it is remembered
//! here since when it told it; a start begins anew, but for what stood as an alert before.

use crate::kernel::State;
use crate::kernel::alerts::Rule;
use crate::kernel::figures::{Figures, Histogram};
use crate::kernel::ids::{Fence, LifeTime, Millis, Moment, TaskId};
use crate::kernel::rules::Rules;
use crate::kernel::status::Status;
use crate::kernel::task::{Progress, Task};
use crate::kernel::text::Text;
use crate::server::stats::DAY;
use crate::units::span;
use std::collections::BTreeMap;

/// Attempts that are named one by one.
const NAMED_MAX: usize = 20;

/// Fewer runs say nothing of how long the next one takes.
const RUNS_MIN: u64 = 20;

/// An attempt is too long at so many times what 95 of 100 runs of its type take at most.
const TOO_LONG: u64 = 3;

/// What was seen of attempts in the looks before.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Whether there was any look before.
    has_looked: bool,
    heard: BTreeMap<(TaskId, Fence), Heard>,
}

/// What an attempt told last, and since when it has told nothing else.
#[derive(Clone, Debug)]
struct Heard {
    progress: Option<Progress>,
    since: LifeTime,
}

impl Runs {
    /// The tasks whose attempts are stalled, each with what there is to say.
    pub(super) fn stalled(
        &mut self,
        state: &State,
        rules: &Rules,
        now: Moment,
    ) -> Vec<(Text, Text)> {
        let mut seen = BTreeMap::new();
        let mut usual = BTreeMap::new();
        let mut found = Vec::new();
        for task in state.with_status(Status::Running) {
            let Some(fence) = task.lease().map(|lease| lease.fence) else { continue };
            let subject = Text::from(task.id.to_string());
            let stood = state.alerts().get(Rule::TaskStalled, &subject).filter(|it| it.stands());
            let patience = rules.of(&task.kind).stall_after;
            let stalled_since = stood.map(|alert| before(alert.came_at, patience));
            let heard = self.hear(task, fence, stalled_since, now);
            let quiet = now.life.since(heard.since);
            if patience != Millis(0) && patience <= quiet && found.len() < NAMED_MAX {
                let usual = usual
                    .entry(&task.kind)
                    .or_insert_with(|| usual_run(state.figures(), &task.kind, now.life));
                let what = say(task, heard.progress.as_ref(), quiet, *usual, stood.is_some());
                found.extend(what.map(|what| (subject, what)));
            }
            seen.insert((task.id, fence), heard);
        }
        *self = Self { has_looked: true, heard: seen };
        found
    }

    fn hear(
        &mut self,
        task: &Task,
        fence: Fence,
        stalled_since: Option<LifeTime>,
        now: Moment,
    ) -> Heard {
        let progress = task.life.as_ref().and_then(|life| life.progress.clone());
        let same = self.heard.remove(&(task.id, fence)).filter(|heard| heard.progress == progress);
        if let Some(heard) = same {
            return heard;
        }
        let since = match (&progress, stalled_since) {
            // From here on no step of the wall clock changes how long it has run.
            (None, _) => {
                let leased = task.attempt(fence).map_or(now.wall, |attempt| attempt.leased);
                before(now.life, now.wall.since(leased))
            }
            (Some(_), Some(since)) if !self.has_looked => since,
            (Some(_), _) => now.life,
        };
        Heard { progress, since }
    }
}

fn before(at: LifeTime, span: Millis) -> LifeTime {
    LifeTime(at.0.saturating_sub(span.0))
}

/// What 95 of 100 runs of a type take at most, of the last day or, where these are few, of all;
/// none where all of them are few.
fn usual_run(figures: &Figures, kind: &str, now: LifeTime) -> Option<Millis> {
    let figures = figures.types.get(kind)?;
    let enough = |runs: &Histogram| RUNS_MIN <= runs.total();
    let lately = Some(figures.runs(now, DAY)).filter(enough);
    let runs = lately.or_else(|| Some(figures.ever.run.clone()).filter(enough))?;
    runs.percentile(950)
}

/// What there is to say of an attempt that was quiet for longer than its type's patience. One that
/// was said to run too long is until it ends, also when those that it was compared with are long ago.
fn say(
    task: &Task,
    progress: Option<&Progress>,
    quiet: Millis,
    usual: Option<Millis>,
    stood: bool,
) -> Option<Text> {
    let (id, kind, for_so_long) = (task.id, &task.kind, span(quiet));
    if let Some(Progress { done, .. }) = progress {
        let what = format!("task {id} {kind} makes no progress for {for_so_long}, at {done}");
        return Some(what.into());
    }
    let is_too_long = usual.is_some_and(|usual| usual.times(TOO_LONG) < quiet);
    let others = usual.map(|usual| format!(": 95 of 100 of its type take {} at most", span(usual)));
    let what = format!(
        "task {id} {kind} runs for {for_so_long} and tells of no progress{}",
        others.unwrap_or_default()
    );
    (is_too_long || stood).then(|| what.into())
}
