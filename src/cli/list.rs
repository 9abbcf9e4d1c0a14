//! `midwatch list`: a page of tasks, newest first.

use super::arguments::task_id;
use super::connection::{get, with_query};
use super::failure::Failure;
use super::paint::status_ink;
use super::session::{Format, Session, View};
use super::table::{Cell, Column, Table};
use super::task_words::{note, tries, when};
use crate::api::TaskList;
use crate::kernel::ids::TaskId;
use crate::kernel::status::Status;
use crate::limits::LIST_PAGE_MAX;
use crate::units;

/// What may be listed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these statuses
    #[arg(long, value_name = "S,…", value_delimiter = ',')]
    status: Vec<Status>,
    /// Only this type
    #[arg(long = "type", value_name = "T")]
    kind: Option<String>,
    /// Only tasks of this schedule
    #[arg(long, value_name = "N")]
    schedule: Option<String>,
    /// Only tasks made since then: 2h, 02:30 or 2026-03-14
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Tasks on the page
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = limit)]
    limit: usize,
    /// Only tasks older than this one: the next page
    #[arg(long, value_name = "ID", value_parser = task_id)]
    after: Option<TaskId>,
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=LIST_PAGE_MAX).contains(limit));
    limit.ok_or_else(|| format!("from 1 to {LIST_PAGE_MAX}"))
}

/// Lists them.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let statuses: Vec<_> = args.status.iter().map(|status| status.word()).collect();
    let since = match &args.since {
        Some(text) if units::parse_duration(text).is_err() => {
            let instant = session.view.zone.parse_past(text, session.view.now);
            Some(units::rfc3339(instant.map_err(|error| Failure::usage(error.to_string()))?))
        }
        span => span.clone(),
    };
    let query = [
        ("status", (!statuses.is_empty()).then(|| statuses.join(","))),
        ("type", args.kind.clone()),
        ("schedule", args.schedule.clone()),
        ("since", since),
        ("limit", Some(args.limit.to_string())),
        ("after", args.after.map(|id| id.to_string())),
    ];
    let list: TaskList = get(session.api, &with_query("/v1/tasks", &query))?;
    match session.format {
        Format::Json => session.json(&list)?,
        Format::Ndjson => list.tasks.iter().try_for_each(|task| session.json(task))?,
        Format::Table => {
            session.show(&render(&list, &session.view))?;
            session.note(&footer(&list, args));
        }
    }
    Ok(0)
}

/// The table.
pub(crate) fn render(list: &TaskList, view: &View) -> String {
    if list.tasks.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        Column::right("ID"),
        Column::left("STATUS"),
        Column::left("TYPE"),
        Column::right("PRI").rank(1),
        Column::right("TRY").rank(2),
        Column::left("NEXT / SINCE").rank(3),
        Column::left("NOTE"),
    ]);
    for task in &list.tasks {
        table.row(vec![
            task.id.to_string().into(),
            Cell::new(task.status.word(), status_ink(task.status)),
            task.kind.as_str().into(),
            task.priority.to_string().into(),
            tries(task).into(),
            when(task, view).into(),
            note(task).into(),
        ]);
    }
    table.render(view.width, view.paint)
}

/// What the page left out, and the command that shows it.
fn footer(list: &TaskList, args: &Args) -> String {
    let shown = units::count(list.tasks.len() as u64);
    let all = units::count(list.total);
    let mut text = match list.total {
        0 => "no tasks yet; submit one: midwatch submit --exec -- echo hello".to_owned(),
        _ if list.tasks.is_empty() => format!("none of {all} tasks"),
        1 => format!("{shown} of 1 task"),
        _ => format!("{shown} of {all} tasks"),
    };
    if let Some(next) = list.next {
        text += "; more: midwatch list";
        if !args.status.is_empty() {
            let words: Vec<_> = args.status.iter().map(|status| status.word()).collect();
            text += &format!(" --status {}", words.join(","));
        }
        text += &args.kind.as_ref().map(|kind| format!(" --type {kind}")).unwrap_or_default();
        text +=
            &args.schedule.as_ref().map(|name| format!(" --schedule {name}")).unwrap_or_default();
        text += &args.since.as_ref().map(|since| format!(" --since '{since}'")).unwrap_or_default();
        if args.limit != 50 {
            text += &format!(" --limit {}", args.limit);
        }
        text += &format!(" --after {next}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::TaskView;
    use crate::cli::samples;
    use expect_test::expect;

    #[test]
    fn a_page_of_tasks_fits_eighty_columns() {
        let text = render(&samples::list(), &samples::view(Some(80)));
        assert!(text.lines().all(|line| crate::cli::text::width(line) <= 80));
        expect![[r#"
            screen
                 ID  STATUS    TYPE           PRI  TRY  NEXT / SINCE   NOTE
              88231  RUNNING   render_report   50  1/6  since 2 min    pausing; 6,000 of 10…
              88230  RETRYING  fetch_data     100  3/6  in 1 min 48 s  HTTP 502 from the pr…
              88229  PENDING   fetch_data     100  0/6  now            lost once; again 881…
              88213  DEAD      fetch_data     100  6/6  8 min ago      connection refused
        "#]]
        .assert_eq(&samples::screen(&text));
    }

    #[test]
    fn a_task_that_waits_for_others_says_for_whom() {
        let waiting = |id, of: &[u64]| TaskView {
            waiting_for: Some(of.iter().copied().map(TaskId).collect()),
            next_run_time: None,
            ..samples::task(id, Status::Pending)
        };
        let list = TaskList {
            tasks: vec![waiting(9, &[7]), waiting(8, &[1, 2, 3, 4, 5])],
            ..samples::list()
        };
        expect![[r#"
            screen
              ID  STATUS   TYPE        PRI  TRY  NEXT / SINCE  NOTE
               9  PENDING  fetch_data  100  0/6  not yet       after 7
               8  PENDING  fetch_data  100  0/6  not yet       after 1, 2, 3 and 2 more
        "#]]
        .assert_eq(&samples::screen(&render(&list, &samples::view(Some(80)))));
    }

    #[test]
    fn the_footer_tells_how_to_go_on() {
        let mut list = samples::list();
        let mut args = Args {
            status: vec![Status::Dead, Status::Lost],
            kind: Some("fetch_data".to_owned()),
            schedule: Some("nightly".to_owned()),
            since: Some("2h".to_owned()),
            limit: 4,
            after: None,
        };
        expect!["4 of 1,217 tasks; more: midwatch list --status DEAD,LOST --type fetch_data --schedule nightly --since '2h' --limit 4 --after 88213"].assert_eq(&footer(&list, &args));
        list.next = None;
        args.status.clear();
        expect!["4 of 1,217 tasks"].assert_eq(&footer(&list, &args));
        list.tasks.clear();
        expect!["none of 1,217 tasks"].assert_eq(&footer(&list, &args));
    }
}
