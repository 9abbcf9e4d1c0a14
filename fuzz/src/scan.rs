//! Whole journals, through the product's reader and through the naive one of [`crate::reference`]:
//! they agree on what is refused, on the records that are held, and on what the end is. A start
//! agrees with both, and what it leaves holds the same records.

use crate::bytes::Bytes;
use crate::harm;
use crate::reference::{self, Class, Files, Held};
use midwatch::journal::{
    Batch, Fsync, Host, Journal, JournalError, Options, Place, Record, Replay, TailClass, Visitor,
    scan,
};
use midwatch::sim::SimDisk;
use std::sync::OnceLock;

const HOST: Host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 3 };

fn options(alignment: u32) -> Options {
    // Whose machine it is plays no part here.
    Options { segment_size: 8 << 10, reserve: 0, alignment, adopt: true, ..Options::default() }
}

/// Takes everything, understands nothing.
pub struct Ignore;

impl Replay for Ignore {
    fn snapshot_begin(&mut self, _seq: u64) -> Result<(), String> {
        Ok(())
    }
    fn snapshot_failed(&mut self) {}
    fn snapshot_record(&mut self, _record: Record<'_>) -> Result<(), String> {
        Ok(())
    }
    fn record(&mut self, _seq: u64, _record: Record<'_>) -> Result<(), String> {
        Ok(())
    }
}

fn open(disk: &SimDisk, options: Options) -> Result<Journal<SimDisk>, JournalError> {
    Journal::open(disk.clone(), options, HOST, &mut Ignore).map(|(journal, _)| journal)
}

fn commit(journal: &mut Journal<SimDisk>, sizes: &[usize]) {
    let mut batch = Batch::new();
    for (kind, size) in (1..).zip(sizes) {
        batch.push(kind, kind % 2 == 0, &vec![kind as u8; *size]);
    }
    journal.commit(&batch).expect("the disk is well");
}

fn snapshot(journal: &mut Journal<SimDisk>) {
    let mut writer = journal.snapshot_writer().expect("a snapshot begins");
    for kind in 100..103 {
        writer.push(kind, false, &[7; 40]).expect("the disk is well");
    }
    let done = writer.finish().expect("the disk is well");
    journal.snapshot_done(done).expect("the disk is well");
}

pub fn files_of(disk: &SimDisk) -> Files {
    let paths = disk.files().into_iter();
    paths.filter_map(|path| Some((path.clone(), disk.read_file(&path)?))).collect()
}

pub fn disk_of(files: &Files) -> SimDisk {
    let disk = SimDisk::new(1);
    files.iter().for_each(|(path, bytes)| disk.write_file(path, bytes));
    disk
}

/// Stores as writers leave them: killed young, killed over several segments, with snapshots, with
/// copies of what was not synced, with a skip, closed.
fn bases() -> &'static Vec<(Files, u32)> {
    static BASES: OnceLock<Vec<(Files, u32)>> = OnceLock::new();
    BASES.get_or_init(|| {
        let mut bases = vec![(Files::new(), 512)];
        for alignment in [512, 1024] {
            let disk = SimDisk::new(1);
            let mut journal = open(&disk, options(alignment)).expect("a new store opens");
            commit(&mut journal, &[3]);
            commit(&mut journal, &[5, 0]);
            commit(&mut journal, &[900, 40]);
            bases.push((files_of(&disk), alignment));
            for size in [500, 1000, 1500, 20, 9000, 30] {
                commit(&mut journal, &[size, 1]);
            }
            bases.push((files_of(&disk), alignment));
            snapshot(&mut journal);
            commit(&mut journal, &[1200, 700]);
            commit(&mut journal, &[3000]);
            snapshot(&mut journal);
            commit(&mut journal, &[100]);
            bases.push((files_of(&disk), alignment));
            drop(journal);
            // What is not synced is copied by the next start, and the sequence skips.
            let weak = Options { fsync: Fsync::Never, ..options(alignment) };
            let mut journal = open(&disk, weak).expect("it opens");
            commit(&mut journal, &[10, 20]);
            commit(&mut journal, &[30]);
            drop(journal);
            let mut journal = open(&disk, weak).expect("it opens");
            bases.push((files_of(&disk), alignment));
            commit(&mut journal, &[40]);
            bases.push((files_of(&disk), alignment));
            journal.close().expect("it closes");
            bases.push((files_of(&disk), alignment));
        }
        bases
    })
}

