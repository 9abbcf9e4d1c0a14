//! Records as JSON, one object a record: for people, for other programs, and for the tool.
//!
//! The names are those of `spec/records.md`, the nesting is that of the body. Wall-clock instants
//! are RFC 3339, the other clocks and all spans are milliseconds. What is absent in the record is
//! absent here. Payloads, checkpoints and results are embedded as the JSON they are, digit by
//! digit; but line breaks between their tokens become spaces. Hashes of lease secrets are left out.
//! The exact form keeps both, texts as strings, so that the state can be rebuilt from it.
//!
//! Each function takes its value apart in full, so that a new field stops the build here.

mod alerts;
mod figures;
mod schedules;

use super::codec::Kept;
use super::hex;
use crate::kernel::event::{
    Checkpointed, Edited, Ended, Event, Forgotten, Heard, Held, Hurried, Leased, Moved, Refused,
    Registration, Released, Stamp, Started, StopRequested, Submitted, TypeLimited, TypePaused,
    TypeResumed, WorkerChanged, WorkerJoined, WorkerMoved,
};
use crate::kernel::ids::{ProcessId, Seq, TaskId, Timestamp};
use crate::kernel::status::{Reason, Stop};
use crate::kernel::task::{
    After, Attempt, AttemptEnd, Checkpoint, Extra, Lease, Life, Progress, SecretHash, Task,
    TaskSpec, Transition, Transitions, Usage,
};
use crate::kernel::task_type::{Order, Rate, TaskType};
use crate::kernel::text::Text;
use crate::kernel::{Head, Worker};
use crate::units::rfc3339;
use serde_json::Value;
use serde_json::value::RawValue;

/// How much of a record is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For people and programs: JSON texts embedded, no hash of a secret.
    #[default]
    Readable,
    /// Every byte: JSON texts as strings, hashes of secrets in hex.
    Exact,
}

/// One record of the journal, on one line.
pub fn record_json(stamp: &Stamp, event: &Event) -> String {
    record_line(Form::Readable, stamp, event)
}

/// One record of the journal, on one line, in either form.
pub fn record_line(form: Form, stamp: &Stamp, event: &Event) -> String {
    let Stamp { seq, wall, life, service, by } = stamp;
    let line = Object::of(form)
        .put("seq", seq.0)
        .instant("at", *wall)
        .put("life", life.0)
        .put("service", service.0)
        .put("by", by.to_string())
        .put("event", event.word());
    event_fields(line, event).end()
}

/// One record of the snapshot at `seq`, on one line.
pub fn kept_json(seq: Seq, kept: &Kept) -> String {
    kept_line(Form::Readable, seq, kept)
}

/// One record of the snapshot at `seq`, on one line, in either form.
pub fn kept_line(form: Form, seq: Seq, kept: &Kept) -> String {
    let line = Object::of(form).put("seq", seq.0);
    match kept {
        Kept::Head(head) => head_fields(line.put("event", "snapshot_head"), head),
        Kept::Worker(worker) => worker_fields(line.put("event", "snapshot_worker"), worker),
        Kept::Task(task) => task_fields(line.put("event", "snapshot_task"), task),
        Kept::Type(known) => type_fields(line.put("event", "snapshot_type"), known),
        Kept::Schedule(schedule) => {
            schedules::schedule_fields(line.put("event", "snapshot_schedule"), schedule)
        }
        Kept::Figures(all) => figures::all_fields(line.put("event", "snapshot_figures"), all),
        Kept::TypeFigures(figures) => {
            figures::type_fields(line.put("event", "snapshot_type_figures"), figures)
        }
        Kept::Alerts(kept) => alerts::alerts_fields(line.put("event", "snapshot_alerts"), kept),
    }
    .end()
}

