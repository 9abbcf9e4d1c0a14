//! The values in force, each with where it came from.

use super::{
    Address, AlertChannel, Config, Handler, Hook, Inbox, Limits, Ping, Retry, Way, Webhook,
};
use crate::kernel::alerts::Channel;
use crate::kernel::ids::Millis;
use crate::kernel::rules::Reserve;
use crate::kernel::schedule::{Fold, Gap, Plan, ScheduleSpec};
use crate::units;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use toml::Value;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// A line of the config file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// This environment variable.
    Environment(&'static str),
    /// This flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One value in force.
#[derive(Clone, Debug, Serialize)]
pub struct Effective {
    /// Path of its key, such as `worker.slots`.
    pub key: String,
    /// The value, in the form the config has it; none where there is no limit or no such thing.
    pub value: Option<Value>,
    /// `default`, `FILE:LINE`, `environment NAME` or `flag --NAME`.
    #[serde(serialize_with = "as_text")]
    pub origin: Origin,
}

fn as_text<S: serde::Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(origin)
}

/// Gathers values below one path.
struct Values<'c> {
    config: &'c Config,
    all: Vec<Effective>,
}

impl Config {
    /// Every value in force, in the order of the document.
    pub fn effective(&self) -> Vec<Effective> {
        let mut values = Values { config: self, all: Vec::new() };
        values.put("data_dir", text(self.data_dir.display().to_string()));
        values.put("socket", text(self.socket.display().to_string()));
        values.put("journal.fsync", text(self.journal.fsync.word()));
        values.put("journal.on_suspicious_tail", text(self.journal.on_suspicious_tail.word()));
        values.put("journal.segment_size", size(self.journal.segment_size));
        values.put("journal.snapshot_after", size(self.journal.snapshot_after));
        values.put("journal.reserve", size(self.journal.reserve));
        values.put("worker.processes", number(self.worker.processes));
        values.put("worker.slots", number(self.worker.slots));
        values.put("worker.heartbeat", duration(self.worker.heartbeat));
        values.put("worker.suspect_after", duration(self.worker.suspect_after));
        values.put("worker.offline_after", duration(self.worker.offline_after));
        values.put("worker.memory_max", self.worker.memory_max.map(size));
        values.retry("retry", &self.retry);
        values.put("retention.finished", duration(self.retention.finished));
        values.put("retention.max_finished", number(self.retention.max_finished));
        values.put("retention.keys", duration(self.retention.keys));
        values.put("retention.logs", size(self.retention.logs));
        let archive = self.retention.archive.as_ref();
        values.put("retention.archive", archive.map(|path| text(path.display().to_string())));
        values.put("retention.max_state", size(self.retention.max_state));
        values.put("dispatch.promote_after", duration(self.dispatch.promote_after));
        let reserve = &self.dispatch.reserve;
        let kept = (!reserve.is_empty()).then(|| list(reserve, |kept| kept_slots(*kept)));
        values.put("dispatch.reserve", kept);
        values.put("log.level", text(self.log.level.word()));
        values.put("log.format", text(self.log.format.word()));
        values.put("log.dir", self.log.dir.word().map(text));
        values.put("log.rotate", text(self.log.rotate.word()));
        values.put("log.max_size", size(self.log.max_size));
        values.put("log.keep", number(self.log.keep));
        values.put("log.compress", Value::Boolean(self.log.compress));
        values.put("http.socket_group", self.http.socket_group.as_ref().map(text));
        values.put("http.operate_group", self.http.operate_group.as_ref().map(text));
        values.put("http.listen", self.http.listen.map(|listen| text(listen.to_string())));
        let tokens = self.http.token_file.as_ref();
        values.put("http.token_file", tokens.map(|path| text(path.display().to_string())));
        let hosts = &self.http.hosts;
        values.put("http.hosts", Some(list(hosts, |name| text(name))));
        values.put("http.open_metrics", Value::Boolean(self.http.open_metrics));
        values.put("clock.wait_for_sync", Value::Boolean(self.clock.wait_for_sync));
        for (name, handler) in &self.handlers {
            values.handler(&format!("handlers.{}", segment(name)), handler);
        }
        for (name, schedule) in &self.schedules {
            values.schedule(&format!("schedules.{}", segment(name)), schedule);
        }
        values.inbox(self.inbox.as_ref());
        for (name, hook) in &self.hooks {
            values.hook(&format!("hooks.{}", segment(name)), hook);
        }
        for (name, channel) in &self.alerts {
            values.channel(&format!("alerts.{}", segment(name)), channel);
        }
        values.ping(self.ping.as_ref());
        values.all
    }
}

