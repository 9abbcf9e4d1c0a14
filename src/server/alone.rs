//! What is read of requests, each by itself, for fuzz targets: one submission, as every route and line
//! of a bulk request judges it, and what decides who may come in by TCP.

use super::peer::{Access, Doors, Peer};
use super::problems::Failure;
use super::rules::Kinds;
use super::submission::Judge;
use super::tcp::browser::{self, Names};
use super::tcp::{Shown, Tokens};
use crate::api::{Code, Problem};
use crate::config::Config;
use crate::kernel::task::TaskSpec;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::net::IpAddr;

/// The task that a request asks for under a config, said by the daemon's own user or by anybody.
pub fn submission(json: &[u8], own: bool, config: &Config) -> Result<TaskSpec, Problem> {
    let kinds = Kinds::of(config).map_err(|why| Problem::new(Code::InvalidRequest, why))?;
    let doors = Doors { owner: 900, operate: None };
    let access = if own { Access::Own } else { Access::Submit };
    let judge = Judge { kinds: &kinds, peer: Peer::user(7, access), doors: &doors };
    judge.spec(json).map_err(|Failure(problem)| problem)
}

/// The head of a request: what it asks, and its lines.
pub struct Head<'a> {
    /// The method.
    pub method: &'a str,
    /// Names and values; what no line of a request can be is left out.
    pub lines: Vec<(&'a str, &'a [u8])>,
}

impl Head<'_> {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.lines {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
                headers.append(name, value);
            }
        }
        headers
    }
}

/// The role that a token file gives whoever sends that head: none where it shows no token, an empty
/// word where it shows one that is not known.
pub fn role(file: &[u8], head: &Head<'_>) -> Result<Option<&'static str>, String> {
    Ok(match Tokens::parse(file)?.shown(&head.headers()) {
        Shown::Nothing => None,
        Shown::Wrong => Some(""),
        Shown::Known(pass) => Some(pass.role().word()),
    })
}

/// Whether a head that came to that address of ours, or to the unix socket, can be nobody's but ours.
pub fn is_meant(address: Option<IpAddr>, hosts: &[String], head: &Head<'_>) -> Result<(), Problem> {
    let method = Method::from_bytes(head.method.as_bytes()).unwrap_or_default();
    browser::check(Names { address, hosts }, &method, &head.headers())
}
