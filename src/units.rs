//! Durations, sizes and instants: as people type them and as people read them.
//!
//! Every text of this kind in the config, on the command line and on the wire is read and written
//! here, so that `1h30m` means the same everywhere. Nothing here reads a clock: "now" is a
//! parameter. Whole numbers only, so what was printed reads back as the same value.
//!
//! Two families: `format_…` prints what `parse_…` reads (`1h30m`, `4MiB`, RFC 3339), while
//! [`span`], [`bytes`], [`relative`] and the rest print for people (`4 min 41 s`, `12.3 MiB`) and
//! are read by nobody.

use crate::kernel::ids::{Millis, Timestamp};
use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeZone, Utc};
use std::fmt;

/// Longest duration that is accepted: a hundred years of 365 days. What is longer is a slip.
pub const DURATION_MAX: Millis = Millis(100 * 365 * 86_400_000);

/// The last instant that RFC 3339 can write, 9999-12-31T23:59:59.999Z.
pub const TIMESTAMP_MAX: Timestamp = Timestamp(253_402_300_799_999);

/// A text that is not what it should be; its message quotes the text and says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// The units of a duration in milliseconds, largest first.
const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The units of a size in bytes; the larger ones first, so that printing takes the shortest.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1000),
    ("B", 1),
];

/// Reads a duration: numbers with the units `d`, `h`, `m`, `s`, `ms`, larger units first, each at
/// most once, no spaces: `30s`, `1h30m`, `250ms`. At most [`DURATION_MAX`].
pub fn parse_duration(text: &str) -> Result<Millis, Unreadable> {
    let wrong = |why: &str| {
        Unreadable(format!(
            "`{}` is not a duration: {why}; write it like 250ms, 30s, 5m, 1h30m or 2d",
            quotable(text)
        ))
    };
    if text.is_empty() {
        return Err(wrong("it is empty"));
    }
    let mut rest = text;
    let mut total: u64 = 0;
    let mut units = DURATION_UNITS.iter();
    while !rest.is_empty() {
        let (number, after) = leading_number(rest).ok_or_else(|| wrong("a number is missing"))?;
        let number: u64 = number.parse().map_err(|_too_large| wrong("it is too long"))?;
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if unit.is_empty() {
            return Err(wrong("a unit is missing"));
        }
        if !DURATION_UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(wrong("the units are d, h, m, s and ms"));
        }
        let (_, factor) = units
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| wrong("larger units come first, each once"))?;
        total = number
            .checked_mul(*factor)
            .and_then(|part| total.checked_add(part))
            .filter(|total| *total <= DURATION_MAX.0)
            .ok_or_else(|| wrong("more than 100 years is not accepted"))?;
        rest = after;
    }
    Ok(Millis(total))
}

/// Prints a duration as [`parse_duration`] reads it: `1h30m`, `0s`.
pub fn format_duration(duration: Millis) -> String {
    if duration.0 == 0 {
        return "0s".to_owned();
    }
    let mut rest = duration.0;
    let mut text = String::new();
    for (unit, factor) in DURATION_UNITS {
        if rest / factor != 0 {
            text.push_str(&(rest / factor).to_string());
            text.push_str(unit);
        }
        rest %= factor;
    }
    text
}

/// Reads a size in bytes: one whole number and one unit, `50MB` (decimal) or `4MiB` (binary).
/// Upper and lower case are the same, a space between the two is allowed.
pub fn parse_size(text: &str) -> Result<u64, Unreadable> {
    let wrong = |why: &str| {
        Unreadable(format!(
            "`{}` is not a size: {why}; write it like 512KiB, 50MB, 4MiB or 1GiB",
            quotable(text)
        ))
    };
    let (number, unit) =
        leading_number(text.trim()).ok_or_else(|| wrong("it begins with a whole number"))?;
    let number: u64 = number.parse().map_err(|_too_large| wrong("it is too large"))?;
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Err(wrong("a unit is missing"));
    }
    let (_, factor) = SIZE_UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .ok_or_else(|| wrong("the units are B, KB, MB, GB, TB and KiB, MiB, GiB, TiB"))?;
    number.checked_mul(*factor).ok_or_else(|| wrong("it is too large"))
}

