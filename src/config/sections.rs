//! What the keys of the fixed tables mean, and their bounds.

use super::dispatch::read_dispatch;
use super::fault::{ConfigError, Fault};
use super::handlers::read_handlers;
use super::keys;
use super::read::{
    Reader, Table, absolute_path, boolean, duration, integer, list, size, text, word,
};
use super::schedules::read_schedules;
use super::triggers::{read_hooks, read_inbox};
use super::{
    Clock, Dispatch, Fsync, Http, Journal, Level, Log, LogDir, LogFormat, OnSuspiciousTail,
    Retention, Retry, Rotate, STDERR, Worker,
};
use super::{Handler, Hook, Inbox, Origin};
use crate::kernel::ids::Millis;
use crate::kernel::schedule::ScheduleSpec;
use crate::limits::{LEASES_PER_REQUEST_MAX, NAME_BYTES_MAX};
use crate::units;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// What one file says; the places are settled in `places.rs`.
#[derive(Default)]
pub(super) struct FileConfig {
    pub(super) data_dir: Option<PathBuf>,
    pub(super) socket: Option<PathBuf>,
    pub(super) journal: Journal,
    pub(super) worker: Worker,
    pub(super) retry: Retry,
    pub(super) retention: Retention,
    pub(super) dispatch: Dispatch,
    pub(super) log: Log,
    pub(super) http: Http,
    pub(super) clock: Clock,
    pub(super) handlers: BTreeMap<String, Handler>,
    pub(super) schedules: BTreeMap<String, ScheduleSpec>,
    pub(super) inbox: Option<Inbox>,
    pub(super) hooks: BTreeMap<String, Hook>,
    pub(super) origins: BTreeMap<String, Origin>,
}

/// Processes that one supervisor starts at most.
const PROCESSES_MAX: u32 = 256;

/// Slots of one worker at most: what one lease request may carry.
const SLOTS_MAX: u32 = 1024;
const _: () = assert!(SLOTS_MAX as usize <= LEASES_PER_REQUEST_MAX);

/// Smallest segment; a frame with one full payload makes the file longer than that by itself.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// Largest segment, as the journal has it; recovery and compaction go segment by segment.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Smallest bound of a worker's memory: several times what one takes that does nothing.
const WORKER_BYTES_MIN: u64 = 32 << 20;

/// Smallest budget of logs; less would keep next to nothing.
const LOGS_BYTES_MIN: u64 = 64 << 10;

/// Smallest file of our own log; less would hold hardly a line of the longest.
const LOG_FILE_BYTES_MIN: u64 = 64 << 10;

/// Most files of our own log that are kept.
const LOG_FILES_MAX: u32 = 1000;

/// Smallest bound of the state: a task with a full payload and a full checkpoint fits it.
const STATE_BYTES_MIN: u64 = 4 << 20;

const HOUR: Millis = Millis(3_600_000);

/// Reads the text of a file. `path` is how complaints name it.
pub(super) fn read_text(path: &Path, text: &str) -> Result<FileConfig, ConfigError> {
    let mut reader = Reader::new(path, text);
    let parsed = match DeTable::parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            let message = format!("this is not TOML: {}", error.message().replace('\n', "; "));
            reader.fault(error.span().map_or(0, |span| span.start), Fault::new(message));
            return Err(ConfigError { faults: reader.faults });
        }
    };
    let mut config = FileConfig::default();
    let top = reader.top(parsed.get_ref(), keys::TOP);
    read_places(&mut reader, &top, &mut config);
    read_journal(&mut reader, &top, &mut config.journal);
    read_worker(&mut reader, &top, &mut config.worker);
    if let Some(table) = reader.table(&top, "retry", keys::RETRY) {
        read_retry(&mut reader, &table, &mut config.retry);
    }
    read_retention(&mut reader, &top, &mut config.retention);
    read_dispatch(&mut reader, &top, &config.worker, &mut config.dispatch);
    read_log(&mut reader, &top, &mut config.log);
    read_http(&mut reader, &top, &mut config.http);
    read_clock(&mut reader, &top, &mut config.clock);
    config.handlers = read_handlers(&mut reader, &top, &config.retry);
    config.schedules = read_schedules(&mut reader, &top, &config.handlers);
    config.inbox = read_inbox(&mut reader, &top, &config.handlers);
    config.hooks = read_hooks(&mut reader, &top, &config.handlers);
    if reader.faults.is_empty() {
        config.origins = reader.origins;
        Ok(config)
    } else {
        reader.faults.sort_by_key(Fault::line);
        Err(ConfigError { faults: reader.faults })
    }
}

/// The places that the text of a refused file names all the same, also where it is no TOML: what
/// stands before the error, and what the parser finds its way back to, is still read.
pub(super) fn read_places_only(path: &Path, text: &str) -> FileConfig {
    let (parsed, _) = DeTable::parse_recoverable(text);
    let mut reader = Reader::new(path, text);
    let mut config = FileConfig::default();
    let top = reader.top(parsed.get_ref(), keys::TOP);
    read_places(&mut reader, &top, &mut config);
    config
}

