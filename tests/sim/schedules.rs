//! Weeks of schedules under crashes, absences and clocks that jump: one seed, one week.
//!
//! `MIDWATCH_L8_WEEKS` asks for more weeks (ten years are 522), `MIDWATCH_L8_FIRST` for others. The
//! ledger knows the planned times from the calendar and follows the durable events; it shares
//! nothing with the decisions that it judges.

mod ledger;
mod life;
mod plans;

use crate::asked;
use life::{Deeds, Life};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Weeks in the plain test run.
const WEEKS: u64 = 12;

/// Weeks with which every deed must have been seen.
const WEEKS_FOR_ALL: u64 = 100;

// B46: after a change of the clock it span; B52: after a wake every missed minute ran at once; B54:
// clocks that start in 1970 and jump.
// spec: TIM-082 TIM-154 TIM-155 TIM-156 TIM-021 TIM-022 TIM-023
#[test]
fn b46_b52_b54_each_planned_time_is_decided_once_whatever_clocks_and_crashes_do() {
    let first = asked("MIDWATCH_L8_FIRST", 1);
    let weeks = asked("MIDWATCH_L8_WEEKS", WEEKS);
    let begun = Instant::now();
    let mut sum = Deeds::default();
    let mut failed = Vec::new();
    for week in first..first + weeks {
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let mut life = Life::new(week);
            life.week();
            life.calm_down();
            life.deeds()
        }));
        if let Ok(deeds) = lived {
            sum.add(deeds);
            continue;
        }
        println!(
            "L8: again: MIDWATCH_L8_FIRST={week} MIDWATCH_L8_WEEKS=1 cargo test --test sim schedules::"
        );
        failed.push(week);
    }
    println!(
        "L8: {weeks} weeks from {first} in {:.1} s: {:?}",
        begun.elapsed().as_secs_f64(),
        sum.figures()
    );
    assert!(failed.is_empty(), "weeks that failed: {failed:?}");
    if WEEKS_FOR_ALL <= weeks {
        // Weeks in which these never happen prove nothing.
        for (what, count) in sum.figures() {
            assert!(10 < count, "{what}: only {count}");
        }
    }
}