#[derive(Default)]
struct Collect(Vec<Held>);

impl Visitor for Collect {
    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        self.0.push((place.seq, record.kind, record.ignorable, record.body.to_vec()));
        Ok(())
    }
}

/// What the product's reader makes of a store, in the words of the reference.
fn found(disk: &SimDisk) -> reference::Read {
    let mut held = Collect::default();
    let report = scan(disk, &mut held).map_err(|error| error.to_string())?;
    let class = match report.tail {
        TailClass::End => Class::End,
        TailClass::Torn { .. } => Class::Torn,
        TailClass::Suspicious { .. } => Class::Suspicious,
    };
    let snapshots = report.snapshots.into_iter();
    let snapshots = snapshots.map(|file| (file.seq, file.fault.is_none().then_some(file.records)));
    let (records, next_seq) = (held.0, report.next_seq);
    Ok(reference::Holding { records, class, next_seq, snapshots: snapshots.collect() })
}

fn agree(disk: &SimDisk, files: &Files) -> reference::Read {
    let (found, expected) = (found(disk), reference::read(files));
    match (&found, &expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected),
        (Err(_), Err(_)) => {}
        (Ok(_), Err(why)) => panic!("taken, but the reference refuses: {why}"),
        (Err(why), Ok(_)) => panic!("the reference takes it, but it is refused: {why}"),
    }
    expected
}

pub fn run(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let bases = bases();
    let (mut files, alignment) = bases[bytes.below(bases.len())].clone();
    for _ in 0..12 {
        if bytes.is_empty() {
            break;
        }
        harm::any(&mut files, &mut bytes, |_| true);
    }
    let disk = disk_of(&files);
    let expected = agree(&disk, &files);
    match (open(&disk, options(alignment)), expected) {
        (Ok(journal), Ok(expected)) => {
            drop(journal);
            let left = agree(&disk, &files_of(&disk)).expect("what a start leaves can be read");
            assert_eq!(left.records, expected.records, "a start changed what is held");
            assert_eq!(left.class, Class::End);
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(why)) => panic!("a start takes what readers refuse: {why}"),
        // The last numbers there are can't be written behind.
        (Err(_), Ok(expected)) if u64::MAX - (1 << 21) < expected.next_seq => {}
        (Err(why), Ok(_)) => panic!("a start refuses what readers take: {why}"),
    }
}

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("fresh", vec![0]),
        ("young", vec![1]),
        ("segments", vec![2]),
        ("snapshots", vec![3]),
        ("copies", vec![4]),
        ("skipped", vec![5]),
        ("closed", vec![6]),
        ("wide", vec![9]),
        ("rot", vec![1, 1, 3, 1, 18, 4, 9]),
        ("zero", vec![2, 2, 4, 0, 18, 0, 3]),
        ("cut", vec![2, 3, 5, 1, 17, 40]),
        ("moved", vec![1, 1, 7, 1, 18, 0, 1, 20, 0, 1]),
        ("link", vec![3, 3, 8, 0, 1, 11, 0, 13, 1]),
        ("floor", vec![3, 0, 9, 1, 0, 6, 4, 3]),
        ("flags", vec![2, 3, 11, 0, 1, 6, 1, 1]),
        ("longer", vec![2, 3, 11, 0, 6, 2, 0]),
        ("record", vec![2, 2, 13, 0, 0, 0, 8, 77]),
        ("elsewhere", vec![1, 1, 14, 0, 1, 20, 0]),
        ("made-up", vec![1, 1, 15, 0, 1, 2, 9, 0, 3, 1, 2, 3, 8, 1, 0, 0]),
        ("later", vec![1, 1, 15, 1, 3, 2, 1, 1, 9, 0, 0, 4]),
        ("blank", vec![3, 4, 4, 0, 0, 0, 19]),
        ("renamed", vec![3, 2, 2, 0, 7]),
    ]
}
