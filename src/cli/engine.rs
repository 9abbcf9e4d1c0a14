//! `midwatch engine`: the engine alone.

use super::failure::Failure;
use super::session::Session;

/// Runs it until it is told to stop.
pub(crate) fn run(session: &Session<'_>) -> Result<u8, Failure> {
    let _config = session.config()?;
    Err(Failure::new(1, "the engine is not built yet"))
}
