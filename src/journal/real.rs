//! The real disk: system calls relative to one open directory.
//!
//! A renamed or moved data directory stays the same directory for a process that has it open;
//! [`Disk::is_still`] is how it learns of that.
//! Files are 0600, directories 0700, and no symbolic link is followed at the last step of a name.

use super::disk::{Disk, DiskFile};
use super::sync_times::SyncTimes;
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

/// A data directory on a real file system.
#[derive(Clone, Debug)]
pub struct RealDisk {
    directory: Arc<File>,
    path: Arc<Path>,
    sync_times: Arc<SyncTimes>,
}

/// An open file of a [`RealDisk`].
#[derive(Debug)]
pub struct RealFile(File, Arc<SyncTimes>);

impl RealDisk {
    /// Opens an existing directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        // Relative to the root: whoever changes the working directory changes nothing here.
        let path = std::path::absolute(path)?;
        Ok(Self { directory: Arc::new(directory), path: path.into(), sync_times: Arc::default() })
    }

    /// How long its syncs take.
    pub fn sync_times(&self) -> Arc<SyncTimes> {
        Arc::clone(&self.sync_times)
    }

    fn open_at(&self, path: &str, flags: OFlags) -> io::Result<RealFile> {
        // A FIFO under one of our names must not hold anybody up, and is no file of ours.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(rustix::fs::openat(&*self.directory, path, flags, mode)?);
        let kind = file.metadata()?.file_type();
        if kind.is_file() || kind.is_dir() {
            return Ok(RealFile(file, self.sync_times()));
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }

    fn open_dir(&self, dir: &str) -> io::Result<RealFile> {
        let name = if dir.is_empty() { "." } else { dir };
        self.open_at(name, OFlags::RDONLY | OFlags::DIRECTORY)
    }
}

/// The monotonic clock; only differences of it mean anything.
fn microseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(now.tv_sec).saturating_mul(1_000_000).saturating_add(part(now.tv_nsec) / 1000)
}

impl Disk for RealDisk {
    type File = RealFile;

    fn create(&self, path: &str) -> io::Result<RealFile> {
        self.open_at(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    fn open_read(&self, path: &str) -> io::Result<RealFile> {
        self.open_at(path, OFlags::RDONLY)
    }

    fn open_write(&self, path: &str) -> io::Result<RealFile> {
        self.open_at(path, OFlags::RDWR)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&*self.directory, from, &*self.directory, to)?)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let directory = &*self.directory;
        match rustix::fs::linkat(directory, from, directory, to, AtFlags::empty()) {
            Ok(()) => Ok(()),
            // What file systems without links, and those that forbid them, say.
            Err(
                rustix::io::Errno::PERM | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS,
            ) => Err(io::ErrorKind::Unsupported.into()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&*self.directory, path, AtFlags::empty())?)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(&*self.directory, path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&*self.directory, path, AtFlags::REMOVEDIR)?)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let directory = self.open_dir(dir)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory.0)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." && entry.file_type() != FileType::Directory {
                names.push(name);
            }
        }
        names.sort();
        // A file that is renamed while somebody lists may be met twice under its new name.
        names.dedup();
        Ok(names)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.open_dir(dir)?.0)?)
    }

    fn is_still(&self, path: &str, file: &RealFile) -> io::Result<bool> {
        let ours = file.0.metadata()?;
        match std::fs::symlink_metadata(self.path.join(path)) {
            Ok(found) => Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn free_space(&self) -> io::Result<u64> {
        let space = rustix::fs::fstatvfs(&*self.directory)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        let began = microseconds();
        rustix::fs::fdatasync(&self.0)?;
        self.1.count(microseconds().saturating_sub(began));
        Ok(())
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            // An interrupted call has changed nothing that the caller relies on.
            Err(rustix::io::Errno::INTR) => self.allocate(bytes),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn forget(&self) -> io::Result<()> {
        match rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed) {
            // Where there is no such advice, memory answers: less is proven, nothing is wrong.
            Ok(()) | Err(rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
