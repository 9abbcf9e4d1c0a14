//! The segment that is being written.
//!
//! It gets its name only when its header, and what recovery copied into it, are durable: a segment
//! with a bad header is damage and never a half-made file.

use super::disk::{Disk, DiskFile, write_all_at};
use super::error::JournalError;
use super::frame::Salt;
use super::segment::{FileKind, HEADER_BYTES, Header, segment_path};
use super::store::{JOURNAL_DIR, remove_if_there};
use crate::defect::Defect;
use std::io;

/// What is preallocated at first; doubled up to the segment's size. A daemon that is restarted over
/// and over then leaves small files.
const ALLOCATE_BYTES_MIN: u64 = 64 << 10;

/// The open segment.
#[derive(Debug)]
pub(super) struct Active<F> {
    file: F,
    pub(super) path: String,
    pub(super) header: Header,
    pub(super) salt: Salt,
    /// Where the next frame goes.
    pub(super) offset: u64,
    /// Blocks are reserved up to here.
    pub(super) allocated: u64,
    /// The file system can preallocate.
    preallocates: bool,
    /// Most that is ever preallocated.
    size: u64,
    /// Header checksum of the last frame.
    pub(super) checksum: u32,
}

/// How far a new segment may reserve blocks ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// Most that is ever preallocated.
    pub(super) segment: u64,
    /// Without it nothing is: on a full disk each start would take a piece of what is left.
    pub(super) has_room: bool,
}

/// Frames that recovery copies into a new segment, in the segment's own salt.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) bytes: Vec<u8>,
    pub(super) checksum: u32,
}

impl<F: DiskFile> Active<F> {
    /// Makes a segment: written aside, synced, named, and the name made durable.
    ///
    /// # After a crash
    /// Before `Ok`: a `.tmp` file, or the whole segment, or nothing.
    pub(super) fn create<D: Disk<File = F>>(
        disk: &D,
        header: Header,
        copies: &Copies,
        size: Ahead,
    ) -> Result<Self, JournalError> {
        let path = segment_path(header.number, header.first_seq);
        let aside = format!("{path}.tmp");
        remove_if_there(disk, &aside)?;
        let file =
            disk.create(&aside).map_err(|source| JournalError::io("create", &aside, source))?;
        let mut active = Self {
            file,
            path: path.clone(),
            header,
            salt: Salt::new(header.salt),
            offset: 0,
            allocated: 0,
            preallocates: true,
            size: size.segment,
            checksum: copies.checksum,
        };
        let mut bytes = header.encode(FileKind::Segment);
        bytes.extend_from_slice(&copies.bytes);
        if size.has_room {
            active.allocate_for(bytes.len() as u64)?;
        }
        active.write(&bytes)?;
        active.sync()?;
        disk.rename(&aside, &path).map_err(|source| JournalError::io("rename", &aside, source))?;
        if !Defect::NoDirSync.is_on() {
            disk.sync_dir(JOURNAL_DIR).map_err(|source| JournalError::sync(JOURNAL_DIR, source))?;
        }
        Ok(active)
    }

    /// What recovery must never do: go on in a segment that another process left dirty.
    pub(super) fn reopen_dirty<D: Disk<File = F>>(
        disk: &D,
        header: Header,
        at: (u64, u32),
        size: u64,
    ) -> Result<Self, JournalError> {
        let path = segment_path(header.number, header.first_seq);
        let file =
            disk.open_write(&path).map_err(|source| JournalError::io("open", &path, source))?;
        let (offset, checksum) = at;
        let salt = Salt::new(header.salt);
        let allocated = offset;
        let preallocates = false;
        Ok(Self { file, path, header, salt, offset, allocated, preallocates, size, checksum })
    }

    /// Reserves blocks for `more` bytes. No space is no error here: the write will tell.
    pub(super) fn allocate_for(&mut self, more: u64) -> Result<(), JournalError> {
        let end = self.offset.saturating_add(more);
        if !self.preallocates || end <= self.allocated {
            return Ok(());
        }
        let doubled = self.allocated.saturating_mul(2).max(ALLOCATE_BYTES_MIN);
        let target = doubled.min(self.size).max(end);
        match self.file.allocate(target) {
            Ok(()) => self.allocated = target,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.preallocates = false,
            Err(error) if super::disk::is_full(&error) => {}
            Err(error) => return Err(JournalError::io("allocate", &self.path, error)),
        }
        Ok(())
    }

    /// Writes at the end, which moves only when all of it went well: a repetition after a failure
    /// writes the same bytes at the same offset.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        write_all_at(&mut self.file, self.offset, bytes)
            .map_err(|source| JournalError::io("write", &self.path, source))?;
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Makes everything written durable. After a failure never call it again.
    pub(super) fn sync(&mut self) -> Result<(), JournalError> {
        let mut result = self.file.sync();
        if Defect::RetryFailedSync.is_on() && result.is_err() {
            result = self.file.sync();
        }
        result.map_err(|source| JournalError::sync(&self.path, source))
    }

    /// Whether its name still leads to this very file.
    pub(super) fn is_still_there<D: Disk<File = F>>(&self, disk: &D) -> Result<bool, JournalError> {
        disk.is_still(&self.path, &self.file)
            .map_err(|source| JournalError::io("look for", &self.path, source))
    }

    /// Whether the segment holds no frame yet.
    pub(super) fn is_empty(&self) -> bool {
        self.offset == HEADER_BYTES
    }

    /// Length of the file as far as this process knows.
    pub(super) fn len(&self) -> u64 {
        self.offset.max(self.allocated)
    }
}
