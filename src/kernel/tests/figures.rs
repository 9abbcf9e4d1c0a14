//! What is counted.

use super::*;
use crate::kernel::figures::{MINUTE, OTHERS, QUARTER, Sums};
use crate::kernel::ids::LifeTime;
use crate::kernel::task::InputDigest;
use crate::limits::{MINUTES_KEPT, QUARTERS_KEPT, TYPES_COUNTED_MAX};

const DAY: Millis = Millis::secs(24 * 3600);

impl World {
    fn sums(&self, span: Millis) -> Sums {
        let (_, by_type) = self.state.figures().by_type(self.now.life, span);
        by_type["job"].sums
    }

    /// A task that runs `ran` long after it waited, and ends so.
    fn run_one(&mut self, worker: WorkerId, waits: u64, ran: u64, outcome: Outcome) {
        let task = self.state.next_task().0;
        self.submit(|spec| spec.max_retry = 0);
        self.wait(waits);
        self.lease(worker, 1);
        let proof = self.proof(task);
        self.wait(ran);
        self.end(proof, outcome);
    }

    fn report(&mut self, task: u64, ran: u64, input: &str) {
        let report = EndReport {
            outcome: Outcome::Success,
            started: true,
            exit_code: Some(0),
            signal: None,
            result: None,
            error: None,
            usage: None,
            ran: Some(Millis(ran)),
            input: Some(InputDigest::of(input)),
        };
        self.tell(&Command::End { proof: self.proof(task), report });
    }
}

#[test]
fn a_life_of_failures_is_counted_step_by_step() {
    let mut w = World::new();
    let worker = w.join(1);
    w.submit(|spec| spec.max_retry = 2);
    for _ in 0..3 {
        w.lease(worker, 1);
        let proof = w.proof(1);
        w.wait(500);
        w.end(proof, Outcome::Retryable);
        w.wait(1_000_000);
    }
    let expected = Sums { created: 1, dead: 1, retried: 2, attempts: 3, ..Sums::default() };
    assert_eq!(w.sums(DAY), expected);
    let figures = &w.state.figures().types["job"];
    assert_eq!((figures.failures, figures.last_success), (1, None));
    assert_eq!((figures.ever.most_retries, figures.ever.most_task), (2, Some(TaskId(1))));
    assert_eq!((figures.ever.run.total(), figures.ever.run.max), (3, Millis(500)));
    assert_eq!(figures.ever.wait.total(), 3);
}

#[test]
fn wait_and_run_are_measured_apart_and_the_workers_own_time_counts() {
    let mut w = World::new();
    let worker = w.join(1);
    w.submit(|spec| spec.priority = 5);
    w.wait(30_000);
    w.lease(worker, 1);
    w.wait(9_000);
    w.report(1, 7_000, "{}");
    let figures = w.state.figures();
    let tale = &figures.types["job"].ever;
    assert_eq!((tale.wait.max, tale.run.max), (Millis(30_000), Millis(7_000)));
    assert_eq!(figures.all.wait_urgent, tale.wait);
    assert_eq!(figures.all.wait_ordinary.total() + figures.all.wait_patient.total(), 0);
}

#[test]
fn an_input_that_is_not_the_payload_is_found_out() {
    let mut w = World::new();
    let worker = w.join(2);
    w.submit(|_| {});
    w.submit(|_| {});
    w.lease(worker, 2);
    w.report(1, 10, "{}");
    assert_eq!(w.state.figures().all.wrong_input, 0);
    w.report(2, 10, "{ }");
    assert_eq!(w.state.figures().all.wrong_input, 1);
}

#[test]
fn what_is_lost_cancelled_or_fails_for_good_is_told_apart() {
    let mut w = World::new();
    let worker = w.join(9);
    for _ in 0..4 {
        w.submit(|_| {});
    }
    w.lease(worker, 2);
    w.end(w.proof(1), Outcome::Fatal);
    w.act(3, Verb::Cancel);
    w.tell(&Command::Died { worker, reason: Reason::WorkerCrash });
    let sums = w.sums(DAY);
    let expected =
        Sums { created: 4, failed: 1, cancelled: 1, lost: 1, attempts: 2, ..Sums::default() };
    assert_eq!(sums, expected);
    assert_eq!((sums.ended(), sums.judged()), (2, 1));
}

