//! Whatever happens to files at rest, the whole engine gives the same state, refuses, or raises an
//! alarm. Never less in silence.
//!
//! The store has three segments, two snapshots and every other file of a data directory.
//! `MIDWATCH_L1_FLIP_EVERY=1` flips every bit, `MIDWATCH_L1_WOUNDS` sets the number of random
//! wounds.

use std::collections::BTreeSet;
use std::fmt;

use midwatch::engine::{Engine, Input, Output, Start, Ticket, digest, write_snapshot};
use midwatch::journal::{
    Batch, Host, Journal, JournalError, Options, Recovery, TailClass, salvage, scan,
};
use midwatch::kernel::Command;
use midwatch::kernel::event::Actor;
use midwatch::kernel::ids::{LifeTime, Millis, Moment, ServiceTime, Timestamp};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::task::TaskSpec;
use midwatch::sim::{Dice, SimDisk};

use crate::asked;

fn options() -> Options {
    Options { segment_size: 10 << 10, reserve: 4 << 10, ..Options::default() }
}

fn host(random: u64) -> Host {
    Host { machine_id: [7; 16], boot_id: [3; 16], random }
}

type Opened = Result<(Engine<SimDisk>, Recovery), JournalError>;

fn open(disk: &SimDisk) -> Opened {
    Engine::open(disk.clone(), options(), host(5), Rules::default())
}

/// An engine at work on a disk, and every state it was in.
struct House {
    disk: SimDisk,
    engine: Engine<SimDisk>,
    seen: BTreeSet<String>,
    now: Moment,
}

impl House {
    fn new(random: u64) -> Self {
        let disk = SimDisk::new(random);
        disk.write_file("midwatch.lock", b"4711\n");
        let opened = Engine::open(disk.clone(), options(), host(random), Rules::default());
        let (engine, recovery) = opened.unwrap();
        assert!(recovery.created);
        let mut house = Self { disk, engine, seen: BTreeSet::new(), now: moment(1) };
        house.start();
        house
    }

    fn start(&mut self) {
        let start = Start {
            version: "sim".into(),
            boot_id: "boot".into(),
            boot_clock: Millis(1),
            skipped_ahead: false,
            ..Start::default()
        };
        self.engine.start(start, self.now).map(drop).unwrap();
        self.note();
    }

    fn note(&mut self) {
        self.seen.insert(digest(&self.engine.state().image()));
    }

    /// Submits tasks of so many bytes, each in a frame of its own.
    fn submit(&mut self, sizes: &[usize]) {
        for size in sizes {
            self.now = moment(self.now.life.0 + 1);
            let payload = format!("\"{}\"", "x".repeat(*size));
            let commands = vec![Command::Submit(TaskSpec::new("a", payload))];
            let ask = Input::Ask { from: Ticket(1), by: Actor::User(1000), commands };
            self.turn(vec![ask]);
        }
    }

    fn turn(&mut self, inputs: Vec<Input>) {
        let outputs = self.engine.step(inputs, self.now).unwrap();
        self.note();
        for output in outputs {
            if let Output::Snapshot { image, writer } = output {
                let written = write_snapshot(&image, *writer);
                self.turn(vec![Input::SnapshotWritten(written)]);
            }
        }
    }

    fn snapshot(&mut self) {
        self.engine.set_snapshot_after(1);
        self.turn(Vec::new());
        self.engine.set_snapshot_after(u64::MAX);
    }

    /// Ends, cleanly or not, and leaves its disk at rest.
    fn end(self, clean: bool) -> Store {
        let state = digest(&self.engine.state().image());
        if clean {
            self.engine.close().unwrap();
        }
        Store { disk: self.disk.restarted(), state, seen: self.seen, clean }
    }
}

fn moment(at: u64) -> Moment {
    let wall = Timestamp((1 << 40) + at);
    Moment { wall, life: LifeTime(at), service: ServiceTime(at), dice: at, doubtful: false }
}

/// A store at rest.
struct Store {
    disk: SimDisk,
    state: String,
    /// Every state it ever was in.
    seen: BTreeSet<String>,
    clean: bool,
}

