//! The supervisor over children that are scripts (spec/supervision.md).
//!
//! The supervisor owns the signals and children of its process, so each test runs one in a
//! process of its own: this test binary again, asked for [`the_process_under_test`].

use midwatch::supervisor::{self, Pace, SupervisorOptions, WorkerSpec};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Every script begins so: `$1` is the role, `$DIR` the test's directory, `note` leaves a line.
const PROLOGUE: &str = r#"#!/bin/sh
role=$1
note() { echo "$role $*" >> "$DIR/notes"; }
beat() { while printf . >&4; do sleep 0.05; done; }
note start $$
"#;

/// A child that lives, shows it, and ends when it is asked to.
const WELL: &str = r"
trap 'note term; exit 0' TERM
trap 'note hup' HUP
beat
";

struct Supervisor {
    process: Child,
    dir: TempDir,
}

impl Supervisor {
    /// Supervises an engine and one worker, both of which run `script`.
    fn start(script: &str) -> Self {
        Self::start_with(script, &[])
    }

    fn start_with(script: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_under(&[], script, settings)
    }

    /// `wrapper` is a command that runs the supervisor in surroundings of its making.
    fn start_under(wrapper: &[&str], script: &str, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        fs::write(&program, format!("{PROLOGUE}{script}")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("notes"), "").unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        // Descriptor 9 is one that a careless parent leaves open.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", r#"exec 9< /dev/null; exec "$@""#, "sh"]).args(wrapper);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "supervision::the_process_under_test", "--nocapture"]);
        command.env("DIR", dir.path()).env("SUPERVISE", &program).envs(settings.iter().copied());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        #[expect(unsafe_code, reason = "signals blocked before exec are blocked in all threads")]
        // SAFETY: block_signals makes async-signal-safe calls only and allocates nothing.
        unsafe {
            command.pre_exec(block_signals)
        };
        Self { process: command.spawn().unwrap(), dir }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn notes(&self) -> String {
        fs::read_to_string(self.dir.path().join("notes")).unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    fn count(&self, note: &str) -> usize {
        self.notes().lines().filter(|line| line.starts_with(note)).count()
    }

    fn pids(&self, role: &str) -> Vec<Pid> {
        let start = format!("{role} start ");
        let notes = self.notes();
        let pids = notes.lines().filter_map(|line| line.strip_prefix(&start));
        pids.map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect()
    }

    fn eventually(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !condition(self) {
            let (notes, log) = (self.notes(), self.log());
            assert!(begun.elapsed() < LIMIT, "never: {what}\nnotes:\n{notes}\nlog:\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "it never ends; log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn until_both_are_ready(&self) {
        self.eventually("both ready", |it| it.log().matches("ready").count() == 2);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Its children see their lifelines end; scripts without an eye for that are ended here.
        let _unless_it_ended = self.process.kill();
        let _status = self.process.wait();
        for pid in [self.pids("engine"), self.pids("worker")].concat() {
            let _unless_it_ended = kill_process(pid, Signal::KILL);
        }
    }
}

const LIMIT: Duration = Duration::from_mins(3);

#[expect(unsafe_code, reason = "rustix has no signal mask")]
#[expect(clippy::unnecessary_wraps, reason = "the shape that pre_exec takes")]
fn block_signals() -> std::io::Result<()> {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the pointer is valid for one set; the call initialises it.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised; the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
    Ok(())
}

/// No test: what the others run in a process of its own.
#[test]
fn the_process_under_test() {
    let Some(program) = std::env::var_os("SUPERVISE") else { return };
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let mut options = SupervisorOptions::new(program.into());
    options.workers = vec![WorkerSpec { name: "w1".to_owned(), args: vec!["--name=w1".into()] }];
    options.engine_args = vec!["--data".into()];
    options.notify_socket = std::env::var_os("NOTIFY_SOCKET");
    options.watchdog = options.notify_socket.is_some().then(|| Duration::from_millis(100));
    let silent_after = std::env::var("SILENT_MS").map_or(90_000, |ms| ms.parse().unwrap());
    // With it set, a second crash already leads to the longest wait there is.
    let is_slow = std::env::var_os("SLOW").is_some();
    let wait = |millis| Duration::from_millis(if is_slow { 3_600_000 } else { millis });
    options.pace = Pace {
        delay_first: wait(5),
        delay_max: wait(40),
        silent_after: Duration::from_millis(silent_after),
        window: Duration::from_secs(3),
    };
    #[expect(clippy::exit, reason = "the harness would end with a code of its own")]
    std::process::exit(supervisor::run(options).unwrap().into());
}

// spec: SUP-040
#[test]
fn a_worker_that_ends_well_by_itself_is_started_again_and_that_is_no_crash() {
    let it = Supervisor::start(
        r#"
        trap 'exit 0' TERM
        if [ $role = worker ]; then printf . >&4; exit 0; fi
        beat
        "#,
    );
    // More often than it may crash before it is parked.
    it.eventually("ten starts", |it| 10 <= it.count("worker start"));
    let log = it.log();
    assert!(9 <= log.matches("ended by itself; starting it again").count(), "{log}");
    assert!(!log.contains("keeps ending") && !log.contains("ended with exit code"), "{log}");
}

// spec: SUP-001
#[test]
fn a_killed_child_is_started_again_and_the_other_is_left_alone() {
    let it = Supervisor::start(WELL);
    it.until_both_are_ready();
    for (killed, other, times) in [("engine", "worker", 1), ("worker", "engine", 2)] {
        kill_process(it.pids(killed)[0], Signal::KILL).unwrap();
        it.eventually("a second start", |it| it.count(&format!("{killed} start")) == 2);
        assert_eq!(it.count(&format!("{other} start")), times);
    }
    assert_eq!(it.log().matches("was killed (signal 9, SIGKILL)").count(), 2);
}

// spec: SUP-002
#[test]
fn children_get_their_arguments_and_two_pipes_and_nothing_else() {
    let it = Supervisor::start(
        r#"
        note args "$@"
        note notify "${NOTIFY_SOCKET-none}"
        note blocked "$(grep SigBlk /proc/$$/status)"
        note group "$(cut -d' ' -f5 /proc/$$/stat)" of $$
        # 10 and above are the shell's own, where it keeps the script.
        ls /proc/$$/fd > "$DIR/$role"
        note fds $(grep -x '[0-9]' "$DIR/$role")
        note stdin "$(readlink /proc/$$/fd/0)"
        beat
        "#,
    );
    it.eventually("the last note", |it| it.count("worker stdin") == 1);
    let notes = it.notes();
    for expected in [
        "engine args engine --lifeline 3 --probe 4 --data\n",
        "worker args worker --lifeline 3 --probe 4 --name=w1\n",
        "engine fds 0 1 2 3 4\n",
        "worker fds 0 1 2 3 4\n",
        "engine stdin /dev/null\n",
        "engine blocked SigBlk:\t0000000000000000\n",
        "worker notify none\n",
    ] {
        assert!(notes.contains(expected), "no {expected:?} in\n{notes}");
    }
    let pid = it.pids("worker")[0].as_raw_nonzero();
    assert!(notes.contains(&format!("worker group {pid} of {pid}\n")), "{notes}");
}

// spec: SUP-004
#[test]
fn a_child_that_falls_silent_is_killed_and_started_again() {
    let script = r#"
        if [ $role = worker ] && [ ! -e "$DIR/once" ]; then
            : > "$DIR/once"
            printf . >&4
            trap '' TERM
            while :; do sleep 1; done
        fi
        beat
    "#;
    let it = Supervisor::start_with(script, &[("SILENT_MS", "2000")]);
    it.eventually("a second start", |it| it.count("worker start") == 2);
    assert!(it.log().contains("no sign of life"));
    assert_eq!(it.count("engine start"), 1);
}

// spec: SUP-004
#[test]
fn a_stopped_child_is_silent_too() {
    let it = Supervisor::start_with(WELL, &[("SILENT_MS", "2000")]);
    it.until_both_are_ready();
    kill_process(it.pids("engine")[0], Signal::STOP).unwrap();
    it.eventually("a second engine", |it| it.count("engine start") == 2);
}

// spec: SUP-005
#[test]
fn a_crash_loop_is_parked_and_fills_no_log() {
    let it = Supervisor::start("[ $role = worker ] && exit 3\nbeat");
    it.eventually("many starts", |it| 30 <= it.count("worker start"));
    let log = it.log();
    assert_eq!(log.matches("ERROR").count(), 1, "{log}");
    assert!(log.contains("ended with exit code 3; it keeps ending"), "{log}");
    assert_eq!(log.matches("WARN").count(), 4, "0, 5, 10 and 20 ms, then the cap\n{log}");
    assert_eq!(it.count("engine start"), 1);
}

// spec: SUP-005
#[test]
fn a_program_that_is_missing_is_a_crash_loop_and_can_be_mended() {
    let mut it = Supervisor::start_with(WELL, &[]);
    it.until_both_are_ready();
    let program = it.dir.path().join("program");
    fs::rename(&program, it.dir.path().join("away")).unwrap();
    kill_process(it.pids("worker")[0], Signal::KILL).unwrap();
    it.eventually("parked", |it| it.log().contains("keeps ending"));
    assert!(it.log().contains("cannot be started"), "{}", it.log());
    fs::rename(it.dir.path().join("away"), &program).unwrap();
    it.eventually("recovered", |it| it.log().contains("recovered, and stays up"));
    it.signal(Signal::TERM);
    assert_eq!(it.end().code(), Some(0));
}

// spec: SUP-006
#[test]
fn an_engine_that_refuses_to_start_ends_the_daemon_with_its_own_code() {
    for code in [2, 6, 7] {
        let mut it = Supervisor::start(&format!("exit {code}"));
        assert_eq!(it.end().code(), Some(code));
        assert_eq!(it.notes().lines().count(), 1, "one start, and no worker");
    }
}

// spec: SUP-006
#[test]
fn an_engine_that_finds_its_predecessor_in_the_way_is_tried_again() {
    let script = r#"
        printf . >&4
        [ $role = worker ] && beat
        [ -e "$DIR/third" ] && beat
        [ -e "$DIR/second" ] && : > "$DIR/third"
        : > "$DIR/second"
        sleep 0.2
        exit 7
    "#;
    let it = Supervisor::start(script);
    it.eventually("a third engine", |it| it.count("engine start") == 3);
}

// spec: SUP-006
#[test]
fn an_engine_that_has_served_and_finds_a_bad_config_is_tried_until_that_is_mended() {
    let script = r#"
        [ $role = engine ] && [ -e "$DIR/bad" ] && exit 2
        beat
    "#;
    let it = Supervisor::start(script);
    it.until_both_are_ready();
    fs::write(it.dir.path().join("bad"), "").unwrap();
    kill_process(it.pids("engine")[0], Signal::KILL).unwrap();
    it.eventually("tried again and again", |it| 4 <= it.count("engine start"));
    fs::remove_file(it.dir.path().join("bad")).unwrap();
    it.eventually("a third one is ready", |it| it.log().matches(" ready").count() == 3);
    assert_eq!(it.count("worker start"), 1, "{}", it.log());
}

// spec: SUP-006
#[test]
fn damage_found_by_a_later_engine_drains_the_workers_and_ends_with_6() {
    let script = r#"
        trap 'note term; exit 0' TERM
        if [ $role = engine ] && [ -e "$DIR/damaged" ]; then exit 6; fi
        beat
    "#;
    let mut it = Supervisor::start(script);
    it.until_both_are_ready();
    fs::write(it.dir.path().join("damaged"), "").unwrap();
    kill_process(it.pids("engine")[0], Signal::KILL).unwrap();
    assert_eq!(it.end().code(), Some(6));
    assert_eq!(it.count("worker term"), 1);
    assert_eq!(it.count("engine start"), 2);
}

// spec: SUP-007
#[test]
fn sigterm_drains_the_workers_before_the_engine_is_told() {
    let script = r#"
        finish() {
            note term
            [ $role = worker ] && until [ -e "$DIR/drained" ]; do sleep 0.02; done
            note end
            exit 0
        }
        trap finish TERM
        beat
    "#;
    for signal in [Signal::TERM, Signal::INT] {
        let mut it = Supervisor::start(script);
        it.until_both_are_ready();
        it.signal(signal);
        it.eventually("the worker drains", |it| it.count("worker term") == 1);
        assert_eq!(it.count("engine term"), 0);
        fs::write(it.dir.path().join("drained"), "").unwrap();
        assert_eq!(it.end().code(), Some(0));
        let notes = it.notes();
        let order: Vec<_> = notes.lines().filter(|line| !line.contains("start")).collect();
        assert_eq!(order, ["worker term", "worker end", "engine term", "engine end"]);
    }
}

// spec: SUP-007
#[test]
fn an_engine_that_dies_while_workers_drain_comes_back_for_them() {
    let script = r#"
        drain() { note term; until [ $(grep -c 'engine start' "$DIR/notes") = 2 ]; do sleep 0.02; done; exit 0; }
        [ $role = worker ] && trap drain TERM
        beat
    "#;
    let mut it = Supervisor::start(script);
    it.until_both_are_ready();
    it.signal(Signal::TERM);
    it.eventually("the worker drains", |it| it.count("worker term") == 1);
    kill_process(it.pids("engine")[0], Signal::KILL).unwrap();
    assert_eq!(it.end().code(), Some(0));
    assert_eq!((it.count("engine start"), it.count("worker start")), (2, 1));
}

/// Longer than signals may be apart and still be one.
const NO_TWIN: Duration = Duration::from_millis(300);

// spec: SUP-007
#[test]
fn a_second_sigterm_tells_the_workers_again_and_keeps_the_engine_for_them() {
    let script = r#"
        [ $role = engine ] && trap 'note term; exit 0' TERM
        [ $role = worker ] && trap 'note term; [ $(grep -c "worker term" "$DIR/notes") = 2 ] && exit 0' TERM
        while :; do beat; done
    "#;
    let mut it = Supervisor::start(script);
    it.until_both_are_ready();
    it.signal(Signal::TERM);
    it.signal(Signal::INT);
    it.eventually("the first one was taken", |it| it.count("worker term") == 1);
    std::thread::sleep(NO_TWIN);
    assert_eq!(it.count("worker term"), 1, "two at once are one: {}", it.log());
    it.signal(Signal::TERM);
    assert_eq!(it.end().code(), Some(0));
    let notes = it.notes();
    let order: Vec<_> = notes.lines().filter(|line| !line.contains("start")).collect();
    assert_eq!(order, ["worker term", "worker term", "engine term"]);
}

// spec: SUP-007
#[test]
fn who_does_not_hurry_is_killed_in_the_end_or_by_a_third_sigterm() {
    for third in [true, false] {
        let mut it = Supervisor::start("trap 'note term' TERM\nwhile :; do beat; done");
        it.until_both_are_ready();
        it.signal(Signal::TERM);
        it.eventually("the first one was taken", |it| it.count("worker term") == 1);
        std::thread::sleep(NO_TWIN);
        it.signal(Signal::TERM);
        it.eventually("the second one was taken", |it| it.count("worker term") == 2);
        if third {
            std::thread::sleep(NO_TWIN);
            it.signal(Signal::TERM);
        }
        assert_eq!(it.end().code(), Some(0));
        assert_eq!(it.count("engine term"), 0);
        for pid in [it.pids("engine"), it.pids("worker")].concat() {
            assert!(test_kill_process(pid).is_err(), "{pid:?} still there");
        }
    }
}

// spec: SUP-003
#[test]
fn children_learn_of_the_supervisors_death_from_their_lifelines() {
    let script = r"
        beat & beater=$!
        cat <&3
        note orphaned
        kill $beater
    ";
    let it = Supervisor::start(script);
    it.until_both_are_ready();
    it.signal(Signal::KILL);
    it.eventually("both saw it", |it| {
        it.count("engine orphaned") == 1 && it.count("worker orphaned") == 1
    });
}

// spec: SUP-008
#[test]
fn orphans_are_reaped_and_no_exit_code_is_lost() {
    let script = r#"
        if [ $role = worker ]; then
            for n in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 41' & sh -c 'exit 42' &); done
            note "spawned"
            printf . >&4
            sleep 0.5
            exit 43
        fi
        beat
    "#;
    let it = Supervisor::start(script);
    it.eventually("two rounds", |it| it.count("worker spawned") == 2);
    assert!(it.log().contains("ended with exit code 43"), "{}", it.log());
    it.eventually("no zombie", |it| zombies_of(it.pid()) == 0);
}

/// State and parent of every process.
fn processes() -> Vec<(i32, String, i32)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let read = |stat: String| {
        let (before, after) = stat.rsplit_once(')')?;
        let mut after = after.split_whitespace();
        let pid = before.split(' ').next()?.parse().ok()?;
        Some((pid, after.next()?.to_owned(), after.next()?.parse().ok()?))
    };
    stats.filter_map(read).collect()
}

fn zombies_of(parent: Pid) -> usize {
    let parent = parent.as_raw_pid();
    processes().iter().filter(|(_, state, of)| state == "Z" && *of == parent).count()
}

fn child_of(parent: Pid) -> Pid {
    let parent = parent.as_raw_pid();
    let child = processes().iter().find(|(_, _, of)| *of == parent).map(|(pid, ..)| *pid);
    child.and_then(Pid::from_raw).unwrap()
}

// spec: SUP-008
#[test]
fn as_pid_1_it_reaps_and_stops_like_anywhere_else() {
    let namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork"];
    let can = Command::new(namespace[0]).args(&namespace[1..]).arg("true").status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no pid namespace may be made here, so nobody can be PID 1");
        return;
    }
    let script = r#"
        trap 'note term; exit 0' TERM
        note sees "$PPID"
        [ $role = worker ] && for n in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 41' &); done
        note spawned
        beat
    "#;
    let mut it = Supervisor::start_under(&namespace, script, &[]);
    it.until_both_are_ready();
    assert_eq!(it.count("worker sees 1"), 1, "{}", it.notes());
    let init = child_of(it.pid());
    it.eventually("no zombie", |_| zombies_of(init) == 0);
    kill_process(init, Signal::TERM).unwrap();
    assert_eq!(it.end().code(), Some(0), "{}", it.log());
    assert_eq!((it.count("worker term"), it.count("engine term")), (1, 1));
    // The notes name pids of the namespace, which is gone with all that was in it.
    fs::write(it.dir.path().join("notes"), "").unwrap();
}

/// An engine that recovers until it is told that it has.
const RECOVERS: &str = r#"
    if [ $role = engine ]; then
        until [ -e "$DIR/recovered" ]; do printf s >&4; sleep 0.05; done
    fi
    beat
"#;

// spec: SUP-004
#[test]
fn an_engine_that_recovers_is_alive_and_not_yet_ready() {
    let it = Supervisor::start_with(RECOVERS, &[("SILENT_MS", "2000")]);
    let begun = Instant::now();
    it.eventually("longer than silence may last", |_| Duration::from_secs(3) < begun.elapsed());
    assert_eq!((it.count("engine start"), it.count("worker start")), (1, 0));
    assert!(!it.log().contains("ready"));
    fs::write(it.dir.path().join("recovered"), "").unwrap();
    it.until_both_are_ready();
}

// spec: SUP-009
#[test]
fn sighup_is_passed_on_to_children_that_have_spoken() {
    let it = Supervisor::start(WELL);
    it.until_both_are_ready();
    it.signal(Signal::HUP);
    it.eventually("both were told", |it| it.notes().matches(" hup").count() == 2);
    assert_eq!(it.notes().matches("start").count(), 2);
}

// spec: SUP-005, SUP-009
// B85: every start is good, and every child dies soon after it.
#[test]
fn b85_a_worker_that_dies_after_every_good_start_is_parked_until_sighup_forgives_it() {
    let script = r#"
        [ $role = worker ] && [ ! -e "$DIR/mended" ] && { printf . >&4; sleep 0.02; exit 3; }
        beat
    "#;
    let it = Supervisor::start_with(script, &[("SLOW", "1")]);
    it.eventually("parked", |it| it.log().contains("keeps ending"));
    let log = it.log();
    assert_eq!(log.matches("ERROR").count(), 1, "{log}");
    assert_eq!((it.count("worker start"), it.count("engine start")), (2, 1));
    fs::write(it.dir.path().join("mended"), "").unwrap();
    it.signal(Signal::HUP);
    it.eventually("a third worker, long before its time", |it| it.count("worker start") == 3);
}

// spec: SUP-011
#[test]
fn the_engine_is_told_which_workers_are_parked_and_so_is_its_successor() {
    let script = r#"
        if [ $role = engine ]; then
            cat <&3 >>"$DIR/news" & beat
        fi
        [ -e "$DIR/mended" ] || exit 3
        beat
    "#;
    let it = Supervisor::start(script);
    let news = |it: &Supervisor| fs::read_to_string(it.dir.path().join("news")).unwrap_or_default();
    let parked = "parked w1 ended with exit code 3\n";
    it.eventually("the engine is told", |it| news(it) == parked);
    kill_process(it.pids("engine")[0], Signal::KILL).unwrap();
    it.eventually("so is the next one", |it| news(it) == parked.repeat(2));
    fs::write(it.dir.path().join("mended"), "").unwrap();
    it.eventually("and that it is well", |it| news(it) == format!("{}well w1\n", parked.repeat(2)));
}

/// The socket of an init system, and a supervisor that tells it.
fn told(script: &str, settings: &[(&str, &str)]) -> (Supervisor, UnixDatagram, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let settings = [settings, &[("NOTIFY_SOCKET", utf8(&path))]].concat();
    let it = Supervisor::start_with(script, &settings);
    it.eventually("it has opened the socket", |it| !it.notes().is_empty());
    (it, socket, dir)
}

/// What came before the news that begins so, and that.
fn until(socket: &UnixDatagram, wanted: &str) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let mut news = [0; 200];
        let n = socket.recv(&mut news).unwrap();
        all.push(String::from_utf8_lossy(&news[..n]).into_owned());
        if all.last().unwrap().starts_with(wanted) {
            return all;
        }
    }
}

// spec: SUP-010
#[test]
fn the_init_system_is_told_what_it_asked_for() {
    let (mut it, socket, _dir) = told(WELL, &[]);
    assert!(!until(&socket, "READY=1").contains(&"STOPPING=1".to_owned()));
    until(&socket, "STATUS=serving, 1 of 1 workers ready");
    until(&socket, "WATCHDOG=1");
    until(&socket, "WATCHDOG=1");
    it.signal(Signal::TERM);
    until(&socket, "STOPPING=1");
    until(&socket, "STATUS=stopping: 1 workers end");
    until(&socket, "STATUS=stopping: the engine ends");
    assert_eq!(it.end().code(), Some(0));
}

// spec: SUP-010
#[test]
fn a_reload_is_told_when_it_begins_and_when_every_child_has_read_the_config() {
    let script = r#"
        reload() { note hup; until [ -e "$DIR/read" ]; do sleep 0.02; done; printf r >&4; }
        trap reload HUP
        beat
    "#;
    let (it, socket, _dir) = told(script, &[]);
    until(&socket, "STATUS=serving, 1 of 1 workers ready");
    it.signal(Signal::HUP);
    let begun = until(&socket, "RELOADING=1\n").pop().unwrap();
    let usec = begun.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("the time of it");
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let age = now.tv_sec * 1_000_000 + now.tv_nsec / 1000 - usec.parse::<i64>().unwrap();
    assert!((0..60_000_000).contains(&age), "{age} µs ago");
    it.eventually("both were told", |it| it.notes().matches(" hup").count() == 2);
    socket.set_nonblocking(true).unwrap();
    let mut news = [0; 200];
    while let Ok(n) = socket.recv(&mut news) {
        assert_ne!(&news[..n], b"READY=1", "nobody has read it yet");
    }
    socket.set_nonblocking(false).unwrap();
    fs::write(it.dir.path().join("read"), "").unwrap();
    until(&socket, "READY=1");
    until(&socket, "STATUS=serving");
}

// spec: SUP-010
#[test]
fn a_long_recovery_asks_the_init_system_for_more_time() {
    let (it, socket, _dir) = told(RECOVERS, &[("SILENT_MS", "8000")]);
    for _ in 0..2 {
        let before = until(&socket, "EXTEND_TIMEOUT_USEC=8000000");
        assert!(!before.contains(&"READY=1".to_owned()), "{before:?}");
    }
    fs::write(it.dir.path().join("recovered"), "").unwrap();
    until(&socket, "READY=1");
}

// spec: SUP-010
#[test]
fn the_watchdog_is_not_fed_while_the_engine_is_silent() {
    let (it, socket, _dir) = told(WELL, &[("SILENT_MS", "6000")]);
    it.until_both_are_ready();
    until(&socket, "WATCHDOG=1");
    kill_process(it.pids("engine")[0], Signal::STOP).unwrap();
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    while it.count("engine start") < 2 {
        until(&socket, "WATCHDOG=1");
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    // Fed twice in each 100 ms, and for two of the six seconds after the last sign.
    assert!(Duration::from_secs(1) < longest, "{longest:?}");
    until(&socket, "WATCHDOG=1");
}

fn utf8(path: &Path) -> &str {
    path.to_str().unwrap()
}
