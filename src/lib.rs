//! midwatch: the night-shift watchman of one machine.

pub mod api;
#[cfg(feature = "host")]
pub mod config;
pub mod engine;
pub mod journal;
pub mod kernel;
pub mod limits;
#[cfg(feature = "sim")]
pub mod sim;
pub mod units;
