//! The engine's thread: takes what everybody wants, lets the engine decide it turn by turn, and
//! hands out what came of it.
//!
//! Nothing leaves this thread before the turn it rests on is durable: answers, reads, watches and
//! events alike. A storage error ends the thread, and with it the process; whoever still waits
//! learns from the broken connection that the outcome is unknown.

use super::alerts::Post;
use super::claims;
use super::feed::Feeds;
use super::hand::{Delivery, Message, Outbox, Reply};
use super::own_health::OwnHealth;
use super::pulse::Pulse;
use super::remains;
use super::report::Reporter;
use super::schedules::Arranging;
use super::task_lines;
use super::watches::Watches;
use crate::clock::{Clock, Step, Until};
use crate::engine::{Engine, Input, Output, Recorded, Ticket, Wake};
use crate::journal::{JournalError, RealDisk};
use crate::kernel::Rejection;
use crate::kernel::event::{Actor, Event, Standing, WorkerMoved};
use crate::kernel::ids::{Fence, LifeTime, Millis, Moment, TaskId};
use crate::kernel::task::Task;
use crate::kernel::text::Text;
use crate::limits::INPUTS_PER_TURN_MAX;
use crate::units::{rfc3339, span};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError};
use std::time::Duration;

/// The engine on the real disk.
pub(crate) type Core = Engine<RealDisk>;

/// How long to wait before a sweep is tried again that could not kill everything.
const SWEEP_AGAIN: Millis = Millis::secs(5);

/// How often it is looked whether something keeps the clock right, while that is waited for.
const SYNC_LOOK_EVERY: Duration = Duration::from_secs(10);

/// How often the logs are looked through at most.
const SURVEY_EVERY: Millis = Millis::secs(60);

/// What is known after a turn, all of it durable.
pub(crate) struct Facts<'a> {
    /// State, journal and rules.
    pub(crate) engine: &'a Core,
    /// The moment of the turn.
    pub(crate) now: Moment,
    /// Schedules of the config that could not be set, and why.
    pub(crate) refused: &'a [(Text, Rejection)],
}

/// A job for the thread that sweeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SweepJob {
    /// Kill whatever runs under a lease.
    Sweep(TaskId, Fence),
    /// Remove claims that nobody can use any more.
    Collect(claims::Litter),
}

/// A job for the thread that writes snapshots.
pub(crate) type SnapshotJob =
    (Box<crate::kernel::Image>, Box<crate::journal::SnapshotWriter<RealDisk>>);

/// The queues to the threads that help.
pub(crate) struct Helpers {
    pub(crate) sweeper: SyncSender<SweepJob>,
    pub(crate) snapshots: SyncSender<SnapshotJob>,
    pub(crate) remains: SyncSender<remains::Job>,
    pub(crate) post: Arc<Post>,
}

/// Everything the engine's thread owns.
pub(crate) struct Host {
    pub(crate) engine: Core,
    pub(crate) clock: Clock,
    pub(crate) inbox: Receiver<Message>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) helpers: Helpers,
    pub(crate) arranging: Arranging,
    pub(crate) own_health: Arc<OwnHealth>,
    state: Waiting,
}

/// The ticket of the config's own commands; those of requests begin behind it.
const OWN: Ticket = Ticket(0);

/// Who waits for what.
#[derive(Default)]
struct Waiting {
    inputs: Vec<Input>,
    replies: BTreeMap<Ticket, Reply>,
    reads: Vec<super::hand::Read>,
    watches: Watches,
    feeds: Feeds,
    deliveries: Vec<Delivery>,
    /// Sweeps under way.
    sweeping: usize,
    /// Sweeps to be tried again, and when on the monotonic clock.
    again: Vec<(Millis, TaskId, Fence)>,
    /// When the logs were last looked through, on the life clock.
    surveyed: LifeTime,
    /// The edition of the alerts that the channels were last told to look at.
    alerts: u64,
    /// Whether the archive was in trouble when it was last told of.
    archive_in_trouble: bool,
    reporter: Reporter,
    stop: bool,
}

impl Host {
    pub(crate) fn new(
        (engine, clock, arranging): (Core, Clock, Arranging),
        inbox: Receiver<Message>,
        outbox: Arc<Outbox>,
        pulse: Arc<Pulse>,
        helpers: Helpers,
    ) -> Self {
        let (state, own_health) = (Waiting::default(), Arc::default());
        Self { engine, clock, inbox, outbox, pulse, helpers, arranging, own_health, state }
    }

