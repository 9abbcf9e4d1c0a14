//! The engine's figures against a count of our own from what `midwatch-journal dump` prints, after
//! random lives with kills, restarts and snapshots.

use super::journal_tool::tool;
use midwatch::engine::{
    Engine, Input, Output, Rebuild, Rebuilding, Start, Ticket, digest, write_snapshot,
};
use midwatch::journal::{Host, Options, RealDisk, replay};
use midwatch::kernel::event::{Actor, Registration};
use midwatch::kernel::figures::{Histogram, Sums};
use midwatch::kernel::ids::{Fence, WorkerId};
use midwatch::kernel::ids::{LifeTime, Millis, Moment, ProcessId, ServiceTime, TaskId, Timestamp};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::schedule::{From, Origin, Plan, ScheduleSpec};
use midwatch::kernel::status::{Outcome, Reason};
use midwatch::kernel::task::{InputDigest, SecretHash, TaskSpec};
use midwatch::kernel::verdict::Verb;
use midwatch::kernel::{Answer, Command, EndReport, Proof, ScheduleAct};
use midwatch::units::parse_rfc3339;
use serde_json::Value;
use std::collections::BTreeMap;

const SECRET: SecretHash = SecretHash([7; 16]);

const KINDS: [&str; 3] = ["fetch", "render", "sweep"];

struct Life {
    dir: tempfile::TempDir,
    engine: Option<Engine<RealDisk>>,
    now: Moment,
    seed: u64,
    worker: WorkerId,
    held: Vec<(TaskId, Fence)>,
    /// Every line that was ever dumped, by its sequence.
    lines: BTreeMap<u64, Value>,
}

impl Life {
    fn new(seed: u64) -> Self {
        let now = Moment {
            wall: Timestamp(1_773_454_200_000),
            life: LifeTime(0),
            service: ServiceTime(0),
            dice: seed,
            doubtful: false,
        };
        let dir = tempfile::tempdir().unwrap();
        let (worker, held, lines) = (WorkerId(0), Vec::new(), BTreeMap::new());
        let mut life = Self { dir, engine: None, now, seed, worker, held, lines };
        life.start();
        for (place, plan) in [
            Plan::Every(Millis::secs(1_200), From::Start),
            Plan::Cron("*/17 * * * *".to_owned().into()),
        ]
        .into_iter()
        .enumerate()
        {
            let spec = Box::new(ScheduleSpec::new(KINDS[place], plan));
            let act = ScheduleAct::Set { spec, origin: Origin::Runtime, replace: false };
            let name = format!("plan{place}").into();
            life.ask(Command::ActOnSchedule { name, act });
        }
        life
    }

    fn below(&mut self, bound: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        usize::try_from(self.seed >> 33).unwrap() % bound
    }

    fn start(&mut self) {
        let host = Host { machine_id: [1; 16], boot_id: [2; 16], random: self.seed };
        let disk = RealDisk::open(self.dir.path()).unwrap();
        let options = Options { segment_size: 64 << 10, reserve: 64 << 10, ..Options::default() };
        let (mut engine, recovery) = Engine::open(disk, options, host, Rules::default()).unwrap();
        engine.set_snapshot_after(24 << 10);
        let start = Start {
            version: "0.1.0".into(),
            boot_id: "b0".into(),
            boot_clock: Millis(5_000),
            skipped_ahead: recovery.skipped_ahead,
            ..Start::default()
        };
        engine.start(start, self.now).unwrap();
        self.engine = Some(engine);
        self.register();
    }

    fn register(&mut self) {
        let registration = Registration {
            name: "w".into(),
            process: ProcessId::default(),
            host: "h".into(),
            version: "1".into(),
            lock: "l".into(),
            kinds: KINDS.iter().map(|kind| (*kind).into()).collect(),
            slots: 6,
        };
        if let Some(Answer::Registered(worker)) = self.ask(Command::Register(registration)) {
            self.worker = worker;
        }
        self.held.clear();
    }

    fn wait(&mut self, span: u64) {
        self.now.wall.0 += span;
        self.now.life.0 += span;
        self.now.service.0 += span;
    }

    /// The answer, where it was not refused.
    fn ask(&mut self, command: Command) -> Option<Answer> {
        self.step(Input::Ask { from: Ticket(1), by: Actor::User(7), commands: vec![command] })
    }

    fn step(&mut self, input: Input) -> Option<Answer> {
        self.wait(7);
        let mut answer = None;
        let mut inputs = vec![input];
        while !inputs.is_empty() {
            let engine = self.engine.as_mut().unwrap();
            for output in engine.step(std::mem::take(&mut inputs), self.now).unwrap() {
                match output {
                    Output::Answers { answers, .. } => answer = answers.into_iter().next()?.ok(),
                    Output::Snapshot { image, writer } => {
                        inputs.push(Input::SnapshotWritten(write_snapshot(&image, *writer)));
                    }
                    Output::Sweep { task, fence } => {
                        inputs.push(Input::Swept { task, fence, ran: true });
                    }
                    Output::Archive(_) | Output::Events(_) => {}
                }
            }
        }
        answer
    }

