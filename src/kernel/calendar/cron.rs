//! Cron expressions over local times that know no change of clocks.
//!
//! Every word is checked here, so that an error names the field and what is wrong, and so that what
//! the parser would take with a shrug (stray commas, names in the wrong field) never reaches it.
//! The search goes by days and is bounded by the caller.

use super::CalendarError;
use crate::limits::CRON_BYTES_MAX;
use chrono::{Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, Timelike as _};
use croner::parser::{CronParser, Seconds, Year};
use croner::{CronComponent, CronPattern, Weekday};

/// An expression that was read.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    /// Bit n is set where second n matches; so the next four.
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    days: CronPattern,
    elapsed: bool,
}

/// What may stand at one place of an expression.
struct Field {
    name: &'static str,
    min: u16,
    max: u16,
    /// Words for the numbers from `min` on.
    words: &'static [&'static str],
}

const SECOND: Field = Field { name: "second", min: 0, max: 59, words: &[] };
const MINUTE: Field = Field { name: "minute", min: 0, max: 59, words: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, words: &[] };
const DAY: Field = Field { name: "day of month", min: 1, max: 31, words: &[] };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    words: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// Sunday is 0 and 7.
const WEEKDAY: Field = Field {
    name: "day of week",
    min: 0,
    max: 7,
    words: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

impl Cron {
    /// Reads an expression: five fields, six with seconds first, or a name such as `@daily`.
    pub(super) fn parse(text: &str) -> Result<Self, CalendarError> {
        if CRON_BYTES_MAX < text.len() {
            let why = format!("it is longer than {CRON_BYTES_MAX} bytes");
            return Err(CalendarError::cron(why));
        }
        let text = named(text.trim_ascii())?;
        let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
        if words.len() == 5 {
            words.insert(0, "0");
        }
        let [second, minute, hour, day, month, weekday] = *words else {
            return Err(CalendarError::cron(match words.len() {
                0 => "it is empty; write five fields, such as `30 2 * * *`".to_owned(),
                found => format!(
                    "it has {found} fields; write five (minute, hour, day of month, month, day of \
                     week), or six with seconds first"
                ),
            }));
        };
        let (both, weekday) = weekday.strip_prefix('+').map_or((false, weekday), |it| (true, it));
        // As cron has it: days of month and of week are alternatives, unless one begins with `*`.
        let both = both || is_star(day) || is_star(weekday);
        let normal = format!(
            "{} {} {} {} {} {}{}",
            SECOND.normal(second)?,
            MINUTE.normal(minute)?,
            HOUR.normal(hour)?,
            DAY.normal(day)?,
            MONTH.normal(month)?,
            if both { "+" } else { "" },
            WEEKDAY.normal(weekday)?,
        );
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed);
        let parsed = parser.build().parse(&normal);
        let days = parsed.map_err(|error| CalendarError::cron(error.to_string()))?.pattern;
        let hours = mask(&days.hours);
        Ok(Self {
            seconds: mask(&days.seconds),
            minutes: mask(&days.minutes),
            hours,
            months: mask(&days.months),
            elapsed: is_star(hour) || hours.count_ones() == 24,
            days,
        })
    }

    /// Whether its hours are a wildcard, so that it follows elapsed time.
    pub(super) const fn is_elapsed(&self) -> bool {
        self.elapsed
    }

    /// The first match at `from` or later; none where there is none up to the end of `last_year`.
    pub(super) fn first_from(&self, from: NaiveDateTime, last_year: i32) -> Option<NaiveDateTime> {
        let mut date = from.date();
        if last_year < date.year() {
            return None;
        }
        if self.matches(date)
            && let Some(time) = self.time_from(from.time())
        {
            return Some(date.and_time(time));
        }
        let time = self.time_from(NaiveTime::MIN)?;
        loop {
            date = date.succ_opt()?;
            while !has(self.months, date.month()) && date.year() <= last_year {
                date = date.with_day(1)?.checked_add_months(chrono::Months::new(1))?;
            }
            if last_year < date.year() {
                return None;
            }
            if self.matches(date) {
                return Some(date.and_time(time));
            }
        }
    }

    fn matches(&self, date: NaiveDate) -> bool {
        let weekday = date.weekday().num_days_from_sunday();
        let weekday = Weekday::from_days_from_sunday(weekday);
        let day = || self.days.day_match(date.year(), date.month(), date.day(), weekday);
        has(self.months, date.month()) && day().unwrap_or(false)
    }

    /// The first time of day that matches, at `from` or later.
    fn time_from(&self, from: NaiveTime) -> Option<NaiveTime> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        let later = |at: u32| at.saturating_add(1);
        let (first_minute, first_second) = (first(self.minutes, 0)?, first(self.seconds, 0)?);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = first(self.seconds, second)
            {
                return NaiveTime::from_hms_opt(hour, minute, second);
            }
            if let Some(minute) = first(self.minutes, later(minute)) {
                return NaiveTime::from_hms_opt(hour, minute, first_second);
            }
        }
        NaiveTime::from_hms_opt(first(self.hours, later(hour))?, first_minute, first_second)
    }
}

fn is_star(field: &str) -> bool {
    field.starts_with(['*', '?'])
}

fn mask(component: &CronComponent) -> u64 {
    component.values().into_iter().fold(0, |mask, value| mask | bit(value.into()))
}

fn bit(place: u32) -> u64 {
    1_u64.checked_shl(place).unwrap_or(0)
}

fn has(mask: u64, place: u32) -> bool {
    mask & bit(place) != 0
}

