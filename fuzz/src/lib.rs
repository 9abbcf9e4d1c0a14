//! What is fuzzed, as plain functions: a fuzzer calls them with whatever it makes up, the replay
//! with every input that was ever worth keeping. They panic when something does not hold.

pub mod body;
pub mod bytes;
pub mod commands;
pub mod frame;
pub mod repair;
pub mod store;

/// One input, tried.
pub type Target = fn(&[u8]);

/// A generator of inputs that lead the fuzzer into the deep.
pub type Seeds = fn() -> Vec<(&'static str, Vec<u8>)>;

/// Every target with its name and its first inputs.
pub const TARGETS: [(&str, Target, Seeds); 5] = [
    ("frame", frame::run, frame::seeds),
    ("store", store::run, store::seeds),
    ("repair", repair::run, repair::seeds),
    ("body", body::run, body::seeds),
    ("commands", commands::run, commands::seeds),
];