/// Prints a size exactly, as [`parse_size`] reads it: `4MiB`, `50MB`, `1234B`.
pub fn format_size(bytes: u64) -> String {
    let whole = |(_, factor): &&(&str, u64)| bytes != 0 && bytes.is_multiple_of(*factor);
    match SIZE_UNITS.iter().find(whole) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

/// Prints an instant as RFC 3339 in UTC with milliseconds: `2026-03-14T02:10:00.004Z`. What lies
/// beyond [`TIMESTAMP_MAX`] is printed as that.
pub fn rfc3339(instant: Timestamp) -> String {
    utc(instant).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Reads an RFC 3339 instant with its offset, not before 1970 nor after [`TIMESTAMP_MAX`]; below a millisecond it is cut.
pub fn parse_rfc3339(text: &str) -> Result<Timestamp, Unreadable> {
    let wrong = |why: &str| {
        Unreadable(format!(
            "`{}` is not an instant: {why}; write it like 2026-03-14T02:30:00Z or \
             2026-03-14T02:30:00+08:00",
            quotable(text)
        ))
    };
    let instant = DateTime::parse_from_rfc3339(text).map_err(|error| wrong(&error.to_string()))?;
    let instant = u64::try_from(instant.timestamp_millis())
        .map(Timestamp)
        .map_err(|_negative| wrong("it lies before 1970"))?;
    // An offset may reach beyond what can be printed.
    if TIMESTAMP_MAX < instant { Err(wrong("it lies after 9999")) } else { Ok(instant) }
}

/// Which clock on the wall people are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Coordinated universal time.
    Utc,
    /// The zone of this process (`TZ`, `/etc/localtime`).
    Local,
}

impl Zone {
    /// Date and time to the second: `2026-03-14 02:10:00`, with `Z` in UTC.
    pub fn date_time(self, instant: Timestamp) -> String {
        self.print(instant, "%Y-%m-%d %H:%M:%S")
    }

    /// The date: `2026-03-14`.
    pub fn date(self, instant: Timestamp) -> String {
        let text = self.print(instant, "%Y-%m-%d");
        text.trim_end_matches('Z').to_owned()
    }

    /// Time of day to the second: `02:10:00`.
    pub fn time(self, instant: Timestamp) -> String {
        self.print(instant, "%H:%M:%S").trim_end_matches('Z').to_owned()
    }

    /// Time of day to the millisecond: `02:10:00.004`.
    pub fn time_millis(self, instant: Timestamp) -> String {
        self.print(instant, "%H:%M:%S%.3f").trim_end_matches('Z').to_owned()
    }

    fn print(self, instant: Timestamp, format: &str) -> String {
        let instant = utc(instant);
        match self {
            Self::Utc => format!("{}Z", instant.format(format)),
            Self::Local => instant.with_timezone(&Local).format(format).to_string(),
        }
    }

    /// Reads an instant as a person types it: RFC 3339, or `2026-03-14 02:30[:00]`, or `02:30`
    /// (the next time the clock shows it), in this zone.
    ///
    /// A local time that the clock skips is the first instant after the gap; one that it shows
    /// twice is the first of the two.
    pub fn parse(self, text: &str, now: Timestamp) -> Result<Timestamp, Unreadable> {
        self.read(text, |time| self.next_at(time, now))
    }

    /// The same for what has been: a time of day alone means the last one before `now`.
    pub fn parse_past(self, text: &str, now: Timestamp) -> Result<Timestamp, Unreadable> {
        self.read(text, |time| self.last_at(time, now))
    }

    fn read(
        self,
        text: &str,
        at: impl FnOnce(NaiveTime) -> Option<Timestamp>,
    ) -> Result<Timestamp, Unreadable> {
        let text = text.trim();
        if let Ok(instant) = parse_rfc3339(text) {
            return Ok(instant);
        }
        let time_formats = ["%H:%M", "%H:%M:%S"];
        let times = |text: &str| {
            time_formats.iter().find_map(|format| NaiveTime::parse_from_str(text, format).ok())
        };
        let found = if let Some(time) = times(text) {
            at(time)
        } else {
            let (date, time) = text.split_once([' ', 'T', 't']).unwrap_or((text, "00:00"));
            let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok();
            date.zip(times(time)).and_then(|(date, time)| self.instant(date.and_time(time)))
        };
        found.ok_or_else(|| {
            Unreadable(format!(
                "`{}` is not a point in time: write it like 02:30, \"2026-03-14 02:30\" or \
                 2026-03-14T02:30:00Z",
                quotable(text)
            ))
        })
    }

    fn today(self, now: Timestamp) -> NaiveDate {
        match self {
            Self::Utc => utc(now).date_naive(),
            Self::Local => utc(now).with_timezone(&Local).date_naive(),
        }
    }

    /// The last instant up to `now` at which the clock showed `time`.
    fn last_at(self, time: NaiveTime, now: Timestamp) -> Option<Timestamp> {
        let today = self.today(now);
        let days = [Some(today), today.pred_opt()];
        let mut instants =
            days.into_iter().flatten().filter_map(|day| self.instant(day.and_time(time)));
        instants.find(|instant| *instant <= now)
    }

    /// The first instant after `now` at which the clock shows `time`.
    fn next_at(self, time: NaiveTime, now: Timestamp) -> Option<Timestamp> {
        let today = self.today(now);
        let days = [Some(today), today.succ_opt()];
        let mut instants =
            days.into_iter().flatten().filter_map(|day| self.instant(day.and_time(time)));
        instants.find(|instant| now < *instant)
    }

    fn instant(self, time: NaiveDateTime) -> Option<Timestamp> {
        let millis = match self {
            Self::Utc => time.and_utc().timestamp_millis(),
            Self::Local => {
                // Gaps are at most a few hours; the step is finer than any zone's odd minutes.
                let steps = (0..24 * 4).filter_map(|step| {
                    let later = time.checked_add_signed(chrono::TimeDelta::minutes(15 * step))?;
                    Local.from_local_datetime(&later).earliest()
                });
                steps.take(1).next()?.timestamp_millis()
            }
        };
        u64::try_from(millis).ok().map(Timestamp).filter(|instant| *instant <= TIMESTAMP_MAX)
    }
}

/// A part of a whole: `99.1 %`. Only the whole is `100 %`, and only nothing of it `0 %`.
pub fn percent(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1000 / u128::from(whole.max(1));
    match tenths {
        1000.. => "100 %".to_owned(),
        0 if part != 0 => "0.1 %".to_owned(),
        tenths if tenths.is_multiple_of(10) => format!("{} %", tenths / 10),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// A span for people, its two largest units at most: `5 ms`, `4.2 s`, `4 min 41 s`, `41 d 3 h`.
pub fn span(span: Millis) -> String {
    let ms = span.0;
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..10_000 if ms % 1000 / 100 != 0 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        1000..60_000 => format!("{} s", ms / 1000),
        60_000..3_600_000 => two(ms / 60_000, "min", ms % 60_000 / 1000, "s"),
        3_600_000..86_400_000 => two(ms / 3_600_000, "h", ms % 3_600_000 / 60_000, "min"),
        _ => two(ms / 86_400_000, "d", ms % 86_400_000 / 3_600_000, "h"),
    }
}

/// A span for people in its largest unit alone: `2 min`, `9 h`.
pub fn rough_span(rough: Millis) -> String {
    let ms = rough.0;
    let unit = match ms {
        0..60_000 => 1000,
        60_000..3_600_000 => 60_000,
        3_600_000..86_400_000 => 3_600_000,
        _ => 86_400_000,
    };
    span(Millis(ms - ms % unit)).replace("0 ms", "0 s")
}

/// When `instant` is or was, seen from `now`: `9 min ago`, `now`, `in 1 min 48 s`.
pub fn relative(instant: Timestamp, now: Timestamp) -> String {
    let (ago, ahead) = (now.since(instant), instant.since(now));
    if 1000 <= ago.0 {
        format!("{} ago", rough_span(ago))
    } else if 1000 <= ahead.0 {
        format!("in {}", span(Millis(ahead.0 - ahead.0 % 1000)))
    } else {
        "now".to_owned()
    }
}

/// Bytes for people, binary units, at most one digit behind the point: `512 B`, `12.3 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Tenths of the unit, rounded; one unit further as soon as this one would show 1024.
    let tenths = |unit: u32| {
        let factor = 1_u128 << (10 * unit);
        (u128::from(bytes) * 10 + factor / 2) / factor
    };
    let numbered = (1..).zip(UNITS);
    let fitting = numbered.map(|(number, unit)| (tenths(number), unit));
    let (tenths, unit) =
        fitting.into_iter().find(|(tenths, _)| *tenths < 10_240).unwrap_or((160, "EiB")); // never: the largest number there is is 16 EiB
    if 1000 <= tenths || tenths.is_multiple_of(10) {
        format!("{} {unit}", (tenths + 5) / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

/// A number for people, its digits in groups of three: `1,217`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn utc(instant: Timestamp) -> DateTime<Utc> {
    let millis = i64::try_from(instant.0.min(TIMESTAMP_MAX.0)).unwrap_or_default();
    DateTime::from_timestamp_millis(millis).unwrap_or_default()
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large} {large_unit}")
    } else {
        format!("{large} {large_unit} {small} {small_unit}")
    }
}

/// The digits that `text` begins with, if any, and what follows them.
fn leading_number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end != 0).then(|| text.split_at(end))
}

