//! The simulated disk: [`Disk`] over memory, with everything that can go wrong.
//!
//! Each file is held twice, as readers see it and as the platter holds it, with the list of what
//! no sync has covered yet; the names of each directory likewise. A power cut keeps the second
//! and any selection from the list ([`super::crash`]). A restart of the process alone keeps the
//! first.
//!
//! The disk also watches its user: a sync of a file whose sync failed before stops the run, for the
//! kernel may have thrown the pages away and would say "done".

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::dice::Dice;
use super::fault::{self, Failure, Fault, Op, PageFate, Times, Turn};
use super::image::{FileState, PAGE};
use super::names::{DirOp, Entry, Names, parent};
use crate::journal::disk::{Disk, DiskFile};

/// A simulated data directory. Clones name the same one; [`SimDisk::fork`] makes a new one.
#[derive(Clone, Debug)]
pub struct SimDisk {
    machine: Arc<Mutex<Machine>>,
}

/// The disk as it was just before one call.
#[derive(Clone, Debug)]
pub struct Point {
    /// Which call, counted from 1; 0 stands for "after the last one".
    pub call: u64,
    /// What the call was about to do, for reports.
    pub doing: String,
    /// The mark the test had set by then, see [`SimDisk::mark`].
    pub mark: u64,
    /// The disk, in the state before the call.
    pub disk: SimDisk,
}

/// What is on the disk, now and for good.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pub(super) names: Names,
    pub(super) files: BTreeMap<u64, Arc<FileState>>,
    next_file: u64,
}

#[derive(Debug)]
struct Machine {
    store: Store,
    calls: u64,
    power: Power,
    faults: Vec<Fault>,
    failures: u64,
    capacity: u64,
    turns: Vec<(u64, Turn)>,
    tolerant: bool,
    failed_dirs: Vec<String>,
    trail: Option<Vec<Point>>,
    mark: u64,
    dice: Dice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    Cut { call: u64, inside: bool },
    Off,
}

/// How a call goes on after the gate.
enum Gate {
    Go(Option<Failure>),
    /// The power fails while the call runs.
    Dying,
}

impl SimDisk {
    /// An empty disk; `seed` decides whatever is left to chance.
    pub fn new(seed: u64) -> Self {
        Self::with_store(Store::default(), seed)
    }

    pub(super) fn with_store(store: Store, seed: u64) -> Self {
        let machine = Machine {
            store,
            calls: 0,
            power: Power::On,
            faults: Vec::new(),
            failures: 0,
            capacity: u64::MAX,
            turns: Vec::new(),
            tolerant: false,
            failed_dirs: Vec::new(),
            trail: None,
            mark: 0,
            dice: Dice::new(seed),
        };
        Self { machine: Arc::new(Mutex::new(machine)) }
    }

    /// A disk of its own with the same content, un-synced changes included, and no faults.
    #[must_use]
    pub fn fork(&self) -> Self {
        let machine = self.lock();
        let disk = Self::with_store(machine.store.clone(), machine.dice.clone().word());
        disk.lock().capacity = machine.capacity;
        disk
    }

    /// The disk as the next process finds it when only the process ended: every write is there,
    /// durable or not. Handles of the old one fail from now on.
    #[must_use]
    pub fn restarted(&self) -> Self {
        self.lock().power = Power::Off;
        let disk = self.fork();
        for file in disk.lock().store.files.values_mut() {
            if file.sync_failed {
                Arc::make_mut(file).sync_failed = false;
            }
        }
        disk
    }

    /// Calls so far, failed ones included.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Cuts the power after the `call`-th call, or while it runs: its effect is then pending like
    /// any un-synced one, and a sync covers nothing. Every later call fails.
    pub fn crash_at(&self, call: u64, inside: bool) {
        self.lock().power = Power::Cut { call, inside };
    }

    /// Cuts the power now.
    pub fn power_off(&self) {
        self.lock().power = Power::Off;
    }

