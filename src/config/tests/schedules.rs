//! `[schedules.NAME]`.

use super::{check_faults, sections};
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::schedule::{Fold, From, Gap, Overlap, Plan, ScheduleSpec};
use expect_test::expect;
use std::collections::BTreeMap;
use std::path::Path;

const HANDLER: &str = "[handlers.fetch]\ncommand = ['/bin/true']\n";

fn read(text: &str) -> BTreeMap<String, ScheduleSpec> {
    let text = format!("{HANDLER}{text}");
    match sections::read_text(Path::new("midwatch.toml"), &text) {
        Ok(config) => config.schedules,
        Err(error) => panic!("{error}"),
    }
}

// spec: TIM-050
#[test]
fn every_key_of_a_schedule_is_read_and_what_is_absent_has_its_default() {
    let schedules = read(
        "[schedules.nightly]\ntype = 'fetch'\ncron = '30 2 * * *'\ntimezone = 'Europe/Berlin'\n\
         payload = { z = 1, a = [1.5, true, 'x', 2026-03-14T02:30:00Z], b.c = 0x10 }\n\
         priority = -5\nmax_retry = 2\ntimeout = '10m'\nmisfire_grace = '2h'\ncoalesce = false\n\
         max_instances = 3\noverlap = 'queue'\njitter = '30s'\ndst_gap = 'skip'\n\
         dst_fold = 'both'\n\
         [schedules.poll]\ntype = 'exec'\nevery = '30s'\nfrom = 'end'\n\
         payload.argv = ['/bin/true']\n\
         [schedules.once]\ntype = 'fetch'\nat = 2026-03-14T02:30:00+01:00\n\
         [schedules.start]\ntype = 'fetch'\ncron = '@reboot'\n",
    );
    let nightly = ScheduleSpec {
        payload: r#"{"a":[1.5,true,"x","2026-03-14T02:30:00Z"],"b":{"c":16},"z":1}"#.into(),
        priority: -5,
        zone: "Europe/Berlin".into(),
        gap: Some(Gap::Skip),
        fold: Some(Fold::Both),
        jitter: Millis::secs(30),
        misfire_grace: Millis::secs(7200),
        coalesce: false,
        max_instances: 3,
        overlap: Overlap::Queue,
        max_retry: Some(2),
        timeout: Some(Millis::secs(600)),
        ..ScheduleSpec::new("fetch", Plan::Cron("30 2 * * *".into()))
    };
    assert_eq!(schedules.get("nightly"), Some(&nightly));
    let poll = ScheduleSpec {
        payload: r#"{"argv":["/bin/true"]}"#.into(),
        ..ScheduleSpec::new("exec", Plan::Every(Millis::secs(30), From::End))
    };
    assert_eq!(schedules.get("poll"), Some(&poll));
    let once = ScheduleSpec::new("fetch", Plan::Once(Timestamp(1_773_451_800_000)));
    assert_eq!(schedules.get("once"), Some(&once));
    assert_eq!(schedules.get("start"), Some(&ScheduleSpec::new("fetch", Plan::Boot)));
}

