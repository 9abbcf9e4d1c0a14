//! People and programs that misbehave, and who may come in at all.

use super::fixture::{Answer, Server};
use serde_json::json;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::thread;
use std::time::Duration;

#[test]
fn broken_json_is_refused_with_its_place() {
    let server = Server::start();
    let body = b"{\"type\": \"fetch_data\",\n \"payload\": {\"a\": tru}}";
    let (status, code, detail) =
        server.send("POST", "/v1/tasks", "application/json", body).refusal();
    assert_eq!((status, code.as_str()), (400, "invalid_request"));
    assert!(detail.contains("line 2 column 22"), "{detail}");
}

#[test]
fn a_payload_over_a_mebibyte_is_refused_and_one_of_a_mebibyte_is_taken() {
    let server = Server::start();
    let of = |bytes: usize| json!({ "type": "fetch_data", "payload": "x".repeat(bytes - 2) });
    assert_eq!(server.post("/v1/tasks", &of(1 << 20)).status, 201);
    let (status, code, detail) = server.post("/v1/tasks", &of((1 << 20) + 1)).refusal();
    assert_eq!((status, code.as_str()), (422, "invalid_payload"));
    assert!(detail.contains("1048577"), "{detail}");
}

// B79
#[test]
fn a_huge_body_is_refused_before_it_is_read() {
    let server = Server::start();
    let mut stream = server.connect();
    let head = "POST /v1/tasks HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1099511627776\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let (status, code, _) = Answer::read(&mut stream).refusal();
    assert_eq!((status, code.as_str()), (400, "invalid_request"));
    let large = vec![b' '; (4 << 20) + 1];
    let mut stream = server.connect();
    let head = "POST /v1/tasks HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(format!("{:x}\r\n", large.len()).as_bytes()).unwrap();
    drop(stream.write_all(&large));
    assert_eq!(Answer::read(&mut stream).refusal().0, 400);
}

// B79
#[test]
fn slow_half_closed_and_garbled_clients_harm_nobody() {
    let server = Server::start();
    let mut slow = server.connect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for byte in b"POST /v1/ta" {
                slow.write_all(&[*byte]).unwrap();
                thread::sleep(Duration::from_millis(100));
            }
        });
        for garbage in
            [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET", b"\0\0\0\0", b"NICE / HTTP/9.9\r\n\r\n"]
        {
            let mut stream = server.connect();
            stream.write_all(garbage).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut rest = Vec::new();
            drop(stream.read_to_end(&mut rest));
        }
        for _ in 0..50 {
            drop(server.connect());
        }
        let mut half = server.connect();
        half.write_all(
            b"POST /v1/tasks HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"type\":",
        )
        .unwrap();
        half.shutdown(Shutdown::Write).unwrap();
        for _ in 0..10 {
            server.submit(&json!({ "type": "render" }));
        }
    });
    assert_eq!(server.get("/v1/tasks").json()["total"], 10);
}

// B79
#[test]
fn a_thousand_idle_connections_leave_room_for_work() {
    let server = Server::start();
    let idle: Vec<_> = (0..1000).map(|_| server.connect()).collect();
    for _ in 0..10 {
        server.submit(&json!({ "type": "render" }));
    }
    assert_eq!(idle.len(), 1000);
}

// B79
#[test]
fn a_reader_who_never_reads_stops_nobody_else() {
    let server = Server::start();
    let payload = "x".repeat(1 << 19);
    for _ in 0..4 {
        server.submit(&json!({ "type": "render", "payload": payload }));
    }
    let mut lazy: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for stream in &mut lazy {
        stream.write_all(b"GET /v1/tasks HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    }
    server.submit(&json!({ "type": "render" }));
    assert_eq!(server.get("/v1/tasks?limit=1").json()["total"], 5);
}

// B81
#[test]
fn a_named_group_gets_the_socket_outside_of_the_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("run/midwatch.sock");
    let gid = rustix::process::getegid().as_raw();
    let path = socket.clone();
    let server = Server::start_in(dir, move |config| {
        config.socket = path;
        config.http.socket_group = Some(gid.to_string());
    })
    .unwrap();
    let meta = std::fs::metadata(&socket).unwrap();
    assert_eq!((meta.permissions().mode() & 0o7777, meta.gid()), (0o660, gid));
    drop(server);
    let dir = tempfile::tempdir().unwrap();
    let refused = Server::start_in(dir, |config| {
        config.http.operate_group = Some("no-such-group-here".to_owned());
    });
    let error = refused.err().unwrap();
    assert_eq!(error.exit_code, 2);
    assert!(error.text.contains("no-such-group-here"), "{}", error.text);
}

/// A second user on the socket; needs root to become one.
// B81
#[test]
fn another_user_may_look_and_submit_and_nothing_more() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can play a second user");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let socket = dir.path().join("run/midwatch.sock");
    let path = socket.clone();
    let server = Server::start_in(dir, move |config| {
        config.socket = path;
        config.http.socket_group = Some("65534".to_owned());
    })
    .unwrap();
    let stranger = |method: &str, path: &str, body: &str| {
        let url = format!("http://x{path}");
        let output = std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-sS"])
            .args(["--max-time", "20", "-X", method, "--unix-socket"])
            .arg(&socket)
            .args(["-H", "content-type: application/json", "-d", body, &url])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let id = &stranger("POST", "/v1/tasks", r#"{"type":"render"}"#)["id"];
    assert_eq!(stranger("GET", &format!("/v1/tasks/{id}"), "")["status"], "PENDING");
    let refused = stranger("POST", &format!("/v1/tasks/{id}/cancel"), "{}");
    assert_eq!(refused["code"], "not_permitted");
    let exec = r#"{"type":"exec","payload":{"argv":["/bin/true"]}}"#;
    assert_eq!(stranger("POST", "/v1/tasks", exec)["code"], "not_permitted");
    let schedule = r#"{"type":"fetch_data","cron":"@daily"}"#;
    for (method, path, body) in [
        ("POST", "/v1/schedules/x", schedule),
        ("POST", "/v1/schedules/x/trigger", "{}"),
        ("DELETE", "/v1/schedules/x", ""),
    ] {
        assert_eq!(stranger(method, path, body)["code"], "not_permitted", "{method} {path}");
    }
    assert_eq!(stranger("POST", "/v1/workers/1/lease", "{}")["code"], "not_permitted");
    drop(server);
}
