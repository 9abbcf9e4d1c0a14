//! Tasks that wait for others.

use super::*;
use crate::kernel::ids::LifeTime;
use crate::kernel::task::{After, Task};
use crate::kernel::{Edit, NextRun, Rejection};

impl World {
    fn after(&mut self, tasks: &[u64], any: bool) {
        let tasks = tasks.iter().copied().map(TaskId).collect();
        self.submit(|spec| spec.after = Some(After { tasks, any }));
    }

    fn settle(&mut self) {
        while let Some(of) = self.state.index().settled.first().copied() {
            self.tell(&Command::Settle(of));
        }
    }

    fn finish(&mut self, worker: WorkerId, task: u64, outcome: Outcome) {
        self.lease(worker, 1);
        let proof = self.proof(task);
        self.end(proof, outcome);
    }

    fn at(&self, task: u64) -> &Task {
        self.state.task(TaskId(task)).unwrap()
    }

    fn status(&self, task: u64) -> Status {
        self.at(task).status
    }
}

// spec: DSP-020 DSP-021
#[test]
fn a_task_runs_when_the_last_it_waits_for_has_ended_well() {
    let mut w = World::new();
    let worker = w.join(1);
    w.submit(|_| {});
    w.submit(|_| {});
    w.after(&[1, 2, 1], false);
    assert_eq!(w.at(3).after().unwrap().tasks, [TaskId(1), TaskId(2)], "each once");
    w.finish(worker, 1, Outcome::Success);
    w.settle();
    assert_eq!(w.at(3).open(), [TaskId(2)]);
    w.wait(5_000);
    w.finish(worker, 2, Outcome::Success);
    w.lease(worker, 1);
    assert_eq!(w.status(3), Status::Pending, "nothing is decided within the end itself");
    w.settle();
    assert_eq!(w.at(3).due, LifeTime(5_000), "so long it waited for others, and was not due");
    w.lease(worker, 1);
    assert_eq!(w.status(3), Status::Running);
    assert_eq!(w.at(3).life.as_ref().unwrap().attempts[0].waited, Millis(0));
}

