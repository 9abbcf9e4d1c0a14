//! Random expressions in random zones around random changes of the clock.

use super::oracle::{Matcher, Walk};
use crate::kernel::calendar::Calendar;
use crate::kernel::ids::Timestamp;
use crate::kernel::schedule::{Fold, Gap};
use chrono::{DateTime, NaiveDate, Offset as _, TimeZone as _};
use chrono_tz::{TZ_VARIANTS, Tz};
use proptest::prelude::*;

const HOUR: i64 = 3600;

fn offset(zone: Tz, at: i64) -> i32 {
    let at = DateTime::from_timestamp(at, 0).unwrap().naive_utc();
    zone.offset_from_utc_datetime(&at).fix().local_minus_utc()
}

/// The first change of the clock within 400 days, or the instant itself.
fn change_after(zone: Tz, from: i64) -> i64 {
    let ahead = offset(zone, from);
    let mut at = from;
    while offset(zone, at) == ahead {
        at += HOUR;
        if from + 400 * 24 * HOUR < at {
            return from;
        }
    }
    while offset(zone, at - 1) != ahead {
        at -= 1;
    }
    at
}

fn zone() -> impl Strategy<Value = Tz> {
    proptest::sample::select(TZ_VARIANTS.to_vec())
}

/// One field: a star, a step, a number, a range with and without a step, or a list.
fn field(min: u32, max: u32) -> impl Strategy<Value = String> {
    let value = min..=max;
    let range = (value.clone(), value.clone()).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![
        4 => Just("*".to_owned()),
        2 => (1..=max).prop_map(|step| format!("*/{step}")),
        2 => value.clone().prop_map(|value| value.to_string()),
        1 => range.clone().prop_map(|(low, high)| format!("{low}-{high}")),
        1 => (range, 1..=max).prop_map(|((low, high), step)| format!("{low}-{high}/{step}")),
        1 => (value.clone(), value).prop_map(|(one, other)| format!("{one:02},{other}")),
    ]
}

fn day_of_month() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => field(1, 31),
        1 => Just("L".to_owned()),
        1 => Just("LW".to_owned()),
        1 => (1..=31_u32).prop_map(|day| format!("{day}W")),
        1 => (1..=31_u32).prop_map(|day| format!("L,{day}W")),
        1 => Just("?".to_owned()),
    ]
}

fn day_of_week() -> impl Strategy<Value = String> {
    let word = proptest::sample::select(vec!["sun", "Mon", "TUE", "WED", "thu", "FRI", "SAT", "7"]);
    let nth = proptest::sample::select(vec!["1", "2", "3", "4", "5", "L"]);
    let one = prop_oneof![
        6 => field(0, 7),
        1 => word.clone().prop_map(str::to_owned),
        1 => (word.clone(), nth).prop_map(|(day, nth)| format!("{day}#{nth}")),
        1 => word.prop_map(|day| format!("{day}L")),
        1 => Just("FRI-SUN".to_owned()),
    ];
    (one, proptest::bool::weighted(0.1))
        .prop_map(|(day, both)| if both { format!("+{day}") } else { day })
}

fn month() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("*".to_owned()), 1 => field(1, 12), 1 => Just("MAR-nov/2".to_owned())]
}

/// An expression whose days are rarely restricted, so that it plans something around a change.
fn frequent() -> impl Strategy<Value = String> {
    let hour = prop_oneof![1 => field(0, 23), 2 => (0..=4_u32).prop_map(|hour| hour.to_string())];
    let days = prop_oneof![
        6 => Just("* * *".to_owned()),
        1 => day_of_week().prop_map(|day| format!("* * {day}")),
    ];
    let second = prop_oneof![3 => Just(String::new()), 1 => field(0, 59).prop_map(|it| it + " ")];
    (second, field(0, 59), hour, days)
        .prop_map(|(second, minute, hour, days)| format!("{second}{minute} {hour} {days}"))
}

fn gap() -> impl Strategy<Value = Option<Gap>> {
    proptest::option::of(proptest::sample::select(vec![Gap::Shift, Gap::Skip]))
}

fn fold() -> impl Strategy<Value = Option<Fold>> {
    proptest::option::of(proptest::sample::select(vec![Fold::First, Fold::Second, Fold::Both]))
}

