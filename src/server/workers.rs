//! Routes of workers: register, lease, heartbeat, stops, checkpoint, finish, leave.
//!
//! The secret of a lease is drawn here and handed to the worker; the engine and the disk only
//! ever see its hash.

use super::app::{Answered, App, WAIT_MAX, ok, worker_id};
use super::hand::{Answers, in_company};
use super::host::Facts;
use super::peer::{Access, Peer};
use super::problems::{Failure, invalid, problem};
use super::submission::{check_json, parse};
use super::views;
use super::watches::Subject;
use crate::api::{
    CheckpointRequest, Checkpointed, Code, End, EndAnswer, FinishRequest, Finished,
    HeartbeatRequest, Hold, Lease, LeaseProof, LeaseRequest, Leases, OfferRequest, Problem,
    RegisterRequest, Registered, StopOrder, StopWord, Stops, StopsRequest, Workers,
};
use crate::kernel::event::{Actor, Registration};
use crate::kernel::ids::{Fence, Millis, TaskId, WorkerId};
use crate::kernel::status::Outcome;
use crate::kernel::task::SecretHash;
use crate::kernel::text::Text;
use crate::kernel::{Answer, Command, EndReport, HoldReport, Proof, Rejection};
use crate::limits::{
    BODY_BYTES_MAX, ERROR_TEXT_BYTES_MAX, LEASES_PER_REQUEST_MAX, NAME_BYTES_MAX,
    PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX,
};
use crate::units::rfc3339;
use axum::extract::{Extension, Path, Request, State as Shared};
use rand::TryRng;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Task types that one worker may name.
const KINDS_MAX: usize = 1024;

/// Longest note with a progress.
const NOTE_BYTES_MAX: usize = 1 << 10;

/// Secrets of leases that are asked for: as the worker will know them, and as the engine does.
struct Secrets {
    shown: Vec<String>,
    hashes: Vec<SecretHash>,
}

impl Secrets {
    fn draw(count: u32) -> Result<Self, Failure> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(LEASES_PER_REQUEST_MAX);
        let mut random = vec![0_u8; count * 16];
        rand::rngs::SysRng.try_fill_bytes(&mut random).map_err(|error| {
            Failure(Problem::new(Code::Busy, format!("the system has no random numbers: {error}")))
        })?;
        let shown = random.chunks_exact(16).map(crate::engine::hex).collect();
        Ok(Self { shown, hashes: random.chunks_exact(16).map(hash).collect() })
    }
}

fn hash(secret: &[u8]) -> SecretHash {
    let digest = Sha256::digest(secret);
    let mut short = [0; 16];
    short.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    SecretHash(short)
}

/// The secret that hex digits show; whatever is none matches no lease.
fn shown(secret: &str) -> SecretHash {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> = secret
        .as_bytes()
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => Some(digit(high)? * 16 + digit(low)?),
            _ => None,
        })
        .collect();
    hash(&bytes.filter(|bytes| bytes.len() == 16).unwrap_or_default())
}

fn proof(worker: WorkerId, lease: &LeaseProof) -> Proof {
    let LeaseProof { task, fence, secret } = lease;
    Proof { worker, task: *task, fence: *fence, secret: shown(secret) }
}

fn admit(app: &App, peer: Peer) -> Result<(), Problem> {
    app.require(peer, Access::Own, "act as a worker")
}