fn event_fields(line: Object, event: &Event) -> Object {
    let form = line.form;
    match event {
        Event::Submitted(Submitted { task, spec, due }) => {
            line.put("task", task.0).object("spec", spec_object(form, spec)).put("due", due.0)
        }
        Event::Leased(Leased { task, fence, worker, ends, secret, rate, promoted }) => line
            .put("task", task.0)
            .put("fence", fence.0)
            .put("worker", worker.0)
            .put("ends", ends.0)
            .secret(secret)
            .maybe_object("rate", rate.map(rate_object))
            .maybe("promoted", *promoted),
        Event::Heard(Heard { worker, holds }) => {
            line.put("worker", worker.0).list("holds", holds.iter().map(held_object))
        }
        Event::Checkpointed(Checkpointed { task, fence, data }) => {
            line.put("task", task.0).put("fence", fence.0).json("data", data)
        }
        Event::Ended(ended) => ended_fields(line, ended),
        Event::Moved(Moved { task, to, reason, wait, error }) => line
            .put("task", task.0)
            .put("to", to.word())
            .put("reason", reason.word())
            .maybe("wait", wait.map(|wait| wait.0))
            .maybe("error", error.as_deref()),
        Event::StopRequested(StopRequested { task, stop, max_retry }) => {
            line.put("task", task.0).put("stop", stop.word()).maybe("max_retry", *max_retry)
        }
        Event::Hurried(Hurried { task }) => line.put("task", task.0),
        Event::WorkerJoined(WorkerJoined { worker, registration }) => {
            line.put("worker", worker.0).object("registration", registration_object(registration))
        }
        Event::WorkerChanged(WorkerChanged { worker, kinds, slots }) => {
            line.put("worker", worker.0).put("types", type_names(kinds)).put("slots", *slots)
        }
        Event::WorkerMoved(WorkerMoved { worker, to, reason }) => line
            .put("worker", worker.0)
            .put("to", to.word())
            .maybe("reason", reason.map(Reason::word)),
        Event::Refused(Refused { task, fence, act }) => {
            line.put("task", task.0).put("fence", fence.0).put("act", act.word())
        }
        Event::Started(started) => started_fields(line, started),
        Event::Forgotten(Forgotten { tasks }) => line.put("tasks", task_ids(tasks)),
        Event::TypePaused(TypePaused { kind, reason }) => {
            line.put("type", &**kind).maybe("reason", reason.as_deref())
        }
        Event::TypeResumed(TypeResumed { kind }) => line.put("type", &**kind),
        Event::TypeLimited(TypeLimited { kind, max_running, rate }) => line
            .put("type", &**kind)
            .maybe("max_running", *max_running)
            .maybe_object("rate", rate.map(rate_object)),
        Event::Edited(edited) => edited_fields(line, edited),
        Event::Released(Released { task, of }) => line.put("task", task.0).put("of", of.0),
        Event::AlertRaised(_)
        | Event::AlertCleared(_)
        | Event::AlertAcked(_)
        | Event::AlertsTold(_) => alerts::event_fields(line, event),
        Event::ClockStepped(_)
        | Event::ScheduleSet(_)
        | Event::ScheduleRemoved(_)
        | Event::SchedulePaused(_)
        | Event::ScheduleResumed(_)
        | Event::Fired(_) => schedules::event_fields(line, event),
    }
}

fn spec_object(form: Form, spec: &TaskSpec) -> Object {
    let TaskSpec {
        kind,
        payload,
        priority,
        max_retry,
        timeout,
        at,
        delay,
        key,
        retry_of,
        checkpoint,
        scheduled,
        after,
    } = spec;
    Object::of(form)
        .put("type", &**kind)
        .json("payload", payload)
        .put("priority", *priority)
        .put("max_retry", *max_retry)
        .maybe("timeout", timeout.map(|timeout| timeout.0))
        .maybe("at", at.map(rfc3339))
        .maybe("delay", delay.map(|delay| delay.0))
        .maybe("key", key.as_deref())
        .maybe("retry_of", retry_of.map(|task| task.0))
        .maybe_json("checkpoint", checkpoint.as_deref())
        .maybe_object("scheduled", scheduled.as_ref().map(schedules::scheduled_object))
        .maybe_object("after", after.as_ref().map(after_object))
}

fn after_object(after: &After) -> Object {
    let After { tasks, any } = after;
    Object::default().put("tasks", task_ids(tasks)).put("any", *any)
}

