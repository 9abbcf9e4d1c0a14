//! `GET /v1/status`: one screen of health, and what needs a person.

use super::alerts;
use super::app::{Answered, App, ok};
use super::host::Facts;
use super::problems::{Failure, invalid};
use super::stalled::{stalled, within_patience};
use crate::api::{Attention, ClockView, NextFire, StatusView, StepView};
use crate::clock;
use crate::journal::{Recovery, Stats, SyncTimes, TailClass};
use crate::kernel::alerts::{Alert, Rule};
use crate::kernel::event::Standing;
use crate::kernel::ids::{Millis, Seq, TaskId, Timestamp};
use crate::kernel::status::Status;
use crate::kernel::text::Text;
use crate::kernel::{Image, Queue, State};
use crate::units::{bytes, rfc3339, span};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State as Shared};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What does not change while the daemon runs.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Version of the program.
    pub(crate) version: String,
    /// Name of the host.
    pub(crate) host: String,
    /// The monotonic clock when it began to serve.
    pub(crate) since: Millis,
    /// The fsync policy as the config has it.
    pub(crate) fsync: String,
    /// Whether what was answered may be lost with the power.
    pub(crate) fsync_is_weak: bool,
    /// What the last start found.
    pub(crate) recovery: Recovered,
    /// Bytes kept free for the ends of running tasks.
    pub(crate) reserve: u64,
    /// How long syncs take.
    pub(crate) sync_times: Arc<SyncTimes>,
}

/// What the last start found, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// In one line.
    pub(crate) line: String,
    /// What is suspicious about it.
    pub(crate) suspicious: Option<String>,
    /// How long it took to read.
    pub(crate) took: Millis,
}

impl Recovered {
    /// What a recovery found.
    pub(crate) fn of(recovery: &Recovery) -> Self {
        let mut suspicious = None;
        let tail = match &recovery.tail {
            TailClass::End if recovery.created => return Self::new("a new store was made"),
            TailClass::End if recovery.clean_close => "closed cleanly".to_owned(),
            TailClass::End => "not closed, whole to its end".to_owned(),
            TailClass::Torn { bytes, .. } => {
                format!("a write of {bytes} bytes was torn by a crash; it was never acknowledged")
            }
            TailClass::Suspicious { file, offset, bytes, quarantined, what } => {
                let kept = quarantined.as_deref().unwrap_or("nowhere");
                suspicious = Some(format!(
                    "the last record of {file} at byte {offset} is whole but wrong ({what}); \
                     {bytes} bytes were set aside in {kept}"
                ));
                "suspicious end".to_owned()
            }
        };
        let base = match &recovery.snapshot {
            Some(snapshot) => format!("snapshot {} and {} records", snapshot.seq, recovery.records),
            None => format!("{} records", recovery.records),
        };
        let mut line = format!("{base}; {tail}");
        if recovery.adopted {
            line.push_str("; taken over from another machine");
        }
        for note in &recovery.notes {
            line.push_str("; ");
            line.push_str(note);
        }
        Self { line, suspicious, took: Millis(0) }
    }

    fn new(line: &str) -> Self {
        Self { line: line.to_owned(), ..Self::default() }
    }
}

/// Query of the status.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusQuery {
    digest: Option<u8>,
}

/// What one look at the facts gives.
struct Look {
    figures: Figures,
    tasks: BTreeMap<String, u64>,
    seq: Seq,
    schedules: usize,
    next_fire: Option<NextFire>,
    state_bytes: (u64, u64),
    journal: Stats,
    attention: Vec<Attention>,
    image: Option<Image>,
    clock: ClockView,
    alerts: Vec<Alert>,
}

/// Figures of workers and waiting tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) oldest_waiting: Option<Millis>,
    pub(super) alive: u32,
    pub(super) suspect: u32,
    pub(super) offline: u32,
    /// Slots of those that are not offline, and how many of these are taken.
    pub(super) slots: u32,
    pub(super) busy: u32,
}

/// `GET /v1/status`.
pub(crate) async fn status(
    Shared(app): Shared<Arc<App>>,
    query: Result<Query<StatusQuery>, QueryRejection>,
) -> Answered {
    let Query(StatusQuery { digest }) = query.map_err(|error| invalid(error.body_text()))?;
    Ok(ok(&view(&app, digest.unwrap_or(0) != 0).await?))
}

