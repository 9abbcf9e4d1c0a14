//! Whole types: bounds and pauses through kills and restarts, and what may be edited.

use super::house::{BRISK, CALM, House, kill};
use midwatch::api::{Acted, TypeActed, TypeView};
use midwatch::client::ClientError;
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use serde_json::{Value, json};
use std::fs;

/// Each attempt says when it begins and ends; lines of one file are in order.
const NOTED: &str = "echo b >>\"$DIR/noted\"; sleep 0.2; echo e >>\"$DIR/noted\"";

fn the_type(house: &House, kind: &str) -> TypeView {
    house.client().get(&format!("/v1/types/{kind}")).unwrap()
}

fn order(house: &House, kind: &str, verb: &str, body: &Value) -> TypeActed {
    house.client().post(&format!("/v1/types/{kind}/{verb}"), body).unwrap()
}

fn all_succeed(house: &House, ids: &[TaskId]) {
    for id in ids {
        house.until_status(*id, Status::Success);
    }
}

/// The most attempts that ever ran beside each other.
fn most_at_once(house: &House) -> usize {
    let noted = fs::read_to_string(house.path("noted")).unwrap();
    let (mut running, mut most) = (0_usize, 0);
    for line in noted.lines() {
        if line == "b" {
            running += 1;
        } else {
            running -= 1;
        }
        most = most.max(running);
    }
    most
}

#[test]
fn a_bound_holds_over_two_workers_and_kills_of_the_engine() {
    let house = House::new(CALM, &[("job", NOTED, "max_running = 2"), ("other", "exit 0", "")]);
    let daemon = house.daemon_with(&["--workers", "2", "--slots", "3"], 2);
    let ids: Vec<_> = (0..12).map(|_| house.submit("job", "null")).collect();
    let other = house.submit("other", "null");
    house.until_status(other, Status::Success);
    for round in 1..=2 {
        house.until("some more have ended", |house| {
            let ended = the_type(house, "job").tasks["SUCCESS"];
            (3 * round <= ended).then_some(())
        });
        let (engine, _) = house.pids();
        kill(engine);
        house.until("another engine answers", |house| {
            house.status().filter(|status| status.pid != engine)
        });
    }
    all_succeed(&house, &ids);
    assert_eq!(most_at_once(&house), 2);
    house.check_no_overlap();
    let view = the_type(&house, "job");
    assert_eq!((view.max_running.value, view.max_running.from.as_str()), (Some(2), "config"));
    drop(daemon);
}

#[test]
fn a_pause_survives_a_restart_keeps_what_runs_and_status_tells_of_it() {
    let house = House::new(CALM, &[("job", "until_there go", ""), ("other", "exit 0", "")]);
    let mut daemon = house.daemon();
    let runs = house.submit("job", "null");
    house.until_start(runs, 1);
    house.say(&["type", "pause", "job", "--reason", "the upstream is down"]);
    let waits = house.submit("job", "null");
    house.touch("go");
    house.until_status(runs, Status::Success);
    daemon.terminate();
    let daemon = house.daemon();
    let other = house.submit("other", "null");
    house.until_status(other, Status::Success);
    assert_eq!(house.task(waits).status, Status::Pending);
    let order = the_type(&house, "job").paused.unwrap();
    assert_eq!(order.reason.as_deref(), Some("the upstream is down"));
    assert!(order.by.starts_with("uid "), "{}", order.by);
    let status = house.run(&["status"]);
    let told = String::from_utf8(status.stdout).unwrap();
    assert_eq!(status.status.code(), Some(1));
    assert!(told.contains("type job is paused") && told.contains("midwatch type resume job"));
    assert!(house.say(&["type", "list"]).contains("the upstream is down"));
    assert_eq!(house.say(&["type", "resume", "job"]), "job resumed");
    house.until_status(waits, Status::Success);
    assert_eq!(house.say(&["type", "resume", "job"]), "job resumed already");
    drop(daemon);
}

