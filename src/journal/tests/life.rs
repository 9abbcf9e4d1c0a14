//! What a healthy journal does over its life.

use super::*;
use std::time::Duration;

// spec: JRN-034
#[test]
fn what_was_committed_is_replayed_in_order() {
    let bench = Bench::new();
    let (mut journal, recovery, seen) = bench.open();
    assert!(recovery.created);
    assert_eq!(seen, Seen::default());
    assert_eq!(journal.next_seq(), 1);
    let mut batch = Batch::new();
    batch.push(1, false, b"one");
    batch.push(2, true, b"");
    assert_eq!(journal.commit(&batch).unwrap(), 1);
    assert_eq!(add(&mut journal, "three"), 3);
    drop(journal);
    let (journal, recovery, seen) = bench.open();
    let expected =
        [(1, 1, b"one".to_vec()), (2, 2, Vec::new()), (3, 7, b"three".to_vec())].to_vec();
    assert_eq!(seen.records, expected);
    assert_eq!(recovery.tail, TailClass::End);
    assert_eq!(recovery.previous_boot_id, Some([2; 16]));
    assert!(!recovery.created && !recovery.clean_close && !recovery.skipped_ahead);
    assert_eq!(journal.next_seq(), 4);
}

// spec: JRN-052
#[test]
fn a_clean_close_is_known_at_the_next_start() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "a");
    journal.close().unwrap();
    assert!(bench.scan().unwrap().clean_close);
    let (journal, recovery, seen) = bench.open();
    assert!(recovery.clean_close);
    assert_eq!(seen.texts(), ["a"]);
    drop(journal);
    assert!(!bench.open().1.clean_close);
}

#[test]
fn an_empty_journal_is_an_ordinary_state() {
    let bench = Bench::new();
    for _ in 0..5 {
        let (journal, recovery, seen) = bench.open();
        assert_eq!((seen.records.len(), journal.next_seq()), (0, 1));
        assert_eq!(recovery.tail, TailClass::End);
    }
}

// spec: JRN-013, JRN-018
#[test]
fn segments_follow_each_other_and_replay_covers_all_of_them() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    let texts: Vec<String> = (0..100).map(|n| format!("{n}-{}", "x".repeat(300))).collect();
    for text in &texts {
        add(&mut journal, text);
    }
    assert!(5 < journal.stats().segments);
    drop(journal);
    let (_, recovery, seen) = bench.open();
    assert_eq!(seen.texts(), texts);
    assert_eq!(recovery.records, 100);
    let report = bench.scan().unwrap();
    assert_eq!((report.records, report.next_seq, report.exit_code()), (100, 101, 0));
}

// spec: JRN-017
#[test]
fn a_record_bigger_than_a_segment_gets_one_of_its_own() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "small");
    let big = "b".repeat(1 << 20);
    add(&mut journal, &big);
    add(&mut journal, "after");
    drop(journal);
    assert_eq!(bench.open().2.texts(), ["small", big.as_str(), "after"]);
    assert_eq!(bench.open().2.texts(), ["small", big.as_str(), "after"]);
}

#[test]
fn a_largest_record_survives_and_a_larger_one_never_fits() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    let largest = "b".repeat(frame::RECORD_BODY_BYTES_MAX);
    assert!(!Batch::new().fits(largest.len() + 1));
    add(&mut journal, &largest);
    drop(journal);
    assert_eq!(bench.open().2.texts(), [largest]);
}

// spec: REC-003, REC-030
#[test]
fn many_starts_change_nothing_but_the_number_of_segments() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    for text in ["a", "b", "c"] {
        add(&mut journal, text);
    }
    drop(journal);
    let before = bench.segments();
    let image = fs::read(&before[0]).unwrap();
    for _ in 0..4 {
        assert_eq!(bench.open().2.texts(), ["a", "b", "c"]);
        assert_eq!(fs::read(&before[0]).unwrap(), image, "an older segment is never written to");
    }
    assert_eq!(bench.segments().len(), before.len() + 4);
}

