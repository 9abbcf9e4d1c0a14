//! The stream of events and those who do not keep up with it.

use super::fixture::{Answer, Server};
use midwatch::config::Fsync;
use std::io::{Read, Write};

/// Batches that one follower may lie behind, and what buffers on the way take besides.
const MANY: usize = 256 + 150;

#[test]
fn a_reader_who_falls_too_far_behind_is_told_so_and_from_where_to_go_on() {
    let never = |config: &mut midwatch::config::Config| config.journal.fsync = Fsync::Never;
    let server = Server::start_in(tempfile::tempdir().unwrap(), never).unwrap();
    let mut slow = server.connect();
    slow.write_all(b"GET /v1/events?from=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let lines = b"{\"type\":\"fetch_data\"}\n".repeat(40);
    for _ in 0..MANY {
        let answer = server.send("POST", "/v1/tasks", "application/x-ndjson", &lines);
        assert_eq!(answer.status, 200);
    }
    let mut bytes = Vec::new();
    slow.read_to_end(&mut bytes).unwrap();
    let told = Answer::parse(&bytes).text();
    let (events, last) =
        told.rsplit_once("event: slow\ndata: {\"from\":").expect("the last message");
    let from: u64 = last.trim_end().trim_end_matches('}').parse().unwrap();
    let ids = events.lines().filter_map(|line| line.strip_prefix("id: ")?.parse::<u64>().ok());
    let ids: Vec<_> = ids.collect();
    assert_eq!(ids.last().map(|last| last + 1), Some(from));
    assert!(ids.len() < MANY * 40, "he has missed some");
    assert!(ids.is_sorted(), "what he was sent is in order");
    let mut again = server.connect();
    write!(again, "GET /v1/events HTTP/1.1\r\nhost: x\r\nlast-event-id: {}\r\n\r\n", from - 1)
        .unwrap();
    let (mut told, mut buffer) = (String::new(), [0; 4096]);
    while !told.contains("id: ") {
        let count = again.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "{told}");
        told += &String::from_utf8_lossy(&buffer[..count]);
    }
    assert!(told.contains(&format!("id: {from}\n")) || told.contains("event: gap"), "{told}");
}
