//! `midwatch worker`: one worker alone.

use super::engine::Pipes;
use super::failure::Failure;
use super::limits;
use super::logging;
use super::session::Session;
use crate::config::{Config, Handler};
use crate::process::Limits;
use crate::worker::{self, HandlerSpec, WorkerOptions};
use std::collections::BTreeMap;

/// How it works.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Attempts that it runs at once [default: the config's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    slots: Option<u32>,
    /// Its name for people
    #[arg(long, value_name = "NAME", default_value = "worker")]
    name: String,
    #[command(flatten)]
    pipes: Pipes,
}

/// Runs it until it is told to stop.
pub(crate) fn run(args: &Args, session: &Session<'_>) -> Result<u8, Failure> {
    let mut config = session.config()?;
    config.override_workers(None, args.slots);
    let handlers = specs(&config)?;
    let (lifeline, probe) = args.pipes.open()?;
    logging::begin(&config, session)?;
    let options = WorkerOptions {
        data_dir: config.data_dir,
        socket: config.socket,
        name: args.name.clone(),
        slots: config.worker.slots,
        memory_max: config.worker.memory_max,
        handlers,
        environment: std::env::vars_os().collect(),
        lifeline,
        probe,
    };
    worker::run(options).map(|()| 0).map_err(|error| Failure::new(error.exit(), error.to_string()))
}

/// What the worker needs of each handler's config.
fn specs(config: &Config) -> Result<BTreeMap<String, HandlerSpec>, Failure> {
    let handlers = config.handlers.iter();
    handlers.map(|(name, h)| Ok((name.clone(), spec(h, limits::of(name, &h.limits)?)))).collect()
}

/// Limits of time and retries travel with the leases.
fn spec(handler: &Handler, limits: Limits) -> HandlerSpec {
    let Handler {
        command,
        cwd,
        env,
        env_pass,
        timeout: _,
        cancel_grace: _,
        kill_grace: _,
        log_max,
        retry: _,
        fatal_exit_codes,
        retryable_exit_codes,
        limits: _,
    } = handler;
    let statuses = |codes: &[u8]| codes.iter().copied().map(i32::from).collect();
    HandlerSpec {
        command: command.clone(),
        cwd: cwd.clone(),
        env: env.clone(),
        env_pass: env_pass.clone(),
        log_max: *log_max,
        fatal_exit_codes: statuses(fatal_exit_codes),
        retryable_exit_codes: statuses(retryable_exit_codes),
        limits,
    }
}
