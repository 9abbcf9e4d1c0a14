//! midwatch: the night-shift watchman of one machine.

pub mod api;
#[cfg(feature = "host")]
pub mod client;
pub mod journal;
pub mod kernel;
pub mod limits;
#[cfg(feature = "host")]
pub mod process;
#[cfg(feature = "host")]
pub mod worker;
