//! The unix socket: created with its final mode, replaced only by who holds the data directory.
//!
//! It is bound inside a fresh directory that only we can enter, gets its mode and group there, and
//! is then renamed into place. So there is no instant at which anybody could connect who may not,
//! whatever the umask, and no change of the process's umask that another thread would feel.

use rustix::fs::{AtFlags, Gid, Mode, OFlags};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A listening socket. Dropping it removes its name, if it is still ours.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Binds `path`: mode 0600, or 0660 with this group. Call it only while holding the lock of
    /// the data directory.
    ///
    /// What a dead daemon left there is replaced; a socket that somebody answers on, or anything
    /// that is no socket, is refused.
    pub(crate) fn bind(path: &Path, group: Option<u32>) -> io::Result<(Self, UnixListener)> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.ok_or_else(|| refused("the path has no directory"))?;
        let name = path.file_name().ok_or_else(|| refused("the path has no name"))?;
        make_dirs(parent, if group.is_some() { 0o755 } else { 0o700 })?;
        refuse_what_lives(path)?;
        let nursery = parent.join(format!(".midwatch-{:016x}", rand::random::<u64>()));
        std::fs::DirBuilder::new().mode(0o700).create(&nursery)?;
        let born = give_birth(&nursery, parent, name, group);
        // Empty by now, or on a failure perhaps not: then its name says whose it was.
        let removed = std::fs::remove_dir(&nursery);
        let (listener, inode) = born?;
        removed?;
        Ok((Self { path: path.to_owned(), inode }, listener))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode);
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Creates the directory and those above it that are missing.
fn make_dirs(dir: &Path, mode: u32) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(dir)
}

fn refuse_what_lives(path: &Path) -> io::Result<()> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something that is no socket; it was left alone",
        ));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another daemon answers on it; name another with --socket",
        ));
    }
    Ok(())
}

fn give_birth(
    nursery: &Path,
    parent: &Path,
    name: &std::ffi::OsStr,
    group: Option<u32>,
) -> io::Result<(UnixListener, u64)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = rustix::fs::open(nursery, flags, Mode::empty())?;
    // By this detour the length of the nursery's own path does not count.
    let detour = format!("/proc/self/fd/{}/socket", inside.as_raw_fd());
    let listener = UnixListener::bind(&detour)?;
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    rustix::fs::chmodat(&inside, "socket", Mode::from_raw_mode(mode), AtFlags::empty())?;
    if let Some(group) = group {
        let group = Some(Gid::from_raw(group));
        rustix::fs::chownat(&inside, "socket", None, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    let inode = rustix::fs::statat(&inside, "socket", AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
    let home = rustix::fs::open(parent, flags, Mode::empty())?;
    rustix::fs::renameat(&inside, "socket", &home, name)?;
    listener.set_nonblocking(true)?;
    Ok((listener, inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn the_socket_is_born_with_its_mode_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/midwatch.sock");
        let (socket, _listener) = Socket::bind(&path, None).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        UnixStream::connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_group_may_connect_when_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/midwatch.sock");
        let group = rustix::process::getegid().as_raw();
        let (_socket, _listener) = Socket::bind(&path, Some(group)).unwrap();
        assert_eq!(mode(&path), 0o660);
        assert_eq!(mode(path.parent().unwrap()) & 0o700, 0o700);
        assert_eq!(std::fs::metadata(&path).unwrap().gid(), group);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        let (_socket, _listener) = Socket::bind(&path, None).unwrap();
        let error = Socket::bind(&path, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_file_in_the_way_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        std::fs::File::create(&path).unwrap();
        let error = Socket::bind(&path, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(path.is_file());
    }
}