    /// Works until it is told to stop, then closes the journal. `outputs` are those of the start.
    pub(crate) fn run(mut self, outputs: Vec<Output<RealDisk>>) -> Result<(), JournalError> {
        let now = self.clock.now();
        self.publish(outputs, now);
        self.collect_claims();
        self.survey(now.life);
        while !self.state.stop {
            self.gather();
            self.pulse.work();
            self.arrange();
            let now = self.clock.now();
            let mut inputs = std::mem::take(&mut self.state.inputs);
            // What follows in this turn is decided by the clock as it is now.
            if let Some(step) = self.clock.take_step() {
                inputs.insert(0, stepped(step));
            }
            let outputs = self.engine.step(inputs, now)?;
            self.publish(outputs, now);
            self.tell_of_the_archive();
            self.own_health.look(self.engine.state());
            self.report(now.life);
            self.tell_the_channels();
            self.read(now);
            self.outbox.deliver(&mut self.state.deliveries);
        }
        self.engine.close()
    }

    /// Tells what the last hour was like, in the log and to the channels that want to know.
    fn report(&mut self, now: LifeTime) {
        let lines = self.state.reporter.due(self.engine.state().figures(), now);
        for line in &lines {
            tracing::info!("{line}");
        }
        self.helpers.post.report(&lines);
    }

