//! A compaction, and the follower of a journal, with the power cut at every call.

use midwatch::engine::{Engine, Input, Rebuild, Rebuilding as _, Start, Ticket, compact, digest};
use midwatch::journal::{Follow, Fsync, Host, Options, Place, Record, Visitor, replay, scan};
use midwatch::kernel::event::Actor;
use midwatch::kernel::ids::{LifeTime, Millis, Moment, ServiceTime, Timestamp};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::task::TaskSpec;
use midwatch::kernel::{Command, State};
use midwatch::sim::{CrashStates, Dice, Failure, Op, SimDisk, Times};
use rustix::io::Errno;

use crate::ledger::{Book, History, Step, fresh, open};

const HOST: Host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 5 };
/// Crash states that are tried of each call.
const STATES: usize = 24;

fn options() -> Options {
    Options { segment_size: 8 << 10, reserve: 8 << 10, ..Options::default() }
}

/// An engine that has worked: tasks over several segments and two snapshots.
fn worked(options: Options) -> (SimDisk, Engine<SimDisk>) {
    let disk = SimDisk::new(4);
    let (mut engine, _) = Engine::open(disk.clone(), options, HOST, Rules::default()).unwrap();
    engine.set_snapshot_after(4 << 10);
    let mut now = Moment {
        wall: Timestamp(1_773_454_200_000),
        life: LifeTime(0),
        service: ServiceTime(0),
        dice: 1,
        doubtful: false,
    };
    engine.start(start(false), now).unwrap();
    for number in 0..30 {
        let spec = |piece| Command::Submit(TaskSpec::new("fetch", format!("[{number},{piece}]")));
        let commands = (0..12).map(spec).collect();
        let ask = Input::Ask { from: Ticket(number), by: Actor::User(1), commands };
        now.life = now.life.after(Millis(10));
        let mut inputs = vec![ask];
        while !inputs.is_empty() {
            for output in engine.step(std::mem::take(&mut inputs), now).unwrap() {
                if let midwatch::engine::Output::Snapshot { image, writer } = output {
                    let written = midwatch::engine::write_snapshot(&image, *writer);
                    inputs.push(Input::SnapshotWritten(written));
                }
            }
        }
    }
    (disk, engine)
}

fn start(skipped_ahead: bool) -> Start {
    Start {
        version: "0.1.0".into(),
        boot_id: "b0".into(),
        boot_clock: Millis(5_000),
        skipped_ahead,
        ..Start::default()
    }
}

fn state(disk: &SimDisk) -> State {
    let mut rebuild = Rebuild::default();
    replay(disk, u64::MAX, &mut rebuild).unwrap();
    rebuild.finish()
}

fn now() -> Moment {
    Moment {
        wall: Timestamp(0),
        life: LifeTime(0),
        service: ServiceTime(0),
        dice: 1,
        doubtful: false,
    }
}

// spec: JRN-066, JRN-067
#[test]
fn a_compaction_leaves_one_snapshot_and_an_empty_segment_and_the_same_state() {
    let (disk, engine) = worked(options());
    drop(engine);
    let disk = disk.restarted();
    let before = digest(&state(&disk).image());
    let told = disk.calls();
    let compacted = compact(&disk, options(), 9).unwrap().unwrap();
    assert!(told < disk.calls());
    assert_eq!(compacted.digest, before);
    assert_eq!(digest(&state(&disk).image()), before);
    let report = scan(&disk, &mut ()).unwrap();
    assert_eq!((report.segments, report.records, report.snapshots.len()), (1, 0, 1));
    assert_eq!(report.next_seq, compacted.seq + 1);
    assert!(report.clean_close);
    let header = midwatch::journal::newest_header(&disk).unwrap().unwrap();
    assert_eq!((header.machine_id, header.boot_id), ([1; 16], [2; 16]));
    // Again: nothing else comes of it.
    compact(&disk, options(), 10).unwrap().unwrap();
    assert_eq!(digest(&state(&disk).image()), before);
    let report = scan(&disk, &mut ()).unwrap();
    assert_eq!((report.segments, report.snapshots.len()), (1, 1));
    let (mut engine, recovery) = Engine::open(disk, options(), HOST, Rules::default()).unwrap();
    assert!(!recovery.skipped_ahead);
    engine.start(start(false), now()).unwrap();
}

