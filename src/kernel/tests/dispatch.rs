//! Who goes next: priority, promotion, slots kept free for urgent tasks.

use super::*;
use crate::kernel::ids::LifeTime;
use crate::kernel::rules::Reserve;
use crate::kernel::task_type::{Bounds, Per, Rate};
use crate::kernel::{Change, TypeAct};

/// One millisecond more than a due task waits in its turn.
const OVERDUE: u64 = 900_001;

impl World {
    /// `number` urgent tasks that never become old.
    fn urgent(&mut self, number: u32) {
        for _ in 0..number {
            self.submit(|spec| spec.priority = 1);
        }
    }

    /// What the worker gets when it takes one task after another and each ends at once: the
    /// tasks, each with a mark where it goes out of turn.
    fn dispatches(&mut self, worker: WorkerId, number: usize) -> Vec<String> {
        (0..number).flat_map(|_| self.dispatch(worker, 1)).collect()
    }

    fn dispatch(&mut self, worker: WorkerId, slots: u8) -> Vec<String> {
        let secrets = (0..slots).map(|place| SecretHash([place; 16])).collect();
        let command = Command::Lease { worker, secrets };
        let decision = decide(&self.state, &self.rules, &command, self.now).unwrap();
        let leased = decision.events.iter().filter_map(|event| match event {
            Event::Leased(leased) => Some((leased.task.0, leased.promoted)),
            _ => None,
        });
        let leased: Vec<_> = leased.collect();
        self.tell(&command);
        for (task, _) in &leased {
            self.end(self.proof(*task), Outcome::Success);
        }
        let mark = |promoted| if promoted == Some(true) { "!" } else { "" };
        leased.iter().map(|(task, promoted)| format!("{task}{}", mark(*promoted))).collect()
    }

    fn can_get(&self, worker: WorkerId) -> bool {
        let worker = self.state.worker(worker).unwrap();
        self.state.has_work_for(&self.rules, worker, self.now.life)
    }
}

// spec: DSP-001 DSP-002 DSP-003
#[test]
fn every_fourth_dispatch_takes_the_oldest_that_has_waited_too_long() {
    let mut w = World::new();
    let worker = w.join(1);
    for _ in 0..3 {
        w.submit(|_| {});
    }
    w.wait(OVERDUE - 1);
    w.urgent(20);
    assert_eq!(w.dispatches(worker, 2), ["4", "5"], "fifteen minutes are not too long");
    w.wait(1);
    let order = w.dispatches(worker, 12);
    assert_eq!(order, ["1!", "6", "7", "8", "2!", "9", "10", "11", "3!", "12", "13", "14"]);
}

// spec: DSP-003
#[test]
fn one_decision_counts_as_many_as_it_leases() {
    let mut w = World::new();
    let worker = w.join(9);
    for _ in 0..3 {
        w.submit(|_| {});
    }
    w.wait(OVERDUE);
    w.urgent(9);
    assert_eq!(w.dispatch(worker, 6), ["1!", "4", "5", "6", "2!", "7"]);
    assert_eq!(w.state.head().since_promotion, Some(1));
    assert_eq!(w.dispatch(worker, 9), ["8", "9", "3!", "10", "11", "12"]);
    assert_eq!(w.state.head().since_promotion, None, "another may go out of turn");
}

// spec: DSP-003
#[test]
fn the_count_survives_a_snapshot_and_what_is_old_and_first_is_not_out_of_turn() {
    let mut w = World::new();
    let worker = w.join(1);
    for _ in 0..6 {
        w.submit(|_| {});
    }
    w.wait(OVERDUE);
    assert_eq!(w.dispatches(worker, 2), ["1", "2"]);
    w.urgent(9);
    assert_eq!(w.dispatches(worker, 2), ["3!", "7"]);
    w.state = State::restore(w.state.image());
    assert_eq!(w.dispatches(worker, 4), ["8", "9", "4!", "10"]);
}

// spec: DSP-004
#[test]
fn what_may_not_be_dispatched_is_not_promoted() {
    let mut w = World::new();
    let worker = w.join(5);
    let other = |w: &mut World| w.submit(|spec| spec.kind = "other".into());
    other(&mut w);
    w.lease(worker, 1);
    other(&mut w);
    w.submit(|_| {});
    w.wait(OVERDUE);
    w.urgent(5);
    let order = |act| Command::ActOnType { kind: "other".into(), act };
    w.tell(&order(TypeAct::Pause { reason: None }));
    assert_eq!(w.dispatches(worker, 1), ["3!"], "paused");
    w.state.head.since_promotion = None;
    w.tell(&order(TypeAct::Resume));
    w.tell(&order(TypeAct::Limit { max_running: Change::AtMost(1), rate: Change::Keep }));
    assert_eq!(w.dispatches(worker, 1), ["4"], "as many run as may");
    let rate = Change::AtMost(Rate { count: 1, per: Per::Hour });
    w.tell(&order(TypeAct::Limit { max_running: Change::Config, rate }));
    assert_eq!(w.dispatches(worker, 2), ["2!", "5"]);
    other(&mut w);
    w.wait(OVERDUE);
    w.state.head.since_promotion = None;
    assert_eq!(w.dispatches(worker, 3), ["6", "7", "8"], "its rate is used up");
}

