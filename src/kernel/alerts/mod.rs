//! What is wrong, and who was told: the alerts and what each channel knows of them.
//!
//! An alert is state, named by a rule and a subject. What the kernel sees for itself (a task that
//! is DEAD, a worker that is gone) is raised and cleared by [`apply`](super::apply()) of the very
//! event, so it costs no record of its own and no crash can come between. What only the host or the
//! hour knows comes as events of its own. Which notice is due on a channel follows from the state
//! alone ([`due`]); that a channel was told is an event, so no restart repeats a storm.
//!
//! Costs a search among at most [`ALERTS_MAX`] alerts for each task that ends.

mod due;
mod raise;
mod rule;
mod words;

pub use due::{Due, Item, Notice, due};
pub(super) use raise::{note, worker_gone};
pub use rule::{Grade, Rule};
pub use words::DETAIL_BYTES_MAX;

use super::event::Jump;
use super::ids::{LifeTime, Millis, TaskId, Timestamp};
use super::status::{Reason, Status, words};
use super::task_type::Order;
use super::text::Text;
use crate::limits::{ALERT_CHANNELS_MAX, ALERTS_MAX};
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

/// Failures one after the other that make an alert critical.
pub const CRITICAL_FAILURES: u32 = 3;

/// So many changes within [`FLAPPING_SPAN`] are flapping.
pub const FLAPPING_CHANGES: usize = 5;

/// The span in which changes are counted.
pub const FLAPPING_SPAN: Millis = Millis::secs(30 * 60);

/// What flaps has settled when it has not changed for so long.
pub const SETTLED_AFTER: Millis = Millis::secs(15 * 60);

/// An alert that is over is forgotten after this.
pub const FORGOTTEN_AFTER: Millis = Millis::secs(7 * 24 * 3600);

words! {
    /// What a channel was last told of an alert.
    Saying {
        /// That it is so.
        0 Stands "stands",
        /// That it is over.
        1 Over "over",
        /// That it comes and goes.
        2 Flaps "flapping",
    }
}

/// One thing that is wrong, or was.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Alert {
    /// Its number; what people acknowledge it by.
    #[n(0)]
    pub number: u64,
    /// What is wrong.
    #[n(1)]
    pub rule: Rule,
    /// With what.
    #[n(2)]
    pub subject: Text,
    /// How bad it is.
    #[n(3)]
    pub grade: Grade,
    /// Since when, by the wall clock.
    #[n(4)]
    pub since: Timestamp,
    /// When it was last said.
    #[n(5)]
    pub last: Timestamp,
    /// The same on the life clock.
    #[n(6)]
    pub said: LifeTime,
    /// How often it was said since.
    #[n(7)]
    pub count: u32,
    /// Counts what happened to it; a later change has a larger number than any before.
    #[n(8)]
    pub edition: u64,
    /// The edition in which it came, or became worse.
    #[n(9)]
    pub came: u64,
    /// When that was.
    #[n(10)]
    pub came_at: LifeTime,
    /// When it was over; absent while it stands.
    #[n(11)]
    pub over: Option<LifeTime>,
    /// The same by the wall clock.
    #[n(12)]
    pub over_at: Option<Timestamp>,
    /// Who knows of it and wants to hear no more until it comes back.
    #[n(13)]
    pub acked: Option<Order>,
    /// When it came and went lately, oldest first.
    #[n(14)]
    pub changes: VecDeque<LifeTime>,
    /// Since when it comes and goes.
    #[n(15)]
    pub flaps: Option<LifeTime>,
    /// The words of who raised it, where that was not an event.
    #[n(16)]
    pub what: Option<Text>,
    /// The last task that failed.
    #[n(17)]
    pub failure: Option<Failure>,
    /// Why a worker is gone.
    #[n(18)]
    pub reason: Option<Reason>,
    /// How the clock was put.
    #[n(19)]
    pub step: Option<Jump>,
}

/// A task that ended DEAD or FAILED, as far as an alert tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Failure {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// Its type.
    #[n(1)]
    pub kind: Text,
    /// DEAD or FAILED.
    #[n(2)]
    pub status: Status,
    /// Why.
    #[n(3)]
    pub reason: Reason,
    /// Attempts it had.
    #[n(4)]
    pub attempts: u32,
    /// Retries of these.
    #[n(5)]
    pub retries: u32,
    /// The first line of its error.
    #[n(6)]
    pub error: Option<Text>,
}

/// What a channel was last told of one alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Told {
    /// Number of the alert.
    #[n(0)]
    pub alert: u64,
    /// Its edition at that time.
    #[n(1)]
    pub edition: u64,
    /// What was said.
    #[n(2)]
    pub saying: Saying,
    /// When it was last said.
    #[n(3)]
    pub at: LifeTime,
}

/// What a channel knows.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Known {
    /// The channel.
    #[n(0)]
    pub channel: Text,
    /// Since when there is such a channel: what was over before is no news.
    #[n(1)]
    pub since: LifeTime,
    /// When it was sent messages within the last hour, oldest first.
    #[n(2)]
    pub sent: VecDeque<LifeTime>,
    /// What it was told, by number of the alert.
    #[n(3)]
    pub told: Vec<Told>,
}

