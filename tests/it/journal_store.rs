//! A store with a history in it, made by the engine on a real disk: what the tests of the journal
//! tool and of the format look at.

use midwatch::engine::dump::{kept_json, record_json};
use midwatch::engine::{
    Engine, Input, Output, Rebuild, Rebuilding, Start, Ticket, codec, write_snapshot,
};
use midwatch::engine::{digest, for_each_record, hex};
use midwatch::journal::segment::HEADER_BYTES;
use midwatch::journal::{FrameAt, Host, Options, Place, RealDisk, Record, Visitor};
use midwatch::journal::{replay, salvage, scan};
use midwatch::kernel::alerts::{Channel, Grade, due};
use midwatch::kernel::event::{Actor, Event, Registration, Released, Stamp, Standing};
use midwatch::kernel::ids::{Fence, LifeTime, Millis, Moment, ServiceTime, TaskId, Timestamp};
use midwatch::kernel::ids::{ProcessId, Seq, WorkerId};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::schedule::{Fold, From, Gap, Origin, Overlap, Plan, ScheduleSpec};
use midwatch::kernel::status::{Outcome, Reason};
use midwatch::kernel::task::{After, InputDigest, Progress, SecretHash, TaskSpec, Usage};
use midwatch::kernel::text::Text;
use midwatch::kernel::verdict::Verb;
use midwatch::kernel::{
    AlertAct, Answer, Change, Command, Edit, EndReport, HoldReport, NextRun, Proof, ScheduleAct,
    TypeAct,
};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const SECRET: SecretHash = SecretHash([0xAB; 16]);