/// The screen of health, with the digest of the state if that is wanted.
pub(crate) async fn view(app: &App, with_image: bool) -> Result<StatusView, Failure> {
    let uptime = Millis(clock::monotonic().0.saturating_sub(app.about.since.0));
    let asked = app.hand.read(move |facts| look(facts, with_image, uptime));
    let Some(look) = within_patience(asked, &app.pulse).await? else {
        return Ok(stalled(app, uptime));
    };
    let Look { figures, tasks, seq, schedules, next_fire, state_bytes, .. } = look;
    let Look { journal, mut attention, image, clock, alerts: standing, .. } = look;
    let (taken, max) = state_bytes;
    let digest = match image {
        // Costs as much as all tasks, so not on the thread that serves.
        Some(image) => {
            tokio::task::spawn_blocking(move || crate::engine::digest(&image)).await.ok()
        }
        None => None,
    };
    let about = &app.about;
    attention.extend(of_the_host(app));
    attention.extend(of_the_ping(app));
    alerts::join(&mut attention, &standing);
    let health = grade(&mut attention);
    let view = StatusView {
        version: about.version.clone(),
        host: about.host.clone(),
        pid: std::process::id(),
        uptime_ms: uptime.0,
        data_dir: app.data_dir.display().to_string(),
        fsync: about.fsync.clone(),
        health,
        attention,
        seq,
        tasks,
        oldest_waiting_ms: figures.oldest_waiting.map(|waited| waited.0),
        schedules: schedules as u64,
        next_fire,
        workers_alive: figures.alive,
        workers_suspect: figures.suspect,
        workers_offline: figures.offline,
        slots: figures.slots,
        slots_busy: figures.busy,
        state_bytes: taken,
        state_bytes_max: max,
        journal_segments: journal.segments,
        journal_bytes: journal.bytes,
        syncs: journal.syncs,
        disk_free: free_space(&app.data_dir),
        recovery: about.recovery.line.clone(),
        config_reload_ok: app.house.config_is_ok(),
        clock,
        processes: app.own_health.processes(),
        stalled_ms: None,
        digest,
    };
    app.remember(&view);
    Ok(view)
}

/// The word for all of it; what is critical comes first.
pub(super) fn grade(attention: &mut [Attention]) -> String {
    attention.sort_by_key(|point| !point.critical);
    let word = match attention.first() {
        Some(Attention { critical: true, .. }) => "CRITICAL",
        Some(_) => "ATTENTION",
        None => "OK",
    };
    word.to_owned()
}

/// What of the host, the config, midwatch's own processes and the supervisor's children needs a
/// person.
pub(super) fn of_the_host(app: &App) -> Vec<Attention> {
    let mut points = of_the_house(&app.about, free_space(&app.data_dir));
    points.extend(quarantine(&app.data_dir));
    points.extend(app.house.points());
    points.extend(app.own_health.points());
    points
}

/// What of the tasks, the workers and the journal does.
pub(super) fn of_the_engine(facts: &Facts<'_>, uptime: Millis) -> Vec<Attention> {
    let state = facts.engine.state();
    let bytes = (state.bytes(), facts.engine.rules().max_state);
    let mut points = of_the_tasks(state, figures(facts), facts.now.wall, uptime);
    points.extend(of_the_bounds(bytes, facts.engine.archive_trouble()));
    points
}

/// A ping that does not arrive: whoever waits for it takes this host for dead.
fn of_the_ping(app: &App) -> Option<Attention> {
    let what = format!("the ping does not arrive: {}", app.post.ping_trouble()?);
    Some(point(false, what, &["midwatch config show".to_owned()]))
}

pub(super) fn free_space(path: &Path) -> Option<u64> {
    fs2::available_space(path).ok()
}

