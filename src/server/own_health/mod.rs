//! How midwatch's own processes on this host do: memory, threads and open files of supervisor,
//! engine and workers, which of these keeps growing, and who has nearly as many files open as it
//! may have.
//!
//! Looked at by the engine's thread at most once a minute, in turns that it has anyway (a worker
//! speaks up every half a minute): a host that has nothing to do is not woken for it. Nothing of
//! this touches the disk. Kept in memory only: after a restart there is nothing left to grow.

mod growth;

use super::status::{alert, point};
use crate::api::{Attention, ProcessView};
use crate::kernel::State;
use crate::kernel::alerts::Rule;
use crate::kernel::ids::Millis;
use crate::process;
use crate::units::{bytes, count, span};
use growth::{Growth, Kind, Series};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How often it is looked at most.
const LOOK_EVERY: Millis = Millis::secs(60);

/// What a byte of tasks costs the engine in memory at most, with its indexes and what the
/// allocator keeps: so much of its growth is no leak.
const MEMORY_OF_STATE: u64 = 3;

/// What is known of them, shared by the engine's thread and those who tell of it.
#[derive(Debug, Default)]
pub(crate) struct OwnHealth {
    /// The supervisor, where there is one.
    supervisor: Option<u32>,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    looked: Option<Millis>,
    /// By pid and start time: a number alone comes again.
    known: BTreeMap<(u32, u64), Track>,
    /// The most that the tasks have taken together.
    state_bytes: u64,
}

#[derive(Debug)]
struct Track {
    role: &'static str,
    name: String,
    sample: Sample,
    series: [Series; 3],
}

/// One look at one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    memory: u64,
    /// Of that, what no file stands behind.
    own: u64,
    threads: u64,
    files: Option<u64>,
    /// So many files it may have open.
    files_max: Option<u64>,
}

impl OwnHealth {
    /// That of an engine with this supervisor.
    pub(crate) fn new(supervisor: Option<u32>) -> Self {
        Self { supervisor, book: Mutex::default() }
    }

    /// Looks, unless it did within the last minute.
    pub(crate) fn look(&self, state: &State) {
        let now = crate::clock::monotonic();
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.looked.is_some_and(|looked| now < looked.plus(LOOK_EVERY)) {
            return;
        }
        book.looked = Some(now);
        book.state_bytes = book.state_bytes.max(state.bytes());
        let mut family = Vec::new();
        if let Some(pid) = self.supervisor {
            family.push(("supervisor", "supervisor".to_owned(), pid, None));
        }
        family.push(("engine", "engine".to_owned(), std::process::id(), None));
        for worker in state.workers() {
            let (id, name) = (&worker.registration.process, &worker.registration.name);
            family.push(("worker", name.to_string(), id.pid, Some(id)));
        }
        let mut seen = BTreeMap::new();
        for (role, name, pid, registered) in family {
            let Ok(Some(id)) = process::of(pid) else { continue };
            // One that has ended, or lives in another namespace: its number means somebody else.
            if registered.is_some_and(|registered| *registered != id) {
                continue;
            }
            let Some(sample) = sample(pid) else { continue };
            let key = (pid, id.start_time);
            let mut track = book.known.remove(&key).unwrap_or_else(|| Track {
                role,
                name,
                sample,
                series: Kind::ALL.map(Series::new),
            });
            track.add(sample, now, book.state_bytes);
            seen.insert(key, track);
        }
        book.known = seen;
    }

    /// Each of them as it was when it was last looked at: supervisor, engine, workers.
    pub(crate) fn processes(&self) -> Vec<ProcessView> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let mut views: Vec<_> =
            book.known.iter().map(|((pid, _), track)| track.view(*pid)).collect();
        let rank = |view: &ProcessView| match view.role.as_str() {
            "supervisor" => 0,
            "engine" => 1,
            _ => 2,
        };
        views.sort_by(|a, b| (rank(a), &a.name, a.pid).cmp(&(rank(b), &b.name, b.pid)));
        views
    }

    /// What of it needs a person.
    pub(crate) fn points(&self) -> Vec<Attention> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let tracks = book.known.iter();
        tracks.flat_map(|((pid, _), track)| track.points(*pid)).collect()
    }
}

