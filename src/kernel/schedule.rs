//! What is known of one schedule: what it makes, when it fires, and what became of its planned
//! times.
//!
//! A planned time is decided once: it is fired, coalesced into another run, skipped, or missed. Two
//! marks see to it: `next`, the planned time that is decided next, and `decided`, up to which
//! nothing is decided again. Both move in the very record that decides, and a fire and its task are
//! one record, so no crash can come between them.

use super::calendar::{Calendar, CalendarError};
use super::event::Actor;
use super::ids::{Millis, TaskId, Timestamp};
use super::shared::Shared;
use super::task_type::Order;
use super::text::Text;
use crate::limits::DECIDED_KEPT;
use minicbor::{Decode, Encode};
use std::collections::VecDeque;

/// When a schedule fires.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Plan {
    /// Whenever the local time of its zone matches a cron expression.
    #[n(0)]
    Cron(#[n(0)] Text),
    /// Again and again after a span of elapsed time.
    #[n(1)]
    Every(#[n(0)] Millis, #[n(1)] From),
    /// Once, at this instant.
    #[n(2)]
    Once(#[n(0)] Timestamp),
    /// At each start of the host.
    #[n(3)]
    Boot,
}

impl Plan {
    /// Whether it counts elapsed time and not the wall clock: a step of the clock moves it along.
    pub const fn is_elapsed(&self) -> bool {
        matches!(self, Self::Every(..) | Self::Boot)
    }
}

/// From where an interval is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum From {
    /// From the planned time before.
    #[default]
    #[n(0)]
    Start,
    /// From the end of the last run.
    #[n(1)]
    End,
}

impl From {
    /// The word that people and programs see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
        }
    }
}

/// What becomes of a fire while as many runs as may be are not over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Overlap {
    /// It is skipped.
    #[default]
    #[n(0)]
    Skip,
    /// It waits until a run is over.
    #[n(1)]
    Queue,
    /// The runs are cancelled, and it takes their place.
    #[n(2)]
    Replace,
}

impl Overlap {
    /// The word that people and programs see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Queue => "queue",
            Self::Replace => "replace",
        }
    }
}

/// What becomes of a local time that does not exist, because clocks were put forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Gap {
    /// It is planned for the first instant after the gap.
    #[n(0)]
    Shift,
    /// It is not planned.
    #[n(1)]
    Skip,
}

impl Gap {
    /// The word that people and programs see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Shift => "shift",
            Self::Skip => "skip",
        }
    }
}

/// What becomes of a local time that exists twice, because clocks were put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Fold {
    /// It is planned for the first of the two instants.
    #[n(0)]
    First,
    /// It is planned for the second.
    #[n(1)]
    Second,
    /// It is planned for both.
    #[n(2)]
    Both,
}

impl Fold {
    /// The word that people and programs see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Both => "both",
        }
    }
}

/// Where a schedule comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Origin {
    /// The config names it.
    #[n(0)]
    Config,
    /// It was added at run time.
    #[n(1)]
    Runtime,
}

impl Origin {
    /// The word that people and programs see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Runtime => "runtime",
        }
    }
}

/// What somebody wants done again and again.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ScheduleSpec {
    /// Type of its tasks.
    #[n(0)]
    pub kind: Text,
    /// Their payload, as JSON text.
    #[n(1)]
    pub payload: Text,
    /// Their priority.
    #[n(2)]
    pub priority: i32,
    /// When it fires.
    #[n(3)]
    pub plan: Plan,
    /// The zone of its local times, by its IANA name.
    #[n(4)]
    pub zone: Text,
    /// Times that do not exist; none leaves it to the expression.
    #[n(5)]
    pub gap: Option<Gap>,
    /// Times that exist twice; none leaves it to the expression.
    #[n(6)]
    pub fold: Option<Fold>,
    /// Each task waits for a random part of this span.
    #[n(7)]
    pub jitter: Millis,
    /// A planned time that is longer ago than this is missed.
    #[n(8)]
    pub misfire_grace: Millis,
    /// Whether several planned times that passed become one run.
    #[n(9)]
    pub coalesce: bool,
    /// Runs that may be unfinished at once.
    #[n(10)]
    pub max_instances: u32,
    /// What becomes of a fire while there are as many.
    #[n(11)]
    pub overlap: Overlap,
    /// Failed attempts that its tasks may be retried after; none leaves it to their type.
    #[n(12)]
    pub max_retry: Option<u32>,
    /// Longest run of one attempt; none leaves it to the type.
    #[n(13)]
    pub timeout: Option<Millis>,
}

