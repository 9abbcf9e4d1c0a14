//! Which files of a directory are complete.
//!
//! One that was renamed into the directory is complete at once, for that is how a file appears
//! whole. Any other is complete when size, time of change and inode were the same for a while:
//! whoever writes it may close it and open it again. Names that begin with a dot or end in `.tmp`
//! or `.part` are not looked at.

use crate::kernel::ids::Millis;
use crate::limits::{INBOX_BATCH_MAX, INBOX_WAITED_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Things that are no files that are told of; what is more is left without a word.
const ODD_MAX: usize = 1000;

/// A file as it was last seen.
struct Seen {
    size: u64,
    changed: (i64, i64),
    /// Since when it has been so, on the monotonic clock.
    since: Millis,
    /// Which look saw it last.
    look: u64,
}

/// What is remembered from one look to the next. Bounded, whatever lies in the inbox.
#[derive(Default)]
pub(super) struct Memory {
    /// Files that are waited for, by inode.
    seen: BTreeMap<u64, Seen>,
    /// What was told of that is no file.
    odd: BTreeSet<PathBuf>,
    /// The odd things of the look that is going on.
    odd_now: BTreeSet<PathBuf>,
    look: u64,
}

/// What one look knows besides.
pub(super) struct Sight<'a> {
    /// Names that were renamed into the directories.
    pub(super) moved: &'a BTreeSet<PathBuf>,
    /// When it is, on the monotonic clock.
    pub(super) now: Millis,
    /// How long a file stays as it is before it is complete.
    pub(super) settle: Millis,
}

/// Whether a file of that name is a file of the inbox.
pub(super) fn counts(name: &OsStr) -> bool {
    let name = name.as_bytes();
    !name.starts_with(b".") && !name.ends_with(b".tmp") && !name.ends_with(b".part")
}

impl Memory {
    /// Begins a look through all directories.
    pub(super) fn begin(&mut self) {
        self.look = self.look.wrapping_add(1);
        self.odd_now.clear();
    }

    /// Ends it: what was not seen is forgotten.
    pub(super) fn end(&mut self) {
        let look = self.look;
        self.seen.retain(|_, seen| seen.look == look);
        self.odd = std::mem::take(&mut self.odd_now);
    }

    /// When the next of the files that are waited for may be complete.
    pub(super) fn next(&self, settle: Millis) -> Option<Millis> {
        self.seen.values().map(|seen| seen.since.plus(settle)).min()
    }

