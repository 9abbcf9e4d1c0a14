//! Snapshots: the state at one sequence, in the same frames as the journal.
//!
//! Written aside, synced, read back, renamed, and only then named anywhere. The last frame has no
//! record and states how many there were, so that a snapshot that was cut is not taken for whole.

use super::disk::{Disk, DiskFile, write_all_at};
use super::error::JournalError;
use super::frame::{self, Batch, FLAG_LAST, Record, Records, Salt, Slot};
use super::segment::{FileKind, HEADER_BYTES, Header, HeaderFault, snapshot_path};
use super::store::{SNAPSHOT_DIR, remove_if_there};
use super::walk::{Frame, Walk};
use crate::defect::Defect;

/// A snapshot as a scan finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFile {
    /// The sequence it stands at.
    pub seq: u64,
    /// The file, relative to the data directory.
    pub file: String,
    /// Whole records in it.
    pub records: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Why it can't be used.
    pub fault: Option<String>,
}

/// What becomes of a frame of a snapshot that is read.
type Take<'t> = &'t mut dyn FnMut(&Frame<'_>) -> Result<(), JournalError>;

/// Reads a snapshot through and checks all of it. Each whole frame goes to `take` at once, before
/// it is known whether the rest is whole too.
pub(super) fn verify(
    disk: &impl Disk,
    seq: u64,
    store: Option<[u8; 16]>,
    take: Take<'_>,
) -> Result<SnapshotFile, JournalError> {
    let found = SnapshotFile { seq, file: snapshot_path(seq), ..SnapshotFile::default() };
    verify_at(disk, found, store, take)
}

/// Refuses a snapshot of another store; looks at its header alone.
pub(super) fn check_store(
    disk: &impl Disk,
    seq: u64,
    store: Option<[u8; 16]>,
) -> Result<(), JournalError> {
    let file = snapshot_path(seq);
    match open(disk, &file) {
        Ok(Ok(walk)) if store.is_some_and(|store| store != walk.header.store) => {
            Err(JournalError::Foreign { file })
        }
        // A daemon that runs beside this reader may have removed it just now.
        Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(())
        }
        found => found.map(drop),
    }
}

fn verify_at(
    disk: &impl Disk,
    mut found: SnapshotFile,
    store: Option<[u8; 16]>,
    take: Take<'_>,
) -> Result<SnapshotFile, JournalError> {
    let mut walk = match open(disk, &found.file)? {
        Ok(walk) => walk,
        Err(fault) => {
            found.fault = Some(fault.to_string());
            return Ok(found);
        }
    };
    found.bytes = walk.len();
    if store.is_some_and(|store| store != walk.header.store) {
        return Err(JournalError::Foreign { file: found.file });
    }
    if walk.header.first_seq != found.seq {
        found.fault = Some(format!("the header says sequence {}", walk.header.first_seq));
        return Ok(found);
    }
    while !walk.ended {
        let offset = walk.offset;
        match walk.step()? {
            Ok(frame) => take(&frame)?,
            Err(fault) => {
                found.fault = Some(format!("at byte {offset}: {fault}"));
                break;
            }
        }
    }
    found.records = walk.records;
    Ok(found)
}

/// Refuses a snapshot of a format that this reader does not know, whatever else is wrong with it.
pub(super) fn check_format(disk: &impl Disk, seq: u64) -> Result<(), JournalError> {
    open(disk, &snapshot_path(seq)).map(drop)
}

fn open<D: Disk>(disk: &D, path: &str) -> Result<Result<Walk<D::File>, HeaderFault>, JournalError> {
    let file = disk.open_read(path).map_err(|source| JournalError::io("open", path, source))?;
    match Walk::open(file, path, FileKind::Snapshot)? {
        Err(HeaderFault::Newer { version, needs }) => {
            Err(JournalError::Newer { file: path.to_owned(), version, needs })
        }
        other => Ok(other),
    }
}

