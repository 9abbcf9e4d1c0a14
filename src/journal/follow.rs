//! Following a journal while another process writes it: each record once, in order, and none that a
//! crash could still take back.
//!
//! A whole frame in the file may be in the kernel's memory only. Before a frame of the newest segment
//! is shown, its file is synced here too: where the writer has synced already there is nothing left
//! to do, and where its policy is weaker the record becomes durable a little sooner. Nothing is
//! written.

use super::disk::Disk;
use super::error::JournalError;
use super::frame::FrameHead;
use super::scan::{self, Visitor};
use super::segment::{FileKind, HeaderFault, parse_segment_name, segment_path};
use super::store::{self, JOURNAL_DIR};
use super::walk::Walk;
use std::io;

/// Bodies that are held at once, about.
const TAKEN_BYTES_MAX: usize = 4 << 20;

/// A reader at one place of a journal.
pub struct Follow<D: Disk> {
    disk: D,
    /// The next sequence that is wanted.
    wanted: u64,
    at: Option<At<D::File>>,
}

/// The segment that is being read.
struct At<F> {
    walk: Walk<F>,
    /// It was the newest when it was opened: its end may not be durable yet.
    newest: bool,
    /// Where its successor says that it ends, once there is one.
    end: Option<u64>,
}

/// A frame that was read and not shown yet.
struct Taken {
    offset: u64,
    head: FrameHead,
    body: Vec<u8>,
}

impl<D: Disk> Follow<D> {
    /// A reader that shows the records from sequence `from` on.
    pub fn new(disk: D, from: u64) -> Self {
        Self { disk, wanted: from, at: None }
    }

    /// Shows what has become durable since the last call; whether to call again at once. Shows
    /// nothing where the writer is away, or in the midst of a write.
    ///
    /// Fails on damage before the end that a later segment names, and when a sync fails.
    pub fn poll(&mut self, visitor: &mut impl Visitor) -> Result<bool, JournalError> {
        let Some(at) = &mut self.at else { return self.enter(visitor) };
        if !at.walk.is_begun()? {
            return self.go_on(visitor);
        }
        at.walk.refresh()?;
        let taken = at.take()?;
        if taken.is_empty() {
            return self.go_on(visitor);
        }
        if at.newest {
            at.walk.sync()?;
        }
        for Taken { offset, head, body } in &taken {
            let place = (&*at.walk.file, at.walk.header.copied_end, *offset);
            scan::show(place, (*head, body), self.wanted, visitor)?;
            self.wanted = self.wanted.max(head.next_seq());
        }
        Ok(true)
    }

    /// Opens the segment in which the wanted sequence is, or will be.
    fn enter(&mut self, visitor: &mut impl Visitor) -> Result<bool, JournalError> {
        let names = self.names()?;
        let holds = |(_, first_seq): &(u64, u64)| *first_seq <= self.wanted;
        self.open(&names, names.iter().rposition(holds).unwrap_or(0), visitor)
    }

    /// Goes on in one of the segments that there are. Where it has a successor already, what lies
    /// behind the end that this one names is dead.
    fn open(
        &mut self,
        names: &[(u64, u64)],
        index: usize,
        visitor: &mut impl Visitor,
    ) -> Result<bool, JournalError> {
        let Some(&(number, first_seq)) = names.get(index) else { return Ok(false) };
        let path = segment_path(number, first_seq);
        let Some(walk) = self.walk(&path)? else { return Ok(false) };
        let text = visitor.segment(&path, &walk.header);
        text.map_err(|text| JournalError::Refused { file: path, offset: 0, seq: 0, text })?;
        let next = names.get(index + 1);
        self.at = Some(At { walk, newest: next.is_none(), end: None });
        match next {
            Some(&next) if next.0 == number + 1 => self.note_end(next).map(|_| true),
            _ => Ok(true),
        }
    }

    /// A segment from its start; `None` when it has gone, or has no whole header.
    fn walk(&self, path: &str) -> Result<Option<Walk<D::File>>, JournalError> {
        let file = match self.disk.open_read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|source| JournalError::io("open", path, source))?,
        };
        match Walk::open(file, path, FileKind::Segment)? {
            Ok(walk) => Ok(Some(walk)),
            Err(HeaderFault::Newer { version, needs }) => {
                Err(JournalError::Newer { file: path.to_owned(), version, needs })
            }
            Err(_not_whole) => Ok(None),
        }
    }

    /// There is no further frame here: is there a further segment?
    fn go_on(&mut self, visitor: &mut impl Visitor) -> Result<bool, JournalError> {
        let names = self.names()?;
        let Some(at) = &mut self.at else { return Ok(false) };
        let number = at.walk.header.number;
        let Some(index) = names.iter().position(|(next, _)| number < *next) else {
            return Ok(false);
        };
        let next = names.get(index).copied().unwrap_or_default();
        if next.0 == number + 1 {
            // What was written between the last look and the successor's birth is read first.
            let Some(end) = at.end else { return self.note_end(next) };
            if at.walk.offset < end {
                return Err(Self::damage(at, &self.disk, end));
            }
        } // else a compaction was quicker
        self.open(&names, index, visitor)
    }

    /// Learns from the successor where the segment ends; `false` when the successor has gone.
    fn note_end(&mut self, (number, first_seq): (u64, u64)) -> Result<bool, JournalError> {
        let Some(successor) = self.walk(&segment_path(number, first_seq))? else {
            return Ok(false);
        };
        if let Some(at) = &mut self.at {
            at.end = Some(successor.header.previous.end);
        }
        Ok(true)
    }

    fn damage(at: &mut At<D::File>, disk: &D, end: u64) -> JournalError {
        let survey = match at.walk.survey() {
            Ok(survey) => survey,
            Err(error) => return error,
        };
        let what = format!("no whole frame is there, but the next segment says byte {end}");
        let seq = at.walk.next_seq;
        scan::damage(disk, &at.walk, (what, seq), 0, survey)
    }

    fn names(&self) -> Result<Vec<(u64, u64)>, JournalError> {
        let names = store::list(&self.disk, JOURNAL_DIR)?;
        let mut found: Vec<_> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
        found.sort_unstable();
        Ok(found)
    }
}

impl<F: super::disk::DiskFile> At<F> {
    /// The whole frames that are there, up to the end that is known.
    fn take(&mut self) -> Result<Vec<Taken>, JournalError> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        while bytes < TAKEN_BYTES_MAX && self.end.is_none_or(|end| self.walk.offset < end) {
            let Ok(frame) = self.walk.step()? else { break };
            bytes += frame.body.len();
            taken.push(Taken { offset: frame.offset, head: frame.head, body: frame.body.to_vec() });
        }
        Ok(taken)
    }
}
