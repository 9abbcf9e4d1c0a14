//! What the keys of `[alerts.NAME]` and `[ping]` mean, and their bounds.

use super::fault::Fault;
use super::handlers::{check_short_name, command};
use super::keys;
use super::read::{Reader, Table, absolute_path, boolean, duration, integer, text, word};
use crate::kernel::alerts::{Channel, Grade};
use crate::kernel::ids::Millis;
use crate::limits::{ALERT_CHANNELS_MAX, ALERT_MESSAGES_PER_HOUR_MAX};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use toml::de::DeValue;

/// Channels at once: each has a thread.
const CHANNELS_MAX: usize = 16;
const _: () = assert!(CHANNELS_MAX <= ALERT_CHANNELS_MAX);

/// The largest `max_per_hour`.
const PER_HOUR_MAX: u32 = 60;
const _: () = assert!(PER_HOUR_MAX as usize == ALERT_MESSAGES_PER_HOUR_MAX);

/// Longest name of a channel.
const NAME_LETTERS_MAX: usize = 64;

const HOUR: Millis = Millis(3_600_000);

/// An address that is a secret, as those of webhooks are: whoever knows it may send. It is shown as
/// its scheme and host only.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// Reads an address. A refusal does not repeat it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !plain || host.contains('@') || URL_BYTES_MAX < text.len() {
            let form = "must be an address such as https://example.org/hook, without user or space";
            return Err(form.to_owned());
        }
        Ok(Self(text.to_owned()))
    }

    /// All of it, for who calls it and nobody else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Longest address.
const URL_BYTES_MAX: usize = 2048;

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or_default();
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let more = if host.len() < rest.len() { "/…" } else { "" };
        write!(f, "{scheme}://{host}{more}")
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where an address comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// It stands in the config.
    Url(SecretUrl),
    /// It is the first line of this file, which is read each time it is used.
    File(PathBuf),
}

/// How a channel takes what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A request.
    Webhook(Webhook),
    /// A program, with the notice as JSON on its standard input.
    Command(Vec<String>),
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its address.
    pub address: Address,
    /// The form of the request's body.
    pub style: Style,
    /// The file with the secret that requests are signed with.
    pub secret_file: Option<PathBuf>,
    /// Certificates that are believed in the place of the built-in ones.
    pub ca_file: Option<PathBuf>,
}

/// The form of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// An incoming webhook of Slack, and of what understands those.
    Slack,
    /// A custom robot of DingTalk.
    Dingtalk,
    /// A robot of a WeCom group.
    Wecom,
    /// A custom bot of Feishu or Lark.
    Feishu,
    /// All there is to tell, as `spec/alerts.md` says.
    Json,
}

impl Style {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("slack", Self::Slack),
        ("dingtalk", Self::Dingtalk),
        ("wecom", Self::Wecom),
        ("feishu", Self::Feishu),
        ("json", Self::Json),
    ];

    /// The style as the config has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Dingtalk => "dingtalk",
            Self::Wecom => "wecom",
            Self::Feishu => "feishu",
            Self::Json => "json",
        }
    }

    /// Whether its requests can be signed.
    const fn signs(self) -> bool {
        matches!(self, Self::Dingtalk | Self::Feishu)
    }
}

/// `[alerts.NAME]`: somebody who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertChannel {
    /// Of what, and how often.
    pub channel: Channel,
    /// How.
    pub way: Way,
    /// Whether it gets the hourly report too.
    pub report: bool,
}

/// `[ping]`: the dead-man's switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ping {
    /// What is done while all is well: a webhook is only asked for.
    pub way: Way,
    /// How often.
    pub every: Millis,
}

pub(super) fn read_alerts<'t>(
    reader: &mut Reader<'t>,
    top: &Table<'t>,
) -> BTreeMap<String, AlertChannel> {
    let mut channels = BTreeMap::new();
    let Some(all) = reader.any_table(top, "alerts") else { return channels };
    for (name, offset) in all.keys() {
        if let Err(fault) = check_short_name("channel of alerts", name, NAME_LETTERS_MAX) {
            reader.fault(offset, fault);
            continue;
        }
        if channels.len() == CHANNELS_MAX {
            let fault = Fault::new(format!("there are more than {CHANNELS_MAX} [alerts.NAME]"))
                .with_help("a webhook or a command may pass on to others what it is told");
            reader.fault(offset, fault);
            break;
        }
        let Some(table) = reader.table(&all, name, keys::ALERT) else { continue };
        let mut channel = Channel::new(name);
        read_channel(reader, &table, &mut channel);
        let mut report = false;
        reader.set(&table, "report", &mut report, boolean);
        let ways = ["webhook", "webhook_file", "command"];
        if let Some(way) = read_way(reader, &table, offset, ways) {
            channels.insert(name.to_owned(), AlertChannel { channel, way, report });
        }
    }
    channels
}

