//! Sets a worker up and runs it to its end.

use super::duty::Duty;
use super::error::WorkerError;
use super::events::{self, Event};
use super::handler::{EXEC, HandlerSpec};
use super::link::Link;
use super::output;
use crate::api::RegisterRequest;
use crate::client::Client;
use crate::limits::LEASES_PER_REQUEST_MAX;
use crate::process::{self, Adoption, Groups, Spawner, WorkerLock};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// Events that may wait for the duty.
const EVENTS_QUEUED_MAX: usize = 1024;

/// What a worker is given.
#[derive(Debug)]
pub struct WorkerOptions {
    /// The data directory, the engine's.
    pub data_dir: PathBuf,
    /// The engine's socket.
    pub socket: PathBuf,
    /// A name for people.
    pub name: String,
    /// Attempts it runs at once.
    pub slots: u32,
    /// Bytes of memory beyond which it finishes what it runs and ends; looked at with each
    /// heartbeat.
    pub memory_max: Option<u64>,
    /// The handlers by task type; `exec` is added.
    pub handlers: BTreeMap<String, HandlerSpec>,
    /// The environment the worker itself was started with, of which handlers get a little.
    pub environment: BTreeMap<OsString, OsString>,
    /// When this reaches its end, the worker finishes what it runs and ends.
    pub lifeline: Option<OwnedFd>,
    /// Gets a byte every few seconds from the thread that does the work.
    pub probe: Option<OwnedFd>,
}

/// Runs a worker until it is told to end: by SIGTERM or SIGINT, or by its lifeline.
///
/// To be called on the process's first thread, which becomes the reaper of whatever its handlers
/// leave behind. Fails when the host denies something at the start, or when the engine refuses
/// the registration; an engine that is away is waited for.
///
/// # After a crash
/// The kernel frees the worker's lock and kills its handlers' leaders; the engine sweeps the rest.
pub fn run(options: WorkerOptions) -> Result<(), WorkerError> {
    if options.slots == 0 || LEASES_PER_REQUEST_MAX < usize::try_from(options.slots).unwrap_or(0) {
        return Err(WorkerError::setup(format!(
            "a worker has 1 to {LEASES_PER_REQUEST_MAX} slots, not {}",
            options.slots
        )));
    }
    process::reserve_standard()
        .map_err(|error| WorkerError::host("cannot reserve descriptors", &error))?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| WorkerError::host("cannot start", &error))?;
    LocalSet::new().block_on(&runtime, work(options))
}

async fn work(options: WorkerOptions) -> Result<(), WorkerError> {
    let WorkerOptions { data_dir, socket, name, slots, mut handlers, environment, .. } = options;
    let run_dir = run_dir(&data_dir)
        .map_err(|error| WorkerError::host("cannot prepare the data directory", &error))?;
    let data_dir = run_dir.parent().unwrap_or(&run_dir).to_owned();
    let lock = WorkerLock::take(&run_dir)
        .map_err(|error| WorkerError::host("cannot take the worker's lock", &error))?;
    let host = |doing: &'static str| move |error: io::Error| WorkerError::host(doing, &error);
    let adoption = Adoption::begin().map_err(host("cannot become a sub-reaper"))?;
    let queued = usize::try_from(slots).unwrap_or(1);
    let groups = control_groups(&handlers);
    let has_groups = groups.is_some();
    let spawner = Spawner::new(queued, groups).map_err(host("cannot start the spawn thread"))?;
    let logs = output::start_writer().map_err(host("cannot start the log thread"))?;
    let (events, inbox) = mpsc::channel::<Event>(EVENTS_QUEUED_MAX);
    events::watch_signals(&events).map_err(host("cannot watch for signals"))?;
    if let Some(lifeline) = options.lifeline {
        events::watch_lifeline(lifeline, &events).map_err(host("cannot watch the lifeline"))?;
    }
    if let Some(probe) = &options.probe {
        events::set_nonblocking(probe).map_err(host("cannot use the probe"))?;
    }
    handlers.entry(EXEC.into()).or_default();
    let registration = RegisterRequest {
        name,
        process: process::current().map_err(host("cannot tell who we are"))?,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        version: env!("CARGO_PKG_VERSION").into(),
        lock: lock.name().to_owned(),
        types: handlers.keys().cloned().collect(),
        slots,
    };
    let duty = Duty {
        link: Rc::new(Link::new(Client::new(socket))),
        spawner,
        adoption,
        has_groups,
        memory_max: options.memory_max,
        logs,
        events,
        handlers,
        environment,
        data_dir,
        run_dir,
        probe: options.probe,
        registration,
        state: super::duty::State::new(tokio::time::Instant::now()),
    };
    duty.serve(inbox).await?;
    if let Err(error) = lock.retire() {
        tracing::warn!(%error, "cannot remove the worker's lock");
    }
    Ok(())
}

/// The place of the attempts' control groups, or a word about why there is none.
fn control_groups(handlers: &BTreeMap<String, HandlerSpec>) -> Option<Groups> {
    let wants_controllers = handlers.values().any(|spec| spec.limits.wants_controllers());
    match Groups::find(wants_controllers) {
        Ok(groups) => {
            if let Some(why) = groups.note() {
                tracing::info!(
                    "limits of memory or processes are kept without control groups: {why}"
                );
            }
            Some(groups)
        }
        Err(why) => {
            tracing::info!(
                "no control groups: {why}; what a handler leaves is found by other marks"
            );
            None
        }
    }
}

/// The `run` directory, absolute and without links, made if need be.
fn run_dir(data_dir: &Path) -> io::Result<PathBuf> {
    let run_dir = data_dir.join("run");
    DirBuilder::new().recursive(true).mode(0o700).create(&run_dir)?;
    run_dir.canonicalize()
}
