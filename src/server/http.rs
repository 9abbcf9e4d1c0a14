//! The routes, and the connections they are served on.

use super::app::{Answered, App, ok};
use super::problems::Failure;
use super::room::{Carried, Guest, Room};
use super::tcp::{Door, Head};
use super::triggers::hooks;
use super::{alerts, events, logs, metrics, page, schedules, stats, status, tasks, types, workers};
use crate::api::{Code, Problem};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;

/// Longest time for the head of a request; so also the longest rest of an open connection.
const HEAD_TIME_MAX: Duration = Duration::from_secs(75);

/// Most bytes of a request's head, and of what is read ahead.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Longest time that an answer may find nobody who reads it.
const WRITE_STALL_MAX: Duration = Duration::from_mins(1);

/// How long requests may still run when the daemon shuts down.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// Longest time for the engine to answer that it is ready.
const READY_TIME: Duration = Duration::from_secs(2);

/// How long to wait when the system has no descriptor left, or for the last bytes to somebody who
/// has to make room.
const BREATH: Duration = Duration::from_millis(100);

/// All routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page::overview))
        .route("/tasks/{id}", get(page::task))
        .route("/tasks/{id}/{verb}", post(page::act))
        .route("/v1/tasks", post(tasks::submit).get(tasks::list))
        .route("/v1/tasks/{id}", get(tasks::show))
        .route("/v1/tasks/{id}/history", get(tasks::history))
        .route("/v1/tasks/{id}/log", get(logs::log))
        .route("/v1/tasks/{id}/wait", get(tasks::wait))
        .route("/v1/tasks/{id}/{verb}", post(tasks::act))
        .route("/v1/types", get(types::list))
        .route("/v1/types/{type}", get(types::show))
        .route("/v1/types/{type}/{verb}", post(types::act))
        .route("/v1/schedules", get(schedules::list))
        .route(
            "/v1/schedules/{name}",
            get(schedules::show).post(schedules::set).delete(schedules::remove),
        )
        .route("/v1/schedules/{name}/next", get(schedules::next))
        .route("/v1/schedules/{name}/{verb}", post(schedules::order))
        .route("/v1/alerts", get(alerts::list))
        .route("/v1/alerts/test", post(alerts::test))
        .route("/v1/alerts/{id}/ack", post(alerts::ack))
        .route("/v1/workers", post(workers::register).get(workers::list))
        .route("/v1/workers/{id}/{verb}", post(workers::call))
        .route("/v1/hooks/{name}", post(hooks::receive))
        .route("/v1/events", get(events::events))
        .route("/v1/status", get(status::status))
        .route("/v1/stats", get(stats::stats))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .with_state(app)
}

/// Whoever is answered knows that it is up.
async fn health() -> Response {
    ok(&serde_json::json!({ "ok": true }))
}

/// Ready means that the engine answers too.
async fn ready(Shared(app): Shared<Arc<App>>) -> Answered {
    match tokio::time::timeout(READY_TIME, app.hand.read(|_facts| ())?).await {
        Ok(answered) => answered?,
        Err(_late) => {
            let detail = "the engine has not answered for a while";
            return Err(Problem::new(Code::Busy, detail).into());
        }
    }
    Ok(health().await)
}

async fn nothing_here(request: Request) -> Failure {
    no_such_route(&request)
}

/// There is no such method and path.
pub(crate) fn no_such_route(request: &Request) -> Failure {
    let path = crate::kernel::text::Text::clipped(request.uri().path(), 200);
    let detail = format!("there is no {} at {}", request.method(), path.escape_debug());
    Failure(Problem::new(Code::NoSuchRoute, detail))
}

/// Serves at most so many connections at once until `closing` turns true, then lets what runs finish for a while.
pub(crate) async fn serve<L: Listening>(
    listener: L,
    app: &Arc<App>,
    connections_max: usize,
) -> io::Result<()> {
    let mut closing = app.closing.clone();
    let router = router(Arc::clone(app));
    let room = Room::new(connections_max);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => break,
            accepted = accept(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, None)) => turn_away(&stream),
            Ok((stream, Some(seat))) => {
                let guest = L::GIVES_WAY.then(|| Guest::arrive(&room));
                let connection = connection(stream, Arc::clone(app), router.clone(), guest);
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!("a connection ended: {error}");
                    }
                    drop(seat);
                });
            }
            Err(error) => {
                tracing::warn!("cannot take a connection: {error}");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(CLOSING_TIME, room.empty(connections_max)).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    Ok(())
}

