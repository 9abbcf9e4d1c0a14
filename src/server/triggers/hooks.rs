//! `POST /v1/hooks/NAME`: a signed webhook becomes a task.
//!
//! The signature stands in the place of a role. The id of a delivery becomes the idempotency key,
//! so a delivery that comes again is answered with the task it made before.

use super::signature::{Delivery, Doubt, Secret};
use crate::api::{Code, Problem, Submitted};
use crate::clock;
use crate::config::{self, Config};
use crate::kernel::Answer;
use crate::kernel::event::Actor;
use crate::kernel::ids::Millis;
use crate::kernel::rules::Rules;
use crate::kernel::task_type::Rate;
use crate::kernel::text::Text;
use crate::limits::{DELIVERY_ID_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::server::app::{Answered, App, json};
use crate::server::hand::in_company;
use crate::server::problems::Failure;
use crate::server::submission::{HOOK_KEYS, check_json};
use axum::extract::{Path, Request, State as Shared};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Headers with the id of a delivery, by sender.
const KEY_HEADERS: &[&str] =
    &["x-github-delivery", "x-gitea-delivery", "x-gogs-delivery", "webhook-id", "idempotency-key"];

/// How often the log says at most that a hook gets deliveries that are not believed.
const WARN_EVERY: Millis = Millis::secs(60);

/// The hooks of a config, each with its secret.
#[derive(Debug, Default)]
pub(crate) struct Hooks(BTreeMap<String, Hook>);

#[derive(Debug)]
struct Hook {
    said: config::Hook,
    secret: Secret,
}

impl Hooks {
    /// Those of a config. Reads their secrets; fails when one is missing or not kept secret.
    pub(crate) fn of(config: &Config) -> Result<Self, String> {
        let hook = |(name, said): (&String, &config::Hook)| {
            let secret = Secret::read(&said.secret_file)
                .map_err(|why| format!("`hooks.{name}.secret_file`: {why}"))?;
            Ok((name.clone(), Hook { said: said.clone(), secret }))
        };
        config.hooks.iter().map(hook).collect::<Result<_, _>>().map(Self)
    }
}

/// What is remembered of each hook while the daemon runs.
#[derive(Debug, Default)]
pub(crate) struct Traffic(Mutex<BTreeMap<String, Passed>>);

#[derive(Debug, Default)]
struct Passed {
    /// When deliveries were taken that the rate still counts, on the monotonic clock.
    taken: VecDeque<Millis>,
    /// When it was last said that one was not believed.
    warned: Option<Millis>,
}

impl Traffic {
    fn of<T>(&self, name: &str, look: impl FnOnce(&mut Passed) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(all.entry(name.to_owned()).or_default())
    }

    /// Forgets the hooks that there are no more.
    pub(crate) fn keep(&self, hooks: &Hooks) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|name, _| hooks.0.contains_key(name));
    }

    fn note_doubt(&self, name: &str, doubt: Doubt, now: Millis) {
        let is_news = self.of(name, |passed| {
            let is_news = passed.warned.is_none_or(|at| at.plus(WARN_EVERY) <= now);
            if is_news {
                passed.warned = Some(now);
            }
            is_news
        });
        if is_news {
            tracing::warn!("hook {name}: a delivery was refused: {}", doubt.word());
        }
    }
}

impl Passed {
    /// Takes one more delivery, or says how long to wait for the next.
    fn take(&mut self, rate: Rate, now: Millis) -> Result<(), Millis> {
        let span = rate.per.span();
        while self.taken.front().is_some_and(|at| at.plus(span) <= now) {
            self.taken.pop_front();
        }
        let most = usize::try_from(rate.count).unwrap_or(usize::MAX);
        // A rate that became lower holds at once: the delivery that must leave first is not the
        // oldest then.
        let over = self.taken.len().saturating_sub(most);
        match self.taken.get(over) {
            Some(at) if most <= self.taken.len() => {
                Err(Millis(at.plus(span).0.saturating_sub(now.0)))
            }
            _ => {
                self.taken.push_back(now);
                Ok(())
            }
        }
    }
}

