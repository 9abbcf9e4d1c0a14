//! What workers do.

use super::fixture::{Server, Worker, eventually, registration, with_proof};
use midwatch::process::{self, WorkerLock};
use serde_json::json;
use std::io::Write;
use std::thread;

#[test]
fn a_task_is_leased_worked_on_and_finished_with_the_next_lease_in_one_request() {
    let server = Server::start();
    let first = server.submit(&json!({ "type": "fetch_data", "payload": [1], "timeout": "5m" }));
    let second = server.submit(&json!({ "type": "fetch_data" }));
    server.submit(&json!({ "type": "render" }));
    let worker = Worker::register(&server, 1);
    let lease = worker.lease(9, 0).remove(0);
    assert_eq!((&lease["task"], &lease["payload"]), (&json!(first), &json!([1])));
    assert_eq!((&lease["attempt"], &lease["timeout_ms"]), (&json!(1), &json!(300_000)));
    assert_eq!(lease["secret"].as_str().unwrap().len(), 32);
    assert_eq!(worker.lease(1, 0), Vec::<serde_json::Value>::new());
    let hold = with_proof(
        &lease,
        &json!({
            "process": process::current().unwrap(), "progress": { "done": 3, "total": 10 },
        }),
    );
    assert_eq!(
        worker.call("heartbeat", &json!({ "holds": [hold] })).json(),
        json!({ "stops": [] })
    );
    let checkpoint = with_proof(&lease, &json!({ "data": { "cursor": "o_99" } }));
    let checkpoint = worker.call("checkpoint", &checkpoint).json();
    assert!(checkpoint["seq"].as_u64().unwrap() > 0, "{checkpoint}");
    let task = server.get(&format!("/v1/tasks/{first}")).json();
    assert_eq!((&task["status"], &task["executor_id"]), (&json!("RUNNING"), &json!(worker.id)));
    assert_eq!(
        (&task["progress"]["done"], &task["checkpoint"]["cursor"]),
        (&json!(3), &json!("o_99"))
    );
    let end = with_proof(
        &lease,
        &json!({
            "outcome": "success", "started": true, "exit_code": 0, "result": { "rows": 4 },
        }),
    );
    let finished = worker.call("finish", &json!({ "ends": [end], "slots": 1 })).json();
    assert_eq!(finished["ends"], json!([{ "status": "SUCCESS" }]));
    assert_eq!(finished["leases"][0]["task"], second);
    let again = worker.call("finish", &json!({ "ends": [end] })).json();
    assert_eq!(again["ends"], json!([{ "status": "SUCCESS" }]));
    let history = server.get(&format!("/v1/tasks/{first}/history")).json();
    assert_eq!(history["task"]["result"], json!({ "rows": 4 }));
    assert_eq!(history["attempts"][0]["outcome"], "success");
    assert_eq!(history["attempts"][0]["log"], format!("logs/{first}/1.log"));
    let workers = server.get("/v1/workers").json();
    assert_eq!(workers["workers"][0]["holds"][0]["task"], second);
    assert_eq!(workers["workers"][0]["status"], "alive");
}

#[test]
fn who_does_not_hold_the_lease_is_refused_and_told_to_stop() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "fetch_data" }));
    let (worker, thief) = (Worker::register(&server, 1), Worker::register(&server, 1));
    let lease = worker.lease(1, 0).remove(0);
    let mut forged = lease.clone();
    forged["secret"] = json!("00000000000000000000000000000000");
    for (who, lease) in [(&worker, &forged), (&thief, &lease)] {
        let checkpoint = who.call("checkpoint", &with_proof(lease, &json!({ "data": 1 })));
        let (status, code, _) = checkpoint.refusal();
        assert_eq!((status, code.as_str()), (409, "stale_lease"));
        let end = with_proof(lease, &json!({ "outcome": "success" }));
        let finished = who.call("finish", &json!({ "ends": [end] })).json();
        assert_eq!(finished["ends"][0]["error"]["code"], "stale_lease");
        let stops =
            who.call("heartbeat", &json!({ "holds": [with_proof(lease, &json!({}))] })).json();
        assert_eq!(stops["stops"][0]["stop"], "superseded");
    }
    assert_eq!(server.get(&format!("/v1/tasks/{id}")).json()["status"], "RUNNING");
    let history = server.get(&format!("/v1/tasks/{id}/history")).json().to_string();
    assert!(history.contains("refused a result with token"), "{history}");
    assert_eq!(
        worker
            .call(
                "finish",
                &json!({ "ends": [with_proof(&lease, &json!({
        "outcome": "success",
    }))] })
            )
            .json()["ends"][0]["status"],
        "SUCCESS"
    );
}

