//! One submission by itself, as every route and line of a bulk request judges it: for fuzz targets.

use super::peer::{Access, Doors, Peer};
use super::problems::Failure;
use super::rules::Kinds;
use super::submission::Judge;
use crate::api::{Code, Problem};
use crate::config::Config;
use crate::kernel::task::TaskSpec;

/// The task that a request asks for under a config, said by the daemon's own user or by anybody.
pub fn submission(json: &[u8], own: bool, config: &Config) -> Result<TaskSpec, Problem> {
    let kinds = Kinds::of(config).map_err(|why| Problem::new(Code::InvalidRequest, why))?;
    let doors = Doors { owner: 900, operate: None };
    let access = if own { Access::Own } else { Access::Submit };
    let judge = Judge { kinds: &kinds, peer: Peer::user(7, access), doors: &doors };
    judge.spec(json).map_err(|Failure(problem)| problem)
}
