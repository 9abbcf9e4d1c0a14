//! How fast running tasks get on, as far as that was seen.

use crate::api::TaskView;
use crate::kernel::ids::{Millis, TaskId, Timestamp};
use crate::units;
use std::collections::{BTreeMap, VecDeque};

/// Steps of progress that are remembered of each task: the speed is that of the last few.
const STEPS_MAX: usize = 5;

/// The progress that was seen of the tasks that run.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates(BTreeMap<TaskId, Steps>);

/// When a task was seen to have done how much. Another attempt begins anew.
#[derive(Clone, Debug)]
struct Steps {
    attempt: String,
    seen: VecDeque<(Timestamp, u64)>,
}

impl Rates {
    /// Remembers how far each task is, and forgets those that run no more.
    pub(super) fn see(&mut self, running: &[TaskView], now: Timestamp) {
        let mut before = std::mem::take(&mut self.0);
        for task in running {
            let Some(progress) = &task.progress else { continue };
            let known = before.remove(&task.id);
            let known = known.filter(|known| known.attempt == task.status_since);
            let mut steps = known.unwrap_or_else(|| Steps {
                attempt: task.status_since.clone(),
                seen: VecDeque::new(),
            });
            if steps.seen.back().is_none_or(|(_, done)| *done < progress.done) {
                steps.seen.push_back((now, progress.done));
            }
            if STEPS_MAX < steps.seen.len() {
                steps.seen.pop_front();
            }
            self.0.insert(task.id, steps);
        }
    }

    /// What a task gets done in an hour; nothing where that was not seen.
    pub(super) fn per_hour(&self, task: &TaskView, now: Timestamp) -> Option<u64> {
        let seen = &self.0.get(&task.id)?.seen;
        let (first, last) = (seen.front()?, seen.back()?);
        let (done, spent) = if first.0 < last.0 {
            (last.1.saturating_sub(first.1), last.0.since(first.0))
        } else {
            // Only one step so far. A first attempt began with nothing, so its mean will do.
            let anew = task.retry_count == 0 && task.lost_count == 0 && task.checkpoint.is_none();
            let began = units::parse_rfc3339(&task.status_since).ok().filter(|_| anew)?;
            (last.1, now.since(began))
        };
        let per_hour = u128::from(done) * 3_600_000 / u128::from(spent.0).max(1);
        u64::try_from(per_hour).ok().filter(|rate| *rate != 0)
    }

    /// When a task will be through, at the speed that was seen.
    pub(super) fn left(&self, task: &TaskView, now: Timestamp) -> Option<Millis> {
        let progress = task.progress.as_ref()?;
        let left = progress.total?.checked_sub(progress.done)?;
        let per_hour = self.per_hour(task, now)?;
        let left = u128::from(left) * 3_600_000 / u128::from(per_hour);
        u64::try_from(left).ok().map(Millis)
    }
}

/// `50/s`, `3/min`, `7/h`: the smallest span in which something is done.
pub(super) fn words(per_hour: u64) -> String {
    match per_hour {
        0..60 => format!("{per_hour}/h"),
        60..3600 => format!("{}/min", units::count(per_hour / 60)),
        _ => format!("{}/s", units::count(per_hour / 3600)),
    }
}
