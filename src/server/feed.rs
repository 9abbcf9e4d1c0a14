//! The stream of events: the latest ones are kept, whoever follows gets the rest as they happen.
//!
//! Who does not keep up is cut off, never waited for; the sequence number of the last event lets
//! him go on where he was.

use crate::engine::Recorded;
use crate::kernel::event::Event;
use crate::kernel::ids::Seq;
use crate::kernel::text::Text;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

/// Events that are kept for those who come later or come back.
const KEPT: usize = 2048;

/// Batches of events that one follower may lie behind.
pub(crate) const BEHIND_MAX: usize = 256;

/// Followers at once.
const FOLLOWERS_MAX: usize = 256;

/// What a follower is sent.
#[derive(Clone, Debug)]
pub(crate) enum Feed {
    /// Events before this one were asked for and are no longer kept here.
    Gap(Seq),
    /// Events, in order.
    Events(Arc<[Recorded]>),
}

/// The latest events, and who follows.
#[derive(Default)]
pub(crate) struct Feeds {
    recent: VecDeque<Arc<[Recorded]>>,
    count: usize,
    followers: Vec<Sender<Feed>>,
    empty: Option<Text>,
}

impl Feeds {
    /// Adds a follower who wants everything from `from` on, or only what comes.
    pub(crate) fn subscribe(&mut self, from: Option<Seq>, to: Sender<Feed>) {
        self.followers.retain(|follower| !follower.is_closed());
        if FOLLOWERS_MAX <= self.followers.len() || !self.catch_up(from, &to) {
            return;
        }
        self.followers.push(to);
    }

    /// Sends what is kept; whether that went well.
    fn catch_up(&self, from: Option<Seq>, to: &Sender<Feed>) -> bool {
        let Some(from) = from else { return true };
        let kept = self.recent.iter().flat_map(|batch| batch.iter());
        let wanted: Vec<_> = kept.filter(|event| from <= event.stamp.seq).cloned().collect();
        let oldest = self.recent.front().and_then(|batch| batch.first());
        let gap = oldest.map(|oldest| oldest.stamp.seq).filter(|oldest| from < *oldest);
        if let Some(oldest) = gap
            && to.try_send(Feed::Gap(oldest)).is_err()
        {
            return false;
        }
        wanted.is_empty() || to.try_send(Feed::Events(wanted.into())).is_ok()
    }

    /// Hands events on and keeps them for a while, without what is large in them.
    pub(crate) fn publish(&mut self, mut events: Vec<Recorded>) {
        if events.is_empty() {
            return;
        }
        let empty = self.empty.get_or_insert_with(|| Text::from("")).clone();
        for recorded in &mut events {
            slim(&mut recorded.event, &empty);
        }
        let batch: Arc<[Recorded]> = events.into();
        self.followers
            .retain(|follower| follower.try_send(Feed::Events(Arc::clone(&batch))).is_ok());
        self.count = self.count.saturating_add(batch.len());
        self.recent.push_back(batch);
        while KEPT < self.count
            && 1 < self.recent.len()
            && let Some(oldest) = self.recent.pop_front()
        {
            self.count = self.count.saturating_sub(oldest.len());
        }
    }
}

/// Takes out of an event what may be large: the feed must not keep a payload alive.
fn slim(event: &mut Event, empty: &Text) {
    match event {
        Event::Submitted(submitted) => {
            submitted.spec.payload = empty.clone();
            submitted.spec.checkpoint = None;
        }
        Event::Checkpointed(checkpointed) => checkpointed.data = empty.clone(),
        Event::Ended(ended) => ended.result = None,
        Event::Heard(heard) => heard.holds = Vec::new(),
        _ => {}
    }
}
