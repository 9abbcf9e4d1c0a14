//! Executors that are gone, and what becomes of their tasks.

use super::house::{BRISK, CALM, House, is_alive, kill, signal, until};
use midwatch::kernel::status::{Outcome, Status};
use rustix::process::Signal;
use std::fs;
use std::process::Command;

// B25: daemon and task were killed, and the run stayed "running" for ever.
#[test]
fn a_task_killed_together_with_its_daemon_runs_again_with_the_reason_on_record() {
    let house = House::new(CALM, &[("long", "first || exit 0; sleep 600", "")]);
    let daemon = house.daemon();
    let id = house.submit("long", "null");
    let start = house.until_start(id, 1);
    house.kill_all(daemon);
    kill(start.pid);
    let daemon = house.daemon();
    house.until_status(id, Status::Success);
    assert_eq!(
        house.reasons(id),
        ["created", "dispatched", "worker_crash", "lease_revoked", "dispatched", "completed"]
    );
    let history = house.history(id);
    let first = &history.attempts[0];
    assert_eq!(first.outcome, Some(Outcome::Lost));
    assert!(first.ended_at.is_some(), "its clock runs on: {first:?}");
    assert_eq!((history.task.retry_count, history.task.lost_count), (0, 1));
    house.check_no_overlap();
    drop(daemon);
}

