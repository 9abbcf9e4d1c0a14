//! Schedules in the field: kills, absences, reloads, damage.

use super::house::{CALM, House, kill, signal};
use super::reload::{config, put, told};
use midwatch::api::{ScheduleActed, ScheduleView, Schedules, TaskList, TaskView};
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use midwatch::units::parse_rfc3339;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const RUNS: &str = "retry = { max_retry = 0 }";

/// Fires each second, as many at once as there are.
const TICK: &str = "[schedules.tick]\ntype = \"noop\"\ncron = \"* * * * * *\"\n\
                    coalesce = false\nmax_instances = 1000\n";

const NOOP: (&str, &str, &str) = ("noop", "true", RUNS);

fn show(house: &House, name: &str) -> ScheduleView {
    house.client().get(&format!("/v1/schedules/{name}")).unwrap()
}

/// The tasks of a schedule, newest first.
fn tasks(house: &House, name: &str) -> Vec<TaskView> {
    let path = format!("/v1/tasks?limit=10000&schedule={name}");
    house.client().get::<TaskList>(&path).unwrap().tasks
}

/// The planned second that a task was made for, as its key has it.
fn planned(task: &TaskView) -> u64 {
    let key = task.key.as_ref().unwrap();
    let (_, at) = key.split_once(':').unwrap().1.split_once(':').unwrap();
    parse_rfc3339(at).unwrap().0 / 1000
}

fn second(at: &str) -> u64 {
    parse_rfc3339(at).unwrap().0 / 1000
}

/// Waits until a schedule has made so many tasks.
fn until_fired(house: &House, name: &str, fired: u64) -> ScheduleView {
    house.until(&format!("{name} has fired {fired} times"), |house| {
        let view = show(house, name);
        (fired <= view.counts.fired).then_some(view)
    })
}

/// Everything that was planned for a schedule of each second became one thing: from the second
/// after it was made to the last that was decided.
fn check_account(view: &ScheduleView) {
    let counts = view.counts;
    let last = view.recent.iter().rev().find(|it| it.outcome != "queued").unwrap();
    let planned = second(&last.last.at) - second(&view.since);
    let told = counts.fired + counts.coalesced + counts.skipped + counts.missed;
    assert_eq!(told, planned, "{view:#?}");
}

/// Lets the wall clock go on.
fn pass(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

// B43: a run that somebody had asked for was not started again after a crash.
#[test]
fn b43_a_run_that_was_asked_for_is_recovered_like_any_other_and_keeps_its_source() {
    let schedule = "[schedules.nightly]\ntype = \"job\"\ncron = \"0 0 1 1 *\"\n";
    let house = House::with(schedule, CALM, &[("job", "first && until_there go; true", RUNS)]);
    let daemon = house.daemon();
    let id = TaskId(house.say(&["schedule", "trigger", "nightly"]).parse().unwrap());
    house.until_start(id, 1);
    house.kill_all(daemon);
    house.until_empty();
    let daemon = house.daemon();
    let task = house.until_status(id, Status::Success);
    assert_eq!((task.lost_count, task.retry_count), (1, 0));
    assert_eq!(task.schedule.as_deref(), Some("nightly"));
    let by = format!("schedule nightly, triggered by uid {}", rustix::process::geteuid().as_raw());
    assert_eq!(house.history(id).transitions[0].by, by);
    assert_eq!(tasks(&house, "nightly").len(), 1);
    house.check_no_overlap();
    drop(daemon);
}

// B27: the lock of "only one at a time" outlived who held it, and nothing ran any more.
// spec: TIM-100, TIM-101
#[test]
fn b27_only_one_at_a_time_outlives_no_kill_and_what_it_kept_out_is_on_record() {
    let schedule = "[schedules.tick]\ntype = \"job\"\ncron = \"* * * * * *\"\n";
    let house = House::with(schedule, CALM, &[("job", "first && until_there go; true", RUNS)]);
    let daemon = house.daemon();
    let held = until_fired(&house, "tick", 1).running[0];
    house.until_start(held, 1);
    let skipped = house.until("some were skipped", |house| {
        let view = show(house, "tick");
        (2 <= view.counts.skipped).then_some(view)
    });
    let last = skipped.recent.last().unwrap();
    assert_eq!((last.outcome.as_str(), last.task), ("skipped", Some(held)));
    assert_eq!((skipped.counts.fired, &skipped.running[..]), (1, &[held][..]));
    house.kill_all(daemon);
    house.until_empty();
    house.touch("go");
    let daemon = house.daemon();
    house.until_status(held, Status::Success);
    let view = until_fired(&house, "tick", 4);
    check_account(&view);
    house.check_no_overlap();
    drop(daemon);
}

// B13: after some kills a definition was gone.
// spec: TIM-053
#[test]
fn b13_no_schedule_disappears_however_often_the_engine_is_killed() {
    let house = House::with("", CALM, &[NOOP]);
    let mut known = BTreeSet::new();
    for round in 0..12_u64 {
        let engine = house.engine();
        let http = house.client();
        let list: Schedules = http.get("/v1/schedules").unwrap();
        let found: BTreeSet<_> = list.schedules.into_iter().map(|one| one.name).collect();
        assert!(known.is_subset(&found), "in round {round}: {known:?} {found:?}");
        let pid = engine.pid();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(round * 3));
                kill(pid);
            });
            for n in 0.. {
                let name = format!("s-{round}-{n}");
                let body = serde_json::json!({ "type": "noop", "every": "1d" });
                match http.post::<_, ScheduleActed>(&format!("/v1/schedules/{name}"), &body) {
                    Ok(acted) => assert!(acted.changed && known.insert(name)),
                    Err(_) => break,
                }
            }
        });
        drop(engine);
    }
    assert!(!known.is_empty());
}

