//! The header page of a segment or snapshot, and the grammar of their file names.
//!
//! The page is written once, before the file gets its name, and never again. Its first sector
//! holds everything, under one checksum, so that it can't be torn; the rest of the page is zero and
//! not read. A segment's header names the end of the segment before it: what lies behind that end
//! is dead, whatever it looks like.

use super::frame::{ALIGNMENT_MAX, SECTOR_BYTES, array_at, u32_at, u64_at};
use std::fmt;

/// Length of a header page; the first frame starts behind it.
pub const HEADER_BYTES: u64 = 4096;
/// The format this build writes.
pub const FORMAT_VERSION: u16 = 1;
/// Largest segment size that can be configured.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Smallest segment size that can be configured: the header and one small frame.
pub const SEGMENT_BYTES_MIN: u64 = 8 << 10;

/// Header flag: the sequence skipped ahead before the first frame that is not a copy.
pub const FLAG_SKIPPED_AHEAD: u32 = 1;
/// Header flag: answers may precede the sync (an fsync policy weaker than `always`).
pub const FLAG_WEAK: u32 = 2;

/// High bit and line ends: a transfer in text mode damages these eight bytes visibly.
const SEGMENT_MAGIC: [u8; 8] = *b"\x89MWJ\r\n\x1a\n";
const SNAPSHOT_MAGIC: [u8; 8] = *b"\x89MWS\r\n\x1a\n";
/// Where the checksum of the first sector stands, in this and every later format.
const CRC_AT: usize = SECTOR_BYTES - 4;

/// Which kind of file a header page opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A segment of the journal.
    Segment,
    /// A snapshot.
    Snapshot,
}

impl FileKind {
    fn magic(self) -> [u8; 8] {
        match self {
            Self::Segment => SEGMENT_MAGIC,
            Self::Snapshot => SNAPSHOT_MAGIC,
        }
    }
}

/// The end of the segment before this one, as its successor states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Number of the segment before; 0 when there is none.
    pub number: u64,
    /// Byte offset of its logical end.
    pub end: u64,
    /// The sequence after the last record before that end.
    pub next_seq: u64,
    /// Header checksum of the last frame before that end; 0 when there is none.
    pub checksum: u32,
}

/// What a header page says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Alignment of frames in the file.
    pub alignment: u32,
    /// The store the file belongs to.
    pub store: [u8; 16],
    /// Number of the segment, from 1; 0 in a snapshot.
    pub number: u64,
    /// Sequence of the first record; in a snapshot the sequence it stands at.
    pub first_seq: u64,
    /// Starts every checksum of a frame or record in the file.
    pub salt: u64,
    /// The machine that wrote the file.
    pub machine_id: [u8; 16],
    /// The boot in which it was written.
    pub boot_id: [u8; 16],
    /// The end of the segment before.
    pub previous: Link,
    /// [`FLAG_SKIPPED_AHEAD`], [`FLAG_WEAK`].
    pub flags: u32,
    /// Frames before this offset are copies made by recovery, durable since the file has its name.
    pub copied_end: u64,
    /// Sequence of the first record that is not such a copy.
    pub resume_seq: u64,
}

/// What is wrong with a header page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// The file is shorter than a header.
    Cut,
    /// The header's bytes are all zero.
    Zero,
    /// The magic bytes are those of another kind of file.
    Magic,
    /// The magic bytes were changed by a transfer in text mode.
    TextMode,
    /// The checksum fails.
    Checksum {
        /// The checksum on disk.
        stored: u32,
        /// The checksum of the bytes on disk.
        computed: u32,
    },
    /// A newer midwatch wrote the file.
    Newer {
        /// The format of the file.
        version: u16,
        /// The oldest format a reader must know.
        needs: u16,
    },
    /// The checksum holds but a field is out of bounds.
    Bounds,
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Cut => write!(f, "the file is shorter than its header"),
            Self::Zero => write!(f, "the header is all zeros"),
            Self::Magic => write!(f, "the file does not begin as one of midwatch's does"),
            Self::TextMode => write!(f, "the file was damaged by a transfer in text mode"),
            Self::Checksum { stored, computed } => write!(
                f,
                "the header fails its checksum (stored {stored:08x}, computed {computed:08x})"
            ),
            Self::Newer { version, needs } => {
                write!(f, "the file has format {version} and needs a reader of format {needs}")
            }
            Self::Bounds => write!(f, "a field of the header is out of bounds"),
        }
    }
}

impl Header {
    /// The whole page.
    pub(super) fn encode(&self, kind: FileKind) -> Vec<u8> {
        let mut page = Vec::with_capacity(4096);
        page.extend_from_slice(&kind.magic());
        page.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        page.extend_from_slice(&FORMAT_VERSION.to_le_bytes()); // the oldest reader that will do
        page.extend_from_slice(&self.alignment.to_le_bytes());
        page.extend_from_slice(&self.store);
        page.extend_from_slice(&self.number.to_le_bytes());
        page.extend_from_slice(&self.first_seq.to_le_bytes());
        page.extend_from_slice(&self.salt.to_le_bytes());
        page.extend_from_slice(&self.machine_id);
        page.extend_from_slice(&self.boot_id);
        page.extend_from_slice(&self.previous.number.to_le_bytes());
        page.extend_from_slice(&self.previous.end.to_le_bytes());
        page.extend_from_slice(&self.previous.next_seq.to_le_bytes());
        page.extend_from_slice(&self.previous.checksum.to_le_bytes());
        page.extend_from_slice(&self.flags.to_le_bytes());
        page.extend_from_slice(&self.copied_end.to_le_bytes());
        page.extend_from_slice(&self.resume_seq.to_le_bytes());
        seal_sector(&mut page);
        page.resize(4096, 0);
        page
    }

