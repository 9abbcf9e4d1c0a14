//! Another reader of cron expressions and another way to planned times: all local times one by one,
//! as an offset alone makes them. Where one is missing there is a gap, where one comes again there
//! is a fold.

use crate::kernel::schedule::{Fold, Gap};
use chrono::{
    DateTime, Datelike as _, NaiveDate, NaiveDateTime, Offset as _, TimeZone as _, Timelike as _,
};
use chrono_tz::Tz;
use std::collections::{BTreeMap, BTreeSet};

/// A cron expression, as tables of what matches.
pub(super) struct Matcher {
    second: Vec<bool>,
    minute: Vec<bool>,
    hour: Vec<bool>,
    month: Vec<bool>,
    day: String,
    weekday: String,
    both: bool,
    pub(super) elapsed: bool,
}

fn in_words(text: &str) -> String {
    let mut text = text.to_uppercase();
    let days = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    let months =
        ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    text = text.replace("-SUN", "-7");
    for (number, word) in days.iter().enumerate() {
        text = text.replace(word, &number.to_string());
    }
    for (number, word) in months.iter().enumerate() {
        text = text.replace(word, &(number + 1).to_string());
    }
    text
}

/// Whether a plain item of a list has `value` in it.
fn item_has(item: &str, value: u32, min: u32, max: u32) -> bool {
    let (range, step) = item.split_once('/').unwrap_or((item, "1"));
    let (low, high) = match range.split_once('-') {
        Some((low, high)) => (low.parse().unwrap(), high.parse().unwrap()),
        None if range == "*" || range == "?" => (min, max),
        None => (range.parse().unwrap(), range.parse().unwrap()),
    };
    let step: u32 = step.parse().unwrap();
    (low..=high).contains(&value) && (value - low).is_multiple_of(step)
}

fn table(text: &str, min: u32, max: u32) -> Vec<bool> {
    (0..=max).map(|value| text.split(',').any(|item| item_has(item, value, min, max))).collect()
}

fn days_in_month(date: NaiveDate) -> u32 {
    (28..=31).rev().find(|day| date.with_day(*day).is_some()).unwrap()
}

fn is_work_day(date: NaiveDate) -> bool {
    date.weekday().num_days_from_monday() < 5
}

impl Matcher {
    pub(super) fn new(cron: &str) -> Self {
        let words: Vec<&str> = cron.split_whitespace().collect();
        let fields: Vec<String> = if words.len() == 6 {
            words.iter().map(|word| in_words(word)).collect()
        } else {
            std::iter::once("0").chain(words).map(in_words).collect()
        };
        let hour = table(&fields[2], 0, 23);
        let star = |field: &str| field.starts_with(['*', '?']);
        let weekday = fields[5].trim_start_matches('+');
        Self {
            second: table(&fields[0], 0, 59),
            minute: table(&fields[1], 0, 59),
            elapsed: star(&fields[2]) || hour.iter().all(|it| *it),
            hour,
            month: table(&fields[4], 1, 12),
            day: fields[3].clone(),
            both: fields[5].starts_with('+') || star(&fields[3]) || star(weekday),
            weekday: weekday.to_owned(),
        }
    }

    fn has_day_of_month(&self, date: NaiveDate) -> bool {
        let day = date.day();
        let last = days_in_month(date);
        self.day.split(',').any(|item| match item {
            "L" => day == last,
            "LW" => {
                let days = (1..=last).rev().map(|day| date.with_day(day).unwrap());
                days.into_iter().find(|day| is_work_day(*day)) == Some(date)
            }
            _ => item.strip_suffix('W').map_or_else(
                || item_has(item, day, 1, 31),
                |near| {
                    let near: i64 = near.parse().unwrap();
                    let days = [0, -1, 1, -2, 2].map(|by| u32::try_from(near + by).unwrap_or(99));
                    let dates = days.into_iter().filter_map(|day| date.with_day(day));
                    near <= i64::from(last)
                        && dates.into_iter().find(|day| is_work_day(*day)) == Some(date)
                },
            ),
        })
    }

