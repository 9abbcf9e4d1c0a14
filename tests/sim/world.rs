//! The whole engine in a simulated host: one seed, one life.

use midwatch::sim::{Deeds, Dice, Weather, World};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds in the plain test run; `MIDWATCH_L2_SEEDS` asks for more.
const SEEDS: u64 = 500;

/// Things that happen in one life before everything mends.
const STEPS: usize = 700;

fn live(seed: u64) -> Deeds {
    let weather = Weather::draw(&mut Dice::new(seed ^ 0x5EED));
    let mut world = World::new(seed, weather);
    for _ in 0..STEPS {
        world.step();
    }
    world.calm_down();
    world.deeds()
}

pub(crate) fn asked(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn whatever_happens_to_the_host_nothing_acknowledged_is_lost_or_doubled() {
    let first = asked("MIDWATCH_L2_FIRST", 1);
    let seeds = asked("MIDWATCH_L2_SEEDS", SEEDS);
    let mut sum = Deeds::default();
    let mut failed = Vec::new();
    for seed in first..first + seeds {
        match catch_unwind(AssertUnwindSafe(|| live(seed))) {
            Ok(deeds) => add(&mut sum, deeds),
            Err(_) => failed.push(seed),
        }
    }
    println!("L2: {seeds} seeds from {first}, {sum:?}");
    assert!(
        failed.is_empty(),
        "seeds that failed: {failed:?} (MIDWATCH_L2_FIRST=seed MIDWATCH_L2_SEEDS=1)"
    );
    if SEEDS <= seeds {
        // A world in which these never happen proves nothing.
        for (what, count) in [
            ("restarts", sum.restarts),
            ("power cuts", sum.power_cuts),
            ("disk failures", sum.disk_failures),
            ("workers killed", sum.workers_killed),
            ("stale calls", sum.stale),
            ("sweeps", sum.sweeps),
            ("snapshots", sum.snapshots),
            ("refusals for want of room", sum.no_space),
        ] {
            assert!(20 < count, "{what}: only {count}");
        }
    }
}

#[test]
fn a_seed_lived_twice_is_the_same_life() {
    assert_eq!(live(77), live(77));
}

fn add(sum: &mut Deeds, more: Deeds) {
    let Deeds {
        commands,
        restarts,
        power_cuts,
        disk_failures,
        workers_killed,
        stale,
        sweeps,
        snapshots,
        ended,
        no_space,
    } = more;
    sum.commands += commands;
    sum.restarts += restarts;
    sum.power_cuts += power_cuts;
    sum.disk_failures += disk_failures;
    sum.workers_killed += workers_killed;
    sum.stale += stale;
    sum.sweeps += sweeps;
    sum.snapshots += snapshots;
    sum.ended += ended;
    sum.no_space += no_space;
}
