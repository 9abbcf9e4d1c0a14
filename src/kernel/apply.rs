//! The only writer of the state: one event at a time, live and in replay alike.

mod schedules;

use super::alerts;
use super::dispatch::count_dispatch;
use super::event::{
    Checkpointed, Edited, Ended, Event, Forgotten, Heard, Hurried, Leased, Moved, Refused,
    Released, Stamp, Standing, Started, StopRequested, Submitted, TypeLimited, TypePaused,
    TypeResumed, WorkerChanged, WorkerJoined, WorkerMoved,
};
use super::figures;
use super::ids::{Fence, Millis, ServiceTime, TaskId};
use super::shared::Shared;
use super::state::{State, Worker};
use super::status::{IllegalEdge, Outcome, Reason, Status};
use super::task::{Attempt, AttemptEnd, Checkpoint, Extra, Lease, Life, Task, Transition};
use super::task_type::{Order, TaskType};
use super::text::Text;
use super::verdict::{Verb, Verdict, verdict};
use crate::defect::Defect;
use std::collections::BTreeSet;
use std::fmt;

/// An event that cannot follow the state: a bug of ours, or a damaged journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IllegalEvent {
    /// The table has no such edge.
    Edge {
        /// The task.
        task: TaskId,
        /// The edge that was tried.
        edge: IllegalEdge,
    },
    /// What the event says does not fit what is known.
    Unfit {
        /// The event's name.
        event: &'static str,
        /// What does not fit.
        why: String,
    },
}

impl fmt::Display for IllegalEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edge { task, edge } => write!(f, "task {task}: {edge}"),
            Self::Unfit { event, why } => write!(f, "event `{event}` cannot follow: {why}"),
        }
    }
}

impl std::error::Error for IllegalEvent {}

/// Makes `event` part of `state`. On an error the state is as it was.
pub fn apply(state: &mut State, stamp: &Stamp, event: &Event) -> Result<(), IllegalEvent> {
    let unfit = |why: String| IllegalEvent::Unfit { event: event.word(), why };
    if stamp.seq < state.next_seq {
        return Err(unfit(format!("sequence {} after {}", stamp.seq, state.head.seq)));
    }
    match event {
        Event::Submitted(event) => submitted(state, stamp, event),
        Event::Leased(event) => leased(state, stamp, event),
        Event::Heard(event) => heard(state, stamp, event),
        Event::Checkpointed(event) => checkpointed(state, stamp, event),
        Event::Ended(event) => ended(state, stamp, event),
        Event::Moved(event) => moved(state, stamp, event),
        Event::StopRequested(event) => stop_requested(state, stamp, event),
        Event::Hurried(event) => hurried(state, stamp, event),
        Event::WorkerJoined(event) => worker_joined(state, stamp, event),
        Event::WorkerMoved(event) => worker_moved(state, stamp, event),
        Event::WorkerChanged(event) => worker_changed(state, event),
        Event::Refused(event) => refused(state, stamp, event),
        Event::Started(event) => started(state, stamp, event),
        Event::Forgotten(event) => forgotten(state, event),
        Event::TypePaused(event) => type_paused(state, stamp, event),
        Event::TypeResumed(event) => type_resumed(state, event),
        Event::TypeLimited(event) => {
            type_limited(state, stamp, event);
            Ok(())
        }
        Event::Edited(event) => edited(state, stamp, event),
        Event::ClockStepped(event) => {
            schedules::clock_stepped(state, event);
            Ok(())
        }
        Event::ScheduleSet(event) => schedules::set(state, stamp, event),
        Event::ScheduleRemoved(event) => schedules::removed(state, event),
        Event::SchedulePaused(event) => schedules::paused(state, stamp, event),
        Event::ScheduleResumed(event) => schedules::resumed(state, stamp, event),
        Event::Fired(event) => schedules::fired(state, stamp, event),
        Event::Released(event) => released(state, stamp, event),
        // What they change are alerts alone.
        Event::AlertRaised(_)
        | Event::AlertCleared(_)
        | Event::AlertAcked(_)
        | Event::AlertsTold(_) => Ok(()),
    }
    .map_err(|problem| match problem {
        Problem::Edge(task, edge) => IllegalEvent::Edge { task, edge },
        Problem::Unfit(why) => unfit(why),
    })?;
    alerts::note(state, stamp, event);
    state.note(stamp);
    figures::count(state, stamp, event);
    Ok(())
}

/// Why one event does not fit, before it is known which event it was.
enum Problem {
    Edge(TaskId, IllegalEdge),
    Unfit(String),
}

