//! `compact` as people run it. Each call of it is cut short in the simulation.

use super::journal_store::{Bench, edit};
use super::journal_tool::{check, compacted, image, on};
use expect_test::expect;
use midwatch::journal::DirLock;
use midwatch::kernel::Command;
use midwatch::kernel::task::TaskSpec;
use serde_json::Value;

fn digest(bench: &Bench) -> Value {
    let (code, out, err) = on(bench, &["verify", "--json"]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str::<Value>(&out).unwrap()["state"]["digest"].clone()
}

#[test]
fn a_dry_run_says_what_would_go_and_changes_nothing() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    let before = image(bench.path());
    check(
        &bench,
        &["compact", "--dry-run"],
        &expect![[r#"
            exit 0
            a compaction of DIR would keep
              snapshot   at 25, 6.5 KiB
              segment    an empty one, 8 KiB
            and remove
              journal/0000000001-00000000000000000001.journal  8 KiB
              journal/0000000002-00000000000000000010.journal  8 KiB
              journal/0000000003-00000000000000000019.journal  8 KiB
              frees      9.5 KiB: 24 KiB now, 14.5 KiB then
            What `dump` and `state --at` can show would begin at 25
            Nothing was changed
        "#]],
    );
    assert!(before == image(bench.path()));
}

#[test]
fn a_compaction_does_what_its_dry_run_said() {
    let mut bench = compacted();
    let before = digest(&bench);
    let (_, plan, _) = on(&bench, &["compact", "--dry-run", "--json"]);
    let (code, done, err) = on(&bench, &["compact", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let done: Value = serde_json::from_str(&done).unwrap();
    for field in ["seq", "removed", "bytes_before", "bytes_after"] {
        assert_eq!(plan[field], done[field], "{field}");
    }
    assert_eq!((&done["digest"], digest(&bench)), (&before, before.clone()));
    let (_, stats, _) = on(&bench, &["stats", "--json"]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(stats["compaction_frees"], 0);
    check(
        &bench,
        &["compact"],
        &expect![[r#"
        exit 0
        nothing to free in DIR: it is compact
    "#]],
    );
    bench.start();
    bench.submit("1");
    assert_eq!(on(&bench, &["verify"]).0, 0);
}

#[test]
fn a_compaction_says_what_it_did() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.close();
    let (code, out, err) = on(&bench, &["compact"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let out: String = out
        .lines()
        .map(|line| match line.strip_prefix("  digest     ") {
            Some(_) => "  digest     SHA-256\n".to_owned(),
            None => format!("{line}\n"),
        })
        .collect();
    expect![[r#"
        compacted DIR
          snapshot   snapshots/00000000000000000025.snapshot
                     at 25, 8 records, 6.5 KiB
          digest     SHA-256
                     read back from the disk; the same as before
          removed    3 segments, 0 snapshots
          freed      9.5 KiB: 24 KiB before, 14.5 KiB now
    "#]]
    .assert_eq(&out);
}

#[test]
fn a_store_in_use_is_not_compacted() {
    let mut bench = Bench::new();
    bench.full_history();
    let _lock = DirLock::acquire(bench.path()).unwrap();
    let before = image(bench.path());
    let (code, out, err) = on(&bench, &["compact"]);
    assert_eq!((code, out.as_str()), (7, ""));
    let pid = std::process::id();
    assert!(
        err.starts_with(&format!("error: the data directory is in use by pid {pid}\n")),
        "{err}"
    );
    assert!(before == image(bench.path()));
    assert_eq!(on(&bench, &["compact", "--dry-run"]).0, 0, "looking is allowed");
}

#[test]
fn suspicious_bytes_are_evidence_and_stay() {
    let bench = compacted();
    let newest = image(&bench.path().join("snapshots")).pop().unwrap().0;
    edit(&newest, |file| file[4200] ^= 1);
    let before = image(bench.path());
    let (code, out, err) = on(&bench, &["compact"]);
    assert_eq!((code, out.as_str()), (8, ""));
    assert!(err.contains("midwatch-journal verify DIR"), "{err}");
    let files = |image: &[(std::path::PathBuf, Vec<u8>)]| image.len();
    // Only the lock file is new.
    assert!(files(&image(bench.path())) <= files(&before) + 1);
}

/// Bytes on the disk against what is in the tasks: 1.25 times the payload and 80 bytes for each.
#[test]
fn a_compact_store_takes_little_more_than_its_payloads() {
    const TASKS: u64 = 20_000;
    let mut bench = Bench::new();
    bench.kill();
    bench.options.segment_size = 4 << 20;
    bench.start();
    let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(188));
    for _ in 0..TASKS / 500 {
        let spec = || Command::Submit(TaskSpec::new("fetch", payload.clone()));
        bench.ask((0..500).map(|_| spec()).collect());
    }
    bench.close();
    let (code, out, err) = on(&bench, &["compact", "--json"]);
    assert_eq!(code, 0, "{err}");
    let done: Value = serde_json::from_str(&out).unwrap();
    let after = done["bytes_after"].as_u64().unwrap();
    let payloads = payload.len() as u64 * TASKS;
    println!("{after} bytes for {TASKS} waiting tasks with {payloads} bytes of payload");
    assert!(after <= payloads * 5 / 4 + 80 * TASKS, "{after}");
}
