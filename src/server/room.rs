//! Room for the connections of a door: so many at once, and in a crowd whoever has been idle for
//! longest goes.
//!
//! Otherwise a few idle connections, which cost their owner nothing, would keep everybody out.
//! Idle is a connection without a request: before its first one, also while the head of one
//! trickles in, and between the end of an answer and the next request.

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Longest wait for the seat of somebody who was asked to go, who as a rule is gone at once.
const SEAT_TIME: Duration = Duration::from_secs(1);

/// The seats of a door.
#[derive(Debug)]
pub(crate) struct Room {
    seats: Arc<Semaphore>,
    idle: Mutex<Idle>,
}

/// Who may be asked to go; the first has been idle for longest.
#[derive(Debug, Default)]
struct Idle {
    turns: u64,
    bells: BTreeMap<u64, Arc<Notify>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Room {
    /// A room with so many seats.
    pub(crate) fn new(seats: usize) -> Arc<Self> {
        Arc::new(Self { seats: Arc::new(Semaphore::new(seats)), idle: Mutex::default() })
    }

    /// A seat for one more. Where all are taken, the guest who has been idle for longest is asked
    /// to go; none where nobody is idle.
    pub(crate) async fn seat(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() {
            return Some(seat);
        }
        let (_, bell) = locked(&self.idle).bells.pop_first()?;
        bell.notify_one();
        let seat = Arc::clone(&self.seats).acquire_owned();
        tokio::time::timeout(SEAT_TIME, seat).await.ok()?.ok()
    }

    /// Waits until all of so many seats are free.
    pub(crate) async fn empty(&self, seats: usize) {
        drop(self.seats.acquire_many(u32::try_from(seats).unwrap_or(u32::MAX)).await);
    }
}

/// One who may be asked to go while he is idle.
#[derive(Debug)]
pub(crate) struct Guest {
    room: Arc<Room>,
    bell: Arc<Notify>,
    state: Mutex<Stay>,
}

#[derive(Debug, Default)]
struct Stay {
    /// Requests that are not over.
    requests: u32,
    /// His place among the idle ones.
    turn: Option<u64>,
}

impl Guest {
    /// One who came, and is idle.
    pub(crate) fn arrive(room: &Arc<Room>) -> Arc<Self> {
        let (bell, state) = (Arc::default(), Mutex::default());
        let guest = Arc::new(Self { room: Arc::clone(room), bell, state });
        guest.rest(&mut locked(&guest.state));
        guest
    }

    /// Waits until he is asked to go.
    pub(crate) async fn asked_to_go(&self) {
        self.bell.notified().await;
    }

    /// Whether a request of his is not over.
    pub(crate) fn is_busy(&self) -> bool {
        0 < locked(&self.state).requests
    }

    /// A request of his begins; it is over when what this returns is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        let mut state = locked(&self.state);
        state.requests = state.requests.saturating_add(1);
        self.rise(&mut state);
        Busy(Arc::clone(self))
    }

    fn rest(&self, state: &mut Stay) {
        let mut idle = locked(&self.room.idle);
        let turn = idle.turns;
        idle.turns = turn.saturating_add(1);
        idle.bells.insert(turn, Arc::clone(&self.bell));
        state.turn = Some(turn);
    }

    fn rise(&self, state: &mut Stay) {
        if let Some(turn) = state.turn.take() {
            locked(&self.room.idle).bells.remove(&turn);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.rise(&mut locked(&self.state));
    }
}

/// A request that is not over.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Guest>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.requests = state.requests.saturating_sub(1);
        if state.requests == 0 {
            self.0.rest(&mut state);
        }
    }
}

/// The body of an answer: its request is over when all of it was taken.
pub(crate) struct Carried {
    body: Body,
    _busy: Busy,
}

impl Carried {
    pub(crate) const fn new(body: Body, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl HttpBody for Carried {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_asked(guest: &Guest) -> bool {
        let waker = std::task::Waker::noop();
        let asked = std::pin::pin!(guest.asked_to_go());
        asked.poll(&mut Context::from_waker(waker)).is_ready()
    }

    /// Somebody comes to a room without a free seat, and does not wait.
    fn come(room: &Room) {
        let waker = std::task::Waker::noop();
        let seat = std::pin::pin!(room.seat());
        drop(seat.poll(&mut Context::from_waker(waker)));
    }

    #[test]
    fn in_a_crowd_who_was_idle_for_longest_is_asked_to_go_and_nobody_with_a_request() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let room = Room::new(0);
        let [first, second, third] = [(); 3].map(|()| Guest::arrive(&room));
        // The first has a request that goes on, the second had one and is idle again.
        let (busy, over) = (first.begin(), second.begin());
        drop(over);
        come(&room);
        assert_eq!([&first, &second, &third].map(|it| is_asked(it)), [false, false, true]);
        come(&room);
        assert!(is_asked(&second) && !is_asked(&first));
        come(&room);
        assert!(!is_asked(&first), "nobody is idle");
        drop((busy, third));
        come(&room);
        assert!(is_asked(&first), "and then he is");
    }
}
