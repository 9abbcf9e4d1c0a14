//! What a worker does, one event after the other.
//!
//! This file begins and ends the work; `calls.rs` keeps the books of slots and requests, `life.rs`
//! moves the attempts.

use super::attempt::Attempt;
use super::crew::Crew;
use super::error::WorkerError;
use super::events::{Event, Events, report};
use super::link::{Link, Pauses};
use super::output::Job;
use super::reload::Reload;
use crate::api::{End, LeaseProof, OfferRequest, RegisterRequest, Registered, StopOrder, StopWord};
use crate::client::ClientError;
use crate::config::Watch;
use crate::kernel::ids::{Fence, WorkerId};
use crate::process;
use crate::units;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout, timeout_at};

/// Between two bytes to the supervisor, as it expects them; more would only wake an idle machine.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// How much earlier the byte may be sent when this thread is awake anyway: it need not wake again.
const PROBE_EARLY: Duration = Duration::from_secs(2);

/// No engine is asked more often, whatever it wants.
const BEAT_EVERY_MIN: Duration = Duration::from_millis(10);

/// How long a worker that is to end tries to hand over what ended, with the engine away.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);
const ORPHANED_WITHIN: Duration = Duration::from_mins(1);

/// How long a worker that was told to end once more goes on killing and handing over. The
/// supervisor gives it 5 s.
const HURRIED_WITHIN: Duration = Duration::from_secs(3);

/// Why no more work is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// It is.
    No,
    /// This process has grown too large: what runs may finish, then another one takes its place.
    Retiring,
    /// The supervisor is gone: what runs may finish.
    Finishing,
    /// SIGTERM: what runs is stopped and handed back.
    Draining,
}

/// The books.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether one kind of call is in flight"
)]
#[derive(Debug)]
pub(super) struct State {
    pub(super) attempts: BTreeMap<Fence, Attempt>,
    /// Our id, while the engine knows us.
    pub(super) worker: Option<WorkerId>,
    /// The store's uuid, as far as it was ever told.
    pub(super) store: String,
    registering: bool,
    /// Counts registrations, so that answers to an earlier one can be told.
    pub(super) registration: u64,
    /// Slots that a lease request in flight asks for.
    pub(super) leasing: u32,
    /// Ends not yet sent, and those that a finish request in flight carries.
    pub(super) ends: VecDeque<End>,
    pub(super) finishing: Vec<End>,
    pub(super) finishing_slots: u32,
    pub(super) beating: bool,
    pub(super) beat_at: Instant,
    pub(super) beat_every: Duration,
    pub(super) beat_pauses: Pauses,
    /// The orders that the last poll for stops told.
    pub(super) known: Vec<StopOrder>,
    pub(super) waiting_for_stops: bool,
    /// No call that polls is made before this.
    pub(super) polls_from: Instant,
    /// The host could not start a handler: nothing is leased before this.
    pub(super) hurt_until: Instant,
    probe_at: Instant,
    pub(super) closing: Closing,
    /// It was told to end once more: over by then, whatever is left.
    pub(super) over_at: Option<Instant>,
    /// Since when there is nothing left to do but to hand over ends and leave.
    idle_since: Option<Instant>,
    pub(super) leaving: bool,
    /// What the engine was last told that this worker offers, and whether it is being told.
    pub(super) offered: OfferRequest,
    pub(super) offering: bool,
    is_over: bool,
}

impl State {
    pub(super) fn new(now: Instant, offered: OfferRequest) -> Self {
        Self {
            attempts: BTreeMap::new(),
            worker: None,
            store: String::new(),
            registering: false,
            registration: 0,
            leasing: 0,
            ends: VecDeque::new(),
            finishing: Vec::new(),
            finishing_slots: 0,
            beating: false,
            beat_at: now,
            beat_every: BEAT_EVERY_MIN,
            beat_pauses: Pauses::default(),
            known: Vec::new(),
            waiting_for_stops: false,
            polls_from: now,
            hurt_until: now,
            probe_at: now,
            closing: Closing::No,
            over_at: None,
            idle_since: None,
            leaving: false,
            offered,
            offering: false,
            is_over: false,
        }
    }
}

