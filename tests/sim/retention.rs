//! What leaves the state and when, on the simulated disk and in virtual time.

use crate::house::{House, leased};
use midwatch::engine::Input;
use midwatch::journal::{Fsync, Options};
use midwatch::kernel::ids::{Millis, TaskId, Timestamp};
use midwatch::kernel::rules::{Retention, Rules};
use midwatch::kernel::status::Outcome;
use midwatch::kernel::task::{Task, TaskSpec};
use midwatch::kernel::verdict::Verb;
use midwatch::kernel::{Answer, Command, EndReport, Rejection};
use midwatch::limits::{ARCHIVED_AT_ONCE_MAX, FORGOTTEN_PER_RECORD_MAX};

const HOUR: Millis = Millis::secs(3600);

const FEW: Retention =
    Retention { finished: HOUR, max_finished: 3, keys: Millis(3 * HOUR.0), archive: false };

// spec: RET-001 RET-003
#[test]
fn an_ended_task_goes_when_its_time_is_over_and_the_host_sleeps_until_then() {
    let mut house = House::new(FEW);
    let task = house.ended(None);
    let due = house.now.life.after(HOUR);
    assert_eq!(house.wake(), Some(due));
    house.pass(Millis(HOUR.0 - 1));
    house.turn(Vec::new());
    assert_eq!(house.left(), [task.0]);
    house.pass(Millis(1));
    house.turn(Vec::new());
    assert_eq!(house.left(), [0_u64; 0]);
    assert_eq!(house.wake(), None);
    assert_eq!(house.act(task, Verb::Cancel), Err(Rejection::Forgotten(task)));
    assert_eq!(house.act(TaskId(99), Verb::Cancel), Err(Rejection::NoSuchTask(TaskId(99))));
    house.crash();
    assert_eq!(house.left(), [0_u64; 0]);
    assert_eq!(house.forgotten, [vec![task]]);
    let next = house.ended(None);
    assert_eq!(next, TaskId(task.0 + 1), "an id is never given again");
}

// spec: RET-002
#[test]
fn a_wall_clock_that_jumps_to_2038_lets_nothing_go() {
    let mut house = House::new(FEW);
    let task = house.ended(None);
    house.now.wall = Timestamp(2_145_916_800_000);
    house.turn(Vec::new());
    house.crash();
    house.turn(Vec::new());
    assert_eq!(house.left(), [task.0]);
}

// spec: RET-004
#[test]
fn beyond_the_number_that_stays_the_tasks_go_that_ended_first_whenever_they_were_submitted() {
    let mut house = House::new(FEW);
    let late = house.submit(TaskSpec::new("job", "null"));
    let waiting = house.submit(TaskSpec::new("job", "null"));
    let early: Vec<_> = (0..4).map(|_| house.ended(None).0).collect();
    house.act(late, Verb::Cancel).unwrap();
    house.pass(Millis::secs(60)); // those that go a little after one another go together
    house.turn(Vec::new());
    assert_eq!(house.left(), [late.0, waiting.0, early[2], early[3]]);
    house.crash();
}

// spec: RET-005
#[test]
fn a_task_with_a_key_stays_as_long_as_its_key_must_whatever_the_others_say() {
    let mut house = House::new(FEW);
    let keyed: Vec<_> = ["a", "b", "c", "d", "e"].map(|key| house.ended(Some(key)).0).into();
    let plain = house.ended(None);
    house.pass(HOUR);
    house.turn(Vec::new());
    assert_eq!(house.left(), keyed, "{plain} went by its age");
    let again = Command::Submit(TaskSpec { key: Some("a".into()), ..TaskSpec::new("job", "null") });
    let known = Answer::Submitted { task: TaskId(keyed[0]), existed: true };
    assert_eq!(house.ask_one(again.clone()), Ok(known));
    house.pass(Millis(2 * HOUR.0));
    house.turn(Vec::new());
    assert_eq!(house.left(), [0_u64; 0]);
    let anew = Answer::Submitted { task: TaskId(plain.0 + 1), existed: false };
    assert_eq!(house.ask_one(again), Ok(anew), "the key is free again");
    house.crash();
}

