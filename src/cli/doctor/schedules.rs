//! Whether what should run by the clock does.

use super::Patient;
use super::finding::Finding;
use crate::api::ScheduleView;

/// Runs that failed one after another, from which on something must be done.
const FAILURES_MANY: u32 = 3;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let Ok(known) = &patient.schedules else {
        return unasked(patient);
    };
    let mut findings: Vec<_> = known.schedules.iter().filter_map(one).collect();
    findings.extend(known.refused.iter().map(|refused| {
        Finding::problem(
            format!("{} of the config could not be set: {}", refused.name, refused.why),
            "it does not fire",
            &["midwatch schedule list"],
        )
    }));
    if findings.is_empty() {
        findings.push(Finding::ok(match known.schedules.len() {
            0 => "there are none".to_owned(),
            1 => "1, and its next time is planned".to_owned(),
            number => format!("{number}, and their next times are planned"),
        }));
    }
    findings
}

/// Without a daemon only what the config says is known, and that was checked as it was read.
fn unasked(patient: &Patient) -> Vec<Finding> {
    vec![match &patient.config {
        Ok(config) if config.schedules.is_empty() => Finding::ok("there are none in the config"),
        Ok(config) => Finding::ok(format!(
            "{} in the config, with types and times that fit",
            config.schedules.len()
        )),
        Err(_) => Finding::note("not looked at", "the config has to be mended first"),
    }]
}

pub(super) fn one(schedule: &ScheduleView) -> Option<Finding> {
    let name = &schedule.name;
    let show = format!("midwatch schedule show {name}");
    let resume = format!("midwatch schedule resume {name}");
    if let Some(trouble) = &schedule.trouble {
        return Some(Finding::problem(
            format!("{name}: {trouble}"),
            "nothing of it is planned any more",
            &[&show],
        ));
    }
    if let Some(order) = &schedule.paused {
        return Some(Finding::warning(
            format!("{name} is paused by {}", order.by),
            "it does not fire until somebody resumes it",
            &[&resume],
        ));
    }
    if schedule.held {
        let what = format!("{name} waits, for the clock is not believed");
        return Some(Finding::problem(what, "it fires once the clock is right", &["date"]));
    }
    if FAILURES_MANY <= schedule.failures {
        let since = schedule.last_success.as_ref();
        let since = since
            .map_or_else(|| "has never succeeded".to_owned(), |at| format!("last succeeded {at}"));
        return Some(Finding::problem(
            format!("{name} failed {} times in a row, and {since}", schedule.failures),
            "what it is for is not being done",
            &[&show],
        ));
    }
    let over = schedule.next.is_none() && schedule.at.is_none() && !schedule.boot;
    let why = "a run under way may plan it; otherwise its expression has no further time";
    over.then(|| Finding::note(format!("{name} has no next time"), why))
}
