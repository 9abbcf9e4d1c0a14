//! The pages for people: their headers and roles, their size, and how they do in a real browser.

use super::fixture::{Answer, Server, Worker, with_proof};
use super::tcp::{OPERATE, READ, SUBMIT, ask, listening};
use midwatch::config::{Config, Handler, Retry};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What must stay text wherever it appears.
const NASTY: &str = "<img src=x onerror=\"hacked=1\"><script>hacked=1</script>'\"&\u{202e}";

fn token(token: &str) -> String {
    format!("authorization: Bearer {token}")
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let line = answer.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name}: {}", answer.head))
}

#[test]
fn a_page_tells_the_browser_to_run_nothing_else_and_to_keep_nothing() {
    let server = Server::start();
    let id = server.submit(&json!({ "type": "render" }));
    for (path, status) in [
        ("/".to_owned(), 200),
        (format!("/tasks/{id}"), 200),
        ("/tasks/99".to_owned(), 404),
        ("/tasks/x".to_owned(), 400),
    ] {
        let page = server.get(&path);
        assert_eq!(page.status, status, "{path}");
        assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
        assert_eq!(header(&page, "cache-control"), "no-store");
        assert_eq!(header(&page, "x-content-type-options"), "nosniff");
        let policy = header(&page, "content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'sha256-",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
    }
    assert!(server.get("/tasks/99").text().contains("midwatch list"));
}

#[test]
fn thousands_of_tasks_make_no_page_of_60_kib() {
    let server = Server::start();
    let line = json!({ "type": "render", "payload": NASTY.repeat(50) }).to_string() + "\n";
    let answer =
        server.send("POST", "/v1/tasks", "application/x-ndjson", line.repeat(5000).as_bytes());
    assert_eq!(answer.lines().len(), 5000);
    let page = server.get("/");
    assert!(page.text().contains("5,000"), "{}", page.text());
    assert!(page.body.len() < 60 << 10, "{} bytes", page.body.len());
    let page = server.get("/tasks/1");
    assert!(page.body.len() < 60 << 10, "{} bytes", page.body.len());
}

/// The word in the forms of a page.
fn word(page: &str) -> Option<&str> {
    page.split("name=\"word\" value=\"").nth(1)?.split('"').next()
}

#[test]
fn an_order_needs_the_role_a_page_of_ours_and_its_word() {
    let (server, at) = listening(|_| ());
    let id = server.submit(&json!({ "type": "render" }));
    let path = format!("/tasks/{id}");
    let page = |role: &str| ask(at, "GET", &path, &[&token(role)], "").text();
    assert_eq!(word(&page(READ)), None);
    assert_eq!(word(&page(SUBMIT)), None);
    let operator = page(OPERATE);
    let form = format!("word={}", word(&operator).unwrap());
    let origin = format!("origin: http://{at}");
    let order = |role: &str, lines: &[&str], form: &str| {
        let token = token(role);
        let lines: Vec<_> = lines.iter().copied().chain([token.as_str()]).collect();
        ask(at, "POST", &format!("{path}/cancel"), &lines, form)
    };
    assert_eq!(order(READ, &[&origin], &form).status, 403);
    assert_eq!(order(OPERATE, &[], &form).status, 403);
    assert_eq!(order(OPERATE, &["origin: https://evil.example"], &form).status, 403);
    assert_eq!(order(OPERATE, &[&origin], "word=00000000000000000000000000000000").status, 403);
    assert_eq!(server.get(&format!("/v1{path}")).json()["status"], "PENDING");
    let answer = order(OPERATE, &[&origin], &form);
    assert_eq!((answer.status, header(&answer, "location")), (303, path.as_str()));
    assert_eq!(server.get(&format!("/v1{path}")).json()["status"], "CANCELLED");
    let again = ask(at, "POST", &format!("{path}/retry"), &[&origin, &token(OPERATE)], &form);
    assert_eq!(header(&again, "location"), format!("/tasks/{}", id + 1));
    let refused = order(OPERATE, &[&origin, "sec-fetch-site: same-origin"], &form);
    assert!(refused.status == 303 || refused.status == 409, "{}", refused.text());
    let by = server.get(&format!("/v1{path}/history")).json()["transitions"][1]["by"].clone();
    assert_eq!(by, "token operate");
}

fn handlers(config: &mut Config) {
    for kind in [NASTY, "render"] {
        let handler = Handler::new(vec!["/bin/true".to_owned()], Retry::default());
        config.handlers.insert(kind.to_owned(), handler);
    }
}

/// A browser and what drives it; where they are missing that is said, and the test is passed over.
fn has_browser() -> bool {
    let there = |name: &str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output();
        found.is_ok_and(|found| found.status.success())
    };
    let browsers = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    if there("python3") && browsers.into_iter().any(there) {
        return true;
    }
    eprintln!("SKIPPED: no Chromium or no Python; the status page was not looked at");
    false
}

/// One task that failed for good, one that runs, each with texts that would be markup.
fn with_texts(server: &Server) -> (u64, u64, Worker<'_>) {
    let nasty =
        json!({ "type": "fetch_data", "payload": { "text": NASTY }, "max_retry": 0, "key": NASTY });
    let dead = server.submit(&nasty);
    let running = server.submit(&json!({ "type": "fetch_data", "payload": NASTY }));
    let waiting = json!({ "type": NASTY, "payload": null });
    server.submit(&waiting);
    let worker = Worker::register(server, 4);
    let leases = worker.lease(4, 0);
    for lease in &leases {
        let id = lease["task"].as_u64().unwrap();
        let logs = server.dir.path().join(format!("data/logs/{id}"));
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::write(logs.join("1.log"), format!("\x1b[31m{NASTY}\x1b[0m\n").repeat(300))
            .unwrap();
        if id == dead {
            let end = with_proof(lease, &json!({ "outcome": "fatal", "error": NASTY }));
            assert_eq!(worker.call("finish", &json!({ "ends": [end] })).status, 200);
        } else {
            let progress = json!({ "done": 3, "total": 9, "note": NASTY });
            let hold = with_proof(lease, &json!({ "progress": progress, "process": null }));
            let heard = worker.call("heartbeat", &json!({ "holds": [hold] }));
            assert_eq!(heard.status, 200, "{}", heard.text());
        }
    }
    let reason = json!({ "reason": NASTY });
    assert_eq!(server.post("/v1/types/fetch_data/pause", &reason).status, 200);
    (dead, running, worker)
}

#[test]
fn in_a_browser_it_lives_texts_stay_texts_and_it_is_whole_without_javascript() {
    if !has_browser() {
        return;
    }
    let (server, at) = listening(handlers);
    let (dead, running, _worker) = with_texts(&server);
    let given: Value = json!({
        "url": format!("http://{at}"), "read": READ, "operate": OPERATE,
        "dead": dead, "running": running,
    });
    let mut check = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page/check.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
    let done = check.wait_with_output().unwrap();
    println!("{}", String::from_utf8_lossy(&done.stdout));
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}\n{why}", String::from_utf8_lossy(&done.stdout));
}
