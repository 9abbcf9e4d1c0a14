//! A worker in a program of your own: numbers the lines of a text, some at a time.
//!
//! ```text
//! embedded DATA_DIR
//! midwatch submit number_lines '{"from": "/srv/in.txt", "to": "/srv/out.txt", "batch": 100}'
//! ```
//!
//! The config of the daemon has `[handlers.number_lines]` with `embedded = true`.

use midwatch::worker::{Context, Failure, Worker, WorkerError};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What is submitted.
#[derive(Deserialize)]
struct Job {
    from: PathBuf,
    to: PathBuf,
    batch: usize,
}

/// How far the work is.
#[derive(Default, Serialize, Deserialize)]
struct Cursor {
    /// Lines that are done.
    lines: usize,
    /// Length of the file they are in.
    bytes: u64,
}

fn number_lines(task: &Context) -> Result<(), Failure> {
    let Job { from, to, batch } = task.payload()?;
    let cursor: Cursor = task.last_checkpoint()?.unwrap_or_default();
    writeln!(task.log(), "attempt {} begins behind line {}", task.attempt(), cursor.lines)?;
    let mut text = BufReader::new(File::open(from)?).lines().skip(cursor.lines);
    let mut out = OpenOptions::new().write(true).create(true).truncate(false).open(to)?;
    // What came after the checkpoint was written by an attempt that died: it is written again.
    out.set_len(cursor.bytes)?;
    let mut bytes = out.seek(SeekFrom::End(0))?;
    let mut lines = cursor.lines;
    loop {
        let mut piece = String::new();
        for line in text.by_ref().take(batch.max(1)) {
            lines += 1;
            piece += &format!("{lines} {}\n", line?);
        }
        if piece.is_empty() {
            return task.result(&Cursor { lines, bytes });
        }
        out.write_all(piece.as_bytes())?;
        // The checkpoint will be on stable storage; what it speaks of has to be there before it.
        out.sync_data()?;
        bytes = out.stream_position()?;
        task.checkpoint(&Cursor { lines, bytes })?;
        task.progress(lines as u64, None, Some("lines"))?;
        if task.should_stop() {
            return Ok(());
        }
    }
}

/// The whole worker.
pub(crate) fn work(data_dir: &Path) -> Result<(), WorkerError> {
    Worker::new(data_dir).name("numbers").handle("number_lines", number_lines).slots(2).run()
}

fn main() -> Result<(), WorkerError> {
    let data_dir = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    work(&data_dir)
}
