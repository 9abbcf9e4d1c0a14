//! Named cases whose subject is the engine on a disk that fails, fills up or loses power: what was
//! promised about leases, rooms, bounds and ends, and what a start makes of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use midwatch::engine::{Engine, Input, Output, Start, Ticket, digest, write_snapshot};
use midwatch::journal::{Host, JournalError, Options, Recovery};
use midwatch::kernel::event::{Actor, Registration};
use midwatch::kernel::ids::{
    Fence, LifeTime, Millis, Moment, ProcessId, ServiceTime, TaskId, Timestamp, WorkerId,
};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::status::{Outcome, Reason, Status};
use midwatch::kernel::task::{Progress, SecretHash, TaskSpec};
use midwatch::kernel::{Answer, Command, EndReport, HoldReport, Proof, Rejection};
use midwatch::sim::{CrashStates, Failure, Op, PageFate, SimDisk, Times};

use crate::asked;

mod alerts;
mod dispatch;
mod leases;
mod schedules;

const SEGMENT: u64 = 16 << 10;
const SNAPSHOT_AFTER: u64 = 24 << 10;

/// Slots of each worker.
const SLOTS: u8 = 100;

/// An engine on a simulated disk, its clocks, and nothing else.
struct Bench {
    disk: SimDisk,
    engine: Option<Engine<SimDisk>>,
    recovery: Recovery,
    now: Moment,
    starts: u64,
    tickets: u64,
    /// The largest snapshot so far, in bytes.
    snapshot_bytes: u64,
    /// Sweeps that were asked for.
    sweeps: Vec<(TaskId, Fence)>,
}

type Answers = Vec<Result<Answer, Rejection>>;

impl Bench {
    fn new(seed: u64) -> Self {
        Self::on(SimDisk::new(seed))
    }

    fn on(disk: SimDisk) -> Self {
        let now = Moment {
            wall: Timestamp(1 << 40),
            life: LifeTime(0),
            service: ServiceTime(0),
            dice: 1,
            doubtful: false,
        };
        let mut bench = Self {
            disk,
            engine: None,
            recovery: Recovery::default(),
            now,
            starts: 0,
            tickets: 0,
            snapshot_bytes: 0,
            sweeps: Vec::new(),
        };
        bench.start(Vec::new());
        bench
    }

    /// Starts an engine on what is there; `dead` are workers known to have died.
    fn start(&mut self, dead: Vec<(WorkerId, Reason)>) {
        self.starts += 1;
        let host = Host { machine_id: [7; 16], boot_id: [3; 16], random: self.starts };
        let options = Options { segment_size: SEGMENT, reserve: SEGMENT, ..Options::default() };
        let (mut engine, recovery) =
            Engine::open(self.disk.clone(), options, host, Rules::default()).unwrap();
        engine.set_snapshot_after(SNAPSHOT_AFTER);
        let start = Start {
            version: "sim".into(),
            boot_id: "b".into(),
            boot_clock: Millis(self.now.life.0),
            skipped_ahead: recovery.skipped_ahead,
            dead,
            ..Start::default()
        };
        engine.start(start, self.now).unwrap();
        self.engine = Some(engine);
        self.recovery = recovery;
    }

    /// SIGKILL, and a new start that knows of no dead worker.
    fn killed(&mut self) {
        self.engine = None;
        self.disk = self.disk.restarted();
        self.start(Vec::new());
    }

    fn engine(&mut self) -> &mut Engine<SimDisk> {
        self.engine.as_mut().unwrap()
    }

    fn wait(&mut self, span: Millis) {
        self.now.wall = self.now.wall.after(span);
        self.now.life = self.now.life.after(span);
        self.now.service = self.now.service.after(span);
    }

    /// Turns until nothing is left to say; snapshots are written as they become due.
    fn turn(&mut self, inputs: Vec<Input>) -> Result<Answers, JournalError> {
        let mut answers = Vec::new();
        let mut inputs = Some(inputs);
        while let Some(now) = inputs.take() {
            let moment = self.now;
            for output in self.engine().step(now, moment)? {
                match output {
                    Output::Answers { answers: given, .. } => answers.extend(given),
                    Output::Snapshot { image, writer } => {
                        let written = write_snapshot(&image, *writer);
                        let bytes = written.as_ref().map_or(0, |done| done.bytes);
                        self.snapshot_bytes = self.snapshot_bytes.max(bytes);
                        inputs.get_or_insert_default().push(Input::SnapshotWritten(written));
                    }
                    Output::Sweep { task, fence } => self.sweeps.push((task, fence)),
                    Output::Archive(_) => panic!("no archive was asked for"),
                    Output::Events(_) => {}
                }
            }
        }
        Ok(answers)
    }

