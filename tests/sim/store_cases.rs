//! Named cases whose subject is a whole store: headers, files that are missing, old or half made,
//! what recovery leaves behind, and bytes that change under a reader.

use std::io;

use midwatch::journal::disk::{Disk, DiskFile};
use midwatch::journal::{Header, Host, JournalError, TailClass, Visitor, replay, scan};
use midwatch::sim::{Dice, Failure, Op, SimDisk};
use rustix::io::Errno;

use crate::journal_cases::{Frame, holds, refusal, reopen, store, store_and_frame};
use crate::ledger::{Book, History, Ledger, Opened, Step, fresh, open, options, segments};

/// Four segments and more, nothing compacted.
fn six_segments() -> Ledger {
    let mut ledger = fresh(13);
    for _ in 0..5 {
        ledger.step(Step::Small).unwrap();
        ledger.step(Step::Rotate).unwrap();
    }
    ledger.step(Step::Multi).unwrap();
    ledger
}

#[test]
fn w13_a_header_of_zeros_is_refused_wherever_anything_shows_that_the_segment_was_in_use() {
    let ledger = six_segments();
    let clean = ledger.disk.restarted();
    for path in segments(&clean) {
        let disk = clean.fork();
        disk.zero(&path, 0..4096);
        assert!(matches!(refusal(&disk), JournalError::Damage(_)), "{path}");
    }
    // A newest one of zeros from end to end that no floor names held nothing that was durable.
    let mut ledger = fresh(13);
    ledger.step(Step::Small).unwrap();
    let before = ledger.disk.restarted();
    let disk = before.fork();
    let next = "journal/0000000002-00000000000000000002.journal";
    disk.write_file(next, &[0; 8192]);
    let opened = reopen(&disk);
    holds(&opened, &ledger.book);
    assert!(matches!(opened.recovery.tail, TailClass::Suspicious { .. }));
    let kept = disk.files().into_iter().filter(|path| path.starts_with("quarantine/"));
    assert_eq!(kept.count(), 1, "moved, not removed");
}

#[test]
fn w16_a_floor_above_the_last_frame_is_damage_and_no_crash_leaves_one() {
    let mut ledger = fresh(16);
    ledger.step(Step::Small).unwrap();
    let frame = Frame::of(&mut ledger, &[20]);
    ledger.close().unwrap();
    // The floor was written after the sync of what it names; now that is gone.
    let disk = ledger.disk.restarted();
    disk.zero(&frame.path, frame.offset..frame.offset + frame.bytes.len());
    match refusal(&disk) {
        JournalError::Damage(damage) => assert_eq!((damage.seq, damage.offset), (2, 4608)),
        other => panic!("{other:?}"),
    }
    // The exhaustive crashes of `journal_crash` never meet it: any refusal there is a failure.
}

#[test]
fn w23_damage_in_an_early_segment_touches_neither_it_nor_those_behind_it() {
    let ledger = six_segments();
    let clean = ledger.disk.restarted();
    let all = segments(&clean);
    assert!(6 <= all.len());
    let disk = clean.fork();
    disk.flip(&all[1], (4096 + 40) * 8);
    for _ in 0..3 {
        // `refusal` compares every byte of every file.
        let JournalError::Damage(damage) = refusal(&disk) else { panic!("damage") };
        assert_eq!(damage.file, all[1]);
        assert!(0 < damage.after, "what follows is counted: {damage:?}");
    }
    assert_eq!(segments(&disk), all);
}

/// Number and end of the segment before each one.
struct Ends(Vec<(u64, u64)>);

impl Visitor for Ends {
    fn segment(&mut self, _file: &str, header: &Header) -> Result<(), String> {
        self.0.push((header.previous.number, header.previous.end));
        Ok(())
    }
}

#[test]
fn w27_a_torn_end_is_told_with_its_place_and_its_bytes_stay_in_the_old_segment() {
    let (disk, book, frame) = store_and_frame(&[400, 400, 400]);
    frame.put_sectors(&disk, |at| at != 1);
    let torn = disk.read_file(&frame.path).unwrap();
    let opened = reopen(&disk);
    match &opened.recovery.tail {
        TailClass::Torn { file, offset, bytes, frames_after } => {
            assert_eq!((file, *offset), (&frame.path, frame.offset as u64));
            assert!(0 < *bytes && *frames_after == 0);
        }
        tail => panic!("{tail:?}"),
    }
    let mut ledger = opened.ledger;
    ledger.book = book;
    ledger.commit(&[20]).unwrap();
    ledger.close().unwrap();
    assert_eq!(disk.read_file(&frame.path).unwrap(), torn, "never cut, never overwritten");
    // Whoever looks later sees where the old segment ends, and that more lies behind it.
    let mut ends = Ends(Vec::new());
    scan(&disk, &mut ends).unwrap();
    // The last whole frame was copied over, for nothing proved it durable.
    let end = ends.0.last().unwrap().1;
    assert!(4096 <= end && end <= frame.offset as u64, "{end}");
}

