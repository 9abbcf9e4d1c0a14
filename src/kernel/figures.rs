//! What was counted: per type and over all, from the events alone, in constant time for each.
//!
//! Figures are part of the state. Replay counts what was counted live, a snapshot keeps it, and so
//! they are the same after any number of restarts. Time is that of the life clock, which no step of
//! the wall clock touches and which goes on over restarts.
//!
//! A state that comes from a snapshot without figures begins to count there: what was live then is
//! the base of the account.

pub mod histogram;
pub mod window;

pub use histogram::Histogram;

use super::event::{Ended, Event, Fired, Stamp, Submitted};
use super::ids::{LifeTime, Millis, Seq, TaskId, Timestamp};
use super::schedule::Passing;
use super::shared::Shared;
use super::state::State;
use super::status::{Outcome, Status};
use super::task::Task;
use super::text::Text;
use crate::limits::{MINUTES_KEPT, QUARTERS_KEPT, TYPES_COUNTED_MAX};
use minicbor::{Decode, Encode};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use window::Stretch;

/// The length of a stretch of the charts.
pub const MINUTE: Millis = Millis::secs(60);

/// The length of a stretch of what is told by type.
pub const QUARTER: Millis = Millis::secs(15 * 60);

/// A run that was made so long after its planned time is still on time.
pub const ON_TIME: Millis = Millis::secs(5);

/// Stands for all types beyond the number that is counted apart; no type can be called so.
pub const OTHERS: &str = "(others)";

/// Priority of a task that was given none.
const ORDINARY: i32 = 100;

/// How often what happened to tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Sums {
    /// Tasks that were submitted.
    #[n(0)]
    pub created: u64,
    /// Tasks that ended in SUCCESS.
    #[n(1)]
    pub succeeded: u64,
    /// Tasks that ended in FAILED.
    #[n(2)]
    pub failed: u64,
    /// Tasks that ended in DEAD.
    #[n(3)]
    pub dead: u64,
    /// Tasks that were CANCELLED.
    #[n(4)]
    pub cancelled: u64,
    /// Failed attempts that are followed by another one.
    #[n(5)]
    pub retried: u64,
    /// Attempts whose executor was lost.
    #[n(6)]
    pub lost: u64,
    /// Attempts that were leased.
    #[n(7)]
    pub attempts: u64,
}

impl Sums {
    /// Tasks that ended, in whatever way.
    pub const fn ended(&self) -> u64 {
        self.judged().saturating_add(self.cancelled)
    }

    /// Tasks that ended in SUCCESS, FAILED or DEAD.
    pub const fn judged(&self) -> u64 {
        self.succeeded.saturating_add(self.failed).saturating_add(self.dead)
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        let Self { created, succeeded, failed, dead, cancelled, retried, lost, attempts } = other;
        let add = |to: &mut u64, more: &u64| *to = to.saturating_add(*more);
        add(&mut self.created, created);
        add(&mut self.succeeded, succeeded);
        add(&mut self.failed, failed);
        add(&mut self.dead, dead);
        add(&mut self.cancelled, cancelled);
        add(&mut self.retried, retried);
        add(&mut self.lost, lost);
        add(&mut self.attempts, attempts);
    }
}

/// Sums and times, of one type since counting began or of one stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Tale {
    /// The number of the stretch since the life clock began; 0 where it is no stretch.
    #[n(0)]
    pub number: u64,
    /// How often.
    #[n(1)]
    pub sums: Sums,
    /// From when tasks were due until they were leased.
    #[n(2)]
    pub wait: Histogram,
    /// How long attempts ran.
    #[n(3)]
    pub run: Histogram,
    /// The most failed attempts of a task that ended.
    #[n(4)]
    pub most_retries: u32,
    /// That task.
    #[n(5)]
    pub most_task: Option<TaskId>,
}

impl Stretch for Tale {
    fn number(&self) -> u64 {
        self.number
    }

    fn begin(number: u64) -> Self {
        Self { number, ..Self::default() }
    }
}