    /// Names of complete files of a directory, a batch at a time. `known` are directories that
    /// belong there. Ends early when `batch` says so.
    pub(super) fn through<E: From<io::Error>>(
        &mut self,
        dir: &Path,
        known: &BTreeSet<OsString>,
        sight: &Sight<'_>,
        mut batch: impl FnMut(Vec<OsString>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut complete = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            if !counts(&name) || known.contains(&name) {
                continue;
            }
            let path = dir.join(&name);
            // Without following links; one that vanishes is none of ours.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if !metadata.is_file() {
                self.note_odd(path);
            } else if sight.moved.contains(&path) || self.is_settled(&metadata, sight) {
                self.seen.remove(&metadata.ino());
                complete.push(name);
            }
            if complete.len() == INBOX_BATCH_MAX {
                batch(std::mem::take(&mut complete))?;
            }
        }
        if complete.is_empty() { Ok(()) } else { batch(complete) }
    }

    fn is_settled(&mut self, metadata: &Metadata, sight: &Sight<'_>) -> bool {
        let (size, changed) = (metadata.size(), (metadata.mtime(), metadata.mtime_nsec()));
        let (inode, now, look) = (metadata.ino(), sight.now, self.look);
        let has_room = self.seen.len() < INBOX_WAITED_MAX;
        match self.seen.get_mut(&inode) {
            Some(seen) if seen.size == size && seen.changed == changed => {
                seen.look = look;
                return seen.since.plus(sight.settle) <= now;
            }
            None if !has_room => return false,
            Some(_) | None => {}
        }
        self.seen.insert(inode, Seen { size, changed, since: now, look });
        false
    }

    /// Tells once of what is no file.
    fn note_odd(&mut self, path: PathBuf) {
        if ODD_MAX <= self.odd_now.len() {
            return;
        }
        if !self.odd.contains(&path) && !self.odd_now.contains(&path) {
            let shown = path.display().to_string();
            tracing::warn!(
                "inbox: left alone, for it is no regular file: {}",
                shown.escape_debug()
            );
        }
        self.odd_now.insert(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        dir: tempfile::TempDir,
        memory: Memory,
        moved: BTreeSet<PathBuf>,
    }

    impl Bench {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { dir, memory: Memory::default(), moved: BTreeSet::new() }
        }

        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        fn put(&self, name: &str, text: &str) {
            fs::write(self.dir.path().join(name), text).unwrap();
        }

        fn look(&mut self, now: u64) -> Vec<String> {
            let mut names = Vec::new();
            let known = BTreeSet::from(["known".into()]);
            let sight = Sight { moved: &self.moved, now: Millis(now), settle: Millis::secs(10) };
            self.memory.begin();
            let batch = |complete: Vec<OsString>| {
                assert!(complete.len() <= 256);
                names.extend(complete.iter().map(|name| name.to_str().unwrap().to_owned()));
                Ok::<_, io::Error>(())
            };
            self.memory.through(self.dir.path(), &known, &sight, batch).unwrap();
            self.memory.end();
            names.sort();
            names
        }
    }

    // spec: TRG-002
    #[test]
    fn a_file_that_grows_is_complete_once_it_has_stayed_as_it_is_for_a_while() {
        let mut bench = Bench::new();
        bench.put("a", "half");
        assert!(bench.look(0).is_empty());
        assert_eq!(bench.memory.next(Millis::secs(10)), Some(Millis(10_000)));
        bench.put("a", "half and more");
        assert!(bench.look(9_000).is_empty());
        assert!(bench.look(18_999).is_empty());
        assert_eq!(bench.look(19_000), ["a"]);
    }

    // spec: TRG-002
    #[test]
    fn another_inode_of_the_same_name_begins_anew_and_what_is_gone_is_forgotten() {
        let mut bench = Bench::new();
        bench.put("a", "text");
        assert!(bench.look(0).is_empty());
        // The first one is kept, or its inode could be given to the second.
        fs::hard_link(bench.dir.path().join("a"), bench.dir.path().join(".kept")).unwrap();
        fs::remove_file(bench.dir.path().join("a")).unwrap();
        bench.put("a", "text");
        assert!(bench.look(10_000).is_empty());
        assert_eq!(bench.memory.seen.len(), 1);
        assert_eq!(bench.look(20_000), ["a"]);
    }

    // spec: TRG-001, TRG-002
    #[test]
    fn what_was_renamed_in_is_complete_at_once_and_hidden_and_partial_names_never() {
        let mut bench = Bench::new();
        for name in [".a", "a.tmp", "a.part", "a", "a.tmp.json"] {
            bench.put(name, "x");
            bench.moved.insert(bench.dir.path().join(name));
        }
        assert_eq!(bench.look(0), ["a", "a.tmp.json"]);
        bench.moved.clear();
        bench.look(1);
        assert_eq!(bench.look(99_999), ["a", "a.tmp.json"]);
    }

    // spec: TRG-006
    #[test]
    fn links_pipes_and_directories_are_left_alone_and_told_of_once() {
        let mut bench = Bench::new();
        let at = |name: &str| bench.dir.path().join(name);
        bench.put("file", "x");
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        fs::create_dir(at("dir")).unwrap();
        fs::create_dir(at("known")).unwrap();
        let pipe = at("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let odd = ["link", "dir", "pipe"].map(at);
        bench.moved.extend(odd.iter().cloned());
        bench.look(0);
        assert_eq!(bench.look(10_000), ["file"]);
        assert_eq!(bench.memory.odd, odd.into_iter().collect());
        fs::remove_file(pipe).unwrap();
        bench.look(10_001);
        assert_eq!(bench.memory.odd.len(), 2);
    }

    // spec: TRG-007
    #[test]
    fn however_many_files_there_are_memory_is_bounded() {
        let mut bench = Bench::new();
        (0..600).for_each(|n| bench.put(&n.to_string(), "x"));
        bench.look(0);
        assert_eq!(bench.memory.seen.len(), 600);
        // As if the room were used up by others.
        let others = INBOX_WAITED_MAX as u64 - 600;
        bench.memory.seen.extend((0..others).map(|n| {
            let seen = Seen { size: 0, changed: (0, 0), since: Millis(0), look: 2 };
            (u64::MAX - n, seen)
        }));
        bench.put("one more", "x");
        bench.look(1);
        assert_eq!(bench.memory.seen.len(), INBOX_WAITED_MAX);
        bench.look(2);
        assert_eq!(bench.memory.seen.len(), 600, "what was not there is forgotten");
        bench.look(3);
        assert_eq!(bench.memory.seen.len(), 601, "and there is room again");
    }
}
