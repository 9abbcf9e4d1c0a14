//! What makes finding cheap: sets derived from the tasks, never stored.
//!
//! Each task's entries follow from the task alone, so a change is: take its entries out, change
//! it, put its entries in. No hot path walks all tasks; each looks at the front of one set.

use super::ids::{LifeTime, Millis, ServiceTime, TaskId, Timestamp, WorkerId};
use super::idset::IdSet;
use super::queue::Queue;
use super::schedule::Schedule;
use super::status::Status;
use super::task::Task;
use super::text::Text;
use std::collections::{BTreeMap, BTreeSet};

/// How many tasks of one type have each status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally([usize; Status::ALL.len()]);

impl Tally {
    fn slot(&mut self, status: Status) -> Option<&mut usize> {
        self.0.get_mut(status as usize)
    }

    fn add(&mut self, status: Status) {
        if let Some(count) = self.slot(status) {
            *count = count.saturating_add(1);
        }
    }

    fn take(&mut self, status: Status) {
        if let Some(count) = self.slot(status) {
            *count = count.saturating_sub(1);
        }
    }

    /// How many have that status.
    pub fn count(&self, status: Status) -> usize {
        self.0.get(status as usize).copied().unwrap_or_default()
    }

    /// How many hold a lease: RUNNING, and LOST as long as something of them may live.
    pub fn leased(&self) -> usize {
        self.count(Status::Running).saturating_add(self.count(Status::Lost))
    }

    /// How many have not ended.
    pub fn live(&self) -> usize {
        let live = Status::ALL.iter().filter(|status| !status.is_terminal());
        live.map(|status| self.count(*status)).sum()
    }

    /// Whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }
}

/// The derived sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Waiting tasks that are due, by type.
    pub ready: BTreeMap<Text, Queue>,
    /// How many tasks are due.
    ready_count: usize,
    /// Waiting tasks that are due later, on the life clock.
    pub sleeping: BTreeSet<(LifeTime, TaskId)>,
    /// Waiting tasks that are due at a wall time.
    pub dated: BTreeSet<(Timestamp, TaskId)>,
    /// All tasks, by status.
    pub by_status: BTreeMap<Status, IdSet>,
    /// How many there are of each status, by type.
    pub by_type: BTreeMap<Text, Tally>,
    /// Leased tasks by the end of their lease.
    pub lease_ends: BTreeSet<(ServiceTime, TaskId)>,
    /// Leased tasks by worker.
    pub held: BTreeMap<WorkerId, BTreeSet<TaskId>>,
    /// How many leased tasks of each priority there are, by worker.
    pub leased: BTreeMap<WorkerId, BTreeMap<i32, usize>>,
    /// Tasks by idempotency key.
    pub keys: BTreeMap<Text, TaskId>,
    /// Ended tasks without an idempotency key, by when they ended.
    pub ended: BTreeSet<(LifeTime, TaskId)>,
    /// Ended tasks with one.
    pub ended_keyed: BTreeSet<(LifeTime, TaskId)>,
    /// The sum of [`Task::bytes`].
    pub bytes: u64,
    /// Due tasks that waited for a wall time, by that time.
    pub dated_ready: BTreeSet<(Timestamp, TaskId)>,
    /// Tasks that have not ended, by the schedule that made them.
    pub live: BTreeMap<Text, BTreeSet<TaskId>>,
    /// The tasks that wait for a task, by the one they wait for.
    pub waits_for: BTreeMap<TaskId, BTreeSet<TaskId>>,
    /// Those for which tasks wait although they have ended, or are not there: to be decided.
    pub settled: BTreeSet<TaskId>,
    /// The tasks that run a task again, by the one that they run again.
    pub again: BTreeMap<TaskId, BTreeSet<TaskId>>,
    /// Schedules by their next planned time, where the wall clock says it.
    pub calendar: BTreeSet<(Timestamp, Text)>,
    /// The same where it is counted in elapsed time.
    pub elapsed: BTreeSet<(Timestamp, Text)>,
    /// Schedules whose next queued fire has room now.
    pub fires: BTreeSet<Text>,
}

/// The clocks as far as the state has seen them; they decide whether a waiting task is due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// The wall clock.
    pub(super) wall: Timestamp,
    /// The life clock.
    pub(super) life: LifeTime,
}