#[test]
fn a_waiting_worker_gets_a_task_as_soon_as_it_is_there() {
    let server = Server::start();
    let worker = Worker::register(&server, 1);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| worker.lease(1, 60_000));
        let id = server.submit(&json!({ "type": "fetch_data" }));
        assert_eq!(waiting.join().unwrap()[0]["task"], id);
    });
    assert_eq!(worker.lease(1, 1), Vec::<serde_json::Value>::new());
}

#[test]
fn a_worker_that_hung_up_gets_nothing() {
    let server = Server::start();
    let worker = Worker::register(&server, 1);
    let mut stream = server.connect();
    let body = r#"{"slots":1,"wait_ms":60000}"#;
    let path = format!("/v1/workers/{}/lease", worker.id);
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).unwrap();
    // Answered after it: both go through one queue.
    assert_eq!(server.get("/v1/workers").status, 200);
    drop(stream);
    // The server notices by itself; a task that comes too early would be handed back later.
    thread::sleep(std::time::Duration::from_millis(200));
    let id = server.submit(&json!({ "type": "fetch_data" }));
    assert_eq!(worker.lease(1, 10_000)[0]["task"], id);
}

#[test]
fn a_stop_reaches_the_worker_that_waits_for_it() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "fetch_data" }));
    let worker = Worker::register(&server, 1);
    let lease = worker.lease(1, 0).remove(0);
    let none = worker.call("stops", &json!({ "known": [], "wait_ms": 1 })).json();
    assert_eq!(none, json!({ "stops": [] }));
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| worker.call("stops", &json!({ "known": [], "wait_ms": 60_000 })));
        let acted = server.post(&format!("/v1/tasks/{id}/cancel"), &json!({})).json();
        assert_eq!(
            (&acted["status"], &acted["stop_requested"]),
            (&json!("RUNNING"), &json!("cancel"))
        );
        let stops = waiting.join().unwrap().json();
        let order = json!({ "task": id, "fence": lease["fence"], "stop": "cancel" });
        assert_eq!(stops, json!({ "stops": [order] }));
        let known = worker.call("stops", &json!({ "known": [order], "wait_ms": 1 })).json();
        assert_eq!(known, stops);
        let told = worker.call("checkpoint", &with_proof(&lease, &json!({ "data": 1 }))).json();
        assert_eq!(told["stop"], "cancel");
    });
    let end = with_proof(&lease, &json!({ "outcome": "cancelled", "started": true }));
    let finished = worker.call("finish", &json!({ "ends": [end] })).json();
    assert_eq!(finished["ends"][0]["status"], "CANCELLED");
}

#[test]
fn a_dead_workers_task_runs_again_elsewhere_at_once() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "fetch_data" }));
    // A child holds the lock and is the process that is watched.
    let lock = WorkerLock::take(&server.run_dir()).unwrap();
    let path = server.run_dir().join(lock.name());
    let mut child =
        std::process::Command::new("flock").arg(&path).args(["sleep", "1000"]).spawn().unwrap();
    let mut body = registration(&lock, 1);
    body["process"] = json!(process::of(child.id()).unwrap().unwrap());
    drop(lock);
    eventually("the child's lock", || (!process::is_free(&path).unwrap()).then_some(()));
    let worker = server.post("/v1/workers", &body).json()["worker"].as_u64().unwrap();
    let leased = server.post(&format!("/v1/workers/{worker}/lease"), &json!({ "slots": 1 })).json();
    assert_eq!(leased["leases"][0]["task"], id);
    // flock's own child holds the lock too: kill both, the shell way.
    let killed = std::process::Command::new("pkill").args(["-P", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    child.wait().unwrap();
    let other = Worker::register(&server, 1);
    let lease = other.lease(1, 20_000).remove(0);
    assert_eq!((&lease["task"], &lease["attempt"]), (&json!(id), &json!(2)));
    let history = server.get(&format!("/v1/tasks/{id}/history")).json();
    assert_eq!(history["attempts"][0]["outcome"], "lost");
    assert_eq!(history["task"]["lost_count"], 1);
    let gone = server.post(&format!("/v1/workers/{worker}/lease"), &json!({ "slots": 1 }));
    assert_eq!(gone.refusal().1, "no_such_worker");
}

#[test]
fn a_living_worker_keeps_its_lease_over_a_restart_of_the_engine() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "fetch_data" }));
    let worker = Worker::register(&server, 1);
    let lease = worker.lease(1, 0).remove(0);
    let Worker { id: number, lock, .. } = worker;
    let server = Server::start_in(server.stop(), |_| ()).unwrap();
    let worker = Worker { server: &server, id: number, lock };
    assert_eq!(server.get(&format!("/v1/tasks/{id}")).json()["status"], "RUNNING");
    let end = with_proof(&lease, &json!({ "outcome": "success", "started": true }));
    let finished = worker.call("finish", &json!({ "ends": [end] })).json();
    assert_eq!(finished["ends"][0]["status"], "SUCCESS");
    drop(worker);
}

