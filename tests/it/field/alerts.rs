//! Alerts end to end: webhooks that are dead, slow or wrong, commands, and who learns what.

use super::house::{CALM, House, kill};
use super::reload::{config, put};
use midwatch::kernel::status::Status;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What makes an address a secret.
pub(super) const TOKEN: &str = "T0K3N-that-nobody-may-see";

/// How a webhook answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answers {
    /// 200, and a body.
    Well(&'static str),
    /// Another status.
    Status(&'static str),
    /// It takes the request and says nothing for half a minute.
    Late,
    /// It sends elsewhere.
    Redirect(SocketAddr),
}

/// A webhook on a port of its own.
struct Hook {
    at: SocketAddr,
    answers: Arc<Mutex<Answers>>,
    /// How it answered, the path, and the body.
    requests: Arc<Mutex<Vec<(Answers, String, String)>>>,
}

impl Hook {
    fn start(answers: Answers) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), answers)
    }

    fn start_at(at: SocketAddr, answers: Answers) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let at = listener.local_addr().unwrap();
        let answers = Arc::new(Mutex::new(answers));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (how, seen) = (Arc::clone(&answers), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (how, seen) = (how.lock().unwrap().clone(), Arc::clone(&seen));
                thread::spawn(move || serve(stream.unwrap(), how, &seen));
            }
        });
        Self { at, answers, requests }
    }

    fn url(&self, way: &str) -> String {
        format!("http://{}/{way}/{TOKEN}?key={TOKEN}", self.at)
    }

    fn now(&self, answers: Answers) {
        *self.answers.lock().unwrap() = answers;
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The messages that it took.
    fn took(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let took = requests.iter().filter(|(how, ..)| matches!(how, Answers::Well(_)));
        took.map(|(_, _, body)| body.clone()).collect()
    }
}

fn serve(mut stream: TcpStream, how: Answers, seen: &Mutex<Vec<(Answers, String, String)>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let answer = match &how {
        Answers::Well(body) => {
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        }
        Answers::Status(status) => format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"),
        Answers::Redirect(to) => format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{to}/elsewhere\r\n\
             content-length: 0\r\n\r\n"
        ),
        Answers::Late => {
            seen.lock().unwrap().push((how, path, String::from_utf8(body).unwrap()));
            thread::sleep(Duration::from_secs(30));
            return;
        }
    };
    seen.lock().unwrap().push((how, path, String::from_utf8(body).unwrap()));
    // Whoever asked may be gone.
    drop(stream.write_all(answer.as_bytes()));
}

/// An engine or daemon must not send to this machine through a proxy.
pub(super) fn no_proxy(house: &House, args: &[&str]) -> std::process::Command {
    let mut command = house.command(args);
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    command
}

fn start(house: &House) -> (super::house::Part, super::house::Part) {
    let engine = house.spawn("engine", no_proxy(house, &["engine"]));
    house.until_served();
    let worker = house.worker("w1", 2);
    (engine, worker)
}

fn alerts(house: &House) -> Vec<Value> {
    let all: Value = house.client().get("/v1/alerts").unwrap();
    all["alerts"].as_array().unwrap().clone()
}

fn standing(house: &House, rule: &str) -> Option<Value> {
    let found = |alert: &Value| alert["rule"] == rule && alert["over"].is_null();
    alerts(house).into_iter().find(found)
}

const FAILS: &str = "exit 64";
const ONCE: &str = "retry = { max_retry = 0 }";