impl Tale {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.sums.add(&other.sums);
        self.wait.add(&other.wait);
        self.run.add(&other.run);
        self.note_retries(other.most_retries, other.most_task);
    }

    fn note_retries(&mut self, retries: u32, task: Option<TaskId>) {
        if self.most_retries < retries {
            self.most_retries = retries;
            self.most_task = task;
        }
    }
}

/// What one type did since counting began, and when it last ended well and badly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TypeFigures {
    /// The type.
    #[n(0)]
    pub kind: Text,
    /// Since counting began.
    #[n(1)]
    pub ever: Tale,
    /// The last day by quarters of an hour.
    #[n(2)]
    pub quarters: VecDeque<Tale>,
    /// When one last ended in SUCCESS.
    #[n(3)]
    pub last_success: Option<Timestamp>,
    /// When one last ended in FAILED or DEAD.
    #[n(4)]
    pub last_failure: Option<Timestamp>,
    /// Tasks that ended in FAILED or DEAD with no SUCCESS between.
    #[n(5)]
    pub failures: u32,
}

impl TypeFigures {
    /// How long its runs of the span before `now` took.
    pub fn runs(&self, now: LifeTime, span: Millis) -> Histogram {
        let first = window::number(LifeTime(now.0.saturating_sub(span.0)), QUARTER);
        self.since_quarter(first).run
    }

    fn since_quarter(&self, first: u64) -> Tale {
        let mut tale = Tale::default();
        window::from(&self.quarters, first).for_each(|quarter| tale.add(quarter));
        tale
    }
}

/// Whether schedules fire when they should.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Triggers {
    /// The number of the stretch since the life clock began; 0 where it is no stretch.
    #[n(0)]
    pub number: u64,
    /// Planned times for which a run was made.
    #[n(1)]
    pub fired: u64,
    /// Of these, at most [`ON_TIME`] late.
    #[n(2)]
    pub on_time: u64,
    /// Planned times without a run of their own or another's.
    #[n(3)]
    pub without_run: u64,
    /// The latest run was made so long after its time.
    #[n(4)]
    pub latest: Millis,
}

impl Stretch for Triggers {
    fn number(&self) -> u64 {
        self.number
    }

    fn begin(number: u64) -> Self {
        Self { number, ..Self::default() }
    }
}

impl Triggers {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.fired = self.fired.saturating_add(other.fired);
        self.on_time = self.on_time.saturating_add(other.on_time);
        self.without_run = self.without_run.saturating_add(other.without_run);
        self.latest = self.latest.max(other.latest);
    }

    fn count(&mut self, event: &Fired, now: Timestamp) {
        for passed in &event.passed {
            match passed.passing {
                Passing::Fired => {
                    let late = now.since(passed.last);
                    self.fired = self.fired.saturating_add(1);
                    self.on_time = self.on_time.saturating_add(u64::from(late <= ON_TIME));
                    self.latest = self.latest.max(late);
                }
                Passing::Skipped | Passing::Missed | Passing::Replaced => {
                    self.without_run = self.without_run.saturating_add(passed.count);
                }
                // The run of another time stands for it, or it is told again when it fires.
                Passing::Coalesced | Passing::Queued => {}
            }
        }
    }
}

/// What was counted over all types.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AllFigures {
    /// Tasks that had not ended when counting began.
    #[n(0)]
    pub base: u64,
    /// The record before counting began.
    #[n(1)]
    pub since: Seq,
    /// The last two hours by minutes.
    #[n(2)]
    pub minutes: VecDeque<Tale>,
    /// Triggers since counting began.
    #[n(3)]
    pub triggers: Triggers,
    /// Triggers of the last day by quarters of an hour.
    #[n(4)]
    pub trigger_quarters: VecDeque<Triggers>,
    /// The waits of tasks of a smaller priority than the ordinary one: they run first.
    #[n(5)]
    pub wait_urgent: Histogram,
    /// The waits of tasks of the ordinary priority.
    #[n(6)]
    pub wait_ordinary: Histogram,
    /// The waits of tasks of a larger priority than the ordinary one.
    #[n(7)]
    pub wait_patient: Histogram,
    /// Attempts that ran another input than the one that was submitted.
    #[n(8)]
    pub wrong_input: u64,
}

