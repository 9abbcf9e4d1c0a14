//! How harsh a simulated world is, and what happened in it.

use super::dice::Dice;
use crate::journal::Fsync;
use std::time::Duration;

/// How harsh a world is; each kind of trouble is on or off for a whole run.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Engine, worker and power failures happen once in this many steps; 0 is never.
    pub crash_one_in: usize,
    /// A disk call fails once in this many steps; 0 is never.
    pub fault_one_in: usize,
    /// The disk turns read-only or full for a while, once in this many steps; 0 is never.
    pub turn_one_in: usize,
    /// Answers get lost once in this many; 0 is never.
    pub loss_one_in: usize,
    /// Workers stall once in this many steps; 0 is never.
    pub stall_one_in: usize,
    /// The wall clock jumps or freezes, or the host is suspended, once in this many steps; 0 is
    /// never.
    pub jump_one_in: usize,
    /// A power cut may leave garbage in the sectors in flight.
    pub garbage: bool,
    /// Bytes that the disk holds.
    pub capacity: u64,
    /// When the journal syncs.
    pub fsync: Fsync,
}

impl Weather {
    /// Nothing goes wrong.
    pub const CALM: Self = Self {
        crash_one_in: 0,
        fault_one_in: 0,
        turn_one_in: 0,
        loss_one_in: 0,
        stall_one_in: 0,
        jump_one_in: 0,
        garbage: false,
        capacity: u64::MAX,
        fsync: Fsync::Always,
    };

    /// Each kind of trouble for half of the seeds, its strength drawn log-uniformly.
    pub fn draw(dice: &mut Dice) -> Self {
        let mut strength = |weakest: usize| {
            if dice.one_in(2) { 0 } else { 8_usize << dice.below(weakest) }
        };
        let (crash_one_in, fault_one_in) = (strength(5), strength(6));
        let (loss_one_in, stall_one_in, jump_one_in) = (strength(4), strength(5), strength(5));
        let turn_one_in = strength(5).saturating_mul(8);
        let capacity = if dice.one_in(2) { u64::MAX } else { (300 << 10) << dice.below(4) };
        let garbage = dice.one_in(2);
        let fsync = match dice.below(4) {
            0 => Fsync::Never,
            1 => Fsync::Interval(Duration::from_millis(200 << dice.below(5))),
            _ => Fsync::Always,
        };
        Self {
            crash_one_in,
            fault_one_in,
            turn_one_in,
            loss_one_in,
            stall_one_in,
            jump_one_in,
            garbage,
            capacity,
            fsync,
        }
    }
}

/// Writes each figure once: its field, its word in reports, and how two are added.
macro_rules! deeds {
    ($($(#[$doc:meta])* $name:ident $word:literal),* $(,)?) => {
        /// What a run did, for the report.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Deeds { $($(#[$doc])* pub $name: u64),* }

        impl Deeds {
            /// Each figure with its name.
            pub fn figures(self) -> Vec<(&'static str, u64)> {
                vec![$(($word, self.$name)),*]
            }

            /// Adds another run's.
            pub fn add(&mut self, more: Self) {
                $(self.$name += more.$name;)*
            }
        }
    };
}

deeds! {
    /// Commands told to the engine.
    commands "commands",
    /// Starts of the engine after the first.
    restarts "restarts",
    /// Power cuts among them.
    power_cuts "power cuts",
    /// Power cuts that took records which a weak policy had let out before their sync.
    losses "losses under a weak policy",
    /// Starts that set a suspicious tail aside.
    suspicious "suspicious tails",
    /// Failures of the disk that came true.
    disk_failures "disk failures",
    /// Times that the disk turned read-only or full.
    turns "turns of the disk",
    /// Jumps, freezes and suspends of the clocks.
    jumps "jumps of the clocks",
    /// Workers killed.
    workers_killed "workers killed",
    /// Calls about leases that were refused as stale.
    stale "stale calls",
    /// Sweeps done.
    sweeps "sweeps",
    /// Snapshots taken.
    snapshots "snapshots",
    /// Tasks that ended.
    ended "tasks ended",
    /// Submissions refused for want of room.
    no_space "refusals for want of room",
    /// Submissions refused because all tasks together would take too much.
    state_full "refusals for want of state",
    /// Ended tasks that were let go.
    forgotten "ended tasks let go",
    /// Types paused.
    pauses "types paused",
    /// Bounds set or given back.
    limits "bounds of types changed",
    /// Dispatches that used up what a bound allowed.
    brims "dispatches up to a bound",
    /// Dispatches out of turn.
    promotions "promotions",
    /// Tasks that another one no longer waits for.
    releases "dependencies met",
    /// Tasks cancelled because another one did not end as hoped.
    given_up "dependencies failed",
    /// Waiting tasks changed.
    edits "tasks edited",
}
