//! `midwatch alerts`: what is wrong and was, who knows of it, and whether the channels work.

use super::connection::{get, post};
use super::failure::{Failure, exit};
use super::paint::Ink;
use super::session::{Format, Session, View};
use super::table::{Cell, Column, Table};
use super::text::tame;
use crate::api::{AlertActed, AlertView, Alerts, TestRequest, Tested, TestedChannel};

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

/// What to do with alerts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// What is wrong, the worst first, and what was within a week; what `midwatch alerts` does
    #[command(visible_alias = "ls")]
    List,
    /// Say that you know: nobody is told of them again before they are over and come back
    Ack {
        /// The alerts
        #[arg(value_name = "ID", required = true, value_parser = alert_id)]
        ids: Vec<u64>,
    },
    /// Send a test message through each channel of the config, or through one
    Test {
        /// The channel
        #[arg(value_name = "CHANNEL")]
        channel: Option<String>,
    },
}

/// Does it.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    match args.command.as_ref().unwrap_or(&Command::List) {
        Command::List => list(session),
        Command::Ack { ids } => ack(ids, session),
        Command::Test { channel } => test(channel.as_ref(), session),
    }
}

fn alert_id(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_number| "an alert's id is a number, as `midwatch alerts` shows it")
}

fn list(session: &mut Session<'_>) -> Result<u8, Failure> {
    let alerts: Alerts = get(session.api, "/v1/alerts")?;
    match session.format {
        Format::Json => session.json(&alerts)?,
        Format::Ndjson => alerts.alerts.iter().try_for_each(|alert| session.json(alert))?,
        Format::Table => {
            if alerts.alerts.is_empty() {
                session.note("nothing is wrong, and nothing was for a week");
            } else {
                session.print(&render(&alerts, &session.view))?;
            }
            if alerts.channels.is_empty() {
                session.note("nobody is told: the config names no channel, such as [alerts.ops]");
            }
            for channel in &alerts.channels {
                if let Some(trouble) = &channel.trouble {
                    session.note(&format!("channel {} is in trouble: {trouble}", channel.name));
                }
            }
        }
    }
    Ok(exit::DONE)
}

/// The table.
fn render(alerts: &Alerts, view: &View) -> String {
    let mut table = Table::new(&[
        Column::right("ID"),
        Column::left("LEVEL"),
        Column::left("STATE"),
        Column::left("SINCE").rank(1),
        Column::left("WHAT"),
    ]);
    for alert in &alerts.alerts {
        table.row(vec![
            alert.id.to_string().into(),
            Cell::new(&alert.level, ink(alert)),
            state(alert).into(),
            view.relative(&alert.since).into(),
            tame(&alert.what).into(),
        ]);
    }
    table.render(view.width, view.paint)
}

fn ink(alert: &AlertView) -> Ink {
    match (alert.over.is_some(), alert.level.as_str()) {
        (true, _) => Ink::Plain,
        (false, "critical") => Ink::Red,
        (false, _) => Ink::Yellow,
    }
}

fn state(alert: &AlertView) -> String {
    if alert.acked.is_some() { format!("{}, acked", alert.state) } else { alert.state.clone() }
}

fn ack(ids: &[u64], session: &mut Session<'_>) -> Result<u8, Failure> {
    session.one_by_one(
        ids,
        |id, session| {
            let path = format!("/v1/alerts/{id}/ack");
            post::<_, AlertActed>(session.api, &path, &serde_json::json!({}))
        },
        |_, acted, session| match session.format {
            Format::Json | Format::Ndjson => session.json(acted),
            Format::Table => {
                let AlertActed { view, changed } = acted;
                let words = match (view.over.is_some(), changed) {
                    (true, _) => "is over; nothing to acknowledge",
                    (false, true) => "acknowledged",
                    (false, false) => "was acknowledged already",
                };
                session.print(&format!("{} {words}: {}\n", view.id, tame(&view.what)))
            }
        },
    )
}

fn test(channel: Option<&String>, session: &mut Session<'_>) -> Result<u8, Failure> {
    let request = TestRequest { channel: channel.cloned() };
    let tested: Tested = post(session.api, "/v1/alerts/test", &request)?;
    match session.format {
        Format::Json => session.json(&tested)?,
        Format::Ndjson => tested.channels.iter().try_for_each(|one| session.json(one))?,
        Format::Table if tested.channels.is_empty() => {
            session.note("the config names no channel, such as [alerts.ops]");
        }
        Format::Table => {
            for TestedChannel { name, ok: _, error } in &tested.channels {
                let outcome = error.as_deref().unwrap_or("took the message");
                session.print(&format!("{name}: {}\n", tame(outcome)))?;
            }
        }
    }
    let all = tested.channels.iter().all(|one| one.ok);
    Ok(if all { exit::DONE } else { exit::FAILED })
}