type Applied = Result<(), Problem>;

fn unfit(why: impl Into<String>) -> Problem {
    Problem::Unfit(why.into())
}

impl State {
    /// Changes one task and whatever is derived from it. `change` runs on the task taken out of
    /// the index; it must leave the task in a state that its status allows.
    fn change(&mut self, id: TaskId, stamp: &Stamp, change: impl FnOnce(&mut Task)) -> Applied {
        let Some(task) = self.tasks.get_mut(id) else {
            return Err(unfit(format!("there is no task {id}")));
        };
        self.index.remove(task);
        let had_ended = task.status.is_terminal();
        task.updated = stamp.wall;
        change(task);
        // The clock of the event counts: a task made due by it is due.
        self.seen.life = self.seen.life.max(stamp.life);
        self.seen.wall = stamp.wall;
        self.index.insert(task, self.seen);
        if let Some(scheduled) = task.scheduled() {
            let name = scheduled.schedule.clone();
            let ended = (!had_ended && task.status.is_terminal()).then_some(task.status);
            self.run_changed(&name, ended, stamp);
        }
        Ok(())
    }

    /// Changes what is known of a type; where nothing is known any more, it is not kept.
    fn change_type(&mut self, kind: &Text, change: impl FnOnce(&mut TaskType)) {
        let mut known = self.types.remove(kind).unwrap_or_else(|| TaskType::new(kind.clone()));
        change(&mut known);
        if !known.is_plain() {
            self.types.insert(kind.clone(), known);
        }
    }

    fn known(&self, id: TaskId) -> Result<&Task, Problem> {
        self.task(id).ok_or_else(|| unfit(format!("there is no task {id}")))
    }

    /// The task, provided that `fence` is the token of its lease.
    fn leased_as(&self, id: TaskId, fence: Fence) -> Result<&Task, Problem> {
        let task = self.known(id)?;
        match task.lease() {
            Some(lease) if lease.fence == fence => Ok(task),
            Some(lease) => {
                Err(unfit(format!("task {id} is leased as {}, not {fence}", lease.fence)))
            }
            None => Err(unfit(format!("task {id} is {} and holds no lease", task.status))),
        }
    }
}

fn check_edge(task: &Task, to: Status, reason: Reason) -> Applied {
    task.status.check_edge(to, reason).map_err(|edge| Problem::Edge(task.id, edge))
}

fn life(task: &mut Task) -> &mut Life {
    task.life.get_or_insert_default()
}

/// Gives the task its new status, with a line in its life.
fn enter(task: &mut Task, stamp: &Stamp, to: Status, reason: Reason, line: &Line<'_>) {
    let from = task.status;
    task.status = to;
    life(task).ended = to.is_terminal().then_some(stamp.life);
    life(task).transitions.push(Transition {
        seq: stamp.seq,
        at: stamp.wall,
        from,
        to,
        reason: Some(reason),
        by: stamp.by.clone(),
        wait: line.wait,
        note: line.note.cloned(),
    });
}

/// What a transition's line says besides.
#[derive(Default)]
struct Line<'a> {
    wait: Option<Millis>,
    note: Option<&'a Text>,
}

/// Adds a line to a task's life that is no transition.
fn remark(task: &mut Task, stamp: &Stamp, note: Text) {
    let status = task.status;
    life(task).transitions.push(Transition {
        seq: stamp.seq,
        at: stamp.wall,
        from: status,
        to: status,
        reason: None,
        by: stamp.by.clone(),
        wait: None,
        note: Some(note),
    });
}

fn submitted(state: &mut State, stamp: &Stamp, event: &Submitted) -> Applied {
    let Submitted { task: id, spec, due } = event;
    if *id < state.head.next_task {
        return Err(unfit(format!("task id {id} was given before")));
    }
    let born_with = Extra {
        key: spec.key.clone(),
        retry_of: spec.retry_of,
        at: spec.at,
        by: Some(stamp.by.clone()).filter(|by| *by != super::event::Actor::Daemon),
        scheduled: spec.scheduled.clone(),
        after: spec.after.clone(),
        open: spec.after.as_ref().map(|after| after.tasks.clone()),
    };
    let carried = spec.checkpoint.as_ref().map(|data| Life {
        checkpoint: Some(Checkpoint { data: data.clone(), at: stamp.wall, seq: stamp.seq }),
        ..Life::default()
    });
    let task = Task {
        id: *id,
        kind: spec.kind.clone(),
        payload: spec.payload.clone(),
        status: Status::Pending,
        priority: spec.priority,
        due: *due,
        retry_count: 0,
        max_retry: spec.max_retry,
        lost_count: 0,
        timeout: spec.timeout,
        created: stamp.wall,
        updated: stamp.wall,
        born: stamp.seq,
        extra: Some(born_with).filter(|extra| *extra != Extra::default()).map(Shared::new),
        life: carried.map(Box::new),
    };
    state.seen.life = state.seen.life.max(stamp.life);
    state.seen.wall = stamp.wall;
    state.index.insert(&task, state.seen);
    state.tasks.insert(task);
    state.head.next_task = TaskId(id.0.saturating_add(1));
    if let Some(scheduled) = &spec.scheduled {
        state.run_changed(&scheduled.schedule, None, stamp);
    }
    Ok(())
}

