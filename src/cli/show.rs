//! `midwatch show`: everything about one task, on one screen.

use super::arguments::task_id;
use super::connection::get;
use super::failure::Failure;
use super::history;
use super::paint::{Ink, status_ink};
use super::session::{Format, Session, View};
use super::task_words::{progress, times, tries};
use super::text::{cut, tame};
use super::types;
use crate::api::{History, TaskView, TypeView, Usage, Workers};
use crate::kernel::ids::TaskId;
use crate::kernel::status::Status;
use crate::units;
use serde_json::value::RawValue;

/// Which task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID", value_parser = task_id)]
    id: TaskId,
}

/// Shows it.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let task: TaskView = get(session.api, &format!("/v1/tasks/{}", args.id))?;
    match session.format {
        Format::Table => {
            let held_up = held_up(&task, session);
            session.show(&render(&task, held_up, &session.view))?;
        }
        Format::Json | Format::Ndjson => session.json(&task)?,
    }
    Ok(0)
}

/// Shows its history.
pub(crate) fn run_history(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let history: History = get(session.api, &format!("/v1/tasks/{}/history", args.id))?;
    match session.format {
        Format::Table => session.show(&history::render(&history, &session.view))?,
        Format::Json | Format::Ndjson => session.json(&history)?,
    }
    Ok(0)
}

/// Why a waiting task is not taken when its time has come. The task is shown whether or not that
/// can be learnt.
fn held_up(task: &TaskView, session: &Session<'_>) -> Option<String> {
    if !matches!(task.status, Status::Pending | Status::Retrying) {
        return None;
    }
    if let Some(open) = &task.waiting_for {
        let (them, first) = (if open.len() == 1 { "a task" } else { "tasks" }, open.first()?);
        return Some(format!("it waits for {them} to end: midwatch show {first}"));
    }
    let kind = &task.kind;
    let known: TypeView = get(session.api, &types::path(kind)).ok()?;
    if let Some(order) = known.paused {
        let why = order.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let since = session.view.since(&order.at);
        return Some(format!("type {kind} is paused {since} by {}{why}", order.by));
    }
    let workers: Workers = get(session.api, "/v1/workers").ok()?;
    let mut alive = workers.workers.iter().filter(|worker| worker.status == "alive");
    let has_one = alive.any(|worker| worker.types.contains(kind));
    (!has_one).then(|| format!("no worker that is alive runs type {kind}"))
}

/// The screen; `held_up` is why a waiting task is not taken.
pub(crate) fn render(task: &TaskView, held_up: Option<String>, view: &View) -> String {
    let mut text = head(task, view);
    text.push('\n');
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &fact(name, &value, view);
        }
    };
    let json = |value: &Option<Box<RawValue>>| value.as_ref().map(|json| json.get().to_owned());
    line("next run", next_run(task, view));
    line("held up", held_up);
    line("tries", Some(counters(task)));
    line("error", task.error.clone());
    line("stop", task.stop_requested.map(|stop| format!("{stop} asked for, not yet obeyed")));
    // What ended well got to its end, whatever was told last.
    let told = task.progress.as_ref().filter(|_| task.status != Status::Success);
    line("progress", told.map(progress));
    line("checkpoint", json(&task.checkpoint));
    line("result", json(&task.result));
    line("payload", Some(task.payload.get().to_owned()));
    line("priority", Some(task.priority.to_string()));
    line("timeout", task.timeout.clone());
    line("key", task.key.clone());
    line("retry of", task.retry_of.map(|id| id.to_string()));
    line("schedule", task.schedule.clone());
    line("after", task.after.as_ref().map(|after| dependencies(task, after)));
    line("used", task.usage.map(used));
    line("executor", executor(task, view));
    line("created", Some(view.absolute(&task.created_at)));
    line("updated", Some(view.absolute(&task.updated_at)));
    text += &next_steps(task);
    text
}

/// `task 88213  fetch_data  DEAD`.
pub(super) fn head(task: &TaskView, view: &View) -> String {
    format!(
        "{}  {}  {}",
        view.paint.with(Ink::Bold, &format!("task {}", task.id)),
        tame(&task.kind),
        view.paint.with(status_ink(task.status), task.status.word())
    )
}

/// One line of the screen, cut where it would wrap.
pub(super) fn fact(name: &str, value: &str, view: &View) -> String {
    let value = tame(value);
    let value = match view.width {
        Some(width) => cut(&value, width.saturating_sub(14)),
        None => value,
    };
    format!("  {name:<10}  {value}\n")
}

