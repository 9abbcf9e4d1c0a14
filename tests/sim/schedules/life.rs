//! One week of an engine, its host, a worker, and weather.

use super::ledger::{Ledger, Sums};
use super::plans::{below, edited, pick, spec};
use midwatch::engine::{
    Engine, Input, Output, Piece, Rebuild, Rebuilding, Recorded, Start, Ticket, write_snapshot,
};
use midwatch::journal::{Host, Options, Record, Replay};
use midwatch::kernel::event::{Actor, Event, Registration, Stamp};
use midwatch::kernel::ids::{
    Fence, LifeTime, Millis, Moment, ProcessId, ServiceTime, TaskId, Timestamp, WorkerId,
};
use midwatch::kernel::rules::{PLAUSIBLE_SINCE, Rules};
use midwatch::kernel::schedule::{Origin, ScheduleSpec};
use midwatch::kernel::status::{Outcome, Reason};
use midwatch::kernel::task::SecretHash;
use midwatch::kernel::{Answer, Command, EndReport, Proof, ScheduleAct, State};
use midwatch::sim::{Dice, SimDisk};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// 2027-01-04, a Monday.
const FIRST_WEEK: u64 = 1_799_020_800_000;

/// In ten years; later seeds live in them again, under other weather.
const WEEKS: u64 = 522;

/// 2038-01-19, where 32 bits end.
const GLITCH: u64 = 2_147_483_647_000;

const SECRET: SecretHash = SecretHash([7; 16]);

/// Turns at one instant; more would be a loop.
const TURNS_AT_ONCE: u64 = 400;

/// Everything that was seen to happen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deeds {
    sums: Sums,
    kills: u64,
    reboots: u64,
    absences: u64,
    suspends: u64,
    steps: u64,
    glitches: u64,
    epochs: u64,
    orders: u64,
    snapshots: u64,
    turns: u64,
}

impl Deeds {
    pub(super) fn add(&mut self, other: Self) {
        let sums = other.sums;
        self.sums.planned += sums.planned;
        self.sums.fired += sums.fired;
        self.sums.coalesced += sums.coalesced;
        self.sums.skipped += sums.skipped;
        self.sums.missed += sums.missed;
        self.sums.queued += sums.queued;
        self.sums.replaced += sums.replaced;
        self.sums.reopened += sums.reopened;
        self.kills += other.kills;
        self.reboots += other.reboots;
        self.absences += other.absences;
        self.suspends += other.suspends;
        self.steps += other.steps;
        self.glitches += other.glitches;
        self.epochs += other.epochs;
        self.orders += other.orders;
        self.snapshots += other.snapshots;
        self.turns += other.turns;
    }

    pub(super) fn figures(self) -> [(&'static str, u64); 18] {
        let sums = self.sums;
        [
            ("planned times decided", sums.planned),
            ("fires", sums.fired),
            ("coalesced", sums.coalesced),
            ("skipped", sums.skipped),
            ("missed", sums.missed),
            ("queued", sums.queued),
            ("replaced", sums.replaced),
            ("schedules reopened", sums.reopened),
            ("kills", self.kills),
            ("reboots", self.reboots),
            ("absences", self.absences),
            ("suspends", self.suspends),
            ("steps of the clock", self.steps),
            ("glitches to 2038", self.glitches),
            ("boots in 1970", self.epochs),
            ("orders", self.orders),
            ("snapshots", self.snapshots),
            ("turns", self.turns),
        ]
    }
}

/// A rebuild that keeps the events it saw: what became durable in a crash nobody was told.
#[derive(Default)]
struct Witness {
    rebuild: Rebuild,
    events: Arc<Mutex<Vec<(Stamp, Event)>>>,
}

impl Replay for Witness {
    fn snapshot_begin(&mut self, seq: u64) -> Result<(), String> {
        self.rebuild.snapshot_begin(seq)
    }

    fn snapshot_failed(&mut self) {
        self.rebuild.snapshot_failed();
    }

