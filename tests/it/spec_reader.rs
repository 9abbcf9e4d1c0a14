//! A second implementation, written from the pages in `spec/` alone, prints what `dump` prints.

use super::journal_store::{Bench, edit};
use midwatch::journal::Fsync;
use std::borrow::Cow;
use std::path::Path;
use std::process::Command;

/// What a program prints, and its exit code.
fn printed(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn compare(bench: &Bench) {
    compare_dirs(bench.path(), 0);
}

/// Compares the two readers; ours ends with `code`.
fn compare_dirs(dir: &Path, code: i32) {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no python3 here, so the second reader was not tried");
        return;
    }
    let tool = env!("CARGO_BIN_EXE_midwatch-journal");
    let (ended, ours) = printed(Command::new(tool).arg("dump").arg(dir));
    assert_eq!(ended, code);
    let (ended, theirs) = printed(Command::new("python3").arg("tests/reader.py").arg(dir));
    assert_eq!(ended, 0);
    for (number, (ours, theirs)) in (1..).zip(ours.lines().zip(theirs.lines())) {
        assert_eq!(without_reason(ours), theirs, "line {number}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
    assert!(ours.lines().next().is_some(), "there is something to compare");
}

/// A line without the words in which a body that cannot be read is refused: they are no format.
fn without_reason(line: &str) -> Cow<'_, str> {
    if !line.contains("\"event\":null") {
        return line.into();
    }
    let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
    line.as_object_mut().unwrap().remove("error");
    line.to_string().into()
}

#[test]
fn a_second_reader_prints_every_kind_and_every_field() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.forget_two();
    bench.order_types();
    bench.schedule();
    bench.alert();
    bench.close();
    compare(&bench);
}

#[test]
fn a_second_reader_follows_a_journal_over_restarts() {
    let mut bench = Bench::new();
    bench.full_history();
    for count in 1..4 {
        bench.kill();
        bench.start();
        bench.submit_many(count);
    }
    bench.close();
    compare(&bench);
}

#[test]
fn a_second_reader_ends_where_the_last_write_was_cut() {
    let mut bench = Bench::new();
    bench.full_history();
    bench.kill();
    let segment = bench.segments().pop().unwrap();
    let (last, _) = *bench.frames(&segment).last().unwrap();
    edit(&segment, |file| file[usize::try_from(last).unwrap() + 40..].fill(0));
    compare(&bench);
}

#[test]
fn a_second_reader_begins_with_the_snapshot_that_stands_for_what_is_gone() {
    compare(&super::journal_tool::compacted());
}

/// The end of the last segment is whole and wrong.
fn suspicious(mut bench: Bench) -> Bench {
    bench.submit("[1,2,3]");
    bench.kill();
    let segment = bench.segments().pop().unwrap();
    let (last, _) = *bench.frames(&segment).last().unwrap();
    edit(&segment, |file| file[usize::try_from(last).unwrap() + 50] ^= 1);
    bench
}

#[test]
fn a_second_reader_ends_before_a_suspicious_end_and_follows_the_skip_behind_it() {
    let mut bench = Bench::new();
    bench.full_history();
    let mut bench = suspicious(bench);
    compare(&bench);
    bench.start();
    bench.submit_many(3);
    compare(&bench);
    bench.kill();
    bench.start();
    bench.close();
    compare(&bench);
}

#[test]
fn a_second_reader_follows_a_weak_policy_with_its_copies_and_skips() {
    let mut bench = Bench::new();
    bench.kill();
    bench.options.fsync = Fsync::Never;
    for count in 1..5 {
        bench.start();
        if count == 1 {
            bench.full_history();
        }
        bench.submit_many(count);
        bench.kill();
    }
    compare(&bench);
}

#[test]
fn a_second_reader_reads_pages_and_several_snapshots_and_what_a_compaction_leaves() {
    let mut bench = super::journal_tool::compacted();
    bench.options.alignment = 4096;
    bench.start();
    let worker = bench.register();
    bench.lease(worker);
    bench.submit_many(700);
    bench.close();
    compare(&bench);
    assert_eq!(super::journal_tool::on(&bench, &["compact"]).0, 0);
    compare(&bench);
    bench.start();
    bench.submit_many(2);
    compare(&bench);
}

#[test]
fn a_second_reader_reads_the_golden_store() {
    compare_dirs(Path::new("tests/data/format-1"), 6); // its bodies are no CBOR
}
