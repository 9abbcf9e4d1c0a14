//! The account of whole task types: none is dispatched while it is paused, nor beyond its bounds.

use super::world::World;
use crate::engine::Recorded;
use crate::kernel::event::{Actor, Event};
use crate::kernel::ids::{LifeTime, Millis, Seq, Timestamp};
use crate::kernel::rules::{KindRules, Rules};
use crate::kernel::task_type::{Bounds, Per, Rate};
use crate::kernel::text::Text;
use crate::kernel::{Change, Command, Edit, NextRun, State, TypeAct};
use std::collections::BTreeMap;

/// Half a day before the earliest wall clock of a world that has mended.
const LAST_DATE: u64 = (1 << 41) - 43_200_000;

/// The types of this world.
const TYPES: [&str; 2] = ["a", "b"];

/// What is known of one type from published events alone.
#[derive(Clone, Debug, Default)]
struct Known {
    paused: bool,
    max_running: Option<u32>,
    rate: Option<Rate>,
    held: usize,
    /// Dispatches since its rate last changed.
    dispatched: Vec<LifeTime>,
}

/// What is known of all types.
#[derive(Debug, Default)]
pub(super) struct TypeBook {
    known: BTreeMap<Text, Known>,
    config: BTreeMap<Text, Bounds>,
    /// Dispatches that used up what a bound allowed.
    pub(super) brims: u64,
}

/// The bounds of a config, drawn anew for each world: half of the types have none.
pub(super) fn draw_bounds(rules: &mut Rules, draw: &mut impl FnMut(usize) -> usize) {
    for kind in TYPES {
        let max_running = (draw(2) == 0).then(|| 1 + draw(3) as u32);
        let rate = (draw(2) == 0).then(|| Rate { count: 1 + draw(4) as u32, per: Per::Second });
        let bounds = Bounds { max_running, rate };
        rules.kinds.insert(kind.into(), KindRules { bounds, ..rules.fallback.clone() });
    }
}

impl TypeBook {
    pub(super) fn new(rules: &Rules) -> Self {
        let config = rules.kinds.iter().map(|(kind, rules)| (kind.clone(), rules.bounds));
        Self { config: config.collect(), ..Self::default() }
    }

    fn bounds(&self, kind: &Text) -> Bounds {
        let config = self.config.get(kind).copied().unwrap_or_default();
        let Some(known) = self.known.get(kind) else { return config };
        Bounds {
            max_running: known
                .max_running
                .map_or(config.max_running, |max| Some(max).filter(|max| 0 < *max)),
            rate: known.rate.map_or(config.rate, |rate| Some(rate).filter(|rate| 0 < rate.count)),
        }
    }

    /// A published event; `more` is by how many leases there are more since.
    pub(super) fn saw(&mut self, recorded: &Recorded, more: isize) {
        let Some(kind) = recorded.kind.clone() else { return };
        let bounds = self.bounds(&kind);
        let known = self.known.entry(kind.clone()).or_default();
        known.held = known.held.saturating_add_signed(more);
        match &recorded.event {
            Event::TypePaused(_) => known.paused = true,
            Event::TypeResumed(_) => known.paused = false,
            Event::TypeLimited(event) => {
                if known.rate != event.rate {
                    known.dispatched.clear();
                }
                (known.max_running, known.rate) = (event.max_running, event.rate);
            }
            Event::Leased(_) => {
                assert!(!known.paused, "I21: type {kind} is paused and is dispatched");
                let max = bounds.max_running.map_or(usize::MAX, |max| max as usize);
                assert!(known.held <= max, "I21: {} of type {kind} run, of {max}", known.held);
                let now = recorded.stamp.life;
                known.dispatched.push(now);
                let rate = bounds.rate.unwrap_or(Rate { count: u32::MAX, per: Per::Second });
                known.dispatched.retain(|at| now < at.after(rate.per.span()));
                let recent = known.dispatched.len();
                assert!(
                    recent <= rate.count as usize,
                    "I21: {recent} of {kind}, its rate is {rate}"
                );
                let brim = known.held == max || recent == rate.count as usize;
                self.brims += u64::from(brim);
            }
            _ => {}
        }
    }

