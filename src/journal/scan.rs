//! Reading a store through, one visitor for the engine, the checker and the tool.
//!
//! The end is classified here and nowhere else, so that they all agree. Nothing is written.

use super::disk::Disk;
use super::error::{Damage, JournalError};
use super::floor::Floor;
use super::frame::{self, FrameFault, FrameHead, Record, Records};
use super::plan::{Plan, Segment};
use super::segment::{FLAG_SKIPPED_AHEAD, FileKind, HEADER_BYTES, Header};
use super::snapshot::{self, SnapshotFile};
use super::store::{self, JOURNAL_DIR};
use super::table::{self, Decision, Facts};
use super::walk::{Frame, Proven, Survey, Walk};
use crate::defect::Defect;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The file, relative to the data directory.
    pub file: &'a str,
    /// Where the record begins in it.
    pub offset: u64,
    /// Its sequence.
    pub seq: u64,
}

/// A whole frame, as a visitor sees it.
#[expect(clippy::struct_excessive_bools, reason = "independent flags of the format")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameAt<'a> {
    /// The file, relative to the data directory.
    pub file: &'a str,
    /// Where the frame begins in it.
    pub offset: u64,
    /// Sequence of its first record.
    pub first_seq: u64,
    /// Number of records.
    pub count: u32,
    /// Bytes of the records with their headers.
    pub body_bytes: u64,
    /// Everything before it was synced before it was written.
    pub synced: bool,
    /// The sequence skipped ahead right before it.
    pub skipped: bool,
    /// Recovery copied it from the segment before.
    pub copied: bool,
}

/// Is shown a store in order. An `Err` stops the scan and becomes [`JournalError::Refused`].
pub trait Visitor {
    /// A segment begins.
    fn segment(&mut self, file: &str, header: &Header) -> Result<(), String> {
        let _ = (file, header);
        Ok(())
    }

    /// A whole frame; its records follow.
    fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
        let _ = frame;
        Ok(())
    }

    /// The segment was read to its end.
    fn segment_end(&mut self) {}

    /// A record.
    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        let _ = (place, record);
        Ok(())
    }
}

/// A visitor that only wants the report.
impl Visitor for () {}

/// How the journal ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TailClass {
    /// Nothing behind the last frame.
    #[default]
    End,
    /// The last write was cut short by a crash; it was never acknowledged.
    Torn {
        /// The file.
        file: String,
        /// Where the torn bytes begin.
        offset: u64,
        /// How many there are, up to the last that is not zero.
        bytes: u64,
        /// Whole frames among them, also never acknowledged and not applied.
        frames_after: u64,
    },
    /// The last write is there in full, yet wrong: cheap flash after a power cut, or rot.
    Suspicious {
        /// The file.
        file: String,
        /// Where the bytes begin.
        offset: u64,
        /// How many there are, up to the last that is not zero.
        bytes: u64,
        /// Where a copy of them is kept; `None` when the store was only read.
        quarantined: Option<String>,
        /// What is wrong with them.
        what: String,
    },
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The store, unless the directory holds none yet.
    pub store: Option<[u8; 16]>,
    /// Segments read.
    pub segments: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Whole frames.
    pub frames: u64,
    /// Their records.
    pub records: u64,
    /// Bytes of the records with their headers.
    pub record_bytes: u64,
    /// First sequence that is held.
    pub first_seq: u64,
    /// The sequence the next record would get.
    pub next_seq: u64,
    /// The sequence the floor file names as durable.
    pub floor: Option<u64>,
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotFile>,
    /// How the journal ends.
    pub tail: TailClass,
    /// The last writer closed it.
    pub clean_close: bool,
    /// Remarks for the operator.
    pub notes: Vec<String>,
}

impl Report {
    /// 0 when all is good (a torn tail is noted), 8 when something is suspicious.
    pub fn exit_code(&self) -> u8 {
        let bad = self.snapshots.iter().any(|snapshot| snapshot.fault.is_some());
        match self.tail {
            TailClass::Suspicious { .. } => 8,
            TailClass::End | TailClass::Torn { .. } if bad => 8,
            TailClass::End | TailClass::Torn { .. } => 0,
        }
    }
}

