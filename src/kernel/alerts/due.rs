//! Which notice is due on a channel: a pure question to the state.
//!
//! One message covers everything that is new on the channel. What was not told stays new, so a
//! channel that is out of order, or an engine that was away, loses nothing; and what was told is
//! part of the state, so nothing is told twice but by a crash between the message and its record.

use super::{Alert, Alerts, Channel, Grade, Known, Rule, SETTLED_AFTER, Saying, Told};
use crate::kernel::ids::{LifeTime, Millis, Timestamp};
use crate::kernel::rules::Rules;
use crate::kernel::text::Text;
use crate::limits::ALERTS_NAMED_MAX;

/// The span of [`Channel::max_per_hour`].
pub(super) const HOUR: Millis = Millis::secs(3600);

/// The largest `max_per_hour`: as many messages are remembered.
pub(super) const MESSAGES_PER_HOUR_MAX: usize = crate::limits::ALERT_MESSAGES_PER_HOUR_MAX;

/// What a channel is to be told, and when to ask again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// What is to be told now.
    pub notice: Option<Notice>,
    /// When there may be something although nothing changes.
    pub again: Option<LifeTime>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The channel.
    pub channel: Text,
    /// The worst of what it tells that still stands; `info` where all is over.
    pub grade: Grade,
    /// What it tells, what stands and is worst first.
    pub items: Vec<Item>,
    /// How many of them are told in words; the rest is counted.
    pub named: usize,
}

/// What a message says of one alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The alert as it is.
    pub alert: Alert,
    /// What is said of it.
    pub saying: Saying,
    /// Whether it was said before, and nothing about it is new.
    pub again: bool,
    /// What the config advises for its type.
    pub advice: Option<Text>,
    /// Whom the config names for its type.
    pub contact: Option<Text>,
}

impl Notice {
    /// What the channel knows once it has got the message at `now`.
    pub fn told(&self, now: LifeTime) -> Vec<Told> {
        let told = |item: &Item| Told {
            alert: item.alert.number,
            edition: item.alert.edition,
            saying: item.saying,
            at: now,
        };
        self.items.iter().map(told).collect()
    }
}

/// Something that a channel does not know.
struct News {
    saying: Saying,
    /// Since when.
    since: LifeTime,
    again: bool,
}

/// What `channel` is to be told at `now`.
pub fn due(alerts: &Alerts, rules: &Rules, channel: &Channel, now: LifeTime) -> Due {
    let known = alerts.channel(&channel.name);
    let mut news = Vec::new();
    let mut again: Option<LifeTime> = None;
    let mut wait = |at: LifeTime| again = Some(again.map_or(at, |first| first.min(at)));
    for alert in alerts.iter().filter(|alert| is_for(alert, known, channel)) {
        match look(alert, known, channel, now) {
            Ok(Some(new)) => news.push((alert, new)),
            Ok(None) => {}
            Err(later) => wait(later),
        }
    }
    let Some(at) = opens(&news, known, channel) else { return Due { notice: None, again } };
    if now < at {
        wait(at);
        return Due { notice: None, again };
    }
    Due { notice: Some(notice(news, rules, channel)), again: None }
}

/// Whether a channel is told of an alert at all. Of its own trouble it cannot be told. What it
/// believes to stand it is told to the end, also when that has become less grave than it asks for.
fn is_for(alert: &Alert, known: Option<&Known>, channel: &Channel) -> bool {
    let own = alert.rule == Rule::ChannelFailing && alert.subject == channel.name;
    let told = known.and_then(|known| known.told(alert.number));
    let believes = told.is_some_and(|told| told.saying != Saying::Over);
    (channel.min_grade <= alert.grade || believes) && !own
}

/// What is new about an alert; an error says when something may be.
fn look(
    alert: &Alert,
    known: Option<&Known>,
    channel: &Channel,
    now: LifeTime,
) -> Result<Option<News>, LifeTime> {
    let told = known.and_then(|known| known.told(alert.number));
    let news = |saying, since| Ok(Some(News { saying, since, again: false }));
    if let Some(told) = told.filter(|_| alert.grade < channel.min_grade) {
        // For this channel it is over, whatever is left of it.
        return if channel.send_resolved { news(Saying::Over, told.at) } else { Ok(None) };
    }
    if let Some(flaps) = alert.flaps {
        let settles = alert.changed().after(SETTLED_AFTER);
        let knows = told.is_some_and(|told| told.saying == Saying::Flaps && flaps <= told.at);
        return match (now < settles, knows) {
            (true, true) => Err(settles),
            (true, false) => news(Saying::Flaps, flaps),
            (false, true) if alert.stands() => news(Saying::Stands, settles),
            (false, true) if channel.send_resolved => news(Saying::Over, settles),
            (false, true) => Ok(None),
            (false, false) => plain(alert, known, told, channel, now),
        };
    }
    plain(alert, known, told, channel, now)
}