    /// Waits for the first message, or until the engine must be called; then takes what else is
    /// there, up to the bound of a turn.
    fn gather(&mut self) {
        match self.receive() {
            Ok(Some(message)) => self.take(message),
            Ok(None) => {}
            Err(Gone) => self.state.stop = true,
        }
        for _ in 1..INPUTS_PER_TURN_MAX {
            match self.inbox.try_recv() {
                Ok(message) => self.take(message),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.state.stop = true;
                    break;
                }
            }
        }
        self.sweep_again();
    }

    /// Asks for what makes the schedules those of the config.
    fn arrange(&mut self) {
        let commands = self.arranging.commands(self.engine.state(), crate::clock::monotonic());
        if !commands.is_empty() {
            self.state.inputs.push(Input::Ask { from: OWN, by: Actor::Daemon, commands });
        }
    }

    fn receive(&mut self) -> Result<Option<Message>, Gone> {
        // Most turns follow close upon another: what is there is taken without asking how long
        // to sleep.
        match self.inbox.try_recv() {
            Ok(message) => return Ok(Some(message)),
            Err(TryRecvError::Disconnected) => return Err(Gone),
            Err(TryRecvError::Empty) => {}
        }
        let sleep = self.sleep();
        if sleep == Some(Duration::ZERO) {
            return Ok(None);
        }
        self.pulse.rest();
        let received = match sleep {
            Some(sleep) => self.inbox.recv_timeout(sleep),
            None => self.inbox.recv().map_err(|_gone| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Gone),
        }
    }

    fn sleep(&mut self) -> Option<Duration> {
        let wake = self.engine.next_wake();
        if wake.now {
            return Some(Duration::ZERO);
        }
        let Wake { service, life, wall, unhurried, now: _ } = wake;
        let until = Until { service, life, wall, unhurried };
        let planned = self.clock.plan(until);
        let again = self.state.again.iter().map(|(at, ..)| *at);
        let again = again.chain(self.arranging.again()).min();
        let again = again.map(|at| at.0.saturating_sub(crate::clock::monotonic().0));
        let sync = self.clock.awaits_synchronisation().then_some(SYNC_LOOK_EVERY);
        planned.into_iter().chain(again.map(Duration::from_millis)).chain(sync).min()
    }

    fn take(&mut self, message: Message) {
        let state = &mut self.state;
        match message {
            Message::Ask { from, by, commands, reply } => {
                state.replies.insert(from, reply);
                state.inputs.push(Input::Ask { from, by, commands });
            }
            Message::AwaitLease { from, worker, secrets, patience, reply } => {
                state.replies.insert(from, reply);
                state.inputs.push(Input::AwaitLease { from, worker, secrets, patience });
            }
            Message::Forget(from) => {
                if state.replies.remove(&from).is_some() {
                    state.inputs.push(Input::Forget(from));
                }
                state.watches.forget(from);
            }
            Message::Read(read) => state.reads.push(read),
            Message::Watch { from, on, look } => state.watches.add(from, on, look),
            Message::Rules { rules, schedules, snapshot_after } => {
                self.engine.set_rules(*rules);
                self.arranging.want(schedules);
                self.engine.set_snapshot_after(snapshot_after);
            }
            Message::Subscribe { from, to } => state.feeds.subscribe(from, to),
            Message::Tell(input) => {
                if matches!(*input, Input::Swept { .. }) {
                    state.sweeping = state.sweeping.saturating_sub(1);
                }
                state.inputs.push(*input);
            }
            Message::SweepFailed { task, fence } => {
                let at = crate::clock::monotonic().plus(SWEEP_AGAIN);
                state.again.push((at, task, fence));
            }
            // The turn that follows reads the clocks, and that is all there is to do.
            Message::ClockSet => {}
            Message::Stop => state.stop = true,
        }
    }

    fn publish(&mut self, outputs: Vec<Output<RealDisk>>, now: Moment) {
        let mut collect = false;
        for output in outputs {
            match output {
                Output::Answers { to: OWN, answers } => {
                    self.arranging.answered(answers, crate::clock::monotonic());
                }
                Output::Answers { to, answers } => {
                    if answers.contains(&Err(Rejection::NoSpace)) {
                        self.helpers.post.look_soon();
                    }
                    if let Some(reply) = self.state.replies.remove(&to) {
                        let refused = self.arranging.refused();
                        let facts = Facts { engine: &self.engine, now, refused };
                        self.state.deliveries.push(reply.deliver(&facts, answers));
                    }
                }
                Output::Sweep { task, fence } => {
                    self.state.sweeping = self.state.sweeping.saturating_add(1);
                    self.sweep(task, fence);
                }
                Output::Archive(tasks) => self.archive(tasks, now),
                Output::Events(events) => collect |= self.publish_events(events, now),
                Output::Snapshot { image, writer } => {
                    if self.helpers.snapshots.try_send((image, writer)).is_err() {
                        tracing::error!("the thread that writes snapshots is gone");
                    }
                }
            }
        }
        if collect && self.state.sweeping == 0 {
            self.collect_claims();
        }
    }

    /// Hands events on; whether one of them may have left claims that nobody can use any more.
    fn publish_events(&mut self, events: Vec<Recorded>, now: Moment) -> bool {
        let facts = Facts { engine: &self.engine, now, refused: self.arranging.refused() };
        let (mut collect, mut ended) = (false, false);
        for recorded in &events {
            self.state.watches.touch(&facts, &recorded.event, &mut self.state.deliveries);
            task_lines::tell(&facts, recorded);
            if let Event::WorkerMoved(moved) = &recorded.event {
                tell_of_standing(&facts, moved);
            }
            collect |= match &recorded.event {
                Event::WorkerMoved(moved) => moved.to == Standing::Gone,
                Event::Moved(moved) => moved.to.is_waiting(),
                _ => false,
            };
            ended |= matches!(recorded.event, Event::Ended(_));
            if let Event::Forgotten(forgotten) = &recorded.event {
                self.remain(remains::Job::Forgotten(forgotten.tasks.clone()));
            }
        }
        self.state.feeds.publish(events);
        // What wrote logs has ended: the time to look is now, and no timer is needed.
        if ended && self.state.surveyed.after(SURVEY_EVERY) <= now.life {
            self.survey(now.life);
        }
        collect
    }

    fn survey(&mut self, now: LifeTime) {
        self.state.surveyed = now;
        self.remain(remains::Job::Survey);
    }

    /// A full queue is no harm: the next survey finds what was left.
    fn remain(&self, job: remains::Job) {
        if self.helpers.remains.try_send(job).is_err() {
            tracing::debug!("what ended tasks left is seen to another time");
        }
    }

    /// Hands tasks to the thread that writes the archive; when it is too busy the engine is told,
    /// and tries again later.
    fn archive(&mut self, tasks: Vec<Task>, now: Moment) {
        let job = remains::Job::Archive(tasks, now);
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) =
            self.helpers.remains.try_send(job)
            && let remains::Job::Archive(tasks, _) = job
        {
            let tasks = tasks.iter().map(|task| task.id).collect();
            let written = Err("the thread that writes it is busy".to_owned());
            self.state.inputs.push(Input::Archived { tasks, written });
        }
    }

    /// The channels look what is due, when something about alerts is new.
    fn tell_the_channels(&mut self) {
        let edition = self.engine.state().alerts().edition;
        if edition != self.state.alerts {
            self.state.alerts = edition;
            self.helpers.post.ring();
        }
    }

    /// One message when the archive fails, and one when it works again.
    fn tell_of_the_archive(&mut self) {
        let trouble = self.engine.archive_trouble();
        if trouble.is_some() == self.state.archive_in_trouble {
            return;
        }
        if let Some(why) = trouble {
            tracing::error!(
                "the archive: {why}; ended tasks stay until it can be written, tried every minute"
            );
        } else {
            tracing::info!("the archive can be written again");
        }
        self.state.archive_in_trouble = trouble.is_some();
    }

    fn read(&mut self, now: Moment) {
        let facts = Facts { engine: &self.engine, now, refused: self.arranging.refused() };
        let deliveries = &mut self.state.deliveries;
        deliveries.extend(self.state.reads.drain(..).map(|read| read(&facts)));
        self.state.watches.begin(&facts, deliveries);
    }

    /// Hands a sweep to its thread; the engine asks for fewer at once than the queue holds.
    fn sweep(&mut self, task: TaskId, fence: Fence) {
        if self.helpers.sweeper.try_send(SweepJob::Sweep(task, fence)).is_err() {
            let at = crate::clock::monotonic().plus(SWEEP_AGAIN);
            self.state.again.push((at, task, fence));
        }
    }

    fn sweep_again(&mut self) {
        if self.state.again.is_empty() {
            return;
        }
        let now = crate::clock::monotonic();
        let due: Vec<_> = self.state.again.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, task, fence) in due {
            self.sweep(task, fence);
        }
    }

    fn collect_claims(&self) {
        let litter = claims::Litter::of(self.engine.state());
        // A full queue is no harm: the next worker that goes brings the next collection.
        if self.helpers.sweeper.try_send(SweepJob::Collect(litter)).is_err() {
            tracing::debug!("claims are collected another time");
        }
    }
}

