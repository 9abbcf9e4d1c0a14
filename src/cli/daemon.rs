//! `midwatch daemon`: supervisor, engine and workers in the foreground.

use super::failure::Failure;
use super::session::Session;

/// How many of what.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Worker processes [default: the config's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=256))]
    workers: Option<u32>,
    /// Attempts that each of them runs at once [default: the config's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    slots: Option<u32>,
}

/// Runs it until it is told to stop.
pub(crate) fn run(args: &Args, session: &Session<'_>) -> Result<u8, Failure> {
    let mut config = session.config()?;
    config.override_workers(args.workers, args.slots);
    Err(Failure::new(1, "the daemon is not built yet"))
}
