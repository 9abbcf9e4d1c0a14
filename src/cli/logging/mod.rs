//! Our own log: what the parts of the daemon emit, as lines in files and on stderr.
//!
//! Each process writes files of its own, and a thread of its own writes them: a disk or a reader of
//! stderr that stands still holds nobody up, and no two processes ever rotate one file. Lines that
//! find no room are counted, and told of once there is room again. What is written where, and in
//! which form, is in `spec/logs.md`.
//!
//! The crate that was meant to rotate the files panics where it cannot make their directory, and
//! drops lines in silence where it could not open one; so that is done here.

mod file;
mod line;
mod writer;

use super::failure::Failure;
use super::session::Session;
use crate::config::{Config, Level, LogDir, LogFormat};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry, reload};
use writer::{Echo, Settings, Writer};

/// Longest wait for the last lines when the process ends, or panics.
const LAST_WORDS_TIME: Duration = Duration::from_secs(2);

/// The log of this process: set once, when logging begins.
static LOG: OnceLock<Log> = OnceLock::new();

/// How to change the log, and to end it.
struct Log {
    writer: Writer,
    /// Sets the level, the form and the places that a config asks for.
    follow: Box<dyn Fn(&Config) + Send + Sync>,
}

/// Begins to log as the config says; `-v` says more, `-q` less. Once in a process, whose part in
/// the daemon is `name`.
pub(super) fn begin(config: &Config, session: &Session<'_>, name: &str) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(1, format!("cannot begin to log: {error}"));
    let (verbose, quiet) = (session.verbose, session.quiet);
    let asked = move |config: &Config| level(config, verbose, quiet);
    let (filter, handle) = reload::Layer::new(asked(config));
    let terminal = std::io::stderr().is_terminal();
    let style = Style { terminal, colour: session.err_paint.0 && terminal };
    let writer = Writer::start(name.to_owned(), file_name(name), settings(config, style));
    let writer = writer.map_err(|error| failed(&error))?;
    let lines = LinesLayer(writer.clone());
    registry().with(filter).with(lines).try_init().map_err(|error| failed(&error))?;
    let to = writer.clone();
    let follow = move |config: &Config| {
        to.change(settings(config, style));
        drop(handle.reload(asked(config)));
    };
    drop(LOG.set(Log { writer, follow: Box::new(follow) }));
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        usual(panic);
        end();
    }));
    Ok(())
}

/// Logs as another config says from now on.
pub(super) fn follow(config: &Config) {
    if let Some(log) = LOG.get() {
        (log.follow)(config);
    }
}

/// Waits, for a while, until what was said is written. Does nothing where nothing logs.
pub(super) fn end() {
    if let Some(log) = LOG.get() {
        log.writer.flush(LAST_WORDS_TIME);
    }
}

/// Hands over what is said; it becomes a line on the thread that writes it.
struct LinesLayer(Writer);

impl<S: Subscriber> Layer<S> for LinesLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        self.0.write(line::Said::of(event, crate::clock::wall()));
    }
}

/// The name of a process as that of its files.
fn file_name(name: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name: String =
        name.chars().take(64).map(|letter| if fits(letter) { letter } else { '_' }).collect();
    if name.starts_with('.') || name.is_empty() { format!("worker{name}") } else { name }
}

/// What stderr is.
#[derive(Clone, Copy)]
struct Style {
    terminal: bool,
    colour: bool,
}

fn settings(config: &Config, style: Style) -> Settings {
    let log = &config.log;
    let within = (log.dir == LogDir::DataDir).then(|| config.data_dir.clone());
    let echo = match log.dir {
        // Who names a place looks there; what is bad is said here all the same.
        LogDir::At(_) if !style.terminal => Echo::Warnings,
        LogDir::At(_) | LogDir::DataDir | LogDir::Stderr => Echo::All,
    };
    Settings {
        dir: log.dir.directory(&config.data_dir),
        within,
        rotate: log.rotate,
        max_size: log.max_size,
        keep: log.keep,
        compress: log.compress,
        echo,
        json: log.format == LogFormat::Json,
        colour: style.colour,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_of_any_name_has_a_file_in_the_directory_and_nowhere_else() {
        let names = ["w1", "../../etc/passwd", "", ".", "nacht wache", "a/b"];
        let files = names.map(file_name);
        let expected = ["w1", "worker.._.._etc_passwd", "worker", "worker.", "nacht_wache", "a_b"];
        assert_eq!(files, expected);
    }
}
