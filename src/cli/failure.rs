//! How a command fails: the exit code, what happened, and what to do next.

use super::paint::{Ink, Paint};
use super::text::tame;
use crate::config::ConfigError;
use std::io;

/// Exit codes, as `spec/cli.md` has them.
pub(crate) mod exit {
    /// Done.
    pub(crate) const DONE: u8 = 0;
    /// Failed; for `wait`, a task that ended in anything but SUCCESS.
    pub(crate) const FAILED: u8 = 1;
    /// Usage, config or payload.
    pub(crate) const USAGE: u8 = 2;
    /// The daemon is not reachable.
    pub(crate) const UNREACHABLE: u8 = 5;
    /// The daemon went away before it answered.
    pub(crate) const UNKNOWN: u8 = 8;
    /// Refused: not permitted, or over a limit.
    pub(crate) const REFUSED: u8 = 7;
}

/// One complaint: a line that says what happened, and lines that help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    what: String,
    help: Vec<String>,
}

/// Why a command ended early. `main` prints it and returns its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    code: u8,
    complaints: Vec<Complaint>,
}

impl Failure {
    /// A failure with its exit code.
    pub(crate) fn new(code: u8, what: impl Into<String>) -> Self {
        Self { code, complaints: vec![Complaint { what: what.into(), help: Vec::new() }] }
    }

    /// A slip in what was typed.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(exit::USAGE, what)
    }

    /// An end without a word: the reader of our output has gone, or all was said already.
    pub(crate) const fn silent(code: u8) -> Self {
        Self { code, complaints: Vec::new() }
    }

    /// Adds a line that helps.
    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        if let Some(complaint) = self.complaints.last_mut() {
            complaint.help.push(help.into());
        }
        self
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// What happened, without what helps.
    pub(crate) fn what(&self) -> &str {
        self.complaints.first().map_or("", |complaint| &complaint.what)
    }

    /// The first line that helps.
    pub(crate) fn help(&self) -> Option<&str> {
        self.complaints.first()?.help.first().map(String::as_str)
    }

    /// What is printed: `error: …`, and the help below it.
    pub(crate) fn render(&self, colour: bool) -> String {
        let paint = Paint(colour);
        let mut text = String::new();
        for Complaint { what, help } in &self.complaints {
            text += &format!("{} {}\n", paint.with(Ink::Red, "error:"), tame(what));
            for line in help.iter().flat_map(|help| help.lines()) {
                text += &format!("  {}\n", tame(line));
            }
        }
        text
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let complaint = |fault: &crate::config::Fault| Complaint {
            what: fault.to_string(),
            help: fault.help().map(str::to_owned).into_iter().collect(),
        };
        Self { code: exit::USAGE, complaints: error.faults.iter().map(complaint).collect() }
    }
}

/// A failed write to stdout: the reader that went away (`list | head`) is no error.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::silent(exit::DONE)
        } else {
            Self::new(exit::FAILED, format!("cannot write the output: {error}"))
        }
    }
}
