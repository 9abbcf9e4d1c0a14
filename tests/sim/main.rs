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

mod compaction;
mod disk;
mod engine_cases;
mod engine_damage;
mod explore;
mod fsync;
mod house;
mod journal_cases;
mod journal_crash;
mod journal_faults;
mod ledger;
mod model;
mod model_engine;
mod orders;
mod repair;
mod repair_crash;
mod repair_rules;
mod retention;
mod schedules;
mod store_cases;
mod types;
mod wear;
mod world;

/// A number from the environment, for runs larger than the usual one.
fn asked(name: &str, usual: u64) -> u64 {
    let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{name} is a number"));
    std::env::var(name).map_or(usual, number)
}
