//! What is looked at besides what the kernel sees, in virtual time.

use super::runs::Runs;
use super::watch::{Wanted, is_moot, take_points};
use crate::api::Attention;
use crate::kernel::alerts::{Alert, Grade, Rule};
use crate::kernel::event::{Actor, Registration, Stamp};
use crate::kernel::ids::{Millis, Moment, ProcessId, Seq, TaskId, Timestamp, WorkerId};
use crate::kernel::rules::{KindRules, Rules};
use crate::kernel::schedule::{From, Origin, Plan, ScheduleSpec};
use crate::kernel::status::Outcome;
use crate::kernel::task::{Progress, SecretHash, TaskSpec};
use crate::kernel::{
    AlertAct, Answer, Command, EndReport, HoldReport, Proof, ScheduleAct, State, apply, decide,
};

/// A state, the rules for it, and one worker.
struct World {
    state: State,
    rules: Rules,
    now: Moment,
    worker: WorkerId,
}

const SECRET: SecretHash = SecretHash([7; 16]);

impl World {
    fn new() -> Self {
        let mut rules = Rules::default();
        rules.kinds.insert("job".into(), KindRules { max_retry: 0, ..KindRules::default() });
        let mut state = State::default();
        state.skip_ahead(Seq(1), TaskId(1));
        let now = Moment { wall: Timestamp(1_773_454_200_000), ..Moment::default() };
        let mut world = Self { state, rules, now, worker: WorkerId(0) };
        let registration = Registration {
            name: "w".into(),
            process: ProcessId::default(),
            host: "h".into(),
            version: "1".into(),
            lock: "l".into(),
            kinds: vec!["job".into()],
            slots: 99,
        };
        if let Answer::Registered(worker) = world.tell(&Command::Register(registration)) {
            world.worker = worker;
        }
        world
    }

    fn tell(&mut self, command: &Command) -> Answer {
        let decision = decide(&self.state, &self.rules, command, self.now).unwrap();
        for event in &decision.events {
            let Moment { wall, life, service, .. } = self.now;
            let stamp =
                Stamp { seq: self.state.next_seq(), wall, life, service, by: Actor::Daemon };
            apply(&mut self.state, &stamp, event).unwrap();
        }
        self.state.check().unwrap();
        decision.answer
    }

    fn wait(&mut self, span: Millis) {
        self.now.wall = self.now.wall.after(span);
        self.now.life = self.now.life.after(span);
        while self.state.ripen(self.now, 100) {}
    }

    /// A task that runs from now on.
    fn begin(&mut self) -> Proof {
        self.tell(&Command::Submit(TaskSpec { max_retry: 0, ..TaskSpec::new("job", "null") }));
        self.lease()
    }

    fn lease(&mut self) -> Proof {
        let (worker, secrets) = (self.worker, vec![SECRET]);
        self.tell(&Command::Lease { worker, secrets });
        let task = self.state.held(worker).last().unwrap();
        let fence = task.lease().unwrap().fence;
        Proof { worker, task: task.id, fence, secret: SECRET }
    }

    fn progress(&mut self, proof: Proof, done: u64) {
        let progress = Some(Progress { done, ..Progress::default() });
        let holds = vec![HoldReport { proof, process: None, progress }];
        self.tell(&Command::Heartbeat { worker: proof.worker, holds });
    }

    fn end(&mut self, proof: Proof, outcome: Outcome, ran: Millis) {
        let report = EndReport {
            outcome,
            started: true,
            exit_code: None,
            signal: None,
            result: None,
            error: None,
            usage: None,
            ran: Some(ran),
            input: None,
        };
        self.tell(&Command::End { proof, report });
    }

    /// So many runs that took so long, one after the other.
    fn run(&mut self, number: u64, took: Millis) {
        for _ in 0..number {
            let proof = self.begin();
            self.wait(took);
            self.end(proof, Outcome::Success, took);
        }
    }

