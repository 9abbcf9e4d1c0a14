//! Planned times against an enumeration that shares no code with them, and what is refused.

#![expect(clippy::arithmetic_side_effects, reason = "a test may overflow and stop")]

mod changes;
mod oracle;
mod random;

use super::{Calendar, CalendarError};
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::schedule::{From, Gap, Plan, ScheduleSpec};
use chrono::{DateTime, TimeZone as _};
use chrono_tz::Tz;

fn calendar(cron: &str, zone: &str) -> Calendar {
    Calendar::parse(cron, zone, None, None).unwrap_or_else(|error| panic!("{cron}: {error}"))
}

/// An instant from RFC 3339.
fn at(text: &str) -> Timestamp {
    let at = DateTime::parse_from_rfc3339(text).unwrap();
    Timestamp(at.timestamp_millis().try_into().unwrap())
}

/// The local time of an instant, with its offset.
fn local(at: Timestamp, zone: &str) -> String {
    let zone: Tz = zone.parse().unwrap();
    let at = zone.timestamp_millis_opt(at.0.try_into().unwrap()).unwrap();
    at.format("%a %F %T %:z").to_string()
}

/// The next planned times, in local time.
fn next(calendar: &Calendar, zone: &str, after: &str, count: usize) -> Vec<String> {
    let mut now = at(after);
    let mut times = Vec::new();
    for _ in 0..count {
        now = calendar.next(now).unwrap();
        times.push(local(now, zone));
    }
    times
}

fn why(cron: &str) -> String {
    let error = Calendar::parse(cron, "UTC", None, None).expect_err(cron);
    assert_eq!(error.key, "cron", "{cron}");
    error.why
}

// spec: TIM-001 TIM-002 TIM-006
#[test]
fn an_expression_has_five_fields_or_six_or_a_name() {
    let table = [
        ("30 2 * * *", "Thu 2026-01-01 02:30:00 +00:00"),
        ("15 30 2 * * *", "Thu 2026-01-01 02:30:15 +00:00"),
        ("\t5\t 07  * * * ", "Thu 2026-01-01 07:05:00 +00:00"),
        ("0 0 * feb *", "Sun 2026-02-01 00:00:00 +00:00"),
        ("0 0 * * Mon", "Mon 2026-01-05 00:00:00 +00:00"),
        ("0 0 * * 7", "Sun 2026-01-04 00:00:00 +00:00"),
        ("0 0 * * fri-sun", "Fri 2026-01-02 00:00:00 +00:00"),
        ("0 0 * * SAT-7", "Sat 2026-01-03 00:00:00 +00:00"),
        ("0 0 ? * 2,1", "Mon 2026-01-05 00:00:00 +00:00"),
        ("20-40/10,5 * * * *", "Thu 2026-01-01 00:05:00 +00:00"),
        ("*/59 1-2 * * *", "Thu 2026-01-01 01:00:00 +00:00"),
        ("0 0 1 JAN-DEC/6 *", "Wed 2026-07-01 00:00:00 +00:00"),
        ("@hourly", "Thu 2026-01-01 01:00:00 +00:00"),
        ("@daily", "Fri 2026-01-02 00:00:00 +00:00"),
        ("@Midnight", "Fri 2026-01-02 00:00:00 +00:00"),
        (" @weekly ", "Sun 2026-01-04 00:00:00 +00:00"),
        ("@monthly", "Sun 2026-02-01 00:00:00 +00:00"),
        ("@yearly", "Fri 2027-01-01 00:00:00 +00:00"),
        ("@annually", "Fri 2027-01-01 00:00:00 +00:00"),
    ];
    for (cron, expected) in table {
        let times = next(&calendar(cron, "UTC"), "UTC", "2026-01-01T00:00:00Z", 1);
        assert_eq!(times, [expected], "{cron}");
    }
}

