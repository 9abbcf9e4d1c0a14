//! The weaker policies of `fsync`, and records that travel along: what a killed process and a
//! power cut may take, to the end of the engine.

use crate::house::{House, SECRET, leased, leased_as};
use midwatch::journal::{Fsync, Options, SKIP};
use midwatch::kernel::event::Event;
use midwatch::kernel::ids::{Fence, Millis, ProcessId, TaskId};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::task::{Progress, TaskSpec};
use midwatch::kernel::{Answer, Command, HoldReport, Proof};
use midwatch::sim::SimDisk;

const EVERY: Millis = Millis(200);

fn house(fsync: Fsync) -> House {
    House::with(Rules::default(), Options { fsync, ..Options::default() })
}

fn interval() -> Fsync {
    Fsync::Interval(EVERY.duration())
}

fn syncs(house: &House) -> u64 {
    house.engine().journal().stats().syncs
}

fn submit(house: &mut House, count: u64) {
    for _ in 0..count {
        house.submit(TaskSpec::new("job", "null"));
    }
}

/// The numbers that were handed out by now: a task, a sequence number, a fencing token.
struct HandedOut {
    task: TaskId,
    seq: u64,
    fence: Fence,
}

/// A start after the power failed in one of many ways: how many of the tasks are there, from the
/// first on without a gap, and no number that was handed out is handed out again.
fn after_power_cut(before: &House, disk: &SimDisk, seed: u64, handed_out: &HandedOut) -> u64 {
    let mut house = before.on(disk.after_crash(seed, false));
    let recovery = house.start();
    assert!(recovery.skipped_ahead, "an unclean end under a weak policy");
    let left = house.left();
    let count = left.len() as u64;
    assert_eq!(left, (1..=count).collect::<Vec<_>>(), "what is lost is the end, without gaps");
    assert!(handed_out.seq < house.state().head().seq.0, "a sequence number comes again");
    let (task, proof) = leased_as(&mut house, "anew");
    assert!(handed_out.task < task, "task {task} comes again");
    assert!(SKIP <= task.0, "{task}");
    assert!(handed_out.fence < proof.fence, "token {} comes again", proof.fence);
    count
}

fn handed_out(house: &mut House) -> HandedOut {
    let (task, Proof { fence, .. }) = leased(house);
    HandedOut { task, fence, seq: house.state().head().seq.0 }
}

// spec: REC-040 REC-041
#[test]
fn under_an_interval_a_power_cut_takes_what_was_acknowledged_in_the_last_interval_at_most() {
    let mut house = house(interval());
    submit(&mut house, 20);
    house.pass(EVERY);
    house.turn(Vec::new());
    house.pass(Millis(1));
    submit(&mut house, 10);
    let handed_out = handed_out(&mut house);
    let mut counts = Vec::new();
    for seed in 0..60 {
        counts.push(after_power_cut(&house, &house.disk, seed, &handed_out));
    }
    let (least, most) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
    assert!(20 <= least, "{least} tasks are left of 20 that are older than the interval");
    assert!(least < 31 && most <= 31, "{least} to {most}: the window is real");
}

// W43: a sync that only the next write would have brought.
// spec: REC-041
#[test]
fn w43_the_last_frame_is_synced_by_the_timer_though_nobody_writes_another() {
    let mut house = house(interval());
    house.pass(Millis(777));
    submit(&mut house, 3);
    let before = syncs(&house);
    let woken = house.engine().next_wake().life.expect("a timer is set");
    assert_eq!(woken, house.now.life.after(EVERY));
    house.pass(Millis(EVERY.0 - 1));
    house.turn(Vec::new());
    assert_eq!(syncs(&house), before, "not before its time");
    house.pass(Millis(1));
    house.turn(Vec::new());
    assert_eq!(syncs(&house), before + 1);
    assert_eq!(house.engine().next_wake().life, None, "and nobody is woken again");
    let handed_out = handed_out(&mut house);
    for seed in 0..30 {
        assert!(3 <= after_power_cut(&house, &house.disk, seed, &handed_out));
    }
}

// spec: REC-040
#[test]
fn under_never_a_power_cut_takes_what_came_after_the_last_clean_close_at_most() {
    let mut house = house(Fsync::Never);
    submit(&mut house, 5);
    house.engine.take().unwrap().close().unwrap();
    assert!(!house.start().skipped_ahead, "a clean end loses no number");
    submit(&mut house, 10);
    let handed_out = handed_out(&mut house);
    assert_eq!(house.engine().next_wake().life, None, "nothing is ever synced by a timer");
    let mut counts = Vec::new();
    for seed in 0..60 {
        counts.push(after_power_cut(&house, &house.disk, seed, &handed_out));
    }
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!((5..16).contains(least) && *most <= 16, "{least} to {most}");
}

