//! Each finding, from what it is made of; and the screen.

use super::finding::{Examined, Finding, Level, render, wrap};
use super::*;
use crate::cli::samples;
use crate::cli::status::tests::status;
use crate::cli::text::width;
use crate::config::Handler;
use crate::journal::{Report, TailClass};
use crate::kernel::ids::{Millis, Timestamp};
use expect_test::expect;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[track_caller]
fn check(finding: &Finding, level: Level, what: &str) {
    assert_eq!(finding.level, level, "{finding:?}");
    assert!(finding.what.contains(what), "{finding:?}");
    let told = finding.why.is_some() && (level < Level::Warning || !finding.commands.is_empty());
    assert!(level == Level::Ok || told, "it says why, and what to do: {finding:?}");
}

#[test]
fn the_host_is_judged_by_what_it_gives() {
    use environment::{Kept, clock, descriptors, disk, inodes, memory, speed, temp_dir};
    let place = Path::new("/data");
    check(&disk(1 << 30, 4 << 20, place), Level::Ok, "1 GiB free for /data");
    check(&disk(7 << 20, 4 << 20, place), Level::Warning, "7 MiB free");
    check(&disk(3 << 20, 4 << 20, place), Level::Problem, "3 MiB free");
    assert_eq!(inodes(0, 0, place), None, "no fixed number");
    assert_eq!(inodes(1 << 20, 1 << 19, place), None);
    check(&inodes(1 << 20, 7, place).unwrap(), Level::Problem, "7 inodes");
    check(&memory(1 << 30), Level::Ok, "1 GiB");
    check(&memory(20 << 20), Level::Warning, "20 MiB");
    check(&descriptors(Some(256)), Level::Warning, "256 files");
    check(&descriptors(Some(4096)), Level::Ok, "4096");
    check(&descriptors(None), Level::Ok, "any number");
    check(&temp_dir(Path::new("/nonexistent/tmp")), Level::Warning, "/nonexistent/tmp");
    let now = Timestamp(1_800_000_000_000);
    let kept = |synchronised, waited_for| Kept { synchronised, waited_for };
    check(&clock(Timestamp(3_600_000), &kept(true, false)), Level::Problem, "1970-01-01");
    check(&clock(now, &kept(true, true)), Level::Ok, "kept right");
    check(&clock(now, &kept(false, false)), Level::Note, "NTP");
    check(&clock(now, &kept(false, true)), Level::Problem, "NTP");
    check(&speed(Millis(900)), Level::Warning, "900 ms");
    check(&speed(Millis(3)), Level::Ok, "3 ms");
}

#[test]
fn what_hangs_is_told_and_not_waited_for_and_its_disk_is_not_asked_again() {
    fn hangs(_: &Patient) -> Vec<Finding> {
        std::sync::Barrier::new(2).wait();
        Vec::new()
    }
    let well = |_: &Patient| vec![Finding::ok("well")];
    let never = |_: &Patient| -> Vec<Finding> { panic!("it would hang too") };
    let absent = || Failure::new(exit::UNREACHABLE, "nobody listens on it");
    let patient = Patient {
        config: Err(crate::config::Fault::new("none").into()),
        data_dir: Some("/data".into()),
        status: Err(absent()),
        schedules: Err(absent()),
        workers: Err(absent()),
    };
    let soon = Duration::from_millis(10);
    let checks = [
        Check { patience: soon, ..super::check("input", hangs) },
        Check { patience: soon, ..of_the_data("environment", hangs) },
        super::check("environment", well),
        of_the_data("journal", never),
    ];
    let Examined { level, findings } = look(patient, &checks);
    assert_eq!((level, findings.len()), (Level::Problem, 4));
    check(&findings[0], Level::Problem, "what is looked at here: the disk did not answer within");
    check(&findings[1], Level::Problem, "/data: the disk did not answer within");
    check(&findings[2], Level::Ok, "well");
    check(&findings[3], Level::Note, "not looked at");
}

#[test]
fn the_data_directory_is_its_owners_alone() {
    use permissions::owner;
    let place = Path::new("/data");
    check(&owner(place, 7, 0o40700, 7)[0], Level::Ok, "owner's alone");
    check(&owner(place, 0, 0o40700, 7)[0], Level::Ok, "owner's alone");
    check(&owner(place, 7, 0o40770, 7)[0], Level::Problem, "written by others (mode 0770)");
    check(&owner(place, 7, 0o40755, 7)[0], Level::Warning, "read by others (mode 0755)");
    check(&owner(place, 8, 0o40700, 7)[0], Level::Note, "belongs to user 8");
    check(&owner(place, 8, 0o40700, 0)[0], Level::Problem, "belongs to user 8");
}

