//! A journal and the book a careful clerk keeps beside it: what was submitted, what was
//! acknowledged, what has to come back. The one file of these tests that knows the journal's API.

use midwatch::journal::{
    Batch, Fsync, Host, Journal, JournalError, Options, Record, Recovery, Replay, Room,
};
use midwatch::sim::{Dice, SimDisk};

const KIND: u16 = 7;

/// What one step of a workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// One record in one sector.
    Small,
    /// Three records, three sectors.
    Multi,
    /// Records that span pages.
    Large,
    /// Commits until a new segment begins.
    Rotate,
    /// A snapshot of everything, and the end of what it makes superfluous.
    Snapshot,
    /// A clean end and a new start.
    Reopen,
}

impl Step {
    /// Bytes of records it commits, about.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Small | Self::Snapshot => 100,
            Self::Multi => 1_300,
            Self::Large => 9_200,
            Self::Rotate => 3 * 12_100,
            Self::Reopen => 0,
        }
    }

    pub(crate) const ALL: [Self; 6] =
        [Self::Small, Self::Multi, Self::Large, Self::Rotate, Self::Snapshot, Self::Reopen];
}

/// What a recovery hands back, in order; a snapshot's records count like the ones they stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) records: Vec<(u64, Vec<u8>)>,
    pub(crate) snapshot: Option<u64>,
}

impl Replay for History {
    fn snapshot_begin(&mut self, seq: u64) -> Result<(), String> {
        self.records.clear();
        self.snapshot = Some(seq);
        Ok(())
    }

    fn snapshot_failed(&mut self) {
        *self = Self::default();
    }

    fn snapshot_record(&mut self, record: Record<'_>) -> Result<(), String> {
        let (seq, body) = record.body.split_first_chunk().unwrap();
        self.records.push((u64::from_le_bytes(*seq), body.to_vec()));
        Ok(())
    }

    fn record(&mut self, seq: u64, record: Record<'_>) -> Result<(), String> {
        self.records.push((seq, record.body.to_vec()));
        Ok(())
    }
}

/// What was handed to the journal: batch by batch the first sequence and the bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    pub(crate) batches: Vec<(u64, Vec<Vec<u8>>)>,
    /// So many of them were acknowledged.
    pub(crate) acked: usize,
}

impl Book {
    /// How many batches `history` holds; at least `must`, at most `may`, each whole and in place.
    pub(crate) fn check(
        &self,
        history: &History,
        must: usize,
        may: usize,
    ) -> Result<usize, String> {
        let mut rest = history.records.as_slice();
        let mut found = 0;
        while !rest.is_empty() {
            let Some((first, bodies)) = self.batches.get(found).filter(|_| found < may) else {
                return Err(format!("{} records more than ever submitted", rest.len()));
            };
            for (seq, body) in (*first..).zip(bodies) {
                let Some(((got, bytes), more)) = rest.split_first() else {
                    return Err(format!("batch {found} came back in part, without {seq}"));
                };
                if *got != seq {
                    return Err(format!("record {seq} came back as {got}, in batch {found}"));
                }
                if bytes != body {
                    return Err(format!("record {seq} came back with another body"));
                }
                rest = more;
            }
            found += 1;
        }
        if found < must {
            return Err(format!("{must} batches were acknowledged, {found} came back"));
        }
        Ok(found)
    }

    /// The book of someone who saw `found` batches come back.
    pub(crate) fn settled(&self, found: usize) -> Self {
        Self { batches: self.batches[..found].to_vec(), acked: found }
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.batches.last().map_or(0, |(first, bodies)| first + bodies.len() as u64 - 1)
    }
}

/// An open journal with its book.
pub(crate) struct Ledger {
    pub(crate) disk: SimDisk,
    pub(crate) options: Options,
    pub(crate) book: Book,
    journal: Option<Journal<SimDisk>>,
    /// A commit failed: none may succeed after it.
    failed: bool,
    /// So many batches were durable when last heard of.
    pub(crate) durable: usize,
}

/// What an open gave.
pub(crate) struct Opened {
    pub(crate) ledger: Ledger,
    pub(crate) history: History,
    pub(crate) recovery: Recovery,
}

pub(crate) const SEGMENT: u64 = 32 << 10;

pub(crate) fn options() -> Options {
    Options { segment_size: SEGMENT, reserve: SEGMENT, ..Options::default() }
}

/// Opens what is on `disk`; the book is the caller's to check.
pub(crate) fn open(disk: &SimDisk, options: &Options, book: Book) -> Result<Opened, JournalError> {
    let mut history = History::default();
    let host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 3 };
    let (journal, recovery) = Journal::open(disk.clone(), *options, host, &mut history)?;
    let durable = book.acked;
    let ledger = Ledger {
        disk: disk.clone(),
        options: *options,
        book,
        journal: Some(journal),
        failed: false,
        durable,
    };
    Ok(Opened { ledger, history, recovery })
}

/// A ledger on an empty disk.
pub(crate) fn fresh(seed: u64) -> Ledger {
    open(&SimDisk::new(seed), &options(), Book::default()).unwrap().ledger
}

/// How far a journal had come at some point: the number a [`midwatch::sim::Point`] carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Batches that no power cut may take.
    pub(crate) must: usize,
    /// Batches that may come back.
    pub(crate) may: usize,
    /// The last sequence that was handed out.
    pub(crate) handed_out: u64,
}

const COUNT_BITS: u32 = 12;

impl Mark {
    pub(crate) fn pack(self) -> u64 {
        assert!(self.must <= self.may && self.may < 1 << COUNT_BITS);
        self.must as u64 | (self.may as u64) << COUNT_BITS | self.handed_out << (2 * COUNT_BITS)
    }