fn read_places<'t>(reader: &mut Reader<'t>, top: &Table<'t>, config: &mut FileConfig) {
    reader.set(top, "data_dir", &mut config.data_dir, |value| absolute_path(value).map(Some));
    reader.set(top, "socket", &mut config.socket, |value| absolute_path(value).map(Some));
}

fn read_journal<'t>(reader: &mut Reader<'t>, top: &Table<'t>, journal: &mut Journal) {
    let Some(table) = reader.table(top, "journal", keys::JOURNAL) else { return };
    reader.set(&table, "fsync", &mut journal.fsync, fsync);
    let words =
        word(&[("quarantine", OnSuspiciousTail::Quarantine), ("halt", OnSuspiciousTail::Halt)]);
    reader.set(&table, "on_suspicious_tail", &mut journal.on_suspicious_tail, words);
    let segment = size(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX);
    reader.set(&table, "segment_size", &mut journal.segment_size, segment);
    let snapshot = size(SEGMENT_BYTES_MIN..=1 << 40);
    reader.set(&table, "snapshot_after", &mut journal.snapshot_after, snapshot);
    let reserve = size(SEGMENT_BYTES_MIN..=1 << 40);
    reader.set(&table, "reserve", &mut journal.reserve, reserve);
    if journal.reserve < journal.segment_size {
        let key = if table.has("reserve") { "journal.reserve" } else { "journal.segment_size" };
        let fault = Fault::new(format!(
            "`journal.reserve` ({}) must be at least one segment ({})",
            units::format_size(journal.reserve),
            units::format_size(journal.segment_size)
        ))
        .with_help("set both: the reserve is room for the ends of running tasks on a full disk");
        reader.fault_of_key(key, fault);
    }
}

fn fsync(value: &DeValue<'_>) -> Result<Fsync, String> {
    let typed = text(value)?;
    match typed.as_str() {
        "always" => return Ok(Fsync::Always),
        "never" => return Ok(Fsync::Never),
        _ => {}
    }
    let Some(every) = typed.strip_prefix("interval:") else {
        let typed = typed.escape_debug();
        return Err(format!(
            " must be always, interval:200ms (any duration) or never, not `{typed}`"
        ));
    };
    let every = units::parse_duration(every).map_err(|error| format!(": {error}"))?;
    if Millis(1) <= every && every <= Millis(60_000) {
        Ok(Fsync::Interval(every))
    } else {
        Err(format!(" must have an interval from 1ms to 1m, not {}", units::format_duration(every)))
    }
}

fn read_worker<'t>(reader: &mut Reader<'t>, top: &Table<'t>, worker: &mut Worker) {
    let Some(table) = reader.table(top, "worker", keys::WORKER) else { return };
    reader.set(&table, "processes", &mut worker.processes, integer(0..=PROCESSES_MAX));
    reader.set(&table, "slots", &mut worker.slots, integer(1..=SLOTS_MAX));
    reader.set(&table, "heartbeat", &mut worker.heartbeat, duration(Millis(100)..=HOUR));
    let most = |value: &DeValue<'_>| size(WORKER_BYTES_MIN..=1 << 50)(value).map(Some);
    reader.set(&table, "memory_max", &mut worker.memory_max, most);
    let silence = || duration(Millis(200)..=HOUR.times(24));
    reader.set(&table, "suspect_after", &mut worker.suspect_after, silence());
    reader.set(&table, "offline_after", &mut worker.offline_after, silence());
    let order = [
        ("heartbeat", worker.heartbeat, "suspect_after", worker.suspect_after),
        ("suspect_after", worker.suspect_after, "offline_after", worker.offline_after),
    ];
    for (short, smaller, long, larger) in order {
        if larger <= smaller {
            let key = if table.has(long) { long } else { short };
            let fault = Fault::new(format!(
                "`worker.{long}` ({}) must be longer than `worker.{short}` ({})",
                units::format_duration(larger),
                units::format_duration(smaller)
            ));
            reader.fault_of_key(&format!("worker.{key}"), fault);
        }
    }
}

/// Reads `[retry]` or the `retry` of a handler into a policy that holds what is not said.
pub(super) fn read_retry<'t>(reader: &mut Reader<'t>, table: &Table<'t>, retry: &mut Retry) {
    // Who names `base` or `cap` wants them used, whatever list was inherited.
    if !table.has("intervals") && (table.has("base") || table.has("cap")) {
        retry.intervals = None;
    }
    reader.set(table, "max_retry", &mut retry.max_retry, integer(0..=1_000_000));
    reader.set(table, "max_lost", &mut retry.max_lost, integer(0..=1_000_000));
    let wait = || duration(Millis(1)..=HOUR.times(24 * 365));
    reader.set(table, "base", &mut retry.base, wait());
    reader.set(table, "cap", &mut retry.cap, wait());
    reader.set(table, "intervals", &mut retry.intervals, |value| {
        let intervals = list(duration(Millis(0)..=HOUR.times(24 * 365)))(value)?;
        if intervals.is_empty() {
            return Err(" must name at least one wait".to_owned());
        }
        Ok(Some(intervals))
    });
    if retry.cap < retry.base {
        let key = if table.has("cap") { "cap" } else { "base" };
        let fault = Fault::new(format!(
            "`{}` ({}) must not be shorter than `{}` ({})",
            table.name("cap"),
            units::format_duration(retry.cap),
            table.name("base"),
            units::format_duration(retry.base)
        ));
        reader.fault_of_key(&table.name(key), fault);
    }
}