#[test]
fn a_rate_counts_on_over_a_restart_and_frees_by_itself() {
    let house = House::new(CALM, &[("job", "exit 0", "rate = \"2/h\"")]);
    let mut daemon = house.daemon();
    let ids: Vec<_> = (0..4).map(|_| house.submit("job", "null")).collect();
    all_succeed(&house, &ids[..2]);
    daemon.terminate();
    let daemon = house.daemon();
    let view = the_type(&house, "job");
    assert_eq!((view.rate.value.as_deref(), view.dispatched), (Some("2/h"), 2));
    assert!(view.next_dispatch_at.is_some());
    // Nothing else wakes the engine for it: the worker's poll waits for a minute.
    order(&house, "job", "limit", &json!({ "rate": "1/s" }));
    all_succeed(&house, &ids);
    assert_eq!(house.starts().len(), 4);
    let history = |id| house.history(id).attempts[0].leased_at.clone();
    let at = |id| midwatch::units::parse_rfc3339(&history(id)).unwrap();
    let apart = at(ids[3]).since(at(ids[2]));
    assert!(1_000 <= apart.0 + 50, "{apart:?} apart at one a second");
    drop(daemon);
}

#[test]
fn what_is_set_at_run_time_takes_the_place_of_the_config_until_it_is_given_back() {
    let house = House::new(CALM, &[("job", "exit 0", "max_running = 3\nrate = \"5/m\"")]);
    let mut daemon = house.daemon();
    let limited = order(&house, "job", "limit", &json!({ "max_running": 1, "rate": "none" }));
    assert!(limited.changed);
    daemon.terminate();
    let daemon = house.daemon();
    let bounds = |view: TypeView| {
        let TypeView { max_running, rate, limited, .. } = view;
        (max_running.value, max_running.from, rate.value, rate.from, limited.is_some())
    };
    let set = || "set".to_owned();
    assert_eq!(bounds(the_type(&house, "job")), (Some(1), set(), None, set(), true));
    let told = house.say(&["type", "limit", "job", "--rate", "config"]);
    assert_eq!(told, "job max_running 1 (set), rate 5/m (config)");
    let again = order(&house, "job", "limit", &json!({ "rate": "config" }));
    assert!(!again.changed);
    let told = house.say(&["type", "limit", "job", "--max-running", "config"]);
    assert_eq!(told, "job max_running 3 (config), rate 5/m (config)");
    assert!(the_type(&house, "job").limited.is_none());
    drop(daemon);
}

