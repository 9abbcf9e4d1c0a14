//! Takes up a changed config while the server runs: asked by SIGHUP, or because the file changed.

use super::app::{App, Policy};
use super::hand::Message;
use super::rules::rules_from;
use crate::config::{Config, ConfigError, Fault, Reread, Running, Source, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::signal::unix::Signal;
use tokio::sync::mpsc::Sender;

/// What is needed to read the config again.
#[derive(Clone, Debug)]
pub struct Reload {
    /// Where the config came from.
    pub source: Source,
    /// Called with each config that was taken up.
    pub taken: fn(&Config),
}

/// Whether a good config is good on this host too: the groups that it names are there.
pub fn check(config: &Config) -> Result<(), String> {
    super::limits::check(config)?;
    Policy::of(config).map(drop)
}

/// A server's config in force, and everything that a change of it reaches.
pub(super) struct Reloading {
    pub(super) running: Running,
    pub(super) taken: fn(&Config),
    pub(super) app: Arc<App>,
    /// Bytes that all logs together may take, shared with the thread that sees to it.
    pub(super) logs_max: Arc<AtomicU64>,
    /// Told each time a reading that was asked for is done.
    pub(super) done: Sender<()>,
}

impl Reloading {
    /// Takes up changes for ever.
    pub(super) async fn run(mut self, mut hangup: Option<Signal>) -> ! {
        let mut watch = match Watch::begin(self.running.source()) {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::warn!("the config is not watched, SIGHUP has it read again: {error}");
                None
            }
        };
        let bell = watch.as_ref().map(Watch::bell).unwrap_or_default();
        loop {
            let asked = tokio::select! {
                () = hung_up(&mut hangup) => true,
                () = bell.rung() => false,
            };
            if let Some(watch) = &mut watch {
                watch.follow(self.running.source());
            }
            self.again(asked).await;
        }
    }

    async fn again(&mut self, asked: bool) {
        let reread = match self.next() {
            Ok((next, policy)) => {
                let reread = self.running.take(next);
                self.put_in_force(policy).await;
                reread
            }
            Err(why) => self.running.refuse(why),
        };
        self.app.house.note_config(&self.running);
        match &reread {
            Reread::Refused(_) => tracing::error!("{reread}"),
            Reread::Taken { restart, .. } if !restart.is_empty() => tracing::warn!("{reread}"),
            Reread::Taken { .. } => tracing::info!("{reread}"),
            Reread::Same if asked => {
                // Who asks is told, also what was told before.
                let refused = self.running.refused().cloned().map(Reread::Refused);
                tracing::info!("{}", refused.unwrap_or(reread));
            }
            Reread::Same => {}
        }
        if asked && self.done.try_send(()).is_err() {
            tracing::debug!("nobody waits for the config to be read");
        }
    }

    /// Everything that can fail comes before anything is changed.
    fn next(&self) -> Result<(crate::config::Next, Policy), ConfigError> {
        let next = self.running.look()?;
        let policy = Policy::of(next.config()).map_err(Fault::new)?;
        // At a start the same only has the channel be in trouble: tasks run without it.
        super::rules::check_channels(next.config()).map_err(Fault::new)?;
        Ok((next, policy))
    }

    /// Returns once the next request finds it all in force.
    async fn put_in_force(&self, policy: Policy) {
        let config = self.running.config();
        (self.taken)(config);
        self.logs_max.store(config.retention.logs, Ordering::Relaxed);
        let rules = Box::new(rules_from(config));
        let snapshot_after = config.journal.snapshot_after;
        // Before the types: a task of a new type must find its rules.
        let hand = self.app.hand.clone();
        let schedules = super::schedules::specs(config);
        let message = Message::Rules { rules, schedules, snapshot_after };
        let app = Arc::clone(&self.app);
        let channels = config.clone();
        let sent = tokio::task::spawn_blocking(move || {
            hand.send_patiently(message);
            app.put_in_force(policy);
            app.post.take_up(&channels, &hand, &app.about.host);
        });
        if let Err(error) = sent.await {
            tracing::error!("the config is not in force: {error}");
        }
    }
}

async fn hung_up(hangup: &mut Option<Signal>) {
    if let Some(hangup) = hangup
        && hangup.recv().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}
