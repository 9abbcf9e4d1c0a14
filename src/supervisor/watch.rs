//! The loop: wait for something to happen, then do what the rules say.

use super::charge::{Charge, End, Role, Stir};
use super::notify::Notify;
use super::policy::{Care, Now, Stops, Urge};
use super::sys::{self, Signals};
use super::{SupervisorError, SupervisorOptions};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};
use rustix::time::Timespec;
use std::collections::BTreeSet;
use std::time::Duration;

/// A loop that comes so late was stopped or starved; the children's silence meanwhile is excused.
const LATE_AFTER: Duration = Duration::from_secs(1);

/// Exit code of an engine that found damage: starting it again would change nothing.
const DAMAGE: u8 = 6;
/// Exit codes of an engine whose configuration is bad, or whose data directory is in use. Before
/// the first one has served, neither passes by itself; later somebody is changing the file, and
/// who is in the way can only be the predecessor, on its way out.
const AT_FIRST: [u8; 2] = [2, 7];

/// How far the supervisor's own life has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Everything is kept running.
    Serving,
    /// Workers drain; then the engine is stopped; then the supervisor ends with this code.
    Stopping {
        code: u8,
        /// The engine has still to serve the workers that drain.
        engine_wanted: bool,
    },
}

/// The supervisor at work.
#[derive(Debug)]
pub(crate) struct Watch {
    options: SupervisorOptions,
    signals: Signals,
    notify: Notify,
    engine: Charge,
    workers: Vec<Charge>,
    stage: Stage,
    stops: Stops,
    /// The engine has served, since this supervisor began.
    has_served: bool,
    begun: Duration,
    /// When the init system is to be told next that all is well.
    next_sign: Option<Now>,
    /// The init system was told that the config is being read, and waits to hear that it was.
    reloading: bool,
    /// What the init system was last told in words.
    status: String,
    /// Names of the parked workers that the engine was told of.
    told: BTreeSet<String>,
}

impl Watch {
    /// Takes over the signals and children of this process. Starts nothing yet.
    pub(crate) fn begin(mut options: SupervisorOptions) -> Result<Self, SupervisorError> {
        let failed = |doing| move |source| SupervisorError { doing, source };
        let signals = Signals::take().map_err(failed("take over its signals"))?;
        if let Err(error) = sys::close_on_exec_above_2() {
            tracing::warn!(%error, "descriptors this process was started with reach its children");
        }
        set_child_subreaper(Some(getpid()))
            .map_err(|error| failed("become the reaper of orphans")(error.into()))?;
        let notify = Notify::open(options.notify_socket.as_ref())
            .map_err(failed("reach the init system at NOTIFY_SOCKET"))?;
        let care = Care::new(options.pace, Now::ZERO);
        let engine_args = std::mem::take(&mut options.engine_args);
        let specs = std::mem::take(&mut options.workers).into_iter();
        let workers =
            specs.map(|spec| Charge::new(spec.name, Role::Worker, spec.args, care.clone()));
        Ok(Self {
            workers: workers.collect(),
            engine: Charge::new("engine".to_owned(), Role::Engine, engine_args, care),
            next_sign: options.watchdog.map(|_| Now::ZERO),
            options,
            signals,
            notify,
            stage: Stage::Serving,
            stops: Stops::default(),
            has_served: false,
            reloading: false,
            status: String::new(),
            told: BTreeSet::new(),
            begun: sys::monotonic(),
        })
    }

    /// Supervises to the end; returns the exit code.
    pub(crate) fn run(mut self) -> Result<u8, SupervisorError> {
        loop {
            let before = self.now();
            self.start_due(before);
            self.tell_alive(before);
            self.tell_the_engine();
            self.tell_what_goes_on();
            let planned = self.next_wake();
            self.wait(before, planned)?;
            let now = self.now();
            let late = planned.map_or(Duration::ZERO, |at| now.saturating_sub(at.max(before)));
            if LATE_AFTER < late {
                self.charges_mut().for_each(|charge| charge.excuse(late));
            }
            self.listen(now);
            self.take_signals(now);
            self.reap(now)?;
            self.charges_mut().for_each(|charge| charge.kill_if_silent(now));
            if self.stops.is_overdue(now) {
                tracing::warn!("killing those that did not hurry");
                self.kill_all();
            }
            if let Some(code) = self.go_on_stopping() {
                return Ok(code);
            }
        }
    }

    fn now(&self) -> Now {
        sys::monotonic().saturating_sub(self.begun)
    }

    fn charges(&self) -> impl Iterator<Item = &Charge> {
        std::iter::once(&self.engine).chain(&self.workers)
    }