// spec: ALT-010
// B86: a webhook that is dead, slow, or answers with errors held everything up, and what it missed
// was lost or came again and again.
#[test]
fn b86_dead_slow_and_failing_webhooks_delay_nothing_and_lose_nothing_over_a_kill() {
    let elsewhere = Hook::start(Answers::Well("ok"));
    let refusing = Answers::Well(r#"{"errcode":310000,"errmsg":"keywords not in content"}"#);
    let hooks = [
        ("late", "slack", Hook::start(Answers::Late), "ok"),
        ("failing", "json", Hook::start(Answers::Status("500 Internal Server Error")), ""),
        ("moved", "json", Hook::start(Answers::Redirect(elsewhere.at)), ""),
        ("refusing", "wecom", Hook::start(refusing), r#"{"errcode":0,"errmsg":"ok"}"#),
    ];
    // A port at which nobody listens for now.
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut more = String::new();
    for (name, style, hook, _) in &hooks {
        more +=
            &format!("[alerts.{name}]\nwebhook = \"{}\"\nstyle = \"{style}\"\n", hook.url(name));
        more += "group_wait = \"1s\"\nmin_level = \"critical\"\n";
    }
    more += &format!(
        "[alerts.dead]\nwebhook = \"http://{dead}/{TOKEN}\"\ngroup_wait = \"1s\"\n\
         min_level = \"critical\"\n"
    );
    let house = House::with(&more, CALM, &[("bad", FAILS, ONCE), ("good", "exit 0", "")]);
    let (engine, worker) = start(&house);
    for _ in 0..20 {
        let id = house.submit("bad", "null");
        house.until_status(id, Status::Failed);
    }
    house.until("each was tried", |_| {
        hooks.iter().all(|(_, _, hook, _)| 0 < hook.count()).then_some(())
    });
    // Nobody waits for them: work goes on as ever.
    for _ in 0..20 {
        let id = house.submit("good", "null");
        house.until_status(id, Status::Success);
    }
    // A dead one is told of by the others, as a point of status, and in the list.
    house.until("the dead channel is an alert", |house| standing(house, "channel_failing"));
    let seen = standing(&house, "task_failed").unwrap();
    assert_eq!((&seen["count"], &seen["level"]), (&20.into(), &"critical".into()));
    check_secret(&house, engine.pid());
    kill(engine.pid());
    drop(engine);
    let before: Vec<_> = hooks.iter().map(|(_, _, hook, _)| hook.count()).collect();
    for (_, _, hook, well) in &hooks {
        hook.now(Answers::Well(well));
    }
    let back = Hook::start_at(dead, Answers::Well(""));
    let engine = house.spawn("engine", no_proxy(&house, &["engine"]));
    house.until_served();
    // After a start nobody waits for the end of a pause: all of it arrives, once.
    let tells = |hook: &Hook| hook.took().iter().filter(|it| it.contains("20 tasks")).count();
    for hook in hooks.iter().map(|(_, _, hook, _)| hook).chain([&back]) {
        house.until(&format!("the message arrives: {:?}", hook.took()), |_| {
            (1 <= tells(hook)).then_some(())
        });
    }
    house.until("no channel is in trouble", |house| {
        standing(house, "channel_failing").is_none().then_some(())
    });
    for ((name, _, hook, _), before) in hooks.iter().zip(before) {
        assert_eq!(tells(hook), if *name == "refusing" { tells(hook) } else { 1 }, "{name}");
        assert!(before <= 6, "{name} was asked {before} times: a storm");
        assert!(hook.count() <= before + 3, "{name}: the start brought a storm");
    }
    assert_eq!(elsewhere.count(), 0, "a redirect was followed");
    check_secret(&house, engine.pid());
    drop((engine, worker));
}

/// The token of an address stands nowhere but in the config.
fn check_secret(house: &House, pid: u32) {
    let shown = [
        house.say(&["config", "show"]),
        house.say(&["config", "show", "--json"]),
        house.say(&["alerts", "--json"]),
        String::from_utf8_lossy(&house.run(&["status", "--json"]).stdout).into_owned(),
        house.account(),
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap(),
    ];
    for text in shown {
        assert!(!text.contains(TOKEN), "{text}");
    }
    for (path, bytes) in super::house::bytes_of(&house.data("journal")) {
        let found = bytes.windows(TOKEN.len()).any(|some| some == TOKEN.as_bytes());
        assert!(!found, "the token stands in {}", path.display());
    }
}

/// A program that is told: the JSON it gets, its failures, and what people do about an alert.
#[test]
fn a_command_is_told_everything_and_a_person_acknowledges_it() {
    let told = "[alerts.pager]\ncommand = [\"/bin/sh\", \"-c\", \"exec HOME/page\"]\n\
                group_wait = \"1s\"\nrepeat = \"1m\"\n";
    let lines = "retry = { max_retry = 1 }\nadvice = \"check the upstream API first\"\n\
                 contact = \"ops\"\n";
    let fails = "echo 'HTTP 502' >&2; exit 1";
    let house = House::with(told, CALM, &[("fetch", fails, lines)]);
    let script = house.path("page");
    let home = house.path("").display().to_string();
    let text = "#!/bin/sh\n[ -e HOME/mended ] || { echo 'no paper'; exit 3; }\ncat >>HOME/told\necho >>HOME/told\n";
    std::fs::write(&script, text.replace("HOME/", &home)).unwrap();
    let mut mode = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o700);
    std::fs::set_permissions(&script, mode).unwrap();
    let text = config(&house).replace("exec HOME/page", &format!("exec {home}page"));
    put(&house.path("midwatch.toml"), &text);
    let (engine, _worker) = start(&house);
    let id = house.submit("fetch", "null");
    house.until_status(id, Status::Dead);
    house.until("it said that it could not", |_| {
        engine.log().contains("ended with exit status 3").then_some(())
    });
    assert!(engine.log().contains("says: no paper"), "{}", engine.log());
    let tested = house.run(&["alerts", "test"]);
    assert_eq!(tested.status.code(), Some(1));
    let out = String::from_utf8(tested.stdout).unwrap();
    assert_eq!(out, "pager: /bin/sh ended with exit status 3\n");
    house.touch("mended");
    let said = house.until_file("told");
    let notice: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    let alert = &notice["alerts"][0];
    assert_eq!(notice["level"], "warning");
    assert_eq!((&alert["says"], &alert["rule"]), (&"stands".into(), &"task_failed".into()));
    assert_eq!(alert["advice"], "check the upstream API first");
    assert_eq!(alert["contact"], "ops");
    let task = &alert["task"];
    assert_eq!(
        (&task["id"], &task["attempts"], &task["retries"]),
        (&id.0.into(), &2.into(), &2.into())
    );
    assert_eq!(task["log"], format!("midwatch log {id}"));
    assert!(alert["action"].as_str().unwrap().contains("midwatch retry"), "{alert}");
    assert_eq!(house.say(&["alerts", "test", "pager"]), "pager: took the message");
    let number = alert["id"].to_string();
    assert!(house.say(&["alerts", "ack", &number]).contains("acknowledged"));
    let again = house.say(&["alerts", "ack", &number]);
    assert!(again.contains("was acknowledged already"), "{again}");
    assert_eq!(house.run(&["alerts", "ack", "999"]).status.code(), Some(3));
    assert_eq!(house.run(&["alerts", "test", "nobody"]).status.code(), Some(3));
    assert!(!alerts(&house)[0]["acked"].is_null());
    drop(engine);
}

// B77: nobody knew that a config was refused. B86 beside it: channels change at run time.
#[test]
fn b77_a_refused_config_is_an_alert_that_is_told_and_over_when_it_is_mended() {
    let first = Hook::start(Answers::Well(""));
    let told = format!(
        "[alerts.ops]\nwebhook = \"{}\"\ngroup_wait = \"1s\"\n\
         group_interval = \"0s\"\n",
        first.url("first")
    );
    let house = House::with(&told, CALM, &[("job", "exit 0", "")]);
    let (engine, _worker) = start(&house);
    let good = config(&house);
    put(&house.path("midwatch.toml"), &format!("{good}[handlers.broken\n"));
    house.until("it is told", |_| {
        first.took().iter().any(|it| it.contains("config_refused")).then_some(())
    });
    assert!(standing(&house, "config_refused").is_some());
    // Mended, with another channel: the first is let go, the second told from now on.
    let second = Hook::start(Answers::Well(""));
    put(&house.path("midwatch.toml"), &good.replace(&first.url("first"), &second.url("second")));
    house.until("it is over", |house| standing(house, "config_refused").is_none().then_some(()));
    house.until("the second is told of it", |_| (0 < second.count()).then_some(()));
    let over = second.took().concat();
    assert!(over.contains("\"says\":\"over\"") && over.contains("config_refused"), "{over}");
    assert_eq!(first.took().iter().filter(|it| it.contains("config_refused")).count(), 1);
    drop(engine);
}

/// Somebody outside is pinged while all is well, and not while something critical stands.
#[test]
fn the_ping_falls_silent_while_something_critical_stands() {
    let outside = Hook::start(Answers::Status("503 Service Unavailable"));
    let ping = format!("[ping]\nurl = \"{}\"\nevery = \"1s\"\n", outside.url("ping"));
    let script = "[ -e \"$DIR/mended\" ] || exit 64";
    let house = House::with(&ping, CALM, &[("job", script, ONCE)]);
    let (engine, _worker) = start(&house);
    house.until("a failed ping is told", |house| {
        let status = house.status()?;
        status.attention.iter().any(|it| it.what.contains("the ping does not arrive")).then_some(())
    });
    assert_eq!(engine.log().matches("the ping did not arrive").count(), 1);
    outside.now(Answers::Well("OK"));
    house.until("it arrives", |_| (2 <= outside.took().len()).then_some(()));
    for _ in 0..3 {
        let id = house.submit("job", "null");
        house.until_status(id, Status::Failed);
    }
    assert_eq!(house.status().unwrap().health, "CRITICAL");
    // The one that was on its way arrives; then there is silence until the next success.
    thread::sleep(Duration::from_millis(500));
    let before = outside.count();
    thread::sleep(Duration::from_secs(3));
    assert_eq!(outside.count(), before, "no ping while something critical stands");
    house.touch("mended");
    let id = house.submit("job", "null");
    house.until_status(id, Status::Success);
    house.until("it is pinged again", |_| (before < outside.count()).then_some(()));
    drop(engine);
}

/// Has the host be looked at soon: the config is read again when it is touched, and with it that.
fn look(house: &House) {
    put(&house.path("midwatch.toml"), &config(house));
    thread::sleep(Duration::from_millis(1200));
}

fn until_standing(house: &House, rule: &str) -> Value {
    house.until(&format!("{rule} stands"), |house| {
        look(house);
        standing(house, rule)
    })
}

fn until_over(house: &House, rule: &str) {
    house.until(&format!("{rule} is over"), |house| {
        look(house);
        standing(house, rule).is_none().then_some(())
    });
}

fn acknowledge(house: &House, alert: &Value) {
    let said = house.say(&["alerts", "ack", &alert["id"].to_string()]);
    assert!(said.contains("acknowledged"), "{said}");
}

fn health(house: &House) -> String {
    house.status().unwrap().health
}

/// What was acknowledged before a start is calm after it, also while those who know whether it
/// still is were not heard yet; what the start itself finds is news.
#[test]
fn an_acknowledged_alert_stays_calm_over_a_start_and_new_damage_does_not() {
    let house = House::new(CALM, &[("job", "exit 0", "")]);
    let engine = house.engine();
    let damage = || {
        std::fs::create_dir_all(house.data("quarantine")).unwrap();
        std::fs::write(house.data("quarantine").join("piece"), b"x").unwrap();
    };
    damage();
    house.submit("job", "null");
    let damaged = until_standing(&house, "journal_damaged");
    let alone = until_standing(&house, "no_worker");
    assert_eq!(health(&house), "CRITICAL");
    acknowledge(&house, &damaged);
    assert_eq!(health(&house), "CRITICAL", "there is no worker");
    acknowledge(&house, &alone);
    assert_eq!(health(&house), "ATTENTION");
    let doctor = house.run(&["doctor"]);
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains("(acknowledged by "), "{doctor}");
    // Over, and back: it is as grave as ever.
    std::fs::remove_dir_all(house.data("quarantine")).unwrap();
    until_over(&house, "journal_damaged");
    damage();
    let damaged = until_standing(&house, "journal_damaged");
    assert_eq!(health(&house), "CRITICAL");
    acknowledge(&house, &damaged);
    engine.kill();
    let engine = house.engine();
    assert_eq!(health(&house), "ATTENTION");
    house.until("the wait for a worker is told again", |house| {
        let points = house.status()?.attention;
        points.into_iter().find(|point| point.alert.as_deref() == Some("no_worker workers"))
    });
    assert_eq!(health(&house), "ATTENTION");
    for alert in ["no_worker", "journal_damaged"] {
        let known = standing(&house, alert).unwrap();
        assert!(!known["acked"].is_null() && known["count"] == 1, "{known}");
    }
    // The last record is whole and wrong at the next start.
    house.submit("job", "\"the-last-record\"");
    engine.kill();
    let found = super::house::bytes_of(&house.data("journal")).into_iter().find_map(|file| {
        let place = file.1.windows(15).rposition(|some| some == b"the-last-record")?;
        Some((file, place))
    });
    let ((segment, mut bytes), place) = found.unwrap();
    bytes[place] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    let _engine = house.engine();
    house.until("the damage is news", |house| {
        standing(house, "journal_damaged").filter(|alert| alert["acked"].is_null())
    });
    assert_eq!(health(&house), "CRITICAL");
}

