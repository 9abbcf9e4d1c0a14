//! What every request handler knows.

use super::hand::Hand;
use super::peer::{Access, Doors, Peer};
use super::problems::{Failure, invalid};
use super::rules::Kinds;
use super::submission::Judge;
use crate::api::Problem;
use crate::kernel::ids::{Millis, WorkerId};
use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// Longest time for the whole body of an ordinary request.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// Longest wait of a long poll.
pub(crate) const WAIT_MAX: Millis = Millis::secs(60);

/// What every request handler knows.
pub(crate) struct App {
    /// The way into the engine's thread.
    pub(crate) hand: Hand,
    /// The types that may be submitted.
    pub(crate) kinds: Kinds,
    /// Who may what.
    pub(crate) doors: Doors,
    /// The data directory, absolute.
    pub(crate) data_dir: PathBuf,
    /// The store, in hex.
    pub(crate) store: String,
    /// The running kernel's boot id.
    pub(crate) boot_id: String,
    /// What does not change while the daemon runs.
    pub(crate) about: super::status::About,
    /// Turns true when the daemon begins to shut down.
    pub(crate) closing: watch::Receiver<bool>,
}

/// What a handler answers.
pub(crate) type Answered = Result<Response, Failure>;

impl App {
    /// Passes if the peer may do this.
    pub(crate) fn require(&self, peer: Peer, access: Access, what: &str) -> Result<(), Problem> {
        peer.require(access, what, &self.doors)
    }

    /// The directory of claims and worker locks.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.data_dir.join("run")
    }

    /// Judges submissions of this peer.
    pub(crate) fn judge(&self, peer: Peer) -> Judge<'_> {
        Judge { kinds: &self.kinds, peer, doors: &self.doors }
    }

    /// Waits until the daemon begins to shut down.
    pub(crate) async fn closing(&self) {
        let mut closing = self.closing.clone();
        if closing.wait_for(|closing| *closing).await.is_err() {
            tracing::debug!("the server is gone");
        }
    }
}

/// Reads a body that fits into memory, within its time.
pub(crate) async fn read_body(body: axum::body::Body, bytes_max: usize) -> Result<Bytes, Failure> {
    use axum::body::HttpBody as _;
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let limited = Limited::new(body, bytes_max);
    match tokio::time::timeout(BODY_TIME_MAX, limited.collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(too_large(bytes_max))
        }
        Ok(Err(error)) => Err(invalid(format!("the request's body ended early: {error}"))),
        Err(_late) => Err(invalid("the request's body did not arrive in time")),
    }
}

fn too_large(bytes_max: usize) -> Failure {
    let bytes_max = crate::units::format_size(bytes_max as u64);
    invalid(format!("the request's body is larger than {bytes_max}"))
}

/// Reads a JSON body; an empty one is as good as `{}`.
pub(crate) async fn read_json<T: serde::de::DeserializeOwned>(
    body: axum::body::Body,
) -> Result<T, Failure> {
    let bytes = read_body(body, crate::limits::BODY_BYTES_MAX).await?;
    super::submission::parse(if bytes.is_empty() { b"{}" } else { &bytes })
}

/// An answer with a JSON body.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(axum::body::Body::from(body));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// An answer with status 200 and a JSON body.
pub(crate) fn ok(body: &impl Serialize) -> Response {
    json(StatusCode::OK, body)
}

/// Reads the number in a path.
pub(crate) fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_not_a_number| {
        let shown = crate::kernel::text::Text::clipped(text, 64);
        invalid(format!("`{}` is not the number of a {what}", shown.escape_debug()))
    })
}

/// Reads the worker in a path.
pub(crate) fn worker_id(text: &str) -> Result<WorkerId, Failure> {
    number("worker", text)
}
