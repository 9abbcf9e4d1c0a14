//! Leases in virtual time: who holds one, for how long, and what stands in one frame.

use super::*;
use midwatch::kernel::event::Standing;
use midwatch::sim::Dice;

const LEASE: Millis = Millis::secs(600);
const BEAT: Millis = Millis::secs(30);

/// A heartbeat that tells of a handler which runs.
fn beat(bench: &mut Bench, worker: WorkerId, holds: &[Proof]) {
    let process = ProcessId { pid: 9, start_time: 1, boot_id: "b".to_owned(), pid_namespace: 1 };
    let hold = |proof: &Proof| HoldReport {
        proof: *proof,
        process: Some(process.clone()),
        progress: None,
    };
    let holds = holds.iter().map(hold).collect();
    bench.ask(Command::Heartbeat { worker, holds }).unwrap();
}

fn attempts(bench: &mut Bench, task: TaskId) -> u32 {
    bench.engine().state().task(task).unwrap().attempt_count()
}

fn failed(proof: Proof) -> Command {
    let Command::End { proof, report } = end(proof) else { unreachable!("an end") };
    let report = EndReport { outcome: Outcome::Retryable, exit_code: Some(75), ..report };
    Command::End { proof, report }
}

// A plain command never speaks; its worker does, for as long as it lives.
#[test]
fn b30_a_task_without_a_limit_keeps_its_one_lease_over_many_full_spans_of_it() {
    let mut bench = Bench::new(30);
    let (worker, other) = (bench.register(), bench.register());
    let task = bench.submit(job());
    let proof = bench.lease(worker, 1).unwrap();
    beat(&mut bench, worker, &[proof]);
    for _ in 0..12 * LEASE.0 / BEAT.0 {
        bench.wait(BEAT);
        beat(&mut bench, worker, &[proof]);
        assert!(bench.lease(other, 2).is_none(), "a second copy");
        assert_eq!((bench.status(task), bench.sweeps.len()), (Status::Running, 0));
    }
    bench.end(proof).unwrap();
    assert_eq!((bench.status(task), attempts(&mut bench, task)), (Status::Success, 1));
}

#[test]
fn b31_what_waits_longer_than_any_lease_holds_none_and_runs_once() {
    let mut bench = Bench::new(31);
    let worker = bench.register();
    let mut spec = job();
    spec.delay = Some(LEASE.times(10));
    spec.max_retry = 6;
    let task = bench.submit(spec);
    // First the delay, then waits before retries, the last ones longer than a lease.
    for attempt in 1..=7 {
        let mut waited = Millis(0);
        let proof = loop {
            beat(&mut bench, worker, &[]);
            if let Some(proof) = bench.lease(worker, 1) {
                break proof;
            }
            let known = bench.engine().state().task(task).unwrap();
            assert!(known.lease().is_none() && known.status.is_waiting(), "{known:?}");
            bench.wait(BEAT);
            waited = waited.plus(BEAT);
        };
        assert!(attempt != 1 || LEASE.times(10) <= waited, "{waited:?}");
        assert!(attempt != 7 || LEASE < waited, "{waited:?}");
        assert!(bench.lease(worker, 2).is_none(), "a second copy");
        assert_eq!(attempts(&mut bench, task), attempt);
        beat(&mut bench, worker, &[proof]);
        let command = if attempt == 7 { end(proof) } else { failed(proof) };
        bench.ask(command).unwrap();
    }
    assert_eq!((bench.status(task), bench.sweeps.len()), (Status::Success, 0));
}