/// What connections come from.
pub(crate) trait Listening {
    /// One of them.
    type Stream: Coming;
    /// Whether idle ones make room for others when there are too many. Not those of workers and
    /// of people of this host, who would find theirs gone just as they ask for something.
    const GIVES_WAY: bool;
    /// Waits for the next one.
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// A connection that came in.
pub(crate) trait Coming: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// How it came in.
    fn door(&self, app: &App) -> io::Result<Door>;
    /// Writes something, if that is possible at once.
    fn say(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl Listening for UnixListener {
    type Stream = UnixStream;
    const GIVES_WAY: bool = false;
    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

impl Listening for TcpListener {
    type Stream = TcpStream;
    const GIVES_WAY: bool = true;
    async fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Events are small and should not wait for each other.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Coming for UnixStream {
    fn door(&self, app: &App) -> io::Result<Door> {
        let credentials = self.peer_cred()?;
        Ok(Door::Socket(app.policy().doors.admit(credentials.uid(), credentials.gid())))
    }

    fn say(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }
}

impl Coming for TcpStream {
    fn door(&self, _app: &App) -> io::Result<Door> {
        Ok(Door::Tcp(self.local_addr()?.ip()))
    }

    fn say(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }
}

/// The next connection, with its seat if there is one for it.
async fn accept<L: Listening>(
    listener: &L,
    room: &Room,
) -> io::Result<(L::Stream, Option<OwnedSemaphorePermit>)> {
    let stream = listener.next().await?;
    Ok((stream, room.seat().await))
}

/// Tells somebody at once that there is no room, instead of letting everybody wait behind
/// connections that may stay idle for long.
fn turn_away(stream: &impl Coming) {
    let problem = Problem::new(Code::Busy, "too many connections are open")
        .with_help("try again in a moment; `ss -xtp` shows who holds them");
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    if let Err(error) = stream.say(answer.as_bytes()) {
        tracing::debug!("a connection was turned away without a word: {error}");
    }
}

async fn connection(
    stream: impl Coming,
    app: Arc<App>,
    router: Router,
    guest: Option<Arc<Guest>>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let door = stream.door(&app)?;
    let mut policy = app.policy.subscribe();
    // The token of the last request. What it opened is still open if it is open at all.
    let last = Arc::new(Mutex::new(None));
    let router = TowerToHyperService::new(router);
    let (judge, shown, host) = (Arc::clone(&app), Arc::clone(&last), guest.clone());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let busy = host.as_ref().map(Guest::begin);
        let (method, headers) = (request.method(), request.headers());
        let admitted = door.admit(&judge, Head { method, path: request.uri().path(), headers });
        let called = admitted.map(|(peer, pass)| {
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = pass;
            request.extensions_mut().insert(peer);
            router.call(request)
        });
        async move {
            let response = match called {
                Ok(called) => called.await?,
                Err(refusal) => refusal.answer().await,
            };
            Ok::<_, Infallible>(match busy {
                Some(busy) => response.map(|body| Body::new(Carried::new(body, busy))),
                None => response,
            })
        }
    });
    let stream = TokioIo::new(super::stall::Stalling::new(stream, WRITE_STALL_MAX));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(stream, service);
    let mut served = std::pin::pin!(served);
    loop {
        tokio::select! {
            // First: what has come already is answered.
            biased;
            ended = served.as_mut() => return Ok(ended?),
            () = app.closing() => {
                served.as_mut().graceful_shutdown();
                return Ok(served.await?);
            }
            _ = policy.changed() => {
                let pass = *last.lock().unwrap_or_else(PoisonError::into_inner);
                let policy = policy.borrow_and_update();
                if pass.is_some_and(|pass| !policy.tokens.still_know(pass)) {
                    return Ok(());
                }
            }
            () = asked_to_go(guest.as_deref()) => {
                served.as_mut().graceful_shutdown();
                if guest.as_ref().is_some_and(|guest| guest.is_busy()) {
                    return Ok(served.await?);
                }
                // The last answer may be on its way still; the rest of a request's head is not
                // waited for.
                return tokio::time::timeout(BREATH, served).await.unwrap_or(Ok(())).map_err(Into::into);
            }
        }
    }
}

async fn asked_to_go(guest: Option<&Guest>) {
    match guest {
        Some(guest) => guest.asked_to_go().await,
        None => std::future::pending().await,
    }
}
