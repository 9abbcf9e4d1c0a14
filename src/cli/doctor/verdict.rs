//! What keeps a task from going on, in one sentence, and what to do.

use super::finding::Level;
use super::tree::Node;
use crate::api::{AttemptView, TaskView, TypeView, WorkerView};
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::status::Status;
use crate::units::{parse_duration, parse_rfc3339, span};
use serde::Serialize;

/// A due task that nothing holds up is taken within moments; this much is none.
const MOMENT: Millis = Millis::secs(30);

/// A run is long when it takes so many times what 95 of 100 take.
const LONG: u64 = 3;

/// A log that does not grow for this long says something, where nothing else is known.
const SILENCE: Millis = Millis::secs(600);

/// Everything that is known of a task.
pub(super) struct Case<'a> {
    pub(super) task: &'a TaskView,
    /// Its latest attempt.
    pub(super) attempt: Option<&'a AttemptView>,
    pub(super) kind: Option<&'a TypeView>,
    pub(super) workers: &'a [WorkerView],
    /// 95 of 100 runs of its type take no longer.
    pub(super) p95: Option<Millis>,
    pub(super) tree: &'a [Node],
    /// How long its log has not grown.
    pub(super) quiet: Option<Millis>,
    pub(super) now: Timestamp,
}

/// The conclusion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    pub(super) level: Level,
    pub(super) what: String,
    pub(super) commands: Vec<String>,
}

fn verdict(level: Level, what: String, commands: &[String]) -> Verdict {
    Verdict { level, what, commands: commands.to_vec() }
}

