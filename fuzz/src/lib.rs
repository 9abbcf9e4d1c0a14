//! What is fuzzed, as plain functions: a fuzzer calls them with whatever it makes up, the replay
//! with every input that was ever worth keeping. They panic when something does not hold.

pub mod api;
pub mod body;
pub mod bytes;
pub mod commands;
#[cfg(feature = "host")]
pub mod config;
#[cfg(feature = "host")]
pub mod door;
pub mod frame;
pub mod harm;
pub mod reference;
pub mod repair;
pub mod scan;
pub mod snapshot;
pub mod store;
#[cfg(feature = "host")]
pub mod submission;

/// One input, tried.
pub type Target = fn(&[u8]);

/// A generator of inputs that lead the fuzzer into the deep.
pub type Seeds = fn() -> Vec<(&'static str, Vec<u8>)>;

/// Every target with its name and its first inputs.
pub const TARGETS: &[(&str, Target, Seeds)] = &[
    ("frame", frame::run, frame::seeds),
    ("scan", scan::run, scan::seeds),
    ("snapshot", snapshot::run, snapshot::seeds),
    ("store", store::run, store::seeds),
    ("repair", repair::run, repair::seeds),
    ("body", body::run, body::seeds),
    ("commands", commands::run, commands::seeds),
    ("api", api::run, api::seeds),
    #[cfg(feature = "host")]
    ("config", config::run, config::seeds),
    #[cfg(feature = "host")]
    ("submission", submission::run, submission::seeds),
    #[cfg(feature = "host")]
    ("door", door::run, door::seeds),
];
