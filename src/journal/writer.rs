//! The writer: one frame, one write, one sync.

use super::active::{Active, Ahead, Copies};
use super::compact::Kept;
use super::disk::Disk;
use super::error::JournalError;
use super::floor::FloorFile;
use super::frame::{self, Batch, Slot};
use super::reserve::{ROOM_SLACK_BYTES, Reserve};
use super::segment::{FLAG_SKIPPED_AHEAD, FLAG_WEAK, HEADER_BYTES, Header, Link};
use super::{Fsync, Host, Options, recover};
use crate::defect::Defect;
use std::time::Duration;

/// The journal of one data directory, open for writing by the holder of the directory's lock.
#[derive(Debug)]
pub struct Journal<D: Disk> {
    pub(super) disk: D,
    pub(super) options: Options,
    pub(super) host: Host,
    pub(super) store: [u8; 16],
    pub(super) salts: Salts,
    pub(super) active: Active<D::File>,
    pub(super) floor: FloorFile<D::File>,
    pub(super) reserve: Reserve,
    pub(super) kept: Kept,
    pub(super) next_seq: u64,
    /// Something was written and not yet synced.
    pub(super) dirty: bool,
    /// When `sync_if_due` first saw it dirty.
    pub(super) dirty_since: Option<Duration>,
    pub(super) poisoned: bool,
    pub(super) counts: Counts,
    pub(super) buffer: Vec<u8>,
}

/// Whether there is room for new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Yes.
    Plenty,
    /// Only what is kept for the ends of running tasks: refuse new work.
    ReserveOnly,
}

/// What this writer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) syncs: u64,
    pub(super) frames: u64,
    pub(super) records: u64,
    pub(super) record_bytes: u64,
    pub(super) written_bytes: u64,
    /// Record bytes behind the newest snapshot that the journal held when it was opened, and all
    /// committed since.
    pub(super) total: u64,
    /// The value of `total` at the newest snapshot.
    pub(super) mark: u64,
}

/// Figures for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments on disk.
    pub segments: u64,
    /// Number of the oldest of them.
    pub oldest_segment: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Snapshots on disk.
    pub snapshots: u64,
    /// Syncs of commits since the journal was opened.
    pub syncs: u64,
    /// Frames written since the journal was opened.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of the records with their headers.
    pub record_bytes: u64,
    /// Bytes written for them, padding included.
    pub written_bytes: u64,
    /// Whether the reserve file is there.
    pub reserve_held: bool,
}

impl<D: Disk> Journal<D> {
    /// Opens or creates the store in a directory whose lock the caller holds.
    ///
    /// Reads everything and gives it to `replay` before a byte is written; then begins a new
    /// segment, copies into it what is not proven durable, syncs, and only then returns. Never
    /// writes to an existing segment.
    ///
    /// # After a crash
    /// The next call finds the same records.
    pub fn open(
        disk: D,
        options: Options,
        host: Host,
        replay: &mut impl super::Replay,
    ) -> Result<(Self, recover::Recovery), JournalError> {
        recover::open(disk, options.bounded(), host, replay)
    }

    /// The sequence the next record will get; the first of a store gets 1.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The identity of the store.
    pub fn store_uuid(&self) -> [u8; 16] {
        self.store
    }

    /// Makes a batch durable as one frame and returns the sequence of its first record.
    ///
    /// Blocks for one write and, under [`Fsync::Always`], one sync. A write that finds no room is
    /// repeated once, the same bytes at the same offset, after the reserve is given up. After any
    /// other failure this writer refuses everything. An empty batch writes nothing.
    ///
    /// # After a crash
    /// Before `Ok`: the frame is there whole, or recovery disregards it. After `Ok`: it is there.
    pub fn commit(&mut self, batch: &Batch) -> Result<u64, JournalError> {
        self.guard(|journal| journal.commit_frame(batch))
    }

