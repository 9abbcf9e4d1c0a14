//! When to start a child, when to give up waiting for a sign of it, how long to wait after it
//! ended. No clock and no process: instants are spans since the supervisor began, and the caller
//! does what the answers say.

use std::collections::VecDeque;
use std::time::Duration;

/// An instant: the time since the supervisor began, on the monotonic clock.
pub(crate) type Now = Duration;

/// How fast to restart and how long to be patient.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The wait after the second crash within the window, after the first there is none; each
    /// further one doubles it.
    pub delay_first: Duration,
    /// The longest wait. A child that reaches it is parked: tried at this interval, and no longer
    /// reported each time.
    pub delay_max: Duration,
    /// A child silent for so long is killed.
    pub silent_after: Duration,
    /// How long a crash counts. A parked child that has worked for so long is healthy again.
    pub window: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            delay_first: Duration::from_secs(1),
            delay_max: Duration::from_secs(30),
            silent_after: Duration::from_secs(90),
            window: Duration::from_mins(10),
        }
    }
}

impl Pace {
    /// The wait after the `crashes`-th crash within the window.
    fn delay(&self, crashes: usize) -> Duration {
        let doublings = match crashes {
            0 | 1 => return Duration::ZERO,
            n => u32::try_from(n.saturating_sub(2)).unwrap_or(u32::MAX),
        };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.delay_first.saturating_mul(factor).min(self.delay_max)
    }
}

/// What the care for one child has come to, where somebody should hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It does its work from now on: an engine serves.
    Ready,
    /// It has been well for long enough; crashes before are forgotten.
    Recovered,
    /// It ended and will be started again after this wait.
    Restarting(Duration),
    /// It keeps ending; from now on it is tried at the longest wait, without a word each time.
    Parked(Duration),
}

#[derive(Clone, Copy, Debug)]
enum Life {
    /// Not running; to be started at this instant.
    Waiting { until: Now },
    /// Running; `first` is its first sign of work, `last` its last one of life, or its start.
    Running { first: Option<Now>, last: Now },
    /// Sent SIGKILL; its end has not been seen yet.
    Killed,
}

/// The care for one child.
#[derive(Clone, Debug)]
pub(crate) struct Care {
    pace: Pace,
    life: Life,
    /// When it ended within the window, oldest first.
    crashes: VecDeque<Now>,
    /// It kept ending, and has not been well for a whole window since.
    parked: bool,
}

impl Care {
    /// Care for a child that should start at once.
    pub(crate) fn new(pace: Pace, now: Now) -> Self {
        let life = Life::Waiting { until: now };
        Self { pace, life, crashes: VecDeque::new(), parked: false }
    }

    /// Whether it is time to start the child.
    pub(crate) fn is_due(&self, now: Now) -> bool {
        matches!(self.life, Life::Waiting { until } if until <= now)
    }

    /// The child was started.
    pub(crate) fn started(&mut self, now: Now) {
        self.life = Life::Running { first: None, last: now };
    }

    /// The child showed a sign of life, if not yet of work.
    pub(crate) fn stirred(&mut self, now: Now) {
        if let Life::Running { last, .. } = &mut self.life {
            *last = now;
        }
    }

    /// The child showed a sign of doing its work.
    pub(crate) fn heard(&mut self, now: Now) -> Option<News> {
        let Life::Running { first, last } = &mut self.life else { return None };
        *last = now;
        let Some(first) = *first else {
            *first = Some(now);
            return Some(News::Ready);
        };
        if now.saturating_sub(first) < self.pace.window {
            return None;
        }
        self.crashes.clear();
        std::mem::take(&mut self.parked).then_some(News::Recovered)
    }

    /// Gives it a fresh chance: what it did before is forgotten, and if it is to be started, that
    /// is now.
    pub(crate) fn forgive(&mut self, now: Now) {
        self.crashes.clear();
        self.parked = false;
        if let Life::Waiting { until } = &mut self.life {
            *until = now;
        }
    }

    /// Whether it runs and was heard of so lately that nothing speaks against it.
    pub(crate) fn is_fresh(&self, now: Now) -> bool {
        matches!(self.life, Life::Running { last, .. }
            if now.saturating_sub(last) < self.pace.silent_after / 3)
    }

