//! Frames: how records become bytes and bytes become records again.
//!
//! A frame is one batch: a header with a checksum of its own, the records, one end mark, and zeros
//! up to the alignment. No length is believed before the header's checksum holds, and no frame can
//! be half of one batch and half of another, for one checksum covers all records.
//!
//! Each checksum starts from the salt of its file, so that a frame inside a payload, or bytes of
//! another file, never pass for a frame; the header's also covers the offset, so that a frame at
//! the wrong place does not pass either. The checksum of a record stands *before* the record: after
//! it, the checksum over all records would be the same whatever they hold (a property of CRCs).
//!
//! This module reads and writes memory only. It never panics on what it reads.

#![warn(clippy::arithmetic_side_effects, clippy::wildcard_enum_match_arm)]

#[cfg(feature = "sim")]
pub mod alone;

use crate::defect::Defect;
use std::fmt;

/// The unit in which a disk writes: a crash leaves each sector old, new or zero.
pub const SECTOR_BYTES: usize = 512;
/// Length of a frame header.
pub const FRAME_HEADER_BYTES: usize = 32;
/// Length of a record header.
pub const RECORD_HEADER_BYTES: usize = 12;
/// Largest frame, padding included; bounds what a reader ever allocates.
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// Largest sum of records in one frame: header and end mark must fit beside them.
pub const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - FRAME_HEADER_BYTES - 1;
/// Largest body of one record.
pub const RECORD_BODY_BYTES_MAX: usize = BODY_BYTES_MAX - RECORD_HEADER_BYTES;
/// Records of one batch, unless it is a single bigger record. Bounds the latency of a commit.
pub const BATCH_BYTES_MAX: usize = 256 << 10;
/// Largest alignment of frames in a file.
pub const ALIGNMENT_MAX: u32 = 4096;

const _: () = assert!(BATCH_BYTES_MAX < BODY_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX.is_multiple_of(ALIGNMENT_MAX as usize));

const FRAME_MAGIC: [u8; 4] = [0xF7, b'M', b'W', b'F'];
/// Follows the last record: the last sector of a frame is never all zero, and a frame without its
/// mark was not written to its end.
const END_MARK: u8 = 0xFF;

/// Frame flag: everything before this frame was synced before the frame was written.
pub const FLAG_SYNCED: u16 = 1;
/// Frame flag: the sequence skipped ahead right before this frame.
pub const FLAG_SKIPPED: u16 = 2;
/// Frame flag: nothing follows; the last frame of a snapshot, without records.
pub const FLAG_LAST: u16 = 4;

/// Record flag: a reader that does not know the kind may go on without it.
const RECORD_IGNORABLE: u16 = 1;

/// One record as the journal sees it: a kind, a promise, and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What the body is; numbers belong to the engine and are never reused.
    pub kind: u16,
    /// Whether a reader that does not know the kind may skip it.
    pub ignorable: bool,
    /// The body.
    pub body: &'a [u8],
}

/// The records of one frame, in a buffer that is used again.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Records with their headers; the checksums are filled in once salt and sequence are known.
    bytes: Vec<u8>,
    count: u32,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record. The caller asked [`Batch::fits`] or [`Batch::fits_step`] first.
    pub fn push(&mut self, kind: u16, ignorable: bool, body: &[u8]) {
        assert!(body.len() <= RECORD_BODY_BYTES_MAX, "a record fits a frame");
        let total = self.bytes.len().saturating_add(body.len()).saturating_add(RECORD_HEADER_BYTES);
        assert!(total <= BODY_BYTES_MAX, "the batch has room for the record");
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let flags = if ignorable { RECORD_IGNORABLE } else { 0 };
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(&flags.to_le_bytes());
        self.bytes.extend_from_slice(body);
        self.count = self.count.saturating_add(1);
    }

    /// Becomes the records of a frame that was read and checked; its checksums are made anew when
    /// it is written.
    pub(super) fn refill(&mut self, head: FrameHead, body: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(body);
        self.count = head.count;
    }

    /// Records in the batch.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the records, headers included.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the records, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Whether a record with a body of this length may still be added: all records together stay
    /// within [`BATCH_BYTES_MAX`], or the record is the only one.
    pub fn fits(&self, body_len: usize) -> bool {
        self.fits_step(body_len, 1)
    }

    /// Whether the records of one logical step, which must not be split over two frames, may still
    /// be added: as with one record, a step may be larger when it is alone.
    pub fn fits_step(&self, body_bytes: usize, records: usize) -> bool {
        let more = body_bytes.saturating_add(records.saturating_mul(RECORD_HEADER_BYTES));
        if self.is_empty() {
            return more <= BODY_BYTES_MAX;
        }
        self.bytes.len().saturating_add(more) <= BATCH_BYTES_MAX
    }
}