#[test]
fn w28_a_start_replays_every_segment_behind_the_snapshot() {
    let mut ledger = fresh(28);
    for step in [Step::Multi, Step::Snapshot, Step::Rotate, Step::Rotate, Step::Rotate] {
        ledger.step(step).unwrap();
    }
    ledger.step(Step::Small).unwrap();
    let opened = reopen(&ledger.disk.restarted());
    assert!(opened.history.snapshot.is_some());
    assert!(4 <= segments(&ledger.disk).len());
    holds(&opened, &ledger.book);
}

#[test]
fn w30_from_any_snapshot_or_none_the_records_come_to_the_same() {
    let mut ledger = fresh(30);
    for step in [Step::Small, Step::Snapshot, Step::Multi, Step::Snapshot, Step::Large] {
        ledger.step(step).unwrap();
    }
    let clean = ledger.disk.restarted();
    let of = |disk: &SimDisk| {
        disk.files().into_iter().filter(|path| path.starts_with("snapshots/")).collect::<Vec<_>>()
    };
    let snapshots = of(&clean);
    assert_eq!(snapshots.len(), 2);
    let mut used = Vec::new();
    for without in [&[][..], &snapshots[1..], &snapshots] {
        let disk = clean.fork();
        for path in without {
            disk.rm(path);
        }
        let opened = reopen(&disk);
        holds(&opened, &ledger.book);
        used.push(opened.history.snapshot);
    }
    assert!(used[0] > used[1] && used[1].is_some() && used[2].is_none(), "{used:?}");
}

#[test]
fn w52_a_snapshot_that_is_broken_off_halfway_leaves_the_next_one_as_good() {
    let mut ledger = fresh(52);
    for step in [Step::Large, Step::Rotate, Step::Snapshot, Step::Large, Step::Rotate] {
        ledger.step(step).unwrap();
    }
    // By a full disk, at each of its writes; the journal goes on.
    for nth in 1.. {
        let disk = ledger.disk.clone();
        disk.fail_on("snapshots/", Op::Write, nth, Failure::Error(Errno::NOSPC));
        let result = ledger.snapshot();
        let met = result.is_err();
        disk.heal();
        if let Err(error) = result {
            assert!(error.is_full(), "{error:?}");
            assert!(disk.files().iter().all(|path| !path.contains(".tmp")), "its room is given up");
        }
        ledger.step(Step::Small).unwrap();
        holds(&reopen(&ledger.disk.fork()), &ledger.book);
        if !met {
            assert!(1 < nth, "a snapshot writes");
            break;
        }
    }
    // By a death that leaves the file half made.
    let disk = ledger.disk.restarted();
    disk.write_file("snapshots/00000000000000000900.snapshot.tmp", &[7; 5000]);
    let Opened { mut ledger, history, .. } = {
        let book = ledger.book.clone();
        let mut opened = reopen(&disk);
        opened.ledger.book = book;
        opened
    };
    ledger.book.check(&history, ledger.book.acked, ledger.book.acked).unwrap();
    ledger.step(Step::Snapshot).unwrap();
    ledger.step(Step::Snapshot).unwrap();
    assert!(disk.files().iter().all(|path| !path.contains(".tmp")));
    holds(&reopen(&ledger.disk.restarted()), &ledger.book);
}

/// Whether a path follows the grammar of the store.
fn is_ours(path: &str) -> bool {
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    match path.split_once('/') {
        None => ["store", "floor", "reserve"].contains(&path),
        Some(("journal", name)) => name
            .strip_suffix(".journal")
            .and_then(|name| name.split_once('-'))
            .is_some_and(|(number, seq)| digits(number, 10) && digits(seq, 20)),
        Some(("snapshots", name)) => {
            name.strip_suffix(".snapshot").is_some_and(|seq| digits(seq, 20))
        }
        Some((dir, _)) => dir == "quarantine",
    }
}

/// A name, and what is done to a disk.
type Hurt<'a> = (&'a str, Box<dyn Fn(&SimDisk) + 'a>);

