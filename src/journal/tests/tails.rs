//! Every end that a crash can leave, and some that only bad hardware can.

use super::faulty::{Call, Faulty};
use super::*;

/// A store with two small frames and a last one of four sectors, and where that one begins.
fn three_frames() -> (Bench, PathBuf, usize) {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "a");
    add(&mut journal, "b");
    add(&mut journal, &"c".repeat(1900));
    drop(journal);
    let path = bench.segments().pop().unwrap();
    let last = *frames_of(&bench, &path).last().unwrap();
    assert_eq!(last, 4096 + 1024);
    (bench, path, usize::try_from(last).unwrap())
}

const FRAME: usize = 2048;

/// What a start makes of the store as it lies there: the texts and the class, by two readers.
fn look(bench: &Bench) -> (Vec<String>, TailClass) {
    let before = bench.image();
    let mut seen = Seen::default();
    let (_, report) = replay(&bench.disk(), u64::MAX, &mut seen).unwrap();
    assert_eq!(bench.scan().unwrap().tail, report.tail);
    assert_eq!(bench.image(), before, "reading writes nothing");
    let short = seen.texts().iter().map(|text| text[..1].to_owned()).collect();
    (short, report.tail)
}

/// Opens, adds a record, and opens again: it must be there, behind those that were.
fn goes_on(bench: &Bench, texts: &[String]) {
    let old = bench.image();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "z");
    drop(journal);
    for (path, bytes) in old.iter().filter(|(path, _)| path.extension().is_some()) {
        assert_eq!(&fs::read(path).unwrap(), bytes, "a segment of before is never written to");
    }
    let (again, tail) = look(bench);
    assert_eq!(again[..texts.len()], *texts);
    assert_eq!((again.len(), tail), (texts.len() + 1, TailClass::End));
}

/// A stretch at the end of which only the first frame's header was left counted as one write that
/// was never answered, however many answered ones stood behind it.
// spec: REC-022
#[test]
fn what_was_written_behind_a_bad_frame_proves_that_it_was_durable() {
    let (bench, path, last) = three_frames();
    let second = last - 512;
    let image = bench.image();
    let refused = |what: &str| {
        let before = bench.image();
        let found = bench.scan();
        assert!(matches!(found, Err(JournalError::Damage(_))), "{what}: {found:?}");
        assert_eq!(bench.image(), before, "{what}");
        bench.restore(&image);
    };
    edit(&path, |bytes| {
        bytes[second + 44] ^= 1;
        bytes[last..].fill(0x5A);
    });
    refused("bytes that nobody can read");
    edit(&path, |bytes| {
        bytes[second..second + 512].fill(0);
        bytes[last + 50] ^= 1;
    });
    refused("a header alone");
    // Where answers may precede the sync two writes may be on their way at once.
    let weak = Bench { options: Options { fsync: Fsync::Never, ..bench.options }, ..Bench::new() };
    let (mut journal, ..) = weak.open();
    add(&mut journal, "a");
    add(&mut journal, "b");
    drop(journal);
    let path = weak.segments().pop().unwrap();
    edit(&path, |bytes| {
        bytes[4096 + 44] ^= 1;
        bytes[4096 + 512..4096 + 1024].fill(0x5A);
    });
    assert!(weak.scan().is_ok());
}

// B03.
// spec: REC-011
#[test]
fn a_last_record_cut_at_any_byte_is_torn_and_all_before_it_stay() {
    let (bench, path, last) = three_frames();
    let image = bench.image();
    let whole = last + 32 + 12 + 1900;
    for length in last..whole {
        edit(&path, |bytes| bytes.truncate(length));
        let (texts, tail) = look(&bench);
        assert_eq!(texts, ["a", "b"], "cut to {length}");
        let torn = matches!(tail, TailClass::Torn { .. });
        assert_eq!(torn, last < length, "cut to {length}: {tail:?}");
        if length % 97 == 0 {
            goes_on(&bench, &texts);
        }
        bench.restore(&image);
    }
    edit(&path, |bytes| bytes.truncate(whole));
    assert_eq!(look(&bench), (vec!["a".into(), "b".into(), "c".into()], TailClass::End));
}

