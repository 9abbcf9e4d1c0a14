//! The bare-metal test: the real daemon, real handlers and people, while processes are killed and
//! stopped, clocks jump, the disk fills and connections break. What was acknowledged and what
//! handlers saw is kept on another file system and held against the journal in the end.

mod account;
mod faults;
mod house;
mod parts;
mod place;
mod proxy;
mod taken;
mod users;

use account::{Account, Sums};
use faults::Faults;
use house::House;
use midwatch::api::{Acted, StatusView, TaskList};
use midwatch::sim::Dice;
use parts::{Role, Use};
use proxy::Proxy;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use users::Ledger;

/// How long everything may take to end once nothing is done to it any more.
const CALM: Duration = Duration::from_mins(5);

/// How long a daemon may leave everybody without an answer before its supervisor, which waits
/// longer and longer between starts, is killed and started anew.
const PATIENCE: Duration = Duration::from_secs(6);

/// How often the journal is read, so that nothing is missed that it compacts away.
const READ_EVERY: Duration = Duration::from_secs(20);

const QUARTERS: [&str; 4] = ["first quarter", "second quarter", "third quarter", "last quarter"];

/// Broken promises that are shown one by one.
const SHOWN: usize = 30;

/// What to do, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How long faults come.
    pub(crate) span: Duration,
    /// Decides what happens when.
    pub(crate) seed: u64,
    /// The `midwatch` program.
    pub(crate) program: PathBuf,
    /// The `midwatch-journal` program.
    pub(crate) journal_tool: PathBuf,
    /// The handler script.
    pub(crate) handler: PathBuf,
    /// Where everything is kept: a fresh directory with a short absolute name.
    pub(crate) dir: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Promises that were broken, in words.
    pub(crate) wrong: Vec<String>,
    /// Faults by kind.
    pub(crate) faults: BTreeMap<String, u64>,
    /// Submissions and repetitions that were acknowledged.
    pub(crate) acknowledged: usize,
    sums: Sums,
    acts: BTreeMap<String, u64>,
    ends: BTreeMap<String, u32>,
    reasons: BTreeMap<String, usize>,
    events: BTreeMap<String, usize>,
    years: BTreeMap<String, usize>,
    taken: Use,
    repeated: u64,
    records: u64,
    forgotten: usize,
    connections: (u64, u64),
    calm: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (connections, broken) = self.connections;
        writeln!(f, "faults              {:?}", self.faults)?;
        writeln!(f, "connections         {connections} through the proxy, {broken} broken")?;
        writeln!(f, "acknowledged        {}, {} said again", self.acknowledged, self.repeated)?;
        writeln!(f, "people              {:?}", self.acts)?;
        writeln!(f, "tasks               {} {:?}", self.sums.tasks, self.sums.ends)?;
        writeln!(f, "handlers            {:?}", self.sums.marks)?;
        writeln!(f, "from a checkpoint   {}", self.sums.resumed)?;
        writeln!(f, "reasons             {:?}", self.reasons)?;
        writeln!(f, "records             {}, {} tasks forgotten", self.records, self.forgotten)?;
        writeln!(f, "records by event    {:?}", self.events)?;
        writeln!(f, "records by year     {:?}", self.years)?;
        writeln!(f, "ends of processes   {:?}", self.ends)?;
        writeln!(f, "all ended within    {:.1} s of calm", self.calm.as_secs_f64())?;
        writeln!(f, "most taken\n{}", self.taken)?;
        for what in self.wrong.iter().take(SHOWN) {
            writeln!(f, "WRONG: {what}")?;
        }
        match self.wrong.len().saturating_sub(SHOWN) {
            0 => {}
            more => writeln!(f, "WRONG: and {more} more")?,
        }
        Ok(())
    }
}

