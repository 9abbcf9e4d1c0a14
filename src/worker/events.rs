//! Everything that can happen to a worker.

use super::attempt::Asked;
use super::control::Answer;
use super::crew::Begun;
use super::outcome::Word;
use crate::api::{Checkpointed, Finished, Leases, Registered, Stops};
use crate::client::ClientError;
use crate::kernel::ids::Fence;
use crate::process::{StartError, watch_readable};
use serde_json::value::RawValue;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::{Interest, Ready};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::spawn_local;

/// Something that happened. Answers carry the number of the registration they were asked under;
/// those of an earlier one are void.
#[derive(Debug)]
pub(super) enum Event {
    Registered(Result<Registered, ClientError>),
    Leased {
        registration: u64,
        answer: Result<Leases, ClientError>,
    },
    Beaten {
        registration: u64,
        answer: Result<Stops, ClientError>,
    },
    Stops {
        registration: u64,
        answer: Result<Stops, ClientError>,
    },
    Finished {
        registration: u64,
        answer: Result<Finished, ClientError>,
    },
    Checkpointed {
        fence: Fence,
        answer: Result<Checkpointed, ClientError>,
        id: Option<Box<RawValue>>,
        reply: oneshot::Sender<Answer>,
    },
    Started {
        fence: Fence,
        result: Result<Begun, StartError>,
    },
    Asked {
        fence: Fence,
        asked: Asked,
    },
    SourceClosed(Fence),
    LeaderEnded(Fence),
    /// The thread of an attempt came back, with this error or without one.
    Returned {
        fence: Fence,
        error: Option<Word>,
    },
    LogClosed(Fence),
    /// SIGTERM or SIGINT, or the stopper.
    Terminate,
    /// SIGHUP, or a change of the config's file.
    Reload {
        asked: bool,
    },
    /// The engine was told what this worker offers.
    Offered {
        registration: u64,
        answer: Result<serde_json::Value, ClientError>,
    },
    /// The supervisor is gone.
    LifelineCut,
    /// The engine was told that we leave, or did not want to hear it.
    Left,
}

/// Where events go. The queue is bounded; who reports waits for room, the duty never does.
pub(super) type Events = mpsc::Sender<Event>;

/// Reports an event. A duty that is over hears nothing more.
pub(super) async fn report(events: &Events, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("an event came after the end");
    }
}

/// Reports SIGTERM and SIGINT, and SIGHUP.
pub(super) fn watch_signals(events: &Events) -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let signals = signal(kind)?;
        spawn_local(report_signals(signals, events.clone()));
    }
    let mut reloads = signal(SignalKind::hangup())?;
    let events = events.clone();
    spawn_local(async move {
        while reloads.recv().await.is_some() {
            report(&events, Event::Reload { asked: true }).await;
        }
    });
    Ok(())
}

async fn report_signals(mut signals: Signal, events: Events) {
    while signals.recv().await.is_some() {
        report(&events, Event::Terminate).await;
    }
}

/// Reports each time that somebody in this process wants the worker to end.
pub(super) fn watch_stopper(stopper: Arc<Notify>, events: &Events) {
    let events = events.clone();
    spawn_local(async move {
        while !events.is_closed() {
            stopper.notified().await;
            report(&events, Event::Terminate).await;
        }
    });
}

/// Reports the end of the lifeline, whose other end the supervisor holds.
pub(super) fn watch_lifeline(lifeline: OwnedFd, events: &Events) -> io::Result<()> {
    set_nonblocking(&lifeline)?;
    let lifeline = watch_readable(lifeline)?;
    let events = events.clone();
    spawn_local(async move {
        while let Ok(mut ready) = lifeline.ready(Interest::READABLE).await {
            let mut buffer = [0_u8; 64];
            match rustix::io::read(&lifeline, &mut buffer) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                    ready.clear_ready_matching(Ready::READABLE);
                }
                Ok(read) if 0 < read => {}
                Ok(_) | Err(_) => break,
            }
        }
        report(&events, Event::LifelineCut).await;
    });
    Ok(())
}

/// Reports the end of a leader, which stays to be waited for.
pub(super) fn watch_leader(pidfd: OwnedFd, fence: Fence, events: &Events) -> io::Result<()> {
    let pidfd = watch_readable(pidfd)?;
    let events = events.clone();
    spawn_local(async move {
        if let Err(error) = pidfd.readable().await {
            tracing::error!(%fence, %error, "cannot wait for the handler");
        }
        report(&events, Event::LeaderEnded(fence)).await;
    });
    Ok(())
}

pub(super) fn set_nonblocking(descriptor: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    rustix::fs::fcntl_setfl(descriptor, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(())
}
