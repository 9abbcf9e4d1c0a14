//! Cancel, pause, superseded, shutdown.

use super::Crew;
use crate::eventually::eventually;
use midwatch::api::StopWord;
use midwatch::kernel::ids::Millis;
use midwatch::kernel::status::Outcome;
use midwatch::process;
use rustix::process::Signal;

/// Tells a poll's answer until it names a stop, then ends its work in order.
const POLITE: &str = r#"
    trap 'echo term >> $DIR/signals' TERM
    echo '{"op":"poll"}' >&3; read -r answer <&3; echo up > $DIR/up
    while :; do
        echo '{"op":"poll"}' >&3; read -r answer <&3
        case $answer in *'"stop":null'*) sleep 0.01;; *) echo "$answer"; exit 0;; esac
    done"#;

// spec: HND-010, HND-020
#[test]
fn a_handler_that_speaks_is_told_and_may_finish() {
    let crew = Crew::new(1, &[("polite", POLITE)]);
    for (word, outcome) in [
        (StopWord::Cancel, Outcome::Cancelled),
        (StopWord::Pause, Outcome::Paused),
        (StopWord::Shutdown, Outcome::Released),
    ] {
        let fence = crew.engine.lease("polite", "null");
        crew.wait_for_file("up");
        std::fs::remove_file(crew.file("up")).unwrap();
        crew.engine.stop(fence, word);
        let end = crew.engine.end_of(fence);
        assert_eq!((end.outcome, end.exit_code), (outcome, Some(0)));
        let told = serde_json::to_string(&word).unwrap();
        assert_eq!(crew.log(fence), format!("{{\"ok\":true,\"stop\":{told}}}\n"));
    }
    assert!(!crew.file("signals").exists(), "no signal before the grace is over");
}

#[test]
fn a_result_after_a_stop_counts_as_a_result() {
    let script = r#"
        echo '{"op":"poll"}' >&3; read -r a <&3; echo up > $DIR/up
        while echo '{"op":"poll"}' >&3; do
            read -r a <&3; case $a in *null*) sleep 0.01;; *) break;; esac
        done
        echo '{"op":"result","data":1}' >&3; exit 0"#;
    let crew = Crew::new(1, &[("done", script)]);
    let fence = crew.engine.lease("done", "null");
    crew.wait_for_file("up");
    crew.engine.stop(fence, StopWord::Cancel);
    let end = crew.engine.end_of(fence);
    assert_eq!((end.outcome, end.result.unwrap().get()), (Outcome::Success, "1"));
}

// spec: HND-021
#[test]
fn a_silent_handler_gets_sigterm_at_once() {
    let crew = Crew::new(1, &[("plain", "echo up > $DIR/up; sleep 600 & wait")]);
    let fence = crew.engine.lease("plain", "null");
    crew.wait_for_file("up");
    crew.engine.stop(fence, StopWord::Cancel);
    let end = crew.engine.end_of(fence);
    assert_eq!((end.outcome, end.signal), (Outcome::Cancelled, Some(Signal::TERM.as_raw())));
    assert_eq!(end.error, None);
    assert!(crew.nothing_is_left_of(fence));
}

// spec: HND-020, HND-021
#[test]
fn a_handler_that_will_not_end_is_killed_after_its_graces() {
    let deaf = "trap '' TERM; echo up > $DIR/up; while :; do sleep 0.05; done";
    let speaks = r#"trap '' TERM; echo '{"op":"poll"}' >&3; read -r a <&3; echo up > $DIR/up; while :; do sleep 0.05; done"#;
    let crew = Crew::new(1, &[("deaf", deaf), ("speaks", speaks)]);
    for kind in ["deaf", "speaks"] {
        let fence = crew.engine.lease_with(kind, "null", |lease| {
            lease.cancel_grace_ms = Millis(150);
            lease.kill_grace_ms = Millis(150);
        });
        crew.wait_for_file("up");
        std::fs::remove_file(crew.file("up")).unwrap();
        crew.engine.stop(fence, StopWord::Pause);
        let end = crew.engine.end_of(fence);
        assert_eq!((end.outcome, end.signal), (Outcome::Paused, Some(Signal::KILL.as_raw())));
        assert!(crew.nothing_is_left_of(fence));
    }
}

