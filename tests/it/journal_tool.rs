//! The journal tool as people run it: the real binary on stores made by the engine.

use super::journal_store::{Bench, edit};
use expect_test::{Expect, expect};
use midwatch::kernel::ids::Millis;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the tool; exit code, stdout, stderr.
fn tool(arguments: &[&str]) -> (i32, String, String) {
    let output = command(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let Output { status, stdout, stderr } = output;
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midwatch-journal"));
    command.args(arguments).stdin(Stdio::null());
    command.env_clear().env("HOME", "/nonexistent");
    command
}

fn in_dir<'a>(bench: &'a Bench, arguments: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec![arguments[0], bench.path().to_str().unwrap()];
    all.extend(&arguments[1..]);
    all
}

/// Runs the tool on a bench; what it printed, without the name of its directory.
fn on(bench: &Bench, arguments: &[&str]) -> (i32, String, String) {
    let (code, out, err) = tool(&in_dir(bench, arguments));
    let dir = bench.path().display().to_string();
    (code, out.replace(&dir, "DIR"), err.replace(&dir, "DIR"))
}

fn check(bench: &Bench, arguments: &[&str], expected: &Expect) {
    let (code, out, err) = on(bench, arguments);
    expected.assert_eq(&format!("exit {code}\n{out}{err}"));
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every file below the directory, with its bytes.
fn image(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(image(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

#[test]
fn a_store_that_was_closed_verifies() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    check(&bench, &["verify"], &expect![[""]]);
}

#[test]
fn a_store_in_use_verifies_beside_its_engine() {
    let mut bench = Bench::new();
    bench.full_history();
    check(&bench, &["verify"], &expect![[""]]);
}

#[test]
fn a_torn_end_is_noted_and_is_no_failure() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.submit("[1,2,3]");
    bench.kill();
    let segment = bench.segments().pop().unwrap();
    let (last, bytes) = *bench.frames(&segment).last().unwrap();
    edit(&segment, |file| file[usize::try_from(last + bytes).unwrap()..].fill(0));
    check(&bench, &["verify"], &expect![[""]]);
}

#[test]
fn an_end_that_is_whole_but_wrong_is_suspicious() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.submit("[1,2,3]");
    bench.kill();
    let segment = bench.segments().pop().unwrap();
    let (last, _) = *bench.frames(&segment).last().unwrap();
    edit(&segment, |file| file[usize::try_from(last).unwrap() + 50] ^= 1);
    check(&bench, &["verify"], &expect![[""]]);
    let (code, out, _) = on(&bench, &["verify", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 8);
    assert_eq!(found["verdict"], "suspicious");
    assert_eq!(found["report"]["tail"]["class"], "suspicious");
}

fn damaged() -> Bench {
    let mut bench = Bench::new();
    for _ in 0..5 {
        bench.submit("1");
    }
    bench.kill();
    let segment = bench.segments().pop().unwrap();
    let (second, _) = bench.frames(&segment)[2];
    edit(&segment, |file| file[usize::try_from(second).unwrap() + 60] ^= 1);
    bench
}

#[test]
fn damage_in_the_middle_is_named_with_its_place_and_the_next_command() {
    let bench = damaged();
    check(&bench, &["verify"], &expect![[""]]);
    check(&bench, &["verify", "--json"], &expect![[""]]);
    check(&bench, &["inspect"], &expect![[""]]);
    check(&bench, &["inspect", "--at", "1:5120"], &expect![[""]]);
}

#[test]
fn a_dump_of_a_damaged_store_gives_what_is_before_the_damage() {
    let bench = damaged();
    let (code, out, err) = on(&bench, &["dump"]);
    assert_eq!((code, lines(&out).len()), (6, 2), "{err}");
}

#[test]
fn a_record_that_cannot_follow_those_before_it_is_damage() {
    use midwatch::engine::codec;
    use midwatch::journal::{Batch, Host, Journal, Options, RealDisk, Record, Replay};
    use midwatch::kernel::event::{Actor, Event, Hurried, Stamp};
    use midwatch::kernel::ids::{LifeTime, Seq, ServiceTime, TaskId, Timestamp};

    struct Nothing;
    impl Replay for Nothing {
        fn snapshot_begin(&mut self, _: u64) -> Result<(), String> {
            Ok(())
        }
        fn snapshot_record(&mut self, _: Record<'_>) -> Result<(), String> {
            Ok(())
        }
        fn record(&mut self, _: u64, _: Record<'_>) -> Result<(), String> {
            Ok(())
        }
    }

    let mut bench = Bench::new();
    bench.submit("1");
    bench.close();
    let host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 9 };
    let disk = RealDisk::open(bench.path()).unwrap();
    let (mut journal, _) = Journal::open(disk, Options::default(), host, &mut Nothing).unwrap();
    let stamp = Stamp {
        seq: Seq(journal.next_seq()),
        wall: Timestamp(0),
        life: LifeTime(0),
        service: ServiceTime(0),
        by: Actor::Daemon,
    };
    let event = Event::Hurried(Hurried { task: TaskId(99) });
    let mut body = Vec::new();
    codec::encode(&stamp, &event, &mut body);
    let mut batch = Batch::new();
    batch.push(codec::kind(&event), false, &body);
    journal.commit(&batch).unwrap();
    journal.close().unwrap();
    check(&bench, &["verify"], &expect![[""]]);
}

#[test]
fn a_kind_from_the_future_is_damage_unless_it_may_be_skipped() {
    use midwatch::journal::{Batch, Host, Journal, Options, RealDisk};

    let mut bench = Bench::new();
    bench.submit("1");
    bench.close();
    let host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 9 };
    for ignorable in [true, false] {
        let disk = RealDisk::open(bench.path()).unwrap();
        let mut state = midwatch::engine::Rebuild::default();
        let (mut journal, _) = Journal::open(disk, Options::default(), host, &mut state).unwrap();
        let mut batch = Batch::new();
        batch.push(900, ignorable, &[0xA0]);
        journal.commit(&batch).unwrap();
        journal.close().unwrap();
        let (code, _, err) = on(&bench, &["verify"]);
        assert_eq!(code, if ignorable { 0 } else { 6 }, "{err}");
        let (code, out, _) = on(&bench, &["dump"]);
        assert_eq!(code, if ignorable { 0 } else { 6 });
        assert_eq!(lines(&out).last().unwrap()["kind"], 900);
    }
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.close();
    let segment = bench.segments().pop().unwrap();
    edit(&segment, |file| {
        file[8..12].copy_from_slice(&[9, 0, 9, 0]);
        let crc = crc32fast::hash(&file[..508]);
        file[508..512].copy_from_slice(&crc.to_le_bytes());
    });
    check(&bench, &["verify"], &expect![[""]]);
}

