//! Snapshots. Damage behind checksums that were made right, and whole frames whose records nobody
//! ever wrote: a start takes them or refuses; what was only damaged ends in a state that was; a
//! reader counts what the naive one counts; nothing panics.

use crate::bytes::Bytes;
use crate::reference;
use crate::scan::{Ignore, files_of};
use crate::store::{HOST, options, settled, settled_unchecked, written};
use crate::{body, harm};
use midwatch::engine::codec::{
    self, CodecError, KIND_ALERTS, KIND_FIGURES, KIND_HEAD, KIND_SCHEDULE, KIND_TASK, KIND_TYPE,
    KIND_TYPE_FIGURES, KIND_WORKER, SNAPSHOT_KINDS,
};
use midwatch::engine::{Engine, Fold, Piece, digest, for_each_record};
use midwatch::journal::{Batch, Journal, Record, read_snapshot, scan};
use midwatch::kernel::rules::Rules;
use midwatch::sim::SimDisk;

pub fn run(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    match bytes.byte() % 4 {
        0 => damaged(&mut bytes),
        1 => resealed(&mut bytes),
        _ => made_up(&mut bytes),
    }
}

fn is_snapshot(path: &str) -> bool {
    path.starts_with("snapshots/")
}

/// A store with snapshots in it.
fn with_snapshots(bytes: &mut Bytes<'_>) -> SimDisk {
    let stores = &written().stores;
    stores[1 + bytes.below(stores.len() - 1)].fork()
}

/// What disks do to a snapshot: another one, or the journal, stands in for it.
fn damaged(bytes: &mut Bytes<'_>) {
    let disk = with_snapshots(bytes);
    for _ in 0..4 {
        if bytes.is_empty() {
            break;
        }
        let paths: Vec<_> = disk.files().into_iter().filter(|path| is_snapshot(path)).collect();
        let Some(path) = paths.get(bytes.below(paths.len())) else { break };
        crate::store::harm_file(&disk, path, bytes);
    }
    read(&disk);
    if let Ok(found) = settled(&disk) {
        assert!(written().digests.contains(&found), "it opened with a state that never was");
    }
}

/// The same, with checksums that hold.
fn resealed(bytes: &mut Bytes<'_>) {
    let disk = with_snapshots(bytes);
    let mut files = files_of(&disk);
    for _ in 0..8 {
        if bytes.is_empty() {
            break;
        }
        harm::any(&mut files, bytes, is_snapshot);
    }
    for path in disk.files().iter().filter(|path| is_snapshot(path)) {
        disk.rm(path);
    }
    for (path, content) in files.iter().filter(|(path, _)| is_snapshot(path)) {
        disk.write_file(path, content);
    }
    read(&disk);
    drop(settled_unchecked(&disk));
}

/// Every reader of snapshots, and what they must agree on.
fn read(disk: &SimDisk) {
    let (found, expected) = (scan(disk, &mut ()), reference::read(&files_of(disk)));
    assert_eq!(found.is_ok(), expected.is_ok(), "{found:?} {expected:?}");
    let Ok(report) = found else { return };
    for snapshot in report.snapshots {
        let mut count = 0;
        let read = read_snapshot(disk, snapshot.seq, |record| {
            count += 1;
            Piece::of_snapshot(record).map(drop)
        });
        if read.is_ok() {
            assert_eq!((count, snapshot.fault), (snapshot.records, None));
        }
    }
}

/// A snapshot of records that are nearly those of a true one, or not at all.
fn made_up(bytes: &mut Bytes<'_>) {
    let disk = with_snapshots(bytes);
    let mut records = Vec::new();
    let newest = disk.files().into_iter().rfind(|path| is_snapshot(path));
    if let Some(seq) = newest.and_then(|path| path[10..30].parse().ok()) {
        read_snapshot(&disk, seq, |record| {
            records.push((record.kind, record.ignorable, record.body.to_vec()));
            Ok(())
        })
        .expect("an undamaged snapshot can be read");
    }
    for _ in 0..6 {
        if bytes.is_empty() {
            break;
        }
        change(&mut records, bytes);
    }
    let opened = Journal::open(disk.clone(), options(), HOST, &mut Ignore);
    let (mut journal, _) = opened.expect("an undamaged store opens");
    let mut writer = journal.snapshot_writer().expect("the disk is well");
    for (kind, ignorable, body) in &records {
        writer.push(*kind, *ignorable, body).expect("the disk is well");
    }
    let done = writer.finish().expect("the disk is well");
    // Alone it must serve; beside older ones it might.
    let taken_note = match bytes.byte() % 3 {
        0 => journal.snapshot_done(done),
        _ => journal.snapshot_alone(done),
    };
    taken_note.expect("the disk is well");
    while !bytes.is_empty() {
        let mut batch = Batch::new();
        let (kind, length) = (u16::from(bytes.byte()), bytes.below(256));
        batch.push(kind, false, bytes.take(length));
        journal.commit(&batch).expect("the disk is well");
    }
    drop(journal);
    let disk = disk.restarted();
    read(&disk);
    let unknown = |kind, body: &[u8]| {
        matches!(codec::decode_kept(kind, body), Err(CodecError::UnknownKind(_)))
    };
    let must_refuse = records.iter().any(|(kind, skip, body)| !skip && unknown(*kind, body));
    if settled_unchecked(&disk).is_ok() {
        assert!(!must_refuse, "a kind that must be known is not");
        serves(&disk);
    }
}

