//! The config changes while the daemon runs.

use super::house::{CALM, House};
use midwatch::kernel::status::Status;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const RUNS: &str = "retry = { max_retry = 0 }";

/// Writes a file that only its owner may write, under another name, and renames it into place.
pub(super) fn put(path: &Path, text: &str) {
    let aside = path.with_extension("new");
    fs::write(&aside, text).unwrap();
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(aside, path).unwrap();
}

pub(super) fn config(house: &House) -> String {
    fs::read_to_string(house.path("midwatch.toml")).unwrap()
}

/// The config with one more handler, and another script for the first.
fn changed(before: &str) -> String {
    let more = "[handlers.more]\ncommand = [\"/bin/sh\", \"-c\", \"echo more\"]\n";
    format!("{}{more}", before.replace("echo old", "echo new"))
}

/// Whether the last reading of the config was taken, and what `status` says needs a person.
pub(super) fn told(house: &House) -> (bool, Vec<String>) {
    let status = house.status().expect("it answers");
    (status.config_reload_ok, status.attention.into_iter().map(|point| point.what).collect())
}

/// The status of `GET /v1/tasks` with this token; none when nobody answers.
fn status_with(address: &str, token: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!("host: {address}\r\nconnection: close\r\nauthorization: Bearer {token}");
    write!(stream, "GET /v1/tasks HTTP/1.1\r\n{head}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.get(9..12).map(str::to_owned)
}

#[test]
fn other_tokens_are_taken_up_on_a_signal_and_weak_ones_leave_those_in_force() {
    let (old, new) = ("old-0123456789abcdef", "new-0123456789abcdef");
    let house = House::new(CALM, &[("job", "true", RUNS)]);
    let tokens = house.path("tokens");
    put(&tokens, old);
    let [low, high, ..] = std::process::id().to_le_bytes();
    let address = format!("127.200.{high}.{}:8474", low.max(1));
    let http = format!("[http]\nlisten = '{address}'\ntoken_file = '{}'\n", tokens.display());
    put(&house.path("midwatch.toml"), &(config(&house) + &http));
    let daemon = house.daemon();
    let is = |token, status: &str| status_with(&address, token).as_deref() == Some(status);
    house.until("it serves by TCP", |_| is(old, "200").then_some(()));
    put(&tokens, "short");
    daemon.signal(Signal::HUP);
    house.until("the weak token is refused", |house| (!told(house).0).then_some(()));
    assert!(is(old, "200") && is("short", "401"));
    put(&tokens, new);
    daemon.signal(Signal::HUP);
    house.until("the new token is taken", |_| is(new, "200").then_some(()));
    assert!(is(old, "401"), "the old one is none any more");
}

/// The stream of events, begun with this token.
fn follow(address: &str, token: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!("host: {address}\r\nauthorization: Bearer {token}");
    write!(stream, "GET /v1/events HTTP/1.1\r\n{head}\r\n\r\n").ok()?;
    let mut first = [0; 12];
    stream.read_exact(&mut first).ok()?;
    (&first == b"HTTP/1.1 200").then_some(stream)
}

// A token that was taken back went on to show everything that happened, for as long as the
// connection lasted.
#[test]
fn what_a_token_opened_ends_when_it_is_taken_back_or_its_role_sinks() {
    let [gone, sunk, kept] =
        ["gone", "sunk", "kept"].map(|name| format!("{name}-0123456789abcdef"));
    let house = House::new(CALM, &[("job", "true", RUNS)]);
    let tokens = house.path("tokens");
    put(&tokens, &format!("{gone}\noperate {sunk}\nsubmit {kept}\n"));
    let [low, high, ..] = std::process::id().to_le_bytes();
    let address = format!("127.201.{high}.{}:8474", low.max(1));
    let http = format!("[http]\nlisten = '{address}'\ntoken_file = '{}'\n", tokens.display());
    put(&house.path("midwatch.toml"), &(config(&house) + &http));
    let daemon = house.daemon();
    let open = |token: &str| house.until("it follows", |_| follow(&address, token));
    let [mut one, mut other, mut third] = [&gone, &sunk, &kept].map(|token| open(token));
    put(&tokens, &format!("submit {sunk}\noperate {kept}\n"));
    daemon.signal(Signal::HUP);
    for stream in [&mut one, &mut other] {
        // To the end of it, however that comes.
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest));
    }
    let id = house.submit("job", "1");
    let (mut seen, mut some) = (String::new(), [0; 256]);
    while !seen.contains(&format!("\"task\":{id}")) {
        let read = third.read(&mut some).unwrap();
        assert!(read != 0, "the one that is still good ended too: {seen}");
        seen += &String::from_utf8_lossy(&some[..read]);
    }
    drop(daemon);
}

