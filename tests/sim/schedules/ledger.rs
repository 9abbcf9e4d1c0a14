//! What became of each planned time, from the durable events alone.
//!
//! For a schedule of the calendar the ledger asks the calendar which planned time is next, and
//! demands that it is the one that the next record decides: so each is decided, in order, once.

use midwatch::kernel::State;
use midwatch::kernel::calendar::Calendar;
use midwatch::kernel::event::{ClockStepped, Event, Fired, ScheduleSet, Stamp};
use midwatch::kernel::ids::{Seq, TaskId, Timestamp};
use midwatch::kernel::schedule::{From, Overlap, Passed, Passing, Plan, ScheduleSpec};
use midwatch::limits::FIRES_QUEUED_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// When a schedule fires, as the ledger sees it.
enum Times {
    Calendar(Box<Calendar>),
    Once(u64),
    /// By elapsed time: the planned time that is expected.
    Elapsed(Option<u64>),
}

struct Line {
    spec: ScheduleSpec,
    times: Times,
    /// Nothing up to here is open.
    mark: u64,
    /// When its times began to count.
    since: u64,
    /// Planned times after the mark that must not be decided again: they have a run.
    closed: BTreeSet<u64>,
    /// Planned times that wait in the queue; of an interval one may be there twice, for the clock
    /// was put back.
    queued: Vec<u64>,
    /// Runs that a person asked for and that wait there too.
    asked_for: usize,
    paused: bool,
    last: Option<Passing>,
}

/// What happened to planned times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) planned: u64,
    pub(super) fired: u64,
    pub(super) coalesced: u64,
    pub(super) skipped: u64,
    pub(super) missed: u64,
    pub(super) queued: u64,
    pub(super) replaced: u64,
    pub(super) reopened: u64,
}

#[derive(Default)]
pub(super) struct Ledger {
    lines: BTreeMap<String, Line>,
    tasks: BTreeMap<TaskId, String>,
    /// Runs of each name, over its removals too.
    runs: BTreeMap<String, BTreeSet<u64>>,
    pub(super) seen: Seq,
    pub(super) sums: Sums,
    boot: String,
    /// The schedule that skipped what was due; the record that follows must say why.
    given_up: Option<String>,
}

impl Line {
    fn new(set: &ScheduleSet, wall: Timestamp) -> Self {
        let spec = &set.spec;
        let times = match &spec.plan {
            Plan::Cron(cron) => Times::Calendar(Box::new(
                Calendar::parse(cron, &spec.zone, spec.gap, spec.fold).expect("it was taken"),
            )),
            Plan::Once(at) => Times::Once(at.0),
            Plan::Every(span, _) => Times::Elapsed(Some(wall.0 + span.0)),
            Plan::Boot => Times::Elapsed(None),
        };
        Self {
            spec: spec.clone(),
            times,
            mark: wall.0,
            since: wall.0,
            closed: BTreeSet::new(),
            queued: Vec::new(),
            asked_for: 0,
            paused: false,
            last: None,
        }
    }

    /// The first planned time that is open.
    fn open(&self) -> Option<u64> {
        let mut at = self.mark;
        loop {
            at = match &self.times {
                Times::Calendar(calendar) => calendar.next(Timestamp(at))?.0,
                Times::Once(once) => Some(*once).filter(|once| at < *once)?,
                Times::Elapsed(next) => return *next,
            };
            if !self.closed.contains(&at) {
                return Some(at);
            }
        }
    }

    /// Takes the planned times that a record decides: they must be those that are open, in order.
    fn take(&mut self, name: &str, passed: &Passed) {
        for nth in 0..passed.count {
            let open = self.open();
            let at = open.unwrap_or_else(|| panic!("{name}: nothing was open for {passed:?}"));
            if nth == 0 {
                assert_eq!(at, passed.first.0, "{name}: another one was open before {passed:?}");
            }
            if nth + 1 == passed.count {
                assert_eq!(at, passed.last.0, "{name}: others are open within {passed:?}");
            }
            self.mark = at;
            if let Times::Elapsed(next) = &mut self.times {
                *next = match self.spec.plan {
                    Plan::Every(span, From::Start) => Some(at + span.0),
                    _ => None,
                };
            }
        }
    }
}

