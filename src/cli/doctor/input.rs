//! The config and the places it names.

use super::Patient;
use super::finding::{Finding, plural};
use crate::config::Config;
use crate::server;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    match &patient.config {
        Err(error) => error
            .faults
            .iter()
            .map(|fault| {
                let help = fault.help().unwrap_or(
                    "until then a start is refused, and a running daemon keeps the config it has",
                );
                Finding::problem(fault.to_string(), help, &["midwatch config check"])
            })
            .collect(),
        Ok(config) => vec![well(config), fits(config)],
    }
}

fn well(config: &Config) -> Finding {
    let (handlers, schedules) = (config.handlers.len(), config.schedules.len());
    match &config.file {
        Some(file) => Finding::ok(format!(
            "{}, {}, {}",
            file.display(),
            plural(handlers, "handler"),
            plural(schedules, "schedule")
        )),
        None => Finding::ok("no config file: the built-in defaults"),
    }
}

/// What only this host can say of it: groups, users, schemas, secrets.
fn fits(config: &Config) -> Finding {
    match server::check(config) {
        Ok(()) => Finding::ok("fits this host"),
        Err(why) => {
            Finding::problem(why, "a start with this config is refused", &["midwatch config show"])
        }
    }
}
