//! An attempt claims its start: one name, two who may create it, the second yields.
//!
//! Between fork and exec the child creates `run/<fence>`, which says who it is. Before the task
//! is leased again the sweeper creates the same name, empty, as a tombstone. So either the
//! handler never starts, or whoever sweeps knows whom to kill; nothing depends on time.
//!
//! The content appears together with the name: it is written beside it and linked. Nothing is
//! synced, since a power cut ends every process the names are about.

use super::group;
use crate::api::ProcessId;
use crate::kernel::ids::Fence;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const WORD: &str = "midwatch-claim 1";
const WORD_OF_THREAD: &str = "midwatch-thread 1";

/// Who holds the name of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nobody: no child has started and none can any more.
    Tombstone,
    /// The handler that was started.
    Claim {
        /// Its process, the leader of a session of its own.
        process: ProcessId,
        /// The autogroup of that session, where the kernel has them.
        autogroup: Option<u64>,
        /// The control group that it entered before, where there is one.
        group: Option<PathBuf>,
    },
    /// A thread of a worker, which nobody can kill but with the worker.
    Thread {
        /// The worker's process.
        worker: ProcessId,
    },
    /// Something that is none of these; only a crash of the whole host can leave that.
    Unreadable,
}

/// The directory for temporary files of an attempt that runs as the worker's own user.
pub fn tmp_dir(run_dir: &Path, fence: Fence) -> PathBuf {
    run_dir.join(format!("{fence}.tmp"))
}

/// The same for one that runs as another user, who may not enter the data directory: it lies in a
/// directory beside that, `<data directory>.tmp`, through which everybody may pass and in which
/// only the daemon's user can make or see anything.
pub fn foreign_tmp_dir(run_dir: &Path, fence: Fence) -> PathBuf {
    foreign_dir(run_dir).join(fence.to_string())
}

/// Where the directories of attempts of other users are.
pub fn foreign_dir(run_dir: &Path) -> PathBuf {
    let data_dir = run_dir.parent().unwrap_or(run_dir);
    let mut name = data_dir.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    data_dir.with_file_name(name)
}

/// Everything the child needs for its claim, prepared before the fork: after it no allocation
/// and no lock is allowed.
#[derive(Debug)]
pub(crate) struct Claim {
    name: CString,
    aside: CString,
    /// ` <pid namespace> <boot id>\n`
    tail: Vec<u8>,
    /// The same with the control group behind it.
    tail_in_group: Vec<u8>,
}

/// What a child reports when the tombstone was there first. Neither `chdir` nor `exec` fails
/// with it, so the parent can tell it from their errors.
pub(crate) const YIELDED: Errno = Errno::KEYREJECTED;

/// What a child reports when the claim could not be written for another reason than lack of room.
pub(crate) const UNCLAIMED: Errno = Errno::NOTRECOVERABLE;

impl Claim {
    /// `group` is the control group that the child is to enter before.
    pub(crate) fn new(
        run_dir: &Path,
        fence: Fence,
        child: (&str, u64),
        group: Option<&Path>,
    ) -> io::Result<Self> {
        let (boot_id, pid_namespace) = child;
        let tail = format!(" {pid_namespace} {boot_id}").into_bytes();
        let group = group.map(|group| group.as_os_str().as_bytes()).unwrap_or_default();
        let space: &[u8] = if group.is_empty() { b"" } else { b" " };
        let name = run_dir.join(fence.to_string());
        let aside = run_dir.join(format!("{fence}.new"));
        Ok(Self {
            name: CString::new(name.as_os_str().as_bytes())?,
            aside: CString::new(aside.as_os_str().as_bytes())?,
            tail_in_group: [&tail, space, group, b"\n"].concat(),
            tail: [&tail, b"\n".as_slice()].concat(),
        })
    }

    /// Claims the name for the calling process, which is a child between fork and exec.
    ///
    /// Only system calls and its own stack are used. Fails with [`YIELDED`] when the name is
    /// taken; the child must then end without exec.
    pub(crate) fn take(&self, is_in_group: bool) -> Result<(), Errno> {
        match self.write_and_link(is_in_group) {
            Err(Errno::EXIST) => Err(YIELDED),
            Err(Errno::NOSPC) => Err(Errno::NOSPC),
            Err(_) => Err(UNCLAIMED),
            Ok(()) => Ok(()),
        }
    }

    fn write_and_link(&self, is_in_group: bool) -> Result<(), Errno> {
        let mut line = Line::new();
        line.push(WORD.as_bytes());
        line.push(b" ");
        line.push_number(u64::from(
            rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(),
        ));
        line.push(b" ");
        line.push_number(own_start_time()?);
        line.push(b" ");
        line.push_number(own_autogroup().unwrap_or(0));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.aside.as_c_str(), flags, Mode::RUSR | Mode::WUSR)?;
        let tail = if is_in_group { &self.tail_in_group } else { &self.tail };
        for mut rest in [line.bytes(), tail] {
            while !rest.is_empty() {
                let written = rustix::io::write(&file, rest)?;
                rest = rest.get(written..).unwrap_or_default();
            }
        }
        let linked = rustix::fs::link(self.aside.as_c_str(), self.name.as_c_str());
        // The name beside it is litter whatever became of the link; `remove` would take it too.
        let _litter = rustix::fs::unlink(self.aside.as_c_str());
        linked
    }
}

