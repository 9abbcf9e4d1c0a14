//! A start: everything is read and judged before anything is written, and nothing that another
//! process left is ever written to. `spec/recovery.md` is the long form.

use super::active::{Active, Ahead, Copies};
use super::compact::Kept;
use super::disk::Disk;
use super::error::{Damage, JournalError};
use super::floor::FloorFile;
use super::frame::{self, Batch, RECORD_HEADER_BYTES, Record, Slot};
use super::plan::{Plan, Segment};
use super::reserve::Reserve;
use super::scan::{End, FrameAt, Place, Report, TailClass, Visitor, read_plan, read_segments};
use super::segment::{
    FLAG_SKIPPED_AHEAD, FLAG_WEAK, FileKind, HEADER_BYTES, Header, Link, snapshot_path,
};
use super::snapshot::{self, SnapshotFile, take_records};
use super::store::{self, JOURNAL_DIR, QUARANTINE_DIR, SNAPSHOT_DIR, remove_if_there};
use super::walk::Walk;
use super::writer::{Counts, Journal, Salts, weak_flag};
use super::{Host, Options, Replay};
use crate::defect::Defect;
use std::collections::{BTreeMap, VecDeque};

/// How far the sequence skips after a start that may have lost numbers already handed out.
pub const SKIP: u64 = 1 << 20;

/// What a start found.
#[expect(clippy::struct_excessive_bools, reason = "independent remarks for people")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// There was no store; it was made.
    pub created: bool,
    /// The snapshot that was used.
    pub snapshot: Option<SnapshotUsed>,
    /// Newer snapshots that could not be used; now in `quarantine/`.
    pub passed_over: Vec<SnapshotFile>,
    /// Journal records given to the replay.
    pub records: u64,
    /// How the journal ended.
    pub tail: TailClass,
    /// Machine id of the last writer.
    pub previous_machine_id: Option<[u8; 16]>,
    /// Boot id of the last writer.
    pub previous_boot_id: Option<[u8; 16]>,
    /// Another machine wrote the store last; it was taken over.
    pub adopted: bool,
    /// The last writer closed the journal.
    pub clean_close: bool,
    /// Sequence numbers skip ahead, for some that were handed out may be lost; said by every start
    /// until something is committed.
    pub skipped_ahead: bool,
    /// Remarks for the operator.
    pub notes: Vec<String>,
}

/// The snapshot a start began from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotUsed {
    /// The sequence it stands at.
    pub seq: u64,
    /// Its records.
    pub records: u64,
    /// Length of the file.
    pub bytes: u64,
}

/// Gives a store's records up to and including sequence `upto` to `replay`; writes nothing and
/// works beside a running daemon. Starts from the newest usable snapshot not behind `upto`.
pub fn replay(
    disk: &impl Disk,
    upto: u64,
    replay: &mut impl Replay,
) -> Result<(Recovery, Report), JournalError> {
    let plan = read_plan(disk)?;
    let (found, end) = read(disk, &plan, upto, replay)?;
    let report = Report {
        store: plan.store,
        segments: plan.segments.len() as u64,
        frames: end.frames,
        records: end.records,
        record_bytes: end.record_bytes,
        first_seq: plan.segments.first().map_or(1, |first| first.header.first_seq),
        next_seq: end.next_seq,
        floor: plan.floor.map(|floor| floor.seq),
        tail: end.tail,
        clean_close: end.clean_close,
        ..Report::default()
    };
    Ok((found.recovery, report))
}

/// The header of the newest segment, which says who wrote last; `None` where there is none yet.
pub fn newest_header(disk: &impl Disk) -> Result<Option<Header>, JournalError> {
    Ok(read_plan(disk)?.segments.last().map(|last| last.header))
}

/// What was read, and how much of it the replay took.
struct Found {
    recovery: Recovery,
    /// Record bytes behind the snapshot.
    record_bytes: u64,
}

