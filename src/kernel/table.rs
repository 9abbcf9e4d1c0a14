//! All tasks, dense by id, in small chunks that a snapshot can share.
//!
//! A snapshot clones the list of chunks: one reference count per [`CHUNK`] tasks. The engine
//! copies a chunk only when it changes a task of one that a snapshot still holds.

use super::ids::TaskId;
use super::shared::Shared;
use super::task::{Extra, Task};
use super::text::Text;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tasks in one chunk: small, so that copying one on write is cheap.
const CHUNK: u64 = 64;

type Chunk = Vec<Option<Task>>;

/// The tasks by id, with what neighbours have in common kept once. A gap of ids that were skipped costs one pointer per [`CHUNK`] of them.
#[derive(Clone, Debug, Default)]
pub struct Table {
    chunks: Vec<Option<Arc<Chunk>>>,
    len: usize,
    /// The types, each under the one text that all its tasks share.
    kinds: BTreeSet<Text>,
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
        self.chunks.get(chunk)?.as_ref()?.get(slot)?.as_ref()
    }

    /// The task with that id, to be changed; copies its chunk if a snapshot shares it.
    pub fn get_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        let (chunk, slot) = place(id)?;
        Arc::make_mut(self.chunks.get_mut(chunk)?.as_mut()?).get_mut(slot)?.as_mut()
    }

    /// Puts a task in its place; whether the place was free.
    pub fn insert(&mut self, mut task: Task) -> bool {
        self.share(&mut task);
        let Some((chunk, slot)) = place(task.id) else { return false };
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk.saturating_add(1), None);
        }
        let Some(entry) = self.chunks.get_mut(chunk) else { return false };
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

    fn share(&mut self, task: &mut Task) {
        if let Some(known) = self.kinds.get(&*task.kind) {
            task.kind = known.clone();
        } else {
            self.kinds.insert(task.kind.clone());
        }
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
