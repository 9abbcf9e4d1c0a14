//! Whether a figure keeps growing.
//!
//! Looked at in windows of four hours, and of a day: a figure grows when in each of six windows that
//! follow one another its smallest value was larger than in the one before, it has grown by a fifth
//! and by a certain amount in all, and no single step was most of that. The smallest value of a
//! window passes over bursts; the first window of a process, in which it warms up, is not counted;
//! what follows the load of a day goes down again within six windows; and one step up, as when a
//! larger task came, is no growth that goes on. A leak of half a megabyte an hour is found within
//! a day and a half, one of two megabytes a day within eight days.

use crate::kernel::ids::Millis;
use std::collections::VecDeque;

/// Windows that are compared.
const WINDOWS: usize = 6;

/// Lengths of windows.
const SPANS: [Millis; 2] = [Millis::secs(4 * 3600), Millis::secs(24 * 3600)];

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Memory,
    Threads,
    Files,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Memory, Self::Threads, Self::Files];

    /// The name of the figure in a status.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Threads => "threads",
            Self::Files => "open_files",
        }
    }

    /// Growth up to this much is none.
    const fn least(self) -> u64 {
        match self {
            Self::Memory => 8 << 20,
            Self::Threads => 8,
            Self::Files => 32,
        }
    }
}

/// How far a figure has grown, and in which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Growth {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) within: Millis,
}

/// The history of one figure of one process.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) kind: Kind,
    scales: [Scale; 2],
}

/// The same in windows of one length.
#[derive(Clone, Debug)]
struct Scale {
    span: Millis,
    /// When the window under way began, and its smallest value.
    window: Option<(Millis, u64)>,
    warm: bool,
    /// The smallest values of the windows before, oldest first.
    least: VecDeque<u64>,
}

impl Series {
    pub(super) fn new(kind: Kind) -> Self {
        let scale = |span| Scale { span, window: None, warm: false, least: VecDeque::new() };
        Self { kind, scales: SPANS.map(scale) }
    }

    /// Adds a value of this moment on the monotonic clock.
    pub(super) fn add(&mut self, value: u64, now: Millis) {
        self.scales.iter_mut().for_each(|scale| scale.add(value, now));
    }

    /// How far it has grown, if it keeps growing.
    pub(super) fn growth(&self) -> Option<Growth> {
        self.scales.iter().rev().find_map(|scale| scale.growth(self.kind.least()))
    }
}

impl Scale {
    fn add(&mut self, value: u64, now: Millis) {
        match &mut self.window {
            Some((began, least)) if now < began.plus(self.span) => *least = value.min(*least),
            Some((_, least)) => {
                if self.warm {
                    if self.least.len() == WINDOWS {
                        self.least.pop_front();
                    }
                    self.least.push_back(*least);
                }
                self.warm = true;
                self.window = Some((now, value));
            }
            None => self.window = Some((now, value)),
        }
    }

    fn growth(&self, least: u64) -> Option<Growth> {
        let (from, to) = (*self.least.front()?, *self.least.back()?);
        let pairs = self.least.iter().zip(self.least.iter().skip(1));
        let grown = to.saturating_sub(from);
        let step = grown.saturating_mul(3) / 5;
        let mut steps = pairs.clone().map(|(one, next)| next.saturating_sub(*one));
        let rises = self.least.len() == WINDOWS && steps.all(|by| 0 < by && by <= step);
        let much = least < grown && from < grown.saturating_mul(5);
        let within = self.span.times(pairs.count() as u64);
        (rises && much).then_some(Growth { from, to, within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is found of a figure that is looked at each minute, and when for the first time.
    fn found(kind: Kind, hours: u64, value: impl Fn(u64) -> u64) -> Option<u64> {
        let mut series = Series::new(kind);
        (0..hours * 60).find(|minute| {
            series.add(value(*minute), Millis(minute * 60_000));
            series.growth().is_some()
        })
    }

    /// Up and down by some, the same each time.
    fn noise(minute: u64, by: u64) -> u64 {
        minute.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) % by
    }

    const HOUR: u64 = 60;
    const DAY: u64 = 24 * HOUR;

    // spec: SUP-032
    #[test]
    fn a_leak_is_found_within_two_days_and_a_slow_one_within_eight() {
        let leak = |minute| 10 * MIB + minute * MIB / 2 / HOUR + noise(minute, 3 * MIB);
        let after = found(Kind::Memory, 72, leak).expect("it is found");
        assert!((24 * HOUR..=40 * HOUR).contains(&after), "{after}");
        let slow = |minute| 10 * MIB + minute * 2 * MIB / DAY + noise(minute, 3 * MIB);
        assert_eq!(found(Kind::Memory, 48, slow), None);
        let after = found(Kind::Memory, 24 * 30, slow).expect("it is found");
        assert!(after <= 9 * DAY, "{after}");
        assert!(found(Kind::Files, 48, |minute| 30 + minute / 15).is_some());
        assert!(found(Kind::Threads, 48, |minute| 4 + minute / 100).is_some());
    }

    #[test]
    fn warming_up_a_step_a_daily_wave_and_bursts_are_no_leak() {
        let warm = |minute: u64| 40 * MIB - 30 * MIB / (1 + minute / 2) + noise(minute, MIB);
        assert_eq!(found(Kind::Memory, 24 * 30, warm), None, "warming up");
        let steps = |minute: u64| 10 * MIB + minute / (7 * DAY) * 50 * MIB + noise(minute, MIB);
        assert_eq!(found(Kind::Memory, 24 * 60, steps), None, "a step now and then");
        let wave = |minute: u64| {
            let hour = minute / HOUR % 24;
            10 * MIB + hour.min(24 - hour) * 20 * MIB + noise(minute, MIB)
        };
        assert_eq!(found(Kind::Memory, 24 * 30, wave), None, "the load of a day");
        let bursts = |minute: u64| if minute.is_multiple_of(7) { 900 } else { 30 };
        assert_eq!(found(Kind::Files, 24 * 30, bursts), None, "bursts");
        let still = |minute| 500 * MIB + noise(minute, 100 * MIB);
        assert_eq!(found(Kind::Memory, 24 * 365, still), None, "noise");
        let least = |minute: u64| 400 * MIB + minute * MIB / HOUR;
        assert_eq!(found(Kind::Memory, 60, least), None, "less than a fifth");
    }

    #[test]
    fn what_has_stopped_growing_is_not_told_for_ever_and_gaps_do_no_harm() {
        let mut series = Series::new(Kind::Files);
        for minute in 0..2 * DAY {
            series.add(30 + minute, Millis(minute * 60_000));
        }
        assert!(series.growth().is_some());
        for minute in 2 * DAY..2 * DAY + 9 * HOUR {
            series.add(700, Millis(minute * 60_000));
        }
        assert_eq!(series.growth(), None);
        for minute in [4 * DAY, 9 * DAY, 9 * DAY + 1] {
            series.add(700, Millis(minute * 60_000));
        }
        assert_eq!(series.growth(), None);
    }
}
