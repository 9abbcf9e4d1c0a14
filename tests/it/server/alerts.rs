//! `/v1/alerts`, and alerts of the house.

use super::fixture::{Server, Worker, eventually, with_proof};
use midwatch::kernel::ids::Millis;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

fn until(server: &Server, what: &str, found: impl Fn(&[Value]) -> bool) {
    let began = Instant::now();
    loop {
        let all = server.get("/v1/alerts").json();
        if found(all["alerts"].as_array().unwrap()) {
            return;
        }
        assert!(began.elapsed() < super::fixture::LONG, "never came true: {what}: {all}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn there_are_no_alerts_at_first_and_what_is_not_there_cannot_be_acknowledged() {
    let server = Server::start();
    assert_eq!(server.get("/v1/alerts").json(), json!({ "alerts": [], "channels": [] }));
    let refused = server.post("/v1/alerts/7/ack", &json!({})).refusal();
    assert_eq!((refused.0, &*refused.1), (404, "no_such_alert"));
    assert_eq!(server.post("/v1/alerts/x/ack", &json!({})).status, 400);
    assert_eq!(server.post("/v1/alerts/test", &json!({})).json(), json!({ "channels": [] }));
    let refused = server.post("/v1/alerts/test", &json!({ "channel": "ops" })).refusal();
    assert_eq!((refused.0, &*refused.1), (404, "no_such_alert"));
    assert_eq!(server.post("/v1/alerts/test", &json!({ "chanel": "ops" })).status, 400);
}

// B85: a worker that was given up was told by nobody, or by everybody again and again.
#[test]
fn b85_a_parked_worker_is_one_critical_alert_however_often_it_is_told() {
    let server = Server::start();
    for _ in 0..3 {
        server.hear("parked w1 ended with exit code 3\n");
    }
    until(&server, "it is an alert", |all| !all.is_empty());
    server.hear("parked w1 ended with exit code 3\n");
    let all = server.get("/v1/alerts").json();
    let [alert] = all["alerts"].as_array().unwrap().as_slice() else { panic!("{all}") };
    assert_eq!((&alert["rule"], &alert["subject"]), (&json!("child_parked"), &json!("w1")));
    assert_eq!((&alert["level"], &alert["count"]), (&json!("critical"), &json!(1)));
    let number = alert["id"].to_string();
    let acked = server.post(&format!("/v1/alerts/{number}/ack"), &json!({})).json();
    assert_eq!((&acked["changed"], &acked["state"]), (&json!(true), &json!("standing")));
    // Status says it once.
    let status = server.get("/v1/status").json();
    assert_eq!(status["attention"].as_array().unwrap().len(), 1, "{status}");
    server.hear("well w1\n");
    until(&server, "it is over", |all| all.iter().all(|alert| alert["state"] == "over"));
}

#[test]
fn the_page_shows_who_knows_of_an_alert_and_says_nothing_twice() {
    let server = super::figures::busy();
    let section = || {
        let page = server.get("/").text();
        let section = page.split("<section id=\"alerts\" data-live").nth(1).unwrap().to_owned();
        section.split("</section>").next().unwrap().to_owned()
    };
    let found = section();
    assert!(found.contains("Alerts (1)"), "{found}");
    assert!(found.contains("warning</span> task 2 fetch_data is FAILED"), "{found}");
    assert!(found.contains("<code>midwatch alerts ack 1</code>"), "{found}");
    assert_eq!(server.post("/v1/alerts/1/ack", &json!({})).status, 200);
    let found = section();
    assert!(found.contains("acknowledged by uid ") && !found.contains("ack 1<"), "{found}");
    // A worker that was given up is among the points of attention.
    server.hear("parked w1 ended with exit code 3\n");
    until(&server, "it is an alert", |all| all.len() == 2);
    let found = section();
    assert!(found.contains("Alerts (1)") && !found.contains("w1"), "{found}");
    assert!(found.contains("1 more is told at the top of the page."), "{found}");
    server.hear("well w1\n");
    until(&server, "it is over", |all| all.iter().any(|alert| alert["state"] == "over"));
    let found = section();
    assert!(found.contains("over</span>") && found.contains("w1"), "{found}");
}

fn standing(server: &Server) -> Vec<Value> {
    let all = server.get("/v1/alerts").json();
    let stands = |alert: &&Value| alert["over"].is_null();
    all["alerts"].as_array().unwrap().iter().filter(stands).cloned().collect()
}

/// The health in a word, and the points of attention.
fn status(server: &Server) -> (String, Vec<Value>) {
    let status = server.get("/v1/status").json();
    let points = status["attention"].as_array().unwrap().clone();
    (status["health"].as_str().unwrap().to_owned(), points)
}

/// Whatever makes a point critical is an alert too, and calm once somebody knows of it.
// spec: ALT-012
#[test]
fn what_somebody_acknowledged_is_calm_in_status_and_critical_again_when_it_comes_back() {
    let server = Server::start_in(tempfile::tempdir().unwrap(), |config| {
        config.retention.max_state = 1 << 20;
    })
    .unwrap();
    // The state is full, and no worker takes anything of it.
    let filler = json!({ "type": "fetch_data", "payload": "x".repeat(5_000) });
    while server.post("/v1/tasks", &filler).status == 201 {}
    let quarantine = server.dir.path().join("data/quarantine");
    let damage = || {
        std::fs::create_dir_all(&quarantine).unwrap();
        std::fs::write(quarantine.join("piece"), b"x").unwrap();
    };
    damage();
    let rules = ["child_parked", "journal_damaged", "no_worker", "state_full"];
    let all = || {
        let mut found: Vec<_> = standing(&server);
        found.sort_by_key(|alert| alert["rule"].to_string());
        found
    };
    let found = eventually("each is an alert", || {
        server.hear("parked w1 ended with exit code 3\n");
        thread::sleep(Duration::from_millis(500));
        Some(all()).filter(|found| found.len() == rules.len())
    });
    let named: Vec<_> = found.iter().map(|alert| alert["rule"].as_str().unwrap()).collect();
    assert_eq!(named, rules);
    let (health, points) = status(&server);
    assert_eq!(health, "CRITICAL");
    for alert in &found {
        let key =
            format!("{} {}", alert["rule"].as_str().unwrap(), alert["subject"].as_str().unwrap());
        let point = points.iter().find(|point| point["alert"] == key.as_str()).unwrap();
        let ack = json!(format!("midwatch alerts ack {}", alert["id"]));
        assert_eq!(point["critical"], true, "{point}");
        assert!(point["commands"].as_array().unwrap().contains(&ack), "{point}");
    }
    for alert in &found {
        let path = format!("/v1/alerts/{}/ack", alert["id"]);
        assert_eq!(server.post(&path, &json!({})).status, 200);
    }
    let (health, points) = status(&server);
    assert_eq!(health, "ATTENTION", "{points:?}");
    for point in &points {
        assert_eq!(point["critical"], false);
        assert!(point["what"].as_str().unwrap().contains(" (acknowledged by "), "{point}");
        assert!(!point["commands"].to_string().contains("alerts ack"), "{point}");
    }
    // One of them is over, and comes back.
    std::fs::remove_dir_all(&quarantine).unwrap();
    let damaged = || all().into_iter().find(|alert| alert["rule"] == "journal_damaged");
    eventually("it is over", || {
        server.hear("well w9\n");
        thread::sleep(Duration::from_millis(500));
        damaged().is_none().then_some(())
    });
    assert_eq!(status(&server).0, "ATTENTION");
    damage();
    assert_eq!(status(&server).0, "CRITICAL", "also before it is an alert again");
    eventually("it is one again", || {
        server.hear("well w9\n");
        thread::sleep(Duration::from_millis(500));
        damaged()
    });
    let (health, points) = status(&server);
    assert_eq!(health, "CRITICAL");
    let critical: Vec<_> = points.iter().filter(|point| point["critical"] == true).collect();
    assert_eq!(critical.len(), 1, "{points:?}");
    assert_eq!(critical[0]["alert"], "journal_damaged journal");
}

#[test]
fn a_failed_task_is_named_until_a_run_of_it_again_ends_well_however_often_that_fails() {
    let server = Server::start();
    let worker = Worker::register(&server, 1);
    let run = |outcome: &str| {
        let lease = worker.lease(1, 5_000).remove(0);
        let end = with_proof(&lease, &json!({ "outcome": outcome, "started": true }));
        let answer = worker.call("finish", &json!({ "ends": [end], "slots": 0 }));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let again = |id: u64| {
        let answer = server.post(&format!("/v1/tasks/{id}/retry"), &json!({}));
        assert!(answer.status < 300, "{}", answer.text());
        answer.json()["id"].as_u64().unwrap()
    };
    let told = || {
        let points = status(&server).1.into_iter();
        points.map(|point| point["what"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = server.submit(&json!({ "type": "fetch_data" }));
    run("fatal");
    let other = server.submit(&json!({ "type": "fetch_data" }));
    run("fatal");
    assert_eq!(told().len(), 2, "{:?}", told());
    let second = again(first);
    run("fatal");
    assert_eq!(told().iter().filter(|what| what.starts_with("task ")).count(), 3);
    again(second);
    run("success");
    let told = told();
    let [what] = told.as_slice() else { panic!("{told:?}") };
    assert!(what.starts_with(&format!("task {other} fetch_data is FAILED")), "{what}");
}

#[test]
fn the_slots_of_a_worker_that_is_offline_are_counted_nowhere() {
    let server = Server::start_in(tempfile::tempdir().unwrap(), |config| {
        config.worker.heartbeat = Millis(100);
        config.worker.suspect_after = Millis(200);
        config.worker.offline_after = Millis(400);
    })
    .unwrap();
    server.submit(&json!({ "type": "fetch_data" }));
    let worker = Worker::register(&server, 3);
    worker.lease(1, 5_000);
    let status = eventually("it is offline", || {
        let status = server.get("/v1/status").json();
        (status["workers_offline"] == 1).then_some(status)
    });
    let metrics = server.get("/metrics").text();
    for name in ["slots", "slots_busy"] {
        assert_eq!(status[name], 0, "{status}");
        let line = format!("midwatch_{name} 0");
        assert!(metrics.lines().any(|it| it.starts_with(&line)), "{line}: {metrics}");
    }
    // It is said once: by the point, which names the alert and offers what calms it.
    let lost = &status["attention"].as_array().unwrap()[..];
    let point = lost.iter().find(|point| point["alert"] == "worker_lost w1").unwrap();
    assert!(point["commands"].to_string().contains("midwatch alerts ack "), "{point}");
}
