//! What about the schedules needs a person.

use super::view::trouble;
use crate::api::Attention;
use crate::server::host::Facts;

/// Schedules that are named one by one.
const NAMED_MAX: usize = 3;

/// Schedules of the config that are not as it says, and those of which nothing comes any more.
pub(crate) fn points(facts: &Facts<'_>) -> Vec<Attention> {
    let refused = facts.refused.iter().map(|(name, why)| {
        let what = format!("schedule {name} is not as the config says: {why}");
        (what, "midwatch schedule list".to_owned())
    });
    let schedules = facts.engine.state().schedules();
    let stuck = schedules.filter_map(|schedule| {
        let name = &schedule.name;
        let what = format!("schedule {name}: {}", trouble(facts, schedule)?);
        Some((what, format!("midwatch schedule show {name}")))
    });
    [named(refused), named(stuck)].concat()
}

fn named(mut points: impl Iterator<Item = (String, String)>) -> Vec<Attention> {
    let point =
        |(what, command)| Attention { critical: false, what, commands: vec![command], alert: None };
    let mut told: Vec<_> = points.by_ref().take(NAMED_MAX).map(point).collect();
    let more = points.count();
    if 0 < more {
        let what = format!("the same holds for {more} more schedules");
        told.push(point((what, "midwatch schedule list".to_owned())));
    }
    told
}