/// `POST /v1/workers`.
pub(crate) async fn register(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answered {
    admit(&app, peer)?;
    let registration = registration(&app, app.read_json(request.into_body()).await?)?;
    let command = Command::Register(registration.clone());
    let asked = app.hand.ask_and_look(peer.actor(), vec![command], |facts, answers| {
        (answers.into_iter().next(), facts.engine.rules().heartbeat)
    })?;
    match asked.await? {
        (Some(Ok(Answer::Registered(worker))), heartbeat_ms) => {
            let hand = app.hand.clone();
            tokio::spawn(super::deaths::follow(hand, app.run_dir(), worker, registration));
            let data_dir = app.data_dir.display().to_string();
            Ok(ok(&Registered { worker, heartbeat_ms, store: app.store.clone(), data_dir }))
        }
        (Some(Err(rejection)), _) => Err(rejection.into()),
        _ => Err(super::tasks::unexpected()),
    }
}

fn registration(app: &App, request: RegisterRequest) -> Result<Registration, Failure> {
    let RegisterRequest { name, process, host, version, lock, types, slots } = request;
    for (field, text) in [("name", &name), ("host", &host), ("version", &version)] {
        if text.is_empty() || NAME_BYTES_MAX < text.len() {
            return Err(invalid(format!("`{field}` must have 1 to {NAME_BYTES_MAX} bytes")));
        }
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let named = lock.strip_prefix("worker-").and_then(|rest| rest.strip_suffix(".lock"));
    if !named.is_some_and(|middle| !middle.is_empty() && middle.chars().all(plain)) {
        return Err(invalid("`lock` must be the name of a file in run/: worker-SOMETHING.lock"));
    }
    if process.boot_id != app.boot_id {
        return Err(invalid(format!(
            "`process.boot_id` is not that of this boot, {}",
            app.boot_id
        )));
    }
    if crate::process::is_free(&app.run_dir().join(&lock)).unwrap_or(false) {
        return Err(invalid(format!(
            "nobody holds the lock run/{lock}: a worker takes it before it registers and keeps it \
             for life"
        )));
    }
    let kinds = offered(types, slots)?;
    Ok(Registration {
        name: name.into(),
        process,
        host: host.into(),
        version: version.into(),
        lock: lock.into(),
        kinds,
        slots,
    })
}

/// The types that a worker offers, if that and its slots are within bounds.
fn offered(types: Vec<String>, slots: u32) -> Result<Vec<Text>, Failure> {
    let slots_max = u32::try_from(LEASES_PER_REQUEST_MAX).unwrap_or(u32::MAX);
    if slots == 0 || slots_max < slots {
        return Err(invalid(format!("`slots` must be from 1 to {slots_max}")));
    }
    if KINDS_MAX < types.len() {
        return Err(invalid(format!("`types` must name at most {KINDS_MAX}")));
    }
    // Twice the same type would lease its tasks twice.
    let kinds: BTreeSet<Text> = types.into_iter().map(Text::from).collect();
    Ok(kinds.into_iter().collect())
}

async fn offer(app: &App, worker: WorkerId, request: OfferRequest) -> Answered {
    let OfferRequest { types, slots } = request;
    let kinds = offered(types, slots)?;
    done(app, worker, Command::Offer { worker, kinds, slots }).await
}

/// `GET /v1/workers`.
pub(crate) async fn list(Shared(app): Shared<Arc<App>>) -> Answered {
    let look = |facts: &Facts<'_>| {
        let state = facts.engine.state();
        let view = |worker: &crate::kernel::Worker| {
            let silent = facts.engine.silence(worker.id, facts.now.service);
            views::worker(state, worker, silent)
        };
        Workers { workers: state.workers().map(view).collect() }
    };
    Ok(ok(&app.read(look).await?))
}

/// `POST /v1/workers/{id}/{verb}`.
pub(crate) async fn call(
    Shared(app): Shared<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path((id, verb)): Path<(String, String)>,
    request: Request,
) -> Answered {
    admit(&app, peer)?;
    let worker = worker_id(&id)?;
    match verb.as_str() {
        "lease" => lease(&app, worker, app.read_json(request.into_body()).await?).await,
        "heartbeat" => heartbeat(&app, worker, app.read_json(request.into_body()).await?).await,
        "offer" => offer(&app, worker, app.read_json(request.into_body()).await?).await,
        "stops" => stops(&app, worker, app.read_json(request.into_body()).await?).await,
        "checkpoint" => checkpoint(&app, worker, request).await,
        "finish" => finish(&app, worker, request).await,
        "leave" => leave(&app, worker).await,
        _ => Err(super::http::no_such_route(&request)),
    }
}

/// A lease before its texts are copied.
struct Leased {
    lease: Lease,
    payload: Text,
    checkpoint: Option<Text>,
}

fn leased(facts: &Facts<'_>, task: TaskId, fence: Fence) -> Option<Leased> {
    let known = facts.engine.state().task(task)?;
    let rules = facts.engine.rules().of(&known.kind);
    let lease = Lease {
        task,
        kind: known.kind.to_string(),
        payload: serde_json::value::RawValue::NULL.to_owned(),
        fence,
        secret: String::new(),
        attempt: known.attempt(fence)?.number,
        max_retry: known.max_retry,
        timeout_ms: known.timeout,
        cancel_grace_ms: rules.cancel_grace,
        kill_grace_ms: rules.kill_grace,
        key: views::key(known),
        scheduled_for: rfc3339(views::scheduled_for(known, facts.now)),
        checkpoint: None,
    };
    let checkpoint = known.checkpoint().map(|checkpoint| checkpoint.data.clone());
    Some(Leased { lease, payload: known.payload.clone(), checkpoint })
}

/// The leases that an answer grants, each in the place of its secret.
fn all_leased(facts: &Facts<'_>, granted: Vec<(TaskId, Fence)>) -> Vec<Option<Leased>> {
    granted.into_iter().map(|(task, fence)| leased(facts, task, fence)).collect()
}

fn hand_out(leased: Vec<Option<Leased>>, secrets: Vec<String>) -> Vec<Lease> {
    let pairs = leased.into_iter().zip(secrets);
    let whole = pairs.filter_map(|(leased, secret)| {
        let Leased { mut lease, payload, checkpoint } = leased?;
        lease.payload = views::raw(&payload);
        lease.checkpoint = checkpoint.as_deref().map(views::raw);
        lease.secret = secret;
        Some(lease)
    });
    whole.collect()
}

async fn lease(app: &App, worker: WorkerId, request: LeaseRequest) -> Answered {
    let LeaseRequest { slots, wait_ms } = request;
    let Secrets { shown, hashes } = Secrets::draw(slots)?;
    let look = |facts: &Facts<'_>, answers: Answers| match answers.into_iter().next() {
        Some(Ok(Answer::Leased(granted))) => Ok(all_leased(facts, granted)),
        Some(Err(rejection)) => Err(rejection),
        _ => Err(Rejection::Needless),
    };
    let leases = if wait_ms == Millis(0) || hashes.is_empty() {
        let command = Command::Lease { worker, secrets: hashes };
        app.hand.ask_and_look(Actor::Worker(worker), vec![command], look)?.await?
    } else {
        let asked = app.hand.await_lease(worker, hashes, wait_ms.min(WAIT_MAX), look)?;
        tokio::select! {
            leases = asked => leases?,
            () = app.closing() => Ok(Vec::new()),
        }
    };
    Ok(ok(&Leases { leases: hand_out(leases?, shown) }))
}

