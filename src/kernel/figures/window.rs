//! The latest stretches of time, each with what was counted in it: a deque of them, oldest first,
//! those left out in which nothing happened.

use crate::kernel::ids::{LifeTime, Millis};
use std::collections::VecDeque;

/// What is counted in one stretch of time.
pub trait Stretch {
    /// The number of the stretch since the life clock began.
    fn number(&self) -> u64;
    /// A stretch in which nothing happened yet.
    fn begin(number: u64) -> Self;
}

/// The number of the stretch that an instant lies in.
pub fn number(at: LifeTime, length: Millis) -> u64 {
    at.0.checked_div(length.0).unwrap_or(0)
}

/// Counts in the stretch that `at` lies in. Those that are `kept` or more before it are dropped.
pub(super) fn tell<T: Stretch>(
    stretches: &mut VecDeque<T>,
    (at, length, kept): (LifeTime, Millis, usize),
    count: impl FnOnce(&mut T),
) {
    // The life clock never goes back, but what does not depend on that is sure.
    let last = stretches.back().map_or(0, Stretch::number);
    let number = number(at, length).max(last);
    let kept = u64::try_from(kept).unwrap_or(u64::MAX);
    while stretches.front().is_some_and(|old| old.number().saturating_add(kept) <= number) {
        stretches.pop_front();
    }
    if stretches.back().is_none_or(|last| last.number() != number) {
        stretches.push_back(T::begin(number));
    }
    if let Some(stretch) = stretches.back_mut() {
        count(stretch);
    }
}

/// The stretches from that number on, oldest first.
pub fn from<T: Stretch>(stretches: &VecDeque<T>, first: u64) -> impl Iterator<Item = &T> {
    stretches.iter().skip_while(move |stretch| stretch.number() < first)
}
