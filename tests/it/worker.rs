//! The worker as a process of its own, against an engine that knows no rules.

use crate::eventually::eventually;
use crate::fake_engine::FakeEngine;
use midwatch::api::{End, ProcessId, StopWord};
use midwatch::kernel::ids::{Fence, Millis, TaskId};
use midwatch::kernel::status::Outcome;
use midwatch::process::{self, Mark, Swept};
use rustix::process::{Pid, Signal};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

mod ends;
mod engine_away;
mod limits;
mod output;
mod stops;

/// An engine, a worker process and a data directory.
struct Crew {
    engine: FakeEngine,
    worker: Child,
    setup: serde_json::Value,
    _dir: tempfile::TempDir,
}

impl Crew {
    fn new(slots: u32, handlers: &[(&str, &str)]) -> Self {
        Self::with(slots, handlers, |_| {})
    }

    fn with(
        slots: u32,
        handlers: &[(&str, &str)],
        change: impl FnOnce(&mut serde_json::Value),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = FakeEngine::start(&dir.path().canonicalize().unwrap());
        let mut setup = serde_json::json!({
            "data_dir": engine.data_dir, "socket": engine.socket, "slots": slots,
            "log_max": 10 << 20, "handlers": handlers.iter().copied().collect::<BTreeMap<_, _>>(),
        });
        change(&mut setup);
        let worker = spawn_worker(&setup);
        Self { engine, worker, setup, _dir: dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.engine.data_dir.join(name)
    }

    fn wait_for_file(&self, name: &str) -> String {
        eventually(&format!("file {name}"), || {
            fs::read_to_string(self.file(name)).ok().filter(|text| text.ends_with('\n'))
        })
    }

    fn run(&self, kind: &str, payload: &str) -> End {
        self.engine.end_of(self.engine.lease(kind, payload))
    }

    fn log(&self, fence: Fence) -> String {
        String::from_utf8_lossy(&fs::read(self.engine.log_of(fence)).unwrap()).into_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.worker.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn wait_for_exit(&mut self) -> ExitStatus {
        eventually("the worker ended", || self.worker.try_wait().unwrap())
    }

    /// The process whose pid a script wrote into a file.
    fn process_in(&self, name: &str) -> ProcessId {
        let pid: u32 = self.wait_for_file(name).trim().parse().unwrap();
        process::of(pid).unwrap().expect("it lives")
    }

    fn sweep(&self, fence: Fence) -> Swept {
        let (run, boot) = (self.file("run"), process::boot_id().unwrap());
        process::sweep(&run, &self.engine.store, TaskId(fence.0 - 100), fence, &boot).unwrap()
    }

    fn nothing_is_left_of(&self, fence: Fence) -> bool {
        let token = format!("{}:{}:{fence}", self.engine.store, fence.0 - 100);
        Mark::by_token(&token).look().unwrap().found.is_empty()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Each is killed by name; nothing of a test outlives it.
        let _gone = self.worker.kill();
        let _reaped = self.worker.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.file("worker.out")).unwrap_or_default();
            eprintln!("the worker's log:\n{log}");
        }
        let run = self.file("run");
        for entry in fs::read_dir(&run).into_iter().flatten().flatten() {
            if let Ok(fence) = entry.file_name().to_string_lossy().parse::<u64>()
                && self.engine.book().ends.iter().all(|end| end.lease.fence.0 != fence)
            {
                self.sweep(Fence(fence));
            }
        }
    }
}

