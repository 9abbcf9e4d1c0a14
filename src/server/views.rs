//! The state as clients see it: pure functions of the facts after a turn.
//!
//! What is large (payload, checkpoint, result) leaves the engine's thread as shared text and
//! becomes JSON on the other side, in [`Sketch::finish`].

use crate::api::{
    AttemptView, EventView, HeldView, History, StopOrder, StopWord, TaskView, TransitionView,
    WorkerView,
};
use crate::engine::Recorded;
use crate::kernel::event::{
    Actor, Event, Fired, SchedulePaused, ScheduleRemoved, ScheduleResumed, ScheduleSet, TypeLimited,
};
use crate::kernel::ids::{LifeTime, Millis, Moment, ServiceTime, TaskId, Timestamp, WorkerId};
use crate::kernel::schedule::Scheduled;
use crate::kernel::status::{Reason, Status, Stop};
use crate::kernel::task::{Attempt, Lease, Task, Transition};
use crate::kernel::text::Text;
use crate::kernel::{State, Worker};
use crate::units::{format_duration, rfc3339, span};
use serde_json::value::RawValue;

/// A task view whose large texts are not copied yet.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    view: TaskView,
    payload: Text,
    checkpoint: Option<Text>,
    result: Option<Text>,
}

impl Sketch {
    /// The bytes that are still to be copied.
    pub(crate) fn bytes(&self) -> usize {
        let optional = |text: &Option<Text>| text.as_ref().map_or(0, |text| text.len());
        self.payload.len() + optional(&self.checkpoint) + optional(&self.result)
    }

    /// The view.
    pub(crate) fn finish(self) -> TaskView {
        let Self { mut view, payload, checkpoint, result } = self;
        view.payload = raw(&payload);
        view.checkpoint = checkpoint.as_deref().map(raw);
        view.result = result.as_deref().map(raw);
        view
    }
}

/// JSON text that was checked when it came in.
pub(crate) fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_not_json| RawValue::NULL.to_owned())
}

/// Where an instant of the life clock is, or was, on the wall.
pub(crate) fn wall_of_life(at: LifeTime, now: Moment) -> Timestamp {
    let ahead = at.since(now.life);
    Timestamp(now.wall.after(ahead).0.saturating_sub(now.life.since(at).0))
}

/// Where an instant of the service clock will be on the wall, if the engine serves until then.
fn wall_of_service(at: ServiceTime, now: Moment) -> Timestamp {
    let ahead = at.since(now.service);
    Timestamp(now.wall.after(ahead).0.saturating_sub(now.service.since(at).0))
}

/// When a task was or is due, on the wall.
pub(crate) fn due(task: &Task, now: Moment) -> Timestamp {
    task.at().unwrap_or_else(|| wall_of_life(task.due, now))
}

/// The key that a task's handler may tell repetitions by: its own, or that of the planned time that
/// it was made for. It rests on nothing but the task, so all its attempts find the same.
pub(crate) fn key(task: &Task) -> Option<String> {
    let of_its_schedule = |scheduled: &Scheduled| match scheduled.manual {
        None => format!("schedule:{}:{}", scheduled.schedule, rfc3339(scheduled.planned)),
        Some(_) => format!("schedule:{}:{}", scheduled.schedule, task.id),
    };
    task.key().map(Text::to_string).or_else(|| task.scheduled().map(of_its_schedule))
}

/// Who made a task.
fn author(task: &Task) -> String {
    match task.scheduled() {
        None => task.submitter().to_string(),
        Some(Scheduled { schedule, manual: None, .. }) => format!("schedule {schedule}"),
        Some(Scheduled { schedule, manual: Some(by), .. }) => {
            format!("schedule {schedule}, triggered by {by}")
        }
    }
}

/// The time that a task was made for: the planned one, or else when it was due.
pub(crate) fn scheduled_for(task: &Task, now: Moment) -> Timestamp {
    task.scheduled().map_or_else(|| due(task, now), |scheduled| scheduled.planned)
}

