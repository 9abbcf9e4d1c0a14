//! The clocks: the only place that reads one.
//!
//! [`Clocks`] is arithmetic over readings and reads nothing itself, so the simulator and the tests
//! hand it made-up ones. [`Clock`] feeds it with the real ones. Three clocks come out (see
//! [`Moment`]): the wall for people, the life clock for waits, the service clock for leases.
//!
//! The wall clock may be put forward or back at any time. Its distance to the boot clock says when
//! that happened: both are slewed alike, so only a step changes it. A step is handed out once, with
//! the moment that saw it, and goes on record; what counts elapsed time does not feel it.
//!
//! The service clock refuses to count time in which nobody could be heard: while the engine was
//! away, stopped or late, and for a grace after each start in which executors reconnect. So the
//! engine's own absence never ends a lease.

use crate::kernel::Head;
use crate::kernel::ids::{LifeTime, Millis, Moment, ServiceTime, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime};

/// How late a reading may be before the engine counts as having been stopped. Of what passed then
/// only this much is counted.
const LATE: Millis = Millis::secs(1);

/// Longest sleep while something waits on the life or the wall clock: both may step, and a sleep
/// is measured on neither.
const SLEEP_MAX: Millis = Millis::secs(60);

/// The wall clock was put forward or back when its distance to the boot clock changes by as much:
/// a second, less what two readings may differ by.
const STEP_MIN: Millis = Millis(800);

/// How far apart the readings of one instant may be taken before they are taken again.
const READ_SPREAD_MAX: Millis = Millis(20);

/// A wall clock that was put forward or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it would show without the step.
    pub from: Timestamp,
    /// What it shows.
    pub to: Timestamp,
}

/// What the machine's clocks show at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    /// The wall clock.
    pub wall: Timestamp,
    /// `CLOCK_BOOTTIME`: time since the boot, suspend included.
    pub boot: Millis,
    /// `CLOCK_MONOTONIC`: the same without suspend.
    pub mono: Millis,
}

/// What is waited for, each on its own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// On the service clock.
    pub service: Option<ServiceTime>,
    /// On the life clock.
    pub life: Option<LifeTime>,
    /// On the wall clock.
    pub wall: Option<Timestamp>,
    /// On the life clock, and it may be late: nobody wakes for it before it can be due.
    pub unhurried: Option<LifeTime>,
}

/// The clocks that go on over restarts, made from readings of those that do not.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// The life clock when the boot clock showed `boot_at`.
    life_at: LifeTime,
    boot_at: Millis,
    /// The latest moment that was handed out.
    last: Moment,
    /// The monotonic clock at that moment.
    mono_at: Millis,
    /// How long the caller meant to sleep after it.
    planned: Millis,
    /// How much of the grace after the start is left.
    grace: Millis,
    /// What both the wall clock and the boot clock showed after the last step.
    paired: (Timestamp, Millis),
    /// A step since then that was not handed out yet, and the boot clock when it was seen.
    step: Option<(Step, Millis)>,
}

impl Clocks {
    /// Goes on from what the journal's last record knew.
    ///
    /// Under the same boot the life clock includes the time the engine was away; after a reboot it
    /// goes on from the last record, so that a wait is never longer than the whole of it.
    pub fn resume(head: &Head, boot_id: &str, raw: Raw, grace: Millis) -> Self {
        let started = head.started.as_ref().filter(|started| {
            // A boot clock that runs backwards under one boot id is a new boot.
            *started.boot_id == *boot_id && started.boot_clock <= raw.boot
        });
        let life = started.map_or(head.life, |started| {
            let passed = Millis(raw.boot.0.saturating_sub(started.boot_clock.0));
            head.started_life.after(passed).max(head.life)
        });
        // The last record's readings, as far as they belong to this boot.
        let paired = started.map_or((raw.wall, raw.boot), |started| {
            (head.wall, started.boot_clock.plus(head.life.since(head.started_life)))
        });
        let last = Moment { wall: raw.wall, life, service: head.service, ..Moment::default() };
        Self {
            life_at: life,
            boot_at: raw.boot,
            last,
            mono_at: raw.mono,
            planned: Millis(0),
            grace,
            paired,
            step: None,
        }
    }

