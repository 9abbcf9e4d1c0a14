//! The rules: what a task may become, who may run it, and when. No IO, no clock, no dice.
//!
//! [`decide`] says what a command would change, as events; [`apply`](apply()) makes one event part of the
//! [`State`]. Both are pure, so everything above can be simulated, replayed and model-checked.
//! What follows from the clock (due tasks, ended leases) is looked up in the state and decided
//! in bounded steps; nothing cascades within one frame.
//!
//! Panics here would be broken invariants; there is none that a caller can cause. What must hold
//! is recomputed by [`State::check`].
#![warn(clippy::arithmetic_side_effects, clippy::wildcard_enum_match_arm)]

pub mod alerts;
mod apply;
pub mod calendar;
mod decide;
mod dispatch;
pub mod event;
pub mod figures;
pub mod ids;
mod idset;
mod index;
mod queue;
pub mod rules;
pub mod schedule;
pub mod shared;
mod state;
pub mod status;
mod table;
pub mod task;
pub mod task_type;
#[cfg(test)]
mod tests;
pub mod text;
pub mod verdict;

pub use apply::{IllegalEvent, apply};
pub use decide::{
    AlertAct, Answer, Change, Command, Decision, Edit, EndReport, HoldReport, NextRun, Proof,
    Rejection, ScheduleAct, TypeAct, decide,
};
pub use idset::IdSet;
pub use index::{Index, Tally};
pub use queue::{Queue, Rank};
pub use shared::Shared;
pub use state::{Head, Image, State, Worker};
pub use table::Table;
