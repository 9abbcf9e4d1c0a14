//! `midwatch watch`: what happens, as it happens.

use super::arguments::task_id;
use super::connection::{get, lost, stream, with_query};
use super::failure::{Failure, exit};
use super::paint::status_ink;
use super::session::{Format, Session, View};
use super::text::{cut, tame};
use crate::api::{EventView, TaskView};
use crate::kernel::ids::TaskId;
use crate::kernel::status::Status;
use crate::units;
use std::io::{BufRead, Read};

/// What to watch.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this task, until it has ended
    #[arg(value_name = "ID", value_parser = task_id)]
    id: Option<TaskId>,
}

/// Longest line of the stream.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Prints events until the daemon goes, or the one task has ended.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    if let Some(id) = args.id {
        let task: TaskView = get(session.api, &format!("/v1/tasks/{id}"))?;
        if task.status.is_terminal() {
            session.note(&format!("task {id} has ended: it is {}", task.status));
            return Ok(exit::DONE);
        }
    }
    let task = || ("task", args.id.map(|id| id.to_string()));
    let mut events = stream(session.api, &with_query("/v1/events", &[task()]))?;
    let mut name = String::new();
    let mut line = Vec::new();
    let mut data = String::new();
    loop {
        line.clear();
        let read = (&mut *events).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|error| lost(&error))? == 0 {
            return Err(Failure::new(exit::UNREACHABLE, "the daemon went away")
                .with_help("watch again with the same command"));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if let Some(part) = text.strip_prefix("data:") {
            data.push_str(part.strip_prefix(' ').unwrap_or(part));
        } else if let Some(part) = text.strip_prefix("event:") {
            part.trim().clone_into(&mut name);
        } else if text.is_empty() && !data.is_empty() {
            let data = std::mem::take(&mut data);
            match aside(&std::mem::take(&mut name), &data, session)? {
                Aside::No => {}
                Aside::Told => continue,
                Aside::Again(from) => {
                    let from = ("from", Some(from.to_string()));
                    events = stream(session.api, &with_query("/v1/events", &[task(), from]))?;
                    continue;
                }
            }
            let ended = show(&data, session)?;
            if ended && args.id.is_some() {
                return Ok(exit::DONE);
            }
        }
    }
}

/// What the daemon may say about the stream itself.
enum Aside {
    /// It is an event.
    No,
    /// Something that the user has been told.
    Told,
    /// That the reader fell behind, and from where to ask again.
    Again(u64),
}

fn aside(name: &str, data: &str, session: &mut Session<'_>) -> Result<Aside, Failure> {
    let said: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
    let number = |field: &str| said.get(field).and_then(serde_json::Value::as_u64).unwrap_or(0);
    match name {
        "" | "message" => return Ok(Aside::No),
        "slow" => return Ok(Aside::Again(number("from"))),
        "busy" => {
            return Err(Failure::new(exit::REFUSED, "too many watch already")
                .with_help("watch again with the same command when somebody has stopped"));
        }
        "gap" => {
            let oldest = number("oldest");
            session.note(&format!(
                "events before {oldest} are missing here; midwatch-journal dump shows them"
            ));
        }
        _ => {}
    }
    Ok(Aside::Told)
}

/// Prints one event; says whether it ended a task.
fn show(data: &str, session: &mut Session<'_>) -> Result<bool, Failure> {
    let event: EventView = match serde_json::from_str(data) {
        Ok(event) => event,
        Err(error) => {
            session.note(&format!("an event is not understood: {error}"));
            return Ok(false);
        }
    };
    match session.format {
        Format::Json | Format::Ndjson => session.json(&event)?,
        Format::Table => session.print(&format!("{}\n", render(&event, &session.view)))?,
    }
    Ok(event.from != event.to && event.to.is_some_and(Status::is_terminal))
}

