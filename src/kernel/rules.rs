//! What the config has to say to the decisions: spans, limits, retry policies.
//!
//! Rules are read when a decision is taken and their results are stored in its events, so a
//! changed config changes the future only; replay never looks here.

use super::ids::{Millis, Timestamp};
use super::task_type::Bounds;
use super::text::Text;
use std::collections::BTreeMap;

/// 2026-11-01, shortly before this version was made; each release moves it on.
pub const PLAUSIBLE_SINCE: Timestamp = Timestamp(1_793_491_200_000);

/// All rules in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How often workers heartbeat.
    pub heartbeat: Millis,
    /// Silence after which a worker is suspect.
    pub suspect_after: Millis,
    /// Silence after which a worker is offline and its tasks are LOST.
    pub offline_after: Millis,
    /// How far each heartbeat renews the lease of a task without a timeout.
    pub rolling_lease: Millis,
    /// Losses a task may have.
    pub max_lost: u32,
    /// How long ended tasks stay.
    pub retention: Retention,
    /// Bytes that all tasks together may take; a submission beyond it is refused.
    pub max_state: u64,
    /// A due task that has waited longer is promoted: at most every fourth dispatch takes the oldest
    /// of these, whatever its priority.
    pub promote_after: Millis,
    /// Slots that are kept free for urgent tasks.
    pub reserve: Vec<Reserve>,
    /// A wall clock that shows less than this was never set.
    pub plausible_since: Timestamp,
    /// What holds for a type that has no rules of its own.
    pub fallback: KindRules,
    /// What holds for each type.
    pub kinds: BTreeMap<Text, KindRules>,
}

/// How long ended tasks stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long after its end a task goes.
    pub finished: Millis,
    /// How many ended tasks stay; those that ended first go first.
    pub max_finished: usize,
    /// How long after its end a task with an idempotency key stays at least, whatever the others
    /// say.
    pub keys: Millis,
    /// Whether ended tasks are written to the archive before they go.
    pub archive: bool,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            finished: Millis::secs(7 * 24 * 3600),
            max_finished: 100_000,
            keys: Millis::secs(24 * 3600),
            archive: false,
        }
    }
}

/// Slots kept free for urgent tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Tasks of this priority, or a smaller one, may take them.
    pub priority_max: i32,
    /// How many there are, over all workers.
    pub slots: u32,
}

/// The rules of one task type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindRules {
    /// How long to wait before a retry.
    pub retry: RetryPolicy,
    /// Failed attempts that a task of it may be retried after, where nobody says otherwise.
    pub max_retry: u32,
    /// Longest run of one attempt, where nobody says otherwise.
    pub timeout: Option<Millis>,
    /// From a stop on the control channel to SIGTERM.
    pub cancel_grace: Millis,
    /// From SIGTERM to SIGKILL.
    pub kill_grace: Millis,
    /// How much of it may be dispatched, unless people set another bound at run time.
    pub bounds: Bounds,
    /// An attempt whose progress has not changed for so long is stalled; zero for never.
    pub stall_after: Millis,
    /// What to do when it fails, as alerts tell it.
    pub advice: Option<Text>,
    /// Whom to ask then.
    pub contact: Option<Text>,
}

/// How long to wait before a retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// `min(cap, base × 2^n) + random(0..base)` before retry number n.
    Exponential {
        /// The unit of the wait and the span of its random part.
        base: Millis,
        /// The longest wait, random part excluded.
        cap: Millis,
    },
    /// The waits themselves; the last one repeats.
    Intervals(Vec<Millis>),
}

impl RetryPolicy {
    /// The wait before retry number `retry` (from 1). Never overflows.
    pub fn wait(&self, retry: u32, dice: u64) -> Millis {
        match self {
            Self::Exponential { base, cap } => {
                let factor = 1_u64.checked_shl(retry).unwrap_or(u64::MAX);
                let jitter = dice.checked_rem(base.0).unwrap_or(0);
                base.times(factor).min(*cap).plus(Millis(jitter))
            }
            Self::Intervals(waits) => {
                let place = usize::try_from(retry.saturating_sub(1)).unwrap_or(usize::MAX);
                waits.get(place).or_else(|| waits.last()).copied().unwrap_or_default()
            }
        }
    }
}

impl Default for KindRules {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::Exponential { base: Millis::secs(30), cap: Millis::secs(3600) },
            max_retry: 5,
            timeout: None,
            cancel_grace: Millis::secs(30),
            kill_grace: Millis::secs(10),
            bounds: Bounds::default(),
            stall_after: Millis::secs(600),
            advice: None,
            contact: None,
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            heartbeat: Millis::secs(30),
            suspect_after: Millis::secs(90),
            offline_after: Millis::secs(300),
            rolling_lease: Millis::secs(600),
            max_lost: 10,
            retention: Retention::default(),
            max_state: 256 << 20,
            promote_after: Millis::secs(900),
            reserve: Vec::new(),
            plausible_since: PLAUSIBLE_SINCE,
            fallback: KindRules::default(),
            kinds: BTreeMap::new(),
        }
    }
}

impl Rules {
    /// The rules of a type.
    pub fn of(&self, kind: &str) -> &KindRules {
        self.kinds.get(kind).unwrap_or(&self.fallback)
    }

    /// How long a lease holds that was neither started nor listed in a heartbeat.
    pub const fn start_hold(&self) -> Millis {
        self.heartbeat.times(2)
    }

    /// How long a lease holds from the recorded start, or from its renewal when it has no timeout.
    pub fn run_hold(&self, kind: &str, timeout: Option<Millis>) -> Millis {
        let Some(timeout) = timeout else { return self.rolling_lease };
        let rules = self.of(kind);
        let graces = rules.cancel_grace.plus(rules.kill_grace);
        timeout.times(2).max(timeout.plus(graces).plus(self.heartbeat.times(2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_waits_are_those_of_the_manual() {
        let policy = KindRules::default().retry;
        let bounds = |retry| (policy.wait(retry, 0).0 / 1000, policy.wait(retry, 29_999).0 / 1000);
        assert_eq!(bounds(1), (60, 89));
        assert_eq!(bounds(2), (120, 149));
        assert_eq!(bounds(3), (240, 269));
    }

    #[test]
    fn no_retry_number_overflows_the_wait() {
        let policy = KindRules::default().retry;
        for retry in [7, 31, 63, 64, 65, u32::MAX] {
            assert_eq!(policy.wait(retry, 0), Millis::secs(3600));
        }
        let huge = RetryPolicy::Exponential { base: Millis(u64::MAX), cap: Millis(u64::MAX) };
        assert_eq!(huge.wait(u32::MAX, u64::MAX), Millis(u64::MAX));
        let none = RetryPolicy::Exponential { base: Millis(0), cap: Millis(0) };
        assert_eq!(none.wait(3, 12345), Millis(0));
    }

    #[test]
    fn the_last_of_the_listed_intervals_repeats() {
        let policy = RetryPolicy::Intervals(vec![Millis(30), Millis(60)]);
        let waits: Vec<_> = (1..5).map(|retry| policy.wait(retry, 99).0).collect();
        assert_eq!(waits, [30, 60, 60, 60]);
        assert_eq!(RetryPolicy::Intervals(Vec::new()).wait(1, 0), Millis(0));
    }
}
