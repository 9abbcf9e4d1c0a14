//! What workers and the daemon say to each other.
//!
//! A worker registers, then asks for leases (a long poll), heartbeats what it holds, asks which
//! of its attempts should stop (another long poll), and finishes many and leases the next in one
//! request. Every call about a lease shows the lease's secret.

use crate::kernel::ids::{Fence, Millis, Seq, TaskId, WorkerId};
use crate::kernel::status::{Outcome, Status};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use crate::kernel::ids::ProcessId;
pub use crate::kernel::task::{InputDigest, Progress, Usage};

/// `POST /v1/workers`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    /// A name for people, such as `w1`.
    pub name: String,
    /// The process.
    pub process: ProcessId,
    /// Host name.
    pub host: String,
    /// Version of the program.
    pub version: String,
    /// Name of the file below `run/` whose kernel lock the worker holds for its whole life.
    pub lock: String,
    /// Task types it can run.
    pub types: Vec<String>,
    /// Attempts it can run at once.
    pub slots: u32,
}

/// Answer to a registration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Registered {
    /// The worker's id in every later call.
    pub worker: WorkerId,
    /// How often it must heartbeat.
    pub heartbeat_ms: Millis,
    /// Uuid of the store, in hex; part of `MIDWATCH_TOKEN`.
    pub store: String,
    /// The data directory, absolute.
    pub data_dir: String,
}

/// `POST /v1/workers/{id}/offer`: what the worker can run from now on. What it runs goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferRequest {
    /// Task types it can run.
    pub types: Vec<String>,
    /// Attempts it can run at once.
    pub slots: u32,
}

/// `POST /v1/workers/{id}/lease`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// Free slots.
    pub slots: u32,
    /// How long the answer may wait for work; 0 answers at once. At most 60 s.
    #[serde(default)]
    pub wait_ms: Millis,
}

/// Answer to a lease request; empty when there was nothing to do in time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Leases {
    /// The leases.
    pub leases: Vec<Lease>,
}

/// A task, leased.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// The task.
    pub task: TaskId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its payload.
    pub payload: Box<RawValue>,
    /// Fencing token.
    pub fence: Fence,
    /// Secret of the lease, 32 hex digits; to be shown with each call, never to a handler.
    pub secret: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Retries the task may have.
    pub max_retry: u32,
    /// Longest run; the worker stops it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// From the stop on the control channel to SIGTERM.
    pub cancel_grace_ms: Millis,
    /// From SIGTERM to SIGKILL.
    pub kill_grace_ms: Millis,
    /// Idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When it was due, RFC 3339.
    pub scheduled_for: String,
    /// The last checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<RawValue>>,
}

/// Names a lease and proves that it is the caller's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseProof {
    /// The task.
    pub task: TaskId,
    /// Fencing token.
    pub fence: Fence,
    /// Secret of the lease.
    pub secret: String,
}

/// `POST /v1/workers/{id}/heartbeat`: sent at every interval, and at once when an attempt started.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// Everything the worker holds.
    pub holds: Vec<Hold>,
}

/// One attempt a worker holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// The lease.
    #[serde(flatten)]
    pub lease: LeaseProof,
    /// The handler's process, once it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessId>,
    /// Progress, where the handler told any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// Answer to a heartbeat and to a wait for stops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stops {
    /// Attempts that should stop.
    pub stops: Vec<StopOrder>,
}

/// An order to stop one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOrder {
    /// The task.
    pub task: TaskId,
    /// Which attempt.
    pub fence: Fence,
    /// Why.
    pub stop: StopWord,
}

/// Why an attempt should stop, as its handler is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopWord {
    /// The task was cancelled.
    Cancel,
    /// The task was paused.
    Pause,
    /// The attempt ran too long. Ordered by the worker itself.
    Timeout,
    /// The worker shuts down (also: the task was reset).
    Shutdown,
    /// The lease is no longer the worker's: kill at once, report nothing.
    Superseded,
}

/// `POST /v1/workers/{id}/stops`: answers as soon as the worker's orders differ from `known`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopsRequest {
    /// The orders the worker knows already.
    pub known: Vec<StopOrder>,
    /// How long the answer may wait. At most 60 s.
    pub wait_ms: Millis,
}

/// `POST /v1/workers/{id}/checkpoint`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckpointRequest {
    /// The lease.
    #[serde(flatten)]
    pub lease: LeaseProof,
    /// The checkpoint.
    pub data: Box<RawValue>,
}

/// Answer to a checkpoint, once it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpointed {
    /// Sequence number of its record.
    pub seq: Seq,
    /// Whether the handler should stop.
    pub stop: Option<StopWord>,
}

/// `POST /v1/workers/{id}/finish`: ends of attempts, and a request for the next leases, in one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FinishRequest {
    /// The ends.
    pub ends: Vec<End>,
    /// Slots that are free after them; 0 leases nothing.
    #[serde(default)]
    pub slots: u32,
}

/// How an attempt ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct End {
    /// The lease.
    #[serde(flatten)]
    pub lease: LeaseProof,
    /// `success`, `retryable`, `fatal`, `timed_out`, or `released` (handed back unfinished). When
    /// the handler obeyed a cancel or pause, `cancelled` or `paused`.
    pub outcome: Outcome,
    /// Whether a handler process was ever started.
    #[serde(default)]
    pub started: bool,
    /// Exit status of the handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The handler's `result` line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The error in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What its processes used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How long the handler ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_ms: Option<Millis>,
    /// Digest of the input that it was given: the first 32 hex digits of its SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "input_text")]
    pub input: Option<InputDigest>,
}

/// A digest of an input as text.
mod input_text {
    use super::InputDigest;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "the shape that serde calls")]
    pub(super) fn serialize<S: Serializer>(
        input: &Option<InputDigest>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        input.map(|input| input.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<InputDigest>, D::Error> {
        let text: Option<String> = Deserialize::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

/// Answer to a finish: one entry an end, in order, and the new leases.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// What became of each end.
    pub ends: Vec<EndAnswer>,
    /// New leases.
    pub leases: Vec<Lease>,
}

/// What became of one end; `status` when it was taken, `error` when it was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndAnswer {
    /// The task's status now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<super::Problem>,
}

/// One worker, as `GET /v1/workers` lists it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerView {
    /// Its id.
    pub id: WorkerId,
    /// Its name.
    pub name: String,
    /// `alive`, `suspect` or `offline`.
    pub status: String,
    /// Its process id.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Its version.
    pub version: String,
    /// Its task types.
    pub types: Vec<String>,
    /// Its slots.
    pub slots: u32,
    /// Milliseconds since it was last heard of.
    pub silent_ms: Millis,
    /// What it holds.
    pub holds: Vec<HeldView>,
}

/// One attempt in the list of workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldView {
    /// The task.
    pub task: TaskId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Fencing token.
    pub fence: Fence,
    /// When it was leased.
    pub since: String,
    /// How far it says it is.
    pub progress: Option<Progress>,
}

/// `GET /v1/workers`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workers {
    /// All workers that are known.
    pub workers: Vec<WorkerView>,
}