impl ScheduleSpec {
    /// A schedule with the defaults: payload null, priority 100, zone UTC, an hour of grace, missed
    /// times coalesced, one run at once, others skipped.
    pub fn new(kind: impl Into<Text>, plan: Plan) -> Self {
        Self {
            kind: kind.into(),
            payload: "null".into(),
            priority: 100,
            plan,
            zone: "UTC".into(),
            gap: None,
            fold: None,
            jitter: Millis(0),
            misfire_grace: Millis::secs(3600),
            coalesce: true,
            max_instances: 1,
            overlap: Overlap::Skip,
            max_retry: None,
            timeout: None,
        }
    }

    /// Whether `other` fires at the same times.
    pub fn fires_like(&self, other: &Self) -> bool {
        let place = |it: &Self| (it.zone.clone(), it.gap, it.fold);
        self.plan == other.plan && (self.plan.is_elapsed() || place(self) == place(other))
    }

    /// The planned times, ready to be asked for.
    pub fn times(&self) -> Result<Times, CalendarError> {
        Ok(match &self.plan {
            Plan::Cron(cron) => {
                Times::Calendar(Box::new(Calendar::parse(cron, &self.zone, self.gap, self.fold)?))
            }
            Plan::Every(span, From::Start) => Times::Every(*span),
            Plan::Once(at) => Times::Once(*at),
            Plan::Every(_, From::End) | Plan::Boot => Times::Unplanned,
        })
    }
}

/// The planned times of a schedule.
#[derive(Debug)]
pub enum Times {
    /// Those that a cron expression matches.
    Calendar(Box<Calendar>),
    /// A span after the one before.
    Every(Millis),
    /// This one.
    Once(Timestamp),
    /// None that can be told ahead.
    Unplanned,
}

impl Times {
    /// The first planned time after `after`, which for an interval is the one before.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Calendar(calendar) => calendar.next(after),
            Self::Every(span) => Some(after.after(Millis(span.0.max(1)))),
            Self::Once(at) => Some(*at).filter(|at| after < *at),
            Self::Unplanned => None,
        }
    }
}

/// What became of one planned time, or of several one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Passed {
    /// The first of them.
    #[n(0)]
    pub first: Timestamp,
    /// The last of them.
    #[n(1)]
    pub last: Timestamp,
    /// How many there are.
    #[n(2)]
    pub count: u64,
    /// What became of them.
    #[n(3)]
    pub passing: Passing,
    /// The task that was made, or that still ran and so had it skipped.
    #[n(4)]
    pub task: Option<TaskId>,
    /// Set where there are more between the last of them and the next planned time, uncounted.
    #[n(5)]
    pub more: Option<bool>,
}

impl Passed {
    /// What became of a single planned time.
    pub(super) const fn one(at: Timestamp, passing: Passing, task: Option<TaskId>) -> Self {
        Self { first: at, last: at, count: 1, passing, task, more: None }
    }
}

/// What became of a planned time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Passing {
    /// A task was made for it.
    #[n(0)]
    Fired,
    /// The run of a later planned time stands for it.
    #[n(1)]
    Coalesced,
    /// It was skipped, for a run was not over.
    #[n(2)]
    Skipped,
    /// It was longer ago than the misfire grace when it could be decided.
    #[n(3)]
    Missed,
    /// It waits until a run is over; that it fires is told again.
    #[n(4)]
    Queued,
    /// It waited, and was given up: another fire took its place, or the schedule was removed.
    #[n(5)]
    Replaced,
}

impl Passing {
    /// The word that people and programs see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fired => "fired",
            Self::Coalesced => "coalesced",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
            Self::Queued => "queued",
            Self::Replaced => "replaced",
        }
    }
}

/// From which schedule a task comes, and for which time.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Scheduled {
    /// The schedule.
    #[n(0)]
    pub schedule: Text,
    /// The planned time; for a run that a person asked for, when that was.
    #[n(1)]
    pub planned: Timestamp,
    /// Who asked for the run, where it was not the time.
    #[n(2)]
    pub manual: Option<Actor>,
}

/// What was decided, and when.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Decided {
    /// When, by the wall clock.
    #[n(0)]
    pub at: Timestamp,
    /// What.
    #[n(1)]
    pub passed: Passed,
}

