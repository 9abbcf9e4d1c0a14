//! The floor: a sequence known to be durable, kept outside the journal.
//!
//! When the journal ends below it, something durable is gone, and the end is damage instead of a
//! torn tail. Two slots, a page apart, are written in turn, so that one is whole at any time and an
//! update needs no space on the disk: recovery must work on a full one. An older floor is harmless,
//! for it is a lower bound; a lost one only means that less can be noticed.

use super::disk::{Disk, DiskFile, read_full_at, write_all_at};
use super::error::JournalError;
use super::frame::{SECTOR_BYTES, array_at, u32_at, u64_at};
use super::segment::{FORMAT_VERSION, HeaderFault, open_sector, seal_sector};
use super::store;

/// Name of the floor file.
pub const FLOOR_FILE: &str = "floor";

const FLOOR_MAGIC: [u8; 8] = *b"\x89MWF\r\n\x1a\n";
const SLOT_OFFSETS: [u64; 2] = [0, 4096];
const FLAG_CLEAN: u32 = 1;

/// What the newest whole slot of the floor file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// The store it belongs to.
    pub store: [u8; 16],
    /// Grows by one with each update.
    pub generation: u64,
    /// All records up to this sequence are durable; 0 for none.
    pub seq: u64,
    /// The newest segment that has its name durably.
    pub segment: u64,
    /// Set when the journal was closed cleanly: where its last segment ends.
    pub clean_end: Option<u64>,
}

impl Floor {
    fn encode(&self) -> Vec<u8> {
        let mut slot = Vec::with_capacity(SECTOR_BYTES);
        slot.extend_from_slice(&FLOOR_MAGIC);
        slot.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        slot.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        let flags = if self.clean_end.is_some() { FLAG_CLEAN } else { 0 };
        slot.extend_from_slice(&flags.to_le_bytes());
        slot.extend_from_slice(&self.store);
        slot.extend_from_slice(&self.generation.to_le_bytes());
        slot.extend_from_slice(&self.seq.to_le_bytes());
        slot.extend_from_slice(&self.segment.to_le_bytes());
        slot.extend_from_slice(&self.clean_end.unwrap_or_default().to_le_bytes());
        seal_sector(&mut slot);
        slot
    }

    fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let slot = open_sector(bytes, FLOOR_MAGIC)?;
        let number = |at| u64_at(slot, at).unwrap_or_default();
        let clean = u32_at(slot, 12).unwrap_or_default() & FLAG_CLEAN != 0;
        Ok(Self {
            store: array_at(slot, 16).unwrap_or_default(),
            generation: number(32),
            seq: number(40),
            segment: number(48),
            clean_end: clean.then(|| number(56)),
        })
    }

    /// Reads the floor file; `None` when it is absent or no slot of it is whole. A slot of a format
    /// that this reader does not know is refused: what it says must not be passed over.
    pub(super) fn read(disk: &impl Disk) -> Result<Option<Self>, JournalError> {
        let io = |source| JournalError::io("read", FLOOR_FILE, source);
        let file = match disk.open_read(FLOOR_FILE) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        let mut newest: Option<Self> = None;
        for offset in SLOT_OFFSETS {
            let mut bytes = [0; SECTOR_BYTES];
            let count = read_full_at(&file, offset, &mut bytes).map_err(io)?;
            match Self::decode(bytes.get(..count).unwrap_or_default()) {
                Ok(slot) => {
                    newest = newest.into_iter().chain([slot]).max_by_key(|floor| floor.generation);
                }
                Err(HeaderFault::Newer { version, needs }) => {
                    let file = FLOOR_FILE.to_owned();
                    return Err(JournalError::Newer { file, version, needs });
                }
                Err(_not_whole) => {}
            }
        }
        Ok(newest)
    }
}

/// The floor file, open for updates by the one writer.
#[derive(Debug)]
pub(super) struct FloorFile<F> {
    file: F,
    current: Floor,
}

impl<F: DiskFile> FloorFile<F> {
    /// Opens the floor file, or makes one when there is none or it is not whole.
    pub(super) fn open<D: Disk<File = F>>(
        disk: &D,
        found: Option<Floor>,
        store: [u8; 16],
    ) -> Result<Self, JournalError> {
        let io = |doing, source| JournalError::io(doing, FLOOR_FILE, source);
        if let Some(current) = found {
            let file = disk.open_write(FLOOR_FILE).map_err(|source| io("open", source))?;
            return Ok(Self { file, current });
        }
        let current = Floor { store, ..Floor::default() };
        let mut bytes = vec![0; 8192];
        let slot = current.encode();
        if let Some(start) = bytes.get_mut(..slot.len()) {
            start.copy_from_slice(&slot);
        }
        store::write_aside(disk, FLOOR_FILE, &bytes)?;
        disk.sync_dir("").map_err(|source| JournalError::sync(FLOOR_FILE, source))?;
        let file = disk.open_write(FLOOR_FILE).map_err(|source| io("open", source))?;
        Ok(Self { file, current })
    }

    /// Writes the slot that is not the newest, and syncs.
    ///
    /// What it names is durable before this is called. After a failure the writer is done for.
    pub(super) fn update(
        &mut self,
        seq: u64,
        segment: u64,
        clean_end: Option<u64>,
    ) -> Result<(), JournalError> {
        let generation = self.current.generation + 1;
        let next = Floor { generation, seq, segment, clean_end, ..self.current };
        let offset = if generation.is_multiple_of(2) { SLOT_OFFSETS[0] } else { SLOT_OFFSETS[1] };
        let slot = next.encode();
        write_all_at(&mut self.file, offset, &slot)
            .map_err(|source| JournalError::io("write", FLOOR_FILE, source))?;
        self.file.sync().map_err(|source| JournalError::sync(FLOOR_FILE, source))?;
        self.current = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