fn snapshot(journal: &mut Journal<RealDisk>, image: &[&str]) {
    let mut writer = journal.snapshot_writer().unwrap();
    for text in image {
        writer.push(9, false, text.as_bytes()).unwrap();
    }
    let done = std::thread::scope(|scope| scope.spawn(|| writer.finish()).join().unwrap());
    journal.snapshot_done(done.unwrap()).unwrap();
}

// spec: JRN-063
#[test]
fn a_snapshot_stands_in_for_the_records_before_it() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "a");
    add(&mut journal, "b");
    assert!(0 < journal.bytes_since_snapshot());
    snapshot(&mut journal, &["a", "b"]);
    assert_eq!(journal.bytes_since_snapshot(), 0);
    add(&mut journal, "c");
    let since = journal.bytes_since_snapshot();
    drop(journal);
    let (journal, recovery, seen) = bench.open();
    assert_eq!(seen.snapshot, Some(2));
    assert_eq!(seen.image, [(9, b"a".to_vec()), (9, b"b".to_vec())]);
    assert_eq!(seen.texts(), ["c"]);
    assert_eq!(recovery.snapshot.unwrap().records, 2);
    assert_eq!(journal.bytes_since_snapshot(), since);
}

#[test]
fn records_committed_while_a_snapshot_is_written_are_replayed_behind_it() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "a");
    let mut writer = journal.snapshot_writer().unwrap();
    add(&mut journal, "b");
    writer.push(9, false, b"a").unwrap();
    let done = writer.finish().unwrap();
    add(&mut journal, "c");
    journal.snapshot_done(done).unwrap();
    assert!(0 < journal.bytes_since_snapshot());
    drop(journal);
    let seen = bench.open().2;
    assert_eq!((seen.snapshot, seen.texts()), (Some(1), vec!["b".to_owned(), "c".to_owned()]));
}

// spec: JRN-064, REC-019
#[test]
fn two_snapshots_are_kept_and_the_segments_the_older_one_needs() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    for round in 0..6 {
        for n in 0..40 {
            add(&mut journal, &format!("{round}-{n}-{}", "x".repeat(300)));
        }
        snapshot(&mut journal, &["image"]);
        assert!(bench.files("snapshots").len() <= 2);
        assert!(journal.stats().segments < 12, "{:?}", journal.stats());
    }
    assert!(1 < journal.stats().oldest_segment);
    drop(journal);
    let newest = bench.files("snapshots").pop().unwrap();
    edit(&newest, |bytes| bytes[4096 + 45] ^= 1);
    assert_eq!(bench.scan().unwrap().exit_code(), 8);
    let (mut journal, recovery, seen) = bench.open();
    assert_eq!(seen.records.len(), 40);
    assert_eq!(recovery.passed_over.len(), 1);
    assert_eq!(seen.snapshot, Some(200));
    assert_eq!(bench.scan().unwrap().exit_code(), 0);
    snapshot(&mut journal, &["again"]);
    drop(journal);
    assert_eq!(bench.open().2.image, [(9, b"again".to_vec())]);
}

// spec: JRN-060, JRN-061
#[test]
fn a_large_snapshot_spans_frames() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "a");
    let text = "y".repeat(1000);
    let image: Vec<&str> = (0..1000).map(|_| text.as_str()).collect();
    snapshot(&mut journal, &image);
    drop(journal);
    assert_eq!(bench.open().2.image.len(), 1000);
}

