//! `midwatch doctor ID`: one task that seems stuck.

use super::super::connection::{get, stream};
use super::super::failure::{Failure, exit};
use super::super::paint::Ink;
use super::super::session::{Format, Session, View};
use super::super::show::{fact, head};
use super::super::task_words::progress;
use super::super::text::{cut, tame};
use super::super::types;
use super::finding::{Level, wrap};
use super::patience::{PATIENCE, within};
use super::tree::{Node, tree};
use super::verdict::{Case, Verdict};
use crate::api::{AttemptView, History, StatsView, StatusView, TaskView, TypeView, Workers};
use crate::kernel::ids::{Millis, TaskId, Timestamp};
use crate::units::{bytes, count, span};
use serde::Serialize;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Lines of its log that are shown.
const LOG_LINES: usize = 5;

/// Columns of a line of the log; `midwatch log` prints it whole.
const LOG_COLUMNS_MAX: usize = 200;

/// Bytes of its log that are read for them.
const LOG_BYTES_MAX: u64 = 64 << 10;

/// What was found out about a task.
#[derive(Debug, Serialize)]
struct Account {
    #[serde(flatten)]
    verdict: Verdict,
    task: TaskView,
    /// Its latest attempt.
    attempt: Option<AttemptView>,
    /// 95 of 100 runs of its type take no longer.
    run_p95_ms: Option<Millis>,
    processes: Vec<Node>,
    /// Bytes of the log, and how long it has not grown; null where it cannot be seen from here.
    log_bytes: Option<u64>,
    log_quiet_ms: Option<Millis>,
    log_tail: Vec<String>,
}

/// Looks at it, and tells. Exits 1 when something must be done.
pub(super) fn run(id: TaskId, session: &mut Session<'_>) -> Result<u8, Failure> {
    let account = look(id, session)?;
    match session.format {
        Format::Table => session.print(&render(&account, &session.view))?,
        Format::Json | Format::Ndjson => session.json(&account)?,
    }
    let bad = account.verdict.level == Level::Problem;
    Ok(if bad { exit::FAILED } else { exit::DONE })
}

fn look(id: TaskId, session: &Session<'_>) -> Result<Account, Failure> {
    let api = session.api;
    let task: TaskView = get(api, &format!("/v1/tasks/{id}"))?;
    let history: History = get(api, &format!("/v1/tasks/{id}/history"))?;
    let attempt = history.attempts.last().cloned();
    // The rest helps, and what cannot be had is done without.
    let kind: Option<TypeView> = get(api, &types::path(&task.kind)).ok();
    let workers = get::<Workers>(api, "/v1/workers").map(|known| known.workers).unwrap_or_default();
    let run_p95_ms = p95(get(api, "/v1/stats").ok(), &task.kind);
    let process = attempt.as_ref().and_then(|attempt| attempt.process.as_ref());
    let processes = process.map(tree).unwrap_or_default();
    let now = session.view.now;
    let (log_bytes, log_quiet_ms) = match (&attempt, get::<StatusView>(api, "/v1/status")) {
        (Some(attempt), Ok(status)) => {
            let path = Path::new(&status.data_dir).join(&attempt.log);
            within(PATIENCE, move || log(&path, now)).unwrap_or_default()
        }
        _ => (None, None),
    };
    let case = Case {
        task: &task,
        attempt: attempt.as_ref(),
        kind: kind.as_ref(),
        workers: &workers,
        p95: run_p95_ms,
        tree: &processes,
        quiet: log_quiet_ms,
        now,
    };
    let verdict = case.verdict();
    let log_tail = if attempt.is_some() { log_tail(id, session) } else { Vec::new() };
    let (attempt, processes) = (attempt.clone(), processes.clone());
    Ok(Account { verdict, task, attempt, run_p95_ms, processes, log_bytes, log_quiet_ms, log_tail })
}

