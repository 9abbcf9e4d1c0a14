//! Records of alerts as JSON.

use super::{Object, order_object, schedules::jump_object};
use crate::kernel::alerts::{Alert, Alerts, Failure, Known, Told};
use crate::kernel::event::{AlertAcked, AlertCleared, AlertRaised, AlertsTold, Event};
use crate::kernel::ids::LifeTime;
use crate::kernel::status::Reason;
use crate::units::rfc3339;
use serde_json::Value;
use std::collections::VecDeque;

pub(super) fn event_fields(line: Object, event: &Event) -> Object {
    match event {
        Event::AlertRaised(AlertRaised { rule, subject, grade, what }) => line
            .put("rule", rule.word())
            .put("subject", &**subject)
            .put("grade", grade.word())
            .put("what", &**what),
        Event::AlertCleared(AlertCleared { rule, subject }) => {
            line.put("rule", rule.word()).put("subject", &**subject)
        }
        Event::AlertAcked(AlertAcked { alert }) => line.put("alert", *alert),
        Event::AlertsTold(AlertsTold { channel, told }) => {
            line.put("channel", &**channel).list("told", told.iter().map(told_object))
        }
        _ => line,
    }
}

pub(super) fn alerts_fields(line: Object, kept: &Alerts) -> Object {
    let Alerts { last, edition, alerts, channels } = kept;
    line.put("last", *last)
        .put("edition", *edition)
        .list("alerts", alerts.iter().map(alert_object))
        .list("channels", channels.iter().map(known_object))
}

fn alert_object(alert: &Alert) -> Object {
    let Alert { number, rule, subject, grade, since, last, said, count, edition, .. } = alert;
    let Alert { came, came_at, over, over_at, acked, changes, flaps, .. } = alert;
    let Alert { what, failure, reason, step, .. } = alert;
    Object::default()
        .put("number", *number)
        .put("rule", rule.word())
        .put("subject", &**subject)
        .put("grade", grade.word())
        .instant("since", *since)
        .instant("last", *last)
        .put("said", said.0)
        .put("count", *count)
        .put("edition", *edition)
        .put("came", *came)
        .put("came_at", came_at.0)
        .maybe("over", over.map(|over| over.0))
        .maybe("over_at", over_at.map(rfc3339))
        .maybe_object("acked", acked.as_ref().map(order_object))
        .put("changes", lives(changes))
        .maybe("flaps", flaps.map(|flaps| flaps.0))
        .maybe("what", what.as_deref())
        .maybe_object("failure", failure.as_ref().map(failure_object))
        .maybe("reason", reason.map(Reason::word))
        .maybe_object("step", step.as_ref().map(jump_object))
}

fn lives(changes: &VecDeque<LifeTime>) -> Vec<Value> {
    changes.iter().map(|at| Value::from(at.0)).collect()
}

fn failure_object(failure: &Failure) -> Object {
    let Failure { task, kind, status, reason, attempts, retries, error } = failure;
    Object::default()
        .put("task", task.0)
        .put("type", &**kind)
        .put("status", status.word())
        .put("reason", reason.word())
        .put("attempts", *attempts)
        .put("retries", *retries)
        .maybe("error", error.as_deref())
}

fn told_object(told: &Told) -> Object {
    let Told { alert, edition, saying, at } = told;
    Object::default()
        .put("alert", *alert)
        .put("edition", *edition)
        .put("saying", saying.word())
        .put("at", at.0)
}

fn known_object(known: &Known) -> Object {
    let Known { channel, since, sent, told } = known;
    Object::default()
        .put("channel", &**channel)
        .put("since", since.0)
        .put("sent", lives(sent))
        .list("told", told.iter().map(told_object))
}
