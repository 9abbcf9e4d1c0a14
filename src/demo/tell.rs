//! A line an event, with the clock of the demo.

use super::DemoError;
use super::house::House;
use crate::supervisor::monotonic;
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// Lines of the daemon's log that are shown when the demo failed.
const LOG_LINES_SHOWN: usize = 30;

/// Who tells the story.
pub(super) struct Tell<'a> {
    out: &'a mut dyn Write,
    colour: bool,
    begun: Duration,
}

/// What kind of line it is; the words say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Faint,
    Good,
    Bad,
}

impl<'a> Tell<'a> {
    pub(super) fn new(out: &'a mut dyn Write, colour: bool) -> Self {
        Self { out, colour, begun: monotonic() }
    }

    /// Time since the demo began.
    pub(super) fn elapsed(&self) -> Duration {
        monotonic().saturating_sub(self.begun)
    }

    /// An event, with the clock before it.
    pub(super) fn event(&mut self, tone: Tone, words: &dyn fmt::Display) -> Result<(), DemoError> {
        let seconds = self.elapsed().as_secs_f64();
        self.line(tone, &format_args!("{seconds:7.2} s  {words}"))
    }

    /// A line without a clock.
    pub(super) fn line(&mut self, tone: Tone, words: &dyn fmt::Display) -> Result<(), DemoError> {
        let ink = match tone {
            Tone::Plain => "",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Bad => "1;31",
        };
        let written = if self.colour && !ink.is_empty() {
            writeln!(self.out, "\x1b[{ink}m{words}\x1b[0m")
        } else {
            writeln!(self.out, "{words}")
        };
        written.and_then(|()| self.out.flush()).map_err(DemoError::io("tell its story"))
    }

    /// An empty line.
    pub(super) fn gap(&mut self) -> Result<(), DemoError> {
        self.line(Tone::Plain, &"")
    }

    /// What is left to look at.
    pub(super) fn failed(&mut self, house: &House) -> Result<(), DemoError> {
        self.gap()?;
        let log = house.log();
        let lines: Vec<_> = log.lines().collect();
        let start = lines.len().saturating_sub(LOG_LINES_SHOWN);
        self.line(Tone::Plain, &"the last words of the daemon:")?;
        for line in lines.iter().skip(start) {
            self.line(Tone::Faint, &format_args!("  {line}"))?;
        }
        self.line(Tone::Bad, &format_args!("everything is kept in {}", house.dir().display()))
    }
}