// spec: TIM-003
#[test]
fn last_days_nth_weekdays_and_nearest_weekdays_are_found() {
    let table = [
        ("0 12 * * FRI#L", ["Fri 2026-01-30", "Fri 2026-02-27", "Fri 2026-03-27"]),
        ("0 12 * * FRIL", ["Fri 2026-01-30", "Fri 2026-02-27", "Fri 2026-03-27"]),
        ("0 12 * * 5L", ["Fri 2026-01-30", "Fri 2026-02-27", "Fri 2026-03-27"]),
        ("0 12 * * 5#L", ["Fri 2026-01-30", "Fri 2026-02-27", "Fri 2026-03-27"]),
        ("0 12 * * FRI#2", ["Fri 2026-01-09", "Fri 2026-02-13", "Fri 2026-03-13"]),
        ("0 12 * * sun#5", ["Sun 2026-03-29", "Sun 2026-05-31", "Sun 2026-08-30"]),
        ("0 12 * * 7#5", ["Sun 2026-03-29", "Sun 2026-05-31", "Sun 2026-08-30"]),
        ("0 12 L * *", ["Sat 2026-01-31", "Sat 2026-02-28", "Tue 2026-03-31"]),
        ("0 12 LW * *", ["Fri 2026-01-30", "Fri 2026-02-27", "Tue 2026-03-31"]),
        ("0 12 1W * *", ["Thu 2026-01-01", "Mon 2026-02-02", "Mon 2026-03-02"]),
        ("0 12 1,L * *", ["Thu 2026-01-01", "Sat 2026-01-31", "Sun 2026-02-01"]),
        ("0 12 31 * *", ["Sat 2026-01-31", "Tue 2026-03-31", "Sun 2026-05-31"]),
        ("0 12 29 2 *", ["Tue 2028-02-29", "Sun 2032-02-29", "Fri 2036-02-29"]),
    ];
    for (cron, expected) in table {
        let times = next(&calendar(cron, "UTC"), "UTC", "2026-01-01T00:00:00Z", 3);
        let expected = expected.map(|day| format!("{day} 12:00:00 +00:00"));
        assert_eq!(times, expected, "{cron}");
    }
}

// spec: TIM-004
#[test]
fn both_day_fields_are_alternatives_unless_one_begins_with_a_star() {
    let table = [
        ("0 0 13 * FRI", ["Fri 2026-01-02", "Fri 2026-01-09", "Tue 2026-01-13"]),
        ("0 0 13 * +FRI", ["Fri 2026-02-13", "Fri 2026-03-13", "Fri 2026-11-13"]),
        ("0 0 */2 * FRI", ["Fri 2026-01-09", "Fri 2026-01-23", "Fri 2026-02-13"]),
        ("0 0 1-9 * */6", ["Sat 2026-01-03", "Sun 2026-01-04", "Sun 2026-02-01"]),
        ("0 0 13 * *", ["Tue 2026-01-13", "Fri 2026-02-13", "Fri 2026-03-13"]),
        ("0 0 ? * FRI", ["Fri 2026-01-02", "Fri 2026-01-09", "Fri 2026-01-16"]),
    ];
    for (cron, expected) in table {
        let times = next(&calendar(cron, "UTC"), "UTC", "2026-01-01T00:00:00Z", 3);
        assert_eq!(times, expected.map(|day| format!("{day} 00:00:00 +00:00")), "{cron}");
    }
}

