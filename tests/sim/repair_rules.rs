//! Each rule of a repair by itself; `spec/repair.md` has them.

use midwatch::engine::repair::{Diagnosis, Method, Plan, diagnose};
use midwatch::engine::{Rebuild, codec};
use midwatch::journal::segment::snapshot_path;
use midwatch::journal::{Batch, FrameAt, Journal, JournalError, Visitor, salvage};
use midwatch::kernel::event::{Actor, Event, Hurried, Stamp, Submitted};
use midwatch::kernel::ids::{LifeTime, Seq, ServiceTime, TaskId, Timestamp};
use midwatch::kernel::task::TaskSpec;
use midwatch::sim::{Failure, Op, SimDisk, Times};
use rustix::io::Errno;

use crate::repair::{Life, RANDOM, host, opened, options, store};

fn planned(disk: &SimDisk, method: Method) -> Box<Plan> {
    match diagnose(disk, method).unwrap() {
        Diagnosis::Plan(plan) => plan,
        Diagnosis::Healthy(_) => panic!("nothing to repair"),
    }
}

/// A journal on a store with a task in it, for records that no engine would write.
fn journal() -> (SimDisk, Journal<SimDisk>) {
    let disk = SimDisk::new(1);
    Life::open(&disk, 1).unwrap().submit(1);
    let disk = disk.restarted();
    let opened = Journal::open(disk.clone(), options(), host(2), &mut Rebuild::default());
    (disk, opened.unwrap().0)
}

/// Commits events as one frame.
fn commit(journal: &mut Journal<SimDisk>, events: &[Event]) {
    let mut batch = Batch::new();
    for (seq, event) in (journal.next_seq()..).zip(events) {
        let stamp = Stamp {
            seq: Seq(seq),
            wall: Timestamp(1),
            life: LifeTime(1),
            service: ServiceTime(1),
            by: Actor::Daemon,
        };
        let mut body = Vec::new();
        codec::encode(&stamp, event, &mut body);
        batch.push(codec::kind(event), false, &body);
    }
    journal.commit(&batch).unwrap();
}

fn submitted(task: u64) -> Event {
    let spec = TaskSpec::new("job", "1");
    Event::Submitted(Submitted { task: TaskId(task), spec, due: LifeTime(1) })
}

// spec: REP-021, REP-025
#[test]
fn a_record_that_cannot_follow_takes_its_whole_frame_along() {
    let (disk, mut journal) = journal();
    commit(&mut journal, &[submitted(2)]);
    let bad = journal.next_seq();
    commit(&mut journal, &[submitted(3), Event::Hurried(Hurried { task: TaskId(99) })]);
    commit(&mut journal, &[submitted(4)]);
    drop(journal);
    let disk = disk.restarted();
    let has = |plan: &Plan, task: u64| plan.outcome.state.task(TaskId(task)).is_some();
    let cut = planned(&disk, Method::Cut);
    assert_eq!([2, 3, 4].map(|task| has(&cut, task)), [true, false, false]);
    assert_eq!((cut.outcome.aside_count, cut.outcome.aside[0].first, cut.salvageable), (3, bad, 2));
    let salvage = planned(&disk, Method::Salvage);
    assert_eq!([2, 3, 4].map(|task| has(&salvage, task)), [true, true, true]);
    assert_eq!(salvage.skipped.len(), 1);
    let skipped = &salvage.skipped[0];
    assert_eq!((skipped.seq, skipped.task), (bad + 1, Some(TaskId(99))));
    assert_eq!(skipped.why, "event `hurried` cannot follow: there is no task 99");
    salvage.carry_out(&disk, RANDOM).unwrap();
    assert_eq!(opened(&disk).unwrap(), salvage.digest);
}

// spec: REP-012
#[test]
fn a_record_of_a_newer_midwatch_is_not_cut_away() {
    let (disk, mut journal) = journal();
    let mut batch = Batch::new();
    batch.push(900, false, b"from the future");
    journal.commit(&batch).unwrap();
    drop(journal);
    let disk = disk.restarted();
    for method in [Method::Cut, Method::Salvage] {
        match diagnose(&disk, method) {
            Err(JournalError::Unrepairable { what }) => {
                assert!(what.ends_with("repair it with the midwatch that wrote it"), "{what}");
            }
            other => panic!("{other:?}"),
        }
    }
}

