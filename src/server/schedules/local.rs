//! Planned times as people of the schedule's zone have them, and what is odd about them there.

use crate::api::PlannedView;
use crate::kernel::calendar::Calendar;
use crate::kernel::ids::Timestamp;
use crate::kernel::schedule::{Plan, ScheduleSpec};
use crate::units::rfc3339;
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset as _, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

/// The zone of a schedule, and its expression where it has one.
pub(super) struct Local {
    zone: Tz,
    /// The local times that the expression names, as if the zone had no changes.
    names: Option<Calendar>,
}

impl Local {
    /// Those of a schedule; a zone that is not known any more is shown as UTC.
    pub(super) fn of(spec: &ScheduleSpec) -> Self {
        let names = match &spec.plan {
            Plan::Cron(words) => Calendar::parse(words, "UTC", None, None).ok(),
            Plan::Every(..) | Plan::Once(_) | Plan::Boot => None,
        };
        Self { zone: spec.zone.parse().unwrap_or(Tz::UTC), names }
    }

    /// An instant, in the zone.
    pub(super) fn view(&self, at: Timestamp) -> PlannedView {
        let utc = i64::try_from(at.0).ok().and_then(DateTime::<Utc>::from_timestamp_millis);
        let local = utc.unwrap_or_default().with_timezone(&self.zone);
        PlannedView {
            at: rfc3339(at),
            local: local.format("%a %Y-%m-%d %H:%M:%S %Z").to_string(),
            note: self.names.as_ref().and_then(|names| self.note(names, local)),
        }
    }

    fn note(&self, names: &Calendar, at: DateTime<Tz>) -> Option<String> {
        let naive = at.naive_local();
        if first_from(names, naive)? != naive {
            return shifted(names, at);
        }
        match self.zone.from_local_datetime(&naive) {
            MappedLocalTime::Ambiguous(first, second) => {
                let clock = naive.format("%H:%M");
                let which = if at == first { "first" } else { "second" };
                let zones = format!("{} and {}", first.format("%Z"), second.format("%Z"));
                Some(format!("{clock} comes twice that day ({zones}); this is the {which}"))
            }
            MappedLocalTime::Single(_) | MappedLocalTime::None => None,
        }
    }
}

/// What is odd about the end of a gap: the local time that the expression names lies within.
fn shifted(names: &Calendar, at: DateTime<Tz>) -> Option<String> {
    let before = at.checked_sub_signed(TimeDelta::seconds(1))?;
    let gap = offset(&at).checked_sub(offset(&before)).filter(|seconds| 0 < *seconds)?;
    let end = at.naive_local();
    let begin = end.checked_sub_signed(TimeDelta::seconds(i64::from(gap)))?;
    let wanted = first_from(names, begin).filter(|wanted| *wanted < end)?;
    let clock = wanted.format(if end.date() == wanted.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" });
    Some(format!("{clock} does not exist that day: the first instant after the gap"))
}

fn offset(at: &DateTime<Tz>) -> i32 {
    at.offset().fix().local_minus_utc()
}

/// The first local time from `begin` on that an expression names.
fn first_from(names: &Calendar, begin: NaiveDateTime) -> Option<NaiveDateTime> {
    let before = u64::try_from(begin.and_utc().timestamp_millis()).ok()?.checked_sub(1000)?;
    let met = i64::try_from(names.next(Timestamp(before))?.0).ok()?;
    DateTime::from_timestamp_millis(met).map(|met| met.naive_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::parse_rfc3339;

    fn told(cron: &str, zone: &str, at: &str) -> (String, Option<String>) {
        let mut spec = ScheduleSpec::new("t", Plan::Cron(cron.into()));
        spec.zone = zone.into();
        let view = Local::of(&spec).view(parse_rfc3339(at).unwrap());
        (view.local, view.note)
    }

    // spec: TIM-058
    #[test]
    fn a_time_moved_out_of_a_gap_and_one_of_two_say_so() {
        let zone = "America/New_York";
        let gap = Some("02:30 does not exist that day: the first instant after the gap".to_owned());
        let at = |local: &str| local.to_owned();
        assert_eq!(
            told("30 2 * * *", zone, "2026-03-08T07:00:00Z"),
            (at("Sun 2026-03-08 03:00:00 EDT"), gap)
        );
        assert_eq!(
            told("30 2 * * *", zone, "2026-03-09T06:30:00Z"),
            (at("Mon 2026-03-09 02:30:00 EDT"), None)
        );
        let twice = |which: &str| {
            Some(format!("01:30 comes twice that day (EDT and EST); this is the {which}"))
        };
        assert_eq!(
            told("30 1 * * *", zone, "2026-11-01T05:30:00Z"),
            (at("Sun 2026-11-01 01:30:00 EDT"), twice("first"))
        );
        assert_eq!(
            told("30 1 * * *", zone, "2026-11-01T06:30:00Z"),
            (at("Sun 2026-11-01 01:30:00 EST"), twice("second"))
        );
        // Half an hour, and a midnight that does not exist.
        let (local, note) = told("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:30:00Z");
        assert_eq!(local, "Sun 2026-10-04 02:30:00 +11");
        assert!(note.unwrap().starts_with("02:15 does not exist"));
        let (_, note) = told("0 0 * * *", "America/Santiago", "2026-09-06T04:00:00Z");
        assert!(note.unwrap().starts_with("00:00 does not exist"));
    }
}
