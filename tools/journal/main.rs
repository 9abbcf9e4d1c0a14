//! The journal tool.
fn main() {}
