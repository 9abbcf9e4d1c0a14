//! A whole host in memory: the real engine on a simulated disk, workers and handlers that stall,
//! die and come back, clients whose answers get lost, clocks that jump, power that fails.
//!
//! One seed decides everything. The world keeps its own account of what was acknowledged and
//! compares it with the engine at every step and after every recovery; the first difference ends
//! the run with a sentence that says what was lost, doubled or wrong.

use super::account::Account;
use super::worker::{Run, Worker};
use super::{Dice, Failure, Op, PageFate, SimDisk, Times};
use crate::engine::{Engine, Input, Output, Recorded, Start, Ticket, digest, write_snapshot};
use crate::journal::{Host, Options};
use crate::kernel::event::{Actor, Event};
use crate::kernel::ids::{Fence, LifeTime, Millis, Moment, ServiceTime, TaskId, Timestamp};
use crate::kernel::rules::{Retention, RetryPolicy, Rules};
use crate::kernel::status::{Reason, Status};
use crate::kernel::task::Task;
use crate::kernel::{Answer, Command, Rejection, State};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// How harsh a world is; each kind of trouble is on or off for a whole run.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Engine, worker and power failures happen once in this many steps; 0 is never.
    pub crash_one_in: usize,
    /// A disk call fails once in this many steps; 0 is never.
    pub fault_one_in: usize,
    /// Answers get lost once in this many; 0 is never.
    pub loss_one_in: usize,
    /// Workers stall once in this many steps; 0 is never.
    pub stall_one_in: usize,
    /// The wall clock jumps once in this many steps; 0 is never.
    pub jump_one_in: usize,
    /// Bytes that the disk holds.
    pub capacity: u64,
}

impl Weather {
    /// Nothing goes wrong.
    pub const CALM: Self = Self {
        crash_one_in: 0,
        fault_one_in: 0,
        loss_one_in: 0,
        stall_one_in: 0,
        jump_one_in: 0,
        capacity: u64::MAX,
    };

    /// Each kind of trouble for half of the seeds, its strength drawn log-uniformly.
    pub fn draw(dice: &mut Dice) -> Self {
        let mut strength = |weakest: u32| {
            if dice.one_in(2) { 0 } else { 8_usize << dice.below(weakest as usize) }
        };
        let (crash_one_in, fault_one_in) = (strength(5), strength(6));
        let (loss_one_in, stall_one_in, jump_one_in) = (strength(4), strength(5), strength(5));
        let capacity = if dice.one_in(6) { 400 << 10 } else { u64::MAX };
        Self { crash_one_in, fault_one_in, loss_one_in, stall_one_in, jump_one_in, capacity }
    }
}

/// What a run did, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Commands told to the engine.
    pub commands: u64,
    /// Starts of the engine after the first.
    pub restarts: u64,
    /// Power cuts among them.
    pub power_cuts: u64,
    /// Failures of the disk that came true.
    pub disk_failures: u64,
    /// Workers killed.
    pub workers_killed: u64,
    /// Calls about leases that were refused as stale.
    pub stale: u64,
    /// Sweeps done.
    pub sweeps: u64,
    /// Snapshots taken.
    pub snapshots: u64,
    /// Tasks that ended.
    pub ended: u64,
    /// Submissions refused for want of room.
    pub no_space: u64,
    /// Submissions refused because all tasks together would take too much.
    pub state_full: u64,
    /// Ended tasks that were let go.
    pub forgotten: u64,
}

/// Raw clocks of the host.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    wall: u64,
    boot: u64,
    boot_id: u64,
    life: u64,
    service: u64,
}

/// The host.
pub struct World {
    pub(super) dice: Dice,
    pub(super) account: Account,
    pub(super) deeds: Deeds,
    weather: Weather,
    disk: SimDisk,
    engine: Option<Engine<SimDisk>>,
    clocks: Clocks,
    pub(super) workers: Vec<Worker>,
    /// Attempts whose process lives.
    pub(super) alive: BTreeSet<(TaskId, Fence)>,
    /// Attempts that may no longer start.
    pub(super) tombstones: BTreeSet<Fence>,
    /// Attempts that had a process once.
    pub(super) claims: BTreeSet<Fence>,
    rules: Rules,
    sweeps: Vec<(TaskId, Fence)>,
    /// Ended tasks on their way to the archive.
    archiving: Vec<Task>,
    snapshots: Vec<Output<SimDisk>>,
    waiting: BTreeMap<Ticket, usize>,
    next_ticket: u64,
    faults_planned: bool,
}

