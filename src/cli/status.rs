//! `midwatch status`: health on one screen.

use super::connection::get;
use super::failure::{Failure, exit};
use super::paint::Ink;
use super::session::{Format, Session, View};
use super::table::{Cell, Column, Table};
use super::text::{cut, tame, width};
use crate::api::StatusView;
use crate::kernel::ids::Millis;
use crate::units;

/// What to tell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the digest of the state: equal digests, equal states
    #[arg(long)]
    digest: bool,
}

/// Shows it. Exits 1 when something needs a person.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let path = if args.digest { "/v1/status?digest=1" } else { "/v1/status" };
    let status: StatusView = get(session.api, path)?;
    match session.format {
        Format::Json | Format::Ndjson => session.json(&status)?,
        Format::Table if args.digest => {
            let digest = status.digest.unwrap_or_default();
            session.print(&format!("{digest}\n"))?;
        }
        Format::Table => session.print(&render(&status, &session.view))?,
    }
    let healthy = args.digest || status.health == "OK";
    Ok(if healthy { exit::DONE } else { exit::FAILED })
}

/// The screen.
pub(crate) fn render(status: &StatusView, view: &View) -> String {
    let mut text = first_line(status, view);
    let mut line = |name: &str, value: String| text += &format!("{name:<10}{value}\n");
    line(
        "journal",
        format!(
            "{} {}, {}, {} syncs, {}",
            units::count(status.journal_segments),
            if status.journal_segments == 1 { "segment" } else { "segments" },
            units::bytes(status.journal_bytes),
            units::count(status.syncs),
            policy(&status.fsync)
        ),
    );
    let (taken, max) = (units::bytes(status.state_bytes), units::bytes(status.state_bytes_max));
    line("state", format!("{taken} of {max}"));
    if let Some(free) = status.disk_free {
        line("disk", format!("{} free for {}", units::bytes(free), tame(&status.data_dir)));
    }
    line(
        "workers",
        format!(
            "{} alive, {} suspect, {} offline; {} of {} slots busy",
            status.workers_alive,
            status.workers_suspect,
            status.workers_offline,
            status.slots_busy,
            status.slots
        ),
    );
    if status.schedules != 0 {
        line("schedules", schedules(status, view));
    }
    if !status.recovery.is_empty() {
        line("started", tame(&status.recovery));
    }
    let mut text = fit(&text, view);
    text.push('\n');
    text += &figures(status, view);
    if let Some(oldest) = status.oldest_waiting_ms {
        text += &format!("  oldest waiting  {}\n", units::span(Millis(oldest)));
    }
    if !status.attention.is_empty() {
        text += &format!("\n{}\n", view.paint.with(health_ink(&status.health), &status.health));
        for point in &status.attention {
            let mark = if point.critical { "critical: " } else { "" };
            let what = format!("  {mark}{}\n", tame(&point.what));
            text += &fit(&what, view);
            for command in &point.commands {
                text += &fit(&format!("      {}\n", tame(command)), view);
            }
        }
    }
    text
}

/// Who speaks, for how long, and how it is, to the right of the screen.
fn first_line(status: &StatusView, view: &View) -> String {
    let who = format!(
        "midwatch {} on {}, up {}",
        tame(&status.version),
        tame(&status.host),
        units::span(Millis(status.uptime_ms - status.uptime_ms % 1000))
    );
    let columns = view.width.unwrap_or(80).min(80);
    let who = cut(&who, columns.saturating_sub(width(&status.health) + 2));
    let gap = columns.saturating_sub(width(&who) + width(&status.health)).max(2);
    let health = view.paint.with(health_ink(&status.health), &tame(&status.health));
    format!("{}{}{health}\n", view.paint.with(Ink::Bold, &who), " ".repeat(gap))
}

/// How many there are, and which is next.
fn schedules(status: &StatusView, view: &View) -> String {
    let count = units::count(status.schedules);
    match &status.next_fire {
        Some(next) => {
            format!("{count}; next {}, {}", tame(&next.schedule), view.relative(&next.at))
        }
        None => format!("{count}; nothing is planned"),
    }
}

fn health_ink(health: &str) -> Ink {
    match health {
        "OK" => Ink::Green,
        "ATTENTION" => Ink::Yellow,
        _ => Ink::Red,
    }
}

fn policy(fsync: &str) -> String {
    match fsync.strip_prefix("interval:") {
        Some(every) => format!("synced every {}", tame(every)),
        None if fsync == "always" => "every write synced".to_owned(),
        None => "never synced: a power cut loses work".to_owned(),
    }
}

