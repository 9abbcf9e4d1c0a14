//! `tools/bare_metal.sh`: the bare-metal test by hand, with its figures.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test driver may stop, and prints what it found"
)]

#[path = "mod.rs"]
mod metal;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: metal DURATION SEED PROGRAM JOURNAL_TOOL HANDLER DIR";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [span, seed, program, journal_tool, handler, dir] = arguments.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (Ok(span), Ok(seed)) = (midwatch::units::parse_duration(span), seed.parse()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let path = |text: &String| PathBuf::from(text).canonicalize().unwrap();
    let plan = metal::Plan {
        span: span.duration(),
        seed,
        program: path(program),
        journal_tool: path(journal_tool),
        handler: path(handler),
        dir: path(dir),
    };
    let figures = metal::run(&plan);
    println!("{figures}");
    if figures.wrong.is_empty() {
        println!("nothing was lost, doubled, run twice at once or left behind: seed {seed}");
        return ExitCode::SUCCESS;
    }
    println!("FAILED with seed {seed}, kept in {}", plan.dir.display());
    ExitCode::FAILURE
}
