//! `midwatch watch`: what happens, as it happens. A connection that breaks is made anew, and goes
//! on behind the last event that was shown; what could not be shown is told.

use super::arguments::task_id;
use super::connection::{get, lost, stream, with_query};
use super::failure::{Failure, exit};
use super::paint::status_ink;
use super::patience::Patience;
use super::session::{Format, Session, View};
use super::text::{cut, tame};
use crate::api::{EventView, TaskView};
use crate::kernel::ids::{Seq, TaskId};
use crate::kernel::status::Status;
use crate::units;
use serde::Deserialize;
use std::io::{BufRead, Read};

/// What to watch.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this task, until it has ended
    #[arg(value_name = "ID", value_parser = task_id)]
    id: Option<TaskId>,
    /// Begin with this event instead of the next one, as far as the daemon still has it
    #[arg(long, value_name = "SEQ", value_parser = sequence)]
    from: Option<u64>,
}

fn sequence(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_number| "an event is named by its number, the `seq` of `watch --json`")
}

/// Longest line of the stream.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The data of an event that says that some are not there any more.
#[derive(Debug, Deserialize)]
struct Gap {
    /// The oldest event that is.
    oldest: Seq,
}

/// The data of an event that says that this reader fell behind, and is cut off.
#[derive(Debug, Deserialize)]
struct Slow {
    /// The event to go on with.
    from: Seq,
}

/// One entry of the stream.
enum Entry {
    Event(Box<EventView>),
    Gap(Seq),
    Slow(Seq),
    /// Too many watch already.
    Busy,
    /// Not one of ours.
    Unknown(String),
}

/// Where the watcher is.
#[derive(Debug)]
struct Watcher {
    task: Option<TaskId>,
    /// The event that should come next, where that is known.
    next: Option<Seq>,
}

/// Prints events until the one task has ended, or the daemon has been away for too long.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let mut watcher = Watcher { task: args.id, next: args.from.map(Seq) };
    let mut patience = Patience::default();
    let mut before = true;
    loop {
        if watcher.has_ended(&mut patience, session, before)? {
            return Ok(exit::DONE);
        }
        before = false;
        let failure = match watcher.follow(&mut patience, session) {
            Ok(()) => return Ok(exit::DONE),
            Err(failure) => failure,
        };
        patience.bear(failure, session)?;
    }
}

impl Watcher {
    /// Whether the one task has ended; then its end was not to be seen, and is told.
    fn has_ended(
        &self,
        patience: &mut Patience,
        session: &mut Session<'_>,
        before: bool,
    ) -> Result<bool, Failure> {
        let Some(id) = self.task else { return Ok(false) };
        let path = format!("/v1/tasks/{id}");
        let task: TaskView = if before {
            get(session.api, &path)?
        } else {
            patience.ask(session, |session| get(session.api, &path))?
        };
        let ended = task.status.is_terminal();
        if ended {
            let meanwhile = if before { "" } else { " meanwhile" };
            session.note(&format!("task {id} has ended{meanwhile}: it is {}", task.status));
        }
        Ok(ended)
    }

    /// Prints what comes until the one task has ended; that the stream ends is a failure.
    fn follow(
        &mut self,
        patience: &mut Patience,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let query = [
            ("from", self.next.map(|seq| seq.to_string())),
            ("task", self.task.map(|id| id.to_string())),
        ];
        let api = session.api;
        let mut events = stream(api, &with_query("/v1/events", &query))?;
        patience.is_back(session);
        while let Some(entry) = read_entry(&mut *events)? {
            match entry {
                Entry::Event(event) => {
                    self.tell_what_is_missing(event.seq, session);
                    self.next = Some(Seq(event.seq.0.saturating_add(1)));
                    if show(&event, session)? && self.task.is_some() {
                        return Ok(());
                    }
                }
                Entry::Gap(oldest) => {
                    self.tell_what_is_missing(oldest, session);
                    self.next = Some(oldest);
                }
                Entry::Slow(from) => {
                    self.next = Some(from);
                    return Err(behind());
                }
                Entry::Busy => {
                    return Err(Failure::new(exit::REFUSED, "too many watch already")
                        .with_help("watch again with the same command when somebody has stopped"));
                }
                Entry::Unknown(why) => session.note(&format!("an event is not understood: {why}")),
            }
        }
        Err(Failure::new(exit::UNREACHABLE, "the daemon went away")
            .with_help("watch again with the same command"))
    }

    /// Tells of events that lie between what was seen last and what is there now. Of one task the
    /// numbers have gaps of their own.
    fn tell_what_is_missing(&self, there: Seq, session: &mut Session<'_>) {
        let Some(next) = self.next.filter(|next| *next < there) else { return };
        if self.task.is_none() {
            let last = there.0.saturating_sub(1);
            session.say(&format!(
                "events {next} to {last} are not shown: midwatch-journal dump --from {next} --to {last}"
            ));
        }
    }
}

