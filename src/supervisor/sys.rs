//! The few system calls that neither std nor rustix offers, and the clock.

use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// CLOCK_MONOTONIC: stands still while the host is suspended, and never steps.
pub(crate) fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The signals of this process, as descriptors to poll: one for each thing they ask for.
///
/// They stay blocked for the life of the process, which also makes them reach a supervisor that
/// is PID 1, where unhandled signals are ignored.
#[derive(Debug)]
pub(crate) struct Signals {
    /// SIGTERM, SIGINT.
    pub(crate) stop: Channel,
    /// SIGHUP.
    pub(crate) reload: Channel,
    /// SIGCHLD.
    pub(crate) child: Channel,
}

impl Signals {
    /// Takes the signals over. Call it before the first child is started.
    pub(crate) fn take() -> io::Result<Self> {
        default_sigchld()?;
        Ok(Self {
            stop: Channel::open(&[libc::SIGTERM, libc::SIGINT])?,
            reload: Channel::open(&[libc::SIGHUP])?,
            child: Channel::open(&[libc::SIGCHLD])?,
        })
    }
}

/// A signalfd.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    fn open(signals: &[libc::c_int]) -> io::Result<Self> {
        let set = signal_set(signals)?;
        block(&set)?;
        #[expect(unsafe_code, reason = "no safe signalfd in rustix")]
        // SAFETY: `set` is an initialised signal set; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        #[expect(unsafe_code, reason = "a new descriptor gets its owner")]
        // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self(fd))
    }

    /// Takes one signal that has arrived; `false` when there is none.
    pub(crate) fn take(&self) -> bool {
        let mut record = [0u8; size_of::<libc::signalfd_siginfo>()];
        matches!(rustix::io::read(&self.0, &mut record), Ok(n) if 0 < n)
    }
}

fn signal_set(signals: &[libc::c_int]) -> io::Result<libc::sigset_t> {
    let mut set = std::mem::MaybeUninit::uninit();
    #[expect(unsafe_code, reason = "signal sets are opaque")]
    // SAFETY: the pointer is valid for writing one set; the call initialises it.
    let _zero = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    #[expect(unsafe_code, reason = "signal sets are opaque")]
    // SAFETY: sigemptyset above has initialised it; with a valid pointer it cannot fail.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        #[expect(unsafe_code, reason = "signal sets are opaque")]
        // SAFETY: `set` is initialised and exclusively borrowed.
        let failed = unsafe { libc::sigaddset(&raw mut set, *signal) } != 0;
        if failed {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}

fn block(set: &libc::sigset_t) -> io::Result<()> {
    mask(libc::SIG_BLOCK, set)
}

/// Lets every signal through; for a child between fork and exec (async-signal-safe).
pub(crate) fn unblock_all() -> io::Result<()> {
    mask(libc::SIG_SETMASK, &signal_set(&[])?)
}

fn mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe sigmask in rustix")]
    // SAFETY: `set` is initialised; the old mask is not asked for.
    let error = unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// A parent that ignored SIGCHLD would have the kernel reap our children and swallow their codes.
fn default_sigchld() -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe sigaction in rustix")]
    // SAFETY: SIG_DFL is no function of ours; nothing runs in a handler.
    let old = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    if old == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Marks every descriptor above 2 close-on-exec, also those that our own parent left open, so
/// that a child has only what it is given.
pub(crate) fn close_on_exec_above_2() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC.cast_signed();
    #[expect(unsafe_code, reason = "no safe close_range in rustix")]
    // SAFETY: with this flag nothing is closed; a flag is set on descriptors, whoever owns them.
    let result = unsafe { libc::close_range(3, libc::c_uint::MAX, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
