//! A worker inside a program of your own.

use super::context::Handler;
use super::error::WorkerError;
use super::run::{Hands, Post, serve};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Notify;

/// A worker whose handlers are Rust code of the program that runs it.
///
/// It works beside the daemon, for the daemon's user or for root, over the engine's socket. Its
/// task types stand in the daemon's config with `embedded = true`, so that they may be submitted
/// and have their limits there.
///
/// ```no_run
/// use midwatch::worker::{Context, Failure, Worker, WorkerError};
///
/// fn resize(task: &Context) -> Result<(), Failure> {
///     let pictures: Vec<String> = task.payload()?;
///     let done = task.last_checkpoint()?.unwrap_or(0);
///     for (at, _picture) in pictures.iter().enumerate().skip(done) {
///         // … the work …
///         task.checkpoint(&(at + 1))?;
///         if task.should_stop() {
///             return Ok(());
///         }
///     }
///     task.result(&pictures.len())
/// }
///
/// fn main() -> Result<(), WorkerError> {
///     Worker::new("/var/lib/midwatch").handle("resize", resize).slots(2).run()
/// }
/// ```
///
/// The lock and the process of the worker tell the engine of its death, as with every worker; its
/// tasks are given to others then. While it lives, nothing can end a handler but the handler: see
/// [`Handler`].
pub struct Worker {
    data_dir: PathBuf,
    socket: Option<PathBuf>,
    name: String,
    slots: u32,
    handlers: BTreeMap<String, Arc<dyn Handler>>,
    stopper: Stopper,
    signals: bool,
}

impl Worker {
    /// A worker for the engine that owns this data directory, with one slot.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            socket: None,
            name: "embedded".into(),
            slots: 1,
            handlers: BTreeMap::new(),
            stopper: Stopper(Arc::new(Notify::new())),
            signals: true,
        }
    }

    /// Where the engine listens, when that is not `midwatch.sock` in the data directory.
    #[must_use]
    pub fn socket(mut self, socket: impl Into<PathBuf>) -> Self {
        self.socket = Some(socket.into());
        self
    }

    /// A name for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Attempts that run at once, each on a thread of its own: 1 to 1,024.
    #[must_use]
    pub const fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Runs tasks of the type `kind` with this handler.
    #[must_use]
    pub fn handle(mut self, kind: impl Into<String>, handler: impl Handler) -> Self {
        self.handlers.insert(kind.into(), Arc::new(handler));
        self
    }

    /// Leaves SIGTERM, SIGINT and SIGHUP to the program, which uses [`Worker::stopper`] instead.
    #[must_use]
    pub const fn without_signals(mut self) -> Self {
        self.signals = false;
        self
    }

    /// Ends the worker from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Works until it is told to end: by SIGTERM or SIGINT, or by its stopper. Handlers are then
    /// asked to stop, and what they had not done goes back with its checkpoints. Told a second
    /// time, it returns at once; handlers that still run are on their own then, and what they say
    /// is no longer heard.
    ///
    /// Blocks, and has a runtime of its own, so asynchronous code calls it on another thread. Waits
    /// for an engine that is away. Fails when the host denies something at the start, when
    /// it was given no handler, or when the engine refuses it.
    ///
    /// # After a crash
    /// The kernel frees the worker's lock; the engine then gives its tasks to others.
    pub fn run(self) -> Result<(), WorkerError> {
        let Self { data_dir, socket, name, slots, handlers, stopper, signals } = self;
        if handlers.is_empty() {
            return Err(WorkerError::setup("a worker without a handler has no work".into()));
        }
        let socket = socket.unwrap_or_else(|| data_dir.join("midwatch.sock"));
        let Stopper(stopper) = stopper;
        let post = Post {
            data_dir,
            socket,
            name,
            slots,
            reload: None,
            lifeline: None,
            probe: None,
            stopper: Some(stopper),
            signals,
        };
        serve(post, Hands::Code(handlers))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<&String> = self.handlers.keys().collect();
        f.debug_struct("Worker")
            .field("data_dir", &self.data_dir)
            .field("slots", &self.slots)
            .field("types", &types)
            .finish_non_exhaustive()
    }
}

/// Ends a worker from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Notify>);

impl Stopper {
    /// Tells the worker to end, as a SIGTERM would; also one that has not begun yet.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}
