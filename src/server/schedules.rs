//! Routes about schedules.

mod config;
mod local;
mod next;
mod points;
mod spec;
mod view;

pub(crate) use config::{Arranging, check, specs, tell_of_takeovers};
pub(crate) use points::points;

use super::app::{Answered, App, ok};
use super::host::Facts;
use super::peer::{Access, Peer};
use super::problems::{Failure, invalid};
use super::tasks::unexpected;
use crate::api::{
    NextQuery, PauseScheduleRequest, RefusedSchedule, ScheduleActed, ScheduleRequest, Schedules,
};
use crate::kernel::ids::TaskId;
use crate::kernel::schedule::Origin;
use crate::kernel::text::Text;
use crate::kernel::{Answer, Command, Rejection, ScheduleAct};
use crate::limits::{NAME_BYTES_MAX, REASON_BYTES_MAX};
use crate::units::rfc3339;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, Request, State as Shared};
use std::sync::Arc;
pub(crate) use view::Sketch;

/// Schedules looked at in one go, so that the engine is never kept for long.
const TAKEN_AT_ONCE: usize = 1000;

/// `GET /v1/schedules`.
pub(crate) async fn list(Shared(app): Shared<Arc<App>>) -> Answered {
    let mut schedules = Vec::new();
    let mut after = Text::from("");
    loop {
        let from = after.clone();
        let look = move |facts: &Facts<'_>| {
            let schedules = facts.engine.state().schedules_after(&from).take(TAKEN_AT_ONCE);
            schedules.map(|schedule| Sketch::of(facts, schedule)).collect::<Vec<_>>()
        };
        let part = app.read(look).await?;
        let Some(last) = part.last() else { break };
        after = last.name().clone();
        schedules.extend(part.into_iter().map(Sketch::summary));
    }
    let refused = app.read(refused).await?;
    Ok(ok(&Schedules { schedules, refused }))
}

fn refused(facts: &Facts<'_>) -> Vec<RefusedSchedule> {
    let refused = facts
        .refused
        .iter()
        .map(|(name, why)| RefusedSchedule { name: name.to_string(), why: why.to_string() });
    refused.collect()
}

/// `GET /v1/schedules/{name}`.
pub(crate) async fn show(Shared(app): Shared<Arc<App>>, Path(name): Path<String>) -> Answered {
    Ok(ok(&sketch(&app, &name).await?.finish()))
}

async fn sketch(app: &App, name: &str) -> Result<Sketch, Failure> {
    let wanted = Text::from(name);
    let look = move |facts: &Facts<'_>| {
        let found = facts.engine.state().schedule_shared(&wanted);
        found.map(|schedule| Sketch::of(facts, schedule))
    };
    app.read(look).await?.ok_or_else(|| no_such_schedule(name))
}

fn no_such_schedule(name: &str) -> Failure {
    Rejection::NoSuchSchedule(Text::clipped(name, NAME_BYTES_MAX)).into()
}

/// `GET /v1/schedules/{name}/next`.
pub(crate) async fn next(
    Shared(app): Shared<Arc<App>>,
    Path(name): Path<String>,
    query: Result<Query<NextQuery>, QueryRejection>,
) -> Answered {
    let Query(query) = query.map_err(|error| invalid(error.body_text()))?;
    let query = next::Wanted::of(query)?;
    let sketch = sketch(&app, &name).await?;
    let now = crate::clock::wall();
    let found = tokio::task::spawn_blocking(move || next::times(sketch.schedule(), &query, now));
    Ok(ok(&found.await.map_err(|_gone| unexpected())?))
}

/// `POST /v1/schedules/{name}`.
pub(crate) async fn set(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
    request: Request,
) -> Answered {
    app.require(peer, Access::Operate, "make or change a schedule")?;
    crate::config::check_name("schedule", &name).map_err(|fault| {
        let Failure(problem) = invalid(fault.to_string());
        Failure(problem.with_help(fault.help().unwrap_or_default()))
    })?;
    let request: ScheduleRequest = app.read_json(request.into_body()).await?;
    let replace = request.replace;
    let spec = spec::read(&app.policy(), peer, request)?;
    // A search among dates: not on the thread that serves, and never on the engine's.
    let checked = tokio::task::spawn_blocking(move || spec::check_times(spec)).await;
    let spec = Box::new(checked.map_err(|_gone| unexpected())??);
    act(&app, peer, &name, ScheduleAct::Set { spec, origin: Origin::Runtime, replace }).await
}

/// `DELETE /v1/schedules/{name}`.
pub(crate) async fn remove(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
) -> Answered {
    app.require(peer, Access::Operate, "remove a schedule")?;
    act(&app, peer, &name, ScheduleAct::Remove { origin: Origin::Runtime }).await
}

/// `POST /v1/schedules/{name}/{verb}`.
pub(crate) async fn order(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path((name, verb)): Path<(String, String)>,
    request: Request,
) -> Answered {
    if !["pause", "resume", "trigger"].contains(&verb.as_str()) {
        return Err(super::http::no_such_route(&request));
    }
    app.require(peer, Access::Operate, &format!("{verb} a schedule"))?;
    let body = request.into_body();
    let chosen = match verb.as_str() {
        "pause" => pause(app.read_json(body).await?)?,
        "trigger" => ScheduleAct::Trigger { by: peer.actor() },
        _ => ScheduleAct::Resume,
    };
    act(&app, peer, &name, chosen).await
}

fn pause(request: PauseScheduleRequest) -> Result<ScheduleAct, Failure> {
    let PauseScheduleRequest { reason } = request;
    if reason.as_ref().is_some_and(|reason| REASON_BYTES_MAX < reason.len()) {
        return Err(invalid(format!("`reason` must have at most {REASON_BYTES_MAX} bytes")));
    }
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    Ok(ScheduleAct::Pause { reason: reason.map(Text::from) })
}

async fn act(app: &App, peer: Peer, name: &str, act: ScheduleAct) -> Answered {
    if NAME_BYTES_MAX < name.len() {
        return Err(no_such_schedule(name));
    }
    let name = Text::from(name);
    let command = Command::ActOnSchedule { name: name.clone(), act };
    let acted =
        app.hand.ask_and_look(peer.actor(), vec![command], move |facts, answers| match answers
            .into_iter()
            .next()
        {
            Some(Ok(Answer::ScheduleActed { changed, task })) => {
                Ok(acted(facts, &name, changed, task))
            }
            Some(Err(rejection)) => Err(Failure::from(rejection)),
            _ => Err(unexpected()),
        })?;
    Ok(ok(&acted.await??))
}

fn acted(facts: &Facts<'_>, name: &Text, changed: bool, task: Option<TaskId>) -> ScheduleActed {
    let next = facts.engine.state().schedule(name).and_then(|schedule| schedule.next);
    ScheduleActed { name: name.to_string(), changed, next: next.map(rfc3339), task }
}