/// A task.
pub(crate) fn task(task: &Task, now: Moment) -> Sketch {
    let life = task.life.as_deref();
    let lease = task.lease();
    let open = task.open();
    let open = open.iter().copied().filter(|_| !task.status.is_terminal()).collect::<Vec<_>>();
    let may_run = task.status.is_waiting() && open.is_empty();
    let ends = lease.map(|lease| lease.ends).filter(|ends| *ends != ServiceTime(0));
    let view = TaskView {
        id: task.id,
        kind: task.kind.to_string(),
        payload: RawValue::NULL.to_owned(),
        status: task.status,
        priority: task.priority,
        next_run_time: may_run.then(|| rfc3339(due(task, now))),
        retry_count: task.retry_count,
        max_retry: task.max_retry,
        lost_count: task.lost_count,
        checkpoint: None,
        executor_id: lease.map(|lease| lease.worker),
        lease_expire_time: ends.map(|ends| rfc3339(wall_of_service(ends, now))),
        created_at: rfc3339(task.created),
        updated_at: rfc3339(task.updated),
        status_since: rfc3339(task.status_since()),
        key: key(task),
        timeout: task.timeout.map(format_duration),
        result: None,
        error: life.and_then(|life| life.error.as_ref()).map(Text::to_string),
        retry_of: task.retry_of(),
        schedule: task.scheduled().map(|scheduled| scheduled.schedule.to_string()),
        after: task.after().map(|after| after.tasks.clone()),
        after_any: task.after().map(|after| after.any),
        waiting_for: Some(open).filter(|open| !open.is_empty()),
        stop_requested: task.stop(),
        progress: life.and_then(|life| life.progress.clone()),
        usage: task.usage(),
    };
    Sketch {
        view,
        payload: task.payload.clone(),
        checkpoint: task.checkpoint().map(|checkpoint| checkpoint.data.clone()),
        result: life.and_then(|life| life.result.clone()),
    }
}

/// A task whole, for who reads it from the files: `now` is the moment of the state.
pub fn task_view(of: &Task, now: Moment) -> TaskView {
    task(of, now).finish()
}

/// The life of a task whole, as [`task_view`].
pub fn history_view(of: &Task, now: Moment) -> History {
    let (sketch, history) = history(of, now);
    History { task: sketch.finish(), ..history }
}

/// A worker, as [`task_view`]; for how long it had been silent is in no file.
pub fn worker_view(state: &State, of: &Worker) -> WorkerView {
    worker(state, of, Millis(0))
}

/// The life of a task, its own view still a sketch.
pub(crate) fn history(of: &Task, now: Moment) -> (Sketch, History) {
    let life = of.life.as_deref();
    let created = TransitionView {
        at: rfc3339(of.created),
        seq: of.born,
        from: None,
        to: Status::Pending,
        reason: Some(Reason::Created),
        by: author(of),
        note: None,
    };
    let later = life.iter().flat_map(|life| life.transitions.iter()).map(transition);
    let sketch = task(of, now);
    let history = History {
        task: sketch.view.clone(),
        transitions: std::iter::once(created).chain(later).collect(),
        transitions_dropped: life.map_or(0, |life| life.transitions.dropped),
        attempts: life
            .iter()
            .flat_map(|life| life.attempts.iter())
            .map(|one| attempt(of, one))
            .collect(),
    };
    (sketch, history)
}

fn transition(line: &Transition) -> TransitionView {
    let wait = line.wait.map(|wait| format!("next run in {}", span(wait)));
    // The wait first: it is what a narrow screen must not cut.
    let parts = [wait, line.note.as_ref().map(Text::to_string)];
    let note = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    TransitionView {
        at: rfc3339(line.at),
        seq: line.seq,
        from: Some(line.from),
        to: line.to,
        reason: line.reason,
        by: line.by.to_string(),
        note: Some(note).filter(|note| !note.is_empty()),
    }
}

fn attempt(task: &Task, attempt: &Attempt) -> AttemptView {
    let lease = task.lease().filter(|lease| lease.fence == attempt.fence);
    let end = attempt.end.as_ref();
    AttemptView {
        attempt: attempt.number,
        fence: attempt.fence,
        executor_id: attempt.worker,
        leased_at: rfc3339(attempt.leased),
        started_at: attempt.started.map(rfc3339),
        ended_at: end.map(|end| rfc3339(end.at)),
        wait_ms: attempt.waited,
        outcome: end.map(|end| end.outcome),
        exit_code: end.and_then(|end| end.exit_code),
        signal: end.and_then(|end| end.signal),
        error: end.and_then(|end| end.error.as_ref()).map(Text::to_string),
        usage: end.and_then(|end| end.usage),
        log: log_path(task.id, attempt.number),
        log_bytes: None,
        process: lease.and_then(|lease| lease.process.clone()),
    }
}