/// The next entry; none at the end of the stream.
fn read_entry(events: &mut dyn BufRead) -> Result<Option<Entry>, Failure> {
    let (mut line, mut data, mut name) = (Vec::new(), String::new(), String::new());
    loop {
        line.clear();
        let read = events.take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|error| lost(&error))? == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        let value = |field: &str| {
            let value = text.strip_prefix(field)?.strip_prefix(':')?;
            Some(value.strip_prefix(' ').unwrap_or(value))
        };
        if let Some(part) = value("data") {
            data.push_str(part);
        } else if let Some(kind) = value("event") {
            kind.clone_into(&mut name);
        } else if text.is_empty() && !data.is_empty() {
            return Ok(Some(entry(&name, &data)));
        }
    }
}

/// Asking again at once is all that is needed.
fn behind() -> Failure {
    Failure::new(exit::UNREACHABLE, "this reader fell behind")
}

fn entry(name: &str, data: &str) -> Entry {
    let read = match name {
        "gap" => serde_json::from_str(data).map(|Gap { oldest }| Entry::Gap(oldest)),
        "slow" => serde_json::from_str(data).map(|Slow { from }| Entry::Slow(from)),
        "busy" => Ok(Entry::Busy),
        _ => serde_json::from_str(data).map(|event| Entry::Event(Box::new(event))),
    };
    read.unwrap_or_else(|error| Entry::Unknown(error.to_string()))
}

/// Prints one event; says whether it ended a task.
fn show(event: &EventView, session: &mut Session<'_>) -> Result<bool, Failure> {
    match session.format {
        Format::Json | Format::Ndjson => session.json(event)?,
        Format::Table => session.show(&format!("{}\n", render(event, &session.view)))?,
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
    use crate::api::{Code, Problem};
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

    /// An event with that number, as the stream has it.
    fn event(seq: u64, to: &str) -> String {
        let event = format!(
            "{{\"seq\":{seq},\"at\":\"2026-03-14T02:10:00.000Z\",\"event\":\"e\",\"task\":7,\
             \"type\":\"t\",\"from\":\"RUNNING\",\"to\":\"{to}\",\"reason\":null,\"by\":\"w\",\
             \"note\":null}}"
        );
        format!("id: {seq}\ndata: {event}\n\n")
    }

    #[test]
    fn a_stream_that_was_cut_goes_on_behind_the_last_event() {
        let refused = Problem::new(Code::NotPermitted, "no");
        let refused = serde_json::to_string(&refused).unwrap();
        let gap = "event: gap\ndata: {\"oldest\":50}\n\n".to_owned();
        let answers = [
            ("GET /v1/events?from=41", event(41, "PENDING") + &event(42, "PENDING")),
            ("GET /v1/events?from=43", event(43, "PENDING")),
            ("GET /v1/events?from=44", gap + &event(50, "PENDING")),
            ("GET /v1/events?from=51", event(53, "PENDING")),
            ("GET /v1/events?from=54", refused),
        ];
        let played = samples::play("watch --from 41 --json", &answers);
        assert_eq!(played.code, 7, "{played}");
        let seqs: Vec<_> = played.out.lines().map(|line| line[7..9].to_owned()).collect();
        assert_eq!(seqs, ["41", "42", "43", "50", "53"], "{played}");
        let told: Vec<_> = played.err.lines().filter(|line| line.contains("not shown")).collect();
        assert_eq!(
            told,
            [
                "events 44 to 49 are not shown: midwatch-journal dump --from 44 --to 49",
                "events 51 to 52 are not shown: midwatch-journal dump --from 51 --to 52",
            ]
        );
        assert_eq!(
            played.err.matches("the daemon went away; waiting for it").count(),
            4,
            "{played}"
        );
        assert_eq!(played.err.matches("the daemon answers again").count(), 3);
    }

    #[test]
    fn a_task_that_ended_while_nobody_could_see_it_is_told() {
        let task = |status| serde_json::to_string(&samples::task(7, status)).unwrap();
        let answers = [
            ("GET /v1/tasks/7", task(Status::Running)),
            ("GET /v1/events?task=7", event(41, "RUNNING")),
            ("GET /v1/tasks/7", task(Status::Running)),
            ("GET /v1/events?from=42&task=7", String::new()),
            ("GET /v1/tasks/7", task(Status::Success)),
        ];
        let played = samples::play("watch 7", &answers);
        assert_eq!(played.code, 0, "{played}");
        assert!(played.err.ends_with("task 7 has ended meanwhile: it is SUCCESS\n"), "{played}");
    }
}
