//! Starts the engine and the workers, probes them, restarts them. Nothing else.
//!
//! The supervisor keeps no state, touches no store, speaks no API and decides nothing about
//! tasks: whatever it could get wrong, it does not know. Its own death harms nothing, because
//! each child holds the read end of a pipe (the lifeline) that the kernel closes with it. Probes
//! travel through a second pipe and never pass the journal, so a blocked disk cannot stall them.
//!
//! One thread, one `poll`, no runtime: signals arrive through descriptors, time is a number that
//! is passed in, and the rules of restarting ([`policy`]) are a state machine tested in virtual
//! time. It costs a process of about a megabyte that wakes when a child speaks. The rules that
//! users and children rely on are in `spec/supervision.md`.
//!
//! Why not leave it to systemd: minimal hosts and containers have none, and it cannot tell a
//! worker that drains from one that hangs. `engine` and `worker` run under any init as well.

mod charge;
mod child;
mod notify;
mod policy;
mod sys;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use policy::Pace;
pub(crate) use sys::monotonic;

/// What to start, and how.
#[derive(Clone, Debug)]
pub struct SupervisorOptions {
    /// The program that is both engine and worker; this very binary, as a rule.
    pub program: PathBuf,
    /// Arguments of the engine after `engine --lifeline FD --probe FD`.
    pub engine_args: Vec<OsString>,
    /// The workers.
    pub workers: Vec<WorkerSpec>,
    /// Where the init system listens for news (`NOTIFY_SOCKET`), if it does.
    pub notify_socket: Option<OsString>,
    /// How long the init system waits for a sign of life (`WATCHDOG_USEC`), if it does.
    pub watchdog: Option<Duration>,
    /// How fast to restart, how long to wait for a sign of life.
    pub pace: Pace,
}

impl SupervisorOptions {
    /// Options with no worker, no init system to tell, and the usual pace.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            engine_args: Vec::new(),
            workers: Vec::new(),
            notify_socket: None,
            watchdog: None,
            pace: Pace::default(),
        }
    }
}

/// One worker process.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// Its name in the log, such as `w1`.
    pub name: String,
    /// Its arguments after `worker --lifeline FD --probe FD`.
    pub args: Vec<OsString>,
}

/// Something the machine refused, without which there is no supervising.
#[derive(Debug)]
pub struct SupervisorError {
    /// What was being done.
    pub doing: &'static str,
    /// What the machine said.
    pub source: std::io::Error,
}

impl std::fmt::Display for SupervisorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the supervisor cannot {}", self.doing)
    }
}

impl std::error::Error for SupervisorError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Supervises until SIGTERM, SIGINT or a refusal of the engine; returns the exit code to end with:
/// 0 after a stop that was asked for, the engine's own when it refused to start (2 configuration,
/// 6 damage, 7 in use).
///
/// Takes over this process: its signals, and its children. Call it from the only thread.
pub fn run(options: SupervisorOptions) -> Result<u8, SupervisorError> {
    watch::Watch::begin(options)?.run()
}