/// The log of an attempt, below the data directory.
pub(crate) fn log_path(task: TaskId, attempt: u32) -> String {
    format!("logs/{task}/{attempt}.log")
}

/// What a worker must stop, as far as people asked for it.
pub(crate) fn orders(state: &State, worker: WorkerId) -> Vec<StopOrder> {
    let held = state.held(worker).filter_map(|task| Some((task, task.lease()?)));
    held.filter_map(|(task, lease)| {
        let stop = stop_word(task.stop()?);
        Some(StopOrder { task: task.id, fence: lease.fence, stop })
    })
    .collect()
}

/// The stop as the executor is told it.
pub(crate) const fn stop_word(stop: Stop) -> StopWord {
    match stop {
        Stop::Cancel => StopWord::Cancel,
        Stop::Pause => StopWord::Pause,
        Stop::Reset => StopWord::Shutdown,
    }
}

/// A worker.
pub(crate) fn worker(state: &State, worker: &Worker, silent: Millis) -> WorkerView {
    let said = &worker.registration;
    let held = state.held(worker.id).filter_map(|task| Some((task, task.lease()?)));
    WorkerView {
        id: worker.id,
        name: said.name.to_string(),
        status: worker.standing.word().to_owned(),
        pid: said.process.pid,
        host: said.host.to_string(),
        version: said.version.to_string(),
        types: said.kinds.iter().map(Text::to_string).collect(),
        slots: said.slots,
        silent_ms: silent,
        holds: held.map(|(task, lease)| holds(task, lease)).collect(),
    }
}

fn holds(task: &Task, lease: &Lease) -> HeldView {
    HeldView {
        task: task.id,
        kind: task.kind.to_string(),
        fence: lease.fence,
        since: rfc3339(task.attempt(lease.fence).map_or(task.updated, |attempt| attempt.leased)),
        progress: task.life.as_ref().and_then(|life| life.progress.clone()),
    }
}

/// An event of the stream.
pub(crate) fn event(recorded: &Recorded) -> EventView {
    let Recorded { stamp, event, kind, from, to } = recorded;
    let changed = from != to;
    EventView {
        seq: stamp.seq,
        at: rfc3339(stamp.wall),
        event: event.word().to_owned(),
        task: event.task(),
        kind: kind.as_ref().map(Text::to_string),
        from: from.filter(|_| changed),
        to: to.filter(|_| changed),
        reason: reason(event),
        by: match &stamp.by {
            Actor::Daemon => "daemon".to_owned(),
            by => by.to_string(),
        },
        note: note(event),
    }
}

fn reason(event: &Event) -> Option<Reason> {
    match event {
        Event::Submitted(_) => Some(Reason::Created),
        Event::Leased(_) => Some(Reason::Dispatched),
        Event::Ended(ended) => Some(ended.reason),
        Event::Moved(moved) => Some(moved.reason),
        Event::WorkerMoved(moved) => moved.reason,
        Event::Fired(fired) => fired.task.as_ref().map(|_| Reason::Created),
        Event::ClockStepped(_)
        | Event::ScheduleSet(_)
        | Event::ScheduleRemoved(_)
        | Event::SchedulePaused(_)
        | Event::ScheduleResumed(_)
        | Event::Released(_)
        | Event::Heard(_)
        | Event::Checkpointed(_)
        | Event::StopRequested(_)
        | Event::TypePaused(_)
        | Event::TypeResumed(_)
        | Event::TypeLimited(_)
        | Event::Edited(_)
        | Event::Hurried(_)
        | Event::WorkerJoined(_)
        | Event::WorkerChanged(_)
        | Event::Refused(_)
        | Event::Started(_)
        | Event::Forgotten(_) => None,
    }
}

