//! A request becomes what the kernel plans by, or a refusal that says what is wrong and where.

use crate::api::{Code, Problem, ScheduleRequest};
use crate::config::{
    self, BadTimes, EVERY, FOLD, FROM, GAP, INSTANCES, JITTER, MISFIRE_GRACE, OVERLAP, check_exec,
    cron_plan,
};
use crate::kernel::ids::Millis;
use crate::kernel::schedule::{Plan, ScheduleSpec};
use crate::kernel::text::Text;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::server::app::Policy;
use crate::server::peer::{Access, Peer};
use crate::server::problems::{Failure, invalid};
use crate::server::rules::{EXEC, Kinds};
use crate::server::submission::{about, check_json, check_max_retry, no_such_type};
use crate::units::{format_duration, parse_duration, parse_rfc3339};
use std::ops::RangeInclusive;

/// The schedule that a request asks for, but for [`check_times`].
pub(super) fn read(
    policy: &Policy,
    peer: Peer,
    request: ScheduleRequest,
) -> Result<ScheduleSpec, Failure> {
    let plan = plan(&request)?;
    let kinds = &policy.kinds;
    let Some(kind) = kinds.get(&request.kind) else {
        return Err(no_such_type(&request.kind, kinds));
    };
    let mut spec = ScheduleSpec::new(kind.name.clone(), plan);
    if let Some(payload) = request.payload {
        spec.payload = Box::<str>::from(payload).into();
    }
    if request.kind == EXEC {
        peer.require(Access::Own, "schedule commands of its own", &policy.doors)?;
    }
    check_payload(kinds, &spec)?;
    if let Some(zone) = request.timezone {
        spec.zone = zone.into();
    }
    spec.priority = request.priority.unwrap_or(spec.priority);
    spec.max_retry = request.max_retry.map(check_max_retry).transpose()?;
    spec.timeout = span("timeout", request.timeout, Millis(1)..=Millis(u64::MAX))?;
    let grace = span("misfire_grace", request.misfire_grace, MISFIRE_GRACE)?;
    spec.misfire_grace = grace.unwrap_or(spec.misfire_grace);
    spec.coalesce = request.coalesce.unwrap_or(spec.coalesce);
    spec.max_instances = request.max_instances.unwrap_or(spec.max_instances);
    if !INSTANCES.contains(&spec.max_instances) {
        let (min, max) = (INSTANCES.start(), INSTANCES.end());
        return Err(invalid(format!("`max_instances` must be from {min} to {max}")));
    }
    spec.overlap = word("overlap", request.overlap, OVERLAP)?.unwrap_or(spec.overlap);
    spec.jitter = span("jitter", request.jitter, JITTER)?.unwrap_or(spec.jitter);
    spec.gap = word("dst_gap", request.dst_gap, GAP)?;
    spec.fold = word("dst_fold", request.dst_fold, FOLD)?;
    if (spec.gap.is_some() || spec.fold.is_some()) && !matches!(spec.plan, Plan::Cron(_)) {
        return Err(invalid("`dst_gap` and `dst_fold` mean nothing without `cron`"));
    }
    Ok(spec)
}

/// Passes the payload of a schedule, of the config or of a request.
pub(super) fn check_payload(kinds: &Kinds, spec: &ScheduleSpec) -> Result<(), Failure> {
    check_json("payload", &spec.payload, PAYLOAD_BYTES_MAX)?;
    if &*spec.kind == EXEC {
        check_exec(&spec.payload).map_err(|why| Problem::new(Code::InvalidPayload, why))?;
    }
    kinds
        .check_payload(&spec.kind, &spec.payload)
        .map_err(|why| Problem::new(Code::InvalidPayload, why).into())
}

/// Passes a schedule whose times there are.
pub(super) fn check_times(spec: ScheduleSpec) -> Result<ScheduleSpec, Failure> {
    let BadTimes { error, help } = match config::check_times(&spec) {
        Ok(()) => return Ok(spec),
        Err(bad) => bad,
    };
    let problem = Problem::new(Code::InvalidRequest, error.to_string());
    Err(Failure(help.into_iter().fold(problem, Problem::with_help)))
}

fn plan(request: &ScheduleRequest) -> Result<Plan, Failure> {
    let ScheduleRequest { cron, every, at, boot, from, .. } = request;
    if from.is_some() && every.is_none() {
        return Err(invalid("`from` means nothing without `every`"));
    }
    match (cron, every, at, boot) {
        (Some(words), None, None, false) => Ok(cron_plan(words)),
        (None, Some(text), None, false) => {
            let every = span("every", Some(text.clone()), EVERY)?.unwrap_or_default();
            let from = word("from", from.clone(), FROM)?.unwrap_or_default();
            Ok(Plan::Every(every, from))
        }
        (None, None, Some(at), false) => Ok(Plan::Once(parse_rfc3339(at).map_err(about("at"))?)),
        (None, None, None, true) => Ok(Plan::Boot),
        _ => Err(invalid("exactly one of `cron`, `every`, `at` and `boot` says when it fires")),
    }
}

fn span(
    field: &'static str,
    text: Option<String>,
    range: RangeInclusive<Millis>,
) -> Result<Option<Millis>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let span = parse_duration(&text).map_err(about(field))?;
    if range.contains(&span) {
        return Ok(Some(span));
    }
    let (min, max) = (format_duration(*range.start()), format_duration(*range.end()));
    if *range.end() == Millis(u64::MAX) {
        return Err(invalid(format!("`{field}` must be longer than nothing")));
    }
    Err(invalid(format!("`{field}` must be from {min} to {max}, not {}", Text::clipped(&text, 40))))
}

fn word<T: Copy>(
    field: &'static str,
    typed: Option<String>,
    words: &[(&str, T)],
) -> Result<Option<T>, Failure> {
    let Some(typed) = typed else { return Ok(None) };
    let found = words.iter().find(|(word, _)| *word == typed);
    let allowed = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    let wrong = || {
        let typed = Text::clipped(&typed, 40);
        invalid(format!("`{field}` must be one of {}, not `{}`", allowed(), typed.escape_debug()))
    };
    found.map(|(_, meaning)| Some(*meaning)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Named, Surroundings};

    // spec: TIM-054
    #[test]
    fn commands_are_scheduled_by_the_daemons_own_user_alone() {
        let config = Config::load(&Named::default(), &Surroundings::default()).unwrap();
        let policy = Policy::of(&config).unwrap();
        let by = |access| {
            let json = r#"{"type":"exec","cron":"@daily","payload":{"argv":["/bin/true"]}}"#;
            let request = serde_json::from_str(json).unwrap();
            let read = read(&policy, Peer::user(7, access), request);
            read.map(|spec| spec.kind).map_err(|Failure(problem)| problem.code)
        };
        assert_eq!(by(Access::Own), Ok(EXEC.into()));
        assert_eq!(by(Access::Operate), Err(Code::NotPermitted));
    }
}
