//! Calls that fail: no space, short, interrupted, broken.

use super::faulty::{Call, Fault, Faulty};
use super::*;
use std::io::ErrorKind;

fn open_on(bench: &Bench, disk: &Faulty) -> Result<(Journal<Faulty>, Seen), JournalError> {
    let mut seen = Seen::default();
    let (journal, _) = Journal::open(disk.clone(), bench.options, host(), &mut seen)?;
    Ok((journal, seen))
}

fn started() -> (Bench, Faulty, Journal<Faulty>) {
    let bench = Bench::new();
    let disk = Faulty::new(bench.disk());
    let (mut journal, _) = open_on(&bench, &disk).unwrap();
    add(&mut journal, "a");
    (bench, disk, journal)
}

fn fault(call: Call, path: &'static str, error: ErrorKind) -> Fault {
    Fault { call: Some(call), path, times: usize::MAX, error: Some(error), ..Fault::default() }
}

// spec: JRN-044
#[test]
fn a_write_without_room_is_repeated_at_the_same_place_after_the_reserve_is_freed() {
    let (bench, disk, mut journal) = started();
    for text in ["b", "c"] {
        disk.set(Fault {
            times: 1,
            while_there: Some("reserve"),
            ..fault(Call::Write, ".journal", ErrorKind::StorageFull)
        });
        add(&mut journal, text);
    }
    assert!(!bench.path().join("reserve").exists());
    assert!(!journal.stats().reserve_held);
    drop(journal);
    assert_eq!(bench.open().2.texts(), ["a", "b", "c"]);
}

// spec: JRN-042
#[test]
fn when_the_reserve_does_not_help_the_writer_stops() {
    let (bench, disk, mut journal) = started();
    disk.set(fault(Call::Write, ".journal", ErrorKind::StorageFull));
    let error = try_add(&mut journal, "b").unwrap_err();
    assert_eq!((error.code(), error.exit_code()), ("MW-J008", 7));
    assert!(matches!(try_add(&mut journal, "c"), Err(JournalError::Poisoned)));
    assert!(matches!(journal.snapshot_writer(), Err(JournalError::Poisoned)));
    assert!(matches!(journal.close(), Err(JournalError::Poisoned)));
    assert_eq!(bench.open().2.texts(), ["a"]);
}

// spec: JRN-046
#[test]
fn new_work_is_refused_when_only_the_reserve_is_left_and_taken_again_when_room_returns() {
    let (bench, disk, mut journal) = started();
    assert_eq!(journal.has_room_for(100).unwrap(), Room::Plenty);
    disk.state.lock().unwrap().free = Some(0);
    assert_eq!(journal.has_room_for(100).unwrap(), Room::Plenty, "it has blocks already");
    assert_eq!(journal.has_room_for(100_000).unwrap(), Room::ReserveOnly);
    disk.set(Fault {
        while_there: Some("reserve"),
        ..fault(Call::Write, ".journal", ErrorKind::StorageFull)
    });
    add(&mut journal, "b");
    assert_eq!(journal.has_room_for(100).unwrap(), Room::ReserveOnly);
    disk.state.lock().unwrap().fault = None;
    disk.state.lock().unwrap().free = Some(1 << 20);
    assert_eq!(journal.has_room_for(100).unwrap(), Room::Plenty);
    assert!(bench.path().join("reserve").exists());
}

// spec: JRN-047
#[test]
fn a_start_on_a_full_disk_uses_the_reserve() {
    let (bench, disk, journal) = started();
    drop(journal);
    for call in [Call::Create, Call::Write, Call::Allocate] {
        put(&bench.path().join("reserve"), &[0; 16 << 10]);
        disk.state.lock().unwrap().free = Some(0);
        disk.set(Fault {
            while_there: Some("reserve"),
            ..fault(call, ".journal", ErrorKind::StorageFull)
        });
        let (journal, seen) = open_on(&bench, &disk).unwrap();
        assert_eq!(seen.texts(), ["a"], "{call:?}");
        assert_eq!(journal.stats().reserve_held, call == Call::Allocate, "{call:?}");
    }
}

