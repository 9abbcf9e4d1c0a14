//! Everything that is known: the fold of all events so far.

use super::alerts::Alerts;
use super::decide::Rejection;
use super::dispatch;
use super::event::{Jump, Registration, Stamp, Standing, Started};
use super::figures::Figures;
use super::ids::{Fence, LifeTime, Millis, Moment, Seq, ServiceTime, TaskId, Timestamp, WorkerId};
use super::idset::IdSet;
use super::index::{Index, Seen, Tally};
use super::queue::{Queue, Rank};
use super::rules::{Retention, Rules};
use super::schedule::Schedule;
use super::shared::Shared;
use super::status::Status;
use super::table::Table;
use super::task::Task;
use super::task_type::TaskType;
use super::text::Text;
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A worker that is registered.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Worker {
    /// Its id.
    #[n(0)]
    pub id: WorkerId,
    /// What it said of itself.
    #[n(1)]
    pub registration: Registration,
    /// How it stands.
    #[n(2)]
    pub standing: Standing,
    /// When it registered.
    #[n(3)]
    pub since: Timestamp,
}

/// What the state knows besides tasks and workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Head {
    /// The last event's sequence number.
    #[n(0)]
    pub seq: Seq,
    /// The last event's wall clock.
    #[n(1)]
    pub wall: Timestamp,
    /// The last event's life clock.
    #[n(2)]
    pub life: LifeTime,
    /// The last event's service clock.
    #[n(3)]
    pub service: ServiceTime,
    /// The id that the next task gets.
    #[n(4)]
    pub next_task: TaskId,
    /// The last start of the engine.
    #[n(5)]
    pub started: Option<Started>,
    /// The life clock at that start.
    #[n(6)]
    pub started_life: LifeTime,
    /// The last stretch of wall time that nobody lived through; a clock that is put back into it
    /// was wrong when it was put forward.
    #[n(7)]
    pub jump: Option<Jump>,
    /// How often the wall clock was put forward or back.
    #[n(8)]
    pub steps: Option<u64>,
    /// What it would have shown at the last step, and what it showed.
    #[n(9)]
    pub last_step: Option<Jump>,
    /// Dispatches since the last one out of turn, as long as it is too early for another.
    #[n(10)]
    pub since_promotion: Option<u32>,
}

/// The state. `apply` is the only writer of its facts; the index follows from them.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(super) tasks: Table,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    /// The types of which something is known beyond their tasks.
    pub(super) types: BTreeMap<Text, TaskType>,
    pub(super) schedules: BTreeMap<Text, Shared<Schedule>>,
    pub(super) figures: Figures,
    /// What is wrong, and who was told.
    pub(super) alerts: Alerts,
    pub(super) head: Head,
    pub(super) index: Index,
    /// The latest readings of the clocks; never behind those of the head.
    pub(super) seen: Seen,
    /// The sequence number that the next event gets.
    pub(super) next_seq: Seq,
}

/// A consistent image of the state at one sequence number, cheap to take: it shares the tasks.
#[derive(Clone, Debug)]
pub struct Image {
    /// What is known besides.
    pub head: Head,
    /// The tasks.
    pub tasks: Table,
    /// The workers.
    pub workers: BTreeMap<WorkerId, Worker>,
    /// The task types of which something is known beyond their tasks.
    pub types: BTreeMap<Text, TaskType>,
    /// The schedules.
    pub schedules: BTreeMap<Text, Shared<Schedule>>,
    /// The figures; none in an image of a version that did not count.
    pub figures: Option<Figures>,
    /// The alerts.
    pub alerts: Alerts,
}