impl Track {
    fn add(&mut self, sample: Sample, now: Millis, state_bytes: u64) {
        self.sample = sample;
        let explained =
            if self.role == "engine" { state_bytes.saturating_mul(MEMORY_OF_STATE) } else { 0 };
        for series in &mut self.series {
            let value = match series.kind {
                Kind::Memory => Some(sample.own.saturating_sub(explained)),
                Kind::Threads => Some(sample.threads),
                Kind::Files => sample.files,
            };
            if let Some(value) = value {
                series.add(value, now);
            }
        }
    }

    fn view(&self, pid: u32) -> ProcessView {
        let Sample { memory, own, threads, files, files_max: _ } = self.sample;
        let growing = self.series.iter().filter(|series| series.growth().is_some());
        ProcessView {
            role: self.role.to_owned(),
            name: self.name.clone(),
            pid,
            memory,
            memory_own: own,
            threads,
            open_files: files,
            growing: growing.map(|series| series.kind.word().to_owned()).collect(),
        }
    }

    /// What of it needs a person. Each is an alert too, whose subject is the process and not its
    /// number: one that is started anew is another number and no other matter.
    fn points(&self, pid: u32) -> Vec<Attention> {
        let growths = self.series.iter().filter_map(|series| Some((series.kind, series.growth()?)));
        let points = growths.map(|(kind, growth)| self.growing(pid, kind, growth));
        points.chain(self.near_the_limit(pid)).collect()
    }

    fn subject(&self) -> String {
        match self.role {
            "worker" => format!("worker {}", self.name),
            role => role.to_owned(),
        }
    }

    fn who(&self, pid: u32) -> String {
        match self.role {
            "worker" => format!("worker {} (pid {pid})", self.name),
            role => format!("the {role} (pid {pid})"),
        }
    }

    fn growing(&self, pid: u32, kind: Kind, growth: Growth) -> Attention {
        let Growth { from, to, within } = growth;
        let figures = match kind {
            Kind::Memory => format!("memory by {}", bytes(to.saturating_sub(from))),
            Kind::Threads => format!("threads from {} to {}", count(from), count(to)),
            Kind::Files => format!("open files from {} to {}", count(from), count(to)),
        };
        let who = self.who(pid);
        let what =
            format!("{who} keeps growing, which looks like a leak: {figures} in {}", span(within));
        let (rule, look) = match kind {
            Kind::Memory => {
                (Rule::MemoryGrowing, format!("grep -E '^(Vm|Rss)' /proc/{pid}/status"))
            }
            // What grows with each thread is memory: its stack, and what it keeps.
            Kind::Threads => (Rule::MemoryGrowing, format!("cat /proc/{pid}/task/*/comm")),
            Kind::Files => (Rule::FilesGrowing, format!("ls -l /proc/{pid}/fd")),
        };
        alert(rule, &self.subject(), point(false, what, &[look, end(pid)]))
    }

    /// Whether four fifths of the files that it may have open are.
    fn near_the_limit(&self, pid: u32) -> Option<Attention> {
        let (open, most) = (self.sample.files?, self.sample.files_max?);
        let what = format!(
            "{} has {} files open of the {} that it may have",
            self.who(pid),
            count(open),
            count(most)
        );
        let commands = [format!("ls -l /proc/{pid}/fd"), end(pid)];
        let is_near = most / 5 * 4 < open;
        is_near.then(|| alert(Rule::FilesGrowing, &self.subject(), point(false, what, &commands)))
    }
}

/// Each of them may be ended at any time; what ran goes on, or is done again.
fn end(pid: u32) -> String {
    format!("kill {pid}    # it ends in good order and is started anew")
}

/// Looks at a process; none when it is gone.
fn sample(pid: u32) -> Option<Sample> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok().map(|fds| fds.count() as u64);
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    Some(Sample { files, files_max: files_max(&limits), ..read(&status) })
}

/// What `/proc/PID/limits` says of open files; none where there is no limit.
fn files_max(limits: &str) -> Option<u64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    soft.split_whitespace().next()?.parse().ok()
}

