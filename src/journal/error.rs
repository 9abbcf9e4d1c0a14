//! What the operator must act on, worded in one place.

use std::fmt;
use std::io;

/// Why the journal refuses.
#[derive(Debug)]
pub enum JournalError {
    /// The machine said no.
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file, relative to the data directory.
        file: String,
        /// What the machine said.
        source: io::Error,
    },
    /// Another process holds the data directory.
    InUse {
        /// The pid it left in the lock file.
        pid: Option<u32>,
    },
    /// Something that was durable is not what it was.
    Damage(Box<Damage>),
    /// Files that must exist don't.
    Missing {
        /// What shows that they must.
        shown_by: String,
        /// What is missing.
        what: String,
        /// First sequence that is missing.
        first_seq: u64,
        /// Last sequence that is known to be missing, where that is known.
        last_seq: Option<u64>,
    },
    /// A file of another store lies in this one.
    Foreign {
        /// The file.
        file: String,
    },
    /// A newer midwatch wrote the store.
    Newer {
        /// The file that says so.
        file: String,
        /// Its format.
        version: u16,
        /// The oldest reader that will do.
        needs: u16,
    },
    /// The last frame is whole but wrong, and the configuration says to stop.
    Suspicious(Box<Damage>),
    /// No space, and the reserve did not help.
    NoSpace {
        /// What needed space.
        doing: &'static str,
        /// For which file.
        file: String,
        /// What the machine said.
        source: io::Error,
    },
    /// A sync failed: what it covered may or may not be durable.
    Sync {
        /// The file.
        file: String,
        /// What the machine said.
        source: io::Error,
    },
    /// An earlier failure ended this writer.
    Poisoned,
    /// A record is whole, but its reader refuses it.
    Refused {
        /// The file.
        file: String,
        /// Where the record begins.
        offset: u64,
        /// Its sequence (in a snapshot its number, from 0).
        seq: u64,
        /// What the reader says.
        text: String,
    },
    /// The reader refuses the store before a record was read.
    RefusedStore {
        /// What the reader says.
        text: String,
    },
    /// A snapshot that was just written does not read back as written.
    SnapshotUnreadable {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// A repair can't make a store of what is left.
    Unrepairable {
        /// Why not.
        what: String,
    },
    /// A repair was cut short after it had made its result ready.
    RepairInterrupted,
    /// A repair needs more room than there is, and has not begun.
    RepairNeedsSpace {
        /// Bytes it writes at most.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
}

/// Where a damage is and how much is whole around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, relative to the data directory.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// The sequence that is due there.
    pub seq: u64,
    /// What is wrong, in words.
    pub what: String,
    /// Whole records before it.
    pub before: u64,
    /// Whole records after it.
    pub after: u64,
    /// Bytes after it that are not zero, up to the last of them, in the same file.
    pub bytes: u64,
}

impl JournalError {
    pub(super) fn io(doing: &'static str, file: &str, source: io::Error) -> Self {
        let file = file.to_owned();
        if super::disk::is_full(&source) {
            Self::NoSpace { doing, file, source }
        } else {
            Self::Io { doing, file, source }
        }
    }

    /// A failed sync is final whatever its errno: also one for want of space is never repeated.
    pub(super) fn sync(file: &str, source: io::Error) -> Self {
        Self::Sync { file: file.to_owned(), source }
    }

    pub(super) fn damage(damage: Damage) -> Self {
        Self::Damage(Box::new(damage))
    }

    /// Whether more space would have helped.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }

    /// The stable code; `spec/errors.md` has a heading for each.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "MW-J001",
            Self::InUse { .. } => "MW-J002",
            Self::Damage(_) => "MW-J003",
            Self::Missing { .. } => "MW-J004",
            Self::Foreign { .. } => "MW-J005",
            Self::Newer { .. } => "MW-J006",
            Self::Suspicious(_) => "MW-J007",
            Self::NoSpace { .. } => "MW-J008",
            Self::Sync { .. } => "MW-J009",
            Self::Poisoned => "MW-J010",
            Self::Refused { .. } => "MW-J011",
            Self::RefusedStore { .. } => "MW-J012",
            Self::SnapshotUnreadable { .. } => "MW-J013",
            Self::Unrepairable { .. } => "MW-J014",
            Self::RepairInterrupted => "MW-J015",
            Self::RepairNeedsSpace { .. } => "MW-J016",
        }
    }

    /// The exit code: 6 damage, 7 no space or not permitted, 1 any other.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Damage(_)
            | Self::Suspicious(_)
            | Self::Missing { .. }
            | Self::Foreign { .. }
            | Self::Refused { .. }
            | Self::Unrepairable { .. }
            | Self::RepairInterrupted => 6,
            Self::NoSpace { .. }
            | Self::InUse { .. }
            | Self::Newer { .. }
            | Self::RefusedStore { .. }
            | Self::RepairNeedsSpace { .. } => 7,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => 7,
                _ => 1,
            },
            Self::Sync { .. } | Self::Poisoned | Self::SnapshotUnreadable { .. } => 1,
        }
    }

    fn help(&self) -> Option<String> {
        let text = match self {
            Self::Damage(damage) | Self::Suspicious(damage) => format!(
                "nothing was changed; `midwatch-journal inspect --at {}` prints what is there, \
                 `midwatch-journal repair --dry-run` what a repair would keep",
                damage.place()
            ),
            Self::Missing { .. } | Self::Foreign { .. } => {
                "nothing was changed; put the files back from where they went, or from a backup; \
                 `midwatch-journal repair --dry-run` says what a repair would keep without them"
                    .to_owned()
            }
            Self::Refused { seq, .. } => {
                format!(
                    "`midwatch-journal dump --from {seq} --to {seq}` prints the record, \
                     `midwatch-journal repair --dry-run` says what a repair would keep"
                )
            }
            Self::Unrepairable { .. } => {
                "nothing was changed; keep the directory as it is, and put the files back from a \
                 backup"
                    .to_owned()
            }
            Self::RepairInterrupted => {
                "run `midwatch-journal repair` again: it goes on where it stopped".to_owned()
            }
            Self::RepairNeedsSpace { .. } => {
                "nothing was changed; free space on the file system of the data directory; the file \
                 `reserve` in it may be removed, the daemon makes it again"
                    .to_owned()
            }
            Self::Newer { needs, .. } => {
                format!("install a midwatch that reads format {needs}; nothing was changed")
            }
            Self::NoSpace { .. } => {
                "free space on the file system of the data directory; nothing acknowledged is lost"
                    .to_owned()
            }
            Self::Sync { .. } => {
                "restart: the journal is read again from the disk; look at the kernel's log for \
                 the device's error"
                    .to_owned()
            }
            Self::InUse { .. } => {
                "stop the other process, or name another data directory".to_owned()
            }
            Self::Io { .. }
            | Self::Poisoned
            | Self::RefusedStore { .. }
            | Self::SnapshotUnreadable { .. } => return None,
        };
        Some(text)
    }
}

impl Damage {
    /// Where to look, as `midwatch-journal inspect --at` takes it: segment and byte.
    fn place(&self) -> String {
        match super::segment::parse_segment_name(self.file.rsplit('/').next().unwrap_or_default()) {
            Some((number, _)) => format!("{number}:{}", self.offset),
            None => self.seq.to_string(),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: at byte {}, where sequence {} is due, {}; {} whole records before it, {} after it",
            self.file, self.offset, self.seq, self.what, self.before, self.after
        )
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, file, .. } => write!(f, "cannot {doing} {file}")?,
            Self::InUse { pid: Some(pid) } => {
                write!(f, "the data directory is in use by pid {pid}")?;
            }
            Self::InUse { pid: None } => {
                write!(f, "the data directory is in use by another process")?;
            }
            Self::Damage(damage) => write!(f, "{damage}")?,
            Self::Missing { shown_by, what, first_seq, last_seq } => {
                write!(f, "{what}, as {shown_by} shows; missing from sequence {first_seq}")?;
                if let Some(last) = last_seq {
                    write!(f, " to {last}")?;
                }
            }
            Self::Foreign { file } => write!(f, "{file} belongs to another store")?,
            Self::Newer { file, version, needs } => write!(
                f,
                "{file} has format {version}; it needs a midwatch that reads format {needs}, and \
                 this one reads format {}",
                super::segment::FORMAT_VERSION
            )?,
            Self::Suspicious(damage) => write!(f, "suspicious end of the journal: {damage}")?,
            Self::NoSpace { doing, file, .. } => write!(f, "no space left to {doing} {file}")?,
            Self::Sync { file, .. } => {
                write!(f, "the sync of {file} failed; what it covered may or may not be durable")?;
            }
            Self::Poisoned => write!(f, "the journal stopped after an earlier failure")?,
            Self::Refused { file, offset, seq, text } => {
                write!(f, "{file}: the record at byte {offset}, sequence {seq}: {text}")?;
            }
            Self::RefusedStore { text } => write!(f, "{text}")?,
            Self::SnapshotUnreadable { file, what } => {
                write!(f, "the snapshot {file} does not read back as written: {what}")?;
            }
            Self::Unrepairable { what } => write!(f, "this store can't be repaired: {what}")?,
            Self::RepairInterrupted => write!(f, "a repair of this store was interrupted")?,
            Self::RepairNeedsSpace { needed, free } => {
                write!(f, "the repair needs {needed} bytes of free space, and {free} are free")?;
            }
        }
        match self.help() {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for JournalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::NoSpace { source, .. } | Self::Sync { source, .. } => {
                Some(source)
            }
            _ => None,
        }
    }
}
