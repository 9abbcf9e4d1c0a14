//! The threads beside the engine's: one sweeps what dead workers left, one writes snapshots.
//!
//! Both take jobs from a bounded queue and end when its other side is gone.

use super::hand::{Hand, Message};
use super::host::{SnapshotJob, SweepJob};
use crate::engine::{Input, write_snapshot};
use crate::kernel::ids::{Fence, TaskId};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

/// Sweeps that may wait: more than the engine asks for at once.
pub(crate) const SWEEPS_QUEUED_MAX: usize = 128;

/// What the sweeper needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// The directory of the claims.
    pub(crate) run_dir: PathBuf,
    /// The store, in hex.
    pub(crate) store: String,
    /// The running kernel's boot id.
    pub(crate) boot_id: String,
}

/// The sweeper's thread.
pub(crate) fn sweeper(jobs: &Receiver<SweepJob>, hand: &Hand, ground: &Ground) {
    for job in jobs {
        match job {
            SweepJob::Sweep(task, fence) => hand.send_patiently(sweep(ground, task, fence)),
            SweepJob::Collect(litter) => {
                if let Err(error) = litter.remove(&ground.run_dir, &ground.store) {
                    tracing::warn!("cannot remove old claims: {error}");
                }
            }
        }
    }
}

fn sweep(ground: &Ground, task: TaskId, fence: Fence) -> Message {
    let Ground { run_dir, store, boot_id } = ground;
    match crate::process::sweep(run_dir, store, task, fence, boot_id) {
        Ok(swept) => {
            for killed in &swept.killed {
                tracing::warn!(
                    task = task.0,
                    fence = fence.0,
                    "killed pid {} ({}), left over from an attempt whose lease is over",
                    killed.pid,
                    killed.name
                );
            }
            Message::Tell(Box::new(Input::Swept { task, fence, ran: swept.started }))
        }
        Err(error) => {
            tracing::error!(
                task = task.0,
                fence = fence.0,
                "cannot clear an attempt whose lease is over, will try again: {error}"
            );
            Message::SweepFailed { task, fence }
        }
    }
}

/// How far the thread that writes snapshots stands back.
const SNAPSHOT_NICE: i32 = 10;

/// The thread that writes snapshots.
pub(crate) fn snapshots(jobs: &Receiver<SnapshotJob>, hand: &Hand) {
    // On Linux this is about the calling thread alone: whoever waits for an answer comes first.
    if let Err(error) = rustix::process::nice(SNAPSHOT_NICE) {
        tracing::debug!("snapshots are written at full priority: {error}");
    }
    for (image, writer) in jobs {
        let written = write_snapshot(&image, *writer);
        if let Err(error) = &written {
            tracing::error!("a snapshot could not be written: {error}");
        }
        hand.send_patiently(Message::Tell(Box::new(Input::SnapshotWritten(written))));
    }
}
