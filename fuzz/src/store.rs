//! Whole stores. A damaged one opens with some prefix of what was written, or is refused; records
//! that nobody wrote are taken or refused; the same bytes have the same fate twice; nothing panics.

use crate::bytes::Bytes;
use crate::scan::Ignore;
use midwatch::engine::codec::{self, CodecError};
use midwatch::engine::{Engine, Input, Output, Start, Ticket, digest, write_snapshot};
use midwatch::journal::{Batch, Host, Journal, Options};
use midwatch::kernel::event::{Actor, Registration};
use midwatch::kernel::ids::{LifeTime, Millis, Moment, ProcessId, Seq, ServiceTime, Timestamp};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::task::{SecretHash, TaskSpec};
use midwatch::kernel::{Answer, Command, Head, Image, Proof, State};
use midwatch::sim::SimDisk;
use std::collections::BTreeSet;
use std::sync::OnceLock;

pub(crate) const HOST: Host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 3 };

pub(crate) fn options() -> Options {
    Options { segment_size: 8 << 10, reserve: 8 << 10, ..Options::default() }
}

/// Stores that were written as they should be, and the digest of every state on the way.
pub(crate) struct Written {
    pub(crate) stores: Vec<SimDisk>,
    pub(crate) digests: BTreeSet<String>,
    /// The same without the numbers that a repair skips.
    pub(crate) held: BTreeSet<String>,
}

pub(crate) fn written() -> &'static Written {
    static WRITTEN: OnceLock<Written> = OnceLock::new();
    WRITTEN.get_or_init(write)
}

fn moment(ms: u64) -> Moment {
    let (life, service) = (LifeTime(ms), ServiceTime(ms));
    Moment { wall: Timestamp(1 << 40), life, service, dice: ms, doubtful: false }
}

/// One life of a store: killed without a snapshot, killed with one, killed with two, closed.
fn write() -> Written {
    let disk = SimDisk::new(5);
    let (mut engine, _) =
        Engine::open(disk.clone(), options(), HOST, Rules::default()).expect("a new store opens");
    engine.set_snapshot_after(u64::MAX);
    let start = Start {
        version: "fuzz".into(),
        boot_id: "boot".into(),
        boot_clock: Millis(0),
        skipped_ahead: false,
        ..Start::default()
    };
    let mut digests = BTreeSet::from([digest(&engine.state().image())]);
    let mut held_digests = BTreeSet::from([held(engine.state())]);
    engine.start(start, moment(1)).expect("it starts");
    let mut stores = Vec::new();
    let (mut worker, mut lease) = (None, None);
    for step in 0..60 {
        digests.insert(digest(&engine.state().image()));
        held_digests.insert(held(engine.state()));
        let command = match (step, worker) {
            (0, _) => Command::Register(registration()),
            (step, Some(worker)) if step % 7 == 3 => {
                Command::Lease { worker, secrets: vec![SecretHash([step as u8; 16])] }
            }
            (step, Some(worker)) if step % 7 == 4 && lease.is_some() => {
                let (task, fence) = lease.expect("it was just asked for");
                let secret = SecretHash([step as u8 - 1; 16]);
                let proof = Proof { worker, task, fence, secret };
                Command::Checkpoint { proof, data: format!("{{\"at\":{step}}}").into() }
            }
            _ => {
                let mut spec = TaskSpec::new("job", format!("\"{}\"", "x".repeat(step * 7)));
                spec.key = Some(format!("key {step}").into());
                Command::Submit(spec)
            }
        };
        let input = Input::Ask { from: Ticket(0), by: Actor::Daemon, commands: vec![command] };
        engine.set_snapshot_after(if step == 25 || step == 45 { 0 } else { u64::MAX });
        let outputs = engine.step([input], moment(step as u64 + 2)).expect("a step");
        let mut snapshots = Vec::new();
        for output in outputs {
            match output {
                Output::Answers { answers, .. } => match answers.first() {
                    Some(Ok(Answer::Registered(id))) => worker = Some(*id),
                    Some(Ok(Answer::Leased(leases))) => lease = leases.first().copied(),
                    Some(Err(refused)) => panic!("{refused:?}"),
                    _ => {}
                },
                Output::Snapshot { image, writer } => {
                    snapshots.push(write_snapshot(&image, *writer));
                }
                Output::Archive(_) | Output::Sweep { .. } | Output::Events(_) => {}
            }
        }
        for done in snapshots {
            engine.set_snapshot_after(u64::MAX);
            let input = Input::SnapshotWritten(done);
            engine.step([input], moment(step as u64 + 2)).expect("a snapshot is taken up");
        }
        if [20, 30, 50].contains(&step) {
            stores.push(disk.fork());
        }
    }
    digests.insert(digest(&engine.state().image()));
    held_digests.insert(held(engine.state()));
    engine.close().expect("it closes");
    stores.push(disk.fork());
    Written { stores, digests, held: held_digests }
}

/// Digest of the tasks and workers of a state.
pub(crate) fn held(state: &State) -> String {
    digest(&Image { head: Head::default(), ..state.image() })
}

fn registration() -> Registration {
    Registration {
        name: "w".into(),
        process: ProcessId::default(),
        host: "h".into(),
        version: "0".into(),
        lock: "l".into(),
        kinds: vec!["job".into()],
        slots: 30,
    }
}

pub fn run(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    if bytes.bit() { made_up(&mut bytes) } else { damaged(&mut bytes) }
}

