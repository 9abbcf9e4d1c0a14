//! One host in small: the real rules, executors that live, stall and die, processes, crashes.

use midwatch::kernel::event::{Actor, Event, Registration, Stamp, Standing, Started};
use midwatch::kernel::ids::{
    Fence, LifeTime, Millis, Moment, ProcessId, ServiceTime, TaskId, Timestamp, WorkerId,
};
use midwatch::kernel::rules::{KindRules, RetryPolicy, Rules};
use midwatch::kernel::status::{Outcome, Reason, Status};
use midwatch::kernel::task::{SecretHash, TaskSpec};
use midwatch::kernel::verdict::Verb;
use midwatch::kernel::{
    Answer, Command, EndReport, HoldReport, Proof, Rejection, State, apply, decide,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// How often each thing may still happen; what bounds the exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    pub(super) tasks: u8,
    pub(super) executors: u8,
    /// Leases handed out in all.
    pub(super) leases: u8,
    /// Ends of the engine.
    pub(super) crashes: u8,
    /// Ends of the host.
    pub(super) reboots: u8,
    /// Ends of an executor.
    pub(super) deaths: u8,
    /// Times a lease runs out.
    pub(super) ticks: u8,
    /// Times an executor is found silent for too long.
    pub(super) silences: u8,
    /// Heartbeats and checkpoints.
    pub(super) words: u8,
    /// What people ask of a task.
    pub(super) verbs: u8,
}

/// What an executor believes of a lease it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Belief {
    pub(super) task: TaskId,
    pub(super) fence: Fence,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Leased, nothing started.
    Held,
    /// Its process was started.
    Started,
    /// Its process ended; the end is not told, or was told and not answered.
    Exited,
    /// It was told to stop.
    Doomed,
}

/// A worker process, from one start to its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Executor {
    pub(super) id: Option<WorkerId>,
    pub(super) alive: bool,
    pub(super) beliefs: Vec<Belief>,
}

/// Whether the answer to a command reaches who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Heard {
    Yes,
    /// The engine ends after the command was durable and before the answer was out.
    No,
}

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) state: State,
    life: LifeTime,
    service: ServiceTime,
    pub(super) executors: Vec<Executor>,
    /// Processes of attempts that exist.
    pub(super) processes: BTreeSet<(TaskId, Fence)>,
    /// Claims: attempts that were started, and by whom nothing can be started any more.
    claims: BTreeSet<Fence>,
    pub(super) tombs: BTreeSet<Fence>,
    /// The highest token that was handed out.
    highest: u64,
    /// The status each accepted end led to.
    ends: BTreeMap<Fence, Status>,
    /// How tasks ended, as was answered or seen.
    terminal: BTreeMap<TaskId, Status>,
    pub(super) left: Bounds,
    /// What went wrong, the first time.
    pub(super) wrong: Option<String>,
}

fn rules() -> Rules {
    let retry = RetryPolicy::Intervals(vec![Millis::secs(60)]);
    let fallback = KindRules { retry, ..KindRules::default() };
    Rules { max_lost: 1, fallback, ..Rules::default() }
}

