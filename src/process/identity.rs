//! Who a process is, read from `/proc`.

use crate::api::ProcessId;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// What `/proc/PID/stat` says about one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    pub(crate) threads: u32,
    /// In clock ticks since the boot, whichever time namespace looks.
    pub(crate) start_time: u64,
    /// Caught in the midst of an exec: the old environment is gone and the new one not yet there.
    /// A kernel thread is not, nor is one that was given no environment.
    pub(crate) is_in_exec: bool,
    /// Whether it has an environment with something in it.
    pub(crate) has_environment: bool,
}

/// `PF_KTHREAD`, in the flags of the stat line.
const KERNEL_THREAD: i64 = 0x0020_0000;

/// Room for any line that is read here.
const LINE_BYTES: usize = 1024;

impl Stat {
    /// Whether something of the process can still run. A zombie is dead, unless only its first
    /// thread has ended.
    pub(crate) fn is_living(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x') || self.threads > 1
    }

    /// Reads one line of the kernel. The name may hold spaces and brackets, so the fields are
    /// counted from the last bracket on.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
        // A process that is just being reaped has -1 for its session.
        let small = |at: usize| number(at).map(|value| u32::try_from(value).unwrap_or(0));
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: small(1)?,
            session: small(3)?,
            threads: small(17)?,
            start_time: since_boot(fields.get(19)?.parse().ok()?),
            has_environment: fields.get(47) != fields.get(48),
            is_in_exec: fields.get(48) == Some(&"0") && number(6)? & KERNEL_THREAD == 0,
        })
    }
}

/// The kernel shows start times as the reader's time namespace counts them; this is the same one as
/// the host's first namespace counts it, so that a process has one start time for everybody.
///
/// After the first call it only reads memory, also between fork and exec.
pub(crate) fn since_boot(shown: u64) -> u64 {
    static AHEAD: OnceLock<i64> = OnceLock::new();
    let ahead = AHEAD.get_or_init(|| {
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        let ticks = i64::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
        ahead_by(&offsets).unwrap_or(0).saturating_mul(ticks)
    });
    shown.saturating_add_signed(ahead.saturating_neg())
}

/// Seconds by which the boot clock of a namespace is ahead; nanoseconds beside them are below a
/// tick, or are for a runtime to leave alone.
pub(crate) fn ahead_by(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The stat line of `pid`; `None` when there is no such process.
pub(crate) fn stat(pid: u32) -> io::Result<Option<Stat>> {
    let bytes = match read(&format!("/proc/{pid}/stat")) {
        Ok(bytes) if bytes.is_empty() => return Ok(None),
        Ok(bytes) => bytes,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    match Stat::parse(&String::from_utf8_lossy(&bytes)) {
        Some(stat) => Ok(Some(stat)),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{pid}/stat is not of the known form"),
        )),
    }
}

/// A worker that was started for the daemon at this socket, as its command line says. For people
/// who find no engine there; nothing is ever signalled by it.
pub fn worker_of(socket: &Path) -> Option<u32> {
    let mut entries = fs::read_dir("/proc").ok()?.flatten();
    entries.find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        let is_it = |pair: &[&[u8]]| {
            matches!(pair, [b"--socket", path] if *path == socket.as_os_str().as_bytes())
        };
        let is_worker = words.iter().any(|word| *word == b"worker");
        (is_worker && words.windows(2).any(is_it)).then_some(pid)
    })
}

/// Whether reading below `/proc/PID` failed because the process ended meanwhile.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// A small file of the kernel. Such files do not tell their size, and `fs::read` takes seven calls
/// where one line is to be had in two.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(LINE_BYTES);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The id that the kernel drew when it booted. It is asked once.
pub fn boot_id() -> io::Result<String> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(KNOWN.get_or_init(|| id.trim().to_owned()).clone())
}

/// The inode of the pid namespace this process lives in; pids mean nothing outside it. A process
/// never leaves its own, so it is asked once.
pub fn pid_namespace() -> io::Result<u64> {
    static KNOWN: OnceLock<u64> = OnceLock::new();
    match KNOWN.get() {
        Some(known) => Ok(*known),
        None => fs::metadata("/proc/self/ns/pid").map(|facts| *KNOWN.get_or_init(|| facts.ino())),
    }
}

/// The number of the autogroup that the process's session was given, unique while the kernel
/// runs; `None` where the kernel has no autogroups or the process is gone.
pub(crate) fn autogroup(pid: u32) -> Option<u64> {
    let text = String::from_utf8(read(&format!("/proc/{pid}/autogroup")).ok()?).ok()?;
    let digits = text.strip_prefix("/autogroup-")?;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// This process.
pub fn current() -> io::Result<ProcessId> {
    let pid = std::process::id();
    of(pid)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "/proc does not show us"))
}

/// The process that has the number `pid` now; `None` when there is none. A zombie still counts:
/// its number is taken.
pub fn of(pid: u32) -> io::Result<Option<ProcessId>> {
    let Some(stat) = stat(pid)? else { return Ok(None) };
    Ok(Some(ProcessId {
        pid,
        start_time: stat.start_time,
        boot_id: boot_id()?,
        pid_namespace: pid_namespace()?,
    }))
}

/// Whether exactly this process is alive, as far as can be seen from here: a zombie is dead, and
/// so is a process with the same number and another start time. From another boot nothing lives.
///
/// False also for a process of another pid namespace, whose number says nothing here: a false is
/// proof of death only for a process of the caller's own namespace.
pub fn is_alive(process: &ProcessId) -> io::Result<bool> {
    if process.boot_id != boot_id()? || process.pid_namespace != pid_namespace()? {
        return Ok(false);
    }
    let stat = stat(process.pid)?;
    Ok(stat.is_some_and(|stat| stat.start_time == process.start_time && stat.is_living()))
}

/// The state of a process as the kernel names it: `T` stopped, `D` waiting for a disk. None when it
/// is gone, or hidden.
pub fn state(pid: u32) -> Option<char> {
    stat(pid).ok()?.map(|stat| stat.state)
}

/// A name for this machine that outlives reboots, if it has one that every user sees alike. Minimal
/// hosts have no `/etc/machine-id`; boards have a serial number then.
pub fn machine_id() -> Option<String> {
    const SOURCES: &[&str] =
        &["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/device-tree/serial-number"];
    SOURCES.iter().find_map(|source| machine_id_in(Path::new(source)))
}

fn machine_id_in(source: &Path) -> Option<String> {
    let text = fs::read_to_string(source).ok()?;
    let id = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    // systemd writes this word into images that have not had their first boot.
    (!id.is_empty() && id != "uninitialized").then(|| id.to_ascii_lowercase())
}
