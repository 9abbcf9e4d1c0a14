//! Two small tables: what a person's command does in each status, and what becomes of a task
//! when its attempt ends while a stop is pending. `spec/states.md` prints both.

use super::status::{Outcome, Reason, Status, Stop};

/// What a person may ask of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// End it for good.
    Cancel,
    /// Set it aside.
    Pause,
    /// Take it up again.
    Resume,
    /// Run an ended one again, as a new task.
    Retry,
    /// Make a waiting one due at once.
    RunNow,
    /// Stop a running one and start it over.
    Reset,
    /// Change a waiting one.
    Edit,
}

impl Verb {
    /// Every verb.
    pub const ALL: &'static [Self] = &[
        Self::Cancel,
        Self::Pause,
        Self::Resume,
        Self::Retry,
        Self::RunNow,
        Self::Reset,
        Self::Edit,
    ];

    /// The word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Retry => "retry",
            Self::RunNow => "run-now",
            Self::Reset => "reset",
            Self::Edit => "edit",
        }
    }

    /// The status that it is meant to lead to, where it is meant to lead to one.
    pub const fn leads_to(self) -> Option<Status> {
        match self {
            Self::Cancel => Some(Status::Cancelled),
            Self::Pause => Some(Status::Paused),
            Self::Resume | Self::Retry | Self::Reset => Some(Status::Pending),
            Self::RunNow => Some(Status::Running),
            Self::Edit => None,
        }
    }
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The task changes its status at once.
    Move(Status, Reason),
    /// The executor is asked to stop; the task changes its status when the attempt ends.
    Ask(Stop),
    /// The task becomes due at once.
    Hurry,
    /// A new task is made.
    Anew,
    /// The task changes and keeps its status.
    Change,
    /// It is so already: nothing changes, and that is no error.
    Already,
    /// It cannot be done.
    Refuse,
}

/// The table of every status and every command.
pub const fn verdict(status: Status, verb: Verb) -> Verdict {
    use Status::{Cancelled, Dead, Failed, Lost, Paused, Pending, Retrying, Running, Success};
    match (verb, status) {
        (Verb::Cancel, Pending | Paused | Retrying) => Verdict::Move(Cancelled, Reason::UserCancel),
        (Verb::Cancel, Running | Lost) => Verdict::Ask(Stop::Cancel),
        (Verb::Pause, Pending | Retrying) => Verdict::Move(Paused, Reason::UserPause),
        (Verb::Pause, Running | Lost) => Verdict::Ask(Stop::Pause),
        (Verb::Cancel, Cancelled) | (Verb::Pause, Paused) => Verdict::Already,
        (Verb::Resume, Paused) => Verdict::Move(Pending, Reason::UserResume),
        (Verb::Retry, Success | Failed | Dead | Cancelled) => Verdict::Anew,
        (Verb::RunNow, Pending | Retrying) => Verdict::Hurry,
        (Verb::Reset, Running | Lost) => Verdict::Ask(Stop::Reset),
        (Verb::Edit, Pending | Paused | Retrying) => Verdict::Change,
        (Verb::Cancel, Success | Failed | Dead)
        | (Verb::Pause, Success | Failed | Dead | Cancelled)
        | (
            Verb::Resume,
            Pending | Running | Retrying | Lost | Success | Failed | Dead | Cancelled,
        )
        | (Verb::Retry, Pending | Running | Paused | Retrying | Lost)
        | (Verb::RunNow, Running | Paused | Lost | Success | Failed | Dead | Cancelled)
        | (Verb::Reset, Pending | Paused | Retrying | Success | Failed | Dead | Cancelled)
        | (Verb::Edit, Running | Lost | Success | Failed | Dead | Cancelled) => Verdict::Refuse,
    }
}

/// How an attempt came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The handler ended well.
    Success,
    /// The handler met an error that another run may mend.
    Retryable,
    /// The handler met an error that another run would not mend.
    Fatal,
    /// The handler was stopped for running too long.
    TimedOut,
    /// The handler obeyed a stop that a person had asked for.
    Obeyed,
    /// The worker shut down and handed it back.
    Released,
    /// The worker handed it back without having started it.
    NeverStarted,
    /// The lease ran out; whatever ran is known to be dead.
    LeaseExpired,
    /// The executor was lost; whatever ran is known to be dead.
    Lost,
}

impl Way {
    /// Every way.
    pub const ALL: &'static [Self] = &[
        Self::Success,
        Self::Retryable,
        Self::Fatal,
        Self::TimedOut,
        Self::Obeyed,
        Self::Released,
        Self::NeverStarted,
        Self::LeaseExpired,
        Self::Lost,
    ];
}

/// Where a task goes: its status, why, and how the attempt is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destiny {
    /// The status it takes.
    pub to: Status,
    /// Why.
    pub reason: Reason,
    /// The attempt's outcome.
    pub outcome: Outcome,
}

/// The table of every pending stop and every way an attempt can end.
///
/// A success stands whatever was asked. An error that another run would not mend stands too: it
/// says more than the stop. In all else the stop is obeyed: cancel before pause before retry.
/// RETRYING may go on to DEAD in the same frame, and so may a loss.
pub const fn destiny(stop: Option<Stop>, way: Way) -> Destiny {
    let (to, reason, outcome) = match (way, stop) {
        (Way::Success, _) => (Status::Success, Reason::Completed, Outcome::Success),
        (Way::Fatal, _) => (Status::Failed, Reason::FatalError, Outcome::Fatal),
        (_, Some(Stop::Cancel)) => (Status::Cancelled, Reason::UserCancel, Outcome::Cancelled),
        (_, Some(Stop::Pause)) => (Status::Paused, Reason::UserPause, Outcome::Paused),
        (_, Some(Stop::Reset)) => (Status::Pending, Reason::UserReset, Outcome::Released),
        (Way::Retryable, None) => (Status::Retrying, Reason::RetryableError, Outcome::Retryable),
        (Way::TimedOut, None) => (Status::Retrying, Reason::Timeout, Outcome::TimedOut),
        (Way::Obeyed | Way::Released, None) => {
            (Status::Pending, Reason::WorkerShutdown, Outcome::Released)
        }
        (Way::NeverStarted, None) => (Status::Pending, Reason::NeverStarted, Outcome::Released),
        (Way::LeaseExpired, None) => (Status::Retrying, Reason::LeaseExpired, Outcome::Lost),
        (Way::Lost, None) => (Status::Pending, Reason::LeaseRevoked, Outcome::Lost),
    };
    Destiny { to, reason, outcome }
}
