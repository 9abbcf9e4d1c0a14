//! The engine against the model: the same commands, the same answers, the same tasks after each,
//! with restarts as one more thing that can happen.
//!
//! `MIDWATCH_L3_CASES` asks for more cases, `MIDWATCH_L3_FIRST` for others.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use midwatch::defect::Defect;
use midwatch::engine::{Engine, Input, Output, Start, Ticket, digest, write_snapshot};
use midwatch::journal::{Host, Options};
use midwatch::kernel::event::{Actor, Registration};
use midwatch::kernel::ids::{
    Fence, LifeTime, Millis, Moment, ProcessId, ServiceTime, TaskId, Timestamp, WorkerId,
};
use midwatch::kernel::rules::{KindRules, Reserve, RetryPolicy, Rules};
use midwatch::kernel::status::{Outcome, Reason, Status};
use midwatch::kernel::task::{After, SecretHash, TaskSpec};
use midwatch::kernel::task_type::{Bounds, Per, Rate};
use midwatch::kernel::verdict::Verb;
use midwatch::kernel::{
    Answer, Change, Command, Edit, EndReport, HoldReport, NextRun, Proof, Rejection, TypeAct,
};
use midwatch::sim::{Dice, SimDisk};

use crate::asked;
use crate::model::{self, Model, Set, Way, Wish};

/// Cases in the plain test run.
const CASES: u64 = 1_000;
/// Commands of one case.
const COMMANDS: usize = 80;

fn rules() -> Rules {
    let mut rules = Rules {
        heartbeat: Millis(model::HEARTBEAT),
        suspect_after: Millis(model::SUSPECT_AFTER),
        offline_after: Millis(model::OFFLINE_AFTER),
        rolling_lease: Millis(model::ROLLING),
        max_lost: model::LOSSES_MAX,
        promote_after: Millis(model::PROMOTE_AFTER),
        reserve: model::RESERVE.map(reserve).to_vec(),
        ..Rules::default()
    };
    rules.fallback.retry = RetryPolicy::Intervals(model::WAITS.map(Millis).to_vec());
    rules.fallback.cancel_grace = Millis(model::GRACES / 2);
    rules.fallback.kill_grace = Millis(model::GRACES / 2);
    for kind in ["a", "b"] {
        let (max_running, pace) = model::config(kind);
        let bounds = Bounds { max_running, rate: pace.map(rate) };
        rules.kinds.insert(kind.into(), KindRules { bounds, ..rules.fallback.clone() });
    }
    rules
}

fn reserve((priority_max, slots): (i32, usize)) -> Reserve {
    Reserve { priority_max, slots: u32::try_from(slots).unwrap() }
}

/// A rate of so many in so many milliseconds.
fn rate((count, span): (u32, u64)) -> Rate {
    let per = Per::ALL.iter().find(|per| per.span() == Millis(span)).unwrap();
    Rate { count, per: *per }
}