/// How often each thing became of a planned time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Counts {
    /// Runs.
    #[n(0)]
    pub fired: u64,
    /// Planned times for which another run stood.
    #[n(1)]
    pub coalesced: u64,
    /// Planned times that were skipped, or replaced while they waited.
    #[n(2)]
    pub skipped: u64,
    /// Planned times that were missed.
    #[n(3)]
    pub missed: u64,
}

impl Counts {
    fn add(&mut self, passed: &Passed) {
        let counter = match passed.passing {
            Passing::Fired => &mut self.fired,
            Passing::Coalesced => &mut self.coalesced,
            Passing::Skipped | Passing::Replaced => &mut self.skipped,
            Passing::Missed => &mut self.missed,
            Passing::Queued => return,
        };
        *counter = counter.saturating_add(passed.count);
    }
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Schedule {
    /// Its name.
    #[n(0)]
    pub name: Text,
    /// What is wanted.
    #[n(1)]
    pub spec: Shared<ScheduleSpec>,
    /// Where it comes from.
    #[n(2)]
    pub origin: Origin,
    /// When its times began to count: when it was made, or given other times.
    #[n(3)]
    pub since: Timestamp,
    /// Who did.
    #[n(4)]
    pub by: Actor,
    /// That it does not fire.
    #[n(5)]
    pub paused: Option<Order>,
    /// The planned time that is decided next.
    #[n(6)]
    pub next: Option<Timestamp>,
    /// Nothing up to here is decided again.
    #[n(7)]
    pub decided: Timestamp,
    /// Set while `next` is only when to look anew, from `decided` on.
    #[n(8)]
    pub look: Option<bool>,
    /// Fires that wait until a run is over, oldest first.
    #[n(9)]
    pub queued: VecDeque<Scheduled>,
    /// Planned times after `decided` that were fired before the clock was put back.
    #[n(10)]
    pub ahead: VecDeque<Timestamp>,
    /// The last task.
    #[n(11)]
    pub last_task: Option<TaskId>,
    /// The planned time of the last run.
    #[n(12)]
    pub last_planned: Option<Timestamp>,
    /// When a run last ended well.
    #[n(13)]
    pub last_success: Option<Timestamp>,
    /// Runs that ended otherwise since.
    #[n(14)]
    pub failures: u32,
    /// How often each thing became of a planned time.
    #[n(15)]
    pub counts: Counts,
    /// What was decided last, oldest first.
    #[n(16)]
    pub recent: VecDeque<Decided>,
}

impl Schedule {
    /// A schedule of which nothing was decided yet.
    pub(super) fn new(name: Text, spec: Shared<ScheduleSpec>, origin: Origin) -> Self {
        Self {
            name,
            spec,
            origin,
            since: Timestamp(0),
            by: Actor::Daemon,
            paused: None,
            next: None,
            decided: Timestamp(0),
            look: None,
            queued: VecDeque::new(),
            ahead: VecDeque::new(),
            last_task: None,
            last_planned: None,
            last_success: None,
            failures: 0,
            counts: Counts::default(),
            recent: VecDeque::new(),
        }
    }

    /// Notes what was decided; what continues the last line makes it longer.
    pub(super) fn note(&mut self, at: Timestamp, passed: &Passed) {
        self.counts.add(passed);
        let alike = |last: &Passed| {
            last.passing == passed.passing && last.task == passed.task && last.last < passed.first
        };
        let grows = !matches!(passed.passing, Passing::Fired | Passing::Queued);
        if let Some(last) = self.recent.back_mut().filter(|last| grows && alike(&last.passed)) {
            last.passed.last = passed.last;
            last.passed.count = last.passed.count.saturating_add(passed.count);
            last.passed.more = passed.more.or(last.passed.more);
            last.at = at;
            return;
        }
        if self.recent.len() == DECIDED_KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(Decided { at, passed: passed.clone() });
    }

    /// Whether it can be as it is; the first thing that can't, in words.
    pub(super) fn check(&self, name: &str, live: usize) -> Result<(), String> {
        if *self.name != *name {
            return Err(format!("schedule {} is kept as {name}", self.name));
        }
        let idle = self.next.is_none() && self.queued.is_empty() && live == 0;
        if idle && self.paused.is_none() && matches!(self.spec.plan, Plan::Every(..)) {
            return Err(format!("schedule {name} is in limbo: nothing would ever fire it"));
        }
        if !self.ahead.iter().is_sorted() {
            return Err(format!("the planned times ahead of schedule {name} are out of order"));
        }
        Ok(())
    }
}
