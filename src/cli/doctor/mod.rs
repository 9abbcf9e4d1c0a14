//! `midwatch doctor`: looks at the host and the setup, or at one task that seems stuck, and says
//! what to do.
//!
//! It works without a daemon and without a config, and changes nothing: its one file is a probe in
//! the data directory's `run/`, removed again. Each check is a function from what was gathered to
//! findings, so a test can hold each of them. Whatever touches a disk is waited for with patience,
//! and no longer. The checks are listed in `spec/doctor.md`.

mod daemon;
mod environment;
mod finding;
mod handlers;
mod input;
mod patience;
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
use crate::api::{Schedules, StatusView, Workers};
use crate::config::{Config, ConfigError};
use crate::kernel::ids::TaskId;
use finding::{Examined, Finding, Level, render};
use patience::{PATIENCE, READING, within};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What to look at.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A task that seems stuck, instead of host and setup
    #[arg(value_name = "ID", value_parser = task_id)]
    id: Option<TaskId>,
}

/// What is known before the first check.
struct Patient {
    config: Result<Config, ConfigError>,
    /// Also where the config was refused, as far as its place can be made out.
    data_dir: Option<PathBuf>,
    /// What the daemon tells.
    status: Result<StatusView, Failure>,
    schedules: Result<Schedules, Failure>,
    workers: Result<Workers, Failure>,
}

/// What looks at a part of the setup.
struct Check {
    group: &'static str,
    /// Whether it touches the disk of the data directory. When that hangs it is not asked again.
    of_the_data: bool,
    /// How long it may take.
    patience: Duration,
    look: fn(&Patient) -> Vec<Finding>,
}

const fn check(group: &'static str, look: fn(&Patient) -> Vec<Finding>) -> Check {
    Check { group, of_the_data: false, patience: PATIENCE, look }
}

const fn of_the_data(group: &'static str, look: fn(&Patient) -> Vec<Finding>) -> Check {
    Check { of_the_data: true, ..check(group, look) }
}

/// All of them, in the order in which one fault explains the next.
const CHECKS: [Check; 8] = [
    check("input", input::check),
    of_the_data("environment", environment::disk_of_the_data),
    check("environment", environment::check),
    of_the_data("permissions", permissions::check),
    check("handlers", handlers::check),
    check("schedules", schedules::check),
    check("daemon", daemon::check),
    Check { patience: READING, ..of_the_data("journal", store::check) },
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
    let (named, around) = (session.named.clone(), session.environment.surroundings.clone());
    let read = within(PATIENCE, move || {
        let config = source.read();
        let data_dir = match &config {
            Ok(config) => Some(config.data_dir.clone()),
            Err(_) => Config::find_data_dir(&named, &around).ok(),
        };
        (config, data_dir)
    });
    let (config, data_dir) = match read {
        Ok(read) => read,
        // All the rest hangs on it.
        Err(why) => {
            let finding = patience::unseen("the config", &why);
            return Examined::new(vec![Finding { group: "input", ..finding }]);
        }
    };
    // What is wrong with the config is told once, by the first check.
    let quiet = socket::Daemon::new(
        session.named.clone(),
        session.environment.surroundings.clone(),
        socket::Warn::Never,
    );
    let api: &dyn Api = if config.is_ok() { session.api } else { &quiet };
    let status = get(api, "/v1/status");
    let answers = || status.as_ref().map(|_well| ()).map_err(Clone::clone);
    let schedules = answers().and_then(|()| get(api, "/v1/schedules"));
    let workers = answers().and_then(|()| get(api, "/v1/workers"));
    look(Patient { config, data_dir, status, schedules, workers }, &CHECKS)
}

fn look(patient: Patient, checks: &[Check]) -> Examined {
    let patient = Arc::new(patient);
    let (mut findings, mut hangs) = (Vec::new(), false);
    for Check { group, of_the_data, patience, look } in checks {
        let found = if hangs && *of_the_data {
            let why = "the disk of the data directory does not answer";
            vec![Finding::note("not looked at", why)]
        } else {
            let (seen, look) = (Arc::clone(&patient), *look);
            within(*patience, move || look(&seen)).unwrap_or_else(|why| {
                hangs |= *of_the_data;
                let data_dir = patient.data_dir.as_ref().filter(|_| *of_the_data);
                let place = data_dir.map(|place| place.display().to_string());
                vec![patience::unseen(
                    &place.unwrap_or_else(|| "what is looked at here".to_owned()),
                    &why,
                )]
            })
        };
        findings.extend(found.into_iter().map(|finding| Finding { group, ..finding }));
    }
    Examined::new(findings)
}

impl Patient {
    fn us() -> u32 {
        rustix::process::geteuid().as_raw()
    }
}

#[cfg(test)]
mod tests;
