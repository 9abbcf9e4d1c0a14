//! `midwatch submit`: one task; prints its id.

use super::arguments::{duration, task_id};
use super::connection::post;
use super::failure::{Failure, exit};
use super::session::{Format, Session};
use super::{payload, wait};
use crate::api::{SubmitRequest, Submitted};
use crate::kernel::ids::{Millis, TaskId};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::units;
use serde_json::json;
use std::ffi::OsString;

/// The task.
#[derive(Debug, clap::Args)]
#[command(override_usage = "midwatch submit [OPTIONS] TYPE [JSON | @FILE | -]\n       \
                      midwatch submit [OPTIONS] --exec -- CMD [ARG]...")]
pub(crate) struct Args {
    /// The type: a handler of the config
    #[arg(value_name = "TYPE", required_unless_present = "exec", conflicts_with_all = ["exec", "command"])]
    kind: Option<String>,
    /// The payload: JSON, @FILE, or - for standard input [default: null]
    #[arg(value_name = "JSON", conflicts_with = "exec", allow_negative_numbers = true)]
    payload: Option<String>,
    /// Run this command once, in this directory, with no environment of yours
    #[arg(long, requires = "command")]
    exec: bool,
    /// The command and its arguments
    #[arg(value_name = "CMD", last = true, requires = "exec")]
    command: Vec<OsString>,
    /// Smaller runs first [default: 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Not before then: 02:30, "2026-03-14 02:30" or RFC 3339
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    at: Option<String>,
    /// Not before so long from now: 90s, 1h30m
    #[arg(long, value_name = "DUR", value_parser = duration)]
    delay: Option<Millis>,
    /// Retries after the first failure [default: the handler's]
    #[arg(long, value_name = "N")]
    max_retry: Option<u32>,
    /// Longest run of one attempt [default: the handler's]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    timeout: Option<Millis>,
    /// Submit once only: the same key again gives the same task
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Not before these tasks have ended in SUCCESS; cancelled if one ends otherwise
    #[arg(long, value_name = "ID", value_parser = task_id, num_args = 1.., value_delimiter = ',')]
    after: Vec<TaskId>,
    /// Not before these tasks have ended, in whatever way
    #[arg(long, value_name = "ID", value_parser = task_id, num_args = 1.., value_delimiter = ',',
          conflicts_with = "after")]
    after_any: Vec<TaskId>,
    /// Wait for its end, and exit as it ended
    #[arg(long)]
    wait: bool,
}

/// Submits it.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let request = request(args, session)?;
    let Submitted { id, existed } = post(session.api, "/v1/tasks", &request)?;
    match session.format {
        Format::Table => session.print(&format!("{id}\n"))?,
        Format::Json | Format::Ndjson => session.json(&Submitted { id, existed })?,
    }
    if existed {
        session.note(&format!("task {id} was there already under this key"));
    }
    if args.wait { wait::wait_for(id, None, session) } else { Ok(exit::DONE) }
}

fn request(args: &Args, session: &mut Session<'_>) -> Result<SubmitRequest, Failure> {
    let at = match &args.at {
        Some(text) => {
            let at = session.view.zone.parse(text, session.view.now);
            Some(units::rfc3339(at.map_err(|error| Failure::usage(error.to_string()))?))
        }
        None => None,
    };
    let (kind, payload) = match (&args.kind, &args.payload) {
        (Some(kind), Some(typed)) => {
            let payload = payload::read(typed, "payload", PAYLOAD_BYTES_MAX, &mut *session.input)?;
            (kind.clone(), Some(payload))
        }
        (Some(kind), None) => (kind.clone(), None),
        (None, _) => {
            let json = command_json(&args.command)?;
            let nobody = &mut std::io::empty();
            ("exec".to_owned(), Some(payload::read(&json, "command", PAYLOAD_BYTES_MAX, nobody)?))
        }
    };
    Ok(SubmitRequest {
        kind,
        payload,
        priority: args.priority,
        at,
        delay: args.delay.map(units::format_duration),
        max_retry: args.max_retry,
        timeout: args.timeout.map(units::format_duration),
        key: args.key.clone(),
        after: args.after.clone(),
        after_any: args.after_any.clone(),
    })
}

