//! Finds and kills the living processes of one attempt.

use super::identity::{self, Stat};
use crate::api::ProcessId;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::io;

/// By what a process is known to belong to an attempt.
#[derive(Clone, Debug)]
pub struct Mark {
    /// `MIDWATCH_TOKEN=<store>:<task>:<fence>`, as it stands in the environment.
    pub token: String,
    /// The attempt's leader, whose session is the attempt's.
    pub leader: Option<ProcessId>,
    /// The autogroup of that session.
    pub autogroup: Option<u64>,
    /// A sub-reaper whose children, as far as they are not in `spared`, all belong to the attempt.
    pub adopted_by: Option<u32>,
    /// Children of the sub-reaper that do not.
    pub spared: BTreeSet<u32>,
}

impl Mark {
    /// A mark by token alone.
    pub fn by_token(token: &str) -> Self {
        Self {
            token: format!("MIDWATCH_TOKEN={token}"),
            leader: None,
            autogroup: None,
            adopted_by: None,
            spared: BTreeSet::new(),
        }
    }
}

/// A living process of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its pid.
    pub pid: u32,
    /// Its start time, which makes the pid a name.
    pub start_time: u64,
    /// The name the kernel shows for it.
    pub name: String,
}

impl Mark {
    /// Every living process that bears the mark, the caller itself excepted.
    ///
    /// A session counts as the attempt's only while something proves it: its leader is the one
    /// that claimed it (a zombie still holds the number), or one of its members bears the token
    /// or the autogroup. While one process is in a session its number cannot be given away, so
    /// one proof serves all members.
    pub fn find(&self) -> io::Result<Vec<Found>> {
        let own = std::process::id();
        let mut candidates: Vec<(Stat, bool)> = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let Some(stat) = identity::stat(pid)? else { continue };
            let marked = pid != own && stat.is_living() && self.is_on(&stat);
            candidates.push((stat, marked));
        }
        let session = self.leader.as_ref().filter(|leader| {
            candidates.iter().any(|(stat, marked)| {
                let is_leader = stat.pid == leader.pid && stat.start_time == leader.start_time;
                stat.session == leader.pid && (is_leader || *marked)
            })
        });
        let session = session.map(|leader| leader.pid);
        let of_attempt = |stat: &Stat, marked: bool| {
            stat.pid != own && stat.is_living() && (marked || Some(stat.session) == session)
        };
        let found = candidates.into_iter().filter(|(stat, marked)| of_attempt(stat, *marked));
        Ok(found
            .map(|(stat, _)| Found { pid: stat.pid, start_time: stat.start_time, name: stat.name })
            .collect())
    }

    fn is_on(&self, stat: &Stat) -> bool {
        if self.adopted_by == Some(stat.parent) && !self.spared.contains(&stat.pid) {
            return true;
        }
        let of_session = self.leader.as_ref().is_some_and(|leader| leader.pid == stat.session);
        if of_session && self.autogroup.is_some() && identity::autogroup(stat.pid) == self.autogroup
        {
            return true;
        }
        // What we may not read belongs to somebody else; what is gone needs no killing.
        let environment = fs::read(format!("/proc/{}/environ", stat.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == self.token.as_bytes())
    }
}

impl Found {
    /// Sends SIGKILL, if the pid is still this process's. False when the process is gone.
    pub fn kill(&self) -> io::Result<bool> {
        signal(self.pid, self.start_time, Signal::KILL)
    }
}

/// Signals the process that has this pid *and* this start time; false when it is gone.
///
/// The descriptor is opened first and the start time compared after that, so the signal goes
/// through a descriptor that is known to be of the right process, whatever happens meanwhile.
pub(crate) fn signal(pid: u32, start_time: u64, signal: Signal) -> io::Result<bool> {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
    let opened = rustix::process::pidfd_open(raw, PidfdFlags::empty());
    let still_it = |stat: Option<Stat>| stat.is_some_and(|stat| stat.start_time == start_time);
    if !still_it(identity::stat(pid)?) {
        return Ok(false);
    }
    let sent = match opened {
        Ok(descriptor) => rustix::process::pidfd_send_signal(&descriptor, signal),
        // Kernels before 5.3 have no such descriptors.
        Err(Errno::NOSYS) => rustix::process::kill_process(raw, signal),
        Err(error) => Err(error),
    };
    match sent {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
