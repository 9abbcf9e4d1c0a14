//! How often a time was how long.

use crate::kernel::ids::Millis;
use minicbor::{Decode, Encode};

/// The upper bounds of the buckets, in milliseconds: 1, 2 and 5 times powers of ten, from a
/// millisecond to 14 hours. What is longer falls into one more bucket without a bound.
pub const BOUNDS: &[u64] = &[
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000,
];

/// A histogram of times. Costs 48 bytes, and 8 for each bucket up to the longest time seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Histogram {
    /// How many times fell into each bucket, the last ones left out where nothing did.
    #[n(0)]
    pub buckets: Vec<u64>,
    /// Their sum, in milliseconds.
    #[n(1)]
    pub sum: u64,
    /// The longest.
    #[n(2)]
    pub max: Millis,
}

impl Histogram {
    /// Counts one time.
    pub fn count(&mut self, time: Millis) {
        let place = BOUNDS.iter().position(|bound| time.0 <= *bound).unwrap_or(BOUNDS.len());
        if self.buckets.len() <= place {
            self.buckets.resize(place.saturating_add(1), 0);
        }
        if let Some(bucket) = self.buckets.get_mut(place) {
            *bucket = bucket.saturating_add(1);
        }
        self.sum = self.sum.saturating_add(time.0);
        self.max = self.max.max(time);
    }

    /// Adds all that another one counted.
    pub fn add(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket = bucket.saturating_add(*more);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// How many times were counted.
    pub fn total(&self) -> u64 {
        self.buckets.iter().fold(0, |total, bucket| total.saturating_add(*bucket))
    }

    /// The mean; none when nothing was counted.
    pub fn mean(&self) -> Option<Millis> {
        self.sum.checked_div(self.total()).map(Millis)
    }

    /// The time that so many in a thousand do not exceed, as far as the buckets tell: within one,
    /// times are taken to lie evenly. None when nothing was counted.
    pub fn percentile(&self, per_mille: u64) -> Option<Millis> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = total.saturating_mul(per_mille).div_ceil(1000).max(1);
        let mut before = 0_u64;
        let mut low = 0_u64;
        for (place, bucket) in self.buckets.iter().enumerate() {
            let high = BOUNDS.get(place).copied().unwrap_or(self.max.0).min(self.max.0);
            let within = rank.saturating_sub(before);
            if within <= *bucket {
                let wide = u128::from(high.saturating_sub(low));
                let part = wide.saturating_mul(u128::from(within));
                let part = part.checked_div(u128::from(*bucket)).unwrap_or(0);
                return Some(Millis(low.saturating_add(u64::try_from(part).unwrap_or(u64::MAX))));
            }
            before = before.saturating_add(*bucket);
            low = high;
        }
        Some(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        for time in times {
            histogram.count(Millis(*time));
        }
        histogram
    }

    #[test]
    fn nothing_has_no_percentile_and_no_mean() {
        assert_eq!((of(&[]).percentile(950), of(&[]).mean()), (None, None));
    }

    #[test]
    fn a_percentile_lies_in_the_bucket_of_the_time_it_stands_for_and_never_above_the_longest() {
        let mut seed = 1_u64;
        for _ in 0..200 {
            let mut times: Vec<u64> = (0..100)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    (seed >> 33) % 10_u64.pow(u32::try_from(seed >> 60).unwrap() % 9)
                })
                .collect();
            let histogram = of(&times);
            times.sort_unstable();
            for per_mille in [1, 500, 950, 990, 1000] {
                let rank = usize::try_from((per_mille * 100_u64).div_ceil(1000)).unwrap().max(1);
                let exact = times[rank - 1];
                let told = histogram.percentile(per_mille).unwrap().0;
                let place = BOUNDS.iter().position(|bound| exact <= *bound);
                let high = place.map_or(u64::MAX, |place| BOUNDS[place]);
                let below = place.unwrap_or(BOUNDS.len()).checked_sub(1);
                let low = below.map_or(0, |below| BOUNDS[below]);
                assert!(low <= told && told <= high, "{exact} told as {told}");
                assert!(told <= *times.last().unwrap());
            }
        }
    }

    #[test]
    fn what_two_counted_is_what_one_would_have() {
        let mut left = of(&[1, 7, 90_000]);
        left.add(&of(&[3, 60_000_000]));
        assert_eq!(left, of(&[1, 7, 90_000, 3, 60_000_000]));
        assert_eq!((left.total(), left.max), (5, Millis(60_000_000)));
    }

    #[test]
    fn a_time_on_a_bound_falls_below_it() {
        assert_eq!(of(&[0]).buckets, [1]);
        assert_eq!(of(&[1]).buckets, [1]);
        assert_eq!(of(&[2]).buckets, [0, 1]);
        assert_eq!(of(&[50_000_001]).buckets.len(), BOUNDS.len() + 1);
    }
}
