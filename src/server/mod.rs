//! The server: the engine's thread, and HTTP over a unix socket, and TCP where the config names an
//! address, in front of it.
//!
//! It turns requests into inputs of the engine and outputs into answers, knows the only URLs and
//! who may call them (`spec/api.md`), and watches workers die. It changes no task other than
//! through an input, and decides nothing about one.
//!
//! Threads, all of them: the caller's, which runs the async runtime; `engine`; `sweep`, which kills
//! what dead workers left; `snapshot`; `remains`, which sees to archive and logs; `inbox`, which takes
//! files and hears of them through `notify-rs inotify loop`; `alerts`, one for each channel, and `ping`;
//! `test` while the channels are tested. Every queue between them is bounded; a full one answers
//! "busy".

mod alerts;
#[cfg(feature = "sim")]
pub mod alone;
mod app;
mod archive;
mod bulk;
mod claims;
mod data_dir;
mod deaths;
mod events;
mod feed;
mod hand;
mod helpers;
mod host;
mod house;
mod http;
mod lifeline;
mod limits;
mod log_file;
mod logs;
mod metrics;
mod own_health;
mod page;
mod peer;
mod problems;
mod pulse;
mod reload;
mod remains;
mod replay;
mod report;
mod room;
mod rules;
mod run;
mod schedules;
mod schema;
mod socket;
mod stall;
mod stalled;
mod stats;
mod status;
mod submission;
mod task_lines;
mod tasks;
mod tcp;
mod timekeeping;
mod triggers;
mod types;
mod views;
mod watches;
mod workers;

pub use limits::{check_names, limits_of};
pub use reload::{Reload, check};
pub use rules::{EXEC, check_files, journal_options, rules_from};
pub use run::{ServerError, ServerOptions, run};
pub use views::{history_view, task_view, worker_view};
