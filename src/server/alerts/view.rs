//! Alerts and messages as others see them.

use super::key;
use crate::api::{AlertView, Attention, FailedTask, NoticeItem, NoticeView, OrderView};
use crate::kernel::alerts::{Alert, Grade, Item, Notice, Rule, Saying};
use crate::kernel::ids::{LifeTime, Moment, Timestamp};
use crate::kernel::rules::Rules;
use crate::kernel::text::Text;
use crate::units::rfc3339;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Alerts that `status` names one by one.
const NAMED_MAX: usize = 10;

/// One alert at `now`.
pub(super) fn alert(alert: &Alert, rules: &Rules, now: LifeTime) -> AlertView {
    let of = alert.failure.as_ref().map(|failure| rules.of(&failure.kind));
    let state = match (alert.is_flapping(now), alert.stands()) {
        (true, _) => "flapping",
        (false, true) => "standing",
        (false, false) => "over",
    };
    AlertView {
        id: alert.number,
        rule: alert.rule.word().to_owned(),
        subject: alert.subject.to_string(),
        level: alert.grade.word().to_owned(),
        what: alert.sentence(),
        state: state.to_owned(),
        since: rfc3339(alert.since),
        last: rfc3339(alert.last),
        over: alert.over_at.map(rfc3339),
        count: alert.count,
        acked: alert.acked.as_ref().map(|order| OrderView {
            by: order.by.to_string(),
            at: rfc3339(order.at),
            reason: None,
        }),
        task: alert.failure.as_ref().map(|failure| FailedTask {
            id: failure.task,
            kind: failure.kind.to_string(),
            status: failure.status.word().to_owned(),
            reason: failure.reason.word().to_owned(),
            attempts: failure.attempts,
            retries: failure.retries,
            error: failure.error.as_ref().map(Text::to_string),
            log: format!("midwatch log {}", failure.task),
        }),
        action: alert.rule.action().to_owned(),
        advice: of.and_then(|of| of.advice.as_ref()).map(Text::to_string),
        contact: of.and_then(|of| of.contact.as_ref()).map(Text::to_string),
        commands: commands(alert),
    }
}

fn commands(alert: &Alert) -> Vec<String> {
    let subject = &alert.subject;
    match (alert.rule, &alert.failure) {
        (Rule::TaskFailed | Rule::ScheduleFailed, Some(failure)) => {
            let id = failure.task;
            vec![format!("midwatch show {id}"), format!("midwatch retry {id}")]
        }
        (Rule::ScheduleFailed | Rule::ScheduleSilent, _) => {
            vec![format!("midwatch schedule show {subject}")]
        }
        (Rule::TaskStalled, _) => {
            vec![format!("midwatch show {subject}"), format!("midwatch log {subject} -f")]
        }
        (Rule::WorkerLost | Rule::NoWorker, _) => vec!["midwatch workers".to_owned()],
        (Rule::BacklogGrowing, _) => vec!["midwatch type list".to_owned()],
        (Rule::ClockStepped, _) => vec!["midwatch schedule list".to_owned()],
        (Rule::ChannelFailing, _) => vec![format!("midwatch alerts test {subject}")],
        (Rule::Overflow, _) => vec!["midwatch alerts".to_owned()],
        _ => vec!["midwatch status".to_owned()],
    }
}

/// Joins what status found with the alerts that stand: the one place that says how grave a point
/// is once somebody knows of it. What was acknowledged is not critical and says by whom; what was
/// not offers to be; and what no point tells yet gets one of its own.
pub(crate) fn join(points: &mut Vec<Attention>, standing: &[Alert]) {
    let by_key: BTreeMap<_, _> =
        standing.iter().map(|alert| (key(alert.rule, &alert.subject), alert)).collect();
    for point in points.iter_mut() {
        if let Some(alert) = point.alert.as_ref().and_then(|key| by_key.get(key)) {
            settle(point, alert);
        }
    }
    points.extend(besides(standing));
}

/// What somebody's knowing of the alert, or nobody's, means for a point that tells the same.
fn settle(point: &mut Attention, alert: &Alert) {
    match &alert.acked {
        None => point.commands.push(format!("midwatch alerts ack {}", alert.number)),
        // It became critical since, and its alert is raised anew at the next look.
        Some(_) if point.critical && alert.grade < Grade::Critical => {}
        Some(order) => {
            point.critical = false;
            point.what.push_str(&format!(" (acknowledged by {})", order.by));
        }
    }
}