#[test]
fn w54_after_every_way_of_recovery_what_is_added_is_found_under_its_right_name() {
    let (clean, book, frame) = store_and_frame(&[400, 400, 400]);
    let snapshot = clean.files().into_iter().rfind(|path| path.starts_with("snapshots/")).unwrap();
    let ways: Vec<Hurt<'_>> = vec![
        ("nothing", Box::new(|_| {})),
        ("a torn end", Box::new(|disk| frame.put_sectors(disk, |at| at == 0))),
        (
            "a suspicious end",
            Box::new(|disk| {
                frame.put(disk, &frame.bytes);
                disk.flip(&frame.path, (frame.offset as u64 + 600) * 8);
            }),
        ),
        ("a frame never acknowledged", Box::new(|disk| frame.put(disk, &frame.bytes))),
        ("a lost floor", Box::new(|disk| disk.rm("floor"))),
        ("a lost store file", Box::new(|disk| disk.rm("store"))),
        ("a bad snapshot", Box::new(|disk| disk.cut(&snapshot, 600))),
        ("left-overs", Box::new(|disk| disk.write_file("journal/x.journal.tmp", b"half"))),
    ];
    for (way, hurt) in &ways {
        let disk = clean.fork();
        hurt(&disk);
        let opened = reopen(&disk);
        let all = book.batches.len();
        let found = book.check(&opened.history, all, all).or_else(|_| {
            // What was written and never acknowledged may come back, whole.
            assert_eq!(*way, "a frame never acknowledged");
            Ok::<_, String>(all)
        });
        let mut ledger = opened.ledger;
        let before = opened.history.records.len();
        ledger.book = book.settled(found.unwrap());
        ledger.commit(&[20]).unwrap();
        let added = ledger.book.last_seq();
        for _ in 0..2 {
            let again = reopen(&disk.restarted());
            assert_eq!(again.history.records.len(), before + 1, "{way}");
            assert_eq!(again.history.records.last().unwrap().0, added, "{way}");
            let strange: Vec<_> = disk.files().into_iter().filter(|path| !is_ours(path)).collect();
            assert_eq!(strange, Vec::<String>::new(), "after {way}");
        }
    }
    // What has no such name is told, and left alone.
    let disk = clean.fork();
    disk.write_file("journal/notes.txt", b"mine");
    assert!(scan(&disk, &mut ()).unwrap().notes.iter().any(|note| note.contains("notes.txt")));
    reopen(&disk);
    assert_eq!(disk.read_file("journal/notes.txt").unwrap(), b"mine");
}

#[test]
fn w56_older_copies_of_floor_store_and_snapshot_beside_newer_segments_do_no_harm() {
    let mut ledger = store();
    let old = ledger.disk.fork();
    ledger.step(Step::Rotate).unwrap();
    ledger.step(Step::Multi).unwrap();
    let clean = ledger.disk.restarted();
    for path in old.files().iter().filter(|path| !path.starts_with("journal/")) {
        let disk = clean.fork();
        disk.write_file(path, &old.read_file(path).unwrap());
        holds(&reopen(&disk), &ledger.book);
    }
    // An old segment in the place of the newer one of the same name is no bound, but a loss.
    let newest_old = segments(&old).pop().unwrap();
    let disk = clean.fork();
    disk.write_file(&newest_old, &old.read_file(&newest_old).unwrap());
    if !old.same_file(&clean, &newest_old) {
        assert!(matches!(refusal(&disk), JournalError::Damage(_)));
    }
    // A file of another store is refused by name.
    let mut other = open_seeded(77);
    other.step(Step::Small).unwrap();
    other.step(Step::Snapshot).unwrap();
    for path in other.disk.files().iter().filter(|path| *path != "reserve") {
        let disk = clean.fork();
        disk.write_file(path, &other.disk.read_file(path).unwrap());
        match open(&disk, &options(), Book::default()) {
            Err(JournalError::Foreign { .. } | JournalError::Damage(_)) => {}
            Err(error) => panic!("{path}: {error:?}"),
            // A snapshot older than the one in use is not looked into.
            Ok(opened) => {
                assert!(path.starts_with("snapshots/"), "{path} is taken for ours");
                holds(&opened, &ledger.book);
            }
        }
    }
}

/// A ledger whose store has another uuid.
fn open_seeded(random: u64) -> Ledger {
    let disk = SimDisk::new(random);
    let host = Host { machine_id: [1; 16], boot_id: [2; 16], random };
    let mut history = History::default();
    drop(midwatch::journal::Journal::open(disk.clone(), options(), host, &mut history).unwrap());
    open(&disk, &options(), Book::default()).unwrap().ledger
}

