//! Decisions on tasks that wait for others.
//!
//! What waits for a task that has ended is looked up, not called: the state knows which tasks have
//! ended and still have somebody waiting, and the engine decides these in bounded steps. So a
//! chain goes on from turn to turn, and no crash can lose a link of it.

use super::{Answer, Ask, Decision, Rejection};
use crate::kernel::event::{Event, Moved, Released};
use crate::kernel::ids::TaskId;
use crate::kernel::status::{Reason, Status};
use crate::kernel::task::{After, TaskSpec};
use crate::limits::{AFTER_MAX, SETTLED_PER_STEP_MAX};
use std::collections::BTreeSet;

impl Ask<'_> {
    /// The specification with each task it waits for once; fails where one was never given, or is
    /// no longer kept, for then nobody knows how it ended.
    pub(super) fn check_after(self, mut spec: TaskSpec) -> Result<TaskSpec, Rejection> {
        if let Some(after) = &mut spec.after {
            let mut seen = BTreeSet::new();
            after.tasks.retain(|of| seen.insert(*of));
            if AFTER_MAX < after.tasks.len() {
                return Err(Rejection::TooManyToWaitFor(after.tasks.len()));
            }
            for of in &after.tasks {
                self.task(*of)?;
            }
        }
        spec.after = spec.after.filter(|after| !after.tasks.is_empty());
        Ok(spec)
    }

    /// What follows at once for a task that is just made, from the tasks that have ended already:
    /// the same as if they ended now.
    pub(super) fn settled_before(self, task: TaskId, after: Option<&After>) -> Vec<Event> {
        let Some(After { tasks, any }) = after else { return Vec::new() };
        let ends = tasks.iter().filter_map(|of| {
            let status = self.state.task(*of)?.status;
            status.is_terminal().then_some((*of, Some(status)))
        });
        let mut events = Vec::new();
        for (of, end) in ends {
            let event = settled(task, of, *any, end);
            if matches!(event, Event::Moved(_)) {
                return vec![event];
            }
            events.push(event);
        }
        events
    }

    /// What becomes of tasks that wait for one that has ended: at most so many of them, the oldest
    /// first. One that is not there any more did not end well, as far as anybody knows.
    pub(super) fn settle(self, of: TaskId) -> Result<Decision, Rejection> {
        let end = self.state.task(of).map(|task| task.status);
        if end.is_some_and(|end| !end.is_terminal()) {
            return Err(Rejection::Needless);
        }
        let waiting = self.state.waiting_for(of).take(SETTLED_PER_STEP_MAX);
        let events: Vec<_> = waiting
            .map(|task| settled(task.id, of, task.after().is_some_and(|after| after.any), end))
            .collect();
        if events.is_empty() {
            return Err(Rejection::Needless);
        }
        Ok(Decision { events, answer: Answer::Done })
    }
}

/// What the end of one task is to another that waits for it.
fn settled(task: TaskId, of: TaskId, any: bool, end: Option<Status>) -> Event {
    if any || end == Some(Status::Success) {
        return Event::Released(Released { task, of });
    }
    let how = end.map_or_else(|| "is not kept any more".to_owned(), |end| format!("ended {end}"));
    Event::Moved(Moved {
        task,
        to: Status::Cancelled,
        reason: Reason::DependencyFailed,
        wait: None,
        error: Some(format!("task {of}, for which it waited, {how}").into()),
    })
}