// spec: REC-040
#[test]
fn a_killed_process_loses_nothing_acknowledged_under_any_policy_and_skips_under_the_weak_ones() {
    for fsync in [Fsync::Always, interval(), Fsync::Never] {
        let mut house = house(fsync);
        submit(&mut house, 7);
        let HandedOut { task, seq, fence } = handed_out(&mut house);
        house.engine = None;
        house.disk = house.disk.restarted();
        let weak = fsync != Fsync::Always;
        assert_eq!(house.start().skipped_ahead, weak, "{fsync:?}");
        assert_eq!(house.left().len(), 8, "{fsync:?}");
        let (next, proof) = leased_as(&mut house, "anew");
        if weak {
            assert!(SKIP < next.0 - task.0 && SKIP < proof.fence.0 - fence.0, "{fsync:?}");
        } else {
            assert_eq!((next.0, proof.fence.0), (task.0 + 1, seq + 4), "{fsync:?}");
        }
    }
}

fn heartbeat(house: &mut House, proof: Proof) {
    let progress = Progress { done: 5, total: Some(9), note: None };
    let hold = HoldReport { proof, process: Some(ProcessId::default()), progress: Some(progress) };
    let heartbeat = Command::Heartbeat { worker: proof.worker, holds: vec![hold] };
    assert!(matches!(house.ask_one(heartbeat), Ok(Answer::Heard(stale)) if stale.is_empty()));
}

fn progress(house: &House, task: TaskId) -> Option<u64> {
    Some(house.state().task(task)?.life.as_ref()?.progress.as_ref()?.done)
}

// W42: heartbeats, then ten idle minutes, then a power cut; a periodic sync had forgotten them.
#[test]
fn w42_what_travels_along_is_durable_after_ten_seconds_and_everything_else_at_once() {
    let mut house = house(Fsync::Always);
    house.pass(Millis(500));
    let (task, proof) = leased(&mut house);
    let before = syncs(&house);
    heartbeat(&mut house, proof);
    assert_eq!(syncs(&house), before, "nobody waits for a heartbeat");
    // Cut now, the heartbeat may be gone and nothing else.
    let mut early = house.on(house.disk.after_crash(1, false));
    early.start();
    assert_eq!((early.left(), progress(&early, task)), (vec![task.0], None));
    let flush = house.engine().next_wake().service.expect("a timer is set");
    assert!(flush <= house.now.service.after(Millis::secs(10)), "{flush:?}");
    house.pass(Millis(flush.0 - house.now.service.0));
    house.turn(Vec::new());
    assert_eq!(syncs(&house), before + 1, "written and synced with nobody asking");
    house.pass(Millis::secs(600));
    for seed in 0..30 {
        let mut late = house.on(house.disk.after_crash(seed, false));
        late.start();
        assert_eq!((late.left(), progress(&late, task)), (vec![task.0], Some(5)));
    }
}

/// The table of classes on the page is the codec's; see `spec_records`. This is what it means.
#[test]
fn a_turn_is_synced_at_once_for_every_kind_but_those_that_travel_along() {
    let mut house = house(Fsync::Always);
    let mut synced = syncs(&house);
    let mut step = |house: &mut House, what: &str, act: &mut dyn FnMut(&mut House), wait: bool| {
        act(house);
        let now = syncs(house);
        assert_eq!(now > synced, wait, "{what}");
        synced = now;
    };
    step(&mut house, "submitted", &mut |house| submit(house, 1), true);
    let mut proof = None;
    step(&mut house, "leased", &mut |house| proof = Some(leased(house).1), true);
    let proof = proof.unwrap();
    step(&mut house, "heard", &mut |house| heartbeat(house, proof), false);
    let checkpoint = Command::Checkpoint { proof, data: "1".into() };
    step(
        &mut house,
        "checkpointed",
        &mut |house| drop(house.ask_one(checkpoint.clone()).unwrap()),
        true,
    );
    assert_eq!(proof.secret, SECRET);
    assert!(!Event::Forgotten(midwatch::kernel::event::Forgotten { tasks: vec![] }).is_durable());
}