    pub(crate) fn unpack(mark: u64) -> Self {
        let count = |mark: u64| usize::try_from(mark & ((1 << COUNT_BITS) - 1)).unwrap();
        Self {
            must: count(mark),
            may: count(mark >> COUNT_BITS),
            handed_out: mark >> (2 * COUNT_BITS),
        }
    }
}

impl Ledger {
    fn journal(&mut self) -> &mut Journal<SimDisk> {
        self.journal.as_mut().expect("a ledger is used while open")
    }

    pub(crate) fn is_open(&self) -> bool {
        self.journal.is_some()
    }

    /// Whether new work of so many bytes may be taken on.
    pub(crate) fn has_room_for(&mut self, bytes: u64) -> Result<bool, JournalError> {
        Ok(self.journal().has_room_for(bytes)? == Room::Plenty)
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.journal.as_ref().expect("a ledger is used while open").next_seq()
    }

    /// Commits one batch of records of these sizes; each body names its record.
    pub(crate) fn commit(&mut self, sizes: &[usize]) -> Result<(), JournalError> {
        let first = self.next_seq();
        let bodies: Vec<Vec<u8>> =
            (first..).zip(sizes).map(|(seq, size)| body(seq, *size)).collect();
        let mut batch = Batch::new();
        for body in &bodies {
            batch.push(KIND, false, body);
        }
        if self.failed {
            return Err(self.refused(&batch));
        }
        assert!(self.book.last_seq() < first, "a sequence was handed out twice");
        self.book.batches.push((first, bodies));
        let submitted = self.book.batches.len();
        self.mark();
        let segments_before = segments(&self.disk).len();
        let given = self.journal().commit(&batch).inspect_err(|_| self.failed = true)?;
        assert_eq!(given, first, "the sequence that was announced");
        if segments(&self.disk).len() != segments_before {
            self.durable = self.book.acked;
        }
        self.book.acked = submitted;
        if self.options.fsync == Fsync::Always {
            self.durable = submitted;
        }
        self.mark();
        Ok(())
    }

    /// Makes everything durable, which only a weak policy leaves to do.
    pub(crate) fn sync(&mut self) -> Result<(), JournalError> {
        self.journal().sync()?;
        self.all_durable();
        Ok(())
    }

    fn all_durable(&mut self) {
        self.durable = self.book.acked;
        self.mark();
    }

    pub(crate) fn mark(&self) {
        let Book { batches, acked } = &self.book;
        let handed_out = self.book.settled(*acked).last_seq();
        let mark = Mark { must: self.durable, may: batches.len(), handed_out };
        self.disk.mark(mark.pack());
    }

    /// A commit after a failed one: refused, and without touching the disk.
    fn refused(&mut self, batch: &Batch) -> JournalError {
        let calls = self.disk.calls();
        let error = self.journal().commit(batch).expect_err("a failed commit is the last");
        assert_eq!(self.disk.calls(), calls, "no call after a failed commit");
        error
    }

    /// Takes a snapshot; every other one has a commit while it is being written.
    pub(crate) fn snapshot(&mut self) -> Result<(), JournalError> {
        let records: Vec<Vec<u8>> = self.book.batches[..self.book.acked]
            .iter()
            .flat_map(|(first, bodies)| (*first..).zip(bodies))
            .map(|(seq, body)| [seq.to_le_bytes().as_slice(), body].concat())
            .collect();
        let upto = self.book.acked;
        let mut writer = self.journal().snapshot_writer()?;
        if self.book.acked % 2 == 1 {
            self.commit(&[20])?;
        }
        for record in &records {
            writer.push(KIND, false, record)?;
        }
        let done = writer.finish()?;
        self.journal().snapshot_done(done)?;
        self.durable = self.durable.max(upto);
        self.mark();
        Ok(())
    }

    /// Ends cleanly.
    pub(crate) fn close(&mut self) -> Result<(), JournalError> {
        self.journal.take().expect("a ledger is closed once").close()?;
        self.all_durable();
        Ok(())
    }

    /// Ends cleanly, starts again, and compares.
    pub(crate) fn reopen(&mut self) -> Result<(), JournalError> {
        self.close()?;
        let opened = open(&self.disk, &self.options, self.book.clone())?;
        let all = self.book.acked;
        self.book.check(&opened.history, all, all).unwrap();
        *self = opened.ledger;
        Ok(())
    }

    pub(crate) fn step(&mut self, step: Step) -> Result<(), JournalError> {
        match step {
            Step::Small => self.commit(&[20]),
            Step::Multi => self.commit(&[400, 400, 400]),
            Step::Large => self.commit(&[3000, 6000, 100]),
            Step::Snapshot => self.snapshot(),
            Step::Reopen => self.reopen(),
            Step::Rotate => {
                let before = segments(&self.disk);
                while segments(&self.disk) == before {
                    self.commit(&[12_000])?;
                }
                Ok(())
            }
        }
    }
}

/// A body that names its record, with no run of zeros in it.
pub(crate) fn body(seq: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    Dice::new(seq).fill(&mut bytes);
    let name = format!("record {seq} ");
    bytes.splice(..name.len().min(size), name.into_bytes());
    bytes.truncate(size.max(1));
    bytes
}

/// The segment files, oldest first.
pub(crate) fn segments(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|path| is_segment(path)).collect()
}

pub(crate) fn is_segment(path: &str) -> bool {
    path.starts_with("journal/") && path.ends_with(".journal")
}