/// All alerts, and what each channel knows of them.
#[expect(clippy::struct_field_names, reason = "the records call them so")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Alerts {
    /// The number of the last alert that was made.
    #[n(0)]
    pub last: u64,
    /// The last edition of any alert: another one means that something is new.
    #[n(1)]
    pub edition: u64,
    /// The alerts, by rule and subject.
    #[n(2)]
    pub alerts: Vec<Alert>,
    /// The channels, by name.
    #[n(3)]
    pub channels: Vec<Known>,
}

/// How a channel wants to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its name.
    pub name: Text,
    /// The least grade that it is told of.
    pub min_grade: Grade,
    /// From the first thing that is new to its message, so that what comes together is told
    /// together.
    pub group_wait: Millis,
    /// From one message to the next, unless something critical is new.
    pub group_interval: Millis,
    /// From one telling of what stands to the next; zero for never.
    pub repeat: Millis,
    /// Messages in an hour.
    pub max_per_hour: u32,
    /// Whether it is told that something is over.
    pub send_resolved: bool,
}

impl Channel {
    /// A channel with the defaults.
    pub fn new(name: impl Into<Text>) -> Self {
        Self {
            name: name.into(),
            min_grade: Grade::Warning,
            group_wait: Millis::secs(10),
            group_interval: Millis::secs(5 * 60),
            repeat: Millis::secs(4 * 3600),
            max_per_hour: 20,
            send_resolved: true,
        }
    }
}

impl Alert {
    /// Whether it is so now.
    pub const fn stands(&self) -> bool {
        self.over.is_none()
    }

    /// When it last came or went.
    fn changed(&self) -> LifeTime {
        self.changes.back().copied().unwrap_or(self.came_at)
    }

    /// Whether it comes and goes, and has not settled by `now`.
    pub fn is_flapping(&self, now: LifeTime) -> bool {
        self.flaps.is_some() && now < self.changed().after(SETTLED_AFTER)
    }
}

impl Known {
    /// What the channel was told of that alert.
    fn told(&self, alert: u64) -> Option<&Told> {
        let place = self.told.binary_search_by_key(&alert, |told| told.alert).ok()?;
        self.told.get(place)
    }
}

impl Alerts {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All of them, by rule and subject: those that stand, and those that are over.
    pub fn iter(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter()
    }

    /// Those that stand.
    pub fn standing(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|alert| alert.stands())
    }

    /// The alert of that rule and subject.
    pub fn get(&self, rule: Rule, subject: &str) -> Option<&Alert> {
        self.alerts.get(self.place(rule, subject).ok()?)
    }

    /// The alert with that number.
    pub fn numbered(&self, number: u64) -> Option<&Alert> {
        self.alerts.iter().find(|alert| alert.number == number)
    }

    /// What a channel knows, if it was ever heard of.
    pub fn channel(&self, name: &str) -> Option<&Known> {
        let place = self.channels.binary_search_by(|known| (*known.channel).cmp(name)).ok()?;
        self.channels.get(place)
    }

    fn place(&self, rule: Rule, subject: &str) -> Result<usize, usize> {
        self.alerts.binary_search_by(|alert| (alert.rule, &*alert.subject).cmp(&(rule, subject)))
    }

    /// Whether they can be as they are; the first thing that can't, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        if ALERTS_MAX < self.alerts.len() || ALERT_CHANNELS_MAX < self.channels.len() {
            return Err("more alerts are kept than may be".to_owned());
        }
        let keys: Vec<_> = self.alerts.iter().map(|alert| (alert.rule, &alert.subject)).collect();
        if !keys.is_sorted_by(|one, other| one < other) {
            return Err("the alerts are out of order".to_owned());
        }
        let numbers: BTreeSet<_> = self.alerts.iter().map(|alert| alert.number).collect();
        if numbers.len() != self.alerts.len() || numbers.last().is_some_and(|it| self.last < *it) {
            return Err("two alerts have one number".to_owned());
        }
        for alert in &self.alerts {
            let Alert { number, edition, came, changes, .. } = alert;
            if self.edition < *edition || edition < came {
                return Err(format!("alert {number} is ahead of its editions"));
            }
            if FLAPPING_CHANGES < changes.len() || !changes.iter().is_sorted() {
                return Err(format!("the changes of alert {number} are out of order"));
            }
        }
        if !self.channels.is_sorted_by(|one, other| one.channel < other.channel) {
            return Err("the channels are out of order".to_owned());
        }
        for Known { channel, told, .. } in &self.channels {
            let sorted = told.is_sorted_by(|one, other| one.alert < other.alert);
            if !sorted || !told.iter().all(|told| numbers.contains(&told.alert)) {
                return Err(format!("channel {channel} was told of alerts that are not there"));
            }
        }
        Ok(())
    }
}