// spec: HND-023
#[test]
fn a_superseded_attempt_is_killed_at_once_and_not_reported() {
    let crew =
        Crew::new(1, &[("deaf", "trap '' TERM; echo $$ > $DIR/pid; sleep 600 & wait; wait")]);
    let fence = crew.engine.lease("deaf", "null");
    let leader = crew.process_in("pid");
    crew.engine.stop(fence, StopWord::Superseded);
    eventually("it is dead", || (!process::is_alive(&leader).unwrap()).then_some(()));
    eventually("so is its tree", || crew.nothing_is_left_of(fence).then_some(()));
    // The slot is free again, and nothing was said of the attempt.
    let next = crew.engine.lease("exec", r#"{"argv":["true"]}"#);
    crew.engine.end_of(next);
    assert!(crew.engine.book().ends.iter().all(|end| end.lease.fence != fence));
}

#[test]
fn a_stale_checkpoint_is_refused_and_ends_the_attempt() {
    let script = r#"
        echo '{"op":"poll"}' >&3; read -r a <&3; echo $$ > $DIR/pid
        read -r go < $DIR/go
        echo '{"op":"checkpoint","data":1}' >&3; read -r a <&3; echo "$a" > $DIR/answer; sleep 600"#;
    let crew = Crew::new(1, &[("late", script)]);
    std::process::Command::new("mkfifo").arg(crew.file("go")).status().unwrap();
    let fence = crew.engine.lease("late", "null");
    let leader = crew.process_in("pid");
    crew.engine.book().is_stale = true;
    std::fs::write(crew.file("go"), "go\n").unwrap();
    eventually("it is dead", || (!process::is_alive(&leader).unwrap()).then_some(()));
    if let Ok(answer) = std::fs::read_to_string(crew.file("answer")) {
        assert!(answer.is_empty() || answer.contains(r#""ok":false"#), "{answer}");
    }
    crew.engine.book().is_stale = false;
    crew.run("exec", r#"{"argv":["true"]}"#);
    let book = crew.engine.book();
    assert!(book.checkpoints.is_empty());
    assert!(book.ends.iter().all(|end| end.lease.fence != fence));
}

#[test]
fn sigterm_hands_back_what_runs_and_leaves() {
    let mut crew =
        Crew::new(2, &[("polite", POLITE), ("plain", "echo up > $DIR/plain; sleep 600")]);
    let polite = crew.engine.lease("polite", "null");
    let plain = crew.engine.lease("plain", "null");
    crew.wait_for_file("up");
    crew.wait_for_file("plain");
    crew.signal(Signal::TERM);
    assert!(crew.wait_for_exit().success());
    for fence in [polite, plain] {
        assert_eq!(crew.engine.end_of(fence).outcome, Outcome::Released);
        assert!(crew.nothing_is_left_of(fence));
    }
    assert_eq!(crew.engine.book().left, 1);
    let locks = std::fs::read_dir(crew.file("run")).unwrap().flatten();
    let locks = locks.filter(|entry| entry.file_name().to_string_lossy().ends_with(".lock"));
    assert_eq!(locks.count(), 0);
}

#[test]
fn a_second_sigterm_does_not_wait_for_any_grace() {
    let deaf = "trap '' TERM; echo $$ > $DIR/pid; while :; do sleep 0.05; done";
    let mut crew = Crew::new(1, &[("deaf", deaf)]);
    let fence = crew.engine.lease("deaf", "null");
    let leader = crew.process_in("pid");
    crew.signal(Signal::TERM);
    eventually("leases are no longer asked for", || {
        crew.signal(Signal::TERM);
        crew.worker.try_wait().unwrap()
    });
    eventually("the leader is dead", || (!process::is_alive(&leader).unwrap()).then_some(()));
    // A third one does not even wait for the engine.
    let ends = crew.engine.book().ends.clone();
    assert!(ends.iter().all(|end| end.outcome == Outcome::Released), "{fence}: {ends:?}");
}

/// Notes each SIGTERM, whatever it does about it.
const NOTES: &str = r#"trap 'echo term >> "$DIR/term.$MIDWATCH_FENCE"' TERM"#;

/// Every order × every kind of handler.
// spec: HND-020, HND-021, HND-023
#[test]
fn every_order_reaches_every_handler_by_one_sigterm_at_most_and_then_sigkill() {
    let up = r#"echo $$ > "$DIR/up.$MIDWATCH_FENCE""#;
    let ask = r#"echo '{"op":"poll"}' >&3; read -r answer <&3"#;
    let deaf = format!("{NOTES}; {up}; while :; do sleep 0.02; done");
    let hears = format!("{up}; while :; do sleep 0.02; done");
    let speaks = format!("{NOTES}; {ask}; {up}; while :; do sleep 0.02; done");
    let obeys = format!(
        "{NOTES}; {ask}; {up}; while :; do {ask}; \
         case $answer in *'\"stop\":null'*) sleep 0.01;; *) exit 0;; esac; done"
    );
    let handlers = [
        ("deaf", &*deaf, 1, Some(Signal::KILL)),
        ("hears", &*hears, 0, Some(Signal::TERM)),
        ("speaks", &*speaks, 1, Some(Signal::KILL)),
        ("obeys", &*obeys, 0, None),
    ];
    let orders = [
        (StopWord::Cancel, Some(Outcome::Cancelled)),
        (StopWord::Pause, Some(Outcome::Paused)),
        (StopWord::Timeout, Some(Outcome::TimedOut)),
        (StopWord::Shutdown, Some(Outcome::Released)),
        (StopWord::Superseded, None),
    ];
    let crew = Crew::new(1, &handlers.map(|(kind, script, ..)| (kind, script)));
    for (word, outcome) in orders {
        for (kind, _, terms, signal) in handlers {
            let what = format!("{kind}, {word:?}");
            // One that obeys has all the time it wants, and the others enough to note a signal.
            let grace = match kind {
                "obeys" => Millis(60_000),
                "speaks" => Millis(300),
                _ => Millis(2_000),
            };
            let fence = crew.engine.lease_with(kind, "null", |lease| {
                lease.cancel_grace_ms = grace;
                // Enough to note a signal, also on a machine that is busy with something else.
                lease.kill_grace_ms = Millis(4_000);
                lease.timeout_ms = (word == StopWord::Timeout).then_some(Millis(2_000));
            });
            let leader = crew.process_in(&format!("up.{fence}"));
            if word != StopWord::Timeout {
                crew.engine.stop(fence, word);
            }
            let noted = if let Some(outcome) = outcome {
                let end = crew.engine.end_of(fence);
                assert_eq!(end.outcome, outcome, "{what}");
                assert_eq!(end.signal, signal.map(Signal::as_raw), "{what}");
                terms
            } else {
                eventually(&what, || (!process::is_alive(&leader).unwrap()).then_some(()));
                0
            };
            eventually(&what, || crew.nothing_is_left_of(fence).then_some(()));
            let told = std::fs::read_to_string(crew.file(&format!("term.{fence}")));
            assert_eq!(told.unwrap_or_default(), "term\n".repeat(noted), "{what}");
            let ended = crew.engine.book().ends.iter().any(|end| end.lease.fence == fence);
            assert_eq!(ended, outcome.is_some(), "{what}");
            if outcome.is_none() {
                // The engine that takes a task away frees the slot in its books, too.
                let mut book = crew.engine.book();
                book.stops.retain(|order| order.fence != fence);
                book.held -= 1;
            }
        }
    }
}