fn p95(stats: Option<StatsView>, kind: &str) -> Option<Millis> {
    let known = stats?.types.into_iter().find(|stats| stats.kind == kind)?;
    known.run.p95_ms.map(Millis)
}

/// Size and rest of a log, where this user may see it.
fn log(path: &Path, now: Timestamp) -> (Option<u64>, Option<Millis>) {
    let Ok(facts) = fs::metadata(path) else { return (None, None) };
    let grown = facts.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let grown = grown.and_then(|since| u64::try_from(since.as_millis()).ok());
    (Some(facts.len()), grown.map(|at| now.since(Timestamp(at))))
}

fn log_tail(id: TaskId, session: &Session<'_>) -> Vec<String> {
    let path = format!("/v1/tasks/{id}/log?tail={LOG_LINES}");
    let Ok(log) = stream(session.api, &path) else { return Vec::new() };
    let mut bytes = Vec::new();
    if log.take(LOG_BYTES_MAX).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    String::from_utf8_lossy(&bytes).lines().map(|line| cut(&tame(line), LOG_COLUMNS_MAX)).collect()
}

fn render(account: &Account, view: &View) -> String {
    let Account { verdict, task, attempt, .. } = account;
    let mut text = format!("{}, since {}\n\n", head(task, view), view.relative(&task.status_since));
    let mut line = |name: &str, value: String| text += &fact(name, &value, view);
    line("input", input(task.payload.get()));
    if let Some(attempt) = attempt {
        line("attempt", ran(attempt, account.run_p95_ms, view));
    }
    if let Some(told) = &task.progress {
        line("progress", progress(told));
    }
    if let Some(checkpoint) = &task.checkpoint {
        line("checkpoint", checkpoint.get().to_owned());
    }
    if let Some(error) = &task.error {
        line("last error", error.clone());
    }
    if let Some(size) = account.log_bytes {
        let quiet = account.log_quiet_ms.map(|quiet| format!(", last grew {} ago", span(quiet)));
        line("log", format!("{}{}", bytes(size), quiet.unwrap_or_default()));
    }
    for told in &account.log_tail {
        line("", told.clone());
    }
    for node in &account.processes {
        let Node { pid, depth, state, cpu_ms, command } = node;
        let indent = "  ".repeat(*depth);
        let name = if *depth == 0 { "processes" } else { "" };
        line(name, format!("{indent}{pid} {state} {}  {command}", span(*cpu_ms)));
    }
    text + &conclude(verdict, view)
}

fn input(payload: &str) -> String {
    let size = bytes(payload.len() as u64);
    // It was checked when it came in; what is recorded is what was checked.
    format!("{size} of valid JSON: {}", cut(&tame(payload), 120))
}

fn ran(attempt: &AttemptView, p95: Option<Millis>, view: &View) -> String {
    let began = attempt.started_at.as_ref().unwrap_or(&attempt.leased_at);
    let number = count(u64::from(attempt.attempt));
    let mut text = match (&attempt.ended_at, attempt.outcome) {
        (Some(ended), Some(outcome)) => {
            format!("{number}, ended {}: {outcome}", view.relative(ended))
        }
        _ => format!("{number}, began {}", view.relative(began)),
    };
    if let Some(p95) = p95 {
        text += &format!("; 95 of 100 of its type take {} at most", span(p95));
    }
    text
}

fn conclude(verdict: &Verdict, view: &View) -> String {
    let ink = match verdict.level {
        Level::Ok => Ink::Green,
        Level::Note => Ink::Plain,
        Level::Warning => Ink::Yellow,
        Level::Problem => Ink::Red,
    };
    let room = view.width.unwrap_or(80).clamp(40, 100) - 2;
    let mut text = "\n".to_owned();
    for line in wrap(&tame(&verdict.what), room) {
        text += &format!("{}\n", view.paint.with(ink, &line));
    }
    for command in &verdict.commands {
        text += &format!("    {}\n", tame(command));
    }
    text
}
