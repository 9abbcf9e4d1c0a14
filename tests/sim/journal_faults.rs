//! Every call fails once, in every way it can, and nothing acknowledged is lost by it.
//!
//! A run of steps is repeated with the first, second, … n-th call of a kind failing, until the
//! fault is never met. Whatever the run made of it, the next start, with the disk well again or
//! after a power cut, has to find what was acknowledged.

use std::fmt;

use midwatch::journal::{JournalError, Options};
use midwatch::sim::{CrashStates, Dice, Failure, Op, PageFate, SimDisk, Times, Turn};
use rustix::io::Errno;

use crate::explore::{Expected, Explorer};
use crate::ledger::{Book, Ledger, Step, fresh, open, options};

/// Passes through everything a journal does, and a rotation and a snapshot twice.
const STEPS: [Step; 11] = [
    Step::Small,
    Step::Multi,
    Step::Snapshot,
    Step::Rotate,
    Step::Large,
    Step::Reopen,
    Step::Small,
    Step::Rotate,
    Step::Snapshot,
    Step::Reopen,
    Step::Multi,
];

/// The plan of one run, for the report of a failure.
#[derive(Clone, Copy)]
struct Plan {
    op: Op,
    nth: u64,
    failure: Failure,
    times: Times,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, nth, failure, times } = self;
        write!(f, "{failure:?} at {op:?} number {nth}, {times:?}")
    }
}

/// How a run with a fault ended.
struct Outcome {
    disk: SimDisk,
    book: Book,
    error: Option<JournalError>,
    met: bool,
}

impl Plan {
    fn run(self) -> Outcome {
        let disk = SimDisk::new(self.nth);
        disk.fail(self.op, self.nth, self.failure, self.times);
        let (book, error) = match open(&disk, &options(), Book::default()) {
            Err(error) => (Book::default(), Some(error)),
            Ok(opened) => {
                let mut ledger = opened.ledger;
                let error = STEPS.iter().find_map(|step| ledger.step(*step).err());
                if error.is_some() {
                    Self::insist(&mut ledger);
                }
                (ledger.book, error)
            }
        };
        let met = 0 < disk.failures();
        Outcome { disk, book, error, met }
    }

    /// After an error a caller may try again; what is acknowledged then counts like the rest.
    fn insist(ledger: &mut Ledger) {
        if !ledger.is_open() {
            return;
        }
        for _ in 0..2 {
            if ledger.commit(&[20]).is_err() {
                // Refused for ever is right; the book knows what was acknowledged.
                return;
            }
        }
    }

    /// Runs, then starts anew on what is left: without a power cut, and after several.
    fn check(self, explorer: &mut Explorer) -> bool {
        let Outcome { disk, book, error, met } = self.run();
        if !met {
            assert!(error.is_none(), "an error without a fault: {error:?}");
            return false;
        }
        let blamed = error.as_ref().is_none_or(is_io);
        assert!(blamed, "{self}: the store is blamed for it: {error:?}");
        let next = disk.restarted();
        if self.times == Times::Forever {
            self.start_still_ill(&next.fork(), &book);
        }
        let expected = Expected::of(&book);
        let states = CrashStates::of(&next, None);
        let mut dice = Dice::new(self.nth);
        for choice in states.choices(6, &mut dice) {
            let origin = format!("{self}: {error:?}; then choice {choice} of sectors");
            explorer.check(&states.disk(&choice), &expected, &origin);
        }
        explorer.check_killed(&next, &expected, &format!("{self}: {error:?}; then a restart"));
        true
    }

    /// A start while the fault goes on finds everything or says that it can't.
    fn start_still_ill(self, disk: &SimDisk, book: &Book) {
        disk.fail(self.op, 1, self.failure, self.times);
        match open(disk, &options(), Book::default()) {
            Ok(opened) => {
                let found = book.check(&opened.history, book.acked, book.batches.len());
                found.unwrap_or_else(|wrong| panic!("{self}, at the next start: {wrong}"));
            }
            Err(error) => assert!(is_io(&error), "{self}, at the next start: {error:?}"),
        }
    }
}

