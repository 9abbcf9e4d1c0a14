//! Two charts of the last two hours, as paths of numbers.

use super::escape::{Html, put};
use super::words::some;
use crate::api::MinuteStats;
use crate::kernel::ids::{Millis, Timestamp};
use crate::units::{count, parse_rfc3339, span};

/// Minutes that are shown.
const MINUTES: u64 = 120;

/// Units of width of a minute, and of height.
const STEP: u64 = 4;
const HEIGHT: u64 = 100;

/// Each minute with its place from the left.
fn placed(minutes: &[MinuteStats], now: Timestamp) -> Vec<(u64, &MinuteStats)> {
    let place = |minute: &MinuteStats| {
        let ago = now.since(parse_rfc3339(&minute.at).ok()?).0 / 60_000;
        (MINUTES - 1).checked_sub(ago)
    };
    minutes.iter().filter_map(|minute| Some((place(minute)?, minute))).collect()
}

/// How many ended each minute, by outcome.
pub(super) fn ended(html: &mut Html, minutes: &[MinuteStats], now: Timestamp) {
    let placed = placed(minutes, now);
    let total = |minute: &MinuteStats| minute.succeeded.saturating_add(minute.failed);
    let most = placed.iter().map(|(_, minute)| total(minute)).max().unwrap_or(0);
    let top = round_up(most);
    let (mut good, mut bad) = (String::new(), String::new());
    for (place, minute) in &placed {
        let x = place * STEP;
        // However few failed among many, they are seen.
        let failed = height(minute.failed, top, 3);
        let succeeded = height(minute.succeeded, top, 1).min(HEIGHT - failed);
        if 0 < succeeded {
            good += &bar(x, HEIGHT - succeeded, succeeded);
        }
        if 0 < failed {
            bad += &bar(x, HEIGHT - succeeded - failed, failed);
        }
    }
    let sum =
        |of: fn(&MinuteStats) -> u64| placed.iter().map(|(_, minute)| of(minute)).sum::<u64>();
    let (succeeded, failed) = (sum(|minute| minute.succeeded), sum(|minute| minute.failed));
    let words = format!(
        "{} succeeded and {} failed for good in the last two hours, {} at most in one minute",
        count(succeeded),
        count(failed),
        count(most)
    );
    html.raw("<figure><h3>Ended per minute</h3>");
    top_label(html, &count(top));
    svg(html, &words);
    put!(html, "<path class=\"fill-ok\" d=\"", (good), "\"/>");
    put!(html, "<path class=\"fill-bad\" d=\"", (bad), "\"/></svg>");
    time_labels(html);
    html.raw("<figcaption><span class=\"key\"><svg viewBox=\"0 0 9 9\" aria-hidden=\"true\">");
    html.raw("<path class=\"fill-ok\" d=\"M0 0h9v9h-9z\"/></svg>");
    put!(html, (count(succeeded)), " succeeded</span><span class=\"key\">");
    html.raw("<svg viewBox=\"0 0 9 9\" aria-hidden=\"true\">");
    html.raw("<path class=\"fill-bad\" d=\"M0 0h9v9h-9z\"/></svg>");
    put!(html, (some(failed, "failed for good", "failed for good")), "</span>");
    html.raw("</figcaption></figure>");
}

/// How long tasks waited and ran: the times under which 95 of 100 stay, on a scale of powers.
pub(super) fn spans(html: &mut Html, minutes: &[MinuteStats], now: Timestamp) {
    let placed = placed(minutes, now);
    let both = |minute: &MinuteStats| [minute.wait_p95_ms, minute.run_p95_ms];
    let all: Vec<u64> = placed.iter().flat_map(|(_, one)| both(one)).flatten().collect();
    let least = all.iter().copied().min().unwrap_or(100);
    let most = all.iter().copied().max().unwrap_or(60_000);
    let low = MARKS.iter().rposition(|mark| *mark <= least).unwrap_or(0).min(MARKS.len() - 2);
    let high = MARKS.iter().position(|mark| most <= *mark).unwrap_or(MARKS.len() - 1).max(low + 1);
    let between = MARKS.get(low + 1..high).unwrap_or_default();
    let mark = |at: usize| MARKS.get(at).copied().unwrap_or(1);
    let (bottom, top) = (level(mark(low)), level(mark(high)));
    let y = |ms: u64| {
        HEIGHT
            - level(ms).clamp(bottom, top).saturating_sub(bottom) * HEIGHT / (top - bottom).max(1)
    };
    let line = |of: fn(&MinuteStats) -> Option<u64>| {
        let points = placed.iter().filter_map(|(place, minute)| Some((*place, y(of(minute)?))));
        path(points)
    };
    let longest = |of: fn(&MinuteStats) -> Option<u64>| {
        let longest = placed.iter().filter_map(|(_, minute)| of(minute)).max();
        super::words::maybe_span(longest)
    };
    let (wait, run) = (longest(|one| one.wait_p95_ms), longest(|one| one.run_p95_ms));
    let words = format!(
        "95th percentile minute by minute over the last two hours: waits up to {wait}, runs up to \
         {run}"
    );
    html.raw("<figure><h3>Wait and run, 95th percentile</h3>");
    top_label(html, &span(Millis(mark(high))));
    svg(html, &words);
    html.raw("<path class=\"grid\" d=\"");
    for mark in between {
        put!(html, "M0 ", (y(*mark)), "h480");
    }
    put!(html, "\"/><path class=\"line line2\" d=\"", (line(|one| one.wait_p95_ms)), "\"/>");
    put!(html, "<path class=\"line\" d=\"", (line(|one| one.run_p95_ms)), "\"/></svg>");
    time_labels(html);
    html.raw("<figcaption><span class=\"key\"><svg viewBox=\"0 0 9 9\" aria-hidden=\"true\">");
    html.raw("<path class=\"line line2\" d=\"M0 5h9\"/></svg>");
    put!(html, "wait, at most ", (wait), "</span><span class=\"key\">");
    html.raw(
        "<svg viewBox=\"0 0 9 9\" aria-hidden=\"true\"><path class=\"line\" d=\"M0 5h9\"/></svg>",
    );
    put!(html, "run, at most ", (run), "</span>");
    let lines: Vec<_> = between.iter().map(|mark| span(Millis(*mark))).collect();
    if !lines.is_empty() {
        put!(html, "lines at ", (lines.join(", ")), "; ");
    }
    put!(html, "from ", (span(Millis(mark(low)))), "</figcaption>");
    html.raw("</figure>");
}

