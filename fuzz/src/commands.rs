//! Plans of commands against the kernel: whatever is asked, in whatever order, each decision can be
//! applied and encoded, the derived sets stay true, and what has ended stays so.

use crate::bytes::Bytes;
use midwatch::engine::codec;
use midwatch::kernel::alerts::{Grade, Rule, Saying, Told};
use midwatch::kernel::event::{Actor, Event, Registration, Stamp, Standing, Started};
use midwatch::kernel::ids::{
    Fence, LifeTime, Millis, Moment, ProcessId, TaskId, Timestamp, WorkerId,
};
use midwatch::kernel::rules::{Reserve, RetryPolicy, Rules};
use midwatch::kernel::status::{Outcome, Reason, Status};
use midwatch::kernel::task::{After, InputDigest, Progress, SecretHash, TaskSpec, Usage};
use midwatch::kernel::task_type::{Per, Rate};
use midwatch::kernel::verdict::Verb;
use midwatch::kernel::{
    AlertAct, Answer, Change, Command, Edit, EndReport, HoldReport, NextRun, Proof, State, TypeAct,
    apply, decide,
};
use std::collections::BTreeMap;

/// Commands of one plan at most, so that no input takes for ever.
const COMMANDS_MAX: usize = 300;

/// Commands between two looks at everything.
const CHECK_EVERY: usize = 16;

/// The byte that lets tasks go.
const FORGET: u8 = 0x25;

/// The byte that orders something about a whole type.
const ORDER: u8 = 0x35;

/// The byte that changes a task.
const EDIT: u8 = 0x45;

/// The byte that decides what waits for a task.
const SETTLE: u8 = 0x55;

/// The byte that makes a task which waits for others.
const AFTER: u8 = 0x65;

/// The byte that says something about alerts.
const ALERTS: u8 = 0x75;

/// The kernel, and what its callers know.
struct Bench {
    state: State,
    rules: Rules,
    now: Moment,
    workers: Vec<WorkerId>,
    leases: Vec<Proof>,
    ended: BTreeMap<TaskId, Status>,
    records: Vec<(Stamp, Event)>,
}

pub fn run(input: &[u8]) {
    played(&mut Bytes::new(input));
}

/// Histories with most of what can happen, and the states at their ends.
pub fn histories() -> (Vec<(Stamp, Event)>, Vec<State>) {
    let mut records = Vec::new();
    let mut states = Vec::new();
    for (_, plan) in seeds() {
        let bench = played(&mut Bytes::new(&plan));
        records.extend(bench.records);
        states.push(bench.state);
    }
    // The first ones show the most.
    states.sort_by_key(|state| std::cmp::Reverse(state.task_count()));
    (records, states)
}

fn played(bytes: &mut Bytes<'_>) -> Bench {
    let mut bench = Bench::new(bytes.byte());
    for step in 1..=COMMANDS_MAX {
        if bytes.is_empty() {
            break;
        }
        bench.step(bytes);
        // It costs as much as all tasks.
        if step % CHECK_EVERY == 0 {
            bench.check();
        }
    }
    bench.check();
    bench
}

fn rules(kind: u8) -> Rules {
    let mut rules = Rules {
        heartbeat: Millis(10),
        suspect_after: Millis(30),
        offline_after: Millis(90),
        rolling_lease: Millis(200),
        max_lost: u32::from(kind & 3),
        ..Rules::default()
    };
    rules.fallback.retry = if kind & 4 == 0 {
        RetryPolicy::Exponential { base: Millis(5), cap: Millis(80) }
    } else {
        RetryPolicy::Intervals(vec![Millis(3), Millis(0)])
    };
    if kind & 8 != 0 {
        rules.promote_after = Millis(5);
    }
    if kind & 16 != 0 {
        rules.reserve = vec![Reserve { priority_max: 20, slots: 1 + u32::from(kind >> 5) }];
    }
    rules
}

