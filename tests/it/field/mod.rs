//! Cases from the field, each end to end: the real program, real processes, real handlers, a real
//! directory, and kills, stops and broken disks where the case has them.
//!
//! Every test says which case it is. None measures time to pass: conditions are waited for, and
//! spans that matter are those of the config.

pub(crate) mod house;

mod alerts;
mod clock;
mod doctor;
mod doors;
mod durability;
mod fair;
mod faults;
mod fences;
mod full;
mod https;
mod keep;
mod logs;
mod losses;
mod namespace;
mod ownership;
mod pid1;
mod reload;
mod remains;
mod schedules;
mod silent;
mod stops;
mod surroundings;
mod triggers;
mod types;