/// The first bit that is set, from `place` on.
fn first(mask: u64, place: u32) -> Option<u32> {
    let rest = mask.checked_shr(place).filter(|rest| *rest != 0)?;
    Some(place.saturating_add(rest.trailing_zeros()))
}

/// The fields that a name stands for.
fn named(text: &str) -> Result<&str, CalendarError> {
    if !text.starts_with('@') {
        return Ok(text);
    }
    Ok(match text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        "@reboot" => {
            let why = "`@reboot` is no time of a calendar: it fires at each start of the host";
            return Err(CalendarError::cron(why));
        }
        _ => {
            let why = format!(
                "there is no `{}`; there are @hourly, @daily, @midnight, @weekly, @monthly, \
                 @yearly and @annually",
                text.escape_debug()
            );
            return Err(CalendarError::cron(why));
        }
    })
}

impl Field {
    /// The field with numbers for words, as the parser takes it.
    fn normal(&self, text: &str) -> Result<String, CalendarError> {
        let is_day = self.is_day_of_month() || self.is_weekday();
        if text == "*" || (is_day && text == "?") {
            return Ok("*".to_owned());
        }
        let items: Result<Vec<_>, _> = text.split(',').map(|item| self.item(item, text)).collect();
        let items = items.map_err(|why| CalendarError::cron(format!("{}: {why}", self.name)))?;
        let has = |wanted: &str| items.iter().any(|item| item == wanted);
        if has("L") && has("LW") {
            let why =
                format!("{}: the last day and the last weekday exclude each other", self.name);
            return Err(CalendarError::cron(why));
        }
        Ok(items.join(","))
    }

    const fn is_day_of_month(&self) -> bool {
        self.max == DAY.max
    }

    const fn is_weekday(&self) -> bool {
        self.max == WEEKDAY.max
    }

    fn item(&self, item: &str, text: &str) -> Result<String, String> {
        if item.is_empty() {
            return Err(format!("nothing stands beside a comma in `{}`", text.escape_debug()));
        }
        let item = item.to_ascii_uppercase();
        if self.is_day_of_month()
            && let Some(special) = self.special_day(&item)
        {
            return special;
        }
        if self.is_weekday()
            && let Some(special) = self.special_weekday(&item)
        {
            return special;
        }
        let Some((range, step)) = item.split_once('/') else {
            return match item.split_once('-') {
                Some((from, to)) => self.range(from, to),
                None if item == "*" => Err("`*` stands alone, not in a list".to_owned()),
                None => self.number(&item).map(|number| number.to_string()),
            };
        };
        let range = match range.split_once('-') {
            Some((from, to)) => self.range(from, to)?,
            None if range == "*" => "*".to_owned(),
            None => {
                let (max, range) = (self.max, range.escape_debug());
                return Err(format!(
                    "a step needs a range before it: `*/{0}` or `{range}-{max}/{0}`",
                    step.escape_debug()
                ));
            }
        };
        let (step, max) = (plain(step)?, self.max);
        if step == 0 || u32::from(max) < step {
            return Err(format!("a step of {step} is not within 1-{max}"));
        }
        Ok(format!("{range}/{step}"))
    }

    fn range(&self, from: &str, to: &str) -> Result<String, String> {
        let first = self.number(from)?;
        let mut last = self.number(to)?;
        if self.is_weekday() && last == 0 && first != 0 {
            last = 7; // FRI-SUN
        }
        if last < first {
            return Err(format!("the range {from}-{to} ends before it begins"));
        }
        Ok(format!("{first}-{last}"))
    }

    /// `L`, `LW`, `15W`; none for what is none of them.
    fn special_day(&self, item: &str) -> Option<Result<String, String>> {
        if item == "L" || item == "LW" {
            return Some(Ok(item.to_owned()));
        }
        let day = self.number(item.strip_suffix('W')?);
        Some(day.map(|day| format!("{day}W")))
    }

    /// `FRI#2`, `FRI#L`, `FRIL`, `5L`; none for what is none of them.
    fn special_weekday(&self, item: &str) -> Option<Result<String, String>> {
        let (day, nth) = item.split_once('#').or_else(|| Some((item.strip_suffix('L')?, "L")))?;
        if day.is_empty() {
            return Some(Err("`L` needs a day before it, such as `FRIL`".to_owned()));
        }
        if nth != "L" && !matches!(nth, "1" | "2" | "3" | "4" | "5") {
            let nth = nth.escape_debug();
            return Some(Err(format!("after `#` stands 1-5 or L, not `{nth}`")));
        }
        Some(self.number(day).map(|day| format!("{day}#{nth}")))
    }

    /// A number, or a word for one.
    fn number(&self, text: &str) -> Result<u16, String> {
        let (min, max) = (self.min, self.max);
        let words = self.words.iter().zip(min..);
        if let Some((_, value)) = words.clone().find(|(word, _)| **word == text) {
            return Ok(value);
        }
        let number = plain(text).map_err(|why| {
            if self.words.is_empty() {
                why
            } else {
                format!("{why}, nor a name such as FRI or JAN")
            }
        })?;
        let within = u16::try_from(number).ok().filter(|number| (min..=max).contains(number));
        within.ok_or_else(|| format!("{text} is not within {min}-{max}"))
    }
}

/// A number of ASCII digits; one too large for any field is the largest there is.
fn plain(text: &str) -> Result<u32, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{}` is not a number", text.escape_debug()));
    }
    Ok(text.parse().unwrap_or(u32::MAX))
}
