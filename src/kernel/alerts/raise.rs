//! Alerts raised and cleared, as events have it.

use super::{
    Alert, Alerts, CRITICAL_FAILURES, FLAPPING_CHANGES, FLAPPING_SPAN, FORGOTTEN_AFTER, Failure,
    Grade, Known, Rule, SETTLED_AFTER, Told,
};
use crate::kernel::event::{
    AlertAcked, AlertCleared, AlertRaised, AlertsTold, ClockStepped, Event, Jump, Stamp, Standing,
    WorkerMoved,
};
use crate::kernel::ids::{LifeTime, Millis, TaskId};
use crate::kernel::state::{State, Worker};
use crate::kernel::status::{Reason, Status};
use crate::kernel::task_type::Order;
use crate::kernel::text::Text;
use crate::limits::{ALERT_CHANNELS_MAX, ALERT_TEXT_BYTES_MAX, ALERTS_MAX};

/// A smaller step of the wall clock is what keeps it right at work, and no alert.
const STEP_MIN: Millis = Millis::secs(60);

/// The alert that stands for those that are not kept.
const OVERFLOW: &str = "alerts";

/// With fewer alerts than this, none are missing any more.
const ROOMY: usize = ALERTS_MAX / 4 * 3;

/// Raises and clears what the event, which is part of the state already, says of itself.
pub(in crate::kernel) fn note(state: &mut State, stamp: &Stamp, event: &Event) {
    match event {
        Event::Ended(event) => task_ended(state, stamp, event.task, event.to, event.reason),
        Event::Moved(event) => task_ended(state, stamp, event.task, event.to, event.reason),
        Event::WorkerJoined(event) => {
            let name = &event.registration.name;
            state.alerts.clear(stamp, Rule::WorkerLost, name);
        }
        Event::WorkerMoved(WorkerMoved { worker, to, reason: _ }) => {
            let Some(worker) = state.workers.get(worker) else { return };
            let name = worker.registration.name.clone();
            match to {
                Standing::Alive => state.alerts.clear(stamp, Rule::WorkerLost, &name),
                Standing::Offline => state.alerts.lost(stamp, &name, None),
                Standing::Suspect | Standing::Gone => {}
            }
        }
        Event::ClockStepped(ClockStepped { from, to, .. }) => {
            if STEP_MIN <= to.since(*from).max(from.since(*to)) {
                let subject = Text::from("clock");
                let step = Jump { from: *from, to: *to };
                state.alerts.raise(
                    stamp,
                    (Rule::ClockStepped, &subject),
                    Grade::Warning,
                    |alert| {
                        alert.step = Some(step);
                    },
                );
            }
        }
        Event::ScheduleRemoved(event) => {
            state.alerts.clear(stamp, Rule::ScheduleFailed, &event.name);
        }
        Event::AlertRaised(AlertRaised { rule, subject, grade, what }) => {
            state.alerts.raise(stamp, (*rule, subject), *grade, |alert| {
                alert.what = Some(Text::clipped(what, ALERT_TEXT_BYTES_MAX));
            });
        }
        Event::AlertCleared(AlertCleared { rule, subject }) => {
            state.alerts.clear(stamp, *rule, subject);
        }
        Event::AlertAcked(AlertAcked { alert }) => state.alerts.ack(stamp, *alert),
        Event::AlertsTold(event) => state.alerts.tell(stamp, event),
        Event::Submitted(_)
        | Event::Leased(_)
        | Event::Heard(_)
        | Event::Checkpointed(_)
        | Event::StopRequested(_)
        | Event::Hurried(_)
        | Event::WorkerChanged(_)
        | Event::Refused(_)
        | Event::Started(_)
        | Event::Forgotten(_)
        | Event::TypePaused(_)
        | Event::TypeResumed(_)
        | Event::TypeLimited(_)
        | Event::Edited(_)
        | Event::ScheduleSet(_)
        | Event::SchedulePaused(_)
        | Event::ScheduleResumed(_)
        | Event::Fired(_)
        | Event::Released(_) => {}
    }
}

/// A worker is gone, and no longer among those that are registered.
pub(in crate::kernel) fn worker_gone(
    alerts: &mut Alerts,
    stamp: &Stamp,
    worker: &Worker,
    reason: Option<Reason>,
) {
    let name = &worker.registration.name;
    if reason == Some(Reason::WorkerCrash) {
        alerts.lost(stamp, name, reason);
    } else {
        // It left as it should, or with its host.
        alerts.clear(stamp, Rule::WorkerLost, name);
    }
}

