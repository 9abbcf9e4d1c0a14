//! The journal tool: looks into the files of a data directory, checks them, prints them.
//!
//! It works on the files alone, beside a running daemon or without one, and writes nothing but what
//! `repair` writes. What is damage is decided by the same code that decides it for the daemon. One
//! file a command.

mod at;
mod dump;
mod failure;
mod inspect;
mod place;
mod repair;
mod verify;

use clap::{Args, Parser, Subcommand};
use failure::Failure;
use midwatch::kernel::ids::TaskId;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Exit codes:
  0  done; for verify: all is good, or the last write was cut short by a crash (noted)
  1  a file cannot be read
  2  usage, or there is no store in the directory
  3  inspect --at: nothing is there
  6  damaged data: file, offset and sequence are named
  7  refused: not permitted, written by a newer midwatch; repair: a daemon runs, or no room
  8  verify: the end of the journal, or a snapshot, is suspicious

Examples:
  midwatch-journal verify /var/lib/midwatch
  midwatch-journal inspect --at 4390
  midwatch-journal dump --task 88213 | jq -c '[.seq, .at, .event, .to]'
  midwatch-journal repair --dry-run";

const REPAIR_HELP: &str = "\
Examples:
  midwatch-journal repair --dry-run                    what a repair would keep, and what not
  midwatch-journal repair --dry-run --method salvage   the same for the other method
  midwatch-journal repair && midwatch daemon           do it, and start again";

/// Looks into midwatch's journal, checks it, prints it, and repairs it. Never needs the daemon.
///
/// Every command but `repair` reads the files alone, changes nothing, and may run beside a daemon.
#[derive(Debug, Parser)]
#[command(name = "midwatch-journal", version, after_help = AFTER_HELP, propagate_version = true)]
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
    /// needed comes first, unless --from leaves it out. Secrets are never printed, not even hashed.
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
    },
    /// Rebuilds a damaged store on which the daemon does not start; shows its plan first
    ///
    /// The new store holds the newest whole snapshot and the records behind it up to the first
    /// hole. It is written beside the old one and read back before it takes its place; every file of
    /// the old one is moved to quarantine/, none is deleted. Sequence numbers, lease tokens and task
    /// ids skip ahead, so that none is given twice. Needs the lock of the directory: stop the daemon
    /// first. Run twice, or after it was interrupted, it comes to the same result.
    #[command(after_help = REPAIR_HELP)]
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
        Command::Dump { dir, from, to, task } => {
            dump::run(&open(dir)?, dump::Range { from, to, task }, out)
        }
        Command::Repair { dir, dry_run, method: by, json } => {
            repair::run(&open(dir)?, repair::Wanted { by, dry_run, json }, out)
        }
    }
}
