//! `state`: everything that was known at one sequence or time that is still held.

use super::failure::{DONE, Failure};
use super::place::Store;
use super::verify::things;
use midwatch::api::TaskView;
use midwatch::cli::screens::Screen;
use midwatch::engine::check::{First, base, load};
use midwatch::engine::codec::{self, Kept};
use midwatch::engine::dump::kept_json;
use midwatch::engine::{Rebuild, Rebuilding as _, digest};
use midwatch::journal::{
    Header, JournalError, Place, RealDisk, Record, Report, Visitor, replay, scan,
};
use midwatch::kernel::ids::{Moment, Seq, TaskId, Timestamp};
use midwatch::kernel::status::Status;
use midwatch::kernel::task_type::TaskType;
use midwatch::kernel::{State, Worker};
use midwatch::server::{history_view, task_view, worker_view};
use midwatch::units::{Zone, count, parse_duration, rfc3339};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::str::FromStr;

/// How often a state is looked for again while a running daemon removes what it begins from.
const TRIES: u32 = 5;
/// The code for what is not there, or no longer.
const NOT_HELD: u8 = 3;

/// The point that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// After the record with this sequence.
    Seq(u64),
    /// After the last record whose wall clock is not later.
    Time(Timestamp),
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(seq) = text.parse() {
            return Ok(Self::Seq(seq));
        }
        let now = midwatch::clock::wall();
        let ago = text.strip_suffix(" ago").and_then(|span| parse_duration(span.trim()).ok());
        if let Some(ago) = ago {
            return Ok(Self::Time(Timestamp(now.0.saturating_sub(ago.0))));
        }
        let parsed = Zone::Local.parse_past(text, now);
        parsed
            .map(Self::Time)
            .map_err(|error| format!("no sequence number, no `2h ago`, and {error}"))
    }
}

/// What is wanted of the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) at: Option<At>,
    pub(crate) task: Option<TaskId>,
    pub(crate) limit: usize,
    pub(crate) json: bool,
}

/// Shows the state; the exit code.
pub(crate) fn run(store: &Store, wanted: Wanted, out: &mut impl Write) -> Result<u8, Failure> {
    let Wanted { at, task, limit, json } = wanted;
    let state = rebuild(store, at)?;
    let shown = Shown { state: &state, now: moment(&state) };
    match task {
        Some(id) => shown.one(id, json, out),
        None if json => shown.json(out).map(|()| DONE).map_err(Failure::from),
        None => shown.print(limit, out).map(|()| DONE).map_err(Failure::from),
    }
}

/// The clocks at the state's last record.
fn moment(state: &State) -> Moment {
    let head = state.head();
    Moment { wall: head.wall, life: head.life, service: head.service, dice: 0, doubtful: false }
}

fn rebuild(store: &Store, at: Option<At>) -> Result<State, Failure> {
    let mut tries = TRIES;
    loop {
        let held = store.read(|disk| Held::of(disk, at)).map_err(|error| store.refusal(&error))?;
        store.check_there(&held.report)?;
        let upto = held.find(at)?;
        tries -= 1;
        let mut rebuild = Rebuild::default();
        match replay(&store.disk, upto, &mut rebuild) {
            Ok(_) => return Ok(rebuild.finish()),
            Err(error) if tries == 0 => return Err(store.refusal(&error)),
            // A running daemon may have removed it meanwhile; what is damaged stays so.
            Err(_) => {}
        }
    }
}

/// Which states the files still give.
struct Held {
    report: Report,
    /// The oldest one.
    earliest: Point,
    /// The newest one.
    last: Point,
    /// The newest one that is not later than the time that is asked for.
    before: Option<u64>,
}

/// A sequence and the wall clock of its record; none where no record is.
#[derive(Clone, Copy, Default)]
struct Point {
    seq: u64,
    wall: Option<Timestamp>,
}

