//! What every request handler knows.

use super::alerts::Post;
use super::hand::Hand;
use super::house::House;
use super::own_health::OwnHealth;
use super::peer::{Access, Doors, Group, Peer, find_group};
use super::problems::{Failure, invalid};
use super::pulse::Pulse;
use super::rules::Kinds;
use super::submission::Judge;
use super::tcp::{Tokens, WrongTokens};
use super::triggers::hooks::{Hooks, Traffic};
use super::triggers::inbox::Bell;
use crate::api::{Problem, StatusView};
use crate::config::{Config, Inbox};
use crate::kernel::ids::{Millis, WorkerId};
use crate::limits::BODY_BYTES_MAX;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Longest time for the whole body of an ordinary request.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// A body up to this size is read without asking for room.
const SMALL_BYTES: u64 = 64 << 10;

/// Larger bodies that may be in memory at once.
pub(crate) const LARGE_BODIES_MAX: usize = 16;

/// Longest wait of a long poll.
pub(crate) const WAIT_MAX: Millis = Millis::secs(60);

/// What every request handler knows.
pub(crate) struct App {
    /// The way into the engine's thread.
    pub(crate) hand: Hand,
    /// What of the config a request is judged by, and whoever must know that it is another now.
    pub(crate) policy: watch::Sender<Arc<Policy>>,
    /// What is known of the house besides the engine.
    pub(crate) house: House,
    /// Whether the engine's thread is well.
    pub(crate) pulse: Arc<Pulse>,
    /// How our own processes do.
    pub(crate) own_health: Arc<OwnHealth>,
    /// The last status that the engine gave, for the time in which it gives none.
    pub(crate) last_status: Mutex<Option<(Millis, StatusView)>>,
    /// The data directory, absolute.
    pub(crate) data_dir: PathBuf,
    /// The store, in hex.
    pub(crate) store: String,
    /// The running kernel's boot id.
    pub(crate) boot_id: String,
    /// What does not change while the daemon runs.
    pub(crate) about: super::status::About,
    /// Room for large bodies, so that many of them at once cannot use up the memory.
    pub(crate) large: Arc<Semaphore>,
    /// What is remembered of each hook.
    pub(crate) traffic: Traffic,
    /// The channels of alerts.
    pub(crate) post: Arc<Post>,
    /// Wakes the inbox's thread.
    pub(crate) inbox: Arc<Bell>,
    /// What is remembered of wrong tokens.
    pub(crate) wrong_tokens: WrongTokens,
    /// What each form of a page shows, so that it is known as ours.
    pub(crate) page_word: String,
    /// Turns true when the daemon begins to shut down.
    pub(crate) closing: watch::Receiver<bool>,
}

/// What of the config a request is judged by.
pub(crate) struct Policy {
    /// The types that may be submitted.
    pub(crate) kinds: Kinds,
    /// Who may what.
    pub(crate) doors: Doors,
    /// Who signs webhooks.
    pub(crate) hooks: Hooks,
    /// Where files are taken from.
    pub(crate) inbox: Option<Inbox>,
    /// Who may come by TCP; nobody where nothing listens.
    pub(crate) tokens: Tokens,
    /// Names by which browsers reach us.
    pub(crate) hosts: Vec<String>,
    /// Whether metrics need no token.
    pub(crate) open_metrics: bool,
}

impl Policy {
    /// That of a config. Fails when a group is not there, a schema or a secret is not as it should
    /// be, or a type does not take the payload of a schedule.
    pub(crate) fn of(config: &Config) -> Result<Self, String> {
        let operate = group(config.http.operate_group.as_ref(), "operate_group")?;
        let owner = rustix::process::geteuid().as_raw();
        let (kinds, hooks) = (Kinds::of(config)?, Hooks::of(config)?);
        super::schedules::check(config, &kinds)?;
        let doors = Doors { owner, operate };
        let tokens = match (&config.http.listen, &config.http.token_file) {
            (Some(_), Some(path)) => {
                Tokens::read(path).map_err(|why| format!("`http.token_file`: {why}"))?
            }
            _ => Tokens::default(),
        };
        let (hosts, open_metrics) = (config.http.hosts.clone(), config.http.open_metrics);
        Ok(Self { kinds, doors, hooks, inbox: config.inbox.clone(), tokens, hosts, open_metrics })
    }

    /// Judges submissions of this peer.
    pub(crate) fn judge(&self, peer: Peer) -> Judge<'_> {
        Judge { kinds: &self.kinds, peer, doors: &self.doors }
    }
}

/// The group that a key of `[http]` names.
pub(crate) fn group(name: Option<&String>, key: &str) -> Result<Option<Group>, String> {
    let Some(name) = name else { return Ok(None) };
    match find_group(name) {
        Some(group) => Ok(Some(group)),
        None => Err(format!("`http.{key}`: there is no group `{name}` in /etc/group")),
    }
}

/// What a handler answers.
pub(crate) type Answered = Result<Response, Failure>;

impl App {
    /// Passes if the peer may do this.
    pub(crate) fn require(&self, peer: Peer, access: Access, what: &str) -> Result<(), Problem> {
        peer.require(access, what, &self.policy().doors)
    }

    /// The directory of claims and worker locks.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.data_dir.join("run")
    }

    /// What requests are judged by now; it may be another one at the next request.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.borrow())
    }

    /// Judges the next requests by another one; what a token opened that it lets in no more ends.
    pub(crate) fn put_in_force(&self, policy: Policy) {
        self.traffic.keep(&policy.hooks);
        drop(self.policy.send_replace(Arc::new(policy)));
        self.inbox.config_changed();
    }

    /// Waits until the daemon begins to shut down.
    pub(crate) async fn closing(&self) {
        let mut closing = self.closing.clone();
        if closing.wait_for(|closing| *closing).await.is_err() {
            tracing::debug!("the server is gone");
        }
    }
}

/// A body as it arrived, and the room it takes.
pub(crate) struct Whole {
    bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl std::ops::Deref for Whole {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl App {
    /// Reads a body that fits into memory, within its time.
    pub(crate) async fn read_body(&self, body: Body, bytes_max: usize) -> Result<Whole, Failure> {
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(too_large(bytes_max));
        }
        match tokio::time::timeout(BODY_TIME_MAX, self.collect(body, bytes_max)).await {
            Ok(whole) => whole,
            Err(_late) => Err(invalid("the request's body did not arrive in time")),
        }
    }

    async fn collect(&self, body: Body, bytes_max: usize) -> Result<Whole, Failure> {
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BYTES);
        let room = if is_small { None } else { self.room_for_a_large_body().await };
        match Limited::new(body, bytes_max).collect().await {
            Ok(collected) => Ok(Whole { bytes: collected.to_bytes(), _room: room }),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
            Err(error) => Err(invalid(format!("the request's body ended early: {error}"))),
        }
    }

    /// Waits for room; it is given back when the permit is dropped.
    pub(crate) async fn room_for_a_large_body(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.large).acquire_owned().await.ok()
    }

    /// Reads a JSON body; an empty one is as good as `{}`.
    pub(crate) async fn read_json<T: DeserializeOwned>(&self, body: Body) -> Result<T, Failure> {
        let whole = self.read_body(body, BODY_BYTES_MAX).await?;
        super::submission::parse(if whole.is_empty() { b"{}" } else { &whole })
    }
}

fn too_large(bytes_max: usize) -> Failure {
    let bytes_max = crate::units::format_size(bytes_max as u64);
    invalid(format!("the request's body is larger than {bytes_max}"))
}

/// An answer with a JSON body.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
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
