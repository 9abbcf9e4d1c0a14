//! Decisions on schedules and on steps of the wall clock.
//!
//! What a schedule owes is looked up when its next planned time has come, or when a fire that
//! waited has room; each decision covers the planned times that passed since the last one, up to a
//! bound, and the engine asks again while there are more.

use super::people::ask_stop;
use super::{Answer, Ask, Decision, Rejection, moved};
use crate::kernel::calendar::CalendarError;
use crate::kernel::event::{
    Actor, ClockStepped, Event, Fired, Jump, SchedulePaused, ScheduleRemoved, ScheduleResumed,
    ScheduleSet,
};
use crate::kernel::ids::{Millis, TaskId, Timestamp};
use crate::kernel::schedule::{
    Origin, Overlap, Passed, Passing, Plan, Schedule, ScheduleSpec, Scheduled, Times,
};
use crate::kernel::status::{Reason, Status, Stop};
use crate::kernel::task::TaskSpec;
use crate::kernel::text::Text;
use crate::limits::{FIRES_QUEUED_MAX, PLANNED_PER_RECORD_MAX, SCHEDULES_MAX};

/// What somebody wants of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleAct {
    /// Make it, or change it. Never opens a planned time that was already past.
    Set {
        /// What is wanted.
        spec: Box<ScheduleSpec>,
        /// Who wants it. The config takes over what was added at run time, never the other way.
        origin: Origin,
        /// Whether another schedule of that name may be changed.
        replace: bool,
    },
    /// Take it away; its tasks stay.
    Remove {
        /// Who wants it.
        origin: Origin,
    },
    /// Let it not fire any more.
    Pause {
        /// Why.
        reason: Option<Text>,
    },
    /// Let it fire again, from now on.
    Resume,
    /// Make a run now.
    Trigger {
        /// Who asks for it.
        by: Actor,
    },
}