// B52: after a sleep every planned time that had passed ran at once.
// spec: TIM-080, TIM-081, TIM-082
#[test]
fn b52_what_passed_while_the_engine_stood_still_is_one_run_or_bounded_and_on_record() {
    let schedules = "[schedules.one]\ntype = \"noop\"\ncron = \"* * * * * *\"\n\
                     max_instances = 1000\n\
                     [schedules.each]\ntype = \"noop\"\ncron = \"* * * * * *\"\n\
                     coalesce = false\nmax_instances = 1000\n\
                     [schedules.late]\ntype = \"noop\"\ncron = \"* * * * * *\"\n\
                     misfire_grace = \"1s\"\nmax_instances = 1000\n";
    let house = House::with(schedules, CALM, &[NOOP]);
    let daemon = house.daemon();
    for name in ["one", "each", "late"] {
        until_fired(&house, name, 1);
    }
    let before = show(&house, "each").counts.fired;
    let (engine, _) = house.pids();
    signal(engine, Signal::STOP);
    pass(5);
    signal(engine, Signal::CONT);
    let each = until_fired(&house, "each", before + 7);
    check_account(&each);
    assert_eq!((each.counts.coalesced, each.counts.skipped, each.counts.missed), (0, 0, 0));
    let one = until_fired(&house, "one", 3);
    check_account(&one);
    assert!(3 <= one.counts.coalesced && one.counts.missed == 0, "{:?}", one.counts);
    // The coalesced ones name the run that stands for them, and it is there.
    let coalesced = one.recent.iter().find(|it| it.outcome == "coalesced").unwrap();
    let stands = tasks(&house, "one").into_iter().find(|task| Some(task.id) == coalesced.task);
    assert_eq!(planned(&stands.unwrap()), second(&coalesced.last.at) + 1);
    let late = until_fired(&house, "late", 3);
    check_account(&late);
    assert!(2 <= late.counts.missed, "{:?}", late.counts);
    let said = house.say(&["schedule", "show", "late"]);
    assert!(said.contains("more than 1s ago when it could be run"), "{said}");
    drop(daemon);
}

// spec: TIM-060, TIM-080
#[test]
fn the_absence_of_the_daemon_is_told_with_what_became_of_the_times_it_missed() {
    let schedule = "[schedules.tick]\ntype = \"noop\"\ncron = \"* * * * * *\"\n\
                    timezone = \"Asia/Tokyo\"\nmax_instances = 1000\n";
    let house = House::with(schedule, CALM, &[NOOP]);
    let mut daemon = house.daemon();
    until_fired(&house, "tick", 1);
    assert!(daemon.terminate().success());
    pass(3);
    let daemon = house.daemon();
    let view = house.until("it is caught up with", |house| {
        let view = show(house, "tick");
        (2 <= view.counts.coalesced).then_some(view)
    });
    check_account(&view);
    let said = house.say(&["schedule", "show", "tick"]);
    assert!(said.contains("the daemon was away from"), "{said}");
    assert!(said.contains("JST"), "{said}");
    let next = house.say(&["schedule", "next", "tick", "-n", "2"]);
    assert_eq!(next.matches("JST").count(), 2, "{next}");
    drop(daemon);
}

