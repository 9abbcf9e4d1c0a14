//! Tasks and figures that the tests of the screens show.

use super::connection::{Api, Request};
use super::environment::Environment;
use super::failure::Failure;
use super::paint::Paint;
use super::session::{Session, View};
use crate::api::{History, Progress, TaskList, TaskView};
use crate::client::ClientError;
use crate::config::Surroundings;
use crate::kernel::ids::{TaskId, WorkerId};
use crate::kernel::status::{Status, Stop};
use crate::units::{Zone, parse_rfc3339};
use serde_json::value::RawValue;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) fn view(width: Option<usize>) -> View {
    let now = parse_rfc3339("2026-03-14T02:40:00Z").unwrap();
    View { now, zone: Zone::Utc, width, paint: Paint(false), absolute: false }
}

/// A screen below a line of its own: a snapshot forgets an indentation that all lines share.
pub(crate) fn screen(text: &str) -> String {
    format!("screen\n{text}")
}

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).unwrap()
}

pub(crate) fn task(id: u64, status: Status) -> TaskView {
    TaskView {
        id: TaskId(id),
        kind: "fetch_data".to_owned(),
        payload: raw(r#"{"source":"orders","page_size":500}"#),
        status,
        priority: 100,
        next_run_time: None,
        retry_count: 0,
        max_retry: 5,
        lost_count: 0,
        checkpoint: None,
        executor_id: None,
        lease_expire_time: None,
        created_at: "2026-03-14T02:10:00.004Z".to_owned(),
        updated_at: "2026-03-14T02:31:12.000Z".to_owned(),
        status_since: "2026-03-14T02:31:12.000Z".to_owned(),
        key: None,
        timeout: None,
        result: None,
        error: None,
        retry_of: None,
        schedule: None,
        after: None,
        after_any: None,
        waiting_for: None,
        stop_requested: None,
        progress: None,
        usage: None,
    }
}

pub(crate) fn list() -> TaskList {
    let running = TaskView {
        kind: "render_report".to_owned(),
        priority: 50,
        updated_at: "2026-03-14T02:38:00.000Z".to_owned(),
        status_since: "2026-03-14T02:38:00.000Z".to_owned(),
        executor_id: Some(WorkerId(17)),
        stop_requested: Some(Stop::Pause),
        progress: Some(Progress { done: 6000, total: Some(10_000), note: None }),
        ..task(88231, Status::Running)
    };
    let retrying = TaskView {
        retry_count: 3,
        next_run_time: Some("2026-03-14T02:41:48.500Z".to_owned()),
        error: Some("HTTP 502\nfrom the proxy at 10.0.0.1, which is a long story".to_owned()),
        ..task(88230, Status::Retrying)
    };
    let pending = TaskView {
        next_run_time: Some("2026-03-14T02:10:00.000Z".to_owned()),
        lost_count: 1,
        retry_of: Some(TaskId(88100)),
        ..task(88229, Status::Pending)
    };
    let dead = TaskView {
        retry_count: 6,
        error: Some("connection refused".to_owned()),
        ..task(88213, Status::Dead)
    };
    TaskList {
        tasks: vec![running, retrying, pending, dead],
        next: Some(TaskId(88213)),
        total: 1217,
    }
}

/// A life with a crash in it, over two days.
const TRANSITIONS: &str = r#"[
{"at":"2026-03-14T02:10:00.004Z","seq":9,"from":null,"to":"PENDING","reason":"created",
 "by":"uid 1000","note":null},
{"at":"2026-03-14T02:10:00.009Z","seq":10,"from":"PENDING","to":"RUNNING","reason":"dispatched",
 "by":"worker 17","note":"fence 10"},
{"at":"2026-03-14T02:11:00.000Z","seq":11,"from":"RUNNING","to":"RUNNING","reason":null,
 "by":"worker 17","note":"checkpoint, 41 bytes"},
{"at":"2026-03-14T02:14:41.730Z","seq":12,"from":"RUNNING","to":"LOST","reason":"worker_crash",
 "by":"engine","note":"the kernel released the lock of w2"},
{"at":"2026-03-14T02:14:41.731Z","seq":13,"from":"LOST","to":"PENDING","reason":"lease_revoked",
 "by":"engine","note":"loss 1 of 10, no retry used"},
{"at":"2026-03-15T00:19:02.118Z","seq":14,"from":"RUNNING","to":"RETRYING",
 "reason":"retryable_error","by":"worker 18","note":"HTTP 502; next in 1 min 12 s"}]"#;

/// Its attempts: lost, failed, running.
const ATTEMPTS: &str = r#"[
{"attempt":1,"fence":10,"executor_id":17,"leased_at":"2026-03-14T02:10:00.009Z",
 "started_at":"2026-03-14T02:10:00.020Z","ended_at":"2026-03-14T02:14:41.730Z","wait_ms":5,
 "outcome":"lost","exit_code":null,"signal":9,"error":null,"log":"logs/88213/1.log",
 "log_bytes":2202009},
{"attempt":2,"fence":14,"executor_id":18,"leased_at":"2026-03-14T02:14:41.735Z",
 "started_at":"2026-03-14T02:14:41.800Z","ended_at":"2026-03-14T02:19:02.118Z","wait_ms":4,
 "outcome":"retryable","exit_code":75,"signal":null,"error":"HTTP 502",
 "usage":{"peak_memory":44040192,"cpu_ms":61200},"log":"logs/88213/2.log","log_bytes":812},
{"attempt":3,"fence":15,"executor_id":18,"leased_at":"2026-03-14T02:39:00Z","started_at":null,
 "ended_at":null,"wait_ms":65000,"outcome":null,"exit_code":null,"signal":null,"error":null,
 "log":"logs/88213/3.log"}]"#;

