//! A page over the lists: a log that goes on, everything about one thing, or the help.

use crate::api::{History, ScheduleView, TypeView};
use crate::cli::session::View;
use crate::cli::text::{plain, tame};
use crate::cli::{history, schedule, show, types};
use crate::kernel::ids::TaskId;

/// What a page is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What the last attempt of a task wrote.
    Log(TaskId),
    /// Everything about a task.
    Task(TaskId),
    /// Everything about a type.
    Type(String),
    /// Everything about a schedule.
    Schedule(String),
    /// The keys.
    Help,
}

/// What is on it.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// It was asked for.
    Coming,
    /// It cannot be had, and why.
    Failed(String),
    /// Lines, without anything that a terminal would obey.
    Lines(Vec<String>),
    /// A task and its life.
    Task(Box<History>),
    /// A type.
    Type(Box<TypeView>),
    /// A schedule.
    Schedule(Box<ScheduleView>),
}

/// A page and where the person is on it.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// What it is about.
    pub(super) wanted: Wanted,
    /// What is on it.
    pub(super) body: Body,
    /// The first line that is shown.
    pub(super) top: usize,
    /// The first column that is shown.
    pub(super) left: usize,
    /// Whether it stays with its end.
    pub(super) follow: bool,
}

/// What the keys do, for `?`.
const HELP: &str = "\
Moving
  Tab, Right        the next list        Shift-Tab, Left   the one before
  Up, Down, k, j    a row                PgUp, PgDn        ten rows
  Home, End, g, G   the first, the last

Looking
  Enter             everything about the chosen task, type or schedule
  l                 the log of the chosen task, as it grows
  /                 show only what has a text in it; Esc shows all again

Acting: each asks before it does something
  c                 cancel the chosen task
  r                 run a task that has ended again, as a new task
  p                 pause or resume the type of the chosen task, the chosen
                    type, or the chosen schedule
  a                 acknowledge the worst alert that nobody has

  Ctrl-L            draw the screen anew
  Ctrl-Z            back to the shell; `fg` goes on
  q, Ctrl-C         quit

What the marks mean
  ended, failed     tasks that ended in each of the last minutes, the latest
                    to the right; the height is relative to the highest
  bars of types     what runs is full, what waits is shaded
  >                 the chosen row";

impl Page {
    /// A page whose content is still to come.
    pub(super) fn new(wanted: Wanted) -> Self {
        let follow = matches!(wanted, Wanted::Log(_));
        let body = match wanted {
            Wanted::Help => Body::Lines(HELP.lines().map(str::to_owned).collect()),
            _ => Body::Coming,
        };
        Self { wanted, body, top: 0, left: 0, follow }
    }

    /// A page with its content.
    pub(super) fn with(wanted: Wanted, body: Body) -> Self {
        Self { body, ..Self::new(wanted) }
    }

    /// Keeps the place that the person had on the page before it was renewed.
    pub(super) fn go_on_from(&mut self, before: &Self) {
        (self.top, self.left, self.follow) = (before.top, before.left, before.follow);
    }

    /// The lines of it.
    pub(super) fn lines(&self, view: &View) -> Vec<String> {
        let text = match &self.body {
            Body::Coming => "…".to_owned(),
            Body::Failed(why) => tame(why),
            Body::Lines(lines) => return lines.clone(),
            Body::Task(history) => {
                let task = show::render(&history.task, None, view);
                // The first line of the history is the head again.
                let life = history::render(history, view);
                let life = life.split_once("\n\n").map_or("", |(_, life)| life);
                format!("{task}\n{life}")
            }
            Body::Type(one) => types::render(one, view),
            Body::Schedule(one) => schedule::render(one, view),
        };
        text.lines().map(plain).collect()
    }

    /// The first line to show so that `rows` of `all` lines fill the screen.
    pub(super) fn first(&self, all: usize, rows: usize) -> usize {
        let last = all.saturating_sub(rows);
        if self.follow { last } else { self.top.min(last) }
    }

    /// Moves by so many lines; who moves up follows no more, who reaches the end does again.
    pub(super) fn scroll(&mut self, by: isize, all: usize, rows: usize) {
        let last = all.saturating_sub(rows);
        self.top = self.first(all, rows).saturating_add_signed(by).min(last);
        self.follow = matches!(self.wanted, Wanted::Log(_)) && self.top == last && 0 <= by;
    }

    /// Moves sideways.
    pub(super) fn pan(&mut self, by: isize) {
        self.left = self.left.saturating_add_signed(by).min(10_000);
    }

    /// What it is called.
    pub(super) fn title(&self) -> String {
        match &self.wanted {
            Wanted::Log(id) => format!("log of task {id}"),
            Wanted::Task(id) => format!("task {id}"),
            Wanted::Type(name) => format!("type {}", tame(name)),
            Wanted::Schedule(name) => format!("schedule {}", tame(name)),
            Wanted::Help => "the keys of midwatch top".to_owned(),
        }
    }
}

/// Bytes of a log as lines that a terminal may show: what would move its cursor becomes visible,
/// colours are left out, a carriage return ends a line.
pub(super) fn log_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let lines = text.split('\n').flat_map(|line| line.trim_end_matches('\r').split('\r'));
    lines.map(|line| plain(&tame(&expand(&without_colours(line))))).collect()
}

/// Without the sequences that only colour: `ESC [ … m`.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let parameters = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match parameters.strip_prefix('m') {
            Some(rest) => text += rest,
            None => text += &format!("\u{1b}[{piece}"),
        }
    }
    text
}

/// Tabs as spaces up to the next multiple of eight.
fn expand(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for (index, piece) in line.split('\t').enumerate() {
        if index != 0 {
            text += &" ".repeat(8 - crate::cli::text::width(&text) % 8);
        }
        text += piece;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_log_moves_the_cursor() {
        let bytes =
            b"one\ttab\n\x1b[31;1mred\x1b[0m and \x1b[2Jgone\n10 %\r20 %\r\nbell\x07 \xff\xe5\x7f";
        assert_eq!(
            log_lines(bytes),
            [
                "one     tab",
                "red and \\u{1b}[2Jgone",
                "10 %",
                "20 %",
                "bell\\u{7} \u{fffd}\u{fffd}\\u{7f}"
            ]
        );
    }

    #[test]
    fn who_scrolls_up_follows_no_more_until_the_end_is_reached_again() {
        let mut page = Page::new(Wanted::Log(TaskId(1)));
        assert_eq!(page.first(100, 10), 90);
        page.scroll(-5, 100, 10);
        assert_eq!((page.first(100, 10), page.first(200, 10), page.follow), (85, 85, false));
        page.scroll(3, 100, 10);
        assert!(!page.follow);
        page.scroll(30, 100, 10);
        assert_eq!((page.first(100, 10), page.first(200, 10)), (90, 190));
    }

    #[test]
    fn the_help_fits_eighty_columns() {
        assert!(HELP.lines().all(|line| crate::cli::text::width(line) < 80));
        // 24 rows with its title and the keys.
        assert!(HELP.lines().count() <= 28, "{}", HELP.lines().count());
    }
}