fn task_ended(state: &mut State, stamp: &Stamp, id: TaskId, to: Status, reason: Reason) {
    if !matches!(to, Status::Success | Status::Failed | Status::Dead) {
        return;
    }
    let Some(task) = state.tasks.get(id) else { return };
    let (rule, subject) = match task.scheduled() {
        Some(scheduled) => (Rule::ScheduleFailed, &scheduled.schedule),
        None => (Rule::TaskFailed, &task.kind),
    };
    if to == Status::Success {
        state.alerts.clear(stamp, rule, subject);
        return;
    }
    let error = task.life.as_ref().and_then(|life| life.error.as_deref());
    let first = error.and_then(|error| error.lines().find(|line| !line.trim().is_empty()));
    let failure = Failure {
        task: id,
        kind: task.kind.clone(),
        status: to,
        reason,
        attempts: task.attempt_count(),
        retries: task.retry_count,
        error: first.map(|line| Text::clipped(line.trim(), ALERT_TEXT_BYTES_MAX)),
    };
    let before = state.alerts.get(rule, subject).filter(|alert| alert.stands());
    let count = before.map_or(0, |alert| alert.count).saturating_add(1);
    let grade = if count < CRITICAL_FAILURES { Grade::Warning } else { Grade::Critical };
    state.alerts.raise(stamp, (rule, subject), grade, |alert| alert.failure = Some(failure));
}

impl Alerts {
    fn lost(&mut self, stamp: &Stamp, name: &Text, reason: Option<Reason>) {
        self.raise(stamp, (Rule::WorkerLost, name), Grade::Warning, |alert| alert.reason = reason);
    }

    /// It is so; said again, it is counted.
    fn raise(
        &mut self,
        stamp: &Stamp,
        (rule, subject): (Rule, &Text),
        grade: Grade,
        say: impl FnOnce(&mut Alert),
    ) {
        if let Some(place) = self.place_for(stamp, rule, subject) {
            self.say_again(stamp, place, grade);
            if let Some(alert) = self.alerts.get_mut(place) {
                say(alert);
            }
        } else if let Some(place) = self.place_for(stamp, Rule::Overflow, &OVERFLOW.into()) {
            // As bad as the worst for which there was no room.
            let known = self.alerts.get(place).filter(|alert| alert.stands());
            let worst = known.map_or(Grade::Warning, |alert| alert.grade).max(grade);
            self.say_again(stamp, place, worst);
        }
    }

    fn say_again(&mut self, stamp: &Stamp, place: usize, grade: Grade) {
        let edition = self.edition.saturating_add(1);
        let Some(alert) = self.alerts.get_mut(place) else { return };
        let stood = alert.stands() && alert.count != 0;
        alert.last = stamp.wall;
        alert.said = stamp.life;
        alert.count = if stood { alert.count.saturating_add(1) } else { 1 };
        if !stood || alert.grade < grade {
            self.edition = edition;
            alert.edition = edition;
            alert.came = edition;
            alert.came_at = stamp.life;
            alert.acked = None;
        }
        if !stood {
            alert.since = stamp.wall;
            alert.over = None;
            alert.over_at = None;
            alert.note_change(stamp.life);
        }
        alert.grade = grade;
    }

    /// It is over, if it was so.
    fn clear(&mut self, stamp: &Stamp, rule: Rule, subject: &str) {
        let Ok(place) = self.place(rule, subject) else { return };
        let Some(alert) = self.alerts.get_mut(place).filter(|alert| alert.stands()) else { return };
        self.edition = self.edition.saturating_add(1);
        alert.edition = self.edition;
        alert.over = Some(stamp.life);
        alert.over_at = Some(stamp.wall);
        alert.acked = None;
        alert.note_change(stamp.life);
        if rule != Rule::Overflow && self.standing().count() < ROOMY {
            self.clear(stamp, Rule::Overflow, OVERFLOW);
        }
    }

    fn ack(&mut self, stamp: &Stamp, number: u64) {
        let found = self.alerts.iter_mut().find(|alert| alert.number == number);
        if let Some(alert) = found.filter(|alert| alert.stands()) {
            let by = stamp.by.clone();
            alert.acked = Some(Order { by, at: stamp.wall, reason: None });
        }
    }

