//! What the operator must act on, worded in one place.

use super::segment;
use std::fmt;
use std::io;

/// The exit code for damaged data.
pub const DAMAGED: u8 = 6;

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
    /// Another machine wrote the store last, and nobody said that it is to be taken over.
    Elsewhere,
    /// The file being written no longer has its name.
    Vanished {
        /// The file.
        file: String,
    },
    /// A snapshot that was just written does not read back as written.
    SnapshotUnreadable {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
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
            Self::Vanished { .. } => "MW-J014",
            Self::Elsewhere => "MW-J015",
        }
    }

    /// The exit code: 6 damage, 7 no space or not permitted, 1 any other.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Damage(_)
            | Self::Suspicious(_)
            | Self::Missing { .. }
            | Self::Foreign { .. }
            | Self::Vanished { .. }
            | Self::Refused { .. } => DAMAGED,
            Self::NoSpace { .. }
            | Self::InUse { .. }
            | Self::Newer { .. }
            | Self::RefusedStore { .. }
            | Self::Elsewhere => 7,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => 7,
                _ => 1,
            },
            Self::Sync { .. } | Self::Poisoned | Self::SnapshotUnreadable { .. } => 1,
        }
    }

    /// What happened, in one line, without its cause.
    pub fn headline(&self) -> String {
        match self {
            Self::Io { doing, file, .. } => format!("cannot {doing} {file}"),
            Self::InUse { pid: Some(pid) } => format!("the data directory is in use by pid {pid}"),
            Self::InUse { pid: None } => {
                "the data directory is in use by another process".to_owned()
            }
            Self::Damage(damage) => format!("damaged journal: {}", damage.place()),
            Self::Missing { shown_by, what, first_seq, last_seq } => {
                let last = last_seq.map(|last| format!(" to {last}")).unwrap_or_default();
                format!(
                    "damaged journal: {what}, as {shown_by} shows; missing from sequence \
                     {first_seq}{last}"
                )
            }
            Self::Foreign { file } => {
                format!("damaged journal: {file} belongs to another store")
            }
            Self::Newer { file, version, needs } => format!(
                "{file} has format {version}; it needs a midwatch that reads format {needs}, and \
                 this one reads format {}",
                segment::FORMAT_VERSION
            ),
            Self::Suspicious(damage) => {
                format!("suspicious end of the journal: {}", damage.place())
            }
            Self::NoSpace { doing, file, .. } => format!("no space left to {doing} {file}"),
            Self::Sync { file, .. } => {
                format!("the sync of {file} failed; what it covered may or may not be durable")
            }
            Self::Poisoned => "the journal stopped after an earlier failure".to_owned(),
            Self::Refused { file, offset, seq, .. } => {
                format!("damaged journal: {file}, byte {offset} (sequence {seq})")
            }
            Self::RefusedStore { text } => text.clone(),
            Self::Elsewhere => "the data directory was last written on another machine".to_owned(),
            Self::Vanished { file } => {
                format!("{file} is no longer where it was, though it is being written")
            }
            Self::SnapshotUnreadable { file, what } => {
                format!("the snapshot {file} does not read back as written: {what}")
            }
        }
    }

    /// The rest, a line each: how much is whole around it, and what to do next. `dir` stands behind
    /// the name of each command: a space and the data directory, or nothing where the default
    /// serves.
    pub fn advice(&self, dir: &str) -> Vec<String> {
        let inspect = format!("To look: midwatch-journal inspect{dir}");
        let mut lines = match self {
            Self::Damage(damage) | Self::Suspicious(damage) => {
                let Damage { file, offset, seq: _, what, before, after, bytes: _ } = &**damage;
                vec![
                    format!("{what}; {before} good records before it, {after} after it"),
                    format!("{inspect} --at {}", segment::place(file, *offset)),
                ]
            }
            Self::Refused { seq, text, .. } => vec![
                text.clone(),
                "every checksum holds: the record was written so, or by another version".to_owned(),
                format!("{inspect} --at {seq}"),
            ],
            Self::Missing { .. } | Self::Foreign { .. } => vec![
                inspect,
                "Put the files back from where they went, or from a backup".to_owned(),
            ],
            Self::Newer { needs, .. } => {
                vec![format!("install a midwatch that reads format {needs}; nothing was changed")]
            }
            Self::NoSpace { .. } => vec![
                "free space on the file system of the data directory; nothing acknowledged is lost"
                    .to_owned(),
            ],
            Self::Sync { .. } => vec![
                "restart: the journal is read again from the disk; look at the kernel's log for \
                 the device's error"
                    .to_owned(),
            ],
            Self::Elsewhere => vec![
                "nothing was changed; if it was moved here for good and nothing uses it there any \
                 more, start once with `--adopt`"
                    .to_owned(),
            ],
            Self::Vanished { .. } => vec![
                "the directory was removed, moved, or covered by another one; put it back before \
                 you start again, or a new and empty one is made"
                    .to_owned(),
            ],
            Self::InUse { .. } => {
                vec!["stop the other process, or name another data directory".to_owned()]
            }
            Self::Io { .. }
            | Self::Poisoned
            | Self::RefusedStore { .. }
            | Self::SnapshotUnreadable { .. } => Vec::new(),
        };
        if self.exit_code() == DAMAGED {
            lines.push("Nothing was changed".to_owned());
        }
        lines
    }
}

impl Damage {
    fn place(&self) -> String {
        format!("{}, byte {} (sequence {})", self.file, self.offset, self.seq)
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        self.advice("").iter().try_for_each(|line| write!(f, "\n  {line}"))
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
