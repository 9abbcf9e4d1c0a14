//! How long syncs take, as the metrics tell it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The upper bounds of the buckets, in microseconds; what is longer falls into one more.
pub const SYNC_BOUNDS: [u64; 14] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000,
];

/// Counted by whoever syncs, read by anybody; neither waits for the other.
#[derive(Debug, Default)]
pub struct SyncTimes {
    buckets: [AtomicU64; SYNC_BOUNDS.len() + 1],
    sum: AtomicU64,
    last: AtomicU64,
}

impl SyncTimes {
    /// Counts a sync that took so many microseconds.
    pub fn count(&self, took: u64) {
        let place = SYNC_BOUNDS.iter().position(|bound| took <= *bound);
        if let Some(bucket) = self.buckets.get(place.unwrap_or(SYNC_BOUNDS.len())) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(took, Ordering::Relaxed);
        self.last.store(took, Ordering::Relaxed);
    }

    /// How many took how long, bucket by bucket.
    pub fn buckets(&self) -> [u64; SYNC_BOUNDS.len() + 1] {
        self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed))
    }

    /// All of them together, in microseconds.
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// The last one, in microseconds.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}