    /// Whether the child has been silent for too long and must be killed. Says so once.
    pub(crate) fn is_overdue(&mut self, now: Now) -> bool {
        let overdue = matches!(self.life, Life::Running { last, .. }
            if self.pace.silent_after <= now.saturating_sub(last));
        if overdue {
            self.life = Life::Killed;
        }
        overdue
    }

    /// The supervisor itself was late by `span` (stopped, or starved of its processor): what was
    /// not heard in that time counts for nothing.
    pub(crate) fn excuse(&mut self, span: Duration) {
        if let Life::Running { last, .. } = &mut self.life {
            *last = last.saturating_add(span);
        }
    }

    /// The child ended, or could not be started.
    pub(crate) fn ended(&mut self, now: Now) -> Option<News> {
        let window = self.pace.window;
        self.crashes.retain(|at| now.saturating_sub(*at) < window);
        self.crashes.push_back(now);
        let mut wait = self.pace.delay(self.crashes.len());
        let was_parked = self.parked;
        self.parked |= self.pace.delay_max <= wait;
        if self.parked {
            wait = self.pace.delay_max;
        }
        self.life = Life::Waiting { until: now.saturating_add(wait) };
        match (was_parked, self.parked) {
            (true, _) => None,
            (false, true) => Some(News::Parked(wait)),
            (false, false) => Some(News::Restarting(wait)),
        }
    }

    /// The child ended of its own accord and well. That is no crash; the first wait keeps one that
    /// does so all the time from spinning.
    pub(crate) fn retired(&mut self, now: Now) {
        self.life = Life::Waiting { until: now.saturating_add(self.pace.delay_first) };
    }

    /// Crashes within the window.
    pub(crate) fn crashes(&self) -> usize {
        self.crashes.len()
    }

    /// Whether it kept ending, and is tried only now and then.
    pub(crate) const fn is_parked(&self) -> bool {
        self.parked
    }

    /// When something must be done if nothing happens before.
    pub(crate) fn next_wake(&self) -> Option<Now> {
        match self.life {
            Life::Waiting { until } => Some(until),
            Life::Running { last, .. } => Some(last.saturating_add(self.pace.silent_after)),
            Life::Killed => None,
        }
    }
}

/// Signals to stop that come so close together are one: GNU timeout and some shells send it to the
/// process and to its group.
const TWINS_WITHIN: Duration = Duration::from_millis(200);

/// How long the workers have, and then the engine, once they were told to hurry.
const HURRIED_WITHIN: Duration = Duration::from_secs(5);

/// What one more signal to stop asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urge {
    /// The workers stop what they run, with its graces; then the engine.
    Drain,
    /// The workers kill what they run; then the engine. What still lives at [`Stops::is_overdue`]
    /// is killed.
    Hurry,
    /// All are killed at once.
    Kill,
}

/// The signals to stop that have come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stops {
    /// The last that counted, and what it asked for.
    last: Option<(Urge, Now)>,
}

impl Stops {
    /// One more has come; `None` when it is the twin of the last one.
    pub(crate) fn asked(&mut self, now: Now) -> Option<Urge> {
        let urge = match self.last {
            Some((_, at)) if now.saturating_sub(at) < TWINS_WITHIN => return None,
            None => Urge::Drain,
            Some((Urge::Drain, _)) => Urge::Hurry,
            Some((Urge::Hurry | Urge::Kill, _)) => Urge::Kill,
        };
        self.last = Some((urge, now));
        Some(urge)
    }

    /// Whether those that were told to hurry have had their time, and must be killed. Says so once.
    pub(crate) fn is_overdue(&mut self, now: Now) -> bool {
        let overdue = self.next_wake().is_some_and(|at| at <= now);
        if overdue {
            self.last = Some((Urge::Kill, now));
        }
        overdue
    }