/// An engine at work in a directory of its own.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    engine: Option<Engine<RealDisk>>,
    now: Moment,
    starts: u64,
    tickets: u64,
    /// Snapshots are taken as soon as they are due.
    snapshots: bool,
    pub(crate) options: Options,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_snapshots(u64::MAX)
    }

    /// A bench whose engine takes a snapshot after so many record bytes.
    pub(crate) fn with_snapshots(after: u64) -> Self {
        let now = Moment {
            wall: Timestamp(1_773_454_200_000),
            life: LifeTime(0),
            service: ServiceTime(0),
            dice: 7,
            doubtful: false,
        };
        let dir = tempfile::tempdir().unwrap();
        let options = Options { segment_size: 8 << 10, reserve: 16 << 10, ..Options::default() };
        let snapshots = after != u64::MAX;
        let mut bench = Self { dir, engine: None, now, starts: 0, tickets: 0, snapshots, options };
        bench.start();
        if let Some(engine) = &mut bench.engine {
            engine.set_snapshot_after(after);
        }
        bench
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Starts an engine on what is there.
    pub(crate) fn start(&mut self) {
        self.starts += 1;
        let host = Host { machine_id: [1; 16], boot_id: [2; 16], random: self.starts };
        let disk = RealDisk::open(self.dir.path()).unwrap();
        let (mut engine, recovery) =
            Engine::open(disk, self.options, host, Rules::default()).unwrap();
        let start = Start {
            version: "0.1.0".into(),
            boot_id: "b0".into(),
            boot_clock: Millis(5_000),
            skipped_ahead: recovery.skipped_ahead,
            ..Start::default()
        };
        engine.start(start, self.now).unwrap();
        self.engine = Some(engine);
    }

    /// The digest of the engine's state.
    pub(crate) fn digest(&self) -> String {
        digest(&self.engine.as_ref().unwrap().state().image())
    }

    /// The sequence of the last record.
    pub(crate) fn last_seq(&self) -> u64 {
        self.engine.as_ref().unwrap().journal().next_seq() - 1
    }

    /// The process is gone without a word.
    pub(crate) fn kill(&mut self) {
        self.engine = None;
    }

    /// The engine ends as it should.
    pub(crate) fn close(&mut self) {
        self.engine.take().unwrap().close().unwrap();
    }

    pub(crate) fn wait(&mut self, span: Millis) {
        self.now.wall = self.now.wall.after(span);
        self.now.life = self.now.life.after(span);
        self.now.service = self.now.service.after(span);
    }

    /// Somebody sets the clock on the wall back.
    pub(crate) fn step_back(&mut self, span: Millis) {
        self.now.wall = Timestamp(self.now.wall.0 - span.0);
    }

    /// One turn with these inputs; whatever it answers.
    fn step(&mut self, input: Input) -> Vec<Answer> {
        self.wait(Millis(10));
        let engine = self.engine.as_mut().unwrap();
        let mut answers = Vec::new();
        let mut inputs = vec![input];
        while !inputs.is_empty() {
            for output in engine.step(std::mem::take(&mut inputs), self.now).unwrap() {
                match output {
                    Output::Answers { answers: given, .. } => {
                        answers.extend(given.into_iter().map(Result::unwrap));
                    }
                    Output::Snapshot { image, writer } if self.snapshots => {
                        let written = write_snapshot(&image, *writer);
                        inputs.push(Input::SnapshotWritten(written));
                    }
                    Output::Snapshot { .. }
                    | Output::Archive(_)
                    | Output::Sweep { .. }
                    | Output::Events(_) => {}
                }
            }
        }
        answers
    }

    pub(crate) fn ask(&mut self, commands: Vec<Command>) -> Vec<Answer> {
        self.tickets += 1;
        let from = Ticket(self.tickets);
        self.step(Input::Ask { from, by: Actor::User(1000), commands })
    }

    pub(crate) fn ask_one(&mut self, command: Command) -> Answer {
        self.ask(vec![command]).pop().unwrap()
    }

    pub(crate) fn submit(&mut self, payload: &str) -> TaskId {
        self.submit_spec(TaskSpec::new("fetch", payload))
    }

    pub(crate) fn submit_spec(&mut self, spec: TaskSpec) -> TaskId {
        match self.ask_one(Command::Submit(spec)) {
            Answer::Submitted { task, .. } => task,
            other => panic!("{other:?}"),
        }
    }

    /// Whether the engine knows a task.
    pub(crate) fn has_task(&self, task: TaskId) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.state().task(task).is_some())
    }

    /// So many tasks in one frame.
    pub(crate) fn submit_many(&mut self, count: u64) {
        let spec = |number| Command::Submit(TaskSpec::new("fetch", format!("[{number}]")));
        self.ask((0..count).map(spec).collect());
    }

    /// Two records more, and a state that grows to its bound and no further.
    pub(crate) fn churn(&mut self, task: TaskId) {
        self.act(task, Verb::Pause);
        self.act(task, Verb::Resume);
    }

    pub(crate) fn act(&mut self, task: TaskId, verb: Verb) {
        self.ask_one(Command::Act { task, verb, max_retry: None, fresh: false });
    }

    pub(crate) fn register(&mut self) -> WorkerId {
        let registration = Registration {
            name: "w1".into(),
            process: process(700),
            host: "relay-7".into(),
            version: "0.1.0".into(),
            lock: "run/worker-1.lock".into(),
            kinds: vec!["fetch".into()],
            slots: 8,
        };
        match self.ask_one(Command::Register(registration)) {
            Answer::Registered(worker) => worker,
            other => panic!("{other:?}"),
        }
    }

    /// Leases the best task there is.
    pub(crate) fn lease(&mut self, worker: WorkerId) -> Proof {
        match self.ask_one(Command::Lease { worker, secrets: vec![SECRET] }) {
            Answer::Leased(leases) => proof(worker, leases[0]),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn end(&mut self, proof: Proof, outcome: Outcome) {
        let report = EndReport {
            outcome,
            started: true,
            exit_code: Some(if outcome == Outcome::Success { 0 } else { 75 }),
            signal: None,
            result: (outcome == Outcome::Success).then(|| r#"{"rows":41}"#.into()),
            error: (outcome != Outcome::Success).then(|| "HTTP 502".into()),
            usage: (outcome == Outcome::Success)
                .then_some(Usage { peak_memory: 41 << 20, cpu_ms: Millis(1300) }),
            ran: (outcome == Outcome::Success).then_some(Millis(2_000)),
            input: (outcome == Outcome::Success).then(|| InputDigest::of("another")),
        };
        self.ask_one(Command::End { proof, report });
    }

    /// A history that holds every kind of event and every optional field.
    pub(crate) fn full_history(&mut self) {
        let worker = self.register();
        let spec = TaskSpec {
            priority: -3,
            max_retry: 1,
            timeout: Some(Millis::secs(600)),
            delay: Some(Millis(1)),
            key: Some("nightly-2026".into()),
            checkpoint: Some("[1]".into()),
            ..TaskSpec::new("fetch", "{\n  \"größe\": 12345678901234567890.10 ,\"s\":\"a\\nb\"\n}")
        };
        let first = self.submit_spec(spec);
        self.wait(Millis(5));
        let proof = self.lease(worker);
        let progress = Progress { done: 1, total: Some(9), note: Some("half".to_owned()) };
        let hold = HoldReport { proof, process: Some(process(701)), progress: Some(progress) };
        self.ask_one(Command::Heartbeat { worker, holds: vec![hold] });
        self.ask_one(Command::Checkpoint { proof, data: r#"{"cursor":"o_99123"}"#.into() });
        self.end(proof, Outcome::Retryable);
        self.act(first, Verb::RunNow);
        let proof = self.lease(worker);
        self.end(proof, Outcome::Retryable); // retries exhausted
        self.act(first, Verb::Retry);
        let proof = self.lease(worker);
        self.end(Proof { fence: Fence(1), ..proof }, Outcome::Success); // refused
        self.end(proof, Outcome::Success);
        let at = self.now.wall.after(Millis::secs(3600));
        let spec = TaskSpec { at: Some(at), ..TaskSpec::new("fetch", "null") };
        let later = self.submit_spec(spec);
        self.act(later, Verb::Pause);
        self.act(later, Verb::Resume);
        self.act(later, Verb::Cancel);
        let stuck = self.submit("[]");
        self.lease(worker);
        let reset =
            Command::Act { task: stuck, verb: Verb::Reset, max_retry: Some(7), fresh: false };
        self.ask_one(reset);
        self.ask_one(Command::Silent { worker, standing: Standing::Suspect });
        self.step(Input::WorkerDied { worker, reason: Reason::WorkerCrash });
    }

    /// Two of the tasks that ended in the full history are forgotten.
    pub(crate) fn forget_two(&mut self) {
        self.ask_one(Command::Forget(vec![TaskId(3), TaskId(1)]));
    }

    /// A type is limited, dispatched under its rate, paused, resumed and paused again; a task that
    /// waits is edited.
    pub(crate) fn order_types(&mut self) {
        let worker = self.register();
        let rate = Change::AtMost("10/m".parse().unwrap());
        self.on_type(TypeAct::Limit { max_running: Change::Unlimited, rate });
        self.submit("[]");
        self.lease(worker);
        let waits = self.submit("[]");
        let next_run = Some(NextRun::At(self.now.wall.after(Millis::secs(3600))));
        let edit = Edit {
            priority: Some(-7),
            max_retry: Some(9),
            timeout: Change::AtMost(Millis::secs(5)),
            next_run,
        };
        self.ask_one(Command::Edit { task: waits, edit });
        self.ask_one(Command::Edit {
            task: waits,
            edit: Edit { timeout: Change::Unlimited, ..edit },
        });
        self.on_type(TypeAct::Pause { reason: None });
        self.on_type(TypeAct::Resume);
        self.on_type(TypeAct::Pause { reason: Some("the upstream is down".into()) });
        let kinds = vec!["fetch".into(), "fold".into()];
        self.ask_one(Command::Offer { worker, kinds, slots: 4 });
    }

    /// Schedules that were set, fired, skipped, paused, resumed and removed; tasks that wait for
    /// others; a clock that was put forward and back.
    pub(crate) fn schedule(&mut self) {
        let spec = ScheduleSpec {
            payload: r#"{"source":"orders"}"#.into(),
            zone: "America/New_York".into(),
            gap: Some(Gap::Skip),
            fold: Some(Fold::Both),
            overlap: Overlap::Queue,
            max_retry: Some(2),
            timeout: Some(Millis::secs(60)),
            ..ScheduleSpec::new("fetch", Plan::Cron("30 2 * * *".into()))
        };
        self.on_schedule("nightly", set(spec.clone()));
        let every = Plan::Every(Millis::secs(3600), From::End);
        self.on_schedule("poll", set(ScheduleSpec::new("fetch", every)));
        let once = Plan::Once(self.now.wall.after(Millis::secs(7_200)));
        self.on_schedule("once", set(ScheduleSpec::new("fetch", once)));
        self.on_schedule("boot", set(ScheduleSpec::new("fetch", Plan::Boot)));
        self.on_schedule("nightly", ScheduleAct::Trigger { by: Actor::User(1000) });
        self.on_schedule("nightly", ScheduleAct::Trigger { by: Actor::User(1000) });
        self.wait(Millis::secs(5 * 24 * 3600));
        self.submit("[]");
        let from = self.now.wall;
        self.now.wall = from.after(Millis::secs(400 * 24 * 3600));
        self.step(Input::ClockStepped { from, to: self.now.wall });
        let (far, back) = (self.now.wall, from.after(Millis::secs(60)));
        self.now.wall = back;
        self.step(Input::ClockStepped { from: far, to: back });
        self.wait(Millis::secs(24 * 3600));
        let first = self.submit("[]");
        let after = After { tasks: vec![first], any: true };
        self.submit_spec(TaskSpec { after: Some(after), ..TaskSpec::new("fetch", "[]") });
        self.on_schedule("poll", ScheduleAct::Pause { reason: Some("rest".into()) });
        self.on_schedule("once", ScheduleAct::Pause { reason: None });
        self.on_schedule("poll", ScheduleAct::Resume);
        self.on_schedule("boot", ScheduleAct::Remove { origin: Origin::Runtime });
        self.on_schedule("nightly", set(ScheduleSpec { priority: 7, ..spec }));
    }

    /// An alert that is raised, told, acknowledged and over, and what a channel knows.
    pub(crate) fn alert(&mut self) {
        let disk = || ("disk_low".parse().unwrap(), Text::from("disk"));
        for grade in [Grade::Warning, Grade::Critical] {
            let (rule, subject) = disk();
            let what = "only 3 MiB are free on the data directory's disk".into();
            self.on_alerts(AlertAct::Raise { rule, subject, grade, what });
        }
        let channel = Channel::new("ops");
        self.on_alerts(AlertAct::Tell { channel: channel.name.clone(), told: Vec::new() });
        self.wait(Millis::secs(10));
        let alerts = self.engine.as_ref().unwrap().state().alerts();
        let number = alerts.iter().last().unwrap().number;
        let notice = due(alerts, &Rules::default(), &channel, self.now.life).notice.unwrap();
        let told = notice.told(self.now.life);
        self.on_alerts(AlertAct::Tell { channel: channel.name, told });
        self.on_alerts(AlertAct::Ack(number));
        let (rule, subject) = disk();
        self.on_alerts(AlertAct::Clear { rule, subject });
    }

    fn on_alerts(&mut self, act: AlertAct) {
        self.ask_one(Command::ActOnAlerts(act));
    }

    fn on_schedule(&mut self, name: &str, act: ScheduleAct) {
        self.ask_one(Command::ActOnSchedule { name: name.into(), act });
    }

    fn on_type(&mut self, act: TypeAct) {
        self.ask_one(Command::ActOnType { kind: "fetch".into(), act });
    }

    /// The segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path().join("journal")).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    /// Where each whole frame of a segment begins, and the length of its records.
    pub(crate) fn frames(&self, segment: &Path) -> Vec<(u64, u64)> {
        struct Frames(String, Vec<(u64, u64)>);
        impl Visitor for Frames {
            fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
                if self.0.ends_with(frame.file) {
                    self.1.push((frame.offset, frame.body_bytes));
                }
                Ok(())
            }
        }
        let mut frames = Frames(segment.display().to_string(), Vec::new());
        salvage(&RealDisk::open(self.path()).unwrap(), &mut frames).unwrap();
        assert!(frames.1.iter().all(|(offset, _)| HEADER_BYTES <= *offset));
        frames.1
    }
}

fn set(spec: ScheduleSpec) -> ScheduleAct {
    ScheduleAct::Set { spec: Box::new(spec), origin: Origin::Runtime, replace: true }
}

/// Prints a vector of each kind, the one with the longest body.
pub(crate) fn print_vectors() {
    struct Bodies(std::collections::BTreeMap<u16, (u64, Vec<u8>)>);
    impl Bodies {
        fn take(&mut self, seq: u64, record: Record<'_>) {
            let known = self.0.entry(record.kind).or_default();
            if known.1.len() < record.body.len() {
                *known = (seq, record.body.to_vec());
            }
        }
    }
    impl Visitor for Bodies {
        fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
            self.take(place.seq, record);
            Ok(())
        }
    }
    let mut bodies = Bodies(std::collections::BTreeMap::new());
    let mut bench = Bench::new();
    bench.full_history();
    bench.forget_two();
    bench.order_types();
    bench.schedule();
    bench.alert();
    bench.close();
    let disk = RealDisk::open(bench.path()).unwrap();
    let report = scan(&disk, &mut bodies).unwrap();
    let last = report.next_seq - 1;
    let mut rebuild = Rebuild::default();
    replay(&disk, 22, &mut rebuild).unwrap(); // before the worker is gone
    for_each_record::<()>(&rebuild.finish().image(), |kind, body| {
        bodies.take(22, Record { kind, ignorable: false, body });
        Ok(())
    })
    .unwrap();
    assert!(22 < last);
    let mut rebuild = Rebuild::default();
    replay(&disk, last, &mut rebuild).unwrap();
    for_each_record::<()>(&rebuild.finish().image(), |kind, body| {
        if kind == codec::KIND_TYPE || codec::KIND_SCHEDULE <= kind {
            bodies.take(last, Record { kind, ignorable: false, body });
        }
        Ok(())
    })
    .unwrap();
    if !bodies.0.contains_key(&25) {
        let mut body = Vec::new();
        let stamp = Stamp {
            seq: Seq(last),
            wall: Timestamp(1_773_454_200_000),
            life: LifeTime(90_000),
            service: ServiceTime(80_000),
            by: Actor::Trigger("hook deploy".into()),
        };
        let released = Released { task: TaskId(9), of: TaskId(8) };
        codec::encode(&stamp, &Event::Released(released), &mut body);
        bodies.take(last, Record { kind: 25, ignorable: false, body: &body });
    }
    for (kind, (seq, body)) in bodies.0 {
        let seq = Seq(seq);
        let line = match codec::decode(seq, kind, &body) {
            Ok((stamp, event)) => record_json(&stamp, &event),
            Err(_) => kept_json(seq, &codec::decode_kept(kind, &body).unwrap()),
        };
        println!("{kind}\n{}\n{line}", hex(&body));
    }
}

/// Changes the bytes of a file.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn process(pid: u32) -> ProcessId {
    ProcessId { pid, start_time: 12_345, boot_id: "b0".to_owned(), pid_namespace: 4_026_531_836 }
}

fn proof(worker: WorkerId, (task, fence): (TaskId, Fence)) -> Proof {
    Proof { worker, task, fence, secret: SECRET }
}
