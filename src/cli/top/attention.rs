//! What needs a person, and the alerts that stand besides.

use super::model::Model;
use crate::api::{AlertView, Attention};
use crate::cli::paint::Ink;
use crate::cli::session::View;
use crate::cli::status::health_ink;
use crate::cli::table::Pieces;
use crate::cli::text::{cut, tame, width};

/// The lines of it for a screen of that height.
pub(super) fn lines(model: &Model, height: u16, columns: usize) -> Vec<Pieces> {
    let mut lines = points(model, height, columns);
    lines.extend(alerts(model, height, columns));
    lines
}

/// What needs a person, each with the first command that helps where there is room for it.
fn points(model: &Model, height: u16, columns: usize) -> Vec<Pieces> {
    let points = &model.news.status.attention;
    let most = match height {
        0..16 => 1,
        16..30 => 3,
        30.. => 6,
    };
    let shown = if points.len() <= most { points.len() } else { most - 1 };
    let mut lines: Vec<_> =
        points.iter().take(shown).map(|point| point_line(point, columns)).collect();
    match points.len() - shown {
        0 => {}
        more if shown == 0 => {
            let all = format!("{more} things need attention: midwatch status");
            lines.push(vec![(all, health_ink(&model.news.status.health))]);
        }
        more => lines.push(vec![(format!("  and {more} more: midwatch status"), Ink::Yellow)]),
    }
    lines
}

fn point_line(point: &Attention, columns: usize) -> Pieces {
    let (mark, ink) = if point.critical { ("critical: ", Ink::Red) } else { ("  ", Ink::Yellow) };
    let command = point.commands.first().map(|command| tame(command)).unwrap_or_default();
    with_command(&format!("{mark}{}", tame(&point.what)), command, ink, columns)
}

/// Alerts that no point tells, the worst first.
fn alerts(model: &Model, height: u16, columns: usize) -> Vec<Pieces> {
    let alerts: Vec<_> = model.news.alerts_besides().collect();
    let most = match height {
        0..12 => 0,
        12..16 => 1,
        16..30 => 2,
        30.. => 5,
    };
    let shown = if alerts.len() <= most { alerts.len() } else { most.saturating_sub(1) };
    let line = |alert: &&AlertView| alert_line(alert, &model.view, columns);
    let mut lines: Vec<_> = alerts.iter().take(shown).map(line).collect();
    let more = alerts.len() - shown;
    if 0 < more && 0 < most {
        let open = alerts.iter().skip(shown).any(|alert| alert.acked.is_none());
        let text = match (shown, more) {
            (0, _) => format!("  {more} alerts stand: midwatch alerts"),
            (_, 1) => "  and 1 more alert: midwatch alerts".to_owned(),
            _ => format!("  and {more} more alerts: midwatch alerts"),
        };
        lines.push(vec![(text, if open { Ink::Yellow } else { Ink::Plain })]);
    }
    lines
}

fn alert_line(alert: &AlertView, view: &View, columns: usize) -> Pieces {
    let AlertView { id, level, what, since, count, acked, .. } = alert;
    let since = view.relative(since);
    let often = if *count < 2 { String::new() } else { format!(", {count} times") };
    let ack = format!("midwatch alerts ack {id}");
    let (known, command, ink) = match (acked, level.as_str()) {
        (Some(_), _) => (", acked", String::new(), Ink::Plain),
        (None, "critical") => ("", ack, Ink::Red),
        (None, _) => ("", ack, Ink::Yellow),
    };
    let text = format!("  alert {id} {level}, {since}{often}{known}: {what}");
    with_command(&tame(&text), command, ink, columns)
}

/// A sentence, and to the right the command that helps if there is room for both.
fn with_command(what: &str, command: String, ink: Ink, columns: usize) -> Pieces {
    let room = columns.saturating_sub(width(&command) + 2);
    if command.is_empty() || room < width(what) {
        return vec![(cut(what, columns), ink)];
    }
    let gap = " ".repeat(columns - width(what) - width(&command));
    vec![(what.to_owned(), ink), (gap, Ink::Plain), (command, Ink::Dim)]
}
