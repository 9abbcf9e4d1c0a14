//! The server through its socket: routes, refusals, limits, and people who misbehave.

mod bounds;
mod document;
mod events;
mod figures;
mod fixture;
mod misuse;
mod page;
mod places;
mod schedules;
mod tasks;
mod tcp;
mod triggers;
mod workers;