/// Reads the whole store and classifies its end as [`super::Journal::open`] does; writes nothing.
/// Works beside a running daemon.
pub fn scan(disk: &impl Disk, visitor: &mut impl Visitor) -> Result<Report, JournalError> {
    let plan = read_plan(disk)?;
    let mut report = Report {
        store: plan.store,
        floor: plan.floor.map(|floor| floor.seq),
        notes: plan.notes.clone(),
        next_seq: 1,
        first_seq: 1,
        ..Report::default()
    };
    let mut good = 0;
    for &seq in &plan.snapshots {
        let found = snapshot::verify(disk, seq, plan.store, &mut |_| Ok(()))?;
        if found.fault.is_none() {
            good = seq;
        }
        report.snapshots.push(found);
    }
    plan.check_covers(good)?;
    let Some(first) = plan.segments.first() else { return Ok(report) };
    report.first_seq = first.header.first_seq;
    report.segments = plan.segments.len() as u64;
    report.bytes = plan.segments.iter().map(|segment| segment.len).sum();
    let end = read_segments(disk, &plan, visitor)?;
    report.frames = end.frames;
    report.records = end.records;
    report.record_bytes = end.record_bytes;
    report.next_seq = end.next_seq;
    report.clean_close = end.clean_close;
    report.tail = end.tail;
    Ok(report)
}

/// The plan, tried again while a running daemon changes the directory underneath.
pub(super) fn read_plan(disk: &impl Disk) -> Result<Plan, JournalError> {
    let mut tries = 50;
    loop {
        let before = Floor::read(disk)?.map(|floor| floor.generation);
        let error = match Plan::read(disk) {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        let moved = Floor::read(disk)?.map(|floor| floor.generation) != before;
        let vanished = matches!(&error, JournalError::Io { source, .. }
            if source.kind() == std::io::ErrorKind::NotFound);
        tries -= 1;
        if tries == 0 || !(moved || vanished) {
            return Err(error);
        }
    }
}

/// Where and how the last segment ends.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) frames: u64,
    pub(super) records: u64,
    pub(super) record_bytes: u64,
    pub(super) next_seq: u64,
    pub(super) tail: TailClass,
    pub(super) clean_close: bool,
    /// Offset of the end in the last segment.
    pub(super) offset: u64,
    /// How much of it is proven durable.
    pub(super) proven: Proven,
}

/// Reads every segment of the plan, in order.
pub(super) fn read_segments(
    disk: &impl Disk,
    plan: &Plan,
    visitor: &mut impl Visitor,
) -> Result<End, JournalError> {
    let mut totals = (0, 0, 0);
    let mut next_seq = None;
    for (index, segment) in plan.segments.iter().enumerate() {
        if Defect::ReplayNewestOnly.is_on() && index + 1 < plan.segments.len() {
            continue;
        }
        let mut walk = open(disk, segment)?;
        visitor
            .segment(&segment.path, &segment.header)
            .map_err(|text| refused(&segment.path, text))?;
        if let Some(before) = next_seq {
            check_joint(disk, &walk, before, totals.1)?;
        }
        let end = match plan.segments.get(index + 1) {
            Some(successor) => {
                read_sealed(disk, &mut walk, &successor.header, totals.1, visitor)?;
                None
            }
            None => Some(read_last(disk, &mut walk, plan, totals.1, visitor)?),
        };
        totals.0 += walk.frames;
        totals.1 += walk.records;
        totals.2 += walk.record_bytes;
        visitor.segment_end();
        next_seq = Some(walk.next_seq);
        if let Some(mut end) = end {
            (end.frames, end.records, end.record_bytes) = totals;
            return Ok(end);
        }
    }
    let proven = Proven { offset: HEADER_BYTES, next_seq: 1, checksum: 0 };
    Ok(End {
        frames: 0,
        records: 0,
        record_bytes: 0,
        next_seq: 1,
        tail: TailClass::End,
        clean_close: false,
        offset: HEADER_BYTES,
        proven,
    })
}

fn open<D: Disk>(disk: &D, segment: &Segment) -> Result<Walk<D::File>, JournalError> {
    let path = &segment.path;
    let file = disk.open_read(path).map_err(|source| JournalError::io("open", path, source))?;
    Walk::open(file, path, FileKind::Segment)?.map_err(|fault| {
        JournalError::damage(Damage {
            file: path.clone(),
            offset: 0,
            seq: segment.header.first_seq,
            what: fault.to_string(),
            before: 0,
            after: 0,
            bytes: 0,
        })
    })
}

fn refused(file: &str, text: String) -> JournalError {
    JournalError::Refused { file: file.to_owned(), offset: 0, seq: 0, text }
}

/// A segment starts where the one before it ends, unless its header says that it skipped.
fn check_joint<D: Disk>(
    disk: &D,
    walk: &Walk<D::File>,
    before: u64,
    records: u64,
) -> Result<(), JournalError> {
    let header = &walk.header;
    let no_copies = header.copied_end == HEADER_BYTES;
    let skips = no_copies && header.has(FLAG_SKIPPED_AHEAD) && before < header.first_seq;
    if header.first_seq == before || skips {
        return Ok(());
    }
    let what = format!("the segment begins with sequence {}", header.first_seq);
    Err(damage(disk, walk, (what, before), records, Survey::default()))
}

