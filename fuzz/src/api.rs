//! Texts that people and programs send: requests as JSON, durations, sizes, instants. Any text is
//! read or refused, and what was read is printed so that it reads back as the same.

use crate::bytes::Bytes;
use midwatch::api;
use midwatch::kernel::ids::Timestamp;
use midwatch::units::{
    DURATION_MAX, Zone, format_duration, format_size, parse_duration, parse_rfc3339, parse_size,
    relative, rfc3339, span,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub fn run(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let what = bytes.byte() % 17;
    let now = Timestamp(if what == 3 { bytes.number() << 16 } else { 0 });
    let Ok(text) = std::str::from_utf8(bytes.rest()) else { return };
    match what {
        0 => duration(text),
        1 => size(text),
        2 => instant(text),
        3 => typed(text, now),
        4 | 5 => request::<api::SubmitRequest>(text),
        6 => request::<api::RegisterRequest>(text),
        7 => request::<api::HeartbeatRequest>(text),
        8 => request::<api::LeaseRequest>(text),
        9 => request::<api::CheckpointRequest>(text),
        10 => request::<api::FinishRequest>(text),
        11 => request::<api::RetryRequest>(text),
        12 => request::<api::ResetRequest>(text),
        13 => request::<api::ListQuery>(text),
        14 => request::<api::BulkLine>(text),
        15 => request::<api::StopsRequest>(text),
        _ => request::<api::TaskView>(text),
    }
}

fn duration(text: &str) {
    let Ok(read) = parse_duration(text) else { return };
    assert!(read <= DURATION_MAX);
    assert_eq!(parse_duration(&format_duration(read)), Ok(read));
    assert!(!span(read).is_empty());
}

fn size(text: &str) {
    let Ok(read) = parse_size(text) else { return };
    assert_eq!(parse_size(&format_size(read)), Ok(read));
}

fn instant(text: &str) {
    let Ok(read) = parse_rfc3339(text) else { return };
    assert_eq!(parse_rfc3339(&rfc3339(read)), Ok(read));
}

fn typed(text: &str, now: Timestamp) {
    let Ok(read) = Zone::Utc.parse(text, now) else { return };
    assert_eq!(parse_rfc3339(&rfc3339(read)), Ok(read));
    assert!(!relative(read, now).is_empty());
    assert_eq!(Zone::Utc.parse(&rfc3339(read), now), Ok(read));
}

/// What was read is written, and that reads back as the same.
fn request<T: Serialize + DeserializeOwned>(text: &str) {
    let Ok(read) = serde_json::from_str::<T>(text) else { return };
    let written = serde_json::to_string(&read).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).expect("it was written before"), written);
}

pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let texts = [
        ("duration", 0, "2d1h30m5s250ms"),
        ("size", 1, "64 MiB"),
        ("instant", 2, "2026-03-14T02:30:00.004+08:00"),
        ("instant-late", 2, "9999-12-31T23:59:59-23:59"),
        ("submit", 4, r#"{"type":"job","payload":{"a":[1,"\u00e9"]},"priority":-3,"delay":"1m"}"#),
        ("submit-at", 5, r#"{"type":"j","at":"2026-01-01T00:00:00Z","max_retry":0,"key":"k"}"#),
        (
            "register",
            6,
            r#"{"name":"w","process":{"pid":7,"start_time":8,"boot_id":"b","pid_namespace":9},"host":"h","version":"0","lock":"l","types":["a"],"slots":2}"#,
        ),
        (
            "heartbeat",
            7,
            r#"{"holds":[{"task":1,"fence":2,"secret":"s","progress":{"done":1,"total":2}}]}"#,
        ),
        ("lease", 8, r#"{"slots":3,"wait_ms":1000}"#),
        ("checkpoint", 9, r#"{"task":1,"fence":2,"secret":"s","data":{"at":1e400}}"#),
        (
            "finish",
            10,
            r#"{"ends":[{"task":1,"fence":2,"secret":"s","outcome":"success"}],"slots":1}"#,
        ),
        ("retry", 11, r#"{"fresh":true}"#),
        ("reset", 12, r#"{"max_retry":4}"#),
        ("list", 13, r#"{"status":"WAITING,DEAD","type":"a","since":"2h","limit":5,"after":9}"#),
        ("bulk-line", 14, r#"{"line":1,"id":2,"existed":true}"#),
        ("stops", 15, r#"{"known":[{"task":1,"fence":2,"stop":"cancel"}],"wait_ms":1}"#),
    ];
    let mut seeds: Vec<_> = texts
        .into_iter()
        .map(|(name, what, text)| (name, [&[what], text.as_bytes()].concat()))
        .collect();
    for (name, text) in
        [("clock", "02:30"), ("date", "2026-03-14"), ("date-and-time", "2026-03-14 02:30:59")]
    {
        seeds.push((name, [&[3, 9], text.as_bytes()].concat()));
    }
    seeds
}
