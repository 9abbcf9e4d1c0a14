//! A whole host in memory: the real engine on a simulated disk, workers and handlers that stall,
//! die and come back, clients whose answers get lost, clocks that jump, power that fails.
//!
//! One seed decides everything. The world keeps its own account of what was acknowledged and
//! compares it with the engine at every step and after every recovery; the first difference ends
//! the run with a sentence that says what was lost, doubled or wrong.

use super::account::{Account, LOSSES_MAX};
use super::fair::{Fairness, draw_fairness};
use super::types::{TypeBook, draw_bounds};
use super::weather::{Deeds, Weather};
use super::worker::{Run, Worker};
use super::{Dice, SimDisk, Turn};
use crate::engine::{Engine, Input, Output, Recorded, Ticket, write_snapshot};
use crate::journal::{Fsync, JournalError, Options};
use crate::kernel::event::{Actor, Event};
use crate::kernel::ids::{Fence, LifeTime, Millis, Moment, ServiceTime, TaskId, Timestamp};
use crate::kernel::rules::{Retention, RetryPolicy, Rules};
use crate::kernel::status::{Reason, Status};
use crate::kernel::task::Task;
use crate::kernel::{Answer, Command, Proof, Rejection, State};
use std::collections::BTreeSet;

/// Raw clocks of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) wall: u64,
    pub(super) boot: u64,
    pub(super) boot_id: u64,
    pub(super) life: u64,
    pub(super) service: u64,
    /// Steps for which the wall clock stands still.
    pub(super) frozen: usize,
}

/// The host.
pub struct World {
    pub(super) dice: Dice,
    pub(super) account: Account,
    pub(super) types: TypeBook,
    /// Who went next.
    pub(super) fairness: Fairness,
    pub(super) deeds: Deeds,
    pub(super) weather: Weather,
    pub(super) disk: SimDisk,
    pub(super) engine: Option<Engine<SimDisk>>,
    pub(super) clocks: Clocks,
    pub(super) workers: Vec<Worker>,
    /// Attempts whose process lives.
    pub(super) alive: BTreeSet<(TaskId, Fence)>,
    /// Attempts that may no longer start.
    pub(super) tombstones: BTreeSet<Fence>,
    /// Attempts that had a process once.
    pub(super) claims: BTreeSet<Fence>,
    pub(super) rules: Rules,
    pub(super) sweeps: Vec<(TaskId, Fence)>,
    /// Ended tasks on their way to the archive.
    pub(super) archiving: Vec<Task>,
    pub(super) snapshots: Vec<Output<SimDisk>>,
    next_ticket: u64,
    pub(super) faults_planned: bool,
    /// What the disk has turned into, and for how many steps yet.
    pub(super) turned: Option<(Turn, usize)>,
    /// Records that were let out before their sync may be gone.
    pub(super) may_lose: bool,
}

/// Small segments and a small reserve, so that rotation and a full disk happen often.
pub(super) fn options(fsync: Fsync) -> Options {
    Options { segment_size: 16 << 10, reserve: 16 << 10, fsync, ..Options::default() }
}

/// Whether an error blames the machine and not the store.
pub(super) fn is_the_machines(error: &JournalError) -> bool {
    use JournalError::{Io, NoSpace, Sync};
    matches!(error, Io { .. } | NoSpace { .. } | Sync { .. })
}

