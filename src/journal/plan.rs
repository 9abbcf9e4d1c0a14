//! What lies in a data directory, before a frame is read: names and headers, checked against each
//! other. Writes nothing.

use super::disk::Disk;
use super::error::{Damage, JournalError};
use super::floor::{FLOOR_FILE, Floor};
use super::repair;
use super::scan::{salvage_count, salvage_end};
use super::segment::{
    FileKind, HEADER_BYTES, Header, HeaderFault, parse_segment_name, parse_snapshot_name,
    segment_path, snapshot_path,
};
use super::snapshot;
use super::store::{self, JOURNAL_DIR, QUARANTINE_DIR, SNAPSHOT_DIR, STORE_FILE, StoreFile};
use super::walk::{SEGMENT_FILE_BYTES_MAX, Walk};
use crate::defect::Defect;

/// A segment by its name and header.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) path: String,
    pub(super) header: Header,
    pub(super) len: u64,
}

/// The files of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) store: Option<[u8; 16]>,
    /// The store file is absent or not whole and must be written again.
    pub(super) store_file_lost: bool,
    pub(super) floor: Option<Floor>,
    /// Sequences of the snapshots, ascending.
    pub(super) snapshots: Vec<u64>,
    /// An unbroken run, ascending.
    pub(super) segments: Vec<Segment>,
    /// A newest segment without a byte in it that is not zero, which nothing names.
    pub(super) blank: Option<String>,
    /// Files that a crash left half made; removed by the next writer.
    pub(super) leftovers: Vec<String>,
    /// Remarks for the operator.
    pub(super) notes: Vec<String>,
}

impl Plan {
    /// Looks at every name and header.
    pub(super) fn read(disk: &impl Disk) -> Result<Self, JournalError> {
        if repair::is_pending(disk)? {
            return Err(JournalError::RepairInterrupted);
        }
        // The floor first: beside a running daemon it must not be newer than what is read later.
        let floor = Floor::read(disk)?.filter(|_| !Defect::ForgetFloor.is_on());
        let mut plan = Self { floor, ..Self::default() };
        match store::read(disk)? {
            StoreFile::Whole(store) => plan.store = Some(store),
            StoreFile::Absent => plan.store_file_lost = true,
            StoreFile::Damaged(fault) => {
                plan.store_file_lost = true;
                plan.notes.push(format!("{STORE_FILE}: {fault}; it is written again"));
            }
        }
        let store_file_present = plan.store.is_some() || !plan.notes.is_empty();
        plan.list_snapshots(disk)?;
        plan.list_quarantine(disk)?;
        let names = plan.list_segments(disk)?;
        for (index, &(number, first_seq)) in names.iter().enumerate() {
            plan.add_segment(disk, (number, first_seq), index + 1 == names.len())?;
        }
        plan.check_floor(disk)?;
        plan.check_not_lost(store_file_present)?;
        if plan.floor.is_none() && !plan.is_fresh() {
            plan.notes.push(format!(
                "{FLOOR_FILE}: missing, or not whole; it is made again. Without it nobody can tell \
                 whether the journal's last segment is missing too"
            ));
        }
        Ok(plan)
    }

