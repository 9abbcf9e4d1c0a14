//! One attempt: from its lease to its end, as data. The duty moves it; nothing here waits.

use super::control::{Answer, Line, Request};
use super::handler::HandlerSpec;
use super::outcome::{self, Exit, Facts, Means, Memory, Word};
use super::output::{LastLine, Sink};
use super::stopping::{Graces, Push, Stopping};
use crate::api::{End, Hold, InputDigest, Lease, LeaseProof, ProcessId, Progress, StopWord, Usage};
use crate::kernel::ids::Millis;
use crate::kernel::status::Outcome;
use crate::process::Mark;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// How long the leader's descendants may hold its output open after it ended.
const DRAIN: Duration = Duration::from_secs(1);

/// How long what is left in pipes and channel may take once nobody can add to it.
const CLOSE: Duration = Duration::from_secs(2);

/// How long looks that find nothing and prove nothing are repeated. Less than a sweep does, since
/// for a sub-reaper a look is unsettled only by an orphan that just ended or is in an exec.
const UNSETTLED: Duration = Duration::from_millis(250);

/// First and longest pause between two looks for what was killed.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_LONGEST: Duration = Duration::from_secs(1);

/// Where an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its handler is about to start.
    Starting,
    /// Its leader runs.
    Running,
    /// The leader ended; its output is read to the end, until then at the latest.
    Draining(Instant),
    /// What it left is being killed; the next look is then.
    Killing { again: Instant, pause: Duration },
    /// Nothing of it lives; what it wrote is read to the end, until then at the latest.
    Closing(Instant),
    /// Its log is being written to the end.
    Logging,
}

/// What an attempt runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// A process of its own, which leads a session of its own.
    Process,
    /// A thread of the worker.
    Thread,
}

/// What a line on the control channel leads to.
#[derive(Debug)]
pub(super) enum Reaction {
    /// An answer at once.
    Answer(Answer),
    /// An answer once the engine has this checkpoint.
    Checkpoint(Box<RawValue>),
}

/// One attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) lease: Lease,
    pub(super) spec: HandlerSpec,
    /// Store, task and fence: what its processes bear in their environment.
    pub(super) token: String,
    pub(super) phase: Phase,
    pub(super) ground: Ground,
    /// Its leader; none on a thread.
    pub(super) process: Option<ProcessId>,
    /// The worker, for an attempt on one of its threads.
    host: Option<ProcessId>,
    pub(super) autogroup: Option<u64>,
    /// Its control group, where it has one.
    pub(super) group: Option<PathBuf>,
    /// How its memory is bounded.
    pub(super) memory: Memory,
    /// What it used, once its leader was reaped.
    pub(super) usage: Option<Usage>,
    pub(super) sink: Option<Sink>,
    /// The tasks that read its pipes and its channel.
    pub(super) readers: Vec<AbortHandle>,
    pub(super) last_line: LastLine,
    /// Pipes and channel that have not reached their end.
    pub(super) sources_open: u32,
    /// A checkpoint waits for the engine.
    pub(super) is_saving: bool,
    pub(super) named: BTreeSet<u32>,
    /// Since when looks have found nothing and proven nothing.
    quiet_since: Option<Instant>,
    stopping: Option<Stopping>,
    spoke: bool,
    progress: Option<Progress>,
    result: Option<Box<RawValue>>,
    word: Option<Word>,
    timeout_at: Option<Instant>,
    /// When its handler began, and how long it ran.
    began: Option<Instant>,
    ran: Option<Millis>,
    exit: Option<Exit>,
    /// Why its handler did not start.
    failure: Option<(Outcome, String)>,
}

impl Attempt {
    pub(super) fn new(lease: Lease, spec: HandlerSpec, ground: Ground, store: &str) -> Self {
        Self {
            token: format!("{store}:{}:{}", lease.task, lease.fence),
            lease,
            spec,
            phase: Phase::Starting,
            ground,
            process: None,
            host: None,
            autogroup: None,
            group: None,
            memory: Memory::default(),
            usage: None,
            sink: None,
            readers: Vec::new(),
            last_line: LastLine::default(),
            sources_open: 0,
            is_saving: false,
            named: BTreeSet::new(),
            quiet_since: None,
            stopping: None,
            spoke: false,
            progress: None,
            result: None,
            word: None,
            timeout_at: None,
            began: None,
            ran: None,
            exit: None,
            failure: None,
        }
    }

