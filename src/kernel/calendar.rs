//! Calendar arithmetic: the instants at which the local time of a zone matches a cron expression.
//!
//! The expression is matched against local times as if there were no changes of the clock; which
//! instants such a local time stands for is settled here. A local time in a gap stands for none, or
//! for the first instant after it; one in a fold stands for one or both of two. Where nothing else
//! is said, an expression with fixed hours takes the first instant after a gap and the first of a
//! fold, so that a daily time comes once a day; one whose hours are a wildcard skips gaps and takes
//! both, so that it follows elapsed time.

use super::ids::Timestamp;
use super::schedule::{Fold, Gap};
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use std::fmt;

/// Why a schedule's time cannot be planned: the key that is at fault, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarError {
    /// `cron` or `timezone`.
    pub key: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for CalendarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.key, self.why)
    }
}

/// The planned times of a cron expression in a zone.
#[derive(Clone, Debug)]
pub struct Calendar {
    cron: Cron,
    zone: Tz,
    gap: Gap,
    fold: Fold,
}

/// Offsets of zones differ from UTC by less than this.
const OFFSET_MAX: TimeDelta = TimeDelta::hours(26);

impl Calendar {
    /// Reads an expression and a zone.
    pub fn parse(
        cron: &str,
        zone: &str,
        gap: Option<Gap>,
        fold: Option<Fold>,
    ) -> Result<Self, CalendarError> {
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed);
        let wrong = |key, why: String| CalendarError { key, why };
        let parsed =
            parser.build().parse(cron).map_err(|error| wrong("cron", error.to_string()))?;
        let zone: Tz = zone.parse().map_err(|_unknown| {
            wrong("timezone", format!("there is no time zone `{}`", zone.escape_debug()))
        })?;
        let hours = parsed.pattern.hours.count_set_values(1);
        let wildcard = hours == 24 || has_wildcard_hours(cron);
        let (gap_default, fold_default) =
            if wildcard { (Gap::Skip, Fold::Both) } else { (Gap::Shift, Fold::First) };
        let gap = gap.unwrap_or(gap_default);
        let fold = fold.unwrap_or(fold_default);
        Ok(Self { cron: parsed, zone, gap, fold })
    }

    /// The first planned time after `after`; none where the expression matches nothing more.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = i64::try_from(after.0).ok().and_then(DateTime::from_timestamp_millis)?;
        let local = after.with_timezone(&self.zone).naive_local();
        // A fold may lie just behind: start early enough to meet its local times a second time.
        let mut from = local.checked_sub_signed(OFFSET_MAX)?.and_utc();
        let mut best: Option<DateTime<Utc>> = None;
        loop {
            let met = self.cron.find_next_occurrence(&from, false).ok()?;
            let naive = met.naive_utc();
            for instant in self.instants(naive).into_iter().flatten() {
                if after < instant && best.is_none_or(|best| instant < best) {
                    best = Some(instant);
                }
            }
            // Later local times stand for later instants, but for what a fold turns around.
            let far = best.and_then(|best| {
                let limit = best.with_timezone(&self.zone).naive_local();
                limit.checked_add_signed(TimeDelta::hours(3))
            });
            if far.is_some_and(|far| far < naive) {
                break;
            }
            from = met;
        }
        u64::try_from(best?.timestamp_millis()).ok().map(Timestamp)
    }

    /// The instants that a local time stands for, earlier one first.
    fn instants(&self, local: NaiveDateTime) -> [Option<DateTime<Utc>>; 2] {
        let utc = |at: DateTime<Tz>| at.with_timezone(&Utc);
        match (self.zone.from_local_datetime(&local), self.fold) {
            (MappedLocalTime::Single(at), _) => [Some(utc(at)), None],
            (MappedLocalTime::Ambiguous(first, _), Fold::First) => [Some(utc(first)), None],
            (MappedLocalTime::Ambiguous(_, second), Fold::Second) => [Some(utc(second)), None],
            (MappedLocalTime::Ambiguous(first, second), Fold::Both) => {
                [Some(utc(first)), Some(utc(second))]
            }
            (MappedLocalTime::None, _) if self.gap == Gap::Skip => [None, None],
            (MappedLocalTime::None, _) => [self.after_gap(local), None],
        }
    }

    /// The first instant after the gap in which `local` lies.
    fn after_gap(&self, local: NaiveDateTime) -> Option<DateTime<Utc>> {
        let later = (1..=26).map(|hours| local.checked_add_signed(TimeDelta::hours(hours)));
        let mut later =
            later.flatten().filter_map(|at| self.zone.from_local_datetime(&at).earliest());
        later.next().map(|at| at.with_timezone(&Utc))
    }
}

fn has_wildcard_hours(cron: &str) -> bool {
    let fields: Vec<_> = cron.split_whitespace().collect();
    let place = if fields.len() == 6 { 2 } else { 1 };
    fields.get(place).is_some_and(|hours| hours.starts_with('*'))
}
