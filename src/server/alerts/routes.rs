//! `/v1/alerts`.

use super::view;
use crate::api::{AlertActed, AlertView, Alerts, ChannelView, TestRequest, Tested};
use crate::config::AlertChannel;
use crate::kernel::alerts::{Alert, FORGOTTEN_AFTER, Rule};
use crate::kernel::event::Actor;
use crate::kernel::text::Text;
use crate::kernel::{AlertAct, Answer, Command, Rejection};
use crate::server::app::{Answered, App, number, ok};
use crate::server::host::Facts;
use crate::server::peer::{Access, Peer};
use crate::server::problems::Failure;
use crate::server::stalled::within_patience;
use axum::extract::{Extension, Path, Request, State as Shared};
use std::cmp::Reverse;
use std::sync::Arc;

/// `GET /v1/alerts`.
pub(crate) async fn list(Shared(app): Shared<Arc<App>>) -> Answered {
    let look =
        |facts: &Facts<'_>| kept(facts).into_iter().map(|alert| view_of(facts, alert)).collect();
    let alerts = app.read(look).await?;
    let channels = app.post.channels().into_iter().map(channel_view).collect();
    Ok(ok(&Alerts { alerts, channels }))
}

/// Those that stand, worst and newest first, then those that are over and not forgotten.
pub(crate) fn kept<'f>(facts: &Facts<'f>) -> Vec<&'f Alert> {
    let now = facts.now.life;
    let kept = |alert: &&Alert| alert.over.is_none_or(|over| now < over.after(FORGOTTEN_AFTER));
    let mut alerts: Vec<_> = facts.engine.state().alerts().iter().filter(kept).collect();
    alerts.sort_by_key(|alert| {
        (alert.over.is_some(), Reverse(alert.grade), Reverse(alert.last), alert.number)
    });
    alerts
}

/// An alert as others see it.
pub(crate) fn view_of(facts: &Facts<'_>, alert: &Alert) -> AlertView {
    view::alert(alert, facts.engine.rules(), facts.now.life)
}

fn channel_view((channel, trouble): (AlertChannel, Option<String>)) -> ChannelView {
    let AlertChannel { channel, .. } = channel;
    let min_level = channel.min_grade.word().to_owned();
    ChannelView { name: channel.name.to_string(), min_level, trouble }
}

/// `POST /v1/alerts/{id}/ack`.
pub(crate) async fn ack(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Answered {
    app.require(peer, Access::Operate, "acknowledge an alert")?;
    let number: u64 = number("alert", &id)?;
    let command = Command::ActOnAlerts(AlertAct::Ack(number));
    let acted = app.hand.ask_and_look(peer.actor(), vec![command], move |facts, answers| {
        let answer = answers.into_iter().next();
        let found = facts.engine.state().alerts().numbered(number);
        match (answer, found) {
            (Some(Ok(Answer::AlertActed { changed })), Some(alert)) => {
                Ok(AlertActed { view: view_of(facts, alert), changed })
            }
            (Some(Err(rejection)), _) => Err(rejection),
            _ => Err(Rejection::NoSuchAlert(number)),
        }
    })?;
    Ok(ok(&acted.await??))
}

/// `POST /v1/alerts/test`: answers once each channel took the message or did not.
pub(crate) async fn test(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answered {
    app.require(peer, Access::Operate, "test the channels of alerts")?;
    let TestRequest { channel } = app.read_json(request.into_body()).await?;
    if let Some(name) = &channel
        && !app.post.channels().iter().any(|(known, _)| *known.channel.name == **name)
    {
        let shown = Text::clipped(name, 100);
        let detail = format!("the config has no channel `{}`", shown.escape_debug());
        let problem = crate::api::Problem::new(crate::api::Code::NoSuchAlert, detail);
        return Err(Failure(problem.with_help("midwatch alerts")));
    }
    let (done, channels) = tokio::sync::oneshot::channel();
    let post = Arc::clone(&app.post);
    // Not among the blocking work of requests, of which there is one thread.
    let testing = move || drop(done.send(post.test(channel.as_deref())));
    let started = crate::server::run::start_thread("test", testing);
    started.map_err(|error| crate::server::problems::invalid(error.to_string()))?;
    let channels = channels.await.unwrap_or_default();
    let well = channels.iter().filter(|channel| channel.ok);
    let well = well.map(|channel| {
        let subject = Text::from(channel.name.as_str());
        Command::ActOnAlerts(AlertAct::Clear { rule: Rule::ChannelFailing, subject })
    });
    // What does not stand is not cleared, and that is no error; nor is a store that hangs, for the
    // next message clears it.
    drop(within_patience(app.hand.ask(Actor::Daemon, well.collect()), &app.pulse).await);
    Ok(ok(&Tested { channels }))
}
