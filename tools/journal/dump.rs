//! `dump`: the records as JSON, one a line.

use super::failure::{DAMAGED, DONE, Failure, NOTHING, note};
use super::place::Store;
use midwatch::engine::check::{First, base, is_ignorable};
use midwatch::engine::codec::{self, CodecError, Kept};
use midwatch::engine::dump::{Form, kept_line, record_line};
use midwatch::engine::hex;
use midwatch::journal::{JournalError, Place, RealDisk, Record, Visitor, read_snapshot, scan};
use midwatch::kernel::event::Event;
use midwatch::kernel::ids::{Seq, TaskId};
use serde_json::json;
use std::io::{self, Write};

/// Which records are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) from: Option<u64>,
    pub(crate) to: Option<u64>,
    pub(crate) task: Option<TaskId>,
    pub(crate) form: Form,
}

/// Prints what is wanted; the exit code.
///
/// Damage ends it with a message after the last good record before it; a body that nobody can
/// read is printed as it is.
pub(crate) fn run(store: &Store, range: Range, out: &mut impl Write) -> Result<u8, Failure> {
    let mut print = Print::new(out, range);
    let begun = store.read(|disk| print_snapshot(disk, &mut print));
    // What a damaged store still gives is printed; the scan will say what is wrong with it.
    let scanned = begun.and_then(|()| {
        store.read(|disk| {
            print.resumed = print.seen != 0;
            scan(disk, &mut print)
        })
    });
    let Print { failed, done, unreadable, seen, lines, .. } = print;
    if let Some(error) = failed {
        return Err(error.into());
    }
    match scanned {
        Ok(report) => store.check_there(&report)?,
        Err(_) if done => {}
        Err(error) => return Err(store.refusal(&error)),
    }
    if unreadable != 0 {
        let dir = &store.argument;
        return Err(Failure::new(DAMAGED, format!("{unreadable} records have no readable body"))
            .with_help(format!("midwatch-journal verify{dir} names the first of them")));
    }
    match range {
        Range { task: Some(task), from: None, to: None, .. } if lines == 0 => {
            Err(Failure::new(NOTHING, format!("no record that is held speaks of task {task}"))
                .with_help("it never was, or is ended and forgotten (see [retention])"))
        }
        Range { from: Some(from), .. } if seen < from => {
            note(format!("the last record is {seen}; there is none from {from} on yet"));
            Ok(DONE)
        }
        _ => Ok(DONE),
    }
}

/// What stands for the records that are gone comes first.
fn print_snapshot<W: Write>(disk: &RealDisk, print: &mut Print<'_, W>) -> Result<(), JournalError> {
    let mut first = First::default();
    let Ok(report) = scan(disk, &mut first) else { return Ok(()) };
    let Some(seq) = base(&report, first.number) else { return Ok(()) };
    let (earliest, from) = (report.first_seq, print.range.from);
    if from.is_some_and(|from| earliest <= from) {
        return Ok(());
    }
    if from.is_none() {
        read_snapshot(disk, seq, |record| print.kept(Seq(seq), record))?;
    }
    note(format!(
        "the earliest record held is {earliest}; the snapshot at {seq} stands for those before it"
    ));
    Ok(())
}

/// Prints records.
pub(crate) struct Print<'w, W> {
    pub(crate) out: &'w mut W,
    range: Range,
    /// The output could not be written.
    pub(crate) failed: Option<io::Error>,
    /// The last wanted record was printed.
    done: bool,
    unreadable: u64,
    /// Lines printed.
    lines: u64,
    /// The last record that went by.
    seen: u64,
    /// Going on after a file went away underneath: its records may have gone with it.
    resumed: bool,
}

impl<'w, W: Write> Print<'w, W> {
    pub(crate) fn new(out: &'w mut W, range: Range) -> Self {
        Self {
            out,
            range,
            failed: None,
            done: false,
            unreadable: 0,
            lines: 0,
            seen: 0,
            resumed: false,
        }
    }

    /// Prints a line; an `Err` ends the scan, and its text is seen by nobody.
    fn line(&mut self, line: &str) -> Result<(), String> {
        self.lines += 1;
        writeln!(self.out, "{line}").map_err(|error| {
            let text = error.to_string();
            self.failed = Some(error);
            text
        })
    }

    fn kept(&mut self, seq: Seq, record: Record<'_>) -> Result<(), String> {
        let kept = match codec::decode_kept(record.kind, record.body) {
            Ok(kept) => kept,
            Err(error) => return self.raw(seq.0, record, &error),
        };
        let wanted = match (&kept, self.range.task) {
            (_, None) => true,
            (Kept::Task(task), Some(wanted)) => task.id == wanted,
            (
                Kept::Head(_)
                | Kept::Worker(_)
                | Kept::Type(_)
                | Kept::Schedule(_)
                | Kept::Figures(_)
                | Kept::TypeFigures(_)
                | Kept::Alerts(_),
                Some(_),
            ) => false,
        };
        if wanted { self.line(&kept_line(self.range.form, seq, &kept)) } else { Ok(()) }
    }

    /// A record that this version cannot read, as it is.
    fn raw(&mut self, seq: u64, record: Record<'_>, error: &CodecError) -> Result<(), String> {
        if !is_ignorable(error, record) {
            self.unreadable += 1;
        }
        let line = json!({
            "seq": seq,
            "event": null,
            "kind": record.kind,
            "ignorable": record.ignorable,
            "error": error.to_string(),
            "body": hex(record.body),
        });
        self.line(&line.to_string())
    }
}

impl<W: Write> Visitor for Print<'_, W> {
    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        let Range { from, to, task, form } = self.range;
        if place.seq <= self.seen {
            return Ok(());
        }
        if std::mem::take(&mut self.resumed) && self.seen + 1 < place.seq {
            let (first, last) = (self.seen + 1, place.seq - 1);
            note(format!("records {first} to {last} went while this ran: a snapshot has them"));
        }
        self.seen = place.seq;
        if from.is_some_and(|from| place.seq < from) {
            return Ok(());
        }
        if to.is_some_and(|to| to < place.seq) {
            self.done = true;
            return Err("all that was wanted is printed".to_owned());
        }
        match codec::decode(Seq(place.seq), record.kind, record.body) {
            Ok((_, event)) if task.is_some_and(|task| !concerns(&event, task)) => Ok(()),
            Ok((stamp, event)) => self.line(&record_line(form, &stamp, &event)),
            Err(_) if task.is_some() => Ok(()),
            Err(error) => self.raw(place.seq, record, &error),
        }
    }
}

fn concerns(event: &Event, task: TaskId) -> bool {
    match event {
        Event::Heard(heard) => heard.holds.iter().any(|held| held.task == task),
        Event::Forgotten(forgotten) => forgotten.tasks.contains(&task),
        _ => event.task() == Some(task),
    }
}
