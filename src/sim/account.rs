//! The world's own account of what was acknowledged: small, independent, and compared with the
//! engine.

use crate::engine::{Recorded, Ticket, digest};
use crate::kernel::event::{Event, Stamp};
use crate::kernel::ids::{Fence, Seq, TaskId};
use crate::kernel::status::{Reason, Status};
use crate::kernel::task::Task;
use crate::kernel::{Answer, Command, Image, Rejection, State, apply};
use std::collections::{BTreeMap, BTreeSet};

/// Losses that a task may have in this world.
pub(super) const LOSSES_MAX: u32 = 3;

/// What is known of one task from answers and published events alone.
#[derive(Clone, Debug, Default)]
struct Known {
    payload: Option<String>,
    key: Option<String>,
    end: Option<Status>,
    checkpoint: Option<(Seq, String)>,
    failed_attempts: u32,
    max_retry: u32,
    losses: u32,
}

impl Known {
    /// What a task says of itself.
    fn of(task: &Task) -> Self {
        let checkpoint = task.checkpoint().map(|kept| (kept.seq, kept.data.to_string()));
        Self {
            payload: Some(task.payload.to_string()),
            key: task.key().map(ToString::to_string),
            end: Some(task.status).filter(|status| status.is_terminal()),
            checkpoint,
            failed_attempts: task.retry_count,
            max_retry: task.max_retry,
            losses: task.lost_count,
        }
    }

    /// I15: failures and losses stay within their limits, and DEAD comes exactly beyond them.
    fn count(&mut self, id: TaskId, recorded: &Recorded) {
        let (lost, to) = (recorded.from == Some(Status::Lost), recorded.to);
        match &recorded.event {
            Event::Ended(event) if event.to == Status::Retrying => self.failed_attempts += 1,
            Event::Moved(_) if lost && to != Some(Status::Running) => self.losses += 1,
            _ => {}
        }
        // A reset may lower the limit below what has failed already: then the next failure is the last.
        let (failed, allowed) = (self.failed_attempts, self.max_retry);
        let retried =
            matches!(recorded.event, Event::Leased(_)) && recorded.from == Some(Status::Retrying);
        assert!(!retried || failed <= allowed, "I15: task {id} runs after {failed} of {allowed}");
        // One that is paused or cancelled as it is lost goes where it was told to.
        let waits_again = lost && to == Some(Status::Pending);
        let within = !waits_again || self.losses <= LOSSES_MAX;
        assert!(within, "I15: task {id} waits again after {} losses", self.losses);
        let Event::Moved(event) = &recorded.event else { return };
        let exhausted = event.reason == Reason::RetriesExhausted;
        assert!(!exhausted || allowed < failed, "I15: task {id} is dead after {failed} failures");
        let given_up = event.reason == Reason::LostTooOften;
        assert!(
            !given_up || LOSSES_MAX < self.losses,
            "I15: task {id} is dead after too few losses"
        );
    }
}

/// The account.
#[derive(Debug, Default)]
pub(super) struct Account {
    tasks: BTreeMap<TaskId, Known>,
    keys: BTreeMap<String, TaskId>,
    /// The highest that were ever let out.
    last_seq: Seq,
    last_fence: Fence,
    last_task: TaskId,
    /// What is durable in the archive.
    archive: BTreeSet<TaskId>,
    asked: Vec<Command>,
    answers: BTreeMap<Ticket, Vec<Result<Answer, Rejection>>>,
    /// The state that the last start found, and what was published since.
    base: Option<Image>,
    log: Vec<(Stamp, Event)>,
    /// The fold of everything published.
    mirror: State,
}

impl Account {
    /// Notes what is being asked, to be matched with the answers.
    pub(super) fn asked(&mut self, commands: &[Command]) {
        self.asked = commands.to_vec();
    }

    /// The engine is gone: nobody waits any more.
    pub(super) fn engine_gone(&mut self) {
        self.answers.clear();
    }