    fn has_day_of_week(&self, date: NaiveDate) -> bool {
        let weekday = date.weekday().num_days_from_sunday();
        let is = |text: &str| text.parse::<u32>().unwrap() % 7 == weekday;
        let last = days_in_month(date) < date.day() + 7;
        self.weekday.split(',').any(|item| {
            if let Some((day, nth)) = item.split_once('#') {
                return is(day)
                    && if nth == "L" { last } else { nth.parse() == Ok(date.day().div_ceil(7)) };
            }
            if let Some(day) = item.strip_suffix('L') {
                return is(day) && last;
            }
            item_has(item, weekday, 0, 7) || (weekday == 0 && item_has(item, 7, 0, 7))
        })
    }

    pub(super) fn has_day(&self, date: NaiveDate) -> bool {
        let day = self.has_day_of_month(date);
        let weekday = self.has_day_of_week(date);
        self.month[date.month() as usize] && if self.both { day && weekday } else { day || weekday }
    }

    pub(super) fn matches(&self, local: NaiveDateTime) -> bool {
        self.minute[local.minute() as usize]
            && self.second[local.second() as usize]
            && self.hour[local.hour() as usize]
            && self.has_day(local.date())
    }
}

/// A walk along a stretch of time in a zone: each instant with its local time, in seconds.
pub(super) struct Walk {
    steps: Vec<(i64, i64)>,
    /// What the local clock never showed, each with the first instant after it.
    missing: Vec<(i64, i64)>,
    /// What it showed twice.
    twice: BTreeSet<i64>,
}

fn naive(local: i64) -> NaiveDateTime {
    DateTime::from_timestamp(local, 0).unwrap().naive_utc()
}

impl Walk {
    /// From `from` up to and without `to`, by `step` seconds.
    pub(super) fn new(zone: Tz, from: i64, to: i64, step: i64) -> Self {
        let steps: Vec<_> = (from..to)
            .step_by(step.try_into().unwrap())
            .map(|at| {
                let offset = zone.offset_from_utc_datetime(&naive(at)).fix();
                (at, at + i64::from(offset.local_minus_utc()))
            })
            .collect();
        let mut missing = Vec::new();
        let mut twice = BTreeSet::new();
        for pair in steps.windows(2) {
            let ((_, before), (at, after)) = (pair[0], pair[1]);
            missing.extend(
                (before + step..after).step_by(step.try_into().unwrap()).map(|local| (local, at)),
            );
            twice.extend((after..=before).step_by(step.try_into().unwrap()));
        }
        Self { steps, missing, twice }
    }

    /// The instants at which the local clock jumped.
    pub(super) fn jumps(&self, step: i64) -> Vec<i64> {
        let pairs = self.steps.windows(2).filter(|pair| pair[1].1 - pair[0].1 != step);
        pairs.map(|pair| pair[1].0).collect()
    }

    /// What is planned, in seconds.
    pub(super) fn planned(&self, cron: &Matcher, gap: Option<Gap>, fold: Option<Fold>) -> Vec<i64> {
        let gap = gap.unwrap_or(if cron.elapsed { Gap::Skip } else { Gap::Shift });
        let fold = fold.unwrap_or(if cron.elapsed { Fold::Both } else { Fold::First });
        let mut planned = BTreeSet::new();
        if gap == Gap::Shift {
            let missed = self.missing.iter().filter(|(local, _)| cron.matches(naive(*local)));
            planned.extend(missed.map(|(_, after)| *after));
        }
        let mut seen: BTreeMap<i64, u32> = BTreeMap::new();
        for (at, local) in &self.steps {
            if !cron.matches(naive(*local)) {
                continue;
            }
            let nth = seen.entry(*local).or_default();
            *nth += 1;
            let wanted = match fold {
                _ if !self.twice.contains(local) => true,
                Fold::First => *nth == 1,
                Fold::Second => *nth == 2,
                Fold::Both => true,
            };
            if wanted {
                planned.insert(*at);
            }
        }
        planned.into_iter().collect()
    }
}
