//! How one attempt is stopped: who was told what, and which signal is due when.

use crate::api::StopWord;
use crate::kernel::ids::Millis;
use tokio::time::Instant;

/// What is to be sent to the handler's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Push {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// A stop that an attempt has been ordered to make.
///
/// A handler that speaks on the control channel is told there and gets `cancel_grace` before
/// SIGTERM and `kill_grace` more before SIGKILL. Any other handler gets SIGTERM at once and
/// SIGKILL after `cancel_grace`. One on a thread is told and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stopping {
    word: StopWord,
    delivered: bool,
    terminate_at: Option<Instant>,
    kill_at: Option<Instant>,
}

impl Stopping {
    /// A first order. `spoke` says whether the handler has written to the control channel.
    pub(super) fn order(word: StopWord, spoke: bool, now: Instant, grace: Graces) -> Self {
        let cancel = now + grace.cancel.duration();
        let (terminate_at, kill_at) = match (word, spoke) {
            (StopWord::Superseded, _) => (None, now),
            (_, true) => (Some(cancel), cancel + grace.kill.duration()),
            (_, false) => (Some(now), cancel),
        };
        Self { word, delivered: false, terminate_at, kill_at: Some(kill_at) }
    }

    /// A first order to a handler on a thread, which no signal can end.
    pub(super) const fn ask(word: StopWord) -> Self {
        Self { word, delivered: false, terminate_at: None, kill_at: None }
    }

    /// A further order. The weightier word counts; the times of the first one stay, so that no
    /// order ever prolongs a stop.
    pub(super) fn order_again(&mut self, word: StopWord, now: Instant) {
        if weight(word) <= weight(self.word) {
            return;
        }
        self.word = word;
        if word == StopWord::Superseded {
            self.hurry(now);
        }
    }

    /// Skips the graces that are left.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.terminate_at = None;
        self.kill_at = self.kill_at.map(|_| now);
    }

    pub(super) const fn word(&self) -> StopWord {
        self.word
    }

    /// The handler learns of the stop from an answer.
    pub(super) const fn tell(&mut self) -> StopWord {
        self.delivered = true;
        self.word
    }

    /// The order the handler knows of, from an answer or a signal.
    pub(super) fn delivered(&self) -> Option<StopWord> {
        self.delivered.then_some(self.word)
    }

    /// The signal that is due, each only once.
    pub(super) fn due(&mut self, now: Instant) -> Option<Push> {
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.terminate_at = None;
            self.delivered = true;
            return Some(Push::Kill);
        }
        if self.terminate_at.is_some_and(|at| at <= now) {
            self.terminate_at = None;
            self.delivered = true;
            return Some(Push::Terminate);
        }
        None
    }

    /// When the next signal is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.terminate_at.or(self.kill_at)
    }
}

/// The two graces of a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Graces {
    pub(super) cancel: Millis,
    pub(super) kill: Millis,
}

/// What a person wants weighs more than what the worker wants; a lost lease more than anything.
const fn weight(word: StopWord) -> u8 {
    match word {
        StopWord::Shutdown => 0,
        StopWord::Timeout => 1,
        StopWord::Pause => 2,
        StopWord::Cancel => 3,
        StopWord::Superseded => 4,
    }
}