/// Fills a store of three segments and two snapshots, with frames behind the last one.
fn filled(random: u64, clean: bool) -> Store {
    let mut house = House::new(random);
    house.submit(&[20]);
    house.snapshot();
    house.submit(&[1_500; 7]); // the next snapshot is due after twice the bytes of the last
    house.snapshot();
    house.submit(&[50, 700, 10]);
    house.end(clean)
}

/// What a start made of a wounded store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Same,
    Refused,
    /// A state it once was in, and a report.
    Alarm,
    /// A state it once was in, and nobody was told.
    Silent,
}

/// How often each verdict fell.
#[derive(Default)]
struct Tally([usize; 4]);

impl Tally {
    fn count(&self, verdict: Verdict) -> usize {
        self.0[verdict as usize]
    }

    fn add(&mut self, verdict: Verdict) {
        self.0[verdict as usize] += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [same, refused, alarm, silent] = self.0;
        let all = same + refused + alarm + silent;
        write!(f, "{all}: {same} the same state, {refused} refused, {alarm} with an alarm, ")?;
        write!(f, "{silent} in silence")
    }
}

impl Store {
    /// Opens a wounded copy; stops on any state that never was and on a refusal that leaves marks.
    fn judge(&self, wounded: &SimDisk, wound: &dyn fmt::Display) -> Verdict {
        let before = wounded.fork();
        let checked = scan(wounded, &mut ());
        match open(wounded) {
            Err(error) => {
                assert!([6, 7].contains(&error.exit_code()), "{wound}: {error:?}");
                assert_eq!(wounded.files(), before.files(), "{wound}: a refusal moved files");
                for path in before.files() {
                    assert!(wounded.same_file(&before, &path), "{wound}: a refusal wrote {path}");
                }
                // A record that cannot follow the state is the engine's to see.
                if !matches!(error, JournalError::Refused { .. }) {
                    let seen = checked.expect_err("the checker refuses what the engine refuses");
                    assert_eq!(seen.exit_code(), error.exit_code(), "{wound}: {seen:?}");
                }
                Verdict::Refused
            }
            Ok((engine, recovery)) => {
                let report = checked.unwrap_or_else(|error| panic!("{wound}: only {error:?}"));
                let told = matches!(recovery.tail, TailClass::Suspicious { .. })
                    || !recovery.passed_over.is_empty();
                // The checker also looks at snapshots that a start has no need of.
                let used = recovery.snapshot.map_or(0, |snapshot| snapshot.seq);
                let unused = report.snapshots.iter().any(|s| s.fault.is_some() && s.seq < used);
                assert_eq!(report.exit_code() == 8, told || unused, "{wound}: {report:?}");
                let found = digest(&engine.state().image());
                if found == self.state {
                    return Verdict::Same;
                }
                assert!(self.seen.contains(&found), "{wound}: a state that never was");
                if told { Verdict::Alarm } else { Verdict::Silent }
            }
        }
    }

    /// As [`Store::judge`], where a loss must be told.
    fn judge_loudly(&self, wounded: &SimDisk, wound: &dyn fmt::Display) -> Verdict {
        let verdict = self.judge(wounded, wound);
        assert_ne!(verdict, Verdict::Silent, "I9: {wound}: a loss that nobody was told of");
        verdict
    }

    fn segments(&self) -> Vec<String> {
        let files = self.disk.files().into_iter();
        files.filter(|path| path.ends_with(".journal")).collect()
    }

    fn snapshots(&self) -> Vec<String> {
        let files = self.disk.files().into_iter();
        files.filter(|path| path.ends_with(".snapshot")).collect()
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        self.disk.read_file(path).unwrap()
    }
}