impl Case<'_> {
    /// What is the matter, if anything is.
    pub(super) fn verdict(&self) -> Verdict {
        let id = self.task.id;
        match self.task.status {
            Status::Success | Status::Cancelled => {
                let what = format!("it has ended ({}), and nothing is stuck", self.task.status);
                verdict(Level::Ok, what, &[format!("midwatch history {id}")])
            }
            Status::Failed | Status::Dead => {
                let error = self.task.error.as_deref().unwrap_or("no error was told");
                let what = format!("it is {} and stays so: {error}", self.task.status);
                let commands = [format!("midwatch log {id}"), format!("midwatch retry {id}")];
                verdict(Level::Warning, what, &commands)
            }
            Status::Paused => {
                let since = span(self.since(&self.task.status_since));
                let what = format!("somebody paused it {since} ago; it waits to be resumed");
                verdict(Level::Warning, what, &[format!("midwatch resume {id}")])
            }
            Status::Lost => {
                let what = "its worker is gone; once nothing of its attempt can be alive, it is \
                            taken over by another, without a retry used";
                verdict(Level::Note, what.to_owned(), &["midwatch workers".to_owned()])
            }
            Status::Pending | Status::Retrying => self.waiting(),
            Status::Running => self.running(),
        }
    }

    fn since(&self, rfc3339: &str) -> Millis {
        parse_rfc3339(rfc3339).map(|at| self.now.since(at)).unwrap_or_default()
    }

    fn waiting(&self) -> Verdict {
        let (id, kind) = (self.task.id, &self.task.kind);
        if let Some(first) = self.task.waiting_for.as_ref().and_then(|open| open.first()) {
            let what = format!("it waits for task {first} to end");
            return verdict(Level::Ok, what, &[format!("midwatch doctor {first}")]);
        }
        let next = self.task.next_run_time.as_deref().and_then(|at| parse_rfc3339(at).ok());
        if let Some(next) = next.filter(|next| self.now < *next) {
            let what = format!("its time has not come: {} to go", span(next.since(self.now)));
            return verdict(Level::Ok, what, &[format!("midwatch run-now {id}")]);
        }
        if let Some(order) = self.kind.and_then(|known| known.paused.as_ref()) {
            let what = format!("type {kind} is paused by {}", order.by);
            return verdict(Level::Warning, what, &[format!("midwatch type resume {kind}")]);
        }
        let alive = || self.workers.iter().filter(|worker| worker.status == "alive");
        if alive().next().is_none() {
            let commands = ["midwatch workers".to_owned(), "midwatch doctor".to_owned()];
            return verdict(Level::Problem, "no worker is alive".to_owned(), &commands);
        }
        let able: Vec<_> = alive().filter(|worker| worker.types.contains(kind)).collect();
        if able.is_empty() {
            let what = format!(
                "no worker that is alive runs type {kind}: the config has no such \
                                handler, or its program is not there"
            );
            let commands = ["midwatch workers".to_owned(), "midwatch config show".to_owned()];
            return verdict(Level::Problem, what, &commands);
        }
        self.held_up(&able)
    }

    /// Bounds, rates and slots: what frees itself.
    fn held_up(&self, able: &[&WorkerView]) -> Verdict {
        let (id, kind) = (self.task.id, &self.task.kind);
        if let Some(known) = self.kind {
            if let Some(max) =
                known.max_running.value.filter(|max| u64::from(*max) <= known.running)
            {
                let what = format!("as many tasks of type {kind} run as may: {max}");
                let commands = [
                    format!("midwatch list --type {kind} --status RUNNING"),
                    format!("midwatch type show {kind}"),
                ];
                return verdict(Level::Note, what, &commands);
            }
            if let (Some(at), Some(rate)) = (&known.next_dispatch_at, &known.rate.value) {
                let wait = parse_rfc3339(at).map(|at| at.since(self.now)).unwrap_or_default();
                let what = format!("type {kind} may start {rate}; the next may in {}", span(wait));
                return verdict(Level::Note, what, &[format!("midwatch type show {kind}")]);
            }
        }
        let slots: u64 = able.iter().map(|worker| u64::from(worker.slots)).sum();
        let held: u64 = able.iter().map(|worker| worker.holds.len() as u64).sum();
        if slots <= held {
            let what = format!("all {slots} slots of the workers that run type {kind} are busy");
            let commands =
                ["midwatch workers".to_owned(), format!("midwatch edit {id} --priority 1")];
            return verdict(Level::Note, what, &commands);
        }
        let due = self.task.next_run_time.as_deref().map(|at| self.since(at)).unwrap_or_default();
        if MOMENT < due {
            let what = format!(
                "it has been due for {}, and nothing known holds it up but slots \
                                that are kept for urgent tasks (`dispatch.reserve`)",
                span(due)
            );
            let commands = ["midwatch status".to_owned(), "midwatch config show".to_owned()];
            return verdict(Level::Warning, what, &commands);
        }
        verdict(Level::Ok, "it is due, and about to start".to_owned(), &[])
    }

    fn running(&self) -> Verdict {
        let id = self.task.id;
        let log = format!("midwatch log {id} --tail 50");
        if let Some(stop) = self.task.stop_requested {
            let what = format!(
                "it was asked to stop ({stop}), and has not yet; SIGTERM and SIGKILL \
                                follow after `cancel_grace` and `kill_grace` of its handler"
            );
            return verdict(Level::Note, what, &[log]);
        }
        let worker = self.workers.iter().find(|it| Some(it.id) == self.task.executor_id);
        if let Some(worker) = worker.filter(|worker| worker.status != "alive") {
            let what = format!(
                "its worker {} ({}) is {}: nothing was heard of it for {}",
                worker.id,
                worker.name,
                worker.status,
                span(worker.silent_ms)
            );
            let commands = [
                format!("ps -o pid,stat,etime,args -p {}", worker.pid),
                "midwatch workers".to_owned(),
            ];
            return verdict(Level::Warning, what, &commands);
        }
        let ran = self.ran();
        if let Some(stopped) = self.tree.iter().find(|node| matches!(node.state, 'T' | 't')) {
            let what = format!("its process {} is stopped, by a signal or a debugger", stopped.pid);
            let commands = [format!("kill -CONT {}", stopped.pid), format!("midwatch reset {id}")];
            return verdict(Level::Problem, what, &commands);
        }
        if let Some(blocked) = self.tree.iter().find(|node| node.state == 'D')
            && self.is_late(ran)
        {
            let what = format!(
                "its process {} waits in the kernel, for a disk or a file server \
                                that does not answer; no signal reaches it",
                blocked.pid
            );
            let commands =
                [format!("cat /proc/{}/stack", blocked.pid), "dmesg | tail -n 20".to_owned()];
            return verdict(Level::Problem, what, &commands);
        }
        let timeout = self.task.timeout.as_deref().and_then(|text| parse_duration(text).ok());
        if let Some(timeout) = timeout.filter(|timeout| *timeout < ran) {
            let what =
                format!("it has passed its timeout of {}, and is being stopped", span(timeout));
            return verdict(Level::Note, what, &[log]);
        }
        if self.is_late(ran) {
            return self.late(ran);
        }
        let what = format!("it runs since {}, and nothing points at trouble", span(ran));
        verdict(Level::Ok, what, &[format!("midwatch log {id} -f")])
    }

    fn ran(&self) -> Millis {
        let began = self.attempt.and_then(|it| it.started_at.as_deref().or(Some(&it.leased_at)));
        began.map(|at| self.since(at)).unwrap_or_default()
    }

    fn is_late(&self, ran: Millis) -> bool {
        match self.p95 {
            Some(p95) => p95.times(LONG).max(MOMENT) < ran,
            None => self.quiet.is_some_and(|quiet| SILENCE < quiet && SILENCE < ran),
        }
    }

    fn late(&self, ran: Millis) -> Verdict {
        let id = self.task.id;
        let long = match self.p95 {
            Some(p95) => {
                format!(
                    "it runs for {}, and 95 of 100 of its type take {} at most",
                    span(ran),
                    span(p95)
                )
            }
            None => format!("it runs for {}", span(ran)),
        };
        let quiet = self.quiet.filter(|quiet| SILENCE < *quiet);
        let quiet = quiet.map(|quiet| format!("; its log has not grown for {}", span(quiet)));
        let sleeps = !self.tree.is_empty() && self.tree.iter().all(|node| node.state == 'S');
        let sleeps =
            if sleeps { "; all its processes sleep, so it waits for something" } else { "" };
        let what = format!("{long}{}{sleeps}", quiet.unwrap_or_default());
        let mut commands = vec![format!("midwatch log {id} --tail 50")];
        commands.extend(
            self.tree
                .last()
                .map(|node| format!("cat /proc/{}/wchan; ls -l /proc/{0}/fd", node.pid)),
        );
        commands.push(format!("midwatch reset {id}    # stops it and starts it over"));
        verdict(Level::Problem, what, &commands)
    }
}

#[cfg(test)]
mod tests;
