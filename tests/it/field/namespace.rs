//! Tests that mount something: each is an ignored test, run by another one in a user namespace of
//! its own. Where there are no such namespaces it is skipped, loudly.

use std::path::Path;
use std::process::Command;

/// Runs an ignored test where it may mount something.
pub(super) fn run(test: &str) {
    let can = Command::new("unshare")
        .args(["-Urm", "sh", "-c", "mkdir -p \"$0\" && mount -t tmpfs -o size=1m tmpfs \"$0\""])
        .arg(std::env::temp_dir().join("midwatch-may-mount"))
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there are no user namespaces here in which something can be mounted");
        return;
    }
    let inside = Command::new("unshare")
        .arg("-Urm")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stdout).into_owned();
    let told = String::from_utf8_lossy(&inside.stderr);
    assert!(inside.status.success() && said.contains("1 passed"), "{said}\n{told}");
}

/// Lays a file system in memory over a directory.
pub(super) fn mount(options: &str, dir: &Path) {
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir).status();
    assert!(mounted.unwrap().success());
}