#[test]
fn the_store_is_what_these_tests_say_of_it() {
    for clean in [false, true] {
        let store = filled(1, clean);
        assert_eq!(store.clean, clean);
        assert_eq!((store.segments().len(), store.snapshots().len()), (3, 2));
        let mut others: Vec<_> = store.disk.files();
        others.retain(|path| !path.contains('/'));
        assert_eq!(others, ["floor", "midwatch.lock", "reserve", "store"]);
        let bytes: usize = store.disk.files().iter().map(|path| store.bytes(path).len()).sum();
        assert!(bytes <= 64 << 10, "{bytes} bytes are no small store");
        assert_eq!(store.judge(&store.disk.fork(), &"no wound"), Verdict::Same);
    }
}

/// Flips each `every`-th bit of every file.
fn flip_bits(store: &Store, every: u64) -> Tally {
    let mut tally = Tally::default();
    let mut skip = 0;
    for path in store.disk.files() {
        let bits = store.bytes(&path).len() as u64 * 8;
        let mut bit = skip;
        while bit < bits {
            let wounded = store.disk.fork();
            wounded.flip(&path, bit);
            tally.add(store.judge_loudly(&wounded, &format!("bit {bit} of {path} flipped")));
            bit += every;
        }
        skip = bit - bits;
    }
    tally
}

// W22.
// proof: F11, I9, I20
#[test]
fn no_flipped_bit_of_any_file_is_a_silent_loss() {
    let every = asked("MIDWATCH_L1_FLIP_EVERY", 16);
    let tally = flip_bits(&filled(1, false), every);
    println!("L1 flips, every {every}th bit: {tally}");
    for verdict in [Verdict::Same, Verdict::Refused, Verdict::Alarm] {
        assert!(0 < tally.count(verdict), "never {verdict:?}");
    }
}

/// One wound drawn by chance.
fn wound(disk: &SimDisk, dice: &mut Dice) -> String {
    let mut files = disk.files();
    files.retain(|path| disk.read_file(path).is_some_and(|bytes| 512 <= bytes.len()));
    let path = files[dice.below(files.len())].clone();
    let sectors = disk.read_file(&path).unwrap().len() / 512;
    let sector = dice.below(sectors);
    let place = sector * 512..(sector + 1) * 512;
    match dice.below(7) {
        kind @ 0..3 => {
            let bits = [1, 2, 8][kind];
            let flips: Vec<_> = (0..bits).map(|_| dice.below(sectors * 4096) as u64).collect();
            for bit in &flips {
                disk.flip(&path, *bit);
            }
            format!("bits {flips:?} of {path} flipped")
        }
        3 => {
            disk.edit(&path, |bytes| bytes[place].fill(0));
            format!("sector {sector} of {path} zeroed")
        }
        4 => {
            disk.edit(&path, |bytes| dice.fill(&mut bytes[place]));
            format!("sector {sector} of {path} is noise")
        }
        _ => {
            // Right bytes at the wrong offset, or in the wrong file.
            let from = files[dice.below(files.len())].clone();
            let source = disk.read_file(&from).unwrap();
            let most = (source.len() / 512).min(sectors - sector);
            let count = 1 + dice.below(most.min(9));
            let start = dice.below(source.len() / 512 - count + 1);
            let bytes = source[start * 512..(start + count) * 512].to_vec();
            disk.edit(&path, |target| {
                target[sector * 512..(sector + count) * 512].copy_from_slice(&bytes);
            });
            format!("{count} sectors from {start} of {from} at {sector} of {path}")
        }
    }
}

// proof: F11, F14, I9, I11
#[test]
fn no_flipped_bits_lost_sectors_or_misplaced_bytes_are_a_silent_loss() {
    let wounds = asked("MIDWATCH_L1_WOUNDS", 6_000);
    let mut dice = Dice::new(14);
    let mut tally = Tally::default();
    let store = filled(1, true);
    for _ in 0..wounds {
        let wounded = store.disk.fork();
        let mut wounds = wound(&wounded, &mut dice);
        if dice.one_in(8) {
            wounds = format!("{wounds}; {}", wound(&wounded, &mut dice));
        }
        tally.add(store.judge_loudly(&wounded, &wounds));
    }
    println!("L1 wounds, {tally}");
    assert!(0 < tally.count(Verdict::Same) && 0 < tally.count(Verdict::Refused));
}

