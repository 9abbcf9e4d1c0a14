//! A real directory whose calls fail when a test says so.

use super::super::disk::{Disk, DiskFile};
use super::super::real::{RealDisk, RealFile};
use std::io;
use std::sync::{Arc, Mutex};

/// A call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Create,
    OpenRead,
    OpenWrite,
    Rename,
    Remove,
    CreateDir,
    List,
    SyncDir,
    Read,
    Write,
    Sync,
    Allocate,
}

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fault {
    /// Only this call; `None` is any.
    pub(super) call: Option<Call>,
    /// Only files whose name has this in it.
    pub(super) path: &'static str,
    /// How many such calls go well first.
    pub(super) after: usize,
    /// How many fail then.
    pub(super) times: usize,
    /// The error; `None` cuts a read or write short instead.
    pub(super) error: Option<io::ErrorKind>,
    /// Fails only as long as this file exists.
    pub(super) while_there: Option<&'static str>,
    /// What a short read or write does.
    pub(super) short: usize,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) fault: Option<Fault>,
    pub(super) log: Vec<(Call, String)>,
    pub(super) free: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Faulty {
    disk: RealDisk,
    pub(super) state: Arc<Mutex<State>>,
}

#[derive(Debug)]
pub(super) struct FaultyFile {
    file: RealFile,
    path: String,
    disk: Faulty,
}

impl Faulty {
    pub(super) fn new(disk: RealDisk) -> Self {
        Self { disk, state: Arc::default() }
    }

    pub(super) fn set(&self, fault: Fault) {
        self.state.lock().unwrap().fault = Some(fault);
    }

    pub(super) fn calls(&self, call: Call, path: &str) -> usize {
        let state = self.state.lock().unwrap();
        state.log.iter().filter(|(done, file)| *done == call && file.contains(path)).count()
    }

    /// Logs a call; the length that a read or write is cut to.
    fn pass(&self, call: Call, path: &str) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap();
        state.log.push((call, path.to_owned()));
        let Some(fault) = &mut state.fault else { return Ok(usize::MAX) };
        let there = fault.while_there.is_none_or(|name| self.disk.open_read(name).is_ok());
        if fault.call.is_some_and(|only| only != call) || !path.contains(fault.path) || !there {
            return Ok(usize::MAX);
        }
        if 0 < fault.after {
            fault.after -= 1;
            return Ok(usize::MAX);
        }
        if fault.times == 0 {
            return Ok(usize::MAX);
        }
        fault.times -= 1;
        fault.error.map_or(Ok(fault.short), |kind| Err(kind.into()))
    }

    fn wrap(&self, path: &str, file: RealFile) -> FaultyFile {
        FaultyFile { file, path: path.to_owned(), disk: self.clone() }
    }
}

impl Disk for Faulty {
    type File = FaultyFile;

    fn create(&self, path: &str) -> io::Result<FaultyFile> {
        self.pass(Call::Create, path)?;
        Ok(self.wrap(path, self.disk.create(path)?))
    }

    fn open_read(&self, path: &str) -> io::Result<FaultyFile> {
        self.pass(Call::OpenRead, path)?;
        Ok(self.wrap(path, self.disk.open_read(path)?))
    }

    fn open_write(&self, path: &str) -> io::Result<FaultyFile> {
        self.pass(Call::OpenWrite, path)?;
        Ok(self.wrap(path, self.disk.open_write(path)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.pass(Call::Rename, to)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.pass(Call::Remove, path)?;
        self.disk.remove(path)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.pass(Call::CreateDir, path)?;
        self.disk.create_dir(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.pass(Call::List, dir)?;
        self.disk.list(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.pass(Call::SyncDir, dir)?;
        self.disk.sync_dir(dir)
    }

    fn is_still(&self, path: &str, file: &FaultyFile) -> io::Result<bool> {
        self.disk.is_still(path, &file.file)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.state.lock().unwrap().free.map_or_else(|| self.disk.free_space(), Ok)
    }
}

impl DiskFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let short = self.disk.pass(Call::Read, &self.path)?.min(buffer.len());
        self.file.read_at(offset, &mut buffer[..short])
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let short = self.disk.pass(Call::Write, &self.path)?.min(bytes.len());
        self.file.write_at(offset, &bytes[..short])
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.pass(Call::Sync, &self.path)?;
        self.file.sync()
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.pass(Call::Allocate, &self.path)?;
        self.file.allocate(bytes)
    }
}
