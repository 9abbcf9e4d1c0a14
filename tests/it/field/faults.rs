//! A disk that fails under the real program: system calls are made to fail by strace. Without
//! strace, or where it may trace nobody, these tests are skipped, loudly.

use super::house::{CALM, House, Part, bytes_of, kill, request};
use crate::inject::can_inject;
use midwatch::api::{Submitted, TaskList};
use midwatch::client::{Blocking, ClientError};
use midwatch::kernel::ids::TaskId;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

const CALLERS: usize = 8;

/// Has `fault` come over every sync of a running engine from now on.
fn inject(house: &House, engine: &Part, fault: &str) -> Part {
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=fdatasync,fsync,sync_file_range,msync", "-e"]);
    command.arg(format!("inject=fdatasync,fsync:{fault}"));
    command.arg("-o").arg(house.path("trace")).arg("-p").arg(engine.pid().to_string());
    let strace = house.spawn("strace", command);
    house.until("strace has attached", |_| strace.log().contains("attached").then_some(()));
    strace
}

fn submit(http: &Blocking, key: &str) -> Result<Submitted, ClientError> {
    let request =
        midwatch::api::SubmitRequest { key: Some(key.to_owned()), ..request("noop", "1") };
    http.post("/v1/tasks", &request)
}

// W40.
// W36, W39: the result of the sync was not looked at; or everybody slept for ever.
// W37, F8: a second sync would succeed, though the pages are gone.
#[test]
fn a_failed_sync_is_acknowledged_to_nobody_never_repeated_and_ends_the_process() {
    if !can_inject() {
        return;
    }
    // The second fault comes once for each thread: what syncs again would get a success.
    for fault in ["error=EIO", "error=EIO:when=1", "error=ENOSPC:when=1"] {
        let house = House::new(CALM, &[("noop", "exit 0", "")]);
        let mut engine = house.engine();
        let before = submit(&house.client(), "before").unwrap();
        let _strace = inject(&house, &engine, fault);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let call = |n: usize| submit(&house.client(), &format!("caller {n}"));
            let callers: Vec<_> = (0..CALLERS).map(|n| scope.spawn(move || call(n))).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        let lied: Vec<_> = answers.iter().filter(|answer| answer.is_ok()).collect();
        assert!(lied.is_empty(), "{fault}: acknowledged, and not durable: {lied:?}");
        let exits: Vec<u8> =
            answers.iter().map(|answer| answer.as_ref().unwrap_err().exit()).collect();
        assert!(exits.contains(&8), "{fault}: somebody waited for the sync: {exits:?}");
        assert!(exits.iter().all(|exit| [5, 8].contains(exit)), "{fault}: {exits:?}");
        let status = engine.end();
        assert_eq!(status.code(), Some(1), "{fault}: {}", engine.log());
        assert!(engine.log().contains("[MW-J009]"), "{}", engine.log());
        let trace = fs::read_to_string(house.path("trace")).unwrap();
        let syncs = trace.lines().filter(|line| line.contains("sync(")).count();
        assert_eq!(syncs, 1, "{fault}: there is no next sync:\n{trace}");
        check_after_the_fault(&house, before.id);
    }
}

/// What was told is there; what was not is there once, or not at all, and its key settles it.
fn check_after_the_fault(house: &House, told: TaskId) {
    let _engine = house.engine();
    let http = house.client();
    let known: TaskList = http.get("/v1/tasks").unwrap();
    assert!(known.tasks.iter().any(|task| task.id == told));
    for n in 0..CALLERS {
        let key = format!("caller {n}");
        let before: Vec<_> =
            known.tasks.iter().filter(|task| task.key.as_deref() == Some(&key)).collect();
        let again = submit(&http, &key).unwrap();
        match before.as_slice() {
            [] => assert!(!again.existed),
            [task] => assert_eq!((task.id, true), (again.id, again.existed)),
            more => panic!("{key} is there {} times", more.len()),
        }
    }
}

// W36 under the supervisor: it goes on with an engine that has read the disk anew.
#[test]
fn after_a_failed_sync_the_supervisor_starts_an_engine_that_reads_the_disk_anew() {
    if !can_inject() {
        return;
    }
    let house = House::new(CALM, &[("noop", "exit 0", "")]);
    let daemon = house.daemon_with(&["--workers", "0"], 0);
    let engine = house.status().unwrap().pid;
    let before = submit(&house.client(), "before").unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"]);
    command.arg("-o").arg(house.path("trace")).arg("-p").arg(engine.to_string());
    let strace = house.spawn("strace", command);
    house.until("strace has attached", |_| strace.log().contains("attached").then_some(()));
    assert_eq!(submit(&house.client(), "during").unwrap_err().exit(), 8);
    house.until("another engine serves", |house| (house.status()?.pid != engine).then_some(()));
    assert!(submit(&house.client(), "before").is_ok_and(|it| it.existed && it.id == before.id));
    submit(&house.client(), "during").unwrap();
    drop(daemon);
}

