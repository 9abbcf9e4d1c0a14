//! What handlers print: from their pipes to `logs/<task>/<attempt>.log`, byte for byte.
//!
//! One thread writes all logs, so a slow or full disk never stops the worker, and a handler only
//! for a moment: between pipe and thread an attempt has [`BUFFER_BYTES_MAX`] of room, and when
//! the log has taken nothing for [`PATIENCE`] the output is dropped and counted.
//!
//! A log that outgrows its limit keeps its first half limit, then a line that says how many bytes
//! are missing, then the latest bytes. It is so at every moment, also after a crash.

use crate::kernel::ids::Fence;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

/// Output of one attempt that may wait for the log.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// How long a handler waits for room in its log's buffer before output is dropped.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes taken from a pipe at once.
const CHUNK_BYTES: usize = 32 << 10;

/// Jobs that may wait for the thread.
const JOBS_QUEUED_MAX: usize = 1024;

/// Smallest limit of a log; below it a marker would not fit.
const LOG_BYTES_MIN: u64 = 1024;

/// Longest last line that is remembered for the attempt's error.
const LAST_LINE_BYTES_MAX: usize = 1024;

/// Work for the thread.
#[derive(Debug)]
pub(super) enum Job {
    /// A log begins.
    Open { fence: Fence, path: PathBuf, max: u64 },
    /// Bytes for a log, and how many were dropped before them.
    Bytes { fence: Fence, bytes: Vec<u8>, missed: u64, room: Option<OwnedSemaphorePermit> },
    /// A log ends, and the attempt's directory with it.
    Close { fence: Fence, missed: u64, tmp: PathBuf, done: oneshot::Sender<()> },
}

/// Starts the thread that writes logs. It ends when every sender is gone.
pub(super) fn start_writer() -> io::Result<mpsc::Sender<Job>> {
    let (jobs, mut queue) = mpsc::channel(JOBS_QUEUED_MAX);
    thread::Builder::new().name("logs".into()).spawn(move || {
        let mut logs: BTreeMap<Fence, Log> = BTreeMap::new();
        while let Some(job) = queue.blocking_recv() {
            work(&mut logs, job);
        }
    })?;
    Ok(jobs)
}

fn work(logs: &mut BTreeMap<Fence, Log>, job: Job) {
    match job {
        Job::Open { fence, path, max } => {
            logs.insert(fence, Log::new(path, max));
        }
        Job::Bytes { fence, bytes, missed, room } => {
            if let Some(log) = logs.get_mut(&fence) {
                log.take(&bytes, missed);
            }
            drop(room);
        }
        Job::Close { fence, missed, tmp, done } => {
            if let Some(mut log) = logs.remove(&fence) {
                log.take(&[], missed);
            }
            if done.send(()).is_err() {
                tracing::debug!(%fence, "the log was closed late");
            }
            match fs::remove_dir_all(&tmp) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%fence, %error, dir = %tmp.display(), "cannot remove it");
                }
                _ => {}
            }
        }
    }
}

/// The log of one attempt.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    max: u64,
    file: Option<File>,
    length: u64,
    /// Length of the marker behind the head; 0 while there is none.
    marker: u64,
    /// Bytes cut out behind the head.
    cut: u64,
    /// Bytes that never reached the file, still to be told.
    missed: u64,
    /// Whether the last failure was reported.
    failing: bool,
}

impl Log {
    fn new(path: PathBuf, max: u64) -> Self {
        let max = max.max(LOG_BYTES_MIN);
        let mut log =
            Self { path, max, file: None, length: 0, marker: 0, cut: 0, missed: 0, failing: false };
        log.take(&[], 0);
        log
    }

    /// Appends bytes. What cannot be written is counted, and told in the log once it can be.
    fn take(&mut self, bytes: &[u8], missed: u64) {
        self.missed += missed;
        match self.write(bytes) {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.missed += u64::try_from(bytes.len()).unwrap_or(0);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(log = %self.path.display(), %error, "cannot write the log");
                }
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ready()?;
        if 0 < self.missed {
            let marker = marker(self.missed);
            self.append(marker.as_bytes())?;
            self.missed = 0;
        }
        self.append(bytes)?;
        if self.max < self.length { self.shorten() } else { Ok(()) }
    }

    /// Opens the file, anew when somebody removed it.
    fn ready(&mut self) -> io::Result<()> {
        if let Some(file) = &self.file
            && 0 < file.metadata()?.nlink()
        {
            return Ok(());
        }
        if let Some(dir) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = file.open(&self.path)?;
        self.length = file.metadata()?.len();
        self.marker = 0;
        self.file = Some(file);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &self.file else { return Err(io::ErrorKind::NotFound.into()) };
        file.write_all_at(bytes, self.length)?;
        self.length += u64::try_from(bytes.len()).unwrap_or(0);
        Ok(())
    }