#[test]
fn a_directory_without_a_store_is_a_slip_of_the_hand() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let absent = format!("{path}/absent");
    let file = format!("{path}/notes.txt");
    for prepared in [false, true] {
        if prepared {
            fs::write(&file, "hello").unwrap();
        }
        for command in ["verify", "inspect", "dump"] {
            let (code, out, err) = tool(&[command, path]);
            assert_eq!((code, out.as_str()), (2, ""), "{command}");
            assert!(err.starts_with(&format!("error: there is no store in {path}\n")), "{err}");
        }
    }
    let (code, _, err) = tool(&["verify", &absent]);
    assert_eq!(
        (code, err.lines().next().unwrap()),
        (2, &*format!("error: there is no directory {absent}"))
    );
    let (code, _, err) = tool(&["verify", &file]);
    assert_eq!((code, &*err), (2, &*format!("error: {file} is not a directory\n")));
}

#[test]
fn the_directory_may_come_from_the_environment_or_the_config() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.close();
    let named = command(&["verify"]).env("MIDWATCH_DATA_DIR", bench.path()).output().unwrap();
    assert_eq!(named.status.code(), Some(0));
    let config = bench.path().join("midwatch.toml");
    fs::write(&config, format!("data_dir = {:?}\n", bench.path())).unwrap();
    let config = config.to_str().unwrap();
    assert_eq!(tool(&["verify", "--config", config]).0, 0);
    let named = command(&["verify"]).env("MIDWATCH_CONFIG", config).output().unwrap();
    assert_eq!(named.status.code(), Some(0));
}

#[test]
fn every_command_leaves_every_byte_as_it_is() {
    let bench = damaged();
    let before = image(bench.path());
    for arguments in [&["verify"][..], &["dump"], &["inspect"], &["inspect", "--at", "3"]] {
        on(&bench, arguments);
    }
    assert!(before == image(bench.path()));
}