// B04.
// spec: JRN-026
#[test]
fn zeros_that_begin_at_any_byte_of_the_last_record_are_no_alarm() {
    let (bench, path, last) = three_frames();
    let image = bench.image();
    for from in last..last + 32 + 12 + 1900 {
        edit(&path, |bytes| bytes[from..].fill(0));
        let (texts, tail) = look(&bench);
        assert_eq!(texts, ["a", "b"], "zeros from {from}");
        assert_eq!(tail == TailClass::End, from == last, "zeros from {from}: {tail:?}");
        assert!(!matches!(tail, TailClass::Suspicious { .. }), "zeros from {from}: {tail:?}");
        bench.restore(&image);
    }
}

#[test]
fn zeros_behind_the_last_record_are_its_end() {
    let (bench, path, _) = three_frames();
    for count in [1, 511, 512, 513, 4096, 8192] {
        edit(&path, |bytes| bytes.resize(bytes.len() + count, 0));
        assert_eq!(look(&bench).1, TailClass::End);
    }
    edit(&path, |bytes| bytes.truncate(4096 + 3072));
    assert_eq!(look(&bench).1, TailClass::End);
    goes_on(&bench, &["a".into(), "b".into(), "c".into()]);
}

#[test]
fn any_subset_of_the_sectors_of_a_last_frame_is_torn_or_nothing() {
    let (bench, path, last) = three_frames();
    let image = bench.image();
    for subset in 0..15_u8 {
        edit(&path, |bytes| {
            for sector in (0..4).filter(|sector| subset >> sector & 1 == 0) {
                bytes[last + sector * 512..][..512].fill(0);
            }
        });
        let (texts, tail) = look(&bench);
        assert_eq!(texts, ["a", "b"]);
        match tail {
            TailClass::End => assert_eq!(subset, 0),
            TailClass::Torn { offset, .. } => assert_eq!(offset, last as u64),
            TailClass::Suspicious { .. } => panic!("subset {subset:04b}"),
        }
        goes_on(&bench, &texts);
        bench.restore(&image);
    }
}

// B01.
#[test]
fn seven_stray_bytes_at_the_end_harm_nothing_however_often() {
    let (bench, ..) = three_frames();
    for round in 0..4 {
        let newest = bench.segments().pop().unwrap();
        edit(&newest, |bytes| bytes.extend_from_slice(b"\x07random"));
        let (texts, tail) = look(&bench);
        assert_eq!(texts.len(), 3 + round);
        assert!(matches!(tail, TailClass::Torn { bytes, .. } if 0 < bytes), "{tail:?}");
        goes_on(&bench, &texts);
    }
}

// spec: REC-030
#[test]
fn half_a_frame_at_the_end_is_never_appended_to() {
    let (bench, path, last) = three_frames();
    let half = fs::read(&path).unwrap()[last..last + FRAME / 2].to_vec();
    for round in 0..3 {
        let newest = bench.segments().pop().unwrap();
        let end = usize::try_from(*frames_of(&bench, &newest).last().unwrap()).unwrap();
        edit(&newest, |bytes| {
            let end = end + if round == 0 { FRAME } else { 512 };
            bytes[end..end + half.len()].copy_from_slice(&half);
        });
        let (texts, _) = look(&bench);
        assert_eq!(texts.len(), 3 + round);
        goes_on(&bench, &texts);
    }
}

#[test]
fn random_bytes_behind_the_last_frame_are_torn_or_suspicious() {
    let (bench, path, last) = three_frames();
    let image = bench.image();
    let mut salts = writer::Salts::new(5);
    for round in 0..300 {
        let noise: Vec<u8> = (0..512).flat_map(|_| salts.draw().to_le_bytes()).collect();
        edit(&path, |bytes| {
            bytes.truncate(last + FRAME);
            bytes.extend_from_slice(&noise);
        });
        let (texts, tail) = look(&bench);
        assert_eq!(texts, ["a", "b", "c"]);
        assert!(matches!(tail, TailClass::Suspicious { bytes: 4000.., .. }), "{tail:?}");
        if round % 100 == 0 {
            goes_on(&bench, &texts);
        }
        bench.restore(&image);
    }
}

