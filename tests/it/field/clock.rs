//! A wall clock that is wrong, jumps and is put back, on the real program. The clock is that of
//! libfaketime; the other clocks run on. Where the library is missing, each test says so.

use super::house::{CALM, House, Part};
use midwatch::api::{ScheduleView, StatusView};
use midwatch::kernel::status::Status;
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const RUNS: &str = "retry = { max_retry = 0 }";

/// A house whose engine believes in a clock of its own.
struct Faked {
    house: House,
    library: PathBuf,
}

impl Faked {
    /// None where there is no libfaketime that works here.
    fn new(config: &str, handlers: &[(&str, &str, &str)]) -> Option<Self> {
        let dirs = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
        let found = dirs.map(|dir| dir.join("faketime/libfaketimeMT.so.1"));
        let library = { found }.find(|path| path.exists());
        let house = House::with(config, CALM, handlers);
        let faked = library.map(|library| Self { house, library }).filter(Self::works);
        if faked.is_none() {
            eprintln!("SKIPPED: there is no libfaketime here, and no other way to a wrong clock");
        }
        faked
    }

    fn works(&self) -> bool {
        self.set(-1_000_000_000);
        let output = self.fake(Command::new("date")).args(["-u", "+%Y"]).output();
        self.set(0);
        let year = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        year.is_ok_and(|year| year.trim().parse::<u32>().is_ok_and(|year| year < 2020))
    }

    fn fake(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", &self.library);
        command.env("FAKETIME_TIMESTAMP_FILE", self.house.path("wall"));
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.env("NO_FAKE_STAT", "1").env_remove("FAKETIME_SHARED");
        command
    }

    /// Puts the clock so many seconds off, also for those who run already.
    fn set(&self, offset: i64) {
        let fresh = self.house.path("wall.new");
        fs::write(&fresh, format!("{offset:+}\n")).unwrap();
        fs::rename(fresh, self.house.path("wall")).unwrap();
    }

    fn engine(&self) -> Part {
        let part = self.house.spawn("engine", self.fake(self.house.command(&["engine"])));
        self.house.until_served();
        part
    }

    /// Waits until a step of the clock was seen; asking is what wakes the engine here, for no
    /// kernel tells of a clock that is only made up.
    fn until_stepped(&self, steps: u64) -> StatusView {
        self.house.until(&format!("{steps} steps were seen"), |house| {
            house.status().filter(|status| steps <= status.clock.steps)
        })
    }