fn read_retention<'t>(reader: &mut Reader<'t>, top: &Table<'t>, retention: &mut Retention) {
    let Some(table) = reader.table(top, "retention", keys::RETENTION) else { return };
    let stay = |least| duration(least..=HOUR.times(24 * 3650));
    reader.set(&table, "finished", &mut retention.finished, stay(Millis(1000)));
    reader.set(&table, "max_finished", &mut retention.max_finished, integer(0..=10_000_000));
    reader.set(&table, "keys", &mut retention.keys, stay(Millis(0)));
    reader.set(&table, "logs", &mut retention.logs, size(LOGS_BYTES_MIN..=1 << 50));
    let archive = |value: &DeValue<'_>| absolute_path(value).map(Some);
    reader.set(&table, "archive", &mut retention.archive, archive);
    reader.set(&table, "max_state", &mut retention.max_state, size(STATE_BYTES_MIN..=1 << 40));
}

fn read_log<'t>(reader: &mut Reader<'t>, top: &Table<'t>, log: &mut Log) {
    let Some(table) = reader.table(top, "log", keys::LOG) else { return };
    let levels = word(&[
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("trace", Level::Trace),
    ]);
    reader.set(&table, "level", &mut log.level, levels);
    let formats = word(&[("text", LogFormat::Text), ("json", LogFormat::Json)]);
    reader.set(&table, "format", &mut log.format, formats);
    reader.set(&table, "dir", &mut log.dir, log_dir);
    let rotations = word(&[("size", Rotate::Size), ("daily", Rotate::Daily)]);
    reader.set(&table, "rotate", &mut log.rotate, rotations);
    reader.set(&table, "max_size", &mut log.max_size, size(LOG_FILE_BYTES_MIN..=1 << 40));
    reader.set(&table, "keep", &mut log.keep, integer(1..=LOG_FILES_MAX));
    reader.set(&table, "compress", &mut log.compress, boolean);
}

fn log_dir(value: &DeValue<'_>) -> Result<LogDir, String> {
    if value.as_str() == Some(STDERR) {
        return Ok(LogDir::Stderr);
    }
    absolute_path(value)
        .map(LogDir::At)
        .map_err(|why| format!("{why}; or it is \"{STDERR}\", for no files at all"))
}

fn read_http<'t>(reader: &mut Reader<'t>, top: &Table<'t>, http: &mut Http) {
    let Some(table) = reader.table(top, "http", keys::HTTP) else { return };
    let group = |value: &DeValue<'_>| text(value).map(Some);
    reader.set(&table, "socket_group", &mut http.socket_group, group);
    reader.set(&table, "operate_group", &mut http.operate_group, group);
    reader.set(&table, "listen", &mut http.listen, |value| address(value).map(Some));
    let path = |value: &DeValue<'_>| absolute_path(value).map(Some);
    reader.set(&table, "token_file", &mut http.token_file, path);
    reader.set(&table, "hosts", &mut http.hosts, list(host_name));
    reader.set(&table, "open_metrics", &mut http.open_metrics, boolean);
    if table.has("listen") && !table.has("token_file") {
        let fault = Fault::new("`http.listen` needs `http.token_file`: TCP cannot tell who calls");
        let help = "name a file that only its owner can read, with a line such as: read TOKEN";
        reader.fault_of_key("http.listen", fault.with_help(help));
    }
}

fn address(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    let typed = text(value)?;
    let address: Option<SocketAddr> = typed.parse().ok();
    address.filter(|address| address.port() != 0).ok_or_else(|| {
        let typed = typed.escape_debug();
        format!(" must be an IP address and a port, such as 127.0.0.1:8474, not `{typed}`")
    })
}

/// A name without scheme and port, as it stands in the address bar.
fn host_name(value: &DeValue<'_>) -> Result<String, String> {
    let typed = text(value)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if typed.len() <= NAME_BYTES_MAX && typed.chars().all(plain) {
        return Ok(typed.to_ascii_lowercase());
    }
    let typed = typed.escape_debug();
    Err(format!(" must name hosts, such as watch.example, without scheme and port, not `{typed}`"))
}

fn read_clock<'t>(reader: &mut Reader<'t>, top: &Table<'t>, clock: &mut Clock) {
    let Some(table) = reader.table(top, "clock", keys::CLOCK) else { return };
    reader.set(&table, "wait_for_sync", &mut clock.wait_for_sync, boolean);
}
