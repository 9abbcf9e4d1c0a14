//! What midwatch promises, told once more and as plainly as possible: an ordered map of tasks.
//!
//! It has no journal, no index and no clock, and knows nothing of the kernel: statuses are words,
//! a lease is five numbers. Where the two differ one of them is wrong.

use std::collections::{BTreeMap, BTreeSet};

/// Spans and limits of the game, all in milliseconds.
pub(crate) const HEARTBEAT: u64 = 1_000;
pub(crate) const SUSPECT_AFTER: u64 = 3_000;
pub(crate) const OFFLINE_AFTER: u64 = 9_000;
pub(crate) const ROLLING: u64 = 20_000;
pub(crate) const GRACES: u64 = 1_000;
pub(crate) const LOSSES_MAX: u32 = 3;
pub(crate) const WAITS: [u64; 3] = [300, 900, 2_000];
pub(crate) const PROMOTE_AFTER: u64 = 1_500;
/// Slots that tasks with a greater priority leave free.
pub(crate) const RESERVE: [(i32, usize); 2] = [(-1, 1), (0, 1)];

const ENDED: [&str; 4] = ["SUCCESS", "FAILED", "DEAD", "CANCELLED"];

/// What a client wants done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) kind: &'static str,
    pub(crate) payload: String,
    pub(crate) key: Option<String>,
    pub(crate) priority: i32,
    pub(crate) max_retry: u32,
    pub(crate) timeout: Option<u64>,
    pub(crate) at: Option<u64>,
    pub(crate) delay: Option<u64>,
    /// Tasks it waits for.
    pub(crate) after: Vec<u64>,
    /// Whether any end of theirs will do.
    pub(crate) any: bool,
}

/// The right of a worker to run a task.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) token: u64,
    pub(crate) worker: u64,
    pub(crate) secret: u8,
    ends: u64,
    started: bool,
}

#[derive(Clone, Debug, Default)]
struct Task {
    wish: Wish,
    status: &'static str,
    due: u64,
    failures: u32,
    losses: u32,
    checkpoint: Option<String>,
    stop: Option<u8>,
    hold: Option<Hold>,
    /// The tasks it still waits for.
    open: Vec<u64>,
    /// Token, secret, and what was answered to its end.
    told: Vec<(u64, u8, Option<&'static str>)>,
}

/// What somebody set in the place of the config's bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Set<T> {
    #[default]
    Not,
    Lifted,
    To(T),
}

impl<T> Set<T> {
    fn over(self, config: Option<T>) -> Option<T> {
        match self {
            Self::Not => config,
            Self::Lifted => None,
            Self::To(bound) => Some(bound),
        }
    }
}

/// What holds for a whole type.
#[derive(Clone, Debug, Default)]
struct Kind {
    paused: bool,
    /// Set by somebody in the place of [`config`].
    max_running: Set<u32>,
    rate: Set<(u32, u64)>,
    /// When it was dispatched under a rate.
    starts: Vec<u64>,
}

/// The bounds that the config sets: tasks at once, and dispatches in so many milliseconds.
pub(crate) fn config(kind: &str) -> (Option<u32>, Option<(u32, u64)>) {
    if kind == "a" { (Some(3), None) } else { (None, Some((4, 1_000))) }
}

#[derive(Clone, Debug)]
struct Worker {
    kinds: Vec<&'static str>,
    slots: usize,
    heard: u64,
    /// 0 alive, 1 suspect, 2 offline.
    silence: u8,
}

/// How an attempt ends, as its worker tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Success,
    Fatal,
    Retryable,
    TimedOut,
    Obeyed,
    Released,
}

/// The whole of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) wall: u64,
    pub(crate) life: u64,
    pub(crate) service: u64,
    tasks: BTreeMap<u64, Task>,
    workers: BTreeMap<u64, Worker>,
    kinds: BTreeMap<&'static str, Kind>,
    last_token: u64,
    /// Of each dispatch whether it was out of turn.
    promotions: Vec<bool>,
    /// Leases whose sweep was asked for.
    swept: BTreeSet<(u64, u64)>,
}

impl Model {
    pub(crate) fn task_ids(&self) -> Vec<u64> {
        self.tasks.keys().copied().collect()
    }

