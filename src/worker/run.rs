//! Sets a worker up and runs it to its end.

use super::context::Handler;
use super::crew::{Crew, Processes};
use super::duty::Duty;
use super::error::WorkerError;
use super::events::{self, Event};
use super::handler::{EXEC, HandlerSpec};
use super::link::Link;
use super::output;
use super::reload::Reload;
use crate::api::{OfferRequest, RegisterRequest};
use crate::client::Client;
use crate::limits::LEASES_PER_REQUEST_MAX;
use crate::process::{self, Adoption, Spawner, WorkerLock};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc};
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
    /// The handlers by task type; `exec` is added.
    pub handlers: BTreeMap<String, HandlerSpec>,
    /// How to take up a changed config; none leaves it as it is.
    pub reload: Option<Reload>,
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
    let WorkerOptions { data_dir, socket, name, slots, .. } = options;
    let WorkerOptions { handlers, reload, environment, lifeline, probe, .. } = options;
    let (stopper, signals) = (None, true);
    let post = Post { data_dir, socket, name, slots, reload, lifeline, probe, stopper, signals };
    serve(post, Hands::Commands { handlers, environment })
}

/// What every worker is given, whatever its handlers are.
pub(super) struct Post {
    pub(super) data_dir: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) name: String,
    pub(super) slots: u32,
    /// How to take up a changed config; none leaves it as it is.
    pub(super) reload: Option<Reload>,
    pub(super) lifeline: Option<OwnedFd>,
    pub(super) probe: Option<OwnedFd>,
    /// Tells it to end, as SIGTERM does.
    pub(super) stopper: Option<Arc<Notify>>,
    /// Whether SIGTERM and SIGINT are its own.
    pub(super) signals: bool,
}

/// Its handlers.
pub(super) enum Hands {
    Commands { handlers: BTreeMap<String, HandlerSpec>, environment: BTreeMap<OsString, OsString> },
    Code(BTreeMap<String, Arc<dyn Handler>>),
}

/// Runs a worker until it is told to end.
pub(super) fn serve(post: Post, hands: Hands) -> Result<(), WorkerError> {
    if post.slots == 0 || LEASES_PER_REQUEST_MAX < usize::try_from(post.slots).unwrap_or(0) {
        return Err(WorkerError::setup(format!(
            "a worker has 1 to {LEASES_PER_REQUEST_MAX} slots, not {}",
            post.slots
        )));
    }
    process::reserve_standard().map_err(host("cannot reserve descriptors"))?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(host("cannot start"))?;
    LocalSet::new().block_on(&runtime, work(post, hands))
}

fn host(doing: &'static str) -> impl Fn(io::Error) -> WorkerError {
    move |error| WorkerError::host(doing, &error)
}

async fn work(post: Post, hands: Hands) -> Result<(), WorkerError> {
    let Post { data_dir, socket, name, slots, reload, lifeline, probe, stopper, signals } = post;
    let run_dir = run_dir(&data_dir).map_err(host("cannot prepare the data directory"))?;
    let data_dir = run_dir.parent().unwrap_or(&run_dir).to_owned();
    let lock = WorkerLock::take(&run_dir).map_err(host("cannot take the worker's lock"))?;
    let crew = crew(hands)?;
    let logs = output::start_writer().map_err(host("cannot start the log thread"))?;
    let (events, inbox) = mpsc::channel::<Event>(EVENTS_QUEUED_MAX);
    if signals {
        events::watch_signals(&events).map_err(host("cannot watch for signals"))?;
    }
    let watch = reload.as_ref().and_then(|reload| reload.watch(&events));
    if let Some(stopper) = stopper {
        events::watch_stopper(stopper, &events);
    }
    if let Some(lifeline) = lifeline {
        events::watch_lifeline(lifeline, &events).map_err(host("cannot watch the lifeline"))?;
    }
    if let Some(probe) = &probe {
        events::set_nonblocking(probe).map_err(host("cannot use the probe"))?;
    }
    let registration = RegisterRequest {
        name,
        process: process::current().map_err(host("cannot tell who we are"))?,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        version: env!("CARGO_PKG_VERSION").into(),
        lock: lock.name().to_owned(),
        types: crew.types(),
        slots,
    };
    let offered = OfferRequest { types: registration.types.clone(), slots };
    let duty = Duty {
        link: Rc::new(Link::new(Client::new(socket))),
        crew,
        logs,
        events,
        data_dir,
        run_dir,
        probe,
        reload,
        watch,
        registration,
        state: super::duty::State::new(tokio::time::Instant::now(), offered),
    };
    duty.serve(inbox).await?;
    if let Err(error) = lock.retire() {
        tracing::warn!(%error, "cannot remove the worker's lock");
    }
    Ok(())
}

/// Whatever the handlers need to run.
fn crew(hands: Hands) -> Result<Crew, WorkerError> {
    match hands {
        Hands::Commands { mut handlers, environment } => {
            let adoption = Adoption::begin().map_err(host("cannot become a sub-reaper"))?;
            // As many slots as a later config may name.
            let spawner = Spawner::new(LEASES_PER_REQUEST_MAX);
            let spawner = spawner.map_err(host("cannot start the spawn thread"))?;
            handlers.entry(EXEC.into()).or_default();
            Ok(Crew::Processes(Processes { handlers, environment, spawner, adoption }))
        }
        // The children of the program are its own: nothing is adopted and nobody else's reaped.
        Hands::Code(handlers) => Ok(Crew::Threads(handlers)),
    }
}

/// The `run` directory, absolute and without links, made if need be.
fn run_dir(data_dir: &Path) -> io::Result<PathBuf> {
    let run_dir = data_dir.join("run");
    DirBuilder::new().recursive(true).mode(0o700).create(&run_dir)?;
    run_dir.canonicalize()
}
