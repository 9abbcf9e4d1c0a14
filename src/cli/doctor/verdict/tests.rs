//! A case for each verdict.

use super::*;
use crate::api::{BoundView, HeldView, OrderView};
use crate::cli::samples;
use crate::kernel::ids::{Fence, TaskId, WorkerId};
use crate::kernel::status::Stop;

/// What a case is made of; a test changes one thing of it.
struct Ward {
    task: TaskView,
    attempt: AttemptView,
    kind: TypeView,
    workers: Vec<WorkerView>,
    p95: Option<Millis>,
    tree: Vec<Node>,
    quiet: Option<Millis>,
}

impl Ward {
    fn new(status: Status) -> Self {
        let task = TaskView {
            executor_id: Some(WorkerId(17)),
            next_run_time: Some("2026-03-14T02:39:59.000Z".to_owned()),
            ..samples::task(7, status)
        };
        let kind = serde_json::json!({
            "type": "fetch_data", "configured": true, "paused": null,
            "max_running": {"value": null, "from": "default"},
            "rate": {"value": null, "from": "default"}, "limited": null, "dispatched": 0,
            "next_dispatch_at": null, "running": 1, "due": 1, "tasks": {},
        });
        let attempt = serde_json::json!({
            "attempt": 1, "fence": 9, "executor_id": 17,
            "leased_at": "2026-03-14T02:30:00.000Z", "started_at": "2026-03-14T02:30:00.000Z",
            "ended_at": null, "wait_ms": 3, "outcome": null, "exit_code": null, "signal": null,
            "error": null, "log": "logs/7/1.log",
        });
        let worker = WorkerView {
            id: WorkerId(17),
            name: "w1".to_owned(),
            status: "alive".to_owned(),
            pid: 4000,
            host: "relay-7".to_owned(),
            version: "0.1.0".to_owned(),
            types: vec!["fetch_data".to_owned()],
            slots: 2,
            silent_ms: Millis(3000),
            holds: Vec::new(),
        };
        Self {
            task,
            attempt: serde_json::from_value(attempt).unwrap(),
            kind: serde_json::from_value(kind).unwrap(),
            workers: vec![worker],
            p95: None,
            tree: vec![node(4711, 'S')],
            quiet: Some(Millis(1000)),
        }
    }

    fn verdict(&self) -> Verdict {
        Case {
            task: &self.task,
            attempt: Some(&self.attempt),
            kind: Some(&self.kind),
            workers: &self.workers,
            p95: self.p95,
            tree: &self.tree,
            quiet: self.quiet,
            now: samples::view(None).now,
        }
        .verdict()
    }
}

fn node(pid: u32, state: char) -> Node {
    Node { pid, depth: 0, state, cpu_ms: Millis(5), command: "sh".to_owned() }
}

/// The verdict on a task in this status, with something about it changed.
#[track_caller]
fn check(status: Status, change: impl FnOnce(&mut Ward), level: Level, what: &str, command: &str) {
    let mut ward = Ward::new(status);
    change(&mut ward);
    let verdict = ward.verdict();
    assert_eq!(verdict.level, level, "{verdict:?}");
    assert!(verdict.what.contains(what), "{verdict:?}");
    let commands = verdict.commands.join("\n");
    assert!(commands.contains(command), "{verdict:?}");
}

#[test]
fn what_has_ended_or_was_set_aside_is_not_stuck() {
    let none = |_: &mut Ward| ();
    check(Status::Success, none, Level::Ok, "it has ended (SUCCESS)", "history 7");
    check(Status::Cancelled, none, Level::Ok, "it has ended (CANCELLED)", "history 7");
    check(Status::Dead, none, Level::Warning, "it is DEAD and stays so", "midwatch retry 7");
    check(Status::Paused, none, Level::Warning, "somebody paused it", "midwatch resume 7");
    check(Status::Lost, none, Level::Note, "its worker is gone", "midwatch workers");
}

