//! The sections of the status page. Each keeps to its bytes, however much there is: what does not
//! fit is counted, with the command that shows it.

use super::escape::{Html, clip, put};
use super::view::{Dead, Overview, Rows, Running, Waiting, Worker};
use super::words::{Tone, maybe_span, pace, some, status, tone, when, when_said};
use super::{alerts, chart, layout};
use crate::api::{Attention, ScheduleView, StatsView, StatusView};
use crate::kernel::ids::{Millis, Timestamp};
use crate::units::{bytes, count, parse_rfc3339, percent, relative, span};

/// Bytes that each section may take, its rows together; with the frame they are less than 60 KiB.
const HEALTH_BYTES: usize = 5 << 10;
const RUNNING_BYTES: usize = 8 << 10;
const WAITING_BYTES: usize = 3 << 10;
const DEAD_BYTES: usize = 8 << 10;
const SCHEDULES_BYTES: usize = 7 << 10;
const WORKERS_BYTES: usize = 4 << 10;

/// Letters of a name that are shown.
pub(super) const NAME_LETTERS: usize = 64;

/// Letters of an error or another sentence that are shown.
const SENTENCE_LETTERS: usize = 240;

/// The page.
pub(super) fn overview(of: &Overview) -> String {
    let mut html = Html::default();
    let nothing_yet = of.status.tasks.values().all(|count| *count == 0);
    health(&mut html, &of.status);
    figures(&mut html, of);
    charts(&mut html, of);
    html.raw("<div class=\"cols\"><div>");
    running(&mut html, &of.running, nothing_yet);
    waiting(&mut html, &of.waiting);
    dead(&mut html, &of.dead, of.now);
    html.raw("</div><div>");
    alerts::section(&mut html, &of.alerts, of.now);
    schedules(&mut html, &of.schedules, of.now);
    workers(&mut html, &of.workers);
    html.raw("</div></div>");
    framed(&html, &of.status, of.now)
}

/// The page while the engine does not answer: how it is, and nothing that may be wrong by now.
pub(super) fn stalled(status: &StatusView, now: Timestamp) -> String {
    let mut html = Html::default();
    health(&mut html, status);
    html.raw("<p class=\"more\">The rest is shown again once the engine answers.</p>");
    framed(&html, status, now)
}

fn framed(content: &Html, status: &StatusView, now: Timestamp) -> String {
    let word = match status.health.as_str() {
        "OK" => "OK".to_owned(),
        other => format!("{other} ({})", status.attention.len()),
    };
    let host = clip(&status.host, NAME_LETTERS);
    let title = format!("{word} – midwatch on {host}");
    let seq = Some(status.seq.0);
    let frame = layout::Frame { title: &title, host: &host, now, seq, task: None };
    layout::page(&frame, content)
}

/// Rows as far as they fit; then how many more there are and where they are shown.
pub(super) fn rows<T>(
    html: &mut Html,
    (rows, total): (&[T], usize),
    bytes: usize,
    one: impl Fn(&mut Html, &T),
) -> usize {
    let mut taken = 0;
    for (number, row) in rows.iter().enumerate() {
        let mut piece = Html::default();
        one(&mut piece, row);
        taken += piece.len();
        if bytes < taken {
            return total.saturating_sub(number);
        }
        html.append(&piece);
    }
    total.saturating_sub(rows.len())
}

pub(super) fn more(html: &mut Html, left: usize, command: &str) {
    if 0 < left {
        put!(html, "<p class=\"more\">", (count(left as u64)), " more: <code>", (command));
        html.raw("</code></p>");
    }
}

fn health(html: &mut Html, status: &StatusView) {
    let StatusView { health, attention, host, .. } = status;
    html.raw("<section id=\"health\" data-live aria-labelledby=\"health-h\"><h1 id=\"health-h\">");
    let points = attention.len() as u64;
    let things = some(points, "thing needs", "things need");
    match health.as_str() {
        "OK" => {
            put!(html, "<span class=\"ok\">OK.</span> All is well on ", (clip(host, NAME_LETTERS)));
        }
        "CRITICAL" => {
            put!(html, "<span class=\"bad\">CRITICAL.</span> ", (things), " a person now");
        }
        other => {
            put!(html, "<span class=\"warn\">", (other), ".</span> ", (things), " a person");
        }
    }
    html.raw("</h1><p class=\"soft\">");
    put!(html, (machine(status)), "</p>");
    if !attention.is_empty() {
        html.raw("<ul class=\"points\">");
        let left = rows(html, (attention, attention.len()), HEALTH_BYTES, point);
        html.raw("</ul>");
        more(html, left, "midwatch status");
    }
    html.raw("</section>");
}