/// What `/proc/PID/status` says.
fn read(status: &str) -> Sample {
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let kib = |name| number(name).map(|kib| kib.saturating_mul(1024));
    let memory = kib("VmRSS").unwrap_or(0);
    // Kernels before 4.5 do not tell the kinds apart.
    let own = kib("RssAnon").map(|anon| anon.saturating_add(kib("RssShmem").unwrap_or(0)));
    let threads = number("Threads").unwrap_or(0);
    Sample { memory, own: own.unwrap_or(memory), threads, ..Sample::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: SUP-031
    #[test]
    fn the_engine_knows_itself() {
        let own = OwnHealth::new(None);
        own.look(&State::default());
        let processes = own.processes();
        assert_eq!(processes.len(), 1);
        let me = &processes[0];
        assert_eq!((me.role.as_str(), me.pid), ("engine", std::process::id()));
        assert!(1 << 20 < me.memory && me.memory_own <= me.memory);
        assert!(1 < me.threads && me.open_files.is_some_and(|files| 2 < files));
        assert!(me.growing.is_empty() && own.points().is_empty());
    }

    #[test]
    fn what_an_old_kernel_does_not_say_is_made_up_for() {
        let status = "Name:\tx\nVmRSS:\t    9000 kB\nThreads:\t7\n";
        let sample = Sample { memory: 9_216_000, own: 9_216_000, threads: 7, ..Sample::default() };
        assert_eq!(read(status), sample);
        let status = "VmRSS:\t 9000 kB\nRssAnon:\t 3000 kB\nRssFile:\t 5000 kB\nRssShmem:\t 1 kB\n";
        assert_eq!(read(status).own, 3001 * 1024);
    }

    #[test]
    fn what_grows_is_told_with_what_to_do() {
        let mut track = Track {
            role: "worker",
            name: "w1".to_owned(),
            sample: Sample::default(),
            series: Kind::ALL.map(Series::new),
        };
        for minute in 0..3000 {
            let files = Some(20 + minute / 6);
            let sample =
                Sample { memory: 9 << 20, own: 4 << 20, threads: 4, files, ..Sample::default() };
            track.add(sample, Millis(minute * 60_000), 0);
        }
        assert_eq!(track.view(7).growing, ["open_files"]);
        let [point] = track.points(7).try_into().unwrap();
        assert!(point.what.starts_with(
            "worker w1 (pid 7) keeps growing, which looks like a leak: open files from "
        ));
        assert_eq!(point.commands[0], "ls -l /proc/7/fd");
        assert_eq!(point.alert.as_deref(), Some("files_growing worker w1"));
        track.role = "supervisor";
        assert_eq!(track.points(7)[0].alert.as_deref(), Some("files_growing supervisor"));
    }

    #[test]
    fn whoever_has_nearly_all_the_files_open_that_it_may_have_is_told_of_at_once() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 524288               files\n";
        assert_eq!(files_max(limits), Some(1024));
        assert_eq!(files_max(&limits.replace("1024  ", "unlimited")), None);
        assert_eq!(files_max(""), None);
        let track = |files| Track {
            role: "engine",
            name: "engine".to_owned(),
            sample: Sample { files: Some(files), files_max: Some(1024), ..Sample::default() },
            series: Kind::ALL.map(Series::new),
        };
        assert!(track(816).points(7).is_empty());
        let [point] = track(817).points(7).try_into().unwrap();
        assert_eq!(
            point.what,
            "the engine (pid 7) has 817 files open of the 1,024 that it may have"
        );
        assert_eq!(point.alert.as_deref(), Some("files_growing engine"));
        let me = sample(std::process::id()).unwrap();
        assert!(me.files < me.files_max, "{me:?}");
    }

    #[test]
    fn what_the_tasks_take_is_no_leak_of_the_engine() {
        let track = |role| {
            let mut track = Track {
                role,
                name: String::new(),
                sample: Sample::default(),
                series: Kind::ALL.map(Series::new),
            };
            for minute in 0..3000_u64 {
                let state = minute << 16;
                let sample = Sample { own: (8 << 20) + 2 * state, ..Sample::default() };
                track.add(sample, Millis(minute * 60_000), state);
            }
            track
        };
        assert!(track("engine").view(1).growing.is_empty());
        assert_eq!(track("worker").view(1).growing, ["memory"]);
    }
}