    /// When something must be done if nothing happens before.
    pub(crate) fn next_wake(&self) -> Option<Now> {
        match self.last {
            Some((Urge::Hurry, at)) => Some(at.saturating_add(HURRIED_WITHIN)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn secs(n: u32) -> Now {
        SECOND * n
    }

    /// Runs a child that lives `life` seconds and shows a sign each second, `times` times over;
    /// returns the waits before each start and the news of each end.
    fn crash_loop(care: &mut Care, life: u32, times: u32) -> (Vec<u64>, Vec<Option<News>>) {
        let (mut now, mut waits, mut news) = (Now::ZERO, Vec::new(), Vec::new());
        for _ in 0..times {
            let due = care.next_wake().unwrap().max(now);
            waits.push(due.saturating_sub(now).as_secs());
            now = due;
            assert!(care.is_due(now));
            care.started(now);
            for _ in 0..life {
                care.heard(now);
                now += SECOND;
            }
            news.push(care.ended(now));
        }
        (waits, news)
    }

    // spec: SUP-005
    // B85: a worker that passes its check and dies two seconds later, for ever.
    #[test]
    fn b85_a_child_that_lives_two_seconds_for_ever_is_parked_at_the_cap_and_reported_once() {
        let mut care = Care::new(Pace::default(), Now::ZERO);
        let (waits, news) = crash_loop(&mut care, 2, 1000);
        assert_eq!(waits[..9], [0, 0, 1, 2, 4, 8, 16, 30, 30]);
        assert!(waits[9..].iter().all(|wait| *wait == 30));
        let said: Vec<_> = news.into_iter().flatten().collect();
        assert_eq!(said.len(), 7, "six restarts and one word about parking: {said:?}");
        assert_eq!(said.last(), Some(&News::Parked(secs(30))));
        assert!(care.crashes() < 30, "what is remembered is bounded: {}", care.crashes());
    }

    // spec: SUP-005
    // B85: no short-lived success sets the count back.
    #[test]
    fn b85_a_minute_of_work_forgives_nothing_and_a_crash_every_ten_minutes_costs_no_wait() {
        let mut care = Care::new(Pace::default(), Now::ZERO);
        let (waits, news) = crash_loop(&mut care, 61, 200);
        assert!(16 <= *waits[20..].iter().min().unwrap(), "{waits:?}");
        let parked = news.iter().flatten().filter(|news| matches!(news, News::Parked(_)));
        assert_eq!(parked.count(), 1);
        let mut care = Care::new(Pace::default(), Now::ZERO);
        let (waits, news) = crash_loop(&mut care, 600, 50);
        assert!(waits.iter().all(|wait| *wait == 0), "{waits:?}");
        assert!(news.iter().all(|news| *news == Some(News::Restarting(Duration::ZERO))));
    }

    #[test]
    fn a_parked_child_that_recovers_is_reported_once_and_may_be_parked_again() {
        let mut care = Care::new(Pace::default(), Now::ZERO);
        crash_loop(&mut care, 1, 20);
        let start = care.next_wake().unwrap();
        care.started(start);
        let news: Vec<_> = (0..900).filter_map(|n| care.heard(start + secs(n))).collect();
        assert_eq!(news, [News::Ready, News::Recovered]);
        assert!(!care.is_parked());
        care.ended(start + secs(900));
        let (_, news) = crash_loop(&mut care, 0, 20);
        assert_eq!(news.iter().flatten().filter(|n| matches!(n, News::Parked(_))).count(), 1);
    }

    // spec: SUP-009
    #[test]
    fn a_parked_child_that_is_forgiven_starts_at_once_and_is_told_of_when_it_is_parked_again() {
        let mut care = Care::new(Pace::default(), Now::ZERO);
        crash_loop(&mut care, 0, 20);
        assert!(care.is_parked());
        let now = secs(10_000);
        care.forgive(now);
        assert!(!care.is_parked() && care.is_due(now));
        care.started(now);
        assert_eq!(care.ended(now), Some(News::Restarting(Duration::ZERO)));
        let news: Vec<_> = (1..7).filter_map(|n| care.ended(now + secs(n))).collect();
        assert_eq!(news.last(), Some(&News::Parked(secs(30))));
    }

    // spec: SUP-010
    #[test]
    fn a_child_is_fresh_while_its_last_sign_is_and_it_runs() {
        let mut care = Care::new(Pace::default(), Now::ZERO);
        assert!(!care.is_fresh(Now::ZERO));
        care.started(secs(10));
        assert!(care.is_fresh(secs(39)) && !care.is_fresh(secs(40)));
        care.stirred(secs(50));
        assert!(care.is_fresh(secs(79)));
        care.ended(secs(80));
        assert!(!care.is_fresh(secs(80)));
    }

    // spec: SUP-004
    #[test]
    fn a_child_silent_for_ninety_seconds_is_killed_and_not_a_moment_earlier() {
        let mut care = Care::new(Pace::default(), Now::ZERO);
        care.started(secs(10));
        care.heard(secs(20));
        assert_eq!(care.next_wake(), Some(secs(110)));
        assert!(!care.is_overdue(secs(110).saturating_sub(Duration::from_millis(1))));
        assert!(care.is_overdue(secs(110)));
        assert!(!care.is_overdue(secs(500)), "it is killed once");
        assert_eq!(care.next_wake(), None, "then only its end matters");
        assert_eq!(care.ended(secs(501)), Some(News::Restarting(Duration::ZERO)));
    }

    #[test]
    fn a_child_that_hangs_after_every_start_is_not_taken_for_healthy() {
        let mut care = Care::new(Pace::default(), Now::ZERO);
        let mut now = Now::ZERO;
        for _ in 0..20 {
            now = care.next_wake().unwrap().max(now);
            care.started(now);
            care.heard(now);
            now += secs(90);
            assert!(care.is_overdue(now));
            care.ended(now);
        }
        assert_eq!(care.next_wake(), Some(now + secs(30)));
    }

    // spec: SUP-004
    #[test]
    fn a_long_recovery_is_life_but_neither_work_nor_health() {
        let mut care = Care::new(Pace::default(), Now::ZERO);
        care.started(Now::ZERO);
        for n in 0..100 {
            care.stirred(secs(10 * n));
            assert!(!care.is_overdue(secs(10 * n + 9)));
        }
        assert_eq!(care.heard(secs(1000)), Some(News::Ready));
        care.ended(secs(1001));
        care.started(secs(1001));
        for n in 1001..1061 {
            care.stirred(secs(n));
            care.heard(secs(n));
        }
        assert_eq!(care.crashes(), 1, "a long recovery is no health");
    }

    // spec: SUP-004
    #[test]
    fn time_the_supervisor_slept_through_is_not_held_against_a_child() {
        let mut care = Care::new(Pace::default(), Now::ZERO);
        care.started(Now::ZERO);
        care.excuse(secs(3600));
        assert!(!care.is_overdue(secs(3600)));
        assert!(care.is_overdue(secs(3690)));
    }

    // spec: SUP-007
    #[test]
    fn each_further_stop_is_more_urgent_and_a_twin_is_none() {
        let ms = Duration::from_millis;
        let mut stops = Stops::default();
        assert_eq!(stops.asked(secs(1)), Some(Urge::Drain));
        assert_eq!(stops.asked(secs(1)), None);
        assert_eq!(stops.asked(secs(1) + ms(199)), None);
        assert_eq!(stops.next_wake(), None, "a drain takes its time");
        assert_eq!(stops.asked(secs(1) + ms(200)), Some(Urge::Hurry));
        assert_eq!(stops.asked(secs(1) + ms(399)), None);
        assert_eq!(stops.asked(secs(1) + ms(400)), Some(Urge::Kill));
        assert_eq!(stops.next_wake(), None, "all was done that can be");
        assert_eq!(stops.asked(secs(2)), Some(Urge::Kill));
    }

    // spec: SUP-007
    #[test]
    fn those_who_hurry_have_five_seconds_and_are_killed_once() {
        let mut stops = Stops::default();
        assert!(!stops.is_overdue(secs(1)));
        stops.asked(secs(1));
        assert!(!stops.is_overdue(secs(1000)));
        stops.asked(secs(1000));
        assert_eq!(stops.next_wake(), Some(secs(1005)));
        assert!(!stops.is_overdue(secs(1005).saturating_sub(Duration::from_millis(1))));
        assert!(stops.is_overdue(secs(1005)));
        assert!(!stops.is_overdue(secs(1006)), "they are killed once");
    }

    #[test]
    fn no_number_of_crashes_overflows_the_wait() {
        let pace = Pace::default();
        assert_eq!(pace.delay(usize::MAX), secs(30));
        assert_eq!(pace.delay(34), secs(30));
        assert_eq!(pace.delay(33), secs(30));
    }
}
