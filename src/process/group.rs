//! Control groups (cgroup v2), where the host has them and lets us: one for each attempt, below
//! the group that the daemon itself was put into.
//!
//! Whatever a process does to its session, its parents or its environment, it stays in its group,
//! so a group that is not populated proves that nothing of its attempt lives, and one write kills
//! all of it. Memory and the number of processes are bounded by the group where its controllers
//! are there; a hybrid host has them elsewhere, and then only the killing is done by groups.
//!
//! A group with enabled controllers may hold processes or further groups, not both. So a daemon
//! that needs them steps down into a group of its own beside those of its attempts, but only
//! while nobody else lives where it was put. Nothing above that place is ever touched.

use super::identity;
use super::scan::{self, Found};
use crate::kernel::ids::{Fence, Millis, TaskId};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The group of the daemon's own processes, where it had to step down.
const DAEMON: &str = "midwatch.daemon";

/// How the names of attempts' groups begin.
const PREFIX: &str = "midwatch-";

/// How often the daemon's processes are moved before it is given up that they are all moved.
const MOVES_MAX: u32 = 5;

/// The place of the attempts' groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    base: PathBuf,
    has_memory: bool,
    has_pids: bool,
    note: Option<String>,
}

/// What a group is to bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) memory: Option<u64>,
    pub(crate) processes: Option<u64>,
}

/// The group of one attempt that is about to start.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) path: PathBuf,
    /// Who writes `0` into it becomes a member.
    pub(crate) door: File,
    /// Which of the bounds it keeps.
    pub(crate) keeps: Bounds,
}

impl Groups {
    /// Finds the place, or says in words why there is none. `controllers` asks for those of memory
    /// and processes too; without them the groups are still there.
    pub fn find(controllers: bool) -> Result<Self, String> {
        let base = own_place()?;
        let probe = base.join(format!("{PREFIX}probe-{}", std::process::id()));
        let shown = base.display();
        make_dir(&probe).map_err(|error| format!("cannot make a group in {shown}: {error}"))?;
        let opened = open_door(&probe);
        let removed = fs::remove_dir(&probe);
        opened.map_err(|error| format!("cannot enter a group in {shown}: {error}"))?;
        removed.map_err(|error| format!("cannot remove a group in {shown}: {error}"))?;
        let note = if controllers { enable(&base, &["memory", "pids"]).err() } else { None };
        let enabled = words(&base.join("cgroup.subtree_control")).unwrap_or_default();
        let has = |name: &str| enabled.iter().any(|word| word == name);
        Ok(Self { has_memory: has("memory"), has_pids: has("pids"), note, base })
    }

    /// Why the controllers that were asked for are not all there, in words.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Makes the group of an attempt, with its bounds as far as it can keep them.
    pub(crate) fn make(&self, token: &Token<'_>, bounds: Bounds) -> io::Result<Group> {
        let path = self.base.join(token.name());
        make_dir(&path)?;
        self.prepare(&path, bounds).inspect_err(|_| drop(remove(&path)))
    }

    fn prepare(&self, path: &Path, bounds: Bounds) -> io::Result<Group> {
        let mut keeps = Bounds::default();
        if let Some(most) = bounds.memory.filter(|_| self.has_memory) {
            put(&path.join("memory.max"), most)?;
            // A handler that lost one of its processes so is not half alive.
            put(&path.join("memory.oom.group"), 1)?;
            keeps.memory = Some(most);
        }
        if let Some(most) = bounds.processes.filter(|_| self.has_pids) {
            put(&path.join("pids.max"), most)?;
            keeps.processes = Some(most);
        }
        Ok(Group { door: open_door(path)?, path: path.to_owned(), keeps })
    }
}

/// Removes the groups of a store that are empty and whose fence `is_litter`; what has a claim is
/// removed with that. Where there is no place for groups, none of them is there.
pub fn collect(store: &str, is_litter: impl Fn(Fence) -> bool) -> io::Result<()> {
    let Ok(base) = own_place() else { return Ok(()) };
    let Ok(entries) = fs::read_dir(&base) else { return Ok(()) };
    let prefix = format!("{PREFIX}{store}-");
    for entry in entries {
        let name = entry?.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        let fence = rest.and_then(|rest| rest.split_once('-')?.1.parse().ok());
        if fence.is_some_and(|fence| is_litter(Fence(fence))) {
            remove(&base.join(name))?;
        }
    }
    Ok(())
}

