//! The journal through its public surface, on a real disk.

use super::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

mod damage;
mod faulty;
mod golden;
mod life;
mod space;
mod tails;

/// What a replay was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) snapshot: Option<u64>,
    pub(super) image: Vec<(u16, Vec<u8>)>,
    pub(super) records: Vec<(u64, u16, Vec<u8>)>,
    pub(super) refuse: Option<u64>,
}

impl Replay for Seen {
    fn snapshot_begin(&mut self, seq: u64) -> Result<(), String> {
        assert_eq!(self.snapshot.replace(seq), None);
        Ok(())
    }

    fn snapshot_failed(&mut self) {
        (self.snapshot, self.image) = (None, Vec::new());
    }

    fn snapshot_record(&mut self, record: Record<'_>) -> Result<(), String> {
        self.image.push((record.kind, record.body.to_vec()));
        Ok(())
    }

    fn record(&mut self, seq: u64, record: Record<'_>) -> Result<(), String> {
        if self.refuse == Some(seq) {
            return Err("no such kind".to_owned());
        }
        self.records.push((seq, record.kind, record.body.to_vec()));
        Ok(())
    }
}

impl Seen {
    pub(super) fn texts(&self) -> Vec<String> {
        let text = |(_, _, body): &(u64, u16, Vec<u8>)| String::from_utf8(body.clone()).unwrap();
        self.records.iter().map(text).collect()
    }
}

pub(super) fn host() -> Host {
    Host { machine_id: [1; 16], boot_id: [2; 16], random: seed() }
}

pub(super) type Opened = (Journal<RealDisk>, Recovery, Seen);

/// A data directory that is opened, ill-treated, and opened again.
pub(super) struct Bench {
    dir: tempfile::TempDir,
    pub(super) options: Options,
}

/// Seeds that no two starts of a test run share, as with real dice.
fn seed() -> u64 {
    static STARTS: AtomicU64 = AtomicU64::new(1);
    STARTS.fetch_add(1, Ordering::Relaxed)
}

impl Bench {
    pub(super) fn new() -> Self {
        let options = Options { segment_size: 8 << 10, reserve: 16 << 10, ..Options::default() };
        // In memory where there is such a place: these tests sync a lot and cut no power.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.unwrap();
        Self { dir, options }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn disk(&self) -> RealDisk {
        RealDisk::open(self.path()).unwrap()
    }

    pub(super) fn try_open(&self) -> Result<Opened, JournalError> {
        self.try_open_into(Seen::default())
    }

    pub(super) fn try_open_into(&self, mut seen: Seen) -> Result<Opened, JournalError> {
        let (journal, recovery) = Journal::open(self.disk(), self.options, host(), &mut seen)?;
        Ok((journal, recovery, seen))
    }

    pub(super) fn open(&self) -> Opened {
        self.try_open().unwrap()
    }

    pub(super) fn scan(&self) -> Result<Report, JournalError> {
        scan(&self.disk(), &mut ())
    }

    /// The segments, oldest first.
    pub(super) fn segments(&self) -> Vec<PathBuf> {
        self.files("journal")
    }

    pub(super) fn files(&self, dir: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path().join(dir)) else { return Vec::new() };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    /// The name and bytes of every file.
    pub(super) fn image(&self) -> Vec<(PathBuf, Vec<u8>)> {
        ["", "journal", "snapshots", "quarantine"]
            .iter()
            .flat_map(|dir| self.files(dir))
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    }

    /// Puts the files back as they were.
    pub(super) fn restore(&self, image: &[(PathBuf, Vec<u8>)]) {
        for (path, _) in self.image() {
            fs::remove_file(path).unwrap();
        }
        for (path, bytes) in image {
            put(path, bytes);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test plays the part of the disk")]
pub(super) fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

/// Changes a file's bytes.
pub(super) fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    put(path, &bytes);
}

/// Commits one record with this text.
pub(super) fn add<D: Disk>(journal: &mut Journal<D>, text: &str) -> u64 {
    try_add(journal, text).unwrap()
}

pub(super) fn try_add<D: Disk>(journal: &mut Journal<D>, text: &str) -> Result<u64, JournalError> {
    let mut batch = Batch::new();
    batch.push(7, false, text.as_bytes());
    journal.commit(&batch)
}

/// Offsets of the whole frames of a segment file.
pub(super) fn frames_of(bench: &Bench, path: &Path) -> Vec<u64> {
    struct Frames(String, Vec<u64>);
    impl Visitor for Frames {
        fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
            if self.0.ends_with(frame.file) {
                self.1.push(frame.offset);
            }
            Ok(())
        }
    }
    let mut frames = Frames(path.display().to_string(), Vec::new());
    salvage(&bench.disk(), &mut frames).unwrap();
    frames.1
}
