//! `midwatch worker`: one worker alone.

use super::failure::Failure;
use super::session::Session;

/// How it works.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Attempts that it runs at once [default: the config's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    slots: Option<u32>,
}

/// Runs it until it is told to stop.
pub(crate) fn run(args: &Args, session: &Session<'_>) -> Result<u8, Failure> {
    let mut config = session.config()?;
    config.override_workers(None, args.slots);
    Err(Failure::new(1, "the worker is not built yet"))
}