#[test]
fn a_success_ends_a_row_of_failures() {
    let mut w = World::new();
    let worker = w.join(1);
    let failures = |w: &World| w.state.figures().types["job"].failures;
    for outcome in [Outcome::Fatal, Outcome::Retryable] {
        w.run_one(worker, 0, 5, outcome);
    }
    assert_eq!(failures(&w), 2);
    w.run_one(worker, 0, 5, Outcome::Success);
    assert_eq!(failures(&w), 0);
    let figures = &w.state.figures().types["job"];
    assert!(figures.last_failure < figures.last_success);
}

#[test]
fn minutes_are_kept_for_two_hours_and_quarters_for_a_day() {
    let mut w = World::new();
    let worker = w.join(1);
    let live = |w: &mut World, each: Millis, times: usize| {
        for _ in 0..times {
            w.run_one(worker, 0, 1_000, Outcome::Success);
            w.wait(each.0 - 1_000);
        }
    };
    live(&mut w, QUARTER, QUARTERS_KEPT + 3);
    assert_eq!(w.state.figures().types["job"].quarters.len(), QUARTERS_KEPT);
    assert!(w.sums(DAY).succeeded.abs_diff(24 * 4) <= 1);
    live(&mut w, MINUTE, MINUTES_KEPT + 5);
    let figures = w.state.figures();
    assert_eq!(figures.all.minutes.len(), MINUTES_KEPT);
    let all = (QUARTERS_KEPT + 3 + MINUTES_KEPT + 5) as u64;
    assert_eq!(figures.types["job"].ever.sums.succeeded, all);
    // A span begins with a quarter, so it is at most that much longer than what was asked for.
    let hour = Millis::secs(3600);
    let (since, by_type) = figures.by_type(w.now.life, hour);
    let span = w.now.life.since(since);
    assert!(hour <= span && span.0 < hour.0 + QUARTER.0, "{span:?}");
    let minutes = span.0 / MINUTE.0;
    assert!(by_type["job"].sums.succeeded.abs_diff(minutes) <= 1);
    // After two days of rest nothing of it is recent.
    w.wait(2 * DAY.0);
    assert_eq!(w.sums(DAY), Sums::default());
}

#[test]
fn types_beyond_the_bound_are_counted_together() {
    let mut w = World::new();
    for place in 0..TYPES_COUNTED_MAX + 3 {
        w.submit(|spec| spec.kind = format!("type{place}").into());
    }
    w.submit(|spec| spec.kind = "type0".into());
    let types = &w.state.figures().types;
    assert_eq!(types.len(), TYPES_COUNTED_MAX + 1);
    assert_eq!(types[OTHERS].ever.sums.created, 3);
    assert_eq!(types["type0"].ever.sums.created, 2);
}

#[test]
fn figures_go_with_an_image_and_where_there_are_none_counting_begins() {
    let mut w = World::new();
    let worker = w.join(1);
    w.run_one(worker, 70, 900, Outcome::Success);
    w.submit(|_| {});
    let image = w.state.image();
    let restored = State::restore(image.clone());
    assert_eq!(restored.figures(), w.state.figures());
    w.state = State::restore(crate::kernel::Image { figures: None, ..image });
    let all = &w.state.figures().all;
    assert_eq!((all.base, w.state.figures().types.len()), (1, 0));
    w.lease(worker, 1);
    w.end(w.proof(2), Outcome::Success);
    w.state.check().unwrap();
    assert_eq!(w.sums(DAY).succeeded, 1);
}

#[test]
fn a_life_clock_that_stands_still_or_an_absence_of_a_year_makes_no_gap() {
    let mut w = World::new();
    w.submit(|_| {});
    w.submit(|_| {});
    w.wait(365 * DAY.0);
    w.submit(|_| {});
    let figures = w.state.figures();
    assert_eq!(figures.all.minutes.len(), 1);
    assert_eq!(w.sums(DAY).created, 1);
    assert_eq!(figures.types["job"].ever.sums.created, 3);
    let (since, _) = figures.by_type(LifeTime(5), DAY);
    assert_eq!(since, LifeTime(0));
}