/// All figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// By type, at most [`TYPES_COUNTED_MAX`] and [`OTHERS`].
    pub types: BTreeMap<Text, Shared<TypeFigures>>,
    /// Over all types.
    pub all: Shared<AllFigures>,
}

impl Default for Figures {
    fn default() -> Self {
        Self { types: BTreeMap::new(), all: Shared::new(AllFigures::default()) }
    }
}

impl Figures {
    /// Those of a state of which nothing was counted yet.
    pub fn begin(live: u64, since: Seq) -> Self {
        let all = AllFigures { base: live, since, ..AllFigures::default() };
        Self { types: BTreeMap::new(), all: Shared::new(all) }
    }

    /// Sums over all types since counting began.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        self.types.values().for_each(|figures| sums.add(&figures.ever.sums));
        sums
    }

    /// What each type did within the span before `now`, and where the span begins in fact.
    pub fn by_type(&self, now: LifeTime, span: Millis) -> (LifeTime, BTreeMap<&str, Tale>) {
        let first = window::number(LifeTime(now.0.saturating_sub(span.0)), QUARTER);
        let types =
            self.types.iter().map(|(kind, figures)| (&**kind, figures.since_quarter(first)));
        (LifeTime(first.saturating_mul(QUARTER.0)), types.collect())
    }

    /// How punctual schedules were within the span before `now`.
    pub fn triggers(&self, now: LifeTime, span: Millis) -> Triggers {
        let first = window::number(LifeTime(now.0.saturating_sub(span.0)), QUARTER);
        let mut triggers = Triggers::default();
        let quarters = window::from(&self.all.trigger_quarters, first);
        quarters.for_each(|quarter| triggers.add(quarter));
        triggers
    }

    /// What does not fit, in words: there are as many live tasks as were taken and did not end.
    pub(super) fn check(&self, live: u64) -> Result<(), String> {
        let sums = self.sums();
        let taken = self.all.base.saturating_add(sums.created);
        if taken != sums.ended().saturating_add(live) {
            let ended = sums.ended();
            return Err(format!("{taken} tasks were taken, {ended} ended, and {live} are live"));
        }
        Ok(())
    }

    fn of(&mut self, kind: &Text) -> &mut TypeFigures {
        let known = self.types.contains_key(kind);
        let room = self.types.len() < TYPES_COUNTED_MAX;
        let kind = if known || room { kind.clone() } else { Text::from(OTHERS) };
        let fresh = || Shared::new(TypeFigures { kind: kind.clone(), ..TypeFigures::default() });
        self.types.entry(kind.clone()).or_insert_with(fresh).make_mut()
    }

    /// Counts something of a type, everywhere where it is counted.
    fn tell(&mut self, kind: &Text, at: LifeTime, count: impl Fn(&mut Tale)) -> &mut TypeFigures {
        let minutes = &mut self.all.make_mut().minutes;
        window::tell(minutes, (at, MINUTE, MINUTES_KEPT), &count);
        let figures = self.of(kind);
        count(&mut figures.ever);
        window::tell(&mut figures.quarters, (at, QUARTER, QUARTERS_KEPT), &count);
        figures
    }

    fn submitted(&mut self, stamp: &Stamp, event: &Submitted) {
        self.tell(&event.spec.kind, stamp.life, |tale| {
            tale.sums.created = tale.sums.created.saturating_add(1);
        });
    }

    fn leased(&mut self, stamp: &Stamp, task: &Task) {
        let last = task.life.as_ref().and_then(|life| life.attempts.back());
        let waited = last.map_or(Millis(0), |attempt| attempt.waited);
        let all = self.all.make_mut();
        match task.priority.cmp(&ORDINARY) {
            Ordering::Less => all.wait_urgent.count(waited),
            Ordering::Equal => all.wait_ordinary.count(waited),
            Ordering::Greater => all.wait_patient.count(waited),
        }
        self.tell(&task.kind, stamp.life, |tale| {
            tale.sums.attempts = tale.sums.attempts.saturating_add(1);
            tale.wait.count(waited);
        });
    }

    fn ended(&mut self, stamp: &Stamp, event: &Ended, task: &Task) {
        if event.wrong_input == Some(true) {
            let wrong = &mut self.all.make_mut().wrong_input;
            *wrong = wrong.saturating_add(1);
        }
        let ran = match event.outcome {
            Outcome::Success | Outcome::Retryable | Outcome::Fatal | Outcome::TimedOut => {
                let leased = task.attempt(event.fence).map(|attempt| attempt.leased);
                event.ran.or_else(|| leased.map(|leased| stamp.wall.since(leased)))
            }
            Outcome::Cancelled | Outcome::Paused | Outcome::Released | Outcome::Lost => None,
        };
        // The last failure leads through RETRYING to its death, without a wait.
        let retried = u64::from(event.to == Status::Retrying && event.wait.is_some());
        self.tell(&task.kind, stamp.life, |tale| {
            tale.sums.retried = tale.sums.retried.saturating_add(retried);
            if let Some(ran) = ran {
                tale.run.count(ran);
            }
        });
        self.moved(stamp, event.to, task);
    }

    fn moved(&mut self, stamp: &Stamp, to: Status, task: &Task) {
        let counter: fn(&mut Sums) -> &mut u64 = match to {
            Status::Success => |sums| &mut sums.succeeded,
            Status::Failed => |sums| &mut sums.failed,
            Status::Dead => |sums| &mut sums.dead,
            Status::Cancelled => |sums| &mut sums.cancelled,
            Status::Lost => |sums| &mut sums.lost,
            Status::Pending | Status::Running | Status::Retrying | Status::Paused => return,
        };
        let more = |sums: &mut Sums| *counter(sums) = counter(sums).saturating_add(1);
        let figures = self.tell(&task.kind, stamp.life, |tale| {
            more(&mut tale.sums);
            if to.is_terminal() {
                // Its last failure is no retry.
                let retries = task.retry_count.min(task.max_retry);
                tale.note_retries(retries, Some(task.id));
            }
        });
        if to == Status::Success {
            figures.last_success = Some(stamp.wall);
            figures.failures = 0;
        } else if matches!(to, Status::Failed | Status::Dead) {
            figures.last_failure = Some(stamp.wall);
            figures.failures = figures.failures.saturating_add(1);
        }
    }

    fn fired(&mut self, stamp: &Stamp, event: &Fired) {
        let all = self.all.make_mut();
        all.triggers.count(event, stamp.wall);
        let place = (stamp.life, QUARTER, QUARTERS_KEPT);
        window::tell(&mut all.trigger_quarters, place, |quarter| quarter.count(event, stamp.wall));
        if let Some(submitted) = &event.task {
            self.submitted(stamp, submitted);
        }
    }
}

