//! Processes: who they are, how a handler's process starts, and how nothing of it is left.
//!
//! Three promises are kept here, and nowhere else:
//!
//! - *Nobody else is hit.* A process is named by boot, pid namespace, pid and start time
//!   ([`ProcessId`](crate::api::ProcessId)); a number alone is never signalled.
//! - *Two attempts of one task never run at once.* A starting handler claims the name
//!   `run/<fence>` before its first instruction runs; [`sweep()`] takes the same name first or
//!   kills what took it.
//! - *An attempt leaves nothing running.* Control group, session, autogroup, token in the
//!   environment and adoption by a sub-reaper are the five ways a descendant is recognised.
//!
//! This module knows no task and no lease; it starts, recognises, signals and reaps. It is the
//! only place with `unsafe`, and each use says why it is sound. What it costs: one thread that
//! lives as long as the worker, because the kernel ties the death signal of a child to the
//! *thread* that forked it.

mod claim;
pub mod descriptor;
pub mod group;
mod identity;
mod limits;
mod lock;
mod orphans;
mod reap;
mod scan;
mod spawn;
mod sweep;
#[cfg(test)]
mod tests;
mod thread;
mod timekeeping;
mod users;

pub use claim::{
    Held, foreign_dir, foreign_tmp_dir, read as read_claim, remove, remove_tmp, take_for_thread,
    tmp_dir, tombstone,
};
pub use descriptor::{inherited, reserve_standard, watch_readable};
pub use group::Groups;
pub use identity::{boot_id, current, is_alive, machine_id, of, pid_namespace, state, worker_of};
pub use limits::Limits;
pub use lock::{WorkerLock, is_free, is_lock_name, remove_if_free};
pub use orphans::Adoption;
pub use reap::{Used, reap, resident_bytes};
pub use scan::{Found, Look, Mark};
pub use spawn::{Reply, Spawner, Start, StartError, Started};
pub use sweep::{Killed, Swept, sweep};
pub use thread::start_deaf_thread;
pub use timekeeping::clock_is_synchronised;
pub use users::{Identity, group as group_id, identity as identity_of};