/// A handler that tells nothing of how far it is, and hangs.
#[test]
fn an_attempt_that_runs_much_longer_than_others_is_an_alert_and_is_not_stopped() {
    let script = "[ -e \"$DIR/hang\" ] && until_there go; exit 0";
    let lines = "stall_after = \"1s\"";
    let house = House::new(CALM, &[("often", script, lines), ("rare", script, lines)]);
    let (_engine, _worker) = start(&house);
    for _ in 0..20 {
        let id = house.submit("often", "null");
        house.until_status(id, Status::Success);
    }
    house.touch("hang");
    let rare = house.submit("rare", "null");
    house.until_start(rare, 1);
    let often = house.submit("often", "null");
    house.until_start(often, 1);
    let alert = until_standing(&house, "task_stalled");
    assert_eq!(alert["subject"], often.to_string());
    let what = alert["what"].as_str().unwrap();
    assert!(what.contains("and tells of no progress: 95 of 100 of its type take"), "{what}");
    let status = house.status().unwrap();
    assert_eq!(status.health, "ATTENTION");
    assert!(status.attention.iter().any(|point| point.what == what), "{status:#?}");
    assert_eq!(house.task(often).status, Status::Running);
    house.touch("go");
    house.until_status(often, Status::Success);
    house.until_status(rare, Status::Success);
    until_over(&house, "task_stalled");
}

