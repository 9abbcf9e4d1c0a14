//! Events of schedules and of the wall clock, made part of the state.

use super::{Applied, submitted, unfit};
use crate::kernel::event::{
    ClockStepped, Fired, SchedulePaused, ScheduleRemoved, ScheduleResumed, ScheduleSet, Stamp,
    Started,
};
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::schedule::{From, Plan, Schedule};
use crate::kernel::shared::Shared;
use crate::kernel::state::State;
use crate::kernel::status::Status;
use crate::kernel::task_type::Order;
use crate::kernel::text::Text;
use crate::limits::AHEAD_MAX;
use std::collections::{BTreeMap, BTreeSet};

impl Schedule {
    /// What is planned after `wall` is open, but for what has a run (`runs` among them) or waits for
    /// one.
    fn reopen(&mut self, wall: Timestamp, mut runs: BTreeSet<Timestamp>) {
        let waiting = self.queued.iter().filter(|fire| fire.manual.is_none());
        runs.extend(waiting.map(|fire| fire.planned));
        runs.extend(self.ahead.iter().copied());
        let ahead = runs.into_iter().filter(|planned| wall < *planned);
        self.ahead = ahead.take(AHEAD_MAX).collect();
        self.decided = wall;
        self.look_past_runs();
    }

    /// The next planned time may be one that was fired before the clock was put back.
    fn look_past_runs(&mut self) {
        while self.ahead.front().is_some_and(|at| *at <= self.decided) {
            self.ahead.pop_front();
        }
        if !self.ahead.is_empty() && self.next.is_some() && !self.spec.plan.is_elapsed() {
            self.next = Some(self.decided);
            self.look = Some(true);
        }
    }
}

impl State {
    /// Changes one schedule and whatever is derived from it.
    fn change_schedule(&mut self, name: &str, change: impl FnOnce(&mut Schedule)) -> Applied {
        let Some(schedule) = self.schedules.get_mut(name) else {
            return Err(unfit(format!("there is no schedule {name}")));
        };
        self.index.remove_schedule(schedule);
        change(schedule.make_mut());
        self.index.insert_schedule(schedule);
        Ok(())
    }

    fn change_schedules(&mut self, mut change: impl FnMut(&mut Schedule)) {
        for schedule in self.schedules.values_mut() {
            self.index.remove_schedule(schedule);
            change(schedule.make_mut());
            self.index.insert_schedule(schedule);
        }
    }

    /// A task of a schedule was made or changed; where it `ended`, an interval that counts from there
    /// begins.
    pub(super) fn run_changed(&mut self, name: &str, ended: Option<Status>, stamp: &Stamp) {
        let Some(schedule) = self.schedules.get_mut(name) else { return };
        self.index.remove_schedule(schedule);
        if let Some(status) = ended {
            let schedule = schedule.make_mut();
            if status == Status::Success {
                schedule.last_success = Some(stamp.wall);
                schedule.failures = 0;
            } else if status != Status::Cancelled {
                schedule.failures = schedule.failures.saturating_add(1);
            }
            if let Plan::Every(span, From::End) = schedule.spec.plan {
                schedule.next = schedule.paused.is_none().then(|| stamp.wall.after(span));
            }
        }
        self.index.insert_schedule(schedule);
    }
}

pub(super) fn set(state: &mut State, stamp: &Stamp, event: &ScheduleSet) -> Applied {
    let ScheduleSet { name, spec, origin, next, keeps } = event;
    let old = state.schedules.remove(name);
    if let Some(old) = &old {
        state.index.remove_schedule(old);
    } else if *keeps == Some(true) {
        return Err(unfit(format!("there is no schedule {name} whose times it could keep")));
    }
    // Where the clock was put back, what ran must not run again under other times.
    let back = old.as_ref().is_some_and(|old| stamp.wall < old.decided) && *keeps != Some(true);
    let runs = if back { runs_after(state, stamp.wall).remove(name) } else { None };
    let spec = Shared::new(spec.clone());
    let fresh =
        || Schedule { decided: stamp.wall, ..Schedule::new(name.clone(), spec.clone(), *origin) };
    let mut schedule = old.map_or_else(fresh, |old| (*old).clone());
    schedule.spec = spec;
    schedule.next = *next;
    if *keeps != Some(true) {
        schedule.look = None;
        schedule.reopen(stamp.wall, runs.unwrap_or_default());
        schedule.since = stamp.wall;
    }
    schedule.origin = *origin;
    schedule.by = stamp.by.clone();
    state.index.insert_schedule(&schedule);
    state.schedules.insert(name.clone(), Shared::new(schedule));
    Ok(())
}

pub(super) fn removed(state: &mut State, event: &ScheduleRemoved) -> Applied {
    let ScheduleRemoved { name } = event;
    let Some(schedule) = state.schedules.remove(name) else {
        return Err(unfit(format!("there is no schedule {name}")));
    };
    state.index.remove_schedule(&schedule);
    Ok(())
}

pub(super) fn paused(state: &mut State, stamp: &Stamp, event: &SchedulePaused) -> Applied {
    let SchedulePaused { name, reason } = event;
    if state.schedule(name).is_some_and(|schedule| schedule.paused.is_some()) {
        return Err(unfit(format!("schedule {name} is paused already")));
    }
    let order = Order { by: stamp.by.clone(), at: stamp.wall, reason: reason.clone() };
    state.change_schedule(name, |schedule| {
        schedule.paused = Some(order);
        schedule.next = None;
        schedule.look = None;
    })
}

