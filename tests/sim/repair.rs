//! Repairs of stores that were damaged in every way there is: what comes of them is what the bytes
//! that nobody touched can prove, and not a byte is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use midwatch::engine::repair::{Diagnosis, Method, Plan, diagnose};
use midwatch::engine::{Engine, Input, Output, Rebuild, Rebuilding, Start, Ticket};
use midwatch::engine::{digest, write_snapshot};
use midwatch::journal::segment::{parse_segment_name, parse_snapshot_name};
use midwatch::journal::{
    FrameAt, Fsync, Header, Host, JournalError, Options, Visitor, replay, salvage, scan,
};
use midwatch::kernel::event::{Actor, Registration};
use midwatch::kernel::ids::Timestamp;
use midwatch::kernel::ids::{LifeTime, Millis, Moment, ProcessId, Seq, ServiceTime, TaskId};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::task::{SecretHash, TaskSpec};
use midwatch::kernel::verdict::Verb;
use midwatch::kernel::{Answer, Command, State};
use midwatch::sim::{Dice, SimDisk};

use crate::asked;

pub(crate) const RANDOM: u64 = 77;

pub(crate) fn options() -> Options {
    Options { segment_size: 8 << 10, reserve: 0, ..Options::default() }
}

pub(crate) fn host(random: u64) -> Host {
    Host { machine_id: [1; 16], boot_id: [2; 16], random }
}

fn moment(ms: u64) -> Moment {
    Moment {
        wall: Timestamp(1 << 40),
        life: LifeTime(ms),
        service: ServiceTime(ms),
        dice: ms,
        doubtful: false,
    }
}

/// An engine on a disk, and what happens to it.
pub(crate) struct Life {
    engine: Engine<SimDisk>,
    now: u64,
}

impl Life {
    pub(crate) fn open(disk: &SimDisk, random: u64) -> Result<Self, JournalError> {
        Self::open_under(disk, random, Fsync::Always)
    }

    fn open_under(disk: &SimDisk, random: u64, fsync: Fsync) -> Result<Self, JournalError> {
        let options = Options { fsync, ..options() };
        let (mut engine, recovery) =
            Engine::open(disk.clone(), options, host(random), Rules::default())?;
        engine.set_snapshot_after(u64::MAX);
        let start = Start {
            version: "sim".into(),
            boot_id: "boot".into(),
            boot_clock: Millis(0),
            skipped_ahead: recovery.skipped_ahead,
            ..Start::default()
        };
        let now = engine.state().head().life.0 + 1;
        engine.start(start, moment(now))?;
        Ok(Self { engine, now })
    }

    fn ask(&mut self, command: Command) -> Result<Answer, midwatch::kernel::Rejection> {
        self.now += 1;
        let input = Input::Ask { from: Ticket(0), by: Actor::User(1000), commands: vec![command] };
        let mut inputs = vec![input];
        let mut answer = None;
        while !inputs.is_empty() {
            for output in self.engine.step(std::mem::take(&mut inputs), moment(self.now)).unwrap() {
                match output {
                    Output::Answers { mut answers, .. } => answer = answers.pop(),
                    Output::Snapshot { image, writer } => {
                        self.engine.set_snapshot_after(u64::MAX);
                        inputs.push(Input::SnapshotWritten(write_snapshot(&image, *writer)));
                    }
                    Output::Sweep { .. } | Output::Events(_) | Output::Archive(_) => {}
                }
            }
        }
        answer.unwrap()
    }

    pub(crate) fn submit(&mut self, payload: usize) -> TaskId {
        let spec = TaskSpec::new("job", format!("\"{}\"", "x".repeat(payload)));
        match self.ask(Command::Submit(spec)).unwrap() {
            Answer::Submitted { task, .. } => task,
            other => panic!("{other:?}"),
        }
    }

    fn act(&mut self, task: TaskId, verb: Verb) {
        self.ask(Command::Act { task, verb, max_retry: None, fresh: false }).unwrap();
    }
}

