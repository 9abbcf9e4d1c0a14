//! What is written when little or nothing happens, and what one more task costs when there are many:
//! flash wears out, and state that is rewritten as a whole does not scale.

use super::house::{House, SECRET, registered};
use midwatch::journal::Options;
use midwatch::kernel::ids::{Millis, ProcessId, WorkerId};
use midwatch::kernel::rules::{Retention, Rules};
use midwatch::kernel::task::{Progress, TaskSpec};
use midwatch::kernel::{Answer, Command, HoldReport, Proof};

const HOUR: Millis = Millis::secs(3600);

/// Lets an hour pass in steps, in each of which every worker is heard of.
fn an_hour(house: &mut House, step: Millis, mut holds: impl FnMut(u64, usize) -> Vec<HoldReport>) {
    let workers: Vec<WorkerId> = house.state().workers().map(|worker| worker.id).collect();
    for place in 0..HOUR.0 / step.0 {
        for (number, worker) in workers.iter().enumerate() {
            house.pass(Millis(step.0 / workers.len() as u64));
            let holds = holds(place, number);
            house.ask_one(Command::Heartbeat { worker: *worker, holds }).unwrap();
        }
        house.turn(Vec::new());
    }
}

// field: an idle daemon that wrote each minute, and was switched off for the sake of the card.
#[test]
fn b87_an_idle_hour_with_two_workers_writes_nothing() {
    let mut house = House::new(Retention::default());
    registered(&mut house, "job", 2);
    registered(&mut house, "job", 2);
    let before = house.engine().journal().stats();
    an_hour(&mut house, Millis::secs(30), |_, _| Vec::new());
    let after = house.engine().journal().stats();
    assert_eq!((after.frames, after.written_bytes), (before.frames, before.written_bytes));
    assert_eq!(after.syncs, before.syncs);
}

#[test]
fn b87_the_heartbeats_of_ten_running_tasks_travel_together() {
    let heartbeat = Millis::secs(5);
    let rules = Rules { heartbeat, ..Rules::default() };
    let mut house = House::with(rules, Options::default());
    let proofs: Vec<Proof> = (0..10)
        .map(|number| {
            let kind = format!("job{number}");
            house.submit(TaskSpec::new(kind.as_str(), "null"));
            let worker = registered(&mut house, &kind, 1);
            match house.ask_one(Command::Lease { worker, secrets: vec![SECRET] }) {
                Ok(Answer::Leased(leases)) => {
                    let (task, fence) = leases[0];
                    Proof { worker, task, fence, secret: SECRET }
                }
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let before = house.engine().journal().stats();
    let process = ProcessId { pid: 9, start_time: 1, boot_id: "b".to_owned(), pid_namespace: 1 };
    an_hour(&mut house, heartbeat, |place, number| {
        let progress = Some(Progress { done: place, total: Some(720), note: None });
        vec![HoldReport { proof: proofs[number], process: Some(process.clone()), progress }]
    });
    let after = house.engine().journal().stats();
    let (frames, bytes) =
        (after.frames - before.frames, after.written_bytes - before.written_bytes);
    println!("7,200 heartbeats with progress: {frames} frames, {} KiB", bytes >> 10);
    // One frame for each interval, not one for each heartbeat.
    assert!(frames <= 2 * HOUR.0 / heartbeat.0, "{frames}");
    assert!(bytes / 7_200 < 200, "{bytes}");
}

// field: adding one task cost as much as all tasks, for the whole state was written each time.
#[test]
fn b88_one_more_task_is_written_alone_however_many_there_are() {
    let retention = Retention { max_finished: 100_000, ..Retention::default() };
    let options = Options { segment_size: 4 << 20, ..Options::default() };
    let rules = Rules { retention, max_state: 1 << 30, ..Rules::default() };
    let mut house = House::with(rules, options);
    house.engine.as_mut().unwrap().set_snapshot_after(2 << 20);
    let mut cost = |queued: u64| {
        while house.state().next_task().0 <= queued {
            let many = (0..512).map(|_| Command::Submit(TaskSpec::new("job", "[1]")));
            house.ask(many.collect());
        }
        let before = house.engine().journal().stats();
        house.submit(TaskSpec::new("job", "[1]"));
        let after = house.engine().journal().stats();
        (after.written_bytes - before.written_bytes, after.snapshots - before.snapshots)
    };
    let (few, many) = (cost(10), cost(100_000));
    assert_eq!((few, many), ((512, 0), (512, 0)));
    // A start reads the last snapshot and what came after it, not all that ever happened.
    let records = house.engine().journal().stats().records;
    house.crash();
    let recovery = house.start();
    assert!(recovery.snapshot.is_some());
    assert!(recovery.records < records, "{} of {records}", recovery.records);
}
