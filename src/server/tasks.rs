//! Routes about tasks.

use super::app::{Answered, App, WAIT_MAX, json, number, ok};
use super::hand::in_company;
use super::host::Facts;
use super::peer::{Access, Peer};
use super::problems::{Failure, invalid};
use super::submission::{about, check_max_retry};
use super::views::{self, Sketch};
use super::watches::Subject;
use crate::api::{Acted, EditRequest, ListQuery, ResetRequest, RetryRequest, Submitted, TaskList};
use crate::kernel::ids::{Millis, TaskId, Timestamp};
use crate::kernel::status::Status;
use crate::kernel::verdict::Verb;
use crate::kernel::{Answer, Change, Command, Edit, NextRun, Rejection, State};
use crate::limits::{BODY_BYTES_MAX, LIST_PAGE_MAX, LIST_VISITED_MAX};
use crate::units::{parse_duration, parse_rfc3339};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, Request, State as Shared};
use axum::http::{StatusCode, header};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// `POST /v1/tasks`: one task as JSON, or many as NDJSON.
pub(crate) async fn submit(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answered {
    app.require(peer, Access::Submit, "submit a task")?;
    let kind = request.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-ndjson")) {
        return Ok(super::bulk::submit_many(app, peer, request.into_body()));
    }
    let body = app.read_body(request.into_body(), BODY_BYTES_MAX).await?;
    let spec = app.policy().judge(peer).spec(&body)?;
    in_company().await;
    let answers = app.hand.ask(peer.actor(), vec![Command::Submit(spec)])?.await?;
    match answers.into_iter().next() {
        Some(Ok(Answer::Submitted { task, existed })) => {
            let status = if existed { StatusCode::OK } else { StatusCode::CREATED };
            Ok(json(status, &Submitted { id: task, existed }))
        }
        Some(Err(rejection)) => Err(rejection.into()),
        _ => Err(unexpected()),
    }
}

/// An answer that does not belong to the command: a bug of ours.
pub(crate) fn unexpected() -> Failure {
    Failure(crate::api::Problem::new(
        crate::api::Code::OutcomeUnknown,
        "the engine gave an answer to another question; please report this",
    ))
}

/// `GET /v1/tasks/{id}`.
pub(crate) async fn show(Shared(app): Shared<Arc<App>>, Path(id): Path<String>) -> Answered {
    let id: TaskId = number("task", &id)?;
    let look = move |facts: &Facts<'_>| sketch(facts, id);
    Ok(ok(&app.read(look).await??.finish()))
}

fn sketch(facts: &Facts<'_>, id: TaskId) -> Result<Sketch, Rejection> {
    let task = facts.engine.state().task_or_why(id)?;
    Ok(views::task(task, facts.now))
}

/// `GET /v1/tasks/{id}/history`.
pub(crate) async fn history(Shared(app): Shared<Arc<App>>, Path(id): Path<String>) -> Answered {
    let id: TaskId = number("task", &id)?;
    let look = move |facts: &Facts<'_>| {
        let task = facts.engine.state().task_or_why(id)?;
        Ok::<_, Rejection>(views::history(task, facts.now))
    };
    let (task, mut history) = app.read(look).await??;
    history.task = task.finish();
    for attempt in &mut history.attempts {
        let file = std::fs::metadata(app.data_dir.join(&attempt.log));
        attempt.log_bytes = file.ok().map(|file| file.len());
    }
    Ok(ok(&history))
}

/// Query of a wait.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitQuery {
    timeout_ms: Option<u64>,
}

/// `GET /v1/tasks/{id}/wait`.
pub(crate) async fn wait(
    Shared(app): Shared<Arc<App>>,
    Path(id): Path<String>,
    query: Result<Query<WaitQuery>, QueryRejection>,
) -> Answered {
    let id: TaskId = number("task", &id)?;
    let Query(WaitQuery { timeout_ms }) = query.map_err(|error| invalid(error.body_text()))?;
    let patience = timeout_ms.map_or(WAIT_MAX, Millis).min(WAIT_MAX);
    let ended = app.hand.watch(Subject::Task(id), move |facts| match sketch(facts, id) {
        Ok(_) if !is_terminal(facts.engine.state(), id) => None,
        found => Some(found),
    })?;
    let view = tokio::select! {
        ended = ended => ended??,
        () = tokio::time::sleep(patience.duration()) => now(&app, id).await?,
        () = app.closing() => now(&app, id).await?,
    };
    Ok(ok(&view.finish()))
}

