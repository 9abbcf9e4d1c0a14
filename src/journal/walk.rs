//! One file read frame by frame: shared by recovery, the checker and the tool.
//!
//! Reads in large pieces. What it allocates is bounded by the length of the file and by
//! [`FRAME_BYTES_MAX`], never by a length that no checksum has vouched for.

use super::disk::{DiskFile, read_full_at};
use super::error::JournalError;
use super::frame::{
    FLAG_LAST, FLAG_SYNCED, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameFault, FrameHead,
    SECTOR_BYTES, Salt, decode_body, decode_head, has_end_mark, padded,
};
use super::segment::{
    FLAG_SKIPPED_AHEAD, FLAG_WEAK, FileKind, HEADER_BYTES, Header, HeaderFault, SEGMENT_BYTES_MAX,
};
use crate::defect::Defect;
use std::rc::Rc;

/// How much is read at once, but for the header, which is often all that is wanted.
const READ_BYTES: usize = 1 << 20;
/// No segment is longer: the last frame may reach over the configured size. A longer file is not
/// read through.
pub(super) const SEGMENT_FILE_BYTES_MAX: u64 = SEGMENT_BYTES_MAX + FRAME_BYTES_MAX as u64;

/// A piece of a file in memory.
pub(super) struct Window<F> {
    file: F,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<F: DiskFile> Window<F> {
    fn new(file: F) -> std::io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, len, start: 0, bytes: Vec::new() })
    }

    /// The bytes from `offset`, `want` of them unless the file ends before.
    fn get(&mut self, offset: u64, want: usize) -> std::io::Result<&[u8]> {
        let rest = self.len.saturating_sub(offset);
        let want = usize::try_from(rest).unwrap_or(usize::MAX).min(want);
        if !self.holds(offset, want) {
            let ahead = if offset == 0 { SECTOR_BYTES } else { READ_BYTES };
            let piece = usize::try_from(rest).unwrap_or(usize::MAX).min(want.max(ahead));
            self.start = offset;
            self.bytes.resize(piece, 0);
            let count = match read_full_at(&self.file, offset, &mut self.bytes) {
                Err(_) if Defect::EioAsEnd.is_on() => 0,
                result => result?,
            };
            self.bytes.truncate(count);
        }
        let from = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let have = self.bytes.get(from..).unwrap_or_default();
        Ok(have.get(..want).unwrap_or(have))
    }

    fn holds(&self, offset: u64, want: usize) -> bool {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        self.start <= offset && offset.saturating_add(want as u64) <= end
    }

    /// Forgets what was read and looks at the length again: somebody may have written meanwhile.
    fn refresh(&mut self) -> std::io::Result<()> {
        self.bytes.clear();
        self.len = self.file.len()?;
        Ok(())
    }
}

/// A whole frame.
pub(super) struct Frame<'a> {
    pub(super) offset: u64,
    pub(super) head: FrameHead,
    pub(super) body: &'a [u8],
}

/// A segment or snapshot, and how far it has been read.
pub(super) struct Walk<F> {
    window: Window<F>,
    salt: Salt,
    pub(super) file: Rc<str>,
    pub(super) header: Header,
    kind: FileKind,
    /// Where the next frame is due.
    pub(super) offset: u64,
    /// The sequence it must carry.
    pub(super) next_seq: u64,
    /// Whole frames and their records so far.
    pub(super) frames: u64,
    pub(super) records: u64,
    pub(super) record_bytes: u64,
    /// Header checksum of the last whole frame.
    pub(super) checksum: u32,
    /// Everything before this offset was proven durable by what came after it.
    pub(super) proven: Proven,
    /// The frame that ends a snapshot was read.
    pub(super) ended: bool,
}

/// A point in a segment before which everything is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Proven {
    pub(super) offset: u64,
    pub(super) next_seq: u64,
    pub(super) checksum: u32,
}

impl<F: DiskFile> Walk<F> {
    /// Reads the header; the inner error is what is wrong with it.
    pub(super) fn open(
        file: F,
        name: &str,
        kind: FileKind,
    ) -> Result<Result<Self, HeaderFault>, JournalError> {
        let io = |source| JournalError::io("read", name, source);
        let mut window = Window::new(file).map_err(io)?;
        let header = match Header::decode(window.get(0, SECTOR_BYTES).map_err(io)?, kind) {
            Ok(header) => header,
            Err(fault) => return Ok(Err(fault)),
        };
        let first_seq = if kind == FileKind::Snapshot { 0 } else { header.first_seq };
        let proven = Proven { offset: HEADER_BYTES, next_seq: first_seq, checksum: 0 };
        Ok(Ok(Self {
            window,
            salt: Salt::new(header.salt),
            file: name.into(),
            header,
            kind,
            offset: HEADER_BYTES,
            next_seq: first_seq,
            frames: 0,
            records: 0,
            record_bytes: 0,
            checksum: 0,
            proven,
            ended: false,
        }))
    }

