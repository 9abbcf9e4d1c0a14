//! The rules.

pub mod ids;
pub mod status;