    fn input(&mut self, commands: Vec<Command>) -> Input {
        self.tickets += 1;
        Input::Ask { from: Ticket(self.tickets), by: Actor::User(0), commands }
    }

    fn try_ask(&mut self, commands: Vec<Command>) -> Result<Answers, JournalError> {
        let input = self.input(commands);
        self.turn(vec![input])
    }

    fn ask(&mut self, command: Command) -> Result<Answer, Rejection> {
        self.try_ask(vec![command]).unwrap().pop().unwrap()
    }

    fn submit(&mut self, spec: TaskSpec) -> TaskId {
        match self.ask(Command::Submit(spec)) {
            Ok(Answer::Submitted { task, .. }) => task,
            other => panic!("{other:?}"),
        }
    }

    fn register(&mut self) -> WorkerId {
        let process =
            ProcessId { pid: 7, start_time: 1, boot_id: "b".to_owned(), pid_namespace: 1 };
        let registration = Registration {
            name: "w".into(),
            process,
            host: "h".into(),
            version: "0".into(),
            lock: "l".into(),
            kinds: vec!["job".into()],
            slots: u32::from(SLOTS),
        };
        match self.ask(Command::Register(registration)) {
            Ok(Answer::Registered(worker)) => worker,
            other => panic!("{other:?}"),
        }
    }

    fn lease(&mut self, worker: WorkerId, secret: u8) -> Option<Proof> {
        let secret = SecretHash([secret; 16]);
        match self.ask(Command::Lease { worker, secrets: vec![secret] }) {
            Ok(Answer::Leased(leases)) => leases.first().map(|(task, fence)| Proof {
                worker,
                task: *task,
                fence: *fence,
                secret,
            }),
            other => panic!("{other:?}"),
        }
    }

    /// Ends an attempt; `Err` also when the refusal is on record.
    fn end(&mut self, proof: Proof) -> Result<Answer, Rejection> {
        match self.ask(end(proof))? {
            Answer::Refused(rejection) => Err(rejection),
            answer => Ok(answer),
        }
    }

    fn heartbeat(&mut self, proof: Proof, done: u64) {
        let progress = Some(Progress { done, total: None, note: None });
        let hold = HoldReport { proof, process: None, progress };
        let worker = proof.worker;
        self.ask(Command::Heartbeat { worker, holds: vec![hold] }).unwrap();
    }

    fn status(&mut self, task: TaskId) -> Status {
        self.engine().state().task(task).unwrap().status
    }

    fn digest(&mut self) -> String {
        digest(&self.engine().state().image())
    }

    /// Bytes of all segments.
    fn journal_bytes(&self) -> u64 {
        let segments = self.disk.files().into_iter().filter(|path| path.starts_with("journal/"));
        segments.map(|path| self.disk.read_file(&path).unwrap().len() as u64).sum()
    }
}

fn job() -> TaskSpec {
    TaskSpec::new("job", "[1]")
}

fn end(proof: Proof) -> Command {
    let report = EndReport {
        outcome: Outcome::Success,
        started: true,
        exit_code: Some(0),
        signal: None,
        result: None,
        error: None,
        usage: None,
        ran: None,
        input: None,
    };
    Command::End { proof, report }
}

#[test]
fn w42_w43_heartbeats_are_flushed_by_the_timer_and_all_else_before_the_answer() {
    let mut bench = Bench::new(42);
    let worker = bench.register();
    let task = bench.submit(job());
    let proof = bench.lease(worker, 1).unwrap();
    // Everything so far was answered, and is there after the worst of power cuts.
    let worst = |bench: &Bench| {
        let states = CrashStates::of(&bench.disk.fork(), None);
        let mut after = Bench::on(states.disk(&states.all_lost()));
        let progress = after
            .engine()
            .state()
            .task(task)
            .and_then(|task| task.life.as_ref().and_then(|life| life.progress.clone()));
        (after.status(task), progress.map(|progress| progress.done))
    };
    assert_eq!(worst(&bench), (Status::Running, None));
    bench.wait(Millis(1_000));
    bench.heartbeat(proof, 5);
    assert_eq!(worst(&bench), (Status::Running, None), "a heartbeat waits for a frame");
    // Nobody says anything any more; the engine itself asks to be woken.
    let wake = bench.engine().next_wake().service.expect("a timer");
    assert!(wake <= bench.now.service.after(Millis::secs(10)), "within the bound of the document");
    bench.now.service = wake;
    bench.turn(Vec::new()).unwrap();
    assert_eq!(worst(&bench), (Status::Running, Some(5)));
}

