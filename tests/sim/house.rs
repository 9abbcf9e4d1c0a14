//! An engine on the simulated disk, whose clocks a test turns.

use midwatch::engine::{Engine, Input, Output, Start, Ticket, digest, write_snapshot};
use midwatch::journal::{Host, JournalError, Options, Recovery, SnapshotDone};
use midwatch::kernel::event::{Actor, Event, Registration};
use midwatch::kernel::ids::{LifeTime, Millis, Moment, ProcessId, TaskId, Timestamp, WorkerId};
use midwatch::kernel::rules::{Retention, Rules};
use midwatch::kernel::task::{SecretHash, Task, TaskSpec};
use midwatch::kernel::verdict::Verb;
use midwatch::kernel::{Answer, Command, Proof, Rejection, State};
use midwatch::sim::SimDisk;

pub(crate) const SECRET: SecretHash = SecretHash([7; 16]);

/// An engine whose clocks this test turns.
pub(crate) struct House {
    pub(crate) disk: SimDisk,
    pub(crate) engine: Option<Engine<SimDisk>>,
    rules: Rules,
    options: Options,
    pub(crate) now: Moment,
    tickets: u64,
    /// The records that let tasks go, as they became durable.
    pub(crate) forgotten: Vec<Vec<TaskId>>,
    /// Tasks handed to the archive.
    pub(crate) archive: Vec<Vec<Task>>,
    /// A snapshot that was written, and the engine does not know yet.
    written: Option<Result<SnapshotDone, JournalError>>,
}

fn host(random: u64) -> Host {
    Host { machine_id: [1; 16], boot_id: [2; 16], random }
}

impl House {
    pub(crate) fn new(retention: Retention) -> Self {
        Self::with(Rules { retention, ..Rules::default() }, Options::default())
    }

    pub(crate) fn with(rules: Rules, options: Options) -> Self {
        let now = Moment { wall: Timestamp(1 << 40), ..Moment::default() };
        let mut house = Self {
            disk: SimDisk::new(5),
            engine: None,
            rules,
            options: Options { reserve: 64 << 10, ..options },
            now,
            tickets: 0,
            forgotten: Vec::new(),
            archive: Vec::new(),
            written: None,
        };
        house.start();
        house
    }

    /// Starts an engine on what is on the disk.
    pub(crate) fn start(&mut self) -> Recovery {
        let (disk, rules) = (self.disk.clone(), self.rules.clone());
        let (engine, recovery) = Engine::open(disk, self.options, host(9), rules).unwrap();
        engine.state().check().unwrap();
        self.engine = Some(engine);
        let start = Start {
            version: "1".into(),
            boot_id: "boot".into(),
            boot_clock: Millis(0),
            skipped_ahead: recovery.skipped_ahead,
            ..Start::default()
        };
        let outputs = self.engine.as_mut().unwrap().start(start, self.now).unwrap();
        self.take(outputs);
        recovery
    }

    /// The same house on another disk, before anything was started there.
    pub(crate) fn on(&self, disk: SimDisk) -> Self {
        Self {
            disk,
            engine: None,
            rules: self.rules.clone(),
            options: self.options,
            now: self.now,
            tickets: 0,
            forgotten: Vec::new(),
            archive: Vec::new(),
            written: None,
        }
    }

    pub(crate) fn engine(&self) -> &Engine<SimDisk> {
        self.engine.as_ref().unwrap()
    }

    pub(crate) fn state(&self) -> &State {
        self.engine.as_ref().unwrap().state()
    }

    pub(crate) fn pass(&mut self, span: Millis) {
        self.now.wall = self.now.wall.after(span);
        self.now.life = self.now.life.after(span);
        self.now.service = self.now.service.after(span);
    }

    pub(crate) fn turn(&mut self, inputs: Vec<Input>) -> Vec<Result<Answer, Rejection>> {
        let outputs = self.engine.as_mut().unwrap().step(inputs, self.now).unwrap();
        let answers = self.take(outputs);
        if let Some(written) = self.written.take() {
            self.turn(vec![Input::SnapshotWritten(written)]);
        }
        answers
    }

