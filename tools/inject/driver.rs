//! Calls of the engine that fail or never return, one after the other, by strace.
//!
//! The workload is run once undisturbed and its calls are counted, thread by thread. Then, for each
//! call: everything up to it goes well, and it is the last one (SIGKILL), or it fails, once or
//! from then on. After each run the engine is started twice without strace, and whatever had been
//! acknowledged has to be there, once.

use super::script::{Book, Script};
use midwatch::api::StatusView;
use midwatch::client::Blocking;
use midwatch::engine::{Rebuild, Rebuilding, digest};
use midwatch::journal::{RealDisk, replay};
use midwatch::kernel::alerts::Alerts;
use midwatch::kernel::{Head, Image};
use midwatch::process::WorkerLock;
use midwatch::sim::Dice;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The calls by which anything of the journal gets to the disk, and those that read it back.
const CALLS: &str = "openat,pwrite64,pread64,fdatasync,fsync,renameat,renameat2,unlinkat,fallocate,\
                     mkdirat,mkdir,ftruncate";

/// Small files, so that a short script rotates, takes snapshots and removes what they replace.
const CONFIG: &str = "[journal]\nsegment_size = \"64KiB\"\nsnapshot_after = \"64KiB\"\n\
                      reserve = \"64KiB\"\n[handlers.noop]\ncommand = [\"/bin/true\"]\n";

/// No wait is longer; one that needs it has failed.
const LIMIT: Duration = Duration::from_mins(1);

/// The programs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// `midwatch`.
    pub(crate) midwatch: PathBuf,
    /// `midwatch-journal`.
    pub(crate) journal_tool: PathBuf,
}

/// Whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The main thread, which makes a store where there is none.
    Birth,
    /// The main thread, which recovers what a kill has left.
    Start,
    /// The thread that commits, rotates and compacts.
    Engine,
    /// The thread that writes snapshots.
    Snapshot,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Birth, Self::Start, Self::Engine, Self::Snapshot];

    /// The thread to attach to; none for the one that is there from the first call on.
    const fn thread(self) -> Option<&'static str> {
        match self {
            Self::Birth | Self::Start => None,
            Self::Engine => Some("engine"),
            Self::Snapshot => Some("snapshot"),
        }
    }

    const fn laps(self) -> u32 {
        match self {
            Self::Birth | Self::Start => 3,
            Self::Engine | Self::Snapshot => 22,
        }
    }
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The process is killed where the call begins.
    Kill,
    /// It fails, this once.
    Once(&'static str),
    /// It fails, and so does every later one of its kind.
    Forever(&'static str),
}

impl Fault {
    const ALL: [Self; 5] = [
        Self::Kill,
        Self::Once("EIO"),
        Self::Once("ENOSPC"),
        Self::Forever("EIO"),
        Self::Forever("ENOSPC"),
    ];
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    pub(crate) stage: Stage,
    pub(crate) call: String,
    pub(crate) nth: u64,
    pub(crate) fault: Fault,
}

impl Point {
    fn injection(&self) -> String {
        let Self { call, nth, fault, .. } = self;
        match fault {
            Fault::Kill => format!("inject={call}:signal=KILL:when={nth}"),
            Fault::Once(errno) => format!("inject={call}:error={errno}:when={nth}"),
            Fault::Forever(errno) => format!("inject={call}:error={errno}:when={nth}+"),
        }
    }
}

/// What came of all runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Calls of the undisturbed workload, by stage and name.
    pub(crate) calls: BTreeMap<String, u64>,
    /// Runs.
    pub(crate) points: u64,
    /// Runs in which the call was never made; they count as undisturbed.
    pub(crate) unmet: u64,
    /// Runs by how the engine ended.
    pub(crate) ends: BTreeMap<String, u64>,
    /// Starts without strace, after a fault.
    pub(crate) restarts: u64,
    /// Requests that were acknowledged.
    pub(crate) acknowledged: u64,
    /// Requests without an answer.
    pub(crate) unsettled: u64,
    /// Requests refused for want of room.
    pub(crate) refused: u64,
    /// Runs that broke a promise, with what it was.
    pub(crate) failed: Vec<String>,
}

/// Whether system calls can be made to fail here.
pub(crate) fn can_inject() -> bool {
    let tried = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=1+", "true"])
        .output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("SKIPPED: there is no strace here, or it may trace nobody");
    }
    can
}