/// Small segments and a small reserve, so that rotation and a full disk happen often.
fn options() -> Options {
    Options { segment_size: 16 << 10, reserve: 16 << 10, ..Options::default() }
}

/// Small spans, so that everything happens within a short run. Half of the runs keep few ended
/// tasks, and half of those have an archive.
fn rules(dice: &mut Dice) -> Rules {
    let mut rules = Rules {
        heartbeat: Millis(1_000),
        suspect_after: Millis(3_000),
        offline_after: Millis(9_000),
        rolling_lease: Millis(20_000),
        max_lost: 3,
        ..Rules::default()
    };
    rules.fallback.retry = RetryPolicy::Exponential { base: Millis(500), cap: Millis(8_000) };
    rules.fallback.cancel_grace = Millis(500);
    rules.fallback.kill_grace = Millis(500);
    if dice.one_in(2) {
        rules.retention = Retention {
            finished: Millis(1_000 << dice.below(8)),
            max_finished: dice.below(20),
            keys: Millis(1_000 << dice.below(8)),
            archive: dice.one_in(2),
        };
    }
    if dice.one_in(4) {
        rules.max_state = 16 << 10;
    }
    rules
}

impl World {
    /// A fresh host with an empty disk and two workers, its engine started.
    pub fn new(seed: u64, weather: Weather) -> Self {
        let mut dice = Dice::new(seed);
        let disk = SimDisk::new(dice.word());
        let rules = rules(&mut dice);
        let clocks = Clocks { wall: 1 << 40, boot: 50, boot_id: 1, life: 0, service: 0 };
        let mut world = Self {
            dice,
            account: Account::default(),
            deeds: Deeds::default(),
            weather,
            disk,
            engine: None,
            clocks,
            workers: vec![Worker::new(2), Worker::new(3)],
            alive: BTreeSet::new(),
            tombstones: BTreeSet::new(),
            claims: BTreeSet::new(),
            rules,
            sweeps: Vec::new(),
            archiving: Vec::new(),
            snapshots: Vec::new(),
            waiting: BTreeMap::new(),
            next_ticket: 0,
            faults_planned: false,
        };
        world.start();
        world.disk.capacity(weather.capacity);
        world
    }

    /// What the run did.
    pub fn deeds(&self) -> Deeds {
        self.deeds
    }

    fn now(&mut self) -> Moment {
        Moment {
            wall: Timestamp(self.clocks.wall),
            life: LifeTime(self.clocks.life),
            service: ServiceTime(self.clocks.service),
            dice: self.dice.word(),
        }
    }

    /// Lets time pass; the service clock runs only while the engine does.
    fn pass(&mut self, ms: u64) {
        self.clocks.wall += ms;
        self.clocks.boot += ms;
        self.clocks.life += ms;
        if self.engine.is_some() {
            self.clocks.service += ms;
        }
    }

