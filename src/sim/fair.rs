//! The account of who went next: in turn but for one in four, and after whom it waited for.

use crate::engine::Recorded;
use crate::kernel::State;
use crate::kernel::event::Event;
use crate::kernel::ids::{Millis, Seq, TaskId};
use crate::kernel::rules::{Reserve, Rules};
use crate::kernel::status::{Reason, Status};
use crate::kernel::task::After;
use std::collections::BTreeMap;

/// What is known from published events alone.
#[derive(Debug, Default)]
pub(super) struct Fairness {
    /// Whom each task waits for.
    after: BTreeMap<TaskId, After>,
    /// How tasks ended.
    ends: BTreeMap<TaskId, Status>,
    /// Of the last dispatches whether they were out of turn.
    recent: Vec<bool>,
    /// Dispatches out of turn.
    pub(super) promotions: u64,
    /// Tasks that another one no longer waits for.
    pub(super) releases: u64,
    /// Tasks cancelled because another one did not end as hoped.
    pub(super) given_up: u64,
}

/// Rules under which tasks are overdue soon, and in half of the worlds slots are kept free.
pub(super) fn draw_fairness(rules: &mut Rules, draw: &mut impl FnMut(usize) -> usize) {
    rules.promote_after = Millis([0, 500, 3_000][draw(3)]);
    if draw(2) == 0 {
        rules.reserve = vec![Reserve { priority_max: 0, slots: 1 + draw(2) as u32 }];
    }
}

impl Fairness {
    /// A published event, and the state after its turn.
    pub(super) fn saw(&mut self, recorded: &Recorded, state: Option<&State>) {
        match &recorded.event {
            Event::Submitted(event) => {
                self.after.extend(event.spec.after.clone().map(|after| (event.task, after)));
            }
            Event::Released(_) => self.releases += 1,
            Event::Moved(event) if event.reason == Reason::DependencyFailed => self.given_up += 1,
            Event::Leased(event) => {
                let promoted = event.promoted == Some(true);
                let too_early = promoted && self.recent.contains(&true);
                assert!(!too_early, "I22: a second of four dispatches is out of turn");
                self.promotions += u64::from(promoted);
                self.recent.insert(0, promoted);
                self.recent.truncate(3);
                self.check_after(event.task, state);
            }
            _ => {}
        }
        if let (Some(id), Some(end)) = (recorded.event.task(), recorded.to) {
            self.ends.extend(end.is_terminal().then_some((id, end)));
        }
    }

    /// I22: whoever it waits for has ended, and as hoped; one whose end is not known is gone.
    fn check_after(&self, id: TaskId, state: Option<&State>) {
        let Some(After { tasks, any }) = self.after.get(&id) else { return };
        for of in tasks {
            let fine = match self.ends.get(of) {
                Some(end) => *any || *end == Status::Success,
                None => state.is_some_and(|state| state.task(*of).is_none()),
            };
            assert!(fine, "I22: task {id} runs before task {of}, for which it waits");
        }
    }

    /// After a recovery, where `last` was published last: what was found holds. Where records were
    /// lost, or durable and not yet published, the count begins anew.
    pub(super) fn recovered(&mut self, state: &State, last: Seq) {
        if state.head().seq != last {
            self.recent.clear();
        }
        for task in state.tasks() {
            self.after.extend(task.after().cloned().map(|after| (task.id, after)));
            self.ends.remove(&task.id);
            self.ends.extend(task.status.is_terminal().then_some((task.id, task.status)));
        }
    }
}
