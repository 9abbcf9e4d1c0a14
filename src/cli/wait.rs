//! `midwatch wait`: until tasks have ended.

use super::arguments::{duration, task_id};
use super::connection::get;
use super::failure::{Failure, exit};
use super::patience::Patience;
use super::session::{Format, Session};
use crate::api::TaskView;
use crate::kernel::ids::{Millis, TaskId, Timestamp};
use crate::kernel::status::Status;

/// Which tasks, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks
    #[arg(value_name = "ID", required = true, value_parser = task_id)]
    ids: Vec<TaskId>,
    /// Wait no longer than this
    #[arg(long, value_name = "DUR", value_parser = duration)]
    timeout: Option<Millis>,
}

/// One request waits no longer than this; the daemon's own bound.
const CALL_MAX: Millis = Millis(60_000);

/// Waits for them one after the other; the worst exit code wins.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> u8 {
    let until = args.timeout.map(|timeout| session.view.now.after(timeout));
    let mut worst = exit::DONE;
    for id in &args.ids {
        let code = match wait_for(*id, until, session) {
            Ok(code) => code,
            Err(failure) => session.complain(&failure),
        };
        worst = worst.max(code);
    }
    worst
}

/// Waits for one task, prints how it ended, and returns the exit code that this makes.
pub(super) fn wait_for(
    id: TaskId,
    until: Option<Timestamp>,
    session: &mut Session<'_>,
) -> Result<u8, Failure> {
    let mut patience = Patience::default();
    loop {
        let left = until.map_or(CALL_MAX, |until| until.since(crate::clock::wall()).min(CALL_MAX));
        let path = format!("/v1/tasks/{id}/wait?timeout_ms={left}", left = left.0);
        let task = match get::<TaskView>(session.api, &path) {
            Ok(task) => task,
            // Not longer than the time that was given.
            Err(failure) if left == Millis(0) => return Err(failure),
            Err(failure) => {
                patience.bear(failure, session)?;
                continue;
            }
        };
        patience.is_back(session);
        if task.status.is_terminal() {
            show_end(&task, session)?;
            let ended_well = task.status == Status::Success;
            return Ok(if ended_well { exit::DONE } else { exit::FAILED });
        }
        if left < CALL_MAX {
            let waited = format!("task {id} is still {} after the time given", task.status);
            return Err(Failure::new(exit::FAILED, waited)
                .with_help(format!("wait longer, or look: midwatch show {id}")));
        }
    }
}

fn show_end(task: &TaskView, session: &mut Session<'_>) -> Result<(), Failure> {
    match session.format {
        Format::Json | Format::Ndjson => session.json(task),
        Format::Table => {
            let mut text = format!("{} {}", task.id, task.status);
            if let Some(error) = &task.error
                && task.status != Status::Success
            {
                text += &format!("  {}", super::text::tame(error));
            }
            session.print(&format!("{text}\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Code, Problem};
    use crate::cli::samples::{self, Played};

    fn wait(words: &str, answers: &[(&str, TaskView)]) -> Played {
        let answers =
            answers.iter().map(|(path, task)| (*path, serde_json::to_string(task).unwrap()));
        samples::play(words, &answers.collect::<Vec<_>>())
    }

    #[test]
    fn the_worst_end_decides_the_exit_code() {
        let dead = TaskView {
            error: Some("connection refused".to_owned()),
            ..samples::task(8, Status::Dead)
        };
        let played = wait(
            "wait 7 8",
            &[
                ("GET /v1/tasks/7/wait?timeout_ms=60000", samples::task(7, Status::Running)),
                ("GET /v1/tasks/7/wait?timeout_ms=60000", samples::task(7, Status::Success)),
                ("GET /v1/tasks/8/wait?timeout_ms=60000", dead),
            ],
        );
        assert_eq!(played.out, "7 SUCCESS\n8 DEAD  connection refused\n");
        assert_eq!(played.code, 1);
    }

    #[test]
    fn a_daemon_that_is_away_for_a_moment_is_waited_for() {
        let away = Problem::new(Code::ShuttingDown, "the daemon is going away");
        let away = serde_json::to_string(&away).unwrap();
        let done = serde_json::to_string(&samples::task(7, Status::Success)).unwrap();
        let path = "GET /v1/tasks/7/wait?timeout_ms=60000";
        let played =
            samples::play("wait 7", &[(path, away.clone()), (path, away.clone()), (path, done)]);
        assert_eq!((played.code, &*played.out), (0, "7 SUCCESS\n"), "{played}");
        let said = "the daemon is going away; waiting for it\nthe daemon answers again, after ";
        assert!(played.err.starts_with(said) && played.err.lines().count() == 2, "{played}");
        // One that stays away is not waited for for ever.
        let played = samples::play("wait 7", &[(path, away)]);
        assert_eq!((played.code, &*played.out), (5, ""), "{played}");
    }

    #[test]
    fn a_time_that_runs_out_is_a_failure_that_names_the_status() {
        let running = samples::task(7, Status::Running);
        let played = wait("wait 7 --timeout 0s", &[("GET /v1/tasks/7/wait?timeout_ms=0", running)]);
        assert_eq!((played.code, played.out.as_str()), (1, ""));
        assert!(played.err.contains("task 7 is still RUNNING"), "{}", played.err);
    }
}
