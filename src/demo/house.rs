//! The directory of the demo, and the daemon that lives in it.

use super::{DemoError, DemoOptions};
use crate::client::Blocking;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::time::Timespec;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

/// The longest path of a socket, and what stands after the directory's.
const SOCKET_BYTES_MAX: usize = 107 - "/midwatch.sock".len();
/// How long the daemon may take to drain, and then to die.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer that takes longer comes from an engine that is about to be replaced.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A directory with a text, a handler, a config, and a daemon.
pub(super) struct House {
    dir: PathBuf,
    daemon: Child,
    end: OwnedFd,
    client: Blocking,
    program: PathBuf,
}

impl House {
    /// Makes the directory, has written what belongs in it and starts the daemon.
    pub(super) fn furnish(
        options: &DemoOptions,
        write: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Self, DemoError> {
        let dir = make_dir(&options.place).map_err(DemoError::io("make its directory"))?;
        let started = write(&dir).and_then(|()| {
            let client = Blocking::connect(dir.join("midwatch.sock"))?;
            start(&options.program, &dir).map(|(daemon, end)| (daemon, end, client))
        });
        let (daemon, end, client) = started.map_err(DemoError::io("start a daemon"))?;
        let client = client.answering_within(ANSWER_WITHIN);
        Ok(Self { dir, daemon, end, client, program: options.program.clone() })
    }

    /// Starts the daemon anew, after it was stopped.
    pub(super) fn start(&mut self) -> Result<(), DemoError> {
        let started = start(&self.program, &self.dir);
        (self.daemon, self.end) = started.map_err(DemoError::io("start the daemon anew"))?;
        Ok(())
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn client(&self) -> &Blocking {
        &self.client
    }

    /// Pid of the supervisor.
    pub(super) fn supervisor(&self) -> u32 {
        self.daemon.id()
    }

    /// The program, as one would type it here.
    pub(super) fn program(&self) -> String {
        let here = std::env::current_dir().unwrap_or_default();
        self.program.strip_prefix(here).unwrap_or(&self.program).display().to_string()
    }

    /// A file that the handler writes; empty as long as there is none.
    pub(super) fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.dir.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What the daemon had to say.
    pub(super) fn log(&self) -> String {
        self.read("daemon.log")
    }

    /// Lets `span` pass; fails at once when the daemon ends.
    pub(super) fn pass(&mut self, span: Duration) -> Result<(), DemoError> {
        self.until_end(span).map_err(DemoError::io("wait"))?;
        match self.daemon.try_wait().map_err(DemoError::io("ask for the daemon"))? {
            None => Ok(()),
            Some(status) => {
                Err(DemoError::new("go on", &format_args!("the daemon ended, {status}")))
            }
        }
    }

    /// Lets `span` pass while there is no daemon.
    pub(super) fn rest(span: Duration) -> Result<(), DemoError> {
        let timeout = Timespec::try_from(span).ok();
        match poll(&mut [], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(DemoError::new("rest", &error)),
        }
    }

    fn until_end(&self, span: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(span).ok();
        match poll(&mut [PollFd::new(&self.end, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs another command of the program against this daemon.
    pub(super) fn ask(&self, args: &[&str]) -> Result<Output, DemoError> {
        let mut command = command(&self.program, &self.dir);
        // Two columns are the demo's own.
        let output = command.args(args).env("COLUMNS", "78").stdin(Stdio::null()).output();
        output.map_err(DemoError::io(format!("run `midwatch {}`", args.join(" "))))
    }

    /// Has the daemon drain and end, as an init system would.
    pub(super) fn stop(&mut self) -> Result<ExitStatus, DemoError> {
        for _ in 0..2 {
            // A second SIGTERM ends everything at once.
            if let Some(status) = self.daemon.try_wait().map_err(DemoError::io("stop"))? {
                return Ok(status);
            }
            kill_process(Pid::from_child(&self.daemon), Signal::TERM)
                .map_err(io::Error::from)
                .and_then(|()| self.until_end(PATIENCE))
                .map_err(DemoError::io("stop the daemon"))?;
        }
        if let Some(status) = self.daemon.try_wait().map_err(DemoError::io("stop"))? {
            return Ok(status);
        }
        self.daemon
            .kill()
            .and_then(|()| self.daemon.wait())
            .map_err(DemoError::io("kill the daemon"))
    }

    /// Ends the demo's stay: the directory goes, unless it is to be kept.
    pub(super) fn leave(self, keep: bool) {
        let dir = self.dir.clone();
        drop(self);
        if !keep && let Err(error) = fs::remove_dir_all(&dir) {
            tracing::warn!(%error, "{} is left over", dir.display());
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!(%error, "the daemon of the demo may still run");
        }
    }
}

/// The daemon, and what tells that it has ended.
fn start(program: &Path, dir: &Path) -> io::Result<(Child, OwnedFd)> {
    let log = || OpenOptions::new().create(true).append(true).open(dir.join("daemon.log"));
    let mut daemon = command(program, dir)
        .arg("daemon")
        .stdin(Stdio::null())
        .stdout(log()?)
        .stderr(log()?)
        .spawn()?;
    match pidfd_open(Pid::from_child(&daemon), PidfdFlags::empty()) {
        Ok(end) => Ok((daemon, end)),
        Err(error) => {
            daemon.kill()?;
            daemon.wait()?;
            Err(error.into())
        }
    }
}

/// `program` with the three places of this house.
fn command(program: &Path, dir: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the demo is a user; a daemon is no handler")]
    let mut command = Command::new(program);
    command.arg("--config").arg(dir.join("midwatch.toml"));
    command.arg("--data-dir").arg(dir.join("data"));
    command.arg("--socket").arg(dir.join("midwatch.sock"));
    command
}

/// A directory that nobody had before, with a name short enough for a socket in it.
fn make_dir(place: &Path) -> io::Result<PathBuf> {
    let pid = std::process::id();
    let name = |n: u32| format!("midwatch-demo-{pid}-{n}");
    let fits = place.as_os_str().len() + name(u32::MAX).len() < SOCKET_BYTES_MAX;
    let place = if fits { place } else { Path::new("/tmp") };
    for n in 1.. {
        let dir = place.join(name(n));
        match DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.and_then(|()| fs::canonicalize(&dir)),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Writes files that nobody else reads, each once.
pub(super) fn write_files(files: &[(PathBuf, &str)]) -> io::Result<()> {
    for (path, text) in files {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))?;
    }
    Ok(())
}

/// A path as text.
pub(super) fn utf8(path: &Path) -> io::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| io::Error::other(format!("{} is not UTF-8", path.display())))
}