/// A state that was taken can be written as a snapshot, and that one says the same.
fn serves(disk: &SimDisk) {
    let opened = Engine::open(disk.fork(), options(), HOST, Rules::default());
    let (engine, _) = opened.expect("it opened before");
    let image = engine.state().image();
    let mut fold = Fold::default();
    for_each_record(&image, |kind, body| {
        let piece = Piece::of_snapshot(Record { kind, ignorable: false, body })?;
        piece.map_or(Ok(()), |piece| fold.take(piece))
    })
    .expect("what is written can be read");
    assert_eq!(digest(&fold.finish().image()), digest(&image));
}

type Kept = (u16, bool, Vec<u8>);

fn change(records: &mut Vec<Kept>, bytes: &mut Bytes<'_>) {
    let at = bytes.below(records.len() + 1);
    match bytes.byte() % 8 {
        0 if at < records.len() => drop(records.remove(at)),
        1 if at < records.len() => {
            let to = bytes.below(records.len());
            records.swap(at, to);
        }
        2 if at < records.len() => {
            let again = records[at].clone();
            records.push(again);
        }
        3 if at < records.len() => records[at].0 = kind(bytes),
        4 if at < records.len() => {
            let body = &mut records[at].2;
            let place = bytes.below(body.len().max(1));
            body.truncate(place);
        }
        5 => {
            let length = bytes.below(200);
            records.insert(at, (kind(bytes), bytes.bit(), bytes.take(length).to_vec()));
        }
        _ if at < records.len() && !records[at].2.is_empty() => {
            let body = &mut records[at].2;
            for _ in 0..=bytes.below(3) {
                let place = bytes.below(body.len());
                body[place] = bytes.byte();
            }
        }
        _ => {}
    }
}

/// What snapshots hold, as the seeds of bodies call it.
const KINDS: [(&str, u16); 8] = [
    ("head", KIND_HEAD),
    ("worker", KIND_WORKER),
    ("task", KIND_TASK),
    ("type", KIND_TYPE),
    ("schedule", KIND_SCHEDULE),
    ("figures", KIND_FIGURES),
    ("type-figures", KIND_TYPE_FIGURES),
    ("alerts", KIND_ALERTS),
];

fn kind(bytes: &mut Bytes<'_>) -> u16 {
    match bytes.below(KINDS.len() + 2) {
        0 => SNAPSHOT_KINDS + u16::from(bytes.byte()),
        1 => u16::from(bytes.byte()),
        known => KINDS[known - 2].1,
    }
}

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = vec![
        ("untouched", vec![0, 1]),
        ("bit", vec![0, 1, 0, 1, 17, 0, 3]),
        ("cut", vec![0, 1, 0, 3, 18, 9]),
        ("resealed-head", vec![1, 1, 0, 8, 0, 1, 6, 0]),
        ("resealed-frame", vec![1, 1, 0, 11, 0, 5, 0, 1]),
        ("resealed-record", vec![1, 2, 1, 13, 0, 1, 0, 44, 200, 0, 60, 3]),
        ("longer", vec![1, 1, 0, 11, 0, 6, 5, 30, 0]),
        ("as-it-was", vec![2, 1]),
        ("removed", vec![2, 1, 0, 0]),
        ("doubled", vec![2, 1, 3, 2]),
        ("swapped", vec![2, 0, 2, 1, 0]),
        ("cut-body", vec![2, 1, 1, 4, 9]),
        ("changed", vec![2, 1, 4, 6, 1, 3, 9, 5, 255]),
    ];
    for (name, seed) in body::seeds() {
        // A record of every kind that a snapshot holds, as the first one.
        let length = seed.len() - 2;
        let known = KINDS.iter().position(|(known, _)| *known == name);
        if let Some(known) = known.filter(|_| length < 200) {
            let mut input = vec![2, 1, 0, 5, length as u8, known as u8 + 2, 0];
            input.extend_from_slice(&seed[2..]);
            seeds.push((name, input));
        }
    }
    seeds
}
