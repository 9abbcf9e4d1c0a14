//! Decisions on alerts: what the host or the hour knows, who was told, and who knows of it.

use super::{Answer, Ask, Decision, Rejection};
use crate::kernel::alerts::{Alert, Grade, Rule, Told};
use crate::kernel::event::{AlertAcked, AlertCleared, AlertRaised, AlertsTold, Event};
use crate::kernel::text::Text;

/// What somebody wants of alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertAct {
    /// Something is wrong. That it still is, is no news.
    Raise {
        /// What.
        rule: Rule,
        /// With what.
        subject: Text,
        /// How bad it is.
        grade: Grade,
        /// In words.
        what: Text,
    },
    /// It is not wrong any more.
    Clear {
        /// What.
        rule: Rule,
        /// With what.
        subject: Text,
    },
    /// A person knows of it.
    Ack(u64),
    /// A channel was told; of nothing, where it is new.
    Tell {
        /// The channel.
        channel: Text,
        /// What it knows now.
        told: Vec<Told>,
    },
}

impl Ask<'_> {
    pub(super) fn act_on_alerts(self, act: &AlertAct) -> Result<Decision, Rejection> {
        let alerts = self.state.alerts();
        let event = match act {
            AlertAct::Raise { rule, subject, grade, what } => {
                let stands = alerts.get(*rule, subject).filter(|alert| alert.stands());
                let known = stands.is_some_and(|alert| {
                    let same = alert.what.as_ref().is_none_or(|known| is_same(known, what));
                    alert.grade == *grade && (same || !rule.words_matter())
                });
                (!known).then(|| {
                    let (subject, what) = (subject.clone(), what.clone());
                    Event::AlertRaised(AlertRaised { rule: *rule, subject, grade: *grade, what })
                })
            }
            AlertAct::Clear { rule, subject } => {
                let stands = alerts.get(*rule, subject).is_some_and(Alert::stands);
                let subject = subject.clone();
                stands.then_some(Event::AlertCleared(AlertCleared { rule: *rule, subject }))
            }
            AlertAct::Ack(number) => {
                let Some(alert) = alerts.numbered(*number) else {
                    return Err(Rejection::NoSuchAlert(*number));
                };
                let open = alert.stands() && alert.acked.is_none();
                open.then_some(Event::AlertAcked(AlertAcked { alert: *number }))
            }
            AlertAct::Tell { channel, told } => {
                let is_news = !told.is_empty() || alerts.channel(channel).is_none();
                let (channel, told) = (channel.clone(), told.clone());
                is_news.then_some(Event::AlertsTold(AlertsTold { channel, told }))
            }
        };
        let answer = Answer::AlertActed { changed: event.is_some() };
        Ok(Decision { events: event.into_iter().collect(), answer })
    }
}

/// Whether what is kept are the words, clipped.
fn is_same(known: &Text, what: &Text) -> bool {
    *known == Text::clipped(what, crate::limits::ALERT_TEXT_BYTES_MAX)
}
