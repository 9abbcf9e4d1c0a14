//! Damaged stores, repaired. The result verifies and is what the plan promised, by the cut a state
//! that once was; no byte of the old store is gone; twice is once, also when the power fails between.

use crate::bytes::Bytes;
use crate::store::{HOST, Written, harm, held, options, written};
use midwatch::engine::repair::{Diagnosis, Method, Plan, diagnose};
use midwatch::engine::{Engine, digest};
use midwatch::journal::JournalError;
use midwatch::journal::repair::{install, is_pending};
use midwatch::kernel::rules::Rules;
use midwatch::sim::SimDisk;
use std::collections::BTreeSet;

/// Harms done to one store.
const HARMS_MAX: usize = 6;

pub fn run(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let method = if bytes.bit() { Method::Salvage } else { Method::Cut };
    let cut_after = u64::from(bytes.byte());
    let Written { stores, held: once, .. } = written();
    let disk = stores[bytes.below(stores.len())].fork();
    for _ in 0..HARMS_MAX {
        if bytes.is_empty() {
            break;
        }
        harm(&disk, &mut bytes);
    }
    let before = disk.fork();
    let plan = match diagnose(&disk, method) {
        Ok(Diagnosis::Plan(plan)) => plan,
        Ok(Diagnosis::Healthy(_)) => {
            Engine::open(disk, options(), HOST, Rules::default()).expect("a healthy store opens");
            return;
        }
        Err(_) => return assert!(contents(&before) == contents(&disk), "a refusal changed it"),
    };
    assert!(contents(&before) == contents(&disk), "a plan changed it");
    if method == Method::Cut {
        assert!(once.contains(&held(&plan.outcome.state)), "such a state never was");
    }
    let whole = disk.fork();
    plan.carry_out(&whole, 1).expect("the disk is well");
    check(&before, &whole, &plan);
    // The power fails; then everything is done that was not done.
    disk.crash_at(disk.calls() + 1 + cut_after, cut_after.is_multiple_of(2));
    if plan.carry_out(&disk, 1).is_ok() {
        return;
    }
    let disk = disk.after_crash(cut_after, false);
    assert!(contents(&before).is_subset(&contents(&disk)), "bytes are gone in a power cut");
    again(&disk, method).expect("the next repair goes on");
    check(&before, &disk, &plan);
}

/// What the tool does.
fn again(disk: &SimDisk, method: Method) -> Result<(), JournalError> {
    if is_pending(disk)? {
        return install(disk).map(drop);
    }
    match diagnose(disk, method)? {
        Diagnosis::Plan(plan) => plan.carry_out(disk, 2).map(drop),
        Diagnosis::Healthy(_) => Ok(()),
    }
}

fn check(before: &SimDisk, disk: &SimDisk, plan: &Plan) {
    assert!(contents(before).is_subset(&contents(disk)), "bytes are gone");
    match diagnose(disk, plan.method) {
        Ok(Diagnosis::Healthy(report)) => assert_eq!(report.exit_code(), 0),
        other => panic!("it is not repaired: {other:?}"),
    }
    let opened = Engine::open(disk.fork(), options(), HOST, Rules::default());
    let (engine, _) = opened.expect("a repaired store opens");
    engine.state().check().unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(digest(&engine.state().image()), plan.digest, "not what was promised");
}

fn contents(disk: &SimDisk) -> BTreeSet<Vec<u8>> {
    disk.files().iter().filter_map(|path| disk.read_file(path)).collect()
}

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("bit", vec![0, 0, 2, 0, 5, 7, 1, 9]),
        ("header", vec![0, 20, 3, 1, 0, 0, 9, 4]),
        ("zeros", vec![1, 41, 1, 2, 2, 16, 0, 3]),
        ("gone", vec![0, 62, 2, 1, 5, 0, 0]),
        ("floor", vec![1, 7, 3, 0, 5, 0, 0, 3, 2, 18, 0]),
        ("swapped", vec![0, 33, 1, 2, 6, 0, 0, 3]),
        ("several", vec![1, 50, 3, 1, 5, 0, 0, 2, 2, 18, 0, 4, 4, 0, 17, 0, 3]),
    ]
}
