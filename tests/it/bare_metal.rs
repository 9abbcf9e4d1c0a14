//! The bare-metal test for some seconds in the plain test run (`MIDWATCH_METAL_SECONDS` asks for
//! more, `MIDWATCH_METAL_SEED` for another one); `tools/bare_metal.sh` goes on for hours.

#[path = "../../tools/metal/mod.rs"]
mod metal;

use std::path::PathBuf;
use std::time::Duration;

/// Seconds in which faults come in the plain test run.
const SECONDS: u64 = 12;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn nothing_acknowledged_is_lost_whatever_is_done_to_the_machine() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::Builder::new().prefix("metal").tempdir().unwrap();
    let plan = metal::Plan {
        span: Duration::from_secs(number("MIDWATCH_METAL_SECONDS", SECONDS)),
        seed: number("MIDWATCH_METAL_SEED", 20_260),
        program: PathBuf::from(env!("CARGO_BIN_EXE_midwatch")),
        journal_tool: PathBuf::from(env!("CARGO_BIN_EXE_midwatch-journal")),
        handler: root.join("tools/metal/handler.sh"),
        dir: dir.path().canonicalize().unwrap(),
    };
    let figures = metal::run(&plan);
    println!("seed {}\n{figures}", plan.seed);
    if !figures.wrong.is_empty() {
        let kept = dir.keep();
        panic!("{:#?}\nseed {}, kept in {}", figures.wrong, plan.seed, kept.display());
    }
    assert!(20 < figures.acknowledged, "the run proved nothing: {figures:?}");
    assert!(5 < figures.faults.values().sum::<u64>(), "the run proved nothing: {figures:?}");
}