/// Counts an event that was just made part of the state.
pub(super) fn count(state: &mut State, stamp: &Stamp, event: &Event) {
    let State { tasks, figures, .. } = state;
    match event {
        Event::Submitted(event) => figures.submitted(stamp, event),
        Event::Fired(event) => figures.fired(stamp, event),
        Event::Leased(event) => {
            if let Some(task) = tasks.get(event.task) {
                figures.leased(stamp, task);
            }
        }
        Event::Ended(event) => {
            if let Some(task) = tasks.get(event.task) {
                figures.ended(stamp, event, task);
            }
        }
        Event::Moved(event) => {
            if let Some(task) = tasks.get(event.task) {
                figures.moved(stamp, event.to, task);
            }
        }
        Event::Heard(_)
        | Event::Checkpointed(_)
        | Event::StopRequested(_)
        | Event::Hurried(_)
        | Event::WorkerJoined(_)
        | Event::WorkerMoved(_)
        | Event::WorkerChanged(_)
        | Event::Refused(_)
        | Event::Started(_)
        | Event::Forgotten(_)
        | Event::TypePaused(_)
        | Event::TypeResumed(_)
        | Event::TypeLimited(_)
        | Event::Edited(_)
        | Event::ClockStepped(_)
        | Event::ScheduleSet(_)
        | Event::ScheduleRemoved(_)
        | Event::SchedulePaused(_)
        | Event::ScheduleResumed(_)
        | Event::Released(_)
        | Event::AlertRaised(_)
        | Event::AlertCleared(_)
        | Event::AlertAcked(_)
        | Event::AlertsTold(_) => {}
    }
}