// spec: DSP-022
#[test]
fn a_task_whose_dependency_ends_otherwise_is_cancelled_and_so_on_down_the_chain() {
    let mut w = World::new();
    let worker = w.join(1);
    w.submit(|_| {});
    w.after(&[1], false);
    w.after(&[1], true);
    w.after(&[2], false);
    w.after(&[4], false);
    w.act(5, Verb::Pause);
    w.finish(worker, 1, Outcome::Fatal);
    w.said.clear();
    w.tell(&Command::Settle(TaskId(1)));
    assert_eq!(w.status(4), Status::Pending, "a chain goes on link by link");
    w.settle();
    w.expect(expect![[r#"
        2 PENDING -> CANCELLED dependency_failed
        released
        4 PENDING -> CANCELLED dependency_failed
        5 PAUSED -> CANCELLED dependency_failed
    "#]]);
    let error = w.at(4).life.as_ref().unwrap().error.clone();
    assert_eq!(error.as_deref(), Some("task 2, for which it waited, ended CANCELLED"));
    w.lease(worker, 1);
    assert_eq!(w.status(3), Status::Running, "any end was good enough");
    w.act(2, Verb::Retry);
    assert_eq!((w.status(6), w.at(6).after()), (Status::Pending, None));
}

// spec: DSP-023
#[test]
fn it_does_not_matter_who_was_first() {
    let mut w = World::new();
    let worker = w.join(1);
    w.submit(|spec| spec.priority = 1);
    w.submit(|spec| spec.priority = 2);
    w.submit(|spec| spec.priority = 1_000);
    w.finish(worker, 1, Outcome::Success);
    w.finish(worker, 2, Outcome::Fatal);
    w.said.clear();
    w.after(&[1, 3], false);
    w.after(&[1, 2], false);
    w.after(&[1, 2], true);
    w.after(&[], false);
    w.expect(expect![[r#"
        submitted
        released
        = Submitted { task: TaskId(4), existed: false }
        submitted
        5 PENDING -> CANCELLED dependency_failed
        = Submitted { task: TaskId(5), existed: false }
        submitted
        released
        released
        = Submitted { task: TaskId(6), existed: false }
        submitted
        = Submitted { task: TaskId(7), existed: false }
    "#]]);
    assert_eq!(w.at(4).open(), [TaskId(3)]);
    assert_eq!(w.at(7).after(), None);
    assert!(w.state.index().settled.is_empty());
}

// spec: DSP-024
#[test]
fn only_tasks_that_are_kept_can_be_waited_for() {
    let mut w = World::new();
    w.submit(|_| {});
    w.act(1, Verb::Cancel);
    w.tell(&Command::Forget(vec![TaskId(1)]));
    w.submit(|_| {});
    w.said.clear();
    w.after(&[1], true);
    w.after(&[2, 3], false);
    w.after(&[2, 99], false);
    w.expect(expect![[r#"
        refused: there is no task 1 any more: ended tasks are forgotten after a time
        refused: there is no task 3
        refused: there is no task 99
    "#]]);
    for _ in 0..100 {
        w.submit(|_| {});
    }
    let all: Vec<_> = (2..=102).collect();
    w.said.clear();
    w.after(&all, false);
    w.expect(expect![[r#"
        refused: a task may wait for at most 100 others, not 101
    "#]]);
    w.after(&all[1..], false);
    assert_eq!(w.at(103).open().len(), 100);
    let (alone, waiting) = (w.at(102).bytes(), w.at(103).bytes());
    assert_eq!(waiting - alone, 6_400, "what a list takes is counted");
}

// spec: DSP-025
#[test]
fn people_can_do_anything_with_a_blocked_task_but_let_it_run() {
    let mut w = World::new();
    let worker = w.join(1);
    w.submit(|_| {});
    w.after(&[1], false);
    w.after(&[1, 2], false);
    w.said.clear();
    w.act(2, Verb::RunNow);
    w.act(3, Verb::RunNow);
    w.expect(expect![[r#"
        refused: task 2 waits for task 1 and cannot run before
        refused: task 3 waits for task 1, 2 and cannot run before
    "#]]);
    w.act(2, Verb::Pause);
    w.act(2, Verb::Resume);
    let edit =
        Edit { priority: Some(3), next_run: Some(NextRun::In(Millis(60_000))), ..Edit::default() };
    w.tell(&Command::Edit { task: TaskId(2), edit });
    w.finish(worker, 1, Outcome::Success);
    w.settle();
    assert_eq!((w.at(2).priority, w.at(2).due), (3, LifeTime(60_000)), "the later of the two");
    w.lease(worker, 1);
    assert_eq!(w.status(2), Status::Pending);
    w.wait(60_000);
    w.act(3, Verb::Cancel);
    w.lease(worker, 1);
    assert_eq!((w.status(2), w.status(3)), (Status::Running, Status::Cancelled));
    assert!(w.state.index().waits_for.is_empty(), "who was cancelled waits for nothing");
}

// spec: DSP-026
#[test]
fn a_task_stays_as_long_as_another_waits_for_it() {
    let mut w = World::new();
    let worker = w.join(1);
    w.submit(|_| {});
    w.submit(|_| {});
    w.after(&[1], false);
    w.finish(worker, 1, Outcome::Success);
    w.rules.retention.max_finished = 0;
    let may_go = |w: &World| w.state.outlived(&w.rules.retention, w.now.life, 10);
    assert_eq!(may_go(&w), []);
    let forget = Command::Forget(vec![TaskId(1)]);
    assert_eq!(decide(&w.state, &w.rules, &forget, w.now), Err(Rejection::Needless));
    w.settle();
    assert_eq!(may_go(&w), [TaskId(1)]);
    w.tell(&forget);
    assert!(w.state.task(TaskId(1)).is_none());
    w.finish(worker, 2, Outcome::Success);
    w.finish(worker, 3, Outcome::Success);
}

// spec: DSP-027
#[test]
fn a_task_that_was_lost_with_its_record_is_waited_for_by_nobody() {
    let mut w = World::new();
    w.submit(|_| {});
    w.after(&[1], false);
    w.after(&[1], true);
    let mut image = w.state.image();
    image.tasks.remove(TaskId(1)).unwrap();
    image.figures = None; // nor has anybody counted it
    w.state = State::restore(image);
    w.settle();
    assert_eq!((w.status(2), w.status(3)), (Status::Cancelled, Status::Pending));
    assert_eq!(w.at(3).open(), []);
}

// spec: DSP-028
#[test]
fn many_who_wait_for_one_are_decided_in_steps() {
    let mut w = World::new();
    let worker = w.join(1);
    w.submit(|_| {});
    for _ in 0..600 {
        w.after(&[1], false);
    }
    w.finish(worker, 1, Outcome::Success);
    let mut steps = Vec::new();
    while let Some(of) = w.state.index().settled.first().copied() {
        let before = w.state.waiting_for(of).count();
        w.tell(&Command::Settle(of));
        steps.push(before - w.state.waiting_for(of).count());
    }
    assert_eq!(steps, [256, 256, 88]);
    assert_eq!(w.state.index().ready_count(), 600);
}

// spec: TRG-010
#[test]
fn a_payload_that_does_not_fit_fails_at_once_however_what_it_waits_for_stands() {
    let mut w = World::new();
    let worker = w.join(1);
    (0..3).for_each(|_| w.submit(|_| {}));
    w.finish(worker, 1, Outcome::Success);
    w.finish(worker, 2, Outcome::Fatal);
    for (task, of) in [(4, &[1][..]), (5, &[2]), (6, &[3]), (7, &[1, 2, 3])] {
        let tasks = of.iter().copied().map(TaskId).collect();
        let after = Some(After { tasks, any: false });
        let spec = TaskSpec { after, ..TaskSpec::new("fetch", "{}") };
        w.tell(&Command::SubmitInvalid { spec, error: "it does not fit".into() });
        assert_eq!(w.status(task), Status::Failed, "after {of:?}");
        w.state.check().unwrap();
    }
    w.finish(worker, 3, Outcome::Success);
    w.settle();
    assert!((4..=7).all(|task| w.status(task) == Status::Failed));
    w.state.check().unwrap();
}
