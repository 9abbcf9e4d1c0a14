//! Alerts on a disk that loses power: each is there with its reason, and told again only where
//! nobody knows that it was told.

use super::*;
use midwatch::kernel::AlertAct;
use midwatch::kernel::alerts::{Channel, Rule, Told, due};
use midwatch::sim::Dice;
use std::collections::BTreeSet;

fn tell(channel: &Channel, told: Vec<Told>) -> Command {
    Command::ActOnAlerts(AlertAct::Tell { channel: channel.name.clone(), told })
}

// spec: ALT-001, ALT-009
#[test]
fn b86_an_alert_and_that_it_was_told_are_there_whole_or_not_at_all_after_a_crash_at_any_call() {
    let mut bench = Bench::new(86);
    let worker = bench.register();
    let (channel, rules) = (Channel::new("ops"), Rules::default());
    bench.ask(tell(&channel, Vec::new())).unwrap();
    let mut spec = job();
    spec.max_retry = 0;
    let (kind, task) = (spec.kind.clone(), bench.submit(spec));
    let proof = bench.lease(worker, 1).unwrap();
    let Command::End { proof, report } = end(proof) else { unreachable!("an end") };
    let report = EndReport { outcome: Outcome::Retryable, exit_code: Some(75), ..report };
    bench.disk.record_trail();
    bench.ask(Command::End { proof, report }).unwrap();
    bench.wait(Millis::secs(10));
    let now = bench.now.life;
    let notice = due(bench.engine().state().alerts(), &rules, &channel, now).notice;
    bench.ask(tell(&channel, notice.unwrap().told(now))).unwrap();
    let later = now.after(Millis::secs(60));
    let mut found = BTreeSet::new();
    for point in bench.disk.take_trail() {
        let states = CrashStates::of(&point.disk, None);
        let choices = states.choices(64, &mut Dice::new(86)).into_iter();
        for disk in choices.map(|choice| states.disk(&choice)) {
            let mut after = Bench::on(disk);
            let is_dead = after.status(task) == Status::Dead;
            let state = after.engine().state();
            state.check().unwrap();
            let alerts = state.alerts();
            assert_eq!(alerts.get(Rule::TaskFailed, &kind).is_some(), is_dead, "{}", point.doing);
            let is_told = alerts.channel("ops").is_some_and(|known| !known.told.is_empty());
            let is_due = due(alerts, &rules, &channel, later).notice.is_some();
            assert_eq!(is_due, is_dead && !is_told, "before {}", point.doing);
            found.insert((is_dead, is_told));
        }
    }
    assert_eq!(found, BTreeSet::from([(false, false), (true, false), (true, true)]));
}
