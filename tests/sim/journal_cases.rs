//! What went wrong for others, one named case each: torn ends, damage, failed syncs, misorder.
//!
//! `S` in the comments is a store with acknowledged work in several segments.

use std::collections::BTreeSet;

use midwatch::journal::{Fsync, JournalError, Options, TailClass, scan};
use midwatch::sim::{CrashStates, Dice, Failure, Op, PageFate, SimDisk, Times};
use rustix::io::Errno;

use crate::ledger::{Book, Ledger, Opened, Step, fresh, is_segment, open, options, segments};

const SECTOR: usize = 512;

/// `S`: two segments, a snapshot, frames behind it; everything durable.
pub(crate) fn store() -> Ledger {
    let mut ledger = fresh(9);
    for step in [Step::Small, Step::Multi, Step::Snapshot, Step::Rotate, Step::Small, Step::Multi] {
        ledger.step(step).unwrap();
    }
    ledger
}

/// The bytes a commit writes, and where.
pub(crate) struct Frame {
    pub(crate) path: String,
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Frame {
    /// Commits and looks at the difference.
    pub(crate) fn of(ledger: &mut Ledger, sizes: &[usize]) -> Self {
        let path = segments(&ledger.disk).pop().unwrap();
        let before = ledger.disk.read_file(&path).unwrap();
        ledger.commit(sizes).unwrap();
        let after = ledger.disk.read_file(&path).unwrap();
        // Blocks reserved ahead read as zeros, and are no part of the frame.
        let differs = |at: &usize| before.get(*at).copied().unwrap_or_default() != after[*at];
        let first = (0..after.len()).find(differs).expect("the commit went to this segment");
        let last = (0..after.len()).rfind(differs).unwrap();
        let offset = first / SECTOR * SECTOR;
        let end = (last + 1).next_multiple_of(SECTOR);
        Self { path, offset, bytes: after[offset..end].to_vec() }
    }

    pub(crate) fn put(&self, disk: &SimDisk, bytes: &[u8]) {
        disk.edit(&self.path, |file| {
            if file.len() < self.offset + bytes.len() {
                file.resize(self.offset + bytes.len(), 0);
            }
            file[self.offset..][..bytes.len()].copy_from_slice(bytes);
        });
    }

    /// Only the sectors for which `keep` says so; the others zero.
    pub(crate) fn put_sectors(&self, disk: &SimDisk, keep: impl Fn(usize) -> bool) {
        let mut bytes = self.bytes.clone();
        for (at, sector) in bytes.chunks_mut(SECTOR).enumerate() {
            if !keep(at) {
                sector.fill(0);
            }
        }
        self.put(disk, &bytes);
    }
}

/// `S`, and a frame that its last commit would write.
pub(crate) fn store_and_frame(sizes: &[usize]) -> (SimDisk, Book, Frame) {
    let ledger = store();
    (ledger.disk.restarted(), ledger.book, Frame::of(&mut store(), sizes))
}

pub(crate) fn reopen(disk: &SimDisk) -> Opened {
    open(disk, &options(), Book::default()).unwrap()
}

pub(crate) fn refusal(disk: &SimDisk) -> JournalError {
    let before = disk.fork();
    let error = open(disk, &options(), Book::default()).err().expect("a refusal");
    for path in before.files() {
        assert!(disk.same_file(&before, &path), "a refusal changes nothing, but did {path}");
    }
    assert_eq!(disk.files(), before.files(), "a refusal makes and removes nothing");
    error
}

#[track_caller]
pub(crate) fn holds(opened: &Opened, book: &Book) {
    let all = book.batches.len();
    assert_eq!(book.check(&opened.history, all, all), Ok(all));
}

#[test]
fn w01_a_frame_with_any_of_its_sectors_missing_is_torn_and_never_damage() {
    let (clean, book, frame) = store_and_frame(&[400, 400, 400]);
    let sectors = frame.bytes.len() / SECTOR;
    assert_eq!(sectors, 3);
    for kept in 0_usize..(1 << sectors) - 1 {
        let disk = clean.fork();
        frame.put_sectors(&disk, |at| kept & (1 << at) != 0);
        let opened = reopen(&disk);
        holds(&opened, &book);
        match opened.recovery.tail {
            TailClass::End => assert_eq!(kept, 0),
            TailClass::Torn { bytes, .. } => assert!(kept != 0 && 0 < bytes),
            tail @ TailClass::Suspicious { .. } => panic!("{kept:b}: {tail:?}"),
        }
    }
}

#[test]
fn w02_what_is_added_after_zeros_before_old_bytes_survives_the_second_start() {
    let (disk, book, frame) = store_and_frame(&[400, 400, 400, 400]);
    frame.put_sectors(&disk, |at| at + 1 == frame.bytes.len() / SECTOR);
    let before = disk.fork();
    let mut ledger = reopen(&disk).ledger;
    ledger.book = book;
    ledger.commit(&[20]).unwrap();
    assert!(disk.same_file(&before, &frame.path), "the dirty segment is not appended to");
    ledger.close().unwrap();
    holds(&reopen(&disk), &ledger.book);
}

#[test]
fn w04_of_two_unsynced_writes_the_second_alone_is_counted_and_not_applied() {
    let weak = Options { fsync: Fsync::Never, ..options() };
    let make = || {
        let mut ledger = open(&SimDisk::new(4), &weak, Book::default()).unwrap().ledger;
        ledger.step(Step::Multi).unwrap();
        ledger.sync().unwrap();
        ledger
    };
    let ledger = make();
    let disk = ledger.disk.restarted();
    let mut twin = make();
    Frame::of(&mut twin, &[20]);
    let second = Frame::of(&mut twin, &[20]);
    second.put(&disk, &second.bytes);
    let opened = open(&disk, &weak, Book::default()).unwrap();
    holds(&opened, &ledger.book);
    assert!(
        matches!(opened.recovery.tail, TailClass::Torn { frames_after: 1, .. }),
        "{:?}",
        opened.recovery.tail
    );
}

// proof: F5
#[test]
fn w05_a_page_of_garbage_behind_the_end_is_cut_or_set_aside() {
    let (clean, book, frame) = store_and_frame(&[20]);
    let mut dice = Dice::new(5);
    for _ in 0..1_000 {
        let disk = clean.fork();
        let mut garbage = vec![0; 1 + dice.below(4096)];
        dice.fill(&mut garbage);
        frame.put(&disk, &garbage);
        let opened = reopen(&disk);
        holds(&opened, &book);
        assert_ne!(opened.recovery.tail, TailClass::End);
    }
}

#[test]
fn w06_w07_records_added_behind_half_a_frame_are_there_after_each_start() {
    for killed in [false, true] {
        let (mut disk, mut book, _) = store_and_frame(&[20]);
        for _ in 0..3 {
            let mut twin = reopen(&disk.fork()).ledger;
            twin.book = book.clone();
            let frame = Frame::of(&mut twin, &[400, 400, 400]);
            let mut ledger = reopen(&disk).ledger;
            ledger.book = book;
            ledger.commit(&[20]).unwrap();
            if !killed {
                ledger.close().unwrap();
            }
            book = ledger.book.clone();
            disk = disk.restarted();
            // The next start finds the first half of a frame behind the last whole one.
            let half = frame.bytes.len() / 2;
            let behind = Frame { offset: frame.offset + SECTOR, ..frame };
            if killed {
                behind.put(&disk, &behind.bytes[..half]);
            }
            holds(&reopen(&disk.fork()), &book);
        }
    }
}

#[test]
fn w09_zeros_at_the_end_are_the_end_and_zeros_inside_a_frame_tear_it() {
    let (clean, book, frame) = store_and_frame(&[400, 400, 400]);
    for zeros in (1..=8192).step_by(97) {
        let disk = clean.fork();
        disk.append(&frame.path, &vec![0; zeros]);
        let opened = reopen(&disk);
        holds(&opened, &book);
        assert_eq!(opened.recovery.tail, TailClass::End, "{zeros} zeros");
    }
    // Without the last byte that isn't zero, the end mark, all records are whole.
    let mark = frame.bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let text = frame.bytes[..mark].iter().rposition(|byte| *byte != 0).unwrap();
    for kept in 1..=text {
        let disk = clean.fork();
        frame.put(&disk, &frame.bytes[..kept]);
        let opened = reopen(&disk);
        holds(&opened, &book);
        assert!(matches!(opened.recovery.tail, TailClass::Torn { .. }), "{kept} bytes kept");
    }
}

#[test]
fn w11_a_segment_may_stop_being_made_after_any_call() {
    let ledger = store();
    let clean = ledger.disk.restarted();
    let calls = {
        let disk = clean.fork();
        let mut second = reopen(&disk).ledger;
        second.book = ledger.book.clone();
        second.step(Step::Rotate).unwrap();
        disk.calls()
    };
    for call in 1..=calls {
        for inside in [false, true] {
            let disk = clean.fork();
            disk.crash_at(call, inside);
            let mut book = ledger.book.clone();
            if let Ok(opened) = open(&disk, &options(), Book::default()) {
                let mut second = opened.ledger;
                second.book = book;
                let cut_short = second.step(Step::Rotate);
                assert!(cut_short.is_err() || call == calls);
                book = second.book;
            }
            let states = CrashStates::of(&disk, None);
            for choice in states.choices(12, &mut Dice::new(call)) {
                let after = states.disk(&choice);
                let opened = reopen(&after);
                book.check(&opened.history, book.acked, book.batches.len()).unwrap();
                let left: Vec<_> =
                    after.files().into_iter().filter(|path| path.contains(".tmp")).collect();
                assert_eq!(left, Vec::<String>::new(), "left after call {call}");
            }
        }
    }
}

// B15.
#[test]
fn w12_a_file_of_length_zero_never_turns_the_sequence_back() {
    let mut ledger = store();
    ledger.step(Step::Snapshot).unwrap();
    let clean = ledger.disk.restarted();
    for path in clean.files() {
        let disk = clean.fork();
        disk.cut(&path, 0);
        match open(&disk, &options(), Book::default()) {
            Ok(opened) => {
                holds(&opened, &ledger.book);
                assert!(ledger.book.last_seq() < opened.ledger.next_seq(), "{path}");
            }
            Err(error) => assert!(is_segment(&path), "{path}: {error:?}"),
        }
    }
}

#[test]
fn w14_any_number_of_torn_frames_is_handled_in_one_go() {
    let weak = Options { fsync: Fsync::Never, ..options() };
    for in_flight in 1..=6 {
        let mut ledger = open(&SimDisk::new(14), &weak, Book::default()).unwrap().ledger;
        ledger.step(Step::Small).unwrap();
        ledger.sync().unwrap();
        for _ in 0..in_flight {
            ledger.step(Step::Multi).unwrap();
        }
        let states = CrashStates::of(&ledger.disk, None);
        for choice in states.choices(512, &mut Dice::new(14)) {
            let opened = open(&states.disk(&choice), &weak, Book::default()).unwrap();
            ledger.book.check(&opened.history, 1, ledger.book.batches.len()).unwrap();
            assert!(ledger.book.last_seq() < opened.ledger.next_seq(), "a number given twice");
        }
    }
}

#[test]
fn w18_cut_short_and_broken_are_two_classes_with_two_exit_codes() {
    let (clean, _, frame) = store_and_frame(&[400, 400, 400]);
    let cut = clean.fork();
    frame.put_sectors(&cut, |at| at != 1);
    let flipped = clean.fork();
    frame.put(&flipped, &frame.bytes);
    flipped.flip(&frame.path, (frame.offset as u64 + 600) * 8);
    let cut = scan(&cut, &mut ()).unwrap();
    let flipped = scan(&flipped, &mut ()).unwrap();
    assert!(matches!(cut.tail, TailClass::Torn { .. }), "{:?}", cut.tail);
    assert!(matches!(flipped.tail, TailClass::Suspicious { .. }), "{:?}", flipped.tail);
    assert_eq!((cut.exit_code(), flipped.exit_code()), (0, 8));
}

#[test]
fn w19_a_sealed_segment_cut_by_a_frame_is_damage_and_not_a_hole() {
    let mut ledger = fresh(19);
    for step in [Step::Small, Step::Multi] {
        ledger.step(step).unwrap();
    }
    let frame = Frame::of(&mut ledger, &[20]);
    ledger.step(Step::Rotate).unwrap();
    ledger.step(Step::Small).unwrap();
    let disk = ledger.disk.restarted();
    disk.edit(&frame.path, |file| file.truncate(frame.offset));
    match refusal(&disk) {
        JournalError::Damage(damage) => {
            assert_eq!(damage.file, frame.path);
            assert!(0 < damage.after, "whole records follow: {damage:?}");
        }
        JournalError::Missing { .. } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn w21_a_flip_before_later_frames_is_damage_and_in_the_last_one_suspicious() {
    let mut ledger = fresh(21);
    let frames: Vec<Frame> = (0..10).map(|_| Frame::of(&mut ledger, &[100])).collect();
    let clean = ledger.disk.restarted();
    for (at, frame) in frames.iter().enumerate() {
        for byte in [0, 10, 20, 30, 50, 100] {
            let disk = clean.fork();
            disk.flip(&frame.path, (frame.offset + byte) as u64 * 8 + 3);
            if at + 1 < frames.len() {
                let error = refusal(&disk);
                let JournalError::Damage(damage) = error else { panic!("{error:?}") };
                assert_eq!(damage.offset, frame.offset as u64);
                assert_eq!(damage.after, 9 - at as u64);
            } else {
                let opened = reopen(&disk);
                let tail = &opened.recovery.tail;
                assert!(matches!(tail, TailClass::Suspicious { .. }), "byte {byte}: {tail:?}");
                assert!(ledger.book.last_seq() < opened.ledger.next_seq());
            }
        }
    }
}

#[test]
fn w25_a_bad_checksum_in_a_sealed_segment_is_damage_and_not_the_end() {
    let mut ledger = fresh(25);
    let frame = Frame::of(&mut ledger, &[400, 400, 400]);
    ledger.step(Step::Rotate).unwrap();
    let disk = ledger.disk.restarted();
    disk.flip(&frame.path, (frame.offset as u64 + 700) * 8);
    assert!(matches!(refusal(&disk), JournalError::Damage(_)));
}

// proof: F14
#[test]
fn w32_a_frame_at_the_place_of_another_is_never_taken_for_it() {
    let mut ledger = fresh(32);
    let frames: Vec<Frame> = (0..4).map(|_| Frame::of(&mut ledger, &[100])).collect();
    let clean = ledger.disk.restarted();
    for (at, place) in frames.iter().enumerate() {
        for other in &frames {
            let disk = clean.fork();
            place.put(&disk, &other.bytes);
            match open(&disk, &options(), Book::default()) {
                Ok(opened) => {
                    let found = ledger.book.check(&opened.history, 3, 4).unwrap();
                    let told = matches!(opened.recovery.tail, TailClass::Suspicious { .. });
                    assert!(found == 4 || told);
                }
                Err(error) => assert!(matches!(error, JournalError::Damage(_)), "{at}: {error:?}"),
            }
        }
    }
}

#[test]
fn w33_a_missing_segment_is_refused() {
    let mut ledger = fresh(33);
    for step in [Step::Small, Step::Rotate, Step::Rotate, Step::Small] {
        ledger.step(step).unwrap();
    }
    let clean = ledger.disk.restarted();
    for path in segments(&clean) {
        let disk = clean.fork();
        disk.rm(&path);
        let error = refusal(&disk);
        assert!(
            matches!(error, JournalError::Missing { .. } | JournalError::Damage(_)),
            "{path}: {error:?}"
        );
    }
}

// proof: F7, F8, I8
#[test]
fn w36_w38_a_commit_whose_sync_failed_is_an_error_and_the_last() {
    let mut ledger = store();
    let before = ledger.book.acked;
    ledger.disk.fail(Op::Sync, 1, Failure::Sync(PageFate::CacheOnly), Times::Once);
    let error = ledger.commit(&[20]).expect_err("not acknowledged");
    assert!(matches!(error, JournalError::Sync { .. }), "{error:?}");
    assert_eq!(ledger.book.acked, before);
    // The ledger demands that this is refused without a call to the disk.
    assert!(ledger.commit(&[20]).is_err());
    assert!(ledger.close().is_err(), "no clean end is written");
}

// proof: F7, F8
#[test]
fn w37_there_is_no_second_sync_and_after_a_power_cut_all_that_was_acknowledged_is_there() {
    for fate in [PageFate::Dropped, PageFate::CacheOnly, PageFate::Kept] {
        let mut ledger = store();
        ledger.disk.fail(Op::Sync, 1, Failure::Sync(fate), Times::Once);
        assert!(ledger.commit(&[400, 400, 400]).is_err());
        // The next process serves what it sees; a power cut after that must not take it back.
        let next = ledger.disk.restarted();
        let opened = reopen(&next);
        let all = ledger.book.batches.len();
        let seen = ledger.book.check(&opened.history, ledger.book.acked, all).unwrap();
        let states = CrashStates::of(&next, None);
        for choice in states.choices(200, &mut Dice::new(37)) {
            let opened = reopen(&states.disk(&choice));
            assert_eq!(ledger.book.check(&opened.history, seen, seen), Ok(seen), "{fate:?}");
        }
    }
}

// proof: F2
#[test]
fn w44_a_new_segment_never_survives_the_end_of_the_one_before_it() {
    for fsync in [Fsync::Always, Fsync::Never] {
        let options = Options { fsync, ..options() };
        let mut ledger = open(&SimDisk::new(44), &options, Book::default()).unwrap().ledger;
        ledger.step(Step::Large).unwrap();
        let old: BTreeSet<String> = segments(&ledger.disk).into_iter().collect();
        ledger.disk.record_trail();
        ledger.step(Step::Rotate).unwrap();
        for point in ledger.disk.take_trail() {
            let states = CrashStates::of(&point.disk, None);
            let disk = states.disk(&states.keeping(|path| !old.contains(path)));
            let opened = open(&disk, &options, Book::default())
                .unwrap_or_else(|error| panic!("before {}: {error:?}", point.doing));
            ledger.book.check(&opened.history, 0, ledger.book.batches.len()).unwrap();
        }
    }
}

#[test]
fn w45_short_writes_put_the_same_bytes_on_the_disk() {
    let run = |most: Option<usize>| {
        let disk = SimDisk::new(45);
        if let Some(most) = most {
            disk.fail(Op::Write, 1, Failure::Short(most), Times::Forever);
        }
        let mut ledger = open(&disk, &options(), Book::default()).unwrap().ledger;
        for step in [Step::Small, Step::Multi, Step::Snapshot, Step::Large, Step::Rotate] {
            ledger.step(step).unwrap();
        }
        disk
    };
    let whole = run(None);
    for most in [1, 7, 39, 511, 4095] {
        let short = run(Some(most));
        assert_eq!(short.files(), whole.files());
        for path in whole.files() {
            assert_eq!(short.read_file(&path), whole.read_file(&path), "{path}, {most} at a time");
        }
    }
}

#[test]
fn w50_a_snapshot_that_is_not_whole_is_passed_over_for_the_one_before() {
    let mut ledger = store();
    ledger.step(Step::Snapshot).unwrap();
    let clean = ledger.disk.restarted();
    let newest = clean.files().into_iter().rfind(|path| path.starts_with("snapshots/")).unwrap();
    let length = clean.read_file(&newest).unwrap().len();
    for kept in [0, 100, 4096, length - 512] {
        let disk = clean.fork();
        disk.write_file("snapshots/00000000000000000099.snapshot.tmp", b"half");
        disk.cut(&newest, kept);
        let opened = reopen(&disk);
        holds(&opened, &ledger.book);
        assert_eq!(opened.recovery.passed_over.len(), 1, "{kept} bytes kept");
    }
}

#[test]
fn w61_a_write_that_found_no_room_is_repeated_at_the_same_place_with_the_reserve_given_up() {
    let mut ledger = store();
    let rooms = [Failure::Short(100), Failure::Error(Errno::NOSPC)];
    for (nth, failure) in (1..).zip(rooms) {
        ledger.disk.fail(Op::Write, nth, failure, Times::Once);
    }
    ledger.commit(&[400, 400, 400]).expect("the reserve helps");
    holds(&reopen(&ledger.disk.restarted()), &ledger.book);
}
