//! Every short workload, the power cut at every call, and every disk that can leave.
//!
//! A state is checked by opening it, comparing what comes back with the book, going on, and
//! opening again; a share of the openings is itself cut short, up to three deep. The number of
//! states can be raised with `MIDWATCH_L1_STATES`.

use std::fmt;

use std::time::Duration;

use midwatch::journal::{Fsync, Options};
use midwatch::sim::{CrashStates, Point, SimDisk};

use crate::explore::{Expected, Explorer, Origin};
use crate::ledger::{self, Book, Mark, Step, open, options};

/// Crash states of one run, all tests of this file together.
const STATES: usize = 90_000;
/// Beyond this many states a point is sampled even when there is time.
const EXHAUSTIVE_MAX: usize = 4_096;

/// A run of steps and what its last step left to look at.
struct Case {
    steps: Vec<Step>,
    points: Vec<Point>,
    book: Book,
}

impl Case {
    /// Runs the steps, keeping only the points of the last one: the others belong to shorter runs.
    fn run(steps: &[Step], options: &Options) -> Self {
        let disk = SimDisk::new(1);
        if steps.is_empty() {
            disk.record_trail();
        }
        let mut ledger = open(&disk, options, Book::default()).unwrap().ledger;
        for (at, step) in steps.iter().enumerate() {
            if at + 1 == steps.len() {
                disk.record_trail();
            }
            ledger.step(*step).unwrap();
        }
        Self { steps: steps.to_vec(), points: disk.take_trail(), book: ledger.book }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:?}", self.steps)
    }
}

/// Every run of up to `steps_max` steps that begins with `first`; the empty one for `None`.
fn workloads(first: Option<Step>, steps_max: usize) -> Vec<Vec<Step>> {
    let Some(first) = first else { return vec![vec![]] };
    let mut all = vec![vec![first]];
    let mut longest = all.clone();
    for _ in 1..steps_max {
        longest = longest
            .iter()
            .flat_map(|steps| Step::ALL.map(|step| [steps.as_slice(), &[step]].concat()))
            .collect();
        all.extend(longest.iter().cloned());
    }
    all
}

/// The most states a point may have so that all points together have at most `budget`.
fn fair_limit(counts: &[usize], budget: usize) -> usize {
    let total = |limit: usize| counts.iter().map(|count| limit.min(*count)).sum::<usize>();
    (2..=EXHAUSTIVE_MAX).rev().find(|limit| total(*limit) <= budget).unwrap_or(2)
}

/// Every workload, with as many states of each point as the budget allows.
fn explore_all(explorer: &mut Explorer, workloads: &[Vec<Step>], budget: usize) {
    let cases: Vec<Case> =
        workloads.iter().map(|steps| Case::run(steps, &explorer.options)).collect();
    let counts = cases.iter().flat_map(|case| &case.points).map(|point| {
        let count = CrashStates::of(&point.disk, None).count();
        usize::try_from(count).unwrap_or(usize::MAX).min(EXHAUSTIVE_MAX)
    });
    let limit = fair_limit(&counts.collect::<Vec<_>>(), budget);
    for case in &cases {
        for point in &case.points {
            explore_point(explorer, case, point, limit);
        }
    }
}

fn explore_point(explorer: &mut Explorer, case: &Case, point: &Point, limit: usize) {
    let garbage = explorer.dice.one_in(4);
    let mut dice = explorer.dice.fork();
    let states = CrashStates::of(&point.disk, garbage.then_some(&mut dice));
    let expected = Expected { book: &case.book, mark: Mark::unpack(point.mark) };
    for choice in states.choices(limit, &mut dice) {
        let origin = Origin { of: case, point, how: format!("choice {choice} of sectors") };
        explorer.check(&states.disk(&choice), &expected, &origin);
    }
    let origin = Origin { of: case, point, how: "the process killed".to_owned() };
    explorer.check_killed(&point.disk.fork(), &expected, &origin);
}

fn explore(first: Option<Step>) {
    explore_with(options(), &workloads(first, 4), STATES / Step::ALL.len());
}

/// Explores with a budget that the environment can multiply.
fn explore_with(options: Options, workloads: &[Vec<Step>], budget: usize) {
    let wanted = std::env::var("MIDWATCH_L1_STATES").ok();
    let wanted = wanted.map_or(STATES, |states| states.parse().expect("a number of states"));
    let budget = (budget as u64 * wanted as u64).div_ceil(STATES as u64);
    let mut explorer = Explorer::new(options, 1);
    explore_all(&mut explorer, workloads, usize::try_from(budget).unwrap());
    println!("L1 {} runs: {}", workloads.len(), explorer.figures());
}

/// Every run of at most two steps, for what needs no more.
fn short_workloads() -> Vec<Vec<Step>> {
    Step::ALL.iter().flat_map(|first| workloads(Some(*first), 2)).collect()
}

// proof: F1, F2, F3, F4, F5, I2, I6
#[test]
fn no_crash_under_a_weak_policy_makes_a_hole_or_hands_a_number_out_again() {
    for fsync in [Fsync::Never, Fsync::Interval(Duration::from_secs(1))] {
        explore_with(Options { fsync, ..options() }, &short_workloads(), 10_000);
    }
}

#[test]
fn no_crash_takes_a_frame_aligned_to_pages_or_a_store_without_reserve() {
    let options = Options { alignment: 4096, reserve: 0, ..options() };
    explore_with(options, &short_workloads(), 10_000);
}

#[test]
fn a_power_cut_during_the_very_first_start_leaves_an_empty_journal() {
    explore(None);
}

// proof: F1, F2, F3, F4, F5, F17, I1, I2, I4, I10
#[test]
fn no_crash_loses_what_was_acknowledged_after_a_small_commit() {
    explore(Some(Step::Small));
}

#[test]
fn no_crash_loses_what_was_acknowledged_after_a_commit_of_several_sectors() {
    explore(Some(Step::Multi));
}

#[test]
fn no_crash_loses_what_was_acknowledged_after_a_commit_of_several_pages() {
    explore(Some(Step::Large));
}

// W47.
// proof: F17, I1, I2
#[test]
fn no_crash_loses_what_was_acknowledged_after_a_new_segment() {
    explore(Some(Step::Rotate));
}

// W24, W48, W49, W51.
// proof: F17, I1, I2, I5
#[test]
fn no_crash_loses_what_was_acknowledged_after_a_snapshot() {
    explore(Some(Step::Snapshot));
}

// W16.
#[test]
fn no_crash_loses_what_was_acknowledged_after_a_clean_end() {
    explore(Some(Step::Reopen));
}

#[test]
fn a_snapshot_and_the_records_after_it_equal_the_whole_history() {
    let mut ledger = ledger::fresh(1);
    for step in [Step::Large, Step::Rotate, Step::Snapshot, Step::Multi, Step::Small] {
        ledger.step(step).unwrap();
    }
    let opened = open(&ledger.disk.restarted(), &options(), Book::default()).unwrap();
    assert!(opened.history.snapshot.is_some(), "the snapshot was used");
    let all = ledger.book.acked;
    ledger.book.check(&opened.history, all, all).unwrap();
}
