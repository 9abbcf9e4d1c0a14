//! The config: what may be set, what is set, and where each value came from.
//!
//! A file is taken whole or not at all. An unknown key, a wrong type or a value out of range is
//! refused with file and line: nothing that somebody wrote is ever ignored. No file is needed; the
//! built-in config is complete but for the two places, which [`Config::load`] finds.
//!
//! This floor reads one file and no environment: the command line hands it what the flags and
//! the environment said ([`Named`], [`Surroundings`]). It starts nothing and creates nothing.

mod alerts;
mod dispatch;
mod exec;
mod fault;
mod files;
mod handlers;
mod keys;
mod nearest;
mod places;
mod read;
mod reload;
mod schedules;
mod sections;
mod show;
mod triggers;
mod watch;

pub use alerts::{Address, AlertChannel, Ping, SecretUrl, Style, Way, Webhook};
pub(crate) use exec::{EXEC, check_exec};
pub use fault::{ConfigError, Fault};
pub(crate) use files::{read as read_file, read_secret};
pub(crate) use handlers::check_name;
pub use keys::{HANDLER, KEYS, Key, RETRY, Section};
pub(crate) use nearest::nearest;
pub use places::{Named, Place, SOCKET_PATH_BYTES_MAX, Surroundings};
pub use reload::{Next, Reread, Running, Source};
pub(crate) use schedules::{
    BadTimes, EVERY, FOLD, FROM, GAP, INSTANCES, JITTER, MISFIRE_GRACE, OVERLAP, check_times,
    cron_plan,
};
pub(crate) use sections::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
pub use show::{Effective, Origin};
pub use triggers::{Hook, Inbox};
pub use watch::{Bell, Watch};

use crate::kernel::ids::Millis;
use crate::kernel::rules::Reserve;
use crate::kernel::schedule::ScheduleSpec;
use crate::kernel::task_type::Rate;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Everything that can be set, with its values in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file it was read from; none when the built-in defaults serve.
    pub file: Option<PathBuf>,
    /// The data directory, absolute.
    pub data_dir: PathBuf,
    /// The socket, absolute, at most [`SOCKET_PATH_BYTES_MAX`] bytes.
    pub socket: PathBuf,
    /// `[journal]`.
    pub journal: Journal,
    /// `[worker]`.
    pub worker: Worker,
    /// `[retry]`: the policy of handlers that say nothing else, and of `exec`.
    pub retry: Retry,
    /// `[retention]`.
    pub retention: Retention,
    /// `[dispatch]`.
    pub dispatch: Dispatch,
    /// `[log]`.
    pub log: Log,
    /// `[http]`.
    pub http: Http,
    /// `[clock]`.
    pub clock: Clock,
    /// `[handlers.NAME]`, by name.
    pub handlers: BTreeMap<String, Handler>,
    /// `[schedules.NAME]`, by name.
    pub schedules: BTreeMap<String, ScheduleSpec>,
    /// `[inbox]`; absent means that there is none.
    pub inbox: Option<Inbox>,
    /// `[hooks.NAME]`, by name.
    pub hooks: BTreeMap<String, Hook>,
    /// `[alerts.NAME]`, by name.
    pub alerts: BTreeMap<String, AlertChannel>,
    /// `[ping]`; absent means that nobody outside is told that all is well.
    pub ping: Option<Ping>,
    /// Where each value came from that is not a default.
    origins: BTreeMap<String, Origin>,
}

/// `[journal]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// When records are synced.
    pub fsync: Fsync,
    /// What to do with a last record that is whole but wrong.
    pub on_suspicious_tail: OnSuspiciousTail,
    /// Size of a segment file, in bytes.
    pub segment_size: u64,
    /// Bytes of records after which a snapshot is taken.
    pub snapshot_after: u64,
    /// Bytes set aside for the ends of running tasks on a full disk.
    pub reserve: u64,
}

/// When records are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Before each answer.
    Always,
    /// At this interval; what was answered in between may be lost with the power.
    Interval(Millis),
    /// Whenever the kernel likes.
    Never,
}

/// What to do with a last record that is whole but fails its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSuspiciousTail {
    /// Set it aside and go on.
    Quarantine,
    /// Refuse to start.
    Halt,
}

