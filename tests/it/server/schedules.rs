//! Schedules through the socket.

use super::fixture::{Server, Worker, with_proof};
use midwatch::kernel::ids::{Millis, Timestamp};
use midwatch::kernel::schedule::{From, Overlap, Plan, ScheduleSpec};
use serde_json::{Value, json};

/// Fires at no time that a test would live to see.
fn yearly() -> Value {
    json!({ "type": "fetch_data", "cron": "0 0 1 1 *", "payload": { "page": 7 } })
}

fn set(server: &Server, name: &str, body: &Value) -> Value {
    let answer = server.post(&format!("/v1/schedules/{name}"), body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn show(server: &Server, name: &str) -> Value {
    let answer = server.get(&format!("/v1/schedules/{name}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn names(server: &Server) -> Vec<String> {
    let list = server.get("/v1/schedules").json();
    let schedules = list["schedules"].as_array().unwrap();
    schedules.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

// spec: TIM-053
#[test]
fn a_schedule_is_made_shown_changed_and_taken_away_and_outlives_restarts() {
    let server = Server::start();
    let made = set(&server, "nightly", &yearly());
    assert_eq!((&made["changed"], &made["task"]), (&json!(true), &json!(null)));
    assert!(made["next"].as_str().unwrap().ends_with("-01-01T00:00:00.000Z"), "{made}");
    let again = set(&server, "nightly", &yearly());
    assert_eq!(again["changed"], false);
    let mut other = yearly();
    other["priority"] = json!(7);
    let (status, code, detail) = server.post("/v1/schedules/nightly", &other).refusal();
    assert_eq!((status, code.as_str()), (409, "schedule_conflict"), "{detail}");
    other["replace"] = json!(true);
    assert_eq!(set(&server, "nightly", &other)["changed"], true);
    set(&server, "poll", &json!({ "type": "render", "every": "1h30m", "from": "end" }));
    let paused = server.post("/v1/schedules/poll/pause", &json!({ "reason": "quiet" }));
    assert_eq!(paused.json()["next"], json!(null));
    let server = Server::start_in(server.stop(), |_| ()).unwrap();
    assert_eq!(names(&server), ["nightly", "poll"]);
    let nightly = show(&server, "nightly");
    for (field, value) in [
        ("type", json!("fetch_data")),
        ("cron", json!("0 0 1 1 *")),
        ("payload", json!({ "page": 7 })),
        ("priority", json!(7)),
        ("timezone", json!("UTC")),
        ("misfire_grace", json!("1h")),
        ("coalesce", json!(true)),
        ("max_instances", json!(1)),
        ("overlap", json!("skip")),
        ("origin", json!("runtime")),
        ("paused", json!(null)),
        ("held", json!(false)),
        ("trouble", json!(null)),
        ("counts", json!({ "fired": 0, "coalesced": 0, "skipped": 0, "missed": 0 })),
    ] {
        assert_eq!(nightly[field], value, "{field}");
    }
    let poll = show(&server, "poll");
    assert_eq!((&poll["every"], &poll["from"]), (&json!("1h30m"), &json!("end")));
    assert_eq!(poll["paused"]["reason"], "quiet");
    let resumed = server.post("/v1/schedules/poll/resume", &json!({})).json();
    assert!(resumed["next"].is_string(), "{resumed}");
    let status = server.get("/v1/status").json();
    assert_eq!(
        (&status["schedules"], &status["next_fire"]["schedule"]),
        (&json!(2), &json!("poll"))
    );
    for name in ["nightly", "poll"] {
        let gone = server.send("DELETE", &format!("/v1/schedules/{name}"), "application/json", b"");
        assert_eq!(gone.json()["changed"], true);
        assert_eq!(server.get(&format!("/v1/schedules/{name}")).refusal().1, "no_such_schedule");
    }
    assert!(names(&server).is_empty());
}

// B59: a bad expression was saved and fired all the time; a zone was ignored.
// spec: TIM-051
#[test]
fn b59_what_cannot_be_planned_is_refused_by_field_and_a_zone_is_honoured() {
    let server = Server::start();
    let at = |more: Value| {
        let mut body = json!({ "type": "fetch_data" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (more, word) in [
        (json!({ "cron": "61 * * * *" }), "`cron`"),
        (json!({ "cron": "0 0 30 2 *" }), "`cron`"),
        (json!({ "cron": "@daily", "timezone": "Mars/Base" }), "`timezone`"),
        (json!({ "every": "1h", "timezone": "Mars/Base" }), "`timezone`"),
        (json!({ "every": "500ms" }), "`every`"),
        (json!({ "every": "367d" }), "`every`"),
        (json!({ "at": "tomorrow" }), "`at`"),
        (json!({}), "exactly one"),
        (json!({ "cron": "@daily", "every": "1h" }), "exactly one"),
        (json!({ "cron": "@daily", "from": "end" }), "`from`"),
        (json!({ "every": "1h", "dst_gap": "skip" }), "`dst_gap`"),
        (json!({ "cron": "@daily", "dst_fold": "none" }), "`dst_fold`"),
        (json!({ "cron": "@daily", "overlap": "both" }), "`overlap`"),
        (json!({ "cron": "@daily", "misfire_grace": "32d" }), "`misfire_grace`"),
        (json!({ "cron": "@daily", "jitter": "25h" }), "`jitter`"),
        (json!({ "cron": "@daily", "max_instances": 0 }), "`max_instances`"),
        (json!({ "cron": "@daily", "timeout": "0s" }), "`timeout`"),
        (json!({ "cron": "@daily", "colour": "red" }), "colour"),
    ] {
        let (status, code, detail) = server.post("/v1/schedules/x", &at(more.clone())).refusal();
        assert_eq!((status, code.as_str()), (400, "invalid_request"), "{more}: {detail}");
        assert!(detail.contains(word), "{more}: {detail}");
    }
    let wrong = server.post("/v1/schedules/x", &json!({ "type": "fetch", "cron": "@daily" }));
    assert_eq!(wrong.refusal().1, "no_such_type");
    let wrong = json!({ "type": "exec", "cron": "@daily", "payload": { "argv": [] } });
    assert_eq!(server.post("/v1/schedules/x", &wrong).refusal().1, "invalid_payload");
    assert_eq!(server.post("/v1/schedules/a%20b", &yearly()).refusal().0, 400);
    assert!(names(&server).is_empty());
    let near = json!({ "type": "fetch_data", "cron": "@daily", "timezone": "Europe/Belrin" });
    let near = server.post("/v1/schedules/x", &near);
    assert_eq!(near.json()["help"], "did you mean `Europe/Berlin`?");
    // Midnight there is not midnight here.
    let made = set(&server, "x", &at(json!({ "cron": "0 0 * * *", "timezone": "Asia/Kathmandu" })));
    assert!(made["next"].as_str().unwrap().contains("T18:15:00.000Z"), "{made}");
}

// spec: TIM-058
#[test]
fn what_is_planned_is_told_with_what_a_change_of_clocks_does_to_it() {
    let server = Server::start();
    let mut body = yearly();
    body["cron"] = json!("0 2 * * *");
    body["timezone"] = json!("America/New_York");
    set(&server, "nightly", &body);
    let next = |query: &str| server.get(&format!("/v1/schedules/nightly/next?{query}"));
    let planned = next("n=3&from=2026-03-07T12:00:00Z").json();
    let planned: Vec<_> = planned["planned"].as_array().unwrap().clone();
    let part = |field: &str| planned.iter().map(|one| one[field].clone()).collect::<Vec<_>>();
    assert_eq!(
        part("local"),
        [
            "Sun 2026-03-08 03:00:00 EDT",
            "Mon 2026-03-09 02:00:00 EDT",
            "Tue 2026-03-10 02:00:00 EDT"
        ]
    );
    assert_eq!(part("at")[0], "2026-03-08T07:00:00.000Z");
    assert!(part("note")[0].as_str().unwrap().starts_with("02:00 does not exist"));
    assert_eq!(part("note")[1], json!(null));
    assert_eq!(next("").json()["planned"].as_array().unwrap().len(), 5);
    for query in ["n=0", "n=1001", "from=soon", "m=1"] {
        assert_eq!(next(query).refusal().0, 400, "{query}");
    }
    set(&server, "poll", &json!({ "type": "render", "every": "1h" }));
    let planned = server.get("/v1/schedules/poll/next?n=2").json();
    let at = |n: usize| {
        midwatch::units::parse_rfc3339(planned["planned"][n]["at"].as_str().unwrap()).unwrap()
    };
    assert_eq!(at(1), at(0).after(Millis::secs(3600)));
    set(&server, "start", &json!({ "type": "render", "boot": true }));
    let planned = server.get("/v1/schedules/start/next").json();
    assert_eq!((&planned["planned"], planned["end"].is_string()), (&json!([]), true));
}

// spec: TIM-055, TIM-056
#[test]
fn a_run_that_is_asked_for_knows_its_schedule_and_keeps_one_key_for_all_its_attempts() {
    let server = Server::start();
    set(&server, "nightly", &yearly());
    let triggered = server.post("/v1/schedules/nightly/trigger", &json!({})).json();
    let id = triggered["task"].as_u64().unwrap();
    let task = server.get(&format!("/v1/tasks/{id}")).json();
    assert_eq!((&task["schedule"], &task["payload"]), (&json!("nightly"), &json!({ "page": 7 })));
    let key = format!("schedule:nightly:{id}");
    assert_eq!(task["key"], key.as_str());
    // While it is not over there is no other.
    let (status, code, detail) = server.post("/v1/schedules/nightly/trigger", &json!({})).refusal();
    assert_eq!((status, code.as_str()), (409, "schedule_conflict"));
    assert!(detail.contains(&format!("task {id}")), "{detail}");
    assert_eq!(show(&server, "nightly")["running"], json!([id]));
    let worker = Worker::register(&server, 1);
    let first = worker.lease(1, 1000).remove(0);
    let end = json!({ "outcome": "retryable", "started": true, "error": "no" });
    worker.call("finish", &json!({ "ends": [with_proof(&first, &end)], "slots": 0 }));
    server.post(&format!("/v1/tasks/{id}/run-now"), &json!({}));
    let second = worker.lease(1, 1000).remove(0);
    for field in ["task", "key", "scheduled_for"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    assert_eq!(second["key"], key.as_str());
    let end = json!({ "outcome": "success", "started": true, "exit_code": 0 });
    worker.call("finish", &json!({ "ends": [with_proof(&second, &end)], "slots": 0 }));
    let history = server.get(&format!("/v1/tasks/{id}/history")).json();
    let uid = rustix::process::geteuid().as_raw();
    let by = format!("schedule nightly, triggered by uid {uid}");
    assert_eq!(history["transitions"][0]["by"], by.as_str());
    let shown = show(&server, "nightly");
    assert!(shown["last_success"].is_string(), "{shown}");
    assert_eq!((&shown["last_task"], &shown["failures"]), (&json!(id), &json!(0)));
    let other = server.submit(&json!({ "type": "render" }));
    let listed = |query: &str| {
        let list = server.get(&format!("/v1/tasks?{query}")).json();
        let tasks = list["tasks"].as_array().unwrap().iter();
        tasks.map(|task| task["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(listed("schedule=nightly"), [id]);
    assert_eq!(listed("schedule=other"), [0; 0]);
    assert_eq!(listed(""), [other, id]);
    let taken = json!({ "type": "render", "key": "schedule:nightly:1" });
    assert!(server.post("/v1/tasks", &taken).refusal().2.contains("`schedule:`"));
}

#[test]
fn a_run_for_a_planned_time_has_that_time_in_its_key() {
    let server = Server::start();
    let at = midwatch::units::rfc3339(midwatch::clock::wall().after(Millis::secs(2)));
    set(&server, "once", &json!({ "type": "fetch_data", "at": at, "overlap": "queue" }));
    let worker = Worker::register(&server, 1);
    let lease = worker.lease(1, 20_000).remove(0);
    assert_eq!(lease["scheduled_for"], at.as_str());
    assert_eq!(lease["key"], format!("schedule:once:{at}").as_str());
    let shown = show(&server, "once");
    assert_eq!((&shown["next"], &shown["last"]["at"]), (&json!(null), &json!(at)));
    assert_eq!(shown["recent"][0]["outcome"], "fired");
    assert_eq!(shown["recent"][0]["task"], lease["task"]);
    // Another run waits its turn, and says so.
    let triggered = server.post("/v1/schedules/once/trigger", &json!({})).json();
    assert_eq!((&triggered["changed"], &triggered["task"]), (&json!(true), &json!(null)));
    assert_eq!(show(&server, "once")["queued"].as_array().unwrap().len(), 1);
}

// spec: TIM-121, TIM-122
#[test]
fn the_config_takes_over_what_was_added_and_removes_only_what_was_its_own() {
    let server = Server::start();
    set(&server, "mine", &yearly());
    set(&server, "both", &yearly());
    let spec = ScheduleSpec {
        overlap: Overlap::Queue,
        ..ScheduleSpec::new("render", Plan::Every(Millis::secs(3600), From::Start))
    };
    let server = Server::start_in(server.stop(), |config| {
        config.schedules.insert("both".to_owned(), spec.clone());
        config.schedules.insert("theirs".to_owned(), spec.clone());
    })
    .unwrap();
    assert_eq!(names(&server), ["both", "mine", "theirs"]);
    let both = show(&server, "both");
    assert_eq!((&both["origin"], &both["type"]), (&json!("config"), &json!("render")));
    let mut body = yearly();
    body["replace"] = json!(true);
    assert_eq!(server.post("/v1/schedules/both", &body).refusal().1, "schedule_conflict");
    let gone = server.send("DELETE", "/v1/schedules/theirs", "application/json", b"");
    assert_eq!(gone.refusal().1, "schedule_conflict");
    let next = both["next"]["at"].clone();
    assert_eq!(server.post("/v1/schedules/theirs/pause", &json!({})).status, 200);
    // What is as it was is not touched, its pause neither; what is named no more goes.
    let server = Server::start_in(server.stop(), |config| {
        config.schedules.insert("both".to_owned(), spec.clone());
        config.schedules.insert("theirs".to_owned(), spec.clone());
    })
    .unwrap();
    assert_eq!(show(&server, "both")["next"]["at"], next);
    assert!(show(&server, "theirs")["paused"].is_object());
    let server = Server::start_in(server.stop(), |_| ()).unwrap();
    assert_eq!(names(&server), ["mine"]);
    // An instant that is past already stays so.
    let server = Server::start_in(server.stop(), |config| {
        let past = ScheduleSpec::new("render", Plan::Once(Timestamp(1_000)));
        config.schedules.insert("past".to_owned(), past);
    })
    .unwrap();
    let past = show(&server, "past");
    assert_eq!((&past["next"], &past["counts"]["fired"]), (&json!(null), &json!(0)));
}