/// Nobody can end such an alert by a success, and nobody has to.
#[test]
fn failures_of_a_type_that_left_the_config_are_over() {
    let house = House::new(CALM, &[("stays", FAILS, ONCE), ("goes", FAILS, ONCE)]);
    let (_engine, _worker) = start(&house);
    for kind in ["stays", "goes"] {
        let id = house.submit(kind, "null");
        house.until_status(id, Status::Failed);
    }
    let of = |house: &House, kind: &str| {
        let all = alerts(house).into_iter();
        { all }.any(|alert| alert["subject"] == kind && alert["over"].is_null())
    };
    assert!(of(&house, "stays") && of(&house, "goes"));
    let text = config(&house);
    let (rest, gone) = text.split_once("[handlers.goes]").unwrap();
    put(&house.path("midwatch.toml"), rest);
    house.until("it is over", |house| (!of(house, "goes")).then_some(()));
    assert!(of(&house, "stays"));
    put(&house.path("midwatch.toml"), &format!("{rest}[handlers.goes]{gone}"));
}

/// A store whose life clock stands shortly before a full hour, with something to report of it.
fn shortly_before_an_hour(house: &House, before: u64) {
    use midwatch::engine::{Engine, Input, Start, Ticket};
    use midwatch::journal::{Host, Options, RealDisk};
    use midwatch::kernel::event::Actor;
    use midwatch::kernel::ids::{LifeTime, Moment, Timestamp};
    use midwatch::kernel::rules::Rules;
    use midwatch::kernel::task::TaskSpec;

    let dir = house.path("data");
    std::fs::create_dir(&dir).unwrap();
    let owner = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&dir, owner).unwrap();
    let disk = RealDisk::open(&dir).unwrap();
    let machine = Host { machine_id: [1; 16], boot_id: [2; 16], random: 7 };
    let (mut engine, _) =
        Engine::open(disk, Options::default(), machine, Rules::default()).unwrap();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let wall = Timestamp(u64::try_from(since.as_millis()).unwrap());
    let now = Moment { wall, life: LifeTime(3_600_000 - before), ..Moment::default() };
    let begin = Start { version: "1".into(), boot_id: "another".into(), ..Start::default() };
    engine.start(begin, now).unwrap();
    let commands = (0..3).map(|_| midwatch::kernel::Command::Submit(TaskSpec::new("job", "null")));
    let (from, by, commands) = (Ticket(1), Actor::Daemon, commands.collect());
    engine.step(vec![Input::Ask { from, by, commands }], now).unwrap();
    engine.close().unwrap();
}

