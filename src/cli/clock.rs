//! The command line's reading of the wall clock: for what people are shown, and nothing else.

use crate::kernel::ids::Timestamp;
use std::time::SystemTime;

/// Now. A clock before 1970 reads as 1970.
#[expect(clippy::disallowed_methods, reason = "the one place where a command reads the clock")]
pub(crate) fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}
