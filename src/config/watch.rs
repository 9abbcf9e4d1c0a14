//! Tells that the config file may have changed.
//!
//! What is watched are directories, never the file: a file that is written beside and renamed into
//! place is another file, and so is the target of a link that was turned (as a mounted ConfigMap
//! does it). Every directory through which the path leads by a link is watched too.

use super::reload::Source;
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long nothing happens before a change counts as made: a file that is written in place, bit by
/// bit, may be good TOML long before it is whole.
const SETTLE: Duration = Duration::from_secs(1);

/// Steps of one change that are waited for; a directory in which something happens all the time
/// must not keep the config from being read.
const STEPS_MAX: u32 = 8;

/// Links that a path is followed through; more are a circle.
const LINKS_MAX: u32 = 40;

/// Watches the files of a source. It has a thread of its own, `notify-rs inotify loop`, which
/// sleeps in the kernel until something happens.
#[derive(Debug)]
pub struct Watch {
    watcher: RecommendedWatcher,
    /// The directories that are watched.
    watched: BTreeSet<PathBuf>,
    /// The names in them that matter.
    places: Arc<Mutex<BTreeSet<PathBuf>>>,
    bell: Bell,
}

/// Rings when the config may have changed.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<Notify>);

impl Bell {
    /// Returns once something changed and then nothing for a moment: editors and tools change a
    /// file in several steps. Often for nothing.
    pub async fn rung(&self) {
        self.0.notified().await;
        for _ in 0..STEPS_MAX {
            if timeout(SETTLE, self.0.notified()).await.is_err() {
                return;
            }
        }
    }
}

impl Watch {
    /// Rings its bell whenever a file of the source may read differently.
    ///
    /// Fails where the kernel gives no more watches; a signal serves as well then.
    pub fn begin(source: &Source) -> Result<Self, notify::Error> {
        let (bell, places) = (Bell::default(), Arc::<Mutex<BTreeSet<PathBuf>>>::default());
        let (rings, matter) = (bell.clone(), Arc::clone(&places));
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let matter = matter.lock().unwrap_or_else(PoisonError::into_inner);
            let is_idle = |event: &Event| {
                !may_change(event.kind) || !event.paths.iter().any(|path| matter.contains(path))
            };
            // An error is about events that were lost.
            if !event.as_ref().is_ok_and(is_idle) {
                rings.0.notify_one();
            }
        })?;
        let mut watch = Self { watcher, watched: BTreeSet::new(), places, bell };
        if watch.follow(source) {
            Ok(watch)
        } else {
            Err(notify::Error::generic("the kernel gives no more watches"))
        }
    }

    /// Its bell.
    pub fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Looks anew where the paths lead; says whether all of it is watched. To be called after each
    /// change, before the files are read.
    pub fn follow(&mut self, source: &Source) -> bool {
        let places: BTreeSet<_> = source.files().iter().flat_map(|file| places(file)).collect();
        let dirs = places.iter().filter_map(|place| place.parent()).filter(|dir| dir.is_dir());
        let dirs: BTreeSet<_> = dirs.map(Path::to_owned).collect();
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = places;
        for dir in self.watched.difference(&dirs) {
            // One that is gone needs no farewell.
            drop(self.watcher.unwatch(dir));
        }
        let wanted = dirs.len();
        // Those that were watched too: a name may stand for another directory by now.
        let watch = |dir: &PathBuf| self.watcher.watch(dir, RecursiveMode::NonRecursive).is_ok();
        self.watched = dirs.into_iter().filter(watch).collect();
        self.watched.len() == wanted
    }
}

/// Reading changes nothing, and we read ourselves.
const fn may_change(kind: EventKind) -> bool {
    let is_read = matches!(kind, EventKind::Access(_));
    let is_written = matches!(kind, EventKind::Access(AccessKind::Close(AccessMode::Write)));
    !is_read || is_written
}

/// The names by whose change the path gets another content: the file's own in the end, and each
/// link on the way.
fn places(file: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let Ok(file) = std::path::absolute(file) else { return found };
    let mut ahead: VecDeque<OsString> = parts(&file).collect();
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        match fs::read_link(&next) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                found.insert(next);
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                    ahead.push_front(part);
                }
            }
            _ if ahead.is_empty() => {
                found.insert(next);
            }
            _ => at = next,
        }
    }
    found
}

/// The names in a path, `..` among them.
fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_a_place_and_so_is_the_file_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in ["mount/..1", "etc"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::File::create(at("mount/..1/m.toml")).unwrap();
        symlink("..1", at("mount/..data")).unwrap();
        symlink("..data/m.toml", at("mount/m.toml")).unwrap();
        symlink("../mount/m.toml", at("etc/m.toml")).unwrap();
        symlink(at("etc"), at("link")).unwrap();
        symlink("circle", at("circle")).unwrap();
        let set = |names: &[&str]| names.iter().map(|name| at(name)).collect::<BTreeSet<_>>();
        let check = |name: &str, expected: &[&str]| assert_eq!(places(&at(name)), set(expected));
        check("mount/..1/m.toml", &["mount/..1/m.toml"]);
        check("mount/m.toml", &["mount/m.toml", "mount/..data", "mount/..1/m.toml"]);
        let through = ["etc/m.toml", "mount/m.toml", "mount/..data", "mount/..1/m.toml"];
        check("etc/m.toml", &through);
        check("link/m.toml", &[&through[..], &["link"]].concat());
        check("circle", &["circle"]);
        check("etc/none.toml", &["etc/none.toml"]);
        check("none/none.toml", &["none/none.toml"]);
    }
}
