//! Planned times as people of the schedule's zone have them, and what is odd about them there.

use crate::api::PlannedView;
use crate::kernel::ids::Timestamp;
use crate::kernel::schedule::{Plan, ScheduleSpec};
use crate::units::rfc3339;
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset as _, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

/// The zone of a schedule, and its expression where it has one.
pub(super) struct Local {
    zone: Tz,
    cron: Option<Cron>,
}

impl Local {
    /// Those of a schedule; a zone that is not known any more is shown as UTC.
    pub(super) fn of(spec: &ScheduleSpec) -> Self {
        let cron = match &spec.plan {
            Plan::Cron(words) => {
                let parser = CronParser::builder().seconds(Seconds::Optional);
                parser.year(Year::Disallowed).build().parse(words).ok()
            }
            Plan::Every(..) | Plan::Once(_) | Plan::Boot => None,
        };
        Self { zone: spec.zone.parse().unwrap_or(Tz::UTC), cron }
    }

    /// An instant, in the zone.
    pub(super) fn view(&self, at: Timestamp) -> PlannedView {
        let utc = i64::try_from(at.0).ok().and_then(DateTime::<Utc>::from_timestamp_millis);
        let local = utc.unwrap_or_default().with_timezone(&self.zone);
        PlannedView {
            at: rfc3339(at),
            local: local.format("%a %Y-%m-%d %H:%M:%S %Z").to_string(),
            note: self.cron.as_ref().and_then(|cron| self.note(cron, local)),
        }
    }

    fn note(&self, cron: &Cron, at: DateTime<Tz>) -> Option<String> {
        let naive = at.naive_local();
        if !cron.is_time_matching(&naive.and_utc()).unwrap_or(true) {
            return self.shifted(cron, at);
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

    /// The local time that the expression names, where it lies in the gap that ends at `at`.
    fn shifted(&self, cron: &Cron, at: DateTime<Tz>) -> Option<String> {
        let before = at.checked_sub_signed(TimeDelta::milliseconds(1))?;
        let gap = offset(&at).checked_sub(offset(&before)).filter(|seconds| 0 < *seconds)?;
        let end = at.naive_local();
        let begin = end.checked_sub_signed(TimeDelta::seconds(i64::from(gap)))?;
        let wanted = first_match(cron, begin).filter(|wanted| *wanted < end)?;
        let clock = wanted.format(if wanted.format("%S").to_string() == "00" {
            "%H:%M"
        } else {
            "%H:%M:%S"
        });
        Some(format!("{clock} does not exist that day: the first instant after the gap"))
    }
}

fn offset(at: &DateTime<Tz>) -> i32 {
    at.offset().fix().local_minus_utc()
}

/// The first local time from `begin` on that an expression names.
fn first_match(cron: &Cron, begin: NaiveDateTime) -> Option<NaiveDateTime> {
    cron.find_next_occurrence(&begin.and_utc(), true).ok().map(|met| met.naive_utc())
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
