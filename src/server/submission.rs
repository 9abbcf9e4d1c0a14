//! A submission as it came in becomes a task spec, or a refusal that says what is wrong and where.

use super::peer::{Access, Doors, Peer};
use super::problems::{Failure, invalid};
use super::rules::{EXEC, Kinds};
use crate::api::{Code, Problem, SubmitRequest};
use crate::config::check_exec;
use crate::kernel::ids::Millis;
use crate::kernel::task::{After, TaskSpec};
use crate::kernel::text::Text;
use crate::limits::{JSON_DEPTH_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, deeper_than};
use crate::units::{format_size, parse_duration, parse_rfc3339};
use serde::Deserialize;

/// Largest limit of retries.
pub(crate) const MAX_RETRY_MAX: u32 = 1_000_000;

/// Beginnings of the keys that the daemon itself gives.
const RESERVED_KEYS: &[&str] = &["schedule:", HOOK_KEYS, INBOX_KEYS];

/// What a submission is judged by.
pub(crate) struct Judge<'a> {
    /// The types that exist.
    pub(crate) kinds: &'a Kinds,
    /// Who submits.
    pub(crate) peer: Peer,
    /// Who may what.
    pub(crate) doors: &'a Doors,
}

impl Judge<'_> {
    /// The spec of one submission, from its JSON.
    pub(crate) fn spec(&self, json: &[u8]) -> Result<TaskSpec, Failure> {
        let spec = self.spec_of_any_payload(json)?;
        match self.kinds.check_payload(&spec.kind, &spec.payload) {
            Ok(()) => Ok(spec),
            Err(why) => Err(Failure(Problem::new(Code::InvalidPayload, why))),
        }
    }

    /// The same, whether or not the payload fits the schema of its type.
    pub(crate) fn spec_of_any_payload(&self, json: &[u8]) -> Result<TaskSpec, Failure> {
        let request: SubmitRequest = parse(json)?;
        let SubmitRequest {
            kind,
            payload,
            priority,
            at,
            delay,
            max_retry,
            timeout,
            key,
            after,
            after_any,
        } = request;
        let Some(known) = self.kinds.get(&kind) else {
            return Err(no_such_type(&kind, self.kinds));
        };
        let payload =
            payload.map_or_else(|| Text::from("null"), |payload| Box::<str>::from(payload).into());
        check_json("payload", &payload, PAYLOAD_BYTES_MAX)?;
        if kind == EXEC {
            self.peer.require(Access::Own, "submit commands of its own", self.doors)?;
            check_exec(&payload).map_err(|why| Problem::new(Code::InvalidPayload, why))?;
        }
        if at.is_some() && delay.is_some() {
            return Err(invalid("`at` and `delay` exclude each other"));
        }
        let at = at.map(|at| parse_rfc3339(&at)).transpose().map_err(about("at"))?;
        let delay =
            delay.map(|delay| parse_duration(&delay)).transpose().map_err(about("delay"))?;
        let timeout =
            timeout.map(|span| parse_duration(&span)).transpose().map_err(about("timeout"))?;
        if timeout == Some(Millis(0)) {
            return Err(invalid("`timeout` must be longer than nothing"));
        }
        if !after.is_empty() && !after_any.is_empty() {
            return Err(invalid("`after` and `after_any` exclude each other"));
        }
        let any = after.is_empty();
        let tasks = if any { after_any } else { after };
        Ok(TaskSpec {
            kind: known.name.clone(),
            payload,
            priority: priority.unwrap_or(100),
            max_retry: check_max_retry(max_retry.unwrap_or(known.max_retry))?,
            timeout: timeout.or(known.timeout),
            at,
            delay,
            key: key.map(check_key).transpose()?,
            retry_of: None,
            checkpoint: None,
            scheduled: None,
            after: (!tasks.is_empty()).then_some(After { tasks, any }),
        })
    }
}

/// Reads a body or a line; the error says where it is.
pub(crate) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Failure> {
    // Serde would take an array of the fields' values for the object.
    if json.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
        return Err(invalid("the request must be a JSON object, not an array"));
    }
    serde_json::from_slice(json).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "the request is not as it should be",
            _ => "the request is not valid JSON",
        };
        invalid(format!("{what}: {error}"))
    })
}

