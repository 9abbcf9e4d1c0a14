//! Asks the daemon, and does what was asked for: a thread of its own, for an answer may take long.

use super::model::News;
use super::page::{Body, Page, Wanted, log_lines};
use super::screen::Told;
use crate::api::{
    Acted, AlertActed, Alerts, History, ScheduleActed, ScheduleView, Schedules, StatsView,
    StatusView, TaskList, TaskView, TypeActed, TypeView, Types, Workers,
};
use crate::cli::act;
use crate::cli::connection::{Api, get, lost, post, stream};
use crate::cli::failure::Failure;
use crate::cli::text::tame;
use crate::cli::{schedule, types};
use crate::kernel::ids::{Seq, TaskId};
use serde_json::json;
use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// How often the daemon is asked.
const EVERY: Duration = Duration::from_secs(1);

/// Rounds without a new record after which the lists are asked for all the same: progress and
/// figures change without one.
const ROUNDS_MAX: u32 = 5;

/// Rows of a list that are asked for: more than a large screen shows.
const ROWS: usize = 60;

/// Lines of a log that are asked for.
const LOG_LINES: u64 = 2000;

/// Bytes of them that are kept, the last ones.
const LOG_BYTES_MAX: usize = 2 << 20;

/// What the person wants of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Something is to be changed.
    Act(Act),
    /// A page is open, and to be kept up to date.
    Open(Wanted),
    /// It is closed.
    Close,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Ends a task for good.
    Cancel(TaskId),
    /// Runs an ended task again.
    Retry(TaskId),
    /// Lets nothing more of a type start.
    PauseType(String),
    /// Lets it start again.
    ResumeType(String),
    /// Lets a schedule not fire.
    PauseSchedule(String),
    /// Lets it fire again.
    ResumeSchedule(String),
    /// Says that a person knows of an alert.
    Acknowledge(u64),
}

/// Asks for everything. With `known` nothing but the health is asked for while no record came
/// after that one, and there is no news then.
pub(super) fn look(api: &dyn Api, known: Option<Seq>) -> Result<News, Failure> {
    let status = get(api, "/v1/status")?;
    let news = look_on(api, status, known)?;
    news.ok_or_else(|| Failure::new(1, "the daemon told nothing"))
}

fn look_on(api: &dyn Api, status: StatusView, known: Option<Seq>) -> Result<Option<News>, Failure> {
    if known == Some(status.seq) {
        return Ok(None);
    }
    let tasks = |statuses: &str| {
        let path = format!("/v1/tasks?status={statuses}&limit={ROWS}");
        get::<TaskList>(api, &path).map(|list| list.tasks)
    };
    let running = tasks("RUNNING%2CLOST")?;
    // Lists are in the order of ids: many that went well must not hide the few that did not.
    let mut ended: Vec<TaskView> = tasks("SUCCESS%2CCANCELLED")?;
    ended.extend(tasks("FAILED%2CDEAD")?);
    ended.sort_by(|one, other| (&other.status_since, other.id).cmp(&(&one.status_since, one.id)));
    ended.truncate(ROWS);
    let types: Types = get(api, "/v1/types")?;
    let schedules: Schedules = get(api, "/v1/schedules")?;
    let mut schedules = schedules.schedules;
    let next = |one: &ScheduleView| one.next.as_ref().map(|next| next.at.clone());
    schedules.sort_by_cached_key(|one| (next(one).is_none(), next(one)));
    let workers: Workers = get(api, "/v1/workers")?;
    // A daemon of another version may have no figures, and no alerts.
    let stats = get::<StatsView>(api, "/v1/stats?minutes=1").ok();
    let mut alerts = get::<Alerts>(api, "/v1/alerts").map(|all| all.alerts).unwrap_or_default();
    alerts.retain(|alert| alert.over.is_none());
    let (types, workers) = (types.types, workers.workers);
    let at = crate::clock::wall();
    Ok(Some(News { at, status, stats, running, ended, types, schedules, workers, alerts }))
}

/// The thread's own: what it knows, and what it keeps up to date.
#[derive(Debug)]
pub(super) struct Asker {
    to: SyncSender<Told>,
    known: Option<Seq>,
    rounds: u32,
    open: Option<Wanted>,
}

impl Asker {
    /// Nothing newer than `known` has been told so far.
    pub(super) fn new(to: SyncSender<Told>, known: Seq) -> Self {
        Self { to, known: Some(known), rounds: 0, open: None }
    }

    /// Asks and does until nobody listens any more.
    pub(super) fn run(&mut self, api: &dyn Api, orders: &Receiver<Order>) {
        while self.take_turn(api, orders) {}
    }

