//! Descriptors that were handed to us by number.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A duplicate of the descriptor with this number, closed on exec. Fails when nothing is open
/// under it.
#[expect(unsafe_code, reason = "a number from the command line names a descriptor")]
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from(rustix::io::Errno::BADF));
    }
    // SAFETY: the number is not -1, and it is used for one call only, which fails with EBADF when
    // nothing is open under it; the result is a descriptor of our own.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::io::fcntl_dupfd_cloexec(borrowed, 3)?)
}

/// Fills the numbers 0 to 3 where they are free, for as long as the process lives.
///
/// Without this the pipe over which a child reports that its exec failed may get the number 3,
/// and putting the control channel there would close it. To be called before other threads open
/// and close files; a spawner calls it again before each start, for a number that was taken at
/// first and then given back.
pub fn reserve_standard() -> io::Result<()> {
    static KEPT: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let null = File::open("/dev/null")?;
        if 3 < null.as_raw_fd() {
            return Ok(());
        }
        kept.push(null);
    }
}

/// Watches a descriptor for becoming readable. Must be called inside a tokio runtime.
#[expect(unsafe_code, reason = "tokio asks for a promise that an owned descriptor keeps")]
pub fn watch_readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always gives the same descriptor and keeps it open until it is
    // dropped, and it is moved into the watch.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    watched.map_err(Into::into)
}