#[test]
fn a_dump_holds_every_field_and_no_secret() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    let (code, out, err) = on(&bench, &["dump"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(!out.contains("abab") && !out.contains("171,171"), "a secret's hash is printed");
    expect![[""]].assert_eq(&out);
}

#[test]
fn a_dump_can_be_cut_to_a_range_or_a_task() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    let seqs = |arguments: &[&str]| -> Vec<u64> {
        let (code, out, err) = on(&bench, arguments);
        assert_eq!((code, err.as_str()), (0, ""));
        lines(&out).iter().map(|line| line["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(&["dump", "--from", "3", "--to", "5"]), [3, 4, 5]);
    assert_eq!(seqs(&["dump", "--from", "1000"]), [0; 0]);
    let (_, out, _) = on(&bench, &["dump", "--task", "1"]);
    let events: Vec<_> =
        lines(&out).iter().map(|line| line["event"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        events,
        [
            "submitted",
            "leased",
            "heard",
            "checkpointed",
            "ended",
            "hurried",
            "leased",
            "ended",
            "moved"
        ]
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut bench = Bench::new();
    for _ in 0..400 {
        bench.submit(&format!("\"{}\"", "x".repeat(300)));
    }
    bench.close();
    let mut child = command(&in_dir(&bench, &["dump"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// A store whose first records are gone.
fn compacted() -> Bench {
    let mut bench = Bench::with_snapshots(6 << 10);
    bench.full_history();
    for number in 0..200 {
        bench.submit(&format!("{number}"));
    }
    bench.wait(Millis::secs(1));
    bench.close();
    bench
}

#[test]
fn every_snapshot_is_compared_with_the_records_before_it() {
    let bench = compacted();
    let (code, out, err) = on(&bench, &["verify"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("  snapshots  2, newest good one at "), "{out}");
}

#[test]
fn what_a_snapshot_stands_for_comes_first_in_the_dump() {
    let bench = compacted();
    let (code, out, err) = on(&bench, &["dump"]);
    assert_eq!(code, 0, "{err}");
    let lines = lines(&out);
    assert_eq!(lines[0]["event"], "snapshot_head");
    let tasks = lines.iter().filter(|line| line["event"] == "snapshot_task").count();
    let submitted = lines.iter().filter(|line| line["event"] == "submitted").count();
    assert!(204 <= tasks + submitted, "{tasks} + {submitted}");
    assert!(err.starts_with("note: the earliest record held is "), "{err}");
    assert!(!out.contains("abab") && !out.contains("171,171"), "a secret's hash is printed");
    let (_, out, err) = on(&bench, &["dump", "--from", "1"]);
    assert!(!out.contains("snapshot_head") && err.starts_with("note: "), "{err}");
    let (_, out, _) = on(&bench, &["dump", "--task", "1"]);
    assert!(out.lines().count() == 1 && out.contains("\"snapshot_task\""), "{out}");
}

#[test]
fn a_bad_snapshot_is_suspicious_while_another_will_do() {
    let bench = compacted();
    let newest = image(&bench.path().join("snapshots")).pop().unwrap().0;
    edit(&newest, |file| file[4200] ^= 1);
    let (code, out, err) = on(&bench, &["verify"]);
    assert_eq!(code, 8, "{out}{err}");
    assert!(out.contains("  bad        snapshots/"), "{out}");
}

#[test]
fn an_inspection_shows_segments_snapshots_and_the_end() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.kill();
    bench.start();
    bench.close();
    check(&bench, &["inspect"], &expect![[""]]);
    let (code, out, _) = on(&bench, &["inspect", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &found["error"]), (0, &Value::Null));
    assert_eq!(found["segments"].as_array().unwrap().len(), bench.segments().len());
}

#[test]
fn a_place_can_be_looked_at_by_sequence_and_by_byte() {
    let mut bench = Bench::new();
    bench.submit("{\"a\":1}");
    bench.close();
    check(&bench, &["inspect", "--at", "2"], &expect![[""]]);
    check(&bench, &["inspect", "--at", "1:4700"], &expect![[""]]);
    check(&bench, &["inspect", "--at", "1:7000"], &expect![[""]]);
    check(&bench, &["inspect", "--at", "77"], &expect![[""]]);
    let (code, out, _) = on(&bench, &["inspect", "--at", "2", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(found["frames"][0]["records"][0]["record"]["spec"]["payload"]["a"], 1);
}

#[test]
fn the_help_teaches() {
    let (code, out, _) = tool(&["--help"]);
    assert_eq!(code, 0);
    for word in ["Exit codes:", "Examples:", "inspect", "verify", "dump"] {
        assert!(out.contains(word), "{word}");
    }
    assert_eq!(tool(&["inspect", "--at", "x"]).0, 2);
    assert_eq!(tool(&[]).0, 2);
}
