//! Nobody starves, nobody urgent waits behind a flood, and who waits for others runs after them.

use super::house::{CALM, House, kill};
use midwatch::api::TaskView;
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use serde_json::json;

fn submit(house: &House, kind: &str, priority: i32) -> TaskId {
    let body = json!({ "type": kind, "priority": priority });
    house.client().post::<_, midwatch::api::Submitted>("/v1/tasks", &body).unwrap().id
}

fn kill_the_engine(house: &House) {
    let (engine, _) = house.pids();
    kill(engine);
    house.until("another engine answers", |house| {
        house.status().filter(|status| status.pid != engine)
    });
}

// One slot, and more urgent tasks than can run in the time that anybody waits.
#[test]
fn b84_a_task_of_low_priority_runs_amid_urgent_ones_and_the_engine_is_killed() {
    let more = "[dispatch]\npromote_after = \"500ms\"";
    let house = House::with(more, CALM, &[("job", "sleep 0.1", ""), ("low", "exit 0", "")]);
    let daemon = house.daemon_with(&["--workers", "1", "--slots", "1"], 1);
    let low: Vec<_> = (0..2).map(|_| submit(&house, "low", 200)).collect();
    let urgent: Vec<_> = (0..100).map(|_| submit(&house, "job", 1)).collect();
    let has_ended = |house: &House, id| {
        let task: Option<TaskView> = house.client().get(&format!("/v1/tasks/{id}")).ok();
        task.is_some_and(|task| task.status == Status::Success)
    };
    house.until("some urgent ones have run", |house| has_ended(house, urgent[4]).then_some(()));
    kill_the_engine(&house);
    for id in low {
        house.until_status(id, Status::Success);
    }
    let last = house.task(urgent[99]);
    assert_eq!(last.status, Status::Pending, "they waited for all urgent ones");
    house.check_no_overlap();
    drop(daemon);
}

// A flood of work that is in no hurry, and somebody who waits for an answer.
#[test]
fn an_urgent_task_finds_a_slot_free_however_much_else_waits() {
    let more = "[dispatch]\nreserve = [{ priority_max = 10, slots = 1 }]";
    let house = House::with(more, CALM, &[("job", "until_there go", ""), ("ask", "exit 0", "")]);
    let daemon = house.daemon_with(&["--workers", "1", "--slots", "3"], 1);
    let flood: Vec<_> = (0..6).map(|_| submit(&house, "job", 100)).collect();
    house.until_start(flood[0], 1);
    house.until_start(flood[1], 1);
    let urgent = submit(&house, "ask", 10);
    house.until_status(urgent, Status::Success);
    let running = house.status().unwrap().tasks["RUNNING"];
    assert_eq!(running, 2, "one slot stays free");
    // Another config gives the slot away while all goes on.
    let path = house.path("midwatch.toml");
    let text = std::fs::read_to_string(&path).unwrap().replace(more, "");
    std::fs::write(&path, text).unwrap();
    house.until_start(flood[2], 1);
    house.touch("go");
    for id in flood {
        house.until_status(id, Status::Success);
    }
    drop(daemon);
}

#[test]
fn a_chain_runs_in_its_order_though_the_engine_is_killed_between_its_links() {
    let handlers = [("job", "until_there go", ""), ("bad", "exit 65", "")];
    let house = House::new(CALM, &handlers);
    let daemon = house.daemon();
    let first = house.submit("job", "null");
    let say = |words: &[&str]| -> TaskId { house.say(words).parse().unwrap() };
    let (one, two) = (first.to_string(), house.submit("bad", "null").to_string());
    let second = say(&["submit", "job", "--after", &one]);
    let third = say(&["submit", "job", "null", "--after", &second.to_string(), &one]);
    let doomed = say(&["submit", "job", "--after", &two, &one]);
    let doomed_too = say(&["submit", "job", "--after", &doomed.to_string()]);
    let after_all = say(&["submit", "job", "--after-any", &doomed_too.to_string()]);
    assert!(house.say(&["list"]).contains(&format!("after {second}")), "{}", house.say(&["list"]));
    house.until_status(doomed_too, Status::Cancelled);
    let refused = house.run(&["run-now", &second.to_string()]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains(&format!("waits for task {one}")));
    kill_the_engine(&house);
    house.until_start(after_all, 1);
    house.touch("go");
    for id in [first, second, third, after_all] {
        house.until_status(id, Status::Success);
    }
    assert_eq!(house.reasons(doomed), ["created", "dependency_failed"]);
    assert!(house.say(&["show", &third.to_string()]).contains("after"));
    let order: Vec<_> = house.starts().iter().map(|start| start.task).collect();
    let place = |id: TaskId| order.iter().position(|task| *task == id).unwrap();
    assert!(place(first) < place(second) && place(second) < place(third), "{order:?}");
    house.check_no_overlap();
    drop(daemon);
}