impl<'a> Ask<'a> {
    fn schedule(self, name: &Text) -> Result<&'a Schedule, Rejection> {
        self.state.schedule(name).ok_or_else(|| Rejection::NoSuchSchedule(name.clone()))
    }

    pub(super) fn act_on_schedule(
        self,
        name: &Text,
        act: &ScheduleAct,
    ) -> Result<Decision, Rejection> {
        let event = match act {
            ScheduleAct::Set { spec, origin, replace } => {
                self.set_schedule(name, spec, *origin, *replace)?
            }
            ScheduleAct::Remove { origin } => {
                if *origin == Origin::Runtime && self.schedule(name)?.origin == Origin::Config {
                    return Err(Rejection::ScheduleOfConfig(name.clone()));
                }
                self.schedule(name)?;
                Some(Event::ScheduleRemoved(ScheduleRemoved { name: name.clone() }))
            }
            ScheduleAct::Pause { reason } => {
                let paused = SchedulePaused { name: name.clone(), reason: reason.clone() };
                let runs = self.schedule(name)?.paused.is_none();
                runs.then_some(Event::SchedulePaused(paused))
            }
            ScheduleAct::Resume => {
                let schedule = self.schedule(name)?;
                let from = self.now.wall.max(schedule.decided);
                let next = self.first_planned(&schedule.spec, from)?;
                let resumed = ScheduleResumed { name: name.clone(), next };
                schedule.paused.is_some().then_some(Event::ScheduleResumed(resumed))
            }
            ScheduleAct::Trigger { by } => return self.trigger(self.schedule(name)?, by),
        };
        let answer = Answer::ScheduleActed { changed: event.is_some(), task: None };
        let given_up = event.as_ref().and_then(|event| self.given_up(name, event));
        Ok(Decision { events: given_up.into_iter().chain(event).collect(), answer })
    }

    /// What is due of a schedule that after `event` fires no more, or at other times: no run is made
    /// for it, and that is on record.
    fn given_up(self, name: &Text, event: &Event) -> Option<Event> {
        let schedule = self.state.schedule(name)?;
        let kept = if let Event::ScheduleSet(set) = event {
            set.keeps == Some(true)
        } else {
            !matches!(event, Event::SchedulePaused(_) | Event::ScheduleRemoved(_))
        };
        let held = self.now.doubtful && !schedule.spec.plan.is_elapsed();
        if kept || held || schedule.paused.is_some() {
            return None;
        }
        let (mut walk, mut turn) =
            (Walk::of(schedule), Turn { decided: schedule.decided, ..Turn::default() });
        self.miss(schedule, &mut walk, &mut turn);
        let end = self.now.wall.after(Millis(1));
        if let Some(due) = walk.take_before(end) {
            let more = walk.at.is_some_and(|at| at < end).then_some(true);
            turn.decided = due.last;
            turn.passed.push(Passed { passing: Passing::Skipped, more, ..due });
        }
        if matches!(event, Event::ScheduleRemoved(_)) && !schedule.queued.is_empty() {
            let waited = schedule.queued.iter().filter(|fire| fire.manual.is_none());
            turn.passed
                .extend(waited.map(|fire| Passed::one(fire.planned, Passing::Replaced, None)));
            turn.queued = Some(Vec::new());
        }
        let decided = !turn.passed.is_empty() || turn.queued.is_some();
        turn.decision(schedule, walk.at).events.pop().filter(|_| decided)
    }

    fn set_schedule(
        self,
        name: &Text,
        spec: &ScheduleSpec,
        origin: Origin,
        replace: bool,
    ) -> Result<Option<Event>, Rejection> {
        let old = self.state.schedule(name);
        if let Some(old) = old {
            if *old.spec == *spec && old.origin == origin {
                return Ok(None);
            }
            if origin == Origin::Runtime && old.origin == Origin::Config {
                return Err(Rejection::ScheduleOfConfig(name.clone()));
            }
            if origin == Origin::Runtime && !replace {
                return Err(Rejection::ScheduleExists(name.clone()));
            }
        } else if SCHEDULES_MAX <= self.state.schedule_count() {
            return Err(Rejection::TooManySchedules);
        }
        let kept = old.filter(|old| old.spec.fires_like(spec));
        if origin == Origin::Runtime
            && kept.is_none()
            && matches!(spec.plan, Plan::Once(at) if at <= self.now.wall)
        {
            let why = "it is past, and nothing that is past is ever run".to_owned();
            return Err(Rejection::BadTimes(CalendarError { key: "at", why }));
        }
        let next = match kept {
            Some(old) => old.next,
            None if old.is_some_and(|old| old.paused.is_some()) => None,
            None => self.first_planned(spec, self.now.wall)?,
        };
        let keeps = kept.is_some().then_some(true);
        let (name, spec) = (name.clone(), spec.clone());
        Ok(Some(Event::ScheduleSet(ScheduleSet { name, spec, origin, next, keeps })))
    }

    /// The first planned time after `from` of a schedule that begins now.
    fn first_planned(
        self,
        spec: &ScheduleSpec,
        from: Timestamp,
    ) -> Result<Option<Timestamp>, Rejection> {
        let times = spec.times().map_err(Rejection::BadTimes)?;
        Ok(match (&spec.plan, times) {
            (Plan::Every(span, _), _) => Some(self.now.wall.after(*span)),
            (_, times) => times.next(from),
        })
    }

    /// What becomes of the planned times of a schedule that have come, or of the first fire that
    /// waits.
    pub(super) fn fire(self, name: &Text) -> Result<Decision, Rejection> {
        let schedule = self.schedule(name)?;
        let mut walk = Walk::of(schedule);
        if schedule.look != Some(true)
            && let Some(first) = schedule.queued.front()
            && self.has_room(schedule)
        {
            return self.fire_queued(schedule, first);
        }
        let held = self.now.doubtful && !schedule.spec.plan.is_elapsed();
        let due = schedule.next.is_some_and(|next| next <= self.now.wall);
        if schedule.paused.is_some() || held || !due {
            return Err(Rejection::Needless);
        }
        let mut turn = Turn { decided: schedule.decided, ..Turn::default() };
        self.miss(schedule, &mut walk, &mut turn);
        if walk.at.is_some_and(|at| at <= self.now.wall) {
            self.pass(schedule, &mut walk, &mut turn)?;
        }
        Ok(turn.decision(schedule, walk.at))
    }

    /// What is longer ago than the grace is missed. What is not planned ahead is never given up for
    /// its age.
    fn miss(self, schedule: &Schedule, walk: &mut Walk<'_>, turn: &mut Turn) {
        if matches!(walk.times, Times::Unplanned) {
            return;
        }
        let cutoff = Timestamp(self.now.wall.0.saturating_sub(schedule.spec.misfire_grace.0));
        let Some(mut missed) = walk.take_before(cutoff) else { return };
        missed.passing = Passing::Missed;
        turn.decided = missed.last;
        if walk.at.is_some_and(|at| at < cutoff) {
            missed.more = Some(true);
            walk.skip_to(cutoff);
            turn.decided = turn.decided.max(Timestamp(cutoff.0.saturating_sub(1)));
        }
        turn.passed.push(missed);
    }

    /// Planned times that have come and are within the grace.
    fn pass(
        self,
        schedule: &Schedule,
        walk: &mut Walk<'_>,
        turn: &mut Turn,
    ) -> Result<(), Rejection> {
        let spec = &schedule.spec;
        let end = self.now.wall.after(Millis(1));
        let runs = self.state.live(&schedule.name).next().map(|task| task.id);
        let blocked = !self.has_room(schedule) && spec.overlap == Overlap::Skip;
        if blocked || spec.coalesce {
            let Some(mut all) = walk.take_before(end) else { return Ok(()) };
            turn.decided = all.last;
            if blocked {
                (all.passing, all.task) = (Passing::Skipped, runs);
                turn.passed.push(all);
                return Ok(());
            }
            if walk.at.is_some_and(|at| at < end) {
                all.passing = Passing::Coalesced; // into a run that a later decision makes
                turn.passed.push(all);
                return Ok(());
            }
            let last = all.last;
            let made = self.fire_one(schedule, last, turn)?;
            if let Some(before) = walk.before_last.filter(|_| 1 < all.count) {
                let count = all.count.saturating_sub(1);
                let place = turn.passed.len().saturating_sub(1);
                let coalesced =
                    Passed { last: before, count, passing: Passing::Coalesced, task: made, ..all };
                turn.passed.insert(place, coalesced);
            }
            return Ok(());
        }
        if let Some(at) = walk.at {
            turn.decided = at;
            walk.step();
            self.fire_one(schedule, at, turn)?;
        }
        Ok(())
    }

    fn has_room(self, schedule: &Schedule) -> bool {
        let max = usize::try_from(schedule.spec.max_instances).unwrap_or(usize::MAX);
        self.state.live_count(&schedule.name) < max
    }

    /// A run for one planned time: made at once, or waiting until there is room for it.
    fn fire_one(
        self,
        schedule: &Schedule,
        planned: Timestamp,
        turn: &mut Turn,
    ) -> Result<Option<TaskId>, Rejection> {
        let scheduled = Scheduled { schedule: schedule.name.clone(), planned, manual: None };
        self.run(schedule, scheduled, turn)
    }

    fn run(
        self,
        schedule: &Schedule,
        scheduled: Scheduled,
        turn: &mut Turn,
    ) -> Result<Option<TaskId>, Rejection> {
        let one = Passed::one;
        let planned = scheduled.planned;
        let manual = scheduled.manual.is_some();
        let mut room = self.has_room(schedule);
        if !room && schedule.spec.overlap == Overlap::Replace {
            room = self.replace(schedule, turn);
        }
        if room {
            let spec = self.task_spec(schedule, scheduled);
            let submitted = self.made(spec)?;
            let task = submitted.task;
            if !manual {
                turn.passed.push(one(planned, Passing::Fired, Some(task)));
            }
            turn.task = Some(submitted);
            return Ok(Some(task));
        }
        let mut queue: Vec<_> = schedule.queued.iter().cloned().collect();
        if schedule.spec.overlap == Overlap::Replace {
            let waited = queue.drain(..).filter(|fire| fire.manual.is_none());
            turn.passed.extend(waited.map(|fire| one(fire.planned, Passing::Replaced, None)));
        }
        let passing =
            if queue.len() < FIRES_QUEUED_MAX { Passing::Queued } else { Passing::Skipped };
        if !manual {
            turn.passed.push(one(planned, passing, None));
        }
        if passing == Passing::Queued {
            queue.push(scheduled);
            turn.queued = Some(queue);
        }
        Ok(None)
    }

    /// Ends the runs of a schedule; whether there is room for another one already.
    fn replace(self, schedule: &Schedule, turn: &mut Turn) -> bool {
        let mut run = 0_u32;
        for task in self.state.live(&schedule.name) {
            match task.status {
                Status::Running | Status::Lost => {
                    run = run.saturating_add(1);
                    turn.before.extend(ask_stop(task, Stop::Cancel, None));
                }
                Status::Pending
                | Status::Paused
                | Status::Retrying
                | Status::Success
                | Status::Failed
                | Status::Dead
                | Status::Cancelled => {
                    turn.before.push(moved(task.id, Status::Cancelled, Reason::Superseded));
                }
            }
        }
        run < schedule.spec.max_instances
    }

    fn task_spec(self, schedule: &Schedule, scheduled: Scheduled) -> TaskSpec {
        let ScheduleSpec { kind, payload, priority, jitter, max_retry, timeout, .. } =
            &*schedule.spec;
        let rules = self.rules.of(kind);
        let dice = jitter.0.checked_add(1).and_then(|span| self.now.dice.checked_rem(span));
        let wait = dice.filter(|wait| 0 < *wait).map(Millis);
        TaskSpec {
            priority: *priority,
            max_retry: max_retry.unwrap_or(rules.max_retry),
            timeout: timeout.or(rules.timeout),
            delay: wait.filter(|_| scheduled.manual.is_none()),
            scheduled: Some(scheduled),
            ..TaskSpec::new(kind.clone(), payload.clone())
        }
    }

    fn fire_queued(self, schedule: &Schedule, first: &Scheduled) -> Result<Decision, Rejection> {
        let mut turn = Turn { decided: schedule.decided, ..Turn::default() };
        self.run(schedule, first.clone(), &mut turn)?;
        turn.queued = Some(schedule.queued.iter().skip(1).cloned().collect());
        Ok(turn.decision(schedule, schedule.next))
    }

    fn trigger(self, schedule: &Schedule, by: &Actor) -> Result<Decision, Rejection> {
        let runs = self.state.live(&schedule.name).next();
        let room = self.has_room(schedule);
        match (schedule.spec.overlap, runs.filter(|_| !room)) {
            (Overlap::Skip, Some(task)) => {
                let schedule = schedule.name.clone();
                return Err(Rejection::Overlaps { schedule, task: task.id });
            }
            (Overlap::Queue, Some(_)) if FIRES_QUEUED_MAX <= schedule.queued.len() => {
                return Err(Rejection::FiresQueued(schedule.name.clone()));
            }
            _ => {}
        }
        let scheduled = Scheduled {
            schedule: schedule.name.clone(),
            planned: self.now.wall,
            manual: Some(by.clone()),
        };
        let mut turn = Turn { decided: schedule.decided, ..Turn::default() };
        let task = self.run(schedule, scheduled, &mut turn)?;
        let mut decision = turn.decision(schedule, schedule.next);
        decision.answer = Answer::ScheduleActed { changed: !decision.events.is_empty(), task };
        Ok(decision)
    }

    /// A step back into a stretch that nobody lived through shows that the clock was wrong when it
    /// was there: what was decided in it without a run is open again. It may go by way of a clock
    /// that shows nothing plausible, as after a boot without a battery.
    pub(super) fn step_clock(self, from: Timestamp, to: Timestamp) -> Decision {
        let jump = self.state.head().jump;
        let plausible = |at: Timestamp| self.rules.plausible_since <= at;
        let back = plausible(to) && (to < from || !plausible(from));
        let unborn = || self.state.schedules().any(|schedule| to < schedule.since);
        let reopens = back && jump.is_some_and(|jump| to < jump.to);
        // Without a jump only what was made in a time that was none begins again.
        let reopens = if reopens { Some(true) } else { (back && unborn()).then_some(false) };
        let jump = if from < to {
            // A clock that was never set says nothing of the time before.
            Some(Jump { from: from.max(self.rules.plausible_since), to }).filter(|_| plausible(to))
        } else if reopens == Some(true) {
            jump.filter(|jump| jump.from < to).map(|jump| Jump { to, ..jump })
        } else {
            jump
        };
        let first_set = (!plausible(from) && plausible(to)).then_some(true);
        let stepped = ClockStepped { from, to, jump, reopens, first_set };
        let stepped = Event::ClockStepped(stepped);
        Decision { events: vec![stepped], answer: Answer::Done }
    }
}

