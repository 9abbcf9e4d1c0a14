//! A directory with a config and handlers in it, and the processes that a test starts there.

use midwatch::api::{
    Acted, History, StatusView, SubmitRequest, Submitted, TaskView, WorkerView, Workers,
};
use midwatch::client::{Blocking, ClientError};
use midwatch::kernel::ids::TaskId;
use midwatch::kernel::status::Status;
use midwatch::process;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::value::RawValue;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// No wait of a test is longer; a test that needs it has failed.
const LIMIT: Duration = Duration::from_mins(3);

/// Spans for tests in which nobody is silent for long: wide enough for a loaded machine.
pub(crate) const CALM: &str =
    "heartbeat = \"300ms\"\nsuspect_after = \"5s\"\noffline_after = \"20s\"\n";

/// Spans for tests that wait for silence to be noticed.
pub(crate) const BRISK: &str =
    "heartbeat = \"300ms\"\nsuspect_after = \"700ms\"\noffline_after = \"2s\"\n";

/// Every handler begins so. Whatever the attempt starts inherits the lock, so a second attempt
/// beside anything that is left of the first cannot go unnoticed.
const PROLOGUE: &str = r#"
exec 9>>"$DIR/lock.$MIDWATCH_TASK_ID"
flock -n 9 || { echo "task $MIDWATCH_TASK_ID, token $MIDWATCH_FENCE" >>"$DIR/overlaps"; exit 1; }
echo "$MIDWATCH_TASK_ID $MIDWATCH_ATTEMPT $MIDWATCH_FENCE $$" >>"$DIR/starts"
until_there() { until [ -e "$DIR/$1" ]; do sleep 0.05; done; }
first() { [ "$MIDWATCH_ATTEMPT" = 1 ]; }
"#;

/// A directory of its own for each test. Dropping it kills whatever runs in its name.
pub(crate) struct House {
    dir: tempfile::TempDir,
}

/// A handler that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) task: TaskId,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    pub(crate) pid: u32,
}

/// A process that a test started. Dropping it kills it.
pub(crate) struct Part {
    child: Child,
    log: PathBuf,
}

