//! The server through its socket: routes, refusals, limits, and people who misbehave.

mod alerts;
mod bounds;
mod document;
mod figures;
mod fixture;
mod misuse;
mod places;
mod schedules;
mod tasks;
mod triggers;
mod workers;
