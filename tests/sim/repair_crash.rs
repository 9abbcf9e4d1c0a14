//! Repairs that are cut short, by the power or by an error, anywhere and again: the old store is as
//! it was, or a start refuses and names the cure, and the next repair comes to the same result.

use std::collections::{BTreeMap, BTreeSet};

use midwatch::engine::repair::{Diagnosis, Method, Plan, Span, diagnose};
use midwatch::engine::{codec, digest};
use midwatch::journal::disk::{Disk, DiskFile};
use midwatch::journal::repair::{install, is_pending};
use midwatch::journal::{JournalError, Place, Record, Visitor, scan};
use midwatch::kernel::ids::{Seq, TaskId};
use midwatch::sim::{CrashStates, Dice, Failure, Op, PageFate, Point, SimDisk, SimFile, Times};
use rustix::io::Errno;
use std::io;

use crate::asked;
use crate::repair::{Known, RANDOM, assert_kept, check_repaired, opened, state_at, store};

/// How deep crashes of repairs go: a crash, and another in the repair after it.
const DEPTH: u32 = 2;

type Harm = fn(&SimDisk);

/// A store harmed in each manner that takes another way through a repair.
fn harmed() -> Vec<(&'static str, Known, SimDisk)> {
    let segment = |disk: &SimDisk, nth: usize| {
        let files = disk.files().into_iter().filter(|path| path.starts_with("journal/"));
        files.collect::<Vec<_>>()[nth].clone()
    };
    let harms: [(&str, &[usize], Harm); 5] = [
        ("a bit in the middle", &[12], |disk| {
            let files = disk.files();
            let journal = files.iter().filter(|path| path.starts_with("journal/"));
            disk.flip(journal.collect::<Vec<_>>()[6], 8 * 4500);
        }),
        ("no floor, no store file, a hole", &[8, 30], |disk| {
            disk.rm("floor");
            disk.rm("store");
            let files = disk.files();
            let newest = files.iter().rfind(|path| path.starts_with("journal/")).unwrap();
            disk.zero(newest, 0..512);
        }),
        ("nothing but a snapshot", &[8, 30], |disk| {
            let files = disk.files();
            for path in files.iter().filter(|path| path.starts_with("journal/")) {
                disk.rm(path);
            }
        }),
        ("a store file that is wrong", &[], |disk| {
            disk.flip("store", 70);
            let files = disk.files();
            disk.rm(files.iter().filter(|path| path.starts_with("journal/")).nth(3).unwrap());
        }),
        ("a leftover", &[12], |disk| {
            disk.write_file("journal/0000000099-00000000000000000999.journal.tmp", b"half");
            disk.rm("floor");
            let files = disk.files();
            disk.cut(
                files.iter().filter(|path| path.starts_with("journal/")).nth(7).unwrap(),
                5000,
            );
        }),
    ];
    let harm = |(name, snapshots, harm): (&'static str, &[usize], Harm)| {
        let known = Known::of(store(snapshots));
        let disk = known.whole.fork();
        assert!(segment(&disk, 0).ends_with(".journal"));
        harm(&disk);
        (name, known, disk)
    };
    harms.into_iter().map(harm).collect()
}

/// What the first look at a store plans.
fn planned(disk: &SimDisk) -> Box<Plan> {
    match diagnose(disk, Method::Cut).unwrap() {
        Diagnosis::Plan(plan) => plan,
        Diagnosis::Healthy(_) => panic!("nothing to repair"),
    }
}

/// What the tool does: finishes a repair that was interrupted, or plans one and carries it out.
fn repair(disk: &SimDisk) -> Result<(), JournalError> {
    if is_pending(disk)? {
        return install(disk).map(drop);
    }
    match diagnose(disk, Method::Cut)? {
        Diagnosis::Plan(plan) => plan.carry_out(disk, RANDOM).map(drop),
        Diagnosis::Healthy(_) => Ok(()),
    }
}

