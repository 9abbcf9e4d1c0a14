//! `midwatch-journal repair` as people run it at three in the morning: the real binary on stores
//! made by the engine and damaged behind its back.

use super::journal_store::{Bench, edit};
use super::journal_tool::{command, compacted, image, on, tool};
use expect_test::{Expect, expect};
use midwatch::journal::segment::{parse_segment_name, parse_snapshot_name};
use midwatch::journal::{DirLock, SKIP};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Six segments of twenty tasks and more, without a snapshot.
fn long() -> Bench {
    let mut bench = Bench::new();
    bench.full_history();
    for _ in 0..24 {
        let task = bench.submit(&format!("\"{}\"", "x".repeat(400)));
        bench.churn(task);
    }
    bench.kill();
    assert!(6 <= bench.segments().len());
    bench
}

/// Flips a bit in the records of a frame.
fn flip(bench: &Bench, segment: usize, frame: usize) -> PathBuf {
    let path = bench.segments().swap_remove(segment);
    let (offset, _) = bench.frames(&path)[frame];
    edit(&path, |file| file[usize::try_from(offset).unwrap() + 50] ^= 1);
    path
}

/// What it says, without what differs from host to host.
fn check(bench: &Bench, arguments: &[&str], expected: &Expect) {
    let (code, out, err) = on(bench, arguments);
    let shown = out.lines().map(|line| match (line.split_once("digest "), line.split_once("; ")) {
        (Some((before, _)), _) => format!("{before}digest     SHA-256\n"),
        (None, Some((before, after))) if after.ends_with("are free") => format!("{before}\n"),
        _ => format!("{line}\n"),
    });
    expected.assert_eq(&format!("exit {code}\n{}{err}", shown.collect::<String>()));
}