fn secret(executor: usize) -> SecretHash {
    SecretHash([u8::try_from(executor).unwrap(); 16])
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        let mut world = Self {
            state: State::default(),
            life: LifeTime(0),
            service: ServiceTime(0),
            executors: vec![
                Executor { alive: true, ..Executor::default() };
                usize::from(bounds.executors)
            ],
            processes: BTreeSet::new(),
            claims: BTreeSet::new(),
            tombs: BTreeSet::new(),
            highest: 0,
            ends: BTreeMap::new(),
            terminal: BTreeMap::new(),
            left: bounds,
            wrong: None,
        };
        world.start(Reason::WorkerCrash);
        for number in 0..bounds.tasks {
            let mut spec = TaskSpec::new("job", number.to_string());
            spec.max_retry = 1;
            world.decided(&Command::Submit(spec));
        }
        world
    }

    pub(super) fn service(&self) -> ServiceTime {
        self.service
    }

    fn record(&mut self, event: &Event) {
        let stamp = Stamp {
            seq: self.state.next_seq(),
            wall: Timestamp(0),
            life: self.life,
            service: self.service,
            by: Actor::Daemon,
        };
        if let Err(illegal) = apply(&mut self.state, &stamp, event) {
            self.note(&format!("a decided event cannot follow: {illegal}"));
        }
    }

    fn note(&mut self, what: &str) {
        self.wrong.get_or_insert_with(|| what.to_owned());
    }

    /// Decided, durable and published in one step: nothing of it shows before it is durable.
    pub(super) fn command(&mut self, command: &Command) -> Result<Answer, Rejection> {
        let now = Moment {
            wall: Timestamp(0),
            life: self.life,
            service: self.service,
            dice: 0,
            doubtful: false,
        };
        let decision = decide(&self.state, &rules(), command, now)?;
        for event in &decision.events {
            self.record(event);
        }
        self.look();
        Ok(decision.answer)
    }

    /// The same, whatever the answer is.
    fn decided(&mut self, command: &Command) {
        drop(self.command(command));
    }

    /// What must hold after every step.
    fn look(&mut self) {
        if let Err(what) = self.state.check() {
            self.note(&what);
        }
        let mut wrong = None;
        for task in self.state.tasks() {
            let known = self.terminal.get(&task.id).copied();
            if known.is_some_and(|known| known != task.status) {
                wrong = Some(format!("{} became {}", known.unwrap(), task.status));
            }
            if task.max_retry + 1 < task.retry_count || 2 < task.lost_count {
                wrong = Some("a count beyond its limit".to_owned());
            }
            if task.status.is_terminal() {
                self.terminal.insert(task.id, task.status);
            }
        }
        if let Some(wrong) = wrong {
            self.note(&wrong);
        }
    }

    /// A start of the engine, as the engine does it.
    pub(super) fn start(&mut self, reason: Reason) {
        let next_task = self.state.next_task().0.max(1);
        self.record(&Event::Started(Started {
            version: "1".into(),
            boot_id: "b".into(),
            boot_clock: Millis(0),
            next_task: TaskId(next_task),
            jump: None,
        }));
        let alive: BTreeSet<_> =
            self.executors.iter().filter(|one| one.alive).filter_map(|one| one.id).collect();
        let workers: Vec<_> = self.state.workers().map(|worker| worker.id).collect();
        for worker in workers.into_iter().filter(|worker| !alive.contains(worker)) {
            let held: Vec<_> = self.state.held(worker).map(|task| task.id).collect();
            self.decided(&Command::Died { worker, reason });
            for task in held.into_iter().filter(|_| reason == Reason::HostRebooted) {
                let fence = self.state.task(task).unwrap().lease().unwrap().fence;
                let over = Command::Expire { task, fence, ran: true };
                self.decided(&over);
            }
        }
        let used_up: Vec<_> = self
            .state
            .with_status(Status::Retrying)
            .filter(|task| task.max_retry < task.retry_count)
            .map(|task| task.id)
            .collect();
        for task in used_up {
            self.decided(&Command::Bury(task));
        }
    }

    pub(super) fn reboot(&mut self) {
        for executor in &mut self.executors {
            *executor = Executor { alive: false, ..Executor::default() };
        }
        self.processes.clear();
        self.start(Reason::HostRebooted);
    }

    /// The answer is lost with the engine, which starts again.
    fn unless_lost(&mut self, heard: Heard) -> bool {
        if heard == Heard::No {
            self.start(Reason::WorkerCrash);
        }
        heard == Heard::Yes
    }

    pub(super) fn register(&mut self, executor: usize) {
        let registration = Registration {
            name: executor.to_string().into(),
            process: ProcessId::default(),
            host: "h".into(),
            version: "1".into(),
            lock: "l".into(),
            kinds: vec!["job".into()],
            slots: 1,
        };
        if let Ok(Answer::Registered(id)) = self.command(&Command::Register(registration)) {
            self.executors[executor].id = Some(id);
        }
    }

    pub(super) fn lease(&mut self, executor: usize, heard: Heard) {
        let worker = self.executors[executor].id.unwrap();
        let command = Command::Lease { worker, secrets: vec![secret(executor)] };
        let answer = self.command(&command);
        let Ok(Answer::Leased(leases)) = answer else {
            self.executors[executor].id = None;
            return;
        };
        self.left.leases -= u8::try_from(leases.len()).unwrap();
        if !self.unless_lost(heard) {
            return;
        }
        for (task, fence) in leases {
            if fence.0 <= self.highest {
                self.note("a token was handed out that is not above all before it");
            }
            self.highest = fence.0;
            self.executors[executor].beliefs.push(Belief { task, fence, phase: Phase::Held });
        }
    }

    /// Between fork and exec: the claim is made, unless a tombstone lies in its place.
    pub(super) fn run(&mut self, executor: usize, place: usize) {
        let belief = &mut self.executors[executor].beliefs[place];
        if self.tombs.contains(&belief.fence) {
            belief.phase = Phase::Doomed;
            return;
        }
        belief.phase = Phase::Started;
        let (task, fence) = (belief.task, belief.fence);
        self.claims.insert(fence);
        self.processes.insert((task, fence));
        if 1 < self.processes.iter().filter(|(other, _)| *other == task).count() {
            self.note("two attempts of one task run at the same time");
        }
    }

    fn proof(&self, executor: usize, belief: Belief) -> Proof {
        Proof {
            worker: self.executors[executor].id.unwrap_or(WorkerId(0)),
            task: belief.task,
            fence: belief.fence,
            secret: secret(executor),
        }
    }

    /// Whether the token names a lease that holds now.
    fn holds(&self, belief: Belief) -> bool {
        let lease = self.state.task(belief.task).and_then(|task| task.lease());
        lease.is_some_and(|lease| lease.fence == belief.fence && self.service < lease.ends)
    }

    /// What is on record of the end of an attempt.
    fn recorded_end(&self, belief: Belief) -> Option<Status> {
        let task = self.state.task(belief.task)?;
        Some(task.attempt(belief.fence)?.end.as_ref()?.status)
    }

    pub(super) fn heartbeat(&mut self, executor: usize, heard: Heard) {
        let beliefs = self.executors[executor].beliefs.clone();
        let hold = |belief: &Belief| HoldReport {
            proof: self.proof(executor, *belief),
            process: (belief.phase == Phase::Started).then(ProcessId::default),
            progress: None,
        };
        let holds = beliefs.iter().map(hold).collect();
        let valid: Vec<_> = beliefs.iter().map(|belief| self.holds(*belief)).collect();
        let worker = self.executors[executor].id.unwrap();
        let answer = self.command(&Command::Heartbeat { worker, holds });
        if !self.unless_lost(heard) {
            return;
        }
        let Ok(Answer::Heard(stale)) = answer else {
            self.executors[executor].id = None; // it must register anew
            return;
        };
        for (place, belief) in beliefs.iter().enumerate() {
            let refused = stale.contains(&(belief.task, belief.fence));
            if refused == valid[place] {
                self.note("a heartbeat was judged by something else than its token");
            }
            if refused {
                self.executors[executor].beliefs[place].phase = Phase::Doomed;
            }
        }
    }

    pub(super) fn checkpoint(&mut self, executor: usize, place: usize) {
        let belief = self.executors[executor].beliefs[place];
        let (proof, valid) = (self.proof(executor, belief), self.holds(belief));
        let answer = self.command(&Command::Checkpoint { proof, data: "1".into() });
        if matches!(answer, Ok(Answer::Checkpointed(_))) != valid {
            self.note("a checkpoint was judged by something else than its token");
        }
        if !valid {
            self.executors[executor].beliefs[place].phase = Phase::Doomed;
        }
    }

    /// The process ends, by itself or because its executor stops it.
    pub(super) fn exit(&mut self, executor: usize, place: usize) {
        let belief = &mut self.executors[executor].beliefs[place];
        self.processes.remove(&(belief.task, belief.fence));
        if belief.phase == Phase::Doomed {
            self.executors[executor].beliefs.remove(place);
        } else {
            belief.phase = Phase::Exited;
        }
    }

    pub(super) fn end(&mut self, executor: usize, place: usize, outcome: Outcome, heard: Heard) {
        let belief = self.executors[executor].beliefs[place];
        let (proof, valid) = (self.proof(executor, belief), self.holds(belief));
        let recorded = self.recorded_end(belief);
        let before = self.state.head().seq;
        let report = EndReport {
            outcome,
            started: belief.phase == Phase::Exited,
            exit_code: None,
            signal: None,
            result: None,
            error: None,
            usage: None,
            ran: None,
            input: None,
        };
        match self.command(&Command::End { proof, report }) {
            Ok(Answer::Ended(status)) => match self.ends.get(&belief.fence) {
                Some(told) if *told != status => self.note("an end told twice got two answers"),
                None if !valid && recorded != Some(status) => {
                    self.note("an end was accepted with a token that holds nothing");
                }
                _ => {
                    self.ends.insert(belief.fence, status);
                }
            },
            _ if valid => self.note("an end was refused though its token holds"),
            _ => {}
        }
        let moved = self.recorded_end(belief) != recorded;
        if !valid && moved {
            self.note("a stale end changed the end on record");
        }
        if valid && before == self.state.head().seq {
            self.note("an accepted end left no trace");
        }
        if self.unless_lost(heard) {
            self.executors[executor].beliefs.remove(place);
        }
    }

    pub(super) fn die(&mut self, executor: usize) {
        let one = &mut self.executors[executor];
        // Its processes live on until they are swept: the worst that can be.
        one.alive = false;
        one.beliefs.clear();
    }

    pub(super) fn buried(&mut self, executor: usize) {
        if let Some(worker) = self.executors[executor].id.take() {
            let died = Command::Died { worker, reason: Reason::WorkerCrash };
            self.decided(&died);
        }
    }

    pub(super) fn respawn(&mut self, executor: usize) {
        self.executors[executor] = Executor { alive: true, ..Executor::default() };
    }

    pub(super) fn silent(&mut self, executor: usize) {
        let worker = self.executors[executor].id.unwrap();
        let silent = Command::Silent { worker, standing: Standing::Offline };
        self.decided(&silent);
    }

    /// Time passes until the next lease is over.
    pub(super) fn tick(&mut self) {
        if let Some((ends, ..)) = self.state.lease_ends().next() {
            self.service = self.service.max(ends);
        }
    }

    /// Time passes until the next waiting task is due.
    pub(super) fn ripen(&mut self) {
        if let (Some(due), _) = self.state.next_due() {
            self.life = due;
            let now = Moment {
                wall: Timestamp(0),
                life: self.life,
                service: self.service,
                dice: 0,
                doubtful: false,
            };
            self.state.ripen(now, usize::MAX);
        }
    }

    /// The sweep: the tombstone first, then the kill.
    pub(super) fn sweep(&mut self, task: TaskId, fence: Fence) {
        if !self.claims.contains(&fence) {
            self.tombs.insert(fence);
        }
        self.processes.remove(&(task, fence));
        self.tombs.insert(fence);
    }

    pub(super) fn expire(&mut self, task: TaskId, fence: Fence) {
        let ran = self.claims.contains(&fence);
        self.decided(&Command::Expire { task, fence, ran });
    }

    pub(super) fn act(&mut self, task: TaskId, verb: Verb) {
        let act = Command::Act { task, verb, max_retry: None, fresh: false };
        self.decided(&act);
    }

    /// What the future depends on, with tokens, ids and clocks as ranks.
    fn key(&self) -> impl Hash + PartialEq {
        let mut numbers = BTreeSet::new();
        let mut times = BTreeSet::from([self.service]);
        for task in self.state.tasks() {
            if let Some(lease) = task.lease() {
                numbers.extend([lease.fence.0, lease.worker.0]);
                times.insert(lease.ends);
            }
        }
        for executor in &self.executors {
            numbers.extend(executor.id.map(|id| id.0));
            numbers.extend(executor.beliefs.iter().map(|belief| belief.fence.0));
        }
        numbers.extend(self.state.workers().map(|worker| worker.id.0));
        numbers.extend(self.processes.iter().map(|(_, fence)| fence.0));
        let rank = |number: u64| numbers.iter().position(|known| *known == number);
        let time = |at: ServiceTime| times.iter().position(|known| *known == at);
        let tasks: Vec<_> = self
            .state
            .tasks()
            .map(|task| {
                let lease = task.lease().map(|lease| {
                    let over = (time(lease.ends), lease.ends == ServiceTime(0));
                    let process = lease.process.is_some();
                    (rank(lease.fence.0), rank(lease.worker.0), over, process, lease.secret.0)
                });
                let counts = (task.retry_count, task.lost_count, task.attempt_count());
                let due = self.life < task.due;
                let kept = task.checkpoint().is_some();
                (format!("{}{:?}", task.status, task.stop()), counts, due, lease, kept)
            })
            .collect();
        let executors: Vec<_> = self
            .executors
            .iter()
            .map(|executor| {
                let belief = |belief: &Belief| {
                    let told = self.ends.get(&belief.fence).map(ToString::to_string);
                    (belief.task, rank(belief.fence.0), belief.phase, told)
                };
                let id = executor.id.map(|id| rank(id.0));
                (id, executor.alive, executor.beliefs.iter().map(belief).collect::<Vec<_>>())
            })
            .collect();
        let marks = |set: &BTreeSet<Fence>| -> Vec<_> {
            set.iter().filter_map(|fence| rank(fence.0)).collect()
        };
        let processes: Vec<_> =
            self.processes.iter().map(|(task, fence)| (*task, rank(fence.0))).collect();
        let workers: Vec<_> = self
            .state
            .workers()
            .map(|worker| (rank(worker.id.0), worker.standing.word()))
            .collect();
        let now = time(self.service);
        let marks = (marks(&self.claims), marks(&self.tombs));
        (tasks, executors, (processes, marks), workers, now, self.left, self.wrong.clone())
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key().hash(hasher);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
