//! What people do with tasks.

use super::fixture::{Server, Worker, with_proof};
use serde_json::json;
use std::io::{Read, Write};
use std::thread;

#[test]
fn a_task_is_submitted_shown_and_listed() {
    let server = Server::start();
    let id = server.submit(&json!({
        "type": "fetch_data", "payload": { "page": 7 }, "priority": 9, "timeout": "90s",
        "max_retry": 2, "key": "k1", "delay": "1h",
    }));
    let task = server.get(&format!("/v1/tasks/{id}")).json();
    assert_eq!(task["type"], "fetch_data");
    assert_eq!(task["payload"], json!({ "page": 7 }));
    assert_eq!(task["status"], "PENDING");
    assert_eq!((&task["priority"], &task["max_retry"]), (&json!(9), &json!(2)));
    assert_eq!((&task["timeout"], &task["key"]), (&json!("1m30s"), &json!("k1")));
    assert_eq!((&task["result"], &task["executor_id"]), (&json!(null), &json!(null)));
    assert!(task["created_at"].as_str().unwrap() < task["next_run_time"].as_str().unwrap());
    let other = server.submit(&json!({ "type": "render" }));
    let list = server.get("/v1/tasks").json();
    let ids: Vec<_> = list["tasks"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
    assert_eq!(ids, [&json!(other), &json!(id)]);
    assert_eq!((&list["next"], &list["total"]), (&json!(null), &json!(2)));
}

#[test]
fn a_key_names_one_task() {
    let server = Server::start();
    let body = json!({ "type": "fetch_data", "payload": 1, "key": "once" });
    let id = server.submit(&body);
    let again = server.post("/v1/tasks", &body);
    assert_eq!(again.status, 200);
    assert_eq!(again.json(), json!({ "id": id, "existed": true }));
    let other = server.post("/v1/tasks", &json!({ "type": "render", "payload": 1, "key": "once" }));
    let (status, code, detail) = other.refusal();
    assert_eq!((status, code.as_str()), (409, "key_conflict"));
    assert!(detail.contains(&format!("task {id}")), "{detail}");
}

#[test]
fn the_list_is_filtered_and_read_page_by_page() {
    let server = Server::start();
    let ids: Vec<u64> = (0..7)
        .map(|n| {
            server.submit(&json!({
                "type": if n % 2 == 0 { "fetch_data" } else { "render" },
            }))
        })
        .collect();
    let cancelled = server.post(&format!("/v1/tasks/{}/cancel", ids[2]), &json!({}));
    assert_eq!(cancelled.status, 200);
    let page = |query: &str| {
        let list = server.get(&format!("/v1/tasks?{query}")).json();
        let tasks = list["tasks"].as_array().unwrap().iter();
        (tasks.map(|task| task["id"].as_u64().unwrap()).collect::<Vec<_>>(), list["next"].as_u64())
    };
    let newest_first: Vec<u64> = ids.iter().rev().copied().collect();
    assert_eq!(page("limit=3"), (newest_first[..3].to_vec(), Some(ids[4])));
    assert_eq!(page(&format!("limit=3&after={}", ids[4])).0, newest_first[3..6]);
    assert_eq!(page(&format!("limit=3&after={}", ids[1])), (vec![ids[0]], None));
    assert_eq!(page("limit=7"), (newest_first.clone(), None));
    assert_eq!(page("status=cancelled").0, [ids[2]]);
    assert_eq!(page("status=PENDING,CANCELLED").0, newest_first);
    assert_eq!(page("type=render").0, [ids[5], ids[3], ids[1]]);
    assert_eq!(page("since=1h").0, newest_first);
    assert_eq!(page("since=2999-01-01T00:00:00Z").0, [0; 0]);
    for wrong in ["status=GONE", "limit=0", "limit=99999", "since=soon", "color=red", "limit=x"] {
        let (status, code, _) = server.get(&format!("/v1/tasks?{wrong}")).refusal();
        assert_eq!((status, code.as_str()), (400, "invalid_request"), "{wrong}");
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let server = Server::start();
    let refusal = |path: &str| server.get(path).refusal();
    assert_eq!(
        refusal("/v1/tasks/99"),
        (404, "no_such_task".to_owned(), "there is no task 99".to_owned())
    );
    assert_eq!(refusal("/v1/tasks/99/history").1, "no_such_task");
    assert_eq!(refusal("/v1/tasks/99/log").1, "no_such_task");
    assert_eq!(refusal("/v1/tasks/99/wait").1, "no_such_task");
    assert_eq!(refusal("/v1/tasks/ninety").1, "invalid_request");
    assert_eq!(refusal("/v2/tasks").1, "no_such_route");
    assert_eq!(server.post("/v1/tasks/1/explode", &json!({})).refusal().1, "no_such_route");
    assert_eq!(server.send("DELETE", "/v1/tasks/1", "x/y", b"").refusal().1, "no_such_route");
    let cancel = server.post("/v1/tasks/99/cancel", &json!({})).refusal();
    assert_eq!((cancel.0, cancel.1.as_str()), (404, "no_such_task"));
    let unknown = server.post("/v1/tasks", &json!({ "type": "fetch_dota" })).refusal();
    assert_eq!((unknown.0, unknown.1.as_str()), (404, "no_such_type"));
    assert!(unknown.2.contains("did you mean `fetch_data`?"), "{}", unknown.2);
}

#[test]
fn people_act_on_waiting_tasks_and_illegal_steps_name_both_sides() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "render", "delay": "1h" }));
    let act = |verb: &str| server.post(&format!("/v1/tasks/{id}/{verb}"), &json!({}));
    let acted = |verb: &str| {
        let answer = act(verb).json();
        (answer["status"].as_str().unwrap().to_owned(), answer["changed"].as_bool().unwrap())
    };
    assert_eq!(acted("run-now"), ("PENDING".to_owned(), true));
    assert_eq!(acted("run-now"), ("PENDING".to_owned(), false));
    assert_eq!(acted("pause"), ("PAUSED".to_owned(), true));
    assert_eq!(acted("pause"), ("PAUSED".to_owned(), false));
    let (status, code, detail) = act("run-now").refusal();
    assert_eq!((status, code.as_str()), (409, "wrong_status"));
    let both = "(there is no way from PAUSED to RUNNING)";
    assert_eq!(detail, format!("cannot run-now task {id}: it is PAUSED {both}"));
    assert_eq!(acted("resume"), ("PENDING".to_owned(), true));
    assert_eq!(acted("cancel"), ("CANCELLED".to_owned(), true));
    assert_eq!(acted("cancel"), ("CANCELLED".to_owned(), false));
    let again = server.post(&format!("/v1/tasks/{id}/retry"), &json!({ "fresh": true })).json();
    let new = again["id"].as_u64().unwrap();
    assert_ne!(new, id);
    assert_eq!(server.get(&format!("/v1/tasks/{new}")).json()["retry_of"], id);
    let history = server.get(&format!("/v1/tasks/{id}/history")).json();
    let lines = history["transitions"].as_array().unwrap().iter();
    let reasons: Vec<_> = lines.map(|line| line["reason"].as_str().unwrap_or("-")).collect();
    assert_eq!(reasons, ["created", "-", "user_pause", "user_resume", "user_cancel"]);
    assert_eq!(history["task"]["status"], "CANCELLED");
    let by = history["transitions"][2]["by"].as_str().unwrap();
    assert!(by.starts_with("uid "), "{by}");
}

