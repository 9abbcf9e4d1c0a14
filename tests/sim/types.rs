//! Bounds and pauses of whole types: kept by journal and snapshot, and nobody polls for them.

use midwatch::engine::{Input, Ticket};
use midwatch::journal::Options;
use midwatch::kernel::ids::{LifeTime, Millis, WorkerId};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::task::TaskSpec;
use midwatch::kernel::task_type::{Bounds, Per, Rate};
use midwatch::kernel::{Answer, Change, Command, Rejection, TypeAct};

use crate::house::{House, SECRET, registered};

const ONE_A_MINUTE: Rate = Rate { count: 1, per: Per::Minute };

fn house(bounds: Bounds) -> (House, WorkerId) {
    let mut rules = Rules::default();
    rules.fallback.bounds = bounds;
    let mut house = House::with(rules, Options::default());
    for _ in 0..4 {
        house.submit(TaskSpec::new("job", "null"));
    }
    let worker = registered(&mut house, "job", 9);
    (house, worker)
}

/// Waits for one lease at most, as a worker does; how many it gets at once.
fn wait_for_work(house: &mut House, worker: WorkerId) -> Option<usize> {
    let (from, secrets, patience) = (Ticket(900), vec![SECRET], Millis::secs(3600));
    count(house.turn(vec![Input::AwaitLease { from, worker, secrets, patience }]))
}

fn count(answers: Vec<Result<Answer, Rejection>>) -> Option<usize> {
    match answers.into_iter().next()? {
        Ok(Answer::Leased(leases)) => Some(leases.len()),
        other => panic!("{other:?}"),
    }
}

fn order(house: &mut House, act: TypeAct) {
    let told = house.ask_one(Command::ActOnType { kind: "job".into(), act });
    assert_eq!(told, Ok(Answer::TypeActed { changed: true }));
}

fn wake(house: &House) -> Option<LifeTime> {
    house.engine().next_wake().life
}

#[test]
fn a_rate_wakes_the_engine_when_it_frees_also_after_a_restart_and_only_for_who_waits() {
    let (mut house, worker) = house(Bounds { max_running: None, rate: Some(ONE_A_MINUTE) });
    assert_eq!(wait_for_work(&mut house, worker), Some(1));
    assert_eq!(wake(&house), None, "nobody waits for work");
    // The first time the journal alone has it, the second time a snapshot.
    for (round, freed) in [60_000, 120_000].into_iter().map(LifeTime).enumerate() {
        if round == 1 {
            house.engine.as_mut().unwrap().set_snapshot_after(1);
            house.turn(Vec::new());
        }
        house.crash();
        assert_eq!(wait_for_work(&mut house, worker), None);
        assert_eq!(wake(&house), Some(freed));
        let ahead = freed.since(house.now.life);
        house.pass(Millis(ahead.0 - 1));
        assert_eq!(count(house.turn(Vec::new())), None, "a millisecond too early");
        house.pass(Millis(1));
        assert_eq!(count(house.turn(Vec::new())), Some(1));
    }
}

#[test]
fn a_rate_that_is_free_and_finds_no_taker_does_not_wake_the_engine_again_and_again() {
    let (mut house, worker) = house(Bounds { max_running: None, rate: Some(ONE_A_MINUTE) });
    assert_eq!(wait_for_work(&mut house, worker), Some(1));
    let other = registered(&mut house, "another", 9);
    assert_eq!(wait_for_work(&mut house, other), None);
    house.pass(Millis::secs(60));
    house.turn(Vec::new());
    let patience = LifeTime(3_600_000);
    assert_eq!(wake(&house), Some(patience), "only its patience is waited for");
}

#[test]
fn a_pause_and_a_bound_outlive_journal_and_snapshot_and_lift_at_once() {
    let (mut house, worker) = house(Bounds::default());
    order(&mut house, TypeAct::Limit { max_running: Change::AtMost(1), rate: Change::Keep });
    assert_eq!(wait_for_work(&mut house, worker), Some(1));
    house.crash();
    assert_eq!(wait_for_work(&mut house, worker), None);
    order(&mut house, TypeAct::Pause { reason: Some("rest".into()) });
    house.engine.as_mut().unwrap().set_snapshot_after(1);
    house.turn(Vec::new());
    house.crash();
    order(&mut house, TypeAct::Limit { max_running: Change::Unlimited, rate: Change::Keep });
    assert_eq!(wait_for_work(&mut house, worker), None, "it is still paused");
    let paused = house.state().task_type("job").unwrap().paused.clone();
    assert_eq!(paused.unwrap().reason.as_deref(), Some("rest"));
    // Who waits for work is served in the very turn that lifts the order.
    let resume = Command::ActOnType { kind: "job".into(), act: TypeAct::Resume };
    let answers = house.ask(vec![resume]);
    assert_eq!(answers[0], Ok(Answer::TypeActed { changed: true }));
    assert_eq!(count(answers[1..].to_vec()), Some(1));
}
