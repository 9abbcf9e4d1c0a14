//! What the keys of `[schedules.NAME]` mean, and their bounds.

use super::Handler;
use super::exec::{EXEC, check_exec};
use super::fault::Fault;
use super::handlers::check_name;
use super::keys;
use super::nearest::nearest;
use super::read::{Reader, Table, any_text, boolean, duration, integer, text, word};
use crate::kernel::calendar::CalendarError;
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::schedule::{Fold, From, Gap, Overlap, Plan, ScheduleSpec};
use crate::limits::{JSON_DEPTH_MAX, PAYLOAD_BYTES_MAX, SCHEDULES_MAX, deeper_than};
use crate::units;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toml::de::DeValue;

const DAY: Millis = Millis(86_400_000);

/// Spans between two runs.
pub(crate) const EVERY: RangeInclusive<Millis> = Millis::secs(1)..=DAY.times(366);

/// How long ago a planned time may be, and still be run.
pub(crate) const MISFIRE_GRACE: RangeInclusive<Millis> = Millis::secs(1)..=DAY.times(31);

/// Spans of which a random part is waited for.
pub(crate) const JITTER: RangeInclusive<Millis> = Millis(0)..=DAY;

/// Runs of one schedule at once.
pub(crate) const INSTANCES: RangeInclusive<u32> = 1..=100_000;

/// Longest run of one attempt.
const TIMEOUT: RangeInclusive<Millis> = Millis(1)..=DAY.times(3650);

/// What may stand in `from`.
pub(crate) const FROM: &[(&str, From)] = &[("start", From::Start), ("end", From::End)];

/// What may stand in `overlap`.
pub(crate) const OVERLAP: &[(&str, Overlap)] =
    &[("skip", Overlap::Skip), ("queue", Overlap::Queue), ("replace", Overlap::Replace)];

/// What may stand in `dst_gap`.
pub(crate) const GAP: &[(&str, Gap)] = &[("shift", Gap::Shift), ("skip", Gap::Skip)];

/// What may stand in `dst_fold`.
pub(crate) const FOLD: &[(&str, Fold)] =
    &[("first", Fold::First), ("second", Fold::Second), ("both", Fold::Both)];

/// The plan that the words of `cron` name: each start of the host, or the times of an expression.
pub(crate) fn cron_plan(words: &str) -> Plan {
    let words = words.trim();
    if words == "@reboot" { Plan::Boot } else { Plan::Cron(words.into()) }
}

/// Why the times of a schedule cannot be planned, and what may help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadTimes {
    /// Key at fault, and what is wrong with its value.
    pub(crate) error: CalendarError,
    /// What was meant, or what is allowed.
    pub(crate) help: Option<String>,
}

/// Passes a schedule whose zone there is and whose expression matches something. Takes up to a
/// tenth of a second, which the engine must not be held for.
pub(crate) fn check_times(spec: &ScheduleSpec) -> Result<(), BadTimes> {
    if spec.zone.parse::<chrono_tz::Tz>().is_err() {
        let why = format!("there is no time zone `{}`", spec.zone.escape_debug());
        let help = Some(zone_help(&spec.zone));
        return Err(BadTimes { error: CalendarError { key: "timezone", why }, help });
    }
    spec.times().map(drop).map_err(|error| BadTimes { error, help: None })
}

/// The zone that somebody may have meant: a near name, or one that ends in that city.
fn zone_help(typed: &str) -> String {
    let names = || chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let city = |name: &&str| {
        name.rsplit_once('/').is_some_and(|(_, city)| city.eq_ignore_ascii_case(typed))
    };
    match names().find(city).or_else(|| nearest(typed, names())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "zones have their IANA names, such as UTC or Europe/Berlin".to_owned(),
    }
}

