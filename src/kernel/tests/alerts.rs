//! Alerts in virtual time: what is raised, and what exactly each channel is told, and when.

use super::World;
use crate::kernel::alerts::{Alert, Channel, Grade, Rule, due};
use crate::kernel::event::{Actor, Event, Stamp, Standing};
use crate::kernel::ids::{LifeTime, Millis, Timestamp, WorkerId};
use crate::kernel::rules::KindRules;
use crate::kernel::status::{Outcome, Reason};
use crate::kernel::text::Text;
use crate::kernel::{AlertAct, Command, State, apply};
use crate::limits::{ALERT_CHANNELS_MAX, ALERT_TEXT_BYTES_MAX, ALERTS_MAX};
use expect_test::{Expect, expect};
use std::fmt::Write;

/// A world with channels that always take what they are told, and a list of what that was.
struct Watch {
    w: World,
    worker: WorkerId,
    channels: Vec<Channel>,
    told: String,
}

impl Watch {
    fn new(channels: &[Channel]) -> Self {
        let mut w = World::new();
        let advice = KindRules {
            max_retry: 0,
            advice: Some("check the upstream API first".into()),
            contact: Some("ops".into()),
            ..KindRules::default()
        };
        w.rules.kinds.insert("job".into(), advice);
        let worker = w.join(1000);
        let mut watch = Self { w, worker, channels: channels.to_vec(), told: String::new() };
        for channel in channels {
            watch.tell(&channel.name, Vec::new());
        }
        watch
    }

    fn tell(&mut self, channel: &Text, told: Vec<crate::kernel::alerts::Told>) {
        let act = AlertAct::Tell { channel: channel.clone(), told };
        self.w.tell(&Command::ActOnAlerts(act));
    }

