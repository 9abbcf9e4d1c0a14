//! Every key the config knows, as data: what the reader accepts, what it suggests for a slip of
//! the finger, and what `spec/config.md` must name.

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Whether this version acts on it. A key that is known but not yet acted on is refused.
    pub supported: bool,
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
    Key { name, supported: true }
}

const fn later(name: &'static str) -> Key {
    Key { name, supported: false }
}

/// The keys outside any table, and the tables.
pub(super) const TOP: &[Key] = &[
    now("data_dir"),
    now("socket"),
    now("journal"),
    now("worker"),
    now("retry"),
    now("retention"),
    now("log"),
    now("http"),
    now("handlers"),
    later("dispatch"),
    later("schedules"),
    later("hooks"),
    later("inbox"),
    later("alerts"),
    later("ping"),
];

pub(super) const JOURNAL: &[Key] = &[
    now("fsync"),
    now("on_suspicious_tail"),
    now("segment_size"),
    now("snapshot_after"),
    now("reserve"),
];

pub(super) const WORKER: &[Key] = &[
    now("processes"),
    now("slots"),
    now("heartbeat"),
    now("suspect_after"),
    now("offline_after"),
    now("memory_max"),
];

/// The keys of `[retry]`, which are those of a handler's `retry` too.
pub const RETRY: &[Key] =
    &[now("max_retry"), now("base"), now("cap"), now("intervals"), now("max_lost")];

pub(super) const RETENTION: &[Key] = &[
    now("finished"),
    now("max_finished"),
    now("keys"),
    now("logs"),
    now("archive"),
    now("max_state"),
];

pub(super) const LOG: &[Key] = &[
    now("level"),
    now("format"),
    later("dir"),
    later("rotate"),
    later("max_size"),
    later("keep"),
    later("compress"),
];

pub(super) const HTTP: &[Key] =
    &[now("socket_group"), now("operate_group"), later("listen"), later("token_file")];

/// The keys of a handler.
pub const HANDLER: &[Key] = &[
    now("command"),
    now("cwd"),
    now("env"),
    now("env_pass"),
    now("timeout"),
    now("cancel_grace"),
    now("kill_grace"),
    now("log_max"),
    now("retry"),
    now("fatal_exit_codes"),
    now("retryable_exit_codes"),
    now("user"),
    now("group"),
    now("umask"),
    now("memory"),
    now("cpu_time"),
    now("open_files"),
    now("processes"),
    now("nice"),
    later("stall_after"),
    later("max_running"),
    later("rate"),
    later("schema"),
    later("advice"),
    later("contact"),
];

/// Every table with its keys.
pub const KEYS: &[Section] = &[
    Section { path: "", keys: TOP },
    Section { path: "journal", keys: JOURNAL },
    Section { path: "worker", keys: WORKER },
    Section { path: "retry", keys: RETRY },
    Section { path: "retention", keys: RETENTION },
    Section { path: "log", keys: LOG },
    Section { path: "http", keys: HTTP },
    Section { path: "handlers.NAME", keys: HANDLER },
];
