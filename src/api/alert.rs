//! Alerts as clients and channels see them.

use crate::kernel::ids::TaskId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Answer to `GET /v1/alerts`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Alerts {
    /// Those that stand, worst and newest first, then those that are over.
    pub alerts: Vec<AlertView>,
    /// The channels of the config.
    pub channels: Vec<ChannelView>,
}

/// One alert.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AlertView {
    /// Its number; what it is acknowledged by.
    pub id: u64,
    /// What is wrong, as a stable word.
    pub rule: String,
    /// With what.
    pub subject: String,
    /// `info`, `warning` or `critical`.
    pub level: String,
    /// What is wrong, in one line.
    pub what: String,
    /// `standing`, `over` or `flapping`.
    pub state: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// When it was last said, RFC 3339.
    pub last: String,
    /// When it was over, RFC 3339.
    pub over: Option<String>,
    /// How often it was said since.
    pub count: u32,
    /// Who acknowledged it, and when.
    pub acked: Option<super::OrderView>,
    /// The last task that failed.
    pub task: Option<FailedTask>,
    /// What helps, in a sentence.
    pub action: String,
    /// What the config advises for its type.
    pub advice: Option<String>,
    /// Whom the config names for its type.
    pub contact: Option<String>,
    /// Commands that show more.
    pub commands: Vec<String>,
}

/// The task that an alert tells of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTask {
    /// Its id.
    pub id: TaskId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `DEAD` or `FAILED`.
    pub status: String,
    /// Why.
    pub reason: String,
    /// Attempts it had.
    pub attempts: u32,
    /// Retries of these.
    pub retries: u32,
    /// The first line of its error.
    pub error: Option<String>,
    /// The command that prints its log.
    pub log: String,
}

/// A channel of the config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelView {
    /// Its name.
    pub name: String,
    /// The least level that it is told of.
    pub min_level: String,
    /// Why the last message did not reach it; absent while all is well.
    pub trouble: Option<String>,
}

/// Answer to acknowledging an alert.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AlertActed {
    /// The alert as it is now.
    #[serde(flatten)]
    pub view: AlertView,
    /// Whether anything changed.
    pub changed: bool,
}

/// Body of `POST /v1/alerts/test`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestRequest {
    /// The channel; absent means each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// Longest time for one message to a channel, all of it. So a test is answered within it, whatever
/// the channels do.
pub const MESSAGE_TIME_MAX: Duration = Duration::from_secs(15);

/// Answer to a test: what became of each message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tested {
    /// One for each channel.
    pub channels: Vec<TestedChannel>,
}

/// What became of one test message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedChannel {
    /// The channel.
    pub name: String,
    /// Whether it took the message.
    pub ok: bool,
    /// Why not.
    pub error: Option<String>,
}

/// One message to a channel: what a command reads on its standard input, and the body of a webhook
/// in style `json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoticeView {
    /// The channel.
    pub channel: String,
    /// The worst level of what stands; `info` where all is over.
    pub level: String,
    /// The message in one line.
    pub title: String,
    /// Name of the host.
    pub host: String,
    /// When it was made, RFC 3339.
    pub at: String,
    /// Whether it is a test, and nothing is wrong.
    pub test: bool,
    /// What it tells: the worst first.
    pub alerts: Vec<NoticeItem>,
    /// How many more there are, which `midwatch alerts` lists.
    pub more: usize,
    /// Where it is the hourly report: a line for each type of which something was counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub report: Vec<String>,
}

/// What a message says of one alert.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoticeItem {
    /// What is said: `stands`, `over` or `flapping`.
    pub says: String,
    /// Whether the same was said before.
    pub again: bool,
    /// In one line.
    pub text: String,
    /// The alert.
    #[serde(flatten)]
    pub alert: AlertView,
}
