//! States that a page may have to show.

use super::super::view::{Alerts, Dead, Overview, Rows, Running, TaskPage, Waiting, Worker};
use crate::api::{
    AlertView, AttemptView, Attention, Backlog, Consistency, CountsView, MinuteStats, OrderView,
    PlannedView, Punctuality, Retries, ScheduleView, Spread, StatsView, StatusView, Success,
    TaskView, TransitionView,
};
use crate::kernel::ids::{Fence, Millis, Seq, TaskId, Timestamp, WorkerId};
use crate::kernel::status::{Outcome, Reason, Status};
use crate::kernel::task::Progress;
use crate::units::{parse_rfc3339, rfc3339};
use serde_json::json;
use serde_json::value::RawValue;

fn now() -> Timestamp {
    parse_rfc3339("2026-03-14T03:12:44.120Z").unwrap()
}

fn ago(seconds: u64) -> Timestamp {
    Timestamp(now().0 - seconds * 1000)
}

fn status(health: &str, tasks: [u64; 9], attention: &[Attention]) -> StatusView {
    let counts: serde_json::Map<_, _> = Status::ALL
        .iter()
        .zip(tasks)
        .map(|(status, count)| (status.word().to_owned(), count.into()))
        .collect();
    let view = json!({
        "version": "0.1.0", "host": "relay-7", "pid": 7, "uptime_ms": 3_553_200_000_u64,
        "data_dir": "/var/lib/midwatch", "fsync": "always", "health": health,
        "attention": attention, "seq": 502_107, "tasks": counts, "oldest_waiting_ms": 252_000,
        "workers_alive": 2, "workers_suspect": 0, "workers_offline": 0, "slots": 4,
        "slots_busy": 3, "state_bytes": 1_048_576, "state_bytes_max": 268_435_456,
        "journal_segments": 4, "journal_bytes": 12_897_000, "syncs": 77,
        "disk_free": 1_503_238_553_u64, "recovery": "",
    });
    serde_json::from_value(view).unwrap()
}

fn stats(minutes: Vec<MinuteStats>, failed: u64) -> StatsView {
    let succeeded = 1340 - failed;
    StatsView {
        at: rfc3339(now()),
        since: rfc3339(ago(86_400)),
        span_ms: 86_400_000,
        punctuality: Punctuality { fired: 58, on_time: 58, without_run: 0, latest_ms: 412 },
        success: Success { ended: 1340, succeeded, rate: Some(0.99) },
        retries: Retries { retried: 41, most: 3, task: Some(TaskId(88_102)) },
        backlog: Backlog { waiting: 1204, due: 211, oldest_ms: Some(252_000) },
        consistency: Consistency {
            taken: 88_231,
            ended: 87_024,
            live: 1207,
            wrong_input: 0,
            ok: true,
        },
        wait: Spread::default(),
        run: Spread::default(),
        types: Vec::new(),
        minutes: Some(minutes),
    }
}

/// Two hours with a busy half and one in which something goes wrong.
fn minutes(failing: bool) -> Vec<MinuteStats> {
    let minute = |ago_minutes: u64| {
        let wave = (ago_minutes * 7 + ago_minutes * ago_minutes / 5) % 13;
        let failed = if failing && ago_minutes < 25 {
            wave % 5
        } else {
            u64::from(ago_minutes.is_multiple_of(37))
        };
        MinuteStats {
            at: rfc3339(Timestamp((now().0 / 60_000 - ago_minutes) * 60_000)),
            created: 9,
            succeeded: 6 + wave,
            failed,
            retried: 1,
            lost: 0,
            wait_p95_ms: (wave != 3).then_some(200 + 900 * wave),
            run_p95_ms: Some(40_000 + 8000 * ((ago_minutes + 3) % 9)),
        }
    };
    (0..120).rev().filter(|ago| *ago != 60).map(minute).collect()
}

fn rows<T>(rows: Vec<T>) -> Rows<T> {
    Rows { total: rows.len(), rows }
}

fn worker(id: u64, standing: &'static str, held: u32) -> Worker {
    Worker {
        id: WorkerId(id),
        name: format!("relay-7/{}", 4000 + id),
        standing,
        silent: Millis(if standing == "alive" { 2000 } else { 143_000 }),
        slots: 2,
        held,
        kinds: "fetch_data, render_report, sync_mirror".to_owned(),
    }
}