// B61: a burst of edits made what was due be passed over.
// spec: TIM-120
#[test]
fn b61_however_often_the_config_is_read_what_is_due_fires() {
    let other = "[schedules.other]\ntype = \"noop\"\nevery = \"1d\"\npayload = 0\n";
    let house = House::with(&format!("{TICK}{other}"), CALM, &[NOOP]);
    let daemon = house.daemon();
    let begin = until_fired(&house, "tick", 1).counts.fired;
    let good = config(&house);
    let file = house.path("midwatch.toml");
    for n in 0..40 {
        put(&file, &good.replace("payload = 0", &format!("payload = {n}")));
        std::thread::sleep(Duration::from_millis(200));
    }
    house.until("the last change is taken up", |house| {
        (show(house, "other").payload.get() == "39").then_some(())
    });
    let view = until_fired(&house, "tick", begin + 7);
    check_account(&view);
    assert_eq!((view.counts.skipped, view.counts.missed, view.counts.coalesced), (0, 0, 0));
    let seconds: Vec<_> = tasks(&house, "tick").iter().rev().map(planned).collect();
    assert!(seconds.windows(2).all(|two| two[0] + 1 == two[1]), "{seconds:?}");
    assert_eq!(told(&house), (true, Vec::new()));
    drop(daemon);
}

// B76: a reload waited for what ran, and every other schedule with it.
// spec: TIM-120, TIM-122
#[test]
fn b76_schedules_go_on_while_a_long_run_and_a_reload_meet() {
    let long = "[schedules.long]\ntype = \"job\"\nat = 2020-01-01T00:00:00Z\n";
    let house = House::with(
        &format!("{TICK}{long}"),
        CALM,
        &[NOOP, ("job", "until_there go; echo old", RUNS)],
    );
    let daemon = house.daemon();
    let id = TaskId(house.say(&["schedule", "trigger", "long"]).parse().unwrap());
    house.until_start(id, 1);
    house.say(&["schedule", "add", "more", "--type", "noop", "--every", "1d"]);
    let more = "[schedules.more]\ntype = \"noop\"\nevery = \"1s\"\n";
    let new = config(&house).replace("echo old", "echo new") + more;
    put(&house.path("midwatch.toml"), &new);
    house.until("the new schedule is there", |house| {
        let list: Schedules = house.client().get("/v1/schedules").ok()?;
        list.schedules.iter().find(|one| one.name == "more" && one.origin == "config").map(drop)
    });
    assert!(daemon.log().contains("the config takes over schedule more"), "{}", daemon.log());
    until_fired(&house, "more", 2);
    let fired = show(&house, "tick").counts.fired;
    check_account(&until_fired(&house, "tick", fired + 3));
    assert_eq!(house.task(id).status, Status::Running);
    house.touch("go");
    house.until_status(id, Status::Success);
    assert_eq!(house.say(&["log", &id.to_string()]), "old");
    drop(daemon);
}

// B77: a bad schedule killed the process, or was passed over in silence.
// spec: TIM-121
#[test]
fn b77_a_bad_schedule_is_refused_with_its_file_and_a_removed_one_lets_its_run_end() {
    let schedule = "[schedules.tick]\ntype = \"gone\"\nevery = \"1s\"\n";
    let house = House::with(schedule, CALM, &[("gone", "until_there go; true", RUNS)]);
    let good = config(&house);
    let daemon = house.daemon();
    let file = house.path("midwatch.toml");
    let running = until_fired(&house, "tick", 1).running[0];
    house.until_start(running, 1);
    let cron = good.replace("every = \"1s\"", "cron = \"61 * * * *\"");
    let twice = format!("{good}[schedules.tick]\ntype = \"gone\"\nevery = \"5s\"\n");
    let homeless = good.split("[handlers.").next().unwrap().to_owned();
    for (bad, why) in
        [(&cron, "schedules.tick.cron"), (&twice, "duplicate key"), (&homeless, "no handler")]
    {
        put(&file, bad);
        house.until("it is refused", |house| (!told(house).0).then_some(()));
        let (_, points) = told(&house);
        assert!(points.iter().any(|point| point.contains(why)), "{why}: {points:?}");
        assert_eq!(show(&house, "tick").every.as_deref(), Some("1s"));
        put(&file, &good);
        house.until("it is good again", |house| told(house).0.then_some(()));
    }
    // Type and schedule go together; what runs ends as it began.
    let end = good.find("[schedules.").unwrap();
    put(&file, &good[..end]);
    house.until("the schedule is gone", |house| {
        let list: Schedules = house.client().get("/v1/schedules").ok()?;
        list.schedules.is_empty().then_some(())
    });
    assert_eq!(house.task(running).status, Status::Running);
    house.touch("go");
    house.until_status(running, Status::Success);
    assert_eq!(tasks(&house, "tick").len(), 1);
    drop(daemon);
}