#[test]
fn b35_only_what_runs_can_expire_however_long_the_rest_waits() {
    let mut bench = Bench::new(35);
    let worker = bench.register();
    let tasks: Vec<_> = (0..500).map(|_| bench.submit(job())).collect();
    let proof = bench.lease(worker, 1).unwrap();
    beat(&mut bench, worker, &[proof]);
    for _ in 0..10 * LEASE.0 / BEAT.0 {
        bench.wait(BEAT);
        beat(&mut bench, worker, &[proof]);
        bench.turn(Vec::new()).unwrap();
    }
    assert!(bench.sweeps.is_empty(), "{:?}", bench.sweeps);
    for task in tasks {
        let known = bench.engine().state().task(task).unwrap().clone();
        let expected = if task == proof.task { Status::Running } else { Status::Pending };
        assert_eq!((known.status, known.retry_count, known.lost_count), (expected, 0, 0));
        assert_eq!(known.attempt_count(), u32::from(task == proof.task));
    }
    bench.engine().state().check().unwrap();
}

/// A step that consists of several records, and what may be found after a crash within it.
struct Pair {
    name: &'static str,
    step: fn(&mut Bench, Proof, TaskId) -> Vec<Input>,
    /// Whether the statuses of the leased task and of the one that waits may stand together.
    fits: fn(Status, Status) -> bool,
}

const PAIRS: [Pair; 4] = [
    Pair {
        name: "the last failure and the death",
        step: |bench, proof, _| vec![bench.input(vec![failed(proof)])],
        fits: |first, _| [Status::Running, Status::Dead].contains(&first),
    },
    Pair {
        name: "an end and the next lease",
        step: |bench, proof, _| {
            let lease = Command::Lease { worker: proof.worker, secrets: vec![SecretHash([2; 16])] };
            vec![bench.input(vec![end(proof), lease])]
        },
        fits: |first, second| {
            [(Status::Running, Status::Pending), (Status::Success, Status::Running)]
                .contains(&(first, second))
        },
    },
    Pair {
        name: "a worker's death and the loss of what it ran",
        step: |_, proof, _| {
            vec![Input::WorkerDied { worker: proof.worker, reason: Reason::WorkerCrash }]
        },
        fits: |first, _| [Status::Running, Status::Lost].contains(&first),
    },
    Pair {
        name: "a cancel of what waits, and nothing of what runs",
        step: |bench, _, waiting| {
            let cancel = Command::Act {
                task: waiting,
                verb: midwatch::kernel::verdict::Verb::Cancel,
                max_retry: None,
                fresh: false,
            };
            vec![bench.input(vec![cancel])]
        },
        fits: |first, second| {
            first == Status::Running && [Status::Pending, Status::Cancelled].contains(&second)
        },
    },
];

// A crash between two writes left a task that was in no queue. (The pairs of schedules and of the
// inbox are to come with these; that of dependencies is in `dispatch.rs`.)
#[test]
fn b37_what_belongs_together_is_there_whole_or_not_at_all_after_a_crash_at_any_call() {
    for Pair { name, step, fits } in PAIRS {
        let mut bench = Bench::new(37);
        let worker = bench.register();
        let mut spec = job();
        spec.max_retry = 0;
        let first = bench.submit(spec);
        let second = bench.submit(job());
        let proof = bench.lease(worker, 1).unwrap();
        assert_eq!(proof.task, first);
        beat(&mut bench, worker, &[proof]);
        bench.disk.record_trail();
        let inputs = step(&mut bench, proof, second);
        bench.turn(inputs).unwrap();
        let mut found = std::collections::BTreeSet::new();
        for point in bench.disk.take_trail() {
            let states = CrashStates::of(&point.disk, None);
            let choices = states.choices(64, &mut Dice::new(37)).into_iter();
            for disk in choices.map(|choice| states.disk(&choice)) {
                let mut after = Bench::on(disk);
                let statuses = (after.status(first), after.status(second));
                let what = format!("{name}: {statuses:?} before {}", point.doing);
                assert!(fits(statuses.0, statuses.1), "{what}");
                let is_there = after.engine().state().worker(worker).is_some();
                assert_eq!(is_there, statuses.0 != Status::Lost, "{what}");
                if statuses.0 == Status::Dead {
                    // Not buried by the next start: the two records follow each other.
                    let task = after.engine().state().task(first).unwrap();
                    let life = task.life.as_ref().unwrap();
                    let lines: Vec<_> = life.transitions.iter().rev().take(2).collect();
                    assert_eq!(lines[0].seq.0, lines[1].seq.0 + 1, "{what}: {lines:?}");
                }
                after.engine().state().check().unwrap();
                found.insert(statuses);
            }
        }
        assert_eq!(found.len(), 2, "{name}: before and after, and nothing else: {found:?}");
    }
}