// spec: RET-006
#[test]
fn thousands_that_are_due_at_once_go_in_bounded_records_turn_by_turn() {
    let mut house = House::new(Retention { max_finished: 10_000, ..FEW });
    let count = 2 * FORGOTTEN_PER_RECORD_MAX + 77;
    for _ in 0..count.div_ceil(100) {
        let spec = || TaskSpec::new("job", "null");
        let first = house.state().next_task().0;
        house.ask((0..100).map(|_| Command::Submit(spec())).collect());
        let cancel = |task| Command::Act {
            task: TaskId(task),
            verb: Verb::Cancel,
            max_retry: None,
            fresh: false,
        };
        house.ask((first..first + 100).map(cancel).collect());
    }
    house.pass(HOUR);
    let mut turns = 0;
    house.turn(Vec::new());
    while house.engine.as_ref().unwrap().next_wake().now {
        house.turn(Vec::new());
        turns += 1;
        assert!(turns < 10, "it never ends");
    }
    assert_eq!(house.left(), [0_u64; 0]);
    house.crash();
    assert!(house.forgotten.iter().all(|tasks| tasks.len() <= FORGOTTEN_PER_RECORD_MAX));
    assert!(3 <= house.forgotten.len(), "{}", house.forgotten.len());
}

// spec: RET-007
#[test]
fn tasks_that_come_of_age_one_by_one_go_together_at_most_once_a_minute() {
    let mut house = House::new(FEW);
    house.ended(None);
    house.pass(Millis(1));
    house.ended(None);
    house.pass(Millis(HOUR.0 - 1));
    house.turn(Vec::new());
    let let_go = house.now.life;
    assert_eq!(house.left().len(), 1);
    house.pass(Millis(1));
    house.turn(Vec::new());
    assert_eq!(house.left().len(), 1);
    assert_eq!(house.wake(), Some(let_go.after(Millis::secs(60))));
    house.pass(Millis::secs(60));
    house.turn(Vec::new());
    assert_eq!(house.left().len(), 0);
}

// spec: RET-008
#[test]
fn letting_go_costs_no_sync_of_its_own_and_is_repeated_when_it_was_lost() {
    let mut house = House::new(FEW);
    let task = house.ended(None);
    let syncs = house.engine.as_ref().unwrap().journal().stats().syncs;
    house.pass(HOUR);
    house.turn(Vec::new());
    assert_eq!(house.left(), [0_u64; 0]);
    assert_eq!(house.engine.as_ref().unwrap().journal().stats().syncs, syncs);
    assert!(house.forgotten.is_empty(), "what is not durable is published to nobody");
    house.engine = None;
    house.disk = house.disk.restarted();
    house.start();
    assert_eq!(house.left(), [task.0], "it was lost with the process");
    house.turn(Vec::new());
    assert_eq!(house.left(), [0_u64; 0]);
    house.pass(Millis::secs(10));
    house.turn(Vec::new());
    assert_eq!(house.forgotten, [vec![task]], "written with nobody waiting");
}

// spec: RET-009
#[test]
fn whoever_waits_for_the_end_of_a_task_learns_of_it_before_the_task_goes() {
    let none = Retention { finished: Millis(0), max_finished: 0, keys: Millis(0), archive: false };
    let mut house = House::new(none);
    let task = house.ended(None);
    assert!(house.state().task(task).is_some_and(|task| task.status.is_terminal()));
    house.turn(Vec::new());
    assert!(house.state().task(task).is_none());
}

// spec: RET-010
#[test]
fn a_task_that_runs_a_forgotten_one_again_is_whole() {
    let mut house = House::new(FEW);
    let old = house.ended(None);
    let Ok(Answer::Acted { task: anew, .. }) = house.act(old, Verb::Retry) else { panic!() };
    house.pass(HOUR);
    house.turn(Vec::new());
    house.crash();
    let task = house.state().task(anew).unwrap();
    assert_eq!((task.retry_of(), house.left()), (Some(old), vec![anew.0]));
    house.act(anew, Verb::Cancel).unwrap();
    assert!(matches!(house.act(anew, Verb::Retry), Ok(Answer::Acted { changed: true, .. })));
}