fn next_run(task: &TaskView, view: &View) -> Option<String> {
    let waits = matches!(task.status, Status::Pending | Status::Retrying);
    task.next_run_time
        .as_ref()
        .filter(|_| waits)
        .map(|next| if view.has_come(next) { "now".to_owned() } else { view.absolute(next) })
}

fn counters(task: &TaskView) -> String {
    let mut text = tries(task);
    if task.lost_count != 0 {
        text += &format!(", lost {}", times(task.lost_count));
    }
    text
}

fn executor(task: &TaskView, view: &View) -> Option<String> {
    let executor = task.executor_id?;
    let lease = task.lease_expire_time.as_ref().map(|ends| view.relative(ends));
    Some(match lease {
        Some(ends) => format!("worker {executor}, lease ends {ends} unless renewed"),
        None => format!("worker {executor}"),
    })
}

/// The tasks it waits or waited for, and what is still missing of them.
fn dependencies(task: &TaskView, after: &[TaskId]) -> String {
    let ids = |ids: &[TaskId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let any = if task.after_any == Some(true) { ", however they end" } else { "" };
    match task.waiting_for.as_deref() {
        Some(open) if open.len() < after.len() => {
            format!("{}{any}; still waits for {}", ids(after), ids(open))
        }
        _ => format!("{}{any}", ids(after)),
    }
}

/// What the last attempt that ended used.
fn used(usage: Usage) -> String {
    let (memory, cpu) = (units::bytes(usage.peak_memory), units::span(usage.cpu_ms));
    format!("{memory} of memory at most, {cpu} of processor time")
}

/// What a person may want next.
fn next_steps(task: &TaskView) -> String {
    let id = task.id;
    let third = match task.status {
        Status::Success | Status::Failed | Status::Dead | Status::Cancelled => "retry",
        Status::Paused => "resume",
        Status::Pending if task.waiting_for.is_some() => "cancel",
        Status::Pending | Status::Retrying => "run-now",
        Status::Running | Status::Lost => "cancel",
    };
    format!("  midwatch history {id}    midwatch log {id}    midwatch {third} {id}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::samples;
    use expect_test::expect;

    #[test]
    fn a_task_is_shown_whole_and_what_is_absent_is_not() {
        let mut all = String::new();
        for task in samples::list().tasks {
            all += &render(&task, None, &samples::view(Some(80)));
        }
        assert!(all.lines().all(|line| crate::cli::text::width(line) <= 80));
        expect![[r#"
            task 88231  render_report  RUNNING
              tries       1/6
              stop        pause asked for, not yet obeyed
              progress    6,000 of 10,000
              payload     {"source":"orders","page_size":500}
              priority    50
              executor    worker 17
              created     2026-03-14 02:10:00Z  (29 min ago)
              updated     2026-03-14 02:38:00Z  (2 min ago)
              midwatch history 88231    midwatch log 88231    midwatch cancel 88231
            task 88230  fetch_data  RETRYING
              next run    2026-03-14 02:41:48Z  (in 1 min 48 s)
              tries       3/6
              error       HTTP 502 from the proxy at 10.0.0.1, which is a long story
              payload     {"source":"orders","page_size":500}
              priority    100
              created     2026-03-14 02:10:00Z  (29 min ago)
              updated     2026-03-14 02:31:12Z  (8 min ago)
              midwatch history 88230    midwatch log 88230    midwatch run-now 88230
            task 88229  fetch_data  PENDING
              next run    now
              tries       0/6, lost once
              payload     {"source":"orders","page_size":500}
              priority    100
              retry of    88100
              created     2026-03-14 02:10:00Z  (29 min ago)
              updated     2026-03-14 02:31:12Z  (8 min ago)
              midwatch history 88229    midwatch log 88229    midwatch run-now 88229
            task 88213  fetch_data  DEAD
              tries       6/6
              error       connection refused
              payload     {"source":"orders","page_size":500}
              priority    100
              created     2026-03-14 02:10:00Z  (29 min ago)
              updated     2026-03-14 02:31:12Z  (8 min ago)
              midwatch history 88213    midwatch log 88213    midwatch retry 88213
        "#]]
        .assert_eq(&all);
    }

    #[test]
    fn a_task_with_everything_shows_everything() {
        let task = TaskView {
            checkpoint: Some(samples::raw(r#"{"cursor":"o_99123","rows":41000}"#)),
            result: Some(samples::raw("[1,2]")),
            key: Some("orders-7".to_owned()),
            timeout: Some("10m".to_owned()),
            schedule: Some("nightly".to_owned()),
            after: Some(vec![TaskId(1), TaskId(2)]),
            after_any: Some(true),
            executor_id: Some(crate::kernel::ids::WorkerId(17)),
            lease_expire_time: Some("2026-03-14T02:50:00.000Z".to_owned()),
            lost_count: 2,
            error: Some("evil \u{1b}[2J\nsecond line".to_owned()),
            ..samples::task(7, Status::Running)
        };
        expect![[r#"
            task 7  fetch_data  RUNNING
              tries       1/6, lost 2 times
              error       evil \u{1b}[2J second line
              checkpoint  {"cursor":"o_99123","rows":41000}
              result      [1,2]
              payload     {"source":"orders","page_size":500}
              priority    100
              timeout     10m
              key         orders-7
              schedule    nightly
              after       1, 2, however they end
              executor    worker 17, lease ends in 10 min unless renewed
              created     2026-03-14 02:10:00Z  (29 min ago)
              updated     2026-03-14 02:31:12Z  (8 min ago)
              midwatch history 7    midwatch log 7    midwatch cancel 7
        "#]]
        .assert_eq(&render(&task, None, &samples::view(None)));
    }

    #[test]
    fn a_task_that_waits_for_others_names_them() {
        let task = TaskView {
            after: Some(vec![TaskId(1), TaskId(2)]),
            after_any: Some(false),
            waiting_for: Some(vec![TaskId(2)]),
            next_run_time: None,
            ..samples::task(7, Status::Pending)
        };
        let task = serde_json::to_string(&task).unwrap();
        let played = samples::play("show 7", &[("GET /v1/tasks/7", task)]);
        expect![[r#"
            exit 0
            --- stdout
            task 7  fetch_data  PENDING
              held up     it waits for a task to end: midwatch show 2
              tries       0/6
              payload     {"source":"orders","page_size":500}
              priority    100
              after       1, 2; still waits for 2
              created     2026-03-14 02:10:00Z  (29 min ago)
              updated     2026-03-14 02:31:12Z  (8 min ago)
              midwatch history 7    midwatch log 7    midwatch cancel 7
            --- stderr
        "#]]
        .assert_eq(&played.to_string());
    }

    #[test]
    fn a_waiting_task_tells_what_holds_it_up() {
        let json = |value: serde_json::Value| value.to_string();
        let shown = |status, paused: serde_json::Value, worker: &str, runs: &str| {
            let task = serde_json::to_string(&samples::task(7, status)).unwrap();
            let kind = json(serde_json::json!({
                "type": "fetch_data", "configured": true, "paused": paused, "limited": null,
                "max_running": { "value": null, "from": "default" },
                "rate": { "value": null, "from": "default" },
                "dispatched": 0, "next_dispatch_at": null, "running": 0, "due": 1, "tasks": {},
            }));
            let workers = json(serde_json::json!({ "workers": [{
                "id": 17, "name": "w1", "status": worker, "pid": 5, "host": "h", "version": "1",
                "types": [runs], "slots": 2, "silent_ms": 10, "holds": [],
            }] }));
            let mut answers = vec![("GET /v1/tasks/7", task)];
            if status != Status::Running {
                answers.push(("GET /v1/types/fetch_data", kind));
                if paused.is_null() {
                    answers.push(("GET /v1/workers", workers));
                }
            }
            let played = samples::play("show 7", &answers);
            assert_eq!(played.code, 0, "{played}");
            let line = played.out.lines().find(|line| line.starts_with("  held up"));
            line.unwrap_or_default().trim().to_owned()
        };
        let nobody = serde_json::Value::Null;
        let order = |reason: Option<&str>| serde_json::json!({ "by": "uid 0", "at": "2026-03-14T02:35:00.000Z", "reason": reason });
        assert_eq!(
            shown(Status::Pending, order(Some("the disk is slow")), "alive", "fetch_data"),
            "held up     type fetch_data is paused since 5 min by uid 0: the disk is slow"
        );
        assert_eq!(
            shown(Status::Retrying, order(None), "alive", "fetch_data"),
            "held up     type fetch_data is paused since 5 min by uid 0"
        );
        let homeless = "held up     no worker that is alive runs type fetch_data";
        assert_eq!(shown(Status::Pending, nobody.clone(), "alive", "render"), homeless);
        assert_eq!(shown(Status::Pending, nobody.clone(), "offline", "fetch_data"), homeless);
        assert_eq!(shown(Status::Pending, nobody.clone(), "alive", "fetch_data"), "");
        assert_eq!(shown(Status::Running, nobody, "alive", "render"), "");
    }
}
