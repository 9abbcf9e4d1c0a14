//! `midwatch schedule add`.

use super::{path, tell};
use crate::api::{ScheduleActed, ScheduleRequest};
use crate::cli::arguments::duration;
use crate::cli::connection::post;
use crate::cli::failure::{Failure, exit};
use crate::cli::payload;
use crate::cli::session::Session;
use crate::kernel::ids::Millis;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::units;
use clap::ArgGroup;

/// A schedule.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing that is past already is ever run, and what was added stays over restarts. A schedule of the
config is changed in the config; one that was added is changed by adding it again with --replace.

  midwatch schedule add nightly --type report --cron '30 2 * * *' --timezone Europe/Berlin
  midwatch schedule add poll --type poll_queue --every 30s --from end
  midwatch schedule add tick --type beat --cron '*/10 * * * * *'        with seconds
  midwatch schedule add once --type report --at '2026-03-14 02:30' --payload '{\"full\": true}'
  midwatch schedule add start --type warm_up --boot")]
#[command(group(ArgGroup::new("plan").required(true).args(["cron", "every", "at", "boot"])))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// Its name: letters, digits, `_`, `-` and `.`
    #[arg(value_name = "NAME")]
    name: String,
    /// The type of its tasks: a handler of the config, or exec
    #[arg(long = "type", value_name = "T")]
    kind: String,
    /// Five fields of a crontab, or six with seconds first, or @daily and the like
    #[arg(long, value_name = "E")]
    cron: Option<String>,
    /// Again and again after so much elapsed time: 30s, 1h30m
    #[arg(long, value_name = "D", value_parser = duration)]
    every: Option<Millis>,
    /// What that is counted from: the start or the end of the last run
    #[arg(long, value_name = "FROM", conflicts_with_all = ["cron", "at", "boot"],
        value_parser = ["start", "end"])]
    from: Option<String>,
    /// Once: 02:30, "2026-03-14 02:30" or RFC 3339
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// At each start of the host
    #[arg(long)]
    boot: bool,
    /// The zone of its local times, by its IANA name [default: UTC]
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// The payload: JSON, @FILE, or - for standard input [default: null]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Smaller runs first [default: 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Retries after the first failure [default: the handler's]
    #[arg(long, value_name = "N")]
    max_retry: Option<u32>,
    /// Longest run of one attempt [default: the handler's]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    timeout: Option<Millis>,
    /// How late a planned time may still be run [default: 1h]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    misfire_grace: Option<Millis>,
    /// Run every planned time that passed, not one for all of them
    #[arg(long, visible_alias = "all")]
    no_coalesce: bool,
    /// Runs that may be unfinished at once [default: 1]
    #[arg(long, value_name = "N")]
    max_instances: Option<u32>,
    /// What becomes of a planned time while as many run [default: skip]
    #[arg(long, value_name = "WORD", value_parser = ["skip", "queue", "replace"])]
    overlap: Option<String>,
    /// Each run waits for a random part of this [default: 0s]
    #[arg(long, value_name = "DUR", value_parser = duration)]
    jitter: Option<Millis>,
    /// Local times that do not exist when clocks go forward
    #[arg(long, value_name = "WORD", value_parser = ["shift", "skip"])]
    dst_gap: Option<String>,
    /// Local times that exist twice when clocks go back
    #[arg(long, value_name = "WORD", value_parser = ["first", "second", "both"])]
    dst_fold: Option<String>,
    /// Change a schedule of that name, if there is one
    #[arg(long)]
    replace: bool,
}

/// Adds it.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let request = request(args, session)?;
    let acted: ScheduleActed = post(session.api, &path(&args.name), &request)?;
    tell(&acted, "set", session)?;
    Ok(exit::DONE)
}

fn request(args: &Args, session: &mut Session<'_>) -> Result<ScheduleRequest, Failure> {
    let at = match &args.at {
        Some(text) => {
            let at = session.view.zone.parse(text, session.view.now);
            Some(units::rfc3339(at.map_err(|error| Failure::usage(error.to_string()))?))
        }
        None => None,
    };
    let payload = match &args.payload {
        Some(typed) => {
            Some(payload::read(typed, "payload", PAYLOAD_BYTES_MAX, &mut *session.input)?)
        }
        None => None,
    };
    Ok(ScheduleRequest {
        kind: args.kind.clone(),
        payload,
        cron: args.cron.clone(),
        every: args.every.map(units::format_duration),
        from: args.from.clone(),
        at,
        boot: args.boot,
        timezone: args.timezone.clone(),
        priority: args.priority,
        max_retry: args.max_retry,
        timeout: args.timeout.map(units::format_duration),
        misfire_grace: args.misfire_grace.map(units::format_duration),
        coalesce: args.no_coalesce.then_some(false),
        max_instances: args.max_instances,
        overlap: args.overlap.clone(),
        jitter: args.jitter.map(units::format_duration),
        dst_gap: args.dst_gap.clone(),
        dst_fold: args.dst_fold.clone(),
        replace: args.replace,
    })
}