/// The house in one sentence.
fn machine(status: &StatusView) -> String {
    let uptime = span(Millis(status.uptime_ms - status.uptime_ms % 1000));
    let fsync = match status.fsync.as_str() {
        "always" => "every write synced".to_owned(),
        other => format!("fsync {}", clip(other, NAME_LETTERS)),
    };
    let disk = status.disk_free.map(|free| format!(", {} free on its disk", bytes(free)));
    format!(
        "midwatch {}, up {uptime}. Journal of {}, {fsync}{}. {} of {} slots busy.",
        clip(&status.version, NAME_LETTERS),
        bytes(status.journal_bytes),
        disk.unwrap_or_default(),
        count(u64::from(status.slots_busy)),
        count(u64::from(status.slots)),
    )
}

fn point(html: &mut Html, point: &Attention) {
    let Attention { critical, what, commands, alert: _ } = point;
    if *critical {
        html.raw("<li class=\"now\"><strong class=\"bad\">critical:</strong> ");
    } else {
        html.raw("<li>");
    }
    put!(html, (clip(what, SENTENCE_LETTERS)), "<br>");
    for command in commands.iter().take(4) {
        put!(html, "<code>", (clip(command, SENTENCE_LETTERS)), "</code> ");
    }
    html.raw("</li>");
}

fn figures(html: &mut Html, of: &Overview) {
    html.raw("<section id=\"figures\" data-live aria-labelledby=\"figures-h\">");
    html.raw("<h2 id=\"figures-h\" class=\"unseen\">Five figures</h2><dl class=\"figures\">");
    for (name, value, words, tone) in five(of) {
        put!(html, "<div><dt>", (name), "</dt><dd>");
        html.raw(match tone {
            Tone::Bad => "<span class=\"bad\">",
            Tone::Warn => "<span class=\"warn\">",
            Tone::Ok | Tone::Run | Tone::Soft => "<span>",
        });
        put!(html, (value), "</span></dd><dd><small>", (words), "</small></dd></div>");
    }
    html.raw("</dl></section>");
}

