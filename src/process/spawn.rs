//! Starts handlers, on one thread that lives as long as the worker.
//!
//! The kernel sends a child its death signal when the *thread* that forked it ends, so the spawn
//! thread must never end before the worker does. Between fork and exec the child makes system
//! calls only; every string it needs exists before the fork.
//!
//! Order in the child: descriptor 3, a session of its own, its control group, the claim, its
//! limits, its user, the death signal (which a change of the user would clear), a check that the
//! worker is still there, all other descriptors closed on exec, exec.

use super::claim::{Claim, UNCLAIMED, YIELDED, foreign_dir, foreign_tmp_dir, tmp_dir};
use super::group::{Group, Groups, Token};
use super::limits::{Harness, Limits, UNCHANGED, UNLIMITED, UNREACHABLE};
use super::{claim, descriptor, group, identity};
use crate::api::ProcessId;
use crate::kernel::ids::{Fence, TaskId};
use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

/// The descriptor of the control channel in a handler.
const CONTROL: i32 = 3;

/// A handler to be started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Program and arguments; the program is looked up in the `PATH` of `env`.
    pub command: Vec<OsString>,
    /// Working directory; absent means the worker's.
    pub cwd: Option<PathBuf>,
    /// The whole environment, but for what is added here: `TMPDIR`, and
    /// `MIDWATCH_CHECKPOINT_FILE` when there is a checkpoint.
    pub env: BTreeMap<OsString, OsString>,
    /// What the handler reads from its standard input.
    pub payload: Vec<u8>,
    /// The last checkpoint.
    pub checkpoint: Option<Vec<u8>>,
    /// The `run` directory, absolute.
    pub run_dir: PathBuf,
    /// The store, in hex: with task and fence it names the attempt's control group.
    pub store: String,
    /// The task.
    pub task: TaskId,
    /// The fencing token, whose name is claimed.
    pub fence: Fence,
    /// What it may use, and as whom it runs.
    pub limits: Limits,
}

/// A handler that was started. Dropping it closes our ends and signals nothing.
#[derive(Debug)]
pub struct Started {
    /// Its process, leader of a session and process group of its own.
    pub process: ProcessId,
    /// The autogroup of that session.
    pub autogroup: Option<u64>,
    /// The control group it is in.
    pub group: Option<PathBuf>,
    /// Whether that group bounds its memory.
    pub memory_is_counted: bool,
    /// Readable once the leader ended. It stays a zombie, its pid taken, until it is waited for.
    pub pidfd: OwnedFd,
    /// Our end of its descriptor 3.
    pub control: UnixStream,
    /// Its standard output.
    pub stdout: OwnedFd,
    /// Its standard error.
    pub stderr: OwnedFd,
}

/// Why a handler did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The attempt had been given up before its child could claim it; nothing ran.
    Superseded,
    /// The command cannot be run, and another attempt would not change that.
    Command(String),
    /// A limit that its own config sets would not let it; another attempt may work.
    Limit(String),
    /// The host would not let us; another attempt may work.
    Host(String),
}

/// Takes the result of one start, on the spawn thread: it must only pass it on.
pub type Reply = Box<dyn FnOnce(Result<Started, StartError>) + Send>;

type Job = (Box<Start>, Reply);

/// The spawn thread. Dropping it ends the thread, and with it every handler it started.
#[derive(Debug)]
pub struct Spawner {
    jobs: SyncSender<Job>,
}

impl Spawner {
    /// Starts the thread. At most `queued_max` starts wait. With `groups` each handler gets a
    /// control group of its own.
    pub fn new(queued_max: usize, groups: Option<Groups>) -> io::Result<Self> {
        // Also because a child may not be the first to ask who it is.
        let own = identity::current()?;
        let (jobs, queue) = sync_channel::<Job>(queued_max);
        descriptor::reserve_standard()?;
        let nursery = Nursery {
            worker: rustix::process::getpid(),
            boot_id: own.boot_id,
            pid_namespace: own.pid_namespace,
            groups,
        };
        thread::Builder::new().name("spawn".into()).spawn(move || nursery.serve(&queue))?;
        Ok(Self { jobs })
    }

