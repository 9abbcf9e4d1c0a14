//! midwatch: the night-shift watchman of one machine.
