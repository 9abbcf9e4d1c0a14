//! The queue of lines, and the thread that writes them.

use super::file::LogFile;
use super::line::Said;
use crate::config::Rotate;
use crate::process::start_deaf_thread;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracing::Level;

/// Lines that wait to be written at most.
const LINES_MAX: usize = 4096;

/// Bytes of them at most.
const BYTES_MAX: usize = 1 << 20;

/// How long a reader of stderr who reads nothing is waited for. After that, lines pass him by until
/// he reads again.
const READER_TIME: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How often a queue that is full is tried again at the end.
const FLUSH_EVERY: Duration = Duration::from_millis(10);

/// What a pipe takes without waiting when it is ready at all.
const PIECE_BYTES: usize = 4096;

/// What is written where.
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the config, or a fact")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The directory of the files; none where there are no files.
    pub(super) dir: Option<PathBuf>,
    /// The directory that has to be there first, where `dir` is part of it.
    pub(super) within: Option<PathBuf>,
    pub(super) rotate: Rotate,
    pub(super) max_size: u64,
    pub(super) keep: u32,
    pub(super) compress: bool,
    pub(super) echo: Echo,
    pub(super) json: bool,
    /// Whether lines on stderr are coloured.
    pub(super) colour: bool,
}

/// What also goes to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echo {
    All,
    Warnings,
}

enum Message {
    Write(Said),
    /// Everything before it was written.
    Flush(SyncSender<()>),
}

/// The way to the thread.
#[derive(Clone)]
pub(super) struct Writer {
    to: SyncSender<Message>,
    load: Arc<Load>,
}

#[derive(Default)]
struct Load {
    bytes: AtomicUsize,
    /// Lines that found no room in the queue since that was last told.
    lost: AtomicU64,
    /// What holds from the next line on.
    next: Mutex<Option<Settings>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(process: String, name: String, settings: Settings) -> io::Result<Self> {
        let (to, from) = sync_channel(LINES_MAX);
        let load = Arc::new(Load::default());
        let its = Arc::clone(&load);
        start_deaf_thread("log", move || Desk::new(process, name, settings).work(&from, &its))?;
        Ok(Self { to, load })
    }

    /// Hands a line over; never waits.
    pub(super) fn write(&self, said: Said) {
        let bytes = said.bytes();
        let queued = self.load.bytes.fetch_add(bytes, Ordering::Relaxed);
        if BYTES_MAX < queued || self.to.try_send(Message::Write(said)).is_err() {
            self.load.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.load.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the next lines as `settings` say. Not by way of the queue, which may be full.
    pub(super) fn change(&self, settings: Settings) {
        *self.load.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings);
    }

    /// Returns when all that was handed over is written, or after `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let began = crate::clock::monotonic();
        let (done, written) = sync_channel(1);
        while let Err(TrySendError::Full(_)) = self.to.try_send(Message::Flush(done.clone())) {
            let waited = crate::clock::monotonic().0.saturating_sub(began.0);
            if limit <= Duration::from_millis(waited) {
                return;
            }
            #[expect(clippy::disallowed_methods, reason = "the process is about to end")]
            std::thread::sleep(FLUSH_EVERY);
        }
        if written.recv_timeout(limit).is_err() {
            // The last lines are lost; whom to tell is what does not answer.
        }
    }
}

/// Where the lines are written.
struct Desk {
    /// As whom its lines speak.
    process: String,
    settings: Settings,
    /// Lines from info on.
    main: LogFile,
    /// Lines below that.
    debug: LogFile,
    stderr: Reader,
}

impl Desk {
    fn new(process: String, name: String, settings: Settings) -> Self {
        let debug = LogFile::new(format!("{name}.debug"));
        let main = LogFile::new(name);
        Self { process, settings, main, debug, stderr: Reader::default() }
    }

    fn work(mut self, from: &Receiver<Message>, load: &Load) {
        while let Ok(message) = from.recv() {
            match message {
                Message::Write(said) => {
                    load.bytes.fetch_sub(said.bytes(), Ordering::Relaxed);
                    let next = load.next.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some(settings) = next {
                        self.change(settings);
                    }
                    self.write(&said);
                    let lost = load.lost.swap(0, Ordering::Relaxed);
                    if lost != 0 {
                        self.write(&Said::own(format!(
                            "{lost} lines came faster than the log could be written, and are lost"
                        )));
                    }
                }
                Message::Flush(done) => drop(done.try_send(())),
            }
        }
    }

    fn change(&mut self, settings: Settings) {
        if settings.dir != self.settings.dir {
            self.main = self.main.elsewhere();
            self.debug = self.debug.elsewhere();
        }
        self.settings = settings;
    }

    fn write(&mut self, said: &Said) {
        let Settings { json, colour, .. } = self.settings;
        let line = said.line(&self.process, json);
        let echo = match self.settings.echo {
            Echo::All => true,
            Echo::Warnings => said.level() <= Level::WARN,
        };
        let own = |said: &Said| said.line(&self.process, json);
        if echo && colour && !json {
            self.stderr.write(&said.text(true), own);
        } else if echo {
            self.stderr.write(&line, own);
        }
        let file = if said.level() <= Level::INFO { &mut self.main } else { &mut self.debug };
        if let Some(trouble) = file.write(&line, &self.settings) {
            self.stderr.write(&own(&Said::own(trouble)), own);
        }
    }
}

/// Who reads stderr.
#[derive(Default)]
struct Reader {
    /// He does not read.
    asleep: bool,
    /// Lines that passed him by.
    missed: u64,
}

impl Reader {
    /// Writes a line; `own` makes one of what has to be said besides.
    fn write(&mut self, line: &str, own: impl Fn(&Said) -> String) {
        if self.missed != 0 && is_ready(Timespec::default()) {
            let missed = std::mem::take(&mut self.missed);
            let told = Said::own(format!("{missed} lines were not read here in time"));
            self.asleep = !put(own(&told).as_bytes(), READER_TIME);
        }
        let patience = if self.asleep { Timespec::default() } else { READER_TIME };
        self.asleep = !put(line.as_bytes(), patience);
        if self.asleep {
            self.missed = self.missed.saturating_add(1);
        }
    }
}

/// Writes to stderr, in pieces that need no waiting; whether all of it was taken.
fn put(mut bytes: &[u8], patience: Timespec) -> bool {
    while !bytes.is_empty() {
        if !is_ready(patience) {
            return false;
        }
        let (piece, _) = bytes.split_at(bytes.len().min(PIECE_BYTES));
        match rustix::io::write(rustix::stdio::stderr(), piece) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return false,
            // Closed, or a full disk: there is nobody to tell.
            Err(_) => return true,
        }
    }
    true
}

fn is_ready(patience: Timespec) -> bool {
    let stderr = rustix::stdio::stderr();
    let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
    // What cannot be polled can be written.
    poll(&mut fds, Some(&patience)) != Ok(0)
}
