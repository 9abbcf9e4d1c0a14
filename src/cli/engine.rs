//! `midwatch engine`: the engine alone.

use super::failure::Failure;
use super::logging;
use super::session::Session;
use crate::process::descriptor;
use crate::server::{self, Reload, ServerOptions};
use std::os::fd::{OwnedFd, RawFd};

/// What a supervisor gives it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    adopt: Adopt,
    #[command(flatten)]
    pipes: Pipes,
}

/// Whose data directory it may be.
#[derive(Debug, clap::Args)]
pub(crate) struct Adopt {
    /// Take over a data directory that was last written on another machine; what ran there is lost
    #[arg(long)]
    pub(super) adopt: bool,
}

/// The pipes between a supervisor and its child.
#[derive(Debug, clap::Args)]
pub(crate) struct Pipes {
    /// Descriptor whose end means that the supervisor is gone
    #[arg(long, value_name = "FD", hide = true)]
    lifeline: Option<RawFd>,
    /// Descriptor that gets a byte every few seconds
    #[arg(long, value_name = "FD", hide = true)]
    probe: Option<RawFd>,
}

impl Pipes {
    /// The lifeline and the probe, as far as they were given.
    pub(super) fn open(&self) -> Result<(Option<OwnedFd>, Option<OwnedFd>), Failure> {
        let open = |number: Option<RawFd>, flag: &str| {
            let descriptor = number.map(descriptor::inherited).transpose();
            descriptor.map_err(|error| Failure::usage(format!("{flag}: {error}")))
        };
        Ok((open(self.lifeline, "--lifeline")?, open(self.probe, "--probe")?))
    }
}

/// Runs it until it is told to stop.
pub(crate) fn run(args: &Args, session: &Session<'_>) -> Result<u8, Failure> {
    let config = session.config()?;
    let (lifeline, probe) = args.pipes.open()?;
    logging::begin(&config, session, "engine")?;
    let adopt = args.adopt.adopt;
    let source = session.source((None, None));
    let reload = Some(Reload { source, taken: logging::follow });
    server::run(ServerOptions { config, reload, lifeline, probe, signals: true, adopt })
        .map(|()| 0)
        .map_err(|error| match error.text.split_once('\n') {
            Some((what, help)) => Failure::new(error.exit_code, what)
                .with_help(help.lines().map(str::trim).collect::<Vec<_>>().join("\n")),
            None => Failure::new(error.exit_code, error.text),
        })
}
