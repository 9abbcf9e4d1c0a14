//! Waits on descriptors that are neither socket nor pipe to the runtime.

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The descriptor, to be waited for until it is readable.
#[expect(
    deprecated,
    reason = "the successor is unsafe because a type may lie about its descriptor; OwnedFd does not"
)]
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
