//! The picture: a pure function of the model.
//!
//! From the top: health, what needs a person, alerts, figures, two lines of the last minutes, the lists,
//! and the keys. A small screen shows less of each, the smallest only the list that has the focus.
//! Whatever a colour says, a word or a mark says too.

use super::model::{List, Mode, Model};
use super::page::{Body, Page, Wanted};
use super::{attention, lists};
use crate::api::StatsView;
use crate::cli::paint::{Ink, Paint};
use crate::cli::session::View;
use crate::cli::status::health_ink;
use crate::cli::table::Pieces;
use crate::cli::text::{cut, pan, plain, tame, width};
use crate::kernel::ids::Millis;
use crate::units;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Below this nothing can be read.
const SMALLEST: (u16, u16) = (40, 8);

/// From here on the lists stand in two columns.
const TWO_COLUMNS: (u16, u16) = (150, 30);

/// Minutes that the daemon keeps apart.
const MINUTES: usize = 120;

/// Columns before a line of minutes.
const LABEL: usize = 9;

/// Draws the model.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    let mut pen =
        Pen { buffer: frame.buffer_mut(), paint: model.view.paint, dim: model.away.is_some() };
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let (columns, rows) = SMALLEST;
        let text = format!("too small: {columns}×{rows} is needed");
        pen.text(area, 0, &cut(&text, usize::from(area.width)), Ink::Bold);
        return;
    }
    let (body, last) = (Rect { height: area.height - 1, ..area }, area.height - 1);
    if let Mode::Page(page) = &model.mode {
        pen.dim = false;
        draw_page(&mut pen, body, page, model);
    } else {
        draw_lists(&mut pen, body, model);
    }
    pen.dim = false;
    pen.line(area, last, &footer(model, usize::from(area.width)));
}

/// What draws lines into the picture. Nothing it is given can leave its area.
struct Pen<'a> {
    buffer: &'a mut Buffer,
    paint: Paint,
    dim: bool,
}

impl Pen<'_> {
    fn style(&self, ink: Ink) -> Style {
        let style = Style::new();
        let style = if self.dim { style.add_modifier(Modifier::DIM) } else { style };
        let colour = |colour| if self.paint.0 { style.fg(colour) } else { style };
        match ink {
            Ink::Plain => style,
            Ink::Bold => style.add_modifier(Modifier::BOLD),
            Ink::Dim => style.add_modifier(Modifier::DIM),
            Ink::Green => colour(Color::Green),
            Ink::Yellow => colour(Color::Yellow),
            Ink::Red => colour(Color::Red),
            Ink::Cyan => colour(Color::Cyan),
        }
    }

    fn line(&mut self, area: Rect, row: u16, pieces: &Pieces) {
        if area.height <= row {
            return;
        }
        let spans = pieces.iter().map(|(text, ink)| Span::styled(plain(text), self.style(*ink)));
        let line: Line<'_> = spans.collect();
        self.buffer.set_line(area.x, area.y + row, &line, area.width);
    }

    fn text(&mut self, area: Rect, row: u16, text: &str, ink: Ink) {
        self.line(area, row, &vec![(text.to_owned(), ink)]);
    }

    /// Marks a row as the chosen one.
    fn choose(&mut self, area: Rect, row: u16) {
        if row < area.height {
            let row = Rect { y: area.y + row, height: 1, ..area };
            self.buffer.set_string(row.x, row.y, ">", Style::new());
            self.buffer.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
}

/// The rows of `area` from `row` on.
fn below(area: Rect, row: u16) -> Rect {
    let row = row.min(area.height);
    Rect { y: area.y + row, height: area.height - row, ..area }
}

fn draw_lists(pen: &mut Pen<'_>, area: Rect, model: &Model) {
    let columns = usize::from(area.width);
    let mut row = 0;
    let mut put = |pen: &mut Pen<'_>, line: &Pieces| {
        pen.line(area, row, line);
        row += 1;
    };
    let dim = std::mem::replace(&mut pen.dim, false);
    put(pen, &first_line(model, columns));
    if let Some(line) = away(model) {
        put(pen, &line);
    }
    pen.dim = dim;
    for line in attention::lines(model, area.height, columns) {
        put(pen, &line);
    }
    put(pen, &fitting(figures(model), columns));
    if let Some(stats) = &model.news.stats {
        if 12 <= area.height {
            put(pen, &fitting(day(stats), columns));
        }
        if 18 <= area.height {
            for line in minutes(stats, columns) {
                put(pen, &line);
            }
        }
    }
    let area = below(area, row + u16::from(20 < area.height));
    if TWO_COLUMNS.0 <= area.width && TWO_COLUMNS.1 - 10 <= area.height {
        in_two_columns(pen, area, model);
    } else if area.height < 10 {
        draw_list(pen, area, model.focus, model);
    } else {
        in_one_column(pen, area, &List::ALL, model);
    }
}

