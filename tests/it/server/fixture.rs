//! A server in a thread, on a real disk, and a client that speaks plain bytes.

use midwatch::config::{Config, Handler, Named, Place, Retry, Surroundings};
use midwatch::process::{self, WorkerLock};
use midwatch::server::{ServerError, ServerOptions, run};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// No wait of a test is longer; a test that needs it has failed.
pub(super) const LONG: Duration = Duration::from_secs(30);

pub(super) struct Server {
    pub(super) dir: tempfile::TempDir,
    lifeline: Option<OwnedFd>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

pub(super) fn config(dir: &Path) -> Config {
    let origin = midwatch::config::Origin::Flag("--data-dir");
    let named =
        Named { data_dir: Some(Place { path: dir.join("data"), origin }), ..Named::default() };
    let around = Surroundings::default();
    let mut config = Config::load(&named, &around).unwrap();
    for kind in ["fetch_data", "render"] {
        let handler = Handler::new(vec!["/bin/true".to_owned()], Retry::default());
        config.handlers.insert(kind.to_owned(), handler);
    }
    config
}

impl Server {
    pub(super) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), |_| ()).unwrap()
    }

    pub(super) fn start_in(
        dir: tempfile::TempDir,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self, ServerError> {
        let mut config = config(dir.path());
        change(&mut config);
        let (theirs, ours) = std::io::pipe().unwrap();
        let (mut heard, probe) = std::io::pipe().unwrap();
        let options = ServerOptions {
            config,
            reload: None,
            lifeline: Some(theirs.into()),
            probe: Some(probe.into()),
            signals: false,
            adopt: false,
        };
        let thread = thread::spawn(move || run(options));
        if heard.read(&mut [0]).unwrap() == 0 {
            return Err(thread.join().unwrap().unwrap_err());
        }
        Ok(Self { dir, lifeline: Some(ours.into()), thread: Some(thread) })
    }

    /// Has the server hear a line of its supervisor.
    pub(super) fn hear(&self, line: &str) {
        let lifeline = self.lifeline.as_ref().unwrap().try_clone().unwrap();
        std::fs::File::from(lifeline).write_all(line.as_bytes()).unwrap();
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.path().join("data/midwatch.sock")
    }

    pub(super) fn run_dir(&self) -> PathBuf {
        self.dir.path().join("data/run")
    }

    /// Stops the server and gives its directory back.
    pub(super) fn stop(mut self) -> tempfile::TempDir {
        self.end();
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    fn end(&mut self) {
        self.lifeline = None;
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    pub(super) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    pub(super) fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A refusal may come before all of the body was taken.
        drop(stream.write_all(body));
        Answer::read(&mut stream)
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "application/json", b"")
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, "application/json", body.to_string().as_bytes())
    }

    pub(super) fn submit(&self, body: &Value) -> u64 {
        let answer = self.post("/v1/tasks", body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_u64().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            self.lifeline = None;
        } else {
            self.end();
        }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn read(stream: &mut UnixStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Self::parse(&bytes)
    }

    pub(super) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let status = head[9..12].parse().unwrap();
        let body = &bytes[end + 4..];
        let chunked = head.contains("transfer-encoding: chunked");
        let body = if chunked { unchunk(body) } else { body.to_vec() };
        Self { status, head, body }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The problem's code and detail.
    pub(super) fn refusal(&self) -> (u16, String, String) {
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        let text = |field: &str| problem[field].as_str().unwrap().to_owned();
        (self.status, text("code"), text("detail"))
    }
}

fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
    whole
}

/// A worker as the server sees it: this very process, with a lock of its own.
pub(super) struct Worker<'a> {
    pub(super) server: &'a Server,
    pub(super) id: u64,
    pub(super) lock: WorkerLock,
}

pub(super) fn registration(lock: &WorkerLock, slots: u32) -> Value {
    json!({
        "name": "w1", "process": process::current().unwrap(), "host": "here", "version": "1",
        "lock": lock.name(), "types": ["fetch_data", "exec"], "slots": slots,
    })
}

impl<'a> Worker<'a> {
    pub(super) fn register(server: &'a Server, slots: u32) -> Self {
        let lock = WorkerLock::take(&server.run_dir()).unwrap();
        let answer = server.post("/v1/workers", &registration(&lock, slots));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let id = answer.json()["worker"].as_u64().unwrap();
        Self { server, id, lock }
    }

    pub(super) fn call(&self, verb: &str, body: &Value) -> Answer {
        self.server.post(&format!("/v1/workers/{}/{verb}", self.id), body)
    }

    pub(super) fn lease(&self, slots: u32, wait_ms: u64) -> Vec<Value> {
        let answer = self.call("lease", &json!({ "slots": slots, "wait_ms": wait_ms }));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["leases"].as_array().unwrap().clone()
    }
}

/// What a worker shows with every call about a lease, and more.
pub(super) fn with_proof(lease: &Value, more: &Value) -> Value {
    let mut body = json!({
        "task": lease["task"], "fence": lease["fence"], "secret": lease["secret"],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Waits for something that another process or thread brings about.
pub(super) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LONG, "{what} did not happen");
        thread::sleep(Duration::from_millis(10));
    }
}