pub(super) fn read_ping<'t>(reader: &mut Reader<'t>, top: &Table<'t>) -> Option<Ping> {
    let table = reader.table(top, "ping", keys::PING)?;
    let offset = top.place("ping").unwrap_or_default();
    let mut every = Millis::secs(300);
    reader.set(&table, "every", &mut every, duration(Millis::secs(1)..=HOUR.times(24)));
    let way = read_way(reader, &table, offset, ["url", "url_file", "command"])?;
    Some(Ping { way, every })
}

fn read_channel<'t>(reader: &mut Reader<'t>, table: &Table<'t>, channel: &mut Channel) {
    let grades =
        word(&[("info", Grade::Info), ("warning", Grade::Warning), ("critical", Grade::Critical)]);
    reader.set(table, "min_level", &mut channel.min_grade, grades);
    reader.set(table, "group_wait", &mut channel.group_wait, duration(Millis(0)..=HOUR));
    let interval = duration(Millis(0)..=HOUR.times(24));
    reader.set(table, "group_interval", &mut channel.group_interval, interval);
    reader.set(table, "repeat", &mut channel.repeat, |value| {
        let repeat = duration(Millis(0)..=HOUR.times(24 * 31))(value)?;
        if repeat != Millis(0) && repeat < Millis::secs(60) {
            return Err(" must be 0s for never, or at least 1m".to_owned());
        }
        Ok(repeat)
    });
    reader.set(table, "max_per_hour", &mut channel.max_per_hour, integer(1..=PER_HOUR_MAX));
    reader.set(table, "send_resolved", &mut channel.send_resolved, boolean);
}

/// Exactly one of an address, a file with one, and a command.
fn read_way<'t>(
    reader: &mut Reader<'t>,
    table: &Table<'t>,
    offset: usize,
    ways: [&'static str; 3],
) -> Option<Way> {
    let [url, file, program] = ways;
    let named: Vec<_> = ways.into_iter().filter(|key| table.has(key)).collect();
    match named.as_slice() {
        [] => {
            let what = format!("`{}` is missing, or `{file}`, or `command`", table.name(url));
            let help = format!("say where it goes: {url} = \"https://example.org/hook\"");
            reader.fault(offset, Fault::new(what).with_help(help));
            return None;
        }
        [_] => {}
        [one, other, ..] => {
            let what = format!("`{}` and `{one}` exclude each other", table.name(other));
            reader.fault(table.place(other).unwrap_or(offset), Fault::new(what));
            return None;
        }
    }
    if table.has(program) {
        for key in ["style", "secret_file", "ca_file"] {
            if let Some(place) = table.place(key) {
                let what = format!("`{}` means nothing beside `command`", table.name(key));
                reader.fault(place, Fault::new(what));
            }
        }
        let mut parts = Vec::new();
        reader.set(table, program, &mut parts, command);
        return (!parts.is_empty()).then_some(Way::Command(parts));
    }
    let mut address = None;
    let named = |value: &DeValue<'t>| {
        let url = SecretUrl::parse(&text(value)?).map_err(|why| format!(" {why}"))?;
        Ok(Some(Address::Url(url)))
    };
    reader.set(table, url, &mut address, named);
    let path = |value: &DeValue<'t>| absolute_path(value).map(|path| Some(Address::File(path)));
    reader.set(table, file, &mut address, path);
    let mut webhook =
        Webhook { address: address?, style: Style::Json, secret_file: None, ca_file: None };
    reader.set(table, "style", &mut webhook.style, word(Style::WORDS));
    let path = |value: &DeValue<'t>| absolute_path(value).map(Some);
    reader.set(table, "secret_file", &mut webhook.secret_file, path);
    reader.set(table, "ca_file", &mut webhook.ca_file, path);
    if let Some(place) = table.place("secret_file").filter(|_| !webhook.style.signs()) {
        let what = format!("`{}` means nothing for this style", table.name("secret_file"));
        let fault = Fault::new(what).with_help("only dingtalk and feishu sign their requests");
        reader.fault(place, fault);
    }
    Some(Way::Webhook(webhook))
}