#[test]
fn w58_a_panic_in_a_turn_leaves_no_clean_end_and_nothing_half() {
    // In the middle of a turn, when something is applied and encoded; before the answer; outside.
    for place in 0..3 {
        let mut bench = Bench::new(58);
        let first = bench.submit(job());
        let input = bench.input(vec![Command::Submit(job()), Command::Submit(job())]);
        let now = bench.now;
        let mut engine = bench.engine.take().unwrap();
        let fell = catch_unwind(AssertUnwindSafe(move || {
            let mut inputs = vec![input].into_iter();
            let stumbling = std::iter::from_fn(|| match inputs.next() {
                None if place == 0 => panic!("on purpose"),
                next => next,
            });
            let outputs = engine.step(stumbling, now).unwrap();
            assert!(place != 1, "on purpose, with {} outputs", outputs.len());
            panic!("on purpose");
        }));
        assert!(fell.is_err());
        bench.killed();
        assert!(!bench.recovery.clean_close, "place {place}");
        let tasks = bench.engine().state().tasks().count();
        assert_eq!(tasks, if place == 0 { 1 } else { 3 }, "a frame is there whole, or not at all");
        assert_eq!(bench.status(first), Status::Pending);
    }
}

/// The bound of `spec/journal.md` for the segments of a store while no snapshot is being written,
/// where a turn commits `turn` bytes of records at most.
fn bound(snapshot_bytes: u64, turn: u64, file_bytes_per_record_byte: u64) -> u64 {
    let records = 2 * SNAPSHOT_AFTER.max(2 * snapshot_bytes) + turn;
    records * file_bytes_per_record_byte + 3 * SEGMENT
}

// spec: JRN-068
#[test]
fn w59_a_task_alive_for_ever_and_its_heartbeats_do_not_make_the_journal_grow() {
    let mut bench = Bench::new(59);
    let worker = bench.register();
    let task = bench.submit(job());
    let proof = bench.lease(worker, 1).unwrap();
    let mut most = 0;
    for n in 0..asked("MIDWATCH_W59_HEARTBEATS", 6_000) {
        bench.wait(Millis::secs(11));
        bench.heartbeat(proof, n);
        bench.turn(Vec::new()).unwrap();
        if n % 100 == 0 {
            most = most.max(bench.journal_bytes());
        }
    }
    // The smallest record, alone in its frame, takes a sector.
    let bound = bound(bench.snapshot_bytes, 64, 8);
    assert!(most <= bound, "{most} bytes, {bound} are the bound");
    let stats = bench.engine().journal().stats();
    assert!(100 < stats.oldest_segment, "the oldest segment moves on: {stats:?}");
    assert_eq!(bench.status(task), Status::Running);
    let before = bench.digest();
    bench.killed();
    // The start itself is a record; the task is as it was.
    assert_eq!(bench.status(task), Status::Running);
    assert_ne!(bench.digest(), before);
}

// spec: JRN-068
#[test]
fn a_turn_larger_than_the_trigger_of_a_snapshot_has_its_place_in_the_bound() {
    let mut bench = Bench::new(68);
    let worker = bench.register();
    bench.submit(job());
    let proof = bench.lease(worker, 1).unwrap();
    let data = format!("\"{}\"", "x".repeat(2_000));
    let mut most = 0;
    for round in 0..100 {
        // Almost as much as triggers a snapshot, then four times as much.
        let checkpoints = if round % 2 == 0 { 11 } else { 50 };
        let checkpoint = || Command::Checkpoint { proof, data: data.as_str().into() };
        bench.try_ask((0..checkpoints).map(|_| checkpoint()).collect()).unwrap();
        most = most.max(bench.journal_bytes());
    }
    // A turn is one frame, so the padding is little.
    let with = bound(bench.snapshot_bytes, 50 * 2_150, 1);
    let without = bound(bench.snapshot_bytes, 0, 1);
    assert!(without < most && most <= with, "{without} < {most} <= {with}");
}