/// The salt of one file, ready to start checksums from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Salt(u32);

impl Salt {
    pub(super) fn new(salt: u64) -> Self {
        Self(crc32fast::hash(&salt.to_le_bytes()))
    }

    fn checksum(self, parts: &[&[u8]]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.0);
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }
}

/// Where a frame goes and what its header says besides its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) salt: Salt,
    pub(super) offset: u64,
    pub(super) first_seq: u64,
    pub(super) flags: u16,
    pub(super) alignment: u32,
}

/// Length of the frame of records with `body` bytes in all, padding included.
pub(super) fn padded(body: usize, alignment: u32) -> usize {
    let bytes = FRAME_HEADER_BYTES.saturating_add(body).saturating_add(1);
    bytes.checked_next_multiple_of(alignment as usize).unwrap_or(usize::MAX)
}

/// Appends the frame of `batch` to `out` and returns the checksum of its header.
pub(super) fn encode(batch: &Batch, slot: Slot, out: &mut Vec<u8>) -> u32 {
    assert!(batch.bytes.len() <= BODY_BYTES_MAX, "a frame has a bound");
    let start = out.len();
    let length = u32::try_from(batch.bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&FRAME_MAGIC);
    out.extend_from_slice(&slot.flags.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&slot.first_seq.to_le_bytes());
    out.extend_from_slice(&batch.count.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    let body_at = out.len();
    out.extend_from_slice(&batch.bytes);
    if let Some(body) = out.get_mut(body_at..) {
        seal_records(body, slot.salt, slot.first_seq);
    }
    let body_crc = slot.salt.checksum(&[out.get(body_at..).unwrap_or_default()]);
    put(out, start.saturating_add(24), body_crc);
    let head = out.get(start..start.saturating_add(28)).unwrap_or_default();
    let crc = slot.salt.checksum(&[&slot.offset.to_le_bytes(), head]);
    put(out, start.saturating_add(28), crc);
    out.push(END_MARK);
    out.resize(start.saturating_add(padded(batch.bytes.len(), slot.alignment)), 0);
    crc
}

/// Fills in the checksum of each record.
fn seal_records(mut body: &mut [u8], salt: Salt, first_seq: u64) {
    let mut seq = first_seq;
    while let Some(length) = u32_at(body, 4) {
        let end = RECORD_HEADER_BYTES.saturating_add(length as usize);
        let Some((record, rest)) = body.split_at_mut_checked(end) else { return };
        let crc = record_crc(record, salt, seq);
        put(record, 0, crc);
        seq = seq.saturating_add(1);
        body = rest;
    }
}

fn record_crc(record: &[u8], salt: Salt, seq: u64) -> u32 {
    salt.checksum(&[&seq.to_le_bytes(), record.get(4..).unwrap_or_default()])
}

/// A frame header whose checksum holds and whose numbers are within their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) flags: u16,
    pub(super) first_seq: u64,
    pub(super) count: u32,
    pub(super) body_len: usize,
    body_crc: u32,
    pub(super) crc: u32,
}

impl FrameHead {
    pub(super) fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The sequence after the frame's last record.
    pub(super) fn next_seq(self) -> u64 {
        self.first_seq.saturating_add(u64::from(self.count))
    }

    /// Header and records, without end mark and padding.
    pub(super) fn bytes(self) -> usize {
        self.body_len.saturating_add(FRAME_HEADER_BYTES)
    }
}

/// What is wrong with the bytes where a frame should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The file ends inside the header.
    HeaderCut,
    /// The bytes do not begin as a frame does.
    Magic,
    /// The header fails its checksum.
    HeaderChecksum {
        /// The checksum on disk.
        stored: u32,
        /// The checksum of the bytes on disk.
        computed: u32,
    },
    /// The header holds, but states a count or length that no writer makes.
    Bounds,
    /// The file ends inside the records.
    BodyCut,
    /// The records fail the frame's checksum.
    BodyChecksum {
        /// The checksum on disk.
        stored: u32,
        /// The checksum of the bytes on disk.
        computed: u32,
    },
    /// A record's header, length or checksum is wrong though the frame's checksum holds.
    Record {
        /// Which record of the frame, from 0.
        index: u32,
    },
    /// The frame is whole but carries another sequence than the one that is due.
    Sequence {
        /// The sequence in the frame.
        found: u64,
        /// The sequence that is due.
        due: u64,
    },
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HeaderCut => write!(f, "the file ends inside a frame header"),
            Self::Magic => write!(f, "no frame begins here"),
            Self::HeaderChecksum { stored, computed } => write!(
                f,
                "the frame header fails its checksum (stored {stored:08x}, computed {computed:08x})"
            ),
            Self::Bounds => write!(f, "the frame header states a count or length out of bounds"),
            Self::BodyCut => write!(f, "the file ends inside a frame"),
            Self::BodyChecksum { stored, computed } => write!(
                f,
                "the frame fails its checksum (stored {stored:08x}, computed {computed:08x})"
            ),
            Self::Record { index } => write!(f, "record {index} of the frame fails its checks"),
            Self::Sequence { found, due } => {
                write!(f, "the frame carries sequence {found}, but {due} is due")
            }
        }
    }
}