async fn heartbeat(app: &App, worker: WorkerId, request: HeartbeatRequest) -> Answered {
    let HeartbeatRequest { holds } = request;
    if LEASES_PER_REQUEST_MAX < holds.len() {
        return Err(invalid(format!("`holds` must name at most {LEASES_PER_REQUEST_MAX}")));
    }
    let holds = holds.into_iter().map(|Hold { lease, process, progress }| {
        let progress = progress.map(|mut progress| {
            let clipped = progress.note.as_deref().map(|note| Text::clipped(note, NOTE_BYTES_MAX));
            progress.note = clipped.map(|note| note.to_string());
            progress
        });
        HoldReport { proof: proof(worker, &lease), process, progress }
    });
    let command = Command::Heartbeat { worker, holds: holds.collect() };
    let by = Actor::Worker(worker);
    let stops = app.hand.ask_and_look(by, vec![command], move |facts, answers| {
        let stale = match answers.into_iter().next() {
            Some(Ok(Answer::Heard(stale))) => stale,
            Some(Err(rejection)) => return Err(rejection),
            _ => return Err(Rejection::Needless),
        };
        let stop = StopWord::Superseded;
        let superseded = stale.into_iter().map(|(task, fence)| StopOrder { task, fence, stop });
        let orders = views::orders(facts.engine.state(), worker);
        Ok(Stops { stops: superseded.chain(orders).collect() })
    })?;
    Ok(ok(&stops.await??))
}

async fn stops(app: &App, worker: WorkerId, request: StopsRequest) -> Answered {
    let StopsRequest { mut known, wait_ms } = request;
    let order = |stop: &StopOrder| (stop.task, stop.fence);
    known.retain(|known| known.stop != StopWord::Superseded);
    known.sort_by_key(order);
    let current = move |facts: &Facts<'_>| {
        let state = facts.engine.state();
        state.worker(worker).ok_or(Rejection::NoSuchWorker(worker))?;
        let mut orders = views::orders(state, worker);
        orders.sort_by_key(order);
        Ok::<_, Rejection>(orders)
    };
    let differ = move |facts: &Facts<'_>| match current(facts) {
        Ok(orders) if orders == known => None,
        found => Some(found),
    };
    let changed = app.hand.watch(Subject::Worker(worker), differ)?;
    let now = || async { app.hand.read(current)?.await };
    let orders = tokio::select! {
        changed = changed => changed?,
        () = tokio::time::sleep(wait_ms.min(WAIT_MAX).duration()) => now().await?,
        () = app.closing() => now().await?,
    };
    Ok(ok(&Stops { stops: orders? }))
}

async fn checkpoint(app: &App, worker: WorkerId, request: Request) -> Answered {
    let body = app.read_body(request.into_body(), BODY_BYTES_MAX).await?;
    let CheckpointRequest { lease, data } = parse(&body)?;
    check_json("checkpoint", data.get(), PAYLOAD_BYTES_MAX)?;
    let data = Text::from(Box::<str>::from(data));
    let task = lease.task;
    let command = Command::Checkpoint { proof: proof(worker, &lease), data };
    let by = Actor::Worker(worker);
    let done = app.hand.ask_and_look(by, vec![command], move |facts, answers| {
        let stop = facts.engine.state().task(task).and_then(crate::kernel::task::Task::stop);
        (answers.into_iter().next(), stop.map(views::stop_word))
    })?;
    match done.await? {
        (Some(Ok(Answer::Checkpointed(seq))), stop) => Ok(ok(&Checkpointed { seq, stop })),
        (Some(Ok(Answer::Refused(rejection)) | Err(rejection)), _) => Err(rejection.into()),
        _ => Err(super::tasks::unexpected()),
    }
}

