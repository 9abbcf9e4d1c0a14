//! Damage is refused by name, and nothing on the disk is changed by refusing.

use super::*;

/// Starts twice, and demands the same refusal and an untouched disk.
fn refusal(bench: &Bench) -> JournalError {
    let before = bench.image();
    let error = bench.try_open().expect_err("a start that refuses");
    let again = bench.try_open().expect_err("a start that refuses again");
    assert_eq!(error.to_string(), again.to_string());
    assert_eq!(bench.image(), before, "nothing changed by: {error}");
    let seen = bench.scan().expect_err("the checker says the same");
    assert_eq!(seen.to_string(), error.to_string());
    assert_eq!(error.exit_code(), 6, "{error}");
    error
}

fn damage(bench: &Bench) -> Damage {
    match refusal(bench) {
        JournalError::Damage(damage) => *damage,
        other => panic!("{other}"),
    }
}

fn filled(records: usize) -> Bench {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    for n in 0..records {
        add(&mut journal, &format!("{n}"));
    }
    drop(journal);
    bench
}

/// Three closed segments and one with a few frames.
fn segments() -> Bench {
    let bench = filled(26);
    assert_eq!(bench.segments().len(), 4);
    bench
}

// B02.
// spec: REC-015
#[test]
fn a_flipped_bit_in_the_middle_names_its_place_and_what_is_whole_around_it() {
    let mut bench = Bench::new();
    bench.options.segment_size = 4 << 20;
    let (mut journal, ..) = bench.open();
    for n in 0..1000 {
        add(&mut journal, &format!("{n}"));
    }
    drop(journal);
    let path = bench.segments().pop().unwrap();
    edit(&path, |bytes| bytes[4096 + 500 * 512 + 44] ^= 1);
    let damage = damage(&bench);
    assert_eq!(damage.file, "journal/0000000001-00000000000000000001.journal");
    assert_eq!((damage.offset, damage.seq), (4096 + 500 * 512, 501));
    assert_eq!((damage.before, damage.after), (500, 499));
}

// spec: REC-001, REC-004
#[test]
fn a_flipped_bit_in_any_but_the_last_frame_is_damage() {
    let bench = filled(7);
    let path = bench.segments().pop().unwrap();
    let image = bench.image();
    for frame in 0..6 {
        edit(&path, |bytes| bytes[4096 + frame * 512 + 10] ^= 1);
        let damage = damage(&bench);
        assert_eq!((damage.before, damage.after), (frame as u64, 6 - frame as u64));
        bench.restore(&image);
    }
}

// spec: JRN-015
#[test]
fn a_sealed_segment_must_reach_the_end_its_successor_names() {
    let bench = segments();
    let path = bench.segments().swap_remove(1);
    edit(&path, |bytes| bytes.truncate(bytes.len() - 512));
    let damage = damage(&bench);
    assert_eq!((damage.before, damage.seq, damage.after), (15, 16, 10));
}

// spec: JRN-014
#[test]
fn what_is_dead_in_a_sealed_segment_does_not_matter() {
    let bench = segments();
    let path = bench.segments().swap_remove(1);
    edit(&path, |bytes| bytes.extend_from_slice(&[0xAB; 3000]));
    assert_eq!(bench.open().2.records.len(), 26);
}

// spec: REC-016
#[test]
fn a_missing_segment_is_noticed_wherever_it_is() {
    for index in 0..4 {
        let bench = segments();
        fs::remove_file(bench.segments().swap_remove(index)).unwrap();
        assert!(matches!(refusal(&bench), JournalError::Missing { .. }), "segment {index}");
    }
}

// spec: JRN-055
#[test]
fn losing_all_segments_is_noticed() {
    let bench = filled(3);
    fs::remove_dir_all(bench.path().join("journal")).unwrap();
    assert!(matches!(refusal(&bench), JournalError::Missing { .. }));
    fs::remove_file(bench.path().join("floor")).unwrap();
    assert!(matches!(refusal(&bench), JournalError::Missing { .. }));
}

#[test]
fn a_floor_above_the_end_shows_that_something_is_gone() {
    let bench = Bench::new();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "a");
    add(&mut journal, "b");
    journal.close().unwrap();
    let path = bench.segments().pop().unwrap();
    edit(&path, |bytes| bytes[4096 + 512..].fill(0));
    let damage = damage(&bench);
    assert_eq!((damage.seq, damage.before), (2, 1));
    assert!(damage.what.contains("durable"));
}

#[test]
fn a_snapshot_above_the_end_shows_it_too() {
    let bench = filled(3);
    let (mut journal, ..) = bench.open();
    add(&mut journal, "x");
    let writer = journal.snapshot_writer().unwrap();
    writer.finish().unwrap();
    drop(journal);
    let path = bench.segments().pop().unwrap();
    edit(&path, |bytes| bytes.truncate(4096));
    damage(&bench);
}

#[test]
fn a_copy_that_recovery_made_is_durable() {
    let bench = filled(3);
    drop(bench.open());
    let path = bench.segments().pop().unwrap();
    edit(&path, |bytes| bytes[4096..].fill(0));
    damage(&bench);
}

// spec: JRN-012
#[test]
fn a_bad_header_is_damage_in_any_segment() {
    for index in 0..4 {
        let bench = segments();
        let path = bench.segments().swap_remove(index);
        edit(&path, |bytes| bytes[..4096].fill(0));
        assert_eq!(damage(&bench).offset, 0);
        edit(&path, Vec::clear);
        assert_eq!(damage(&bench).offset, 0);
    }
}