fn running(id: u64, kind: &str, ran: u64, done: u64, total: Option<u64>) -> Running {
    Running {
        id: TaskId(id),
        kind: kind.to_owned(),
        status: Status::Running,
        attempt: 1,
        tries: 6,
        worker: Some(WorkerId(2)),
        ran: Millis(ran * 1000),
        progress: (0 < done).then_some(Progress { done, total, note: None }),
        paced: true,
    }
}

fn waiting(kind: &str, due: u64, later: u64, running: u64) -> Waiting {
    Waiting { kind: kind.to_owned(), due, later, running, paused: None }
}

fn dead(id: u64, kind: &str, status: Status, seconds: u64, error: &str) -> Dead {
    let (attempts, error) = (if status == Status::Dead { 6 } else { 1 }, Some(error.to_owned()));
    let kind = kind.to_owned();
    Dead { id: TaskId(id), kind, status, attempts, ended: ago(seconds), error }
}

fn schedule(name: &str, cron: &str, next: u64, last: u64) -> ScheduleView {
    let planned = |at: Timestamp| PlannedView { at: rfc3339(at), local: String::new(), note: None };
    ScheduleView {
        name: name.to_owned(),
        kind: "fetch_data".to_owned(),
        payload: RawValue::NULL.to_owned(),
        cron: Some(cron.to_owned()),
        every: None,
        from: None,
        at: None,
        boot: false,
        timezone: "America/New_York".to_owned(),
        priority: 100,
        max_retry: None,
        timeout: None,
        misfire_grace: "1h".to_owned(),
        coalesce: true,
        max_instances: 1,
        overlap: "skip".to_owned(),
        jitter: "0s".to_owned(),
        dst_gap: None,
        dst_fold: None,
        origin: "config".to_owned(),
        since: rfc3339(ago(900_000)),
        by: "the config".to_owned(),
        paused: None,
        held: false,
        trouble: None,
        next: Some(planned(Timestamp(now().0 + next * 1000))),
        last: Some(planned(ago(last))),
        last_task: Some(TaskId(88_213)),
        last_success: Some(rfc3339(ago(last + 86_400))),
        failures: 0,
        counts: CountsView { fired: 40, coalesced: 0, skipped: 0, missed: 0 },
        running: Vec::new(),
        queued: Vec::new(),
        recent: Vec::new(),
        away: None,
    }
}

fn alert(id: u64, level: &str, seconds: u64, what: &str) -> AlertView {
    AlertView {
        id,
        rule: "task_failed".to_owned(),
        subject: "fetch_data".to_owned(),
        level: level.to_owned(),
        what: what.to_owned(),
        state: "standing".to_owned(),
        since: rfc3339(ago(seconds)),
        last: rfc3339(ago(seconds / 3)),
        over: None,
        count: 1,
        acked: None,
        task: None,
        action: String::new(),
        advice: None,
        contact: None,
        commands: Vec::new(),
    }
}

fn over(alert: AlertView) -> AlertView {
    AlertView { state: "over".to_owned(), over: Some(rfc3339(ago(1300))), ..alert }
}

fn wrong() -> Alerts {
    let by = OrderView { by: "uid 1000".to_owned(), at: rfc3339(ago(9000)), reason: None };
    Alerts {
        rows: rows(vec![
            AlertView {
                count: 11,
                ..alert(
                    35,
                    "warning",
                    4000,
                    "11 tasks of type fetch_data failed one after the other; task 88213 \
                         fetch_data is DEAD after 6 attempts: connection refused (retries_used_up)",
                )
            },
            AlertView {
                state: "flapping".to_owned(),
                count: 4,
                acked: Some(by),
                ..alert(33, "warning", 9000, "worker relay-7/4003 was silent for too long")
            },
            alert(36, "info", 600, "the wall clock was put forward by 3 s"),
            over(alert(34, "critical", 8000, "only 2.9 MiB are free on the data directory's disk")),
        ]),
        standing: 3,
        above: 1,
    }
}