/// A worker at work.
#[derive(Debug)]
pub(super) struct Duty {
    pub(super) link: Rc<Link>,
    pub(super) crew: Crew,
    /// Bytes of memory beyond which this process retires.
    pub(super) memory_max: Option<u64>,
    pub(super) logs: mpsc::Sender<Job>,
    pub(super) events: Events,
    pub(super) data_dir: PathBuf,
    pub(super) run_dir: PathBuf,
    pub(super) probe: Option<OwnedFd>,
    pub(super) reload: Option<Reload>,
    pub(super) watch: Option<Watch>,
    pub(super) registration: RegisterRequest,
    pub(super) state: State,
}

impl Duty {
    /// Works until there is a reason to end.
    pub(super) async fn serve(
        mut self,
        mut inbox: mpsc::Receiver<Event>,
    ) -> Result<(), WorkerError> {
        self.register();
        while !self.state.is_over {
            let event = timeout_at(self.next_look(), inbox.recv()).await;
            if let Some(event) = event.unwrap_or_default() {
                self.take(event)?;
            }
            // What waits already is taken before requests go out, so that they carry it all.
            while let Ok(event) = inbox.try_recv() {
                self.take(event)?;
            }
            let now = Instant::now();
            self.look_at_attempts(now);
            self.prove_life(now);
            self.despair_of_the_engine(now);
            self.call(now);
            self.end_if_nothing_is_left(now);
            self.end_if_out_of_time(now);
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), WorkerError> {
        let now = Instant::now();
        match event {
            Event::Registered(answer) => self.registered(answer, now)?,
            Event::Leased { registration, answer } => {
                if self.is_current(registration) {
                    self.state.leasing = 0;
                    self.leased(answer, now);
                }
            }
            Event::Beaten { registration, answer } => {
                if self.is_current(registration) {
                    self.beaten(answer, now);
                }
            }
            Event::Stops { registration, answer } => {
                if self.is_current(registration) {
                    self.state.waiting_for_stops = false;
                    self.heard_stops(answer, now);
                }
            }
            Event::Finished { registration, answer } => {
                if self.is_current(registration) {
                    self.finished(answer, now);
                }
            }
            Event::Checkpointed { fence, answer, id, reply } => {
                if let Some(answer) = self.checkpointed(fence, answer, now) {
                    drop(reply.send(answer.marked(id)));
                }
            }
            Event::Started { fence, result } => self.started(fence, result, now),
            Event::Asked { fence, asked } => self.asked(fence, asked),
            Event::SourceClosed(fence) => self.source_closed(fence),
            Event::LeaderEnded(fence) => self.leader_ended(fence, now),
            Event::Returned { fence, error } => {
                if let Some(attempt) = self.state.attempts.get_mut(&fence) {
                    attempt.returned(error, now);
                }
            }
            Event::LogClosed(fence) => self.log_closed(fence),
            Event::Terminate => self.terminate(now),
            Event::Reload { asked } => self.read_the_config(asked),
            Event::Offered { registration, answer } => {
                if self.is_current(registration) {
                    self.state.offering = false;
                    self.offer_answered(answer, now);
                }
            }
            Event::LifelineCut => self.lifeline_cut(),
            Event::Left => self.state.is_over = true,
        }
        Ok(())
    }

    const fn is_current(&self, registration: u64) -> bool {
        registration == self.state.registration
    }

    /// When to look around without anything having happened.
    fn next_look(&self) -> Instant {
        let state = &self.state;
        let mut looks: Vec<Instant> = state.attempts.values().filter_map(Attempt::next).collect();
        if self.probe.is_some() {
            looks.push(state.probe_at);
        }
        if state.worker.is_some() && !state.beating {
            looks.push(state.beat_at);
        }
        if state.worker.is_some() && Instant::now() < state.polls_from {
            looks.push(state.polls_from);
        }
        looks.extend(Some(state.hurt_until).filter(|until| Instant::now() < *until));
        if let Some(since) = state.idle_since {
            looks.push(since + self.patience());
        }
        looks.extend(state.over_at);
        looks.extend(self.despair_at().filter(|at| Instant::now() < *at));
        looks.into_iter().min().unwrap_or_else(|| Instant::now() + Duration::from_hours(1))
    }

    /// Tells the supervisor that this thread still does its work.
    fn prove_life(&mut self, now: Instant) {
        if self.probe.is_none() || now + PROBE_EARLY < self.state.probe_at {
            return;
        }
        self.state.probe_at = now + PROBE_EVERY;
        self.tell_the_supervisor(b".");
    }

    pub(super) fn tell_the_supervisor(&mut self, word: &[u8]) {
        let Some(probe) = &self.probe else { return };
        match rustix::io::write(probe, word) {
            // A full pipe means that nobody reads it, which is not our concern.
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::debug!(%error, "nobody listens to the probe any more");
                self.probe = None;
            }
        }
    }