/// Claims the name of an attempt that runs on a thread of `worker`, the calling process.
///
/// Fails with `AlreadyExists` when the name is taken; the attempt must then not begin.
pub fn take_for_thread(run_dir: &Path, fence: Fence, worker: &ProcessId) -> io::Result<()> {
    let ProcessId { pid, start_time, boot_id, pid_namespace } = worker;
    let aside = run_dir.join(format!("{fence}.new"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    writeln!(file, "{WORD_OF_THREAD} {pid} {start_time} 0 {pid_namespace} {boot_id}")?;
    let linked = fs::hard_link(&aside, run_dir.join(fence.to_string()));
    absent_is_fine(fs::remove_file(&aside))?;
    linked
}

/// A line built on the stack. What does not fit is cut off, which makes the claim unreadable and
/// never wrong; three numbers take half of the room.
struct Line {
    bytes: [u8; 128],
    used: usize,
}

impl Line {
    fn new() -> Self {
        Self { bytes: [0; 128], used: 0 }
    }

    fn push(&mut self, more: &[u8]) {
        for (place, byte) in self.bytes.iter_mut().skip(self.used).zip(more) {
            *place = *byte;
            self.used += 1;
        }
    }

    fn push_number(&mut self, mut number: u64) {
        let mut digits = [0_u8; 20];
        let mut count = 0;
        for place in digits.iter_mut().rev() {
            *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            count += 1;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(digits.len() - count..).unwrap_or_default());
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

fn read_into(path: &CStr, buffer: &mut [u8]) -> Result<usize, Errno> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::read(&file, buffer)
}

/// Field 22 of the own stat line, without allocation.
fn own_start_time() -> Result<u64, Errno> {
    let mut buffer = [0_u8; 1024];
    let length = read_into(c"/proc/self/stat", &mut buffer)?;
    let line = buffer.get(..length).unwrap_or_default();
    let name_ends = line.iter().rposition(|byte| *byte == b')').ok_or(Errno::INVAL)?;
    let after = line.get(name_ends + 1..).unwrap_or_default();
    // After the name the line goes on with a blank and field 3, so field 22 is the 20th piece.
    let field = after.split(|byte| *byte == b' ').nth(20).ok_or(Errno::INVAL)?;
    number(field).map(super::identity::since_boot).ok_or(Errno::INVAL)
}

fn own_autogroup() -> Option<u64> {
    let mut buffer = [0_u8; 64];
    let length = read_into(c"/proc/self/autogroup", &mut buffer).ok()?;
    let digits = buffer.get(..length)?.strip_prefix(b"/autogroup-")?;
    number(digits.split(|byte| !byte.is_ascii_digit()).next()?)
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, digit| {
        let value = digit.checked_sub(b'0').filter(|value| *value < 10)?;
        sum.checked_mul(10)?.checked_add(u64::from(value))
    })
}

/// Takes the name of an attempt so that its handler can no longer start, or says who has it.
///
/// Safe to repeat: a tombstone found is as good as one made.
pub fn tombstone(run_dir: &Path, fence: Fence) -> io::Result<Held> {
    let path = run_dir.join(fence.to_string());
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match created {
        Ok(_) => Ok(Held::Tombstone),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(read(run_dir, fence)?.unwrap_or(Held::Unreadable))
        }
        Err(error) => Err(error),
    }
}

/// Who holds the name of an attempt; `None` when nobody took it.
pub fn read(run_dir: &Path, fence: Fence) -> io::Result<Option<Held>> {
    let text = match fs::read(run_dir.join(fence.to_string())) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if text.is_empty() {
        return Ok(Some(Held::Tombstone));
    }
    Ok(Some(parse(&text).unwrap_or(Held::Unreadable)))
}

fn parse(line: &[u8]) -> Option<Held> {
    let line = line.strip_suffix(b"\n")?;
    let of_thread = line.strip_prefix(WORD_OF_THREAD.as_bytes());
    let rest = of_thread.or_else(|| line.strip_prefix(WORD.as_bytes()))?.strip_prefix(b" ")?;
    let mut fields = rest.splitn(6, |byte| *byte == b' ');
    let pid = u32::try_from(number(fields.next()?)?).ok()?;
    let start_time = number(fields.next()?)?;
    let autogroup = Some(number(fields.next()?)?).filter(|number| *number != 0);
    let pid_namespace = number(fields.next()?)?;
    let boot_id = String::from_utf8(fields.next()?.to_vec()).ok()?;
    let group = fields.next().map(|path| PathBuf::from(OsStr::from_bytes(path)));
    let process = ProcessId { pid, start_time, boot_id, pid_namespace };
    Some(match of_thread {
        Some(_) => Held::Thread { worker: process },
        None => Held::Claim { process, autogroup, group },
    })
}

/// Removes what an attempt left: its claim or tombstone, its control group and its temporary
/// directory. To be called once its end is durable, never before. What is not there is fine.
pub fn remove(run_dir: &Path, fence: Fence) -> io::Result<()> {
    if let Some(Held::Claim { group: Some(path), .. }) = read(run_dir, fence)? {
        group::remove(&path)?;
    }
    for name in [fence.to_string(), format!("{fence}.new")] {
        absent_is_fine(fs::remove_file(run_dir.join(name)))?;
    }
    remove_tmp(run_dir, fence)
}

/// Removes the temporary directory of an attempt of which nothing lives, whoever owned it.
pub fn remove_tmp(run_dir: &Path, fence: Fence) -> io::Result<()> {
    remove_tree(&tmp_dir(run_dir, fence))?;
    remove_tree(&foreign_tmp_dir(run_dir, fence))
}

/// Removes a directory and all in it, also what its owner closed to itself.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            absent_is_fine(fs::remove_dir_all(path))
        }
        other => absent_is_fine(other),
    }
}

/// Gives the owner every right to a directory and those in it. No link is followed.
fn open_up(path: &Path) -> io::Result<()> {
    let mut todo = vec![path.to_owned()];
    while let Some(dir) = todo.pop() {
        fs::set_permissions(&dir, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    Ok(())
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