pub(super) fn read_schedules<'t>(
    reader: &mut Reader<'t>,
    top: &Table<'t>,
    handlers: &BTreeMap<String, Handler>,
) -> BTreeMap<String, ScheduleSpec> {
    let mut schedules = BTreeMap::new();
    let Some(all) = reader.any_table(top, "schedules") else { return schedules };
    for (count, (name, offset)) in all.keys().enumerate() {
        if count == SCHEDULES_MAX {
            let fault = Fault::new(format!("there may be at most {SCHEDULES_MAX} schedules"));
            reader.fault(offset, fault);
            break;
        }
        if let Err(fault) = check_name("schedule", name) {
            reader.fault(offset, fault);
            continue;
        }
        let Some(table) = reader.table(&all, name, keys::SCHEDULE) else { continue };
        let faults = reader.faults.len();
        let plan = read_plan(reader, &table, offset);
        let kind = read_type(reader, &table, offset, handlers);
        // Without a plan it is refused; what else is wrong with it is told all the same.
        let mut spec = ScheduleSpec::new(kind, plan.unwrap_or(Plan::Boot));
        read_schedule(reader, &table, &mut spec);
        if faults == reader.faults.len() {
            probe(reader, &table, &spec);
        }
        schedules.insert(name.to_owned(), spec);
    }
    schedules
}

fn read_type<'t>(
    reader: &mut Reader<'t>,
    table: &Table<'t>,
    offset: usize,
    handlers: &BTreeMap<String, Handler>,
) -> String {
    let mut kind = String::new();
    if !table.has("type") {
        let fault = Fault::new(format!("`{}` is missing", table.name("type")))
            .with_help("name the handler that its tasks run with");
        reader.fault(offset, fault);
    }
    reader.set(table, "type", &mut kind, text);
    if kind.is_empty() || kind == EXEC || handlers.contains_key(&kind) {
        return kind;
    }
    let fault = Fault::new(format!(
        "`{}`: there is no handler `{}`",
        table.name("type"),
        kind.escape_debug()
    ));
    let known = || handlers.keys().map(String::as_str);
    let fault = match nearest(&kind, known()) {
        Some(near) => fault.with_help(format!("did you mean `{near}`?")),
        None => fault.with_help(format!("add a [handlers.{}]", kind.escape_debug())),
    };
    reader.fault_of_key(&table.name("type"), fault);
    kind
}

/// Exactly one of `cron`, `every` and `at`.
fn read_plan<'t>(reader: &mut Reader<'t>, table: &Table<'t>, offset: usize) -> Option<Plan> {
    let ways: Vec<_> = ["cron", "every", "at"].into_iter().filter(|key| table.has(key)).collect();
    if ways.is_empty() {
        let fault = Fault::new(format!("`{}` is missing, or `every`, or `at`", table.name("cron")))
            .with_help("say when it runs: cron = \"30 2 * * *\", every = \"5m\", or a date in at");
        reader.fault(offset, fault);
        return None;
    }
    if let [one, other, ..] = ways.as_slice() {
        let fault = Fault::new(format!("`{}` and `{one}` exclude each other", table.name(other)));
        reader.fault(table.place(other).unwrap_or(offset), fault);
        return None;
    }
    let mut plan = None;
    reader.set(table, "cron", &mut plan, |value| text(value).map(|it| Some(cron_plan(&it))));
    let mut from = From::default();
    reader.set(table, "from", &mut from, word(FROM));
    let every = |value: &DeValue<'t>| Ok(Some(Plan::Every(duration(EVERY)(value)?, from)));
    reader.set(table, "every", &mut plan, every);
    reader.set(table, "at", &mut plan, |value| instant(value).map(|at| Some(Plan::Once(at))));
    for (key, needs) in [("from", "every"), ("dst_gap", "cron"), ("dst_fold", "cron")] {
        if table.has(key) && !table.has(needs) {
            let fault =
                Fault::new(format!("`{}` means nothing without `{needs}`", table.name(key)));
            reader.fault(table.place(key).unwrap_or(offset), fault);
        }
    }
    plan
}

/// A date with its offset, as TOML has it or as text.
fn instant(value: &DeValue<'_>) -> Result<Timestamp, String> {
    let typed = match value {
        DeValue::Datetime(date) => date.to_string(),
        value => any_text(value)?,
    };
    units::parse_rfc3339(&typed).map_err(|error| format!(": {error}"))
}