    /// Lets time pass second by second; whatever is due is told.
    fn wait(&mut self, span: Millis) {
        for _ in 0..span.0 / 1000 {
            self.w.wait(1000);
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        for channel in self.channels.clone() {
            let now = self.w.now.life;
            let found = due(self.w.state.alerts(), &self.w.rules, &channel, now);
            let Some(notice) = found.notice else {
                assert!(found.again.is_none_or(|again| now < again), "asked again for ever");
                continue;
            };
            let (minutes, seconds) = (now.0 / 60_000, now.0 / 1000 % 60);
            let headline = notice.headline();
            writeln!(
                self.told,
                "{minutes}:{seconds:02} {} {}: {headline}",
                channel.name, notice.grade
            )
            .unwrap();
            for item in notice.items.iter().take(notice.named).filter(|_| 1 < notice.items.len()) {
                let known = item.contact.iter().chain(&item.advice).map(|it| &**it);
                let known = known.collect::<Vec<_>>().join("; ");
                writeln!(self.told, "    {} {}  [{known}]", item.alert.grade, item.sentence())
                    .unwrap();
            }
            if notice.named < notice.items.len() {
                writeln!(self.told, "    and {} more", notice.items.len() - notice.named).unwrap();
            }
            self.tell(&channel.name, notice.told(now));
        }
    }

    /// A task of that type is run and ends so.
    fn run(&mut self, kind: &str, outcome: Outcome) {
        let id = self.w.state.next_task();
        self.w.submit(|spec| {
            spec.kind = kind.into();
            spec.max_retry = 0;
        });
        self.w.lease(self.worker, 1);
        let mut proof = self.w.proof(id.0);
        proof.worker = self.worker;
        self.w.end(proof, outcome);
    }

    fn act(&mut self, act: AlertAct) {
        self.w.tell(&Command::ActOnAlerts(act));
    }

    fn raise(&mut self, rule: Rule, subject: &str, grade: Grade) {
        let what = format!("{} of {subject}", rule.word()).into();
        self.act(AlertAct::Raise { rule, subject: subject.into(), grade, what });
    }

    fn clear(&mut self, rule: Rule, subject: &str) {
        self.act(AlertAct::Clear { rule, subject: subject.into() });
    }

    #[expect(clippy::needless_pass_by_value, reason = "an Expect is made where it is used")]
    fn expect(&mut self, expected: Expect) {
        expected.assert_eq(&std::mem::take(&mut self.told));
    }
}

const MINUTE: Millis = Millis(60_000);

fn ops() -> Channel {
    Channel::new("ops")
}

// spec: ALT-001
#[test]
fn one_failure_is_a_warning_three_in_a_row_are_critical_and_a_success_ends_it() {
    let mut watch = Watch::new(&[ops()]);
    watch.run("job", Outcome::Fatal);
    watch.wait(MINUTE);
    watch.run("job", Outcome::Fatal);
    watch.wait(MINUTE);
    watch.run("job", Outcome::Retryable);
    watch.wait(MINUTE.times(20));
    watch.run("job", Outcome::Success);
    watch.wait(MINUTE.times(10));
    watch.expect(expect![[r#"
        0:10 ops warning: task 1 job is FAILED after 1 attempt (fatal_error)
        2:10 ops critical: 3 tasks of type job failed one after the other; task 3 job is DEAD after 1 attempt (retries_exhausted)
        22:10 ops info: over: 3 tasks of type job failed one after the other; task 3 job is DEAD after 1 attempt (retries_exhausted)
    "#]]);
}

#[test]
fn a_success_after_a_retry_is_no_alert() {
    let mut watch = Watch::new(&[Channel { min_grade: Grade::Info, ..ops() }]);
    watch.w.submit(|spec| spec.max_retry = 3);
    for outcome in [Outcome::Retryable, Outcome::TimedOut, Outcome::Success] {
        watch.w.lease(watch.worker, 1);
        let proof = watch.w.proof(1);
        watch.w.end(proof, outcome);
        watch.wait(MINUTE.times(10));
    }
    assert!(watch.w.state.alerts().iter().next().is_none());
    watch.expect(expect![[r#""#]]);
}

// spec: ALT-003
#[test]
fn b86_five_hundred_failures_at_once_of_one_type_are_one_alert_with_a_count() {
    let mut watch =
        Watch::new(&[ops(), Channel { min_grade: Grade::Critical, ..Channel::new("pager") }]);
    for _ in 0..500 {
        watch.run("job", Outcome::Fatal);
    }
    watch.wait(MINUTE.times(30));
    watch.expect(expect![[r#"
        0:10 ops critical: 500 tasks of type job failed one after the other; task 500 job is FAILED after 1 attempt (fatal_error)
        0:10 pager critical: 500 tasks of type job failed one after the other; task 500 job is FAILED after 1 attempt (fatal_error)
    "#]]);
    // The same once more is what is known already.
    for _ in 0..500 {
        watch.run("job", Outcome::Fatal);
    }
    watch.wait(MINUTE.times(30));
    watch.expect(expect![[r#""#]]);
}

// spec: ALT-004
#[test]
fn failures_of_many_types_are_one_message_that_names_some_and_counts_the_rest() {
    let mut watch = Watch::new(&[ops()]);
    for place in 0..500 {
        let subject = format!("part {:02}", place % 50);
        watch.raise(Rule::WorkerLost, &subject, Grade::Warning);
        watch.w.wait(1);
    }
    watch.wait(MINUTE.times(30));
    watch.expect(expect![[r#"
        0:10 ops warning: 50 alerts: 50 stand
            warning worker_lost of part 00  []
            warning worker_lost of part 01  []
            warning worker_lost of part 02  []
            warning worker_lost of part 03  []
            warning worker_lost of part 04  []
            warning worker_lost of part 05  []
            warning worker_lost of part 06  []
            warning worker_lost of part 07  []
            warning worker_lost of part 08  []
            warning worker_lost of part 09  []
            and 40 more
    "#]]);
}

// spec: ALT-007
#[test]
fn b86_a_task_that_fails_and_succeeds_by_turns_for_two_hours_is_told_three_times() {
    let mut watch = Watch::new(&[ops()]);
    for turn in 0..120 {
        let outcome = if turn % 2 == 0 { Outcome::Fatal } else { Outcome::Success };
        watch.run("job", outcome);
        watch.wait(MINUTE);
    }
    watch.wait(MINUTE.times(60));
    watch.expect(expect![[r#"
        0:10 ops warning: task 1 job is FAILED after 1 attempt (fatal_error)
        5:10 ops warning: it comes and goes, and is told again once it has settled: task 5 job is FAILED after 1 attempt (fatal_error)
        134:10 ops info: over: task 119 job is FAILED after 1 attempt (fatal_error)
    "#]]);
}

#[test]
fn what_flaps_and_then_stays_wrong_is_told_to_be_so_still() {
    let mut watch = Watch::new(&[ops()]);
    for _ in 0..10 {
        watch.raise(Rule::DiskLow, "disk", Grade::Warning);
        watch.wait(MINUTE);
        watch.clear(Rule::DiskLow, "disk");
        watch.wait(MINUTE);
    }
    watch.raise(Rule::DiskLow, "disk", Grade::Warning);
    watch.wait(MINUTE.times(60));
    watch.clear(Rule::DiskLow, "disk");
    watch.wait(MINUTE.times(60));
    watch.expect(expect![[r#"
        0:10 ops warning: disk_low of disk
        5:10 ops warning: it comes and goes, and is told again once it has settled: disk_low of disk
        35:10 ops warning: disk_low of disk
        80:10 ops info: over: disk_low of disk
    "#]]);
}

// spec: ALT-005
#[test]
fn what_stands_is_repeated_until_somebody_acknowledges_it_and_anew_when_it_comes_back() {
    let mut watch = Watch::new(&[ops()]);
    watch.raise(Rule::ConfigRefused, "config", Grade::Warning);
    watch.wait(MINUTE.times(9 * 60));
    watch.act(AlertAct::Ack(1));
    watch.wait(MINUTE.times(9 * 60));
    watch.act(AlertAct::Ack(1));
    watch.clear(Rule::ConfigRefused, "config");
    watch.wait(MINUTE.times(60));
    watch.raise(Rule::ConfigRefused, "config", Grade::Warning);
    watch.wait(MINUTE.times(60));
    watch.expect(expect![[r#"
        0:10 ops warning: config_refused of config
        240:10 ops warning: still: config_refused of config
        480:10 ops warning: still: config_refused of config
        1080:10 ops info: over: config_refused of config
        1140:10 ops warning: config_refused of config
    "#]]);
    watch.w.said.clear();
    watch.act(AlertAct::Ack(99));
    watch.w.expect(expect![[r#"
        refused: there is no alert 99
    "#]]);
}

#[test]
fn repeats_and_recoveries_can_be_turned_off() {
    let quiet = Channel { repeat: Millis(0), send_resolved: false, ..ops() };
    let mut watch = Watch::new(&[quiet]);
    watch.raise(Rule::DiskLow, "disk", Grade::Critical);
    watch.wait(MINUTE.times(24 * 60));
    watch.clear(Rule::DiskLow, "disk");
    watch.wait(MINUTE.times(60));
    watch.expect(expect![[r#"
        0:10 ops critical: disk_low of disk
    "#]]);
}

// spec: ALT-006
#[test]
fn what_came_and_went_before_it_could_be_told_is_told_but_not_to_a_channel_that_is_newer() {
    let mut watch = Watch::new(&[ops()]);
    watch.run("job", Outcome::Fatal);
    watch.run("job", Outcome::Success);
    watch.channels.push(Channel::new("new"));
    watch.wait(MINUTE);
    watch.tell(&"new".into(), Vec::new());
    watch.wait(MINUTE.times(60));
    watch.expect(expect![[r#"
        0:10 ops info: over: task 1 job is FAILED after 1 attempt (fatal_error)
    "#]]);
}

// spec: ALT-008
#[test]
fn no_channel_is_sent_more_messages_in_an_hour_than_it_wants_and_nothing_is_lost() {
    let mut watch = Watch::new(&[Channel { max_per_hour: 4, ..ops() }]);
    for place in 0..90 {
        watch.raise(Rule::WorkerLost, &format!("w{place:02}"), Grade::Critical);
        watch.wait(MINUTE);
    }
    watch.wait(MINUTE.times(60));
    let lines = watch.told.lines().filter(|line| line.contains("ops")).map(str::to_owned);
    expect![[r#"
        0:10 ops critical: worker_lost of w00
        1:10 ops critical: worker_lost of w01
        2:10 ops critical: worker_lost of w02
        3:10 ops critical: worker_lost of w03
        60:10 ops critical: 57 alerts: 57 stand, 57 of these are critical
        61:10 ops critical: worker_lost of w61
        62:10 ops critical: worker_lost of w62
        63:10 ops critical: worker_lost of w63
        120:10 ops critical: 26 alerts: 26 stand, 26 of these are critical"#]]
    .assert_eq(&lines.collect::<Vec<_>>().join("\n"));
    let known = watch.w.state.alerts().channel("ops").unwrap();
    assert_eq!(known.told.len(), 90);
}

#[test]
fn a_worker_that_dies_is_told_and_one_that_comes_back_ends_it() {
    let mut watch = Watch::new(&[ops()]);
    let died = |worker| Command::Died { worker, reason: Reason::WorkerCrash };
    watch.w.tell(&died(watch.worker));
    watch.wait(MINUTE);
    watch.worker = watch.w.join(2);
    watch.wait(MINUTE.times(10));
    for standing in [Standing::Suspect, Standing::Offline] {
        watch.w.tell(&Command::Silent { worker: watch.worker, standing });
    }
    watch.wait(MINUTE.times(30));
    // With its host it goes without a word.
    let rebooted = Command::Died { worker: watch.worker, reason: Reason::HostRebooted };
    watch.w.tell(&rebooted);
    watch.wait(MINUTE.times(30));
    watch.expect(expect![[r#"
        0:10 ops warning: worker w died
        5:10 ops info: over: worker w died
        11:10 ops warning: worker w was silent for too long
        41:10 ops info: over: worker w was silent for too long
    "#]]);
}

#[test]
fn a_step_of_the_clock_is_told_and_a_small_one_is_not() {
    let mut watch = Watch::new(&[ops()]);
    let from = watch.w.now.wall;
    for (from, to) in [(from, from.after(Millis(59_000))), (from.after(MINUTE.times(60)), from)] {
        watch.w.tell(&Command::StepClock { from, to });
        watch.wait(MINUTE.times(10));
    }
    watch.expect(expect![[r#"
        10:10 ops warning: the wall clock was put back by 3600 s
    "#]]);
}

#[test]
fn a_channel_for_what_is_critical_hears_that_it_is_over_also_when_it_became_a_warning_first() {
    let pager = Channel { min_grade: Grade::Critical, ..Channel::new("pager") };
    let mut watch = Watch::new(&[pager]);
    watch.raise(Rule::DiskLow, "data", Grade::Critical);
    watch.wait(MINUTE);
    watch.raise(Rule::DiskLow, "data", Grade::Warning);
    watch.wait(MINUTE.times(10));
    watch.clear(Rule::DiskLow, "data");
    watch.wait(MINUTE.times(10));
    watch.raise(Rule::DiskLow, "data", Grade::Critical);
    watch.wait(MINUTE);
    watch.expect(expect![[r#"
        0:10 pager critical: disk_low of data
        5:10 pager info: over: disk_low of data
        21:10 pager critical: disk_low of data
    "#]]);
}

#[test]
fn something_critical_for_which_there_is_no_room_makes_what_stands_for_the_rest_critical() {
    let pager = Channel { min_grade: Grade::Critical, ..Channel::new("pager") };
    let mut watch = Watch::new(&[pager]);
    for number in 0..ALERTS_MAX + 20 {
        watch.raise(Rule::ScheduleSilent, &format!("s{number}"), Grade::Warning);
    }
    watch.raise(Rule::JournalDamaged, "journal", Grade::Critical);
    watch.wait(MINUTE);
    watch.expect(expect![[r#"
        0:10 pager critical: 22 more alerts were raised than are kept
    "#]]);
}

#[test]
fn there_are_never_more_alerts_than_are_kept_and_one_stands_for_the_rest() {
    let mut watch = Watch::new(&[]);
    let long = "é".repeat(600);
    for place in 0..400 {
        let (rule, subject) = (Rule::TaskStalled, format!("{place:03}").into());
        let (grade, what) = (Grade::Warning, long.as_str().into());
        watch.act(AlertAct::Raise { rule, subject, grade, what });
    }
    let alerts = watch.w.state.alerts();
    assert_eq!(alerts.iter().count(), ALERTS_MAX);
    let overflow = alerts.get(Rule::Overflow, "alerts").unwrap();
    assert_eq!((overflow.stands(), overflow.count), (true, 145));
    let kept = alerts.get(Rule::TaskStalled, "000").unwrap().what.as_ref().unwrap();
    assert!(kept.len() <= ALERT_TEXT_BYTES_MAX);
    // Once many are over, none are missing any more, and new ones take the places of these.
    for place in 0..100 {
        watch.clear(Rule::TaskStalled, &format!("{place:03}"));
    }
    assert!(!watch.w.state.alerts().get(Rule::Overflow, "alerts").unwrap().stands());
    watch.raise(Rule::TaskStalled, "new", Grade::Warning);
    let alerts = watch.w.state.alerts();
    assert!(alerts.get(Rule::TaskStalled, "new").is_some_and(Alert::stands));
    assert!(alerts.get(Rule::TaskStalled, "000").is_none(), "what was over first goes first");
    // What was over long ago goes with the next new one.
    watch.w.wait(8 * 24 * 3_600_000);
    watch.raise(Rule::TaskStalled, "newer", Grade::Warning);
    assert!(watch.w.state.alerts().iter().all(Alert::stands));
    for place in 0..100 {
        watch.tell(&format!("channel {place}").into(), Vec::new());
    }
    assert_eq!(watch.w.state.alerts().channels.len(), ALERT_CHANNELS_MAX);
    assert!(watch.w.state.alerts().channel("channel 99").is_some());
}

// spec: ALT-002
#[test]
fn what_is_so_still_is_no_record_and_other_words_are_only_where_they_matter() {
    let mut watch = Watch::new(&[]);
    watch.w.said.clear();
    for what in ["no space", "less space"] {
        for rule in [Rule::DiskLow, Rule::ConfigRefused] {
            let (subject, grade, what) = ("x".into(), Grade::Warning, what.into());
            watch.act(AlertAct::Raise { rule, subject, grade, what });
        }
    }
    watch.raise(Rule::DiskLow, "x", Grade::Critical);
    watch.clear(Rule::DiskLow, "x");
    watch.clear(Rule::DiskLow, "x");
    watch.clear(Rule::DiskLow, "y");
    watch.w.expect(expect![[r#"
        alert_raised
        = AlertActed { changed: true }
        alert_raised
        = AlertActed { changed: true }
        = AlertActed { changed: false }
        alert_raised
        = AlertActed { changed: true }
        alert_raised
        = AlertActed { changed: true }
        alert_cleared
        = AlertActed { changed: true }
        = AlertActed { changed: false }
        = AlertActed { changed: false }
    "#]]);
}

// spec: ALT-009
/// Whoever replays the records has the same alerts, and so tells nothing twice.
#[test]
fn a_replay_gives_the_same_alerts_and_the_same_notices() {
    let (mut live, mut replayed) = (State::default(), State::default());
    let mut seq = 0;
    let mut say = |event: Event, at: u64| {
        seq += 1;
        let stamp = Stamp {
            seq: crate::kernel::ids::Seq(seq),
            wall: Timestamp(at),
            life: LifeTime(at),
            service: crate::kernel::ids::ServiceTime(at),
            by: Actor::Daemon,
        };
        apply(&mut live, &stamp, &event).unwrap();
        apply(&mut replayed, &stamp, &event).unwrap();
        let image = replayed.image();
        replayed = State::restore(image);
        assert_eq!(live.alerts(), replayed.alerts());
        live.check().unwrap();
        let found =
            due(live.alerts(), &crate::kernel::rules::Rules::default(), &ops(), LifeTime(at));
        found.notice.map(|notice| {
            Event::AlertsTold(crate::kernel::event::AlertsTold {
                channel: "ops".into(),
                told: notice.told(LifeTime(at)),
            })
        })
    };
    let raised = |subject: &str| {
        Event::AlertRaised(crate::kernel::event::AlertRaised {
            rule: Rule::DiskLow,
            subject: subject.into(),
            grade: Grade::Warning,
            what: "x".into(),
        })
    };
    let mut messages = 0;
    for step in 0..400_u64 {
        let event = match step % 3 {
            0 => raised(&format!("{}", step % 7)),
            1 => Event::AlertAcked(crate::kernel::event::AlertAcked { alert: step % 5 }),
            _ => Event::AlertCleared(crate::kernel::event::AlertCleared {
                rule: Rule::DiskLow,
                subject: format!("{}", step % 7).into(),
            }),
        };
        if let Some(told) = say(event, step * 61_000) {
            messages += 1;
            assert!(say(told, step * 61_000).is_none(), "told twice");
        }
    }
    assert!(0 < messages);
}