/// A refusal that names the field.
pub(crate) fn about<E: std::fmt::Display>(field: &'static str) -> impl Fn(E) -> Failure {
    move |error| invalid(format!("`{field}`: {error}"))
}

pub(crate) fn check_max_retry(max_retry: u32) -> Result<u32, Failure> {
    if MAX_RETRY_MAX < max_retry {
        return Err(invalid(format!("`max_retry` must be at most {MAX_RETRY_MAX}")));
    }
    Ok(max_retry)
}

/// How keys begin that webhooks make.
pub(crate) const HOOK_KEYS: &str = "hook:";

/// How keys begin that files in the inbox make.
pub(crate) const INBOX_KEYS: &str = "inbox:";

fn check_key(key: String) -> Result<Text, Failure> {
    if key.is_empty() || NAME_BYTES_MAX < key.len() {
        return Err(invalid(format!("`key` must have 1 to {NAME_BYTES_MAX} bytes")));
    }
    if let Some(reserved) = RESERVED_KEYS.iter().find(|reserved| key.starts_with(**reserved)) {
        return Err(invalid(format!(
            "`key` must not begin with `{reserved}`: such keys the daemon gives"
        )));
    }
    if key.chars().any(char::is_control) {
        return Err(invalid("`key` must not hold control characters"));
    }
    Ok(key.into())
}

/// Passes JSON text that is neither too large nor too deep. That it is JSON was seen to when it
/// was parsed.
pub(crate) fn check_json(what: &str, json: &str, bytes_max: usize) -> Result<(), Failure> {
    let refuse = |detail: String| Err(Failure(Problem::new(Code::InvalidPayload, detail)));
    if bytes_max < json.len() {
        return refuse(format!(
            "the {what} has {} bytes; at most {bytes_max} ({}) are allowed",
            json.len(),
            format_size(bytes_max as u64)
        ));
    }
    if let Some(place) = deeper_than(json.as_bytes(), JSON_DEPTH_MAX) {
        let (line, column) = line_and_column(json.as_bytes(), place);
        return refuse(format!(
            "the {what} is nested deeper than {JSON_DEPTH_MAX} at its line {line} column {column}"
        ));
    }
    // It passes as JSON text and breaks every reader that makes a string of it.
    if has_half_a_pair(json) {
        return refuse(format!("the {what} holds half a surrogate pair, which is no character"));
    }
    Ok(())
}

/// Whether an escape of valid JSON is one half of a surrogate pair without the other.
fn has_half_a_pair(json: &str) -> bool {
    let (mut rest, mut open) = (json, false);
    while let Some((before, escape)) = rest.split_once('\\') {
        let unit = escape.strip_prefix('u').and_then(|digits| digits.get(..4));
        let unit = unit.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let closes = matches!(unit, Some(0xDC00..=0xDFFF));
        if open != closes || (open && !before.is_empty()) {
            return true;
        }
        open = matches!(unit, Some(0xD800..=0xDBFF));
        rest = escape.get(if unit.is_some() { 5 } else { 1 }..).unwrap_or_default();
    }
    open
}

fn line_and_column(json: &[u8], place: usize) -> (usize, usize) {
    let before = json.get(..place).unwrap_or_default();
    let line = before.split(|byte| *byte == b'\n').count() - 1;
    let begins = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    (line + 1, place - begins + 1)
}

/// Types that a refusal lists at most.
const LISTED_MAX: usize = 20;

