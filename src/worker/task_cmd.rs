//! `midwatch task …`: the control channel for shell scripts.
//!
//! Each command writes one line and waits for its answer, under a lock, so that several processes
//! of one handler may speak. The line carries a mark of its own and only the answer with that
//! mark counts: a script that also writes to the channel by hand, and reads no answers, cannot
//! make an old answer pass for a new one.

use crate::api::StopWord;
use crate::kernel::ids::Seq;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Exit code of a command that was recorded when a stop has been asked for.
pub const EXIT_RECORDED_BUT_STOP: u8 = 10;

/// One command of `midwatch task`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum TaskCommand {
    /// Saves a checkpoint and returns once it is durable.
    Checkpoint {
        /// The checkpoint.
        data: Box<RawValue>,
    },
    /// Tells how far the work is.
    Progress {
        /// Units done.
        done: u64,
        /// Units in all.
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        /// What is being done, for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Leaves a result.
    Result {
        /// The result.
        data: Box<RawValue>,
    },
    /// Tells an error.
    #[serde(rename = "error")]
    Fail {
        /// In words.
        message: String,
        /// Whether another attempt may mend it.
        retryable: bool,
    },
    /// Asks whether to stop.
    #[serde(rename = "poll")]
    ShouldStop,
}

/// What the command said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Exit code of the command.
    pub exit: u8,
    /// Sequence number of the record, for a checkpoint.
    pub seq: Option<Seq>,
    /// Why the handler should stop, if it should.
    pub stop: Option<StopWord>,
}

/// Where the channel of the attempt is, as the handler's environment tells it.
#[derive(Debug)]
pub struct Inside {
    /// A duplicate of the control descriptor.
    pub control: OwnedFd,
    /// The attempt's own directory.
    pub tmp: PathBuf,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskCommandError {
    /// The worker refused the line; nothing was recorded.
    Refused(String),
    /// The channel broke; whether the line was recorded is not known.
    Broken(String),
}

impl TaskCommandError {
    /// The exit code of the command.
    pub const fn exit(&self) -> u8 {
        match self {
            Self::Refused(_) => 2,
            Self::Broken(_) => 8,
        }
    }
}

impl fmt::Display for TaskCommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "not recorded: {why}"),
            Self::Broken(why) => write!(f, "the control channel is broken: {why}"),
        }
    }
}

impl std::error::Error for TaskCommandError {}

#[derive(Serialize)]
struct Marked<'a> {
    #[serde(flatten)]
    command: &'a TaskCommand,
    id: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    seq: Option<Seq>,
    #[serde(default)]
    stop: Option<StopWord>,
    #[serde(default)]
    error: Option<String>,
}

/// Says one thing on the control channel and waits for its answer, under the lock of the attempt.
///
/// A checkpoint waits as long as the engine is away.
pub fn say(command: &TaskCommand, inside: Inside) -> Result<Said, TaskCommandError> {
    let lock = lock(&inside.tmp).map_err(|error| TaskCommandError::Broken(error.to_string()))?;
    let said = exchange(command, &UnixStream::from(inside.control));
    drop(lock);
    said
}

/// Says one thing and waits for its answer, while nobody else speaks.
pub(super) fn exchange(
    command: &TaskCommand,
    mut stream: &UnixStream,
) -> Result<Said, TaskCommandError> {
    let mark = format!("{:016x}", rand::random::<u64>());
    let mut line = serde_json::to_vec(&Marked { command, id: &mark })
        .map_err(|error| TaskCommandError::Refused(error.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(|error| TaskCommandError::Broken(error.to_string()))?;
    let answer = answer_to(&mark, stream)?;
    if !answer.ok {
        return Err(TaskCommandError::Refused(answer.error.unwrap_or_default()));
    }
    let exit = match (command, &answer.stop) {
        (TaskCommand::ShouldStop, None) => 1,
        (TaskCommand::Checkpoint { .. } | TaskCommand::Progress { .. }, Some(_)) => {
            EXIT_RECORDED_BUT_STOP
        }
        (_, _) => 0,
    };
    Ok(Said { exit, seq: answer.seq, stop: answer.stop })
}

/// Held while a line and its answer are under way.
fn lock(tmp: &std::path::Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let lock = options.write(true).create(true).truncate(false).mode(0o600);
    let lock = lock.open(tmp.join("control.lock"))?;
    fs2::FileExt::lock_exclusive(&lock)?;
    Ok(lock)
}

fn answer_to(mark: &str, stream: &UnixStream) -> Result<Answer, TaskCommandError> {
    let mut answers = BufReader::new(stream);
    let mut text = String::new();
    loop {
        text.clear();
        let read = answers
            .read_line(&mut text)
            .map_err(|error| TaskCommandError::Broken(error.to_string()))?;
        if read == 0 {
            return Err(TaskCommandError::Broken("the worker is gone".into()));
        }
        match serde_json::from_str::<Answer>(&text) {
            Ok(answer) if answer.id.as_deref() == Some(mark) => return Ok(answer),
            // The answer to a line that somebody else wrote and did not wait for. A line that was
            // not understood has no mark either, but this one was written by us.
            Ok(_) => {}
            Err(error) => return Err(TaskCommandError::Broken(error.to_string())),
        }
    }
}
