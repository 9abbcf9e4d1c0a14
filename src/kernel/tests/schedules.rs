//! Schedules and steps of the wall clock, in virtual time.

use super::*;
use crate::kernel::Rejection;
use crate::kernel::ScheduleAct;
use crate::kernel::schedule::{From, Origin, Overlap, Passing, Plan, Schedule, ScheduleSpec};
use crate::limits::{AHEAD_MAX, DECIDED_KEPT, FIRES_QUEUED_MAX, SCHEDULES_MAX};
use std::collections::BTreeSet;

/// Midnight of 2026-11-30, a Monday, in UTC.
const MONDAY: u64 = 1_795_996_800_000;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Where 32 bits of seconds end, in 2038.
const GLITCH: u64 = 2_147_483_647_000;

fn cron(text: &str) -> ScheduleSpec {
    ScheduleSpec::new("job", Plan::Cron(text.into()))
}

fn every(ms: u64, from: From) -> ScheduleSpec {
    ScheduleSpec::new("job", Plan::Every(Millis(ms), from))
}

/// A world on a Monday at midnight, with one schedule `s`.
fn with(spec: ScheduleSpec) -> World {
    let mut w = World::new();
    w.now.wall = Timestamp(MONDAY);
    w.set(spec);
    w.said.clear();
    w
}

impl World {
    fn on_schedule(&mut self, act: ScheduleAct) {
        self.tell(&Command::ActOnSchedule { name: "s".into(), act });
    }

    fn set(&mut self, spec: ScheduleSpec) {
        let spec = Box::new(spec);
        self.on_schedule(ScheduleAct::Set { spec, origin: Origin::Config, replace: true });
    }

    fn trigger(&mut self) {
        self.on_schedule(ScheduleAct::Trigger { by: Actor::User(7) });
    }

    /// Everything that is due fires, as the engine lets it.
    fn fire(&mut self) {
        for _ in 0..1_000 {
            let Some(name) = self.state.next_fire(self.now, &BTreeSet::new()).cloned() else {
                return;
            };
            self.tell(&Command::Fire(name));
        }
        panic!("a schedule fires without an end");
    }

    fn pass(&mut self, ms: u64) {
        self.wait(ms);
        self.fire();
    }

    /// The clock is put to `wall`, and that is noticed.
    fn step_to(&mut self, wall: u64) {
        let (from, to) = (self.now.wall, Timestamp(wall));
        self.now.wall = to;
        self.tell(&Command::StepClock { from, to });
        self.fire();
    }

    /// The engine starts on a host with that boot id.
    fn boot(&mut self, boot: &str) {
        let stamp = Stamp {
            seq: self.state.next_seq(),
            wall: self.now.wall,
            life: self.now.life,
            service: self.now.service,
            by: Actor::Daemon,
        };
        let started = crate::kernel::event::Started {
            version: "1".into(),
            boot_id: boot.into(),
            boot_clock: Millis(0),
            next_task: self.state.next_task(),
            jump: None,
        };
        apply(&mut self.state, &stamp, &Event::Started(started)).unwrap();
    }

    fn s(&self) -> &Schedule {
        self.state.schedule("s").unwrap()
    }

    fn next(&self) -> Option<u64> {
        self.s().next.map(|at| at.0)
    }

    /// What became of planned times, counted from Monday: from, to, number, what.
    fn passed(&self) -> Vec<(u64, u64, u64, Passing)> {
        let recent = self.s().recent.iter().map(|decided| &decided.passed);
        recent
            .map(|it| {
                let since = |at: Timestamp| at.0.wrapping_sub(MONDAY) / SECOND;
                (since(it.first), since(it.last), it.count, it.passing)
            })
            .collect()
    }

    /// The tasks that were made, by their planned time in seconds from Monday.
    fn runs(&self) -> Vec<u64> {
        let planned = self.state.tasks().filter_map(|task| task.scheduled());
        planned.map(|it| it.planned.0.wrapping_sub(MONDAY) / SECOND).collect()
    }

