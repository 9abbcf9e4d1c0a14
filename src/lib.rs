//! midwatch: the night-shift watchman of one machine.

pub mod api;
#[cfg(feature = "host")]
pub mod client;
pub mod clock;
#[cfg(feature = "host")]
pub mod config;
pub mod engine;
pub mod journal;
pub mod kernel;
pub mod limits;
#[cfg(feature = "host")]
pub mod process;
#[cfg(feature = "host")]
pub mod server;
#[cfg(feature = "sim")]
pub mod sim;
pub mod units;
#[cfg(feature = "host")]
pub mod worker;