/// What a record tells of some planned times.
struct Told<'a> {
    name: &'a str,
    /// The wall clock when it was decided.
    wall: u64,
    /// The planned time of the task that was made, and whether a person asked for it.
    run: Option<(u64, bool)>,
    passed: &'a Passed,
}

impl Line {
    /// Holds what a record tells against what may become of planned times.
    fn decide(&mut self, told: &Told<'_>, runs: &mut BTreeSet<u64>, sums: &mut Sums) {
        let Told { name, wall, passed, .. } = *told;
        let cutoff = wall.saturating_sub(self.spec.misfire_grace.0);
        let waited = matches!(passed.passing, Passing::Fired | Passing::Replaced)
            && self.leaves_the_queue(passed.first.0);
        if !waited {
            assert!(passed.last.0 <= wall, "{name} fired before its time: {passed:?} at {wall}");
            assert!(!self.paused, "{name} is paused, and decided {passed:?}");
            self.take(name, passed);
            sums.planned += passed.count;
            self.last = Some(passed.passing);
        }
        self.became(told, runs, sums);
        let given_up = matches!(self.spec.plan, Plan::Cron(_) | Plan::Every(_, From::Start));
        if given_up && !waited && passed.passing != Passing::Missed {
            assert!(cutoff <= passed.first.0, "{name}: {passed:?} at {wall} is beyond its grace");
        }
        if passed.passing == Passing::Missed {
            assert!(passed.last.0 < cutoff, "{name} gave up too early: {passed:?} at {wall}");
        }
        if passed.more == Some(true) {
            assert_eq!(passed.passing, Passing::Missed);
            self.give_up_before(cutoff);
        }
    }

    fn became(&mut self, told: &Told<'_>, runs: &mut BTreeSet<u64>, sums: &mut Sums) {
        let Told { name, run, passed, .. } = *told;
        // By elapsed time the same wall time may come again: the clock was put back.
        let elapsed = self.is_elapsed();
        let count = passed.count;
        match passed.passing {
            Passing::Fired => {
                assert_eq!(run, Some((passed.first.0, false)), "{name}: the task of {passed:?}");
                assert_eq!(count, 1);
                let first = elapsed || runs.insert(passed.first.0);
                assert!(first, "{name} ran twice for {passed:?}");
                sums.fired += 1;
            }
            Passing::Coalesced => {
                assert!(self.spec.coalesce, "{name}: {passed:?}");
                sums.coalesced += count;
            }
            Passing::Skipped => {
                sums.skipped += count;
            }
            Passing::Missed => sums.missed += count,
            Passing::Queued => {
                assert_eq!(count, 1);
                assert!(self.spec.overlap != Overlap::Skip, "{name}: {passed:?}");
                let ran = !elapsed && runs.contains(&passed.first.0);
                assert!(!ran, "{name} ran for {passed:?} already");
                let twice = self.queued.contains(&passed.first.0);
                assert!(elapsed || !twice, "{name} waits twice for {passed:?}");
                self.queued.push(passed.first.0);
                sums.queued += 1;
            }
            Passing::Replaced => sums.replaced += 1,
        }
    }
}

impl Line {
    /// Why planned times are skipped, where it is not because somebody changed the schedule.
    fn skips_by_itself(&self, passed: &Passed) -> Option<&'static str> {
        let full = FIRES_QUEUED_MAX <= self.queued.len() + self.asked_for;
        let overlaps = self.spec.overlap == Overlap::Skip && passed.task.is_some();
        overlaps.then_some("a run is not over").or_else(|| full.then_some("the queue is full"))
    }

    const fn is_elapsed(&self) -> bool {
        matches!(self.times, Times::Elapsed(_))
    }

    /// Whether a fire of that planned time waited; it does no more.
    fn leaves_the_queue(&mut self, planned: u64) -> bool {
        let place = self.queued.iter().position(|at| *at == planned);
        place.map(|place| self.queued.remove(place)).is_some()
    }

    /// What is planned after `wall` is open again, but for what has a run or waits for one.
    fn reopen(&mut self, wall: u64, runs: Option<&BTreeSet<u64>>) {
        let runs = runs.into_iter().flatten().chain(&self.queued).filter(|at| wall < **at);
        self.closed.extend(runs);
        self.mark = wall;
    }

    /// All that is open before `end` is missed, uncounted.
    fn give_up_before(&mut self, end: u64) {
        match (&mut self.times, &self.spec.plan) {
            (Times::Elapsed(Some(next)), Plan::Every(span, From::Start)) => {
                *next += (end.saturating_sub(*next)).div_ceil(span.0) * span.0;
            }
            _ => self.mark = self.mark.max(end - 1),
        }
    }
}

