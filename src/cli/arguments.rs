//! What may be typed.

use super::documents::Shell;
use super::session::Format;
use super::{
    act, config, daemon, demo, doctor, edit, engine, import, list, log, reset, retry, schedule,
    show, states, stats, status, submit,
};
use super::{task, top, types, wait, watch, worker};
use crate::kernel::ids::{Millis, TaskId};
use crate::units::{self, Unreadable};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ColorChoice, Parser, Subcommand};
use std::path::PathBuf;

/// Runs unattended tasks on one machine and loses none of them.
#[derive(Debug, Parser)]
#[command(name = "midwatch", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options that every command takes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Global {
    /// The config file [default: the user's own, then /etc/midwatch/midwatch.toml]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        value_parser = path(), env = "MIDWATCH_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,
    /// Where the daemon keeps its files
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        value_parser = path(), env = "MIDWATCH_DATA_DIR",
        hide_env_values = true
    )]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where the daemon is reached
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        value_parser = path(), env = "MIDWATCH_SOCKET",
        hide_env_values = true
    )]
    pub(crate) socket: Option<PathBuf>,
    /// The form of results
    #[arg(long, global = true, value_enum, default_value_t, hide_possible_values = false)]
    pub(crate) format: Format,
    /// Short for --format json
    #[arg(long, global = true, conflicts_with = "format")]
    pub(crate) json: bool,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
    /// Show times in UTC instead of the local zone
    #[arg(long, global = true)]
    pub(crate) utc: bool,
    /// Show times on the clock instead of how long ago they were
    #[arg(long, global = true)]
    pub(crate) absolute: bool,
    /// Say more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say only results and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything in the foreground: supervisor, engine and workers
    Daemon(daemon::Args),
    /// Run the engine alone, for those who supervise it themselves
    Engine(engine::Args),
    /// Run one worker alone
    Worker(worker::Args),
    /// See a task survive two kills, in under a minute, in a directory that is removed again
    Demo(demo::Args),
    /// Give the daemon a task; prints its id
    #[command(visible_alias = "add")]
    Submit(submit::Args),
    /// Submit many tasks, one JSON object a line
    Import(import::Args),
    /// What runs, waits and has ended
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Everything about one task
    Show(show::Args),
    /// Every transition and attempt of one task
    History(show::Args),
    /// The output of an attempt
    Log(log::Args),
    /// The output of an attempt, as it comes
    #[command(hide = true)]
    Follow(log::Args),
    /// Wait until tasks have ended; exits 0 when all ended well
    Wait(wait::Args),
    /// What happens, as it happens
    Watch(watch::Args),
    /// End tasks for good
    #[command(visible_alias = "kill")]
    Cancel(act::Args),
    /// Set tasks aside, with their checkpoints
    Pause(act::Args),
    /// Let paused tasks run again
    Resume(act::Args),
    /// Run ended tasks again, as new tasks
    Retry(retry::Args),
    /// Let waiting tasks run at once
    RunNow(act::Args),
    /// Stop tasks that are stuck, and start them over
    Reset(reset::Args),
    /// Change tasks that wait: priority, retries, next run, timeout
    Edit(edit::Args),
    /// Whole task types: list, pause, resume, limit
    #[command(subcommand)]
    Type(types::Command),
    /// What runs by the clock: list, show, add, remove, pause, resume, trigger, next
    #[command(subcommand)]
    Schedule(schedule::Command),
    /// Who works, who is silent, and what each holds
    Workers,
    /// Health on one screen; exits 1 when it is not good
    Status(status::Args),
    /// Figures: what was created and ended, how long it waited and ran
    Stats(stats::Args),
    /// All of it on one screen that keeps up, with keys for what must be done
    Top(top::Args),
    /// Which status may follow which, and why
    States(states::Args),
    /// For use inside a handler: checkpoint, progress, result
    #[command(subcommand)]
    Task(task::Command),
    /// Check the host and the setup, or one task that seems stuck, and say what to do
    Doctor(doctor::Args),
    /// Check the config, or show what is in force
    #[command(subcommand)]
    Config(config::Command),
    /// A completion script for your shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// The man page; midwatch man | man -l -
    Man {
        /// The page of one command instead
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
}

/// A path, the empty one too: an empty variable counts as unset, and clap would refuse it.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Reads the id of a task.
pub(crate) fn task_id(text: &str) -> Result<TaskId, &'static str> {
    text.parse().map_err(|_number| "a task's id is a number, as `midwatch list` shows it")
}

/// Reads a duration.
pub(crate) fn duration(text: &str) -> Result<Millis, Unreadable> {
    units::parse_duration(text)
}