    /// What is called stalled, and is an alert from now on; what no longer is, is none.
    fn look(&mut self, runs: &mut Runs) -> Vec<String> {
        let found = runs.stalled(&self.state, &self.rules, self.now);
        let rule = Rule::TaskStalled;
        let standing: Vec<_> = self.state.alerts().standing().cloned().collect();
        for alert in standing.iter().filter(|alert| alert.rule == rule) {
            if !found.iter().any(|(subject, _)| *subject == alert.subject) {
                let subject = alert.subject.clone();
                self.tell(&Command::ActOnAlerts(AlertAct::Clear { rule, subject }));
            }
        }
        for (subject, what) in found.clone() {
            let grade = Grade::Warning;
            self.tell(&Command::ActOnAlerts(AlertAct::Raise { rule, subject, grade, what }));
        }
        found.into_iter().map(|(_, what)| what.to_string()).collect()
    }

    fn alert(&self, rule: Rule, subject: &str) -> Alert {
        self.state.alerts().get(rule, subject).unwrap().clone()
    }

    fn is_moot(&self, alert: &Alert) -> bool {
        is_moot(alert, &self.state, &self.rules)
    }
}

const MINUTE: Millis = Millis::secs(60);

#[test]
fn an_attempt_that_runs_three_times_as_long_as_others_is_stalled_until_it_ends() {
    let (mut w, mut runs) = (World::new(), Runs::default());
    w.run(20, MINUTE.times(4));
    let proof = w.begin();
    // `stall_after` has passed; three times what others take has not.
    w.wait(MINUTE.times(11));
    assert!(w.look(&mut runs).is_empty());
    w.wait(MINUTE.times(3));
    let what = "task 21 job runs for 14 min and tells of no progress: 95 of 100 of its type take \
                3 min 58 s at most";
    assert_eq!(w.look(&mut runs), [what]);
    // The wall clock is put forward: nothing has run for longer for that.
    let other = w.begin();
    assert_eq!(w.look(&mut runs).len(), 1);
    w.now.wall = w.now.wall.after(MINUTE.times(600));
    assert_eq!(w.look(&mut runs).len(), 1);
    w.end(other, Outcome::Success, MINUTE);
    // Now others take as long: that does not make this one well.
    for _ in 0..40 {
        let proof = w.begin();
        w.end(proof, Outcome::Success, MINUTE.times(60));
    }
    assert_eq!(w.look(&mut runs).len(), 1);
    w.end(proof, Outcome::Success, MINUTE);
    assert!(w.look(&mut runs).is_empty());
    assert!(!w.alert(Rule::TaskStalled, "21").stands());
}

#[test]
fn what_few_have_run_or_is_quick_or_never_stalls_runs_for_as_long_as_it_likes() {
    let (mut w, mut runs) = (World::new(), Runs::default());
    w.run(19, MINUTE);
    let proof = w.begin();
    w.wait(MINUTE.times(60 * 24 * 3));
    assert!(w.look(&mut runs).is_empty(), "19 runs say nothing");
    w.end(proof, Outcome::Success, MINUTE);
    let proof = w.begin();
    w.wait(MINUTE.times(9));
    assert!(w.look(&mut runs).is_empty(), "less than `stall_after`");
    w.wait(MINUTE.times(60 * 24 * 3));
    assert_eq!(w.look(&mut runs).len(), 1, "all runs count where those of a day are few");
    let never = KindRules { stall_after: Millis(0), ..KindRules::default() };
    w.rules.kinds.insert("job".into(), never);
    assert!(w.look(&mut runs).is_empty(), "it is turned off");
    w.end(proof, Outcome::Success, MINUTE);
}