fn is_terminal(state: &State, id: TaskId) -> bool {
    state.task(id).is_some_and(|task| task.status.is_terminal())
}

async fn now(app: &App, id: TaskId) -> Result<Sketch, Failure> {
    Ok(app.hand.read(move |facts| sketch(facts, id))?.await??)
}

/// `POST /v1/tasks/{id}/{verb}`.
pub(crate) async fn act(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path((id, verb)): Path<(String, String)>,
    request: Request,
) -> Answered {
    let Some(verb) = Verb::ALL.iter().copied().find(|known| known.word() == verb) else {
        return Err(super::http::no_such_route(&request));
    };
    let id: TaskId = number("task", &id)?;
    app.require(peer, Access::Operate, &format!("{} a task", verb.word()))?;
    let act = |max_retry, fresh| Command::Act { task: id, verb, max_retry, fresh };
    let command = match verb {
        Verb::Retry => {
            let RetryRequest { fresh } = app.read_json(request.into_body()).await?;
            act(None, fresh)
        }
        Verb::Reset => {
            let ResetRequest { max_retry } = app.read_json(request.into_body()).await?;
            act(max_retry.map(check_max_retry).transpose()?, false)
        }
        Verb::Edit => {
            Command::Edit { task: id, edit: edit(app.read_json(request.into_body()).await?)? }
        }
        Verb::Cancel | Verb::Pause | Verb::Resume | Verb::RunNow => act(None, false),
    };
    Ok(ok(&carry_out(&app, peer, command).await?))
}

/// Has an order about one task carried out.
pub(crate) async fn carry_out(app: &App, peer: Peer, command: Command) -> Result<Acted, Failure> {
    let acted = app.hand.ask_and_look(peer.actor(), vec![command], |facts, answers| {
        let (task, changed) = match answers.into_iter().next() {
            Some(Ok(Answer::Acted { task, changed })) => (task, changed),
            Some(Err(rejection)) => return Err(rejection),
            _ => return Err(Rejection::Needless),
        };
        let known = facts.engine.state().task_or_why(task)?;
        Ok(Acted { id: task, status: known.status, stop_requested: known.stop(), changed })
    })?;
    Ok(acted.await??)
}

/// What is to be changed of a task.
fn edit(request: EditRequest) -> Result<Edit, Failure> {
    let EditRequest { priority, max_retry, at, delay, timeout } = request;
    let next_run = match (at, delay) {
        (None, None) => None,
        (Some(at), None) => Some(NextRun::At(parse_rfc3339(&at).map_err(about("at"))?)),
        (None, Some(span)) => Some(NextRun::In(parse_duration(&span).map_err(about("delay"))?)),
        (Some(_), Some(_)) => return Err(invalid("`at` and `delay` exclude each other")),
    };
    let timeout = match timeout.as_deref() {
        None => Change::Keep,
        Some("none") => Change::Unlimited,
        Some(span) => Change::AtMost(parse_duration(span).map_err(about("timeout"))?),
    };
    if timeout == Change::AtMost(Millis(0)) {
        return Err(invalid("`timeout` must be longer than nothing, or `none`"));
    }
    let max_retry = max_retry.map(check_max_retry).transpose()?;
    let edit = Edit { priority, max_retry, timeout, next_run };
    if edit == Edit::default() {
        return Err(invalid("nothing is to be changed: name at least one field"));
    }
    Ok(edit)
}

/// What a page of the list is made from.
#[derive(Clone, Debug)]
struct Filter {
    statuses: BTreeSet<Status>,
    kind: Option<String>,
    schedule: Option<String>,
    since: Option<Timestamp>,
}

/// Tasks looked at in one go, so that the engine is never kept for long.
const VISITED_AT_ONCE: usize = 4096;