fn note(event: &Event) -> Option<String> {
    let wait = |wait: Option<Millis>| wait.map(|wait| format!("next run in {}", span(wait)));
    match event {
        Event::Submitted(submitted) => {
            submitted.spec.retry_of.map(|old| format!("runs task {old} again"))
        }
        Event::Leased(leased) => {
            let turn = if leased.promoted == Some(true) { ", out of turn" } else { "" };
            Some(format!("worker {}, token {}{turn}", leased.worker, leased.fence))
        }
        Event::Ended(ended) => {
            let error = ended.error.as_ref().map(Text::to_string);
            let parts: Vec<_> = [error, wait(ended.wait)].into_iter().flatten().collect();
            (!parts.is_empty()).then(|| parts.join("; "))
        }
        Event::Moved(moved) => {
            moved.error.as_ref().map_or_else(|| wait(moved.wait), |error| Some(error.to_string()))
        }
        Event::ClockStepped(stepped) => {
            Some(format!("from {} to {}", rfc3339(stepped.from), rfc3339(stepped.to)))
        }
        Event::ScheduleSet(ScheduleSet { name, .. })
        | Event::ScheduleRemoved(ScheduleRemoved { name })
        | Event::SchedulePaused(SchedulePaused { name, .. })
        | Event::ScheduleResumed(ScheduleResumed { name, .. }) => Some(format!("schedule {name}")),
        Event::Fired(fired) => Some(passings(fired)),
        Event::Released(released) => Some(format!("task {} ended", released.of)),
        Event::StopRequested(asked) => Some(asked.stop.word().to_owned()),
        Event::WorkerJoined(joined) => {
            Some(format!("worker {} ({})", joined.worker, joined.registration.name))
        }
        Event::WorkerMoved(moved) => {
            Some(format!("worker {} is {}", moved.worker, moved.to.word()))
        }
        Event::WorkerChanged(changed) => Some(format!("worker {}", changed.worker)),
        Event::Heard(heard) => Some(format!("worker {}", heard.worker)),
        Event::Refused(refused) => Some(refused.note()),
        Event::Started(started) => Some(format!("version {}", started.version)),
        Event::Forgotten(forgotten) => {
            let plural = if forgotten.tasks.len() == 1 { "task" } else { "tasks" };
            Some(format!("{} ended {plural}", forgotten.tasks.len()))
        }
        Event::TypePaused(paused) => paused.reason.as_ref().map(Text::to_string),
        Event::TypeLimited(limited) => Some(bounds(limited)),
        Event::Edited(edited) => Some(edited.note()),
        Event::Checkpointed(_) | Event::Hurried(_) | Event::TypeResumed(_) => None,
    }
}

/// What became of the planned times of a schedule, in words.
fn passings(fired: &Fired) -> String {
    let Fired { schedule, passed, .. } = fired;
    let parts = passed.iter().map(|passed| {
        let (word, first, last) = (passed.passing.word(), passed.first, passed.last);
        match passed.count {
            1 => format!("{word} {}", rfc3339(first)),
            count => format!("{word} {count} from {} to {}", rfc3339(first), rfc3339(last)),
        }
    });
    let parts: Vec<_> = parts.collect();
    let what = if parts.is_empty() { "triggered".to_owned() } else { parts.join(", ") };
    format!("schedule {schedule}: {what}")
}

