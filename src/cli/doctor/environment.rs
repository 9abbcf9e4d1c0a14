//! What the host gives: room, memory, descriptors, a clock, and a kernel and a file system that do
//! what is asked of them.

use super::Patient;
use super::finding::Finding;
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::rules::Rules;
use crate::process;
use crate::units::{bytes, rfc3339, span};
use fs2::FileExt;
use rustix::fs::{Access, access, statfs, statvfs};
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Below this much free space new work may be refused, whatever the reserve.
const NEW_WORK_ROOM: u64 = 3 << 20;

/// Fewer free inodes than this, and files cannot be made soon.
const INODES_FEW: u64 = 1000;

/// Less available memory than this, and the kernel begins to kill.
const MEMORY_FEW: u64 = 32 << 20;

/// What the engine keeps for itself, and some connections.
const DESCRIPTORS_FEW: u64 = 640;

/// `statfs` of a file system that lives in memory.
const TMPFS: u64 = 0x0102_1994;

/// Syncs that are tried.
const SYNCS: u64 = 8;

/// What the disk of the data directory gives.
pub(super) fn disk_of_the_data(patient: &Patient) -> Vec<Finding> {
    let Some(data_dir) = &patient.data_dir else { return Vec::new() };
    let reserve = patient.config.as_ref().map_or(4 << 20, |config| config.journal.reserve);
    let mut findings = room(data_dir, reserve);
    findings.extend(store(data_dir));
    findings
}

/// What else the host gives.
pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let mut findings = Vec::new();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    findings.extend(available(&meminfo).map(memory));
    findings.push(descriptors(getrlimit(Resource::Nofile).maximum));
    findings.push(temp_dir(&std::env::temp_dir()));
    let waited_for = patient.config.as_ref().is_ok_and(|config| config.clock.wait_for_sync);
    let kept = Kept { synchronised: process::clock_is_synchronised(), waited_for };
    findings.push(clock(crate::clock::wall(), &kept));
    findings.push(kernel());
    findings.extend(groups());
    findings
}

/// The directory, or the nearest above it that is there.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or_else(|| Path::new("/")).to_owned()
}

fn room(data_dir: &Path, reserve: u64) -> Vec<Finding> {
    let place = nearest(data_dir);
    let mut findings = Vec::new();
    if let Ok(free) = fs2::available_space(&place) {
        findings.push(disk(free, reserve, &place));
    }
    if let Ok(facts) = statvfs(&place) {
        findings.extend(inodes(facts.f_files, facts.f_favail, &place));
    }
    findings
}

pub(super) fn disk(free: u64, reserve: u64, place: &Path) -> Finding {
    let least = reserve.max(NEW_WORK_ROOM);
    let (what, df) = (bytes(free), format!("df -h {}", place.display()));
    let what = format!("{what} free for {}", place.display());
    let du = format!("du -xh -d1 {} | sort -h", place.display());
    if free < least {
        let why = "new work is refused until there is room; what runs can still record its end";
        Finding::problem(what, why, &[&df, &du])
    } else if free < least.max(reserve.saturating_mul(2)) {
        Finding::warning(what, "when it is used up, new work is refused", &[&df, &du])
    } else {
        Finding::ok(what)
    }
}

pub(super) fn inodes(all: u64, free: u64, place: &Path) -> Option<Finding> {
    // Some file systems have no fixed number.
    let few = all != 0 && free < INODES_FEW;
    let what = format!("{free} inodes are free for {}", place.display());
    let command = format!("df -i {}", place.display());
    let why = "each attempt makes a handful of files; without inodes none can be made";
    few.then(|| Finding::problem(what, why, &[&command]))
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
}

pub(super) fn memory(available: u64) -> Finding {
    let what = format!("{} of memory available", bytes(available));
    if available < MEMORY_FEW {
        let why = "the kernel kills processes when it runs out; `memory` and `max_running` of \
                   handlers bound what tasks take";
        Finding::warning(what, why, &["ps axo pid,rss,comm --sort -rss | head"])
    } else {
        Finding::ok(what)
    }
}

pub(super) fn descriptors(limit: Option<u64>) -> Finding {
    match limit {
        Some(limit) if limit < DESCRIPTORS_FEW => Finding::warning(
            format!("a process may have {limit} files open at most"),
            "the engine then serves few connections at once",
            &["ulimit -Hn 4096    # or LimitNOFILE= in the unit"],
        ),
        Some(limit) => Finding::ok(format!("{limit} open files")),
        None => Finding::ok("any number of open files"),
    }
}

