//! Replays a whole store: every body is decoded, every event is applied, and every snapshot is
//! compared with what the records before it make up.

use midwatch::engine::codec::{self, CodecError};
use midwatch::engine::{Rebuild, Rebuilding, digest};
use midwatch::journal::{
    Header, JournalError, Place, RealDisk, Record, Replay as _, Report, SnapshotFile, Visitor,
    read_snapshot, scan,
};
use midwatch::kernel::ids::Seq;
use midwatch::kernel::{State, apply};
use std::collections::BTreeMap;

/// What a check found.
pub(crate) struct Checked {
    pub(crate) report: Report,
    /// The state at the end.
    pub(crate) state: State,
    /// Records of unknown kinds that may be skipped, and were.
    pub(crate) skipped: u64,
}

/// Checks everything there is. A refusal names the first thing that is wrong.
pub(crate) fn check(disk: &RealDisk) -> Result<Checked, JournalError> {
    let mut first = First::default();
    let found = scan(disk, &mut first)?;
    let base = base(&found, first.number);
    let mut snapshots = BTreeMap::new();
    let mut state = State::default();
    for snapshot in found.snapshots.iter().filter(|snapshot| snapshot.fault.is_none()) {
        let held = load(disk, snapshot.seq)?;
        snapshots.insert(snapshot.seq, digest(&held.image()));
        if Some(snapshot.seq) == base {
            state = held;
        }
    }
    let mut apply =
        Apply { state, base: base.unwrap_or_default(), snapshots, unequal: None, skipped: 0 };
    let report = scan(disk, &mut apply)?;
    apply.compare_before(u64::MAX);
    let Apply { state, unequal, skipped, .. } = apply;
    if let Some(seq) = unequal {
        return Err(refused_snapshot(&report.snapshots, seq));
    }
    state.check().map_err(|text| refused_state(&state, text))?;
    Ok(Checked { report, state, skipped })
}

/// The snapshot from which the records that are held go on: the oldest one that reaches them.
/// None when they go on from nothing.
pub(crate) fn base(report: &Report, first_segment: u64) -> Option<u64> {
    if first_segment <= 1 {
        return None;
    }
    let good = report.snapshots.iter().filter(|snapshot| snapshot.fault.is_none());
    let seqs = good.map(|snapshot| snapshot.seq);
    seqs.into_iter().find(|seq| report.first_seq <= seq.saturating_add(1))
}

/// Whether a record that can't be decoded may be passed over: its writer said so.
pub(crate) fn is_ignorable(error: &CodecError, record: Record<'_>) -> bool {
    record.ignorable && matches!(error, CodecError::UnknownKind(_))
}

/// The number of the first segment.
#[derive(Default)]
pub(crate) struct First {
    pub(crate) number: u64,
}

impl Visitor for First {
    fn segment(&mut self, _file: &str, header: &Header) -> Result<(), String> {
        if self.number == 0 {
            self.number = header.number;
        }
        Ok(())
    }
}

/// The state that the snapshot at a sequence holds.
pub(crate) fn load(disk: &RealDisk, seq: u64) -> Result<State, JournalError> {
    let mut rebuild = Rebuild::default();
    rebuild.snapshot_begin(seq).map_err(|text| JournalError::RefusedStore { text })?;
    read_snapshot(disk, seq, |record| rebuild.snapshot_record(record))?;
    Ok(rebuild.finish())
}

fn refused_state(state: &State, text: String) -> JournalError {
    let seq = state.head().seq.0;
    JournalError::Refused { file: "the state at the end".to_owned(), offset: 0, seq, text }
}

fn refused_snapshot(snapshots: &[SnapshotFile], seq: u64) -> JournalError {
    let named = snapshots.iter().find(|snapshot| snapshot.seq == seq);
    JournalError::Refused {
        file: named.map(|snapshot| snapshot.file.clone()).unwrap_or_default(),
        offset: 0,
        seq,
        text: "the snapshot is not what the records up to its sequence make up".to_owned(),
    }
}

struct Apply {
    state: State,
    /// Records up to here are in the state from the start.
    base: u64,
    /// Digest of each good snapshot that was not compared yet.
    snapshots: BTreeMap<u64, String>,
    /// The first snapshot that differs.
    unequal: Option<u64>,
    skipped: u64,
}

impl Apply {
    /// Compares the snapshots before `seq` with the state, which is that before `seq`.
    fn compare_before(&mut self, seq: u64) {
        while let Some(entry) = self.snapshots.first_entry().filter(|entry| *entry.key() < seq) {
            let (at, stored) = entry.remove_entry();
            if self.base < at && self.unequal.is_none() && stored != digest(&self.state.image()) {
                self.unequal = Some(at);
            }
        }
    }
}

impl Visitor for Apply {
    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        self.compare_before(place.seq);
        let (stamp, event) = match codec::decode(Seq(place.seq), record.kind, record.body) {
            Ok(decoded) => decoded,
            Err(error) if is_ignorable(&error, record) => {
                self.skipped += 1;
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
        };
        if place.seq <= self.base {
            return Ok(());
        }
        apply(&mut self.state, &stamp, &event).map_err(|illegal| illegal.to_string())
    }
}
