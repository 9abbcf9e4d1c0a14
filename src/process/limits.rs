//! What a handler may use and as whom it runs, set in the child between fork and exec.

use super::group::Bounds;
use super::users::Identity;
use crate::kernel::ids::Millis;
use rustix::fs::{Access, Mode};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use rustix::thread::{Gid, Uid};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a child reports when a limit could not be set.
pub(crate) const UNLIMITED: Errno = Errno::NOTUNIQ;

/// What a child reports when it could not become the user it should be.
pub(crate) const UNCHANGED: Errno = Errno::NOPKG;

/// What a child reports when its user cannot reach the attempt's directory.
pub(crate) const UNREACHABLE: Errno = Errno::NOLINK;

/// From the signal that says that the processor time is used up to SIGKILL.
const CPU_GRACE_SECONDS: u64 = 5;

/// What a handler may use at most, and as whom it runs. What is absent is as the worker has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory: of all its processes together where its control group counts them, else
    /// of the address space of each process.
    pub memory: Option<u64>,
    /// Time on a processor of each of its processes, in whole seconds.
    pub cpu_time: Option<Millis>,
    /// Descriptors that each of its processes may have open.
    pub open_files: Option<u64>,
    /// Processes and threads: of this attempt where its control group counts them, else of its
    /// user in all.
    pub processes: Option<u64>,
    /// Priority on the processor, from -20 to 19.
    pub nice: Option<i32>,
    /// Mode bits that new files do not get.
    pub umask: Option<u32>,
    /// As whom it runs.
    pub identity: Option<Identity>,
}

impl Limits {
    /// What a control group may keep of them.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { memory: self.memory, processes: self.processes }
    }

    /// Which of them a child of this process was refused, in words.
    pub(crate) fn refused(&self) -> String {
        let seconds = self.cpu_time.map(|most| most.0.div_ceil(1000) + CPU_GRACE_SECONDS);
        let wanted = [
            ("open_files", Resource::Nofile, self.open_files, ""),
            ("processes", Resource::Nproc, self.processes, ""),
            ("memory", Resource::As, self.memory, " bytes"),
            ("cpu_time", Resource::Cpu, seconds, " s with the time to end"),
        ];
        let above = wanted.into_iter().find_map(|(key, resource, wanted, unit)| {
            let (wanted, most) = (wanted?, rustix::process::getrlimit(resource).maximum?);
            (most < wanted).then(|| format!("`{key}` is {wanted}{unit}, above the {most} that"))
        });
        match (above, self.nice) {
            (Some(above), _) => format!("{above} the hard limit lets this worker give"),
            (None, Some(nice)) => format!("this worker may not give `nice` {nice}"),
            (None, None) => "this host does not let us set its limits".to_owned(),
        }
    }

    /// Whether a control group's controllers would be of use.
    pub fn wants_controllers(&self) -> bool {
        self.bounds() != Bounds::default()
    }
}

/// The limits of one start as the child sets them: everything exists before the fork.
#[derive(Debug)]
pub(crate) struct Harness {
    limits: Vec<(Resource, Rlimit)>,
    /// Those that a control group keeps if the child gets into it.
    without_group: Vec<(Resource, Rlimit)>,
    nice: Option<i32>,
    umask: Option<Mode>,
    identity: Option<(Uid, Gid, Vec<Gid>)>,
    tmp: CString,
}

impl Harness {
    /// `kept` are the bounds that the attempt's control group has taken over.
    pub(crate) fn new(limits: &Limits, kept: Bounds, tmp: &Path) -> io::Result<Self> {
        let same = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
        let mut always = Vec::new();
        let mut without_group = Vec::new();
        if let Some(most) = limits.memory {
            let list = if kept.memory.is_some() { &mut without_group } else { &mut always };
            list.push((Resource::As, same(most)));
        }
        if let Some(most) = limits.processes {
            let list = if kept.processes.is_some() { &mut without_group } else { &mut always };
            list.push((Resource::Nproc, same(most)));
        }
        if let Some(most) = limits.open_files {
            always.push((Resource::Nofile, same(most)));
        }
        if let Some(most) = limits.cpu_time {
            let seconds = most.0.div_ceil(1000);
            let maximum = Some(seconds.saturating_add(CPU_GRACE_SECONDS));
            always.push((Resource::Cpu, Rlimit { current: Some(seconds), maximum }));
        }
        let identity = limits.identity.as_ref().map(|it| {
            let groups = it.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
            (Uid::from_raw(it.uid), Gid::from_raw(it.gid), groups)
        });
        Ok(Self {
            limits: always,
            without_group,
            nice: limits.nice,
            umask: limits.umask.map(Mode::from_raw_mode),
            identity,
            tmp: CString::new(tmp.as_os_str().as_bytes())?,
        })
    }

    /// Puts the limits on the calling process, which is a child between fork and exec, and makes
    /// it the user it should be. System calls only.
    pub(crate) fn put_on(&self, is_in_group: bool) -> Result<(), Errno> {
        let beside: &[_] = if is_in_group { &[] } else { &self.without_group };
        for (resource, limit) in self.limits.iter().chain(beside) {
            rustix::process::setrlimit(*resource, *limit).map_err(|_refused| UNLIMITED)?;
        }
        if let Some(nice) = self.nice {
            rustix::process::setpriority_process(None, nice).map_err(|_refused| UNLIMITED)?;
        }
        if let Some(umask) = self.umask {
            rustix::process::umask(umask);
        }
        if let Some((uid, gid, groups)) = &self.identity {
            become_user(*uid, *gid, groups).map_err(|_refused| UNCHANGED)?;
            let wanted = Access::WRITE_OK | Access::EXEC_OK;
            rustix::fs::access(self.tmp.as_c_str(), wanted).map_err(|_refused| UNREACHABLE)?;
        }
        Ok(())
    }
}

fn become_user(uid: Uid, gid: Gid, groups: &[Gid]) -> Result<(), Errno> {
    rustix::thread::set_thread_groups(groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}