struct Crashes<'a> {
    known: &'a Known,
    before: &'a SimDisk,
    plan: &'a Plan,
    states: usize,
    depth: u32,
}

impl Crashes<'_> {
    /// A disk on which a repair stopped somewhere.
    fn check(&mut self, disk: &SimDisk, dice: &mut Dice, origin: &str) {
        self.states += 1;
        assert_kept(self.before, disk, origin);
        match opened(&disk.fork()) {
            Ok(found) => assert_eq!(found, self.plan.digest, "it starts with a mix\n{origin}"),
            Err(JournalError::RepairInterrupted) => assert!(is_pending(disk).unwrap(), "{origin}"),
            Err(_) => {
                for path in self.before.files() {
                    assert!(
                        disk.same_file(self.before, &path),
                        "{path} is not as it was\n{origin}"
                    );
                }
            }
        }
        disk.record_trail();
        repair(disk).unwrap_or_else(|error| panic!("{error}\n{origin}"));
        let trail = disk.take_trail();
        self.depth += 1;
        if self.depth < DEPTH {
            for _ in 0..2 {
                self.crash(&trail[dice.below(trail.len())], 2, dice, origin);
            }
        }
        self.depth -= 1;
        check_repaired(self.known, self.before, (disk, self.plan), origin);
    }

    /// The power fails before the call.
    fn crash(&mut self, point: &Point, states: usize, dice: &mut Dice, origin: &str) {
        let crash = CrashStates::of(&point.disk, None);
        for choice in crash.choices(states, dice) {
            let origin =
                format!("{origin}\n  before call {} ({}), {choice}", point.call, point.doing);
            self.check(&crash.disk(&choice), dice, &origin);
        }
    }
}

// spec: REP-052, REP-053, REP-054
#[test]
fn a_power_cut_at_any_call_of_a_repair_and_of_the_next_one_changes_nothing() {
    let mut figures = BTreeMap::new();
    for (name, known, disk) in harmed() {
        let plan = planned(&disk);
        let before = disk.fork();
        disk.record_trail();
        plan.carry_out(&disk, RANDOM).unwrap();
        let mut crashes =
            Crashes { known: &known, before: &before, plan: &plan, states: 0, depth: 0 };
        let mut dice = Dice::new(1);
        let states = usize::try_from(asked("MIDWATCH_REPAIR_STATES", 3)).unwrap();
        for point in disk.take_trail() {
            crashes.crash(&point, states, &mut dice, name);
            // The process alone may end as well.
            crashes.check(&point.disk.restarted(), &mut dice, &format!("{name}: {}", point.doing));
        }
        figures.insert(name, crashes.states);
    }
    println!("{figures:?}");
}

#[test]
fn an_error_at_any_call_of_a_repair_leaves_it_to_the_next_one() {
    let mut runs = 0;
    for (name, known, disk) in harmed() {
        let plan = planned(&disk);
        for op in Op::ALL {
            for (errno, nth) in (1..).flat_map(|nth| [(Errno::IO, nth), (Errno::NOSPC, nth)]) {
                let next = disk.fork();
                next.fail(op, nth, Failure::Error(errno), Times::Once);
                let result = repair(&next);
                if next.failures() == 0 {
                    break;
                }
                let origin = format!("{name}, {errno:?} at {op:?} number {nth}: {result:?}");
                let next = next.restarted();
                assert_kept(&disk, &next, &origin);
                repair(&next).unwrap_or_else(|error| panic!("{error}\n{origin}"));
                check_repaired(&known, &disk, (&next, &plan), &origin);
                runs += 1;
            }
        }
    }
    println!("{runs} failed repairs");
}

// spec: REP-055
#[test]
fn a_file_system_without_links_is_repaired_by_renames() {
    for (name, known, disk) in harmed() {
        let plan = planned(&disk);
        let before = disk.fork();
        disk.fail(Op::Link, 1, Failure::Error(Errno::OPNOTSUPP), Times::Forever);
        repair(&disk).unwrap();
        disk.heal();
        check_repaired(&known, &before, (&disk, &plan), name);
    }
}

