//! What goes wrong in a simulated world, and how everything mends in the end.

use super::weather::Weather;
use super::world::World;
use super::{Failure, Op, PageFate, Times, Turn};
use crate::kernel::status::Status;
use rustix::io::Errno;

impl World {
    pub(super) fn trouble(&mut self) {
        let Weather { crash_one_in, fault_one_in, stall_one_in, jump_one_in, turn_one_in, .. } =
            self.weather;
        if self.lucky(crash_one_in) {
            self.crash();
        }
        if self.lucky(fault_one_in) {
            self.plan_fault();
        }
        if self.lucky(stall_one_in) {
            let place = self.dice.below(self.workers.len());
            self.workers[place].stalled = 1 + self.dice.below(40);
        }
        if self.lucky(jump_one_in) {
            self.disturb_clocks();
        }
        self.turn_disk(turn_one_in);
    }

    fn crash(&mut self) {
        match self.dice.below(4) {
            0 if self.engine.is_some() => self.engine_is_killed(),
            1 => {
                self.engine_dies();
                self.power_cut();
            }
            2 => {
                // The power fails inside a disk call that is still to come.
                let call = self.disk.calls() + 1 + self.dice.below(12) as u64;
                self.disk.crash_at(call, self.dice.one_in(2));
                self.faults_planned = true;
            }
            _ => {
                let place = self.dice.below(self.workers.len());
                self.kill_worker(place);
            }
        }
    }

    fn plan_fault(&mut self) {
        let nth = 1 + self.dice.below(6) as u64;
        let op = Op::ALL[self.dice.below(Op::ALL.len())];
        let failure = match (op, self.dice.below(5)) {
            (Op::Sync, 0) => Failure::Sync(PageFate::Dropped),
            (Op::Sync, 1) => Failure::Sync(PageFate::CacheOnly),
            (Op::Sync, _) => Failure::Sync(PageFate::Kept),
            (Op::Write | Op::Read, 0) => Failure::Short(1 + self.dice.below(600)),
            (_, 1) => Failure::Error(Errno::INTR),
            (_, 2) => Failure::Error(Errno::NOSPC),
            (_, 3) => Failure::Error(Errno::DQUOT),
            _ => Failure::Error(Errno::IO),
        };
        let endless = matches!(failure, Failure::Error(Errno::INTR));
        let once = endless || self.dice.one_in(2);
        self.disk.fail(op, nth, failure, if once { Times::Once } else { Times::Forever });
        self.faults_planned = true;
    }

    /// The wall clock jumps, falls back to 1970 or stands still; or the whole host is suspended,
    /// which the boot clock counts and the service clock does not.
    fn disturb_clocks(&mut self) {
        self.deeds.jumps += 1;
        let jump = [1_000, 3_600_000, 1 << 39][self.dice.below(3)];
        let wall = self.clocks.wall;
        match self.dice.below(5) {
            0 => self.clocks.wall = wall + jump,
            1 => self.clocks.wall = wall.saturating_sub(jump),
            2 => self.clocks.wall = self.dice.below(1_000) as u64,
            3 => self.clocks.frozen = 1 + self.dice.below(60),
            _ => {
                let slept = jump.min(86_400_000);
                self.clocks.wall += slept;
                self.clocks.boot += slept;
                self.clocks.life += slept;
            }
        }
    }

    /// The disk turns read-only or full for a while.
    fn turn_disk(&mut self, one_in: usize) {
        match self.turned {
            Some((_, 0)) => {
                self.turned = None;
                self.disk.heal();
                self.faults_planned = false;
            }
            Some((turn, left)) => self.turned = Some((turn, left - 1)),
            None => {
                if !self.lucky(one_in) {
                    return;
                }
                let turn = [Turn::ReadOnly, Turn::Full][self.dice.below(2)];
                self.disk.turn(0, turn);
                self.turned = Some((turn, 1 + self.dice.below(50)));
                self.deeds.turns += 1;
            }
        }
    }

    /// Everything mends; then every task must end within bounded time, and nothing may be wrong.
    pub fn calm_down(&mut self) {
        self.weather = Weather { fsync: self.weather.fsync, ..Weather::CALM };
        self.turned = None;
        self.disk.heal();
        self.disk.capacity(u64::MAX);
        self.clocks.frozen = 0;
        // Every date lies behind, also one that was given while the clock was far ahead.
        self.clocks.wall = self.clocks.wall.max(1 << 42);
        self.faults_planned = true; // a planned power cut may still come
        let mut patience = 40_000;
        loop {
            patience -= 1;
            assert!(0 < patience, "I17: {} tasks never end", self.unfinished());
            self.step_calmly();
            if self.engine.is_some() && self.unfinished() == 0 {
                break;
            }
        }
        self.restart_once_more();
    }

    fn step_calmly(&mut self) {
        self.pass(250);
        if self.engine.is_none() {
            self.start();
            return;
        }
        self.sweep_one();
        self.archive();
        self.write_one_snapshot();
        self.turn(Vec::new());
        for place in 0..self.workers.len() {
            self.workers[place].stalled = 0;
            self.worker(place);
        }
        self.resume_paused();
        self.open_types();
    }

    fn unfinished(&self) -> usize {
        let Some(state) = self.state() else { return usize::MAX };
        let open = Status::ALL.iter().filter(|status| !status.is_terminal());
        open.map(|status| state.index().count(*status)).sum()
    }
}