/// Reads and judges everything; writes nothing.
fn read(
    disk: &impl Disk,
    plan: &Plan,
    upto: u64,
    replay: &mut impl Replay,
) -> Result<(Found, End), JournalError> {
    let mut recovery = Recovery { notes: plan.notes.clone(), ..Recovery::default() };
    if let Some(last) = plan.segments.last() {
        let Header { machine_id, boot_id, .. } = last.header;
        recovery.previous_machine_id = Some(machine_id);
        recovery.previous_boot_id = Some(boot_id);
    }
    let total: u64 = plan.segments.iter().map(|segment| segment.len).sum();
    let mut newest_first = plan.snapshots.iter().rev().filter(|&&seq| seq <= upto);
    while let Some(&seq) = newest_first.next() {
        let found = feed_snapshot(disk, (seq, plan.store), total, replay)?;
        if found.fault.is_none() || Defect::TrustSnapshot.is_on() {
            let SnapshotFile { seq, records, bytes, .. } = found;
            recovery.snapshot = Some(SnapshotUsed { seq, records, bytes });
            // One that is not needed now may be needed at the next start.
            newest_first.try_for_each(|&seq| snapshot::check_store(disk, seq, plan.store))?;
            break;
        }
        replay.snapshot_failed();
        recovery.passed_over.push(found);
    }
    let SnapshotUsed { seq: after, bytes: begun, .. } = recovery.snapshot.unwrap_or_default();
    plan.check_covers(after)?;
    let mut feed = Feed {
        replay,
        after,
        upto,
        records: 0,
        record_bytes: 0,
        lens: plan.segments.iter().map(|segment| segment.len).collect(),
        begun,
        total: begun.saturating_add(total),
    };
    let end = read_segments(disk, plan, &mut feed)?;
    feed.replay.replayed().map_err(|text| JournalError::RefusedStore { text })?;
    recovery.records = feed.records;
    let record_bytes = feed.record_bytes;
    recovery.tail = end.tail.clone();
    recovery.clean_close = end.clean_close;
    Ok((Found { recovery, record_bytes }, end))
}

/// Gives a snapshot to the replay while it is being checked, so that it is read once.
fn feed_snapshot(
    disk: &impl Disk,
    (seq, store): (u64, Option<[u8; 16]>),
    behind: u64,
    replay: &mut impl Replay,
) -> Result<SnapshotFile, JournalError> {
    let file = snapshot_path(seq);
    let refused = |text| JournalError::Refused { file: file.clone(), offset: 0, seq: 0, text };
    replay.snapshot_begin(seq).map_err(refused)?;
    snapshot::verify(disk, seq, store, &mut |frame| {
        let done = frame.offset.saturating_add(frame.body.len() as u64);
        replay.progress(done, done.saturating_add(behind));
        take_records(&file, frame, |record| replay.snapshot_record(record))
    })
}

/// Passes on the records behind the snapshot.
struct Feed<'r, R> {
    replay: &'r mut R,
    after: u64,
    upto: u64,
    records: u64,
    record_bytes: u64,
    /// Lengths of the segments that are still to come.
    lens: VecDeque<u64>,
    /// Bytes before the segment at hand.
    begun: u64,
    total: u64,
}

impl<R: Replay> Visitor for Feed<'_, R> {
    fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
        self.replay.progress(self.begun.saturating_add(frame.offset), self.total);
        Ok(())
    }

    fn segment_end(&mut self) {
        self.begun = self.begun.saturating_add(self.lens.pop_front().unwrap_or_default());
    }

    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        if place.seq <= self.after || self.upto < place.seq {
            return Ok(());
        }
        self.records += 1;
        self.record_bytes += (record.body.len() + RECORD_HEADER_BYTES) as u64;
        self.replay.record(place.seq, record)
    }
}

/// Opens or creates a store; see [`Journal::open`].
pub(super) fn open<D: Disk>(
    disk: D,
    options: Options,
    host: Host,
    replay: &mut impl Replay,
) -> Result<(Journal<D>, Recovery), JournalError> {
    let plan = Plan::read(&disk)?;
    let elsewhere = plan.segments.last().is_some_and(|last| is_elsewhere(&last.header, host));
    if elsewhere && !options.adopt {
        return Err(JournalError::Elsewhere);
    }
    let (mut found, end) = read(&disk, &plan, u64::MAX, replay)?;
    if options.halt_on_suspicious_tail {
        halt_if_suspicious(&end)?;
    }
    // Everything is read and judged. What follows writes, each step safe to be the last.
    let mut salts = Salts::new(host.random);
    let store = plan.store.unwrap_or_else(|| salts.uuid());
    let mut reserve = Reserve::find(&disk, options.reserve)?;
    reserve.help(&disk, |disk, _| prepare(disk, &plan))?;
    found.recovery.tail = reserve.help(&disk, |disk, _| quarantine(disk, &plan, &end.tail))?;
    let skip = must_skip(&plan, &end);
    let told = !skip && !is_skip_untold(&plan, &end);
    let make = |disk: &D, has_room| {
        let begun = Begun { options, host, store, skip, told, has_room };
        begin_segment(disk, &plan, &end, begun, &mut salts)
    };
    let active = reserve.help(&disk, make)?;
    let next_seq = active.header.resume_seq;
    let number = active.header.number;
    let mut floor = reserve.help(&disk, |disk, _| FloorFile::open(disk, plan.floor, store))?;
    floor.update(next_seq - 1, number, None)?;
    set_aside_snapshots(&disk, &found.recovery.passed_over)?;
    if plan.store_file_lost {
        reserve.help(&disk, |disk, _| store::write(disk, store))?;
    }
    reserve.ensure(&disk)?;
    found.recovery.adopted = elsewhere;
    found.recovery.created = plan.is_fresh();
    found.recovery.skipped_ahead = !told;
    let kept = kept(&plan, &found.recovery, active.header.first_seq);
    let journal = Journal {
        disk,
        options,
        host,
        store,
        salts,
        active,
        floor,
        reserve,
        kept,
        next_seq,
        dirty: false,
        dirty_since: None,
        poisoned: false,
        counts: Counts { total: found.record_bytes, ..Counts::default() },
        buffer: Vec::new(),
    };
    Ok((journal, found.recovery))
}

