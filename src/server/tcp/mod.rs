//! Who comes in by which door, request by request.
//!
//! On the unix socket the kernel says who calls; by TCP a token does, whose role never reaches
//! further than `operate`. Whichever door it is, no page of another site gets in.

pub(crate) mod browser;
mod opening;
mod token;

pub(crate) use opening::open;
pub(crate) use token::{Pass, Shown, Tokens};

use super::app::{App, Policy};
use super::peer::{Peer, Who};
use super::problems::Failure;
use crate::api::{Code, Problem};
use crate::clock;
use crate::kernel::ids::Millis;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use browser::Names;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a token that is not known waits for its answer. Each connection carries one request at
/// a time, so the bound of connections bounds how many are tried.
const WRONG_TOKEN_WAIT: Duration = Duration::from_secs(1);

/// How often the log says at most that tokens are wrong.
const WARN_EVERY: Millis = Millis::secs(60);

/// What is remembered of wrong tokens while the daemon runs: how many came since it was last said,
/// and when that was.
#[derive(Debug, Default)]
pub(crate) struct WrongTokens(Mutex<(u64, Option<Millis>)>);

impl WrongTokens {
    fn note(&self, now: Millis) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.0 = known.0.saturating_add(1);
        if known.1.is_none_or(|said| said.plus(WARN_EVERY) <= now) {
            tracing::warn!("{} requests by TCP showed a token that is not known", known.0);
            *known = (0, Some(now));
        }
    }
}

/// How a connection came in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Door {
    /// By the unix socket; the kernel said who it is.
    Socket(Peer),
    /// By TCP, to this address of ours.
    Tcp(IpAddr),
}

/// Why a request is not let in.
pub(crate) struct Refusal {
    problem: Problem,
    wait: Duration,
}

impl Refusal {
    const fn at_once(problem: Problem) -> Self {
        Self { problem, wait: Duration::ZERO }
    }

    /// The answer, in its time.
    pub(crate) async fn answer(self) -> Response {
        if self.wait != Duration::ZERO {
            tokio::time::sleep(self.wait).await;
        }
        let needs_token = self.problem.code == Code::NoToken;
        let mut response = Failure(self.problem).into_response();
        if needs_token {
            for scheme in
                ["Basic realm=\"midwatch\", charset=\"UTF-8\"", "Bearer realm=\"midwatch\""]
            {
                let value = HeaderValue::from_static(scheme);
                response.headers_mut().append(header::WWW_AUTHENTICATE, value);
            }
        }
        response
    }
}

/// What needs no token by TCP.
enum Open {
    /// It tells nothing, or is signed.
    Whole,
    /// It may be looked at by those who know our name.
    Named,
    /// It is not open.
    No,
}

fn openness(policy: &Policy, method: &Method, path: &str) -> Open {
    let hook = path.strip_prefix("/v1/hooks/").is_some_and(|name| !name.contains('/'));
    if path == "/healthz" || path == "/readyz" || (hook && method == Method::POST) {
        return Open::Whole;
    }
    if policy.open_metrics && path == "/metrics" { Open::Named } else { Open::No }
}

impl Door {
    /// Who asks, if he may ask at all, and the token that let him in.
    pub(crate) fn admit(self, app: &App, head: Head<'_>) -> Result<(Peer, Option<Pass>), Refusal> {
        let Head { method, path, headers } = head;
        let policy = app.policy();
        let (address, open) = match self {
            Self::Socket(_) => (None, Open::No),
            Self::Tcp(address) => (Some(address), openness(&policy, method, path)),
        };
        if matches!(open, Open::Whole) {
            return Ok((Peer::STRANGER, None));
        }
        let names = Names { address, hosts: &policy.hosts };
        browser::check(names, method, headers).map_err(Refusal::at_once)?;
        match (self, open) {
            (Self::Socket(peer), _) => Ok((peer, None)),
            (Self::Tcp(_), Open::Named) => Ok((Peer::STRANGER, None)),
            (Self::Tcp(_), _) => {
                let shown = policy.tokens.shown(headers);
                if shown == Shown::Wrong {
                    app.wrong_tokens.note(clock::monotonic());
                }
                by_token(shown)
            }
        }
    }
}

/// The head of a request, as far as it decides who may come in.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
}

fn by_token(shown: Shown) -> Result<(Peer, Option<Pass>), Refusal> {
    let (detail, wait) = match shown {
        Shown::Known(pass) => {
            return Ok((Peer { who: Who::Token, access: pass.role() }, Some(pass)));
        }
        Shown::Nothing => ("by TCP a token is needed", Duration::ZERO),
        Shown::Wrong => ("that token is not known", WRONG_TOKEN_WAIT),
    };
    let help = "the tokens stand in the file that `token_file` in [http] names; a browser takes one \
                as the password of any name";
    Err(Refusal { problem: Problem::new(Code::NoToken, detail).with_help(help), wait })
}
