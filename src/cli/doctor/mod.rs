//! `midwatch doctor`: looks at the host and the setup, or at one task that seems stuck, and says
//! what to do.
//!
//! It works without a daemon and without a config, and changes nothing: its one file is a probe in
//! the data directory's `run/`, removed again. Each check is a function from what was gathered to
//! findings, so a test can hold each of them. The checks are listed in `spec/doctor.md`.

mod daemon;
mod environment;
mod finding;
mod handlers;
mod input;
mod permissions;
mod schedules;
mod store;
mod task;
mod tree;
mod verdict;

use super::arguments::task_id;
use super::connection::{Api, get};
use super::failure::{Failure, exit};
use super::session::{Format, Session};
use super::socket;
use crate::api::StatusView;
use crate::config::{Config, ConfigError};
use crate::kernel::ids::TaskId;
use finding::{Examined, Finding, Level, render};
use serde::de::DeserializeOwned;
use std::path::PathBuf;

/// What to look at.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A task that seems stuck, instead of host and setup
    #[arg(value_name = "ID", value_parser = task_id)]
    id: Option<TaskId>,
}

/// What is known before the first check.
pub(crate) struct Patient<'a> {
    config: Result<Config, ConfigError>,
    /// Also where the config was refused, as far as its place can be made out.
    data_dir: Option<PathBuf>,
    /// The daemon.
    api: &'a dyn Api,
    status: Result<StatusView, Failure>,
}

/// A part of the setup, and what looks at it.
type Check = (&'static str, fn(&Patient<'_>) -> Vec<Finding>);

/// All of them, in the order in which one fault explains the next.
const CHECKS: [Check; 7] = [
    ("input", input::check),
    ("environment", environment::check),
    ("permissions", permissions::check),
    ("handlers", handlers::check),
    ("schedules", schedules::check),
    ("daemon", daemon::check),
    ("journal", store::check),
];

/// Looks, and tells. Exits 1 when something must be done.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    if let Some(id) = args.id {
        return task::run(id, session);
    }
    let examined = examine(session);
    match session.format {
        Format::Table => session.print(&render(&examined, &session.view))?,
        Format::Json | Format::Ndjson => session.json(&examined)?,
    }
    Ok(if examined.level == Level::Problem { exit::FAILED } else { exit::DONE })
}

fn examine(session: &Session<'_>) -> Examined {
    let source = session.source((None, None));
    let config = source.read();
    let data_dir = match &config {
        Ok(config) => Some(config.data_dir.clone()),
        Err(_) => Config::find_data_dir(session.named, &session.environment.surroundings).ok(),
    };
    // What is wrong with the config is told once, by the first check.
    let quiet = socket::Daemon::new(
        session.named.clone(),
        session.environment.surroundings.clone(),
        socket::Warn::Never,
    );
    let api = if config.is_ok() { session.api } else { &quiet };
    let patient = Patient { config, data_dir, api, status: get(api, "/v1/status") };
    let mut findings = Vec::new();
    for (group, check) in CHECKS {
        findings.extend(check(&patient).into_iter().map(|finding| Finding { group, ..finding }));
    }
    Examined::new(findings)
}

impl Patient<'_> {
    /// Asks a daemon that has answered before.
    fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        match &self.status {
            Ok(_) => get(self.api, path),
            Err(failure) => Err(failure.clone()),
        }
    }

    fn us() -> u32 {
        rustix::process::geteuid().as_raw()
    }
}

#[cfg(test)]
mod tests;