/// Whether another machine wrote that segment. A machine without an identity, now or then, is taken
/// for the same one.
fn is_elsewhere(last: &Header, host: Host) -> bool {
    let unknown = [0; 16];
    last.machine_id != host.machine_id && last.machine_id != unknown && host.machine_id != unknown
}

fn halt_if_suspicious(end: &End) -> Result<(), JournalError> {
    let TailClass::Suspicious { file, offset, bytes, what, .. } = &end.tail else { return Ok(()) };
    Err(JournalError::Suspicious(Box::new(Damage {
        file: file.clone(),
        offset: *offset,
        seq: end.next_seq,
        what: what.clone(),
        before: end.records,
        after: 0,
        bytes: *bytes,
    })))
}

/// Makes the directories, and removes what a crash left half made.
fn prepare(disk: &impl Disk, plan: &Plan) -> Result<(), JournalError> {
    for dir in [JOURNAL_DIR, SNAPSHOT_DIR, QUARANTINE_DIR] {
        disk.create_dir(dir).map_err(|source| JournalError::io("create", dir, source))?;
    }
    // What this start has read may have its name in the kernel's cache only, left there by a process
    // that was killed. A new segment must not rest on a name that a power cut can still take.
    for dir in ["", JOURNAL_DIR, SNAPSHOT_DIR, QUARANTINE_DIR] {
        sync_dir(disk, dir)?;
    }
    plan.leftovers.iter().try_for_each(|path| remove_if_there(disk, path))
}

fn sync_dir(disk: &impl Disk, dir: &str) -> Result<(), JournalError> {
    disk.sync_dir(dir).map_err(|source| JournalError::sync(dir, source))
}

/// Keeps a copy of suspicious bytes before a new segment declares them dead.
fn quarantine(disk: &impl Disk, plan: &Plan, tail: &TailClass) -> Result<TailClass, JournalError> {
    let TailClass::Suspicious { file, offset, bytes, what, .. } = tail else {
        return Ok(tail.clone());
    };
    let name = file.rsplit('/').next().unwrap_or(file);
    let kept = format!("{QUARANTINE_DIR}/{name}-at-{offset}");
    if plan.blank.as_ref() == Some(file) {
        move_aside(disk, file, &kept)?;
    } else {
        copy_bytes(disk, file, (*offset, *bytes), &kept)?;
    }
    sync_dir(disk, QUARANTINE_DIR)?;
    Ok(TailClass::Suspicious {
        file: file.clone(),
        offset: *offset,
        bytes: *bytes,
        quarantined: Some(kept),
        what: what.clone(),
    })
}

fn move_aside(disk: &impl Disk, from: &str, to: &str) -> Result<(), JournalError> {
    match disk.rename(from, to) {
        // A start before this one came as far as here.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        result => result.map_err(|source| JournalError::io("rename", from, source))?,
    }
    sync_dir(disk, from.split('/').next().unwrap_or_default())
}

fn copy_bytes(
    disk: &impl Disk,
    from: &str,
    (offset, bytes): (u64, u64),
    to: &str,
) -> Result<(), JournalError> {
    let io = |source| JournalError::io("read", from, source);
    let file = disk.open_read(from).map_err(io)?;
    // Bounded by the length of a segment file, which the plan has checked.
    let mut buffer = vec![0; usize::try_from(bytes).unwrap_or_default()];
    let count = super::disk::read_full_at(&file, offset, &mut buffer).map_err(io)?;
    store::write_aside(disk, to, buffer.get(..count).unwrap_or_default())
}

fn set_aside_snapshots(disk: &impl Disk, passed: &[SnapshotFile]) -> Result<(), JournalError> {
    for snapshot in passed {
        let name = snapshot.file.rsplit('/').next().unwrap_or(&snapshot.file);
        move_aside(disk, &snapshot.file, &format!("{QUARANTINE_DIR}/{name}"))?;
    }
    if passed.is_empty() { Ok(()) } else { sync_dir(disk, QUARANTINE_DIR) }
}

