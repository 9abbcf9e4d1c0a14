//! Segments, frames, snapshots, recovery.

pub mod disk;
