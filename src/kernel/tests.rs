//! The rules, scripted in virtual time. `play` is the one function that knows the API.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::wildcard_enum_match_arm,
    reason = "a test may overflow and stop"
)]

use super::event::{Actor, Event, Registration, Stamp, Standing};
use super::ids::{Fence, Millis, Moment, ProcessId, TaskId, Timestamp, WorkerId};
use super::rules::Rules;
use super::status::{EDGES, Outcome, Reason, Status, Stop};
use super::task::{SecretHash, TaskSpec};
use super::verdict::{Verb, Verdict, Way, destiny, verdict};
use super::{Answer, Command, EndReport, HoldReport, Proof, State, apply, decide};
use expect_test::{Expect, expect};
use std::fmt::Write;

mod after;
mod alerts;
mod dispatch;
mod figures;
mod schedules;
mod types;

struct World {
    state: State,
    rules: Rules,
    now: Moment,
    said: String,
}

impl World {
    fn new() -> Self {
        let now = Moment { wall: Timestamp(1_000_000), ..Moment::default() };
        let mut world =
            Self { state: State::default(), rules: Rules::default(), now, said: String::new() };
        world.state.skip_to(super::ids::Seq(1));
        world.state.head.next_task = TaskId(1);
        world
    }

    fn wait(&mut self, ms: u64) {
        self.now.wall.0 += ms;
        self.now.life.0 += ms;
        self.now.service.0 += ms;
        while self.state.ripen(self.now, 100) {}
    }

    /// Decides and applies; every answer and event goes into what was said.
    fn tell(&mut self, command: &Command) {
        let by = command.speaker().unwrap_or(Actor::User(7));
        match decide(&self.state, &self.rules, command, self.now) {
            Ok(decision) => {
                for event in &decision.events {
                    let Moment { wall, life, service, dice: _, doubtful: _ } = self.now;
                    let stamp =
                        Stamp { seq: self.state.next_seq(), wall, life, service, by: by.clone() };
                    let before =
                        event.task().and_then(|id| self.state.task(id)).map(|task| task.status);
                    apply(&mut self.state, &stamp, event).unwrap();
                    self.tell_event(event, before);
                }
                self.state.check().unwrap();
                if !matches!(decision.answer, Answer::Done) {
                    writeln!(self.said, "= {:?}", decision.answer).unwrap();
                }
            }
            Err(rejection) => writeln!(self.said, "refused: {rejection}").unwrap(),
        }
    }

    fn tell_event(&mut self, event: &Event, before: Option<Status>) {
        let out = &mut self.said;
        match event {
            Event::Ended(e) => {
                write!(
                    out,
                    "{} {} -> {} {} ({})",
                    e.task,
                    before.unwrap(),
                    e.to,
                    e.reason,
                    e.outcome
                )
                .unwrap();
                if let Some(wait) = e.wait {
                    write!(out, " wait {}", wait.0).unwrap();
                }
                out.push('\n');
            }
            Event::Moved(e) => {
                write!(out, "{} {} -> {} {}", e.task, before.unwrap(), e.to, e.reason).unwrap();
                if let Some(wait) = e.wait {
                    write!(out, " wait {}", wait.0).unwrap();
                }
                out.push('\n');
            }
            Event::Leased(e) => {
                writeln!(out, "{} leased as {} by {} until {}", e.task, e.fence, e.worker, e.ends)
                    .unwrap();
            }
            Event::Heard(e) => {
                for held in &e.holds {
                    writeln!(out, "{} held until {}", held.task, held.ends).unwrap();
                }
            }
            Event::Refused(e) => writeln!(out, "{} {}", e.task, e.note()).unwrap(),
            Event::StopRequested(e) => writeln!(out, "{} asked to {}", e.task, e.stop).unwrap(),
            other => writeln!(out, "{}", other.word()).unwrap(),
        }
    }

    fn proof(&self, task: u64) -> Proof {
        let task = self.state.task(TaskId(task)).unwrap();
        let attempt = task.life.as_ref().unwrap().attempts.back().unwrap();
        Proof {
            worker: attempt.worker,
            task: task.id,
            fence: attempt.fence,
            secret: attempt.secret,
        }
    }

