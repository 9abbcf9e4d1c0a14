//! `midwatch task`: a handler's word on its control channel.

use super::failure::Failure;
use super::payload;
use super::session::{Format, Session};
use crate::limits::{PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX};
use crate::process;
use crate::worker::task_cmd::{self, Inside, TaskCommand};
use serde_json::json;
use serde_json::value::RawValue;

/// What to say.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Record how far the work is; the next attempt gets it. Exits 10 when a stop was asked for
    Checkpoint {
        /// The checkpoint: JSON, @FILE, or - for standard input
        #[arg(value_name = "JSON", allow_negative_numbers = true)]
        data: String,
    },
    /// Tell how far the work is. Exits 10 when a stop was asked for
    Progress {
        /// Units done
        #[arg(value_name = "DONE")]
        done: u64,
        /// Units in all
        #[arg(value_name = "TOTAL")]
        total: Option<u64>,
    },
    /// Leave a result, kept when the attempt ends
    Result {
        /// The result: JSON, @FILE, or - for standard input
        #[arg(value_name = "JSON", allow_negative_numbers = true)]
        data: String,
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

/// Says it.
pub(crate) fn run(command: &Command, session: &mut Session<'_>) -> Result<u8, Failure> {
    let command = words(command, session)?;
    let said = task_cmd::say(&command, inside(session)?)
        .map_err(|error| Failure::new(error.exit(), error.to_string()))?;
    if session.format != Format::Table {
        session.json(&json!({ "seq": said.seq, "stop": said.stop }))?;
    }
    Ok(said.exit)
}

/// The channel that the worker gave the handler.
fn inside(session: &Session<'_>) -> Result<Inside, Failure> {
    let outside = || {
        Failure::usage("there is no control channel here: `midwatch task` is for handlers")
            .with_help("a handler is a command of the config, run by a worker for a task")
    };
    let environment = session.environment;
    let number = environment.control_fd.as_ref().ok_or_else(outside)?;
    let number = number.parse().map_err(|_number| outside())?;
    let control = process::inherited(number).map_err(|_closed| outside())?;
    let tmp = environment.tmp.clone().ok_or_else(outside)?;
    Ok(Inside { control, tmp })
}

/// The command as the channel has it.
fn words(command: &Command, session: &mut Session<'_>) -> Result<TaskCommand, Failure> {
    let mut json = |typed: &str, what, bytes_max| {
        let json = payload::read(typed, what, bytes_max, &mut *session.input)?;
        one_line(&json)
    };
    Ok(match command {
        Command::Checkpoint { data: typed } => {
            TaskCommand::Checkpoint { data: json(typed, "checkpoint", PAYLOAD_BYTES_MAX)? }
        }
        Command::Result { data: typed } => {
            TaskCommand::Result { data: json(typed, "result", RESULT_BYTES_MAX)? }
        }
        Command::Progress { done, total } => {
            TaskCommand::Progress { done: *done, total: *total, note: None }
        }
        Command::Fail { fatal, message } => {
            TaskCommand::Fail { message: message.clone(), retryable: !fatal }
        }
        Command::ShouldStop => TaskCommand::ShouldStop,
    })
}

/// The same JSON on one line, as the channel has it: line ends only stand between its tokens.
fn one_line(json: &RawValue) -> Result<Box<RawValue>, Failure> {
    let line = json.get().replace(['\n', '\r'], " ");
    RawValue::from_string(line).map_err(|error| Failure::usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::samples;

    #[test]
    fn outside_a_handler_there_is_nobody_to_tell() {
        for words in ["checkpoint {}", "progress 1 2", "result 7", "fail --fatal x", "should-stop"]
        {
            let played = samples::play(&format!("task {words}"), &[]);
            assert_eq!((played.code, played.out.as_str()), (2, ""), "{words}");
            assert!(played.err.contains("is for handlers"), "{}", played.err);
        }
        assert!(samples::play("task checkpoint {", &[]).err.contains("the checkpoint is not JSON"));
    }

    #[test]
    fn json_over_several_lines_becomes_one() {
        let json = samples::raw("{\r\n  \"a\": \"b\\n\",\n  \"c\": 1.50\n}");
        let line = one_line(&json).unwrap();
        assert_eq!(line.get(), "{    \"a\": \"b\\n\",   \"c\": 1.50 }");
    }
}
