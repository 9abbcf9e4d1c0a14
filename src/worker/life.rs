//! Moves the attempts of a worker from phase to phase.

use super::attempt::{Asked, Attempt, Ground, Phase, Reaction, unstarted};
use super::context::Handler;
use super::control::{Answer, Channel};
use super::crew::{Begun, Work};
use super::duty::Duty;
use super::events::{self, Event, Events, report};
use super::handler::{HandlerSpec, environment};
use super::outcome::{Exit, Memory};
use super::output::{LastLine, Sink};
use super::stopping::Push;
use super::threads::{self, ThreadStart};
use crate::api::{CheckpointRequest, Checkpointed, Code, Lease, StopWord, Usage};
use crate::client::ClientError;
use crate::kernel::ids::Fence;
use crate::kernel::status::Outcome;
use crate::process::{self, Adoption, Found, Look, Start, StartError, Started, group};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Instant;

/// How long nothing is leased after the host could not start a handler.
const HURT_PAUSE: Duration = Duration::from_secs(5);

/// From an attempt's start to the heartbeat that tells it: attempts that start together share
/// one, and one that ends at once needs none.
const STARTED_TOLD_AFTER: Duration = Duration::from_millis(50);

/// How long the end of an attempt waits for its log.
const LOG_WITHIN: Duration = Duration::from_secs(5);

impl Duty {
    /// Begins a lease.
    pub(super) fn begin(&mut self, lease: Lease) {
        let work = match self.crew.work(&lease) {
            Ok(work) => work,
            Err((outcome, why)) => {
                // No fault of the task's while the engine is still being told of another config.
                let told = self.state.offering && outcome == Outcome::Retryable;
                let outcome = if told { Outcome::Released } else { outcome };
                self.state.ends.push_back(unstarted(&lease, outcome, Some(why)));
                return;
            }
        };
        let fence = lease.fence;
        tracing::debug!(task = %lease.task, %fence, kind = lease.kind, attempt = lease.attempt, "begin");
        match work {
            Work::Command(spec) => self.begin_process(lease, *spec),
            Work::Code(handler) => self.begin_thread(lease, handler),
        }
    }

    fn begin_process(&mut self, lease: Lease, spec: HandlerSpec) {
        let Some(crew) = self.crew.processes() else { return };
        let fence = lease.fence;
        let start = Start {
            command: spec.command.iter().map(OsString::from).collect(),
            cwd: spec.cwd.clone(),
            env: environment(&spec, &lease, &self.state.store, &crew.environment),
            payload: lease.payload.get().as_bytes().to_vec(),
            checkpoint: lease.checkpoint.as_ref().map(|data| data.get().as_bytes().to_vec()),
            run_dir: self.run_dir.clone(),
            store: self.state.store.clone(),
            task: lease.task,
            fence,
            limits: spec.limits.clone(),
        };
        let (reply, result) = oneshot::channel();
        let events = self.events.clone();
        spawn_local(async move {
            let gone = |_| Err(StartError::Host("the spawn thread is gone".into()));
            let result = result.await.unwrap_or_else(gone).map(Begun::Process);
            report(&events, Event::Started { fence, result }).await;
        });
        let reply = move |result| drop(reply.send(result));
        crew.spawner.start(start, Box::new(reply));
        let attempt = Attempt::new(lease, spec, Ground::Process, &self.state.store);
        self.state.attempts.insert(fence, attempt);
    }

    fn begin_thread(&mut self, lease: Lease, handler: Arc<dyn Handler>) {
        let fence = lease.fence;
        let start = ThreadStart {
            handler,
            lease: lease.clone(),
            store: self.state.store.clone(),
            run_dir: self.run_dir.clone(),
            worker: self.registration.process.clone(),
            events: self.events.clone(),
        };
        let attempt =
            Attempt::new(lease, HandlerSpec::default(), Ground::Thread, &self.state.store);
        self.state.attempts.insert(fence, attempt);
        if let Err(error) = threads::start(start) {
            let events = self.events.clone();
            spawn_local(async move {
                report(&events, Event::Started { fence, result: Err(error) }).await;
            });
        }
    }

