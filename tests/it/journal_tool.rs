//! The journal tool as people run it: the real binary on stores made by the engine.

use super::journal_store::{Bench, edit};
use expect_test::{Expect, expect};
use midwatch::kernel::ids::Millis;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the tool; exit code, stdout, stderr.
pub(crate) fn tool(arguments: &[&str]) -> (i32, String, String) {
    let output = command(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let Output { status, stdout, stderr } = output;
    (status.code().unwrap(), text(stdout), text(stderr))
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midwatch-journal"));
    command.args(arguments).stdin(Stdio::null());
    command.env_clear().env("HOME", "/nonexistent").env("TZ", "UTC");
    command
}

fn in_dir<'a>(bench: &'a Bench, arguments: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec![arguments[0], bench.path().to_str().unwrap()];
    all.extend(&arguments[1..]);
    all
}

/// Runs the tool on a bench; what it printed, without the name of its directory.
pub(crate) fn on(bench: &Bench, arguments: &[&str]) -> (i32, String, String) {
    let (code, out, err) = tool(&in_dir(bench, arguments));
    let dir = bench.path().display().to_string();
    (code, out.replace(&dir, "DIR"), err.replace(&dir, "DIR"))
}

pub(crate) fn check(bench: &Bench, arguments: &[&str], expected: &Expect) {
    let (code, out, err) = on(bench, arguments);
    // A new field of a task changes the digest, and is no matter of these tests.
    let digest = out.lines().find_map(|line| line.strip_prefix("  digest     "));
    let out = digest.map_or_else(|| out.clone(), |digest| out.replace(digest, "SHA-256"));
    expected.assert_eq(&format!("exit {code}\n{out}{err}"));
}

pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every file below the directory, with its bytes.
pub(crate) fn image(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
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
    check(
        &bench,
        &["verify"],
        &expect![[r#"
            exit 0
            good: every record is whole and follows from those before it
              records    1 to 25: 25 in 22 frames, 3 segments, 24 KiB
              snapshots  none
              state      4 tasks, 0 workers
              digest     SHA-256
              end        closed by its writer
        "#]],
    );
}

#[test]
fn a_store_in_use_verifies_beside_its_engine() {
    let mut bench = Bench::new();
    bench.full_history();
    check(
        &bench,
        &["verify"],
        &expect![[r#"
            exit 0
            good: every record is whole and follows from those before it
              records    1 to 25: 25 in 22 frames, 3 segments, 24 KiB
              snapshots  none
              state      4 tasks, 0 workers
              digest     SHA-256
              end        whole; its writer runs, or was killed
        "#]],
    );
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
    check(
        &bench,
        &["verify"],
        &expect![[r#"
            exit 0
            good: every record is whole and follows from those before it
              records    1 to 2: 2 in 2 frames, 1 segment, 8 KiB
              snapshots  none
              state      1 task, 0 workers
              digest     SHA-256
              end        torn: journal/0000000001-00000000000000000001.journal, byte 5120, 63 bytes
                         of a write that a crash cut short before it was answered;
                         the next start disregards them
        "#]],
    );
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
    check(
        &bench,
        &["verify"],
        &expect![[r#"
            exit 8
            SUSPICIOUS: all but what is named below is whole
              records    1 to 2: 2 in 2 frames, 1 segment, 8 KiB
              snapshots  none
              state      1 task, 0 workers
              digest     SHA-256
              end        suspicious: journal/0000000001-00000000000000000001.journal, byte 5120, 96 bytes
                         the last write is there in full, yet the frame fails its checksum (stored 7b02e301, computed d894cb4d)
                         the next start sets them aside in quarantine/ and goes on,
                         unless on_suspicious_tail = "halt"
              To look: midwatch-journal inspect DIR --at 1:5120
        "#]],
    );
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

// B02.
#[test]
fn damage_in_the_middle_is_named_with_its_place_and_the_next_command() {
    let bench = damaged();
    check(
        &bench,
        &["verify"],
        &expect![[r#"
            exit 6
            error: damaged journal: journal/0000000001-00000000000000000001.journal, byte 5120 (sequence 3)
              the frame fails its checksum (stored 6d2649e2, computed 0e2190c6); 2 good records before it, 3 after it
              To look: midwatch-journal inspect DIR --at 1:5120
              To see what a repair keeps: midwatch-journal repair DIR --dry-run
              Nothing was changed
        "#]],
    );
    check(
        &bench,
        &["verify", "--json"],
        &expect![[r#"
            exit 6
            {"data_dir":"DIR","error":{"bytes_after":1629,"code":"MW-J003","file":"journal/0000000001-00000000000000000001.journal","message":"damaged journal: journal/0000000001-00000000000000000001.journal, byte 5120 (sequence 3)","offset":5120,"records_after":3,"records_before":2,"seq":3,"what":"the frame fails its checksum (stored 6d2649e2, computed 0e2190c6)"},"exit":6,"report":null,"state":null,"verdict":"damaged"}
        "#]],
    );
    check(
        &bench,
        &["inspect"],
        &expect![[r#"
            exit 6
            store in DIR

                 SEGMENT                 FIRST    RECORDS     FRAMES         END  NOTE
                       1                     1          5          5        7168
            error: damaged journal: journal/0000000001-00000000000000000001.journal, byte 5120 (sequence 3)
              the frame fails its checksum (stored 6d2649e2, computed 0e2190c6); 2 good records before it, 3 after it
              To look: midwatch-journal inspect DIR --at 1:5120
              To see what a repair keeps: midwatch-journal repair DIR --dry-run
              Nothing was changed
        "#]],
    );
    check(
        &bench,
        &["inspect", "--at", "1:5120"],
        &expect![[r#"
        exit 6
        journal/0000000001-00000000000000000001.journal, byte 5120: the frame fails its checksum (stored 6d2649e2, computed 0e2190c6)
                5120  f74d5746 01000000 03000000 00000000  .MWF............
                5136  01000000 39000000 e249266d d6db2581  ....9....I&m..%.
                5152  e6cb1d61 2d000000 01000000 a5001b00  ...a-...........
                5168  00019cea 1b8cd401 14021403 83018119  ................
                5184  03e804a3 000201a4 00656665 74636801  .........efetch.
                5200  61310218 64030502 14ff0000 00000000  a1..d...........
                5216  00000000 00000000 00000000 00000000  ................
                5232  00000000 00000000 00000000 00000000  ................
    "#]],
    );
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
        fn snapshot_failed(&mut self) {}
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
    check(
        &bench,
        &["verify"],
        &expect![[r#"
            exit 6
            error: damaged journal: journal/0000000002-00000000000000000003.journal, byte 4128 (sequence 3)
              event `hurried` cannot follow: there is no task 99
              every checksum holds: the record was written so, or by another version
              To look: midwatch-journal inspect DIR --at 3
              To see what a repair keeps: midwatch-journal repair DIR --dry-run
              Nothing was changed
        "#]],
    );
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
        for command in ["verify", "inspect", "dump", "stats", "state", "follow", "compact"] {
            let (code, out, err) = tool(&[command, path]);
            assert_eq!((code, out.as_str()), (2, ""), "{command}");
            assert!(err.starts_with(&format!("error: there is no store in {path}\n")), "{err}");
        }
        assert_eq!(image(dir.path()).len(), usize::from(prepared), "nothing was made");
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
    for arguments in [
        &["verify"][..],
        &["dump"],
        &["inspect"],
        &["inspect", "--at", "3"],
        &["stats"],
        &["state"],
        &["follow"],
        &["compact", "--dry-run"],
    ] {
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
    expect![[r#"
        {"seq":1,"at":"2026-03-14T02:10:00.000Z","life":0,"service":0,"by":"daemon","event":"started","version":"0.1.0","boot_id":"b0","boot_clock":5000,"next_task":1}
        {"seq":2,"at":"2026-03-14T02:10:00.010Z","life":10,"service":10,"by":"uid 1000","event":"worker_joined","worker":2,"registration":{"name":"w1","process":{"pid":700,"start_time":12345,"boot_id":"b0","pid_namespace":4026531836},"host":"relay-7","version":"0.1.0","lock":"run/worker-1.lock","types":["fetch"],"slots":8}}
        {"seq":3,"at":"2026-03-14T02:10:00.020Z","life":20,"service":20,"by":"uid 1000","event":"submitted","task":1,"spec":{"type":"fetch","payload":{   "größe": 12345678901234567890.10 ,"s":"a\nb" },"priority":-3,"max_retry":1,"timeout":600000,"delay":1,"key":"nightly-2026","checkpoint":[1]},"due":21}
        {"seq":4,"at":"2026-03-14T02:10:00.035Z","life":35,"service":35,"by":"worker 2","event":"leased","task":1,"fence":4,"worker":2,"ends":60035}
        {"seq":5,"at":"2026-03-14T02:10:00.045Z","life":45,"service":45,"by":"worker 2","event":"heard","worker":2,"holds":[{"task":1,"fence":4,"ends":1200045,"process":{"pid":701,"start_time":12345,"boot_id":"b0","pid_namespace":4026531836},"progress":{"done":1,"total":9,"note":"half"}}]}
        {"seq":6,"at":"2026-03-14T02:10:00.055Z","life":55,"service":55,"by":"worker 2","event":"checkpointed","task":1,"fence":4,"data":{"cursor":"o_99123"}}
        {"seq":7,"at":"2026-03-14T02:10:00.065Z","life":65,"service":65,"by":"worker 2","event":"ended","task":1,"fence":4,"outcome":"retryable","to":"RETRYING","reason":"retryable_error","wait":74487,"exit_code":75,"error":"HTTP 502","attempt":1}
        {"seq":8,"at":"2026-03-14T02:10:00.075Z","life":75,"service":75,"by":"uid 1000","event":"hurried","task":1}
        {"seq":9,"at":"2026-03-14T02:10:00.085Z","life":85,"service":85,"by":"worker 2","event":"leased","task":1,"fence":9,"worker":2,"ends":60085}
        {"seq":10,"at":"2026-03-14T02:10:00.095Z","life":95,"service":95,"by":"worker 2","event":"ended","task":1,"fence":9,"outcome":"retryable","to":"RETRYING","reason":"retryable_error","exit_code":75,"error":"HTTP 502","attempt":2}
        {"seq":11,"at":"2026-03-14T02:10:00.095Z","life":95,"service":95,"by":"worker 2","event":"moved","task":1,"to":"DEAD","reason":"retries_exhausted"}
        {"seq":12,"at":"2026-03-14T02:10:00.105Z","life":105,"service":105,"by":"uid 1000","event":"submitted","task":2,"spec":{"type":"fetch","payload":{   "größe": 12345678901234567890.10 ,"s":"a\nb" },"priority":-3,"max_retry":1,"timeout":600000,"retry_of":1,"checkpoint":{"cursor":"o_99123"}},"due":105}
        {"seq":13,"at":"2026-03-14T02:10:00.115Z","life":115,"service":115,"by":"worker 2","event":"leased","task":2,"fence":13,"worker":2,"ends":60115}
        {"seq":14,"at":"2026-03-14T02:10:00.125Z","life":125,"service":125,"by":"worker 2","event":"refused","task":2,"fence":1,"act":"result"}
        {"seq":15,"at":"2026-03-14T02:10:00.135Z","life":135,"service":135,"by":"worker 2","event":"ended","task":2,"fence":13,"outcome":"success","to":"SUCCESS","reason":"completed","exit_code":0,"result":{"rows":41},"usage":{"peak_memory":42991616,"cpu_ms":1300},"attempt":1,"ran":2000,"input":"ae448ac86c4e8e4dec645729708ef418","wrong_input":true}
        {"seq":16,"at":"2026-03-14T02:10:00.145Z","life":145,"service":145,"by":"uid 1000","event":"submitted","task":3,"spec":{"type":"fetch","payload":null,"priority":100,"max_retry":5,"at":"2026-03-14T03:10:00.135Z"},"due":3600135}
        {"seq":17,"at":"2026-03-14T02:10:00.155Z","life":155,"service":155,"by":"uid 1000","event":"moved","task":3,"to":"PAUSED","reason":"user_pause"}
        {"seq":18,"at":"2026-03-14T02:10:00.165Z","life":165,"service":165,"by":"uid 1000","event":"moved","task":3,"to":"PENDING","reason":"user_resume"}
        {"seq":19,"at":"2026-03-14T02:10:00.175Z","life":175,"service":175,"by":"uid 1000","event":"moved","task":3,"to":"CANCELLED","reason":"user_cancel"}
        {"seq":20,"at":"2026-03-14T02:10:00.185Z","life":185,"service":185,"by":"uid 1000","event":"submitted","task":4,"spec":{"type":"fetch","payload":[],"priority":100,"max_retry":5},"due":185}
        {"seq":21,"at":"2026-03-14T02:10:00.195Z","life":195,"service":195,"by":"worker 2","event":"leased","task":4,"fence":21,"worker":2,"ends":60195}
        {"seq":22,"at":"2026-03-14T02:10:00.205Z","life":205,"service":205,"by":"uid 1000","event":"stop_requested","task":4,"stop":"reset","max_retry":7}
        {"seq":23,"at":"2026-03-14T02:10:00.215Z","life":215,"service":215,"by":"daemon","event":"worker_moved","worker":2,"to":"suspect"}
        {"seq":24,"at":"2026-03-14T02:10:00.225Z","life":225,"service":225,"by":"daemon","event":"moved","task":4,"to":"LOST","reason":"worker_crash"}
        {"seq":25,"at":"2026-03-14T02:10:00.225Z","life":225,"service":225,"by":"daemon","event":"worker_moved","worker":2,"to":"gone","reason":"worker_crash"}
    "#]].assert_eq(&out);
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
    let (code, out, err) = on(&bench, &["dump", "--from", "1000"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.starts_with("note: the last record is "), "{err}");
    let (code, out, err) = on(&bench, &["dump", "--task", "999"]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("no record that is held speaks of task 999"), "{err}");
    let (code, ..) = on(&bench, &["inspect", "--at", "1:99999999"]);
    assert_eq!(code, 3);
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
pub(crate) fn compacted() -> Bench {
    let mut bench = Bench::with_snapshots(6 << 10);
    bench.full_history();
    for _ in 0..100 {
        bench.submit_many(20);
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
    assert!(out.contains("  snapshots  at "), "{out}");
}

#[test]
fn a_snapshot_of_another_state_is_damage() {
    use midwatch::engine::{Rebuild, write_snapshot};
    use midwatch::journal::{Host, Journal, Options, RealDisk};
    use midwatch::kernel::State;

    let mut bench = Bench::new();
    bench.submit("1");
    bench.close();
    let host = Host { machine_id: [1; 16], boot_id: [2; 16], random: 9 };
    let disk = RealDisk::open(bench.path()).unwrap();
    let (mut journal, _) =
        Journal::open(disk, Options::default(), host, &mut Rebuild::default()).unwrap();
    let writer = journal.snapshot_writer().unwrap();
    let written = write_snapshot(&State::default().image(), writer).unwrap();
    journal.snapshot_done(written).unwrap();
    journal.close().unwrap();
    check(
        &bench,
        &["verify"],
        &expect![[r#"
            exit 6
            error: damaged journal: snapshots/00000000000000000002.snapshot, byte 0 (sequence 2)
              the snapshot is not what the records up to its sequence make up
              every checksum holds: the record was written so, or by another version
              To look: midwatch-journal inspect DIR --at 2
              To see what a repair keeps: midwatch-journal repair DIR --dry-run
              Nothing was changed
        "#]],
    );
}

#[test]
fn every_command_works_while_an_engine_writes_rotates_and_compacts() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let mut bench = Bench::with_snapshots(6 << 10);
    bench.full_history();
    let task = bench.submit("[]");
    let dir = bench.path().to_str().unwrap().to_owned();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                bench.churn(task);
            }
        });
        for _ in 0..15 {
            for command in ["verify", "inspect", "dump", "stats", "state"] {
                let (code, out, err) = tool(&[command, &dir]);
                if code != 0 {
                    done.store(true, Ordering::Relaxed);
                    let out = out.get(..2000).unwrap_or(&out);
                    panic!("{command} ended with {code}: {err}{out}");
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
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
    assert!(2004 <= tasks + submitted, "{tasks} + {submitted}");
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
    check(
        &bench,
        &["inspect"],
        &expect![[r#"
            exit 0
            store in DIR
              uuid       c15c0289ec2d0a9167ec8e65a18debbe
              records    1 to 26: 26 in 23 frames, 4 segments, 32 KiB
              floor      26 is known to be durable
              end        closed by its writer

                 SEGMENT                 FIRST    RECORDS     FRAMES         END  NOTE
                       1                     1          9          8        8192
                       2                    10          9          8        8192
                       3                    19          5          5        6656
                       4                    24          3          2        5120  2 records copied from the one before

              no snapshots
        "#]],
    );
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
    check(
        &bench,
        &["inspect", "--at", "2"],
        &expect![[r#"
            exit 0
            journal/0000000001-00000000000000000001.journal, byte 4608 to 5119
              frame of 1 record, sequence 2 to 2; all before it was synced first
              header  f74d5746 01000000 02000000 00000000 01000000 3f000000 a68b3b9d 2080762a
              record 2 at byte 4640: kind 1, body of 51 bytes
                header  a124a669 33000000 01000000
                {"seq":2,"at":"2026-03-14T02:10:00.010Z","life":10,"service":10,"by":"uid 1000","event":"submitted","task":1,"spec":{"type":"fetch","payload":{"a":1},"priority":100,"max_retry":5},"due":10}
        "#]],
    );
    check(
        &bench,
        &["inspect", "--at", "1:4700"],
        &expect![[r#"
            exit 0
            journal/0000000001-00000000000000000001.journal, byte 4608 to 5119
              frame of 1 record, sequence 2 to 2; all before it was synced first
              header  f74d5746 01000000 02000000 00000000 01000000 3f000000 a68b3b9d 2080762a
              record 2 at byte 4640: kind 1, body of 51 bytes
                header  a124a669 33000000 01000000
                {"seq":2,"at":"2026-03-14T02:10:00.010Z","life":10,"service":10,"by":"uid 1000","event":"submitted","task":1,"spec":{"type":"fetch","payload":{"a":1},"priority":100,"max_retry":5},"due":10}
        "#]],
    );
    check(
        &bench,
        &["inspect", "--at", "1:7000"],
        &expect![[r#"
        exit 0
        journal/0000000001-00000000000000000001.journal, byte 6656: no whole frame is there
                6656  00000000 00000000 00000000 00000000  ................
                6672  00000000 00000000 00000000 00000000  ................
                6688  00000000 00000000 00000000 00000000  ................
                6704  00000000 00000000 00000000 00000000  ................
                6720  00000000 00000000 00000000 00000000  ................
                6736  00000000 00000000 00000000 00000000  ................
                6752  00000000 00000000 00000000 00000000  ................
                6768  00000000 00000000 00000000 00000000  ................
    "#]],
    );
    check(
        &bench,
        &["inspect", "--at", "77"],
        &expect![[r#"
        exit 3
        error: no record 77, and no frame over byte 77
          midwatch-journal inspect DIR shows what there is
    "#]],
    );
    let (code, out, _) = on(&bench, &["inspect", "--at", "2", "--json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(found["frames"][0]["records"][0]["record"]["spec"]["payload"]["a"], 1);
}

#[test]
fn the_help_teaches() {
    let (code, out, _) = tool(&["--help"]);
    assert_eq!(code, 0);
    let commands = ["inspect", "verify", "dump", "follow", "state", "stats", "compact"];
    for word in ["Exit codes:", "Examples:"].iter().chain(&commands) {
        assert!(out.contains(word), "{word}");
    }
    for name in commands {
        let output = command(&[name, "--help"]).env("COLUMNS", "80").output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(out.contains(&format!("Examples:\n  midwatch-journal {name}")), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    }
    assert_eq!(tool(&["inspect", "--at", "x"]).0, 2);
    assert_eq!(tool(&[]).0, 2);
}