/// The line of one event.
pub(crate) fn render(event: &EventView, view: &View) -> String {
    let time = match units::parse_rfc3339(&event.at) {
        Ok(instant) => view.zone.time_millis(instant),
        Err(_) => event.at.clone(),
    };
    let task = event.task.map(|task| task.to_string()).unwrap_or_default();
    let kind = event.kind.as_deref().unwrap_or_default();
    let (change, ink) = match (event.from, event.to) {
        (Some(from), Some(to)) if from != to => (format!("{from} → {to}"), Some(status_ink(to))),
        (None, Some(to)) => (to.to_string(), Some(status_ink(to))),
        _ => (event.event.clone(), None),
    };
    let mut rest = vec![];
    rest.extend(event.reason.map(|reason| reason.word().to_owned()));
    rest.extend(Some(event.by.clone()).filter(|by| !by.is_empty()));
    rest.extend(event.note.clone());
    let (change, rest) = (tame(&change), tame(&rest.join(", ")));
    let before = tame(&format!("{time}  {task:>6}  {kind}"));
    let taken = super::text::width(&before) + 2 + super::text::width(&change) + 2;
    let rest = match view.width {
        Some(width) => cut(&rest, width.saturating_sub(taken)),
        None => rest,
    };
    let change = ink.map_or_else(|| change.clone(), |ink| view.paint.with(ink, &change));
    format!("{before}  {change}  {rest}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use crate::cli::samples;
    use crate::kernel::status::Status;
    use expect_test::expect;

    const EVENTS: &str = ": hello\n\nid: 41\ndata: {\"seq\":41,\"at\":\"2026-03-14T02:10:00.009Z\",\
        \"event\":\"leased\",\"task\":88213,\"type\":\"fetch_data\",\"from\":\"PENDING\",\
        \"to\":\"RUNNING\",\"reason\":\"dispatched\",\"by\":\"worker w2\",\"note\":\"fence 41\"}\n\n\
        id: 42\ndata: {\"seq\":42,\"at\":\"2026-03-14T02:10:01.000Z\",\"event\":\"worker_registered\",\
        \"task\":null,\"type\":null,\"from\":null,\"to\":null,\"reason\":null,\"by\":\"w3\",\
        \"note\":null}\n\ndata: {nonsense}\n\n\
        id: 43\ndata: {\"seq\":43,\"at\":\"2026-03-14T02:10:02.000Z\",\"event\":\"finished\",\
        \"task\":88213,\"type\":\"fetch_data\",\"from\":\"RUNNING\",\"to\":\"SUCCESS\",\
        \"reason\":\"completed\",\"by\":\"worker w2\",\"note\":null}\n\n";

    #[test]
    fn one_task_is_watched_until_its_end() {
        let task = serde_json::to_string(&samples::task(88213, Status::Running)).unwrap();
        let answers =
            [("GET /v1/tasks/88213", task), ("GET /v1/events?task=88213", EVENTS.to_owned())];
        let played = samples::play("watch 88213", &answers);
        assert_eq!(played.code, 0);
        expect![[r#"
            02:10:00.009   88213  fetch_data  PENDING → RUNNING  dispatched, worker w2, fen…
            02:10:01.000  worker_registered  w3
            02:10:02.000   88213  fetch_data  RUNNING → SUCCESS  completed, worker w2
            an event is not understood: key must be a string at line 1 column 2
        "#]]
        .assert_eq(&(played.out + &played.err));
    }

    #[test]
    fn who_fell_behind_goes_on_where_he_was_and_who_finds_no_room_is_told() {
        let slow = format!("{EVENTS}event: slow\ndata: {{\"from\":44}}\n\n");
        let later = "event: gap\ndata: {\"oldest\":45}\n\nevent: busy\ndata: {}\n\n".to_owned();
        let answers = [("GET /v1/events", slow), ("GET /v1/events?from=44", later)];
        let played = samples::play("watch --json", &answers);
        assert_eq!((played.code, played.out.lines().count()), (7, 3), "{}", played.err);
        assert!(played.err.contains("events before 45 are missing here"), "{}", played.err);
        assert!(played.err.contains("too many watch already"), "{}", played.err);
    }

    #[test]
    fn a_task_that_has_ended_is_not_watched() {
        let task = serde_json::to_string(&samples::task(7, Status::Dead)).unwrap();
        let played = samples::play("watch 7", &[("GET /v1/tasks/7", task)]);
        assert_eq!((played.code, &*played.err), (0, "task 7 has ended: it is DEAD\n"));
    }

    #[test]
    fn a_stream_that_ends_by_itself_is_a_daemon_that_went_away() {
        let played = samples::play("watch --json", &[("GET /v1/events", EVENTS.to_owned())]);
        assert_eq!(played.code, 5);
        assert_eq!(played.out.lines().count(), 3);
        assert!(played.out.starts_with("{\"seq\":41,"));
        assert!(played.err.contains("the daemon went away"));
    }
}