    pub(super) fn answered(&mut self, to: Ticket, answers: Vec<Result<Answer, Rejection>>) {
        for (command, answer) in self.asked.iter().zip(&answers) {
            if let (Command::Submit(spec), Ok(Answer::Submitted { task, .. })) = (command, answer) {
                let known = self.tasks.entry(*task).or_default();
                known.payload = Some(spec.payload.to_string());
                known.key = spec.key.as_ref().map(ToString::to_string);
                if let Some(key) = &spec.key {
                    let first = *self.keys.entry(key.to_string()).or_insert(*task);
                    assert_eq!(first, *task, "I18: key {key} names two tasks");
                }
            }
        }
        self.asked.clear();
        self.answers.insert(to, answers);
    }

    pub(super) fn take_answers(
        &mut self,
        ticket: Ticket,
    ) -> Option<Vec<Result<Answer, Rejection>>> {
        self.answers.remove(&ticket)
    }

    /// Ended tasks are durable in the archive.
    pub(super) fn archived(&mut self, tasks: &[Task]) {
        for task in tasks {
            assert!(task.status.is_terminal(), "task {} goes and has not ended", task.id);
            self.archive.insert(task.id);
        }
    }

    /// A task is gone: it had ended, and is in the archive where there is one.
    fn forget(&mut self, id: TaskId, archive: bool) {
        let known = self.tasks.remove(&id).unwrap_or_default();
        assert!(known.end.is_some(), "I1: task {id} is gone and had not ended");
        assert!(!archive || self.archive.contains(&id), "task {id} went without the archive");
        if let Some(key) = known.key {
            self.keys.remove(&key);
        }
    }

    /// A published event is durable, or under a weak policy will be.
    pub(super) fn saw(&mut self, recorded: &Recorded, archive: bool) {
        let Recorded { stamp, event, .. } = recorded;
        assert!(self.last_seq < stamp.seq, "I6: sequence {} after {}", stamp.seq, self.last_seq);
        self.last_seq = stamp.seq;
        apply(&mut self.mirror, stamp, event).expect("I2: what is published can follow");
        self.log.push((stamp.clone(), event.clone()));
        if let Event::Forgotten(forgotten) = event {
            forgotten.tasks.iter().for_each(|id| self.forget(*id, archive));
        }
        let Some(id) = event.task() else { return };
        let known = self.tasks.entry(id).or_default();
        if let (Some(end), Some(to)) = (known.end, recorded.to) {
            assert_eq!(end, to, "I12: task {id} ended as {end} and is now {to}");
        }
        if let Some(to) = recorded.to.filter(|to| to.is_terminal()) {
            known.end = Some(to);
        }
        match event {
            Event::Submitted(event) => {
                assert!(self.last_task < id, "I2: task id {id} after {}", self.last_task);
                self.last_task = id;
                known.max_retry = event.spec.max_retry;
            }
            Event::StopRequested(event) => {
                // A limit below what has failed already ends the task with its next failure.
                let limit = event.max_retry.map(|limit| limit.max(known.failed_attempts));
                known.max_retry = limit.unwrap_or(known.max_retry);
            }
            Event::Edited(event) => {
                known.max_retry = event.max_retry.unwrap_or(known.max_retry);
            }
            Event::Leased(event) => {
                let last = self.last_fence;
                assert!(last < event.fence, "I13: token {} after {last}", event.fence);
                self.last_fence = event.fence;
            }
            Event::Checkpointed(event) => {
                known.checkpoint = Some((stamp.seq, event.data.to_string()));
            }
            _ => {}
        }
        known.count(id, recorded);
    }

    /// After a recovery: everything let out is there, as it was let out. Where some of it
    /// `may_lose`, what is there is a run of it from the beginning; returns whether some was lost.
    #[expect(clippy::fn_params_excessive_bools, reason = "two facts about this world")]
    pub(super) fn recovered(&mut self, state: &State, may_lose: bool, archive: bool) -> bool {
        let found = state.head().seq;
        let lost = found < self.mirror.head().seq;
        if lost {
            assert!(may_lose, "I1: sequence {} is gone", self.mirror.head().seq);
            self.rewind(found);
            self.tasks = state.tasks().map(|task| (task.id, Known::of(task))).collect();
            let keyed = state.tasks().filter_map(|task| Some((task.key()?.to_string(), task.id)));
            self.keys = keyed.collect();
        }
        if found == self.mirror.head().seq {
            let (folded, read) = (digest(&self.mirror.image()), digest(&state.image()));
            assert_eq!(folded, read, "I3: replay gives another state than what was published");
        }
        self.compare(state, archive);
        self.base = Some(state.image());
        self.log.clear();
        self.mirror = State::restore(state.image());
        lost
    }

