//! The rules against everything that can happen, in every order: a model checker walks the real
//! `decide` and `apply` with executors that stall and come back, die and leave processes behind,
//! engines and hosts that end at any moment, and answers that are lost.

mod world;

use midwatch::kernel::ids::{Fence, TaskId};
use midwatch::kernel::status::{Outcome, Status};
use midwatch::kernel::task::Task;
use midwatch::kernel::verdict::Verb;
use stateright::{Checker, Model, Property};
use std::time::Instant;
use world::{Bounds, Heard, Phase, World};

/// One thing that can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Register(usize),
    Lease(usize, Heard),
    Run(usize, usize),
    Heartbeat(usize, Heard),
    Checkpoint(usize, usize),
    Exit(usize, usize),
    End(usize, usize, Outcome, Heard),
    Die(usize),
    Buried(usize),
    Respawn(usize),
    Silent(usize),
    Tick,
    Ripen,
    Sweep(TaskId, Fence),
    Expire(TaskId, Fence),
    Act(TaskId, Verb),
    Crash,
    Reboot,
}

/// What may happen, and whether all that is interesting must happen somewhere.
struct Host(Bounds, bool);

type Condition = fn(&Host, &World) -> bool;

/// With and without the answer getting lost.
fn heard(left: Bounds) -> &'static [Heard] {
    if left.crashes == 0 { &[Heard::Yes] } else { &[Heard::Yes, Heard::No] }
}

impl Host {
    fn of_executor(world: &World, one: usize, steps: &mut Vec<Step>) {
        let executor = &world.executors[one];
        let left = world.left;
        if !executor.alive {
            match executor.id {
                Some(_) => steps.push(Step::Buried(one)),
                None => steps.push(Step::Respawn(one)),
            }
            return;
        }
        if executor.id.is_none() {
            steps.push(Step::Register(one));
        } else {
            let waiting = world.state.ready("job").next().is_some();
            if 0 < left.leases && executor.beliefs.is_empty() && waiting {
                steps.extend(heard(left).iter().map(|heard| Step::Lease(one, *heard)));
            }
            if 0 < left.words && !executor.beliefs.is_empty() {
                steps.extend(heard(left).iter().map(|heard| Step::Heartbeat(one, *heard)));
            }
            if 0 < left.silences && !executor.beliefs.is_empty() {
                steps.push(Step::Silent(one));
            }
        }
        if 0 < left.deaths && (executor.id.is_some() || !executor.beliefs.is_empty()) {
            steps.push(Step::Die(one));
        }
        for (place, belief) in executor.beliefs.iter().enumerate() {
            match belief.phase {
                Phase::Held => {
                    steps.push(Step::Run(one, place));
                    steps.push(Step::End(one, place, Outcome::Released, Heard::Yes));
                }
                Phase::Started => {
                    steps.push(Step::Exit(one, place));
                    if 0 < left.words {
                        steps.push(Step::Checkpoint(one, place));
                    }
                }
                Phase::Exited => {
                    let task = world.state.task(belief.task);
                    let stop = task.and_then(Task::stop).map(|_| Outcome::Cancelled);
                    for outcome in [Outcome::Success, Outcome::Retryable].into_iter().chain(stop) {
                        let end = |heard: &Heard| Step::End(one, place, outcome, *heard);
                        steps.extend(heard(left).iter().map(end));
                    }
                }
                Phase::Doomed => steps.push(Step::Exit(one, place)),
            }
        }
    }
}