/// Whether the error blames the machine and not the store.
fn is_io(error: &JournalError) -> bool {
    matches!(
        error,
        JournalError::Io { .. } | JournalError::NoSpace { .. } | JournalError::Sync { .. }
    )
}

/// Lets every call of kind `op` fail, once and from then on; returns how many runs that were.
fn each_call_fails(op: Op, failure: Failure, times: &[Times]) {
    let mut explorer = Explorer::new(options(), 2);
    for &times in times {
        let mut nth = 1;
        while (Plan { op, nth, failure, times }).check(&mut explorer) {
            nth += 1;
        }
        println!("{op:?} {failure:?} {times:?}: {} calls, {}", nth - 1, explorer.figures());
    }
}

/// Lets every call of kind `op` fail once in a way that must not be noticed at all.
fn each_call_is_continued(op: Op, failure: Failure) {
    let mut nth = 1;
    loop {
        let Outcome { error, met, book, .. } = Plan { op, nth, failure, times: Times::Once }.run();
        assert!(error.is_none(), "{failure:?} at {op:?} number {nth}: {error:?}");
        if !met {
            break;
        }
        assert_eq!(book.acked, book.batches.len());
        nth += 1;
    }
    assert!(1 < nth, "the run has calls of kind {op:?}");
}

const ONCE_AND_FOREVER: [Times; 2] = [Times::Once, Times::Forever];

// proof: F6, I1, I8
#[test]
fn a_write_that_fails_loses_nothing_acknowledged() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT] {
        each_call_fails(Op::Write, Failure::Error(errno), &ONCE_AND_FOREVER);
    }
}

// proof: F6
#[test]
fn a_write_that_is_interrupted_or_short_is_continued() {
    each_call_is_continued(Op::Write, Failure::Error(Errno::INTR));
    for most in [1, 7, 39, 511, 512, 4095] {
        each_call_is_continued(Op::Write, Failure::Short(most));
    }
}

#[test]
fn a_write_that_takes_nothing_is_an_error_and_not_a_loop() {
    each_call_fails(Op::Write, Failure::Short(0), &ONCE_AND_FOREVER);
}

// proof: F6, F7, F8, I8
#[test]
fn a_sync_that_fails_is_final_whatever_becomes_of_the_pages() {
    for fate in [PageFate::Dropped, PageFate::CacheOnly, PageFate::Kept] {
        each_call_fails(Op::Sync, Failure::Sync(fate), &ONCE_AND_FOREVER);
    }
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        each_call_fails(Op::Sync, Failure::Error(errno), &ONCE_AND_FOREVER);
    }
}

// proof: F8, F9
#[test]
fn a_directory_that_cannot_be_synced_is_final() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT] {
        each_call_fails(Op::SyncDir, Failure::Error(errno), &ONCE_AND_FOREVER);
    }
}

// proof: F9
#[test]
fn a_name_that_cannot_be_made_or_taken_away_loses_nothing() {
    for op in [Op::Create, Op::Rename, Op::Remove, Op::CreateDir] {
        for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT] {
            each_call_fails(op, Failure::Error(errno), &ONCE_AND_FOREVER);
        }
    }
}

#[test]
fn blocks_that_cannot_be_reserved_lose_nothing() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT] {
        each_call_fails(Op::Allocate, Failure::Error(errno), &ONCE_AND_FOREVER);
    }
}

#[test]
fn a_file_system_that_cannot_reserve_blocks_will_do() {
    each_call_is_continued(Op::Allocate, Failure::Error(Errno::OPNOTSUPP));
    let plan = Plan {
        op: Op::Allocate,
        nth: 1,
        failure: Failure::Error(Errno::OPNOTSUPP),
        times: Times::Forever,
    };
    assert!(plan.run().error.is_none());
}