// spec: DSP-005
#[test]
fn nothing_is_promoted_where_that_is_off() {
    let mut w = World::new();
    w.rules.promote_after = Millis(0);
    let worker = w.join(1);
    w.submit(|_| {});
    w.wait(100 * OVERDUE);
    w.urgent(9);
    assert_eq!(w.dispatches(worker, 10).last().unwrap(), "1");
}

// spec: DSP-006
#[test]
fn an_overdue_task_starts_within_its_bound_and_urgent_ones_get_three_of_four() {
    let mut w = World::new();
    let worker = w.join(3);
    for n in 0..40 {
        w.submit(|spec| spec.priority = 100 + n % 7);
    }
    w.wait(OVERDUE);
    let (mut urgent, mut dispatched, mut started) = (0, 0, 0);
    while started < 40 {
        w.urgent(3);
        for task in w.dispatch(worker, 3) {
            dispatched += 1;
            match task.strip_suffix('!') {
                Some(old) => {
                    started += 1;
                    assert_eq!(old, started.to_string(), "the oldest goes first");
                    assert!(dispatched <= 4 * started, "{started} after {dispatched}");
                }
                None => urgent += 1,
            }
        }
        assert!(3 * started <= urgent + 3, "{urgent} urgent ones, {started} others");
    }
}

fn kept(priority_max: i32, slots: u32) -> Reserve {
    Reserve { priority_max, slots }
}

// spec: DSP-010 DSP-012
#[test]
fn a_flood_leaves_reserved_slots_to_urgent_tasks() {
    let mut w = World::new();
    w.rules.reserve = vec![kept(10, 1)];
    let (one, other) = (w.join(2), w.join(2));
    for _ in 0..9 {
        w.submit(|_| {});
    }
    w.lease(one, 2);
    w.lease(other, 2);
    assert_eq!((w.state.held_count(one), w.state.held_count(other)), (2, 1));
    assert!(!w.can_get(other), "who waits for work does not ask again and again");
    w.submit(|spec| spec.priority = 10);
    assert!(w.can_get(other));
    w.lease(other, 2);
    assert_eq!(w.state.task(TaskId(10)).unwrap().status, Status::Running);
    w.end(w.proof(10), Outcome::Success);
    assert!(!w.can_get(other));
    w.end(w.proof(1), Outcome::Success);
    assert!(w.can_get(other), "wherever a slot is free");
    w.lease(other, 2);
    assert_eq!(w.state.held_count(other), 2);
}

// spec: DSP-010
#[test]
fn reserves_add_up_and_always_leave_one() {
    let mut w = World::new();
    w.rules.reserve = vec![kept(50, 1), kept(10, 1), kept(10, 1)];
    let worker = w.join(5);
    for _ in 0..9 {
        w.submit(|_| {});
    }
    for _ in 0..3 {
        w.submit(|spec| spec.priority = 50);
    }
    // Above 10 at most three, above 50 at most two of these.
    assert_eq!(w.dispatch(worker, 5), ["10", "11", "12"]);
    assert_eq!(w.dispatch(worker, 5), ["1", "2"]);
    w.rules.reserve = vec![kept(10, 99)];
    assert_eq!(w.dispatch(worker, 5), ["3"], "never none");
}

// spec: DSP-011
#[test]
fn only_workers_that_are_alive_and_their_leases_count() {
    let mut w = World::new();
    w.rules.reserve = vec![kept(10, 2)];
    let (silent, other) = (w.join(3), w.join(3));
    for _ in 0..9 {
        w.submit(|_| {});
    }
    w.lease(silent, 3);
    w.tell(&Command::Silent { worker: silent, standing: Standing::Suspect });
    assert!(w.can_get(other));
    w.lease(other, 3);
    assert_eq!(w.state.held_count(other), 1);
    // Whoever asks for work is alive, and then four of six slots are too many.
    w.lease(silent, 3);
    w.lease(other, 3);
    assert_eq!((w.state.held_count(silent), w.state.held_count(other)), (3, 1));
    w.end(w.proof(1), Outcome::Success);
    assert!(w.can_get(other));
}

// spec: DSP-013
#[test]
fn a_promotion_takes_no_reserved_slot() {
    let mut w = World::new();
    w.rules.reserve = vec![kept(10, 1)];
    let worker = w.join(2);
    for _ in 0..3 {
        w.submit(|_| {});
    }
    w.submit(|spec| spec.priority = 5);
    w.wait(OVERDUE);
    w.urgent(5);
    w.lease(worker, 1);
    assert_eq!(w.state.task(TaskId(1)).unwrap().status, Status::Running);
    w.state.head.since_promotion = None;
    assert_eq!(w.dispatches(worker, 2), ["4!", "5"], "the oldest that may go");
}

#[test]
fn no_hand_is_moved_by_a_rate_that_a_reserve_holds_up_too() {
    let mut w = World::new();
    w.rules.reserve = vec![kept(10, 1)];
    w.rules.fallback.bounds =
        Bounds { max_running: None, rate: Some(Rate { count: 1, per: Per::Second }) };
    let worker = w.join(2);
    w.submit(|_| {});
    w.submit(|_| {});
    w.lease(worker, 1);
    assert_eq!(w.state.next_rate_free(&w.rules, w.now.life), Some(LifeTime(1000)));
    w.wait(1000);
    assert_eq!(w.state.next_rate_free(&w.rules, w.now.life), None, "it does not wake twice");
    assert!(!w.can_get(worker));
}