    pub(super) fn started(
        &mut self,
        fence: Fence,
        result: Result<Begun, StartError>,
        now: Instant,
    ) {
        let Some(attempt) = self.state.attempts.get_mut(&fence) else { return };
        let path = self.data_dir.join("logs").join(attempt.lease.task.to_string());
        let path = path.join(format!("{}.log", attempt.lease.attempt));
        let sink = Sink::new(fence, self.logs.clone());
        attempt.sink = Some(sink.clone());
        let opened = (sink.clone(), attempt.spec.log_max);
        // The queue to the log thread is fair and this task is the first in it.
        spawn_local(async move { opened.0.open(path, opened.1).await });
        match result {
            Ok(begun) => {
                attempt.begin(begun.process().clone(), now);
                if let Begun::Process(started) = &begun {
                    let has_groups = self.crew.processes().is_some_and(|crew| crew.has_groups);
                    note_group(attempt, started, has_groups);
                }
                self.state.beat_at = self.state.beat_at.min(now + STARTED_TOLD_AFTER);
                listen(attempt, begun, sink, &self.events, now);
            }
            Err(error) => self.not_started(fence, error, now),
        }
    }

    fn not_started(&mut self, fence: Fence, error: StartError, now: Instant) {
        let Some(attempt) = self.state.attempts.get_mut(&fence) else { return };
        let (outcome, why) = match error {
            StartError::Superseded => {
                attempt.stop(StopWord::Superseded, now);
                (Outcome::Released, "it was given up before it started".to_owned())
            }
            StartError::Command(why) => (Outcome::Fatal, why),
            StartError::Limit(why) => (Outcome::Retryable, why),
            // No fault of the task's: it goes back unharmed, and the host gets a rest.
            StartError::Host(why) => {
                tracing::error!(%fence, pause = ?HURT_PAUSE, "this host cannot start a handler: {why}");
                self.state.hurt_until = now + HURT_PAUSE;
                (Outcome::Released, why)
            }
        };
        if let Some(sink) = attempt.sink.clone() {
            let note = format!("midwatch: {why}\n");
            spawn_local(async move { sink.note(note).await });
        }
        attempt.failed(outcome, why);
        self.close(fence);
    }

    /// A line of an attempt's control channel.
    pub(super) fn asked(&mut self, fence: Fence, asked: Asked) {
        let (line, reply) = asked;
        let Some(attempt) = self.state.attempts.get_mut(&fence) else { return };
        match attempt.take(line.request) {
            Reaction::Answer(answer) => drop(reply.send(answer.marked(line.id))),
            Reaction::Checkpoint(data) => {
                let Some(worker) = self.state.worker else {
                    attempt.is_saving = false;
                    let why = "the lease is no longer valid".to_owned();
                    let answer = Answer::refused(why, attempt.tell());
                    drop(reply.send(answer.marked(line.id)));
                    return;
                };
                let request = CheckpointRequest { lease: attempt.proof(), data };
                let (link, events) = (Rc::clone(&self.link), self.events.clone());
                let id = line.id;
                spawn_local(async move {
                    let answer = link.checkpoint(worker, &request).await;
                    let event = Event::Checkpointed { fence, answer, id, reply };
                    report(&events, event).await;
                });
            }
        }
    }

