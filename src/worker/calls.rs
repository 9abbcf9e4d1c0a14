//! The books of a worker: slots, requests in flight, ends that nobody has taken yet.
//!
//! At most one request of each kind is in flight. A free slot is asked for once: by the finish
//! request that frees it, or else by the poll for leases.

use super::attempt::{Attempt, unstarted};
use super::duty::{Closing, Duty};
use super::events::{Event, report};
use crate::api::{
    Code, End, FinishRequest, Finished, HeartbeatRequest, Hold, Lease, LeaseRequest, Leases, Stops,
    StopsRequest,
};
use crate::client::ClientError;
use crate::kernel::ids::{Fence, Millis, WorkerId};
use crate::kernel::status::Outcome;
use crate::process;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::Instant;

/// How long one poll for leases or stops may wait in the engine: as long as it lets one wait, for
/// each renewal wakes both sides of an idle machine.
const POLL: Millis = Millis::secs(60);

/// Ends in one request: each may carry a result and an error, and all must fit one body.
const ENDS_PER_REQUEST_MAX: usize = 32;

/// From a refusal that makes no sense to the next poll.
const HOLD_OFF: Duration = Duration::from_secs(1);

impl Duty {
    /// Makes the calls that are due.
    pub(super) fn call(&mut self, now: Instant) {
        let Some(worker) = self.state.worker else { return };
        if self.state.polls_from <= now {
            self.call_offer(worker);
            self.call_finish(worker);
            self.call_lease(worker);
            self.call_stops(worker);
        }
        if !self.state.beating && self.state.beat_at <= now {
            self.call_heartbeat(worker, now);
            // As good a rhythm as any to reap orphans that ended by themselves.
            let _living = self.crew.processes().is_some_and(|crew| crew.adoption.any());
        }
    }

    /// Slots that nobody works in and no request in flight asks for.
    fn free_slots(&self) -> u32 {
        if self.state.closing != Closing::No || Instant::now() < self.state.hurt_until {
            return 0;
        }
        let held = u32::try_from(self.state.attempts.len()).unwrap_or(u32::MAX);
        let asked = self.state.leasing.saturating_add(self.state.finishing_slots);
        self.registration.slots.saturating_sub(held).saturating_sub(asked)
    }

    /// Tells the engine what this worker can run, when that is something else by now.
    fn call_offer(&mut self, worker: WorkerId) {
        let request = self.offer();
        if self.state.offering || self.state.offered == request {
            return;
        }
        self.state.offering = true;
        self.state.offered = request.clone();
        let (link, events) = (Rc::clone(&self.link), self.events.clone());
        let registration = self.state.registration;
        spawn_local(async move {
            let answer = link.offer(worker, &request).await;
            report(&events, Event::Offered { registration, answer }).await;
        });
    }

    pub(super) fn offer_answered(
        &mut self,
        answer: Result<serde_json::Value, ClientError>,
        now: Instant,
    ) {
        if let Err(error) = answer {
            self.call_failed("offer", &error, now);
        }
    }

    fn call_finish(&mut self, worker: WorkerId) {
        if self.state.ends.is_empty() || !self.state.finishing.is_empty() {
            return;
        }
        // What a worker hands back must not come to it again by a request that still waits.
        if self.state.closing != Closing::No && 0 < self.state.leasing {
            return;
        }
        let slots = self.free_slots();
        let count = self.state.ends.len().min(ENDS_PER_REQUEST_MAX);
        let ends: Vec<End> = self.state.ends.drain(..count).collect();
        self.state.finishing.clone_from(&ends);
        self.state.finishing_slots = slots;
        let (link, events) = (Rc::clone(&self.link), self.events.clone());
        let registration = self.state.registration;
        spawn_local(async move {
            let answer = link.finish(worker, &FinishRequest { ends, slots }).await;
            report(&events, Event::Finished { registration, answer }).await;
        });
    }

    fn call_lease(&mut self, worker: WorkerId) {
        let slots = self.free_slots();
        if slots == 0 || 0 < self.state.leasing || !self.state.finishing.is_empty() {
            return;
        }
        self.state.leasing = slots;
        let (link, events) = (Rc::clone(&self.link), self.events.clone());
        let registration = self.state.registration;
        spawn_local(async move {
            let answer = link.lease(worker, &LeaseRequest { slots, wait_ms: POLL }).await;
            report(&events, Event::Leased { registration, answer }).await;
        });
    }