// spec: SUP-030
// The engine's thread waits for a sync: what asks for the health waited with it.
#[test]
fn a_status_is_answered_while_a_sync_hangs_and_says_so() {
    if !can_inject() {
        return;
    }
    let house = House::new(CALM, &[("noop", "exit 0", "")]);
    let engine = house.engine();
    submit(&house.client(), "before").unwrap();
    let before = house.status().unwrap();
    assert_eq!((before.stalled_ms, before.tasks["PENDING"]), (None, 1));
    let mine = before.processes.iter().find(|it| it.pid == engine.pid()).expect("it knows itself");
    assert!(mine.role == "engine" && 1 << 20 < mine.memory && mine.growing.is_empty());
    // Longer than the patience of a status, shorter than that of the one who submits.
    let _strace = inject(&house, &engine, "delay_enter=20000000:when=1");
    std::thread::scope(|scope| {
        let hung = scope.spawn(|| submit(&house.client(), "during"));
        let status = house.until("a status tells of the store", |house| {
            house.status().filter(|status| status.stalled_ms.is_some())
        });
        assert_eq!((status.health.as_str(), status.tasks["PENDING"]), ("CRITICAL", 1));
        assert!(status.attention[0].critical);
        let what = &status.attention[0].what;
        assert!(what.starts_with("the store has not answered for "), "{what}");
        assert!(!hung.is_finished(), "and nothing was acknowledged before it was durable");
        assert!(hung.join().unwrap().is_ok());
    });
    let after = house.status().unwrap();
    assert_eq!((after.stalled_ms, after.tasks["PENDING"]), (None, 2));
}

/// What a request is answered: the status, and the body.
fn ask(house: &House, path: &str) -> (String, String) {
    let mut stream = UnixStream::connect(house.data("midwatch.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].to_owned(), body.to_owned())
}

// Only the status was answered; whoever looked at anything else, Prometheus among them, waited for
// as long as the disk did.
#[test]
fn whoever_looks_while_a_sync_hangs_is_answered_and_not_left_to_wait() {
    if !can_inject() {
        return;
    }
    let house = House::new(CALM, &[("noop", "exit 0", "")]);
    let mut engine = house.engine();
    let id = submit(&house.client(), "before").unwrap().id;
    let (status, metrics) = ask(&house, "/metrics");
    assert!(status == "200" && metrics.contains("midwatch_stalled_seconds 0"), "{metrics}");
    // Half an hour: only the kill ends it.
    let strace = inject(&house, &engine, "delay_enter=1800000000");
    std::thread::scope(|scope| {
        let hung = scope.spawn(|| submit(&house.client(), "during"));
        house.until("a status tells of the store", |house| {
            house.status().filter(|status| status.stalled_ms.is_some())
        });
        for path in [
            "/v1/alerts".to_owned(),
            "/v1/stats".to_owned(),
            "/v1/tasks".to_owned(),
            "/v1/types".to_owned(),
            "/v1/schedules".to_owned(),
            "/v1/workers".to_owned(),
            format!("/v1/tasks/{id}"),
            format!("/v1/tasks/{id}/history"),
        ] {
            let (status, body) = ask(&house, &path);
            assert_eq!(status, "503", "{path}: {body}");
            assert!(body.contains("\"busy\"") && body.contains("the store has not answered"));
        }
        let (status, metrics) = ask(&house, "/metrics");
        assert_eq!(status, "200", "{metrics}");
        let value = |name: &str| {
            let mut lines = metrics.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok())
        };
        assert!(
            value("midwatch_stalled_seconds").is_some_and(|stalled| 5.0 <= stalled),
            "{metrics}"
        );
        assert!(value("midwatch_uptime_seconds").is_some(), "{metrics}");
        assert!(metrics.contains("midwatch_process_memory_bytes{"), "{metrics}");
        for name in ["midwatch_backlog", "midwatch_account_ok", "midwatch_disk_free_bytes"] {
            assert_eq!(value(name), None, "it may be of long ago: {metrics}");
        }
        assert!(!hung.is_finished());
        kill(engine.pid());
        strace.kill();
        assert!(hung.join().unwrap().is_err());
    });
    engine.end();
}

// W41: apply and answer ran beside the sync; a crash in between lost what had been seen.
#[test]
fn nothing_is_seen_of_a_record_that_is_written_and_not_yet_synced() {
    if !can_inject() {
        return;
    }
    let house = House::new(CALM, &[("noop", "exit 0", "")]);
    let mut engine = house.engine();
    let mut watch = house.spawn("watch", house.command(&["watch", "--json"]));
    let mut count = 0;
    house.until("the watcher sees what happens", |house| {
        count += 1;
        submit(&house.client(), &format!("before {count}")).unwrap();
        watch.log().contains("\"event\"").then_some(())
    });
    let last = submit(&house.client(), "last").unwrap().id;
    let told = format!("\"task\":{last}");
    house.until("the watcher saw the last one", |_| watch.log().contains(&told).then_some(()));
    let seen = watch.log();
    // Half an hour: only the kill ends it.
    let strace = inject(&house, &engine, "delay_enter=1800000000");
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| submit(&house.client(), "held back by the sync"));
        house.until("its frame is in the file", |house| {
            let journal = bytes_of(&house.data("journal"));
            let text = b"held back by the sync";
            let has = |bytes: &[u8]| bytes.windows(text.len()).any(|piece| piece == text);
            journal.iter().any(|(_, bytes)| has(bytes)).then_some(())
        });
        assert!(!asked.is_finished(), "answered before the sync");
        let impatient = Blocking::connect(house.data("midwatch.sock")).unwrap();
        let impatient = impatient.answering_within(Duration::from_millis(700));
        for path in ["/v1/tasks", "/v1/status"] {
            let seen: Result<serde_json::Value, _> = impatient.get(path);
            assert!(seen.is_err(), "{path} shows what is not durable: {seen:?}");
        }
        assert!(!asked.is_finished(), "answered before the sync");
        kill(engine.pid());
        // Who is traced has not ended before its tracer lets go.
        strace.kill();
        asked.join().unwrap()
    });
    assert_eq!(answer.unwrap_err().exit(), 8);
    engine.end();
    watch.end();
    let events = |log: &str| log.matches("\"event\"").count();
    assert_eq!(events(&watch.log()), events(&seen), "a watcher saw it: {}", watch.log());
    let _engine = house.engine();
    assert!(submit(&house.client(), "last").unwrap().existed);
    submit(&house.client(), "held back by the sync").unwrap();
}

