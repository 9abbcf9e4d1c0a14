//! What a handler that is Rust code is given, and what it gives back.

use super::outcome::shorten;
use super::task_cmd::{self, Said, TaskCommand};
use crate::api::{Lease, StopWord};
use crate::kernel::ids::{Fence, TaskId};
use crate::limits::{NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX};
use crate::process;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::fmt;
use std::fs::DirBuilder;
use std::io::{self, PipeWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Does the work of a task type, on a thread of the worker's.
///
/// Functions and closures that take a [`Context`] are handlers. Several attempts may run at once,
/// each on a thread of its own; never more than the worker has slots.
///
/// Nothing can end a thread from outside. So two attempts of one task *can* run at the same time
/// here, when one goes on after its lease was taken away: ask [`Context::should_stop`] often, and
/// give [`Context::fence`] to whatever must refuse a late writer.
pub trait Handler: Send + Sync + 'static {
    /// Works on one attempt.
    ///
    /// Returning after a stop was told counts as obeying it, unless a result was left. A panic is
    /// a failure that another attempt may mend, where panics unwind.
    ///
    /// # After a crash
    /// The next attempt begins with the last checkpoint that [`Context::checkpoint`] returned for,
    /// or with the one under way.
    fn run(&self, task: &Context) -> Result<(), Failure>;
}

impl<F> Handler for F
where
    F: Fn(&Context) -> Result<(), Failure> + Send + Sync + 'static,
{
    fn run(&self, task: &Context) -> Result<(), Failure> {
        self(task)
    }
}

/// Why an attempt failed, and whether another one may mend it.
///
/// Every error becomes a retryable one by `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
    retryable: bool,
}

impl Failure {
    /// Another attempt may mend it. Of the message 4 KiB are kept.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self { message: shorten(message.to_string()), retryable: true }
    }

    /// No other attempt is made. Of the message 4 KiB are kept.
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self { message: shorten(message.to_string()), retryable: false }
    }

    pub(super) fn into_parts(self) -> (String, bool) {
        (self.message, self.retryable)
    }
}

// Not an `Error` itself, or it could not be made of every other one.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retryable(error)
    }
}

/// One attempt, as its handler sees it.
///
/// What it says goes the same way as the word of a handler that is a process: see
/// `spec/handlers.md`.
#[derive(Debug)]
pub struct Context {
    lease: Lease,
    token: String,
    run_dir: PathBuf,
    output: PipeWriter,
    channel: Mutex<UnixStream>,
    stop: Mutex<Option<StopWord>>,
}

impl Context {
    /// `channel` and `output` are the handler's ends.
    pub(super) fn new(
        lease: Lease,
        store: &str,
        run_dir: PathBuf,
        channel: UnixStream,
        output: PipeWriter,
    ) -> Self {
        let token = format!("{store}:{}:{}", lease.task, lease.fence);
        let (channel, stop) = (Mutex::new(channel), Mutex::new(None));
        Self { lease, token, run_dir, output, channel, stop }
    }

    /// The task.
    pub const fn task_id(&self) -> TaskId {
        self.lease.task
    }

    /// Its type.
    pub fn kind(&self) -> &str {
        &self.lease.kind
    }

    /// Number of this attempt, from 1.
    pub const fn attempt(&self) -> u32 {
        self.lease.attempt
    }

    /// Retries the task may have.
    pub const fn max_retry(&self) -> u32 {
        self.lease.max_retry
    }

    /// The fencing token: larger than that of every earlier lease.
    pub const fn fence(&self) -> Fence {
        self.lease.fence
    }

    /// The idempotency key, when the task has one.
    pub fn key(&self) -> Option<&str> {
        self.lease.key.as_deref()
    }

    /// When the task was due, RFC 3339.
    pub fn scheduled_for(&self) -> &str {
        &self.lease.scheduled_for
    }

    /// The value of `MIDWATCH_TOKEN` for processes that the handler starts: with it in their
    /// environment they are found and killed if the worker dies.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The payload. One that does not fit is a fatal failure, for no other attempt changes it.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(self.lease.payload.get())
            .map_err(|error| Failure::fatal(format_args!("the payload is wrong: {error}")))
    }

    /// The checkpoint that this attempt begins with; none at the first.
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        let checkpoint = self.lease.checkpoint.as_ref();
        let read = checkpoint.map(|data| serde_json::from_str(data.get())).transpose();
        read.map_err(|error| Failure::fatal(format_args!("the checkpoint is wrong: {error}")))
    }

    /// Records how far the work is; returns once that is on stable storage, and waits for as long
    /// as the engine is away. The next attempt gets the last one. At most 1 MiB of JSON.
    ///
    /// Fails when nothing was recorded: it is too large, or the task is somebody else's by now.
    pub fn checkpoint<T: Serialize + ?Sized>(&self, data: &T) -> Result<(), Failure> {
        let data = json(data, "checkpoint", PAYLOAD_BYTES_MAX)?;
        self.say(&TaskCommand::Checkpoint { data }).map(drop)
    }

    /// Tells people how far the work is: units done, units in all, and up to 255 bytes of words.
    pub fn progress(
        &self,
        done: u64,
        total: Option<u64>,
        note: Option<&str>,
    ) -> Result<(), Failure> {
        let note = note.map(|note| {
            let mut note = note.to_owned();
            note.truncate(note.floor_char_boundary(NAME_BYTES_MAX));
            note
        });
        self.say(&TaskCommand::Progress { done, total, note }).map(drop)
    }

    /// Leaves a result of at most 64 KiB of JSON, which is kept with the end of the attempt. The
    /// last one counts.
    pub fn result<T: Serialize + ?Sized>(&self, data: &T) -> Result<(), Failure> {
        let data = json(data, "result", RESULT_BYTES_MAX)?;
        self.say(&TaskCommand::Result { data }).map(drop)
    }

    /// Whether the handler should return. Asks the worker unless an answer has said so already;
    /// a worker that has ended is a reason too.
    pub fn should_stop(&self) -> bool {
        self.stop_reason().is_some() || self.ask_to_stop()
    }

    /// Why the handler should return, as far as an answer has told.
    pub fn stop_reason(&self) -> Option<StopWord> {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the handler writes what belongs into the attempt's log.
    pub fn log(&self) -> impl Write + '_ {
        &self.output
    }

    /// A directory of this attempt alone, made when it is first asked for and removed after it.
    pub fn temp_dir(&self) -> io::Result<PathBuf> {
        let dir = process::tmp_dir(&self.run_dir, self.lease.fence);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        Ok(dir)
    }

    fn ask_to_stop(&self) -> bool {
        match self.say(&TaskCommand::ShouldStop) {
            Ok(said) => said.stop.is_some(),
            Err(_gone) => true,
        }
    }

    fn say(&self, command: &TaskCommand) -> Result<Said, Failure> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let said = task_cmd::exchange(command, &channel)?;
        drop(channel);
        if let Some(word) = said.stop {
            *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(word);
        }
        Ok(said)
    }
}

fn json<T: Serialize + ?Sized>(
    data: &T,
    what: &str,
    bytes_max: usize,
) -> Result<Box<RawValue>, Failure> {
    let wrong = |why: &dyn fmt::Display| Failure::fatal(format_args!("the {what} {why}"));
    let json = to_raw_value(data).map_err(|error| wrong(&format_args!("is no JSON: {error}")))?;
    if bytes_max < json.get().len() {
        return Err(wrong(&format_args!("has more than {bytes_max} bytes")));
    }
    Ok(json)
}
