//! `midwatch edit`: changes tasks that wait or are paused.

use super::act::each;
use super::arguments::{duration, task_id};
use super::failure::Failure;
use super::session::Session;
use crate::api::EditRequest;
use crate::kernel::ids::TaskId;
use crate::units::{self, Unreadable};

/// What to change, and of which tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only tasks that wait (PENDING, RETRYING) or are PAUSED can be edited; one that runs is stopped and
started over with `midwatch reset`, one that has ended is run again with `midwatch retry`.

  midwatch edit 42 --priority 1                  let it go before the others
  midwatch edit 42 43 --next-run 02:30           not before half past two at night
  midwatch edit 42 --next-run 2h --timeout none  in two hours, for as long as it takes")]
#[group(id = "change", required = true, multiple = true, args = ["priority", "max_retry", "next_run", "timeout"])]
pub(crate) struct Args {
    /// The tasks
    #[arg(value_name = "ID", required = true, value_parser = task_id)]
    ids: Vec<TaskId>,
    /// Smaller runs first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Retries in all; never fewer than there were already
    #[arg(long, value_name = "N")]
    max_retry: Option<u32>,
    /// Not before then: 02:30, "2026-03-14 02:30", RFC 3339, or a span from now such as 90s
    #[arg(long, value_name = "TIME|DUR")]
    next_run: Option<String>,
    /// Longest run of one attempt, or none
    #[arg(long, value_name = "DUR|none", value_parser = timeout)]
    timeout: Option<String>,
}

fn timeout(text: &str) -> Result<String, Unreadable> {
    if text == "none" { Ok(text.to_owned()) } else { duration(text).map(units::format_duration) }
}

/// Changes each of them.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let Args { ids, priority, max_retry, next_run, timeout } = args;
    let (mut at, mut delay) = (None, None);
    if let Some(text) = next_run {
        if let Ok(span) = duration(text) {
            delay = Some(units::format_duration(span));
        } else {
            let instant = session.view.zone.parse(text, session.view.now);
            let instant = instant.map_err(|error| {
                Failure::usage(format!("{error}; or give a span from now, such as 90s"))
            })?;
            at = Some(units::rfc3339(instant));
        }
    }
    let timeout = timeout.clone();
    let request = EditRequest { priority: *priority, max_retry: *max_retry, at, delay, timeout };
    each(ids, "edit", &request, session)
}

#[cfg(test)]
mod tests {
    use crate::cli::samples;
    use expect_test::expect;

    const ACTED: &str = r#"{"id":7,"status":"RETRYING","stop_requested":null,"changed":true}"#;

    #[test]
    fn every_change_travels_and_a_span_is_told_from_a_time() {
        let asked = r#"POST /v1/tasks/7/edit {"priority":-1,"max_retry":9,"at":"2026-03-15T02:30:00.000Z","timeout":"none"}"#;
        let words = "edit 7 --priority -1 --max-retry 9 --next-run 02:30 --timeout none --utc";
        let played = samples::play(words, &[(asked, ACTED.to_owned())]);
        expect![[r#"
            exit 0
            --- stdout
            7 RETRYING
            --- stderr
        "#]]
        .assert_eq(&played.to_string());
        let asked = r#"POST /v1/tasks/7/edit {"delay":"1m30s","timeout":"10m"}"#;
        let words = "edit 7 --next-run 90s --timeout 10m --json";
        let played = samples::play(words, &[(asked, ACTED.to_owned())]);
        assert_eq!((played.code, played.out.trim()), (0, ACTED));
    }

    #[test]
    fn slips_are_told_before_anything_is_sent() {
        let slips = [
            "edit 7",
            "edit --priority 1",
            "edit 7 --next-run soon",
            "edit 7 --timeout never",
            "edit 7 --max-retry -1",
        ];
        for words in slips {
            let played = samples::play(words, &[]);
            assert_eq!((played.code, played.out.as_str()), (2, ""), "{words}");
        }
    }
}