fn in_two_columns(pen: &mut Pen<'_>, area: Rect, model: &Model) {
    let left = Rect { width: area.width / 2 - 1, ..area };
    let right = Rect { x: area.x + left.width + 2, width: area.width - left.width - 2, ..area };
    in_one_column(pen, left, &[List::Running, List::Ended], model);
    let columns = usize::from(right.width);
    let workers = lists::workers(&model.news.workers, columns);
    let most = usize::from(right.height / 4);
    let taken = u16::try_from(workers.len().min(most)).unwrap_or(0);
    let lists = Rect { height: right.height - taken - 1, ..right };
    let used = in_one_column(pen, lists, &[List::Types, List::Schedules], model);
    let below = below(right, used);
    for (row, line) in (0..taken).zip(&workers) {
        pen.line(below, row, line);
    }
}

/// Lists one below the other, each with as many rows as it wants and can get. Where the next one
/// may begin.
fn in_one_column(pen: &mut Pen<'_>, area: Rect, lists: &[List], model: &Model) -> u16 {
    let count = u16::try_from(lists.len()).unwrap_or(1);
    let gap = u16::from(5 * count <= area.height);
    let room = area.height.saturating_sub(count + gap * (count - 1));
    let wants: Vec<_> = lists
        .iter()
        .map(|list| {
            let weight = match list {
                list if *list == model.focus => 3,
                List::Running => 2,
                List::Ended | List::Types | List::Schedules => 1,
            };
            (model.rows(*list).len(), weight)
        })
        .collect();
    let mut row = 0;
    for (list, rows) in lists.iter().zip(share(usize::from(room), &wants)) {
        let rows = u16::try_from(rows).unwrap_or(0);
        let height = (rows + 1).min(area.height.saturating_sub(row));
        draw_list(pen, Rect { height, ..below(area, row) }, *list, model);
        row += rows + 1 + gap;
    }
    row
}

/// Shares rows out: nobody gets more than he wants, and who has least for his weight comes first.
fn share(mut rows: usize, wants: &[(usize, usize)]) -> Vec<usize> {
    let mut got = vec![0; wants.len()];
    while 0 < rows {
        let hungry = got.iter_mut().zip(wants).filter(|(got, (want, _))| **got < *want);
        let Some((least, _)) = hungry.min_by_key(|(got, (_, weight))| **got * 60 / weight) else {
            break;
        };
        *least += 1;
        rows -= 1;
    }
    got
}

fn draw_list(pen: &mut Pen<'_>, area: Rect, list: List, model: &Model) {
    let has_focus = model.focus == list;
    let rows = model.rows(list);
    if rows.is_empty() {
        let said = lists::nothing(list, !model.filter.is_empty());
        let heading = (format!("  {}", lists::heading(list)), Ink::Bold);
        pen.line(area, 0, &vec![heading, (format!("  {said}"), Ink::Dim)]);
        if has_focus {
            pen.choose(area, 0);
        }
    } else {
        let lines = lists::lines(list, &rows, usize::from(area.width));
        let chosen = model.chosen(list, &rows);
        let shown = usize::from(area.height.saturating_sub(1));
        // The chosen row is in sight, and no more is moved for that than must be.
        let first = (chosen + 1).saturating_sub(shown);
        let mut lines = lines.iter();
        if let Some(head) = lines.next() {
            pen.line(area, 0, head);
        }
        for (row, line) in (1..area.height).zip(lines.skip(first)) {
            pen.line(area, row, line);
        }
        if has_focus && 0 < shown {
            pen.choose(area, u16::try_from(chosen - first + 1).unwrap_or(u16::MAX));
        }
        let hidden = rows.len().saturating_sub(first + shown);
        if 0 < hidden || 0 < first {
            let text = format!("  {} of {}", chosen + 1, rows.len());
            let taken = u16::try_from(width(&text)).unwrap_or(0);
            let corner = Rect { x: area.right().saturating_sub(taken), width: taken, ..area };
            pen.text(corner, 0, &text, Ink::Dim);
        }
    }
}