/// What the newest segment may silently be short of when it was not closed: frames that nothing
/// names, lost whole with every byte behind them, as a disk that lies about syncs would lose them.
fn may_be_silent(store: &Store, path: &str) -> bool {
    !store.clean && store.segments().last().is_some_and(|last| last == path)
}

// proof: F13, I9
#[test]
fn a_file_cut_or_grown_anywhere_is_never_a_silent_loss() {
    for clean in [true, false] {
        let store = filled(2, clean);
        let mut tally = Tally::default();
        for path in store.disk.files() {
            let length = store.bytes(&path).len();
            let cuts = (0..length).step_by(256).chain([1, length - 1]);
            for kept in cuts {
                let wounded = store.disk.fork();
                wounded.cut(&path, kept);
                let wound = format!("{path} cut to {kept}");
                let verdict = store.judge(&wounded, &wound);
                assert!(verdict != Verdict::Silent || may_be_silent(&store, &path), "{wound}");
                tally.add(verdict);
            }
            for (more, byte) in [(1, 0), (512, 0), (70_000, 0), (1, 0xAB), (512, 0xF7), (9_000, 1)]
            {
                let wounded = store.disk.fork();
                wounded.append(&path, &vec![byte; more]);
                let wound = format!("{more} bytes {byte} behind {path}");
                tally.add(store.judge_loudly(&wounded, &wound));
            }
        }
        println!("L1 cut and grown, closed {clean}: {tally}");
    }
}

// proof: F13
#[test]
fn a_missing_file_is_refused_or_made_again() {
    for clean in [true, false] {
        let store = filled(2, clean);
        for path in store.disk.files() {
            let wounded = store.disk.fork();
            wounded.rm(&path);
            let verdict = store.judge_loudly(&wounded, &format!("{path} is missing"));
            // Of the segments only the oldest can be done without: the snapshots cover it.
            if store.segments().iter().skip(1).any(|segment| *segment == path) {
                assert_eq!(verdict, Verdict::Refused, "{path}");
            }
        }
    }
}

/// The path with other digits: the next name of its kind.
fn next_name(path: &str) -> String {
    let (dir, name) = path.rsplit_once('/').unwrap();
    let digits = name.find(|c: char| !c.is_ascii_digit()).unwrap();
    let number: u64 = name[..digits].parse().unwrap();
    format!("{dir}/{:0digits$}{}", number + 1, &name[digits..])
}

// proof: F13, F14
#[test]
fn a_doubled_or_renamed_file_is_refused_or_harmless() {
    for clean in [true, false] {
        let store = filled(3, clean);
        let kinds = [store.segments(), store.snapshots()];
        for path in kinds.iter().flatten() {
            let other = next_name(path);
            let doubled = store.disk.fork();
            doubled.write_file(&other, &store.bytes(path));
            store.judge_loudly(&doubled, &format!("{path} also as {other}"));
            let renamed = store.disk.fork();
            renamed.write_file(&other, &store.bytes(path));
            renamed.rm(path);
            store.judge_loudly(&renamed, &format!("{path} renamed to {other}"));
        }
        for kind in &kinds {
            for a in kind {
                for b in kind.iter().filter(|b| *b != a) {
                    let swapped = store.disk.fork();
                    swapped.write_file(a, &store.bytes(b));
                    swapped.write_file(b, &store.bytes(a));
                    store.judge_loudly(&swapped, &format!("{a} and {b} changed places"));
                    let covered = store.disk.fork();
                    covered.write_file(a, &store.bytes(b));
                    store.judge_loudly(&covered, &format!("{b} in the place of {a}"));
                }
            }
        }
    }
}

// proof: F13
#[test]
fn a_file_of_another_store_is_refused() {
    let (mine, other) = (filled(4, true), filled(5, true));
    assert_eq!(mine.disk.files(), other.disk.files(), "the same names, and other bytes");
    for path in mine.disk.files() {
        let wounded = mine.disk.fork();
        wounded.write_file(&path, &other.bytes(&path));
        let verdict = mine.judge_loudly(&wounded, &format!("{path} is another store's"));
        let own = !["reserve", "midwatch.lock"].contains(&path.as_str());
        assert_eq!(verdict == Verdict::Refused, own, "{path}");
    }
}

