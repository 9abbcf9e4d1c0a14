//! An engine that knows no rules: it hands out the leases a test puts in and keeps what a worker
//! says. HTTP/1.1 by hand, a thread a connection.

use crate::eventually::eventually;
use midwatch::api::{
    CheckpointRequest, Checkpointed, Code, End, EndAnswer, FinishRequest, Finished,
    HeartbeatRequest, Lease, LeaseRequest, Leases, Problem, RegisterRequest, Registered, StopOrder,
    StopWord, Stops, StopsRequest,
};
use midwatch::kernel::ids::{Fence, Millis, Seq, TaskId, WorkerId};
use midwatch::kernel::status::Status;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What the engine knows.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) waiting: VecDeque<Lease>,
    pub(crate) stops: Vec<StopOrder>,
    pub(crate) ends: Vec<End>,
    pub(crate) checkpoints: Vec<(Fence, String)>,
    pub(crate) heartbeats: Vec<HeartbeatRequest>,
    pub(crate) registrations: Vec<RegisterRequest>,
    pub(crate) left: u32,
    /// Leases that were handed out and have not ended, and the most there ever were.
    pub(crate) held: usize,
    pub(crate) held_most: usize,
    /// Requests for no lease, which end those that wait.
    withdrawals: u32,
    /// Every request breaks off without an answer.
    pub(crate) is_away: bool,
    /// Every lease is refused as stale.
    pub(crate) is_stale: bool,
    /// The id of the only worker that is known.
    pub(crate) worker: u64,
    next: u64,
}

pub(crate) struct FakeEngine {
    pub(crate) data_dir: PathBuf,
    pub(crate) socket: PathBuf,
    /// The store's uuid: of each engine its own, so that no test sweeps another's processes.
    pub(crate) store: String,
    book: Arc<Mutex<Book>>,
}

impl FakeEngine {
    pub(crate) fn start(data_dir: &Path) -> Self {
        let socket = data_dir.join("midwatch.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let book = Arc::new(Mutex::new(Book { next: 100, ..Book::default() }));
        let store = format!("{:032x}", rand::random::<u128>());
        let server =
            Server { book: Arc::clone(&book), data_dir: data_dir.to_owned(), store: store.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, stream) = (server.clone(), stream.unwrap());
                std::thread::spawn(move || server.serve(stream));
            }
        });
        Self { data_dir: data_dir.to_owned(), socket, store, book }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// Puts a lease in, with short graces; returns its fence.
    pub(crate) fn lease(&self, kind: &str, payload: &str) -> Fence {
        self.lease_with(kind, payload, |_| {})
    }

    pub(crate) fn lease_with(
        &self,
        kind: &str,
        payload: &str,
        change: impl FnOnce(&mut Lease),
    ) -> Fence {
        let mut book = self.book();
        book.next += 1;
        let fence = Fence(book.next);
        let mut lease = Lease {
            task: TaskId(book.next - 100),
            kind: kind.into(),
            payload: RawValue::from_string(payload.into()).unwrap(),
            fence,
            secret: format!("{:032x}", book.next),
            attempt: 1,
            max_retry: 5,
            timeout_ms: None,
            cancel_grace_ms: Millis::secs(30),
            kill_grace_ms: Millis::secs(10),
            key: None,
            scheduled_for: "2026-01-01T00:00:00.000Z".into(),
            checkpoint: None,
        };
        change(&mut lease);
        book.waiting.push_back(lease);
        fence
    }

    pub(crate) fn stop(&self, fence: Fence, stop: StopWord) {
        let task = TaskId(fence.0 - 100);
        self.book().stops.push(StopOrder { task, fence, stop });
    }

    /// Waits for the end of an attempt.
    pub(crate) fn end_of(&self, fence: Fence) -> End {
        eventually(&format!("attempt {fence} ended"), || {
            self.book().ends.iter().find(|end| end.lease.fence == fence).cloned()
        })
    }

    pub(crate) fn wait(&self, what: &str, mut look: impl FnMut(&Book) -> bool) {
        eventually(what, || look(&self.book()).then_some(()));
    }

    pub(crate) fn log_of(&self, fence: Fence) -> PathBuf {
        self.data_dir.join(format!("logs/{}/1.log", fence.0 - 100))
    }
}

#[derive(Clone)]
struct Server {
    book: Arc<Mutex<Book>>,
    data_dir: PathBuf,
    store: String,
}