/// Runs `wanted` of all points, drawn by a fixed seed, or all of them.
pub(crate) fn run(programs: &Programs, dir: &Path, wanted: Option<usize>) -> Figures {
    let bench = Bench::furnish(programs, dir);
    let mut figures = Figures::default();
    let mut points = bench.points(&mut figures);
    if let Some(wanted) = wanted {
        let mut dice = Dice::new(3);
        while wanted < points.len() {
            points.swap_remove(dice.below(points.len()));
        }
    }
    for (at, point) in points.iter().enumerate() {
        let home = dir.join(format!("run-{at}"));
        let ran = catch_unwind(AssertUnwindSafe(|| bench.try_point(point, &home, &mut figures)));
        figures.points += 1;
        if ran.is_err() {
            figures.failed.push(format!("{point:?}, kept in {}", home.display()));
        } else {
            fs::remove_dir_all(&home).unwrap();
        }
        if at % 100 == 99 {
            println!("{} of {} points", at + 1, points.len());
        }
    }
    figures
}

/// A place for runs, and the store that most of them begin with.
struct Bench<'a> {
    programs: &'a Programs,
    fixture: PathBuf,
    book: Book,
}

/// A directory with a config and a data directory.
struct Home<'a> {
    programs: &'a Programs,
    dir: PathBuf,
}

impl<'a> Bench<'a> {
    /// Makes the store: several segments gone, two snapshots, records behind them, and no clean end.
    fn furnish(programs: &'a Programs, dir: &Path) -> Self {
        let home = Home::new(programs, dir.join("fixture"));
        let mut book = Book::default();
        let mut engine = home.engine();
        home.until_served(&mut engine);
        let http = home.client();
        drop(Script::new(&http, &mut book, &home.data().join("run")).play(60, "before"));
        // The third one brings the end of the first.
        until("two snapshots are kept", || (home.snapshots() == (2, 0)).then_some(()));
        engine.kill().unwrap();
        engine.wait().unwrap();
        assert!(book.unsettled.is_none(), "undisturbed: {:?}", book.unsettled);
        Self { programs, fixture: home.dir, book }
    }

    fn home(&self, stage: Stage, dir: &Path) -> (Home<'_>, Book) {
        let home = Home::new(self.programs, dir.to_owned());
        if stage == Stage::Birth {
            return (home, Book::default());
        }
        copy(&self.fixture.join("data"), &home.data());
        (home, self.book.reopened())
    }

    /// Every fault at every call that the undisturbed workload makes.
    fn points(&self, figures: &mut Figures) -> Vec<Point> {
        let mut points = Vec::new();
        for stage in Stage::ALL {
            let dir = self.fixture.with_file_name(format!("{stage:?}"));
            let (home, mut book) = self.home(stage, &dir);
            let mut run = home.run(stage, &format!("trace={CALLS}"), &mut book);
            assert!(run.ended.is_none(), "it serves: {}", home.log());
            run.terminate();
            assert!(book.unsettled.is_none(), "undisturbed: {:?}", book.unsettled);
            for (call, range) in calls(&home.trace(), &dir) {
                figures.calls.insert(format!("{stage:?} {call}"), range.1 - range.0 + 1);
                for nth in range.0..=range.1 {
                    points.extend(Fault::ALL.iter().map(|fault| Point {
                        stage,
                        call: call.clone(),
                        nth,
                        fault: *fault,
                    }));
                }
            }
            fs::remove_dir_all(&dir).unwrap();
        }
        points
    }

    fn try_point(&self, point: &Point, dir: &Path, figures: &mut Figures) {
        let (home, mut book) = self.home(point.stage, dir);
        let mut run = home.run(point.stage, &point.injection(), &mut book);
        let by_itself = run.ended;
        let status = by_itself.unwrap_or_else(|| run.terminate());
        let trace = home.trace();
        let met = match point.fault {
            Fault::Kill => status.signal() == Some(9),
            _ => trace.contains("(INJECTED)"),
        };
        figures.unmet += u64::from(!met);
        let end = End { status, met, by_itself: by_itself.is_some(), log: &home.log() };
        *figures.ends.entry(end.check(point.fault)).or_default() += 1;
        if point.stage == Stage::Engine {
            let done = |line: &&str| line.starts_with("fdatasync(") && line.ends_with("= 0");
            let syncs = trace.lines().filter(done).count() as u64;
            assert!(book.acknowledged <= syncs, "{} answers, {syncs} syncs", book.acknowledged);
        }
        home.check_after(&book, figures);
        figures.acknowledged += book.acknowledged;
        figures.unsettled += u64::from(book.unsettled.is_some());
        figures.refused += book.refused;
    }
}

/// How an engine ended.
struct End<'a> {
    status: ExitStatus,
    /// The fault came over it.
    met: bool,
    /// Nobody had asked it to end.
    by_itself: bool,
    log: &'a str,
}

