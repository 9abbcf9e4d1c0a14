//! What only the host or the hour knows: looked at about once a minute, and when something is heard.
//!
//! What status tells of the house is an alert too, where it has the name of one. A look costs one
//! visit to the engine's thread, and a record only where something changed.

use super::runs::Runs;
use super::silence::Periods;
use crate::api::Attention;
use crate::clock;
use crate::kernel::alerts::{Alert, Grade, Rule};
use crate::kernel::event::Actor;
use crate::kernel::ids::{LifeTime, Millis};
use crate::kernel::rules::Rules;
use crate::kernel::text::Text;
use crate::kernel::{AlertAct, Command, State};
use crate::server::app::App;
use crate::server::host::Facts;
use crate::server::status;
use crate::units::{rfc3339, span};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// From what is heard to the look: what comes together is seen together.
const BREATH: Duration = Duration::from_secs(1);

/// Looks that the growth of the backlog is measured over: half an hour.
const BACKLOG_LOOKS: usize = 30;

/// Fewer due tasks are no backlog.
const BACKLOG_MIN: u64 = 100;

/// Nor are those of which none has waited for so long.
const BACKLOG_AGE: Millis = Millis::secs(15 * 60);

/// How long after a start nothing is over that stood before it: those who know whether it still is
/// (workers, the supervisor, the inbox) have to be heard first.
const SETTLED: Millis = Millis::secs(30);

/// What is remembered from look to look.
#[derive(Debug, Default)]
struct Memory {
    periods: Periods,
    backlog: VecDeque<u64>,
    runs: Runs,
    /// What was raised while there was no room for more alerts: once is enough.
    crowded_out: BTreeSet<(Rule, Text)>,
}

/// One thing that is so.
pub(super) type Wanted = BTreeMap<(Rule, Text), (Grade, Text)>;

/// What a visit to the engine brings.
struct Visit {
    memory: Memory,
    wanted: Wanted,
    /// Alerts that stand, of the rules that are seen to here.
    standing: BTreeMap<(Rule, Text), Standing>,
    /// Those of other rules that are over, for they fade or nothing can end them any more.
    over: Vec<(Rule, Text)>,
    /// Whether there is no room for more alerts.
    is_full: bool,
}

/// An alert that stands.
#[derive(Clone, Copy, Debug)]
struct Standing {
    grade: Grade,
    /// Since before the engine started.
    is_old: bool,
}