// proof: F12
#[test]
fn a_read_that_fails_is_never_taken_for_the_end() {
    for op in [Op::Read, Op::Len, Op::List, Op::OpenRead] {
        each_call_fails(op, Failure::Error(Errno::IO), &ONCE_AND_FOREVER);
    }
}

#[test]
fn a_read_that_is_interrupted_or_short_is_continued() {
    each_call_is_continued(Op::Read, Failure::Error(Errno::INTR));
    for most in [1, 31, 512, 4095] {
        each_call_is_continued(Op::Read, Failure::Short(most));
    }
}

/// Disks as a crash can leave them after all steps, the last batch in flight.
fn crashed_disks() -> (Book, usize, Vec<SimDisk>) {
    let mut ledger = fresh(5);
    for step in STEPS {
        ledger.step(step).unwrap();
    }
    let must = ledger.book.acked;
    ledger.disk.record_trail();
    ledger.step(Step::Multi).unwrap();
    let trail = ledger.disk.take_trail();
    let in_flight = trail.iter().find(|point| point.doing.starts_with("Sync")).unwrap();
    let mut dice = Dice::new(5);
    let states = CrashStates::of(&in_flight.disk, Some(&mut dice.fork()));
    let choices = states.choices(12, &mut dice);
    let mut disks: Vec<_> = choices.iter().map(|choice| states.disk(choice)).collect();
    disks.push(in_flight.disk.fork());
    (ledger.book, must, disks)
}

// proof: F17
#[test]
fn a_start_that_fails_at_any_call_can_be_repeated() {
    let (book, must, disks) = crashed_disks();
    let mut book = book;
    book.acked = must;
    let expected = Expected::of(&book);
    let mut explorer = Explorer::new(options(), 3);
    let mut runs = 0;
    for (which, disk) in disks.iter().enumerate() {
        for op in Op::ALL {
            for nth in 1.. {
                let next = disk.fork();
                next.fail(op, nth, Failure::Error(Errno::IO), Times::Once);
                let result = open(&next, &options(), Book::default());
                if next.failures() == 0 {
                    break;
                }
                let origin = format!("disk {which}, EIO at {op:?} number {nth} of a start");
                match result {
                    Ok(opened) => drop(book.check(&opened.history, must, must + 1).unwrap()),
                    Err(error) => assert!(is_io(&error), "{origin}: {error:?}"),
                }
                explorer.check_killed(&next.restarted(), &expected, &origin);
                runs += 1;
            }
        }
    }
    println!("{runs} failed starts, {}", explorer.figures());
}

