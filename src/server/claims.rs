//! Claims and tombstones in `run/` that nobody can use any more.
//!
//! A tombstone keeps a worker that was stopped between its lease and its start from starting
//! late, so it must stay for as long as that worker may live. A worker only ever holds tokens
//! larger than its own id, both being sequence numbers: what is smaller than the id of every
//! registered worker, and names no current lease, is litter.

use crate::kernel::State;
use crate::kernel::ids::Fence;
use crate::kernel::status::Status;
use crate::process;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Which claims are litter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Litter {
    /// Those below this token,
    below: u64,
    /// except these.
    except: BTreeSet<Fence>,
}

impl Litter {
    /// What is litter as the state stands.
    pub(crate) fn of(state: &State) -> Self {
        let oldest = state.workers().map(|worker| worker.id.0).min();
        let leased = [Status::Running, Status::Lost].into_iter();
        let leased = leased.flat_map(|status| state.with_status(status));
        let except = leased.filter_map(|task| Some(task.lease()?.fence)).collect();
        Self { below: oldest.unwrap_or_else(|| state.next_seq().0), except }
    }

    fn covers(&self, fence: Fence) -> bool {
        fence.0 < self.below && !self.except.contains(&fence)
    }

    fn is_litter(&self, name: &str) -> Option<Fence> {
        let digits = [".tmp", ".new"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let fence = Fence(digits.parse().ok()?);
        self.covers(fence).then_some(fence)
    }

    /// Removes it, and what its attempts had beside it: directories of other users, and control
    /// groups that no claim names, as a worker leaves them that dies before its child's claim. The
    /// locks of dead workers go too. What cannot be removed stays, and keeps nothing else from
    /// going; the first such error is told.
    pub(crate) fn remove(&self, run_dir: &Path, store: &str) -> io::Result<()> {
        let ours = self.remove_below(run_dir, run_dir);
        let of_others = match self.remove_below(&process::foreign_dir(run_dir), run_dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        let groups = process::group::collect(store, |fence| self.covers(fence));
        ours.and(of_others).and(groups)
    }

    fn remove_below(&self, dir: &Path, run_dir: &Path) -> io::Result<()> {
        let mut result = Ok(());
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let removed = match name.to_str().map(|name| (self.is_litter(name), name)) {
                Some((Some(fence), _)) => process::remove(run_dir, fence),
                Some((None, name)) if process::is_lock_name(name) => {
                    process::remove_if_free(&entry.path())
                }
                _ => Ok(()),
            };
            result = result.and(removed);
        }
        result
    }
}

/// Removes whatever workers of another machine left: it names processes there.
pub(crate) fn forget_all(run_dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(run_dir)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_living_worker_can_hold_is_litter() {
        let litter = Litter { below: 100, except: BTreeSet::from([Fence(7)]) };
        let of = |name| litter.is_litter(name);
        assert_eq!(of("99"), Some(Fence(99)));
        assert_eq!(of("42.tmp"), Some(Fence(42)));
        assert_eq!(of("42.new"), Some(Fence(42)));
        for kept in ["100", "7", "7.tmp", "worker-01.lock", "x", "", "-5"] {
            assert_eq!(of(kept), None, "{kept}");
        }
    }
}
