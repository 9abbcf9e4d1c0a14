//! A start on two cores: the thread that reads checks and decodes, a second one puts the state
//! together. Says how far it is when that takes long.

use crate::clock;
use crate::engine::{Fold, Piece, Rebuilding};
use crate::journal::{Record, Replay};
use crate::kernel::State;
use crate::kernel::ids::Millis;
use crate::kernel::text::Texts;
use crate::units;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Records that are not worth a second thread.
const ALONE_MAX: usize = 4096;

/// Pieces handed over at once; with [`HEAPS_QUEUED_MAX`] this bounds what is decoded ahead.
const HEAP: usize = 512;

/// Bytes of records after which a heap is handed over whatever its number.
const HEAP_BYTES: usize = 256 << 10;

/// Heaps that wait for the second thread; the reader waits when there are more.
const HEAPS_QUEUED_MAX: usize = 4;

/// How often to say how far it is, the first time included.
const SAY_EVERY: Millis = Millis::secs(1);

/// Rebuilds the state with the help of a second thread.
///
/// When a record cannot follow, the refusal names some later record, for the reader is ahead by
/// then. Nothing was written; replay once more with [`crate::engine::Rebuild`] for the place.
pub(super) struct Replayer {
    stage: Stage,
    heap: Vec<Piece>,
    heap_bytes: usize,
    /// The types seen so far: the second thread would free what this one has allocated, and both
    /// would wait for the allocator's lock.
    kinds: Texts,
    taken: usize,
    said: Millis,
}

enum Stage {
    /// On the thread that reads.
    Alone(Box<Fold>),
    /// On a thread of its own.
    Beside(SyncSender<Vec<Piece>>, JoinHandle<Result<Fold, String>>),
    /// That thread has said what does not fit.
    Failed(String),
    /// Everything was taken.
    Done(Box<State>),
}

impl Replayer {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Alone(Box::default()),
            heap: Vec::new(),
            heap_bytes: 0,
            kinds: Texts::default(),
            taken: 0,
            said: clock::monotonic(),
        }
    }

    /// Begins anew, after the snapshot that was being read turned out not to be whole.
    fn restart(&mut self) {
        let said = self.said;
        // The second thread, if there is one, ends for want of pieces; nobody asks what came of it.
        *self = Self { said, ..Self::new() };
    }

    fn take(&mut self, piece: Option<Piece>, bytes: usize) -> Result<(), String> {
        let Some(mut piece) = piece else { return Ok(()) };
        if let Some(kind) = piece.kind_mut() {
            self.kinds.share(kind);
        }
        if let Stage::Alone(fold) = &mut self.stage {
            self.taken = self.taken.saturating_add(1);
            if self.taken <= ALONE_MAX {
                return fold.take(piece);
            }
            self.stage = beside(std::mem::take(fold)).map_err(|error| error.to_string())?;
        }
        self.heap.push(piece);
        self.heap_bytes = self.heap_bytes.saturating_add(bytes);
        if self.heap.len() < HEAP && self.heap_bytes < HEAP_BYTES {
            return Ok(());
        }
        self.hand_over()
    }

    fn hand_over(&mut self) -> Result<(), String> {
        self.heap_bytes = 0;
        let heap = std::mem::replace(&mut self.heap, Vec::with_capacity(HEAP));
        if let Stage::Beside(heaps, _) = &self.stage
            && heaps.send(heap).is_err()
        {
            return self.conclude();
        }
        Ok(())
    }

    /// Waits for the second thread and takes what it made.
    fn conclude(&mut self) -> Result<(), String> {
        let stage = std::mem::replace(&mut self.stage, Stage::Failed(String::new()));
        self.stage = match stage {
            Stage::Alone(fold) => Stage::Done(Box::new(fold.finish())),
            Stage::Beside(heaps, thread) => {
                drop(heaps);
                match thread.join() {
                    Ok(Ok(fold)) => Stage::Done(Box::new(fold.finish())),
                    Ok(Err(text)) => Stage::Failed(text),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            stage @ (Stage::Failed(_) | Stage::Done(_)) => stage,
        };
        match &self.stage {
            Stage::Failed(text) => Err(text.clone()),
            Stage::Alone(_) | Stage::Beside(..) | Stage::Done(_) => Ok(()),
        }
    }
}

fn beside(fold: Box<Fold>) -> io::Result<Stage> {
    let (heaps, waiting) = sync_channel(HEAPS_QUEUED_MAX);
    let thread = thread::Builder::new().name("replay".to_owned());
    let thread = thread.spawn(move || put_together(*fold, &waiting))?;
    Ok(Stage::Beside(heaps, thread))
}

fn put_together(mut fold: Fold, heaps: &Receiver<Vec<Piece>>) -> Result<Fold, String> {
    for heap in heaps {
        for piece in heap {
            fold.take(piece)?;
        }
    }
    Ok(fold)
}

impl Replay for Replayer {
    fn snapshot_begin(&mut self, _seq: u64) -> Result<(), String> {
        self.restart();
        Ok(())
    }

    fn snapshot_failed(&mut self) {
        self.restart();
    }

    fn snapshot_record(&mut self, record: Record<'_>) -> Result<(), String> {
        self.take(Piece::of_snapshot(record)?, record.body.len())
    }

    fn record(&mut self, seq: u64, record: Record<'_>) -> Result<(), String> {
        self.take(Piece::of_journal(seq, record)?, record.body.len())
    }

    fn progress(&mut self, done: u64, total: u64) {
        let now = clock::monotonic();
        if now.0.saturating_sub(self.said.0) < SAY_EVERY.0 {
            return;
        }
        self.said = now;
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100).min(100);
        tracing::info!("reading the journal: {percent} % of {}", units::bytes(total));
    }

    fn replayed(&mut self) -> Result<(), String> {
        self.hand_over()?;
        self.conclude()
    }
}

impl Rebuilding for Replayer {
    fn finish(mut self) -> State {
        match (self.replayed(), self.stage) {
            (Ok(()), Stage::Done(state)) => *state,
            // A start goes no further than a replay that was refused.
            (Ok(()) | Err(_), _) => State::default(),
        }
    }
}

#[cfg(test)]
mod tests;
