//! The engine owns the state and the journal, and is the only place with an order: decide and
//! apply each command, encode, one write, one sync, and only then publish.
//!
//! It is one thread's worth of work without the thread: [`Engine::step`] takes inputs and the
//! clocks' readings and returns outputs. It owns no socket, no clock and no dice, so the simulator
//! runs the very same code. A storage error is final: memory is ahead of the disk then, and the
//! process must end.

pub mod check;
pub mod codec;
mod compaction;
pub mod dump;
mod fires;
mod image;
mod queue;
mod rebuild;
pub mod repair;
mod retention;
mod settle;
mod start;
mod turn;

pub use compaction::{Compacted, compact};
pub use fires::arrangement;
pub use image::{digest, for_each_record, hex, write_snapshot};
pub use rebuild::{Fold, Piece, Rebuild, Rebuilding};
pub use start::Start;

use fires::Firing;
use retention::Leaving;

use crate::journal::disk::Disk;
use crate::journal::{
    Batch, Host, Journal, JournalError, Options, Recovery, SnapshotDone, SnapshotWriter,
};
use crate::kernel::event::{Actor, Event, Stamp};
use crate::kernel::ids::{
    Fence, LifeTime, Millis, Moment, Seq, ServiceTime, TaskId, Timestamp, WorkerId,
};
use crate::kernel::rules::Rules;
use crate::kernel::status::{Reason, Status};
use crate::kernel::task::{SecretHash, Task};
use crate::kernel::text::Text;
use crate::kernel::{Answer, Command, Image, Rejection, State};
use std::collections::{BTreeMap, BTreeSet};

/// Names one request, so that its answer finds its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Everything the engine can be told.
#[derive(Debug)]
pub enum Input {
    /// Commands of one request, decided in order. Answered with one answer each.
    Ask {
        /// Who waits for the answers.
        from: Ticket,
        /// On whose behalf.
        by: Actor,
        /// The commands.
        commands: Vec<Command>,
    },
    /// A worker waits for work: answered as soon as there is some, or empty when its patience
    /// is over.
    AwaitLease {
        /// Who waits for the answer.
        from: Ticket,
        /// The worker.
        worker: WorkerId,
        /// Hashes of the secrets for the leases.
        secrets: Vec<SecretHash>,
        /// How long it waits.
        patience: Millis,
    },
    /// The caller of a long poll went away.
    Forget(Ticket),
    /// Whatever ran under a lease is known to be dead, and nothing can start under it any more.
    Swept {
        /// The task.
        task: TaskId,
        /// Token of the lease.
        fence: Fence,
        /// Whether a handler had ever been started.
        ran: bool,
    },
    /// A worker is known to be dead.
    WorkerDied {
        /// The worker.
        worker: WorkerId,
        /// `worker_crash` or `host_rebooted`.
        reason: Reason,
    },
    /// Tasks are durable in the archive, or could not be written there, and why.
    Archived {
        /// The tasks.
        tasks: Vec<TaskId>,
        /// Whether they are there.
        written: Result<(), String>,
    },
    /// A snapshot was written, or not.
    SnapshotWritten(Result<SnapshotDone, JournalError>),
    /// The wall clock was put forward or back since the turn before.
    ClockStepped {
        /// What it would show without the step.
        from: Timestamp,
        /// What it shows.
        to: Timestamp,
    },
}

/// Everything the engine can ask for.
pub enum Output<D: Disk> {
    /// Answers to a request; what they speak of is durable.
    Answers {
        /// Who waits for them.
        to: Ticket,
        /// One for each command, in order.
        answers: Vec<Result<Answer, Rejection>>,
    },
    /// Kill whatever ran under a lease and see to it that nothing can start under it; then say
    /// [`Input::Swept`].
    Sweep {
        /// The task.
        task: TaskId,
        /// Token of the lease.
        fence: Fence,
    },
    /// What happened, in order, all of it durable (heartbeats as far as they were written along).
    Events(Vec<Recorded>),
    /// Write ended tasks to the archive, durably, on another thread; then say
    /// [`Input::Archived`]. One at a time.
    Archive(Vec<Task>),
    /// Write a snapshot on another thread with [`write_snapshot`], then say
    /// [`Input::SnapshotWritten`].
    Snapshot {
        /// The state at one sequence number.
        image: Box<Image>,
        /// Where it goes.
        writer: Box<SnapshotWriter<D>>,
    },
}

/// An event with what a watcher wants to know besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When and by whom.
    pub stamp: Stamp,
    /// What happened.
    pub event: Event,
    /// The type of its task, or the type that it is about.
    pub kind: Option<Text>,
    /// The task's status before.
    pub from: Option<Status>,
    /// The task's status after.
    pub to: Option<Status>,
}

/// When the engine must be called next although nobody says anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// At this reading of the service clock.
    pub service: Option<ServiceTime>,
    /// At this reading of the life clock.
    pub life: Option<LifeTime>,
    /// At this reading of the wall clock.
    pub wall: Option<Timestamp>,
    /// At this reading of the life clock, or some time later: nobody waits for it.
    pub unhurried: Option<LifeTime>,
    /// At once: a turn left work over.
    pub now: bool,
}