#[test]
fn a_task_that_waits_is_told_what_for() {
    use Level::{Note, Ok, Problem, Warning};
    use Status::{Pending, Retrying};
    let order = || OrderView {
        by: "uid 0".to_owned(),
        at: "2026-03-14T02:00:00.000Z".to_owned(),
        reason: None,
    };
    let after = |ward: &mut Ward| ward.task.waiting_for = Some(vec![TaskId(5), TaskId(6)]);
    check(Pending, after, Ok, "it waits for task 5 to end", "midwatch doctor 5");
    let later = |ward: &mut Ward| {
        ward.task.next_run_time = Some("2026-03-14T02:41:48.500Z".to_owned());
    };
    check(Retrying, later, Ok, "its time has not come: 1 min 48", "midwatch run-now 7");
    let paused = |ward: &mut Ward| ward.kind.paused = Some(order());
    check(Pending, paused, Warning, "type fetch_data is paused by uid 0", "type resume fetch_data");
    let nobody = |ward: &mut Ward| ward.workers[0].status = "offline".to_owned();
    check(Pending, nobody, Problem, "no worker is alive", "midwatch workers");
    let unable = |ward: &mut Ward| ward.workers[0].types.clear();
    check(Pending, unable, Problem, "no worker that is alive runs type", "midwatch config show");
    let full = |ward: &mut Ward| {
        ward.kind.max_running = BoundView { value: Some(1), from: "config".to_owned() };
    };
    check(
        Pending,
        full,
        Note,
        "as many tasks of type fetch_data run as may: 1",
        "--status RUNNING",
    );
    let paced = |ward: &mut Ward| {
        ward.kind.rate = BoundView { value: Some("1/m".to_owned()), from: "set".to_owned() };
        ward.kind.next_dispatch_at = Some("2026-03-14T02:40:30.000Z".to_owned());
    };
    check(Pending, paced, Note, "may start 1/m; the next may in 30 s", "type show fetch_data");
    let busy = |ward: &mut Ward| {
        let held = |task| HeldView {
            task: TaskId(task),
            kind: "other".to_owned(),
            fence: Fence(task),
            since: String::new(),
            progress: None,
        };
        ward.workers[0].holds = vec![held(1), held(2)];
    };
    check(Pending, busy, Note, "all 2 slots of the workers", "midwatch workers");
    let long = |ward: &mut Ward| {
        ward.task.next_run_time = Some("2026-03-14T02:10:00.000Z".to_owned());
    };
    check(Pending, long, Warning, "it has been due for 30 min", "midwatch status");
    check(Pending, |_| (), Ok, "about to start", "");
}

#[test]
fn a_task_that_runs_is_told_what_it_hangs_on() {
    use Level::{Note, Ok, Problem, Warning};
    let running = Status::Running;
    check(running, |_| (), Ok, "it runs since 10 min", "midwatch log 7 -f");
    let stop = |ward: &mut Ward| ward.task.stop_requested = Some(Stop::Cancel);
    check(running, stop, Note, "it was asked to stop (cancel)", "midwatch log 7");
    let silent = |ward: &mut Ward| ward.workers[0].status = "suspect".to_owned();
    check(running, silent, Warning, "its worker 17 (w1) is suspect", "ps -o pid");
    let stopped = |ward: &mut Ward| ward.tree.push(node(4712, 'T'));
    check(running, stopped, Problem, "its process 4712 is stopped", "kill -CONT 4712");
    let blocked = |ward: &mut Ward| {
        ward.tree.push(node(4712, 'D'));
        ward.p95 = Some(Millis::secs(20));
    };
    check(running, blocked, Problem, "waits in the kernel", "/proc/4712/stack");
    let past = |ward: &mut Ward| ward.task.timeout = Some("5m".to_owned());
    check(running, past, Note, "it has passed its timeout of 5 min", "midwatch log 7");
    let late = |ward: &mut Ward| {
        ward.p95 = Some(Millis::secs(60));
        ward.quiet = Some(Millis::secs(601));
    };
    check(running, late, Problem, "95 of 100 of its type take 1 min at most", "midwatch reset 7");
    check(running, late, Problem, "its log has not grown for 10 min", "/proc/4711/wchan");
    check(running, late, Problem, "all its processes sleep", "midwatch log 7");
    // A long run that is usual is none, and one at work is not called asleep.
    let usual = |ward: &mut Ward| ward.p95 = Some(Millis::secs(300));
    check(running, usual, Ok, "nothing points at trouble", "");
}
