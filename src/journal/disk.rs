//! The one door to the disk: every byte the journal reads or writes passes through [`Disk`].
//!
//! There are two implementations, the real one and the simulated one. Paths are relative to the
//! data directory and use `/`; nobody on this floor builds an absolute path.

use crate::defect::Defect;
use std::io;

/// A data directory. Clones name the same directory, so that a snapshot can be written by a
/// thread of its own.
pub trait Disk: Clone {
    /// An open file of this directory.
    type File: DiskFile;

    /// Creates a file that did not exist, mode 0600, open for reading and writing.
    ///
    /// Fails with `AlreadyExists` when the name is taken. The new name is durable only after
    /// [`Disk::sync_dir`] of its directory.
    fn create(&self, path: &str) -> io::Result<Self::File>;

    /// Opens an existing file for reading only.
    fn open_read(&self, path: &str) -> io::Result<Self::File>;

    /// Opens an existing file for reading and writing.
    fn open_write(&self, path: &str) -> io::Result<Self::File>;

    /// Gives `from` the name `to`, replacing what was there. Durable after [`Disk::sync_dir`].
    ///
    /// A directory is renamed with all that is in it, onto a name that nothing or an empty
    /// directory has. Between two directories the new name may be lost in a power cut and the old
    /// one gone all the same: what must not be lost goes by [`Disk::link`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives the file `from` the second name `to`, which must be free (`AlreadyExists`).
    /// `Unsupported` where a file has one name only. Durable after [`Disk::sync_dir`].
    fn link(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name. Durable after [`Disk::sync_dir`].
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Creates a directory, mode 0700; an existing one is left as it is.
    fn create_dir(&self, path: &str) -> io::Result<()>;

    /// Removes an empty directory. Durable after [`Disk::sync_dir`].
    fn remove_dir(&self, path: &str) -> io::Result<()>;

    /// The names in a directory, sorted, each once; an absent directory is `NotFound`.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;

    /// Makes the names created, renamed and removed in `dir` durable. `""` is the data directory.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;

    /// Whether `path`, looked up anew from where the data directory was opened, is still `file`.
    /// False when somebody removed, moved or covered the directory or the file.
    fn is_still(&self, path: &str, file: &Self::File) -> io::Result<bool>;

    /// Bytes that may still be written to the file system that holds the directory.
    fn free_space(&self) -> io::Result<u64>;
}

/// An open file.
#[expect(clippy::len_without_is_empty, reason = "a file is not a collection")]
pub trait DiskFile {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Reads at `offset`; may read less than asked (0 is the end of the file) and may be
    /// interrupted: use [`read_full_at`].
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes at `offset`; may write less than asked and may be interrupted: use
    /// [`write_all_at`].
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Makes all bytes and the length durable (`fdatasync`). Never call it again after a failure:
    /// the kernel may have dropped the pages it could not write.
    fn sync(&mut self) -> io::Result<()>;

    /// Reserves blocks for the first `bytes` bytes and grows the file to that length; what was
    /// not written reads as zero. `Unsupported` where the file system cannot.
    fn allocate(&mut self, bytes: u64) -> io::Result<()>;

    /// Asks the kernel to let go of what it holds of the file in memory, so that the device answers
    /// the next reads. What is not synced yet stays, and so does what others have mapped.
    fn forget(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads until `buffer` is full or the file ends; returns how much was read.
///
/// Interrupted and short reads are continued. Any other error is an error, never the end.
pub fn read_full_at(file: &impl DiskFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset + done as u64, rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `bytes` at `offset`.
///
/// Interrupted and short writes are continued, counted in bytes; a write of nothing is
/// `WriteZero`. After a failure any part of the bytes may be in the file.
pub fn write_all_at(file: &mut impl DiskFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match file.write_at(offset + done as u64, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) if Defect::ShortWriteIsDone.is_on() => return Ok(()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether an error means that the device, or the owner's share of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
