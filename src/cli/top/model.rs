//! What the screen shows: what the daemon last told, and where the person is on it.

use super::ask::{Act, Order};
use super::lists::{self, Row};
use super::page::Page;
use super::rates::Rates;
use crate::api::{AlertView, ScheduleView, StatsView, StatusView, TaskView, TypeView, WorkerView};
use crate::cli::session::View;
use crate::kernel::ids::{Seq, TaskId, Timestamp};

/// What the daemon told at one moment.
#[derive(Clone, Debug)]
pub(super) struct News {
    /// When it was asked.
    pub(super) at: Timestamp,
    /// Its health.
    pub(super) status: StatusView,
    /// Its figures; none from a daemon that has none.
    pub(super) stats: Option<StatsView>,
    /// Attempts under way, newest task first.
    pub(super) running: Vec<TaskView>,
    /// What has ended, the latest end first.
    pub(super) ended: Vec<TaskView>,
    /// Task types, by name.
    pub(super) types: Vec<TypeView>,
    /// Schedules, the next one first.
    pub(super) schedules: Vec<ScheduleView>,
    /// Workers.
    pub(super) workers: Vec<WorkerView>,
    /// Alerts that stand, the worst first; none from a daemon that has none.
    pub(super) alerts: Vec<AlertView>,
}

impl News {
    /// Alerts that stand and that no point of attention tells.
    pub(super) fn alerts_besides(&self) -> impl Iterator<Item = &AlertView> {
        let told = |key: &str| {
            self.status.attention.iter().any(|point| point.alert.as_deref() == Some(key))
        };
        self.alerts.iter().filter(move |one| !told(&format!("{} {}", one.rule, one.subject)))
    }
}

/// A list of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Attempts under way.
    Running,
    /// Tasks that have ended.
    Ended,
    /// Task types.
    Types,
    /// Schedules.
    Schedules,
}

impl List {
    /// All of them, in the order of the Tab key.
    pub(super) const ALL: [Self; 4] = [Self::Running, Self::Ended, Self::Types, Self::Schedules];

    const fn place(self) -> usize {
        match self {
            Self::Running => 0,
            Self::Ended => 1,
            Self::Types => 2,
            Self::Schedules => 3,
        }
    }
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// A task.
    Task(TaskId),
    /// A type or a schedule.
    Name(String),
}

/// The row that is chosen in a list. It stays with what it is about, wherever that moves.
#[derive(Clone, Debug, Default)]
struct Chosen {
    key: Option<Key>,
    index: usize,
}

/// What the next keys are for.
#[derive(Debug)]
pub(super) enum Mode {
    /// Moving about.
    Lists,
    /// Typing the filter; what it was before.
    Filter(String),
    /// Saying yes or no.
    Ask(Question),
    /// Reading something.
    Page(Box<Page>),
}

/// Something that is done only after a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The question.
    pub(super) text: String,
    /// What is done then.
    pub(super) act: Act,
}

/// The screen as it should be.
#[derive(Debug)]
pub(super) struct Model {
    /// How things are shown; its `now` is the moment of the picture.
    pub(super) view: View,
    /// What the daemon last told.
    pub(super) news: News,
    /// Since when it does not answer, and why.
    pub(super) away: Option<(Timestamp, String)>,
    /// How fast things get on.
    pub(super) rates: Rates,
    /// The list that the keys are about.
    pub(super) focus: List,
    /// Only what has this in it is shown.
    pub(super) filter: String,
    /// What the next keys are for.
    pub(super) mode: Mode,
    /// What came of the last key.
    pub(super) said: Option<String>,
    /// Columns and rows of the terminal.
    pub(super) size: (u16, u16),
    chosen: [Chosen; 4],
}

impl Model {
    /// The screen at its beginning.
    pub(super) fn new(view: View, news: News) -> Self {
        let mut rates = Rates::default();
        rates.see(&news.running, news.at);
        Self {
            view,
            news,
            away: None,
            rates,
            focus: List::Running,
            filter: String::new(),
            mode: Mode::Lists,
            said: None,
            size: (80, 24),
            chosen: Default::default(),
        }
    }

    /// The last record that was heard of.
    pub(super) fn seq(&self) -> Seq {
        self.news.status.seq
    }

    /// Times are relative to this from now on.
    pub(super) fn look_at_the_clock(&mut self, now: Timestamp) {
        self.view.now = now;
    }

    /// Takes up what the daemon told.
    pub(super) fn take(&mut self, news: News) {
        if let Some((since, _)) = self.away.take() {
            let span = crate::units::rough_span(news.at.since(since));
            self.said = Some(format!("the daemon answers again, after {span}"));
        }
        self.rates.see(&news.running, news.at);
        self.news = news;
    }

    /// The daemon did not answer.
    pub(super) fn lose(&mut self, now: Timestamp, why: String) {
        let since = self.away.take().map_or(now, |(since, _)| since);
        self.away = Some((since, why));
    }

    /// Opens a page, or renews the one that is open. A page that came too late is dropped.
    pub(super) fn open(&mut self, mut page: Page) {
        if let Mode::Page(open) = &self.mode
            && open.wanted == page.wanted
        {
            page.go_on_from(open);
            self.mode = Mode::Page(Box::new(page));
        }
    }

    /// The rows of a list that the filter lets through.
    pub(super) fn rows(&self, list: List) -> Vec<Row> {
        lists::rows(list, self)
    }

    /// The chosen row of a list, as its number among `rows`.
    pub(super) fn chosen(&self, list: List, rows: &[Row]) -> usize {
        let Some(chosen) = self.chosen.get(list.place()) else { return 0 };
        let of_key = |key: &Key| rows.iter().position(|row| row.key == *key);
        let place = chosen.key.as_ref().and_then(of_key).unwrap_or(chosen.index);
        place.min(rows.len().saturating_sub(1))
    }

    /// Moves the choice in the list that has the focus by so many rows.
    pub(super) fn step(&mut self, by: isize) {
        let rows = self.rows(self.focus);
        let index = self.chosen(self.focus, &rows).saturating_add_signed(by);
        let index = index.min(rows.len().saturating_sub(1));
        if let Some(chosen) = self.chosen.get_mut(self.focus.place()) {
            *chosen = Chosen { key: rows.get(index).map(|row| row.key.clone()), index };
        }
    }

    /// What the chosen row of the focus is about. From then on the choice stays with it.
    pub(super) fn pick(&mut self) -> Option<Key> {
        self.step(0);
        self.chosen.get(self.focus.place())?.key.clone()
    }

    /// Moves the focus to the next list, or to the one before.
    pub(super) fn turn(&mut self, forward: bool) {
        let lists = List::ALL.len();
        let by = if forward { 1 } else { lists - 1 };
        let place = (self.focus.place() + by) % lists;
        self.focus = List::ALL.get(place).copied().unwrap_or(List::Running);
    }

    /// A task of the lists.
    pub(super) fn task(&self, id: TaskId) -> Option<&TaskView> {
        let mut known = self.news.running.iter().chain(&self.news.ended);
        known.find(|task| task.id == id)
    }

    /// The page goes; the daemon need not be asked for it any more.
    pub(super) fn close(&mut self) -> Order {
        self.mode = Mode::Lists;
        Order::Close
    }
}
