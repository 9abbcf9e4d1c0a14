//! Questions that stay open until something happens: a task that ends, a worker that must stop
//! something. Looked at again only when an event touches their subject.

use super::hand::Delivery;
use super::host::Facts;
use crate::engine::Ticket;
use crate::kernel::event::Event;
use crate::kernel::ids::{TaskId, WorkerId};
use std::collections::BTreeMap;

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// A task.
    Task(TaskId),
    /// The orders to a worker.
    Worker(WorkerId),
}

/// Looks at the facts; something when the wait is over.
pub(crate) type Look = Box<dyn FnMut(&Facts<'_>) -> Option<Delivery> + Send>;

/// The open questions.
#[derive(Default)]
pub(crate) struct Watches {
    open: BTreeMap<(Subject, u64), Look>,
    subjects: BTreeMap<u64, Subject>,
    /// Asked during this turn; looked at when it is durable.
    fresh: Vec<(Ticket, Subject, Look)>,
}

impl Watches {
    /// Adds a question, to be looked at first at the end of the turn.
    pub(crate) fn add(&mut self, from: Ticket, on: Subject, look: Look) {
        self.fresh.push((from, on, look));
    }

    /// Drops a question.
    pub(crate) fn forget(&mut self, from: Ticket) {
        self.fresh.retain(|(ticket, ..)| *ticket != from);
        if let Some(subject) = self.subjects.remove(&from.0) {
            self.open.remove(&(subject, from.0));
        }
    }

    /// Looks for the first time at the questions of this turn.
    pub(crate) fn begin(&mut self, facts: &Facts<'_>, deliveries: &mut Vec<Delivery>) {
        for (from, on, mut look) in self.fresh.drain(..) {
            if let Some(delivery) = look(facts) {
                deliveries.push(delivery);
            } else {
                self.subjects.insert(from.0, on);
                self.open.insert((on, from.0), look);
            }
        }
    }

    /// Looks again at the questions that an event may answer.
    pub(crate) fn touch(
        &mut self,
        facts: &Facts<'_>,
        event: &Event,
        deliveries: &mut Vec<Delivery>,
    ) {
        if self.open.is_empty() {
            return;
        }
        if let Some(task) = event.task() {
            self.look_again(facts, Subject::Task(task), deliveries);
        }
        let worker = match event {
            Event::StopRequested(asked) => {
                let task = facts.engine.state().task(asked.task);
                task.and_then(|task| task.lease()).map(|lease| lease.worker)
            }
            Event::WorkerMoved(moved) => Some(moved.worker),
            _ => None,
        };
        if let Some(worker) = worker {
            self.look_again(facts, Subject::Worker(worker), deliveries);
        }
    }

    fn look_again(&mut self, facts: &Facts<'_>, on: Subject, deliveries: &mut Vec<Delivery>) {
        let questions = self.open.range_mut((on, 0)..=(on, u64::MAX));
        let answered: Vec<_> =
            questions.filter_map(|(key, look)| Some((*key, look(facts)?))).collect();
        for (key, delivery) in answered {
            self.open.remove(&key);
            self.subjects.remove(&key.1);
            deliveries.push(delivery);
        }
    }
}
