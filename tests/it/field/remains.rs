//! Nothing is left behind: processes that end, end with all that they started.

use super::house::{BRISK, CALM, House, is_alive, kill, until};
use midwatch::kernel::status::Status;
use rustix::process::Signal;

/// Leaves a grandchild in a session of its own, which holds none of the handler's descriptors.
const FAMILY: &str = r#"
    setsid sh -c 'exec sleep 600' >/dev/null 2>&1 </dev/null 3>&- &
    echo $! >"$DIR/grandchild"
    sleep 600
"#;

const GRACES: &str = "cancel_grace = \"200ms\"\nkill_grace = \"200ms\"";

// No daemon, and no process with our token, is left.
#[test]
fn a_daemon_that_is_asked_to_end_leaves_no_process_behind() {
    let house = House::new(CALM, &[("family", FAMILY, GRACES)]);
    let mut daemon = house.daemon();
    let id = house.submit("family", "null");
    house.until_start(id, 1);
    house.until_file("grandchild");
    assert!(daemon.terminate().success(), "{}", daemon.log());
    house.check_nothing_lives();
}

// The same when it is told twice.
#[test]
fn a_daemon_that_is_told_twice_ends_at_once_with_all_it_ran_and_its_successor_goes_on() {
    let deaf = "trap '' TERM\necho up >\"$DIR/up.$MIDWATCH_ATTEMPT\"\nfirst || exit 0\nwhile :; do sleep 1; done";
    let house = House::new(CALM, &[("deaf", deaf, "cancel_grace = \"10m\"")]);
    let mut daemon = house.daemon();
    let id = house.submit("deaf", "null");
    house.until_file("up.1");
    daemon.signal(Signal::TERM);
    house.until("the worker has heard it", |_| daemon.log().contains("told to end").then_some(()));
    // A signal that follows sooner is taken for the same one.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(daemon.terminate().success(), "{}", daemon.log());
    house.check_nothing_lives();
    let daemon = house.daemon();
    house.until_status(id, Status::Success);
    house.check_no_overlap();
    drop(daemon);
}

// B28, the end without a successor: killing the supervisor alone ends the others.
#[test]
fn without_their_supervisor_engine_and_worker_end_by_themselves() {
    let house = House::new(CALM, &[("short", "until_there go", "")]);
    let daemon = house.daemon();
    let id = house.submit("short", "null");
    house.until_start(id, 1);
    let (engine, _) = house.pids();
    daemon.kill();
    until("the engine has ended", || (!is_alive(engine)).then_some(()));
    // The worker lets its handler finish; then it finds nobody to tell, and gives up.
    house.touch("go");
    house.until_empty();
    let daemon = house.daemon();
    house.until_status(id, Status::Success);
    house.check_no_overlap();
    drop(daemon);
}

const SAVES: &str = r#"
    first || exit 0
    echo up >"$DIR/up"
    until_there away
    echo '{"op":"checkpoint","data":1}' >&3
    read -r answer <&3
"#;

// A worker whose engine is gone for good, asked to end while its handler waits for a checkpoint.
#[test]
fn a_worker_that_is_asked_to_end_gives_up_a_checkpoint_that_nobody_takes() {
    let house = House::new(BRISK, &[("saves", SAVES, GRACES)]);
    let engine = house.engine();
    let mut worker = house.worker("w1", 1);
    let id = house.submit("saves", "null");
    house.until_file("up");
    engine.kill();
    house.touch("away");
    assert!(worker.terminate().success(), "{}", worker.log());
    house.check_nothing_lives();
    let engine = house.engine();
    let worker = house.worker("w2", 1);
    house.until_status(id, Status::Success);
    house.check_no_overlap();
    drop((worker, engine));
}

// The same worker as an orphan: supervisor and engine are gone, and nobody asks it to end.
#[test]
fn an_orphaned_worker_does_not_wait_for_ever_for_a_checkpoint_that_nobody_takes() {
    let house = House::new(BRISK, &[("saves", SAVES, GRACES)]);
    let daemon = house.daemon();
    let id = house.submit("saves", "null");
    house.until_file("up");
    let (engine, workers) = house.pids();
    daemon.kill();
    kill(engine);
    house.touch("away");
    until("the worker has ended", || (!is_alive(workers[0])).then_some(()));
    house.check_nothing_lives();
    let daemon = house.daemon();
    house.until_status(id, Status::Success);
    house.check_no_overlap();
    drop(daemon);
}