#[test]
fn who_waits_for_a_task_learns_of_its_end() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "render", "delay": "1h" }));
    let path = format!("/v1/tasks/{id}/wait?timeout_ms=60000");
    let in_vain = server.get(&format!("/v1/tasks/{id}/wait?timeout_ms=0")).json();
    assert_eq!(in_vain["status"], "PENDING");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| server.get(&path).json());
        server.post(&format!("/v1/tasks/{id}/cancel"), &json!({}));
        assert_eq!(waiting.join().unwrap()["status"], "CANCELLED");
    });
    assert_eq!(server.get(&path).json()["status"], "CANCELLED");
}

#[test]
fn bulk_lines_are_answered_in_order_and_a_bad_one_stops_nothing() {
    let server = Server::start();
    let mut body = String::new();
    for n in 1..=2500 {
        match n {
            7 => body.push_str("{\"type\":"),
            1500 => body.push_str(r#"{"type":"nonsense"}"#),
            2000 => {}
            _ => body.push_str(&format!(r#"{{"type":"fetch_data","payload":{n}}}"#)),
        }
        body.push('\n');
    }
    body.push_str(r#"{"type":"fetch_data","payload":"last"}"#);
    let answer = server.send("POST", "/v1/tasks", "application/x-ndjson", body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let lines = answer.lines();
    let numbers: Vec<_> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=2501).filter(|n| *n != 2000).collect::<Vec<_>>());
    let bad: Vec<_> = lines.iter().filter(|line| line.get("error").is_some()).collect();
    let codes: Vec<_> = bad.iter().map(|line| (&line["line"], &line["error"]["code"])).collect();
    let expected = [(&json!(7), &json!("invalid_request")), (&json!(1500), &json!("no_such_type"))];
    assert_eq!(codes, expected);
    let last = lines.last().unwrap()["id"].as_u64().unwrap();
    assert_eq!(server.get(&format!("/v1/tasks/{last}")).json()["payload"], "last");
    assert_eq!(server.get("/v1/tasks?limit=1").json()["total"], 2498);
}

#[test]
fn everything_acknowledged_is_there_after_a_restart() {
    let server = Server::start();
    let ids: Vec<u64> = (0..20)
        .map(|n| {
            server.submit(&json!({ "type": "fetch_data", "payload": n, "key": format!("k{n}") }))
        })
        .collect();
    let digest = server.get("/v1/status?digest=1").json()["digest"].as_str().unwrap().to_owned();
    assert_eq!(digest.len(), 64);
    let server = Server::start_in(server.stop(), |_| ()).unwrap();
    for (n, id) in ids.iter().enumerate() {
        let task = server.get(&format!("/v1/tasks/{id}")).json();
        assert_eq!((&task["payload"], &task["key"]), (&json!(n), &json!(format!("k{n}"))));
    }
    let status = server.get("/v1/status").json();
    assert!(status["recovery"].as_str().unwrap().contains("closed cleanly"), "{status}");
    assert_eq!(server.submit(&json!({ "type": "render" })), ids[19] + 1);
}

#[test]
fn the_stream_tells_what_happens_and_goes_on_from_where_one_was() {
    let server = Server::start();
    let first = server.submit(&json!({ "type": "render" }));
    let mut stream = server.connect();
    stream.write_all(b"GET /v1/events?from=1 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut seen = Vec::new();
    let mut until = |word: &str| {
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(word) {
            let count = stream.read(&mut buffer).unwrap();
            assert_ne!(count, 0, "the stream ended without {word}");
            seen.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    };
    let text = until("\"submitted\"");
    assert!(text.contains("text/event-stream"), "{text}");
    assert!(text.contains(&format!("\"task\":{first}")), "{text}");
    server.post(&format!("/v1/tasks/{first}/cancel"), &json!({}));
    let text = until("user_cancel");
    assert!(text.contains("\"from\":\"PENDING\",\"to\":\"CANCELLED\""), "{text}");
}

#[test]
fn the_log_of_an_attempt_is_read_from_any_place_and_followed_to_its_end() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "fetch_data" }));
    let (status, code, _) = server.get(&format!("/v1/tasks/{id}/log")).refusal();
    assert_eq!((status, code.as_str()), (404, "no_such_log"));
    let worker = Worker::register(&server, 1);
    let lease = worker.lease(1, 0).remove(0);
    let dir = server.dir.path().join(format!("data/logs/{id}"));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("1.log"), b"one\ntwo\n\xff\xfe\n").unwrap();
    let log = |query: &str| server.get(&format!("/v1/tasks/{id}/log?{query}"));
    assert_eq!(log("").body, b"one\ntwo\n\xff\xfe\n");
    assert_eq!(log("attempt=1&offset=4").body, b"two\n\xff\xfe\n");
    assert_eq!(log("tail=1").body, b"\xff\xfe\n");
    assert!(log("").head.contains("midwatch-attempt: 1"));
    assert_eq!(log("attempt=2").refusal().1, "no_such_log");
    assert_eq!(log("tail=1&offset=1").refusal().1, "invalid_request");
    thread::scope(|scope| {
        let following = scope.spawn(|| log("follow=1").body);
        std::fs::write(dir.join("1.log"), b"one\ntwo\n\xff\xfe\nthree\n").unwrap();
        let end = with_proof(&lease, &json!({ "outcome": "success" }));
        worker.call("finish", &json!({ "ends": [end] }));
        assert_eq!(following.join().unwrap(), b"one\ntwo\n\xff\xfe\nthree\n");
    });
}

