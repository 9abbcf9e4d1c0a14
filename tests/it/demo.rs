//! The demo is a test of everything; here it runs as one.

use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn the_demo_holds_what_it_promises() {
    let output = Command::new(env!("CARGO_BIN_EXE_midwatch"))
        .arg("demo")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{said}");
    for promise in ["10,600 of 10,600 lines processed, 0 lost", "79,655 words", "fences"] {
        assert!(told.contains(promise), "no {promise:?} in\n{told}");
    }
    assert_eq!(told.matches("KILL -9").count(), 2, "{told}");
    fits(&told);
}

#[test]
fn a_schedule_of_each_second_accounts_for_an_absence_of_its_daemon() {
    let output = Command::new(env!("CARGO_BIN_EXE_midwatch"))
        .args(["demo", "--schedules"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{said}");
    for promise in ["each decided once", "coalesced into task", "the daemon was away from"] {
        assert!(told.contains(promise), "no {promise:?} in\n{told}");
    }
    fits(&told);
}

/// No line is wider than a terminal, but for one that names a place, which may be anywhere.
fn fits(told: &str) {
    let programs = Path::new(env!("CARGO_BIN_EXE_midwatch")).parent().unwrap().to_str().unwrap();
    let wide = told.lines().find(|line| 80 < line.replace(programs, "").chars().count());
    assert_eq!(wide, None, "in\n{told}");
}
