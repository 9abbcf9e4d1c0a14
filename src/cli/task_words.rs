//! A task in a few words, the same wherever it is listed.

use super::session::View;
use crate::api::{Progress, TaskView};
use crate::kernel::ids::TaskId;
use crate::kernel::status::{Status, Stop};
use crate::units;

/// Attempts that failed or run, of those it may have: `3/6`.
pub(crate) fn tries(task: &TaskView) -> String {
    let all = u64::from(task.max_retry) + 1;
    let running = match task.status {
        Status::Running | Status::Lost | Status::Success | Status::Failed => 1,
        Status::Pending | Status::Paused | Status::Retrying | Status::Dead | Status::Cancelled => 0,
    };
    format!("{}/{all}", (u64::from(task.retry_count) + running).min(all))
}

/// When it runs next, since when it runs, or when it ended.
pub(crate) fn when(task: &TaskView, view: &View) -> String {
    match task.status {
        Status::Pending if task.waiting_for.is_some() => "not yet".to_owned(),
        Status::Pending | Status::Retrying => match &task.next_run_time {
            Some(next) => {
                if view.has_come(next) {
                    "now".to_owned()
                } else {
                    view.relative(next)
                }
            }
            None => "now".to_owned(),
        },
        Status::Running | Status::Paused | Status::Lost => view.since(&task.status_since),
        Status::Success | Status::Failed | Status::Dead | Status::Cancelled => {
            let ended = view.relative(&task.status_since);
            if ended == "now" { "just now".to_owned() } else { ended }
        }
    }
}

/// What is most worth knowing about it besides.
pub(crate) fn note(task: &TaskView) -> String {
    let running = matches!(task.status, Status::Running | Status::Paused);
    remarks(task, task.progress.as_ref().filter(|_| running).map(progress))
}

/// The same with this as the word about its progress.
pub(crate) fn remarks(task: &TaskView, progress: Option<String>) -> String {
    let mut parts = Vec::new();
    if let Some(stop) = task.stop_requested {
        parts.push(stopping(stop).to_owned());
    }
    parts.extend(task.waiting_for.as_deref().map(after));
    parts.extend(progress);
    match task.status {
        Status::Retrying | Status::Failed | Status::Dead | Status::Lost => {
            parts.extend(task.error.clone());
        }
        Status::Pending
        | Status::Running
        | Status::Paused
        | Status::Success
        | Status::Cancelled => {}
    }
    if task.lost_count != 0 && !task.status.is_terminal() {
        parts.push(format!("lost {}", times(task.lost_count)));
    }
    if let Some(old) = task.retry_of {
        parts.push(format!("again {old}"));
    }
    parts.join("; ")
}

/// The tasks it still waits for, the first of them by name.
fn after(open: &[TaskId]) -> String {
    let first: Vec<_> = open.iter().take(3).map(ToString::to_string).collect();
    match open.len() - first.len() {
        0 => format!("after {}", first.join(", ")),
        more => format!("after {} and {more} more", first.join(", ")),
    }
}

const fn stopping(stop: Stop) -> &'static str {
    match stop {
        Stop::Cancel => "cancelling",
        Stop::Pause => "pausing",
        Stop::Reset => "resetting",
    }
}

/// `6,000 of 10,000`, with the handler's word about it.
pub(crate) fn progress(progress: &Progress) -> String {
    let Progress { done, total, note } = progress;
    let mut text = units::count(*done);
    if let Some(total) = total {
        text += &format!(" of {}", units::count(*total));
    }
    if let Some(note) = note {
        text += &format!(" ({note})");
    }
    text
}

/// `once`, `3 times`.
pub(crate) fn times(number: u32) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}
