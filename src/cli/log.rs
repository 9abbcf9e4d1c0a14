//! `midwatch log`: what an attempt wrote, byte for byte.

use super::arguments::task_id;
use super::connection::{get, lost, with_query};
use super::failure::{Failure, exit};
use super::patience::Patience;
use super::session::Session;
use crate::api::History;
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

/// Prints it.
pub(crate) fn run(args: &Args, follow: bool, session: &mut Session<'_>) -> Result<u8, Failure> {
    let tail = args.tail.map(|tail| ("tail", tail.to_string()));
    if follow || args.follow {
        return pursue(args, tail, session);
    }
    let api = session.api;
    let (_, mut log) = api.read_log(&path(args.id, args.attempt, tail, false))?;
    match print(&mut *log, session) {
        (_, Ok(())) => Ok(exit::DONE),
        (_, Err(failure)) => Err(failure),
    }
}

fn path(id: TaskId, attempt: Option<u32>, begin: Option<(&str, String)>, follow: bool) -> String {
    let mut query = vec![("attempt", attempt.map(|attempt| attempt.to_string()))];
    query.extend(begin.map(|(name, value)| (name, Some(value))));
    query.push(("follow", follow.then(|| "1".to_owned())));
    with_query(&format!("/v1/tasks/{id}/log"), &query)
}

/// Prints what comes until there is no more; how many bytes that were, and how it ended.
fn print(log: &mut dyn BufRead, session: &mut Session<'_>) -> (u64, Result<(), Failure>) {
    let mut printed = 0;
    loop {
        let length = match log.fill_buf() {
            Ok([]) => return (printed, Ok(())),
            Ok(bytes) => {
                let written = session.out.write_all(bytes).and_then(|()| session.out.flush());
                if let Err(error) = written {
                    return (printed, Err(error.into()));
                }
                bytes.len()
            }
            Err(error) => return (printed, Err(lost(&error))),
        };
        printed += length as u64;
        log.consume(length);
    }
}

/// Prints until the attempt has ended, also when the daemon goes away and comes back meanwhile.
fn pursue(
    args: &Args,
    tail: Option<(&str, String)>,
    session: &mut Session<'_>,
) -> Result<u8, Failure> {
    let mut patience = Patience::default();
    let attempt = match args.attempt {
        Some(attempt) => attempt,
        None => patience.ask(session, |session| last_attempt(args.id, session))?,
    };
    let mut begin = tail;
    loop {
        let path = path(args.id, Some(attempt), begin, true);
        let api = session.api;
        let (offset, mut log) = patience.ask(session, |_| api.read_log(&path))?;
        let (printed, ended) = print(&mut *log, session);
        drop(log);
        match ended {
            Err(failure) if failure.code() != exit::UNREACHABLE => return Err(failure),
            _ => {}
        }
        // A daemon that goes away ends the answer as if the attempt were over.
        if patience.ask(session, |session| is_over(args.id, attempt, session))? {
            return Ok(exit::DONE);
        }
        begin = Some(("offset", (offset + printed).to_string()));
        patience.bear(Failure::new(exit::UNREACHABLE, "the daemon went away"), session)?;
    }
}

/// The number of the last attempt, as soon as there is one.
fn last_attempt(id: TaskId, session: &Session<'_>) -> Result<u32, Failure> {
    loop {
        let history: History = get(session.api, &format!("/v1/tasks/{id}/history"))?;
        if let Some(last) = history.attempts.last() {
            return Ok(last.attempt);
        }
        // The daemon waits a while for the first one, so asking again is cheap.
        match session.api.read_log(&path(id, None, Some(("tail", "0".to_owned())), true)) {
            Err(failure) if failure.code() != NO_SUCH || history.task.status.is_terminal() => {
                return Err(failure);
            }
            _ => {}
        }
    }
}

/// Whether an attempt has ended.
fn is_over(id: TaskId, attempt: u32, session: &Session<'_>) -> Result<bool, Failure> {
    let history: History = get(session.api, &format!("/v1/tasks/{id}/history"))?;
    let mut attempts = history.attempts.iter();
    Ok(attempts.all(|known| known.attempt != attempt || known.ended_at.is_some()))
}

#[cfg(test)]
mod tests {
    use crate::api::{Code, History, Problem};
    use crate::cli::samples;
    use crate::kernel::status::Status;

    fn history(attempts: usize, last_is_over: bool) -> String {
        let mut history = samples::history();
        history.attempts.truncate(attempts);
        if let Some(last) = history.attempts.last_mut() {
            last.ended_at = last_is_over.then(|| "2026-03-14T02:40:00Z".to_owned());
        }
        let task = samples::task(7, Status::Running);
        serde_json::to_string(&History { task, ..history }).unwrap()
    }

    #[test]
    fn a_log_is_followed_over_an_absence_of_the_daemon() {
        let no_log = Problem::new(Code::NoSuchLog, "not yet");
        let away = Problem::new(Code::ShuttingDown, "the daemon is going away");
        let [no_log, away] = [no_log, away].map(|it| serde_json::to_string(&it).unwrap());
        let answers = [
            ("GET /v1/tasks/7/history", history(0, false)),
            ("GET /v1/tasks/7/log?tail=0&follow=1", no_log),
            ("GET /v1/tasks/7/history", history(1, false)),
            ("GET /v1/tasks/7/log?attempt=1&tail=5&follow=1", "one\n".to_owned()),
            ("GET /v1/tasks/7/history", away.clone()),
            ("GET /v1/tasks/7/history", history(1, false)),
            ("GET /v1/tasks/7/log?attempt=1&offset=4&follow=1", away),
            ("GET /v1/tasks/7/log?attempt=1&offset=4&follow=1", "two\n".to_owned()),
            ("GET /v1/tasks/7/history", history(1, true)),
        ];
        let played = samples::play("log 7 -f --tail 5", &answers);
        assert_eq!((played.code, &*played.out), (0, "one\ntwo\n"), "{played}");
        assert!(played.err.contains("waiting for it"), "{played}");
    }

    #[test]
    fn the_end_of_a_log_is_read_in_one_request() {
        let answers = [("GET /v1/tasks/7/log?attempt=2&tail=1", "b\n".to_owned())];
        let played = samples::play("log 7 --attempt 2 --tail 1", &answers);
        assert_eq!((played.code, &*played.err), (0, ""), "{played}");
    }
}
