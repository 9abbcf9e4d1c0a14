//! Calendar arithmetic: the instants at which the local time of a zone matches a cron expression.
//!
//! The expression is matched against local times as if clocks were never changed; which instants
//! such a local time stands for is settled here. One in a gap stands for none, or for the first
//! instant after it; one in a fold stands for one or both of two. Where nothing else is said, an
//! expression with fixed hours takes the first instant after a gap and the first of a fold, so that
//! a daily time comes once a day; one whose hours are a wildcard skips gaps and takes both, so that
//! it follows elapsed time.

mod cron;
#[cfg(test)]
mod tests;

use super::ids::Timestamp;
use super::schedule::{Fold, Gap};
use chrono::{
    DateTime, Datelike as _, MappedLocalTime, NaiveDateTime, Offset as _, TimeDelta, TimeZone as _,
    Utc,
};
use chrono_tz::{GapInfo, Tz};
use cron::Cron;
use std::fmt;

/// Why a schedule's time cannot be planned: the key that is at fault, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarError {
    /// `cron` or `timezone`.
    pub key: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl CalendarError {
    fn cron(why: impl Into<String>) -> Self {
        Self { key: "cron", why: why.into() }
    }
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

/// How far the next planned time is looked for. The rarest date, a leap day that is a certain day
/// of the week, comes at least every 40 years.
const YEARS_SEARCHED: i32 = 41;

/// Later years cannot be written as RFC 3339.
const YEAR_MAX: i32 = 9999;

/// From here on an expression must match something to be taken: the first of January 2024. Fixed,
/// for what is refused must not depend on the day; leap years and weekdays repeat every 28 years.
const PROBED_FROM: Timestamp = Timestamp(1_704_067_200_000);

/// A stretch of local time that comes twice, because clocks are put back at its end.
struct Twice {
    begin: NaiveDateTime,
    end: NaiveDateTime,
    /// The instant at which clocks are put back.
    at: DateTime<Utc>,
    /// What local time is ahead of UTC the first time.
    first: TimeDelta,
    /// And the second time.
    second: TimeDelta,
}

impl Calendar {
    /// Reads an expression and a zone; without `gap` and `fold` the expression's hours decide.
    ///
    /// Fails when either cannot be read, and when the expression matches no instant at all.
    pub fn parse(
        cron: &str,
        zone: &str,
        gap: Option<Gap>,
        fold: Option<Fold>,
    ) -> Result<Self, CalendarError> {
        let cron = Cron::parse(cron)?;
        let zone: Tz = zone.parse().map_err(|_unknown| CalendarError {
            key: "timezone",
            why: format!(
                "there is no time zone `{}`; write an IANA name, such as Europe/Berlin or UTC",
                zone.escape_debug()
            ),
        })?;
        let (gap_default, fold_default) =
            if cron.is_elapsed() { (Gap::Skip, Fold::Both) } else { (Gap::Shift, Fold::First) };
        let (gap, fold) = (gap.unwrap_or(gap_default), fold.unwrap_or(fold_default));
        let calendar = Self { cron, zone, gap, fold };
        if calendar.next(PROBED_FROM).is_none() {
            return Err(CalendarError::cron("no date matches it, not in 40 years"));
        }
        Ok(calendar)
    }

    /// The first planned time after `after`, a whole second; none where nothing matches within 40
    /// years or before the year 10,000.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let seconds = i64::try_from(after.0.checked_div(1000)?).ok()?;
        let next = self.next_after(DateTime::from_timestamp(seconds, 0)?)?;
        u64::try_from(next.timestamp_millis()).ok().map(Timestamp)
    }

    /// The same on whole seconds.
    fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        if YEAR_MAX < after.year() {
            return None;
        }
        let local = after.with_timezone(&self.zone).naive_local();
        let last_year = after.year().saturating_add(YEARS_SEARCHED).min(YEAR_MAX);
        let first_from = |from| self.cron.first_from(from, last_year);
        let mut from = local.checked_add_signed(TimeDelta::seconds(1))?;
        if let Some(twice) = self.twice(local) {
            let within = |from| first_from(from).filter(|met| *met < twice.end);
            if after < twice.at {
                if self.fold != Fold::Second
                    && let Some(met) = within(from)
                {
                    return at_offset(met, twice.first);
                }
                from = twice.begin;
            }
            if self.fold != Fold::First
                && let Some(met) = within(from)
            {
                return at_offset(met, twice.second);
            }
            from = twice.end;
        }
        loop {
            let met = first_from(from)?;
            match (self.zone.from_local_datetime(&met), self.fold) {
                (MappedLocalTime::Single(at), _)
                | (MappedLocalTime::Ambiguous(at, _), Fold::First | Fold::Both)
                | (MappedLocalTime::Ambiguous(_, at), Fold::Second) => {
                    return Some(at.with_timezone(&Utc));
                }
                (MappedLocalTime::None, _) => {
                    let after = self.after_gap(met)?;
                    if self.gap == Gap::Shift {
                        return Some(after);
                    }
                    from = after.with_timezone(&self.zone).naive_local();
                }
            }
        }
    }

    /// The first instant after the gap in which `local` lies.
    fn after_gap(&self, local: NaiveDateTime) -> Option<DateTime<Utc>> {
        let (begin, before) = GapInfo::new(&local, &self.zone)?.begin?;
        at_offset(begin, TimeDelta::seconds(before.fix().local_minus_utc().into()))
    }

    /// The stretch that comes twice and in which `local` lies.
    fn twice(&self, local: NaiveDateTime) -> Option<Twice> {
        let (first, second) = match self.zone.from_local_datetime(&local) {
            MappedLocalTime::Ambiguous(first, second) => (first, second),
            MappedLocalTime::Single(_) | MappedLocalTime::None => return None,
        };
        // The library tells offsets, not when they change: halve what lies between.
        let (mut early, mut late) = (first.timestamp(), second.timestamp());
        while 1 < late.saturating_sub(early) {
            let middle = early.midpoint(late);
            let at = DateTime::from_timestamp(middle, 0)?.with_timezone(&self.zone);
            if at.offset().fix() == second.offset().fix() {
                late = middle;
            } else {
                early = middle;
            }
        }
        let at = DateTime::from_timestamp(late, 0)?;
        let ahead =
            |it: DateTime<Tz>| TimeDelta::seconds(it.offset().fix().local_minus_utc().into());
        let (first, second) = (ahead(first), ahead(second));
        Some(Twice {
            begin: at.naive_utc().checked_add_signed(second)?,
            end: at.naive_utc().checked_add_signed(first)?,
            at,
            first,
            second,
        })
    }
}

/// The instant of a local time that is `ahead` of UTC.
fn at_offset(local: NaiveDateTime, ahead: TimeDelta) -> Option<DateTime<Utc>> {
    local.checked_sub_signed(ahead).map(|at| at.and_utc())
}
