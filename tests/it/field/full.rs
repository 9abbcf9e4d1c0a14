//! A real file system, full to the byte: a small tmpfs in a user namespace of its own. Where there
//! are no such namespaces, this is skipped, loudly.

use super::house::{CALM, House};
use super::namespace;
use midwatch::api::Submitted;
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

/// Small enough that filling it is quick, with room for what a start needs besides.
const SIZE: &str = "size=6m,mode=700";

const JOURNAL: &str =
    "[journal]\nsegment_size = \"64KiB\"\nsnapshot_after = \"1MiB\"\nreserve = \"256KiB\"";

/// Takes every byte that is left.
fn fill(house: &House) {
    let mut file =
        fs::OpenOptions::new().create(true).append(true).open(house.data("fill")).unwrap();
    for piece in [1 << 20, 1 << 12, 1] {
        let bytes = vec![b'x'; piece];
        while file.write_all(&bytes).is_ok() {}
    }
    assert!(File::create(house.data("more")).unwrap().write_all(&[1; 4096]).is_err());
    fs::remove_file(house.data("more")).unwrap();
}

/// Runs the ignored test below where it may mount something.
#[test]
fn w63_w64_b20_b21_a_disk_full_to_the_byte_refuses_work_and_loses_none() {
    namespace::run("field::full::in_a_namespace_of_its_own");
}

#[test]
#[ignore = "the test above runs it, in a user namespace"]
fn in_a_namespace_of_its_own() {
    let waits = "until_there finish";
    let house = House::with(JOURNAL, CALM, &[("noop", "exit 0", ""), ("waits", waits, "")]);
    fs::create_dir(house.path("data")).unwrap();
    namespace::mount(SIZE, &house.path("data"));
    let daemon = house.daemon();
    let mut known: Vec<TaskId> = (0..5).map(|_| house.submit("noop", "1")).collect();
    for id in &known {
        house.until_status(*id, Status::Success);
    }
    let running = house.submit("waits", "1");
    house.until_start(running, 1);
    fill(&house);
    check_refusals(&house);
    // It is an alert, once, however often it is met.
    let full = |house: &House| -> Option<u64> {
        let all: serde_json::Value = house.client().get("/v1/alerts").ok()?;
        let found = all["alerts"].as_array()?.iter().find(|it| it["rule"] == "disk_low");
        found.filter(|alert| alert["level"] == "critical")?["count"].as_u64()
    };
    house.until("a full disk is an alert", full);
    check_refusals(&house);
    let said = full(&house).unwrap();
    assert!(said <= 2, "raised {said} times: at first it was only low");
    // What runs comes to its end, and the end is on record.
    house.touch("finish");
    house.until_status(running, Status::Success);
    known.push(running);
    // With its reserve a start finds the room that it needs.
    house.kill_all(daemon);
    fill(&house);
    check_readers(&house);
    let daemon = house.daemon();
    check_known(&house, &known);
    check_refusals(&house);
    // Room returns, and is noticed without a restart.
    let engine = house.status().unwrap().pid;
    fs::remove_file(house.data("fill")).unwrap();
    let id = house.until("work is taken again", |house| {
        let request = super::house::request("noop", "2");
        house.client().post::<_, Submitted>("/v1/tasks", &request).ok().map(|done| done.id)
    });
    house.until_status(id, Status::Success);
    known.push(id);
    assert_eq!(house.status().unwrap().pid, engine, "by the same engine");
    house.kill_all(daemon);
    // Without the reserve there is no room for a start: it says so each time, and harms nothing.
    fs::remove_file(house.data("reserve")).unwrap();
    fill(&house);
    for _ in 0..3 {
        let mut refused = house.spawn("refused", house.command(&["engine"]));
        assert_eq!(refused.end().code(), Some(7), "{}", refused.log());
        assert!(refused.log().contains("no space left"), "{}", refused.log());
        check_readers(&house);
    }
    fs::remove_file(house.data("fill")).unwrap();
    let mut daemon = house.daemon();
    check_known(&house, &known);
    assert!(daemon.terminate().success(), "{}", daemon.log());
    check_readers(&house);
}

fn check_known(house: &House, known: &[TaskId]) {
    for id in known {
        assert_eq!(house.task(*id).status, Status::Success, "task {id}");
    }
}

/// Many submissions, all refused, and hardly a word about it in the log.
fn check_refusals(house: &House) {
    let lines = || house.account().lines().count();
    let before = lines();
    for _ in 0..200 {
        let request = super::house::request("noop", "2");
        let refused = house.client().post::<_, Submitted>("/v1/tasks", &request);
        assert_eq!(refused.unwrap_err().exit(), 7);
    }
    assert!(lines() < before + 5, "a storm of words: {}", house.account());
    let status = house.status().unwrap();
    assert_ne!(status.health, "OK", "the status says that the disk is full");
}

/// What only reads needs no room.
fn check_readers(house: &House) {
    for command in ["verify", "dump", "inspect"] {
        let output = Command::new(env!("CARGO_BIN_EXE_midwatch-journal"))
            .arg(command)
            .arg(house.path("data"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
