//! `midwatch log`: what an attempt wrote, byte for byte.

use super::arguments::task_id;
use super::connection::{get, lost, stream, with_query};
use super::failure::Failure;
use super::session::Session;
use crate::api::TaskView;
use crate::kernel::ids::TaskId;
use std::io::BufRead;

/// Which log, and how much of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID", value_parser = task_id)]
    id: TaskId,
    /// Which attempt, from 1 [default: the last one]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Go on until the attempt has ended
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
}

/// The exit code of what does not exist.
const NO_SUCH: u8 = 3;

/// Whether the task may still get a log to follow.
fn waits(args: &Args, session: &Session<'_>) -> Result<bool, Failure> {
    let task: TaskView = get(session.api, &format!("/v1/tasks/{}", args.id))?;
    Ok(args.attempt.is_none() && !task.status.is_terminal())
}

/// Prints it.
pub(crate) fn run(args: &Args, follow: bool, session: &mut Session<'_>) -> Result<u8, Failure> {
    let follow = follow || args.follow;
    let query = [
        ("attempt", args.attempt.map(|attempt| attempt.to_string())),
        ("tail", args.tail.map(|tail| tail.to_string())),
        ("follow", follow.then(|| "1".to_owned())),
    ];
    let path = with_query(&format!("/v1/tasks/{}/log", args.id), &query);
    let mut log = loop {
        match stream(session.api, &path) {
            // It has not run yet. The daemon has waited a while for it, so asking again is cheap.
            Err(failure) if follow && failure.code() == NO_SUCH && waits(args, session)? => {}
            log => break log?,
        }
    };
    loop {
        let bytes = log.fill_buf().map_err(|error| lost(&error))?;
        if bytes.is_empty() {
            return Ok(0);
        }
        session.out.write_all(bytes)?;
        session.out.flush()?;
        let length = bytes.len();
        log.consume(length);
    }
}