/// Nothing has ever been asked of it.
pub(super) fn empty() -> Overview {
    Overview {
        now: now(),
        status: StatusView { slots_busy: 0, seq: Seq(3), ..status("OK", [0; 9], &[]) },
        stats: StatsView {
            punctuality: Punctuality::default(),
            success: Success::default(),
            retries: Retries::default(),
            backlog: Backlog::default(),
            consistency: Consistency { ok: true, ..Consistency::default() },
            ..stats(Vec::new(), 0)
        },
        running: Rows::default(),
        waiting: Rows::default(),
        dead: Rows::default(),
        alerts: Alerts::default(),
        schedules: Rows::default(),
        workers: rows(vec![worker(1, "alive", 0), worker(2, "alive", 0)]),
    }
}

/// All is well, and there is much to do.
pub(super) fn busy() -> Overview {
    Overview {
        now: now(),
        status: status("OK", [1204, 3, 0, 7, 0, 87_020, 4, 0, 0], &[]),
        stats: stats(minutes(false), 4),
        running: rows(vec![
            running(88_231, "render_report", 132, 6000, Some(10_000)),
            Running {
                attempt: 2,
                paced: false,
                ..running(88_229, "fetch_data", 64, 410, Some(500))
            },
            running(88_233, "sync_mirror", 9, 0, None),
        ]),
        waiting: rows(vec![
            waiting("fetch_data", 204, 960, 1),
            waiting("render_report", 7, 31, 1),
            waiting("sync_mirror", 0, 2, 1),
        ]),
        dead: Rows::default(),
        alerts: Alerts {
            rows: rows(vec![over(alert(
                31,
                "warning",
                9000,
                "worker relay-7/4002 was silent for too long",
            ))]),
            ..Alerts::default()
        },
        schedules: rows(vec![
            schedule("poll_queue", "* * * * *", 16, 44),
            schedule("hourly_rollup", "0 * * * *", 2836, 764),
            schedule("nightly", "30 2 * * *", 83_836, 2564),
        ]),
        workers: rows(vec![worker(1, "alive", 1), worker(2, "alive", 2)]),
    }
}

fn point(critical: bool, what: &str, commands: &[&str]) -> Attention {
    let commands = commands.iter().map(|command| (*command).to_owned()).collect();
    Attention { critical, what: what.to_owned(), commands, alert: None }
}

/// What somebody is woken for.
pub(super) fn failing() -> Overview {
    let attention = vec![
        point(
            true,
            "schedule nightly has failed 3 times in a row, and has not succeeded since yesterday 03:00",
            &["midwatch schedule show nightly"],
        ),
        point(
            false,
            "task 88213 fetch_data is DEAD after 6 attempts: connection refused",
            &["midwatch show 88213", "midwatch retry 88213"],
        ),
        point(false, "worker 3 (relay-7/4003) is suspect", &["midwatch workers"]),
        point(
            false,
            "type sync_mirror is paused for 4 h 2 min by uid 1000, 41 due tasks wait: the mirror moves tonight",
            &["midwatch type resume sync_mirror"],
        ),
    ];
    let mut nightly = schedule("nightly", "30 2 * * *", 83_836, 2564);
    nightly.failures = 3;
    nightly.counts.missed = 1;
    let mut poll = schedule("poll_queue", "* * * * *", 16, 44);
    let by = OrderView { by: "uid 1000".to_owned(), at: rfc3339(ago(9000)), reason: None };
    poll.paused = Some(by);
    let mut gone = schedule("old_export", "0 5 31 2 *", 0, 900_000);
    gone.trouble = Some("it fires no more: there is no date any more that it matches".to_owned());
    let lost = Running { status: Status::Lost, ..running(88_219, "fetch_data", 281, 120, None) };
    let paused = Some("uid 1000: the mirror moves tonight".to_owned());
    Overview {
        status: status("CRITICAL", [1204, 3, 0, 7, 1, 87_000, 4, 2, 11], &attention),
        stats: stats(minutes(true), 61),
        running: rows(vec![lost, running(88_231, "render_report", 132, 6000, Some(10_000))]),
        waiting: rows(vec![
            waiting("fetch_data", 204, 960, 1),
            Waiting { paused, ..waiting("sync_mirror", 41, 0, 0) },
        ]),
        dead: Rows {
            total: 13,
            ..rows(vec![
                dead(88_213, "fetch_data", Status::Dead, 540, "connection refused (10.2.0.7:8443)"),
                dead(
                    88_190,
                    "fetch_data",
                    Status::Dead,
                    2541,
                    "HTTP 502 from https://orders.internal/v2/export?since=2026-03-13",
                ),
                dead(
                    88_102,
                    "render_report",
                    Status::Failed,
                    7206,
                    "exit 65: the template `monthly` names a column `grossamt` that the data does not have",
                ),
            ])
        },
        alerts: wrong(),
        schedules: rows(vec![
            gone,
            nightly,
            schedule("hourly_rollup", "0 * * * *", 2836, 764),
            poll,
        ]),
        workers: rows(vec![worker(3, "suspect", 1), worker(1, "alive", 1), worker(2, "alive", 1)]),
        ..busy()
    }
}