/// The hourly report goes to those that want it, delays no alert, and is not piled up.
// spec: ALT-013
#[test]
fn a_channel_that_wants_it_gets_the_hourly_report_and_no_alert_waits_for_that() {
    let [slow, plain] = [Answers::Late, Answers::Well("")].map(Hook::start);
    let mut told = String::new();
    for (name, hook, style, report) in
        [("slow", &slow, "json", true), ("plain", &plain, "slack", false)]
    {
        told += &format!(
            "[alerts.{name}]\nwebhook = \"{}\"\nstyle = \"{style}\"\nreport = {report}\n\
             group_wait = \"0s\"\ngroup_interval = \"0s\"\n",
            hook.url(name)
        );
    }
    told += "[alerts.program]\ncommand = [\"/bin/sh\", \"-c\", \"cat >>HOME/told; echo >>HOME/told\"]\n\
             report = true\nmin_level = \"critical\"\n";
    let house = House::with(&told, CALM, &[("job", "exit 0", ""), ("bad", FAILS, ONCE)]);
    let home = house.path("").display().to_string();
    let text = config(&house).replace("HOME/", &home);
    put(&house.path("midwatch.toml"), &text);
    shortly_before_an_hour(&house, 20_000);
    let _engine = house.spawn("engine", no_proxy(&house, &["engine", "--adopt"]));
    house.until_served();
    let _worker = house.worker("w1", 1);
    let report = "the last hour of job: 3 created";
    let said = house.until_file("told");
    let notice: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(notice["title"], "the hourly report");
    assert_eq!((&notice["level"], &notice["alerts"]), (&"info".into(), &serde_json::json!([])));
    assert!(notice["report"][0].as_str().unwrap().starts_with(report), "{notice}");
    // One channel has been asked to take it, and says nothing. An alert goes its own way.
    house.until("it is on its way", |_| (0 < slow.count()).then_some(()));
    slow.now(Answers::Well(""));
    let id = house.submit("bad", "null");
    house.until_status(id, Status::Failed);
    house.until("both arrive", |_| (2 <= slow.took().len()).then_some(()));
    let took = slow.took();
    assert!(took[0].contains("\"task_failed\"") && !took[0].contains(report), "{took:?}");
    assert!(took[1].contains(report), "{took:?}");
    assert_eq!(slow.took().len(), 2, "once");
    house.until("the other channel is told", |_| (0 < plain.count()).then_some(()));
    assert!(!plain.took().concat().contains(report));
}

// The client's patience was shorter than that of the channel, and the outcome unknown.
#[test]
fn a_test_of_a_channel_waits_as_long_as_the_channel_does() {
    let slow = "[alerts.slow]\ncommand = [\"/bin/sleep\", \"60\"]\n";
    let house = House::with(slow, CALM, &[("job", "exit 0", "")]);
    let _engine = house.engine();
    let tested = house.run(&["alerts", "test"]);
    let said = String::from_utf8(tested.stdout).unwrap();
    assert_eq!(
        (tested.status.code(), said.as_str()),
        (Some(1), "slow: /bin/sleep took longer than 15 s\n")
    );
}
