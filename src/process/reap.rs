//! Takes the end of a leader, and what the kernel counted for it.

use crate::kernel::ids::Millis;
use std::fs;
use std::io;

/// What the kernel counted for a leader and those of its descendants that were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The most memory that one of them held, in bytes; at least what the worker itself held when
    /// it forked, since the kernel counts from the fork on.
    pub peak_memory: u64,
    /// Time on a processor, of all together.
    pub cpu: Millis,
}

/// Reaps the child with this pid if it has ended; none when it has not.
#[expect(unsafe_code, reason = "neither std nor rustix tells what a child has used")]
pub fn reap(pid: u32) -> io::Result<Option<Used>> {
    let pid = i32::try_from(pid).map_err(|_no_pid| io::ErrorKind::InvalidInput)?;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for writing for the whole call, which keeps neither.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    if reaped < 0 {
        return Err(io::Error::last_os_error());
    }
    if reaped == 0 {
        return Ok(None);
    }
    // SAFETY: all bits zero is a valid rusage, whatever the call wrote of it.
    let usage = unsafe { usage.assume_init() };
    let positive = |number: i64| u64::try_from(number).unwrap_or(0);
    let millis = |time: libc::timeval| {
        positive(time.tv_sec).saturating_mul(1000).saturating_add(positive(time.tv_usec) / 1000)
    };
    Ok(Some(Used {
        peak_memory: positive(usage.ru_maxrss).saturating_mul(1024),
        cpu: Millis(millis(usage.ru_utime).saturating_add(millis(usage.ru_stime))),
    }))
}

/// Bytes of memory that this process holds now.
pub fn resident_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or(io::ErrorKind::InvalidData)?;
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    Ok(pages.saturating_mul(page))
}
