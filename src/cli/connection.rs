//! Requests to the daemon, as the commands make them.

use super::failure::{Failure, exit};
use crate::client::ClientError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::io::{self, BufRead, Read};

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Asks for something.
    Get {
        /// Path and query.
        path: String,
    },
    /// Asks for a change.
    Post {
        /// Path.
        path: String,
        /// What is asked, as JSON.
        body: Box<RawValue>,
    },
    /// Asks for something to be taken away.
    Delete {
        /// Path.
        path: String,
    },
    /// Asks for many changes, each answered by a line.
    Lines {
        /// Path.
        path: String,
        /// JSON documents, one a line.
        lines: Vec<u8>,
    },
}

/// The daemon, or what a test puts in its place.
pub(crate) trait Api {
    /// Sends a request and returns the body of a good answer, to be read as it comes. A refusal,
    /// and a daemon that is not there, are failures.
    fn send(&self, request: &Request) -> Result<Box<dyn BufRead + '_>, Failure>;

    /// The same for a log, with the place in it where the answer begins.
    fn read_log(&self, path: &str) -> Result<(u64, Box<dyn BufRead + '_>), Failure> {
        self.send(&Request::Get { path: path.to_owned() }).map(|log| (0, log))
    }
}

/// Longest answer that is read whole: a full page of tasks with full payloads may be large, an
/// endless one is a fault.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// Asks for something.
pub(crate) fn get<R: DeserializeOwned>(api: &dyn Api, path: &str) -> Result<R, Failure> {
    read(stream(api, path)?)
}

/// Asks for something that arrives little by little.
pub(crate) fn stream<'a>(api: &'a dyn Api, path: &str) -> Result<Box<dyn BufRead + 'a>, Failure> {
    api.send(&Request::Get { path: path.to_owned() })
}

/// Asks for a change.
pub(crate) fn post<T: Serialize, R: DeserializeOwned>(
    api: &dyn Api,
    path: &str,
    body: &T,
) -> Result<R, Failure> {
    let body = serde_json::value::to_raw_value(body)
        .map_err(|error| Failure::usage(format!("cannot write the request: {error}")))?;
    read(api.send(&Request::Post { path: path.to_owned(), body })?)
}

/// Asks for something to be taken away.
pub(crate) fn delete<R: DeserializeOwned>(api: &dyn Api, path: &str) -> Result<R, Failure> {
    read(api.send(&Request::Delete { path: path.to_owned() })?)
}

fn read<R: DeserializeOwned>(answer: Box<dyn BufRead + '_>) -> Result<R, Failure> {
    let mut text = Vec::new();
    answer.take(ANSWER_BYTES_MAX).read_to_end(&mut text).map_err(|error| lost(&error))?;
    serde_json::from_slice(&text).map_err(|error| ClientError::protocol(&error).into())
}

/// The daemon went away in the middle of an answer.
pub(crate) fn lost(error: &io::Error) -> Failure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ClientError>());
    match inner {
        Some(error) => error.clone().into(),
        None => {
            Failure::new(exit::UNKNOWN, format!("the daemon did not answer to the end: {error}"))
                .with_help("look with `midwatch list` what was done")
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
        whole.push_str(&escape(value));
        mark = '&';
    }
    whole
}

/// A text as one segment of a path, or one value of a query.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
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
}
