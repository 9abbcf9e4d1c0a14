//! The threads of the channels.

use super::{ping, view};
use crate::alerts;
use crate::api::{NoticeView, TestedChannel};
use crate::clock;
use crate::config::{AlertChannel, Config, Ping, Way};
use crate::kernel::alerts::{Alert, Grade, Rule, due};
use crate::kernel::event::Actor;
use crate::kernel::ids::{LifeTime, Millis};
use crate::kernel::text::Text;
use crate::kernel::{AlertAct, Command};
use crate::server::hand::{Hand, Silence};
use crate::server::host::Facts;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::Notify;

/// Longest time for the engine to say what is due; beyond it the store hangs.
const ANSWER_TIME: Duration = Duration::from_mins(1);

/// How often a channel of which nothing is due looks whether the engine answers.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// How long to wait before the engine is asked again that did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// From the first failure of a channel to the next try; twice as long after each.
const AGAIN_FIRST: Duration = Duration::from_secs(5);

/// The longest such wait.
const AGAIN_MAX: Duration = Duration::from_mins(10);

/// Failures one after the other after which the other channels are told.
const FAILURES_TOLD: u32 = 2;

/// What a thread and those who steer it share.
#[derive(Debug, Default)]
pub(super) struct Line {
    state: Mutex<LineState>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct LineState {
    /// Something may be due.
    rung: bool,
    /// The thread is to end.
    stop: bool,
    /// Why the last message did not arrive.
    trouble: Option<String>,
    report: Report,
}

/// The hourly report that is to be sent.
#[derive(Debug, Default)]
struct Report {
    /// The latest, for nobody wants the one before.
    waits: Option<NoticeView>,
    /// Whether a thread sees to it.
    is_seen_to: bool,
}

impl Line {
    fn with<T>(&self, look: impl FnOnce(&mut LineState) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn ring(&self) {
        self.with(|state| state.rung = true);
        self.bell.notify_all();
    }

    fn stop(&self) {
        self.with(|state| state.stop = true);
        self.bell.notify_all();
    }

    fn trouble(&self) -> Option<String> {
        self.with(|state| state.trouble.clone())
    }

    /// Notes how the last message fared; whether that is another state than before.
    pub(super) fn note(&self, trouble: Option<String>) -> bool {
        self.with(|state| {
            let changed = state.trouble.is_some() != trouble.is_some();
            state.trouble = trouble;
            changed
        })
    }

    /// Has a report sent in the place of one that waits; whether nobody sees to it yet.
    fn put_report(&self, report: NoticeView) -> bool {
        self.with(|state| {
            state.report.waits = Some(report);
            !std::mem::replace(&mut state.report.is_seen_to, true)
        })
    }

    /// Sends the report, and any that comes meanwhile; one that is not taken is tried again as a
    /// message is, until there is a later one.
    fn send_reports(&self, name: &str, way: &Way) {
        let mut failures = 0_u32;
        let next = || {
            self.with(|state| {
                state.report.is_seen_to = state.report.waits.is_some();
                state.report.waits.take()
            })
        };
        while let Some(report) = next() {
            let Err(why) = alerts::send(way, &report) else {
                failures = 0;
                continue;
            };
            if failures == 0 {
                tracing::warn!("channel {name} of alerts took no report, tried again: {why}");
            }
            failures = failures.saturating_add(1);
            self.with(|state| {
                state.report.waits.get_or_insert(report);
            });
            if !self.wait(Some(pause(failures)), false) {
                return;
            }
        }
    }

    /// Waits for so long, for ever without a time; less when it is rung, if it `hears` that.
    /// Whether the thread is to go on.
    pub(super) fn wait(&self, time: Option<Duration>, hears: bool) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |state: &mut LineState| !(state.stop || hears && state.rung);
        let mut state = match time {
            Some(time) => {
                let waited = self.bell.wait_timeout_while(state, time, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.bell.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
        };
        if hears {
            state.rung = false;
        }
        !state.stop
    }
}

/// All channels, and the ping.
#[derive(Debug, Default)]
pub(crate) struct Post {
    office: Mutex<Office>,
    host: OnceLock<String>,
    /// Rung when something is worth a look at the host.
    look: Notify,
}

#[derive(Debug, Default)]
struct Office {
    channels: BTreeMap<String, (AlertChannel, Arc<Line>)>,
    ping: Option<(Ping, Arc<Line>)>,
}

impl Post {
    fn with<T>(&self, look: impl FnOnce(&mut Office) -> T) -> T {
        look(&mut self.office.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets the threads be those of this config: what is as it was goes on, what is gone ends with
    /// the message it is at.
    pub(crate) fn take_up(&self, config: &Config, hand: &Hand, host: &str) {
        self.host.get_or_init(|| host.to_owned());
        let outcome = self.with(|office| {
            let gone = office
                .channels
                .extract_if(.., |name, (channel, _)| config.alerts.get(name) != Some(channel));
            gone.for_each(|(_, (_, line))| line.stop());
            for (name, channel) in &config.alerts {
                if !office.channels.contains_key(name) {
                    let line = Arc::new(Line::default());
                    start_courier(channel.clone(), Arc::clone(&line), hand, host)?;
                    office.channels.insert(name.clone(), (channel.clone(), line));
                }
            }
            if office.ping.as_ref().map(|(ping, _)| ping) != config.ping.as_ref() {
                if let Some((_, line)) = office.ping.take() {
                    line.stop();
                }
                if let Some(ping) = &config.ping {
                    let line = Arc::new(Line::default());
                    let (thread_line, hand) = (Arc::clone(&line), hand.clone());
                    let wanted = ping.clone();
                    start("ping", move || ping::keep(&wanted, &thread_line, &hand))?;
                    office.ping = Some((ping.clone(), line));
                }
            }
            Ok::<_, io::Error>(())
        });
        if let Err(error) = outcome {
            tracing::error!("cannot start a thread for alerts, so nobody is told: {error}");
        }
    }

    /// Something is wrong with the host: it is looked at soon.
    pub(crate) fn look_soon(&self) {
        self.look.notify_one();
    }

    /// Waits until somebody wants the host to be looked at.
    pub(super) async fn wanted(&self) {
        self.look.notified().await;
    }

    /// The daemon goes away: the threads end with the message that they are at.
    pub(crate) fn close(&self) {
        self.with(|office| {
            office.channels.values().for_each(|(_, line)| line.stop());
            office.ping.iter().for_each(|(_, line)| line.stop());
        });
    }

    /// Something about alerts changed: each channel asks what is due. Never waits for one.
    pub(crate) fn ring(&self) {
        self.with(|office| office.channels.values().for_each(|(_, line)| line.ring()));
    }

    /// Sends the hourly report to those channels that want it. Never waits for one, and nor does an
    /// alert: each is sent by a thread of its own.
    pub(crate) fn report(&self, lines: &[String]) {
        let Some(host) = self.host.get().filter(|_| !lines.is_empty()) else { return };
        self.with(|office| {
            for (channel, line) in office.channels.values().filter(|(channel, _)| channel.report) {
                let name = channel.channel.name.clone();
                if !line.put_report(view::report(&name, host, lines)) {
                    continue;
                }
                let (way, theirs) = (channel.way.clone(), Arc::clone(line));
                let started = start("report", move || theirs.send_reports(&name, &way));
                if let Err(error) = started {
                    tracing::warn!("cannot start a thread for the hourly report: {error}");
                    line.with(|state| state.report.is_seen_to = false);
                }
            }
        });
    }

    /// The channels, each with what is wrong with it.
    pub(crate) fn channels(&self) -> Vec<(AlertChannel, Option<String>)> {
        let view = |(channel, line): &(AlertChannel, Arc<Line>)| (channel.clone(), line.trouble());
        self.with(|office| office.channels.values().map(view).collect())
    }

    /// What is wrong with the ping.
    pub(crate) fn ping_trouble(&self) -> Option<String> {
        self.with(|office| office.ping.as_ref().and_then(|(_, line)| line.trouble()))
    }

    /// A channel took a test: what waits for it is tried at once.
    fn works_again(&self, name: &str) {
        self.with(|office| {
            if let Some((_, line)) = office.channels.get(name) {
                line.note(None);
                line.ring();
            }
        });
    }

    /// Sends a test message through each channel, or through one. Takes as long as they take.
    pub(crate) fn test(&self, wanted: Option<&str>) -> Vec<TestedChannel> {
        let host = self.host.get().cloned().unwrap_or_default();
        let channels = self.channels().into_iter().map(|(channel, _)| channel);
        let wanted = channels.filter(|it| wanted.is_none_or(|name| *it.channel.name == *name));
        let one = |AlertChannel { channel, way, report: _ }: &AlertChannel| {
            let sent = alerts::send(way, &view::test_notice(&channel.name, &host));
            if sent.is_ok() {
                self.works_again(&channel.name);
            }
            TestedChannel { name: channel.name.to_string(), ok: sent.is_ok(), error: sent.err() }
        };
        let wanted: Vec<_> = wanted.collect();
        // Side by side: the slowest says how long it takes.
        thread::scope(|scope| {
            let threads: Vec<_> =
                wanted.iter().map(|channel| scope.spawn(|| one(channel))).collect();
            threads.into_iter().flat_map(thread::ScopedJoinHandle::join).collect()
        })
    }
}

/// How long to wait after so many failures one after the other.
fn pause(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    AGAIN_FIRST.saturating_mul(doubled).min(AGAIN_MAX)
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    crate::server::run::start_thread(name, work)
}

fn start_courier(
    channel: AlertChannel,
    line: Arc<Line>,
    hand: &Hand,
    host: &str,
) -> io::Result<()> {
    let courier = Courier { channel, line, hand: hand.clone(), host: host.to_owned() };
    start("alerts", move || courier.serve())
}

/// One channel's thread.
struct Courier {
    channel: AlertChannel,
    line: Arc<Line>,
    hand: Hand,
    host: String,
}

/// What the engine says.
struct Looked {
    /// The message that is due, and the record that it was sent.
    message: Option<(NoticeView, AlertAct)>,
    /// How long until something may be due.
    sleep: Option<Duration>,
    /// Whether its trouble is an alert, maybe since before the start.
    is_failing: bool,
}

impl Courier {
    fn serve(self) {
        let name = self.channel.channel.name.clone();
        // From now on what is over is news for it, too.
        self.record(vec![AlertAct::Tell { channel: name, told: Vec::new() }]);
        let mut failures = 0_u32;
        let mut silent_since: Option<(Millis, bool)> = None;
        let mut go_on = true;
        while go_on {
            let looked = match self.look() {
                Ok(looked) => looked,
                Err(Silence::Gone) => return,
                Err(Silence::Late) => {
                    go_on = self.store_is_silent(&mut silent_since);
                    continue;
                }
            };
            self.store_answers(&mut silent_since);
            let Some((message, told)) = looked.message else {
                // Whoever rings may be what hangs: so it is looked for now and then all the same.
                let sleep = looked.sleep.map_or(LOOK_EVERY, |sleep| sleep.min(LOOK_EVERY));
                go_on = self.line.wait(Some(sleep), true);
                continue;
            };
            match alerts::send(&self.channel.way, &message) {
                Ok(()) => {
                    failures = 0;
                    self.well(told, looked.is_failing);
                }
                Err(why) => {
                    failures = failures.saturating_add(1);
                    self.failed(&why, failures);
                    go_on = self.line.wait(Some(pause(failures)), false);
                }
            }
        }
    }

    fn look(&self) -> Result<Looked, Silence> {
        let (channel, host) = (self.channel.channel.clone(), self.host.clone());
        self.hand.read_within(ANSWER_TIME, move |facts: &Facts<'_>| {
            let now: LifeTime = facts.now.life;
            let (alerts, rules) = (facts.engine.state().alerts(), facts.engine.rules());
            let found = due(alerts, rules, &channel, now);
            let message = found.notice.map(|notice| {
                let act = AlertAct::Tell { channel: channel.name.clone(), told: notice.told(now) };
                (view::notice(&notice, rules, facts.now, &host), act)
            });
            let sleep = found.again.map(|again| again.since(now).duration());
            let failing = alerts.get(Rule::ChannelFailing, &channel.name);
            Looked { message, sleep, is_failing: failing.is_some_and(Alert::stands) }
        })
    }

    fn record(&self, acts: Vec<AlertAct>) {
        let commands = acts.into_iter().map(Command::ActOnAlerts).collect();
        if self.hand.ask_patiently(Actor::Daemon, commands).is_none() {
            tracing::debug!("the engine's thread has ended");
        }
    }

    fn well(&self, told: AlertAct, is_failing: bool) {
        let name = self.channel.channel.name.clone();
        let mut acts = vec![told];
        if self.line.note(None) {
            tracing::info!("channel {name} of alerts takes messages again");
        }
        if is_failing {
            acts.push(AlertAct::Clear { rule: Rule::ChannelFailing, subject: name });
        }
        self.record(acts);
    }

    fn failed(&self, why: &str, failures: u32) {
        let name = self.channel.channel.name.clone();
        if self.line.note(Some(why.to_owned())) {
            tracing::warn!("channel {name} of alerts took no message, which is tried again: {why}");
        }
        if failures == FAILURES_TOLD {
            let what = format!("channel {name} of alerts takes no messages: {why}").into();
            let (rule, grade) = (Rule::ChannelFailing, Grade::Warning);
            self.record(vec![AlertAct::Raise { rule, subject: name, grade, what }]);
        }
    }

    /// What cannot be recorded is told all the same, once: a store that hangs keeps no alert.
    fn store_is_silent(&self, since: &mut Option<(Millis, bool)>) -> bool {
        let (_, told) = since.get_or_insert_with(|| (clock::monotonic(), false));
        if !*told {
            let name: &Text = &self.channel.channel.name;
            match alerts::send(&self.channel.way, &view::stalled(name, &self.host)) {
                Ok(()) => *told = true,
                Err(why) => tracing::warn!("channel {name} of alerts took no message: {why}"),
            }
        }
        self.line.wait(Some(ASK_AGAIN), false)
    }

    fn store_answers(&self, since: &mut Option<(Millis, bool)>) {
        let Some((since, _)) = since.take() else { return };
        let span = Millis(clock::monotonic().0.saturating_sub(since.0));
        let span = crate::units::span(span.plus(Millis::secs(ANSWER_TIME.as_secs())));
        let what = format!("the store did not answer for {span}, and does again").into();
        let (rule, subject, grade) = (Rule::StoreStalled, "store".into(), Grade::Warning);
        self.record(vec![AlertAct::Raise { rule, subject, grade, what }]);
    }
}