#[test]
fn b09_an_old_task_pins_no_segment_however_many_short_ones_come_and_go() {
    let mut bench = Bench::new(9);
    let delay = Some(Millis::secs(30 * 24 * 3600));
    let old = bench.submit(TaskSpec { delay, ..job() });
    let worker = bench.register();
    let mut oldest = 0;
    let rounds = asked("MIDWATCH_B09_TASKS", 3_000) / 10;
    for round in 0..rounds {
        let commands = (0..10).map(|_| Command::Submit(job())).collect();
        bench.try_ask(commands).unwrap();
        for n in 0..10 {
            let proof = bench.lease(worker, n).unwrap();
            bench.end(proof).unwrap();
        }
        bench.wait(Millis(1_000));
        let stats = bench.engine().journal().stats();
        assert!(oldest <= stats.oldest_segment);
        oldest = stats.oldest_segment;
        if round % 10 == 0 {
            // Ended tasks belong to the state until retention takes them.
            let (bytes, bound) = (bench.journal_bytes(), bound(bench.snapshot_bytes, 10 * 300, 8));
            assert!(bytes <= bound, "round {round}: {bytes} bytes, {bound} are the bound");
        }
    }
    assert!(1 < oldest, "the segment with the old task is gone");
    bench.killed();
    assert_eq!(bench.status(old), Status::Pending);
}

#[test]
fn w60_on_a_full_disk_submissions_are_refused_ends_are_taken_and_room_is_noticed() {
    let mut bench = Bench::new(60);
    let worker = bench.register();
    let running = bench.submit(job());
    let proof = bench.lease(worker, 1).unwrap();
    bench.disk.capacity(bench.disk.used());
    for _ in 0..10 {
        let refused = bench.ask(Command::Submit(job()));
        assert_eq!(refused, Err(Rejection::NoSpace));
    }
    bench.end(proof).expect("an end is always taken");
    assert_eq!(bench.status(running), Status::Success);
    bench.disk.capacity(u64::MAX);
    let again = bench.submit(job());
    bench.killed();
    assert_eq!((bench.status(running), bench.status(again)), (Status::Success, Status::Pending));
}

#[test]
fn w73_tokens_only_grow_over_kills_snapshots_and_compaction() {
    let mut bench = Bench::new(73);
    let worker = bench.register();
    let mut last = Fence(0);
    let mut stale: Vec<Proof> = Vec::new();
    for round in 0..30_u8 {
        let task = bench.submit(job());
        let proof = bench.lease(worker, round).unwrap();
        assert_eq!(proof.task, task);
        assert!(last < proof.fence, "{last:?}, then {:?}", proof.fence);
        last = proof.fence;
        bench.killed();
        // The holder's task is taken from it, and leased anew.
        let swept = Input::Swept { task, fence: proof.fence, ran: true };
        let over = bench.engine().state().task(task).unwrap().lease().unwrap().ends;
        bench.now.service = over;
        bench.now.life = bench.now.life.after(Millis::secs(100_000));
        bench.turn(Vec::new()).unwrap();
        bench.turn(vec![swept]).unwrap();
        bench.wait(Millis::secs(100_000));
        let worker =
            if bench.engine().state().worker(worker).is_some() { worker } else { bench.register() };
        let again = bench.lease(worker, round).unwrap();
        assert_eq!(again.task, task);
        assert!(last < again.fence);
        last = again.fence;
        stale.push(proof);
        for old in &stale {
            assert!(bench.end(*old).is_err(), "an old holder ended {old:?}");
        }
        // Bytes enough for snapshots and the end of old segments.
        let data = format!("\"{}\"", "x".repeat(3_000));
        for _ in 0..4 {
            let data = data.as_str().into();
            bench.ask(Command::Checkpoint { proof: again, data }).unwrap();
        }
        bench.end(again).unwrap();
    }
    let stats = bench.engine().journal().stats();
    assert!(1 < stats.oldest_segment && stats.snapshots == 2, "{stats:?}");
}

// B27, as far as there are slots today: what is free follows from living leases alone.
#[test]
fn w75_a_lease_of_the_dead_blocks_nothing_after_a_start() {
    // The worker is known to be dead: a sweep, and the task is leased anew in the same breath.
    let mut bench = Bench::new(75);
    let worker = bench.register();
    let task = bench.submit(job());
    let old = bench.lease(worker, 1).unwrap();
    bench.engine = None;
    bench.disk = bench.disk.restarted();
    bench.now.wall = bench.now.wall.after(Millis::secs(24 * 3600));
    bench.now.life = bench.now.life.after(Millis::secs(24 * 3600));
    bench.start(vec![(worker, Reason::WorkerCrash)]);
    bench.turn(Vec::new()).unwrap();
    assert_eq!(bench.sweeps, [(task, old.fence)]);
    let other = bench.register();
    bench.turn(vec![Input::Swept { task, fence: old.fence, ran: true }]).unwrap();
    let again = bench.lease(other, 2).expect("leased within one turn");
    assert!(again.task == task && old.fence < again.fence);
    assert!(bench.end(old).is_err());
    bench.engine().state().check().unwrap();

    // Nothing is known of it: the lease ends on the service clock, the slot of the other is free.
    let mut bench = Bench::new(76);
    let worker = bench.register();
    let task = bench.submit(job());
    let old = bench.lease(worker, 1).unwrap();
    bench.killed();
    let ends = bench.engine().state().task(task).unwrap().lease().unwrap().ends;
    bench.now.life = bench.now.life.after(Millis::secs(24 * 3600));
    bench.now.service = ends;
    bench.turn(Vec::new()).unwrap();
    bench.turn(vec![Input::Swept { task, fence: old.fence, ran: false }]).unwrap();
    let other = bench.register();
    bench.wait(Millis::secs(3_600));
    assert_eq!(bench.lease(other, 2).expect("leased anew").task, task);
}

