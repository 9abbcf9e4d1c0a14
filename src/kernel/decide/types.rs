//! Decisions on whole task types: pause, resume, bounds; and how much of one may be dispatched.

use super::{Answer, Ask, Decision, Rejection};
use crate::kernel::event::{Event, TypeLimited, TypePaused, TypeResumed};
use crate::kernel::task_type::{Rate, TaskType};
use crate::kernel::text::Text;

/// What a person wants of a whole task type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeAct {
    /// Dispatch nothing of it; what runs goes on.
    Pause {
        /// Why.
        reason: Option<Text>,
    },
    /// Dispatch it again.
    Resume,
    /// Set its bounds.
    Limit {
        /// Tasks that hold a lease at once.
        max_running: Change<u32>,
        /// Dispatches in a span.
        rate: Change<Rate>,
    },
}

/// What becomes of a bound that people may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// What the config says holds again.
    Config,
    /// There is none, whatever the config says.
    Unlimited,
    /// It is this one.
    AtMost(T),
}

impl<T> Change<T> {
    /// What is set afterwards, where `set` was set before and `none` stands for no bound.
    fn over(self, set: Option<T>, none: T) -> Option<T> {
        match self {
            Self::Keep => set,
            Self::Config => None,
            Self::Unlimited => Some(none),
            Self::AtMost(bound) => Some(bound),
        }
    }
}

/// How much of a type may be dispatched now.
pub(super) struct Room {
    /// So many tasks.
    pub(super) tasks: usize,
    /// Each of them counts against this rate.
    pub(super) rate: Option<Rate>,
}

impl Ask<'_> {
    /// How much of a type may be dispatched now: a look at its counts, never at its tasks.
    pub(super) fn room(self, kind: &str) -> Room {
        let known = self.state.task_type(kind);
        let bounds = self.state.bounds(self.rules, kind);
        let slots = bounds.max_running.map_or(usize::MAX, |max| {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            max.saturating_sub(self.state.leased_count(kind))
        });
        let paced = bounds.rate.map_or(usize::MAX, |rate| match known {
            Some(known) => known.room(rate, self.now.life),
            None => usize::try_from(rate.count).unwrap_or(usize::MAX),
        });
        let paused = known.is_some_and(|known| known.paused.is_some());
        Room { tasks: if paused { 0 } else { slots.min(paced) }, rate: bounds.rate }
    }

    pub(super) fn act_on_type(self, kind: &Text, act: &TypeAct) -> Result<Decision, Rejection> {
        if !self.state.knows_type(self.rules, kind) {
            return Err(Rejection::NoSuchType(kind.clone()));
        }
        let known = self.state.task_type(kind);
        let paused = known.is_some_and(|known| known.paused.is_some());
        let kind = kind.clone();
        let event = match act {
            TypeAct::Pause { reason } => {
                (!paused).then(|| Event::TypePaused(TypePaused { kind, reason: reason.clone() }))
            }
            TypeAct::Resume => paused.then(|| Event::TypeResumed(TypeResumed { kind })),
            TypeAct::Limit { max_running, rate } => limited(known, kind, *max_running, *rate),
        };
        let answer = Answer::TypeActed { changed: event.is_some() };
        Ok(Decision { events: event.into_iter().collect(), answer })
    }
}

fn limited(
    known: Option<&TaskType>,
    kind: Text,
    max_running: Change<u32>,
    rate: Change<Rate>,
) -> Option<Event> {
    let set = known.map_or((None, None), |known| (known.max_running, known.rate));
    let wanted = (max_running.over(set.0, 0), rate.over(set.1, Rate::NONE));
    let (max_running, rate) = wanted;
    (wanted != set).then(|| Event::TypeLimited(TypeLimited { kind, max_running, rate }))
}