    /// Takes back what was published after `seq`.
    fn rewind(&mut self, seq: Seq) {
        let base = self.base.clone().map_or_else(State::default, State::restore);
        let kept = base.head().seq;
        assert!(kept <= seq, "I1: sequence {kept} is gone, which an earlier start had found");
        self.mirror = base;
        for (stamp, event) in self.log.iter().take_while(|(stamp, _)| stamp.seq <= seq) {
            apply(&mut self.mirror, stamp, event).expect("it could follow before");
        }
        assert_eq!(self.mirror.head().seq, seq, "I2: the end of a run of what was published");
    }

    fn compare(&mut self, state: &State, archive: bool) {
        // What was durable and not yet published when the engine died is true all the same.
        for task in state.tasks() {
            let known = self.tasks.entry(task.id).or_default();
            if task.status.is_terminal() {
                known.end.get_or_insert(task.status);
            }
            known.key = known.key.take().or_else(|| task.key().map(ToString::to_string));
            known.failed_attempts = known.failed_attempts.max(task.retry_count);
            known.max_retry = task.max_retry.max(known.failed_attempts);
            known.losses = known.losses.max(task.lost_count);
            let acknowledged = known.checkpoint.as_ref().map_or(Seq(0), |(seq, _)| *seq);
            if let Some(newer) = task.checkpoint().filter(|kept| acknowledged < kept.seq) {
                known.checkpoint = Some((newer.seq, newer.data.to_string()));
            }
        }
        assert!(self.last_seq < state.next_seq(), "I6: {} is given again", self.last_seq);
        let ended = self.tasks.iter().filter(|(_, known)| known.end.is_some());
        let gone = ended.map(|(id, _)| *id).filter(|id| state.task(*id).is_none());
        for id in gone.collect::<Vec<_>>() {
            self.forget(id, archive);
        }
        for (id, known) in &self.tasks {
            let Some(task) = state.task(*id) else { panic!("I1: task {id} is gone") };
            if let Some(payload) = &known.payload {
                assert_eq!(&*task.payload, payload, "I2: task {id} has another payload");
            }
            if let Some(key) = &known.key {
                let kept = task.key().map(ToString::to_string);
                assert_eq!(kept.as_ref(), Some(key), "I18: task {id}");
            }
            if let Some(end) = known.end {
                assert_eq!(task.status, end, "I12: task {id} ended as {end}");
            }
            if let Some((seq, data)) = &known.checkpoint {
                let kept =
                    task.checkpoint().unwrap_or_else(|| panic!("I1: a checkpoint of {id} is gone"));
                assert!(*seq <= kept.seq, "I16: task {id} went back to an older checkpoint");
                if *seq == kept.seq {
                    assert_eq!(&*kept.data, data, "I16: task {id} has another checkpoint");
                }
            }
        }
    }

    /// What costs little and must hold after every step.
    pub(super) fn glance(&self, state: &State) {
        assert!(self.last_seq < state.next_seq(), "I7: published ahead of the state");
    }

    /// The sequence number of the last event that was published.
    pub(super) fn last(&self) -> Seq {
        self.mirror.head().seq
    }

    /// Whether a task holds a lease, by what was published.
    pub(super) fn holds(&self, id: TaskId) -> bool {
        self.mirror.task(id).is_some_and(|task| task.lease().is_some())
    }

    /// How many tasks are known.
    pub(super) fn known(&self) -> usize {
        self.tasks.len()
    }

    /// The id of one of them.
    pub(super) fn known_at(&self, place: usize) -> TaskId {
        self.tasks.keys().nth(place).copied().unwrap_or_default()
    }

    /// The last checkpoint that was published for a task.
    pub(super) fn checkpoint(&self, id: TaskId) -> Option<&str> {
        self.tasks.get(&id)?.checkpoint.as_ref().map(|(_, data)| data.as_str())
    }
}