impl State {
    /// The task with that id.
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id)
    }

    /// The task with that id, or why there is none.
    pub fn task_or_why(&self, id: TaskId) -> Result<&Task, Rejection> {
        let given = TaskId(0) < id && id < self.head.next_task;
        let why = if given { Rejection::Forgotten(id) } else { Rejection::NoSuchTask(id) };
        self.task(id).ok_or(why)
    }

    /// All tasks, oldest first. For tools and tests: its cost is that of all tasks.
    pub fn tasks(&self) -> impl DoubleEndedIterator<Item = &Task> {
        self.tasks.iter()
    }

    /// How many tasks there are.
    pub const fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// The worker with that id.
    pub fn worker(&self, id: WorkerId) -> Option<&Worker> {
        self.workers.get(&id)
    }

    /// All workers that are registered.
    pub fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.workers.values()
    }

    /// What is known of a task type beyond its tasks, if anything.
    pub fn task_type(&self, kind: &str) -> Option<&TaskType> {
        self.types.get(kind)
    }

    /// The task types of which something is known beyond their tasks.
    pub fn task_types(&self) -> impl Iterator<Item = &TaskType> {
        self.types.values()
    }

    /// The schedule with that name.
    pub fn schedule(&self, name: &str) -> Option<&Schedule> {
        self.schedules.get(name).map(|schedule| &**schedule)
    }

    /// The same, shared, for who keeps it.
    pub fn schedule_shared(&self, name: &str) -> Option<&Shared<Schedule>> {
        self.schedules.get(name)
    }

    /// The schedules behind a name, by name, shared.
    pub fn schedules_after<'a>(
        &'a self,
        name: &str,
    ) -> impl Iterator<Item = &'a Shared<Schedule>> + use<'a> {
        let behind = (Bound::Excluded(name), Bound::Unbounded);
        self.schedules.range::<str, _>(behind).map(|(_, schedule)| schedule)
    }

    /// All schedules, by name.
    pub fn schedules(&self) -> impl Iterator<Item = &Schedule> {
        self.schedules.values().map(|schedule| &**schedule)
    }

    /// How many schedules there are.
    pub fn schedule_count(&self) -> usize {
        self.schedules.len()
    }

    /// The tasks that wait for this one, oldest first.
    pub fn waiting_for(&self, id: TaskId) -> impl Iterator<Item = &Task> {
        let ids = self.index.waits_for.get(&id).into_iter().flatten();
        ids.filter_map(|id| self.tasks.get(*id))
    }

    /// The tasks of a schedule that have not ended, oldest first.
    pub fn live(&self, schedule: &str) -> impl Iterator<Item = &Task> {
        let ids = self.index.live.get(schedule).into_iter().flatten();
        ids.filter_map(|id| self.tasks.get(*id))
    }

    /// The tasks that run that one again, oldest first.
    pub fn again(&self, id: TaskId) -> impl Iterator<Item = &Task> {
        let ids = self.index.again.get(&id).into_iter().flatten();
        ids.filter_map(|id| self.tasks.get(*id))
    }

    /// How many tasks of a schedule have not ended.
    pub fn live_count(&self, schedule: &str) -> usize {
        self.index.live.get(schedule).map_or(0, BTreeSet::len)
    }

    /// The schedule that has something to decide at `now`, one of those in `held` left out: the
    /// front of a set, never a scan.
    pub fn next_fire(&self, now: Moment, held: &BTreeSet<Text>) -> Option<&Text> {
        let queued = self.index.fires.iter().find(|name| !held.contains(*name));
        queued.or_else(|| {
            let next = self.planned_next(now.doubtful, held)?;
            (next.0 <= now.wall).then_some(&next.1)
        })
    }

    /// When the next planned time is, by the wall clock, those in `held` left out.
    pub fn next_planned(&self, doubtful: bool, held: &BTreeSet<Text>) -> Option<Timestamp> {
        self.planned_next(doubtful, held).map(|(at, _)| *at)
    }

    /// When the next planned time is, by the wall clock, and of which schedule.
    pub fn next_schedule(&self, doubtful: bool) -> Option<&(Timestamp, Text)> {
        self.planned_next(doubtful, &BTreeSet::new())
    }

    fn planned_next(&self, doubtful: bool, held: &BTreeSet<Text>) -> Option<&(Timestamp, Text)> {
        let free = |(_, name): &&(Timestamp, Text)| !held.contains(name);
        let calendar = self.index.calendar.iter().find(free).filter(|_| !doubtful);
        self.index.elapsed.iter().find(free).into_iter().chain(calendar).min()
    }

    /// How many tasks of a type have each status.
    pub fn tally(&self, kind: &str) -> Tally {
        self.index.by_type.get(kind).cloned().unwrap_or_default()
    }

    /// Whether the rules, the tasks or what people ordered name that type.
    pub fn knows_type(&self, rules: &Rules, kind: &str) -> bool {
        let tasks = self.index.by_type.get(kind).is_some_and(|tally| !tally.is_empty());
        tasks || self.types.contains_key(kind) || rules.kinds.contains_key(kind)
    }

    /// How many tasks of a type hold a lease.
    pub fn leased_count(&self, kind: &str) -> usize {
        self.index.by_type.get(kind).map_or(0, Tally::leased)
    }

    /// What is wrong, and who was told.
    pub const fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// What is known besides tasks and workers.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// What was counted.
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// How many tasks have not ended.
    pub fn live_task_count(&self) -> u64 {
        live_count(&self.tasks, &self.index)
    }

    /// The derived sets.
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// The sequence number that the next event gets.
    pub const fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// Lets the next event have `seq`, after the journal skipped ahead.
    pub fn skip_to(&mut self, seq: Seq) {
        self.next_seq = self.next_seq.max(seq);
    }

    /// Spends every number before these: after a repair no sequence, token or id of records that
    /// are gone is given again.
    pub fn skip_ahead(&mut self, seq: Seq, task: TaskId) {
        self.skip_to(seq);
        self.head.seq = self.head.seq.max(Seq(self.next_seq.0.saturating_sub(1)));
        self.head.next_task = self.head.next_task.max(task);
    }

    /// The id that the next task gets.
    pub const fn next_task(&self) -> TaskId {
        self.head.next_task
    }

    /// The task that was submitted under this idempotency key.
    pub fn task_by_key(&self, key: &str) -> Option<&Task> {
        self.tasks.get(*self.index.keys.get(key)?)
    }

    /// The tasks that a worker holds, RUNNING or LOST.
    pub fn held(&self, worker: WorkerId) -> impl Iterator<Item = &Task> {
        self.index.held.get(&worker).into_iter().flatten().filter_map(|id| self.tasks.get(*id))
    }

    /// How many tasks a worker holds.
    pub fn held_count(&self, worker: WorkerId) -> usize {
        self.index.held.get(&worker).map_or(0, BTreeSet::len)
    }

    /// The tasks with that status, oldest first.
    pub fn with_status(&self, status: Status) -> impl DoubleEndedIterator<Item = &Task> {
        let ids = self.index.by_status.get(&status).into_iter().flat_map(IdSet::iter);
        ids.filter_map(|id| self.tasks.get(id))
    }

    /// The due tasks of one type, in the order of their dispatch.
    pub fn ready(&self, kind: &str) -> impl Iterator<Item = Rank> {
        self.index.ready.get(kind).into_iter().flat_map(Queue::iter)
    }

    /// Moves at most `max` tasks whose time has come into the ready sets; whether more remain.
    ///
    /// Changes no fact: where a waiting task is indexed is a reading of the clock, nothing more.
    pub fn ripen(&mut self, now: Moment, max: usize) -> bool {
        self.seen.life = self.seen.life.max(now.life);
        self.seen.wall = now.wall;
        for _ in 0..max {
            let Some(id) = self.index.ripe(self.seen) else { return false };
            let Some(task) = self.tasks.get(id) else { return false };
            self.index.remove(task);
            self.index.insert(task, self.seen);
        }
        self.index.ripe(self.seen).is_some()
    }

    /// The leases by the end of their time: when, which task, which token.
    pub fn lease_ends(&self) -> impl Iterator<Item = (ServiceTime, TaskId, Fence)> {
        let ends = self.index.lease_ends.iter();
        ends.filter_map(|(ends, id)| Some((*ends, *id, self.tasks.get(*id)?.lease()?.fence)))
    }

    /// The leases that are over by `now`, earliest end first.
    pub fn ended_leases(&self, now: ServiceTime) -> impl Iterator<Item = (TaskId, Fence)> {
        let over = self.lease_ends().take_while(move |(ends, _, _)| *ends <= now);
        over.map(|(_, task, fence)| (task, fence))
    }

    /// When the next sleeping task is due: on the life clock, and on the wall clock.
    pub fn next_due(&self) -> (Option<LifeTime>, Option<Timestamp>) {
        let slept = self.index.sleeping.first().map(|(due, _)| *due);
        (slept, self.index.dated.first().map(|(at, _)| *at))
    }

    /// Bytes that all tasks take together, as [`Task::bytes`] counts.
    pub const fn bytes(&self) -> u64 {
        self.index.bytes
    }

    /// Ended tasks beyond the number that stays.
    pub fn surplus(&self, retention: &Retention) -> usize {
        self.index.ended_count().saturating_sub(retention.max_finished)
    }

    /// The ended tasks that need not stay by `now`, those that ended first at the front, at most
    /// `max`; not those for which another task still waits. Costs as much as it finds.
    pub fn outlived(&self, retention: &Retention, now: LifeTime, max: usize) -> Vec<TaskId> {
        let Retention { finished, keys, .. } = *retention;
        let mut surplus = self.surplus(retention);
        let needed = |(_, id): &&(LifeTime, TaskId)| self.index.settled.contains(id);
        let mut plain = self.index.ended.iter().filter(|entry| !needed(entry)).peekable();
        let mut keyed = self.index.ended_keyed.iter().filter(|entry| !needed(entry)).peekable();
        let mut found = Vec::new();
        while found.len() < max {
            let may_go = |ended: &LifeTime| 0 < surplus || ended.after(finished) <= now;
            let first = plain.peek().filter(|(ended, _)| may_go(ended)).copied();
            let first_keyed =
                keyed.peek().filter(|(ended, _)| ended.after(keys) <= now && may_go(ended));
            let next = match (first, first_keyed.copied()) {
                (Some(one), Some(other)) if other < one => keyed.next(),
                (None, Some(_)) => keyed.next(),
                (Some(_), _) => plain.next(),
                (None, None) => break,
            };
            found.extend(next.map(|(_, id)| *id));
            surplus = surplus.saturating_sub(1);
        }
        found
    }

    /// When the next ended task need not stay any longer.
    pub fn next_outlived(&self, retention: &Retention) -> Option<LifeTime> {
        let Retention { finished, keys, .. } = *retention;
        let stay = if 0 < self.surplus(retention) { Millis(0) } else { finished };
        let plain = self.index.ended.first().map(|(ended, _)| ended.after(stay));
        let keyed = self.index.ended_keyed.first().map(|(ended, _)| ended.after(stay.max(keys)));
        plain.into_iter().chain(keyed).min()
    }

    /// A consistent image of the state as it is, for a snapshot.
    pub fn image(&self) -> Image {
        Image {
            head: self.head.clone(),
            tasks: self.tasks.clone(),
            workers: self.workers.clone(),
            types: self.types.clone(),
            schedules: self.schedules.clone(),
            figures: Some(self.figures.clone()),
            alerts: self.alerts.clone(),
        }
    }

    /// The state that an image shows.
    pub fn restore(image: Image) -> Self {
        let Image { head, tasks, workers, types, schedules, figures, alerts } = image;
        let seen = Seen { wall: head.wall, life: head.life };
        let mut index = Index::default();
        for task in tasks.iter() {
            index.insert(task, seen);
        }
        for schedule in schedules.values() {
            index.insert_schedule(schedule);
        }
        let next_seq = Seq(head.seq.0.saturating_add(1));
        let figures =
            figures.unwrap_or_else(|| Figures::begin(live_count(&tasks, &index), head.seq));
        Self { tasks, workers, types, schedules, figures, alerts, head, index, seen, next_seq }
    }

    /// Notes an event's place and time.
    pub(super) fn note(&mut self, stamp: &Stamp) {
        self.head.seq = stamp.seq;
        self.head.wall = stamp.wall;
        self.head.life = self.head.life.max(stamp.life);
        self.head.service = self.head.service.max(stamp.service);
        self.next_seq = Seq(stamp.seq.0.saturating_add(1));
        self.seen.wall = stamp.wall;
        self.seen.life = self.seen.life.max(stamp.life);
    }

    /// Recomputes every derived set and compares: the first difference, in words.
    ///
    /// Costs as much as all tasks; for tests, the simulator, and the end of a recovery there.
    pub fn check(&self) -> Result<(), String> {
        let fresh = Self::restore(self.image()).index;
        for task in self.tasks.iter() {
            check_task(task)?;
        }
        self.figures.check(self.live_task_count())?;
        for (kind, known) in &self.types {
            check_type(kind, known)?;
        }
        for (name, schedule) in &self.schedules {
            schedule.check(name, self.live_count(name))?;
        }
        self.alerts.check()?;
        let same = |name: &str, equal: bool| {
            if equal {
                Ok(())
            } else {
                Err(format!("the derived set `{name}` is not what the tasks say"))
            }
        };
        let filled = |map: &BTreeMap<Status, IdSet>| -> BTreeMap<Status, IdSet> {
            map.iter()
                .filter(|(_, ids)| !ids.is_empty())
                .map(|(s, ids)| (*s, ids.clone()))
                .collect()
        };
        same("by_status", filled(&self.index.by_status) == filled(&fresh.by_status))?;
        let tallies = |index: &Index| -> BTreeMap<Text, Tally> {
            let kept = index.by_type.iter().filter(|(_, tally)| !tally.is_empty());
            kept.map(|(kind, tally)| (kind.clone(), tally.clone())).collect()
        };
        same("by_type", tallies(&self.index) == tallies(&fresh))?;
        same("lease_ends", self.index.lease_ends == fresh.lease_ends)?;
        same("held", self.index.held == fresh.held)?;
        same("leased", self.index.leased == fresh.leased)?;
        same("keys", self.index.keys == fresh.keys)?;
        same("ended", self.index.ended == fresh.ended)?;
        same("ended_keyed", self.index.ended_keyed == fresh.ended_keyed)?;
        same("bytes", self.index.bytes == fresh.bytes)?;
        same("live", self.index.live == fresh.live)?;
        same("again", self.index.again == fresh.again)?;
        same("waits_for", self.index.waits_for == fresh.waits_for)?;
        same("settled", self.index.settled == fresh.settled)?;
        same("calendar", self.index.calendar == fresh.calendar)?;
        same("elapsed", self.index.elapsed == fresh.elapsed)?;
        same("fires", self.index.fires == fresh.fires)?;
        same("waiting", waiting(&self.index) == waiting(&fresh))?;
        same("ready_count", ready(&self.index).count() == self.index.ready_count())?;
        let oldest = ready(&self.index).map(|(_, due, _)| due).min();
        same("fronts", oldest == self.index.oldest_due())?;
        match self.head.since_promotion {
            Some(since) if !dispatch::is_too_early(since) => {
                Err(format!("{since} dispatches after a promotion are still counted"))
            }
            _ => Ok(()),
        }
    }
}

