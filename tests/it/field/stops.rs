//! Stops: what a person, a time limit or a shutdown asks of a handler.

use super::house::{CALM, House, is_alive, request, until};
use midwatch::api::{Acted, History, Submitted};
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::{Status, Stop};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// A deaf family: handler, child, and a grandchild in a session of its own, none of which ends
/// when it is asked to.
const FAMILY: &str = r#"
    trap '' TERM
    sh -c 'echo $$ >"$DIR/child"; while :; do sleep 1; done' &
    setsid sh -c 'echo $$ >"$DIR/grandchild"; while :; do sleep 1; done' >/dev/null 2>&1 3>&- &
    echo $$ >"$DIR/leader"
    while :; do sleep 1; done
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Cancel,
    Timeout,
    Shutdown,
}

// B63: a stop reached the shell and not what it had started.
#[test]
fn cancel_timeout_and_shutdown_end_the_whole_family() {
    for way in [Way::Cancel, Way::Timeout, Way::Shutdown] {
        let limit = if way == Way::Timeout { "timeout = \"1s\"" } else { "" };
        let lines = format!(
            "{limit}\ncancel_grace = \"200ms\"\nkill_grace = \"200ms\"\nretry = {{ max_retry = 0 }}"
        );
        let house = House::new(CALM, &[("family", FAMILY, &lines)]);
        let mut daemon = house.daemon();
        let id = house.submit("family", "null");
        let pids = ["leader", "child", "grandchild"]
            .map(|name| house.until_file(name).trim().parse::<u32>().unwrap());
        match way {
            Way::Cancel => {
                assert_eq!(house.act(id, "cancel").unwrap().stop_requested, Some(Stop::Cancel));
                house.until_status(id, Status::Cancelled);
            }
            Way::Timeout => {
                house.until_status(id, Status::Dead);
                assert!(house.reasons(id).contains(&"timeout"), "{:?}", house.reasons(id));
            }
            Way::Shutdown => {
                assert!(daemon.terminate().success(), "{}", daemon.log());
                let _engine = house.engine();
                assert_eq!(house.task(id).status, Status::Pending);
                assert!(house.reasons(id).contains(&"worker_shutdown"));
            }
        }
        for pid in pids {
            assert!(!is_alive(pid), "{way:?}: {pid} of {pids:?} lives\n{}", house.account());
        }
        house.check_no_overlap();
        drop(daemon);
    }
}

// Past its timeout a task is stopped first, and tried again only when nothing of it lives.
#[test]
fn a_timeout_stops_the_attempt_first_and_only_then_is_it_tried_again() {
    let script = "trap 'echo term >>\"$DIR/terms\"' TERM; first || exit 0; \
                  while :; do sleep 0.05; done";
    let lines = "timeout = \"1s\"\ncancel_grace = \"300ms\"\nretry = { max_retry = 1 }";
    let house = House::new(CALM, &[("slow", script, lines)]);
    let daemon = house.daemon();
    let id = house.submit("slow", "null");
    let first = house.until_start(id, 1);
    house.until_start(id, 2);
    assert!(!is_alive(first.pid), "the first attempt lives beside the second");
    house.until_status(id, Status::Success);
    let expected = ["created", "dispatched", "timeout", "dispatched", "completed"];
    assert_eq!(house.reasons(id), expected);
    assert_eq!(fs::read_to_string(house.path("terms")).unwrap(), "term\n");
    let task = house.task(id);
    assert_eq!((task.retry_count, task.lost_count), (1, 0));
    house.check_no_overlap();
    drop(daemon);
}

// A pause ends the handler and keeps what it saved for the resume.
#[test]
fn a_pause_stops_the_handler_and_its_checkpoint_is_there_at_the_resume() {
    let script = r#"
        if first; then
            echo '{"op":"checkpoint","data":{"at":7}}' >&3; read -r answer <&3
            echo up >"$DIR/up"
            until echo '{"op":"poll"}' >&3; read -r answer <&3; [ "${answer#*pause}" != "$answer" ]
            do sleep 0.05; done
            exit 0
        fi
        cat "$MIDWATCH_CHECKPOINT_FILE"
    "#;
    let house = House::new(CALM, &[("saves", script, "")]);
    let daemon = house.daemon();
    let id = house.submit("saves", "null");
    house.until_file("up");
    house.act(id, "pause").unwrap();
    house.until_status(id, Status::Paused);
    house.act(id, "resume").unwrap();
    house.until_status(id, Status::Success);
    assert_eq!(house.say(&["log", &id.to_string()]), r#"{"at":7}"#);
    assert_eq!(house.task(id).retry_count, 0);
    drop(daemon);
}

/// Asks all the time whether to stop.
const POLLS: &str = r#"
    # One that has never spoken gets a signal instead of an answer.
    echo '{"op":"poll"}' >&3
    read -r answer <&3
    echo up >"$DIR/up"
    while :; do
        echo '{"op":"poll"}' >&3
        read -r answer <&3
        case $answer in *'"stop":"cancel"'*) break ;; esac
    done
    echo "$answer" >"$DIR/told"
"#;

