//! Waiting for what must come true, with a limit that only a hang reaches.

use std::time::{Duration, Instant};

/// The limit: far beyond anything a loaded machine needs.
const LIMIT: Duration = Duration::from_mins(3);

/// Waits until `look` finds something; panics with `what` when it never does.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
