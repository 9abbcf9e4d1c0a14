//! What stays and what goes: retention, archive, the bound of the state, a data directory that
//! comes from elsewhere, and one that vanishes.

use super::house::{CALM, House, bytes_of, is_alive, kill, request, signal, until};
use midwatch::api::Submitted;
use midwatch::client::Blocking;
use midwatch::kernel::status::Status;
use midwatch::process;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

const NOISY: (&str, &str, &str) = ("noisy", "head -c 50000 /dev/zero | tr '\\0' x", "");
const NOOP: (&str, &str, &str) = ("noop", "exit 0", "");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

// spec: RET-003 RET-010 RET-011
#[test]
fn an_ended_task_leaves_with_its_logs_and_who_asks_for_it_is_told() {
    let house = House::with("[retention]\nfinished = \"4s\"", CALM, &[NOISY]);
    let daemon = house.daemon();
    let id = house.submit("noisy", "null");
    house.until_status(id, Status::Success);
    assert!(house.data(&format!("logs/{id}/1.log")).exists());
    let anew = house.say(&["retry", &id.to_string(), "--json"]);
    let gone = house.until("it is forgotten", |house| {
        let output = house.run(&["show", &id.to_string()]);
        (!output.status.success()).then_some(output)
    });
    assert_eq!(gone.status.code(), Some(3));
    let told = text(&gone.stderr);
    assert!(told.contains("there is no task 1 any more"), "{told}");
    for command in [["history", "1"], ["log", "1"], ["retry", "1"], ["cancel", "1"]] {
        assert_eq!(house.run(&command).status.code(), Some(3), "{command:?}");
    }
    // What runs it again knows whom, though nobody knows anything of it.
    let shown = house.run(&["show", "2", "--json"]);
    if shown.status.success() {
        assert_eq!(json(&text(&shown.stdout))["retry_of"], 1, "{anew}");
    }
    house.submit("noisy", "null"); // a frame, with which the record travels
    house.until("its logs are removed", |house| {
        (!house.data(&format!("logs/{id}")).exists()).then_some(())
    });
    drop(daemon);
    let dump = std::process::Command::new(env!("CARGO_BIN_EXE_midwatch-journal"))
        .args(["dump", "--task", "1"])
        .arg(house.path("data"))
        .output()
        .unwrap();
    let last = text(&dump.stdout).lines().last().map(json).unwrap();
    assert_eq!((&last["event"], &last["tasks"][0]), (&"forgotten".into(), &1.into()));
}

// spec: RET-012
#[test]
fn beyond_their_budget_the_logs_of_the_tasks_that_ended_first_go_and_their_tasks_stay() {
    let house = House::with("[retention]\nlogs = \"110KB\"", CALM, &[NOISY]);
    let daemon = house.daemon();
    for _ in 0..3 {
        let id = house.submit("noisy", "null");
        house.until_status(id, Status::Success);
    }
    house.kill_all(daemon);
    // What a crash has left of a task that is gone.
    fs::create_dir(house.data("logs/0")).unwrap();
    let engine = house.engine();
    house.until("the oldest logs are gone", |house| {
        let there = |task: u32| house.data(&format!("logs/{task}")).exists();
        (!there(0) && !there(1) && there(2) && there(3)).then_some(())
    });
    assert_eq!(house.run(&["log", "1"]).status.code(), Some(3));
    assert_eq!(house.say(&["log", "3"]).len(), 50_000);
    house.say(&["show", "1"]);
    drop(engine);
}

// spec: RET-020 RET-021 RET-022
#[test]
fn ended_tasks_are_in_the_archive_before_they_go_and_stay_while_it_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ended.ndjson");
    let config = format!("[retention]\nfinished = \"1s\"\narchive = {path:?}");
    let house = House::with(&config, CALM, &[NOOP]);
    fs::create_dir(&path).unwrap(); // nothing can be appended to that
    let daemon = house.daemon();
    let mut shown = BTreeMap::new();
    for count in 0..3 {
        let id = house.submit("noop", &format!("{{\"count\":\n{count}}}"));
        house.until_status(id, Status::Success);
        shown.insert(id.0, json(&house.say(&["show", &id.to_string(), "--json"])));
    }
    let trouble = house.until("the trouble is told", |house| {
        let points = house.status()?.attention;
        points.into_iter().find(|point| point.what.contains("archive"))
    });
    assert!(trouble.what.contains("ended.ndjson"), "{}", trouble.what);
    for id in shown.keys() {
        house.say(&["show", &id.to_string()]);
    }
    assert_eq!(daemon.log().matches("the archive:").count(), 1, "{}", daemon.log());
    drop(daemon);
    house.until_empty();
    fs::remove_dir(&path).unwrap();
    // All of them are due by now, and go together.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let engine = house.engine();
    house.until("all have gone", |house| (house.status()?.tasks["SUCCESS"] == 0).then_some(()));
    let written = fs::read_to_string(&path).unwrap();
    let mut found = BTreeMap::new();
    for mut line in written.lines().map(json) {
        let object = line.as_object_mut().unwrap();
        assert_eq!(object.remove("store").unwrap().as_str().unwrap().len(), 32);
        found.insert(object["id"].as_u64().unwrap(), line);
    }
    assert_eq!(found, shown);
    drop(engine);
}