    fn snapshot_record(&mut self, record: Record<'_>) -> Result<(), String> {
        self.rebuild.snapshot_record(record)
    }

    fn record(&mut self, seq: u64, record: Record<'_>) -> Result<(), String> {
        if let Some(Piece::Event(stamp, event)) = Piece::of_journal(seq, record)? {
            self.events.lock().unwrap().push((stamp, event));
        }
        self.rebuild.record(seq, record)
    }
}

impl Rebuilding for Witness {
    fn finish(self) -> State {
        self.rebuild.finish()
    }
}

/// An attempt that goes on.
#[derive(Clone, Copy)]
struct Run {
    fence: Fence,
    ends: u64,
    outcome: Outcome,
}

pub(super) struct Life {
    dice: Dice,
    disk: SimDisk,
    engine: Option<Engine<SimDisk>>,
    rules: Rules,
    ledger: Ledger,
    deeds: Deeds,
    /// The truth, in milliseconds since 1970, which no clock of the host needs to show.
    truth: u64,
    /// What the wall clock is ahead of it.
    ahead: i64,
    /// When a wrong wall clock is put right, by the truth.
    mends: Option<u64>,
    boot: u64,
    boot_clock: u64,
    /// The life clock.
    lived: u64,
    service: u64,
    /// Wall and life clock at the last turn.
    turned: (u64, u64),
    tickets: u64,
    starts: u64,
    worker: Option<WorkerId>,
    waiting: bool,
    runs: BTreeMap<TaskId, Run>,
    inputs: Vec<Input>,
    config: BTreeMap<midwatch::kernel::text::Text, ScheduleSpec>,
    version: u64,
    patient: bool,
    at_once: u64,
}

impl Life {
    pub(super) fn new(week: u64) -> Self {
        let mut dice = Dice::new(week);
        let rules = Rules {
            suspect_after: Millis(60 * DAY),
            offline_after: Millis(70 * DAY),
            rolling_lease: Millis(80 * DAY),
            heartbeat: Millis(80 * DAY),
            ..Rules::default()
        };
        let mut life = Self {
            disk: SimDisk::new(dice.word()),
            patient: dice.one_in(4),
            dice,
            engine: None,
            rules,
            ledger: Ledger::default(),
            deeds: Deeds::default(),
            truth: FIRST_WEEK + week % WEEKS * 7 * DAY,
            ahead: 0,
            mends: None,
            boot: 1,
            boot_clock: 10 * SECOND,
            lived: 0,
            service: 0,
            turned: (0, 0),
            tickets: 0,
            starts: 0,
            worker: None,
            waiting: false,
            runs: BTreeMap::new(),
            inputs: Vec::new(),
            config: BTreeMap::new(),
            version: 1,
            at_once: 0,
        };
        for n in 0..3 + life.dice.below(4) {
            let spec = life.draw();
            life.config.insert(format!("config-{n}").as_str().into(), spec);
        }
        life.start();
        for _ in 0..4 {
            life.add_one();
        }
        if life.patient {
            let now = Timestamp(life.wall());
            let spec = spec(&mut life.dice, now, true);
            life.order(
                "minutely",
                ScheduleAct::Set { spec: Box::new(spec), origin: Origin::Runtime, replace: true },
            );
        }
        life
    }

    pub(super) fn deeds(&self) -> Deeds {
        Deeds { sums: self.ledger.sums, ..self.deeds }
    }

    fn draw(&mut self) -> ScheduleSpec {
        let now = Timestamp(self.truth);
        spec(&mut self.dice, now, false)
    }

    fn wall(&self) -> u64 {
        self.truth.saturating_add_signed(self.ahead)
    }

    fn now(&mut self) -> Moment {
        let wall = Timestamp(self.wall());
        Moment {
            wall,
            life: LifeTime(self.lived),
            service: ServiceTime(self.service),
            dice: self.dice.word(),
            doubtful: wall < PLAUSIBLE_SINCE,
        }
    }

