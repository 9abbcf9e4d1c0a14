//! A worker that stops past its leases and comes back: what it says is refused, and what it would
//! start does not start.

use super::house::{BRISK, House, until_idle};
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;

/// Notes of a task's history that tell a refusal of this token.
fn refusals(house: &House, id: TaskId, fence: u64) -> Vec<String> {
    let transitions = house.history(id).transitions;
    let notes = transitions.into_iter().filter_map(|line| line.note);
    let of_token = format!(" with token {fence}, ");
    notes.filter(|note| note.starts_with("refused") && note.contains(&of_token)).collect()
}

/// Waits until the start of a task's first attempt is on record, and with it the lease that goes
/// beyond a start.
fn until_started(house: &House, id: TaskId) {
    house.until("its start is on record", |house| {
        house.history(id).attempts.first()?.started_at.clone()
    });
}

/// Does, while its worker stands still, what needs the worker to be told of.
const SAVES: &str = r#"
    first || exit 0
    until_there stopped
    echo '{"op":"checkpoint","data":{"stale":true}}' >&3
    echo sent >"$DIR/sent"
    sleep 600
"#;
const ENDS: &str = r#"
    first || exit 0
    until_there stopped
    echo '{"op":"result","data":"stale"}' >&3
    echo ended >"$DIR/ended"
"#;
/// With a timeout the lease runs from its start, and ends soon: after eight seconds here.
const SHORT_LEASE: &str = "timeout = \"4s\"\ncancel_grace = \"100ms\"\nkill_grace = \"100ms\"";

// B34, and W74 on the real program: a worker on its own, stopped past its leases, then continued.
#[test]
fn a_worker_that_was_stopped_past_its_leases_is_refused_in_all_that_it_says() {
    let handlers = [("saves", SAVES, SHORT_LEASE), ("ends", ENDS, SHORT_LEASE)];
    // The worker then tells of the end of each attempt.
    let house = House::with("[log]\nlevel = \"debug\"\n", BRISK, &handlers);
    let engine = house.engine();
    let sleeper = house.worker("sleeper", 2);
    let saves = house.submit("saves", "null");
    let ends = house.submit("ends", "null");
    let stale = [saves, ends].map(|id| house.until_start(id, 1).fence);
    until_started(&house, saves);
    until_started(&house, ends);
    sleeper.freeze();
    house.touch("stopped");
    house.until_file("sent");
    house.until_file("ended");
    let mut other = house.worker("other", 2);
    let done = [saves, ends].map(|id| house.until_status(id, Status::Success));
    let second = [saves, ends].map(|id| house.until_start(id, 2).fence);
    // The sleeper wakes while the engine stands still: all that it has to say is said before it
    // can hear that nothing of it counts any more.
    engine.freeze();
    sleeper.thaw();
    house.until("its attempt has ended", |_| {
        sleeper.log().contains("outcome=success").then_some(())
    });
    until_idle(sleeper.pid());
    engine.thaw();
    house.until("all is refused, on record", |house| {
        let saves = refusals(house, saves, stale[0]);
        let ends = refusals(house, ends, stale[1]);
        let has = |notes: &[String], act: &str| notes.iter().any(|note| note.contains(act));
        let all = has(&saves, "heartbeat") && has(&saves, "checkpoint") && has(&ends, "result");
        all.then_some(())
    });
    for (id, (before, fence)) in [saves, ends].into_iter().zip(done.iter().zip(second)) {
        let history = house.history(id);
        assert_eq!(history.task.status, Status::Success);
        assert!(history.task.checkpoint.is_none() && history.task.result.is_none(), "{history:?}");
        assert_eq!(history.task.retry_count, before.retry_count);
        assert_eq!(history.attempts.len(), 2);
        assert_eq!(history.attempts[1].fence.0, fence, "{history:?}");
    }
    assert!(stale.iter().max() < second.iter().min(), "tokens grow: {stale:?} {second:?}");
    house.check_no_overlap();
    // It is a good worker again.
    assert!(other.terminate().success(), "{}", other.log());
    house.touch("again");
    let id = house.submit("ends", "null");
    house.until_status(id, Status::Success);
    drop((sleeper, engine));
}

/// Two checkpoints take the same way as the request for the next lease, after it: once they are
/// answered, the worker waits for work in its other slot.
const HOLDS: &str = r#"
    for n in 1 2; do
        echo '{"op":"checkpoint","data":'$n'}' >&3
        read -r answer <&3
    done
    echo held >"$DIR/held"
    until_there finish
"#;
const GOES: &str = "echo \"$MIDWATCH_FENCE\" >>\"$DIR/went\"; until_there finish";

// B34, the other half: stopped between its lease and its start.
#[test]
fn a_worker_that_was_stopped_between_lease_and_start_starts_nothing_when_it_goes_on() {
    let house = House::new(BRISK, &[("holds", HOLDS, ""), ("goes", GOES, "")]);
    let engine = house.engine();
    let sleeper = house.worker("sleeper", 2);
    let holds = house.submit("holds", "null");
    house.until_file("held");
    until_started(&house, holds);
    sleeper.freeze();
    // The engine leases to whoever waits; that one cannot hear it.
    let goes = house.submit("goes", "null");
    house.until("it was leased to the sleeper", |house| {
        let attempts = house.history(goes).attempts;
        (!attempts.is_empty()).then_some(())
    });
    assert_eq!(house.starts().len(), 1, "{}", house.account());
    let other = house.worker("other", 1);
    let start = house.until_start(goes, 2);
    sleeper.thaw();
    house.until("the sleeper has seen the tombstone", |_| {
        sleeper.log().contains("superseded: not reported").then_some(())
    });
    assert_eq!(house.task(goes).status, Status::Running);
    house.touch("finish");
    house.until_status(goes, Status::Success);
    house.until_status(holds, Status::Success);
    let started: Vec<_> = house.starts().into_iter().filter(|it| it.task == goes).collect();
    assert_eq!(started, [start], "{}", house.account());
    assert_eq!(house.until_file("went").lines().count(), 1);
    assert_eq!(house.task(goes).retry_count, 0);
    // What the sleeper really ran was lost from sight, and came back within its lease.
    assert_eq!(house.history(holds).attempts.len(), 1);
    house.check_no_overlap();
    drop((sleeper, other, engine));
}