    /// Its handler cannot start.
    pub(super) fn failed(&mut self, outcome: Outcome, why: String) {
        self.failure = Some((outcome, outcome::shorten(why)));
        self.phase = Phase::Logging;
    }

    pub(super) fn proof(&self) -> LeaseProof {
        proof(&self.lease)
    }

    pub(super) fn hold(&self) -> Hold {
        let process = self.process.clone().or_else(|| self.host.clone());
        Hold { lease: self.proof(), process, progress: self.progress.clone() }
    }

    /// Its leader runs from now on, or a thread of the worker does.
    pub(super) fn begin(&mut self, process: ProcessId, now: Instant) {
        match self.ground {
            Ground::Process => self.process = Some(process),
            Ground::Thread => self.host = Some(process),
        }
        self.phase = Phase::Running;
        self.began = Some(now);
        self.timeout_at = self.lease.timeout_ms.map(|limit| now + limit.duration());
    }

    /// Its leader has ended.
    pub(super) fn ended(&mut self, exit: Exit, now: Instant) {
        self.exit = Some(exit);
        let ran = self.began.map(|began| now.saturating_duration_since(began).as_millis());
        self.ran = ran.map(|ran| Millis(u64::try_from(ran).unwrap_or(u64::MAX)));
        self.timeout_at = None;
        self.phase = Phase::Draining(now + DRAIN);
    }

    /// Its thread has come back, with an error or without.
    pub(super) fn returned(&mut self, error: Option<Word>, now: Instant) {
        self.word = error.or_else(|| self.word.take());
        self.ended(Exit::Returned, now);
    }

    /// What it left was looked for and is still there; when to look again.
    pub(super) fn look_again(&mut self, now: Instant) {
        let pause = match self.phase {
            Phase::Killing { pause, .. } => (pause * 2).min(LOOK_LONGEST),
            _ => LOOK_FIRST,
        };
        self.phase = Phase::Killing { again: now + pause, pause };
    }

    /// A look found nothing and proved nothing; whether that has been so for long enough.
    pub(super) fn is_long_quiet(&mut self, now: Instant) -> bool {
        UNSETTLED <= now - *self.quiet_since.get_or_insert(now)
    }

    /// A look found something.
    pub(super) fn is_not_quiet(&mut self) {
        self.quiet_since = None;
    }

    /// Nothing of it lives any more.
    pub(super) fn all_gone(&mut self, now: Instant) {
        self.phase = Phase::Closing(now + CLOSE);
    }

    /// Waits for the checkpoint under way no longer, now that nothing of it lives; whether it did
    /// wait.
    pub(super) fn give_up_saving(&mut self) -> bool {
        matches!(self.phase, Phase::Closing(_)) && std::mem::take(&mut self.is_saving)
    }

    /// Lets go a thread that waits for an engine which does not come back: no signal can wake it,
    /// but the end of its channel does.
    pub(super) fn hang_up(&mut self) {
        if self.ground == Ground::Thread && self.is_saving {
            self.readers.drain(..).for_each(|reader| reader.abort());
        }
    }

    pub(super) fn is_superseded(&self) -> bool {
        self.stopping.as_ref().is_some_and(|stopping| stopping.word() == StopWord::Superseded)
    }

    /// An order to stop it.
    pub(super) fn stop(&mut self, word: StopWord, now: Instant) {
        let grace = Graces { cancel: self.lease.cancel_grace_ms, kill: self.lease.kill_grace_ms };
        match &mut self.stopping {
            Some(stopping) => stopping.order_again(word, now),
            None if self.ground == Ground::Thread => self.stopping = Some(Stopping::ask(word)),
            None => self.stopping = Some(Stopping::order(word, self.spoke, now, grace)),
        }
        if word != StopWord::Shutdown {
            self.timeout_at = None;
        }
    }

    /// Ends the graces of a stop that was ordered.
    pub(super) fn hurry(&mut self, now: Instant) {
        if let Some(stopping) = &mut self.stopping {
            stopping.hurry(now);
        }
    }

    /// The signal that is due now, while there is a leader to get it.
    pub(super) fn due(&mut self, now: Instant) -> Option<Push> {
        if self.phase != Phase::Running {
            return None;
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.stop(StopWord::Timeout, now);
        }
        self.stopping.as_mut()?.due(now)
    }

