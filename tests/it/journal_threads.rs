//! Writer, snapshots, compaction and readers at once, on a real disk.

use midwatch::journal::disk::Disk;
use midwatch::journal::{
    Batch, Host, Journal, JournalError, Options, RealDisk, Record, Replay, replay,
};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

/// Commits at least in the plain test run; `MIDWATCH_W57_COMMITS` asks for more.
const COMMITS: u64 = 4_000;

/// Snapshots and looks of the readers that must have happened; commits go on until they have.
const ENOUGH: u64 = 20;

/// A replay that only counts: a record's body is its number, a snapshot's one record the sum.
#[derive(Default)]
struct Sum {
    count: u64,
    wrong: Option<String>,
}

impl Replay for Sum {
    fn snapshot_begin(&mut self, _seq: u64) -> Result<(), String> {
        self.count = 0;
        Ok(())
    }

    fn snapshot_record(&mut self, record: Record<'_>) -> Result<(), String> {
        self.count = number(record.body);
        Ok(())
    }

    fn snapshot_failed(&mut self) {
        self.count = 0;
    }

    fn record(&mut self, _seq: u64, record: Record<'_>) -> Result<(), String> {
        let number = number(record.body);
        if number != self.count + 1 {
            self.wrong = Some(format!("{number} after {}", self.count));
        }
        self.count = number;
        Ok(())
    }
}

fn number(body: &[u8]) -> u64 {
    u64::from_le_bytes(*body.first_chunk().unwrap())
}

/// Reads while a writer makes and removes files underneath: as often as it takes, like the journal
/// tool. A listing is no snapshot of a directory, so it counts only if nothing changed meanwhile.
fn read(disk: &RealDisk) -> Sum {
    let names = || ["journal", "snapshots"].map(|dir| disk.list(dir).unwrap());
    loop {
        let (mut sum, before) = (Sum::default(), names());
        match replay(disk, u64::MAX, &mut sum) {
            Ok(_) => return sum,
            Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(_) if names() != before => {}
            Err(error) => panic!("a store at work is never damaged: {error}"),
        }
    }
}

// W57: a reset of the log beside a checkpoint of another connection lost pages.
#[test]
fn w57_writer_snapshots_compaction_and_readers_never_lose_sight_of_what_was_committed() {
    let commits = std::env::var("MIDWATCH_W57_COMMITS");
    let commits = commits.map_or(COMMITS, |text| text.parse().unwrap());
    let memory = std::path::Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let dir = dir.unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    let options = Options { segment_size: 8 << 10, reserve: 16 << 10, ..Options::default() };
    let host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 57 };
    let (mut journal, _) = Journal::open(disk.clone(), options, host, &mut Sum::default()).unwrap();
    let (committed, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (looks, snapshots) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (to, jobs) = sync_channel::<(u64, midwatch::journal::SnapshotWriter<RealDisk>)>(1);
        let (back, done) = sync_channel(1);
        scope.spawn(move || {
            for (sum, mut writer) in jobs {
                writer.push(9, false, &sum.to_le_bytes()).unwrap();
                let finished = writer.finish().unwrap();
                if back.send(finished).is_err() {
                    break;
                }
            }
        });
        for _ in 0..2 {
            let (disk, committed, stop, looks) = (&disk, &committed, &stop, &looks);
            scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    let least = committed.load(Ordering::Acquire);
                    let sum = read(disk);
                    let most = committed.load(Ordering::Acquire) + 1;
                    let seen = sum.count;
                    assert_eq!(sum.wrong, None);
                    assert!((least..=most).contains(&seen), "{least} ≤ {seen} ≤ {most}");
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut running = false;
        let seen = |counter: &AtomicU64| ENOUGH < counter.load(Ordering::Relaxed);
        for number in 1..=100 * commits {
            if commits < number && seen(&looks) && seen(&snapshots) {
                break;
            }
            let mut batch = Batch::new();
            batch.push(7, false, &number.to_le_bytes());
            journal.commit(&batch).unwrap();
            committed.store(number, Ordering::Release);
            if let Ok(finished) = done.try_recv() {
                journal.snapshot_done(finished).unwrap();
                snapshots.fetch_add(1, Ordering::Relaxed);
                running = false;
            }
            if !running && number % 5 == 0 {
                running = true;
                to.send((number, journal.snapshot_writer().unwrap())).unwrap();
            }
        }
        stop.store(true, Ordering::Release);
        drop(to);
    });
    drop(journal);
    let commits = committed.into_inner();
    let (looks, snapshots) = (looks.into_inner(), snapshots.into_inner());
    println!("{commits} commits, {snapshots} snapshots, {looks} looks");
    assert!(ENOUGH < snapshots.min(looks), "it proved nothing");
    assert_eq!(read(&disk).count, commits);
    let left = disk.list("snapshots").unwrap();
    assert!(left.iter().filter(|name| name.ends_with(".snapshot")).count() <= 3, "{left:?}");
}