/// A life of about ten segments: with two snapshots that have done away with the first of them,
/// with one, or with none, and killed.
pub(crate) fn store(snapshots: &[usize]) -> SimDisk {
    store_under(snapshots, Fsync::Always)
}

/// The same under another policy: a weaker one makes the sequence skip ahead in the middle.
fn store_under(snapshots: &[usize], fsync: Fsync) -> SimDisk {
    let disk = SimDisk::new(5);
    let mut life = Life::open_under(&disk, 3, fsync).unwrap();
    let registration = Registration {
        name: "w".into(),
        process: ProcessId::default(),
        host: "h".into(),
        version: "0".into(),
        lock: "l".into(),
        kinds: vec!["job".into()],
        slots: 30,
    };
    let worker = match life.ask(Command::Register(registration)).unwrap() {
        Answer::Registered(worker) => worker,
        other => panic!("{other:?}"),
    };
    for step in 0..40 {
        if snapshots.contains(&step) {
            life.engine.set_snapshot_after(0);
        }
        let task = life.submit(step * 20);
        match step % 6 {
            1 => life.act(task, Verb::Pause),
            3 => {
                let secrets = vec![SecretHash([u8::try_from(step).unwrap(); 16])];
                life.ask(Command::Lease { worker, secrets }).unwrap();
            }
            5 => life.act(task, Verb::Cancel),
            _ => {}
        }
        if step == 22 {
            drop(life);
            life = Life::open_under(&disk, 4, fsync).unwrap();
        }
    }
    drop(life);
    disk.restarted()
}

/// What is known of a store before anybody harmed it.
pub(crate) struct Known {
    pub(crate) whole: SimDisk,
    /// Where each frame is: file, bytes, sequences.
    frames: Vec<(String, std::ops::Range<usize>, std::ops::Range<u64>)>,
    pub(crate) next_seq: u64,
    next_task: TaskId,
}

impl Known {
    pub(crate) fn of(whole: SimDisk) -> Self {
        let mut frames = Frames { alignment: 512, frames: Vec::new() };
        salvage(&whole, &mut frames).unwrap();
        let report = scan(&whole, &mut ()).unwrap();
        let state = state_at(&whole, u64::MAX);
        let next_task = state.next_task();
        Self { whole, frames: frames.frames, next_seq: report.next_seq, next_task }
    }

    /// The newest snapshot that nobody touched.
    fn base(&self, harmed: &SimDisk) -> Option<u64> {
        let files = self.whole.files();
        let kept = files.iter().filter(|path| {
            let whole = self.whole.read_file(path).unwrap();
            let found = harmed.read_file(path).unwrap_or_default();
            meant(&whole).into_iter().all(|place| found.get(place.clone()) == whole.get(place))
        });
        kept.filter_map(|path| parse_snapshot_name(path.strip_prefix("snapshots/")?)).max()
    }

    /// A file that still begins as the segment did: under its name, or else under another's.
    fn bytes_of(&self, harmed: &SimDisk, path: &str) -> Option<Vec<u8>> {
        let head = self.whole.read_file(path).unwrap()[..512].to_vec();
        let named = |path: &String| {
            path.strip_prefix("journal/").is_some_and(|name| parse_segment_name(name).is_some())
        };
        let others = harmed.files().into_iter().filter(named);
        let mut names = std::iter::once(path.to_owned()).chain(others);
        names.find_map(|path| harmed.read_file(&path).filter(|bytes| bytes.starts_with(&head)))
    }

    /// Whether the record stands in a frame that nobody touched.
    fn stands(&self, harmed: &SimDisk, seq: u64) -> bool {
        self.frames.iter().filter(|(_, _, seqs)| seqs.contains(&seq)).any(|(path, place, _)| {
            let whole = self.whole.read_file(path).unwrap();
            let found = self.bytes_of(harmed, path);
            found.is_some_and(|bytes| bytes.get(place.clone()) == whole.get(place.clone()))
        })
    }