// spec: REC-012, REC-021, JRN-035
#[test]
fn a_flipped_bit_in_the_last_frame_is_suspicious_and_its_bytes_are_kept() {
    let (bench, path, last) = three_frames();
    let image = bench.image();
    for byte in (0..32 + 12).chain([500, 511, 512, 1000, 1943]) {
        edit(&path, |bytes| bytes[last + byte] ^= 4);
        let (texts, tail) = look(&bench);
        assert_eq!(texts, ["a", "b"], "byte {byte}");
        assert!(matches!(tail, TailClass::Suspicious { quarantined: None, .. }), "byte {byte}");
        assert_eq!(bench.scan().unwrap().exit_code(), 8);
        bench.restore(&image);
    }
    edit(&path, |bytes| bytes[last + 1000] ^= 4);
    let dirty = fs::read(&path).unwrap();
    let (mut journal, recovery, seen) = bench.open();
    assert_eq!(seen.texts().len(), 2);
    assert!(recovery.skipped_ahead);
    let TailClass::Suspicious { quarantined: Some(copy), bytes, .. } = recovery.tail else {
        panic!("{recovery:?}")
    };
    let kept = fs::read(bench.path().join(copy)).unwrap();
    assert_eq!(kept, dirty[last..last + usize::try_from(bytes).unwrap()]);
    assert_eq!(add(&mut journal, "z"), 3 + SKIP, "no number is handed out twice");
    drop(journal);
    assert_eq!(bench.open().2.records[2].0, 3 + SKIP);
}

// spec: JRN-035
#[test]
fn the_skip_survives_a_crash_before_the_first_new_record() {
    let (bench, path, last) = three_frames();
    edit(&path, |bytes| bytes[last + 1000] ^= 4);
    assert_eq!(bench.open().0.next_seq(), 3 + SKIP);
    // Whoever hands out numbers of its own must learn of the skip, however many starts it takes.
    for _ in 0..2 {
        let (journal, recovery, _) = bench.open();
        assert_eq!(journal.next_seq(), 3 + SKIP);
        assert_eq!((recovery.tail, recovery.skipped_ahead), (TailClass::End, true));
    }
    let (mut journal, ..) = bench.open();
    add(&mut journal, "told");
    drop(journal);
    assert!(!bench.open().1.skipped_ahead);
}

// spec: REC-042
#[test]
fn a_skip_is_told_of_also_over_a_compaction_and_a_clean_end() {
    let (bench, path, last) = three_frames();
    edit(&path, |bytes| bytes[last + 1000] ^= 4);
    let (mut journal, ..) = bench.open();
    let writer = journal.snapshot_writer().unwrap();
    journal.snapshot_alone(writer.finish().unwrap()).unwrap();
    journal.close().unwrap();
    assert_eq!(bench.segments().len(), 1);
    let (journal, recovery, _) = bench.open();
    assert_eq!((journal.next_seq(), recovery.skipped_ahead), (3 + SKIP, true));
}

// spec: REC-013
#[test]
fn a_suspicious_tail_can_be_a_reason_to_stop() {
    let (mut bench, path, last) = three_frames();
    edit(&path, |bytes| bytes[last + 1000] ^= 4);
    bench.options.halt_on_suspicious_tail = true;
    let before = bench.image();
    let error = bench.try_open().err().unwrap();
    assert_eq!((error.code(), error.exit_code()), ("MW-J007", 6));
    assert_eq!(bench.image(), before);
}

