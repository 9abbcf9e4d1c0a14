//! The records of a store in their order, and where the unbroken run of them ends.

use super::{Outcome, Skipped, Span, unrepairable};
use crate::engine::check::is_ignorable;
use crate::engine::codec::{self, CodecError};
use crate::journal::{FrameAt, JournalError, Place, Record, Remnant, SKIP};
use crate::kernel::event::{Event, Stamp};
use crate::kernel::ids::{Seq, TaskId};
use crate::kernel::{State, apply};
use std::collections::BTreeSet;

/// Takes the records of a store in their order, and finds where the unbroken run ends.
pub(super) struct Run {
    base: u64,
    /// Frames from this sequence on are behind the hole, whatever they look like.
    limit: u64,
    /// The sequence that is due.
    pub(super) next: u64,
    /// What stands behind the hole is applied to it as well, as far as it can follow.
    state: State,
    /// The state before the first hole, once there is one.
    cut: Option<State>,
    applied: u64,
    pub(super) applied_behind: u64,
    /// The records that come now are wanted.
    taking: bool,
    /// The first sequence of their frame.
    frame: u64,
    /// The next frame may not belong behind the one before.
    apart: bool,
    /// The first sequence of a frame before the hole that can't follow.
    pub(super) refused_at: Option<u64>,
    pub(super) unreadable: Vec<Span>,
    whole_behind: Vec<Span>,
    pub(super) skipped: Vec<Skipped>,
    /// Tasks that the records behind the hole speak of.
    touched: BTreeSet<TaskId>,
    /// Each id that a start behind the hole found to be the next one.
    starts: BTreeSet<u64>,
    /// The highest id that any record shows to be free.
    pub(super) next_task: TaskId,
}

impl Run {
    pub(super) fn new(base: Option<u64>, state: &State, limit: u64) -> Self {
        let base = base.unwrap_or(0);
        Self {
            base,
            limit,
            next: base.saturating_add(1),
            state: state.clone(),
            cut: None,
            applied: 0,
            applied_behind: 0,
            taking: false,
            frame: 0,
            apart: false,
            refused_at: None,
            unreadable: Vec::new(),
            whole_behind: Vec::new(),
            skipped: Vec::new(),
            touched: BTreeSet::new(),
            starts: BTreeSet::new(),
            next_task: state.next_task(),
        }
    }

    pub(super) fn take(&mut self, remnant: Remnant<'_>) -> Result<(), JournalError> {
        if self.refused_at.is_some() {
            return Ok(()); // all of it is read once more
        }
        match remnant {
            Remnant::Skip { from, to } => {
                if self.next < to {
                    self.miss_up_to(from);
                    self.next = self.next.max(to);
                }
                Ok(())
            }
            Remnant::Apart => {
                self.apart = true;
                Ok(())
            }
            Remnant::Frame(frame) => {
                self.begin_frame(&frame);
                Ok(())
            }
            Remnant::Record(place, record) if self.taking => self.record(place, record),
            Remnant::Record(..) => Ok(()),
        }
    }

    /// Whether the run is over.
    const fn is_behind(&self) -> bool {
        self.cut.is_some()
    }

    fn end_run(&mut self) {
        if self.cut.is_none() {
            self.cut = Some(self.state.clone());
        }
    }

    /// Nothing is left of the records that are due, up to the one before `seq`.
    fn miss_up_to(&mut self, seq: u64) {
        if self.next < seq {
            self.unreadable.push(Span { first: self.next, last: seq.saturating_sub(1) });
            self.next = seq;
            self.end_run();
        }
    }

