//! Names of files and directories, as seen now and as certain to survive.

use std::collections::BTreeMap;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File(u64),
    Dir,
}

/// A change of one directory that no sync has covered yet.
#[derive(Clone, Debug)]
pub(super) enum DirOp {
    Link { path: String, entry: Entry },
    Unlink { path: String },
    Rename { from: String, to: String, entry: Entry },
}

impl DirOp {
    /// Takes effect whole or not at all.
    fn apply(&self, names: &mut BTreeMap<String, Entry>) {
        match self {
            Self::Link { path, entry } => {
                names.insert(path.clone(), *entry);
            }
            Self::Unlink { path } => {
                names.remove(path);
            }
            Self::Rename { from, to, entry: Entry::Dir } => {
                if names.remove(from).is_none() {
                    return; // the directory itself was lost
                }
                names.insert(to.clone(), Entry::Dir);
                let below = |path: &&String| inside(path, from);
                let moved: Vec<String> = names.keys().filter(below).cloned().collect();
                for path in moved {
                    if let Some(entry) = names.remove(&path) {
                        names.insert(format!("{to}{}", &path[from.len()..]), entry);
                    }
                }
            }
            Self::Rename { from, to, entry } => {
                if names.get(from) == Some(entry) {
                    names.remove(from);
                }
                names.insert(to.clone(), *entry);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) cache: BTreeMap<String, Entry>,
    durable: BTreeMap<String, Entry>,
    pending: Vec<(String, DirOp)>,
}

impl Names {
    pub(super) fn at_rest(names: BTreeMap<String, Entry>) -> Self {
        Self { durable: names.clone(), cache: names, pending: Vec::new() }
    }

    pub(super) fn has_dir(&self, dir: &str) -> bool {
        dir.is_empty() || self.cache.get(dir) == Some(&Entry::Dir)
    }

    /// Whether a directory may take this name: nothing has it, or an empty directory.
    pub(super) fn is_free_or_empty(&self, path: &str) -> bool {
        match self.cache.get(path) {
            None => true,
            Some(Entry::File(_)) => false,
            Some(Entry::Dir) => !self.cache.keys().any(|other| inside(other, path)),
        }
    }

    pub(super) fn change(&mut self, dir: &str, op: DirOp) {
        op.apply(&mut self.cache);
        self.pending.push((dir.to_owned(), op));
    }

    /// Sets a name at once and for good.
    pub(super) fn put(&mut self, path: &str, entry: Option<Entry>) {
        for names in [&mut self.cache, &mut self.durable] {
            match entry {
                Some(entry) => names.insert(path.to_owned(), entry),
                None => names.remove(path),
            };
        }
    }

    pub(super) fn sync(&mut self, dir: &str) {
        let (synced, rest) =
            std::mem::take(&mut self.pending).into_iter().partition(|(of, _)| of == dir);
        self.pending = rest;
        let synced: Vec<(String, DirOp)> = synced;
        for (_, op) in synced {
            op.apply(&mut self.durable);
        }
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = &DirOp> {
        self.pending.iter().map(|(_, op)| op)
    }

    /// The names after a power cut that kept the pending changes for which `keep` says so.
    pub(super) fn after_crash(&self, keep: &[bool]) -> BTreeMap<String, Entry> {
        let mut names = self.durable.clone();
        for ((_, op), keep) in self.pending.iter().zip(keep) {
            if *keep {
                op.apply(&mut names);
            }
        }
        let whole = names.clone();
        names.retain(|path, _| reachable(path, &whole));
        names
    }
}

/// Whether every directory on the way to a path is there.
fn reachable(path: &str, names: &BTreeMap<String, Entry>) -> bool {
    let dir = parent(path);
    dir.is_empty() || names.contains_key(dir) && reachable(dir, names)
}

/// Whether a path lies in a directory, however deep.
pub(super) fn inside(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

/// The directory of a path; `""` is the data directory.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}