/// Reads the header of the frame at `offset`. Only what this returns may be believed.
pub(super) fn decode_head(bytes: &[u8], salt: Salt, offset: u64) -> Result<FrameHead, FrameFault> {
    let Some(head) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
        return Err(FrameFault::HeaderCut);
    };
    if !head.starts_with(&FRAME_MAGIC) {
        return Err(FrameFault::Magic);
    }
    let field = |at| u32_at(head, at).unwrap_or_default();
    let stored = field(28);
    let computed = salt.checksum(&[&offset.to_le_bytes(), head.get(..28).unwrap_or_default()]);
    if stored != computed && !Defect::TrustLength.is_on() {
        return Err(FrameFault::HeaderChecksum { stored, computed });
    }
    let flags = u16_at(head, 4).unwrap_or_default();
    let first_seq = u64_at(head, 8).unwrap_or_default();
    let (count, body_len, body_crc) = (field(16), field(20) as usize, field(24));
    let decoded = FrameHead { flags, first_seq, count, body_len, body_crc, crc: stored };
    let least = (count as usize).checked_mul(RECORD_HEADER_BYTES);
    let fits = least.is_some_and(|least| least <= body_len) && body_len <= BODY_BYTES_MAX;
    let last = decoded.has(FLAG_LAST);
    let counted = last == (count == 0) && (!last || body_len == 0);
    if !fits || !counted || first_seq.checked_add(u64::from(count)).is_none() {
        return Err(FrameFault::Bounds);
    }
    Ok(decoded)
}

/// Checks a whole frame, whose header is `head`, and returns its records' bytes.
pub(super) fn decode_body(head: FrameHead, bytes: &[u8], salt: Salt) -> Result<&[u8], FrameFault> {
    let body = bytes.get(FRAME_HEADER_BYTES..head.bytes()).ok_or(FrameFault::BodyCut)?;
    let computed = salt.checksum(&[body]);
    if head.body_crc != computed {
        return Err(FrameFault::BodyChecksum { stored: head.body_crc, computed });
    }
    let mut records = Records::new(head, body);
    let mut index = 0;
    while let Some((raw, _)) = records.next_raw() {
        let seq = head.first_seq.saturating_add(u64::from(index));
        if u32_at(raw, 0) != Some(record_crc(raw, salt, seq)) {
            return Err(FrameFault::Record { index });
        }
        index = index.saturating_add(1);
    }
    if index != head.count || !records.rest.is_empty() {
        return Err(FrameFault::Record { index });
    }
    Ok(body)
}

/// Whether the byte after the records is the end mark: the frame was written to its end.
pub(super) fn has_end_mark(head: FrameHead, bytes: &[u8]) -> bool {
    bytes.get(head.bytes()) == Some(&END_MARK)
}

/// The records of a checked frame, each with its sequence and its place in the frame.
pub(super) struct Records<'a> {
    rest: &'a [u8],
    seq: u64,
    at: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(head: FrameHead, body: &'a [u8]) -> Self {
        Self { rest: body, seq: head.first_seq, at: FRAME_HEADER_BYTES }
    }

    fn next_raw(&mut self) -> Option<(&'a [u8], usize)> {
        let length = u32_at(self.rest, 4)? as usize;
        let (raw, rest) = self.rest.split_at_checked(RECORD_HEADER_BYTES.checked_add(length)?)?;
        let at = self.at;
        self.rest = rest;
        self.at = at.saturating_add(raw.len());
        Some((raw, at))
    }
}

impl<'a> Iterator for Records<'a> {
    /// Sequence, offset from the start of the frame, record.
    type Item = (u64, u64, Record<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (raw, at) = self.next_raw()?;
        let seq = self.seq;
        self.seq = seq.saturating_add(1);
        let record = Record {
            kind: u16_at(raw, 8)?,
            ignorable: u16_at(raw, 10)? & RECORD_IGNORABLE != 0,
            body: raw.get(RECORD_HEADER_BYTES..)?,
        };
        Some((seq, at as u64, record))
    }
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *field = value.to_le_bytes();
    }
}

pub(super) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
pub(super) mod tests;
