//! The rules of recovery: what becomes of leases, workers and retries before anything is served.

use super::{Engine, Output};
use crate::defect::Defect;
use crate::journal::JournalError;
use crate::journal::disk::Disk;
use crate::kernel::Command;
use crate::kernel::event::{Actor, Event, Jump, Started};
use crate::kernel::ids::{Millis, Moment, TaskId, Timestamp, WorkerId};
use crate::kernel::schedule::ScheduleSpec;
use crate::kernel::status::{Reason, Status};
use crate::kernel::text::Text;
use std::collections::BTreeMap;

/// After a start that may have lost ids already handed out, the next one is this much larger.
const SKIP: u64 = 1 << 20;

/// A shorter absence is none, and a smaller step.
const ABSENCE_MIN: Millis = Millis::secs(1);

/// What the host knows when the engine starts.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Version of the program.
    pub version: Text,
    /// Boot id of the running kernel.
    pub boot_id: Text,
    /// `CLOCK_BOOTTIME` at the moment of the start.
    pub boot_clock: Millis,
    /// Whether the journal skipped ahead when it was opened.
    pub skipped_ahead: bool,
    /// Registered workers that are known to be dead: `host_rebooted` or `worker_crash`.
    pub dead: Vec<(WorkerId, Reason)>,
    /// What the wall clock would show without a step since the last record, and what it shows.
    pub stepped: Option<(Timestamp, Timestamp)>,
    /// The schedules of the config; none leaves them as they are.
    pub schedules: Option<BTreeMap<Text, ScheduleSpec>>,
}

impl<D: Disk> Engine<D> {
    /// Settles what the last run left, durably. Only after it may anything be served.
    ///
    /// Workers that are known to be dead lose their leases; after a reboot of the host their tasks
    /// are waiting again at once, otherwise when whatever they started was swept. Retries that are
    /// used up end as DEAD. Living workers keep everything.
    ///
    /// # After a crash
    /// The same is done again, from wherever it stopped.
    pub fn start(&mut self, start: Start, mut now: Moment) -> Result<Vec<Output<D>>, JournalError> {
        let Start { version, boot_id, boot_clock, skipped_ahead, mut dead, stepped, schedules } =
            start;
        if Defect::ExpireInAbsence.is_on() {
            let away = now.life.since(self.state.head().life);
            let over =
                self.state.lease_ends().filter(|(ends, ..)| *ends <= now.service.after(away));
            let holders = over.filter_map(|(_, task, _)| self.state.task(task)?.lease());
            dead.extend(holders.map(|lease| (lease.worker, Reason::WorkerLost)));
        }
        let known = self.state.next_task().0.max(1);
        let skips = skipped_ahead && !Defect::ReuseTaskIds.is_on();
        let next_task = TaskId(known.saturating_add(if skips { SKIP } else { 0 }));
        let jump = self.absence(now);
        let stepped = stepped.or_else(|| self.put_back(now));
        let started = Started { version, boot_id, boot_clock, next_task, jump };
        self.record(vec![Event::Started(started)], &Actor::Daemon, now)?;
        for (worker, reason) in dead {
            let held: Vec<_> = self.state.held(worker).map(|task| task.id).collect();
            let died = Command::Died { worker, reason };
            self.carry_out(&died, &Actor::Daemon, &mut now).map(drop)?;
            if reason == Reason::HostRebooted {
                self.take_back(&held, &mut now)?;
            }
        }
        self.bury_the_exhausted(&mut now)?;
        if let Some((from, to)) = stepped {
            let step = Command::StepClock { from, to };
            self.carry_out(&step, &Actor::Daemon, &mut now).map(drop)?;
        }
        if let Some(wanted) = schedules {
            self.refused_schedules = self.arrange(&wanted, &mut now)?;
        }
        let workers: Vec<_> = self.state.workers().map(|worker| worker.id).collect();
        self.heard.extend(workers.into_iter().map(|worker| (worker, now.service)));
        self.commit()?;
        // Under any policy: the next start skips ahead from the ids that this one durably names.
        self.journal.sync()?;
        Ok(std::mem::take(&mut self.outbox))
    }

    /// The stretch of wall time since the last record: should the clock be put back into it, then
    /// it was wrong at this start.
    fn absence(&self, now: Moment) -> Option<Jump> {
        let from = self.state.head().wall;
        let long = from.after(ABSENCE_MIN) <= now.wall && self.rules.plausible_since <= from;
        long.then_some(Jump { from, to: now.wall })
    }

    /// A wall clock that shows less than the last record is a step that nobody saw: after a reboot
    /// there is no other clock to tell it.
    fn put_back(&self, now: Moment) -> Option<(Timestamp, Timestamp)> {
        let last = self.state.head().wall;
        (now.wall.after(ABSENCE_MIN) <= last).then_some((last, now.wall))
    }

    /// After a reboot nothing of an attempt can live: no sweep is needed.
    fn take_back(&mut self, held: &[TaskId], now: &mut Moment) -> Result<(), JournalError> {
        for task in held {
            let lease = self.state.task(*task).and_then(|task| task.lease());
            let Some(fence) = lease.map(|lease| lease.fence) else { continue };
            let over = Command::Expire { task: *task, fence, ran: true };
            self.carry_out(&over, &Actor::Daemon, now).map(drop)?;
        }
        Ok(())
    }

    fn bury_the_exhausted(&mut self, now: &mut Moment) -> Result<(), JournalError> {
        let retrying = self.state.with_status(Status::Retrying);
        let exhausted = retrying.filter(|task| task.max_retry < task.retry_count);
        let exhausted: Vec<_> = exhausted.map(|task| task.id).collect();
        for task in exhausted {
            self.carry_out(&Command::Bury(task), &Actor::Daemon, now).map(drop)?;
        }
        Ok(())
    }
}
