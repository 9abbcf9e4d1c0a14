//! `midwatch history`: the whole life of a task on one page.

use super::paint::{Ink, Paint};
use super::session::View;
use super::show::{fact, head};
use super::table::{Cell, Column, Table};
use super::text::tame;
use crate::api::{AttemptView, History, TransitionView};
use crate::kernel::status::Reason;
use crate::units;

/// The page.
pub(crate) fn render(history: &History, view: &View) -> String {
    let History { task, transitions, transitions_dropped, attempts } = history;
    let created = view.absolute(&task.created_at);
    let by = transitions.first().filter(|_| task.schedule.is_some());
    let by = by.map(|first| format!(" by {}", tame(&first.by))).unwrap_or_default();
    let mut text = format!("{}  created {created}{by}\n", head(task, view));
    text += &fact("payload", task.payload.get(), view);
    if let Some(checkpoint) = &task.checkpoint {
        text += &fact("checkpoint", checkpoint.get(), view);
    }
    if let Some(result) = &task.result {
        text += &fact("result", result.get(), view);
    }
    text.push('\n');
    text += &life(transitions, *transitions_dropped, view);
    if !attempts.is_empty() {
        text.push('\n');
        text += &executions(attempts, view);
        text += &format!("  midwatch log {0} --attempt N    logs/{0}/N.log\n", task.id);
    }
    text
}

/// The transitions, a line each; a new day gets a line of its own.
fn life(transitions: &[TransitionView], dropped: u64, view: &View) -> String {
    let mut table = Table::new(&[
        Column::left(""),
        Column::left(""),
        Column::left(""),
        Column::left("").rank(1),
        Column::left(""),
    ]);
    let mut day = String::new();
    let mut last_seq = None;
    let gap_at = transitions.len() / 2;
    for (index, transition) in transitions.iter().enumerate() {
        let (date, time) = clock(&transition.at, view);
        if date != day {
            if !day.is_empty() {
                table.row(vec![date.as_str().into(), "".into(), "".into(), "".into(), "".into()]);
            }
            day = date;
        }
        if dropped != 0 && index == gap_at && last_seq.is_some() {
            let left_out = format!("({} more)", units::count(dropped));
            table.row(vec!["…".into(), "".into(), "".into(), "".into(), left_out.into()]);
        }
        last_seq = Some(transition.seq);
        let (from, to) = match transition.from {
            Some(from) if from == transition.to => (from.word(), String::new()),
            Some(from) => (from.word(), format!("→ {}", transition.to)),
            None => (transition.to.word(), String::new()),
        };
        let note = match &transition.note {
            Some(note) if transition.by.is_empty() => note.clone(),
            // Where the screen ends, rather the note is read than its author.
            Some(note) => format!("{note} ({})", transition.by),
            None => transition.by.clone(),
        };
        let reason = transition.reason.map(Reason::word).unwrap_or_default();
        table.row(vec![time.into(), from.into(), to.into(), reason.into(), note.into()]);
    }
    table.render(view.width, view.paint)
}

/// The attempts, a line each.
fn executions(attempts: &[AttemptView], view: &View) -> String {
    let mut table = Table::new(&[
        Column::right("#"),
        Column::left("started"),
        Column::right("ran"),
        Column::right("wait").rank(4),
        Column::left("end"),
        Column::right("exit"),
        Column::right("log").rank(3),
        Column::right("memory").rank(0),
        Column::right("cpu").rank(0),
        Column::left("worker").rank(1),
    ]);
    let none = || "–".to_owned();
    for attempt in attempts {
        let started = attempt.started_at.as_ref().unwrap_or(&attempt.leased_at);
        let end = attempt.outcome.map_or("running", |outcome| outcome.word());
        table.row(vec![
            attempt.attempt.to_string().into(),
            clock(started, view).1.into(),
            ran(attempt, view).into(),
            units::span(attempt.wait_ms).into(),
            Cell::new(end, Ink::Plain),
            exit(attempt).into(),
            attempt.log_bytes.map_or_else(none, units::bytes).into(),
            attempt.usage.map_or_else(none, |used| units::bytes(used.peak_memory)).into(),
            attempt.usage.map_or_else(none, |used| units::span(used.cpu_ms)).into(),
            attempt.executor_id.to_string().into(),
        ]);
    }
    table.render(view.width, Paint(view.paint.0))
}