// proof: F13
#[test]
fn an_old_copy_of_one_file_put_back_is_refused_or_harmless() {
    let mut house = House::new(6);
    let mut old = Vec::new();
    for round in 0..8 {
        house.submit(&[300, 900, 40]);
        if round % 2 == 1 {
            house.snapshot();
        }
        old.push(house.disk.fork());
    }
    let store = house.end(true);
    let mut tally = Tally::default();
    for (age, copy) in old.iter().enumerate() {
        for path in copy.files() {
            let wounded = store.disk.fork();
            wounded.write_file(&path, &copy.read_file(&path).unwrap());
            let wound = format!("{path} as it was at round {age}");
            tally.add(store.judge_loudly(&wounded, &wound));
        }
    }
    println!("L1 old copies, {tally}");
    assert!(0 < tally.count(Verdict::Refused) && 0 < tally.count(Verdict::Same));
}

/// Puts a record of a kind that nobody knows behind everything.
fn with_unknown_kind(ignorable: bool) -> (SimDisk, String) {
    let store = filled(7, true);
    let (mut journal, _) =
        Journal::open(store.disk.clone(), options(), host(8), &mut Nothing).unwrap();
    let mut batch = Batch::new();
    batch.push(999, ignorable, b"of a later version");
    journal.commit(&batch).unwrap();
    journal.close().unwrap();
    (store.disk.restarted(), store.state)
}

/// A replay that wants nothing.
struct Nothing;

impl midwatch::journal::Replay for Nothing {
    fn snapshot_begin(&mut self, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn snapshot_record(&mut self, _: midwatch::journal::Record<'_>) -> Result<(), String> {
        Ok(())
    }

    fn snapshot_failed(&mut self) {}

    fn record(&mut self, _: u64, _: midwatch::journal::Record<'_>) -> Result<(), String> {
        Ok(())
    }
}

// proof: I9
#[test]
fn a_record_of_an_unknown_kind_is_passed_over_only_when_its_writer_allowed_it() {
    let (disk, state) = with_unknown_kind(true);
    let (engine, _) = open(&disk).unwrap();
    assert_eq!(digest(&engine.state().image()), state);
    let (disk, _) = with_unknown_kind(false);
    let error = open(&disk).err().expect("a refusal");
    assert!(matches!(error, JournalError::Refused { .. }), "{error:?}");
}

// proof: I3, I5
#[test]
fn a_snapshot_and_its_tail_an_older_one_and_its_and_the_whole_journal_give_one_state() {
    let store = filled(9, false);
    let [older, newer] = store.snapshots().try_into().unwrap();
    for gone in [vec![], vec![&newer], vec![&older], vec![&older, &newer]] {
        let disk = store.disk.fork();
        for path in &gone {
            disk.rm(path);
        }
        assert_eq!(store.judge(&disk, &format!("without {gone:?}")), Verdict::Same);
    }
}

// proof: I11
#[test]
fn what_is_salvaged_from_a_wounded_store_is_bounded_by_its_bytes() {
    let store = filled(10, true);
    let mut dice = Dice::new(10);
    for _ in 0..200 {
        let wounded = store.disk.fork();
        let wounds = wound(&wounded, &mut dice);
        let bytes: usize =
            wounded.files().iter().map(|p| wounded.read_file(p).unwrap().len()).sum();
        let mut found = Salvaged::default();
        drop(salvage(&wounded, &mut found));
        assert!(found.0 <= bytes, "{wounds}: {} bytes out of {bytes}", found.0);
    }
}

/// Bytes of the records that were shown.
#[derive(Default)]
struct Salvaged(usize);

impl midwatch::journal::Visitor for Salvaged {
    fn record(
        &mut self,
        _: midwatch::journal::Place<'_>,
        record: midwatch::journal::Record<'_>,
    ) -> Result<(), String> {
        self.0 += record.body.len();
        Ok(())
    }
}
