//! The TCP door: tokens and their roles, names, other sites, and what is open.

use super::fixture::{Answer, Server};
use midwatch::config::Config;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

pub(super) const READ: &str = "reader-0123456789abcdef";
pub(super) const SUBMIT: &str = "submitter-0123456789abcdef";
pub(super) const OPERATE: &str = "operator-0123456789abcdef";

/// A server that listens on an address of its own: the whole of 127/8 is this host.
pub(super) fn listening(change: impl FnOnce(&mut Config)) -> (Server, SocketAddr) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let [last, low, high, _] = std::process::id().to_le_bytes();
    let number = u8::try_from(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap();
    let address = SocketAddr::from(([127, 1 + (high ^ low) % 254, last, 1 + number], 8474));
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens");
    write_tokens(&tokens, &format!("{READ}\nsubmit {SUBMIT}\noperate {OPERATE}\n"));
    let server = Server::start_in(dir, |config| {
        config.http.listen = Some(address);
        config.http.token_file = Some(tokens);
        change(config);
    });
    (server.unwrap(), address)
}

fn write_tokens(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Sends a request with these lines in its head, and the address as host unless they name one.
pub(super) fn ask(to: SocketAddr, method: &str, path: &str, lines: &[&str], body: &str) -> Answer {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(super::fixture::LONG)).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !lines.iter().any(|line| line.starts_with("host:")) {
        head += &format!("host: {to}\r\n");
    }
    for line in lines {
        head += &format!("{line}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    Answer::parse(&bytes)
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}")
}

fn refused(answer: &Answer) -> (u16, String) {
    let (status, code, _) = answer.refusal();
    (status, code)
}

#[test]
fn without_a_token_that_is_known_nobody_comes_in_and_a_browser_is_told_to_ask_for_one() {
    let (server, at) = listening(|_| ());
    for lines in [vec![], vec!["authorization: Bearer wrong-0123456789"], vec!["authorization: x"]]
    {
        for path in ["/", "/tasks/1", "/v1/tasks", "/v1/events", "/metrics", "/nowhere"] {
            let answer = ask(at, "GET", path, &lines, "");
            assert_eq!(refused(&answer), (401, "no_token".to_owned()), "{path}");
            assert!(answer.head.contains("www-authenticate: basic realm=\"midwatch\""));
            assert!(answer.head.contains("www-authenticate: bearer realm=\"midwatch\""));
            if !lines.is_empty() {
                break; // each waits for a second
            }
        }
    }
    let basic = format!("authorization: Basic {}", base64(&format!("me:{READ}")));
    assert_eq!(ask(at, "GET", "/v1/tasks", &[&basic], "").status, 200);
    assert_eq!(ask(at, "GET", "/v1/tasks", &[&bearer(READ)], "").status, 200);
    drop(server);
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut coded = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0, |bits, n| bits << 8 | u32::from(*three.get(n).unwrap_or(&0)));
        for n in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * n) & 63) as usize];
            coded.push(if n <= three.len() { char::from(letter) } else { '=' });
        }
    }
    coded
}

#[test]
fn each_role_may_what_it_says_and_no_token_makes_a_worker() {
    let (server, at) = listening(|_| ());
    let post = |token: &str, path: &str, body: &str| ask(at, "POST", path, &[&bearer(token)], body);
    let task = json!({ "type": "fetch_data" }).to_string();
    let no = (403, "not_permitted".to_owned());
    assert_eq!(refused(&post(READ, "/v1/tasks", &task)), no);
    assert_eq!(post(SUBMIT, "/v1/tasks", &task).status, 201);
    assert_eq!(refused(&post(SUBMIT, "/v1/tasks/1/cancel", "")), no);
    assert_eq!(refused(&post(READ, "/v1/tasks/1/cancel", "")), no);
    assert_eq!(post(OPERATE, "/v1/tasks/1/cancel", "").status, 200);
    let exec = json!({ "type": "exec", "payload": { "argv": ["true"] } }).to_string();
    for token in [READ, SUBMIT, OPERATE] {
        assert_eq!(refused(&post(token, "/v1/workers", "{}")), no);
        assert_eq!(refused(&post(token, "/v1/workers/1/lease", "{}")), no);
        assert_eq!(refused(&post(token, "/v1/tasks", &exec)), no);
        assert_eq!(ask(at, "GET", "/v1/tasks", &[&bearer(token)], "").status, 200);
    }
    let history = server.get("/v1/tasks/1/history").json();
    let by: Vec<_> = history["transitions"].as_array().unwrap().iter().map(|t| &t["by"]).collect();
    assert_eq!(by, ["token submit", "token operate"]);
}

