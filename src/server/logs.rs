//! Output of attempts, byte for byte, from the files that workers write.

use super::app::{Answered, App, WAIT_MAX, number};
use super::bulk::Pieces;
use super::log_file::LogFile;
use super::problems::{Failure, invalid};
use super::views::log_path;
use super::watches::Subject;
use crate::api::{Code, Problem};
use crate::kernel::Rejection;
use crate::kernel::ids::TaskId;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State as Shared};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use serde::Deserialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Bytes read at once.
const PIECE_BYTES: usize = 64 << 10;

/// How often a followed log is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Pieces that may wait for their reader.
const PIECES_MAX: usize = 4;

/// Query of a log.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogQuery {
    /// Which attempt; the last one when absent.
    attempt: Option<u32>,
    /// Where to begin.
    offset: Option<u64>,
    /// Only this many lines from the end.
    tail: Option<u64>,
    /// 1: go on until the attempt has ended.
    follow: Option<u8>,
}

/// The attempt whose log is wanted.
#[derive(Clone, Copy, Debug)]
struct Which {
    task: TaskId,
    attempt: u32,
    running: bool,
}

/// `GET /v1/tasks/{id}/log`.
pub(crate) async fn log(
    Shared(app): Shared<Arc<App>>,
    Path(id): Path<String>,
    query: Result<Query<LogQuery>, QueryRejection>,
) -> Answered {
    let task: TaskId = number("task", &id)?;
    let Query(query) = query.map_err(|error| invalid(error.body_text()))?;
    let follow = query.follow.unwrap_or(0) != 0;
    if follow && query.attempt.is_none() {
        first_attempt(&app, task).await?;
    }
    let which = which(&app, task, query.attempt).await?;
    let path = app.data_dir.join(log_path(task, which.attempt));
    let file = match File::open(&path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound && which.running => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(no_log(which)),
        Err(error) => return Err(unreadable(&path, &error)),
    };
    let start = match (&file, query.offset, query.tail) {
        (_, Some(_), Some(_)) => return Err(invalid("`offset` and `tail` exclude each other")),
        (Some(file), None, Some(lines)) => {
            tail_start(file, lines).map_err(|error| unreadable(&path, &error))?
        }
        (_, offset, _) => offset.unwrap_or(0),
    };
    let (to, pieces) = mpsc::channel(PIECES_MAX);
    let log = LogFile::new(path.clone(), file, start);
    let mut reader = Reader { app, which, log, to };
    tokio::spawn(async move {
        if let Err(error) = reader.run(follow).await {
            tracing::warn!("cannot read {}: {error}", path.display());
        }
    });
    let mut response = Response::new(Body::new(Pieces(pieces)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    // Whatever a handler wrote, a browser must not take it for a page.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let attempt = HeaderValue::from(which.attempt);
    headers.insert(HeaderName::from_static("midwatch-attempt"), attempt);
    Ok(response)
}

/// Waits until the task has an attempt whose log can be followed, or ended without one; as long
/// as any wait, then the caller asks again.
async fn first_attempt(app: &App, task: TaskId) -> Result<(), Failure> {
    let begun = app.hand.watch(Subject::Task(task), move |facts| {
        let known = facts.engine.state().task(task);
        known
            .is_none_or(|known| 0 < known.attempt_count() || known.status.is_terminal())
            .then_some(())
    })?;
    tokio::select! {
        begun = begun => Ok(begun?),
        () = tokio::time::sleep(WAIT_MAX.duration()) => Ok(()),
        () = app.closing() => Ok(()),
    }
}

async fn which(app: &App, task: TaskId, attempt: Option<u32>) -> Result<Which, Failure> {
    let found = app.hand.read(move |facts| {
        let known = facts.engine.state().task_or_why(task)?;
        let last = known.attempt_count();
        let attempt = attempt.unwrap_or(last);
        let running = attempt == last && known.lease().is_some();
        let exists = 0 < attempt && attempt <= last;
        Ok::<_, Rejection>((exists, Which { task, attempt, running }))
    })?;
    match found.await?? {
        (true, which) => Ok(which),
        (false, which) => Err(no_log(which)),
    }
}

fn no_log(which: Which) -> Failure {
    let Which { task, attempt, .. } = which;
    let detail = match attempt {
        0 => {
            format!("task {task} has no attempt 0: they count from 1, and it may not have run yet")
        }
        attempt => format!("there is no log of attempt {attempt} of task {task}"),
    };
    let help = format!("midwatch history {task}");
    Failure(Problem::new(Code::NoSuchLog, detail).with_help(help))
}

fn unreadable(path: &std::path::Path, error: &io::Error) -> Failure {
    let detail = format!("cannot read {}: {error}", path.display());
    Failure(Problem::new(Code::NoSuchLog, detail))
}

/// Where the last `lines` lines begin. A last line without a newline counts as one.
fn tail_start(file: &File, lines: u64) -> io::Result<u64> {
    let length = file.metadata()?.len();
    if lines == 0 {
        return Ok(length);
    }
    let mut buffer = vec![0; PIECE_BYTES];
    let (mut end, mut found) = (length, 0);
    while 0 < end {
        let begin = end.saturating_sub(PIECE_BYTES as u64);
        let size = usize::try_from(end - begin).unwrap_or(PIECE_BYTES);
        let piece = buffer.get_mut(..size).unwrap_or_default();
        file.read_exact_at(piece, begin)?;
        for (place, _) in piece.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let at = begin + place as u64;
            // The newline that ends the file begins no line.
            found += u64::from(at + 1 != length);
            if found == lines {
                return Ok(at + 1);
            }
        }
        end = begin;
    }
    Ok(0)
}

struct Reader {
    app: Arc<App>,
    which: Which,
    log: LogFile,
    to: mpsc::Sender<Bytes>,
}

impl Reader {
    async fn run(&mut self, follow: bool) -> io::Result<()> {
        loop {
            // Asked before the file is read, or what is written in between would be missed.
            let goes_on = follow && self.is_running().await;
            if !self.send_rest().await? || !goes_on {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(FOLLOW_EVERY) => {}
                () = self.to.closed() => return Ok(()),
                () = self.app.closing() => return Ok(()),
            }
        }
    }

    /// Sends what is there; false when nobody reads it.
    async fn send_rest(&mut self) -> io::Result<bool> {
        while let Some(piece) = self.log.next(PIECE_BYTES)? {
            if self.to.send(piece.into()).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn is_running(&self) -> bool {
        let Which { task, attempt, .. } = self.which;
        let running = self.app.hand.read(move |facts| {
            let known = facts.engine.state().task(task);
            known.is_some_and(|task| task.attempt_count() == attempt && task.lease().is_some())
        });
        match running {
            Ok(running) => running.await.unwrap_or(false),
            Err(busy) => busy.code == Code::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let long = "x".repeat(PIECE_BYTES) + "\n";
        for (text, lines, rest) in [
            ("a\nb\nc\n", 1, "c\n"),
            ("a\nb\nc", 1, "c"),
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\nb\n", 0, ""),
            ("", 3, ""),
            ("\n\n", 1, "\n"),
            (&format!("a\n{long}"), 1, &long),
            (&format!("a\n{long}b\n"), 2, &format!("{long}b\n")),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let start = usize::try_from(tail_start(&file, lines).unwrap()).unwrap();
            assert!(&text[start..] == rest, "{lines} lines of {} bytes", text.len());
        }
    }
}