// spec: JRN-062
#[test]
fn a_snapshot_that_was_never_finished_is_removed() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "a");
    let mut writer = journal.snapshot_writer().unwrap();
    writer.push(9, false, b"a").unwrap();
    let aside = bench.files("snapshots").pop().unwrap();
    let half = fs::read(&aside).unwrap();
    drop(writer);
    assert!(bench.files("snapshots").is_empty(), "given up, it keeps no room");
    drop(journal);
    // A crash gives nothing up.
    put(&aside, &half);
    put(&bench.path().join("snapshots/00000000000000000001.snapshot"), b"");
    assert_eq!(bench.files("snapshots").len(), 2);
    let (_, recovery, seen) = bench.open();
    assert_eq!((seen.snapshot, seen.texts()), (None, vec!["a".to_owned()]));
    assert_eq!(recovery.passed_over.len(), 1);
    assert!(bench.files("snapshots").is_empty());
}

// spec: REC-040, REC-041
#[test]
fn a_weak_policy_syncs_when_due_and_skips_ahead_after_an_unclean_end() {
    let mut bench = Bench::new();
    bench.options.fsync = Fsync::Interval(Duration::from_millis(200));
    let (mut journal, ..) = bench.open();
    add(&mut journal, "a");
    let at = Duration::from_secs;
    assert_eq!(journal.sync_if_due(at(1)).unwrap(), Some(Duration::from_millis(200)));
    assert!(journal.is_dirty());
    assert_eq!(journal.sync_if_due(at(2)).unwrap(), None);
    assert!(!journal.is_dirty());
    add(&mut journal, "b");
    drop(journal);
    let (mut journal, recovery, seen) = bench.open();
    assert_eq!(seen.texts(), ["a", "b"]);
    assert!(recovery.skipped_ahead);
    assert_eq!(journal.next_seq(), 3 + SKIP);
    assert_eq!(add(&mut journal, "c"), 3 + SKIP);
    journal.close().unwrap();
    let (journal, recovery, seen) = bench.open();
    assert!(recovery.clean_close && !recovery.skipped_ahead);
    assert_eq!(seen.records[2].0, 3 + SKIP);
    assert_eq!(journal.next_seq(), 4 + SKIP);
}

#[test]
fn a_weak_journal_skips_again_when_it_dies_at_once() {
    let mut bench = Bench::new();
    bench.options.fsync = Fsync::Never;
    let (mut journal, ..) = bench.open();
    for n in 0..60 {
        add(&mut journal, &format!("{n}-{}", "x".repeat(300)));
    }
    drop(journal);
    for round in 1..4 {
        let (journal, _, seen) = bench.open();
        assert_eq!(seen.records.len(), 60);
        assert_eq!(journal.next_seq(), 61 + round * SKIP);
    }
}

// proof: F18
// spec: JRN-003
#[test]
fn a_second_process_is_told_who_holds_the_directory() {
    let bench = Bench::new();
    let lock = DirLock::acquire(bench.path()).unwrap();
    let error = DirLock::acquire(bench.path()).unwrap_err();
    assert!(matches!(error, JournalError::InUse { pid: Some(pid) } if pid == std::process::id()));
    assert_eq!(error.exit_code(), 7);
    drop(lock);
    put(&bench.path().join("midwatch.lock"), b"");
    DirLock::acquire(bench.path()).unwrap();
}

// spec: JRN-003
#[test]
fn a_lock_file_that_somebody_removed_lets_nobody_in() {
    let bench = Bench::new();
    let lock = DirLock::acquire(bench.path()).unwrap();
    fs::remove_file(bench.path().join("midwatch.lock")).unwrap();
    for take in [DirLock::probe, DirLock::acquire] {
        let error = take(bench.path()).unwrap_err();
        assert!(matches!(error, JournalError::InUse { .. }), "{error}");
    }
    drop(lock);
    DirLock::acquire(bench.path()).unwrap();
}

#[test]
fn a_refused_record_names_its_place() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "a");
    add(&mut journal, "b");
    drop(journal);
    let before = bench.image();
    let error = bench.try_open_into(Seen { refuse: Some(2), ..Seen::default() }).err().unwrap();
    let JournalError::Refused { offset, seq, ref text, .. } = error else { panic!("{error}") };
    assert_eq!((offset, seq, text.as_str()), (4096 + 512 + 32, 2, "no such kind"));
    assert_eq!(bench.image(), before);
}