impl Model for Host {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.0)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.wrong.is_some() {
            return;
        }
        for one in 0..world.executors.len() {
            Self::of_executor(world, one, steps);
        }
        let left = world.left;
        if 0 < left.ticks && world.state.lease_ends().any(|(ends, ..)| world.service() < ends) {
            steps.push(Step::Tick);
        }
        if world.state.next_due().0.is_some() {
            steps.push(Step::Ripen);
        }
        for (task, fence) in world.state.ended_leases(world.service()) {
            if world.tombs.contains(&fence) {
                steps.push(Step::Expire(task, fence));
            } else {
                steps.push(Step::Sweep(task, fence));
            }
        }
        if 0 < left.verbs {
            for task in world.state.tasks().filter(|task| !task.status.is_terminal()) {
                let verbs = [Verb::Cancel, Verb::Pause, Verb::Resume, Verb::Reset];
                steps.extend(verbs.map(|verb| Step::Act(task.id, verb)));
            }
        }
        if 0 < left.crashes {
            steps.push(Step::Crash);
        }
        if 0 < left.reboots {
            steps.push(Step::Reboot);
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = before.clone();
        if let Step::Lease(_, Heard::No)
        | Step::Heartbeat(_, Heard::No)
        | Step::End(_, _, _, Heard::No)
        | Step::Crash = step
        {
            world.left.crashes -= 1;
        }
        match step {
            Step::Register(one) => world.register(one),
            Step::Lease(one, heard) => world.lease(one, heard),
            Step::Run(one, place) => world.run(one, place),
            Step::Heartbeat(one, heard) => {
                world.left.words -= 1;
                world.heartbeat(one, heard);
            }
            Step::Checkpoint(one, place) => {
                world.left.words -= 1;
                world.checkpoint(one, place);
            }
            Step::Exit(one, place) => world.exit(one, place),
            Step::End(one, place, outcome, heard) => world.end(one, place, outcome, heard),
            Step::Die(one) => {
                world.left.deaths -= 1;
                world.die(one);
            }
            Step::Buried(one) => world.buried(one),
            Step::Respawn(one) => world.respawn(one),
            Step::Silent(one) => {
                world.left.silences -= 1;
                world.silent(one);
            }
            Step::Tick => {
                world.left.ticks -= 1;
                world.tick();
            }
            Step::Ripen => world.ripen(),
            Step::Sweep(task, fence) => world.sweep(task, fence),
            Step::Expire(task, fence) => world.expire(task, fence),
            Step::Act(task, verb) => {
                world.left.verbs -= 1;
                world.act(task, verb);
            }
            Step::Crash => world.start(midwatch::kernel::status::Reason::WorkerCrash),
            Step::Reboot => {
                world.left.reboots -= 1;
                world.reboot();
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![Property::always("nothing goes wrong", |_: &Self, world: &World| {
            world.wrong.is_none()
        })];
        let sometimes: [(&'static str, Condition); 7] = [
            ("a task ends well", |_, world| ended(world, Status::Success)),
            ("a task ends well after a loss", |_, world| {
                world
                    .state
                    .tasks()
                    .any(|task| task.status == Status::Success && 0 < task.lost_count)
            }),
            ("a task dies of its retries", |_, world| ended(world, Status::Dead)),
            ("a lost executor comes back", |_, world| {
                noted(world, |line| line.from == Status::Lost && line.to == Status::Running)
            }),
            ("a stale token is refused", |_, world| {
                noted(world, |line| {
                    line.note.as_deref().is_some_and(|it| it.starts_with("refused"))
                })
            }),
            ("a process outlives its executor", |_, world| {
                let believed = |fence| {
                    let beliefs = world.executors.iter().flat_map(|one| &one.beliefs);
                    beliefs.into_iter().any(|belief| belief.fence == fence)
                };
                world.processes.iter().any(|(_, fence)| !believed(*fence))
            }),
            ("a lease that never started goes back", |_, world| {
                noted(world, |line| line.from == Status::Running && line.to == Status::Pending)
            }),
        ];
        if !self.1 {
            return all;
        }
        all.extend(sometimes.map(|(name, condition)| Property::sometimes(name, condition)));
        all
    }
}

fn ended(world: &World, status: Status) -> bool {
    world.state.with_status(status).next().is_some()
}

fn noted(world: &World, is: fn(&midwatch::kernel::task::Transition) -> bool) -> bool {
    let lives = world.state.tasks().filter_map(|task| task.life.as_ref());
    lives.flat_map(|life| life.transitions.iter()).any(is)
}

/// One task, two executors, two attempts, one crash; the rest in small.
const FIRST: Bounds = Bounds {
    tasks: 1,
    executors: 2,
    leases: 2,
    crashes: 1,
    reboots: 0,
    deaths: 1,
    ticks: 2,
    silences: 1,
    words: 2,
    verbs: 0,
};

fn walk(name: &str, bounds: Bounds, witnessed: bool) {
    let began = Instant::now();
    let checker = Host(bounds, witnessed).checker().threads(2).spawn_bfs().join();
    println!(
        "L5 {name}: {} states, {} of them distinct, depth {}, {} s",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed().as_secs()
    );
    if let Some(path) = checker.discovery("nothing goes wrong") {
        let wrong = path.last_state().wrong.clone();
        panic!("{wrong:?}: {:#?}", path.into_actions());
    }
    checker.assert_properties();
}

#[test]
fn every_order_of_one_task_two_executors_and_a_crash_keeps_the_rules() {
    walk("first bounds", FIRST, true);
}

#[test]
fn every_order_with_a_reboot_keeps_the_rules() {
    walk("with a reboot", Bounds { crashes: 0, reboots: 1, silences: 0, ..FIRST }, false);
}

#[test]
fn every_order_with_a_person_who_interferes_keeps_the_rules() {
    walk("with a person", Bounds { crashes: 0, verbs: 1, words: 1, ticks: 1, ..FIRST }, false);
}

/// `MIDWATCH_L5=1`: what takes minutes and gigabytes.
#[test]
fn larger_bounds_keep_the_rules_too() {
    if std::env::var_os("MIDWATCH_L5").is_none_or(|value| value.is_empty()) {
        return;
    }
    walk("three attempts, two deaths", Bounds { leases: 3, deaths: 2, ..FIRST }, false);
    walk("two tasks", Bounds { tasks: 2, silences: 0, words: 1, ..FIRST }, false);
    walk("crash, reboot and a person", Bounds { reboots: 1, verbs: 1, words: 1, ..FIRST }, false);
}