/// Small spans, so that everything happens within a short run. Half of the runs keep few ended
/// tasks, and half of those have an archive; a quarter takes few tasks in all.
fn rules(dice: &mut Dice) -> Rules {
    let mut rules = Rules {
        heartbeat: Millis(1_000),
        suspect_after: Millis(3_000),
        offline_after: Millis(9_000),
        rolling_lease: Millis(20_000),
        max_lost: LOSSES_MAX,
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
    draw_bounds(&mut rules, &mut |below| dice.below(below));
    draw_fairness(&mut rules, &mut |below| dice.below(below));
    rules
}

impl World {
    /// A fresh host with an empty disk and two workers, its engine started.
    pub fn new(seed: u64, weather: Weather) -> Self {
        let mut dice = Dice::new(seed);
        let disk = SimDisk::new(dice.word());
        let rules = rules(&mut dice);
        let clocks = Clocks { wall: 1 << 40, boot: 50, boot_id: 1, life: 0, service: 0, frozen: 0 };
        let mut world = Self {
            dice,
            account: Account::default(),
            types: TypeBook::new(&rules),
            fairness: Fairness::default(),
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
            next_ticket: 0,
            faults_planned: false,
            turned: None,
            may_lose: false,
        };
        world.start();
        world.disk.capacity(weather.capacity);
        world
    }

    /// What the run did.
    pub fn deeds(&self) -> Deeds {
        self.deeds
    }

    /// A number that differs when anything on the disk does.
    pub fn fingerprint(&self) -> u64 {
        let files = self.disk.files().into_iter();
        let bytes = files.flat_map(|path| {
            let bytes = self.disk.read_file(&path).unwrap_or_default();
            path.into_bytes().into_iter().chain(bytes)
        });
        bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        })
    }

    pub(super) fn now(&mut self) -> Moment {
        Moment {
            wall: Timestamp(self.clocks.wall),
            life: LifeTime(self.clocks.life),
            service: ServiceTime(self.clocks.service),
            dice: self.dice.word(),
            doubtful: false,
        }
    }

    /// Lets time pass; the service clock runs only while the engine does.
    pub(super) fn pass(&mut self, ms: u64) {
        if self.clocks.frozen == 0 {
            self.clocks.wall += ms;
        }
        self.clocks.frozen = self.clocks.frozen.saturating_sub(1);
        self.clocks.boot += ms;
        self.clocks.life += ms;
        if self.engine.is_some() {
            self.clocks.service += ms;
        }
    }

    /// One turn of the engine; false when it ended in a storage failure.
    pub(super) fn turn(&mut self, inputs: Vec<Input>) -> bool {
        let now = self.now();
        let Some(engine) = self.engine.as_mut() else { return false };
        self.deeds.commands += inputs.len() as u64;
        match engine.step(inputs, now) {
            Ok(outputs) => {
                self.publish(outputs);
                true
            }
            Err(error) => {
                let full = error.is_full() && self.weather.capacity != u64::MAX;
                let provoked = full || (self.is_ill() && is_the_machines(&error));
                assert!(provoked, "an engine failed unprovoked: {error}");
                self.fail_over();
                false
            }
        }
    }

    /// Whether the disk may fail just now.
    pub(super) fn is_ill(&self) -> bool {
        self.faults_planned || self.disk.is_off() || self.turned.is_some()
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
        let shown = commands.first().and_then(proof).copied();
        let valid = shown.is_some_and(|proof| self.is_valid(&proof));
        if !self.turn(vec![Input::Ask { from, by, commands }]) {
            return None;
        }
        let answers = self.account.take_answers(from);
        if let (Some(proof), Some(answers)) = (shown, &answers) {
            self.check_answer(&proof, valid, answers.first());
        }
        let lost = self.lucky(self.weather.loss_one_in);
        answers.filter(|_| !lost)
    }

    /// Whether a lease is the speaker's and not over.
    fn is_valid(&self, proof: &Proof) -> bool {
        let lease = self.state().and_then(|state| state.task(proof.task)?.lease());
        lease.is_some_and(|lease| {
            (lease.worker, lease.fence, lease.secret) == (proof.worker, proof.fence, proof.secret)
                && self.clocks.service < lease.ends.0
        })
    }

    /// I14: a stale token changes nothing, and a valid one is taken. An end that was told before
    /// gets its first answer again.
    fn check_answer(&self, proof: &Proof, valid: bool, answer: Option<&Result<Answer, Rejection>>) {
        let taken = match answer {
            Some(Ok(Answer::Checkpointed(_))) => true,
            Some(Ok(Answer::Ended(_))) => valid || !self.told_before(proof),
            Some(Ok(Answer::Refused(_))) => false,
            _ => return,
        };
        assert_eq!(taken, valid, "I14: token {} of task {}", proof.fence, proof.task);
    }

    /// Whether the attempt is known to have ended by its own word.
    fn told_before(&self, proof: &Proof) -> bool {
        let task = self.state().and_then(|state| state.task(proof.task));
        let attempt = task.and_then(|task| task.attempt(proof.fence));
        attempt.is_some_and(|attempt| attempt.secret == proof.secret && attempt.end.is_some())
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
    pub(super) fn publish(&mut self, outputs: Vec<Output<SimDisk>>) {
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
                Output::Archive(tasks) => self.archiving = tasks,
                Output::Sweep { task, fence } => {
                    let lease = self.state().and_then(|state| state.task(task)?.lease());
                    let over = lease.is_none_or(|lease| lease.ends.0 <= self.clocks.service);
                    assert!(over, "the lease of task {task} is swept before its end");
                    self.sweeps.push((task, fence));
                }
                snapshot @ Output::Snapshot { .. } => self.snapshots.push(snapshot),
            }
        }
    }

    fn saw(&mut self, recorded: &Recorded) {
        let holds = |world: &Self| recorded.event.task().is_some_and(|id| world.account.holds(id));
        let held = isize::from(holds(self));
        self.account.saw(recorded, self.rules.retention.archive);
        self.types.saw(recorded, isize::from(holds(self)) - held);
        self.deeds.brims = self.types.brims;
        let state = self.engine.as_ref().map(Engine::state);
        self.fairness.saw(recorded, state);
        self.deeds.promotions = self.fairness.promotions;
        self.deeds.releases = self.fairness.releases;
        self.deeds.given_up = self.fairness.given_up;
        match &recorded.event {
            Event::TypePaused(_) => self.deeds.pauses += 1,
            Event::TypeLimited(_) => self.deeds.limits += 1,
            Event::Edited(_) => self.deeds.edits += 1,
            _ => {}
        }
        let ended = recorded.to.is_some_and(Status::is_terminal);
        self.deeds.ended += u64::from(ended && recorded.from != recorded.to);
        if let Event::Forgotten(forgotten) = &recorded.event {
            self.deeds.forgotten += forgotten.tasks.len() as u64;
        }
    }

    /// Writes what the engine wants in the archive; now and then that fails, or the engine dies
    /// before it hears of it.
    pub(super) fn archive(&mut self) {
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

    /// Does one of the sweeps that the engine asked for: whatever ran is killed, and nothing can
    /// start any more.
    pub(super) fn sweep_one(&mut self) {
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

    pub(super) fn write_one_snapshot(&mut self) {
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

    pub(super) fn kill_worker(&mut self, place: usize) {
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
}

/// The lease that a command speaks for.
fn proof(command: &Command) -> Option<&Proof> {
    match command {
        Command::Checkpoint { proof, .. } | Command::End { proof, .. } => Some(proof),
        _ => None,
    }
}