    /// The engine answered a checkpoint; the handler learns what became of it.
    pub(super) fn checkpointed(
        &mut self,
        fence: Fence,
        answer: Result<Checkpointed, ClientError>,
        now: Instant,
    ) -> Option<Answer> {
        let attempt = self.state.attempts.get_mut(&fence)?;
        attempt.is_saving = false;
        match answer {
            Ok(Checkpointed { seq, stop }) => {
                if let Some(word) = stop {
                    attempt.stop(word, now);
                }
                Some(Answer::done(Some(seq), attempt.tell()))
            }
            Err(ClientError::Problem(problem)) => {
                if matches!(problem.code, Code::StaleLease | Code::NoSuchTask) {
                    attempt.stop(StopWord::Superseded, now);
                }
                let answer = Answer::refused(problem.detail.clone(), attempt.tell());
                if problem.code == Code::NoSuchWorker {
                    self.forgotten(now);
                }
                Some(answer)
            }
            Err(error) => Some(Answer::refused(error.to_string(), attempt.tell())),
        }
    }

    pub(super) fn source_closed(&mut self, fence: Fence) {
        if let Some(attempt) = self.state.attempts.get_mut(&fence) {
            attempt.sources_open = attempt.sources_open.saturating_sub(1);
        }
    }

    /// The leader of an attempt has ended. It is not reaped yet: its pid must stay taken until
    /// what it left is gone.
    pub(super) fn leader_ended(&mut self, fence: Fence, now: Instant) {
        let Some(attempt) = self.state.attempts.get_mut(&fence) else { return };
        let Some(pid) = attempt.process.as_ref().and_then(|process| pid(process.pid)) else {
            return;
        };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let exit = match rustix::process::waitid(WaitId::Pid(pid), options) {
            Ok(Some(status)) => status
                .exit_status()
                .map(Exit::Code)
                .or_else(|| status.terminating_signal().map(Exit::Signal)),
            Ok(None) => None,
            Err(error) => {
                tracing::error!(%fence, %error, "the end of the handler was stolen");
                None
            }
        };
        attempt.ended(exit.unwrap_or(Exit::Signal(Signal::KILL.as_raw())), now);
    }

    /// Sends the signals that are due and moves the attempts on as far as they can go.
    pub(super) fn look_at_attempts(&mut self, now: Instant) {
        let fences: Vec<Fence> = self.state.attempts.keys().copied().collect();
        for fence in fences {
            if let Some(attempt) = self.state.attempts.get_mut(&fence)
                && let Some(push) = attempt.due(now)
            {
                let signals: &[Signal] = match push {
                    // A stopped process would not see the first one.
                    Push::Terminate => &[Signal::TERM, Signal::CONT],
                    Push::Kill => &[Signal::KILL],
                };
                tracing::info!(%fence, ?push, "stopping the handler");
                signal_group(attempt, signals);
            }
            while self.move_on(fence, now) {}
        }
    }

    /// Moves one attempt a phase on; false when it has to wait.
    fn move_on(&mut self, fence: Fence, now: Instant) -> bool {
        let is_hurried = self.state.over_at.is_some();
        let Some(attempt) = self.state.attempts.get_mut(&fence) else { return false };
        let is_read = attempt.sources_open == 0;
        match attempt.phase {
            Phase::Starting | Phase::Running | Phase::Logging => false,
            Phase::Draining(until) => {
                let over = is_read || until <= now || is_hurried || attempt.is_superseded();
                over && self.kill_what_is_left(fence, now)
            }
            Phase::Killing { again, .. } => again <= now && self.kill_what_is_left(fence, now),
            Phase::Closing(until) => {
                // A checkpoint of a live lease keeps its place before the end.
                let given_up = until <= now && (!attempt.is_saving || attempt.is_superseded());
                if is_read || given_up {
                    self.close(fence);
                }
                false
            }
        }
    }

