//! The hourly report: a line for each type of which something was counted, in the log and for the
//! channels of alerts that want it.

use super::stats::spread;
use crate::api::Spread;
use crate::kernel::figures::{Figures, Tale, window};
use crate::kernel::ids::{LifeTime, Millis};
use crate::units::span;

/// How often it is made. A multiple of the stretches that figures are kept in.
const EVERY: Millis = Millis::secs(3600);

/// Knows which hour was told last. Hours are those of the life clock; an hour in which nothing
/// happened is not told, and no timer waits for one to end: the next turn tells it.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    next: Option<u64>,
}

impl Reporter {
    /// What there is to tell at `now`: most often nothing. The hour in which it is first asked is
    /// told from its beginning, for the figures outlive a restart.
    pub(crate) fn due(&mut self, figures: &Figures, now: LifeTime) -> Vec<String> {
        let hour = window::number(now, EVERY);
        let next = self.next.replace(hour).unwrap_or(hour);
        if hour <= next {
            return Vec::new();
        }
        // Of several that ended the last one in which anything happened is the news.
        let told = (next..hour).rev().map(|hour| lines(figures, hour));
        told.into_iter().find(|lines| !lines.is_empty()).unwrap_or_default()
    }
}

fn lines(figures: &Figures, hour: u64) -> Vec<String> {
    let quarters = EVERY.0 / crate::kernel::figures::QUARTER.0;
    let (first, end) =
        (hour.saturating_mul(quarters), hour.saturating_add(1).saturating_mul(quarters));
    let types = figures.types.values().filter_map(|figures| {
        let mut tale = Tale::default();
        let those = window::from(&figures.quarters, first);
        those.take_while(|quarter| quarter.number < end).for_each(|quarter| tale.add(quarter));
        (tale != Tale::default()).then(|| line(&figures.kind, &tale))
    });
    types.collect()
}

fn line(kind: &str, tale: &Tale) -> String {
    let sums = &tale.sums;
    let numbers = [
        (sums.created, "created"),
        (sums.succeeded, "ended in SUCCESS"),
        (sums.failed, "FAILED"),
        (sums.dead, "DEAD"),
        (sums.cancelled, "CANCELLED"),
        (sums.retried, "retried"),
        (sums.lost, "lost"),
    ];
    let numbers = numbers.iter().filter(|(number, _)| *number != 0);
    let mut parts: Vec<_> = numbers.map(|(number, what)| format!("{number} {what}")).collect();
    parts.extend(times("waited", &spread(&tale.wait)));
    parts.extend(times("ran", &spread(&tale.run)));
    format!("the last hour of {kind}: {}", parts.join(", "))
}

fn times(what: &str, it: &Spread) -> Option<String> {
    let (p50, p95) = (it.p50_ms?, it.p95_ms?);
    Some(format!("{what} {} (p95 {})", span(Millis(p50)), span(Millis(p95))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::event::{Actor, Event, Stamp, Submitted};
    use crate::kernel::ids::{Seq, ServiceTime, TaskId, Timestamp};
    use crate::kernel::task::TaskSpec;
    use crate::kernel::{State, apply};

    const HOUR: u64 = EVERY.0;

    fn submit(state: &mut State, id: u64, at: u64) {
        let spec = TaskSpec::new("fetch_data", "null");
        let stamp = Stamp {
            seq: Seq(id),
            wall: Timestamp(at),
            life: LifeTime(at),
            service: ServiceTime(at),
            by: Actor::Daemon,
        };
        let event = Event::Submitted(Submitted { task: TaskId(id), spec, due: LifeTime(at) });
        apply(state, &stamp, &event).unwrap();
    }

    #[test]
    fn each_hour_in_which_anything_happened_is_told_once_when_it_is_over() {
        let mut state = State::default();
        let mut reporter = Reporter::default();
        let due = |state: &State, reporter: &mut Reporter, at| {
            reporter.due(state.figures(), LifeTime(at))
        };
        submit(&mut state, 1, HOUR + 5);
        assert!(due(&state, &mut reporter, HOUR + 10).is_empty());
        submit(&mut state, 2, 2 * HOUR - 1);
        assert!(due(&state, &mut reporter, 2 * HOUR - 1).is_empty());
        submit(&mut state, 3, 2 * HOUR);
        let told = due(&state, &mut reporter, 2 * HOUR);
        assert_eq!(told, ["the last hour of fetch_data: 2 created"]);
        assert!(due(&state, &mut reporter, 2 * HOUR + 1).is_empty());
        // Nobody woke up for a while; what happened before is told all the same.
        let told = due(&state, &mut reporter, 9 * HOUR);
        assert_eq!(told, ["the last hour of fetch_data: 1 created"]);
        assert!(due(&state, &mut reporter, 11 * HOUR).is_empty());
    }
}
