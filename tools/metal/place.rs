//! What the run stands on, and what can be done to it: a small file system of its own that can be
//! filled, a wall clock and a boot clock of its own. What this host does not allow is left out,
//! with a word about it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Room for data directory and ballast.
const DISK: &str = "size=48m,mode=700";

/// The ground of a run.
pub(super) struct Place {
    dir: PathBuf,
    /// Keeps the namespace with the small file system; ends when its standard input does.
    holder: Option<Child>,
    is_root: bool,
    /// The library that makes up the wall clock.
    faketime: Option<PathBuf>,
    has_boot_shifts: bool,
    /// Seconds by which the boot clock is off.
    boot_offset: i64,
}

impl Place {
    pub(super) fn new(dir: &Path) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        fs::create_dir_all(dir.join("disk")).unwrap();
        let mut place = Self {
            dir: dir.to_owned(),
            holder: hold(&dir.join("disk"), is_root),
            is_root,
            faketime: None,
            has_boot_shifts: false,
            boot_offset: 0,
        };
        if place.holder.is_none() {
            eprintln!("SKIPPED: the disk is never full: no file system can be mounted here");
        }
        place.set_wall(0);
        place.faketime = place.find_faketime();
        if place.faketime.is_none() {
            eprintln!("SKIPPED: the wall clock never jumps: there is no libfaketime here");
        }
        place.has_boot_shifts = place.can_shift();
        if !place.has_boot_shifts {
            eprintln!("SKIPPED: the boot clock never jumps: no time namespace can be made here");
        }
        place
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.join("disk/data")
    }

    pub(super) fn has_disk(&self) -> bool {
        self.holder.is_some()
    }

    pub(super) fn has_wall(&self) -> bool {
        self.faketime.is_some()
    }

    pub(super) fn has_boot_shifts(&self) -> bool {
        self.has_boot_shifts
    }

    /// A command that sees the small file system.
    pub(super) fn inside(&self, program: &Path) -> Command {
        let Some(holder) = &self.holder else { return Command::new(program) };
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(holder.id().to_string()).arg("--mount");
        if !self.is_root {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--").arg(program);
        command
    }

    /// A command that also lives by the clocks of the run.
    pub(super) fn on_its_clocks(&self, program: &Path) -> Command {
        let mut command = if self.boot_offset == 0 {
            self.inside(program)
        } else {
            let mut command = self.inside(Path::new("unshare"));
            if self.holder.is_none() && !self.is_root {
                command.args(["--user", "--map-root-user"]);
            }
            let offset = self.boot_offset.to_string();
            command.args(["--time", "--boottime", &offset, "--monotonic", &offset, "--"]);
            command.arg(program);
            command
        };
        if let Some(faketime) = &self.faketime {
            self.fake(&mut command, faketime);
        }
        command
    }

    fn fake(&self, command: &mut Command, library: &Path) {
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", self.wall());
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.env("NO_FAKE_STAT", "1").env_remove("FAKETIME_SHARED");
    }

    fn wall(&self) -> PathBuf {
        self.dir.join("wall")
    }

    /// Has the wall clock be so many seconds off, from now on and for those who run already.
    pub(super) fn set_wall(&self, offset: i64) {
        let fresh = self.dir.join("wall.new");
        fs::write(&fresh, format!("{offset:+}\n")).unwrap();
        fs::rename(fresh, self.wall()).unwrap();
    }

    /// Has the boot clock of whoever starts from now on be so many seconds off.
    pub(super) fn set_boot(&mut self, offset: i64) {
        self.boot_offset = offset;
    }

    /// How far the boot clock may be off: not below nothing, and not so far ahead that a key which
    /// somebody still repeats could be forgotten.
    pub(super) fn boot_offsets() -> (i64, i64) {
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        let uptime = uptime.split('.').next().and_then(|text| text.parse::<i64>().ok());
        (-uptime.unwrap_or(0).min(40) / 2, 20)
    }

    /// The library, if it does what it should with this clock.
    fn find_faketime(&self) -> Option<PathBuf> {
        let dirs = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
        let found = dirs.map(|dir| dir.join("faketime/libfaketimeMT.so.1"));
        let library = { found }.find(|path| path.exists())?;
        let mut date = Command::new("date");
        self.fake(&mut date, &library);
        self.set_wall(-4_000_000_000);
        let output = date.args(["-u", "+%s"]).output();
        self.set_wall(0);
        let text = String::from_utf8(output.ok()?.stdout).ok()?;
        text.trim().starts_with('-').then_some(library)
    }

    /// Whether a program can be started with another boot clock, in its own place.
    fn can_shift(&mut self) -> bool {
        let uptime = |command: &mut Command| -> Option<f64> {
            let output = command.output().ok()?;
            String::from_utf8(output.stdout).ok()?.split_whitespace().next()?.parse().ok()
        };
        let now = uptime(Command::new("cat").arg("/proc/uptime"));
        self.boot_offset = 100_000;
        let shifted = uptime(self.on_its_clocks(Path::new("cat")).arg("/proc/uptime"));
        self.boot_offset = 0;
        now.zip(shifted).is_some_and(|(now, shifted)| 90_000.0 < shifted - now)
    }

    fn ballast(&self) -> PathBuf {
        let holder = self.holder.as_ref().expect("only a disk of its own is filled");
        let path = format!("/proc/{}/root{}/disk/ballast", holder.id(), self.dir.display());
        PathBuf::from(path)
    }

    /// Takes all room that is left, to the byte.
    pub(super) fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.ballast()).unwrap();
        for size in [1 << 20, 4096, 1] {
            let chunk = vec![0x55_u8; size];
            loop {
                // It takes what there is room for, and fails where that is nothing.
                if let Err(error) = file.write_all(&chunk) {
                    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
                    break;
                }
            }
        }
    }

    /// Gives it back.
    pub(super) fn free(&self) {
        if self.has_disk() {
            let _was_there = fs::remove_file(self.ballast());
        }
    }

    /// Copies the data directory to where it outlives the run.
    pub(super) fn keep(&self) {
        if self.has_disk() {
            let mut copy = self.inside(Path::new("cp"));
            let _best_effort = copy.arg("-a").arg(self.data()).arg(self.dir.join("data")).status();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(holder) = &mut self.holder {
            drop(holder.stdin.take());
            let _ended = holder.wait();
        }
    }
}

/// Mounts a small file system where only those who enter see it.
fn hold(disk: &Path, is_root: bool) -> Option<Child> {
    let mut command = Command::new("unshare");
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-c"]);
    command.arg(format!("mount -t tmpfs -o {DISK} none \"$0\" && echo ready && exec cat"));
    command.arg(disk).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut line = String::new();
    let read = BufReader::new(child.stdout.take()?).read_line(&mut line);
    if read.is_ok() && line == "ready\n" {
        return Some(child);
    }
    let _failed = child.wait();
    None
}
