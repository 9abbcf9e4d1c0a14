//! What was acknowledged is there, whatever ended the process.

use super::house::{CALM, House, Part, bytes_of, kill};
use midwatch::api::{Submitted, TaskList, TaskView};
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use midwatch::sim::Dice;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NOOP: (&str, &str, &str) = ("noop", "exit 0", "");

/// Small files, and snapshots all the time.
const SMALL: &str =
    "[journal]\nsegment_size = \"64KiB\"\nsnapshot_after = \"64KiB\"\nreserve = \"64KiB\"";

// W29: the log was written faithfully, and never read.
#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    let house = House::new(CALM, &[NOOP]);
    let engine = house.engine();
    let id = house.say(&["submit", "noop", r#"{"say":"hello"}"#, "--key", "k", "--priority", "7"]);
    let before = house.say(&["show", &id, "--json"]);
    engine.kill();
    let engine = house.engine();
    assert_eq!(steady(&house.say(&["show", &id, "--json"])), steady(&before));
    assert_eq!(house.say(&["submit", "noop", r#"{"say":"hello"}"#, "--key", "k"]), id);
    drop(engine);
}

/// A task without the one field that is an estimate.
fn steady(view: &str) -> serde_json::Value {
    let mut view: serde_json::Value = serde_json::from_str(view).unwrap();
    view.as_object_mut().unwrap().remove("next_run_time").unwrap();
    view
}

/// Rounds in the plain test run; `MIDWATCH_B06_ROUNDS` asks for more.
const ROUNDS: u64 = 8;
const CLIENTS: u64 = 4;

// B06: a stop by a signal in the middle of writing left wrong attributes, and lost others.
#[test]
fn sigterm_among_four_submitting_clients_loses_and_changes_nothing() {
    let house = House::new(CALM, &[NOOP]);
    let rounds = asked("MIDWATCH_B06_ROUNDS", ROUNDS);
    let mut dice = Dice::new(6);
    let mut acknowledged: BTreeMap<TaskId, serde_json::Value> = BTreeMap::new();
    for round in 0..rounds {
        let mut daemon = house.daemon_with(&["--workers", "0"], 0);
        let stop = AtomicBool::new(false);
        let told = std::thread::scope(|scope| {
            let (house, stop) = (&house, &stop);
            let work = |client| move || submit_until_it_ends(house, round, client, stop);
            let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(work(client))).collect();
            std::thread::sleep(Duration::from_millis(50 + dice.below(300) as u64));
            assert!(daemon.terminate().success(), "{}", daemon.log());
            stop.store(true, Ordering::Relaxed);
            clients.into_iter().flat_map(|it| it.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(told.iter().all(|(id, _)| !acknowledged.contains_key(id)), "an id came twice");
        acknowledged.extend(told);
        let _engine = house.engine();
        let found = all_tasks(&house);
        for (id, fields) in &acknowledged {
            assert_eq!(found.get(id), Some(fields), "task {id} in round {round}");
        }
        // What nobody was told of is there as it was said, or not at all.
        for (id, fields) in &found {
            let key = fields["key"].as_str().unwrap();
            let said: Vec<u64> = key.split(' ').map(|word| word.parse().unwrap()).collect();
            assert_eq!(fields, &fields_of(said[0], said[1], said[2]), "task {id}");
        }
    }
    println!("{rounds} rounds, {} acknowledged tasks identical", acknowledged.len());
    assert!(rounds < acknowledged.len() as u64, "the rounds proved nothing");
}

fn asked(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Every field of a submission differs with its number.
fn fields_of(round: u64, client: u64, count: u64) -> serde_json::Value {
    let number = round * 1_000_000 + client * 100_000 + count;
    serde_json::json!({
        "type": "noop", "payload": {"number": number, "text": "x".repeat((number % 300) as usize)},
        "priority": number % 200, "max_retry": number % 9, "timeout": format!("{}s", 1 + number % 50),
        "key": format!("{round} {client} {count}"),
    })
}

fn submit_until_it_ends(
    house: &House,
    round: u64,
    client: u64,
    stop: &AtomicBool,
) -> Vec<(TaskId, serde_json::Value)> {
    let http = house.client();
    let mut told = Vec::new();
    for count in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let fields = fields_of(round, client, count);
        match http.post::<_, Submitted>("/v1/tasks", &fields) {
            Ok(done) => told.push((done.id, fields)),
            Err(_) => break,
        }
    }
    told
}

/// The submitted fields of all tasks.
fn all_tasks(house: &House) -> BTreeMap<TaskId, serde_json::Value> {
    let mut tasks = BTreeMap::new();
    let mut path = "/v1/tasks?limit=500".to_owned();
    loop {
        let page: TaskList = house.client().get(&path).unwrap();
        for task in page.tasks {
            assert_eq!(task.status, Status::Pending);
            let fields = serde_json::json!({
                "type": task.kind, "payload": serde_json::from_str::<serde_json::Value>(task.payload.get()).unwrap(),
                "priority": task.priority, "max_retry": task.max_retry, "timeout": task.timeout, "key": task.key,
            });
            tasks.insert(task.id, fields);
        }
        let Some(next) = page.next else { return tasks };
        path = format!("/v1/tasks?limit=500&after={next}");
    }
}

/// Submits and finishes tasks until another snapshot has come.
fn until_compacted(house: &House, payload_bytes: usize) -> Vec<TaskId> {
    let newest = || bytes_of(&house.data("snapshots")).last().map(|(path, _)| path.clone());
    let before = newest();
    let payload = format!("\"{}\"", "x".repeat(payload_bytes));
    let mut ids = Vec::new();
    house.until("a snapshot was taken", |house| {
        let id = house.submit("noop", &payload);
        house.until_status(id, Status::Success);
        ids.push(id);
        (newest() != before).then_some(())
    });
    ids
}

// B07: killed while nothing was alive in it, the log refused everything after the restart.
#[test]
fn an_empty_store_and_a_just_compacted_one_are_ordinary_states() {
    let house = House::with(SMALL, CALM, &[NOOP]);
    for _ in 0..3 {
        let daemon = house.daemon();
        house.kill_all(daemon);
    }
    let daemon = house.daemon();
    let ids = until_compacted(&house, 20_000);
    house.kill_all(daemon);
    for _ in 0..2 {
        let daemon = house.daemon();
        for id in &ids {
            assert_eq!(house.task(*id).status, Status::Success);
        }
        let id = house.submit("noop", "1");
        house.until_status(id, Status::Success);
        house.kill_all(daemon);
    }
}

/// The largest id, token and sequence number that anybody has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Largest {
    task: u64,
    fence: u64,
    seq: u64,
}

// B11: after a kill the counters fell back, and what they had named was named again.
#[test]
fn ids_tokens_and_sequence_numbers_never_come_again() {
    let house = House::with(SMALL, CALM, &[NOOP]);
    let mut seen = Largest::default();
    for round in 0..3 {
        let daemon = house.daemon();
        assert!(seen.seq < house.status().unwrap().seq.0, "the start itself is a record");
        for id in until_compacted(&house, 8_000) {
            let history = house.history(id);
            let attempt = &history.attempts[0];
            assert!(seen.task < id.0, "round {round}: id {id} after {seen:?}");
            assert!(seen.fence < attempt.fence.0, "round {round}: {attempt:?} after {seen:?}");
            for line in &history.transitions {
                assert!(seen.seq < line.seq.0, "round {round}: {line:?} after {seen:?}");
                seen.seq = line.seq.0;
            }
            seen.task = id.0;
            seen.fence = attempt.fence.0;
        }
        house.kill_all(daemon);
    }
}

/// Everything that the journal owns.
fn store_of(house: &House) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for name in ["journal", "snapshots", "quarantine"] {
        files.extend(bytes_of(&house.data(name)));
    }
    for name in ["store", "floor", "reserve"] {
        files.push((house.data(name), fs::read(house.data(name)).unwrap_or_default()));
    }
    files
}

fn damage(path: &std::path::Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

// B16: unreadable state, a warning, an empty start, and the old file was gone.
#[test]
fn a_damaged_store_is_refused_again_and_again_and_not_a_byte_changes() {
    let house = House::with(SMALL, CALM, &[NOOP]);
    let daemon = house.daemon();
    for _ in 0..3 {
        until_compacted(&house, 8_000);
    }
    house.kill_all(daemon);
    let (snapshot, _) = bytes_of(&house.data("snapshots")).pop().unwrap();
    let (head, _) = bytes_of(&house.data("journal")).into_iter().next().unwrap();
    damage(&snapshot);
    damage(&head);
    let before = store_of(&house);
    for start in 0..6 {
        let command = if start % 2 == 0 { "engine" } else { "daemon" };
        let mut part: Part = house.spawn("refused", house.command(&[command]));
        assert_eq!(part.end().code(), Some(6), "{}", part.log());
        assert!(store_of(&house) == before, "start {start} changed a byte");
        let log = part.log();
        let name = head.file_name().unwrap().to_str().unwrap();
        assert!(log.contains(name) && log.contains(", byte "), "file and offset: {log}");
        assert!(log.contains("midwatch-journal "), "a command that helps: {log}");
    }
    house.check_nothing_lives();
}

// A kill between the acknowledgements of one long bulk submission: each line told is there.
#[test]
fn every_line_of_a_bulk_that_was_answered_before_kill_9_is_there() {
    let house = House::new(CALM, &[NOOP]);
    let engine = house.engine();
    let line = |n: usize| format!("{{\"type\":\"noop\",\"payload\":{n}}}\n");
    let lines: String = (0..20_000).map(line).collect();
    let http = house.client();
    let mut answers = http.upload_lines("/v1/tasks", lines.into_bytes()).unwrap();
    let mut told: Vec<TaskId> = Vec::new();
    while let Ok(Some(line)) = answers.line() {
        let answer: midwatch::api::BulkLine = serde_json::from_slice(&line).unwrap();
        told.extend(answer.id);
        if told.len() == 700 {
            kill(engine.pid());
        }
    }
    assert!(700 <= told.len());
    let _again = house.engine();
    for (n, id) in told.iter().enumerate() {
        let task: TaskView = house.task(*id);
        assert_eq!(task.payload.get(), n.to_string());
    }
    println!("{} lines were answered before the kill", told.len());
    drop(engine);
}

// A stopped engine is not a dead one: what was asked meanwhile is answered when it goes on.
#[test]
fn a_submission_to_a_stopped_engine_is_answered_when_it_goes_on() {
    let house = House::new(CALM, &[NOOP]);
    let engine = house.engine();
    engine.freeze();
    let id = std::thread::scope(|scope| {
        let asked = scope.spawn(|| house.submit("noop", "1"));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!asked.is_finished());
        engine.signal(Signal::CONT);
        asked.join().unwrap()
    });
    assert_eq!(house.task(id).payload.get(), "1");
}

// B13: after some kills a server forgot what it knew. (Schedules: see there.)
#[test]
fn b13_no_task_and_no_key_disappears_however_often_the_engine_is_killed() {
    let house = House::with(SMALL, CALM, &[NOOP]);
    let mut dice = Dice::new(13);
    let mut known: Vec<(TaskId, String)> = Vec::new();
    for round in 0..asked("MIDWATCH_B13_ROUNDS", 12) {
        let engine = house.engine();
        let http = house.client();
        for (id, key) in &known {
            let again = midwatch::api::SubmitRequest {
                key: Some(key.clone()),
                ..super::house::request("noop", "1")
            };
            let again: Submitted = http.post("/v1/tasks", &again).unwrap();
            assert_eq!((again.id, again.existed), (*id, true), "in round {round}");
        }
        let pid = engine.pid();
        std::thread::scope(|scope| {
            let span = Duration::from_millis(dice.below(40) as u64);
            scope.spawn(move || {
                std::thread::sleep(span);
                kill(pid);
            });
            for n in 0.. {
                let key = format!("{round} {n}");
                let request = midwatch::api::SubmitRequest {
                    key: Some(key.clone()),
                    ..super::house::request("noop", "1")
                };
                match http.post::<_, Submitted>("/v1/tasks", &request) {
                    Ok(done) => known.push((done.id, key)),
                    Err(_) => break,
                }
            }
        });
        drop(engine);
        // The list to compare with grows by a bound a round.
        let len = known.len();
        known.drain(..len.saturating_sub(300));
    }
    assert!(!known.is_empty());
}

// B22: a downgrade met data that it did not know, after it had begun to write.
#[test]
fn b22_a_store_of_a_newer_format_is_refused_with_the_version_it_needs_and_not_a_byte_changes() {
    let house = House::new(CALM, &[NOOP]);
    let engine = house.engine();
    house.submit("noop", "1");
    engine.kill();
    let newest = bytes_of(&house.data("journal")).pop().unwrap().0;
    let mut bytes = fs::read(&newest).unwrap();
    // Written by version 3, to be read by 2 at least.
    bytes[8] = 3;
    bytes[10] = 2;
    let sum = crc32fast::hash(&bytes[..508]).to_le_bytes();
    bytes[508..512].copy_from_slice(&sum);
    fs::write(&newest, bytes).unwrap();
    let before = store_of(&house);
    for _ in 0..3 {
        let mut part: Part = house.spawn("refused", house.command(&["engine"]));
        assert_ne!(part.end().code(), Some(0));
        let log = part.log();
        assert!(log.contains("has format 3") && log.contains("reads format 2"), "{log}");
        assert!(store_of(&house) == before, "a byte changed");
    }
}

// W68: a sealed segment was cut under a process that was reading it.
#[test]
fn w68_a_segment_cut_while_it_is_read_is_damage_or_the_whole_and_never_a_shorter_history() {
    use midwatch::engine::{Rebuild, Rebuilding};
    use midwatch::journal::{RealDisk, replay};

    let small = "[journal]\nsegment_size = \"64KiB\"\nreserve = \"64KiB\"";
    let house = House::with(small, CALM, &[NOOP]);
    let engine = house.engine();
    let payload = format!("\"{}\"", "x".repeat(6_000));
    for _ in 0..20 {
        house.submit("noop", &payload);
    }
    engine.kill();
    let whole = store_of(&house);
    let (sealed, bytes) = bytes_of(&house.data("journal")).into_iter().next().unwrap();
    let disk = RealDisk::open(&house.path("data")).unwrap();
    let (mut refused, mut read) = (0, 0);
    for round in 0..asked("MIDWATCH_W68_ROUNDS", 150) {
        std::thread::scope(|scope| {
            let (sealed, bytes) = (&sealed, &bytes);
            scope.spawn(move || {
                std::thread::sleep(Duration::from_micros(round % 50 * 4));
                let file = fs::OpenOptions::new().write(true).open(sealed).unwrap();
                file.set_len(bytes.len() as u64 / 2).unwrap();
            });
            let mut rebuild = Rebuild::default();
            if replay(&disk, u64::MAX, &mut rebuild).is_err() {
                refused += 1;
            } else {
                read += 1;
                assert_eq!(rebuild.finish().tasks().count(), 20, "a shorter history");
            }
        });
        // Who comes later finds the damage.
        assert!(replay(&disk, u64::MAX, &mut Rebuild::default()).is_err());
        fs::write(&sealed, &bytes).unwrap();
    }
    println!("{refused} refused, {read} read whole");
    assert!(store_of(&house) == whole, "reading changed a byte");
}