impl Index {
    /// Puts the entries of `task` in.
    pub(super) fn insert(&mut self, task: &Task, seen: Seen) {
        self.by_status.entry(task.status).or_default().insert(task.id);
        self.add_to_tally(&task.kind, task.status);
        if let Some(key) = task.key() {
            self.keys.insert(key.clone(), task.id);
        }
        if let Some(old) = task.retry_of() {
            self.again.entry(old).or_default().insert(task.id);
        }
        self.bytes = self.bytes.saturating_add(task.bytes());
        if let Some(ended) = task.ended() {
            self.ended_like(task).insert((ended, task.id));
        }
        if let Some(lease) = task.lease() {
            self.lease_ends.insert((lease.ends, task.id));
            self.held.entry(lease.worker).or_default().insert(task.id);
            let leased = self.leased.entry(lease.worker).or_default();
            let count = leased.entry(task.priority).or_default();
            *count = count.saturating_add(1);
        }
        if task.status.is_waiting() && task.open().is_empty() {
            self.insert_waiting(task, seen);
        }
        if !task.status.is_terminal() {
            for of in task.open() {
                self.waits_for.entry(*of).or_default().insert(task.id);
                self.settle(*of);
            }
        }
        self.settle(task.id);
        if let Some(scheduled) = task.scheduled().filter(|_| !task.status.is_terminal()) {
            self.live.entry(scheduled.schedule.clone()).or_default().insert(task.id);
        }
    }

    /// Puts the entries of a schedule in; its tasks are in already.
    pub(super) fn insert_schedule(&mut self, schedule: &Schedule) {
        if schedule.paused.is_some() {
            return;
        }
        if let Some(next) = schedule.next {
            self.planned(schedule).insert((next, schedule.name.clone()));
        }
        let live = self.live.get(&*schedule.name).map_or(0, BTreeSet::len);
        let max = usize::try_from(schedule.spec.max_instances).unwrap_or(usize::MAX);
        if !schedule.queued.is_empty() && live < max {
            self.fires.insert(schedule.name.clone());
        }
    }

    /// Takes the entries of a schedule out.
    pub(super) fn remove_schedule(&mut self, schedule: &Schedule) {
        if let Some(next) = schedule.next {
            self.planned(schedule).remove(&(next, schedule.name.clone()));
        }
        self.fires.remove(&*schedule.name);
    }

    fn planned(&mut self, schedule: &Schedule) -> &mut BTreeSet<(Timestamp, Text)> {
        if schedule.spec.plan.is_elapsed() { &mut self.elapsed } else { &mut self.calendar }
    }

    /// Counts a task of that status. An empty tally is kept: types are few, and come back.
    fn add_to_tally(&mut self, kind: &Text, status: Status) {
        match self.by_type.get_mut(&**kind) {
            Some(tally) => tally.add(status),
            None => self.by_type.entry(kind.clone()).or_default().add(status),
        }
    }

    /// The set in which such a task is found once it has ended.
    fn ended_like(&mut self, task: &Task) -> &mut BTreeSet<(LifeTime, TaskId)> {
        if task.key().is_some() { &mut self.ended_keyed } else { &mut self.ended }
    }

    fn insert_waiting(&mut self, task: &Task, seen: Seen) {
        match task.at() {
            Some(at) if seen.wall < at => {
                self.dated.insert((at, task.id));
            }
            None if seen.life < task.due => {
                self.sleeping.insert((task.due, task.id));
            }
            at => {
                self.dated_ready.extend(at.map(|at| (at, task.id)));
                self.insert_ready(task);
            }
        }
    }

    fn insert_ready(&mut self, task: &Task) {
        if !self.ready.contains_key(&*task.kind) {
            self.ready.insert(task.kind.clone(), Queue::default());
        }
        let Some(queue) = self.ready.get_mut(&*task.kind) else { return };
        queue.insert((task.priority, task.due, task.id));
        self.ready_count = self.ready_count.saturating_add(1);
    }

    /// Looks whether tasks wait for this one in vain.
    fn settle(&mut self, of: TaskId) {
        let goes_on = |(status, ids): (&Status, &IdSet)| !status.is_terminal() && ids.contains(of);
        if self.waits_for.contains_key(&of) && !self.by_status.iter().any(goes_on) {
            self.settled.insert(of);
        } else {
            self.settled.remove(&of);
        }
    }