// spec: JRN-015
#[test]
fn w69_a_sealed_segment_shorter_than_its_successor_says_is_damage() {
    let mut ledger = fresh(69);
    ledger.step(Step::Large).unwrap();
    let frame = Frame::of(&mut ledger, &[3000]);
    ledger.step(Step::Rotate).unwrap();
    let clean = ledger.disk.restarted();
    let sealed = &frame.path;
    let end = clean.read_file(sealed).unwrap().iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for less in [1, 512, 4096] {
        let disk = clean.fork();
        disk.cut(sealed, end - less);
        let error = refusal(&disk);
        assert!(matches!(&error, JournalError::Damage(it) if it.file == *sealed), "{error:?}");
    }
}

/// A disk whose bytes change now and then between two looks at them.
#[derive(Clone)]
struct Shifty {
    disk: SimDisk,
    dice: std::rc::Rc<std::cell::RefCell<Dice>>,
}

struct ShiftyFile {
    file: <SimDisk as Disk>::File,
    dice: std::rc::Rc<std::cell::RefCell<Dice>>,
}

impl Disk for Shifty {
    type File = ShiftyFile;
    fn create(&self, _: &str) -> io::Result<ShiftyFile> {
        unreachable!("a reader makes nothing")
    }
    fn open_read(&self, path: &str) -> io::Result<ShiftyFile> {
        Ok(ShiftyFile { file: self.disk.open_read(path)?, dice: self.dice.clone() })
    }
    fn open_write(&self, _: &str) -> io::Result<ShiftyFile> {
        unreachable!("a reader writes nothing")
    }
    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unreachable!("a reader renames nothing")
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        unreachable!("a reader removes nothing")
    }
    fn create_dir(&self, _: &str) -> io::Result<()> {
        unreachable!("a reader makes nothing")
    }
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, _: &str) -> io::Result<()> {
        unreachable!("a reader syncs nothing")
    }
    fn is_still(&self, path: &str, file: &ShiftyFile) -> io::Result<bool> {
        self.disk.is_still(path, &file.file)
    }
    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }
}

impl DiskFile for ShiftyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(offset, buffer)?;
        let mut dice = self.dice.borrow_mut();
        if 0 < count && dice.one_in(6) {
            let at = dice.below(count);
            buffer[at] ^= 1 << dice.below(8);
        }
        Ok(count)
    }
    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<usize> {
        unreachable!("a reader writes nothing")
    }
    fn sync(&mut self) -> io::Result<()> {
        unreachable!("a reader syncs nothing")
    }
    fn allocate(&mut self, _: u64) -> io::Result<()> {
        unreachable!("a reader makes nothing")
    }
}

#[test]
fn w70_bytes_that_change_between_two_reads_never_become_a_record() {
    let ledger = store();
    let clean = ledger.disk.restarted();
    let all = ledger.book.batches.len();
    let (mut whole, mut told, mut refused) = (0, 0, 0);
    for seed in 0..1_500 {
        let dice = std::rc::Rc::new(std::cell::RefCell::new(Dice::new(seed)));
        let disk = Shifty { disk: clean.fork(), dice };
        let mut history = History::default();
        match replay(&disk, u64::MAX, &mut history) {
            Err(_) => refused += 1,
            Ok((recovery, _)) => {
                let found = ledger.book.check(&history, 0, all);
                let found = found.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
                let suspicious = matches!(recovery.tail, TailClass::Suspicious { .. });
                assert!(found == all || suspicious, "seed {seed}: {found} of {all}, not a word");
                if found == all { whole += 1 } else { told += 1 }
            }
        }
    }
    assert!(0 < whole && 0 < refused, "{whole} whole, {told} told, {refused} refused");
}

#[test]
fn w66_a_file_of_full_length_without_blocks_gives_an_error_when_the_disk_is_full() {
    let disk = SimDisk::new(66);
    // A file system that cannot reserve blocks: each write has to find its own.
    let unsupported = Failure::Error(Errno::OPNOTSUPP);
    disk.fail(Op::Allocate, 1, unsupported, midwatch::sim::Times::Forever);
    let options = midwatch::journal::Options { reserve: 0, ..options() };
    let mut ledger = open(&disk, &options, Book::default()).unwrap().ledger;
    ledger.step(Step::Multi).unwrap();
    disk.capacity(disk.used());
    let error = (0..20).find_map(|_| ledger.commit(&[2_000]).err()).expect("no room");
    assert!(error.is_full(), "{error:?}");
    let next = disk.restarted();
    next.capacity(u64::MAX);
    let opened = open(&next, &options, Book::default()).unwrap();
    let all = ledger.book.batches.len();
    ledger.book.check(&opened.history, ledger.book.acked, all).unwrap();
}