    /// Whether the power is gone.
    pub fn is_off(&self) -> bool {
        self.lock().power == Power::Off
    }

    /// From now on keeps the state before each call that can change the disk.
    pub fn record_trail(&self) {
        self.lock().trail = Some(Vec::new());
    }

    /// The states kept since [`SimDisk::record_trail`], and the present one at their end.
    pub fn take_trail(&self) -> Vec<Point> {
        let mut machine = self.lock();
        let mut trail = machine.trail.take().unwrap_or_default();
        trail.push(machine.point(0, "nothing more".to_owned()));
        trail
    }

    /// Notes a number that later points of the trail carry, e.g. how much was acknowledged.
    pub fn mark(&self, mark: u64) {
        self.lock().mark = mark;
    }

    /// Plans a failure of the `nth` (from 1) call of kind `op`, counted from now.
    pub fn fail(&self, op: Op, nth: u64, failure: Failure, times: Times) {
        let fault = Fault { op, path: String::new(), before: nth - 1, failure, times };
        self.lock().faults.push(fault);
    }

    /// As [`SimDisk::fail`], once, counting only calls on paths that contain `path`.
    pub fn fail_on(&self, path: &str, op: Op, nth: u64, failure: Failure) {
        let path = path.to_owned();
        let fault = Fault { op, path, before: nth - 1, failure, times: Times::Once };
        self.lock().faults.push(fault);
    }

    /// Planned failures that came true so far.
    pub fn failures(&self) -> u64 {
        self.lock().failures
    }

    /// Takes back every planned failure, and whatever the disk has turned into.
    pub fn heal(&self) {
        let mut machine = self.lock();
        machine.faults.clear();
        machine.turns.clear();
    }

    /// From the `call`-th call on the disk is what `turn` says.
    pub fn turn(&self, call: u64, turn: Turn) {
        self.lock().turns.push((call, turn));
    }

    /// Bytes the file system holds in all; blocks beyond that are `ENOSPC`.
    pub fn capacity(&self, bytes: u64) {
        self.lock().capacity = bytes;
    }

    /// Bytes that files own, in whole pages.
    pub fn used(&self) -> u64 {
        self.lock().store.used()
    }

    /// Lets a second sync after a failed one pass, for tests of what it would do.
    pub fn tolerate_second_syncs(&self) {
        self.lock().tolerant = true;
    }