fn task_ids(tasks: &[TaskId]) -> Vec<Value> {
    tasks.iter().map(|task| Value::from(task.0)).collect()
}

fn held_object(held: &Held) -> Object {
    let Held { task, fence, ends, process, progress } = held;
    Object::default()
        .put("task", task.0)
        .put("fence", fence.0)
        .put("ends", ends.0)
        .maybe_object("process", process.as_ref().map(process_object))
        .maybe_object("progress", progress.as_ref().map(progress_object))
}

fn edited_fields(line: Object, edited: &Edited) -> Object {
    let Edited { task, priority, max_retry, timeout, due, at } = edited;
    line.put("task", task.0)
        .maybe("priority", *priority)
        .maybe("max_retry", *max_retry)
        .maybe("timeout", timeout.map(|timeout| timeout.0))
        .maybe("due", due.map(|due| due.0))
        .maybe("at", at.map(rfc3339))
}

fn ended_fields(line: Object, ended: &Ended) -> Object {
    let Ended { task, fence, outcome, to, reason, wait, exit_code, signal, result, error, .. } =
        ended;
    let Ended { usage, attempt, ran, input, wrong_input, .. } = ended;
    line.put("task", task.0)
        .put("fence", fence.0)
        .put("outcome", outcome.word())
        .put("to", to.word())
        .put("reason", reason.word())
        .maybe("wait", wait.map(|wait| wait.0))
        .maybe("exit_code", *exit_code)
        .maybe("signal", *signal)
        .maybe_json("result", result.as_deref())
        .maybe("error", error.as_deref())
        .maybe_object("usage", usage.as_ref().map(usage_object))
        .maybe("attempt", *attempt)
        .maybe("ran", ran.map(|ran| ran.0))
        .maybe("input", input.map(|input| input.to_string()))
        .maybe("wrong_input", *wrong_input)
}

fn usage_object(usage: &Usage) -> Object {
    let Usage { peak_memory, cpu_ms } = usage;
    Object::default().put("peak_memory", *peak_memory).put("cpu_ms", cpu_ms.0)
}

fn registration_object(registration: &Registration) -> Object {
    let Registration { name, process, host, version, lock, kinds, slots } = registration;
    Object::default()
        .put("name", &**name)
        .object("process", process_object(process))
        .put("host", &**host)
        .put("version", &**version)
        .put("lock", &**lock)
        .put("types", type_names(kinds))
        .put("slots", *slots)
}

fn type_names(kinds: &[Text]) -> Vec<Value> {
    kinds.iter().map(|kind| Value::from(&**kind)).collect()
}

fn started_fields(line: Object, started: &Started) -> Object {
    let Started { version, boot_id, boot_clock, next_task, jump } = started;
    line.put("version", &**version)
        .put("boot_id", &**boot_id)
        .put("boot_clock", boot_clock.0)
        .put("next_task", next_task.0)
        .maybe_object("jump", jump.as_ref().map(schedules::jump_object))
}

fn process_object(process: &ProcessId) -> Object {
    let ProcessId { pid, start_time, boot_id, pid_namespace } = process;
    Object::default()
        .put("pid", *pid)
        .put("start_time", *start_time)
        .put("boot_id", &**boot_id)
        .put("pid_namespace", *pid_namespace)
}

fn progress_object(progress: &Progress) -> Object {
    let Progress { done, total, note } = progress;
    Object::default().put("done", *done).maybe("total", *total).maybe("note", note.as_deref())
}

fn head_fields(line: Object, head: &Head) -> Object {
    let Head {
        seq,
        wall,
        life,
        service,
        next_task,
        started,
        started_life,
        jump,
        steps,
        last_step,
        since_promotion,
    } = head;
    let started = started.as_ref().map(|started| started_fields(Object::default(), started));
    line.put("last_seq", seq.0)
        .instant("wall", *wall)
        .put("life", life.0)
        .put("service", service.0)
        .put("next_task", next_task.0)
        .maybe_object("started", started)
        .put("started_life", started_life.0)
        .maybe_object("jump", jump.as_ref().map(schedules::jump_object))
        .maybe("steps", *steps)
        .maybe_object("last_step", last_step.as_ref().map(schedules::jump_object))
        .maybe("since_promotion", *since_promotion)
}