/// `[worker]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Worker processes that the supervisor starts.
    pub processes: u32,
    /// Attempts that each of them runs at once.
    pub slots: u32,
    /// How often a worker says that it is there.
    pub heartbeat: Millis,
    /// Silence after which a worker is suspect.
    pub suspect_after: Millis,
    /// Silence after which a worker is given up.
    pub offline_after: Millis,
    /// Bytes of memory beyond which a worker finishes what it runs and is replaced.
    pub memory_max: Option<u64>,
}

/// `[retry]`, and the `retry` of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "each field has the name of its key")]
pub struct Retry {
    /// Retries after the first failed attempt.
    pub max_retry: u32,
    /// The first wait; doubles with each retry.
    pub base: Millis,
    /// The longest wait.
    pub cap: Millis,
    /// Waits one by one instead of `base` and `cap`; the last one repeats.
    pub intervals: Option<Vec<Millis>>,
    /// Losses after which a task is given up.
    pub max_lost: u32,
}

/// `[retention]`: how long what has ended stays, and how much there may be in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long ended tasks stay.
    pub finished: Millis,
    /// How many ended tasks stay.
    pub max_finished: u32,
    /// How long an ended task with an idempotency key stays at least.
    pub keys: Millis,
    /// Bytes of attempts' logs that are kept.
    pub logs: u64,
    /// Where ended tasks are written before they go.
    pub archive: Option<PathBuf>,
    /// Bytes that all tasks together may take.
    pub max_state: u64,
}

/// `[dispatch]`: who goes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// How long a due task may wait before it goes out of turn; zero means for ever.
    pub promote_after: Millis,
    /// Slots that are kept free for urgent tasks.
    pub reserve: Vec<Reserve>,
}

/// `[log]`: midwatch's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least important level that is written.
    pub level: Level,
    /// Its form.
    pub format: LogFormat,
    /// Where its files are.
    pub dir: LogDir,
    /// When a file is set aside and a new one begun.
    pub rotate: Rotate,
    /// Bytes of a file beyond which it is set aside, whatever `rotate` says.
    pub max_size: u64,
    /// How many files that were set aside stay.
    pub keep: u32,
    /// Whether those are compressed.
    pub compress: bool,
}

/// Where midwatch's own log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDir {
    /// Files in `log/` of the data directory, and stderr.
    DataDir,
    /// Files in this directory, absolute.
    At(PathBuf),
    /// stderr alone.
    Stderr,
}

/// When a file of the log is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotate {
    /// When it has grown to `max_size`.
    Size,
    /// With the first line of a day as well.
    Daily,
}

/// Level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something needs a look.
    Warn,
    /// What happened.
    Info,
    /// How it happened.
    Debug,
    /// Every step.
    Trace,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `[http]`: who may come to the socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http {
    /// The group that may read and submit; the socket is then 0660.
    pub socket_group: Option<String>,
    /// The group that may operate.
    pub operate_group: Option<String>,
    /// The TCP address to listen on, if any.
    pub listen: Option<SocketAddr>,
    /// The file with the tokens of those who come by TCP; there wherever `listen` is.
    pub token_file: Option<PathBuf>,
    /// Names, besides the address and `localhost`, by which browsers reach it; in lower case.
    pub hosts: Vec<String>,
    /// Whether `/metrics` needs no token.
    pub open_metrics: bool,
}

/// `[clock]`: when the wall clock is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Whether calendar schedules wait until something keeps the clock right.
    pub wait_for_sync: bool,
}

/// `[handlers.NAME]`: what runs a task of the type NAME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// Program and arguments; the program is an absolute path or a name that `PATH` finds.
    pub command: Vec<String>,
    /// Whether a program that embeds midwatch runs it instead of a command.
    pub embedded: bool,
    /// Its working directory; absent means the attempt's own.
    pub cwd: Option<PathBuf>,
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// Variables it gets from the daemon's environment.
    pub env_pass: Vec<String>,
    /// Longest run of one attempt; absent means no limit.
    pub timeout: Option<Millis>,
    /// From the stop on the control channel to SIGTERM.
    pub cancel_grace: Millis,
    /// From SIGTERM to SIGKILL.
    pub kill_grace: Millis,
    /// Bytes of output that are kept of one attempt.
    pub log_max: u64,
    /// Its retry policy, what it leaves open taken from `[retry]`.
    pub retry: Retry,
    /// Tasks of the type that run at once, over all workers; absent means no bound.
    pub max_running: Option<u32>,
    /// Dispatches of the type in a second, a minute or an hour; absent means no bound.
    pub rate: Option<Rate>,
    /// Exit statuses that no other run would mend.
    pub fatal_exit_codes: Vec<u8>,
    /// Exit statuses that another run may mend; all others but 0 are so too.
    pub retryable_exit_codes: Vec<u8>,
    /// The file of the JSON Schema that its payloads must fit; absolute.
    pub schema: Option<PathBuf>,
    /// What it may use, and as whom it runs.
    pub limits: Limits,
    /// An attempt whose progress has not changed for so long is stalled; zero for never.
    pub stall_after: Millis,
    /// What to do when its tasks fail; alerts tell it.
    pub advice: Option<String>,
    /// Whom to ask then.
    pub contact: Option<String>,
}

