//! Adoption: a worker is the sub-reaper of its handlers' descendants, so a process that leaves
//! its session and its environment behind still cannot leave unseen.
//!
//! Leaders are children of the spawn thread and orphans become children of the first thread, so
//! one system call from that thread says whether there is any orphan at all; the usual end of an
//! attempt needs no look at every process of the host.

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions};
use std::io;

/// `__WNOTHREAD`: only children of the calling thread. Part of the kernel's interface.
const OF_THIS_THREAD: WaitIdOptions = WaitIdOptions::from_bits_retain(0x2000_0000);

/// The right to see and reap orphans; to be used on the thread that asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Adoption {
    exact: bool,
}

impl Adoption {
    /// Makes this process the sub-reaper of its descendants. Called from any thread but the first
    /// one, nothing is adopted and [`Adoption::any`] always says that there may be orphans.
    pub fn begin() -> io::Result<Self> {
        let first = rustix::process::getpid();
        if rustix::thread::gettid() != first {
            return Ok(Self { exact: false });
        }
        rustix::process::set_child_subreaper(Some(first))?;
        Ok(Self { exact: true })
    }

    /// The pid whose children are all adopted or leaders; `None` when nothing is adopted.
    pub fn parent(self) -> Option<u32> {
        self.exact.then(std::process::id)
    }

    /// Whether an orphan may be there, after those that ended were reaped. To be called now and
    /// then also when nobody wants to know, or zombies pile up.
    pub fn any(self) -> bool {
        if !self.exact {
            return true;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | OF_THIS_THREAD;
        loop {
            match rustix::process::waitid(WaitId::All, options) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Err(Errno::CHILD) => return false,
                // One that lives, or nobody knows: then look at every process.
                Ok(None) | Err(_) => return true,
            }
        }
    }
}