// spec: REP-013
#[test]
fn an_error_on_reading_is_no_damage() {
    let whole = store(&[12]);
    whole.rm("store");
    let path = whole.files().into_iter().find(|path| path.starts_with("journal/")).unwrap();
    whole.flip(&path, 8 * 4100);
    for nth in 1.. {
        let disk = whole.fork();
        disk.fail(Op::Read, nth, Failure::Error(Errno::IO), Times::Once);
        let found = diagnose(&disk, Method::Cut);
        if disk.failures() == 0 {
            break;
        }
        match found {
            Err(JournalError::Io { .. }) => {}
            // Counting what is whole around the damage is for the message alone.
            Ok(Diagnosis::Plan(plan)) => {
                assert_eq!(plan.digest, planned(&whole, Method::Cut).digest);
            }
            other => panic!("read {nth}: {other:?}"),
        }
    }
}

// spec: REP-023
#[test]
fn copies_that_went_bad_are_taken_from_where_they_were_made() {
    struct Copies(Vec<(String, u64)>);
    impl Visitor for Copies {
        fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
            if frame.copied {
                self.0.push((frame.file.to_owned(), frame.offset));
            }
            Ok(())
        }
    }
    let disk = store(&[]);
    let mut copies = Copies(Vec::new());
    salvage(&disk, &mut copies).unwrap();
    assert!(!copies.0.is_empty());
    let whole = opened(&disk.fork()).unwrap();
    for (path, offset) in copies.0 {
        let harmed = disk.fork();
        harmed.flip(&path, 8 * (offset + 40));
        let plan = planned(&harmed, Method::Cut);
        assert!(plan.loses_nothing(), "{:?} {:?}", plan.unreadable, plan.outcome.aside);
        assert_ne!(plan.digest, whole, "numbers skip ahead");
    }
}

// spec: REP-041
#[test]
fn a_repaired_store_that_loses_its_snapshot_does_not_begin_anew() {
    let disk = store(&[]);
    let path = disk.files().into_iter().find(|path| path.starts_with("journal/")).unwrap();
    disk.flip(&path, 8 * 4100);
    let plan = planned(&disk, Method::Salvage);
    plan.carry_out(&disk, RANDOM).unwrap();
    let snapshot = snapshot_path(plan.next_seq - 1);
    disk.rm(&snapshot);
    match opened(&disk) {
        Err(JournalError::Missing { last_seq, .. }) => {
            assert_eq!(last_seq, Some(plan.next_seq - 1));
        }
        other => panic!("{other:?}"),
    }
}

/// A plan said "lose nothing" over a newest segment of which only the header was hit: what it held
/// can't be told by then, and that must be said.
// spec: REP-034
#[test]
fn where_the_newest_segment_is_gone_nobody_says_that_nothing_is_lost() {
    let harms: [fn(&SimDisk, &str); 4] = [
        |disk, newest| disk.flip(newest, 8 * 100),
        |disk, newest| disk.zero(newest, 0..512),
        |disk, newest| disk.zero(newest, 0..disk.read_file(newest).unwrap().len()),
        |disk, newest| disk.rm(newest),
    ];
    for (number, harm) in harms.iter().enumerate() {
        let disk = store(&[12]).restarted();
        let files = disk.files();
        let newest = files.iter().rfind(|path| path.starts_with("journal/")).unwrap();
        let first: u64 = newest[19..39].parse().unwrap();
        harm(&disk, newest);
        let Ok(Diagnosis::Plan(plan)) = diagnose(&disk, Method::Cut) else { panic!("{number}") };
        assert_eq!(plan.end_unknown, Some(first), "{number}");
        assert!(!plan.loses_nothing(), "{number}");
    }
    let disk = store(&[12]).restarted();
    let files = disk.files();
    let middle = files.iter().filter(|path| path.starts_with("journal/")).nth(2).unwrap();
    disk.flip(middle, 8 * (4096 + 16));
    let Ok(Diagnosis::Plan(plan)) = diagnose(&disk, Method::Cut) else { panic!("not damaged") };
    assert_eq!(plan.end_unknown, None);
}
