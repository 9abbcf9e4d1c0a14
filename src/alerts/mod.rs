//! How a message reaches a channel: bodies in the form of each service, requests, programs.
//!
//! Knows no engine and no state: a message comes in, and whether it arrived goes out. Everything
//! here may block for as long as its time-outs say, so it runs on threads that nobody waits for.
//! An address is a secret and stands in no error and no log line.

mod body;
mod program;
mod web;

pub use body::text;

use crate::api::{MESSAGE_TIME_MAX as TIME_MAX, NoticeView};
use crate::config::Way;

/// Most bytes of an answer, or of a program's output, that are looked at.
const ANSWER_BYTES_MAX: u64 = 4 << 10;

/// Sends a message; an error says why it did not arrive, without the address.
pub fn send(way: &Way, notice: &NoticeView) -> Result<(), String> {
    match way {
        Way::Webhook(webhook) => web::post(webhook, notice),
        Way::Command(command) => {
            let json = serde_json::to_vec(notice).map_err(|error| error.to_string())?;
            program::run(command, &json)
        }
    }
}

/// Tells somebody outside that all is well.
pub fn ping(way: &Way) -> Result<(), String> {
    match way {
        Way::Webhook(webhook) => web::get(webhook),
        Way::Command(command) => program::run(command, b""),
    }
}

/// Whether the files that a way names can be read and are what they should be, and its program
/// is there.
pub fn check(way: &Way) -> Result<(), String> {
    match way {
        Way::Webhook(webhook) => web::check(webhook),
        Way::Command(command) => program::check(command),
    }
}
