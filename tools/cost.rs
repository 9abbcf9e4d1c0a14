//! What one task costs while many wait, and one fire among many schedules, for `tools/cost.sh`: a
//! real engine on a real disk is loaded, and then one thing at a time is done in a function whose
//! name begins with `measured`, the only ones whose instructions are counted.

use midwatch::api::SubmitRequest;
use midwatch::engine::{Engine, Input, Output, Start, Ticket};
use midwatch::journal::{Fsync, Host, Options, RealDisk};
use midwatch::kernel::event::{Actor, Registration};
use midwatch::kernel::ids::{
    Fence, LifeTime, Millis, Moment, ProcessId, ServiceTime, TaskId, Timestamp, WorkerId,
};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::schedule::{Origin, Plan, ScheduleSpec};
use midwatch::kernel::status::Outcome;
use midwatch::kernel::task::{SecretHash, TaskSpec};
use midwatch::kernel::{Answer, Command, EndReport, Proof, ScheduleAct};
use std::error::Error;

const SECRET: SecretHash = SecretHash([7; 16]);
const CYCLES: u64 = 1000;

struct Bench {
    engine: Engine<RealDisk>,
    ms: u64,
}

impl Bench {
    fn ask(&mut self, commands: Vec<Command>) -> Result<Vec<Answer>, Box<dyn Error>> {
        self.ms += 1;
        let now = Moment {
            wall: Timestamp(self.ms),
            life: LifeTime(self.ms),
            service: ServiceTime(1),
            dice: self.ms,
            doubtful: false,
        };
        let input = Input::Ask { from: Ticket(0), by: Actor::Daemon, commands };
        let mut answers = Vec::new();
        for output in self.engine.step([input], now)? {
            if let Output::Answers { answers: more, .. } = output {
                for answer in more {
                    answers.push(answer.map_err(|rejection| rejection.to_string())?);
                }
            }
        }
        Ok(answers)
    }
}

fn spec(line: &str) -> Result<TaskSpec, Box<dyn Error>> {
    let request: SubmitRequest = serde_json::from_str(line)?;
    let payload = request.payload.map_or_else(|| "null".to_owned(), |raw| raw.get().to_owned());
    let mut spec = TaskSpec::new(request.kind, payload);
    spec.priority = request.priority.unwrap_or(100);
    Ok(spec)
}

/// A 200-byte payload; priorities are spread, so that the backlog is no simple queue.
fn line(number: u64) -> String {
    let filler = "x".repeat(170);
    let priority = 50 + number % 100;
    format!(
        r#"{{"type":"job","priority":{priority},"payload":{{"seq":{number},"data":"{filler}"}}}}"#
    )
}

#[inline(never)]
fn measured(
    bench: &mut Bench,
    worker: WorkerId,
    mut held: (TaskId, Fence),
) -> Result<(), Box<dyn Error>> {
    for cycle in 0..CYCLES {
        bench.ask(vec![Command::Submit(spec(&line(cycle))?)])?;
        let (task, fence) = held;
        let proof = Proof { worker, task, fence, secret: SECRET };
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
        let lease = Command::Lease { worker, secrets: vec![SECRET] };
        let answers = bench.ask(vec![Command::End { proof, report }, lease])?;
        held = leased(&answers)?;
    }
    Ok(())
}

fn leased(answers: &[Answer]) -> Result<(TaskId, Fence), Box<dyn Error>> {
    match answers.last() {
        Some(Answer::Leased(leases)) => Ok(*leases.first().ok_or("nothing was leased")?),
        other => Err(format!("no lease but {other:?}").into()),
    }
}

/// Midnight of a Monday.
const MONDAY: u64 = 1_795_996_800_000;

const DAY: u64 = 86_400_000;

/// One fire after the other, each of another schedule, each in a turn of its own.
#[inline(never)]
fn measured_fires(bench: &mut Bench) -> Result<(), Box<dyn Error>> {
    for _ in 0..CYCLES {
        let next = bench.engine.next_wake().wall.ok_or("no schedule has a next time")?;
        bench.ms = next.0.max(bench.ms);
        bench.ask(Vec::new())?;
    }
    Ok(())
}

/// Schedules spread over the seconds of a day.
fn fires(bench: &mut Bench, schedules: u64) -> Result<(), Box<dyn Error>> {
    bench.ms = MONDAY;
    let second = |number: u64| number * 86_400 / schedules;
    let acts = (0..schedules).map(|number| {
        let at = second(number);
        let cron = format!("{} {} {} * * *", at % 60, at / 60 % 60, at / 3600);
        let spec = ScheduleSpec::new("job", Plan::Cron(cron.into()));
        let act = ScheduleAct::Set {
            spec: Box::new(ScheduleSpec { max_instances: 100_000, ..spec }),
            origin: Origin::Runtime,
            replace: false,
        };
        Command::ActOnSchedule { name: format!("s{number}").into(), act }
    });
    let acts: Vec<_> = acts.collect();
    for piece in acts.chunks(500) {
        bench.ask(piece.to_vec())?;
    }
    let before = bench.engine.state().task_count();
    measured_fires(bench)?;
    let fired = bench.engine.state().task_count() - before;
    assert!(bench.ms < MONDAY + 2 * DAY * CYCLES && u64::try_from(fired)? == CYCLES, "{fired}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let first = words.next().ok_or("usage: cost TASKS | cost fires SCHEDULES")?;
    let schedules = (first == "fires").then(|| words.next().ok_or("cost fires SCHEDULES"));
    let schedules: Option<u64> = schedules.transpose()?.map(|number| number.parse()).transpose()?;
    let waiting: u64 = if schedules.is_some() { 0 } else { first.parse()? };
    let dir = tempfile::tempdir()?;
    // Syncs are the kernel's work and the same for every backlog; snapshots are not asked for.
    let options = Options { fsync: Fsync::Never, ..Options::default() };
    let host = Host { machine_id: [0; 16], boot_id: [0; 16], random: 1 };
    let (mut engine, _) =
        Engine::open(RealDisk::open(dir.path())?, options, host, Rules::default())?;
    engine.set_snapshot_after(u64::MAX);
    let start = Start {
        version: "cost".into(),
        boot_id: "b".into(),
        boot_clock: Millis(0),
        skipped_ahead: false,
        ..Start::default()
    };
    engine.start(start, Moment::default())?;
    let mut bench = Bench { engine, ms: 1 };
    if let Some(schedules) = schedules {
        return fires(&mut bench, schedules);
    }
    let numbers: Vec<u64> = (0..waiting).collect();
    for piece in numbers.chunks(1000) {
        let specs: Result<Vec<_>, _> = piece.iter().map(|number| spec(&line(*number))).collect();
        bench.ask(specs?.into_iter().map(Command::Submit).collect())?;
    }
    let registration = Registration {
        name: "w".into(),
        process: ProcessId::default(),
        host: "h".into(),
        version: "0".into(),
        lock: "l".into(),
        kinds: vec!["job".into(), "other".into()],
        slots: 1,
    };
    let answers = bench.ask(vec![Command::Register(registration)])?;
    let Some(Answer::Registered(worker)) = answers.first() else { return Err("no worker".into()) };
    let worker = *worker;
    let answers = bench.ask(vec![Command::Lease { worker, secrets: vec![SECRET] }])?;
    let held = leased(&answers)?;
    measured(&mut bench, worker, held)
}
