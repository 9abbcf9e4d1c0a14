//! The command line as a whole: help, usage, and what the documents promise.

use super::*;
use crate::api::Code;
use crate::units;
use expect_test::expect;

#[test]
fn without_a_command_the_next_step_is_told() {
    let played = play_nothing();
    assert_eq!((played.code, played.out.as_str()), (0, WELCOME));
    assert!(WELCOME.lines().all(|line| text::width(line) <= 80));
}

fn play_nothing() -> samples::Played {
    samples::play_words(&[], &[])
}

#[test]
fn the_help_names_every_command() {
    let mut command = Cli::command().term_width(80);
    expect![[r#"
        Runs unattended tasks on one machine and loses none of them

        Usage: midwatch [OPTIONS] [COMMAND]

        Commands:
          daemon       Run everything in the foreground: supervisor, engine and workers
          engine       Run the engine alone, for those who supervise it themselves
          worker       Run one worker alone
          demo         See a task survive two kills, in under a minute, in a directory
                       that is removed again
          submit       Give the daemon a task; prints its id [alias: add]
          import       Submit many tasks, one JSON object a line
          list         What runs, waits and has ended [alias: ls]
          show         Everything about one task
          history      Every transition and attempt of one task
          log          The output of an attempt
          wait         Wait until tasks have ended; exits 0 when all ended well
          watch        What happens, as it happens
          cancel       End tasks for good [alias: kill]
          pause        Set tasks aside, with their checkpoints
          resume       Let paused tasks run again
          retry        Run ended tasks again, as new tasks
          run-now      Let waiting tasks run at once
          reset        Stop tasks that are stuck, and start them over
          edit         Change tasks that wait: priority, retries, next run, timeout
          type         Whole task types: list, pause, resume, limit
          schedule     What runs by the clock: list, show, add, remove, pause, resume,
                       trigger, next
          workers      Who works, who is silent, and what each holds
          status       Health on one screen; exits 1 when it is not good
          stats        Figures: what was created and ended, how long it waited and ran
          top          All of it on one screen that keeps up, with keys for what must be
                       done
          alerts       What is wrong and was; acknowledge it; test the channels
          states       Which status may follow which, and why
          task         For use inside a handler: checkpoint, progress, result
          doctor       Check the host and the setup, or one task that seems stuck, and
                       say what to do
          config       Check the config, or show what is in force
          completions  A completion script for your shell
          man          The man page; midwatch man | man -l -
          help         Print this message or the help of the given subcommand(s)

        Options:
          -h, --help     Print help
          -V, --version  Print version

        Global options:
              --config <FILE>    The config file [default: the user's own, then
                                 /etc/midwatch/midwatch.toml] [env: MIDWATCH_CONFIG]
              --data-dir <DIR>   Where the daemon keeps its files [env:
                                 MIDWATCH_DATA_DIR]
              --socket <PATH>    Where the daemon is reached [env: MIDWATCH_SOCKET]
              --format <FORMAT>  The form of results [default: table] [possible values:
                                 table, json, ndjson]
              --json             Short for --format json
              --color <WHEN>     When to use colour [default: auto] [possible values:
                                 auto, always, never]
              --utc              Show times in UTC instead of the local zone
              --absolute         Show times on the clock instead of how long ago they
                                 were
          -v, --verbose...       Say more
          -q, --quiet            Say only results and errors
    "#]]
    .assert_eq(&command.render_help().to_string());
}

#[test]
fn the_definition_of_the_arguments_is_sound() {
    Cli::command().debug_assert();
    // clap lets a command's argument shadow a global one, and fails when that is read.
    let cli = Cli::command();
    let globals: Vec<_> = cli.get_arguments().map(|argument| argument.get_id().clone()).collect();
    let mut commands: Vec<_> = cli.get_subcommands().collect();
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands());
        for argument in command.get_arguments() {
            assert!(!globals.contains(argument.get_id()), "{} {argument}", command.get_name());
        }
    }
}

const DOCUMENT: &str = include_str!("../../spec/cli.md");

#[test]
fn the_document_has_every_refusal_with_its_exit_code() {
    for code in Code::ALL {
        let row = format!("| `{}` | {} |", code.word(), code.exit());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}

#[test]
fn the_document_names_every_command_and_every_option() {
    let mut commands = vec![Cli::command()];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        assert!(DOCUMENT.contains(command.get_name()), "{}", command.get_name());
        for argument in command.get_arguments() {
            let Some(long) = argument.get_long() else { continue };
            if argument.is_hide_set() {
                continue;
            }
            let common = ["help", "version", "verbose", "quiet", "follow"].contains(&long);
            assert!(common || DOCUMENT.contains(&format!("--{long}")), "--{long}");
        }
    }
}

