//! Hears of files as they come, so that nobody has to look for them all the time.
//!
//! What is heard only says when to look: a lost event costs time, never a file.

use super::look::counts;
use crate::clock;
use crate::kernel::ids::Millis;
use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Renamed files that are remembered; what is more is complete when it has settled.
const MOVED_MAX: usize = 1 << 14;

/// Wakes the inbox's thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    news: Mutex<News>,
    rung: Condvar,
}

/// What happened since the last look.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Names that were renamed into a directory.
    pub(super) moved: BTreeSet<PathBuf>,
    /// What else happened.
    wake: Wake,
    /// The daemon is going away.
    pub(super) closed: bool,
}

/// How soon what happened needs a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// Nothing did.
    #[default]
    Not,
    /// Something happened to a file that is not complete yet.
    Soon,
    /// The config may have changed.
    Now,
}

/// When to look next, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Although nothing is heard; never without an inbox.
    pub(super) anyway: Option<Millis>,
    /// After something was heard.
    pub(super) heard: Millis,
    /// After a file was renamed in.
    pub(super) moved: Millis,
}

impl Bell {
    fn change(&self, change: impl FnOnce(&mut News)) {
        change(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner));
        self.rung.notify_one();
    }

    /// The config may have changed.
    pub(crate) fn config_changed(&self) {
        self.change(|news| news.wake = Wake::Now);
    }

    /// The daemon is going away.
    pub(crate) fn close(&self) {
        self.change(|news| news.closed = true);
    }

    /// Whether it is.
    pub(super) fn is_closed(&self) -> bool {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Waits until it is time to look, and takes what was heard.
    pub(super) fn wait(&self, plan: Plan) -> News {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let heard = (news.wake != Wake::Not).then_some(plan.heard);
            let moved = (!news.moved.is_empty()).then_some(plan.moved);
            let at = [plan.anyway, heard, moved].into_iter().flatten().min();
            let left = at.map(|at| at.0.saturating_sub(clock::monotonic().0));
            if news.closed || news.wake == Wake::Now || left == Some(0) {
                let closed = news.closed;
                return std::mem::replace(&mut *news, News { closed, ..News::default() });
            }
            news = match left {
                Some(left) => {
                    let left = Duration::from_millis(left);
                    let woken = self.rung.wait_timeout(news, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.rung.wait(news).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn hear(&self, event: notify::Result<Event>) {
        let soon = |news: &mut News| news.wake = news.wake.max(Wake::Soon);
        let Ok(event) = event else { return self.change(soon) };
        // The kernel could not keep up: what was renamed is not known any more.
        if event.need_rescan() {
            return self.change(soon);
        }
        let matters = |path: &PathBuf| path.file_name().is_some_and(counts);
        match event.kind {
            EventKind::Modify(ModifyKind::Name(RenameMode::To)) => {
                let paths = event.paths.into_iter().filter(matters);
                self.change(|news| {
                    soon(news);
                    let room = MOVED_MAX.saturating_sub(news.moved.len());
                    news.moved.extend(paths.take(room));
                });
            }
            // Reading, and what leaves a directory, is nothing new; we do both ourselves.
            EventKind::Access(_)
            | EventKind::Remove(_)
            | EventKind::Modify(ModifyKind::Name(RenameMode::From | RenameMode::Both)) => {}
            _ if event.paths.iter().any(matters) => self.change(soon),
            _ => {}
        }
    }
}

/// Watches directories. It has a thread of its own, `notify-rs inotify loop`.
pub(super) struct Ears {
    watcher: Option<RecommendedWatcher>,
    /// The directories that are watched, each with device and inode.
    watched: BTreeMap<PathBuf, (u64, u64)>,
}

impl Ears {
    /// Rings that bell. Without the kernel's help it hears nothing, and looking has to do.
    pub(super) fn new(bell: &Arc<Bell>) -> Self {
        let bell = Arc::clone(bell);
        let watcher = notify::recommended_watcher(move |event| bell.hear(event));
        if let Err(error) = &watcher {
            tracing::warn!("inbox: it is not watched, only looked through now and then: {error}");
        }
        Self { watcher: watcher.ok(), watched: BTreeMap::new() }
    }

    /// Watches these directories and no others; one that was replaced is watched anew.
    pub(super) fn follow<'a>(&mut self, dirs: impl Iterator<Item = &'a Path>) {
        let Some(watcher) = &mut self.watcher else { return };
        let identity = |dir: &Path| fs::metadata(dir).ok().map(|it| (it.dev(), it.ino()));
        let wanted: BTreeMap<_, _> =
            dirs.filter_map(|dir| Some((dir.to_owned(), identity(dir)?))).collect();
        for dir in self.watched.keys().filter(|dir| !wanted.contains_key(*dir)) {
            // One that is gone needs no farewell.
            drop(watcher.unwatch(dir));
        }
        let mut watched = BTreeMap::new();
        for (dir, identity) in wanted {
            if self.watched.get(&dir) != Some(&identity)
                && let Err(error) = watcher.watch(&dir, RecursiveMode::NonRecursive)
            {
                let dir = dir.display();
                tracing::debug!("inbox: {dir} is only looked through now and then: {error}");
                continue;
            }
            watched.insert(dir, identity);
        }
        self.watched = watched;
    }
}
