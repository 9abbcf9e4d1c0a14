//! The load: so many clients, each with a connection of its own, one operation after the other.

use crate::table::Round;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a client does all the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// One task.
    Submit,
    /// A thousand tasks in one request.
    Bulk,
    /// A task goes in, a task is taken, a task is finished.
    Cycle,
    /// A task that waits is taken and finished.
    Take,
}

/// One client's connection. Each call is acknowledged when it returns.
pub(crate) trait Client: Send {
    /// Does one operation; returns how many tasks it moved.
    fn act(&mut self, op: Op, number: u64) -> Fallible<u64>;
}

/// A system that can be started in an empty directory.
pub(crate) trait Server: Sync {
    fn name(&self) -> &'static str;
    /// Fails where it is not installed.
    fn version(&self) -> Fallible<String>;
    /// Starts it and waits until it answers.
    fn start(&self, dir: &Path) -> Fallible<Running>;
    /// The same in the mode that is quickest to load; what was loaded stays for [`Server::start`].
    fn start_loading(&self, dir: &Path) -> Fallible<Running> {
        self.start(dir)
    }
    fn client(&self, running: &Running, op: Op) -> Fallible<Box<dyn Client>>;
}

/// A started system; it is ended when this is dropped.
pub(crate) struct Running {
    pub(crate) process: Child,
    pub(crate) dir: PathBuf,
    pub(crate) socket: PathBuf,
    /// Leave the directory to whoever comes next.
    kept: bool,
}

impl Running {
    pub(crate) fn new(process: Child, dir: &Path, socket: PathBuf) -> Self {
        Self { process, dir: dir.to_owned(), socket, kept: false }
    }

    /// Ends it in good order.
    pub(crate) fn end(&mut self) -> Fallible<()> {
        if self.process.try_wait()?.is_none() {
            let pid = rustix::process::Pid::from_child(&self.process);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
            self.process.wait()?;
        }
        Ok(())
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) -> Fallible<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Its directory, which stays.
    pub(crate) fn leave(mut self) -> PathBuf {
        self.kept = true;
        self.dir.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("bench: cannot end {}: {error}", self.process.id());
        }
        if self.kept {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("bench: cannot remove {}: {error}", self.dir.display());
        }
    }
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) op: Op,
    pub(crate) clients: usize,
    pub(crate) span: Duration,
}

/// Operations of each client before anything is measured.
const WARM_UP: u64 = 20;

/// Operations of one client at most.
const OPERATIONS_MAX: u64 = 1_000_000;

impl Load {
    /// Starts the system afresh and loads it.
    pub(crate) fn on(self, server: &dyn Server, dir: &Path) -> Fallible<Round> {
        self.run(server, &server.start(&fresh(dir, server.name())?)?)
    }

    /// Loads what runs already.
    pub(crate) fn run(self, server: &dyn Server, running: &Running) -> Fallible<Round> {
        let gate = Barrier::new(self.clients);
        let results = thread::scope(|scope| {
            let one = |number| {
                let gate = &gate;
                scope.spawn(move || self.client(server, running, gate, number))
            };
            let clients: Vec<_> = (0..self.clients).map(one).collect();
            clients.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        let (mut times, mut done, mut seconds) = (Vec::new(), 0, 0.0_f64);
        for result in results {
            let (its, moved, took) = result.map_err(|_panic| "a client broke off")??;
            times.extend(its);
            done += moved;
            seconds = seconds.max(took);
        }
        Ok(Round::of(times, done, seconds))
    }

    fn client(
        self,
        server: &dyn Server,
        running: &Running,
        gate: &Barrier,
        number: usize,
    ) -> Fallible<(Vec<u64>, u64, f64)> {
        let mut number = (number as u64 + 1) * OPERATIONS_MAX * 2;
        let opened = server.client(running, self.op).and_then(|mut client| {
            for _ in 0..WARM_UP {
                number += 1;
                client.act(self.op, number)?;
            }
            Ok(client)
        });
        // Whoever failed must still come to the gate, or the others wait for ever.
        gate.wait();
        let mut client = opened?;
        let (mut times, mut moved, began) = (Vec::with_capacity(1 << 16), 0, Instant::now());
        while began.elapsed() < self.span && (times.len() as u64) < OPERATIONS_MAX {
            number += 1;
            let at = Instant::now();
            moved += client.act(self.op, number)?;
            times.push(u64::try_from(at.elapsed().as_nanos())?);
        }
        Ok((times, moved, began.elapsed().as_secs_f64()))
    }
}

/// An empty directory.
pub(crate) fn fresh(dir: &Path, name: &str) -> Fallible<PathBuf> {
    let dir = dir.join(name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// A payload of 200 bytes; the filler is text that no compression makes much smaller.
pub(crate) fn payload(number: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // Always twelve digits, none of them a leading zero.
    let seq = number % 900_000_000_000 + 100_000_000_000;
    let mut text = format!("{{\"seq\":{seq},\"data\":\"");
    let mut word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while text.len() < 198 {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        let letter = usize::try_from(word >> 58).ok().and_then(|at| LETTERS.get(at));
        text.push(char::from(letter.copied().unwrap_or(b'A')));
    }
    text.push_str("\"}");
    text
}

/// Tries until it works; what waits here has been started a moment ago.
pub(crate) fn patiently<T>(what: &str, mut attempt: impl FnMut() -> Fallible<T>) -> Fallible<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(error) if began.elapsed() > Duration::from_secs(30) => {
                return Err(format!("{what}: {error}").into());
            }
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}
