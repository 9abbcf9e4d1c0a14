//! `midwatch schedule`: what runs by the clock: what there is, what became of it, and changing it.

mod add;
mod import;
mod list;
mod next;
mod show;

pub(super) use list::note;
pub(super) use show::render;

use super::connection::{delete, escape, get, post};
use super::failure::{Failure, exit};
use super::patience::Patience;
use super::session::{Format, Session, View};
use super::text::tame;
use super::wait;
use crate::api::{PauseScheduleRequest, PlannedView, ScheduleActed, ScheduleView};
use crate::kernel::ids::TaskId;
use crate::units::{self, Zone};
use std::time::Duration;

/// What to do with schedules.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Every schedule: when it runs, what comes next, and how the last run went
    #[command(visible_alias = "ls")]
    List,
    /// Everything about one schedule, with what became of its last planned times and why
    Show {
        /// The schedule
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Make a schedule, beside those of the config
    Add(Box<add::Args>),
    /// Take schedules away that were added; their tasks stay
    #[command(visible_alias = "rm")]
    Remove {
        /// The schedules
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
    /// Let schedules not fire any more, also over restarts of the daemon
    Pause {
        /// The schedules
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Why, for those who find them paused
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Let paused schedules fire again, from now on
    Resume {
        /// The schedules
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
    /// Make a run now, whatever the time is; prints the id of its task
    Trigger {
        /// The schedule
        #[arg(value_name = "NAME")]
        name: String,
        /// Wait for its end, and exit as it ended
        #[arg(long)]
        wait: bool,
    },
    /// What a schedule has planned, in the time of its zone
    Next(next::Args),
    /// Take over a crontab: each line becomes a schedule
    ImportCrontab(import::Args),
}

/// Does it.
pub(crate) fn run(command: &Command, session: &mut Session<'_>) -> Result<u8, Failure> {
    match command {
        Command::List => list::run(session),
        Command::Show { name } => show::run(name, session),
        Command::Add(args) => add::run(args, session),
        Command::Remove { names } => {
            each(names, "removed", session, |path, session| delete(session.api, path))
        }
        Command::Pause { names, reason } => {
            let request = PauseScheduleRequest { reason: reason.clone() };
            each(names, "paused", session, |path, session| {
                post(session.api, &format!("{path}/pause"), &request)
            })
        }
        Command::Resume { names } => each(names, "resumed", session, |path, session| {
            post(session.api, &format!("{path}/resume"), &serde_json::json!({}))
        }),
        Command::Trigger { name, wait } => trigger(name, *wait, session),
        Command::Next(args) => next::run(args, session),
        Command::ImportCrontab(args) => import::run(args, session),
    }
}

/// The path of a schedule.
pub(super) fn path(name: &str) -> String {
    format!("/v1/schedules/{}", escape(name))
}

/// Does something to each of some schedules. One that is refused stops no other; the worst exit
/// code wins.
fn each(
    names: &[String],
    done: &str,
    session: &mut Session<'_>,
    act: impl Fn(&str, &Session<'_>) -> Result<ScheduleActed, Failure>,
) -> Result<u8, Failure> {
    session.one_by_one(
        names,
        |name, session| act(&path(name), session),
        |_, acted, session| tell(acted, done, session),
    )
}

fn tell(acted: &ScheduleActed, done: &str, session: &mut Session<'_>) -> Result<(), Failure> {
    let already = if acted.changed { "" } else { " already" };
    let next = acted.next.as_ref().map(|next| format!(", next {}", session.view.relative(next)));
    match session.format {
        Format::Json | Format::Ndjson => session.json(acted),
        Format::Table => session.print(&format!(
            "{} {done}{already}{}\n",
            tame(&acted.name),
            next.unwrap_or_default()
        )),
    }
}

fn trigger(name: &str, wait: bool, session: &mut Session<'_>) -> Result<u8, Failure> {
    let path = format!("{}/trigger", path(name));
    let acted: ScheduleActed = post(session.api, &path, &serde_json::json!({}))?;
    match (session.format, acted.task) {
        (Format::Json | Format::Ndjson, _) => session.json(&acted)?,
        (Format::Table, Some(task)) => session.print(&format!("{task}\n"))?,
        (Format::Table, None) => {}
    }
    match acted.task {
        Some(task) if wait => wait::wait_for(task, None, session),
        Some(_) => Ok(exit::DONE),
        None => {
            session.note("the run waits until another one has ended");
            if !wait {
                return Ok(exit::DONE);
            }
            let task = queued_run(name, session)?;
            if session.format == Format::Table {
                session.print(&format!("{task}\n"))?;
            }
            wait::wait_for(task, None, session)
        }
    }
}

/// How often a run that waits is looked for.
const QUEUED_EVERY: Duration = Duration::from_millis(500);

/// The task of the run that was queued last, as soon as there is one.
fn queued_run(name: &str, session: &mut Session<'_>) -> Result<TaskId, Failure> {
    let mut patience = Patience::default();
    let mut ours: Option<String> = None;
    loop {
        let one: ScheduleView = patience.ask(session, |session| get(session.api, &path(name)))?;
        let planned = ours.clone().or_else(|| one.queued.last().cloned());
        let made = one.last.as_ref().filter(|last| {
            // What is not seen to wait was made before it could be.
            planned.as_ref().is_none_or(|planned| last.at == *planned)
        });
        match (planned, made.and(one.last_task)) {
            (Some(planned), _) if one.queued.contains(&planned) => ours = Some(planned),
            (_, Some(task)) => return Ok(task),
            (_, None) => {
                return Err(Failure::new(exit::FAILED, "the run waits no more, and has no task")
                    .with_help(format!("midwatch schedule show {name}")));
            }
        }
        std::thread::park_timeout(QUEUED_EVERY);
    }
}

/// A planned time in the zone of its schedule, or in UTC where that is wanted.
fn on_the_clock(planned: &PlannedView, view: &View) -> String {
    match (view.zone, units::parse_rfc3339(&planned.at)) {
        (Zone::Utc, Ok(at)) => view.zone.date_time(at),
        _ => planned.local.clone(),
    }
}

/// When a schedule fires, as its config would say it.
pub(super) fn plan(schedule: &ScheduleView) -> String {
    let ScheduleView { cron, every, from, at, .. } = schedule;
    if let Some(cron) = cron {
        return cron.clone();
    }
    match (every, at) {
        (Some(every), _) if from.as_deref() == Some("end") => format!("{every} after each end"),
        (Some(every), _) => format!("every {every}"),
        (None, Some(at)) => at.clone(),
        (None, None) => "@reboot".to_owned(),
    }
}

#[cfg(test)]
mod tests;
