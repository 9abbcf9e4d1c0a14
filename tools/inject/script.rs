//! What is asked of the engine while calls of it fail, and what may be found afterwards.
//!
//! One client says one thing after the other and notes each answer outside of the data directory.
//! So at most one request is without an answer when the engine ends, and everything else is known.

use midwatch::api::{
    CheckpointRequest, Code, End, FinishRequest, Finished, LeaseProof, LeaseRequest, Leases,
    RegisterRequest, Registered, SubmitRequest, Submitted, TaskList, TaskView,
};
use midwatch::client::{Blocking, ClientError};
use midwatch::kernel::ids::{Millis, TaskId, WorkerId};
use midwatch::kernel::status::{Outcome, Status};
use midwatch::process::{self, WorkerLock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of a checkpoint: some nine of them make a snapshot due.
const CHECKPOINT_BYTES: usize = 7_000;

/// A task as the last answer left it.
#[derive(Clone, Debug)]
struct Known {
    key: String,
    payload: String,
    status: Status,
    checkpoint: Option<String>,
}

/// The request that was not answered.
#[derive(Clone, Debug)]
pub(crate) enum Unsettled {
    Register,
    Submit { key: String, payload: String },
    Lease,
    Cancel(TaskId),
    Checkpoint(TaskId, String),
    Finish(TaskId),
}

/// Everything that was answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    tasks: BTreeMap<TaskId, Known>,
    pub(crate) unsettled: Option<Unsettled>,
    /// Requests that were acknowledged; each of them rests on a sync of its own.
    pub(crate) acknowledged: u64,
    /// Requests refused because the disk was said to be full.
    pub(crate) refused: u64,
}

/// The script at work. While it lives, its worker does.
pub(crate) struct Script<'a> {
    http: &'a Blocking,
    book: &'a mut Book,
    lock: WorkerLock,
}

/// Why a script ends before its end: a request was not answered, or refused for want of room.
struct Over;

type Step<T> = Result<T, Over>;

impl<'a> Script<'a> {
    /// A script for the engine that `http` leads to.
    pub(crate) fn new(http: &'a Blocking, book: &'a mut Book, run_dir: &Path) -> Self {
        let lock = WorkerLock::take(run_dir).expect("a worker may take its lock");
        Self { http, book, lock }
    }

    /// Submits, leases, checkpoints, cancels and finishes, so many times, until a request is not
    /// answered. Gives back what keeps its worker alive.
    pub(crate) fn play(mut self, laps: u32, name: &str) -> WorkerLock {
        let _over = self.laps(laps, name);
        self.lock
    }

    fn laps(&mut self, laps: u32, name: &str) -> Step<()> {
        let worker = self.register()?;
        self.submit(&format!("{name}, the long one"))?;
        let long = self.lease(worker)?;
        for lap in 0..laps {
            let task = self.submit(&format!("{name}, lap {lap}"))?;
            self.checkpoint(worker, &long, lap)?;
            match lap % 4 {
                1 => self.cancel(task)?,
                3 => {
                    let proof = self.lease(worker)?;
                    self.finish(worker, proof)?;
                }
                _ => {}
            }
        }
        self.finish(worker, long)
    }

    /// Asks; what is not answered is `unsettled` from then on, and ends the script.
    fn ask<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
        unsettled: Unsettled,
    ) -> Step<T> {
        match self.http.post(path, body) {
            Ok(answer) => {
                self.book.acknowledged += 1;
                Ok(answer)
            }
            Err(ClientError::Problem(problem)) if problem.code == Code::NoSpace => {
                self.book.refused += 1;
                Err(Over)
            }
            Err(ClientError::Problem(problem)) if problem.status < 500 => {
                panic!("a good request was refused: {problem:?}");
            }
            Err(_) => {
                self.book.unsettled = Some(unsettled);
                Err(Over)
            }
        }
    }

    fn register(&mut self) -> Step<WorkerId> {
        let request = RegisterRequest {
            name: "script".into(),
            process: process::current().unwrap(),
            host: "here".into(),
            version: "0".into(),
            lock: self.lock.name().into(),
            types: vec!["noop".into()],
            slots: 4,
        };
        Ok(self.ask::<Registered>("/v1/workers", &request, Unsettled::Register)?.worker)
    }

    fn submit(&mut self, key: &str) -> Step<TaskId> {
        let (key, payload) = (key.to_owned(), format!("{{\"of\":\"{key}\"}}"));
        let request = submission(&key, &payload);
        let unsettled = Unsettled::Submit { key: key.clone(), payload: payload.clone() };
        let done: Submitted = self.ask("/v1/tasks", &request, unsettled)?;
        assert!(!done.existed, "the fresh key `{key}` existed");
        let known = Known { key, payload, status: Status::Pending, checkpoint: None };
        assert!(self.book.tasks.insert(done.id, known).is_none(), "an id came twice");
        Ok(done.id)
    }

    fn lease(&mut self, worker: WorkerId) -> Step<LeaseProof> {
        let path = format!("/v1/workers/{worker}/lease");
        let request = LeaseRequest { slots: 1, wait_ms: Millis(0) };
        let mut leases: Leases = self.ask(&path, &request, Unsettled::Lease)?;
        let Some(lease) = leases.leases.pop() else { return Err(Over) };
        self.known(lease.task).status = Status::Running;
        Ok(LeaseProof { task: lease.task, fence: lease.fence, secret: lease.secret })
    }

    fn checkpoint(&mut self, worker: WorkerId, lease: &LeaseProof, lap: u32) -> Step<()> {
        let text = format!("\"{lap} {}\"", "x".repeat(CHECKPOINT_BYTES));
        let data = RawValue::from_string(text.clone()).unwrap();
        let request = CheckpointRequest { lease: lease.clone(), data };
        let path = format!("/v1/workers/{worker}/checkpoint");
        let unsettled = Unsettled::Checkpoint(lease.task, text.clone());
        let _done: serde_json::Value = self.ask(&path, &request, unsettled)?;
        self.known(lease.task).checkpoint = Some(text);
        Ok(())
    }

    fn cancel(&mut self, task: TaskId) -> Step<()> {
        let path = format!("/v1/tasks/{task}/cancel");
        let empty = serde_json::json!({});
        let _done: serde_json::Value = self.ask(&path, &empty, Unsettled::Cancel(task))?;
        self.known(task).status = Status::Cancelled;
        Ok(())
    }

    fn finish(&mut self, worker: WorkerId, lease: LeaseProof) -> Step<()> {
        let task = lease.task;
        let end = End {
            lease,
            outcome: Outcome::Success,
            started: true,
            exit_code: Some(0),
            signal: None,
            result: None,
            error: None,
            usage: None,
            ran_ms: None,
            input: None,
        };
        let request = FinishRequest { ends: vec![end], slots: 0 };
        let path = format!("/v1/workers/{worker}/finish");
        let _done: Finished = self.ask(&path, &request, Unsettled::Finish(task))?;
        self.known(task).status = Status::Success;
        Ok(())
    }

    fn known(&mut self, task: TaskId) -> &mut Known {
        self.book.tasks.get_mut(&task).expect("only what was submitted is leased")
    }
}

