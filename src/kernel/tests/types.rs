//! Whole types, and edits of tasks that wait.

use super::*;
use crate::kernel::ids::LifeTime;
use crate::kernel::task_type::{Bounds, Per, Rate};
use crate::kernel::{Change, Edit, NextRun, TypeAct};

impl World {
    fn on_type(&mut self, kind: &str, act: TypeAct) {
        self.tell(&Command::ActOnType { kind: kind.into(), act });
    }

    fn pause_type(&mut self, kind: &str) {
        self.on_type(kind, TypeAct::Pause { reason: Some("rest".into()) });
    }

    fn limit(&mut self, max_running: Change<u32>, rate: Change<Rate>) {
        self.on_type("job", TypeAct::Limit { max_running, rate });
    }

    fn edit(&mut self, edit: Edit) {
        self.tell(&Command::Edit { task: TaskId(1), edit });
    }

    fn frees(&self) -> Option<LifeTime> {
        self.state.next_rate_free(&self.rules, self.now.life)
    }
}

fn per_minute(count: u32) -> Rate {
    Rate { count, per: Per::Minute }
}

#[test]
fn a_paused_type_keeps_what_runs_starts_nothing_and_holds_up_no_other() {
    let mut w = World::new();
    w.submit(|_| {});
    let worker = w.join(10);
    w.lease(worker, 1);
    w.submit(|_| {});
    w.submit(|spec| {
        spec.kind = "other".into();
        spec.priority = 500;
    });
    w.said.clear();
    w.pause_type("job");
    w.pause_type("job");
    w.lease(worker, 10);
    let proof = w.proof(1);
    w.end(proof, Outcome::Retryable);
    w.wait(1_000_000);
    w.lease(worker, 10);
    let order = w.state.task_type("job").unwrap().paused.clone().unwrap();
    assert_eq!((order.by, order.reason.as_deref()), (Actor::User(7), Some("rest")));
    w.on_type("job", TypeAct::Resume);
    w.on_type("job", TypeAct::Resume);
    w.lease(worker, 10);
    assert!(w.state.task_type("job").is_none(), "nothing is known of it any more");
    w.expect(expect![[r#"
        type_paused
        = TypeActed { changed: true }
        = TypeActed { changed: false }
        3 leased as 7 by 2 until 60000
        = Leased([(TaskId(3), Fence(7))])
        1 RUNNING -> RETRYING retryable_error (retryable) wait 60000
        = Ended(Retrying)
        = Leased([])
        type_resumed
        = TypeActed { changed: true }
        = TypeActed { changed: false }
        2 leased as 10 by 2 until 1060000
        1 leased as 11 by 2 until 1060000
        = Leased([(TaskId(2), Fence(10)), (TaskId(1), Fence(11))])
    "#]]);
}

#[test]
fn a_bound_holds_over_all_workers_and_a_lost_task_counts_until_it_is_taken_back() {
    let mut w = World::new();
    w.rules.fallback.bounds = Bounds { max_running: Some(2), rate: None };
    for _ in 0..6 {
        w.submit(|_| {});
    }
    let (one, two) = (w.join(10), w.join(10));
    w.said.clear();
    w.lease(one, 1);
    w.lease(two, 10);
    w.lease(two, 10);
    w.tell(&Command::Died { worker: one, reason: Reason::WorkerCrash });
    w.lease(two, 10);
    w.expire(1, true);
    w.lease(two, 10);
    w.limit(Change::AtMost(3), Change::Keep);
    w.lease(two, 10);
    w.limit(Change::Unlimited, Change::Keep);
    w.lease(two, 10);
    w.limit(Change::Config, Change::Keep);
    w.lease(two, 10);
    w.expect(expect![[r#"
        1 leased as 9 by 7 until 60000
        = Leased([(TaskId(1), Fence(9))])
        2 leased as 10 by 8 until 60000
        = Leased([(TaskId(2), Fence(10))])
        = Leased([])
        1 RUNNING -> LOST worker_crash
        worker_moved
        = Leased([])
        1 LOST -> PENDING lease_revoked
        1 leased as 14 by 8 until 60000
        = Leased([(TaskId(1), Fence(14))])
        type_limited
        = TypeActed { changed: true }
        3 leased as 16 by 8 until 60000
        = Leased([(TaskId(3), Fence(16))])
        type_limited
        = TypeActed { changed: true }
        4 leased as 18 by 8 until 60000
        5 leased as 19 by 8 until 60000
        6 leased as 20 by 8 until 60000
        = Leased([(TaskId(4), Fence(18)), (TaskId(5), Fence(19)), (TaskId(6), Fence(20))])
        type_limited
        = TypeActed { changed: true }
        = Leased([])
    "#]]);
}

#[test]
fn a_rate_frees_when_its_oldest_dispatch_leaves_the_span_and_says_so() {
    let mut w = World::new();
    w.rules.fallback.bounds = Bounds { max_running: None, rate: Some(per_minute(2)) };
    for _ in 0..5 {
        w.submit(|_| {});
    }
    let worker = w.join(10);
    w.said.clear();
    w.lease(worker, 1);
    assert_eq!(w.frees(), None);
    w.wait(20_000);
    w.lease(worker, 10);
    assert_eq!(w.frees(), Some(LifeTime(60_000)));
    w.wait(39_999);
    w.lease(worker, 10);
    w.wait(1);
    w.lease(worker, 10);
    assert_eq!(w.frees(), Some(LifeTime(80_000)));
    w.pause_type("job");
    assert_eq!(w.frees(), None, "nobody need wake for what is paused");
    w.on_type("job", TypeAct::Resume);
    w.limit(Change::AtMost(3), Change::Keep);
    assert_eq!(w.frees(), None, "nor for what has no room");
    w.limit(Change::Config, Change::Unlimited);
    w.lease(worker, 10);
    w.expect(expect![[r#"
        1 leased as 7 by 6 until 60000
        = Leased([(TaskId(1), Fence(7))])
        2 leased as 8 by 6 until 80000
        = Leased([(TaskId(2), Fence(8))])
        = Leased([])
        3 leased as 9 by 6 until 120000
        = Leased([(TaskId(3), Fence(9))])
        type_paused
        = TypeActed { changed: true }
        type_resumed
        = TypeActed { changed: true }
        type_limited
        = TypeActed { changed: true }
        type_limited
        = TypeActed { changed: true }
        4 leased as 14 by 6 until 120000
        5 leased as 15 by 6 until 120000
        = Leased([(TaskId(4), Fence(14)), (TaskId(5), Fence(15))])
    "#]]);
}

#[test]
fn what_is_known_of_a_type_needs_no_config_to_be_read_back() {
    let mut w = World::new();
    w.rules.fallback.bounds = Bounds { max_running: None, rate: Some(per_minute(1)) };
    w.submit(|_| {});
    w.submit(|_| {});
    let worker = w.join(10);
    w.lease(worker, 1);
    let restored = State::restore(w.state.image());
    assert_eq!(restored.task_type("job"), w.state.task_type("job"));
    restored.check().unwrap();
    w.state = restored;
    w.said.clear();
    w.lease(worker, 10);
    w.expect(expect![[r#"
        = Leased([])
    "#]]);
}

#[test]
fn a_type_that_nobody_names_is_refused() {
    let mut w = World::new();
    w.on_type("nope", TypeAct::Resume);
    w.rules.kinds.insert("configured".into(), w.rules.fallback.clone());
    w.pause_type("configured");
    w.expect(expect![[r#"
        refused: there is no task type `nope`
        type_paused
        = TypeActed { changed: true }
    "#]]);
}

#[test]
fn an_edit_reorders_the_queue_and_is_a_line_in_the_history() {
    let mut w = World::new();
    w.submit(|spec| spec.priority = 200);
    w.submit(|_| {});
    let worker = w.join(1);
    w.said.clear();
    w.edit(Edit { priority: Some(3), max_retry: Some(1), ..Edit::default() });
    w.edit(Edit { priority: Some(3), timeout: Change::Unlimited, ..Edit::default() });
    w.edit(Edit { timeout: Change::AtMost(Millis(700)), ..Edit::default() });
    let task = w.state.task(TaskId(1)).unwrap();
    assert_eq!((task.priority, task.max_retry, task.timeout), (3, 1, Some(Millis(700))));
    let notes: Vec<_> = task.life.as_ref().unwrap().transitions.iter().collect();
    assert_eq!(notes[0].note.as_deref(), Some("edited: priority 3, max_retry 1"));
    w.lease(worker, 1);
    let proof = w.proof(1);
    w.end(proof, Outcome::Retryable);
    w.edit(Edit { max_retry: Some(0), ..Edit::default() });
    w.edit(Edit { timeout: Change::Unlimited, ..Edit::default() });
    assert_eq!(w.state.task(TaskId(1)).unwrap().timeout, None);
    w.expect(expect![[r#"
        edited
        = Acted { task: TaskId(1), changed: true }
        = Acted { task: TaskId(1), changed: false }
        edited
        = Acted { task: TaskId(1), changed: true }
        1 leased as 6 by 3 until 60000
        = Leased([(TaskId(1), Fence(6))])
        1 RUNNING -> RETRYING retryable_error (retryable) wait 60000
        = Ended(Retrying)
        refused: task 1 has failed 1 times already, more often than max_retry 0 allows
        edited
        = Acted { task: TaskId(1), changed: true }
    "#]]);
}

#[test]
fn a_new_due_time_is_a_wall_time_or_a_span_and_a_paused_task_keeps_either() {
    let mut w = World::new();
    let worker = {
        w.submit(|spec| spec.delay = Some(Millis(500)));
        w.join(1)
    };
    w.edit(Edit { next_run: Some(NextRun::In(Millis(100))), ..Edit::default() });
    assert_eq!(w.state.next_due(), (Some(LifeTime(100)), None));
    let at = Timestamp(w.now.wall.0 + 4_000);
    w.edit(Edit { next_run: Some(NextRun::At(at)), ..Edit::default() });
    assert_eq!(w.state.next_due(), (None, Some(at)));
    w.act(1, Verb::Pause);
    w.edit(Edit { next_run: Some(NextRun::In(Millis(300))), ..Edit::default() });
    w.act(1, Verb::Resume);
    w.said.clear();
    w.wait(299);
    w.lease(worker, 1);
    w.wait(1);
    w.lease(worker, 1);
    w.edit(Edit { priority: Some(1), ..Edit::default() });
    w.expect(expect![[r#"
        = Leased([])
        1 leased as 8 by 2 until 60300
        = Leased([(TaskId(1), Fence(8))])
        refused: cannot edit task 1: it is RUNNING (only PENDING, PAUSED and RETRYING ones can change)
    "#]]);
}
