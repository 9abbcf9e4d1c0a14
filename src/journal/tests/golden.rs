//! A store of format 1, written once and kept for ever: every later build must read it.
//!
//! `cargo test --lib make_the_golden_store -- --ignored` makes it anew, which is only right while
//! no release has written format 1.

use super::*;

const HERE: &str = "tests/data/format-1";
const FILES: [&str; 6] = [
    "store",
    "floor",
    "journal/0000000001-00000000000000000001.journal",
    "journal/0000000002-00000000000000000004.journal",
    "snapshots/00000000000000000002.snapshot",
    "MANIFEST.txt",
];

fn copy() -> Bench {
    let bench = Bench::new();
    for dir in ["journal", "snapshots"] {
        fs::create_dir(bench.path().join(dir)).unwrap();
    }
    for file in &FILES[..5] {
        put(&bench.path().join(file), &fs::read(Path::new(HERE).join(file)).unwrap());
    }
    bench
}

// B22, B23.
#[test]
fn a_store_of_format_1_is_read() {
    let mut bench = copy();
    bench.options.adopt = true; // it comes from another machine
    let report = bench.scan().unwrap();
    assert_eq!((report.segments, report.frames, report.records), (2, 5, 6));
    assert_eq!(report.exit_code(), 0);
    let (journal, recovery, seen) = bench.open();
    assert_eq!(seen.snapshot, Some(2));
    assert_eq!(seen.image, [(100, b"image of one".to_vec()), (101, b"image of two".to_vec())]);
    let records: Vec<_> =
        seen.records.iter().map(|(seq, kind, body)| (*seq, *kind, body.len())).collect();
    assert_eq!(records, [(3, 3, 700), (4, 4, 0), (5, 7, 4), (6, 7, 3)]);
    assert!(matches!(recovery.tail, TailClass::Torn { bytes: 1245, .. }), "{recovery:?}");
    assert_eq!(recovery.previous_machine_id, Some(*b"a golden machine"));
    assert_eq!(journal.next_seq(), 7);
}

#[test]
#[ignore = "makes the golden store anew"]
fn make_the_golden_store() {
    let mut bench = Bench::new();
    bench.options.reserve = 0;
    let host = Host { machine_id: *b"a golden machine", boot_id: *b"first boot......", random: 1 };
    let (mut journal, _) =
        Journal::open(bench.disk(), bench.options, host, &mut Seen::default()).unwrap();
    let mut batch = Batch::new();
    batch.push(1, false, b"one");
    batch.push(2, true, b"two");
    journal.commit(&batch).unwrap();
    let mut writer = journal.snapshot_writer().unwrap();
    writer.push(100, false, b"image of one").unwrap();
    writer.push(101, true, b"image of two").unwrap();
    journal.snapshot_done(writer.finish().unwrap()).unwrap();
    batch.clear();
    batch.push(3, false, &[b'3'; 700]);
    journal.commit(&batch).unwrap();
    journal.close().unwrap();
    let host = Host { boot_id: *b"second boot.....", random: 2, ..host };
    let (mut journal, _) =
        Journal::open(bench.disk(), bench.options, host, &mut Seen::default()).unwrap();
    batch.clear();
    batch.push(4, true, b"");
    journal.commit(&batch).unwrap();
    add(&mut journal, "five");
    add(&mut journal, "six");
    add(&mut journal, &"torn".repeat(300));
    drop(journal);
    // The last frame, of three sectors, loses its middle one.
    let last = bench.segments().pop().unwrap();
    edit(&last, |bytes| bytes[4096 + 4 * 512..][..512].fill(0));
    for dir in ["journal", "snapshots"] {
        fs::create_dir_all(Path::new(HERE).join(dir)).unwrap();
    }
    let mut manifest = String::new();
    for (path, bytes) in bench.image() {
        let name = path.strip_prefix(bench.path()).unwrap();
        put(&Path::new(HERE).join(name), &bytes);
        let line = [digest(&bytes), bytes.len().to_string(), name.display().to_string()];
        manifest += &(line.join(" ") + "\n");
    }
    put(&Path::new(HERE).join("MANIFEST.txt"), manifest.as_bytes());
}

// Not a CRC: over bytes that end with their own CRC it is the same whatever they are.
fn digest(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(bytes);
    frame::tests::hex(&digest[..16]).replace(' ', "")
}

#[test]
fn the_golden_store_is_as_it_was() {
    let manifest = fs::read_to_string(Path::new(HERE).join(FILES[5])).unwrap();
    assert_eq!(manifest.lines().count(), 5);
    for line in manifest.lines() {
        let mut words = line.split_whitespace();
        let (expected, name) = (words.next().unwrap(), words.nth(1).unwrap());
        let bytes = fs::read(Path::new(HERE).join(name)).unwrap();
        assert_eq!(digest(&bytes), expected, "{name}");
    }
}
