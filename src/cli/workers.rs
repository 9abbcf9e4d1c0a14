//! `midwatch workers`: who works, who is silent, and what each holds.

use super::connection::get;
use super::failure::Failure;
use super::paint::Ink;
use super::session::{Format, Session, View};
use super::table::{Cell, Column, Table};
use super::task_words::progress;
use crate::api::{HeldView, WorkerView, Workers};
use crate::units;

/// Lists them.
pub(crate) fn run(session: &mut Session<'_>) -> Result<u8, Failure> {
    let workers: Workers = get(session.api, "/v1/workers")?;
    match session.format {
        Format::Json => session.json(&workers)?,
        Format::Ndjson => workers.workers.iter().try_for_each(|worker| session.json(worker))?,
        Format::Table if workers.workers.is_empty() => {
            session.note("no worker; `midwatch daemon` starts some, `midwatch worker` one");
        }
        Format::Table => session.show(&render(&workers, &session.view))?,
    }
    Ok(0)
}

/// The table.
pub(crate) fn render(workers: &Workers, view: &View) -> String {
    let mut table = Table::new(&[
        Column::right("ID"),
        Column::left("NAME"),
        Column::left("STATUS"),
        Column::right("PID").rank(1),
        Column::right("BUSY"),
        Column::left("HEARD").rank(2),
        Column::left("HOLDS"),
    ]);
    for worker in &workers.workers {
        row(worker, view, &mut table);
    }
    table.render(view.width, view.paint)
}

fn row(worker: &WorkerView, view: &View, table: &mut Table) {
    let ink = match worker.status.as_str() {
        "alive" => Ink::Plain,
        "suspect" => Ink::Yellow,
        _ => Ink::Red,
    };
    let mut holds = worker.holds.iter().map(|held| holding(held, view));
    table.row(vec![
        worker.id.to_string().into(),
        worker.name.as_str().into(),
        Cell::new(&worker.status, ink),
        worker.pid.to_string().into(),
        format!("{} of {}", worker.holds.len(), worker.slots).into(),
        format!("{} ago", units::rough_span(worker.silent_ms)).into(),
        holds.next().unwrap_or_default().into(),
    ]);
    for held in holds {
        let mut cells: Vec<Cell> = std::iter::repeat_n(Cell::from(""), 6).collect();
        cells.push(held.into());
        table.row(cells);
    }
}

fn holding(held: &HeldView, view: &View) -> String {
    let mut text = format!("{} {}, {}", held.task, held.kind, view.since(&held.since));
    if let Some(told) = &held.progress {
        text += &format!(", {}", progress(told));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Progress;
    use crate::cli::samples;
    use crate::kernel::ids::{Fence, Millis, TaskId, WorkerId};
    use expect_test::expect;

    #[test]
    fn each_worker_shows_what_it_holds() {
        let held = |task, progress| HeldView {
            task: TaskId(task),
            kind: "render_report".to_owned(),
            fence: Fence(9),
            since: "2026-03-14T02:38:00Z".to_owned(),
            progress,
        };
        let worker = |id, status: &str, silent, holds| WorkerView {
            id: WorkerId(id),
            name: format!("w{id}"),
            status: status.to_owned(),
            pid: 4242,
            host: "relay-7".to_owned(),
            version: "0.1.0".to_owned(),
            types: vec!["render_report".to_owned()],
            slots: 2,
            silent_ms: Millis(silent),
            holds,
        };
        let progress = Progress { done: 6000, total: Some(10_000), note: None };
        let busy = vec![held(88231, Some(progress)), held(88232, None)];
        let workers = vec![worker(1, "alive", 2_000, busy), worker(2, "suspect", 95_000, vec![])];
        let text = render(&Workers { workers }, &samples::view(Some(80)));
        assert!(text.lines().all(|line| crate::cli::text::width(line) <= 80));
        expect![[r#"
            screen
              ID  NAME  STATUS    PID    BUSY  HEARD      HOLDS
               1  w1    alive    4242  2 of 2  2 s ago    88231 render_report, since 2 min,…
                                                          88232 render_report, since 2 min
               2  w2    suspect  4242  0 of 2  1 min ago
        "#]]
        .assert_eq(&samples::screen(&text));
    }
}
