//! The oracle: what the clients were told, what the handlers saw, and what the journal says, held
//! against each other. Nothing here asks the daemon.

use midwatch::kernel::ids::TaskId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Half of the silence after which a worker is suspect.
const SILENCE_MS_MIN: u64 = 500;

/// Silences within less than that of each other that are too many.
const SILENCES_MAX: u32 = 4;

/// What the journal says, record by record, also of tasks that it has forgotten since.
#[derive(Debug, Default)]
pub(super) struct Account {
    tasks: BTreeMap<TaskId, Told>,
    leases: BTreeMap<u64, Lease>,
    /// Sequence number of the last record that was read.
    pub(super) last: u64,
    pub(super) reasons: BTreeMap<String, usize>,
    /// Records by event.
    pub(super) events: BTreeMap<String, usize>,
    /// Records by the year that the wall clock showed.
    pub(super) years: BTreeMap<String, usize>,
    pub(super) forgotten: BTreeSet<TaskId>,
    /// For each worker when it was last found silent, on the service clock, and how often in a row.
    silent: BTreeMap<u64, (u64, u32)>,
    wrong: Vec<String>,
}

#[derive(Debug, Default)]
struct Told {
    payload: String,
    key: Option<String>,
    retry_of: Option<u64>,
    ends: Vec<String>,
    step: u64,
}

#[derive(Debug)]
struct Lease {
    task: TaskId,
    /// The checkpoint that came with it.
    step: u64,
    has_succeeded: bool,
}

/// What the clients know for certain.
#[derive(Clone, Debug)]
pub(super) struct Acknowledged {
    pub(super) key: Option<String>,
    pub(super) payload: String,
    pub(super) retry_of: Option<TaskId>,
    /// The end that somebody was told of.
    pub(super) end: Option<String>,
}

/// What came of the comparison, for people.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) tasks: usize,
    pub(super) ends: BTreeMap<String, usize>,
    /// What handlers noted, by word.
    pub(super) marks: BTreeMap<String, usize>,
    /// Attempts that began where an earlier one had left a checkpoint.
    pub(super) resumed: usize,
}

pub(super) fn is_terminal(status: &str) -> bool {
    ["SUCCESS", "FAILED", "DEAD", "CANCELLED"].contains(&status)
}

fn step(data: &Value) -> u64 {
    data["step"].as_u64().unwrap_or(0)
}

impl Account {
    /// Takes the lines of a dump; those that are known already are passed over.
    pub(super) fn read(&mut self, dump: &[u8]) {
        for line in String::from_utf8_lossy(dump).lines() {
            match serde_json::from_str::<Value>(line) {
                Ok(record) => self.note(&record),
                Err(error) => self.wrong.push(format!("a line of the dump: {error}: {line}")),
            }
        }
    }

    fn note(&mut self, record: &Value) {
        let seq = record["seq"].as_u64().unwrap_or(0);
        let is_snapshot =
            record["event"].as_str().is_some_and(|event| event.starts_with("snapshot_"));
        if seq <= self.last || is_snapshot {
            return;
        }
        if seq != self.last + 1 {
            self.wrong.push(format!("record {seq} follows record {}", self.last));
        }
        self.last = seq;
        let year = record["at"].as_str().unwrap_or_default().get(..4).unwrap_or_default();
        *self.years.entry(year.to_owned()).or_default() += 1;
        let event = record["event"].as_str().unwrap_or_default();
        *self.events.entry(event.to_owned()).or_default() += 1;
        if let Some(reason) = record["reason"].as_str() {
            *self.reasons.entry(reason.to_owned()).or_default() += 1;
        }
        self.note_silence(record);
        let forgotten = record["tasks"].as_array().into_iter().flatten();
        self.forgotten.extend(forgotten.filter_map(Value::as_u64).map(TaskId));
        let Some(id) = record["task"].as_u64().map(TaskId) else { return };
        let task = self.tasks.entry(id).or_default();
        match record["event"].as_str() {
            Some("submitted") => {
                let spec = &record["spec"];
                task.payload = spec["payload"].to_string();
                task.key = spec["key"].as_str().map(str::to_owned);
                task.retry_of = spec["retry_of"].as_u64();
                task.step = step(&spec["checkpoint"]);
            }
            Some("leased") => {
                let lease = Lease { task: id, step: task.step, has_succeeded: false };
                self.leases.insert(seq, lease);
            }
            Some("checkpointed") => task.step = step(&record["data"]),
            Some("ended") if record["outcome"] == "success" => {
                let fence = record["fence"].as_u64().unwrap_or(0);
                match self.leases.get_mut(&fence) {
                    Some(lease) => lease.has_succeeded = true,
                    None => self.wrong.push(format!("the end of a lease nobody had: {record}")),
                }
            }
            _ => {}
        }
        if let Some(to) = record["to"].as_str().filter(|to| is_terminal(to)) {
            task.ends.push(to.to_owned());
        }
    }