impl Ledger {
    /// Follows one event; those that were followed before change nothing.
    pub(super) fn follow(&mut self, stamp: &Stamp, event: &Event, ended: bool) {
        if stamp.seq <= self.seen {
            return;
        }
        self.seen = stamp.seq;
        if let Some(name) = self.given_up.take() {
            let order = matches!(
                event,
                Event::ScheduleSet(_) | Event::ScheduleRemoved(_) | Event::SchedulePaused(_)
            );
            let same = event.schedule().is_some_and(|schedule| **schedule == *name);
            assert!(order && same, "{name} skipped what was due, and nobody had asked for it");
        }
        match event {
            Event::ScheduleSet(set) => self.set(stamp, set),
            Event::ScheduleRemoved(removed) => {
                let line = self.lines.remove(&*removed.name).expect("it was there");
                self.runs.remove(&*removed.name);
                Self::nothing_is_due(&line, stamp.wall);
            }
            Event::SchedulePaused(paused) => {
                let mut line = self.lines.remove(&*paused.name).expect("it was there");
                Self::nothing_is_due(&line, stamp.wall);
                line.paused = true;
                if let Times::Elapsed(next) = &mut line.times {
                    *next = None;
                }
                self.lines.insert(paused.name.to_string(), line);
            }
            Event::ScheduleResumed(resumed) => {
                let line = self.lines.get_mut(&*resumed.name).expect("it is there");
                line.paused = false;
                line.mark = line.mark.max(stamp.wall.0);
                if let (Times::Elapsed(next), Plan::Every(span, _)) =
                    (&mut line.times, &line.spec.plan)
                {
                    *next = Some(stamp.wall.0 + span.0);
                }
            }
            Event::Fired(fired) => self.fired(stamp, fired),
            Event::ClockStepped(stepped) => self.stepped(stepped),
            Event::Started(started) => {
                let rebooted = !self.boot.is_empty() && *started.boot_id != *self.boot;
                self.boot = started.boot_id.to_string();
                for line in self.lines.values_mut().filter(|line| rebooted && !line.paused) {
                    if line.spec.plan == Plan::Boot {
                        line.times = Times::Elapsed(Some(stamp.wall.0));
                    }
                }
            }
            _ => {}
        }
        if let Some(task) = event.task().filter(|_| ended) {
            self.ended(stamp, task);
        }
    }

    /// The end of a run starts the interval that counts from there.
    fn ended(&mut self, stamp: &Stamp, task: TaskId) {
        let Some(name) = self.tasks.remove(&task) else { return };
        let Some(line) = self.lines.get_mut(&name).filter(|line| !line.paused) else { return };
        if let Plan::Every(span, From::End) = line.spec.plan {
            line.times = Times::Elapsed(Some(stamp.wall.0 + span.0));
        }
    }

    fn set(&mut self, stamp: &Stamp, set: &ScheduleSet) {
        let mut line = Line::new(set, stamp.wall);
        if let Some(old) = self.lines.remove(&*set.name) {
            line.paused = old.paused;
            if set.keeps == Some(true) {
                assert!(old.spec.fires_like(&set.spec));
                (line.times, line.mark, line.closed) = (old.times, old.mark, old.closed);
                line.since = old.since;
            } else {
                Self::nothing_is_due(&old, stamp.wall);
                if line.paused && matches!(line.times, Times::Elapsed(_)) {
                    line.times = Times::Elapsed(None);
                }
            }
            (line.queued, line.last) = (old.queued, old.last);
            line.asked_for = old.asked_for;
            if set.keeps != Some(true) {
                line.reopen(stamp.wall.0, self.runs.get(&*set.name));
            }
        }
        self.lines.insert(set.name.to_string(), line);
    }

