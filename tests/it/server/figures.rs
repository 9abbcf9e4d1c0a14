//! Figures as the API and Prometheus get them.

use super::fixture::{Server, Worker, with_proof};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// A server on which a task ended well, one failed, one waits, and a schedule stands.
pub(super) fn busy() -> Server {
    let server = Server::start();
    for kind in ["fetch_data", "fetch_data", "render"] {
        server.submit(&json!({"type": kind, "payload": {"n": 1}, "max_retry": 0}));
    }
    let body = json!({"type": "render", "every": "1h"});
    let answer = server.post("/v1/schedules/hourly", &body);
    assert!(answer.status < 300, "{}", answer.text());
    let worker = Worker::register(&server, 2);
    let leases = worker.lease(2, 5_000);
    for (lease, outcome) in leases.iter().zip(["success", "fatal"]) {
        let more = json!({"outcome": outcome, "started": true, "ran_ms": 1_500});
        let ends = [with_proof(lease, &more)];
        let answer = worker.call("finish", &json!({"ends": ends, "slots": 0}));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    server
}

fn is(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-9
}

/// The values of the metrics by their name and labels, and the kind and help of each family.
fn parse(text: &str) -> (BTreeMap<String, f64>, BTreeMap<String, (String, String)>) {
    let (mut values, mut families) = (BTreeMap::new(), BTreeMap::<String, (String, String)>::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            help.clone_into(&mut families.entry(name.to_owned()).or_default().1);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            kind.clone_into(&mut families.entry(name.to_owned()).or_default().0);
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(values.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{name}");
        }
    }
    (values, families)
}

#[test]
fn the_five_figures_and_each_types_are_told_and_are_the_same_after_a_restart() {
    let server = busy();
    let stats = server.get("/v1/stats?minutes=1").json();
    let success = json!({"ended": 2, "succeeded": 1, "rate": 0.5});
    assert_eq!(stats["success"], success);
    assert_eq!(stats["consistency"]["ok"], true, "{stats}");
    assert_eq!(stats["consistency"]["taken"], 3);
    assert_eq!(stats["backlog"]["waiting"], 1);
    let fetch = &stats["types"][0];
    assert_eq!(fetch["type"], "fetch_data");
    assert_eq!((&fetch["created"], &fetch["failed"]), (&json!(2), &json!(1)));
    assert_eq!(fetch["run"]["count"], 2);
    assert_eq!(fetch["run"]["max_ms"], 1_500);
    assert_eq!(stats["minutes"].as_array().map(Vec::len).map(|minutes| minutes <= 2), Some(true));
    let dir = server.stop();
    let server = Server::start_in(dir, |_| ()).unwrap();
    let again = server.get("/v1/stats?minutes=1").json();
    for key in ["types", "success", "retries", "consistency", "punctuality", "run", "wait"] {
        assert_eq!(again[key], stats[key], "{key}");
    }
}

#[test]
fn a_span_that_is_not_kept_is_refused() {
    let server = Server::start();
    for (since, word) in [("2d", "older is not kept"), ("0s", "from 1s"), ("soon", "since")] {
        let (status, code, detail) = server.get(&format!("/v1/stats?since={since}")).refusal();
        assert_eq!((status, code.as_str()), (400, "invalid_request"));
        assert!(detail.contains(word), "{detail}");
    }
    assert!(server.get("/v1/stats?since=1h").json()["span_ms"].as_u64().unwrap() < 75 * 60_000);
}

#[test]
fn prometheus_gets_every_metric_of_the_page_and_no_other() {
    let server = busy();
    let answer = server.get("/metrics");
    assert!(answer.head.contains("text/plain; version=0.0.4"), "{}", answer.head);
    let text = answer.text();
    let (values, families) = parse(&text);
    let value = |name: &str| values.get(name).copied().unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(is(value("midwatch_tasks_created_total{type=\"fetch_data\"}"), 2.0));
    let ended = "midwatch_tasks_ended_total{type=\"fetch_data\",status=\"failed\"}";
    assert!(is(value(ended), 1.0));
    assert!(is(value("midwatch_run_seconds_count{type=\"fetch_data\"}"), 2.0));
    let bucket = "midwatch_run_seconds_bucket{le=\"+Inf\",type=\"fetch_data\"}";
    let other = "midwatch_run_seconds_bucket{type=\"fetch_data\",le=\"+Inf\"}";
    let last = values.get(bucket).or_else(|| values.get(other)).unwrap();
    assert!(is(*last, 2.0));
    assert!(is(value("midwatch_account_ok"), 1.0));
    assert!(0.0 < value("midwatch_sync_seconds_count"));
    assert!(is(value("midwatch_alerts{grade=\"warning\"}"), 1.0));
    assert!(is(value("midwatch_alerts{grade=\"critical\"}"), 0.0));
    // The page lists them all, with their kinds.
    let page = fs::read_to_string("spec/metrics.md").unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `midwatch_"));
    let documented: BTreeMap<String, String> = rows
        .map(|row| {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            (format!("midwatch_{}", cells[0].trim_end_matches('`')), cells[1].to_owned())
        })
        .collect();
    let told: BTreeMap<_, _> =
        families.iter().map(|(name, (kind, _))| (name.clone(), kind.clone())).collect();
    assert_eq!(told, documented);
    assert!(families.values().all(|(_, help)| help.ends_with('.')), "{families:?}");
}

#[test]
fn whoever_asks_for_open_metrics_gets_them() {
    let server = busy();
    let mut stream = server.connect();
    let head = "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n";
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let answer = super::fixture::Answer::read(&mut stream);
    assert!(answer.head.contains("application/openmetrics-text"), "{}", answer.head);
    assert!(answer.text().ends_with("# EOF\n"));
}

/// The names in an expression that begin as ours do.
fn names(text: &str) -> BTreeSet<String> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words = text.split(|char| !is_name(char));
    words.filter(|word| word.starts_with("midwatch_")).map(str::to_owned).collect()
}

#[test]
fn dashboard_and_rules_name_metrics_that_are_there() {
    let server = busy();
    let (values, _) = parse(&server.get("/metrics").text());
    let known: BTreeSet<_> =
        values.keys().map(|name| name.split('{').next().unwrap().to_owned()).collect();
    // Of these nothing was counted on that server.
    let rare = ["midwatch_schedule_last_success_timestamp_seconds"];
    for file in ["packaging/prometheus/midwatch.rules.yml", "packaging/grafana/midwatch.json"] {
        let text = fs::read_to_string(file).unwrap();
        let used = names(&text);
        assert!(10 < used.len(), "{file}: {used:?}");
        for name in used {
            assert!(known.contains(&name) || rare.contains(&name.as_str()), "{file}: {name}");
        }
    }
    let dashboard = fs::read("packaging/grafana/midwatch.json").unwrap();
    serde_json::from_slice::<serde_json::Value>(&dashboard).unwrap();
    let rules = "packaging/prometheus/midwatch.rules.yml";
    match Command::new("promtool").args(["check", "rules", rules]).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        Err(error) => println!("SKIPPED: promtool does not check the rules: {error}"),
    }
}