/// The bounds that were set for a type, in words.
fn bounds(limited: &TypeLimited) -> String {
    let TypeLimited { kind: _, max_running, rate } = limited;
    let max_running = match max_running {
        None => "config".to_owned(),
        Some(0) => "none".to_owned(),
        Some(max) => max.to_string(),
    };
    let rate = match rate {
        None => "config".to_owned(),
        Some(rate) if rate.count == 0 => "none".to_owned(),
        Some(rate) => rate.to_string(),
    };
    format!("max_running {max_running}, rate {rate}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::event::Stamp;
    use crate::kernel::ids::Seq;
    use crate::kernel::rules::Rules;
    use crate::kernel::task::TaskSpec;
    use crate::kernel::verdict::Verb;
    use crate::kernel::{Answer, Command, apply, decide};

    const NOW: Moment = Moment {
        wall: Timestamp(1_700_000_000_000),
        life: LifeTime(500_000),
        service: ServiceTime(400_000),
        dice: 7,
        doubtful: false,
    };

    /// Carries commands out on an empty state; the events in the order they happened.
    fn after(commands: &[Command]) -> (State, Vec<Recorded>, Vec<Answer>) {
        let (mut state, mut events, mut answers) = (State::default(), Vec::new(), Vec::new());
        state.skip_to(Seq(1));
        for command in commands {
            let decision = decide(&state, &Rules::default(), command, NOW).unwrap();
            answers.push(decision.answer);
            for event in decision.events {
                let by = command.speaker().unwrap_or(Actor::User(1000));
                let (seq, wall) = (state.next_seq(), NOW.wall);
                let stamp = Stamp { seq, wall, life: NOW.life, service: NOW.service, by };
                let task = event.task();
                let status =
                    |state: &State| task.and_then(|id| state.task(id)).map(|task| task.status);
                let from = status(&state);
                apply(&mut state, &stamp, &event).unwrap();
                let (kind, to) = (Some("fetch_data".into()), status(&state));
                events.push(Recorded { stamp, event, kind, from, to });
            }
        }
        (state, events, answers)
    }

    fn submit(change: impl FnOnce(&mut TaskSpec)) -> Command {
        let mut spec = TaskSpec::new("fetch_data", r#"{"page":7}"#);
        change(&mut spec);
        Command::Submit(spec)
    }

    fn first(state: &State) -> &Task {
        state.tasks().next().unwrap()
    }

    #[test]
    fn a_waiting_task_says_when_it_runs_and_a_paused_one_does_not() {
        let (state, ..) = after(&[submit(|spec| spec.delay = Some(Millis::secs(90)))]);
        let later =
            Moment { wall: NOW.wall.after(Millis(5)), life: NOW.life.after(Millis(5)), ..NOW };
        for now in [NOW, later] {
            let view = task(first(&state), now).finish();
            assert_eq!(view.next_run_time.as_deref(), Some("2023-11-14T22:14:50.000Z"));
        }
        let view = task(first(&state), NOW).finish();
        assert_eq!(view.payload.get(), r#"{"page":7}"#);
        assert_eq!(view.created_at, "2023-11-14T22:13:20.000Z");
        let id = first(&state).id;
        let pause = Command::Act { task: id, verb: Verb::Pause, max_retry: None, fresh: false };
        let (state, ..) = after(&[submit(|_| ()), pause]);
        assert_eq!(task(first(&state), NOW).finish().next_run_time, None);
    }

    #[test]
    fn a_wall_time_is_shown_as_it_was_asked_for_whatever_the_clocks_do() {
        let at = Timestamp(1_700_000_600_000);
        let (state, ..) = after(&[submit(|spec| spec.at = Some(at))]);
        let stepped = Moment { wall: Timestamp(NOW.wall.0 - 3_600_000), ..NOW };
        let view = task(first(&state), stepped).finish();
        assert_eq!(view.next_run_time.as_deref(), Some("2023-11-14T22:23:20.000Z"));
    }

    #[test]
    fn history_begins_with_the_submission_and_names_who_acted() {
        let (state, events, answers) = after(&[submit(|_| ())]);
        let Answer::Submitted { task: id, .. } = answers[0] else { panic!("{answers:?}") };
        let act = |verb| Command::Act { task: id, verb, max_retry: None, fresh: false };
        let (paused, ..) = after(&[submit(|_| ()), act(Verb::Pause), act(Verb::Cancel)]);
        let (_, history) = history(first(&paused), NOW);
        let lines = history.transitions.iter();
        let lines: Vec<_> = lines.map(|line| (line.from, line.to, line.by.as_str())).collect();
        assert_eq!(
            lines,
            [
                (None, Status::Pending, "uid 1000"),
                (Some(Status::Pending), Status::Paused, "uid 1000"),
                (Some(Status::Paused), Status::Cancelled, "uid 1000"),
            ]
        );
        let told = event(&events[0]);
        assert_eq!((told.event.as_str(), told.reason), ("submitted", Some(Reason::Created)));
        assert_eq!((told.from, told.to), (None, Some(Status::Pending)));
        assert!(orders(&state, WorkerId(1)).is_empty());
    }

    #[test]
    fn a_stop_is_told_in_the_executors_words() {
        assert_eq!(stop_word(Stop::Cancel), StopWord::Cancel);
        assert_eq!(stop_word(Stop::Pause), StopWord::Pause);
        assert_eq!(stop_word(Stop::Reset), StopWord::Shutdown);
    }
}
