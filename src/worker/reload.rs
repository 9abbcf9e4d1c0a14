//! Takes up a changed config while the worker runs: for the attempts that begin from then on.

use super::duty::Duty;
use super::events::{Event, Events, report};
use super::handler::HandlerSpec;
use crate::api::OfferRequest;
use crate::config::{Config, Fault, Next, Reread, Running, Watch};
use std::collections::BTreeMap;
use tokio::task::spawn_local;

/// What is needed to read the config again.
#[derive(Debug)]
pub struct Reload {
    /// The config in force.
    pub running: Running,
    /// Its handlers.
    pub handlers: fn(&Config) -> BTreeMap<String, HandlerSpec>,
    /// What else must hold of it on this host; the engine demands the same, so both take a config
    /// or neither does.
    pub check: fn(&Config) -> Result<(), String>,
    /// Called with each config that was taken up.
    pub taken: fn(&Config),
}

impl Reload {
    /// Reports changes of the config's file; none where they cannot be watched.
    pub(super) fn watch(&self, events: &Events) -> Option<Watch> {
        match Watch::begin(self.running.source()) {
            Ok(watch) => {
                let (bell, events) = (watch.bell(), events.clone());
                spawn_local(async move {
                    while !events.is_closed() {
                        bell.rung().await;
                        report(&events, Event::Reload { asked: false }).await;
                    }
                });
                Some(watch)
            }
            Err(error) => {
                tracing::debug!("the config is not watched, SIGHUP has it read again: {error}");
                None
            }
        }
    }
}

impl Duty {
    /// What this worker can run.
    pub(super) fn offer(&self) -> OfferRequest {
        let types = self.registration.types.clone();
        OfferRequest { types, slots: self.registration.slots }
    }

    /// Reads the config again. What runs keeps what it began with; the engine is told by the next
    /// calls.
    pub(super) fn read_the_config(&mut self, asked: bool) {
        if let Some(reload) = &mut self.reload {
            let running = &mut reload.running;
            if let Some(watch) = &mut self.watch {
                watch.follow(running.source());
            }
            let check = |next: &Next| (reload.check)(next.config()).map_err(Fault::new);
            let next = running.look().and_then(|next| Ok(check(&next).map(|()| next)?));
            let reread = match next {
                Ok(next) => running.take(next),
                Err(why) => running.refuse(why),
            };
            match &reread {
                // The engine says it too, and so that somebody hears.
                Reread::Refused(_) => tracing::warn!("{reread}"),
                Reread::Taken { .. } => tracing::info!("{reread}"),
                Reread::Same => {}
            }
            if running.refused().is_none() {
                (reload.taken)(running.config());
                self.crew.take_up((reload.handlers)(running.config()));
                self.registration.types = self.crew.types();
                self.registration.slots = running.config().worker.slots;
            }
        }
        if asked {
            self.tell_the_supervisor(b"r");
        }
    }
}
