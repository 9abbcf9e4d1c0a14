//! The life of a task as a bar: where it was, for how long.

use super::escape::{Html, put};
use crate::api::TransitionView;
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::status::Status;
use crate::units::{parse_rfc3339, span};

/// What a stretch of a task's life was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stretch {
    Waiting,
    Running,
    Retrying,
    Paused,
    Lost,
}

impl Stretch {
    const ALL: [Self; 5] = [Self::Waiting, Self::Running, Self::Retrying, Self::Paused, Self::Lost];

    const fn of(status: Status) -> Option<Self> {
        match status {
            Status::Pending => Some(Self::Waiting),
            Status::Running => Some(Self::Running),
            Status::Retrying => Some(Self::Retrying),
            Status::Paused => Some(Self::Paused),
            Status::Lost => Some(Self::Lost),
            Status::Success | Status::Failed | Status::Dead | Status::Cancelled => None,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Retrying => "before a retry",
            Self::Paused => "paused",
            Self::Lost => "lost",
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Waiting => "t-wait",
            Self::Running => "t-run",
            Self::Retrying => "t-retry",
            Self::Paused => "t-pause",
            Self::Lost => "t-lost",
        }
    }
}

/// The stretches of a life up to now, each with its length, oldest first.
pub(super) fn stretches(life: &[TransitionView], now: Timestamp) -> Vec<(Stretch, u64)> {
    let begins = |line: &TransitionView| parse_rfc3339(&line.at).ok();
    let mut all: Vec<(Stretch, u64)> = Vec::new();
    for (number, line) in life.iter().enumerate() {
        let Some(from) = begins(line) else { continue };
        let until = life.get(number + 1).map_or(Some(now), begins).unwrap_or(now);
        let Some(stretch) = Stretch::of(line.to) else { continue };
        // A clock that was put back makes no stretch shorter than nothing.
        let long = until.since(from).0;
        match all.last_mut() {
            Some((before, length)) if *before == stretch => *length = length.saturating_add(long),
            _ => all.push((stretch, long)),
        }
    }
    all
}

/// Width of the bar.
const WIDTH: u64 = 1000;

/// Width of the shortest stretch: it is seen.
const LEAST: u64 = 3;

/// The bar, and the same in words.
pub(super) fn bar(html: &mut Html, life: &[TransitionView], now: Timestamp) {
    let stretches = stretches(life, now);
    let total: u128 = stretches.iter().map(|(_, long)| u128::from(*long)).sum();
    let room = u128::from(WIDTH.saturating_sub(LEAST * stretches.len() as u64));
    let mut paths = Stretch::ALL.map(|stretch| (stretch, String::new(), 0_u64, 0_u64));
    let mut x = 0;
    for (stretch, long) in &stretches {
        let share = u64::try_from(u128::from(*long) * room / total.max(1)).unwrap_or(WIDTH);
        let width = LEAST + share;
        for (which, path, sum, times) in &mut paths {
            if which == stretch {
                *path += &format!("M{x} 0h{width}v24h-{width}z");
                *sum = sum.saturating_add(*long);
                *times += 1;
            }
        }
        x += width;
    }
    let there = || paths.iter().filter(|(_, _, _, times)| 0 < *times);
    let words: Vec<_> = there()
        .map(|(stretch, _, sum, _)| format!("{} {}", stretch.word(), span(Millis(*sum))))
        .collect();
    html.raw("<svg class=\"bar\" preserveAspectRatio=\"none\" role=\"img\" viewBox=\"0 0 ");
    put!(html, (x.max(1)), " 24\" aria-label=\"", (words.join(", ")), "\">");
    for (stretch, path, ..) in there() {
        put!(html, "<path class=\"", (stretch.class()), "\" d=\"", (path), "\"/>");
    }
    html.raw("</svg><ul class=\"legend\">");
    for (stretch, _, sum, times) in there() {
        put!(
            html,
            "<li class=\"key\"><svg viewBox=\"0 0 9 9\" aria-hidden=\"true\"><path class=\""
        );
        put!(html, (stretch.class()), "\" d=\"M0 0h9v9h-9z\"/></svg>", (stretch.word()), " ");
        put!(html, (span(Millis(*sum))));
        if 1 < *times {
            put!(html, " <span class=\"soft\">in ", (times), " stretches</span>");
        }
        html.raw("</li>");
    }
    html.raw("</ul>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ids::Seq;
    use crate::units::rfc3339;

    fn line(at: u64, to: Status) -> TransitionView {
        let at = rfc3339(Timestamp(at));
        let by = String::new();
        TransitionView { at, seq: Seq(1), from: None, to, reason: None, by, note: None }
    }

    #[test]
    fn a_life_is_the_stretches_between_its_changes_and_goes_on_until_now() {
        let life = [
            line(1000, Status::Pending),
            line(1005, Status::Running),
            line(1005, Status::Running),
            line(61_005, Status::Retrying),
            line(60_000, Status::Running),
        ];
        let expected = [
            (Stretch::Waiting, 5),
            (Stretch::Running, 60_000),
            (Stretch::Retrying, 0),
            (Stretch::Running, 5000),
        ];
        assert_eq!(stretches(&life, Timestamp(65_000)), expected);
        let ended = [line(0, Status::Pending), line(7, Status::Cancelled)];
        assert_eq!(stretches(&ended, Timestamp(65_000)), [(Stretch::Waiting, 7)]);
    }

    #[test]
    fn the_shortest_stretch_is_seen_and_the_bar_is_told_in_words() {
        let life = [line(0, Status::Pending), line(1, Status::Running)];
        let mut html = Html::default();
        bar(&mut html, &life, Timestamp(3_600_001));
        let html = html.finish();
        assert!(html.contains("aria-label=\"waiting 1 ms, running 1 h\""), "{html}");
        assert!(html.contains("class=\"t-wait\" d=\"M0 0h3v24h-3z\""), "{html}");
        let mut html = Html::default();
        bar(&mut html, &[], Timestamp(0));
        assert!(html.finish().contains("viewBox=\"0 0 1 24\""));
    }
}
