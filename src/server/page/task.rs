//! A task's own page.

use super::escape::{Html, clip, put, tail_within};
use super::view::{May, TaskPage};
use super::words::{maybe_span, pace, some, status, when_said};
use super::{layout, timeline};
use crate::api::{AttemptView, TaskView, TransitionView};
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::status::{Outcome, Status};
use crate::units::{Zone, bytes, count, parse_rfc3339, percent, span};

const PAYLOAD_BYTES: usize = 5 << 10;
const CHECKPOINT_BYTES: usize = 4 << 10;
const RESULT_BYTES: usize = 3 << 10;
const ERROR_BYTES: usize = 2 << 10;
const ATTEMPTS_BYTES: usize = 7 << 10;
const TRANSITIONS_BYTES: usize = 10 << 10;
/// Bytes of the log's end on a page.
pub(super) const LOG_BYTES: usize = 12 << 10;

const NAME_LETTERS: usize = 64;

/// The page.
pub(super) fn page(of: &TaskPage, may: &May) -> String {
    let TaskView { id, kind, status: at, .. } = &of.task;
    let mut html = Html::default();
    head(&mut html, of, may);
    html.raw(
        "<section id=\"life\" data-live aria-labelledby=\"life-h\"><h2 id=\"life-h\">Life</h2>",
    );
    timeline::bar(&mut html, &of.transitions, of.now);
    html.raw("</section>");
    attempts(&mut html, of);
    html.raw("<section id=\"log\" data-live aria-labelledby=\"log-h\"><h2 id=\"log-h\">");
    log(&mut html, of);
    html.raw("</section><div class=\"charts\">");
    let raw = |json: &Option<Box<serde_json::value::RawValue>>| {
        json.as_ref().map(|json| json.get().to_owned())
    };
    document(&mut html, ("payload", "Payload"), Some(of.task.payload.get()), PAYLOAD_BYTES, of);
    document(
        &mut html,
        ("checkpoint", "Checkpoint"),
        raw(&of.task.checkpoint).as_deref(),
        CHECKPOINT_BYTES,
        of,
    );
    html.raw("</div>");
    document(&mut html, ("result", "Result"), raw(&of.task.result).as_deref(), RESULT_BYTES, of);
    transitions(&mut html, of);
    let title = format!("{at} – task {id} {} – midwatch", clip(kind, NAME_LETTERS));
    let host = clip(&of.host, NAME_LETTERS);
    let frame = layout::Frame {
        title: &title,
        host: &host,
        now: of.now,
        seq: Some(of.seq),
        task: Some(id.0),
    };
    layout::page(&frame, &html)
}

fn head(html: &mut Html, of: &TaskPage, may: &May) {
    let task = &of.task;
    html.raw("<section id=\"task\" data-live aria-labelledby=\"task-h\"><h1 id=\"task-h\">Task ");
    put!(html, (task.id), " ", (clip(&task.kind, NAME_LETTERS)), " ");
    status(html, task.status);
    html.raw("</h1>");
    if let Some(error) = &task.error {
        let ended = matches!(task.status, Status::Failed | Status::Dead);
        html.raw(if ended {
            "<p class=\"points\"><span class=\"bad\">"
        } else {
            "<p class=\"points\"><span class=\"soft\">Last error: "
        });
        if !html.text_within(error, ERROR_BYTES) {
            html.raw("…");
        }
        html.raw("</span></p>");
    }
    progress(html, of);
    orders(html, task, may);
    html.raw("</section><section id=\"facts\" data-live aria-labelledby=\"facts-h\">");
    html.raw("<h2 id=\"facts-h\" class=\"unseen\">About it</h2><dl class=\"facts\">");
    facts(html, of);
    html.raw("</dl></section>");
}

fn progress(html: &mut Html, of: &TaskPage) {
    let Some(told) = of.task.progress.as_ref().filter(|_| of.task.status == Status::Running) else {
        return;
    };
    html.raw("<p class=\"points\">");
    if let Some(total) = told.total.filter(|total| 0 < *total) {
        let done = told.done.min(total);
        put!(html, "<progress aria-label=\"progress\" max=\"", (total), "\" value=\"", (done));
        put!(html, "\"></progress>", (count(told.done)), " of ", (count(total)));
        put!(html, " (", (percent(done, total)), ")");
    } else {
        put!(html, (count(told.done)), " done");
    }
    if let Some(pace) = of.paced.and_then(|ran| pace(told, ran)) {
        put!(html, ", ", (pace));
    }
    if let Some(note) = &told.note {
        put!(html, "<br><small>", (clip(note, 200)), "</small>");
    }
    html.raw("</p>");
}

/// Which orders a status lets a person give.
const fn fitting(status: Status) -> &'static [(&'static str, &'static str, bool)] {
    match status {
        Status::Pending | Status::Retrying => {
            &[("run-now", "Run now", false), ("pause", "Pause", false), ("cancel", "Cancel", true)]
        }
        Status::Running => &[("pause", "Pause", false), ("cancel", "Cancel", true)],
        Status::Paused => &[("resume", "Resume", false), ("cancel", "Cancel", true)],
        Status::Failed | Status::Dead | Status::Cancelled => &[("retry", "Run again", false)],
        Status::Lost | Status::Success => &[],
    }
}

