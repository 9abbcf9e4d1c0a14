//! The schedules of the config: what they are, and how they become those of the state.
//!
//! A change of the config is a diff: what is unchanged is not touched, nothing waits for it, and
//! what runs goes on. What could not be set, such as for want of disk, is told and tried again.

use super::spec::check_payload;
use crate::config::Config;
use crate::engine::arrangement;
use crate::kernel::ids::Millis;
use crate::kernel::schedule::{Origin, ScheduleSpec};
use crate::kernel::text::Text;
use crate::kernel::{Command, Rejection, State};
use crate::server::hand::Answers;
use crate::server::problems::Failure;
use crate::server::rules::Kinds;
use std::collections::BTreeMap;

/// How long to wait before what was refused is tried again.
const AGAIN: Millis = Millis::secs(10);

/// The schedules that a config names.
pub(crate) fn specs(config: &Config) -> BTreeMap<Text, ScheduleSpec> {
    let specs = config.schedules.iter();
    specs.map(|(name, spec)| (Text::from(name.as_str()), spec.clone())).collect()
}

/// Passes a config whose schedules have payloads that their types take.
pub(crate) fn check(config: &Config, kinds: &Kinds) -> Result<(), String> {
    for (name, spec) in &config.schedules {
        check_payload(kinds, spec).map_err(|Failure(problem)| {
            format!("`schedules.{name}.payload`: {}", problem.detail)
        })?;
    }
    Ok(())
}

/// Says which schedules of the config take the place of those that somebody had added.
pub(crate) fn tell_of_takeovers(state: &State, wanted: &BTreeMap<Text, ScheduleSpec>) {
    for name in wanted.keys() {
        if let Some(known) = state.schedule(name).filter(|known| known.origin == Origin::Runtime) {
            let by = &known.by;
            tracing::info!("the config takes over schedule {name}, which {by} had added");
        }
    }
}

/// The way of the config's schedules into the state.
#[derive(Default)]
pub(crate) struct Arranging {
    /// Those of the config.
    wanted: BTreeMap<Text, ScheduleSpec>,
    /// Set while they were not looked at yet.
    anew: bool,
    /// What could not be set, and why.
    refused: Vec<(Text, Rejection)>,
    /// The names that were asked for in the commands under way, in their order.
    asked: Vec<Text>,
    /// When what was refused is tried again, on the monotonic clock.
    again: Option<Millis>,
}

impl Arranging {
    /// Begins with those that the start could not set.
    pub(crate) fn begin(
        wanted: BTreeMap<Text, ScheduleSpec>,
        refused: &[(Text, Rejection)],
        now: Millis,
    ) -> Self {
        let mut arranging = Self { wanted, ..Self::default() };
        arranging.note(refused.to_vec(), now);
        arranging
    }

    /// What could not be set, and why.
    pub(crate) fn refused(&self) -> &[(Text, Rejection)] {
        &self.refused
    }

    /// The config names others now.
    pub(crate) fn want(&mut self, wanted: BTreeMap<Text, ScheduleSpec>) {
        self.wanted = wanted;
        self.anew = true;
    }

    /// When to look again, on the monotonic clock.
    pub(crate) fn again(&self) -> Option<Millis> {
        let again = if self.anew { Some(Millis(0)) } else { self.again };
        again.filter(|_| self.asked.is_empty())
    }

    /// What is to be asked of the engine in the turn that begins.
    pub(crate) fn commands(&mut self, state: &State, now: Millis) -> Vec<Command> {
        if self.again().is_none_or(|again| now < again) {
            return Vec::new();
        }
        (self.anew, self.again) = (false, None);
        tell_of_takeovers(state, &self.wanted);
        let acts = arrangement(state, &self.wanted);
        self.asked = acts.iter().map(|(name, _)| name.clone()).collect();
        if self.asked.is_empty() {
            self.refused.clear();
        }
        acts.into_iter().map(|(name, act)| Command::ActOnSchedule { name, act }).collect()
    }

    /// What became of the commands.
    pub(crate) fn answered(&mut self, answers: Answers, now: Millis) {
        let answers = std::mem::take(&mut self.asked).into_iter().zip(answers);
        self.note(answers.filter_map(|(name, answer)| Some((name, answer.err()?))).collect(), now);
    }

    /// Says what was refused, once.
    fn note(&mut self, refused: Vec<(Text, Rejection)>, now: Millis) {
        for (name, why) in refused.iter().filter(|one| !self.refused.contains(one)) {
            tracing::error!("schedule {name} is not as the config says: {why}; it is tried again");
        }
        self.again = (!refused.is_empty()).then(|| now.plus(AGAIN));
        self.refused = refused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::schedule::Plan;

    // spec: TIM-123
    #[test]
    fn what_was_refused_is_kept_and_tried_again_until_it_is_taken() {
        let spec = ScheduleSpec::new("t", Plan::Boot);
        let wanted = BTreeMap::from([(Text::from("a"), spec)]);
        let refused = vec![(Text::from("a"), Rejection::NoSpace)];
        let state = State::default();
        let mut arranging = Arranging::begin(wanted, &refused, Millis(0));
        assert_eq!((arranging.refused(), arranging.again()), (&refused[..], Some(AGAIN)));
        assert!(arranging.commands(&state, Millis(1)).is_empty());
        assert_eq!(arranging.commands(&state, AGAIN).len(), 1);
        // Nothing is asked twice, also not for a config that came meanwhile.
        arranging.want(BTreeMap::new());
        assert_eq!(arranging.again(), None);
        assert!(arranging.commands(&state, AGAIN).is_empty());
        arranging.answered(vec![Err(Rejection::NoSpace)], AGAIN);
        assert_eq!(arranging.refused(), &refused[..]);
        assert_eq!(arranging.again(), Some(Millis(0)));
        assert!(arranging.commands(&state, AGAIN).is_empty(), "it wants none any more");
        assert_eq!((arranging.refused().len(), arranging.again()), (0, None));
    }
}
