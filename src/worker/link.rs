//! The worker's line to the engine, which may be away for a while.

use crate::api::{
    CheckpointRequest, Checkpointed, FinishRequest, Finished, HeartbeatRequest, LeaseRequest,
    Leases, OfferRequest, RegisterRequest, Registered, Stops, StopsRequest,
};
use crate::client::{Client, ClientError};
use crate::kernel::ids::{Millis, WorkerId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// First and longest pause between two tries to reach the engine.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

/// How soon a request for leases that still waits is withdrawn once more: it may have been on its
/// way when it was first.
const WITHDRAW_AGAIN: Duration = Duration::from_millis(500);

/// The pauses between tries: doubling, capped, and each between half and the whole of its
/// length, so that workers do not come back in step.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(PAUSE_FIRST)
    }
}

impl Pauses {
    pub(super) fn next(&mut self) -> Duration {
        let whole = self.0;
        self.0 = (whole * 2).min(PAUSE_LONGEST);
        whole.mul_f64(0.5 + 0.5 * rand::random::<f64>())
    }
}

/// All calls of one worker.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    /// Once set, no lease is asked for any more, not even by a call that waits for the engine.
    closing: Cell<bool>,
    closed: Notify,
    /// Since when no call has reached the engine, as long as that is so.
    away_since: Cell<Option<Instant>>,
}

impl Link {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            closing: Cell::new(false),
            closed: Notify::new(),
            away_since: Cell::new(None),
        }
    }

    pub(super) fn close(&self) {
        self.closing.set(true);
        self.closed.notify_waiters();
    }

    /// Since when the engine has been away; none while it answers.
    pub(super) const fn away_since(&self) -> Option<Instant> {
        self.away_since.get()
    }

    /// Makes one call, and notes whether the engine was there to answer it.
    async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let answer = self.client.post(path, body).await;
        let is_away = matches!(
            answer,
            Err(ClientError::Unreachable { .. }
                | ClientError::OutcomeUnknown { .. }
                | ClientError::Silent { .. })
        );
        let since = self.away_since.get();
        self.away_since.set(is_away.then(|| since.unwrap_or_else(Instant::now)));
        answer
    }

    pub(super) async fn register(
        &self,
        request: &RegisterRequest,
    ) -> Result<Registered, ClientError> {
        self.insist("/v1/workers", request).await
    }

    pub(super) async fn lease(
        &self,
        worker: WorkerId,
        request: &LeaseRequest,
    ) -> Result<Leases, ClientError> {
        let path = path(worker, "lease");
        let mut pauses = Pauses::default();
        while !self.closing.get() {
            let mut asked = pin!(self.post(&path, request));
            let answer = tokio::select! {
                answer = &mut asked => answer,
                () = self.closed.notified() => self.withdraw(&path, asked).await,
            };
            match answer {
                Err(error) if error.is_passing() => sleep(pauses.next()).await,
                answer => return answer,
            }
        }
        Ok(Leases { leases: Vec::new() })
    }

    /// Has a request for leases answered that waits for work, by asking for nothing.
    ///
    /// Just dropping it would not do: a lease that was granted meanwhile would be nobody's.
    async fn withdraw(
        &self,
        path: &str,
        mut asked: Pin<&mut impl Future<Output = Result<Leases, ClientError>>>,
    ) -> Result<Leases, ClientError> {
        let nothing = LeaseRequest { slots: 0, wait_ms: Millis(0) };
        loop {
            let withdraw = async {
                if let Err(error) = self.post::<_, Leases>(path, &nothing).await {
                    tracing::debug!(%error, "a request for work cannot be withdrawn");
                }
                sleep(WITHDRAW_AGAIN).await;
            };
            tokio::select! {
                answer = &mut asked => return answer,
                () = withdraw => {}
            }
        }
    }

    pub(super) async fn offer(
        &self,
        worker: WorkerId,
        request: &OfferRequest,
    ) -> Result<serde_json::Value, ClientError> {
        self.insist(&path(worker, "offer"), request).await
    }

    /// Once: a heartbeat that comes late says nothing true any more.
    pub(super) async fn heartbeat(
        &self,
        worker: WorkerId,
        request: &HeartbeatRequest,
    ) -> Result<Stops, ClientError> {
        self.post(&path(worker, "heartbeat"), request).await
    }

    pub(super) async fn stops(
        &self,
        worker: WorkerId,
        request: &StopsRequest,
    ) -> Result<Stops, ClientError> {
        self.insist(&path(worker, "stops"), request).await
    }

    pub(super) async fn checkpoint(
        &self,
        worker: WorkerId,
        request: &CheckpointRequest,
    ) -> Result<Checkpointed, ClientError> {
        self.insist(&path(worker, "checkpoint"), request).await
    }

    pub(super) async fn finish(
        &self,
        worker: WorkerId,
        request: &FinishRequest,
    ) -> Result<Finished, ClientError> {
        self.insist(&path(worker, "finish"), request).await
    }

    pub(super) async fn leave(&self, worker: WorkerId) -> Result<(), ClientError> {
        let answer: Result<serde_json::Value, _> =
            self.client.post(&path(worker, "leave"), &serde_json::json!({})).await;
        answer.map(|_| ())
    }

    /// Repeats the call until the engine answers it. Every one of these calls may be repeated:
    /// the engine knows the lease it speaks of and gives the first answer again.
    async fn insist<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let mut pauses = Pauses::default();
        let mut is_told = false;
        loop {
            match self.post(path, body).await {
                Err(error) if error.is_passing() => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!("the engine is waited for: {error}");
                    }
                    sleep(pauses.next()).await;
                }
                answer => return answer,
            }
        }
    }
}

fn path(worker: WorkerId, call: &str) -> String {
    format!("/v1/workers/{worker}/{call}")
}