fn archived(house: &mut House, written: Result<(), String>) {
    let tasks = house.archive.pop().unwrap().iter().map(|task| task.id).collect();
    assert!(house.archive.is_empty(), "one at a time");
    house.turn(vec![Input::Archived { tasks, written }]);
}

// spec: RET-020 RET-021
#[test]
fn no_task_goes_before_it_is_in_the_archive() {
    let mut house = House::new(Retention { archive: true, max_finished: 1000, ..FEW });
    let count = ARCHIVED_AT_ONCE_MAX as u64 + 3;
    for _ in 0..count {
        house.ended(None);
    }
    house.pass(HOUR);
    house.turn(Vec::new());
    house.turn(Vec::new());
    assert_eq!((house.left().len() as u64, house.archive.len()), (count, 1));
    let first: Vec<_> = house.archive[0].iter().map(|task| task.id.0).collect();
    assert_eq!(first, (1..=ARCHIVED_AT_ONCE_MAX as u64).collect::<Vec<_>>());
    assert!(house.archive[0].iter().all(|task| task.status.is_terminal()));
    // The engine dies before it hears of it: the same tasks are handed out again.
    house.crash();
    house.archive.clear();
    house.turn(Vec::new());
    assert_eq!(house.archive[0].len(), ARCHIVED_AT_ONCE_MAX);
    archived(&mut house, Ok(()));
    assert_eq!(house.left().len(), 3);
    house.turn(Vec::new());
    archived(&mut house, Ok(()));
    assert_eq!(house.left(), [0_u64; 0]);
}

// spec: RET-022
#[test]
fn an_archive_that_cannot_be_written_is_tried_again_every_minute_and_nothing_goes() {
    let mut house = House::new(Retention { archive: true, ..FEW });
    house.ended(None);
    house.pass(HOUR);
    for _ in 0..3 {
        house.turn(Vec::new());
        archived(&mut house, Err("no space".to_owned()));
        let engine = house.engine.as_ref().unwrap();
        assert_eq!(engine.archive_trouble(), Some("no space"));
        assert_eq!(house.wake(), Some(house.now.life.after(Millis::secs(60))));
        house.turn(Vec::new());
        house.pass(Millis(59_999));
        house.turn(Vec::new());
        assert!(house.archive.is_empty(), "a storm");
        assert_eq!(house.left().len(), 1);
        house.pass(Millis(1));
    }
    house.turn(Vec::new());
    archived(&mut house, Ok(()));
    assert_eq!(house.left(), [0_u64; 0]);
    assert_eq!(house.engine.as_ref().unwrap().archive_trouble(), None);
}

// spec: RET-030 RET-031
#[test]
fn beyond_max_state_new_tasks_are_refused_and_those_that_run_go_on() {
    let rules = Rules { max_state: 20_000, retention: FEW, ..Rules::default() };
    let mut house = House::with(rules, Options::default());
    let (task, proof) = leased(&mut house);
    let known = TaskSpec { key: Some("k".into()), ..TaskSpec::new("job", "null") };
    house.submit(known.clone());
    let ended = house.ended(None);
    let payload = format!("\"{}\"", "x".repeat(4000));
    let refused = loop {
        match house.ask_one(Command::Submit(TaskSpec::new("job", payload.as_str()))) {
            Ok(Answer::Submitted { .. }) => {}
            refused => break refused,
        }
    };
    let bytes = house.state().bytes();
    assert_eq!(refused, Err(Rejection::StateFull { bytes, max: 20_000 }));
    assert!(bytes <= 20_000 && 20_000 < bytes + 4002 + 200, "{bytes}");
    assert_eq!(house.state().tasks().map(Task::bytes).sum::<u64>(), bytes);
    assert!(matches!(
        house.ask_one(Command::Submit(known)),
        Ok(Answer::Submitted { existed: true, .. })
    ));
    // What runs may leave a checkpoint and a result, though the state grows by them.
    let data = format!("\"{}\"", "c".repeat(9000));
    let checkpoint = Command::Checkpoint { proof, data: data.as_str().into() };
    assert!(matches!(house.ask_one(checkpoint), Ok(Answer::Checkpointed(_))));
    assert!(20_000 < house.state().bytes());
    let small = || Command::Submit(TaskSpec::new("job", "null"));
    assert!(matches!(house.ask_one(small()), Err(Rejection::StateFull { .. })));
    assert!(matches!(house.act(ended, Verb::Retry), Err(Rejection::StateFull { .. })));
    let report = EndReport {
        outcome: Outcome::Success,
        started: true,
        exit_code: Some(0),
        signal: None,
        result: Some("[1]".into()),
        error: None,
        usage: None,
        ran: None,
        input: None,
    };
    assert!(matches!(house.ask_one(Command::End { proof, report }), Ok(Answer::Ended(_))));
    house.crash();
    // When ended tasks go there is room again.
    house.pass(HOUR);
    house.turn(Vec::new());
    assert!(house.state().task(task).is_none());
    house.ask_one(small()).unwrap();
}