impl Bench {
    fn new(kind: u8) -> Self {
        let mut bench = Self {
            state: State::default(),
            rules: rules(kind),
            now: Moment { wall: Timestamp(1 << 40), ..Moment::default() },
            workers: Vec::new(),
            leases: Vec::new(),
            ended: BTreeMap::new(),
            records: Vec::new(),
        };
        let started = Started {
            version: "fuzz".into(),
            boot_id: "boot".into(),
            boot_clock: Millis(0),
            next_task: TaskId(1),
            jump: None,
        };
        bench.record(vec![Event::Started(started)], &Actor::Daemon);
        bench
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let what = bytes.byte();
        if what & 0x80 != 0 {
            self.pass(bytes);
            return;
        }
        let command = self.command(what, bytes);
        let by = command.speaker().unwrap_or(Actor::User(u32::from(what)));
        self.now.dice = self.now.dice.wrapping_mul(31).wrapping_add(u64::from(what));
        if let Ok(decision) = decide(&self.state, &self.rules, &command, self.now) {
            self.record(decision.events, &by);
            self.note(&command, &decision.answer);
        }
    }

    /// The derived sets are those of the facts, and what had ended is as it was.
    fn check(&mut self) {
        self.state.check().unwrap_or_else(|wrong| panic!("{wrong}"));
        for task in self.state.tasks() {
            if let Some(ended) = self.ended.get(&task.id) {
                assert_eq!(task.status, *ended, "task {} had ended", task.id);
            }
            if task.status.is_terminal() {
                self.ended.insert(task.id, task.status);
            }
        }
    }

    /// Time passes on the clocks, not always on all of them.
    fn pass(&mut self, bytes: &mut Bytes<'_>) {
        let span = Millis(bytes.number());
        let which = bytes.byte();
        if which & 1 == 0 {
            self.now.life = self.now.life.after(span);
        }
        if which & 2 == 0 {
            self.now.service = self.now.service.after(span);
        }
        self.now.wall = match which & 12 {
            0 => self.now.wall.after(span),
            4 => Timestamp(self.now.wall.0.saturating_sub(span.0)),
            _ => self.now.wall,
        };
        while self.state.ripen(self.now, 3) {}
    }

    fn record(&mut self, events: Vec<Event>, by: &Actor) {
        for event in events {
            let Moment { wall, life, service, dice: _, doubtful: _ } = self.now;
            let stamp = Stamp { seq: self.state.next_seq(), wall, life, service, by: by.clone() };
            let mut body = Vec::new();
            codec::encode(&stamp, &event, &mut body);
            let read = codec::decode(stamp.seq, codec::kind(&event), &body);
            assert_eq!(read.as_ref(), Ok(&(stamp.clone(), event.clone())));
            apply(&mut self.state, &stamp, &event)
                .unwrap_or_else(|illegal| panic!("{illegal}: {event:?}"));
            self.records.push((stamp, event));
        }
    }

    fn note(&mut self, command: &Command, answer: &Answer) {
        match (command, answer) {
            (_, Answer::Registered(worker)) => self.workers.push(*worker),
            (Command::Lease { worker, secrets }, Answer::Leased(leased)) => {
                assert!(leased.len() <= secrets.len(), "more leases than secrets");
                for ((task, fence), secret) in leased.iter().zip(secrets) {
                    let proof =
                        Proof { worker: *worker, task: *task, fence: *fence, secret: *secret };
                    self.leases.push(proof);
                }
            }
            _ => {}
        }
    }

