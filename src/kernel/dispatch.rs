//! Which due task goes next: by priority, unless another has waited too long; and never into a slot
//! that is kept free for urgent tasks.
//!
//! Looks only at the fronts of queues and at counts, so a decision costs the same however many
//! tasks wait.

use super::event::Standing;
use super::ids::{LifeTime, Millis, TaskId, WorkerId};
use super::queue::{Age, Queue, Rank, Remaining, age};
use super::rules::{Reserve, Rules};
use super::state::{State, Worker};
use super::task_type::{Bounds, Rate};

/// At most one of so many dispatches is out of turn.
const PROMOTION_EVERY: u32 = 4;

/// Whether a task may not go out of turn after so many dispatches since the last that did.
pub(super) const fn is_too_early(since: u32) -> bool {
    since.saturating_add(1) < PROMOTION_EVERY
}

/// The count of dispatches since the last promotion after one more: none once another may follow.
pub(super) fn count_dispatch(since: Option<u32>, promoted: bool) -> Option<u32> {
    let since = if promoted { Some(0) } else { since.map(|since| since.saturating_add(1)) };
    since.filter(|since| is_too_early(*since))
}

fn length(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl State {
    /// The bounds of a type: those that people set, else those of the rules.
    pub fn bounds(&self, rules: &Rules, kind: &str) -> Bounds {
        let config = rules.of(kind).bounds;
        self.task_type(kind).map_or(config, |known| known.bounds(config))
    }

    /// How many more tasks of a type may be dispatched at `now`: a look at its counts, never at
    /// its tasks.
    pub fn room(&self, rules: &Rules, kind: &str, now: LifeTime) -> usize {
        let known = self.task_type(kind);
        if known.is_some_and(|known| known.paused.is_some()) {
            return 0;
        }
        let Bounds { max_running, rate } = self.bounds(rules, kind);
        let slots = max_running
            .map_or(usize::MAX, |max| length(max).saturating_sub(self.leased_count(kind)));
        let paced = rate.map_or(usize::MAX, |rate| {
            known.map_or_else(|| length(rate.count), |known| known.room(rate, now))
        });
        slots.min(paced)
    }

    /// Whether a worker that waits could be given something at `now`: it is not silent, has a free
    /// slot, a task of one of its types is due that need not leave it to urgent ones, and the type
    /// has room for it.
    pub fn has_work_for(&self, rules: &Rules, worker: &Worker, now: LifeTime) -> bool {
        let slots = length(worker.registration.slots);
        if worker.standing != Standing::Alive || slots <= self.held_count(worker.id) {
            return false;
        }
        let limit = Reserved::of(self, rules, worker.id).limit();
        let mut kinds = worker.registration.kinds.iter();
        kinds.any(|kind| {
            let best = self.index().ready.get(kind).and_then(Queue::best_priority);
            best.is_some_and(|best| best <= limit) && 0 < self.room(rules, kind, now)
        })
    }

    /// Whether a task of that type is due.
    fn has_due(&self, kind: &str) -> bool {
        self.index().ready.get(kind).is_some_and(|queue| !queue.is_empty())
    }

    /// Whether a type is as often leased as it may be.
    fn is_saturated(&self, rules: &Rules, kind: &str) -> bool {
        let max = self.bounds(rules, kind).max_running;
        max.is_some_and(|max| length(max) <= self.leased_count(kind))
    }

    /// When after `now` a due task can be dispatched that only the rate of its type holds up.
    pub fn next_rate_free(&self, rules: &Rules, now: LifeTime) -> Option<LifeTime> {
        let held_up = self.task_types().filter(|known| {
            let kind = &*known.kind;
            known.paused.is_none() && self.has_due(kind) && !self.is_saturated(rules, kind)
        });
        let frees = held_up.filter_map(|known| {
            let rate = self.bounds(rules, &known.kind).rate?;
            known.frees_at(rate).filter(|at| now < *at)
        });
        frees.min()
    }
}

/// What the slots that are kept free for urgent tasks leave to the others.
struct Reserved {
    /// How many more leases the tasks may get whose priority is greater than that, ascending.
    left: Vec<(i32, usize)>,
}

impl Reserved {
    /// What is left now. The slots of workers that are alive count, and the leases that these hold;
    /// `speaker` is alive, for it speaks. A lease of a lost worker takes no slot of theirs.
    fn of(state: &State, rules: &Rules, speaker: WorkerId) -> Self {
        let mut reserves = rules.reserve.clone();
        reserves.sort_by_key(|reserve| reserve.priority_max);
        let alive = |worker: &&Worker| worker.standing == Standing::Alive || worker.id == speaker;
        let alive: Vec<_> = state.workers().filter(alive).collect();
        let slots = alive.iter().map(|worker| length(worker.registration.slots));
        let mut others = slots.fold(0_usize, usize::saturating_add);
        let left = reserves.into_iter().map(|Reserve { priority_max, slots }| {
            others = others.saturating_sub(length(slots));
            let held = alive.iter().filter_map(|worker| state.index().leased.get(&worker.id));
            let held = held.flatten().filter(|(priority, _)| priority_max < **priority);
            let held = held.fold(0_usize, |held, (_, count)| held.saturating_add(*count));
            (priority_max, others.max(1).saturating_sub(held))
        });
        Self { left: left.collect() }
    }

    /// The greatest priority that a task may have to be dispatched.
    fn limit(&self) -> i32 {
        let full = self.left.iter().find(|(_, left)| *left == 0);
        full.map_or(i32::MAX, |(priority_max, _)| *priority_max)
    }

    /// A task of that priority is dispatched.
    fn pick(&mut self, priority: i32) {
        for (priority_max, left) in &mut self.left {
            if *priority_max < priority {
                *left = left.saturating_sub(1);
            }
        }
    }
}

/// The due tasks that one worker can run, in the order in which it gets them.
pub(super) struct Dispatch<'a> {
    kinds: Vec<Line<'a>>,
    reserved: Reserved,
    /// Dispatches since the last promotion, as long as it is too early for another.
    since: Option<u32>,
    promote_after: Millis,
    now: LifeTime,
}

