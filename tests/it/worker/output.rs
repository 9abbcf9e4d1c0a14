//! Logs: byte for byte, bounded, and never in the way.

use super::Crew;
use crate::eventually::eventually;
use midwatch::kernel::status::Outcome;
use std::fs;

// spec: HND-002
#[test]
fn output_is_kept_byte_for_byte() {
    let crew = Crew::new(1, &[("bytes", r"printf '\000\377\r\n\033[1mx'; printf '\200' >&2")]);
    let fence = crew.engine.lease("bytes", "null");
    crew.engine.end_of(fence);
    let mut log = fs::read(crew.engine.log_of(fence)).unwrap();
    let stderr = log.iter().position(|byte| *byte == 0x80).unwrap();
    log.remove(stderr);
    assert_eq!(log, b"\x00\xff\r\n\x1b[1mx");
}

#[test]
fn floods_on_both_streams_of_many_handlers_neither_stall_nor_lose_a_byte() {
    let flood = "yes 123456789 | head -n 200000 & yes abcdefghi | head -n 200000 >&2; wait";
    let crew = Crew::new(10, &[("flood", flood)]);
    let fences: Vec<_> = (0..10).map(|_| crew.engine.lease("flood", "null")).collect();
    for fence in fences {
        assert_eq!(crew.engine.end_of(fence).outcome, Outcome::Success);
        let log = fs::read(crew.engine.log_of(fence)).unwrap();
        let dropped = String::from_utf8_lossy(&log).contains("bytes dropped");
        assert!(dropped || log.len() == 4_000_000, "{} bytes", log.len());
    }
}

// spec: HND-040
#[test]
fn an_over_large_log_keeps_head_and_tail_and_says_what_is_missing() {
    let crew = Crew::with(1, &[("count", "seq 1 200000")], |setup| setup["log_max"] = 65536.into());
    let fence = crew.engine.lease("count", "null");
    crew.engine.end_of(fence);
    let log = crew.log(fence);
    assert!(log.len() <= 65536 + 64, "{}", log.len());
    assert!(log.starts_with("1\n2\n3\n") && log.ends_with("199999\n200000\n"));
    let (head, rest) = log.split_once("\n[midwatch: ").unwrap();
    let (dropped, tail) = rest.split_once(" bytes dropped]\n").unwrap();
    let dropped: usize = dropped.parse().unwrap();
    let whole: usize = (1..=200_000_u32).map(|n| n.to_string().len() + 1).sum();
    assert_eq!(head.len() + dropped + tail.len(), whole);
}

// spec: HND-042
#[test]
fn a_log_that_is_removed_while_it_is_written_is_made_anew() {
    let script = "echo one; echo up > $DIR/up; read -r go < $DIR/go; echo two";
    let crew = Crew::new(1, &[("talk", script)]);
    std::process::Command::new("mkfifo").arg(crew.file("go")).status().unwrap();
    let fence = crew.engine.lease("talk", "null");
    crew.wait_for_file("up");
    let path = crew.engine.log_of(fence);
    eventually("its log is written", || {
        fs::read_to_string(&path).ok().filter(|text| text == "one\n")
    });
    fs::remove_file(&path).unwrap();
    fs::write(crew.file("go"), "go\n").unwrap();
    assert_eq!(crew.engine.end_of(fence).outcome, Outcome::Success);
    assert_eq!(crew.log(fence), "two\n");
}

// spec: HND-042
#[test]
fn a_log_that_cannot_be_written_does_not_fail_its_task() {
    let crew = Crew::new(1, &[("talk", "echo one; echo two >&2; exit 0")]);
    fs::write(crew.file("logs"), "a file where a directory should be").unwrap();
    assert_eq!(crew.run("talk", "null").outcome, Outcome::Success);
}