    fn command(&self, what: u8, bytes: &mut Bytes<'_>) -> Command {
        if what == FORGET {
            return Command::Forget((0..bytes.below(4)).map(|_| self.task(bytes)).collect());
        }
        match what {
            ORDER => return Command::ActOnType { kind: kind(bytes).into(), act: order(bytes) },
            SETTLE => return Command::Settle(self.task(bytes)),
            AFTER => {
                let tasks = (0..bytes.below(4)).map(|_| self.task(bytes)).collect();
                let after = After { tasks, any: bytes.bit() };
                return Command::Submit(TaskSpec { after: Some(after), ..spec(bytes) });
            }
            ALERTS => return Command::ActOnAlerts(alert_act(bytes)),
            EDIT => return Command::Edit { task: self.task(bytes), edit: edit(bytes) },
            _ => {}
        }
        match what % 16 {
            0..=2 => Command::Submit(spec(bytes)),
            3 => Command::Act {
                task: self.task(bytes),
                verb: Verb::ALL[bytes.below(Verb::ALL.len())],
                max_retry: bytes.bit().then(|| u32::from(bytes.byte())),
                fresh: bytes.bit(),
            },
            4 => Command::Register(registration(bytes)),
            5 => Command::Leave(self.worker(bytes)),
            6..=8 => {
                let worker = self.worker(bytes);
                let secrets = (0..bytes.below(5)).map(|n| SecretHash([n as u8; 16])).collect();
                Command::Lease { worker, secrets }
            }
            9 => Command::Heartbeat {
                worker: self.worker(bytes),
                holds: (0..bytes.below(4)).map(|_| self.hold(bytes)).collect(),
            },
            10 => {
                let data = format!("{{\"at\":{}}}", bytes.byte());
                Command::Checkpoint { proof: self.proof(bytes), data: data.into() }
            }
            11 | 12 => Command::End { proof: self.proof(bytes), report: report(bytes) },
            13 => Command::Silent {
                worker: self.worker(bytes),
                standing: if bytes.bit() { Standing::Offline } else { Standing::Suspect },
            },
            14 => Command::Died {
                worker: self.worker(bytes),
                reason: if bytes.bit() { Reason::WorkerCrash } else { Reason::HostRebooted },
            },
            _ if bytes.bit() => Command::Bury(self.task(bytes)),
            _ => {
                let Proof { task, fence, .. } = self.proof(bytes);
                Command::Expire { task, fence, ran: bytes.bit() }
            }
        }
    }

    fn task(&self, bytes: &mut Bytes<'_>) -> TaskId {
        TaskId(bytes.below(self.state.task_count() + 2) as u64)
    }

    fn worker(&self, bytes: &mut Bytes<'_>) -> WorkerId {
        let known = self.workers.get(bytes.below(self.workers.len() + 1)).copied();
        known.unwrap_or_else(|| WorkerId(u64::from(bytes.byte())))
    }

    /// Mostly a lease that was granted once, the latest easiest to reach; sometimes a forged one.
    fn proof(&self, bytes: &mut Bytes<'_>) -> Proof {
        let back = bytes.below(self.leases.len() + 1);
        let known = self.leases.iter().rev().nth(back).copied();
        let mut proof = known.unwrap_or(Proof {
            worker: WorkerId(1),
            task: TaskId(1),
            fence: Fence(1),
            secret: SecretHash([9; 16]),
        });
        match bytes.byte() {
            0xf0 => proof.worker = self.worker(bytes),
            0xf1 => proof.task = self.task(bytes),
            0xf2 => proof.fence = Fence(bytes.number()),
            0xf3 => proof.secret = SecretHash([bytes.byte(); 16]),
            _ => {}
        }
        proof
    }

    fn hold(&self, bytes: &mut Bytes<'_>) -> HoldReport {
        let process = ProcessId { pid: 7, start_time: 8, boot_id: "boot".into(), pid_namespace: 9 };
        HoldReport {
            proof: self.proof(bytes),
            process: bytes.bit().then_some(process),
            progress: bytes.bit().then(|| Progress {
                done: bytes.number(),
                total: bytes.bit().then_some(10),
                note: None,
            }),
        }
    }
}