/// What one type has for the worker.
struct Line<'a> {
    tasks: Remaining<'a>,
    /// How many more of it may be dispatched.
    room: usize,
    rate: Option<Rate>,
}

/// A task that a worker gets.
pub(super) struct Pick {
    pub(super) task: TaskId,
    /// The rate of its type, which counts it.
    pub(super) rate: Option<Rate>,
    /// Whether it goes out of turn.
    pub(super) promoted: bool,
}

impl<'a> Dispatch<'a> {
    pub(super) fn of(state: &'a State, rules: &Rules, worker: &Worker, now: LifeTime) -> Self {
        let kinds = worker.registration.kinds.iter().filter_map(|kind| {
            let tasks = Remaining::of(state.index().ready.get(kind)?);
            let room = state.room(rules, kind, now);
            Some(Line { tasks, room, rate: state.bounds(rules, kind).rate })
        });
        Self {
            kinds: kinds.collect(),
            reserved: Reserved::of(state, rules, worker.id),
            since: state.head().since_promotion,
            promote_after: rules.promote_after,
            now,
        }
    }

    /// The first by `key` of what each type with room shows, and the place of its type.
    fn first<K: Ord>(
        &self,
        show: impl Fn(&Remaining<'a>) -> Option<Rank>,
        key: impl Fn(Rank) -> K,
    ) -> Option<(usize, Rank)> {
        let kinds = self.kinds.iter().enumerate().filter(|(_, line)| 0 < line.room);
        let shown = kinds.filter_map(|(place, line)| Some((place, show(&line.tasks)?)));
        shown.min_by_key(|(_, rank)| key(*rank))
    }

    /// The task that has waited longest, if that is too long and another may go out of turn.
    fn overdue(&self, limit: i32) -> Option<(usize, Rank)> {
        if self.since.is_some() || self.promote_after == Millis(0) {
            return None;
        }
        let too_long = |(due, _): Age| self.promote_after < self.now.since(due);
        let oldest = self.first(|tasks| tasks.oldest(limit), age);
        oldest.filter(|(_, rank)| too_long(age(*rank)))
    }
}

impl Iterator for Dispatch<'_> {
    type Item = Pick;

    fn next(&mut self) -> Option<Pick> {
        let limit = self.reserved.limit();
        let best = self.first(|tasks| tasks.best(limit), |rank| rank)?;
        let overdue = self.overdue(limit).filter(|overdue| *overdue != best);
        let promoted = overdue.is_some();
        let (place, rank) = overdue.unwrap_or(best);
        self.since = count_dispatch(self.since, promoted);
        self.reserved.pick(rank.0);
        let line = self.kinds.get_mut(place)?;
        line.tasks.pick(rank);
        line.room = line.room.saturating_sub(1);
        Some(Pick { task: rank.2, rate: line.rate, promoted })
    }
}
