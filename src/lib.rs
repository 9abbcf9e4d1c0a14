//! midwatch: the night-shift watchman of one machine.

pub mod journal;
#[cfg(feature = "sim")]
pub mod sim;
