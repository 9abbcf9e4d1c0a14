//! What can be shown without a handler; the rest is in `tests/it/process.rs`.

#![expect(clippy::disallowed_methods, reason = "a test may leave its files unsynced")]

use super::claim::{self, Claim, Held};
use super::identity::{self, Stat};
use super::{WorkerLock, is_alive, is_free, remove_if_free, scan};
use crate::kernel::ids::Fence;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_stat_line_is_read_whatever_the_process_calls_itself() {
    let rest = "S 1 42 42 0 -1 4194560 110 0 0 0 0 0 0 0 20 0 3 0 5318 2637824 0";
    for name in ["sh", "a b", "evil) S 1 (", "", "(((", ") R 9"] {
        let stat = Stat::parse(&format!("77 ({name}) {rest}")).unwrap();
        assert_eq!((stat.pid, stat.name.as_str(), stat.state), (77, name, 'S'));
        assert_eq!((stat.parent, stat.session, stat.threads, stat.start_time), (1, 42, 3, 5318));
    }
    for damaged in ["", "77", "77 (sh)", "77 (sh) S 1 2", "x (sh) S"] {
        assert_eq!(Stat::parse(damaged), None, "{damaged}");
    }
}

#[test]
fn a_namespace_says_by_how_much_its_boot_clock_is_ahead() {
    let host = "monotonic           0         0\nboottime            0         0\n";
    assert_eq!(identity::ahead_by(host), Some(0));
    let shifted = "monotonic    -50000   5000000\nboottime    -100000         7\n";
    assert_eq!(identity::ahead_by(shifted), Some(-100_000));
    for none in ["", "boottime", "monotonic 1 1\n", "boottime x 0\n"] {
        assert_eq!(identity::ahead_by(none), None, "{none}");
    }
}

// A sweep once failed on a process that was reaped while it looked: the kernel then shows -1 for
// group and session and no threads. Such a line is read, and its process is dead.
#[test]
fn a_process_that_is_being_reaped_is_read_and_dead() {
    let line = "8123 (sh) X 0 -1 -1 0 -1 4228352 0 0 0 0 0 0 0 0 20 0 0 0 5318 0 0";
    let stat = Stat::parse(line).unwrap();
    assert_eq!((stat.session, stat.threads, stat.start_time), (0, 0, 5318));
    assert!(!stat.is_living());
}

// fields 50 and 51 bound the environment in memory; in the midst of an exec both are 0.
#[test]
fn an_exec_under_way_is_told_from_an_empty_environment_and_from_a_kernel_thread() {
    let is_in_exec = |flags: u64, end: u64| {
        let zeros = "0 ".repeat(25);
        let line = format!(
            "7 (sh) R 1 7 7 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 5 0 {zeros}17 0 0 0 0 0 0 {end} 0"
        );
        let fields = line.split(' ').count();
        assert!(51 <= fields, "{fields} fields");
        Stat::parse(&line).unwrap().is_in_exec
    };
    let ends: Vec<bool> = vec![is_in_exec(0x40_0000, 0), is_in_exec(0x20_0000, 0)];
    assert_eq!(ends, [true, false]);
    let own = identity::stat(std::process::id()).unwrap().unwrap();
    assert!(!own.is_in_exec);
}

// spec: PRC-003
#[test]
fn a_zombie_is_dead_unless_one_of_its_threads_goes_on() {
    let stat = |state: char, threads: u32| {
        let line = format!("7 (sh) {state} 1 7 7 0 0 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 5 0 0");
        Stat::parse(&line).unwrap().is_living()
    };
    assert!(stat('S', 1) && stat('D', 1) && stat('T', 1) && stat('Z', 2));
    assert!(!stat('Z', 1) && !stat('X', 1) && !stat('Z', 0));
}

// spec: PRC-001, PRC-003
#[test]
fn only_the_process_with_the_same_start_boot_and_namespace_is_alive() {
    let own = identity::current().unwrap();
    assert!(is_alive(&own).unwrap());
    let mut other = own.clone();
    other.start_time += 1;
    assert!(!is_alive(&other).unwrap());
    let mut other = own.clone();
    other.boot_id = "another".into();
    assert!(!is_alive(&other).unwrap());
    let mut other = own;
    other.pid_namespace += 1;
    assert!(!is_alive(&other).unwrap());
}

// spec: PRC-001, PRC-002
#[test]
fn a_recycled_pid_is_not_signalled() {
    let own = identity::current().unwrap();
    // Were it sent, this test would end here.
    let sent = scan::signal(own.pid, own.start_time + 1, rustix::process::Signal::KILL);
    assert!(!sent.unwrap());
}