    fn charges_mut(&mut self) -> impl Iterator<Item = &mut Charge> {
        std::iter::once(&mut self.engine).chain(&mut self.workers)
    }

    /// Workers that drain still need an engine to report to.
    fn may_start_engine(&self) -> bool {
        match self.stage {
            Stage::Serving => true,
            Stage::Stopping { engine_wanted, .. } => {
                engine_wanted && self.workers.iter().any(Charge::is_running)
            }
        }
    }

    /// Workers wait for an engine that has served once: one that refuses to start says so before
    /// anything else is running.
    const fn may_start_workers(&self) -> bool {
        self.has_served && matches!(self.stage, Stage::Serving)
    }

    fn start_due(&mut self, now: Now) {
        let program = &self.options.program;
        if self.may_start_engine() {
            if !self.engine.is_running() {
                self.told.clear();
            }
            self.engine.start_if_due(program, now);
        }
        if self.may_start_workers() {
            self.workers.iter_mut().for_each(|worker| worker.start_if_due(program, now));
        }
    }

    fn next_wake(&self) -> Option<Now> {
        let (engine, workers) = (self.may_start_engine(), self.may_start_workers());
        let workers = self.workers.iter().filter_map(|worker| worker.next_wake(workers));
        // While the engine is silent its own next sign is what there is to wait for.
        let next_sign = self.next_sign.filter(|_| self.engine.is_fresh(self.now()));
        let all = workers.chain(self.engine.next_wake(engine)).chain(next_sign);
        all.chain(self.stops.next_wake()).min()
    }

    fn wait(&self, now: Now, planned: Option<Now>) -> Result<(), SupervisorError> {
        let Signals { stop, reload, child } = &self.signals;
        let mut fds: Vec<_> = [stop, reload, child]
            .map(|channel| PollFd::new(channel, PollFlags::IN))
            .into_iter()
            .chain(
                self.charges()
                    .filter_map(Charge::listening)
                    .map(|process| PollFd::from_borrowed_fd(process.probe(), PollFlags::IN)),
            )
            .collect();
        // A span too long for the kernel is as good as none.
        let timeout = planned.and_then(|at| Timespec::try_from(at.saturating_sub(now)).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(SupervisorError { doing: "wait for events", source: error.into() }),
        }
    }

    fn listen(&mut self, now: Now) {
        match self.engine.listen(now) {
            Stir::Ready => {
                self.has_served = true;
                self.notify.ready();
            }
            // A journal of any length may be read.
            Stir::Starting if !self.has_served => {
                self.notify.extend(self.options.pace.silent_after);
            }
            Stir::Starting | Stir::None => {}
        }
        for worker in &mut self.workers {
            worker.listen(now);
        }
    }

    fn tell_alive(&mut self, now: Now) {
        let (Some(at), Some(patience)) = (self.next_sign, self.options.watchdog) else { return };
        if at <= now && self.engine.is_fresh(now) {
            self.notify.alive();
            self.next_sign = Some(now.saturating_add(patience / 2));
        }
    }

    /// Tells the engine which workers keep ending, and which no longer do; it tells people.
    fn tell_the_engine(&mut self) {
        if !self.engine.is_running() {
            return;
        }
        for worker in &self.workers {
            match worker.parked() {
                Some(end) if self.told.insert(worker.name().to_owned()) => {
                    self.engine.tell(&format!("parked {} {end}\n", worker.name()));
                }
                None if self.told.remove(worker.name()) => {
                    self.engine.tell(&format!("well {}\n", worker.name()));
                }
                _ => {}
            }
        }
    }

    /// Tells the init system, where that is something new.
    fn tell_what_goes_on(&mut self) {
        if !self.notify.is_open() {
            return;
        }
        if self.reloading && !self.charges().any(Charge::is_reloading) {
            self.reloading = false;
            self.notify.ready();
        }
        let status = self.what_goes_on();
        if status != self.status {
            self.notify.status(&status);
            self.status = status;
        }
    }

    fn what_goes_on(&self) -> String {
        let running = self.workers.iter().filter(|worker| worker.is_running()).count();
        if let Stage::Stopping { .. } = self.stage {
            return match running {
                0 => "stopping: the engine ends".to_owned(),
                n => format!("stopping: {n} workers end"),
            };
        }
        if self.reloading {
            return "reading the config".to_owned();
        }
        let engine = match (self.engine.is_ready(), self.engine.is_running()) {
            (true, _) => "serving",
            (false, true) => "the engine recovers",
            (false, false) => "the engine is to be started",
        };
        let (all, ready) = (self.workers.len(), self.workers.iter().filter(|it| it.is_ready()));
        let mut status = format!("{engine}, {} of {all} workers ready", ready.count());
        for parked in self.charges().filter(|charge| charge.parked().is_some()) {
            status += &format!("; {} keeps ending", parked.name());
        }
        status
    }

