//! `midwatch stats`: what happened within a span, and how long it took.

use super::connection::{get, with_query};
use super::failure::Failure;
use super::paint::Ink;
use super::session::{Format, Session, View};
use super::table::{Cell, Column, Table};
use crate::api::{Spread, StatsView, TypeStats};
use crate::kernel::ids::Millis;
use crate::units;

/// What to tell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How far back to look, at most a day: 15m, 1h
    #[arg(long, value_name = "D", default_value = "1d")]
    since: String,
    /// In what parts
    #[arg(long, value_name = "WHAT", default_value = "type")]
    by: By,
}

/// Into what the figures are taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    // No doc comments: they would make the help twice as long.
    Type,
    Minute,
}

/// Shows it.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    units::parse_duration(&args.since).map_err(|error| Failure::usage(error.to_string()))?;
    let minutes = (args.by == By::Minute).then(|| "1".to_owned());
    let query = [("since", Some(args.since.clone())), ("minutes", minutes)];
    let stats: StatsView = get(session.api, &with_query("/v1/stats", &query))?;
    match session.format {
        Format::Json | Format::Ndjson => session.json(&stats)?,
        Format::Table => session.show(&render(&stats, &session.view))?,
    }
    Ok(0)
}

/// The screen.
pub(crate) fn render(stats: &StatsView, view: &View) -> String {
    let mut text = format!("the last {}\n\n{}", units::span(Millis(stats.span_ms)), health(stats));
    text += &match &stats.minutes {
        Some(_) => by_minute(stats, view),
        None => by_type(stats, view),
    };
    text
}

/// Health in five figures, a line each.
pub(crate) fn health(stats: &StatsView) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("  {name:<13}{value}\n");
    line("triggers", triggers(stats));
    line("success", success(stats));
    line("retries", retries(stats));
    line("backlog", backlog(stats));
    line("consistency", consistency(stats));
    text
}

/// How punctual schedules were.
pub(crate) fn triggers(stats: &StatsView) -> String {
    let it = &stats.punctuality;
    if it.fired == 0 && it.without_run == 0 {
        return "none were due".to_owned();
    }
    let (on_time, fired) = (units::count(it.on_time), units::count(it.fired));
    let mut text =
        format!("{on_time} of {fired} on time, latest {} late", units::span(Millis(it.latest_ms)));
    if it.without_run != 0 {
        text += &format!("; {} without a run", units::count(it.without_run));
    }
    text
}

/// How much ended well.
pub(crate) fn success(stats: &StatsView) -> String {
    let it = &stats.success;
    match it.rate {
        // Rounded down: what is not whole must not look whole.
        Some(rate) => format!(
            "{:.1} % of {} that ended",
            (rate * 1000.0).floor() / 10.0,
            units::count(it.ended)
        ),
        None => "nothing has ended".to_owned(),
    }
}

fn retries(stats: &StatsView) -> String {
    let it = &stats.retries;
    match it.task {
        Some(task) if it.most != 0 => {
            format!("{}, the most {} of task {task}", units::count(it.retried), it.most)
        }
        _ => units::count(it.retried),
    }
}

fn backlog(stats: &StatsView) -> String {
    let it = &stats.backlog;
    match it.oldest_ms {
        Some(oldest) => format!(
            "{} wait, {} of them due, the oldest for {}",
            units::count(it.waiting),
            units::count(it.due),
            units::span(Millis(oldest))
        ),
        None => format!("{} wait, none is due", units::count(it.waiting)),
    }
}

/// Whether every task is accounted for.
pub(crate) fn consistency(stats: &StatsView) -> String {
    let it = &stats.consistency;
    let (taken, ended, live) =
        (units::count(it.taken), units::count(it.ended), units::count(it.live));
    let mut text = format!("{taken} taken = {ended} ended + {live} live");
    if !it.ok {
        let wrong = units::count(it.wrong_input);
        text = format!("BROKEN: {taken} taken, {ended} ended, {live} live, {wrong} wrong inputs");
    }
    text
}

fn maybe_time(ms: Option<u64>) -> String {
    ms.map_or_else(|| "–".to_owned(), |ms| units::span(Millis(ms)))
}

fn by_type(stats: &StatsView, view: &View) -> String {
    if stats.types.is_empty() {
        return String::new();
    }
    let mut counts = Table::new(&[
        Column::left("TYPE"),
        Column::right("CREATED"),
        Column::right("SUCCESS"),
        Column::right("FAILED"),
        Column::right("DEAD"),
        Column::right("CANCELLED").rank(2),
        Column::right("RETRIED"),
        Column::right("LOST").rank(4),
        Column::right("WAITING").rank(3),
        Column::right("RUNNING").rank(1),
    ]);
    let mut times = Table::new(&[
        Column::left("TYPE"),
        Column::right("WAIT P50"),
        Column::right("P95"),
        Column::right("P99").rank(1),
        Column::right("RUN P50"),
        Column::right("P95"),
        Column::right("P99").rank(1),
        Column::left("LAST SUCCESS").rank(2),
    ]);
    for kind in &stats.types {
        counts.row(count_cells(kind));
        let last =
            kind.last_success.as_ref().map_or_else(|| "never".into(), |at| view.relative(at));
        let mut cells = vec![Cell::from(&kind.kind)];
        cells.extend(spread_cells(&kind.wait));
        cells.extend(spread_cells(&kind.run));
        cells.push(Cell::from(last));
        times.row(cells);
    }
    let counts = counts.render(view.width, view.paint);
    format!("\n{counts}\n{}", times.render(view.width, view.paint))
}

fn count_cells(it: &TypeStats) -> Vec<Cell> {
    let number = |number: u64| Cell::from(units::count(number));
    let bad = |number: u64| {
        let ink = if number == 0 { Ink::Plain } else { Ink::Red };
        Cell::new(&units::count(number), ink)
    };
    vec![
        Cell::from(&it.kind),
        number(it.created),
        number(it.succeeded),
        bad(it.failed),
        bad(it.dead),
        number(it.cancelled),
        number(it.retried),
        bad(it.lost),
        number(it.waiting),
        number(it.running),
    ]
}

fn spread_cells(it: &Spread) -> [Cell; 3] {
    [it.p50_ms, it.p95_ms, it.p99_ms].map(|time| Cell::from(maybe_time(time)))
}

fn by_minute(stats: &StatsView, view: &View) -> String {
    let mut table = Table::new(&[
        Column::left("MINUTE"),
        Column::right("CREATED"),
        Column::right("SUCCESS"),
        Column::right("FAILED"),
        Column::right("RETRIED"),
        Column::right("LOST").rank(1),
        Column::right("WAIT P95"),
        Column::right("RUN P95"),
    ]);
    for minute in stats.minutes.iter().flatten() {
        let at = units::parse_rfc3339(&minute.at);
        table.row(vec![
            Cell::from(at.map_or_else(|_| minute.at.clone(), |at| view.zone.time(at))),
            Cell::from(units::count(minute.created)),
            Cell::from(units::count(minute.succeeded)),
            Cell::from(units::count(minute.failed)),
            Cell::from(units::count(minute.retried)),
            Cell::from(units::count(minute.lost)),
            Cell::from(maybe_time(minute.wait_p95_ms)),
            Cell::from(maybe_time(minute.run_p95_ms)),
        ]);
    }
    format!("\n{}", table.render(view.width, view.paint))
}