/// Where a text stands in the journal.
fn find(house: &House, text: &str) -> (PathBuf, usize) {
    let files = super::house::bytes_of(&house.data("journal"));
    let found = files.into_iter().find_map(|(path, bytes)| {
        let at = bytes.windows(text.len()).position(|piece| piece == text.as_bytes())?;
        Some((path, at))
    });
    found.expect("it is in the journal")
}

fn flip(path: &PathBuf, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

// B18: what a schedule had decided could not be read, and it began anew without a word.
#[test]
fn b18_a_damaged_record_of_a_schedule_is_refused_and_mended_it_loses_no_planned_time() {
    let house = House::with(TICK, CALM, &[NOOP]);
    let mut daemon = house.daemon();
    until_fired(&house, "tick", 3);
    assert!(daemon.terminate().success());
    let (path, at) = find(&house, "* * * * * *");
    flip(&path, at);
    let before = super::house::bytes_of(&house.data("journal"));
    let refused = house.run(&["engine"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(6), "{said}");
    assert!(said.contains(path.file_name().unwrap().to_str().unwrap()), "{said}");
    assert_eq!(super::house::bytes_of(&house.data("journal")), before);
    flip(&path, at);
    pass(2);
    let daemon = house.daemon();
    let fired = show(&house, "tick").counts.fired;
    let view = until_fired(&house, "tick", fired + 1);
    check_account(&view);
    assert_eq!((view.counts.missed, view.counts.coalesced), (0, 0));
    let seconds: BTreeSet<_> = tasks(&house, "tick").iter().map(planned).collect();
    let (first, last) = (seconds.first().unwrap(), seconds.last().unwrap());
    assert_eq!(seconds.len() as u64, last - first + 1, "each second once: {seconds:?}");
    drop(daemon);
}

// spec: TIM-141, TIM-144
#[test]
fn the_lines_of_a_crontab_run_as_cron_runs_them() {
    let house = House::with("", CALM, &[]);
    let daemon = house.daemon();
    let crontab = "GREETING = 'good night'\n\
                   0 0 1 1 * echo \"$GREETING, $LOGNAME\"; pwd; echo $PATH; cat%one%two \\% three\n\
                   @reboot true\n61 * * * * true\n";
    fs::write(house.path("night.cron"), crontab).unwrap();
    let file = house.path("night.cron");
    let import = || house.run(&["schedule", "import-crontab", file.to_str().unwrap()]);
    let first = import();
    let said = String::from_utf8(first.stdout).unwrap();
    assert_eq!(first.status.code(), Some(1), "one line is bad");
    assert!(String::from_utf8_lossy(&first.stderr).contains("line 4: "), "{said}");
    let name = said.split_whitespace().find(|word| word.starts_with("cron-night-echo-")).unwrap();
    let again = String::from_utf8(import().stdout).unwrap();
    assert_eq!(again.matches("as it was").count(), 2, "{again}");
    let list: Schedules = house.client().get("/v1/schedules").unwrap();
    assert_eq!(list.schedules.len(), 2);
    let triggered = house.say(&["schedule", "trigger", name, "--wait"]);
    let id = triggered.lines().next().unwrap();
    assert_eq!(triggered, format!("{id}\n{id} SUCCESS"));
    let me = midwatch::process::identity_of(&rustix::process::geteuid().as_raw().to_string(), None);
    let (user, home) = me.unwrap().entry.unwrap();
    let expected =
        format!("good night, {user}\n{}\n/usr/bin:/bin\none\ntwo % three", home.display());
    assert_eq!(house.say(&["log", id]), expected);
    // A line that has gone from the file is named.
    fs::write(house.path("night.cron"), "@reboot true\n").unwrap();
    let third = import();
    assert!(third.status.success());
    let said = String::from_utf8_lossy(&third.stderr).into_owned();
    assert!(said.contains(&format!("midwatch schedule remove {name}")), "{said}");
    drop(daemon);
}
