//! Errors as RFC 9457 problem documents, each with a stable code.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A refusal, as the body of an HTTP answer (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Stable code; programs match on this.
    pub code: Code,
    /// Short form of the code for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, with the ids and both states where there are two.
    pub detail: String,
    /// What to do next, often a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Problem {
    /// A problem with the title and status that belong to `code`.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            help: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $member:ident $word:literal $status:literal $exit:literal $title:literal),* $(,)?) => {
        /// Why a request was refused: the word in `code`, the HTTP status, the exit code of the
        /// command line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Code { $($(#[$doc])* #[serde(rename = $word)] $member),* }

        impl Code {
            /// Every code, for the documents and their test.
            pub const ALL: &'static [Self] = &[$(Self::$member),*];
            /// The stable word.
            pub const fn word(self) -> &'static str { match self { $(Self::$member => $word),* } }
            /// The HTTP status it travels with.
            pub const fn status(self) -> u16 { match self { $(Self::$member => $status),* } }
            /// The exit code a client ends with.
            pub const fn exit(self) -> u8 { match self { $(Self::$member => $exit),* } }
            /// The code in words.
            pub const fn title(self) -> &'static str { match self { $(Self::$member => $title),* } }
        }
    };
}

codes! {
    /// The request is not of the form that the route takes.
    InvalidRequest "invalid_request" 400 2 "The request is malformed",
    /// The payload is not JSON, too deep, or too large.
    InvalidPayload "invalid_payload" 422 2 "The payload is not acceptable",
    /// No such route.
    NoSuchRoute "no_such_route" 404 2 "There is nothing at this address",
    /// No task with that id.
    NoSuchTask "no_such_task" 404 3 "There is no such task",
    /// No handler for that type.
    NoSuchType "no_such_type" 404 3 "There is no such task type",
    /// No worker with that id; it must register anew.
    NoSuchWorker "no_such_worker" 404 3 "There is no such worker",
    /// No schedule of that name.
    NoSuchSchedule "no_such_schedule" 404 3 "There is no such schedule",
    /// No webhook of that name.
    NoSuchHook "no_such_hook" 404 3 "There is no such hook",
    /// No log for that attempt.
    NoSuchLog "no_such_log" 404 3 "There is no such log",
    /// The task's status does not allow it.
    WrongStatus "wrong_status" 409 4 "The task's status does not allow this",
    /// There is a schedule of that name, or the config owns it.
    ScheduleConflict "schedule_conflict" 409 4 "The schedule does not allow this",
    /// The idempotency key names a task with another type or payload.
    KeyConflict "key_conflict" 409 4 "The key belongs to another submission",
    /// The lease is no longer the caller's.
    StaleLease "stale_lease" 409 4 "The lease is no longer valid",
    /// No token that is known came with a request by TCP.
    NoToken "no_token" 401 7 "A token is needed",
    /// A browser asked under a name that is not ours.
    WrongHost "wrong_host" 421 7 "This is not the host that was asked for",
    /// A page of another site asked.
    CrossSite "cross_site" 403 7 "Other sites may not ask",
    /// A webhook is not signed, or not as its hook expects.
    BadSignature "bad_signature" 401 7 "The signature is not valid",
    /// The caller's role does not allow it.
    NotPermitted "not_permitted" 403 7 "Not permitted",
    /// A limit would be passed.
    OverLimit "over_limit" 429 7 "A limit would be passed",
    /// The queue is full.
    Busy "busy" 503 7 "The daemon is busy",
    /// The disk is full.
    NoSpace "no_space" 507 7 "The disk is full",
    /// The daemon is going away; whether the request was carried out is not known.
    OutcomeUnknown "outcome_unknown" 500 8 "The outcome is unknown",
    /// The daemon is shutting down and did nothing.
    ShuttingDown "shutting_down" 503 5 "The daemon is shutting down",
}
