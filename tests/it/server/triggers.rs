//! What comes in through the inbox and through signed webhooks, end to end.

use super::fixture::{Answer, Server, config, eventually};
use hmac::{Hmac, Mac};
use midwatch::config::{Config, Hook, Inbox};
use midwatch::kernel::ids::Millis;
use midwatch::kernel::task_type::{Per, Rate};
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const SECRET: &str = "It's a Secret to Everybody";

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A schema by which a payload must have a `page`.
fn with_schema(config: &mut Config, dir: &Path) {
    let file = dir.join("page.schema.json");
    write(&file, r#"{"required": ["page"], "properties": {"page": {"type": "integer"}}}"#);
    config.handlers.get_mut("fetch_data").unwrap().schema = Some(file);
}

fn hook(dir: &Path) -> Hook {
    let secret_file = dir.join("secret");
    write(&secret_file, &format!("{SECRET}\n"));
    Hook {
        kind: "fetch_data".to_owned(),
        secret_file,
        key_header: None,
        rate: Rate { count: 600, per: Per::Minute },
        max_body: 1 << 20,
        priority: Some(7),
    }
}

fn with_hook(change: impl FnOnce(&mut Config, &Path)) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_owned();
    Server::start_in(dir, |config| {
        config.hooks.insert("deploy".to_owned(), hook(&at));
        change(config, &at);
    })
    .unwrap()
}

fn sign(secret: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let digits = data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes());
    format!("X-Hub-Signature-256: sha256={digits}")
}

