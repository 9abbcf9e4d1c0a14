//! Puts a rebuilt store in the place of a damaged one. Where its records come from is not known
//! here: see `engine::repair`.
//!
//! The new store is written beside the old one, whole, in `repair.tmp/`: one snapshot, and one
//! segment that skips ahead. Checked, it becomes `repair/` by one rename, and from then on a start
//! refuses until [`install`] has come to its end, however often it is cut short. Nothing of the old
//! store is removed: each of its files gets its name in `quarantine/` durably before it loses the
//! one it had. The staged floor is the last file of phase one and the first of phase two: while
//! `repair/floor` is there, the old files may still be in their places; once it is gone, what is
//! there under a name of the store's is new.

use super::active::{Active, Ahead, Copies};
use super::disk::Disk;
use super::error::JournalError;
use super::floor::{FLOOR_FILE, FloorFile};
use super::remains::Remains;
use super::segment::{
    FLAG_SKIPPED_AHEAD, HEADER_BYTES, Header, Link, parse_segment_name, parse_snapshot_name,
};
use super::snapshot::SnapshotWriter;
use super::store::{self, JOURNAL_DIR, QUARANTINE_DIR, SNAPSHOT_DIR, STORE_FILE, remove_if_there};
use super::writer::Salts;
use std::io;

/// Alignment of frames in the new store: what a start then writes has its own.
pub const ALIGNMENT: u32 = 512;
/// Where the new store waits to be installed.
const READY_DIR: &str = "repair";
/// Where it is written.
const STAGE_DIR: &str = "repair.tmp";
/// What a repair writes besides the snapshot: segment, floor, store file, and the blocks of its
/// directories.
const BESIDE_SNAPSHOT_BYTES: u64 = 96 << 10;

/// A part of a data directory as a data directory of its own.
#[derive(Clone, Debug)]
pub struct Within<D> {
    disk: D,
    dir: &'static str,
}

impl<D> Within<D> {
    fn path(&self, path: &str) -> String {
        if path.is_empty() { self.dir.to_owned() } else { format!("{}/{path}", self.dir) }
    }
}

impl<D: Disk> Disk for Within<D> {
    type File = D::File;

    fn create(&self, path: &str) -> io::Result<D::File> {
        self.disk.create(&self.path(path))
    }

    fn open_read(&self, path: &str) -> io::Result<D::File> {
        self.disk.open_read(&self.path(path))
    }

