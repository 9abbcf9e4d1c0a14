//! The lists of the screen as rows, and rows as lines.

use super::model::{Key, List, Model, News};
use super::rates;
use crate::api::{Progress, ScheduleView, TaskView, TypeStats, TypeView, WorkerView};
use crate::cli::paint::{Ink, status_ink};
use crate::cli::schedule;
use crate::cli::session::View;
use crate::cli::table::{Cell, Column, Pieces, Table};
use crate::cli::task_words::{note, remarks, tries, when};
use crate::cli::types;
use crate::kernel::ids::Millis;
use crate::units;

/// From this width on the columns appear that a smaller screen has no room for.
const WIDE: usize = 96;

/// Columns of a bar.
const BAR: usize = 10;

/// Rows of a list: what no screen shows is not made.
const ROWS_MAX: usize = 200;

/// A row of a list.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// What it is about.
    pub(super) key: Key,
    cells: Vec<Cell>,
}

/// The rows of a list that the filter lets through.
pub(super) fn rows(list: List, model: &Model) -> Vec<Row> {
    let (news, view) = (&model.news, &model.view);
    let mut rows: Vec<_> = match list {
        List::Running => news.running.iter().map(|task| running(task, model)).collect(),
        List::Ended => news.ended.iter().map(|task| ended(task, view)).collect(),
        List::Types => of_types(news, view),
        List::Schedules => news.schedules.iter().map(|one| plan(one, view)).collect(),
    };
    let wanted = model.filter.to_lowercase();
    let has = |cell: &Cell| cell.text().to_lowercase().contains(&wanted);
    rows.retain(|row| wanted.is_empty() || row.cells.iter().any(has));
    rows.truncate(ROWS_MAX);
    rows
}

/// What is said where a list has no row.
pub(super) const fn nothing(list: List, filtered: bool) -> &'static str {
    match list {
        _ if filtered => "nothing that the filter lets through",
        List::Running => "nothing runs",
        List::Ended => "nothing has ended yet",
        List::Types => "no types: the config has no handlers",
        List::Schedules => "no schedules",
    }
}

/// The heading of a list that has no row.
pub(super) const fn heading(list: List) -> &'static str {
    match list {
        List::Running => "RUNNING",
        List::Ended => "ENDED",
        List::Types => "TYPE",
        List::Schedules => "SCHEDULE",
    }
}

fn columns(list: List, wide: bool) -> Vec<(Column, bool)> {
    let always = |column| (column, true);
    let if_wide = |column| (column, wide);
    let first = heading(list);
    match list {
        List::Running => vec![
            always(Column::right(first)),
            always(Column::left("TYPE")),
            always(Column::left("PROGRESS").rank(5)),
            always(Column::right("RATE").rank(3)),
            always(Column::right("LEFT").rank(4)),
            always(Column::right("FOR").rank(2)),
            always(Column::right("TRY").rank(1)),
            if_wide(Column::right("PRI").rank(0)),
            if_wide(Column::right("WORKER").rank(0)),
            always(Column::left("NOTE")),
        ],
        List::Ended => vec![
            always(Column::right(first)),
            always(Column::left("STATUS")),
            always(Column::left("TYPE")),
            always(Column::right("WHEN").rank(3)),
            always(Column::right("TRY").rank(1)),
            if_wide(Column::left("SCHEDULE").rank(0)),
            always(Column::left("NOTE")),
        ],
        List::Types => vec![
            always(Column::left(first)),
            always(Column::left("STATE")),
            always(Column::right("RUNNING").rank(3)),
            always(Column::right("WAITING").rank(4)),
            always(Column::left("").rank(2)),
            if_wide(Column::right("SUCCESS").rank(1)),
            if_wide(Column::right("WAIT P95").rank(1)),
            if_wide(Column::right("RUN P95").rank(1)),
            always(Column::left("NOTE")),
        ],
        List::Schedules => vec![
            always(Column::left(first)),
            always(Column::right("NEXT")),
            always(Column::left("WHEN").rank(2)),
            always(Column::left("TYPE").rank(1)),
            if_wide(Column::right("RUNS").rank(0)),
            always(Column::left("NOTE")),
        ],
    }
}