/// A task that another one waited for ended as hoped.
fn released(state: &mut State, stamp: &Stamp, event: &Released) -> Applied {
    let Released { task: id, of } = event;
    let task = state.known(*id)?;
    if task.status.is_terminal() || !task.open().contains(of) {
        return Err(unfit(format!("task {id} does not wait for task {of}")));
    }
    state.change(*id, stamp, |task| {
        task.release(*of);
        if task.open().is_empty() {
            // As long as it waited for others it was not due.
            task.due = task.due.max(stamp.life);
        }
    })
}

fn leased(state: &mut State, stamp: &Stamp, event: &Leased) -> Applied {
    let Leased { task: id, fence, worker, ends, secret, rate, promoted } = event;
    if fence.0 != stamp.seq.0 && !Defect::ReuseTokens.is_on() {
        return Err(unfit(format!("token {fence} in the record with sequence {}", stamp.seq)));
    }
    let Some(holder) = state.workers.get(worker) else {
        return Err(unfit(format!("there is no worker {worker}")));
    };
    let worker_name = holder.registration.name.clone();
    let task = state.known(*id)?;
    check_edge(task, Status::Running, Reason::Dispatched)?;
    if let Some(of) = task.open().first() {
        return Err(unfit(format!("task {id} waits for task {of}")));
    }
    if rate.is_some() || state.types.contains_key(&task.kind) {
        let kind = task.kind.clone();
        state.change_type(&kind, |known| known.count(*rate, stamp.life));
    }
    let promoted = *promoted == Some(true);
    state.head.since_promotion = count_dispatch(state.head.since_promotion, promoted);
    state.change(*id, stamp, |task| {
        enter(task, stamp, Status::Running, Reason::Dispatched, &Line::default());
        let number = task.attempt_count().saturating_add(1);
        let waited = stamp.life.since(task.due);
        task.forget_at(); // a wall time holds up the first run only
        let life = life(task);
        life.progress = None;
        life.lease = Some(Lease {
            fence: *fence,
            worker: *worker,
            ends: *ends,
            secret: *secret,
            process: None,
        });
        life.push_attempt(Attempt {
            number,
            fence: *fence,
            worker: *worker,
            worker_name,
            leased: stamp.wall,
            waited,
            started: None,
            end: None,
            secret: *secret,
        });
    })
}

fn heard(state: &mut State, stamp: &Stamp, event: &Heard) -> Applied {
    for held in &event.holds {
        state.leased_as(held.task, held.fence)?;
    }
    for held in &event.holds {
        state.change(held.task, stamp, |task| {
            let life = life(task);
            let first_word = held.process.is_some();
            if let Some(lease) = life.lease.as_mut() {
                lease.ends = held.ends;
                lease.process = held.process.clone().or_else(|| lease.process.take());
            }
            if let Some(attempt) = life.attempts.back_mut().filter(|_| first_word) {
                attempt.started = Some(stamp.wall);
            }
            if held.progress.is_some() {
                life.progress.clone_from(&held.progress);
            }
        })?;
    }
    Ok(())
}

fn checkpointed(state: &mut State, stamp: &Stamp, event: &Checkpointed) -> Applied {
    state.leased_as(event.task, event.fence)?;
    state.change(event.task, stamp, |task| {
        life(task).checkpoint =
            Some(Checkpoint { data: event.data.clone(), at: stamp.wall, seq: stamp.seq });
    })
}

/// Closes the attempt that holds the lease, and takes the lease away.
fn close_attempt(task: &mut Task, end: AttemptEnd) {
    let life = life(task);
    life.stop = None;
    life.lease = None;
    if let Some(attempt) = life.attempts.back_mut() {
        attempt.end = Some(end);
    }
}

