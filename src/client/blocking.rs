//! The client for callers that do one thing at a time.

use super::{Client, ClientError, Content, read_answer};
use crate::api::OFFSET_HEADER;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::{Bytes, Frame, Incoming};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A client whose calls block. It has no thread of its own.
#[derive(Debug)]
pub struct Blocking {
    runtime: Runtime,
    client: Client,
}

impl Blocking {
    /// A client for the daemon at `socket`. Nothing is connected before the first call.
    pub fn connect(socket: impl Into<PathBuf>) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, client: Client::new(socket) })
    }

    /// Sets how long the daemon may take to begin an answer; 90 s if this is never called.
    #[must_use]
    pub fn answering_within(self, limit: Duration) -> Self {
        Self { client: self.client.answering_within(limit), ..self }
    }

    /// `GET path`, its answer read as JSON.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.runtime.block_on(self.client.get(path))
    }

    /// `POST path` with a JSON body, its answer read as JSON.
    pub fn post<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        self.runtime.block_on(self.client.post(path, body))
    }

    /// `DELETE path`, its answer read as JSON.
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.runtime.block_on(self.client.delete(path))
    }

    /// `GET path`, its answer read piece by piece as it comes, for logs and events.
    pub fn download(&self, path: &str) -> Result<Download<'_>, ClientError> {
        self.begin(Method::GET, path, None)
    }

    /// `POST path` with one JSON document a line; the answer is read as it comes.
    pub fn upload_lines(&self, path: &str, lines: Vec<u8>) -> Result<Download<'_>, ClientError> {
        self.begin(Method::POST, path, Some((Content::Ndjson, Bytes::from(lines))))
    }

    fn begin(
        &self,
        method: Method,
        path: &str,
        body: Option<(Content, Bytes)>,
    ) -> Result<Download<'_>, ClientError> {
        let repeatable = method == Method::GET;
        self.runtime.block_on(async {
            let (response, sender) = self.client.open(method, path, body).await?;
            if response.status().is_success() {
                // The connection goes with the body: it is of no use before the body's end.
                drop(sender);
                let offset = response.headers().get(OFFSET_HEADER);
                let offset = offset.and_then(|offset| offset.to_str().ok()?.parse().ok());
                let offset = offset.unwrap_or_default();
                let body = response.into_body();
                return Ok(Download {
                    client: self,
                    body,
                    repeatable,
                    offset,
                    kept: Vec::new(),
                    at: 0,
                });
            }
            let status = response.status();
            let body = response.into_body().collect().await;
            let body = body.map_err(|error| ClientError::protocol(&error))?.to_bytes();
            read_answer::<()>(status, &body)?;
            Err(ClientError::protocol(&status))
        })
    }
}

/// An answer that is still coming.
#[derive(Debug)]
pub struct Download<'a> {
    client: &'a Blocking,
    body: Incoming,
    repeatable: bool,
    offset: u64,
    kept: Vec<u8>,
    /// Where in `kept` the next line begins.
    at: usize,
}

impl Download<'_> {
    /// Where the answer begins in a log of which only the end was asked for, in bytes.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next piece, as soon as there is one; `None` at the end. Waits without limit.
    pub fn piece(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let frame = self.client.runtime.block_on(self.body.frame());
            match frame.map(|frame| frame.map(Frame::into_data)) {
                None => return Ok(None),
                Some(Ok(Ok(data))) => return Ok(Some(data)),
                // Trailers, which nobody here sends.
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => {
                    return Err(self.client.client.broken(self.repeatable, &error.to_string()));
                }
            }
        }
    }

    /// The next line without its end, as soon as it is whole; a last line needs no line feed.
    pub fn line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            let rest = self.kept.get(self.at..).unwrap_or_default();
            if let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest.get(..length).unwrap_or_default().to_vec();
                self.at += length + 1;
                return Ok(Some(line));
            }
            self.kept.drain(..std::mem::take(&mut self.at));
            match self.piece()? {
                Some(piece) => self.kept.extend_from_slice(&piece),
                None if self.kept.is_empty() => return Ok(None),
                None => return Ok(Some(std::mem::take(&mut self.kept))),
            }
        }
    }
}