/// Texts that are as long and as hard to show as they can be, and thousands of everything.
pub(super) fn worst() -> Overview {
    let nasty = "\"'<script>alert(1)</script>\u{202e}".repeat(200);
    let many = |n: u64| 0..n;
    let (what, commands) = (nasty.clone(), vec![nasty.clone(); 9]);
    let point = Attention { critical: true, what, commands, alert: None };
    let mut view = schedule(&nasty, &nasty, 9, 9);
    view.trouble = Some(nasty.clone());
    view.failures = u32::MAX;
    let mut run = running(u64::MAX, &nasty, 1 << 40, u64::MAX, Some(u64::MAX));
    run.progress = Some(Progress { note: Some(nasty.clone()), ..run.progress.unwrap() });
    let wait = Waiting { paused: Some(nasty.clone()), ..waiting(&nasty, u64::MAX, u64::MAX, 9) };
    let of = Worker { name: nasty.clone(), kinds: nasty.clone(), ..worker(9, "suspect", 9) };
    let by = OrderView { by: nasty.clone(), at: nasty.clone(), reason: None };
    let wrong = AlertView {
        state: "flapping".to_owned(),
        count: u32::MAX,
        acked: Some(by),
        ..alert(u64::MAX, "critical", 9, &nasty)
    };
    let minutes = minutes(true).into_iter().map(|minute| MinuteStats {
        succeeded: u64::MAX / 1000,
        failed: u64::MAX / 1000,
        wait_p95_ms: Some(u64::MAX),
        run_p95_ms: Some(1),
        ..minute
    });
    Overview {
        now: now(),
        status: StatusView {
            host: nasty.clone(),
            version: nasty.clone(),
            fsync: nasty.clone(),
            ..status("CRITICAL", [u64::MAX; 9], &vec![point; 500])
        },
        stats: stats(minutes.collect(), 1),
        running: Rows { rows: vec![run; 40], total: 100_000 },
        waiting: Rows { rows: vec![wait; 40], total: 100_000 },
        dead: Rows {
            rows: many(40).map(|id| dead(u64::MAX - id, &nasty, Status::Dead, 9, &nasty)).collect(),
            total: 100_000,
        },
        alerts: Alerts {
            rows: Rows { rows: vec![wrong; 40], total: 250 },
            standing: 247,
            above: usize::MAX,
        },
        schedules: Rows { rows: vec![view; 40], total: 20_000 },
        workers: Rows { rows: vec![of; 40], total: 1000 },
    }
}

