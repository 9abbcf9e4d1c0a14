//! What waits for tasks that have ended moves on.
//!
//! Nothing is scheduled: the state says which tasks have ended and still have somebody waiting. A
//! turn takes those that were there when it came to them, so a chain of waiting tasks moves one
//! link a turn and never fills a frame.

use super::Engine;
use crate::journal::JournalError;
use crate::journal::disk::Disk;
use crate::kernel::Command;
use crate::kernel::event::Actor;
use crate::kernel::ids::Moment;

/// Ended tasks that are looked at in one turn.
const SETTLED_PER_TURN_MAX: usize = 16;

impl<D: Disk> Engine<D> {
    /// Decides what follows from the ends of tasks for those that wait for them.
    pub(super) fn settle(&mut self, now: &mut Moment) -> Result<(), JournalError> {
        let settled = self.state.index().settled.iter().take(SETTLED_PER_TURN_MAX);
        let settled: Vec<_> = settled.copied().collect();
        for of in settled {
            self.carry_out(&Command::Settle(of), &Actor::Daemon, now).map(drop)?;
        }
        self.again |= !self.state.index().settled.is_empty();
        Ok(())
    }
}