// spec: REC-011
#[test]
fn frames_behind_a_lost_one_are_counted_and_not_applied() {
    let mut bench = Bench::new();
    bench.options.fsync = Fsync::Never;
    let (mut journal, ..) = bench.open();
    for text in ["a", "b", "c", "d"] {
        add(&mut journal, text);
    }
    drop(journal);
    let path = bench.segments().pop().unwrap();
    edit(&path, |bytes| bytes[4096 + 512..4096 + 1024].fill(0));
    let (texts, tail) = look(&bench);
    assert_eq!(texts, ["a"]);
    assert!(matches!(tail, TailClass::Torn { frames_after: 2, .. }), "{tail:?}");
    goes_on(&bench, &texts);
}

// spec: REC-031, JRN-014
#[test]
fn only_what_is_not_proven_durable_is_copied() {
    let (bench, path, last) = three_frames();
    drop(bench.open());
    let newest = bench.segments().pop().unwrap();
    assert_eq!(frames_of(&bench, &newest), [4096], "the last frame");
    // What lies behind the end that the new header names is dead.
    edit(&path, |bytes| bytes[last..].fill(0xAA));
    assert_eq!(look(&bench).0, ["a", "b", "c"]);
    drop(bench.open());
    let newest = bench.segments().pop().unwrap();
    assert!(frames_of(&bench, &newest).is_empty(), "a copy is durable before it has a name");
    let (journal, ..) = bench.open();
    journal.close().unwrap();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "d");
    journal.close().unwrap();
    drop(bench.open());
    let newest = bench.segments().pop().unwrap();
    assert!(frames_of(&bench, &newest).is_empty(), "a clean end is proven");
}

// B04.
// spec: REC-014
#[test]
fn a_blank_newest_segment_that_nothing_names_is_set_aside() {
    for length in [0, 100, 65536] {
        let (bench, ..) = three_frames();
        let blank = bench.path().join("journal/0000000002-00000000000000000004.journal");
        put(&blank, &vec![0; length]);
        let (texts, tail) = look(&bench);
        assert_eq!(texts, ["a", "b", "c"]);
        assert!(matches!(tail, TailClass::Suspicious { .. }));
        let (mut journal, recovery, _) = bench.open();
        assert!(recovery.skipped_ahead);
        assert_eq!(fs::read(&bench.files("quarantine")[0]).unwrap().len(), length);
        add(&mut journal, "z");
        drop(journal);
        assert_eq!(look(&bench).0, ["a", "b", "c", "z"]);
    }
}

// spec: REC-014
#[test]
fn a_blank_segment_is_set_aside_where_there_is_no_other_one() {
    for name in ["0000000001-00000000000000000001", "0000000003-00000000000000000009"] {
        let bench = Bench::new();
        fs::create_dir(bench.path().join("journal")).unwrap();
        put(&bench.path().join(format!("journal/{name}.journal")), &[0; 4096]);
        let (texts, tail) = look(&bench);
        assert!(texts.is_empty());
        assert!(matches!(tail, TailClass::Suspicious { .. }), "{tail:?}");
        let (mut journal, recovery, _) = bench.open();
        assert!(recovery.skipped_ahead);
        assert_eq!(bench.files("quarantine").len(), 1);
        add(&mut journal, "z");
        drop(journal);
        assert_eq!(look(&bench), (vec!["z".to_owned()], TailClass::End));
    }
}

// spec: REC-012, REC-014
#[test]
fn a_blank_segment_behind_a_suspicious_end_is_set_aside_with_it() {
    for number in [2, 9] {
        let (bench, path, last) = three_frames();
        fs::remove_file(bench.path().join("floor")).unwrap();
        edit(&path, |bytes| bytes[last + 50] ^= 1);
        let blank = format!("journal/{number:010}-00000000000000000003.journal");
        put(&bench.path().join(blank), &[0; 4096]);
        let (texts, tail) = look(&bench);
        assert_eq!(texts, ["a", "b"]);
        assert!(matches!(&tail, TailClass::Suspicious { bytes, .. } if *bytes != 0), "{tail:?}");
        let (mut journal, recovery, _) = bench.open();
        assert!(recovery.notes.iter().any(|note| note.contains("blank")));
        assert_eq!(bench.files("quarantine").len(), 2);
        add(&mut journal, "z");
        drop(journal);
        assert_eq!(look(&bench), (["a", "b", "z"].map(str::to_owned).to_vec(), TailClass::End));
    }
}