fn worker_fields(line: Object, worker: &Worker) -> Object {
    let Worker { id, registration, standing, since } = worker;
    line.put("worker", id.0)
        .object("registration", registration_object(registration))
        .put("standing", standing.word())
        .instant("since", *since)
}

fn type_fields(line: Object, known: &TaskType) -> Object {
    let TaskType { kind, paused, max_running, rate, limited, dispatched } = known;
    line.put("type", &**kind)
        .maybe_object("paused", paused.as_ref().map(order_object))
        .maybe("max_running", *max_running)
        .maybe_object("rate", rate.map(rate_object))
        .maybe_object("limited", limited.as_ref().map(order_object))
        .put("dispatched", dispatched.iter().map(|at| Value::from(at.0)).collect::<Vec<_>>())
}

fn order_object(order: &Order) -> Object {
    let Order { by, at, reason } = order;
    let object = Object::default().put("by", by.to_string()).instant("at", *at);
    object.maybe("reason", reason.as_deref())
}

fn rate_object(rate: Rate) -> Object {
    let Rate { count, per } = rate;
    Object::default().put("count", count).put("per", per.word())
}

fn task_fields(line: Object, task: &Task) -> Object {
    let Task {
        id,
        kind,
        payload,
        status,
        priority,
        due,
        retry_count,
        max_retry,
        lost_count,
        timeout,
        created,
        updated,
        born,
        extra,
        life,
    } = task;
    let form = line.form;
    line.put("task", id.0)
        .put("type", &**kind)
        .json("payload", payload)
        .put("status", status.word())
        .put("priority", *priority)
        .put("due", due.0)
        .put("retry_count", *retry_count)
        .put("max_retry", *max_retry)
        .put("lost_count", *lost_count)
        .maybe("timeout", timeout.map(|timeout| timeout.0))
        .instant("created", *created)
        .instant("updated", *updated)
        .put("born", born.0)
        .maybe_object("extra", extra.as_deref().map(extra_object))
        .maybe_object("life", life.as_deref().map(|life| life_object(form, life)))
}

fn extra_object(extra: &Extra) -> Object {
    let Extra { key, retry_of, at, by, scheduled, after, open } = extra;
    Object::default()
        .maybe("key", key.as_deref())
        .maybe("retry_of", retry_of.map(|task| task.0))
        .maybe("at", at.map(rfc3339))
        .maybe("by", by.as_ref().map(ToString::to_string))
        .maybe_object("scheduled", scheduled.as_ref().map(schedules::scheduled_object))
        .maybe_object("after", after.as_ref().map(after_object))
        .maybe("open", open.as_deref().map(task_ids))
}

fn life_object(form: Form, life: &Life) -> Object {
    let Life {
        transitions,
        attempts,
        attempt_count,
        checkpoint,
        result,
        error,
        stop,
        lease,
        progress,
        ended,
    } = life;
    let Transitions { first, last, dropped } = transitions;
    let transitions = Object::default()
        .list("first", first.iter().map(transition_object))
        .list("last", last.iter().map(transition_object))
        .put("dropped", *dropped);
    Object::of(form)
        .object("transitions", transitions)
        .list("attempts", attempts.iter().map(|attempt| attempt_object(form, attempt)))
        .put("attempt_count", *attempt_count)
        .maybe_object("checkpoint", checkpoint.as_ref().map(|kept| checkpoint_object(form, kept)))
        .maybe_json("result", result.as_deref())
        .maybe("error", error.as_deref())
        .maybe("stop", stop.map(Stop::word))
        .maybe_object("lease", lease.as_ref().map(|lease| lease_object(form, lease)))
        .maybe_object("progress", progress.as_ref().map(progress_object))
        .maybe("ended", ended.map(|ended| ended.0))
}

