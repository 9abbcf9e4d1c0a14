//! Submissions, one or line by line: whatever is sent becomes a task within every bound, which the
//! kernel takes and the journal gives back, or is refused with words.

use crate::bytes::Bytes;
use crate::config;
use midwatch::config::Config;
use midwatch::engine::codec;
use midwatch::kernel::event::{Actor, Stamp};
use midwatch::kernel::ids::{Moment, Seq, Timestamp};
use midwatch::kernel::rules::Rules;
use midwatch::kernel::task::TaskSpec;
use midwatch::kernel::{Command, State, apply, decide};
use midwatch::limits::{JSON_DEPTH_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX};
use midwatch::server::alone::submission;
use std::sync::OnceLock;

pub fn run(input: &[u8]) {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    let config = CONFIG.get_or_init(|| config::load(config::FULL.as_bytes()).expect("it is good"));
    let mut bytes = Bytes::new(input);
    let (own, deep) = (bytes.bit(), bytes.byte());
    let mut state = State::default();
    for line in bytes.rest().split(|byte| *byte == b'\n') {
        // Depth is cheap to ask for and dear to type.
        let line = deepened(line, usize::from(deep));
        match submission(&line, own, config) {
            Ok(spec) => {
                check(&spec);
                submit(&mut state, spec);
            }
            Err(problem) => {
                assert!(!problem.detail.is_empty());
                let told = serde_json::to_string(&problem).expect("a refusal can be told");
                assert!(told.len() < 20 * (line.len() + 200), "an answer longer than its cause");
            }
        }
    }
}

/// Puts so many brackets around each `0`.
fn deepened(line: &[u8], depth: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    for byte in line.iter().take(4096) {
        if *byte == b'0' && depth != 0 && out.len() < 1 << 16 {
            out.extend(std::iter::repeat_n(b'[', depth));
            out.push(b'0');
            out.extend(std::iter::repeat_n(b']', depth));
        } else {
            out.push(*byte);
        }
    }
    out
}

fn check(spec: &TaskSpec) {
    assert!(spec.payload.len() <= PAYLOAD_BYTES_MAX);
    match serde_json::from_str(&spec.payload) {
        Ok(payload) => assert!(depth(&payload) <= JSON_DEPTH_MAX, "deeper than is allowed"),
        // Numbers are as large as somebody writes them.
        Err(error) => assert!(error.to_string().contains("number out of range"), "{error}"),
    }
    assert!(spec.key.as_ref().is_none_or(|key| (1..=NAME_BYTES_MAX).contains(&key.len())));
    assert!(spec.at.is_none() || spec.delay.is_none());
    assert!(spec.timeout.is_none_or(|timeout| timeout.0 != 0));
}

fn depth(value: &serde_json::Value) -> usize {
    let inner = match value {
        serde_json::Value::Array(values) => values.iter().map(depth).max(),
        serde_json::Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

fn submit(state: &mut State, spec: TaskSpec) {
    let now = Moment { wall: Timestamp(1 << 40), ..Moment::default() };
    let Ok(decision) = decide(state, &Rules::default(), &Command::Submit(spec), now) else {
        return;
    };
    for event in decision.events {
        let Moment { wall, life, service, .. } = now;
        let stamp = Stamp { seq: state.next_seq(), wall, life, service, by: Actor::User(7) };
        let mut body = Vec::new();
        codec::encode(&stamp, &event, &mut body);
        let read = codec::decode(Seq(stamp.seq.0), codec::kind(&event), &body);
        assert_eq!(read.as_ref(), Ok(&(stamp.clone(), event.clone())));
        apply(state, &stamp, &event).expect("what was decided can be applied");
    }
    state.check().expect("the derived sets are those of the facts");
}

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let texts = [
        ("plain", 0, 0, r#"{"type":"fetch_data","payload":{"a": 1}}"#),
        (
            "all",
            0,
            0,
            r#"{"type":"report.daily","payload":"x","priority":-4,"delay":"1m","max_retry":3,"timeout":"2s","key":"k"}"#,
        ),
        ("at", 0, 0, r#"{"type":"fetch_data","at":"2026-01-01T00:00:00.5+01:00"}"#),
        ("command", 1, 0, r#"{"type":"exec","payload":{"argv":["/bin/true"],"cwd":"/"}}"#),
        ("deep", 0, 99, r#"{"type":"fetch_data","payload":{"\"[{": 0}}"#),
        ("too-deep", 0, 100, r#"{"type":"fetch_data","payload":["\\", 0]}"#),
        ("surrogate", 0, 0, r#"{"type":"fetch_data","payload":"\ud83d\ude00 \ud800"}"#),
        ("near", 0, 0, r#"{"type":"fetch_dta"}"#),
        (
            "lines",
            0,
            0,
            "{\"type\":\"fetch_data\",\"key\":\"a\"}\r\n\n[1]\n{\"type\":\"fetch_data\",\"key\":\"a\"}",
        ),
        ("number", 0, 0, r#"{"type":"fetch_data","payload":1e999,"priority":-2147483648}"#),
    ];
    let seed = |(name, own, deep, text): (&'static str, u8, u8, &str)| {
        (name, [&[own, deep], text.as_bytes()].concat())
    };
    texts.into_iter().map(seed).collect()
}