#[test]
fn a_handler_that_cannot_be_started_is_told_with_what_is_missing() {
    use handlers::one;
    let dir = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str, mode| {
        let path = dir.path().join(name);
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let path = dir.path().to_str().unwrap();
    let of =
        |command: &str| Handler::new(vec![command.to_owned()], crate::config::Retry::default());
    let found = |handler: &Handler| one("job", handler, path);
    let good = script("good", "#!/bin/sh\n", 0o700);
    assert_eq!(found(&of(&good)), []);
    assert_eq!(found(&of("good")), [], "found in PATH");
    check(&found(&of("nowhere"))[0], Level::Problem, "job: its command nowhere is nowhere in");
    check(&found(&of("/no/such"))[0], Level::Problem, "its command /no/such is not there");
    let plain = script("plain", "#!/bin/sh\n", 0o600);
    check(&found(&of(&plain))[0], Level::Problem, "may not be executed");
    let lost = script("lost", "#!/opt/no/python3 -u\n", 0o700);
    check(&found(&of(&lost))[0], Level::Problem, "asks for /opt/no/python3, which is not there");
    let mut bad = of(&good);
    bad.cwd = Some("/no/dir".into());
    bad.schema = Some("/no/schema.json".into());
    bad.limits.user = Some("nobody-at-all".to_owned());
    let told: Vec<_> = found(&bad);
    check(&told[0], Level::Problem, "its directory /no/dir is not there");
    check(&told[1], Level::Problem, "nobody-at-all");
    check(&told[2], Level::Problem, "its schema /no/schema.json cannot be read");
}

#[test]
fn a_daemon_is_judged_by_its_answer() {
    use daemon::{answering, silent};
    let mut well = status();
    let told = answering(&well, "0.1.0");
    check(&told[0], Level::Warning, "task 88213 fetch_data is DEAD");
    well.attention.clear();
    check(&answering(&well, "0.1.0")[0], Level::Ok, "version 0.1.0, 2 workers alive");
    check(
        &answering(&well, "0.2.0")[0],
        Level::Warning,
        "of version 0.1.0, and this program of 0.2.0",
    );
    check(&silent(5, "no socket", true), Level::Problem, "no socket");
    check(&silent(5, "no socket", false), Level::Note, "never run here");
    check(&silent(8, "it hangs", true), Level::Problem, "it hangs");
}

#[test]
fn a_journal_is_judged_by_its_end() {
    let report = |tail| Report { records: 7, bytes: 4096, tail, ..Report::default() };
    let tell = |tail| store::tell(&report(tail), "midwatch-journal verify /data");
    check(&tell(TailClass::End), Level::Ok, "7 records in 4 KiB");
    let (file, offset, bytes) = ("journal/1".to_owned(), 512, 99);
    let torn = TailClass::Torn { file: file.clone(), offset, bytes, frames_after: 0 };
    check(&tell(torn), Level::Note, "99 bytes of a write that a crash cut short");
    let what = "checksum".to_owned();
    let bad = TailClass::Suspicious { file, offset, bytes, quarantined: None, what };
    check(&tell(bad), Level::Problem, "journal/1 at byte 512 is whole but wrong: checksum");
}

#[test]
fn what_is_well_takes_a_line_and_the_rest_says_what_to_do_in_80_columns() {
    let grouped = |group, finding| Finding { group, ..finding };
    let long = "the last record of journal/0000000007-00000000000000004211.journal at byte 81920 \
                is whole but wrong";
    let examined = Examined::new(vec![
        grouped("input", Finding::ok("/etc/midwatch/midwatch.toml, 3 handlers, 2 schedules")),
        grouped("input", Finding::ok("fits this host")),
        grouped("environment", environment::disk(5 << 20, 4 << 20, Path::new("/var/lib/midwatch"))),
        grouped("environment", Finding::ok("the clock is kept right")),
        grouped("handlers", Finding::ok("all 3 can be started")),
        grouped(
            "journal",
            Finding::problem(long, "the next start refuses", &["midwatch-journal verify"]),
        ),
    ]);
    let text = render(&examined, &samples::view(Some(80)));
    assert!(text.lines().all(|line| width(line) <= 80), "{text}");
    expect![[r#"
        ok       input        /etc/midwatch/midwatch.toml, 3 handlers, 2 schedules, fit…
        warning  environment  5 MiB free for /var/lib/midwatch
                              when it is used up, new work is refused
                                df -h /var/lib/midwatch
                                du -xh -d1 /var/lib/midwatch | sort -h
        ok       handlers     all 3 can be started
        problem  journal      the last record of
                              journal/0000000007-00000000000000004211.journal at byte
                              81920 is whole but wrong
                              the next start refuses
                                midwatch-journal verify

        1 problem, 1 warning
    "#]]
    .assert_eq(&text);
    let well =
        render(&Examined::new(vec![grouped("input", Finding::ok("good"))]), &samples::view(None));
    assert_eq!(well, "ok       input        good\n\nnothing needs to be done\n");
    assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
}