    pub(crate) fn take(&mut self, outputs: Vec<Output<SimDisk>>) -> Vec<Result<Answer, Rejection>> {
        let mut answers = Vec::new();
        for output in outputs {
            match output {
                Output::Answers { answers: given, .. } => answers.extend(given),
                Output::Archive(tasks) => self.archive.push(tasks),
                Output::Events(events) => {
                    let gone = events.iter().filter_map(|recorded| match &recorded.event {
                        Event::Forgotten(forgotten) => Some(forgotten.tasks.clone()),
                        _ => None,
                    });
                    self.forgotten.extend(gone);
                }
                Output::Snapshot { image, writer } => {
                    self.written = Some(write_snapshot(&image, *writer));
                }
                Output::Sweep { .. } => {}
            }
        }
        answers
    }

    pub(crate) fn ask(&mut self, commands: Vec<Command>) -> Vec<Result<Answer, Rejection>> {
        self.tickets += 1;
        let from = Ticket(self.tickets);
        self.turn(vec![Input::Ask { from, by: Actor::User(1000), commands }])
    }

    pub(crate) fn ask_one(&mut self, command: Command) -> Result<Answer, Rejection> {
        self.ask(vec![command]).pop().unwrap()
    }

    pub(crate) fn submit(&mut self, spec: TaskSpec) -> TaskId {
        match self.ask_one(Command::Submit(spec)) {
            Ok(Answer::Submitted { task, existed: false }) => task,
            other => panic!("{other:?}"),
        }
    }

    /// A task that ends at once.
    pub(crate) fn ended(&mut self, key: Option<&str>) -> TaskId {
        self.pass(Millis(1));
        let key = key.map(Into::into);
        let task = self.submit(TaskSpec { key, ..TaskSpec::new("job", "null") });
        self.act(task, Verb::Cancel).unwrap();
        task
    }

    pub(crate) fn act(&mut self, task: TaskId, verb: Verb) -> Result<Answer, Rejection> {
        self.ask_one(Command::Act { task, verb, max_retry: None, fresh: false })
    }

    pub(crate) fn left(&self) -> Vec<u64> {
        self.state().tasks().map(|task| task.id.0).collect()
    }

    pub(crate) fn wake(&self) -> Option<LifeTime> {
        self.engine.as_ref().unwrap().next_wake().unhurried
    }

    /// Ends the engine as a crash of the process would, once what travels along is written, and
    /// starts another: the same state.
    pub(crate) fn crash(&mut self) {
        self.pass(Millis::secs(10));
        self.turn(Vec::new());
        let engine = self.engine.take().unwrap();
        let live = digest(&engine.state().image());
        drop(engine);
        self.disk = self.disk.restarted();
        let (disk, rules) = (self.disk.fork(), self.rules.clone());
        let (again, _) = Engine::open(disk, self.options, host(8), rules).unwrap();
        assert_eq!(digest(&again.state().image()), live, "replay gives another state");
        self.start();
    }
}

/// A new worker that runs one type.
pub(crate) fn registered(house: &mut House, kind: &str, slots: u32) -> WorkerId {
    let registration = Registration {
        name: "w1".into(),
        process: ProcessId::default(),
        host: "here".into(),
        version: "1".into(),
        lock: "w1.lock".into(),
        kinds: vec![kind.into()],
        slots,
    };
    match house.ask_one(Command::Register(registration)) {
        Ok(Answer::Registered(worker)) => worker,
        other => panic!("{other:?}"),
    }
}

/// A new worker with one lease on a new task.
pub(crate) fn leased(house: &mut House) -> (TaskId, Proof) {
    leased_as(house, "run")
}

/// The same with a type of its own, which no task that is there has.
pub(crate) fn leased_as(house: &mut House, kind: &str) -> (TaskId, Proof) {
    let task = house.submit(TaskSpec::new(kind, "null"));
    let worker = registered(house, kind, 1);
    let lease = Command::Lease { worker, secrets: vec![SECRET] };
    match house.ask_one(lease) {
        Ok(Answer::Leased(leases)) => {
            let (leased, fence) = leases[0];
            assert_eq!(leased, task);
            (task, Proof { worker, task, fence, secret: SECRET })
        }
        other => panic!("{other:?}"),
    }
}
