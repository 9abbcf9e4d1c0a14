//! Bulk submission: NDJSON in, NDJSON out, in the order of the lines.
//!
//! Lines are decided a thousand at a time, while the next thousand is read. A bad line is answered
//! with its number and stops nothing. Answers that nobody reads hold the reading of lines up, so
//! that memory stays bounded: read while you write, once there are very many.

use super::app::App;
use super::hand::{Answers, Pending};
use super::peer::Peer;
use super::problems::{Failure, problem};
use crate::api::{BulkLine, Code, Problem};
use crate::kernel::{Answer, Command};
use crate::limits::{BULK_BODY_BYTES_MAX, CONTROL_LINE_BYTES_MAX};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body_util::BodyExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;

/// Lines decided in one request to the engine.
const LINES_AT_ONCE: usize = 1000;

/// Bytes of lines decided in one request to the engine, give or take one line.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Pieces of answers that may wait to be read; each answers up to a thousand lines.
const PIECES_MAX: usize = 64;

/// How long lines wait for company in the middle of a body.
const COMPANY_WAIT: Duration = Duration::from_millis(5);

/// Longest silence in the middle of a body.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A body that is sent piece by piece.
pub(crate) struct Pieces(pub(crate) mpsc::Receiver<Bytes>);

impl axum::body::HttpBody for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        self.0
            .poll_recv(context)
            .map(|piece| piece.map(|piece| Ok(hyper::body::Frame::data(piece))))
    }
}

/// Answers a bulk submission while it is still being read.
pub(crate) fn submit_many(app: Arc<App>, peer: Peer, body: Body) -> Response {
    let (to, pieces) = mpsc::channel(PIECES_MAX);
    tokio::spawn(async move {
        let _room = app.room_for_a_large_body().await;
        let gathered = Gathered::default();
        let mut bulk = Bulk { app: &app, peer, to, line: 0, gathered, pending: None };
        if let Err(Over) = bulk.take(body).await {
            tracing::debug!("a bulk submission was broken off after line {}", bulk.line);
        }
    });
    let mut response = Response::new(Body::new(Pieces(pieces)));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Nobody listens any more, or the rest cannot be read.
struct Over;

/// What became of one line before it was decided.
enum Judged {
    Asked,
    Refused(Problem),
}

/// Lines on their way through the engine.
struct Asked {
    judged: Vec<(u64, Judged)>,
    answers: Result<Pending<Answers>, Problem>,
}

/// Lines that wait for company: a thousand in one frame cost little more than one.
#[derive(Default)]
struct Gathered {
    judged: Vec<(u64, Judged)>,
    commands: Vec<Command>,
    bytes: usize,
}

struct Bulk<'a> {
    app: &'a App,
    peer: Peer,
    to: mpsc::Sender<Bytes>,
    /// Lines read so far.
    line: u64,
    gathered: Gathered,
    pending: Option<Asked>,
}

