use super::*;
use crate::engine::{Engine, Input, Rebuild, Start, Ticket, codec, digest};
use crate::journal::{Batch, Host, Journal, JournalError, Options, RealDisk, replay};
use crate::kernel::Command;
use crate::kernel::event::{Actor, Event, Hurried, Stamp};
use crate::kernel::ids::{LifeTime, Moment, Seq, ServiceTime, TaskId, Timestamp};
use crate::kernel::rules::Rules;
use crate::kernel::task::TaskSpec;
use std::path::Path;

const HOST: Host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 3 };

/// A store with more tasks than one thread would do alone.
fn write_store(dir: &Path, tasks: usize) {
    let disk = RealDisk::open(dir).unwrap();
    let (mut engine, _) = Engine::open(disk, Options::default(), HOST, Rules::default()).unwrap();
    let start = Start {
        version: "1".into(),
        boot_id: "b".into(),
        boot_clock: Millis(0),
        skipped_ahead: false,
        ..Start::default()
    };
    engine.start(start, Moment::default()).unwrap();
    for piece in 0..tasks.div_ceil(1000) {
        let commands = (0..1000).map(|n| Command::Submit(TaskSpec::new("job", n.to_string())));
        let commands = commands.collect();
        let by = Actor::User(u32::try_from(piece % 3).unwrap());
        engine.step([Input::Ask { from: Ticket(0), by, commands }], Moment::default()).unwrap();
    }
    engine.close().unwrap();
}

/// The state's digest both ways; or the refusals.
fn both(dir: &Path) -> (Result<String, JournalError>, Result<String, JournalError>) {
    let disk = RealDisk::open(dir).unwrap();
    let (mut alone, mut beside) = (Rebuild::default(), Replayer::new());
    let alone = replay(&disk, u64::MAX, &mut alone).map(|_| digest(&alone.finish().image()));
    let beside = replay(&disk, u64::MAX, &mut beside).map(|_| digest(&beside.finish().image()));
    (alone, beside)
}

#[test]
fn two_threads_rebuild_what_one_does() {
    for tasks in [0, ALONE_MAX - 1000, 5 * ALONE_MAX] {
        let dir = tempfile::tempdir().unwrap();
        write_store(dir.path(), tasks);
        let (alone, beside) = both(dir.path());
        assert_eq!(alone.unwrap(), beside.unwrap(), "{tasks} tasks");
    }
}

#[test]
fn a_record_that_cannot_follow_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    write_store(dir.path(), 2 * ALONE_MAX);
    // A whole frame, behind it as many records as the second thread may still have before it.
    let disk = RealDisk::open(dir.path()).unwrap();
    let (mut journal, _) =
        Journal::open(disk.clone(), Options::default(), HOST, &mut Rebuild::default()).unwrap();
    let stamp = Stamp {
        seq: Seq(journal.next_seq()),
        wall: Timestamp(0),
        life: LifeTime(0),
        service: ServiceTime(0),
        by: Actor::Daemon,
    };
    let mut body = Vec::new();
    let event = Event::Hurried(Hurried { task: TaskId(1 << 40) });
    codec::encode(&stamp, &event, &mut body);
    let mut batch = Batch::new();
    batch.push(codec::kind(&event), false, &body);
    journal.commit(&batch).unwrap();
    journal.close().unwrap();
    let (alone, beside) = both(dir.path());
    assert!(matches!(alone, Err(JournalError::Refused { seq, .. }) if seq == stamp.seq.0));
    assert!(matches!(
        beside,
        Err(JournalError::RefusedStore { .. } | JournalError::Refused { .. })
    ));
    let segments = || std::fs::read_dir(dir.path().join("journal")).unwrap().count();
    let before = segments();
    let opened = Journal::open(disk, Options::default(), HOST, &mut Replayer::new());
    assert!(opened.is_err());
    assert_eq!(segments(), before, "a refused start began no segment");
}
