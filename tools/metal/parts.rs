//! The processes of the run, found by what the kernel says of them: neither a pid that was noted
//! nor the daemon's own word is trusted.

use super::taken::Taken;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Supervisor,
    Engine,
    Worker,
    /// A handler, or what one has left.
    Handler,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Supervisor => "supervisor",
            Self::Engine => "engine",
            Self::Worker => "worker",
            Self::Handler => "handler",
        })
    }
}

/// By what the processes of a run are known.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    /// The data directory, which stands in the arguments of the daemon's processes.
    data: PathBuf,
    /// A variable in the environment of handlers.
    variable: String,
    /// The handlers' locks, which whatever they start inherits.
    locks: PathBuf,
    /// Where a handler has written the store's uuid, which names the control groups of attempts.
    store: PathBuf,
}

/// A living process.
pub(super) struct Part {
    pub(super) role: Role,
    pub(super) pid: u32,
    handle: OwnedFd,
}

impl Part {
    /// Sends a signal; to one that is gone by now, nothing.
    pub(super) fn signal(&self, signal: Signal) {
        let _gone = pidfd_send_signal(&self.handle, signal);
    }

    /// The descriptor by which it can be signalled later on, whoever has its number then.
    pub(super) fn into_handle(self) -> OwnedFd {
        self.handle
    }
}

impl Marks {
    pub(super) fn new(data: &Path, oracle: &Path) -> Self {
        let variable = format!("MW_ORACLE={}", oracle.display());
        let (locks, store) = (oracle.join("locks"), oracle.join("store"));
        Self { data: data.to_owned(), variable, locks, store }
    }

    /// All living processes of the run.
    pub(super) fn look(&self) -> Vec<Part> {
        let store = fs::read_to_string(&self.store).unwrap_or_default();
        let group = (!store.is_empty()).then(|| format!("/midwatch-{}-", store.trim()));
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("there is a /proc").flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let Some(raw) = raw.filter(|raw| *raw != rustix::process::getpid()) else { continue };
            // Opened before the look: what is seen below is of this process or of a later one,
            // and then the descriptor reaches nobody.
            let Ok(handle) = pidfd_open(raw, PidfdFlags::empty()) else { continue };
            if let Some(role) = self.role(&entry.path(), group.as_deref()) {
                found.push(Part { role, pid, handle });
            }
        }
        found
    }

    fn role(&self, proc: &Path, group: Option<&str>) -> Option<Role> {
        let stat = fs::read_to_string(proc.join("stat")).ok()?;
        if stat.rsplit_once(')')?.1.trim_start().starts_with(['Z', 'X']) {
            return None;
        }
        let environment = fs::read(proc.join("environ")).unwrap_or_default();
        let mine = |word: &[u8]| word == self.variable.as_bytes();
        let groups = fs::read_to_string(proc.join("cgroup")).unwrap_or_default();
        let is_in_group = group.is_some_and(|group| groups.contains(group));
        let is_marked = environment.split(|byte| *byte == 0).any(mine);
        if is_marked || is_in_group || self.has_lock(proc) {
            return Some(Role::Handler);
        }
        let arguments = fs::read(proc.join("cmdline")).unwrap_or_default();
        let arguments: Vec<_> = arguments.split(|byte| *byte == 0).collect();
        let data = self.data.as_os_str().as_encoded_bytes();
        if !arguments.contains(&data) {
            return None;
        }
        arguments.iter().find_map(|word| match *word {
            b"daemon" => Some(Role::Supervisor),
            b"engine" => Some(Role::Engine),
            b"worker" => Some(Role::Worker),
            _ => None,
        })
    }

    fn has_lock(&self, proc: &Path) -> bool {
        let descriptors = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
        { descriptors }.any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(&self.locks))
        })
    }
}

/// What was taken, by role: the most in the run's first quarter, in its last, and at its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Use(BTreeMap<(Role, &'static str), Taken>);

impl Use {
    pub(super) fn note(&mut self, parts: &[Part], when: &'static str) {
        for part in parts.iter().filter(|part| part.role != Role::Handler) {
            let Some(taken) = Taken::of(part.pid) else { continue };
            let most = self.0.entry((part.role, when)).or_default();
            *most = most.most(taken);
        }
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((role, when), taken) in &self.0 {
            writeln!(f, "  {:<10} {when:<14} {taken}", role.to_string())?;
        }
        Ok(())
    }
}