    /// A worker that was heard is not silent again at once: one that is, over and over, costs
    /// records and a sync at each turn. Once it may be so: a lease that its waiting request gets
    /// counts as a word of it when it is given.
    fn note_silence(&mut self, record: &Value) {
        if record["event"] != "worker_moved" || record["to"] != "suspect" {
            return;
        }
        let number = |field: &str| record[field].as_u64().unwrap_or(0);
        let (worker, now) = (number("worker"), number("service"));
        let (before, times) = self.silent.get(&worker).copied().unwrap_or_default();
        let times = if now < before + SILENCE_MS_MIN { times + 1 } else { 1 };
        self.silent.insert(worker, (now, times));
        if times == SILENCES_MAX {
            self.wrong.push(format!("worker {worker} was silent {times} times at once, at {now}"));
        }
    }

    /// What the archive lacks of the tasks that are forgotten. A line that a crash has cut stands
    /// by itself, and the whole one follows.
    pub(super) fn compare_archive(&self, archive: &str) -> Vec<String> {
        let lines = archive.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let status = |task: &Value| task["status"].as_str().unwrap_or_default().to_owned();
        let kept: BTreeMap<_, _> =
            lines.filter_map(|task| Some((TaskId(task["id"].as_u64()?), status(&task)))).collect();
        let lacks =
            |id: &&TaskId| self.tasks.get(*id).and_then(|task| task.ends.last()) != kept.get(*id);
        let told = |id: &TaskId| format!("task {id} is forgotten, archived as {:?}", kept.get(id));
        self.forgotten.iter().filter(lacks).map(told).collect()
    }

    /// Holds it against the clients' and the handlers' accounts.
    pub(super) fn compare(
        &self,
        acknowledged: &BTreeMap<TaskId, Acknowledged>,
        marks: &str,
    ) -> (Sums, Vec<String>) {
        let mut sums = Sums { tasks: self.tasks.len(), ..Sums::default() };
        let mut wrong = self.wrong.clone();
        for (id, known) in acknowledged {
            match self.tasks.get(id) {
                None => wrong.push(format!("task {id} is lost: {known:?}")),
                Some(task) => {
                    wrong.extend(task.differs(known).map(|what| format!("task {id}{what}")));
                }
            }
        }
        let mut keys = BTreeMap::new();
        for (id, task) in &self.tasks {
            match task.ends.as_slice() {
                [end] => *sums.ends.entry(end.clone()).or_default() += 1,
                ends => wrong.push(format!("task {id} ended {ends:?}")),
            }
            if let Some(other) = task.key.as_ref().and_then(|key| keys.insert(key, id)) {
                wrong.push(format!("tasks {other} and {id} have the key {:?}", task.key));
            }
        }
        let mut handlers =
            Handlers { account: self, seen: BTreeMap::new(), began: BTreeSet::new() };
        let mut ended = BTreeSet::new();
        for line in marks.lines() {
            let word = line.split(' ').next().unwrap_or_default();
            *sums.marks.entry(word.to_owned()).or_default() += 1;
            match handlers.note(line, &mut ended) {
                Ok(resumed) => sums.resumed += usize::from(resumed),
                Err(what) => wrong.push(format!("{what}: handler's line `{line}`")),
            }
        }
        let succeeded = self.leases.iter().filter(|(_, lease)| lease.has_succeeded);
        for (fence, lease) in succeeded.filter(|(fence, _)| !ended.contains(*fence)) {
            wrong.push(format!(
                "task {} succeeded by token {fence}, whose handler never came to its end",
                lease.task
            ));
        }
        (sums, wrong)
    }
}

