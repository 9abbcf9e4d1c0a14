//! What is left of a store, whatever happened to it: the files that can be believed, the rest, and
//! every whole record in the order in which it was written. Reads only, and decides nothing: where
//! [`super::scan()`] stops at the first thing that is wrong, this goes on behind it.
//!
//! A segment is known by its header, which a checksum covers, and not by its name.

use super::disk::Disk;
use super::error::JournalError;
use super::floor::Floor;
use super::frame::{Record, Records, padded};
use super::plan::Segment;
use super::scan::{FrameAt, Place};
use super::segment::{
    FLAG_SKIPPED_AHEAD, FileKind, HEADER_BYTES, Header, HeaderFault, parse_segment_name,
    parse_snapshot_name, snapshot_path,
};
use super::snapshot;
use super::store::{self, JOURNAL_DIR, SNAPSHOT_DIR, STORE_FILE, StoreFile};
use super::walk::{SEGMENT_FILE_BYTES_MAX, Walk};
use std::collections::BTreeMap;
use std::fmt;

/// No store counts as far as this: a name that says so was made up.
const SEQ_BELIEVED_MAX: u64 = 1 << 62;

/// A file that a repair can't use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The file, relative to the data directory.
    pub file: String,
    /// Why not.
    pub why: String,
}

/// The files of a store, sorted into those that can be believed and the rest.
#[derive(Clone, Debug, Default)]
pub struct Remains {
    /// The store.
    pub store: [u8; 16],
    /// Snapshots that are whole, ascending.
    pub snapshots: Vec<u64>,
    /// Files that can't be used, and why.
    pub unusable: Vec<Unusable>,
    /// The highest sequence that anything shows to have been given; 0 for none.
    pub last_seq: u64,
    /// The highest number that anything shows a segment to have had; 0 for none.
    pub(super) last_segment: u64,
    /// Machine and boot of the last writer whose file can be read.
    pub(super) host: ([u8; 16], [u8; 16]),
    /// Segments whose header is whole, ascending by number, which may have gaps.
    segments: Vec<Segment>,
}

/// What is found on the way through the segments.
#[derive(Clone, Copy, Debug)]
pub enum Remnant<'a> {
    /// No record from `from` up to the one before `to` was ever written.
    Skip {
        /// The sequence that was due.
        from: u64,
        /// The sequence that came.
        to: u64,
    },
    /// What follows never stood behind what came before, though the numbers may fit.
    Apart,
    /// A whole frame that no later segment declares dead; its records follow.
    Frame(FrameAt<'a>),
    /// A record of that frame.
    Record(Place<'a>, Record<'a>),
}

impl Remains {
    /// Sorts the files. Fails when one can't be read at all, or when a newer midwatch wrote it.
    pub fn read(disk: &impl Disk) -> Result<Self, JournalError> {
        let mut remains = Self::default();
        let floor = Floor::read(disk)?;
        let segments = remains.headers(disk, JOURNAL_DIR, FileKind::Segment)?;
        let snapshots = remains.headers(disk, SNAPSHOT_DIR, FileKind::Snapshot)?;
        let headers = snapshots.iter().chain(&segments).map(|segment| segment.header.store);
        let mut seen: Vec<_> = floor.iter().map(|floor| floor.store).chain(headers).collect();
        let named = store::read(disk)?;
        seen.extend(if let StoreFile::Whole(store) = named { Some(store) } else { None });
        remains.store = most_seen(&seen);
        match named {
            StoreFile::Whole(store) if store != remains.store => {
                remains.reject(STORE_FILE, &"it is that of another store");
            }
            StoreFile::Damaged(fault) => remains.reject(STORE_FILE, &fault),
            StoreFile::Whole(_) | StoreFile::Absent => {}
        }
        remains.believe_floor(floor);
        remains.sort_segments(segments);
        remains.sort_snapshots(disk, &snapshots)?;
        if let Some(last) = remains.segments.last() {
            remains.host = (last.header.machine_id, last.header.boot_id);
        }
        Ok(remains)
    }

    /// Whether the journal can be read from its first record on.
    pub fn has_beginning(&self) -> bool {
        self.segments
            .first()
            .is_some_and(|first| (first.header.number, first.header.first_seq) == (1, 1))
    }

    /// Whether there is any segment to read.
    pub fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Whether the newest segment that anything speaks of can be read: else nobody can tell how
    /// many records it held.
    pub fn has_end(&self) -> bool {
        self.segments.last().is_some_and(|last| self.last_segment <= last.header.number)
    }

