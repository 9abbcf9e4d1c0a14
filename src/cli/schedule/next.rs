//! `midwatch schedule next`.

use super::{on_the_clock, path};
use crate::api::NextTimes;
use crate::cli::connection::{get, with_query};
use crate::cli::failure::{Failure, exit};
use crate::cli::session::{Format, Session, View};
use crate::cli::table::{Column, Table};
use crate::units;

/// Which, and how many.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
  midwatch schedule next nightly -n 10
  midwatch schedule next nightly --from 2026-10-24       what the change of clocks does to it
  midwatch schedule next nightly --utc")]
pub(crate) struct Args {
    /// The schedule
    #[arg(value_name = "NAME")]
    name: String,
    /// How many
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 5)]
    count: usize,
    /// From then on: 02:30, 2026-10-24, "2026-10-24 02:30" or RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
}

/// Shows them.
pub(super) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let from = match &args.from {
        Some(text) => {
            let from = session.view.zone.parse(text, session.view.now);
            Some(units::rfc3339(from.map_err(|error| Failure::usage(error.to_string()))?))
        }
        None => None,
    };
    let path = format!("{}/next", path(&args.name));
    let path = with_query(&path, &[("n", Some(args.count.to_string())), ("from", from)]);
    let times: NextTimes = get(session.api, &path)?;
    match session.format {
        Format::Json => session.json(&times)?,
        Format::Ndjson => times.planned.iter().try_for_each(|one| session.json(one))?,
        Format::Table => {
            session.show(&render(&times, &session.view))?;
            if let Some(end) = &times.end {
                session.note(&format!("{}: {end}", times.name));
            }
        }
    }
    Ok(exit::DONE)
}

pub(super) fn render(times: &NextTimes, view: &View) -> String {
    let mut table = Table::new(&[Column::left(""), Column::left("").rank(1), Column::left("")]);
    for planned in &times.planned {
        table.row(vec![
            on_the_clock(planned, view).into(),
            view.relative(&planned.at).into(),
            planned.note.clone().unwrap_or_default().into(),
        ]);
    }
    table.render(view.width, view.paint)
}