    pub(super) fn store(&self) -> Store {
        self.lock().store.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way every call goes: counted, recorded, perhaps failed, perhaps the last.
    fn call<T>(
        &self,
        op: Op,
        path: &str,
        act: impl FnOnce(&mut Machine, Option<Failure>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut machine = self.lock();
        match machine.gate(op, path)? {
            Gate::Go(failure) => {
                if let Some(Failure::Error(errno)) = failure
                    && op != Op::SyncDir
                    && op != Op::Sync
                {
                    return Err(errno.into());
                }
                act(&mut machine, failure)
            }
            Gate::Dying => {
                if op.changes() && op != Op::Sync && op != Op::SyncDir {
                    let done = act(&mut machine, None);
                    drop(done);
                }
                Err(machine_is_off())
            }
        }
    }
}

impl Machine {
    fn gate(&mut self, op: Op, path: &str) -> io::Result<Gate> {
        if self.power == Power::Off {
            return Err(machine_is_off());
        }
        self.calls += 1;
        if op.changes() && self.trail.is_some() {
            let point = self.point(self.calls, format!("{op:?} {path}"));
            self.trail.get_or_insert_default().push(point);
        }
        if let Power::Cut { call, inside } = self.power
            && call <= self.calls
        {
            self.power = Power::Off;
            if inside || call < self.calls {
                return Ok(Gate::Dying);
            }
        }
        let sync = op == Op::Sync || op == Op::SyncDir;
        if self.is(Turn::ReadOnly) && op.changes() && !sync {
            return Err(Errno::ROFS.into());
        }
        let failure = fault::due(&mut self.faults, op, path);
        self.failures += u64::from(failure.is_some());
        Ok(Gate::Go(failure))
    }

    fn point(&self, call: u64, doing: String) -> Point {
        let disk = SimDisk::with_store(self.store.clone(), self.dice.clone().word() ^ call);
        disk.lock().capacity = self.capacity;
        Point { call, doing, mark: self.mark, disk }
    }

    fn is(&self, turn: Turn) -> bool {
        self.turns.iter().any(|(from, now)| *now == turn && *from <= self.calls)
    }

    fn free(&self) -> u64 {
        let capacity = if self.is(Turn::Full) { 0 } else { self.capacity };
        capacity.saturating_sub(self.store.used())
    }

    /// Stops the run when its user syncs again what failed to sync.
    fn watch(&self, failed: bool, what: &str) {
        assert!(self.tolerant || !failed, "F8: {what} was synced again after its sync failed");
    }

    /// Bytes of a write of `len` bytes that there is room for.
    fn room_for(&self, file: u64, offset: u64, len: usize) -> usize {
        let free = self.free() / PAGE as u64;
        let file = &self.store.files[&file];
        let mut room = len;
        while 0 < room && free < file.new_blocks(offset, room as u64) {
            room -= 1;
            let end = offset + room as u64;
            room -= room.min(super::image::index(end % PAGE as u64));
        }
        room
    }

    fn sync(&mut self, file: u64, path: &str, failure: Option<Failure>) -> io::Result<()> {
        self.watch(self.store.files[&file].sync_failed, path);
        if self.is(Turn::Lying) {
            return Ok(());
        }
        let state = self.store.file_mut(file);
        if state.late_error {
            state.late_error = false;
            state.sync_failed = true;
            return Err(Errno::IO.into());
        }
        let fate = match failure {
            None | Some(Failure::Short(_)) => {
                state.sync();
                return Ok(());
            }
            Some(Failure::Error(errno)) => {
                state.sync_failed = true;
                return Err(errno.into());
            }
            Some(Failure::Sync(fate)) => fate,
        };
        match fate {
            PageFate::Dropped => state.drop_dirty(),
            PageFate::CacheOnly => state.strand_dirty(),
            PageFate::Kept => {}
            PageFate::Late => {
                state.strand_dirty();
                state.late_error = true;
                return Ok(());
            }
        }
        state.sync_failed = true;
        Err(Errno::IO.into())
    }
}

impl Store {
    pub(super) fn at_rest(
        names: BTreeMap<String, Entry>,
        files: BTreeMap<u64, Arc<FileState>>,
        next_file: u64,
    ) -> Self {
        Self { names: Names::at_rest(names), files, next_file }
    }

    pub(super) fn next_file(&self) -> u64 {
        self.next_file
    }

    fn used(&self) -> u64 {
        let linked = self.names.cache.values().filter_map(|entry| match entry {
            Entry::File(file) => self.files.get(file),
            Entry::Dir => None,
        });
        linked.map(|file| file.blocks.len() as u64 * PAGE as u64).sum()
    }

    fn add(&mut self, file: FileState) -> u64 {
        let id = self.next_file;
        self.next_file += 1;
        self.files.insert(id, Arc::new(file));
        id
    }

    fn file_mut(&mut self, file: u64) -> &mut FileState {
        Arc::make_mut(self.files.get_mut(&file).expect("a handle names a file"))
    }

    fn find(&self, path: &str) -> io::Result<u64> {
        match self.names.cache.get(path) {
            Some(Entry::File(file)) => Ok(*file),
            Some(Entry::Dir) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }
}

/// An open file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    file: u64,
    path: String,
    writable: bool,
}

impl SimFile {
    fn new(disk: &SimDisk, file: u64, path: &str, writable: bool) -> Self {
        Self { disk: disk.clone(), file, path: path.to_owned(), writable }
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn create(&self, path: &str) -> io::Result<SimFile> {
        self.call(Op::Create, path, |machine, _| {
            let store = &mut machine.store;
            if !store.names.has_dir(parent(path)) {
                return Err(Errno::NOENT.into());
            }
            if store.names.cache.contains_key(path) {
                return Err(Errno::EXIST.into());
            }
            let file = store.add(FileState::default());
            let link = DirOp::Link { path: path.to_owned(), entry: Entry::File(file) };
            store.names.change(parent(path), link);
            Ok(SimFile::new(self, file, path, true))
        })
    }

    fn open_read(&self, path: &str) -> io::Result<SimFile> {
        self.call(Op::OpenRead, path, |machine, _| {
            Ok(SimFile::new(self, machine.store.find(path)?, path, false))
        })
    }

    fn open_write(&self, path: &str) -> io::Result<SimFile> {
        self.call(Op::OpenWrite, path, |machine, _| {
            Ok(SimFile::new(self, machine.store.find(path)?, path, true))
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Op::Rename, from, |machine, _| {
            let names = &mut machine.store.names;
            if !names.has_dir(parent(to)) {
                return Err(Errno::NOENT.into());
            }
            let entry = *names.cache.get(from).ok_or(Errno::NOENT)?;
            let (from, to) = (from.to_owned(), to.to_owned());
            if parent(&from) == parent(&to) {
                let dir = parent(&from).to_owned();
                names.change(&dir, DirOp::Rename { from, to, entry });
            } else {
                let (old, new) = (parent(&from).to_owned(), parent(&to).to_owned());
                names.change(&new, DirOp::Link { path: to, entry });
                names.change(&old, DirOp::Unlink { path: from });
            }
            Ok(())
        })
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.call(Op::Remove, path, |machine, _| {
            machine.store.find(path)?;
            machine.store.names.change(parent(path), DirOp::Unlink { path: path.to_owned() });
            Ok(())
        })
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.call(Op::CreateDir, path, |machine, _| {
            let names = &mut machine.store.names;
            if !names.has_dir(parent(path)) {
                return Err(Errno::NOENT.into());
            }
            match names.cache.get(path) {
                Some(Entry::Dir) => Ok(()),
                Some(Entry::File(_)) => Err(Errno::EXIST.into()),
                None => {
                    let link = DirOp::Link { path: path.to_owned(), entry: Entry::Dir };
                    names.change(parent(path), link);
                    Ok(())
                }
            }
        })
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.call(Op::List, dir, |machine, _| {
            let names = &machine.store.names;
            if !names.has_dir(dir) {
                return Err(Errno::NOENT.into());
            }
            let inside = names.cache.keys().filter(|path| parent(path) == dir);
            Ok(inside.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()).collect())
        })
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.call(Op::SyncDir, dir, |machine, failure| {
            let failed = machine.failed_dirs.iter().any(|failed| failed == dir);
            machine.watch(failed, &format!("the directory {dir:?}"));
            if let Some(failure) = failure {
                machine.failed_dirs.push(dir.to_owned());
                return Err(match failure {
                    Failure::Error(errno) => errno.into(),
                    Failure::Short(_) | Failure::Sync(_) => Errno::IO.into(),
                });
            }
            if !machine.store.names.has_dir(dir) {
                return Err(Errno::NOENT.into());
            }
            if !machine.is(Turn::Lying) {
                machine.store.names.sync(dir);
            }
            Ok(())
        })
    }

    fn is_still(&self, path: &str, file: &SimFile) -> io::Result<bool> {
        // A look that changes nothing, fails never and counts for no call.
        Ok(self.lock().store.find(path).is_ok_and(|found| found == file.file))
    }

    fn free_space(&self) -> io::Result<u64> {
        self.call(Op::FreeSpace, "", |machine, _| Ok(machine.free()))
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.disk
            .call(Op::Len, &self.path, |machine, _| Ok(machine.store.files[&self.file].cache.len()))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.call(Op::Read, &self.path, |machine, failure| {
            let most = match failure {
                Some(Failure::Short(most)) => most.min(buffer.len()),
                _ => buffer.len(),
            };
            Ok(machine.store.files[&self.file].cache.read(offset, &mut buffer[..most]))
        })
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.disk.call(Op::Write, &self.path, |machine, failure| {
            if !self.writable {
                return Err(Errno::BADF.into());
            }
            let most = match failure {
                Some(Failure::Short(most)) => most.min(bytes.len()),
                _ => bytes.len(),
            };
            let room = machine.room_for(self.file, offset, most);
            if room == 0 && !bytes.is_empty() && 0 < most {
                return Err(Errno::NOSPC.into());
            }
            machine.store.file_mut(self.file).write(offset, &bytes[..room]);
            Ok(room)
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        let disk = self.disk.clone();
        let (file, path) = (self.file, &self.path);
        disk.call(Op::Sync, path, |machine, failure| machine.sync(file, path, failure))
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.call(Op::Allocate, &self.path, |machine, _| {
            let free = machine.free() / PAGE as u64;
            if free < machine.store.files[&self.file].new_blocks(0, bytes) {
                return Err(Errno::NOSPC.into());
            }
            machine.store.file_mut(self.file).allocate(bytes);
            Ok(())
        })
    }
}

fn machine_is_off() -> io::Error {
    io::Error::other("the simulated machine is off")
}

/// What tests do to a disk behind the back of its user: at once, and durable.
impl SimDisk {
    /// Every file, sorted by path.
    pub fn files(&self) -> Vec<String> {
        let machine = self.lock();
        let names = machine.store.names.cache.iter();
        names.filter(|(_, entry)| **entry != Entry::Dir).map(|(path, _)| path.clone()).collect()
    }

    /// The bytes a reader would see.
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        let machine = self.lock();
        let file = machine.store.find(path).ok()?;
        Some(machine.store.files[&file].cache.bytes())
    }

    /// Whether both disks have a file at `path` with the same bytes; cheap between forks.
    pub fn same_file(&self, other: &Self, path: &str) -> bool {
        let find = |disk: &Self| {
            let store = disk.store();
            store.find(path).ok().map(|file| Arc::clone(&store.files[&file]))
        };
        match (find(self), find(other)) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a, &b) || a.cache.same(&b.cache),
            (None, None) => true,
            _ => false,
        }
    }

    /// Puts a file there, replacing what was; its directory comes along.
    pub fn write_file(&self, path: &str, bytes: &[u8]) {
        let mut machine = self.lock();
        let store = &mut machine.store;
        if !parent(path).is_empty() && !store.names.has_dir(parent(path)) {
            store.names.put(parent(path), Some(Entry::Dir));
        }
        let file = store.add(FileState::at_rest(bytes));
        store.names.put(path, Some(Entry::File(file)));
    }

    /// Edits the bytes of a file.
    pub fn edit(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.read_file(path).expect("a test edits a file that is there");
        change(&mut bytes);
        self.write_file(path, &bytes);
    }

    /// Flips one bit, counted from the start of the file.
    pub fn flip(&self, path: &str, bit: u64) {
        self.edit(path, |bytes| bytes[super::image::index(bit / 8)] ^= 1 << (bit % 8));
    }

    /// Zeroes a range.
    pub fn zero(&self, path: &str, range: std::ops::Range<usize>) {
        self.edit(path, |bytes| bytes[range].fill(0));
    }

    /// Cuts or grows a file to `len` bytes.
    pub fn cut(&self, path: &str, len: usize) {
        self.edit(path, |bytes| bytes.resize(len, 0));
    }

    /// Puts bytes behind the end of a file.
    pub fn append(&self, path: &str, more: &[u8]) {
        self.edit(path, |bytes| bytes.extend_from_slice(more));
    }

    /// Removes a name.
    pub fn rm(&self, path: &str) {
        self.lock().store.names.put(path, None);
    }
}