/// Tasks by status, a column each.
fn figures(status: &StatusView, view: &View) -> String {
    const HEADS: [(&str, &str); 9] = [
        ("PENDING", "waiting"),
        ("RUNNING", "running"),
        ("RETRYING", "retrying"),
        ("PAUSED", "paused"),
        ("LOST", "lost"),
        ("DEAD", "dead"),
        ("FAILED", "failed"),
        ("SUCCESS", "success"),
        ("CANCELLED", "cancelled"),
    ];
    let mut table = Table::new(&HEADS.map(|(_, head)| Column::right(head)));
    let mut cells = Vec::new();
    for (word, _) in HEADS {
        let number = status.tasks.get(word).copied().unwrap_or_default();
        let ink = match word {
            "DEAD" | "FAILED" if number != 0 => Ink::Red,
            "LOST" if number != 0 => Ink::Yellow,
            _ => Ink::Plain,
        };
        cells.push(Cell::new(&number.to_string(), ink));
    }
    table.row(cells);
    table.render(view.width, view.paint)
}

/// Cuts the lines that would wrap. Not for lines with colour in them, but for the first.
fn fit(text: &str, view: &View) -> String {
    let Some(columns) = view.width else { return text.to_owned() };
    let mut lines = text.lines();
    let mut fitted = String::new();
    for line in lines.by_ref() {
        let line = if line.contains('\u{1b}') { line.to_owned() } else { cut(line, columns) };
        fitted += &line;
        fitted.push('\n');
    }
    fitted
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::api::{Attention, ClockView, NextFire};
    use crate::cli::samples;
    use crate::kernel::ids::Seq;
    use expect_test::expect;

    pub(crate) fn status() -> StatusView {
        let tasks =
            [("PENDING", 1204), ("RUNNING", 3), ("RETRYING", 7), ("DEAD", 2), ("FAILED", 1)];
        StatusView {
            version: "0.1.0".to_owned(),
            host: "relay-7".to_owned(),
            pid: 99,
            uptime_ms: 3_553_200_123,
            data_dir: "/var/lib/midwatch".to_owned(),
            fsync: "always".to_owned(),
            health: "ATTENTION".to_owned(),
            attention: vec![Attention {
                alert: None,
                critical: false,
                what: "task 88213 fetch_data is DEAD after 6 attempts: connection refused"
                    .to_owned(),
                commands: vec!["midwatch show 88213".to_owned(), "midwatch retry 88213".to_owned()],
            }],
            seq: Seq(502_107),
            tasks: tasks.map(|(word, number)| (word.to_owned(), number)).into(),
            oldest_waiting_ms: Some(252_000),
            schedules: 3,
            next_fire: Some(NextFire {
                schedule: "nightly".to_owned(),
                at: "2026-03-14T02:41:30.000Z".to_owned(),
            }),
            workers_alive: 2,
            workers_suspect: 0,
            workers_offline: 0,
            slots: 4,
            slots_busy: 3,
            state_bytes: 1_893_004,
            state_bytes_max: 256 << 20,
            journal_segments: 4,
            journal_bytes: 12_897_485,
            syncs: 81_234,
            disk_free: Some(1_503_238_553),
            recovery: "clean, 12 records replayed".to_owned(),
            config_reload_ok: true,
            clock: ClockView::default(),
            digest: Some("9f004be1".to_owned()),
        }
    }

    #[test]
    fn one_screen_tells_how_it_is_and_what_helps() {
        let text = render(&status(), &samples::view(Some(80)));
        assert!(text.lines().all(|line| width(line) <= 80));
        expect![[r#"
            midwatch 0.1.0 on relay-7, up 41 d 3 h                                 ATTENTION
            journal   4 segments, 12.3 MiB, 81,234 syncs, every write synced
            state     1.8 MiB of 256 MiB
            disk      1.4 GiB free for /var/lib/midwatch
            workers   2 alive, 0 suspect, 0 offline; 3 of 4 slots busy
            schedules 3; next nightly, in 1 min 30 s
            started   clean, 12 records replayed

              waiting  running  retrying  paused  lost  dead  failed  success  cancelled
                 1204        3         7       0     0     2       1        0          0
              oldest waiting  4 min 12 s

            ATTENTION
              task 88213 fetch_data is DEAD after 6 attempts: connection refused
                  midwatch show 88213
                  midwatch retry 88213
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn the_exit_code_tells_the_health() {
        let answer = |status: &StatusView| serde_json::to_string(status).unwrap();
        let ill = status();
        let well = StatusView { health: "OK".to_owned(), attention: vec![], ..status() };
        let code = |words, path, status| samples::play(words, &[(path, answer(status))]).code;
        assert_eq!(code("status", "GET /v1/status", &ill), 1);
        assert_eq!(code("status", "GET /v1/status", &well), 0);
        assert_eq!(code("status --json", "GET /v1/status", &ill), 1);
        let played = samples::play("status --digest", &[("GET /v1/status?digest=1", answer(&ill))]);
        assert_eq!((played.code, played.out.as_str()), (0, "9f004be1\n"));
    }
}
