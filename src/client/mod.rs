//! Talks to the daemon: HTTP/1.1 over its unix socket.
//!
//! [`Client`] is the asynchronous one, for the worker, which has several requests in flight;
//! [`Blocking`] runs it to the end of each call, for the command line. Connections are kept and
//! used again; no request is ever sent twice by this module unless the daemon cannot have seen
//! it, because only the caller knows whether it may be repeated.

mod blocking;
mod error;
#[cfg(test)]
mod tests;

pub use blocking::{Blocking, Download};
pub use error::ClientError;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::net::UnixStream;

/// Largest answer that is read into memory; beyond it the peer is no daemon of ours.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Idle connections kept for the next request.
const IDLE_MAX: usize = 4;

/// How long an answer may take when the caller sets nothing: well over the 60 s that the longest
/// poll waits.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

type Sender = SendRequest<Full<Bytes>>;

/// The kind of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// One JSON document.
    Json,
    /// JSON documents, one a line.
    Ndjson,
}

impl Content {
    const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
        }
    }
}

/// A client of one daemon. Must be used inside a tokio runtime.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    answer_within: Duration,
    idle: Mutex<Vec<Sender>>,
    /// The process at the other end of the latest connection; 0 while that is not known.
    peer: AtomicI32,
}

impl Client {
    /// A client for the daemon at `socket`. Nothing is connected before the first call.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            answer_within: ANSWER_WITHIN,
            idle: Mutex::new(Vec::new()),
            peer: AtomicI32::new(0),
        }
    }

    /// Sets how long the daemon may take to begin an answer.
    #[must_use]
    pub const fn answering_within(mut self, limit: Duration) -> Self {
        self.answer_within = limit;
        self
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// `GET path`, its answer read as JSON.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let (status, body) = self.exchange(Method::GET, path, None).await?;
        read_answer(status, &body)
    }

    /// `POST path` with a JSON body, its answer read as JSON.
    pub async fn post<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| ClientError::protocol(&error))?;
        let body = Some((Content::Json, Bytes::from(body)));
        let (status, body) = self.exchange(Method::POST, path, body).await?;
        read_answer(status, &body)
    }

    /// `DELETE path`, its answer read as JSON.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let (status, body) = self.exchange(Method::DELETE, path, None).await?;
        read_answer(status, &body)
    }

    /// Sends a request and reads its whole answer.
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<(Content, Bytes)>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let repeatable = method == Method::GET;
        let (response, sender) = self.open(method, path, body).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
        let body = match tokio::time::timeout(self.answer_within, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(why)) => return Err(self.broken(repeatable, &why.to_string())),
            Err(_) => return Err(self.broken(repeatable, "its answer does not end")),
        };
        self.keep(sender);
        Ok((status, body))
    }

    /// Sends a request and gives its answer's head; the body is still to come. The connection is
    /// the caller's until then.
    ///
    /// A kept connection that the daemon closed meanwhile is replaced by a new one, as long as the
    /// request has not been sent, or changes nothing.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        body: Option<(Content, Bytes)>,
    ) -> Result<(Response<Incoming>, Sender), ClientError> {
        let repeatable = method == Method::GET;
        let mut request = Self::request(method, path, body)?;
        loop {
            let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let is_new = kept.is_none();
            let mut sender = match kept {
                Some(sender) if sender.is_closed() => continue,
                Some(sender) => sender,
                None => self.connect().await?,
            };
            let again = (repeatable && !is_new).then(|| request.clone());
            let answer = sender.try_send_request(request);
            match tokio::time::timeout(self.answer_within, answer).await {
                Ok(Ok(response)) => return Ok((response, sender)),
                Ok(Err(mut error)) => match error.take_message().or(again) {
                    Some(unsent) if !is_new => request = unsent,
                    Some(_) => return Err(self.unreachable(&error.error().to_string())),
                    None => return Err(self.broken(repeatable, &error.error().to_string())),
                },
                Err(_) => return Err(self.silent(!repeatable)),
            }
        }
    }

    fn request(
        method: Method,
        path: &str,
        body: Option<(Content, Bytes)>,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, "midwatch").header(ACCEPT, "*/*");
        let bytes = match body {
            Some((content, bytes)) => {
                request = request.header(CONTENT_TYPE, content.media_type());
                bytes
            }
            None => Bytes::new(),
        };
        request.body(Full::new(bytes)).map_err(|error| ClientError::protocol(&error))
    }

    async fn connect(&self) -> Result<Sender, ClientError> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| ClientError::connecting(&self.socket, &error))?;
        let peer = stream.peer_cred().ok().and_then(|peer| peer.pid()).unwrap_or(0);
        self.peer.store(peer, Ordering::Relaxed);
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(&error.to_string()))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to the daemon ended");
            }
        });
        Ok(sender)
    }

    pub(crate) fn keep(&self, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push(sender);
        }
    }

    fn silent(&self, may_change: bool) -> ClientError {
        let pid = u32::try_from(self.peer.load(Ordering::Relaxed)).ok().filter(|pid| *pid != 0);
        let seconds = self.answer_within.as_secs();
        ClientError::Silent { socket: self.socket.clone(), pid, seconds, may_change }
    }

    fn unreachable(&self, why: &str) -> ClientError {
        ClientError::Unreachable { socket: self.socket.clone(), why: why.to_owned() }
    }

    /// The connection broke after the request was sent.
    fn broken(&self, repeatable: bool, why: &str) -> ClientError {
        if repeatable {
            return self.unreachable(why);
        }
        ClientError::OutcomeUnknown { socket: self.socket.clone(), why: why.to_owned() }
    }
}

/// Reads an answer: the body asked for, or the problem that came in its place.
pub(crate) fn read_answer<T: DeserializeOwned>(
    status: StatusCode,
    body: &[u8],
) -> Result<T, ClientError> {
    if status.is_success() {
        return serde_json::from_slice(body).map_err(|error| ClientError::protocol(&error));
    }
    match serde_json::from_slice(body) {
        Ok(problem) => Err(ClientError::Problem(problem)),
        Err(_) => Err(ClientError::Protocol {
            what: format!("status {status} without a problem document"),
        }),
    }
}
