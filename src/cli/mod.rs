//! The command line: arguments become requests, answers become text, refusals become exit codes.
//!
//! Results go to stdout, everything else to stderr. What a command prints is made by functions
//! from the API's shapes, the time and the width to text, so that a test can hold every screen.
//! This floor decides nothing about tasks and keeps nothing; it opens no file of a running
//! daemon, and reads the environment once ([`environment`]).

mod act;
mod arguments;
mod config;
mod connection;
mod crontab;
mod daemon;
mod demo;
mod doctor;
pub mod documents;
mod edit;
mod engine;
mod environment;
mod failure;
mod history;
mod import;
mod list;
mod log;
mod logging;
mod paint;
mod patience;
mod payload;
mod reset;
mod retry;
mod schedule;
pub mod screens;
mod session;
mod show;
mod socket;
mod states;
mod stats;
mod status;
mod submit;
mod table;
mod task;
mod task_words;
mod text;
mod top;
mod types;
mod wait;
mod watch;
mod worker;
mod workers;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use crate::config::{Named, Origin, Place};
use arguments::{Cli, Command, Global};
use clap::parser::ValueSource;
use clap::{ArgMatches, ColorChoice, CommandFactory, FromArgMatches};
use environment::Environment;
use failure::Failure;
use paint::Paint;
use session::{Format, Session, View};
use socket::Warn;
use std::ffi::OsString;
use std::io::{self, BufReader, IsTerminal};
use std::path::PathBuf;

/// What is said to somebody who types no command.
const WELCOME: &str = "\
midwatch runs unattended tasks on this machine and loses none of them.

  midwatch demo                       see a task survive two kills, in a minute
  midwatch daemon                     start it, here in the foreground
  midwatch submit --exec -- CMD ARG   give it a command to run
  midwatch list                       what runs, what waits, what failed
  midwatch status                     how it is

Every command: midwatch --help
";

/// How it ended: the exit code, and what is still to be said on stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code.
    pub code: u8,
    /// What to print on stderr; often nothing.
    pub said: String,
}

/// Does what the arguments ask, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Ended {
    let environment = Environment::read();
    let (matches, cli) = match parse(arguments) {
        Ok(parsed) => parsed,
        // clap knows the stream and the colours; a reader that has gone is no reason to complain.
        Err(error) => {
            drop(error.print());
            return Ended {
                code: u8::try_from(error.exit_code()).unwrap_or(2),
                said: String::new(),
            };
        }
    };
    let named = named(&cli.global, &matches);
    // Not locked: a daemon's other threads log to stderr, and would wait for ever.
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let colour = |terminal: bool| wants_colour(cli.global.color, &environment, terminal);
    let err_colour = colour(err.is_terminal());
    let warn = if cli.global.quiet { Warn::Never } else { Warn::Stderr(Paint(err_colour)) };
    let api = socket::Daemon::new(named.clone(), environment.surroundings.clone(), warn);
    let mut session = Session {
        api: &api,
        view: View {
            now: crate::clock::wall(),
            zone: zone(&cli.global),
            width: screen_width(&environment),
            paint: Paint(colour(out.is_terminal())),
            absolute: cli.global.absolute,
        },
        format: format(&cli.global),
        quiet: cli.global.quiet,
        verbose: cli.global.verbose,
        patience: patience::PATIENCE,
        named: &named,
        environment: &environment,
        lively: err.is_terminal(),
        input: Box::new(BufReader::new(io::stdin())),
        err_paint: Paint(err_colour),
        out: &mut out,
        err: &mut err,
    };
    let executed = execute(&cli, &mut session);
    logging::end();
    ended(executed, err_colour)
}

