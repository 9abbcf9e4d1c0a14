//! One turn: inputs in, one frame to the disk (more when it would grow too large), outputs out.

use super::{Engine, Input, Output, Recorded, Waiter, codec};
use crate::defect::Defect;
use crate::journal::disk::Disk;
use crate::journal::frame::BATCH_BYTES_MAX;
use crate::journal::{JournalError, Room};
use crate::kernel::event::{Actor, Event, Stamp};
use crate::kernel::ids::{LifeTime, Millis, Moment, Seq, ServiceTime, WorkerId};
use crate::kernel::task::TaskSpec;
use crate::kernel::{Answer, Command, Decision, Rejection, apply, decide};

/// Records of a heartbeat wait at most this long for a frame to travel in.
const FLUSH_AFTER: Millis = Millis::secs(10);

/// Room that must be there before new work is decided: the largest submission and its frame.
const ROOM_BYTES: u64 = 2 << 20;

/// Asked for beyond that, so that the many submissions of one frame ask the disk once.
const ROOM_AHEAD_BYTES: u64 = BATCH_BYTES_MAX as u64;

/// How often a working engine looks whether the journal still has its name.
const LOOK_EVERY: Millis = Millis::secs(1);

/// Due tasks moved into the ready sets in one turn.
const RIPEN_MAX: usize = 1024;

impl<D: Disk> Engine<D> {
    /// One turn. Decides everything, makes it durable, and returns what rests on it.
    ///
    /// Blocks for one write and one sync when anything durable changed. On an error the process
    /// must end: nothing of this turn was answered, and whether it will be in the journal after a
    /// restart is not known.
    pub fn step(
        &mut self,
        inputs: impl IntoIterator<Item = Input>,
        mut now: Moment,
    ) -> Result<Vec<Output<D>>, JournalError> {
        self.turned = now.life;
        self.roomy = 0;
        self.again = self.state.ripen(now, RIPEN_MAX);
        self.look_for_the_journal(now.life)?;
        self.let_go(&mut now)?;
        if Defect::PublishBeforeCommit.is_on() {
            self.commit()?;
        }
        for input in inputs {
            self.take(input, &mut now)?;
        }
        self.time_passes(&mut now)?;
        self.settle(&mut now)?;
        self.fire_schedules(&mut now)?;
        self.serve_waiters(&mut now)?;
        let urgent = self.urgent && !Defect::PublishBeforeCommit.is_on();
        if urgent || self.flush_at.is_some_and(|at| at <= now.service) {
            self.commit()?;
        } else {
            self.outbox.append(&mut self.held);
        }
        self.sync_left = self.journal.sync_if_due(Millis(now.life.0).duration())?;
        self.snapshot_when_due()?;
        Ok(std::mem::take(&mut self.outbox))
    }

    /// Ends the engine within a second of work when the data directory is no longer where it was:
    /// what is written then can be found by nobody.
    fn look_for_the_journal(&mut self, now: LifeTime) -> Result<(), JournalError> {
        if now < self.there.after(LOOK_EVERY) {
            return Ok(());
        }
        self.there = now;
        self.journal.check_still_there()
    }

    fn take(&mut self, input: Input, now: &mut Moment) -> Result<(), JournalError> {
        match input {
            Input::Ask { from, by, commands } => self.ask(from, &by, &commands, now),
            Input::AwaitLease { from, worker, secrets, patience } => {
                let until = now.life.after(patience);
                self.note_heard(worker, now.service);
                self.waiters.push(Waiter { from, worker, secrets, until });
                Ok(())
            }
            Input::Forget(from) => {
                self.waiters.retain(|waiter| waiter.from != from);
                Ok(())
            }
            Input::Swept { task, fence, ran } => {
                self.sweeping.remove(&(task, fence));
                let command = Command::Expire { task, fence, ran };
                self.carry_out(&command, &Actor::Daemon, now).map(drop)
            }
            Input::WorkerDied { worker, reason } => {
                let command = Command::Died { worker, reason };
                self.heard.remove(&worker);
                self.carry_out(&command, &Actor::Daemon, now).map(drop)
            }
            Input::Archived { tasks, written } => self.archived(tasks, written, now),
            Input::SnapshotWritten(written) => self.snapshot_written(written),
            Input::ClockStepped { from, to } => {
                let command = Command::StepClock { from, to };
                self.carry_out(&command, &Actor::Daemon, now).map(drop)
            }
        }
    }

