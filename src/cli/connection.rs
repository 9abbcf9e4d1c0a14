//! Requests to the daemon, as the commands make them.

use super::failure::{Failure, exit};
use crate::api::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, Read};

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// `GET` or `POST`.
    pub(crate) method: &'static str,
    /// Path and query.
    pub(crate) path: String,
    /// Type of the body.
    pub(crate) content_type: &'static str,
    /// The body; empty for `GET`.
    pub(crate) body: Vec<u8>,
}

/// The daemon, or what a test puts in its place.
pub(crate) trait Api {
    /// Sends a request and returns the body of a good answer, to be read as it comes. A refusal,
    /// and a daemon that is not there, are failures.
    fn send(&self, request: &Request) -> Result<Box<dyn BufRead>, Failure>;
}

/// Longest answer that is read whole: a full page of tasks with full payloads may be large, an
/// endless one is a fault.
const ANSWER_BYTES_MAX: u64 = 1 << 32;

/// Asks for something.
pub(crate) fn get<R: DeserializeOwned>(api: &dyn Api, path: &str) -> Result<R, Failure> {
    read(api.send(&Request {
        method: "GET",
        path: path.to_owned(),
        content_type: "application/json",
        body: Vec::new(),
    })?)
}

/// Asks for something that arrives little by little.
pub(crate) fn stream(api: &dyn Api, path: &str) -> Result<Box<dyn BufRead>, Failure> {
    api.send(&Request {
        method: "GET",
        path: path.to_owned(),
        content_type: "application/json",
        body: Vec::new(),
    })
}

/// Asks for a change.
pub(crate) fn post<T: Serialize, R: DeserializeOwned>(
    api: &dyn Api,
    path: &str,
    body: &T,
) -> Result<R, Failure> {
    let body = serde_json::to_vec(body)
        .map_err(|error| Failure::usage(format!("cannot write the request: {error}")))?;
    read(api.send(&Request {
        method: "POST",
        path: path.to_owned(),
        content_type: "application/json",
        body,
    })?)
}

fn read<R: DeserializeOwned>(answer: Box<dyn BufRead>) -> Result<R, Failure> {
    let mut text = Vec::new();
    answer.take(ANSWER_BYTES_MAX).read_to_end(&mut text).map_err(|error| lost(&error))?;
    serde_json::from_slice(&text).map_err(|error| {
        Failure::new(exit::FAILED, format!("the daemon's answer is not understood: {error}"))
            .with_help(
                "is it of another version? compare `midwatch status` and `midwatch --version`",
            )
    })
}

/// The daemon went away in the middle of an answer.
pub(crate) fn lost(error: &io::Error) -> Failure {
    Failure::new(exit::UNKNOWN, format!("the daemon went away before it had answered: {error}"))
        .with_help("whether it did what was asked is not known; look with `midwatch list`, or say it again with the same --key")
}

/// The failure that a refusal of the daemon makes.
pub(crate) fn refusal(status: u16, body: &[u8]) -> Failure {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => problem.into(),
        Err(_) => {
            Failure::new(exit::FAILED, format!("the daemon answered with HTTP status {status}"))
        }
    }
}

/// Path and query: `path?name=value&…`, absent values left out.
pub(crate) fn with_query(path: &str, query: &[(&str, Option<String>)]) -> String {
    let mut whole = path.to_owned();
    let mut mark = '?';
    for (name, value) in query {
        let Some(value) = value else { continue };
        whole.push(mark);
        whole.push_str(name);
        whole.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                whole.push(char::from(byte));
            } else {
                whole.push_str(&format!("%{byte:02X}"));
            }
        }
        mark = '&';
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_leaves_out_what_is_absent_and_escapes_the_rest() {
        let query = [
            ("status", Some("DEAD,LOST".to_owned())),
            ("type", None),
            ("since", Some("a b&é".into())),
        ];
        assert_eq!(
            with_query("/v1/tasks", &query),
            "/v1/tasks?status=DEAD%2CLOST&since=a%20b%26%C3%A9"
        );
        assert_eq!(with_query("/v1/tasks", &[("type", None)]), "/v1/tasks");
    }

    #[test]
    fn a_refusal_keeps_its_code_and_its_help() {
        let problem = Problem::new(crate::api::Code::NoSuchTask, "no task 9").with_help("look");
        let failure = refusal(404, &serde_json::to_vec(&problem).unwrap());
        assert_eq!(
            (failure.code(), failure.render(false)),
            (3, "error: no task 9\n  look\n".into())
        );
        assert_eq!(refusal(502, b"<html>").code(), 1);
    }
}