    /// Kills what an attempt's leader left behind. True once nothing of it lives, and then the
    /// leader is reaped. [PRC-040]
    fn kill_what_is_left(&mut self, fence: Fence, now: Instant) -> bool {
        let is_sole = self.state.attempts.len() == 1;
        let leaders = self.state.attempts.values().filter_map(|attempt| attempt.process.as_ref());
        let leaders: BTreeSet<u32> = leaders.map(|process| process.pid).collect();
        let adoption = self.crew.processes().map(|crew| crew.adoption);
        let reaper = adoption.and_then(Adoption::parent);
        let has_orphans = adoption.is_some_and(Adoption::any);
        let Some(attempt) = self.state.attempts.get_mut(&fence) else { return false };
        let may_have_left = has_orphans || attempt.group.as_deref().is_some_and(may_live);
        let look = if may_have_left {
            attempt.mark(reaper, leaders, is_sole).look()
        } else {
            Ok(Look::default())
        };
        match look {
            Ok(look) if look.is_clear() || (look.shows_nothing() && attempt.is_long_quiet(now)) => {
                reap(attempt);
                attempt.all_gone(now);
                true
            }
            Ok(look) => {
                if !look.shows_nothing() {
                    attempt.is_not_quiet();
                    kill(attempt, &look.found);
                }
                attempt.look_again(now);
                false
            }
            Err(error) => {
                tracing::error!(%fence, %error, "cannot look for what the handler left");
                attempt.look_again(now);
                false
            }
        }
    }

    /// Ends an attempt's log; its end is reported once that is written.
    fn close(&mut self, fence: Fence) {
        let Some(attempt) = self.state.attempts.get_mut(&fence) else { return };
        attempt.phase = Phase::Logging;
        for reader in attempt.readers.drain(..) {
            reader.abort();
        }
        let (sink, events) = (attempt.sink.clone(), self.events.clone());
        let run_dir = self.run_dir.clone();
        spawn_local(async move {
            if let Some(sink) = sink {
                sink.close(run_dir, LOG_WITHIN).await;
            }
            report(&events, Event::LogClosed(fence)).await;
        });
    }

    /// Nothing of an attempt is left to be done but to report its end.
    pub(super) fn log_closed(&mut self, fence: Fence) {
        let Some(attempt) = self.state.attempts.remove(&fence) else { return };
        if let Some(end) = attempt.end() {
            tracing::debug!(task = %end.lease.task, %fence, outcome = %end.outcome,
                error = end.error.as_deref().unwrap_or_default(), "end");
            self.state.ends.push_back(end);
        } else {
            tracing::warn!(task = %attempt.lease.task, %fence, "superseded: not reported");
        }
    }
}

/// Reads what the handler of an attempt says and prints, and waits for the end of its leader.
fn listen(attempt: &mut Attempt, begun: Begun, sink: Sink, events: &Events, now: Instant) {
    let fence = attempt.lease.fence;
    let readers = match begun {
        Begun::Process(started) => {
            attempt.autogroup = started.autogroup;
            if let Err(error) = events::watch_leader(started.pidfd, fence, events) {
                tracing::error!(%fence, %error, "cannot wait for the handler");
                attempt.stop(StopWord::Superseded, now);
            }
            let last = Some(attempt.last_line.clone());
            vec![
                spawn_local(speak(started.control, fence, events.clone())),
                spawn_local(pump(sink.clone(), started.stdout, None, events.clone())),
                spawn_local(pump(sink, started.stderr, last, events.clone())),
            ]
        }
        Begun::Thread(started) => vec![
            spawn_local(speak(started.control, fence, events.clone())),
            spawn_local(pump(sink, started.output.into(), None, events.clone())),
        ],
    };
    attempt.sources_open = u32::try_from(readers.len()).unwrap_or(0);
    attempt.readers = readers.iter().map(JoinHandle::abort_handle).collect();
}

/// Reads one pipe of a handler to its end.
async fn pump(sink: Sink, pipe: OwnedFd, last: Option<LastLine>, events: Events) {
    let fence = sink.fence();
    if let Err(error) = sink.pump(pipe, last).await {
        tracing::warn!(%fence, %error, "cannot read the output of the handler");
    }
    report(&events, Event::SourceClosed(fence)).await;
}