    /// Has a handler started; `reply` learns what became of it. Never blocks: when too many wait,
    /// or the thread is gone, the reply is an error at once.
    pub fn start(&self, start: Start, reply: Reply) {
        match self.jobs.try_send((Box::new(start), reply)) {
            Ok(()) => {}
            Err(TrySendError::Full((_, reply)) | TrySendError::Disconnected((_, reply))) => {
                reply(Err(StartError::Host("the spawn thread takes no more work".into())));
            }
        }
    }
}

/// What the spawn thread owns.
struct Nursery {
    worker: Pid,
    boot_id: String,
    pid_namespace: u64,
    groups: Option<Groups>,
}

impl Nursery {
    fn serve(self, queue: &Receiver<Job>) {
        while let Ok((start, reply)) = queue.recv() {
            reply(self.start(&start));
        }
    }

    fn start(&self, start: &Start) -> Result<Started, StartError> {
        let program = start.command.first();
        let program = program.ok_or_else(|| StartError::Command("the command is empty".into()))?;
        let host = |doing: &'static str| {
            move |error: io::Error| StartError::Host(format!("{doing}: {error}"))
        };
        let tmp = prepare_place(start)?;
        let env = prepare_directory(start, &tmp).map_err(host("cannot prepare its directory"))?;
        let stdin = payload_file(&start.payload, &tmp).map_err(host("cannot pass the payload"))?;
        let (control, theirs) =
            UnixStream::pair().map_err(host("cannot open the control channel"))?;
        descriptor::reserve_standard().map_err(host("cannot reserve descriptors"))?;
        let group = self.group(start);
        let path = group.as_ref().map(|group| group.path.clone());
        let child = (&*self.boot_id, self.pid_namespace);
        let claim = Claim::new(&start.run_dir, start.fence, child, path.as_deref())
            .map_err(host("cannot prepare the claim"))?;
        let kept = group.as_ref().map(|group| group.keeps).unwrap_or_default();
        let harness =
            Harness::new(&start.limits, kept, &tmp).map_err(host("cannot prepare its limits"))?;

        #[expect(clippy::disallowed_methods, reason = "this is the place that sets the group")]
        let mut command = Command::new(program);
        command.args(start.command.get(1..).unwrap_or_default()).env_clear().envs(env);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &start.cwd {
            command.current_dir(cwd);
        }
        let mapping = FdMapping { parent_fd: theirs.into(), child_fd: CONTROL };
        command.fd_mappings(vec![mapping]).map_err(|error| StartError::Host(error.to_string()))?;
        let birth = Birth { claim, group, harness, worker: self.worker };
        between_fork_and_exec(&mut command, birth);
        let spawned = command.spawn();
        // Our copy of the handler's end of descriptor 3 lives in the command: it must go, or the
        // channel never reaches its end.
        drop(command);
        let child = spawned.map_err(|error| {
            // Nothing of it lives, or it never entered.
            let _stays_until_the_claim_goes = path.as_deref().map(group::remove);
            explain(&error, start, program, &tmp)
        })?;
        let child_id = child.id();
        let (Some(stdout), Some(stderr)) = (child.stdout, child.stderr) else {
            return Err(StartError::Host("the handler has no output pipes".into()));
        };
        // It says itself whether it could enter the group.
        let group = match claim::read(&start.run_dir, start.fence) {
            Ok(Some(claim::Held::Claim { group, .. })) => group,
            _ => None,
        };
        let memory_is_counted = group.is_some() && kept.memory.is_some();
        watch(child_id)
            .map(|(process, autogroup, pidfd)| Started {
                process,
                autogroup,
                group,
                memory_is_counted,
                pidfd,
                control,
                stdout: stdout.into(),
                stderr: stderr.into(),
            })
            .map_err(host("cannot watch the handler"))
    }
}

