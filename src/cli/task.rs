//! `midwatch task`: a handler's word on its control channel.
//!
//! The channel is one socket for all processes of a handler, so a line and its answer are held
//! together by a record lock, which belongs to a process and not, as `flock` does, to the shared
//! description. The answer is read byte by byte: what follows it is somebody else's.

use super::failure::{Failure, exit};
use super::payload;
use super::session::{Format, Session};
use crate::limits::{CONTROL_LINE_BYTES_MAX, PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What to say.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Record how far the work is; the next attempt gets it. Exits 10 when a stop was asked for
    Checkpoint {
        /// The checkpoint: JSON, @FILE, or - for standard input
        #[arg(value_name = "JSON", allow_negative_numbers = true)]
        json: String,
    },
    /// Tell how far the work is. Exits 10 when a stop was asked for
    Progress {
        /// Units done
        #[arg(value_name = "DONE")]
        done: u64,
        /// Units in all
        #[arg(value_name = "TOTAL")]
        total: Option<u64>,
        /// A word about it
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Leave a result, kept when the attempt ends
    Result {
        /// The result: JSON, @FILE, or - for standard input
        #[arg(value_name = "JSON", allow_negative_numbers = true)]
        json: String,
    },
    /// Say why the attempt fails, kept when it ends
    Fail {
        /// No other run would mend it
        #[arg(long)]
        fatal: bool,
        /// The reason
        #[arg(value_name = "MSG")]
        message: String,
    },
    /// Ask whether to stop: exits 0 when it should, 1 when not
    ShouldStop,
}

/// What the worker answers.
#[derive(Debug, Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    stop: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

/// Says it.
pub(crate) fn run(command: &Command, session: &mut Session<'_>) -> Result<u8, Failure> {
    let line = line(command, session)?;
    let channel = channel(session)?;
    let answer = exchange(channel.as_fd(), &line).map_err(|error| {
        Failure::new(exit::UNKNOWN, format!("the worker does not answer: {error}"))
    })?;
    if session.format != Format::Table {
        session.print(&format!("{answer}\n"))?;
    }
    let answer: Answer = serde_json::from_str(&answer).map_err(|error| {
        Failure::new(exit::UNKNOWN, format!("the worker's answer is not understood: {error}"))
    })?;
    code(command, &answer)
}

/// The descriptor that the worker gave the handler.
fn channel(session: &Session<'_>) -> Result<std::os::fd::OwnedFd, Failure> {
    let outside = || {
        Failure::usage("there is no control channel: this is for use inside a handler")
            .with_help("a handler is a command of the config; see spec/handlers.md")
    };
    let number = session.environment.control_fd.as_ref().ok_or_else(outside)?;
    let number = number.parse().map_err(|_number| outside())?;
    inherited(number).map_err(|_closed| outside())
}

/// The line that says it.
fn line(command: &Command, session: &mut Session<'_>) -> Result<Vec<u8>, Failure> {
    let mut json =
        |typed: &str, what, bytes_max| payload::read(typed, what, bytes_max, &mut *session.input);
    let line = match command {
        Command::Checkpoint { json: typed } => {
            with_data("checkpoint", &json(typed, "checkpoint", PAYLOAD_BYTES_MAX)?)
        }
        Command::Result { json: typed } => {
            with_data("result", &json(typed, "result", RESULT_BYTES_MAX)?)
        }
        Command::Progress { done, total, note } => {
            let mut line = json!({ "op": "progress", "done": done });
            let optional =
                [("total", total.map(Value::from)), ("note", note.as_deref().map(Value::from))];
            for (name, value) in optional {
                if let (Some(value), Some(line)) = (value, line.as_object_mut()) {
                    line.insert(name.to_owned(), value);
                }
            }
            line.to_string()
        }
        Command::Fail { fatal, message } => {
            json!({ "op": "error", "message": message, "retryable": !fatal }).to_string()
        }
        Command::ShouldStop => json!({ "op": "poll" }).to_string(),
    };
    let mut line = line.into_bytes();
    line.push(b'\n');
    if CONTROL_LINE_BYTES_MAX < line.len() {
        return Err(Failure::usage("that is too long for the control channel"));
    }
    Ok(line)
}

/// A line with JSON as it was given. Line ends can only stand between its tokens, and go.
fn with_data(op: &str, data: &RawValue) -> String {
    let data = data.get().replace(['\n', '\r'], " ");
    format!(r#"{{"op":"{op}","data":{data}}}"#)
}

/// The exit code that an answer makes.
fn code(command: &Command, answer: &Answer) -> Result<u8, Failure> {
    if !answer.ok {
        let why = answer.error.as_deref().unwrap_or("the worker refused it");
        let stale = answer.stop.as_deref() == Some("superseded");
        let code = if stale { 4 } else { exit::USAGE };
        return Err(Failure::new(code, why));
    }
    let stop = answer.stop.is_some();
    Ok(match command {
        Command::ShouldStop => u8::from(!stop),
        Command::Checkpoint { .. } | Command::Progress { .. } if stop => exit::STOP,
        Command::Checkpoint { .. }
        | Command::Progress { .. }
        | Command::Result { .. }
        | Command::Fail { .. } => exit::DONE,
    })
}

/// Sends one line and reads the one that answers it.
fn exchange(channel: BorrowedFd<'_>, line: &[u8]) -> io::Result<String> {
    rustix::fs::fcntl_lock(channel, rustix::fs::FlockOperation::LockExclusive)?;
    let mut rest = line;
    while !rest.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(channel, rest))?;
        rest = rest.get(written..).unwrap_or_default();
    }
    let mut answer = Vec::new();
    loop {
        let mut byte = [0];
        if rustix::io::retry_on_intr(|| rustix::io::read(channel, &mut byte[..]))? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let [byte] = byte;
        if byte == b'\n' {
            break;
        }
        if CONTROL_LINE_BYTES_MAX < answer.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        answer.push(byte);
    }
    rustix::fs::fcntl_lock(channel, rustix::fs::FlockOperation::Unlock)?;
    String::from_utf8(answer).map_err(|_text| io::ErrorKind::InvalidData.into())
}

fn inherited(_number: i32) -> io::Result<std::os::fd::OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}
