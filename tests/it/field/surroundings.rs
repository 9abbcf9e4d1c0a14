//! What surrounds a handler: its output, its environment, and what is left of it.

use super::house::{CALM, House, is_alive, request};
use midwatch::kernel::status::Status;
use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// A family whose grandchild leaves session, environment and parent: by nothing that it shows can
/// it be known.
const ESCAPE: &str = r#"
    first || exit 0
    (env -i setsid sh -c 'echo $$ >"$0/bare"; exec sleep 600' "$DIR" >/dev/null 2>&1 </dev/null 3>&- 9>&- &)
    sleep 600
"#;

// B63, the hardest of the kind: all of midwatch is killed as well, so nobody has adopted it.
#[test]
fn b63_what_shed_session_and_environment_is_swept_after_kill_9_of_everybody() {
    let Some(_) = crate::limits::groups("the sweep by control group") else { return };
    let house = House::new(CALM, &[("escape", ESCAPE, "")]);
    let daemon = house.daemon();
    let id = house.submit("escape", "null");
    let bare = house.until_file("bare").trim().parse().unwrap();
    house.kill_all(daemon);
    assert!(is_alive(bare), "nobody was there to end it");
    let daemon = house.daemon();
    house.until_status(id, Status::Success);
    assert!(!is_alive(bare), "{}", house.account());
    let named = format!("killed pid {bare} (sleep), left over");
    assert!(daemon.log().contains(&named), "{}", daemon.log());
    drop(daemon);
}

