//! The screen as a person sees it, and the keys as a person types them.

use super::ask::{Act, Asker, Order};
use super::draw::draw;
use super::keys::{Wish, paste, press};
use super::model::{Model, News};
use super::page::{Body, Page, Wanted, log_lines};
use super::screen::Told;
use crate::api::{
    AlertView, BoundView, MinuteStats, Progress, ScheduleView, StatsView, TaskList, TaskView,
    TypeView, Types, WorkerView, Workers,
};
use crate::cli::paint::Paint;
use crate::cli::samples::{self, Script};
use crate::cli::status;
use crate::cli::text::width;
use crate::kernel::ids::{Millis, TaskId, Timestamp, WorkerId};
use crate::kernel::status::Status;
use crate::units::rfc3339;
use expect_test::{Expect, expect};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use std::sync::mpsc::sync_channel;

/// An instant of the past.
fn ago(secs: u64) -> Timestamp {
    Timestamp(samples::view(None).now.0 - 1000 * secs)
}

fn running() -> Vec<TaskView> {
    let task = |id, kind: &str, since: &str, progress| TaskView {
        kind: kind.to_owned(),
        executor_id: Some(WorkerId(17)),
        status_since: since.to_owned(),
        progress,
        ..samples::task(id, Status::Running)
    };
    let done = |done, total, note: Option<&str>| {
        Some(Progress { done, total, note: note.map(str::to_owned) })
    };
    let lost = TaskView {
        status: Status::Lost,
        lost_count: 1,
        ..task(88225, "fetch_data", "2026-03-14T02:39:58.000Z", None)
    };
    vec![
        task(
            88231,
            "render_report",
            "2026-03-14T02:38:00.000Z",
            done(6000, Some(10_000), Some("page 61")),
        ),
        task(88229, "fetch_data", "2026-03-14T02:39:10.000Z", done(41_000, None, None)),
        lost,
    ]
}

