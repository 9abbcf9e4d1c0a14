//! How a command ends early: exit code, what happened, what to do next.

use midwatch::config::ConfigError;
use midwatch::journal::{Damage, JournalError};
use std::io::{self, Write as _};

/// Done.
pub(crate) const DONE: u8 = 0;
/// A file cannot be read, or the output not be written.
const FAILED: u8 = 1;
/// Usage, or no store.
const USAGE: u8 = 2;
/// Damaged data.
pub(crate) const DAMAGED: u8 = 6;

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

/// A journal's refusal in the words of this tool: what, where, how much is whole around it, and
/// the command that looks at it.
pub(crate) fn refusal(error: &JournalError, dir: &str) -> Failure {
    let code = error.exit_code();
    let failure = match error {
        JournalError::Damage(damage) => damaged(damage, dir),
        JournalError::Refused { file, offset, seq, text } => {
            Failure::new(code, format!("damaged journal: {file}, byte {offset} (sequence {seq})"))
                .with_help(text)
                .with_help("every checksum holds: the record was written so, or by another version")
                .with_help(format!("To look: midwatch-journal inspect{dir} --at {seq}"))
        }
        JournalError::Missing { .. } | JournalError::Foreign { .. } => {
            Failure::new(code, format!("damaged journal: {}", first_line(error)))
                .with_help(format!("To look: midwatch-journal inspect{dir}"))
                .with_help("Put the files back from where they went, or from a backup")
        }
        JournalError::Io { source, .. } => {
            Failure::new(code, format!("{}: {source}", first_line(error)))
        }
        JournalError::InUse { .. }
        | JournalError::Newer { .. }
        | JournalError::Suspicious(_)
        | JournalError::NoSpace { .. }
        | JournalError::Sync { .. }
        | JournalError::Poisoned
        | JournalError::RefusedStore { .. }
        | JournalError::SnapshotUnreadable { .. }
        | JournalError::Unrepairable { .. }
        | JournalError::RepairInterrupted
        | JournalError::RepairNeedsSpace { .. } => {
            let text = error.to_string();
            let mut lines = text.lines();
            let failure = Failure::new(code, lines.next().unwrap_or_default());
            lines.fold(failure, |failure, line| {
                failure.with_help(line.trim_start_matches("  help: "))
            })
        }
    };
    match error {
        JournalError::Damage(_)
        | JournalError::Refused { .. }
        | JournalError::Missing { .. }
        | JournalError::Foreign { .. } => failure
            .with_help(format!(
                "To see what a repair keeps: midwatch-journal repair{dir} --dry-run"
            ))
            .with_help("Nothing was changed"),
        _ => failure,
    }
}

fn damaged(damage: &Damage, dir: &str) -> Failure {
    let Damage { file, offset, seq, what, before, after, bytes: _ } = damage;
    let place = at_byte(file, *offset);
    Failure::new(DAMAGED, format!("damaged journal: {file}, byte {offset} (sequence {seq})"))
        .with_help(format!("{what}; {before} good records before it, {after} after it"))
        .with_help(format!("To look: midwatch-journal inspect{dir} --at {place}"))
}

/// `SEGMENT:BYTE`, as `inspect --at` takes it.
pub(crate) fn at_byte(file: &str, offset: u64) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    match midwatch::journal::segment::parse_segment_name(name) {
        Some((number, _)) => format!("{number}:{offset}"),
        None => format!("{offset}"),
    }
}

/// What an error says, without its own help.
pub(crate) fn first_line(error: &JournalError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