// The bare-metal test met this: start times are shown as the reader's time namespace counts them,
// and a process that seemed to be older than its leader was left alive beside the next attempt.
#[test]
fn what_a_daemon_of_another_boot_clock_left_is_found_and_killed() {
    let namespace = ["unshare", "--user", "--map-root-user", "--time", "--boottime", "5000"];
    let can = Command::new(namespace[0]).args(&namespace[1..]).args(["--fork", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no time namespace may be made here");
        return;
    }
    let script = "first || exit 0; sleep 600 & echo up >\"$DIR/up\"; wait";
    let house = House::new(CALM, &[("long", script, "")]);
    let inner = house.command(&["daemon", "--workers", "1", "--slots", "2"]);
    let mut outer = Command::new(namespace[0]);
    outer.args(&namespace[1..]).args(["--fork", "--kill-child", "--"]).arg(inner.get_program());
    outer.args(inner.get_args());
    let daemon = house.spawn("daemon", outer);
    house.until_served();
    let id = house.submit("long", "null");
    house.until_file("up");
    house.kill_all(daemon);
    let daemon = house.daemon();
    house.until_status(id, Status::Success);
    house.check_no_overlap();
    drop(daemon);
}

// B26, first half: the worker dies after the claim and before the first output.
#[test]
fn a_worker_killed_before_its_handler_said_a_word_loses_no_task() {
    let script = "first && kill -9 $PPID && sleep 600; echo done";
    let house = House::new(CALM, &[("eager", script, "")]);
    let daemon = house.daemon();
    let id = house.submit("eager", "null");
    house.until_status(id, Status::Success);
    assert_eq!(house.starts().len(), 2);
    assert_eq!(house.say(&["log", &id.to_string()]), "done");
    house.check_no_overlap();
    drop(daemon);
}

// B26, second half: between exit 0 and the record of it. This is the window of "at least once".
#[test]
fn a_worker_killed_between_exit_0_and_its_record_runs_the_task_again() {
    let script = "echo work >>\"$DIR/effects\"; first && kill -STOP $PPID; exit 0";
    let house = House::new(CALM, &[("quick", script, "")]);
    let daemon = house.daemon();
    let (_, workers) = house.pids();
    let id = house.submit("quick", "null");
    let start = house.until_start(id, 1);
    until("the handler has ended", || (!is_alive(start.pid)).then_some(()));
    assert_eq!(house.task(id).status, Status::Running);
    kill(workers[0]);
    house.until_status(id, Status::Success);
    assert_eq!(fs::read_to_string(house.path("effects")).unwrap(), "work\nwork\n");
    let attempts = house.history(id).attempts;
    let ends: Vec<_> = attempts.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(ends, [Some(Outcome::Lost), Some(Outcome::Success)]);
    house.check_no_overlap();
    drop(daemon);
}

#[derive(Clone, Copy, Debug)]
enum Blow {
    TermWorker,
    KillWorker,
    KillSupervisor,
}

// B28: how a worker ended decided whether its job was retried, dropped or stuck.
#[test]
fn however_the_worker_ends_its_task_has_the_same_end() {
    for (blow, losses) in [(Blow::TermWorker, 0), (Blow::KillWorker, 1), (Blow::KillSupervisor, 0)]
    {
        let house =
            House::new(CALM, &[("job", "until_there go; echo done", "retry = { max_retry = 3 }")]);
        let mut daemon = house.daemon();
        let (engine, workers) = house.pids();
        let id = house.submit("job", "null");
        house.until_start(id, 1);
        match blow {
            Blow::TermWorker => signal(workers[0], Signal::TERM),
            Blow::KillWorker => kill(workers[0]),
            Blow::KillSupervisor => {
                daemon.kill();
                until("the engine has ended", || (!is_alive(engine)).then_some(()));
                daemon = house.daemon_with(&["--workers", "1", "--slots", "2"], 2);
            }
        }
        let attempts = if matches!(blow, Blow::KillSupervisor) { 1 } else { 2 };
        house.until_start(id, attempts);
        house.touch("go");
        let task = house.until_status(id, Status::Success);
        assert_eq!((task.retry_count, task.lost_count), (0, losses), "{blow:?}");
        assert_eq!(house.starts().len(), usize::try_from(attempts).unwrap(), "{blow:?}");
        house.check_no_overlap();
        drop(daemon);
    }
}

// B30: whatever ran longer than the limit was started a second time, beside itself.
#[test]
fn a_plain_long_command_runs_once_however_many_spans_of_silence_pass() {
    let house = House::new(BRISK, &[]);
    let daemon = house.daemon();
    let out = house.path("copies");
    let script = format!("echo one >>{0}; sleep 9; echo end >>{0}", out.display());
    let id = house.say(&["submit", "--exec", "--", "sh", "-c", &script]);
    assert_eq!(house.say(&["wait", &id]), format!("{id} SUCCESS"));
    // Four spans of `offline_after` and fifteen of a lease that was never started.
    assert_eq!(fs::read_to_string(&out).unwrap(), "one\nend\n");
    let history = house.history(id.parse().map(midwatch::kernel::ids::TaskId).unwrap());
    assert_eq!(history.attempts.len(), 1, "{history:?}");
    drop(daemon);
}

// B32: a dead worker's jobs sat busy until their reservation of half an hour was over.
#[test]
fn a_killed_worker_s_tasks_are_taken_back_at_once_whatever_their_leases_say() {
    let script = "first || exit 0; sleep 3600";
    let house = House::new(CALM, &[("long", script, "timeout = \"30m\"")]);
    let daemon = house.daemon();
    let (_, workers) = house.pids();
    let ids = [house.submit("long", "1"), house.submit("long", "2")];
    for id in ids {
        house.until_start(id, 1);
    }
    kill(workers[0]);
    for id in ids {
        house.until_status(id, Status::Success);
        assert_eq!(
            house.reasons(id),
            ["created", "dispatched", "worker_crash", "lease_revoked", "dispatched", "completed"]
        );
    }
    house.check_no_overlap();
    drop(daemon);
}

// B33: three deployments used up the retries of a healthy job.
#[test]
fn five_restarts_during_one_task_use_up_no_retry() {
    let script = "[ $MIDWATCH_ATTEMPT -le 5 ] || exit 0; sleep 600";
    let house = House::new(CALM, &[("deployed", script, "retry = { max_retry = 3 }")]);
    let mut daemon = house.daemon();
    let id = house.submit("deployed", "null");
    for restart in 1..=5 {
        house.until_start(id, restart);
        if restart % 2 == 0 {
            house.kill_all(daemon);
        } else {
            assert!(daemon.terminate().success(), "{}", daemon.log());
        }
        daemon = house.daemon();
    }
    let task = house.until_status(id, Status::Success);
    assert_eq!((task.retry_count, task.lost_count), (0, 2), "{:?}", house.reasons(id));
    assert_eq!(house.starts().len(), 6);
    house.check_no_overlap();
    drop(daemon);
}

/// The writer is not the handler but what it left in another session, where no death signal of
/// the worker reaches.
const WRITER: &str = r#"
    setsid sh -c 'while :; do echo "$MIDWATCH_FENCE" >>"$DIR/written"; sleep 0.05; done' &
    until_there finish
"#;

const KILLS: u32 = 5;

// B40: everything was killed but the handler, and its successor wrote beside it.
#[test]
fn there_are_never_two_writers_whatever_is_killed_at_once() {
    let house = House::new(CALM, &[("writer", WRITER, "")]);
    let written = || fs::read_to_string(house.path("written")).unwrap_or_default();
    let daemon = house.daemon();
    let id = house.submit("writer", "null");
    house.until_file("written");
    house.kill_all(daemon);
    for attempt in 2..2 + KILLS {
        // The old writer goes on while nobody is there to end it.
        let before = written().len();
        house.until("the orphan writes", |_| (before < written().len()).then_some(()));
        let daemon = house.daemon();
        house.until_start(id, attempt);
        let before = written().len();
        house.until("the new one writes", |_| (before < written().len()).then_some(()));
        if attempt == 1 + KILLS {
            house.touch("finish");
            house.until_status(id, Status::Success);
            break;
        }
        house.kill_all(daemon);
    }
    house.check_no_overlap();
    let fences: Vec<u64> = written().lines().map(|line| line.parse().unwrap()).collect();
    assert!(fences.is_sorted(), "an older attempt wrote after a newer one: {fences:?}");
    let mut tokens = fences;
    tokens.dedup();
    assert_eq!(tokens.len(), usize::try_from(1 + KILLS).unwrap());
}
