//! Changes of the clock: two years of six zones minute by minute, and the cases people know.

use super::oracle::{Matcher, Walk};
use super::{at, calendar, next};
use crate::kernel::calendar::Calendar;
use crate::kernel::ids::Timestamp;
use crate::kernel::schedule::{Fold, Gap};

const GAPS: [Option<Gap>; 3] = [None, Some(Gap::Shift), Some(Gap::Skip)];
const FOLDS: [Option<Fold>; 4] = [None, Some(Fold::First), Some(Fold::Second), Some(Fold::Both)];

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

fn seconds(text: &str) -> i64 {
    i64::try_from(at(text).0).unwrap() / 1000
}

/// What a calendar plans from `from` up to and without `to`.
fn planned(calendar: &Calendar, from: i64, to: i64) -> Vec<i64> {
    let mut times = Vec::new();
    let mut now = from - 1;
    while let Some(next) = calendar.next(Timestamp(u64::try_from(now).unwrap() * 1000)) {
        assert_eq!(next.0 % 1000, 0);
        let next = i64::try_from(next.0).unwrap() / 1000;
        assert!(now < next, "time goes on");
        if to <= next {
            break;
        }
        times.push(next);
        now = next;
    }
    times
}

/// Two years of a zone under the usual policy, and the days around each change under every other.
fn two_years_of(zone: &str, changes: usize) {
    let tz = zone.parse().unwrap();
    let (from, to) = (seconds("2025-01-01T00:00:00Z"), seconds("2027-01-01T00:00:00Z"));
    let whole = Walk::new(tz, from, to, MINUTE);
    let jumps = whole.jumps(MINUTE);
    assert_eq!(jumps.len(), changes, "changes of the clock in {zone}");
    let around = |jump: &i64| (jump - 2 * DAY, jump + 2 * DAY);
    let windows: Vec<_> = jumps.iter().map(around).collect();
    let windows: Vec<_> =
        windows.into_iter().map(|(from, to)| (from, to, Walk::new(tz, from, to, MINUTE))).collect();
    for cron in [
        "*/7 * * * *",
        "0 * * * *",
        "*/7 2 * * *",
        "30 2 * * *",
        "30 1 * * *",
        "0 0 * * *",
        "0 12 * * FRI#L",
        "30 2 * * FRIL",
        "*/20 0-23 * * *",
        "15,45 1-3 * * SUN",
    ] {
        let matcher = Matcher::new(cron);
        let expected = whole.planned(&matcher, None, None);
        assert!(20 < expected.len(), "{cron}");
        assert_eq!(planned(&calendar(cron, zone), from, to), expected, "{cron} in {zone}");
        for (gap, fold) in GAPS.into_iter().flat_map(|gap| FOLDS.map(|fold| (gap, fold))) {
            let calendar = Calendar::parse(cron, zone, gap, fold).unwrap();
            for (from, to, walk) in &windows {
                let expected = walk.planned(&matcher, gap, fold);
                let found = planned(&calendar, *from, *to);
                assert_eq!(found, expected, "{cron} in {zone}, {gap:?} {fold:?}");
            }
        }
    }
}

// spec: TIM-011 TIM-012 TIM-013 TIM-014
#[test]
fn b45_b46_two_years_of_berlin_are_planned_minute_by_minute() {
    two_years_of("Europe/Berlin", 4);
}

// spec: TIM-011 TIM-012 TIM-013 TIM-014
#[test]
fn b45_b46_two_years_of_new_york_are_planned_minute_by_minute() {
    two_years_of("America/New_York", 4);
}

// spec: TIM-011 TIM-012 TIM-013 TIM-014
#[test]
fn b45_b46_two_years_of_lord_howe_are_planned_minute_by_minute() {
    two_years_of("Australia/Lord_Howe", 4);
}

// spec: TIM-011 TIM-012 TIM-013 TIM-014
#[test]
fn b45_b46_two_years_of_santiago_are_planned_minute_by_minute() {
    two_years_of("America/Santiago", 4);
}

// spec: TIM-011 TIM-012 TIM-013 TIM-014
#[test]
fn b45_b46_two_years_of_casablanca_are_planned_minute_by_minute() {
    two_years_of("Africa/Casablanca", 4);
}

// spec: TIM-011 TIM-012 TIM-013 TIM-014
#[test]
fn b45_b46_two_years_of_kolkata_are_planned_minute_by_minute() {
    two_years_of("Asia/Kolkata", 0);
}

fn with(cron: &str, zone: &str, gap: Gap, fold: Fold) -> Calendar {
    Calendar::parse(cron, zone, Some(gap), Some(fold)).unwrap()
}