pub(super) fn temp_dir(path: &Path) -> Finding {
    if path.is_dir() && access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok() {
        return Finding::ok(format!("{} can be written", path.display()));
    }
    let command = format!("mkdir -p {0} && chmod 1777 {0}", path.display());
    Finding::warning(
        format!("{} is no directory in which we may write", path.display()),
        "attempts have a TMPDIR of their own, but `demo` and many programs need this one",
        &[&command],
    )
}

/// Whether something keeps the clock right, and whether that is waited for.
pub(super) struct Kept {
    pub(super) synchronised: bool,
    pub(super) waited_for: bool,
}

pub(super) fn clock(now: Timestamp, kept: &Kept) -> Finding {
    let what = format!("the clock shows {}", rfc3339(now));
    if now < Rules::default().plausible_since {
        let why = "that is before this version was made, so schedules by the calendar wait";
        return Finding::problem(
            what,
            why,
            &["date -s '2026-01-31 12:00'    # the right time", "timedatectl set-ntp true"],
        );
    }
    if kept.synchronised {
        return Finding::ok("the clock is kept right");
    }
    let what = "nothing keeps the clock right (NTP)";
    if kept.waited_for {
        let why = "`clock.wait_for_sync` is set, so schedules by the calendar wait for it";
        return Finding::problem(what, why, &["timedatectl set-ntp true"]);
    }
    Finding::note(what, "schedules by the calendar are as right as the clock is")
}

fn kernel() -> Finding {
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::ok("the kernel has pidfd"),
        Err(error) => Finding::note(
            format!("the kernel gives no pidfd: {error}"),
            "the end of a worker is then learnt by its lock and its silence alone",
        ),
    }
}

fn groups() -> Vec<Finding> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = own.lines().find_map(|line| line.strip_prefix("0::"));
    let writable = group.is_some_and(|group| {
        let path = format!("/sys/fs/cgroup{group}");
        access(Path::new(&path), Access::WRITE_OK).is_ok()
            && Path::new(&path).join("cgroup.procs").exists()
    });
    let why = "attempts are then killed by process group and mark, and `memory` bounds each \
               process, not all of an attempt together; under systemd `Delegate=yes` gives one";
    vec![if writable {
        Finding::ok("control groups")
    } else {
        Finding::note("no control group here can be written", why)
    }]
}

/// Tries the file system of the data directory, with one small file.
fn store(data_dir: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    if statfs(&*nearest(data_dir)).is_ok_and(|facts| u64::try_from(facts.f_type) == Ok(TMPFS)) {
        findings.push(Finding::warning(
            format!("{} lies in memory (tmpfs)", data_dir.display()),
            "everything in it is gone when the host starts anew",
            &["midwatch config show | grep data_dir"],
        ));
    }
    let run = data_dir.join("run");
    if !run.is_dir() || access(&run, Access::WRITE_OK).is_err() {
        return findings;
    }
    let probe = run.join(format!("doctor-{}.probe", std::process::id()));
    let tried = try_store(&probe);
    // Also where something failed half way.
    drop(fs::remove_file(&probe));
    findings.push(match tried {
        Ok(Tried { locks: false, .. }) => Finding::problem(
            format!("locks do not work in {}", data_dir.display()),
            "two engines could not be told apart; put the data directory on a local file system",
            &["midwatch config show | grep data_dir"],
        ),
        Ok(Tried { sync, .. }) => speed(sync),
        Err(error) => Finding::problem(
            format!("a file in {} cannot be written: {error}", run.display()),
            "the engine could not write there either",
            &[&format!("ls -ld {}", run.display()), "df -h"],
        ),
    });
    findings
}

pub(super) fn speed(sync: Millis) -> Finding {
    let what = format!("a sync takes {}", span(sync));
    if Millis(200) < sync {
        let why = "each acknowledged step waits for one; `journal.fsync = \"interval:200ms\"` waits \
                   for fewer, at the price of what a power cut takes";
        Finding::warning(what, why, &["dmesg | tail -n 20"])
    } else {
        Finding::ok(if sync == Millis(0) { "syncs take under 1 ms".to_owned() } else { what })
    }
}

struct Tried {
    /// Who comes second does not get the lock.
    locks: bool,
    /// The mean time of a sync.
    sync: Millis,
}

fn try_store(probe: &Path) -> io::Result<Tried> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(probe)?;
    let mut locks = true;
    if file.try_lock_exclusive().is_ok() {
        locks = File::open(probe)?.try_lock_exclusive().is_err();
    }
    // Before what may hang: nothing is left of it then.
    fs::remove_file(probe)?;
    let began = crate::clock::monotonic();
    for _ in 0..SYNCS {
        file.write_all(&[0; 512])?;
        file.sync_data()?;
    }
    let took = crate::clock::monotonic().0.saturating_sub(began.0);
    Ok(Tried { locks, sync: Millis(took / SYNCS) })
}
