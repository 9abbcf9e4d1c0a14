//! Finds and kills the living processes of one attempt.

use super::group;
use super::identity::{self, Stat};
use crate::api::ProcessId;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

/// By what a process is known to belong to an attempt.
#[derive(Clone, Debug)]
pub struct Mark {
    /// `MIDWATCH_TOKEN=<store>:<task>:<fence>`, as it stands in the environment.
    pub token: String,
    /// The attempt's leader, whose session is the attempt's.
    pub leader: Option<ProcessId>,
    /// The autogroup of that session.
    pub autogroup: Option<u64>,
    /// The control group that the attempt was started in. Whatever is in it is the attempt's, and
    /// once it is empty nothing is left to be judged by other marks.
    pub group: Option<PathBuf>,
    /// The caller itself, when it is the sub-reaper of the attempt's processes and reaps nothing
    /// during a look. Then each living descendant has an ancestor among the caller's children that
    /// stays in the list at least as a zombie, so only those children can leave a look unsettled.
    pub reaper: Option<u32>,
    /// Whether all children of the reaper, but for those in `spared`, belong to the attempt.
    pub has_all_orphans: bool,
    /// Children of the reaper that are no orphans.
    pub spared: BTreeSet<u32>,
}

impl Mark {
    /// A mark by token alone.
    pub fn by_token(token: &str) -> Self {
        Self {
            token: format!("MIDWATCH_TOKEN={token}"),
            leader: None,
            autogroup: None,
            group: None,
            reaper: None,
            has_all_orphans: false,
            spared: BTreeSet::new(),
        }
    }
}

/// What one look at every process showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The living processes of the attempt.
    pub found: Vec<Found>,
    /// Whether some process could not be judged: in the midst of an exec nothing shows whose it
    /// is, and one that ended during the look may have left a child that was not looked at. Then
    /// finding nothing proves nothing, and one has to look again. On a host where processes come
    /// and go all the time no look may ever be settled, so callers stop asking some day.
    pub is_unsettled: bool,
    /// Whether the attempt's control group has living members, also such as cannot be named here:
    /// those of another pid namespace.
    pub is_populated: bool,
}

impl Look {
    /// Whether this proves that nothing of the attempt lives.
    pub fn is_clear(&self) -> bool {
        self.shows_nothing() && !self.is_unsettled
    }

    /// Whether nothing was found, which proves nothing while the look is unsettled.
    pub fn shows_nothing(&self) -> bool {
        self.found.is_empty() && !self.is_populated
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
    pub fn look(&self) -> io::Result<Look> {
        let own = std::process::id();
        let members = match &self.group {
            Some(group) => group::members(group)?,
            None => BTreeSet::new(),
        };
        let mut is_unsettled = false;
        let mut candidates: Vec<(Stat, bool)> = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let Some(stat) = identity::stat(pid)? else {
                // It ended since the list was made, and may have left a child that is not in it.
                is_unsettled |= self.reaper.is_none();
                continue;
            };
            let belonging = match pid {
                _ if pid == own => Some(false),
                _ if members.contains(&pid) => Some(true),
                _ => self.belonging(&stat)?,
            };
            is_unsettled |= belonging.is_none() && (self.reaper.is_none() || self.is_orphan(&stat));
            candidates.push((stat, belonging == Some(true)));
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
        let found = found
            .map(|(stat, _)| Found { pid: stat.pid, start_time: stat.start_time, name: stat.name })
            .collect();
        let is_populated = match &self.group {
            // Asked last, so it speaks for children too that were born since.
            Some(group) => group::is_populated(group)?,
            None => false,
        };
        // All that the attempt ever started is in its group, whatever else could not be judged.
        let is_unsettled = is_unsettled && self.group.is_none();
        Ok(Look { found, is_unsettled, is_populated })
    }

    /// Kills the attempt's control group in one go, where there is one.
    pub fn kill_group(&self) -> io::Result<()> {
        self.group.as_deref().map_or(Ok(()), group::kill)
    }

    fn is_orphan(&self, stat: &Stat) -> bool {
        self.reaper == Some(stat.parent) && !self.spared.contains(&stat.pid)
    }

    /// Whether the process bears the mark; `None` when that cannot be told yet, or any more.
    fn belonging(&self, stat: &Stat) -> io::Result<Option<bool>> {
        if let Some(leader) = &self.leader {
            // Nobody is older than the ancestor, and the leader itself leaves no child unseen: it
            // had ended before the list was made, or is found by its session.
            let is_leader = (stat.pid, stat.start_time) == (leader.pid, leader.start_time);
            if stat.start_time < leader.start_time || (is_leader && !stat.is_living()) {
                return Ok(Some(false));
            }
        }
        if !stat.is_living() {
            return Ok(None);
        }
        if self.has_all_orphans && self.is_orphan(stat) {
            return Ok(Some(true));
        }
        let of_session = self.leader.as_ref().is_some_and(|leader| leader.pid == stat.session);
        if of_session && self.autogroup.is_some() && identity::autogroup(stat.pid) == self.autogroup
        {
            return Ok(Some(true));
        }
        let environment = match fs::read(format!("/proc/{}/environ", stat.pid)) {
            Ok(environment) => environment,
            Err(error) if identity::is_gone(&error) => return Ok(None),
            // What we may not read belongs to somebody else.
            Err(_) => return Ok(Some(false)),
        };
        if environment.is_empty() {
            // Either it has none, or we looked in the midst of an exec, over by now or not.
            let now = identity::stat(stat.pid)?.filter(Stat::is_living);
            let has_none = now.is_some_and(|now| !now.is_in_exec && !now.has_environment);
            return Ok(has_none.then_some(false));
        }
        let mut variables = environment.split(|byte| *byte == 0);
        Ok(Some(variables.any(|variable| variable == self.token.as_bytes())))
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