fn ended(state: &mut State, stamp: &Stamp, event: &Ended) -> Applied {
    let task = state.leased_as(event.task, event.fence)?;
    check_edge(task, event.to, event.reason)?;
    state.change(event.task, stamp, |task| {
        let line = Line { wait: event.wait, note: event.error.as_ref() };
        enter(task, stamp, event.to, event.reason, &line);
        close_attempt(
            task,
            AttemptEnd {
                outcome: event.outcome,
                at: stamp.wall,
                status: event.to,
                exit_code: event.exit_code,
                signal: event.signal,
                error: event.error.clone(),
                usage: event.usage,
            },
        );
        if event.to == Status::Retrying {
            task.retry_count = task.retry_count.saturating_add(1);
        }
        if event.to.is_waiting() {
            task.due = stamp.life.after(event.wait.unwrap_or_default());
        }
        let life = life(task);
        life.error = event.error.clone().or_else(|| life.error.take());
        if event.to == Status::Success {
            life.result.clone_from(&event.result);
            life.error = None;
        }
    })
}

fn moved(state: &mut State, stamp: &Stamp, event: &Moved) -> Applied {
    let Moved { task: id, to, reason, wait, error } = event;
    let task = state.known(*id)?;
    check_edge(task, *to, *reason)?;
    if task.status == Status::Running && *to != Status::Lost {
        return Err(unfit(format!("task {id} runs: only the end of its attempt takes it to {to}")));
    }
    if *to == Status::Running && *reason != Reason::ExecutorReturned {
        return Err(unfit(format!("task {id} needs a lease to run")));
    }
    state.change(*id, stamp, |task| {
        let was = task.status;
        enter(task, stamp, *to, *reason, &Line { wait: *wait, note: error.as_ref() });
        if error.is_some() {
            life(task).error.clone_from(error);
        }
        match (was, *to) {
            (Status::Lost, Status::Running) => {}
            (Status::Lost, _) => {
                task.lost_count = task.lost_count.saturating_add(1);
                close_attempt(
                    task,
                    AttemptEnd {
                        outcome: Outcome::Lost,
                        at: stamp.wall,
                        status: *to,
                        exit_code: None,
                        signal: None,
                        error: None,
                        usage: None,
                    },
                );
            }
            _ => {}
        }
        if to.is_waiting() {
            task.due = stamp.life.after(wait.unwrap_or_default());
        }
    })
}

fn stop_requested(state: &mut State, stamp: &Stamp, event: &StopRequested) -> Applied {
    let task = state.known(event.task)?;
    if task.lease().is_none() {
        return Err(unfit(format!("task {} is {} and holds no lease", task.id, task.status)));
    }
    state.change(event.task, stamp, |task| {
        task.max_retry = event.max_retry.unwrap_or(task.max_retry);
        life(task).stop = Some(event.stop);
        remark(task, stamp, format!("{} requested", event.stop).into());
    })
}

fn hurried(state: &mut State, stamp: &Stamp, event: &Hurried) -> Applied {
    let task = state.known(event.task)?;
    if !task.status.is_waiting() {
        return Err(unfit(format!("task {} is {} and does not wait", task.id, task.status)));
    }
    state.change(event.task, stamp, |task| {
        task.due = stamp.life.min(task.due);
        task.forget_at();
        remark(task, stamp, "made due at once".into());
    })
}

fn worker_joined(state: &mut State, stamp: &Stamp, event: &WorkerJoined) -> Applied {
    let WorkerJoined { worker: id, registration } = event;
    if id.0 != stamp.seq.0 {
        return Err(unfit(format!("worker {id} in the record with sequence {}", stamp.seq)));
    }
    let worker = Worker {
        id: *id,
        registration: registration.clone(),
        standing: Standing::Alive,
        since: stamp.wall,
    };
    state.workers.insert(*id, worker);
    Ok(())
}

fn worker_moved(state: &mut State, stamp: &Stamp, event: &WorkerMoved) -> Applied {
    let WorkerMoved { worker: id, to, reason } = event;
    let Some(worker) = state.workers.get_mut(id) else {
        return Err(unfit(format!("there is no worker {id}")));
    };
    if *to != Standing::Gone {
        worker.standing = *to;
        return Ok(());
    }
    if let Some(task) = state.held(*id).find(|task| task.status == Status::Running) {
        return Err(unfit(format!("worker {id} is gone and still runs task {}", task.id)));
    }
    let lost: Vec<_> = state.held(*id).map(|task| task.id).collect();
    for task in lost {
        state.change(task, stamp, |task| {
            if let Some(lease) = life(task).lease.as_mut() {
                lease.ends = ServiceTime(0); // revoked: no living process can hold it
            }
        })?;
    }
    if let Some(worker) = state.workers.remove(id) {
        alerts::worker_gone(&mut state.alerts, stamp, &worker, *reason);
    }
    Ok(())
}