fn ran(attempt: &AttemptView, view: &View) -> String {
    // An attempt may be over before its start was told; it began right after its lease.
    let ran = attempt.exit_code.is_some() || attempt.signal.is_some();
    let leased = Some(&attempt.leased_at).filter(|_| ran);
    let began = attempt.started_at.as_ref().or(leased);
    let Some(started) = began.and_then(|at| units::parse_rfc3339(at).ok()) else {
        return "–".to_owned();
    };
    let ended = attempt.ended_at.as_ref().and_then(|at| units::parse_rfc3339(at).ok());
    units::span(ended.unwrap_or(view.now).since(started))
}

fn exit(attempt: &AttemptView) -> String {
    match (attempt.exit_code, attempt.signal) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "–".to_owned(),
    }
}

/// Date and time of day; what cannot be read stands as it is.
fn clock(rfc3339: &str, view: &View) -> (String, String) {
    match units::parse_rfc3339(rfc3339) {
        Ok(instant) => (view.zone.date(instant), view.zone.time_millis(instant)),
        Err(_) => (String::new(), rfc3339.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::samples;
    use crate::cli::text::width;
    use expect_test::expect;

    #[test]
    fn the_life_of_a_task_fits_eighty_columns() {
        let text = render(&samples::history(), &samples::view(Some(80)));
        assert!(text.lines().all(|line| width(line) <= 80), "{text}");
        expect![[r#"
            task 88213  fetch_data  RETRYING  created 2026-03-14 02:10:00Z  (29 min ago)
              payload     {"source":"orders","page_size":500}
              checkpoint  {"cursor":"o_99123","rows":41000}

              02:10:00.004  PENDING              created          uid 1000
              02:10:00.009  PENDING  → RUNNING   dispatched       fence 10 (worker 17)
              02:11:00.000  RUNNING                               checkpoint, 41 bytes (wor…
              …                                                   (1,234 more)
              02:14:41.730  RUNNING  → LOST      worker_crash     the kernel released the l…
              02:14:41.731  LOST     → PENDING   lease_revoked    loss 1 of 10, no retry us…
              2026-03-15
              00:19:02.118  RUNNING  → RETRYING  retryable_error  HTTP 502; next in 1 min 1…

              #  started              ran       wait  end            exit      log  worker
              1  02:10:00.020  4 min 41 s       5 ms  lost       signal 9  2.1 MiB  17
              2  02:14:41.800  4 min 20 s       4 ms  retryable        75    812 B  18
              3  02:39:00.000           –  1 min 5 s  running           –        –  18
              midwatch log 88213 --attempt N    logs/88213/N.log
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn a_wider_screen_shows_more() {
        expect![[r#"
            task 88213  fetch_data  RETRYING  created 2026-03-14 02:10:00Z  (29 min ago)
              payload     {"source":"orders","page_size":500}
              checkpoint  {"cursor":"o_99123","rows":41000}

              02:10:00.004  PENDING              created          uid 1000
              02:10:00.009  PENDING  → RUNNING   dispatched       fence 10 (worker 17)
              02:11:00.000  RUNNING                               checkpoint, 41 bytes (worker 17)
              …                                                   (1,234 more)
              02:14:41.730  RUNNING  → LOST      worker_crash     the kernel released the lock of w2 (engine)
              02:14:41.731  LOST     → PENDING   lease_revoked    loss 1 of 10, no retry used (engine)
              2026-03-15
              00:19:02.118  RUNNING  → RETRYING  retryable_error  HTTP 502; next in 1 min 12 s (worker 18)

              #  started              ran       wait  end            exit      log  memory        cpu  worker
              1  02:10:00.020  4 min 41 s       5 ms  lost       signal 9  2.1 MiB       –          –  17
              2  02:14:41.800  4 min 20 s       4 ms  retryable        75    812 B  42 MiB  1 min 1 s  18
              3  02:39:00.000           –  1 min 5 s  running           –        –       –          –  18
              midwatch log 88213 --attempt N    logs/88213/N.log
        "#]].assert_eq(&render(&samples::history(), &samples::view(Some(120))));
    }
}