#[test]
fn only_who_asks_for_one_of_our_names_is_answered_and_no_page_of_another_site() {
    let (_server, at) = listening(|config| config.http.hosts = vec!["watch.example".to_owned()]);
    let with = |method: &str, lines: &[&str]| {
        let token = bearer(READ);
        let lines: Vec<_> = lines.iter().copied().chain([token.as_str()]).collect();
        let answer = ask(at, method, "/v1/tasks", &lines, "{}");
        if answer.status == 200 { (200, String::new()) } else { refused(&answer) }
    };
    let fine = (200, String::new());
    assert_eq!(with("GET", &["host: localhost:1"]), fine);
    assert_eq!(with("GET", &["host: watch.example"]), fine);
    assert_eq!(with("GET", &["host: evil.example"]), (421, "wrong_host".to_owned()));
    let cross = (403, "cross_site".to_owned());
    assert_eq!(with("GET", &["origin: https://evil.example"]), cross);
    assert_eq!(with("POST", &["origin: null"]), cross);
    assert_eq!(with("GET", &["sec-fetch-site: cross-site"]), cross);
    assert_eq!(with("GET", &[&format!("origin: http://{at}")]), fine);
}

#[test]
fn the_socket_keeps_pages_of_other_sites_out_too() {
    let server = Server::start();
    let send = |lines: &str| {
        let mut stream = server.connect();
        let head = format!("GET /v1/tasks HTTP/1.1\r\nconnection: close\r\n{lines}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        Answer::read(&mut stream).status
    };
    assert_eq!(send("host: localhost:8474"), 200);
    assert_eq!(send("host: evil.example"), 421);
    assert_eq!(send("host: localhost:8474\r\norigin: http://evil.example"), 403);
}

#[test]
fn a_hook_needs_its_signature_alone_and_health_needs_nothing() {
    let (_server, at) = listening(|_| ());
    let hook = ask(at, "POST", "/v1/hooks/deploy", &["host: hooks.example"], "{}");
    assert_eq!(refused(&hook), (404, "no_such_hook".to_owned()));
    assert_eq!(refused(&ask(at, "GET", "/v1/hooks/deploy", &[], "")).0, 401);
    assert_eq!(refused(&ask(at, "POST", "/v1/hooks/a/b", &[], "")).0, 401);
    assert_eq!(ask(at, "GET", "/healthz", &["host: any.example"], "").status, 200);
    assert_eq!(ask(at, "GET", "/readyz", &[], "").status, 200);
    let (_server, at) = listening(|config| config.http.open_metrics = true);
    assert_eq!(ask(at, "GET", "/metrics", &[], "").status, 200);
    assert_eq!(ask(at, "GET", "/metrics", &["host: evil.example"], "").status, 421);
}

#[test]
fn a_token_file_that_others_can_read_or_that_is_missing_stops_the_start() {
    for (mode, says) in [(0o644, "chmod 600"), (0o600, "1 to 64 tokens")] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        write_tokens(&path, "");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let started = Server::start_in(dir, |config| {
            config.http.listen = Some(SocketAddr::from(([127, 0, 0, 1], 8474)));
            config.http.token_file = Some(path);
        });
        let error = started.err().unwrap();
        assert!(error.exit_code == 2 && error.text.contains(says), "{error:?}");
    }
}

/// What status says of an address; nothing where all is well with it.
fn told_of(server: &Server, at: SocketAddr) -> Option<String> {
    let status = server.get("/v1/status").json();
    let mut points = status["attention"].as_array().unwrap().iter();
    points.find_map(|point| {
        let what = point["what"].as_str().unwrap();
        what.contains(&at.to_string()).then(|| format!("{what} {}", point["commands"]))
    })
}

