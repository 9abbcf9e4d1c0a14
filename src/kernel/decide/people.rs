//! Decisions on what people ask of a task: submit, cancel, pause, resume, retry, run-now, reset,
//! edit.

use super::{Answer, Ask, Change, Decision, Edit, NextRun, Rejection, moved, stronger};
use crate::defect::Defect;
use crate::kernel::event::{Edited, Event, Forgotten, Hurried, Moved, StopRequested, Submitted};
use crate::kernel::ids::{LifeTime, Millis, TaskId};
use crate::kernel::status::{Reason, Status, Stop};
use crate::kernel::task::{Task, TaskSpec};
use crate::kernel::text::Text;
use crate::kernel::verdict::{Verb, Verdict, verdict};
use std::collections::BTreeSet;

impl<'a> Ask<'a> {
    pub(super) fn submit(self, spec: &TaskSpec) -> Result<Decision, Rejection> {
        let key = spec.key.as_ref().filter(|_| !Defect::IgnoreKey.is_on());
        if let Some(known) = key.and_then(|key| self.state.task_by_key(key)) {
            return same_submission(known, spec);
        }
        self.new_task(spec.clone())
    }

    /// It stands in the same frame PENDING and then FAILED, so nothing can have been dispatched.
    pub(super) fn submit_invalid(
        self,
        spec: &TaskSpec,
        error: &Text,
    ) -> Result<Decision, Rejection> {
        let Decision { mut events, answer } = self.submit(spec)?;
        if let Answer::Submitted { task, existed: false } = answer {
            // What it would have waited for, and how that ended, is nothing to it.
            events.truncate(1);
            let (to, reason, error) = (Status::Failed, Reason::InvalidInput, Some(error.clone()));
            events.push(Event::Moved(Moved { task, to, reason, wait: None, error }));
        }
        Ok(Decision { events, answer })
    }

    fn new_task(self, spec: TaskSpec) -> Result<Decision, Rejection> {
        let submitted = self.made(self.check_after(spec)?)?;
        let answer = Answer::Submitted { task: submitted.task, existed: false };
        let more = self.settled_before(submitted.task, submitted.spec.after.as_ref());
        let events = std::iter::once(Event::Submitted(submitted)).chain(more).collect();
        Ok(Decision { events, answer })
    }

    /// A task as it is submitted, where all of them together leave room for it.
    pub(super) fn made(self, spec: TaskSpec) -> Result<Submitted, Rejection> {
        let (bytes, max) = (self.state.bytes(), self.rules.max_state);
        if max < bytes.saturating_add(spec.bytes()) {
            return Err(Rejection::StateFull { bytes, max });
        }
        let task = self.state.next_task();
        let due = self.due(&spec);
        Ok(Submitted { task, spec, due })
    }

    /// When the task is due on the life clock; a wall time is placed by today's difference, for
    /// the order of the queue only.
    fn due(self, spec: &TaskSpec) -> LifeTime {
        let ahead = spec.at.map(|at| at.since(self.now.wall)).or(spec.delay);
        self.now.life.after(ahead.unwrap_or_default())
    }

