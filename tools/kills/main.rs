//! `tools/kill_rounds.sh`: the kill rounds by hand, with their figures.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test driver may stop, and prints what it found"
)]

mod driver;

use std::path::PathBuf;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next =
        || arguments.next().expect("usage: kills ROUNDS SEED PROGRAM JOURNAL_TOOL HANDLER");
    let rounds = next().parse().unwrap();
    let seed = next().parse().unwrap();
    let path = |text: String| PathBuf::from(text).canonicalize().unwrap();
    let plan = driver::Plan {
        rounds,
        clients: 8,
        seed,
        program: path(next()),
        journal_tool: path(next()),
        handler: path(next()),
    };
    let dir = tempfile::tempdir().unwrap();
    println!("kill rounds: {rounds} rounds, 8 clients, seed {seed}");
    let figures = driver::run(&plan, dir.path());
    println!("{figures:#?}");
}
