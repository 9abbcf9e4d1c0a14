//! Triggers of the real program: kills while files are taken, and a config that changes.

use super::house::{CALM, House, Part};
use hmac::{Hmac, Mac};
use midwatch::api::TaskList;
use rustix::process::Signal;
use sha2::Sha256;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Writes a file that only its owner may use, under another name, and renames it into place.
fn put(house: &House, path: &Path, text: &str) {
    let aside = house.path("aside.new");
    fs::write(&aside, text).unwrap();
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(aside, path).unwrap();
}

fn tasks(house: &House) -> TaskList {
    house.client().get("/v1/tasks?limit=10000").unwrap()
}

fn until_tasks(house: &House, number: u64) {
    house.until(&format!("there are {number} tasks"), |house| {
        (tasks(house).total == number).then_some(())
    });
}

/// Puts another config in the place of the one there is.
fn change(house: &House, change: impl FnOnce(String) -> String) {
    let path = house.path("midwatch.toml");
    let text = fs::read_to_string(&path).unwrap();
    put(house, &path, &change(text));
}

// spec: TRG-005
#[test]
fn b82_an_engine_that_is_killed_while_it_takes_files_loses_and_doubles_none() {
    let inbox = "[inbox]\nrescan = \"1s\"\nsettle = \"200ms\"\n[inbox.types]\nimages = \"job\"\n";
    let house = House::with(inbox, CALM, &[("job", "true", "")]);
    let (mut files, mut pictures) = (0_u64, 0_u64);
    for round in 0..12 {
        let engine = if round == 0 {
            house.engine()
        } else {
            house.spawn("engine", house.command(&["engine"]))
        };
        house.until("there is an inbox", |house| house.data("inbox/images").is_dir().then_some(()));
        for _ in 0..40 {
            let text = format!("{{\"type\":\"job\",\"payload\":{files}}}");
            put(&house, &house.data(&format!("inbox/{files}")), &text);
            files += 1;
        }
        for _ in 0..10 {
            let name = format!("inbox/images/p{pictures}");
            put(&house, &house.data(&name), "picture");
            pictures += 1;
        }
        // At another moment in each round: while it starts, while it takes files, or after.
        std::thread::sleep(Duration::from_millis(round * 13));
        engine.kill();
    }
    let _engine = house.engine();
    until_tasks(&house, files + pictures);
    let payloads: Vec<_> =
        tasks(&house).tasks.iter().map(|task| task.payload.get().to_owned()).collect();
    let distinct: BTreeSet<_> = payloads.iter().collect();
    assert_eq!(distinct.len(), payloads.len(), "a file became two tasks");
    for payload in payloads.iter().filter(|payload| payload.starts_with('{')) {
        let payload: serde_json::Value = serde_json::from_str(payload).unwrap();
        let path = payload["path"].as_str().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "picture");
    }
    house.until("no file is left", |house| {
        let left = fs::read_dir(house.data("inbox")).unwrap().flatten();
        let left = left.filter(|entry| entry.file_type().is_ok_and(|it| it.is_file()));
        (left.count() == 0).then_some(())
    });
    assert!(!house.data("inbox/rejected").exists(), "{}", house.account());
    until_tasks(&house, files + pictures);
}

/// The status of the answer to a delivery that is signed with this secret.
fn deliver(house: &House, secret: &str) -> u16 {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(b"{}");
    let digits = data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes());
    let mut stream = UnixStream::connect(house.data("midwatch.sock")).unwrap();
    let request = format!(
        "POST /v1/hooks/deploy HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         x-signature-256: {digits}\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer[9..12].parse().unwrap()
}

fn until_delivered(house: &House, engine: &Part, secret: &str) {
    engine.signal(Signal::HUP);
    house.until("the secret is taken", |house| (deliver(house, secret) == 201).then_some(()));
}

// spec: TRG-013, TRG-028
#[test]
fn an_inbox_a_hook_and_its_secret_are_taken_up_while_the_engine_runs() {
    let (old, new) = ("the old secret of the hook", "the new secret of the hook");
    let house = House::new(CALM, &[("job", "true", "")]);
    let engine = house.engine();
    assert_eq!(deliver(&house, old), 404);
    put(&house, &house.path("secret"), old);
    let secret = house.path("secret");
    change(&house, |text| {
        format!(
            "{text}[inbox]\n[hooks.deploy]\ntype = \"job\"\nsecret_file = \"{}\"\n",
            secret.display()
        )
    });
    until_delivered(&house, &engine, old);
    let task = "{\"type\":\"job\"}";
    house.until("there is an inbox", |house| house.data("inbox").is_dir().then_some(()));
    put(&house, &house.data("inbox/a"), task);
    until_tasks(&house, 2);
    // The file of the secret changes, and the config does not.
    put(&house, &secret, new);
    until_delivered(&house, &engine, new);
    assert_eq!(deliver(&house, old), 401);
    until_tasks(&house, 3);
    // Another directory is the inbox, and the first one no longer.
    let other = house.path("other");
    change(&house, |text| {
        text.replace("[inbox]\n", &format!("[inbox]\npath = \"{}\"\n", other.display()))
    });
    house.until("the other one is made", |_| other.is_dir().then_some(()));
    put(&house, &house.data("inbox/b"), task);
    put(&house, &other.join("c"), task);
    until_tasks(&house, 4);
    assert!(house.data("inbox/b").exists());
    // A secret that others may read has the whole config refused; what was in force stays.
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).unwrap();
    engine.signal(Signal::HUP);
    house.until("it is refused", |house| (!house.status()?.config_reload_ok).then_some(()));
    assert_eq!(deliver(&house, new), 201);
    assert!(!engine.log().contains("secret of the hook"), "{}", engine.log());
}