    /// Takes the entries of a task out that is no longer kept.
    pub(super) fn forget(&mut self, task: &Task) {
        self.remove(task);
        if let Some(key) = task.key() {
            self.keys.remove(key);
        }
    }

    /// Takes the entries of `task` out. Its key stays: it names the task for as long as the task
    /// is kept.
    pub(super) fn remove(&mut self, task: &Task) {
        if let Some(old) = task.retry_of() {
            let again = self.again.get_mut(&old);
            if again.is_some_and(|again| again.remove(&task.id) && again.is_empty()) {
                self.again.remove(&old);
            }
        }
        self.bytes = self.bytes.saturating_sub(task.bytes());
        if let Some(ended) = task.ended() {
            self.ended_like(task).remove(&(ended, task.id));
        }
        if let Some(ids) = self.by_status.get_mut(&task.status) {
            ids.remove(task.id);
        }
        if let Some(tally) = self.by_type.get_mut(&*task.kind) {
            tally.take(task.status);
        }
        if let Some(lease) = task.lease() {
            self.lease_ends.remove(&(lease.ends, task.id));
            let held = self.held.get_mut(&lease.worker);
            if held.is_some_and(|held| held.remove(&task.id) && held.is_empty()) {
                self.held.remove(&lease.worker);
            }
            self.take_from_leased(lease.worker, task.priority);
        }
        if !task.status.is_terminal() {
            for of in task.open() {
                let waiting = self.waits_for.get_mut(of);
                if waiting.is_some_and(|it| it.remove(&task.id) && it.is_empty()) {
                    self.waits_for.remove(of);
                    self.settled.remove(of);
                }
            }
        }
        if task.status.is_waiting() && task.open().is_empty() {
            let ready = self.remove_ready(task);
            match task.at().map(|at| (at, task.id)) {
                Some(entry) if ready => self.dated_ready.remove(&entry),
                Some(entry) => self.dated.remove(&entry),
                None => !ready && self.sleeping.remove(&(task.due, task.id)),
            };
        }
        if let Some(scheduled) = task.scheduled().filter(|_| !task.status.is_terminal()) {
            let live = self.live.get_mut(&*scheduled.schedule);
            if live.is_some_and(|live| live.remove(&task.id) && live.is_empty()) {
                self.live.remove(&*scheduled.schedule);
            }
        }
    }

    /// The due tasks whose wall time lies after `wall`, now that the clock was put back.
    pub(super) fn undue(&self, wall: Timestamp) -> Vec<TaskId> {
        let later = self.dated_ready.range((wall.after(Millis(1)), TaskId(0))..);
        later.map(|(_, id)| *id).collect()
    }

    fn remove_ready(&mut self, task: &Task) -> bool {
        // An emptied queue of a type is kept: types are few, and come back.
        let Some(queue) = self.ready.get_mut(&*task.kind) else { return false };
        let was_there = queue.remove((task.priority, task.due, task.id));
        self.ready_count = self.ready_count.saturating_sub(usize::from(was_there));
        was_there
    }

    fn take_from_leased(&mut self, worker: WorkerId, priority: i32) {
        let Some(leased) = self.leased.get_mut(&worker) else { return };
        if let Some(count) = leased.get_mut(&priority) {
            *count = count.saturating_sub(1);
        }
        leased.retain(|_, count| 0 < *count);
        if leased.is_empty() {
            self.leased.remove(&worker);
        }
    }

    /// When the due task that has waited longest was due: costs a step for each type.
    pub fn oldest_due(&self) -> Option<LifeTime> {
        self.ready.values().filter_map(Queue::oldest_due).min()
    }

    /// How many tasks are due.
    pub const fn ready_count(&self) -> usize {
        self.ready_count
    }

    /// The next sleeping task that is due by `seen`.
    pub(super) fn ripe(&self, seen: Seen) -> Option<TaskId> {
        let slept = self.sleeping.first().filter(|(due, _)| *due <= seen.life);
        let dated = self.dated.first().filter(|(at, _)| *at <= seen.wall);
        slept.map(|(_, id)| *id).or_else(|| dated.map(|(_, id)| *id))
    }

    /// How many tasks have ended.
    pub fn ended_count(&self) -> usize {
        self.ended.len().saturating_add(self.ended_keyed.len())
    }

    /// How many tasks have that status.
    pub fn count(&self, status: Status) -> usize {
        self.by_status.get(&status).map_or(0, IdSet::len)
    }
}