    /// The moment that these readings make. Neither life nor service clock ever goes back.
    pub fn now(&mut self, raw: Raw) -> Moment {
        let passed = Millis(raw.mono.0.saturating_sub(self.mono_at.0));
        let late = self.planned.plus(LATE) < passed;
        // Whoever was stopped does not know since when; a stopped engine must end no lease.
        let served = if late { LATE } else { passed };
        let graced = served.min(self.grace);
        self.grace = Millis(self.grace.0.saturating_sub(graced.0));
        let counted = Millis(served.0.saturating_sub(graced.0));
        self.compare(raw);
        let lived = Millis(raw.boot.0.saturating_sub(self.boot_at.0));
        self.last = Moment {
            wall: raw.wall,
            life: self.life_at.after(lived).max(self.last.life),
            service: self.last.service.after(counted),
            ..Moment::default()
        };
        self.mono_at = raw.mono.max(self.mono_at);
        self.planned = Millis(0);
        self.last
    }

    /// Sees whether the wall clock was put forward or back since then.
    fn compare(&mut self, raw: Raw) {
        let (wall, boot) = self.paired;
        let passed = Millis(raw.boot.0.saturating_sub(boot.0));
        let (from, to) = (wall.after(passed), raw.wall);
        let stepped = STEP_MIN <= to.since(from).max(from.since(to));
        self.step = stepped.then_some((Step { from, to }, raw.boot));
    }

    /// The step of the wall clock that the last moment saw, once.
    pub fn take_step(&mut self) -> Option<Step> {
        let (step, boot) = self.step.take()?;
        self.paired = (step.to, boot);
        Some(step)
    }

    /// How long to sleep until the first of these is due, none when nothing is waited for; the
    /// sleep is then planned, and nobody is late who keeps to it.
    pub fn plan(&mut self, until: Until) -> Option<Millis> {
        let Until { service, life, wall, unhurried } = until;
        let service = service.map(|at| at.since(self.last.service).plus(self.grace));
        let life = life.map(|at| at.since(self.last.life).min(SLEEP_MAX));
        let wall = wall.map(|at| at.since(self.last.wall).min(SLEEP_MAX));
        let unhurried = unhurried.map(|at| at.since(self.last.life));
        let sleep = service.into_iter().chain(life).chain(wall).chain(unhurried).min();
        self.planned = sleep.unwrap_or(Millis(u64::MAX));
        sleep
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct Clock {
    clocks: Clocks,
    belief: Belief,
    /// The boot clock at the last moment.
    boot: Millis,
}

/// When the wall clock is believed.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    /// A clock that shows less was never set.
    pub plausible_since: Timestamp,
    /// Says whether something keeps the clock right; asked until it does, where that is waited for.
    pub synchronised: Option<fn() -> bool>,
}

impl Belief {
    fn doubts(&mut self, wall: Timestamp) -> bool {
        if self.synchronised.is_some_and(|synchronised| synchronised()) {
            self.synchronised = None;
        }
        wall < self.plausible_since || self.synchronised.is_some()
    }
}

impl Clock {
    /// Goes on from what the journal's last record knew; see [`Clocks::resume`].
    pub fn resume(head: &Head, boot_id: &str, grace: Millis, belief: Belief) -> Self {
        let raw = read();
        Self { clocks: Clocks::resume(head, boot_id, raw, grace), belief, boot: raw.boot }
    }

    /// The moment it is, with fresh dice.
    pub fn now(&mut self) -> Moment {
        let raw = read();
        self.boot = raw.boot;
        let doubtful = self.belief.doubts(raw.wall);
        Moment { dice: rand::random(), doubtful, ..self.clocks.now(raw) }
    }

    /// The boot clock at the last moment.
    pub const fn boot(&self) -> Millis {
        self.boot
    }

    /// The step of the wall clock that the last moment saw, once.
    pub fn take_step(&mut self) -> Option<Step> {
        self.clocks.take_step()
    }

    /// Whether it is waited for that something keeps the clock right.
    pub const fn awaits_synchronisation(&self) -> bool {
        self.belief.synchronised.is_some()
    }

