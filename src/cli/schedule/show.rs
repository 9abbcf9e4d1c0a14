//! `midwatch schedule show`: one schedule, and the account of its planned times.

use super::{on_the_clock, path, plan};
use crate::api::{AwayView, DecisionView, PlannedView, ScheduleView};
use crate::cli::connection::get;
use crate::cli::failure::{Failure, exit};
use crate::cli::paint::Ink;
use crate::cli::session::{Format, Session, View};
use crate::cli::show::fact;
use crate::cli::text::{cut, tame, width};
use crate::kernel::ids::{Millis, TaskId, Timestamp};
use crate::units;

/// A decision that comes no later than this after its planned time is on time.
const ON_TIME: Millis = Millis::secs(2);

/// Shows it.
pub(super) fn run(name: &str, session: &mut Session<'_>) -> Result<u8, Failure> {
    let one: ScheduleView = get(session.api, &path(name))?;
    match session.format {
        Format::Json | Format::Ndjson => session.json(&one)?,
        Format::Table => session.show(&render(&one, &session.view))?,
    }
    Ok(exit::DONE)
}

pub(in crate::cli) fn render(one: &ScheduleView, view: &View) -> String {
    let mut text = head(one, view);
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &fact(name, &value, view);
        }
    };
    line("trouble", one.trouble.clone());
    line(
        "paused",
        one.paused.as_ref().map(|order| {
            let why = order.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{} by {}{why}", view.relative(&order.at), order.by)
        }),
    );
    line("next", one.next.as_ref().map(|next| planned(next, view)));
    line("", one.next.as_ref().and_then(|next| next.note.clone()));
    let task = one.last_task.map(|task| format!("task {task}")).unwrap_or_default();
    line("last", one.last.as_ref().map(|last| format!("{}, {task}", planned(last, view))));
    line("", one.last.as_ref().and_then(|last| last.note.clone()));
    line("running", ids(&one.running));
    line("waiting", queued(one));
    line("success", one.last_success.as_ref().map(|at| view.absolute(at)));
    let failed =
        (one.failures != 0).then(|| format!("{} runs since ended otherwise", one.failures));
    line("failures", failed);
    line("policy", Some(policy(one)));
    line("counts", Some(counts(one)));
    line("task", Some(task_words(one)));
    line("payload", Some(one.payload.get().to_owned()).filter(|json| json != "null"));
    line("set", Some(format!("{}, by {}", view.absolute(&one.since), one.by)));
    if !one.recent.is_empty() {
        text += &format!("\n{}", account(one, view));
    }
    let name = tame(&one.name);
    let third = if one.paused.is_some() { "resume" } else { "trigger" };
    text += &format!(
        "\n  midwatch schedule next {name}    midwatch schedule {third} {name}\n  \
         midwatch list --schedule {name}\n"
    );
    text
}

fn head(one: &ScheduleView, view: &View) -> String {
    let (word, ink) = match one {
        ScheduleView { trouble: Some(_), .. } => ("in trouble", Ink::Red),
        ScheduleView { paused: Some(_), .. } => ("paused", Ink::Yellow),
        ScheduleView { held: true, .. } => ("held until the clock can be believed", Ink::Yellow),
        ScheduleView { next: None, at: Some(_), .. } => ("over", Ink::Plain),
        _ => ("on", Ink::Green),
    };
    let name = view.paint.with(Ink::Bold, &format!("schedule {}", tame(&one.name)));
    let zone =
        if one.cron.is_some() { format!("  {}", tame(&one.timezone)) } else { String::new() };
    format!("{name}  {}{zone}  {}\n\n", tame(&plan(one)), view.paint.with(ink, word))
}

/// `Sun 2026-03-15 03:00:00 EDT  (in 22 h)`.
fn planned(planned: &PlannedView, view: &View) -> String {
    format!("{}  ({})", on_the_clock(planned, view), view.relative(&planned.at))
}

fn ids(ids: &[TaskId]) -> Option<String> {
    let text: Vec<_> = ids.iter().map(|id| format!("task {id}")).collect();
    (!text.is_empty()).then(|| text.join(", "))
}

fn queued(one: &ScheduleView) -> Option<String> {
    let first = one.queued.first()?;
    let count = one.queued.len();
    Some(match count {
        1 => format!("the run of {first}, until a running one ends"),
        _ => format!("{count} runs from {first} on, until running ones end"),
    })
}

fn policy(one: &ScheduleView) -> String {
    let missed = if one.coalesce { "one run for all missed" } else { "a run for each missed" };
    let jitter = if one.jitter == "0s" {
        String::new()
    } else {
        format!(", up to {} of jitter", one.jitter)
    };
    let dst = [("gap", &one.dst_gap), ("fold", &one.dst_fold)];
    let dst = dst.iter().filter_map(|(what, word)| Some(format!(", {what} {}", word.as_ref()?)));
    format!(
        "{missed} up to {} late; {} at once, else {}{jitter}{}",
        one.misfire_grace,
        one.max_instances,
        one.overlap,
        dst.collect::<String>()
    )
}