/// The same for an alert that does not come and go.
fn plain(
    alert: &Alert,
    known: Option<&Known>,
    told: Option<&Told>,
    channel: &Channel,
    now: LifeTime,
) -> Result<Option<News>, LifeTime> {
    let of_now = told.filter(|told| alert.came <= told.edition);
    match (alert.over, of_now) {
        (None, None) if alert.acked.is_none() => {
            Ok(Some(News { saying: Saying::Stands, since: alert.came_at, again: false }))
        }
        (None, Some(told)) if alert.acked.is_none() && channel.repeat != Millis(0) => {
            let next = told.at.after(channel.repeat);
            if now < next {
                return Err(next);
            }
            Ok(Some(News { saying: Saying::Stands, since: next, again: true }))
        }
        (None, _) => Ok(None),
        // It came and went untold: what happened is told all the same, unless it was over before
        // there was such a channel.
        (Some(over), None) => {
            let heard = known.is_some_and(|known| known.since <= over);
            let since = alert.came_at;
            Ok(heard.then_some(News { saying: Saying::Over, since, again: false }))
        }
        (Some(over), Some(told)) => {
            let new = told.saying != Saying::Over && channel.send_resolved;
            Ok(new.then_some(News { saying: Saying::Over, since: over, again: false }))
        }
    }
}

/// From when on the message may go; none where nothing is new.
fn opens(news: &[(&Alert, News)], known: Option<&Known>, channel: &Channel) -> Option<LifeTime> {
    let wait = |news: &News| if news.again { Millis(0) } else { channel.group_wait };
    let first = news.iter().map(|(_, news)| news.since.after(wait(news))).min()?;
    let urgent = |(alert, news): &&(&Alert, News)| {
        alert.grade == Grade::Critical && news.saying == Saying::Stands && !news.again
    };
    let Some(known) = known else { return Some(first) };
    let last = known.sent.back().copied();
    let open = last.map_or(first, |last| first.max(last.after(channel.group_interval)));
    // What is critical waits for nothing but what comes together with it.
    let hurry = news.iter().filter(urgent).map(|(_, news)| news.since.after(wait(news))).min();
    let open = hurry.map_or(open, |hurry| open.min(hurry));
    let most = usize::try_from(channel.max_per_hour).unwrap_or(usize::MAX);
    let oldest = known.sent.len().checked_sub(most).and_then(|place| known.sent.get(place));
    Some(oldest.map_or(open, |oldest| open.max(oldest.after(HOUR))))
}

fn notice(news: Vec<(&Alert, News)>, rules: &Rules, channel: &Channel) -> Notice {
    let item = |(alert, news): (&Alert, News)| {
        let of = alert.failure.as_ref().map(|failure| rules.of(&failure.kind));
        Item {
            alert: alert.clone(),
            saying: news.saying,
            again: news.again,
            advice: of.and_then(|of| of.advice.clone()),
            contact: of.and_then(|of| of.contact.clone()),
        }
    };
    let mut items: Vec<_> = news.into_iter().map(item).collect();
    let is_over = |item: &Item| item.saying == Saying::Over;
    let rank = |item: &Item| {
        (is_over(item), std::cmp::Reverse(item.alert.grade), item.again, item.alert.number)
    };
    items.sort_by_key(rank);
    let worst = items.iter().filter(|item| !is_over(item)).map(|item| item.alert.grade).max();
    let named = items.len().min(ALERTS_NAMED_MAX);
    let grade = worst.unwrap_or(Grade::Info);
    Notice { channel: channel.name.clone(), grade, items, named }
}

impl Item {
    /// Since when what it says holds, by the wall clock.
    pub fn at(&self) -> Timestamp {
        self.alert.over_at.filter(|_| self.saying == Saying::Over).unwrap_or(self.alert.since)
    }
}