impl End<'_> {
    /// The end in words; a wrong one panics.
    fn check(&self, fault: Fault) -> String {
        let Self { status, met, by_itself, log } = *self;
        if fault == Fault::Kill && met {
            return "killed".to_owned();
        }
        if status.success() {
            assert!(!by_itself, "it ended unasked, and well: {log}");
            return if met { "went on, ended well" } else { "undisturbed" }.to_owned();
        }
        assert!(met, "it ended with {status} though nothing had failed: {log}");
        let code = status.code().unwrap_or_else(|| panic!("it died of {status}: {log}"));
        assert!(!log.contains("panicked"), "{log}");
        let words = ["[MW-", "cannot ", "error while load"];
        assert!(words.iter().any(|word| log.contains(word)), "it says what failed: {log}");
        if by_itself {
            format!("ended with {code}")
        } else {
            format!("ended with {code} when asked")
        }
    }
}

/// What ran, and how it ended if it did so by itself.
struct Run {
    engine: Child,
    strace: Option<Child>,
    ended: Option<ExitStatus>,
    /// Pid of the engine, for signals.
    pid: Option<u32>,
    worker: Option<WorkerLock>,
}

impl Run {
    /// Asks the engine to end, and waits until it has.
    fn terminate(&mut self) -> ExitStatus {
        let pid = self.pid.and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw).expect("it served once");
        // It may just have ended by itself.
        if let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::TERM) {
            assert_eq!(error, rustix::io::Errno::SRCH);
        }
        self.wait()
    }

    fn wait(&mut self) -> ExitStatus {
        let status = wait(&mut self.engine);
        if let Some(strace) = &mut self.strace {
            wait(strace);
        }
        status
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for child in [Some(&mut self.engine), self.strace.as_mut()].into_iter().flatten() {
            let _unless_it_ended = child.kill();
            let _reaped = child.wait();
        }
    }
}

