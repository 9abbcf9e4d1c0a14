//! Alerts: who is told, by which thread, and what only the host or the hour knows.
//!
//! Each channel of the config has a thread of its own that asks the engine what is due, sends it,
//! and has it recorded; a slow or dead channel delays nobody, neither the engine nor another
//! channel. What is due follows from the state alone, so a thread has nothing to remember.

mod courier;
mod ping;
mod routes;
mod runs;
mod silence;
#[cfg(test)]
mod tests;
mod view;
mod watch;

pub(crate) use courier::Post;
pub(crate) use routes::{ack, kept, list, test, view_of};
pub(crate) use view::join;
pub(super) use watch::keep_watch;

use crate::kernel::alerts::Rule;

/// How a point of attention names the alert that says the same: the rule, a space, the subject.
pub(crate) fn key(rule: Rule, subject: &str) -> String {
    format!("{} {subject}", rule.word())
}
