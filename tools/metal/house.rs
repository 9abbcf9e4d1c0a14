//! The daemon under test and two workers of its own behind the proxy, kept running as an init
//! system would keep them.

use super::Plan;
use super::parts::{Marks, Part, Role};
use super::place::Place;
use super::users::client;
use midwatch::api::StatusView;
use midwatch::client::Blocking;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// No wait at the end is longer.
const LIMIT: Duration = Duration::from_mins(5);

pub(super) struct House<'a> {
    plan: &'a Plan,
    pub(super) place: Place,
    pub(super) marks: Marks,
    daemon: Option<Child>,
    workers: [Option<Child>; 2],
    /// Everybody whom we started or saw, for what a library leaves in their names.
    pids: BTreeSet<u32>,
    /// How supervisors and workers ended.
    pub(super) ends: BTreeMap<String, u32>,
}

impl<'a> House<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let oracle = plan.dir.join("oracle");
        fs::create_dir_all(oracle.join("locks")).unwrap();
        let place = Place::new(&plan.dir);
        let marks = Marks::new(&place.data(), &oracle);
        let house = Self {
            plan,
            place,
            marks,
            daemon: None,
            workers: [None, None],
            pids: BTreeSet::new(),
            ends: BTreeMap::new(),
        };
        house.furnish();
        house
    }

    /// Short spans, so that what only a lease can settle is settled within the run; small files,
    /// so that the journal rotates and compacts; and tasks are forgotten.
    fn furnish(&self) {
        let (handler, oracle) = (self.plan.handler.display(), self.oracle());
        let oracle = oracle.display();
        let config = format!(
            "[journal]\nsegment_size = \"256KiB\"\nsnapshot_after = \"1MiB\"\n\
             reserve = \"256KiB\"\n\
             [worker]\nheartbeat = \"300ms\"\nsuspect_after = \"1s\"\noffline_after = \"3s\"\n\
             [retry]\nbase = \"100ms\"\ncap = \"1s\"\nmax_retry = 30\nmax_lost = 1000\n\
             [retention]\nfinished = \"1m\"\nkeys = \"5m\"\nlogs = \"4MiB\"\n\
             archive = \"{oracle}/archive\"\n\
             [handlers.metal]\ncommand = [\"/bin/sh\", \"{handler}\"]\n\
             env = {{ MW_ORACLE = \"{oracle}\" }}\nlog_max = \"16KiB\"\n\
             timeout = \"5s\"\ncancel_grace = \"1s\"\nkill_grace = \"1s\"\n"
        );
        let path = self.plan.dir.join("midwatch.toml");
        fs::write(&path, config).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(super) fn oracle(&self) -> PathBuf {
        self.plan.dir.join("oracle")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.plan.dir.join("mw.sock")
    }

    pub(super) fn proxy(&self) -> PathBuf {
        self.plan.dir.join("proxy.sock")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.oracle().join("daemon.log")
    }

    fn spawn(&mut self, socket: PathBuf, arguments: &[&str]) -> Child {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = self.place.on_its_clocks(&self.plan.program);
        command.arg("--config").arg(self.plan.dir.join("midwatch.toml"));
        command.arg("--data-dir").arg(self.place.data()).arg("--socket").arg(socket);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        self.pids.insert(child.id());
        child
    }

    /// Starts again whoever has ended. What must never happen comes back as text.
    pub(super) fn keep_running(&mut self) -> Result<(), String> {
        if let Some(status) = ended(&mut self.daemon) {
            self.note("supervisor", status);
            // Refused config, damaged data: nothing of what is done here may bring that.
            if matches!(status.code(), Some(2 | 6)) {
                return Err(format!("the supervisor ended with {status}"));
            }
        }
        if self.daemon.is_none() {
            let socket = self.socket();
            self.daemon = Some(self.spawn(socket, &["daemon", "--workers", "1", "--slots", "4"]));
        }
        for (place, name) in ["x1", "x2"].into_iter().enumerate() {
            if let Some(status) = ended(&mut self.workers[place]) {
                self.note("worker of its own", status);
            }
            if self.workers[place].is_none() {
                let arguments = ["worker", "--name", name, "--slots", "3"];
                let proxy = self.proxy();
                self.workers[place] = Some(self.spawn(proxy, &arguments));
            }
        }
        Ok(())
    }

    /// All living processes of the run.
    pub(super) fn look(&mut self) -> Vec<Part> {
        let parts = self.marks.look();
        self.pids.extend(parts.iter().map(|part| part.pid));
        parts
    }

    fn note(&mut self, who: &str, status: ExitStatus) {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("{who} ended with {code}"),
            (None, signal) => format!("{who} died of signal {}", signal.unwrap_or(0)),
        };
        *self.ends.entry(how).or_default() += 1;
    }

    /// Kills every process of the daemon, and waits until they are gone.
    pub(super) fn kill_daemon(&self) {
        let parts = |part: &Part| part.role != Role::Handler;
        let began = Instant::now();
        loop {
            let living: Vec<_> = self.marks.look().into_iter().filter(parts).collect();
            if living.is_empty() || LIMIT < began.elapsed() {
                return;
            }
            for part in living {
                part.signal(Signal::KILL);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn client(&self) -> Blocking {
        client(&self.socket())
    }

    pub(super) fn wait_until_it_answers(&mut self) -> Result<(), String> {
        let client = self.client();
        let began = Instant::now();
        while client.get::<StatusView>("/v1/status").is_err() {
            if LIMIT < began.elapsed() {
                return Err(format!("the daemon does not answer within {LIMIT:?}"));
            }
            self.keep_running()?;
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The journal tool, asked about the data directory.
    pub(super) fn tool(&self, arguments: &[&str]) -> Output {
        let mut command = self.place.inside(&self.plan.journal_tool);
        command.args(arguments).arg(self.place.data()).stdin(Stdio::null()).output().unwrap()
    }

    /// Asks everybody to end; each must do so, and well.
    pub(super) fn close(&mut self) -> Result<(), String> {
        let workers = self.workers.iter_mut().map(|worker| ("a worker", worker.take()));
        let mut children: Vec<_> = workers.collect();
        children.push(("the supervisor", self.daemon.take()));
        for (who, child) in children {
            let Some(mut child) = child else { continue };
            let _ended_already = kill_process(Pid::from_child(&child), Signal::TERM);
            let began = Instant::now();
            let status = loop {
                if let Some(status) = child.try_wait().unwrap() {
                    break status;
                }
                if LIMIT < began.elapsed() {
                    return Err(format!("{who} does not end within {LIMIT:?} of SIGTERM"));
                }
                thread::sleep(Duration::from_millis(20));
            };
            if !status.success() {
                return Err(format!("{who} ended with {status} on SIGTERM"));
            }
        }
        Ok(())
    }

    /// Waits until no process of the run lives; else names those that do.
    pub(super) fn nothing_left(&self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let living = self.marks.look();
            if living.is_empty() {
                return Ok(());
            }
            if Duration::from_secs(30) < began.elapsed() {
                let named: Vec<_> =
                    living.iter().map(|part| format!("{} {}", part.role, part.pid)).collect();
                return Err(format!("left over: {}", named.join(", ")));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for House<'_> {
    /// Nothing of ours outlives the run, however it ends.
    fn drop(&mut self) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            let living = self.marks.look();
            if living.is_empty() {
                break;
            }
            for part in living {
                part.signal(Signal::KILL);
            }
            thread::sleep(Duration::from_millis(10));
        }
        for child in self.workers.iter_mut().chain([&mut self.daemon]).flatten() {
            let _reaped = child.wait();
        }
        // libfaketime leaves these when its process is killed.
        for pid in &self.pids {
            for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
                let _unless_it_was_killed = fs::remove_file(format!("/dev/shm/{name}"));
            }
        }
    }
}

/// The status of a child that has ended, which is then no child any more.
fn ended(child: &mut Option<Child>) -> Option<ExitStatus> {
    let status = child.as_mut()?.try_wait().unwrap()?;
    *child = None;
    Some(status)
}