/// The keys of a handler that bound what it may use, and those that say as whom it runs. What is
/// absent is as the worker has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The user, by name or number; only root can set it.
    pub user: Option<String>,
    /// The group, by name or number; absent means the user's own.
    pub group: Option<String>,
    /// Mode bits that new files do not get.
    pub umask: Option<u32>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Time on a processor.
    pub cpu_time: Option<Millis>,
    /// Descriptors that each of its processes may have open.
    pub open_files: Option<u32>,
    /// Processes and threads.
    pub processes: Option<u32>,
    /// Priority on the processor, from -20 to 19.
    pub nice: Option<i32>,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            fsync: Fsync::Always,
            on_suspicious_tail: OnSuspiciousTail::Quarantine,
            segment_size: 4 << 20,
            snapshot_after: 16 << 20,
            reserve: 4 << 20,
        }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            processes: 1,
            slots: 2,
            heartbeat: Millis::secs(30),
            suspect_after: Millis::secs(90),
            offline_after: Millis::secs(300),
            memory_max: None,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_retry: 5,
            base: Millis::secs(30),
            cap: Millis::secs(3600),
            intervals: None,
            max_lost: 10,
        }
    }
}

impl Default for Dispatch {
    fn default() -> Self {
        Self { promote_after: Millis::secs(900), reserve: Vec::new() }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            finished: Millis::secs(7 * 24 * 3600),
            max_finished: 100_000,
            keys: Millis::secs(24 * 3600),
            logs: 1 << 30,
            archive: None,
            max_state: 256 << 20,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: Level::Info,
            format: LogFormat::Text,
            dir: LogDir::DataDir,
            rotate: Rotate::Size,
            max_size: 50_000_000,
            keep: 10,
            compress: false,
        }
    }
}

impl Handler {
    /// A handler that runs `command` and leaves the rest at its defaults. The ad-hoc commands of
    /// `submit --exec` run with it too.
    pub fn new(command: Vec<String>, retry: Retry) -> Self {
        Self {
            command,
            embedded: false,
            cwd: None,
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            timeout: None,
            cancel_grace: Millis::secs(30),
            kill_grace: Millis::secs(10),
            log_max: 10 << 20,
            retry,
            max_running: None,
            rate: None,
            fatal_exit_codes: vec![64, 65, 77, 78],
            retryable_exit_codes: Vec::new(),
            schema: None,
            limits: Limits::default(),
            stall_after: Millis::secs(600),
            advice: None,
            contact: None,
        }
    }
}

impl Fsync {
    /// The policy as the config has it: `always`, `interval:200ms`, `never`.
    pub fn word(self) -> String {
        match self {
            Self::Always => "always".to_owned(),
            Self::Interval(every) => format!("interval:{}", crate::units::format_duration(every)),
            Self::Never => "never".to_owned(),
        }
    }
}

impl OnSuspiciousTail {
    /// The policy as the config has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Quarantine => "quarantine",
            Self::Halt => "halt",
        }
    }
}

impl Level {
    /// The level as the config has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl LogFormat {
    /// The form as the config has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl LogDir {
    /// The place as the config has it; none where it is that of the data directory.
    pub fn word(&self) -> Option<String> {
        match self {
            Self::DataDir => None,
            Self::At(path) => Some(path.display().to_string()),
            Self::Stderr => Some(STDERR.to_owned()),
        }
    }

    /// The directory of the files; none where there are no files.
    pub fn directory(&self, data_dir: &Path) -> Option<PathBuf> {
        match self {
            Self::DataDir => Some(data_dir.join("log")),
            Self::At(path) => Some(path.clone()),
            Self::Stderr => None,
        }
    }
}

/// The word of `log.dir` that stands for no directory.
pub(crate) const STDERR: &str = "stderr";

impl Rotate {
    /// The word that the config has for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Daily => "daily",
        }
    }
}

#[cfg(test)]
mod tests;
