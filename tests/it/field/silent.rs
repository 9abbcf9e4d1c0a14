//! An engine that stands still: what clients, workers and the next engine make of it.

use super::house::{BRISK, CALM, House, until};
use midwatch::kernel::status::Status;
use std::fs;

// `midwatch status` at an engine that was stopped waited without a word.
#[test]
fn a_command_at_an_engine_that_stands_still_says_so_and_ends() {
    let house = House::new(CALM, &[("noop", "exit 0", "")]);
    let engine = house.engine();
    engine.freeze();
    let pid = engine.pid();
    let ask = |args: &'static [&'static str]| {
        let output = house.run(args);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let ((looked, look), (asked, change)) = std::thread::scope(|scope| {
        let look = scope.spawn(|| ask(&["status"]));
        let change = scope.spawn(|| ask(&["submit", "noop"]));
        (look.join().unwrap(), change.join().unwrap())
    });
    assert_eq!(looked, Some(5), "{look}");
    assert_eq!(asked, Some(8), "{change}");
    for said in [&look, &change] {
        let silent = format!("(pid {pid}) took the request and has said nothing for 10 s");
        assert!(said.contains(&silent), "{said}");
        assert!(said.contains(&format!("it is stopped; `kill -CONT {pid}`")), "{said}");
    }
    assert!(change.contains("is not known") && change.contains("--key"), "{change}");
    engine.thaw();
    house.until_served();
    drop(engine);
}

// A worker that nobody supervises goes on without its engine for longer than it may be silent,
// and the next engine takes what it has done.
#[test]
fn a_worker_alone_outlives_its_engine_and_what_it_did_meanwhile_is_taken() {
    let script = "until_there away; sleep 3; echo done >\"$DIR/done\"; echo worked";
    let house = House::new(BRISK, &[("long", script, ""), ("noop", "exit 0", "")]);
    let engine = house.engine();
    let worker = house.worker("w1", 1);
    let id = house.submit("long", "null");
    house.until_start(id, 1);
    engine.kill();
    house.touch("away");
    // Longer than `offline_after`.
    house.until_file("done");
    let engine = house.engine();
    house.until_status(id, Status::Success);
    assert_eq!(house.say(&["log", &id.to_string()]), "worked");
    let history = house.history(id);
    assert_eq!(history.attempts.len(), 1, "{history:?}");
    assert_eq!((history.task.retry_count, history.task.lost_count), (0, 0));
    // It is the same worker, and a good one.
    assert_eq!(house.workers().iter().map(|it| it.pid).collect::<Vec<_>>(), [worker.pid()]);
    let next = house.submit("noop", "null");
    house.until_status(next, Status::Success);
    drop((worker, engine));
}

// The absence of an engine expires nothing: what ran goes on running under it when it is back.
#[test]
fn an_engine_that_was_away_or_stood_still_expires_no_lease() {
    let house = House::new(BRISK, &[("long", "until_there go", "timeout = \"1m\"")]);
    let mut engine = house.engine();
    let worker = house.worker("w1", 1);
    let id = house.submit("long", "null");
    house.until_start(id, 1);
    house.until("its start is on record", |house| {
        house.history(id).attempts.first()?.started_at.clone()
    });
    for is_killed in [true, false] {
        let pause = std::time::Duration::from_secs(4); // twice `offline_after`
        if is_killed {
            engine.kill();
            std::thread::sleep(pause);
            engine = house.engine();
        } else {
            engine.freeze();
            std::thread::sleep(pause);
            engine.thaw();
            house.until_served();
        }
        assert_eq!(house.task(id).status, Status::Running);
    }
    house.touch("go");
    house.until_status(id, Status::Success);
    let history = house.history(id);
    assert_eq!(history.attempts.len(), 1, "{history:?}");
    drop((worker, engine));
}

/// What it leaves writes in another session, where no death signal of the worker reaches.
const WRITER: &str = r#"
    first || { until_there finish; exit 0; }
    setsid sh -c 'echo $$ >"$DIR/writer"; while :; do echo . >>"$DIR/written"; sleep 0.05; done' &
    until_there finish
"#;

// Without any supervisor, too, an attempt is swept before its task is leased again.
#[test]
fn without_a_supervisor_too_nothing_of_a_dead_worker_lives_when_its_task_runs_again() {
    let house = House::new(CALM, &[("writer", WRITER, "")]);
    let engine = house.engine();
    let worker = house.worker("w1", 1);
    let id = house.submit("writer", "null");
    house.until_file("written");
    let writer: u32 = house.until_file("writer").trim().parse().unwrap();
    worker.kill();
    let worker = house.worker("w2", 1);
    house.until_start(id, 2);
    assert!(!super::house::is_alive(writer), "{}", house.account());
    let written = fs::read(house.path("written")).unwrap().len();
    house.touch("finish");
    house.until_status(id, Status::Success);
    assert_eq!(fs::read(house.path("written")).unwrap().len(), written);
    until("nothing is left", || (!super::house::is_alive(writer)).then_some(()));
    house.check_no_overlap();
    drop((worker, engine));
}
