//! Makes of a damaged store the best one that can be proven: the newest snapshot that is whole,
//! and the unbroken run of records behind it.
//!
//! [`diagnose`] reads and says what would come of it, [`Plan::carry_out`] does it. What lies
//! behind the first hole is set aside, or, by [`Method::Salvage`], applied as far as it can follow.
//! Nothing is removed, and nothing is changed before the result was read back and is what the plan
//! promised.

mod run;

use super::check::{check, load};
use super::{digest, for_each_record, write_snapshot};
use crate::journal::disk::Disk;
use crate::journal::repair::{ALIGNMENT, Staged, space_needed};
use crate::journal::{JournalError, Remains, Report, SKIP, SnapshotLength, TailClass, Unusable};
use crate::kernel::State;
use crate::kernel::ids::{Seq, TaskId};
use run::Run;
use std::collections::BTreeSet;
use std::convert::Infallible;

/// What becomes of the records behind the first hole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// They are set aside: the result is a state that the store once had.
    #[default]
    Cut,
    /// Each that can still follow is applied, the others are set aside and named.
    Salvage,
}

/// Sequences from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// A record that is whole and can't follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its sequence.
    pub seq: u64,
    /// The event's name; none where the body can't be read.
    pub event: Option<&'static str>,
    /// The task it is about, if it is about one.
    pub task: Option<TaskId>,
    /// Why it can't follow.
    pub why: String,
}

/// Why a repair has something to do.
#[derive(Debug)]
pub enum Fault {
    /// A start refuses the store.
    Refused(JournalError),
    /// The last write is there in full, yet wrong.
    SuspiciousEnd(TailClass),
}

/// What one of the methods makes of a store.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The state that the new store begins with.
    pub state: State,
    /// Records that it holds besides its base.
    pub applied: u64,
    /// Whole records that are set aside, by sequence.
    pub aside: Vec<Span>,
    /// How many they are.
    pub aside_count: u64,
    /// Tasks that whole records speak of and that are not in the state.
    pub lost: BTreeSet<TaskId>,
    /// Tasks of the state that records set aside speak of: it may be older than it was.
    pub older: BTreeSet<TaskId>,
}

/// What a repair would do, in full.
#[derive(Debug)]
pub struct Plan {
    /// What is wrong.
    pub fault: Fault,
    /// What becomes of the records behind the first hole.
    pub method: Method,
    /// The snapshot that the state is built on; none is the journal's beginning.
    pub base: Option<u64>,
    /// What comes of it by the method that was asked for.
    pub outcome: Outcome,
    /// Sequences of which nothing whole is left, or which were never given.
    pub unreadable: Vec<Span>,
    /// The newest segment can't be read: the first sequence of which nobody can tell whether it, and
    /// what followed, was ever given.
    pub end_unknown: Option<u64>,
    /// Ids of tasks of which nothing whole is left.
    pub nameless: Vec<Span>,
    /// Under [`Method::Cut`]: records that [`Method::Salvage`] would keep in addition.
    pub salvageable: u64,
    /// Under [`Method::Salvage`]: the records that can't follow.
    pub skipped: Vec<Skipped>,
    /// Files that can't be used, and why.
    pub unusable: Vec<Unusable>,
    /// The sequence that the next record gets.
    pub next_seq: u64,
    /// The id that the next task gets.
    pub next_task: TaskId,
    /// Digest of the state that the new store begins with.
    pub digest: String,
    /// Bytes that must be free.
    pub needed: u64,
    remains: Remains,
    snapshot_bytes: u64,
}

/// What a look at a store comes to.
#[derive(Debug)]
pub enum Diagnosis {
    /// There is nothing to repair: an engine starts.
    Healthy(Box<Report>),
    /// A repair would do this.
    Plan(Box<Plan>),
}

/// Checks a store as `verify` does and, where an engine would not start, plans a repair. Writes
/// nothing. Fails where nothing can be planned: see [`JournalError::Unrepairable`].
pub fn diagnose(disk: &impl Disk, method: Method) -> Result<Diagnosis, JournalError> {
    let fault = match check(disk) {
        Ok(checked) => match checked.report.tail {
            TailClass::End | TailClass::Torn { .. } => {
                return Ok(Diagnosis::Healthy(Box::new(checked.report)));
            }
            tail @ TailClass::Suspicious { .. } => Fault::SuspiciousEnd(tail),
        },
        Err(
            error @ (JournalError::Damage(_)
            | JournalError::Missing { .. }
            | JournalError::Foreign { .. }
            | JournalError::Refused { .. }),
        ) => Fault::Refused(error),
        Err(error) => return Err(error),
    };
    Plan::make(disk, method, fault).map(|plan| Diagnosis::Plan(Box::new(plan)))
}