/// Store, task and fence: of them the name of a group is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) store: &'a str,
    pub(crate) task: TaskId,
    pub(crate) fence: Fence,
}

impl Token<'_> {
    fn name(&self) -> String {
        format!("{PREFIX}{}-{}-{}", self.store, self.task, self.fence)
    }
}

/// Where the groups of attempts belong, as far as the kernel tells.
fn own_place() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| error.to_string());
    place(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
}

/// Where the groups of attempts belong: the directory of our own group, or the one above it where
/// the daemon has stepped down.
fn place(mounts: &str, own: &str) -> Result<PathBuf, String> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.ok_or("this kernel has no cgroup v2")?;
    let mount = mounts.lines().find_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        let mut fields = fields.split(' ');
        let found = kind.starts_with("cgroup2 ");
        let (root, point) = (fields.nth(3)?, fields.next()?);
        let inside = own.strip_prefix(root.trim_end_matches('/'))?;
        // Our group may lie outside of what a namespace shows.
        let is_below = inside.starts_with('/') && !inside.contains("/..");
        let fits = found && (inside.is_empty() || is_below);
        // Blanks and the like stand there in octal; no sane host has them.
        let dir = format!("{point}/{}", inside.trim_matches('/'));
        (fits && !point.contains('\\')).then(|| PathBuf::from(dir.trim_end_matches('/')))
    });
    let dir = mount.ok_or("cgroup v2 is not mounted where our own group could be seen")?;
    let is_daemon = dir.file_name().is_some_and(|name| name == DAEMON);
    let dir = if is_daemon { dir.parent().map(Path::to_owned).unwrap_or(dir) } else { dir };
    let is_plain = !dir.as_os_str().as_bytes().contains(&b'\n');
    is_plain.then_some(dir).ok_or_else(|| "the path of our group has a line break".to_owned())
}

/// Has the groups below `base` get these controllers, as far as `base` itself has them.
fn enable(base: &Path, wanted: &[&str]) -> Result<(), String> {
    let read = |name: &str| words(&base.join(name)).map_err(|error| format!("{name}: {error}"));
    let (there, enabled) = (read("cgroup.controllers")?, read("cgroup.subtree_control")?);
    let has = |list: &[String], name: &str| list.iter().any(|word| word == name);
    let absent: Vec<_> = wanted.iter().filter(|name| !has(&there, name)).copied().collect();
    let wanted: Vec<_> =
        wanted.iter().filter(|name| has(&there, name) && !has(&enabled, name)).collect();
    if !wanted.is_empty() {
        let order = wanted.iter().fold(String::new(), |order, name| format!("{order}+{name} "));
        let control = base.join("cgroup.subtree_control");
        let mut done = put(&control, order.trim_end());
        for _ in 0..MOVES_MAX {
            if !done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
                break;
            }
            step_down(base)?;
            done = put(&control, order.trim_end());
        }
        done.map_err(|error| format!("cannot enable {}: {error}", order.trim_end()))?;
    }
    if absent.is_empty() {
        return Ok(());
    }
    Err(format!("{} has no controller for {}", base.display(), absent.join(" and ")))
}

/// Moves the daemon's processes into a group of their own. Somebody else's are left where they
/// are, and then so are ours. [PRC-037]
fn step_down(base: &Path) -> Result<(), String> {
    let program = |pid: &str| {
        let meta = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((meta.dev(), meta.ino()))
    };
    let ours = program("self");
    let members = words(&base.join("cgroup.procs")).map_err(|error| error.to_string())?;
    let living = |pid: &&String| Path::new("/proc").join(pid).exists();
    let foreign = members.iter().filter(living).find(|pid| program(pid) != ours);
    if let Some(pid) = foreign {
        return Err(format!("pid {pid}, which is not ours, lives in {} too", base.display()));
    }
    let below = base.join(DAEMON);
    make_dir(&below).map_err(|error| format!("cannot make {}: {error}", below.display()))?;
    for pid in members {
        match put(&below.join("cgroup.procs"), &pid) {
            Err(error) if identity::is_gone(&error) => {}
            moved => moved.map_err(|error| format!("cannot move pid {pid}: {error}"))?,
        }
    }
    Ok(())
}

fn make_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn open_door(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path.join("cgroup.procs"))
}