// A cancel is felt by a handler that polls: asked, told, obeyed, in this order.
#[test]
fn a_cancel_is_felt_by_a_handler_that_polls() {
    let house = House::new(CALM, &[("polls", POLLS, "cancel_grace = \"1h\"")]);
    let daemon = house.daemon();
    let mut felt = Vec::new();
    for _ in 0..5 {
        let id = house.submit("polls", "null");
        house.until_file("up");
        assert!(!house.path("told").exists());
        let http = house.client();
        let asked = Instant::now();
        let acted: Acted =
            http.post(&format!("/v1/tasks/{id}/cancel"), &serde_json::json!({})).unwrap();
        assert_eq!((acted.status, acted.stop_requested), (Status::Running, Some(Stop::Cancel)));
        until("the handler was told", || house.path("told").exists().then_some(()));
        felt.push(asked.elapsed());
        house.until_status(id, Status::Cancelled);
        assert_asked_then_obeyed(&house.history(id));
        for name in ["up", "told"] {
            fs::remove_file(house.path(name)).unwrap();
        }
    }
    println!("from the request to cancel until the handler had acted on it: {felt:?}");
    drop(daemon);
}

fn assert_asked_then_obeyed(history: &History) {
    let lines = &history.transitions;
    let asked = lines.iter().find(|line| line.from == Some(line.to)).expect("it was asked");
    let obeyed = lines.iter().find(|line| line.to == Status::Cancelled).expect("it obeyed");
    assert!(asked.seq < obeyed.seq, "{lines:?}");
}

// A waiting task is cancelled by the answer itself.
#[test]
fn a_waiting_task_is_cancelled_at_once() {
    let house = House::new(CALM, &[("noop", "exit 0", "")]);
    let daemon = house.daemon();
    let id = house.say(&["submit", "noop", "--delay", "1h"]);
    let acted: serde_json::Value =
        serde_json::from_str(&house.say(&["cancel", &id, "--json"])).unwrap();
    assert_eq!(
        (&acted["status"], &acted["stop_requested"]),
        (&"CANCELLED".into(), &serde_json::Value::Null)
    );
    assert_eq!(house.starts(), []);
    drop(daemon);
}

const PAIRS: u64 = 2_000;
const CLIENTS: u64 = 2;

// Submit and cancel back to back, 2,000 times.
#[test]
fn no_handler_runs_once_the_answer_said_cancelled() {
    let house = House::new(CALM, &[("noop", "exit 0", "")]);
    let daemon = house.daemon();
    let submit_and_cancel = || {
        let http = house.client();
        let pair = |_| {
            let done: Submitted = http.post("/v1/tasks", &request("noop", "null")).unwrap();
            let path = format!("/v1/tasks/{}/cancel", done.id);
            let acted: Result<Acted, _> = http.post(&path, &serde_json::json!({}));
            // A refusal says that it had ended before.
            (done.id, acted.is_ok_and(|acted| acted.status == Status::Cancelled))
        };
        (0..PAIRS / CLIENTS).map(pair).collect::<Vec<_>>()
    };
    let told: Vec<(TaskId, bool)> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(submit_and_cancel)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    house.until("nothing runs or waits", |house| {
        let tasks = house.status()?.tasks;
        let open = ["PENDING", "RUNNING", "RETRYING", "LOST"];
        open.iter().all(|word| tasks.get(*word).copied().unwrap_or(0) == 0).then_some(())
    });
    let ran: BTreeSet<TaskId> = house.starts().into_iter().map(|start| start.task).collect();
    let cancelled: BTreeSet<TaskId> =
        told.iter().filter(|(_, cancelled)| *cancelled).map(|(id, _)| *id).collect();
    let both: Vec<_> = ran.intersection(&cancelled).collect();
    assert!(both.is_empty(), "cancelled, and yet they ran: {both:?}");
    assert_eq!(told.len() as u64, PAIRS);
    println!(
        "{PAIRS} pairs: {} cancelled by the answer, {} handlers ran",
        cancelled.len(),
        ran.len()
    );
    house.check_no_overlap();
    drop(daemon);
}

// A handler that is deaf, with a child in its group and one in a session of its own: who asks a
// second time wants an end at once, and an end of all of it.
#[test]
fn a_second_sigterm_to_the_daemon_leaves_nothing_of_any_handler() {
    const DEAF: &str = r#"
        trap '' TERM
        sleep 500 & echo $! >"$DIR/child"
        setsid sleep 502 & echo $! >"$DIR/stranger"
        echo $$ >"$DIR/leader"
        sleep 501
    "#;
    let lines = "cancel_grace = \"1h\"\nkill_grace = \"1h\"";
    let house = House::new(CALM, &[("deaf", DEAF, lines)]);
    let mut daemon = house.daemon();
    let id = house.submit("deaf", "null");
    let pids = ["leader", "child", "stranger"]
        .map(|name| house.until_file(name).trim().parse::<u32>().unwrap());
    daemon.signal(Signal::TERM);
    until("the worker drains", || daemon.log().contains("told to end").then_some(()));
    // Sooner it would be the twin of the first one.
    std::thread::sleep(Duration::from_millis(300));
    daemon.signal(Signal::TERM);
    assert!(daemon.end().success(), "{}", daemon.log());
    house.check_nothing_lives();
    for pid in pids {
        assert!(!is_alive(pid), "{pid} of {pids:?} lives\n{}", house.account());
    }
    let _engine = house.engine();
    assert_eq!(house.task(id).status, Status::Pending);
    assert!(house.reasons(id).contains(&"worker_shutdown"), "{:?}", house.reasons(id));
}