fn ended(result: Result<u8, Failure>, colour: bool) -> Ended {
    match result {
        Ok(code) => Ended { code, said: String::new() },
        Err(failure) => Ended { code: failure.code(), said: failure.render(colour) },
    }
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<(ArgMatches, Cli), clap::Error> {
    let matches = Cli::command().try_get_matches_from(arguments)?;
    let cli = Cli::from_arg_matches(&matches)?;
    Ok((matches, cli))
}

fn zone(global: &Global) -> crate::units::Zone {
    if global.utc { crate::units::Zone::Utc } else { crate::units::Zone::Local }
}

fn format(global: &Global) -> Format {
    if global.json { Format::Json } else { global.format }
}

/// The places that were named, each by its flag or else by its variable.
fn named(global: &Global, matches: &ArgMatches) -> Named {
    let place = |id, flag, variable, path: &Option<PathBuf>| {
        let path = path.clone()?;
        let origin = match matches.value_source(id) {
            Some(ValueSource::EnvVariable) if path.as_os_str().is_empty() => return None,
            Some(ValueSource::EnvVariable) => Origin::Environment(variable),
            _ => Origin::Flag(flag),
        };
        Some(Place { path, origin })
    };
    Named {
        config: place("config", "--config", "MIDWATCH_CONFIG", &global.config),
        data_dir: place("data_dir", "--data-dir", "MIDWATCH_DATA_DIR", &global.data_dir),
        socket: place("socket", "--socket", "MIDWATCH_SOCKET", &global.socket),
    }
}

fn wants_colour(choice: ColorChoice, environment: &Environment, terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => terminal && !environment.no_colour,
    }
}

/// The width of the terminal; none where the output goes elsewhere and nobody set `COLUMNS`.
fn screen_width(environment: &Environment) -> Option<usize> {
    let terminal = || rustix::termios::tcgetwinsize(io::stdout()).ok();
    let columns = || terminal().map(|size| usize::from(size.ws_col)).filter(|columns| 0 < *columns);
    environment.columns.or_else(columns)
}

/// Does what was asked, and returns the exit code.
fn execute(cli: &Cli, session: &mut Session<'_>) -> Result<u8, Failure> {
    let Some(command) = &cli.command else {
        session.print(WELCOME)?;
        return Ok(failure::exit::DONE);
    };
    match command {
        Command::Daemon(args) => daemon::run(args, session),
        Command::Engine(args) => engine::run(args, session),
        Command::Worker(args) => worker::run(args, session),
        Command::Demo(args) => demo::run(args, session),
        Command::Submit(args) => submit::run(args, session),
        Command::Import(args) => import::run(args, session),
        Command::List(args) => list::run(args, session),
        Command::Show(args) => show::run(args, session),
        Command::History(args) => show::run_history(args, session),
        Command::Log(args) => log::run(args, false, session),
        Command::Follow(args) => log::run(args, true, session),
        Command::Wait(args) => Ok(wait::run(args, session)),
        Command::Watch(args) => watch::run(args, session),
        Command::Cancel(args) => act::run(args, "cancel", session),
        Command::Pause(args) => act::run(args, "pause", session),
        Command::Resume(args) => act::run(args, "resume", session),
        Command::RunNow(args) => act::run(args, "run-now", session),
        Command::Retry(args) => retry::run(args, session),
        Command::Reset(args) => reset::run(args, session),
        Command::Edit(args) => edit::run(args, session),
        Command::Type(command) => types::run(command, session),
        Command::Schedule(command) => schedule::run(command, session),
        Command::Workers => workers::run(session),
        Command::Status(args) => status::run(args, session),
        Command::Stats(args) => stats::run(args, session),
        Command::Top(args) => top::run(args, session),
        Command::States(args) => states::run(args, session),
        Command::Task(command) => task::run(command, session),
        Command::Config(command) => config::run(command, session),
        Command::Doctor(args) => doctor::run(args, session),
        Command::Completions { shell } => {
            session.print(&documents::completions(Cli::command(), *shell))?;
            Ok(failure::exit::DONE)
        }
        Command::Man { command } => man(command.as_deref(), session),
    }
}

fn man(command: Option<&str>, session: &mut Session<'_>) -> Result<u8, Failure> {
    match documents::man(Cli::command(), command)? {
        Some(page) => session.print(&page).map(|()| failure::exit::DONE),
        None => Err(Failure::usage("there is no such command; `midwatch --help` lists them")),
    }
}
