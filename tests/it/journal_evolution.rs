//! An older reader meets a newer journal: what it may skip it skips, what it must know it refuses by
//! name, and before anything is changed.

use super::journal_store::{Bench, edit};
use super::journal_tool::{compacted, image, on};
use midwatch::engine::{Engine, Rebuild};
use midwatch::journal::{Batch, Host, Journal, Options, RealDisk};
use midwatch::kernel::rules::Rules;
use minicbor::Encoder;
use serde_json::Value;
use std::fs;
use std::path::Path;

const HOST: Host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 9 };

/// A store with one task, closed.
fn closed() -> Bench {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.close();
    bench
}

/// Commits records that a later version might write.
fn append(bench: &Bench, records: &[(u16, bool, Vec<u8>)]) {
    let disk = RealDisk::open(bench.path()).unwrap();
    let (mut journal, _) =
        Journal::open(disk, Options::default(), HOST, &mut Rebuild::default()).unwrap();
    for (kind, ignorable, body) in records {
        let mut batch = Batch::new();
        batch.push(*kind, *ignorable, body);
        journal.commit(&batch).unwrap();
    }
    journal.close().unwrap();
}

/// A body with an event's own map, and keys of the future in both.
fn body(extra: bool, own: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes);
    out.map(if extra { 6 } else { 5 }).unwrap();
    for (key, value) in [(0, 1_773_454_200_500_u64), (1, 500), (2, 500)] {
        out.u32(key).unwrap().u64(value).unwrap();
    }
    out.u32(3).unwrap().array(2).unwrap().u32(0).unwrap().array(0).unwrap();
    out.u32(4).unwrap();
    own(&mut out);
    if extra {
        let nested = out.u32(77).unwrap().map(1).unwrap().str("deep").unwrap().array(2).unwrap();
        nested.null().unwrap().bytes(&[1, 2]).unwrap();
    }
    bytes
}

fn verdict(bench: &Bench) -> (i32, Value) {
    let (code, out, _) = on(bench, &["verify", "--json"]);
    (code, serde_json::from_str(&out).unwrap())
}

fn opens(bench: &Bench) -> Result<(), midwatch::journal::JournalError> {
    let disk = RealDisk::open(bench.path()).unwrap();
    Engine::open(disk, Options::default(), HOST, Rules::default()).map(drop)
}

// spec: JRN-080
#[test]
fn a_kind_that_may_be_skipped_is_skipped_and_counted_and_dumped_as_it_is() {
    let bench = closed();
    append(&bench, &[(900, true, vec![0xA0]), (901, true, vec![0xFF, 0])]);
    let (code, found) = verdict(&bench);
    assert_eq!((code, &found["skipped"], &found["state"]["tasks"]), (0, &2.into(), &1.into()));
    let (code, out, _) = on(&bench, &["dump", "--from", "3"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(code, 0);
    for (line, kind, body) in [(&lines[0], 900, "a0"), (&lines[1], 901, "ff00")] {
        assert_eq!((&line["kind"], &line["body"]), (&kind.into(), &body.into()));
        assert_eq!((&line["event"], &line["ignorable"]), (&Value::Null, &true.into()));
    }
    let (_, stats, _) = on(&bench, &["stats"]);
    assert!(stats.contains("  kind 900 "), "{stats}");
    opens(&bench).unwrap();
}

// spec: JRN-081
#[test]
fn a_kind_that_must_be_known_is_refused_by_name_and_place() {
    let bench = closed();
    append(&bench, &[(900, false, vec![0xA0])]);
    let before = image(bench.path());
    let (code, out, err) = on(&bench, &["verify"]);
    assert_eq!((code, out.as_str()), (6, ""));
    let place = "journal/0000000002-00000000000000000003.journal, byte 4128 (sequence 3)";
    assert!(err.contains(place) && err.contains("a record of kind 900"), "{err}");
    for command in ["state", "stats", "compact", "dump"] {
        assert_eq!(on(&bench, &[command]).0, 6, "{command}");
    }
    let error = opens(&bench).unwrap_err();
    assert_eq!((error.code(), error.exit_code()), ("MW-J011", 6));
    fs::remove_file(bench.path().join("midwatch.lock")).unwrap(); // of the compaction
    assert!(before == image(bench.path()), "a refusal changes nothing");
}

// spec: JRN-082
#[test]
fn keys_of_the_future_are_skipped_wherever_they_stand() {
    let bench = closed();
    let hurried = body(true, |out| {
        out.map(2).unwrap().u32(0).unwrap().u64(1).unwrap().u32(99).unwrap().str("new").unwrap();
    });
    append(&bench, &[(8, false, hurried)]);
    assert_eq!(verdict(&bench).0, 0);
    let (_, out, _) = on(&bench, &["dump", "--from", "3"]);
    let line: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&line["event"], &line["task"]), (&"hurried".into(), &1.into()));
    opens(&bench).unwrap();
}

