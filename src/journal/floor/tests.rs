use super::*;
use crate::journal::RealDisk;
use std::fs;

const STORE: [u8; 16] = [9; 16];

fn with_three_updates() -> (tempfile::TempDir, RealDisk) {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    assert_eq!(Floor::read(&disk).unwrap(), None);
    let mut file = FloorFile::open(&disk, None, STORE).unwrap();
    file.update(10, 1, None).unwrap();
    file.update(20, 2, None).unwrap();
    file.update(30, 3, Some(4608)).unwrap();
    (dir, disk)
}

fn read(disk: &RealDisk) -> Option<(u64, u64, u64, Option<u64>)> {
    let floor = Floor::read(disk).unwrap()?;
    assert_eq!(floor.store, STORE);
    Some((floor.generation, floor.seq, floor.segment, floor.clean_end))
}

// spec: JRN-050
#[test]
fn the_newest_slot_counts() {
    let (_dir, disk) = with_three_updates();
    assert_eq!(read(&disk), Some((3, 30, 3, Some(4608))));
    let found = Floor::read(&disk).unwrap();
    let mut file = FloorFile::open(&disk, found, STORE).unwrap();
    file.update(40, 4, None).unwrap();
    assert_eq!(read(&disk), Some((4, 40, 4, None)));
}

// spec: JRN-051
#[test]
fn any_damage_to_one_slot_leaves_the_other() {
    let (dir, disk) = with_three_updates();
    let path = dir.path().join(FLOOR_FILE);
    let good = fs::read(&path).unwrap();
    for bit in 0..512 * 8 {
        let mut bytes = good.clone();
        bytes[4096 + bit / 8] ^= 1 << (bit % 8);
        crate::journal::tests::put(&path, &bytes);
        assert_eq!(read(&disk), Some((2, 20, 2, None)), "bit {bit}");
    }
}

#[test]
fn a_floor_without_a_whole_slot_is_none_and_is_made_again() {
    let (dir, disk) = with_three_updates();
    let path = dir.path().join(FLOOR_FILE);
    for bytes in [Vec::new(), vec![0; 8192], vec![0xFF; 100]] {
        crate::journal::tests::put(&path, &bytes);
        assert_eq!(read(&disk), None);
        let mut file = FloorFile::open(&disk, None, STORE).unwrap();
        file.update(50, 5, None).unwrap();
        assert_eq!(read(&disk), Some((1, 50, 5, None)));
    }
}

#[test]
fn the_highest_generation_there_is_can_be_followed() {
    for generation in [u64::MAX - 2, u64::MAX - 1, u64::MAX] {
        let (_dir, disk) = with_three_updates();
        let found = Floor { generation, ..Floor::read(&disk).unwrap().unwrap() };
        let mut file = FloorFile::open(&disk, Some(found), STORE).unwrap();
        for seq in [40, 50, 60] {
            file.update(seq, 4, None).unwrap();
            assert_eq!(read(&disk).map(|floor| floor.1), Some(seq));
        }
    }
}

// spec: REC-016
#[test]
fn a_record_that_is_named_without_a_segment_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    let mut file = FloorFile::open(&disk, None, STORE).unwrap();
    assert!(crate::journal::scan(&disk, &mut ()).is_ok(), "a start that came no further");
    file.update(5, 0, None).unwrap();
    let refused = crate::journal::scan(&disk, &mut ()).unwrap_err();
    assert!(matches!(refused, JournalError::Missing { .. }), "{refused}");
}

// spec: JRN-050
#[test]
fn of_two_slots_of_one_generation_the_second_counts() {
    let (dir, disk) = with_three_updates();
    let path = dir.path().join(FLOOR_FILE);
    let first = Floor { seq: 31, ..Floor::read(&disk).unwrap().unwrap() };
    crate::journal::tests::edit(&path, |bytes| bytes[..512].copy_from_slice(&first.encode()));
    assert_eq!(read(&disk), Some((3, 30, 3, Some(4608))));
}

#[test]
fn a_store_that_is_made_beside_a_floor_has_its_name() {
    let bench = crate::journal::tests::Bench::new();
    drop(FloorFile::open(&bench.disk(), None, STORE).unwrap());
    for _ in 0..2 {
        assert_eq!(bench.open().0.store_uuid(), STORE);
    }
}
