//! What handlers print: from their pipes to `logs/<task>/<attempt>.log`, byte for byte.
//!
//! One thread writes all logs, so a slow or full disk never stops the worker, and a handler only
//! for a moment: between pipe and thread an attempt has [`BUFFER_BYTES_MAX`] of room, and when
//! the log has taken nothing for [`PATIENCE`] the output is dropped and counted.
//!
//! A log that outgrows its limit keeps its first quarter limit, then a line that says how many
//! bytes are missing, then the latest bytes. It is so at every moment, also after a crash, and for
//! whoever reads it meanwhile: what is cut takes the log's name as a new file.

use crate::kernel::ids::Fence;
use crate::process;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
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
    Close { fence: Fence, missed: u64, run_dir: PathBuf, done: oneshot::Sender<()> },
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
        Job::Close { fence, missed, run_dir, done } => {
            if let Some(mut log) = logs.remove(&fence) {
                log.take(&[], missed);
            }
            if done.send(()).is_err() {
                tracing::debug!(%fence, "the log was closed late");
            }
            if let Err(error) = process::remove_tmp(&run_dir, fence) {
                tracing::warn!(%fence, %error, "its temporary directory stays");
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
    fn take(&mut self, mut bytes: &[u8], missed: u64) {
        self.missed += missed;
        match self.write(&mut bytes) {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.missed += length_of(bytes);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(log = %self.path.display(), %error, "cannot write the log");
                }
            }
        }
    }

    /// Appends bytes piece by piece; those that are left when it fails are not in the log.
    fn write(&mut self, bytes: &mut &[u8]) -> io::Result<()> {
        self.ready()?;
        if 0 < self.missed {
            let marker = marker(self.missed);
            self.append(marker.as_bytes())?;
            self.missed = 0;
        }
        let piece = usize::try_from(self.max / 4).unwrap_or(usize::MAX);
        while let Some((first, rest)) = bytes.split_at_checked(bytes.len().min(piece))
            && !first.is_empty()
        {
            self.append(first)?;
            *bytes = rest;
        }
        Ok(())
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
        (self.marker, self.cut) = (0, 0);
        self.file = Some(file);
        Ok(())
    }

    /// Appends a piece of at most a quarter of the limit, after making room for it if need be.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.max < self.length + length_of(bytes) {
            self.shorten()?;
        }
        let Some(file) = &self.file else { return Err(io::ErrorKind::NotFound.into()) };
        file.write_all_at(bytes, self.length)?;
        self.length += length_of(bytes);
        Ok(())
    }

    /// Cuts the middle out: head, marker, and a quarter of the limit of the latest bytes stay.
    ///
    /// They are written beside the log and take its name when they are all there, so whoever reads
    /// meanwhile has the old one to its end.
    fn shorten(&mut self) -> io::Result<()> {
        let Some(old) = &self.file else { return Ok(()) };
        let head = self.max / 4;
        let from = self.length.saturating_sub(self.max / 4);
        let cut = self.cut + from.saturating_sub(head + self.marker);
        let marker = marker(cut);
        let beside = self.path.with_extension("log.new");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let new = options.open(&beside)?;
        let behind = head + length_of(marker.as_bytes());
        let copied = copy(old, 0..head, &new, 0)
            .and_then(|_| new.write_all_at(marker.as_bytes(), head))
            .and_then(|()| copy(old, from..self.length, &new, behind))
            .and_then(|copied| Ok(rustix::fs::rename(&beside, &self.path).map(|()| copied)?))
            .inspect_err(|_| drop(fs::remove_file(&beside)))?;
        self.length = behind + copied;
        self.marker = length_of(marker.as_bytes());
        self.cut = cut;
        self.file = Some(new);
        Ok(())
    }
}

/// Copies a range to a place in another file; how many bytes there were.
fn copy(from: &File, range: Range<u64>, to: &File, at: u64) -> io::Result<u64> {
    let mut piece = vec![0; CHUNK_BYTES];
    let mut done = 0;
    while range.start + done < range.end {
        let left = usize::try_from(range.end - range.start - done).unwrap_or(CHUNK_BYTES);
        let room = piece.get_mut(..left.min(CHUNK_BYTES)).unwrap_or_default();
        let read = from.read_at(room, range.start + done)?;
        let Some(bytes) = room.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        to.write_all_at(bytes, at + done)?;
        done += length_of(bytes);
    }
    Ok(done)
}

fn length_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(0)
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
    pub(super) async fn close(&self, run_dir: PathBuf, within: Duration) {
        let (done, closed) = oneshot::channel();
        let job = Job::Close { fence: self.fence, missed: 0, run_dir, done };
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
