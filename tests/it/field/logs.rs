//! The daemon's own log: what it tells, and that it never stands in the way.

use super::house::{CALM, House};
use super::namespace;
use super::reload::{config, put};
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

/// The lines of all files below a directory whose names fit, oldest file first.
fn lines(dir: &Path, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.retain(|name| fits(name));
    names.sort();
    let texts = names.iter().rev().map(|name| fs::read_to_string(dir.join(name)).unwrap());
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The lines of the engine's log about tasks, each parsed.
fn about_tasks(dir: &Path) -> Vec<Value> {
    let all = lines(dir, |name| name.starts_with("engine"));
    let parsed = all.iter().map(|line| serde_json::from_str::<Value>(line).expect(line));
    parsed.filter(|line| line.get("task").is_some()).collect()
}

fn events(lines: &[Value], task: TaskId) -> Vec<&str> {
    let own = lines.iter().filter(|line| line["task"] == task.0);
    own.map(|line| line["event"].as_str().unwrap()).collect()
}

// spec: LOG-010
// spec: LOG-011
#[test]
fn each_step_of_a_task_is_told_once_with_its_fields_and_every_line_is_json() {
    let fails = "first && { midwatch_says() { :; }; echo no >&2; exit 75; }; exit 0";
    let handlers = [
        (
            "good",
            "echo '{\"op\":\"checkpoint\",\"data\":{\"at\":1}}' >&3; read -r x <&3; exit 0",
            "",
        ),
        ("again", fails, ""),
        ("never", "exit 65", ""),
    ];
    let house = House::with("[log]\nformat = \"json\"\nlevel = \"debug\"\n", CALM, &handlers);
    let mut daemon = house.daemon();
    let good = house.submit("good", "{\"source\":\"orders\",\"password\":\"hunter2\"}");
    let (again, never) = (house.submit("again", "1"), house.submit("never", "2"));
    house.until_status(good, Status::Success);
    house.until_status(again, Status::Success);
    house.until_status(never, Status::Failed);
    assert!(daemon.terminate().success());
    let log = house.data("log");
    for line in lines(&log, |_| true).iter().chain(&lines_of(&daemon.log())) {
        let line: Value = serde_json::from_str(line).expect(line);
        for field in ["time", "level", "process", "pid", "message"] {
            assert!(line.get(field).is_some(), "{field} in {line}");
        }
        assert!(!line.to_string().contains("hunter2"), "a secret is told: {line}");
    }
    let told = about_tasks(&log);
    let told_of = |task, event: &str| {
        let found: Vec<_> =
            told.iter().filter(|line| line["task"] == task && line["event"] == event).collect();
        assert_eq!(found.len(), 1, "{event} of {task}: {found:?}");
        found[0].clone()
    };
    let begin = told_of(good.0, "begin");
    assert_eq!(begin["input"], "{\"source\":\"orders\",\"password\":\"***\"}");
    assert_eq!((&begin["type"], &begin["attempt"]), (&"good".into(), &1.into()));
    assert_eq!((&begin["executor"], &begin["level"]), (&"w1".into(), &"info".into()));
    assert!(begin["wait_ms"].is_u64());
    let end = told_of(good.0, "end");
    assert_eq!((&end["outcome"], &end["status"]), (&"success".into(), &"SUCCESS".into()));
    assert!(end["run_ms"].is_u64() && end["wait_ms"].is_u64());
    assert_eq!(end["input_digest"].as_str().map(str::len), Some(32));
    assert_eq!(told_of(good.0, "checkpoint")["data"], "{\"at\":1}");
    let retry = told_of(again.0, "retry");
    assert_eq!(retry["retry"], 1);
    assert!(retry["next_ms"].is_u64());
    let error = told_of(again.0, "error");
    assert_eq!((&error["exit_code"], &error["level"]), (&75.into(), &"warn".into()));
    let error = told_of(never.0, "error");
    assert_eq!((&error["exit_code"], &error["level"]), (&65.into(), &"error".into()));
    assert_eq!(events(&told, again).iter().filter(|event| **event == "begin").count(), 2);
    let seqs: Vec<_> = told.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs.iter().collect::<BTreeSet<_>>().len(), seqs.len(), "no step is told twice");
    for line in lines(&log, |name| !name.contains("debug")) {
        assert!(!line.contains("\"level\":\"debug\""), "debug has files of its own: {line}");
    }
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

// spec: LOG-020
#[test]
fn place_form_and_rotation_change_while_tasks_run_and_no_line_is_lost() {
    let house = House::with("[log]\nformat = \"json\"\n", CALM, &[("noop", "exit 0", "")]);
    let mut daemon = house.daemon();
    let before = config(&house);
    let other = house.path("elsewhere");
    let changes = [
        format!("dir = \"{}\"", other.display()),
        "format = \"json\"\nrotate = \"daily\"\nmax_size = \"64KiB\"\nkeep = 1000".to_owned(),
        "level = \"debug\"\nformat = \"json\"".to_owned(),
        format!("format = \"json\"\ndir = \"{}\"", other.display()),
    ];
    let mut tasks = Vec::new();
    let engine = |name: &str| name.starts_with("engine");
    for (number, change) in (1..).zip(changes) {
        tasks.extend((0..20).map(|_| house.submit("noop", "1")));
        let table = "[log]\n".to_owned() + &change;
        put(&house.path("midwatch.toml"), &before.replace("[log]\nformat = \"json\"", &table));
        house.until("the change is told of", |house| {
            let dirs = [house.data("log"), other.clone()];
            let all = dirs.iter().flat_map(|dir| lines(dir, engine));
            let taken = all.filter(|line| line.contains("the config was taken up")).count();
            (number <= taken).then_some(())
        });
        tasks.extend((0..20).map(|_| house.submit("noop", "1")));
    }
    for task in &tasks {
        house.until_status(*task, Status::Success);
    }
    assert!(daemon.terminate().success());
    let (here, there) = (lines(&house.data("log"), engine), lines(&other, engine));
    assert!(!here.is_empty() && !there.is_empty());
    let both: Vec<_> = here.iter().chain(&there).collect();
    for task in &tasks {
        let began = both
            .iter()
            .filter(|line| line.contains(&format!("task {task} begins")) && line.contains("begin"));
        assert_eq!(began.count(), 1, "task {task}");
    }
}

// spec: LOG-004
#[test]
fn a_stderr_that_nobody_reads_holds_nothing_up() {
    let house = House::with("[log]\nlevel = \"debug\"\n", CALM, &[("noop", "exit 0", "")]);
    let mut command = house.command(&["daemon", "--workers", "1", "--slots", "2"]);
    let mut daemon = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    house.until_served();
    let tasks: Vec<_> = (0..200).map(|_| house.submit("noop", "1")).collect();
    for task in &tasks {
        house.until_status(*task, Status::Success);
    }
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
    let mut read = String::new();
    daemon.stderr.take().unwrap().read_to_string(&mut read).unwrap();
    assert!(read.len() <= 70_000, "the pipe was full: {}", read.len());
    let told = lines(&house.data("log"), |name| name.starts_with("engine"));
    let ends = told.iter().filter(|line| line.contains("event=end"));
    assert_eq!(ends.count(), tasks.len(), "and the files have it all");
}

/// Runs the ignored test below where it may mount something.
// spec: LOG-003
#[test]
fn b21_a_full_disk_of_the_log_alone_stops_nothing_and_is_told_twice() {
    namespace::run("field::logs::in_a_namespace_of_its_own");
}

#[test]
#[ignore = "the test above runs it, in a user namespace"]
fn in_a_namespace_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    namespace::mount("size=256k,mode=700", dir.path());
    let log = format!("[log]\ndir = \"{}\"\nmax_size = \"64KiB\"\n", dir.path().display());
    let house = House::with(&log, CALM, &[("noop", "exit 0", "")]);
    let daemon = house.daemon();
    let fill = dir.path().join("fill");
    let full = fs::write(&fill, vec![b'x'; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let file = dir.path().join("engine.log");
    // What is left of the file's last page is filled too.
    let mut count = 0;
    house.until("the log finds no room", |house| {
        count += 1;
        house.until_status(house.submit("noop", "1"), Status::Success);
        daemon.log().contains("cannot be written: ").then_some(())
    });
    for _ in 0..30 {
        house.until_status(house.submit("noop", "1"), Status::Success);
    }
    let told = daemon.log().matches("cannot be written: ").count();
    assert!(told <= 3, "once by each process at most: {}", daemon.log());
    fs::remove_file(&fill).unwrap();
    house.until("it is written again", |house| {
        house.until_status(house.submit("noop", "1"), Status::Success);
        let text = String::from_utf8(fs::read(&file).unwrap()).expect("whole lines");
        text.contains("could not be written: ").then_some(())
    });
    let text = fs::read_to_string(&file).unwrap();
    let whole = |line: &str| line.starts_with("20") && line.is_ascii();
    let cut = text.lines().filter(|line| !whole(line)).count();
    assert_eq!(cut, 0, "no line begins within another one: {text}");
    assert!(30 < count + 30);
}
