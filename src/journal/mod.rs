//! The journal: bytes that last. It knows no task.
//!
//! Records go in as batches, one frame, one write and one sync each, and come back in order at the
//! next start. Segments, snapshots and a floor file are plain files; `spec/journal.md` has their
//! layout byte by byte, `spec/recovery.md` what a start makes of whatever a crash has left.
//!
//! What it refuses: to go on after a failed write or sync, to write to a segment that another
//! process left behind, to take damage for the end of the log, and to guess. What it costs: one
//! sector at least a batch, and two file systems' worth of care at each rotation.
//!
//! Read [`table`] for the decision that matters most, [`frame`] for the bytes, [`Journal`] for the
//! writer and [`scan()`] for the reader that engine, checker and tool share.

pub mod disk;
pub mod error;
pub mod floor;
pub mod frame;
pub mod lock;
pub mod real;
pub mod remains;
pub mod repair;
pub mod scan;
pub mod segment;
pub mod snapshot;
pub mod store;

mod active;
mod compact;
mod follow;
mod plan;
mod recover;
mod reserve;
mod sync_times;
mod table;
mod walk;
mod writer;

pub use disk::{Disk, DiskFile};
pub use error::{Damage, JournalError};
pub use follow::Follow;
pub use frame::{Batch, Record};
pub use lock::DirLock;
pub use real::RealDisk;
pub use recover::{Recovery, SKIP, SnapshotUsed, newest_header, replay};
pub use remains::{Remains, Remnant, Unusable};
pub use reserve::RESERVE_FILE;
pub use scan::{FrameAt, Place, Report, TailClass, Visitor, salvage, scan};
pub use segment::Header;
pub use snapshot::{SnapshotDone, SnapshotFile, SnapshotLength, SnapshotWriter, read_snapshot};
pub use sync_times::{SYNC_BOUNDS, SyncTimes};
pub use writer::{Journal, Room, Stats};

use std::time::Duration;

/// When a commit is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before it returns.
    #[default]
    Always,
    /// At the latest this long after it returned; a power cut may lose as much.
    Interval(Duration),
    /// When the kernel sees fit, at rotation, snapshot and close.
    Never,
}

/// How the journal works; every value is a default of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size at which a segment is succeeded by the next, in bytes; 4 MiB, from 8 KiB to 64 MiB.
    pub segment_size: u64,
    /// When a commit is made durable.
    pub fsync: Fsync,
    /// Refuse to start on a suspicious tail instead of setting it aside.
    pub halt_on_suspicious_tail: bool,
    /// Size of the reserve file in bytes, at least a segment; 0 keeps none.
    pub reserve: u64,
    /// Alignment of frames in new segments: 512, or any power of two up to 4096.
    pub alignment: u32,
    /// Take over a store that another machine wrote last.
    pub adopt: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_size: 4 << 20,
            fsync: Fsync::Always,
            halt_on_suspicious_tail: false,
            reserve: 4 << 20,
            alignment: 512,
            adopt: false,
        }
    }
}

impl Options {
    /// The options with every value within its bounds.
    fn bounded(self) -> Self {
        let sizes = segment::SEGMENT_BYTES_MIN..=segment::SEGMENT_BYTES_MAX;
        assert!(segment::valid_alignment(self.alignment), "the alignment is 512 to 4096");
        Self { segment_size: self.segment_size.clamp(*sizes.start(), *sizes.end()), ..self }
    }
}

/// What the journal can't know by itself: where it runs, and chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Identity of the machine, written into each segment; zeros where it has none.
    pub machine_id: [u8; 16],
    /// Identity of the boot, written into each segment.
    pub boot_id: [u8; 16],
    /// Seeds the store's uuid and the salts; different at every start.
    pub random: u64,
}

/// Takes what a store holds, in order: snapshot records first, then journal records.
///
/// An `Err` stops the start with a message that names file, offset, sequence and the text; nothing
/// has been written by then.
pub trait Replay {
    /// A snapshot at this sequence follows. Not called when there is none.
    fn snapshot_begin(&mut self, seq: u64) -> Result<(), String>;

    /// The snapshot turned out not to be whole: what it gave is to be forgotten. An older one, or
    /// the whole journal, follows.
    fn snapshot_failed(&mut self);

    /// A record of the snapshot.
    fn snapshot_record(&mut self, record: Record<'_>) -> Result<(), String>;

    /// A record of the journal behind the snapshot.
    fn record(&mut self, seq: u64, record: Record<'_>) -> Result<(), String>;

    /// So many bytes of so many have been read; called once a frame.
    fn progress(&mut self, done: u64, total: u64) {
        let _ = (done, total);
    }

    /// Everything was given. The last chance to refuse: after it the start writes.
    fn replayed(&mut self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
