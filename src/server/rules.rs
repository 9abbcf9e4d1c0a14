//! What the config means to the layers below: rules for decisions, options for the journal, and
//! the types that may be submitted.

use super::problems::Failure;
use super::schema::Schema;
use super::submission::no_such_type;
use super::triggers::hooks::Hooks;
use crate::config::{self, Config};
use crate::journal;
use crate::kernel::Command;
use crate::kernel::ids::Millis;
use crate::kernel::rules::{KindRules, Retention, RetryPolicy, Rules};
use crate::kernel::task::TaskSpec;
use crate::kernel::task_type::Bounds;
use crate::kernel::text::Text;
use std::collections::BTreeMap;

// Every size of a segment that the config takes is one that the journal takes.
const _: () = assert!(config::SEGMENT_BYTES_MAX <= journal::segment::SEGMENT_BYTES_MAX);
const _: () = assert!(journal::segment::SEGMENT_BYTES_MIN <= config::SEGMENT_BYTES_MIN);

/// The type of ad-hoc commands.
pub const EXEC: &str = config::EXEC;

/// The rules that a config sets.
pub fn rules_from(config: &Config) -> Rules {
    let Config { worker, retry, handlers, retention, dispatch, .. } = config;
    let defaults = Rules::default();
    let kinds = handlers.iter().map(|(name, handler)| {
        let rules = KindRules {
            retry: policy(&handler.retry),
            cancel_grace: handler.cancel_grace,
            kill_grace: handler.kill_grace,
            max_retry: handler.retry.max_retry,
            timeout: handler.timeout,
            bounds: Bounds { max_running: handler.max_running, rate: handler.rate },
            stall_after: handler.stall_after,
            advice: handler.advice.as_deref().map(Text::from),
            contact: handler.contact.as_deref().map(Text::from),
        };
        (Text::from(name.as_str()), rules)
    });
    let fallback =
        KindRules { retry: policy(retry), max_retry: retry.max_retry, ..KindRules::default() };
    let exec = (Text::from(EXEC), fallback.clone());
    Rules {
        heartbeat: worker.heartbeat,
        suspect_after: worker.suspect_after,
        offline_after: worker.offline_after,
        rolling_lease: defaults.rolling_lease.max(worker.heartbeat.times(4)),
        max_lost: retry.max_lost,
        retention: Retention {
            finished: retention.finished,
            max_finished: usize::try_from(retention.max_finished).unwrap_or(usize::MAX),
            keys: retention.keys,
            archive: retention.archive.is_some(),
        },
        max_state: retention.max_state,
        promote_after: dispatch.promote_after,
        reserve: dispatch.reserve.clone(),
        plausible_since: defaults.plausible_since,
        fallback,
        kinds: kinds.chain([exec]).collect(),
    }
}

fn policy(retry: &config::Retry) -> RetryPolicy {
    match &retry.intervals {
        Some(waits) => RetryPolicy::Intervals(waits.clone()),
        None => RetryPolicy::Exponential { base: retry.base, cap: retry.cap },
    }
}

/// How the journal works under a config.
pub fn journal_options(config: &Config) -> journal::Options {
    let config::Journal { fsync, on_suspicious_tail, segment_size, reserve, .. } = config.journal;
    journal::Options {
        segment_size,
        fsync: match fsync {
            config::Fsync::Always => journal::Fsync::Always,
            config::Fsync::Interval(every) => journal::Fsync::Interval(every.duration()),
            config::Fsync::Never => journal::Fsync::Never,
        },
        halt_on_suspicious_tail: on_suspicious_tail == config::OnSuspiciousTail::Halt,
        reserve,
        ..journal::Options::default()
    }
}

/// Whether every file that the config names can be read and is what it should be: schemas of
/// handlers, secrets of hooks.
pub fn check_files(config: &Config) -> Result<(), String> {
    Kinds::of(config)?;
    check_channels(config)?;
    Hooks::of(config).map(drop)
}

/// Whether the addresses, secrets and certificates of channels can be read.
pub(super) fn check_channels(config: &Config) -> Result<(), String> {
    for (name, channel) in &config.alerts {
        crate::alerts::check(&channel.way).map_err(|why| format!("`alerts.{name}`: {why}"))?;
    }
    let ping = config.ping.as_ref().map(|ping| crate::alerts::check(&ping.way));
    ping.unwrap_or(Ok(())).map_err(|why| format!("`ping`: {why}"))
}

/// What a submission takes from its type when it says nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// The name, shared by all tasks of the type.
    pub(crate) name: Text,
    /// Retries.
    pub(crate) max_retry: u32,
    /// Longest run.
    pub(crate) timeout: Option<Millis>,
    /// What its payloads must fit.
    schema: Option<Schema>,
}

/// The types that may be submitted.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    kinds: BTreeMap<String, Kind>,
}

impl Kinds {
    /// Those of a config, and `exec`. Reads the schemas that handlers name; fails when one is
    /// missing or no schema.
    pub(crate) fn of(config: &Config) -> Result<Self, String> {
        let exec = Kind {
            name: EXEC.into(),
            max_retry: config.retry.max_retry,
            timeout: None,
            schema: None,
        };
        let mut kinds = BTreeMap::from([(EXEC.to_owned(), exec)]);
        for (name, handler) in &config.handlers {
            let schema = handler.schema.as_deref().map(Schema::read).transpose();
            let kind = Kind {
                name: name.as_str().into(),
                max_retry: handler.retry.max_retry,
                timeout: handler.timeout,
                schema: schema.map_err(|why| format!("`handlers.{name}.schema`: {why}"))?,
            };
            kinds.insert(name.clone(), kind);
        }
        Ok(Self { kinds })
    }

    /// Passes a payload, as JSON text, that fits the schema of its type, or says where it does not
    /// and what was expected. A type without a schema, or without a handler, takes any.
    pub(crate) fn check_payload(&self, kind: &str, payload: &str) -> Result<(), String> {
        let schema = self.get(kind).and_then(|kind| kind.schema.as_ref());
        schema.map_or(Ok(()), |schema| schema.check(payload))
    }

    /// The type with that name.
    pub(crate) fn get(&self, name: &str) -> Option<&Kind> {
        self.kinds.get(name)
    }

    /// What a trigger asks for: a task of a type with this payload, whose rest the type says.
    pub(crate) fn order(
        &self,
        kind: &str,
        payload: Text,
        priority: Option<i32>,
        key: Option<Text>,
    ) -> Result<Command, Failure> {
        let Some(known) = self.get(kind) else { return Err(no_such_type(kind, self)) };
        let spec = TaskSpec::new(known.name.clone(), payload);
        Ok(self.recorded(TaskSpec {
            priority: priority.unwrap_or(spec.priority),
            max_retry: known.max_retry,
            timeout: known.timeout,
            key,
            ..spec
        }))
    }

    /// What a trigger asks for, recorded also where its payload does not fit.
    pub(crate) fn recorded(&self, spec: TaskSpec) -> Command {
        match self.check_payload(&spec.kind, &spec.payload) {
            Ok(()) => Command::Submit(spec),
            Err(why) => Command::SubmitInvalid { spec, error: why.into() },
        }
    }

    /// The names of all types that the config defines.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str).filter(|name| *name != EXEC)
    }
}