    /// Reads the first sector of a page.
    pub(super) fn decode(bytes: &[u8], kind: FileKind) -> Result<Self, HeaderFault> {
        let sector = open_sector(bytes, kind.magic())?;
        let u64_of = |at| u64_at(sector, at).unwrap_or_default();
        let u32_of = |at| u32_at(sector, at).unwrap_or_default();
        let id_of = |at| array_at(sector, at).unwrap_or_default();
        let header = Self {
            alignment: u32_of(12),
            store: id_of(16),
            number: u64_of(32),
            first_seq: u64_of(40),
            salt: u64_of(48),
            machine_id: id_of(56),
            boot_id: id_of(72),
            previous: Link {
                number: u64_of(88),
                end: u64_of(96),
                next_seq: u64_of(104),
                checksum: u32_of(112),
            },
            flags: u32_of(116),
            copied_end: u64_of(120),
            resume_seq: u64_of(128),
        };
        header.check(kind)
    }

    fn check(self, kind: FileKind) -> Result<Self, HeaderFault> {
        let aligned = valid_alignment(self.alignment);
        let right = match kind {
            FileKind::Snapshot => self.number == 0,
            FileKind::Segment => {
                self.number != 0
                    && self.previous.number < self.number
                    && self.first_seq <= self.resume_seq
                    && HEADER_BYTES <= self.copied_end
                    && self.copied_end.is_multiple_of(u64::from(self.alignment.max(1)))
            }
        };
        if aligned && right { Ok(self) } else { Err(HeaderFault::Bounds) }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// Alignments a header may state: powers of two from a sector to a page.
pub(super) fn valid_alignment(alignment: u32) -> bool {
    alignment.is_power_of_two() && (512..=ALIGNMENT_MAX).contains(&alignment)
}

/// Fills `bytes` up to one sector and puts its checksum at its end.
pub(super) fn seal_sector(bytes: &mut Vec<u8>) {
    bytes.resize(CRC_AT, 0);
    let crc = crc32fast::hash(bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
}

/// The first sector of a file, if its magic, checksum and format are ours.
pub(super) fn open_sector(bytes: &[u8], magic: [u8; 8]) -> Result<&[u8], HeaderFault> {
    let Some(sector) = bytes.get(..SECTOR_BYTES) else { return Err(HeaderFault::Cut) };
    if sector.iter().all(|&byte| byte == 0) {
        return Err(HeaderFault::Zero);
    }
    let (content, stored) = sector.split_at(CRC_AT);
    let stored = u32_at(stored, 0).unwrap_or_default();
    let computed = crc32fast::hash(content);
    if !sector.starts_with(&magic) {
        let text = sector.starts_with(magic.first_chunk::<4>().unwrap_or(&[0; 4]));
        return Err(if text { HeaderFault::TextMode } else { HeaderFault::Magic });
    }
    if stored != computed {
        return Err(HeaderFault::Checksum { stored, computed });
    }
    let version = array_at(sector, 8).map(u16::from_le_bytes).unwrap_or_default();
    let needs = array_at(sector, 10).map(u16::from_le_bytes).unwrap_or_default();
    if FORMAT_VERSION < needs {
        return Err(HeaderFault::Newer { version, needs });
    }
    Ok(sector)
}

/// Path of a segment: `journal/<number, 10 digits>-<first sequence, 20 digits>.journal`.
pub fn segment_path(number: u64, first_seq: u64) -> String {
    format!("journal/{number:010}-{first_seq:020}.journal")
}

/// Number and first sequence in the name (without directory) of a segment.
pub fn parse_segment_name(name: &str) -> Option<(u64, u64)> {
    let (number, seq) = name.strip_suffix(".journal")?.split_once('-')?;
    Some((digits(number, 10)?, digits(seq, 20)?))
}

/// A byte of a file as `midwatch-journal inspect --at` takes it: `SEGMENT:BYTE`.
pub fn place(file: &str, offset: u64) -> String {
    match parse_segment_name(file.rsplit('/').next().unwrap_or(file)) {
        Some((number, _)) => format!("{number}:{offset}"),
        None => format!("{offset}"),
    }
}

/// Path of a snapshot: `snapshots/<sequence, 20 digits>.snapshot`.
pub fn snapshot_path(seq: u64) -> String {
    format!("snapshots/{seq:020}.snapshot")
}

/// The sequence in the name (without directory) of a snapshot.
pub fn parse_snapshot_name(name: &str) -> Option<u64> {
    digits(name.strip_suffix(".snapshot")?, 20)
}

fn digits(text: &str, count: usize) -> Option<u64> {
    let plain = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
