//! The nine statuses, the reasons, and the one table of legal transitions.
//!
//! Everybody asks this table: `decide` before an event is written, `apply` after one is read,
//! `midwatch states`, the drawing and the documents. Nobody else knows which status may follow
//! which.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Makes an enum whose members have a fixed number on disk and a fixed word in print.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $number:literal $member:ident $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            minicbor::Encode, minicbor::Decode,
        )]
        #[cbor(index_only)]
        pub enum $name { $($(#[$member_doc])* #[n($number)] #[serde(rename = $word)] $member),* }

        impl $name {
            /// Every member, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$member),*];

            /// The word that people and programs see.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$member => $word),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|member| member.word().eq_ignore_ascii_case(text)).ok_or_else(|| {
                    let words: Vec<_> = Self::ALL.iter().map(|member| member.word()).collect();
                    format!("`{text}` is none of {}", words.join(", "))
                })
            }
        }
    };
}
pub(super) use words;

words! {
    /// Where a task stands.
    Status {
        /// Created or requeued; waits to be dispatched.
        0 Pending "PENDING",
        /// Leased to an executor.
        1 Running "RUNNING",
        /// Set aside by a person.
        2 Paused "PAUSED",
        /// Failed; waits for its next run.
        3 Retrying "RETRYING",
        /// Its executor is gone; waits to be taken over.
        4 Lost "LOST",
        /// Ended well.
        5 Success "SUCCESS",
        /// Ended by an error that another run would not mend.
        6 Failed "FAILED",
        /// Ended because its retries, or its losses, are used up.
        7 Dead "DEAD",
        /// Ended by a person.
        8 Cancelled "CANCELLED",
    }
}

words! {
    /// Why a task changed its status.
    Reason {
        /// It was submitted.
        0 Created "created",
        /// It was leased to an executor.
        1 Dispatched "dispatched",
        /// Its handler ended well.
        2 Completed "completed",
        /// A person cancelled it.
        3 UserCancel "user_cancel",
        /// A person paused it.
        4 UserPause "user_pause",
        /// A person resumed it.
        5 UserResume "user_resume",
        /// A person had it stopped and started over.
        6 UserReset "user_reset",
        /// A task it waited for ended otherwise than hoped.
        7 DependencyFailed "dependency_failed",
        /// Its payload does not fit its handler.
        8 InvalidInput "invalid_input",
        /// Its handler met an error that another run would not mend.
        9 FatalError "fatal_error",
        /// Its handler met an error that another run may mend.
        10 RetryableError "retryable_error",
        /// It ran longer than it may.
        11 Timeout "timeout",
        /// Its lease ran out while its executor was silent.
        12 LeaseExpired "lease_expired",
        /// Its worker was silent for too long.
        13 WorkerLost "worker_lost",
        /// Its worker is known to be dead.
        14 WorkerCrash "worker_crash",
        /// Its host was started anew.
        15 HostRebooted "host_rebooted",
        /// Its worker shut down and handed it back.
        16 WorkerShutdown "worker_shutdown",
        /// Its executor never started it.
        17 NeverStarted "never_started",
        /// The lease of a lost executor was taken back.
        18 LeaseRevoked "lease_revoked",
        /// A lost executor came back within its lease.
        19 ExecutorReturned "executor_returned",
        /// It failed once more than it may.
        20 RetriesExhausted "retries_exhausted",
        /// It was lost once more than it may.
        21 LostTooOften "lost_too_often",
        /// A later fire of its schedule took its place.
        22 Superseded "superseded",
    }
}

