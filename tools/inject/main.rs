//! `tools/inject.sh`: faults at the calls of the real engine, by hand, with their figures.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test driver may stop, and prints what it found"
)]

mod driver;
mod script;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, journal_tool, dir, points @ ..] = arguments.as_slice() else {
        eprintln!("usage: inject PROGRAM JOURNAL_TOOL DIR [POINTS]");
        return ExitCode::from(2);
    };
    if !driver::can_inject() {
        return ExitCode::FAILURE;
    }
    let programs = driver::Programs::canonical(program, journal_tool);
    let points = points.first().map(|text| text.parse().unwrap());
    let figures = driver::run(&programs, dir.as_ref(), points);
    println!("{figures:#?}");
    if figures.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