    fn ask(
        &mut self,
        to: super::Ticket,
        by: &Actor,
        commands: &[Command],
        now: &mut Moment,
    ) -> Result<(), JournalError> {
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            if let Command::Lease { worker, secrets } = command
                && secrets.is_empty()
            {
                self.dismiss_waiters(*worker);
            }
            answers.push(self.carry_out(command, by, now)?);
        }
        self.held.push(Output::Answers { to, answers });
        Ok(())
    }

    /// A worker that asks for no lease wants none: its request that waits for work is answered
    /// with nothing.
    fn dismiss_waiters(&mut self, worker: WorkerId) {
        for waiter in self.waiters.extract_if(.., |waiter| waiter.worker == worker) {
            let nothing = vec![Ok(Answer::Leased(Vec::new()))];
            self.held.push(Output::Answers { to: waiter.from, answers: nothing });
        }
    }

    /// Decides one command, and makes its events part of the state and of the next frame.
    ///
    /// The events of one command are one logical step and never stand in two frames.
    pub(super) fn carry_out(
        &mut self,
        command: &Command,
        by: &Actor,
        now: &mut Moment,
    ) -> Result<Result<Answer, Rejection>, JournalError> {
        if let Some(answer) = self.without_room(command)? {
            return Ok(answer);
        }
        let moment = Self::roll(now);
        let decision = decide(&self.state, &self.rules, command, moment);
        let speaker = command.speaker();
        let answer = match decision {
            Ok(Decision { events, answer }) => {
                let by = speaker.as_ref().unwrap_or(by);
                if Defect::SplitStep.is_on() {
                    for event in events {
                        self.record(vec![event], by, moment)?;
                        self.commit_batch()?;
                    }
                } else {
                    self.record(events, by, moment)?;
                }
                Ok(answer)
            }
            Err(rejection) => Err(rejection),
        };
        // Whoever registers has spoken, though it had no name to speak under.
        let heard = match (&answer, &speaker) {
            (Ok(Answer::Registered(worker)), _) | (_, Some(Actor::Worker(worker))) => Some(*worker),
            _ => None,
        };
        if let Some(worker) = heard {
            self.note_heard(worker, now.service);
        }
        Ok(answer)
    }

    /// A worker spoke; one that is not, or no longer, registered leaves no trace.
    fn note_heard(&mut self, worker: WorkerId, at: ServiceTime) {
        if self.state.worker(worker).is_some() {
            self.heard.insert(worker, at);
        } else {
            self.heard.remove(&worker);
        }
    }

    /// The answer while the disk is full: new work is refused, and what waits goes on waiting,
    /// for the reserve belongs to the ends of what runs.
    fn without_room(
        &mut self,
        command: &Command,
    ) -> Result<Option<Result<Answer, Rejection>>, JournalError> {
        let answer = match command {
            Command::Lease { .. } => Ok(Answer::Leased(Vec::new())),
            Command::Submit(spec) | Command::SubmitInvalid { spec, .. } if self.is_known(spec) => {
                return Ok(None);
            }
            command if command.is_new_work() => Err(Rejection::NoSpace),
            _ => return Ok(None),
        };
        Ok(if self.has_room()? { None } else { Some(answer) })
    }

    /// Whether a submission's key names a task that is there already: no new work.
    fn is_known(&self, spec: &TaskSpec) -> bool {
        spec.key.as_ref().is_some_and(|key| self.state.task_by_key(key).is_some())
    }

    /// Applies and encodes the events of one step.
    pub(super) fn record(
        &mut self,
        events: Vec<Event>,
        by: &Actor,
        now: Moment,
    ) -> Result<(), JournalError> {
        if events.is_empty() {
            return Ok(());
        }
        self.urgent |= events.iter().any(Event::is_durable);
        self.scratch.clear();
        let mut ends = Vec::with_capacity(events.len());
        let mut recorded = Vec::with_capacity(events.len());
        for event in events {
            let stamp = Stamp {
                seq: self.state.next_seq(),
                wall: now.wall,
                life: now.life,
                service: now.service,
                by: by.clone(),
            };
            codec::encode(&stamp, &event, &mut self.scratch);
            ends.push((codec::kind(&event), self.scratch.len()));
            recorded.push(self.make_true(stamp, event));
        }
        if !self.batch.fits_step(self.scratch.len(), ends.len()) {
            self.commit_batch()?;
        }
        let mut start = 0;
        for (kind, end) in ends {
            let body = self.scratch.get(start..end).unwrap_or_default();
            self.batch.push(kind, false, body);
            start = end;
        }
        self.recorded.append(&mut recorded);
        if self.flush_at.is_none() {
            self.flush_at = Some(now.service.after(FLUSH_AFTER));
        }
        Ok(())
    }

    /// Makes one event part of the state.
    #[expect(clippy::expect_used, reason = "decide asked the same table that apply asks")]
    fn make_true(&mut self, stamp: Stamp, event: Event) -> Recorded {
        let task = event.task();
        let from = task.and_then(|task| self.state.task(task)).map(|task| task.status);
        apply(&mut self.state, &stamp, &event).expect("a decided event can follow");
        let task = task.and_then(|task| self.state.task(task));
        let of_task = task.map(|task| &task.kind);
        let kind = of_task.or_else(|| event.task_type()).cloned();
        Recorded { stamp, event, kind, from, to: task.map(|task| task.status) }
    }

    /// Makes everything durable, and lets out what rested on it.
    pub(super) fn commit(&mut self) -> Result<(), JournalError> {
        self.commit_batch()?;
        self.urgent = false;
        self.outbox.append(&mut self.held);
        Ok(())
    }

    /// Writes the batch as one frame. What is held stays held: it may rest on the step that is
    /// being recorded right now.
    fn commit_batch(&mut self) -> Result<(), JournalError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let first = self.journal.commit(&self.batch)?;
        assert_eq!(
            self.recorded.first().map(|recorded| recorded.stamp.seq),
            Some(Seq(first)),
            "the journal numbers records as the state does"
        );
        self.batch.clear();
        self.roomy = 0;
        self.flush_at = None;
        self.outbox.push(Output::Events(std::mem::take(&mut self.recorded)));
        Ok(())
    }

    /// Whether new work may be taken on: the reserve is for the ends of what runs.
    fn has_room(&mut self) -> Result<bool, JournalError> {
        let pending = u64::try_from(self.batch.bytes()).unwrap_or(u64::MAX);
        let wanted = pending.saturating_add(ROOM_BYTES);
        if wanted <= self.roomy {
            return Ok(true);
        }
        let ahead = wanted.saturating_add(ROOM_AHEAD_BYTES);
        if self.journal.has_room_for(ahead)? == Room::Plenty {
            self.roomy = ahead;
            return Ok(true);
        }
        Ok(self.journal.has_room_for(wanted)? == Room::Plenty)
    }

    /// Leases to those who wait for work, first come first served.
    fn serve_waiters(&mut self, now: &mut Moment) -> Result<(), JournalError> {
        let mut waiting = std::mem::take(&mut self.waiters);
        let mut unserved = Vec::with_capacity(waiting.len());
        for waiter in waiting.drain(..) {
            let over = waiter.until <= now.life;
            let due = self.has_something_for(waiter.worker, now.life);
            let answer = if due { self.try_lease(&waiter, now)? } else { None };
            match answer {
                Some(answer) => {
                    self.held.push(Output::Answers { to: waiter.from, answers: vec![answer] });
                }
                None if over => self.held.push(Output::Answers {
                    to: waiter.from,
                    answers: vec![Ok(Answer::Leased(Vec::new()))],
                }),
                None => unserved.push(waiter),
            }
        }
        self.waiters = unserved;
        Ok(())
    }

    /// Whether a waiting worker would get anything, if only the word that it is not known. One that
    /// would not must not be asked for: it would count as having spoken, turn after turn, though
    /// it is silent.
    fn has_something_for(&self, id: WorkerId, now: LifeTime) -> bool {
        let worker = self.state.worker(id);
        worker.is_none_or(|worker| self.state.has_work_for(&self.rules, worker, now))
    }

    /// What a waiter gets; none when there is nothing for it yet.
    fn try_lease(
        &mut self,
        waiter: &Waiter,
        now: &mut Moment,
    ) -> Result<Option<Result<Answer, Rejection>>, JournalError> {
        let command = Command::Lease { worker: waiter.worker, secrets: waiter.secrets.clone() };
        let heard = self.heard.get(&waiter.worker).copied();
        let answer = self.carry_out(&command, &Actor::Daemon, now)?;
        // Waiting is not speaking: a long poll that hangs proves no life.
        if let Some(heard) = heard {
            self.heard.insert(waiter.worker, heard);
        }
        Ok(match answer {
            Ok(Answer::Leased(leases)) if leases.is_empty() => None,
            answer => Some(answer),
        })
    }

    /// The earliest moment at which a waiter's patience ends.
    pub(super) fn first_patience(&self) -> Option<LifeTime> {
        self.waiters.iter().map(|waiter| waiter.until).min()
    }
}
