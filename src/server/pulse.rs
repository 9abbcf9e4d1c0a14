//! Whether the engine's thread is well: at rest, or busy for how long.

use crate::clock;
use crate::kernel::ids::Millis;
use std::sync::atomic::{AtomicU64, Ordering};

/// Set by the engine's thread, read by the one that reports to the supervisor. Nobody waits for
/// anybody here, so a disk that hangs cannot stall the report.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// The monotonic clock when the current work began; 0 at rest.
    busy_since: AtomicU64,
}

impl Pulse {
    /// The thread waits for something to do.
    pub(crate) fn rest(&self) {
        self.busy_since.store(0, Ordering::Relaxed);
    }

    /// The thread has something to do. Also said again at each turn, or a busy thread would look
    /// like a stuck one.
    pub(crate) fn work(&self) {
        self.busy_since.store(clock::monotonic().0.max(1), Ordering::Relaxed);
    }

    /// For how long the thread has been at one turn; none at rest.
    pub(crate) fn busy_for(&self) -> Option<Millis> {
        let since = self.busy_since.load(Ordering::Relaxed);
        (since != 0).then(|| Millis(clock::monotonic().0.saturating_sub(since)))
    }

    /// Whether the thread has been at one turn for longer than `limit`.
    pub(crate) fn is_stuck(&self, limit: Millis) -> bool {
        self.busy_for().is_some_and(|busy| limit < busy)
    }
}