/// The payload of an ad-hoc command: its words, and the directory it was typed in.
fn command_json(command: &[OsString]) -> Result<String, Failure> {
    let words = command.iter().map(|word| {
        word.to_str().ok_or_else(|| {
            let word = word.to_string_lossy();
            Failure::usage(format!("`{word}` is not UTF-8, and a payload is JSON"))
        })
    });
    let argv = words.collect::<Result<Vec<_>, _>>()?;
    let here = std::env::current_dir()
        .map_err(|error| Failure::usage(format!("this directory cannot be named: {error}")))?;
    let cwd = here.to_str().ok_or_else(|| {
        Failure::usage(format!("the name of this directory is not UTF-8: {}", here.display()))
    })?;
    Ok(json!({ "argv": argv, "cwd": cwd }).to_string())
}

#[cfg(test)]
mod tests {
    use crate::cli::samples;
    use expect_test::expect;

    const NEW: &str = r#"{"id":7,"existed":false}"#;

    #[test]
    fn the_id_is_all_that_is_printed() {
        let asked = r#"POST /v1/tasks {"type":"fetch_data","payload":{"a": [1]}}"#;
        let played = samples::play_words(
            &["submit", "fetch_data", r#" {"a": [1]} "#],
            &[(asked, NEW.to_owned())],
        );
        assert_eq!((played.code, played.out.as_str(), played.err.as_str()), (0, "7\n", ""));
    }

    #[test]
    fn every_option_travels() {
        let asked = r#"POST /v1/tasks {"type":"t","payload":-5,"priority":-1,"at":"2026-03-15T02:30:00.000Z","max_retry":0,"timeout":"1h30m","key":"k"}"#;
        let words = "add t -5 --priority -1 --at 02:30 --max-retry 0 --timeout 90m --key k --utc";
        let known = r#"{"id":7,"existed":true}"#;
        let played = samples::play(words, &[(asked, known.to_owned())]);
        expect![[r#"
            exit 0
            --- stdout
            7
            --- stderr
            task 7 was there already under this key
        "#]]
        .assert_eq(&played.to_string());
        let asked = r#"POST /v1/tasks {"type":"t","delay":"1m30s"}"#;
        assert_eq!(samples::play("submit t --delay 90s", &[(asked, NEW.to_owned())]).code, 0);
        let asked = r#"POST /v1/tasks {"type":"t","payload":1,"after":[3,4,5]}"#;
        for words in ["submit t 1 --after 3 4 --after 5", "submit --after=3,4,5 t 1"] {
            assert_eq!(samples::play(words, &[(asked, NEW.to_owned())]).code, 0, "{words}");
        }
        let asked = r#"POST /v1/tasks {"type":"t","after_any":[3]}"#;
        assert_eq!(samples::play("submit t --after-any 3", &[(asked, NEW.to_owned())]).code, 0);
    }

    #[test]
    fn a_command_travels_with_its_directory_and_without_an_environment() {
        let here = serde_json::to_string(&std::env::current_dir().unwrap()).unwrap();
        let asked = format!(
            r#"POST /v1/tasks {{"type":"exec","payload":{{"argv":["echo","-n","--exec"],"cwd":{here}}}}}"#
        );
        let words = "submit --exec -- echo -n --exec";
        let played = samples::play(words, &[(asked.as_str(), NEW.to_owned())]);
        assert_eq!((played.code, played.out.as_str()), (0, "7\n"), "{}", played.err);
    }

    #[test]
    fn a_task_that_is_waited_for_gives_its_end_as_exit_code() {
        let dead = samples::task(7, crate::kernel::status::Status::Dead);
        let played = samples::play(
            "submit t --wait",
            &[
                (r#"POST /v1/tasks {"type":"t"}"#, NEW.to_owned()),
                ("GET /v1/tasks/7/wait?timeout_ms=60000", serde_json::to_string(&dead).unwrap()),
            ],
        );
        assert_eq!((played.code, played.out.as_str()), (1, "7\n7 DEAD\n"));
    }

    #[test]
    fn slips_are_told_before_anything_is_sent() {
        let slips = [
            "submit",
            "submit --exec",
            "submit t --exec -- ls",
            "submit t -- ls",
            "submit t {",
            "submit t --delay 5",
            "submit t --at 25:00",
            "submit t --at 02:30 --delay 5s",
            "submit t --after 3 --after-any 4",
            "submit t --after x",
        ];
        for words in slips {
            let played = samples::play(words, &[]);
            assert_eq!((played.code, played.out.as_str()), (2, ""), "{words}");
        }
    }
}
