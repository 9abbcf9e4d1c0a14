//! What is wrong with a config: what, where, and what would be right.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    what: String,
    file: Option<PathBuf>,
    line: Option<usize>,
    help: Option<String>,
}

impl Fault {
    /// Something wrong that shows only on the host, such as a group that is not there.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), file: None, line: None, help: None }
    }

    pub(super) fn at(mut self, file: &Path, line: usize) -> Self {
        self.file = Some(file.to_owned());
        self.line = Some(line);
        self
    }

    pub(super) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// What would be right, or what to do.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    pub(super) fn line(&self) -> usize {
        self.line.unwrap_or_default()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, " ({}, line {line})", file.display()),
            (Some(file), None) => write!(f, " ({})", file.display()),
            (None, _) => Ok(()),
        }
    }
}

/// Why a config was refused: everything that is wrong with it, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// What is wrong; never empty.
    pub faults: Vec<Fault>,
}

impl From<Fault> for ConfigError {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index != 0 {
                f.write_str("; ")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
