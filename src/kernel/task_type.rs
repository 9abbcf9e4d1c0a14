//! What is known of a whole task type: whether people paused it, which bounds they set, and the
//! dispatches that its rate still counts.
//!
//! A rate is counted exactly: a type may be dispatched while fewer than `count` of its dispatches
//! lie within the span before. Each dispatch records the rate it counts against, so a replay knows
//! which ones to remember and asks no config. The count runs on the life clock, and so goes on over
//! a restart; after a reboot it takes up where it was.

use super::event::Actor;
use super::ids::{LifeTime, Millis, Timestamp};
use super::text::Text;
use crate::limits::RATE_COUNT_MAX;
use minicbor::{Decode, Encode};
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

/// The span that a rate counts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Per {
    /// A second.
    #[n(0)]
    Second,
    /// A minute.
    #[n(1)]
    Minute,
    /// An hour.
    #[n(2)]
    Hour,
}

impl Per {
    /// Every span.
    pub const ALL: &'static [Self] = &[Self::Second, Self::Minute, Self::Hour];

    /// The letter that people and programs see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "m",
            Self::Hour => "h",
        }
    }

    /// How long it is.
    pub const fn span(self) -> Millis {
        match self {
            Self::Second => Millis::secs(1),
            Self::Minute => Millis::secs(60),
            Self::Hour => Millis::secs(3600),
        }
    }
}

/// At most so many dispatches within any span of that length. Written `10/m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Rate {
    /// Dispatches; zero where no rate is meant to hold.
    #[n(0)]
    pub count: u32,
    /// The span.
    #[n(1)]
    pub per: Per,
}

impl Rate {
    /// The rate that stands for none, in the place of the config's.
    pub const NONE: Self = Self { count: 0, per: Per::Second };

    /// How many dispatches, as a length.
    fn dispatches(self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.per.word())
    }
}

impl FromStr for Rate {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("a rate is a number from 1 to {RATE_COUNT_MAX} and /s, /m or /h, such as 10/m")
        };
        let (count, per) = text.split_once('/').ok_or_else(wrong)?;
        let per = Per::ALL.iter().copied().find(|known| known.word() == per).ok_or_else(wrong)?;
        let plain = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        let rate = Self { count: count.parse().map_err(|_number| wrong())?, per };
        let fits = plain && 0 < rate.count && rate.dispatches() <= RATE_COUNT_MAX;
        if fits { Ok(rate) } else { Err(wrong()) }
    }
}

/// How much of a type may be dispatched: none where there is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Tasks that hold a lease at once.
    pub max_running: Option<u32>,
    /// Dispatches in a span.
    pub rate: Option<Rate>,
}

/// What a person ordered for a type: who, when, and why.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Order {
    /// Who.
    #[n(0)]
    pub by: Actor,
    /// When.
    #[n(1)]
    pub at: Timestamp,
    /// Why, where it was said.
    #[n(2)]
    pub reason: Option<Text>,
}

/// A task type, as far as anything is known of it beyond the config and its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TaskType {
    /// Its name.
    #[n(0)]
    pub kind: Text,
    /// That nothing of it is dispatched.
    #[n(1)]
    pub paused: Option<Order>,
    /// Tasks that hold a lease at once, in the place of the config's bound; zero for no bound.
    #[n(2)]
    pub max_running: Option<u32>,
    /// Its rate, in the place of the config's; a count of zero for none.
    #[n(3)]
    pub rate: Option<Rate>,
    /// Who set the bounds.
    #[n(4)]
    pub limited: Option<Order>,
    /// When it was dispatched, oldest first, as far as its rate still counts it.
    #[n(5)]
    pub dispatched: VecDeque<LifeTime>,
}

impl TaskType {
    /// A type of which nothing is known but its name.
    pub(super) const fn new(kind: Text) -> Self {
        Self {
            kind,
            paused: None,
            max_running: None,
            rate: None,
            limited: None,
            dispatched: VecDeque::new(),
        }
    }

    /// Whether nothing is known of it: then it need not be kept.
    pub(super) fn is_plain(&self) -> bool {
        let Self { kind: _, paused, max_running, rate, limited, dispatched } = self;
        paused.is_none()
            && max_running.is_none()
            && rate.is_none()
            && limited.is_none()
            && dispatched.is_empty()
    }

    /// The bounds in force where the config sets those.
    pub fn bounds(&self, config: Bounds) -> Bounds {
        let set = |limit: u32| (limit != 0).then_some(limit);
        let rated = |rate: Rate| (rate.count != 0).then_some(rate);
        Bounds {
            max_running: self.max_running.map_or(config.max_running, set),
            rate: self.rate.map_or(config.rate, rated),
        }
    }

    /// Counts a dispatch against `rate`, and forgets those that it no longer counts. Without a rate
    /// nothing is to be counted.
    pub(super) fn count(&mut self, rate: Option<Rate>, now: LifeTime) {
        let Some(rate) = rate else {
            self.dispatched.clear();
            return;
        };
        let span = rate.per.span();
        while self.dispatched.front().is_some_and(|at| at.after(span) <= now) {
            self.dispatched.pop_front();
        }
        let last = self.dispatched.back().copied().unwrap_or_default();
        self.dispatched.push_back(last.max(now));
    }

    /// Dispatches within the span of `rate` before `now`.
    pub fn recent(&self, rate: Rate, now: LifeTime) -> usize {
        let span = rate.per.span();
        let old = self.dispatched.partition_point(|at| at.after(span) <= now);
        self.dispatched.len().saturating_sub(old)
    }

    /// How many more dispatches `rate` allows at `now`.
    pub(super) fn room(&self, rate: Rate, now: LifeTime) -> usize {
        rate.dispatches().saturating_sub(self.recent(rate, now))
    }

    /// From when on `rate` allows another dispatch; none while it never held one up.
    pub fn frees_at(&self, rate: Rate) -> Option<LifeTime> {
        let place = self.dispatched.len().checked_sub(rate.dispatches())?;
        Some(self.dispatched.get(place)?.after(rate.per.span()))
    }

    /// Whether it can be as it is; the first thing that can't, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.dispatched.iter().is_sorted() {
            return Err(format!("the dispatches of type {} are out of order", self.kind));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_as_it_is_written() {
        for text in ["1/s", "10/m", "10000/h"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        for text in ["", "10", "0/m", "10001/h", "-1/m", "+1/m", "10/d", "10/ m", "1.5/s", "/s"] {
            assert!(text.parse::<Rate>().unwrap_err().contains("such as 10/m"), "{text}");
        }
    }

    #[test]
    fn no_span_of_a_rate_ever_holds_more_than_its_count() {
        let rate = Rate { count: 3, per: Per::Second };
        let mut one = TaskType::new("job".into());
        let mut given = Vec::new();
        for now in (0..5_000).step_by(70).map(LifeTime) {
            let free = one.frees_at(rate).is_none_or(|at| at <= now);
            assert_eq!(free, 0 < one.room(rate, now), "at {now}");
            // All at once where it can be, so that a burst meets the edge of each span.
            for _ in 0..one.room(rate, now) {
                one.count(Some(rate), now);
                given.push(now.0);
            }
            one.check().unwrap();
            assert!(one.dispatched.len() <= 3);
        }
        assert!(12 < given.len());
        for first in &given {
            let within = given
                .iter()
                .filter(|at| (*first..first.saturating_add(1_000)).contains(at))
                .count();
            assert!(within <= 3, "{within} within a second of {first}");
        }
        one.count(None, LifeTime(9_000));
        assert!(one.is_plain());
    }
}
