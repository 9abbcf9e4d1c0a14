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
const SWEEP_SECONDS_MAX: i64 = 30;

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
        Held::Claim { process, .. } if process.boot_id != boot_id => return Ok(Swept::default()),
        Held::Claim { process, autogroup } => {
            // A pid of another namespace is not a pid here; the token is what is left.
            if process.pid_namespace == identity::pid_namespace()? {
                mark.leader = Some(process);
                mark.autogroup = autogroup;
            }
        }
        Held::Unreadable => {}
    }
    Ok(Swept { started: true, killed: kill_until_none_is_left(&mark)? })
}

fn kill_until_none_is_left(mark: &Mark) -> io::Result<Vec<Killed>> {
    let give_up = clock_gettime(ClockId::Monotonic).tv_sec + SWEEP_SECONDS_MAX;
    let mut killed: Vec<Killed> = Vec::new();
    loop {
        let found = mark.find()?;
        let Some(first) = found.first() else { return Ok(killed) };
        for process in &found {
            process.kill()?;
            let it = Killed { pid: process.pid, name: process.name.clone() };
            if !killed.contains(&it) {
                killed.push(it);
            }
        }
        if give_up < clock_gettime(ClockId::Monotonic).tv_sec {
            let pids: Vec<String> = found.iter().map(|process| process.pid.to_string()).collect();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("still alive after SIGKILL: pid {}", pids.join(", ")),
            ));
        }
        wait_a_little(first)?;
    }
}

/// Waits until the process ends, at most 20 ms.
fn wait_a_little(process: &Found) -> io::Result<()> {
    let limit = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
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
