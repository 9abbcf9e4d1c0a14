//! Those who write handlers: in Rust, in Python, for the shell; and those who install.
//!
//! What needs a program that is not everywhere says so on standard error and passes.

mod embedded;
mod packaging;
mod python;
mod shell;
mod terminal;
mod threads;

use std::process::{Command, Stdio};

/// Whether a program can be run; says loudly when not.
fn is_here(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let here = command.status().is_ok_and(|status| status.success());
    if !here {
        eprintln!("SKIPPED: there is no `{program} {}` here", args.join(" "));
    }
    here
}