fn next(calendar: &Calendar, after: i64) -> Option<i64> {
    let next = calendar.next(Timestamp(u64::try_from(after).unwrap() * 1000))?;
    Some(i64::try_from(next.0).unwrap() / 1000)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    // spec: TIM-009 TIM-011 TIM-012 TIM-013 TIM-014
    #[test]
    fn around_any_change_of_any_zone_the_planned_times_are_those_of_the_walk(
        (zone, start) in (zone(), 200 * 24 * HOUR..4_000_000_000_i64),
        cron in frequent(),
        (gap, fold) in (gap(), fold()),
        places in proptest::collection::vec(0_i64..6 * HOUR, 12),
    ) {
        let change = change_after(zone, start);
        let (from, to) = (change - 3 * HOUR, change + 3 * HOUR);
        let size = offset(zone, change) - offset(zone, change - 1);
        prop_assume!(i64::from(size.abs()) < 3 * HOUR);
        let calendar = Calendar::parse(&cron, zone.name(), gap, fold);
        prop_assume!(calendar.is_ok()); // such as one that only ever falls into a gap
        let calendar = calendar.unwrap();
        let planned = Walk::new(zone, from, to, 1).planned(&Matcher::new(&cron), gap, fold);
        let mut now = from - 1;
        let mut found = Vec::new();
        while let Some(at) = next(&calendar, now).filter(|at| *at < to) {
            found.push(at);
            now = at;
        }
        prop_assert_eq!(&found, &planned);
        for place in places {
            let after = from + place;
            let expected = planned.iter().copied().find(|at| after < *at);
            prop_assert_eq!(next(&calendar, after).filter(|at| *at < to), expected);
        }
    }

    // spec: TIM-002 TIM-003 TIM-004
    #[test]
    fn in_28_years_the_days_of_an_expression_are_those_that_another_reader_finds(
        (day, month, weekday) in (day_of_month(), month(), day_of_week()),
    ) {
        let cron = format!("0 12 {day} {month} {weekday}");
        let matcher = Matcher::new(&cron);
        let first = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap();
        let days = first.iter_days().take(28 * 365 + 7).filter(|date| matcher.has_day(*date));
        let days: Vec<_> = days.map(|day| day.and_hms_opt(12, 0, 0).unwrap().and_utc().timestamp()).collect();
        match Calendar::parse(&cron, "UTC", None, None) {
            Err(error) => {
                prop_assert!(error.why.starts_with("no date matches it"), "{}: {}", cron, error);
                prop_assert!(days.is_empty(), "{}", cron);
            }
            Ok(calendar) => {
                prop_assert!(!days.is_empty(), "{}", cron);
                let mut now = first.and_hms_opt(0, 0, 0).unwrap().and_utc().timestamp() - 1;
                for day in days {
                    prop_assert_eq!(next(&calendar, now), Some(day), "{}", cron);
                    now = day;
                }
            }
        }
    }

    // spec: TIM-009
    #[test]
    fn b50_every_planned_time_exists_and_converts_to_local_time_and_back(
        zone in zone(),
        cron in (frequent(), day_of_month(), month()).prop_map(|(it, day, month)| {
            it.replacen("* *", &format!("{day} {month}"), 1)
        }),
        (gap, fold) in (gap(), fold()),
        start in 0..8_000_000_000_000_u64,
    ) {
        let calendar = Calendar::parse(&cron, zone.name(), gap, fold);
        prop_assume!(calendar.is_ok());
        let calendar = calendar.unwrap();
        let mut now = Timestamp(start);
        for _ in 0..32 {
            let Some(next) = calendar.next(now) else { break };
            prop_assert!(now < next);
            let instant = DateTime::from_timestamp_millis(next.0.try_into().unwrap()).unwrap();
            let local = instant.with_timezone(&zone).naive_local();
            let back = zone.from_local_datetime(&local);
            let back = [back.earliest(), back.latest()].into_iter().flatten();
            prop_assert!(back.into_iter().any(|back| back == instant), "{} is no local time", local);
            now = next;
        }
    }

    #[test]
    fn no_text_makes_the_reader_stop_or_take_what_it_does_not_know(text in "[-0-9*/,LW#?+@A-Z \\PC]{0,40}") {
        if let Ok(calendar) = Calendar::parse(&text, "UTC", None, None) {
            let plain = |c: char| c.is_ascii_alphanumeric() || "*/,-#?+@ \t".contains(c);
            prop_assert!(text.chars().all(plain), "{text:?}");
            prop_assert!(calendar.next(Timestamp(0)).is_some());
        }
    }
}
