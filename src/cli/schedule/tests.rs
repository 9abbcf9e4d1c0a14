use super::*;
use crate::api::{AwayView, CountsView, DecisionView, NextTimes, RefusedSchedule, Schedules};
use crate::cli::samples;
use crate::kernel::ids::TaskId;
use expect_test::expect;

fn at(at: &str, local: &str, note: Option<&str>) -> PlannedView {
    PlannedView { at: at.to_owned(), local: local.to_owned(), note: note.map(str::to_owned) }
}

fn decision(planned: (&PlannedView, &PlannedView), count: u64, outcome: &str) -> DecisionView {
    DecisionView {
        first: planned.0.clone(),
        last: planned.1.clone(),
        count,
        outcome: outcome.to_owned(),
        task: None,
        at: planned.1.at.clone(),
        more: false,
    }
}

/// A schedule that has been through a change of the clocks and an absence of the daemon.
pub(crate) fn nightly() -> ScheduleView {
    let text = |text: &str| Some(text.to_owned());
    ScheduleView {
        name: "nightly".to_owned(),
        kind: "fetch_data".to_owned(),
        payload: samples::raw(r#"{"source":"orders"}"#),
        cron: text("30 2 * * *"),
        every: None,
        from: None,
        at: None,
        boot: false,
        timezone: "America/New_York".to_owned(),
        priority: 100,
        max_retry: Some(2),
        timeout: None,
        misfire_grace: "1h".to_owned(),
        coalesce: true,
        max_instances: 1,
        overlap: "skip".to_owned(),
        jitter: "0s".to_owned(),
        dst_gap: None,
        dst_fold: None,
        origin: "config".to_owned(),
        since: "2026-03-01T00:00:00.000Z".to_owned(),
        by: "the config".to_owned(),
        paused: None,
        held: false,
        trouble: None,
        next: Some(at("2026-03-15T06:30:00.000Z", "Sun 2026-03-15 02:30:00 EDT", None)),
        last: None,
        last_task: None,
        last_success: None,
        failures: 0,
        counts: CountsView { fired: 12, coalesced: 3, skipped: 1, missed: 0 },
        running: Vec::new(),
        queued: Vec::new(),
        recent: Vec::new(),
        away: None,
    }
}

fn eventful() -> ScheduleView {
    let gap = "02:30 does not exist that day: the first instant after the gap";
    let shifted = at("2026-03-08T07:00:00.000Z", "Sun 2026-03-08 03:00:00 EDT", Some(gap));
    let early = at("2026-03-09T05:10:00.000Z", "Mon 2026-03-09 01:10:00 EDT", None);
    let later = at("2026-03-09T08:10:00.000Z", "Mon 2026-03-09 04:10:00 EDT", None);
    let last = at("2026-03-09T09:10:00.000Z", "Mon 2026-03-09 05:10:00 EDT", None);
    let back = || "2026-03-09T09:44:00.000Z".to_owned();
    let task = |id| Some(TaskId(id));
    ScheduleView {
        last: Some(last.clone()),
        last_task: task(88214),
        last_success: Some("2026-03-09T09:50:00.000Z".to_owned()),
        failures: 2,
        running: vec![TaskId(88214)],
        queued: vec!["2026-03-14T02:00:00.000Z".to_owned()],
        recent: vec![
            DecisionView { task: task(88213), ..decision((&shifted, &shifted), 1, "fired") },
            DecisionView { at: back(), more: true, ..decision((&early, &later), 40, "missed") },
            DecisionView {
                at: back(),
                task: task(88214),
                ..decision((&early, &later), 4, "coalesced")
            },
            DecisionView { at: back(), task: task(88214), ..decision((&last, &last), 1, "fired") },
            DecisionView { task: task(88107), ..decision((&last, &last), 1, "skipped") },
            DecisionView { task: None, ..decision((&last, &last), 1, "queued") },
        ],
        away: Some(AwayView { from: "2026-03-09T05:00:00.000Z".to_owned(), to: back() }),
        ..nightly()
    }
}

// spec: TIM-060
#[test]
fn one_schedule_accounts_for_its_planned_times() {
    let view = View { zone: Zone::Local, ..samples::view(Some(80)) };
    let local = render(&eventful(), &view);
    assert!(local.contains("Mon 2026-03-09 01:10:00 EDT to 04:10:00 EDT"), "{local}");
    let text = render(&eventful(), &samples::view(Some(80)));
    assert!(text.lines().all(|line| crate::cli::text::width(line) <= 80), "{text}");
    expect![[r#"
        schedule nightly  30 2 * * *  America/New_York  on

          next        2026-03-15 06:30:00Z  (in 1 d 3 h)
          last        2026-03-09 09:10:00Z  (4 d ago), task 88214
          running     task 88214
          waiting     the run of 2026-03-14T02:00:00.000Z, until a running one ends
          success     2026-03-09 09:50:00Z  (4 d ago)
          failures    2 runs since ended otherwise
          policy      one run for all missed up to 1h late; 1 at once, else skip
          counts      fired 12, coalesced 3, skipped 1, missed 0
          task        fetch_data, priority 100, 2 retries
          payload     {"source":"orders"}
          set         2026-03-01 00:00:00Z  (13 d ago), by the config

          what became of its planned times
          2026-03-09 09:10:00Z               queued
              it waits until a run is over
          2026-03-09 09:10:00Z               skipped
              task 88107 was not over
          2026-03-09 09:10:00Z               fired task 88214
              the daemon was away from 2026-03-09 05:00:00Z to 09:44:00
          2026-03-09 05:10:00Z to 08:10:00Z  coalesced 4 into task 88214
              the daemon was away from 2026-03-09 05:00:00Z to 09:44:00
          2026-03-09 05:10:00Z to 08:10:00Z  missed 40 and more
              more than 1h ago when it could be run
              the daemon was away from 2026-03-09 05:00:00Z to 09:44:00
          2026-03-08 07:00:00Z               fired task 88213
              02:30 does not exist that day: the first instant after the gap

          midwatch schedule next nightly    midwatch schedule trigger nightly
          midwatch list --schedule nightly
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_paused_and_a_stuck_schedule_say_so_first() {
    let order = crate::api::OrderView {
        by: "uid 0".to_owned(),
        at: "2026-03-14T02:30:00.000Z".to_owned(),
        reason: Some("the bank is closed".to_owned()),
    };
    let paused = ScheduleView { paused: Some(order), next: None, ..nightly() };
    let trouble = Some("there is no date any more that it matches".to_owned());
    let stuck = ScheduleView { trouble, next: None, ..nightly() };
    let held = ScheduleView { held: true, ..nightly() };
    let lines = |one: &ScheduleView| {
        let text = render(one, &samples::view(Some(80)));
        text.split_inclusive('\n').take(3).collect::<String>()
    };
    expect![[r#"
        schedule nightly  30 2 * * *  America/New_York  paused

          paused      10 min ago by uid 0: the bank is closed
        schedule nightly  30 2 * * *  America/New_York  in trouble

          trouble     there is no date any more that it matches
        schedule nightly  30 2 * * *  America/New_York  held until the clock can be believed

          next        2026-03-15 06:30:00Z  (in 1 d 3 h)
    "#]]
    .assert_eq(&[paused, stuck, held].map(|one| lines(&one)).concat());
}

#[test]
fn the_list_fits_eighty_columns() {
    let poll = ScheduleView {
        name: "poll".to_owned(),
        cron: None,
        every: Some("30s".to_owned()),
        from: Some("end".to_owned()),
        next: None,
        ..nightly()
    };
    let poll = ScheduleView { running: vec![TaskId(7)], ..poll };
    let schedules = Schedules { schedules: vec![eventful(), poll], refused: Vec::new() };
    let text = list::render(&schedules, &samples::view(Some(80)));
    assert!(text.lines().all(|line| crate::cli::text::width(line) <= 80));
    expect![[r#"
        screen
          NAME     WHEN                TYPE        NEXT        RUNS  NOTE
          nightly  30 2 * * *          fetch_data  in 1 d 3 h    12  2 runs failed sinc…
          poll     30s after each end  fetch_data                12  task 7 runs
    "#]]
    .assert_eq(&samples::screen(&text));
}

#[test]
fn what_the_config_wants_and_is_not_there_is_told_with_the_list() {
    let refused = RefusedSchedule { name: "x".to_owned(), why: "no space is left".to_owned() };
    let schedules = Schedules { schedules: Vec::new(), refused: vec![refused] };
    let answer = serde_json::to_string(&schedules).unwrap();
    let played = samples::play("schedule ls", &[("GET /v1/schedules", answer)]);
    assert_eq!((played.code, played.out.as_str()), (0, ""));
    assert_eq!(played.err, "error: x is not as the config says: no space is left\n");
}

// spec: TIM-059
#[test]
fn what_is_planned_is_shown_in_its_zone_and_in_utc_where_that_is_wanted() {
    let note = Some("02:30 does not exist that day: the first instant after the gap");
    let times = NextTimes {
        name: "nightly".to_owned(),
        timezone: "America/New_York".to_owned(),
        planned: vec![
            at("2026-03-15T06:30:00.000Z", "Sun 2026-03-15 02:30:00 EDT", None),
            at("2027-03-14T07:00:00.000Z", "Sun 2027-03-14 03:00:00 EDT", note),
        ],
        end: Some("it is paused, and fires at none of them".to_owned()),
    };
    let view = View { zone: Zone::Local, ..samples::view(Some(100)) };
    expect![[r#"
        screen
          Sun 2026-03-15 02:30:00…  in 1 d 3 h
          Sun 2027-03-14 03:00:00…  in 365 d 4 h  02:30 does not exist that day: the first instant after th…
    "#]].assert_eq(&samples::screen(&next::render(&times, &view)));
    let answer = serde_json::to_string(&times).unwrap();
    let asked = "GET /v1/schedules/nightly/next?n=2&from=2026-03-15T00%3A00%3A00.000Z";
    let words = "schedule next nightly -n 2 --from 2026-03-15 --utc";
    let played = samples::play(words, &[(asked, answer)]);
    assert!(played.out.starts_with("  2026-03-15 06:30:00Z  in 1 d 3 h"), "{played}");
    assert_eq!(played.err, "nightly: it is paused, and fires at none of them\n");
}

fn acted(changed: bool, task: Option<u64>) -> String {
    let acted = ScheduleActed {
        name: "nightly".to_owned(),
        changed,
        next: Some("2026-03-14T02:45:00.000Z".to_owned()),
        task: task.map(TaskId),
    };
    serde_json::to_string(&acted).unwrap()
}

// spec: TIM-057
#[test]
fn every_order_travels_and_says_what_became_of_it() {
    let orders = [
        (
            "schedule add nightly --type t --cron @daily --payload {\"a\":1} --timezone Asia/Tokyo \
             --priority -1 --max-retry 0 --timeout 90s --misfire-grace 2h --all --max-instances 2 \
             --overlap queue --jitter 30s --dst-gap skip --dst-fold both --replace",
            r#"POST /v1/schedules/nightly {"type":"t","payload":{"a":1},"cron":"@daily","timezone":"Asia/Tokyo","priority":-1,"max_retry":0,"timeout":"1m30s","misfire_grace":"2h","coalesce":false,"max_instances":2,"overlap":"queue","jitter":"30s","dst_gap":"skip","dst_fold":"both","replace":true}"#,
            "nightly set, next in 5 min\n",
        ),
        (
            "schedule add nightly --type t --every 90s --from end",
            r#"POST /v1/schedules/nightly {"type":"t","every":"1m30s","from":"end"}"#,
            "nightly set, next in 5 min\n",
        ),
        (
            "schedule add nightly --type t --at 02:45",
            r#"POST /v1/schedules/nightly {"type":"t","at":"2026-03-14T02:45:00.000Z"}"#,
            "nightly set, next in 5 min\n",
        ),
        (
            "schedule add nightly --type t --boot",
            r#"POST /v1/schedules/nightly {"type":"t","boot":true}"#,
            "nightly set, next in 5 min\n",
        ),
        ("schedule rm a/b", "DELETE /v1/schedules/a%2Fb", "nightly removed, next in 5 min\n"),
        (
            "schedule pause nightly --reason down",
            r#"POST /v1/schedules/nightly/pause {"reason":"down"}"#,
            "nightly paused, next in 5 min\n",
        ),
        (
            "schedule resume nightly",
            "POST /v1/schedules/nightly/resume {}",
            "nightly resumed, next in 5 min\n",
        ),
        ("schedule trigger nightly", "POST /v1/schedules/nightly/trigger {}", "7\n"),
    ];
    for (words, asked, said) in orders {
        let played = samples::play(words, &[(asked, acted(true, Some(7)))]);
        assert_eq!((played.code, played.out.as_str()), (0, said), "{words}: {}", played.err);
    }
    let paused = ("POST /v1/schedules/nightly/pause {}", acted(false, None));
    let played = samples::play("schedule pause nightly", &[paused]);
    assert_eq!(played.out, "nightly paused already, next in 5 min\n");
}

#[test]
fn a_trigger_may_be_waited_for_unless_it_waits_itself() {
    let asked = "POST /v1/schedules/nightly/trigger {}";
    let ended = samples::task(7, crate::kernel::status::Status::Success);
    let wait = "GET /v1/tasks/7/wait?timeout_ms=60000";
    let answers = [(asked, acted(true, Some(7))), (wait, serde_json::to_string(&ended).unwrap())];
    let played = samples::play("schedule trigger nightly --wait", &answers);
    assert_eq!((played.code, played.out.as_str()), (0, "7\n7 SUCCESS\n"));
    let played = samples::play("schedule trigger nightly", &[(asked, acted(true, None))]);
    assert_eq!((played.code, played.out.as_str()), (0, ""));
    assert_eq!(played.err, "the run waits until another one has ended\n");
    // A run that waits is waited for: until it is made, and then until its task has ended.
    let now = at("2026-03-14T02:40:00.000Z", "now", None);
    let schedule = |queued: &[&str], last: &PlannedView, task| {
        let queued = queued.iter().map(|at| (*at).to_owned()).collect();
        let one =
            ScheduleView { queued, last: Some(last.clone()), last_task: Some(task), ..eventful() };
        ("GET /v1/schedules/nightly", serde_json::to_string(&one).unwrap())
    };
    let before = at("2026-03-14T02:00:00.000Z", "then", None);
    let ended = serde_json::to_string(&ended).unwrap();
    let answers = [
        (asked, acted(true, None)),
        schedule(&["2026-03-14T02:10:00.000Z", &now.at], &before, TaskId(5)),
        schedule(&[&now.at], &before, TaskId(6)),
        schedule(&[], &now, TaskId(7)),
        (wait, ended),
    ];
    let played = samples::play("schedule trigger nightly --wait", &answers);
    assert_eq!((played.code, played.out.as_str()), (0, "7\n7 SUCCESS\n"), "{played}");
    let answers = [
        (asked, acted(true, None)),
        schedule(&[&now.at], &before, TaskId(6)),
        schedule(&[], &before, TaskId(6)),
    ];
    let played = samples::play("schedule trigger nightly --wait", &answers);
    assert_eq!((played.code, played.out.as_str()), (1, ""), "{played}");
    assert!(played.err.contains("waits no more"), "{played}");
}

#[test]
fn refusals_have_their_exit_codes_and_slips_are_told_before_anything_is_sent() {
    let problem = |code| serde_json::to_string(&crate::api::Problem::new(code, "no")).unwrap();
    let asked = "GET /v1/schedules/nope";
    let played =
        samples::play("schedule show nope", &[(asked, problem(crate::api::Code::NoSuchSchedule))]);
    assert_eq!(played.code, 3);
    let asked = "DELETE /v1/schedules/a";
    let refused = problem(crate::api::Code::ScheduleConflict);
    let played = samples::play("schedule remove a", &[(asked, refused)]);
    assert_eq!(played.code, 4);
    for words in [
        "schedule add x --type t",
        "schedule add x --cron @daily",
        "schedule add x --type t --cron @daily --every 5s",
        "schedule add x --type t --cron @daily --from end",
        "schedule add x --type t --every 5s --overlap both",
        "schedule add x --type t --at yesterday",
        "schedule remove",
        "schedule next x --from never",
    ] {
        assert_eq!(samples::play(words, &[]).code, 2, "{words}");
    }
}

// spec: TIM-144
#[test]
fn a_crontab_is_taken_over_and_the_same_again_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.cron");
    samples::write(
        &file,
        "PATH=/opt/bin\nMAILTO=me\n0 3 * * * /usr/local/bin/backup --all\n@reboot up\n61 * * * * bad\n",
    );
    let dry = samples::play(&format!("schedule import-crontab --dry-run {}", file.display()), &[]);
    assert_eq!(dry.code, 1, "{dry}");
    assert!(dry.out.contains("cron-my-backup-"), "{dry}");
    let names: Vec<_> =
        dry.out.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    let [backup, up] = names.as_slice() else { panic!("{dry}") };
    let again =
        samples::play(&format!("schedule import-crontab --dry-run {}", file.display()), &[]);
    assert_eq!(dry.out, again.out);
    expect![[r#"
        exit 1
        --- stdout
          LINE  SCHEDULE                               WHEN       COMMAND
             3  cron-my-backup-a862e5c7  would be set  0 3 * * *  /usr/local/bin/backup…
             4  cron-my-up-16cf5ae8      would be set  @reboot    up
        --- stderr
        line 2: MAILTO: nothing is mailed; what a run prints is kept, see `midwatch log`
        error: line 5: `61 * * * *`: minute: 61 is not within 0-59
    "#]]
    .assert_eq(&dry.to_string());
    let json = samples::play_words(
        &["schedule", "import-crontab", "--dry-run", "--json", file.to_str().unwrap()],
        &[],
    );
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["schedules"][0]["name"], *backup);
    assert_eq!(json["schedules"][1]["name"], *up);
    assert_eq!(json["schedules"][0]["changed"], serde_json::Value::Null);
    assert_eq!(json["refused"][0]["line"], 5);
    assert_eq!(json["notes"][0]["line"], 2);
}

// spec: TIM-145
#[test]
fn lines_for_another_user_come_back_with_the_config_that_runs_them() {
    let text = b"17 * * * * nobody /bin/tidy \"a b\"\n* * * * * no-such-user x\n";
    let words = ["schedule", "import-crontab", "--system", "--dry-run", "-"];
    let played = samples::play_input(&words, text, &[]);
    assert_eq!((played.code, played.out.as_str()), (1, ""), "{played}");
    let said = &played.err;
    assert!(said.contains("line 1: it is for user nobody"), "{said}");
    let lines = said.lines().skip(2).take_while(|line| line.starts_with("  "));
    let config = lines.map(str::trim_start).collect::<Vec<_>>().join("\n");
    let config: toml::Table = config.parse().unwrap_or_else(|error| panic!("{error}: {config}"));
    let (name, handler) = config["handlers"].as_table().unwrap().iter().next().unwrap();
    assert_eq!(handler["user"].as_str(), Some("nobody"));
    assert_eq!(handler["command"][2].as_str(), Some("/bin/tidy \"a b\""));
    assert_eq!(config["schedules"][name]["cron"].as_str(), Some("17 * * * *"));
    assert!(said.contains("line 2: there is no user `no-such-user`"), "{said}");
}

// spec: TIM-143
#[test]
fn a_line_that_the_daemon_refuses_stops_no_other_and_an_absent_daemon_stops_all() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("two.cron");
    samples::write(&file, "@daily first\n@daily second\n");
    let path = file.to_str().unwrap();
    let dry = samples::play_words(&["schedule", "import-crontab", "--dry-run", path], &[]);
    let name = |line: usize| dry.out.lines().nth(line).unwrap().split_whitespace().nth(1).unwrap();
    let me = crate::process::identity_of(&rustix::process::geteuid().as_raw().to_string(), None);
    let (user, home) = me.unwrap().entry.unwrap();
    let home = home.display();
    let asked = |line: usize, command: &str| {
        format!(
            r#"POST /v1/schedules/{} {{"type":"exec","payload":{{"argv":["/usr/bin/env","HOME={home}","LOGNAME={user}","PATH=/usr/bin:/bin","SHELL=/bin/sh","/bin/sh","-c","{command}"],"cwd":"{home}"}},"cron":"0 0 * * *","timezone":"ZONE","max_retry":0,"replace":true}}"#,
            name(line)
        )
    };
    let zone =
        samples::play_words(&["schedule", "import-crontab", "--dry-run", "--json", path], &[]);
    let zone: serde_json::Value = serde_json::from_str(&zone.out).unwrap();
    let zone = zone["schedules"][0]["timezone"].as_str().unwrap().to_owned();
    let problem =
        |code| serde_json::to_string(&crate::api::Problem::new(code, "there is no room")).unwrap();
    let play = |code| {
        let nobody = serde_json::to_string(&crate::cli::status::tests::status()).unwrap();
        let nobody = nobody.replace("\"pid\":99", "\"pid\":4294967295");
        let list =
            serde_json::to_string(&Schedules { schedules: vec![], refused: vec![] }).unwrap();
        let first = asked(1, "first").replace("ZONE", &zone);
        let second = asked(2, "second").replace("ZONE", &zone);
        let mut answers = vec![("GET /v1/status", nobody), (first.as_str(), problem(code))];
        if code != crate::api::Code::ShuttingDown {
            answers.push((second.as_str(), acted(true, None)));
            answers.push(("GET /v1/schedules", list));
        }
        samples::play_words(&["schedule", "import-crontab", path], &answers)
    };
    let played = play(crate::api::Code::OverLimit);
    assert_eq!(played.code, 1, "{played}");
    assert!(played.err.contains("line 1: there is no room"), "{played}");
    assert!(played.out.contains("second") && !played.out.contains("first"), "{played}");
    assert_eq!(play(crate::api::Code::ShuttingDown).code, 5);
}
