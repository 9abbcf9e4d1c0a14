//! `midwatch demo`: the whole story in under a minute.

use super::failure::{Failure, exit};
use super::session::Session;
use crate::demo::{self, DemoOptions, Tale};

/// How it is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep the directory, with the journal and everything else, for a look
    #[arg(long)]
    keep: bool,
    /// Another story: a schedule of each second, and a daemon that is away for some of them
    #[arg(long)]
    schedules: bool,
}

/// Tells it.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(1, format!("cannot find this program's file: {error}")))?;
    let options = DemoOptions {
        program,
        place: std::env::temp_dir(),
        keep: args.keep,
        tale: if args.schedules { Tale::Schedules } else { Tale::Kills },
        colour: session.view.paint.0,
    };
    let held = demo::run(&options, session.out)
        .map_err(|error| Failure::new(exit::FAILED, error.to_string()))?;
    Ok(if held { exit::DONE } else { exit::FAILED })
}