    fn take_signals(&mut self, now: Now) {
        // What SIGCHLD has to say is asked of `wait`; here it only ends the poll.
        while self.signals.child.take() {}
        while self.signals.reload.take() {
            self.reload(now);
        }
        while self.signals.stop.take() {
            self.stop(now);
        }
    }

    /// Has all that run read the config, and gives those that keep ending a fresh chance.
    fn reload(&mut self, now: Now) {
        if self.has_served && matches!(self.stage, Stage::Serving) {
            self.reloading = true;
            self.notify.reloading(sys::monotonic());
        }
        self.charges_mut().for_each(|charge| charge.reload(now));
    }

    /// The first call drains, the second has the workers end at once, the third kills all.
    fn stop(&mut self, now: Now) {
        match self.stops.asked(now) {
            Some(Urge::Drain) if matches!(self.stage, Stage::Serving) => {
                tracing::info!("stopping: the workers first, then the engine");
                self.begin_stopping(0, true);
            }
            Some(Urge::Hurry) => {
                tracing::warn!("asked to stop once more: the workers kill what they run");
                self.workers.iter().for_each(|worker| worker.signal(Signal::TERM));
            }
            Some(Urge::Kill) => {
                tracing::warn!("asked to stop yet again: killing all at once");
                self.kill_all();
            }
            Some(Urge::Drain) | None => {}
        }
    }

    fn kill_all(&mut self) {
        if let Stage::Stopping { engine_wanted, .. } = &mut self.stage {
            *engine_wanted = false;
        }
        self.charges().for_each(|charge| charge.signal(Signal::KILL));
    }

    fn begin_stopping(&mut self, code: u8, engine_wanted: bool) {
        self.stage = Stage::Stopping { code, engine_wanted };
        self.reloading = false;
        self.notify.stopping();
        self.workers.iter().for_each(|worker| worker.signal(Signal::TERM));
    }

    /// Stops the engine once no worker needs it; returns the exit code once nobody is left.
    fn go_on_stopping(&mut self) -> Option<u8> {
        let Stage::Stopping { code, engine_wanted } = &mut self.stage else { return None };
        if self.workers.iter().any(Charge::is_running) {
            return None;
        }
        if std::mem::take(engine_wanted) {
            self.engine.signal(Signal::TERM);
        }
        (!self.engine.is_running()).then_some(*code)
    }

    /// Takes the ends of all children, and of the orphans that came to this process.
    fn reap(&mut self, now: Now) -> Result<(), SupervisorError> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, end))) => self.ended(pid, end, now),
                Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return Err(SupervisorError { doing: "reap", source: error.into() });
                }
            }
        }
    }

    fn ended(&mut self, pid: Pid, end: WaitStatus, now: Now) {
        // The last words first: whether it ever spoke tells a refusal from a crash.
        self.listen(now);
        let (stage, refusal) = (self.stage, self.refusal(end));
        let Some(charge) = self.charges_mut().find(|charge| charge.is_pid(pid)) else {
            tracing::debug!(pid = pid.as_raw_nonzero(), end = %End(end), "reaped an orphan");
            return;
        };
        match (charge.role(), stage) {
            (Role::Engine, stage) if let Some(code) = refusal => {
                charge.stopped(end);
                self.engine_refused(code, stage);
            }
            (Role::Worker, Stage::Serving) if end.exit_status() == Some(0) => charge.retired(now),
            (Role::Engine, Stage::Serving | Stage::Stopping { engine_wanted: true, .. })
            | (Role::Worker, Stage::Serving) => charge.crashed(&End(end).to_string(), now),
            (Role::Engine | Role::Worker, Stage::Stopping { .. }) => charge.stopped(end),
        }
    }

    /// The code of an engine that would end in the same way if it were started again.
    fn refusal(&self, end: WaitStatus) -> Option<u8> {
        let code = u8::try_from(end.exit_status()?).ok()?;
        let hopeless = code == DAMAGE || (AT_FIRST.contains(&code) && !self.has_served);
        hopeless.then_some(code)
    }

    /// Nothing is tried again: neither bytes nor configuration would change by it.
    fn engine_refused(&mut self, code: u8, stage: Stage) {
        match stage {
            Stage::Serving => {
                tracing::error!(code, "the engine refuses to start; it said why, so all stops");
                self.begin_stopping(code, false);
            }
            Stage::Stopping { code, .. } => {
                self.stage = Stage::Stopping { code, engine_wanted: false };
            }
        }
    }
}