    fn call_stops(&mut self, worker: WorkerId) {
        if self.state.leaving || std::mem::replace(&mut self.state.waiting_for_stops, true) {
            return;
        }
        let request = StopsRequest { known: self.state.known.clone(), wait_ms: POLL };
        let (link, events) = (Rc::clone(&self.link), self.events.clone());
        let registration = self.state.registration;
        spawn_local(async move {
            let answer = link.stops(worker, &request).await;
            report(&events, Event::Stops { registration, answer }).await;
        });
    }

    fn call_heartbeat(&mut self, worker: WorkerId, now: Instant) {
        let state = &mut self.state;
        state.beating = true;
        state.beat_at = now + state.beat_every;
        let running = state.attempts.values().filter(|attempt| !attempt.is_superseded());
        let mut holds: Vec<Hold> = running.map(Attempt::hold).collect();
        // What ended is ours until the engine has taken its end.
        let ended = state.finishing.iter().chain(&state.ends);
        holds.extend(ended.map(|end| Hold {
            lease: end.lease.clone(),
            process: None,
            progress: None,
        }));
        let (link, events) = (Rc::clone(&self.link), self.events.clone());
        let registration = state.registration;
        spawn_local(async move {
            let answer = link.heartbeat(worker, &HeartbeatRequest { holds }).await;
            report(&events, Event::Beaten { registration, answer }).await;
        });
    }

    pub(super) fn beaten(&mut self, answer: Result<Stops, ClientError>, now: Instant) {
        self.state.beating = false;
        match answer {
            Ok(stops) => {
                self.state.beat_pauses = super::link::Pauses::default();
                self.obey(&stops, now);
            }
            Err(error) => {
                let again = now + self.state.beat_pauses.next();
                self.state.beat_at = self.state.beat_at.min(again);
                if !error.is_passing() {
                    self.call_failed("heartbeat", &error, now);
                }
            }
        }
    }

    pub(super) fn heard_stops(&mut self, answer: Result<Stops, ClientError>, now: Instant) {
        match answer {
            Ok(stops) => {
                self.obey(&stops, now);
                self.state.known = stops.stops;
            }
            Err(error) => self.call_failed("stops", &error, now),
        }
    }

    fn obey(&mut self, stops: &Stops, now: Instant) {
        for order in &stops.stops {
            if let Some(attempt) = self.state.attempts.get_mut(&order.fence) {
                attempt.stop(order.stop, now);
            }
        }
    }

    pub(super) fn leased(&mut self, answer: Result<Leases, ClientError>, now: Instant) {
        match answer {
            Ok(Leases { leases }) => self.accept(leases),
            Err(error) => self.call_failed("lease", &error, now),
        }
    }

    pub(super) fn finished(&mut self, answer: Result<Finished, ClientError>, now: Instant) {
        let sent = std::mem::take(&mut self.state.finishing);
        self.state.finishing_slots = 0;
        match answer {
            Ok(Finished { ends, leases }) => {
                for (end, answer) in sent.iter().zip(&ends) {
                    let (task, fence) = (end.lease.task, end.lease.fence);
                    if answer.status.is_some() && end.started {
                        self.unclaim(fence);
                    }
                    if let Some(problem) = &answer.error {
                        tracing::warn!(%task, %fence, outcome = %end.outcome, refused = %problem,
                            "the end of an attempt was refused");
                    }
                }
                self.accept(leases);
            }
            // The engine read it and will not have it, nor would it the next time.
            Err(ClientError::Problem(problem)) if problem.code != Code::NoSuchWorker => {
                let lost = sent.len();
                tracing::error!(lost, refused = %problem, "ends of attempts were refused");
            }
            Err(error) => {
                for end in sent.into_iter().rev() {
                    self.state.ends.push_front(end);
                }
                self.call_failed("finish", &error, now);
            }
        }
    }

    /// The end is durable: nothing can start under this token any more, so its claim may go.
    fn unclaim(&self, fence: Fence) {
        if let Err(error) = process::remove(&self.run_dir, fence) {
            tracing::warn!(%fence, %error, "a claim stays until the worker ends");
        }
    }

    /// Begins new leases, or hands them back when no more work is taken.
    fn accept(&mut self, leases: Vec<Lease>) {
        for lease in leases {
            if self.state.closing == Closing::No {
                self.begin(lease);
            } else {
                self.state.ends.push_back(unstarted(&lease, Outcome::Released, None));
            }
        }
    }

    /// A call was answered, but not with what it asked for.
    pub(super) fn call_failed(&mut self, call: &str, error: &ClientError, now: Instant) {
        if let ClientError::Problem(problem) = error
            && problem.code == Code::NoSuchWorker
        {
            self.forgotten(now);
            return;
        }
        tracing::error!(call, %error, "the engine refuses a call");
        self.state.polls_from = now + HOLD_OFF;
    }
}