impl Values<'_> {
    fn put(&mut self, key: &str, value: impl Into<Option<Value>>) {
        self.put_inherited(key, key, value);
    }

    /// A value that comes from `parent` unless `key` itself was set.
    fn put_inherited(&mut self, key: &str, parent: &str, value: impl Into<Option<Value>>) {
        let origin = |key: &str| self.config.origins.get(&key.replace('"', "")).cloned();
        let value = value.into();
        let set = value.is_some().then(|| origin(key).or_else(|| origin(parent))).flatten();
        let origin = set.unwrap_or(Origin::Default);
        self.all.push(Effective { key: key.to_owned(), value, origin });
    }

    fn retry(&mut self, path: &str, retry: &Retry) {
        let Retry { max_retry, base, cap, intervals, max_lost } = retry;
        let waits = intervals.as_ref().map(|waits| list(waits, |wait| duration(*wait)));
        let values = [
            ("max_retry", Some(number(*max_retry))),
            ("base", Some(duration(*base))),
            ("cap", Some(duration(*cap))),
            ("intervals", waits),
            ("max_lost", Some(number(*max_lost))),
        ];
        for (key, value) in values {
            self.put_inherited(&format!("{path}.{key}"), &format!("retry.{key}"), value);
        }
    }

    fn limits(&mut self, path: &str, limits: &Limits) {
        let Limits { user, group, umask, memory, cpu_time, open_files, processes, nice } = limits;
        let values = [
            ("user", user.as_ref().map(text)),
            ("group", group.as_ref().map(text)),
            ("umask", umask.map(|mask| text(format!("{mask:03o}")))),
            ("memory", memory.map(size)),
            ("cpu_time", cpu_time.map(duration)),
            ("open_files", open_files.map(number)),
            ("processes", processes.map(number)),
            ("nice", nice.map(|nice| Value::Integer(i64::from(nice)))),
        ];
        for (key, value) in values {
            self.put(&format!("{path}.{key}"), value);
        }
    }

    fn inbox(&mut self, inbox: Option<&Inbox>) {
        let Some(Inbox { path, rescan, settle, types }) = inbox else { return };
        self.put("inbox.path", text(path.display().to_string()));
        self.put("inbox.rescan", duration(*rescan));
        self.put("inbox.settle", duration(*settle));
        for (name, kind) in types {
            self.put(&format!("inbox.types.{}", segment(name)), text(kind));
        }
    }

    fn hook(&mut self, path: &str, hook: &Hook) {
        let Hook { kind, secret_file, key_header, rate, max_body, priority } = hook;
        let values = [
            ("type", Some(text(kind))),
            ("secret_file", Some(text(secret_file.display().to_string()))),
            ("key_header", key_header.as_ref().map(text)),
            ("rate", Some(text(rate.to_string()))),
            ("max_body", Some(size(*max_body))),
            ("priority", priority.map(|priority| Value::Integer(i64::from(priority)))),
        ];
        for (key, value) in values {
            self.put(&format!("{path}.{key}"), value);
        }
    }

    fn channel(&mut self, path: &str, channel: &AlertChannel) {
        self.way(path, ["webhook", "webhook_file"], &channel.way);
        let Channel { name: _, min_grade, group_wait, group_interval, repeat, .. } =
            &channel.channel;
        let Channel { max_per_hour, send_resolved, .. } = &channel.channel;
        let values = [
            ("min_level", text(min_grade.word())),
            ("group_wait", duration(*group_wait)),
            ("group_interval", duration(*group_interval)),
            ("repeat", duration(*repeat)),
            ("max_per_hour", number(*max_per_hour)),
            ("send_resolved", Value::Boolean(*send_resolved)),
            ("report", Value::Boolean(channel.report)),
        ];
        for (key, value) in values {
            self.put(&format!("{path}.{key}"), value);
        }
    }

    /// Where something goes. An address is a secret: its scheme and host are shown.
    fn way(&mut self, path: &str, [url, file]: [&str; 2], way: &Way) {
        let Webhook { address, style, secret_file, ca_file } = match way {
            Way::Webhook(webhook) => webhook,
            Way::Command(command) => {
                self.put(&format!("{path}.command"), list(command, |part| text(part)));
                return;
            }
        };
        match address {
            Address::Url(address) => self.put(&format!("{path}.{url}"), text(address.to_string())),
            Address::File(name) => {
                self.put(&format!("{path}.{file}"), text(name.display().to_string()));
            }
        }
        let show =
            |path: &Option<PathBuf>| path.as_ref().map(|path| text(path.display().to_string()));
        // A ping has no body and is not signed.
        if url == "webhook" {
            self.put(&format!("{path}.style"), text(style.word()));
            self.put(&format!("{path}.secret_file"), show(secret_file));
        }
        self.put(&format!("{path}.ca_file"), show(ca_file));
    }

    fn ping(&mut self, ping: Option<&Ping>) {
        let Some(Ping { way, every }) = ping else { return };
        self.way("ping", ["url", "url_file"], way);
        self.put("ping.every", duration(*every));
    }

    fn handler(&mut self, path: &str, handler: &Handler) {
        let Handler {
            command,
            embedded,
            cwd,
            env,
            env_pass,
            timeout,
            cancel_grace,
            kill_grace,
            log_max,
            retry,
            max_running,
            rate,
            fatal_exit_codes,
            retryable_exit_codes,
            schema,
            limits,
            stall_after,
            advice,
            contact,
        } = handler;
        let code = |code: &u8| number(u32::from(*code));
        self.put(&format!("{path}.command"), list(command, |part| text(part)));
        self.put(&format!("{path}.embedded"), Value::Boolean(*embedded));
        self.put(&format!("{path}.cwd"), cwd.as_ref().map(|cwd| text(cwd.display().to_string())));
        for (name, content) in env {
            let name = Value::String(name.clone());
            let quoted = name.to_string();
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let bare = quoted.trim_matches(|c| c == '"' || c == '\'');
            let name = if bare.chars().all(plain) { bare } else { &quoted };
            self.put(&format!("{path}.env.{name}"), text(content));
        }
        self.put(&format!("{path}.env_pass"), list(env_pass, |name| text(name)));
        self.put(&format!("{path}.timeout"), timeout.map(duration));
        self.put(&format!("{path}.cancel_grace"), duration(*cancel_grace));
        self.put(&format!("{path}.kill_grace"), duration(*kill_grace));
        self.put(&format!("{path}.log_max"), size(*log_max));
        self.retry(&format!("{path}.retry"), retry);
        self.put(&format!("{path}.max_running"), max_running.map(number));
        self.put(&format!("{path}.rate"), rate.map(|rate| text(rate.to_string())));
        self.put(&format!("{path}.fatal_exit_codes"), list(fatal_exit_codes, code));
        self.put(&format!("{path}.retryable_exit_codes"), list(retryable_exit_codes, code));
        let schema = schema.as_ref().map(|path| text(path.display().to_string()));
        self.put(&format!("{path}.schema"), schema);
        self.limits(path, limits);
        self.put(&format!("{path}.stall_after"), duration(*stall_after));
        self.put(&format!("{path}.advice"), advice.as_ref().map(text));
        self.put(&format!("{path}.contact"), contact.as_ref().map(text));
    }

    fn schedule(&mut self, path: &str, schedule: &ScheduleSpec) {
        let ScheduleSpec {
            kind,
            payload,
            priority,
            plan,
            zone,
            gap,
            fold,
            jitter,
            misfire_grace,
            coalesce,
            max_instances,
            overlap,
            max_retry,
            timeout,
        } = schedule;
        let json: Option<serde_json::Value> = serde_json::from_str(payload).ok();
        let (key, value) = match plan {
            Plan::Cron(cron) => ("cron", text(&**cron)),
            Plan::Every(span, _) => ("every", duration(*span)),
            Plan::Once(at) => ("at", text(units::rfc3339(*at))),
            Plan::Boot => ("cron", text("@reboot")),
        };
        let from = match plan {
            Plan::Every(_, from) => Some(text(from.word())),
            Plan::Cron(_) | Plan::Once(_) | Plan::Boot => None,
        };
        let values = [
            ("type", Some(text(&**kind))),
            (key, Some(value)),
            ("from", from),
            ("timezone", Some(text(&**zone))),
            ("payload", json.and_then(|json| Value::try_from(json).ok())),
            ("priority", Some(Value::Integer(i64::from(*priority)))),
            ("max_retry", max_retry.map(number)),
            ("timeout", timeout.map(duration)),
            ("misfire_grace", Some(duration(*misfire_grace))),
            ("coalesce", Some(Value::Boolean(*coalesce))),
            ("max_instances", Some(number(*max_instances))),
            ("overlap", Some(text(overlap.word()))),
            ("jitter", Some(duration(*jitter))),
            ("dst_gap", gap.map(Gap::word).map(text)),
            ("dst_fold", fold.map(Fold::word).map(text)),
        ];
        for (key, value) in values {
            self.put(&format!("{path}.{key}"), value);
        }
    }
}

/// A name as part of a path: a dot in it would make two keys.
fn segment(name: &str) -> String {
    if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() }
}

fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

fn duration(duration: Millis) -> Value {
    text(units::format_duration(duration))
}

fn size(size: u64) -> Value {
    text(units::format_size(size))
}

fn number(number: u32) -> Value {
    Value::Integer(i64::from(number))
}

fn kept_slots(reserve: Reserve) -> Value {
    let Reserve { priority_max, slots } = reserve;
    let pairs = [
        ("priority_max".to_owned(), Value::Integer(i64::from(priority_max))),
        ("slots".to_owned(), number(slots)),
    ];
    Value::Table(pairs.into_iter().collect())
}

fn list<T>(items: &[T], one: impl Fn(&T) -> Value) -> Value {
    Value::Array(items.iter().map(one).collect())
}