    /// When it next needs a look without anything having happened.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.phase {
            Phase::Starting | Phase::Logging => None,
            Phase::Running => {
                let stop = self.stopping.as_ref().and_then(Stopping::next);
                [stop, self.timeout_at].into_iter().flatten().min()
            }
            Phase::Killing { again, .. } => Some(again),
            Phase::Draining(until) => Some(until),
            // A checkpoint may wait for the engine as long as that is away.
            Phase::Closing(until) => (!self.is_saving).then_some(until),
        }
    }

    /// The order that the next answer carries. Whether a handler that has ended would have obeyed
    /// it cannot be known.
    pub(super) fn tell(&mut self) -> Option<StopWord> {
        let stopping = self.stopping.as_mut()?;
        Some(if self.exit.is_none() { stopping.tell() } else { stopping.word() })
    }

    /// Takes a line of the control channel.
    pub(super) fn take(&mut self, line: Result<Request, String>) -> Reaction {
        self.spoke = true;
        let seq = None;
        match line {
            Ok(Request::Checkpoint(data)) => {
                self.is_saving = true;
                return Reaction::Checkpoint(data);
            }
            Ok(Request::Progress(progress)) => self.progress = Some(progress),
            Ok(Request::Result(data)) => {
                self.result = Some(data);
                self.word = Some(Word::Result);
            }
            Ok(Request::Error { message, retryable }) => {
                self.word = Some(Word::Error { message, retryable });
            }
            Ok(Request::Poll) => {}
            Err(why) => return Reaction::Answer(Answer::refused(why, self.tell())),
        }
        Reaction::Answer(Answer::done(seq, self.tell()))
    }

    /// By what its processes are known. `leaders` are those of all attempts; when there is no
    /// other attempt, every orphan of the worker must be its.
    pub(super) fn mark(&self, reaper: Option<u32>, leaders: BTreeSet<u32>, is_sole: bool) -> Mark {
        let mut mark = Mark::by_token(&self.token);
        mark.leader.clone_from(&self.process);
        mark.autogroup = self.autogroup;
        mark.group.clone_from(&self.group);
        mark.reaper = reaper;
        mark.has_all_orphans = is_sole;
        mark.spared = leaders;
        mark
    }

    /// The record of its end; `None` for one that nobody is to hear of.
    pub(super) fn end(&self) -> Option<End> {
        if self.is_superseded() {
            return None;
        }
        if let Some((outcome, why)) = &self.failure {
            return Some(unstarted(&self.lease, *outcome, Some(why.clone())));
        }
        let exit = self.exit?;
        let last_line = self.last_line.text();
        let (outcome, error) = outcome::decide(&Facts {
            exit,
            word: self.word.as_ref(),
            stop: self.stopping.as_ref().and_then(Stopping::delivered),
            spec: &self.spec,
            last_line: &last_line,
            breach: self.breach(exit).as_deref(),
        });
        let (exit_code, signal) = match exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(number) => (None, Some(number)),
            Exit::Returned => (None, None),
        };
        Some(End {
            lease: self.proof(),
            outcome,
            started: true,
            exit_code,
            signal,
            result: self.result.clone(),
            error,
            usage: self.usage,
            ran_ms: self.ran,
            input: Some(InputDigest::of(self.lease.payload.get())),
        })
    }

    fn breach(&self, exit: Exit) -> Option<String> {
        let means = Means { limits: &self.spec.limits, usage: self.usage, memory: self.memory };
        outcome::breach(exit, &means)
    }
}

/// Names a lease and proves that it is ours.
pub(super) fn proof(lease: &Lease) -> LeaseProof {
    LeaseProof { task: lease.task, fence: lease.fence, secret: lease.secret.clone() }
}

/// The end of a lease whose handler never started.
pub(super) fn unstarted(lease: &Lease, outcome: Outcome, error: Option<String>) -> End {
    End {
        lease: proof(lease),
        outcome,
        started: false,
        exit_code: None,
        signal: None,
        result: None,
        error,
        usage: None,
        ran_ms: None,
        input: None,
    }
}

/// A line that waits for its answer.
pub(super) type Asked = (Line, tokio::sync::oneshot::Sender<Answer>);