fn submission(key: &str, payload: &str) -> SubmitRequest {
    let payload = RawValue::from_string(payload.to_owned()).unwrap();
    SubmitRequest { key: Some(key.to_owned()), ..SubmitRequest::new("noop", Some(payload)) }
}

fn all_tasks(http: &Blocking) -> Vec<TaskView> {
    let list: TaskList = http.get("/v1/tasks?limit=500").expect("an engine that serves lists");
    assert!(list.next.is_none(), "the script makes fewer tasks");
    list.tasks
}

impl Book {
    /// The same tasks, nothing counted yet.
    pub(crate) fn reopened(&self) -> Self {
        Self { tasks: self.tasks.clone(), ..Self::default() }
    }

    /// Everything acknowledged is there as it was last told, nothing is there twice, and nothing
    /// that nobody asked for. Gives back how many tasks there are.
    pub(crate) fn check(&self, http: &Blocking) -> usize {
        let found: BTreeMap<TaskId, TaskView> =
            all_tasks(http).into_iter().map(|task| (task.id, task)).collect();
        for (id, known) in &self.tasks {
            let task = found.get(id).unwrap_or_else(|| panic!("task {id} is lost"));
            self.check_task(known, task);
        }
        let keys: std::collections::BTreeSet<_> = found.values().map(|task| &task.key).collect();
        assert_eq!(keys.len(), found.len(), "a key names two tasks");
        for task in found.values().filter(|task| !self.tasks.contains_key(&task.id)) {
            let Some(Unsettled::Submit { key, payload }) = &self.unsettled else {
                panic!("nobody asked for {task:?}");
            };
            assert_eq!((task.key.as_ref(), task.payload.get()), (Some(key), payload.as_str()));
        }
        found.len()
    }

    fn check_task(&self, known: &Known, task: &TaskView) {
        assert_eq!(task.key.as_ref(), Some(&known.key));
        assert_eq!(task.payload.get(), known.payload);
        let may = match self.unsettled {
            Some(Unsettled::Lease) if known.status == Status::Pending => Some(Status::Running),
            Some(Unsettled::Cancel(id)) if id == task.id => Some(Status::Cancelled),
            Some(Unsettled::Finish(id)) if id == task.id => Some(Status::Success),
            _ => None,
        };
        let fits = task.status == known.status || Some(task.status) == may;
        assert!(fits, "acknowledged as {}, now {}: {task:?}", known.status, task.status);
        let checkpoint = task.checkpoint.as_ref().map(|data| data.get());
        let unsettled = match &self.unsettled {
            Some(Unsettled::Checkpoint(id, text)) if *id == task.id => Some(text.as_str()),
            _ => None,
        };
        let fits = checkpoint == known.checkpoint.as_deref()
            || (checkpoint.is_some() && checkpoint == unsettled);
        assert!(fits, "another checkpoint than the last acknowledged one: {task:?}");
    }

    /// Says the unanswered submission again: its key settles it, and there is one task of it.
    pub(crate) fn settle(&self, http: &Blocking, tasks: usize) {
        let Some(Unsettled::Submit { key, payload }) = &self.unsettled else { return };
        let done: Submitted = http.post("/v1/tasks", &submission(key, payload)).unwrap();
        let fresh = usize::from(!done.existed);
        assert_eq!(all_tasks(http).len(), tasks + fresh, "the repetition made another task");
    }
}