    fn engine(&mut self) -> &mut Engine<SimDisk> {
        self.engine.as_mut().unwrap()
    }

    /// Time goes by on a host that is on; while the engine serves, for it too.
    fn pass(&mut self, span: u64, serves: bool) {
        self.truth += span;
        self.boot_clock += span;
        self.lived += span;
        self.service += if serves { span } else { 0 };
        if 0 < span {
            self.at_once = 0;
        }
    }

    /// Starts an engine on what the disk holds.
    fn start(&mut self) {
        self.starts += 1;
        let host = Host { machine_id: [7; 16], boot_id: [3; 16], random: self.starts };
        let options = Options { segment_size: 64 << 10, reserve: 64 << 10, ..Options::default() };
        let witness = Witness::default();
        let events = Arc::clone(&witness.events);
        let (mut engine, recovery) =
            Engine::open_with(self.disk.clone(), options, host, self.rules.clone(), witness)
                .unwrap();
        engine.state().check().unwrap();
        engine.set_snapshot_after(96 << 10);
        let head = engine.state().head().clone();
        assert!(self.ledger.seen <= head.seq, "what was told is durable");
        for (stamp, event) in events.lock().unwrap().iter() {
            let ended = ends(event);
            self.ledger.follow(stamp, event, ended);
        }
        let boot_id = format!("boot {}", self.boot);
        let same_boot = head.started.as_ref().is_some_and(|started| *started.boot_id == *boot_id);
        self.lived = if same_boot { self.lived.max(head.life.0) } else { head.life.0 };
        self.service = head.service.0;
        let wall = self.wall();
        // A reboot leaves no clock to compare the wall clock with.
        let expected = head.wall.0 + (self.lived - head.life.0);
        let stepped = (same_boot && SECOND <= expected.abs_diff(wall))
            .then_some((Timestamp(expected), Timestamp(wall)));
        let reason = if same_boot { Reason::WorkerCrash } else { Reason::HostRebooted };
        let gone = engine.state().workers().filter(|worker| Some(worker.id) != self.worker);
        let dead: Vec<_> = gone.map(|worker| (worker.id, reason)).collect();
        let start = Start {
            version: format!("{}", self.version).as_str().into(),
            boot_id: boot_id.as_str().into(),
            boot_clock: Millis(self.boot_clock),
            skipped_ahead: recovery.skipped_ahead,
            dead,
            stepped,
            schedules: Some(self.config.clone()),
        };
        let now = self.now();
        let outputs = engine.start(start, now).unwrap();
        assert!(engine.refused_schedules().is_empty(), "{:?}", engine.refused_schedules());
        self.engine = Some(engine);
        self.waiting = false;
        self.turned = (self.wall(), self.lived);
        self.take(outputs);
        if self.worker.is_none() {
            self.register();
        }
        self.turn();
        self.engine().state().check().unwrap();
    }

    fn register(&mut self) {
        let registration = Registration {
            name: "w".into(),
            process: ProcessId::default(),
            host: "h".into(),
            version: "1".into(),
            lock: "l".into(),
            kinds: vec!["job".into()],
            slots: 1000,
        };
        self.ask(Command::Register(registration));
    }

    fn ask(&mut self, command: Command) {
        self.tickets += 1;
        let from = Ticket(self.tickets);
        self.inputs.push(Input::Ask { from, by: Actor::User(1000), commands: vec![command] });
    }

    fn order(&mut self, name: &str, act: ScheduleAct) {
        self.ask(Command::ActOnSchedule { name: name.into(), act });
        self.deeds.orders += 1;
    }

    fn add_one(&mut self) {
        let name = format!("own-{}", self.dice.below(6));
        let spec = Box::new(self.draw());
        self.order(&name, ScheduleAct::Set { spec, origin: Origin::Runtime, replace: true });
    }