    /// Runs a task to its end.
    fn run_to_end(&mut self, outcome: Outcome) {
        let worker = self.state.workers().next().map(|worker| worker.id);
        let worker = worker.unwrap_or_else(|| self.join(50));
        self.lease(worker, 50);
        let run = self.state.held(worker).next().unwrap().id;
        let proof = self.proof(run.0);
        self.end(proof, outcome);
    }
}

#[test]
fn a_fire_and_its_task_are_one_record_and_name_the_planned_time() {
    let mut w = with(cron("30 0 * * *"));
    assert_eq!(w.next(), Some(MONDAY + 30 * MINUTE));
    w.pass(30 * MINUTE - 1);
    assert!(w.runs().is_empty(), "not before its time");
    w.pass(1);
    w.expect(expect![[r#"
        fired
        = ScheduleActed { changed: true, task: Some(TaskId(1)) }
    "#]]);
    let task = w.state.task(TaskId(1)).unwrap();
    let scheduled = task.scheduled().unwrap();
    assert_eq!(&*scheduled.schedule, "s");
    assert_eq!(scheduled.planned, Timestamp(MONDAY + 30 * MINUTE));
    assert_eq!(w.next(), Some(MONDAY + DAY + 30 * MINUTE));
    assert_eq!(w.s().counts.fired, 1);
    assert_eq!(w.s().last_task, Some(TaskId(1)));
    w.fire();
    assert_eq!(w.runs().len(), 1, "nothing is decided twice");
}

#[test]
fn what_passed_within_the_grace_is_one_run_and_what_is_older_is_missed() {
    let mut w = with(ScheduleSpec { misfire_grace: Millis(10 * MINUTE), ..cron("* * * * *") });
    w.pass(30 * MINUTE + 5 * SECOND);
    assert_eq!(
        w.passed(),
        [
            (60, 1200, 20, Passing::Missed),
            (1260, 1740, 9, Passing::Coalesced),
            (1800, 1800, 1, Passing::Fired)
        ]
    );
    assert_eq!(w.runs(), [1800]);
    assert_eq!(w.next(), Some(MONDAY + 31 * MINUTE));
}

#[test]
fn without_coalescing_each_time_within_the_grace_is_fired_as_far_as_runs_may_overlap() {
    let spec = ScheduleSpec {
        misfire_grace: Millis(10 * MINUTE),
        coalesce: false,
        max_instances: 100,
        ..cron("* * * * *")
    };
    let mut w = with(spec.clone());
    w.pass(30 * MINUTE + 5 * SECOND);
    assert_eq!(w.runs(), (21..=30).map(|minute| minute * 60).collect::<Vec<_>>());
    let mut w = with(ScheduleSpec { max_instances: 1, ..spec });
    w.pass(30 * MINUTE + 5 * SECOND);
    assert_eq!(w.runs(), [1260]);
    assert_eq!(w.passed().last(), Some(&(1320, 1800, 9, Passing::Skipped)));
}

#[test]
fn a_fire_while_a_run_is_not_over_is_skipped_and_says_for_which() {
    let mut w = with(cron("* * * * *"));
    (0..5).for_each(|_| w.pass(MINUTE));
    assert_eq!(w.passed(), [(60, 60, 1, Passing::Fired), (120, 300, 4, Passing::Skipped)]);
    assert_eq!(w.s().recent.back().unwrap().passed.task, Some(TaskId(1)));
    w.run_to_end(Outcome::Success);
    w.pass(MINUTE);
    assert_eq!(w.runs(), [60, 360]);
    assert_eq!(w.s().counts.skipped, 4);
}

#[test]
fn queued_fires_come_one_after_the_other_and_there_is_a_bound_to_them() {
    let mut w = with(ScheduleSpec { overlap: Overlap::Queue, ..cron("* * * * *") });
    (0..4).for_each(|_| w.pass(MINUTE));
    assert_eq!(w.runs(), [60]);
    assert_eq!(w.s().queued.len(), 3);
    for more in [vec![60, 120], vec![60, 120, 180], vec![60, 120, 180, 240]] {
        w.run_to_end(Outcome::Success);
        w.fire();
        assert_eq!(w.runs(), more);
    }
    assert_eq!(w.s().counts.fired, 4);
    (0..FIRES_QUEUED_MAX + 3).for_each(|_| w.pass(MINUTE));
    assert_eq!(w.s().queued.len(), FIRES_QUEUED_MAX);
    assert_eq!(w.s().counts.skipped, 3);
}

#[test]
fn a_replacing_fire_cancels_what_waits_at_once_and_what_runs_when_it_ends() {
    let mut w = with(ScheduleSpec { overlap: Overlap::Replace, ..cron("* * * * *") });
    w.pass(MINUTE);
    w.pass(MINUTE);
    w.expect(expect![[r#"
        fired
        = ScheduleActed { changed: true, task: Some(TaskId(1)) }
        1 PENDING -> CANCELLED superseded
        fired
        = ScheduleActed { changed: true, task: Some(TaskId(2)) }
    "#]]);
    let worker = w.join(5);
    w.lease(worker, 5);
    let proof = w.proof(2);
    w.beat(proof);
    w.said.clear();
    w.pass(MINUTE);
    w.pass(MINUTE);
    assert_eq!(w.runs(), [60, 120]);
    w.end(proof, Outcome::Cancelled);
    w.fire();
    assert_eq!(w.runs(), [60, 120, 240]);
    w.expect(expect![[r#"
        2 asked to cancel
        fired
        = ScheduleActed { changed: true, task: None }
        fired
        = ScheduleActed { changed: true, task: None }
        2 RUNNING -> CANCELLED user_cancel (cancelled)
        = Ended(Cancelled)
        fired
        = ScheduleActed { changed: true, task: Some(TaskId(3)) }
    "#]]);
    let replaced = w.passed().into_iter().find(|it| it.3 == Passing::Replaced);
    assert_eq!(replaced, Some((180, 180, 1, Passing::Replaced)));
}

#[test]
fn an_interval_from_the_end_waits_for_the_run_and_one_from_the_start_does_not() {
    let mut w = with(every(30 * SECOND, From::End));
    w.pass(30 * SECOND);
    w.pass(300 * SECOND);
    assert_eq!(w.runs(), [30]);
    assert_eq!(w.next(), None);
    w.run_to_end(Outcome::Retryable);
    assert_eq!(w.next(), None, "a retry is the same run");
    w.wait(300 * SECOND);
    w.run_to_end(Outcome::Success);
    assert_eq!(w.next(), Some(w.now.wall.0 + 30 * SECOND));
    w.pass(30 * SECOND);
    assert_eq!(w.runs().len(), 2);

    let mut w = with(ScheduleSpec { max_instances: 9, ..every(30 * SECOND, From::Start) });
    w.pass(30 * SECOND + 10);
    w.pass(30 * SECOND + 10);
    assert_eq!(w.runs(), [30, 60], "counted from the planned time, not from when it was noticed");
    w.pass(5 * DAY);
    let expected = (5 * DAY + 60 * SECOND + 20) / (30 * SECOND) * 30;
    assert_eq!(*w.runs().last().unwrap(), expected, "the beat is kept over a long absence");
    let counts = w.s().counts;
    assert_eq!((counts.fired, counts.coalesced), (3, 119));
    assert!(w.passed().iter().any(|it| it.2 == 10_000 && it.3 == Passing::Missed));
}

#[test]
fn a_change_never_opens_the_past_and_one_that_keeps_the_times_loses_none() {
    let mut w = with(cron("0 0 * * *"));
    w.wait(DAY + HOUR);
    w.set(cron("30 0 * * *"));
    w.fire();
    assert!(w.runs().is_empty());
    assert_eq!(w.next(), Some(MONDAY + 2 * DAY + 30 * MINUTE));
    w.wait(DAY);
    for priority in 0..50 {
        w.set(ScheduleSpec { priority, ..cron("30 0 * * *") });
    }
    w.fire();
    assert_eq!(w.runs(), [(2 * DAY + 30 * MINUTE) / SECOND], "a burst of edits skips nothing");
    assert_eq!(w.state.tasks().next().unwrap().priority, 49);
}

#[test]
fn a_paused_schedule_decides_nothing_and_resumes_from_now_on() {
    let mut w = with(cron("* * * * *"));
    w.on_schedule(ScheduleAct::Pause { reason: Some("rest".into()) });
    w.pass(10 * MINUTE);
    assert!(w.runs().is_empty());
    w.trigger();
    assert_eq!(w.runs(), [600], "a person may still ask for a run");
    w.run_to_end(Outcome::Success);
    w.on_schedule(ScheduleAct::Resume);
    w.fire();
    assert_eq!(w.next(), Some(MONDAY + 11 * MINUTE));
    w.pass(MINUTE);
    assert_eq!(w.runs(), [600, 660]);
}

#[test]
fn a_run_that_a_person_asks_for_keeps_its_source_and_obeys_the_overlap() {
    let mut w = with(cron("0 5 * * *"));
    w.trigger();
    let task = w.state.task(TaskId(1)).unwrap();
    assert_eq!(task.scheduled().unwrap().manual, Some(Actor::User(7)));
    assert_eq!(w.s().counts.fired, 0, "it is no planned time");
    w.said.clear();
    w.trigger();
    w.expect(expect![[r#"
        refused: task 1 of schedule `s` is not over, and there may be no more of them at once
    "#]]);
    w.set(ScheduleSpec { overlap: Overlap::Queue, ..cron("0 5 * * *") });
    w.trigger();
    assert_eq!(w.s().queued.len(), 1);
    w.run_to_end(Outcome::Success);
    w.fire();
    assert_eq!(w.state.task(TaskId(2)).unwrap().scheduled().unwrap().manual, Some(Actor::User(7)));
    assert_eq!(w.next(), Some(MONDAY + 5 * HOUR));
}

// spec: TIM-154
#[test]
fn a_step_forward_makes_one_run_of_what_it_passed_and_one_back_repeats_nothing() {
    let mut w = with(cron("0 * * * *"));
    w.wait(30 * MINUTE);
    w.step_to(MONDAY + 90 * MINUTE);
    assert_eq!(w.runs(), [3600]);
    w.run_to_end(Outcome::Success);
    w.step_to(MONDAY + 31 * MINUTE);
    w.pass(MINUTE);
    w.pass(HOUR);
    assert_eq!(w.runs(), [3600], "the hour that comes again was fired");
    w.pass(HOUR);
    assert_eq!(w.runs(), [3600, 7200]);
}

// spec: TIM-155
#[test]
fn a_glitch_into_2038_that_is_taken_back_neither_fires_much_nor_holds_anything_up() {
    let mut w = with(cron("0 * * * *"));
    w.pass(30 * MINUTE);
    w.step_to(GLITCH);
    let during = w.runs().len();
    assert!(during <= 1, "{:?}", w.runs());
    w.pass(10 * MINUTE);
    w.step_to(MONDAY + 40 * MINUTE);
    w.pass(20 * MINUTE);
    let runs = w.runs();
    assert!(runs.contains(&3600) || during == 1, "{runs:?}");
    if during == 1 {
        w.run_to_end(Outcome::Success);
    }
    w.pass(HOUR);
    assert!(w.runs().contains(&7200), "{:?}", w.runs());
}

// spec: TIM-022
#[test]
fn a_clock_that_was_never_set_and_then_wrong_holds_nothing_up() {
    let mut w = with(cron("0 * * * *"));
    w.now.doubtful = true;
    w.step_to(5 * SECOND);
    w.now.doubtful = false;
    w.step_to(GLITCH);
    w.pass(HOUR);
    w.step_to(MONDAY + 30 * MINUTE);
    w.run_to_end(Outcome::Success);
    w.pass(30 * MINUTE);
    assert!(w.runs().contains(&3600), "{:?}", w.runs());
    assert_eq!(w.next(), Some(MONDAY + 2 * HOUR));
}

// spec: TIM-022
#[test]
fn a_pause_while_the_clock_was_wrong_holds_nothing_up_and_repeats_nothing() {
    let mut w = with(ScheduleSpec { max_instances: 9, ..cron("0 * * * *") });
    w.pass(HOUR);
    w.step_to(GLITCH);
    w.on_schedule(ScheduleAct::Pause { reason: None });
    w.step_to(MONDAY + 30 * MINUTE);
    w.on_schedule(ScheduleAct::Resume);
    assert!(!w.said.contains("refused"), "{}", w.said);
    w.pass(2 * HOUR);
    let runs = w.runs();
    assert_eq!(runs.iter().filter(|at| **at == 3600).count(), 1, "{runs:?}");
    assert!(runs.contains(&7200), "{runs:?}");
}

// spec: TIM-021
#[test]
fn a_change_after_the_clock_was_put_back_repeats_no_run() {
    let each = |text| ScheduleSpec {
        max_instances: 9,
        coalesce: false,
        misfire_grace: Millis(DAY),
        ..cron(text)
    };
    let mut w = with(each("0 * * * *"));
    w.pass(2 * HOUR + MINUTE);
    w.step_to(MONDAY + 30 * MINUTE);
    assert!(w.s().look.is_none(), "these hours were lived through");
    w.set(each("0,45 * * * *"));
    w.pass(2 * HOUR);
    assert_eq!(w.runs(), [3600, 7200, 45 * 60, 105 * 60]);
}

// spec: TIM-022
#[test]
fn a_glitch_that_is_taken_back_by_way_of_1970_holds_nothing_up() {
    let mut w = with(ScheduleSpec { max_instances: 9, ..cron("0 * * * *") });
    w.step_to(GLITCH);
    w.now.doubtful = true;
    w.step_to(5 * SECOND);
    w.now.doubtful = false;
    w.step_to(MONDAY + 30 * MINUTE);
    w.pass(30 * MINUTE);
    assert!(w.runs().contains(&3600), "{:?}", w.runs());
}

// spec: TIM-021
#[test]
fn a_fire_that_waits_is_not_planned_again_when_the_clock_is_taken_back() {
    let mut w = with(ScheduleSpec { overlap: Overlap::Queue, ..cron("0 * * * *") });
    w.step_to(GLITCH);
    w.pass(HOUR);
    let waiting: Vec<_> = w.s().queued.iter().map(|fire| fire.planned).collect();
    assert_eq!(waiting.len(), 1);
    w.step_to(MONDAY + 30 * MINUTE);
    w.step_to(GLITCH);
    w.pass(HOUR);
    let again = w.s().queued.iter().filter(|fire| fire.planned == waiting[0]).count();
    assert_eq!(again, 1, "{:?}", w.s().queued);
}

#[test]
fn a_fire_at_the_start_of_the_host_is_due_at_once_although_the_clock_was_put_back() {
    let mut w = with(ScheduleSpec::new("job", Plan::Boot));
    w.boot("a");
    w.boot("b");
    w.step_to(5 * SECOND);
    assert_eq!(w.s().last_planned, Some(Timestamp(5 * SECOND)));
}

// spec: TIM-156
#[test]
fn a_step_does_not_move_an_interval() {
    for to in [MONDAY - DAY, MONDAY + 40 * DAY, 0] {
        let mut w = with(every(10 * MINUTE, From::Start));
        w.pass(9 * MINUTE);
        w.step_to(to);
        assert!(w.runs().is_empty(), "{to}");
        w.pass(MINUTE - 1);
        assert!(w.runs().is_empty(), "{to}");
        w.pass(1);
        assert_eq!(w.runs().len(), 1, "{to}");
    }
}

// spec: TIM-157
#[test]
fn while_the_clock_is_doubtful_the_calendar_waits_and_intervals_go_on() {
    let mut w = with(cron("* * * * *"));
    let interval = Box::new(every(10 * SECOND, From::Start));
    let act = ScheduleAct::Set { spec: interval, origin: Origin::Config, replace: true };
    w.tell(&Command::ActOnSchedule { name: "t".into(), act });
    w.now.doubtful = true;
    w.step_to(5_000);
    w.pass(10 * SECOND);
    assert_eq!(w.runs().len(), 1);
    w.now.doubtful = false;
    w.step_to(MONDAY + 5 * MINUTE);
    assert_eq!(w.runs(), [w.runs()[0], 300], "what passed within the grace is one run");
}

// spec: TIM-124
#[test]
fn what_is_due_when_a_schedule_is_paused_changed_or_removed_is_skipped_on_record() {
    let mut w = with(cron("* * * * *"));
    w.wait(3 * MINUTE);
    w.on_schedule(ScheduleAct::Pause { reason: None });
    assert_eq!(w.passed(), [(60, 180, 3, Passing::Skipped)]);
    w.on_schedule(ScheduleAct::Resume);
    w.wait(MINUTE);
    w.set(cron("30 * * * *"));
    assert_eq!(w.passed().last(), Some(&(60, 240, 4, Passing::Skipped)));
    assert_eq!(w.next(), Some(MONDAY + 30 * MINUTE));
    w.wait(HOUR);
    w.said.clear();
    w.on_schedule(ScheduleAct::Remove { origin: Origin::Config });
    assert!(w.said.starts_with("fired\nschedule_removed\n"), "{}", w.said);
    assert!(w.runs().is_empty());
}

// spec: TIM-159
#[test]
fn a_schedule_that_was_made_while_the_clock_was_unset_begins_when_it_is_set() {
    let mut w = World::new();
    w.now.wall = Timestamp(9_000);
    w.now.doubtful = true;
    w.set(cron("* * * * *"));
    w.pass(10 * MINUTE);
    w.now.doubtful = false;
    w.step_to(MONDAY + 30 * SECOND);
    assert!(w.runs().is_empty() && w.passed().is_empty(), "{:?}", w.passed());
    assert_eq!(w.next(), Some(MONDAY + MINUTE));
    w.pass(30 * SECOND);
    assert_eq!(w.runs(), [60]);
    // One that was there before has missed what it missed.
    w.run_to_end(Outcome::Success);
    w.now.doubtful = true;
    w.step_to(9_000);
    w.now.doubtful = false;
    w.step_to(MONDAY + 3 * MINUTE);
    assert_eq!(w.runs(), [60, 180]);
}

// spec: TIM-158
#[test]
fn a_date_that_was_ripe_waits_again_when_the_clock_is_put_back() {
    let mut w = World::new();
    w.now.wall = Timestamp(MONDAY);
    w.submit(|spec| spec.at = Some(Timestamp(MONDAY + HOUR)));
    w.wait(2 * HOUR);
    assert_eq!(w.state.index().ready_count(), 1);
    w.step_to(MONDAY + 30 * MINUTE);
    w.state.check().unwrap();
    assert_eq!(w.state.index().ready_count(), 0);
    assert_eq!(w.state.next_due().1, Some(Timestamp(MONDAY + HOUR)));
    w.wait(30 * MINUTE);
    assert_eq!(w.state.index().ready_count(), 1);
}

#[test]
fn a_start_of_the_host_fires_what_waits_for_one() {
    let mut w = with(ScheduleSpec::new("job", Plan::Boot));
    w.boot("a");
    w.fire();
    w.boot("a");
    w.fire();
    assert!(w.runs().is_empty(), "it was added during this boot");
    w.wait(3 * DAY);
    w.boot("b");
    w.fire();
    assert_eq!(w.runs().len(), 1);
    w.boot("b");
    w.fire();
    assert_eq!(w.runs().len(), 1);
}

#[test]
fn a_date_is_kept_through_an_absence_and_one_in_the_past_is_never_fired() {
    let once = |at| ScheduleSpec::new("job", Plan::Once(Timestamp(at)));
    let mut w = with(once(MONDAY + HOUR));
    w.pass(HOUR + 10 * MINUTE);
    assert_eq!(w.runs(), [3600]);
    assert_eq!(w.next(), None);
    let mut w = with(once(MONDAY - 1));
    w.pass(DAY);
    assert!(w.runs().is_empty());
    let mut w = with(once(MONDAY + HOUR));
    w.pass(3 * HOUR);
    assert_eq!(w.passed(), [(3600, 3600, 1, Passing::Missed)]);
}

#[test]
fn times_that_cannot_be_planned_are_refused_and_so_is_a_name_that_is_taken() {
    let mut w = with(cron("0 5 * * *"));
    w.set(cron("61 * * * *"));
    w.set(ScheduleSpec { zone: "Mars/Base".into(), ..cron("0 5 * * *") });
    assert_eq!(w.said.matches("refused: ").count(), 2, "{}", w.said);
    assert!(w.said.contains("`cron`: ") && w.said.contains("`timezone`: "), "{}", w.said);
    w.said.clear();
    let spec = Box::new(cron("1 1 * * *"));
    w.on_schedule(ScheduleAct::Set { spec, origin: Origin::Runtime, replace: true });
    w.on_schedule(ScheduleAct::Remove { origin: Origin::Runtime });
    assert_eq!(w.said.matches("comes from the config").count(), 2, "{}", w.said);
    w.on_schedule(ScheduleAct::Remove { origin: Origin::Config });
    assert!(w.state.schedule("s").is_none());
    let spec = Box::new(cron("1 1 * * *"));
    for _ in 0..2 {
        w.on_schedule(ScheduleAct::Set {
            spec: spec.clone(),
            origin: Origin::Runtime,
            replace: false,
        });
    }
    let other = Box::new(cron("2 1 * * *"));
    w.on_schedule(ScheduleAct::Set { spec: other, origin: Origin::Runtime, replace: false });
    assert!(w.said.ends_with("refused: there is a schedule `s` already\n"), "{}", w.said);
}

#[test]
fn the_jitter_is_within_its_span_and_on_record() {
    let mut w = with(ScheduleSpec { jitter: Millis(30 * SECOND), ..cron("* * * * *") });
    let mut seen = BTreeSet::new();
    for dice in 0..20 {
        w.now.dice = dice * 7_919;
        w.pass(MINUTE);
        let task = w.state.task(w.s().last_task.unwrap()).unwrap();
        let late = task.due.since(w.now.life);
        assert!(late <= Millis(30 * SECOND));
        seen.insert(late);
        w.wait(30 * SECOND);
        w.run_to_end(Outcome::Success);
        w.wait(30 * SECOND);
    }
    assert!(10 < seen.len());
}

#[test]
fn success_and_failure_of_runs_are_kept_with_their_schedule() {
    let mut w = with(cron("* * * * *"));
    for _ in 0..3 {
        w.pass(MINUTE);
        w.run_to_end(Outcome::Fatal);
    }
    assert_eq!((w.s().failures, w.s().last_success), (3, None));
    w.pass(MINUTE);
    w.run_to_end(Outcome::Success);
    assert_eq!((w.s().failures, w.s().last_success), (0, Some(w.now.wall)));
}

#[test]
fn a_schedule_keeps_its_last_twenty_decisions() {
    let mut w = with(cron("* * * * *"));
    for _ in 0..25 {
        w.pass(MINUTE);
        w.run_to_end(Outcome::Success);
    }
    assert_eq!(w.passed().len(), DECIDED_KEPT);
    assert_eq!(w.passed()[0].0, 6 * 60);
    assert_eq!(w.s().counts.fired, 25);
}

/// Makes events true without the comparisons of `tell`, which cost as much as all there is.
fn quickly(w: &mut World, command: &Command) -> Result<(), Rejection> {
    let decision = decide(&w.state, &w.rules, command, w.now)?;
    for event in &decision.events {
        let Moment { wall, life, service, .. } = w.now;
        let stamp = Stamp { seq: w.state.next_seq(), wall, life, service, by: Actor::Daemon };
        apply(&mut w.state, &stamp, event).unwrap();
    }
    Ok(())
}

#[test]
fn there_may_be_twenty_thousand_schedules() {
    let mut w = World::new();
    w.now.wall = Timestamp(MONDAY);
    let set = |number: usize| Command::ActOnSchedule {
        name: format!("s{number}").into(),
        act: ScheduleAct::Set {
            spec: Box::new(every(DAY, From::Start)),
            origin: Origin::Runtime,
            replace: false,
        },
    };
    (0..SCHEDULES_MAX).for_each(|number| quickly(&mut w, &set(number)).unwrap());
    assert_eq!(quickly(&mut w, &set(SCHEDULES_MAX)), Err(Rejection::TooManySchedules));
    w.state.check().unwrap();
}

#[test]
fn ten_thousand_runs_ahead_of_a_clock_that_was_put_back_are_remembered() {
    let mut w = with(ScheduleSpec { max_instances: 100_000, ..cron("* * * * * *") });
    let (from, to) = (w.now.wall, w.now.wall.after(Millis(DAY)));
    w.now.wall = to;
    quickly(&mut w, &Command::StepClock { from, to }).unwrap();
    for _ in 0..AHEAD_MAX + 5 {
        w.now.wall = w.now.wall.after(Millis(SECOND));
        while let Some(name) = w.state.next_fire(w.now, &BTreeSet::new()).cloned() {
            quickly(&mut w, &Command::Fire(name)).unwrap();
        }
    }
    let (from, to) = (w.now.wall, Timestamp(MONDAY + HOUR));
    w.now.wall = to;
    quickly(&mut w, &Command::StepClock { from, to }).unwrap();
    assert_eq!(w.s().ahead.len(), AHEAD_MAX);
    w.state.check().unwrap();
    let before = w.state.task_count();
    w.now.wall = to.after(Millis(SECOND));
    while let Some(name) = w.state.next_fire(w.now, &BTreeSet::new()).cloned() {
        quickly(&mut w, &Command::Fire(name)).unwrap();
    }
    assert_eq!(w.state.task_count(), before + 1, "what comes next was not fired yet");
}

// spec: TIM-154
#[test]
fn a_schedule_that_was_made_lately_lets_no_other_decide_twice_when_the_clock_is_put_back() {
    let mut w = with(cron("* * * * *"));
    (0..5).for_each(|_| w.pass(MINUTE));
    assert_eq!(w.s().counts.skipped, 4);
    let act = ScheduleAct::Set {
        spec: Box::new(cron("30 * * * *")),
        origin: Origin::Runtime,
        replace: false,
    };
    w.tell(&Command::ActOnSchedule { name: "late".into(), act });
    w.set(ScheduleSpec { priority: 3, ..cron("* * * * *") });
    w.step_to(MONDAY + 2 * MINUTE);
    (0..3).for_each(|_| w.pass(MINUTE));
    assert_eq!(w.s().counts.skipped, 4, "{:?}", w.passed());
    // The one that was made in a time that had not come yet begins with it.
    assert_eq!(w.state.schedule("late").unwrap().next, Some(Timestamp(MONDAY + 30 * MINUTE)));
    assert!(w.state.schedule("late").unwrap().decided <= w.now.wall);
}

#[test]
fn no_run_that_was_promised_is_forgotten_where_as_many_wait_as_may() {
    let mut w = with(ScheduleSpec { overlap: Overlap::Queue, ..cron("0 5 * * *") });
    (0..=FIRES_QUEUED_MAX).for_each(|_| w.trigger());
    assert_eq!(w.s().queued.len(), FIRES_QUEUED_MAX);
    w.said.clear();
    w.trigger();
    assert_eq!(w.said, "refused: 100 runs of schedule `s` wait already, as many as may wait\n");
}

#[test]
fn fires_that_wait_are_given_up_on_record_with_their_schedule() {
    let mut w = with(ScheduleSpec { overlap: Overlap::Queue, ..cron("* * * * *") });
    (0..3).for_each(|_| w.pass(MINUTE));
    w.trigger();
    w.said.clear();
    w.on_schedule(ScheduleAct::Remove { origin: Origin::Config });
    assert!(w.said.starts_with("fired\nschedule_removed\n"), "{}", w.said);
}

#[test]
fn a_date_that_is_past_is_refused_where_a_person_asks_for_it() {
    let mut w = with(cron("0 5 * * *"));
    w.said.clear();
    let past = ScheduleSpec::new("job", Plan::Once(Timestamp(MONDAY)));
    let act = ScheduleAct::Set { spec: Box::new(past), origin: Origin::Runtime, replace: false };
    w.tell(&Command::ActOnSchedule { name: "past".into(), act });
    assert_eq!(w.said, "refused: `at`: it is past, and nothing that is past is ever run\n");
}