fn live_count(tasks: &Table, index: &Index) -> u64 {
    u64::try_from(tasks.len().saturating_sub(index.ended_count())).unwrap_or(u64::MAX)
}

fn ready(index: &Index) -> impl Iterator<Item = Rank> {
    index.ready.values().flat_map(Queue::iter)
}

/// All waiting tasks, due or not: which of the sets holds one depends on the clock last seen.
fn waiting(index: &Index) -> BTreeSet<TaskId> {
    let asleep = index.sleeping.iter().map(|(_, id)| *id);
    let dated = index.dated.iter().map(|(_, id)| *id);
    ready(index).map(|(_, _, id)| id).chain(asleep).chain(dated).collect()
}

/// The invariants of one task type.
fn check_type(kind: &Text, known: &TaskType) -> Result<(), String> {
    if *kind != known.kind {
        return Err(format!("type {} is kept as {kind}", known.kind));
    }
    if known.is_plain() {
        return Err(format!("type {kind} is kept and nothing is known of it"));
    }
    known.check()
}

/// The invariants of one task.
fn check_task(task: &Task) -> Result<(), String> {
    task.check()?;
    let id = task.id;
    if task.max_retry < task.retry_count && task.status == Status::Retrying {
        return Err(format!("task {id} is RETRYING after its retries are used up"));
    }
    Ok(())
}
