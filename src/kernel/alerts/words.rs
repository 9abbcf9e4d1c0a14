//! Alerts and notices in words. They are made when somebody reads them and stand in no record, so
//! that they may become better.

use super::{Alert, Failure, Grade, Item, Notice, Rule, Saying};
use std::fmt::Write;

/// Longest text that an alert keeps of an error or of who raised it.
pub const DETAIL_BYTES_MAX: usize = crate::limits::ALERT_TEXT_BYTES_MAX;

impl Alert {
    /// What is wrong, in one line.
    pub fn sentence(&self) -> String {
        if let Some(what) = &self.what {
            return what.to_string();
        }
        let subject = &self.subject;
        match (self.rule, &self.failure) {
            (Rule::TaskFailed, Some(failure)) => match self.count {
                0 | 1 => failure.sentence(),
                count => {
                    let last = failure.sentence();
                    format!("{count} tasks of type {subject} failed one after the other; {last}")
                }
            },
            (Rule::ScheduleFailed, Some(failure)) => {
                let times = match self.count {
                    0 | 1 => "failed".to_owned(),
                    count => format!("failed {count} times one after the other"),
                };
                format!("schedule {subject} {times}; {}", failure.sentence())
            }
            (Rule::WorkerLost, _) => {
                let how = self.reason.map_or("was silent for too long", |_| "died");
                match self.count {
                    0 | 1 => format!("worker {subject} {how}"),
                    count => format!("worker {subject} {how}, {count} times by now"),
                }
            }
            (Rule::ClockStepped, _) => match self.step {
                Some(step) => {
                    let (word, span) = if step.from < step.to {
                        ("forward", step.to.since(step.from))
                    } else {
                        ("back", step.from.since(step.to))
                    };
                    format!("the wall clock was put {word} by {} s", span.0 / 1000)
                }
                None => "the wall clock was put".to_owned(),
            },
            (Rule::Overflow, _) => {
                format!("{} more alerts were raised than are kept", self.count)
            }
            (rule, _) => format!("{} of {subject}", rule.word()),
        }
    }
}

impl Failure {
    /// The task and how it ended, in one line.
    pub fn sentence(&self) -> String {
        let Self { task, kind, status, reason, attempts, retries: _, error } = self;
        let plural = if *attempts == 1 { "attempt" } else { "attempts" };
        let mut text = format!("task {task} {kind} is {status} after {attempts} {plural}");
        let said = match error {
            Some(error) => write!(text, ": {error} ({reason})"),
            None => write!(text, " ({reason})"),
        };
        debug_assert!(said.is_ok(), "text takes all words");
        text
    }
}

impl Notice {
    /// The notice in one line.
    pub fn headline(&self) -> String {
        let count = |saying: Saying| self.items.iter().filter(|it| it.saying == saying).count();
        if let [item] = &*self.items {
            return item.sentence();
        }
        let grave = self
            .items
            .iter()
            .filter(|item| item.saying == Saying::Stands && item.alert.grade == Grade::Critical);
        let parts = [
            (count(Saying::Stands), "stand"),
            (grave.count(), "of these are critical"),
            (count(Saying::Flaps), "come and go"),
            (count(Saying::Over), "are over"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count != 0);
        let parts: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        format!("{} alerts: {}", self.items.len(), parts.join(", "))
    }
}

impl Item {
    /// What is said of the alert, in one line.
    pub fn sentence(&self) -> String {
        let what = self.alert.sentence();
        match self.saying {
            Saying::Stands if self.again => format!("still: {what}"),
            Saying::Stands => what,
            Saying::Over => format!("over: {what}"),
            Saying::Flaps => {
                format!("it comes and goes, and is told again once it has settled: {what}")
            }
        }
    }
}