/// Starts `midwatch worker` with a config made from the setup.
fn spawn_worker(setup: &serde_json::Value) -> Child {
    let data_dir = Path::new(setup["data_dir"].as_str().unwrap());
    let text = |key: &str| setup[key].as_str().unwrap_or_default();
    let mut config = format!("[worker]\n{}\n", text("worker"));
    for (kind, script) in setup["handlers"].as_object().unwrap() {
        // A JSON array of strings is one in TOML too.
        let command = serde_json::json!(["sh", "-c", script]);
        let (log_max, dir) = (&setup["log_max"], &setup["data_dir"]);
        config += &format!(
            "[handlers.{kind}]\ncommand = {command}\nlog_max = \"{log_max}B\"\n\
             env = {{ DIR = {dir} }}\nenv_pass = [\"PASSED\"]\n\
             fatal_exit_codes = [9, 64, 65, 78]\nretryable_exit_codes = [77]\n{}\n",
            text("lines")
        );
    }
    let path = data_dir.join("midwatch.toml");
    fs::write(&path, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_midwatch"));
    command.arg("--config").arg(path).arg("--data-dir").arg(data_dir);
    command.arg("--socket").arg(setup["socket"].as_str().unwrap()).arg("worker");
    command.arg("--slots").arg(setup["slots"].to_string());
    for pipe in ["lifeline", "probe"] {
        if let Some(number) = setup[pipe].as_i64() {
            command.arg(format!("--{pipe}")).arg(number.to_string());
        }
    }
    let log = File::create(data_dir.join("worker.out")).unwrap();
    command.env("SECRET", "1").env("PASSED", "on").stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap()
}

// spec: HND-001, HND-004
#[test]
fn a_handler_learns_what_it_needs_and_nothing_else() {
    let crew = Crew::new(1, &[("show", "cat; echo; env | sort")]);
    let fence = crew.engine.lease_with("show", r#"{"a": [1, 2]}"#, |lease| {
        lease.key = Some("k 1".into());
        lease.attempt = 1;
    });
    let end = crew.engine.end_of(fence);
    assert_eq!((end.outcome, end.exit_code, end.started), (Outcome::Success, Some(0), true));
    let log = crew.log(fence);
    let (payload, env) = log.split_once('\n').unwrap();
    assert_eq!(payload, r#"{"a": [1, 2]}"#);
    for line in [
        "MIDWATCH_ATTEMPT=1",
        "MIDWATCH_CONTROL_FD=3",
        &format!("MIDWATCH_FENCE={fence}"),
        "MIDWATCH_KEY=k 1",
        "MIDWATCH_MAX_RETRY=5",
        "MIDWATCH_SCHEDULED_FOR=2026-01-01T00:00:00.000Z",
        "MIDWATCH_TASK_ID=1",
        "MIDWATCH_TASK_TYPE=show",
        &format!("MIDWATCH_TOKEN={}:1:{fence}", crew.engine.store),
        "PASSED=on",
    ] {
        assert!(env.lines().any(|there| there == line), "{line} is not in {env}");
    }
    for name in ["SECRET", "CARGO", "MIDWATCH_CHECKPOINT_FILE"] {
        assert!(!env.contains(&format!("{name}=")), "{name} is in {env}");
    }
    assert!(!log.contains(&format!("{:032x}", fence.0)), "the secret is in {log}");
}

#[test]
fn an_exec_task_runs_the_command_in_its_payload() {
    let crew = Crew::new(1, &[]);
    let fence = crew.engine.lease("exec", r#"{"argv":["sh","-c","pwd; exit 3"],"cwd":"/usr"}"#);
    let end = crew.engine.end_of(fence);
    assert_eq!((end.outcome, end.exit_code), (Outcome::Retryable, Some(3)));
    assert_eq!(crew.log(fence), "/usr\n");
    let end = crew.run("exec", r#"{"argv":[]}"#);
    assert_eq!((end.outcome, end.started), (Outcome::Fatal, false));
    assert_eq!(crew.engine.book().registrations[0].types, ["exec"]);
}

#[test]
fn a_worker_holds_as_many_leases_as_it_has_slots_and_never_more() {
    let crew = Crew::new(3, &[("nop", "exit 0"), ("slow", "sleep 0.05")]);
    let fences: Vec<Fence> = (0..60)
        .map(|n| crew.engine.lease(if n % 3 == 0 { "slow" } else { "nop" }, "null"))
        .collect();
    for fence in &fences {
        assert_eq!(crew.engine.end_of(*fence).outcome, Outcome::Success);
    }
    let book = crew.engine.book();
    assert_eq!(book.held_most, 3);
    assert_eq!(book.ends.len(), 60);
}

#[test]
fn many_attempts_leave_no_descriptor_no_child_and_no_directory() {
    let crew = Crew::new(
        4,
        &[
            ("nop", "echo x"),
            ("fail", "echo no >&2; exit 75"),
            ("daemon", "(setsid sleep 600 >/dev/null 2>&1 3>&- &) ; exit 0"),
        ],
    );
    let open = || fs::read_dir(format!("/proc/{}/fd", crew.worker.id())).unwrap().count();
    let round = |count: u32| {
        let kinds = ["nop", "fail", "daemon", "missing"];
        let fences: Vec<Fence> = (0..count)
            .map(|n| crew.engine.lease(kinds[n as usize % kinds.len()], "null"))
            .collect();
        for fence in &fences {
            crew.engine.end_of(*fence);
            assert!(crew.nothing_is_left_of(*fence));
        }
    };
    round(8);
    let before = open();
    round(200);
    eventually("no descriptor is left", || (open() <= before + 2).then_some(()));
    eventually("no child is left but the pid that waits", || {
        let children = children_of(crew.worker.id());
        children.is_empty().then_some(())
    });
    eventually("no directory is left", || {
        let names = fs::read_dir(crew.file("run")).unwrap();
        let left = names.filter(|entry| {
            entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp")
        });
        (left.count() == 0).then_some(())
    });
}

fn children_of(parent: u32) -> Vec<String> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        if after.split(' ').nth(1) == Some(parent.to_string().as_str()) {
            children.push(stat);
        }
    }
    children
}

#[test]
fn heartbeats_list_what_is_held_with_process_and_progress() {
    let crew = Crew::new(
        2,
        &[(
            "work",
            r#"echo '{"op":"progress","done":3,"total":9,"note":"third"}' >&3; read -r x <&3; sleep 600"#,
        )],
    );
    let fence = crew.engine.lease("work", "null");
    crew.engine.wait("a heartbeat with progress", |book| {
        book.heartbeats.iter().flat_map(|beat| &beat.holds).any(|hold| {
            hold.lease.fence == fence
                && hold.lease.secret == format!("{:032x}", fence.0)
                && hold.process.is_some()
                && hold.progress.as_ref().is_some_and(|p| p.done == 3 && p.total == Some(9))
        })
    });
}

#[test]
fn the_probe_gets_its_byte_and_the_lifeline_ends_the_worker_after_its_work() {
    let (lifeline, held) = rustix::pipe::pipe().unwrap();
    let (probed, probe) = rustix::pipe::pipe().unwrap();
    let close_on_exec = |fd: &dyn AsFdDyn| {
        rustix::io::fcntl_setfd(fd.fd(), rustix::io::FdFlags::CLOEXEC).unwrap();
    };
    close_on_exec(&held);
    close_on_exec(&probed);
    let number = |fd: &std::os::fd::OwnedFd| std::os::fd::AsRawFd::as_raw_fd(fd);
    let mut crew = Crew::with(1, &[("slow", "echo up > $DIR/up; read -r go < $DIR/go")], |setup| {
        setup["lifeline"] = number(&lifeline).into();
        setup["probe"] = number(&probe).into();
    });
    drop((lifeline, probe));
    let mut byte = [0_u8; 1];
    assert_eq!(rustix::io::read(&probed, &mut byte).unwrap(), 1);
    Command::new("mkfifo").arg(crew.file("go")).status().unwrap();
    let fence = crew.engine.lease("slow", "null");
    crew.wait_for_file("up");
    drop(held);
    // It takes nothing new, and what runs may end.
    let late = crew.engine.lease("slow", "null");
    fs::write(crew.file("go"), "go\n").unwrap();
    assert_eq!(crew.engine.end_of(fence).outcome, Outcome::Success);
    assert!(crew.wait_for_exit().success());
    let book = crew.engine.book();
    assert_eq!(book.left, 1);
    assert!(book.ends.iter().all(|end| end.lease.fence != late));
}

/// A descriptor of either kind of pipe end.
trait AsFdDyn {
    fn fd(&self) -> std::os::fd::BorrowedFd<'_>;
}

impl AsFdDyn for std::os::fd::OwnedFd {
    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.as_fd()
    }
}

