//! Kill rounds: clients submit, workers run real handlers, and one process after the other is
//! killed with SIGKILL at a random moment. What was acknowledged is kept outside the data
//! directory and compared at the end with the journal's own account.

use midwatch::api::{StatusView, SubmitRequest, Submitted, Workers};
use midwatch::client::{Blocking, ClientError};
use midwatch::kernel::ids::TaskId;
use midwatch::sim::Dice;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What to do, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Kills, one a round.
    pub(crate) rounds: u32,
    /// Clients that submit all the time.
    pub(crate) clients: u32,
    /// Decides who is killed, when, and what is submitted.
    pub(crate) seed: u64,
    /// The `midwatch` program.
    pub(crate) program: PathBuf,
    /// The `midwatch-journal` program.
    pub(crate) journal_tool: PathBuf,
    /// The handler script.
    pub(crate) handler: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Who was killed how often.
    pub(crate) kills: BTreeMap<&'static str, u32>,
    /// Submissions that were acknowledged.
    pub(crate) acknowledged: usize,
    /// Submissions repeated with their key after an unknown outcome.
    pub(crate) repeated: u64,
    /// Tasks in the journal.
    pub(crate) tasks: usize,
    /// Attempts that started a handler.
    pub(crate) starts: usize,
    /// Tasks by their last status.
    pub(crate) ends: BTreeMap<String, usize>,
    /// Transitions by reason.
    pub(crate) reasons: BTreeMap<String, usize>,
    /// Records in the journal.
    pub(crate) records: usize,
    /// Longest time from a kill until the daemon answered again.
    pub(crate) slowest_return: Duration,
}

/// A submission that was acknowledged.
#[derive(Clone, Debug)]
struct Acknowledged {
    key: String,
    payload: String,
}

/// Shared between the clients and the killer.
#[derive(Default)]
struct Ledger {
    acknowledged: Mutex<BTreeMap<TaskId, Acknowledged>>,
    repeated: Mutex<u64>,
    stop: AtomicBool,
}

struct House<'a> {
    plan: &'a Plan,
    data: PathBuf,
    oracle: PathBuf,
    config: PathBuf,
    daemon: Option<Child>,
}

/// Runs the plan in `dir` (data directory and oracle side by side) and checks everything.
///
/// # Panics
/// With a sentence that says what was lost, doubled or left over.
pub(crate) fn run(plan: &Plan, dir: &Path) -> Figures {
    let mut house = House {
        plan,
        data: dir.join("data"),
        oracle: dir.join("oracle"),
        config: dir.join("midwatch.toml"),
        daemon: None,
    };
    house.furnish();
    house.start();
    let ledger = Arc::new(Ledger::default());
    let clients = house.clients(&ledger);
    let mut figures = Figures::default();
    let mut dice = Dice::new(plan.seed);
    for _ in 0..plan.rounds {
        thread::sleep(Duration::from_millis(200 + dice.below(900) as u64));
        let victim = ["engine", "worker", "supervisor", "all"][dice.below(4)];
        let began = Instant::now();
        house.kill(victim, &mut dice);
        *figures.kills.entry(victim).or_default() += 1;
        house.wait_until_it_answers();
        figures.slowest_return = figures.slowest_return.max(began.elapsed());
    }
    ledger.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("a client ends");
    }
    house.wait_until_all_ended();
    house.close();
    house.check(&ledger, figures)
}

