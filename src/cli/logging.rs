//! Our own log: what the parts of the daemon emit, as lines on stderr.

use super::failure::Failure;
use super::session::Session;
use crate::config::{Config, Level, LogFormat};
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;

/// Begins to log as the config says; `-v` says more, `-q` less. Once in a process.
pub(super) fn begin(config: &Config, session: &Session<'_>) -> Result<(), Failure> {
    let level = match config.log.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let asked = match session.verbose {
        0 if session.quiet => LevelFilter::WARN,
        0 => level,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(asked)
        .with_target(false)
        .with_ansi(session.err_paint.0 && std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let begun = match config.log.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    begun.map_err(|error| Failure::new(1, format!("cannot begin to log: {error}")))
}
