//! Messages to a program: JSON on its standard input, its exit status for an answer.

use super::{ANSWER_BYTES_MAX, TIME_MAX};
use crate::process;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

/// Whether a program that is named by its path is there and may be run.
pub(super) fn check(command: &[String]) -> Result<(), String> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    if !program.contains('/') {
        return Ok(());
    }
    let found = std::fs::metadata(program).map_err(|error| format!("{program}: {error}"))?;
    if found.is_file() && found.permissions().mode() & 0o111 != 0 {
        return Ok(());
    }
    Err(format!("{program} is no program that may be run"))
}

/// Runs it; an exit status of 0 means that it took the message.
pub(super) fn run(command: &[String], input: &[u8]) -> Result<(), String> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let most = usize::try_from(ANSWER_BYTES_MAX).unwrap_or(usize::MAX);
    let ran = process::run_program(command, input, TIME_MAX, most)
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let said = String::from_utf8_lossy(&ran.output);
    let said = said.trim();
    if !said.is_empty() {
        tracing::info!("{program} says: {}", said.escape_debug());
    }
    match ran.status {
        None => Err(format!("{program} took longer than {} s", TIME_MAX.as_secs())),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(match (status.code(), status.signal()) {
            (Some(code), _) => format!("{program} ended with exit status {code}"),
            (None, signal) => format!("{program} was ended by signal {}", signal.unwrap_or(0)),
        }),
    }
}