/// Answers of the API whose every text is long, wide and hostile.
fn hostile(mut value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    let words = "夜班\u{1b}[2J\u{202e}👩\u{200d}🚀\r\n".repeat(30);
    match &mut value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let kept = ["status", "at", "from", "to", "since", "reason", "outcome", "health"];
                let is_time = name.ends_with("_at") || name.ends_with("_since");
                let is_word = ["stop_requested", "lease_expire_time", "next_run_time"];
                if !kept.contains(&&**name) && !is_time && !is_word.contains(&&**name) {
                    *value = hostile(value.take());
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = hostile(value.take())),
        Value::String(text) if units::parse_rfc3339(text).is_err() => *text = words,
        Value::Number(number) if number.is_u64() => *number = i32::MAX.into(),
        Value::String(_) | Value::Number(_) | Value::Null | Value::Bool(_) => {}
    }
    value
}

#[test]
fn no_output_is_wider_than_the_screen_whatever_is_in_it() {
    let json = |value: serde_json::Value| hostile(value).to_string();
    let of = |value: &dyn erased::Json| json(value.json());
    let status = status::tests::status();
    let stats = top::tests::stats(|minute| (minute, 1));
    let list = samples::list();
    let (types, workers) = (top::tests::types(), top::tests::workers());
    let schedules = top::tests::schedules();
    let all = serde_json::json!({ "schedules": schedules, "refused": [] });
    for (words, answers) in [
        ("list", vec![("GET /v1/tasks?limit=50", of(&list))]),
        ("show 88231", vec![("GET /v1/tasks/88231", of(&list.tasks[0]))]),
        ("history 88213", vec![("GET /v1/tasks/88213/history", of(&samples::history()))]),
        ("workers", vec![("GET /v1/workers", json(serde_json::json!({ "workers": workers })))]),
        ("type list", vec![("GET /v1/types", json(serde_json::json!({ "types": types })))]),
        ("type show x", vec![("GET /v1/types/x", of(&types[1]))]),
        ("schedule list", vec![("GET /v1/schedules", json(all))]),
        ("schedule show x", vec![("GET /v1/schedules/x", of(&schedules[1]))]),
        ("status", vec![("GET /v1/status", of(&status)), ("GET /v1/stats", of(&stats))]),
        ("stats", vec![("GET /v1/stats?since=1d", of(&stats))]),
        ("stats --by minute", vec![("GET /v1/stats?since=1d&minutes=1", of(&stats))]),
        ("watch", vec![("GET /v1/events", event())]),
    ] {
        for more in ["", " --absolute"] {
            let played = samples::play(&format!("{words}{more}"), &answers);
            assert!(!played.out.is_empty(), "{words}: {played}");
            for line in played.out.lines() {
                assert!(text::width(line) <= 80, "{words}{more}: {line}\n{played}");
                assert!(!line.contains(char::is_control), "{words}: {line:?}");
            }
        }
    }
}

/// An event of the stream.
fn event() -> String {
    let event = serde_json::json!({
        "seq": 1, "at": "2026-03-14T02:10:00.009Z", "event": "leased", "task": 7, "type": "t",
        "from": "PENDING", "to": "RUNNING", "reason": "dispatched", "by": "w", "note": "n",
    });
    format!("data: {}\n\n", hostile(event))
}

/// Whatever has a JSON form.
mod erased {
    pub(super) trait Json {
        fn json(&self) -> serde_json::Value;
    }
    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> serde_json::Value {
            serde_json::to_value(self).unwrap()
        }
    }
}

#[test]
fn an_empty_path_is_a_slip() {
    for flag in ["--socket", "--data-dir", "--config"] {
        let played = samples::play_words(&["config", "show", flag, ""], &[]);
        assert_eq!((played.code, played.out.as_str()), (2, ""), "{flag}");
    }
}

#[test]
fn every_command_has_a_man_page_and_is_completed() {
    use super::documents::{Shell, completions, man};

    let scripts =
        [Shell::Bash, Shell::Fish, Shell::Zsh].map(|shell| completions(Cli::command(), shell));
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let page = man(Cli::command(), Some(name)).unwrap().unwrap();
        assert!(page.contains(&format!("midwatch\\-{}", name.replace('-', "\\-"))), "{page}");
        assert!(scripts.iter().all(|script| script.contains(name)), "{name}");
    }
    assert!(man(Cli::command(), None).unwrap().unwrap().contains(".TH midwatch 1"));
    assert_eq!(man(Cli::command(), Some("dance")).unwrap(), None);
}
