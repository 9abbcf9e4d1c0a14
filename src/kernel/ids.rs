//! Names and instants as types, so that no two of them can be mistaken for each other.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
            Deserialize, minicbor::Encode, minicbor::Decode,
        )]
        #[serde(transparent)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

number! {
    /// Names one task for the life of the data directory. Printed and read as a plain number.
    TaskId
}
number! {
    /// Place of a record in the journal; grows by one per record, for ever.
    Seq
}
number! {
    /// Fencing token of a lease: the sequence number of the record that granted it.
    Fence
}
number! {
    /// Names one registration of a worker: the sequence number of the record that made it.
    WorkerId
}
number! {
    /// A wall-clock instant in milliseconds since the Unix epoch, UTC. Shown to people; decides
    /// nothing but `--at` times.
    Timestamp
}
number! {
    /// An instant on the life clock: milliseconds this data directory has existed with its host
    /// switched on. Advances with `CLOCK_BOOTTIME`, suspend included, also while the engine is
    /// away; goes on from where it was after a reboot. Waits and delays are measured on it.
    LifeTime
}
number! {
    /// An instant on the service clock: milliseconds the engine has been serving. It stands still
    /// while the engine is away, stopped or late. Leases and graces are measured on it.
    ServiceTime
}

/// A span of time in milliseconds.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    minicbor::Encode,
    minicbor::Decode,
)]
#[serde(transparent)]
#[cbor(transparent)]
pub struct Millis(#[n(0)] pub u64);

impl Millis {
    /// A span of whole seconds.
    pub const fn secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// The span as the standard library has it.
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }

    /// The sum, or the largest span there is.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The product, or the largest span there is.
    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

macro_rules! instant {
    ($name:ident) => {
        impl $name {
            /// The instant `span` later, or the last one there is.
            #[must_use]
            pub const fn after(self, span: Millis) -> Self {
                Self(self.0.saturating_add(span.0))
            }

            /// The span from `earlier` to this instant; zero when `earlier` lies ahead.
            pub const fn since(self, earlier: Self) -> Millis {
                Millis(self.0.saturating_sub(earlier.0))
            }
        }
    };
}
instant!(Timestamp);
instant!(LifeTime);
instant!(ServiceTime);

/// Who a process is, so that a recycled pid is never taken for it.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, minicbor::Encode, minicbor::Decode,
)]
#[cbor(map)]
pub struct ProcessId {
    /// Process id.
    #[n(0)]
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    #[n(1)]
    pub start_time: u64,
    /// Boot id of the kernel it runs under.
    #[n(2)]
    pub boot_id: String,
    /// Inode of its pid namespace.
    #[n(3)]
    pub pid_namespace: u64,
}

/// The clocks' readings and the dice, taken by the caller; there is no `now()` on this floor.
///
/// Whatever a decision makes of them is stored in the event, so replay never asks again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// The life clock.
    pub life: LifeTime,
    /// The service clock.
    pub service: ServiceTime,
    /// A random number, drawn afresh for each command.
    pub dice: u64,
    /// Set while the wall clock cannot be believed: no schedule fires by it.
    pub doubtful: bool,
}
