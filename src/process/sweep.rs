//! The sweep: before a task is leased again, nothing of its earlier attempt lives.

use super::claim::{self, Held};
use super::identity;
use super::scan::{Found, Mark};
use crate::kernel::ids::{Fence, TaskId};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::path::Path;

/// How long a sweep waits for killed processes to be gone. Longer than any healthy kernel takes;
/// one that hangs on a dead disk or network share is reported, and the sweep is to be repeated.
const SWEEP_MS_MAX: u64 = 30_000;

/// How long unsettled looks that find nothing are repeated: when nothing was ever found, and when
/// something was. A descendant would have to slip through each of dozens, or hundreds.
const UNSETTLED_MS_MAX: u64 = 300;
const UNSETTLED_AFTER_KILL_MS_MAX: u64 = 2000;

/// Looks in a row that must show nothing.
const CLEAR_LOOKS_WANTED: u32 = 3;

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Whether the attempt's handler had been started under this boot. False: it never can any
    /// more.
    pub started: bool,
    /// What was still alive and was killed.
    pub killed: Vec<Killed>,
}

/// A process that a sweep killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    /// Its pid.
    pub pid: u32,
    /// The name the kernel showed for it.
    pub name: String,
}

/// Makes sure that the attempt with this fence neither runs nor can start.
///
/// Takes the attempt's name if it is free; otherwise kills whatever bears its mark, until a look
/// at every process finds nothing of it alive. Blocks for that long; zombies count as dead. An
/// attempt of another boot has nothing to kill. Safe to repeat, and to interrupt: the name stays
/// taken. Fails with `TimedOut`, naming the pids, when something does not die.
pub fn sweep(
    run_dir: &Path,
    store: &str,
    task: TaskId,
    fence: Fence,
    boot_id: &str,
) -> io::Result<Swept> {
    let mut mark = Mark::by_token(&format!("{store}:{task}:{fence}"));
    match claim::tombstone(run_dir, fence)? {
        Held::Tombstone => return Ok(Swept::default()),
        Held::Claim { process, .. } | Held::Thread { worker: process }
            if process.boot_id != boot_id =>
        {
            return Ok(Swept::default());
        }
        Held::Claim { process, autogroup } => {
            // A pid of another namespace is not a pid here; the token is what is left.
            if process.pid_namespace == identity::pid_namespace()? {
                mark.leader = Some(process);
                mark.autogroup = autogroup;
            }
        }
        // A thread ends with its worker only; what it started may bear the token.
        Held::Thread { .. } | Held::Unreadable => {}
    }
    Ok(Swept { started: true, killed: kill_until_none_is_left(&mark)? })
}

fn kill_until_none_is_left(mark: &Mark) -> io::Result<Vec<Killed>> {
    let begun = now_ms();
    let mut found_last = begun;
    let mut killed: Vec<Killed> = Vec::new();
    // The list of processes is not made in one instant, and numbers start over some day: a child
    // may be born behind the reader whose parent ends before it. Twice in a row is hard to do.
    let mut clear_looks = 0;
    loop {
        let look = mark.look()?;
        let now = now_ms();
        let limit = if killed.is_empty() { UNSETTLED_MS_MAX } else { UNSETTLED_AFTER_KILL_MS_MAX };
        let is_long_quiet = look.found.is_empty() && found_last + limit < now;
        clear_looks = if look.is_clear() { clear_looks + 1 } else { 0 };
        if is_long_quiet || CLEAR_LOOKS_WANTED <= clear_looks {
            return Ok(killed);
        }
        let found = look.found;
        if !found.is_empty() {
            found_last = now;
        }
        for process in &found {
            process.kill()?;
            let it = Killed { pid: process.pid, name: process.name.clone() };
            if !killed.contains(&it) {
                killed.push(it);
            }
        }
        if begun + SWEEP_MS_MAX < now {
            let pids: Vec<String> = found.iter().map(|process| process.pid.to_string()).collect();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("not gone after SIGKILL: pid {}", pids.join(", ")),
            ));
        }
        if clear_looks == 0 {
            wait_a_little(found.first())?;
        }
    }
}

fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let milliseconds = now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000);
    u64::try_from(milliseconds).unwrap_or(0)
}

/// Waits until the process ends, at most 20 ms; without one, 1 ms.
fn wait_a_little(process: Option<&Found>) -> io::Result<()> {
    let milliseconds = if process.is_some() { 20 } else { 1 };
    let limit = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    let pid = process.and_then(|process| i32::try_from(process.pid).ok()).and_then(Pid::from_raw);
    let descriptor = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    let waited = match &descriptor {
        Some(descriptor) => {
            let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&limit))
        }
        None => rustix::event::poll(&mut [], Some(&limit)),
    };
    match waited {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