// B59: a bad expression gave no next time, and that counted as due.
// spec: TIM-005
#[test]
fn an_expression_that_makes_no_sense_is_refused_with_the_field_that_is_wrong() {
    let table = [
        ("61 * * * *", "minute: 61 is not within 0-59"),
        ("60 * * * * *", "second: 60 is not within 0-59"),
        ("0 24 * * *", "hour: 24 is not within 0-23"),
        ("0 0 0 * *", "day of month: 0 is not within 1-31"),
        ("0 0 1-32 * *", "day of month: 32 is not within 1-31"),
        ("0 0 32W * *", "day of month: 32 is not within 1-31"),
        ("0 0 * 13 *", "month: 13 is not within 1-12"),
        ("0 0 * * 8", "day of week: 8 is not within 0-7"),
        ("0 0 * * 8L", "day of week: 8 is not within 0-7"),
        ("99999999999999999999 * * * *", "minute: 99999999999999999999 is not within 0-59"),
        ("5-1 * * * *", "minute: the range 5-1 ends before it begins"),
        ("0 0 * * FRI-MON", "day of week: the range FRI-MON ends before it begins"),
        ("*/0 * * * *", "minute: a step of 0 is not within 1-59"),
        ("*/90 * * * *", "minute: a step of 90 is not within 1-59"),
        ("5/15 * * * *", "minute: a step needs a range before it: `*/15` or `5-59/15`"),
        ("/5 * * * *", "minute: a step needs a range before it: `*/5` or `-59/5`"),
        ("*/2/2 * * * *", "minute: `2/2` is not a number"),
        (",5 * * * *", "minute: nothing stands beside a comma in `,5`"),
        ("5, * * * *", "minute: nothing stands beside a comma in `5,`"),
        ("1,,2 * * * *", "minute: nothing stands beside a comma in `1,,2`"),
        ("*,5 * * * *", "minute: `*` stands alone, not in a list"),
        ("5- * * * *", "minute: `` is not a number"),
        ("-5 * * * *", "minute: `` is not a number"),
        ("1-2-3 * * * *", "minute: `2-3` is not a number"),
        ("0x5 * * * *", "minute: `0X5` is not a number"),
        ("1.5 * * * *", "minute: `1.5` is not a number"),
        ("٣ * * * *", "minute: `٣` is not a number"),
        ("? * * * *", "minute: `?` is not a number"),
        ("L * * * *", "minute: `L` is not a number"),
        ("MON * * * *", "minute: `MON` is not a number"),
        ("0 0 * JUNE *", "month: `JUNE` is not a number, nor a name such as FRI or JAN"),
        ("0 0 * MON *", "month: `MON` is not a number, nor a name such as FRI or JAN"),
        ("0 0 * * ſun", "day of week: `ſUN` is not a number, nor a name such as FRI or JAN"),
        ("0 0 * * +", "day of week: nothing stands beside a comma in ``"),
        ("0 0 * * L", "day of week: `L` needs a day before it, such as `FRIL`"),
        ("0 0 * * FRI#6", "day of week: after `#` stands 1-5 or L, not `6`"),
        ("0 0 * * FRI#", "day of week: after `#` stands 1-5 or L, not ``"),
        ("0 0 * * 1-5#2", "day of week: `1-5` is not a number, nor a name such as FRI or JAN"),
        ("0 0 L-3 * *", "day of month: `L` is not a number"),
        ("0 0 W * *", "day of month: `` is not a number"),
        ("0 0 L,LW * *", "day of month: the last day and the last weekday exclude each other"),
        ("@reboot", "`@reboot` is no time of a calendar: it fires at each start of the host"),
    ];
    for (cron, expected) in table {
        assert_eq!(why(cron), expected, "{cron}");
    }
    for (cron, expected) in [
        ("", "it is empty"),
        (" \t", "it is empty"),
        ("0 0", "it has 2 fields; write five"),
        ("0 0 0 * * * 2030", "it has 7 fields"),
        ("@fortnightly", "there is no `@fortnightly`; there are @hourly"),
        (&"5,".repeat(129), "it is longer than 256 bytes"),
    ] {
        let why = why(cron);
        assert!(why.starts_with(expected), "{cron}: {why}");
    }
    let longest = format!("{:<256}", "5 * * * *");
    assert_eq!(longest.len(), 256);
    calendar(&longest, "UTC");
}

// spec: TIM-008
#[test]
fn an_expression_that_no_date_matches_is_refused() {
    for cron in [
        "0 0 30 2 *",
        "0 0 31 4 *",
        "0 0 31 FEB,APR,JUN,SEP,NOV *",
        "0 0 30W 2 *",
        "0 0 1 * +MON#5",
        "0 0 29 2 +MON#4",
    ] {
        assert_eq!(why(cron), "no date matches it, not in 40 years", "{cron}");
    }
    // A leap day of each weekday, the two rarest dates there are.
    for weekday in 0..7 {
        calendar(&format!("0 0 29 2 +{weekday}"), "UTC");
    }
    // In Berlin this hour is never there on the last Sunday of March.
    let cron = "30 2 * 3 SUN#L";
    assert!(Calendar::parse(cron, "Europe/Berlin", None, None).is_ok());
    let error = Calendar::parse(cron, "Europe/Berlin", Some(Gap::Skip), None).unwrap_err();
    assert_eq!(error.to_string(), "`cron`: no date matches it, not in 40 years");
}