impl Part {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and returns when all of it stands still.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        until("it is stopped", || is_stopped(self.pid()).then_some(()));
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it with SIGKILL and takes its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.has_ended() {
                return status;
            }
            assert!(began.elapsed() < LIMIT, "it never ends:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.end()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _unless_it_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl House {
    /// `spans` are lines of the table `[worker]`; a handler is its type, its script, and further
    /// lines of its table.
    pub(crate) fn new(spans: &str, handlers: &[(&str, &str, &str)]) -> Self {
        Self::with("", spans, handlers)
    }

    /// `more` is a further piece of the config.
    pub(crate) fn with(more: &str, spans: &str, handlers: &[(&str, &str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        let mut config = format!(
            "data_dir = \"{home}/data\"\n[worker]\n{spans}\
             [retry]\nbase = \"50ms\"\ncap = \"300ms\"\n{more}\n"
        );
        for (kind, script, lines) in handlers {
            // A JSON array of strings is one in TOML too.
            let command = serde_json::json!(["/bin/sh", "-c", format!("{PROLOGUE}{script}")]);
            config += &format!(
                "[handlers.{kind}]\ncommand = {command}\nenv = {{ DIR = \"{home}\" }}\n{lines}\n"
            );
        }
        let path = dir.path().join("midwatch.toml");
        fs::write(&path, config).unwrap();
        // A config that others may write to is refused, whatever our own umask gives away.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.path("data").join(name)
    }

    /// The program, told the config; its environment is only what is said here.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midwatch"));
        command.arg("--config").arg(self.path("midwatch.toml")).args(args).stdin(Stdio::null());
        command.env_remove("MIDWATCH_SOCKET").env_remove("MIDWATCH_DATA_DIR");
        command
    }

    /// Starts a part of the program, or of what it is wrapped in.
    pub(crate) fn spawn(&self, name: &str, mut command: Command) -> Part {
        let log = self.path(&format!("{name}.log"));
        let file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Part { child: command.spawn().unwrap(), log }
    }

    /// Starts a daemon with one worker of two slots, and waits until it answers and has it.
    pub(crate) fn daemon(&self) -> Part {
        self.daemon_with(&["--workers", "1", "--slots", "2"], 1)
    }

    /// Starts a daemon and waits until it answers and `workers` have registered.
    pub(crate) fn daemon_with(&self, args: &[&str], workers: u32) -> Part {
        let part = self.spawn("daemon", self.command(&[&["daemon"], args].concat()));
        self.until_served();
        self.until("the workers have registered", |house| {
            (workers <= house.status()?.workers_alive).then_some(())
        });
        part
    }

    /// Starts an engine alone and waits until it answers.
    pub(crate) fn engine(&self) -> Part {
        let part = self.spawn("engine", self.command(&["engine"]));
        self.until_served();
        part
    }

    /// Starts a worker alone and waits until it has registered.
    pub(crate) fn worker(&self, name: &str, slots: u32) -> Part {
        let slots = slots.to_string();
        let part = self.spawn(name, self.command(&["worker", "--name", name, "--slots", &slots]));
        self.until("the worker has registered", |house| {
            house.workers().iter().any(|it| it.pid == part.pid()).then_some(())
        });
        part
    }

    pub(crate) fn until_served(&self) {
        self.until("it answers", Self::status);
    }

    /// Runs a command of the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What a command that succeeds prints.
    pub(crate) fn say(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(crate) fn client(&self) -> Blocking {
        let client = Blocking::connect(self.data("midwatch.sock")).unwrap();
        client.answering_within(Duration::from_mins(1))
    }

    pub(crate) fn status(&self) -> Option<StatusView> {
        self.client().get("/v1/status").ok()
    }

    pub(crate) fn workers(&self) -> Vec<WorkerView> {
        self.client().get::<Workers>("/v1/workers").map(|list| list.workers).unwrap_or_default()
    }

    pub(crate) fn submit(&self, kind: &str, payload: &str) -> TaskId {
        let request = request(kind, payload);
        self.client().post::<_, Submitted>("/v1/tasks", &request).unwrap().id
    }

    pub(crate) fn task(&self, id: TaskId) -> TaskView {
        self.client().get(&format!("/v1/tasks/{id}")).unwrap()
    }

    pub(crate) fn history(&self, id: TaskId) -> History {
        self.client().get(&format!("/v1/tasks/{id}/history")).unwrap()
    }

    /// The reasons of a task's transitions, in order.
    pub(crate) fn reasons(&self, id: TaskId) -> Vec<&'static str> {
        let transitions = self.history(id).transitions;
        transitions.iter().filter_map(|line| Some(line.reason?.word())).collect()
    }

    pub(crate) fn act(&self, id: TaskId, verb: &str) -> Result<Acted, ClientError> {
        self.client().post(&format!("/v1/tasks/{id}/{verb}"), &serde_json::json!({}))
    }

    /// Waits until a task has this status.
    pub(crate) fn until_status(&self, id: TaskId, status: Status) -> TaskView {
        self.until(&format!("task {id} is {status}"), |house| {
            let task: TaskView = house.client().get(&format!("/v1/tasks/{id}")).ok()?;
            let ended = task.status.is_terminal() && task.status != status;
            assert!(!ended, "task {id} ended as {}: {}", task.status, house.account());
            (task.status == status).then_some(task)
        })
    }

    /// Waits until a file is there, and gives its text.
    pub(crate) fn until_file(&self, name: &str) -> String {
        self.until(&format!("there is a file {name}"), |house| {
            let text = fs::read_to_string(house.path(name)).ok()?;
            text.ends_with('\n').then_some(text)
        })
    }

    /// Makes the file that handlers wait for.
    pub(crate) fn touch(&self, name: &str) {
        File::create(self.path(name)).unwrap();
    }

    /// Waits until an attempt of a task has started.
    pub(crate) fn until_start(&self, task: TaskId, attempt: u32) -> Start {
        self.until(&format!("attempt {attempt} of task {task} has started"), |house| {
            house.starts().into_iter().find(|it| it.task == task && it.attempt == attempt)
        })
    }

    /// Handlers that have begun, in order.
    pub(crate) fn starts(&self) -> Vec<Start> {
        let text = fs::read_to_string(self.path("starts")).unwrap_or_default();
        let whole = text.lines().filter(|line| line.split(' ').count() == 4);
        let start = |line: &str| {
            let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            Start {
                task: TaskId(numbers[0]),
                attempt: u32::try_from(numbers[1]).unwrap(),
                fence: numbers[2],
                pid: u32::try_from(numbers[3]).unwrap(),
            }
        };
        whole.map(start).collect()
    }

    /// No attempt ever began beside anything that was left of another one of its task.
    pub(crate) fn check_no_overlap(&self) {
        let overlaps = fs::read_to_string(self.path("overlaps")).unwrap_or_default();
        assert!(overlaps.is_empty(), "attempts overlapped:\n{overlaps}{}", self.account());
    }

    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(began.elapsed() < LIMIT, "never came true: {what}\n{}", self.account());
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// Everything that its processes said, for the message of a failure.
    pub(crate) fn account(&self) -> String {
        let mut account = String::new();
        for entry in fs::read_dir(self.dir.path()).unwrap().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == "log") {
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                account += &format!("--- {}\n{text}", path.display());
            }
        }
        account
    }