type Figure = (&'static str, String, String, Tone);

/// Name, value, what it means, how it stands.
fn five(of: &Overview) -> [Figure; 5] {
    let none = || "–".to_owned();
    let StatsView { punctuality, success, retries, backlog, consistency, span_ms, .. } = &of.stats;
    let lately = match *span_ms / 3_600_000 {
        24..48 => "last day".to_owned(),
        _ => format!("last {}", crate::units::rough_span(Millis(*span_ms))),
    };
    let planned = punctuality.fired.saturating_add(punctuality.without_run);
    let on_time = if planned == 0 {
        (none(), "no trigger was due".to_owned())
    } else {
        let latest = span(Millis(punctuality.latest_ms));
        let of = format!("{} of {} on time", count(punctuality.on_time), count(planned));
        (percent(punctuality.on_time, planned), format!("{of}, latest {latest} late"))
    };
    let succeeded = match success.ended {
        0 => (none(), format!("nothing ended, {lately}")),
        ended => {
            let words = format!("of {} ended, {lately}", count(ended));
            (percent(success.succeeded, ended), words)
        }
    };
    let most = match retries.task {
        Some(task) => format!("of task {task}; {} in all", count(retries.retried)),
        None => format!("nothing was retried, {lately}"),
    };
    let oldest = backlog.oldest_ms.map_or_else(
        || "nothing is due".to_owned(),
        |oldest| format!("{} due, oldest for {}", count(backlog.due), span(Millis(oldest))),
    );
    let account = format!(
        "{} taken, {} ended, {} live",
        count(consistency.taken),
        count(consistency.ended),
        count(consistency.live)
    );
    let kept = if consistency.ok { ("exact", Tone::Ok) } else { ("broken", Tone::Bad) };
    // One in twenty is worth a colour; the points of attention tell of single ones.
    let tone = |part: u64, of: u64| {
        if u128::from(part) * 20 < u128::from(of) * 19 { Tone::Warn } else { Tone::Ok }
    };
    [
        ("Punctuality", on_time.0, on_time.1, tone(punctuality.on_time, planned)),
        ("Success", succeeded.0, succeeded.1, tone(success.succeeded, success.ended)),
        ("Most retries", count(u64::from(retries.most)), most, Tone::Ok),
        ("Backlog", count(backlog.waiting), oldest, Tone::Ok),
        ("Consistency", kept.0.to_owned(), account, kept.1),
    ]
}

fn charts(html: &mut Html, of: &Overview) {
    html.raw("<section id=\"charts\" data-live aria-labelledby=\"charts-h\">");
    html.raw("<h2 id=\"charts-h\" class=\"unseen\">The last two hours</h2>");
    match of.stats.minutes.as_deref() {
        Some(minutes) if !minutes.is_empty() => {
            html.raw("<div class=\"charts\">");
            chart::ended(html, minutes, of.now);
            chart::spans(html, minutes, of.now);
            html.raw("</div>");
        }
        _ => html.raw("<p class=\"none\">Nothing happened in the last two hours.</p>"),
    }
    html.raw("</section>");
}

fn running(html: &mut Html, running: &Rows<Running>, nothing_yet: bool) {
    html.raw(
        "<section id=\"running\" data-live aria-labelledby=\"running-h\"><h2 id=\"running-h\">",
    );
    put!(html, "Running (", (count(running.total as u64)), ")</h2>");
    if running.rows.is_empty() {
        if nothing_yet {
            html.raw(
                "<p class=\"none\">No task yet: <code>midwatch submit TYPE '{\"page\":1}'</code>",
            );
            html.raw(" gives it one; <code>midwatch type list</code> names the types.</p>");
        } else {
            html.raw("<p class=\"none\">Nothing runs.</p>");
        }
        html.raw("</section>");
        return;
    }
    html.raw("<table class=\"stack\"><thead><tr><th scope=\"col\">Task</th>");
    html.raw("<th scope=\"col\" class=\"w\">Progress");
    html.raw("</th><th scope=\"col\" class=\"n\">For</th></tr></thead><tbody>");
    let left = rows(html, (&running.rows, running.total), RUNNING_BYTES, run);
    html.raw("</tbody></table>");
    more(html, left, "midwatch list --status RUNNING");
    html.raw("</section>");
}

fn run(html: &mut Html, row: &Running) {
    let Running { id, kind, status: at, attempt, tries, worker, ran, progress, paced } = row;
    put!(html, "<tr><th scope=\"row\"><a href=\"/tasks/", (id), "\">", (id), "</a> ");
    put!(
        html,
        (clip(kind, NAME_LETTERS)),
        "<small class=\"soft\">try ",
        (attempt),
        " of ",
        (tries)
    );
    if let Some(worker) = worker {
        put!(html, ", worker ", (worker));
    }
    html.raw("</small></th><td class=\"w\">");
    if *at != crate::kernel::status::Status::Running {
        status(html, *at);
        html.raw(" <small>its executor is gone; what is left of it is being stopped</small>");
    }
    match progress {
        None => html.raw("<small class=\"soft\">tells no progress</small>"),
        Some(told) => {
            if let Some(total) = told.total.filter(|total| 0 < *total) {
                let done = told.done.min(total);
                put!(
                    html,
                    "<progress max=\"",
                    (total),
                    "\" value=\"",
                    (done),
                    "\" aria-label=\"task "
                );
                put!(html, (id), "\"></progress>", (count(told.done)), " of ", (count(total)));
                put!(html, " (", (percent(done, total)), ")");
            } else {
                put!(html, (count(told.done)), " done");
            }
            let pace = if *paced { pace(told, *ran) } else { None };
            if let Some(pace) = pace {
                put!(html, "<small class=\"soft\">", (pace), "</small>");
            }
            if let Some(note) = &told.note {
                put!(html, "<small>", (clip(note, 80)), "</small>");
            }
        }
    }
    put!(html, "</td><td class=\"n\">", (crate::units::rough_span(*ran)), "</td></tr>");
}

fn waiting(html: &mut Html, waiting: &Rows<Waiting>) {
    html.raw("<section id=\"waiting\" data-live aria-labelledby=\"waiting-h\">");
    html.raw("<h2 id=\"waiting-h\">Waiting by type</h2>");
    if waiting.rows.is_empty() {
        html.raw("<p class=\"none\">Nothing waits.</p></section>");
        return;
    }
    html.raw("<table><thead><tr><th scope=\"col\">Type</th><th scope=\"col\" class=\"n\">Due</th>");
    html.raw("<th scope=\"col\" class=\"n\">Later</th><th scope=\"col\" class=\"n\">Running</th>");
    html.raw("</tr></thead><tbody>");
    let left = rows(html, (&waiting.rows, waiting.total), WAITING_BYTES, |html, row| {
        let Waiting { kind, due, later, running, paused } = row;
        put!(html, "<tr><th scope=\"row\">", (clip(kind, NAME_LETTERS)));
        if let Some(paused) = paused {
            put!(html, "<small class=\"warn\">paused by ", (clip(paused, 80)), "</small>");
        }
        put!(
            html,
            "</th><td class=\"n\">",
            (count(*due)),
            "</td><td class=\"n\">",
            (count(*later))
        );
        put!(html, "</td><td class=\"n\">", (count(*running)), "</td></tr>");
    });
    html.raw("</tbody></table>");
    more(html, left, "midwatch type list");
    html.raw("</section>");
}

fn dead(html: &mut Html, dead: &Rows<Dead>, now: Timestamp) {
    html.raw("<section id=\"dead\" data-live aria-labelledby=\"dead-h\"><h2 id=\"dead-h\">");
    put!(html, "Failed for good (", (count(dead.total as u64)), ")</h2>");
    if dead.rows.is_empty() {
        html.raw("<p class=\"none\">Nothing failed for good.</p></section>");
        return;
    }
    html.raw(
        "<table class=\"stack\"><thead><tr><th scope=\"col\">Task</th><th scope=\"col\" class=\"w\">Last error",
    );
    html.raw("</th><th scope=\"col\" class=\"n\">Ended</th></tr></thead><tbody>");
    let left = rows(html, (&dead.rows, dead.total), DEAD_BYTES, |html, row| {
        let Dead { id, kind, status: at, attempts, ended, error } = row;
        put!(html, "<tr><th scope=\"row\"><a href=\"/tasks/", (id), "\">", (id), "</a> ");
        put!(html, (clip(kind, NAME_LETTERS)), "<small>");
        status(html, *at);
        let attempts_said = some(u64::from(*attempts), "attempt", "attempts");
        put!(
            html,
            " <span class=\"soft\">after ",
            (attempts_said),
            "</span></small></th><td class=\"w\">"
        );
        put!(html, (clip(error.as_deref().unwrap_or("no error was told"), 160)));
        if 0 < *attempts {
            put!(
                html,
                "<small><a href=\"/tasks/",
                (id),
                "#log\">log of task ",
                (id),
                "</a></small>"
            );
        }
        html.raw("</td><td class=\"n\">");
        when(html, *ended, now);
        html.raw("</td></tr>");
    });
    html.raw("</tbody></table>");
    more(html, left, "midwatch list --status DEAD,FAILED");
    html.raw("</section>");
}

fn schedules(html: &mut Html, schedules: &Rows<ScheduleView>, now: Timestamp) {
    html.raw("<section id=\"schedules\" data-live aria-labelledby=\"schedules-h\">");
    put!(html, "<h2 id=\"schedules-h\">Schedules (", (count(schedules.total as u64)), ")</h2>");
    if schedules.rows.is_empty() {
        html.raw("<p class=\"none\">No schedule: <code>midwatch schedule add nightly --type TYPE ");
        html.raw(
            "--cron '30 2 * * *'</code>, or <code>[schedules.nightly]</code> in the config.</p>",
        );
        html.raw("</section>");
        return;
    }
    html.raw("<table class=\"stack three\"><thead><tr><th scope=\"col\">Schedule</th>");
    html.raw("<th scope=\"col\">Next</th>");
    html.raw(
        "<th scope=\"col\">Last</th><th scope=\"col\" class=\"n\">Missed</th></tr></thead><tbody>",
    );
    let left = rows(html, (&schedules.rows, schedules.total), SCHEDULES_BYTES, |html, row| {
        schedule(html, row, now);
    });
    html.raw("</tbody></table>");
    more(html, left, "midwatch schedule list");
    html.raw("</section>");
}

fn schedule(html: &mut Html, row: &ScheduleView, now: Timestamp) {
    put!(html, "<tr><th scope=\"row\">", (clip(&row.name, NAME_LETTERS)), "<small class=\"soft\">");
    put!(html, (clip(&plan(row), 80)), "</small></th><td data-l=\"next\">");
    match (&row.trouble, &row.paused, &row.next) {
        (Some(trouble), _, _) => {
            tone(html, Tone::Bad);
            put!(html, "stuck</span><small>", (clip(trouble, 120)), "</small>");
        }
        (None, Some(order), _) => {
            tone(html, Tone::Warn);
            put!(html, "paused</span><small>by ", (clip(&order.by, NAME_LETTERS)), "</small>");
        }
        (None, None, _) if row.held => {
            tone(html, Tone::Warn);
            html.raw("waits</span><small>until the clock is believed</small>");
        }
        (None, None, Some(next)) => when_said(html, &next.at, now),
        (None, None, None) => html.raw("<span class=\"soft\">–</span>"),
    }
    html.raw("</td><td data-l=\"last\">");
    match &row.last {
        Some(last) => when_said(html, &last.at, now),
        None => html.raw("<span class=\"soft\">–</span>"),
    }
    if let Some(task) = row.last_task {
        put!(html, "<small><a href=\"/tasks/", (task), "\">task ", (task), "</a></small>");
    }
    if 0 < row.failures {
        let times = some(u64::from(row.failures), "failure", "failures");
        put!(html, "<small class=\"bad\">", (times), " in a row");
        if let Some(Ok(well)) = row.last_success.as_deref().map(parse_rfc3339) {
            put!(html, ", well ", (relative(well, now)));
        }
        html.raw("</small>");
    }
    put!(html, "</td><td class=\"n\" data-l=\"missed\">", (count(row.counts.missed)), "</td></tr>");
}

/// When a schedule fires, as it was written.
fn plan(row: &ScheduleView) -> String {
    match (&row.cron, &row.every, &row.at) {
        (Some(cron), _, _) => format!("{cron} {}", row.timezone),
        (_, Some(every), _) => {
            format!("every {every} from the {}", row.from.as_deref().unwrap_or("start"))
        }
        (_, _, Some(at)) => format!("once at {at}"),
        (None, None, None) => "at each start of the host".to_owned(),
    }
}

fn workers(html: &mut Html, workers: &Rows<Worker>) {
    html.raw("<section id=\"workers\" data-live aria-labelledby=\"workers-h\">");
    put!(html, "<h2 id=\"workers-h\">Workers (", (count(workers.total as u64)), ")</h2>");
    if workers.rows.is_empty() {
        html.raw("<p class=\"none\">No worker: <code>midwatch worker</code> starts one, and ");
        html.raw("<code>midwatch daemon</code> starts them by itself.</p></section>");
        return;
    }
    html.raw("<table><thead><tr><th scope=\"col\">Worker</th><th scope=\"col\">State</th>");
    html.raw("<th scope=\"col\" class=\"n\">Slots</th></tr></thead><tbody>");
    let left = rows(html, (&workers.rows, workers.total), WORKERS_BYTES, |html, row| {
        let Worker { id, name, standing, silent, slots, held, kinds } = row;
        put!(html, "<tr><th scope=\"row\">", (id), " ", (clip(name, NAME_LETTERS)));
        put!(html, "<small class=\"soft\">", (clip(kinds, 120)), "</small></th><td>");
        tone(html, if *standing == "alive" { Tone::Ok } else { Tone::Warn });
        put!(html, (standing), "</span>");
        if *standing != "alive" {
            put!(html, "<small>silent for ", (maybe_span(Some(silent.0))), "</small>");
        }
        put!(html, "</td><td class=\"n\">", (held), " of ", (slots), "</td></tr>");
    });
    html.raw("</tbody></table>");
    more(html, left, "midwatch workers");
    html.raw("</section>");
}
