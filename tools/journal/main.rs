//! The journal tool: looks into the files of a data directory, checks them, prints them.
//!
//! It works on the files alone, beside a running daemon or without one. What is damage is decided by
//! the same code that decides it for the daemon. Only `compact` and `repair` write, under the lock
//! of the directory. One file a command.

mod at;
mod compact;
mod dump;
mod failure;
mod follow;
mod help;
mod inspect;
mod place;
mod repair;
mod state;
mod stats;
mod verify;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use failure::Failure;
use midwatch::cli::documents::{self, Shell};
use midwatch::engine::dump::Form;
use midwatch::kernel::ids::TaskId;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Looks into midwatch's journal, checks it, prints it, and repairs it. Never needs the daemon.
///
/// Every command but compact and repair reads only, and may run beside a daemon.
#[derive(Debug, Parser)]
#[command(name = "midwatch-journal", version, after_help = help::ALL, propagate_version = true, max_term_width = 100)]
struct Cli {
    /// The config that names the data directory, when nothing else does
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "MIDWATCH_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows what the directory holds: segments, snapshots, floor, and how the journal ends
    #[command(after_help = help::INSPECT)]
    Inspect {
        #[command(flatten)]
        dir: Dir,
        /// Show what is there: the record with this sequence and the frames over this byte, or
        /// SEGMENT:BYTE
        #[arg(long, value_name = "SEQ|BYTE")]
        at: Option<at::At>,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Reads everything, checks everything, and replays it: exit 0, 8 or 6
    ///
    /// Every checksum, every body, every transition and every snapshot is checked, and each
    /// snapshot is compared with what the records before it make up.
    #[command(after_help = help::VERIFY)]
    Verify {
        #[command(flatten)]
        dir: Dir,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Prints the records as JSON, one a line
    ///
    /// When records are gone because a snapshot stands for them, the oldest snapshot that is
    /// needed comes first, unless --from leaves it out. Secrets of leases are not in the journal; their
    /// hashes are printed with --exact only.
    #[command(after_help = help::DUMP)]
    Dump {
        #[command(flatten)]
        dir: Dir,
        /// First sequence number to print
        #[arg(long, value_name = "SEQ")]
        from: Option<u64>,
        /// Last sequence number to print
        #[arg(long, value_name = "SEQ")]
        to: Option<u64>,
        /// Only what is about this task
        #[arg(long, value_name = "ID")]
        task: Option<TaskId>,
        /// Every byte: payloads, checkpoints and results as strings, and hashes of lease secrets;
        /// enough to rebuild the state
        #[arg(long)]
        exact: bool,
    },
    /// Prints records as they become durable, until interrupted: the lines of dump
    #[command(after_help = help::FOLLOW)]
    Follow {
        #[command(flatten)]
        dir: Dir,
        /// First sequence number to print [default: what comes next]
        #[arg(long, value_name = "SEQ")]
        from: Option<u64>,
        /// Only what is about this task
        #[arg(long, value_name = "ID")]
        task: Option<TaskId>,
        /// Print JSON, one record a line, as it does anyway
        #[arg(long)]
        json: bool,
    },
    /// Shows every task and worker as they were at any moment that is still held
    #[command(after_help = help::STATE)]
    State {
        #[command(flatten)]
        dir: Dir,
        /// When: a sequence number, 2026-03-14T02:30:00Z, "2026-03-14 02:30" or "2h ago"
        #[arg(long, value_name = "SEQ|TIME")]
        at: Option<state::At>,
        /// One task in full, with its history
        #[arg(long, value_name = "ID")]
        task: Option<TaskId>,
        /// How many tasks to list, the newest first
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Counts what the bytes on the disk are: by kind of record, by file, by task
    #[command(after_help = help::STATS)]
    Stats {
        #[command(flatten)]
        dir: Dir,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Puts one proven snapshot in the place of the history
    #[command(after_help = help::COMPACT)]
    Compact {
        #[command(flatten)]
        dir: Dir,
        /// Say what would go, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Rebuilds a damaged store on which the daemon does not start; shows its plan first
    ///
    /// The new store holds the newest whole snapshot and the records behind it up to the first
    /// hole. It is written beside the old one and read back before it takes its place; every file of
    /// the old one is moved to quarantine/, none is deleted. Sequence numbers, lease tokens and task
    /// ids skip ahead, so that none is given twice. Needs the lock of the directory: stop the daemon
    /// first. Run twice, or after it was interrupted, it comes to the same result.
    #[command(after_help = help::REPAIR)]
    Repair {
        #[command(flatten)]
        dir: Dir,
        /// Only say what would be done; change nothing
        #[arg(long)]
        dry_run: bool,
        /// What becomes of the whole records behind the first hole
        #[arg(long, value_enum, default_value = "cut")]
        method: repair::By,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// A completion script for your shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// The man page; midwatch-journal man | man -l -
    Man {
        /// The page of one command instead
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
}

#[derive(Debug, Args)]
struct Dir {
    /// The data directory [default: MIDWATCH_DATA_DIR, else the config's, else where the daemon
    /// would keep it]
    #[arg(value_name = "DIR")]
    path: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let done =
        run(cli, &mut out).and_then(|code| out.flush().map(|()| code).map_err(Failure::from));
    let code = match done {
        Ok(code) => code,
        Err(failure) => {
            if out.flush().is_err() {
                // The reader has gone; the code still tells.
            }
            failure.report()
        }
    };
    ExitCode::from(code)
}

fn run(cli: Cli, out: &mut impl Write) -> Result<u8, Failure> {
    let Cli { config, command } = cli;
    let open = |dir: Dir| place::Store::open(dir.path, config.clone());
    match command {
        Command::Inspect { dir, at: None, json } => inspect::run(&open(dir)?, json, out),
        Command::Inspect { dir, at: Some(at), json } => at::run(&open(dir)?, at, json, out),
        Command::Verify { dir, json } => verify::run(&open(dir)?, json, out),
        Command::Dump { dir, from, to, task, exact } => {
            let form = if exact { Form::Exact } else { Form::Readable };
            dump::run(&open(dir)?, dump::Range { from, to, task, form }, out)
        }
        Command::Follow { dir, from, task, json: _ } => {
            let range = dump::Range { from, to: None, task, form: Form::Readable };
            follow::run(&open(dir)?, from, range, out)
        }
        Command::State { dir, at, task, limit, json } => {
            state::run(&open(dir)?, state::Wanted { at, task, limit, json }, out)
        }
        Command::Stats { dir, json } => stats::run(&open(dir)?, json, out),
        Command::Compact { dir, dry_run, json } => {
            compact::run(&open(dir)?, compact::Wanted { dry_run, json }, out)
        }
        Command::Repair { dir, dry_run, method: by, json } => {
            repair::run(&open(dir)?, repair::Wanted { by, dry_run, json }, out)
        }
        Command::Completions { shell } => {
            write!(out, "{}", documents::completions(Cli::command(), shell))?;
            Ok(failure::DONE)
        }
        Command::Man { command } => match documents::man(Cli::command(), command.as_deref())? {
            Some(page) => write!(out, "{page}").map(|()| failure::DONE).map_err(Failure::from),
            None => Err(Failure::usage("there is no such command")),
        },
    }
}