    pub(crate) fn worker_ids(&self) -> Vec<u64> {
        self.workers.keys().copied().collect()
    }

    /// Every lease there is, with its task.
    pub(crate) fn holds(&self) -> Vec<(u64, Hold)> {
        let held = self.tasks.iter().filter_map(|(id, task)| Some((*id, task.hold.clone()?)));
        held.collect()
    }

    /// One line for each task.
    pub(crate) fn view(&self) -> Vec<String> {
        let line = |(id, task): (&u64, &Task)| {
            let Task { wish, status, due, failures, losses, checkpoint, hold, open, .. } = task;
            let (key, payload) = (&wish.key, &wish.payload);
            let hold = hold.as_ref().map(|hold| (hold.token, hold.worker, hold.ends));
            let due = ["PENDING", "RETRYING"].contains(status).then_some(due);
            format!(
                "{id} {status} {payload} {key:?} {failures} {losses} {due:?} {checkpoint:?} {hold:?} {open:?}"
            )
        };
        self.tasks.iter().map(line).collect()
    }

    /// One line for each type: whether it is paused, and its bounds.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let line = |kind| {
            let paused = self.kinds.get(kind).is_some_and(|known| known.paused);
            let (max_running, rate) = self.bounds(kind);
            format!("{kind} {paused} {max_running:?} {rate:?}")
        };
        ["a", "b"].map(line).to_vec()
    }

    fn bounds(&self, kind: &str) -> (Option<u32>, Option<(u32, u64)>) {
        let (max_running, rate) = config(kind);
        let Some(known) = self.kinds.get(kind) else { return (max_running, rate) };
        (known.max_running.over(max_running), known.rate.over(rate))
    }

    /// How many tasks of a type may still be dispatched.
    fn room(&self, kind: &str) -> usize {
        let (max_running, rate) = self.bounds(kind);
        let known = self.kinds.get(kind).cloned().unwrap_or_default();
        let held = self.tasks.values().filter(|task| task.wish.kind == kind && task.hold.is_some());
        let slots = max_running.map_or(99, |max| (max as usize).saturating_sub(held.count()));
        let paced = rate.map_or(99, |(count, span)| {
            let recent = known.starts.iter().filter(|at| self.life < **at + span).count();
            (count as usize).saturating_sub(recent)
        });
        if known.paused { 0 } else { slots.min(paced) }
    }

    pub(crate) fn pause_type(&mut self, kind: &'static str, paused: bool) -> String {
        let known = kind != "c";
        let was = self.kinds.get(kind).is_some_and(|known| known.paused);
        if known && was != paused {
            self.kinds.entry(kind).or_default().paused = paused;
        }
        type_answer(known.then_some(was != paused))
    }

    /// Sets a bound, or with none gives it back to the config.
    pub(crate) fn limit_type(
        &mut self,
        kind: &'static str,
        max_running: Set<u32>,
        rate: Set<(u32, u64)>,
    ) -> String {
        let known = kind != "c";
        let was = self.kinds.get(kind).map_or((Set::Not, Set::Not), |it| (it.max_running, it.rate));
        if known {
            let it = self.kinds.entry(kind).or_default();
            (it.max_running, it.rate) = (max_running, rate);
        }
        type_answer(known.then_some(was != (max_running, rate)))
    }

    pub(crate) fn edit(
        &mut self,
        id: u64,
        priority: Option<i32>,
        max_retry: Option<u32>,
        delay: Option<u64>,
    ) -> String {
        let (life, wall) = (self.life, self.wall);
        let Some(task) = self.tasks.get_mut(&id) else { return "no task".into() };
        if !["PENDING", "RETRYING", "PAUSED"].contains(&task.status) {
            return "wrong status".into();
        }
        if max_retry.is_some_and(|max_retry| max_retry < task.failures) {
            return "too few".into();
        }
        let before = (task.wish.priority, task.wish.max_retry);
        task.wish.priority = priority.unwrap_or(before.0);
        task.wish.max_retry = max_retry.unwrap_or(before.1);
        if let Some(delay) = delay {
            task.due = life + delay;
            task.wish.at = (task.status == "PAUSED").then_some(wall + delay);
        }
        let changed = before != (task.wish.priority, task.wish.max_retry) || delay.is_some();
        format!("task {id} {}", if changed { "changed" } else { "unchanged" })
    }

    pub(crate) fn submit(&mut self, wish: &Wish) -> String {
        let same_key = |task: &&Task| wish.key.is_some() && task.wish.key == wish.key;
        if let Some((id, old)) = self.tasks.iter().find(|(_, task)| same_key(task)) {
            let same = old.wish.kind == wish.kind && old.wish.payload == wish.payload;
            return if same { format!("task {id} existed") } else { format!("conflict {id}") };
        }
        if wish.after.iter().any(|of| !self.tasks.contains_key(of)) {
            return "no task".into();
        }
        let id = self.add(wish.clone(), None);
        let ended = wish.after.iter().filter(|of| ENDED.contains(&self.tasks[of].status));
        let (well, badly): (Vec<u64>, Vec<u64>) =
            ended.partition(|of| wish.any || self.tasks[of].status == "SUCCESS");
        let task = self.tasks.get_mut(&id).unwrap();
        for of in &wish.after {
            if !task.open.contains(of) {
                task.open.push(*of);
            }
        }
        if badly.is_empty() {
            task.open.retain(|of| !well.contains(of));
        } else {
            task.turn("CANCELLED");
        }
        format!("task {id} new")
    }

    /// What follows from ends for those that wait for them: the ends that are there now, not those
    /// that follow from these.
    pub(crate) fn settle(&mut self) {
        let ended = self.tasks.iter().filter(|(_, task)| ENDED.contains(&task.status));
        let ended: Vec<_> = ended.map(|(id, task)| (*id, task.status)).collect();
        let life = self.life;
        for (of, status) in ended {
            for task in self.tasks.values_mut() {
                if ENDED.contains(&task.status) || !task.open.contains(&of) {
                    continue;
                }
                if !task.wish.any && status != "SUCCESS" {
                    task.turn("CANCELLED");
                    continue;
                }
                task.open.retain(|open| *open != of);
                if task.open.is_empty() {
                    task.due = task.due.max(life);
                }
            }
        }
    }

    fn add(&mut self, wish: Wish, checkpoint: Option<String>) -> u64 {
        let id = self.tasks.last_key_value().map_or(1, |(last, _)| last + 1);
        let ahead = wish.at.map(|at| at.saturating_sub(self.wall)).or(wish.delay);
        let due = self.life + ahead.unwrap_or(0);
        let task = Task { wish, due, checkpoint, status: "PENDING", ..Task::default() };
        self.tasks.insert(id, task);
        id
    }

    pub(crate) fn act(&mut self, id: u64, verb: &str, max_retry: Option<u32>) -> String {
        let life = self.life;
        let Some(task) = self.tasks.get_mut(&id) else { return "no task".into() };
        let waits = ["PENDING", "RETRYING"].contains(&task.status);
        let leased = ["RUNNING", "LOST"].contains(&task.status);
        let changed = match verb {
            "cancel" if waits || task.status == "PAUSED" => task.turn("CANCELLED"),
            "cancel" if task.status == "CANCELLED" => false,
            "pause" if waits => task.turn("PAUSED"),
            "pause" if task.status == "PAUSED" => false,
            "resume" if task.status == "PAUSED" => {
                task.due = life;
                task.turn("PENDING")
            }
            "run-now" if !task.open.is_empty() && waits => return "blocked".into(),
            "run-now" if waits => {
                let changed = life < task.due || task.wish.at.is_some();
                task.due = task.due.min(life);
                task.wish.at = None;
                changed
            }
            "edit" if waits || task.status == "PAUSED" => false,
            "cancel" if leased => task.ask_stop(0, max_retry),
            "pause" if leased => task.ask_stop(1, max_retry),
            "reset" if leased => task.ask_stop(2, max_retry),
            "retry" if ENDED.contains(&task.status) => {
                let after = Vec::new();
                let wish = Wish { key: None, at: None, delay: None, after, ..task.wish.clone() };
                let checkpoint = task.checkpoint.clone();
                let new = self.add(wish, checkpoint);
                return format!("task {new} changed");
            }
            _ => return "wrong status".into(),
        };
        format!("task {id} {}", if changed { "changed" } else { "unchanged" })
    }

    pub(crate) fn register(&mut self, id: u64, kinds: &[&'static str], slots: usize) {
        let (kinds, heard) = (kinds.to_vec(), self.service);
        let last = self.workers.last_key_value().map_or(0, |(last, _)| *last);
        assert!(last < id, "worker {id} after {last}");
        self.workers.insert(id, Worker { kinds, slots, heard, silence: 0 });
    }

    fn hear(&mut self, worker: u64) -> bool {
        let Some(worker) = self.workers.get_mut(&worker) else { return false };
        worker.heard = self.service;
        true
    }

    fn wake(&mut self, worker: u64) -> bool {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.silence = 0;
        }
        self.hear(worker)
    }

    fn held_by(&self, worker: u64) -> Vec<u64> {
        let held = self.holds().into_iter().filter(|(_, hold)| hold.worker == worker);
        held.map(|(id, _)| id).collect()
    }

    /// The tasks that a worker with so many secrets gets, best first.
    pub(crate) fn lease(&mut self, id: u64, secrets: usize) -> String {
        if !self.wake(id) {
            return "no worker".into();
        }
        let worker = &self.workers[&id];
        let free = worker.slots.saturating_sub(self.held_by(id).len()).min(secrets);
        let due = |task: &Task| match task.wish.at {
            Some(at) => at <= self.wall,
            None => task.due <= self.life,
        };
        let ready = self.tasks.iter().filter(|(_, task)| {
            let waits = ["PENDING", "RETRYING"].contains(&task.status);
            let may = waits && task.open.is_empty();
            may && worker.kinds.contains(&task.wish.kind) && due(task)
        });
        let mut ready: Vec<_> =
            ready.map(|(id, task)| (task.wish.priority, task.due, *id)).collect();
        let mut room = BTreeMap::from(["a", "b"].map(|kind| (kind, self.room(kind))));
        let mut got: Vec<(i32, u64, u64)> = Vec::new();
        while got.len() < free {
            let kind = |id: u64| self.tasks[&id].wish.kind;
            let may = ready.iter().copied().filter(|(priority, _, id)| {
                0 < room[kind(*id)] && self.leaves_room(*priority, &got)
            });
            let may: Vec<_> = may.collect();
            let Some(first) = may.iter().min() else { break };
            let overdue = may.iter().filter(|(_, due, _)| *due + PROMOTE_AFTER < self.life);
            let oldest = overdue.min_by_key(|(_, due, id)| (*due, *id));
            let too_early = self.promotions.iter().rev().take(3).any(|promoted| *promoted);
            let next = *oldest.filter(|_| !too_early).unwrap_or(first);
            *room.get_mut(kind(next.2)).unwrap() -= 1;
            self.promotions.push(next != *first);
            ready.retain(|rank| *rank != next);
            got.push(next);
        }
        let got: Vec<u64> = got.into_iter().map(|(.., id)| id).collect();
        format!("leased {got:?}")
    }

    /// Whether a task of that priority leaves the slots free that are kept for others, after those
    /// that were `got` just now.
    fn leaves_room(&self, priority: i32, got: &[(i32, u64, u64)]) -> bool {
        let is_alive = |id: &u64| self.workers.get(id).is_some_and(|worker| worker.silence == 0);
        let slots: usize =
            self.workers.iter().filter(|(id, _)| is_alive(id)).map(|(_, it)| it.slots).sum();
        RESERVE.iter().filter(|(max, _)| *max < priority).all(|(max, _)| {
            let kept: usize =
                RESERVE.iter().filter(|(other, _)| other <= max).map(|(_, slots)| slots).sum();
            let held = self.tasks.values().filter(|task| {
                let on = task.hold.as_ref().is_some_and(|hold| is_alive(&hold.worker));
                on && *max < task.wish.priority
            });
            let more = got.iter().filter(|(priority, ..)| max < priority);
            held.count() + more.count() < slots.saturating_sub(kept).max(1)
        })
    }

    /// The leases that were given; each token is higher than any before.
    pub(crate) fn leased(&mut self, worker: u64, leases: &[(u64, u64, u8)]) {
        let ends = self.service + 2 * HEARTBEAT;
        for &(id, token, secret) in leases {
            assert!(self.last_token < token, "token {token} after {}", self.last_token);
            self.last_token = token;
            let task = self.tasks.get_mut(&id).unwrap();
            task.turn("RUNNING");
            task.wish.at = None;
            task.hold = Some(Hold { token, worker, secret, ends, started: false });
            task.told.push((token, secret, None));
            let kind = task.wish.kind;
            let (life, rate) = (self.life, self.bounds(kind).1);
            let starts = &mut self.kinds.entry(kind).or_default().starts;
            match rate {
                // A rate knows of what an earlier one counted, and of nothing else.
                Some((_, span)) => {
                    starts.retain(|at| life < *at + span);
                    starts.push(life);
                }
                None => starts.clear(),
            }
        }
    }

    /// Whether the lease is the speaker's and not over; a lost task is taken up again.
    fn valid(&mut self, id: u64, worker: u64, token: u64, secret: u8) -> bool {
        self.hear(worker);
        let Some(task) = self.tasks.get_mut(&id) else { return false };
        let valid = task.hold.as_ref().is_some_and(|hold| {
            (hold.worker, hold.token, hold.secret) == (worker, token, secret)
                && self.service < hold.ends
        });
        if valid && task.status == "LOST" {
            task.turn("RUNNING");
        }
        valid
    }

    pub(crate) fn heartbeat(&mut self, worker: u64, holds: &[(u64, u64, u8, bool)]) -> String {
        if !self.wake(worker) {
            return "no worker".into();
        }
        let mut stale = Vec::new();
        for &(id, token, secret, started) in holds {
            if !self.valid(id, worker, token, secret) {
                stale.push((id, token));
                continue;
            }
            let task = self.tasks.get_mut(&id).unwrap();
            let timeout = task.wish.timeout;
            let hold = task.hold.as_mut().unwrap();
            let run = timeout.map_or(ROLLING, |t| (2 * t).max(t + GRACES + 2 * HEARTBEAT));
            let more = match (hold.started, started) {
                (false, true) => run,
                (false, false) => 2 * HEARTBEAT,
                (true, _) if timeout.is_none() => run,
                (true, _) => 0,
            };
            hold.started |= started;
            hold.ends = hold.ends.max(self.service + more);
        }
        format!("stale {stale:?}")
    }

    pub(crate) fn checkpoint(
        &mut self,
        (id, worker, token, secret): (u64, u64, u64, u8),
        data: &str,
    ) -> String {
        if !self.valid(id, worker, token, secret) {
            return "refused".into();
        }
        self.tasks.get_mut(&id).unwrap().checkpoint = Some(data.to_owned());
        "checkpointed".into()
    }

    pub(crate) fn end(
        &mut self,
        (id, worker, token, secret): (u64, u64, u64, u8),
        way: Way,
    ) -> String {
        if !self.valid(id, worker, token, secret) {
            let told = self.tasks.get(&id).map(|task| task.told.as_slice()).unwrap_or_default();
            let before = told.iter().find(|(t, s, _)| (*t, *s) == (token, secret));
            return match before {
                Some((.., Some(answer))) => format!("ended {answer}"),
                _ => "refused".into(),
            };
        }
        let life = self.life;
        let task = self.tasks.get_mut(&id).unwrap();
        let status = match (way, task.stop) {
            (Way::Success, _) => "SUCCESS",
            (Way::Fatal, _) => "FAILED",
            (_, Some(stop)) => obeyed(stop),
            (Way::Retryable | Way::TimedOut, None) => "RETRYING",
            (Way::Obeyed | Way::Released, None) => "PENDING",
        };
        let status = task.attempt_over(status, life);
        task.told.last_mut().unwrap().2 = Some(status);
        format!("ended {status}")
    }

    /// What the passing of time brings: sweeps to ask for, workers that fall silent.
    pub(crate) fn time(&mut self) -> BTreeSet<(u64, u64)> {
        let over = self.holds().into_iter().filter(|(_, hold)| hold.ends <= self.service);
        let asked: BTreeSet<_> = over.map(|(id, hold)| (id, hold.token)).collect();
        let asked: BTreeSet<_> = asked.difference(&self.swept).copied().collect();
        self.swept.extend(&asked);
        for id in self.worker_ids() {
            let worker = self.workers.get_mut(&id).unwrap();
            let silent = self.service - worker.heard;
            match worker.silence {
                0 if SUSPECT_AFTER <= silent => worker.silence = 1,
                1 if OFFLINE_AFTER <= silent => {
                    worker.silence = 2;
                    self.lose(id);
                }
                _ => {}
            }
        }
        asked
    }

    fn lose(&mut self, worker: u64) {
        for id in self.held_by(worker) {
            self.tasks.get_mut(&id).unwrap().turn("LOST");
        }
    }

    /// A worker is known to be gone.
    pub(crate) fn dead(&mut self, worker: u64) {
        self.lose(worker);
        for id in self.held_by(worker) {
            self.tasks.get_mut(&id).unwrap().hold.as_mut().unwrap().ends = 0;
        }
        self.workers.remove(&worker);
    }

    /// Whatever ran under a lease that is over is dead.
    pub(crate) fn swept(&mut self, id: u64, token: u64, ran: bool) {
        self.swept.remove(&(id, token));
        let life = self.life;
        let task = self.tasks.get_mut(&id).unwrap();
        assert_eq!(task.hold.as_ref().unwrap().token, token);
        if task.status != "LOST" {
            let status = match task.stop {
                Some(stop) => obeyed(stop),
                None if ran => "RETRYING",
                None => "PENDING",
            };
            let known = task.stop.is_some() || !ran;
            let status = task.attempt_over(status, life);
            // Whoever tells its end all the same learns what became of it, unless it is called
            // lost.
            task.told.last_mut().unwrap().2 = Some(status).filter(|_| known);
            return;
        }
        task.losses += 1;
        let stop = task.stop;
        let status = match stop {
            Some(0 | 1) => obeyed(stop.unwrap()),
            _ if LOSSES_MAX < task.losses => "DEAD",
            _ => "PENDING",
        };
        task.attempt_over(status, life);
        if status == "PENDING" && stop.is_none() && 1 < task.losses {
            task.due = life + wait(task.losses - 1);
        }
    }

    /// A new engine: it asks for its sweeps anew, and gives everybody a fresh chance.
    pub(crate) fn restarted(&mut self, rebooted: bool) {
        self.swept.clear();
        if rebooted {
            for worker in self.worker_ids() {
                let held = self.holds().into_iter().filter(|(_, hold)| hold.worker == worker);
                let held: Vec<_> = held.collect();
                self.dead(worker);
                for (id, hold) in held {
                    self.swept(id, hold.token, true);
                }
            }
        }
        for worker in self.workers.values_mut() {
            worker.heard = self.service;
        }
    }
}

