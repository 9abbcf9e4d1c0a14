//! A compaction on request, by whoever holds the lock of a directory in which no engine runs: one
//! snapshot that is proven, and an empty journal behind it.
//!
//! It opens the journal as a start does and records nothing: no start, no expiry, no retention. The
//! state, its digest and what the next start learns are the same before and after.

use super::image::{digest, write_snapshot};
use super::rebuild::{Rebuild, Rebuilding as _};
use crate::journal::segment::snapshot_path;
use crate::journal::store::{QUARANTINE_DIR, SNAPSHOT_DIR};
use crate::journal::{Disk, DiskFile as _, Host, Journal, JournalError, Options, Replay as _};
use crate::journal::{newest_header, read_snapshot};
use std::io;

/// What a compaction made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The sequence of the snapshot that is left.
    pub seq: u64,
    /// Its file, relative to the data directory.
    pub file: String,
    /// Its records.
    pub records: u64,
    /// Its length.
    pub bytes: u64,
    /// The digest of the state, before and after.
    pub digest: String,
}

/// Compacts a store; `None` when it holds nothing yet. `random` seeds salts and differs each time.
///
/// The new snapshot is synced and read back before it has its name; then it is read once more, past
/// the kernel's memory where the kernel lets it go, decoded, and its digest compared. Only then is
/// anything removed. A suspicious end is refused, for it takes a start to judge it.
///
/// # After a crash
/// The next start finds the same state; some older files may still be there.
pub fn compact<D: Disk>(
    disk: &D,
    options: Options,
    random: u64,
) -> Result<Option<Compacted>, JournalError> {
    // Nothing is written in the name of this machine and boot: who asks the segments when the store
    // was last in use gets the same answer as before.
    let Some(last) = newest_header(disk)? else { return Ok(None) };
    let host = Host { machine_id: last.machine_id, boot_id: last.boot_id, random };
    let options = Options { halt_on_suspicious_tail: true, ..options };
    let mut rebuild = Rebuild::default();
    let (mut journal, _) = Journal::open(disk.clone(), options, host, &mut rebuild)?;
    if journal.next_seq() == 1 {
        journal.close()?;
        return Ok(None);
    }
    let state = rebuild.finish();
    state.check().map_err(|text| JournalError::RefusedStore { text })?;
    let image = state.image();
    drop(state);
    let wanted = digest(&image);
    let writer = journal.snapshot_writer()?;
    let file = snapshot_path(writer.seq());
    let done = write_snapshot(&image, writer).inspect_err(|_| {
        // What was written of it must not fill the disk; if it stays, the next start removes it.
        drop(disk.remove(&format!("{file}.tmp")));
    })?;
    drop(image); // the second state is not held beside the first
    let (seq, records, bytes) = (done.seq, done.records, done.bytes);
    let found = reread(disk, seq)?;
    if found != wanted {
        set_aside(disk, &file)?;
        let what = format!("its digest is {found}, that of the journal {wanted}");
        return Err(JournalError::SnapshotUnreadable { file, what });
    }
    journal.snapshot_alone(done)?;
    journal.close()?;
    Ok(Some(Compacted { seq, file, records, bytes, digest: wanted }))
}

/// The digest of the state that a snapshot holds, from the device where that can be had.
fn reread(disk: &impl Disk, seq: u64) -> Result<String, JournalError> {
    let file = snapshot_path(seq);
    let io = |doing, source| JournalError::Io { doing, file: file.clone(), source };
    let open = disk.open_read(&file).map_err(|source| io("open", source))?;
    open.forget().map_err(|source| io("read", source))?;
    let mut rebuild = Rebuild::default();
    rebuild.snapshot_begin(seq).map_err(|text| JournalError::RefusedStore { text })?;
    read_snapshot(disk, seq, |record| rebuild.snapshot_record(record))?;
    Ok(digest(&rebuild.finish().image()))
}

/// A snapshot that is not what it was made of must not be the one a start begins with.
fn set_aside(disk: &impl Disk, file: &str) -> Result<(), JournalError> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let io =
        |source: io::Error| JournalError::Io { doing: "set aside", file: file.to_owned(), source };
    disk.rename(file, &format!("{QUARANTINE_DIR}/{name}")).map_err(io)?;
    [SNAPSHOT_DIR, QUARANTINE_DIR].iter().try_for_each(|dir| disk.sync_dir(dir)).map_err(io)
}