    fn commit_frame(&mut self, batch: &Batch) -> Result<u64, JournalError> {
        let first_seq = self.next_seq;
        if batch.is_empty() {
            return Ok(first_seq);
        }
        let length = frame::padded(batch.bytes(), self.active.header.alignment) as u64;
        let end = self.active.offset.saturating_add(length);
        if self.options.segment_size < end && !self.active.is_empty() {
            self.rotate()?;
        }
        if self.reserve.is_held() {
            self.active.allocate_for(length)?;
        }
        let slot = Slot {
            salt: self.active.salt,
            offset: self.active.offset,
            first_seq,
            flags: self.frame_flags(),
            alignment: self.active.header.alignment,
        };
        self.buffer.clear();
        let checksum = frame::encode(batch, slot, &mut self.buffer);
        let (active, buffer) = (&mut self.active, &self.buffer);
        self.reserve.help(&self.disk, |_, _| active.write(buffer))?;
        self.active.checksum = checksum;
        self.dirty = true;
        self.next_seq = first_seq + u64::from(batch.len());
        self.count(batch);
        if self.options.fsync == Fsync::Always {
            self.sync_active()?;
        }
        Ok(first_seq)
    }

    fn frame_flags(&self) -> u16 {
        let header = &self.active.header;
        let first = self.active.offset == header.copied_end;
        let skipped = first && header.has(FLAG_SKIPPED_AHEAD);
        let synced = if self.dirty { 0 } else { frame::FLAG_SYNCED };
        if skipped { synced | frame::FLAG_SKIPPED } else { synced }
    }

    fn count(&mut self, batch: &Batch) {
        let bytes = batch.bytes() as u64;
        self.counts.frames += 1;
        self.counts.records += u64::from(batch.len());
        self.counts.record_bytes += bytes;
        self.counts.total += bytes;
        self.counts.written_bytes += self.buffer.len() as u64;
    }

    /// Seals the segment and begins the next. What the new header names was synced before.
    pub(super) fn rotate(&mut self) -> Result<(), JournalError> {
        self.sync_if_dirty()?;
        let none_since = self.active.offset == self.active.header.copied_end;
        let untold = if none_since { self.active.header.flags & FLAG_SKIPPED_AHEAD } else { 0 };
        let number = self.active.header.number + 1;
        let header = Header {
            alignment: self.options.alignment,
            store: self.store,
            number,
            first_seq: self.next_seq,
            salt: self.salts.draw(),
            machine_id: self.host.machine_id,
            boot_id: self.host.boot_id,
            previous: Link {
                number: self.active.header.number,
                end: self.active.offset,
                next_seq: self.next_seq,
                checksum: self.active.checksum,
            },
            flags: weak_flag(self.options) | untold,
            copied_end: HEADER_BYTES,
            resume_seq: self.next_seq,
        };
        let segment = self.options.segment_size;
        let copies = Copies::default();
        let make =
            |disk: &D, has_room| Active::create(disk, header, &copies, Ahead { segment, has_room });
        let next = self.reserve.help(&self.disk, make)?;
        self.kept.add_segment(number, self.next_seq, self.active.len());
        self.active = next;
        self.floor.update(self.next_seq - 1, number, None)
    }