impl<'a> Home<'a> {
    fn new(programs: &'a Programs, dir: PathBuf) -> Self {
        fs::create_dir_all(&dir).unwrap();
        let config = dir.join("midwatch.toml");
        fs::write(&config, CONFIG).unwrap();
        fs::set_permissions(config, fs::Permissions::from_mode(0o600)).unwrap();
        Self { programs, dir }
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.join("log")).unwrap()).into_owned()
    }

    fn trace(&self) -> String {
        fs::read_to_string(self.dir.join("trace")).unwrap()
    }

    fn client(&self) -> Blocking {
        Blocking::connect(self.data().join("midwatch.sock")).unwrap().answering_within(LIMIT)
    }

    /// Starts an engine, below whatever `command` begins with.
    fn spawn(&self, mut command: Command) -> Child {
        let log = fs::File::create(self.dir.join("log")).unwrap();
        command.arg("--config").arg(self.dir.join("midwatch.toml"));
        command.arg("--data-dir").arg(self.data()).arg("engine").stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    fn engine(&self) -> Child {
        self.spawn(Command::new(&self.programs.midwatch))
    }

    fn strace(&self, injection: &str) -> Command {
        let mut command = Command::new("strace");
        command.args(["-s", "0", "-e", &format!("trace={CALLS}"), "-e", injection]);
        command.arg("-o").arg(self.dir.join("trace"));
        command
    }

    /// Waits until it serves, and gives its pid; `None` when it ended before.
    fn until_served(&self, engine: &mut Child) -> Option<u32> {
        let http = self.client();
        until("it serves", || {
            if let Ok(status) = http.get::<StatusView>("/v1/status") {
                return Some(Some(status.pid));
            }
            engine.try_wait().unwrap().map(|_ended| None)
        })
    }

    /// How many snapshots there are, and how many are being written.
    fn snapshots(&self) -> (usize, usize) {
        let names = fs::read_dir(self.data().join("snapshots")).unwrap().flatten();
        let unfinished = |name: fs::DirEntry| name.path().extension().is_some_and(|it| it == "tmp");
        let (unfinished, whole): (Vec<bool>, Vec<bool>) = names.map(unfinished).partition(|it| *it);
        (whole.len(), unfinished.len())
    }

    /// Starts the engine, has a thread of it traced with this injection, and plays the script.
    fn run(&self, stage: Stage, injection: &str, book: &mut Book) -> Run {
        let engine = match stage.thread() {
            None => {
                let mut command = self.strace(injection);
                command.arg(&self.programs.midwatch);
                self.spawn(command)
            }
            Some(_) => self.engine(),
        };
        let mut run = Run { engine, strace: None, ended: None, pid: None, worker: None };
        run.pid = self.until_served(&mut run.engine);
        let Some(pid) = run.pid else {
            run.ended = Some(run.wait());
            return run;
        };
        run.strace = stage.thread().map(|name| self.attach(thread_of(pid, name), injection));
        let http = self.client();
        let script = Script::new(&http, book, &self.data().join("run"));
        run.worker = Some(script.play(stage.laps(), "after"));
        // Whatever the last answer set going comes to its end, or ends the engine.
        run.ended = until(&format!("nothing goes on any more in {}", self.dir.display()), || {
            if let Some(status) = run.engine.try_wait().unwrap() {
                return Some(Some(status));
            }
            let gone = http.get::<StatusView>("/v1/status").is_err();
            (!gone && book.unsettled.is_none() && self.snapshots().1 == 0).then_some(None)
        });
        if run.ended.is_some() {
            run.wait();
        }
        run
    }

    fn attach(&self, thread: u32, injection: &str) -> Child {
        let said = self.dir.join("strace");
        let file = fs::File::create(&said).unwrap();
        let mut command = self.strace(injection);
        command.arg("-p").arg(thread.to_string());
        let child = command.stdin(Stdio::null()).stderr(file).spawn().unwrap();
        until("strace has attached", || {
            fs::read_to_string(&said).unwrap().contains("attached").then_some(())
        });
        child
    }

    /// Two starts without a fault: everything acknowledged is there, and stays as it is.
    fn check_after(&self, book: &Book, figures: &mut Figures) {
        let left = self.offline_digest();
        let tasks = self.served(figures, |http| book.check(http));
        assert_eq!(self.offline_digest(), left, "a start changed the tasks");
        self.served(figures, |http| {
            assert_eq!(book.check(http), tasks);
            book.settle(http, tasks);
        });
        let mut verify = Command::new(&self.programs.journal_tool);
        let verified = verify.arg("verify").arg(self.data()).output().unwrap();
        let said = String::from_utf8_lossy(&verified.stdout);
        assert!(verified.status.success(), "verify: {}: {said}", verified.status);
    }

    /// Starts an engine, looks, and ends it.
    fn served<T>(&self, figures: &mut Figures, look: impl FnOnce(&Blocking) -> T) -> T {
        figures.restarts += 1;
        let engine = self.engine();
        let mut run = Run { engine, strace: None, ended: None, pid: None, worker: None };
        run.pid = self.until_served(&mut run.engine);
        assert!(run.pid.is_some(), "after a fault it starts again: {}", self.log());
        let seen = look(&self.client());
        let status = run.terminate();
        assert!(status.success(), "{status}: {}", self.log());
        seen
    }

    /// The digest of all tasks, read without writing; nothing where there is no store yet.
    fn offline_digest(&self) -> String {
        if !self.data().join("journal").exists() {
            return String::new();
        }
        let disk = RealDisk::open(&self.data()).unwrap();
        let mut rebuild = Rebuild::default();
        replay(&disk, u64::MAX, &mut rebuild).unwrap();
        let image = rebuild.finish().image();
        if image.tasks.iter().next().is_none() {
            return String::new();
        }
        digest(&Image {
            head: Head::default(),
            workers: BTreeMap::new(),
            alerts: Alerts::default(),
            ..image
        })
    }
}

impl Programs {
    /// Those that this process was built with.
    pub(crate) fn canonical(midwatch: &str, journal_tool: &str) -> Self {
        let path = |text: &str| PathBuf::from(text).canonicalize().unwrap();
        Self { midwatch: path(midwatch), journal_tool: path(journal_tool) }
    }
}

/// The calls of a trace: by name the first and the last that count. What the loader and the runtime
/// do before the data directory is known is nothing of ours.
fn calls(trace: &str, dir: &Path) -> BTreeMap<String, (u64, u64)> {
    let mark = dir.file_name().unwrap().to_str().unwrap();
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    // A thread that was attached to does nothing but ours.
    let mut ours = !trace.contains("ld.so.cache");
    for line in trace.lines() {
        let Some((name, _)) = line.split_once('(') else { continue };
        ours |= line.contains(mark);
        let count = seen.entry(name.to_owned()).or_default();
        *count += 1;
        if ours && CALLS.split(',').any(|call| call == name) {
            found.entry(name.to_owned()).or_insert((*count, *count)).1 = *count;
        }
    }
    found
}

/// A thread of a process by its name, which it may not have taken yet.
fn thread_of(pid: u32, name: &str) -> u32 {
    until(&format!("there is a thread `{name}`"), || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let named = |entry: &fs::DirEntry| {
            fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
        };
        let thread = { threads }.find(named)?;
        Some(thread.file_name().to_str().unwrap().parse().unwrap())
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else if entry.path().is_file() {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    until("it ends", || child.try_wait().unwrap())
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "never came true: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
