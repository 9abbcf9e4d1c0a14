//! The state as records of a snapshot, and back.

use super::codec::{self, CodecError, KIND_HEAD, KIND_TASK, KIND_WORKER, Kept};
use crate::defect::Defect;
use crate::journal::disk::Disk;
use crate::journal::{JournalError, Record, Replay, SnapshotDone, SnapshotWriter};
use crate::kernel::ids::Seq;
use crate::kernel::{Head, Image, State, Table, Worker, apply};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Hands every record of an image to `push`: the head, the workers, the tasks, in that order.
/// The same state always gives the same records.
pub fn for_each_record<E>(
    image: &Image,
    mut push: impl FnMut(u16, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let Image { head, tasks, workers } = image;
    let mut body = Vec::new();
    codec::put_plain(head, &mut body);
    push(KIND_HEAD, &body)?;
    for worker in workers.values() {
        body.clear();
        codec::put_plain(worker, &mut body);
        push(KIND_WORKER, &body)?;
    }
    for task in tasks.iter() {
        body.clear();
        codec::put_plain(task, &mut body);
        push(KIND_TASK, &body)?;
    }
    Ok(())
}

/// Writes an image as a snapshot; runs on a thread of its own while the engine goes on.
///
/// # After a crash
/// The snapshot is there whole and verified, or it does not count.
pub fn write_snapshot<D: Disk>(
    image: &Image,
    mut writer: SnapshotWriter<D>,
) -> Result<SnapshotDone, JournalError> {
    for_each_record(image, |kind, body| writer.push(kind, false, body))?;
    writer.finish()
}

/// The canonical digest of a state, in hex: SHA-256 over its snapshot records.
pub fn digest(image: &Image) -> String {
    let mut hash = Sha256::new();
    let fed: Result<(), std::convert::Infallible> = for_each_record(image, |kind, body| {
        hash.update(kind.to_le_bytes());
        hash.update(u64::try_from(body.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(body);
        Ok(())
    });
    match fed {
        Ok(()) => hex(&hash.finalize()),
        Err(never) => match never {},
    }
}

/// Bytes as lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(nibble), 16));
        }
    }
    text
}

/// Rebuilds a state from a snapshot and the records after it.
#[derive(Default)]
pub struct Rebuild {
    head: Option<Head>,
    tasks: Table,
    workers: BTreeMap<crate::kernel::ids::WorkerId, Worker>,
    state: Option<State>,
}

impl Rebuild {
    /// The state, once everything was replayed.
    pub fn finish(mut self) -> State {
        self.state();
        self.state.unwrap_or_default()
    }

    /// The state so far; the first call closes the snapshot.
    fn state(&mut self) -> &mut State {
        self.state.get_or_insert_with(|| {
            State::restore(Image {
                head: self.head.take().unwrap_or_default(),
                tasks: std::mem::take(&mut self.tasks),
                workers: std::mem::take(&mut self.workers),
            })
        })
    }
}

/// An unknown kind stops the replay unless the writer said that it may be skipped.
fn unless_ignorable<T>(
    decoded: Result<T, CodecError>,
    record: Record<'_>,
) -> Result<Option<T>, String> {
    match decoded {
        Ok(value) => Ok(Some(value)),
        Err(CodecError::UnknownKind(_)) if record.ignorable || Defect::SkipUnknownKind.is_on() => {
            Ok(None)
        }
        Err(error) => Err(error.to_string()),
    }
}

impl Replay for Rebuild {
    fn snapshot_begin(&mut self, _seq: u64) -> Result<(), String> {
        *self = Self::default();
        Ok(())
    }

    fn snapshot_record(&mut self, record: Record<'_>) -> Result<(), String> {
        match unless_ignorable(codec::decode_kept(record.kind, record.body), record)? {
            Some(Kept::Head(head)) => self.head = Some(head),
            Some(Kept::Worker(worker)) => {
                self.workers.insert(worker.id, worker);
            }
            Some(Kept::Task(mut task)) => {
                if Defect::ForgetCheckpoint.is_on() {
                    task.life.iter_mut().for_each(|life| life.checkpoint = None);
                }
                let id = task.id;
                if !self.tasks.insert(*task) {
                    return Err(format!("task {id} stands in the snapshot twice"));
                }
            }
            None => {}
        }
        Ok(())
    }

    fn record(&mut self, seq: u64, record: Record<'_>) -> Result<(), String> {
        let decoded = codec::decode(Seq(seq), record.kind, record.body);
        let Some((stamp, event)) = unless_ignorable(decoded, record)? else { return Ok(()) };
        apply(self.state(), &stamp, &event).map_err(|illegal| illegal.to_string())
    }
}