/// A disk on which one write goes wrong, and says nothing.
#[derive(Clone)]
struct Liar {
    disk: SimDisk,
    /// Which write, counted from 1.
    nth: u64,
    writes: std::rc::Rc<std::cell::Cell<u64>>,
}

struct LiarFile {
    file: SimFile,
    liar: Liar,
}

impl Liar {
    fn file(&self, file: SimFile) -> LiarFile {
        LiarFile { file, liar: self.clone() }
    }
}

impl Disk for Liar {
    type File = LiarFile;
    fn create(&self, path: &str) -> io::Result<LiarFile> {
        self.disk.create(path).map(|file| self.file(file))
    }
    fn open_read(&self, path: &str) -> io::Result<LiarFile> {
        self.disk.open_read(path).map(|file| self.file(file))
    }
    fn open_write(&self, path: &str) -> io::Result<LiarFile> {
        self.disk.open_write(path).map(|file| self.file(file))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.link(from, to)
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.disk.create_dir(path)
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.disk.remove_dir(path)
    }
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn is_still(&self, path: &str, file: &LiarFile) -> io::Result<bool> {
        self.disk.is_still(path, &file.file)
    }
    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }
}

impl DiskFile for LiarFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let writes = &self.liar.writes;
        writes.set(writes.get() + 1);
        let mut bytes = bytes.to_vec();
        if writes.get() == self.liar.nth {
            bytes[40] ^= 1;
        }
        self.file.write_at(offset, &bytes)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }
}

/// W32: what a repair has written is read back, and is not installed when it is not what it
/// should be.
// spec: REP-050
#[test]
fn a_new_store_that_does_not_verify_is_not_installed() {
    let (_, known, harmed) = harmed().swap_remove(0);
    let plan = planned(&harmed);
    let mut refused = 0;
    for nth in 1.. {
        let disk = harmed.fork();
        let liar = Liar { disk: disk.clone(), nth, writes: std::rc::Rc::default() };
        let origin = format!("write {nth} is wrong");
        let result = plan.carry_out(&liar, RANDOM);
        if liar.writes.get() < nth {
            break;
        }
        if result.is_err() {
            refused += 1;
            assert!(!is_pending(&disk).unwrap(), "{origin}");
            for path in harmed.files() {
                assert!(disk.same_file(&harmed, &path), "{path} was changed: {origin}");
            }
            repair(&disk).unwrap();
        } // else it was the slot of the floor that does not count, or padding
        check_repaired(&known, &harmed, (&disk, &plan), &origin);
    }
    assert!(5 <= refused, "{refused}");
}