#[test]
fn the_status_says_what_needs_a_person() {
    let server = Server::start();
    let status = server.get("/v1/status").json();
    assert_eq!(status["health"], "OK");
    assert_eq!(status["fsync"], "always");
    server.submit(&json!({ "type": "fetch_data" }));
    let status = server.get("/v1/status").json();
    assert_eq!(status["health"], "OK"); // a worker may need a moment to register
    let worker = Worker::register(&server, 2);
    let lease = worker.lease(2, 0).remove(0);
    let status = server.get("/v1/status").json();
    assert_eq!((&status["health"], &status["slots_busy"]), (&json!("OK"), &json!(1)));
    assert_eq!(status["tasks"]["RUNNING"], 1);
    let more = json!({ "outcome": "fatal", "error": "no such host\nsecond line" });
    let end = with_proof(&lease, &more);
    worker.call("finish", &json!({ "ends": [end] }));
    let status = server.get("/v1/status").json();
    assert_eq!(status["health"], "ATTENTION");
    let what = status["attention"][0]["what"].as_str().unwrap();
    assert_eq!(what, "task 1 fetch_data is FAILED after 1 attempt: no such host");
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let server = Server::start();
    let config = super::fixture::config(server.dir.path());
    let options = midwatch::server::ServerOptions {
        config,
        reload: None,
        lifeline: None,
        probe: None,
        signals: false,
        adopt: false,
    };
    let error = midwatch::server::run(options).unwrap_err();
    assert_eq!(error.exit_code, 7);
    assert!(error.text.contains(&format!("pid {}", std::process::id())), "{}", error.text);
    server.submit(&json!({ "type": "render" }));
}

