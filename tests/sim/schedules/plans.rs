//! Schedules as chance will have them.

use midwatch::kernel::ids::{Millis, Timestamp};
use midwatch::kernel::schedule::{Fold, From, Gap, Overlap, Plan, ScheduleSpec};
use midwatch::sim::Dice;

const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Casablanca",
    "Asia/Kolkata",
];

const CRONS: [&str; 12] = [
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "30 1 * * *",
    "0 0 * * *",
    "*/7 2 * * *",
    "0 9 * * MON-FRI",
    "0 12 * * FRI#L",
    "15 30 */3 * * *",
    "@daily",
    "0,20,40 0-23/2 * * *",
    "@hourly",
];

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

pub(super) fn pick<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    of[dice.below(of.len())]
}

pub(super) fn below(dice: &mut Dice, bound: u64) -> u64 {
    dice.below(usize::try_from(bound).unwrap()) as u64
}

/// The plan of a schedule; each minute only where there is `patience` for it.
pub(super) fn plan(dice: &mut Dice, now: Timestamp, patience: bool) -> Plan {
    let span = |dice: &mut Dice| {
        let spans = [10 * MINUTE, HOUR, 5 * HOUR + 17, 24 * HOUR];
        Millis::secs(if patience { MINUTE } else { pick(dice, &spans) })
    };
    match dice.below(12) {
        0..=6 if patience => Plan::Cron("* * * * *".into()),
        0..=6 => Plan::Cron(pick(dice, &CRONS).into()),
        7 | 8 => Plan::Every(span(dice), From::Start),
        9 => Plan::Every(span(dice), From::End),
        10 => Plan::Once(now.after(Millis::secs(1 + below(dice, 5 * 24 * HOUR)))),
        _ => Plan::Boot,
    }
}

/// A schedule; how long its runs take is in its payload, in seconds.
pub(super) fn spec(dice: &mut Dice, now: Timestamp, patience: bool) -> ScheduleSpec {
    let plan = plan(dice, now, patience);
    let length = if dice.one_in(4) { 3 * HOUR } else { 40 };
    ScheduleSpec {
        payload: format!("{length}").as_str().into(),
        zone: pick(dice, &ZONES).into(),
        gap: pick(dice, &[None, None, Some(Gap::Shift), Some(Gap::Skip)]),
        fold: pick(dice, &[None, None, Some(Fold::First), Some(Fold::Second), Some(Fold::Both)]),
        jitter: pick(dice, &[Millis(0), Millis(0), Millis::secs(30)]),
        misfire_grace: Millis::secs(pick(dice, &[MINUTE, HOUR, HOUR, 6 * HOUR, 48 * HOUR])),
        coalesce: !dice.one_in(3),
        max_instances: pick(dice, &[1, 1, 2, 3]),
        overlap: pick(dice, &[Overlap::Skip, Overlap::Queue, Overlap::Replace]),
        max_retry: Some(0),
        ..ScheduleSpec::new("job", plan)
    }
}

/// Another one like it, with something changed: its time, or anything else.
pub(super) fn edited(dice: &mut Dice, old: &ScheduleSpec, now: Timestamp) -> ScheduleSpec {
    let other = spec(dice, now, false);
    if dice.one_in(2) {
        return ScheduleSpec { plan: other.plan, zone: other.zone, ..old.clone() };
    }
    ScheduleSpec { overlap: other.overlap, misfire_grace: other.misfire_grace, ..old.clone() }
}