#[test]
fn a_type_that_is_not_there_and_an_order_that_makes_no_sense_are_refused() {
    let house = House::new(CALM, &[("job", "exit 0", "")]);
    let daemon = house.daemon();
    for args in [["type", "show", "jab"], ["type", "pause", "jab"], ["type", "resume", "jab"]] {
        let output = house.run(&args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{args:?}: {said}");
        assert!(said.contains("did you mean `job`?"), "{said}");
    }
    let refused = |body: Value| {
        let path = "/v1/types/job/limit";
        match house.client().post::<_, TypeActed>(path, &body) {
            Err(ClientError::Problem(problem)) => problem.code.word(),
            other => panic!("{body}: {other:?}"),
        }
    };
    assert_eq!(refused(json!({})), "invalid_request");
    assert_eq!(refused(json!({ "rate": "0/m" })), "invalid_request");
    assert_eq!(refused(json!({ "max_running": "all" })), "invalid_request");
    drop(daemon);
}

/// Sends an edit as JSON.
fn edit(house: &House, id: TaskId, body: &Value) -> Result<Acted, String> {
    match house.client().post(&format!("/v1/tasks/{id}/edit"), body) {
        Ok(acted) => Ok(acted),
        Err(ClientError::Problem(problem)) => Err(problem.detail),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_task_that_waits_is_edited_and_any_other_is_refused_by_its_status() {
    let script = "case $MIDWATCH_KEY in run) until_there go;; good) exit 0;; bad) exit 65;; \
                  dead) exit 1;; *) exit 1;; esac";
    let house = House::new(CALM, &[("job", script, "retry = { base = \"1h\", cap = \"1h\" }")]);
    let daemon = house.daemon();
    let submit = |key: &str, more: &[&str]| -> TaskId {
        let args = [&["submit", "job", "--key", key], more].concat();
        house.say(&args).parse().unwrap()
    };
    let pending = submit("pending", &["--delay", "1h"]);
    let paused = submit("paused", &["--delay", "1h"]);
    house.act(paused, "pause").unwrap();
    let retrying = submit("retrying", &[]);
    house.until_status(retrying, Status::Retrying);
    for (id, status) in [(pending, "PENDING"), (paused, "PAUSED"), (retrying, "RETRYING")] {
        let id_text = id.to_string();
        let told = house.say(&[
            "edit",
            &id_text,
            "--priority",
            "7",
            "--max-retry",
            "9",
            "--timeout",
            "5m",
            "--next-run",
            "2030-01-01T00:00:00Z",
        ]);
        assert_eq!(told, format!("{id} {status}"));
        let task = house.task(id);
        assert_eq!((task.priority, task.max_retry), (7, 9));
        assert_eq!(task.timeout.as_deref(), Some("5m"));
        assert!(edit(&house, id, &json!({ "timeout": "none" })).unwrap().changed);
        assert!(!edit(&house, id, &json!({ "priority": 7 })).unwrap().changed);
        assert_eq!(house.task(id).timeout, None);
        let notes = house.history(id).transitions;
        assert!(notes.iter().any(|line| {
            line.note.as_deref().is_some_and(|note| note.starts_with("edited: priority 7"))
        }));
    }
    assert_eq!(house.task(pending).next_run_time.as_deref(), Some("2030-01-01T00:00:00.000Z"));
    let few = edit(&house, retrying, &json!({ "max_retry": 0 })).unwrap_err();
    assert!(few.contains("has failed 1 times already"), "{few}");
    let none = edit(&house, pending, &json!({})).unwrap_err();
    assert!(none.contains("nothing is to be changed"), "{none}");

    let runs = submit("run", &[]);
    house.until_status(runs, Status::Running);
    let good = submit("good", &[]);
    house.until_status(good, Status::Success);
    let bad = submit("bad", &[]);
    house.until_status(bad, Status::Failed);
    let dead = submit("dead", &["--max-retry", "0"]);
    house.until_status(dead, Status::Dead);
    let gone = submit("gone", &["--delay", "1h"]);
    house.act(gone, "cancel").unwrap();
    let refused = [
        (runs, "RUNNING"),
        (good, "SUCCESS"),
        (bad, "FAILED"),
        (dead, "DEAD"),
        (gone, "CANCELLED"),
    ];
    for (id, status) in refused {
        let output = house.run(&["edit", &id.to_string(), "--priority", "1"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains(&format!("cannot edit task {id}: it is {status}")), "{said}");
    }
    house.touch("go");
    house.until_status(runs, Status::Success);
    drop(daemon);
}

#[test]
fn a_bound_holds_while_a_task_of_a_stopped_worker_is_taken_over() {
    let alone = "exec 8>>$DIR/one; flock -n 8 || echo two of the type >>$DIR/overlaps";
    let script = format!("{alone}; [ $MIDWATCH_TASK_ID = 1 ] && first && sleep 600; exit 0");
    // The lease is short also where the worker had told of the start before it stood still.
    let lines = "max_running = 1\ntimeout = \"5s\"\ncancel_grace = \"1s\"\nkill_grace = \"1s\"";
    let house = House::new(BRISK, &[("job", &script, lines)]);
    let engine = house.engine();
    let worker = house.worker("w1", 1);
    let lost = house.submit("job", "null");
    house.until_start(lost, 1);
    let other = house.worker("w2", 2);
    let waits = house.submit("job", "null");
    worker.freeze();
    all_succeed(&house, &[lost, waits]);
    house.check_no_overlap();
    worker.kill();
    drop((other, engine));
}
