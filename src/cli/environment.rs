//! The environment, read once, before anything else runs.

use crate::config::Surroundings;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The config of the whole host.
const SYSTEM_CONFIG: &str = "/etc/midwatch/midwatch.toml";

/// What the command line takes from the environment beyond the three `MIDWATCH_…` that its flags
/// name.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// What the places depend on.
    pub(crate) surroundings: Surroundings,
    /// `NO_COLOR` is set to something, or the terminal is `dumb`.
    pub(crate) no_colour: bool,
    /// The terminal has no cursor to move: `TERM` is `dumb`.
    pub(crate) dumb: bool,
    /// `COLUMNS`: the width somebody wants, whatever the terminal says.
    pub(crate) columns: Option<usize>,
    /// `NOTIFY_SOCKET`: where systemd listens for news.
    pub(crate) notify_socket: Option<OsString>,
    /// `WATCHDOG_USEC`: how long systemd waits for a sign of life.
    pub(crate) watchdog: Option<Duration>,
    /// `MIDWATCH_CONTROL_FD`: set inside a handler.
    pub(crate) control_fd: Option<String>,
    /// `TMPDIR`: inside a handler, the attempt's own directory.
    pub(crate) tmp: Option<PathBuf>,
}

impl Environment {
    /// Reads it.
    pub(crate) fn read() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = |name: &str| variable(name).map(PathBuf::from);
        let text = |name: &str| variable(name).and_then(|value: OsString| value.into_string().ok());
        let dumb = text("TERM").is_some_and(|term| term == "dumb");
        Self {
            surroundings: Surroundings {
                uid: rustix::process::geteuid().as_raw(),
                home: path("HOME"),
                config_home: path("XDG_CONFIG_HOME"),
                state_home: path("XDG_STATE_HOME"),
                runtime_dir: path("XDG_RUNTIME_DIR"),
                system_config: PathBuf::from(SYSTEM_CONFIG),
            },
            no_colour: dumb || variable("NO_COLOR").is_some(),
            dumb,
            columns: text("COLUMNS")
                .and_then(|columns| columns.parse().ok())
                .filter(|columns| 0 < *columns),
            notify_socket: variable("NOTIFY_SOCKET"),
            watchdog: text("WATCHDOG_USEC")
                .and_then(|micros| micros.parse().ok())
                .map(Duration::from_micros),
            control_fd: text("MIDWATCH_CONTROL_FD"),
            tmp: path("TMPDIR"),
        }
    }
}
