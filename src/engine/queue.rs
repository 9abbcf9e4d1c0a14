//! What happens by the passing of time: leases that end, workers that fall silent, snapshots.

use super::{Engine, Output, Wake};
use crate::defect::Defect;
use crate::journal::disk::Disk;
use crate::journal::{JournalError, SnapshotDone};
use crate::kernel::event::{Actor, Standing};
use crate::kernel::ids::{LifeTime, Millis, Moment, ServiceTime, WorkerId};
use crate::kernel::{Command, Worker};

/// Sweeps under way at once; more ended leases wait their turn.
const SWEEPS_MAX: usize = 64;

fn millis(span: std::time::Duration) -> Millis {
    Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

impl<D: Disk> Engine<D> {
    /// Decides what the clocks alone bring about, in bounded steps.
    pub(super) fn time_passes(&mut self, now: &mut Moment) -> Result<(), JournalError> {
        if Defect::LeaseBeforeSweep.is_on() {
            let over: Vec<_> = self.state.ended_leases(now.service).collect();
            for (task, fence) in over {
                let command = Command::Expire { task, fence, ran: true };
                self.carry_out(&command, &Actor::Daemon, now).map(drop)?;
            }
        }
        self.sweep_ended_leases(now.service);
        for (worker, standing) in self.silent_workers(now.service) {
            let command = Command::Silent { worker, standing };
            self.carry_out(&command, &Actor::Daemon, now).map(drop)?;
        }
        Ok(())
    }

    /// Asks for a sweep of each lease that is over. The task moves on when the sweep is done, so
    /// that no two attempts of it ever run at the same time.
    fn sweep_ended_leases(&mut self, now: ServiceTime) {
        let over = self.state.ended_leases(now).take(SWEEPS_MAX);
        let fresh: Vec<_> = over.filter(|lease| !self.sweeping.contains(lease)).collect();
        for (task, fence) in fresh {
            self.sweeping.insert((task, fence));
            self.held.push(Output::Sweep { task, fence });
        }
    }

    /// When a worker's standing must be looked at next, and what it is then.
    fn next_standing(&self, worker: &Worker) -> Option<(ServiceTime, Standing)> {
        let heard = self.heard.get(&worker.id).copied().unwrap_or_default();
        match worker.standing {
            Standing::Alive => Some((heard.after(self.rules.suspect_after), Standing::Suspect)),
            Standing::Suspect => Some((heard.after(self.rules.offline_after), Standing::Offline)),
            Standing::Offline | Standing::Gone => None,
        }
    }

    fn silent_workers(&self, now: ServiceTime) -> Vec<(WorkerId, Standing)> {
        let looks = self.state.workers().filter_map(|worker| {
            let (at, standing) = self.next_standing(worker)?;
            (at <= now).then_some((worker.id, standing))
        });
        looks.collect()
    }

    /// When the engine must be called next although nobody says anything.
    pub fn next_wake(&self) -> Wake {
        let standing = self.state.workers().filter_map(|worker| self.next_standing(worker));
        let lease_end = self.next_lease_end();
        let service = standing.map(|(at, _)| at).chain(lease_end).chain(self.flush_at).min();
        let (due, at) = self.state.next_due();
        let (planned, fire_again) = self.next_fire();
        let sync = self.sync_left.map(|left| self.turned.after(millis(left)));
        let waits = due.into_iter().chain(self.first_patience()).chain(sync).chain(fire_again);
        let life = waits.chain(self.next_rate_free()).min();
        let wall = at.into_iter().chain(planned).min();
        Wake { service, life, wall, unhurried: self.next_leave(), now: self.again }
    }

    /// When a rate lets another task go to those who wait for work.
    fn next_rate_free(&self) -> Option<LifeTime> {
        let free = || self.state.next_rate_free(&self.rules, self.turned);
        if self.waiters.is_empty() { None } else { free() }
    }

    /// The first end of a lease that is not being swept already.
    fn next_lease_end(&self) -> Option<ServiceTime> {
        let ends = self.state.lease_ends();
        let mut waiting = ends.filter(|(_, task, fence)| !self.sweeping.contains(&(*task, *fence)));
        waiting.next().map(|(ends, _, _)| ends)
    }

    /// Takes a snapshot when enough was written since the last one: at least the configured
    /// amount, and at least twice what the last snapshot took, so that a large state is not
    /// written over and over.
    pub(super) fn snapshot_when_due(&mut self) -> Result<(), JournalError> {
        let written = self.journal.bytes_since_snapshot();
        let due = self.snapshot_after.max(self.snapshot_bytes.saturating_mul(2));
        if self.snapshot_running || written < due {
            return Ok(());
        }
        // The image must not be ahead of the journal.
        self.commit()?;
        let writer = match self.journal.snapshot_writer() {
            Err(error) if error.is_full() => return self.snapshot_written(Err(error)),
            writer => Box::new(writer?),
        };
        self.snapshot_running = true;
        let image = Box::new(self.state.image());
        self.outbox.push(Output::Snapshot { image, writer });
        Ok(())
    }

    /// A snapshot that could not be written is no loss but of time: the journal holds everything.
    pub(super) fn snapshot_written(
        &mut self,
        written: Result<SnapshotDone, JournalError>,
    ) -> Result<(), JournalError> {
        self.snapshot_running = false;
        match written {
            Ok(done) => {
                self.snapshot_bytes = done.bytes;
                self.journal.snapshot_done(done)
            }
            Err(error) if error.is_full() => {
                self.snapshot_after = self.snapshot_after.saturating_mul(2);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// How long a worker has been silent.
    pub fn silence(&self, worker: WorkerId, now: ServiceTime) -> Millis {
        now.since(self.heard.get(&worker).copied().unwrap_or(now))
    }
}