    fn schedule(&self, name: &str) -> ScheduleView {
        self.house.client().get(&format!("/v1/schedules/{name}")).unwrap()
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

// B54: boards without a clock started with a wrong date and jumped after NTP.
#[test]
fn b54_a_board_that_starts_in_1970_runs_tasks_holds_the_calendar_and_goes_on_when_it_is_set() {
    let schedules = "[schedules.tick]\ntype = \"noop\"\ncron = \"* * * * * *\"\n\
                     [schedules.beat]\ntype = \"noop\"\nevery = \"1s\"\n";
    let Some(faked) = Faked::new(schedules, &[("noop", "true", RUNS)]) else { return };
    let house = &faked.house;
    faked.set(86_400 - now());
    let engine = faked.engine();
    let _worker = house.worker("w", 2);
    let task = house.submit("noop", "1");
    house.until_status(task, Status::Success);
    house.until("an interval fires", |_| (1 <= faked.schedule("beat").counts.fired).then_some(()));
    let status = house.status().unwrap();
    assert!(status.clock.held && status.health == "ATTENTION", "{status:#?}");
    assert!(status.attention[0].what.contains("1970-01-02"), "{status:#?}");
    assert!(faked.schedule("tick").held);
    assert_eq!(faked.schedule("tick").counts.fired, 0);
    faked.set(0);
    let status = faked.until_stepped(1);
    assert!(!status.clock.held, "{status:#?}");
    house.until("the calendar fires", |_| (1 <= faked.schedule("tick").counts.fired).then_some(()));
    let tick = faked.schedule("tick");
    assert_eq!(tick.counts.missed, 0, "{tick:#?}");
    // Two years too far ahead, and back: nothing hangs, and nothing storms.
    let before = faked.schedule("tick").counts.fired;
    faked.set(2 * 365 * 86_400);
    faked.until_stepped(2);
    faked.set(0);
    faked.until_stepped(3);
    let fired = faked.schedule("tick").counts.fired;
    house.until("the calendar fires again", |_| {
        (fired + 3 <= faked.schedule("tick").counts.fired).then_some(())
    });
    assert!(before <= fired);
    drop(engine);
}

// B55: a lease counted on the wall clock ended early, or never.
#[test]
fn b55_steps_of_an_hour_in_either_direction_do_not_touch_what_runs() {
    let Some(faked) = Faked::new("", &[("job", "until_there go", RUNS)]) else { return };
    let house = &faked.house;
    faked.set(0);
    let _engine = faked.engine();
    let _worker = house.spawn("w", faked.fake(house.command(&["worker", "--slots", "1"])));
    let task = house.submit("job", "1");
    house.until_start(task, 1);
    for (steps, offset) in [(1, 3_600), (2, 0), (3, 3_600), (4, -3_600)] {
        faked.set(offset);
        faked.until_stepped(steps);
    }
    fs::write(house.path("go"), "").unwrap();
    house.until_status(task, Status::Success);
    assert_eq!(house.reasons(task), ["created", "dispatched", "completed"]);
    let (step, log) = (faked.until_stepped(4).clock.last_step.unwrap(), house.path("engine.log"));
    assert!(step.to < step.from, "{step:?}");
    let told = fs::read_to_string(log).unwrap();
    assert_eq!(told.matches("the wall clock was put").count(), 4, "{told}");
}

// B56: a clock that was put back stopped the daemon, or an assertion did.
#[test]
fn b56_a_day_back_while_clients_come_and_go_and_tasks_start_harms_nothing() {
    let Some(faked) = Faked::new("", &[("noop", "true", RUNS)]) else { return };
    let house = &faked.house;
    faked.set(0);
    let mut engine = faked.engine();
    let _worker = house.spawn("w", faked.fake(house.command(&["worker", "--slots", "2"])));
    for round in 1..=4_u32 {
        let tasks: Vec<_> =
            (0..5).map(|number| house.submit("noop", &number.to_string())).collect();
        faked.set(-86_400 * i64::from(round % 2));
        faked.until_stepped(u64::from(round));
        for task in tasks {
            house.until_status(task, Status::Success);
        }
        for args in [&["status"][..], &["list"], &["workers"], &["history", "1"], &["type", "list"]]
        {
            let output = house.run(args);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.code().is_some_and(|code| code < 2), "{args:?}: {output:?}");
            assert!(!text.contains("in -") && !text.contains(" -1 "), "{args:?}: {text}");
        }
    }
    assert!(engine.has_ended().is_none());
}

// B51: after a suspend, what was due came as late as the sleep had been long.
#[test]
fn b51_what_came_due_while_nothing_ran_is_run_at_once_when_the_host_wakes_up() {
    let Some(faked) = Faked::new("", &[("noop", "true", RUNS)]) else { return };
    let house = &faked.house;
    faked.set(0);
    let engine = faked.engine();
    let _worker = house.spawn("w", faked.fake(house.command(&["worker", "--slots", "1"])));
    let at = chrono::DateTime::from_timestamp(now() + 300, 0).unwrap();
    let at = at.format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let task = house.say(&["submit", "noop", "--at", &at]).parse().unwrap();
    assert_eq!(house.task(task).status, Status::Pending);
    engine.signal(Signal::STOP);
    faked.set(600);
    std::thread::sleep(Duration::from_millis(200));
    engine.thaw();
    house.until_status(task, Status::Success);
}

// spec: DOC-003
#[test]
fn doctor_says_that_a_clock_of_1970_is_wrong() {
    let Some(faked) = Faked::new("", &[("noop", "exit 0", "")]) else { return };
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    faked.set(3600 - i64::try_from(now).unwrap());
    let output = faked.fake(faked.house.command(&["doctor", "--json"])).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("the clock shows 1970-01-01T01:00"), "{told}");
}