    fn live(&mut self) {
        let span = [0, 30, 2_000, 90_000, 400_000][self.below(5)];
        self.wait(span);
        match self.below(9) {
            0..3 => {
                let mut spec = TaskSpec::new(KINDS[self.below(3)], "[1]");
                spec.max_retry = u32::try_from(self.below(3)).unwrap();
                spec.priority = [5, 100, 300][self.below(3)];
                self.ask(Command::Submit(spec));
            }
            3 | 4 => {
                let secrets = vec![SECRET; 3];
                let lease = Command::Lease { worker: self.worker, secrets };
                if let Some(Answer::Leased(leases)) = self.ask(lease) {
                    self.held.extend(leases);
                }
            }
            5 | 6 => self.end_one(),
            7 => {
                let last = self.engine.as_ref().unwrap().state().next_task().0;
                let task = TaskId(1 + u64::try_from(self.below(40)).unwrap());
                let task = TaskId(last.saturating_sub(task.0));
                let verb = [Verb::Cancel, Verb::Pause, Verb::Resume, Verb::Retry][self.below(4)];
                self.ask(Command::Act { task, verb, max_retry: None, fresh: false });
            }
            _ => {
                if self.below(6) == 0 {
                    let (worker, reason) = (self.worker, Reason::WorkerCrash);
                    self.step(Input::WorkerDied { worker, reason });
                    self.register();
                }
            }
        }
    }

    fn end_one(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let place = self.below(self.held.len());
        let (task, fence) = self.held.swap_remove(place);
        let outcome = [Outcome::Success, Outcome::Retryable, Outcome::Fatal, Outcome::Success];
        let outcome = outcome[self.below(4)];
        let ran = (self.below(4) != 0).then(|| Millis(u64::try_from(self.below(90_000)).unwrap()));
        let input = ["[1]", "null", "[1]"][self.below(3)];
        let report = EndReport {
            outcome,
            started: true,
            exit_code: None,
            signal: None,
            result: None,
            error: None,
            usage: None,
            ran,
            input: Some(InputDigest::of(input)),
        };
        let proof = Proof { worker: self.worker, task, fence, secret: SECRET };
        self.ask(Command::End { proof, report });
    }

    /// Reads what the journal holds by now, before a snapshot lets go of it.
    fn dump(&mut self) {
        let dir = self.dir.path().display().to_string();
        let (code, out, err) = tool(&["dump", &dir]);
        assert_eq!(code, 0, "{err}");
        for line in out.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if !line["event"].as_str().unwrap().starts_with("snapshot_") {
                self.lines.insert(line["seq"].as_u64().unwrap(), line);
            }
        }
    }

    fn restart(&mut self, kill: bool) {
        let engine = self.engine.take().unwrap();
        let before = digest(&engine.state().image());
        if kill {
            drop(engine);
        } else {
            engine.close().unwrap();
        }
        let disk = RealDisk::open(self.dir.path()).unwrap();
        let mut rebuild = Rebuild::default();
        replay(&disk, u64::MAX, &mut rebuild).unwrap();
        assert_eq!(digest(&rebuild.finish().image()), before, "figures included");
        self.dump();
        self.start();
    }
}

/// What we count, of one type.
#[derive(Default, Debug)]
struct Count {
    sums: Sums,
    wait: Vec<u64>,
    run: Vec<u64>,
    failures: u32,
    last_success: Option<u64>,
    most_retries: u64,
    /// Ends in SUCCESS by quarter of an hour.
    quarters: BTreeMap<u64, u64>,
}

#[derive(Default)]
struct Account {
    kinds: BTreeMap<String, Count>,
    tasks: BTreeMap<u64, Known>,
    fired: u64,
    on_time: u64,
    wrong: u64,
}

struct Known {
    kind: String,
    due: u64,
    leased: u64,
    failed: u64,
    max_retry: u64,
}

fn millis(value: &Value) -> u64 {
    parse_rfc3339(value.as_str().unwrap()).unwrap().0
}

