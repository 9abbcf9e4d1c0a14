//! How a task type is run: its command, and the environment its handler finds.

use crate::api::Lease;
use crate::process::Limits;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The reserved type that runs the command in its payload.
pub const EXEC: &str = "exec";

/// Exit statuses that another attempt would not change: the sysexits codes for usage, data, the
/// handler's own rights and its configuration.
pub const FATAL_EXIT_CODES: &[i32] = &[64, 65, 77, 78];

/// Largest log of one attempt when the config says nothing.
pub const LOG_BYTES_MAX: u64 = 10 << 20;

/// Variables a handler inherits from the worker.
const INHERITED: &[&str] = &["PATH", "HOME", "USER", "LANG", "TZ"];

/// Where programs are looked up when the worker itself has no `PATH`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the config says about running one task type. Time limits and graces are not here: they
/// come with each lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerSpec {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory; absent means the worker's.
    pub cwd: Option<PathBuf>,
    /// Variables set for the handler.
    pub env: BTreeMap<String, String>,
    /// Further variables passed on from the worker's environment.
    pub env_pass: Vec<String>,
    /// Largest log of one attempt, in bytes; beyond it head and tail are kept.
    pub log_max: u64,
    /// Exit statuses that another attempt would not change.
    pub fatal_exit_codes: Vec<i32>,
    /// Exit statuses that another attempt may change, whatever the list above says.
    pub retryable_exit_codes: Vec<i32>,
    /// What it may use, and as whom it runs.
    pub limits: Limits,
}

impl Default for HandlerSpec {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            log_max: LOG_BYTES_MAX,
            fatal_exit_codes: FATAL_EXIT_CODES.to_vec(),
            retryable_exit_codes: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl HandlerSpec {
    /// How an `exec` task with this payload is run; the error is for the task's record.
    pub(crate) fn of_exec(payload: &str) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Exec {
            argv: Vec<String>,
            #[serde(default)]
            cwd: Option<PathBuf>,
        }
        let exec: Exec = serde_json::from_str(payload)
            .map_err(|error| format!("the payload of an exec task is wrong: {error}"))?;
        if exec.argv.is_empty() {
            return Err("the payload of an exec task has an empty argv".into());
        }
        Ok(Self { command: exec.argv, cwd: exec.cwd, ..Self::default() })
    }
}

/// The environment of a handler: a short list from the worker's own, what the config says, and
/// the facts of the attempt. The lease's secret is never in it.
pub(crate) fn environment(
    spec: &HandlerSpec,
    lease: &Lease,
    store: &str,
    own: &BTreeMap<OsString, OsString>,
) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
    env.insert("PATH".into(), PATH.into());
    let passed = INHERITED.iter().copied().chain(spec.env_pass.iter().map(String::as_str));
    for name in passed {
        if let Some(value) = own.get(&OsString::from(name)) {
            env.insert(name.into(), value.clone());
        }
    }
    if let Some((name, home)) = spec.limits.identity.as_ref().and_then(|it| it.entry.as_ref()) {
        env.insert("USER".into(), name.into());
        env.insert("HOME".into(), home.into());
    }
    env.extend(spec.env.iter().map(|(name, value)| (name.into(), value.into())));
    let mut fact = |name: &str, value: String| env.insert(name.into(), value.into());
    fact("MIDWATCH_TASK_ID", lease.task.to_string());
    fact("MIDWATCH_TASK_TYPE", lease.kind.clone());
    fact("MIDWATCH_ATTEMPT", lease.attempt.to_string());
    fact("MIDWATCH_MAX_RETRY", lease.max_retry.to_string());
    fact("MIDWATCH_FENCE", lease.fence.to_string());
    fact("MIDWATCH_SCHEDULED_FOR", lease.scheduled_for.clone());
    fact("MIDWATCH_CONTROL_FD", "3".into());
    fact("MIDWATCH_TOKEN", format!("{store}:{}:{}", lease.task, lease.fence));
    if let Some(key) = &lease.key {
        fact("MIDWATCH_KEY", key.clone());
    }
    env
}
