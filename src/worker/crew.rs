//! Who carries a worker's attempts out: processes that it starts, or threads of its own.

use super::context::Handler;
use super::handler::{EXEC, HandlerSpec};
use super::threads::ThreadStarted;
use crate::api::{Lease, ProcessId};
use crate::kernel::status::Outcome;
use crate::process::{Adoption, Spawner, Started};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

/// The handlers of a worker, and what it takes to run them.
pub(super) enum Crew {
    /// Commands.
    Processes(Processes),
    /// Code of the program that this worker is part of.
    Threads(BTreeMap<String, Arc<dyn Handler>>),
}

/// What it takes to run commands.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) handlers: BTreeMap<String, HandlerSpec>,
    /// The worker's own environment.
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) spawner: Spawner,
    pub(super) adoption: Adoption,
    /// Whether handlers get control groups.
    pub(super) has_groups: bool,
}

/// How one attempt is run.
pub(super) enum Work {
    Command(Box<HandlerSpec>),
    Code(Arc<dyn Handler>),
}

/// An attempt that has begun.
#[derive(Debug)]
pub(super) enum Begun {
    Process(Started),
    Thread(ThreadStarted),
}

impl Begun {
    pub(super) const fn process(&self) -> &ProcessId {
        match self {
            Self::Process(started) => &started.process,
            Self::Thread(started) => &started.process,
        }
    }
}

impl Crew {
    /// The types that it can run.
    pub(super) fn types(&self) -> Vec<String> {
        match self {
            Self::Processes(crew) => crew.handlers.keys().cloned().collect(),
            Self::Threads(handlers) => handlers.keys().cloned().collect(),
        }
    }

    /// Takes up other commands. Code of a program is what it was compiled to.
    pub(super) fn take_up(&mut self, mut handlers: BTreeMap<String, HandlerSpec>) {
        if let Self::Processes(crew) = self {
            handlers.entry(EXEC.into()).or_default();
            crew.handlers = handlers;
        }
    }

    /// How a leased task is run; the error is the end of the attempt.
    pub(super) fn work(&self, lease: &Lease) -> Result<Work, (Outcome, String)> {
        let work = match self {
            Self::Processes(_) if lease.kind == EXEC => {
                let spec = HandlerSpec::of_exec(lease.payload.get());
                return spec
                    .map(|spec| Work::Command(Box::new(spec)))
                    .map_err(|why| (Outcome::Fatal, why));
            }
            Self::Processes(crew) => {
                let spec = crew.handlers.get(&lease.kind);
                spec.map(|spec| Work::Command(Box::new(spec.clone())))
            }
            Self::Threads(handlers) => handlers.get(&lease.kind).cloned().map(Work::Code),
        };
        work.ok_or_else(|| {
            (Outcome::Retryable, format!("this worker has no handler for `{}`", lease.kind))
        })
    }

    /// What it takes to run commands, where it does.
    pub(super) const fn processes(&self) -> Option<&Processes> {
        match self {
            Self::Processes(crew) => Some(crew),
            Self::Threads(_) => None,
        }
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Crew").field(&self.types()).finish()
    }
}
