//! How a command ends early: exit code, what happened, what to do next.

use midwatch::config::ConfigError;
use midwatch::journal::JournalError;
pub(crate) use midwatch::journal::error::DAMAGED;
use std::io::{self, Write as _};

/// Done.
pub(crate) const DONE: u8 = 0;
/// A file cannot be read, or the output not be written.
const FAILED: u8 = 1;
/// Usage, or no store.
const USAGE: u8 = 2;

/// No such task.
pub(crate) const NOTHING: u8 = 3;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// None when there is nothing to say: the reader of our output has gone.
    lines: Vec<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, what: impl Into<String>) -> Self {
        Self { code, lines: vec![format!("error: {}", what.into())] }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(USAGE, what)
    }

    /// Ends with `code`; what was wrong is said already.
    pub(crate) const fn silent(code: u8) -> Self {
        Self { code, lines: Vec::new() }
    }

    /// Adds a line below.
    #[must_use]
    pub(crate) fn with_help(mut self, help: impl AsRef<str>) -> Self {
        self.lines.extend(help.as_ref().lines().map(|line| format!("  {line}")));
        self
    }

    /// Without what would help in general.
    #[must_use]
    pub(crate) fn without_help(mut self) -> Self {
        self.lines.truncate(1);
        self
    }

    /// Says it on stderr; the exit code.
    pub(crate) fn report(&self) -> u8 {
        self.lines.iter().for_each(|line| say(line));
        self.code
    }
}

/// A remark on stderr.
pub(crate) fn note(text: impl AsRef<str>) {
    say(&format!("note: {}", text.as_ref()));
}

fn say(line: &str) {
    if writeln!(io::stderr(), "{line}").is_err() {
        // Nobody listens; the exit code still tells.
    }
}

/// The reader that went away (`dump | head`) is no error.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::silent(DONE)
        } else {
            Self::new(FAILED, format!("cannot write the output: {error}"))
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let mut lines = Vec::new();
        for fault in &error.faults {
            lines.push(format!("error: {fault}"));
            lines.extend(fault.help().map(|help| format!("  {help}")));
        }
        Self { code: USAGE, lines }
    }
}

/// A journal's refusal in its own words, with the directory in the commands it advises.
pub(crate) fn refusal(error: &JournalError, dir: &str) -> Failure {
    let what = match error {
        JournalError::Io { source, .. }
        | JournalError::NoSpace { source, .. }
        | JournalError::Sync { source, .. } => format!("{}: {source}", error.headline()),
        _ => error.headline(),
    };
    let failure = Failure::new(error.exit_code(), what);
    error.advice(dir).iter().fold(failure, Failure::with_help)
}
