//! `midwatch worker`: one worker alone.

use super::engine::Pipes;
use super::failure::Failure;
use super::logging;
use super::session::Session;
use crate::config::{Config, Handler, Running};
use crate::process::Limits;
use crate::server;
use crate::worker::{self, HandlerSpec, Reload, WorkerOptions};
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
    let source = session.source((None, args.slots));
    let config = source.read()?;
    server::check(&config).map_err(|why| Failure::new(2, why))?;
    let (lifeline, probe) = args.pipes.open()?;
    logging::begin(&config, session, &args.name)?;
    let options = WorkerOptions {
        data_dir: config.data_dir.clone(),
        socket: config.socket.clone(),
        name: args.name.clone(),
        slots: config.worker.slots,
        memory_max: config.worker.memory_max,
        handlers: handlers(&config),
        reload: Some(Reload {
            running: Running::new(source, config.clone()),
            handlers,
            check: server::check,
            taken: logging::follow,
        }),
        environment: std::env::vars_os().collect(),
        lifeline,
        probe,
    };
    worker::run(options).map(|()| 0).map_err(|error| Failure::new(error.exit(), error.to_string()))
}

/// The handlers of a config that was checked, as the worker needs them.
fn handlers(config: &Config) -> BTreeMap<String, HandlerSpec> {
    // The others are run by whoever brings their code.
    let commands = config.handlers.iter().filter(|(_, handler)| !handler.embedded);
    let specs = commands.filter_map(|(name, handler)| {
        // A user that has gone since the check leaves its handler without a worker.
        let limits = server::limits_of(name, &handler.limits).ok()?;
        Some((name.clone(), spec(handler, limits)))
    });
    specs.collect()
}

/// Limits of time and retries travel with the leases.
fn spec(handler: &Handler, limits: Limits) -> HandlerSpec {
    let Handler {
        command,
        embedded: _,
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
        // The engine sees to these.
        max_running: _,
        rate: _,
        schema: _,
        stall_after: _,
        advice: _,
        contact: _,
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