/// Starts an engine below strace, which injects into all its threads from its first call on.
fn engine_under(house: &House, arguments: &[&str]) -> Part {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(house.path("trace")).args(arguments);
    let program = house.command(&["engine"]);
    command.arg(program.get_program()).args(program.get_args());
    let part = house.spawn("engine", command);
    house.until_served();
    part
}

/// Small files, and snapshots all the time.
const SMALL: &str =
    "[journal]\nsegment_size = \"64KiB\"\nsnapshot_after = \"64KiB\"\nreserve = \"64KiB\"";

// W65: a call that returns its error was asked for it in errno, where an older one lay.
#[test]
fn w65_a_file_system_that_cannot_or_will_not_reserve_blocks_will_do() {
    if !can_inject() {
        return;
    }
    for errno in ["EOPNOTSUPP", "ENOSPC"] {
        let house = House::with(SMALL, CALM, &[("noop", "exit 0", "")]);
        let inject = format!("inject=fallocate:error={errno}");
        let strace = engine_under(&house, &["-e", "trace=fallocate", "-e", &inject]);
        let http = house.client();
        let payload = format!("\"{}\"", "x".repeat(9_000));
        let request = |key: usize| midwatch::api::SubmitRequest {
            key: Some(key.to_string()),
            ..request("noop", &payload)
        };
        let mut told = Vec::new();
        for key in 0..20 {
            match http.post::<_, Submitted>("/v1/tasks", &request(key)) {
                Ok(done) => told.push(done.id),
                // Without its reserve the engine takes no new work: that is what "full" means.
                Err(error) => assert_eq!((errno, error.exit()), ("ENOSPC", 7)),
            }
        }
        if errno == "EOPNOTSUPP" {
            assert_eq!(told.len(), 20);
            assert!(3 <= bytes_of(&house.data("journal")).len(), "it rotated");
        }
        kill(house.status().unwrap().pid);
        drop(strace);
        let _engine = house.engine();
        for id in told {
            house.task(id);
        }
    }
}

// B15: state files were written and renamed without a sync, and were empty after a power cut.
#[test]
fn b15_no_file_gets_its_name_before_it_is_synced_nor_is_named_before_its_directory_is() {
    if !can_inject() {
        return;
    }
    let house = House::with(SMALL, CALM, &[("noop", "exit 0", "")]);
    let calls = "trace=renameat,renameat2,rename,fsync,fdatasync,pwrite64";
    let strace = engine_under(&house, &["-e", calls]);
    let payload = format!("\"{}\"", "x".repeat(9_000));
    for _ in 0..30 {
        house.submit("noop", &payload);
    }
    house.until("a snapshot has its name", |house| {
        let names = bytes_of(&house.data("snapshots"));
        names
            .iter()
            .any(|(path, _)| path.extension().is_some_and(|it| it == "snapshot"))
            .then_some(())
    });
    kill(house.status().unwrap().pid);
    drop(strace);
    let trace = fs::read_to_string(house.path("trace")).unwrap();
    let mut last: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for line in trace.lines() {
        let (thread, call) = line.split_once(' ').unwrap();
        let name = call.trim().split('(').next().unwrap();
        if name.chars().all(|c| c.is_ascii_alphanumeric()) {
            last.entry(thread).or_default().push(name);
        }
    }
    let mut renames = 0;
    for calls in last.values() {
        for (at, call) in calls.iter().enumerate() {
            if !call.starts_with("rename") {
                continue;
            }
            renames += 1;
            assert_eq!(calls[at - 1], "fdatasync", "before the name: {calls:?}");
            // The file of the floor and that of the store share a directory with what comes next.
            let next = calls.get(at + 1);
            assert!(next.is_none_or(|next| *next == "fsync"), "after the name: {calls:?}");
        }
    }
    assert!(6 <= renames, "store, floor, reserve, segments, a snapshot: {renames}\n{trace}");
}