/// Reads a segment up to the end its successor names; every frame must be whole.
fn read_sealed<D: Disk>(
    disk: &D,
    walk: &mut Walk<D::File>,
    successor: &Header,
    records: u64,
    visitor: &mut impl Visitor,
) -> Result<(), JournalError> {
    let link = successor.previous;
    while walk.offset < link.end {
        if let Err(fault) = step(walk, visitor)? {
            let survey = walk.survey()?;
            return Err(damage(disk, walk, (fault.to_string(), walk.next_seq), records, survey));
        }
    }
    let arrived = walk.arrive();
    let reached = (walk.offset, walk.next_seq, walk.checksum);
    if walk.len() < link.end {
        // Padding alone may be missing: whatever cut the file did not stop at what we can do without.
        let what = format!("the file ends before byte {}, which its successor names", link.end);
        return Err(damage(disk, walk, (what, walk.next_seq), records, Survey::default()));
    }
    if arrived.is_ok() && reached == (link.end, link.next_seq, link.checksum) {
        return Ok(());
    }
    let what = format!(
        "the segment ends with sequence {}, but its successor says byte {} and sequence {}",
        walk.next_seq.saturating_sub(1),
        link.end,
        link.next_seq.saturating_sub(1)
    );
    Err(damage(disk, walk, (what, walk.next_seq), records, Survey::default()))
}

/// Reads the last segment to its end and decides what that end is.
fn read_last<D: Disk>(
    disk: &D,
    walk: &mut Walk<D::File>,
    plan: &Plan,
    records: u64,
    visitor: &mut impl Visitor,
) -> Result<End, JournalError> {
    let fault = loop {
        let Err(fault) = step(walk, visitor)? else { continue };
        // Beside a running daemon the frame may have been half written when it was read.
        walk.refresh()?;
        if step(walk, visitor)?.is_err() {
            break fault;
        }
    };
    let survey = walk.survey()?;
    let facts = Facts {
        intact: false,
        blank: survey.end == 0,
        later_synced: survey.later_synced,
        named: walk.next_seq <= plan.named_seq() || walk.offset < walk.header.copied_end,
        full: survey.end != 0 && survey.full,
    };
    let bytes = survey.end.saturating_sub(walk.offset);
    let file = walk.file.to_string();
    let offset = walk.offset;
    let decision = match fault {
        // Whole, at its own place, and out of order: no crash leaves that.
        FrameFault::Sequence { .. } => Decision::Damage,
        _ => table::decide(facts),
    };
    let tail = match decision {
        Decision::End => TailClass::End,
        Decision::Torn => {
            TailClass::Torn { file, offset, bytes, frames_after: survey.frames_after }
        }
        Decision::Suspicious => {
            let what = fault.to_string();
            TailClass::Suspicious { file, offset, bytes, quarantined: None, what }
        }
        Decision::Keep | Decision::Damage | Decision::Impossible => {
            let what = if facts.blank { plan.ends_short(walk.next_seq) } else { fault.to_string() };
            return Err(damage(disk, walk, (what, walk.next_seq), records, survey));
        }
    };
    let tail = match (&plan.blank, tail) {
        (Some(blank), TailClass::End | TailClass::Torn { .. }) => TailClass::Suspicious {
            file: blank.clone(),
            offset: 0,
            bytes: 0,
            quarantined: None,
            what: "the newest segment is blank".to_owned(),
        },
        (_, tail) => tail,
    };
    let clean_close = tail == TailClass::End
        && plan.floor.is_some_and(|floor| {
            floor.segment == walk.header.number
                && floor.clean_end == Some(offset)
                && floor.seq.saturating_add(1) == walk.next_seq
        });
    Ok(End {
        frames: 0,
        records: 0,
        record_bytes: 0,
        next_seq: walk.next_seq,
        tail,
        clean_close,
        offset,
        proven: proven(walk, plan.named_seq(), clean_close),
    })
}

/// What of the last segment needs no copy: what a later frame or a name proves to be durable.
fn proven<F: super::disk::DiskFile>(walk: &Walk<F>, named: u64, clean: bool) -> Proven {
    if clean || walk.next_seq <= named.saturating_add(1) {
        return Proven { offset: walk.offset, next_seq: walk.next_seq, checksum: walk.checksum };
    }
    walk.proven
}

