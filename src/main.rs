//! midwatch, the program.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let ended = midwatch::cli::run(std::env::args_os());
    // Where stderr is closed there is nobody to tell; the exit code still says it.
    drop(std::io::stderr().write_all(ended.said.as_bytes()));
    ExitCode::from(ended.code)
}
