//! A thread that no signal reaches.

use std::io;
use std::mem::MaybeUninit;
use std::thread;

/// Starts a thread with every signal blocked: a signal that the process takes by a descriptor, or
/// by a handler of another thread, is never delivered to this one, whenever it was started.
///
/// Fails when there can be no thread.
pub fn start_deaf_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let before = set_mask(&every_signal()?)?;
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    // A new thread begins with the mask of the one that starts it.
    set_mask(&before)?;
    started.map(drop)
}

fn every_signal() -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    #[expect(unsafe_code, reason = "signal sets are opaque")]
    // SAFETY: the pointer is valid for writing one set; the call initialises it.
    let failed = unsafe { libc::sigfillset(set.as_mut_ptr()) } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "signal sets are opaque")]
    // SAFETY: sigfillset above has initialised it.
    let set = unsafe { set.assume_init() };
    Ok(set)
}

/// Sets this thread's mask; returns the one before.
fn set_mask(set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut before = MaybeUninit::uninit();
    #[expect(unsafe_code, reason = "no safe sigmask in rustix")]
    // SAFETY: `set` is initialised, and the old mask is written to a place of its size.
    let error = unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::from_ref(set), before.as_mut_ptr())
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    #[expect(unsafe_code, reason = "the old mask was written")]
    // SAFETY: pthread_sigmask has succeeded, so it has written it.
    let before = unsafe { before.assume_init() };
    Ok(before)
}
