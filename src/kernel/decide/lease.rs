//! Decisions on leases: who gets one, what its holder may do, and how it ends.

use super::{Answer, Ask, Decision, EndReport, HoldReport, Proof, Rejection, moved};
use crate::defect::Defect;
use crate::kernel::dispatch::{Dispatch, Pick};
use crate::kernel::event::{
    Act, Checkpointed, Ended, Event, Heard, Held, Leased, Moved, Refused, Registration, Standing,
    WorkerChanged, WorkerJoined, WorkerMoved,
};
use crate::kernel::ids::{Fence, Millis, Seq, ServiceTime, TaskId, WorkerId};
use crate::kernel::state::Worker;
use crate::kernel::status::{Outcome, Reason, Status};
use crate::kernel::task::{InputDigest, Lease, SecretHash, Task};
use crate::kernel::text::Text;
use crate::kernel::verdict::{Destiny, Way, destiny};
use std::collections::BTreeSet;

fn worker_moved(worker: WorkerId, to: Standing, reason: Option<Reason>) -> Event {
    Event::WorkerMoved(WorkerMoved { worker, to, reason })
}

/// A worker that speaks is alive, whatever was thought of it.
fn heard_of(worker: &Worker) -> Vec<Event> {
    let silent = worker.standing != Standing::Alive;
    silent.then(|| worker_moved(worker.id, Standing::Alive, None)).into_iter().collect()
}

impl<'a> Ask<'a> {
    pub(super) fn register(self, registration: &Registration) -> Decision {
        let worker = WorkerId(self.state.next_seq().0);
        let joined = WorkerJoined { worker, registration: registration.clone() };
        Decision { events: vec![Event::WorkerJoined(joined)], answer: Answer::Registered(worker) }
    }

