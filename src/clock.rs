//! The clocks: the only place that reads one.
//!
//! [`Clocks`] is arithmetic over readings and reads nothing itself, so the simulator and the tests
//! hand it made-up ones. [`Clock`] feeds it with the real ones. Three clocks come out (see
//! [`Moment`]): the wall for people, the life clock for waits, the service clock for leases.
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
        let last = Moment { wall: raw.wall, life, service: head.service, ..Moment::default() };
        Self {
            life_at: life,
            boot_at: raw.boot,
            last,
            mono_at: raw.mono,
            planned: Millis(0),
            grace,
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
}

impl Clock {
    /// Goes on from what the journal's last record knew; see [`Clocks::resume`].
    pub fn resume(head: &Head, boot_id: &str, grace: Millis) -> Self {
        Self { clocks: Clocks::resume(head, boot_id, read(), grace) }
    }

    /// The moment it is, with fresh dice.
    pub fn now(&mut self) -> Moment {
        Moment { dice: rand::random(), ..self.clocks.now(read()) }
    }

    /// How long to sleep; see [`Clocks::plan`].
    pub fn plan(&mut self, until: Until) -> Option<Duration> {
        self.clocks.plan(until).map(Millis::duration)
    }
}

/// Reads all clocks.
pub fn read() -> Raw {
    Raw { wall: wall(), boot: machine(ClockId::Boottime), mono: monotonic() }
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
}
