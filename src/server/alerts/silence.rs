//! Schedules of which nothing good came for too long.

use crate::kernel::State;
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::schedule::{Plan, Schedule};
use crate::kernel::status::Status;
use crate::kernel::text::Text;
use std::collections::BTreeMap;

/// How long beyond its period a schedule may be without a success.
const LATE: Millis = Millis::secs(30 * 60);

/// A run that is not over puts the end of patience off by its period, or by this where that is
/// less.
const RUN: Millis = Millis::secs(3600);

/// The times of a schedule, as they follow from its last success: looked up once for each.
#[derive(Clone, Copy, Debug)]
struct Period {
    /// From when on it counts.
    last: Timestamp,
    /// The first planned time after that.
    first: Timestamp,
    /// From there to the next.
    span: Millis,
}

/// What was looked up before.
#[derive(Clone, Debug, Default)]
pub(super) struct Periods(BTreeMap<Text, Period>);

impl Periods {
    /// The schedules without a success for their period and half an hour, each with when the last
    /// one was.
    pub(super) fn silent(&mut self, state: &State, now: Timestamp) -> Vec<(Text, Timestamp)> {
        self.0.retain(|name, _| state.schedule(name).is_some());
        let silent = state.schedules().filter_map(|schedule| {
            let last = schedule.last_success.unwrap_or_default().max(schedule.since);
            let patience = last.after(LATE) < now && schedule.paused.is_none();
            if !patience {
                return None;
            }
            let period = self.period(schedule, last)?;
            let usual = last.after(period.span).max(period.first).after(LATE);
            let runs = state.live(&schedule.name).any(|task| task.status == Status::Running);
            let end = if runs { usual.after(period.span.max(RUN)) } else { usual };
            (end < now).then(|| (schedule.name.clone(), last))
        });
        silent.collect()
    }

    fn period(&mut self, schedule: &Schedule, last: Timestamp) -> Option<Period> {
        if let Plan::Every(span, _) = schedule.spec.plan {
            return Some(Period { last, first: last.after(span), span });
        }
        if let Some(known) = self.0.get(&schedule.name).filter(|known| known.last == last) {
            return Some(*known);
        }
        if !matches!(schedule.spec.plan, Plan::Cron(_)) {
            return None;
        }
        let times = schedule.spec.times().ok()?;
        let first = times.next(last)?;
        let span = times.next(first)?.since(first);
        let period = Period { last, first, span };
        self.0.insert(schedule.name.clone(), period);
        Some(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::apply;
    use crate::kernel::event::{Actor, Event, ScheduleSet, Stamp};
    use crate::kernel::ids::{LifeTime, Seq, ServiceTime};
    use crate::kernel::schedule::{Origin, ScheduleSpec};
    use crate::units::{parse_rfc3339, rfc3339};

    fn since(text: &str, plan: Plan) -> State {
        let mut state = State::default();
        let spec = ScheduleSpec::new("job", plan);
        let event = Event::ScheduleSet(ScheduleSet {
            name: "nightly".into(),
            spec,
            origin: Origin::Config,
            next: None,
            keeps: None,
        });
        let stamp = Stamp {
            seq: Seq(1),
            wall: parse_rfc3339(text).unwrap(),
            life: LifeTime(0),
            service: ServiceTime(0),
            by: Actor::Daemon,
        };
        apply(&mut state, &stamp, &event).unwrap();
        state
    }

    /// The minute in which it is first called silent.
    fn when(state: &State, from: &str) -> String {
        let (mut periods, mut now) = (Periods::default(), parse_rfc3339(from).unwrap());
        while periods.silent(state, now).is_empty() {
            now = now.after(Millis::secs(60));
        }
        rfc3339(now)
    }

    #[test]
    fn a_schedule_is_silent_half_an_hour_after_its_period_and_not_over_a_weekend() {
        let cron = |words: &str| Plan::Cron(words.into());
        let nightly = since("2026-03-12T10:00:00Z", cron("0 3 * * *"));
        assert_eq!(when(&nightly, "2026-03-12T10:00:00Z"), "2026-03-13T10:31:00.000Z");
        // Made on a Friday.
        let workdays = since("2026-03-13T10:00:00Z", cron("0 3 * * 1-5"));
        assert_eq!(when(&workdays, "2026-03-13T10:00:00Z"), "2026-03-16T03:31:00.000Z");
        let poll = since(
            "2026-03-13T10:00:00Z",
            Plan::Every(Millis::secs(30), crate::kernel::schedule::From::End),
        );
        assert_eq!(when(&poll, "2026-03-13T10:00:00Z"), "2026-03-13T10:31:00.000Z");
        let boot = since("2026-03-13T10:00:00Z", Plan::Boot);
        let later = parse_rfc3339("2036-03-13T10:00:00Z").unwrap();
        assert!(Periods::default().silent(&boot, later).is_empty());
    }
}