    /// After a recovery, where `last` was published last: what was ordered is as it was, unless
    /// records were lost, or were durable and not yet published when the engine died.
    pub(super) fn recovered(&mut self, state: &State, last: Seq) {
        let found = state.head().seq;
        let (same, lost) = (found == last, found < last);
        for kind in TYPES.map(Text::from) {
            let found = state.task_type(&kind);
            let paused = found.is_some_and(|found| found.paused.is_some());
            let set = found.map_or((None, None), |found| (found.max_running, found.rate));
            let known = self.known.entry(kind.clone()).or_default();
            if same {
                let was = (known.paused, known.max_running, known.rate);
                assert_eq!(was, (paused, set.0, set.1), "I1: an order about type {kind}");
            }
            if lost || known.rate != set.1 {
                known.dispatched.clear();
            }
            known.paused = paused;
            (known.max_running, known.rate) = set;
            known.held = state.leased_count(&kind);
        }
    }
}

impl World {
    /// Somebody orders something about a whole type, or changes a task that waits.
    pub(super) fn order(&mut self) -> Command {
        let kind = Text::from(TYPES[self.dice.below(TYPES.len())]);
        let known = self.account.known();
        let act = match self.dice.below(8) {
            0 => TypeAct::Pause { reason: Some("sim".into()) },
            1 | 2 => TypeAct::Resume,
            3 | 4 => TypeAct::Limit { max_running: self.draw_max(), rate: self.draw_rate() },
            _ => {
                let task = self.account.known_at(self.dice.below(known));
                return Command::Edit { task, edit: self.draw_edit() };
            }
        };
        Command::ActOnType { kind, act }
    }

    fn draw_max(&mut self) -> Change<u32> {
        match self.dice.below(4) {
            0 => Change::Keep,
            1 => Change::Config,
            2 => Change::Unlimited,
            _ => Change::AtMost(1 + self.dice.below(3) as u32),
        }
    }

    fn draw_rate(&mut self) -> Change<Rate> {
        let per = Per::ALL[self.dice.below(2)];
        match self.dice.below(4) {
            0 => Change::Keep,
            1 => Change::Config,
            2 => Change::Unlimited,
            _ => Change::AtMost(Rate { count: 1 + self.dice.below(6) as u32, per }),
        }
    }

    fn draw_edit(&mut self) -> Edit {
        let span = Millis(self.dice.below(4_000) as u64);
        // Also where the clock has jumped far ahead, the date lies behind once all has mended.
        let at = Timestamp(self.clocks.wall.min(LAST_DATE) + span.0);
        let next_run = [None, Some(NextRun::In(span)), Some(NextRun::At(at))][self.dice.below(3)];
        Edit {
            priority: self.dice.one_in(2).then(|| self.dice.below(3) as i32),
            max_retry: self.dice.one_in(2).then(|| self.dice.below(4) as u32),
            timeout: [Change::Keep, Change::Unlimited, Change::AtMost(Millis(1_500))]
                [self.dice.below(3)],
            next_run,
        }
    }

    /// So that everything can end.
    pub(super) fn open_types(&mut self) {
        let Some(state) = self.state() else { return };
        let bound = |kind: &str| state.bounds(&self.rules, kind) != Bounds::default();
        let paused = |kind: &str| state.task_type(kind).is_some_and(|known| known.paused.is_some());
        let open: Vec<_> = TYPES.into_iter().filter(|kind| bound(kind) || paused(kind)).collect();
        for kind in open.into_iter().map(Text::from) {
            let free = TypeAct::Limit { max_running: Change::Unlimited, rate: Change::Unlimited };
            let acts =
                [TypeAct::Resume, free].map(|act| Command::ActOnType { kind: kind.clone(), act });
            self.ask(Actor::User(0), acts.to_vec());
        }
    }
}
