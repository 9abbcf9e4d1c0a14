//! Waiting for a disk that may never answer.

use super::finding::Finding;
use crate::kernel::ids::Millis;
use crate::units::span;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// How long a disk that is well may take for what a check asks of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The same where much is read.
pub(super) const READING: Duration = Duration::from_mins(2);

/// Does something that may hang, on a thread of its own; why there is no answer in time. The
/// thread is left behind then, in a program that ends soon.
pub(super) fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (done, answer) = sync_channel(1);
    let thread = thread::Builder::new().name("check".to_owned());
    let started = thread.spawn(move || drop(done.send(work())));
    started
        .map_err(|error| format!("could not be looked at: no thread can be started: {error}"))?;
    answer.recv_timeout(patience).map_err(|why| match why {
        RecvTimeoutError::Timeout => {
            let patience = Millis::secs(patience.as_secs());
            format!("the disk did not answer within {}", span(patience))
        }
        RecvTimeoutError::Disconnected => "could not be looked at".to_owned(),
    })
}

/// Something could not be looked at.
pub(super) fn unseen(what: &str, why: &str) -> Finding {
    Finding::problem(
        format!("{what}: {why}"),
        "whatever needs that disk waits for it, the daemon too; the kernel's log and the processes \
         that wait (state D) tell which it is",
        &["dmesg | tail -n 20", "ps -eo pid,stat,wchan:24,args | grep ' D'"],
    )
}
