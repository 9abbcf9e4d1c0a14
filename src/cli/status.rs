//! `midwatch status`: health on one screen.

use super::connection::get;
use super::failure::{Failure, exit};
use super::paint::Ink;
use super::session::{Format, Session, View};
use super::stats;
use super::table::{Cell, Column, Table};
use super::text::{cut, tame, width};
use crate::api::{ProcessView, StatsView, StatusView};
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
        Format::Table => {
            // A daemon that cannot tell its figures still tells its health.
            let stats: Option<StatsView> = get(session.api, "/v1/stats").ok();
            session.show(&render(&status, stats.as_ref(), &session.view))?;
        }
    }
    let healthy = args.digest || status.health == "OK";
    Ok(if healthy { exit::DONE } else { exit::FAILED })
}

/// The screen.
pub(crate) fn render(status: &StatusView, stats: Option<&StatsView>, view: &View) -> String {
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
    if !status.processes.is_empty() {
        line("memory", memory(&status.processes));
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
    text += &fit(&facts(status, stats), view);
    text + &attention(status, view)
}

/// What is below the figures: what waits, and how the last day went.
fn facts(status: &StatusView, stats: Option<&StatsView>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("  {name:<14}  {value}\n");
    let spread = |name: &str, p95: Option<u64>| {
        p95.map(|ms| format!("{name} p95 {}", units::span(Millis(ms))))
    };
    let spreads = stats.map_or_else(Vec::new, |stats| {
        vec![spread("wait", stats.wait.p95_ms), spread("run", stats.run.p95_ms)]
    });
    let spreads: Vec<_> = spreads.into_iter().flatten().collect();
    let spreads = spreads.join(", ");
    match status.oldest_waiting_ms {
        Some(oldest) if spreads.is_empty() => line("oldest waiting", units::span(Millis(oldest))),
        Some(oldest) => {
            let oldest = units::span(Millis(oldest));
            line("oldest waiting", format!("{oldest}  ({spreads}, last 24 h)"));
        }
        None if spreads.is_empty() => {}
        None => line("times", format!("{spreads}, last 24 h")),
    }
    let Some(stats) = stats else { return text };
    let StatsView { punctuality, success, retries, consistency, .. } = stats;
    if punctuality.fired != 0 || punctuality.without_run != 0 {
        line("triggers", stats::triggers(stats));
    }
    if success.ended != 0 {
        let most = match retries.task {
            Some(task) if retries.most != 0 => {
                format!(", most retries {} ({task})", retries.most)
            }
            _ => ", no retries".to_owned(),
        };
        line("success", format!("{} in 24 h{most}", stats::success(stats)));
    }
    if !consistency.ok {
        line("account", stats::consistency(stats));
    }
    text
}

/// What needs a person, each with the commands that help.
fn attention(status: &StatusView, view: &View) -> String {
    if status.attention.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", view.paint.with(health_ink(&status.health), &status.health));
    for point in &status.attention {
        let mark = if point.critical { "critical: " } else { "" };
        text += &wrapped(&format!("{mark}{}", tame(&point.what)), view);
        let commands: Vec<_> = point.commands.iter().map(|command| tame(command)).collect();
        let together = format!("      {}\n", commands.join("        "));
        if width(&together) < view.width.unwrap_or(80) {
            text += &together;
        } else {
            for command in commands {
                text += &fit(&format!("      {command}\n"), view);
            }
        }
    }
    text
}

/// Lines that a point of attention may take.
const POINT_LINES_MAX: usize = 3;

/// A point of attention between its words, for its end is often what matters; not for ever.
fn wrapped(text: &str, view: &View) -> String {
    let Some(columns) = view.width else { return format!("  {text}\n") };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let full = lines.len() == POINT_LINES_MAX;
        let Some(line) = lines.last_mut() else { break };
        let indent = 4;
        if line.is_empty() || full || indent + width(line) + 1 + width(word) <= columns {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    let indented = lines.iter().enumerate().map(|(number, line)| {
        let indent = if number == 0 { "  " } else { "    " };
        format!("{indent}{}\n", cut(line, columns.saturating_sub(indent.len())))
    });
    indented.collect()
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

/// What our own processes take together. They share the program, so that counts once.
fn memory(processes: &[ProcessView]) -> String {
    let own = processes.iter().map(|process| process.memory_own);
    let shared = processes.iter().map(|it| it.memory.saturating_sub(it.memory_own)).max();
    let all = own.fold(shared.unwrap_or(0), u64::saturating_add);
    let files = processes.iter().filter_map(|process| process.open_files);
    format!(
        "{}, {} open files in {}",
        units::bytes(all),
        units::count(files.fold(0, u64::saturating_add)),
        if processes.len() == 1 {
            "1 process".to_owned()
        } else {
            format!("{} processes", processes.len())
        }
    )
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

pub(super) fn health_ink(health: &str) -> Ink {
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
            processes: [("supervisor", 1, 12), ("engine", 5, 40), ("worker", 2, 14)]
                .map(|(role, own, files)| ProcessView {
                    role: role.to_owned(),
                    name: role.to_owned(),
                    pid: 99,
                    memory: (own + 2) << 20,
                    memory_own: own << 20,
                    threads: 4,
                    open_files: Some(files),
                    growing: Vec::new(),
                })
                .into(),
            stalled_ms: None,
            digest: Some("9f004be1".to_owned()),
        }
    }

    #[test]
    fn one_screen_tells_how_it_is_and_what_helps() {
        let text = render(&status(), None, &samples::view(Some(80)));
        assert!(text.lines().all(|line| width(line) <= 80));
        expect![[r#"
            midwatch 0.1.0 on relay-7, up 41 d 3 h                                 ATTENTION
            journal   4 segments, 12.3 MiB, 81,234 syncs, every write synced
            state     1.8 MiB of 256 MiB
            disk      1.4 GiB free for /var/lib/midwatch
            memory    10 MiB, 66 open files in 3 processes
            workers   2 alive, 0 suspect, 0 offline; 3 of 4 slots busy
            schedules 3; next nightly, in 1 min 30 s
            started   clean, 12 records replayed

              waiting  running  retrying  paused  lost  dead  failed  success  cancelled
                 1204        3         7       0     0     2       1        0          0
              oldest waiting  4 min 12 s

            ATTENTION
              task 88213 fetch_data is DEAD after 6 attempts: connection refused
                  midwatch show 88213        midwatch retry 88213
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn the_figures_of_the_last_day_are_told_where_the_daemon_has_them() {
        let mut stats = crate::cli::top::tests::stats(|_| (0, 0));
        stats.consistency.ok = true;
        let text = render(&status(), Some(&stats), &samples::view(Some(80)));
        assert!(text.lines().all(|line| width(line) <= 80));
        let facts: Vec<_> = text.lines().skip(11).take(3).collect();
        expect![[r#"
            screen
              oldest waiting  4 min 12 s  (wait p95 31 s, run p95 2 min 4 s, last 24 h)
              triggers        58 of 58 on time, latest 400 ms late
              success         99.1 % of 1,340 that ended in 24 h, most retries 3 (88213)"#]]
        .assert_eq(&samples::screen(&facts.join("\n")));
        let mut odd = stats;
        odd.punctuality.without_run = 2;
        odd.punctuality.latest_ms = 72_000;
        odd.consistency =
            crate::api::Consistency { taken: 9, ended: 5, live: 3, ..Default::default() };
        (odd.wait, odd.run) = Default::default();
        expect![[r#"
            screen
              oldest waiting  4 min 12 s
              triggers        58 of 58 on time, latest 1 min 12 s late; 2 without a run
              success         99.1 % of 1,340 that ended in 24 h, most retries 3 (88213)
              account         BROKEN: 9 taken, 5 ended, 3 live, 0 wrong inputs
        "#]]
        .assert_eq(&samples::screen(&super::facts(&status(), Some(&odd))));
    }

    #[test]
    fn a_long_point_of_attention_is_told_to_its_end_on_few_lines() {
        let mut status = status();
        let hostile = "夜班\u{1b}[2J ".repeat(60);
        for what in [
            "schedule nightly has not succeeded since yesterday 03:00, which is longer than its period and half an hour more",
            hostile.as_str(),
            &"x".repeat(300),
        ] {
            what.clone_into(&mut status.attention[0].what);
            for columns in [30, 80, 120] {
                let text = render(&status, None, &samples::view(Some(columns)));
                assert!(text.lines().skip(1).all(|line| width(line) <= columns), "{text}");
            }
        }
        let what = "schedule nightly has not succeeded since yesterday 03:00, which is longer than its \
                    period and half an hour more";
        what.clone_into(&mut status.attention[0].what);
        let text = render(&status, None, &samples::view(Some(80)));
        let told: Vec<_> = text.lines().rev().take(3).collect();
        expect![[r#"
            screen
              schedule nightly has not succeeded since yesterday 03:00, which is longer
                than its period and half an hour more
                  midwatch show 88213        midwatch retry 88213"#]]
        .assert_eq(&samples::screen(&told.into_iter().rev().collect::<Vec<_>>().join("\n")));
    }

    #[test]
    fn the_exit_code_tells_the_health() {
        let answer = |status: &StatusView| serde_json::to_string(status).unwrap();
        let ill = status();
        let well = StatusView { health: "OK".to_owned(), attention: vec![], ..status() };
        let no_figures = crate::api::Problem::new(crate::api::Code::NoSuchRoute, "no");
        let no_figures = serde_json::to_string(&no_figures).unwrap();
        let code = |words, status| {
            let answers =
                [("GET /v1/status", answer(status)), ("GET /v1/stats", no_figures.clone())];
            samples::play(words, &answers).code
        };
        assert_eq!((code("status", &ill), code("status", &well)), (1, 0));
        let played = samples::play("status --json", &[("GET /v1/status", answer(&ill))]);
        assert_eq!(played.code, 1);
        let played = samples::play("status --digest", &[("GET /v1/status?digest=1", answer(&ill))]);
        assert_eq!((played.code, played.out.as_str()), (0, "9f004be1\n"));
    }
}