#[test]
fn an_empty_file_of_any_kind_is_never_taken_for_less_state() {
    let bench = segments();
    let (mut journal, ..) = bench.open();
    let writer = journal.snapshot_writer().unwrap();
    journal.snapshot_done(writer.finish().unwrap()).unwrap();
    drop(journal);
    let image = bench.image();
    for (path, _) in &image {
        edit(path, Vec::clear);
        match bench.try_open() {
            Err(error) => assert_eq!(error.exit_code(), 6, "{}: {error}", path.display()),
            Ok((journal, ..)) => assert_eq!(journal.next_seq(), 27, "{}", path.display()),
        }
        bench.restore(&image);
    }
}

// spec: REC-017, JRN-011
#[test]
fn files_of_another_store_are_refused() {
    let names = ["floor", "journal/0000000004-00000000000000000025.journal"];
    let (mine, other) = (segments(), segments());
    assert_eq!(mine.segments().len(), other.segments().len());
    for name in names {
        let bench = segments();
        put(&bench.path().join(name), &fs::read(other.path().join(name)).unwrap());
        assert!(matches!(refusal(&bench), JournalError::Foreign { .. }), "{name}");
    }
    let bench = segments();
    put(&bench.path().join("store"), &fs::read(other.path().join("store")).unwrap());
    assert!(matches!(refusal(&bench), JournalError::Foreign { .. }));
}

// spec: JRN-053
#[test]
fn an_older_floor_is_harmless() {
    let bench = filled(3);
    let old = fs::read(bench.path().join("floor")).unwrap();
    let (mut journal, ..) = bench.open();
    add(&mut journal, "d");
    drop(journal);
    put(&bench.path().join("floor"), &old);
    assert_eq!(bench.open().2.records.len(), 4);
}

// spec: JRN-053, JRN-056
#[test]
fn a_lost_store_file_or_floor_is_made_again() {
    let bench = filled(3);
    let uuid = bench.scan().unwrap().store;
    for name in ["store", "floor"] {
        fs::remove_file(bench.path().join(name)).unwrap();
        let (journal, _, seen) = bench.open();
        assert_eq!(seen.records.len(), 3);
        assert_eq!(Some(journal.store_uuid()), uuid);
        assert!(bench.path().join(name).exists());
    }
}

// spec: JRN-010
#[test]
fn a_renamed_or_doubled_segment_is_refused() {
    let name = |number: u64| format!("journal/{number:010}-00000000000000000001.journal");
    let bench = filled(3);
    edit(&bench.path().join(name(1)), |_| {});
    put(&bench.path().join(name(2)), &fs::read(bench.path().join(name(1))).unwrap());
    damage(&bench);
    let bench = segments();
    let path = bench.segments().swap_remove(2);
    put(&path, &fs::read(bench.segments().swap_remove(1)).unwrap());
    damage(&bench);
}

// spec: JRN-023
#[test]
fn a_frame_at_the_wrong_place_is_noticed() {
    let bench = filled(7);
    let path = bench.segments().pop().unwrap();
    edit(&path, |bytes| bytes.copy_within(4096..4608, 4096 + 3 * 512));
    assert_eq!(damage(&bench).seq, 4);
    let other = filled(7);
    let path = bench.segments().pop().unwrap();
    let frame =
        fs::read(other.segments().pop().unwrap()).unwrap()[4096 + 3 * 512..][..512].to_vec();
    edit(&path, |bytes| bytes[4096 + 3 * 512..][..512].copy_from_slice(&frame));
    assert_eq!(damage(&bench).seq, 4);
}

// spec: JRN-005
#[test]
fn a_newer_format_is_refused_before_anything_is_touched() {
    let names = ["store", "journal/0000000001-00000000000000000001.journal"];
    for name in names {
        let bench = filled(3);
        edit(&bench.path().join(name), |bytes| {
            (bytes[8], bytes[10]) = (2, 2);
            let crc = crc32fast::hash(&bytes[..508]);
            bytes[508..512].copy_from_slice(&crc.to_le_bytes());
        });
        let before = bench.image();
        let error = bench.try_open().err().unwrap();
        assert!(matches!(error, JournalError::Newer { version: 2, needs: 2, .. }), "{error}");
        assert_eq!((error.exit_code(), bench.image()), (7, before));
    }
}

#[test]
fn a_giant_file_is_not_read_through() {
    let bench = filled(3);
    let path = bench.segments().pop().unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    let error = bench.try_open().err().unwrap();
    assert!(error.to_string().contains("bytes long"), "{error}");
}

// spec: REC-020
#[test]
fn a_snapshot_that_nothing_can_stand_in_for_is_missed() {
    let bench = filled(3);
    for _ in 0..3 {
        let (mut journal, ..) = bench.open();
        add(&mut journal, "x");
        let writer = journal.snapshot_writer().unwrap();
        journal.snapshot_done(writer.finish().unwrap()).unwrap();
    }
    let [older, newer] = bench.files("snapshots").try_into().unwrap();
    edit(&newer, |bytes| bytes[4100] ^= 1);
    assert!(bench.scan().is_ok());
    edit(&older, |bytes| bytes[4100] ^= 1);
    let JournalError::Missing { first_seq: 1, last_seq: Some(_), .. } = refusal(&bench) else {
        panic!("the journal does not reach back")
    };
}