// B59: what cannot be planned was saved, and fired all the time or never.
// spec: TIM-051
#[test]
fn b59_what_cannot_be_planned_is_refused_with_file_line_and_key() {
    check_faults(
        &format!(
            "{HANDLER}[schedules.a]\ntype = 'fetch'\ncron = '61 * * * *'\n\
             [schedules.b]\ntype = 'fetch'\ncron = '0 3 * * *'\ntimezone = 'Mars/Base'\n\
             [schedules.c]\ntype = 'fetch'\ncron = '0 3 * * *'\ntimezone = 'Europe/Belrin'\n\
             [schedules.d]\ntype = 'fetch'\ncron = '0 3 * * *'\ntimezone = 'berlin'\n\
             [schedules.e]\ntype = 'fetch'\ncron = '0 0 30 2 *'\n\
             [schedules.f]\ntype = 'fetch'\nevery = '5s'\ntimezone = 'Mars/Base'\n"
        ),
        &expect![[r#"
            error: `schedules.a.cron`: minute: 61 is not within 0-59 (midwatch.toml, line 5)
            error: `schedules.b.timezone`: there is no time zone `Mars/Base` (midwatch.toml, line 9)
              zones have their IANA names, such as UTC or Europe/Berlin
            error: `schedules.c.timezone`: there is no time zone `Europe/Belrin` (midwatch.toml, line 13)
              did you mean `Europe/Berlin`?
            error: `schedules.d.timezone`: there is no time zone `berlin` (midwatch.toml, line 17)
              did you mean `Europe/Berlin`?
            error: `schedules.e.cron`: no date matches it, not in 40 years (midwatch.toml, line 20)
            error: `schedules.f.timezone`: there is no time zone `Mars/Base` (midwatch.toml, line 24)
              zones have their IANA names, such as UTC or Europe/Berlin
        "#]],
    );
}

#[test]
fn slips_in_a_schedule_are_named_with_their_lines() {
    check_faults(
        &format!(
            "{HANDLER}[schedules.a]\ntype = 'fetsh'\ncron = '@daily'\n\
             [schedules.b]\ncron = '@daily'\n\
             [schedules.c]\ntype = 'fetch'\n\
             [schedules.d]\ntype = 'fetch'\ncron = '@daily'\nevery = '5m'\n\
             [schedules.e]\ntype = 'fetch'\ncron = '@daily'\nfrom = 'end'\n\
             [schedules.f]\ntype = 'fetch'\nevery = '10ms'\noverlap = 'both'\ndst_gap = 'skip'\n\
             misfire_grace = '32d'\njitter = '25h'\nmax_instances = 0\npayload = nan\n\
             [schedules.g]\ntype = 'fetch'\nat = '02:30'\ncoalesce = 'yes'\n\
             [schedules.h]\ntype = 'exec'\nevery = '1m'\npayload = {{ argv = [] }}\n\
             [schedules.'a b']\ntype = 'fetch'\nevery = '1m'\n\
             [schedules.i]\ntype = 'fetch'\nevery = '1m'\ntime_zone = 'UTC'\n"
        ),
        &expect![[r#"
            error: `schedules.a.type`: there is no handler `fetsh` (midwatch.toml, line 4)
              did you mean `fetch`?
            error: `schedules.b.type` is missing (midwatch.toml, line 6)
              name the handler that its tasks run with
            error: `schedules.c.cron` is missing, or `every`, or `at` (midwatch.toml, line 8)
              say when it runs: cron = "30 2 * * *", every = "5m", or a date in at
            error: `schedules.d.every` and `cron` exclude each other (midwatch.toml, line 13)
            error: `schedules.e.from` means nothing without `every` (midwatch.toml, line 17)
            error: `schedules.f.every` must be from 1s to 366d, not 10ms (midwatch.toml, line 20)
            error: `schedules.f.overlap` must be one of skip, queue, replace, not `both` (midwatch.toml, line 21)
            error: `schedules.f.dst_gap` means nothing without `cron` (midwatch.toml, line 22)
            error: `schedules.f.misfire_grace` must be from 1s to 31d, not 32d (midwatch.toml, line 23)
            error: `schedules.f.jitter` must be from 0s to 1d, not 25h (midwatch.toml, line 24)
            error: `schedules.f.max_instances` must be from 1 to 100000, not 0 (midwatch.toml, line 25)
            error: `schedules.f.payload`: JSON has no nan (midwatch.toml, line 26)
            error: `schedules.g.at`: `02:30` is not an instant: premature end of input; write it like 2026-03-14T02:30:00Z or 2026-03-14T02:30:00+08:00 (midwatch.toml, line 29)
            error: `schedules.g.coalesce` must be true or false, not text (midwatch.toml, line 30)
            error: `schedules.h.payload`: `argv` must begin with a program (midwatch.toml, line 34)
            error: `a b` cannot be the name of a schedule (midwatch.toml, line 35)
              at most 64 letters a-z, digits, `_`, `-` and `.`, a letter or digit first
            error: unknown key `time_zone` in schedules.i (midwatch.toml, line 41)
              did you mean `timezone`?
        "#]],
    );
    check_faults(
        &format!("{HANDLER}[schedules.a]\ntype = 'fetch'\nevery = '1m'\n[schedules.a]\n"),
        &expect![[r#"
            error: this is not TOML: duplicate key (midwatch.toml, line 6)
        "#]],
    );
}

// spec: TIM-052
#[test]
fn schedules_are_shown_as_they_are_in_force() {
    let text = format!(
        "data_dir = '/srv/a'\n{HANDLER}[schedules.poll]\ntype = 'fetch'\nevery = '90s'\n\
         payload = {{ b = 1, a = 'x' }}\n"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("midwatch.toml");
    super::write(&file, &text);
    let named = super::Named { config: super::flag(&file), ..super::Named::default() };
    let config = super::Config::load(&named, &super::around(dir.path(), super::our_uid())).unwrap();
    let values = config.effective();
    let shown = values.iter().filter(|value| value.key.starts_with("schedules."));
    let shown: Vec<_> = shown
        .map(|value| format!("{} = {:?}", value.key, value.value.as_ref().map(ToString::to_string)))
        .collect();
    expect![[r#"
        schedules.poll.type = Some("\"fetch\"")
        schedules.poll.every = Some("\"1m30s\"")
        schedules.poll.from = Some("\"start\"")
        schedules.poll.timezone = Some("\"UTC\"")
        schedules.poll.payload = Some("{ a = \"x\", b = 1 }")
        schedules.poll.priority = Some("100")
        schedules.poll.max_retry = None
        schedules.poll.timeout = None
        schedules.poll.misfire_grace = Some("\"1h\"")
        schedules.poll.coalesce = Some("true")
        schedules.poll.max_instances = Some("1")
        schedules.poll.overlap = Some("\"skip\"")
        schedules.poll.jitter = Some("\"0s\"")
        schedules.poll.dst_gap = None
        schedules.poll.dst_fold = None"#]]
    .assert_eq(&shown.join("\n"));
}