    fn register(&mut self) {
        if std::mem::replace(&mut self.state.registering, true) {
            return;
        }
        let (link, events) = (Rc::clone(&self.link), self.events.clone());
        let request = self.registration.clone();
        self.state.offered = self.offer();
        spawn_local(async move {
            let answer = link.register(&request).await;
            report(&events, Event::Registered(answer)).await;
        });
    }

    fn registered(
        &mut self,
        answer: Result<Registered, ClientError>,
        now: Instant,
    ) -> Result<(), WorkerError> {
        self.state.registering = false;
        let Registered { worker, heartbeat_ms, store, data_dir } =
            answer.map_err(|error| WorkerError::refused(&error))?;
        let theirs = Path::new(&data_dir).canonicalize();
        if theirs.ok().as_ref() != Some(&self.data_dir) {
            let ours = self.data_dir.display();
            return Err(WorkerError::setup(format!(
                "the engine's data directory is {data_dir}, ours is {ours}"
            )));
        }
        tracing::info!(%worker, name = self.registration.name, "registered");
        self.state.worker = Some(worker);
        self.state.store = store;
        self.state.beat_every = heartbeat_ms.duration().max(BEAT_EVERY_MIN);
        self.state.beat_at = now + self.state.beat_every;
        Ok(())
    }

    /// The engine does not know us any more: whatever we hold belongs to somebody else by now.
    pub(super) fn forgotten(&mut self, now: Instant) {
        let Some(worker) = self.state.worker.take() else { return };
        let held = self.state.attempts.len();
        if self.state.leaving {
            tracing::debug!(%worker, "a last call was answered after the goodbye");
        } else {
            tracing::warn!(%worker, held, "the engine does not know this worker any more");
        }
        for attempt in self.state.attempts.values_mut() {
            attempt.stop(StopWord::Superseded, now);
        }
        for end in self.state.ends.drain(..).chain(self.state.finishing.drain(..)) {
            let LeaseProof { task, fence, .. } = end.lease;
            tracing::warn!(%task, %fence, outcome = %end.outcome, "an end was dropped");
        }
        self.state.registration += 1;
        self.state.leasing = 0;
        self.state.finishing_slots = 0;
        self.state.beating = false;
        self.state.waiting_for_stops = false;
        self.state.offering = false;
        self.state.known.clear();
        self.register();
    }

    /// The first time what runs is stopped with its graces, the second time it is killed.
    fn terminate(&mut self, now: Instant) {
        let again = self.state.closing == Closing::Draining;
        tracing::info!(again, held = self.state.attempts.len(), "told to end");
        self.state.closing = Closing::Draining;
        self.link.close();
        for attempt in self.state.attempts.values_mut() {
            attempt.stop(StopWord::Shutdown, now);
            if again {
                attempt.hurry(now);
            }
        }
        // Threads cannot be killed but with their process; the third time nothing is waited for.
        if again && (self.crew.processes().is_none() || self.state.over_at.is_some()) {
            self.state.is_over = true;
        } else if again {
            self.state.over_at = Some(now + HURRIED_WITHIN);
        }
    }

