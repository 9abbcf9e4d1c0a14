//! What every command is given: the daemon, the screen, and what was asked of both.

use super::connection::Api;
use super::environment::Environment;
use super::failure::{Failure, exit};
use super::paint::Paint;
use crate::config::{Config, Named, Source};
use crate::kernel::ids::Timestamp;
use crate::units::{self, Zone};
use serde::Serialize;
use std::io::{BufRead, Write};
use std::time::Duration;

/// The form of the results on stdout: for people, one JSON document, or one a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    // No doc comments: they would make the help twice as long.
    #[default]
    Table,
    Json,
    Ndjson,
}

/// How results are shown to people. A test makes one of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// What times are relative to.
    pub(crate) now: Timestamp,
    /// The zone of absolute times.
    pub(crate) zone: Zone,
    /// The width that no line exceeds; none when the output goes elsewhere.
    pub(crate) width: Option<usize>,
    /// Colour.
    pub(crate) paint: Paint,
    /// Whether times are shown on the clock instead of seen from now.
    pub(crate) absolute: bool,
}

impl View {
    /// Whether an instant of the API has come.
    pub(crate) fn has_come(&self, rfc3339: &str) -> bool {
        units::parse_rfc3339(rfc3339).is_ok_and(|instant| instant <= self.now)
    }

    /// When an instant of the API was or is: `9 min ago`.
    pub(crate) fn relative(&self, rfc3339: &str) -> String {
        match units::parse_rfc3339(rfc3339) {
            Ok(instant) if self.absolute => self.zone.date_time(instant),
            Ok(instant) => units::relative(instant, self.now),
            Err(_) => rfc3339.to_owned(),
        }
    }

    /// Since when: `since 2 min`.
    pub(crate) fn since(&self, rfc3339: &str) -> String {
        match units::parse_rfc3339(rfc3339) {
            Ok(instant) if self.absolute => format!("since {}", self.zone.date_time(instant)),
            Ok(instant) => format!("since {}", units::rough_span(self.now.since(instant))),
            Err(_) => rfc3339.to_owned(),
        }
    }

    /// An instant of the API on the clock, with how long ago it was.
    pub(crate) fn absolute(&self, rfc3339: &str) -> String {
        match units::parse_rfc3339(rfc3339) {
            Ok(instant) => format!(
                "{}  ({})",
                self.zone.date_time(instant),
                units::relative(instant, self.now)
            ),
            Err(_) => rfc3339.to_owned(),
        }
    }
}

/// All a command may use.
pub(crate) struct Session<'a> {
    /// The daemon.
    pub(crate) api: &'a dyn Api,
    /// How to show things.
    pub(crate) view: View,
    /// The form of the results.
    pub(crate) format: Format,
    /// `-q`: no notes on stderr.
    pub(crate) quiet: bool,
    /// `-v`, how often.
    pub(crate) verbose: u8,
    /// How long a command that waits or follows lets the daemon be away.
    pub(crate) patience: Duration,
    /// The places that were named.
    pub(crate) named: &'a Named,
    /// The environment.
    pub(crate) environment: &'a Environment,
    /// Whether notes go to a terminal, so that a line may be drawn over.
    pub(crate) lively: bool,
    /// Colour of what goes to stderr.
    pub(crate) err_paint: Paint,
    /// stdin.
    pub(crate) input: Box<dyn BufRead>,
    /// stdout: results.
    pub(crate) out: &'a mut dyn Write,
    /// stderr: everything else.
    pub(crate) err: &'a mut dyn Write,
}

impl Session<'_> {
    /// The whole config.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        Ok(self.source((None, None)).read()?)
    }

    /// Where the config comes from, to be read again later. `workers` are the numbers of
    /// processes and slots that flags name.
    pub(crate) fn source(&self, workers: (Option<u32>, Option<u32>)) -> Source {
        let (named, around) = (self.named.clone(), self.environment.surroundings.clone());
        Source { named, around, workers }
    }

    /// Prints a result and hands it on at once, so that a reader of a pipe sees it.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        Ok(())
    }

    /// Prints a screen: no line of it is wider than the terminal.
    pub(crate) fn show(&mut self, screen: &str) -> Result<(), Failure> {
        match self.view.width {
            Some(columns) => self.print(&super::text::fit(screen, columns)),
            None => self.print(screen),
        }
    }

    /// Prints a result as one line of JSON.
    pub(crate) fn json<T: Serialize>(&mut self, value: &T) -> Result<(), Failure> {
        let mut line = serde_json::to_string(value)
            .map_err(|error| Failure::new(1, format!("cannot print the answer: {error}")))?;
        line.push('\n');
        self.print(&line)
    }

    /// Says something that is no result; not with `-q`. That nobody hears it is no failure.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// Says something that has to be said.
    pub(crate) fn say(&mut self, text: &str) {
        let said = writeln!(self.err, "{text}").and_then(|()| self.err.flush());
        drop(said);
    }

    /// Says why one of several things failed, and returns its exit code.
    pub(crate) fn complain(&mut self, failure: &Failure) -> u8 {
        let text = failure.render(self.err_paint.0);
        drop(self.err.write_all(text.as_bytes()).and_then(|()| self.err.flush()));
        failure.code()
    }

    /// Does something about each of several things and tells what came of it. One that is refused
    /// stops no other; the worst exit code wins.
    pub(crate) fn one_by_one<T, A>(
        &mut self,
        things: &[T],
        act: impl Fn(&T, &Self) -> Result<A, Failure>,
        tell: impl Fn(&T, &A, &mut Self) -> Result<(), Failure>,
    ) -> Result<u8, Failure> {
        let mut worst = exit::DONE;
        for thing in things {
            match act(thing, self) {
                Ok(acted) => tell(thing, &acted, self)?,
                Err(failure) => {
                    let code = self.complain(&failure);
                    worst = worst.max(code);
                    // Without a daemon the others fare no better.
                    if code == exit::UNREACHABLE {
                        break;
                    }
                }
            }
        }
        Ok(worst)
    }
}