// spec: TIM-007
#[test]
fn b59_an_unknown_zone_is_refused_and_a_known_one_is_honoured() {
    for zone in ["Mars/Base", "", "europe/berlin", "CEST", "+02:00", "Europe/Berlin "] {
        let error = Calendar::parse("0 9 * * *", zone, None, None).unwrap_err();
        let why = format!(
            "there is no time zone `{zone}`; write an IANA name, such as Europe/Berlin or UTC"
        );
        assert_eq!(error, CalendarError { key: "timezone", why });
    }
    let noon = "2026-07-01T12:00:00Z";
    for (zone, expected) in [
        ("UTC", "Thu 2026-07-02 09:00:00 +00:00"),
        ("Asia/Kolkata", "Thu 2026-07-02 09:00:00 +05:30"),
        ("America/New_York", "Wed 2026-07-01 09:00:00 -04:00"),
        ("Pacific/Kiritimati", "Thu 2026-07-02 09:00:00 +14:00"),
    ] {
        assert_eq!(next(&calendar("0 9 * * *", zone), zone, noon, 1), [expected]);
    }
}

// spec: TIM-009
#[test]
fn a_planned_time_is_a_whole_second_strictly_after() {
    let each = calendar("* * * * * *", "UTC");
    for (after, expected) in [(0, 1000), (1, 1000), (999, 1000), (1000, 2000), (1001, 2000)] {
        assert_eq!(each.next(Timestamp(after)), Some(Timestamp(expected)));
    }
}

// B45: a search looped, and one schedule held up all others.
// spec: TIM-010
#[test]
fn the_search_ends_for_the_rarest_dates_and_at_both_ends_of_time() {
    let leap = calendar("59 59 23 29 2 +MON", "America/Santiago");
    let times = next(&leap, "America/Santiago", "2032-01-01T00:00:00Z", 3);
    assert_eq!(
        times.map_days(),
        ["Mon 2044-02-29", "Mon 2072-02-29", "Mon 2112-02-29"],
        "over a century that is no leap year"
    );
    let last = calendar("59 59 23 31 12 *", "UTC");
    assert_eq!(last.next(at("9999-12-31T23:59:58Z")), Some(at("9999-12-31T23:59:59Z")));
    assert_eq!(last.next(at("9999-12-31T23:59:59Z")), None);
    assert_eq!(leap.next(at("9999-01-01T00:00:00Z")), None);
    for cron in ["* * * * * *", "0 0 29 2 +MON", "59 23 31 12 *", "0 0 * * *"] {
        for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Africa/Monrovia"] {
            let calendar = calendar(cron, zone);
            assert!(calendar.next(Timestamp(0)).is_some_and(|at| Timestamp(0) < at));
            for after in [253_402_300_800_000, 8_210_266_876_799_000, 1 << 63, u64::MAX] {
                assert_eq!(calendar.next(Timestamp(after)), None, "{cron} {zone} {after}");
            }
        }
    }
}

trait MapDays {
    fn map_days(&self) -> Vec<&str>;
}

impl MapDays for Vec<String> {
    fn map_days(&self) -> Vec<&str> {
        self.iter().map(|time| &time[..14]).collect()
    }
}

// spec: TIM-020
#[test]
fn b49_an_interval_is_elapsed_time_and_a_calendar_is_the_clock_on_the_wall() {
    let zone = "Europe/Berlin";
    let week = Millis::secs(7 * 24 * 3600);
    let every = ScheduleSpec {
        zone: zone.into(),
        ..ScheduleSpec::new("t", Plan::Every(week, From::Start))
    };
    let cron = ScheduleSpec {
        zone: zone.into(),
        ..ScheduleSpec::new("t", Plan::Cron("0 9 * * THU".into()))
    };
    let before = at("2026-03-26T09:00:00+01:00");
    let after = |spec: ScheduleSpec| local(spec.times().unwrap().next(before).unwrap(), zone);
    assert_eq!(after(every), "Thu 2026-04-02 10:00:00 +02:00");
    assert_eq!(after(cron), "Thu 2026-04-02 09:00:00 +02:00");
}