// spec: REC-005 REC-007
#[test]
fn a_store_from_another_machine_waits_for_a_word_and_a_machine_without_a_name_is_the_same_one() {
    let (ours, theirs, nobody) = ([1; 16], [9; 16], [0; 16]);
    for (last, now, is_elsewhere) in [
        (theirs, ours, true),
        (ours, ours, false),
        (nobody, ours, false),
        (theirs, nobody, false),
        (nobody, nobody, false),
    ] {
        let mut bench = Bench::new();
        let open = |bench: &Bench, machine_id| {
            let host = Host { machine_id, ..host() };
            Journal::open(bench.disk(), bench.options, host, &mut Seen::default())
        };
        let (mut journal, _) = open(&bench, last).unwrap();
        add(&mut journal, "a");
        drop(journal);
        let before = bench.image();
        match open(&bench, now) {
            Err(JournalError::Elsewhere) => assert!(is_elsewhere, "{last:?} {now:?}"),
            Err(error) => panic!("{error}"),
            Ok((_, recovery)) => assert!(!is_elsewhere && !recovery.adopted, "{last:?} {now:?}"),
        }
        if is_elsewhere {
            assert_eq!(bench.image(), before, "a refusal changes nothing");
            bench.options.adopt = true;
            let (_, recovery) = open(&bench, now).unwrap();
            assert!(recovery.adopted);
            bench.options.adopt = false;
            assert!(!open(&bench, now).unwrap().1.adopted, "from then on it is ours");
        }
    }
}

#[test]
fn a_removed_data_directory_is_noticed() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    journal.check_still_there().unwrap();
    for path in bench.segments() {
        fs::remove_file(path).unwrap();
    }
    journal.check_still_there().unwrap_err();
}

#[test]
fn the_state_at_a_sequence_can_be_replayed_without_writing() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    for text in ["a", "b", "c", "d"] {
        add(&mut journal, text);
    }
    let before = bench.image();
    let mut seen = Seen::default();
    replay(&bench.disk(), 2, &mut seen).unwrap();
    assert_eq!(seen.texts(), ["a", "b"]);
    assert_eq!(bench.image(), before);
}

/// The synced flags of all frames.
fn flags(bench: &Bench) -> Vec<bool> {
    struct Flags(Vec<bool>);
    impl Visitor for Flags {
        fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
            self.0.push(frame.synced);
            Ok(())
        }
    }
    let mut flags = Flags(Vec::new());
    scan(&bench.disk(), &mut flags).unwrap();
    flags.0
}

// spec: JRN-029, JRN-041
#[test]
fn a_frame_says_whether_all_before_it_was_synced() {
    let mut bench = Bench::new();
    let (mut journal, ..) = bench.open();
    for text in ["a", "b", "c"] {
        add(&mut journal, text);
    }
    assert_eq!(flags(&bench), [true, true, true]);
    bench = Bench::new();
    bench.options.fsync = Fsync::Never;
    let (mut journal, ..) = bench.open();
    for text in ["a", "b", "c"] {
        add(&mut journal, text);
    }
    journal.sync().unwrap();
    add(&mut journal, "d");
    assert_eq!(flags(&bench), [true, false, false, true]);
}

// spec: JRN-031
#[test]
fn a_commit_changes_no_sector_that_was_written_before() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    let mut written = 4096;
    for length in [1, 467, 468, 900, 3, 400] {
        let path = bench.segments().pop().unwrap();
        let before = fs::read(&path).unwrap();
        add(&mut journal, &"x".repeat(length));
        let after = fs::read(&path).unwrap();
        assert_eq!(after[..written], before[..written]);
        assert_ne!(after[written..], before[written..]);
        written += (32 + 12 + length + 1).next_multiple_of(512);
    }
}