fn kind(bytes: &mut Bytes<'_>) -> &'static str {
    ["a", "b", "c"][bytes.below(3)]
}

fn spec(bytes: &mut Bytes<'_>) -> TaskSpec {
    let which = bytes.byte();
    let payload = if which & 64 == 0 { "null" } else { "{\"n\":1}" };
    let mut spec = TaskSpec::new(kind(bytes), payload);
    spec.max_retry = u32::from(which & 3);
    if which & 4 != 0 {
        spec.priority = i32::from(bytes.byte()) - 100;
    }
    if which & 8 != 0 {
        spec.delay = Some(Millis(bytes.number()));
    } else if which & 16 != 0 {
        spec.at = Some(Timestamp((1 << 40) + bytes.number() % (1 << 41)));
    }
    if which & 32 != 0 {
        spec.key = Some(format!("key {}", bytes.below(4)).into());
    }
    if which & 128 != 0 {
        spec.timeout = Some(Millis(bytes.number()));
    }
    spec
}

fn order(bytes: &mut Bytes<'_>) -> TypeAct {
    match bytes.byte() % 4 {
        0 => TypeAct::Pause { reason: bytes.bit().then(|| "rest".into()) },
        1 => TypeAct::Resume,
        _ => {
            let most = u32::from(bytes.byte() % 4);
            let max_running = change(bytes, most + 1);
            let rate = Rate { count: most + 1, per: Per::ALL[bytes.below(Per::ALL.len())] };
            TypeAct::Limit { max_running, rate: change(bytes, rate) }
        }
    }
}

fn change<T>(bytes: &mut Bytes<'_>, bound: T) -> Change<T> {
    match bytes.byte() % 4 {
        0 => Change::Keep,
        1 => Change::Config,
        2 => Change::Unlimited,
        _ => Change::AtMost(bound),
    }
}

fn edit(bytes: &mut Bytes<'_>) -> Edit {
    let span = bytes.number();
    let next_run = match bytes.byte() % 3 {
        0 => None,
        1 => Some(NextRun::In(Millis(span))),
        _ => Some(NextRun::At(Timestamp((1 << 40) + span % (1 << 41)))),
    };
    Edit {
        priority: bytes.bit().then(|| i32::from(bytes.byte()) - 100),
        max_retry: bytes.bit().then(|| u32::from(bytes.byte() % 4)),
        timeout: change(bytes, Millis(span.max(1))),
        next_run,
    }
}

fn alert_act(bytes: &mut Bytes<'_>) -> AlertAct {
    const RULES: [Rule; 5] =
        [Rule::TaskFailed, Rule::WorkerLost, Rule::DiskLow, Rule::ClockStepped, Rule::Overflow];
    let rule = RULES[bytes.below(RULES.len())];
    let subject = kind(bytes).into();
    match bytes.byte() % 4 {
        0 => {
            let grade = [Grade::Info, Grade::Warning, Grade::Critical][bytes.below(3)];
            let what = "it is so".repeat(bytes.below(256)).into();
            AlertAct::Raise { rule, subject, grade, what }
        }
        1 => AlertAct::Clear { rule, subject },
        2 => AlertAct::Ack(bytes.number()),
        _ => AlertAct::Tell {
            channel: kind(bytes).into(),
            told: (0..bytes.below(4)).map(|_| told(bytes)).collect(),
        },
    }
}

fn told(bytes: &mut Bytes<'_>) -> Told {
    Told {
        alert: bytes.number(),
        edition: bytes.number(),
        saying: [Saying::Stands, Saying::Over, Saying::Flaps][bytes.below(3)],
        at: LifeTime(bytes.number()),
    }
}

fn registration(bytes: &mut Bytes<'_>) -> Registration {
    let kinds = ["a", "b", "c"].into_iter().filter(|_| !bytes.bit()).map(Into::into).collect();
    Registration {
        name: "w".into(),
        process: ProcessId::default(),
        host: "h".into(),
        version: "0".into(),
        lock: "l".into(),
        kinds,
        slots: u32::from(bytes.byte() % 5),
    }
}

fn report(bytes: &mut Bytes<'_>) -> EndReport {
    const OUTCOMES: [Outcome; 8] = [
        Outcome::Success,
        Outcome::Retryable,
        Outcome::Fatal,
        Outcome::TimedOut,
        Outcome::Released,
        Outcome::Cancelled,
        Outcome::Paused,
        Outcome::Lost,
    ];
    EndReport {
        outcome: OUTCOMES[bytes.below(OUTCOMES.len() - 1)],
        started: !bytes.bit(),
        exit_code: bytes.bit().then_some(1),
        signal: bytes.bit().then_some(9),
        result: bytes.bit().then(|| "{}".into()),
        error: bytes.bit().then(|| "it broke".into()),
        usage: bytes.bit().then_some(Usage { peak_memory: 1 << 20, cpu_ms: Millis(7) }),
        ran: bytes.bit().then_some(Millis(70)),
        input: bytes.bit().then(|| InputDigest::of("null")),
    }
}

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let register = [4, 0, 0, 0, 4];
    let submit = [0, 0, 0];
    let lease = [6, 0, 2];
    let end = |outcome: u8| [11, 0, 0, outcome, 0, 0, 0, 0, 0];
    let of = |parts: &[&[u8]]| parts.concat();
    let pass = [0x80, 250, 0];
    let retried = of(&[
        &[3],
        &register,
        &[1, 1, 0],
        &lease,
        &end(1),
        &pass,
        &pass,
        &lease,
        &end(1),
        &pass,
        &lease,
        &end(2),
    ]);
    let acted = |verb: u8| [3, 1, verb, 0, 0];
    vec![
        (
            "life",
            of(&[
                &[0],
                &register,
                &submit,
                &lease,
                &[9, 0, 1, 0, 0, 1, 1, 3, 1],
                &[10, 7, 0, 0],
                &end(0),
            ]),
        ),
        ("retries", retried),
        (
            "people",
            of(&[
                &[1],
                &register,
                &submit,
                &acted(1),
                &acted(2),
                &acted(4),
                &lease,
                &acted(0),
                &end(5),
                &acted(3),
            ]),
        ),
        (
            "lost",
            of(&[
                &[2],
                &register,
                &submit,
                &lease,
                &[13, 0, 0],
                &[13, 0, 1],
                &pass,
                &pass,
                &[15, 0, 0, 0, 0],
                &pass,
                &register,
                &[6, 1, 2],
                &[14, 1, 1],
                &[15, 0, 0, 0, 0],
            ]),
        ),
        (
            "forgotten",
            of(&[
                &[0],
                &register,
                &submit,
                &[0, 32, 0, 1],
                &acted(0),
                &lease,
                &[FORGET, 3, 1, 2, 1],
                &end(0),
                &[FORGET, 2, 0, 1],
                &[0, 32, 0, 1],
                &acted(3),
            ]),
        ),
        (
            "waiting",
            of(&[
                &[24],
                &register,
                &submit,
                &[AFTER, 1, 1, 1, 0, 0],
                &[AFTER, 2, 1, 2, 0, 4, 0, 0],
                &[AFTER, 1, 2, 1, 0, 0],
                &pass,
                &lease,
                &acted(4),
                &end(0),
                &[0],
                &[SETTLE, 1],
                &lease,
                &end(2),
                &[0],
                &[SETTLE, 2],
                &[SETTLE, 1],
            ]),
        ),
        (
            "stale",
            of(&[
                &[7],
                &register,
                &submit,
                &lease,
                &[11, 0, 0xf3, 5, 0, 0],
                &end(4),
                &end(0),
                &[5, 0],
            ]),
        ),
        (
            "keys",
            of(&[
                &[0],
                &[0, 32, 0, 1],
                &[0, 32, 0, 1],
                &[0, 96, 1, 1],
                &[0, 12, 0, 9, 50],
                &[0, 16, 1, 90],
                &pass,
                &acted(4),
                &[0, 128, 2, 40],
            ]),
        ),
        (
            "alerts",
            of(&[
                &[0],
                &[ALERTS, 2, 0, 0, 2, 1],
                &[ALERTS, 2, 1, 0, 1, 0],
                &[ALERTS, 0, 0, 3, 1, 2, 1, 1, 0, 9, 2, 2, 0, 9],
                &[ALERTS, 0, 0, 2, 1],
                &pass,
                &[ALERTS, 2, 0, 1],
                &[ALERTS, 0, 0, 3, 1, 1, 1, 5, 1, 99],
                &register,
                &submit,
                &lease,
                &end(2),
                &[14, 0, 0],
                &[ALERTS, 1, 0, 1],
            ]),
        ),
    ]
}
