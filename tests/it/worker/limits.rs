//! Limits as an attempt's end tells them, and the worker's own.

use super::Crew;
use crate::eventually::eventually;
use midwatch::kernel::ids::Millis;
use midwatch::kernel::status::Outcome;
use std::fs;

fn with_lines(handler: (&str, &str), lines: &str) -> Crew {
    Crew::with(1, &[handler], |setup| setup["lines"] = lines.into())
}

// spec: HND-072, PRC-053
#[test]
fn an_attempt_that_used_up_its_processor_time_says_so_and_how_much_it_was() {
    let crew = with_lines(("spin", "while :; do :; done"), "cpu_time = \"1s\"");
    let end = crew.run("spin", "null");
    assert_eq!((end.outcome, end.signal), (Outcome::Retryable, Some(24)));
    let expected = "killed by signal 24 (SIGXCPU): its limit of processor time, `cpu_time`, is 1s";
    assert_eq!(end.error.as_deref(), Some(expected));
    let usage = end.usage.unwrap();
    assert!((Millis(500)..Millis(60_000)).contains(&usage.cpu_ms), "{usage:?}");
    assert!(100 << 10 < usage.peak_memory, "{usage:?}");
}

// spec: HND-071
#[test]
fn an_attempt_that_met_its_limit_of_memory_says_so() {
    // It keeps what it reads, for there is no end of a line in it.
    let crew = with_lines(("greedy", "exec tail -n 1 /dev/zero"), "memory = \"64MiB\"");
    let end = crew.run("greedy", "null");
    assert_eq!(end.outcome, Outcome::Retryable);
    let error = end.error.unwrap();
    // With a control group's controller it is killed, without it only gets no more.
    let counted = error.contains("out of memory, its limit `memory` is 64 MiB");
    let near = error.contains(" near its limit `memory` of 64 MiB of address space");
    assert!(counted || near, "{error}");
    let peak = end.usage.unwrap().peak_memory;
    assert!((40 << 20..=68 << 20).contains(&peak), "{peak}");
}

// spec: PRC-054
#[test]
fn a_worker_that_grew_too_large_finishes_what_it_runs_takes_nothing_more_and_ends_well() {
    const SLOTS: u32 = 100;
    let hold = ("hold", "until [ -e $DIR/go ]; do sleep 0.1; done");
    let mut crew = Crew::with(SLOTS, &[hold], |setup| {
        setup["worker"] = "memory_max = \"48MiB\"".into();
    });
    let log = crew.file("worker.out");
    let noticed = || fs::read_to_string(&log).unwrap().contains("(`worker.memory_max`)");
    let payload = format!("\"{}\"", "x".repeat(1 << 20));
    let mut held = Vec::new();
    while !noticed() {
        assert!(held.len() + 1 < SLOTS as usize, "it never noticed");
        let fence = crew.engine.lease("hold", &payload);
        let begun = || {
            let book = crew.engine.book();
            let mut holds = book.heartbeats.iter().flat_map(|beat| &beat.holds);
            holds.any(|hold| hold.lease.fence == fence && hold.process.is_some())
        };
        eventually("it began, or none begins any more", || (begun() || noticed()).then_some(()));
        held.extend(begun().then_some(fence));
    }
    // One slot is free, and nobody works in it any more.
    let late = crew.engine.lease("hold", "null");
    let beats = crew.engine.book().heartbeats.len();
    crew.engine.wait("it goes on", |book| beats + 5 < book.heartbeats.len());
    // A request that was under way may have got it: then it was handed back.
    let waits = crew.engine.book().waiting.iter().any(|lease| lease.fence == late);
    let released = || !crew.engine.end_of(late).started;
    assert!(waits || released());
    fs::write(crew.file("go"), "").unwrap();
    assert!(!held.is_empty());
    for fence in held {
        assert_eq!(crew.engine.end_of(fence).outcome, Outcome::Success);
    }
    assert_eq!(crew.wait_for_exit().code(), Some(0));
    assert_eq!(crew.engine.book().left, 1);
}

// spec: PRC-035
#[test]
fn an_attempts_control_group_is_gone_when_its_end_is_told() {
    let Some(_) = crate::limits::groups("the end of a control group") else { return };
    let crew = Crew::new(1, &[("look", "grep ^0:: /proc/self/cgroup")]);
    let fence = crew.engine.lease("look", "null");
    crew.engine.end_of(fence);
    let log = crew.log(fence);
    let name = format!("/midwatch-{}-1-{fence}", crew.engine.store);
    assert!(log.trim().ends_with(&name), "{log}");
    let inside = log.trim().strip_prefix("0::/").unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 ")).unwrap();
    let mount = mount.split(' ').nth(4).unwrap();
    assert!(std::path::Path::new(mount).exists());
    assert!(!std::path::Path::new(mount).join(inside).exists());
}