impl Nursery {
    /// The control group of an attempt, where it can have one. Without it the attempt runs all
    /// the same, and is recognised by its other marks.
    fn group(&self, start: &Start) -> Option<Group> {
        let token = Token { store: &start.store, task: start.task, fence: start.fence };
        self.groups.as_ref()?.make(&token, start.limits.bounds()).ok()
    }
}

/// Identity and descriptor of a child that nobody can have reaped yet.
fn watch(pid: u32) -> io::Result<(ProcessId, Option<u64>, OwnedFd)> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let found = identity::of(pid).and_then(|process| process.ok_or_else(gone));
    let opened = rustix::process::pidfd_open(raw, PidfdFlags::empty());
    match (found, opened) {
        (Ok(process), Ok(pidfd)) => Ok((process, identity::autogroup(pid), pidfd)),
        (found, opened) => {
            // Unwatched it must not run. It is an unreaped child, so the number is still its own.
            let _already_gone = rustix::process::kill_process_group(raw, Signal::KILL);
            let _reaped =
                rustix::process::waitpid(Some(raw), rustix::process::WaitOptions::empty());
            found?;
            opened?;
            Err(gone())
        }
    }
}

/// What a child needs between fork and exec, all of it made before the fork.
struct Birth {
    claim: Claim,
    group: Option<Group>,
    harness: Harness,
    worker: Pid,
}

#[expect(unsafe_code, reason = "the claim belongs between fork and exec")]
fn between_fork_and_exec(command: &mut Command, birth: Birth) {
    let Birth { claim, group, harness, worker } = birth;
    let in_child = move || {
        rustix::process::setsid()?;
        // Before the claim, so that whoever reads that finds all of the attempt in the group.
        let entered = group.as_ref().map(|group| rustix::io::write(&group.door, b"0"));
        let is_in_group = entered.is_some_and(|entered| entered.is_ok());
        claim.take(is_in_group)?;
        harness.put_on(is_in_group)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // Had the worker died before the line above, the signal would never come.
        if rustix::process::getppid() != Some(worker) {
            return Err(Errno::SRCH.into());
        }
        close_on_exec_from(CONTROL + 1);
        Ok(())
    };
    // SAFETY: the closure makes system calls and uses its own stack and what was prepared in
    // `birth`; it neither allocates nor takes a lock, also not for its errors, which are numbers.
    unsafe { command.pre_exec(in_child) };
}

/// Marks every descriptor from `first` on to be closed by exec. Closing them here would cut the
/// pipe over which a failing exec is reported.
#[expect(unsafe_code, reason = "std and rustix do not offer close_range")]
pub(super) fn close_on_exec_from(first: i32) {
    // SAFETY: this call touches no memory; it only sets a flag on descriptors of this process.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if done == 0 {
        return;
    }
    // Kernels before 5.11: one by one, as far as a worker ever gets.
    for number in first..4096 {
        // SAFETY: setting a flag on a number; where nothing is open it fails with EBADF.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// The place of the attempt's own directory, which its user can reach.
fn prepare_place(start: &Start) -> Result<PathBuf, StartError> {
    let own = rustix::process::geteuid().as_raw();
    let is_foreign = start.limits.identity.as_ref().is_some_and(|it| it.uid != own);
    if !is_foreign {
        return Ok(tmp_dir(&start.run_dir, start.fence));
    }
    let dir = foreign_dir(&start.run_dir);
    passage(&dir).map_err(|error| {
        StartError::Host(format!("cannot prepare {} for other users: {error}", dir.display()))
    })?;
    Ok(foreign_tmp_dir(&start.run_dir, start.fence))
}

/// A directory through which everybody may pass, and which only its owner can read or change.
fn passage(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o711).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let facts = fs::symlink_metadata(dir)?;
    let is_ours = facts.uid() == rustix::process::geteuid().as_raw();
    if !facts.is_dir() || !is_ours || facts.mode() & 0o022 != 0 {
        return Err(io::Error::other("it is there already and is not ours alone to write"));
    }
    // The umask may have taken something away.
    rustix::fs::chmod(dir, rustix::fs::Mode::from_raw_mode(0o711))?;
    Ok(())
}

