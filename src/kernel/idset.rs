//! A set of task ids at a bit each.

use super::ids::TaskId;
use std::collections::BTreeMap;

/// Task ids as bitmaps of 64 neighbours: ids are dense, so a million of them take a fraction of a
/// byte each, where a tree of numbers takes fifteen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdSet {
    /// `id / 64` → the bits of `id % 64`; never zero.
    words: BTreeMap<u64, u64>,
    len: usize,
}

const fn place(id: TaskId) -> (u64, u64) {
    (id.0 >> 6, 1 << (id.0 & 63))
}

impl IdSet {
    /// How many ids there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `id` is one of them.
    pub fn contains(&self, id: TaskId) -> bool {
        let (word, bit) = place(id);
        self.words.get(&word).is_some_and(|bits| bits & bit != 0)
    }

    /// Adds an id.
    pub fn insert(&mut self, id: TaskId) {
        let (word, bit) = place(id);
        let bits = self.words.entry(word).or_default();
        self.len = self.len.saturating_add(usize::from(*bits & bit == 0));
        *bits |= bit;
    }

    /// Takes an id out.
    pub fn remove(&mut self, id: TaskId) {
        let (word, bit) = place(id);
        let Some(bits) = self.words.get_mut(&word) else { return };
        self.len = self.len.saturating_sub(usize::from(*bits & bit != 0));
        *bits &= !bit;
        if *bits == 0 {
            self.words.remove(&word);
        }
    }

    /// All ids, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = TaskId> {
        self.words.iter().flat_map(|(word, bits)| Bits { word: *word, bits: *bits })
    }

    /// The ids below `end`, ascending.
    pub fn below(&self, end: TaskId) -> impl DoubleEndedIterator<Item = TaskId> {
        let (last, bit) = place(end);
        let whole = self.words.range(..last);
        let part =
            self.words.get_key_value(&last).map(|(word, bits)| (word, bits & bit.wrapping_sub(1)));
        let whole = whole.map(|(word, bits)| (word, *bits));
        whole.chain(part).flat_map(|(word, bits)| Bits { word: *word, bits })
    }
}

/// The ids of one word.
struct Bits {
    word: u64,
    bits: u64,
}

impl Bits {
    fn take(&mut self, bit: u32) -> TaskId {
        self.bits &= !(1 << bit);
        TaskId((self.word << 6) | u64::from(bit))
    }
}

impl Iterator for Bits {
    type Item = TaskId;
    fn next(&mut self) -> Option<TaskId> {
        (self.bits != 0).then(|| self.take(self.bits.trailing_zeros()))
    }
}

impl DoubleEndedIterator for Bits {
    fn next_back(&mut self) -> Option<TaskId> {
        (self.bits != 0).then(|| self.take(63 ^ self.bits.leading_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set_of_numbers() {
        let (mut set, mut model) = (IdSet::default(), BTreeSet::new());
        let mut die = 7_u64;
        for _ in 0..20_000 {
            die =
                die.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = TaskId((die >> 40) % 500);
            if die >> 63 == 0 {
                set.insert(id);
                model.insert(id);
            } else {
                set.remove(id);
                model.remove(&id);
            }
            assert_eq!(set.contains(id), model.contains(&id));
            assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            if die.is_multiple_of(64) {
                assert!(set.iter().eq(model.iter().copied()));
                assert!(set.iter().rev().eq(model.iter().rev().copied()));
                assert!(set.below(id).rev().eq(model.range(..id).rev().copied()));
            }
        }
    }

    #[test]
    fn the_largest_id_has_its_place() {
        let mut set = IdSet::default();
        set.insert(TaskId(u64::MAX));
        assert!(set.iter().eq([TaskId(u64::MAX)]));
        assert!(set.below(TaskId(u64::MAX)).next().is_none());
    }
}