/// There is no such type; the nearest one and those there are.
pub(crate) fn no_such_type(kind: &str, kinds: &Kinds) -> Failure {
    let shown = Text::clipped(kind, NAME_BYTES_MAX);
    let mut detail = format!("there is no task type `{}`", shown.escape_debug());
    if let Some(near) = crate::config::nearest(kind, kinds.names()) {
        detail.push_str(&format!("; did you mean `{near}`?"));
    }
    let listed: Vec<_> = kinds.names().take(LISTED_MAX).collect();
    let more = kinds.names().count().saturating_sub(listed.len());
    let help = match (listed.len(), more) {
        (0, _) => {
            "the config defines no type; add a [handlers.NAME] to it, or submit --exec".into()
        }
        (_, 0) => format!("known types: {}", listed.join(", ")),
        (_, more) => format!("known types: {}, and {more} more", listed.join(", ")),
    };
    Failure(Problem::new(Code::NoSuchType, detail).with_help(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Handler, Named, Retry, Surroundings};
    use crate::kernel::ids::TaskId;

    fn config() -> Config {
        let around = Surroundings::default();
        let mut config = Config::load(&Named::default(), &around).unwrap();
        let mut handler = Handler::new(vec!["/bin/true".to_owned()], Retry::default());
        handler.timeout = Some(Millis::secs(600));
        handler.retry.max_retry = 3;
        config.handlers.insert("fetch_data".to_owned(), handler);
        config
    }

    fn spec_as(access: Access, json: &str) -> Result<TaskSpec, Problem> {
        let kinds = Kinds::of(&config()).unwrap();
        let doors = Doors { owner: 900, operate: None };
        let judge = Judge { kinds: &kinds, peer: Peer::user(7, access), doors: &doors };
        judge.spec(json.as_bytes()).map_err(|Failure(problem)| problem)
    }

    fn refusal(json: &str) -> Problem {
        spec_as(Access::Submit, json).unwrap_err()
    }

    #[test]
    fn what_a_submission_leaves_open_its_type_says() {
        let spec = spec_as(Access::Submit, r#"{"type":"fetch_data","payload":{"a": 1}}"#).unwrap();
        assert_eq!(&*spec.payload, r#"{"a": 1}"#);
        assert_eq!((spec.max_retry, spec.timeout), (3, Some(Millis::secs(600))));
        assert_eq!((spec.priority, spec.key), (100, None));
        let json =
            r#"{"type":"fetch_data","max_retry":0,"timeout":"2s","priority":-4,"delay":"1m"}"#;
        let spec = spec_as(Access::Submit, json).unwrap();
        assert_eq!((spec.max_retry, spec.timeout), (0, Some(Millis::secs(2))));
        assert_eq!((spec.priority, spec.delay), (-4, Some(Millis::secs(60))));
        assert_eq!(&*spec.payload, "null");
        assert_eq!(spec.after, None);
        let after = |json: &str| spec_as(Access::Submit, json).unwrap().after;
        let tasks = vec![TaskId(4), TaskId(2)];
        let json = r#"{"type":"fetch_data","after":[4,2],"after_any":[]}"#;
        assert_eq!(after(json), Some(After { tasks: tasks.clone(), any: false }));
        let json = r#"{"type":"fetch_data","after_any":[4,2]}"#;
        assert_eq!(after(json), Some(After { tasks, any: true }));
        assert_eq!(after(r#"{"type":"fetch_data","after":[]}"#), None);
    }

    #[test]
    fn broken_json_is_refused_with_its_place() {
        let problem = refusal("{\"type\":\"fetch_data\",\n \"payload\": {\"a\":,}}");
        assert_eq!(problem.code, Code::InvalidRequest);
        assert!(problem.detail.contains("line 2 column 18"), "{}", problem.detail);
        assert!(refusal("").detail.contains("line 1 column 0"));
        assert!(refusal(r#"{"type":"fetch_data","retries":3}"#).detail.contains("retries"));
    }

    #[test]
    fn a_payload_may_be_a_mebibyte_and_a_hundred_levels_deep() {
        let of_size = |bytes: usize| {
            let payload = "x".repeat(bytes - 2);
            format!(r#"{{"type":"fetch_data","payload":"{payload}"}}"#)
        };
        assert!(spec_as(Access::Submit, &of_size(1 << 20)).is_ok());
        let problem = refusal(&of_size((1 << 20) + 1));
        assert_eq!(problem.code, Code::InvalidPayload);
        assert!(problem.detail.contains("1048577 bytes"), "{}", problem.detail);
        let of_depth = |depth: usize| {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"type":"fetch_data","payload":["[[[[\"[",{open}{close}]}}"#)
        };
        assert!(spec_as(Access::Submit, &of_depth(99)).is_ok());
        let problem = refusal(&of_depth(100));
        assert_eq!(problem.code, Code::InvalidPayload);
        assert!(problem.detail.contains("line 1 column 111"), "{}", problem.detail);
    }

    #[test]
    fn a_payload_is_text_wherever_it_has_characters() {
        let spec_of = |payload: &str| {
            spec_as(Access::Submit, &format!(r#"{{"type":"fetch_data","payload":{payload}}}"#))
        };
        for good in [
            r#""\u00e9 \ud83d\ude00 \\ud800""#,
            r#"["\\\ud83d\uDE00", "\n"]"#,
            "1e999",
            r#"["\u00e9", 1e999, -1e-999]"#,
        ] {
            assert_eq!(spec_of(good).map(|spec| spec.payload), Ok(good.into()));
        }
        for bad in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud83d \ude00""#,
            r#""\ud83d\ud83d\ude00""#,
            r#""\ud83d\n\ude00""#,
            r#"{"a\\\ude00":"\ud83d"}"#,
            r#"["\ud83d","\ude00"]"#,
        ] {
            let problem = spec_of(bad).unwrap_err();
            assert_eq!(problem.code, Code::InvalidPayload, "{bad}");
            assert!(problem.detail.contains("surrogate"), "{}", problem.detail);
        }
    }

    #[test]
    fn an_unknown_type_is_refused_with_the_nearest_and_all_known_ones() {
        let problem = refusal(r#"{"type":"fetch_dta"}"#);
        assert_eq!(problem.code, Code::NoSuchType);
        assert!(problem.detail.contains("did you mean `fetch_data`?"), "{}", problem.detail);
        assert_eq!(problem.help.as_deref(), Some("known types: fetch_data"));
    }

    #[test]
    fn a_payload_that_breaks_the_schema_of_its_type_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("fetch.schema.json");
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(&file, r#"{"required":["page"]}"#).unwrap();
        let mut config = config();
        config.handlers.get_mut("fetch_data").unwrap().schema = Some(file.clone());
        let kinds = Kinds::of(&config).unwrap();
        let doors = Doors { owner: 900, operate: None };
        let peer = Peer::user(7, Access::Submit);
        let judge = Judge { kinds: &kinds, peer, doors: &doors };
        assert!(judge.spec(br#"{"type":"fetch_data","payload":{"page":1}}"#).is_ok());
        let Failure(problem) = judge.spec(br#"{"type":"fetch_data","payload":{}}"#).unwrap_err();
        assert_eq!(problem.code, Code::InvalidPayload);
        assert!(problem.detail.contains("\"page\""), "{}", problem.detail);
        assert_eq!(kinds.check_payload("exec", "{}"), Ok(()));
        std::fs::remove_file(&file).unwrap();
        let why = Kinds::of(&config).unwrap_err();
        assert!(why.starts_with("`handlers.fetch_data.schema`: the schema /"), "{why}");
    }

    #[test]
    fn ad_hoc_commands_are_for_the_daemons_own_user() {
        let json = r#"{"type":"exec","payload":{"argv":["/bin/true"],"cwd":"/"}}"#;
        assert!(spec_as(Access::Own, json).is_ok());
        assert_eq!(spec_as(Access::Operate, json).unwrap_err().code, Code::NotPermitted);
        for payload in [r#"{"argv":[]}"#, r#"{"argv":[""]}"#, r#"{"argv":["a"],"env":{}}"#, "[]"] {
            let json = format!(r#"{{"type":"exec","payload":{payload}}}"#);
            let problem = spec_as(Access::Own, &json).unwrap_err();
            assert_eq!(problem.code, Code::InvalidPayload, "{payload}");
        }
    }

    #[test]
    fn fields_out_of_their_bounds_are_refused_by_name() {
        for (fields, word) in [
            (r#""at":"2026-01-01T00:00:00Z","delay":"1s""#, "exclude"),
            (r#""at":"tomorrow""#, "`at`"),
            (r#""delay":"5 parsecs""#, "`delay`"),
            (r#""timeout":"0s""#, "`timeout`"),
            (r#""max_retry":1000001"#, "`max_retry`"),
            (r#""key":"""#, "`key`"),
            (r#""key":"a\nb""#, "`key`"),
            (r#""key":"schedule:nightly:7""#, "`schedule:`"),
            (r#""after":[1],"after_any":[2]"#, "exclude"),
            (r#""after":["x"]"#, "invalid type"),
            (r#""key":"hook:a:1""#, "`key`"),
            (r#""key":"inbox:""#, "`key`"),
        ] {
            let problem = refusal(&format!(r#"{{"type":"fetch_data",{fields}}}"#));
            assert!(problem.detail.contains(word), "{fields}: {}", problem.detail);
        }
    }
}