const PATIENT: &str = r#"
    echo up >"$DIR/up"
    until_there go
    echo '{"op":"checkpoint","data":[1]}' >&3
    read -r answer <&3
"#;

// spec: RET-030 RET-031
#[test]
fn beyond_max_state_submissions_are_refused_with_7_and_what_runs_ends() {
    let limits = "[retention]\nmax_state = \"4MiB\"";
    let house = House::with(limits, CALM, &[("patient", PATIENT, ""), NOOP]);
    let daemon = house.daemon_with(&["--workers", "1", "--slots", "1"], 1);
    let running = house.submit("patient", "null");
    house.until_file("up");
    let payload = format!("\"{}\"", "x".repeat(900_000));
    fs::write(house.path("payload"), &payload).unwrap();
    let file = format!("@{}", house.path("payload").display());
    for _ in 0..4 {
        house.say(&["submit", "noop", &file, "--delay", "1h"]);
    }
    let refused = house.run(&["submit", "noop", &file]);
    assert_eq!(refused.status.code(), Some(7));
    let told = text(&refused.stderr);
    assert!(told.contains("4194304 bytes of `retention.max_state`"), "{told}");
    assert!(told.contains("raise `retention.max_state`"), "{told}");
    let json = json(&house.say(&["--json", "submit", "noop", "null"]));
    assert_eq!(json["id"], 6, "a small one still fits");
    let status = house.status().unwrap();
    assert_eq!(status.state_bytes_max, 4 << 20);
    assert!((3_600_000..=4 << 20).contains(&status.state_bytes), "{}", status.state_bytes);
    house.touch("go");
    house.until_status(running, Status::Success);
    drop(daemon);
}

/// Makes the newest segment look as if another machine had written it.
fn from_another_machine(data: &Path) {
    let segments = bytes_of(&data.join("journal"));
    let (path, mut bytes) = segments.into_iter().next_back().unwrap();
    bytes[56..72].copy_from_slice(b"another machine!");
    let sum = crc32fast::hash(&bytes[..508]).to_le_bytes();
    bytes[508..512].copy_from_slice(&sum);
    fs::write(path, bytes).unwrap();
}

fn without_lock(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = bytes_of(data);
    // Nor our own log, which tells of the refusal.
    let log = data.join("log");
    files.retain(|(path, _)| !path.ends_with("midwatch.lock") && !path.starts_with(&log));
    files
}

// spec: REC-005 REC-006 REC-007
#[test]
fn a_directory_from_another_machine_is_refused_until_it_is_adopted_and_nobody_there_is_killed() {
    let house = House::new(CALM, &[("patient", PATIENT, "")]);
    let daemon = house.daemon();
    let id = house.submit("patient", "null");
    let first = house.until_start(id, 1);
    house.until_file("up");
    let (engine, workers) = house.pids();
    let worker = workers[0];
    daemon.kill();
    kill(engine);
    until("the engine is dead", || (!is_alive(engine)).then_some(()));
    // It lives on and says nothing, as if on a machine of its own.
    signal(worker, Signal::STOP);
    fs::remove_file(house.data("midwatch.sock")).unwrap_or_default();
    from_another_machine(&house.path("data"));
    if process::machine_id().is_none() {
        // Without an identity of our own nothing is known to come from elsewhere.
        let engine = house.engine();
        drop(engine);
        return;
    }
    let before = without_lock(&house.path("data"));
    for command in ["engine", "daemon"] {
        let refused = house.run(&[command]);
        assert_eq!(refused.status.code(), Some(7), "{command}: {}", text(&refused.stderr));
        let told = text(&refused.stderr);
        assert!(told.contains("last written on another machine"), "{told}");
        assert!(told.contains("--adopt"), "{told}");
        assert!(without_lock(&house.path("data")) == before, "{command} changed something");
    }
    let daemon = house.daemon_with(&["--adopt"], 1);
    // It fails, for the first attempt lives on here and holds the lock that all of them want.
    house.until("it has begun again", |house| (1 < house.history(id).attempts.len()).then_some(()));
    let reasons = house.reasons(id);
    assert!(reasons.contains(&"host_rebooted"), "{reasons:?}");
    assert!(is_alive(worker) && is_alive(first.pid), "a process of another machine was killed");
    assert!(house.status().unwrap().recovery.contains("taken over"));
    house.touch("go");
    drop(daemon);
    house.until("the engine has ended", |house| house.status().is_none().then_some(()));
    // From now on it is ours.
    let engine = house.engine();
    drop(engine);
}

