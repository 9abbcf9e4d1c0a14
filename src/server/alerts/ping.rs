//! The dead-man's switch: somebody outside is told again and again that all is well, and notices
//! when that ends.

use super::courier::Line;
use crate::alerts;
use crate::config::Ping;
use crate::kernel::alerts::Grade;
use crate::server::hand::{Hand, Silence};
use std::time::Duration;

/// Longest time for the engine to answer; one that hangs is not well.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Pings until it is told to stop. Nothing is sent while anything critical stands that nobody has
/// acknowledged, or while the engine does not answer.
pub(super) fn keep(ping: &Ping, line: &Line, hand: &Hand) {
    loop {
        let answer = hand.read_within(ANSWER_TIME, |facts| {
            let mut standing = facts.engine.state().alerts().standing();
            standing.any(|alert| alert.grade == Grade::Critical && alert.acked.is_none())
        });
        if answer == Err(Silence::Gone) {
            return;
        }
        if answer == Ok(false) {
            let sent = alerts::ping(&ping.way);
            let why = sent.err();
            let told = why.clone();
            match (line.note(why), told) {
                (true, Some(why)) => tracing::warn!("the ping did not arrive: {why}"),
                (true, None) => tracing::info!("the ping arrives again"),
                (false, _) => {}
            }
        } else {
            let why = "it is withheld while something critical stands that nobody has \
                       acknowledged, or the engine does not answer";
            if line.note(Some(why.to_owned())) {
                tracing::warn!("no ping is sent: {why}");
            }
        }
        if !line.wait(Some(ping.every.duration()), false) {
            return;
        }
    }
}
