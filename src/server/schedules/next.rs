//! What a schedule has planned. Asked by people, and never on the engine's thread.

use super::local::Local;
use crate::api::{NextQuery, NextTimes};
use crate::kernel::ids::Timestamp;
use crate::kernel::schedule::{From, Plan, Schedule};
use crate::server::problems::{Failure, invalid};
use crate::server::submission::about;
use crate::units::parse_rfc3339;

/// Planned times in one answer.
const TIMES_MAX: usize = 1000;

/// What was asked for.
pub(super) struct Wanted {
    n: usize,
    from: Option<Timestamp>,
}

impl Wanted {
    pub(super) fn of(query: NextQuery) -> Result<Self, Failure> {
        let NextQuery { n, from } = query;
        let n = n.unwrap_or(5);
        if !(1..=TIMES_MAX).contains(&n) {
            return Err(invalid(format!("`n` must be from 1 to {TIMES_MAX}")));
        }
        let from = from.map(|from| parse_rfc3339(&from)).transpose().map_err(about("from"))?;
        Ok(Self { n, from })
    }
}

/// The planned times from `wanted.from` on, or from now on.
pub(super) fn times(schedule: &Schedule, wanted: &Wanted, now: Timestamp) -> NextTimes {
    let spec = &schedule.spec;
    let local = Local::of(spec);
    let from = wanted.from.unwrap_or(now);
    let before = Timestamp(from.0.saturating_sub(1));
    let (mut end, mut at) = (None, schedule.next.filter(|next| from <= *next));
    let times = spec.times();
    match (&spec.plan, &times) {
        (_, Err(error)) => end = Some(error.to_string()),
        (Plan::Boot, Ok(_)) => end = Some("it fires at each start of the host".to_owned()),
        (Plan::Every(_, From::End), Ok(_)) => {
            end = Some("it is counted from the end of each run".to_owned());
        }
        (Plan::Every(span, From::Start), Ok(_)) => {
            // On from what is planned, in steps of the span.
            let base = schedule.next.unwrap_or(now);
            let steps = from.since(base).0.div_ceil(span.0.max(1));
            at = Some(base.after(span.times(steps)));
        }
        // What is planned already may have passed over times that were decided.
        (Plan::Cron(_) | Plan::Once(_), Ok(times)) => {
            at = if wanted.from.is_some() {
                times.next(before)
            } else {
                at.or_else(|| times.next(before))
            };
        }
    }
    let mut planned = Vec::new();
    while let Some(instant) = at.filter(|_| planned.len() < wanted.n) {
        planned.push(local.view(instant));
        at = times.as_ref().ok().and_then(|times| times.next(instant));
    }
    if planned.len() < wanted.n && end.is_none() {
        end = Some("there is no date any more that it matches".to_owned());
    }
    if schedule.paused.is_some() {
        end = Some("it is paused, and fires at none of them".to_owned());
    }
    NextTimes { name: schedule.name.to_string(), timezone: spec.zone.to_string(), planned, end }
}