    /// Starts the engine on whatever is on the disk, twice from the same bytes.
    fn start(&mut self) {
        let host = Host { machine_id: [7; 16], boot_id: [3; 16], random: self.dice.word() };
        let options = options();
        let before = self.disk.fork();
        let opened = Engine::open(self.disk.clone(), options, host, self.rules.clone());
        let (mut engine, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) if self.disk.is_off() || self.faults_planned || error.is_full() => {
                // The machine failed again during recovery: that must do no harm either.
                self.fail_over();
                return;
            }
            Err(error) => panic!("recovery refused what a crash can leave: {error}"),
        };
        let found = digest(&engine.state().image());
        if self.dice.one_in(4) {
            let host = Host { random: self.dice.word(), ..host };
            let (again, _) =
                Engine::open(before, options, host, self.rules.clone()).expect("recovers again");
            assert_eq!(digest(&again.state().image()), found, "I4: recovered twice, differently");
        }
        self.account.compare(engine.state(), self.rules.retention.archive);
        engine.state().check().expect("I3: the derived sets follow from the tasks");
        let head = engine.state().head().clone();
        self.resume_clocks(&head);
        engine.set_snapshot_after(24 << 10);
        let start = Start {
            version: "sim".into(),
            boot_id: format!("boot {}", self.clocks.boot_id).into(),
            boot_clock: Millis(self.clocks.boot),
            skipped_ahead: recovery.skipped_ahead,
            dead: self.verdicts(engine.state()),
        };
        let now = self.now();
        match engine.start(start, now) {
            Ok(outputs) => {
                self.engine = Some(engine);
                self.publish(outputs);
            }
            Err(_) => self.fail_over(),
        }
    }

    /// The life clock goes on from the last start within one boot, from the last record after a
    /// reboot; the service clock always goes on from the last record.
    fn resume_clocks(&mut self, head: &crate::kernel::Head) {
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
    fn verdicts(&self, state: &State) -> Vec<(crate::kernel::ids::WorkerId, Reason)> {
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
    fn engine_dies(&mut self) {
        self.engine = None;
        self.sweeps.clear();
        self.archiving.clear();
        self.snapshots.clear();
        self.waiting.clear();
        self.account.engine_gone();
        for worker in &mut self.workers {
            worker.answers_lost();
        }
        self.deeds.restarts += 1;
    }

    /// After a failure of the disk or the machine: the engine is gone; the machine may be too.
    fn fail_over(&mut self) {
        self.engine_dies();
        if self.disk.is_off() || self.dice.one_in(2) {
            self.power_cut();
        } else {
            self.disk = self.disk.restarted();
        }
        self.deeds.disk_failures += u64::from(self.faults_planned);
        self.faults_planned = false;
        self.disk.capacity(self.weather.capacity);
    }

    fn power_cut(&mut self) {
        self.deeds.power_cuts += 1;
        self.disk.power_off();
        self.disk = self.disk.after_crash(self.dice.word());
        self.disk.capacity(self.weather.capacity);
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

    /// One turn of the engine; false when it ended in a storage failure.
    pub(super) fn turn(&mut self, inputs: Vec<Input>) -> bool {
        let now = self.now();
        let Some(engine) = self.engine.as_mut() else { return false };
        self.deeds.commands += inputs.len() as u64;
        if let Ok(outputs) = engine.step(inputs, now) {
            self.publish(outputs);
            return true;
        }
        assert!(self.disk.violations().is_empty(), "{:?}", self.disk.violations());
        let faulty = self.faults_planned || self.disk.is_off();
        assert!(faulty || self.weather.capacity != u64::MAX, "an engine failed unprovoked");
        self.fail_over();
        false
    }

    /// Tells the engine something on behalf of somebody and returns the answers; none when they
    /// were lost.
    pub(super) fn ask(
        &mut self,
        by: Actor,
        commands: Vec<Command>,
    ) -> Option<Vec<Result<Answer, Rejection>>> {
        self.engine.as_ref()?;
        let from = self.ticket();
        self.account.asked(&commands);
        if !self.turn(vec![Input::Ask { from, by, commands }]) {
            return None;
        }
        let answers = self.account.take_answers(from);
        let lost = self.lucky(self.weather.loss_one_in);
        answers.filter(|_| !lost)
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// True once in `one_in`, never for 0.
    pub(super) fn lucky(&mut self, one_in: usize) -> bool {
        one_in != 0 && self.dice.one_in(one_in)
    }

    pub(super) fn state(&self) -> Option<&State> {
        self.engine.as_ref().map(Engine::state)
    }

    /// What leaves the engine is durable: it goes into the account.
    fn publish(&mut self, outputs: Vec<Output<SimDisk>>) {
        for output in outputs {
            match output {
                Output::Answers { to, answers } => {
                    let refused = |a: &Result<Answer, Rejection>| {
                        matches!(a, Ok(Answer::Refused(Rejection::Stale { .. })))
                    };
                    self.deeds.stale += answers.iter().filter(|a| refused(a)).count() as u64;
                    let full = |a: &Result<Answer, Rejection>| *a == Err(Rejection::NoSpace);
                    self.deeds.no_space += answers.iter().filter(|a| full(a)).count() as u64;
                    let full = |a: &Result<Answer, Rejection>| {
                        matches!(a, Err(Rejection::StateFull { .. }))
                    };
                    self.deeds.state_full += answers.iter().filter(|a| full(a)).count() as u64;
                    self.account.answered(to, answers);
                }
                Output::Events(events) => {
                    for recorded in &events {
                        self.saw(recorded);
                    }
                }
                Output::Sweep { task, fence } => self.sweeps.push((task, fence)),
                Output::Archive(tasks) => self.archiving = tasks,
                snapshot @ Output::Snapshot { .. } => self.snapshots.push(snapshot),
            }
        }
    }

    fn saw(&mut self, recorded: &Recorded) {
        self.account.saw(recorded, self.rules.retention.archive);
        let ended = recorded.to.is_some_and(Status::is_terminal);
        self.deeds.ended += u64::from(ended && recorded.from != recorded.to);
        if let Event::Forgotten(forgotten) = &recorded.event {
            self.deeds.forgotten += forgotten.tasks.len() as u64;
        }
    }

    /// Does one of the sweeps that the engine asked for: whatever ran is killed, and nothing can
    /// start any more.
    fn sweep_one(&mut self) {
        if self.sweeps.is_empty() {
            return;
        }
        let place = self.dice.below(self.sweeps.len());
        let (task, fence) = self.sweeps.swap_remove(place);
        let ran = self.claims.contains(&fence);
        self.tombstones.insert(fence);
        self.alive.remove(&(task, fence));
        self.deeds.sweeps += 1;
        self.turn(vec![Input::Swept { task, fence, ran }]);
    }

    /// Writes what the engine wants in the archive; now and then that fails, or the engine dies
    /// before it hears of it.
    fn archive(&mut self) {
        let tasks = std::mem::take(&mut self.archiving);
        if tasks.is_empty() {
            return;
        }
        let written = if self.dice.one_in(4) { Err("full".to_owned()) } else { Ok(()) };
        if written.is_ok() {
            self.account.archived(&tasks);
        }
        let tasks = tasks.iter().map(|task| task.id).collect();
        self.turn(vec![Input::Archived { tasks, written }]);
    }

    fn write_one_snapshot(&mut self) {
        let Some(Output::Snapshot { image, writer }) = self.snapshots.pop() else { return };
        let written = write_snapshot(&image, *writer);
        self.deeds.snapshots += u64::from(written.is_ok());
        self.turn(vec![Input::SnapshotWritten(written)]);
    }

    /// Marks an attempt's start, unless it may no longer start. No two attempts of one task may
    /// live at the same time.
    pub(super) fn start_attempt(&mut self, run: &Run) -> bool {
        if self.tombstones.contains(&run.fence) {
            return false;
        }
        if let Some((_, other)) = self.alive.iter().find(|(task, _)| *task == run.task) {
            panic!("I19: attempts {other} and {} of task {} run at once", run.fence, run.task);
        }
        self.claims.insert(run.fence);
        self.alive.insert((run.task, run.fence));
        true
    }

    fn kill_worker(&mut self, place: usize) {
        let mut fresh = Worker::new(self.workers[place].slots);
        fresh.boot_id = self.clocks.boot_id;
        fresh.lock = format!("{} {}", self.clocks.boot_id, self.dice.word());
        let dead = std::mem::replace(&mut self.workers[place], fresh);
        self.deeds.workers_killed += 1;
        // Handlers die with their worker, sometimes late: a grandchild needs the sweep.
        for run in dead.runs {
            if self.dice.one_in(2) {
                self.alive.remove(&(run.task, run.fence));
            }
        }
        if let Some(worker) = dead.id {
            self.turn(vec![Input::WorkerDied { worker, reason: Reason::WorkerCrash }]);
        }
    }

    /// One random thing happens.
    pub fn step(&mut self) {
        let pause = [0, 1, 5, 40, 300, 1_500][self.dice.below(6)];
        self.pass(pause);
        self.trouble();
        if self.engine.is_none() {
            if self.dice.one_in(3) {
                self.start();
            } else {
                self.pass(200);
            }
            return;
        }
        match self.dice.below(10) {
            0..3 => self.client(),
            3 => self.sweep_one(),
            4 if self.dice.one_in(2) => self.archive(),
            4 => self.write_one_snapshot(),
            5 => drop(self.turn(Vec::new())),
            _ => {
                let place = self.dice.below(self.workers.len());
                self.worker(place);
            }
        }
        if let Some(engine) = &self.engine {
            self.account.glance(engine.state());
        }
    }

    fn trouble(&mut self) {
        let Weather { crash_one_in, fault_one_in, stall_one_in, jump_one_in, .. } = self.weather;
        if self.lucky(crash_one_in) {
            match self.dice.below(4) {
                0 if self.engine.is_some() => {
                    self.engine_dies();
                    self.disk = self.disk.restarted();
                    self.disk.capacity(self.weather.capacity);
                    self.faults_planned = false;
                }
                1 => {
                    self.engine_dies();
                    self.power_cut();
                    self.faults_planned = false;
                }
                2 => {
                    // The power fails inside a disk call that is still to come.
                    let call = self.disk.calls() + 1 + self.dice.below(12) as u64;
                    self.disk.crash_at(call, self.dice.one_in(2));
                    self.faults_planned = true;
                }
                _ => {
                    let place = self.dice.below(self.workers.len());
                    self.kill_worker(place);
                }
            }
        }
        if self.lucky(fault_one_in) {
            self.plan_fault();
        }
        if self.lucky(stall_one_in) {
            let place = self.dice.below(self.workers.len());
            self.workers[place].stalled = 1 + self.dice.below(40);
        }
        if self.lucky(jump_one_in) {
            let jump = [1_000, 3_600_000, 1 << 39][self.dice.below(3)];
            let wall = self.clocks.wall;
            self.clocks.wall =
                if self.dice.one_in(2) { wall + jump } else { wall.saturating_sub(jump) };
        }
    }

    fn plan_fault(&mut self) {
        let nth = 1 + self.dice.below(6) as u64;
        let op = [Op::Write, Op::Sync, Op::SyncDir, Op::Create, Op::Rename, Op::Allocate]
            [self.dice.below(6)];
        let failure = match (op, self.dice.below(4)) {
            (Op::Sync, 0) => Failure::Sync(PageFate::Dropped),
            (Op::Sync, 1) => Failure::Sync(PageFate::CacheOnly),
            (Op::Sync, _) => Failure::Sync(PageFate::Kept),
            (Op::Write, 0) => Failure::Short(1 + self.dice.below(600)),
            (_, 1) => Failure::Error(Errno::INTR),
            (_, 2) => Failure::Error(Errno::NOSPC),
            _ => Failure::Error(Errno::IO),
        };
        self.disk.fail(op, nth, failure, Times::Once);
        self.faults_planned = true;
    }

    /// Everything mends; then every task must end within bounded time, and nothing may be wrong.
    pub fn calm_down(&mut self) {
        self.weather = Weather::CALM;
        self.disk.heal();
        self.disk.capacity(u64::MAX);
        self.clocks.wall = self.clocks.wall.max(1 << 41); // every date lies behind
        self.faults_planned = true; // a planned power cut may still come
        let mut patience = 40_000;
        loop {
            patience -= 1;
            assert!(0 < patience, "I17: {} tasks never end", self.unfinished());
            self.step_calmly();
            if self.engine.is_some() && self.unfinished() == 0 {
                break;
            }
        }
        assert!(self.disk.violations().is_empty(), "{:?}", self.disk.violations());
        self.restart_once_more();
    }

    fn step_calmly(&mut self) {
        self.pass(250);
        if self.engine.is_none() {
            self.start();
            return;
        }
        self.sweep_one();
        self.archive();
        self.write_one_snapshot();
        self.turn(Vec::new());
        for place in 0..self.workers.len() {
            self.workers[place].stalled = 0;
            self.worker(place);
        }
        self.resume_paused();
    }

    fn unfinished(&self) -> usize {
        let Some(state) = self.state() else { return usize::MAX };
        state.tasks().filter(|task| !task.status.is_terminal()).count()
    }

    /// I3: the live state is what a replay gives, with heartbeats written along.
    fn restart_once_more(&mut self) {
        let Some(engine) = self.engine.take() else { return };
        let live = digest(&engine.state().image());
        if engine.close().is_err() {
            return;
        }
        let host = Host { machine_id: [7; 16], boot_id: [3; 16], random: 1 };
        let disk = self.disk.restarted();
        let (again, recovery) = Engine::open(disk, options(), host, self.rules.clone())
            .expect("opens after a clean close");
        assert_eq!(digest(&again.state().image()), live, "I3: replay gives another state");
        assert!(recovery.clean_close, "a clean close is known as one");
        self.account.compare(again.state(), self.rules.retention.archive);
    }
}
