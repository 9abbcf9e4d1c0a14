//! One child process and its two pipes.

use super::sys;
use command_fds::{CommandFdExt, FdMapping};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where a child finds its lifeline: the read end of a pipe that ends when the supervisor does.
const LIFELINE_FD: i32 = 3;
/// Where a child writes its signs of life.
const PROBE_FD: i32 = 4;
/// The sign of life of an engine that recovers and does not serve yet; any other says it serves.
const STARTING: u8 = b's';
/// The sign that a reading of the config, which SIGHUP asked for, is done.
const RELOADED: u8 = b'r';
/// Variables of the init system that are meant for the supervisor alone.
const OURS: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// A child that was started and not yet reaped, so that its pid is nobody else's.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    probe: OwnedFd,
    /// Its end is a message, and news of its siblings are another.
    lifeline: OwnedFd,
}

impl Process {
    /// Starts `program ROLE --lifeline FD --probe FD ARGS…` in a process group of its own, so that
    /// a Ctrl-C at the terminal reaches the supervisor alone and the order of stopping is kept.
    ///
    /// The child has descriptors 0 to 2 (0 is empty) and its two pipes, no signal blocked.
    /// The numbers of the pipes are taken in this process (by the signals' descriptors at least),
    /// so that the pipe through which std learns of a failed exec cannot have them.
    pub(crate) fn start(program: &Path, role: &str, args: &[OsString]) -> io::Result<Self> {
        let (lifeline_theirs, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&lifeline, true)?;
        // Neither side may ever wait here: not the child for a supervisor that was stopped for a
        // week, not the supervisor for a child.
        let (probe, probe_theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        #[expect(clippy::disallowed_methods, reason = "engine and worker are no handlers")]
        let mut command = Command::new(program);
        command.arg(role);
        command.args(["--lifeline", &LIFELINE_FD.to_string(), "--probe", &PROBE_FD.to_string()]);
        command.args(args).stdin(Stdio::null()).process_group(0);
        for name in OURS {
            command.env_remove(name);
        }
        command
            .fd_mappings(vec![
                FdMapping { parent_fd: lifeline_theirs, child_fd: LIFELINE_FD },
                FdMapping { parent_fd: probe_theirs, child_fd: PROBE_FD },
            ])
            .map_err(io::Error::other)?;
        #[expect(unsafe_code, reason = "the signal mask is inherited through exec")]
        // SAFETY: unblock_all makes async-signal-safe calls only and allocates nothing.
        unsafe {
            command.pre_exec(sys::unblock_all)
        };
        // Dropping the handle neither waits nor kills; the supervisor reaps by pid.
        let pid = command.spawn()?.id();
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the child has no pid"))?;
        Ok(Self { pid, probe, lifeline })
    }

    /// Its process id.
    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    /// What to poll for signs of life.
    pub(crate) fn probe(&self) -> BorrowedFd<'_> {
        self.probe.as_fd()
    }

    /// Takes all signs of life that have arrived.
    pub(crate) fn listen(&self) -> Heard {
        let mut bytes = [0u8; 512];
        let mut heard = Heard { sign: Sign::None, reloaded: false, open: true };
        loop {
            match rustix::io::read(&self.probe, &mut bytes) {
                Ok(n) if 0 < n => {
                    let works = bytes.iter().take(n).any(|byte| *byte != STARTING);
                    heard.reloaded |= bytes.iter().take(n).any(|byte| *byte == RELOADED);
                    heard.sign = heard.sign.max(if works { Sign::Work } else { Sign::Life });
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return heard,
                Ok(_) | Err(_) => return Heard { open: false, ..heard },
            }
        }
    }

    /// Tells it a line. One that finds no room, or nobody, is no error.
    pub(crate) fn tell(&self, line: &str) {
        if let Err(error) = rustix::io::write(&self.lifeline, line.as_bytes()) {
            tracing::debug!(pid = self.pid.as_raw_nonzero(), %error, "not told: {line}");
        }
    }

    /// Sends a signal. One that does not arrive is no error: the end of the child is on its way.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process(self.pid, signal) {
            tracing::debug!(pid = self.pid.as_raw_nonzero(), ?signal, %error, "no signal sent");
        }
    }
}

/// What a probe pipe held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// The best of the signs.
    pub(crate) sign: Sign,
    /// The config was read, as it was asked to.
    pub(crate) reloaded: bool,
    /// The child still has its end.
    pub(crate) open: bool,
}

/// What a child says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    /// Nothing.
    None,
    /// It lives, and gets ready.
    Life,
    /// It does its work.
    Work,
}
