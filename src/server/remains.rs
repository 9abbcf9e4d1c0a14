//! What ended tasks leave on the disk: lines in the archive before they go, and logs that go after
//! them. A thread of its own sees to it.

use super::archive::Archive;
use super::hand::{Hand, Message};
use crate::engine::Input;
use crate::kernel::ids::{LifeTime, Moment, TaskId};
use crate::kernel::task::Task;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

/// Jobs that may wait. One that finds no room is made up for by the next survey.
pub(crate) const JOBS_QUEUED_MAX: usize = 64;

/// Tasks that the engine's thread is asked about at once.
const ASKED_AT_ONCE: usize = 1024;

/// A job.
pub(crate) enum Job {
    /// Write ended tasks to the archive.
    Archive(Vec<Task>, Moment),
    /// Remove the logs of tasks that are forgotten.
    Forgotten(Vec<TaskId>),
    /// Look through all logs: remove what belongs to no task, and while the rest takes more than
    /// it may, that of the tasks that ended first.
    Survey,
}

/// What the thread needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    pub(crate) logs: PathBuf,
    /// Bytes that all logs together may take.
    pub(crate) logs_max: Arc<AtomicU64>,
    pub(super) archive: Option<Archive>,
}

/// The logs of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Logs {
    task: TaskId,
    bytes: u64,
}

/// What the state knows of a task whose logs were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It is gone.
    Forgotten,
    /// It has ended.
    Ended(LifeTime),
    /// It may still write.
    Open,
}

/// The thread.
pub(crate) fn keeper(jobs: &Receiver<Job>, hand: &Hand, remains: &Remains) {
    for job in jobs {
        match job {
            Job::Archive(tasks, now) => {
                let written = match &remains.archive {
                    Some(archive) => archive.append(&tasks, now),
                    None => Err("there is no archive".to_owned()),
                };
                let tasks = tasks.iter().map(|task| task.id).collect();
                let archived = Input::Archived { tasks, written };
                hand.send_patiently(Message::Tell(Box::new(archived)));
            }
            Job::Forgotten(tasks) => tasks.iter().for_each(|task| remains.remove(*task)),
            Job::Survey => {
                if let Err(error) = remains.survey(|found| ask(hand, found)) {
                    tracing::warn!("cannot look through {}: {error}", remains.logs.display());
                }
            }
        }
    }
}

/// Asks the engine's thread how these tasks stand; none when it has ended.
fn ask(hand: &Hand, found: &[Logs]) -> Option<Vec<Standing>> {
    let ids: Vec<_> = found.iter().map(|logs| logs.task).collect();
    let (to, answer) = sync_channel(1);
    let look = move |facts: &super::host::Facts<'_>| {
        let state = facts.engine.state();
        let standing = |id: &TaskId| match state.task(*id) {
            Some(task) => task.ended().map_or(Standing::Open, Standing::Ended),
            None if *id < state.next_task() => Standing::Forgotten,
            None => Standing::Open,
        };
        let standings = ids.iter().map(standing).collect::<Vec<_>>();
        super::hand::Delivery::Other(Box::new(move || drop(to.send(standings))))
    };
    hand.send_patiently(Message::Read(Box::new(look)));
    answer.recv().ok()
}

impl Remains {
    fn remove(&self, task: TaskId) {
        let path = self.logs.join(task.to_string());
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("cannot remove {}: {error}", path.display());
            }
            _ => {}
        }
    }

    fn survey(&self, ask: impl Fn(&[Logs]) -> Option<Vec<Standing>>) -> io::Result<()> {
        let found = self.find()?;
        let logs_max = self.logs_max.load(Ordering::Relaxed);
        let mut ended = Vec::new();
        let mut bytes = 0_u64;
        for some in found.chunks(ASKED_AT_ONCE) {
            let Some(standings) = ask(some) else { return Ok(()) };
            for (logs, standing) in some.iter().zip(standings) {
                match standing {
                    Standing::Forgotten => {
                        self.remove(logs.task);
                        continue;
                    }
                    Standing::Ended(at) => ended.push((at, *logs)),
                    Standing::Open => {}
                }
                bytes = bytes.saturating_add(logs.bytes);
            }
        }
        ended.sort_by_key(|(at, logs)| (*at, logs.task));
        let mut removed = 0_u64;
        for (_, logs) in ended {
            if bytes <= logs_max {
                break;
            }
            self.remove(logs.task);
            bytes = bytes.saturating_sub(logs.bytes);
            removed = removed.saturating_add(1);
        }
        if 0 < removed {
            tracing::info!(
                "removed the logs of {removed} ended tasks: all logs together may take {}",
                crate::units::bytes(logs_max)
            );
        }
        Ok(())
    }

    /// The directories of logs and what is in them. What has no number for a name is not ours.
    fn find(&self) -> io::Result<Vec<Logs>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.logs)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(task) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            found.push(Logs { task, bytes: bytes_below(&entry.path()) });
        }
        Ok(found)
    }
}

/// Bytes of the files in a directory; what goes away meanwhile counts for none.
fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let lengths = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    lengths.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test's file need not last")]
    fn log(dir: &Path, task: u64, attempt: u32, bytes: usize) {
        fs::create_dir_all(dir.join(task.to_string())).unwrap();
        fs::write(dir.join(format!("{task}/{attempt}.log")), vec![b'x'; bytes]).unwrap();
    }

    fn left(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn survey(dir: &Path, logs_max: u64) {
        let standing = |logs: &Logs| match logs.task.0 {
            1 => Standing::Forgotten,
            2 | 3 => Standing::Ended(LifeTime(100 - logs.task.0)),
            4 => Standing::Ended(LifeTime(7)),
            _ => Standing::Open,
        };
        let logs_max = Arc::new(AtomicU64::new(logs_max));
        let remains = Remains { logs: dir.to_owned(), logs_max, archive: None };
        remains.survey(|found| Some(found.iter().map(standing).collect())).unwrap();
    }

    #[test]
    fn logs_without_a_task_go_and_over_the_budget_those_of_the_tasks_that_ended_first() {
        let dir = tempfile::tempdir().unwrap();
        for task in 1..=5 {
            log(dir.path(), task, 1, 600);
            log(dir.path(), task, 2, 400);
        }
        log(dir.path(), 6, 1, 10); // a number, and no task was ever given it
        fs::create_dir(dir.path().join("notes")).unwrap();
        for (budget, expected) in [
            (5_000, &["2", "3", "4", "5", "6", "notes"][..]),
            (4_010, &["2", "3", "4", "5", "6", "notes"]),
            (4_009, &["2", "3", "5", "6", "notes"]),
            (2_010, &["2", "5", "6", "notes"]),
            (1, &["5", "6", "notes"]),
        ] {
            survey(dir.path(), budget);
            assert_eq!(left(dir.path()), expected, "{budget}");
        }
    }
}
