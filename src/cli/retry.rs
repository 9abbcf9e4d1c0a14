//! `midwatch retry`: ended tasks once more, as new tasks that name the old ones.

use super::act::each;
use super::arguments::task_id;
use super::failure::Failure;
use super::session::Session;
use crate::api::RetryRequest;
use crate::kernel::ids::TaskId;

/// Which tasks, and from where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks
    #[arg(value_name = "ID", required = true, value_parser = task_id)]
    ids: Vec<TaskId>,
    /// From the beginning, not from the last checkpoint
    #[arg(long)]
    fresh: bool,
}

/// Runs each of them again.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    each(&args.ids, "retry", &RetryRequest { fresh: args.fresh }, session)
}

#[cfg(test)]
mod tests {
    use crate::cli::samples;

    #[test]
    fn the_new_task_and_the_old_one_are_both_named() {
        let answer = r#"{"id":12,"status":"PENDING","stop_requested":null,"changed":true}"#;
        let asked = r#"POST /v1/tasks/7/retry {"fresh":true}"#;
        let played = samples::play("retry --fresh 7", &[(asked, answer.to_owned())]);
        assert_eq!(played.out, "12 PENDING  (runs 7 again)\n");
        assert_eq!(played.code, 0);
    }
}
