//! `midwatch reset`: tasks that are stuck are stopped and start over.

use super::act::each;
use super::arguments::task_id;
use super::failure::Failure;
use super::session::Session;
use crate::api::ResetRequest;
use crate::kernel::ids::TaskId;

/// Which tasks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks
    #[arg(value_name = "ID", required = true, value_parser = task_id)]
    ids: Vec<TaskId>,
    /// With a new limit of retries
    #[arg(long, value_name = "N")]
    max_retry: Option<u32>,
}

/// Resets each of them.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    each(&args.ids, "reset", &ResetRequest { max_retry: args.max_retry }, session)
}
