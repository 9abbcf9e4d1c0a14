//! Who goes next, and who waits for whom, in virtual time and across crashes.

use super::*;
use midwatch::kernel::task::After;
use midwatch::sim::Dice;
use std::collections::BTreeSet;

fn with_priority(priority: i32) -> TaskSpec {
    TaskSpec { priority, ..job() }
}

fn after(of: TaskId) -> TaskSpec {
    TaskSpec { after: Some(After { tasks: vec![of], any: false }), ..job() }
}

fn end_as(proof: Proof, outcome: Outcome) -> Command {
    let Command::End { proof, report } = end(proof) else { unreachable!("an end") };
    Command::End { proof, report: EndReport { outcome, ..report } }
}

/// One slot, urgent tasks that come faster than they end, and a few that are not urgent: killed as
/// it may be, the engine starts the first of these when it has waited for fifteen minutes, and each
/// other one four dispatches later.
// spec: DSP-003 DSP-006
#[test]
fn b84_urgent_tasks_without_end_starve_nobody_and_a_restart_changes_nothing() {
    for killed_every in [usize::MAX, 97, 1] {
        let mut bench = Bench::new(84);
        let worker = bench.register();
        let low: Vec<_> = (0..4).map(|_| bench.submit(with_priority(200))).collect();
        let patience = Rules::default().promote_after;
        if killed_every == 1 {
            bench.wait(patience); // each start takes its time, so only the end is played
        }
        let mut starts = Vec::new();
        let mut dispatches = 0;
        while starts.len() < low.len() {
            assert!(dispatches < 1_000, "after {starts:?} nobody came: it starves");
            bench.submit(with_priority(1));
            bench.submit(with_priority(1));
            let proof = bench.lease(worker, 1).unwrap();
            dispatches += 1;
            if low.contains(&proof.task) {
                assert_eq!(proof.task, low[starts.len()], "the oldest goes first");
                starts.push((dispatches, bench.now.life));
            }
            bench.wait(Millis::secs(1));
            bench.end(proof).unwrap();
            if dispatches % killed_every == 0 {
                bench.killed();
            }
        }
        let first = starts[0];
        assert_eq!(first.1, LifeTime(0).after(patience).after(Millis::secs(1)), "{starts:?}");
        let apart: Vec<_> = starts.iter().map(|(at, _)| at - first.0).collect();
        assert_eq!(apart, [0, 4, 8, 12], "every fourth, whoever was killed in between");
        bench.engine().state().check().unwrap();
    }
}

/// A worker that waits for work gets a task in the very turn in which the last one that it waited
/// for ends.
#[test]
fn a_released_task_goes_to_a_worker_that_waits_in_the_same_turn() {
    let mut bench = Bench::new(1);
    let worker = bench.register();
    let first = bench.submit(job());
    let second = bench.submit(after(first));
    let proof = bench.lease(worker, 1).unwrap();
    let secrets = vec![SecretHash([2; 16])];
    let patience = Millis::secs(100);
    let wait = Input::AwaitLease { from: Ticket(0), worker, secrets, patience };
    assert!(bench.turn(vec![wait]).unwrap().is_empty(), "nothing can run yet");
    let input = bench.input(vec![end(proof)]);
    bench.turn(vec![input]).unwrap();
    assert_eq!((bench.status(first), bench.status(second)), (Status::Success, Status::Running));
}

// spec: DSP-022 DSP-028
#[test]
fn a_chain_moves_one_link_a_turn_and_asks_for_the_next_turn_at_once() {
    let mut bench = Bench::new(2);
    let worker = bench.register();
    let mut chain = vec![bench.submit(job())];
    for _ in 0..20 {
        chain.push(bench.submit(after(*chain.last().unwrap())));
    }
    let proof = bench.lease(worker, 1).unwrap();
    bench.ask(end_as(proof, Outcome::Fatal)).unwrap();
    for link in 1..chain.len() {
        let ended = chain.iter().filter(|id| bench.status(**id).is_terminal()).count();
        assert_eq!(ended, 1 + link, "the turn that ended the first one moved one link");
        let last = link + 1 == chain.len();
        assert_eq!(bench.engine().next_wake().now, !last, "link {link}");
        bench.turn(Vec::new()).unwrap();
    }
    assert!(bench.engine().state().index().settled.is_empty());
    let task = bench.engine().state().task(chain[20]).unwrap();
    let error = task.life.as_ref().unwrap().error.clone().unwrap();
    assert!(error.contains(&format!("task {}", chain[19])), "{error}");
}

// A crash between two writes left a task that was in no queue: here between the end of a task and
// the release of those that wait for it.
// spec: DSP-029
#[test]
fn b37_no_crash_at_any_call_keeps_a_task_waiting_for_one_that_has_ended() {
    for outcome in [Outcome::Success, Outcome::Fatal] {
        let mut bench = Bench::new(37);
        let worker = bench.register();
        let first = bench.submit(job());
        let waiting = [bench.submit(after(first)), bench.submit(after(first))];
        let proof = bench.lease(worker, 1).unwrap();
        bench.disk.record_trail();
        bench.ask(end_as(proof, outcome)).unwrap();
        let mut found = BTreeSet::new();
        for point in bench.disk.take_trail() {
            let states = CrashStates::of(&point.disk, None);
            for choice in states.choices(64, &mut Dice::new(37)) {
                let mut left = Bench::on(states.disk(&choice));
                left.engine().state().check().unwrap();
                left.turn(Vec::new()).unwrap();
                let ended = left.status(first) != Status::Running;
                found.insert(ended);
                for id in waiting {
                    let task = left.engine().state().task(id).unwrap();
                    let fits = (task.status, task.open().is_empty()) == expected(ended, outcome);
                    assert!(fits, "before {}: {task:?}", point.doing);
                }
                left.engine().state().check().unwrap();
            }
        }
        assert_eq!(found.len(), 2, "before the end, and after it");
    }
}

/// The status of a task that waits for one which ended so, or has not, and whether it waits no more.
fn expected(ended: bool, outcome: Outcome) -> (Status, bool) {
    match (ended, outcome) {
        (false, _) => (Status::Pending, false),
        (true, Outcome::Success) => (Status::Pending, true),
        (true, _) => (Status::Cancelled, false),
    }
}