    /// What was due when somebody changed the schedule was decided before that.
    fn nothing_is_due(line: &Line, wall: Timestamp) {
        let due = !line.paused && line.open().is_some_and(|at| at <= wall.0);
        assert!(!due, "what was due is gone without a word: {:?}", line.open());
    }

    fn fired(&mut self, stamp: &Stamp, fired: &Fired) {
        let name = fired.schedule.to_string();
        let runs = self.runs.entry(name.clone()).or_default();
        let line = self.lines.get_mut(&name).unwrap_or_else(|| panic!("{name} does not exist"));
        let run = fired.task.as_ref().map(|task| {
            let scheduled = task.spec.scheduled.as_ref().expect("it comes from a schedule");
            self.tasks.insert(task.task, name.clone());
            (scheduled.planned.0, scheduled.manual.is_some())
        });
        for passed in &fired.passed {
            if passed.passing == Passing::Skipped && line.skips_by_itself(passed).is_none() {
                self.given_up = Some(name.clone());
            }
            let told = Told { name: &name, wall: stamp.wall.0, run, passed };
            line.decide(&told, runs, &mut self.sums);
        }
        if let Some(queued) = &fired.queued {
            line.asked_for = queued.iter().filter(|fire| fire.manual.is_some()).count();
            let waiting = queued.len() - line.asked_for;
            assert_eq!(waiting, line.queued.len(), "{name}: what waits");
        }
    }

    fn stepped(&mut self, stepped: &ClockStepped) {
        let (from, to) = (stepped.from.0, stepped.to.0);
        for (name, line) in &mut self.lines {
            if let Times::Elapsed(next) = &mut line.times {
                let boot = line.spec.plan == Plan::Boot;
                *next = next.map(|next| if boot { to } else { (next + to).saturating_sub(from) });
            } else if stepped.first_set == Some(true) && line.mark <= from {
                // Made while the clock had not been set: it begins with the setting.
                if matches!(line.times, Times::Calendar(_)) && !line.paused {
                    line.mark = to;
                }
            } else if stepped.reopens.is_some_and(|all| all || to < line.since) && to < line.mark {
                line.reopen(to, self.runs.get(name));
                line.since = line.since.min(to);
                self.sums.reopened += 1;
            }
        }
    }

    /// Whether all is decided that has come, and nothing waits that has room.
    pub(super) fn settled(&self, wall: Timestamp, state: &State) {
        let names: Vec<_> = state.schedules().map(|schedule| schedule.name.to_string()).collect();
        assert!(names.iter().eq(self.lines.keys()), "the same schedules");
        for (name, line) in self.lines.iter().filter(|(_, line)| !line.paused) {
            let open = line.open();
            assert!(
                open.is_none_or(|at| wall.0 < at),
                "{name}: {open:?} has come at {wall}, and nothing was decided; {:?}",
                state.schedule(name)
            );
            assert_ne!(line.last, Some(Passing::Coalesced), "{name}: coalesced into no run");
            let live = state.live(name).count() as u64;
            let room = live < u64::from(line.spec.max_instances);
            assert!(line.queued.is_empty() || !room, "{name}: {:?} wait, with room", line.queued);
        }
    }

    /// That nothing is held up: what is decided is not ahead of the clock.
    pub(super) fn is_not_ahead(&self, wall: Timestamp) {
        for (name, line) in self.lines.iter().filter(|(_, line)| !line.paused) {
            match (&line.times, &line.spec.plan) {
                (Times::Elapsed(next), Plan::Every(span, _)) => {
                    let near = next.is_none_or(|next| next <= wall.0 + span.0);
                    assert!(near, "{name} waits from {wall} until {next:?}");
                }
                (Times::Elapsed(_), _) => {}
                _ => assert!(line.mark <= wall.0, "{name} waits from {wall} until {}", line.mark),
            }
        }
    }

    /// A schedule, by chance.
    pub(super) fn names(&self) -> Vec<String> {
        self.lines.keys().cloned().collect()
    }

    pub(super) fn spec(&self, name: &str) -> Option<&ScheduleSpec> {
        self.lines.get(name).map(|line| &line.spec)
    }
}