// spec: JRN-015
#[test]
fn a_last_frame_without_its_padding_stays_however_often_the_store_is_opened() {
    for closed in [true, false] {
        let bench = Bench::new();
        let (mut journal, ..) = bench.open();
        add(&mut journal, "a");
        add(&mut journal, "b");
        if closed {
            journal.close().unwrap();
        } else {
            drop(journal);
            drop(bench.open()); // it copies the last frame
        }
        let path = bench.segments().pop().unwrap();
        let last = usize::try_from(*frames_of(&bench, &path).last().unwrap()).unwrap();
        edit(&path, |bytes| bytes.truncate(last + 32 + 12 + 1));
        let (texts, tail) = look(&bench);
        assert_eq!((&texts[..], tail), (&["a".to_owned(), "b".to_owned()][..], TailClass::End));
        goes_on(&bench, &texts);
        drop(bench.open());
        assert_eq!(look(&bench).0, ["a", "b", "z"]);
    }
}

// spec: JRN-001, JRN-002
#[test]
fn what_a_crash_left_half_made_is_removed() {
    let (bench, ..) = three_frames();
    let stray = ["journal/0000000002-00000000000000000004.journal.tmp", "snapshots/x.tmp"];
    for path in stray {
        put(&bench.path().join(path), &[0xEE; 5000]);
    }
    put(&bench.path().join("journal/notes.txt"), b"mine");
    let (_, recovery, seen) = bench.open();
    assert_eq!(seen.records.len(), 3);
    assert!(recovery.notes.iter().any(|note| note.contains("notes.txt")));
    assert!(stray.iter().all(|path| !bench.path().join(path).exists()));
    assert!(bench.path().join("journal/notes.txt").exists());
}

// spec: JRN-019
#[test]
fn a_name_that_a_killed_process_left_unsynced_is_synced_before_anything_rests_on_it() {
    let (bench, ..) = three_frames();
    let disk = Faulty::new(bench.disk());
    let (_journal, _) =
        Journal::open(disk.clone(), bench.options, host(), &mut Seen::default()).unwrap();
    let state = disk.state.lock().unwrap();
    let first_of = |call, path: &str| {
        let mut log = state.log.iter();
        log.position(|(done, file)| *done == call && file.starts_with(path)).unwrap()
    };
    let create = first_of(Call::Create, "journal");
    assert!(first_of(Call::SyncDir, "journal") < create);
    assert!(first_of(Call::SyncDir, "snapshots") < create);
}

// spec: JRN-016
#[test]
fn the_sequence_can_skip_with_nothing_to_copy() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "lost");
    drop(journal);
    edit(&bench.segments()[0], |bytes| bytes[4096 + 40] ^= 1);
    let (mut journal, recovery, seen) = bench.open();
    assert!(recovery.skipped_ahead && seen.records.is_empty());
    assert_eq!(add(&mut journal, "a"), 1 + SKIP);
    for n in 0..30 {
        add(&mut journal, &format!("{n}"));
    }
    drop(journal);
    let seen = bench.open().2;
    assert_eq!((seen.records.len(), seen.records[0].0), (31, 1 + SKIP));
    let before = bench.scan().unwrap();
    assert_eq!((before.first_seq, before.next_seq), (1, 32 + SKIP));
}

#[test]
fn a_snapshot_right_after_a_skip_covers_what_comes_next() {
    let (bench, path, last) = three_frames();
    edit(&path, |bytes| bytes[last + 1000] ^= 4);
    for round in 0..4 {
        let (mut journal, _, seen) = bench.open();
        assert_eq!(seen.texts().len(), if round == 0 { 2 } else { 1 });
        let writer = journal.snapshot_writer().unwrap();
        journal.snapshot_done(writer.finish().unwrap()).unwrap();
        add(&mut journal, "z");
        assert_eq!(bench.scan().unwrap().exit_code(), 0);
    }
    assert!(bench.segments().len() <= 3, "{:?}", bench.segments());
}
