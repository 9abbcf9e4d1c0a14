//! Snapshots from the journal's side, and what may go once one is durable.
//!
//! While work goes on the two newest snapshots are kept, and every segment that the older of them
//! needs; an explicit compaction keeps one, which it has proven. Segments go oldest first, each
//! removal made durable before the next: a crash leaves extra files, never a hole.

use super::disk::Disk;
use super::error::JournalError;
use super::segment::{Header, segment_path, snapshot_path};
use super::snapshot::{SnapshotDone, SnapshotWriter};
use super::store::{JOURNAL_DIR, SNAPSHOT_DIR, remove_if_there};
use super::writer::Journal;
use crate::defect::Defect;
use std::collections::{BTreeMap, BTreeSet};

/// Snapshots kept: the newest, and one in case that it can't be read.
const SNAPSHOTS_KEPT: usize = 2;

/// The files the store holds besides the segment being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Number → first sequence and length; the newest entry is the segment before the active one.
    sealed: BTreeMap<u64, (u64, u64)>,
    /// First sequence of the segment being written.
    active_first_seq: u64,
    snapshots: BTreeSet<u64>,
}

impl Kept {
    pub(super) fn new(sealed: BTreeMap<u64, (u64, u64)>, active_first_seq: u64) -> Self {
        Self { sealed, active_first_seq, snapshots: BTreeSet::new() }
    }

    pub(super) fn add_snapshot(&mut self, seq: u64) {
        self.snapshots.insert(seq);
    }

    /// A new segment is active; the one before it, `len` bytes long, is sealed.
    pub(super) fn add_segment(&mut self, number: u64, first_seq: u64, len: u64) {
        self.sealed.insert(number - 1, (self.active_first_seq, len));
        self.active_first_seq = first_seq;
    }

    pub(super) fn segments(&self) -> u64 {
        self.sealed.len() as u64
    }

    pub(super) fn oldest(&self) -> Option<u64> {
        self.sealed.keys().next().copied()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sealed.values().map(|&(_, len)| len).sum()
    }

    pub(super) fn snapshots(&self) -> u64 {
        self.snapshots.len() as u64
    }

    /// The oldest segment, when the snapshot at `seq` and its successors do without it.
    fn spare_segment(&self, seq: u64) -> Option<(u64, u64)> {
        let mut segments = self.sealed.iter();
        let (&number, &(first_seq, _)) = segments.next()?;
        let successor = segments.next().map_or(self.active_first_seq, |(_, &(first, _))| first);
        (successor <= seq.saturating_add(1)).then_some((number, first_seq))
    }
}

impl<D: Disk> Journal<D> {
    /// Begins a snapshot at the current last sequence, after syncing the journal. The caller pushes
    /// the state of exactly that sequence, on any thread, and brings the result to
    /// [`Journal::snapshot_done`]. One at a time.
    ///
    /// A failure to create the file (no space) leaves the journal working.
    pub fn snapshot_writer(&mut self) -> Result<SnapshotWriter<D>, JournalError> {
        self.sync()?;
        let header = Header {
            alignment: self.options.alignment,
            store: self.store,
            first_seq: self.next_seq - 1,
            salt: self.salts.draw(),
            machine_id: self.host.machine_id,
            boot_id: self.host.boot_id,
            ..Header::default()
        };
        SnapshotWriter::create(self.disk.clone(), header, self.counts.total)
    }

    /// Takes note of a finished snapshot: the floor rises, older snapshots and the segments that no
    /// kept snapshot needs are removed.
    ///
    /// # After a crash
    /// Some of these files may still be there; nothing needed is gone.
    pub fn snapshot_done(&mut self, done: SnapshotDone) -> Result<(), JournalError> {
        self.take_note(done)?;
        self.guard(|journal| {
            journal.remove_snapshots(SNAPSHOTS_KEPT)?;
            journal.remove_segments(SNAPSHOTS_KEPT)
        })
    }

    /// Takes note of a finished snapshot and keeps nothing beside it: the journal goes on in an empty
    /// segment, and every older snapshot and segment is removed.
    ///
    /// The caller has read the snapshot back and compared its state with the one it was made of, for
    /// from now on nothing stands in for it.
    ///
    /// # After a crash
    /// Some of the older files may still be there; nothing needed is gone.
    pub fn snapshot_alone(&mut self, done: SnapshotDone) -> Result<(), JournalError> {
        self.take_note(done)?;
        self.guard(|journal| {
            if !journal.active.is_empty() {
                journal.rotate()?;
            }
            journal.remove_snapshots(1)?;
            journal.remove_segments(1)
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "a snapshot is taken note of once")]
    fn take_note(&mut self, done: SnapshotDone) -> Result<(), JournalError> {
        let SnapshotDone { seq, mark, .. } = done;
        self.guard(|journal| {
            journal.counts.mark = journal.counts.mark.max(mark);
            journal.kept.add_snapshot(seq);
            // Only what is synced may be named; under a weak policy later commits are not.
            journal.sync_if_dirty()?;
            let segment = journal.active.header.number;
            journal.floor.update(journal.next_seq - 1, segment, None)
        })
    }

    fn remove_snapshots(&mut self, kept: usize) -> Result<(), JournalError> {
        while kept < self.kept.snapshots.len() {
            let Some(oldest) = self.kept.snapshots.pop_first() else { break };
            remove_if_there(&self.disk, &snapshot_path(oldest))?;
            self.sync_dir(SNAPSHOT_DIR)?;
        }
        Ok(())
    }

    fn remove_segments(&mut self, kept: usize) -> Result<(), JournalError> {
        if self.kept.snapshots.len() < kept {
            return Ok(()); // the whole journal stands in for the second snapshot
        }
        let Some(&older) = (if Defect::DeleteTooMuch.is_on() {
            self.kept.snapshots.last()
        } else {
            self.kept.snapshots.first()
        }) else {
            return Ok(());
        };
        while let Some((number, first_seq)) = self.kept.spare_segment(older) {
            remove_if_there(&self.disk, &segment_path(number, first_seq))?;
            self.sync_dir(JOURNAL_DIR)?;
            self.kept.sealed.remove(&number);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> Result<(), JournalError> {
        self.disk.sync_dir(dir).map_err(|source| JournalError::sync(dir, source))
    }
}