    pub(super) fn task(self, id: TaskId) -> Result<&'a Task, Rejection> {
        self.state.task_or_why(id)
    }

    pub(super) fn forget(self, tasks: &[TaskId]) -> Result<Decision, Rejection> {
        let ended = |id: &TaskId| self.state.task(*id).is_some_and(|it| it.status.is_terminal());
        let needed = |id: &TaskId| self.state.waiting_for(*id).next().is_some();
        let mut seen = BTreeSet::new();
        let tasks = tasks.iter().copied();
        let tasks = tasks.filter(|id| ended(id) && !needed(id) && seen.insert(*id));
        let tasks: Vec<_> = tasks.collect();
        if tasks.is_empty() {
            return Err(Rejection::Needless);
        }
        let events = vec![Event::Forgotten(Forgotten { tasks })];
        Ok(Decision { events, answer: Answer::Done })
    }

    pub(super) fn act(
        self,
        id: TaskId,
        verb: Verb,
        max_retry: Option<u32>,
        fresh: bool,
    ) -> Result<Decision, Rejection> {
        let task = self.task(id)?;
        let event = match verdict(task.status, verb) {
            Verdict::Move(to, reason) => Some(moved(id, to, reason)),
            Verdict::Ask(stop) => ask_stop(task, stop, max_retry),
            Verdict::Hurry if !task.open().is_empty() => {
                return Err(Rejection::Blocked { task: id, open: task.open().to_vec() });
            }
            Verdict::Hurry => {
                let waits = self.now.life < task.due || task.at().is_some();
                waits.then_some(Event::Hurried(Hurried { task: id }))
            }
            Verdict::Anew => return self.again(task, fresh),
            Verdict::Change => self.edited(task, &Edit { max_retry, ..Edit::default() })?,
            Verdict::Already => None,
            Verdict::Refuse => {
                return Err(Rejection::WrongStatus { task: id, status: task.status, verb });
            }
        };
        let changed = event.is_some();
        let events = event.into_iter().collect();
        Ok(Decision { events, answer: Answer::Acted { task: id, changed } })
    }

    pub(super) fn edit(self, id: TaskId, edit: &Edit) -> Result<Decision, Rejection> {
        let task = self.task(id)?;
        let verb = Verb::Edit;
        if verdict(task.status, verb) == Verdict::Refuse {
            return Err(Rejection::WrongStatus { task: id, status: task.status, verb });
        }
        let event = self.edited(task, edit)?;
        let answer = Answer::Acted { task: id, changed: event.is_some() };
        Ok(Decision { events: event.into_iter().collect(), answer })
    }

    /// What an edit changes about a task, if anything.
    fn edited(self, task: &Task, edit: &Edit) -> Result<Option<Event>, Rejection> {
        let Edit { priority, max_retry, timeout, next_run } = *edit;
        let (id, failed) = (task.id, task.retry_count);
        if let Some(max_retry) = max_retry.filter(|max_retry| *max_retry < failed) {
            return Err(Rejection::RetriesUsed { task: id, failed, max_retry });
        }
        let timeout = match timeout {
            Change::Keep | Change::Config => None,
            Change::Unlimited => Some(Millis(0)),
            Change::AtMost(timeout) => Some(timeout),
        };
        let (life, wall) = (self.now.life, self.now.wall);
        let (due, at) = match next_run {
            None => (None, None),
            Some(NextRun::In(span)) => {
                let paused = task.status == Status::Paused;
                (Some(life.after(span)), paused.then(|| wall.after(span)))
            }
            Some(NextRun::At(at)) => (Some(life.after(at.since(wall))), Some(at)),
        };
        let edited = Edited {
            task: id,
            priority: priority.filter(|priority| *priority != task.priority),
            max_retry: max_retry.filter(|max_retry| *max_retry != task.max_retry),
            timeout: timeout.filter(|timeout| *timeout != task.timeout.unwrap_or_default()),
            due,
            at,
        };
        let unchanged = Edited { task: id, ..Edited::default() };
        Ok((edited != unchanged).then_some(Event::Edited(edited)))
    }

    /// A new task like `old`, linked to it; never with its key.
    fn again(self, old: &Task, fresh: bool) -> Result<Decision, Rejection> {
        let carried = old.checkpoint().filter(|_| !fresh);
        let decision = self.new_task(TaskSpec {
            kind: old.kind.clone(),
            payload: old.payload.clone(),
            priority: old.priority,
            max_retry: old.max_retry,
            timeout: old.timeout,
            at: None,
            delay: None,
            key: None,
            retry_of: Some(old.id),
            checkpoint: carried.map(|checkpoint| checkpoint.data.clone()),
            scheduled: old.scheduled().cloned(),
            after: None,
        })?;
        let answer = Answer::Acted { task: self.state.next_task(), changed: true };
        Ok(Decision { answer, ..decision })
    }
}

pub(super) fn ask_stop(task: &Task, stop: Stop, max_retry: Option<u32>) -> Option<Event> {
    let stop = stronger(task.stop(), stop)?;
    Some(Event::StopRequested(StopRequested { task: task.id, stop, max_retry }))
}

/// The answer to a submission whose key is known.
fn same_submission(known: &Task, spec: &TaskSpec) -> Result<Decision, Rejection> {
    if known.kind == spec.kind && known.payload == spec.payload {
        let answer = Answer::Submitted { task: known.id, existed: true };
        return Ok(Decision { events: Vec::new(), answer });
    }
    let key = spec.key.clone().unwrap_or_else(|| "".into());
    Err(Rejection::KeyConflict { task: known.id, key })
}