fn worker_changed(state: &mut State, event: &WorkerChanged) -> Applied {
    let WorkerChanged { worker: id, kinds, slots } = event;
    let Some(worker) = state.workers.get_mut(id) else {
        return Err(unfit(format!("there is no worker {id}")));
    };
    worker.registration.kinds.clone_from(kinds);
    worker.registration.slots = *slots;
    Ok(())
}

fn refused(state: &mut State, stamp: &Stamp, event: &Refused) -> Applied {
    let Refused { task, fence: _, act: _ } = event;
    let note = event.note();
    let updated = state.known(*task)?.updated;
    state.change(*task, stamp, |task| {
        remark(task, stamp, note.into());
        task.updated = updated; // what somebody else tried is no change of the task
    })
}

fn started(state: &mut State, stamp: &Stamp, event: &Started) -> Applied {
    if event.next_task < state.head.next_task {
        return Err(unfit(format!("the next task would be {} again", event.next_task)));
    }
    state.head.next_task = event.next_task;
    schedules::started(state, stamp, event);
    state.head.started = Some(event.clone());
    state.head.started_life = stamp.life;
    if Defect::ForgetLimits.is_on() {
        state.types.clear();
    }
    if Defect::ResetRetries.is_on() {
        let waiting: Vec<_> = state.with_status(Status::Retrying).map(|task| task.id).collect();
        for id in waiting {
            state.change(id, stamp, |task| task.retry_count = 0)?;
        }
    }
    Ok(())
}

fn forgotten(state: &mut State, event: &Forgotten) -> Applied {
    let mut seen = BTreeSet::new();
    for id in &event.tasks {
        let task = state.known(*id)?;
        if !task.status.is_terminal() {
            return Err(unfit(format!("task {id} is {} and has not ended", task.status)));
        }
        if !seen.insert(*id) {
            return Err(unfit(format!("task {id} is named twice")));
        }
        if let Some(task) = state.waiting_for(*id).next() {
            return Err(unfit(format!("task {} waits for task {id}", task.id)));
        }
    }
    for id in &event.tasks {
        if let Some(task) = state.tasks.remove(*id) {
            state.index.forget(&task);
        }
    }
    Ok(())
}

fn type_paused(state: &mut State, stamp: &Stamp, event: &TypePaused) -> Applied {
    let TypePaused { kind, reason } = event;
    if state.task_type(kind).is_some_and(|known| known.paused.is_some()) {
        return Err(unfit(format!("type {kind} is paused already")));
    }
    let order = Order { by: stamp.by.clone(), at: stamp.wall, reason: reason.clone() };
    state.change_type(kind, |known| known.paused = Some(order));
    Ok(())
}

fn type_resumed(state: &mut State, event: &TypeResumed) -> Applied {
    let TypeResumed { kind } = event;
    if state.task_type(kind).is_none_or(|known| known.paused.is_none()) {
        return Err(unfit(format!("type {kind} is not paused")));
    }
    state.change_type(kind, |known| known.paused = None);
    Ok(())
}

fn type_limited(state: &mut State, stamp: &Stamp, event: &TypeLimited) {
    let TypeLimited { kind, max_running, rate } = event;
    let order = Order { by: stamp.by.clone(), at: stamp.wall, reason: None };
    state.change_type(kind, |known| {
        known.max_running = *max_running;
        known.rate = *rate;
        known.limited = (max_running.is_some() || rate.is_some()).then_some(order);
    });
}

fn edited(state: &mut State, stamp: &Stamp, event: &Edited) -> Applied {
    let Edited { task: id, priority, max_retry, timeout, due, at } = event;
    let task = state.known(*id)?;
    if verdict(task.status, Verb::Edit) != Verdict::Change {
        return Err(unfit(format!("task {id} is {} and cannot be edited", task.status)));
    }
    if max_retry.is_some_and(|max_retry| max_retry < task.retry_count) {
        return Err(unfit(format!("task {id} has failed {} times already", task.retry_count)));
    }
    state.change(*id, stamp, |task| {
        task.priority = priority.unwrap_or(task.priority);
        task.max_retry = max_retry.unwrap_or(task.max_retry);
        if let Some(timeout) = timeout {
            task.timeout = Some(*timeout).filter(|timeout| *timeout != Millis(0));
        }
        if let Some(due) = due {
            task.due = *due;
            task.set_at(*at);
        }
        remark(task, stamp, event.note().into());
    })
}