    /// Every file of one kind whose header is whole.
    fn headers(
        &mut self,
        disk: &impl Disk,
        dir: &str,
        kind: FileKind,
    ) -> Result<Vec<Segment>, JournalError> {
        let mut found = Vec::new();
        for name in store::list(disk, dir)? {
            let named = match kind {
                FileKind::Segment => parse_segment_name(&name),
                FileKind::Snapshot => parse_snapshot_name(&name).map(|seq| (0, seq)),
            };
            let Some((number, first_seq)) = named else { continue };
            let path = format!("{dir}/{name}");
            let io = |source| JournalError::io("open", &path, source);
            match Walk::open(disk.open_read(&path).map_err(io)?, &path, kind)? {
                Ok(walk) => {
                    let (header, len) = (walk.header, walk.len());
                    found.push(Segment { path, header, len });
                }
                Err(HeaderFault::Newer { version, needs }) => {
                    return Err(JournalError::Newer { file: path, version, needs });
                }
                Err(fault) => {
                    self.reject(&path, &fault);
                    // Its name is all that it says; a segment's is one further than was given.
                    self.give(first_seq.saturating_sub(u64::from(kind == FileKind::Segment)));
                    self.last_segment = self.last_segment.max(number.min(SEQ_BELIEVED_MAX));
                }
            }
        }
        Ok(found)
    }

    fn reject(&mut self, file: &str, why: &dyn fmt::Display) {
        self.unusable.push(Unusable { file: file.to_owned(), why: why.to_string() });
    }

    /// A sequence was given once.
    fn give(&mut self, seq: u64) {
        if seq <= SEQ_BELIEVED_MAX {
            self.last_seq = self.last_seq.max(seq);
        }
    }

    fn believe_floor(&mut self, floor: Option<Floor>) {
        match floor {
            Some(floor) if floor.store == self.store => {
                self.give(floor.seq);
                self.last_segment = self.last_segment.max(floor.segment);
            }
            Some(_) => self.reject(super::floor::FLOOR_FILE, &"it is that of another store"),
            None => {}
        }
    }

    /// One segment of each number, by number; where there are two, the one under its own name.
    fn sort_segments(&mut self, found: Vec<Segment>) {
        let mut chosen = BTreeMap::<u64, Segment>::new();
        for segment in found {
            let header = segment.header;
            if header.store != self.store {
                self.reject(&segment.path, &"it belongs to another store");
                continue;
            }
            let known = [header.first_seq, header.resume_seq, header.previous.next_seq];
            for seq in known {
                self.give(seq.saturating_sub(1));
            }
            self.last_segment = self.last_segment.max(header.number);
            let own_name =
                segment.path == super::segment::segment_path(header.number, header.first_seq);
            let twin = match chosen.get(&header.number) {
                Some(_) if own_name => chosen.insert(header.number, segment),
                Some(_) => Some(segment),
                None => chosen.insert(header.number, segment),
            };
            if let Some(twin) = twin {
                self.reject(&twin.path, &format!("it is a copy of segment {}", header.number));
            }
        }
        self.segments = chosen.into_values().collect();
    }

    fn sort_snapshots(&mut self, disk: &impl Disk, found: &[Segment]) -> Result<(), JournalError> {
        for snapshot in found {
            let name = snapshot.path.rsplit('/').next().unwrap_or_default();
            let seq = parse_snapshot_name(name).unwrap_or_default();
            if snapshot.header.store != self.store {
                self.reject(&snapshot.path, &"it belongs to another store");
                continue;
            }
            self.give(seq);
            let found = snapshot::verify(disk, seq, Some(self.store), &mut |_| Ok(()))?;
            if let Some(fault) = found.fault {
                self.reject(&snapshot_path(seq), &fault);
            } else {
                self.host = (snapshot.header.machine_id, snapshot.header.boot_id);
                self.snapshots.push(seq);
            }
        }
        Ok(())
    }