/// Submits over the moved socket until nobody answers; how many were acknowledged.
fn submit_until_it_ends(socket: &Path) -> u32 {
    let mut acknowledged = 0;
    let Ok(client) = Blocking::connect(socket) else { return 0 };
    while client.post::<_, Submitted>("/v1/tasks", &request("noop", "null")).is_ok() {
        acknowledged += 1;
    }
    acknowledged
}

// W67: the data directory was removed under a running server, and writes went on succeeding.
// spec: JRN-058
#[test]
fn w67_an_engine_whose_directory_is_covered_by_another_ends_within_a_second_of_work() {
    let house = House::new(CALM, &[NOOP]);
    let mut engine = house.engine();
    for _ in 0..50 {
        house.submit("noop", "null");
    }
    fs::rename(house.path("data"), house.path("away")).unwrap();
    fs::create_dir(house.path("data")).unwrap();
    let began = Instant::now();
    let acknowledged = submit_until_it_ends(&house.path("away/midwatch.sock"));
    println!("{acknowledged} acknowledged in {:?}", began.elapsed());
    assert_eq!(engine.end().code(), Some(6), "{}", engine.log());
    assert!(engine.log().contains("no longer where it was"), "{}", engine.log());
    assert!(bytes_of(&house.path("data")).is_empty(), "something was written to the other one");
    // What was acknowledged lies where the directory lies now.
    fs::remove_dir(house.path("data")).unwrap();
    fs::rename(house.path("away"), house.path("data")).unwrap();
    let engine = house.engine();
    let there = house.status().unwrap().tasks["PENDING"];
    assert_eq!(there, u64::from(acknowledged) + 50);
    drop(engine);
}

// W67, the case itself: with a worker that speaks, the whole daemon ends, and makes no new store.
#[test]
fn w67_a_daemon_whose_directory_is_removed_ends_and_makes_no_new_one() {
    let house = House::new(CALM, &[NOOP]);
    let mut daemon = house.daemon();
    let id = house.submit("noop", "null");
    house.until_status(id, Status::Success);
    fs::remove_dir_all(house.path("data")).unwrap();
    assert_eq!(daemon.end().code(), Some(6), "{}", daemon.log());
    assert!(daemon.log().contains("MW-J014"), "{}", daemon.log());
    assert!(!house.data("journal").exists());
    house.check_nothing_lives();
}

// spec: REC-040
#[test]
fn each_fsync_policy_is_told_and_a_weak_one_skips_numbers_after_an_unclean_end_only() {
    const SKIP: u64 = 1 << 20;
    for (policy, is_weak) in [("always", false), ("interval:200ms", true), ("never", true)] {
        let config = format!("[journal]\nfsync = \"{policy}\"");
        let house = House::with(&config, CALM, &[NOOP]);
        let engine = house.engine();
        let submit = || house.submit("noop", "null").0;
        assert_eq!([submit(), submit(), submit()], [1, 2, 3], "{policy}");
        let status = house.status().unwrap();
        assert_eq!(status.fsync, policy);
        let points = status.attention.iter().map(|point| point.what.as_str());
        let told: Vec<_> = points.filter(|what| what.contains("with the power")).collect();
        assert_eq!(!told.is_empty(), is_weak, "{policy}: {told:?}");
        let page = text(&house.run(&["status"]).stdout);
        assert_eq!(page.contains("every write synced"), !is_weak, "{page}");
        engine.kill();
        let mut engine = house.engine();
        assert_eq!(house.status().unwrap().tasks["PENDING"], 3, "{policy}");
        let next = submit();
        assert_eq!(next, if is_weak { 4 + SKIP } else { 4 }, "{policy}");
        assert!(engine.terminate().success());
        let engine = house.engine();
        assert_eq!(submit(), next + 1, "{policy}: a clean end loses no number");
        drop(engine);
    }
}