    /// Waits for an order or a while, and does what is due; false when nobody listens any more.
    pub(super) fn take_turn(&mut self, api: &dyn Api, orders: &Receiver<Order>) -> bool {
        let told = match orders.recv_timeout(EVERY) {
            Ok(Order::Act(act)) => {
                let said = do_it(api, &act).unwrap_or_else(|failure| refused(&failure));
                // What it brought about is worth a look at once.
                self.to.send(Told::Acted(said)).and_then(|()| self.look(api))
            }
            Ok(Order::Open(wanted)) => {
                self.open = Some(wanted);
                self.renew(api)
            }
            Ok(Order::Close) => {
                self.open = None;
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => self.look(api).and_then(|()| self.renew(api)),
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        told.is_ok()
    }

    fn look(&mut self, api: &dyn Api) -> Result<(), std::sync::mpsc::SendError<Told>> {
        self.rounds += 1;
        let known = self.known.filter(|_| self.rounds < ROUNDS_MAX);
        let looked = get(api, "/v1/status").and_then(|status| look_on(api, status, known));
        match looked {
            Ok(None) => Ok(()),
            Ok(Some(news)) => {
                (self.known, self.rounds) = (Some(news.status.seq), 0);
                self.to.send(Told::News(Box::new(news)))
            }
            Err(failure) => {
                // Whoever answers next may be another daemon.
                self.known = None;
                self.to.send(Told::Away(tame(failure.what())))
            }
        }
    }

    fn renew(&self, api: &dyn Api) -> Result<(), std::sync::mpsc::SendError<Told>> {
        let Some(wanted) = &self.open else { return Ok(()) };
        let body = read_page(api, wanted).unwrap_or_else(|failure| Body::Failed(refused(&failure)));
        self.to.send(Told::Page(Box::new(Page::with(wanted.clone(), body))))
    }
}

/// A refusal in a line.
fn refused(failure: &Failure) -> String {
    match failure.help() {
        Some(help) => tame(&format!("{} ({help})", failure.what())),
        None => tame(failure.what()),
    }
}

fn read_page(api: &dyn Api, wanted: &Wanted) -> Result<Body, Failure> {
    Ok(match wanted {
        Wanted::Log(id) => Body::Lines(read_log(api, *id)?),
        Wanted::Task(id) => {
            let history: History = get(api, &format!("/v1/tasks/{id}/history"))?;
            Body::Task(Box::new(history))
        }
        Wanted::Type(name) => {
            let one: TypeView = get(api, &types::path(name))?;
            Body::Type(Box::new(one))
        }
        Wanted::Schedule(name) => Body::Schedule(Box::new(get(api, &schedule::path(name))?)),
        Wanted::Help => Page::new(Wanted::Help).body,
    })
}

/// The end of a log. It is read anew each time: an attempt that follows has a log of its own.
fn read_log(api: &dyn Api, id: TaskId) -> Result<Vec<String>, Failure> {
    let mut log = stream(api, &format!("/v1/tasks/{id}/log?tail={LOG_LINES}"))?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    let mut cut = false;
    loop {
        let count = log.read(&mut piece).map_err(|error| lost(&error))?;
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
        if 2 * LOG_BYTES_MAX < bytes.len() || count == 0 && LOG_BYTES_MAX < bytes.len() {
            bytes.drain(..bytes.len() - LOG_BYTES_MAX);
            cut = true;
        }
        if count == 0 {
            break;
        }
    }
    let mut lines = if bytes.is_empty() { Vec::new() } else { log_lines(&bytes) };
    if cut || LOG_LINES <= lines.len() as u64 {
        lines.insert(0, format!("(the end of it; all of it: midwatch log {id})"));
    }
    if lines.is_empty() {
        lines.push("(nothing was written yet)".to_owned());
    }
    Ok(lines)
}

/// Does it, and tells what came of it.
fn do_it(api: &dyn Api, act: &Act) -> Result<String, Failure> {
    let nothing = json!({});
    let task = |id: &TaskId, verb: &str| -> Result<String, Failure> {
        let acted: Acted = post(api, &format!("/v1/tasks/{id}/{verb}"), &nothing)?;
        Ok(format!("task {}", act::words(*id, &acted)))
    };
    let kind = |name: &str, verb: &str, done: &str| -> Result<String, Failure> {
        let acted: TypeActed = post(api, &format!("{}/{verb}", types::path(name)), &nothing)?;
        Ok(format!("type {} {done}{}", tame(name), already(acted.changed)))
    };
    let plan = |name: &str, verb: &str, done: &str| -> Result<String, Failure> {
        let acted: ScheduleActed =
            post(api, &format!("{}/{verb}", schedule::path(name)), &nothing)?;
        Ok(format!("schedule {} {done}{}", tame(name), already(acted.changed)))
    };
    match act {
        Act::Cancel(id) => task(id, "cancel"),
        Act::Retry(id) => task(id, "retry"),
        Act::PauseType(name) => kind(name, "pause", "paused"),
        Act::ResumeType(name) => kind(name, "resume", "resumed"),
        Act::PauseSchedule(name) => plan(name, "pause", "paused"),
        Act::ResumeSchedule(name) => plan(name, "resume", "resumed"),
        Act::Acknowledge(id) => {
            let acted: AlertActed = post(api, &format!("/v1/alerts/{id}/ack"), &nothing)?;
            Ok(match acted.view.over {
                Some(_) => format!("alert {id} is over; there is nothing to acknowledge"),
                None => format!("alert {id} acknowledged{}", already(acted.changed)),
            })
        }
    }
}

const fn already(changed: bool) -> &'static str {
    if changed { "" } else { " already" }
}