    /// One turn. On a disk whose power is gone it is the last one.
    fn turn(&mut self) {
        self.deeds.turns += 1;
        self.at_once += 1;
        assert!(self.at_once < TURNS_AT_ONCE, "turn after turn, and time stands still");
        let mut inputs = Vec::new();
        let wall = self.wall();
        let expected = self.turned.0 + (self.lived - self.turned.1);
        if SECOND <= expected.abs_diff(wall) {
            inputs.push(Input::ClockStepped { from: Timestamp(expected), to: Timestamp(wall) });
        }
        self.turned = (wall, self.lived);
        self.end_runs();
        if let Some(worker) = self.worker
            && !self.waiting
        {
            self.tickets += 1;
            let from = Ticket(self.tickets);
            let secrets = vec![SECRET; 100];
            inputs.push(Input::AwaitLease { from, worker, secrets, patience: Millis(30 * DAY) });
            self.waiting = true;
        }
        inputs.append(&mut self.inputs);
        let now = self.now();
        match self.engine().step(inputs, now) {
            Ok(outputs) => self.take(outputs),
            Err(error) => {
                assert!(self.disk.is_off(), "{error}");
                self.reboot(0);
            }
        }
    }

    /// Reports the ends of runs that are over.
    fn end_runs(&mut self) {
        let Some(worker) = self.worker else { return };
        let over: Vec<_> = self.runs.iter().filter(|(_, run)| run.ends <= self.truth).collect();
        let over: Vec<_> = over.into_iter().map(|(task, run)| (*task, *run)).collect();
        for (task, run) in over {
            self.runs.remove(&task);
            let report = EndReport {
                outcome: run.outcome,
                started: true,
                exit_code: None,
                signal: None,
                result: None,
                error: None,
                usage: None,
                ran: None,
                input: None,
            };
            let proof = Proof { worker, task, fence: run.fence, secret: SECRET };
            self.ask(Command::End { proof, report });
        }
    }

    fn take(&mut self, outputs: Vec<Output<SimDisk>>) {
        for output in outputs {
            match output {
                Output::Answers { answers, .. } => {
                    for answer in answers {
                        self.answered(answer.as_ref().ok());
                    }
                }
                Output::Sweep { task, fence } => {
                    self.inputs.push(Input::Swept { task, fence, ran: true });
                }
                Output::Snapshot { image, writer } => {
                    self.deeds.snapshots += 1;
                    self.inputs.push(Input::SnapshotWritten(write_snapshot(&image, *writer)));
                }
                Output::Archive(_) => panic!("no archive was asked for"),
                Output::Events(events) => self.hear(&events),
            }
        }
    }

    fn hear(&mut self, events: &[Recorded]) {
        for recorded in events {
            let to = recorded.to.filter(|to| to.is_terminal() && recorded.from != recorded.to);
            self.ledger.follow(&recorded.stamp, &recorded.event, to.is_some());
            if let Event::StopRequested(stop) = &recorded.event {
                self.stop(stop.task);
            }
        }
    }

    /// A run is to stop: some obey at once, others when they are done.
    fn stop(&mut self, task: TaskId) {
        let patience = if task.0.is_multiple_of(4) { 20 * MINUTE } else { 3 * SECOND };
        if let Some(run) = self.runs.get_mut(&task) {
            run.ends = run.ends.min(self.truth + patience);
            run.outcome = Outcome::Cancelled;
        }
    }

    fn answered(&mut self, answer: Option<&Answer>) {
        match answer {
            Some(Answer::Registered(worker)) => self.worker = Some(*worker),
            Some(Answer::Leased(leases)) => {
                self.waiting = false;
                for (task, fence) in leases {
                    let spec = self.engine.as_ref().and_then(|engine| {
                        engine.state().task(*task).map(|task| task.payload.clone())
                    });
                    let seconds: u64 = spec.and_then(|text| text.parse().ok()).unwrap_or(40);
                    let length = 1 + below(&mut self.dice, seconds);
                    let outcome =
                        if self.dice.one_in(10) { Outcome::Fatal } else { Outcome::Success };
                    let ends = self.truth + length * SECOND;
                    self.runs.insert(*task, Run { fence: *fence, ends, outcome });
                }
            }
            _ => {}
        }
    }