/// A port that another program had, or an address of an interface that came up late, stopped the
/// daemon, and with it all tasks.
#[test]
fn an_address_that_somebody_else_has_stops_nothing_and_is_served_once_it_is_free() {
    let (first, at) = listening(|_| ());
    let tokens = first.dir.path().join("tokens");
    let second = Server::start_in(tempfile::tempdir().unwrap(), |config| {
        config.http.listen = Some(at);
        config.http.token_file = Some(tokens);
    });
    let second = second.unwrap();
    second.submit(&json!({ "type": "fetch_data" }));
    let told = told_of(&second, at).unwrap();
    for part in ["in use", "[http]", "ss -ltnp"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(told_of(&first, at), None);
    let _dir = first.stop();
    super::fixture::eventually("it is served", || told_of(&second, at).is_none().then_some(()));
    let tasks = ask(at, "GET", "/v1/tasks", &[&bearer(READ)], "").json();
    assert_eq!(tasks["tasks"][0]["id"], 1, "by the second: {tasks}");
}

/// Opens the stream of events and waits until it has begun.
fn follow(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(super::fixture::LONG)).unwrap();
    let head = format!("GET /v1/events HTTP/1.1\r\nhost: {at}\r\n{}\r\n\r\n", bearer(READ));
    stream.write_all(head.as_bytes()).unwrap();
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(b": midwatch events\n\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
    stream
}

#[test]
fn a_crowd_at_the_tcp_port_keeps_nobody_out_of_the_socket() {
    let (server, at) = listening(|_| ());
    let crowd: Vec<_> = (0..midwatch::limits::TCP_CONNECTIONS_MAX).map(|_| follow(at)).collect();
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(super::fixture::LONG)).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 503", "all of them are busy");
    assert_eq!(server.get("/v1/tasks").status, 200);
    drop(crowd);
    super::fixture::eventually("room", || {
        let mut stream = TcpStream::connect(at).unwrap();
        write!(stream, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    });
}

/// As many idle connections as there may be kept everybody else out, for as long as somebody liked.
#[test]
fn idle_connections_make_room_for_whoever_comes_and_a_request_that_goes_on_does_not() {
    let (server, at) = listening(|_| ());
    let mut follower = follow(at);
    // Silent ones, ones whose head never ends, and ones that were answered and stay.
    let begins = ["", "GET / HTTP/1.1\r\nhost: ", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"];
    let crowd: Vec<_> = (0..2 * midwatch::limits::TCP_CONNECTIONS_MAX)
        .map(|number| {
            let mut stream = TcpStream::connect(at).unwrap();
            // One that was asked to go may be gone before it said a word.
            drop(stream.write_all(begins[number % begins.len()].as_bytes()));
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(ask(at, "GET", "/v1/tasks", &[&bearer(READ)], "").status, 200);
    }
    let id = server.submit(&json!({ "type": "fetch_data" }));
    let (mut seen, mut some) = (String::new(), [0; 256]);
    while !seen.contains(&format!("\"task\":{id}")) {
        let read = follower.read(&mut some).unwrap();
        assert!(read != 0, "the follower was cut off: {seen}");
        seen += &String::from_utf8_lossy(&some[..read]);
    }
    drop(crowd);
}

/// Wrong tokens wait, and hold nobody up who has a right one.
#[test]
fn wrong_tokens_wait_and_right_ones_do_not_wait_behind_them() {
    let (_server, at) = listening(|_| ());
    thread::scope(|scope| {
        let wrong: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(move || ask(at, "GET", "/v1/tasks", &["authorization: Bearer x"], ""))
            })
            .collect();
        assert_eq!(ask(at, "GET", "/v1/tasks", &[&bearer(READ)], "").status, 200);
        assert!(!wrong.iter().all(thread::ScopedJoinHandle::is_finished));
        for answer in wrong {
            assert_eq!(refused(&answer.join().unwrap()).0, 401);
        }
    });
}
