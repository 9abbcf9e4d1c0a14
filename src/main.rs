//! midwatch.
fn main() {}