/// Tasks taken in one go.
const TAKEN_AT_ONCE: usize = 256;

/// Bytes of payloads, checkpoints and results in one answer, give or take one task.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Part of a page.
struct Part {
    tasks: Vec<Sketch>,
    /// Where to go on; none at the end of the list.
    next: Option<TaskId>,
    visited: usize,
    total: usize,
}

/// `GET /v1/tasks`.
pub(crate) async fn list(
    Shared(app): Shared<Arc<App>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Answered {
    let Query(query) = query.map_err(|error| invalid(error.body_text()))?;
    let ListQuery { status, kind, schedule, since, limit, after } = query;
    let limit = limit.unwrap_or(50);
    if LIST_PAGE_MAX < limit || limit == 0 {
        return Err(invalid(format!("`limit` must be from 1 to {LIST_PAGE_MAX}")));
    }
    let since = since.map(|since| read_since(&since)).transpose()?;
    let filter = Filter { statuses: statuses(status.as_deref())?, kind, schedule, since };
    let (mut tasks, mut visited, mut bytes) = (Vec::new(), 0, 0);
    let mut from = after.unwrap_or(TaskId(u64::MAX));
    let (next, total) = loop {
        let filter = filter.clone();
        let most = TAKEN_AT_ONCE.min(limit - tasks.len());
        let part = app.read(move |facts| part(facts, &filter, from, most)).await?;
        bytes += part.tasks.iter().map(Sketch::bytes).sum::<usize>();
        visited += part.visited;
        tasks.extend(part.tasks.into_iter().map(Sketch::finish));
        let full = tasks.len() == limit || LIST_VISITED_MAX <= visited || PAGE_BYTES_MAX <= bytes;
        match part.next {
            Some(next) if !full => from = next,
            next => break (next, part.total),
        }
    };
    Ok(ok(&TaskList { tasks, next, total: total as u64 }))
}

fn statuses(words: Option<&str>) -> Result<BTreeSet<Status>, Failure> {
    let Some(words) = words else { return Ok(Status::ALL.iter().copied().collect()) };
    let parsed = words.split(',').map(|word| word.trim().parse());
    parsed.collect::<Result<_, _>>().map_err(|error| invalid(format!("`status`: {error}")))
}

fn read_since(text: &str) -> Result<Timestamp, Failure> {
    if let Ok(span) = parse_duration(text) {
        return Ok(Timestamp(crate::clock::wall().0.saturating_sub(span.0)));
    }
    parse_rfc3339(text).map_err(|error| invalid(format!("`since`: {error}, and no span either")))
}

/// Tasks older than `from`, newest first: the sets of the statuses, merged.
fn part(facts: &Facts<'_>, filter: &Filter, from: TaskId, most: usize) -> Part {
    let state = facts.engine.state();
    let sets = filter.statuses.iter().filter_map(|status| state.index().by_status.get(status));
    let mut fronts: Vec<_> = sets.map(|set| set.below(from).rev().peekable()).collect();
    let mut part = Part { tasks: Vec::new(), next: None, visited: 0, total: state.task_count() };
    let mut bytes = 0;
    loop {
        let newest = fronts.iter_mut().filter_map(|front| front.peek().copied()).max();
        let Some(id) = newest else { return part };
        let full = part.tasks.len() == most || PAGE_BYTES_MAX <= bytes;
        if full || part.visited == VISITED_AT_ONCE {
            part.next = Some(TaskId(id.0.saturating_add(1)));
            return part;
        }
        for front in &mut fronts {
            front.next_if_eq(&id);
        }
        part.visited += 1;
        let Some(task) = state.task(id) else { continue };
        let wanted = filter.kind.as_deref().is_none_or(|kind| kind == &*task.kind)
            && filter.schedule.as_deref().is_none_or(|name| {
                task.scheduled().is_some_and(|scheduled| name == &*scheduled.schedule)
            })
            && filter.since.is_none_or(|since| since <= task.created);
        if wanted {
            let sketch = views::task(task, facts.now);
            bytes += sketch.bytes();
            part.tasks.push(sketch);
        }
    }
}