/// Numbers that were handed out may be lost with a suspicious tail, and under a weak policy with
/// any unclean end.
fn must_skip(plan: &Plan, end: &End) -> bool {
    let weak = plan.segments.last().is_some_and(|last| last.header.has(FLAG_WEAK));
    let suspicious = matches!(end.tail, TailClass::Suspicious { .. });
    (suspicious || (weak && !end.clean_close)) && !Defect::NoSkipAhead.is_on()
}

/// Whether the sequence skipped before and no record was written since: whoever must know of the
/// skip may not have learnt of it yet, so each start says it again until something is committed.
fn is_skip_untold(plan: &Plan, end: &End) -> bool {
    plan.segments.last().is_some_and(|last| {
        last.header.has(FLAG_SKIPPED_AHEAD) && last.header.resume_seq == end.next_seq
    })
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts about one start")]
#[derive(Clone, Copy)]
struct Begun {
    options: Options,
    host: Host,
    store: [u8; 16],
    skip: bool,
    /// No skip is left to be told of.
    told: bool,
    has_room: bool,
}

/// Begins the segment that this process will write, with what is not proven durable copied into it.
fn begin_segment<D: Disk>(
    disk: &D,
    plan: &Plan,
    end: &End,
    begun: Begun,
    salts: &mut Salts,
) -> Result<Active<D::File>, JournalError> {
    let Begun { options, host, store, skip, told, has_room } = begun;
    let last = plan.segments.last();
    if Defect::AppendToDirtyTail.is_on()
        && let Some(last) = last
    {
        let header = Header { resume_seq: end.next_seq, ..last.header };
        let at = (end.offset, end.proven.checksum);
        return Active::reopen_dirty(disk, header, at, options.segment_size);
    }
    let salt = salts.draw();
    let copies = match last {
        Some(last) => copy_unproven(disk, last, end, (salt, options.alignment))?,
        None => Copies::default(),
    };
    let resume_seq = if skip { end.next_seq.saturating_add(SKIP) } else { end.next_seq };
    let first_seq = if copies.bytes.is_empty() { resume_seq } else { end.proven.next_seq };
    let previous = last.map_or_else(Link::default, |last| Link {
        number: last.header.number,
        end: end.proven.offset,
        next_seq: end.proven.next_seq,
        checksum: end.proven.checksum,
    });
    let header = Header {
        alignment: options.alignment,
        store,
        number: previous.number + 1,
        first_seq,
        salt,
        machine_id: host.machine_id,
        boot_id: host.boot_id,
        previous,
        flags: weak_flag(options) | if told { 0 } else { FLAG_SKIPPED_AHEAD },
        copied_end: HEADER_BYTES + copies.bytes.len() as u64,
        resume_seq,
    };
    Active::create(disk, header, &copies, Ahead { segment: options.segment_size, has_room })
}

/// The frames of the last segment that nothing proves to be durable, sealed anew for the next one.
/// At most as long as a segment: what lies before it was synced at rotation.
fn copy_unproven<D: Disk>(
    disk: &D,
    last: &Segment,
    end: &End,
    (salt, alignment): (u64, u32),
) -> Result<Copies, JournalError> {
    let path = &last.path;
    let changed = |what: String| {
        JournalError::damage(Damage {
            file: path.clone(),
            offset: end.proven.offset,
            seq: end.proven.next_seq,
            what,
            before: end.records,
            after: 0,
            bytes: 0,
        })
    };
    let file = disk.open_read(path).map_err(|source| JournalError::io("open", path, source))?;
    let walk = Walk::open(file, path, FileKind::Segment)?;
    let mut walk = walk.map_err(|fault| changed(fault.to_string()))?;
    walk.go_to(end.proven);
    let mut copies = Copies::default();
    let mut batch = Batch::new();
    while walk.offset < end.offset {
        let frame = walk.step()?.map_err(|fault| changed(fault.to_string()))?;
        batch.refill(frame.head, frame.body);
        let slot = Slot {
            salt: frame::Salt::new(salt),
            offset: HEADER_BYTES + copies.bytes.len() as u64,
            first_seq: frame.head.first_seq,
            flags: 0,
            alignment,
        };
        copies.checksum = frame::encode(&batch, slot, &mut copies.bytes);
    }
    Ok(copies)
}

fn kept(plan: &Plan, recovery: &Recovery, first_seq: u64) -> Kept {
    let sealed: BTreeMap<u64, (u64, u64)> = plan
        .segments
        .iter()
        .map(|segment| (segment.header.number, (segment.header.first_seq, segment.len)))
        .collect();
    let mut kept = Kept::new(sealed, first_seq);
    let usable = recovery.snapshot.map_or(0, |snapshot| snapshot.seq);
    for &seq in plan.snapshots.iter().filter(|&&seq| seq <= usable) {
        kept.add_snapshot(seq);
    }
    kept
}