    /// Syncs what a weaker policy has not synced yet.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.guard(Self::sync_if_dirty)
    }

    /// Under [`Fsync::Interval`]: syncs when the oldest unsynced frame has waited that long, and
    /// says how long it may still wait. `now` is any clock that does not go backwards. Call it by a
    /// timer, not only when something is committed.
    pub fn sync_if_due(&mut self, now: Duration) -> Result<Option<Duration>, JournalError> {
        let Fsync::Interval(interval) = self.options.fsync else { return Ok(None) };
        if !self.dirty {
            return Ok(None);
        }
        let since = *self.dirty_since.get_or_insert(now);
        let left = interval.saturating_sub(now.saturating_sub(since));
        if left.is_zero() {
            self.sync()?;
            return Ok(None);
        }
        Ok(Some(left))
    }

    /// Whether something is committed but not yet synced.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub(super) fn sync_if_dirty(&mut self) -> Result<(), JournalError> {
        if self.dirty { self.sync_active() } else { Ok(()) }
    }

    fn sync_active(&mut self) -> Result<(), JournalError> {
        if !Defect::AckBeforeSync.is_on() {
            self.active.sync()?;
        }
        self.counts.syncs += 1;
        self.dirty = false;
        self.dirty_since = None;
        Ok(())
    }

    /// Whether new work with `bytes` of records may be taken: asked before deciding.
    ///
    /// Cheap while the blocks reserved for the current segment suffice; else asks the file system,
    /// and makes the reserve again when room has returned.
    pub fn has_room_for(&mut self, bytes: u64) -> Result<Room, JournalError> {
        let body = usize::try_from(bytes).unwrap_or(usize::MAX);
        let length = frame::padded(body, self.active.header.alignment) as u64;
        let fits = self.active.offset.saturating_add(length) <= self.active.allocated;
        if fits && self.reserve.is_held() {
            return Ok(Room::Plenty);
        }
        self.guard(|journal| {
            journal.reserve.ensure(&journal.disk)?;
            let free = journal.disk.free_space();
            let free =
                free.map_err(|source| JournalError::io("ask for the space of", "", source))?;
            let wanted = length.saturating_add(HEADER_BYTES).saturating_add(ROOM_SLACK_BYTES);
            let enough = (fits || wanted <= free) && journal.reserve.is_held();
            Ok(if enough { Room::Plenty } else { Room::ReserveOnly })
        })
    }

    /// Fails when the current segment no longer has its name: somebody removed, moved or covered
    /// the data directory under this process, and further commits would go nowhere.
    pub fn check_still_there(&mut self) -> Result<(), JournalError> {
        self.guard(|journal| {
            if journal.active.is_still_there(&journal.disk)? {
                return Ok(());
            }
            Err(JournalError::Vanished { file: journal.active.path.clone() })
        })
    }

    /// Record bytes committed since the newest snapshot began.
    pub fn bytes_since_snapshot(&self) -> u64 {
        self.counts.total - self.counts.mark
    }

    /// Figures for metrics.
    pub fn stats(&self) -> Stats {
        let Counts { syncs, frames, records, record_bytes, written_bytes, .. } = self.counts;
        Stats {
            segments: self.kept.segments() + 1,
            oldest_segment: self.kept.oldest().unwrap_or(self.active.header.number),
            bytes: self.kept.bytes() + self.active.len(),
            snapshots: self.kept.snapshots(),
            syncs,
            frames,
            records,
            record_bytes,
            written_bytes,
            reserve_held: self.reserve.is_held(),
        }
    }

    /// Closes cleanly: synced, and marked so that the next start knows the end. A journal that is
    /// only dropped is as safe, but the next start must prove the end by itself.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.guard(|journal| {
            journal.sync_if_dirty()?;
            let end = Some(journal.active.offset);
            journal.floor.update(journal.next_seq - 1, journal.active.header.number, end)
        })
    }

    /// Runs `act` unless an earlier failure ended this writer; a failure ends it.
    pub(super) fn guard<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        let result = act(self);
        self.poisoned = result.is_err();
        result
    }
}

pub(super) fn weak_flag(options: Options) -> u32 {
    if options.fsync == Fsync::Always { 0 } else { FLAG_WEAK }
}

/// Salts, and the uuid of a new store: a sequence that only its seed can tell (splitmix64).
#[derive(Clone, Copy, Debug)]
pub(super) struct Salts(u64);

impl Salts {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn uuid(&mut self) -> [u8; 16] {
        let mut uuid = [0; 16];
        let (high, low) = uuid.split_at_mut(8);
        high.copy_from_slice(&self.draw().to_le_bytes());
        low.copy_from_slice(&self.draw().to_le_bytes());
        uuid
    }
}
