//! midwatch: the night-shift watchman of one machine.
//!
//! It runs unattended tasks for months and loses nothing, with plain files and no database. Start
//! with `spec/architecture.md`, then [`kernel`], which has the rules, and [`journal`], which has
//! the bytes; [`engine`] joins the two, and everything above carries questions to it and answers
//! back.

#[cfg(feature = "host")]
pub mod alerts;
pub mod api;
#[cfg(feature = "host")]
pub mod cli;
#[cfg(feature = "host")]
pub mod client;
pub mod clock;
#[cfg(feature = "host")]
pub mod config;
pub mod defect;
#[cfg(feature = "host")]
pub mod demo;
pub mod engine;
pub mod journal;
pub mod kernel;
pub mod limits;
#[cfg(feature = "host")]
pub mod process;
#[cfg(feature = "host")]
pub mod server;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "host")]
pub mod supervisor;
pub mod units;
#[cfg(feature = "host")]
pub mod worker;
