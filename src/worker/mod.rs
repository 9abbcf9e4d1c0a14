//! The worker: a process of its own that leases tasks and runs their handlers.
//!
//! It speaks to the engine over the unix socket only and holds nothing that must last: what it
//! knows beyond its leases is in the journal, or is asked for again. It decides when a handler is
//! stopped and what its end means; whether a task runs again is not its business.
//!
//! Threads: the *main* one with a single-threaded runtime, on which everything happens in turn;
//! *spawn*, which forks and must live as long as the worker (see [`crate::process`]); *logs*,
//! which writes the handlers' output and may be as slow as the disk. The main thread never waits
//! for a handler, a disk or the engine: each of those reports an event, and the
//! heartbeat has a timer that no work holds up.
//!
//! While the engine is away handlers go on, their ends wait here in order, and a checkpoint waits
//! for its answer. A worker whose registration is gone kills what it holds and begins anew.
//!
//! Handlers are commands, or code of a program that embeds the worker ([`Worker`]); then each
//! attempt has a thread and nothing is adopted, swept or signalled. What carries an attempt out is
//! [`crew::Crew`]; all else is one for both.

mod attempt;
mod calls;
mod context;
mod control;
mod crew;
mod duty;
mod embed;
mod error;
mod events;
mod handler;
mod life;
mod link;
mod outcome;
mod output;
mod reload;
mod run;
mod stopping;
pub mod task_cmd;
#[cfg(test)]
mod tests;
mod threads;

pub use context::{Context, Failure, Handler};
pub use embed::{Stopper, Worker};
pub use error::WorkerError;
pub use handler::{EXEC, FATAL_EXIT_CODES, HandlerSpec, LOG_BYTES_MAX};
pub use reload::Reload;
pub use run::{WorkerOptions, run};