// spec: PRC-010, PRC-013
#[test]
fn a_claim_says_who_made_it_and_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let own = identity::current().unwrap();
    let claim = Claim::new(dir.path(), Fence(7), (&own.boot_id, own.pid_namespace), None).unwrap();
    claim.take(false).unwrap();
    let held = claim::read(dir.path(), Fence(7)).unwrap();
    let autogroup = identity::autogroup(own.pid);
    assert_eq!(held, Some(Held::Claim { process: own.clone(), autogroup, group: None }));
    assert_eq!(claim.take(false), Err(claim::YIELDED));
    // The sweeper comes second, and reads the same.
    let held = claim::tombstone(dir.path(), Fence(7)).unwrap();
    assert_eq!(held, Held::Claim { process: own, autogroup, group: None });
    let names: Vec<_> = dir.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["7"]);
    claim::remove(dir.path(), Fence(7)).unwrap();
    claim::remove(dir.path(), Fence(7)).unwrap();
    assert_eq!(claim::read(dir.path(), Fence(7)).unwrap(), None);
}

// spec: PRC-011
#[test]
fn a_tombstone_that_came_first_is_final() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(claim::tombstone(dir.path(), Fence(8)).unwrap(), Held::Tombstone);
    assert_eq!(claim::tombstone(dir.path(), Fence(8)).unwrap(), Held::Tombstone);
    let claim = Claim::new(dir.path(), Fence(8), ("boot", 1), None).unwrap();
    assert_eq!(claim.take(false), Err(claim::YIELDED));
    assert_eq!(claim::read(dir.path(), Fence(8)).unwrap(), Some(Held::Tombstone));
}

#[test]
fn what_is_no_claim_names_nobody() {
    let dir = tempfile::tempdir().unwrap();
    for text in [
        "midwatch-claim 1 12",
        "midwatch-claim 2 1 2 3 4 b\n",
        "\n",
        "midwatch-claim 1 x 2 3 4 b\n",
    ] {
        fs::write(dir.path().join("9"), text).unwrap();
        assert_eq!(claim::tombstone(dir.path(), Fence(9)).unwrap(), Held::Unreadable, "{text:?}");
    }
}

// spec: PRC-004
#[test]
fn a_lock_is_free_once_its_holder_is_gone_and_looking_never_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    let lock = WorkerLock::take(dir.path()).unwrap();
    let path = dir.path().join(lock.name());
    assert!(!is_free(&path).unwrap());
    assert!(!is_free(&path).unwrap());
    drop(lock);
    assert!(is_free(&path).unwrap());
    assert!(is_free(&dir.path().join("worker-gone.lock")).unwrap());
    let lock = WorkerLock::take(dir.path()).unwrap();
    let path = dir.path().join(lock.name());
    lock.retire().unwrap();
    assert!(!path.exists());
}

// spec: PRC-004
#[test]
fn the_lock_of_a_dead_worker_is_removed_and_that_of_a_living_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (dead, alive) =
        (WorkerLock::take(dir.path()).unwrap(), WorkerLock::take(dir.path()).unwrap());
    let [dead_path, alive_path] = [&dead, &alive].map(|lock| dir.path().join(lock.name()));
    drop(dead);
    for path in [&dead_path, &alive_path, &dir.path().join("worker-gone.lock")] {
        remove_if_free(path).unwrap();
    }
    assert!(!dead_path.exists() && alive_path.exists());
    assert!(!is_free(&alive_path).unwrap());
    // Workers that come while all that is free is removed have their locks all the same.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for entry in fs::read_dir(dir.path()).unwrap().flatten() {
                    remove_if_free(&entry.path()).unwrap();
                }
            }
        });
        let locks: Vec<_> = (0..300).map(|_| WorkerLock::take(dir.path()).unwrap()).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for lock in &locks {
            assert!(!is_free(&dir.path().join(lock.name())).unwrap(), "{}", lock.name());
        }
    });
}

// spec: HND-005
#[test]
fn a_temporary_directory_that_was_closed_to_its_owner_is_removed_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let tmp = super::tmp_dir(dir.path(), Fence(4));
    fs::create_dir_all(tmp.join("a/b")).unwrap();
    fs::write(tmp.join("a/b/f"), "x").unwrap();
    std::os::unix::fs::symlink("/", tmp.join("a/link")).unwrap();
    for (name, mode) in [("a/b", 0o555), ("a", 0)] {
        fs::set_permissions(tmp.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    claim::remove(dir.path(), Fence(4)).unwrap();
    assert!(!tmp.exists());
}
