//! Records of schedules and of the wall clock as JSON.

use super::{Form, Object, order_object, spec_object};
use crate::kernel::event::{
    ClockStepped, Event, Fired, Jump, SchedulePaused, ScheduleRemoved, ScheduleResumed,
    ScheduleSet, Submitted,
};
use crate::kernel::ids::Timestamp;
use crate::kernel::schedule::{
    Counts, Decided, Fold, Gap, Passed, Plan, Schedule, ScheduleSpec, Scheduled,
};
use crate::units::rfc3339;
use serde_json::Value;

pub(super) fn event_fields(line: Object, event: &Event) -> Object {
    let form = line.form;
    match event {
        Event::ClockStepped(ClockStepped { from, to, jump, reopens, first_set }) => line
            .instant("from", *from)
            .instant("to", *to)
            .maybe_object("jump", jump.as_ref().map(jump_object))
            .maybe("reopens", *reopens)
            .maybe("first_set", *first_set),
        Event::ScheduleSet(ScheduleSet { name, spec, origin, next, keeps }) => line
            .put("schedule", &**name)
            .object("spec", schedule_spec_object(form, spec))
            .put("origin", origin.word())
            .maybe("next", next.map(rfc3339))
            .maybe("keeps", *keeps),
        Event::ScheduleRemoved(ScheduleRemoved { name }) => line.put("schedule", &**name),
        Event::SchedulePaused(SchedulePaused { name, reason }) => {
            line.put("schedule", &**name).maybe("reason", reason.as_deref())
        }
        Event::ScheduleResumed(ScheduleResumed { name, next }) => {
            line.put("schedule", &**name).maybe("next", next.map(rfc3339))
        }
        Event::Fired(fired) => fired_fields(line, fired),
        _ => line,
    }
}

fn fired_fields(line: Object, fired: &Fired) -> Object {
    let Fired { schedule, passed, task, next, decided, queued } = fired;
    let form = line.form;
    let task = task.as_ref().map(|submitted| {
        let Submitted { task, spec, due } = submitted;
        let object = Object::of(form).put("task", task.0);
        object.object("spec", spec_object(form, spec)).put("due", due.0)
    });
    let line = line
        .put("schedule", &**schedule)
        .list("passed", passed.iter().map(passed_object))
        .maybe_object("task", task)
        .maybe("next", next.map(rfc3339))
        .instant("decided", *decided);
    match queued {
        Some(queued) => line.list("queued", queued.iter().map(scheduled_object)),
        None => line,
    }
}

pub(super) fn jump_object(jump: &Jump) -> Object {
    let Jump { from, to } = jump;
    Object::default().instant("from", *from).instant("to", *to)
}

fn passed_object(passed: &Passed) -> Object {
    let Passed { first, last, count, passing, task, more } = passed;
    Object::default()
        .instant("first", *first)
        .instant("last", *last)
        .put("count", *count)
        .put("passing", passing.word())
        .maybe("task", task.map(|task| task.0))
        .maybe("more", *more)
}

pub(super) fn scheduled_object(scheduled: &Scheduled) -> Object {
    let Scheduled { schedule, planned, manual } = scheduled;
    Object::default()
        .put("schedule", &**schedule)
        .instant("planned", *planned)
        .maybe("manual", manual.as_ref().map(ToString::to_string))
}

fn schedule_spec_object(form: Form, spec: &ScheduleSpec) -> Object {
    let ScheduleSpec {
        kind,
        payload,
        priority,
        plan,
        zone,
        gap,
        fold,
        jitter,
        misfire_grace,
        coalesce,
        max_instances,
        overlap,
        max_retry,
        timeout,
    } = spec;
    let when = Object::default();
    let plan = match plan {
        Plan::Cron(cron) => when.put("cron", &**cron),
        Plan::Every(span, from) => when.put("every", span.0).put("from", from.word()),
        Plan::Once(at) => when.instant("once", *at),
        Plan::Boot => when.put("boot", true),
    };
    Object::of(form)
        .put("type", &**kind)
        .json("payload", payload)
        .put("priority", *priority)
        .object("plan", plan)
        .put("zone", &**zone)
        .maybe("gap", gap.map(Gap::word))
        .maybe("fold", fold.map(Fold::word))
        .put("jitter", jitter.0)
        .put("misfire_grace", misfire_grace.0)
        .put("coalesce", *coalesce)
        .put("max_instances", *max_instances)
        .put("overlap", overlap.word())
        .maybe("max_retry", *max_retry)
        .maybe("timeout", timeout.map(|timeout| timeout.0))
}

pub(super) fn schedule_fields(line: Object, schedule: &Schedule) -> Object {
    let Schedule {
        name,
        spec,
        origin,
        since,
        by,
        paused,
        next,
        decided,
        look,
        queued,
        ahead,
        last_task,
        last_planned,
        last_success,
        failures,
        counts,
        recent,
    } = schedule;
    let Counts { fired, coalesced, skipped, missed } = counts;
    let counts = Object::default()
        .put("fired", *fired)
        .put("coalesced", *coalesced)
        .put("skipped", *skipped)
        .put("missed", *missed);
    let instant = |at: &Timestamp| Value::from(rfc3339(*at));
    let form = line.form;
    line.put("schedule", &**name)
        .object("spec", schedule_spec_object(form, spec))
        .put("origin", origin.word())
        .instant("since", *since)
        .put("by", by.to_string())
        .maybe_object("paused", paused.as_ref().map(order_object))
        .maybe("next", next.map(rfc3339))
        .instant("decided", *decided)
        .maybe("look", *look)
        .list("queued", queued.iter().map(scheduled_object))
        .put("ahead", ahead.iter().map(instant).collect::<Vec<_>>())
        .maybe("last_task", last_task.map(|task| task.0))
        .maybe("last_planned", last_planned.map(rfc3339))
        .maybe("last_success", last_success.map(rfc3339))
        .put("failures", *failures)
        .object("counts", counts)
        .list("recent", recent.iter().map(decided_object))
}

fn decided_object(decided: &Decided) -> Object {
    let Decided { at, passed } = decided;
    Object::default().instant("at", *at).object("passed", passed_object(passed))
}