    /// Cuts the middle out: head, marker, and a quarter of the limit of the latest bytes stay.
    fn shorten(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let head = self.max / 2;
        let from = self.length.saturating_sub(self.max / 4);
        self.cut += from.saturating_sub(head + self.marker);
        let marker = marker(self.cut);
        let marker_length = u64::try_from(marker.len()).unwrap_or(0);
        let to = head + marker_length;
        if from < to {
            return Ok(());
        }
        file.write_all_at(marker.as_bytes(), head)?;
        let mut piece = vec![0; CHUNK_BYTES];
        let mut moved = 0;
        while from + moved < self.length {
            let read = file.read_at(&mut piece, from + moved)?;
            let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            file.write_all_at(bytes, to + moved)?;
            moved += u64::try_from(read).unwrap_or(0);
        }
        file.set_len(to + moved)?;
        self.length = to + moved;
        self.marker = marker_length;
        Ok(())
    }
}

fn marker(bytes: u64) -> String {
    format!("\n[midwatch: {bytes} bytes dropped]\n")
}

/// Where one attempt's output goes.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    fence: Fence,
    jobs: mpsc::Sender<Job>,
    room: Arc<Semaphore>,
}

impl Sink {
    /// A way to the log of this attempt.
    pub(super) fn new(fence: Fence, jobs: mpsc::Sender<Job>) -> Self {
        Self { fence, jobs, room: Arc::new(Semaphore::new(BUFFER_BYTES_MAX)) }
    }

    pub(super) const fn fence(&self) -> Fence {
        self.fence
    }

    /// Begins the log. The thread makes the file even when nothing is ever printed.
    pub(super) async fn open(&self, path: PathBuf, max: u64) {
        self.send(Job::Open { fence: self.fence, path, max }).await;
    }

    /// Puts a line of our own into the log.
    pub(super) async fn note(&self, text: String) {
        let bytes = text.into_bytes();
        self.send(Job::Bytes { fence: self.fence, bytes, missed: 0, room: None }).await;
    }

    /// Ends the log; returns once everything is in the file, or when that takes longer than
    /// `within`.
    pub(super) async fn close(&self, tmp: &Path, within: Duration) {
        let (done, closed) = oneshot::channel();
        let job = Job::Close { fence: self.fence, missed: 0, tmp: tmp.to_owned(), done };
        let closing = async {
            self.send(job).await;
            closed.await
        };
        if timeout(within, closing).await.is_err() {
            tracing::warn!(fence = %self.fence, "the log is slow; the attempt ends before it");
        }
    }

    async fn send(&self, job: Job) {
        if self.jobs.send(job).await.is_err() {
            tracing::error!(fence = %self.fence, "the thread that writes logs is gone");
        }
    }

    /// Moves everything from `pipe` to the log until its end, keeping the last line in `last`.
    pub(super) async fn pump(&self, pipe: OwnedFd, last: Option<LastLine>) -> io::Result<()> {
        let mut pipe = pipe::Receiver::from_owned_fd(pipe)?;
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut missed = 0;
        loop {
            let read = pipe.read(&mut buffer).await?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            if let Some(last) = &last {
                last.see(bytes);
            }
            let wanted = u32::try_from(read).unwrap_or(u32::MAX);
            let room = Arc::clone(&self.room).acquire_many_owned(wanted);
            // Once output is being dropped there is no waiting until the log moves again.
            let patience = if missed == 0 { PATIENCE } else { Duration::ZERO };
            let Ok(Ok(room)) = timeout(patience, room).await else {
                missed += u64::from(wanted);
                continue;
            };
            let (fence, bytes, room) = (self.fence, bytes.to_vec(), Some(room));
            self.send(Job::Bytes { fence, bytes, missed: std::mem::take(&mut missed), room }).await;
        }
        if 0 < missed {
            let bytes = Vec::new();
            self.send(Job::Bytes { fence: self.fence, bytes, missed, room: None }).await;
        }
        Ok(())
    }
}

/// The last line of standard error that was not empty.
#[derive(Clone, Debug, Default)]
pub(super) struct LastLine(Rc<RefCell<(Vec<u8>, Vec<u8>)>>);

impl LastLine {
    /// Looks at more output. What a very long line has beyond the bound is not kept.
    fn see(&self, bytes: &[u8]) {
        let mut held = self.0.borrow_mut();
        let (whole, open) = &mut *held;
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let room = LAST_LINE_BYTES_MAX.saturating_sub(open.len());
            open.extend(piece.iter().take(room));
            if pieces.peek().is_some() {
                if !open.trim_ascii().is_empty() {
                    std::mem::swap(whole, open);
                }
                open.clear();
            }
        }
    }

    /// The line, as text for people.
    pub(super) fn text(&self) -> String {
        let held = self.0.borrow();
        let (whole, open) = &*held;
        let line = if open.trim_ascii().is_empty() { whole } else { open };
        String::from_utf8_lossy(line.trim_ascii()).into_owned()
    }
}