    /// The last sequence that what is left can prove; `None` when it can prove nothing.
    pub(crate) fn provable(&self, harmed: &SimDisk) -> Option<(Option<u64>, u64)> {
        let base = self.base(harmed);
        let first = "journal/0000000001-00000000000000000001.journal";
        let begins = || {
            let there = self.whole.read_file(first).is_some();
            there && self.bytes_of(harmed, first).is_some()
        };
        if base.is_none() && !begins() {
            return None;
        }
        let from = base.unwrap_or(0);
        let seqs = self.frames.iter().flat_map(|(_, _, seqs)| seqs.clone());
        let behind: BTreeSet<u64> = seqs.filter(|seq| from < *seq).collect();
        let run = behind.into_iter().take_while(|seq| self.stands(harmed, *seq));
        Some((base, run.last().unwrap_or(from)))
    }
}

/// The bytes of a snapshot that mean something: not the rest of the header page, and no padding.
fn meant(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut places = Vec::new();
    places.push(0..512);
    let mut at = 4096;
    while let Some(length) = bytes.get(at + 20..at + 24) {
        let body = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        places.push(at..at + 32 + body);
        at = (at + 33 + body).next_multiple_of(512);
    }
    places
}

struct Frames {
    alignment: u64,
    frames: Vec<(String, std::ops::Range<usize>, std::ops::Range<u64>)>,
}

impl Visitor for Frames {
    fn segment(&mut self, _file: &str, header: &Header) -> Result<(), String> {
        self.alignment = u64::from(header.alignment);
        Ok(())
    }

    fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
        // Header, records, and none of the padding, whose bytes mean nothing; the end mark neither.
        let end = frame.offset + 32 + frame.body_bytes;
        let place = usize::try_from(frame.offset).unwrap()..usize::try_from(end).unwrap();
        let seqs = frame.first_seq..frame.first_seq + u64::from(frame.count);
        self.frames.push((frame.file.to_owned(), place, seqs));
        Ok(())
    }
}

/// The state at a sequence, of a store that is whole.
pub(crate) fn state_at(disk: &SimDisk, upto: u64) -> State {
    let mut rebuild = Rebuild::default();
    replay(disk, upto, &mut rebuild).unwrap();
    rebuild.finish()
}

/// Every file with what is in it, but the reserve.
fn contents(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    let files = disk.files().into_iter();
    files.map(|path| (path.clone(), disk.read_file(&path).unwrap())).collect()
}

/// The digest of the state that an engine opens with.
pub(crate) fn opened(disk: &SimDisk) -> Result<String, JournalError> {
    let opened = Engine::open(disk.clone(), options(), host(9), Rules::default());
    opened.map(|(engine, _)| digest(&engine.state().image()))
}

/// No byte of the old store is gone.
pub(crate) fn assert_kept(before: &SimDisk, after: &SimDisk, origin: &str) {
    let kept: BTreeSet<Vec<u8>> = contents(after).into_values().collect();
    for (path, bytes) in contents(before) {
        assert!(kept.contains(&bytes), "{path} is gone\n{origin}");
    }
}

/// What a repair came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Healthy,
    Unrepairable,
    Repaired,
}

/// Repairs a harmed store and demands everything of it.
fn check(known: &Known, harmed: &SimDisk, origin: &str) -> Came {
    let before = harmed.fork();
    let unchanged = |disk: &SimDisk| {
        assert!(contents(&before) == contents(disk), "it was changed\n{origin}");
    };
    let plan = match diagnose(harmed, Method::Cut) {
        Ok(Diagnosis::Healthy(_)) => {
            unchanged(harmed);
            opened(&harmed.fork()).unwrap_or_else(|error| panic!("{error}\n{origin}"));
            return Came::Healthy;
        }
        Ok(Diagnosis::Plan(plan)) => plan,
        Err(JournalError::Unrepairable { what }) => {
            unchanged(harmed);
            assert_eq!(known.provable(harmed), None, "{what}\n{origin}");
            return Came::Unrepairable;
        }
        Err(error) => panic!("{error}\n{origin}"),
    };
    unchanged(harmed);
    let provable = known.provable(harmed).unwrap_or_else(|| panic!("nothing holds\n{origin}"));
    assert_eq!(plan.base, provable.0, "another base\n{origin}");
    let mut expected = state_at(&known.whole, provable.1);
    expected.skip_ahead(Seq(plan.next_seq), plan.next_task);
    let told =
        format!("{provable:?}, missing {:?}, aside {:?}", plan.unreadable, plan.outcome.aside);
    assert_eq!(plan.digest, digest(&expected.image()), "not what it should be: {told}\n{origin}");
    let aside = plan.carry_out(harmed, RANDOM).unwrap_or_else(|error| panic!("{error}\n{origin}"));
    assert!(harmed.files().iter().any(|path| path.starts_with(&aside)), "{aside}\n{origin}");
    check_repaired(known, &before, (harmed, &plan), origin);
    Came::Repaired
}