/// A worker that waits for work.
#[derive(Debug)]
struct Waiter {
    from: Ticket,
    worker: WorkerId,
    secrets: Vec<SecretHash>,
    until: LifeTime,
}

/// State and journal, and what happens between them.
#[expect(clippy::struct_excessive_bools, reason = "three independent things a turn must know")]
pub struct Engine<D: Disk> {
    state: State,
    journal: Journal<D>,
    rules: Rules,
    /// Records that were applied and are not on disk yet: the next frame.
    batch: Batch,
    /// Whether the batch holds a record that somebody waits for.
    urgent: bool,
    /// When the batch must be written although nobody waits for it.
    flush_at: Option<ServiceTime>,
    /// Outputs that rest on records which are not on disk yet.
    held: Vec<Output<D>>,
    /// Events of the batch.
    recorded: Vec<Recorded>,
    /// Outputs whose records are on disk.
    outbox: Vec<Output<D>>,
    waiters: Vec<Waiter>,
    /// When each worker was last heard of. Kept here, not in the state: a restart gives everybody
    /// a fresh chance.
    heard: BTreeMap<WorkerId, ServiceTime>,
    /// Sweeps under way, so that each is asked for once.
    sweeping: BTreeSet<(TaskId, Fence)>,
    /// Record bytes after the last snapshot at which the next one is taken.
    snapshot_after: u64,
    snapshot_running: bool,
    leaving: Leaving,
    firing: Firing,
    /// Schedules of the config that could not be set at the start, and why.
    refused_schedules: Vec<(Text, Rejection)>,
    /// When it was last seen that the journal's file still has its name.
    there: LifeTime,
    /// Bytes of the last snapshot.
    snapshot_bytes: u64,
    /// Under an interval policy: how long the next sync may still wait.
    sync_left: Option<std::time::Duration>,
    /// The life clock at the last turn.
    turned: LifeTime,
    /// A turn left work over.
    again: bool,
    /// Encoded bodies of one decision; kept for its memory.
    scratch: Vec<u8>,
    /// Bytes for which there was room when the disk was last asked, for the frame at hand alone.
    roomy: u64,
}

/// Record bytes between two snapshots, unless the state is so large that this would be too often.
pub const SNAPSHOT_AFTER: u64 = 16 << 20;

impl<D: Disk> Engine<D> {
    /// Opens the journal and rebuilds the state. Nothing is decided before [`Engine::start`].
    ///
    /// Fails as [`Journal::open`] does, also when a record cannot follow the state.
    pub fn open(
        disk: D,
        options: Options,
        host: Host,
        rules: Rules,
    ) -> Result<(Self, Recovery), JournalError> {
        Self::open_with(disk, options, host, rules, Rebuild::default())
    }

    /// The same, with another way to rebuild the state.
    pub fn open_with(
        disk: D,
        options: Options,
        host: Host,
        rules: Rules,
        mut rebuild: impl Rebuilding,
    ) -> Result<(Self, Recovery), JournalError> {
        let (journal, recovery) = Journal::open(disk, options, host, &mut rebuild)?;
        let mut state = rebuild.finish();
        state.skip_to(Seq(journal.next_seq()));
        let engine = Self {
            state,
            journal,
            rules,
            batch: Batch::new(),
            urgent: false,
            flush_at: None,
            held: Vec::new(),
            recorded: Vec::new(),
            outbox: Vec::new(),
            waiters: Vec::new(),
            heard: BTreeMap::new(),
            sweeping: BTreeSet::new(),
            snapshot_after: SNAPSHOT_AFTER,
            snapshot_running: false,
            leaving: Leaving::default(),
            firing: Firing::default(),
            refused_schedules: Vec::new(),
            there: LifeTime(0),
            snapshot_bytes: recovery.snapshot.map_or(0, |snapshot| snapshot.bytes),
            sync_left: None,
            turned: LifeTime(0),
            again: false,
            scratch: Vec::new(),
            roomy: 0,
        };
        Ok((engine, recovery))
    }

    /// The state. Between two turns it holds nothing but what is durable, heartbeats excepted.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The journal, for its figures.
    pub const fn journal(&self) -> &Journal<D> {
        &self.journal
    }

    /// Schedules of the config that could not be set at the start, and why.
    pub fn refused_schedules(&self) -> &[(Text, Rejection)] {
        &self.refused_schedules
    }

    /// The rules in force.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Puts other rules in force, for decisions from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Sets after how many record bytes a snapshot is taken.
    pub fn set_snapshot_after(&mut self, bytes: u64) {
        self.snapshot_after = bytes;
    }

    /// Writes what is still in memory and closes the journal.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.commit()?;
        self.journal.close()
    }

    /// The moment of a turn with a die of its own for each command.
    fn roll(now: &mut Moment) -> Moment {
        // splitmix64: one seed a turn is enough, and the simulator can repeat it.
        now.dice = now.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = now.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Moment { dice: z ^ (z >> 31), ..*now }
    }
}