fn svg(html: &mut Html, words: &str) {
    put!(
        html,
        "<svg viewBox=\"0 0 480 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\""
    );
    put!(html, (words), "\">");
}

fn top_label(html: &mut Html, top: &str) {
    put!(html, "<div class=\"axis\"><span>", (top), "</span></div>");
}

fn time_labels(html: &mut Html) {
    html.raw("<div class=\"axis\"><span>2 h ago</span><span>1 h</span><span>now</span></div>");
}

fn bar(x: u64, y: u64, height: u64) -> String {
    format!("M{x} {y}h3v{height}h-3z")
}

/// A line through places that follow each other; a point where one stands alone.
fn path(points: impl Iterator<Item = (u64, u64)>) -> String {
    let mut path = String::new();
    let mut before = None;
    for (place, y) in points {
        let x = place * STEP + STEP / 2;
        let joined = before.is_some_and(|before| before + 1 == place);
        path += &if joined { format!("L{x} {y}") } else { format!("M{x} {y}h.1") };
        before = Some(place);
    }
    path
}

fn height(number: u64, top: u64, least: u64) -> u64 {
    if number == 0 {
        return 0;
    }
    let height = u128::from(number) * u128::from(HEIGHT) / u128::from(top.max(1));
    u64::try_from(height).unwrap_or(HEIGHT).clamp(least, HEIGHT)
}

/// The next 1, 2 or 5 times a power of ten.
fn round_up(number: u64) -> u64 {
    let mut power = 1_u64;
    while power < u64::MAX / 10 {
        let fits = [1, 2, 5].map(|step| power * step).into_iter().find(|step| number <= *step);
        if let Some(fits) = fits {
            return fits;
        }
        power *= 10;
    }
    number
}

/// Where the chart of spans has its lines, in milliseconds.
const MARKS: [u64; 12] = [
    1,
    10,
    100,
    1000,
    10_000,
    60_000,
    600_000,
    3_600_000,
    36_000_000,
    86_400_000,
    864_000_000,
    8_640_000_000,
];

/// A span on a scale on which each mark is as high above the one before as the next; in between
/// it bends twice, as a scale of powers does.
fn level(ms: u64) -> u64 {
    let next = MARKS.iter().position(|mark| ms < *mark);
    let at = next.unwrap_or(MARKS.len()).saturating_sub(1).min(MARKS.len() - 2);
    let pair = (MARKS.get(at).copied().unwrap_or(1), MARKS.get(at + 1).copied().unwrap_or(2));
    let ms = ms.clamp(pair.0, pair.1);
    let base = 300 * at as u64;
    // Of a step of ten: a third of the height at twice, two thirds at five times its beginning.
    let (from, to) = pair;
    let bends =
        [(from, 0), (from + (to - from) / 9, 90), (from + (to - from) * 4 / 9, 210), (to, 300)];
    for two in bends.windows(2) {
        if let [(from, low), (to, high)] = two
            && ms <= *to
        {
            return base + low + (high - low) * (ms - from) / (to - from).max(1);
        }
    }
    base + 300
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_of_spans_only_rises() {
        let levels: Vec<_> = (0..200_000).step_by(7).map(level).collect();
        assert!(levels.is_sorted());
        assert_eq!([0, 1, 2, 5, 10, 1000].map(level), [0, 0, 90, 210, 300, 900]);
        assert_eq!(level(u64::MAX), 3300);
    }

    #[test]
    fn numbers_are_rounded_up_to_what_an_axis_shows() {
        assert_eq!([0, 1, 3, 6, 51, 1000].map(round_up), [1, 1, 5, 10, 100, 1000]);
    }

    #[test]
    fn a_line_joins_what_follows_and_leaves_gaps_where_nothing_was() {
        assert_eq!(path([(0, 5), (1, 6), (9, 7)].into_iter()), "M2 5h.1L6 6M38 7h.1");
    }
}