/// Speaks with one handler until no process holds its end of the channel.
async fn speak(stream: UnixStream, fence: Fence, events: Events) {
    match Channel::new(stream) {
        Ok(mut channel) => {
            if let Err(error) = converse(&mut channel, fence, &events).await {
                tracing::warn!(%fence, %error, "the control channel broke");
            }
        }
        Err(error) => tracing::error!(%fence, %error, "cannot open the control channel"),
    }
    report(&events, Event::SourceClosed(fence)).await;
}

async fn converse(channel: &mut Channel, fence: Fence, events: &Events) -> std::io::Result<()> {
    while let Some(line) = channel.next().await? {
        let (reply, answer) = oneshot::channel();
        report(events, Event::Asked { fence, asked: (line, reply) }).await;
        let Ok(answer) = answer.await else { break };
        channel.answer(&answer);
    }
    Ok(())
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Signals the group of a leader that has not been reaped, so the number is still its own.
fn signal_group(attempt: &Attempt, signals: &[Signal]) {
    let Some(group) = attempt.process.as_ref().and_then(|process| pid(process.pid)) else { return };
    for signal in signals {
        if let Err(error) = rustix::process::kill_process_group(group, *signal) {
            tracing::warn!(fence = %attempt.lease.fence, %error, "cannot signal the handler");
        }
    }
}

fn kill(attempt: &mut Attempt, found: &[Found]) {
    signal_group(attempt, &[Signal::KILL]);
    if let Some(Err(error)) = attempt.group.as_deref().map(group::kill) {
        tracing::warn!(fence = %attempt.lease.fence, %error, "cannot kill its control group");
    }
    let mut note = Vec::new();
    for process in found {
        if let Err(error) = process.kill() {
            tracing::warn!(pid = process.pid, %error, "cannot kill what a handler left");
        }
        if attempt.named.insert(process.pid) {
            let (pid, name) = (process.pid, &process.name);
            note.push(format!("midwatch: killed leftover process {pid} ({name})\n"));
        }
    }
    if let Some(sink) = attempt.sink.clone().filter(|_| !note.is_empty()) {
        spawn_local(async move { sink.note(note.concat()).await });
    }
}

/// Notes the control group that a handler has entered, if it has.
fn note_group(attempt: &mut Attempt, started: &Started, has_groups: bool) {
    attempt.group.clone_from(&started.group);
    if started.memory_is_counted {
        attempt.memory = Memory::Counted;
    }
    if has_groups && attempt.group.is_none() {
        let fence = attempt.lease.fence;
        tracing::warn!(%fence, "it could not enter a control group, and runs without");
    }
}

/// Whether something of a group may live; what cannot be told is looked for.
fn may_live(group: &Path) -> bool {
    group::is_populated(group).unwrap_or(true)
}

/// Takes the end of a leader of which nothing is left, and what the kernel counted for it.
fn reap(attempt: &mut Attempt) {
    let Some(pid) = attempt.process.as_ref().map(|process| process.pid) else { return };
    let fence = attempt.lease.fence;
    match process::reap(pid) {
        Ok(used) => {
            attempt.usage =
                used.map(|used| Usage { peak_memory: used.peak_memory, cpu_ms: used.cpu });
        }
        Err(error) => tracing::warn!(%fence, %error, "cannot reap the handler"),
    }
    let Some(group) = &attempt.group else { return };
    let counted = group::counted(group);
    if attempt.memory == Memory::Counted && 0 < counted.oom_kills {
        attempt.memory = Memory::Exhausted;
    }
    if let Some(usage) = &mut attempt.usage {
        usage.peak_memory = counted.peak_memory.unwrap_or(usage.peak_memory);
        // What nobody waited for is in the group's figure alone.
        usage.cpu_ms = usage.cpu_ms.max(counted.cpu.unwrap_or_default());
    }
    if let Err(error) = group::remove(group) {
        tracing::warn!(%fence, %error, "its control group stays until its claim goes");
    }
}