/// Gives a file or directory to the user the handler runs as.
fn give(path: &Path, start: &Start) -> io::Result<()> {
    match &start.limits.identity {
        Some(it) => chown(path, Some(it.uid), Some(it.gid)),
        None => Ok(()),
    }
}

/// Makes the attempt's own directory, and returns the environment that names it.
fn prepare_directory(start: &Start, tmp: &Path) -> io::Result<BTreeMap<OsString, OsString>> {
    match DirBuilder::new().mode(0o700).create(tmp) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut env = start.env.clone();
    env.insert("TMPDIR".into(), tmp.into());
    if let Some(checkpoint) = &start.checkpoint {
        let path = tmp.join("checkpoint.json");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&path)?.write_all(checkpoint)?;
        give(&path, start)?;
        env.insert("MIDWATCH_CHECKPOINT_FILE".into(), path.into());
    }
    give(tmp, start)?;
    Ok(env)
}

/// A file without a name that holds the payload: unlike a pipe it takes any handler's pace, also
/// that of one which never reads.
fn payload_file(payload: &[u8], tmp: &Path) -> io::Result<File> {
    let mut file = if let Ok(memory) = rustix::fs::memfd_create("payload", MemfdFlags::CLOEXEC) {
        File::from(memory)
    } else {
        // A kernel without memory files.
        let path = tmp.join("payload");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path)?;
        fs::remove_file(&path)?;
        file
    };
    file.write_all(payload)?;
    file.rewind()?;
    Ok(file)
}

/// What the child was refused of its limits or its user.
fn denied(errno: Errno, start: &Start, tmp: &Path) -> Option<String> {
    let user = start.limits.identity.as_ref().map_or(0, |it| it.uid);
    if errno == UNLIMITED {
        return Some(start.limits.refused());
    }
    if errno == UNCHANGED {
        return Some(format!("this worker may not become user {user}"));
    }
    (errno == UNREACHABLE).then(|| {
        let tmp = tmp.display();
        format!("user {user} cannot reach {tmp}: every directory above it must let others pass")
    })
}

/// Puts the number that the child reported into words.
fn explain(error: &io::Error, start: &Start, program: &OsString, tmp: &Path) -> StartError {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let shown = program.to_string_lossy();
    if errno == Some(YIELDED) {
        return StartError::Superseded;
    }
    if errno == Some(UNCLAIMED) {
        let run = start.run_dir.display();
        return StartError::Host(format!(
            "cannot claim the start of attempt {} in {run}",
            start.fence
        ));
    }
    if let Some(why) = errno.and_then(|errno| denied(errno, start, tmp)) {
        return StartError::Command(format!("cannot run `{shown}`: {why}"));
    }
    if let Some(cwd) = start.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        let cwd = cwd.display();
        return StartError::Command(format!("cannot run `{shown}` in {cwd}: no such directory"));
    }
    match errno {
        Some(Errno::NOENT) if !shown.contains('/') => {
            StartError::Command(format!("cannot run `{shown}`: command not found"))
        }
        Some(Errno::NOENT) if Path::new(program).exists() => StartError::Command(format!(
            "cannot run `{shown}`: the interpreter that its first line names is not there"
        )),
        Some(Errno::NOENT | Errno::NOTDIR) => {
            StartError::Command(format!("cannot run `{shown}`: no such file"))
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            StartError::Command(format!("cannot run `{shown}`: not permitted or not executable"))
        }
        Some(Errno::NOEXEC | Errno::ISDIR | Errno::TOOBIG | Errno::INVAL | Errno::LOOP) => {
            StartError::Command(format!("cannot run `{shown}`: {error}"))
        }
        _ if error.kind() == io::ErrorKind::InvalidInput => {
            StartError::Command(format!("cannot run `{shown}`: {error}"))
        }
        Some(Errno::AGAIN) if start.limits.processes.is_some() => StartError::Limit(format!(
            "cannot start `{shown}`: its user has as many processes as `processes` allows, or as \
             this host does"
        )),
        _ => StartError::Host(format!("cannot start `{shown}`: {error}")),
    }
}