    /// Where the alert stands, or a new one was put; none where there is no room for one.
    fn place_for(&mut self, stamp: &Stamp, rule: Rule, subject: &Text) -> Option<usize> {
        if let Ok(place) = self.place(rule, subject) {
            return Some(place);
        }
        self.make_room(stamp.life);
        let place = self.place(rule, subject).unwrap_or_else(|place| place);
        // The last place is for the one that stands for all others.
        let room = if rule == Rule::Overflow { ALERTS_MAX } else { ALERTS_MAX.saturating_sub(1) };
        let taken = self.alerts.iter().filter(|alert| alert.rule != Rule::Overflow).count();
        if room <= taken {
            return None;
        }
        self.last = self.last.saturating_add(1);
        let alert = Alert {
            number: self.last,
            rule,
            subject: subject.clone(),
            grade: Grade::Info,
            since: stamp.wall,
            last: stamp.wall,
            said: stamp.life,
            count: 0,
            edition: 0,
            came: 0,
            came_at: stamp.life,
            over: None,
            over_at: None,
            acked: None,
            changes: std::collections::VecDeque::new(),
            flaps: None,
            what: None,
            failure: None,
            reason: None,
            step: None,
        };
        self.alerts.insert(place, alert);
        Some(place)
    }

    /// Drops what was over long ago, and, where all places are taken, what was over first.
    fn make_room(&mut self, now: LifeTime) {
        self.alerts.retain(|alert| alert.over.is_none_or(|over| now < over.after(FORGOTTEN_AFTER)));
        if ALERTS_MAX.saturating_sub(1) <= self.alerts.len() {
            let over = self.alerts.iter().filter_map(|alert| Some((alert.over?, alert.number)));
            if let Some((_, first)) = over.min() {
                self.alerts.retain(|alert| alert.number != first);
            }
        }
        let alerts = &self.alerts;
        for known in &mut self.channels {
            known.told.retain(|told| alerts.iter().any(|alert| alert.number == told.alert));
        }
    }

    /// A channel was told; one that was never heard of is known from now on.
    fn tell(&mut self, stamp: &Stamp, event: &AlertsTold) {
        let AlertsTold { channel, told } = event;
        let place = match self.channels.binary_search_by(|known| known.channel.cmp(channel)) {
            Ok(place) => place,
            Err(_) => self.meet(channel, stamp.life),
        };
        let numbers: Vec<_> = self.alerts.iter().map(|alert| alert.number).collect();
        let Some(known) = self.channels.get_mut(place) else { return };
        for told in told.iter().filter(|told| numbers.contains(&told.alert)) {
            match known.told.binary_search_by_key(&told.alert, |told| told.alert) {
                Ok(place) => known.told.get_mut(place).into_iter().for_each(|was| *was = *told),
                Err(place) => known.told.insert(place, *told),
            }
        }
        if !told.is_empty() {
            known.note_message(stamp.life);
        }
    }

    /// Makes a new channel known, and forgets the one that has been silent for longest where there
    /// would be too many; where it stands.
    fn meet(&mut self, channel: &Text, now: LifeTime) -> usize {
        if ALERT_CHANNELS_MAX <= self.channels.len() {
            let silent = |known: &Known| known.sent.back().copied().unwrap_or(known.since);
            let first = self.channels.iter().map(|known| (silent(known), &known.channel)).min();
            if let Some(first) = first.map(|(_, channel)| channel.clone()) {
                self.channels.retain(|known| known.channel != first);
            }
        }
        let known = Known {
            channel: channel.clone(),
            since: now,
            sent: std::collections::VecDeque::new(),
            told: Vec::<Told>::new(),
        };
        let place = self.channels.partition_point(|known| known.channel < *channel);
        self.channels.insert(place, known);
        place
    }
}

impl Known {
    fn note_message(&mut self, now: LifeTime) {
        while self.sent.front().is_some_and(|at| at.after(super::due::HOUR) <= now) {
            self.sent.pop_front();
        }
        if super::due::MESSAGES_PER_HOUR_MAX <= self.sent.len() {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
    }
}

impl Alert {
    /// It came or went.
    fn note_change(&mut self, now: LifeTime) {
        if self.changes.back().is_some_and(|last| last.after(SETTLED_AFTER) <= now) {
            self.changes.clear();
            self.flaps = None;
        }
        while self.changes.front().is_some_and(|at| at.after(FLAPPING_SPAN) <= now) {
            self.changes.pop_front();
        }
        if FLAPPING_CHANGES <= self.changes.len() {
            self.changes.pop_front();
        }
        self.changes.push_back(now);
        if FLAPPING_CHANGES <= self.changes.len() && self.flaps.is_none() {
            self.flaps = Some(now);
        }
    }
}
