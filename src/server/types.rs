//! Routes about whole task types.

use super::app::{Answered, App, ok};
use super::host::Facts;
use super::peer::{Access, Peer};
use super::problems::{Failure, invalid};
use super::submission::no_such_type;
use super::views::wall_of_life;
use crate::api::{
    BoundView, LimitTypeRequest, MaxRunning, OrderView, PauseTypeRequest, TypeActed, TypeView,
    Types,
};
use crate::kernel::status::Status;
use crate::kernel::task_type::{Order, Rate};
use crate::kernel::text::Text;
use crate::kernel::{Answer, Change, Command, Queue, Rejection, TypeAct};
use crate::limits::{MAX_RUNNING_MAX, NAME_BYTES_MAX, REASON_BYTES_MAX};
use crate::units::rfc3339;
use axum::extract::{Extension, Path, Request, State as Shared};
use std::collections::BTreeSet;
use std::sync::Arc;

/// `GET /v1/types`.
pub(crate) async fn list(Shared(app): Shared<Arc<App>>) -> Answered {
    let look = |facts: &Facts<'_>| {
        let (state, rules) = (facts.engine.state(), facts.engine.rules());
        let used = state.index().by_type.iter().filter(|(_, tally)| !tally.is_empty());
        let names: BTreeSet<&Text> = (rules.kinds.keys())
            .chain(used.map(|(kind, _)| kind))
            .chain(state.task_types().map(|known| &known.kind))
            .collect();
        Types { types: names.into_iter().map(|kind| view(facts, kind)).collect() }
    };
    Ok(ok(&app.read(look).await?))
}

/// `GET /v1/types/{type}`.
pub(crate) async fn show(Shared(app): Shared<Arc<App>>, Path(kind): Path<String>) -> Answered {
    let name = kind.clone();
    let look = move |facts: &Facts<'_>| {
        let known = facts.engine.state().knows_type(facts.engine.rules(), &name);
        known.then(|| view(facts, &name))
    };
    match app.read(look).await? {
        Some(view) => Ok(ok(&view)),
        None => Err(no_such_type(&kind, &app.policy().kinds)),
    }
}

/// `POST /v1/types/{type}/{verb}`.
pub(crate) async fn act(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path((kind, verb)): Path<(String, String)>,
    request: Request,
) -> Answered {
    if !["pause", "resume", "limit"].contains(&verb.as_str()) {
        return Err(super::http::no_such_route(&request));
    }
    app.require(peer, Access::Operate, &format!("{verb} a task type"))?;
    let body = request.into_body();
    let act = match verb.as_str() {
        "pause" => pause(app.read_json(body).await?)?,
        "limit" => limit(app.read_json(body).await?)?,
        _ => TypeAct::Resume,
    };
    if NAME_BYTES_MAX < kind.len() {
        return Err(no_such_type(&kind, &app.policy().kinds));
    }
    let name = Text::from(kind.as_str());
    let command = Command::ActOnType { kind: name.clone(), act };
    let acted =
        app.hand.ask_and_look(peer.actor(), vec![command], move |facts, answers| match answers
            .into_iter()
            .next()
        {
            Some(Ok(Answer::TypeActed { changed })) => {
                Ok(TypeActed { view: view(facts, &name), changed })
            }
            Some(Err(rejection)) => Err(rejection),
            _ => Err(Rejection::Needless),
        })?;
    match acted.await? {
        Ok(acted) => Ok(ok(&acted)),
        Err(Rejection::NoSuchType(_)) => Err(no_such_type(&kind, &app.policy().kinds)),
        Err(rejection) => Err(rejection.into()),
    }
}

fn pause(request: PauseTypeRequest) -> Result<TypeAct, Failure> {
    let PauseTypeRequest { reason } = request;
    if reason.as_ref().is_some_and(|reason| REASON_BYTES_MAX < reason.len()) {
        return Err(invalid(format!("`reason` must have at most {REASON_BYTES_MAX} bytes")));
    }
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    Ok(TypeAct::Pause { reason: reason.map(Text::from) })
}

fn limit(request: LimitTypeRequest) -> Result<TypeAct, Failure> {
    let LimitTypeRequest { max_running, rate } = request;
    if max_running.is_none() && rate.is_none() {
        return Err(invalid("`max_running` or `rate` must be there"));
    }
    let wrong = || {
        let what = "must be a number, `none` or `config`";
        invalid(format!("`max_running` {what}, the number from 1 to {MAX_RUNNING_MAX}"))
    };
    let max_running = match max_running {
        None => Change::Keep,
        Some(MaxRunning::Number(max)) => {
            let fits = usize::try_from(max).is_ok_and(|max| (1..=MAX_RUNNING_MAX).contains(&max));
            if fits { Change::AtMost(max) } else { return Err(wrong()) }
        }
        Some(MaxRunning::Word(word)) => word_of(&word).ok_or_else(wrong)?,
    };
    let rate = match rate {
        None => Change::Keep,
        Some(text) => match word_of(&text) {
            Some(change) => change,
            None => Change::AtMost(text.parse::<Rate>().map_err(|error| {
                invalid(format!("`rate`: {error}; or it is `none` or `config`"))
            })?),
        },
    };
    Ok(TypeAct::Limit { max_running, rate })
}

fn word_of<T>(word: &str) -> Option<Change<T>> {
    match word {
        "none" => Some(Change::Unlimited),
        "config" => Some(Change::Config),
        _ => None,
    }
}

fn view(facts: &Facts<'_>, kind: &str) -> TypeView {
    let (state, rules) = (facts.engine.state(), facts.engine.rules());
    let (config, bounds) = (rules.of(kind).bounds, state.bounds(rules, kind));
    let known = state.task_type(kind);
    let tally = state.tally(kind);
    let recent = |rate| known.map_or(0, |known| known.recent(rate, facts.now.life));
    let frees = bounds.rate.and_then(|rate| known?.frees_at(rate));
    let held_up = frees.filter(|at| facts.now.life < *at);
    let set = known.map_or((false, false), |it| (it.max_running.is_some(), it.rate.is_some()));
    let from = |set: bool, configured: bool| {
        let word = if configured { "config" } else { "default" };
        if set { "set" } else { word }.to_owned()
    };
    let count = |status: &Status| (status.word().to_owned(), tally.count(*status) as u64);
    TypeView {
        kind: kind.to_owned(),
        configured: rules.kinds.contains_key(kind),
        paused: known.and_then(|known| known.paused.as_ref()).map(order),
        max_running: BoundView {
            value: bounds.max_running,
            from: from(set.0, config.max_running.is_some()),
        },
        rate: BoundView {
            value: bounds.rate.map(|rate| rate.to_string()),
            from: from(set.1, config.rate.is_some()),
        },
        limited: known.and_then(|known| known.limited.as_ref()).map(order),
        dispatched: bounds.rate.map_or(0, recent) as u64,
        next_dispatch_at: held_up.map(|at| rfc3339(wall_of_life(at, facts.now))),
        running: tally.leased() as u64,
        due: state.index().ready.get(kind).map_or(0, Queue::len) as u64,
        tasks: Status::ALL.iter().map(count).collect(),
    }
}

fn order(order: &Order) -> OrderView {
    let Order { by, at, reason } = order;
    OrderView { by: by.to_string(), at: rfc3339(*at), reason: reason.as_ref().map(Text::to_string) }
}