/// What has to hold of a store that was repaired by the plan.
pub(crate) fn check_repaired(
    known: &Known,
    before: &SimDisk,
    (disk, plan): (&SimDisk, &Plan),
    origin: &str,
) {
    assert_kept(before, disk, origin);
    let report = scan(disk, &mut ()).unwrap_or_else(|error| panic!("{error}\n{origin}"));
    assert_eq!((report.exit_code(), report.next_seq), (0, plan.next_seq), "{origin}");
    assert!(known.next_seq <= report.next_seq, "a number comes again\n{origin}");
    assert!(known.next_task <= plan.next_task, "an id comes again\n{origin}");
    let names = disk.files();
    let strange = names
        .iter()
        .filter(|path| !in_grammar(path))
        .filter(|path| !path.starts_with("quarantine/") && before.read_file(path).is_none());
    assert_eq!(strange.collect::<Vec<_>>(), Vec::<&String>::new(), "{origin}");
    // Twice is once.
    let again = diagnose(disk, Method::Cut).unwrap_or_else(|error| panic!("{error}\n{origin}"));
    assert!(matches!(again, Diagnosis::Healthy(_)), "{again:?}\n{origin}");
    assert_eq!(opened(&disk.fork()).unwrap(), plan.digest, "{origin}");
    // Life goes on, and is found again.
    let mut life = Life::open(disk, 10).unwrap_or_else(|error| panic!("{error}\n{origin}"));
    let task = life.submit(5);
    assert!(plan.next_task <= task, "{task} comes again\n{origin}");
    let held = digest(&life.engine.state().image());
    drop(life);
    assert_eq!(opened(&disk.restarted()).unwrap(), held, "{origin}");
}

/// Whether a path is one that the format knows.
fn in_grammar(path: &str) -> bool {
    match path.split_once('/') {
        Some(("journal", name)) => parse_segment_name(name).is_some(),
        Some(("snapshots", name)) => parse_snapshot_name(name).is_some(),
        Some(_) => false,
        None => matches!(path, "store" | "floor" | "reserve"),
    }
}

/// One thing that happens to a file.
#[derive(Clone)]
enum Harm {
    Flip(String, u64),
    Zero(String, usize, usize),
    Cut(String, usize),
    Remove(String),
    Double(String, String),
    Rename(String, String),
    Replace(String, String),
    Foreign(String, Vec<u8>),
    Move(String, usize, usize),
}

impl fmt::Debug for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip(path, bit) => write!(f, "flip bit {bit} of {path}"),
            Self::Zero(path, from, to) => write!(f, "zero bytes {from} to {to} of {path}"),
            Self::Cut(path, len) => write!(f, "cut {path} to {len}"),
            Self::Remove(path) => write!(f, "remove {path}"),
            Self::Double(path, to) => write!(f, "copy {path} to {to}"),
            Self::Rename(path, to) => write!(f, "rename {path} to {to}"),
            Self::Replace(path, by) => write!(f, "replace {path} by {by}"),
            Self::Foreign(path, bytes) => write!(f, "put {} foreign bytes at {path}", bytes.len()),
            Self::Move(path, from, to) => write!(f, "copy sector at {from} to {to} in {path}"),
        }
    }
}