    fn worker(self, id: WorkerId) -> Result<&'a Worker, Rejection> {
        self.state.worker(id).ok_or(Rejection::NoSuchWorker(id))
    }

    pub(super) fn offer(
        self,
        id: WorkerId,
        kinds: &[Text],
        slots: u32,
    ) -> Result<Decision, Rejection> {
        let worker = self.worker(id)?;
        let mut events = heard_of(worker);
        if worker.registration.kinds != kinds || worker.registration.slots != slots {
            let changed = WorkerChanged { worker: id, kinds: kinds.to_vec(), slots };
            events.push(Event::WorkerChanged(changed));
        }
        Ok(Decision { events, answer: Answer::Done })
    }

    pub(super) fn leave(self, id: WorkerId) -> Result<Decision, Rejection> {
        self.worker(id)?;
        let mut events = self.lose_all(id, Reason::WorkerCrash);
        events.push(worker_moved(id, Standing::Gone, None));
        Ok(Decision { events, answer: Answer::Done })
    }

    pub(super) fn lease(self, id: WorkerId, secrets: &[SecretHash]) -> Result<Decision, Rejection> {
        let worker = self.worker(id)?;
        let slots = usize::try_from(worker.registration.slots).unwrap_or(usize::MAX);
        let free = slots.saturating_sub(self.state.held_count(id));
        let mut events = heard_of(worker);
        let mut leases = Vec::new();
        let ends = self.now.service.after(self.rules.start_hold());
        let mut seq = self.state.next_seq().0;
        if Defect::ReuseTokens.is_on() {
            seq = self
                .state
                .lease_ends()
                .map(|(_, _, fence)| fence.0.saturating_add(1))
                .max()
                .unwrap_or(1);
        }
        let picks = Dispatch::of(self.state, self.rules, worker, self.now.life);
        for (secret, Pick { task, rate, promoted }) in secrets.iter().take(free).zip(picks) {
            let place = u64::try_from(events.len()).unwrap_or(u64::MAX);
            let fence = Fence(seq.saturating_add(place));
            let secret = *secret;
            let promoted = promoted.then_some(true);
            let leased = Leased { task, fence, worker: id, ends, secret, rate, promoted };
            events.push(Event::Leased(leased));
            leases.push((task, fence));
        }
        Ok(Decision { events, answer: Answer::Leased(leases) })
    }

    /// The task and its lease, if the lease is the speaker's and not over.
    fn valid(self, proof: &Proof) -> Result<(&'a Task, &'a Lease), Rejection> {
        let stale = Rejection::Stale { task: proof.task, fence: proof.fence };
        let Some(task) = self.state.task(proof.task) else { return Err(stale) };
        let Some(lease) = task.lease() else { return Err(stale) };
        let shown = lease.fence == proof.fence
            && lease.worker == proof.worker
            && lease.secret == proof.secret;
        let current = shown && self.now.service < lease.ends;
        if current || Defect::AcceptStaleToken.is_on() {
            return Ok((task, lease));
        }
        Err(stale)
    }

    /// A refusal that goes on record, once for each token and act.
    fn refusal(self, proof: &Proof, act: Act) -> Option<Event> {
        let task = self.state.task(proof.task)?;
        let refused = Refused { task: task.id, fence: proof.fence, act };
        let note = refused.note();
        let mut lines = task.life.iter().flat_map(|life| life.transitions.iter().rev());
        let known = lines.any(|line| line.note.as_deref() == Some(&*note));
        (!known).then_some(Event::Refused(refused))
    }

    fn refuse(self, proof: &Proof, act: Act, rejection: Rejection) -> Decision {
        let events = self.refusal(proof, act).into_iter().collect();
        Decision { events, answer: Answer::Refused(rejection) }
    }

    pub(super) fn heartbeat(
        self,
        id: WorkerId,
        holds: &[HoldReport],
    ) -> Result<Decision, Rejection> {
        let mut events = heard_of(self.worker(id)?);
        let mut stale = Vec::new();
        let mut held = Vec::new();
        let mut said = BTreeSet::new();
        for hold in holds {
            let Ok((task, lease)) = self.valid(&hold.proof) else {
                events.extend(self.refusal(&hold.proof, Act::Heartbeat));
                stale.push((hold.proof.task, hold.proof.fence));
                continue;
            };
            // A hold that is said twice counts once: a second return has nowhere to come from.
            if said.insert(task.id) {
                events.extend(returned(task));
                held.extend(self.renewal(task, lease, hold));
            }
        }
        if !held.is_empty() {
            events.push(Event::Heard(Heard { worker: id, holds: held }));
        }
        Ok(Decision { events, answer: Answer::Heard(stale) })
    }

    /// What a heartbeat changes about one attempt, if anything.
    fn renewal(self, task: &Task, lease: &Lease, hold: &HoldReport) -> Option<Held> {
        let first_word = lease.process.is_none() && hold.process.is_some();
        let hold_for = if first_word || (lease.process.is_some() && task.timeout.is_none()) {
            self.rules.run_hold(&task.kind, task.timeout)
        } else if lease.process.is_none() {
            self.rules.start_hold()
        } else {
            Millis(0) // a lease with a timeout runs from its start; nothing renews it
        };
        let ends = lease.ends.max(self.now.service.after(hold_for));
        let known = task.life.as_ref().and_then(|life| life.progress.as_ref());
        let progress = hold.progress.as_ref().filter(|told| known != Some(*told)).cloned();
        let process = hold.process.clone().filter(|_| first_word);
        let changes = lease.ends < ends || progress.is_some() || process.is_some();
        changes.then_some(Held { task: task.id, fence: lease.fence, ends, process, progress })
    }

    pub(super) fn checkpoint(self, proof: &Proof, data: &Text) -> Decision {
        let task = match self.valid(proof) {
            Ok((task, _)) => task,
            Err(rejection) => return self.refuse(proof, Act::Checkpoint, rejection),
        };
        let mut events = returned(task);
        let place = u64::try_from(events.len()).unwrap_or(u64::MAX);
        let seq = Seq(self.state.next_seq().0.saturating_add(place));
        events.push(Event::Checkpointed(Checkpointed {
            task: task.id,
            fence: proof.fence,
            data: data.clone(),
        }));
        Decision { events, answer: Answer::Checkpointed(seq) }
    }

    pub(super) fn end(self, proof: &Proof, report: &EndReport) -> Decision {
        let task = match self.valid(proof) {
            Ok((task, _)) => task,
            Err(rejection) => return self.repeated_end(proof, rejection),
        };
        let fate = destiny(task.stop(), way(report));
        let mut events = returned(task);
        let end = self.ended(task, proof.fence, fate, Some(report));
        let status = end.last().map_or(fate.to, |(status, _)| *status);
        events.extend(end.into_iter().map(|(_, event)| event));
        Decision { events, answer: Answer::Ended(status) }
    }

    /// An end told twice gets the first answer again; any other is refused, on record.
    fn repeated_end(self, proof: &Proof, rejection: Rejection) -> Decision {
        if let Some(task) = self.state.task(proof.task)
            && let Some(attempt) = task.attempt(proof.fence)
            && attempt.secret == proof.secret
            && let Some(end) = &attempt.end
            && end.outcome != Outcome::Lost
        {
            // The last failure led through RETRYING to DEAD.
            let last = attempt.number == task.attempt_count();
            let dead = last && end.status == Status::Retrying && task.status == Status::Dead;
            let status = if dead { Status::Dead } else { end.status };
            return Decision { events: Vec::new(), answer: Answer::Ended(status) };
        }
        self.refuse(proof, Act::Finish, rejection)
    }

    /// The events of an attempt's end, each with the status it leads to: RETRYING goes on to DEAD
    /// in the same frame when the retries are used up.
    fn ended(
        self,
        task: &Task,
        fence: Fence,
        fate: Destiny,
        report: Option<&EndReport>,
    ) -> Vec<(Status, Event)> {
        let retry = task.retry_count.saturating_add(1);
        let allowed = task.max_retry.saturating_add(u32::from(Defect::RetryOnceMore.is_on()));
        let exhausted = fate.to == Status::Retrying && allowed < retry;
        let waits = fate.to == Status::Retrying && !exhausted;
        let policy = &self.rules.of(&task.kind).retry;
        let silent = || Text::from("the lease ran out and the executor was silent");
        let input = report.and_then(|report| report.input);
        let differs = input.is_some_and(|input| input != InputDigest::of(&task.payload));
        let end = Event::Ended(Ended {
            task: task.id,
            fence,
            outcome: fate.outcome,
            to: fate.to,
            reason: fate.reason,
            wait: waits.then(|| policy.wait(retry, self.now.dice)),
            exit_code: report.and_then(|report| report.exit_code),
            signal: report.and_then(|report| report.signal),
            result: report.and_then(|report| report.result.clone()),
            error: report.map_or_else(
                || (fate.reason == Reason::LeaseExpired).then(silent),
                |report| report.error.clone(),
            ),
            usage: report.and_then(|report| report.usage),
            attempt: task.attempt(fence).map(|attempt| attempt.number),
            ran: report.and_then(|report| report.ran),
            input,
            wrong_input: differs.then_some(true),
        });
        let mut events = vec![(fate.to, end)];
        if exhausted {
            let dead = moved(task.id, Status::Dead, Reason::RetriesExhausted);
            events.push((Status::Dead, dead));
        }
        events
    }

    pub(super) fn silent(self, id: WorkerId, standing: Standing) -> Result<Decision, Rejection> {
        let worker = self.worker(id)?;
        if standing <= worker.standing || standing == Standing::Gone {
            return Err(Rejection::Needless);
        }
        let mut events = match standing {
            Standing::Offline => self.lose_all(id, Reason::WorkerLost),
            Standing::Alive | Standing::Suspect | Standing::Gone => Vec::new(),
        };
        events.push(worker_moved(id, standing, None));
        Ok(Decision { events, answer: Answer::Done })
    }

    pub(super) fn died(self, id: WorkerId, reason: Reason) -> Result<Decision, Rejection> {
        self.worker(id)?;
        let mut events = self.lose_all(id, reason);
        events.push(worker_moved(id, Standing::Gone, Some(reason)));
        Ok(Decision { events, answer: Answer::Done })
    }

    /// Everything that the worker runs becomes LOST. What was LOST already for its silence waits
    /// for the end of its lease, which is near.
    fn lose_all(self, id: WorkerId, reason: Reason) -> Vec<Event> {
        let running = self.state.held(id).filter(|task| task.status == Status::Running);
        running.map(|task| moved(task.id, Status::Lost, reason)).collect()
    }

    pub(super) fn expire(self, id: TaskId, fence: Fence, ran: bool) -> Result<Decision, Rejection> {
        let task = self.task(id)?;
        let lease = task.lease().filter(|lease| lease.fence == fence);
        let lease = lease.ok_or(Rejection::Stale { task: id, fence })?;
        if self.now.service < lease.ends {
            return Err(Rejection::StillHeld(id));
        }
        let events = if task.status == Status::Lost {
            vec![self.taken_back(task, lease.ends)]
        } else {
            let way = if ran { Way::LeaseExpired } else { Way::NeverStarted };
            let end = self.ended(task, fence, destiny(task.stop(), way), None);
            end.into_iter().map(|(_, event)| event).collect()
        };
        Ok(Decision { events, answer: Answer::Done })
    }

    /// Where a lost task goes when nothing of it lives any more. From the second loss on it waits
    /// by the retry policy, so that a task which kills its worker does not spin.
    fn taken_back(self, task: &Task, ends: ServiceTime) -> Event {
        let losses = task.lost_count.saturating_add(1);
        let Destiny { mut to, mut reason, .. } = destiny(task.stop(), Way::Lost);
        if reason == Reason::LeaseRevoked && ends != ServiceTime(0) {
            reason = Reason::LeaseExpired;
        }
        if to == Status::Pending && self.rules.max_lost < losses {
            (to, reason) = (Status::Dead, Reason::LostTooOften);
        }
        let waits = to == Status::Pending && 1 < losses && reason != Reason::UserReset;
        let policy = &self.rules.of(&task.kind).retry;
        let wait = waits.then(|| policy.wait(losses.saturating_sub(1), self.now.dice));
        Event::Moved(Moved { task: task.id, to, reason, wait, error: None })
    }

    pub(super) fn bury(self, id: TaskId) -> Result<Decision, Rejection> {
        let task = self.task(id)?;
        if task.status != Status::Retrying || task.retry_count <= task.max_retry {
            return Err(Rejection::Needless);
        }
        let events = vec![moved(id, Status::Dead, Reason::RetriesExhausted)];
        Ok(Decision { events, answer: Answer::Done })
    }
}

/// A lost task whose executor speaks within its lease runs again.
fn returned(task: &Task) -> Vec<Event> {
    let lost = task.status == Status::Lost;
    lost.then(|| moved(task.id, Status::Running, Reason::ExecutorReturned)).into_iter().collect()
}

/// How the attempt ended, as its worker reports it.
const fn way(report: &EndReport) -> Way {
    match report.outcome {
        Outcome::Success => Way::Success,
        Outcome::Retryable | Outcome::Lost => Way::Retryable,
        Outcome::Fatal => Way::Fatal,
        Outcome::TimedOut => Way::TimedOut,
        Outcome::Cancelled | Outcome::Paused => Way::Obeyed,
        Outcome::Released if report.started => Way::Released,
        Outcome::Released => Way::NeverStarted,
    }
}
