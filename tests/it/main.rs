//! Tests through the public surface.
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

mod bare_metal;
mod clients;
mod demo;
mod eventually;
mod fake_engine;
mod field;
mod figures;
mod inject;
mod journal_compact;
mod journal_evolution;
mod journal_follow;
mod journal_load;
mod journal_repair;
mod journal_state;
mod journal_store;
mod journal_threads;
mod journal_tool;
mod limits;
mod process;
mod server;
mod spec_alerts;
mod spec_json;
mod spec_limits;
mod spec_reader;
mod spec_records;
mod spec_states;
mod spec_time;
mod supervision;
mod tidy;
mod worker;
