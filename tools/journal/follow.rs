//! `follow`: the records as they become durable, in the lines of `dump`.

use super::dump::{Print, Range};
use super::failure::{DONE, Failure, note};
use super::place::Store;
use midwatch::journal::segment::FLAG_SKIPPED_AHEAD;
use midwatch::journal::{Follow, FrameAt, Header, Place, Record, Visitor, scan};
use std::io::Write;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How often the journal is looked at while nothing happens.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Prints records from `from` on, or else those that come, until SIGINT or SIGTERM; the exit code.
pub(crate) fn run(
    store: &Store,
    from: Option<u64>,
    range: Range,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let report = store.read(|disk| scan(disk, &mut ())).map_err(|error| store.refusal(&error))?;
    store.check_there(&report)?;
    let from = from.unwrap_or(report.next_seq);
    let mut lines = Lines { print: Print::new(out, range), due: from, resumes: None };
    let mut follow = Follow::new(store.disk.clone(), from);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(1, format!("cannot wait for signals: {error}")))?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        loop {
            let polled = follow.poll(&mut lines);
            if let Some(error) = lines.print.failed.take() {
                return Err(error.into());
            }
            let more = polled.map_err(|error| store.refusal(&error))?;
            lines.print.out.flush()?;
            let pause = if more { Duration::ZERO } else { LOOK_AGAIN };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = interrupt.recv() => return Ok(DONE),
                _ = terminate.recv() => return Ok(DONE),
            }
        }
    })
}

/// Prints, and says where records are missing and why.
struct Lines<'w, W> {
    print: Print<'w, W>,
    /// The sequence that would come next without a gap.
    due: u64,
    /// The segment that is read skipped ahead to this sequence.
    resumes: Option<u64>,
}

impl<W: Write> Visitor for Lines<'_, W> {
    fn segment(&mut self, _file: &str, header: &Header) -> Result<(), String> {
        self.resumes = header.has(FLAG_SKIPPED_AHEAD).then_some(header.resume_seq);
        Ok(())
    }

    fn frame(&mut self, frame: &FrameAt<'_>) -> Result<(), String> {
        let (due, first) = (self.due, frame.first_seq);
        if self.resumes == Some(first) && due < first {
            note(format!("the sequence skips from {due} to {first}: a start could not be sure"));
        } else if due < first {
            note(format!("records {due} to {} are gone; a snapshot stands for them", first - 1));
        }
        self.due = frame.first_seq.saturating_add(u64::from(frame.count));
        Ok(())
    }

    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        self.print.record(place, record)
    }
}