fn counts(one: &ScheduleView) -> String {
    let counts = &one.counts;
    format!(
        "fired {}, coalesced {}, skipped {}, missed {}",
        units::count(counts.fired),
        units::count(counts.coalesced),
        units::count(counts.skipped),
        units::count(counts.missed)
    )
}

fn task_words(one: &ScheduleView) -> String {
    let mut words = format!("{}, priority {}", one.kind, one.priority);
    if let Some(retries) = one.max_retry {
        words += &format!(", {retries} retries");
    }
    if let Some(timeout) = &one.timeout {
        words += &format!(", timeout {timeout}");
    }
    words
}

/// What became of the last planned times, newest first; why, on a line of its own.
fn account(one: &ScheduleView, view: &View) -> String {
    let lines: Vec<_> = one.recent.iter().rev().map(|it| (span(it, view), it)).collect();
    let widest = lines.iter().map(|(span, _)| width(span)).max().unwrap_or(0);
    let fit = |line: String| match view.width {
        Some(columns) => cut(&tame(&line), columns),
        None => tame(&line),
    };
    let mut text =
        format!("  {}\n", view.paint.with(Ink::Bold, "what became of its planned times"));
    for (span, decision) in lines {
        let gap = " ".repeat(widest.saturating_sub(width(&span)));
        text += &format!("{}\n", fit(format!("  {span}{gap}  {}", became(decision))));
        for why in why(decision, one, view) {
            text += &format!("{}\n", fit(format!("      {why}")));
        }
    }
    text
}

/// The planned times of a decision: the first in full, of the last only what differs.
fn span(decision: &DecisionView, view: &View) -> String {
    let (first, last) = (on_the_clock(&decision.first, view), on_the_clock(&decision.last, view));
    if decision.count == 1 {
        return first;
    }
    match (first.rsplit_once(' '), last.rsplit_once(' ')) {
        _ if first.len() != last.len() => format!("{first} to {last}"),
        // `Sun 2026-03-15 03:00:00 EDT` to `05:00:00 EDT`, or in UTC without the day's name.
        (Some((day, _)), Some((other, time))) if day == other => format!("{first} to {time}"),
        (Some((day, _)), Some((other, zone))) => {
            let date = |text: &str| text.rsplit_once(' ').map(|(date, _)| date.to_owned());
            match (date(day), other.rsplit_once(' ')) {
                (Some(date), Some((same, time))) if date == same => {
                    format!("{first} to {time} {zone}")
                }
                _ => format!("{first} to {last}"),
            }
        }
        _ => format!("{first} to {last}"),
    }
}

/// `fired task 7`, `coalesced 3 into task 7`.
fn became(decision: &DecisionView) -> String {
    let more = if decision.more { " and more" } else { "" };
    let count = match decision.count {
        1 => String::new(),
        count => format!(" {}", units::count(count)),
    };
    let task = match (decision.outcome.as_str(), decision.task) {
        ("coalesced", Some(task)) => format!(" into task {task}"),
        ("coalesced", None) => " into a later run".to_owned(),
        ("fired", Some(task)) => format!(" task {task}"),
        _ => String::new(),
    };
    format!("{}{count}{more}{task}", decision.outcome)
}

/// The reasons of a decision that is not what everybody expects.
fn why(decision: &DecisionView, one: &ScheduleView, view: &View) -> Vec<String> {
    let of_itself = match (decision.outcome.as_str(), decision.task) {
        ("skipped", Some(task)) => Some(format!("task {task} was not over")),
        ("skipped", None) => Some("too many waited already".to_owned()),
        ("missed", _) => Some(format!("more than {} ago when it could be run", one.misfire_grace)),
        ("queued", _) => Some("it waits until a run is over".to_owned()),
        ("replaced", _) => Some("a later one took its place".to_owned()),
        _ => None,
    };
    let note = decision.first.note.clone().filter(|_| decision.count == 1);
    let late = late(decision, one.away.as_ref(), view);
    [of_itself, note, late].into_iter().flatten().collect()
}

/// Why a decision came late, where it did: the daemon was away, or was late for another reason.
fn late(decision: &DecisionView, away: Option<&AwayView>, view: &View) -> Option<String> {
    let read = |text: &str| units::parse_rfc3339(text).ok();
    let (first, at) = (read(&decision.first.at)?, read(&decision.at)?);
    let lag = at.since(first);
    if lag <= ON_TIME {
        return None;
    }
    let stretch = away.and_then(|away| Some((read(&away.from)?, read(&away.to)?)));
    let clock = |instant: Timestamp| view.zone.date_time(instant);
    Some(match stretch {
        Some((from, to)) if from <= first && to <= at => {
            let end = if view.zone.date(from) == view.zone.date(to) {
                view.zone.time(to)
            } else {
                clock(to)
            };
            format!("the daemon was away from {} to {end}", clock(from))
        }
        _ => format!("decided {} late, at {}", units::span(lag), clock(at)),
    })
}