#[test]
fn progress_is_told_anew_or_the_attempt_is_stalled_also_after_a_restart() {
    let (mut w, mut runs) = (World::new(), Runs::default());
    w.run(20, Millis::secs(1));
    let proof = w.begin();
    w.progress(proof, 3);
    w.wait(MINUTE.times(9));
    assert!(w.look(&mut runs).is_empty());
    w.wait(MINUTE.times(10));
    assert_eq!(w.look(&mut runs), ["task 21 job makes no progress for 10 min, at 3"]);
    // A start knows nothing, and what stood does.
    runs = Runs::default();
    w.wait(MINUTE);
    assert_eq!(w.look(&mut runs), ["task 21 job makes no progress for 11 min, at 3"]);
    w.progress(proof, 4);
    assert!(w.look(&mut runs).is_empty());
    w.wait(MINUTE.times(10));
    assert_eq!(w.look(&mut runs).len(), 1);
}

#[test]
fn no_more_than_twenty_attempts_are_called_stalled_one_by_one() {
    let (mut w, mut runs) = (World::new(), Runs::default());
    for _ in 0..25 {
        let proof = w.begin();
        w.progress(proof, 1);
    }
    assert!(w.look(&mut runs).is_empty());
    w.wait(MINUTE.times(10));
    assert_eq!(w.look(&mut runs).len(), 20);
}

#[test]
fn failures_of_a_type_that_is_gone_are_over_once_nothing_of_it_lives() {
    let mut w = World::new();
    let proof = w.begin();
    w.end(proof, Outcome::Fatal, MINUTE);
    let proof = w.begin();
    let alert = w.alert(Rule::TaskFailed, "job");
    assert!(alert.stands() && !w.is_moot(&alert));
    let known = std::mem::take(&mut w.rules.kinds);
    assert!(!w.is_moot(&alert), "one of it runs");
    w.end(proof, Outcome::Fatal, MINUTE);
    assert!(w.is_moot(&alert));
    w.rules.kinds = known;
    assert!(!w.is_moot(&alert), "it is back");
}

#[test]
fn failures_of_a_schedule_without_a_type_or_without_itself_are_over_once_nothing_of_it_lives() {
    let mut w = World::new();
    let schedule = |act| Command::ActOnSchedule { name: "nightly".into(), act };
    let spec = Box::new(ScheduleSpec::new("job", Plan::Every(MINUTE.times(60), From::Start)));
    let origin = Origin::Runtime;
    w.tell(&schedule(ScheduleAct::Set { spec, origin, replace: false }));
    let trigger = schedule(ScheduleAct::Trigger { by: Actor::Daemon });
    w.tell(&trigger);
    let proof = w.lease();
    w.end(proof, Outcome::Fatal, MINUTE);
    let alert = w.alert(Rule::ScheduleFailed, "nightly");
    assert!(alert.stands() && !w.is_moot(&alert));
    let known = std::mem::take(&mut w.rules.kinds);
    assert!(w.is_moot(&alert));
    w.rules.kinds = known;
    // Removed while a task of it runs, which fails: no other can follow.
    w.tell(&trigger);
    let proof = w.lease();
    w.tell(&schedule(ScheduleAct::Remove { origin }));
    assert!(!w.alert(Rule::ScheduleFailed, "nightly").stands());
    w.end(proof, Outcome::Fatal, MINUTE);
    let alert = w.alert(Rule::ScheduleFailed, "nightly");
    assert!(alert.stands() && w.is_moot(&alert));
}

#[test]
fn points_are_alerts_by_their_key_but_for_those_that_the_kernel_raises() {
    let point = |critical, alert: &str| Attention {
        critical,
        what: "so it is".to_owned(),
        commands: Vec::new(),
        alert: Some(alert.to_owned()),
    };
    let mut wanted = Wanted::new();
    let points = [
        point(false, "memory_growing worker w1"),
        point(true, "disk_low disk"),
        point(false, "worker_lost w1"),
        point(false, "of_a_later_version x"),
    ];
    take_points(&mut wanted, &points);
    let found: Vec<_> = wanted.into_iter().map(|(key, (grade, _))| (key, grade)).collect();
    assert_eq!(
        found,
        [
            ((Rule::DiskLow, "disk".into()), Grade::Critical),
            ((Rule::MemoryGrowing, "worker w1".into()), Grade::Warning),
        ]
    );
}
