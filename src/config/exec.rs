//! The payload of an ad-hoc command.

use serde::Deserialize;
use std::path::PathBuf;

/// The type of ad-hoc commands; no handler may take its name.
pub(crate) const EXEC: &str = "exec";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecPayload {
    argv: Vec<String>,
    #[serde(default)]
    cwd: Option<PathBuf>,
}

/// Passes the payload of an ad-hoc command; says in words what is wrong with any other.
pub(crate) fn check_exec(payload: &str) -> Result<(), String> {
    let ExecPayload { argv, cwd } = serde_json::from_str(payload).map_err(|error| {
        format!("the payload of `{EXEC}` is {{\"argv\": […], \"cwd\": …}}: {error}")
    })?;
    if argv.first().is_none_or(String::is_empty) {
        return Err("`argv` must begin with a program".to_owned());
    }
    if argv.iter().any(|part| part.contains('\0')) {
        return Err("`argv` must not hold zero bytes".to_owned());
    }
    if cwd.is_some_and(|cwd| !cwd.is_absolute()) {
        return Err("`cwd` must be an absolute path".to_owned());
    }
    Ok(())
}
