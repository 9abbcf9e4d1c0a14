//! Waiting for a daemon that is away for a moment: an engine that starts again after a fault, or
//! is replaced by a newer one, must not end what only looks on.

use super::failure::{Failure, exit};
use super::session::Session;
use crate::kernel::ids::Timestamp;
use crate::units;
use std::time::Duration;

/// How long a command that waits or follows lets the daemon be away. The supervisor's longest
/// pause between two starts is shorter.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

/// How often it is looked for.
const EVERY: Duration = Duration::from_millis(300);

/// What is known of an absence.
#[derive(Debug, Default)]
pub(super) struct Patience {
    since: Option<Timestamp>,
}

impl Patience {
    /// Does `ask` until it is answered: an absence is told on stderr, and so is its end.
    pub(super) fn ask<T>(
        &mut self,
        session: &mut Session<'_>,
        mut ask: impl FnMut(&Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            match ask(session) {
                Ok(answer) => {
                    self.is_back(session);
                    return Ok(answer);
                }
                Err(failure) => self.bear(failure, session)?,
            }
        }
    }

    /// Waits a little after a failure, where that may help; else it is the caller's.
    pub(super) fn bear(
        &mut self,
        failure: Failure,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        if failure.code() != exit::UNREACHABLE {
            return Err(failure);
        }
        let now = crate::clock::wall();
        let since = *self.since.get_or_insert(now);
        if session.patience.as_millis() <= u128::from(now.since(since).0) {
            return Err(failure);
        }
        if since == now {
            session.note(&format!("{}; waiting for it", failure.what()));
        }
        // Nobody wakes a command that has one thread.
        std::thread::park_timeout(EVERY);
        Ok(())
    }

    /// The daemon was heard.
    pub(super) fn is_back(&mut self, session: &mut Session<'_>) {
        if let Some(since) = self.since.take() {
            let away = units::rough_span(crate::clock::wall().since(since));
            session.note(&format!("the daemon answers again, after {away}"));
        }
    }
}