impl Server {
    fn serve(&self, mut stream: UnixStream) {
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        while let Some((path, body)) = read_request(&mut lines) {
            let Some((status, answer)) = self.answer(&path, &body) else { return };
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&answer));
            if sent.is_err() {
                return;
            }
        }
    }

    /// The answer; `None` breaks the connection.
    fn answer(&self, path: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        if self.book.lock().unwrap().is_away {
            return None;
        }
        if path == "/v1/workers" {
            let mut book = self.book.lock().unwrap();
            book.registrations.push(read(body));
            book.next += 1;
            book.worker = book.next;
            return ok(&Registered {
                worker: WorkerId(book.worker),
                heartbeat_ms: Millis(200),
                store: self.store.clone(),
                data_dir: self.data_dir.to_str().unwrap().into(),
            });
        }
        let mut pieces = path.strip_prefix("/v1/workers/").unwrap().split('/');
        let worker: u64 = pieces.next().unwrap().parse().unwrap();
        let refusal = {
            let mut book = self.book.lock().unwrap();
            let is_known = book.worker == worker;
            (!is_known).then(|| {
                book.next += 1;
                Problem::new(Code::NoSuchWorker, "no such worker")
            })
        };
        if let Some(refusal) = refusal {
            return Some((refusal.status, serde_json::to_vec(&refusal).unwrap()));
        }
        match pieces.next().unwrap() {
            "lease" => self.lease(&read(body)),
            "heartbeat" => {
                let mut book = self.book.lock().unwrap();
                book.heartbeats.push(read(body));
                ok(&Stops { stops: book.stops.clone() })
            }
            "stops" => self.stops(worker, &read(body)),
            "checkpoint" => self.checkpoint(&read(body)),
            "finish" => self.finish(read(body)),
            "leave" => {
                self.book.lock().unwrap().left += 1;
                ok(&serde_json::json!({}))
            }
            other => panic!("no such call: {other}"),
        }
    }

    /// Polls the book until `look` answers, the time is over or the engine is away.
    fn poll<T>(
        &self,
        wait: Millis,
        mut look: impl FnMut(&mut Book) -> Option<T>,
    ) -> Result<T, bool> {
        let begun = Instant::now();
        loop {
            {
                let mut book = self.book.lock().unwrap();
                if book.is_away {
                    return Err(true);
                }
                if let Some(found) = look(&mut book) {
                    return Ok(found);
                }
            }
            if wait.duration() < begun.elapsed() {
                return Err(false);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn lease(&self, request: &LeaseRequest) -> Option<(u16, Vec<u8>)> {
        let withdrawals = {
            let mut book = self.book.lock().unwrap();
            book.withdrawals += u32::from(request.slots == 0);
            book.withdrawals
        };
        let leases = self.poll(request.wait_ms, |book| {
            let leases = take(book, request.slots);
            (!leases.is_empty() || book.withdrawals != withdrawals).then_some(leases)
        });
        match leases {
            Ok(leases) => ok(&Leases { leases }),
            Err(true) => None,
            Err(false) => ok(&Leases { leases: Vec::new() }),
        }
    }

    fn stops(&self, worker: u64, request: &StopsRequest) -> Option<(u16, Vec<u8>)> {
        let stops = self.poll(request.wait_ms, |book| {
            (book.worker != worker || book.stops != request.known).then(|| book.stops.clone())
        });
        match stops {
            Ok(stops) => ok(&Stops { stops }),
            Err(true) => None,
            Err(false) => ok(&Stops { stops: request.known.clone() }),
        }
    }

    fn checkpoint(&self, request: &CheckpointRequest) -> Option<(u16, Vec<u8>)> {
        let mut book = self.book.lock().unwrap();
        if book.is_stale {
            let refusal = Problem::new(Code::StaleLease, "stale");
            return Some((refusal.status, serde_json::to_vec(&refusal).unwrap()));
        }
        book.checkpoints.push((request.lease.fence, request.data.get().to_owned()));
        book.next += 1;
        let seq = Seq(book.next);
        let order = book.stops.iter().find(|order| order.fence == request.lease.fence);
        ok(&Checkpointed { seq, stop: order.map(|order| order.stop) })
    }

    fn finish(&self, request: FinishRequest) -> Option<(u16, Vec<u8>)> {
        let mut book = self.book.lock().unwrap();
        let mut answers = Vec::new();
        for end in request.ends {
            let fence = end.lease.fence;
            let error = book.is_stale.then(|| Problem::new(Code::StaleLease, "stale"));
            book.stops.retain(|order| order.fence != fence);
            book.held -= 1;
            if error.is_none() {
                book.ends.push(end);
            }
            answers.push(EndAnswer { status: Some(Status::Success), error });
        }
        let leases = take(&mut book, request.slots);
        ok(&Finished { ends: answers, leases })
    }
}

fn take(book: &mut Book, slots: u32) -> Vec<Lease> {
    let count = book.waiting.len().min(slots as usize);
    let leases: Vec<Lease> = book.waiting.drain(..count).collect();
    book.held += leases.len();
    book.held_most = book.held_most.max(book.held);
    leases
}

#[expect(clippy::unnecessary_wraps, reason = "its callers answer nothing at times")]
fn ok<T: Serialize>(answer: &T) -> Option<(u16, Vec<u8>)> {
    Some((200, serde_json::to_vec(answer).unwrap()))
}

fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> T {
    serde_json::from_slice(body).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(body));
    })
}

fn read_request(lines: &mut BufReader<UnixStream>) -> Option<(String, Vec<u8>)> {
    let mut first = String::new();
    lines.read_line(&mut first).ok().filter(|read| 0 < *read)?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok().filter(|read| 0 < *read)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    Some((path, body))
}