/// Both, side by side.
struct Pair {
    dice: Dice,
    model: Model,
    engine: Option<Engine<SimDisk>>,
    disk: SimDisk,
    boot: u64,
    sweeps: Vec<(u64, u64)>,
    /// Leases that were once given: task, worker, token, secret.
    given: Vec<(u64, u64, u64, u8)>,
    /// What was done, for the report of a difference.
    script: Vec<String>,
    restarts: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let disk = SimDisk::new(dice.word());
        let mut model = Model::default();
        model.wall = 1 << 40;
        let mut pair = Self {
            dice,
            model,
            engine: None,
            disk,
            boot: 1,
            sweeps: Vec::new(),
            given: Vec::new(),
            script: Vec::new(),
            restarts: 0,
        };
        pair.open(Vec::new());
        pair
    }

    fn open(&mut self, dead: Vec<(WorkerId, Reason)>) {
        let host = Host { machine_id: [7; 16], boot_id: [3; 16], random: self.dice.word() };
        let options = Options { segment_size: 8 << 10, reserve: 0, ..Options::default() };
        let opened = Engine::open(self.disk.clone(), options, host, rules());
        let (mut engine, recovery) = opened.expect("what a crash leaves can be opened");
        let start = Start {
            version: "sim".into(),
            boot_id: format!("{}", self.boot).into(),
            boot_clock: Millis(0),
            skipped_ahead: recovery.skipped_ahead,
            dead,
            ..Start::default()
        };
        engine.start(start, self.now()).map(drop).unwrap();
        engine.set_snapshot_after(4 << 10);
        self.engine = Some(engine);
    }

    fn now(&self) -> Moment {
        let Model { wall, life, service, .. } = self.model;
        let (wall, life, service) = (Timestamp(wall), LifeTime(life), ServiceTime(service));
        Moment { wall, life, service, dice: 1, doubtful: false }
    }

    /// Tells the engine one thing that the model has done already, and lets time pass for both.
    /// Whatever only the engine can know, tokens and ids, goes to `learn`.
    fn turn(&mut self, input: Option<Input>, learn: impl FnOnce(&mut Model, &Told)) -> String {
        let now = self.now();
        let outputs = self.engine.as_mut().unwrap().step(input, now).unwrap();
        let mut told = String::new();
        let mut sweeps = BTreeSet::new();
        let mut learn = Some(learn);
        let mut steps = 1;
        for output in outputs {
            match output {
                Output::Answers { answers, .. } => {
                    told = words(&answers[0]);
                    learn.take().unwrap()(&mut self.model, &answers[0]);
                }
                Output::Sweep { task, fence } => {
                    sweeps.insert((task.0, fence.0));
                }
                Output::Events(_) | Output::Archive(_) => {}
                Output::Snapshot { image, writer } => {
                    let written = write_snapshot(&image, *writer);
                    let engine = self.engine.as_mut().unwrap();
                    engine.step([Input::SnapshotWritten(written)], now).map(drop).unwrap();
                    steps += 1;
                }
            }
        }
        assert_eq!(sweeps, self.model.time(), "the sweeps asked for");
        (0..steps).for_each(|_| self.model.settle());
        self.sweeps.extend(sweeps);
        told
    }

    /// Asks the engine what the model has answered with `expected`.
    fn ask(&mut self, command: Command, expected: &str, learn: impl FnOnce(&mut Model, &Told)) {
        self.script.push(format!("{command:?}"));
        let ask = Input::Ask { from: Ticket(1), by: Actor::User(1000), commands: vec![command] };
        let told = self.turn(Some(ask), learn);
        assert_eq!(told, expected, "the answer");
    }

    fn compare(&self) {
        let state = self.engine.as_ref().unwrap().state();
        let view: Vec<_> = state.tasks().map(line).collect();
        assert_eq!(view, self.model.view());
        let kinds = ["a", "b"].map(|kind| {
            let paused = state.task_type(kind).is_some_and(|known| known.paused.is_some());
            let Bounds { max_running, rate } = state.bounds(&rules(), kind);
            let rate = rate.map(|rate| (rate.count, rate.per.span().0));
            format!("{kind} {paused} {max_running:?} {rate:?}")
        });
        assert_eq!(kinds.to_vec(), self.model.kinds());
        let workers: Vec<_> = state.workers().map(|worker| worker.id.0).collect();
        assert_eq!(workers, self.model.worker_ids());
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.dice.below(from.len())].clone()) }
    }

    fn step(&mut self) {
        let pause = [0, 1, 40, 300, 1_000, 2_500][self.dice.below(6)];
        self.model.wall += pause;
        self.model.life += pause;
        self.model.service += pause;
        self.script.push(format!("{pause} ms pass"));
        match self.dice.below(18) {
            0..3 => self.submit(),
            3 | 4 => self.act(),
            15 => self.edit(),
            16 => self.act_on_type(),
            5 => self.register(),
            6..9 => self.lease(),
            9 => self.heartbeat(),
            10 => self.checkpoint(),
            11 | 12 => self.end(),
            13 => self.swept(),
            14 => self.worker_ends(),
            _ if self.dice.one_in(3) => self.restart(),
            _ => drop(self.turn(None, |_, _| {})),
        }
        self.compare();
    }

    fn submit(&mut self) {
        let ids = self.model.task_ids();
        let mut after = Vec::new();
        while !ids.is_empty() && after.len() < 3 && self.dice.one_in(3) {
            let latest = ids.len().saturating_sub(5);
            let of = if self.dice.one_in(2) { &ids[latest..] } else { &ids[..] };
            after.push(self.pick(of).filter(|_| !self.dice.one_in(20)).unwrap_or(9_999));
        }
        let any = !after.is_empty() && self.dice.one_in(3);
        let (dice, wall) = (&mut self.dice, self.model.wall);
        let key = dice.one_in(3).then(|| format!("key {}", dice.below(5)));
        let wish = Wish {
            kind: ["a", "b"][dice.below(2)],
            payload: format!("{}", dice.below(3)),
            key,
            priority: [-1, 0, 1][dice.below(3)],
            max_retry: [0, 1, 2][dice.below(3)],
            timeout: dice.one_in(2).then_some(2_000),
            at: dice.one_in(5).then(|| wall + dice.below(6_000) as u64),
            delay: dice.one_in(5).then(|| dice.below(6_000) as u64),
            after,
            any,
        };
        self.submit_this(&wish);
    }

    fn submit_this(&mut self, wish: &Wish) {
        let mut spec = TaskSpec::new(wish.kind, wish.payload.clone());
        spec.key = wish.key.as_deref().map(Into::into);
        (spec.priority, spec.max_retry) = (wish.priority, wish.max_retry);
        spec.timeout = wish.timeout.map(Millis);
        spec.at = wish.at.map(Timestamp);
        spec.delay = wish.delay.map(Millis);
        let tasks: Vec<_> = wish.after.iter().copied().map(TaskId).collect();
        spec.after = (!tasks.is_empty()).then_some(After { tasks, any: wish.any });
        let expected = self.model.submit(wish);
        self.ask(Command::Submit(spec), &expected, |_, _| {});
    }

    fn act(&mut self) {
        let verb = Verb::ALL[self.dice.below(Verb::ALL.len())];
        let ids = self.model.task_ids();
        let task = self.pick(&ids).filter(|_| !self.dice.one_in(20)).unwrap_or(9_999);
        let max_retry = (verb == Verb::Reset && self.dice.one_in(2)).then_some(1);
        let expected = self.model.act(task, verb.word(), max_retry);
        let command = Command::Act { task: TaskId(task), verb, max_retry, fresh: false };
        self.ask(command, &expected, |_, _| {});
    }

    fn edit(&mut self) {
        let ids = self.model.task_ids();
        let Some(task) = self.pick(&ids) else { return };
        let dice = &mut self.dice;
        let priority = dice.one_in(2).then(|| [-1, 0, 1][dice.below(3)]);
        let max_retry = dice.one_in(3).then(|| [0, 1, 2][dice.below(3)]);
        let delay = dice.one_in(3).then(|| dice.below(3_000) as u64);
        let expected = self.model.edit(task, priority, max_retry, delay);
        let next_run = delay.map(|delay| NextRun::In(Millis(delay)));
        let edit = Edit { priority, max_retry, next_run, ..Edit::default() };
        self.ask(Command::Edit { task: TaskId(task), edit }, &expected, |_, _| {});
    }

    fn act_on_type(&mut self) {
        let kind = ["a", "b", "a", "b", "c"][self.dice.below(5)];
        let (expected, act) = match self.dice.below(4) {
            0 => (self.model.pause_type(kind, true), TypeAct::Pause { reason: None }),
            1 | 2 => (self.model.pause_type(kind, false), TypeAct::Resume),
            _ => {
                let max = [Set::Not, Set::Lifted, Set::To(1), Set::To(2)][self.dice.below(4)];
                let pace = [Set::Not, Set::Lifted, Set::To((1, 1_000)), Set::To((5, 60_000))];
                let pace = pace[self.dice.below(4)];
                let rate = match change(pace) {
                    Change::AtMost(pace) => Change::AtMost(rate(pace)),
                    Change::Unlimited => Change::Unlimited,
                    Change::Keep | Change::Config => Change::Config,
                };
                let act = TypeAct::Limit { max_running: change(max), rate };
                (self.model.limit_type(kind, max, pace), act)
            }
        };
        self.ask(Command::ActOnType { kind: kind.into(), act }, &expected, |_, _| {});
    }

    fn register(&mut self) {
        if 3 < self.model.worker_ids().len() {
            return;
        }
        let kinds: &[&'static str] = [&["a"][..], &["b"], &["a", "b"]][self.dice.below(3)];
        let slots = [1, 2, 3][self.dice.below(3)];
        let command = Command::Register(Registration {
            name: "w".into(),
            process: ProcessId::default(),
            host: "sim".into(),
            version: "sim".into(),
            lock: "lock".into(),
            kinds: kinds.iter().map(|kind| (*kind).into()).collect(),
            slots,
        });
        self.ask(command, "registered", |model, told| {
            if let Ok(Answer::Registered(id)) = told {
                model.register(id.0, kinds, slots as usize);
            }
        });
    }

    /// A worker that is registered, or now and then one that is not.
    fn some_worker(&mut self) -> u64 {
        let ids = self.model.worker_ids();
        self.pick(&ids).filter(|_| !self.dice.one_in(20)).unwrap_or(8_888)
    }

    fn lease(&mut self) {
        let worker = self.some_worker();
        let secrets: Vec<u8> =
            (0..=self.dice.below(2)).map(|_| self.dice.word().to_le_bytes()[0]).collect();
        let expected = self.model.lease(worker, secrets.len());
        let hashes = secrets.iter().map(|secret| SecretHash([*secret; 16])).collect();
        let mut given = Vec::new();
        self.ask(
            Command::Lease { worker: WorkerId(worker), secrets: hashes },
            &expected,
            |model, told| {
                let Ok(Answer::Leased(leases)) = told else { return };
                let leases = leases.iter().zip(&secrets);
                let leases: Vec<_> = leases.map(|((t, f), secret)| (t.0, f.0, *secret)).collect();
                model.leased(worker, &leases);
                given.extend(leases.iter().map(|(task, token, s)| (*task, worker, *token, *s)));
            },
        );
        self.given.extend(given);
    }

    /// A lease that was given once, more likely one that holds; now and then a forged one.
    fn some_lease(&mut self) -> Option<(u64, u64, u64, u8)> {
        let holds = self.model.holds().into_iter();
        let held: Vec<_> = holds.map(|(id, h)| (id, h.worker, h.token, h.secret)).collect();
        let given = self.given.clone();
        let lease = if self.dice.one_in(3) { self.pick(&given) } else { self.pick(&held) };
        let (task, worker, token, secret) = lease?;
        let forged = if self.dice.one_in(20) { secret ^ 1 } else { secret };
        Some((task, worker, token, forged))
    }

    fn heartbeat(&mut self) {
        let worker = self.some_worker();
        let mut holds: Vec<(u64, u64, u8, bool)> = Vec::new();
        for _ in 0..self.dice.below(3) {
            let Some((task, _, token, secret)) = self.some_lease() else { continue };
            if holds.iter().all(|(known, ..)| *known != task) {
                holds.push((task, token, secret, self.dice.one_in(2)));
            }
        }
        let expected = self.model.heartbeat(worker, &holds);
        let worker = WorkerId(worker);
        let holds = holds.into_iter().map(|(task, token, secret, started)| HoldReport {
            proof: proof((task, worker.0, token, secret)),
            process: started.then(ProcessId::default),
            progress: None,
        });
        let command = Command::Heartbeat { worker, holds: holds.collect() };
        self.ask(command, &expected, |_, _| {});
    }

    fn checkpoint(&mut self) {
        let Some(lease) = self.some_lease() else { return };
        let data = format!("{}", self.dice.below(1_000));
        let expected = self.model.checkpoint(lease, &data);
        let command = Command::Checkpoint { proof: proof(lease), data: data.into() };
        self.ask(command, &expected, |_, _| {});
    }

    fn end(&mut self) {
        let Some(lease) = self.some_lease() else { return };
        let (way, outcome) = [
            (Way::Success, Outcome::Success),
            (Way::Fatal, Outcome::Fatal),
            (Way::Retryable, Outcome::Retryable),
            (Way::Retryable, Outcome::Retryable),
            (Way::TimedOut, Outcome::TimedOut),
            (Way::Obeyed, Outcome::Cancelled),
            (Way::Obeyed, Outcome::Paused),
            (Way::Released, Outcome::Released),
        ][self.dice.below(8)];
        let started = self.dice.one_in(2);
        let expected = self.model.end(lease, way);
        let (exit_code, signal, result, error) = (None, None, None, None);
        let usage = None;
        let (ran, input) = (None, None);
        let report =
            EndReport { outcome, started, exit_code, signal, result, error, usage, ran, input };
        self.ask(Command::End { proof: proof(lease), report }, &expected, |_, _| {});
    }

    fn swept(&mut self) {
        if self.sweeps.is_empty() {
            return;
        }
        let (task, token) = self.sweeps.swap_remove(self.dice.below(self.sweeps.len()));
        let ran = self.dice.one_in(2);
        self.model.swept(task, token, ran);
        self.script.push(format!("task {task} swept, ran: {ran}"));
        let swept = Input::Swept { task: TaskId(task), fence: Fence(token), ran };
        self.turn(Some(swept), |_, _| {});
    }

    fn worker_ends(&mut self) {
        let ids = self.model.worker_ids();
        let Some(worker) = self.pick(&ids).filter(|_| self.dice.one_in(2)) else { return };
        self.model.dead(worker);
        if self.dice.one_in(2) {
            self.ask(Command::Leave(WorkerId(worker)), "done", |_, _| {});
        } else {
            self.script.push(format!("worker {worker} died"));
            let (worker, reason) = (WorkerId(worker), Reason::WorkerCrash);
            self.turn(Some(Input::WorkerDied { worker, reason }), |_, _| {});
        }
    }

    /// The engine goes and comes back: closed, killed, or with the whole machine.
    fn restart(&mut self) {
        // Heartbeats wait for company before they are written.
        self.submit_this(&Wish { kind: "a", payload: "9".into(), ..Wish::default() });
        let how = self.dice.below(3);
        self.script.push(["closed", "killed", "power cut"][how].to_owned());
        let engine = self.engine.take().unwrap();
        let before = digest(&engine.state().image());
        match how {
            0 => {
                engine.close().unwrap();
                self.disk = self.disk.restarted();
            }
            1 => self.disk = self.disk.restarted(),
            _ => {
                self.disk.power_off();
                self.disk = self.disk.after_crash(self.dice.word(), false);
                self.boot += 1;
            }
        }
        let rebooted = how == 2;
        let dead = |id: u64| (WorkerId(id), Reason::HostRebooted);
        let dead = self.model.worker_ids().into_iter().filter(|_| rebooted).map(dead);
        let (found, _) = Engine::open(
            self.disk.fork(),
            Options::default(),
            Host { machine_id: [7; 16], boot_id: [3; 16], random: 1 },
            rules(),
        )
        .unwrap();
        assert_eq!(digest(&found.state().image()), before, "a restart changes nothing");
        self.open(dead.collect());
        self.sweeps.clear();
        self.model.restarted(rebooted);
        self.restarts += 1;
        self.turn(None, |_, _| {});
    }
}