impl Told {
    /// In what it differs from what a client knows.
    fn differs(&self, known: &Acknowledged) -> impl Iterator<Item = String> {
        let Acknowledged { key, payload, retry_of, end } = known;
        let payload = (self.payload != *payload)
            .then(|| format!(" has the payload {}, not {payload}", self.payload));
        let key = (self.key != *key).then(|| format!(" has the key {:?}, not {key:?}", self.key));
        let retry_of = (self.retry_of != retry_of.map(|id| id.0))
            .then(|| format!(" repeats {:?}, not {retry_of:?}", self.retry_of));
        let end = end.as_ref().filter(|end| !self.ends.contains(end));
        let end = end.map(|end| format!(" was told to be {end}, and ended {:?}", self.ends));
        payload.into_iter().chain(key).chain(retry_of).chain(end)
    }
}

/// The handlers' account as it is read, line by line.
struct Handlers<'a> {
    account: &'a Account,
    /// For each task the token and the checkpoint that were last seen.
    seen: BTreeMap<TaskId, (u64, u64)>,
    began: BTreeSet<u64>,
}

impl Handlers<'_> {
    /// Whether it began at a checkpoint; or what is wrong with it.
    fn note(&mut self, line: &str, ended: &mut BTreeSet<u64>) -> Result<bool, String> {
        let mut words = line.splitn(4, ' ');
        let word = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (Some(task), Some(fence)) = (number().map(TaskId), number()) else {
            return Err("no task and token".into());
        };
        let rest = words.next().unwrap_or_default();
        let (last_fence, last_step) = self.seen.get(&task).copied().unwrap_or_default();
        if fence < last_fence {
            return Err(format!("after token {last_fence} came {fence}"));
        }
        match word {
            "start" => {
                let step = self.start(task, fence, rest)?;
                if step < last_step {
                    return Err(format!("checkpoint {last_step} went back to {step}"));
                }
                self.seen.insert(task, (fence, step));
                return Ok(0 < step);
            }
            "saved" => {
                self.seen.insert(task, (fence, rest.parse().unwrap_or(0)));
            }
            "end" => {
                ended.insert(fence);
            }
            // It obeyed, and left with a good status.
            "stopped" => {}
            _ => return Err("two attempts of a task at once".into()),
        }
        if !self.began.contains(&fence) {
            return Err("it never began".into());
        }
        Ok(false)
    }

    /// The checkpoint that a handler was given.
    fn start(&mut self, task: TaskId, fence: u64, rest: &str) -> Result<u64, String> {
        let mut words = rest.splitn(3, ' ').skip(1);
        let step = words.next().and_then(|word| word.parse().ok()).ok_or("no checkpoint")?;
        let key = words.next().unwrap_or_default();
        let lease = self.account.leases.get(&fence).filter(|lease| lease.task == task);
        let lease = lease.ok_or("its token was never granted")?;
        if lease.step != step {
            return Err(format!("it was to begin at checkpoint {}", lease.step));
        }
        let known = &self.account.tasks[&task];
        if known.key.as_deref().unwrap_or_default() != key {
            return Err(format!("its key is {:?}", known.key));
        }
        if !self.began.insert(fence) {
            return Err("its token was started twice".into());
        }
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = r#"{"seq":1,"at":"2026-01-01T","event":"submitted","task":1,"spec":{"payload":{"a":1},"key":"k"}}
{"seq":2,"at":"2026-01-01T","event":"leased","task":1,"fence":2}
{"seq":3,"at":"2026-01-01T","event":"checkpointed","task":1,"fence":2,"data":{"step":3}}
{"seq":4,"at":"2026-01-01T","event":"moved","task":1,"to":"PENDING","reason":"lease_revoked"}
{"seq":5,"at":"2026-01-01T","event":"leased","task":1,"fence":5}
{"seq":6,"at":"2026-01-01T","event":"ended","task":1,"fence":5,"outcome":"success","to":"SUCCESS"}
{"seq":7,"at":"2026-01-01T","event":"forgotten","tasks":[1]}"#;

    const MARKS: &str = "start 1 2 77 0 k\nsaved 1 2 3\nstart 1 5 78 3 k\nend 1 5 plain\n";

    const ARCHIVE: &str = r#"{"store":"s","id":1,"status":"SUCC
{"store":"s","id":1,"status":"SUCCESS"}"#;

    /// What is wrong when `from` reads `to` in one of the accounts.
    fn wrong(from: &str, to: &str) -> String {
        let text = format!("{DUMP}\n---\n{MARKS}---\n{ARCHIVE}").replace(from, to);
        let [dump, marks, archive] = text.split("---\n").collect::<Vec<_>>()[..] else { panic!() };
        let mut account = Account::default();
        account.read(dump.as_bytes());
        let payload = "{\"a\":1}".to_owned();
        let end = Some("SUCCESS".to_owned());
        let known = Acknowledged { key: Some("k".into()), payload, retry_of: None, end };
        let (_, mut wrong) = account.compare(&BTreeMap::from([(TaskId(1), known)]), marks);
        wrong.extend(account.compare_archive(archive));
        wrong.join("; ")
    }

    #[test]
    fn the_oracle_is_content_with_a_life_that_is_right() {
        assert_eq!(wrong("nothing", "else"), "");
    }

    #[test]
    fn the_oracle_sees_every_breach() {
        for (from, to, what) in [
            ("\"task\":1", "\"task\":2", "task 1 is lost"),
            ("\"a\":1", "\"a\":2", "has the payload"),
            ("\"key\":\"k\"", "\"key\":\"l\"", "has the key"),
            ("\"to\":\"PENDING\"", "\"to\":\"DEAD\"", "ended [\"DEAD\", \"SUCCESS\"]"),
            ("\"to\":\"SUCCESS\"", "\"to\":\"RETRYING\"", "ended []"),
            ("\"to\":\"SUCCESS\"", "\"to\":\"FAILED\"", "was told to be SUCCESS"),
            ("\"seq\":4", "\"seq\":5", "record 5 follows record 3"),
            ("end 1 5 plain\n", "", "whose handler never came to its end"),
            ("start 1 5", "overlap 1 5", "two attempts of a task at once"),
            ("start 1 5 78 3 k\n", "", "it never began"),
            ("start 1 5", "start 1 6", "its token was never granted"),
            ("saved 1 2 3\n", "start 1 2 79 0 k\n", "its token was started twice"),
            ("78 3 k", "78 2 k", "it was to begin at checkpoint 3"),
            ("78 3 k", "78 3 l", "its key is"),
            ("saved 1 2 3", "saved 1 2 4", "checkpoint 4 went back to 3"),
            ("end 1 5 plain", "end 1 1 plain", "after token 5 came 1"),
            ("\"id\":1,\"status\":\"SUCCESS\"", "\"id\":2", "is forgotten, archived as None"),
        ] {
            let found = wrong(from, to);
            assert!(found.contains(what), "`{from}` to `{to}`: {found}");
        }
    }
}
