//! What has to hold of any disk that comes back, and of the disks its own recovery can leave.

use std::fmt;

use midwatch::journal::{Fsync, Options};
use midwatch::sim::{CrashStates, Dice, Point, SimDisk};

use crate::ledger::{Book, Mark, open, segments};

/// How often a recovery may be cut short in a row.
const DEPTH_MAX: usize = 3;

/// Where a state came from, for the report of a failure.
pub(crate) struct Origin<'a> {
    pub(crate) of: &'a dyn fmt::Display,
    pub(crate) point: &'a Point,
    pub(crate) how: String,
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, point, how } = self;
        write!(f, "{of}\n  before call {} ({}), {how}", point.call, point.doing)
    }
}

/// What has to come back of the batches in the book.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) book: &'a Book,
    pub(crate) mark: Mark,
}

impl<'a> Expected<'a> {
    /// What a run that ended with `book` left, however it ended.
    pub(crate) fn of(book: &'a Book) -> Self {
        let handed_out = book.settled(book.acked).last_seq();
        Self { book, mark: Mark { must: book.acked, may: book.batches.len(), handed_out } }
    }

    /// Batches that come back when there is no power cut: all that were handed out, under any
    /// policy.
    fn handed_out(&self) -> usize {
        let last = self.mark.handed_out;
        self.book.batches.iter().take_while(|(first, _)| *first <= last).count()
    }
}

/// Checks disks and counts them. Dropped by a failure it says how many it took.
pub(crate) struct Explorer {
    pub(crate) options: Options,
    pub(crate) dice: Dice,
    states: usize,
    nested: usize,
}

impl Drop for Explorer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("L1: wrong after {} states", self.states);
        }
    }
}

impl Explorer {
    pub(crate) fn new(options: Options, seed: u64) -> Self {
        Self { options, dice: Dice::new(seed), states: 0, nested: 0 }
    }

    pub(crate) fn figures(&self) -> String {
        format!("{} crash states, {} of them in a recovery", self.states, self.nested)
    }

    /// Opens `disk` and demands what a crash may not take; now and then cuts that short as well.
    pub(crate) fn check(
        &mut self,
        disk: &SimDisk,
        expected: &Expected<'_>,
        origin: &dyn fmt::Display,
    ) {
        let cuts = if self.dice.one_in(6) { 2 } else { 0 };
        self.check_cutting(disk, expected, (expected.mark.must, 0, cuts), origin);
    }

    /// As [`Explorer::check`] for a disk that kept what its last process wrote and did not sync:
    /// the next process must not build on it before it made it durable.
    pub(crate) fn check_killed(
        &mut self,
        disk: &SimDisk,
        expected: &Expected<'_>,
        origin: &dyn fmt::Display,
    ) {
        self.check_cutting(disk, expected, (expected.handed_out(), 0, 3), origin);
    }

    fn check_cutting(
        &mut self,
        disk: &SimDisk,
        expected: &Expected<'_>,
        (must, depth, cuts): (usize, usize, usize),
        origin: &dyn fmt::Display,
    ) {
        self.states += 1;
        self.nested += usize::from(0 < depth);
        let Expected { book, mark: Mark { may, handed_out, .. } } = *expected;
        let before = disk.fork();
        disk.record_trail();
        disk.mark(expected.mark.pack());
        let opened = open(disk, &self.options, Book::default())
            .unwrap_or_else(|error| panic!("refused: {error:?}\n{origin}"));
        let found = book
            .check(&opened.history, must, may)
            .unwrap_or_else(|wrong| panic!("{wrong}\n{origin}\n{:?}", opened.recovery));
        untouched(&before, disk, origin);
        let mut ledger = opened.ledger;
        assert!(handed_out < ledger.next_seq(), "{handed_out} will be handed out again\n{origin}");
        ledger.book = book.settled(found);
        ledger.durable = found;
        disk.mark(Mark { must: found, may: found, handed_out }.pack());

        // Recovering twice is recovering once.
        let again = open(&disk.fork(), &self.options, Book::default())
            .unwrap_or_else(|error| panic!("refused when opened again: {error:?}\n{origin}"));
        assert_eq!(again.history.records, opened.history.records, "opened again\n{origin}");

        // What is added now is there after the worst of cuts.
        ledger.commit(&[30]).unwrap_or_else(|error| panic!("no commit: {error:?}\n{origin}"));
        if self.options.fsync != Fsync::Always {
            ledger.sync().unwrap_or_else(|error| panic!("no sync: {error:?}\n{origin}"));
        }
        let states = CrashStates::of(disk, None);
        let worst = states.disk(&states.all_lost());
        let later = open(&worst, &self.options, Book::default())
            .unwrap_or_else(|error| panic!("refused after going on: {error:?}\n{origin}"));
        let all = ledger.book.acked;
        if let Err(wrong) = ledger.book.check(&later.history, all, all) {
            panic!("after going on: {wrong}\n{origin}");
        }

        let trail = disk.take_trail();
        for _ in 0..cuts {
            self.cut_recovery(&trail, &ledger.book, depth + 1, origin);
        }
    }

    /// Cuts a recovery, and the commit after it, somewhere.
    fn cut_recovery(
        &mut self,
        trail: &[Point],
        book: &Book,
        depth: usize,
        origin: &dyn fmt::Display,
    ) {
        let point = &trail[self.dice.below(trail.len())];
        let expected = Expected { book, mark: Mark::unpack(point.mark) };
        let states = CrashStates::of(&point.disk, None);
        let choice = states.draw(&mut self.dice);
        let how = format!("in recovery {depth}, choice {choice} of sectors");
        let deeper = Origin { of: origin, point, how };
        let cuts = usize::from(depth < DEPTH_MAX);
        let disk = states.disk(&choice);
        self.check_cutting(&disk, &expected, (expected.mark.must, depth, cuts), &deeper);
    }
}

/// Recovery leaves every segment as it found it. The newest alone may be made anew, under the same
/// number, when nothing shows that it was ever in use.
fn untouched(before: &SimDisk, after: &SimDisk, origin: &dyn fmt::Display) {
    let old = segments(before);
    for (at, path) in old.iter().enumerate() {
        let kept = after.same_file(before, path);
        let number = path.split('-').next().unwrap_or_default();
        let newest = at + 1 == old.len();
        let made_anew = || segments(after).iter().any(|path| path.starts_with(number));
        assert!(kept || newest && made_anew(), "recovery changed or removed {path}\n{origin}");
    }
}
