//! The reserve: a file that holds space for the ends of running tasks, and for a start on a disk
//! that is full to the byte. It is given up once when a write finds no room, and made again when
//! room returns.

use super::disk::{Disk, DiskFile, write_all_at};
use super::error::JournalError;
use super::store::remove_if_there;
use std::io;

/// Name of the reserve file.
pub const RESERVE_FILE: &str = "reserve";
/// Left free beside the reserve when it is made again, so that it does not fill the disk itself.
pub(super) const ROOM_SLACK_BYTES: u64 = 256 << 10;

const ASIDE: &str = "reserve.tmp";

/// Whether the reserve is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserve {
    size: u64,
    held: bool,
}

impl Reserve {
    /// Looks for the file; one that is too short counts as absent.
    pub(super) fn find(disk: &impl Disk, size: u64) -> Result<Self, JournalError> {
        let io = |source| JournalError::io("look at", RESERVE_FILE, source);
        let len = match disk.open_read(RESERVE_FILE) {
            Ok(file) => file.len().map_err(io)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(io(error)),
        };
        Ok(Self { size, held: size <= len })
    }

    pub(super) fn is_held(self) -> bool {
        self.held
    }

    /// Gives the space up; `false` when there was none to give.
    pub(super) fn release(&mut self, disk: &impl Disk) -> Result<bool, JournalError> {
        remove_if_there(disk, ASIDE)?;
        if !self.held || self.size == 0 {
            return Ok(false);
        }
        self.held = false;
        remove_if_there(disk, RESERVE_FILE)?;
        disk.sync_dir("").map_err(|source| JournalError::sync(RESERVE_FILE, source))?;
        Ok(true)
    }

    /// Makes the reserve again when there is room for it.
    pub(super) fn ensure(&mut self, disk: &impl Disk) -> Result<(), JournalError> {
        if self.held {
            return Ok(());
        }
        let free = disk
            .free_space()
            .map_err(|source| JournalError::io("ask for the space of", RESERVE_FILE, source))?;
        if free < self.size.saturating_add(ROOM_SLACK_BYTES) {
            return Ok(());
        }
        match self.make(disk) {
            Ok(()) => self.held = true,
            // Somebody else was quicker; the next call tries again.
            Err(error) if error.is_full() => remove_if_there(disk, ASIDE)?,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn make(&self, disk: &impl Disk) -> Result<(), JournalError> {
        let io = |doing, source| JournalError::io(doing, RESERVE_FILE, source);
        remove_if_there(disk, ASIDE)?;
        let mut file = disk.create(ASIDE).map_err(|source| io("create", source))?;
        match file.allocate(self.size) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                fill(&mut file, self.size).map_err(|source| io("write", source))?;
            }
            result => result.map_err(|source| io("allocate", source))?,
        }
        file.sync().map_err(|source| JournalError::sync(RESERVE_FILE, source))?;
        disk.rename(ASIDE, RESERVE_FILE).map_err(|source| io("rename", source))?;
        disk.sync_dir("").map_err(|source| JournalError::sync(RESERVE_FILE, source))
    }

    /// Runs `act`, which is told whether the reserve is there; when it finds no room, gives the
    /// reserve up and runs it once more.
    pub(super) fn help<D: Disk, T>(
        &mut self,
        disk: &D,
        mut act: impl FnMut(&D, bool) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        match act(disk, self.held) {
            Err(error) if error.is_full() && self.release(disk)? => act(disk, self.held),
            result => result,
        }
    }
}

fn fill(file: &mut impl DiskFile, size: u64) -> io::Result<()> {
    let zeros = vec![0; 64 << 10];
    let mut at = 0;
    while at < size {
        let count = usize::try_from(size - at).unwrap_or(usize::MAX).min(zeros.len());
        write_all_at(file, at, zeros.get(..count).unwrap_or_default())?;
        at += count as u64;
    }
    Ok(())
}