/// Takes one frame and shows it to the visitor.
fn step<F: super::disk::DiskFile>(
    walk: &mut Walk<F>,
    visitor: &mut impl Visitor,
) -> Result<Result<(), FrameFault>, JournalError> {
    let file = walk.file.clone();
    let copied_end = walk.header.copied_end;
    match walk.step()? {
        Ok(Frame { offset, head, body }) => {
            show((&file, copied_end, offset), (head, body), 0, visitor).map(Ok)
        }
        Err(fault) => Ok(Err(fault)),
    }
}

/// Shows the visitor a whole frame at a place (file, end of the copies in it, offset), and its
/// records from sequence `from` on; a frame that ends before is not shown at all.
pub(super) fn show(
    (file, copied_end, at): (&str, u64, u64),
    (head, body): (FrameHead, &[u8]),
    from: u64,
    visitor: &mut impl Visitor,
) -> Result<(), JournalError> {
    if head.next_seq() <= from {
        return Ok(());
    }
    let refused =
        |offset, seq, text| JournalError::Refused { file: file.to_owned(), offset, seq, text };
    let frame = FrameAt {
        file,
        offset: at,
        first_seq: head.first_seq,
        count: head.count,
        body_bytes: head.body_len as u64,
        synced: head.has(frame::FLAG_SYNCED),
        skipped: head.has(frame::FLAG_SKIPPED),
        copied: at < copied_end,
    };
    visitor.frame(&frame).map_err(|text| refused(at, head.first_seq, text))?;
    let records = Records::new(head, body).filter(|(seq, ..)| from <= *seq);
    for (seq, behind, record) in records {
        let offset = at.saturating_add(behind);
        let place = Place { file, offset, seq };
        visitor.record(place, record).map_err(|text| refused(offset, seq, text))?;
    }
    Ok(())
}

pub(super) fn damage<D: Disk>(
    disk: &D,
    walk: &Walk<D::File>,
    (what, seq): (String, u64),
    records_before: u64,
    survey: Survey,
) -> JournalError {
    let later = salvage_count(disk, &walk.file).1;
    JournalError::damage(Damage {
        file: walk.file.to_string(),
        offset: walk.offset,
        seq,
        what,
        before: records_before + walk.records,
        after: survey.records_after + later,
        bytes: survey.end.saturating_sub(walk.offset),
    })
}

/// Shows the visitor every whole frame of every segment whose header is whole, also those behind
/// damage and those that are dead: what a repair may choose from. Decides nothing.
pub fn salvage(disk: &impl Disk, visitor: &mut impl Visitor) -> Result<(), JournalError> {
    for name in store::list(disk, JOURNAL_DIR)? {
        salvage_file(disk, &format!("{JOURNAL_DIR}/{name}"), visitor)?;
    }
    Ok(())
}

fn salvage_file(
    disk: &impl Disk,
    path: &str,
    visitor: &mut impl Visitor,
) -> Result<(), JournalError> {
    let file = disk.open_read(path).map_err(|source| JournalError::io("open", path, source))?;
    let Ok(mut walk) = Walk::open(file, path, FileKind::Segment)? else { return Ok(()) };
    visitor.segment(path, &walk.header.clone()).map_err(|text| refused(path, text))?;
    let copied_end = walk.header.copied_end;
    while let Some(Frame { offset, head, body }) = walk.next_whole()? {
        show((path, copied_end, offset), (head, body), 0, visitor)?;
    }
    Ok(())
}

/// The sequence after the last whole record of a segment; only for messages.
pub(super) fn salvage_end(disk: &impl Disk, path: &str) -> Option<u64> {
    struct Last(Option<u64>);
    impl Visitor for Last {
        fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
            self.0 = Some(frame.first_seq + u64::from(frame.count));
            Ok(())
        }
    }
    let mut last = Last(None);
    salvage_file(disk, path, &mut last).ok()?;
    last.0
}

/// Whole records in the segments before and after a damaged one. Only for the message: what can't
/// be read counts nothing.
pub(super) fn salvage_count(disk: &impl Disk, damaged: &str) -> (u64, u64) {
    struct Count(u64);
    impl Visitor for Count {
        fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
            self.0 += u64::from(frame.count);
            Ok(())
        }
    }
    let (mut before, mut after) = (Count(0), Count(0));
    for name in store::list(disk, JOURNAL_DIR).unwrap_or_default() {
        let path = format!("{JOURNAL_DIR}/{name}");
        let count = match path.as_str().cmp(damaged) {
            std::cmp::Ordering::Less => &mut before,
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Greater => &mut after,
        };
        if salvage_file(disk, &path, count).is_err() {
            // Unreadable files count nothing; the error that matters is the damage itself.
        }
    }
    (before.0, after.0)
}