impl Account {
    fn take(&mut self, line: &Value) {
        let number = |key: &str| line[key].as_u64();
        match line["event"].as_str().unwrap() {
            "submitted" => self.submitted(line),
            "fired" => {
                for passed in line["passed"].as_array().unwrap() {
                    if passed["passing"] == "fired" {
                        self.fired += 1;
                        let late = millis(&line["at"]).saturating_sub(millis(&passed["last"]));
                        self.on_time += u64::from(late <= 5_000);
                    }
                }
                if line["task"].is_object() {
                    self.submitted(&line["task"]);
                }
            }
            "leased" => {
                let task = self.tasks.get_mut(&number("task").unwrap()).unwrap();
                task.leased = millis(&line["at"]);
                let count = self.kinds.get_mut(&task.kind).unwrap();
                count.sums.attempts += 1;
                count.wait.push(number("life").unwrap() - task.due);
            }
            "ended" => {
                let task = &self.tasks[&number("task").unwrap()];
                let outcome = line["outcome"].as_str().unwrap();
                let count = self.kinds.get_mut(&task.kind).unwrap();
                if ["success", "retryable", "fatal", "timed_out"].contains(&outcome) {
                    count
                        .run
                        .push(number("ran").unwrap_or_else(|| millis(&line["at"]) - task.leased));
                }
                let retried = line["to"] == "RETRYING" && number("wait").is_some();
                count.sums.retried += u64::from(retried);
                self.wrong += u64::from(line["wrong_input"] == true);
                self.moved(line);
            }
            "moved" => self.moved(line),
            _ => {}
        }
    }

    fn submitted(&mut self, line: &Value) {
        let spec = &line["spec"];
        let known = Known {
            kind: spec["type"].as_str().unwrap().to_owned(),
            due: line["due"].as_u64().unwrap(),
            leased: 0,
            failed: 0,
            max_retry: spec["max_retry"].as_u64().unwrap(),
        };
        self.kinds.entry(known.kind.clone()).or_default().sums.created += 1;
        self.tasks.insert(line["task"].as_u64().unwrap(), known);
    }

    fn moved(&mut self, line: &Value) {
        let task = self.tasks.get_mut(&line["task"].as_u64().unwrap()).unwrap();
        let count = self.kinds.get_mut(&task.kind).unwrap();
        let life = line["life"].as_u64().unwrap();
        let to = line["to"].as_str().unwrap();
        task.failed += u64::from(line["event"] == "ended" && to == "RETRYING");
        match to {
            "PENDING" | "RETRYING" => task.due = life + line["wait"].as_u64().unwrap_or(0),
            "LOST" => count.sums.lost += 1,
            "CANCELLED" => count.sums.cancelled += 1,
            "SUCCESS" => {
                count.sums.succeeded += 1;
                count.failures = 0;
                count.last_success = Some(millis(&line["at"]));
                *count.quarters.entry(life / 900_000).or_default() += 1;
            }
            "FAILED" | "DEAD" => {
                let sum = if to == "DEAD" { &mut count.sums.dead } else { &mut count.sums.failed };
                *sum += 1;
                count.failures += 1;
            }
            _ => {}
        }
        if ["SUCCESS", "FAILED", "DEAD", "CANCELLED"].contains(&to) {
            count.most_retries = count.most_retries.max(task.failed.min(task.max_retry));
        }
    }
}

fn histogram(times: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    for time in times {
        histogram.count(Millis(*time));
    }
    histogram
}

// spec: FIG-001
#[test]
fn figures_are_what_a_count_of_the_dump_gives_whatever_restarts_there_were() {
    for seed in [1, 2, 3] {
        let mut life = Life::new(seed);
        for _ in 0..12 {
            for _ in 0..60 {
                life.live();
            }
            let kill = life.below(3) != 0;
            life.restart(kill);
        }
        life.restart(false);
        let mut account = Account::default();
        let first = *life.lines.keys().next().unwrap();
        assert_eq!(first, 1, "nothing was let go of before it was dumped");
        life.lines.values().for_each(|line| account.take(line));
        let engine = life.engine.as_ref().unwrap();
        let figures = engine.state().figures();
        assert!(400 < account.tasks.len() + account.kinds["fetch"].wait.len());
        assert_eq!(figures.types.len(), account.kinds.len());
        for (kind, count) in &account.kinds {
            let told = &figures.types[kind.as_str()];
            assert_eq!(told.ever.sums, count.sums, "{kind}");
            assert_eq!(told.ever.wait, histogram(&count.wait), "{kind}");
            assert_eq!(told.ever.run, histogram(&count.run), "{kind}");
            assert_eq!(told.failures, count.failures, "{kind}");
            assert_eq!(told.last_success.map(|at| at.0), count.last_success, "{kind}");
            assert_eq!(u64::from(told.ever.most_retries), count.most_retries, "{kind}");
            for quarter in &told.quarters {
                let ours = count.quarters.get(&quarter.number).copied().unwrap_or(0);
                assert_eq!(quarter.sums.succeeded, ours, "{kind}, quarter {}", quarter.number);
            }
        }
        let triggers = &figures.all.triggers;
        assert!(0 < triggers.fired && triggers.on_time < triggers.fired);
        assert_eq!((triggers.fired, triggers.on_time), (account.fired, account.on_time));
        assert!(0 < account.wrong);
        assert_eq!(figures.all.wrong_input, account.wrong);
        engine.state().check().unwrap();
    }
}
