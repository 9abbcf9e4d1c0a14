//! The simulated disk keeps the promises of a disk and no others.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

use midwatch::journal::disk::{Disk, DiskFile};
use midwatch::sim::{CrashStates, Dice, Failure, Op, PageFate, SimDisk, Times, Turn};
use rustix::io::Errno;

const FOUND: Option<&[u8]> = Some(b"new");

/// Every content `path` can have after a power cut now.
fn possible(disk: &SimDisk, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    let states = CrashStates::of(disk, None);
    let choices = states.choices(4096, &mut Dice::new(1));
    choices.iter().map(|choice| states.disk(choice).read_file(path)).collect()
}

fn written(disk: &SimDisk, path: &str, bytes: &[u8]) -> <SimDisk as Disk>::File {
    let mut file = disk.create(path).unwrap();
    assert_eq!(file.write_at(0, bytes).unwrap(), bytes.len());
    file
}

#[test]
fn a_file_is_certain_only_after_it_and_its_directory_are_synced() {
    let disk = SimDisk::new(1);
    let mut file = written(&disk, "a", b"new");
    file.sync().unwrap();
    assert!(possible(&disk, "a").contains(&None));
    disk.sync_dir("").unwrap();
    assert_eq!(possible(&disk, "a"), BTreeSet::from([FOUND.map(<[u8]>::to_vec)]));
}

// proof: F3
#[test]
fn a_length_may_survive_without_its_bytes_and_bytes_without_their_length() {
    let disk = SimDisk::new(1);
    let file = written(&disk, "a", b"new");
    disk.sync_dir("").unwrap();
    let all = possible(&disk, "a");
    assert_eq!(all, BTreeSet::from([Some(vec![]), Some(vec![0; 3]), FOUND.map(<[u8]>::to_vec)]));
    drop(file);
}

#[test]
fn each_sector_of_an_unsynced_write_survives_or_not_by_itself() {
    let disk = SimDisk::new(1);
    let mut file = written(&disk, "a", &[1; 2048]);
    file.sync().unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(0, &[2; 2048]).unwrap();
    let states = CrashStates::of(&disk, None);
    assert_eq!(states.count(), 81, "old, new or zero in each of four sectors");
    assert_eq!(possible(&disk, "a").len(), 81);
}

#[test]
fn a_rename_is_whole_and_undone_until_the_directory_is_synced() {
    let disk = SimDisk::new(1);
    disk.write_file("a", b"old");
    let mut file = written(&disk, "a.tmp", b"new");
    file.sync().unwrap();
    disk.sync_dir("").unwrap();
    disk.rename("a.tmp", "a").unwrap();
    let old_and_new = [Some(b"old".to_vec()), Some(b"new".to_vec())];
    assert_eq!(possible(&disk, "a"), BTreeSet::from(old_and_new));
    disk.sync_dir("").unwrap();
    assert_eq!(possible(&disk, "a"), BTreeSet::from([Some(b"new".to_vec())]));
    assert_eq!(disk.list("").unwrap(), ["a"]);
}

#[test]
fn a_file_in_a_directory_that_was_lost_is_lost() {
    let disk = SimDisk::new(1);
    disk.create_dir("d").unwrap();
    written(&disk, "d/a", b"new").sync().unwrap();
    disk.sync_dir("d").unwrap();
    assert!(possible(&disk, "d/a").contains(&None));
    disk.sync_dir("").unwrap();
    assert!(!possible(&disk, "d/a").contains(&None));
}

#[test]
fn after_the_power_cut_every_call_fails_and_a_sync_it_hit_covers_nothing() {
    let disk = SimDisk::new(1);
    disk.crash_at(3, true);
    let mut file = written(&disk, "a", b"new");
    assert!(file.sync().is_err());
    assert!(disk.list("").is_err());
    assert!(disk.is_off());
    assert!(possible(&disk, "a").contains(&None));
    let later = disk.after_crash(7, false);
    assert!(later.list("").is_ok());
}

#[test]
fn a_write_the_power_cut_hit_may_survive() {
    let disk = SimDisk::new(1);
    disk.write_file("a", b"old");
    disk.crash_at(2, true);
    assert!(disk.open_write("a").unwrap().write_at(0, b"new").is_err());
    assert!(possible(&disk, "a").contains(&FOUND.map(<[u8]>::to_vec)));
}

