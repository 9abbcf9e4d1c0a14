//! A program that embeds a worker, beside a real engine: killed, stopped, left alone.
//!
//! A worker is a process, so each test runs one of its own: this test binary again, asked for
//! [`the_program_under_test`].

use crate::field::house::{CALM, House, Part};
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::{Outcome, Status};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Command;

#[path = "../../../examples/embedded.rs"]
#[expect(dead_code, reason = "its `main` is for itself")]
mod example;

/// Two types that are no commands, one of which nobody runs.
const TYPES: &str =
    "[handlers.number_lines]\nembedded = true\n[handlers.nobodys]\nembedded = true\n";

const LINES: usize = 20_000;

/// No test: what the others run in a process of its own.
#[test]
fn the_program_under_test() {
    let Some(data_dir) = std::env::var_os("EMBEDDED_IN") else { return };
    example::work(Path::new(&data_dir)).unwrap();
}

fn program(house: &House, name: &str) -> Part {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "clients::embedded::the_program_under_test", "--nocapture"]);
    command.env("EMBEDDED_IN", house.path("data"));
    let part = house.spawn(name, command);
    house.until("the program has registered", |house| {
        house.workers().iter().any(|worker| worker.pid == part.pid()).then_some(())
    });
    part
}

fn submit(house: &House) -> TaskId {
    let text = (0..LINES).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    fs::write(house.path("in.txt"), text).unwrap();
    let (from, to) = (house.path("in.txt"), house.path("out.txt"));
    let payload = serde_json::json!({"from": from, "to": to, "batch": 10});
    house.submit("number_lines", &payload.to_string())
}

/// Waits until the task has a checkpoint beyond this line; it must still run then.
fn until_beyond(house: &House, task: TaskId, line: u64) -> u64 {
    house.until(&format!("a checkpoint beyond line {line}"), |house| {
        let checkpoint = house.task(task).checkpoint?;
        let cursor: serde_json::Value = serde_json::from_str(checkpoint.get()).unwrap();
        cursor["lines"].as_u64().filter(|lines| line < *lines)
    })
}

fn check_output(house: &House) {
    let expected = (0..LINES).map(|n| format!("{} line {n}\n", n + 1)).collect::<Vec<_>>().concat();
    let written = fs::read_to_string(house.path("out.txt")).unwrap();
    assert!(written == expected, "a line is missing, twice or cut: {}", house.account());
}

// spec: HND-051, HND-055
#[test]
fn a_program_killed_in_the_middle_is_followed_by_one_that_goes_on_there() {
    let house = House::with(TYPES, CALM, &[]);
    let engine = house.engine();
    let first = program(&house, "first");
    let task = submit(&house);
    let seen = until_beyond(&house, task, 0);
    first.kill();
    let _second = program(&house, "second");
    until_beyond(&house, task, seen + 100);
    // The engine dies too; the program neither ends nor loses anything.
    engine.kill();
    let _engine = house.engine();
    let done = house.until_status(task, Status::Success);
    check_output(&house);
    let result: serde_json::Value = serde_json::from_str(done.result.unwrap().get()).unwrap();
    assert_eq!(result["lines"], LINES);
    let attempts = house.history(task).attempts;
    let outcomes: Vec<_> = attempts.iter().filter_map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [Outcome::Lost, Outcome::Success], "{}", house.account());
    assert_eq!(house.task(task).lost_count, 1);
    let log = fs::read_to_string(house.data(&format!("logs/{task}/2.log"))).unwrap();
    let from: u64 = log.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(seen <= from, "{log} after a checkpoint at {seen}");
}

#[test]
fn a_program_is_paused_resumed_and_cancelled_and_drains_at_sigterm() {
    let house = House::with(TYPES, CALM, &[]);
    let _engine = house.engine();
    let mut first = program(&house, "first");
    let task = submit(&house);
    let seen = until_beyond(&house, task, 0);
    house.act(task, "pause").unwrap();
    house.until_status(task, Status::Paused);
    house.act(task, "resume").unwrap();
    let seen = until_beyond(&house, task, seen + 10);
    assert!(first.terminate().success(), "{}", house.account());
    house.until_status(task, Status::Pending);
    let _second = program(&house, "second");
    until_beyond(&house, task, seen + 10);
    house.act(task, "cancel").unwrap();
    house.until_status(task, Status::Cancelled);
}

// A type that no worker here can run waits for one that can; the daemon's own leave it.
#[test]
fn workers_of_the_config_leave_what_is_embedded() {
    let house = House::with(TYPES, CALM, &[("nop", "exit 0", "")]);
    let _daemon = house.daemon();
    let waiting = house.submit("nobodys", "null");
    let done = house.submit("nop", "null");
    house.until_status(done, Status::Success);
    assert_eq!(house.task(waiting).status, Status::Pending);
    let types = house.workers().into_iter().flat_map(|worker| worker.types);
    assert_eq!(types.collect::<Vec<_>>(), ["exec", "nop"]);
}

#[test]
fn a_program_survives_the_signal_of_a_reload() {
    let house = House::with(TYPES, CALM, &[]);
    let _engine = house.engine();
    let program = program(&house, "program");
    program.signal(Signal::HUP);
    let task = submit(&house);
    house.until_status(task, Status::Success);
    check_output(&house);
}