/// The step, as the engine is told it.
fn stepped(step: Step) -> Input {
    let Step { from, to } = step;
    let (word, by) = if from < to { ("forward", to.since(from)) } else { ("back", from.since(to)) };
    tracing::warn!("the wall clock was put {word} by {} and shows {}", span(by), rfc3339(to));
    Input::ClockStepped { from, to }
}

/// A worker that is silent or gone is worth a line; one that leaves as it should is not.
fn tell_of_standing(facts: &Facts<'_>, moved: &WorkerMoved) {
    let WorkerMoved { worker: id, to, reason } = moved;
    let known = facts.engine.state().worker(*id);
    let name = known.map(|known| format!(" ({})", known.registration.name)).unwrap_or_default();
    let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    match (to, reason) {
        (Standing::Alive, _) => tracing::info!("worker {id}{name} is alive again"),
        (Standing::Suspect | Standing::Offline, _) | (Standing::Gone, Some(_)) => {
            tracing::warn!("worker {id}{name} is {}{why}", to.word());
        }
        (Standing::Gone, None) => {}
    }
}

/// All who could send are gone.
struct Gone;

impl Reply {
    fn deliver(self, facts: &Facts<'_>, answers: super::hand::Answers) -> Delivery {
        match self {
            Self::Plain(to) => Delivery::Answers(to, answers),
            Self::Seen(look) => look(facts, answers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Belief;
    use crate::engine::Start;
    use crate::journal::{self, Options};
    use crate::kernel::ids::Timestamp;
    use crate::kernel::rules::Rules;
    use std::sync::mpsc::sync_channel;

    const BELIEVED: Belief = Belief { plausible_since: Timestamp(0), synchronised: None };

    #[test]
    fn a_turn_takes_512_inputs_and_leaves_the_rest_for_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(dir.path()).unwrap();
        let machine = journal::Host { machine_id: [0; 16], boot_id: [0; 16], random: 1 };
        let (mut engine, _) =
            Engine::open(disk, Options::default(), machine, Rules::default()).unwrap();
        let mut clock = Clock::resume(engine.state().head(), "boot", Millis(0), BELIEVED);
        let start = Start {
            version: "1".into(),
            boot_id: "boot".into(),
            boot_clock: crate::clock::read().boot,
            skipped_ahead: false,
            ..Start::default()
        };
        let outputs = engine.start(start, clock.now()).unwrap();
        let (to, inbox) = sync_channel(4096);
        let (sweeper, _sweeps) = sync_channel(1);
        let (snapshots, _images) = sync_channel(1);
        let (remains, _jobs) = sync_channel(1);
        let helpers = Helpers { sweeper, snapshots, remains, post: Arc::default() };
        let (outbox, pulse) = (Arc::default(), Arc::default());
        let mut host =
            Host::new((engine, clock, Arranging::default()), inbox, outbox, pulse, helpers);
        drop(outputs);
        let input = || Message::Tell(Box::new(Input::Forget(Ticket(1))));
        (0..1300).for_each(|_| to.send(input()).unwrap());
        for expected in [512, 512, 276] {
            host.gather();
            assert_eq!(std::mem::take(&mut host.state.inputs).len(), expected);
        }
    }
}
