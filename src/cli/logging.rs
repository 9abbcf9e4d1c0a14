//! Our own log: what the parts of the daemon emit, as lines on stderr.

use super::failure::Failure;
use super::session::Session;
use crate::config::{Config, Level, LogFormat};
use std::io::IsTerminal;
use std::sync::OnceLock;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry, reload};

/// What a change of `log.level` reaches: set once, when logging begins.
static LEVEL: OnceLock<Follow> = OnceLock::new();

/// Sets the level that a config asks for.
type Follow = Box<dyn Fn(&Config) + Send + Sync>;

/// Begins to log as the config says; `-v` says more, `-q` less. Once in a process.
pub(super) fn begin(config: &Config, session: &Session<'_>) -> Result<(), Failure> {
    let (verbose, quiet) = (session.verbose, session.quiet);
    let asked = move |config: &Config| level(config, verbose, quiet);
    let (filter, handle) = reload::Layer::new(asked(config));
    let lines = fmt::layer()
        .with_target(false)
        .with_ansi(session.err_paint.0 && std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let begun = match config.log.format {
        LogFormat::Text => registry().with(filter).with(lines).try_init(),
        LogFormat::Json => registry().with(filter).with(lines.json()).try_init(),
    };
    begun.map_err(|error| Failure::new(1, format!("cannot begin to log: {error}")))?;
    let follow = move |config: &Config| drop(handle.reload(asked(config)));
    drop(LEVEL.set(Box::new(follow)));
    Ok(())
}

/// Logs as another config says from now on.
pub(super) fn follow(config: &Config) {
    if let Some(follow) = LEVEL.get() {
        follow(config);
    }
}

fn level(config: &Config, verbose: u8, quiet: bool) -> LevelFilter {
    match verbose {
        0 if quiet => LevelFilter::WARN,
        0 => match config.log.level {
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
            Level::Trace => LevelFilter::TRACE,
        },
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