/// A text as an error may quote it: short, and without control characters.
fn quotable(text: &str) -> String {
    let mut short: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if 40 < text.chars().count() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn durations_read_back_as_they_were_printed() {
        for text in ["250ms", "30s", "5m", "1h30m", "2d", "1d2h3m4s5ms", "0s", "36500d"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(parse_duration("90s").unwrap(), Millis(90_000));
        assert_eq!(format_duration(Millis(90_000)), "1m30s");
        assert_eq!(parse_duration("1m500ms").unwrap(), Millis(60_500));
    }

    #[test]
    fn a_wrong_duration_is_quoted_and_told_what_is_allowed() {
        let texts = ["", "30", "s", "1x", "5m1h", "1s1s", "-5s", "1.5h", "36501d", "1h "];
        let long = "9".repeat(99) + "s";
        let all = texts.into_iter().chain([long.as_str(), "999999999999999999d", "\u{1b}[2Js"]);
        let said: Vec<_> = all.map(|text| parse_duration(text).unwrap_err().to_string()).collect();
        check(
            &said.join("\n"),
            &expect![[r#"
                `` is not a duration: it is empty; write it like 250ms, 30s, 5m, 1h30m or 2d
                `30` is not a duration: a unit is missing; write it like 250ms, 30s, 5m, 1h30m or 2d
                `s` is not a duration: a number is missing; write it like 250ms, 30s, 5m, 1h30m or 2d
                `1x` is not a duration: the units are d, h, m, s and ms; write it like 250ms, 30s, 5m, 1h30m or 2d
                `5m1h` is not a duration: larger units come first, each once; write it like 250ms, 30s, 5m, 1h30m or 2d
                `1s1s` is not a duration: larger units come first, each once; write it like 250ms, 30s, 5m, 1h30m or 2d
                `-5s` is not a duration: a number is missing; write it like 250ms, 30s, 5m, 1h30m or 2d
                `1.5h` is not a duration: a unit is missing; write it like 250ms, 30s, 5m, 1h30m or 2d
                `36501d` is not a duration: more than 100 years is not accepted; write it like 250ms, 30s, 5m, 1h30m or 2d
                `1h ` is not a duration: a number is missing; write it like 250ms, 30s, 5m, 1h30m or 2d
                `9999999999999999999999999999999999999999…` is not a duration: it is too long; write it like 250ms, 30s, 5m, 1h30m or 2d
                `999999999999999999d` is not a duration: more than 100 years is not accepted; write it like 250ms, 30s, 5m, 1h30m or 2d
                `\u{1b}[2Js` is not a duration: a number is missing; write it like 250ms, 30s, 5m, 1h30m or 2d"#]],
        );
    }

    #[test]
    fn a_time_of_day_is_the_next_one_or_the_last_one_as_is_asked() {
        let now = parse_rfc3339("2026-03-14T02:10:00Z").unwrap();
        for (text, next, last) in [
            ("02:30", "2026-03-14T02:30:00.000Z", "2026-03-13T02:30:00.000Z"),
            ("02:00", "2026-03-15T02:00:00.000Z", "2026-03-14T02:00:00.000Z"),
            ("02:10", "2026-03-15T02:10:00.000Z", "2026-03-14T02:10:00.000Z"),
            ("2026-03-20", "2026-03-20T00:00:00.000Z", "2026-03-20T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Zone::Utc.parse(text, now).unwrap()), next, "{text}");
            assert_eq!(rfc3339(Zone::Utc.parse_past(text, now).unwrap()), last, "{text}");
        }
    }

    #[test]
    fn sizes_read_back_as_they_were_printed() {
        for text in ["1B", "512KiB", "50MB", "4MiB", "1GiB", "3TB", "2TiB", "1234B", "0B"] {
            assert_eq!(format_size(parse_size(text).unwrap()), text);
        }
        assert_eq!(parse_size("50 mb").unwrap(), 50_000_000);
        assert_eq!(parse_size("4096B").unwrap(), 4096);
        for text in ["", "4096", "MiB", "1.5GiB", "4XB", "99999999999TiB", "-1B"] {
            let said = parse_size(text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("`{text}` is not a size: ")), "{said}");
        }
    }

    #[test]
    fn an_instant_that_cannot_be_printed_is_refused() {
        let last = "9999-12-31T23:59:59.999Z";
        assert_eq!(parse_rfc3339(last), Ok(TIMESTAMP_MAX));
        assert_eq!(parse_rfc3339("9999-12-31T22:59:59.999-01:00"), Ok(TIMESTAMP_MAX));
        for text in ["9999-12-31T23:59:59-23:59", "9999-12-31T23:00:00-01:00"] {
            let error = parse_rfc3339(text).unwrap_err();
            assert!(error.to_string().contains("after 9999"), "{error}");
        }
        for text in ["+10000-01-01 00:00", "9999-12-31T23:59:59-23:59"] {
            assert!(Zone::Utc.parse(text, Timestamp(0)).is_err(), "{text}");
        }
    }

    #[test]
    fn instants_read_back_as_they_were_printed() {
        for ms in [0, 1, 999, 1_773_454_200_004, TIMESTAMP_MAX.0] {
            assert_eq!(parse_rfc3339(&rfc3339(Timestamp(ms))).unwrap(), Timestamp(ms));
        }
        assert_eq!(rfc3339(Timestamp(1_773_454_200_004)), "2026-03-14T02:10:00.004Z");
        assert_eq!(rfc3339(Timestamp(u64::MAX)), "9999-12-31T23:59:59.999Z");
        let shifted = parse_rfc3339("2026-03-14T10:10:00.0049+08:00").unwrap();
        assert_eq!(rfc3339(shifted), "2026-03-14T02:10:00.004Z");
        for text in ["", "yesterday", "2026-03-14", "1969-12-31T23:59:59Z", "2026-02-30T00:00:00Z"]
        {
            assert!(parse_rfc3339(text).is_err(), "{text}");
        }
    }

    #[test]
    fn people_may_type_a_time_of_day_a_date_or_both() {
        let now = parse_rfc3339("2026-03-14T02:10:00Z").unwrap();
        let read = |text| Zone::Utc.parse(text, now).map(rfc3339).unwrap();
        assert_eq!(read("02:30"), "2026-03-14T02:30:00.000Z");
        assert_eq!(read("02:10"), "2026-03-15T02:10:00.000Z");
        assert_eq!(read("2026-04-01"), "2026-04-01T00:00:00.000Z");
        assert_eq!(read("2026-04-01 23:59:58"), "2026-04-01T23:59:58.000Z");
        assert_eq!(read("2026-04-01T23:59"), "2026-04-01T23:59:00.000Z");
        assert_eq!(read("2026-04-01T23:59:00+02:00"), "2026-04-01T21:59:00.000Z");
        assert!(Zone::Utc.parse("soon", now).is_err());
        assert!(Zone::Local.parse("02:30", now).unwrap() > now);
    }

    #[test]
    fn per_cent_never_rounds_up_to_all() {
        assert_eq!(percent(1000, 1000), "100 %");
        assert_eq!(percent(99_999, 100_000), "99.9 %");
        assert_eq!(percent(0, 0), "0 %");
        assert_eq!(percent(1, 100_000), "0.1 %");
        assert_eq!(percent(u64::MAX, 1), "100 %");
    }

    #[test]
    fn spans_and_instants_are_short_for_people() {
        let spans = [0, 5, 999, 1000, 4200, 30_000, 281_000, 240_000, 3_660_000, 3_553_200_000];
        let spans = spans.map(|ms| format!("{} | {}", span(Millis(ms)), rough_span(Millis(ms))));
        check(
            &spans.join("\n"),
            &expect![[r#"
                0 ms | 0 s
                5 ms | 0 s
                999 ms | 0 s
                1 s | 1 s
                4.2 s | 4 s
                30 s | 30 s
                4 min 41 s | 4 min
                4 min | 4 min
                1 h 1 min | 1 h
                41 d 3 h | 41 d"#]],
        );
        let now = Timestamp(1_773_454_200_004);
        let near = |ms: i64| relative(Timestamp(now.0.saturating_add_signed(ms)), now);
        assert_eq!(near(-569_000), "9 min ago");
        assert_eq!(near(-999), "now");
        assert_eq!(near(0), "now");
        assert_eq!(near(108_900), "in 1 min 48 s");
        assert_eq!(Zone::Utc.date_time(now), "2026-03-14 02:10:00Z");
        assert_eq!(Zone::Utc.time_millis(now), "02:10:00.004");
        assert_eq!(Zone::Utc.time(now), "02:10:00");
        assert_eq!(Zone::Utc.date(now), "2026-03-14");
    }

    #[test]
    fn bytes_and_counts_are_short_for_people() {
        let of = |number| bytes(number);
        let figures = [0, 1023, 1024, 1536, 12_897_485, 104_857_600, 1_048_575, 1 << 30, u64::MAX];
        assert_eq!(
            figures.map(of).join(", "),
            "0 B, 1023 B, 1 KiB, 1.5 KiB, 12.3 MiB, 100 MiB, 1 MiB, 1 GiB, 16 EiB"
        );
        let figures = [0, 999, 1000, 1217, 1_234_567];
        assert_eq!(figures.map(count).join(" "), "0 999 1,000 1,217 1,234,567");
    }

    fn check(actual: &str, expected: &Expect) {
        expected.assert_eq(actual);
    }
}