impl Plan {
    fn make(disk: &impl Disk, method: Method, fault: Fault) -> Result<Self, JournalError> {
        let mut remains = Remains::read(disk)?;
        let (base, state) = choose_base(disk, &mut remains)?;
        if base.is_none() && !remains.has_segments() {
            return Err(unrepairable("no segment and no snapshot can be read"));
        }
        let mut run = Run::new(base, &state, u64::MAX);
        remains.remnants(disk, &mut |remnant| run.take(remnant))?;
        if let Some(limit) = run.refused_at {
            // A whole record that can't follow: no part of its frame may count.
            run = Run::new(base, &state, limit);
            remains.remnants(disk, &mut |remnant| run.take(remnant))?;
        }
        let last_write = u64::from(matches!(fault, Fault::SuspiciousEnd(_)));
        run.end(remains.last_seq.max(run.next - 1 + last_write));
        if base.is_none() && !remains.has_beginning() {
            check_salvageable(method, run.applied_behind)?;
        }
        let spent = run.next.max(remains.last_seq.saturating_add(1));
        let next_seq = spent.saturating_add(SKIP);
        let next_task = TaskId(run.next_task.0.max(1).saturating_add(SKIP));
        let mut skipped = std::mem::take(&mut run.skipped);
        let (unreadable, salvageable) = (run.unreadable.clone(), run.applied_behind);
        let nameless = run.nameless();
        let mut outcome = match method {
            Method::Cut => run.cut(&mut skipped),
            Method::Salvage => run.salvaged(&skipped),
        };
        outcome.state.check().map_err(|what| unrepairable(&what))?;
        outcome.state.skip_ahead(Seq(next_seq), next_task);
        let snapshot_bytes = snapshot_bytes(&outcome.state);
        Ok(Self {
            fault,
            method,
            base,
            unreadable,
            end_unknown: (!remains.has_end()).then_some(spent),
            nameless,
            salvageable: if method == Method::Cut { salvageable } else { 0 },
            skipped,
            unusable: remains.unusable.clone(),
            next_seq,
            next_task,
            digest: digest(&outcome.state.image()),
            needed: space_needed(snapshot_bytes),
            outcome,
            remains,
            snapshot_bytes,
        })
    }

    /// Whether the new store holds all that the old one ever held, as far as anything shows.
    pub fn loses_nothing(&self) -> bool {
        self.unreadable.is_empty() && self.end_unknown.is_none() && self.outcome.aside_count == 0
    }

    /// Puts the new store in the place of the old one; returns the directory in `quarantine/` that
    /// holds every file of the old one. The caller holds the lock of the data directory; `random`
    /// is different each time.
    ///
    /// # After a crash
    /// The old store is as it was, or a start refuses until [`crate::journal::repair::install`]
    /// was called.
    pub fn carry_out<D: Disk>(&self, disk: &D, random: u64) -> Result<String, JournalError> {
        let Self { remains, next_seq, snapshot_bytes, .. } = self;
        let mut staged = Staged::begin(disk, remains, *next_seq, *snapshot_bytes, random)?;
        let written =
            staged.write().and_then(|writer| write_snapshot(&self.outcome.state.image(), writer));
        match written.and_then(|_| self.verify(staged.disk())) {
            Ok(()) => staged.install(),
            Err(error) => {
                // A full disk must not stay full of what is of no use; after any other error of
                // the storage no further call is made.
                if matches!(error, JournalError::NoSpace { .. } | JournalError::Unrepairable { .. })
                {
                    staged.abandon()?;
                }
                Err(error)
            }
        }
    }

    /// Reads the new store as a start would, and compares.
    fn verify(&self, staged: &impl Disk) -> Result<(), JournalError> {
        let differs = |what: &str| unrepairable(&format!("the new store is not whole: {what}"));
        let checked = check(staged).map_err(|error| match error {
            JournalError::Io { .. } => error,
            _ => differs(error.to_string().lines().next().unwrap_or_default()),
        })?;
        let report = &checked.report;
        if let Some(note) = report.notes.first() {
            return Err(differs(note));
        }
        if report.exit_code() != 0 || report.tail != TailClass::End {
            return Err(differs("it does not end as it should"));
        }
        if report.next_seq != self.next_seq || report.floor != Some(self.next_seq - 1) {
            return Err(differs("its next sequence is another"));
        }
        if digest(&checked.state.image()) != self.digest {
            return Err(differs("its state is another"));
        }
        Ok(())
    }
}

fn unrepairable(what: &str) -> JournalError {
    JournalError::Unrepairable { what: what.to_owned() }
}

/// Without a beginning and a snapshot no state can be proven.
fn check_salvageable(method: Method, records: u64) -> Result<(), JournalError> {
    let lost = "the journal has lost its beginning, and no snapshot is whole";
    match (method, records) {
        (_, 0) => Err(unrepairable(lost)),
        (Method::Cut, _) => Err(unrepairable(&format!(
            "{lost}; `--method salvage` would keep the {records} records that can stand alone"
        ))),
        (Method::Salvage, _) => Ok(()),
    }
}

fn snapshot_bytes(state: &State) -> u64 {
    let mut size = SnapshotLength::new(ALIGNMENT);
    let pushed: Result<(), Infallible> = for_each_record(&state.image(), |_, body| {
        size.add(body.len());
        Ok(())
    });
    match pushed {
        Ok(()) => size.finish(),
        Err(never) => match never {},
    }
}

/// The newest snapshot that can be used, and its state. From it on at least as much is held as
/// from any older one: a run of records that reaches it goes on behind it as well.
fn choose_base(
    disk: &impl Disk,
    remains: &mut Remains,
) -> Result<(Option<u64>, State), JournalError> {
    while let Some(seq) = remains.snapshots.pop() {
        let checked = load(disk, seq).map(|state| (state.check(), state));
        let why = match checked {
            Ok((Ok(()), state)) => return Ok((Some(seq), state)),
            Ok((Err(why), _)) => why,
            Err(JournalError::Refused { text, .. }) => text,
            Err(error) => return Err(error),
        };
        let file = crate::journal::segment::snapshot_path(seq);
        remains.unusable.push(Unusable { file, why });
    }
    Ok((None, State::default()))
}

impl Outcome {
    fn new(state: State, applied: u64, aside: Vec<Span>, touched: BTreeSet<TaskId>) -> Self {
        let aside_count = aside.iter().map(Span::count).sum();
        let (older, lost) = touched.into_iter().partition(|id| state.task(*id).is_some());
        Self { state, applied, aside, aside_count, lost, older }
    }
}

impl Span {
    /// How many sequences it has.
    pub const fn count(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}