// spec: RET-032
#[test]
fn the_bytes_of_a_task_are_those_of_its_texts_and_a_fixed_part_for_each_piece() {
    let mut house = House::new(FEW);
    let (task, proof) = leased(&mut house);
    let bytes = |house: &House| house.state().task(task).unwrap().bytes();
    // A task, a line of history, and an attempt by `w1`.
    assert_eq!(bytes(&house), (200 + 4) + 128 + (256 + 2));
    house.ask_one(Command::Checkpoint { proof, data: "[1,2,3]".into() }).unwrap();
    assert_eq!(bytes(&house), 204 + 128 + 258 + 7);
    let report = EndReport {
        outcome: Outcome::Fatal,
        started: true,
        exit_code: Some(65),
        signal: None,
        result: None,
        error: Some("no good".into()),
        usage: None,
        ran: None,
        input: None,
    };
    house.ask_one(Command::End { proof, report }).unwrap();
    // The error stands in the task, in its history and in its attempt.
    assert_eq!(bytes(&house), 204 + 2 * 128 + 258 + 7 + 3 * 7);
    let spec = TaskSpec {
        key: Some("key".into()),
        checkpoint: Some("[]".into()),
        ..TaskSpec::new("a type counts for none", "{}")
    };
    let foretold = spec.bytes();
    let other = house.submit(spec);
    assert_eq!((house.state().task(other).unwrap().bytes(), foretold), (207, 207));
    assert_eq!(house.state().bytes(), bytes(&house) + 207);
}

/// A directory that is never cleaned by hand: with small limits neither state nor journal grows.
// spec: RET-040
#[test]
fn a_hundred_thousand_tasks_through_small_limits_leave_small_files() {
    let retention = Retention { max_finished: 100, ..FEW };
    let rules = Rules { retention, ..Rules::default() };
    let options = Options { segment_size: 64 << 10, fsync: Fsync::Never, ..Options::default() };
    let mut house = House::with(rules, options);
    house.engine.as_mut().unwrap().set_snapshot_after(64 << 10);
    let mut most = 0;
    for _ in 0..1000 {
        let first = house.state().next_task().0;
        let spec = || TaskSpec::new("job", "{\"page\":7}");
        house.ask((0..100).map(|_| Command::Submit(spec())).collect());
        let cancel = |task| Command::Act {
            task: TaskId(task),
            verb: Verb::Cancel,
            max_retry: None,
            fresh: false,
        };
        house.ask((first..first + 100).map(cancel).collect());
        house.pass(Millis::secs(1));
        let stats = house.engine.as_ref().unwrap().journal().stats();
        most = most.max(stats.bytes);
        let kept = house.state().task_count();
        assert!(kept <= 100 + FORGOTTEN_PER_RECORD_MAX + 100, "{kept} tasks");
    }
    println!("100,000 tasks, at most {most} bytes of journal");
    assert!(most < 4 << 20, "{most} bytes of journal");
    house.state().check().unwrap();
}
