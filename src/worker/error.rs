//! Why a worker cannot work.

use crate::client::ClientError;
use std::fmt;
use std::io;

/// Why a worker ended otherwise than it was told to.
#[derive(Debug)]
pub struct WorkerError {
    exit: u8,
    message: String,
}

impl WorkerError {
    pub(super) fn host(doing: &str, error: &io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::PermissionDenied { 7 } else { 1 };
        Self { exit, message: format!("{doing}: {error}") }
    }

    pub(super) fn refused(error: &ClientError) -> Self {
        Self { exit: error.exit(), message: format!("the engine does not take us: {error}") }
    }

    pub(super) const fn setup(message: String) -> Self {
        Self { exit: 2, message }
    }

    /// The exit code of the process.
    pub const fn exit(&self) -> u8 {
        self.exit
    }
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WorkerError {}