#[test]
fn without_a_reserve_a_start_on_a_full_disk_says_so_and_changes_nothing_that_counts() {
    let (bench, disk, journal) = started();
    drop(journal);
    fs::remove_file(bench.path().join("reserve")).unwrap();
    disk.set(fault(Call::Write, "", ErrorKind::StorageFull));
    let error = open_on(&bench, &disk).err().unwrap();
    assert!(error.is_full() && error.exit_code() == 7);
    assert_eq!(bench.open().2.texts(), ["a"]);
}

// spec: JRN-045
#[test]
fn short_and_interrupted_writes_leave_the_same_bytes() {
    let written = |fault: Option<Fault>| {
        let bench = Bench::new();
        let disk = Faulty::new(bench.disk());
        let host = Host { random: 1, ..host() };
        let (mut journal, _) =
            Journal::open(disk.clone(), bench.options, host, &mut Seen::default()).unwrap();
        disk.state.lock().unwrap().fault = fault;
        add(&mut journal, &"b".repeat(3000));
        fs::read(bench.segments().pop().unwrap()).unwrap()
    };
    let good = written(None);
    for short in [1, 7, 39, 511, 512, 3071] {
        let fault = Fault {
            call: Some(Call::Write),
            path: ".journal",
            times: 3,
            error: None,
            short,
            ..Fault::default()
        };
        assert!(written(Some(fault)) == good, "{short} bytes at a time");
    }
    let fault = Fault { times: 5, ..fault(Call::Write, ".journal", ErrorKind::Interrupted) };
    assert!(written(Some(fault)) == good);
}

#[test]
fn a_write_of_nothing_is_an_error() {
    let (_bench, disk, mut journal) = started();
    let fault = fault(Call::Write, ".journal", ErrorKind::Other);
    disk.set(Fault { error: None, short: 0, ..fault });
    let error = try_add(&mut journal, "b").unwrap_err();
    assert!(matches!(error, JournalError::Io { ref source, .. }
        if source.kind() == ErrorKind::WriteZero));
}

// spec: JRN-043
#[test]
fn a_failed_sync_is_final_and_never_repeated() {
    let (bench, disk, mut journal) = started();
    let before = disk.calls(Call::Sync, ".journal");
    disk.set(Fault { times: 1, ..fault(Call::Sync, ".journal", ErrorKind::Other) });
    assert!(matches!(try_add(&mut journal, "b"), Err(JournalError::Sync { .. })));
    assert!(matches!(try_add(&mut journal, "c"), Err(JournalError::Poisoned)));
    assert!(matches!(journal.sync(), Err(JournalError::Poisoned)));
    assert!(matches!(journal.close(), Err(JournalError::Poisoned)));
    assert_eq!(disk.calls(Call::Sync, ".journal"), before + 1);
    let texts = bench.open().2.texts();
    assert!(texts == ["a"] || texts == ["a", "b"], "{texts:?}");
}

// spec: JRN-040
#[test]
fn each_commit_is_one_write_and_one_sync() {
    let (_bench, disk, mut journal) = started();
    let calls = |call| disk.calls(call, "");
    let before = (calls(Call::Write), calls(Call::Sync), disk.state.lock().unwrap().log.len());
    for text in ["b", "c", "d"] {
        add(&mut journal, text);
    }
    let after = (calls(Call::Write), calls(Call::Sync), disk.state.lock().unwrap().log.len());
    assert_eq!(after, (before.0 + 3, before.1 + 3, before.2 + 6));
}

// spec: REC-018
#[test]
fn an_error_on_read_is_an_error_and_never_the_end() {
    let (bench, disk, mut journal) = started();
    for n in 0..30 {
        add(&mut journal, &format!("{n}"));
    }
    drop(journal);
    let image = bench.image();
    for after in 0.. {
        disk.set(Fault { after, times: 1, ..fault(Call::Read, "", ErrorKind::Other) });
        let Err(error) = open_on(&bench, &disk) else {
            assert!(10 < after, "the loop reaches every read");
            break;
        };
        assert!(matches!(error, JournalError::Io { .. }), "read {after}: {error}");
        assert_eq!(bench.image(), image);
    }
    disk.set(Fault { times: 7, ..fault(Call::Read, "", ErrorKind::Interrupted) });
    assert_eq!(open_on(&bench, &disk).unwrap().1.records.len(), 31);
}