    /// What could be neither killed nor handed over in time is swept by the engine, which sees our
    /// lock free.
    fn end_if_out_of_time(&mut self, now: Instant) {
        if self.state.over_at.is_some_and(|at| at <= now) {
            let (held, lost) = (self.state.attempts.len(), self.state.ends.len());
            tracing::error!(held, lost, "out of time: what is left here has to run again");
            self.state.is_over = true;
        }
    }

    /// Takes no more work once this process holds more memory than it may: what leaks here, or is
    /// held by the allocator for ever, goes with the process.
    pub(super) fn weigh(&mut self) {
        let Some(most) = self.memory_max.filter(|_| self.state.closing == Closing::No) else {
            return;
        };
        match process::resident_bytes() {
            Ok(bytes) if most < bytes => {
                let (bytes, most) = (units::bytes(bytes), units::bytes(most));
                tracing::warn!(
                    held = self.state.attempts.len(),
                    "this worker holds {bytes} of memory and may hold {most} \
                     (`worker.memory_max`): it finishes what it runs, and ends"
                );
                self.state.closing = Closing::Retiring;
                self.link.close();
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "cannot tell our own size"),
        }
    }

    fn lifeline_cut(&mut self) {
        if matches!(self.state.closing, Closing::No | Closing::Retiring) {
            tracing::warn!("the supervisor is gone: this worker finishes what it runs");
            self.state.closing = Closing::Finishing;
            self.link.close();
        }
    }

    /// When a worker that is to end has waited long enough for an engine that is away.
    fn despair_at(&self) -> Option<Instant> {
        let closing = self.state.closing;
        // Whoever retires has a supervisor, and waits as long as one that goes on.
        let waits = matches!(closing, Closing::No | Closing::Retiring);
        if waits || self.state.attempts.is_empty() {
            return None;
        }
        Some(self.link.away_since()? + self.patience())
    }

    /// Stops waiting for an engine that does not come back. An orphan hands nothing back to
    /// anybody, so what it runs is stopped; and a checkpoint under way, which an ended attempt
    /// would wait for without end, is given up: the next attempt begins at the one before it.
    fn despair_of_the_engine(&mut self, now: Instant) {
        if self.despair_at().is_none_or(|at| now < at) {
            return;
        }
        if self.state.closing == Closing::Finishing {
            tracing::error!("the supervisor and the engine are gone: what runs is stopped");
            self.terminate(now);
        }
        for attempt in self.state.attempts.values_mut() {
            attempt.hang_up();
            if attempt.give_up_saving() {
                tracing::error!(fence = %attempt.lease.fence, "the engine is away; a checkpoint is given up");
            }
        }
        self.look_at_attempts(now);
    }

    fn patience(&self) -> Duration {
        if self.state.closing == Closing::Draining { LEAVE_WITHIN } else { ORPHANED_WITHIN }
    }

    /// Leaves once everything that ran was handed over, or cannot be.
    fn end_if_nothing_is_left(&mut self, now: Instant) {
        let patience = self.patience();
        let state = &mut self.state;
        if state.closing == Closing::No || !state.attempts.is_empty() || state.leaving {
            return;
        }
        let has_ended = state.ends.is_empty() && state.finishing.is_empty();
        // A request for leases may still be granted some, which have to be handed back.
        if let (Some(worker), true, 0) = (state.worker, has_ended, state.leasing) {
            state.leaving = true;
            let (link, events) = (Rc::clone(&self.link), self.events.clone());
            spawn_local(async move {
                match timeout(LEAVE_WITHIN, link.leave(worker)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "cannot say goodbye"),
                    Err(_) => tracing::warn!("nobody takes our goodbye"),
                }
                report(&events, Event::Left).await;
            });
            return;
        }
        let since = *state.idle_since.get_or_insert(now);
        let lost = state.ends.len() + state.finishing.len();
        if lost == 0 && state.worker.is_none() {
            state.is_over = true;
        } else if since + patience <= now && state.closing != Closing::Retiring {
            tracing::error!(lost, "the engine is away; what ended here has to run again");
            self.state.is_over = true;
        }
    }
}