/// What one decision about a schedule comes to.
#[derive(Default)]
struct Turn {
    /// Events that come before: runs that are ended.
    before: Vec<Event>,
    passed: Vec<Passed>,
    task: Option<crate::kernel::event::Submitted>,
    queued: Option<Vec<Scheduled>>,
    decided: Timestamp,
}

impl Turn {
    fn decision(self, schedule: &Schedule, next: Option<Timestamp>) -> Decision {
        let Self { before: mut events, passed, task, queued, decided } = self;
        let made = task.as_ref().map(|submitted| submitted.task);
        let schedule = schedule.name.clone();
        events.push(Event::Fired(Fired { schedule, passed, task, next, decided, queued }));
        Decision { events, answer: Answer::ScheduleActed { changed: true, task: made } }
    }
}

/// A walk along the planned times of a schedule.
struct Walk<'a> {
    schedule: &'a Schedule,
    times: Times,
    /// The planned time that comes next.
    at: Option<Timestamp>,
    /// The one before the last that was taken.
    before_last: Option<Timestamp>,
}

impl<'a> Walk<'a> {
    fn of(schedule: &'a Schedule) -> Self {
        // Times that were good when they were saved and are no longer: nothing is planned.
        let times = schedule.spec.times().unwrap_or(Times::Unplanned);
        let mut walk = Self { schedule, times, at: schedule.next, before_last: None };
        if schedule.look == Some(true) {
            walk.at = Some(schedule.decided);
            walk.step();
        }
        walk
    }