    fn submit(&mut self, change: impl FnOnce(&mut TaskSpec)) {
        let mut spec = TaskSpec::new("job", "{}");
        change(&mut spec);
        self.tell(&Command::Submit(spec));
    }

    fn join(&mut self, slots: u32) -> WorkerId {
        let id = WorkerId(self.state.next_seq().0);
        self.tell(&Command::Register(Registration {
            name: "w".into(),
            process: ProcessId::default(),
            host: "h".into(),
            version: "0".into(),
            lock: "l".into(),
            kinds: vec!["job".into(), "other".into()],
            slots,
        }));
        id
    }

    fn lease(&mut self, worker: WorkerId, slots: u8) {
        let secrets = (0..slots).map(|place| SecretHash([place; 16])).collect();
        self.tell(&Command::Lease { worker, secrets });
    }

    fn beat(&mut self, proof: Proof) {
        let process = Some(ProcessId { pid: 5, ..ProcessId::default() });
        let holds = vec![HoldReport { proof, process, progress: None }];
        self.tell(&Command::Heartbeat { worker: proof.worker, holds });
    }

    fn end(&mut self, proof: Proof, outcome: Outcome) {
        let report = EndReport {
            outcome,
            started: true,
            exit_code: None,
            signal: None,
            result: None,
            error: None,
            usage: None,
            ran: None,
            input: None,
        };
        self.tell(&Command::End { proof, report });
    }

    fn act(&mut self, task: u64, verb: Verb) {
        self.tell(&Command::Act { task: TaskId(task), verb, max_retry: None, fresh: false });
    }

    fn expire(&mut self, task: u64, ran: bool) {
        let fence = self.proof(task).fence;
        self.tell(&Command::Expire { task: TaskId(task), fence, ran });
    }

    #[expect(clippy::needless_pass_by_value, reason = "an Expect is made where it is used")]
    fn expect(&self, expected: Expect) {
        expected.assert_eq(&self.said);
    }
}