/// W63: a repair says how much room it needs before it touches anything, and needs no more.
// spec: REP-033
#[test]
fn a_repair_needs_the_room_that_it_says_and_says_so_first() {
    for (name, known, harmed) in harmed() {
        let plan = planned(&harmed);
        let disk = harmed.fork();
        disk.capacity(disk.used() + plan.needed - 1);
        let calls = disk.calls();
        match plan.carry_out(&disk, RANDOM) {
            Err(JournalError::RepairNeedsSpace { needed, free }) => {
                assert_eq!((needed, free), (plan.needed, plan.needed - 1), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(disk.calls(), calls + 1, "it asked, and nothing else");
        disk.capacity(disk.used() + plan.needed);
        plan.carry_out(&disk, RANDOM).unwrap();
        disk.capacity(u64::MAX);
        check_repaired(&known, &harmed, (&disk, &plan), name);
    }
}

/// A sync that fails and throws its pages away is not repeated.
#[test]
fn a_sync_that_loses_its_pages_ends_the_repair() {
    let (_, known, harmed) = harmed().swap_remove(0);
    let plan = planned(&harmed);
    for nth in 1.. {
        let disk = harmed.fork();
        disk.fail(Op::Sync, nth, Failure::Sync(PageFate::Dropped), Times::Once);
        let result = repair(&disk);
        if disk.failures() == 0 {
            break;
        }
        assert!(result.is_err());
        let next = disk.restarted();
        repair(&next).unwrap();
        check_repaired(&known, &harmed, (&next, &plan), &format!("sync {nth}"));
    }
}

/// B16, W23: as long as nobody repairs it, a damaged store stays as it is, however often it is
/// started; then each byte of it is kept, by either method.
#[test]
fn a_damaged_store_is_left_alone_until_it_is_repaired_and_then_kept() {
    let known = Known::of(store(&[]));
    let segments: Vec<_> =
        known.whole.files().into_iter().filter(|path| path.starts_with("journal/")).collect();
    for method in [Method::Cut, Method::Salvage] {
        let harmed = known.whole.fork();
        harmed.flip(&segments[1], 8 * 4100);
        let disk = harmed.fork();
        for _ in 0..5 {
            assert!(opened(&disk).is_err());
        }
        for path in harmed.files() {
            assert!(disk.same_file(&harmed, &path));
        }
        let Diagnosis::Plan(plan) = diagnose(&disk, method).unwrap() else { panic!() };
        plan.carry_out(&disk, RANDOM).unwrap();
        check_repaired(&known, &harmed, (&disk, &plan), &format!("{method:?}"));
    }
}

// spec: REP-025, REP-030, REP-031
#[test]
fn salvage_keeps_what_can_follow_and_names_what_cannot() {
    let known = Known::of(store(&[]));
    let harmed = known.whole.fork();
    let segments: Vec<_> =
        harmed.files().into_iter().filter(|path| path.starts_with("journal/")).collect();
    harmed.rm(&segments[2]);
    let cut = planned(&harmed);
    let Diagnosis::Plan(salvage) = diagnose(&harmed, Method::Salvage).unwrap() else { panic!() };
    let gone = cut.unreadable[0];
    assert_eq!(cut.unreadable, salvage.unreadable);
    assert_eq!(
        cut.outcome.applied + gone.count() + cut.outcome.aside_count,
        known.next_seq - 1,
        "each has its word"
    );
    assert_eq!(cut.salvageable, salvage.outcome.applied - cut.outcome.applied);
    let skipped = salvage.skipped.len() as u64;
    assert_eq!(skipped, salvage.outcome.aside_count);
    assert_eq!(cut.salvageable + skipped, cut.outcome.aside_count);
    let mut gap = Gap { span: gone, tasks: BTreeSet::new() };
    scan(&known.whole, &mut gap).unwrap();
    assert!(!gap.tasks.is_empty());
    for task in state_at(&known.whole, u64::MAX).tasks() {
        let id = task.id;
        for plan in [&cut, &salvage] {
            let kept = plan.outcome.state.task(id).is_some();
            let span = |span: &Span| (span.first..=span.last).contains(&id.0);
            let told = plan.outcome.lost.contains(&id) || plan.nameless.iter().any(span);
            assert!(kept != told, "task {id}: {kept}, {told}");
            let same = plan.outcome.state.task(id) == Some(task);
            let named = told || plan.outcome.older.contains(&id);
            // What is gone may have been about any task: it is named by its sequences alone.
            assert!(same || named || gap.tasks.contains(&id), "task {id}");
        }
    }
    assert_ne!(cut.digest, salvage.digest);
    salvage.carry_out(&harmed, RANDOM).unwrap();
    assert_eq!(opened(&harmed).unwrap(), digest(&salvage.outcome.state.image()));
    assert_eq!(scan(&harmed, &mut ()).unwrap().next_seq, salvage.next_seq);
}

/// The tasks that the records of a span are about.
struct Gap {
    span: Span,
    tasks: BTreeSet<TaskId>,
}

impl Visitor for Gap {
    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        let (_, event) = codec::decode(Seq(place.seq), record.kind, record.body).unwrap();
        if (self.span.first..=self.span.last).contains(&place.seq) {
            self.tasks.extend(event.task());
        }
        Ok(())
    }
}