fn look(facts: &Facts<'_>, with_image: bool, uptime: Millis) -> Look {
    let state = facts.engine.state();
    let figures = figures(facts);
    let count = |status: &Status| (status.word().to_owned(), state.index().count(*status) as u64);
    let state_bytes = (state.bytes(), facts.engine.rules().max_state);
    let mut attention = of_the_engine(facts, uptime);
    attention.extend(of_the_clock(facts));
    attention.extend(super::schedules::points(facts));
    let next = state.next_schedule(facts.now.doubtful);
    Look {
        schedules: state.schedule_count(),
        next_fire: next.map(|(at, name)| NextFire { schedule: name.to_string(), at: rfc3339(*at) }),
        figures,
        tasks: Status::ALL.iter().map(count).collect(),
        seq: state.head().seq,
        state_bytes,
        journal: facts.engine.journal().stats(),
        attention,
        image: with_image.then(|| state.image()),
        alerts: state.alerts().standing().cloned().collect(),
        clock: ClockView {
            held: facts.now.doubtful,
            steps: state.head().steps.unwrap_or(0),
            last_step: state
                .head()
                .last_step
                .map(|step| StepView { from: rfc3339(step.from), to: rfc3339(step.to) }),
        },
    }
}

/// A wall clock that cannot be believed: what waits for it waits.
fn of_the_clock(facts: &Facts<'_>) -> Option<Attention> {
    let (now, since) = (facts.now.wall, facts.engine.rules().plausible_since);
    let why = if now < since {
        format!("it shows {}, before this version was made", rfc3339(now))
    } else {
        "nothing keeps it right yet, and `clock.wait_for_sync` is set".to_owned()
    };
    let what = format!("the wall clock is not believed, and schedules by the calendar wait: {why}");
    let commands = ["date".to_owned(), "timedatectl".to_owned()];
    facts.now.doubtful.then(|| point(false, what, &commands))
}

pub(super) fn figures(facts: &Facts<'_>) -> Figures {
    let state = facts.engine.state();
    let mut figures = Figures {
        oldest_waiting: state.index().oldest_due().map(|due| facts.now.life.since(due)),
        ..Figures::default()
    };
    for worker in state.workers() {
        let busy = u32::try_from(state.held_count(worker.id)).unwrap_or(u32::MAX);
        match worker.standing {
            Standing::Alive => figures.alive += 1,
            Standing::Suspect => figures.suspect += 1,
            Standing::Offline | Standing::Gone => {
                figures.offline += 1;
                continue;
            }
        }
        figures.slots = figures.slots.saturating_add(worker.registration.slots);
        figures.busy = figures.busy.saturating_add(busy);
    }
    figures
}

/// How long an end stays worth a person's attention.
const LATE: Millis = Millis::secs(24 * 3600);

/// How long due tasks may wait for a first worker before somebody must look.
const WORKERLESS_MAX: Millis = Millis::secs(10);

/// Ended tasks that are looked at, newest first.
const LOOKED_AT_MAX: usize = 200;

/// Ended tasks that are named one by one.
const NAMED_MAX: usize = 3;

pub(super) fn point(critical: bool, what: String, commands: &[String]) -> Attention {
    Attention { critical, what, commands: commands.to_vec(), alert: None }
}

/// A point that is an alert too.
pub(super) fn alert(rule: Rule, subject: &str, point: Attention) -> Attention {
    Attention { alert: Some(alerts::key(rule, subject)), ..point }
}

fn of_the_tasks(state: &State, figures: Figures, now: Timestamp, uptime: Millis) -> Vec<Attention> {
    let mut points = Vec::new();
    let waiting = state.index().ready_count();
    // Workers need a moment to register after a start.
    let waited = figures.oldest_waiting.unwrap_or_default().min(uptime);
    if figures.alive == 0 && 0 < waiting && WORKERLESS_MAX < waited {
        let what =
            format!("no worker has been alive for {}, and {}", span(waited), due_wait(waiting));
        let commands = ["midwatch workers".to_owned(), "midwatch daemon".to_owned()];
        points.push(alert(Rule::NoWorker, "workers", point(true, what, &commands)));
    }
    if 0 < figures.alive && WORKERLESS_MAX < waited {
        points.extend(of_no_worker(state));
    }
    for worker in state.workers().filter(|worker| worker.standing != Standing::Alive) {
        let (name, standing) = (&worker.registration.name, worker.standing.word());
        let what = format!("worker {} ({name}) is {standing}", worker.id);
        let point = point(false, what, &["midwatch workers".to_owned()]);
        let is_lost = worker.standing == Standing::Offline;
        points.push(if is_lost { alert(Rule::WorkerLost, name, point) } else { point });
    }
    points.extend(paused_types(state, now));
    for status in [Status::Dead, Status::Failed] {
        points.extend(ended_badly(state, status, now));
    }
    points
}

