//! What goes wrong, at which call, and how often.

use rustix::io::Errno;

/// A kind of disk call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// `Disk::create`
    Create,
    /// `Disk::open_read`
    OpenRead,
    /// `Disk::open_write`
    OpenWrite,
    /// `Disk::rename`
    Rename,
    /// `Disk::link`
    Link,
    /// `Disk::remove`
    Remove,
    /// `Disk::create_dir`
    CreateDir,
    /// `Disk::remove_dir`
    RemoveDir,
    /// `Disk::list`
    List,
    /// `Disk::sync_dir`
    SyncDir,
    /// `Disk::free_space`
    FreeSpace,
    /// `DiskFile::len`
    Len,
    /// `DiskFile::read_at`
    Read,
    /// `DiskFile::write_at`
    Write,
    /// `DiskFile::sync`
    Sync,
    /// `DiskFile::allocate`
    Allocate,
}

impl Op {
    /// Every kind.
    pub const ALL: [Self; 16] = [
        Self::Create,
        Self::OpenRead,
        Self::OpenWrite,
        Self::Rename,
        Self::Link,
        Self::Remove,
        Self::CreateDir,
        Self::RemoveDir,
        Self::List,
        Self::SyncDir,
        Self::FreeSpace,
        Self::Len,
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::Allocate,
    ];

    /// Whether a call of this kind can change what survives a power cut.
    pub fn changes(self) -> bool {
        match self {
            Self::Create
            | Self::Rename
            | Self::Link
            | Self::Remove
            | Self::CreateDir
            | Self::RemoveDir
            | Self::SyncDir
            | Self::Write
            | Self::Sync
            | Self::Allocate => true,
            Self::OpenRead
            | Self::OpenWrite
            | Self::List
            | Self::FreeSpace
            | Self::Len
            | Self::Read => false,
        }
    }
}

/// What a failing call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing, and says so; a sync leaves the pages dirty.
    Error(Errno),
    /// A read or write of at most this many bytes, reported as done.
    Short(usize),
    /// A sync that fails with `EIO`, and what becomes of the pages.
    Sync(PageFate),
}

/// What a failed sync leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFate {
    /// Thrown away: readers see the old bytes.
    Dropped,
    /// Readable and called clean: gone at the next power cut, or perhaps not.
    CacheOnly,
    /// Still dirty: the next sync would write them.
    Kept,
    /// As `CacheOnly`, but this sync says it went well and the next one reports the error.
    Late,
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The n-th call only.
    Once,
    /// The n-th call and all after it.
    Forever,
}

/// What a disk becomes at some call, until it is healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Every change fails with `EROFS`.
    ReadOnly,
    /// No block is free any more.
    Full,
    /// Syncs say "done" and cover nothing.
    Lying,
}

/// One planned failure.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) op: Op,
    /// Only calls on paths that contain this.
    pub(super) path: String,
    /// Matching calls that still go well.
    pub(super) before: u64,
    pub(super) failure: Failure,
    pub(super) times: Times,
}

/// The failure planned for this call, if there is one; counts the call.
pub(super) fn due(plan: &mut Vec<Fault>, op: Op, path: &str) -> Option<Failure> {
    let mut found = None;
    plan.retain_mut(|fault| {
        if fault.op != op || !path.contains(&fault.path) {
            return true;
        }
        if 0 < fault.before {
            fault.before -= 1;
            return true;
        }
        if found.is_some() {
            return true;
        }
        found = Some(fault.failure);
        fault.times == Times::Forever
    });
    found
}
