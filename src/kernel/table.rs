//! All tasks, dense by id, in small chunks that a snapshot can share.
//!
//! A snapshot clones the list of chunks: one reference count per [`CHUNK`] tasks. The engine
//! copies a chunk only when it changes a task of one that a snapshot still holds.

use super::ids::TaskId;
use super::shared::Shared;
use super::task::{Extra, Task};
use super::text::Texts;
use std::collections::VecDeque;
use std::sync::Arc;

/// Tasks in one chunk: small, so that copying one on write is cheap.
const CHUNK: u64 = 64;

type Chunk = Vec<Option<Task>>;

/// The tasks by id, with what neighbours have in common kept once. A gap of ids costs one pointer
/// per [`CHUNK`] of them, and nothing before the oldest task.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The chunk that stands first; all before it are empty.
    first: usize,
    chunks: VecDeque<Option<Arc<Chunk>>>,
    len: usize,
    /// The types, each under the one text that all its tasks share.
    kinds: Texts,
    /// What the task inserted last had besides: most have the same, who submitted them.
    extra: Option<Shared<Extra>>,
}

/// Where a task is; none for an id beyond what this machine can address.
fn place(id: TaskId) -> Option<(usize, usize)> {
    let chunk = usize::try_from(id.0.checked_div(CHUNK)?).ok()?;
    let slot = usize::try_from(id.0.checked_rem(CHUNK)?).ok()?;
    Some((chunk, slot))
}

impl Table {
    /// How many tasks there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The task with that id.
    pub fn get(&self, id: TaskId) -> Option<&Task> {
        let (chunk, slot) = place(id)?;
        self.chunks.get(chunk.checked_sub(self.first)?)?.as_ref()?.get(slot)?.as_ref()
    }

    /// The task with that id, to be changed; copies its chunk if a snapshot shares it.
    pub fn get_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        let (chunk, slot) = place(id)?;
        let chunk = self.chunks.get_mut(chunk.checked_sub(self.first)?)?.as_mut()?;
        Arc::make_mut(chunk).get_mut(slot)?.as_mut()
    }

    /// Puts a task in its place; whether the place was free.
    pub fn insert(&mut self, mut task: Task) -> bool {
        self.share(&mut task);
        let Some((chunk, slot)) = place(task.id) else { return false };
        let Some(entry) = self.entry(chunk) else { return false };
        let tasks = Arc::make_mut(entry.get_or_insert_default());
        if tasks.len() <= slot {
            tasks.resize(slot.saturating_add(1), None);
        }
        let Some(place) = tasks.get_mut(slot) else { return false };
        if place.is_some() {
            return false;
        }
        *place = Some(task);
        self.len = self.len.saturating_add(1);
        true
    }

    /// The place of a chunk, made if it lies outside what is there.
    fn entry(&mut self, chunk: usize) -> Option<&mut Option<Arc<Chunk>>> {
        if self.chunks.is_empty() {
            self.first = chunk;
        }
        while chunk < self.first {
            self.chunks.push_front(None);
            self.first = self.first.saturating_sub(1);
        }
        let at = chunk.saturating_sub(self.first);
        if self.chunks.len() <= at {
            self.chunks.resize(at.saturating_add(1), None);
        }
        self.chunks.get_mut(at)
    }

    /// Takes a task out. A chunk that is empty then is given up.
    pub fn remove(&mut self, id: TaskId) -> Option<Task> {
        let (chunk, slot) = place(id)?;
        let entry = self.chunks.get_mut(chunk.checked_sub(self.first)?)?;
        let tasks = Arc::make_mut(entry.as_mut()?);
        let task = tasks.get_mut(slot)?.take()?;
        self.len = self.len.saturating_sub(1);
        if tasks.iter().all(Option::is_none) {
            *entry = None;
            while let Some(None) = self.chunks.front() {
                self.chunks.pop_front();
                self.first = self.first.saturating_add(1);
            }
        }
        Some(task)
    }

    fn share(&mut self, task: &mut Task) {
        self.kinds.share(&mut task.kind);
        if task.extra.is_some() && task.extra == self.extra {
            task.extra.clone_from(&self.extra);
        } else {
            self.extra.clone_from(&task.extra);
        }
    }

    /// All tasks, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Task> {
        self.chunks.iter().flatten().flat_map(|chunk| chunk.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(table: &Table) -> Vec<u64> {
        table.iter().map(|task| task.id.0).collect()
    }

    #[test]
    fn what_is_taken_out_leaves_no_room_behind_at_the_front() {
        let mut table = Table::default();
        for id in [70, 64, 200, 3, 100_000] {
            assert!(table.insert(Task::pending(TaskId(id))), "{id}");
            assert!(!table.insert(Task::pending(TaskId(id))), "{id} twice");
        }
        assert_eq!(ids(&table), [3, 64, 70, 200, 100_000]);
        assert!(table.remove(TaskId(5)).is_none());
        for id in [64, 3, 70] {
            assert_eq!(table.remove(TaskId(id)).map(|task| task.id), Some(TaskId(id)));
            assert!(table.remove(TaskId(id)).is_none(), "{id} twice");
        }
        assert_eq!((ids(&table), table.len()), (vec![200, 100_000], 2));
        assert_eq!((table.first, table.chunks.len()), (3, 100_000 / 64 - 3 + 1));
        assert!(table.remove(TaskId(200)).is_some());
        assert_eq!((table.first, table.chunks.len()), (100_000 / 64, 1));
        assert!(table.get(TaskId(200)).is_none() && table.get_mut(TaskId(3)).is_none());
        assert!(table.remove(TaskId(100_000)).is_some());
        assert!(table.is_empty() && table.chunks.is_empty());
        assert!(table.insert(Task::pending(TaskId(1))));
        assert_eq!(ids(&table), [1]);
    }

    #[test]
    fn an_image_keeps_what_is_taken_out_meanwhile() {
        let mut table = Table::default();
        for id in 1..=3 {
            table.insert(Task::pending(TaskId(id)));
        }
        let image = table.clone();
        table.remove(TaskId(2));
        assert_eq!((ids(&table), ids(&image)), (vec![1, 3], vec![1, 2, 3]));
    }
}