    /// Time until the engine or the worker has something to do, at most `longest`.
    fn until_next(&mut self, longest: u64) -> u64 {
        if !self.inputs.is_empty() || !self.waiting && self.worker.is_some() {
            return 0;
        }
        let wake = self.engine().next_wake();
        if wake.now {
            return 0;
        }
        let wall = wake.wall.map(|at| at.0.saturating_sub(self.wall()));
        let life = wake.life.map(|at| at.0.saturating_sub(self.lived));
        let service = wake.service.map(|at| at.0.saturating_sub(self.service));
        let end = self.runs.values().map(|run| run.ends.saturating_sub(self.truth)).min();
        let waits = [wall, life, service, end];
        waits.into_iter().flatten().fold(longest, u64::min)
    }

    /// Lives until `until`, by the truth.
    fn live(&mut self, until: u64) {
        while self.truth < until {
            if self.mends.is_some_and(|at| at <= self.truth) {
                self.mends = None;
                self.ahead = 0;
                self.deeds.steps += 1;
                self.turn();
            }
            let next = self.mends.unwrap_or(u64::MAX).min(until);
            let mut span = self.until_next(next - self.truth);
            if self.dice.one_in(20) {
                span += below(&mut self.dice, 3000); // late
            }
            self.pass(span, true);
            self.turn();
        }
    }

    pub(super) fn week(&mut self) {
        let end = self.truth + 7 * DAY;
        while self.truth < end {
            let calm = MINUTE + below(&mut self.dice, 30 * HOUR);
            self.live((self.truth + calm).min(end));
            self.settle();
            self.weather();
            self.turn();
        }
    }

    /// Whatever waits for a frame is written, and everything that has come is decided.
    fn settle(&mut self) {
        let seen = self.starts;
        let mut walls = [Timestamp(0); 2];
        for wall in &mut walls {
            self.pass(11 * SECOND, true);
            self.turn();
            while self.until_next(1) == 0 {
                self.turn();
            }
            *wall = Timestamp(self.wall());
        }
        let [wall, _] = walls; // what came since then may wait for a frame
        if seen == self.starts && PLAUSIBLE_SINCE <= wall {
            self.ledger.settled(wall, self.engine.as_ref().unwrap().state());
        }
    }

    fn weather(&mut self) {
        match self.dice.below(14) {
            0 | 1 => self.killed(),
            2 => {
                self.disk.power_off();
                let off = pick(&mut self.dice, &[20 * SECOND, 10 * MINUTE, 7 * HOUR, 50 * HOUR]);
                self.reboot(off);
            }
            3 => {
                // In the middle of one of the next turns.
                let calls = self.disk.calls() + 1 + below(&mut self.dice, 30);
                self.disk.crash_at(calls, self.dice.one_in(2));
            }
            4 => {
                self.deeds.suspends += 1;
                let span = MINUTE + below(&mut self.dice, 9 * HOUR);
                self.pass(span, false);
            }
            5 | 6 => self.step(),
            7 => {
                self.deeds.glitches += 1;
                self.ahead = i64::try_from(GLITCH - self.truth).unwrap();
                self.mends = Some(self.truth + MINUTE + below(&mut self.dice, 3 * HOUR));
            }
            8 => {
                // No battery: 1970 until the net is there, which may first tell 2038.
                self.deeds.epochs += 1;
                self.disk.power_off();
                self.ahead = -i64::try_from(self.truth).unwrap() + 5_000;
                self.mends = None;
                self.reboot(30 * MINUTE);
                let span = below(&mut self.dice, HOUR);
                self.live(self.truth + span);
                if self.dice.one_in(3) {
                    self.deeds.glitches += 1;
                    self.ahead = i64::try_from(GLITCH - self.truth).unwrap();
                }
                self.mends = Some(self.truth + below(&mut self.dice, HOUR));
            }
            9 => self.edit_config(),
            _ => {
                for _ in 0..=self.dice.below(4) {
                    self.give_an_order();
                }
            }
        }
    }