fn put(path: &Path, value: impl std::fmt::Display) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.to_string().as_bytes())
}

fn words(path: &Path) -> io::Result<Vec<String>> {
    Ok(fs::read_to_string(path)?.split_ascii_whitespace().map(str::to_owned).collect())
}

/// The number behind a word in one of the kernel's tables.
fn figure(table: &str, word: &str) -> Option<u64> {
    let mut lines = table.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == word)?.1.trim().parse().ok()
}

/// Whether anything lives in the group or below it; zombies do not count. A group that is gone
/// has nothing in it.
pub fn is_populated(group: &Path) -> io::Result<bool> {
    match fs::read_to_string(group.join("cgroup.events")) {
        Ok(events) => Ok(figure(&events, "populated") != Some(0)),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file of a group that was removed: not there, or no device any more.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

fn below(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.path()).collect()
}

/// The pids of the members of the group and of those below it, as far as they can be seen from
/// our pid namespace.
pub(crate) fn members(group: &Path) -> io::Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    match words(&group.join("cgroup.procs")) {
        Ok(pids) => found.extend(pids.iter().filter_map(|pid| pid.parse::<u32>().ok())),
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(error),
    }
    for inner in below(group) {
        found.extend(members(&inner)?);
    }
    found.remove(&0);
    Ok(found)
}

/// Kills every member of the group, and of those below it, in one go.
pub fn kill(group: &Path) -> io::Result<()> {
    match put(&group.join("cgroup.kill"), 1) {
        Err(error) if is_absent(&error) => {}
        done => return done,
    }
    // A group that is gone, or a kernel before 5.14: one by one.
    for pid in members(group)? {
        if let Some(stat) = identity::stat(pid)? {
            let found = Found { pid, start_time: stat.start_time, name: stat.name };
            scan::signal(found.pid, found.start_time, Signal::KILL)?;
        }
    }
    Ok(())
}

/// Removes the group and what its processes made below it. What is populated stays.
pub fn remove(group: &Path) -> io::Result<()> {
    for inner in below(group) {
        remove(&inner)?;
    }
    match fs::remove_dir(group) {
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        done => done,
    }
}

/// What the kernel counted for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The most memory at once, in bytes; only with the controller.
    pub peak_memory: Option<u64>,
    /// Time on a processor.
    pub cpu: Option<Millis>,
    /// Processes that were killed for the bound of memory.
    pub oom_kills: u64,
}

/// What the kernel counted for the group, as far as it did.
pub fn counted(group: &Path) -> Counted {
    let read = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    Counted {
        peak_memory: read("memory.peak").trim().parse().ok(),
        cpu: figure(&read("cpu.stat"), "usage_usec").map(|micros| Millis(micros / 1000)),
        oom_kills: figure(&read("memory.events"), "oom_kill").unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn the_place_is_found_by_the_mounts_and_our_own_group() {
        let of = |mounts: &str, own: &str| place(mounts, own).map(|dir| dir.display().to_string());
        let own = "4:memory:/x\n0::/system.slice/midwatch.service\n";
        let expected = "/sys/fs/cgroup/unified/system.slice/midwatch.service";
        assert_eq!(of(HYBRID, own).as_deref(), Ok(expected));
        let own = "0::/system.slice/midwatch.service/midwatch.daemon\n";
        assert_eq!(of(HYBRID, own).as_deref(), Ok(expected), "it has stepped down");
        assert_eq!(of(HYBRID, "0::/\n").as_deref(), Ok("/sys/fs/cgroup/unified"));
        let part = "30 23 0:26 /box /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(of(part, "0::/box/m\n").as_deref(), Ok("/sys/fs/cgroup/m"));
        for (mounts, own) in [
            (HYBRID, "4:memory:/\n"),
            ("", "0::/\n"),
            (part, "0::/boxes/m\n"),
            (HYBRID, "0::/../m\n"),
        ] {
            assert!(place(mounts, own).is_err(), "{own}");
        }
    }

    #[test]
    fn the_kernels_tables_are_read_by_word() {
        let events = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 1\n";
        assert_eq!(figure(events, "oom_kill"), Some(1));
        assert_eq!(figure(events, "oom"), Some(1));
        assert_eq!(figure(events, "oo"), None);
        assert_eq!(figure("usage_usec 2376\n", "usage_usec"), Some(2376));
    }
}