fn ended() -> Vec<TaskView> {
    let task = |id, status, secs: u64, error: Option<&str>| TaskView {
        status_since: rfc3339(ago(secs)),
        error: error.map(str::to_owned),
        ..samples::task(id, status)
    };
    vec![
        TaskView {
            result: Some(samples::raw(r#"{"rows":41000}"#)),
            ..task(88230, Status::Success, 12, None)
        },
        TaskView { retry_count: 6, ..task(88213, Status::Dead, 540, Some("connection refused")) },
        TaskView {
            schedule: Some("nightly".to_owned()),
            ..task(88211, Status::Failed, 700, Some("no such table: orders"))
        },
        task(88207, Status::Cancelled, 7000, None),
        task(88206, Status::Success, 7100, None),
    ]
}

pub(crate) fn types() -> Vec<TypeView> {
    let one = |kind: &str, max, running, waiting: u64| TypeView {
        kind: kind.to_owned(),
        configured: true,
        paused: None,
        max_running: BoundView { value: max, from: "config".to_owned() },
        rate: BoundView { value: None, from: "default".to_owned() },
        limited: None,
        dispatched: 0,
        next_dispatch_at: None,
        running,
        due: waiting,
        tasks: [("PENDING".to_owned(), waiting)].into(),
    };
    let paused = crate::api::OrderView {
        by: "uid 1000".to_owned(),
        at: "2026-03-14T02:31:00.000Z".to_owned(),
        reason: Some("the bank is down".to_owned()),
    };
    vec![
        one("fetch_data", Some(2), 2, 1204),
        TypeView { paused: Some(paused), ..one("pay_out", None, 0, 37) },
        one("render_report", None, 1, 0),
    ]
}

pub(crate) fn schedules() -> Vec<ScheduleView> {
    let json = |name: &str, cron: &str, next: &str, failures: u32| {
        let next = serde_json::json!({ "at": next, "local": next, "note": null });
        serde_json::json!({
            "name": name, "type": "fetch_data", "payload": null, "cron": cron, "every": null,
            "from": null, "at": null, "boot": false, "timezone": "UTC", "priority": 100,
            "max_retry": null, "timeout": null, "misfire_grace": "1h", "coalesce": true,
            "max_instances": 1, "overlap": "skip", "jitter": "0s", "dst_gap": null,
            "dst_fold": null, "origin": "config", "since": "2026-03-01T00:00:00Z", "by": "config",
            "paused": null, "held": false, "trouble": null, "next": next, "last": null,
            "last_task": null, "last_success": "2026-03-14T02:30:00.000Z", "failures": failures,
            "counts": { "fired": 1340, "coalesced": 0, "skipped": 0, "missed": 0 },
            "running": [], "queued": [], "recent": [], "away": null,
        })
    };
    [
        json("poll", "* * * * *", "2026-03-14T02:41:00.000Z", 0),
        json("nightly", "0 3 * * *", "2026-03-14T03:00:00.000Z", 3),
    ]
    .map(|one| serde_json::from_value(one).unwrap())
    .into()
}

pub(crate) fn workers() -> Vec<WorkerView> {
    let one = |id, status: &str, silent| WorkerView {
        id: WorkerId(id),
        name: format!("w{id}"),
        status: status.to_owned(),
        pid: 4242,
        host: "relay-7".to_owned(),
        version: "0.1.0".to_owned(),
        types: vec![],
        slots: 2,
        silent_ms: Millis(silent),
        holds: vec![],
    };
    vec![one(17, "alive", 2000), one(18, "suspect", 95_000)]
}

/// Figures with that in each minute, counted back from now.
pub(crate) fn stats(minutes: impl Fn(u64) -> (u64, u64)) -> StatsView {
    let now = ago(0);
    let minute = |index: u64| {
        let (succeeded, failed) = minutes(index);
        MinuteStats {
            at: rfc3339(ago(60 * index)),
            created: 0,
            succeeded,
            failed,
            retried: 0,
            lost: 0,
            wait_p95_ms: None,
            run_p95_ms: None,
        }
    };
    let spread = |p95| crate::api::Spread { count: 9, p95_ms: Some(p95), ..Default::default() };
    let mut kind: crate::api::TypeStats = serde_json::from_value(serde_json::json!({
        "type": "fetch_data", "created": 0, "succeeded": 1303, "failed": 9, "dead": 3,
        "cancelled": 0, "retried": 0, "lost": 0, "waiting": 0, "running": 0,
        "wait": crate::api::Spread::default(), "run": crate::api::Spread::default(),
        "last_success": null, "last_failure": null, "failures_in_a_row": 0,
    }))
    .unwrap();
    (kind.wait, kind.run) = (spread(31_000), spread(124_000));
    StatsView {
        at: rfc3339(now),
        since: rfc3339(ago(86_400)),
        span_ms: 86_400_000,
        punctuality: crate::api::Punctuality {
            fired: 58,
            on_time: 58,
            without_run: 0,
            latest_ms: 400,
        },
        success: crate::api::Success { ended: 1340, succeeded: 1328, rate: Some(0.991) },
        retries: crate::api::Retries { retried: 17, most: 3, task: Some(TaskId(88213)) },
        backlog: crate::api::Backlog::default(),
        consistency: crate::api::Consistency::default(),
        wait: spread(31_000),
        run: spread(124_000),
        types: vec![kind],
        minutes: Some((0..120).map(minute).collect()),
    }
}

fn busy() -> News {
    News {
        at: samples::view(None).now,
        status: status::tests::status(),
        stats: Some(stats(|ago| (ago * 7 % 11, u64::from(ago % 23 == 5)))),
        running: running(),
        ended: ended(),
        types: types(),
        schedules: schedules(),
        workers: workers(),
        alerts: vec![],
    }
}

fn empty() -> News {
    let status = crate::api::StatusView {
        health: "OK".to_owned(),
        attention: vec![],
        tasks: [].into(),
        oldest_waiting_ms: None,
        slots_busy: 0,
        uptime_ms: 7_000,
        ..status::tests::status()
    };
    let none = crate::api::Success::default();
    let stats = StatsView {
        success: none,
        punctuality: crate::api::Punctuality::default(),
        wait: crate::api::Spread::default(),
        run: crate::api::Spread::default(),
        types: vec![],
        ..stats(|_| (0, 0))
    };
    News {
        status,
        stats: Some(stats),
        running: vec![],
        ended: vec![],
        types: vec![],
        schedules: vec![],
        workers: vec![],
        ..busy()
    }
}

fn alert(id: u64, level: &str, what: &str) -> AlertView {
    AlertView {
        id,
        rule: "task_failed".to_owned(),
        subject: "fetch_data".to_owned(),
        level: level.to_owned(),
        what: what.to_owned(),
        state: "standing".to_owned(),
        since: rfc3339(ago(300)),
        last: rfc3339(ago(300)),
        over: None,
        count: 1,
        acked: None,
        task: None,
        action: String::new(),
        advice: None,
        contact: None,
        commands: vec![],
    }
}

/// Everything is wrong at once, and says so in hostile words.
fn failing() -> News {
    let mut news = busy();
    let point = |critical, what: &str| crate::api::Attention {
        critical,
        what: what.to_owned(),
        commands: vec!["midwatch workers".to_owned()],
        alert: None,
    };
    news.status.health = "CRITICAL".to_owned();
    news.status.attention = vec![
        point(true, "no worker has been alive for 4 min, and 1204 due tasks wait"),
        point(false, "worker 18 (w18) is suspect"),
        point(
            false,
            "task 88213 \u{1b}[2J夜班巡查员\r\nis DEAD after 6 attempts: connection refused by the far end",
        ),
        point(false, "only 5 MiB are free on the data directory's disk"),
    ];
    news.status.attention[0].alert = Some("no_worker workers".to_owned());
    news.alerts = vec![
        AlertView {
            rule: "no_worker".to_owned(),
            subject: "workers".to_owned(),
            ..alert(36, "critical", "no worker has been alive for a minute")
        },
        AlertView { count: 7, ..alert(35, "warning", "7 tasks of type \u{1b}[2J夜 failed") },
        AlertView {
            acked: Some(crate::api::OrderView {
                by: "uid 1000".to_owned(),
                at: rfc3339(ago(60)),
                reason: None,
            }),
            ..alert(33, "warning", "worker w18 was silent for too long")
        },
        alert(34, "info", "the wall clock was put forward by 3 s"),
    ];
    (news.status.workers_alive, news.status.workers_offline) = (0, 2);
    news.ended[1].error = Some("夜班 👩\u{200d}🚀 \u{1b}[31mred\u{202e}".to_owned());
    news.ended[2].kind = "type_".repeat(12) + "x";
    news.running[0].progress =
        Some(Progress { done: 9, total: Some(3), note: Some("\u{7}".into()) });
    news.running[1].progress = Some(Progress { done: 3, total: Some(0), note: None });
    news
}

fn model(news: News, size: (u16, u16)) -> Model {
    let mut model = Model::new(samples::view(None), news);
    model.size = size;
    model
}

fn terminal(model: &Model) -> Terminal<TestBackend> {
    let (columns, rows) = model.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    terminal
}

/// The picture as text, without the spaces behind its lines.
fn picture(model: &Model) -> String {
    let terminal = terminal(model);
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in 0..buffer.area.height {
        let (mut line, mut column) = (String::new(), 0);
        while let Some(cell) = buffer.cell((column, row)).filter(|_| column < buffer.area.width) {
            line += cell.symbol();
            column += u16::try_from(width(cell.symbol())).unwrap().max(1);
        }
        assert_eq!(column, buffer.area.width, "{line}");
        text += &format!("{}\n", line.trim_end());
    }
    samples::screen(&text)
}

fn check(news: News, size: (u16, u16), expected: &Expect) {
    expected.assert_eq(&picture(&model(news, size)));
}

/// The picture with its colours, as a page that a browser can make a picture of.
fn as_page(model: &Model) -> String {
    let terminal = terminal(model);
    let buffer = terminal.backend().buffer();
    let (columns, rows) = model.size;
    let mut page = format!(
        "<!doctype html><meta charset=utf-8><style>\
         html{{background:#1d1f21}}\
         body{{margin:8px;width:{columns}ch;color:#d4d4d4;font:16px/1.25 'DejaVu Sans Mono',monospace}}\
         i{{position:absolute;font-style:normal;white-space:pre}}\
         div{{position:relative;height:calc({rows} * 1.25em)}}</style><div>"
    );
    for (row, cells) in buffer.content.chunks(usize::from(columns)).enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            let (mut ink, mut ground) = (colour(cell.fg).unwrap_or("#d4d4d4"), colour(cell.bg));
            if cell.modifier.contains(Modifier::REVERSED) {
                (ink, ground) = (ground.unwrap_or("#1d1f21"), Some(ink));
            }
            if cell.symbol() == " " && ground.is_none() {
                continue;
            }
            let symbol = cell.symbol().replace('&', "&amp;").replace('<', "&lt;");
            let weight = if cell.modifier.contains(Modifier::BOLD) { "bold" } else { "normal" };
            let opacity = if cell.modifier.contains(Modifier::DIM) { "0.6" } else { "1" };
            let ground = ground.unwrap_or("none");
            page += &format!(
                "<i style='left:{column}ch;top:calc({row} * 1.25em);color:{ink};background:{ground};\
                 font-weight:{weight};opacity:{opacity}'>{symbol}</i>"
            );
        }
    }
    page + "</div>"
}