    /// Every whole frame that counts, in order. What `take` fails with ends it.
    pub fn remnants(
        &self,
        disk: &impl Disk,
        take: &mut impl FnMut(Remnant<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let mut before = None;
        for (index, segment) in self.segments.iter().enumerate() {
            let Header { number, previous, .. } = segment.header;
            let joint = before.filter(|(of, _)| *of == previous.number).map(|(_, way)| way);
            if let Some(Way { end, .. }) = joint
                && end.offset == previous.end
                && (end.next_seq, end.checksum) != (previous.next_seq, previous.checksum)
            {
                take(Remnant::Apart)?;
            }
            let successor = self.segments.get(index + 1).map(|next| next.header);
            let successor = successor.filter(|next| next.previous.number == number);
            before = Some((number, read_segment(disk, segment, (joint, successor), take)?));
        }
        Ok(())
    }
}

/// The uuid that most files carry; of several the one seen last, which is that of the store file.
fn most_seen(seen: &[[u8; 16]]) -> [u8; 16] {
    let count = |store: &&[u8; 16]| seen.iter().filter(|other| other == store).count();
    seen.iter().max_by_key(count).copied().unwrap_or_default()
}

/// How far a segment is whole, as its successor would say it.
#[derive(Clone, Copy, Debug)]
struct Reached {
    offset: u64,
    next_seq: u64,
    checksum: u32,
}

/// What was met on the way through a segment.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// At the end that the successor names.
    end: Reached,
    /// Bytes of the frames behind that end of which the successor has copies, as it pads them, and
    /// the sequence after them.
    originals: (u64, u64),
}

/// Reads a segment: `before` is the way through the one before it.
fn read_segment(
    disk: &impl Disk,
    segment: &Segment,
    (before, successor): (Option<Way>, Option<Header>),
    take: &mut impl FnMut(Remnant<'_>) -> Result<(), JournalError>,
) -> Result<Way, JournalError> {
    let Segment { path, header, .. } = segment;
    let io = |source| JournalError::io("open", path, source);
    let walk = Walk::open(disk.open_read(path).map_err(io)?, path, FileKind::Segment)?;
    let mut walk = walk.map_err(|fault| JournalError::Unrepairable {
        what: format!("{path} changed while it was read: {fault}"),
    })?;
    let mut reached = Reached { offset: HEADER_BYTES, next_seq: header.first_seq, checksum: 0 };
    let end = successor.map_or(u64::MAX, |next| next.previous.end).min(SEGMENT_FILE_BYTES_MAX);
    // The successor begins with copies of the frames that stood behind the end it names; should
    // they have gone bad there, they may still be whole here.
    let copied = successor.filter(|next| next.copied_end != HEADER_BYTES);
    let mut at_end = None;
    let mut originals = (0, 0);
    let mut arrived = false;
    loop {
        let frame = walk.next_whole()?.filter(|frame| {
            let adjacent = frame.offset == reached.offset;
            let follows = adjacent && frame.head.first_seq == reached.next_seq;
            frame.offset < end || copied.is_some() && follows && end != SEGMENT_FILE_BYTES_MAX
        });
        let at = frame.as_ref().map_or(u64::MAX, |frame| frame.offset);
        if !arrived && header.copied_end <= at {
            arrived = true;
            if let Some(from) = due_before_own(header, reached, before) {
                take(Remnant::Skip { from, to: header.resume_seq })?;
            }
            reached.next_seq = header.resume_seq;
        }
        let Some(frame) = frame else {
            return Ok(Way { end: at_end.unwrap_or(reached), originals });
        };
        let head = frame.head;
        let length = |alignment| padded(head.body_len, alignment) as u64;
        if let Some(next) = copied.filter(|_| end <= frame.offset) {
            at_end.get_or_insert(reached);
            originals = (originals.0 + length(next.alignment), head.next_seq());
        }
        let offset = frame.offset.saturating_add(length(header.alignment));
        reached = Reached { offset, next_seq: head.next_seq(), checksum: head.crc };
        take(Remnant::Frame(FrameAt::of(path, header.copied_end, frame.offset, head)))?;
        for (seq, at, record) in Records::new(head, frame.body) {
            let place = Place { file: path, offset: frame.offset.saturating_add(at), seq };
            take(Remnant::Record(place, record))?;
        }
    }
}

/// The sequence that was due when the segment's own writer skipped ahead, if it did, and if that
/// can be told: the last of the copies before is whole, or all of their originals are.
fn due_before_own(header: &Header, reached: Reached, before: Option<Way>) -> Option<u64> {
    if !header.has(FLAG_SKIPPED_AHEAD) {
        return None;
    }
    if header.copied_end == HEADER_BYTES {
        return (header.previous.number != 0).then_some(header.previous.next_seq);
    }
    let (bytes, next_seq) = before.map_or((0, 0), |way| way.originals);
    if reached.offset == header.copied_end {
        return Some(reached.next_seq);
    }
    (bytes == header.copied_end - HEADER_BYTES).then_some(next_seq)
}
