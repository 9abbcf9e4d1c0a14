//! What is done to the daemon: drawn by the seed, one after the other, while what an earlier one
//! began may still last.

use super::house::House;
use super::parts::{Part, Role};
use super::place::Place;
use super::proxy::Proxy;
use midwatch::sim::Dice;
use rustix::process::{Signal, pidfd_send_signal};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Whom a signal is for; nobody in particular is everybody.
type Victim = Option<Role>;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// SIGKILL.
    Kill(Victim),
    /// SIGSTOP, and SIGCONT after a while.
    Stop(Victim),
    /// SIGTERM, as an administrator ends it.
    Term(Victim),
    /// SIGHUP.
    Reload,
    /// The wall clock jumps.
    Wall,
    /// Everything is killed and comes back with another boot clock.
    Boot,
    /// The disk is full for a while.
    Disk,
    /// All connections through the proxy break.
    Cut,
}

/// Each kind and how often of all. Supervisors go often, so that no child is parked for long.
const KINDS: [(Kind, usize); 19] = [
    (Kind::Kill(Some(Role::Worker)), 6),
    (Kind::Kill(Some(Role::Engine)), 6),
    (Kind::Kill(Some(Role::Supervisor)), 7),
    (Kind::Kill(Some(Role::Handler)), 3),
    (Kind::Kill(None), 4),
    (Kind::Stop(Some(Role::Worker)), 5),
    (Kind::Stop(Some(Role::Engine)), 6),
    (Kind::Stop(Some(Role::Supervisor)), 2),
    (Kind::Stop(Some(Role::Handler)), 2),
    (Kind::Stop(None), 2),
    (Kind::Term(Some(Role::Worker)), 2),
    (Kind::Term(Some(Role::Engine)), 1),
    (Kind::Term(Some(Role::Supervisor)), 2),
    (Kind::Term(None), 1),
    (Kind::Reload, 1),
    (Kind::Wall, 6),
    (Kind::Boot, 2),
    (Kind::Disk, 4),
    (Kind::Cut, 5),
];

/// Seconds by which the wall clock is off: nothing, a second, an hour, near 1970, in 2038.
const WALLS: [i64; 7] = [0, 1, -1, 3600, -3600, i64::MIN, i64::MAX];

/// What ends by itself after a while.
enum Until {
    Continued(Vec<OwnedFd>),
    Freed,
}

/// Faults at work.
pub(super) struct Faults {
    dice: Dice,
    proxy: Proxy,
    pending: Vec<(Instant, Until)>,
    next: Instant,
    /// Each fault, and how often it was done.
    pub(super) done: BTreeMap<String, u64>,
}

impl Faults {
    pub(super) fn new(dice: Dice, proxy: Proxy) -> Self {
        let next = Instant::now() + Duration::from_secs(1);
        Self { dice, proxy, pending: Vec::new(), next, done: BTreeMap::new() }
    }