    fn step(&mut self) {
        self.deeds.steps += 1;
        let size = pick(&mut self.dice, &[2 * SECOND, 40 * SECOND, 10 * MINUTE, HOUR, 6 * HOUR]);
        let size = i64::try_from(size).unwrap();
        self.ahead = if self.dice.one_in(2) { size } else { -size };
        let span = pick(&mut self.dice, &[MINUTE, HOUR, 30 * HOUR]);
        self.mends = Some(self.truth + 1 + below(&mut self.dice, span));
    }

    fn edit_config(&mut self) {
        // Away, and another config when it comes back.
        let names: Vec<_> = self.config.keys().cloned().collect();
        let now = Timestamp(self.truth);
        for name in names {
            match self.dice.below(6) {
                0 => {
                    self.config.remove(&name);
                }
                1 => {
                    let spec = edited(&mut self.dice, &self.config[&name], now);
                    self.config.insert(name, spec);
                }
                _ => {}
            }
        }
        let name = format!("config-{}", self.dice.below(8));
        let spec = self.draw();
        self.config.insert(name.as_str().into(), spec);
        self.version += u64::from(self.dice.one_in(2));
        self.killed();
    }

    fn give_an_order(&mut self) {
        let names = self.ledger.names();
        if names.is_empty() || self.dice.one_in(5) {
            return self.add_one();
        }
        let name = names[self.dice.below(names.len())].clone();
        let act = match self.dice.below(6) {
            0 => ScheduleAct::Pause { reason: None },
            1 | 2 => ScheduleAct::Resume,
            3 => ScheduleAct::Trigger { by: Actor::User(1000) },
            4 => ScheduleAct::Remove { origin: Origin::Runtime },
            _ => {
                let now = Timestamp(self.truth);
                let spec = edited(&mut self.dice, self.ledger.spec(&name).unwrap(), now);
                ScheduleAct::Set { spec: Box::new(spec), origin: Origin::Runtime, replace: true }
            }
        };
        self.order(&name, act);
    }

    /// The engine is killed; now and then its worker with it, and it may be away for long.
    fn killed(&mut self) {
        self.deeds.kills += 1;
        self.engine = None;
        self.inputs.clear();
        self.disk = self.disk.restarted();
        // What the worker had heard of before may not be all that was granted.
        self.worker = None;
        self.runs.clear();
        let away = pick(&mut self.dice, &[0, SECOND, MINUTE, 3 * HOUR, 30 * HOUR]);
        self.deeds.absences += u64::from(MINUTE <= away);
        self.pass(away, false);
        self.start();
    }

    /// The power went; it comes back after `off`.
    fn reboot(&mut self, off: u64) {
        self.deeds.reboots += 1;
        self.engine = None;
        self.inputs.clear();
        self.disk = self.disk.after_crash(self.dice.word(), false);
        self.worker = None;
        self.runs.clear();
        self.boot += 1;
        self.truth += off;
        self.boot_clock = 20 * SECOND;
        self.at_once = 0;
        self.start();
    }

    /// The clock is right again and stays so: everything goes on as planned.
    pub(super) fn calm_down(&mut self) {
        self.mends = Some(self.truth);
        self.live(self.truth + DAY + HOUR);
        self.settle();
        let wall = Timestamp(self.wall());
        self.ledger.is_not_ahead(wall);
        let state = self.engine.as_ref().unwrap().state();
        state.check().unwrap();
    }
}

/// Whether an event that was found in the journal ended its task.
fn ends(event: &Event) -> bool {
    match event {
        Event::Ended(ended) => ended.to.is_terminal(),
        Event::Moved(moved) => moved.to.is_terminal(),
        _ => false,
    }
}
