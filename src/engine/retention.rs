//! Ended tasks leave: by age, and by number, those that ended first at the front.
//!
//! Nothing is scheduled. At the beginning of a turn the state says which tasks need not stay any
//! longer, and one bounded record lets them go; a task that ended in this very turn is therefore
//! published first. With an archive they are handed out before, and go when it is known that they
//! are written there.

use super::{Engine, Output};
use crate::journal::JournalError;
use crate::journal::disk::Disk;
use crate::kernel::Command;
use crate::kernel::event::Actor;
use crate::kernel::ids::{LifeTime, Millis, Moment, TaskId};
use crate::kernel::rules::Retention;
use crate::limits::{ARCHIVED_AT_ONCE_MAX, FORGOTTEN_PER_RECORD_MAX};

/// Tasks that come of age one by one go together, at most this often, so that an idle host
/// sleeps. A surplus of a whole record does not wait.
const TOGETHER: Millis = Millis::secs(60);

/// How long to wait after the archive could not be written.
const ARCHIVE_AGAIN: Millis = Millis::secs(60);

/// Where retention stands. Kept here, not in the state: after a restart it begins anew.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Not before this reading of the life clock, unless the surplus fills a record.
    from: LifeTime,
    /// Tasks are being written to the archive.
    archiving: bool,
    /// Why the archive could not be written, and when it is tried again.
    trouble: Option<(String, LifeTime)>,
}

impl Leaving {
    /// Whether it is time to look for tasks that may go.
    fn is_time(&self, surplus: usize, now: LifeTime) -> bool {
        let later = self.trouble.as_ref().is_some_and(|(_, again)| now < *again);
        let together = self.from <= now || FORGOTTEN_PER_RECORD_MAX <= surplus;
        !self.archiving && !later && together
    }
}

impl<D: Disk> Engine<D> {
    /// Lets tasks go that need not stay any longer, or hands them to the archive.
    pub(super) fn let_go(&mut self, now: &mut Moment) -> Result<(), JournalError> {
        let retention = self.rules.retention;
        if !self.leaving.is_time(self.state.surplus(&retention), now.life) {
            return Ok(());
        }
        let max = if retention.archive { ARCHIVED_AT_ONCE_MAX } else { FORGOTTEN_PER_RECORD_MAX };
        let tasks = self.state.outlived(&retention, now.life, max);
        if tasks.is_empty() {
            return Ok(());
        }
        if retention.archive {
            let tasks = tasks.iter().filter_map(|id| self.state.task(*id)).cloned().collect();
            self.leaving.archiving = true;
            self.held.push(Output::Archive(tasks));
            return Ok(());
        }
        self.forget(tasks, max, now)
    }

    /// The archive has the tasks, or could not take them.
    pub(super) fn archived(
        &mut self,
        tasks: Vec<TaskId>,
        written: Result<(), String>,
        now: &mut Moment,
    ) -> Result<(), JournalError> {
        self.leaving.archiving = false;
        match written {
            Ok(()) => {
                self.leaving.trouble = None;
                self.forget(tasks, ARCHIVED_AT_ONCE_MAX, now)
            }
            Err(why) => {
                self.leaving.trouble = Some((why, now.life.after(ARCHIVE_AGAIN)));
                Ok(())
            }
        }
    }

    /// Decides that tasks go. Where there were as many as go at once there may be more, and a turn
    /// follows at once.
    fn forget(
        &mut self,
        tasks: Vec<TaskId>,
        max: usize,
        now: &mut Moment,
    ) -> Result<(), JournalError> {
        let more = tasks.len() == max;
        if !more {
            self.leaving.from = now.life.after(TOGETHER);
        }
        self.again |= more;
        self.carry_out(&Command::Forget(tasks), &Actor::Daemon, now).map(drop)
    }

    /// When a task must be let go next; none while the archive is at work.
    pub(super) fn next_leave(&self) -> Option<LifeTime> {
        let retention: &Retention = &self.rules.retention;
        let due = self.state.next_outlived(retention).filter(|_| !self.leaving.archiving)?;
        let again = self.leaving.trouble.as_ref().map_or(LifeTime(0), |(_, again)| *again);
        Some(due.max(self.leaving.from).max(again))
    }

    /// Why the archive could not be written when it was last tried.
    pub fn archive_trouble(&self) -> Option<&str> {
        self.leaving.trouble.as_ref().map(|(why, _)| why.as_str())
    }
}