/// Raises and clears for ever.
pub(in crate::server) async fn keep_watch(app: Arc<App>) -> ! {
    let mut memory = Memory::default();
    loop {
        memory = match look(&app, memory).await {
            Ok(memory) => memory,
            Err(memory) => memory.unwrap_or_default(),
        };
        let heard = tokio::select! {
            () = app.house.heard() => true,
            () = app.post.wanted() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        if heard {
            tokio::time::sleep(BREATH).await;
        }
    }
}

async fn look(app: &App, memory: Memory) -> Result<Memory, Option<Memory>> {
    let uptime = Millis(clock::monotonic().0.saturating_sub(app.about.since.0));
    let visit = app.hand.read(move |facts| visit(facts, memory, uptime));
    let visit = visit.map_err(|_busy| None)?.await.map_err(|_gone| None)?;
    let Visit { mut memory, mut wanted, mut standing, over, is_full } = visit;
    if !is_full {
        memory.crowded_out.clear();
    }
    take_points(&mut wanted, &status::of_the_host(app));
    let mut acts = Vec::new();
    let damaged = (Rule::JournalDamaged, Text::from("journal"));
    let is_known = standing.get(&damaged).is_some_and(|known| known.is_old);
    if is_known && app.about.recovery.suspicious.is_some() {
        // What this start set aside is new, however well the former damage is known.
        standing.remove(&damaged);
        let (rule, subject) = damaged;
        acts.push(AlertAct::Clear { rule, subject });
    }
    for (key, (grade, what)) in &wanted {
        let (rule, subject) = key;
        let known = standing.get(key).is_some_and(|known| known.grade == *grade);
        let has_no_room = is_full && !known;
        if has_no_room && !memory.crowded_out.insert(key.clone()) {
            continue;
        }
        if !known || rule.words_matter() {
            let (subject, what) = (subject.clone(), what.clone());
            acts.push(AlertAct::Raise { rule: *rule, subject, grade: *grade, what });
        }
    }
    let channels: BTreeSet<_> =
        app.post.channels().into_iter().map(|(channel, _)| channel.channel.name).collect();
    let ended = standing.into_iter().filter(|(key, known)| match key {
        // A channel says itself that it works again, unless there is none any more.
        (Rule::ChannelFailing, name) => !channels.contains(name),
        key => !wanted.contains_key(key) && (SETTLED <= uptime || !known.is_old),
    });
    let over = ended.map(|(key, _)| key).chain(over);
    acts.extend(over.map(|(rule, subject)| AlertAct::Clear { rule, subject }));
    if acts.is_empty() {
        return Ok(memory);
    }
    let commands = acts.into_iter().map(Command::ActOnAlerts).collect();
    match app.hand.ask(Actor::Daemon, commands) {
        Ok(asked) => drop(asked.await),
        Err(busy) => tracing::debug!("alerts are raised another time: {busy}"),
    }
    Ok(memory)
}

fn visit(facts: &Facts<'_>, mut memory: Memory, uptime: Millis) -> Visit {
    let state = facts.engine.state();
    let mut wanted = Wanted::new();
    take_points(&mut wanted, &status::of_the_engine(facts, uptime));
    if !facts.now.doubtful {
        for (schedule, last) in memory.periods.silent(state, facts.now.wall) {
            let what = format!("schedule {schedule} has had no success since {}", rfc3339(last));
            wanted.insert((Rule::ScheduleSilent, schedule), (Grade::Warning, what.into()));
        }
    }
    of_the_backlog(&mut wanted, &mut memory.backlog, state, facts.now.life);
    for (task, what) in memory.runs.stalled(state, facts.engine.rules(), facts.now) {
        wanted.insert((Rule::TaskStalled, task), (Grade::Warning, what));
    }
    let key = |alert: &Alert| (alert.rule, alert.subject.clone());
    let started = state.head().started_life;
    let standing = state.alerts().standing().filter(|alert| is_seen_to(alert.rule));
    let standing = standing.map(|alert| {
        (key(alert), Standing { grade: alert.grade, is_old: alert.came_at < started })
    });
    let rules = facts.engine.rules();
    let is_over = |alert: &&Alert| has_faded(alert, facts.now.life) || is_moot(alert, state, rules);
    Visit {
        wanted,
        standing: standing.collect(),
        over: state.alerts().standing().filter(is_over).map(key).collect(),
        is_full: state.alerts().standing().any(|alert| alert.rule == Rule::Overflow),
        memory,
    }
}

/// Whether it only happened, and that long ago.
fn has_faded(alert: &Alert, now: LifeTime) -> bool {
    alert.rule.fades().is_some_and(|after| alert.said.after(after) <= now)
}

/// Whether it is about failures that no success can follow: the type has gone from the config, or
/// the schedule is removed, and nothing of it is alive that may still end.
pub(super) fn is_moot(alert: &Alert, state: &State, rules: &Rules) -> bool {
    let subject = &alert.subject;
    let is_gone = |kind: &Text| !rules.kinds.contains_key(kind);
    match alert.rule {
        Rule::TaskFailed => is_gone(subject) && state.tally(subject).live() == 0,
        Rule::ScheduleFailed => {
            let kind = state.schedule(subject).map(|schedule| &schedule.spec.kind);
            kind.is_none_or(is_gone) && state.live_count(subject) == 0
        }
        _ => false,
    }
}

/// Whether an alert of that rule is raised and cleared here.
const fn is_seen_to(rule: Rule) -> bool {
    match rule {
        Rule::TaskFailed
        | Rule::ScheduleFailed
        | Rule::WorkerLost
        | Rule::ClockStepped
        | Rule::StoreStalled
        | Rule::Overflow => false,
        Rule::ScheduleSilent
        | Rule::TaskStalled
        | Rule::BacklogGrowing
        | Rule::NoWorker
        | Rule::DiskLow
        | Rule::StateFull
        | Rule::JournalDamaged
        | Rule::MemoryGrowing
        | Rule::FilesGrowing
        | Rule::ConfigRefused
        | Rule::ChildParked
        | Rule::InboxStopped
        | Rule::ArchiveFailing
        | Rule::ChannelFailing => true,
    }
}

/// The points of attention that have the name of an alert which is raised here.
pub(super) fn take_points(wanted: &mut Wanted, points: &[Attention]) {
    for point in points {
        let Some((rule, subject)) = point.alert.as_deref().and_then(|key| key.split_once(' '))
        else {
            continue;
        };
        let Some(rule) = rule.parse().ok().filter(|rule| is_seen_to(*rule)) else { continue };
        let grade = if point.critical { Grade::Critical } else { Grade::Warning };
        wanted.entry((rule, subject.into())).or_insert_with(|| (grade, point.what.as_str().into()));
    }
}

/// The backlog grows when twice as many tasks are due as were within the last half hour, and the
/// oldest waits for long. It is over when half of that is left.
fn of_the_backlog(wanted: &mut Wanted, looks: &mut VecDeque<u64>, state: &State, now: LifeTime) {
    let due = u64::try_from(state.index().ready_count()).unwrap_or(u64::MAX);
    if BACKLOG_LOOKS <= looks.len() {
        looks.pop_front();
    }
    let subject = Text::from("tasks");
    let stands = state.alerts().get(Rule::BacklogGrowing, &subject).is_some_and(Alert::stands);
    let least = looks.iter().copied().min().unwrap_or(due);
    let most = looks.iter().copied().max().unwrap_or(due);
    looks.push_back(due);
    let waited = state.index().oldest_due().map(|oldest| now.since(oldest)).unwrap_or_default();
    let grows = least.saturating_mul(2) <= due && BACKLOG_AGE <= waited;
    let stays = stands && most / 2 < due && BACKLOG_AGE <= waited;
    if BACKLOG_MIN <= due && (grows || stays) {
        let waited = span(Millis(waited.0 / 60_000 * 60_000));
        let what = format!("{due} due tasks wait, the oldest for {waited}, and they become more");
        wanted.insert((Rule::BacklogGrowing, subject), (Grade::Warning, what.into()));
    }
}