impl Held {
    fn of(disk: &RealDisk, at: Option<At>) -> Result<Self, JournalError> {
        let mut first = First::default();
        let report = scan(disk, &mut first)?;
        let earliest = match base(&report, first.number) {
            Some(seq) => Point { seq, wall: Some(load(disk, seq)?.head().wall) },
            None => Point { seq: 1, wall: None },
        };
        let until = match at {
            Some(At::Time(until)) => Some(until),
            Some(At::Seq(_)) | None => None,
        };
        let before = earliest.wall.zip(until).filter(|(wall, until)| wall <= until);
        let before = before.map(|_| earliest.seq);
        let mut times = Times { earliest, last: earliest, until, before };
        let report = scan(disk, &mut times)?;
        let Times { earliest, last, before, .. } = times;
        Ok(Self { report, earliest, last, before })
    }

    /// The sequence up to which a replay gives what is asked for.
    fn find(&self, at: Option<At>) -> Result<u64, Failure> {
        let Self { report, earliest, last, before } = self;
        if report.next_seq <= 1 {
            return Err(Failure::new(NOT_HELD, "the journal holds no record yet"));
        }
        let end = report.next_seq - 1;
        match at {
            None => Ok(end),
            Some(At::Seq(seq)) if (earliest.seq..=end).contains(&seq) => Ok(seq),
            Some(At::Seq(seq)) if end < seq => {
                Err(Failure::new(NOT_HELD, format!("there is no record {seq} yet"))
                    .with_help(format!("the last one is {}", last.words())))
            }
            Some(At::Seq(seq)) => Err(self.gone(&format!("the state at sequence {seq}"))),
            Some(At::Time(until)) => before.ok_or_else(|| {
                self.gone(&format!("the state at {}", Zone::Local.date_time(until)))
            }),
        }
    }

    fn gone(&self, what: &str) -> Failure {
        Failure::new(NOT_HELD, format!("{what} is not held any more"))
            .with_help(format!("the earliest one is {}", self.earliest.words()))
    }
}

impl Point {
    fn words(self) -> String {
        let at = self.wall.map(|wall| format!(", {}", Zone::Local.date_time(wall)));
        format!("sequence {}{}", self.seq, at.unwrap_or_default())
    }
}

/// Finds the records that bound the states, and the one at a time.
struct Times {
    earliest: Point,
    last: Point,
    until: Option<Timestamp>,
    before: Option<u64>,
}

impl Visitor for Times {
    fn segment(&mut self, _file: &str, _header: &Header) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, place: Place<'_>, record: Record<'_>) -> Result<(), String> {
        // What cannot be read has no time; the replay will say what is wrong with it.
        let decoded = codec::decode(Seq(place.seq), record.kind, record.body);
        let Ok((stamp, _)) = decoded else { return Ok(()) };
        if place.seq < self.earliest.seq {
            return Ok(());
        }
        let point = Point { seq: place.seq, wall: Some(stamp.wall) };
        if self.earliest.wall.is_none() {
            self.earliest = point;
        }
        self.last = point;
        if self.until.is_some_and(|until| stamp.wall <= until) {
            self.before = Some(place.seq);
        }
        Ok(())
    }
}

/// A state and its moment.
struct Shown<'s> {
    state: &'s State,
    now: Moment,
}

