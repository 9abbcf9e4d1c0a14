//! The client against servers that behave badly.

#![expect(clippy::disallowed_methods, reason = "a test may have a thread of its own")]

use super::{Blocking, ClientError};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// A server that gives each connection to `serve`, in turn.
fn server(serve: impl Fn(usize, UnixStream) + Send + 'static) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            serve(number, stream.unwrap());
        }
    });
    (dir, socket)
}

/// Reads a request whole; false at the end of the connection.
fn take_request(lines: &mut BufReader<UnixStream>) -> bool {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    lines.read_exact(&mut vec![0; length]).is_ok()
}

fn respond(stream: &mut UnixStream, status: &str, body: &str) {
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
}

#[test]
fn a_daemon_that_is_not_there_is_named_with_its_socket() {
    let client = Blocking::connect("/nowhere/midwatch.sock").unwrap();
    let error = client.get::<u32>("/v1/status").unwrap_err();
    assert_eq!(error.exit(), 5);
    let text = error.to_string();
    assert!(text.contains("/nowhere/midwatch.sock") && text.contains("no such socket"), "{text}");
    assert!(error.help().unwrap().contains("midwatch daemon"));
}

#[test]
fn a_connection_that_breaks_after_the_request_leaves_the_outcome_open() {
    let (_dir, socket) = server(|_, stream| {
        take_request(&mut BufReader::new(stream));
    });
    let client = Blocking::connect(&socket).unwrap();
    let posted = client.post::<_, u32>("/v1/tasks", &1).unwrap_err();
    assert!(matches!(posted, ClientError::OutcomeUnknown { .. }), "{posted:?}");
    assert_eq!(posted.exit(), 8);
    // What changes nothing was simply not answered.
    let got = client.get::<u32>("/v1/status").unwrap_err();
    assert!(matches!(got, ClientError::Unreachable { .. }), "{got:?}");
}

#[test]
fn a_kept_connection_that_was_closed_is_replaced_without_a_word() {
    let (gone, is_gone) = std::sync::mpsc::channel();
    let (_dir, socket) = server(move |number, mut stream| {
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        // The first connection serves one request only.
        while take_request(&mut lines) {
            respond(&mut stream, "200 OK", &number.to_string());
            if number == 0 {
                break;
            }
        }
        drop((lines, stream));
        gone.send(()).unwrap_or_default();
    });
    let client = Blocking::connect(&socket).unwrap();
    assert_eq!(client.get::<u32>("/").unwrap(), 0);
    // Closed just as a request goes out, its outcome would be unknown.
    is_gone.recv().unwrap();
    for _ in 0..3 {
        assert_eq!(client.post::<_, u32>("/", &()).unwrap(), 1);
    }
}

#[test]
fn a_refusal_keeps_its_code_and_nonsense_is_told_apart_from_it() {
    let (_dir, socket) = server(|number, mut stream| {
        take_request(&mut BufReader::new(stream.try_clone().unwrap()));
        let problem = r#"{"code":"no_such_task","title":"t","status":404,"detail":"no task 9"}"#;
        let answers = [("404 Not Found", problem), ("500 Oops", "boom"), ("200 OK", "{")];
        let (status, body) = answers[number.min(2)];
        respond(&mut stream, status, body);
    });
    let client = Blocking::connect(&socket).unwrap();
    let refused = client.get::<u32>("/").unwrap_err();
    assert_eq!((refused.exit(), refused.to_string()), (3, "no task 9".into()));
    for _ in 0..2 {
        let error = client.get::<u32>("/").unwrap_err();
        assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
    }
}

#[test]
fn a_download_comes_line_by_line_however_it_was_cut() {
    let (_dir, socket) = server(|_, mut stream| {
        take_request(&mut BufReader::new(stream.try_clone().unwrap()));
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        for chunk in ["one\nt", "wo", "\n\nfo", "ur"] {
            write!(stream, "{:x}\r\n{chunk}\r\n", chunk.len()).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let client = Blocking::connect(&socket).unwrap();
    let mut download = client.download("/v1/events").unwrap();
    let mut lines = Vec::new();
    while let Some(line) = download.line().unwrap() {
        lines.push(String::from_utf8(line).unwrap());
    }
    assert_eq!(lines, ["one", "two", "", "four"]);
}