fn change<T>(set: Set<T>) -> Change<T> {
    match set {
        Set::Not => Change::Config,
        Set::Lifted => Change::Unlimited,
        Set::To(bound) => Change::AtMost(bound),
    }
}

/// What the engine answers to one command.
type Told = Result<Answer, Rejection>;

/// An answer in the words of the model.
fn words(told: &Told) -> String {
    match told {
        Ok(Answer::Done) => "done".into(),
        Ok(Answer::Submitted { task, existed }) => {
            format!("task {task} {}", if *existed { "existed" } else { "new" })
        }
        Ok(Answer::Acted { task, changed }) => {
            format!("task {task} {}", if *changed { "changed" } else { "unchanged" })
        }
        Ok(Answer::TypeActed { changed: true }) => "type changed".into(),
        Ok(Answer::TypeActed { changed: false }) => "type unchanged".into(),
        Ok(Answer::AlertActed { changed }) => format!("alert {changed}"),
        Ok(Answer::ScheduleActed { changed, task }) => format!("schedule {changed} {task:?}"),
        Ok(Answer::Registered(_)) => "registered".into(),
        Ok(Answer::Leased(leases)) => {
            format!("leased {:?}", leases.iter().map(|(task, _)| task.0).collect::<Vec<_>>())
        }
        Ok(Answer::Heard(stale)) => {
            format!("stale {:?}", stale.iter().map(|(t, f)| (t.0, f.0)).collect::<Vec<_>>())
        }
        Ok(Answer::Checkpointed(_)) => "checkpointed".into(),
        Ok(Answer::Ended(status)) => format!("ended {status}"),
        Ok(Answer::Refused(_)) => "refused".into(),
        Err(Rejection::NoSuchTask(_)) => "no task".into(),
        Err(Rejection::NoSuchWorker(_)) => "no worker".into(),
        Err(Rejection::NoSuchType(_)) => "no type".into(),
        Err(Rejection::RetriesUsed { .. }) => "too few".into(),
        Err(Rejection::WrongStatus { .. }) => "wrong status".into(),
        Err(Rejection::Blocked { .. }) => "blocked".into(),
        Err(Rejection::KeyConflict { task, .. }) => format!("conflict {task}"),
        Err(other) => format!("{other}"),
    }
}