/// Who speaks, and how it is, to the right.
fn first_line(model: &Model, columns: usize) -> Pieces {
    let status = &model.news.status;
    let (word, ink) = match &model.away {
        Some(_) => ("NO ANSWER".to_owned(), Ink::Red),
        None => (tame(&status.health), health_ink(&status.health)),
    };
    let clock = model.view.zone.time(model.view.now);
    let right = width(&word) + width(&clock) + 4;
    let up = units::span(Millis(status.uptime_ms - status.uptime_ms % 60_000));
    let up = if status.uptime_ms < 60_000 { "less than a minute".to_owned() } else { up };
    let who = format!("midwatch {} on {}, up {up}", tame(&status.version), tame(&status.host));
    let who = cut(&who, columns.saturating_sub(right));
    let gap = " ".repeat(columns.saturating_sub(width(&who) + right - 2));
    vec![
        (who, Ink::Bold),
        (gap, Ink::Plain),
        (clock, Ink::Dim),
        ("  ".into(), Ink::Plain),
        (word, ink),
    ]
}

/// Since when nobody answers.
fn away(model: &Model) -> Option<Pieces> {
    let (since, why) = model.away.as_ref()?;
    let span = units::rough_span(model.view.now.since(*since));
    let clock = model.view.zone.time(*since);
    let text = format!("no answer since {clock} ({span}), still trying: {why}");
    Some(vec![(tame(&text), Ink::Red)])
}

/// The parts of a line that fit, the first ones first.
fn fitting(parts: Vec<(String, Ink)>, columns: usize) -> Pieces {
    let mut line = Pieces::new();
    let mut taken = 0;
    for (text, ink) in parts {
        let gap = if line.is_empty() { "" } else { "  " };
        taken += width(gap) + width(&text);
        if columns < taken {
            break;
        }
        line.push((gap.to_owned(), Ink::Plain));
        line.push((text, ink));
    }
    line
}

/// How things stand now.
fn figures(model: &Model) -> Pieces {
    let status = &model.news.status;
    let of = |word: &str| status.tasks.get(word).copied().unwrap_or_default();
    let oldest = status.oldest_waiting_ms.map(|ms| units::rough_span(Millis(ms)));
    let oldest = oldest.map(|span| format!(", oldest {span}")).unwrap_or_default();
    let mut parts = vec![
        (format!("running {} of {}", of("RUNNING"), status.slots), Ink::Plain),
        (format!("waiting {}{oldest}", units::count(of("PENDING"))), Ink::Plain),
    ];
    for (word, name, ink) in [
        ("RETRYING", "retrying", Ink::Yellow),
        ("LOST", "lost", Ink::Yellow),
        ("DEAD", "dead", Ink::Red),
        ("FAILED", "failed", Ink::Red),
        ("PAUSED", "paused", Ink::Plain),
    ] {
        if of(word) != 0 {
            parts.push((format!("{name} {}", units::count(of(word))), ink));
        }
    }
    let silent = status.workers_suspect + status.workers_offline;
    if silent == 0 {
        parts.push((format!("workers {}", status.workers_alive), Ink::Plain));
    } else {
        let text = format!("workers {}, silent {silent}", status.workers_alive);
        parts.push((text, Ink::Yellow));
    }
    parts
}

/// How the last day went.
fn day(stats: &StatsView) -> Pieces {
    let span = |ms: Option<u64>| ms.map(|ms| units::span(Millis(ms)));
    let (success, punctual) = (&stats.success, &stats.punctuality);
    let mut parts = Vec::new();
    if success.ended == 0 {
        parts.push("nothing ended in the last 24 h".to_owned());
    } else {
        let rate = units::percent(success.succeeded, success.ended);
        parts.push(format!("24 h  success {rate} of {}", units::count(success.ended)));
    }
    if punctual.fired != 0 {
        let (on_time, fired) = (units::count(punctual.on_time), units::count(punctual.fired));
        parts.push(format!("on time {on_time} of {fired}"));
    }
    parts.extend(span(stats.wait.p95_ms).map(|wait| format!("wait p95 {wait}")));
    parts.extend(span(stats.run.p95_ms).map(|run| format!("run p95 {run}")));
    parts.into_iter().map(|text| (text, Ink::Plain)).collect()
}

/// What ended and what failed in each of the last minutes.
fn minutes(stats: &StatsView, columns: usize) -> [Pieces; 2] {
    let minute = |text: &str| units::parse_rfc3339(text).ok().map(|at| at.0 / 60_000);
    let count = columns.saturating_sub(LABEL + 24).min(MINUTES);
    let (mut ended, mut failed) = (vec![0; count], vec![0; count]);
    let last = minute(&stats.at).unwrap_or_default();
    for one in stats.minutes.iter().flatten() {
        let ago = minute(&one.at).and_then(|at| last.checked_sub(at));
        let ago = ago.and_then(|ago| usize::try_from(ago).ok());
        let Some(place) = ago.and_then(|ago| count.checked_sub(ago + 1)) else { continue };
        let ends = [(&mut ended, one.succeeded + one.failed), (&mut failed, one.failed)];
        for (figures, number) in ends {
            if let Some(figure) = figures.get_mut(place) {
                *figure = number;
            }
        }
    }
    [spark("ended", &ended, Ink::Cyan), spark("failed", &failed, Ink::Red)]
}

