//! The kernel lock that a worker holds for its whole life.
//!
//! A free lock proves that its worker is dead. A held one does not prove that it lives: a child
//! between fork and exec holds it too.

use rand::random;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A worker's lock. Dropping it frees the lock and leaves the file; [`WorkerLock::retire`]
/// removes that too.
#[derive(Debug)]
pub struct WorkerLock {
    file: File,
    path: PathBuf,
    name: String,
}

impl WorkerLock {
    /// Creates `worker-<random>.lock` in `run_dir` and takes the kernel lock on it. The pid inside
    /// is for people; nothing reads it.
    pub fn take(run_dir: &Path) -> io::Result<Self> {
        loop {
            let name = format!("worker-{:016x}.lock", random::<u64>());
            let path = run_dir.join(&name);
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
            fs2::FileExt::lock_exclusive(&file)?;
            // Between the two it was nobody's, and may have been removed as such.
            if file.metadata()?.nlink() == 0 {
                continue;
            }
            writeln!(file, "{}", std::process::id())?;
            return Ok(Self { file, path, name });
        }
    }

    /// The name of the file below `run/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the lock up and removes its file, after the daemon was told that the worker leaves.
    pub fn retire(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        fs2::FileExt::unlock(&self.file)
    }
}

/// Removes the lock of a worker that is dead. One that is held stays, and so does one that a
/// worker is about to take: it takes another.
pub fn remove_if_free(path: &Path) -> io::Result<()> {
    match try_lock(path, fs2::FileExt::try_lock_exclusive)? {
        Tried::Taken(_until_it_is_gone) => fs::remove_file(path),
        Tried::Held | Tried::Absent => Ok(()),
    }
}

/// Whether `name` is one that a worker gives its lock.
pub fn is_lock_name(name: &str) -> bool {
    name.strip_prefix("worker-").is_some_and(|rest| rest.strip_suffix(".lock").is_some())
}

/// Whether nobody holds the lock at `path`: its worker is dead, or has left and removed it.
///
/// Looks with a shared lock for an instant, so it can never take a worker's place; a worker that
/// starts at that instant waits for it.
pub fn is_free(path: &Path) -> io::Result<bool> {
    Ok(!matches!(try_lock(path, fs2::FileExt::try_lock_shared)?, Tried::Held))
}

/// What became of a try to take somebody else's lock.
enum Tried {
    /// There is no such file.
    Absent,
    /// Somebody holds it.
    Held,
    /// Nobody did; we do, until this is dropped.
    Taken(File),
}

fn try_lock(path: &Path, lock: impl Fn(&File) -> io::Result<()>) -> io::Result<Tried> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Tried::Absent),
        Err(error) => return Err(error),
    };
    match lock(&file) {
        Ok(()) => Ok(Tried::Taken(file)),
        Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
            Ok(Tried::Held)
        }
        Err(error) => Err(error),
    }
}