// spec: JRN-082
#[test]
fn keys_that_are_absent_mean_what_they_meant_before_they_existed() {
    let bench = closed();
    let submitted = body(false, |out| {
        out.map(3).unwrap().u32(0).unwrap().u64(2).unwrap().u32(1).unwrap();
        out.map(4).unwrap().u32(0).unwrap().str("fetch").unwrap();
        out.u32(1).unwrap().str("{}").unwrap();
        out.u32(2).unwrap().i32(7).unwrap().u32(3).unwrap().u32(4).unwrap();
        out.u32(2).unwrap().u64(500).unwrap();
    });
    append(&bench, &[(1, false, submitted)]);
    let (code, out, err) = on(&bench, &["state", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let state: Value = serde_json::from_str(&out).unwrap();
    let task = &state["tasks"][1];
    assert_eq!((&task["priority"], &task["max_retry"]), (&7.into(), &4.into()));
    for absent in ["key", "timeout", "retry_of", "checkpoint"] {
        assert_eq!(task[absent], Value::Null, "{absent}");
    }
    // A key that was there from the beginning may not be absent.
    let bench = closed();
    let nothing = body(false, |out| {
        out.map(0).unwrap();
    });
    append(&bench, &[(8, false, nothing)]);
    assert_eq!(on(&bench, &["verify"]).0, 6);
}

/// Seals the first sector of a file anew.
fn seal(sector: &mut [u8]) {
    let crc = crc32fast::hash(&sector[..508]);
    sector[508..512].copy_from_slice(&crc.to_le_bytes());
}

// spec: JRN-030
#[test]
fn flags_of_the_future_change_nothing() {
    let bench = closed();
    let segment = bench.segments().pop().unwrap();
    edit(&segment, |file| {
        file[117] |= 0x40; // of the segment
        seal(&mut file[..512]);
        let salt: [u8; 8] = file[48..56].try_into().unwrap();
        let frame = &mut file[4096..4608];
        frame[5] |= 0x80; // of the frame
        frame[32 + 11] |= 0x80; // of its record
        let length = u32::from_le_bytes(frame[20..24].try_into().unwrap()) as usize;
        let crc = |parts: &[&[u8]]| crc32fast::hash(&[&salt[..], &parts.concat()].concat());
        let record = crc(&[&1_u64.to_le_bytes(), &frame[36..32 + length]]);
        frame[32..36].copy_from_slice(&record.to_le_bytes());
        let body = crc(&[&frame[32..32 + length]]);
        frame[24..28].copy_from_slice(&body.to_le_bytes());
        let head = crc(&[&4096_u64.to_le_bytes(), &frame[..28]]);
        frame[28..32].copy_from_slice(&head.to_le_bytes());
    });
    let (code, found) = verdict(&bench);
    assert_eq!((code, &found["report"]["records"]), (0, &2.into()), "{found}");
    opens(&bench).unwrap();
}

/// Says that a sector was written by format 9 and needs a reader of `needs`.
fn write_as_format_9(path: &Path, at: usize, needs: u8) {
    edit(path, |file| {
        let sector = &mut file[at..at + 512];
        sector[8..12].copy_from_slice(&[9, 0, needs, 0]);
        seal(sector);
    });
}

/// Every place that states a format: the file, below the data directory, and where in it.
fn places(bench: &Bench) -> Vec<(String, usize)> {
    let below = |dir: &str| {
        let names = fs::read_dir(bench.path().join(dir)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.map(|name| (format!("{dir}/{name}"), 0)).collect::<Vec<_>>()
    };
    let fixed = [("store", 0), ("floor", 0), ("floor", 4096)];
    let fixed = fixed.map(|(file, at)| (file.to_owned(), at));
    [below("journal"), below("snapshots"), fixed.to_vec()].concat()
}

// spec: JRN-005, JRN-083
#[test]
fn a_newer_format_is_refused_in_whichever_file_it_stands_and_nothing_is_changed() {
    let bench = compacted();
    let places = places(&bench);
    assert!(7 <= places.len(), "{places:?}");
    for (file, at) in places {
        let path = bench.path().join(&file);
        let whole = fs::read(&path).unwrap();
        write_as_format_9(&path, at, 9);
        let before = image(bench.path());
        for arguments in [&["verify"][..], &["dump", "--from", "1"], &["state"], &["stats"]] {
            let (code, out, err) = on(&bench, arguments);
            assert_eq!((code, out.as_str()), (7, ""), "{file} {at}: {arguments:?} {err}");
            let both = format!(
                "error: {file} has format 9; it needs a midwatch that reads format 9, and this one \
                 reads format 1\n"
            );
            assert!(err.starts_with(&both), "{err}");
        }
        let error = opens(&bench).unwrap_err();
        assert_eq!(error.code(), "MW-J006", "{file} {at}");
        assert!(before == image(bench.path()), "{file} {at}");
        fs::write(&path, whole).unwrap();
    }
}

// spec: JRN-084
#[test]
fn a_newer_writer_that_older_readers_may_read_is_read() {
    let bench = compacted();
    let before = verdict(&bench).1["state"].clone();
    for (file, at) in places(&bench) {
        write_as_format_9(&bench.path().join(file), at, 1);
    }
    let (code, found) = verdict(&bench);
    assert_eq!((code, &found["state"]), (0, &before));
    opens(&bench).unwrap();
}

// spec: JRN-085
#[test]
fn the_golden_store_is_the_one_that_was_written_first() {
    let manifest = fs::read("tests/data/format-1/MANIFEST.txt").unwrap();
    assert_eq!(crc32fast::hash(&manifest), 0xC311_05EF, "golden data is never made again");
}
