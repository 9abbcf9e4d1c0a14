//! Schedules fire when their planned times come, and the wall clock's steps go on record.
//!
//! Nothing is scheduled here: the state says which schedule is next, each decision covers what has
//! passed of it up to a bound, and a turn takes a bounded number of decisions. While there is no
//! room for new tasks the planned times wait; what is then longer ago than its grace is missed, on
//! record.

use super::Engine;
use crate::journal::JournalError;
use crate::journal::disk::Disk;
use crate::kernel::event::Actor;
use crate::kernel::ids::{LifeTime, Millis, Moment, Timestamp};
use crate::kernel::schedule::{Origin, ScheduleSpec};
use crate::kernel::text::Text;
use crate::kernel::{Command, Rejection, ScheduleAct};
use std::collections::{BTreeMap, BTreeSet};

/// Decisions on schedules in one turn.
const FIRES_PER_TURN_MAX: usize = 256;

/// How long to wait when a fire found no room for its task.
const FIRE_AGAIN: Millis = Millis::secs(10);

/// Schedules that are passed over for want of room, at most; with more, none is tried for a while.
const HELD_MAX: usize = 64;

/// Where firing stands. Kept here, not in the state: after a restart it is tried at once.
#[derive(Debug, Default)]
pub(super) struct Firing {
    /// Schedules whose task found no room; they hold no other up.
    held: BTreeSet<Text>,
    /// When they are tried again, on the life clock.
    again: LifeTime,
    /// Whether the wall clock could not be believed at the last turn.
    doubtful: bool,
}

impl<D: Disk> Engine<D> {
    /// Decides the planned times that have come.
    pub(super) fn fire_schedules(&mut self, now: &mut Moment) -> Result<(), JournalError> {
        self.firing.doubtful = now.doubtful;
        if self.firing.again <= now.life {
            self.firing.held.clear();
        }
        for _ in 0..FIRES_PER_TURN_MAX {
            if HELD_MAX <= self.firing.held.len() {
                return Ok(());
            }
            let next = self.state.next_fire(*now, &self.firing.held);
            let Some(name) = next.cloned() else { return Ok(()) };
            let fired = self.carry_out(&Command::Fire(name.clone()), &Actor::Daemon, now)?;
            if fired.is_err() {
                if self.firing.held.is_empty() {
                    self.firing.again = now.life.after(FIRE_AGAIN);
                }
                self.firing.held.insert(name);
            }
        }
        self.again = true;
        Ok(())
    }

    /// When a planned time comes next, by the wall clock; and when to try again after there was no
    /// room.
    pub(super) fn next_fire(&self) -> (Option<Timestamp>, Option<LifeTime>) {
        let Firing { held, again, doubtful } = &self.firing;
        let planned = self.state.next_planned(*doubtful, held).filter(|_| held.len() < HELD_MAX);
        (planned, (!held.is_empty()).then_some(*again))
    }

    /// Makes the schedules of the config what the config says: those it names are set, those it
    /// named before are removed. What is unchanged is not touched, so nothing that is due is lost.
    ///
    /// Returns what could not be set, by name.
    pub(super) fn arrange(
        &mut self,
        wanted: &BTreeMap<Text, ScheduleSpec>,
        now: &mut Moment,
    ) -> Result<Vec<(Text, Rejection)>, JournalError> {
        let mut refused = Vec::new();
        for (name, act) in arrangement(&self.state, wanted) {
            let command = Command::ActOnSchedule { name: name.clone(), act };
            let answer = self.carry_out(&command, &Actor::Daemon, now)?;
            refused.extend(answer.err().map(|why| (name, why)));
        }
        Ok(refused)
    }
}

/// What is to be done so that the schedules of the config are those `wanted`.
pub fn arrangement(
    state: &crate::kernel::State,
    wanted: &BTreeMap<Text, ScheduleSpec>,
) -> Vec<(Text, ScheduleAct)> {
    let gone = state.schedules().filter(|schedule| {
        schedule.origin == Origin::Config && !wanted.contains_key(&schedule.name)
    });
    let gone = gone
        .map(|schedule| (schedule.name.clone(), ScheduleAct::Remove { origin: Origin::Config }));
    let new = wanted.iter().filter(|(name, spec)| {
        let known = state.schedule(name);
        known.is_none_or(|known| known.origin != Origin::Config || *known.spec != **spec)
    });
    let new = new.map(|(name, spec)| {
        let spec = Box::new(spec.clone());
        (name.clone(), ScheduleAct::Set { spec, origin: Origin::Config, replace: true })
    });
    gone.chain(new).collect()
}