    /// Whether there is no store here yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.segments.is_empty()
    }

    fn list_snapshots(&mut self, disk: &impl Disk) -> Result<(), JournalError> {
        for name in store::list(disk, SNAPSHOT_DIR)? {
            match parse_snapshot_name(&name) {
                Some(seq) => {
                    snapshot::check_format(disk, seq)?;
                    self.snapshots.push(seq);
                }
                None => self.stray(SNAPSHOT_DIR, &name),
            }
        }
        Ok(())
    }

    fn list_quarantine(&mut self, disk: &impl Disk) -> Result<(), JournalError> {
        for name in store::list(disk, QUARANTINE_DIR)? {
            if name.strip_suffix(".tmp").is_some() {
                self.leftovers.push(format!("{QUARANTINE_DIR}/{name}"));
            }
        }
        Ok(())
    }

    fn list_segments(&mut self, disk: &impl Disk) -> Result<Vec<(u64, u64)>, JournalError> {
        let mut found = Vec::new();
        for name in store::list(disk, JOURNAL_DIR)? {
            match parse_segment_name(&name) {
                Some(segment) => found.push(segment),
                None => self.stray(JOURNAL_DIR, &name),
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn stray(&mut self, dir: &str, name: &str) {
        let path = format!("{dir}/{name}");
        if name.strip_suffix(".tmp").is_some() {
            self.leftovers.push(path);
        } else {
            self.notes.push(format!("{path} is not a file of midwatch's and is left alone"));
        }
    }

    fn add_segment(
        &mut self,
        disk: &impl Disk,
        name: (u64, u64),
        last: bool,
    ) -> Result<(), JournalError> {
        let (number, first_seq) = name;
        let path = segment_path(number, first_seq);
        let file =
            disk.open_read(&path).map_err(|source| JournalError::io("open", &path, source))?;
        let mut walk = match Walk::open(file, &path, FileKind::Segment)? {
            Ok(walk) => walk,
            Err(HeaderFault::Newer { version, needs }) => {
                return Err(JournalError::Newer { file: path, version, needs });
            }
            Err(fault) => return self.bad_header(disk, path, name, (fault, last)),
        };
        if walk.len() < HEADER_BYTES {
            let what = format!("the file ends at byte {}, inside its header page", walk.len());
            return Err(damaged(disk, path, first_seq, what));
        }
        // So that a sparse giant is not read through.
        if SEGMENT_FILE_BYTES_MAX < walk.len() {
            let what = format!("the file is {} bytes long, no segment is", walk.len());
            return Err(damaged(disk, path, first_seq, what));
        }
        let header = walk.header;
        if (header.number, header.first_seq) != name {
            let what = format!(
                "the header says segment {}, first sequence {}, unlike the name",
                header.number, header.first_seq
            );
            return Err(damaged(disk, path, first_seq, what));
        }
        if *self.store.get_or_insert(header.store) != header.store {
            return Err(JournalError::Foreign { file: path });
        }
        if let Some(before) = self.segments.last() {
            let (expected, previous) = (before.header.number, header.previous);
            if previous.number != expected || number != expected + 1 {
                let first_seq = salvage_end(disk, &before.path);
                return Err(JournalError::Missing {
                    shown_by: path,
                    what: gap(expected, number, previous.number),
                    first_seq: first_seq.unwrap_or(before.header.first_seq),
                    last_seq: Some(previous.next_seq.saturating_sub(1)),
                });
            }
        }
        let len = walk.len();
        walk.refresh()?;
        self.segments.push(Segment { path, header, len });
        Ok(())
    }

    /// A segment gets its name only when its header is durable, so a bad header is damage, unless
    /// the file is the newest, blank, and nothing says that it ever was more than a name.
    fn bad_header(
        &mut self,
        disk: &impl Disk,
        path: String,
        (number, first_seq): (u64, u64),
        (fault, last): (HeaderFault, bool),
    ) -> Result<(), JournalError> {
        let named = self.floor.is_some_and(|floor| number <= floor.segment);
        if last && !named && is_blank(disk, &path)? {
            self.notes.push(format!("{path} is blank, and nothing says that it ever was more"));
            self.blank = Some(path);
            return Ok(());
        }
        Err(damaged(disk, path, first_seq, fault.to_string()))
    }

    fn check_floor(&self, disk: &impl Disk) -> Result<(), JournalError> {
        let Some(floor) = self.floor else { return Ok(()) };
        if self.store.is_some_and(|store| store != floor.store) {
            return Err(JournalError::Foreign { file: FLOOR_FILE.to_owned() });
        }
        let newest = self.segments.last().map_or(0, |segment| segment.header.number);
        // What is durable is in a segment, so a floor that names a sequence names one too.
        let needed = floor.segment.max(u64::from(floor.seq != 0));
        if needed <= newest {
            return Ok(());
        }
        let newest_end = self.segments.last().and_then(|last| salvage_end(disk, &last.path));
        let first_seq = newest_end.unwrap_or(1);
        Err(JournalError::Missing {
            shown_by: FLOOR_FILE.to_owned(),
            what: format!("segments after {newest} up to {needed} are missing"),
            first_seq,
            last_seq: (first_seq <= floor.seq).then_some(floor.seq),
        })
    }

    /// The store file and snapshots only exist where segments do.
    fn check_not_lost(&self, store_file_present: bool) -> Result<(), JournalError> {
        let shown_by = match self.snapshots.last() {
            Some(&seq) => snapshot_path(seq),
            None => STORE_FILE.to_owned(),
        };
        let shown = store_file_present || !self.snapshots.is_empty();
        if !shown || !self.segments.is_empty() {
            return Ok(());
        }
        Err(JournalError::Missing {
            shown_by,
            what: "all segments are missing".to_owned(),
            first_seq: 1,
            last_seq: None,
        })
    }

    /// Refuses when records between the snapshot and the first segment are missing.
    pub(super) fn check_covers(&self, snapshot_seq: u64) -> Result<(), JournalError> {
        let Some(first) = self.segments.first() else { return Ok(()) };
        let first_seq = first.header.first_seq;
        if first_seq <= snapshot_seq.saturating_add(1) || first.header.number == 1 {
            return Ok(());
        }
        Err(JournalError::Missing {
            shown_by: first.path.clone(),
            what: "segments before the oldest one, and no snapshot in their place, are missing"
                .to_owned(),
            first_seq: snapshot_seq.saturating_add(1),
            last_seq: Some(first_seq.saturating_sub(1)),
        })
    }

    /// The highest sequence that the floor or a snapshot's name shows to be durable.
    pub(super) fn named_seq(&self) -> u64 {
        self.namer().0
    }

    /// Why a journal that ends before `next_seq` ends too early, in words.
    pub(super) fn ends_short(&self, next_seq: u64) -> String {
        let (seq, shown_by) = self.namer();
        if next_seq <= seq {
            format!("the journal ends, but {shown_by} shows sequence {seq} to be durable")
        } else {
            "the journal ends, though records beyond were durable".to_owned()
        }
    }

    /// The highest sequence that is shown to be durable, and the file that shows it.
    fn namer(&self) -> (u64, String) {
        let floor = self.floor.map_or(0, |floor| floor.seq);
        match self.snapshots.last() {
            Some(&seq) if floor < seq => (seq, snapshot_path(seq)),
            _ => (floor, FLOOR_FILE.to_owned()),
        }
    }
}

fn damaged(disk: &impl Disk, file: String, seq: u64, what: String) -> JournalError {
    let (before, after) = salvage_count(disk, &file);
    JournalError::damage(Damage { file, offset: 0, seq, what, before, after, bytes: 0 })
}

/// Whether no byte of the file differs from zero.
fn is_blank(disk: &impl Disk, path: &str) -> Result<bool, JournalError> {
    use super::disk::{DiskFile as _, read_full_at};
    let io = |source| JournalError::io("read", path, source);
    let file = disk.open_read(path).map_err(io)?;
    let len = file.len().map_err(io)?;
    let mut buffer = vec![0; 1 << 16];
    let mut at = 0;
    while at < len.min(SEGMENT_FILE_BYTES_MAX) {
        let count = read_full_at(&file, at, &mut buffer).map_err(io)?;
        let piece = buffer.get(..count).unwrap_or_default();
        if piece.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        if count == 0 {
            break;
        }
        at += count as u64;
    }
    Ok(len <= SEGMENT_FILE_BYTES_MAX)
}

/// What is amiss where a segment does not follow the one before it.
fn gap(before: u64, number: u64, follows: u64) -> String {
    match number.checked_sub(before + 1) {
        None => format!("two files are segment {number}, or what was between them is missing"),
        Some(0) => format!("the segment {follows} that segment {number} follows is missing"),
        Some(1) => format!("segment {} is missing", before + 1),
        Some(_) => format!("segments {} to {} are missing", before + 1, number - 1),
    }
}
