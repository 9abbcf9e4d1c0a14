//! What a process takes of its host.

use std::fmt;
use std::fs;
use std::path::PathBuf;

/// What a process, or the greediest of several, was seen to take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) resident_kib: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
}

impl Taken {
    /// What it takes now; `None` when it is gone.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let status = fs::read_to_string(proc.join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        Some(Self {
            resident_kib: field("VmRSS:")?,
            descriptors: fs::read_dir(proc.join("fd")).ok()?.count() as u64,
            threads: field("Threads:")?,
        })
    }

    /// The larger of each.
    pub(crate) fn most(self, other: Self) -> Self {
        Self {
            resident_kib: self.resident_kib.max(other.resident_kib),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
        }
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resident_kib, descriptors, threads } = self;
        write!(f, "{resident_kib} KiB, {descriptors} descriptors, {threads} threads")
    }
}