/// What opening a disk comes to: the digest of the state, or the refusal.
fn fate(disk: &SimDisk, checked: bool) -> Result<String, String> {
    let opened = Engine::open(disk.clone(), options(), HOST, Rules::default());
    match opened {
        Ok((engine, _)) => {
            let state = engine.state();
            if checked {
                state.check().unwrap_or_else(|wrong| panic!("{wrong}"));
            }
            Ok(digest(&state.image()))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The fate of a disk, after it proved to be the same twice, and again after the first start. The
/// state, if any, is one that makes sense.
pub(crate) fn settled(disk: &SimDisk) -> Result<String, String> {
    settled_if(disk, true)
}

/// The same for a snapshot that somebody forged: what it says of one task may contradict itself, for
/// a start does not look into what checksums vouch for.
pub(crate) fn settled_unchecked(disk: &SimDisk) -> Result<String, String> {
    settled_if(disk, false)
}

fn settled_if(disk: &SimDisk, checked: bool) -> Result<String, String> {
    let (first, second) = (disk.fork(), disk.fork());
    let found = fate(&first, checked);
    assert_eq!(found, fate(&second, checked), "the same bytes, another fate");
    if found.is_ok() {
        assert_eq!(
            fate(&first.restarted(), checked),
            found,
            "the second start finds something else"
        );
    }
    found
}

fn damaged(bytes: &mut Bytes<'_>) {
    let Written { stores, digests, .. } = written();
    let disk = stores[bytes.below(stores.len())].fork();
    for _ in 0..8 {
        if bytes.is_empty() {
            break;
        }
        harm(&disk, bytes);
    }
    if let Ok(digest) = settled(&disk) {
        assert!(digests.contains(&digest), "it opened with a state that never was");
    }
}

pub(crate) fn harm(disk: &SimDisk, bytes: &mut Bytes<'_>) {
    let files = disk.files();
    if let Some(path) = files.get(bytes.below(files.len())) {
        harm_file(disk, path, bytes);
    }
}

pub(crate) fn harm_file(disk: &SimDisk, path: &str, bytes: &mut Bytes<'_>) {
    let files = disk.files();
    let length = disk.read_file(path).map_or(0, |bytes| bytes.len());
    let how = bytes.byte() % 8;
    // Places near the beginning are where most is to be broken.
    let near = if how & 1 == 0 { length.max(1) } else { length.clamp(1, 6000) };
    let place = usize::from(bytes.byte()) * 256 + usize::from(bytes.byte());
    let place = place % near;
    match how {
        0 | 1 => disk.edit(path, |file| {
            if let Some(byte) = file.get_mut(place) {
                *byte ^= bytes.byte() | 1;
            }
        }),
        2 => {
            let end = (place + 512 * (1 + bytes.below(9))).min(length);
            disk.zero(path, place.min(end)..end);
        }
        3 => disk.cut(path, place),
        4 => {
            let count = bytes.below(64);
            disk.append(path, bytes.take(count));
        }
        5 => disk.rm(path),
        6 => {
            let other = &files[bytes.below(files.len())];
            let other = disk.read_file(other).unwrap_or_default();
            disk.write_file(path, &other);
        }
        _ => disk.edit(path, |file| {
            // A sector stands where another belongs.
            let (from, to) = (place / 512 * 512, bytes.below(32) * 512);
            if from + 512 <= file.len() && to + 512 <= file.len() {
                file.copy_within(from..from + 512, to);
            }
        }),
    }
}

/// Whole frames with whole checksums, whose records nobody ever decided.
fn made_up(bytes: &mut Bytes<'_>) {
    let stores = &written().stores;
    // Into an empty store, or behind a true history.
    let disk =
        stores.get(bytes.below(stores.len() + 1)).map_or_else(|| SimDisk::new(1), SimDisk::fork);
    let opened = Journal::open(disk.clone(), options(), HOST, &mut Ignore);
    let (mut journal, _) = opened.expect("an undamaged store opens");
    let (mut batch, mut unwritten_unknown, mut must_refuse) = (Batch::new(), false, false);
    while !bytes.is_empty() {
        let (kind, ignorable) = (u16::from(bytes.byte()), bytes.bit());
        let unknown = matches!(codec::decode(Seq(1), kind, b""), Err(CodecError::UnknownKind(_)));
        let length = bytes.below(256);
        batch.push(kind, ignorable, bytes.take(length));
        unwritten_unknown |= unknown && !ignorable;
        if bytes.bit() || !batch.fits(256) {
            journal.commit(&batch).expect("the disk is well");
            must_refuse |= std::mem::take(&mut unwritten_unknown);
            batch.clear();
        }
    }
    drop(journal);
    let found = settled(&disk.restarted());
    assert!(found.is_err() || !must_refuse, "a kind that must be known is not");
}

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = vec![
        ("untouched", vec![0, 3]),
        ("bit", vec![0, 1, 2, 0, 5, 7, 1]),
        ("header", vec![0, 2, 3, 1, 0, 9, 4]),
        ("zeros", vec![0, 0, 1, 2, 9, 0, 3]),
        ("cut", vec![0, 3, 2, 3, 3, 200]),
        ("gone", vec![0, 2, 4, 5, 0, 0]),
        ("swapped", vec![0, 1, 1, 6, 0, 0, 2]),
        ("sector", vec![0, 0, 2, 7, 18, 0, 9]),
    ];
    let mut made_up = vec![1, 4];
    for (_, seed) in crate::body::seeds() {
        let (kind, body) = (seed[0], &seed[2..]);
        if seed[1] == 0 && body.len() < 256 {
            made_up.extend_from_slice(&[kind, 0, body.len() as u8]);
            made_up.extend_from_slice(body);
            made_up.push(0);
        }
    }
    made_up.push(1);
    seeds.push(("made-up", made_up));
    seeds
}
