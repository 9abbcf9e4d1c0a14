//! The stream of events, as server-sent events.

use super::app::{Answered, App};
use super::bulk::Pieces;
use super::feed::{BEHIND_MAX, Feed};
use super::hand::Message;
use super::problems::invalid;
use super::views;
use crate::engine::Recorded;
use crate::kernel::ids::{Seq, TaskId};
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State as Shared};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A comment is sent after this much silence, so that a dead connection is noticed.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// Pieces of the stream that may wait for their reader.
const PIECES_MAX: usize = 16;

/// Query of the stream.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    from: Option<Seq>,
    task: Option<TaskId>,
}

/// `GET /v1/events`.
pub(crate) async fn events(
    Shared(app): Shared<Arc<App>>,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Answered {
    let Query(EventsQuery { from, task }) = query.map_err(|error| invalid(error.body_text()))?;
    let last: Option<u64> =
        headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    let from = last.map(|last| Seq(last.saturating_add(1))).or(from);
    let (to, feed) = mpsc::channel(BEHIND_MAX);
    app.hand.send(Message::Subscribe { from, to })?;
    let (to, pieces) = mpsc::channel(PIECES_MAX);
    tokio::spawn(relay(app, (task, from), feed, to));
    let mut response = Response::new(Body::new(Pieces(pieces)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Sends what happens. `from` is where somebody goes on who has read everything so far.
async fn relay(
    app: Arc<App>,
    (task, mut from): (Option<TaskId>, Option<Seq>),
    mut feed: mpsc::Receiver<Feed>,
    to: mpsc::Sender<Bytes>,
) {
    let mut piece = Bytes::from_static(b": midwatch events\n\n");
    loop {
        if !piece.is_empty() && to.send(piece).await.is_err() {
            return;
        }
        let next = tokio::select! {
            next = tokio::time::timeout(COMMENT_EVERY, feed.recv()) => next,
            () = to.closed() => return,
            () = app.closing() => return,
        };
        piece = match next {
            // Too far behind: what was kept for the reader has been sent. He comes back from here.
            Ok(None) => {
                let from = from.map_or(0, |from| from.0);
                let slow = format!("event: slow\ndata: {{\"from\":{from}}}\n\n");
                drop(to.send(slow.into()).await);
                return;
            }
            Ok(Some(Feed::NoRoom)) => {
                drop(to.send(Bytes::from_static(b"event: busy\ndata: {}\n\n")).await);
                return;
            }
            Ok(Some(Feed::Gap(oldest))) => {
                format!("event: gap\ndata: {{\"oldest\":{oldest}}}\n\n").into()
            }
            Ok(Some(Feed::Events(events))) => {
                let behind = |last: &Recorded| Seq(last.stamp.seq.0.saturating_add(1));
                from = events.last().map(behind).or(from);
                lines(&events, task).into()
            }
            Err(_silence) => Bytes::from_static(b":\n\n"),
        };
    }
}

fn lines(events: &[Recorded], task: Option<TaskId>) -> Vec<u8> {
    let mut piece = Vec::new();
    let wanted = |recorded: &&Recorded| task.is_none() || recorded.event.task() == task;
    for recorded in events.iter().filter(wanted) {
        piece.extend_from_slice(format!("id: {}\ndata: ", recorded.stamp.seq).as_bytes());
        if let Err(error) = serde_json::to_writer(&mut piece, &views::event(recorded)) {
            tracing::error!("cannot write an event: {error}");
        }
        piece.extend_from_slice(b"\n\n");
    }
    piece
}