// spec: JRN-066, JRN-065
#[test]
fn a_power_cut_at_any_call_of_a_compaction_leaves_the_same_state() {
    for fsync in [Fsync::Always, Fsync::Never] {
        let options = Options { fsync, ..options() };
        let (disk, mut engine) = worked(options);
        // Whatever the policy, this much is known to be on the disk.
        engine.set_snapshot_after(u64::MAX);
        engine.close().unwrap();
        let disk = disk.restarted();
        let before = digest(&state(&disk).image());
        disk.record_trail();
        compact(&disk, options, 9).unwrap().unwrap();
        let points = disk.take_trail();
        assert!(40 < points.len(), "{} calls", points.len());
        let mut dice = Dice::new(7);
        let mut states = 0;
        for point in &points {
            let crash = CrashStates::of(&point.disk, None);
            for choice in crash.choices(STATES, &mut dice) {
                let left = crash.disk(&choice);
                let origin = format!("call {} ({}), {choice}", point.call, point.doing);
                assert_eq!(digest(&state(&left).image()), before, "read only: {origin}");
                // The tool again, or the daemon: both find it.
                if states % 2 == 0 {
                    let done = compact(&left, options, 11).unwrap().unwrap();
                    assert_eq!(done.digest, before, "{origin}");
                } else {
                    let opened = Engine::open(left, options, HOST, Rules::default());
                    let (mut engine, _) =
                        opened.unwrap_or_else(|error| panic!("{origin}: {error}"));
                    assert_eq!(digest(&engine.state().image()), before, "{origin}");
                    engine.start(start(false), now()).unwrap();
                }
                states += 1;
            }
        }
        println!("compaction under {fsync:?}: {} calls, {states} crash states", points.len());
    }
}

// spec: JRN-067
#[test]
fn a_compaction_that_fails_anywhere_leaves_the_same_state() {
    let (disk, engine) = worked(options());
    drop(engine);
    let disk = disk.restarted();
    let before = digest(&state(&disk).image());
    let mut failed = 0;
    for op in [Op::Create, Op::Write, Op::Sync, Op::Read, Op::Rename, Op::Remove, Op::SyncDir] {
        for nth in 1..40 {
            let disk = disk.restarted();
            disk.fail(op, nth, Failure::Error(Errno::IO), Times::Once);
            failed += usize::from(compact(&disk, options(), 9).is_err());
            disk.heal();
            let left = disk.restarted();
            assert_eq!(digest(&state(&left).image()), before, "{op:?} {nth}");
        }
    }
    assert!(40 < failed, "{failed} compactions failed");
}

// spec: REC-042
#[test]
fn ids_that_a_weak_policy_may_have_lost_are_not_handed_out_after_a_compaction() {
    let weak = Options { fsync: Fsync::Never, ..options() };
    let (disk, engine) = worked(weak);
    let promised = engine.state().next_task();
    drop(engine); // killed: nobody knows what was handed out
    let disk = disk.restarted();
    compact(&disk, options(), 9).unwrap().unwrap();
    let (mut engine, recovery) = Engine::open(disk, options(), HOST, Rules::default()).unwrap();
    assert!(recovery.skipped_ahead, "the start is still told");
    engine.start(start(recovery.skipped_ahead), now()).unwrap();
    assert!(promised.0 + 1000 < engine.state().next_task().0);
}

/// The records that were shown.
#[derive(Default)]
struct Seen(Vec<(u64, Vec<u8>)>);

impl Visitor for Seen {
    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        self.0.push((place.seq, record.body.to_vec()));
        Ok(())
    }
}

fn poll_all(follow: &mut Follow<SimDisk>, seen: &mut Seen) {
    while follow.poll(seen).unwrap() {}
}