impl Harm {
    fn draw(disk: &SimDisk, foreign: &SimDisk, dice: &mut Dice) -> Self {
        let files = disk.files();
        let path = files[dice.below(files.len())].clone();
        let len = disk.read_file(&path).unwrap().len().max(1);
        let other = files[dice.below(files.len())].clone();
        let name = match path.split_once('/') {
            Some(("journal", _)) => format!("journal/{:010}-{:020}.journal", dice.below(14), 9),
            Some(("snapshots", _)) => format!("snapshots/{:020}.snapshot", dice.below(90)),
            _ => "notes.txt".to_owned(),
        };
        match dice.below(9) {
            0 => Self::Flip(path, dice.below(len * 8) as u64),
            1 => {
                let from = dice.below(len) / 512 * 512;
                Self::Zero(path, from, (from + 512 * (1 + dice.below(9))).min(len))
            }
            2 => Self::Cut(path, if dice.one_in(3) { 0 } else { dice.below(len) }),
            3 => Self::Remove(path),
            4 => Self::Double(path, name),
            5 => Self::Rename(path, name),
            6 => Self::Replace(path, other),
            7 => {
                let theirs = foreign.files();
                let theirs = &theirs[dice.below(theirs.len())];
                let place = if dice.one_in(2) { theirs.clone() } else { path };
                Self::Foreign(place, foreign.read_file(theirs).unwrap())
            }
            _ => Self::Move(path, dice.below(len) / 512 * 512, dice.below(len) / 512 * 512),
        }
    }

    fn apply(&self, disk: &SimDisk) {
        match self {
            Self::Flip(path, _) | Self::Zero(path, ..)
                if disk.read_file(path).unwrap().is_empty() => {}
            Self::Flip(path, bit) => disk.flip(path, *bit),
            Self::Zero(path, from, to) => disk.zero(path, *from..*to),
            Self::Cut(path, len) => disk.cut(path, *len),
            Self::Remove(path) => disk.rm(path),
            Self::Double(path, to) => disk.write_file(to, &disk.read_file(path).unwrap()),
            Self::Rename(path, to) => {
                let bytes = disk.read_file(path).unwrap();
                disk.rm(path);
                disk.write_file(to, &bytes);
            }
            Self::Replace(path, by) => disk.write_file(path, &disk.read_file(by).unwrap()),
            Self::Foreign(path, bytes) => disk.write_file(path, bytes),
            Self::Move(path, from, to) => disk.edit(path, |file| {
                if from.max(to) + 512 <= file.len() {
                    file.copy_within(*from..*from + 512, *to);
                }
            }),
        }
    }
}

/// A store with another uuid.
fn foreign() -> SimDisk {
    let disk = SimDisk::new(8);
    let mut life = Life::open(&disk, 1234).unwrap();
    for step in 0..30 {
        life.submit(step * 30);
    }
    drop(life);
    disk.restarted()
}

// spec: REP-001, REP-010, REP-011, REP-020, REP-024, REP-027, REP-032, REP-040, REP-051
#[test]
fn what_is_left_of_a_store_is_what_its_repair_holds() {
    let foreign = foreign();
    let mut figures = BTreeMap::new();
    let weak = Fsync::Never;
    let stores: [(&[usize], Fsync); 5] = [
        (&[], Fsync::Always),
        (&[12], Fsync::Always),
        (&[8, 30], Fsync::Always),
        (&[], weak),
        (&[12], weak),
    ];
    for (which, (snapshots, fsync)) in stores.into_iter().enumerate() {
        let known = Known::of(store_under(snapshots, fsync));
        let mut dice = Dice::new(which as u64);
        for round in 0..asked("MIDWATCH_REPAIRS", 400) {
            let disk = known.whole.fork();
            let mut harms = Vec::new();
            for _ in 0..=dice.below(3) {
                let harm = Harm::draw(&disk, &foreign, &mut dice);
                harm.apply(&disk);
                harms.push(harm);
            }
            let origin = format!("{snapshots:?}, {fsync:?}, round {round}: {harms:?}");
            *figures.entry(format!("{:?}", check(&known, &disk, &origin))).or_insert(0) += 1;
        }
    }
    println!("{figures:?}");
}