#[test]
fn a_worker_killed_hard_leaves_a_free_lock_and_nothing_that_a_sweep_does_not_end() {
    let mut crew = Crew::new(
        1,
        &[(
            "tree",
            "setsid sh -c 'echo $$ > $DIR/session; sleep 600; true' & \
         sleep 600 & echo $! > $DIR/group; wait",
        )],
    );
    let fence = crew.engine.lease("tree", "null");
    let hidden = ["session", "group"].map(|name| crew.process_in(name));
    let lock = crew.engine.book().registrations[0].lock.clone();
    let lock = crew.file("run").join(lock);
    assert!(!process::is_free(&lock).unwrap());
    crew.worker.kill().unwrap();
    crew.worker.wait().unwrap();
    eventually("the lock is free", || process::is_free(&lock).unwrap().then_some(()));
    let swept = crew.sweep(fence);
    assert!(swept.started);
    for process in &hidden {
        assert!(!process::is_alive(process).unwrap());
    }
    // The next worker of the same directory has a lock of its own.
    crew.worker = spawn_worker(&crew.setup);
    crew.engine.wait("a second registration", |book| book.registrations.len() == 2);
}

#[test]
fn an_attempt_that_was_given_up_before_its_start_never_runs_and_is_not_reported() {
    let crew = Crew::new(1, &[("run", "echo ran > $DIR/ran"), ("nop", "exit 0")]);
    crew.engine.wait("registration", |book| !book.registrations.is_empty());
    assert!(!crew.sweep(Fence(102)).started);
    let fence = crew.engine.lease("run", "null");
    assert_eq!(fence, Fence(102));
    let next = crew.run("nop", "null");
    assert_eq!(next.outcome, Outcome::Success);
    assert!(!crew.file("ran").exists());
    assert!(crew.engine.book().ends.iter().all(|end| end.lease.fence != fence));
}

#[test]
fn a_timeout_travels_with_the_lease() {
    let crew = Crew::new(1, &[("slow", "sleep 600")]);
    let fence = crew.engine.lease_with("slow", "null", |lease| {
        lease.timeout_ms = Some(Millis(100));
    });
    let end = crew.engine.end_of(fence);
    assert_eq!(end.outcome, Outcome::TimedOut);
    assert_eq!(end.signal, Some(Signal::TERM.as_raw()));
    assert!(crew.nothing_is_left_of(fence));
    let word = StopWord::Timeout;
    assert_eq!(serde_json::to_string(&word).unwrap(), "\"timeout\"");
}
