//! One engine a data directory: a kernel lock on `midwatch.lock` and one on the directory itself,
//! both held for life.
//!
//! Ownership is the lock. The pid inside is only for the message to whoever comes second; the file
//! is never removed by us. Somebody else may remove it under a running engine: then the lock on the
//! directory still keeps out whoever comes second and makes the file anew.

use super::error::JournalError;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// `O_NOFOLLOW`, as the standard library takes it.
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// Name of the lock file in the data directory.
pub const LOCK_FILE: &str = "midwatch.lock";

/// The right to write in a data directory; given up when it is dropped or the process ends.
#[derive(Debug)]
pub struct DirLock {
    _file: Option<File>,
    _dir: Option<File>,
}

impl DirLock {
    /// Takes the lock, or says who has it.
    pub fn acquire(dir: &Path) -> Result<Self, JournalError> {
        let io = |doing, source| JournalError::io(doing, LOCK_FILE, source);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // Whoever can put a link there must not have its target overwritten with a pid.
            .custom_flags(NOFOLLOW)
            .open(dir.join(LOCK_FILE))
            .map_err(|source| io("open", source))?;
        take(&mut file)?;
        let dir = take_dir(dir, Some(&mut file))?;
        // On a full disk the pid may not fit; the lock holds all the same.
        if let Err(source) = write_pid(&mut file)
            && !super::disk::is_full(&source)
        {
            return Err(io("write", source));
        }
        Ok(Self { _file: Some(file), _dir: dir })
    }

    /// Takes the lock without a byte written, for who only reads and must not be disturbed; where
    /// nobody ever took it there is nothing to take.
    pub fn probe(dir: &Path) -> Result<Self, JournalError> {
        let io = |source| JournalError::io("open", LOCK_FILE, source);
        let open = OpenOptions::new().read(true).custom_flags(NOFOLLOW).open(dir.join(LOCK_FILE));
        match open {
            Ok(mut file) => {
                take(&mut file)?;
                let dir = take_dir(dir, Some(&mut file))?;
                Ok(Self { _file: Some(file), _dir: dir })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self { _file: None, _dir: take_dir(dir, None)? })
            }
            Err(source) => Err(io(source)),
        }
    }
}

fn take(file: &mut File) -> Result<(), JournalError> {
    let Err(source) = fs2::FileExt::try_lock_exclusive(file) else { return Ok(()) };
    if is_contended(&source) {
        return Err(JournalError::InUse { pid: holder(file) });
    }
    Err(JournalError::io("lock", LOCK_FILE, source))
}

/// Locks the directory itself, where the file system can.
fn take_dir(dir: &Path, file: Option<&mut File>) -> Result<Option<File>, JournalError> {
    let Ok(handle) = File::open(dir) else { return Ok(None) };
    let Err(source) = fs2::FileExt::try_lock_exclusive(&handle) else { return Ok(Some(handle)) };
    if is_contended(&source) {
        return Err(JournalError::InUse { pid: file.and_then(holder) });
    }
    Ok(None)
}

/// Whether somebody else holds the lock.
fn is_contended(error: &std::io::Error) -> bool {
    error.raw_os_error() == fs2::lock_contended_error().raw_os_error()
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