pub(super) fn resumed(state: &mut State, stamp: &Stamp, event: &ScheduleResumed) -> Applied {
    let ScheduleResumed { name, next } = event;
    if state.schedule(name).is_some_and(|schedule| schedule.paused.is_none()) {
        return Err(unfit(format!("schedule {name} is not paused")));
    }
    state.change_schedule(name, |schedule| {
        schedule.paused = None;
        schedule.next = *next;
        schedule.decided = schedule.decided.max(stamp.wall);
        schedule.look_past_runs();
    })
}

pub(super) fn fired(state: &mut State, stamp: &Stamp, event: &Fired) -> Applied {
    let Fired { schedule: name, passed, task, next, decided, queued } = event;
    let Some(schedule) = state.schedule(name) else {
        return Err(unfit(format!("there is no schedule {name}")));
    };
    if *decided < schedule.decided {
        return Err(unfit(format!("schedule {name} would decide planned times again")));
    }
    if let Some(submission) = task {
        let comes_from = submission.spec.scheduled.as_ref();
        if comes_from.is_none_or(|scheduled| scheduled.schedule != *name) {
            return Err(unfit(format!("the task of schedule {name} comes from elsewhere")));
        }
        submitted(state, stamp, submission)?;
    }
    state.change_schedule(name, |schedule| {
        for passed in passed {
            schedule.note(stamp.wall, passed);
        }
        if let Some(submission) = task {
            schedule.last_task = Some(submission.task);
            schedule.last_planned = submission.spec.scheduled.as_ref().map(|it| it.planned);
        }
        schedule.next = *next;
        schedule.decided = *decided;
        schedule.look = None;
        while schedule.ahead.front().is_some_and(|at| at <= decided) {
            schedule.ahead.pop_front();
        }
        if let Some(queued) = queued {
            schedule.queued = queued.iter().cloned().collect();
        }
    })
}

/// Elapsed time is not touched by a step: what counts it moves along. What waits for a wall time is
/// looked at anew.
pub(super) fn clock_stepped(state: &mut State, event: &ClockStepped) {
    let ClockStepped { from, to, jump, reopens, first_set } = event;
    state.head.jump = *jump;
    state.head.steps = Some(state.head.steps.unwrap_or(0).saturating_add(1));
    state.head.last_step = Some(crate::kernel::event::Jump { from: *from, to: *to });
    let moved =
        |at: Timestamp| Timestamp(at.after(to.since(*from)).0.saturating_sub(from.since(*to).0));
    let mut ahead = if reopens.is_some() { runs_after(state, *to) } else { BTreeMap::new() };
    state.change_schedules(|schedule| {
        if schedule.spec.plan.is_elapsed() {
            // A fire at the start of the host is due at once, whatever the clock shows.
            let boot = schedule.spec.plan == Plan::Boot;
            schedule.next = schedule.next.map(|at| if boot { *to } else { moved(at) });
            schedule.decided = moved(schedule.decided);
        } else if *first_set == Some(true) && schedule.decided <= *from {
            if matches!(schedule.spec.plan, Plan::Cron(_)) && schedule.paused.is_none() {
                schedule.decided = *to;
                schedule.next = Some(*to);
                schedule.look = Some(true);
            }
        } else if reopens.is_some_and(|all| all || *to < schedule.since) && *to < schedule.decided {
            schedule.reopen(*to, ahead.remove(&schedule.name).unwrap_or_default());
            schedule.since = schedule.since.min(*to);
            if schedule.paused.is_none() {
                schedule.next = Some(*to);
                schedule.look = Some(true);
            }
        }
    });
    state.seen.wall = *to;
    for id in state.index.undue(*to) {
        if let Some(task) = state.tasks.get(id) {
            state.index.remove(task);
            state.index.insert(task, state.seen);
        }
    }
}

/// The planned times after `wall` for which there are tasks, by schedule. Walks all tasks, which
/// only the rarest of steps calls for.
fn runs_after(state: &State, wall: Timestamp) -> BTreeMap<Text, BTreeSet<Timestamp>> {
    let mut runs: BTreeMap<Text, BTreeSet<Timestamp>> = BTreeMap::new();
    let scheduled = state.tasks.iter().filter_map(|task| task.scheduled());
    for run in scheduled.filter(|run| run.manual.is_none() && wall < run.planned) {
        runs.entry(run.schedule.clone()).or_default().insert(run.planned);
    }
    runs
}

/// A start of the host is a fire for some schedules; and another version may know other zones.
pub(super) fn started(state: &mut State, stamp: &Stamp, event: &Started) {
    if let Some(jump) = event.jump {
        state.head.jump = Some(jump);
    }
    let before = state.head.started.as_ref();
    let rebooted = before.is_some_and(|before| before.boot_id != event.boot_id);
    let updated = before.is_some_and(|before| before.version != event.version);
    if !rebooted && !updated {
        return;
    }
    state.change_schedules(|schedule| {
        if schedule.paused.is_some() {
            return;
        }
        let planned = schedule.next.is_some();
        match schedule.spec.plan {
            Plan::Boot if rebooted => schedule.next = Some(stamp.wall),
            Plan::Cron(_) if updated && planned => {
                schedule.next = Some(schedule.decided.after(Millis(1)));
                schedule.look = Some(true);
            }
            Plan::Boot | Plan::Cron(_) | Plan::Every(..) | Plan::Once(_) => {}
        }
    });
}
