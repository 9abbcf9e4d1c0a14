//! Schedules in the engine: what a turn decides, and what it does where there is no room.

use super::*;
use midwatch::kernel::ScheduleAct;
use midwatch::kernel::schedule::{Origin, Plan, ScheduleSpec};

const MINUTE: Millis = Millis::secs(60);

fn set(name: &str, payload: &str) -> Command {
    let spec = ScheduleSpec {
        payload: payload.into(),
        max_instances: 100,
        ..ScheduleSpec::new("job", Plan::Cron("* * * * *".into()))
    };
    let act = ScheduleAct::Set { spec: Box::new(spec), origin: Origin::Runtime, replace: false };
    Command::ActOnSchedule { name: name.into(), act }
}

fn fired(bench: &mut Bench, name: &str) -> u64 {
    bench.engine().state().schedule(name).unwrap().counts.fired
}

#[test]
fn a_schedule_whose_task_has_no_room_holds_no_other_up_and_wakes_nobody() {
    let mut bench = Bench::new(5);
    let large = format!("\"{}\"", "x".repeat(60_000));
    bench.try_ask(vec![set("large", &large), set("small", "1")]).unwrap();
    let rules = Rules { max_state: 20_000, ..Rules::default() };
    bench.engine().set_rules(rules.clone());
    for minutes in 1..=3 {
        bench.wait(MINUTE);
        bench.turn(Vec::new()).unwrap();
        assert_eq!((fired(&mut bench, "small"), fired(&mut bench, "large")), (minutes, 0));
        let now = bench.now;
        let wake = bench.engine().next_wake();
        assert!(!wake.now && wake.wall.is_none_or(|at| now.wall < at), "{wake:?}");
        assert!(wake.life.is_some_and(|at| now.life < at), "{wake:?}");
    }
    bench.engine().set_rules(Rules { max_state: 1 << 20, ..rules });
    bench.wait(Millis::secs(10));
    bench.turn(Vec::new()).unwrap();
    let large = bench.engine().state().schedule("large").unwrap().clone();
    assert_eq!((large.counts.fired, large.counts.coalesced), (1, 2), "nothing was lost meanwhile");
    bench.killed();
    assert_eq!(fired(&mut bench, "large"), 1);
}

#[test]
fn hundreds_of_schedules_without_room_are_tried_again_in_bounded_turns() {
    let mut bench = Bench::new(6);
    let large = format!("\"{}\"", "x".repeat(2_000));
    let acts = (0..300).map(|number| set(&format!("s{number}"), &large));
    bench.try_ask(acts.collect()).unwrap();
    bench.engine().set_rules(Rules { max_state: 1_000, ..Rules::default() });
    bench.wait(MINUTE);
    bench.turn(Vec::new()).unwrap();
    assert_eq!(bench.engine().state().task_count(), 0);
    let wake = bench.engine().next_wake();
    assert!(!wake.now && wake.wall.is_none(), "{wake:?}");
    bench.engine().set_rules(Rules::default());
    bench.wait(Millis::secs(10));
    while {
        bench.turn(Vec::new()).unwrap();
        bench.engine().next_wake().now
    } {}
    assert_eq!(bench.engine().state().task_count(), 300);
}