fn json(bench: &Bench, arguments: &[&str]) -> (i32, Value) {
    let (code, out, err) = on(bench, arguments);
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

/// All bytes of a directory's files, wherever they lie; the lock's pid is nobody's data.
fn contents(dir: &Path) -> BTreeSet<Vec<u8>> {
    let files = image(dir).into_iter().filter(|(path, _)| !path.ends_with("midwatch.lock"));
    files.map(|(_, bytes)| bytes).collect()
}

/// After a repair: it verifies, nothing is gone, a second one does nothing, and the engine goes on
/// with numbers that nobody had.
fn check_repaired(bench: &mut Bench, before: &BTreeSet<Vec<u8>>) {
    let (code, out, err) = on(bench, &["verify"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(before.is_subset(&contents(bench.path())), "bytes are gone");
    let after = image(bench.path());
    let (code, out, _) = on(bench, &["repair"]);
    assert_eq!((code, &*out), (0, "nothing to repair: the daemon starts on this store\n"));
    assert!(changes_but_lock(&after, &image(bench.path())), "a second repair changed something");
    assert_names(bench.path());
    bench.start();
    let task = bench.submit("[\"new\"]");
    assert!(SKIP < task.0, "{task} may have been given before");
    bench.kill();
    bench.start();
    assert!(bench.has_task(task), "what was added after the repair is there");
    bench.close();
}

fn changes_but_lock(a: &[(PathBuf, Vec<u8>)], b: &[(PathBuf, Vec<u8>)]) -> bool {
    let all = |files: &[(PathBuf, Vec<u8>)]| -> Vec<(PathBuf, Vec<u8>)> {
        files.iter().filter(|(path, _)| !path.ends_with("midwatch.lock")).cloned().collect()
    };
    all(a) == all(b)
}

/// W54: every name is one that the format has.
fn assert_names(dir: &Path) {
    for (path, _) in image(dir) {
        let path = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        let known = match path.split_once('/') {
            Some(("journal", name)) => parse_segment_name(name).is_some(),
            Some(("snapshots", name)) => parse_snapshot_name(name).is_some(),
            Some((first, _)) => first == "quarantine",
            None => matches!(&*path, "store" | "floor" | "reserve" | "midwatch.lock"),
        };
        assert!(known, "{path}");
    }
}

#[test]
fn a_healthy_store_has_nothing_to_repair_and_stays_as_it_is() {
    for torn in [false, true] {
        let mut bench = Bench::new();
        bench.full_history();
        bench.kill();
        if torn {
            let last = bench.segments().pop().unwrap();
            let (offset, bytes) = *bench.frames(&last).last().unwrap();
            edit(&last, |file| file[usize::try_from(offset + bytes).unwrap()..].fill(0));
        }
        let before = image(bench.path());
        let (code, out, err) = on(&bench, &["repair"]);
        let nothing = "nothing to repair: the daemon starts on this store\n";
        assert_eq!((code, &*out, &*err), (0, nothing, ""));
        let (code, found) = json(&bench, &["repair", "--json"]);
        assert_eq!((code, &found["verdict"], &found["plan"]), (0, &"healthy".into(), &Value::Null));
        assert!(changes_but_lock(&before, &image(bench.path())));
    }
}

/// B02: the plan says what is kept and what is not, and not a byte moves before the repair itself.
// spec: REP-003, REP-030
#[test]
fn the_plan_names_sequences_and_tasks_and_changes_nothing() {
    let bench = long();
    flip(&bench, 3, 2);
    let before = image(bench.path());
    check(
        &bench,
        &["repair", "--dry-run"],
        &expect![[r#"
            exit 0
            damaged: journal/0000000004-00000000000000000028.journal, byte 5120 (sequence 30): the frame fails its checksum (stored ed7fadda, computed ecca50c7)
            a repair would
              build on   the journal's beginning, and 29 records behind it, up to the first hole
              hold       6 tasks, 0 workers
              go on      with sequence 1048674 and task 1048605, so that no number comes twice
              digest     SHA-256
              miss       sequence 30: no whole record is left
              set aside  67 whole records, sequence 31 to 97
              lose       22 tasks: 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18 …; --json has them all
              take back  1 task to an older state: 6
                         what is missing may have been about any task; 3 tasks that had
                         not ended then may have gone further, and may run again
              move       every file of the old store to quarantine/; none is deleted
              need       104 KiB of free space
            The other method would keep 66 records more; its plan:
              midwatch-journal repair DIR --method salvage --dry-run
            Stop all workers before the daemon starts again: one of them may still run what
            the new store does not know of
            Nothing was changed. To do it: midwatch-journal repair DIR
        "#]],
    );
    check(
        &bench,
        &["repair", "--dry-run", "--method", "salvage"],
        &expect![[r#"
            exit 0
            damaged: journal/0000000004-00000000000000000028.journal, byte 5120 (sequence 30): the frame fails its checksum (stored ed7fadda, computed ecca50c7)
            a repair would
              build on   the journal's beginning, and 95 records behind it that can follow
              hold       28 tasks, 0 workers
              go on      with sequence 1048674 and task 1048605, so that no number comes twice
              digest     SHA-256
              miss       sequence 30: no whole record is left
              set aside  1 whole record, sequence 31
                         31: task 6: no transition from PENDING to PENDING for reason user_resume
              take back  1 task to an older state: 6
                         what is missing may have been about any task; 25 tasks that had
                         not ended then may have gone further, and may run again
              move       every file of the old store to quarantine/; none is deleted
              need       116 KiB of free space
            Stop all workers before the daemon starts again: one of them may still run what
            the new store does not know of
            Nothing was changed. To do it: midwatch-journal repair DIR --method salvage
        "#]],
    );
    assert_eq!(before, image(bench.path()), "a plan changes nothing, not even the lock");
}

#[test]
fn a_repair_shows_its_plan_and_what_became_of_it() {
    let mut bench = long();
    flip(&bench, 3, 2);
    let before = contents(bench.path());
    check(
        &bench,
        &["repair"],
        &expect![[r#"
            exit 0
            damaged: journal/0000000004-00000000000000000028.journal, byte 5120 (sequence 30): the frame fails its checksum (stored ed7fadda, computed ecca50c7)
            a repair would
              build on   the journal's beginning, and 29 records behind it, up to the first hole
              hold       6 tasks, 0 workers
              go on      with sequence 1048674 and task 1048605, so that no number comes twice
              digest     SHA-256
              miss       sequence 30: no whole record is left
              set aside  67 whole records, sequence 31 to 97
              lose       22 tasks: 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18 …; --json has them all
              take back  1 task to an older state: 6
                         what is missing may have been about any task; 3 tasks that had
                         not ended then may have gone further, and may run again
              move       every file of the old store to quarantine/; none is deleted
              need       104 KiB of free space
            The other method would keep 66 records more; its plan:
              midwatch-journal repair DIR --method salvage --dry-run
            Stop all workers before the daemon starts again: one of them may still run what
            the new store does not know of
            done: the new store was read back and is in its place;
            every file of the old one is in quarantine/repair-0000000013/
        "#]],
    );
    check_repaired(&mut bench, &before);
}

#[test]
fn a_plan_for_programs_has_everything() {
    let bench = long();
    flip(&bench, 3, 2);
    let (code, plan) = json(&bench, &["repair", "--dry-run", "--json"]);
    assert_eq!((code, &plan["verdict"]), (0, &"planned".into()));
    let plan = &plan["plan"];
    assert_eq!(plan["fault"]["code"], "MW-J003");
    let missing = plan["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 1);
    assert_eq!(plan["set_aside"]["sequences"].as_array().unwrap().len(), 1);
    assert!(!plan["tasks_lost"].as_array().unwrap().is_empty());
    assert_eq!(plan["quarantine"], Value::Null);
    let (code, done) = json(&bench, &["repair", "--json"]);
    assert_eq!((code, &done["verdict"]), (0, &"repaired".into()));
    assert_eq!(done["plan"]["digest"], plan["digest"], "what was promised");
    let (_, verified) = json(&bench, &["verify", "--json"]);
    assert_eq!(verified["state"]["digest"], plan["digest"], "is what there is");
    let aside = done["plan"]["quarantine"].as_str().unwrap();
    assert!(bench.path().join(aside).join("floor").exists());
}

/// W23: a bit flips in the second of six segments; either method keeps every byte of the others.
#[test]
fn a_flip_in_an_early_segment_costs_no_byte_of_the_later_ones() {
    for method in ["cut", "salvage"] {
        let mut bench = long();
        flip(&bench, 1, 3);
        let before = contents(bench.path());
        let (code, plan) = json(&bench, &["repair", "--json", "--method", method]);
        assert_eq!((code, &plan["plan"]["method"]), (0, &method.into()));
        check_repaired(&mut bench, &before);
        let tasks = plan["plan"]["tasks"].as_u64().unwrap();
        assert_eq!(20 < tasks, method == "salvage", "{tasks}");
    }
}

// spec: REP-022
#[test]
fn damage_before_the_snapshot_loses_nothing() {
    let mut bench = compacted();
    let (_, before) = json(&bench, &["verify", "--json"]);
    flip(&bench, 0, 0);
    assert_eq!(on(&bench, &["verify"]).0, 6);
    let (code, out, err) = on(&bench, &["repair", "--dry-run"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("lose       nothing"), "{out}");
    let bytes = contents(bench.path());
    assert_eq!(on(&bench, &["repair"]).0, 0);
    let (_, after) = json(&bench, &["verify", "--json"]);
    assert_eq!(before["state"]["tasks"], after["state"]["tasks"]);
    check_repaired(&mut bench, &bytes);
}

/// W13: header pages of zeros, in the newest segment and in one before it.
#[test]
fn segments_with_zeros_for_a_header_are_repaired_around() {
    for which in [2, 5] {
        let mut bench = long();
        let path = bench.segments().swap_remove(which);
        edit(&path, |file| file[..4096].fill(0));
        assert_eq!(on(&bench, &["verify"]).0, 6, "segment {which}");
        let (_, out, _) = on(&bench, &["repair", "--dry-run"]);
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(out.contains(&format!("unusable   journal/{name}: the header is all zeros")));
        let before = contents(bench.path());
        assert_eq!(on(&bench, &["repair"]).0, 0);
        check_repaired(&mut bench, &before);
    }
}

/// W32: a frame's bytes at another frame's place: in the same segment, in another, from another
/// store. None passes for what should be there, and the result verifies.
#[test]
fn a_misdirected_write_is_damage_and_its_repair_verifies() {
    for from in 0..3 {
        let mut bench = long();
        let other = if from == 2 { long() } else { Bench::new() };
        let source = match from {
            0 => bench.segments()[3].clone(),
            1 => bench.segments()[2].clone(),
            _ => other.segments()[3].clone(),
        };
        let frames = if from == 2 { other.frames(&source) } else { bench.frames(&source) };
        let place = |frame: usize| usize::try_from(frames[frame].0).unwrap();
        let bytes = fs::read(&source).unwrap()[place(2)..place(2) + 512].to_vec();
        let target = bench.segments().swap_remove(3);
        let (at, _) = bench.frames(&target)[1];
        let at = usize::try_from(at).unwrap();
        edit(&target, |file| file[at..at + 512].copy_from_slice(&bytes));
        assert_eq!(on(&bench, &["verify"]).0, 6, "{from}");
        let before = contents(bench.path());
        assert_eq!(on(&bench, &["repair"]).0, 0, "{from}");
        check_repaired(&mut bench, &before);
    }
}

#[test]
fn lost_foreign_and_empty_files_are_repaired_around() {
    type Harm = fn(&Bench);
    let harms: [(&str, Harm); 7] = [
        ("the newest segment is gone", |bench| {
            fs::remove_file(bench.segments().pop().unwrap()).unwrap();
        }),
        ("a middle segment is gone", |bench| {
            fs::remove_file(&bench.segments()[3]).unwrap();
        }),
        ("the newest segment is empty", |bench| {
            edit(&bench.segments()[6], Vec::clear);
        }),
        ("a segment of another store", |bench| {
            let other = long();
            edit(&other.segments()[3], |file| file[16] ^= 1);
            let mut bytes = fs::read(&other.segments()[3]).unwrap();
            let crc = crc32fast::hash(&bytes[..508]);
            bytes[508..512].copy_from_slice(&crc.to_le_bytes());
            edit(&bench.segments()[3], |file| *file = bytes);
        }),
        ("garbage for a store file and no floor", |bench| {
            edit(&bench.path().join("store"), |file| *file = b"garbage".to_vec());
            fs::remove_file(bench.path().join("floor")).unwrap();
            flip(bench, 2, 1);
        }),
        ("two segments under each other's name", |bench| {
            let segments = bench.segments();
            let (a, b) = (fs::read(&segments[2]).unwrap(), fs::read(&segments[3]).unwrap());
            edit(&segments[2], |file| *file = b);
            edit(&segments[3], |file| *file = a);
        }),
        ("the end is whole and wrong", |bench| {
            let last = bench.segments().len() - 1;
            let frames = bench.frames(&bench.segments()[last]).len();
            flip(bench, last, frames - 1);
            fs::remove_file(bench.path().join("floor")).unwrap();
        }),
    ];
    for (name, harm) in harms {
        let mut bench = long();
        harm(&bench);
        let code = on(&bench, &["verify"]).0;
        assert!(matches!(code, 6 | 8), "{name}: {code}");
        let before = contents(bench.path());
        let (code, out, err) = on(&bench, &["repair"]);
        assert_eq!(code, 0, "{name}: {out}{err}");
        check_repaired(&mut bench, &before);
    }
}

// spec: REP-026, REP-027
#[test]
fn what_cannot_be_repaired_is_said_and_left_as_it_is() {
    let bench = long();
    for path in bench.segments() {
        fs::remove_file(path).unwrap();
    }
    let before = image(bench.path());
    check(
        &bench,
        &["repair"],
        &expect![[r#"
            exit 6
            error: this store can't be repaired: no segment and no snapshot can be read
              keep the directory as it is, and put the files back from a backup
              Nothing was changed
        "#]],
    );
    assert!(changes_but_lock(&before, &image(bench.path())));

    let bench = long();
    fs::remove_file(&bench.segments()[0]).unwrap();
    let before = image(bench.path());
    check(
        &bench,
        &["repair"],
        &expect![[r#"
            exit 6
            error: this store can't be repaired: the journal has lost its beginning, and no snapshot is whole; `--method salvage` would keep the 79 records that can stand alone
              keep the directory as it is, and put the files back from a backup
              Nothing was changed
        "#]],
    );
    assert!(changes_but_lock(&before, &image(bench.path())));

    let bench = long();
    let segment = bench.segments().swap_remove(2);
    edit(&segment, |file| {
        file[8..12].copy_from_slice(&[9, 0, 9, 0]);
        let crc = crc32fast::hash(&file[..508]);
        file[508..512].copy_from_slice(&crc.to_le_bytes());
    });
    let (code, _, err) = on(&bench, &["repair"]);
    assert_eq!(code, 7, "{err}");
    assert!(err.contains("has format 9"), "{err}");
}

// spec: REP-002
#[test]
fn a_store_in_use_is_not_repaired() {
    let bench = long();
    flip(&bench, 1, 1);
    let _held = DirLock::acquire(bench.path()).unwrap();
    let before = image(bench.path());
    for arguments in [&["repair"][..], &["repair", "--dry-run"]] {
        let (code, out, err) = on(&bench, arguments);
        let pid = std::process::id();
        assert_eq!((code, &*out), (7, ""), "{err}");
        assert!(err.starts_with(&format!("error: the data directory is in use by pid {pid}\n")));
    }
    assert_eq!(before, image(bench.path()));
}

// spec: REP-053
#[test]
fn a_start_on_an_interrupted_repair_names_the_cure_which_finishes_it() {
    let mut bench = long();
    flip(&bench, 2, 1);
    let before = contents(bench.path());
    // As it is when the new store has got its name, and nothing was moved.
    let copy = long();
    assert_eq!(on(&bench, &["repair"]).0, 0);
    for name in ["store", "floor", "journal", "snapshots"] {
        let to = copy.path().join("repair").join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let from = bench.path().join(name);
        assert!(
            std::process::Command::new("cp")
                .arg("-r")
                .args([&from, &to])
                .status()
                .unwrap()
                .success()
        );
    }
    check_repaired(&mut bench, &before);
    drop(bench);
    let mut bench = copy;
    for arguments in [&["verify"][..], &["inspect"], &["dump"]] {
        let (code, _, err) = on(&bench, arguments);
        assert_eq!(code, 6, "{arguments:?} {err}");
    }
    check(
        &bench,
        &["verify"],
        &expect![[r#"
            exit 6
            error: a repair of this store was interrupted
              run `midwatch-journal repair DIR` again: it goes on where it stopped
        "#]],
    );
    check(
        &bench,
        &["repair", "--dry-run"],
        &expect![[r#"
        exit 0
        a repair was interrupted: its new store is ready and not yet in its place
        To finish it: midwatch-journal repair DIR
    "#]],
    );
    let before = contents(bench.path());
    check(
        &bench,
        &["repair"],
        &expect![[r#"
        exit 0
        the interrupted repair is finished; the old files are in quarantine/
    "#]],
    );
    check_repaired(&mut bench, &before);
}

#[test]
fn the_directory_of_a_repair_may_be_named_as_for_every_command() {
    let bench = long();
    flip(&bench, 1, 1);
    let named = command(&["repair", "--dry-run"]).env("MIDWATCH_DATA_DIR", bench.path()).output();
    assert_eq!(named.unwrap().status.code(), Some(0));
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = tool(&["repair", dir.path().to_str().unwrap()]);
    assert_eq!(code, 2, "{err}");
    assert!(err.starts_with("error: there is no store in "), "{err}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "not even a lock");
}

// spec: REP-004
#[test]
fn a_repair_is_made_by_whom_the_store_belongs_to() {
    let bench = long();
    flip(&bench, 1, 1);
    if std::os::unix::fs::chown(bench.path(), Some(12_345), None).is_err() {
        eprintln!("SKIPPED: only root may give a directory away");
        return;
    }
    let before = image(bench.path());
    let (code, _, err) = on(&bench, &["repair"]);
    assert_eq!(code, 7, "{err}");
    assert!(err.starts_with("error: DIR belongs to uid 12345"), "{err}");
    assert_eq!(before, image(bench.path()));
    assert_eq!(on(&bench, &["repair", "--dry-run"]).0, 0);
}

#[test]
fn the_help_of_repair_teaches() {
    let (code, out, _) = tool(&["repair", "--help"]);
    assert_eq!(code, 0);
    for words in ["quarantine/", "Examples:", "--dry-run", "[default: cut]", "stop the daemon"] {
        assert!(out.contains(words), "{words}: {out}");
    }
}

/// W63: on a file system that is full to the byte, whatever reads works, and a repair says how much
/// room it needs before it touches anything.
#[test]
fn on_a_full_disk_a_repair_says_what_it_needs_and_changes_nothing() {
    let bench = long();
    flip(&bench, 3, 2);
    let script = r#"
        set -e
        mount -t tmpfs -o size=400k none "$1"
        cp -r "$2"/. "$1"
        (cat /dev/zero > "$1/filler") 2>/dev/null || true
        sums() { (cd "$1" && find . -type f ! -name midwatch.lock ! -name filler | sort | xargs md5sum); }
        sums "$1" > "$3/before"
        for command in verify dump 'repair --dry-run' repair; do
            code=0
            "$0" $command "$1" > "$3/out" 2> "$3/err" || code=$?
            echo "$command: exit $code"
        done
        head -n 1 "$3/err"
        sums "$1" | diff - "$3/before" && echo unchanged
        rm "$1/filler"
        "$0" repair "$1" > /dev/null && "$0" verify "$1" > /dev/null && echo repaired
    "#;
    let (mount, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command.arg(env!("CARGO_BIN_EXE_midwatch-journal"));
    command.args([mount.path(), bench.path(), scratch.path()]);
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
    if out.is_empty() {
        let why = String::from_utf8_lossy(&err);
        eprintln!("SKIPPED: no file system of one's own can be made here: {why}");
        return;
    }
    expect![[r#"
        verify: exit 6
        dump: exit 6
        repair --dry-run: exit 0
        repair: exit 7
        error: the repair needs 106496 bytes of free space, and 0 are free
        unchanged
        repaired
    "#]]
    .assert_eq(&out);
}
