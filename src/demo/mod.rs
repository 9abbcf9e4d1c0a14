//! The whole story in under a minute: a real daemon in a temporary directory, a real text, a real
//! handler, two murders, and the proof that nothing came of them.
//!
//! The demo is a user like any other. It starts `midwatch daemon`, talks to its socket, reads the
//! files that the handler wrote, and the journal once the daemon is gone; it knows no secret way.
//! So whatever it proves holds for everybody. It refuses to be kind: any check that fails makes it
//! fail.
//!
//! It costs the binary the half megabyte of the text, so that it works wherever the binary does.

mod account;
mod house;
mod proof;
mod schedules;
mod story;
mod tell;

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

/// The poem, see `examples/demo/README.md`.
const TEXT: &str = include_str!("../../examples/demo/paradise-lost.txt");
/// The handler.
const HANDLER: &str = include_str!("../../examples/demo/count-words.sh");
/// Lines between two checkpoints.
const BATCH: usize = 1000;

/// How to run the demo.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The program to show: this very binary.
    pub program: PathBuf,
    /// Where to make a directory of its own.
    pub place: PathBuf,
    /// Whether that directory stays when all went well. It stays when not.
    pub keep: bool,
    /// Which story it tells.
    pub tale: Tale,
    /// Whether to colour.
    pub colour: bool,
}

/// Why the demo could not be carried through.
#[derive(Debug)]
pub struct DemoError {
    doing: String,
    why: String,
}

impl DemoError {
    fn new(doing: impl Into<String>, why: &dyn fmt::Display) -> Self {
        Self { doing: doing.into(), why: why.to_string() }
    }

    fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::new(doing, &error)
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the demo could not {}: {}", self.doing, self.why)
    }
}

impl std::error::Error for DemoError {}

/// Which of its stories the demo tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tale {
    /// A task survives two kills.
    Kills,
    /// A schedule accounts for each second, also for those that nobody lived through.
    Schedules,
}

/// Runs the demo and tells it on `out`; returns whether everything held.
pub fn run(options: &DemoOptions, out: &mut dyn Write) -> Result<bool, DemoError> {
    let mut tell = tell::Tell::new(out, options.colour);
    let furnish = match options.tale {
        Tale::Kills => story::furnish,
        Tale::Schedules => schedules::furnish,
    };
    let mut house = house::House::furnish(options, furnish)?;
    let told = match options.tale {
        Tale::Kills => story::Story::new(&mut tell, &mut house).run(),
        Tale::Schedules => schedules::Story::new(&mut tell, &mut house).run(),
    };
    match told {
        Ok(true) => {
            house.leave(options.keep);
            Ok(true)
        }
        Ok(false) => {
            tell.failed(&house)?;
            Ok(false)
        }
        Err(error) => {
            tell.failed(&house)?;
            Err(error)
        }
    }
}