fn checkpoint_object(form: Form, checkpoint: &Checkpoint) -> Object {
    let Checkpoint { data, at, seq } = checkpoint;
    Object::of(form).json("data", data).instant("at", *at).put("seq", seq.0)
}

fn lease_object(form: Form, lease: &Lease) -> Object {
    let Lease { fence, worker, ends, secret, process } = lease;
    Object::of(form)
        .put("fence", fence.0)
        .put("worker", worker.0)
        .put("ends", ends.0)
        .secret(secret)
        .maybe_object("process", process.as_ref().map(process_object))
}

fn transition_object(transition: &Transition) -> Object {
    let Transition { seq, at, from, to, reason, by, wait, note } = transition;
    Object::default()
        .put("seq", seq.0)
        .instant("at", *at)
        .put("from", from.word())
        .put("to", to.word())
        .maybe("reason", reason.map(Reason::word))
        .put("by", by.to_string())
        .maybe("wait", wait.map(|wait| wait.0))
        .maybe("note", note.as_deref())
}

fn attempt_object(form: Form, attempt: &Attempt) -> Object {
    let Attempt { number, fence, worker, worker_name, leased, waited, started, end, secret } =
        attempt;
    Object::of(form)
        .put("number", *number)
        .put("fence", fence.0)
        .put("worker", worker.0)
        .put("worker_name", &**worker_name)
        .instant("leased", *leased)
        .put("waited", waited.0)
        .maybe("started", started.map(rfc3339))
        .maybe_object("end", end.as_ref().map(end_object))
        .secret(secret)
}

fn end_object(end: &AttemptEnd) -> Object {
    let AttemptEnd { outcome, at, status, exit_code, signal, error, usage } = end;
    Object::default()
        .put("outcome", outcome.word())
        .instant("at", *at)
        .put("status", status.word())
        .maybe("exit_code", *exit_code)
        .maybe("signal", *signal)
        .maybe("error", error.as_deref())
        .maybe_object("usage", usage.as_ref().map(usage_object))
}

/// A JSON object that is written field by field, in the order of the calls.
#[derive(Default)]
struct Object {
    text: String,
    form: Form,
}

impl Object {
    fn of(form: Form) -> Self {
        Self { text: String::new(), form }
    }

    fn raw(mut self, key: &str, value: &str) -> Self {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        self.text.push_str(&Value::from(key).to_string());
        self.text.push(':');
        self.text.push_str(value);
        self
    }

    fn put(self, key: &str, value: impl Into<Value>) -> Self {
        self.raw(key, &value.into().to_string())
    }

    fn maybe(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.put(key, value),
            None => self,
        }
    }

    fn instant(self, key: &str, instant: Timestamp) -> Self {
        self.put(key, rfc3339(instant))
    }

    /// A text that is JSON. Line breaks can only stand between its tokens, and would end our own
    /// line. What is no JSON after all is shown as the text it is.
    fn json(self, key: &str, text: &str) -> Self {
        if self.form == Form::Exact {
            return self.put(key, text);
        }
        match serde_json::from_str::<&RawValue>(text) {
            Ok(value) => self.raw(key, &value.get().replace(['\n', '\r'], " ")),
            Err(_) => self.put(key, text),
        }
    }

    fn maybe_json(self, key: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.json(key, text),
            None => self,
        }
    }

    /// The hash of a lease's secret, in the exact form only.
    fn secret(self, secret: &SecretHash) -> Self {
        match self.form {
            Form::Exact => self.put("secret", hex(&secret.0)),
            Form::Readable => self,
        }
    }

    fn object(self, key: &str, object: Self) -> Self {
        self.raw(key, &object.end())
    }

    fn maybe_object(self, key: &str, object: Option<Self>) -> Self {
        match object {
            Some(object) => self.object(key, object),
            None => self,
        }
    }

    fn list(self, key: &str, objects: impl Iterator<Item = Self>) -> Self {
        let objects: Vec<_> = objects.map(Self::end).collect();
        self.raw(key, &format!("[{}]", objects.join(",")))
    }

    fn end(mut self) -> String {
        self.text.push_str(if self.text.is_empty() { "{}" } else { "}" });
        self.text
    }
}
