//! The routes, and the connections they are served on.

use super::app::{Answered, App, ok};
use super::problems::Failure;
use super::tcp::{Door, Head};
use super::triggers::hooks;
use super::{events, logs, metrics, page, schedules, stats, status, tasks, types, workers};
use crate::api::{Code, Problem};
use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;

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

/// How long to wait when the system has no descriptor left.
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
    let room = Arc::new(Semaphore::new(connections_max));
    loop {
        let accepted = tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => break,
            accepted = accept(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, None)) => turn_away(&stream),
            Ok((stream, Some(permit))) => {
                let connection = connection(stream, Arc::clone(app), router.clone());
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!("a connection ended: {error}");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!("cannot take a connection: {error}");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
    drop(listener);
    // The last permit is free when the last connection has ended.
    let all = room.acquire_many(u32::try_from(connections_max).unwrap_or(u32::MAX));
    if tokio::time::timeout(CLOSING_TIME, all).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    Ok(())
}

/// What connections come from.
pub(crate) trait Listening {
    /// One of them.
    type Stream: Coming;
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
    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

impl Listening for TcpListener {
    type Stream = TcpStream;
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

type Permit = tokio::sync::OwnedSemaphorePermit;

/// The next connection, with its permit while there is one left.
async fn accept<L: Listening>(
    listener: &L,
    room: &Arc<Semaphore>,
) -> io::Result<(L::Stream, Option<Permit>)> {
    let stream = listener.next().await?;
    Ok((stream, Arc::clone(room).try_acquire_owned().ok()))
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
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let door = stream.door(&app)?;
    let router = TowerToHyperService::new(router);
    let judge = Arc::clone(&app);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let (method, headers) = (request.method(), request.headers());
        let admitted = door.admit(&judge, Head { method, path: request.uri().path(), headers });
        let called = admitted.map(|peer| {
            request.extensions_mut().insert(peer);
            router.call(request)
        });
        async move {
            match called {
                Ok(called) => called.await,
                Err(refusal) => Ok(refusal.answer().await),
            }
        }
    });
    let stream = TokioIo::new(super::stall::Stalling::new(stream, WRITE_STALL_MAX));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(stream, service);
    let mut served = std::pin::pin!(served);
    tokio::select! {
        ended = served.as_mut() => return Ok(ended?),
        () = app.closing() => served.as_mut().graceful_shutdown(),
    }
    Ok(served.await?)
}