/// A form for each order; what cannot be taken back asks once more.
fn orders(html: &mut Html, task: &TaskView, may: &May) {
    let May::Operate(word) = may else { return };
    let fitting = fitting(task.status);
    if fitting.is_empty() {
        return;
    }
    html.raw("<div class=\"acts\">");
    for (verb, label, asks) in fitting {
        if *asks {
            put!(
                html,
                "<details data-key=\"",
                (verb),
                "\"><summary class=\"act\">",
                (label),
                "…</summary>"
            );
        }
        put!(html, "<form method=\"post\" action=\"/tasks/", (task.id), "/", (verb), "\">");
        put!(html, "<input type=\"hidden\" name=\"word\" value=\"", (word), "\">");
        if *asks {
            put!(
                html,
                "<button class=\"sure\">Yes, ",
                (verb),
                " task ",
                (task.id),
                "</button></form></details>"
            );
        } else {
            put!(html, "<button>", (label), "</button></form>");
        }
    }
    html.raw("</div>");
    if let Some(stop) = task.stop_requested {
        put!(html, "<p class=\"more\">Its executor has been asked to stop (", (stop), ").</p>");
    }
}

fn facts(html: &mut Html, of: &TaskPage) {
    let task = &of.task;
    let fact = |html: &mut Html, name: &'static str, value: &str| {
        html.raw("<dt>");
        html.raw(name);
        put!(html, "</dt><dd>", (clip(value, 300)), "</dd>");
    };
    html.raw("<dt>since</dt><dd>");
    when_said(html, &task.status_since, of.now);
    html.raw("</dd><dt>created</dt><dd>");
    when_said(html, &task.created_at, of.now);
    if let Some(created) = of.transitions.first() {
        put!(html, " by ", (clip(&created.by, NAME_LETTERS)));
    }
    html.raw("</dd>");
    if let Some(next) = &task.next_run_time {
        html.raw("<dt>next run</dt><dd>");
        when_said(html, next, of.now);
        html.raw("</dd>");
    }
    if let Some(waits) = &task.waiting_for {
        let ids: Vec<_> = waits.iter().take(20).map(ToString::to_string).collect();
        fact(html, "waits for", &ids.join(", "));
    }
    let retries = format!(
        "{} of {}, and {}",
        task.retry_count,
        task.max_retry,
        some(u64::from(task.lost_count), "loss", "losses")
    );
    fact(html, "retries", &retries);
    fact(html, "priority", &task.priority.to_string());
    let optional = [("timeout", &task.timeout), ("key", &task.key), ("schedule", &task.schedule)];
    for (name, value) in optional {
        if let Some(value) = value {
            fact(html, name, value);
        }
    }
    if let Some(old) = task.retry_of {
        put!(
            html,
            "<dt>runs again</dt><dd><a href=\"/tasks/",
            (old),
            "\">task ",
            (old),
            "</a></dd>"
        );
    }
    if let Some(worker) = task.executor_id {
        fact(html, "worker", &worker.to_string());
    }
}

fn attempts(html: &mut Html, of: &TaskPage) {
    html.raw("<section id=\"attempts\" data-live aria-labelledby=\"attempts-h\">");
    put!(
        html,
        "<h2 id=\"attempts-h\">Attempts (",
        (of.attempts.last().map_or(0, |last| last.attempt)),
        ")</h2>"
    );
    if of.attempts.is_empty() {
        html.raw("<p class=\"none\">It has not run yet. <code>midwatch doctor ");
        put!(html, (of.task.id), "</code> says why.</p></section>");
        return;
    }
    html.raw(
        "<table class=\"stack plain four\"><thead><tr><th scope=\"col\">Attempt</th><th scope=\"col\">",
    );
    html.raw(
        "Started</th><th scope=\"col\" class=\"n opt\">Waited</th><th scope=\"col\" class=\"n\">",
    );
    html.raw("Ran</th><th scope=\"col\" class=\"w\">End</th></tr></thead><tbody>");
    let mut taken = 0;
    let mut shown = 0;
    for one in of.attempts.iter().rev() {
        let mut piece = Html::default();
        attempt(&mut piece, of, one);
        taken += piece.len();
        if ATTEMPTS_BYTES < taken {
            break;
        }
        shown += 1;
        html.append(&piece);
    }
    html.raw("</tbody></table>");
    left_out(html, of.attempts.len().saturating_sub(shown), of);
    html.raw("</section>");
}

fn left_out(html: &mut Html, left: usize, of: &TaskPage) {
    if 0 < left {
        put!(html, "<p class=\"more\">", (left), " more: <code>midwatch history ", (of.task.id));
        html.raw("</code></p>");
    }
}