#[test]
fn health_is_answered_and_a_closed_lifeline_ends_the_server() {
    let server = Server::start();
    assert_eq!(server.get("/healthz").json(), json!({ "ok": true }));
    assert_eq!(server.get("/readyz").status, 200);
    let socket = server.socket();
    drop(server);
    assert!(!socket.exists());
}

// spec: DSP-020 DSP-024 DSP-025
#[test]
fn a_task_that_waits_for_others_says_for_whom_and_nothing_but_their_ends_lets_it_run() {
    let server = Server::start();
    let first = server.submit(&json!({ "type": "render", "delay": "1h" }));
    let second = server.submit(&json!({ "type": "render", "delay": "1h" }));
    let task = |id: u64| server.get(&format!("/v1/tasks/{id}")).json();
    assert_eq!((&task(first)["after"], &task(first)["waiting_for"]), (&json!(null), &json!(null)));
    let all = server.submit(&json!({ "type": "render", "after": [second, first, second] }));
    let any = server.submit(&json!({ "type": "render", "after_any": [first, second] }));
    let view = task(all);
    assert_eq!((&view["status"], &view["next_run_time"]), (&json!("PENDING"), &json!(null)));
    assert_eq!((&view["after"], &view["after_any"]), (&json!([second, first]), &json!(false)));
    assert_eq!(view["waiting_for"], json!([second, first]));
    let answer = server.post(&format!("/v1/tasks/{all}/run-now"), &json!({}));
    assert_eq!(answer.json()["help"], format!("midwatch show {second}"));
    let (status, code, detail) = answer.refusal();
    assert_eq!((status, code.as_str()), (409, "wrong_status"));
    let blocked = format!("task {all} waits for task {second}, {first} and cannot run before");
    assert_eq!(detail, blocked);
    for (body, code) in [
        (json!({ "type": "render", "after": [99] }), "no_such_task"),
        (json!({ "type": "render", "after": [any + 1] }), "no_such_task"),
        (json!({ "type": "render", "after": [1], "after_any": [1] }), "invalid_request"),
        (json!({ "type": "render", "after": (1..=101).collect::<Vec<_>>() }), "invalid_request"),
    ] {
        assert_eq!(server.post("/v1/tasks", &body).refusal().1, code, "{body}");
    }
    let line = format!("{{\"type\":\"render\",\"after\":[{all}]}}\n");
    let answer = server.send("POST", "/v1/tasks", "application/x-ndjson", line.as_bytes());
    let last = answer.lines()[0]["id"].as_u64().unwrap();
    // Over a restart, down the chain, and also for one that comes too late.
    let server = Server::start_in(server.stop(), |_| ()).unwrap();
    server.post(&format!("/v1/tasks/{first}/cancel"), &json!({}));
    let late = server.submit(&json!({ "type": "render", "after": [first] }));
    for id in [all, last, late] {
        let ended = server.get(&format!("/v1/tasks/{id}/wait?timeout_ms=60000")).json();
        assert_eq!((&ended["status"], &ended["waiting_for"]), (&json!("CANCELLED"), &json!(null)));
        let history = server.get(&format!("/v1/tasks/{id}/history")).json();
        let end = history["transitions"].as_array().unwrap().last().unwrap();
        assert_eq!((&end["reason"], &end["by"]), (&json!("dependency_failed"), &end["by"]));
        assert!(ended["error"].as_str().unwrap().ends_with("ended CANCELLED"), "{ended}");
    }
    let view = server.get(&format!("/v1/tasks/{any}")).json();
    assert_eq!((&view["waiting_for"], &view["after_any"]), (&json!([second]), &json!(true)));
}
