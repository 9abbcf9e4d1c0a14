//! Who owns a data directory, and who a process is: never a number in a file.

use super::house::{CALM, House, is_alive};
use midwatch::kernel::status::Status;
use midwatch::process;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

// B81: files are made for their owner alone, and the socket is from its birth, by an engine whose umask
// keeps nothing from anybody. (In a process of its own: a umask belongs to all threads.)
#[test]
fn files_and_socket_are_their_owner_s_alone_whatever_the_umask() {
    let house = House::new(CALM, &[("noop", "echo done", "")]);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_midwatch"), "--config"]);
    command.arg(house.path("midwatch.toml")).args(["daemon", "--workers", "1"]);
    let daemon = house.spawn("daemon", command);
    house.until_served();
    let id = house.submit("noop", "null");
    house.until_status(id, Status::Success);
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&house.data("midwatch.sock")), 0o600);
    assert_eq!(mode(&house.path("data")), 0o700);
    let mut todo = vec![house.path("data")];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path) & 0o077, 0, "{} is open to others", path.display());
            if path.is_dir() {
                todo.push(path);
            }
        }
    }
    drop(daemon);
}

// B38: the pid in the file belonged to somebody else by now, so the daemon stood down.
#[test]
fn the_pid_of_a_stranger_in_the_lock_file_keeps_nobody_from_starting() {
    let house = House::new(CALM, &[]);
    let stranger = std::process::id();
    fs::create_dir(house.path("data")).unwrap();
    for content in [format!("{stranger}\n"), String::new(), "1\n".to_owned(), "x\0y".to_owned()] {
        fs::write(house.data("midwatch.lock"), &content).unwrap();
        let mut daemon = house.daemon_with(&["--workers", "0"], 0);
        assert!(daemon.terminate().success(), "{content:?}: {}", daemon.log());
    }
}

// B39: recovery signalled a process that had got the number of a dead one.
#[test]
fn a_recycled_pid_in_a_claim_is_not_signalled() {
    let house = House::new(CALM, &[("once", "first || exit 0; sleep 600", "")]);
    let mut stranger = Command::new("setsid").args(["sleep", "600"]).spawn().unwrap();
    let daemon = house.daemon();
    let id = house.submit("once", "null");
    let start = house.until_start(id, 1);
    house.kill_all(daemon);
    // The claim names the handler by pid and start time; the kernel has given the pid away.
    let claim = house.data("run").join(start.fence.to_string());
    let text = fs::read_to_string(&claim).unwrap();
    let recycled = text.replacen(&format!(" {} ", start.pid), &format!(" {} ", stranger.id()), 1);
    assert_ne!(text, recycled);
    fs::write(&claim, recycled).unwrap();
    let daemon = house.daemon();
    house.until_status(id, Status::Success);
    house.check_no_overlap();
    assert!(is_alive(stranger.id()), "a stranger was killed: {}", house.account());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    drop(daemon);
}

// B39, by session: the number of the group is a stranger's, who has children too.
#[test]
fn a_recycled_session_in_a_claim_is_not_signalled() {
    let house = House::new(CALM, &[("once", "first || exit 0; sleep 600", "")]);
    let mut stranger =
        Command::new("setsid").args(["sh", "-c", "sleep 600 & wait"]).spawn().unwrap();
    let daemon = house.daemon();
    let id = house.submit("once", "null");
    let start = house.until_start(id, 1);
    house.kill_all(daemon);
    let claim = house.data("run").join(start.fence.to_string());
    let text = fs::read_to_string(&claim).unwrap();
    fs::write(
        &claim,
        text.replacen(&format!(" {} ", start.pid), &format!(" {} ", stranger.id()), 1),
    )
    .unwrap();
    let child = super::house::until("the stranger's child", || {
        let path = format!("/proc/{0}/task/{0}/children", stranger.id());
        fs::read_to_string(path).ok()?.trim().parse::<u32>().ok()
    });
    let daemon = house.daemon();
    house.until_status(id, Status::Success);
    assert!(is_alive(stranger.id()) && is_alive(child), "{}", house.account());
    super::house::kill(child);
    stranger.wait().unwrap();
    drop(daemon);
}

const ROUNDS: usize = 20;
const AT_ONCE: usize = 5;

// W71.
// B41: two daemons at the same instant, also where each has a socket of its own.
#[test]
fn of_two_daemons_started_at_the_same_instant_exactly_one_serves() {
    std::thread::scope(|scope| {
        for lane in 0..AT_ONCE {
            scope.spawn(move || {
                for round in (lane..ROUNDS).step_by(AT_ONCE) {
                    one_of_two_serves(round % 2 == 1);
                }
            });
        }
    });
}

fn one_of_two_serves(sockets_differ: bool) {
    let house = House::new(CALM, &[]);
    let sockets = [
        house.data("midwatch.sock"),
        house.data(if sockets_differ { "b" } else { "midwatch.sock" }),
    ];
    let start = |n: usize| {
        let socket = sockets[n].to_str().unwrap();
        let command = house.command(&["--socket", socket, "daemon", "--workers", "0"]);
        house.spawn(&format!("daemon{n}"), command)
    };
    let mut both = [start(0), start(1)];
    let loser = house.until("one of them gives way", |_| {
        both.iter_mut().position(|part| part.has_ended().is_some())
    });
    assert_eq!(both[loser].end().code(), Some(7), "{}", house.account());
    let winner = 1 - loser;
    let client = midwatch::client::Blocking::connect(&sockets[winner]).unwrap();
    let status = house.until("the other one serves", |_| {
        client.get::<midwatch::api::StatusView>("/v1/status").ok()
    });
    let named = format!("in use by pid {}", status.pid);
    assert!(both[loser].log().contains(&named), "{named}: {}", both[loser].log());
    assert!(both[winner].has_ended().is_none(), "{}", house.account());
    assert_eq!(process::of(status.pid).unwrap().unwrap().pid, status.pid);
    assert!(both[winner].terminate().success(), "{}", both[winner].log());
}
