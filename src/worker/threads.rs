//! Attempts on threads of the worker: handlers that are Rust code.
//!
//! Such an attempt is told and heard as a process is, over a control channel and a pipe, so all
//! that follows from what a handler says is decided in one place. What differs is its end: a
//! thread comes back, or it does not, and no signal can make it.

use super::attempt::proof;
use super::context::{Context, Failure, Handler};
use super::crew::Begun;
use super::events::{Event, Events};
use super::outcome::Word;
use crate::api::{Lease, ProcessId};
use crate::kernel::ids::Fence;
use crate::process::{self, StartError};
use std::any::Any;
use std::fmt;
use std::io::{self, PipeReader, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

/// An attempt to be begun on a thread.
pub(super) struct ThreadStart {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) lease: Lease,
    /// The store's uuid.
    pub(super) store: String,
    pub(super) run_dir: PathBuf,
    /// This process.
    pub(super) worker: ProcessId,
    pub(super) events: Events,
}

impl fmt::Debug for ThreadStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadStart").field("lease", &proof(&self.lease)).finish_non_exhaustive()
    }
}

/// An attempt that has begun on a thread: our ends of its channel and of its output.
#[derive(Debug)]
pub(super) struct ThreadStarted {
    pub(super) process: ProcessId,
    pub(super) control: UnixStream,
    pub(super) output: PipeReader,
}

/// Begins an attempt. The thread reports its start and its end; when there can be no thread, that
/// is the error.
pub(super) fn start(start: ThreadStart) -> Result<(), StartError> {
    let host = |error: io::Error| StartError::Host(format!("cannot start a thread: {error}"));
    let (control, theirs) = UnixStream::pair().map_err(host)?;
    let (output, input) = io::pipe().map_err(host)?;
    let name = format!("task {}", start.lease.task);
    let work = move || {
        let ThreadStart { handler, lease, store, run_dir, worker, events } = start;
        let fence = lease.fence;
        let result = match process::take_for_thread(&run_dir, fence, &worker) {
            Ok(()) => Ok(ThreadStarted { process: worker, control, output }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(StartError::Superseded)
            }
            Err(error) => Err(StartError::Host(format!("cannot claim the attempt: {error}"))),
        };
        let is_begun = result.is_ok();
        let result = result.map(Begun::Thread);
        if events.blocking_send(Event::Started { fence, result }).is_err() || !is_begun {
            return;
        }
        let mut ending = Ending { fence, events, error: Some(unsaid()) };
        let context = Context::new(lease, &store, run_dir, theirs, input);
        ending.error = run(handler.as_ref(), &context);
        drop(context);
    };
    thread::Builder::new().name(name).spawn(work).map(drop).map_err(host)
}

/// Reports the end of an attempt when it is dropped, so that nothing on its thread, not even a
/// panic with a payload that panics, can keep the slot.
struct Ending {
    fence: Fence,
    events: Events,
    error: Option<Word>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let event = Event::Returned { fence: self.fence, error: self.error.take() };
        if self.events.blocking_send(event).is_err() {
            tracing::debug!("a handler came back after the end of its worker");
        }
    }
}

fn unsaid() -> Word {
    Word::Error { message: "the handler panicked".into(), retryable: true }
}

fn run(handler: &dyn Handler, context: &Context) -> Option<Word> {
    // What a handler shares with others is its own to keep whole.
    let result = catch_unwind(AssertUnwindSafe(|| handler.run(context)));
    let failure = match result {
        Ok(Ok(())) => return None,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let message = format!("the handler panicked{}", said(&*panic));
            if let Err(error) = writeln!(context.log(), "midwatch: {message}") {
                tracing::debug!(%error, "nobody reads the log any more");
            }
            Failure::retryable(message)
        }
    };
    let (message, retryable) = failure.into_parts();
    Some(Word::Error { message, retryable })
}

/// What a panic said, after a colon.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.map_or_else(String::new, |text| format!(": {text}"))
}
