//! Runs a helper program to its end: a channel of alerts, a ping. Not for tasks, which have claims
//! and outlive their engine.

use super::spawn::close_on_exec_from;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How a program ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit status; none when it ran for too long and was killed.
    pub status: Option<ExitStatus>,
    /// The beginning of what it wrote, standard output and error together.
    pub output: Vec<u8>,
}

/// Runs a program with `input` on its standard input, for at most `time`.
///
/// It has a process group of its own, of which nothing is left when this returns, and no descriptor
/// of ours but the standard ones. It dies with the thread that calls this.
pub fn run(
    command: &[String],
    input: &[u8],
    time: Duration,
    output_bytes_max: usize,
) -> io::Result<Ran> {
    let program = command.first().ok_or_else(|| io::Error::other("the command is empty"))?;
    let mut stdin = File::from(rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC)?);
    stdin.write_all(input)?;
    stdin.rewind()?;
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    super::reserve_standard()?;
    #[expect(clippy::disallowed_methods, reason = "this is the place that sets the group")]
    let mut starting = Command::new(program);
    starting.args(command.get(1..).unwrap_or_default()).env_clear();
    starting.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    starting.current_dir("/").process_group(0);
    starting.stdin(stdin).stdout(theirs.try_clone()?).stderr(Stdio::from(theirs));
    between_fork_and_exec(&mut starting);
    let spawned = starting.spawn();
    // Our copy of its end of the pipe, or the pipe would never end.
    drop(starting);
    let mut child = spawned?;
    let output = follow(&child, ours, time, output_bytes_max);
    // It is not reaped yet, so its number is still its own, and that of its group.
    let over = output.as_ref().is_ok_and(|(over, _)| *over);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _nothing_left = rustix::process::kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    let (_, output) = output?;
    Ok(Ran { status: over.then_some(status), output })
}

#[expect(unsafe_code, reason = "descriptors are closed between fork and exec")]
fn between_fork_and_exec(command: &mut Command) {
    let in_child = || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        close_on_exec_from(3);
        Ok(())
    };
    // SAFETY: the closure makes two system calls; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(in_child) };
}

/// Reads what it writes until it has ended or its time is over; whether it ended.
fn follow(
    child: &Child,
    output: OwnedFd,
    time: Duration,
    bytes_max: usize,
) -> io::Result<(bool, Vec<u8>)> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    rustix::io::ioctl_fionbio(&output, true)?;
    let mut output = Some(File::from(output));
    let mut kept = Vec::new();
    let until = now().saturating_add(time);
    loop {
        let left = until.saturating_sub(now());
        if left.is_zero() {
            return Ok((false, kept));
        }
        let limit = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut polled = vec![PollFd::new(&ended, PollFlags::IN)];
        polled.extend(output.as_ref().map(|output| PollFd::new(output, PollFlags::IN)));
        match poll(&mut polled, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_over = polled.first().is_some_and(|ended| !ended.revents().is_empty());
        drop(polled);
        if output.as_mut().is_some_and(|output| !drain(output, &mut kept, bytes_max)) {
            output = None;
        }
        if is_over {
            return Ok((true, kept));
        }
    }
}

/// Reads what is there, and keeps its beginning; whether more may come.
fn drain(output: &mut File, kept: &mut Vec<u8>, bytes_max: usize) -> bool {
    let mut buffer = [0; 4096];
    // A program that never stops writing is not followed for ever: what it is worth is its end.
    for _ in 0..16 {
        match output.read(&mut buffer) {
            Ok(0) => return false,
            Ok(read) => {
                let room = bytes_max.saturating_sub(kept.len());
                kept.extend_from_slice(buffer.get(..read.min(room)).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}
