//! Starts of the simulated engine, and its ends.

use super::worker::Worker;
use super::world::{World, is_the_machines, options};
use crate::engine::{Engine, Start, digest};
use crate::journal::{Fsync, Host, TailClass};
use crate::kernel::ids::{Fence, Millis, ServiceTime, TaskId, WorkerId};
use crate::kernel::status::Reason;
use crate::kernel::{Head, State};

impl World {
    /// Starts the engine on whatever is on the disk, now and then twice from the same bytes.
    pub(super) fn start(&mut self) {
        let host = Host { machine_id: [7; 16], boot_id: [3; 16], random: self.dice.word() };
        let options = options(self.weather.fsync);
        let before = self.disk.fork();
        let opened = Engine::open(self.disk.clone(), options, host, self.rules.clone());
        let (mut engine, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) if error.is_full() || (self.is_ill() && is_the_machines(&error)) => {
                // The machine failed again during recovery: that must do no harm either.
                self.fail_over();
                return;
            }
            Err(error) => panic!("recovery refused what a crash can leave: {error}"),
        };
        if self.dice.one_in(4) {
            let found = digest(&engine.state().image());
            let host = Host { random: self.dice.word(), ..host };
            let (again, _) =
                Engine::open(before, options, host, self.rules.clone()).expect("recovers again");
            assert_eq!(digest(&again.state().image()), found, "I4: recovered twice, differently");
        }
        let archive = self.rules.retention.archive;
        let last = self.account.last();
        let lost = self.account.recovered(engine.state(), self.may_lose, archive);
        self.types.recovered(engine.state(), last);
        self.fairness.recovered(engine.state(), last);
        self.may_lose = false;
        self.deeds.losses += u64::from(lost);
        let suspicious = matches!(recovery.tail, TailClass::Suspicious { .. });
        self.deeds.suspicious += u64::from(suspicious);
        engine.state().check().expect("I3: the derived sets follow from the tasks");
        let head = engine.state().head().clone();
        self.resume_clocks(&head);
        engine.set_snapshot_after(24 << 10);
        let dead = self.verdicts(engine.state());
        let living = leases_beside(engine.state(), &dead);
        let start = Start {
            version: "sim".into(),
            boot_id: format!("boot {}", self.clocks.boot_id).into(),
            boot_clock: Millis(self.clocks.boot),
            skipped_ahead: recovery.skipped_ahead,
            dead: dead.clone(),
            ..Start::default()
        };
        let now = self.now();
        match engine.start(start, now) {
            Ok(outputs) => {
                let kept = leases_beside(engine.state(), &dead);
                assert_eq!(kept, living, "a start takes leases from living workers");
                self.engine = Some(engine);
                self.publish(outputs);
            }
            Err(_) => self.fail_over(),
        }
    }

    /// The life clock goes on from the last start within one boot, from the last record after a
    /// reboot; the service clock always goes on from the last record.
    fn resume_clocks(&mut self, head: &Head) {
        self.clocks.service = head.service.0;
        let boot_id = format!("boot {}", self.clocks.boot_id);
        self.clocks.life = match &head.started {
            Some(started) if *started.boot_id == *boot_id => {
                let since = self.clocks.boot.saturating_sub(started.boot_clock.0);
                head.started_life.0 + since
            }
            _ => head.life.0,
        };
    }

    /// Which registered workers are known to be dead.
    fn verdicts(&self, state: &State) -> Vec<(WorkerId, Reason)> {
        let mut dead = Vec::new();
        for worker in state.workers() {
            let boot = worker.registration.process.boot_id != format!("{}", self.clocks.boot_id);
            let lives = self.workers.iter().any(|w| w.lock == worker.registration.lock.to_string());
            if boot {
                dead.push((worker.id, Reason::HostRebooted));
            } else if !lives {
                dead.push((worker.id, Reason::WorkerCrash));
            }
        }
        dead
    }

    /// The engine's process ends at once; whoever waits learns nothing.
    pub(super) fn engine_dies(&mut self) {
        self.engine = None;
        self.sweeps.clear();
        self.archiving.clear();
        self.snapshots.clear();
        self.account.engine_gone();
        for worker in &mut self.workers {
            worker.answers_lost();
        }
        self.deeds.restarts += 1;
    }

    /// The engine is killed; what it wrote stays in the cache of the kernel.
    pub(super) fn engine_is_killed(&mut self) {
        self.engine_dies();
        self.disk = self.disk.restarted();
        self.renew_disk();
    }

    /// After a failure of the disk or the machine: the engine is gone; the machine may be too.
    /// Under a weak policy it always is: the leases that a failed sync may have lost would
    /// otherwise go on without a record.
    pub(super) fn fail_over(&mut self) {
        self.deeds.disk_failures += u64::from(self.faults_planned);
        let weak = self.weather.fsync != Fsync::Always;
        if weak || self.disk.is_off() || self.dice.one_in(2) {
            self.engine_dies();
            self.power_cut();
        } else {
            self.engine_is_killed();
        }
    }

    pub(super) fn power_cut(&mut self) {
        self.deeds.power_cuts += 1;
        self.may_lose = self.weather.fsync != Fsync::Always;
        self.disk.power_off();
        let garbage = self.weather.garbage && self.dice.one_in(2);
        self.disk = self.disk.after_crash(self.dice.word(), garbage);
        self.renew_disk();
        self.clocks.boot_id += 1;
        self.clocks.boot = 10;
        self.alive.clear();
        self.claims.clear();
        self.tombstones.clear();
        for worker in &mut self.workers {
            *worker = Worker::new(worker.slots);
            worker.boot_id = self.clocks.boot_id;
        }
    }

    /// The disk of the next process has no plans, but is as large, and as ill, as before.
    fn renew_disk(&mut self) {
        self.faults_planned = false;
        self.disk.capacity(self.weather.capacity);
        if let Some((turn, _)) = self.turned {
            self.disk.turn(0, turn);
        }
    }

    /// I3: the live state is what a replay gives, with heartbeats written along.
    pub(super) fn restart_once_more(&mut self) {
        let Some(engine) = self.engine.take() else { return };
        engine.state().check().expect("I17: every task is where its status says");
        let live = digest(&engine.state().image());
        if engine.close().is_err() {
            return;
        }
        let host = Host { machine_id: [7; 16], boot_id: [3; 16], random: 1 };
        let disk = self.disk.restarted();
        let (again, recovery) =
            Engine::open(disk, options(self.weather.fsync), host, self.rules.clone())
                .expect("opens after a clean close");
        assert_eq!(digest(&again.state().image()), live, "I3: replay gives another state");
        assert!(recovery.clean_close, "a clean close is known as one");
    }
}

/// The leases of workers that are not among the dead.
fn leases_beside(state: &State, dead: &[(WorkerId, Reason)]) -> Vec<(ServiceTime, TaskId, Fence)> {
    let lives = |id: TaskId| {
        let lease = state.task(id).and_then(|task| task.lease());
        lease.is_some_and(|lease| {
            state.worker(lease.worker).is_some() && dead.iter().all(|(id, _)| *id != lease.worker)
        })
    };
    state.lease_ends().filter(|(_, task, _)| lives(*task)).collect()
}