/// Rows as lines of at most so many columns, the heading first.
pub(super) fn lines(list: List, rows: &[Row], width: usize) -> Vec<Pieces> {
    let columns = columns(list, WIDE <= width);
    let shown: Vec<_> =
        columns.iter().filter(|(_, shown)| *shown).map(|(column, _)| *column).collect();
    let mut table = Table::new(&shown);
    for row in rows {
        let cells = row.cells.iter().zip(&columns).filter(|(_, (_, shown))| *shown);
        table.row(cells.map(|(cell, _)| cell.clone()).collect());
    }
    table.lines(Some(width))
}

fn running(task: &TaskView, model: &Model) -> Row {
    let (view, rates) = (&model.view, &model.rates);
    // What is done is in a column of its own; of the rest only the handler's word is a note.
    let rate = rates.per_hour(task, model.news.at).map(rates::words).unwrap_or_default();
    let left = rates.left(task, model.news.at).map(short).unwrap_or_default();
    let began = units::parse_rfc3339(&task.status_since).ok();
    let spent = began.map(|began| short(view.now.since(began))).unwrap_or_default();
    let lost = matches!(task.status, crate::kernel::status::Status::Lost);
    let told = task.progress.as_ref().and_then(|told| told.note.clone());
    let mut text = remarks(task, told);
    if lost {
        text = format!("LOST; {text}");
    }
    let ink = if lost { Ink::Yellow } else { Ink::Plain };
    let progress = task.progress.as_ref().map(progress).unwrap_or_default();
    let worker = task.executor_id.map(|id| id.to_string()).unwrap_or_default();
    let cells = vec![
        task.id.to_string().into(),
        Cell::new(&task.kind, ink),
        Cell::new(&progress, Ink::Cyan),
        rate.into(),
        left.into(),
        spent.into(),
        tries(task).into(),
        task.priority.to_string().into(),
        worker.into(),
        Cell::new(text.trim_end_matches("; "), ink),
    ];
    Row { key: Key::Task(task.id), cells }
}

/// `██████░░░░  60 %`, or what is done where nobody knows of how much.
fn progress(progress: &Progress) -> String {
    let Some(total) = progress.total.filter(|total| *total != 0) else {
        return units::count(progress.done);
    };
    let done = progress.done.min(total);
    let percent = u128::from(done) * 100 / u128::from(total);
    format!("{} {percent:>3} %", bar(done, total, BAR, ('█', '░')))
}

fn bar(part: u64, whole: u64, columns: usize, (full, empty): (char, char)) -> String {
    let all = u64::try_from(columns).unwrap_or_default();
    let filled = u128::from(part.min(whole)) * u128::from(all) / u128::from(whole.max(1));
    let filled = usize::try_from(filled).unwrap_or(columns).min(columns);
    let letters = std::iter::repeat_n(full, filled);
    letters.chain(std::iter::repeat_n(empty, columns - filled)).collect()
}

/// A span without what nobody reads at a glance.
fn short(span: Millis) -> String {
    let ms = span.0;
    units::span(Millis(if ms < 600_000 { ms - ms % 1000 } else { ms - ms % 60_000 }))
        .replace("0 ms", "0 s")
}

fn ended(task: &TaskView, view: &View) -> Row {
    let mut text = note(task);
    if text.is_empty()
        && let Some(result) = &task.result
    {
        result.get().clone_into(&mut text);
    }
    let cells = vec![
        task.id.to_string().into(),
        Cell::new(task.status.word(), status_ink(task.status)),
        task.kind.as_str().into(),
        when(task, view).into(),
        tries(task).into(),
        task.schedule.as_deref().unwrap_or_default().into(),
        text.into(),
    ];
    Row { key: Key::Task(task.id), cells }
}

