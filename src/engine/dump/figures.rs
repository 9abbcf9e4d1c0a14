//! Figures of a snapshot as JSON.

use super::Object;
use crate::kernel::figures::{AllFigures, Histogram, Sums, Tale, Triggers, TypeFigures};
use crate::units::rfc3339;

pub(super) fn all_fields(line: Object, figures: &AllFigures) -> Object {
    let AllFigures {
        base,
        since,
        minutes,
        triggers,
        trigger_quarters,
        wait_urgent,
        wait_ordinary,
        wait_patient,
        wrong_input,
    } = figures;
    line.put("base", *base)
        .put("since", since.0)
        .list("minutes", minutes.iter().map(tale_object))
        .object("triggers", triggers_object(triggers))
        .list("trigger_quarters", trigger_quarters.iter().map(triggers_object))
        .object("wait_urgent", histogram_object(wait_urgent))
        .object("wait_ordinary", histogram_object(wait_ordinary))
        .object("wait_patient", histogram_object(wait_patient))
        .put("wrong_input", *wrong_input)
}

pub(super) fn type_fields(line: Object, figures: &TypeFigures) -> Object {
    let TypeFigures { kind, ever, quarters, last_success, last_failure, failures } = figures;
    line.put("type", &**kind)
        .object("ever", tale_object(ever))
        .list("quarters", quarters.iter().map(tale_object))
        .maybe("last_success", last_success.map(rfc3339))
        .maybe("last_failure", last_failure.map(rfc3339))
        .put("failures", *failures)
}

fn tale_object(tale: &Tale) -> Object {
    let Tale { number, sums, wait, run, most_retries, most_task } = tale;
    Object::default()
        .put("number", *number)
        .object("sums", sums_object(sums))
        .object("wait", histogram_object(wait))
        .object("run", histogram_object(run))
        .put("most_retries", *most_retries)
        .maybe("most_task", most_task.map(|task| task.0))
}

fn sums_object(sums: &Sums) -> Object {
    let Sums { created, succeeded, failed, dead, cancelled, retried, lost, attempts } = sums;
    Object::default()
        .put("created", *created)
        .put("succeeded", *succeeded)
        .put("failed", *failed)
        .put("dead", *dead)
        .put("cancelled", *cancelled)
        .put("retried", *retried)
        .put("lost", *lost)
        .put("attempts", *attempts)
}

fn histogram_object(histogram: &Histogram) -> Object {
    let Histogram { buckets, sum, max } = histogram;
    Object::default().put("buckets", buckets.clone()).put("sum", *sum).put("max", max.0)
}

fn triggers_object(triggers: &Triggers) -> Object {
    let Triggers { number, fired, on_time, without_run, latest } = triggers;
    Object::default()
        .put("number", *number)
        .put("fired", *fired)
        .put("on_time", *on_time)
        .put("without_run", *without_run)
        .put("latest", latest.0)
}