/// `POST /v1/hooks/{name}`.
pub(crate) async fn receive(
    Shared(app): Shared<Arc<App>>,
    Path(name): Path<String>,
    request: Request,
) -> Answered {
    let policy = app.policy();
    let Some(hook) = policy.hooks.0.get(&name) else {
        let shown = Text::clipped(&name, 64);
        let detail = format!("there is no hook `{}`", shown.escape_debug());
        return Err(Problem::new(Code::NoSuchHook, detail).into());
    };
    let (parts, body) = request.into_parts();
    let most = usize::try_from(hook.said.max_body).unwrap_or(usize::MAX);
    let body = app.read_body(body, most).await?;
    let wall = clock::wall();
    let now = (Rules::default().plausible_since <= wall).then_some(wall);
    let delivery = Delivery { headers: &parts.headers, body: &body, now };
    if let Err(doubt) = delivery.check(&hook.secret) {
        app.traffic.note_doubt(&name, doubt, clock::monotonic());
        let detail = "the delivery has no signature that this hook believes";
        return Err(Problem::new(Code::BadSignature, detail).into());
    }
    // Counted once it is believed: nobody else can use the rate up.
    let taken = app.traffic.of(&name, |it| it.take(hook.said.rate, clock::monotonic()));
    if let Err(wait) = taken {
        return Ok(too_many(&name, hook.said.rate, wait));
    }
    let payload = payload(&body)?;
    let key = key(hook, &name, &delivery)?;
    let command = policy.kinds.order(&hook.said.kind, payload, hook.said.priority, key)?;
    in_company().await;
    let by = Actor::Trigger(format!("hook {name}").into());
    let answers = app.hand.ask(by, vec![command])?.await?;
    match answers.into_iter().next() {
        Some(Ok(Answer::Submitted { task, existed })) => {
            let status = if existed { StatusCode::OK } else { StatusCode::CREATED };
            Ok(json(status, &Submitted { id: task, existed }))
        }
        Some(Err(rejection)) => Err(rejection.into()),
        _ => Err(crate::server::tasks::unexpected()),
    }
}

/// The body as a payload, byte for byte but for spaces around it.
fn payload(body: &[u8]) -> Result<Text, Failure> {
    let parsed: &RawValue = serde_json::from_slice(body).map_err(|error| {
        Problem::new(Code::InvalidPayload, format!("the body is not valid JSON: {error}"))
    })?;
    check_json("body", parsed.get(), PAYLOAD_BYTES_MAX)?;
    Ok(parsed.get().into())
}

/// The idempotency key of a delivery that names itself.
fn key(hook: &Hook, name: &str, delivery: &Delivery<'_>) -> Result<Option<Text>, Failure> {
    let named = hook.said.key_header.as_deref();
    let mut names = named.map_or(KEY_HEADERS, |_| &[]).iter().copied().chain(named);
    let Some(header) = names.find(|name| delivery.headers.contains_key(*name)) else {
        return Ok(None);
    };
    let id = delivery.header(header).unwrap_or_default();
    if id.is_empty()
        || DELIVERY_ID_BYTES_MAX < id.len()
        || !id.bytes().all(|byte| byte.is_ascii_graphic())
    {
        let detail =
            format!("`{header}` must have 1 to {DELIVERY_ID_BYTES_MAX} visible ASCII characters");
        return Err(Problem::new(Code::InvalidRequest, detail).into());
    }
    Ok(Some(format!("{HOOK_KEYS}{name}:{id}").into()))
}

fn too_many(name: &str, rate: Rate, wait: Millis) -> axum::response::Response {
    let detail = format!("hook `{name}` takes no more than {rate}");
    let mut response = Failure(Problem::new(Code::OverLimit, detail)).into_response();
    let seconds = HeaderValue::from(wait.0.div_ceil(1000).max(1));
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task_type::Per;

    // spec: TRG-025
    #[test]
    fn a_rate_counts_every_span_and_says_when_there_is_room() {
        let mut passed = Passed::default();
        let rate = |count| Rate { count, per: Per::Second };
        let at = |ms: u64| Millis(5000 + ms);
        assert_eq!(passed.take(rate(2), at(0)), Ok(()));
        assert_eq!(passed.take(rate(2), at(300)), Ok(()));
        assert_eq!(passed.take(rate(2), at(400)), Err(Millis(600)));
        assert_eq!(passed.take(rate(2), at(999)), Err(Millis(1)));
        assert_eq!(passed.take(rate(2), at(1000)), Ok(()));
        assert_eq!(passed.take(rate(2), at(1001)), Err(Millis(299)));
        assert_eq!(passed.take(rate(1), at(1001)), Err(Millis(999)), "a lower rate holds at once");
        assert_eq!(passed.take(rate(3), at(1002)), Ok(()), "and so does a higher one");
    }
}
