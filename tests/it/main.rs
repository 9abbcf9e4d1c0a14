//! Tests through the public surface.
