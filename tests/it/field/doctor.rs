//! `midwatch doctor` on hosts and setups that are sound, and on those that are not.

use super::house::{CALM, House, signal};
use super::namespace;
use super::reload::{config, put};
use crate::inject::can_inject;
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

/// The findings, and the exit code.
fn examine(house: &House) -> (i32, Vec<Value>) {
    let output = house.run(&["doctor", "--json"]);
    read(&output)
}

fn read(output: &Output) -> (i32, Vec<Value>) {
    let text = String::from_utf8_lossy(&output.stdout);
    let told: Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), told["findings"].as_array().unwrap().clone())
}

/// The one finding of this part and level whose words contain `what`.
#[track_caller]
fn find<'f>(findings: &'f [Value], group: &str, level: &str, what: &str) -> &'f Value {
    let fits = |it: &&Value| {
        it["group"] == group && it["level"] == level && it["what"].as_str().unwrap().contains(what)
    };
    findings.iter().find(fits).unwrap_or_else(|| panic!("no {level} {what}: {findings:#?}"))
}

fn problems(findings: &[Value]) -> Vec<&Value> {
    findings.iter().filter(|finding| finding["level"] == "problem").collect()
}

// spec: DOC-001
// spec: DOC-002
#[test]
fn a_sound_setup_needs_nothing_and_is_left_as_it_was() {
    let house = House::new(CALM, &[("job", "exit 0", "")]);
    // Before anything ever ran.
    let (code, findings) = examine(&house);
    assert_eq!((code, problems(&findings)), (0, vec![]));
    find(&findings, "daemon", "note", "never run here");
    assert!(!house.path("data").exists(), "nothing was made");
    let daemon = house.daemon();
    house.until_status(house.submit("job", "1"), Status::Success);
    let (code, findings) = examine(&house);
    assert_eq!((code, problems(&findings)), (0, vec![]));
    find(&findings, "daemon", "ok", "1 worker alive");
    find(&findings, "handlers", "ok", "can be started");
    let left: Vec<_> = fs::read_dir(house.data("run")).unwrap().flatten().collect();
    let probes = left.iter().filter(|it| it.file_name().to_string_lossy().contains("doctor"));
    assert_eq!(probes.count(), 0);
    let text = String::from_utf8(house.run(&["doctor"]).stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // A daemon that ran before and does not now is worth a word; its journal is read as it is.
    house.kill_all(daemon);
    let (code, findings) = examine(&house);
    assert_eq!(code, 1);
    let stopped = find(&findings, "daemon", "problem", "the daemon is not reachable");
    assert!(stopped["commands"].to_string().contains("midwatch daemon"));
    find(&findings, "journal", "ok", "records in");
}

// spec: DOC-004
#[test]
fn a_disk_that_hangs_is_told_and_not_waited_for() {
    if !can_inject() {
        return;
    }
    let house = House::new(CALM, &[("job", "exit 0", "")]);
    let mut engine = house.engine();
    engine.terminate();
    // Its first sync takes half an hour.
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=fdatasync", "-o"]).arg(house.path("trace"));
    command.args(["-e", "inject=fdatasync:delay_enter=1800000000"]);
    let program = house.command(&["doctor", "--json"]);
    command.arg(program.get_program()).args(program.get_args());
    // Not to its end: strace does not let go of who waits.
    let mut strace = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    BufReader::new(strace.stdout.take().unwrap()).read_line(&mut told).unwrap();
    strace.kill().unwrap();
    strace.wait().unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["level"], "problem");
    let findings = told["findings"].as_array().unwrap();
    let what = "the disk did not answer within 10 s";
    let hung = find(findings, "environment", "problem", what);
    let place = house.path("data").display().to_string();
    assert!(hung["what"].as_str().unwrap().starts_with(&place), "{hung}");
    find(findings, "environment", "ok", "pidfd");
    find(findings, "journal", "note", "not looked at");
    let left = fs::read_dir(house.data("run")).unwrap().flatten();
    let probes = left.filter(|it| it.file_name().to_string_lossy().contains("doctor"));
    assert_eq!(probes.count(), 0);
}