impl House<'_> {
    fn furnish(&self) {
        fs::create_dir_all(self.oracle.join("locks")).unwrap();
        let handler = self.plan.handler.display();
        let oracle = self.oracle.display();
        // Short spans, so that what only a lease can settle is settled within the run.
        let config = format!(
            "[worker]\nheartbeat = \"500ms\"\nsuspect_after = \"1s\"\noffline_after = \"3s\"\n\
             [retry]\nbase = \"100ms\"\ncap = \"1s\"\nmax_lost = 100\n\
             [handlers.noop]\ncommand = [\"/bin/sh\", \"{handler}\"]\n\
             env = {{ MW_ORACLE = \"{oracle}\" }}\n\
             timeout = \"20s\"\ncancel_grace = \"1s\"\nkill_grace = \"1s\"\n"
        );
        fs::write(&self.config, config).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.data.join("midwatch.sock")
    }

    fn start(&mut self) {
        let path = self.oracle.join("daemon.log");
        let log = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        let mut command = Command::new(&self.plan.program);
        command.arg("--config").arg(&self.config).arg("--data-dir").arg(&self.data);
        command.args(["daemon", "--workers", "2", "--slots", "4"]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemon = Some(command.spawn().expect("the daemon starts"));
        self.wait_until_it_answers();
    }

    fn client(&self) -> Blocking {
        Blocking::connect(self.socket()).unwrap().answering_within(Duration::from_secs(20))
    }

    fn status(&self) -> Option<StatusView> {
        self.client().get("/v1/status").ok()
    }

    fn wait_until_it_answers(&self) {
        let client = self.client();
        wait_for("the daemon answers", Duration::from_mins(1), || {
            client.get::<StatusView>("/v1/status").is_ok()
        });
    }

    fn clients(&self, ledger: &Arc<Ledger>) -> Vec<thread::JoinHandle<()>> {
        let start = |number| {
            let (ledger, socket) = (Arc::clone(ledger), self.socket());
            let seed = self.plan.seed.wrapping_mul(1000) + u64::from(number);
            thread::spawn(move || submit_all_the_time(&ledger, &socket, number, seed))
        };
        (0..self.plan.clients).map(start).collect()
    }

    /// Kills one process, or all of them. A supervisor that is gone is started again, as an init
    /// system would.
    fn kill(&mut self, victim: &str, dice: &mut Dice) {
        let engine = self.status().map(|status| status.pid);
        let workers: Option<Workers> = self.client().get("/v1/workers").ok();
        let workers: Vec<u32> =
            workers.into_iter().flat_map(|list| list.workers).map(|worker| worker.pid).collect();
        let worker = (!workers.is_empty()).then(|| workers[dice.below(workers.len())]);
        match victim {
            "engine" => kill(engine),
            "worker" => kill(worker),
            "supervisor" => self.kill_supervisor(),
            _ => {
                kill(engine);
                self.kill_supervisor();
                for pid in workers {
                    kill(Some(pid));
                }
            }
        }
        if self.daemon.is_none() {
            self.start();
        }
    }

    fn kill_supervisor(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    fn wait_until_all_ended(&self) {
        wait_for("every task ends", Duration::from_mins(3), || {
            let Some(status) = self.status() else { return false };
            let open = ["PENDING", "RUNNING", "RETRYING", "PAUSED", "LOST"];
            open.iter().all(|word| status.tasks.get(*word).copied().unwrap_or(0) == 0)
        });
    }

    fn close(&mut self) {
        let mut daemon = self.daemon.take().expect("the daemon runs");
        let pid = rustix::process::Pid::from_child(&daemon);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = daemon.wait().unwrap();
        assert!(status.success(), "the daemon ended with {status} on SIGTERM");
    }

    fn check(&self, ledger: &Ledger, mut figures: Figures) -> Figures {
        let verified = self.tool("verify");
        assert!(verified.status.success(), "verify: {}", String::from_utf8_lossy(&verified.stderr));
        let overlaps = fs::read_to_string(self.oracle.join("overlaps")).unwrap_or_default();
        assert!(overlaps.is_empty(), "attempts overlapped:\n{overlaps}");
        self.check_nothing_left();
        let account = Account::read(&self.tool("dump").stdout);
        let acknowledged = ledger.acknowledged.lock().unwrap();
        for (id, known) in acknowledged.iter() {
            let Some(task) = account.tasks.get(id) else { panic!("task {id} is lost") };
            assert_eq!(task.payload, known.payload, "the payload of task {id}");
            assert_eq!(task.key, known.key, "the key of task {id}");
        }
        for (id, task) in &account.tasks {
            assert_eq!(task.ends.len(), 1, "task {id} ended {:?}", task.ends);
            *figures.ends.entry(task.ends[0].clone()).or_default() += 1;
        }
        let marks = fs::read_to_string(self.oracle.join("marks")).unwrap_or_default();
        check_marks(&marks, &account);
        figures.starts = marks.lines().filter(|line| line.starts_with("start")).count();
        figures.acknowledged = acknowledged.len();
        figures.repeated = *ledger.repeated.lock().unwrap();
        figures.tasks = account.tasks.len();
        figures.reasons = account.reasons;
        figures.records = account.records;
        figures
    }

    fn tool(&self, command: &str) -> std::process::Output {
        Command::new(&self.plan.journal_tool).arg(command).arg(&self.data).output().unwrap()
    }

    /// No process that carries one of our tokens is left.
    fn check_nothing_left(&self) {
        wait_for("no process of an attempt is left", Duration::from_secs(30), || {
            let mine = format!("MW_ORACLE={}", self.oracle.display());
            processes_with(&mine).is_empty()
        });
    }
}

/// Submits with a key of its own each time; an unknown outcome is settled by saying it again.
fn submit_all_the_time(ledger: &Ledger, socket: &Path, number: u32, seed: u64) {
    let mut dice = Dice::new(seed);
    let client = Blocking::connect(socket).unwrap().answering_within(Duration::from_secs(20));
    let mut count = 0_u64;
    while !ledger.stop.load(Ordering::Relaxed) {
        count += 1;
        let key = format!("client {number} task {count}");
        let how =
            ["plain", "plain", "plain", "checkpoint", "linger", "slow", "fail"][dice.below(7)];
        let payload = format!("{{\"how\":\"{how}\",\"key\":\"{key}\"}}");
        let request = request(&key, &payload);
        let mut unknown = false;
        loop {
            match client.post::<_, Submitted>("/v1/tasks", &request) {
                Ok(done) => {
                    assert!(unknown || !done.existed, "the fresh key `{key}` existed");
                    let known = Acknowledged { key, payload };
                    ledger.acknowledged.lock().unwrap().insert(done.id, known);
                    break;
                }
                Err(ClientError::Problem(problem)) if problem.status < 500 => {
                    panic!("a good submission was refused: {problem:?}");
                }
                Err(_) => {
                    unknown = true;
                    *ledger.repeated.lock().unwrap() += 1;
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        thread::sleep(Duration::from_millis(30 + dice.below(60) as u64));
    }
}

fn request(key: &str, payload: &str) -> SubmitRequest {
    let payload = RawValue::from_string(payload.to_owned()).unwrap();
    SubmitRequest { key: Some(key.to_owned()), ..SubmitRequest::new("noop", Some(payload)) }
}

fn kill(pid: Option<u32>) {
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
    let Some(pid) = pid else { return };
    if let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
        assert_eq!(error, rustix::io::Errno::SRCH, "only a process that is gone escapes");
    }
}

/// Waits for a condition, with a limit that only a fault reaches.
pub(crate) fn wait_for(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < limit, "waited {limit:?} in vain until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Living processes whose environment has `text`.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == text.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// The journal's own account, read from its dump.
#[derive(Default)]
struct Account {
    tasks: BTreeMap<TaskId, Told>,
    reasons: BTreeMap<String, usize>,
    records: usize,
}

#[derive(Default)]
struct Told {
    payload: String,
    key: String,
    ends: Vec<String>,
    fences: BTreeSet<u64>,
}

impl Account {
    fn read(dump: &[u8]) -> Self {
        let mut account = Self::default();
        for line in String::from_utf8_lossy(dump).lines() {
            let record: Value = serde_json::from_str(line).expect("a line of the dump is JSON");
            account.records += 1;
            account.note(&record);
        }
        account
    }

    fn note(&mut self, record: &Value) {
        let text = |field: &str| record[field].as_str().map(str::to_owned);
        let Some(id) = record["task"].as_u64() else { return };
        let task = self.tasks.entry(TaskId(id)).or_default();
        match record["event"].as_str() {
            Some("submitted") => {
                task.payload = record["spec"]["payload"].to_string();
                record["spec"]["key"].as_str().unwrap_or_default().clone_into(&mut task.key);
            }
            Some("leased") => {
                task.fences.insert(record["fence"].as_u64().unwrap());
            }
            _ => {}
        }
        if let Some(to) = text("to").filter(|to| is_terminal(to)) {
            task.ends.push(to);
        }
        if let Some(reason) = text("reason") {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }
}

fn is_terminal(status: &str) -> bool {
    ["SUCCESS", "FAILED", "DEAD", "CANCELLED"].contains(&status)
}

/// Every handler that ran had a lease of the journal, and no token was started twice.
fn check_marks(marks: &str, account: &Account) {
    let mut started = BTreeSet::new();
    for line in marks.lines().filter(|line| line.starts_with("start ")) {
        let mut words = line.split(' ').skip(1).map(|word| word.parse::<u64>().unwrap());
        let (task, fence) = (words.next().unwrap(), words.next().unwrap());
        let known = account.tasks.get(&TaskId(task));
        let leased = known.is_some_and(|known| known.fences.contains(&fence));
        assert!(leased, "a handler of task {task} ran with token {fence}, which was never granted");
        assert!(started.insert(fence), "token {fence} was started twice");
    }
}