// proof: F8
#[test]
fn a_failed_sync_leaves_the_pages_to_one_of_three_fates() {
    for (fate, seen, later) in [
        (PageFate::Dropped, b"old", BTreeSet::from([Some(b"old".to_vec())])),
        (
            PageFate::CacheOnly,
            b"new",
            BTreeSet::from([Some(b"old".to_vec()), Some(b"new".to_vec()), Some(vec![0; 3])]),
        ),
        (PageFate::Kept, b"new", BTreeSet::from([Some(b"new".to_vec())])),
    ] {
        let disk = SimDisk::new(1);
        disk.write_file("a", b"old");
        let mut file = disk.open_write("a").unwrap();
        file.write_at(0, b"new").unwrap();
        disk.fail(Op::Sync, 1, Failure::Sync(fate), Times::Once);
        assert!(file.sync().is_err());
        assert_eq!(disk.read_file("a").unwrap(), seen);
        let again = catch_unwind(AssertUnwindSafe(|| file.sync()));
        assert!(again.is_err(), "the disk stops whoever syncs again");
        disk.tolerate_second_syncs();
        file.sync().unwrap();
        assert_eq!(possible(&disk, "a"), later, "{fate:?}");
    }
}

#[test]
fn a_late_error_is_reported_by_the_sync_after() {
    let disk = SimDisk::new(1);
    disk.write_file("a", b"old");
    let mut file = disk.open_write("a").unwrap();
    file.write_at(0, b"new").unwrap();
    disk.fail(Op::Sync, 1, Failure::Sync(PageFate::Late), Times::Once);
    file.sync().unwrap();
    assert!(possible(&disk, "a").contains(&Some(b"old".to_vec())));
    assert!(file.sync().is_err());
}

#[test]
fn a_full_disk_takes_what_fits_and_then_nothing() {
    let disk = SimDisk::new(1);
    disk.capacity(8192);
    let mut file = disk.create("a").unwrap();
    assert_eq!(file.write_at(0, &[1; 10_000]).unwrap(), 8192);
    let full = file.write_at(8192, &[1; 10]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(file.write_at(0, &[2; 8192]).unwrap(), 8192, "its own blocks it may rewrite");
    assert_eq!(disk.free_space().unwrap(), 0);
    disk.remove("a").unwrap();
    assert_eq!(disk.free_space().unwrap(), 8192);
}

#[test]
fn the_nth_call_fails_once_or_from_then_on() {
    let disk = SimDisk::new(1);
    disk.fail(Op::Create, 2, Failure::Error(Errno::DQUOT), Times::Once);
    let results = ["a", "b", "c"].map(|path| disk.create(path).is_ok());
    assert_eq!(results, [true, false, true]);
    disk.fail(Op::Create, 2, Failure::Error(Errno::DQUOT), Times::Forever);
    let results = ["d", "e", "f"].map(|path| disk.create(path).is_ok());
    assert_eq!(results, [true, false, false]);
}

#[test]
fn a_restart_of_the_process_keeps_every_write() {
    let disk = SimDisk::new(1);
    let mut file = written(&disk, "a", b"new");
    let next = disk.restarted();
    assert!(file.sync().is_err(), "the old process is gone");
    assert_eq!(next.read_file("a").unwrap(), b"new");
    assert!(possible(&next, "a").contains(&None), "and still nothing is durable");
}

#[test]
fn a_file_that_lost_its_end_reads_zeros_when_it_grows_again() {
    let disk = SimDisk::new(1);
    disk.write_file("a", b"");
    let mut file = disk.open_write("a").unwrap();
    file.write_at(0, &[7; 600]).unwrap();
    let states = CrashStates::of(&disk, None);
    for choice in states.choices(100, &mut Dice::new(1)) {
        let after = states.disk(&choice);
        let kept = after.read_file("a").unwrap().len();
        let mut file = after.open_write("a").unwrap();
        file.allocate(4096).unwrap();
        assert!(after.read_file("a").unwrap()[kept..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_disk_turns_at_the_call_it_was_told_and_back_when_healed() {
    let disk = SimDisk::new(1);
    disk.write_file("a", b"old");
    let mut file = disk.open_write("a").unwrap();
    disk.turn(disk.calls() + 2, Turn::ReadOnly);
    file.write_at(0, b"new").unwrap();
    let error = file.write_at(0, b"more").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    disk.heal();
    disk.turn(0, Turn::Full);
    assert_eq!(disk.free_space().unwrap(), 0);
    assert_eq!(disk.create("b").unwrap().allocate(1).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.heal();
    disk.create("c").unwrap().allocate(1).unwrap();
}

#[test]
fn a_disk_that_lies_says_done_and_keeps_nothing_for_certain() {
    let disk = SimDisk::new(1);
    disk.write_file("a", b"old");
    disk.turn(0, Turn::Lying);
    let mut file = disk.open_write("a").unwrap();
    file.write_at(0, b"new").unwrap();
    file.sync().unwrap();
    disk.create("b").unwrap();
    disk.sync_dir("").unwrap();
    assert!(possible(&disk, "a").contains(&Some(b"old".to_vec())));
    assert!(possible(&disk, "b").contains(&None));
}