#[test]
fn a_worker_that_died_with_the_engine_is_known_to_be_dead_at_the_start() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "fetch_data" }));
    let worker = Worker::register(&server, 1);
    worker.lease(1, 0).remove(0);
    let Worker { lock, .. } = worker;
    let dir = server.stop();
    drop(lock);
    let server = Server::start_in(dir, |_| ()).unwrap();
    let other = Worker::register(&server, 1);
    assert_eq!(other.lease(1, 20_000)[0]["task"], id);
    assert_eq!(server.get("/v1/workers").json()["workers"].as_array().unwrap().len(), 1);
}

#[test]
fn a_registration_without_a_held_lock_or_out_of_bounds_is_refused() {
    let server = Server::start();
    let lock = WorkerLock::take(&server.run_dir()).unwrap();
    let good = registration(&lock, 1);
    for (field, value) in [
        ("lock", json!("worker-none.lock")),
        ("lock", json!("../midwatch.lock")),
        ("lock", json!("worker-/../x.lock")),
        ("slots", json!(0)),
        ("slots", json!(100_000)),
        ("name", json!("")),
    ] {
        let mut bad = good.clone();
        bad[field] = value.clone();
        let (status, code, detail) = server.post("/v1/workers", &bad).refusal();
        assert_eq!((status, code.as_str()), (400, "invalid_request"), "{field} {value}");
        assert!(detail.contains(field), "{detail}");
    }
    assert_eq!(server.post("/v1/workers", &good).status, 200);
    let gone = server.post("/v1/workers/77/heartbeat", &json!({ "holds": [] })).refusal();
    assert_eq!((gone.0, gone.1.as_str()), (404, "no_such_worker"));
    let gone = server.post("/v1/workers/77/stops", &json!({ "known": [], "wait_ms": 9 })).refusal();
    assert_eq!(gone.1, "no_such_worker");
}

#[test]
fn a_result_that_is_too_large_is_refused_alone() {
    let server = Server::start();
    server.submit(&json!({ "type": "fetch_data" }));
    server.submit(&json!({ "type": "fetch_data" }));
    let worker = Worker::register(&server, 2);
    let leases = worker.lease(2, 0);
    let large =
        with_proof(&leases[0], &json!({ "outcome": "success", "result": "x".repeat(65_536) }));
    let small = with_proof(&leases[1], &json!({ "outcome": "success", "result": "x" }));
    let finished = worker.call("finish", &json!({ "ends": [large, small] })).json();
    assert_eq!(finished["ends"][0]["error"]["code"], "invalid_payload");
    assert_eq!(finished["ends"][1]["status"], "SUCCESS");
    let without = with_proof(&leases[0], &json!({ "outcome": "success" }));
    let finished = worker.call("finish", &json!({ "ends": [without] })).json();
    assert_eq!(finished["ends"][0]["status"], "SUCCESS");
}

#[test]
fn a_worker_that_leaves_is_gone() {
    let server = Server::start();
    let worker = Worker::register(&server, 1);
    assert_eq!(worker.call("leave", &json!({})).status, 200);
    assert_eq!(server.get("/v1/workers").json(), json!({ "workers": [] }));
    assert_eq!(worker.call("leave", &json!({})).refusal().1, "no_such_worker");
}