// spec: JRN-070
#[test]
fn what_a_follower_has_shown_no_power_cut_takes_back() {
    for fsync in [Fsync::Always, Fsync::Never] {
        let options = Options { fsync, ..crate::ledger::options() };
        let mut ledger = open(&SimDisk::new(2), &options, Book::default()).unwrap().ledger;
        let mut shown_in_all = 0;
        for step in [Step::Small, Step::Multi, Step::Rotate, Step::Small, Step::Large] {
            ledger.disk.record_trail();
            ledger.step(step).unwrap();
            for point in ledger.disk.take_trail() {
                let disk = point.disk.fork();
                let mut seen = Seen::default();
                poll_all(&mut Follow::new(disk.clone(), 1), &mut seen);
                shown_in_all += seen.0.len();
                for seed in 0..4 {
                    let left = disk.after_crash(seed, false);
                    let found = open(&left, &options, Book::default()).unwrap().history;
                    assert!(seen.0.len() <= found.records.len(), "{step:?}, call {}", point.call);
                    assert_eq!(seen.0[..], found.records[..seen.0.len()], "{step:?}");
                }
            }
        }
        assert!(100 < shown_in_all);
    }
}

// spec: JRN-071
#[test]
fn a_follower_shows_each_record_once_over_rotation_restarts_and_snapshots() {
    let mut ledger = fresh(3);
    let mut follow = Follow::new(ledger.disk.clone(), 1);
    let mut seen = Seen::default();
    let steps = [Step::Small, Step::Reopen, Step::Rotate, Step::Multi, Step::Reopen, Step::Large];
    for round in 0..3 {
        for step in steps {
            ledger.step(step).unwrap();
            poll_all(&mut follow, &mut seen);
        }
        if round == 1 {
            ledger.step(Step::Snapshot).unwrap();
        }
    }
    let book: Vec<_> =
        ledger.book.batches.iter().flat_map(|(first, bodies)| (*first..).zip(bodies)).collect();
    let shown: Vec<_> = seen.0.iter().map(|(seq, body)| (*seq, body)).collect();
    assert_eq!(shown, book);
}

// spec: JRN-071
#[test]
fn a_follower_that_was_overtaken_by_a_compaction_goes_on_behind_it() {
    let (disk, engine) = worked(options());
    let mut follow = Follow::new(disk.clone(), 1);
    let mut seen = Seen::default();
    follow.poll(&mut seen).unwrap();
    drop(engine);
    let last = scan(&disk, &mut ()).unwrap().next_seq - 1;
    compact(&disk, options(), 9).unwrap().unwrap();
    poll_all(&mut follow, &mut seen);
    let (mut engine, _) = Engine::open(disk, options(), HOST, Rules::default()).unwrap();
    engine.start(start(false), now()).unwrap();
    poll_all(&mut follow, &mut seen);
    // That the clock seems to be put back is a second one.
    let fresh = seen.0.iter().find(|record| last < record.0).unwrap();
    assert_eq!(fresh.0, last + 1, "the record of the new start");
}

// spec: JRN-071
#[test]
fn a_follower_waits_at_a_write_that_is_not_whole() {
    let mut ledger = fresh(5);
    ledger.step(Step::Small).unwrap();
    // The next frame is there but for its middle.
    let path = crate::ledger::segments(&ledger.disk).pop().unwrap();
    ledger.step(Step::Multi).unwrap();
    let whole = ledger.disk.read_file(&path).unwrap();
    ledger.disk.edit(&path, |file| file[4096 + 1024..4096 + 1536].fill(0));
    let mut seen = Seen::default();
    let mut follow = Follow::new(ledger.disk.clone(), 1);
    poll_all(&mut follow, &mut seen);
    assert_eq!(seen.0.len(), 1, "half a write is nothing");
    assert!(!follow.poll(&mut seen).unwrap(), "and no reason to ask again at once");
    ledger.disk.edit(&path, |file| file.clone_from(&whole));
    poll_all(&mut Follow::new(ledger.disk.clone(), 2), &mut seen);
    assert_eq!(seen.0.len(), 4);
    let History { records, .. } =
        open(&ledger.disk.restarted(), &crate::ledger::options(), Book::default()).unwrap().history;
    assert_eq!(seen.0, records);
}
