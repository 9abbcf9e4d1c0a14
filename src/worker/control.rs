//! The control channel: one JSON object a line, each answered by one.
//!
//! A line that is no such object, is too deep or too long is answered with `ok:false` and changes
//! nothing. Lines are handled one at a time and in order: the next is read once the last was
//! answered, and until then the socket holds what the handler writes.

use super::outcome::shorten;
use crate::api::{Progress, StopWord};
use crate::kernel::ids::Seq;
use crate::limits::{
    CONTROL_LINE_BYTES_MAX, JSON_DEPTH_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX,
    deeper_than,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

/// What a handler asks for.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Checkpoint(Box<RawValue>),
    Progress(Progress),
    Result(Box<RawValue>),
    Error { message: String, retryable: bool },
    Poll,
}

/// A request, and the mark it wants to find in its answer.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) request: Result<Request, String>,
    pub(super) id: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    op: String,
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
    done: Option<u64>,
    total: Option<u64>,
    note: Option<String>,
    message: Option<String>,
    retryable: Option<bool>,
}

impl Line {
    pub(super) fn parse(line: &[u8]) -> Self {
        match Self::parse_wire(line) {
            Ok(wire) => {
                let id = wire.id.filter(|id| id.get().len() <= NAME_BYTES_MAX);
                let id = id.map(ToOwned::to_owned);
                let request = if deeper_than(line, JSON_DEPTH_MAX).is_some() {
                    Err(format!("nested deeper than {JSON_DEPTH_MAX}"))
                } else {
                    Request::from_wire(wire)
                };
                Self { request, id }
            }
            Err(why) => Self { id: None, request: Err(why) },
        }
    }

    fn parse_wire(line: &[u8]) -> Result<Wire<'_>, String> {
        let text = std::str::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?;
        serde_json::from_str(text).map_err(|error| format!("not understood: {error}"))
    }

    fn too_long() -> Self {
        let why = format!("a line may have at most {CONTROL_LINE_BYTES_MAX} bytes");
        Self { request: Err(why), id: None }
    }
}

impl Request {
    fn from_wire(wire: Wire<'_>) -> Result<Self, String> {
        let data = |limit: usize| match wire.data {
            Some(data) if data.get().len() <= limit => Ok(data.to_owned()),
            Some(_) => Err(format!("`data` may have at most {limit} bytes")),
            None => Err("`data` is missing".to_owned()),
        };
        match wire.op.as_str() {
            "checkpoint" => Ok(Self::Checkpoint(data(PAYLOAD_BYTES_MAX)?)),
            "result" => Ok(Self::Result(data(RESULT_BYTES_MAX)?)),
            "progress" => {
                let done = wire.done.ok_or("`done` is missing")?;
                let note = wire.note.map(|mut note| {
                    note.truncate(note.floor_char_boundary(NAME_BYTES_MAX));
                    note
                });
                Ok(Self::Progress(Progress { done, total: wire.total, note }))
            }
            "error" => {
                let message = shorten(wire.message.ok_or("`message` is missing")?);
                Ok(Self::Error { message, retryable: wire.retryable.unwrap_or(true) })
            }
            "poll" => Ok(Self::Poll),
            other => Err(format!("no such op: `{other}`")),
        }
    }
}

/// One line back to the handler.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    stop: Option<StopWord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Box<RawValue>>,
}

impl Answer {
    pub(super) fn done(seq: Option<Seq>, stop: Option<StopWord>) -> Self {
        Self { ok: true, seq, error: None, stop, id: None }
    }

    pub(super) fn refused(why: String, stop: Option<StopWord>) -> Self {
        Self { ok: false, seq: None, error: Some(why), stop, id: None }
    }

    pub(super) fn marked(self, id: Option<Box<RawValue>>) -> Self {
        Self { id, ..self }
    }

    fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_else(|_| br#"{"ok":false}"#.to_vec());
        line.push(b'\n');
        line
    }
}

/// Answers that wait for a handler to read them. One that reads none loses those beyond, and is
/// never blocked by them.
const ANSWERS_QUEUED_MAX: usize = 4096;

/// The worker's end of the channel.
#[derive(Debug)]
pub(super) struct Channel {
    lines: BufReader<OwnedReadHalf>,
    answers: mpsc::Sender<Vec<u8>>,
}

impl Channel {
    /// Takes the stream over. Must be called inside a `LocalSet`.
    pub(super) fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (read, mut write) = UnixStream::from_std(stream)?.into_split();
        let (answers, mut queue) = mpsc::channel::<Vec<u8>>(ANSWERS_QUEUED_MAX);
        spawn_local(async move {
            while let Some(answer) = queue.recv().await {
                if write.write_all(&answer).await.is_err() {
                    // The handler closed its end; what it still wrote is read all the same.
                    return;
                }
            }
        });
        Ok(Self { lines: BufReader::new(read), answers })
    }

    /// The next line; `None` once no process holds the handler's end any more. A last line needs
    /// no line feed. Of an over-long line nothing is kept.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line: Vec<u8> = Vec::new();
        let mut overlong = false;
        loop {
            let bytes = match self.lines.fill_buf().await {
                Ok(bytes) => bytes,
                // The handler ended without reading its answers.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => &[],
                Err(error) => return Err(error),
            };
            let at_end = bytes.is_empty();
            let feed = bytes.iter().position(|byte| *byte == b'\n');
            let piece = bytes.get(..feed.unwrap_or(bytes.len())).unwrap_or_default();
            overlong |= CONTROL_LINE_BYTES_MAX < line.len() + piece.len();
            if overlong {
                line = Vec::new();
            } else {
                line.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(feed.is_some());
            self.lines.consume(used);
            if feed.is_none() && !at_end {
                continue;
            }
            if overlong {
                return Ok(Some(Line::too_long()));
            }
            if at_end && line.iter().all(u8::is_ascii_whitespace) {
                return Ok(None);
            }
            // Also an empty line is answered: whoever wrote it waits.
            return Ok(Some(Line::parse(&line)));
        }
    }

    /// Queues an answer.
    pub(super) fn answer(&self, answer: &Answer) {
        if self.answers.try_send(answer.line()).is_err() {
            tracing::debug!("an answer was dropped: the handler reads none");
        }
    }
}