// spec: JRN-048
#[test]
fn a_file_system_that_cannot_preallocate_will_do() {
    let bench = Bench::new();
    let disk = Faulty::new(bench.disk());
    disk.set(fault(Call::Allocate, "", ErrorKind::Unsupported));
    let (mut journal, _) = open_on(&bench, &disk).unwrap();
    for n in 0..30 {
        add(&mut journal, &format!("{n}"));
    }
    assert_eq!(journal.has_room_for(100).unwrap(), Room::Plenty);
    drop(journal);
    assert_eq!(bench.open().2.records.len(), 30);
}

/// Commits, rotates, snapshots and closes; returns what was acknowledged.
fn work(bench: &Bench, disk: &Faulty, acknowledged: &mut Vec<String>) -> Result<(), JournalError> {
    for round in 0..3 {
        let (mut journal, seen) = open_on(bench, disk)?;
        let behind = usize::try_from(seen.snapshot.unwrap_or_default()).unwrap();
        assert_eq!(seen.texts(), acknowledged[behind..]);
        for n in 0..10 {
            let text = format!("{round}-{n}");
            try_add(&mut journal, &text)?;
            acknowledged.push(text);
        }
        let mut writer = journal.snapshot_writer()?;
        for text in acknowledged.iter() {
            writer.push(7, false, text.as_bytes())?;
        }
        journal.snapshot_done(writer.finish()?)?;
        journal.close()?;
    }
    Ok(())
}

/// The n-th call fails, for every n: what was acknowledged is there, and at most one more.
fn every_call_fails_once(error: ErrorKind, times: usize) {
    for after in 0.. {
        let bench = Bench::new();
        let disk = Faulty::new(bench.disk());
        let mut acknowledged = Vec::new();
        disk.set(Fault { after, times, error: Some(error), ..Fault::default() });
        let result = work(&bench, &disk, &mut acknowledged);
        let reached = disk.state.lock().unwrap().fault.unwrap().times != times;
        disk.state.lock().unwrap().fault = None;
        let (mut journal, seen) = open_on(&bench, &disk).unwrap();
        let image = seen.image.iter().map(|(_, body)| String::from_utf8(body.clone()).unwrap());
        let mut texts: Vec<String> = image.chain(seen.texts()).collect();
        let more = texts.len() - acknowledged.len();
        assert!(more <= usize::from(result.is_err()), "call {after}: {texts:?}");
        texts.truncate(acknowledged.len());
        assert_eq!(texts, acknowledged, "call {after}");
        add(&mut journal, "and on");
        if !reached {
            result.unwrap();
            assert!(150 < after, "the loop reaches every call, {after}");
            return;
        }
    }
}

// spec: REC-002
#[test]
fn a_broken_call_loses_nothing_acknowledged() {
    every_call_fails_once(ErrorKind::Other, 1);
}

#[test]
fn a_device_that_breaks_for_good_loses_nothing_acknowledged() {
    every_call_fails_once(ErrorKind::Other, usize::MAX);
}

#[test]
fn a_disk_that_fills_up_loses_nothing_acknowledged() {
    every_call_fails_once(ErrorKind::StorageFull, usize::MAX);
}

// spec: JRN-065
#[test]
fn segments_go_oldest_first_and_each_removal_is_synced() {
    let (_bench, disk, mut journal) = started();
    for round in 0..3 {
        for n in 0..20 {
            add(&mut journal, &format!("{round}-{n}"));
        }
        let writer = journal.snapshot_writer().unwrap();
        journal.snapshot_done(writer.finish().unwrap()).unwrap();
    }
    let state = disk.state.lock().unwrap();
    let removals: Vec<usize> = (0..state.log.len())
        .filter(|&at| state.log[at].0 == Call::Remove && state.log[at].1.ends_with(".journal"))
        .collect();
    assert!(2 < removals.len());
    assert!(removals.is_sorted_by_key(|&at| &state.log[at].1));
    for at in removals {
        assert_eq!(state.log[at + 1], (Call::SyncDir, "journal".to_owned()));
    }
}