// The bare-metal test met this: a silent worker's request that waits made it count as heard at each
// turn, in which it fell silent again, two records and a sync every time.
#[test]
fn a_request_that_waits_for_what_it_cannot_get_says_nothing_for_its_worker() {
    for is_full in [false, true] {
        let mut bench = Bench::new(7);
        let worker = bench.register();
        // Work is there: of a type the worker does not know, or while it holds all it can.
        if is_full {
            for _ in 0..=SLOTS {
                bench.submit(job());
            }
            (0..SLOTS).for_each(|n| assert!(bench.lease(worker, n).is_some()));
        } else {
            bench.submit(TaskSpec::new("other", "[1]"));
        }
        let secrets = vec![SecretHash([200; 16])];
        let patience = Millis::secs(100_000);
        let input = Input::AwaitLease { from: Ticket(0), worker, secrets, patience };
        bench.turn(vec![input]).unwrap();
        let standing = |bench: &mut Bench| {
            let turns: Vec<_> = (0..5).map(|_| bench.turn(Vec::new()).unwrap()).collect();
            assert!(turns.concat().is_empty(), "nothing was to be had");
            bench.engine().state().worker(worker).unwrap().standing
        };
        let before = bench.engine().state().next_seq();
        bench.wait(Rules::default().suspect_after);
        assert_eq!(standing(&mut bench), Standing::Suspect);
        let records = bench.engine().state().next_seq().0 - before.0;
        assert!(records <= 1 + u64::from(SLOTS), "{records} records");
        bench.wait(Rules::default().offline_after);
        assert_eq!(standing(&mut bench), Standing::Offline);
    }
}

// An attacker met this: with the only free slot of the type at a stopped worker, the task went there
// and waited until somebody missed it.
#[test]
fn a_silent_worker_that_waits_for_work_gets_none_until_it_speaks() {
    let mut bench = Bench::new(8);
    let worker = bench.register();
    let secrets = vec![SecretHash([200; 16])];
    let patience = Millis::secs(100_000);
    let input = Input::AwaitLease { from: Ticket(0), worker, secrets, patience };
    bench.turn(vec![input]).unwrap();
    bench.wait(Rules::default().suspect_after);
    bench.turn(Vec::new()).unwrap();
    let task = bench.submit(job());
    bench.turn(Vec::new()).unwrap();
    assert_eq!(bench.status(task), Status::Pending);
    bench.ask(Command::Heartbeat { worker, holds: Vec::new() }).unwrap();
    bench.turn(Vec::new()).unwrap();
    assert_eq!(bench.status(task), Status::Running);
}

// The model met this: a new worker counted as never heard of, so it was suspect in the turn of its
// registration and offline in the next, on record, until it asked for work.
#[test]
fn a_worker_that_has_just_registered_is_alive() {
    let mut bench = Bench::new(9);
    bench.wait(Rules::default().offline_after.times(3));
    let worker = bench.register();
    let before = bench.engine().state().next_seq();
    for _ in 0..3 {
        bench.turn(Vec::new()).unwrap();
        assert_eq!(bench.engine().state().worker(worker).unwrap().standing, Standing::Alive);
    }
    assert_eq!(bench.engine().state().next_seq(), before);
    bench.wait(Rules::default().suspect_after);
    bench.turn(Vec::new()).unwrap();
    assert_eq!(bench.engine().state().worker(worker).unwrap().standing, Standing::Suspect);
}
