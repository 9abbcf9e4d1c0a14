//! Why a call to the daemon failed, in words and as an exit code.

use crate::api::{Code, Problem};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a call to the daemon failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// Nobody answers; the request was not carried out, or was one that changes nothing.
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The socket may not be opened by this user.
    Forbidden {
        /// The socket.
        socket: PathBuf,
    },
    /// The daemon refused.
    Problem(Problem),
    /// The connection broke after the request was sent: it may or may not have been carried out.
    OutcomeUnknown {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The daemon took the request and does not answer.
    Silent {
        /// The socket.
        socket: PathBuf,
        /// The process behind it, as far as the kernel tells.
        pid: Option<u32>,
        /// How long it has been silent.
        seconds: u64,
        /// Whether the request may yet be carried out.
        may_change: bool,
    },
    /// The answer is not one of ours.
    Protocol {
        /// What is wrong with it.
        what: String,
    },
}

impl ClientError {
    /// The exit code of a command that fails with it.
    pub const fn exit(&self) -> u8 {
        match self {
            Self::Unreachable { .. } | Self::Silent { may_change: false, .. } => 5,
            Self::Forbidden { .. } => 7,
            Self::Problem(problem) => problem.code.exit(),
            Self::OutcomeUnknown { .. } | Self::Silent { may_change: true, .. } => 8,
            Self::Protocol { .. } => 1,
        }
    }

    /// What to do next.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => Some("start it with `midwatch daemon`".into()),
            Self::Forbidden { .. } => Some(
                "ask for membership in the group that `socket_group` names, or use the daemon's user"
                    .into(),
            ),
            Self::Problem(problem) => problem.help.clone(),
            Self::OutcomeUnknown { .. } | Self::Silent { may_change: true, .. } => {
                Some("say it again with the same --key, or look with `midwatch list`".into())
            }
            Self::Silent { may_change: false, .. } | Self::Protocol { .. } => None,
        }
    }

    /// Whether the daemon may be back in a moment, so that a caller who can wait should.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::OutcomeUnknown { .. } | Self::Silent { .. } => true,
            Self::Problem(problem) => matches!(
                problem.code,
                Code::Busy | Code::NoSpace | Code::OutcomeUnknown | Code::ShuttingDown
            ),
            Self::Forbidden { .. } | Self::Protocol { .. } => false,
        }
    }

    pub(crate) fn protocol(error: &dyn fmt::Display) -> Self {
        Self::Protocol { what: error.to_string() }
    }

    pub(crate) fn connecting(socket: &Path, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Self::Forbidden { socket: socket.to_owned() };
        }
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such socket".to_owned(),
            io::ErrorKind::ConnectionRefused => "nobody listens on it".to_owned(),
            _ => error.to_string(),
        };
        Self::Unreachable { socket: socket.to_owned(), why }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { socket, why } => {
                write!(f, "the daemon is not reachable at {}: {why}", socket.display())
            }
            Self::Forbidden { socket } => {
                write!(f, "the daemon's socket {} may not be opened by this user", socket.display())
            }
            Self::Problem(problem) => problem.fmt(f),
            Self::OutcomeUnknown { socket, why } => write!(
                f,
                "the daemon at {} went away before it answered ({why}); whether it did what was \
                 asked is not known",
                socket.display()
            ),
            Self::Silent { socket, pid, seconds, may_change } => {
                write!(f, "the daemon at {}", socket.display())?;
                if let Some(pid) = pid {
                    write!(f, " (pid {pid})")?;
                }
                write!(f, " took the request and has said nothing for {seconds} s")?;
                if *may_change {
                    f.write_str("; whether it does what was asked is not known")?;
                }
                Ok(())
            }
            Self::Protocol { what } => write!(f, "the daemon's answer makes no sense: {what}"),
        }
    }
}

impl std::error::Error for ClientError {}
