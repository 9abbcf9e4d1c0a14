//! `midwatch daemon`: supervisor, engine and workers in the foreground.

use super::engine::Adopt;
use super::failure::Failure;
use super::logging;
use super::session::Session;
use crate::config::Config;
use crate::server;
use crate::supervisor::{self, SupervisorOptions, WorkerSpec};
use std::ffi::OsString;

/// How many of what.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Worker processes [default: the config's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=256))]
    workers: Option<u32>,
    /// Attempts that each of them runs at once [default: the config's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    slots: Option<u32>,
    #[command(flatten)]
    adopt: Adopt,
}

/// Runs it until it is told to stop.
pub(crate) fn run(args: &Args, session: &Session<'_>) -> Result<u8, Failure> {
    let config = session.source((args.workers, args.slots)).read()?;
    // Workers would refuse them one after another, for ever.
    server::check(&config).map_err(|why| Failure::new(2, why))?;
    logging::begin(&config, session, "supervisor")?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(1, format!("cannot find this program's file: {error}")))?;
    let mut engine_args = places(&config, session);
    engine_args.extend(args.adopt.adopt.then(|| "--adopt".into()));
    let options = SupervisorOptions {
        engine_args,
        workers: (1..=config.worker.processes)
            .map(|n| worker(n, args.slots, &config, session))
            .collect(),
        notify_socket: session.environment.notify_socket.clone(),
        watchdog: session.environment.watchdog,
        ..SupervisorOptions::new(program)
    };
    supervisor::run(options).map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        Failure::new(1, format!("{error}: {}", source.unwrap_or_default()))
    })
}

/// The flags by which a child finds the same config, data directory and socket as we did.
fn places(config: &Config, session: &Session<'_>) -> Vec<OsString> {
    let mut flags: Vec<OsString> = Vec::new();
    if let Some(file) = &config.file {
        flags.extend(["--config".into(), file.into()]);
    }
    flags.extend(["--data-dir".into(), config.data_dir.clone().into()]);
    flags.extend(["--socket".into(), config.socket.clone().into()]);
    if session.quiet {
        flags.push("--quiet".into());
    }
    flags.extend((0..session.verbose).map(|_| "--verbose".into()));
    flags
}

/// What the config says it reads there, also when it changes; a flag outweighs it for good.
fn worker(number: u32, slots: Option<u32>, config: &Config, session: &Session<'_>) -> WorkerSpec {
    let name = format!("w{number}");
    let mut args = places(config, session);
    args.extend(["--name".into(), (&name).into()]);
    if let Some(slots) = slots {
        args.extend(["--slots".into(), slots.to_string().into()]);
    }
    WorkerSpec { name, args }
}
