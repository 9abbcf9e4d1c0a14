//! What travels between the daemon and its clients and workers, as JSON over HTTP.
//!
//! These shapes are the contract of `spec/api.md`: the server, the worker and the command line
//! all use them, so none of them can drift. They carry data only; nothing here decides.

mod alert;
mod problem;
mod schedule;
mod stats;
mod task;
mod types;
mod worker;

pub use alert::*;
pub use problem::{Code, Problem};
pub use schedule::*;
pub use stats::*;
pub use task::*;
pub use types::*;
pub use worker::*;