/// A delivery with these lines in its head.
fn post(server: &Server, hook: &str, lines: &[&str], body: &str) -> Answer {
    let mut stream = server.connect();
    let lines: String = lines.iter().flat_map(|line| [*line, "\r\n"]).collect();
    let head = format!(
        "POST /v1/hooks/{hook} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{lines}\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    drop(stream.write_all(body.as_bytes()));
    Answer::read(&mut stream)
}

fn deliver(server: &Server, id: &str, body: &str) -> Answer {
    post(server, "deploy", &[&sign(SECRET, body), &format!("X-GitHub-Delivery: {id}")], body)
}

fn task(server: &Server, id: &Value) -> Value {
    server.get(&format!("/v1/tasks/{id}")).json()
}

fn total(server: &Server) -> u64 {
    server.get("/v1/tasks?limit=1").json()["total"].as_u64().unwrap()
}

// spec: TRG-024, TRG-026
#[test]
fn a_signed_delivery_becomes_a_task_and_a_replay_names_the_same_one() {
    let server = with_hook(|config, dir| {
        let custom = Hook { key_header: Some("My-Id".to_owned()), ..hook(dir) };
        config.hooks.insert("custom".to_owned(), custom);
    });
    let body = "{ \"page\" : 7.0,\n \"a\":\"\\u00e9\" }";
    let first = deliver(&server, "d-1", body);
    assert_eq!(first.status, 201, "{}", first.text());
    let id = first.json()["id"].clone();
    let made = server.get(&format!("/v1/tasks/{id}"));
    assert!(made.text().contains(body), "byte for byte: {}", made.text());
    let made = made.json();
    assert_eq!((&made["type"], &made["priority"]), (&json!("fetch_data"), &json!(7)));
    assert_eq!(made["key"], "hook:deploy:d-1");
    let history = server.get(&format!("/v1/tasks/{id}/history")).json();
    assert!(history.to_string().contains("hook deploy"), "{history}");
    let again = deliver(&server, "d-1", body);
    assert_eq!((again.status, again.json()), (200, json!({"id": id, "existed": true})));
    let other = deliver(&server, "d-1", "{}");
    assert_eq!(other.refusal().1, "key_conflict");
    // Each hook has keys of its own, and may have a header of its own for them.
    let custom = format!("{}\r\nX-GitHub-Delivery: d-1\r\nmy-id: d-1", sign(SECRET, "{}"));
    let made = post(&server, "custom", &[&custom], "{}").json();
    assert_eq!(task(&server, &made["id"])["key"], "hook:custom:d-1");
    let unnamed = custom.replace("my-id", "our-id");
    let made = post(&server, "custom", &[&unnamed], "{}").json();
    assert_eq!(task(&server, &made["id"])["key"], Value::Null);
    // Without an id there is no key, and a replay is another task.
    let bare = [&*sign(SECRET, body)];
    let tasks = [(); 2].map(|()| post(&server, "deploy", &bare, body).json()["id"].clone());
    assert_ne!(tasks[0], tasks[1]);
    // A key that a delivery would have cannot be taken by anybody else before.
    let taken = server.post("/v1/tasks", &json!({"type": "render", "key": "hook:deploy:d-2"}));
    assert_eq!(taken.refusal().1, "invalid_request");
}

// spec: TRG-024
#[test]
fn one_delivery_that_comes_many_times_at_once_is_one_task() {
    let server = with_hook(|_, _| ());
    let ids: Vec<_> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| deliver(&server, "same", r#"{"a":1}"#).json()["id"].clone()))
            .collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(total(&server), 1);
}

// spec: TRG-023
#[test]
fn what_is_not_rightly_signed_is_refused_with_the_same_words_whatever_is_wrong() {
    let server = with_hook(|_, _| ());
    let body = "{}";
    let right = sign(SECRET, body);
    let wrong = [
        sign("another secret of its own", body),
        sign(SECRET, "{} "),
        "X-Hub-Signature-256: sha256=".to_owned(),
        "X-Hub-Signature-256: nonsense".to_owned(),
        right.replace("sha256=", "sha1="),
        "X-Unknown: 1".to_owned(),
        format!("Stripe-Signature: t=1,v1={}", "0".repeat(64)),
    ];
    let mut said: Vec<_> =
        wrong.iter().map(|line| post(&server, "deploy", &[line], body).refusal()).collect();
    said.dedup();
    let detail = "the delivery has no signature that this hook believes".to_owned();
    assert_eq!(said, [(401, "bad_signature".to_owned(), detail)]);
    assert_eq!(post(&server, "release", &[&right], body).refusal().1, "no_such_hook");
    assert_eq!(total(&server), 0);
    assert_eq!(post(&server, "deploy", &[&right], body).status, 201);
}

// spec: TRG-026
#[test]
fn a_body_that_is_no_json_or_too_large_and_an_id_that_is_no_id_are_refused() {
    let server = with_hook(|config, _| {
        config.hooks.get_mut("deploy").unwrap().max_body = 100;
    });
    for bad in ["", "{", "{} {}", "payload=%7B%7D", "\"\\ud800\""] {
        let said = deliver(&server, "1", bad).refusal();
        assert_eq!((said.0, &*said.1), (422, "invalid_payload"), "{bad}: {}", said.2);
    }
    let large = format!("\"{}\"", "x".repeat(100));
    assert_eq!(deliver(&server, "1", &large).refusal().1, "invalid_request");
    for id in ["", "a b", &"x".repeat(201)] {
        assert_eq!(deliver(&server, id, "{}").refusal().1, "invalid_request", "{id}");
    }
    assert_eq!(deliver(&server, &"x".repeat(200), "{}").status, 201);
    assert_eq!(total(&server), 1);
}

// spec: TRG-025
#[test]
fn beyond_its_rate_a_hook_answers_when_to_come_again_and_only_who_is_believed_is_counted() {
    let server = with_hook(|config, _| {
        config.hooks.get_mut("deploy").unwrap().rate = Rate { count: 2, per: Per::Hour };
    });
    for _ in 0..5 {
        assert_eq!(post(&server, "deploy", &[&sign("an unknown secret", "{}")], "{}").status, 401);
    }
    assert_eq!(deliver(&server, "1", "{}").status, 201);
    assert_eq!(deliver(&server, "1", "{}").status, 200);
    let answer = deliver(&server, "2", "{}");
    assert_eq!(answer.refusal().1, "over_limit");
    let wait = answer.head.split("retry-after: ").nth(1).unwrap().lines().next().unwrap();
    let wait: u64 = wait.parse().unwrap();
    assert!((3000..=3600).contains(&wait), "{wait}");
}

// spec: TRG-010, TRG-030
#[test]
fn a_payload_that_does_not_fit_is_refused_or_where_nobody_hears_recorded_as_failed() {
    let server = with_hook(with_schema);
    let refused =
        server.post("/v1/tasks", &json!({"type": "fetch_data", "payload": {"page": "x"}}));
    let (status, code, detail) = refused.refusal();
    assert_eq!((status, &*code), (422, "invalid_payload"));
    assert!(detail.contains("`/page`") && detail.contains("integer"), "{detail}");
    let lines = "{\"type\":\"fetch_data\",\"payload\":{}}\n{\"type\":\"fetch_data\",\"payload\":{\"page\":1}}\n";
    let lines = server.send("POST", "/v1/tasks", "application/x-ndjson", lines.as_bytes()).lines();
    assert_eq!(lines[0]["error"]["code"], "invalid_payload");
    assert!(lines[1]["id"].is_u64(), "{lines:?}");
    let schedule = json!({"type": "fetch_data", "every": "1h", "payload": {"page": "x"}});
    let refused = server.post("/v1/schedules/hourly", &schedule).refusal();
    assert_eq!((refused.0, &*refused.1), (422, "invalid_payload"));
    let delivered = deliver(&server, "1", r#"{"ref":"main"}"#);
    assert_eq!(delivered.status, 201, "{}", delivered.text());
    let made = task(&server, &delivered.json()["id"]);
    assert_eq!(made["status"], "FAILED");
    assert!(made["error"].as_str().unwrap().contains("\"page\" is a required property"), "{made}");
    let history = server.get(&format!("/v1/tasks/{}/history", delivered.json()["id"])).text();
    assert!(history.contains("invalid_input"), "{history}");
    assert_eq!(deliver(&server, "1", r#"{"ref":"main"}"#).status, 200);
}

// spec: TRG-020, TRG-030
#[test]
fn a_server_does_not_start_with_an_open_secret_or_without_a_schema() {
    let start = |change: fn(&mut Config, &Path)| {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().to_owned();
        let error = Server::start_in(dir, |config| change(config, &at)).err().unwrap();
        (error.exit_code, error.text)
    };
    let (code, text) = start(|config, dir| {
        let hook = hook(dir);
        fs::set_permissions(&hook.secret_file, fs::Permissions::from_mode(0o644)).unwrap();
        config.hooks.insert("deploy".to_owned(), hook);
    });
    assert_eq!(code, 2);
    assert!(text.starts_with("`hooks.deploy.secret_file`") && !text.contains(SECRET), "{text}");
    let (code, text) = start(|config, dir| {
        config.handlers.get_mut("render").unwrap().schema = Some(dir.join("none.json"));
    });
    assert_eq!(code, 2);
    assert!(text.starts_with("`handlers.render.schema`: the schema /"), "{text}");
}

/// A server with an inbox that settles soon; `change` may have it otherwise.
fn with_inbox(change: impl FnOnce(&mut Config, &Path)) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_owned();
    Server::start_in(dir, |config| {
        config.inbox = Some(Inbox {
            path: at.join("in"),
            rescan: Millis::secs(1),
            settle: Millis(300),
            types: BTreeMap::from([("images".to_owned(), "render".to_owned())]),
        });
        change(config, &at);
    })
    .unwrap()
}

fn place(server: &Server, name: &str) -> PathBuf {
    server.dir.path().join("in").join(name)
}

/// Hands a file over as it should be: written under another name, then renamed.
fn drop_in(server: &Server, name: &str, text: &str) {
    let aside = server.dir.path().join("aside");
    fs::write(&aside, text).unwrap();
    fs::rename(aside, place(server, name)).unwrap();
}

fn until_total(server: &Server, tasks: u64) {
    eventually(&format!("{tasks} tasks"), || (total(server) == tasks).then_some(()));
}

fn newest(server: &Server) -> Value {
    let id = server.get("/v1/tasks?limit=1").json()["tasks"][0]["id"].clone();
    task(server, &id)
}

fn until_there(path: &Path) {
    eventually(&format!("{} is there", path.display()), || path.exists().then_some(()));
}

/// The texts of all reasons there are.
fn reasons(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(place(server, "rejected")).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|it| it == "reason"));
    let mut reasons: Vec<_> = paths.map(|path| fs::read_to_string(path).unwrap()).collect();
    reasons.sort();
    reasons
}

// spec: TRG-001, TRG-002, TRG-003, TRG-012
#[test]
fn b82_a_file_becomes_one_task_however_it_comes() {
    let server = with_inbox(|_, _| ());
    until_there(&place(&server, ""));
    let text = |page: u32| format!(r#"{{"type":"fetch_data","payload":{{"page":{page}}}}}"#);
    // Renamed in from elsewhere.
    drop_in(&server, "moved", &text(1));
    until_total(&server, 1);
    // Written beside and renamed.
    fs::write(place(&server, "b.tmp"), text(2)).unwrap();
    fs::rename(place(&server, "b.tmp"), place(&server, "b")).unwrap();
    until_total(&server, 2);
    // Written slowly, with a pause after which it is opened again.
    fs::write(place(&server, "slow"), &text(3)[..20]).unwrap();
    let mut slow = fs::OpenOptions::new().append(true).open(place(&server, "slow")).unwrap();
    slow.write_all(&text(3).as_bytes()[20..]).unwrap();
    drop(slow);
    until_total(&server, 3);
    assert_eq!(newest(&server)["payload"], json!({"page": 3}));
    // Never looked at.
    for name in [".hidden", "c.part", "c.tmp"] {
        fs::write(place(&server, name), text(9)).unwrap();
    }
    // The same name again is another file, and so another task; the same events twice are not.
    drop_in(&server, "moved", &text(1));
    until_total(&server, 4);
    let touched = fs::File::create(place(&server, "late")).unwrap();
    drop(touched);
    fs::write(place(&server, "late"), text(4)).unwrap();
    until_total(&server, 5);
    assert!(newest(&server)["key"].as_str().unwrap().starts_with("inbox:"));
    let history = server.get("/v1/tasks/1/history").text();
    assert!(history.contains("\"inbox\""), "{history}");
    // Nothing of it comes again when the next daemon looks.
    let dir = server.stop();
    let left: Vec<_> = fs::read_dir(dir.path().join("in"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in [".hidden", "c.part", "c.tmp"] {
        assert!(left.contains(&name.to_owned()), "{left:?}");
    }
    assert!(!left.iter().any(|name| ["moved", "b", "slow", "late"].contains(&&**name)), "{left:?}");
}

// spec: TRG-002
#[test]
fn what_is_renamed_in_is_taken_at_once_and_what_grows_is_not() {
    let server = with_inbox(|config, _| {
        let inbox = config.inbox.as_mut().unwrap();
        (inbox.rescan, inbox.settle) = (Millis::secs(86_400), Millis::secs(3600));
    });
    until_there(&place(&server, "images"));
    fs::write(place(&server, "grows"), r#"{"type":"render"}"#).unwrap();
    // The inbox may not be watched yet; once it is, one of these is heard of.
    let mut dropped = 0;
    eventually("a file is heard of", || {
        dropped += 1;
        drop_in(&server, &format!("moved{dropped}"), r#"{"type":"render"}"#);
        (0 < total(&server)).then_some(())
    });
    drop_in(&server, "images/picture", "a picture");
    eventually("and one of a type", || (newest(&server)["payload"] != Value::Null).then_some(()));
    assert!(place(&server, "grows").exists());
}

// spec: TRG-004, TRG-008, TRG-006, TRG-010
#[test]
fn files_of_a_type_stay_for_their_handler_and_bad_ones_are_set_aside() {
    let server = with_inbox(with_schema);
    until_there(&place(&server, "images"));
    fs::set_permissions(server.dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    drop_in(&server, "images/cat.png", "a picture");
    until_total(&server, 1);
    let made = newest(&server);
    assert_eq!((&made["type"], &made["payload"]["name"]), (&json!("render"), &json!("cat.png")));
    let path = made["payload"]["path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "a picture");
    // Neither link nor pipe is followed, opened or moved.
    let target = server.dir.path().join("target");
    fs::write(&target, r#"{"type":"render"}"#).unwrap();
    std::os::unix::fs::symlink(&target, place(&server, "link")).unwrap();
    let pipe = place(&server, "pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let bad = [
        ("nonsense", "{", "not valid JSON"),
        ("unknown", r#"{"type":"rendr"}"#, "did you mean `render`?"),
        ("own", r#"{"type":"exec","payload":{"argv":["/bin/true"]}}"#, "commands of their own"),
        ("stolen", r#"{"type":"render","key":"hook:a:1"}"#, "must not begin with `hook:`"),
    ];
    for (name, text, _) in bad {
        drop_in(&server, name, text);
    }
    let told = eventually("all are set aside", || {
        Some(reasons(&server)).filter(|reasons| reasons.len() == bad.len())
    });
    for (name, _, why) in bad {
        assert!(told.iter().any(|reason| reason.contains(why)), "{name}: {told:?}");
    }
    assert!(place(&server, "link").is_symlink() && pipe.exists() && target.exists());
    // JSON that its type's schema does not take is recorded, not set aside.
    drop_in(&server, "wrong", r#"{"type":"fetch_data","payload":{"page":"x"}}"#);
    until_total(&server, 2);
    assert_eq!(newest(&server)["status"], "FAILED");
    // A key of the file's own counts as anywhere.
    for name in ["k1", "k2"] {
        drop_in(&server, name, r#"{"type":"render","key":"mine"}"#);
    }
    drop_in(&server, "last", r#"{"type":"render","payload":"last"}"#);
    eventually("the last one is taken", || (newest(&server)["payload"] == "last").then_some(()));
    assert_eq!(total(&server), 4);
}

// spec: TRG-011, TRG-012
#[test]
fn an_inbox_that_is_missing_is_told_by_status_and_mended_by_making_it() {
    let server = with_inbox(|config, dir| {
        config.inbox.as_mut().unwrap().path = dir.join("away/in");
    });
    let told = || {
        let status = server.get("/v1/status").json();
        let points = status["attention"].as_array().unwrap().clone();
        points.iter().any(|point| point["what"].as_str().unwrap().starts_with("the inbox takes"))
    };
    eventually("status tells of it", || told().then_some(()));
    fs::create_dir(server.dir.path().join("away")).unwrap();
    let inbox = server.dir.path().join("away/in");
    until_there(&inbox);
    eventually("status tells of it no more", || (!told()).then_some(()));
    // Another directory in its place is heard of no more than by looking through it.
    fs::rename(&inbox, server.dir.path().join("old")).unwrap();
    let new = server.dir.path().join("new");
    fs::create_dir(&new).unwrap();
    fs::write(new.join("a"), r#"{"type":"render"}"#).unwrap();
    if fs::rename(&new, &inbox).is_err() {
        // The inbox was made anew before.
        fs::rename(new.join("a"), inbox.join("a")).unwrap();
    }
    until_total(&server, 1);
}

// spec: TRG-007
#[test]
fn b82_twenty_thousand_files_at_once_are_as_many_tasks_and_requests_are_answered_meanwhile() {
    const FILES: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let inbox = dir.path().join("in");
    fs::create_dir(&inbox).unwrap();
    for number in 0..FILES {
        let text = format!(r#"{{"type":"render","payload":{number}}}"#);
        fs::write(inbox.join(number.to_string()), text).unwrap();
    }
    let server = Server::start_in(dir, |config| {
        let types = BTreeMap::new();
        let (rescan, settle) = (Millis::secs(30), Millis(200));
        config.inbox = Some(Inbox { path: inbox.clone(), rescan, settle, types });
    })
    .unwrap();
    let mut meanwhile = 0;
    let limit = std::time::Instant::now() + std::time::Duration::from_mins(5);
    loop {
        let tasks = total(&server);
        if tasks == FILES {
            break;
        }
        assert!(tasks < FILES && std::time::Instant::now() < limit, "{tasks}");
        meanwhile += u64::from(0 < tasks);
    }
    assert!(3 < meanwhile, "nobody was answered while files were taken");
    eventually("all of it is cleared away", || {
        let left = fs::read_dir(inbox.join(".taken")).unwrap().count();
        (left == 0 && fs::read_dir(&inbox).unwrap().count() == 1).then_some(())
    });
    assert_eq!(total(&server), FILES);
}

// spec: TRG-009
#[test]
fn what_finds_no_room_waits_and_is_taken_when_there_is_some() {
    let server = with_inbox(|config, _| config.retention.max_state = 4 << 20);
    until_there(&place(&server, ""));
    let large = "x".repeat(900_000);
    let paused = server.post("/v1/types/render/pause", &json!({}));
    assert_eq!(paused.status, 200);
    let mut ids = Vec::new();
    loop {
        let answer = server.post("/v1/tasks", &json!({"type": "render", "payload": large}));
        if answer.status != 201 {
            assert_eq!(answer.refusal().1, "over_limit");
            break;
        }
        ids.push(answer.json()["id"].clone());
    }
    drop_in(&server, "a", &json!({"type": "render", "payload": large}).to_string());
    eventually("status tells of it", || {
        let status = server.get("/v1/status").json().to_string();
        status.contains("the inbox takes nothing: what was taken waits").then_some(())
    });
    let key = |server: &Server| newest(server)["key"].clone();
    assert_eq!(key(&server), Value::Null);
    assert!(reasons(&server).is_empty());
    // Nothing ends here but by a hand; a daemon with more room takes what waited.
    let dir = server.stop();
    let at = dir.path().to_owned();
    let server = Server::start_in(dir, |config| {
        let types = BTreeMap::new();
        let (rescan, settle) = (Millis::secs(1), Millis(300));
        config.inbox = Some(Inbox { path: at.join("in"), rescan, settle, types });
    })
    .unwrap();
    until_total(&server, ids.len() as u64 + 1);
    assert!(key(&server).as_str().unwrap().starts_with("inbox:"));
}

#[test]
fn without_an_inbox_none_is_made() {
    let server = Server::start();
    assert!(config(server.dir.path()).inbox.is_none());
    assert_eq!(server.get("/healthz").status, 200);
    assert!(!server.dir.path().join("data/inbox").exists());
}
