//! The due tasks of one type, in two orders: that of their dispatch, and that of their age.

use super::ids::{LifeTime, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Place in the queue: priority, then when it was due, then id.
pub type Rank = (i32, LifeTime, TaskId);

/// Place among those that wait: when it was due, then id.
pub(super) type Age = (LifeTime, TaskId);

/// The age of what has a rank.
pub(super) const fn age((_, due, id): Rank) -> Age {
    (due, id)
}

/// The due tasks of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// By priority, each line by when its tasks were due; no line is empty.
    lines: BTreeMap<i32, BTreeSet<Age>>,
    /// The first task of each line: the one that has waited longest is the first of them.
    fronts: BTreeSet<(LifeTime, TaskId, i32)>,
}

impl Queue {
    /// Whether no task is due.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// How many tasks are due: costs a step for each line.
    pub fn len(&self) -> usize {
        self.lines.values().map(BTreeSet::len).sum()
    }

    /// The tasks in the order of their dispatch.
    pub fn iter(&self) -> impl Iterator<Item = Rank> {
        let lines = self.lines.iter();
        lines.flat_map(|(priority, line)| line.iter().map(|(due, id)| (*priority, *due, *id)))
    }

    /// The smallest priority that a due task has.
    pub fn best_priority(&self) -> Option<i32> {
        self.lines.first_key_value().map(|(priority, _)| *priority)
    }

    /// When the task that has waited longest was due.
    pub fn oldest_due(&self) -> Option<LifeTime> {
        self.fronts.first().map(|(due, ..)| *due)
    }

    /// Adds a task.
    pub(super) fn insert(&mut self, (priority, due, id): Rank) {
        let line = self.lines.entry(priority).or_default();
        let before = line.first().copied();
        line.insert((due, id));
        let after = line.first().copied();
        self.move_front(priority, before, after);
    }

    /// Takes a task out; whether it was there.
    pub(super) fn remove(&mut self, (priority, due, id): Rank) -> bool {
        let Some(line) = self.lines.get_mut(&priority) else { return false };
        let before = line.first().copied();
        if !line.remove(&(due, id)) {
            return false;
        }
        let after = line.first().copied();
        if after.is_none() {
            self.lines.remove(&priority);
        }
        self.move_front(priority, before, after);
        true
    }

    fn move_front(&mut self, priority: i32, before: Option<Age>, after: Option<Age>) {
        if before == after {
            return;
        }
        if let Some((due, id)) = before {
            self.fronts.remove(&(due, id, priority));
        }
        self.fronts.extend(after.map(|(due, id)| (due, id, priority)));
    }
}

/// A queue of which some tasks were picked, each as the first of its line; the queue itself stays
/// as it is.
pub(super) struct Remaining<'a> {
    queue: &'a Queue,
    /// What comes first now in each line from which something was picked.
    moved: BTreeMap<i32, Option<Age>>,
}

impl<'a> Remaining<'a> {
    /// All of a queue.
    pub(super) const fn of(queue: &'a Queue) -> Self {
        Self { queue, moved: BTreeMap::new() }
    }

    fn front(&self, priority: i32, line: &BTreeSet<Age>) -> Option<Rank> {
        let moved = self.moved.get(&priority).copied();
        let front = moved.unwrap_or_else(|| line.first().copied());
        front.map(|(due, id)| (priority, due, id))
    }

    /// What remains of each line up to the priority `limit`, first tasks only.
    fn fronts(&self, limit: i32) -> impl Iterator<Item = Rank> {
        let lines = self.queue.lines.range(..=limit);
        lines.filter_map(|(priority, line)| self.front(*priority, line))
    }

    /// The next in the order of dispatch, of those whose priority is at most `limit`.
    pub(super) fn best(&self, limit: i32) -> Option<Rank> {
        self.fronts(limit).next()
    }

    /// The one that has waited longest, of those whose priority is at most `limit`: a look at the
    /// front of one set, but where there is a limit a step for each priority below it.
    pub(super) fn oldest(&self, limit: i32) -> Option<Rank> {
        if limit < i32::MAX {
            return self.fronts(limit).min_by_key(|rank| age(*rank));
        }
        let untouched = self.queue.fronts.iter().map(|(due, id, priority)| (*priority, *due, *id));
        let untouched = untouched.filter(|(priority, ..)| !self.moved.contains_key(priority));
        let moved = self.moved.iter();
        let moved = moved.filter_map(|(priority, front)| {
            let (due, id) = (*front)?;
            Some((*priority, due, id))
        });
        untouched.take(1).chain(moved).min_by_key(|rank| age(*rank))
    }

    /// Takes the first of a line.
    pub(super) fn pick(&mut self, (priority, due, id): Rank) {
        let line = self.queue.lines.get(&priority);
        let after = (Bound::Excluded((due, id)), Bound::Unbounded);
        let next = line.and_then(|line| line.range(after).next().copied());
        self.moved.insert(priority, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both orders against a list that is sorted anew for each pick.
    #[test]
    fn what_remains_is_a_list_without_what_was_picked() {
        let mut die = 11_u64;
        let mut roll = |sides: u64| {
            die =
                die.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (die >> 33) % sides
        };
        for round in 0..300 {
            let mut list: Vec<Rank> = Vec::new();
            let mut queue = Queue::default();
            for id in 0..roll(40) {
                let rank = (i32::try_from(roll(6)).unwrap(), LifeTime(roll(9)), TaskId(id));
                queue.insert(rank);
                list.push(rank);
            }
            for place in (0..list.len()).rev() {
                if roll(4) == 0 {
                    assert!(queue.remove(list.remove(place)));
                }
            }
            assert_eq!(queue.oldest_due(), list.iter().map(|(_, due, _)| *due).min());
            assert_eq!(queue.best_priority(), list.iter().map(|(priority, ..)| *priority).min());
            let mut remaining = Remaining::of(&queue);
            while !list.is_empty() {
                let limit = if roll(3) == 0 { i32::try_from(roll(6)).unwrap() } else { i32::MAX };
                let may = || list.iter().copied().filter(|(priority, ..)| *priority <= limit);
                let (best, oldest) = (may().min(), may().min_by_key(|rank| age(*rank)));
                assert_eq!((remaining.best(limit), remaining.oldest(limit)), (best, oldest));
                let picked = if roll(2) == 0 { best } else { oldest };
                let picked = picked.unwrap_or_else(|| *list.iter().min().unwrap());
                remaining.pick(picked);
                list.retain(|rank| *rank != picked);
            }
            assert_eq!(remaining.oldest(i32::MAX), None, "round {round}");
        }
    }
}
