//! The pages for people with a browser: `/`, and `/tasks/ID` for each task.
//!
//! They are rendered here and nowhere else, and whole without JavaScript. The script in them asks
//! for the same page again when events say that something happened, and puts what the server
//! rendered anew in the place of what it rendered before. All other text goes through one escaper,
//! and the browser is told to run nothing and to ask nobody but what stands in the page.

mod alerts;
mod chart;
mod escape;
mod gather;
mod layout;
mod log;
mod sections;
mod task;
mod timeline;
mod view;
mod words;

use super::app::{App, number};
use super::host::Facts;
use super::peer::{Access, Peer};
use super::problems::Failure;
use super::tcp::browser;
use super::{tasks, views};
use crate::api::{Code, Problem};
use crate::kernel::Command;
use crate::kernel::ids::TaskId;
use crate::kernel::verdict::Verb;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use escape::{Html, put};
use gather::Shown;
use std::sync::Arc;
use view::{May, TaskPage};

/// Largest form.
const FORM_BYTES_MAX: usize = 1 << 10;

/// A word that only pages of this process know: a form that does not show it is not ours.
pub(crate) fn word() -> String {
    format!("{:032x}", rand::random::<u128>())
}

fn may(app: &App, peer: Peer) -> May {
    if Access::Operate <= peer.access { May::Operate(app.page_word.clone()) } else { May::Look }
}

/// `GET /`.
pub(crate) async fn overview(Shared(app): Shared<Arc<App>>) -> Response {
    match gather::overview(&app).await {
        Ok(Shown::Whole(overview)) => answer(StatusCode::OK, sections::overview(&overview)),
        Ok(Shown::Stalled(status)) => {
            answer(StatusCode::OK, sections::stalled(&status, crate::clock::wall()))
        }
        Err(failure) => refusal(&app, failure),
    }
}

/// `GET /tasks/{id}`.
pub(crate) async fn task(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Response {
    match life(&app, &id).await {
        Ok(page) => answer(StatusCode::OK, task::page(&page, &may(&app, peer))),
        Err(failure) => refusal(&app, failure),
    }
}

async fn life(app: &App, id: &str) -> Result<TaskPage, Failure> {
    let id: TaskId = number("task", id)?;
    let look = move |facts: &Facts<'_>| {
        let known = facts.engine.state().task_or_why(id)?;
        let seq = facts.engine.state().head().seq.0;
        let paced = gather::paced(facts, known);
        let seen = (views::history(known, facts.now), facts.now.wall, seq, paced);
        Ok::<_, crate::kernel::Rejection>(seen)
    };
    let ((sketch, history), now, seq, paced) = app.read(look).await??;
    let attempt = history.attempts.last().map(|last| last.attempt);
    let log = attempt.map(|attempt| app.data_dir.join(views::log_path(id, attempt)));
    let log = log.map(|path| log::tail(&path)).transpose().unwrap_or_else(|error| {
        tracing::debug!("cannot read the log of task {id}: {error}");
        None
    });
    Ok(TaskPage {
        now,
        seq,
        host: app.about.host.clone(),
        task: sketch.finish(),
        transitions: history.transitions,
        dropped: history.transitions_dropped,
        attempts: history.attempts,
        paced,
        log: log.flatten(),
    })
}

/// `POST /tasks/{id}/{verb}`: an order by one of our forms; answered with the way back.
pub(crate) async fn act(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path((id, verb)): Path<(String, String)>,
    request: Request,
) -> Response {
    match ordered(&app, peer, (&id, &verb), request).await {
        Ok(task) => {
            let mut response = answer(StatusCode::SEE_OTHER, String::new());
            if let Ok(back) = HeaderValue::try_from(format!("/tasks/{task}")) {
                response.headers_mut().insert(header::LOCATION, back);
            }
            response
        }
        Err(failure) => refusal(&app, failure),
    }
}

/// The verbs that have forms.
const VERBS: [Verb; 5] = [Verb::Cancel, Verb::Pause, Verb::Resume, Verb::Retry, Verb::RunNow];

async fn ordered(
    app: &App,
    peer: Peer,
    (id, verb): (&str, &str),
    request: Request,
) -> Result<TaskId, Failure> {
    let Some(verb) = VERBS.into_iter().find(|known| known.word() == verb) else {
        return Err(super::http::no_such_route(&request));
    };
    let id: TaskId = number("task", id)?;
    app.require(peer, Access::Operate, &format!("{} a task", verb.word()))?;
    let (head, body) = request.into_parts();
    let form = app.read_body(body, FORM_BYTES_MAX).await?;
    if !is_ours(&head.headers, &form, &app.page_word) {
        let detail = "this order does not come from a page of this daemon as it runs now";
        let help = "open the task's page again, and give the order there";
        return Err(Problem::new(Code::CrossSite, detail).with_help(help).into());
    }
    let command = Command::Act { task: id, verb, max_retry: None, fresh: false };
    Ok(tasks::carry_out(app, peer, command).await?.id)
}

/// Whether a form is one of ours, sent by a page of ours.
fn is_ours(headers: &HeaderMap, form: &[u8], word: &str) -> bool {
    let shown = form.strip_prefix(b"word=").unwrap_or_default();
    let differ =
        shown.iter().zip(word.as_bytes()).fold(0, |differ, (one, two)| differ | (one ^ two));
    browser::is_same_origin(headers) && shown.len() == word.len() && differ == 0
}

fn answer(status: StatusCode, page: String) -> Response {
    let mut response = Response::new(Body::from(page));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: with it a browser hides from us that a form is ours.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(policy) = HeaderValue::try_from(layout::policy()) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// A refusal as a page.
fn refusal(app: &App, Failure(problem): Failure) -> Response {
    let mut html = Html::default();
    put!(html, "<section><h1>", (problem.title), "</h1><p>", (problem.detail), "</p>");
    if let Some(help) = &problem.help {
        put!(html, "<p class=\"more\"><code>", (help), "</code></p>");
    }
    html.raw("<p class=\"more\"><a href=\"/\">Back to the status page</a></p></section>");
    let frame = layout::Frame {
        title: &problem.title,
        host: &app.about.host,
        now: crate::clock::wall(),
        seq: None,
        task: None,
    };
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(status, layout::page(&frame, &html))
}

#[cfg(test)]
mod tests;