    fn open_write(&self, path: &str) -> io::Result<D::File> {
        self.disk.open_write(&self.path(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(&self.path(from), &self.path(to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.link(&self.path(from), &self.path(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(&self.path(path))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.disk.create_dir(&self.path(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.disk.remove_dir(&self.path(path))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(&self.path(dir))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.sync_dir(&self.path(dir))
    }

    fn is_still(&self, path: &str, file: &D::File) -> io::Result<bool> {
        self.disk.is_still(&self.path(path), file)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }
}

/// A new store, being written beside the old one.
#[derive(Debug)]
pub struct Staged<D: Disk> {
    disk: D,
    within: Within<D>,
    header: Header,
    salts: Salts,
}

impl<D: Disk> Staged<D> {
    /// Begins a store that goes on with sequence `first_seq`, in the name of the old one. Needs
    /// `snapshot_bytes` for the snapshot that is to come, and says so before it writes a byte.
    ///
    /// `random` is different each time. The caller holds the lock of the data directory.
    pub fn begin(
        disk: &D,
        remains: &Remains,
        first_seq: u64,
        snapshot_bytes: u64,
        random: u64,
    ) -> Result<Self, JournalError> {
        let needed = space_needed(snapshot_bytes);
        let free =
            disk.free_space().map_err(|source| io_error("ask for the space of", "", source))?;
        if free < needed {
            return Err(JournalError::RepairNeedsSpace { needed, free });
        }
        clear_stage(disk)?;
        let mut salts = Salts::new(random);
        let header = Header {
            alignment: ALIGNMENT,
            store: remains.store,
            number: free_number(disk, remains)?,
            first_seq,
            salt: salts.draw(),
            machine_id: remains.host.0,
            boot_id: remains.host.1,
            previous: Link::default(),
            flags: FLAG_SKIPPED_AHEAD,
            copied_end: HEADER_BYTES,
            resume_seq: first_seq,
        };
        let within = Within { disk: disk.clone(), dir: STAGE_DIR };
        Ok(Self { disk: disk.clone(), within, header, salts })
    }

    /// Writes all but the snapshot, whose writer this returns: the caller pushes the state, which
    /// stands at the sequence before the first one of the new segment, and finishes it.
    pub fn write(&mut self) -> Result<SnapshotWriter<Within<D>>, JournalError> {
        let (disk, header) = (&self.within, self.header);
        for dir in ["", JOURNAL_DIR, SNAPSHOT_DIR] {
            disk.create_dir(dir).map_err(|source| io_error("create", STAGE_DIR, source))?;
        }
        let bare = Ahead { segment: HEADER_BYTES, has_room: false };
        Active::create(disk, header, &Copies::default(), bare)?;
        let mut floor = FloorFile::open(disk, None, header.store)?;
        floor.update(header.first_seq - 1, header.number, None)?;
        store::write(disk, header.store)?;
        let snapshot = Header {
            number: 0,
            first_seq: header.first_seq - 1,
            salt: self.salts.draw(),
            flags: 0,
            copied_end: 0,
            resume_seq: 0,
            ..header
        };
        SnapshotWriter::create(disk.clone(), snapshot, 0)
    }

    /// The new store, to be read like any other.
    pub fn disk(&self) -> &Within<D> {
        &self.within
    }

    /// Makes the new store the one that counts, and installs it.
    ///
    /// # After a crash
    /// Before the rename is durable the old store is as it was; after it a start refuses with
    /// [`JournalError::RepairInterrupted`] until [`install`] was called again.
    pub fn install(self) -> Result<String, JournalError> {
        let disk = &self.disk;
        for dir in [JOURNAL_DIR, SNAPSHOT_DIR, ""] {
            sync(&self.within, dir)?;
        }
        sync(disk, "")?;
        let rename = disk.rename(STAGE_DIR, READY_DIR);
        rename.map_err(|source| io_error("rename", STAGE_DIR, source))?;
        sync(disk, "")?;
        install(disk)
    }

    /// Gives up: the old store is as it was.
    pub fn abandon(self) -> Result<(), JournalError> {
        clear_stage(&self.disk)
    }
}

/// Bytes that must be free for a repair whose snapshot has that length.
pub fn space_needed(snapshot_bytes: u64) -> u64 {
    snapshot_bytes.next_multiple_of(4096).saturating_add(BESIDE_SNAPSHOT_BYTES)
}

/// The number of the new segment: behind all that are known, and one under whose name no earlier
/// repair has set anything aside.
fn free_number(disk: &impl Disk, remains: &Remains) -> Result<u64, JournalError> {
    // Never the first: a first segment says that the journal has its beginning.
    let mut number = remains.last_segment.saturating_add(1).max(2);
    while is_there(disk, &aside_dir(number))? {
        number = number.saturating_add(1);
    }
    Ok(number)
}

fn aside_dir(number: u64) -> String {
    format!("{QUARANTINE_DIR}/repair-{number:010}")
}

/// Whether an interrupted repair waits to be finished.
pub fn is_pending(disk: &impl Disk) -> Result<bool, JournalError> {
    is_there(disk, READY_DIR)
}

fn is_there(disk: &impl Disk, dir: &str) -> Result<bool, JournalError> {
    match disk.list(dir) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(io_error("list", dir, source)),
    }
}

/// Removes what a repair left half written. It was never more than a copy.
pub(super) fn clear_stage(disk: &impl Disk) -> Result<(), JournalError> {
    if !is_there(disk, STAGE_DIR)? {
        return Ok(());
    }
    for dir in [JOURNAL_DIR, SNAPSHOT_DIR].map(|dir| format!("{STAGE_DIR}/{dir}")) {
        clear_dir(disk, &dir)?;
    }
    clear_dir(disk, STAGE_DIR)?;
    sync(disk, "")
}

fn clear_dir(disk: &impl Disk, dir: &str) -> Result<(), JournalError> {
    for name in store::list(disk, dir)? {
        remove_if_there(disk, &format!("{dir}/{name}"))?;
    }
    remove_dir_if_there(disk, dir)
}

fn remove_dir_if_there(disk: &impl Disk, dir: &str) -> Result<(), JournalError> {
    match disk.remove_dir(dir) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", dir, source))
        }
        _ => Ok(()),
    }
}

/// Installs the store in `repair/`, from wherever an earlier call came to; returns the directory
/// that has what was set aside, empty when an earlier call did that.
///
/// # After a crash
/// A start refuses until this was called again and came to its end.
pub fn install(disk: &impl Disk) -> Result<String, JournalError> {
    let staged = |dir: &str| store::list(disk, &format!("{READY_DIR}/{dir}"));
    // A call that was killed may have left names to the kernel's cache alone. Where to go on must
    // not rest on what a power cut can still undo.
    for dir in [JOURNAL_DIR, SNAPSHOT_DIR] {
        sync_if_there(disk, &format!("{READY_DIR}/{dir}"))?;
    }
    for dir in [READY_DIR, ""] {
        sync(disk, dir)?;
    }
    let floor = match disk.open_read(&format!("{READY_DIR}/{FLOOR_FILE}")) {
        Ok(_) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(source) => return Err(io_error("open", FLOOR_FILE, source)),
    };
    let number = staged(JOURNAL_DIR)?.iter().find_map(|name| Some(parse_segment_name(name)?.0));
    let mut aside = String::new();
    if let Some(number) = number.filter(|_| floor) {
        aside = aside_dir(number);
        set_aside(disk, &aside)?;
        for dir in [JOURNAL_DIR, SNAPSHOT_DIR] {
            disk.create_dir(dir).map_err(|source| io_error("create", dir, source))?;
        }
        sync(disk, "")?;
        move_files(disk, READY_DIR, "", &[("", vec![FLOOR_FILE.to_owned()])])?;
    }
    let mut moves = Vec::new();
    for dir in [JOURNAL_DIR, SNAPSHOT_DIR] {
        moves.push((dir, staged(dir)?));
    }
    moves.push(("", vec![STORE_FILE.to_owned()]));
    move_files(disk, READY_DIR, "", &moves)?;
    for dir in [JOURNAL_DIR, SNAPSHOT_DIR].map(|dir| format!("{READY_DIR}/{dir}")) {
        remove_dir_if_there(disk, &dir)?;
    }
    remove_dir_if_there(disk, READY_DIR)?;
    sync(disk, "")?;
    Ok(aside)
}

/// Every file of the old store goes to `aside`; what is not midwatch's is left alone.
fn set_aside(disk: &impl Disk, aside: &str) -> Result<(), JournalError> {
    for dir in [QUARANTINE_DIR.to_owned(), aside.to_owned()]
        .into_iter()
        .chain([JOURNAL_DIR, SNAPSHOT_DIR].map(|dir| format!("{aside}/{dir}")))
    {
        disk.create_dir(&dir).map_err(|source| io_error("create", &dir, source))?;
    }
    for dir in ["", QUARANTINE_DIR, aside] {
        sync(disk, dir)?;
    }
    let mut moves = Vec::new();
    for dir in [JOURNAL_DIR, SNAPSHOT_DIR] {
        let mut names = store::list(disk, dir)?;
        names.retain(|name| is_ours(name));
        moves.push((dir, names));
    }
    moves.push(("", vec![FLOOR_FILE.to_owned(), STORE_FILE.to_owned()]));
    move_files(disk, "", aside, &moves)
}

fn is_ours(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    parse_segment_name(name).is_some() || parse_snapshot_name(name).is_some()
}

/// Moves files from below one directory to the same place below another; those that are not there
/// were moved before. Each new name is durable before the old one goes.
fn move_files(
    disk: &impl Disk,
    from: &str,
    to: &str,
    moves: &[(&str, Vec<String>)],
) -> Result<(), JournalError> {
    let join = |parts: [&str; 3]| {
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("/")
    };
    let each = || moves.iter().flat_map(|(dir, names)| names.iter().map(move |name| (*dir, name)));
    for (dir, name) in each() {
        give_name(disk, &join([from, dir, name]), &join([to, dir, name]))?;
    }
    for (dir, _) in moves {
        sync(disk, &join([to, dir, ""]))?;
    }
    for (dir, name) in each() {
        remove_if_there(disk, &join([from, dir, name]))?;
    }
    for (dir, _) in moves {
        sync_if_there(disk, &join([from, dir, ""]))?;
    }
    Ok(())
}

/// A directory that there never was, or that an earlier call has removed, needs no sync.
fn sync_if_there(disk: &impl Disk, dir: &str) -> Result<(), JournalError> {
    match disk.sync_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|source| JournalError::sync(dir, source)),
    }
}

fn give_name(disk: &impl Disk, from: &str, to: &str) -> Result<(), JournalError> {
    match disk.link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => match disk.rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|source| io_error("move", from, source)),
        },
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) =>
        {
            Ok(()) // an earlier call has been here
        }
        result => result.map_err(|source| io_error("move", from, source)),
    }
}

fn sync(disk: &impl Disk, dir: &str) -> Result<(), JournalError> {
    disk.sync_dir(dir).map_err(|source| JournalError::sync(dir, source))
}

fn io_error(doing: &'static str, file: &str, source: io::Error) -> JournalError {
    JournalError::io(doing, file, source)
}