// spec: SUP-021
// B76: a reload waited for what ran, and everything else waited for the reload. (Schedules: see
// there.)
#[test]
fn b76_a_reload_waits_for_nothing_and_what_runs_keeps_what_it_began_with() {
    for signal in [false, true] {
        let script = "first && until_there go; echo old";
        let house = House::new(CALM, &[("job", script, RUNS)]);
        let daemon = house.daemon();
        let (_, workers) = house.pids();
        let running = house.submit("job", "null");
        house.until_start(running, 1);
        let new = changed(&config(&house)).replace("first && until_there go; echo", "echo");
        if signal {
            // What a signal asks for is read even where nobody watches.
            fs::write(house.path("midwatch.toml"), new).unwrap();
            daemon.signal(Signal::HUP);
        } else {
            put(&house.path("midwatch.toml"), &new);
        }
        // The engine takes the type, and the worker its handler.
        let more = house.until("the new type is taken", |house| {
            let output = house.run(&["submit", "more"]);
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
        });
        assert_eq!(house.say(&["wait", more.trim()]), format!("{} SUCCESS", more.trim()));
        let second = house.submit("job", "null");
        house.until_status(second, Status::Success);
        assert_eq!(house.say(&["log", &second.to_string()]), "new");
        assert_eq!(house.task(running).status, Status::Running);
        house.touch("go");
        house.until_status(running, Status::Success);
        assert_eq!(house.say(&["log", &running.to_string()]), "old");
        assert_eq!(house.history(running).attempts.len(), 1);
        assert_eq!(told(&house), (true, Vec::new()));
        // Nobody was started anew for it.
        assert_eq!(house.pids().1, workers);
        let types = house.workers().into_iter().next().unwrap().types;
        assert_eq!(types, ["exec", "job", "more"]);
        house.check_no_overlap();
        drop(daemon);
    }
}

// spec: SUP-020
// B77: a bad file killed the process, or was passed over in silence.
#[test]
fn b77_a_bad_file_is_refused_as_a_whole_and_told_and_what_was_in_force_stays() {
    let house = House::new(CALM, &[("job", "echo old", RUNS)]);
    let good = config(&house);
    let daemon = house.daemon();
    let file = house.path("midwatch.toml");
    let new = changed(&good);
    let socket = house.data("midwatch.sock");
    // A client that is told the socket reads no config.
    let ask = |args: &[&str]| house.run(&[&["--socket", socket.to_str().unwrap()], args].concat());
    let half = &new[..new.len() - 20];
    let twice = format!("{new}[handlers.more]\ncommand = [\"true\"]\n");
    let unknown = format!("{new}tiemout = \"5s\"\n");
    let group = format!("{new}[http]\noperate_group = \"no-such-group\"\n");
    for (bad, why) in [
        (half, "not TOML"),
        (&twice, "duplicate key"),
        (&unknown, "tiemout"),
        (&group, "no-such-group"),
    ] {
        put(&file, bad);
        house.until("it is refused", |house| (!told(house).0).then_some(()));
        let (_, points) = told(&house);
        let point = points.iter().find(|point| point.starts_with("the config was refused"));
        assert!(point.expect("it is told").contains(why), "{why}: {points:?}");
        // Neither the new type nor the new script.
        assert_eq!(ask(&["submit", "more"]).status.code(), Some(3));
        let id = house.submit("job", "null");
        house.until_status(id, Status::Success);
        assert_eq!(ask(&["log", &id.to_string()]).stdout, b"old\n");
        put(&file, &good);
        house.until("it is good again", |house| told(house).0.then_some(()));
    }
    assert_eq!(told(&house), (true, Vec::new()));
    // Others may write to it.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
    house.until("it is refused", |house| (!told(house).0).then_some(()));
    assert!(told(&house).1[0].contains("mode 0622"), "{:?}", told(&house));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    house.until("it is good again", |house| told(house).0.then_some(()));
    // One line for each refusal, and none of any other kind.
    let errors = daemon.log().lines().filter(|line| line.contains("ERROR")).count();
    assert_eq!(errors, 5, "{}", daemon.log());
    drop(daemon);
}

