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
    /// So many follow already that there is no room for one more.
    NoRoom,
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
        if FOLLOWERS_MAX <= self.followers.len() {
            if to.try_send(Feed::NoRoom).is_err() {
                tracing::debug!("a follower went before he was told that there is no room");
            }
        } else if self.catch_up(from, &to) {
            self.followers.push(to);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::event::{Actor, Forgotten, Stamp};
    use crate::kernel::ids::{LifeTime, ServiceTime, Timestamp};
    use tokio::sync::mpsc::{Receiver, channel};

    fn recorded(seq: u64) -> Recorded {
        let (wall, life, service) = (Timestamp(0), LifeTime(0), ServiceTime(0));
        let stamp = Stamp { seq: Seq(seq), wall, life, service, by: Actor::Daemon };
        let event = Event::Forgotten(Forgotten { tasks: Vec::new() });
        Recorded { stamp, event, kind: None, from: None, to: None }
    }

    fn sequence(feed: &mut Receiver<Feed>) -> Vec<u64> {
        let mut seen = Vec::new();
        while let Ok(Feed::Events(events)) = feed.try_recv() {
            seen.extend(events.iter().map(|event| event.stamp.seq.0));
        }
        seen
    }

    #[test]
    fn who_does_not_keep_up_gets_what_was_kept_for_him_and_is_cut_off_and_nobody_else_is() {
        let mut feeds = Feeds::default();
        let (to, mut slow) = channel(BEHIND_MAX);
        feeds.subscribe(None, to);
        let (to, mut quick) = channel(BEHIND_MAX);
        feeds.subscribe(None, to);
        for seq in 0..1000 {
            feeds.publish(vec![recorded(seq)]);
            assert_eq!(sequence(&mut quick), [seq]);
        }
        assert_eq!(sequence(&mut slow), (0..BEHIND_MAX as u64).collect::<Vec<_>>());
        assert!(slow.is_closed(), "he has been let go");
        assert!(!quick.is_closed());
    }

    #[test]
    fn who_comes_back_goes_on_where_he_was_or_learns_where_the_rest_begins() {
        let mut feeds = Feeds::default();
        for seq in 1..=3 * KEPT as u64 {
            feeds.publish(vec![recorded(seq)]);
        }
        let oldest = 2 * KEPT as u64 + 1;
        let (to, mut back) = channel(BEHIND_MAX);
        feeds.subscribe(Some(Seq(oldest + 7)), to);
        assert_eq!(sequence(&mut back).first(), Some(&(oldest + 7)));
        let (to, mut late) = channel(BEHIND_MAX);
        feeds.subscribe(Some(Seq(5)), to);
        assert!(matches!(late.try_recv(), Ok(Feed::Gap(Seq(seq))) if seq == oldest));
        assert_eq!(sequence(&mut late).len(), KEPT);
    }

    #[test]
    fn there_is_room_for_so_many_followers_and_the_next_one_is_told() {
        let mut feeds = Feeds::default();
        let kept: Vec<_> = (0..FOLLOWERS_MAX)
            .map(|_| {
                let (to, feed) = channel(BEHIND_MAX);
                feeds.subscribe(None, to);
                feed
            })
            .collect();
        let (to, mut last) = channel(BEHIND_MAX);
        feeds.subscribe(None, to);
        assert!(matches!(last.try_recv(), Ok(Feed::NoRoom)));
        assert!(last.is_closed());
        drop(kept);
        let (to, last) = channel(BEHIND_MAX);
        feeds.subscribe(None, to);
        assert!(!last.is_closed(), "those who went make room");
    }
}
