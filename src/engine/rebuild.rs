//! From the records of a snapshot and a journal back to the state, in two steps: [`Piece`] is one
//! record decoded, which needs no state, and [`Fold`] puts the pieces together. [`Rebuild`] does
//! one after the other; a host with a second core may do them side by side.

use super::codec::{self, CodecError, Kept};
use crate::defect::Defect;
use crate::journal::{Record, Replay};
use crate::kernel::alerts::Alerts;
use crate::kernel::event::{Event, Stamp};
use crate::kernel::figures::Figures;
use crate::kernel::ids::Seq;
use crate::kernel::schedule::Schedule;
use crate::kernel::task_type::TaskType;
use crate::kernel::text::Text;
use crate::kernel::{Head, Image, Shared, State, Table, Worker, apply};
use std::collections::BTreeMap;

/// One record, decoded.
#[derive(Debug)]
pub enum Piece {
    /// Of a snapshot.
    Kept(Kept),
    /// Of the journal.
    Event(Stamp, Event),
}

impl Piece {
    /// A record of a snapshot; none when nobody needs to know its kind.
    pub fn of_snapshot(record: Record<'_>) -> Result<Option<Self>, String> {
        unless_ignorable(codec::decode_kept(record.kind, record.body).map(Self::Kept), record)
    }

    /// The type of the task that it brings.
    pub fn kind_mut(&mut self) -> Option<&mut Text> {
        match self {
            Self::Kept(Kept::Task(task)) => Some(&mut task.kind),
            Self::Event(_, Event::Submitted(submitted)) => Some(&mut submitted.spec.kind),
            Self::Event(_, Event::Fired(fired)) => {
                fired.task.as_mut().map(|submitted| &mut submitted.spec.kind)
            }
            Self::Kept(
                Kept::Head(_)
                | Kept::Worker(_)
                | Kept::Type(_)
                | Kept::Schedule(_)
                | Kept::Figures(_)
                | Kept::TypeFigures(_)
                | Kept::Alerts(_),
            )
            | Self::Event(..) => None,
        }
    }

    /// A record of the journal; none when nobody needs to know its kind.
    pub fn of_journal(seq: u64, record: Record<'_>) -> Result<Option<Self>, String> {
        let decoded = codec::decode(Seq(seq), record.kind, record.body);
        unless_ignorable(decoded.map(|(stamp, event)| Self::Event(stamp, event)), record)
    }
}