#[test]
fn a_task_is_submitted_leased_and_ends_well() {
    let mut w = World::new();
    w.submit(|_| {});
    let worker = w.join(2);
    w.lease(worker, 2);
    let proof = w.proof(1);
    w.beat(proof);
    w.tell(&Command::Checkpoint { proof, data: "{\"n\":1}".into() });
    w.end(proof, Outcome::Success);
    w.end(proof, Outcome::Success);
    w.expect(expect![[r#"
          submitted
          = Submitted { task: TaskId(1), existed: false }
          worker_joined
          = Registered(WorkerId(2))
          1 leased as 3 by 2 until 60000
          = Leased([(TaskId(1), Fence(3))])
          1 held until 600000
          = Heard([])
          checkpointed
          = Checkpointed(Seq(5))
          1 RUNNING -> SUCCESS completed (success)
          = Ended(Success)
          = Ended(Success)
    "#]]);
}

#[test]
fn failures_wait_longer_each_time_and_end_as_dead() {
    let mut w = World::new();
    w.submit(|spec| spec.max_retry = 2);
    let worker = w.join(1);
    w.said.clear();
    for _ in 0..3 {
        w.lease(worker, 1);
        let proof = w.proof(1);
        w.end(proof, Outcome::Retryable);
        w.end(proof, Outcome::Retryable); // told again, answered as before
        w.lease(worker, 1);
        w.wait(1_000_000);
    }
    w.expect(expect![[r#"
          1 leased as 3 by 2 until 60000
          = Leased([(TaskId(1), Fence(3))])
          1 RUNNING -> RETRYING retryable_error (retryable) wait 60000
          = Ended(Retrying)
          = Ended(Retrying)
          = Leased([])
          1 leased as 5 by 2 until 1060000
          = Leased([(TaskId(1), Fence(5))])
          1 RUNNING -> RETRYING retryable_error (retryable) wait 120000
          = Ended(Retrying)
          = Ended(Retrying)
          = Leased([])
          1 leased as 7 by 2 until 2060000
          = Leased([(TaskId(1), Fence(7))])
          1 RUNNING -> RETRYING retryable_error (retryable)
          1 RETRYING -> DEAD retries_exhausted
          = Ended(Dead)
          = Ended(Dead)
          = Leased([])
    "#]]);
}

#[test]
fn the_queue_goes_by_priority_then_due_then_id_over_all_types_of_a_worker() {
    let mut w = World::new();
    w.submit(|spec| spec.priority = 50);
    w.submit(|spec| spec.kind = "other".into());
    w.submit(|spec| spec.delay = Some(Millis(10)));
    w.submit(|spec| spec.priority = 7);
    w.submit(|spec| spec.kind = "unserved".into());
    w.submit(|spec| spec.at = Some(Timestamp(1_000_020)));
    let worker = w.join(10);
    w.wait(15);
    w.said.clear();
    w.lease(worker, 10);
    w.wait(10);
    w.lease(worker, 10);
    w.expect(expect![[r#"
          4 leased as 8 by 7 until 60015
          1 leased as 9 by 7 until 60015
          2 leased as 10 by 7 until 60015
          3 leased as 11 by 7 until 60015
          = Leased([(TaskId(4), Fence(8)), (TaskId(1), Fence(9)), (TaskId(2), Fence(10)), (TaskId(3), Fence(11))])
          6 leased as 12 by 7 until 60025
          = Leased([(TaskId(6), Fence(12))])
    "#]]);
}

#[test]
fn only_free_slots_are_leased_to() {
    let mut w = World::new();
    for _ in 0..5 {
        w.submit(|_| {});
    }
    let worker = w.join(2);
    w.said.clear();
    w.lease(worker, 5);
    w.lease(worker, 5);
    w.expect(expect![[r#"
          1 leased as 7 by 6 until 60000
          2 leased as 8 by 6 until 60000
          = Leased([(TaskId(1), Fence(7)), (TaskId(2), Fence(8))])
          = Leased([])
    "#]]);
}

#[test]
fn a_worker_with_another_config_is_leased_by_it_and_keeps_what_it_holds() {
    let mut w = World::new();
    for kind in ["job", "other", "job", "late"] {
        w.submit(|spec| spec.kind = kind.into());
    }
    let worker = w.join(2);
    let offer = |kind: &str, slots| Command::Offer { worker, kinds: vec![kind.into()], slots };
    w.said.clear();
    w.lease(worker, 1);
    // No more slots than it holds attempts: nothing is taken away, and nothing leased.
    w.tell(&offer("late", 1));
    w.lease(worker, 5);
    // Then there is room, but only for the new type.
    w.tell(&offer("late", 3));
    w.lease(worker, 5);
    // The same once more is nothing to be recorded.
    w.tell(&offer("late", 3));
    w.end(w.proof(1), Outcome::Success);
    w.expect(expect![[r#"
        1 leased as 6 by 5 until 60000
        = Leased([(TaskId(1), Fence(6))])
        worker_changed
        = Leased([])
        worker_changed
        4 leased as 9 by 5 until 60000
        = Leased([(TaskId(4), Fence(9))])
        1 RUNNING -> SUCCESS completed (success)
        = Ended(Success)
    "#]]);
    let unknown = Command::Offer { worker: WorkerId(99), kinds: Vec::new(), slots: 1 };
    assert!(decide(&w.state, &w.rules, &unknown, w.now).is_err());
}

#[test]
fn an_old_token_is_refused_recorded_once_and_changes_nothing() {
    let mut w = World::new();
    w.submit(|spec| spec.timeout = Some(Millis(1000)));
    let worker = w.join(1);
    w.lease(worker, 1);
    let old = w.proof(1);
    w.beat(old);
    w.wait(200_000);
    w.expire(1, true);
    w.wait(100_000);
    w.lease(worker, 1);
    w.said.clear();
    let status = w.state.task(TaskId(1)).unwrap().status;
    w.beat(old);
    w.beat(old);
    w.tell(&Command::Checkpoint { proof: old, data: "1".into() });
    w.end(old, Outcome::Success);
    w.end(old, Outcome::Retryable);
    assert_eq!(w.state.task(TaskId(1)).unwrap().status, status);
    assert!(w.state.task(TaskId(1)).unwrap().checkpoint().is_none());
    w.expect(expect![[r#"
          1 refused a heartbeat with token 3, which is no longer valid
          = Heard([(TaskId(1), Fence(3))])
          = Heard([(TaskId(1), Fence(3))])
          1 refused a checkpoint with token 3, which is no longer valid
          = Refused(Stale { task: TaskId(1), fence: Fence(3) })
          1 refused a result with token 3, which is no longer valid
          = Refused(Stale { task: TaskId(1), fence: Fence(3) })
          = Refused(Stale { task: TaskId(1), fence: Fence(3) })
    "#]]);
}

#[test]
fn a_wrong_secret_or_another_worker_cannot_speak_for_a_lease() {
    let mut w = World::new();
    w.submit(|_| {});
    let worker = w.join(1);
    let other = w.join(1);
    w.lease(worker, 1);
    let proof = w.proof(1);
    w.said.clear();
    w.end(Proof { secret: SecretHash([9; 16]), ..proof }, Outcome::Success);
    w.end(Proof { worker: other, ..proof }, Outcome::Success);
    w.end(Proof { fence: Fence(proof.fence.0 + 1), ..proof }, Outcome::Success);
    w.end(Proof { task: TaskId(99), ..proof }, Outcome::Success);
    assert_eq!(w.state.task(TaskId(1)).unwrap().status, Status::Running);
    assert_eq!(w.said.matches("Refused").count(), 4);
}

#[test]
fn losses_are_counted_apart_and_from_the_second_on_the_task_waits() {
    let mut w = World::new();
    w.rules.max_lost = 2;
    w.submit(|spec| spec.max_retry = 0);
    w.said.clear();
    for _ in 0..3 {
        let worker = w.join(1);
        w.lease(worker, 1);
        w.tell(&Command::Died { worker, reason: Reason::WorkerCrash });
        w.expire(1, true);
        w.wait(1_000_000);
    }
    assert_eq!(w.state.task(TaskId(1)).unwrap().retry_count, 0);
    w.expect(expect![[r#"
          worker_joined
          = Registered(WorkerId(2))
          1 leased as 3 by 2 until 60000
          = Leased([(TaskId(1), Fence(3))])
          1 RUNNING -> LOST worker_crash
          worker_moved
          1 LOST -> PENDING lease_revoked
          worker_joined
          = Registered(WorkerId(7))
          1 leased as 8 by 7 until 1060000
          = Leased([(TaskId(1), Fence(8))])
          1 RUNNING -> LOST worker_crash
          worker_moved
          1 LOST -> PENDING lease_revoked wait 60000
          worker_joined
          = Registered(WorkerId(12))
          1 leased as 13 by 12 until 2060000
          = Leased([(TaskId(1), Fence(13))])
          1 RUNNING -> LOST worker_crash
          worker_moved
          1 LOST -> DEAD lost_too_often
    "#]]);
}

#[test]
fn a_silent_worker_loses_its_tasks_and_gets_them_back_within_its_lease() {
    let mut w = World::new();
    w.submit(|_| {});
    let worker = w.join(1);
    w.lease(worker, 1);
    let proof = w.proof(1);
    w.beat(proof);
    w.said.clear();
    w.tell(&Command::Silent { worker, standing: Standing::Suspect });
    w.tell(&Command::Silent { worker, standing: Standing::Suspect });
    w.tell(&Command::Silent { worker, standing: Standing::Offline });
    w.end(proof, Outcome::Success);
    w.expect(expect![[r#"
          worker_moved
          refused: nothing is to be done
          1 RUNNING -> LOST worker_lost
          worker_moved
          1 LOST -> RUNNING executor_returned
          1 RUNNING -> SUCCESS completed (success)
          = Ended(Success)
    "#]]);
}

#[test]
fn a_lease_that_ran_out_is_a_failed_attempt_unless_it_never_started() {
    let mut w = World::new();
    w.submit(|_| {});
    w.submit(|_| {});
    let worker = w.join(2);
    w.lease(worker, 2);
    w.said.clear();
    w.expire(1, true);
    w.wait(60_000);
    w.expire(1, true);
    w.expire(2, false);
    assert_eq!(w.state.task(TaskId(2)).unwrap().retry_count, 0);
    w.expect(expect![[r#"
          refused: the lease of task 1 is not over
          1 RUNNING -> RETRYING lease_expired (lost) wait 60000
          2 RUNNING -> PENDING never_started (released)
    "#]]);
}

#[test]
fn the_same_key_returns_the_same_task_and_another_payload_is_refused() {
    let mut w = World::new();
    w.submit(|spec| spec.key = Some("k".into()));
    w.submit(|spec| spec.key = Some("k".into()));
    w.submit(|spec| {
        spec.key = Some("k".into());
        spec.payload = "{\"other\":1}".into();
    });
    w.expect(expect![[r#"
          submitted
          = Submitted { task: TaskId(1), existed: false }
          = Submitted { task: TaskId(1), existed: true }
          refused: the key `k` belongs to task 1, which has another type or payload
    "#]]);
}

#[test]
fn a_task_with_a_payload_that_does_not_fit_is_recorded_and_has_failed() {
    let mut world = World::new();
    let spec = TaskSpec { key: Some("hook:a:1".into()), ..TaskSpec::new("fetch", "{}") };
    let error = "the payload does not fit its schema".into();
    let command = Command::SubmitInvalid { spec: spec.clone(), error };
    world.tell(&command);
    world.tell(&command);
    world.tell(&Command::Submit(spec));
    let worker = world.join(1);
    world.lease(worker, 1);
    let task = world.state.task(TaskId(1)).unwrap();
    assert_eq!(
        task.life.as_ref().unwrap().error.as_deref(),
        Some("the payload does not fit its schema")
    );
    world.expect(expect![[r#"
        submitted
        1 PENDING -> FAILED invalid_input
        = Submitted { task: TaskId(1), existed: false }
        = Submitted { task: TaskId(1), existed: true }
        = Submitted { task: TaskId(1), existed: true }
        worker_joined
        = Registered(WorkerId(3))
        = Leased([])
    "#]]);
}

#[test]
fn an_ended_task_runs_again_as_a_new_one_with_its_checkpoint() {
    let mut w = World::new();
    w.submit(|spec| spec.key = Some("k".into()));
    let worker = w.join(1);
    w.lease(worker, 1);
    let proof = w.proof(1);
    w.tell(&Command::Checkpoint { proof, data: "41".into() });
    w.end(proof, Outcome::Fatal);
    w.act(1, Verb::Retry);
    w.tell(&Command::Act { task: TaskId(1), verb: Verb::Retry, max_retry: None, fresh: true });
    let checkpoint =
        |id| w.state.task(TaskId(id)).unwrap().checkpoint().map(|c| c.data.to_string());
    assert_eq!(checkpoint(2).as_deref(), Some("41"));
    assert_eq!(checkpoint(3), None);
    assert_eq!(w.state.task(TaskId(2)).unwrap().retry_of(), Some(TaskId(1)));
    assert_eq!(w.state.task(TaskId(2)).unwrap().key(), None);
    assert_eq!(w.state.task(TaskId(1)).unwrap().status, Status::Failed);
}

#[test]
fn run_now_makes_a_waiting_task_due_and_cancel_wins_over_pause_and_reset() {
    let mut w = World::new();
    w.submit(|spec| spec.delay = Some(Millis(99_999)));
    let worker = w.join(1);
    w.said.clear();
    w.lease(worker, 1);
    w.act(1, Verb::RunNow);
    w.lease(worker, 1);
    w.act(1, Verb::Reset);
    w.act(1, Verb::Pause);
    w.act(1, Verb::Reset);
    w.act(1, Verb::Cancel);
    let proof = w.proof(1);
    w.end(proof, Outcome::Cancelled);
    w.expect(expect![[r#"
          = Leased([])
          hurried
          = Acted { task: TaskId(1), changed: true }
          1 leased as 4 by 2 until 60000
          = Leased([(TaskId(1), Fence(4))])
          1 asked to reset
          = Acted { task: TaskId(1), changed: true }
          1 asked to pause
          = Acted { task: TaskId(1), changed: true }
          = Acted { task: TaskId(1), changed: false }
          1 asked to cancel
          = Acted { task: TaskId(1), changed: true }
          1 RUNNING -> CANCELLED user_cancel (cancelled)
          = Ended(Cancelled)
    "#]]);
}

#[test]
fn a_hold_that_is_said_twice_in_one_heartbeat_counts_once() {
    for status in [Status::Running, Status::Lost] {
        let mut w = with_status(status);
        let proof = w.proof(1);
        let process = Some(ProcessId { pid: 5, ..ProcessId::default() });
        let hold = HoldReport { proof, process, progress: None };
        let holds = vec![hold.clone(), hold.clone(), hold];
        w.said.clear();
        w.tell(&Command::Heartbeat { worker: proof.worker, holds });
        assert_eq!(w.state.task(TaskId(1)).unwrap().status, Status::Running);
        let back = w.said.matches("executor_returned").count();
        assert_eq!(back, usize::from(status == Status::Lost), "{}", w.said);
        assert_eq!(w.said.matches("held until").count(), 1, "{}", w.said);
    }
}

/// A world whose task 1 has that status.
fn with_status(status: Status) -> World {
    let mut w = World::new();
    w.submit(|spec| spec.max_retry = u32::from(status == Status::Retrying));
    let worker = w.join(1);
    if !matches!(status, Status::Pending | Status::Paused | Status::Cancelled) {
        w.lease(worker, 1);
    }
    match status {
        Status::Pending | Status::Running => {}
        Status::Paused => w.act(1, Verb::Pause),
        Status::Cancelled => w.act(1, Verb::Cancel),
        Status::Lost => {
            w.tell(&Command::Silent { worker, standing: Standing::Suspect });
            w.tell(&Command::Silent { worker, standing: Standing::Offline });
        }
        Status::Success => w.end(w.proof(1), Outcome::Success),
        Status::Failed => w.end(w.proof(1), Outcome::Fatal),
        Status::Retrying | Status::Dead => w.end(w.proof(1), Outcome::Retryable),
    }
    assert_eq!(w.state.task(TaskId(1)).unwrap().status, status);
    w
}

/// B74: a command in whatever status works or is refused, as the table says, and breaks nothing.
#[test]
fn every_command_in_every_status_does_what_the_table_says() {
    for status in Status::ALL {
        for verb in Verb::ALL {
            let mut w = with_status(*status);
            w.said.clear();
            w.act(1, *verb);
            let task = w.state.task(TaskId(1)).unwrap();
            let expected = match verdict(*status, *verb) {
                Verdict::Move(to, _) => to,
                _ => *status,
            };
            assert_eq!(task.status, expected, "{status} {}", verb.word());
            match verdict(*status, *verb) {
                Verdict::Ask(stop) => assert_eq!(task.stop(), Some(stop)),
                Verdict::Anew => {
                    assert_eq!(w.state.task(TaskId(2)).unwrap().retry_of(), Some(TaskId(1)));
                }
                Verdict::Refuse => assert!(w.said.starts_with("refused: cannot"), "{}", w.said),
                Verdict::Move(..) | Verdict::Hurry | Verdict::Change | Verdict::Already => {
                    assert!(w.said.contains("Acted"), "{}", w.said);
                }
            }
        }
    }
}

#[test]
fn every_verdict_is_an_edge_of_the_table_or_leaves_the_status() {
    for status in Status::ALL {
        for verb in Verb::ALL {
            if let Verdict::Move(to, reason) = verdict(*status, *verb) {
                status.check_edge(to, reason).unwrap();
            }
        }
    }
}

#[test]
fn every_end_of_an_attempt_is_an_edge_of_the_table() {
    let stops = Stop::ALL.iter().copied().map(Some).chain([None]);
    for stop in stops {
        for way in Way::ALL {
            let fate = destiny(stop, *way);
            let from = if *way == Way::Lost { Status::Lost } else { Status::Running };
            from.check_edge(fate.to, fate.reason).unwrap();
        }
    }
}

#[test]
fn terminal_statuses_have_no_edge_and_every_other_has_one() {
    for status in Status::ALL {
        let edges = EDGES.iter().filter(|edge| edge.from == *status).count();
        assert_eq!(edges == 0, status.is_terminal(), "{status}");
    }
}

#[test]
fn no_edge_stands_in_the_table_twice_and_every_reason_is_used() {
    let mut seen = std::collections::BTreeSet::new();
    for edge in EDGES {
        assert!(seen.insert((edge.from, edge.to)), "{} -> {}", edge.from, edge.to);
    }
    for reason in Reason::ALL.iter().filter(|reason| **reason != Reason::Created) {
        assert!(EDGES.iter().any(|edge| edge.reasons.contains(reason)), "{reason}");
    }
}

#[test]
fn a_long_life_keeps_its_first_and_last_lines_and_counts_the_rest() {
    let mut w = World::new();
    w.submit(|_| {});
    for _ in 0..150 {
        w.act(1, Verb::Pause);
        w.act(1, Verb::Resume);
    }
    let life = w.state.task(TaskId(1)).unwrap().life.as_ref().unwrap();
    assert_eq!(life.transitions.iter().count(), 200);
    assert_eq!(life.transitions.dropped, 100);
}

#[test]
fn a_task_that_is_tried_for_ever_does_not_grow() {
    let mut w = World::new();
    let worker = w.join(1);
    w.submit(|spec| spec.max_retry = u32::MAX);
    let mut bytes = Vec::new();
    for round in 1..=300_u32 {
        w.wait(4_000_000);
        w.lease(worker, 1);
        let report = EndReport {
            outcome: Outcome::Retryable,
            started: true,
            exit_code: Some(1),
            signal: None,
            result: None,
            error: Some("e".repeat(4096).into()),
            usage: None,
            ran: None,
            input: None,
        };
        w.tell(&Command::End { proof: w.proof(1), report });
        let task = w.state.task(TaskId(1)).unwrap();
        let life = task.life.as_ref().unwrap();
        assert!(life.attempts.len() <= 20 && life.transitions.iter().count() <= 200);
        assert_eq!((life.attempt_count, life.attempts.back().unwrap().number), (round, round));
        bytes.push(task.bytes());
    }
    assert_eq!(bytes[150..], [bytes[299]; 150], "it grows");
    // A hundred lines with an error, twenty attempts with the same.
    assert!(bytes[299] < 1 << 20, "{} bytes", bytes[299]);
}

/// An end that an older version recorded has no time on the life clock.
#[test]
fn an_ended_task_without_the_time_of_its_end_counts_from_when_it_was_due() {
    let mut w = World::new();
    w.submit(|_| {});
    w.wait(500);
    w.act(1, Verb::Cancel);
    let mut image = w.state.image();
    let mut task = image.tasks.remove(TaskId(1)).unwrap();
    assert_eq!(task.ended(), Some(super::ids::LifeTime(500)));
    task.life.as_mut().unwrap().ended = None;
    assert_eq!(task.ended(), Some(super::ids::LifeTime(0)));
    image.tasks.insert(task);
    let old = State::restore(image);
    old.check().unwrap();
    assert_eq!(old.next_outlived(&w.rules.retention), Some(super::ids::LifeTime(604_800_000)));
}

#[test]
fn restoring_an_image_gives_the_same_state() {
    let mut w = World::new();
    let worker = w.join(3);
    for n in 0..5 {
        w.submit(|spec| spec.delay = Some(Millis(n * 10)));
    }
    w.wait(25);
    w.lease(worker, 2);
    let again = State::restore(w.state.image());
    again.check().unwrap();
    assert_eq!(again.next_seq(), w.state.next_seq());
    assert_eq!(again.task(TaskId(1)), w.state.task(TaskId(1)));
    assert_eq!(again.held_count(worker), 2);
}