fn due_wait(number: usize) -> String {
    if number == 1 { "1 due task waits".to_owned() } else { format!("{number} due tasks wait") }
}

/// Due tasks of types that no living worker has, such as one that was taken out of the config.
fn of_no_worker(state: &State) -> Vec<Attention> {
    let living = state.workers().filter(|worker| worker.standing == Standing::Alive);
    let offered: BTreeSet<&Text> = living.flat_map(|worker| &worker.registration.kinds).collect();
    let homeless = state.index().ready.iter().filter(|(kind, _)| !offered.contains(kind));
    let points = homeless.filter_map(|(kind, queue)| {
        let waiting = queue.iter().take(LOOKED_AT_MAX).count();
        let count = if waiting == LOOKED_AT_MAX {
            format!("{waiting} and more")
        } else {
            waiting.to_string()
        };
        let what = if waiting == 1 {
            format!("1 due task of type {kind} waits, and no worker can run it")
        } else {
            format!("{count} due tasks of type {kind} wait, and no worker can run them")
        };
        let commands = ["midwatch workers".to_owned(), "midwatch config show".to_owned()];
        (waiting != 0).then(|| point(false, what, &commands))
    });
    points.collect()
}

/// Types that somebody paused: what waits there waits for a person.
fn paused_types(state: &State, now: Timestamp) -> impl Iterator<Item = Attention> {
    let paused = state.task_types().filter_map(|known| Some((&known.kind, known.paused.as_ref()?)));
    paused.map(move |(kind, order)| {
        let due = state.index().ready.get(kind).map_or(0, Queue::len);
        let why = order.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let since = span(now.since(order.at));
        let what =
            format!("type {kind} is paused for {since} by {}, {}{why}", order.by, due_wait(due));
        point(false, what, &[format!("midwatch type resume {kind}")])
    })
}

/// Tasks that became DEAD or FAILED lately, but for those that were made good.
fn ended_badly(state: &State, status: Status, now: Timestamp) -> Vec<Attention> {
    let latest = state.with_status(status).rev().take(LOOKED_AT_MAX);
    let late = latest.filter(|task| now.since(task.updated) < LATE);
    let late: Vec<_> = late.filter(|task| !is_made_good(state, task.id)).collect();
    let named = late.iter().take(NAMED_MAX).map(|task| {
        let error = task.life.as_ref().and_then(|life| life.error.as_deref());
        let first = error.and_then(|error| error.lines().next()).unwrap_or("no error was told");
        let attempts = task.attempt_count();
        let plural = if attempts == 1 { "attempt" } else { "attempts" };
        let (id, kind) = (task.id, &task.kind);
        let what = format!("task {id} {kind} is {status} after {attempts} {plural}: {first}");
        point(false, what, &[format!("midwatch show {id}"), format!("midwatch retry {id}")])
    });
    let mut points: Vec<_> = named.collect();
    let more = late.len().saturating_sub(points.len());
    if 0 < more {
        let looked_at_all = state.index().count(status) <= LOOKED_AT_MAX;
        let and_more = if looked_at_all { "" } else { " and more" };
        let tasks = if more == 1 { "task" } else { "tasks" };
        let what = format!("{more}{and_more} other {tasks} became {status} within 24 h");
        points.push(point(false, what, &[format!("midwatch list --status {status}")]));
    }
    points
}

/// Whether a task that ran it again, or one that ran that one again, ended in SUCCESS.
fn is_made_good(state: &State, id: TaskId) -> bool {
    let mut looks = LOOKED_AT_MAX;
    let mut failed = vec![id];
    while let Some(id) = failed.pop() {
        for again in state.again(id).take(looks) {
            if again.status == Status::Success {
                return true;
            }
            looks = looks.saturating_sub(1);
            failed.push(again.id);
        }
    }
    false
}

/// What keeps new tasks out, or will.
fn of_the_bounds((taken, max): (u64, u64), archive: Option<&str>) -> Vec<Attention> {
    let mut points = Vec::new();
    let config = ["midwatch config show".to_owned()];
    if max.saturating_sub(taken) < max / 10 {
        let what = format!(
            "the tasks take {} of the {} that they may take together; beyond that new ones are \
             refused",
            bytes(taken),
            bytes(max)
        );
        let point = point(max.saturating_sub(taken) < max / 100, what, &config);
        points.push(alert(Rule::StateFull, "state", point));
    }
    if let Some(why) = archive {
        let what = format!("ended tasks stay, for the archive is in trouble: {why}");
        points.push(alert(Rule::ArchiveFailing, "archive", point(false, what, &config)));
    }
    points
}