impl Shown<'_> {
    fn one(&self, id: TaskId, as_json: bool, out: &mut impl Write) -> Result<u8, Failure> {
        let seq = self.state.head().seq;
        let Some(task) = self.state.task(id) else {
            return Err(Failure::new(NOT_HELD, format!("there is no task {id} at sequence {seq}")));
        };
        let history = history_view(task, self.now);
        if as_json {
            writeln!(out, "{}", serde_json::to_string(&history).map_err(io::Error::from)?)?;
        } else {
            writeln!(out, "{}", self.headline())?;
            write!(out, "{}", self.screen().history(&history))?;
        }
        Ok(DONE)
    }

    /// One document, task by task: a million of them never stand in memory as text.
    fn json(&self, out: &mut impl Write) -> io::Result<()> {
        let head = self.state.head();
        let digest = digest(&self.state.image());
        let (seq, time) = (head.seq, rfc3339(head.wall));
        write!(out, r#"{{"seq":{seq},"time":"{time}","digest":"{digest}","tasks":["#)?;
        for (index, task) in self.state.tasks().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}{}", serde_json::to_string(&task_view(task, self.now))?)?;
        }
        let workers: Vec<_> = self.state.workers().map(|worker| self.worker(worker)).collect();
        let types: Vec<_> = self.state.task_types().map(|known| self.task_type(known)).collect();
        writeln!(out, r#"],"workers":{},"types":{}}}"#, Value::from(workers), Value::from(types))
    }

    /// A worker; when it was last heard of is in no record.
    fn worker(&self, worker: &Worker) -> Value {
        let mut view = json!(worker_view(self.state, worker));
        if let Some(view) = view.as_object_mut() {
            view.insert("silent_ms".to_owned(), Value::Null);
        }
        view
    }

    /// A task type of which more is known than its tasks.
    fn task_type(&self, known: &TaskType) -> Value {
        let line = kept_json(self.state.head().seq, &Kept::Type(known.clone()));
        let mut view: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(view) = view.as_object_mut() {
            view.retain(|key, _| !["seq", "event"].contains(&key.as_str()));
        }
        view
    }

    fn headline(&self) -> String {
        let head = self.state.head();
        format!("state at sequence {}, {}", head.seq, Zone::Local.date_time(head.wall))
    }

    fn screen(&self) -> Screen {
        Screen::at(self.now.wall, Zone::Local)
    }

    fn print(&self, limit: usize, out: &mut impl Write) -> io::Result<()> {
        let all = self.state.task_count();
        writeln!(out, "{}", self.headline())?;
        writeln!(out, "  tasks      {}", by_status(self.state))?;
        writeln!(out, "  workers    {}", things(self.state.workers().count() as u64, "worker"))?;
        for worker in self.state.workers() {
            let view = worker_view(self.state, worker);
            let (holds, pid) = (view.holds.len(), view.pid);
            let (id, name, slots, status) = (view.id, view.name, view.slots, view.status);
            let busy = format!("{holds} of {slots} slots");
            writeln!(out, "             {id} {name}, {status}, pid {pid}, {busy}")?;
        }
        for known in self.state.task_types() {
            let paused = if known.paused.is_some() { "paused" } else { "not paused" };
            let set = [
                known.max_running.map(|max| format!("max_running {max}")),
                known.rate.map(|rate| format!("rate {rate}")),
            ];
            let set: Vec<String> = set.into_iter().flatten().collect();
            let set = if set.is_empty() { String::new() } else { format!(", {}", set.join(", ")) };
            writeln!(out, "  type       {}, {paused}{set}", known.kind)?;
        }
        writeln!(out, "  digest     {}", digest(&self.state.image()))?;
        let tasks = self.state.tasks().rev().take(limit);
        let tasks: Vec<TaskView> = tasks.map(|task| task_view(task, self.now)).collect();
        let shown = tasks.len();
        if shown != 0 {
            write!(out, "\n{}", self.screen().tasks(tasks))?;
        }
        if shown < all {
            let (shown, all) = (count(shown as u64), things(all as u64, "task"));
            writeln!(out, "{shown} of {all}; more with --limit N, one in full with --task ID")?;
        }
        Ok(())
    }
}

/// `4 tasks: 1 LOST, 3 SUCCESS`.
pub(crate) fn by_status(state: &State) -> String {
    let counts = statuses(state).into_iter();
    let words: Vec<_> =
        counts.map(|(status, number)| format!("{} {status}", count(number))).collect();
    let all = things(state.task_count() as u64, "task");
    if words.is_empty() { all } else { format!("{all}: {}", words.join(", ")) }
}

/// The statuses that tasks have, and how many.
pub(crate) fn statuses(state: &State) -> Vec<(Status, u64)> {
    let number = |status: &Status| state.with_status(*status).count() as u64;
    let counts = Status::ALL.iter().map(|status| (*status, number(status)));
    counts.filter(|(_, number)| *number != 0).collect()
}
