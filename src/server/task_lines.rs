//! What happens to tasks, as lines of our own log: each transition once, and only after it is
//! durable.
//!
//! What a task came in with and went out with is told at level info, in four kinds of lines
//! (`begin`, `end`, `error`, `retry`); what only moves it about (`update`, `checkpoint`,
//! `progress`) at debug, for each line is a write, and many hosts write to flash. The kinds and
//! their fields are in `spec/logs.md`.

use super::host::Facts;
use crate::engine::Recorded;
use crate::kernel::event::{Checkpointed, Ended, Event, Heard, Leased, Moved};
use crate::kernel::ids::Millis;
use crate::kernel::status::{Outcome, Reason, Status};
use crate::kernel::task::{Attempt, Task};
use crate::units::span;
use tracing::Level;

/// Longest summary of a payload or a result, in characters.
const SUMMARY_CHARS_MAX: usize = 200;

/// Names of members whose values are not told.
const SECRETS: [&str; 9] = [
    "password",
    "passwd",
    "secret",
    "token",
    "authorization",
    "api_key",
    "apikey",
    "credential",
    "private_key",
];

/// Tells of one event.
pub(crate) fn tell(facts: &Facts<'_>, recorded: &Recorded) {
    if !tracing::enabled!(Level::INFO) {
        return;
    }
    match &recorded.event {
        Event::Leased(leased) => begin(facts, leased),
        Event::Ended(ended) => end(facts, ended),
        Event::Moved(event) => moved(facts, event),
        Event::Checkpointed(checkpointed) => checkpoint(facts, checkpointed),
        Event::Heard(heard) => progress(heard),
        _ => {}
    }
    update(recorded);
}

/// A line about an attempt that failed, or about a task that did; the level is part of the call.
macro_rules! failed {
    ($level:ident, $task:expr, $attempt:expr, $fate:expr, $error:expr) => {{
        let (task, attempt, fate) = ($task, $attempt, $fate);
        tracing::$level!(
            event = "error",
            task = task.id.0,
            attempt = attempt.map(|attempt: &Attempt| attempt.number),
            r#type = &*task.kind,
            executor = attempt.map(|attempt| &*attempt.worker_name),
            executor_id = attempt.map(|attempt| attempt.worker.0),
            outcome = fate.outcome.map(Outcome::word),
            reason = fate.reason.word(),
            status = fate.to.word(),
            exit_code = fate.exit_code,
            signal = fate.signal,
            run_ms = attempt.map(|attempt| ran(attempt).0),
            wait_ms = attempt.map(|attempt| attempt.waited.0),
            error = $error,
            "task {} failed and is {}",
            task.id,
            fate.to
        );
    }};
}

/// What became of a task, and why.
#[derive(Clone, Copy)]
struct Fate {
    to: Status,
    reason: Reason,
    outcome: Option<Outcome>,
    exit_code: Option<i32>,
    signal: Option<i32>,
}

impl Fate {
    fn tell(self, task: &Task, attempt: Option<&Attempt>, error: Option<&str>) {
        // What no retry will mend is graver.
        if self.to.is_terminal() {
            failed!(error, task, attempt, self, error);
        } else {
            failed!(warn, task, attempt, self, error);
        }
    }
}

fn begin(facts: &Facts<'_>, leased: &Leased) {
    let Some(task) = facts.engine.state().task(leased.task) else { return };
    let Some(attempt) = task.attempt(leased.fence) else { return };
    tracing::info!(
        event = "begin",
        task = task.id.0,
        attempt = attempt.number,
        r#type = &*task.kind,
        executor = &*attempt.worker_name,
        executor_id = attempt.worker.0,
        wait_ms = attempt.waited.0,
        input = summary(&task.payload),
        "task {} begins",
        task.id
    );
}

fn end(facts: &Facts<'_>, ended: &Ended) {
    let Some(task) = facts.engine.state().task(ended.task) else { return };
    let Some(attempt) = task.attempt(ended.fence) else { return };
    let Ended { outcome, to, reason, exit_code, signal, .. } = *ended;
    match outcome {
        Outcome::Retryable | Outcome::Fatal | Outcome::TimedOut | Outcome::Lost => {
            let fate = Fate { to, reason, outcome: Some(outcome), exit_code, signal };
            fate.tell(task, Some(attempt), ended.error.as_deref());
        }
        Outcome::Success | Outcome::Cancelled | Outcome::Paused | Outcome::Released => {
            tracing::info!(
                event = "end",
                task = task.id.0,
                attempt = attempt.number,
                r#type = &*task.kind,
                executor = &*attempt.worker_name,
                executor_id = attempt.worker.0,
                outcome = outcome.word(),
                status = to.word(),
                run_ms = ended.ran.unwrap_or_else(|| ran(attempt)).0,
                wait_ms = attempt.waited.0,
                input_digest = ended.input.map(|input| input.to_string()),
                result = ended.result.as_deref().map(summary),
                "task {} ends",
                task.id
            );
        }
    }
    retry(task, ended.to, ended.wait);
}

/// A task that ended, or was lost, without a word of its attempt.
fn moved(facts: &Facts<'_>, moved: &Moved) {
    let Some(task) = facts.engine.state().task(moved.task) else { return };
    let Moved { to, reason, .. } = *moved;
    match to {
        Status::Lost | Status::Failed | Status::Dead => {
            let fate = Fate { to, reason, outcome: None, exit_code: None, signal: None };
            let last = task.life.as_ref().and_then(|life| life.attempts.back());
            let known = task.life.as_ref().and_then(|life| life.error.as_deref());
            fate.tell(task, last, moved.error.as_deref().or(known));
        }
        Status::Cancelled => tracing::info!(
            event = "end",
            task = task.id.0,
            r#type = &*task.kind,
            status = to.word(),
            reason = reason.word(),
            "task {} ends",
            task.id
        ),
        // SUCCESS is the end of an attempt, which has its own record.
        Status::Pending | Status::Running | Status::Paused | Status::Retrying | Status::Success => {
        }
    }
    retry(task, to, moved.wait);
}