/// The end as the engine takes it.
fn end(worker: WorkerId, end: End) -> Result<Command, Failure> {
    let End { lease, outcome, started, exit_code, signal, result, error, usage, ran_ms, input } =
        end;
    if outcome == Outcome::Lost {
        return Err(invalid("a worker cannot report that it was `lost`"));
    }
    if let Some(result) = &result {
        check_json("result", result.get(), RESULT_BYTES_MAX)?;
    }
    let report = EndReport {
        outcome,
        started,
        exit_code,
        signal,
        result: result.map(|result| Box::<str>::from(result).into()),
        error: error.map(|error| Text::clipped(&error, ERROR_TEXT_BYTES_MAX)),
        usage,
        ran: ran_ms,
        input,
    };
    Ok(Command::End { proof: proof(worker, &lease), report })
}

async fn finish(app: &App, worker: WorkerId, request: Request) -> Answered {
    let body = app.read_body(request.into_body(), BODY_BYTES_MAX).await?;
    let FinishRequest { ends, slots } = parse(&body)?;
    if LEASES_PER_REQUEST_MAX < ends.len() {
        return Err(invalid(format!("`ends` must name at most {LEASES_PER_REQUEST_MAX}")));
    }
    let Secrets { shown, hashes } = Secrets::draw(slots)?;
    let mut commands = Vec::with_capacity(ends.len() + 1);
    // Ends that are refused before they are decided keep their place.
    let refused: Vec<_> = ends
        .into_iter()
        .map(|one| end(worker, one).map(|command| commands.push(command)).err())
        .collect();
    if !hashes.is_empty() {
        commands.push(Command::Lease { worker, secrets: hashes });
    }
    let by = Actor::Worker(worker);
    in_company().await;
    let done = app.hand.ask_and_look(by, commands, |facts, mut answers| {
        let granted = match answers.pop_if(|answer| matches!(answer, Ok(Answer::Leased(_)))) {
            Some(Ok(Answer::Leased(granted))) => granted,
            _ => Vec::new(),
        };
        (answers, all_leased(facts, granted))
    })?;
    let (answers, leases) = done.await?;
    let mut answers = answers.into_iter();
    let ends = refused.into_iter().map(|refused| match refused {
        Some(Failure(problem)) => EndAnswer { status: None, error: Some(problem) },
        None => end_answer(answers.next()),
    });
    Ok(ok(&Finished { ends: ends.collect(), leases: hand_out(leases, shown) }))
}

fn end_answer(answer: Option<Result<Answer, Rejection>>) -> EndAnswer {
    match answer {
        Some(Ok(Answer::Ended(status))) => EndAnswer { status: Some(status), error: None },
        Some(Ok(Answer::Refused(rejection)) | Err(rejection)) => {
            EndAnswer { status: None, error: Some(problem(&rejection)) }
        }
        _ => EndAnswer { status: None, error: Some(super::tasks::unexpected().0) },
    }
}

async fn leave(app: &App, worker: WorkerId) -> Answered {
    done(app, worker, Command::Leave(worker)).await
}

/// Has a command carried out that is answered with nothing.
async fn done(app: &App, worker: WorkerId, command: Command) -> Answered {
    let answers = app.hand.ask(Actor::Worker(worker), vec![command])?.await?;
    match answers.into_iter().next() {
        Some(Ok(_)) => Ok(ok(&serde_json::json!({}))),
        Some(Err(rejection)) => Err(rejection.into()),
        None => Err(super::tasks::unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_secret_is_known_again_by_its_hex_and_no_other_is() {
        let Secrets { shown: hex, hashes } = Secrets::draw(3).unwrap();
        assert_eq!(hex.len(), 3);
        for (hex, hash) in hex.iter().zip(&hashes) {
            assert_eq!(hex.len(), 32);
            assert_eq!(shown(hex), *hash);
            assert_eq!(shown(&hex.to_uppercase()), *hash);
            for other in ["", "zz", &hex[..31], &format!("{hex}00"), "é".repeat(16).as_str()] {
                assert_ne!(shown(other), *hash, "{other}");
            }
        }
        assert_ne!(hashes[0], hashes[1]);
    }
}
