//! What the server knows of its house besides the engine: how the last reading of the config went,
//! which of the supervisor's other children keep ending, and whether it can be reached by TCP. Only
//! `status` asks for it.

use super::status::{alert, point};
use crate::api::Attention;
use crate::config::Running;
use crate::kernel::alerts::Rule;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Shared by those who learn of it and those who tell it.
#[derive(Debug, Default)]
pub(crate) struct House {
    news: Mutex<News>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct News {
    /// Why the config as it is now was refused.
    refused: Option<String>,
    /// Keys whose new values wait for a restart.
    restart: Vec<String>,
    /// Children that keep ending, by name, with how they ended.
    parked: BTreeMap<String, String>,
    /// What stands in the way of the inbox.
    inbox: Option<String>,
    /// Why nobody is served by TCP, and the command that shows what is in the way.
    tcp: Option<(String, String)>,
}

impl House {
    fn news<T>(&self, look: impl FnOnce(&mut News) -> T) -> T {
        look(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until something is heard that may be an alert.
    pub(crate) async fn heard(&self) {
        self.bell.notified().await;
    }

    /// Notes how the config's last reading went.
    pub(crate) fn note_config(&self, running: &Running) {
        self.news(|news| {
            news.refused = running.refused().map(ToString::to_string);
            news.restart = running.restart().iter().cloned().collect();
        });
        self.bell.notify_one();
    }

    /// Takes a line of the supervisor: `parked NAME HOW IT ENDED`, or `well NAME`. Others are of a
    /// later version, and passed over.
    pub(crate) fn hear(&self, line: &str) {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("parked"), Some(name), how) => self.news(|news| {
                news.parked.insert(name.to_owned(), how.unwrap_or_default().to_owned());
            }),
            (Some("well"), Some(name), None) => self.news(|news| drop(news.parked.remove(name))),
            _ => tracing::debug!(line, "the supervisor said something unknown"),
        }
        self.bell.notify_one();
    }

    /// Notes what stands in the way of the inbox.
    pub(crate) fn note_inbox(&self, trouble: Option<String>) {
        let changed = self.news(|news| {
            let changed = news.inbox != trouble;
            news.inbox = trouble;
            changed
        });
        if changed {
            self.bell.notify_one();
        }
    }

    /// Notes why the TCP address cannot be had, with the command that shows what is in the way.
    pub(crate) fn note_tcp(&self, trouble: Option<(String, String)>) {
        self.news(|news| news.tcp = trouble);
    }

    /// Whether the config's last reading was taken.
    pub(crate) fn config_is_ok(&self) -> bool {
        self.news(|news| news.refused.is_none())
    }

    /// What of it needs a person.
    pub(crate) fn points(&self) -> Vec<Attention> {
        let point = |critical, what, command: &str| point(critical, what, &[command.to_owned()]);
        // Only a supervisor tells of parked children, and the engine does not outlive it.
        let try_again = format!("kill -HUP {}", std::os::unix::process::parent_id());
        self.news(|news| {
            let mut points: Vec<_> = news
                .parked
                .iter()
                .map(|(name, how)| {
                    let what = format!(
                        "{name} keeps ending, and is tried only now and then: {how}; mend that, \
                         then SIGHUP to the supervisor starts it at once"
                    );
                    alert(Rule::ChildParked, name, point(true, what, &try_again))
                })
                .collect();
            if let Some(why) = &news.refused {
                let what = format!("the config was refused, and what was in force stays: {why}");
                let point = point(false, what, "midwatch config check");
                points.push(alert(Rule::ConfigRefused, "config", point));
            }
            if !news.restart.is_empty() {
                let keys = news.restart.join(", ");
                let what = format!("these keys of the config wait for a restart: {keys}");
                points.push(point(false, what, "midwatch config show"));
            }
            if let Some(why) = &news.inbox {
                let what = format!("the inbox takes nothing: {why}");
                let point = point(false, what, "midwatch config show");
                points.push(alert(Rule::InboxStopped, "inbox", point));
            }
            if let Some((what, command)) = &news.tcp {
                points.push(point(false, what.clone(), command));
            }
            points
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: SUP-011
    #[test]
    fn a_parked_child_is_told_until_it_is_well_and_what_is_unknown_is_passed_over() {
        let house = House::default();
        house.hear("parked w1 ended with exit code 3");
        house.hear("parked w2");
        house.hear("praises w3 for its work");
        house.hear("");
        let told: Vec<_> = house.points().into_iter().map(|point| point.what).collect();
        let expected = ["w1: ended with exit code 3", "w2: "].map(|child| {
            child.replacen(':', " keeps ending, and is tried only now and then:", 1)
                + "; mend that, then SIGHUP to the supervisor starts it at once"
        });
        assert_eq!(told, expected);
        let remedy = format!("kill -HUP {}", std::os::unix::process::parent_id());
        assert!(house.points().iter().all(|point| point.commands == [remedy.as_str()]));
        house.hear("well w1");
        house.hear("well w2");
        assert!(house.points().is_empty());
    }
}