#[test]
fn w76_no_jump_of_the_wall_clock_and_no_suspend_ends_a_lease() {
    let mut bench = Bench::new(76);
    bench.now.wall = Timestamp(0);
    let worker = bench.register();
    let task = bench.submit(job());
    let proof = bench.lease(worker, 1).unwrap();
    bench.wait(Millis::secs(30));
    let year = 365 * 24 * 3_600_000;
    let jumps: [i64; 5] = [56 * year, -3_600_000, year, -40 * year, 30 * year];
    let mut last = bench.engine().journal().next_seq();
    for jump in jumps {
        bench.now.wall = Timestamp(bench.now.wall.0.saturating_add_signed(jump));
        // A suspend: the life clock goes on, the service clock does not.
        bench.now.life = bench.now.life.after(Millis::secs(8 * 3600));
        bench.turn(Vec::new()).unwrap();
        bench.heartbeat(proof, 1);
        assert_eq!(bench.status(task), Status::Running, "after a jump of {jump} ms");
        bench.ask(Command::Checkpoint { proof, data: "[1]".into() }).unwrap();
        let next = bench.engine().journal().next_seq();
        assert!(last < next, "order is by sequence alone");
        last = next;
        bench.killed();
        assert_eq!(bench.status(task), Status::Running);
    }
    bench.end(proof).unwrap();
    assert_eq!(bench.status(task), Status::Success);
}

#[test]
fn w77_a_lease_whose_record_is_lost_was_handed_to_nobody_or_is_refused() {
    // Lost with a failed sync: nobody ever saw it, so its number may come again.
    let mut bench = Bench::new(77);
    let worker = bench.register();
    let task = bench.submit(job());
    bench.disk.fail(Op::Sync, 1, Failure::Sync(PageFate::Dropped), Times::Once);
    let lease = Command::Lease { worker, secrets: vec![SecretHash([1; 16])] };
    assert!(bench.try_ask(vec![lease]).is_err(), "nothing is handed out");
    bench.killed();
    assert_eq!(bench.status(task), Status::Pending);
    let proof = bench.lease(worker, 2).expect("leased again");
    bench.end(proof).unwrap();

    // Lost by a disk that lied: it was handed out. The secret tells the old holder from the new.
    let mut bench = Bench::new(78);
    let worker = bench.register();
    let task = bench.submit(job());
    let before = bench.disk.fork();
    let old = bench.lease(worker, 1).unwrap();
    bench.engine = None;
    bench.disk = before.restarted();
    bench.start(Vec::new());
    let new = bench.lease(worker, 2).unwrap();
    assert_eq!(new.task, task);
    assert!(bench.end(old).is_err(), "{old:?} against {new:?}");
    let forged = Proof { fence: new.fence, ..old };
    assert!(bench.end(forged).is_err(), "the token alone opens nothing");
    assert_eq!(bench.status(task), Status::Running);
    bench.end(new).unwrap();
}

#[test]
fn w64_a_start_on_a_full_disk_after_a_crash_at_any_call_finds_everything() {
    let mut bench = Bench::new(64);
    let worker = bench.register();
    let tasks: Vec<TaskId> = (0..4).map(|_| bench.submit(job())).collect();
    let proof = bench.lease(worker, 1).unwrap();
    bench.disk.capacity(bench.disk.used());
    bench.disk.record_trail();
    bench.end(proof).unwrap();
    assert_eq!(bench.ask(Command::Submit(job())), Err(Rejection::NoSpace));
    for point in bench.disk.take_trail() {
        let full = point.disk.restarted();
        full.capacity(full.used());
        let mut after = Bench::on(full);
        for task in &tasks {
            let status = after.status(*task);
            let fits = status == Status::Pending
                || *task == proof.task && [Status::Running, Status::Success].contains(&status);
            assert!(fits, "task {task} is {status} before {}", point.doing);
        }
        assert_eq!(after.ask(Command::Submit(job())), Err(Rejection::NoSpace));
        after.disk.capacity(u64::MAX);
        after.submit(job());
    }
}
