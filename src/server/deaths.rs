//! Watches registered workers die.
//!
//! A pidfd wakes us, the worker's kernel lock is the proof: when it is free the worker is dead. A
//! held lock proves nothing, since a forked child holds it until it execs, so it is looked at
//! again until it is free.

use super::hand::{Hand, Message};
use crate::api::Code;
use crate::engine::Input;
use crate::kernel::Worker;
use crate::kernel::event::Registration;
use crate::kernel::ids::{ProcessId, WorkerId};
use crate::kernel::status::Reason;
use crate::process;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How soon a held lock is looked at again after its worker's process ended.
const AGAIN: Duration = Duration::from_millis(250);

/// How often the lock is looked at when the process cannot be watched.
const BLIND: Duration = Duration::from_secs(5);

/// The death of a worker as it is known at the start; none while it may live.
pub(crate) fn verdict(worker: &Worker, run_dir: &Path, boot_id: &str) -> Option<Reason> {
    let Registration { process, lock, .. } = &worker.registration;
    if process.boot_id != boot_id {
        return Some(Reason::HostRebooted);
    }
    is_free(run_dir, lock).then_some(Reason::WorkerCrash)
}

fn is_free(run_dir: &Path, lock: &str) -> bool {
    process::is_free(&run_dir.join(lock)).unwrap_or_else(|error| {
        tracing::warn!("cannot look at the lock {lock}: {error}");
        false
    })
}

/// Follows one worker to its death, and reports it. The engine disregards the death of a worker
/// that left before.
pub(crate) async fn follow(
    hand: Hand,
    run_dir: PathBuf,
    worker: WorkerId,
    registration: Registration,
) {
    match watchable(&registration.process) {
        Ok(Some(pidfd)) => wait_for_end(pidfd).await,
        Ok(None) => {}
        Err(error) => {
            tracing::debug!("worker {worker} cannot be watched, its lock is: {error}");
            while !is_free(&run_dir, &registration.lock) {
                tokio::time::sleep(BLIND).await;
            }
        }
    }
    while !is_free(&run_dir, &registration.lock) {
        tokio::time::sleep(AGAIN).await;
    }
    let died = || Input::WorkerDied { worker, reason: Reason::WorkerCrash };
    // A full queue empties soon; a report of a death must not be lost.
    while let Err(refused) = hand.send(Message::Tell(Box::new(died())))
        && refused.code == Code::Busy
    {
        tokio::time::sleep(AGAIN).await;
    }
}

/// A descriptor of the process; none when it is gone already, an error when it cannot be seen
/// from here.
fn watchable(process: &ProcessId) -> io::Result<Option<OwnedFd>> {
    if process.pid_namespace != process::pid_namespace()? {
        return Err(io::Error::other("it lives in another pid namespace"));
    }
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return Err(io::Error::other("its pid is none")) };
    let pidfd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(pidfd) => pidfd,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Asked after the descriptor was opened: from here on the number cannot change hands.
    Ok(process::is_alive(process)?.then_some(pidfd))
}

async fn wait_for_end(pidfd: OwnedFd) {
    let ended = match process::watch_readable(pidfd) {
        Ok(watched) => watched.readable().await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        tracing::warn!("cannot watch a worker's process: {error}");
    }
}
