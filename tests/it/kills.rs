//! A few kill rounds in the plain test run (`MIDWATCH_KILL_ROUNDS` asks for more);
//! `tools/kill_rounds.sh` makes many of the release build.

#[path = "../../tools/kills/driver.rs"]
mod driver;

use std::path::PathBuf;

#[test]
fn nothing_acknowledged_is_lost_whoever_is_killed() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let plan = driver::Plan {
        rounds: std::env::var("MIDWATCH_KILL_ROUNDS").map_or(6, |text| text.parse().unwrap()),
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