fn colour(colour: Color) -> Option<&'static str> {
    match colour {
        Color::Green => Some("#8ec07c"),
        Color::Yellow => Some("#fabd2f"),
        Color::Red => Some("#fb4934"),
        Color::Cyan => Some("#83a5ca"),
        _ => None,
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "pictures need not last, nor a test the config")]
fn screens_are_written_where_somebody_wants_to_look_at_them() {
    let Ok(dir) = std::env::var("MIDWATCH_PAGES") else { return };
    for (name, news) in [("empty", empty()), ("busy", busy()), ("failing", failing())] {
        for size @ (columns, rows) in [(80, 24), (200, 50)] {
            let file = format!("top-{name}-{columns}x{rows}.html");
            let mut model = model(news.clone(), size);
            model.view.paint = Paint(true);
            let page = as_page(&model);
            std::fs::write(std::path::Path::new(&dir).join(file), page).unwrap();
        }
    }
}

#[test]
fn an_empty_daemon() {
    check(
        empty(),
        (80, 24),
        &expect![[r#"
            screen
            midwatch 0.1.0 on relay-7, up less than a minute                    02:40:00  OK
            running 0 of 4  waiting 0  workers 2
            nothing ended in the last 24 h
            ended    ···············································  none in 47 min
            failed   ···············································  none in 47 min

            > RUNNING  nothing runs
              ENDED  nothing has ended yet
              TYPE  no types: the config has no handlers
              SCHEDULE  no schedules













            q quit  ? help  Tab next  Enter show  l log  c cancel  r retry  p pause  /filter
        "#]],
    );
}

#[test]
fn a_busy_daemon() {
    check(
        busy(),
        (80, 24),
        &expect![[r#"
            screen
            midwatch 0.1.0 on relay-7, up 41 d 3 h                       02:40:00  ATTENTION
              task 88213 fetch_data is DEAD after 6 attempts: connection refused
            running 3 of 4  waiting 1,204, oldest 4 min  retrying 7  dead 2  failed 1
            24 h  success 99.1 % of 1,340  on time 58 of 58  wait p95 31 s
            ended    ▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▃▅█▃▆·  232, at most 10/min
            failed   ··················█······················█·····  2, at most 1/min

              RUNNING  TYPE           PROGRESS           RATE        LEFT  NOTE
            >   88231  render_report  ██████░░░░  60 %   50/s  1 min 20 s  page 61
                88229  fetch_data     41,000            820/s
                88225  fetch_data                                          LOST; lost once
              ENDED  STATUS     TYPE              WHEN  TRY  NOTE                     1 of 5
              88230  SUCCESS    fetch_data    12 s ago  1/6  {"rows":41000}
              88213  DEAD       fetch_data   9 min ago  6/6  connection refused
              88211  FAILED     fetch_data  11 min ago  1/6  no such table: orders
              88207  CANCELLED  fetch_data     1 h ago  0/6
              TYPE           STATE   RUNNING  WAITING                NOTE
              fetch_data     full     2 of 2    1,204  █▒▒▒▒▒▒▒▒▒▒▒
              pay_out        paused        0       37  ▒             9 min ago by uid 1000:…
              render_report  open          1        0  █
              SCHEDULE       NEXT  WHEN       TYPE        NOTE
              poll       in 1 min  * * * * *  fetch_data  ended well 10 min ago
              nightly   in 20 min  0 3 * * *  fetch_data  3 runs failed since the last succ…
            q quit  ? help  Tab next  Enter show  l log  c cancel  r retry  p pause  /filter
        "#]],
    );
}

#[test]
fn a_busy_daemon_on_a_large_screen() {
    check(
        busy(),
        (200, 50),
        &expect![[r#"
            screen
            midwatch 0.1.0 on relay-7, up 41 d 3 h                                                                                                                                               02:40:00  ATTENTION
              task 88213 fetch_data is DEAD after 6 attempts: connection refused                                                                                                                 midwatch show 88213
            running 3 of 4  waiting 1,204, oldest 4 min  retrying 7  dead 2  failed 1  workers 2
            24 h  success 99.1 % of 1,340  on time 58 of 58  wait p95 31 s  run p95 2 min 4 s
            ended    ▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄█▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▂▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▅█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▃▅█▃▆·  606, at most 10/min
            failed   ······················█······················█······················█······················█······················█·····  5, at most 1/min

              RUNNING  TYPE           PROGRESS           RATE        LEFT    FOR  TRY  WORKER  NOTE                TYPE           STATE   RUNNING  WAITING                SUCCESS  WAIT P95    RUN P95  NOTE
            >   88231  render_report  ██████░░░░  60 %   50/s  1 min 20 s  2 min  1/6      17  page 61             fetch_data     full     2 of 2    1,204  █▒▒▒▒▒▒▒▒▒▒▒     99 %      31 s  2 min 4 s
                88229  fetch_data     41,000            820/s               50 s  1/6      17                      pay_out        paused        0       37  ▒                                           9 min ago b…
                88225  fetch_data                                            2 s  1/6      17  LOST; lost once     render_report  open          1        0  █

              ENDED  STATUS     TYPE              WHEN  TRY  SCHEDULE  NOTE                                        SCHEDULE       NEXT  WHEN       TYPE         RUNS  NOTE
              88230  SUCCESS    fetch_data    12 s ago  1/6            {"rows":41000}                              poll       in 1 min  * * * * *  fetch_data  1,340  ended well 10 min ago
              88213  DEAD       fetch_data   9 min ago  6/6            connection refused                          nightly   in 20 min  0 3 * * *  fetch_data  1,340  3 runs failed since the last success
              88211  FAILED     fetch_data  11 min ago  1/6  nightly   no such table: orders
              88207  CANCELLED  fetch_data     1 h ago  0/6                                                        WORKER  STATUS     BUSY      HEARD  HOLDS
              88206  SUCCESS    fetch_data     1 h ago  1/6                                                        w17     alive    0 of 2    2 s ago
                                                                                                                   w18     suspect  0 of 2  1 min ago






























            q quit  ? help  Tab next  Enter show  l log  c cancel  r retry  p pause  /filter
        "#]],
    );
}

#[test]
fn a_daemon_in_trouble() {
    check(
        failing(),
        (80, 24),
        &expect![[r#"
            screen
            midwatch 0.1.0 on relay-7, up 41 d 3 h                        02:40:00  CRITICAL
            critical: no worker has been alive for 4 min, and 1204 due tasks wait
              worker 18 (w18) is suspect                                    midwatch workers
              and 2 more: midwatch status
              alert 35 warning, 5 min ago, 7 times: 7 tasks of type \u{1b}[2J夜 failed
              and 2 more alerts: midwatch alerts
            running 3 of 4  waiting 1,204, oldest 4 min  retrying 7  dead 2  failed 1
            24 h  success 99.1 % of 1,340  on time 58 of 58  wait p95 31 s
            ended    ▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▃▅█▃▆·  232, at most 10/min
            failed   ··················█······················█·····  2, at most 1/min

              RUNNING  TYPE           PROGRESS           RATE  LEFT    FOR  NOTE
            >   88231  render_report  ██████████ 100 %  4/min        2 min  \u{7}
                88229  fetch_data     3                 3/min         50 s
                88225  fetch_data                                      2 s  LOST; lost once
              ENDED  STATUS     TYPE                            WHEN  TRY  NOTE       1 of 5
              88230  SUCCESS    fetch_data                  12 s ago  1/6  {"rows":41000}
              88213  DEAD       fetch_data                 9 min ago  6/6  夜班 👩🚀 \u{1b}…
              TYPE           STATE   RUNNING  WAITING                NOTE             1 of 3
              fetch_data     full     2 of 2    1,204  █▒▒▒▒▒▒▒▒▒▒▒
              pay_out        paused        0       37  ▒             9 min ago by uid 1000:…
              SCHEDULE       NEXT  WHEN       TYPE        NOTE                        1 of 2
              poll       in 1 min  * * * * *  fetch_data  ended well 10 min ago
            q quit  ? help  Tab next  Enter show  l log  c cancel  r retry  p pause  /filter
        "#]],
    );
}

#[test]
fn a_daemon_in_trouble_on_a_large_screen() {
    check(
        failing(),
        (200, 50),
        &expect![[r#"
            screen
            midwatch 0.1.0 on relay-7, up 41 d 3 h                                                                                                                                                02:40:00  CRITICAL
            critical: no worker has been alive for 4 min, and 1204 due tasks wait                                                                                                                   midwatch workers
              worker 18 (w18) is suspect                                                                                                                                                            midwatch workers
              task 88213 \u{1b}[2J夜班巡查员  is DEAD after 6 attempts: connection refused by the far end                                                                                           midwatch workers
              only 5 MiB are free on the data directory's disk                                                                                                                                      midwatch workers
              alert 35 warning, 5 min ago, 7 times: 7 tasks of type \u{1b}[2J夜 failed                                                                                                        midwatch alerts ack 35
              alert 33 warning, 5 min ago, acked: worker w18 was silent for too long
              alert 34 info, 5 min ago: the wall clock was put forward by 3 s                                                                                                                 midwatch alerts ack 34
            running 3 of 4  waiting 1,204, oldest 4 min  retrying 7  dead 2  failed 1  workers 0, silent 2
            24 h  success 99.1 % of 1,340  on time 58 of 58  wait p95 31 s  run p95 2 min 4 s
            ended    ▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄█▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▂▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▅█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▃▅█▃▆·  606, at most 10/min
            failed   ······················█······················█······················█······················█······················█·····  5, at most 1/min

              RUNNING  TYPE           PROGRESS           RATE  LEFT    FOR  TRY  PRI  WORKER  NOTE                 TYPE           STATE   RUNNING  WAITING                SUCCESS  WAIT P95    RUN P95  NOTE
            >   88231  render_report  ██████████ 100 %  4/min        2 min  1/6  100      17  \u{7}                fetch_data     full     2 of 2    1,204  █▒▒▒▒▒▒▒▒▒▒▒     99 %      31 s  2 min 4 s
                88229  fetch_data     3                 3/min         50 s  1/6  100      17                       pay_out        paused        0       37  ▒                                           9 min ago b…
                88225  fetch_data                                      2 s  1/6  100      17  LOST; lost once      render_report  open          1        0  █

              ENDED  STATUS     TYPE                            WHEN  TRY  SCHEDULE  NOTE                          SCHEDULE       NEXT  WHEN       TYPE         RUNS  NOTE
              88230  SUCCESS    fetch_data                  12 s ago  1/6            {"rows":41000}                poll       in 1 min  * * * * *  fetch_data  1,340  ended well 10 min ago
              88213  DEAD       fetch_data                 9 min ago  6/6            夜班 👩🚀 \u{1b}[31mred�      nightly   in 20 min  0 3 * * *  fetch_data  1,340  3 runs failed since the last success
              88211  FAILED     type_type_type_type_typ…  11 min ago  1/6  nightly   no such table: orders
              88207  CANCELLED  fetch_data                   1 h ago  0/6                                          WORKER  STATUS     BUSY      HEARD  HOLDS
              88206  SUCCESS    fetch_data                   1 h ago  1/6                                          w17     alive    0 of 2    2 s ago
                                                                                                                   w18     suspect  0 of 2  1 min ago
























            q quit  ? help  Tab next  Enter show  l log  c cancel  r retry  p pause  /filter
        "#]],
    );
}

#[test]
fn an_empty_daemon_on_a_large_screen() {
    check(
        empty(),
        (200, 50),
        &expect![[r#"
            screen
            midwatch 0.1.0 on relay-7, up less than a minute                                                                                                                                            02:40:00  OK
            running 0 of 4  waiting 0  workers 2
            nothing ended in the last 24 h
            ended    ························································································································  none in 120 min
            failed   ························································································································  none in 120 min

            > RUNNING  nothing runs                                                                                TYPE  no types: the config has no handlers

              ENDED  nothing has ended yet                                                                         SCHEDULE  no schedules

                                                                                                                   WORKER  STATUS  BUSY  HEARD  HOLDS






































            q quit  ? help  Tab next  Enter show  l log  c cancel  r retry  p pause  /filter
        "#]],
    );
}

#[test]
fn a_small_screen_shows_the_list_of_the_focus_and_a_smaller_one_says_so() {
    check(
        busy(),
        (40, 10),
        &expect![[r#"
            screen
            midwatch 0.1.0 on …  02:40:00  ATTENTION
              task 88213 fetch_data is DEAD after 6…
            running 3 of 4
              RUNNING  TYPE           NOTE
            >   88231  render_report  page 61
                88229  fetch_data
                88225  fetch_data     LOST; lost on…


            q quit  ? help  Tab next  Enter show
        "#]],
    );
    check(
        failing(),
        (40, 8),
        &expect![[r#"
            screen
            midwatch 0.1.0 on r…  02:40:00  CRITICAL
            4 things need attention: midwatch status
            running 3 of 4
              RUNNING  TYPE           NOTE
            >   88231  render_report  \u{7}
                88229  fetch_data
                88225  fetch_data     LOST; lost on…
            q quit  ? help  Tab next  Enter show
        "#]],
    );
    check(
        busy(),
        (39, 9),
        &expect![[r#"
        screen
        too small: 40×8 is needed








    "#]],
    );
}

#[test]
fn every_size_can_be_drawn() {
    for news in [empty(), busy(), failing()] {
        let mut model = model(news, (80, 24));
        for rows in [0, 1, 2, 7, 8, 9, 11, 14, 17, 19, 20, 21, 23, 30, 60] {
            for columns in [0, 1, 2, 39, 40, 41, 60, 79, 110, 149, 150, 240] {
                model.size = (columns, rows);
                if columns != 0 && rows != 0 {
                    drop(terminal(&model));
                }
                drop(press(&mut model, KeyCode::Tab.into()));
            }
        }
    }
}

#[test]
fn without_colour_there_is_none_and_words_say_the_same() {
    let mut bare = model(failing(), (80, 24));
    let plain = picture(&bare);
    let colours = |model: &Model| {
        let terminal = terminal(model);
        let cells = terminal.backend().buffer().content().iter();
        cells.filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colours(&bare), 0);
    bare.view.paint = Paint(true);
    assert_ne!(colours(&bare), 0);
    assert_eq!(picture(&bare), plain);
}

/// Types keys: letters by themselves, others in angle brackets.
fn keys(model: &mut Model, typed: &str) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for word in typed.split(' ') {
        let named = [
            ("<tab>", KeyCode::Tab),
            ("<back>", KeyCode::BackTab),
            ("<up>", KeyCode::Up),
            ("<down>", KeyCode::Down),
            ("<end>", KeyCode::End),
            ("<enter>", KeyCode::Enter),
            ("<esc>", KeyCode::Esc),
            ("<left>", KeyCode::Left),
            ("<right>", KeyCode::Right),
        ];
        match named.iter().find(|(name, _)| *name == word) {
            Some((_, key)) => wishes.extend(press(model, (*key).into())),
            None => {
                for letter in word.chars() {
                    wishes.extend(press(model, KeyCode::Char(letter).into()));
                }
            }
        }
    }
    wishes
}

fn last_line(model: &Model) -> String {
    picture(model).lines().last().unwrap().to_owned()
}

#[test]
fn an_act_is_done_after_a_yes_alone() {
    let mut model = model(busy(), (80, 24));
    for (typed, question, act) in [
        ("c", "cancel task 88231 render_report for good?  y/n", Act::Cancel(TaskId(88231))),
        (
            "<down> <down> c",
            "cancel task 88225 fetch_data for good?  y/n",
            Act::Cancel(TaskId(88225)),
        ),
        (
            "<tab> <down> r",
            "run task 88213 fetch_data again, as a new task?  y/n",
            Act::Retry(TaskId(88213)),
        ),
        (
            "<up> p",
            "pause type fetch_data? nothing more of it starts, what runs goes on  y/n",
            Act::PauseType("fetch_data".to_owned()),
        ),
        ("<tab> <down> p", "resume type pay_out?  y/n", Act::ResumeType("pay_out".to_owned())),
        (
            "<tab> <end> p",
            "pause schedule nightly? it will not fire until it is resumed  y/n",
            Act::PauseSchedule("nightly".to_owned()),
        ),
    ] {
        assert_eq!(keys(&mut model, typed), [], "{typed}");
        assert_eq!(last_line(&model), question);
        assert_eq!(keys(&mut model, "n"), []);
        assert_eq!(last_line(&model), "nothing was done");
        let last = typed.split(' ').next_back().unwrap();
        assert_eq!(keys(&mut model, last), []);
        assert_eq!(keys(&mut model, "y"), [Wish::Order(Order::Act(act))]);
    }
}

#[test]
fn the_worst_alert_that_nobody_knows_of_is_acknowledged_after_a_yes() {
    let mut model = model(failing(), (80, 24));
    assert_eq!(keys(&mut model, "a"), []);
    let question = "acknowledge alert 36: no worker has been alive for a minute?  y/n";
    assert_eq!(last_line(&model), question);
    assert_eq!(keys(&mut model, "n"), []);
    assert_eq!(keys(&mut model, "ay"), [Wish::Order(Order::Act(Act::Acknowledge(36)))]);
    model.news.alerts.remove(0);
    assert_eq!(keys(&mut model, "ay"), [Wish::Order(Order::Act(Act::Acknowledge(35)))]);
    model.news.alerts.retain(|alert| alert.acked.is_some());
    assert_eq!(keys(&mut model, "a"), []);
    assert_eq!(last_line(&model), "every alert that stands is acknowledged");
    model.news.alerts.clear();
    assert_eq!(keys(&mut model, "a"), []);
    assert_eq!(last_line(&model), "no alert stands");
}

#[test]
fn a_key_that_fits_nothing_says_what_would() {
    let mut model = model(busy(), (80, 24));
    for (typed, said) in [
        ("r", "task 88231 render_report runs; r is for tasks that have ended"),
        ("<tab> c", "task 88230 fetch_data has ended; r runs it again"),
        ("<tab> c", "c cancels a task: choose one with Tab"),
        ("r", "r runs a task that has ended again: choose one with Tab"),
        ("l", "l shows the log of a task: choose one with Tab"),
    ] {
        assert_eq!(keys(&mut model, typed), []);
        assert_eq!(last_line(&model), said);
    }
    // The next key takes it away.
    assert_eq!(keys(&mut model, "j"), []);
    assert!(last_line(&model).starts_with("q quit"), "{}", last_line(&model));
    // Where there is nothing, nothing can be done about it.
    let mut model = self::model(empty(), (80, 24));
    for key in ["c", "r", "p", "l", "<enter>", "<up>", "<down>"] {
        assert_eq!(keys(&mut model, key), [], "{key}");
    }
}

#[test]
fn the_choice_stays_with_its_task_wherever_that_moves() {
    let mut model = model(busy(), (80, 24));
    keys(&mut model, "<down>");
    let newer = TaskView { status_since: rfc3339(ago(0)), ..samples::task(88240, Status::Running) };
    let mut news = busy();
    news.running.insert(0, newer);
    model.take(news);
    keys(&mut model, "c");
    assert_eq!(last_line(&model), "cancel task 88229 fetch_data for good?  y/n");
    // Between the question and the answer the task ends: the answer is still about that one.
    let mut news = busy();
    news.running.remove(1);
    model.take(news);
    assert_eq!(keys(&mut model, "y"), [Wish::Order(Order::Act(Act::Cancel(TaskId(88229))))]);
    keys(&mut model, "<up>");
    assert_eq!(keys(&mut model, "cy"), [Wish::Order(Order::Act(Act::Cancel(TaskId(88231))))]);
}

#[test]
fn what_is_pasted_commands_nothing() {
    let mut model = model(busy(), (80, 24));
    paste(&mut model, "cy");
    assert!(last_line(&model).starts_with("q quit"));
    keys(&mut model, "/");
    paste(&mut model, "re\u{1b}fused\n");
    assert_eq!(model.filter, "re\\u{1b}fused");
}

#[test]
fn the_filter_shows_only_what_has_its_text() {
    let mut model = model(busy(), (80, 24));
    assert_eq!(keys(&mut model, "/REFUSED"), []);
    assert_eq!(last_line(&model), "/REFUSED_   Enter keeps it, Esc takes it back");
    keys(&mut model, "<enter> <tab>");
    expect![[r#"
        screen
        midwatch 0.1.0 on relay-7, up 41 d 3 h                       02:40:00  ATTENTION
          task 88213 fetch_data is DEAD after 6 attempts: connection refused
        running 3 of 4  waiting 1,204, oldest 4 min  retrying 7  dead 2  failed 1
        24 h  success 99.1 % of 1,340  on time 58 of 58  wait p95 31 s
        ended    ▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▂▅█▃▆·▄▇▁▄█▃▅█▃▆·  232, at most 10/min
        failed   ··················█······················█·····  2, at most 1/min

          RUNNING  nothing that the filter lets through
          ENDED  STATUS  TYPE             WHEN  TRY  NOTE
        > 88213  DEAD    fetch_data  9 min ago  6/6  connection refused
          TYPE  nothing that the filter lets through
          SCHEDULE  nothing that the filter lets through











        only /REFUSED   Esc shows all
    "#]]
    .assert_eq(&picture(&model));
    assert_eq!(keys(&mut model, "ry"), [Wish::Order(Order::Act(Act::Retry(TaskId(88213))))]);
    keys(&mut model, "/x <esc>");
    assert_eq!(model.filter, "REFUSED");
    keys(&mut model, "<esc>");
    assert_eq!(model.filter, "");
}

#[test]
fn a_daemon_that_does_not_answer_is_a_line_with_since() {
    let mut model = model(busy(), (80, 24));
    model.lose(ago(72), "nobody listens on it".to_owned());
    model.lose(ago(12), "there is no such socket".to_owned());
    expect![[r#"
        screen
        midwatch 0.1.0 on relay-7, up 41 d 3 h                       02:40:00  NO ANSWER
        no answer since 02:38:48 (1 min), still trying: there is no such socket
          task 88213 fetch_data is DEAD after 6 attempts: connection refused"#]]
    .assert_eq(&picture(&model).lines().take(4).collect::<Vec<_>>().join("\n"));
    model.take(busy());
    assert_eq!(last_line(&model), "the daemon answers again, after 1 min");
    assert!(!picture(&model).contains("no answer"));
}

#[test]
fn a_log_is_followed_until_somebody_scrolls_up() {
    let mut model = model(busy(), (60, 8));
    let open = Wish::Order(Order::Open(Wanted::Log(TaskId(88231))));
    assert_eq!(keys(&mut model, "l"), [open]);
    let lines = |count| (1..=count).map(|line| format!("line {line} \x1b[31mred\x1b[0m \x07\n"));
    let page = |count| {
        let log = lines(count).collect::<String>();
        Page::with(Wanted::Log(TaskId(88231)), Body::Lines(log_lines(log.as_bytes())))
    };
    model.open(page(20));
    expect![[r#"
        screen
        log of task 88231                  15 to 20 of 20, following
        line 15 red \u{7}
        line 16 red \u{7}
        line 17 red \u{7}
        line 18 red \u{7}
        line 19 red \u{7}
        line 20 red \u{7}
        q back  f follow  Up/Down scroll  Left/Right sideways
    "#]]
    .assert_eq(&picture(&model));
    keys(&mut model, "<up> <right>");
    model.open(page(40));
    expect![[r#"
        screen
        log of task 88231                             14 to 19 of 40
        red \u{7}
        red \u{7}
        red \u{7}
        red \u{7}
        red \u{7}
        red \u{7}
        q back  f follow  Up/Down scroll  Left/Right sideways
    "#]]
    .assert_eq(&picture(&model));
    keys(&mut model, "G");
    model.open(page(41));
    assert!(picture(&model).contains("36 to 41 of 41, following"), "{}", picture(&model));
    // Pages that come too late, or are of something else, are dropped.
    model.open(Page::with(Wanted::Log(TaskId(7)), Body::Coming));
    assert_eq!(keys(&mut model, "q"), [Wish::Order(Order::Close)]);
    model.open(page(50));
    assert!(last_line(&model).starts_with("q quit"));
    assert_eq!(keys(&mut model, "q"), [Wish::Quit]);
}

#[test]
fn everything_about_a_task_is_one_key_away() {
    let mut model = model(busy(), (80, 24));
    let wanted = Wanted::Task(TaskId(88231));
    assert_eq!(keys(&mut model, "<enter>"), [Wish::Order(Order::Open(wanted.clone()))]);
    model.open(Page::with(wanted, Body::Task(Box::new(samples::history()))));
    expect![[r#"
        screen
        task 88231                                                         1 to 22 of 23
        task 88213  fetch_data  RETRYING
          tries       1/6
          checkpoint  {"cursor":"o_99123","rows":41000}
          payload     {"source":"orders","page_size":500}
          priority    100
          created     2026-03-14 02:10:00Z  (29 min ago)
          updated     2026-03-14 02:31:12Z  (8 min ago)
          midwatch history 88213    midwatch log 88213    midwatch run-now 88213

          02:10:00.004  PENDING              created          uid 1000
          02:10:00.009  PENDING  → RUNNING   dispatched       fence 10 (worker 17)
          02:11:00.000  RUNNING                               checkpoint, 41 bytes (wor…
          …                                                   (1,234 more)
          02:14:41.730  RUNNING  → LOST      worker_crash     the kernel released the l…
          02:14:41.731  LOST     → PENDING   lease_revoked    loss 1 of 10, no retry us…
          2026-03-15
          00:19:02.118  RUNNING  → RETRYING  retryable_error  HTTP 502; next in 1 min 1…

          #  started              ran       wait  end            exit      log  worker
          1  02:10:00.020  4 min 41 s       5 ms  lost       signal 9  2.1 MiB  17
          2  02:14:41.800  4 min 20 s       4 ms  retryable        75    812 B  18
          3  02:39:00.000           –  1 min 5 s  running           –        –  18
        q back  Up/Down scroll  PgUp/PgDn
    "#]]
    .assert_eq(&picture(&model));
    keys(&mut model, "q <tab> <tab>");
    let wanted = Wanted::Type("fetch_data".to_owned());
    assert_eq!(keys(&mut model, "<enter>"), [Wish::Order(Order::Open(wanted.clone()))]);
    let refused = "no such type (midwatch type list)".to_owned();
    model.open(Page::with(wanted, Body::Failed(refused)));
    assert!(picture(&model).contains("no such type"), "{}", picture(&model));
}

#[test]
fn the_help_has_every_key() {
    let mut model = model(busy(), (80, 24));
    assert_eq!(keys(&mut model, "?"), []);
    expect![[r#"
        screen
        the keys of midwatch top                                           1 to 22 of 26
        Moving
          Tab, Right        the next list        Shift-Tab, Left   the one before
          Up, Down, k, j    a row                PgUp, PgDn        ten rows
          Home, End, g, G   the first, the last

        Looking
          Enter             everything about the chosen task, type or schedule
          l                 the log of the chosen task, as it grows
          /                 show only what has a text in it; Esc shows all again

        Acting: each asks before it does something
          c                 cancel the chosen task
          r                 run a task that has ended again, as a new task
          p                 pause or resume the type of the chosen task, the chosen
                            type, or the chosen schedule
          a                 acknowledge the worst alert that nobody has

          Ctrl-L            draw the screen anew
          Ctrl-Z            back to the shell; `fg` goes on
          q, Ctrl-C         quit

        What the marks mean
        q back  Up/Down scroll  PgUp/PgDn
    "#]]
    .assert_eq(&picture(&model));
    keys(&mut model, "q");
    assert!(last_line(&model).starts_with("q quit"));
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(press(&mut model, control('c')), Some(Wish::Quit));
    assert_eq!(press(&mut model, control('z')), Some(Wish::Suspend));
    assert_eq!(press(&mut model, control('l')), Some(Wish::Redraw));
}

#[test]
fn a_speed_is_that_of_the_last_steps() {
    let mut model = model(busy(), (80, 24));
    let at = |secs: u64, done| {
        let mut news = busy();
        news.at = Timestamp(ago(0).0 + 1000 * secs);
        news.running[0].progress = Some(Progress { done, total: Some(10_000), note: None });
        news
    };
    for (secs, done) in [(1, 6000), (30, 6300), (31, 6300), (60, 6600)] {
        model.take(at(secs, done));
    }
    let line =
        picture(&model).lines().find(|line| line.contains("render_report")).unwrap().to_owned();
    assert!(line.contains("10/s") && line.contains("5 min 40 s"), "{line}");
    // Another attempt begins anew: what it did before is not known.
    let mut news = at(61, 9000);
    news.running[0].status_since = rfc3339(news.at);
    news.running[0].retry_count = 1;
    model.take(news);
    let line =
        picture(&model).lines().find(|line| line.contains("render_report")).unwrap().to_owned();
    assert!(!line.contains("/s"), "{line}");
}

#[test]
fn the_daemon_is_asked_for_lists_only_when_there_is_something_new() {
    let json = |value: serde_json::Value| value.to_string();
    let status = |seq: u64| {
        let mut status = serde_json::to_value(status::tests::status()).unwrap();
        status["seq"] = seq.into();
        ("GET /v1/status", status.to_string())
    };
    let list = |tasks| serde_json::to_string(&TaskList { tasks, next: None, total: 9 }).unwrap();
    let over = Some(rfc3339(ago(9)));
    let alerts = vec![alert(35, "warning", "w"), AlertView { over, ..alert(31, "warning", "w") }];
    let alerts = crate::api::Alerts { alerts, channels: vec![] };
    let lists = [
        ("GET /v1/tasks?status=RUNNING%2CLOST&limit=60", list(running())),
        ("GET /v1/tasks?status=SUCCESS%2CCANCELLED&limit=60", list(vec![ended().remove(0)])),
        ("GET /v1/tasks?status=FAILED%2CDEAD&limit=60", list(ended().drain(1..3).collect())),
        ("GET /v1/types", serde_json::to_string(&Types { types: types() }).unwrap()),
        ("GET /v1/schedules", json(serde_json::json!({ "schedules": schedules(), "refused": [] }))),
        ("GET /v1/workers", serde_json::to_string(&Workers { workers: workers() }).unwrap()),
        (
            "GET /v1/stats?minutes=1",
            json(
                serde_json::json!({ "code": "no_such_route", "title": "t", "status": 404, "detail": "no" }),
            ),
        ),
        ("GET /v1/alerts", serde_json::to_string(&alerts).unwrap()),
    ];
    let acted = r#"{"id":88240,"status":"PENDING","stop_requested":null,"changed":true}"#;
    let mut answers = vec![("POST /v1/tasks/88213/retry {}", acted.to_owned()), status(8)];
    answers.extend(lists);
    answers.extend([("GET /v1/tasks/9/log?tail=2000", "one\ntwo\n".to_owned()), status(8)]);
    answers.push(("GET /v1/tasks/9/log?tail=2000", "one\ntwo\nthree".to_owned()));
    let script = Script::new(&answers);
    let (to, told) = sync_channel(64);
    let (order, orders) = sync_channel(8);
    order.send(Order::Act(Act::Retry(TaskId(88213)))).unwrap();
    order.send(Order::Open(Wanted::Log(TaskId(9)))).unwrap();
    let mut asker = Asker::new(to, crate::kernel::ids::Seq(7));
    assert!(asker.take_turn(&script, &orders) && asker.take_turn(&script, &orders));
    // A turn in which nobody wants anything: health, and the page that is open.
    assert!(asker.take_turn(&script, &orders));
    assert_eq!(script.left(), 0);
    drop(order);
    assert!(!asker.take_turn(&script, &orders));
    let told: Vec<_> = told.try_iter().collect();
    let [Told::Acted(said), Told::News(news), Told::Page(page), Told::Page(again)] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!(said, "task 88240 PENDING  (runs 88213 again)");
    assert!(news.stats.is_none());
    assert_eq!(news.alerts.iter().map(|alert| alert.id).collect::<Vec<_>>(), [35]);
    let ids: Vec<_> = news.ended.iter().map(|task| task.id.0).collect();
    assert_eq!(ids, [88230, 88213, 88211], "the latest end first");
    let lines = |page: &Page| page.lines(&samples::view(None));
    assert_eq!((lines(page).len(), lines(again).len()), (2, 3));
}