impl Bulk<'_> {
    async fn take(&mut self, mut body: Body) -> Result<(), Over> {
        let (mut buffer, mut total) = (Vec::new(), 0_usize);
        loop {
            let frame = match self.frame(&mut body).await? {
                Some(Ok(Ok(frame))) => frame,
                None => break,
                Some(Ok(Err(error))) => {
                    return self.break_off(&format!("it ended early: {error}")).await;
                }
                Some(Err(_late)) => return self.break_off("it did not arrive in time").await,
            };
            let Ok(bytes) = frame.into_data() else { continue };
            total = total.saturating_add(bytes.len());
            if BULK_BODY_BYTES_MAX < total {
                return self.break_off("it is larger than 64MiB; send it in pieces").await;
            }
            buffer.extend_from_slice(&bytes);
            self.take_lines(&mut buffer).await?;
            if CONTROL_LINE_BYTES_MAX.saturating_mul(2) < buffer.len() {
                return self.break_off("a line is longer than any task may be").await;
            }
        }
        self.take_line(&buffer).await?;
        self.ask().await?;
        self.settle().await
    }

    /// The next piece of the body. When it lets us wait, what was gathered goes on alone.
    async fn frame(
        &mut self,
        body: &mut Body,
    ) -> Result<Option<Result<Result<hyper::body::Frame<Bytes>, axum::Error>, Elapsed>>, Over> {
        if !self.gathered.judged.is_empty() {
            if let Ok(frame) = tokio::time::timeout(COMPANY_WAIT, body.frame()).await {
                return Ok(frame.map(Ok));
            }
            self.ask().await?;
            self.settle().await?;
        }
        match tokio::time::timeout(SILENCE_MAX, body.frame()).await {
            Ok(frame) => Ok(frame.map(Ok)),
            Err(late) => Ok(Some(Err(late))),
        }
    }

    /// Answers what was read, then says why the rest was not.
    async fn break_off(&mut self, why: &str) -> Result<(), Over> {
        self.ask().await?;
        self.settle().await?;
        let detail = format!("the rest of the body was not read: {why}");
        let problem = Problem::new(Code::InvalidRequest, detail);
        let line = self.line.saturating_add(1);
        let mut piece = Vec::new();
        put(&mut piece, &BulkLine { line, id: None, existed: false, error: Some(problem) });
        self.send(piece).await?;
        Err(Over)
    }

    /// Takes the whole lines out of the buffer.
    async fn take_lines(&mut self, buffer: &mut Vec<u8>) -> Result<(), Over> {
        let Some(newline) = buffer.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let rest = buffer.split_off(newline + 1);
        let mut lines = std::mem::replace(buffer, rest);
        lines.pop();
        for line in lines.split(|byte| *byte == b'\n') {
            self.take_line(line).await?;
        }
        Ok(())
    }

    /// Takes one line; an empty one is counted and passed over.
    async fn take_line(&mut self, line: &[u8]) -> Result<(), Over> {
        self.line = self.line.saturating_add(1);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let gathered = &mut self.gathered;
        let judged = match self.app.policy().judge(self.peer).spec(line) {
            Ok(spec) => {
                gathered.commands.push(Command::Submit(spec));
                Judged::Asked
            }
            Err(Failure(problem)) => Judged::Refused(problem),
        };
        gathered.judged.push((self.line, judged));
        gathered.bytes += line.len();
        if gathered.judged.len() == LINES_AT_ONCE || BYTES_AT_ONCE <= gathered.bytes {
            self.ask().await?;
        }
        Ok(())
    }

    /// Asks the engine for what was gathered, and answers what was asked before.
    async fn ask(&mut self) -> Result<(), Over> {
        let Gathered { judged, commands, bytes: _ } = std::mem::take(&mut self.gathered);
        if judged.is_empty() {
            return Ok(());
        }
        // Lines that found the queue full are answered so, each; the client says them again.
        let answers = self.app.hand.ask(self.peer.actor(), commands);
        self.settle().await?;
        self.pending = Some(Asked { judged, answers });
        Ok(())
    }

    /// Answers the lines that are on their way.
    async fn settle(&mut self) -> Result<(), Over> {
        let Some(Asked { judged, answers }) = self.pending.take() else { return Ok(()) };
        let answers = match answers {
            Ok(pending) => pending.await,
            Err(problem) => Err(problem),
        };
        let (mut answers, failed) = match answers {
            Ok(answers) => (answers.into_iter(), None),
            Err(problem) => (Vec::new().into_iter(), Some(problem)),
        };
        let mut piece = Vec::with_capacity(judged.len() * 48);
        for (line, judged) in judged {
            let answered = match judged {
                Judged::Refused(problem) => Err(problem),
                Judged::Asked => match (answers.next(), &failed) {
                    (Some(Ok(Answer::Submitted { task, existed })), _) => Ok((task, existed)),
                    (Some(Err(rejection)), _) => Err(problem(&rejection)),
                    (_, Some(failed)) => Err(failed.clone()),
                    _ => Err(super::tasks::unexpected().0),
                },
            };
            let answered = match answered {
                Ok((id, existed)) => BulkLine { line, id: Some(id), existed, error: None },
                Err(problem) => BulkLine { line, id: None, existed: false, error: Some(problem) },
            };
            put(&mut piece, &answered);
        }
        self.send(piece).await
    }

    async fn send(&self, piece: Vec<u8>) -> Result<(), Over> {
        self.to.send(piece.into()).await.map_err(|_gone| Over)
    }
}

fn put(piece: &mut Vec<u8>, line: &BulkLine) {
    if let Err(error) = serde_json::to_writer(&mut *piece, line) {
        tracing::error!("cannot write an answer: {error}");
    }
    piece.push(b'\n');
}