    /// Length of the file.
    pub(super) fn len(&self) -> u64 {
        self.window.len
    }

    fn io(&self, source: std::io::Error) -> JournalError {
        JournalError::io("read", &self.file, source)
    }

    /// Takes the next frame; the inner error says what is there instead, and nothing moves.
    pub(super) fn step(&mut self) -> Result<Result<Frame<'_>, FrameFault>, JournalError> {
        if let Err(fault) = self.arrive() {
            return Ok(Err(fault));
        }
        let offset = self.offset;
        let head = match self.check(offset)? {
            Ok(head) => head,
            Err(fault) => return Ok(Err(fault)),
        };
        if head.first_seq != self.next_seq {
            let fault = FrameFault::Sequence { found: head.first_seq, due: self.next_seq };
            return Ok(Err(fault));
        }
        if head.has(FLAG_SYNCED) {
            self.prove();
        }
        self.ended = head.has(FLAG_LAST);
        self.offset = offset.saturating_add(self.length(head));
        self.next_seq = head.next_seq();
        self.checksum = head.crc;
        self.frames += 1;
        self.records += u64::from(head.count);
        self.record_bytes += head.body_len as u64;
        let name = &self.file;
        let bytes = self.window.get(offset, head.bytes());
        let bytes = bytes.map_err(|source| JournalError::io("read", name, source))?;
        let body = bytes.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        Ok(Ok(Frame { offset, head, body }))
    }

    /// Goes on from a place that an earlier walk has reached.
    pub(super) fn go_to(&mut self, place: Proven) {
        self.offset = place.offset;
        self.next_seq = place.next_seq;
        self.checksum = place.checksum;
    }

    /// Where the copies end, what follows counts from where this segment's writer began.
    pub(super) fn arrive(&mut self) -> Result<(), FrameFault> {
        if self.kind == FileKind::Segment && self.offset == self.header.copied_end {
            let found = self.header.resume_seq;
            let skips = self.header.has(FLAG_SKIPPED_AHEAD);
            if found < self.next_seq || (self.next_seq < found && !skips) {
                return Err(FrameFault::Sequence { found, due: self.next_seq });
            }
            self.next_seq = found;
            self.prove();
        }
        Ok(())
    }

    fn prove(&mut self) {
        if self.reaches() {
            self.proven =
                Proven { offset: self.offset, next_seq: self.next_seq, checksum: self.checksum };
        }
    }

    /// Whether the file goes as far as the frames that were read, padding included: no successor can
    /// name an end that the file does not reach.
    pub(super) fn reaches(&self) -> bool {
        self.offset <= self.len()
    }

    /// Whether a whole frame is at `offset`.
    fn check(&mut self, offset: u64) -> Result<Result<FrameHead, FrameFault>, JournalError> {
        let salt = self.salt;
        let kind = self.kind;
        let file = &self.file;
        let io = |source| JournalError::io("read", file, source);
        let bytes = self.window.get(offset, FRAME_HEADER_BYTES).map_err(io)?;
        let head = match decode_head(bytes, salt, offset) {
            Ok(head) if head.has(FLAG_LAST) && kind == FileKind::Segment => {
                return Ok(Err(FrameFault::Bounds));
            }
            Ok(head) => head,
            Err(fault) => return Ok(Err(fault)),
        };
        let bytes = self.window.get(offset, head.bytes()).map_err(io)?;
        Ok(decode_body(head, bytes, salt).map(|_| head))
    }

    fn length(&self, head: FrameHead) -> u64 {
        padded(head.body_len, self.header.alignment) as u64
    }

    /// Looks again at the place where the next frame is due, past what was read before.
    pub(super) fn refresh(&mut self) -> Result<(), JournalError> {
        self.window.refresh().map_err(|source| self.io(source))
    }

    /// Whether anything but zeros stands where the next frame is due; cheap, for who asks often.
    pub(super) fn is_begun(&self) -> Result<bool, JournalError> {
        let mut magic = [0; 4];
        let read = read_full_at(&self.window.file, self.offset, &mut magic);
        read.map_err(|source| self.io(source))?;
        Ok(magic != [0; 4])
    }

    /// Makes what the file holds durable, whoever wrote it.
    pub(super) fn sync(&mut self) -> Result<(), JournalError> {
        self.window.file.sync().map_err(|source| JournalError::sync(&self.file, source))
    }

    /// The next whole frame at or behind the current place, whatever lies between.
    pub(super) fn next_whole(&mut self) -> Result<Option<Frame<'_>>, JournalError> {
        while self.offset < self.len() {
            let offset = self.offset;
            let found = self.check(offset)?;
            if let Ok(head) = found {
                self.offset = offset.saturating_add(self.length(head));
                let name = &self.file;
                let bytes = self.window.get(offset, head.bytes());
                let bytes = bytes.map_err(|source| JournalError::io("read", name, source))?;
                let body = bytes.get(FRAME_HEADER_BYTES..).unwrap_or_default();
                return Ok(Some(Frame { offset, head, body }));
            }
            let step = self.head(offset)?.map(|head| self.length(head));
            let step = step.unwrap_or_else(|| u64::from(self.header.alignment));
            self.offset = offset.saturating_add(step);
        }
        Ok(None)
    }

    /// What lies from `self.offset` to the end of the file.
    pub(super) fn survey(&mut self) -> Result<Survey, JournalError> {
        let mut survey = self.survey_sectors()?;
        if survey.end != 0 {
            self.survey_frames(&mut survey)?;
            survey.full = self.looks_full(survey)?;
        }
        Ok(survey)
    }

    fn survey_sectors(&mut self) -> Result<Survey, JournalError> {
        let mut survey = Survey { full: true, ..Survey::default() };
        let mut at = self.offset;
        let mut zero_seen = false;
        while at < self.len() {
            let name = &self.file;
            let sector = self.window.get(at, SECTOR_BYTES);
            let sector = sector.map_err(|source| JournalError::io("read", name, source))?;
            if sector.is_empty() {
                break; // the file shrank meanwhile
            }
            match sector.iter().rposition(|&byte| byte != 0) {
                None => zero_seen = true,
                Some(last) => {
                    survey.end = at.saturating_add(last as u64 + 1);
                    survey.full = !zero_seen && sector.len() == SECTOR_BYTES;
                }
            }
            at = at.saturating_add(SECTOR_BYTES as u64);
        }
        Ok(survey)
    }

    /// Counts the whole frames behind the bad one, and looks for what was written after its sync.
    fn survey_frames(&mut self, survey: &mut Survey) -> Result<(), JournalError> {
        let start = self.offset;
        let mut at = start;
        while at < survey.end {
            // A frame whose header holds vouches for its length, whatever became of the rest.
            let Some(head) = self.head(at)? else {
                at = at.saturating_add(u64::from(self.header.alignment));
                continue;
            };
            let end = at.saturating_add(self.length(head));
            if at == start {
                // Its writer began no other write before the sync of this one.
                survey.later_synced |= !self.header.has(FLAG_WEAK) && end < survey.end;
            } else {
                survey.later_synced |= head.has(FLAG_SYNCED);
                if self.check(at)?.is_ok() {
                    survey.frames_after += 1;
                    survey.records_after += u64::from(head.count);
                }
            }
            at = end;
        }
        Ok(())
    }

    fn head(&mut self, at: u64) -> Result<Option<FrameHead>, JournalError> {
        let salt = self.salt;
        let file = &self.file;
        let bytes = self.window.get(at, FRAME_HEADER_BYTES);
        let bytes = bytes.map_err(|source| JournalError::io("read", file, source))?;
        Ok(decode_head(bytes, salt, at).ok())
    }

    /// Whether the bad frame looks fully written. Where its header holds, its length is known and
    /// its end mark must be there; else it reaches to the last byte that is not zero.
    fn looks_full(&mut self, survey: Survey) -> Result<bool, JournalError> {
        let start = self.offset;
        let Some(head) = self.head(start)? else {
            let beyond_header = start.saturating_add(FRAME_HEADER_BYTES as u64) < survey.end;
            return Ok(survey.full && beyond_header);
        };
        let length = padded(head.body_len, self.header.alignment);
        let file = &self.file;
        let bytes = self.window.get(start, length);
        let bytes = bytes.map_err(|source| JournalError::io("read", file, source))?;
        let written = head.bytes() + 1;
        let mut sectors = bytes.chunks(SECTOR_BYTES).take(written.div_ceil(SECTOR_BYTES));
        let all = sectors.all(|sector| sector.iter().any(|&byte| byte != 0));
        Ok(all && has_end_mark(head, bytes))
    }
}

/// What lies behind the last whole frame of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// Behind the last byte that is not zero; 0 when there is none.
    pub(super) end: u64,
    /// The bad frame looks fully written.
    pub(super) full: bool,
    /// Whole frames behind the bad one.
    pub(super) frames_after: u64,
    /// Their records.
    pub(super) records_after: u64,
    /// Something behind the bad frame was written after everything before it was synced.
    pub(super) later_synced: bool,
}