/// Runs the plan and checks everything. What was wrong stands in the figures, and the directory is
/// then whole for a look.
pub(crate) fn run(plan: &Plan) -> Figures {
    let mut dice = Dice::new(plan.seed);
    let mut run = Run::new(plan, &mut dice);
    let ledger = Arc::clone(&run.ledger);
    let can_forget = fs::exists("/proc/self/autogroup").unwrap_or(false);
    let ended = run.house.wait_until_it_answers().and_then(|()| {
        let sockets = [&*run.house.socket(), &*run.house.proxy()];
        let users = users::begin(&ledger, sockets, &mut dice, can_forget);
        let ended = run.disturb();
        ledger.stop.store(true, Ordering::Relaxed);
        run.faults.calm(&run.house);
        let ended = ended.and_then(|()| run.settle());
        if users.into_iter().any(|user| user.join().is_err()) {
            ledger.wrong("a user broke off".into());
        }
        ended
    });
    if let Err(what) = ended {
        ledger.wrong(what);
    }
    run.judge()
}

struct Run<'a> {
    plan: &'a Plan,
    house: House<'a>,
    faults: Faults,
    proxy: Proxy,
    ledger: Arc<Ledger>,
    account: Account,
    taken: Use,
    calm: Duration,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, dice: &mut Dice) -> Self {
        let mut house = House::new(plan);
        let proxy = Proxy::open(&house.proxy(), &house.socket(), dice.fork());
        let ledger = Arc::new(Ledger::default());
        if let Err(what) = house.keep_running() {
            ledger.wrong(what);
        }
        Self {
            plan,
            faults: Faults::new(dice.fork(), proxy.clone()),
            house,
            proxy,
            ledger,
            account: Account::default(),
            taken: Use::default(),
            calm: Duration::ZERO,
        }
    }

    /// Faults, one after the other, until the time is over or something is wrong.
    fn disturb(&mut self) -> Result<(), String> {
        let began = Instant::now();
        let (mut read_at, mut looked_at, mut told_at) = (began, began, began);
        let watch = Watch::begin(&self.house, &self.ledger);
        while began.elapsed() < self.plan.span && self.ledger.wrong.lock().unwrap().is_empty() {
            self.house.keep_running()?;
            self.faults.turn(&mut self.house);
            if PATIENCE < watch.silence() && !self.faults.last() {
                self.replace_supervisor(&watch);
            }
            if Duration::from_secs(1) < looked_at.elapsed() {
                looked_at = Instant::now();
                let whole = self.plan.span.as_millis().max(1);
                let quarter = began.elapsed().as_millis() * 4 / whole;
                let when = QUARTERS[usize::try_from(quarter).unwrap_or(3).min(3)];
                self.taken.note(&self.house.look(), when);
            }
            if READ_EVERY < read_at.elapsed() {
                read_at = Instant::now();
                self.read()?;
            }
            if Duration::from_mins(1) < told_at.elapsed() {
                told_at = Instant::now();
                self.tell(began.elapsed());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn tell(&self, passed: Duration) {
        let faults: u64 = self.faults.done.values().sum();
        let acknowledged = self.ledger.acknowledged.lock().unwrap().len();
        println!(
            "{} s: {faults} faults, {acknowledged} acknowledged, {} records, {} open",
            passed.as_secs(),
            self.account.last,
            self.ledger.open.load(Ordering::Relaxed)
        );
    }

    fn replace_supervisor(&mut self, watch: &Watch) {
        for part in self.house.marks.look() {
            if part.role == Role::Supervisor {
                part.signal(Signal::KILL);
            }
        }
        watch.forget();
        *self.faults.done.entry("SIGKILL supervisor after long silence".into()).or_default() += 1;
    }

    /// Reads on in the journal.
    fn read(&mut self) -> Result<(), String> {
        let from = self.account.last.max(1).to_string();
        let output = self.house.tool(&["dump", "--from", &from]);
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("dump --from {from} ended with {}: {text}", output.status));
        }
        self.account.read(&output.stdout);
        Ok(())
    }

    /// Waits until every task has ended; what people have paused is resumed.
    fn settle(&mut self) -> Result<(), String> {
        let began = Instant::now();
        let client = self.house.client();
        let mut read_at = began;
        loop {
            self.house.keep_running()?;
            let status: Option<StatusView> = client.get("/v1/status").ok();
            let count = |words: &[&str]| {
                let tasks = &status.as_ref()?.tasks;
                Some(words.iter().filter_map(|word| tasks.get(*word)).sum::<u64>())
            };
            let open = count(&["PENDING", "RUNNING", "RETRYING", "PAUSED", "LOST"]);
            if open == Some(0) {
                self.calm = began.elapsed();
                return Ok(());
            }
            if CALM < began.elapsed() {
                return Err(format!("not everything ends within {CALM:?}: {status:?}"));
            }
            if count(&["PAUSED"]).is_some_and(|paused| 0 < paused)
                && let Ok(list) = client.get::<TaskList>("/v1/tasks?status=PAUSED&limit=500")
            {
                for task in list.tasks {
                    let path = format!("/v1/tasks/{}/resume", task.id);
                    let _said_again = client.post::<_, Acted>(&path, &serde_json::json!({}));
                }
            }
            if READ_EVERY < read_at.elapsed() {
                read_at = Instant::now();
                self.read()?;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends everything and holds the accounts against each other.
    fn judge(mut self) -> Figures {
        let mut wrong = Vec::new();
        self.taken.note(&self.house.look(), "end");
        let closed = self.house.close().and_then(|()| self.house.nothing_left());
        wrong.extend(closed.err());
        wrong.extend(self.read().err());
        let verified = self.house.tool(&["verify"]);
        if !verified.status.success() {
            let text = String::from_utf8_lossy(&verified.stderr).into_owned();
            wrong.push(format!("verify ended with {}: {text}", verified.status));
        }
        let log = fs::read(self.house.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        wrong.extend(log.lines().filter(|line| line.contains("panicked")).map(str::to_owned));
        let marks = fs::read_to_string(self.house.oracle().join("marks")).unwrap_or_default();
        let acknowledged = self.ledger.acknowledged.lock().unwrap().clone();
        let (sums, differences) = self.account.compare(&acknowledged, &marks);
        wrong.extend(differences);
        let archive = fs::read_to_string(self.house.oracle().join("archive")).unwrap_or_default();
        wrong.extend(self.account.compare_archive(&archive));
        let jumped = ["to 1970", "to 2038"]
            .iter()
            .any(|to| self.faults.done.contains_key(&format!("wall clock {to}")));
        if jumped && self.account.years.len() < 2 {
            wrong.push("the wall clock jumped, and no record shows it".into());
        }
        let mut all = std::mem::take(&mut *self.ledger.wrong.lock().unwrap());
        all.extend(wrong);
        if !all.is_empty() {
            self.house.place.keep();
        }
        Figures {
            wrong: all,
            faults: self.faults.done.clone(),
            acknowledged: acknowledged.len(),
            sums,
            acts: self.ledger.acts.lock().unwrap().clone(),
            ends: self.house.ends.clone(),
            reasons: self.account.reasons.clone(),
            events: self.account.events.clone(),
            years: self.account.years.clone(),
            taken: self.taken.clone(),
            repeated: self.ledger.repeated.load(Ordering::Relaxed),
            records: self.account.last,
            forgotten: self.account.forgotten.len(),
            connections: self.proxy.figures(),
            calm: self.calm,
        }
    }
}

/// Asks all the time how the daemon is, on a thread of its own.
struct Watch {
    began: Instant,
    /// Milliseconds after `began` at which an answer last came.
    heard: Arc<std::sync::atomic::AtomicU64>,
}

impl Watch {
    fn begin(house: &House<'_>, ledger: &Arc<Ledger>) -> Self {
        let began = Instant::now();
        let watch = Self { began, heard: Arc::default() };
        let (heard, ledger, client) =
            (Arc::clone(&watch.heard), Arc::clone(ledger), house.client());
        let _ends_with_the_run = thread::spawn(move || {
            while !ledger.stop.load(Ordering::Relaxed) {
                if let Ok(status) = client.get::<StatusView>("/v1/status") {
                    let open = ["PENDING", "RUNNING", "RETRYING", "LOST"];
                    let open = open.iter().filter_map(|word| status.tasks.get(*word)).sum();
                    ledger.open.store(open, Ordering::Relaxed);
                    heard.store(millis(began), Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(200));
            }
        });
        watch
    }

    fn silence(&self) -> Duration {
        let since = millis(self.began).saturating_sub(self.heard.load(Ordering::Relaxed));
        Duration::from_millis(since)
    }

    /// Begins to wait anew.
    fn forget(&self) {
        self.heard.store(millis(self.began), Ordering::Relaxed);
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