// spec: TIM-011 TIM-012
#[test]
fn b47_a_daily_time_comes_once_a_day_and_an_hourly_one_once_an_hour() {
    let zone = "America/New_York";
    let table = [
        (
            "30 2 * * *",
            "2026-03-07T12:00:00Z",
            ["Sun 2026-03-08 03:00:00 -04:00", "Mon 2026-03-09 02:30:00 -04:00"],
        ),
        (
            "30 1 * * *",
            "2026-10-31T12:00:00Z",
            ["Sun 2026-11-01 01:30:00 -04:00", "Mon 2026-11-02 01:30:00 -05:00"],
        ),
        (
            "0 * * * *",
            "2026-03-08T06:30:00Z",
            ["Sun 2026-03-08 03:00:00 -04:00", "Sun 2026-03-08 04:00:00 -04:00"],
        ),
        (
            "0 * * * *",
            "2026-11-01T04:30:00Z",
            ["Sun 2026-11-01 01:00:00 -04:00", "Sun 2026-11-01 01:00:00 -05:00"],
        ),
    ];
    for (cron, after, expected) in table {
        assert_eq!(next(&calendar(cron, zone), zone, after, 2), expected, "{cron}");
    }
}

// spec: TIM-013
#[test]
fn b48_policies_for_gap_and_fold_override_what_the_hours_say() {
    let zone = "Europe/Berlin";
    let spring = "2026-03-28T12:00:00Z";
    let autumn = "2026-10-24T12:00:00Z";
    let first = |cron, gap, fold, after| next(&with(cron, zone, gap, fold), zone, after, 2);
    let shift = first("30 2 * * *", Gap::Shift, Fold::First, spring);
    assert_eq!(shift, ["Sun 2026-03-29 03:00:00 +02:00", "Mon 2026-03-30 02:30:00 +02:00"]);
    let skip = first("30 2 * * *", Gap::Skip, Fold::First, spring);
    assert_eq!(skip, ["Mon 2026-03-30 02:30:00 +02:00", "Tue 2026-03-31 02:30:00 +02:00"]);
    let once = first("30 2 * * *", Gap::Skip, Fold::First, autumn);
    assert_eq!(once, ["Sun 2026-10-25 02:30:00 +02:00", "Mon 2026-10-26 02:30:00 +01:00"]);
    let later = first("30 2 * * *", Gap::Skip, Fold::Second, autumn);
    assert_eq!(later, ["Sun 2026-10-25 02:30:00 +01:00", "Mon 2026-10-26 02:30:00 +01:00"]);
    let both = first("30 2 * * *", Gap::Skip, Fold::Both, autumn);
    assert_eq!(both, ["Sun 2026-10-25 02:30:00 +02:00", "Sun 2026-10-25 02:30:00 +01:00"]);
    let hourly =
        next(&with("30 * * * *", zone, Gap::Shift, Fold::Second), zone, "2026-03-29T00:00:00Z", 3);
    assert_eq!(
        hourly,
        [
            "Sun 2026-03-29 01:30:00 +01:00",
            "Sun 2026-03-29 03:00:00 +02:00",
            "Sun 2026-03-29 03:30:00 +02:00"
        ]
    );
}

// spec: TIM-014
#[test]
fn several_times_in_one_gap_are_one() {
    let zone = "Europe/Berlin";
    let times = next(&calendar("*/7 2,3 * * *", zone), zone, "2026-03-28T12:00:00Z", 3);
    assert_eq!(
        times,
        [
            "Sun 2026-03-29 03:00:00 +02:00",
            "Sun 2026-03-29 03:07:00 +02:00",
            "Sun 2026-03-29 03:14:00 +02:00"
        ]
    );
}

// spec: TIM-011 TIM-015
#[test]
fn the_first_instant_after_a_gap_is_exact_whatever_its_length() {
    let table = [
        // Half an hour.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T12:00:00Z",
            "Sun 2026-10-04 02:30:00 +11:00",
        ),
        // At midnight.
        ("0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", "Sun 2026-09-06 01:00:00 -03:00"),
        // 44 minutes and 30 seconds.
        ("10 0 7 1 *", "Africa/Monrovia", "1972-01-01T00:00:00Z", "Fri 1972-01-07 00:44:30 +00:00"),
        // A whole day that never was.
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", "Sat 2011-12-31 00:00:00 +14:00"),
        // A day before the gap, in the middle of a month without changes: Ramadan.
        (
            "30 2 * * *",
            "Africa/Casablanca",
            "2026-03-21T12:00:00Z",
            "Sun 2026-03-22 03:00:00 +01:00",
        ),
    ];
    for (cron, zone, after, expected) in table {
        assert_eq!(next(&calendar(cron, zone), zone, after, 1), [expected], "{cron} in {zone}");
    }
}

// spec: TIM-012
#[test]
fn a_fold_over_midnight_is_one_day_after_the_other() {
    // At one minute past midnight the clock went back to 23:01 of the day before.
    let zone = "America/St_Johns";
    let after = "2006-10-29T01:00:00Z";
    let each = next(&with("30 23,0 * * *", zone, Gap::Skip, Fold::Both), zone, after, 3);
    assert_eq!(
        each,
        [
            "Sat 2006-10-28 23:30:00 -02:30",
            "Sat 2006-10-28 23:30:00 -03:30",
            "Sun 2006-10-29 00:30:00 -03:30"
        ]
    );
    let midnight = next(&with("0 0 * * *", zone, Gap::Skip, Fold::Both), zone, after, 2);
    assert_eq!(midnight, ["Sun 2006-10-29 00:00:00 -02:30", "Sun 2006-10-29 00:00:00 -03:30"]);
}
