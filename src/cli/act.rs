//! `cancel`, `pause`, `resume`, `run-now`: several tasks at once, each reported.

use super::arguments::task_id;
use super::connection::post;
use super::failure::Failure;
use super::session::{Format, Session};
use crate::api::Acted;
use crate::kernel::ids::TaskId;
use serde::Serialize;

/// Which tasks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks
    #[arg(value_name = "ID", required = true, value_parser = task_id)]
    pub(super) ids: Vec<TaskId>,
}

/// Does it to each; the worst exit code wins.
pub(crate) fn run(args: &Args, verb: &str, session: &mut Session<'_>) -> Result<u8, Failure> {
    each(&args.ids, verb, &serde_json::json!({}), session)
}

/// Sends the same wish for each of some tasks. One that is refused stops no other.
pub(super) fn each<T: Serialize>(
    ids: &[TaskId],
    verb: &str,
    body: &T,
    session: &mut Session<'_>,
) -> Result<u8, Failure> {
    session.one_by_one(
        ids,
        |id, session| post::<T, Acted>(session.api, &format!("/v1/tasks/{id}/{verb}"), body),
        |id, acted, session| match session.format {
            Format::Json | Format::Ndjson => session.json(acted),
            Format::Table => session.print(&format!("{}\n", words(*id, acted))),
        },
    )
}

/// What became of it, in words.
pub(super) fn words(asked: TaskId, acted: &Acted) -> String {
    let Acted { id, status, stop_requested, changed } = acted;
    let mut text = format!("{id} {status}");
    if *id != asked {
        text += &format!("  (runs {asked} again)");
    }
    match (stop_requested, changed) {
        (Some(stop), true) => text += &format!(", {stop} asked for"),
        (Some(stop), false) => text += &format!(", {stop} was asked for already"),
        (None, true) => {}
        (None, false) => text += " already",
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::api::{Code, Problem};
    use crate::cli::samples::{self, Played};
    use expect_test::expect;

    fn cancel(words: &str) -> Played {
        let wrong = "cannot cancel task 9: it is DEAD, and ended tasks stay as they are";
        let wrong = Problem::new(Code::WrongStatus, wrong)
            .with_help("to run it again as a new task: midwatch retry 9");
        let acted = |rest| format!(r#"{{"id":7,"status":{rest}}}"#);
        samples::play(
            words,
            &[
                (
                    "POST /v1/tasks/7/cancel {}",
                    acted(r#""RUNNING","stop_requested":"cancel","changed":true"#),
                ),
                ("POST /v1/tasks/9/cancel {}", serde_json::to_string(&wrong).unwrap()),
                (
                    "POST /v1/tasks/7/cancel {}",
                    acted(r#""CANCELLED","stop_requested":null,"changed":false"#),
                ),
            ],
        )
    }

    #[test]
    fn each_task_is_reported_and_the_worst_exit_code_wins() {
        let played = cancel("cancel 7 9 7");
        expect![[r#"
            exit 4
            --- stdout
            7 RUNNING, cancel asked for
            7 CANCELLED already
            --- stderr
            error: cannot cancel task 9: it is DEAD, and ended tasks stay as they are
              to run it again as a new task: midwatch retry 9
        "#]]
        .assert_eq(&played.to_string());
    }

    #[test]
    fn for_programs_each_task_is_a_line_of_json() {
        let played = cancel("kill --json 7 9 7");
        expect![[r#"
            {"id":7,"status":"RUNNING","stop_requested":"cancel","changed":true}
            {"id":7,"status":"CANCELLED","stop_requested":null,"changed":false}
        "#]]
        .assert_eq(&played.out);
    }

    #[test]
    fn an_id_that_is_no_number_is_a_slip() {
        let played = samples::play("cancel seven", &[]);
        assert_eq!(played.code, 2);
        assert!(played.err.contains("a task's id is a number"), "{}", played.err);
    }
}
