//! The daemon as the first process of a container: everybody's orphans come to it.

use super::house::House;
use midwatch::kernel::status::Status;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// A container as far as it matters here: a pid namespace of its own, and a `/proc` that shows it.
const CONTAINER: [&str; 6] =
    ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"];

/// Tasks; more of them by `MIDWATCH_B69_TASKS`.
const TASKS: u64 = 60;

/// Nobody is to lose a lease because the machine is busy with a thousand handlers.
const WIDE: &str = "heartbeat = \"3s\"\nsuspect_after = \"20s\"\noffline_after = \"1m\"\n";

/// Leaves two orphans, one of which outlives it, and ends as its payload says.
const FORKS: &str = r#"
    n=$(cat)
    (sh -c 'exit 41' & (sleep 0.02; exit 42) &)
    exit $n
"#;

fn contained(house: &House, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(CONTAINER).arg(env!("CARGO_BIN_EXE_midwatch"));
    command.arg("--config").arg(house.path("midwatch.toml")).args(args);
    command.env_remove("MIDWATCH_SOCKET").env_remove("MIDWATCH_DATA_DIR");
    command
}

/// Parent and state of every process.
fn processes() -> BTreeMap<u32, (u32, char)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let read = |stat: String| {
        let (before, after) = stat.rsplit_once(')')?;
        let mut after = after.split_whitespace();
        let state = after.next()?.chars().next()?;
        Some((before.split(' ').next()?.parse().ok()?, (after.next()?.parse().ok()?, state)))
    };
    stats.filter_map(read).collect()
}

/// Zombies below a process.
fn zombies_below(ancestor: u32) -> usize {
    let all = processes();
    let is_below = |mut pid: u32| {
        while let Some((parent, _)) = all.get(&pid) {
            if *parent == ancestor {
                return true;
            }
            pid = *parent;
        }
        false
    };
    all.iter().filter(|(pid, (_, state))| *state == 'Z' && is_below(**pid)).count()
}

// B69: as PID 1 it let zombies pile up, or took the ends of its children from those who waited.
#[test]
fn b69_as_pid_1_it_leaves_no_zombie_loses_no_exit_code_and_ends_when_it_is_asked_to() {
    let can = Command::new("unshare").args(CONTAINER).arg("true").status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no pid namespace may be made here, so nobody can be PID 1");
        return;
    }
    let house = House::new(WIDE, &[("forks", FORKS, "retry = { max_retry = 0 }")]);
    let args = ["daemon", "--workers", "1", "--slots", "4"];
    let mut daemon = house.spawn("daemon", contained(&house, &args));
    house.until_served();
    let count = std::env::var("MIDWATCH_B69_TASKS").map_or(TASKS, |n| n.parse().unwrap());
    // 0 ends well, the others are final, each in its own way.
    let codes = [0, 64, 65, 77];
    let code = |n: u64| codes[usize::try_from(n).unwrap() % codes.len()];
    let ids: Vec<_> =
        (0..count).map(|n| (house.submit("forks", &code(n).to_string()), code(n))).collect();
    for (id, code) in ids {
        let expected = if code == 0 { Status::Success } else { Status::Failed };
        house.until_status(id, expected);
        let attempts = house.history(id).attempts;
        assert_eq!(attempts.len(), 1, "{attempts:?}");
        assert_eq!(attempts[0].exit_code, Some(code), "{attempts:?}");
    }
    house.until("no zombie is left", |_| (zombies_below(daemon.pid()) == 0).then_some(()));
    // Another one in another container finds the directory in use, and says so to its parent.
    let mut second = house.spawn("second", contained(&house, &args));
    assert_eq!(second.end().code(), Some(7), "{}", second.log());
    let all = processes();
    let init = all.iter().find(|(_, (parent, _))| *parent == daemon.pid()).map(|(pid, _)| *pid);
    super::house::signal(init.expect("the daemon"), Signal::TERM);
    assert_eq!(daemon.end().code(), Some(0), "{}", daemon.log());
    assert!(daemon.log().contains("stopping: the workers first"), "{}", daemon.log());
}
