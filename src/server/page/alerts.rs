//! The alerts of the status page: those that stand, and the last few that are over.

use super::escape::{Html, clip, put};
use super::sections::{NAME_LETTERS, more, rows};
use super::view::Alerts;
use super::words::{Tone, some, tone, when_said};
use crate::api::AlertView;
use crate::kernel::ids::Timestamp;
use crate::units::count;

/// Bytes that the rows may take together.
const ALERTS_BYTES: usize = 3 << 10;

/// Letters of what is wrong that are shown.
const WHAT_LETTERS: usize = 160;

pub(super) fn section(html: &mut Html, alerts: &Alerts, now: Timestamp) {
    let Alerts { rows: all, standing, above } = alerts;
    if all.rows.is_empty() {
        // It has its place, so that the script can show it once there is something.
        html.raw("<section id=\"alerts\" data-live hidden></section>");
        return;
    }
    html.raw("<section id=\"alerts\" data-live aria-labelledby=\"alerts-h\">");
    put!(html, "<h2 id=\"alerts-h\">Alerts (", (count(*standing as u64)), ")</h2>");
    html.raw("<table class=\"stack\"><thead><tr><th scope=\"col\">What is wrong</th>");
    html.raw("<th scope=\"col\" class=\"n\">Since</th></tr></thead><tbody>");
    let left = rows(html, (&all.rows, all.total), ALERTS_BYTES, |html, row| alert(html, row, now));
    html.raw("</tbody></table>");
    more(html, left, "midwatch alerts");
    if 0 < *above {
        let said = some(*above as u64, "more is", "more are");
        put!(html, "<p class=\"more\">", (said), " told at the top of the page.</p>");
    }
    html.raw("</section>");
}

fn alert(html: &mut Html, row: &AlertView, now: Timestamp) {
    html.raw("<tr><th scope=\"row\">");
    match (&row.over, row.level.as_str()) {
        (Some(_), _) => {
            tone(html, Tone::Ok);
            html.raw("over");
        }
        (None, level) => {
            tone(
                html,
                match level {
                    "critical" => Tone::Bad,
                    "warning" => Tone::Warn,
                    _ => Tone::Soft,
                },
            );
            html.text(level);
        }
    }
    put!(html, "</span> ", (clip(&row.what, WHAT_LETTERS)));
    if row.over.is_none() {
        standing(html, row, now);
    }
    html.raw("</th><td class=\"n\">");
    when_said(html, row.over.as_ref().unwrap_or(&row.since), now);
    html.raw("</td></tr>");
}

/// How often it was said, and who knows of it or how to say that one does.
fn standing(html: &mut Html, row: &AlertView, now: Timestamp) {
    html.raw("<small>");
    if row.state == "flapping" {
        html.raw("comes and goes, ");
    }
    if 1 < row.count {
        put!(html, "said ", (count(u64::from(row.count))), " times, last ");
        when_said(html, &row.last, now);
        html.raw(", ");
    }
    if let Some(order) = &row.acked {
        put!(html, "acknowledged by ", (clip(&order.by, NAME_LETTERS)), " ");
        when_said(html, &order.at, now);
    } else {
        put!(html, "not acknowledged: <code>midwatch alerts ack ", (row.id), "</code>");
    }
    html.raw("</small>");
}
