//! A few kill rounds in the plain test run; `tools/kill_rounds.sh` makes many.

#[path = "../../tools/kills/driver.rs"]
mod driver;

use std::path::PathBuf;

#[test]
fn nothing_acknowledged_is_lost_whoever_is_killed() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let plan = driver::Plan {
        rounds: 6,
        clients: 8,
        seed: 20_260,
        program: PathBuf::from(env!("CARGO_BIN_EXE_midwatch")),
        journal_tool: PathBuf::from(env!("CARGO_BIN_EXE_midwatch-journal")),
        handler: root.join("tools/kills/handler.sh"),
    };
    let dir = tempfile::tempdir().unwrap();
    let figures = driver::run(&plan, dir.path());
    println!("{figures:#?}");
    assert!(20 < figures.acknowledged, "the rounds proved nothing: {figures:?}");
}