/// Resident bytes of a process.
fn resident(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

// B65: a runner stalled after some million lines, its child blocked on a pipe that nobody read.
// spec: HND-041
#[test]
fn b65_ten_floods_on_both_streams_neither_stall_nor_take_memory() {
    let lines: u64 = std::env::var("MIDWATCH_B65_LINES").map_or(150_000, |n| n.parse().unwrap());
    let flood =
        format!("yes 0123456789 | head -n {lines} & yes abcdefghij | head -n {lines} >&2; wait");
    let house = House::new(CALM, &[("flood", &flood, "log_max = \"1MiB\"")]);
    let daemon = house.daemon_with(&["--workers", "1", "--slots", "10"], 1);
    let worker = house.pids().1[0];
    let ids: Vec<_> = (0..10).map(|_| house.submit("flood", "null")).collect();
    let mut most = 0;
    let began = std::time::Instant::now();
    // A build without optimisation moves some thousand lines of each stream in a second.
    let limit = Duration::from_secs(60 + lines / 5_000);
    while house.status().is_none_or(|status| status.tasks["SUCCESS"] != 10) {
        assert!(began.elapsed() < limit, "{}", daemon.log());
        most = most.max(resident(worker));
        sleep(Duration::from_millis(20));
    }
    println!(
        "{} MiB of lines in {:?}, the worker held {} KiB at most",
        (lines * 2 * 11 * 10) >> 20,
        began.elapsed(),
        most >> 10
    );
    // Each attempt may have a buffer of 1 MiB full.
    assert!(most < 64 << 20, "{most}");
    for id in ids {
        let log = fs::read(house.data(&format!("logs/{id}/1.log"))).unwrap();
        assert!(log.len() <= (1 << 20) + 64, "{}", log.len());
        let text = String::from_utf8(log).unwrap();
        assert!(text.contains(" bytes dropped]\n"), "{id}");
    }
    drop(daemon);
}

// B66: one run wrote more than a gigabyte of log; what people want of it is its end.
// spec: HND-040 RET-013
#[test]
fn b66_an_endless_printer_runs_on_its_log_has_both_ends_and_all_logs_have_a_bound() {
    let print = r#"
        [ $MIDWATCH_ATTEMPT = 9 ] && { echo up >"$DIR/up"; until_there go; }
        echo begins; head -c 300000 /dev/zero; echo ends; exit 75
    "#;
    let lines = "log_max = \"64KiB\"\nretry = { base = \"1ms\", cap = \"1ms\", max_retry = 20 }";
    let house = House::with("[retention]\nlogs = \"200KiB\"", CALM, &[("printer", print, lines)]);
    let daemon = house.daemon();
    let id = house.submit("printer", "null");
    house.until_file("up");
    let file = |attempt: u32| house.data(&format!("logs/{id}/{attempt}.log"));
    let log = fs::read(file(8)).unwrap();
    assert!(log.len() <= 64 << 10, "{}", log.len());
    assert!(log.starts_with(b"begins\n\0") && log.ends_with(b"\0ends\n"));
    let text = String::from_utf8_lossy(&log);
    let dropped = text.split_once("\n[midwatch: ").unwrap().1.split_once(" bytes dropped]\n");
    let dropped: usize = dropped.unwrap().0.parse().unwrap();
    let marker = format!("\n[midwatch: {dropped} bytes dropped]\n");
    assert_eq!(log.len() - marker.len() + dropped, 300_000 + 12);
    // One task, which has not ended: of its nine logs the oldest go, and never the latest.
    house.kill_all(daemon);
    let engine = house.engine();
    house.until("the logs fit", |_| {
        let there = (1..=9).filter_map(|attempt| fs::metadata(file(attempt)).ok());
        (there.map(|facts| facts.len()).sum::<u64>() <= 200 << 10).then_some(())
    });
    assert!(!file(1).exists() && file(8).exists() && file(9).exists());
    drop(engine);
}

// B68: the log was cut, and then removed, under the one who followed it.
// spec: HND-043
#[test]
fn b68_who_follows_a_log_goes_on_when_it_is_cut_and_when_it_is_removed() {
    // Numbered lines, slowly enough that a cut never overtakes a follower by itself.
    let talk = r#"
        i=0
        say() { i=$((i+1)); printf 'line %06d %0200d\n' $i 0; }
        while [ $i -lt 300 ]; do say; [ $((i % 5)) -gt 0 ] || sleep 0.03; done
        echo up >"$DIR/up"; until_there go
        while [ $i -lt 400 ]; do say; done
    "#;
    let house = House::new(CALM, &[("talk", talk, "log_max = \"32KiB\"")]);
    let daemon = house.daemon();
    let id = house.submit("talk", "null");
    let mut follower =
        house.command(&["log", "-f", &id.to_string()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = follower.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        text
    });
    house.until_file("up");
    let log = house.data(&format!("logs/{id}/1.log"));
    house.until("it is written", |_| {
        fs::read_to_string(&log).ok().filter(|text| text.contains("line 000300"))
    });
    let kept = fs::read_to_string(&log).unwrap();
    assert!(kept.contains(" bytes dropped]\n"), "it was cut");
    fs::remove_file(&log).unwrap();
    house.touch("go");
    house.until_status(id, Status::Success);
    let text = reader.join().unwrap();
    assert!(follower.wait().unwrap().success());
    // Every line once and in order. On a starved host a cut may overtake the follower after all,
    // and then its line says so.
    let gaps = text.matches(" bytes dropped]").count();
    let numbers: Vec<u32> = text
        .lines()
        .filter_map(|line| line.strip_prefix("line ")?.get(..6)?.parse().ok())
        .collect();
    assert!(numbers.windows(2).all(|two| two[0] < two[1]), "{text}");
    assert!(numbers.len() == 400 || 0 < gaps, "{} lines, {gaps} gaps", numbers.len());
    assert_eq!((numbers.first(), numbers.last()), (Some(&1), Some(&400)));
    // What was made anew holds what came since.
    let anew = fs::read_to_string(&log).unwrap();
    assert!(anew.contains("line 000400") && !anew.contains("line 000300"), "{anew}");
    drop(daemon);
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

// B70, its second half: each failed retry leaked a handle.
#[test]
fn b70_thousands_of_failing_retries_leak_no_descriptor_in_worker_or_engine() {
    let rounds: u32 = std::env::var("MIDWATCH_B70_RETRIES").map_or(300, |n| n.parse().unwrap());
    let retry = format!("retry = {{ max_retry = {}, base = \"1ms\", cap = \"1ms\" }}", rounds / 10);
    let house =
        House::new(CALM, &[("fail", "exit 75", &retry), ("missing", "exec /no/such", &retry)]);
    let daemon = house.daemon_with(&["--workers", "1", "--slots", "4"], 1);
    let (engine, workers) = house.pids();
    let round = |count: u32| {
        let before = house.status().unwrap().tasks["DEAD"];
        for n in 0..count {
            house.submit(if n % 2 == 0 { "fail" } else { "missing" }, "null");
        }
        house.until("all are dead", |house| {
            (house.status()?.tasks["DEAD"] == before + u64::from(count)).then_some(())
        });
    };
    round(2);
    let before = (descriptors(engine), descriptors(workers[0]));
    round(10);
    house.until("no descriptor is left", |_| {
        let now = (descriptors(engine), descriptors(workers[0]));
        (now.0 <= before.0 + 4 && now.1 <= before.1 + 4).then_some(())
    });
    drop(daemon);
}

// B72: the daemon's environment, and its descriptors, bled into what it ran.
// spec: HND-003 HND-004
#[test]
fn b72_a_secret_of_the_daemon_and_its_descriptors_do_not_reach_a_handler() {
    let show = r#"
        env
        exec ls -l /proc/self/fd
    "#;
    let house = House::new(CALM, &[("show", show, "")]);
    let mut command = house.command(&["daemon", "--workers", "1", "--slots", "1"]);
    command.env("SECRET", "hunter2").env("AWS_SESSION_TOKEN", "hunter3");
    let daemon = house.spawn("daemon", command);
    house.until_served();
    let id = house.submit("show", "null");
    house.until_status(id, Status::Success);
    let log = house.say(&["log", &id.to_string()]);
    assert!(log.contains("MIDWATCH_TASK_ID=") && !log.contains("hunter"), "{log}");
    let open: Vec<(&str, &str)> = log
        .lines()
        .filter_map(|line| line.split_once(" -> "))
        .map(|(before, what)| (before.rsplit(' ').next().unwrap(), what))
        .collect();
    // Descriptor 9 is the lock of the test itself, and the last one the list that is printed.
    let foreign: Vec<_> = open
        .iter()
        .filter(|(number, what)| {
            !["0", "1", "2", "3", "9"].contains(number) && !what.ends_with("/fd")
        })
        .collect();
    assert!(foreign.is_empty() && 4 <= open.len(), "{foreign:?}\n{log}");
    drop(daemon);
}

// B73: the whole environment of the one who submitted was kept with each task.
#[test]
fn b73_nothing_of_a_submitters_environment_is_kept() {
    let house = House::new(CALM, &[("noop", "exit 0", "")]);
    let engine = house.engine();
    let bytes = || house.status().unwrap().state_bytes;
    let marker = "a-secret-of-the-submitter";
    for n in 0..20 {
        let mut command = house.command(&["submit", "noop", "null", "--delay", "1h"]);
        command.env("LARGE", marker.repeat(330)).env(format!("N{n}"), marker);
        assert!(command.output().unwrap().status.success());
    }
    let by_command = bytes();
    let client = house.client();
    for _ in 0..20 {
        let mut plain = request("noop", "null");
        plain.delay = Some("1h".to_owned());
        let _: midwatch::api::Submitted = client.post("/v1/tasks", &plain).unwrap();
    }
    assert!(by_command < 20 * 400 && by_command <= 2 * (bytes() - by_command), "{by_command}");
    let dump = |house: &House| super::house::bytes_of(&house.data("journal"));
    let holds = |bytes: &[u8]| bytes.windows(marker.len()).any(|piece| piece == marker.as_bytes());
    assert!(dump(&house).iter().all(|(_, bytes)| !holds(bytes)));
    drop(engine);
}