impl Task {
    fn turn(&mut self, status: &'static str) -> bool {
        assert!(!ENDED.contains(&self.status), "the end is the end");
        self.status = status;
        true
    }

    /// The stronger stop counts: cancel before pause before reset.
    fn ask_stop(&mut self, stop: u8, max_retry: Option<u32>) -> bool {
        if self.stop.is_some_and(|old| old <= stop) {
            return false;
        }
        self.stop = Some(stop);
        self.wish.max_retry = max_retry.unwrap_or(self.wish.max_retry);
        true
    }

    /// The attempt is over and the task goes to `status`, or is dead when it failed too often.
    fn attempt_over(&mut self, status: &'static str, life: u64) -> &'static str {
        self.hold = None;
        self.stop = None;
        self.due = life;
        self.turn(status);
        if status == "RETRYING" {
            self.failures += 1;
            self.due = life + wait(self.failures);
            if self.wish.max_retry < self.failures {
                self.turn("DEAD");
            }
        }
        self.status
    }
}

fn type_answer(changed: Option<bool>) -> String {
    match changed {
        None => "no type".into(),
        Some(true) => "type changed".into(),
        Some(false) => "type unchanged".into(),
    }
}

fn obeyed(stop: u8) -> &'static str {
    ["CANCELLED", "PAUSED", "PENDING"][usize::from(stop)]
}

fn wait(number: u32) -> u64 {
    WAITS[(number as usize - 1).min(WAITS.len() - 1)]
}
