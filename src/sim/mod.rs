//! A disk that lies down and dies on request, for tests that must see every way it can.
//!
//! Nothing here is in a release: the `sim` feature is for tests, fuzz targets and tools. One seed
//! decides everything, so that a run made twice is the same run. The simulator never models a
//! particular file system: it allows whatever the promises of [`crate::journal::disk`] leave open,
//! which is more than any one file system does.

#![expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a simulator that is wrong about itself must stop at once"
)]

mod account;
pub mod crash;
pub mod dice;
pub mod disk;
mod fair;
pub mod fault;
mod image;
mod names;
mod starts;
mod trouble;
mod types;
pub mod weather;
mod worker;
pub mod world;

pub use crash::{CrashChoice, CrashStates};
pub use dice::Dice;
pub use disk::{Point, SimDisk, SimFile};
pub use fault::{Failure, Op, PageFate, Times, Turn};
pub use weather::{Deeds, Weather};
pub use world::World;
