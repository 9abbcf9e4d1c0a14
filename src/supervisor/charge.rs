//! A child that is looked after: its process while it runs, and the care for it.

use super::child::{Process, Sign};
use super::policy::{Care, News, Now};
use rustix::process::{Pid, Signal, WaitStatus};
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Which of the two a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Engine,
    Worker,
}

impl Role {
    /// The subcommand it is started with.
    const fn word(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Worker => "worker",
        }
    }
}

/// One child, running or not.
#[expect(clippy::struct_excessive_bools, reason = "three independent things to know of it")]
#[derive(Debug)]
pub(crate) struct Charge {
    /// `engine`, or the worker's name.
    name: String,
    role: Role,
    args: Vec<OsString>,
    care: Care,
    process: Option<Process>,
    /// The other end of its probe pipe is open.
    listening: bool,
    /// It has begun to do its work.
    ready: bool,
    /// It was asked to read the config, and has not said that it did.
    reloading: bool,
    /// How it ended last, in words.
    last_end: String,
}

impl Charge {
    /// A child that has yet to be started.
    pub(crate) const fn new(name: String, role: Role, args: Vec<OsString>, care: Care) -> Self {
        Self {
            name,
            role,
            args,
            care,
            process: None,
            listening: false,
            ready: false,
            reloading: false,
            last_end: String::new(),
        }
    }

    pub(crate) const fn is_running(&self) -> bool {
        self.process.is_some()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it does its work.
    pub(crate) const fn is_ready(&self) -> bool {
        self.ready && self.process.is_some()
    }

    /// How it ended last, if it keeps ending.
    pub(crate) fn parked(&self) -> Option<&str> {
        self.care.is_parked().then_some(&*self.last_end)
    }

    /// Whether it was heard of so lately that nothing speaks against it.
    pub(crate) fn is_fresh(&self, now: Now) -> bool {
        self.care.is_fresh(now)
    }

    /// Whether it has still to read the config.
    pub(crate) const fn is_reloading(&self) -> bool {
        self.reloading
    }

    pub(crate) const fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn is_pid(&self, pid: Pid) -> bool {
        self.process.as_ref().is_some_and(|process| process.pid() == pid)
    }

    /// When something must be done if nothing happens before: always while it runs, otherwise only
    /// if it may be started.
    pub(crate) fn next_wake(&self, may_start: bool) -> Option<Now> {
        if self.is_running() || may_start { self.care.next_wake() } else { None }
    }

    /// Its process, if there is something to listen to.
    pub(crate) fn listening(&self) -> Option<&Process> {
        self.process.as_ref().filter(|_| self.listening)
    }

    /// Starts it when it is time; what cannot be started has crashed.
    pub(crate) fn start_if_due(&mut self, program: &Path, now: Now) {
        if self.is_running() || !self.care.is_due(now) {
            return;
        }
        match Process::start(program, self.role.word(), &self.args) {
            Ok(process) => {
                tracing::info!(name = self.name, pid = process.pid().as_raw_nonzero(), "started");
                self.care.started(now);
                (self.listening, self.ready) = (true, false);
                self.process = Some(process);
            }
            Err(error) => {
                self.crashed(&format!("cannot be started: {}: {error}", program.display()), now);
            }
        }
    }

    /// Tells it a line, if it runs.
    pub(crate) fn tell(&self, line: &str) {
        if let Some(process) = &self.process {
            process.tell(line);
        }
    }

    /// Takes the signs of life that have come, and says what they come to.
    pub(crate) fn listen(&mut self, now: Now) -> Stir {
        let Some(process) = self.listening() else { return Stir::None };
        let heard = process.listen();
        self.listening = heard.open;
        self.reloading &= !heard.reloaded;
        let news = match heard.sign {
            Sign::None => return Stir::None,
            Sign::Life => {
                self.care.stirred(now);
                return Stir::Starting;
            }
            Sign::Work => self.care.heard(now),
        };
        match news {
            Some(News::Ready) => {
                tracing::info!(name = self.name, "ready");
                self.ready = true;
                return Stir::Ready;
            }
            Some(News::Recovered) => tracing::info!(name = self.name, "recovered, and stays up"),
            Some(News::Restarting(_) | News::Parked(_)) | None => {}
        }
        Stir::None
    }

    /// Kills it if it has been silent for too long. Its end comes by `wait`, like any other.
    pub(crate) fn kill_if_silent(&mut self, now: Now) {
        if self.care.is_overdue(now) {
            tracing::warn!(name = self.name, "no sign of life: killing it");
            self.signal(Signal::KILL);
        }
    }

    /// Sends a signal to it, if it runs.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }

    /// Has it reload its configuration. One that is not ready may not have its handler either,
    /// and reads the configuration as it is now. One that kept ending gets a fresh chance.
    pub(crate) fn reload(&mut self, now: Now) {
        self.care.forgive(now);
        if self.is_ready() {
            self.reloading = true;
            self.signal(Signal::HUP);
        }
    }

    /// It ended as it was asked to; it is not started again.
    pub(crate) fn stopped(&mut self, end: WaitStatus) {
        (self.process, self.reloading) = (None, false);
        tracing::info!(name = self.name, end = %End(end), "stopped");
    }

    /// It ended unasked, with a word why; it is started again when the care for it says so.
    pub(crate) fn crashed(&mut self, end: &str, now: Now) {
        (self.process, self.reloading) = (None, false);
        end.clone_into(&mut self.last_end);
        let news = self.care.ended(now);
        let (name, crashes) = (&self.name, self.care.crashes());
        match news {
            Some(News::Restarting(wait)) if wait.is_zero() => {
                tracing::warn!(name, "{end}; starting it again");
            }
            Some(News::Restarting(wait)) => {
                tracing::warn!(
                    name,
                    crashes,
                    "{end}; starting it again in {} ms",
                    wait.as_millis()
                );
            }
            Some(News::Parked(wait)) => tracing::error!(
                name,
                crashes,
                "{end}; it keeps ending, so from now on it is tried every {} ms, in silence until \
                 it stays up",
                wait.as_millis(),
            ),
            Some(News::Ready | News::Recovered) | None => {
                tracing::debug!(name, crashes, "{end}");
            }
        }
    }

    /// The supervisor came late by `span`; the silence meanwhile is excused.
    pub(crate) fn excuse(&mut self, span: Duration) {
        self.care.excuse(span);
    }
}

/// What the signs of a child come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stir {
    /// Nothing new.
    None,
    /// It lives, and gets ready.
    Starting,
    /// It does its work from now on.
    Ready,
}

/// How a process ended, in words.
pub(crate) struct End(pub(crate) WaitStatus);

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.exit_status(), self.0.terminating_signal()) {
            (Some(code), _) => write!(f, "ended with exit code {code}"),
            (None, Some(9)) => f.write_str("was killed (signal 9, SIGKILL)"),
            (None, Some(signal)) => write!(f, "was killed by signal {signal}"),
            (None, None) => f.write_str("ended in a way unknown"),
        }
    }
}