/// Waiting tasks of a type.
pub(super) fn waiting(one: &TypeView) -> u64 {
    types::count(one, "PENDING").saturating_add(types::count(one, "RETRYING"))
}

/// The busiest type first.
fn of_types(news: &News, view: &View) -> Vec<Row> {
    let busy = |one: &TypeView| waiting(one).saturating_add(one.running);
    let most = news.types.iter().map(busy).max().unwrap_or_default();
    let mut types: Vec<_> = news.types.iter().collect();
    types.sort_by_key(|one| std::cmp::Reverse(busy(one)));
    let stats = |name: &str| {
        let known = news.stats.as_ref()?.types.iter();
        known.into_iter().find(|of| of.kind == name)
    };
    types.into_iter().map(|one| of_type(one, most, stats(&one.kind), view)).collect()
}

fn of_type(one: &TypeView, most: u64, stats: Option<&TypeStats>, view: &View) -> Row {
    let (status, ink) = types::status(one);
    let cells = vec![
        one.kind.as_str().into(),
        Cell::new(status, ink),
        types::running(one).into(),
        units::count(waiting(one)).into(),
        Cell::new(&load(one.running, waiting(one), most), Ink::Cyan),
        stats.and_then(well).unwrap_or_default().into(),
        stats.and_then(|stats| stats.wait.p95_ms).map(span_ms).unwrap_or_default().into(),
        stats.and_then(|stats| stats.run.p95_ms).map(span_ms).unwrap_or_default().into(),
        types::note(one, view).into(),
    ];
    Row { key: Key::Name(one.kind.clone()), cells }
}

fn span_ms(ms: u64) -> String {
    units::span(Millis(ms))
}

/// The part of the ended tasks that ended well: `99.1 %`.
fn well(stats: &TypeStats) -> Option<String> {
    let ended = stats.succeeded + stats.failed + stats.dead;
    (ended != 0).then(|| units::percent(stats.succeeded, ended))
}

/// What runs and what waits as a bar: full, then shaded. Whatever there is shows.
fn load(running: u64, waiting: u64, most: u64) -> String {
    let columns = |number: u64| {
        let part = u128::from(number) * 12 / u128::from(most.max(1));
        usize::try_from(part).unwrap_or(12).max(usize::from(number != 0))
    };
    "█".repeat(columns(running)) + &"▒".repeat(columns(waiting))
}

fn plan(one: &ScheduleView, view: &View) -> Row {
    let (note, ink) = schedule::note(one, view);
    let next = one.next.as_ref().map_or_else(|| "–".to_owned(), |next| view.relative(&next.at));
    let cells = vec![
        one.name.as_str().into(),
        next.into(),
        schedule::plan(one).into(),
        one.kind.as_str().into(),
        units::count(one.counts.fired).into(),
        Cell::new(&note, ink),
    ];
    Row { key: Key::Name(one.name.clone()), cells }
}

/// The workers, for a screen that has room for them.
pub(super) fn workers(workers: &[WorkerView], width: usize) -> Vec<Pieces> {
    let mut table = Table::new(&[
        Column::left("WORKER"),
        Column::left("STATUS"),
        Column::right("BUSY"),
        Column::right("HEARD").rank(1),
        Column::left("HOLDS"),
    ]);
    for one in workers.iter().take(ROWS_MAX) {
        let ink = if one.status == "alive" { Ink::Plain } else { Ink::Yellow };
        let holds: Vec<_> = one.holds.iter().map(|held| held.task.to_string()).collect();
        table.row(vec![
            one.name.as_str().into(),
            Cell::new(&one.status, ink),
            format!("{} of {}", one.holds.len(), one.slots).into(),
            format!("{} ago", units::rough_span(one.silent_ms)).into(),
            holds.join(", ").into(),
        ]);
    }
    table.lines(Some(width))
}
