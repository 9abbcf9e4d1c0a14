//! Numbers, times and statuses in words.

use super::escape::{Html, put};
use crate::kernel::ids::{Millis, Timestamp};
use crate::kernel::status::Status;
use crate::kernel::task::Progress;
use crate::units::{Zone, count, parse_rfc3339, relative, span};

/// A status as a word in its colour.
pub(super) fn status(html: &mut Html, status: Status) {
    tone(html, tone_of(status));
    put!(html, (status), "</span>");
}

/// Begins a word in a colour; the word says the same.
pub(super) fn tone(html: &mut Html, tone: Tone) {
    html.raw(match tone {
        Tone::Ok => "<span class=\"s ok\">",
        Tone::Warn => "<span class=\"s warn\">",
        Tone::Bad => "<span class=\"s bad\">",
        Tone::Run => "<span class=\"s run\">",
        Tone::Soft => "<span class=\"s soft\">",
    });
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Ok,
    Warn,
    Bad,
    Run,
    Soft,
}

pub(super) const fn tone_of(status: Status) -> Tone {
    match status {
        Status::Success => Tone::Ok,
        Status::Retrying | Status::Lost => Tone::Warn,
        Status::Failed | Status::Dead => Tone::Bad,
        Status::Running => Tone::Run,
        Status::Pending | Status::Paused | Status::Cancelled => Tone::Soft,
    }
}

/// An instant seen from now, with the instant itself beside it.
pub(super) fn when(html: &mut Html, at: Timestamp, now: Timestamp) {
    let exact = Zone::Utc.date_time(at);
    put!(html, "<time datetime=\"", (crate::units::rfc3339(at)), "\" title=\"", (exact), "\">");
    put!(html, (relative(at, now)), "</time>");
}

/// The same of an instant of a view; what cannot be read is shown as it is.
pub(super) fn when_said(html: &mut Html, at: &str, now: Timestamp) {
    match parse_rfc3339(at) {
        Ok(at) => when(html, at, now),
        Err(_) => html.text(at),
    }
}

/// How fast something goes and how long it takes still, as far as that can be told: `40 a second,
/// about 2 min left`.
pub(super) fn pace(progress: &Progress, ran: Millis) -> Option<String> {
    let Progress { done, total, .. } = progress;
    if *done == 0 || ran.0 < 1000 {
        return None;
    }
    let (done, ms) = (u128::from(*done), u128::from(ran.0));
    let per = |unit: u128| u64::try_from(done * unit / ms).unwrap_or(u64::MAX);
    let rate = match (per(1000), per(60_000), per(3_600_000)) {
        (1.., _, _) => format!("{} a second", count(per(1000))),
        (_, 1.., _) => format!("{} a minute", per(60_000)),
        (_, _, rate) => format!("{rate} an hour"),
    };
    let left = total.filter(|total| done < u128::from(*total)).map(|total| {
        let left = (u128::from(total) - done) * ms / done;
        let left = Millis(u64::try_from(left).unwrap_or(u64::MAX));
        format!(", about {} left", crate::units::rough_span(left))
    });
    Some(rate + &left.unwrap_or_default())
}

/// `1 task`, `7 tasks`.
pub(super) fn some(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A span, or a dash where there is none.
pub(super) fn maybe_span(ms: Option<u64>) -> String {
    ms.map_or_else(|| "–".to_owned(), |ms| span(Millis(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_is_told_in_the_unit_that_has_a_number() {
        let pace = |done, total, ms| {
            pace(&Progress { done, total, note: None }, Millis(ms)).unwrap_or_default()
        };
        assert_eq!(pace(6000, Some(10_000), 120_000), "50 a second, about 1 min left");
        assert_eq!(pace(3, Some(9), 60_000), "3 a minute, about 2 min left");
        assert_eq!(pace(1, None, 3_600_000), "1 an hour");
        assert_eq!(pace(0, Some(9), 60_000), "");
        assert_eq!(pace(9, Some(9), 900), "");
        assert_eq!(pace(u64::MAX, Some(u64::MAX), 1000), "18,446,744,073,709,551,615 a second");
    }
}