#[cfg(test)]
mod tests {
    use crate::cli::samples;
    use expect_test::expect;

    const ALERT: &str = r#""rule":"task_failed","subject":"fetch_data","last":"2026-03-14T02:39:00Z","count":3,"action":"read the log","advice":null,"contact":null,"commands":[],"task":null"#;

    fn alert(id: u64, level: &str, over: &str, acked: &str) -> String {
        let state = if over == "null" { "standing" } else { "over" };
        format!(
            r#"{{"id":{id},"level":"{level}","what":"3 tasks of type fetch_data failed one after the other","state":"{state}","since":"2026-03-14T02:35:00Z","over":{over},"acked":{acked},{ALERT}}}"#
        )
    }

    #[test]
    fn alerts_are_listed_with_what_is_wrong_and_who_is_in_trouble() {
        let by = r#"{"by":"uid 1000","at":"2026-03-14T02:36:00Z","reason":null}"#;
        let alerts = [
            alert(7, "critical", "null", "null"),
            alert(8, "warning", "null", by),
            alert(2, "warning", r#""2026-03-14T02:36:00Z""#, "null"),
        ];
        let body = format!(
            r#"{{"alerts":[{}],"channels":[{{"name":"ops","min_level":"warning","trouble":"https://example.org/…: no answer in time"}}]}}"#,
            alerts.join(",")
        );
        let played = samples::play("alerts", &[("GET /v1/alerts", body.clone())]);
        expect![[r#"
            exit 0
            --- stdout
              ID  LEVEL     STATE            SINCE      WHAT
               7  critical  standing         5 min ago  3 tasks of type fetch_data failed o…
               8  warning   standing, acked  5 min ago  3 tasks of type fetch_data failed o…
               2  warning   over             5 min ago  3 tasks of type fetch_data failed o…
            --- stderr
            channel ops is in trouble: https://example.org/…: no answer in time
        "#]]
        .assert_eq(&played.to_string());
        let same = samples::play("alerts list", &[("GET /v1/alerts", body)]);
        assert_eq!(same.to_string(), played.to_string());
        let none = r#"{"alerts":[],"channels":[]}"#.to_owned();
        let played = samples::play("alerts", &[("GET /v1/alerts", none)]);
        expect![[r#"
            exit 0
            --- stdout
            --- stderr
            nothing is wrong, and nothing was for a week
            nobody is told: the config names no channel, such as [alerts.ops]
        "#]]
        .assert_eq(&played.to_string());
    }

    #[test]
    fn each_alert_is_acknowledged_and_one_that_is_over_says_so() {
        let acted = |id, over: &str, changed: bool| {
            let view = alert(id, "warning", over, "null");
            format!(r#"{},"changed":{changed}}}"#, view.trim_end_matches('}'))
        };
        let played = samples::play(
            "alerts ack 7 8 2",
            &[
                ("POST /v1/alerts/7/ack {}", acted(7, "null", true)),
                ("POST /v1/alerts/8/ack {}", acted(8, "null", false)),
                ("POST /v1/alerts/2/ack {}", acted(2, r#""2026-03-14T02:36:00Z""#, false)),
            ],
        );
        expect![[r#"
            exit 0
            --- stdout
            7 acknowledged: 3 tasks of type fetch_data failed one after the other
            8 was acknowledged already: 3 tasks of type fetch_data failed one after the other
            2 is over; nothing to acknowledge: 3 tasks of type fetch_data failed one after the other
            --- stderr
        "#]]
        .assert_eq(&played.to_string());
    }

    #[test]
    fn a_test_says_what_became_of_each_message_and_fails_where_one_did_not_arrive() {
        let body = r#"{"channels":[{"name":"ops","ok":true,"error":null},{"name":"pager","ok":false,"error":"/usr/local/bin/page ended with exit status 3"}]}"#;
        let played = samples::play("alerts test", &[("POST /v1/alerts/test {}", body.to_owned())]);
        expect![[r#"
            exit 1
            --- stdout
            ops: took the message
            pager: /usr/local/bin/page ended with exit status 3
            --- stderr
        "#]]
        .assert_eq(&played.to_string());
        let one = r#"{"channels":[{"name":"ops","ok":true,"error":null}]}"#;
        let asked = r#"POST /v1/alerts/test {"channel":"ops"}"#;
        assert_eq!(samples::play("alerts test ops", &[(asked, one.to_owned())]).code, 0);
    }
}