    /// Goes on to the next planned time that was not fired before the clock was put back.
    fn step(&mut self) {
        while let Some(at) = self.at {
            self.at = self.times.next(at);
            let fired = self.at.is_some_and(|at| self.schedule.ahead.binary_search(&at).is_ok());
            if !fired {
                break;
            }
        }
    }

    /// Takes the planned times before `end`, as many as one record holds.
    fn take_before(&mut self, end: Timestamp) -> Option<Passed> {
        let first = self.at.filter(|at| *at < end)?;
        let mut taken = Passed {
            first,
            last: first,
            count: 0,
            passing: Passing::Fired,
            task: None,
            more: None,
        };
        self.before_last = None;
        let max = u64::try_from(PLANNED_PER_RECORD_MAX).unwrap_or(u64::MAX);
        while let Some(at) = self.at.filter(|at| *at < end)
            && taken.count < max
        {
            if 0 < taken.count {
                self.before_last = Some(taken.last);
            }
            taken.last = at;
            taken.count = taken.count.saturating_add(1);
            self.step();
        }
        Some(taken)
    }

    /// Goes to the first planned time that is not before `end`, without counting those between.
    fn skip_to(&mut self, end: Timestamp) {
        let Some(at) = self.at.filter(|at| *at < end) else { return };
        self.at = match self.times {
            Times::Every(Millis(span)) => {
                let steps = end.since(at).0.div_ceil(span.max(1));
                Some(at.after(Millis(span).times(steps)))
            }
            Times::Calendar(_) | Times::Once(_) | Times::Unplanned => {
                let before = Timestamp(end.0.saturating_sub(1));
                self.at = Some(before);
                self.step();
                return;
            }
        };
    }
}