/// A task in the words of the model.
fn line(task: &midwatch::kernel::task::Task) -> String {
    let waits = matches!(task.status, Status::Pending | Status::Retrying);
    let due = waits.then_some(task.due.0);
    let checkpoint = task.checkpoint().map(|kept| &*kept.data);
    let hold = task.lease().map(|lease| (lease.fence.0, lease.worker.0, lease.ends.0));
    let key = task.key().map(|key| &**key);
    let (id, status, payload) = (task.id, task.status, &task.payload);
    let (failures, losses) = (task.retry_count, task.lost_count);
    let open: Vec<_> = task.open().iter().map(|of| of.0).collect();
    format!(
        "{id} {status} {payload} {key:?} {failures} {losses} {due:?} {checkpoint:?} {hold:?} {open:?}"
    )
}

fn proof((task, worker, token, secret): (u64, u64, u64, u8)) -> Proof {
    let (worker, task, fence) = (WorkerId(worker), TaskId(task), Fence(token));
    Proof { worker, task, fence, secret: SecretHash([secret; 16]) }
}

/// Plays one case; `script` keeps what was done when it goes wrong.
fn play(seed: u64, script: &mut Vec<String>) -> u64 {
    let mut pair = Pair::new(seed);
    let played = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..COMMANDS {
            pair.step();
        }
    }));
    if let Err(wrong) = played {
        script.append(&mut pair.script);
        std::panic::resume_unwind(wrong);
    }
    pair.restarts
}

// proof: I2, I3, I6, I12, I13, I14, I15, I16, I18, I21, I22
#[test]
fn the_engine_does_what_the_model_says_through_any_number_of_restarts() {
    let first = asked("MIDWATCH_L3_FIRST", 1);
    let cases = asked("MIDWATCH_L3_CASES", CASES);
    let mut restarts = 0;
    for seed in first..first + cases {
        let mut script = Vec::new();
        match catch_unwind(AssertUnwindSafe(|| play(seed, &mut script))) {
            Ok(more) => restarts += more,
            Err(wrong) => {
                println!("L3: case {seed} went wrong after:\n  {}", script.join("\n  "));
                println!("L3: again: MIDWATCH_L3_FIRST={seed} MIDWATCH_L3_CASES=1");
                if Defect::chosen().is_some() {
                    println!("L3: wrong after {} cases", seed - first + 1);
                }
                std::panic::resume_unwind(wrong);
            }
        }
    }
    println!("L3: {cases} cases from {first}, {restarts} restarts");
    assert!(cases < CASES || cases < restarts, "too few restarts: {restarts}");
}
