//! The tables of `spec/time.md` against the calendar.

use chrono::{DateTime, NaiveDate, TimeZone as _};
use chrono_tz::Tz;
use midwatch::kernel::calendar::Calendar;
use midwatch::kernel::ids::Timestamp;
use midwatch::kernel::schedule::{Fold, Gap};
use std::fs;

/// The last second before the day that a line names, with the zone: `Europe/Berlin, the 29th of March 2026: …`.
fn heading(line: &str) -> Option<(&str, Timestamp)> {
    let (zone, rest) = line.split_once(", the ")?;
    let (date, _) = rest.split_once(':')?;
    let date: String = date.replace("th of", "");
    let date = NaiveDate::parse_from_str(&date, "%d %B %Y").ok()?;
    let before = date.pred_opt().unwrap().and_hms_opt(23, 59, 59).unwrap();
    let before = zone.parse::<Tz>().unwrap().from_local_datetime(&before).unwrap();
    Some((zone, Timestamp(before.timestamp_millis().try_into().unwrap())))
}

fn local(at: Timestamp, zone: &str) -> String {
    let at = DateTime::from_timestamp_millis(at.0.try_into().unwrap()).unwrap();
    at.with_timezone(&zone.parse::<Tz>().unwrap()).format("%-d %H:%M %:z").to_string()
}

// spec: TIM-016
#[test]
fn the_tables_of_changes_of_the_clock_say_what_is_planned() {
    let page = fs::read_to_string("spec/time.md").unwrap();
    let mut place = None;
    let mut checked = 0;
    for line in page.lines() {
        place = heading(line).or(place);
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let (Some((zone, before)), ["", cron, gap, fold, planned, ""]) = (place, cells.as_slice())
        else {
            continue;
        };
        if !cron.starts_with('`') {
            continue;
        }
        let gap = match *gap {
            "" => None,
            "shift" => Some(Gap::Shift),
            "skip" => Some(Gap::Skip),
            other => panic!("{other}"),
        };
        let fold = match *fold {
            "" => None,
            "first" => Some(Fold::First),
            "second" => Some(Fold::Second),
            "both" => Some(Fold::Both),
            other => panic!("{other}"),
        };
        let calendar = Calendar::parse(cron.trim_matches('`'), zone, gap, fold).unwrap();
        let mut now = before;
        for expected in planned.split(", ") {
            now = calendar.next(now).unwrap();
            assert_eq!(local(now, zone), expected, "{line}");
        }
        checked += 1;
    }
    assert_eq!(checked, 18, "rows");
}