/// Whether anything lies in the quarantine: it stays a matter until a person has seen to it.
fn quarantine(data_dir: &Path) -> Option<Attention> {
    let dir = data_dir.join("quarantine");
    let kept = std::fs::read_dir(&dir).ok()?.count();
    let what = format!("{kept} pieces of damaged data were set aside in {}", dir.display());
    let commands = [format!("ls -l {}", dir.display()), "midwatch-journal verify".to_owned()];
    (0 < kept).then(|| alert(Rule::JournalDamaged, "journal", point(true, what, &commands)))
}

/// Below this much free space new work may be refused, whatever the reserve.
const NEW_WORK_ROOM: u64 = 3 << 20;

pub(super) fn of_the_house(about: &About, disk_free: Option<u64>) -> Vec<Attention> {
    let mut points = Vec::new();
    if let Some(suspicious) = &about.recovery.suspicious {
        let commands =
            ["midwatch-journal verify".to_owned(), "midwatch-journal inspect".to_owned()];
        let point = point(true, format!("at the last start {suspicious}"), &commands);
        points.push(alert(Rule::JournalDamaged, "journal", point));
    }
    if about.fsync_is_weak {
        let what =
            format!("fsync is `{}`: what was acknowledged may be lost with the power", about.fsync);
        points.push(point(false, what, &["midwatch config show".to_owned()]));
    }
    let (few, least) = (about.reserve.saturating_mul(2), about.reserve.max(NEW_WORK_ROOM));
    if let Some(free) = disk_free.filter(|free| *free < few.max(least)) {
        let full = free < least;
        let refused = if full { "; new work may be refused" } else { "" };
        let what = format!("only {} are free on the data directory's disk{refused}", bytes(free));
        points.push(alert(Rule::DiskLow, "disk", point(full, what, &["df -h".to_owned()])));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::event::{Actor, Event, Stamp, Submitted};
    use crate::kernel::ids::{LifeTime, ServiceTime};

    fn about() -> About {
        About {
            version: String::new(),
            host: String::new(),
            since: Millis(0),
            fsync: "always".to_owned(),
            fsync_is_weak: false,
            recovery: Recovered::default(),
            reserve: 4 << 20,
            sync_times: Arc::default(),
        }
    }

    #[test]
    fn a_sound_house_needs_nobody() {
        assert!(of_the_house(&about(), Some(1 << 30)).is_empty());
        assert!(of_the_house(&about(), None).is_empty());
        assert!(
            of_the_tasks(&State::default(), Figures::default(), Timestamp(0), Millis(0)).is_empty()
        );
    }

    #[test]
    fn due_tasks_without_a_worker_are_critical_once_a_worker_had_time_to_come() {
        let mut state = State::default();
        let spec = crate::kernel::task::TaskSpec::new("fetch_data", "null");
        let task = TaskId(1);
        let stamp = Stamp {
            seq: Seq(1),
            wall: Timestamp(0),
            life: LifeTime(0),
            service: ServiceTime(0),
            by: Actor::Daemon,
        };
        let event = Event::Submitted(Submitted { task, spec, due: LifeTime(0) });
        crate::kernel::apply(&mut state, &stamp, &event).unwrap();
        let figures = Figures { oldest_waiting: Some(Millis::secs(60)), ..Figures::default() };
        let told = |uptime, alive| {
            let points = of_the_tasks(&state, Figures { alive, ..figures }, Timestamp(0), uptime);
            let critical = points.into_iter().find(|point| point.critical);
            critical.map(|point| (point.critical, point.what))
        };
        assert_eq!(told(Millis::secs(5), 0), None);
        assert_eq!(told(Millis::secs(70), 1), None);
        let what = "no worker has been alive for 1 min, and 1 due task waits".to_owned();
        assert_eq!(told(Millis::secs(70), 0), Some((true, what)));
    }

    #[test]
    fn due_tasks_of_a_type_that_no_living_worker_has_are_told() {
        use crate::kernel::event::{Registration, WorkerChanged, WorkerJoined};
        use crate::kernel::ids::{ProcessId, WorkerId};

        let mut state = State::default();
        let mut seq = 0;
        let mut apply = |state: &mut State, event: Event| {
            seq += 1;
            let (wall, life, service) = (Timestamp(0), LifeTime(0), ServiceTime(0));
            let stamp = Stamp { seq: Seq(seq), wall, life, service, by: Actor::Daemon };
            crate::kernel::apply(state, &stamp, &event).unwrap();
        };
        let process =
            ProcessId { pid: 1, start_time: 1, boot_id: "b".to_owned(), pid_namespace: 1 };
        let registration = Registration {
            name: "w".into(),
            process,
            host: "h".into(),
            version: "1".into(),
            lock: "l".into(),
            kinds: vec!["fetch_data".into()],
            slots: 1,
        };
        let worker = WorkerId(1);
        apply(&mut state, Event::WorkerJoined(WorkerJoined { worker, registration }));
        let spec = crate::kernel::task::TaskSpec::new("fetch_data", "null");
        let task = TaskId(1);
        apply(&mut state, Event::Submitted(Submitted { task, spec, due: LifeTime(0) }));
        let waited = Millis::secs(60);
        let figures = Figures { alive: 1, oldest_waiting: Some(waited), ..Figures::default() };
        let told = |state: &State| {
            let points = of_the_tasks(state, figures, Timestamp(0), waited);
            points.into_iter().map(|point| point.what).collect::<Vec<_>>()
        };
        assert!(told(&state).is_empty());
        let changed = WorkerChanged { worker, kinds: vec!["exec".into()], slots: 1 };
        apply(&mut state, Event::WorkerChanged(changed));
        let what = "1 due task of type fetch_data waits, and no worker can run it";
        assert_eq!(told(&state), [what]);
    }

    #[test]
    fn a_nearly_full_state_and_an_archive_in_trouble_are_told() {
        let points = of_the_bounds((91 << 20, 100 << 20), Some("no space"));
        let told: Vec<_> = points.iter().map(|point| (point.critical, &*point.what)).collect();
        assert_eq!(
            told,
            [
                (
                    false,
                    "the tasks take 91 MiB of the 100 MiB that they may take together; beyond that \
                     new ones are refused"
                ),
                (false, "ended tasks stay, for the archive is in trouble: no space"),
            ]
        );
        assert!(of_the_bounds((999, 1000), None)[0].critical);
        assert!(of_the_bounds((900, 1000), None).is_empty());
    }

    #[test]
    fn a_suspicious_tail_is_critical_and_a_weak_policy_is_told() {
        let tail = TailClass::Suspicious {
            file: "journal/1".to_owned(),
            offset: 4096,
            bytes: 300,
            quarantined: Some("quarantine/x".to_owned()),
            what: "checksum".to_owned(),
        };
        let recovery = Recovered::of(&Recovery { tail, ..Recovery::default() });
        let house = About { recovery, fsync: "never".to_owned(), fsync_is_weak: true, ..about() };
        let points = of_the_house(&house, Some(5 << 20));
        let told: Vec<_> = points.iter().map(|point| (point.critical, &*point.what)).collect();
        assert_eq!(
            told,
            [
                (
                    true,
                    "at the last start the last record of journal/1 at byte 4096 is whole but \
                     wrong (checksum); 300 bytes were set aside in quarantine/x"
                ),
                (false, "fsync is `never`: what was acknowledged may be lost with the power"),
                (false, "only 5 MiB are free on the data directory's disk"),
            ]
        );
        assert!(points.iter().all(|point| !point.commands.is_empty()));
    }

    #[test]
    fn the_last_start_is_told_in_one_line() {
        let line = |recovery| Recovered::of(&recovery).line;
        let empty = Recovery::default;
        assert_eq!(line(Recovery { created: true, ..empty() }), "a new store was made");
        let clean = Recovery { records: 7, clean_close: true, ..empty() };
        assert_eq!(line(clean), "7 records; closed cleanly");
        let (file, offset, frames_after) = (String::new(), 0, 0);
        let tail = TailClass::Torn { file, offset, bytes: 512, frames_after };
        let torn = Recovery { records: 7, tail, ..empty() };
        assert_eq!(
            line(torn),
            "7 records; a write of 512 bytes was torn by a crash; it was never acknowledged"
        );
    }
}