/// An unknown kind stops the replay unless the writer said that it may be skipped.
fn unless_ignorable<T>(
    decoded: Result<T, CodecError>,
    record: Record<'_>,
) -> Result<Option<T>, String> {
    match decoded {
        Ok(value) => Ok(Some(value)),
        Err(CodecError::UnknownKind(_)) if record.ignorable || Defect::SkipUnknownKind.is_on() => {
            Ok(None)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Puts pieces together, in the order of their records.
#[derive(Default)]
pub struct Fold {
    head: Option<Head>,
    tasks: Table,
    workers: BTreeMap<crate::kernel::ids::WorkerId, Worker>,
    types: BTreeMap<Text, TaskType>,
    schedules: BTreeMap<Text, Shared<Schedule>>,
    figures: Option<Figures>,
    alerts: Alerts,
    state: Option<State>,
}

impl Fold {
    /// Adds one. An error says what does not fit; the fold is of no use then.
    pub fn take(&mut self, piece: Piece) -> Result<(), String> {
        match piece {
            Piece::Kept(Kept::Head(head)) => self.head = Some(head),
            Piece::Kept(Kept::Worker(worker)) => {
                self.workers.insert(worker.id, worker);
            }
            Piece::Kept(Kept::Type(known)) => {
                self.types.insert(known.kind.clone(), known);
            }
            Piece::Kept(Kept::Schedule(schedule)) => {
                self.schedules.insert(schedule.name.clone(), Shared::new(schedule));
            }
            Piece::Kept(Kept::Figures(all)) => {
                self.figures.get_or_insert_default().all = Shared::new(*all);
            }
            Piece::Kept(Kept::TypeFigures(figures)) => {
                let types = &mut self.figures.get_or_insert_default().types;
                types.insert(figures.kind.clone(), Shared::new(*figures));
            }
            Piece::Kept(Kept::Alerts(alerts)) => self.alerts = alerts,
            Piece::Kept(Kept::Task(mut task)) => {
                if Defect::ForgetCheckpoint.is_on() {
                    task.life.iter_mut().for_each(|life| life.checkpoint = None);
                }
                task.check()?;
                let id = task.id;
                if !self.tasks.insert(task) {
                    return Err(format!("task {id} stands in the snapshot twice"));
                }
            }
            Piece::Event(stamp, event) => {
                let applied = apply(self.state(), &stamp, &event);
                return applied.map_err(|illegal| illegal.to_string());
            }
        }
        Ok(())
    }

    /// The state, once everything was taken.
    pub fn finish(mut self) -> State {
        self.state();
        self.state.unwrap_or_default()
    }

    /// The state so far; the first call closes the snapshot.
    fn state(&mut self) -> &mut State {
        self.state.get_or_insert_with(|| {
            State::restore(Image {
                head: self.head.take().unwrap_or_default(),
                tasks: std::mem::take(&mut self.tasks),
                workers: std::mem::take(&mut self.workers),
                types: std::mem::take(&mut self.types),
                schedules: std::mem::take(&mut self.schedules),
                figures: self.figures.take(),
                alerts: std::mem::take(&mut self.alerts),
            })
        })
    }
}

/// A replay from which the state comes in the end.
pub trait Rebuilding: Replay {
    /// The state, once the journal is open.
    fn finish(self) -> State;
}

/// Rebuilds a state on the thread that reads.
#[derive(Default)]
pub struct Rebuild(Fold);

impl Rebuilding for Rebuild {
    fn finish(self) -> State {
        self.0.finish()
    }
}

impl Replay for Rebuild {
    fn snapshot_begin(&mut self, _seq: u64) -> Result<(), String> {
        self.0 = Fold::default();
        Ok(())
    }

    fn snapshot_failed(&mut self) {
        self.0 = Fold::default();
    }

    fn snapshot_record(&mut self, record: Record<'_>) -> Result<(), String> {
        Piece::of_snapshot(record)?.map_or(Ok(()), |piece| self.0.take(piece))
    }

    fn record(&mut self, seq: u64, record: Record<'_>) -> Result<(), String> {
        Piece::of_journal(seq, record)?.map_or(Ok(()), |piece| self.0.take(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::State;
    use crate::kernel::event::Submitted;
    use crate::kernel::ids::{LifeTime, ServiceTime, TaskId, Timestamp};
    use crate::kernel::status::Status;
    use crate::kernel::task::TaskSpec;

    /// A snapshot with whole checksums may still have been made by nobody we know.
    #[test]
    fn a_task_of_a_snapshot_whose_status_does_not_fit_it_is_refused() {
        let mut state = State::default();
        let spec = TaskSpec::new("job", "1");
        let event = Event::Submitted(Submitted { task: TaskId(1), spec, due: LifeTime(0) });
        let stamp = Stamp {
            seq: Seq(1),
            wall: Timestamp(0),
            life: LifeTime(0),
            service: ServiceTime(0),
            by: crate::kernel::event::Actor::Daemon,
        };
        apply(&mut state, &stamp, &event).unwrap();
        let mut task = state.task(TaskId(1)).unwrap().clone();
        for status in Status::ALL.iter().filter(|status| status.is_leased()) {
            task.status = *status;
            let refused = Fold::default().take(Piece::Kept(Kept::Task(task.clone())));
            let said = format!("task 1 is {status} and its lease does not fit that");
            assert_eq!(refused, Err(said));
        }
        task.status = Status::Pending;
        Fold::default().take(Piece::Kept(Kept::Task(task))).unwrap();
    }
}
