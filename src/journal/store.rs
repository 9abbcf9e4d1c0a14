//! The `store` file: whose data directory this is. Written last when a store is created, so that
//! its presence proves that the store once was complete.

use super::disk::{Disk, DiskFile, read_full_at, write_all_at};
use super::error::JournalError;
use super::frame::{SECTOR_BYTES, array_at};
use super::segment::{FORMAT_VERSION, HeaderFault, open_sector, seal_sector};
use std::io;

/// Name of the store file.
pub const STORE_FILE: &str = "store";
/// Directory of the segments.
pub const JOURNAL_DIR: &str = "journal";
/// Directory of the snapshots.
pub const SNAPSHOT_DIR: &str = "snapshots";
/// Directory of bytes set aside by recovery.
pub const QUARANTINE_DIR: &str = "quarantine";

const STORE_MAGIC: [u8; 8] = *b"\x89MWU\r\n\x1a\n";

/// What became of the store file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreFile {
    /// It names this store.
    Whole([u8; 16]),
    /// There is none.
    Absent,
    /// It is there but not whole.
    Damaged(HeaderFault),
}

/// Reads the store file; a newer format is refused here, before anything else is looked at.
pub(super) fn read(disk: &impl Disk) -> Result<StoreFile, JournalError> {
    let io = |source| JournalError::io("read", STORE_FILE, source);
    let file = match disk.open_read(STORE_FILE) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(StoreFile::Absent),
        Err(error) => return Err(io(error)),
    };
    let mut bytes = [0; SECTOR_BYTES];
    let count = read_full_at(&file, 0, &mut bytes).map_err(io)?;
    match open_sector(bytes.get(..count).unwrap_or_default(), STORE_MAGIC) {
        Ok(sector) => Ok(StoreFile::Whole(array_at(sector, 16).unwrap_or_default())),
        Err(HeaderFault::Newer { version, needs }) => {
            Err(JournalError::Newer { file: STORE_FILE.to_owned(), version, needs })
        }
        Err(fault) => Ok(StoreFile::Damaged(fault)),
    }
}

/// Writes the store file aside, syncs it, and gives it its name.
pub(super) fn write(disk: &impl Disk, store: [u8; 16]) -> Result<(), JournalError> {
    let mut bytes = Vec::with_capacity(SECTOR_BYTES);
    bytes.extend_from_slice(&STORE_MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&store);
    seal_sector(&mut bytes);
    write_aside(disk, STORE_FILE, &bytes)?;
    disk.sync_dir("").map_err(|source| JournalError::sync(STORE_FILE, source))
}

/// Writes `path` with these bytes: aside, synced, renamed. The caller syncs the directory.
pub(super) fn write_aside(disk: &impl Disk, path: &str, bytes: &[u8]) -> Result<(), JournalError> {
    let aside = format!("{path}.tmp");
    remove_if_there(disk, &aside)?;
    let mut file =
        disk.create(&aside).map_err(|source| JournalError::io("create", path, source))?;
    write_all_at(&mut file, 0, bytes).map_err(|source| JournalError::io("write", path, source))?;
    file.sync().map_err(|source| JournalError::sync(path, source))?;
    disk.rename(&aside, path).map_err(|source| JournalError::io("rename", path, source))
}

/// Removes a name; an absent one is as good.
pub(super) fn remove_if_there(disk: &impl Disk, path: &str) -> Result<(), JournalError> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(JournalError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// The names in a directory; an absent directory has none.
pub fn list(disk: &impl Disk, dir: &str) -> Result<Vec<String>, JournalError> {
    match disk.list(dir) {
        Ok(names) => Ok(names),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(JournalError::io("list", dir, error)),
    }
}
