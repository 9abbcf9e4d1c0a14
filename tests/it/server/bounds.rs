//! Each bound of `spec/limits.md` that a client can meet, at it and one beyond it.

use super::fixture::{Server, Worker, registration, with_proof};
use midwatch::config::Fsync;
use midwatch::process::WorkerLock;
use serde_json::json;

fn text(bytes: usize) -> String {
    "x".repeat(bytes - 2) // as JSON it has two quotes
}

#[test]
fn a_payload_and_a_checkpoint_may_have_a_mebibyte_and_no_byte_more() {
    let server = Server::start();
    let submission = |bytes| json!({ "type": "fetch_data", "payload": text(bytes) });
    assert_eq!(server.post("/v1/tasks", &submission(1 << 20)).status, 201);
    let refused = server.post("/v1/tasks", &submission((1 << 20) + 1)).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (422, "invalid_payload"));
    let worker = Worker::register(&server, 1);
    let lease = worker.lease(1, 0).remove(0);
    let checkpoint = |bytes| with_proof(&lease, &json!({ "data": text(bytes) }));
    assert_eq!(worker.call("checkpoint", &checkpoint(1 << 20)).status, 200);
    let refused = worker.call("checkpoint", &checkpoint((1 << 20) + 1)).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (422, "invalid_payload"));
}

#[test]
fn a_result_may_have_64_kib_and_no_byte_more() {
    let server = Server::start();
    server.submit(&json!({ "type": "fetch_data" }));
    let worker = Worker::register(&server, 1);
    let lease = worker.lease(1, 0).remove(0);
    for (bytes, field) in [((64 << 10) + 1, "error"), (64 << 10, "status")] {
        let end = with_proof(&lease, &json!({ "outcome": "success", "result": text(bytes) }));
        let finished = worker.call("finish", &json!({ "ends": [end] })).json();
        assert!(!finished["ends"][0][field].is_null(), "{bytes}: {finished}");
    }
}

#[test]
fn names_may_have_255_bytes() {
    let server = Server::start();
    let (fits, long) = ("n".repeat(255), "n".repeat(256));
    server.submit(&json!({ "type": "fetch_data", "key": fits }));
    let refused = server.post("/v1/tasks", &json!({ "type": "fetch_data", "key": long })).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (400, "invalid_request"));
    assert!(refused.2.contains("255"), "{}", refused.2);
    let lock = WorkerLock::take(&server.run_dir()).unwrap();
    for (name, status) in [(&long, 400), (&fits, 200)] {
        let mut worker = registration(&lock, 1);
        worker["name"] = json!(name);
        assert_eq!(server.post("/v1/workers", &worker).status, status);
    }
}

#[test]
fn the_error_of_an_attempt_is_cut() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "fetch_data" }));
    let worker = Worker::register(&server, 1);
    let lease = worker.lease(1, 0).remove(0);
    let end = with_proof(&lease, &json!({ "outcome": "fatal", "error": "e".repeat(1 << 20) }));
    worker.call("finish", &json!({ "ends": [end] }));
    let error = server.get(&format!("/v1/tasks/{id}")).json()["error"].as_str().unwrap().len();
    assert_eq!(error, 4 << 10);
}

#[test]
fn a_bulk_body_ends_at_64_mib_and_says_where() {
    let server = Server::start();
    // Empty lines are passed over, so this is a task and nothing else.
    let mut body = br#"{"type":"fetch_data"}"#.to_vec();
    body.resize((64 << 20) + 1, b'\n');
    let answer = server.send("POST", "/v1/tasks", "application/x-ndjson", &body);
    let lines = answer.lines();
    assert_eq!((lines.len(), lines[0]["id"].as_u64()), (2, Some(1)), "{}", answer.text());
    let detail = lines[1]["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("64MiB"), "{detail}");
    body.truncate(64 << 20);
    let answer = server.send("POST", "/v1/tasks", "application/x-ndjson", &body);
    assert_eq!(answer.lines().len(), 1, "{}", answer.text());
}

#[test]
fn a_worker_has_1024_slots_at_most() {
    let server = Server::start();
    let lock = WorkerLock::take(&server.run_dir()).unwrap();
    let refused = server.post("/v1/workers", &registration(&lock, 1025)).refusal();
    assert!(refused.2.contains("1024"), "{}", refused.2);
    assert_eq!(server.post("/v1/workers", &registration(&lock, 1024)).status, 200);
}

#[test]
fn a_page_has_10_000_tasks_at_most() {
    let server = Server::start();
    assert_eq!(server.get("/v1/tasks?limit=10000").status, 200);
    let refused = server.get("/v1/tasks?limit=10001").refusal();
    assert_eq!((refused.0, refused.1.as_str()), (400, "invalid_request"));
}

#[test]
fn a_list_that_finds_nothing_stops_after_200_000_and_says_where_to_go_on() {
    let never = |config: &mut midwatch::config::Config| config.journal.fsync = Fsync::Never;
    let server = Server::start_in(tempfile::tempdir().unwrap(), never).unwrap();
    let mut oldest = br#"{"type":"render"}"#.to_vec();
    oldest.push(b'\n');
    let many = b"{\"type\":\"fetch_data\"}\n".repeat(50_250);
    for body in [&oldest, &many, &many, &many, &many] {
        let answer = server.send("POST", "/v1/tasks", "application/x-ndjson", body);
        assert_eq!(answer.status, 200);
    }
    let first = server.get("/v1/tasks?type=render").json();
    assert_eq!(first["tasks"], json!([]));
    let next = first["next"].as_u64().expect("there is more to look at");
    assert!((2..=1001).contains(&next), "{next}");
    let rest = server.get(&format!("/v1/tasks?type=render&after={next}")).json();
    assert_eq!((&rest["tasks"][0]["id"], &rest["next"]), (&json!(1), &json!(null)));
}

#[test]
fn orders_about_types_have_their_bounds() {
    let server = Server::start();
    let order = |verb: &str, body| server.post(&format!("/v1/types/fetch_data/{verb}"), &body);
    let refused = |verb: &str, body| {
        let (status, code, _) = order(verb, body).refusal();
        assert_eq!((status, code.as_str()), (400, "invalid_request"));
    };
    refused("pause", json!({ "reason": "x".repeat(1025) }));
    assert_eq!(order("pause", json!({ "reason": "x".repeat(1024) })).status, 200);
    refused("limit", json!({ "max_running": 100_001 }));
    assert_eq!(order("limit", json!({ "max_running": 100_000 })).status, 200);
    refused("limit", json!({ "rate": "10001/h" }));
    assert_eq!(order("limit", json!({ "rate": "10000/h" })).status, 200);
    let long = format!("/v1/types/{}/resume", "t".repeat(5_000));
    assert_eq!(server.post(&long, &json!({})).refusal().1, "no_such_type");
}
