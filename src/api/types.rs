//! Whole task types.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GET /v1/types`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Types {
    /// Every type that the config, a task or an order of somebody names, by name.
    pub types: Vec<TypeView>,
}

/// A task type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeView {
    /// Its name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the config has a handler for it.
    pub configured: bool,
    /// Who paused it; null while it is dispatched.
    pub paused: Option<OrderView>,
    /// Tasks that may hold a lease at once.
    pub max_running: BoundView<u32>,
    /// Dispatches in a second, a minute or an hour, such as `10/m`.
    pub rate: BoundView<String>,
    /// Who set a bound in the place of the config's.
    pub limited: Option<OrderView>,
    /// Dispatches that the rate counts just now.
    pub dispatched: u64,
    /// When the rate lets the next task go, while it holds one up.
    pub next_dispatch_at: Option<String>,
    /// Tasks that hold a lease, as `max_running` counts them.
    pub running: u64,
    /// Waiting tasks that are due.
    pub due: u64,
    /// Tasks by status.
    pub tasks: BTreeMap<String, u64>,
}

/// A bound and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundView<T> {
    /// The bound; null for none.
    pub value: Option<T>,
    /// `default`, `config`, or `set`: by a person, at run time.
    pub from: String,
}

/// What a person ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderView {
    /// Who.
    pub by: String,
    /// When.
    pub at: String,
    /// Why, where it was said.
    pub reason: Option<String>,
}

/// Body of pausing a type.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseTypeRequest {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of setting the bounds of a type; what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitTypeRequest {
    /// Tasks at once: a number, `none` for no bound, `config` for what the config says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<MaxRunning>,
    /// Dispatches: `10/m`, `none`, or `config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
}

/// A number of tasks, or a word in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MaxRunning {
    /// So many.
    Number(u32),
    /// `none` or `config`.
    Word(String),
}

/// Answer to pausing, resuming and limiting a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeActed {
    /// The type as it is now.
    #[serde(flatten)]
    pub view: TypeView,
    /// Whether anything changed; false when it was so already.
    pub changed: bool,
}