    fn begin_frame(&mut self, frame: &FrameAt<'_>) {
        let end = frame.first_seq.saturating_add(u64::from(frame.count));
        let apart = std::mem::take(&mut self.apart);
        self.taking = self.next < end;
        if !self.taking {
            return; // the base holds it, or a copy of it came before
        }
        // From the base on the numbers alone count: a snapshot names no place in a segment.
        if self.limit <= frame.first_seq || (apart && self.base.saturating_add(1) < self.next) {
            self.end_run();
        }
        self.miss_up_to(frame.first_seq);
        self.frame = frame.first_seq;
        self.next = end;
        if self.is_behind() {
            add_span(&mut self.whole_behind, frame.first_seq, end.saturating_sub(1));
        }
    }

    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), JournalError> {
        if place.seq <= self.base {
            return Ok(());
        }
        match codec::decode(Seq(place.seq), record.kind, record.body) {
            Ok((stamp, event)) => self.event(&stamp, &event),
            Err(error) if is_ignorable(&error, record) => self.count(),
            // A newer midwatch wrote it: to cut it away would be to lose what is whole.
            Err(error @ CodecError::UnknownKind(_)) => {
                return Err(unrepairable(&format!(
                    "{}, byte {}, sequence {}: {error}; repair it with the midwatch that wrote it",
                    place.file, place.offset, place.seq
                )));
            }
            Err(error) => self.cannot_follow(place.seq, None, error.to_string()),
        }
        Ok(())
    }

    fn event(&mut self, stamp: &Stamp, event: &Event) {
        self.next_task = self.next_task.max(free_after(event));
        if self.is_behind() {
            self.touched.extend(tasks_of(event));
            if let Event::Started(started) = event {
                self.starts.insert(started.next_task.0);
            }
        }
        match apply(&mut self.state, stamp, event) {
            Ok(()) => self.count(),
            Err(illegal) => self.cannot_follow(stamp.seq.0, Some(event), illegal.to_string()),
        }
    }

    fn count(&mut self) {
        if self.is_behind() { self.applied_behind += 1 } else { self.applied += 1 }
    }

    fn cannot_follow(&mut self, seq: u64, event: Option<&Event>, why: String) {
        if !self.is_behind() {
            self.refused_at = Some(self.frame);
            return;
        }
        let task = event.and_then(Event::task);
        self.skipped.push(Skipped { seq, event: event.map(Event::word), task, why });
    }

    /// The journal is read: what was given beyond its end is gone.
    pub(super) fn end(&mut self, last_seq: u64) {
        self.miss_up_to(last_seq.saturating_add(1));
        self.end_run();
    }

    /// Ids that were given, and of whose tasks nothing whole is left.
    pub(super) fn nameless(&self) -> Vec<Span> {
        let mut free = self.cut.as_ref().map_or(1, |state| state.next_task().0.max(1));
        let mut spans = Vec::new();
        let marks: BTreeSet<u64> =
            self.touched.iter().map(|id| id.0).chain(self.starts.iter().copied()).collect();
        for mark in marks.range(free..) {
            // A start that skipped ahead left ids that nobody had.
            if free < *mark && mark - free < SKIP {
                spans.push(Span { first: free, last: mark - 1 });
            }
            let named = self.touched.contains(&TaskId(*mark));
            free = if named { mark.saturating_add(1) } else { *mark };
        }
        spans
    }

    pub(super) fn cut(self, skipped: &mut Vec<Skipped>) -> Outcome {
        skipped.clear();
        let Self { cut, state, applied, whole_behind: aside, touched, .. } = self;
        Outcome::new(cut.unwrap_or(state), applied, aside, touched)
    }

    pub(super) fn salvaged(self, skipped: &[Skipped]) -> Outcome {
        let mut aside = Vec::new();
        for record in skipped {
            add_span(&mut aside, record.seq, record.seq);
        }
        let touched = skipped.iter().filter_map(|record| record.task).collect();
        let applied = self.applied.saturating_add(self.applied_behind);
        Outcome::new(self.state, applied, aside, touched)
    }
}

/// Adds sequences that stand behind all before them.
fn add_span(spans: &mut Vec<Span>, first: u64, last: u64) {
    match spans.last_mut() {
        Some(span) if span.last.saturating_add(1) == first => span.last = last,
        _ => spans.push(Span { first, last }),
    }
}

/// The tasks that an event changes.
fn tasks_of(event: &Event) -> Vec<TaskId> {
    match event {
        Event::Heard(heard) => heard.holds.iter().map(|held| held.task).collect(),
        event => event.task().into_iter().collect(),
    }
}

/// The lowest id that is free by what the event says.
fn free_after(event: &Event) -> TaskId {
    match event {
        Event::Started(started) => started.next_task,
        event => {
            let named = tasks_of(event).into_iter().max();
            named.map_or(TaskId(0), |id| TaskId(id.0.saturating_add(1)))
        }
    }
}