pub(crate) fn history() -> History {
    let task = TaskView {
        checkpoint: Some(raw(r#"{"cursor":"o_99123","rows":41000}"#)),
        retry_count: 1,
        ..task(88213, Status::Retrying)
    };
    History {
        task,
        transitions: serde_json::from_str(TRANSITIONS).unwrap(),
        transitions_dropped: 1234,
        attempts: serde_json::from_str(ATTEMPTS).unwrap(),
    }
}

/// What a command did with a daemon that was played.
pub(crate) struct Played {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.out, self.err)
    }
}

/// A daemon that knows each request beforehand, in order: `METHOD PATH BODY` and the answer. An
/// answer that is a problem document is a refusal.
pub(crate) struct Script(RefCell<VecDeque<(String, String)>>);

impl Script {
    /// A daemon that expects these requests.
    pub(crate) fn new(answers: &[(&str, String)]) -> Self {
        let script = answers.iter().map(|(asked, answer)| ((*asked).to_owned(), answer.clone()));
        Self(RefCell::new(script.collect()))
    }

    /// What was not asked for yet.
    pub(crate) fn left(&self) -> usize {
        self.0.borrow().len()
    }
}

impl Api for Script {
    fn send(&self, request: &Request) -> Result<Box<dyn BufRead + '_>, Failure> {
        let asked = match request {
            Request::Get { path } => format!("GET {path}"),
            Request::Post { path, body } => format!("POST {path} {body}"),
            Request::Delete { path } => format!("DELETE {path}"),
            Request::Lines { path, lines } => {
                format!("POST {path} {}", String::from_utf8_lossy(lines))
            }
        };
        let next = self.0.borrow_mut().pop_front();
        let (expected, answer) = next.unwrap_or_else(|| panic!("asked for more: {asked}"));
        assert_eq!(asked.trim(), expected.trim());
        if let Ok(problem) = serde_json::from_str(&answer) {
            return Err(ClientError::Problem(problem).into());
        }
        Ok(Box::new(io::Cursor::new(answer)))
    }
}

/// An environment with nothing in it.
pub(crate) fn environment() -> Environment {
    let nowhere = PathBuf::from("/nonexistent");
    Environment {
        surroundings: Surroundings {
            uid: rustix::process::geteuid().as_raw(),
            home: Some(nowhere.clone()),
            config_home: None,
            state_home: None,
            runtime_dir: Some(nowhere.clone()),
            system_config: nowhere,
        },
        no_colour: true,
        dumb: false,
        columns: None,
        control_fd: None,
        tmp: None,
        notify_socket: None,
        watchdog: None,
    }
}

/// Runs a command, its words parted by spaces, against a played daemon.
pub(crate) fn play(words: &str, answers: &[(&str, String)]) -> Played {
    play_words(&words.split(' ').collect::<Vec<_>>(), answers)
}

/// Runs a command against a played daemon.
pub(crate) fn play_words(words: &[&str], answers: &[(&str, String)]) -> Played {
    play_input(words, b"", answers)
}

/// Runs a command with something on stdin. All that is expected must have been asked for.
pub(crate) fn play_input(words: &[&str], input: &[u8], answers: &[(&str, String)]) -> Played {
    let script = Script::new(answers);
    let arguments = ["midwatch"].iter().chain(words).map(OsString::from);
    let (matches, cli) = match super::parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            let said = error.render().to_string();
            let (out, err) =
                if error.use_stderr() { (String::new(), said) } else { (said, String::new()) };
            return Played { code: u8::try_from(error.exit_code()).unwrap(), out, err };
        }
    };
    let environment = environment();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut session = Session {
        api: &script,
        view: View { absolute: cli.global.absolute, ..view(Some(80)) },
        format: super::format(&cli.global),
        quiet: cli.global.quiet,
        verbose: cli.global.verbose,
        // Only a failure that a second request follows is borne.
        patience: if script.left() < 2 { Duration::ZERO } else { Duration::from_mins(1) },
        named: &super::named(&cli.global, &matches),
        environment: &environment,
        lively: false,
        err_paint: Paint(false),
        input: Box::new(io::Cursor::new(input.to_vec())),
        out: &mut out,
        err: &mut err,
    };
    let ended = super::ended(super::execute(&cli, &mut session), false);
    assert!(script.0.borrow().is_empty(), "not asked for: {:?}", script.0.borrow());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Played { code: ended.code, out: text(out), err: text(err) + &ended.said }
}

/// Writes a file that a config may be.
#[expect(clippy::disallowed_methods, reason = "a test's file need not last")]
pub(crate) fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
