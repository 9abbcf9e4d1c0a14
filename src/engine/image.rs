//! The state as records of a snapshot.

use super::codec::{
    self, KIND_ALERTS, KIND_FIGURES, KIND_HEAD, KIND_SCHEDULE, KIND_TASK, KIND_TYPE,
    KIND_TYPE_FIGURES, KIND_WORKER,
};
use crate::journal::disk::Disk;
use crate::journal::{JournalError, SnapshotDone, SnapshotWriter};
use crate::kernel::Image;
use crate::kernel::figures::Figures;
use sha2::{Digest, Sha256};

/// Hands every record of an image to `push`: the head, the workers, the task types of which
/// something is known, the schedules, the figures, the alerts where there are any, the tasks, in
/// that order.
/// The same state always gives the same records.
pub fn for_each_record<E>(
    image: &Image,
    mut push: impl FnMut(u16, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let Image { head, tasks, workers, types, schedules, figures, alerts } = image;
    let mut body = Vec::new();
    codec::put_plain(head, &mut body);
    push(KIND_HEAD, &body)?;
    for worker in workers.values() {
        body.clear();
        codec::put_plain(worker, &mut body);
        push(KIND_WORKER, &body)?;
    }
    for known in types.values() {
        body.clear();
        codec::put_plain(known, &mut body);
        push(KIND_TYPE, &body)?;
    }
    for schedule in schedules.values() {
        body.clear();
        codec::put_plain(schedule, &mut body);
        push(KIND_SCHEDULE, &body)?;
    }
    if let Some(Figures { types, all }) = figures {
        body.clear();
        codec::put_plain(&**all, &mut body);
        push(KIND_FIGURES, &body)?;
        for figures in types.values() {
            body.clear();
            codec::put_plain(&**figures, &mut body);
            push(KIND_TYPE_FIGURES, &body)?;
        }
    }
    if !alerts.is_empty() {
        body.clear();
        codec::put_plain(alerts, &mut body);
        push(KIND_ALERTS, &body)?;
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