// spec: DOC-003
#[test]
fn what_is_wrong_with_the_setup_is_named_with_its_remedy() {
    let lines = "cwd = \"/no/such/dir\"";
    let house = House::new(CALM, &[("job", "exit 0", lines), ("good", "exit 0", "")]);
    let _daemon = house.daemon();
    let more = "[handlers.lost]\ncommand = [\"/no/such/program\"]\n";
    put(&house.path("midwatch.toml"), &(config(&house) + more));
    fs::set_permissions(house.path("data"), fs::Permissions::from_mode(0o770)).unwrap();
    let (code, findings) = examine(&house);
    assert_eq!(code, 1);
    find(&findings, "handlers", "problem", "job: its directory /no/such/dir");
    find(&findings, "handlers", "problem", "lost: its command /no/such/program");
    let open = find(&findings, "permissions", "problem", "can be written by others");
    assert!(open["commands"].to_string().contains("chmod 700"));
    let text = String::from_utf8(house.run(&["doctor"]).stdout).unwrap();
    assert!(text.contains("problems"), "{text}");
    // A user that is not there, and a config that is none.
    let user = "[handlers.other]\ncommand = [\"/bin/true\"]\nuser = \"nobody-at-all\"\n";
    put(&house.path("midwatch.toml"), &(config(&house) + user));
    let (code, findings) = examine(&house);
    assert_eq!(code, 1);
    assert!(problems(&findings).iter().any(|it| it.to_string().contains("other")));
    put(&house.path("midwatch.toml"), &(config(&house) + "[handlers.another]\ntimeuot = 1\n"));
    // The daemon goes on with the one it has, and is asked all the same.
    let refused = house.until("the daemon has refused it too", |house| {
        let (code, findings) = examine(house);
        assert_eq!(code, 1);
        assert!(problems(&findings).iter().any(|it| it["group"] == "input"));
        let daemon = findings.into_iter().filter(|it| it["group"] == "daemon");
        let told: Vec<_> = daemon.map(|it| it["what"].as_str().unwrap().to_owned()).collect();
        told.into_iter().find(|what| what.contains("the config was refused"))
    });
    assert!(refused.contains("timeuot"), "{refused}");
}

/// Runs the ignored test below where it may mount something.
#[test]
fn a_full_disk_is_a_problem() {
    namespace::run("field::doctor::in_a_namespace_of_its_own");
}

#[test]
#[ignore = "the test above runs it, in a user namespace"]
fn in_a_namespace_of_its_own() {
    let house = House::new(CALM, &[("job", "exit 0", "")]);
    fs::create_dir(house.path("data")).unwrap();
    namespace::mount("size=1m,mode=700", &house.path("data"));
    let (code, findings) = examine(&house);
    assert_eq!(code, 1);
    let full = find(&findings, "environment", "problem", "free for");
    assert!(full["commands"].to_string().contains("df -h"));
    find(&findings, "environment", "warning", "lies in memory");
}

/// The verdict on a task.
fn of(house: &House, id: TaskId) -> (i32, Value) {
    let output = house.run(&["doctor", &id.to_string(), "--json"]);
    let told = serde_json::from_slice(&output.stdout);
    (output.status.code().unwrap(), told.unwrap_or_else(|_| panic!("{output:?}")))
}

// spec: DOC-010
#[test]
fn a_task_that_seems_stuck_is_told_what_holds_it_up() {
    let handlers = [
        ("waits", "echo working; sleep 1000 & until_there go", ""),
        ("one", "exit 0", "max_running = 1"),
    ];
    let house = House::new(CALM, &handlers);
    let _daemon = house.daemon();
    let running = house.submit("waits", "{\"n\":1}");
    let start = house.until_start(running, 1);
    let (code, told) = house.until("its processes are known", |house| {
        let (code, told) = of(house, running);
        (told["processes"].as_array().is_some_and(|all| 2 <= all.len())).then_some((code, told))
    });
    assert_eq!((code, &told["level"]), (0, &"ok".into()), "{told}");
    assert_eq!(told["processes"][0]["pid"], start.pid);
    assert!(told["processes"].to_string().contains("sleep 1000"), "{told}");
    house.until("its log is there", |house| {
        of(house, running).1["log_tail"].to_string().contains("working").then_some(())
    });
    // Stopped by a signal.
    signal(start.pid, Signal::STOP);
    let (code, told) = house.until("it is seen to be stopped", |house| {
        let (code, told) = of(house, running);
        (told["level"] == "problem").then_some((code, told))
    });
    assert_eq!(code, 1);
    let commands = told["commands"].to_string();
    assert!(commands.contains(&format!("kill -CONT {}", start.pid)), "{told}");
    let text = String::from_utf8(house.run(&["doctor", &running.to_string()]).stdout).unwrap();
    assert!(text.contains("is stopped, by a signal") && text.contains("sleep 1000"), "{text}");
    signal(start.pid, Signal::CONT);
    // A paused type, a missing handler, a task before it.
    house.say(&["type", "pause", "one", "--reason", "test"]);
    let paused = house.submit("one", "1");
    assert!(of(&house, paused).1["what"].as_str().unwrap().contains("is paused by"));
    let after = house.say(&["submit", "one", "1", "--after", &running.to_string()]);
    let after = TaskId(after.parse().unwrap());
    let (_, told) = of(&house, after);
    assert_eq!(told["commands"][0], format!("midwatch doctor {running}"));
    let later = house.say(&["submit", "one", "1", "--delay", "1h"]);
    let (_, told) = of(&house, TaskId(later.parse().unwrap()));
    assert!(told["what"].as_str().unwrap().contains("its time has not come"), "{told}");
    house.say(&["type", "resume", "one"]);
    let done = house.until_status(paused, Status::Success);
    assert!(of(&house, done.id).1["what"].as_str().unwrap().contains("it has ended (SUCCESS)"));
    assert_eq!(house.run(&["doctor", "999999"]).status.code(), Some(3));
}