/// A line of bars, and what the highest means.
fn spark(name: &str, figures: &[u64], ink: Ink) -> Pieces {
    const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let most = figures.iter().copied().max().unwrap_or_default();
    let sum: u64 = figures.iter().sum();
    let bar = |figure: &u64| {
        let level = (u128::from(*figure) * 8).div_ceil(u128::from(most.max(1)));
        let level = usize::try_from(level).ok().and_then(|level| level.checked_sub(1));
        level.and_then(|level| BARS.get(level)).copied().unwrap_or("·")
    };
    let bars: String = figures.iter().map(bar).collect();
    let said = match sum {
        0 => format!("none in {} min", figures.len()),
        _ => format!("{}, at most {}/min", units::count(sum), units::count(most)),
    };
    let ink = if sum == 0 { Ink::Dim } else { ink };
    vec![(format!("{name:<LABEL$}"), Ink::Plain), (bars, ink), (format!("  {said}"), Ink::Plain)]
}

/// The last line: a question, what came of a key, or the keys.
fn footer(model: &Model, columns: usize) -> Pieces {
    let keys = |keys: &[&str]| {
        fitting(keys.iter().map(|key| ((*key).to_owned(), Ink::Dim)).collect(), columns)
    };
    if let Some(said) = &model.said {
        return vec![(cut(&tame(said), columns), Ink::Bold)];
    }
    match &model.mode {
        Mode::Ask(question) => {
            let text = cut(&question.text, columns.saturating_sub(6));
            vec![(text, Ink::Bold), ("  y/n".to_owned(), Ink::Bold)]
        }
        Mode::Filter(_) => {
            let typed = format!("/{}_", tame(&model.filter));
            vec![(typed, Ink::Bold), ("   Enter keeps it, Esc takes it back".to_owned(), Ink::Dim)]
        }
        Mode::Page(page) if matches!(page.wanted, Wanted::Log(_)) => {
            keys(&["q back", "f follow", "Up/Down scroll", "Left/Right sideways", "g/G ends"])
        }
        Mode::Page(_) => keys(&["q back", "Up/Down scroll", "PgUp/PgDn"]),
        Mode::Lists if !model.filter.is_empty() => {
            let filter = format!("only /{}", tame(&model.filter));
            vec![(cut(&filter, columns), Ink::Bold), ("   Esc shows all".to_owned(), Ink::Dim)]
        }
        Mode::Lists => keys(&[
            "q quit",
            "? help",
            "Tab next",
            "Enter show",
            "l log",
            "c cancel",
            "r retry",
            "p pause",
            "/filter",
        ]),
    }
}

/// Rows that a page has for its lines.
pub(super) fn page_rows(model: &Model) -> usize {
    usize::from(model.size.1.saturating_sub(2)).max(1)
}

/// How a page is rendered.
pub(super) fn page_view(model: &Model) -> View {
    View { width: Some(usize::from(model.size.0)), paint: Paint(false), ..model.view }
}

fn draw_page(pen: &mut Pen<'_>, area: Rect, page: &Page, model: &Model) {
    let view = View { width: Some(usize::from(area.width)), paint: Paint(false), ..model.view };
    let lines = page.lines(&view);
    let rows = usize::from(area.height.saturating_sub(1));
    let first = page.first(lines.len(), rows);
    let last = (first + rows).min(lines.len());
    let mut place = format!("{} to {last} of {}", first + 1, lines.len());
    if page.follow {
        place += ", following";
    }
    if let Some((since, _)) = &model.away {
        place += &format!(", no answer since {}", model.view.zone.time(*since));
    }
    let columns = usize::from(area.width);
    let title = cut(&page.title(), columns.saturating_sub(width(&place) + 2));
    let gap = " ".repeat(columns.saturating_sub(width(&title) + width(&place)));
    pen.line(area, 0, &vec![(title, Ink::Bold), (gap, Ink::Plain), (place, Ink::Dim)]);
    let failed = matches!(page.body, Body::Failed(_));
    for (row, line) in (1..area.height).zip(lines.iter().skip(first)) {
        let ink = if failed { Ink::Red } else { Ink::Plain };
        pen.text(area, row, &cut(&pan(line, page.left), columns), ink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_to_those_who_want_them() {
        assert_eq!(share(12, &[(50, 2), (50, 1), (1, 1), (0, 1)]), [7, 4, 1, 0]);
        assert_eq!(share(3, &[(1, 2), (1, 1)]), [1, 1]);
        assert_eq!(share(2, &[(9, 1), (9, 1), (9, 1)]), [1, 1, 0]);
    }
}