    /// How long to sleep; see [`Clocks::plan`].
    pub fn plan(&mut self, until: Until) -> Option<Duration> {
        self.clocks.plan(until).map(Millis::duration)
    }
}

/// Reads all clocks, as nearly at one instant as can be.
pub fn read() -> Raw {
    let mut raw = Raw::default();
    for _ in 0..5 {
        raw = Raw { boot: machine(ClockId::Boottime), wall: wall(), mono: monotonic() };
        if machine(ClockId::Boottime).0.saturating_sub(raw.boot.0) <= READ_SPREAD_MAX.0 {
            break;
        }
    }
    raw
}

/// The monotonic clock alone.
pub fn monotonic() -> Millis {
    machine(ClockId::Monotonic)
}

/// The wall clock alone; before 1970 counts as 1970.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn machine(id: ClockId) -> Millis {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let millis = u64::try_from(time.tv_nsec / 1_000_000).unwrap_or(0);
    Millis::secs(seconds).plus(Millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::event::Started;
    use crate::kernel::ids::{Seq, TaskId};

    const GRACE: Millis = Millis(90_000);

    fn head() -> Head {
        Head {
            seq: Seq(9),
            wall: Timestamp(1_000_000),
            life: LifeTime(50_000),
            service: ServiceTime(40_000),
            next_task: TaskId(3),
            started: Some(Started {
                version: "1".into(),
                boot_id: "boot-a".into(),
                boot_clock: Millis(7_000),
                next_task: TaskId(1),
                jump: None,
            }),
            started_life: LifeTime(20_000),
            ..Head::default()
        }
    }

    fn raw(boot: u64, mono: u64) -> Raw {
        Raw { wall: Timestamp(boot + 1_000_000), boot: Millis(boot), mono: Millis(mono) }
    }

    /// A clock past its grace, at service time 40 s.
    fn settled() -> Clocks {
        Clocks::resume(&head(), "boot-a", raw(100_000, 100_000), Millis(0))
    }

    #[test]
    fn the_life_clock_counts_the_absence_of_the_engine_under_one_boot() {
        let mut clocks = Clocks::resume(&head(), "boot-a", raw(67_000, 5), GRACE);
        assert_eq!(clocks.now(raw(67_000, 5)).life, LifeTime(80_000));
        assert_eq!(clocks.now(raw(68_000, 1_005)).life, LifeTime(81_000));
    }

    #[test]
    fn after_a_reboot_the_life_clock_goes_on_from_the_last_record() {
        for (boot_id, boot) in [("boot-b", 600_000), ("boot-a", 6_999)] {
            let mut clocks = Clocks::resume(&head(), boot_id, raw(boot, 5), GRACE);
            assert_eq!(clocks.now(raw(boot, 5)).life, LifeTime(50_000), "{boot_id}");
            assert_eq!(clocks.now(raw(boot + 3_000, 3_005)).life, LifeTime(53_000), "{boot_id}");
        }
    }

    #[test]
    fn the_life_clock_never_falls_behind_the_last_record() {
        let mut clocks = Clocks::resume(&head(), "boot-a", raw(8_000, 5), GRACE);
        assert_eq!(clocks.now(raw(8_000, 5)).life, LifeTime(50_000));
    }

    #[test]
    fn the_life_clock_counts_suspend_and_the_service_clock_does_not() {
        let mut clocks = settled();
        clocks.plan(Until { service: Some(ServiceTime(50_000)), ..Until::default() });
        let moment = clocks.now(raw(3_700_000, 110_000));
        assert_eq!(moment.life.since(LifeTime(113_000)), Millis(3_600_000));
        assert_eq!(moment.service, ServiceTime(50_000));
    }

    #[test]
    fn the_service_clock_starts_to_count_when_the_grace_is_over() {
        let mut clocks = Clocks::resume(&head(), "boot-a", raw(0, 0), GRACE);
        let sleep = clocks.plan(Until { service: Some(ServiceTime(41_000)), ..Until::default() });
        assert_eq!(sleep, Some(Millis(91_000)));
        assert_eq!(clocks.now(raw(60_000, 60_000)).service, ServiceTime(40_000));
        clocks.plan(Until::default());
        assert_eq!(clocks.now(raw(90_000, 90_000)).service, ServiceTime(40_000));
        clocks.plan(Until::default());
        assert_eq!(clocks.now(raw(91_500, 91_500)).service, ServiceTime(41_500));
    }

    #[test]
    fn a_planned_sleep_counts_in_full_also_when_it_is_cut_short() {
        let mut clocks = settled();
        let until = Until { service: Some(ServiceTime(70_000)), ..Until::default() };
        assert_eq!(clocks.plan(until), Some(Millis(30_000)));
        assert_eq!(clocks.now(raw(112_000, 112_000)).service, ServiceTime(52_000));
        assert_eq!(clocks.plan(until), Some(Millis(18_000)));
        assert_eq!(clocks.now(raw(131_000, 131_000)).service, ServiceTime(71_000));
    }

    #[test]
    fn a_stopped_engine_ends_no_lease() {
        let mut clocks = settled();
        clocks.plan(Until { service: Some(ServiceTime(70_000)), ..Until::default() });
        // Stopped for ten minutes somewhere within a sleep of thirty seconds.
        assert_eq!(clocks.now(raw(700_000, 700_000)).service, ServiceTime(41_000));
    }

    #[test]
    fn a_turn_that_takes_long_counts_for_a_second() {
        let mut clocks = settled();
        clocks.now(raw(100_000, 100_000));
        assert_eq!(clocks.now(raw(105_000, 105_000)).service, ServiceTime(41_000));
        assert_eq!(clocks.now(raw(105_700, 105_700)).service, ServiceTime(41_700));
    }

    #[test]
    fn a_wait_without_end_is_never_late() {
        let mut clocks = settled();
        assert_eq!(clocks.plan(Until::default()), None);
        assert_eq!(clocks.now(raw(900_000, 900_000)).service, ServiceTime(840_000));
    }

    #[test]
    fn sleeps_on_clocks_that_may_step_are_cut_at_a_minute() {
        let mut clocks = settled();
        let life = Until { life: Some(LifeTime(10_000_000)), ..Until::default() };
        assert_eq!(clocks.plan(life), Some(Millis(60_000)));
        let wall = Until { wall: Some(Timestamp(u64::MAX)), ..Until::default() };
        assert_eq!(clocks.plan(wall), Some(Millis(60_000)));
        let past = Until { wall: Some(Timestamp(3)), ..Until::default() };
        assert_eq!(clocks.plan(past), Some(Millis(0)));
    }

    #[test]
    fn a_sleep_that_may_be_late_is_not_cut() {
        let mut clocks = settled();
        let life = LifeTime(clocks.now(raw(100_000, 100_000)).life.0 + 10_000_000);
        let until = Until { unhurried: Some(life), ..Until::default() };
        assert_eq!(clocks.plan(until), Some(Millis(10_000_000)));
    }

    #[test]
    fn no_reading_makes_a_clock_go_back() {
        let mut clocks = settled();
        let before = clocks.now(raw(101_000, 101_000));
        let after = clocks.now(raw(90_000, 90_000));
        assert_eq!(after.life, before.life);
        assert_eq!(after.service, before.service);
        assert_eq!(clocks.now(raw(101_500, 101_500)).service, ServiceTime(41_500));
    }

    /// Readings of one boot, with a wall clock of its own.
    fn at(wall: u64, boot: u64) -> Raw {
        Raw { wall: Timestamp(wall), boot: Millis(boot), mono: Millis(boot) }
    }

    // spec: TIM-150
    #[test]
    fn a_step_of_a_second_in_either_direction_is_handed_out_once() {
        for step in [-1_000_i64, 1_000, -86_400_000, 378_691_200_000] {
            let mut clocks = Clocks::resume(&Head::default(), "b", at(1 << 41, 50_000), Millis(0));
            clocks.now(at((1 << 41) + 5_000, 55_000));
            assert_eq!(clocks.take_step(), None);
            let expected = (1 << 41) + 6_000;
            let shown = u64::try_from(i64::try_from(expected).unwrap() + step).unwrap();
            clocks.now(at(shown, 56_000));
            let seen = Step { from: Timestamp(expected), to: Timestamp(shown) };
            assert_eq!(clocks.take_step(), Some(seen), "{step}");
            clocks.now(at(shown + 9_000, 65_000));
            assert_eq!(clocks.take_step(), None, "{step}");
        }
    }

    #[test]
    fn clocks_that_run_alike_make_no_step_however_long_they_run() {
        let mut clocks = Clocks::resume(&Head::default(), "b", at(1 << 41, 0), Millis(0));
        for day in 1..4_000_u64 {
            // Readings of one instant are never taken quite together.
            let late = day % 700;
            clocks.now(at((1 << 41) + day * 86_400_000 + late, day * 86_400_000));
            assert_eq!(clocks.take_step(), None);
        }
    }

    #[test]
    fn small_steps_add_up() {
        let mut clocks = Clocks::resume(&Head::default(), "b", at(1 << 41, 0), Millis(0));
        clocks.now(at((1 << 41) + 10_400, 10_000));
        assert_eq!(clocks.take_step(), None);
        clocks.now(at((1 << 41) + 20_800, 20_000));
        let seen = Step { from: Timestamp((1 << 41) + 20_000), to: Timestamp((1 << 41) + 20_800) };
        assert_eq!(clocks.take_step(), Some(seen));
    }

    #[test]
    fn two_steps_before_anybody_asks_are_one() {
        let mut clocks = Clocks::resume(&Head::default(), "b", at(1 << 41, 0), Millis(0));
        clocks.now(at((1 << 41) + 3_600_000, 0));
        clocks.now(at((1 << 41) + 1_000, 1_000));
        assert_eq!(clocks.take_step(), None, "the second took the first one back");
        clocks.now(at((1 << 41) + 3_600_000, 1_000));
        clocks.now(at((1 << 41) + 7_200_000, 2_000));
        let both =
            Step { from: Timestamp((1 << 41) + 2_000), to: Timestamp((1 << 41) + 7_200_000) };
        assert_eq!(clocks.take_step(), Some(both));
    }

    // spec: TIM-151
    #[test]
    fn a_step_while_the_engine_was_away_is_seen_under_the_same_boot_and_only_there() {
        // The last record was written at boot clock 37 s, when the wall clock showed 1,000 s.
        let raw = |boot: u64, wall: u64| Raw {
            wall: Timestamp(wall),
            boot: Millis(boot),
            mono: Millis(5),
        };
        let mut clocks = Clocks::resume(&head(), "boot-a", raw(67_000, 1_030_000), GRACE);
        clocks.now(raw(67_000, 1_030_000));
        assert_eq!(clocks.take_step(), None);
        let mut clocks = Clocks::resume(&head(), "boot-a", raw(67_000, 4_630_000), GRACE);
        clocks.now(raw(67_000, 4_630_000));
        let seen = Step { from: Timestamp(1_030_000), to: Timestamp(4_630_000) };
        assert_eq!(clocks.take_step(), Some(seen));
        let mut clocks = Clocks::resume(&head(), "boot-b", raw(67_000, 4_630_000), GRACE);
        clocks.now(raw(67_000, 4_630_000));
        assert_eq!(clocks.take_step(), None, "another boot has nothing to compare with");
    }

    // spec: TIM-152
    #[test]
    fn a_step_moves_neither_the_life_clock_nor_the_service_clock() {
        let mut clocks = settled();
        let before = clocks.now(at(1_200_000, 101_000));
        for wall in [0, 1 << 42, 1_000_000, 5] {
            let after = clocks.now(at(wall, 101_000));
            assert_eq!((after.life, after.service), (before.life, before.service));
            assert_eq!(after.wall, Timestamp(wall));
        }
    }

    // spec: TIM-153
    #[test]
    fn a_clock_that_was_never_set_is_not_believed_and_neither_is_one_that_nothing_keeps() {
        let mut belief = Belief { plausible_since: Timestamp(1_000), synchronised: None };
        assert!(belief.doubts(Timestamp(999)));
        assert!(!belief.doubts(Timestamp(1_000)));
        let mut waits = Belief { synchronised: Some(|| false), ..belief };
        assert!(waits.doubts(Timestamp(5_000)));
        let mut kept = Belief { synchronised: Some(|| true), ..belief };
        assert!(!kept.doubts(Timestamp(5_000)));
        assert!(
            kept.synchronised.is_none(),
            "once is enough: a server that is away for an hour holds nothing up"
        );
    }
}