fn attempt(html: &mut Html, of: &TaskPage, one: &AttemptView) {
    let began = one.started_at.as_deref().unwrap_or(&one.leased_at);
    put!(
        html,
        "<tr><th scope=\"row\">",
        (one.attempt),
        "<small class=\"soft\">worker ",
        (one.executor_id)
    );
    html.raw("</small></th><td>");
    when_said(html, began, of.now);
    put!(html, "</td><td class=\"n opt\">", (span(one.wait_ms)), "</td><td class=\"n\">");
    let ended = one.ended_at.as_deref().map_or(Some(of.now), |at| parse_rfc3339(at).ok());
    let ran = parse_rfc3339(began).ok().zip(ended).map(|(from, to)| to.since(from).0);
    put!(html, (maybe_span(ran)), "</td><td class=\"w\">");
    match one.outcome {
        None => html.raw("<span class=\"s run\">runs</span>"),
        Some(outcome) => {
            html.raw(match outcome {
                Outcome::Success => "<span class=\"s ok\">",
                _ => "<span class=\"s bad\">",
            });
            put!(html, (outcome), "</span>");
        }
    }
    match (one.exit_code, one.signal) {
        (Some(code), _) if code != 0 => put!(html, " exit ", (code)),
        (_, Some(signal)) => put!(html, " signal ", (signal)),
        _ => {}
    }
    if let Some(error) = &one.error {
        put!(html, "<small>", (clip(error, 200)), "</small>");
    }
    html.raw("</td></tr>");
}

fn log(html: &mut Html, of: &TaskPage) {
    let attempt = of.attempts.last().map_or(0, |last| last.attempt);
    match &of.log {
        None => html.raw("Log</h2><p class=\"none\">There is no log yet.</p>"),
        Some(text) if text.trim().is_empty() => {
            html.raw("Log</h2><p class=\"none\">Its last attempt has written nothing.</p>");
        }
        Some(text) => {
            put!(html, "End of the log of attempt ", (attempt), "</h2>");
            html.raw("<pre tabindex=\"0\" role=\"region\" aria-labelledby=\"log-h\" data-end>");
            html.text(tail_within(text, LOG_BYTES));
            html.raw("</pre><p class=\"more\">All of it: <code>midwatch log ");
            put!(html, (of.task.id), "</code></p>");
        }
    }
}

fn document(
    html: &mut Html,
    (id, name): (&'static str, &'static str),
    json: Option<&str>,
    most: usize,
    of: &TaskPage,
) {
    put!(
        html,
        "<section id=\"",
        (id),
        "\" data-live aria-labelledby=\"",
        (id),
        "-h\"><h2 id=\"",
        (id)
    );
    put!(html, "-h\">", (name), "</h2>");
    match json {
        None => html.raw("<p class=\"none\">None.</p>"),
        Some(json) => {
            put!(html, "<pre tabindex=\"0\" role=\"region\" aria-labelledby=\"", (id), "-h\">");
            let whole = html.text_within(json, most);
            html.raw("</pre>");
            if !whole {
                put!(html, "<p class=\"more\">The beginning of ", (bytes(json.len() as u64)));
                put!(html, ": <code>midwatch show ", (of.task.id), " --json</code></p>");
            }
        }
    }
    html.raw("</section>");
}

fn transitions(html: &mut Html, of: &TaskPage) {
    html.raw("<section id=\"transitions\" data-live aria-labelledby=\"transitions-h\">");
    html.raw(
        "<h2 id=\"transitions-h\">History</h2><table class=\"stack plain\"><caption>latest first",
    );
    html.raw("</caption><thead><tr><th scope=\"col\">When</th><th scope=\"col\">Became</th>");
    html.raw("<th scope=\"col\" class=\"w\">Why</th></tr></thead><tbody>");
    let (mut taken, mut shown) = (0, 0);
    for line in of.transitions.iter().rev() {
        let mut piece = Html::default();
        transition(&mut piece, line, of.now);
        taken += piece.len();
        if TRANSITIONS_BYTES < taken {
            break;
        }
        shown += 1;
        html.append(&piece);
    }
    html.raw("</tbody></table>");
    let dropped = usize::try_from(of.dropped).unwrap_or(usize::MAX);
    left_out(html, of.transitions.len().saturating_sub(shown).saturating_add(dropped), of);
    html.raw("</section>");
}

fn transition(html: &mut Html, line: &TransitionView, now: Timestamp) {
    html.raw("<tr><td>");
    match parse_rfc3339(&line.at) {
        Ok(at) => {
            let whole_day = Millis::secs(24 * 3600) <= now.since(at);
            let date = if whole_day { format!("{} ", Zone::Utc.date(at)) } else { String::new() };
            put!(html, (date), (Zone::Utc.time_millis(at)));
        }
        Err(_) => html.text(&line.at),
    }
    html.raw("</td><td>");
    status(html, line.to);
    html.raw("</td><td class=\"w\">");
    let reason = line.reason.map_or("", |reason| reason.word());
    put!(html, (reason), " <span class=\"soft\">by ", (clip(&line.by, NAME_LETTERS)), "</span>");
    if let Some(note) = &line.note {
        put!(html, "<small>", (clip(note, 160)), "</small>");
    }
    html.raw("</td></tr>");
}