fn json_text(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn line(
    seconds: u64,
    from: Option<Status>,
    to: Status,
    reason: Reason,
    note: &str,
) -> TransitionView {
    TransitionView {
        at: rfc3339(ago(seconds)),
        seq: Seq(1),
        from,
        to,
        reason: Some(reason),
        by: if from.is_none() { "schedule nightly" } else { "worker w2" }.to_owned(),
        note: Some(note.to_owned()).filter(|note| !note.is_empty()),
    }
}

fn attempt(
    number: u32,
    from: u64,
    until: Option<u64>,
    outcome: Option<Outcome>,
    error: &str,
) -> AttemptView {
    AttemptView {
        attempt: number,
        fence: Fence(501_822 + u64::from(number)),
        executor_id: WorkerId(2),
        leased_at: rfc3339(ago(from)),
        started_at: Some(rfc3339(ago(from))),
        ended_at: until.map(|until| rfc3339(ago(until))),
        wait_ms: Millis(5),
        outcome,
        exit_code: (outcome == Some(Outcome::Retryable)).then_some(75),
        signal: None,
        error: Some(error.to_owned()).filter(|error| !error.is_empty()),
        usage: None,
        log: format!("logs/88231/{number}.log"),
        log_bytes: None,
        process: None,
    }
}

/// A task that was lost once, failed once, and runs.
pub(super) fn of_a_task() -> TaskPage {
    let task: TaskView = serde_json::from_value(json!({
        "id": 88_231, "type": "fetch_data", "payload": null, "status": "RUNNING",
        "priority": 100, "next_run_time": null, "retry_count": 1, "max_retry": 5,
        "lost_count": 1, "checkpoint": null, "executor_id": 2, "lease_expire_time": null,
        "created_at": rfc3339(ago(1300)), "updated_at": rfc3339(ago(9)),
        "status_since": rfc3339(ago(132)), "key": "schedule:nightly:2026-03-14T02:51:04.120Z",
        "timeout": "10m", "result": null, "error": "HTTP 502 from the upstream", "retry_of": null,
        "schedule": "nightly", "after": null, "stop_requested": null,
        "progress": { "done": 6000, "total": 10_000, "note": "page 61 of 100" },
    }))
    .unwrap();
    let log = (0..60).map(|n| format!("03:11:{n:02} page {n}: 100 rows, {} ms", 180 + n * 7 % 50));
    TaskPage {
        now: now(),
        seq: 502_107,
        host: "relay-7".to_owned(),
        task: TaskView {
            payload: json_text(
                "{\"source\":\"orders\",\"page_size\":500,\"filter\":\"<b>open</b>\"}",
            ),
            checkpoint: Some(json_text("{\"cursor\":\"o_99123\",\"rows\":41000}")),
            ..task
        },
        transitions: vec![
            line(1300, None, Status::Pending, Reason::Created, ""),
            line(1299, Some(Status::Pending), Status::Running, Reason::Dispatched, "fence 501822"),
            line(
                1018,
                Some(Status::Running),
                Status::Lost,
                Reason::WorkerCrash,
                "the kernel released w2's lock",
            ),
            line(
                1017,
                Some(Status::Lost),
                Status::Pending,
                Reason::LeaseRevoked,
                "loss 1 of 10, no retry used",
            ),
            line(1016, Some(Status::Pending), Status::Running, Reason::Dispatched, "fence 502107"),
            line(
                756,
                Some(Status::Running),
                Status::Retrying,
                Reason::RetryableError,
                "next run in 10 min 24 s; HTTP 502 from the upstream",
            ),
            line(132, Some(Status::Retrying), Status::Running, Reason::Dispatched, "fence 502377"),
        ],
        dropped: 0,
        attempts: vec![
            attempt(1, 1299, Some(1018), Some(Outcome::Lost), ""),
            attempt(2, 1016, Some(756), Some(Outcome::Retryable), "HTTP 502 from the upstream"),
            attempt(3, 132, None, None, ""),
        ],
        paced: Some(Millis(132_000)),
        log: Some(log.collect::<Vec<_>>().join("\n")),
    }
}

/// A task whose texts are as long as they may be.
pub(super) fn worst_task() -> TaskPage {
    let nasty = "\"'<script>alert(1)</script>\u{202e}".repeat(2000);
    let page = of_a_task();
    let document = json_text(&serde_json::to_string(&nasty).unwrap());
    let nasty_line = TransitionView {
        by: nasty.clone(),
        note: Some(nasty.clone()),
        ..line(9, None, Status::Pending, Reason::Created, "")
    };
    let nasty_attempt = AttemptView {
        error: Some(nasty.clone()),
        ..attempt(9, 9, Some(8), Some(Outcome::Retryable), "")
    };
    TaskPage {
        host: nasty.clone(),
        task: TaskView {
            kind: nasty.clone(),
            payload: document.clone(),
            checkpoint: Some(document.clone()),
            result: Some(document),
            error: Some(nasty.clone()),
            key: Some(nasty.clone()),
            schedule: Some(nasty.clone()),
            ..page.task
        },
        transitions: vec![nasty_line; 201],
        dropped: u64::MAX,
        attempts: vec![nasty_attempt; 20],
        log: Some(nasty),
        ..page
    }
}
