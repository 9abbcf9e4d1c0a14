//! A second implementation, written from the pages in `spec/` alone, prints what `dump` prints.

use super::journal_store::{Bench, edit};
use std::process::Command;

/// What a program prints.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    String::from_utf8(output.stdout).unwrap()
}

fn compare(bench: &Bench) {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no python3 here, so the second reader was not tried");
        return;
    }
    let tool = env!("CARGO_BIN_EXE_midwatch-journal");
    let ours = printed(Command::new(tool).arg("dump").arg(bench.path()));
    let theirs = printed(Command::new("python3").arg("tests/reader.py").arg(bench.path()));
    for (number, (ours, theirs)) in (1..).zip(ours.lines().zip(theirs.lines())) {
        assert_eq!(ours, theirs, "line {number}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

#[test]
fn a_second_reader_prints_every_kind_and_every_field() {
    let mut bench = Bench::new();
    bench.full_history();
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
