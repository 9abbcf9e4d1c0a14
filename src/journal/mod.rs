//! Bytes that last: knows no task.

pub mod disk;
