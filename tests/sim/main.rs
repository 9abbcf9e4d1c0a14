//! Tests against simulated disks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may stop"
)]

mod disk;
mod explore;
mod journal_cases;
mod journal_crash;
mod journal_faults;
mod ledger;
mod model;
mod repair;
mod repair_crash;
mod repair_rules;
mod world;