impl Status {
    /// Whether a task in this status has ended for good.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Success | Self::Failed | Self::Dead | Self::Cancelled)
    }

    /// Whether a task in this status holds a lease, or may still have a process.
    pub const fn is_leased(self) -> bool {
        matches!(self, Self::Running | Self::Lost)
    }

    /// Whether a task in this status waits for a dispatch.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Pending | Self::Retrying)
    }

    /// Passes if the table has an edge from this status to `to` for `reason`.
    pub fn check_edge(self, to: Self, reason: Reason) -> Result<(), IllegalEdge> {
        let edge = EDGES.iter().find(|edge| edge.from == self && edge.to == to);
        match edge {
            Some(edge) if edge.reasons.contains(&reason) => Ok(()),
            _ => Err(IllegalEdge { from: self, to, reason }),
        }
    }
}

/// A transition that the table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllegalEdge {
    /// The status before.
    pub from: Status,
    /// The status that was to come after.
    pub to: Status,
    /// The reason that was given.
    pub reason: Reason,
}

impl fmt::Display for IllegalEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no transition from {} to {} for reason {}", self.from, self.to, self.reason)
    }
}

/// One edge of the state machine.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The status before.
    pub from: Status,
    /// The status after.
    pub to: Status,
    /// The reasons for which it may be taken.
    pub reasons: &'static [Reason],
}

const fn edge(from: Status, to: Status, reasons: &'static [Reason]) -> Edge {
    Edge { from, to, reasons }
}

/// The transition table. What is not here is illegal; terminal statuses have no edge.
pub const EDGES: &[Edge] = {
    use Reason as R;
    use Status::{Cancelled, Dead, Failed, Lost, Paused, Pending, Retrying, Running, Success};
    &[
        edge(Pending, Running, &[R::Dispatched]),
        edge(Pending, Cancelled, &[R::UserCancel, R::DependencyFailed, R::Superseded]),
        edge(Pending, Paused, &[R::UserPause]),
        edge(Pending, Failed, &[R::InvalidInput]),
        edge(Running, Success, &[R::Completed]),
        edge(Running, Failed, &[R::FatalError]),
        edge(Running, Retrying, &[R::RetryableError, R::Timeout, R::LeaseExpired]),
        edge(Running, Paused, &[R::UserPause]),
        edge(Running, Cancelled, &[R::UserCancel]),
        edge(Running, Lost, &[R::WorkerLost, R::WorkerCrash, R::HostRebooted]),
        edge(Running, Pending, &[R::WorkerShutdown, R::UserReset, R::NeverStarted]),
        edge(Paused, Pending, &[R::UserResume]),
        edge(Paused, Cancelled, &[R::UserCancel, R::DependencyFailed, R::Superseded]),
        edge(Retrying, Running, &[R::Dispatched]),
        edge(Retrying, Dead, &[R::RetriesExhausted]),
        edge(Retrying, Cancelled, &[R::UserCancel, R::Superseded]),
        edge(Retrying, Paused, &[R::UserPause]),
        edge(Lost, Running, &[R::ExecutorReturned]),
        edge(Lost, Pending, &[R::LeaseRevoked, R::LeaseExpired, R::UserReset]),
        edge(Lost, Dead, &[R::LostTooOften]),
        edge(Lost, Cancelled, &[R::UserCancel]),
        edge(Lost, Paused, &[R::UserPause]),
    ]
};

words! {
    /// How one attempt ended.
    Outcome {
        /// The handler ended well.
        0 Success "success",
        /// An error that another run may mend.
        1 Retryable "retryable",
        /// An error that another run would not mend.
        2 Fatal "fatal",
        /// Stopped for running too long.
        3 TimedOut "timed_out",
        /// Stopped because the task was cancelled.
        4 Cancelled "cancelled",
        /// Stopped because the task was paused.
        5 Paused "paused",
        /// Handed back unfinished.
        6 Released "released",
        /// Its executor was gone.
        7 Lost "lost",
    }
}

words! {
    /// What a person wants of a task that runs. The smaller one wins: cancel before pause before
    /// reset.
    Stop {
        /// End it for good.
        0 Cancel "cancel",
        /// Set it aside, with its checkpoint.
        1 Pause "pause",
        /// Stop it and start it over.
        2 Reset "reset",
    }
}