/// The alerts that need a person and are told in `status` by nothing else.
fn besides(standing: &[Alert]) -> Vec<Attention> {
    let of_its_own = |alert: &&Alert| match alert.rule {
        // The tasks themselves are named.
        Rule::TaskFailed | Rule::ScheduleFailed => alert.grade == Grade::Critical,
        // So is a worker that is offline.
        Rule::WorkerLost => alert.reason.is_some(),
        // Status looks for itself, and sees their end before their alert is cleared.
        Rule::NoWorker
        | Rule::DiskLow
        | Rule::StateFull
        | Rule::JournalDamaged
        | Rule::MemoryGrowing
        | Rule::FilesGrowing
        | Rule::ConfigRefused
        | Rule::ChildParked
        | Rule::InboxStopped
        | Rule::ArchiveFailing => false,
        Rule::ScheduleSilent
        | Rule::TaskStalled
        | Rule::BacklogGrowing
        | Rule::ClockStepped
        | Rule::ChannelFailing
        | Rule::StoreStalled
        | Rule::Overflow => true,
    };
    let mut alerts: Vec<_> = standing.iter().filter(of_its_own).collect();
    alerts.sort_by_key(|alert| (Reverse(alert.grade), alert.number));
    let point = |alert: &&Alert| {
        let mut point = Attention {
            critical: alert.grade == Grade::Critical,
            what: alert.sentence(),
            commands: commands(alert),
            alert: Some(key(alert.rule, &alert.subject)),
        };
        settle(&mut point, alert);
        point
    };
    let mut points: Vec<_> = alerts.iter().take(NAMED_MAX).map(point).collect();
    let more = alerts.len().saturating_sub(points.len());
    if 0 < more {
        points.push(Attention {
            critical: false,
            what: format!("{more} more alerts stand"),
            commands: vec!["midwatch alerts".to_owned()],
            alert: None,
        });
    }
    points
}

/// A message.
pub(super) fn notice(notice: &Notice, rules: &Rules, now: Moment, host: &str) -> NoticeView {
    let item = |item: &Item| NoticeItem {
        says: item.saying.word().to_owned(),
        again: item.again,
        text: item.sentence(),
        alert: alert(&item.alert, rules, now.life),
    };
    NoticeView {
        title: notice.headline(),
        alerts: notice.items.iter().take(notice.named).map(item).collect(),
        more: notice.items.len().saturating_sub(notice.named),
        ..bare(&notice.channel, notice.grade, now.wall, host)
    }
}

/// A message that only tests the way.
pub(super) fn test_notice(channel: &str, host: &str) -> NoticeView {
    NoticeView {
        title: format!("this is a test of channel {channel}; nothing is wrong"),
        test: true,
        ..bare(channel, Grade::Info, crate::clock::read().wall, host)
    }
}

/// The hourly report as a message.
pub(super) fn report(channel: &str, host: &str, lines: &[String]) -> NoticeView {
    NoticeView {
        title: "the hourly report".to_owned(),
        report: lines.to_vec(),
        ..bare(channel, Grade::Info, crate::clock::read().wall, host)
    }
}

/// The message of a store that hangs, which can say nothing itself.
pub(super) fn stalled(channel: &str, host: &str) -> NoticeView {
    let wall = crate::clock::read().wall;
    let what =
        "the store has not answered for a minute: nothing is accepted and nothing dispatched";
    let rule = Rule::StoreStalled;
    let item = NoticeItem {
        says: Saying::Stands.word().to_owned(),
        again: false,
        text: what.to_owned(),
        alert: AlertView {
            id: 0,
            rule: rule.word().to_owned(),
            subject: "store".to_owned(),
            level: Grade::Critical.word().to_owned(),
            what: what.to_owned(),
            state: "standing".to_owned(),
            since: rfc3339(wall),
            last: rfc3339(wall),
            over: None,
            count: 1,
            acked: None,
            task: None,
            action: rule.action().to_owned(),
            advice: None,
            contact: None,
            commands: Vec::new(),
        },
    };
    NoticeView {
        title: what.to_owned(),
        alerts: vec![item],
        ..bare(channel, Grade::Critical, wall, host)
    }
}

fn bare(channel: &str, grade: Grade, at: Timestamp, host: &str) -> NoticeView {
    NoticeView {
        channel: channel.to_owned(),
        level: grade.word().to_owned(),
        title: String::new(),
        host: host.to_owned(),
        at: rfc3339(at),
        test: false,
        alerts: Vec::new(),
        more: 0,
        report: Vec::new(),
    }
}