// proof: F7
#[test]
fn a_sync_that_lied_and_owned_up_one_sync_later_leaves_a_run_or_a_refusal() {
    let mut refused = 0;
    for nth in 1.. {
        let failure = Failure::Sync(PageFate::Late);
        let plan = Plan { op: Op::Sync, nth, failure, times: Times::Once };
        let Outcome { disk, book, met, .. } = plan.run();
        if !met {
            break;
        }
        let states = CrashStates::of(&disk, None);
        for choice in states.choices(20, &mut Dice::new(nth)) {
            match open(&states.disk(&choice), &options(), Book::default()) {
                Ok(opened) => drop(book.check(&opened.history, 0, book.batches.len()).unwrap()),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(0 < refused, "some of the loss shows");
}

/// Runs all steps on a disk with so many pages, then starts again on it and on a larger one.
///
/// A cautious user asks for room before each step, and is not started anew in between: the reserve
/// carries one start.
fn fill_up(pages: u64, ledger: &mut Ledger, cautious: bool) -> Result<(), JournalError> {
    let error = STEPS.iter().find_map(|step| {
        let room = match cautious {
            true if *step == Step::Reopen => Ok(false),
            true => ledger.has_room_for(step.bytes()),
            false => Ok(true),
        };
        match room {
            Ok(true) => ledger.step(*step).err(),
            Ok(false) => None,
            Err(error) => Some(error),
        }
    });
    assert!(error.as_ref().is_none_or(JournalError::is_full), "{pages} pages: {error:?}");
    let book = ledger.book.clone();
    let expected = Expected::of(&book);
    let next = ledger.disk.restarted();
    let start = open(&next.fork(), &options(), Book::default()).map(|opened| {
        book.check(&opened.history, book.acked, book.batches.len()).unwrap();
    });
    next.capacity(u64::MAX);
    let origin = format!("a disk of {pages} pages");
    Explorer::new(options(), pages).check_killed(&next, &expected, &origin);
    start
}

#[test]
fn a_disk_that_is_too_small_anywhere_loses_nothing() {
    let needed = {
        let mut ledger = fresh(1);
        for step in STEPS {
            ledger.step(step).unwrap();
        }
        ledger.disk.used() / 4096
    };
    for pages in 0..=needed {
        let disk = SimDisk::new(pages);
        disk.capacity(pages * 4096);
        match open(&disk, &options(), Book::default()) {
            Ok(opened) => match fill_up(pages, &mut { opened.ledger }, false) {
                Ok(()) => {}
                Err(error) => assert!(error.is_full(), "{pages} pages: {error:?}"),
            },
            Err(error) => assert!(error.is_full(), "{pages} pages: {error:?}"),
        }
    }
}

#[test]
fn who_asks_for_room_before_new_work_can_start_on_a_disk_that_is_full_to_the_byte() {
    for pages in 0..40 {
        let mut ledger = fresh(pages);
        ledger.disk.capacity(ledger.disk.used() + pages * 4096);
        let start = fill_up(pages, &mut ledger, true);
        assert!(start.is_ok(), "{pages} pages free: {start:?}");
    }
}

/// Starts of the default reserve on a disk that stays full.
const STARTS: usize = 500;

// spec: JRN-047 JRN-049
#[test]
fn a_disk_that_stays_full_lets_hundreds_of_starts_through_and_each_can_write() {
    let disk = SimDisk::new(4);
    let options = Options::default();
    let mut ledger = open(&disk, &options, Book::default()).unwrap().ledger;
    ledger.commit(&[300]).unwrap();
    disk.capacity(disk.used());
    for start in 0..STARTS {
        // The process was killed: nothing is closed.
        let book = ledger.book.clone();
        let opened = open(&disk, &options, book.clone())
            .unwrap_or_else(|error| panic!("start {start}: {error}"));
        book.check(&opened.history, book.acked, book.acked).unwrap();
        ledger = opened.ledger;
        assert!(!ledger.has_room_for(1 << 20).unwrap(), "new work was let in at start {start}");
        ledger.commit(&[300]).unwrap();
    }
    let used = disk.used();
    disk.capacity(used + (8 << 20));
    assert!(ledger.has_room_for(1 << 20).unwrap(), "room has returned");
}

#[test]
fn a_read_only_disk_is_refused_clearly_and_works_again_once_writable() {
    let (book, must, disks) = crashed_disks();
    for disk in disks {
        disk.turn(0, Turn::ReadOnly);
        let error = open(&disk, &options(), Book::default()).err().unwrap();
        assert!(is_io(&error), "{error:?}");
        disk.heal();
        let opened = open(&disk, &options(), Book::default()).unwrap();
        book.check(&opened.history, must, must + 1).unwrap();
    }
}

/// Runs all steps on a disk that turns bad at the `call`-th call.
fn run_turning(call: u64, turn: Turn) -> (SimDisk, Book, Option<JournalError>) {
    let disk = SimDisk::new(call);
    disk.turn(call, turn);
    match open(&disk, &options(), Book::default()) {
        Err(error) => (disk, Book::default(), Some(error)),
        Ok(opened) => {
            let mut ledger = opened.ledger;
            let error = STEPS.iter().find_map(|step| ledger.step(*step).err());
            (disk, ledger.book, error)
        }
    }
}

/// Calls that all steps take on a disk that is well.
fn calls_of_all_steps() -> u64 {
    let (disk, _, error) = run_turning(u64::MAX, Turn::ReadOnly);
    assert!(error.is_none(), "{error:?}");
    disk.calls()
}

// proof: F15
#[test]
fn a_disk_that_turns_read_only_or_full_at_any_call_is_refused_clearly_until_that_ends() {
    let mut explorer = Explorer::new(options(), 15);
    for turn in [Turn::ReadOnly, Turn::Full] {
        for call in 1..=calls_of_all_steps() {
            let (disk, book, error) = run_turning(call, turn);
            let fits = |error: &JournalError| match turn {
                Turn::Full => error.is_full(),
                _ => is_io(error),
            };
            assert!(error.as_ref().is_none_or(fits), "{turn:?} from call {call}: {error:?}");
            let next = disk.restarted();
            next.turn(0, turn);
            let origin = format!("{turn:?} from call {call}: {error:?}");
            match open(&next, &options(), Book::default()) {
                Err(error) => assert!(fits(&error), "{origin}, and at the next start {error:?}"),
                Ok(opened) => {
                    book.check(&opened.history, book.acked, book.batches.len()).unwrap();
                }
            }
            let well = next.restarted();
            explorer.check_killed(&well, &Expected::of(&book), &origin);
        }
    }
    println!("L1: a disk that turns, {}", explorer.figures());
}

// proof: F10
#[test]
fn a_disk_that_lies_from_any_call_on_leaves_a_run_of_the_history_or_a_refusal() {
    let (mut refused, mut shorter, mut whole) = (0, 0, 0);
    for call in 1..=calls_of_all_steps() {
        let (disk, book, error) = run_turning(call, Turn::Lying);
        assert!(error.is_none(), "a lie is not noticed when it is told: {error:?}");
        let honest = run_until(call - 1);
        let states = CrashStates::of(&disk, None);
        for choice in states.choices(12, &mut Dice::new(call)) {
            let left = states.disk(&choice);
            match open(&left, &options(), Book::default()) {
                Ok(opened) => {
                    let found = book.check(&opened.history, honest, book.batches.len());
                    let found = found.unwrap_or_else(|wrong| panic!("from call {call}: {wrong}"));
                    *(if found < book.acked { &mut shorter } else { &mut whole }) += 1;
                }
                Err(error) => {
                    assert_eq!(error.exit_code(), 6, "from call {call}: {error:?}");
                    refused += 1;
                }
            }
        }
    }
    println!("L1: a lying disk, {refused} refused, {shorter} shorter, {whole} whole");
    assert!(0 < refused && 0 < shorter && 0 < whole);
}

/// Batches that were acknowledged within so many calls.
fn run_until(call: u64) -> usize {
    let disk = SimDisk::new(call);
    disk.crash_at(call, false);
    let Ok(opened) = open(&disk, &options(), Book::default()) else { return 0 };
    let mut ledger = opened.ledger;
    let ended = STEPS.iter().any(|step| ledger.step(*step).is_err());
    assert!(ended || disk.calls() <= call);
    ledger.book.acked
}

// proof: F6, F12
#[test]
fn a_hundred_interruptions_in_a_row_are_survived() {
    for op in [Op::Read, Op::Write] {
        let mut met = 0;
        for first in 1..40 {
            let disk = SimDisk::new(first);
            for _ in 0..100 {
                disk.fail(op, first, Failure::Error(Errno::INTR), Times::Once);
            }
            let mut ledger = open(&disk, &options(), Book::default()).unwrap().ledger;
            for step in STEPS {
                ledger.step(step).unwrap();
            }
            met += disk.failures();
            assert_eq!(ledger.book.acked, ledger.book.batches.len());
        }
        assert!(2_000 < met, "{op:?}: {met} interruptions");
    }
}