/// Gives every record of a snapshot, in order. It was verified before; what does not fit all the
/// same is an error, for the caller has already taken some of it.
pub fn read_snapshot(
    disk: &impl Disk,
    seq: u64,
    mut take: impl FnMut(Record<'_>) -> Result<(), String>,
) -> Result<(), JournalError> {
    let file = snapshot_path(seq);
    let unreadable = |what: String| JournalError::SnapshotUnreadable { file: file.clone(), what };
    let mut walk = open(disk, &file)?.map_err(|fault| unreadable(fault.to_string()))?;
    while !walk.ended {
        let frame = walk.step()?.map_err(|fault| unreadable(fault.to_string()))?;
        take_records(&file, &frame, &mut take)?;
    }
    Ok(())
}

/// Gives the records of one frame to `take`; its refusal gets the place of the record.
pub(super) fn take_records(
    file: &str,
    frame: &Frame<'_>,
    mut take: impl FnMut(Record<'_>) -> Result<(), String>,
) -> Result<(), JournalError> {
    for (number, at, record) in Records::new(frame.head, frame.body) {
        take(record).map_err(|text| JournalError::Refused {
            file: file.to_owned(),
            offset: frame.offset.saturating_add(at),
            seq: number,
            text,
        })?;
    }
    Ok(())
}

/// How long a snapshot would be, without writing it.
#[derive(Debug)]
pub struct SnapshotLength {
    alignment: u32,
    /// Bytes of the frames that are full.
    bytes: u64,
    /// Bytes of the records of the frame at hand.
    body: usize,
}

impl SnapshotLength {
    /// A snapshot with frames of this alignment.
    pub fn new(alignment: u32) -> Self {
        Self { alignment, bytes: HEADER_BYTES, body: 0 }
    }

    /// Counts a record, as [`SnapshotWriter::push`] would write it.
    pub fn add(&mut self, body_len: usize) {
        let record = body_len + frame::RECORD_HEADER_BYTES;
        if self.body != 0 && frame::BATCH_BYTES_MAX < self.body + record {
            self.end_frame();
        }
        self.body += record;
    }

    fn end_frame(&mut self) {
        self.bytes += frame::padded(self.body, self.alignment) as u64;
        self.body = 0;
    }

    /// The length, with the frame that ends it.
    pub fn finish(mut self) -> u64 {
        if self.body != 0 {
            self.end_frame();
        }
        self.end_frame();
        self.bytes
    }
}

/// Writes one snapshot; may be sent to a thread of its own. Dropped before
/// [`SnapshotWriter::finish`] succeeded, it removes what it wrote; a crash leaves a `.tmp` file, which
/// the next start removes.
#[derive(Debug)]
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    file: D::File,
    path: String,
    aside: String,
    header: Header,
    offset: u64,
    records: u64,
    record_bytes: u64,
    batch: Batch,
    buffer: Vec<u8>,
    mark: u64,
    /// It has its name.
    finished: bool,
}

/// A snapshot that is durable and was read back; goes to [`super::Journal::snapshot_done`].
#[derive(Debug)]
pub struct SnapshotDone {
    /// The sequence it stands at.
    pub seq: u64,
    /// Its records.
    pub records: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Record bytes the journal had taken when the snapshot began.
    pub(super) mark: u64,
}

impl<D: Disk> SnapshotWriter<D> {
    pub(super) fn create(disk: D, header: Header, mark: u64) -> Result<Self, JournalError> {
        let path = snapshot_path(header.first_seq);
        let aside = format!("{path}.tmp");
        remove_if_there(&disk, &aside)?;
        let file =
            disk.create(&aside).map_err(|source| JournalError::io("create", &aside, source))?;
        let mut writer = Self {
            disk,
            file,
            path,
            aside,
            header,
            offset: HEADER_BYTES,
            records: 0,
            record_bytes: 0,
            batch: Batch::new(),
            buffer: Vec::new(),
            mark,
            finished: false,
        };
        write_all_at(&mut writer.file, 0, &header.encode(FileKind::Snapshot))
            .map_err(|source| JournalError::io("write", &writer.aside, source))?;
        Ok(writer)
    }

    /// The sequence the snapshot stands at.
    pub fn seq(&self) -> u64 {
        self.header.first_seq
    }

    /// Adds a record; writes when a frame is full.
    pub fn push(&mut self, kind: u16, ignorable: bool, body: &[u8]) -> Result<(), JournalError> {
        if !self.batch.fits(body.len()) {
            self.write_frame(0)?;
        }
        self.batch.push(kind, ignorable, body);
        Ok(())
    }

    fn write_frame(&mut self, flags: u16) -> Result<(), JournalError> {
        let slot = Slot {
            salt: Salt::new(self.header.salt),
            offset: self.offset,
            first_seq: self.records,
            flags,
            alignment: self.header.alignment,
        };
        self.buffer.clear();
        frame::encode(&self.batch, slot, &mut self.buffer);
        write_all_at(&mut self.file, self.offset, &self.buffer)
            .map_err(|source| JournalError::io("write", &self.aside, source))?;
        self.offset += self.buffer.len() as u64;
        self.records += u64::from(self.batch.len());
        self.record_bytes += self.batch.bytes() as u64;
        self.batch.clear();
        Ok(())
    }

    /// Ends the snapshot: synced, read back, renamed, directory synced.
    ///
    /// # After a crash
    /// Before `Ok` the previous snapshot is what counts; a `.tmp` file may be left.
    pub fn finish(mut self) -> Result<SnapshotDone, JournalError> {
        if !self.batch.is_empty() {
            self.write_frame(0)?;
        }
        self.write_frame(FLAG_LAST)?;
        if !Defect::DeleteBeforeDurable.is_on() {
            self.file.sync().map_err(|source| JournalError::sync(&self.aside, source))?;
        }
        let seq = self.header.first_seq;
        let wanted = SnapshotFile {
            seq,
            file: self.aside.clone(),
            records: self.records,
            bytes: self.offset,
            fault: None,
        };
        let blank = SnapshotFile { records: 0, bytes: 0, ..wanted.clone() };
        let found = verify_at(&self.disk, blank, Some(self.header.store), &mut |_| Ok(()))?;
        if found != wanted {
            let what = found.fault.unwrap_or_else(|| "it is shorter than it was".to_owned());
            return Err(JournalError::SnapshotUnreadable { file: wanted.file, what });
        }
        let rename = self.disk.rename(&self.aside, &self.path);
        rename.map_err(|source| JournalError::io("rename", &self.aside, source))?;
        self.finished = true;
        let sync = self.disk.sync_dir(SNAPSHOT_DIR);
        sync.map_err(|source| JournalError::sync(SNAPSHOT_DIR, source))?;
        Ok(SnapshotDone { seq, records: self.records, bytes: self.offset, mark: self.mark })
    }
}

impl<D: Disk> Drop for SnapshotWriter<D> {
    fn drop(&mut self) {
        if !self.finished {
            // What was given up for want of room must not keep the room it took. A file that can't
            // be removed now is removed by the next start.
            let _left_over = remove_if_there(&self.disk, &self.aside);
        }
    }
}
