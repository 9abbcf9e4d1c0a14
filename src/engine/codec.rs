//! Events as bytes: the kind number and the CBOR body of each record.
//!
//! A body is a map: 0 wall clock, 1 life clock, 2 service clock, 3 actor, 4 the event's own map
//! (`spec/records.cddl`). The sequence number is the record's place and is not repeated. A number
//! here is never used again for something else.

use crate::kernel::event::{Actor, Event, Stamp};
use crate::kernel::figures::{AllFigures, TypeFigures};
use crate::kernel::ids::{LifeTime, Seq, ServiceTime, Timestamp};
use crate::kernel::{Head, Worker};
use minicbor::{Decode, Encode};
use std::fmt;

/// First of the kinds that stand in snapshots only.
pub const SNAPSHOT_KINDS: u16 = 1000;
/// What a snapshot knows besides tasks and workers.
pub const KIND_HEAD: u16 = 1000;
/// A worker in a snapshot.
pub const KIND_WORKER: u16 = 1001;
/// A task in a snapshot.
pub const KIND_TASK: u16 = 1002;
/// A task type in a snapshot, of which something is known beyond its tasks.
pub const KIND_TYPE: u16 = 1003;
/// A schedule in a snapshot.
pub const KIND_SCHEDULE: u16 = 1004;
/// What was counted over all types, in a snapshot.
pub const KIND_FIGURES: u16 = 1005;
/// What was counted of one type, in a snapshot.
pub const KIND_TYPE_FIGURES: u16 = 1006;
/// The alerts in a snapshot, and who was told of them.
pub const KIND_ALERTS: u16 = 1007;

#[derive(Encode)]
#[cbor(map)]
struct Written<'a, E> {
    #[n(0)]
    wall: Timestamp,
    #[n(1)]
    life: LifeTime,
    #[n(2)]
    service: ServiceTime,
    #[n(3)]
    by: &'a Actor,
    #[n(4)]
    event: &'a E,
}

#[derive(Decode)]
#[cbor(map)]
struct Read<E> {
    #[n(0)]
    wall: Timestamp,
    #[n(1)]
    life: LifeTime,
    #[n(2)]
    service: ServiceTime,
    #[n(3)]
    by: Actor,
    #[n(4)]
    event: E,
}

/// Why a record could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// The kind is not known to this version.
    UnknownKind(u16),
    /// The body is not what the kind promises.
    Body {
        /// The kind.
        kind: u16,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(kind) => {
                write!(f, "a record of kind {kind}, which this version does not know")
            }
            Self::Body { kind, why } => write!(f, "the body of a record of kind {kind}: {why}"),
        }
    }
}

impl std::error::Error for CodecError {}

/// Writes the kinds once, for both directions.
macro_rules! kinds {
    ($($number:literal $variant:ident),* $(,)?) => {
        /// The kind number of an event.
        pub const fn kind(event: &Event) -> u16 {
            match event { $(Event::$variant(_) => $number),* }
        }

        /// Appends the body of a record to `out`.
        pub fn encode(stamp: &Stamp, event: &Event, out: &mut Vec<u8>) {
            match event { $(Event::$variant(event) => put(stamp, event, out)),* }
        }

        /// Reads a record back.
        pub fn decode(seq: Seq, kind: u16, body: &[u8]) -> Result<(Stamp, Event), CodecError> {
            match kind {
                $($number => {
                    let Read { wall, life, service, by, event } = whole(kind, body)?;
                    Ok((Stamp { seq, wall, life, service, by }, Event::$variant(event)))
                })*
                _ => Err(CodecError::UnknownKind(kind)),
            }
        }
    };
}

kinds! {
    1 Submitted,
    2 Leased,
    3 Heard,
    4 Checkpointed,
    5 Ended,
    6 Moved,
    7 StopRequested,
    8 Hurried,
    9 WorkerJoined,
    10 WorkerMoved,
    11 Refused,
    12 Started,
    13 Forgotten,
    14 TypePaused,
    15 TypeResumed,
    16 TypeLimited,
    17 Edited,
    18 WorkerChanged,
    19 ClockStepped,
    20 ScheduleSet,
    21 ScheduleRemoved,
    22 SchedulePaused,
    23 ScheduleResumed,
    24 Fired,
    25 Released,
    26 AlertRaised,
    27 AlertCleared,
    28 AlertAcked,
    29 AlertsTold,
}

fn put<E: Encode<()>>(stamp: &Stamp, event: &E, out: &mut Vec<u8>) {
    let Stamp { seq: _, wall, life, service, by } = stamp;
    put_plain(&Written { wall: *wall, life: *life, service: *service, by, event }, out);
}

/// Appends a value of a snapshot to `out`.
#[expect(
    clippy::expect_used,
    reason = "a Vec takes every byte, and no type here refuses to encode"
)]
pub(super) fn put_plain<T: Encode<()>>(value: &T, out: &mut Vec<u8>) {
    minicbor::encode(value, out).expect("encoding into memory");
}

/// Decodes all of `body`: what follows the value is an error, not a remark.
pub(super) fn whole<'b, T: Decode<'b, ()>>(kind: u16, body: &'b [u8]) -> Result<T, CodecError> {
    let mut decoder = minicbor::Decoder::new(body);
    let wrong = |why: String| CodecError::Body { kind, why };
    let value = decoder.decode().map_err(|error| wrong(error.to_string()))?;
    if decoder.position() != body.len() {
        return Err(wrong(format!(
            "{} bytes, of which {} are used",
            body.len(),
            decoder.position()
        )));
    }
    Ok(value)
}

/// A value that stands in a snapshot.
#[derive(Clone, Debug)]
pub enum Kept {
    /// What is known besides.
    Head(Head),
    /// A worker.
    Worker(Worker),
    /// A task. Not in a box: at a start another thread takes it, and would have to free the box.
    Task(crate::kernel::task::Task),
    /// A task type.
    Type(crate::kernel::task_type::TaskType),
    /// A schedule.
    Schedule(crate::kernel::schedule::Schedule),
    /// What was counted over all types.
    Figures(Box<AllFigures>),
    /// What was counted of one type.
    TypeFigures(Box<TypeFigures>),
    /// The alerts.
    Alerts(crate::kernel::alerts::Alerts),
}

/// Reads a snapshot's record.
pub fn decode_kept(kind: u16, body: &[u8]) -> Result<Kept, CodecError> {
    match kind {
        KIND_HEAD => whole(kind, body).map(Kept::Head),
        KIND_WORKER => whole(kind, body).map(Kept::Worker),
        KIND_TASK => whole(kind, body).map(Kept::Task),
        KIND_TYPE => whole(kind, body).map(Kept::Type),
        KIND_SCHEDULE => whole(kind, body).map(Kept::Schedule),
        KIND_FIGURES => whole(kind, body).map(Box::new).map(Kept::Figures),
        KIND_TYPE_FIGURES => whole(kind, body).map(Box::new).map(Kept::TypeFigures),
        KIND_ALERTS => whole(kind, body).map(Kept::Alerts),
        _ => Err(CodecError::UnknownKind(kind)),
    }
}
