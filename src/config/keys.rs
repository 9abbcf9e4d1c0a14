//! Every key the config knows, as data: what the reader accepts, what it suggests for a slip of
//! the finger, and what `spec/config.md` must name.

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Whether another value waits for a restart. All others are taken up while the program runs,
    /// for what starts from then on.
    pub restart: bool,
}

/// A table of the config and its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its path: empty for the top, `handlers.NAME` for each handler.
    pub path: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

const fn now(name: &'static str) -> Key {
    Key { name, restart: false }
}

const fn fixed(name: &'static str) -> Key {
    Key { name, restart: true }
}

/// The keys outside any table, and the tables.
pub(super) const TOP: &[Key] = &[
    fixed("data_dir"),
    fixed("socket"),
    now("journal"),
    now("worker"),
    now("retry"),
    now("retention"),
    now("dispatch"),
    now("log"),
    now("http"),
    now("handlers"),
    now("clock"),
    now("inbox"),
    now("hooks"),
    now("schedules"),
    now("alerts"),
    now("ping"),
];

pub(super) const JOURNAL: &[Key] = &[
    fixed("fsync"),
    fixed("on_suspicious_tail"),
    fixed("segment_size"),
    now("snapshot_after"),
    fixed("reserve"),
];

pub(super) const WORKER: &[Key] = &[
    fixed("processes"),
    now("slots"),
    fixed("heartbeat"),
    fixed("suspect_after"),
    fixed("offline_after"),
    fixed("memory_max"),
];

/// The keys of `[retry]`, which are those of a handler's `retry` too.
pub const RETRY: &[Key] =
    &[now("max_retry"), now("base"), now("cap"), now("intervals"), now("max_lost")];

pub(super) const RETENTION: &[Key] = &[
    now("finished"),
    now("max_finished"),
    now("keys"),
    now("logs"),
    fixed("archive"),
    now("max_state"),
];

pub(super) const DISPATCH: &[Key] = &[now("promote_after"), now("reserve")];

pub(super) const LOG: &[Key] = &[
    now("level"),
    now("format"),
    now("dir"),
    now("rotate"),
    now("max_size"),
    now("keep"),
    now("compress"),
];

pub(super) const HTTP: &[Key] = &[
    fixed("socket_group"),
    now("operate_group"),
    fixed("listen"),
    now("token_file"),
    now("hosts"),
    now("open_metrics"),
];

pub(super) const CLOCK: &[Key] = &[fixed("wait_for_sync")];

/// The keys of a handler.
pub const HANDLER: &[Key] = &[
    now("command"),
    now("embedded"),
    now("cwd"),
    now("env"),
    now("env_pass"),
    now("timeout"),
    now("cancel_grace"),
    now("kill_grace"),
    now("log_max"),
    now("retry"),
    now("max_running"),
    now("rate"),
    now("fatal_exit_codes"),
    now("retryable_exit_codes"),
    now("schema"),
    now("user"),
    now("group"),
    now("umask"),
    now("memory"),
    now("cpu_time"),
    now("open_files"),
    now("processes"),
    now("nice"),
    now("stall_after"),
    now("advice"),
    now("contact"),
];

/// The keys of a schedule.
pub(super) const SCHEDULE: &[Key] = &[
    now("type"),
    now("cron"),
    now("every"),
    now("from"),
    now("at"),
    now("timezone"),
    now("payload"),
    now("priority"),
    now("max_retry"),
    now("timeout"),
    now("misfire_grace"),
    now("coalesce"),
    now("max_instances"),
    now("overlap"),
    now("jitter"),
    now("dst_gap"),
    now("dst_fold"),
];

pub(super) const INBOX: &[Key] = &[now("path"), now("rescan"), now("settle"), now("types")];

/// The keys of a hook.
pub(super) const HOOK: &[Key] = &[
    now("type"),
    now("secret_file"),
    now("key_header"),
    now("rate"),
    now("max_body"),
    now("priority"),
];

/// The keys of a channel of alerts.
pub(super) const ALERT: &[Key] = &[
    now("webhook"),
    now("webhook_file"),
    now("command"),
    now("style"),
    now("secret_file"),
    now("ca_file"),
    now("min_level"),
    now("group_wait"),
    now("group_interval"),
    now("repeat"),
    now("max_per_hour"),
    now("send_resolved"),
    now("report"),
];

pub(super) const PING: &[Key] =
    &[now("url"), now("url_file"), now("command"), now("ca_file"), now("every")];

/// Every table with its keys.
pub const KEYS: &[Section] = &[
    Section { path: "", keys: TOP },
    Section { path: "journal", keys: JOURNAL },
    Section { path: "worker", keys: WORKER },
    Section { path: "retry", keys: RETRY },
    Section { path: "retention", keys: RETENTION },
    Section { path: "dispatch", keys: DISPATCH },
    Section { path: "log", keys: LOG },
    Section { path: "http", keys: HTTP },
    Section { path: "clock", keys: CLOCK },
    Section { path: "handlers.NAME", keys: HANDLER },
    Section { path: "schedules.NAME", keys: SCHEDULE },
    Section { path: "inbox", keys: INBOX },
    Section { path: "hooks.NAME", keys: HOOK },
    Section { path: "alerts.NAME", keys: ALERT },
    Section { path: "ping", keys: PING },
];
