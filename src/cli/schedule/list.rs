//! `midwatch schedule list`.

use super::{on_the_clock, plan};
use crate::api::{ScheduleView, Schedules};
use crate::cli::connection::get;
use crate::cli::failure::{Failure, exit};
use crate::cli::paint::Ink;
use crate::cli::session::{Format, Session, View};
use crate::cli::table::{Cell, Column, Table};

/// Lists them.
pub(super) fn run(session: &mut Session<'_>) -> Result<u8, Failure> {
    let schedules: Schedules = get(session.api, "/v1/schedules")?;
    match session.format {
        Format::Json => session.json(&schedules)?,
        Format::Ndjson => schedules.schedules.iter().try_for_each(|one| session.json(one))?,
        Format::Table => {
            session.show(&render(&schedules, &session.view))?;
            for refused in &schedules.refused {
                let said = format!("{} is not as the config says: {}", refused.name, refused.why);
                session.complain(&Failure::new(exit::FAILED, said));
            }
            if schedules.schedules.is_empty() && schedules.refused.is_empty() {
                session.note(
                    "no schedules yet; add one: midwatch schedule add NAME --type T --every 5m",
                );
            }
        }
    }
    Ok(exit::DONE)
}

pub(super) fn render(schedules: &Schedules, view: &View) -> String {
    if schedules.schedules.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        Column::left("NAME"),
        Column::left("WHEN"),
        Column::left("TYPE").rank(2),
        Column::left("NEXT").rank(3),
        Column::left("AT").rank(0),
        Column::right("RUNS").rank(1),
        Column::left("NOTE"),
    ]);
    for one in &schedules.schedules {
        let (note, ink) = note(one, view);
        table.row(vec![
            one.name.as_str().into(),
            plan(one).into(),
            one.kind.as_str().into(),
            one.next.as_ref().map(|next| view.relative(&next.at)).unwrap_or_default().into(),
            one.next.as_ref().map(|next| on_the_clock(next, view)).unwrap_or_default().into(),
            one.counts.fired.to_string().into(),
            Cell::new(&note, ink),
        ]);
    }
    table.render(view.width, view.paint)
}

/// What a person should know of it, the most important first.
pub(in crate::cli) fn note(one: &ScheduleView, view: &View) -> (String, Ink) {
    if let Some(trouble) = &one.trouble {
        return (trouble.clone(), Ink::Red);
    }
    if let Some(order) = &one.paused {
        let why = order.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        return (format!("paused {} by {}{why}", view.since(&order.at), order.by), Ink::Yellow);
    }
    if one.held {
        return ("held: the clock cannot be believed".to_owned(), Ink::Yellow);
    }
    if one.failures != 0 {
        return (format!("{} runs failed since the last success", one.failures), Ink::Red);
    }
    if let Some(task) = one.running.first() {
        let more = one.queued.len();
        let queued = if more == 0 { String::new() } else { format!(", {more} wait") };
        return (format!("task {task} runs{queued}"), Ink::Plain);
    }
    let last = one.last_success.as_ref();
    (last.map(|at| format!("ended well {}", view.relative(at))).unwrap_or_default(), Ink::Plain)
}