/// Where the record names a wait there is another run.
fn retry(task: &Task, to: Status, wait: Option<Millis>) {
    let Some(wait) = wait.filter(|_| to.is_waiting()) else { return };
    tracing::info!(
        event = "retry",
        task = task.id.0,
        attempt = task.attempt_count(),
        r#type = &*task.kind,
        retry = task.retry_count,
        max_retry = task.max_retry,
        lost = task.lost_count,
        next_ms = wait.0,
        "task {} runs again in {}",
        task.id,
        span(wait)
    );
}

fn checkpoint(facts: &Facts<'_>, checkpointed: &Checkpointed) {
    let Some(task) = facts.engine.state().task(checkpointed.task) else { return };
    let attempt = task.attempt(checkpointed.fence);
    tracing::debug!(
        event = "checkpoint",
        task = task.id.0,
        attempt = attempt.map(|attempt| attempt.number),
        r#type = &*task.kind,
        executor = attempt.map(|attempt| &*attempt.worker_name),
        bytes = checkpointed.data.len(),
        data = summary(&checkpointed.data),
        "task {} left a checkpoint",
        task.id
    );
}

fn progress(heard: &Heard) {
    for held in &heard.holds {
        if let Some(progress) = &held.progress {
            tracing::debug!(
                event = "progress",
                task = held.task.0,
                done = progress.done,
                total = progress.total,
                note = progress.note.as_deref(),
                "task {} goes on",
                held.task
            );
        }
    }
}

/// Any event that gave a task another status, or made it.
fn update(recorded: &Recorded) {
    let (Some(task), Some(to)) = (recorded.event.task(), recorded.to) else { return };
    if recorded.from == Some(to) {
        return;
    }
    tracing::debug!(
        event = "update",
        task = task.0,
        r#type = recorded.kind.as_deref(),
        from = recorded.from.map(Status::word),
        to = to.word(),
        reason = reason(&recorded.event).map(Reason::word),
        by = recorded.stamp.by.to_string(),
        seq = recorded.stamp.seq.0,
        "task {task} is {to}"
    );
}

fn reason(event: &Event) -> Option<Reason> {
    match event {
        Event::Submitted(_) | Event::Fired(_) => Some(Reason::Created),
        Event::Leased(_) => Some(Reason::Dispatched),
        Event::Ended(ended) => Some(ended.reason),
        Event::Moved(moved) => Some(moved.reason),
        _ => None,
    }
}

fn ran(attempt: &Attempt) -> Millis {
    let began = attempt.started.unwrap_or(attempt.leased);
    attempt.end.as_ref().map(|end| end.at.since(began)).unwrap_or_default()
}

/// The beginning of a JSON text, without the values of members that are secrets by their names.
fn summary(json: &str) -> String {
    let mut told = String::new();
    let mut rest = json;
    while let Some(at) = rest.find('"') {
        let (before, quoted) = rest.split_at(at);
        let (string, after) = quoted.split_at(end_of_string(quoted));
        told.push_str(before);
        told.push_str(string);
        rest = after;
        if SUMMARY_CHARS_MAX < told.len() && SUMMARY_CHARS_MAX < told.chars().count() {
            break;
        }
        let value = rest.trim_start().strip_prefix(':');
        if let Some(value) = value.filter(|_| is_secret(string)) {
            told.push_str(":\"***\"");
            rest = behind_value(value.trim_start());
        }
    }
    told.push_str(rest.get(..rest.floor_char_boundary(4 * SUMMARY_CHARS_MAX)).unwrap_or_default());
    match told.char_indices().nth(SUMMARY_CHARS_MAX - 1) {
        Some((at, _)) if told.chars().nth(SUMMARY_CHARS_MAX).is_some() => {
            told.truncate(at);
            told.push('…');
        }
        _ => {}
    }
    told
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// Where the string ends that `text` begins with, its quotes included.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// What follows the value that `text` begins with.
fn behind_value(text: &str) -> &str {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => {
                at += end_of_string(text.get(at..).unwrap_or_default());
                if depth == 0 {
                    break;
                }
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' | b',' if depth == 0 => break,
            b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    at += 1;
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.get(at..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LOG-012
    #[test]
    fn a_summary_is_short_and_tells_no_secret() {
        assert_eq!(
            summary(r#"{"source":"orders","page_size":500}"#),
            r#"{"source":"orders","page_size":500}"#
        );
        assert_eq!(summary("null"), "null");
        let payload = r#"{"user":"ada","Password" : "a\"b,c","n":[1,{"api-key":{"x":["}"]},"m":2}],"token":7,"z":1}"#;
        let told = r#"{"user":"ada","Password":"***","n":[1,{"api-key":"***","m":2}],"token":"***","z":1}"#;
        assert_eq!(summary(payload), told);
        for long in [format!("\"{}\"", "ä".repeat(5000)), "9".repeat(5000), "[1,".repeat(900)] {
            let told = summary(&long);
            assert_eq!(told.chars().count(), 200, "{told}");
            assert!(told.ends_with('…'));
        }
        let whole = "x".repeat(200);
        assert_eq!(summary(&whole), whole);
        // What is cut in its middle ends somewhere.
        for broken in [r#"{"token":"#, r#"{"token":""#, r#"{"token":[""#, "\"", "\"\\"] {
            assert!(summary(broken).len() < 30, "{broken}");
        }
    }
}