    /// Whether something lasts that may keep the daemon from answering.
    pub(super) fn last(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Ends what is over by now, and does the next one if it is time.
    pub(super) fn turn(&mut self, house: &mut House<'_>) {
        let now = Instant::now();
        self.end(house, |at| at <= now);
        if self.next <= now {
            let kind = self.draw();
            self.strike(kind, house);
            // Short and long pauses alike: some faults meet the recovery from others.
            let pause = [60, 400, 900, 1_600][self.dice.below(4)];
            self.next = Instant::now() + Duration::from_millis(pause);
        }
    }

    /// Ends whatever lasts.
    pub(super) fn calm(&mut self, house: &House<'_>) {
        self.end(house, |_| true);
        self.proxy.calm();
        house.place.set_wall(0);
    }

    fn end(&mut self, house: &House<'_>, is_over: impl Fn(Instant) -> bool) {
        for (_, until) in self.pending.extract_if(.., |(at, _)| is_over(*at)) {
            match until {
                Until::Freed => house.place.free(),
                Until::Continued(handles) => {
                    for handle in handles {
                        let _gone = pidfd_send_signal(&handle, Signal::CONT);
                    }
                }
            }
        }
    }

    fn draw(&mut self) -> Kind {
        let mut place = self.dice.below(KINDS.iter().map(|(_, weight)| weight).sum());
        for (kind, weight) in KINDS {
            if place < weight {
                return kind;
            }
            place -= weight;
        }
        Kind::Cut
    }

    fn count(&mut self, what: String) {
        *self.done.entry(what).or_default() += 1;
    }

    /// A span between 50 ms and 8 s, short ones as likely as long ones.
    fn span(&mut self) -> Duration {
        let doubled = 50 << self.dice.below(7);
        Duration::from_millis(doubled + self.dice.below(1600) as u64)
    }

    fn strike(&mut self, kind: Kind, house: &mut House<'_>) {
        match kind {
            Kind::Kill(victim) => self.signal("SIGKILL", Signal::KILL, victim, house),
            Kind::Term(victim) => self.signal("SIGTERM", Signal::TERM, victim, house),
            Kind::Reload => self.signal("SIGHUP", Signal::HUP, Some(Role::Supervisor), house),
            Kind::Stop(victim) => self.stop(victim, house),
            Kind::Wall if house.place.has_wall() => self.jump(house),
            Kind::Boot if house.place.has_boot_shifts() => self.shift(house),
            Kind::Disk if house.place.has_disk() => {
                house.place.fill();
                let until = Instant::now() + self.span();
                self.pending.push((until, Until::Freed));
                self.count("disk full".into());
            }
            Kind::Wall | Kind::Boot | Kind::Disk => {}
            Kind::Cut => {
                if 0 < self.proxy.cut() {
                    self.count("all connections cut".into());
                }
            }
        }
    }

    /// One process of the role, or every process of the daemon.
    fn victims(&mut self, victim: Victim, house: &House<'_>) -> Vec<Part> {
        let mut parts = house.marks.look();
        match victim {
            None => parts.retain(|part| part.role != Role::Handler),
            Some(role) => {
                parts.retain(|part| part.role == role);
                if !parts.is_empty() {
                    let chosen = self.dice.below(parts.len());
                    parts.swap(0, chosen);
                    parts.truncate(1);
                }
            }
        }
        parts
    }

    fn signal(&mut self, name: &str, signal: Signal, victim: Victim, house: &House<'_>) {
        let parts = self.victims(victim, house);
        if parts.is_empty() {
            return;
        }
        for part in &parts {
            part.signal(signal);
        }
        self.count(format!("{name} {}", named(victim)));
    }

    fn stop(&mut self, victim: Victim, house: &House<'_>) {
        let parts = self.victims(victim, house);
        if parts.is_empty() {
            return;
        }
        for part in &parts {
            part.signal(Signal::STOP);
        }
        let span = self.span();
        let long = if Duration::from_secs(1) < span { "beyond suspicion" } else { "for a moment" };
        let handles = parts.into_iter().map(Part::into_handle).collect();
        self.pending.push((Instant::now() + span, Until::Continued(handles)));
        self.count(format!("SIGSTOP {} {long}", named(victim)));
    }

    fn jump(&mut self, house: &House<'_>) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let now = i64::try_from(now.as_secs()).unwrap();
        let (offset, name) = match WALLS[self.dice.below(WALLS.len())] {
            i64::MIN => (100 - now, "to 1970".to_owned()),
            // A few seconds before 32 bits are full.
            i64::MAX => (i64::from(i32::MAX) - 5 - now, "to 2038".to_owned()),
            offset => (offset, format!("{offset:+} s")),
        };
        house.place.set_wall(offset);
        self.count(format!("wall clock {name}"));
    }

    /// Some seconds of suspend, or a boot clock that begins anew.
    fn shift(&mut self, house: &mut House<'_>) {
        house.kill_daemon();
        let (least, most) = Place::boot_offsets();
        let spread = usize::try_from(most - least).unwrap_or(1).max(1);
        let offset = least + i64::try_from(self.dice.below(spread)).unwrap_or(0);
        house.place.set_boot(offset);
        self.count("restart with another boot clock".into());
    }
}

fn named(victim: Victim) -> String {
    victim.map_or_else(|| "all".to_owned(), |role| role.to_string())
}