    /// Pids of the engine and of all workers, as the daemon tells them.
    pub(crate) fn pids(&self) -> (u32, Vec<u32>) {
        let engine = self.status().expect("it answers").pid;
        (engine, self.workers().iter().map(|worker| worker.pid).collect())
    }

    /// Kills supervisor, engine and workers with SIGKILL: the supervisor first, so that it starts
    /// nobody anew, and the engine second, so that it sweeps nothing any more.
    pub(crate) fn kill_all(&self, daemon: Part) {
        let (engine, workers) = self.pids();
        daemon.kill();
        for pid in [engine].into_iter().chain(workers) {
            kill(pid);
            until("it is dead", || (!is_alive(pid)).then_some(()));
        }
    }

    /// Living processes that bear this directory in their command or environment.
    pub(crate) fn living(&self) -> Vec<u32> {
        let mark = self.dir.path().to_str().unwrap().as_bytes();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let bears = |name: &str| {
                let text = fs::read(entry.path().join(name)).unwrap_or_default();
                text.windows(mark.len()).any(|piece| piece == mark)
            };
            if pid != std::process::id() && (bears("environ") || bears("cmdline")) {
                found.push(pid);
            }
        }
        found
    }

    /// Nothing runs in this directory's name.
    pub(crate) fn check_nothing_lives(&self) {
        let living = self.living();
        assert!(living.is_empty(), "left over: {living:?}\n{}", self.account());
    }

    /// Waits until nothing runs in this directory's name.
    pub(crate) fn until_empty(&self) {
        self.until("nothing is left that runs", |house| house.living().is_empty().then_some(()));
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // Who starts others goes in the first round, whom it had started just before in the next.
        for _ in 0..100 {
            let living = self.living();
            if living.is_empty() {
                break;
            }
            living.into_iter().for_each(kill);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Waits until `look` finds something, without a house to account for it.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A plain submission.
pub(crate) fn request(kind: &str, payload: &str) -> SubmitRequest {
    SubmitRequest::new(kind, Some(RawValue::from_string(payload.to_owned()).unwrap()))
}

/// Sends SIGKILL to a process that may have ended.
pub(crate) fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
    if let Err(error) = kill_process(pid, Signal::KILL) {
        assert_eq!(error, rustix::io::Errno::SRCH, "only a process that is gone escapes");
    }
}

/// Sends any other signal to a living process.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Whether the process with this number lives; a zombie is dead.
pub(crate) fn is_alive(pid: u32) -> bool {
    process::of(pid).unwrap().is_some_and(|it| process::is_alive(&it).unwrap())
}

/// The states of all threads of a process.
fn states(pid: u32) -> Vec<char> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stat = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stat.filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next()).collect()
}

fn is_stopped(pid: u32) -> bool {
    states(pid).iter().all(|state| *state == 'T')
}

/// Waits until a process has nothing left to do: all its threads sleep, and go on sleeping.
pub(crate) fn until_idle(pid: u32) {
    let switches = || -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let status = threads.map(|thread| fs::read_to_string(thread.path().join("status")));
        let line = |text: String| {
            text.lines().filter(|line| line.contains("ctxt_switches")).collect::<String>()
        };
        status.filter_map(|text| text.ok().map(line)).collect()
    };
    until("it has nothing to do", || {
        let before = switches();
        std::thread::sleep(Duration::from_millis(200));
        (before == switches() && states(pid).iter().all(|state| *state == 'S')).then_some(())
    });
}

/// Every file below a directory with its bytes.
pub(crate) fn bytes_of(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(bytes_of(&entry.path()));
        } else {
            found.push((entry.path(), fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}