fn read_schedule<'t>(reader: &mut Reader<'t>, table: &Table<'t>, spec: &mut ScheduleSpec) {
    let zone = |value: &DeValue<'t>| text(value).map(|zone| zone.as_str().into());
    reader.set(table, "timezone", &mut spec.zone, zone);
    let payload = |value: &DeValue<'t>| json_text(value).map(|json| json.as_str().into());
    reader.set(table, "payload", &mut spec.payload, payload);
    reader.set(table, "priority", &mut spec.priority, priority);
    let retries = |value: &DeValue<'t>| integer(0..=1_000_000)(value).map(Some);
    reader.set(table, "max_retry", &mut spec.max_retry, retries);
    let timeout = |value: &DeValue<'t>| duration(TIMEOUT)(value).map(Some);
    reader.set(table, "timeout", &mut spec.timeout, timeout);
    reader.set(table, "misfire_grace", &mut spec.misfire_grace, duration(MISFIRE_GRACE));
    reader.set(table, "coalesce", &mut spec.coalesce, boolean);
    reader.set(table, "max_instances", &mut spec.max_instances, integer(INSTANCES));
    reader.set(table, "overlap", &mut spec.overlap, word(OVERLAP));
    reader.set(table, "jitter", &mut spec.jitter, duration(JITTER));
    reader.set(table, "dst_gap", &mut spec.gap, |value| word(GAP)(value).map(Some));
    reader.set(table, "dst_fold", &mut spec.fold, |value| word(FOLD)(value).map(Some));
}

/// What only shows when all keys are read.
fn probe<'t>(reader: &mut Reader<'t>, table: &Table<'t>, spec: &ScheduleSpec) {
    if let Err(BadTimes { error, help }) = check_times(spec) {
        let name = table.name(error.key);
        let fault = Fault::new(format!("`{name}`: {}", error.why));
        let fault = help.into_iter().fold(fault, Fault::with_help);
        reader.fault_of_key(&name, fault);
    }
    if &*spec.kind == EXEC
        && let Err(why) = check_exec(&spec.payload)
    {
        let key = if table.has("payload") { "payload" } else { "type" };
        reader.fault_of_key(&table.name(key), Fault::new(format!("`{}`: {why}", table.name(key))));
    }
}

pub(super) fn priority(value: &DeValue<'_>) -> Result<i32, String> {
    let number = value.as_integer().filter(|integer| integer.radix() == 10);
    let number = number.and_then(|integer| integer.as_str().parse().ok());
    number.ok_or_else(|| format!(" must be a whole number from {} to {}", i32::MIN, i32::MAX))
}

/// A value of the file as the JSON text that it always becomes, keys in their order.
fn json_text(value: &DeValue<'_>) -> Result<String, String> {
    let text = json(value)?.to_string();
    if PAYLOAD_BYTES_MAX < text.len() {
        return Err(format!(
            " must have at most {} as JSON",
            units::format_size(PAYLOAD_BYTES_MAX as u64)
        ));
    }
    if deeper_than(text.as_bytes(), JSON_DEPTH_MAX).is_some() {
        return Err(format!(" must not be nested deeper than {JSON_DEPTH_MAX}"));
    }
    Ok(text)
}

fn json(value: &DeValue<'_>) -> Result<Value, String> {
    Ok(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(truth) => Value::from(*truth),
        DeValue::Datetime(date) => Value::from(date.to_string()),
        DeValue::Integer(integer) => {
            let number = i64::from_str_radix(integer.as_str(), integer.radix());
            Value::from(number.map_err(|_large| format!(": {integer} is too large a number"))?)
        }
        DeValue::Float(float) => {
            let number: Option<f64> = float.as_str().parse().ok();
            let number = number.and_then(serde_json::Number::from_f64);
            Value::from(number.ok_or_else(|| format!(": JSON has no {}", float.as_str()))?)
        }
        DeValue::Array(values) => {
            let values = values.iter().map(|value| json(value.get_ref()));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        DeValue::Table(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                Ok::<_, String>((key.get_ref().to_string(), json(value.get_ref())?))
            });
            Value::Object(entries.collect::<Result<_, _>>()?)
        }
    })
}
