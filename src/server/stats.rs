//! `GET /v1/stats`: health in five figures, and what each type did.

use super::app::{Answered, App, ok};
use super::host::Facts;
use super::problems::invalid;
use super::views::wall_of_life;
use crate::api::{
    Backlog, Consistency, MinuteStats, Punctuality, Retries, Spread, StatsQuery, StatsView,
    Success, TypeStats,
};
use crate::kernel::State;
use crate::kernel::figures::{Figures, Histogram, MINUTE, OTHERS, Tale, TypeFigures, window};
use crate::kernel::ids::{LifeTime, Millis, Moment};
use crate::kernel::status::Status;
use crate::limits::MINUTES_KEPT;
use crate::units::{parse_duration, rfc3339};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State as Shared};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest span that can be asked for, and the one that is meant when none is.
pub(crate) const DAY: Millis = Millis::secs(24 * 3600);

/// `GET /v1/stats`.
pub(crate) async fn stats(
    Shared(app): Shared<Arc<App>>,
    query: Result<Query<StatsQuery>, QueryRejection>,
) -> Answered {
    let Query(StatsQuery { since, minutes }) = query.map_err(|error| invalid(error.body_text()))?;
    let span = match since.as_deref().map(parse_duration) {
        None => DAY,
        Some(Ok(span)) if Millis(0) < span && span <= DAY => span,
        Some(Ok(_)) => return Err(invalid("`since` must be from 1s to 1d: older is not kept")),
        Some(Err(error)) => return Err(invalid(format!("`since`: {error}"))),
    };
    let with_minutes = minutes.unwrap_or(0) != 0;
    Ok(ok(&app.read(move |facts| view(facts, span, with_minutes)).await?))
}

/// What the figures say of the span that ends now.
pub(crate) fn view(facts: &Facts<'_>, span: Millis, with_minutes: bool) -> StatsView {
    let (state, now) = (facts.engine.state(), facts.now);
    let figures = state.figures();
    let (since, by_type) = figures.by_type(now.life, span);
    let mut all = Tale::default();
    for tale in by_type.values() {
        all.add(tale);
    }
    let triggers = figures.triggers(now.life, span);
    let sums = all.sums;
    #[expect(clippy::cast_precision_loss, reason = "a part of a whole, for people")]
    let rate = (sums.judged() != 0).then(|| sums.succeeded as f64 / sums.judged() as f64);
    StatsView {
        at: rfc3339(now.wall),
        since: rfc3339(wall_of_life(since, now)),
        span_ms: now.life.since(since).0,
        punctuality: Punctuality {
            fired: triggers.fired,
            on_time: triggers.on_time,
            without_run: triggers.without_run,
            latest_ms: triggers.latest.0,
        },
        success: Success { ended: sums.judged(), succeeded: sums.succeeded, rate },
        retries: Retries { retried: sums.retried, most: all.most_retries, task: all.most_task },
        backlog: backlog(state, now),
        consistency: consistency(state),
        wait: spread(&all.wait),
        run: spread(&all.run),
        types: types(state, &by_type),
        minutes: with_minutes.then(|| minutes(figures, now)),
    }
}

fn backlog(state: &State, now: Moment) -> Backlog {
    let index = state.index();
    Backlog {
        waiting: index.count(Status::Pending) as u64,
        due: index.ready_count() as u64,
        oldest_ms: index.oldest_due().map(|due| now.life.since(due).0),
    }
}

/// The account of all tasks.
pub(crate) fn consistency(state: &State) -> Consistency {
    let figures = state.figures();
    let sums = figures.sums();
    let taken = figures.all.base.saturating_add(sums.created);
    let (ended, live) = (sums.ended(), state.live_task_count());
    let wrong_input = figures.all.wrong_input;
    let ok = taken == ended.saturating_add(live) && wrong_input == 0;
    Consistency { taken, ended, live, wrong_input, ok }
}

pub(crate) fn spread(histogram: &Histogram) -> Spread {
    let part = |per_mille| histogram.percentile(per_mille).map(|time| time.0);
    let count = histogram.total();
    Spread {
        count,
        mean_ms: histogram.mean().map(|mean| mean.0),
        p50_ms: part(500),
        p95_ms: part(950),
        p99_ms: part(990),
        max_ms: (count != 0).then_some(histogram.max.0),
    }
}

/// How many tasks of a type wait, and how many hold a lease.
pub(crate) fn standing(state: &State, kind: &str) -> (u64, u64) {
    let known = &state.figures().types;
    let of = |tally: &crate::kernel::Tally| {
        let waiting = tally.count(Status::Pending) + tally.count(Status::Retrying);
        (waiting as u64, tally.leased() as u64)
    };
    if kind != OTHERS {
        return of(&state.tally(kind));
    }
    let others = state.index().by_type.iter().filter(|(kind, _)| !known.contains_key(*kind));
    others.map(|(_, tally)| of(tally)).fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
}

fn types(state: &State, by_type: &BTreeMap<&str, Tale>) -> Vec<TypeStats> {
    let figures = state.figures().types.values();
    let types = figures.filter_map(|figures| {
        let TypeFigures { kind, last_success, last_failure, failures, .. } = &**figures;
        let Tale { sums, wait, run, .. } = by_type.get(&**kind)?;
        let (waiting, running) = standing(state, kind);
        Some(TypeStats {
            kind: kind.to_string(),
            created: sums.created,
            succeeded: sums.succeeded,
            failed: sums.failed,
            dead: sums.dead,
            cancelled: sums.cancelled,
            retried: sums.retried,
            lost: sums.lost,
            waiting,
            running,
            wait: spread(wait),
            run: spread(run),
            last_success: last_success.map(rfc3339),
            last_failure: last_failure.map(rfc3339),
            failures_in_a_row: *failures,
        })
    });
    types.collect()
}

fn minutes(figures: &Figures, now: Moment) -> Vec<MinuteStats> {
    let first = window::number(now.life, MINUTE).saturating_sub(MINUTES_KEPT as u64 - 1);
    let minutes = window::from(&figures.all.minutes, first).map(|minute| {
        let sums = minute.sums;
        let began = LifeTime(minute.number.saturating_mul(MINUTE.0));
        MinuteStats {
            at: rfc3339(wall_of_life(began, now)),
            created: sums.created,
            succeeded: sums.succeeded,
            failed: sums.failed.saturating_add(sums.dead),
            retried: sums.retried,
            lost: sums.lost,
            wait_p95_ms: minute.wait.percentile(950).map(|time| time.0),
            run_p95_ms: minute.run.percentile(950).map(|time| time.0),
        }
    });
    minutes.collect()
}