// B77: whoever mounts a directory of configs turns a link, and the file itself never changes.
#[test]
fn b77_a_config_behind_links_is_taken_up_when_a_link_is_turned() {
    let house = House::new(CALM, &[("job", "echo old", RUNS)]);
    let good = config(&house);
    for (version, text) in [("..1", good.clone()), ("..2", changed(&good))] {
        fs::create_dir(house.path(version)).unwrap();
        put(&house.path(version).join("midwatch.toml"), &text);
    }
    fs::remove_file(house.path("midwatch.toml")).unwrap();
    symlink("..1", house.path("..data")).unwrap();
    symlink("..data/midwatch.toml", house.path("midwatch.toml")).unwrap();
    let daemon = house.daemon();
    assert_eq!(house.run(&["submit", "more"]).status.code(), Some(3));
    let turn = |version: &str| {
        symlink(version, house.path("..data_tmp")).unwrap();
        fs::rename(house.path("..data_tmp"), house.path("..data")).unwrap();
    };
    turn("..2");
    fs::remove_dir_all(house.path("..1")).unwrap();
    house.until("the new type is taken", |house| {
        house.run(&["submit", "more"]).status.success().then_some(())
    });
    // And once more: what is watched has moved along.
    fs::create_dir(house.path("..3")).unwrap();
    put(&house.path("..3/midwatch.toml"), &good);
    turn("..3");
    house.until("the type is gone", |house| {
        (house.run(&["submit", "more"]).status.code() == Some(3)).then_some(())
    });
    assert!(told(&house).0);
    drop(daemon);
}

// spec: SUP-022
// B77: a running type is removed. What runs ends as it began; what waits has nobody to run it.
#[test]
fn b77_a_type_that_is_removed_runs_to_the_end_of_what_runs() {
    let house = House::new(CALM, &[("gone", "until_there go; echo old", RUNS)]);
    let daemon = house.daemon();
    let running = house.submit("gone", "null");
    house.until_start(running, 1);
    let good = config(&house);
    put(&house.path("midwatch.toml"), good.split("[handlers.").next().unwrap());
    house.until("the type is gone", |house| {
        let types = house.workers().into_iter().next()?.types;
        (types == ["exec"] && house.run(&["submit", "gone"]).status.code() == Some(3)).then_some(())
    });
    assert_eq!(house.task(running).status, Status::Running);
    house.touch("go");
    house.until_status(running, Status::Success);
    put(&house.path("midwatch.toml"), &good);
    house.until("the type is back", |house| {
        house.run(&["submit", "gone"]).status.success().then_some(())
    });
    drop(daemon);
}

// spec: SUP-023
#[test]
fn keys_that_need_a_restart_are_named_and_keep_their_values() {
    let house = House::new(CALM, &[("job", "echo old", RUNS)]);
    let good = config(&house);
    let daemon = house.daemon();
    let new = good.replace("[worker]\n", "[worker]\nprocesses = 7\n");
    put(&house.path("midwatch.toml"), &format!("{new}[journal]\nfsync = \"never\"\n"));
    house.until("it is told", |house| (!told(house).1.is_empty()).then_some(()));
    let wait = "these keys of the config wait for a restart: journal.fsync, worker.processes";
    assert_eq!(told(&house), (true, vec![wait.to_owned()]));
    assert_eq!(house.status().unwrap().fsync, "always");
    put(&house.path("midwatch.toml"), &good);
    house.until("nothing waits any more", |house| told(house).1.is_empty().then_some(()));
    drop(daemon);
}

// An engine and a worker without a supervisor hear a signal each.
#[test]
fn engine_and_worker_alone_take_up_a_config_by_their_own_signals() {
    let house = House::new(CALM, &[("job", "echo old", RUNS)]);
    let engine = house.engine();
    let worker = house.worker("w1", 1);
    let new = changed(&config(&house));
    fs::write(house.path("midwatch.toml"), new).unwrap();
    engine.signal(Signal::HUP);
    worker.signal(Signal::HUP);
    let more = house.until("the new type is taken", |house| {
        let output = house.run(&["submit", "more"]);
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    });
    assert_eq!(house.say(&["wait", more.trim()]), format!("{} SUCCESS", more.trim()));
    drop((worker, engine));
}
