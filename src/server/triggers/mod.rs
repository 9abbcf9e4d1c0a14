//! What makes tasks from outside without a client: signed webhooks, and files in a directory
//! (`spec/triggers.md`).
//!
//! Both reach the engine as any request does, and both hold what they bring to the same limits. A
//! payload that does not fit its type's schema is recorded as a task that has failed, for nobody
//! hears a refusal here.

pub(crate) mod hooks;
pub(crate) mod inbox;
mod signature;
