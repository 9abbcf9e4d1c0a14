//! The life of the server: lock, recover, serve, close.

use super::alerts::{self, Post};
use super::app::{App, LARGE_BODIES_MAX, Policy, group};
use super::archive::Archive;
use super::hand::{Hand, Message, Outbox};
use super::helpers::{self, Ground, SWEEPS_QUEUED_MAX};
use super::host::{Core, Helpers, Host};
use super::house::House;
use super::own_health::OwnHealth;
use super::pulse::Pulse;
use super::reload::{Reload, Reloading};
use super::remains::{self, Remains};
use super::replay::Replayer;
use super::rules::{journal_options, rules_from};
use super::schedules::{self, Arranging};
use super::socket::Socket;
use super::status::{About, Recovered};
use super::tcp::WrongTokens;
use super::triggers::hooks::Traffic;
use super::triggers::inbox;
use super::{claims, data_dir, deaths, http, lifeline, page, tcp, timekeeping};
use crate::clock::{self, Belief, Clock};
use crate::config::{Config, Fsync, Running};
use crate::engine::{Engine, Output, Start};
use crate::journal::{self, JournalError, RealDisk, SyncTimes};
use crate::kernel::event::Registration;
use crate::kernel::ids::{Millis, WorkerId};
use crate::kernel::rules::Rules;
use crate::kernel::status::Reason;
use crate::limits::{CONNECTIONS_MAX, INPUTS_QUEUED_MAX, TCP_CONNECTIONS_MAX};
use crate::process;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Semaphore, oneshot, watch};

/// How often the supervisor is told that all is well, as it expects it; more would only wake an idle
/// machine.
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// Descriptors that are not for connections by the unix socket: those by TCP, the journal, snapshots, logs that are read, pidfds.
const DESCRIPTORS_KEPT: usize = 512 + TCP_CONNECTIONS_MAX;

/// A turn of the engine that takes longer than this is stuck.
const TURN_TIME_MAX: Millis = Millis::secs(60);

/// Longest wait for the inbox's thread when the daemon goes away.
const INBOX_CLOSING_TIME: Duration = Duration::from_secs(5);

/// What the server is started with.
#[derive(Debug)]
pub struct ServerOptions {
    /// The config; it names the data directory and the socket.
    pub config: Config,
    /// How to take up a changed config; none leaves it as it is.
    pub reload: Option<Reload>,
    /// Read end of a pipe: when it closes, the server stops. What comes through it before is news
    /// of the supervisor.
    pub lifeline: Option<OwnedFd>,
    /// Write end of a pipe: gets a byte when the server begins to serve, and then every few
    /// seconds while it is well.
    pub probe: Option<OwnedFd>,
    /// Whether SIGTERM and SIGINT stop the server, and SIGHUP has the config read again.
    pub signals: bool,
    /// Whether to take over a data directory that another machine wrote last.
    pub adopt: bool,
}

/// Why the server did not start, or ended.
#[derive(Debug)]
pub struct ServerError {
    /// The exit code of the process.
    pub exit_code: u8,
    /// What happened, with the cause and what helps.
    pub text: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ServerError {}

impl From<JournalError> for ServerError {
    fn from(error: JournalError) -> Self {
        let mut text = format!("[{}] {error}", error.code());
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text.push_str(&format!("\n  cause: {error}"));
            cause = error.source();
        }
        Self { exit_code: error.exit_code(), text }
    }
}

impl ServerError {
    /// What no other try would mend: the places that the config names do not do.
    fn refused(self) -> Self {
        Self { exit_code: self.exit_code.max(7), ..self }
    }

    pub(super) fn host(doing: &str, path: &Path, error: &io::Error) -> Self {
        let exit_code = match error.kind() {
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::StorageFull
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::AddrInUse => 7,
            _ => 1,
        };
        Self { exit_code, text: format!("cannot {doing} {}: {error}", path.display()) }
    }

    fn config(text: String) -> Self {
        Self { exit_code: 2, text }
    }
}

/// Runs the server until it is told to stop.
///
/// In this order: lock the data directory, recover, settle what the last run left, and only then
/// open the socket. Fails when any of it does; a storage error later on ends it too, and whoever
/// still waits for an answer does not get one.
pub fn run(options: ServerOptions) -> Result<(), ServerError> {
    let ServerOptions { config, reload, lifeline, probe, signals, adopt } = options;
    let data_dir = data_dir::make_data_dir(&config).map_err(ServerError::refused)?;
    // Held until the very end, after the socket is gone.
    let _lock = data_dir::lock(&data_dir)?;
    let runtime = runtime().map_err(|error| ServerError::host("start for", &data_dir, &error))?;
    // Caught from now on, or a reload that comes while a long journal is read would be the end.
    let hangup = signals.then(|| catch_hangup(&runtime)).flatten();
    let recovering = probe.as_ref().map(say_that_recovery_goes_on).transpose();
    let recovering = recovering.map_err(|error| ServerError::host("watch", &data_dir, &error))?;
    let opened = open(&config, &data_dir, adopt)?;
    drop(recovering);
    let (socket, listener) = bind(&config).map_err(ServerError::refused)?;
    let orders = Orders { reload, hangup, lifeline, probe, signals };
    let served = runtime.block_on(serve(&config, &data_dir, opened, listener, orders));
    drop(socket);
    served
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .thread_name("blocking")
        .build()
}

fn catch_hangup(runtime: &Runtime) -> Option<Signal> {
    let _inside = runtime.enter();
    match signal(SignalKind::hangup()) {
        Ok(hangup) => Some(hangup),
        Err(error) => {
            tracing::error!("cannot catch SIGHUP: {error}");
            None
        }
    }
}

/// How often a start that takes long gives a sign of life.
const RECOVERING_EVERY: Duration = Duration::from_secs(5);

/// Writes an `s` to the probe every few seconds, until what it returns is dropped: a journal of
/// any length may be read without being taken for a process that hangs.
fn say_that_recovery_goes_on(probe: &OwnedFd) -> io::Result<SyncSender<()>> {
    let mut probe = File::from(probe.try_clone()?);
    let (alive, ended) = sync_channel::<()>(0);
    start_thread("recovery", move || {
        while ended.recv_timeout(RECOVERING_EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Err(error) = probe.write(b"s") {
                tracing::debug!("nobody reads the probe: {error}");
            }
        }
    })?;
    Ok(alive)
}

/// How others steer the server.
struct Orders {
    reload: Option<Reload>,
    hangup: Option<Signal>,
    lifeline: Option<OwnedFd>,
    probe: Option<OwnedFd>,
    signals: bool,
}

/// The engine, recovered and settled.
struct Opened {
    engine: Core,
    clock: Clock,
    arranging: Arranging,
    outputs: Vec<Output<RealDisk>>,
    recovery: Recovered,
    boot_id: String,
    store: String,
    workers: Vec<(WorkerId, Registration)>,
    sync_times: Arc<SyncTimes>,
}

fn open(config: &Config, data_dir: &Path, adopt: bool) -> Result<Opened, ServerError> {
    let machine = |error: io::Error| ServerError::host("read", Path::new("/proc"), &error);
    let boot_id = process::boot_id().map_err(machine)?;
    let disk =
        RealDisk::open(data_dir).map_err(|error| ServerError::host("open", data_dir, &error))?;
    let host = journal::Host {
        machine_id: process::machine_id().map_or([0; 16], |id| short(&id)),
        boot_id: short(&boot_id),
        random: rand::random(),
    };
    let options = journal::Options { adopt, ..journal_options(config) };
    let (sync_times, began) = (disk.sync_times(), clock::monotonic());
    let (mut engine, recovery) = recover(disk, options, host, rules_from(config))?;
    let took = Millis(clock::monotonic().0.saturating_sub(began.0));
    engine.set_snapshot_after(config.journal.snapshot_after);
    let run_dir = data_dir.join("run");
    if recovery.adopted {
        claims::forget_all(&run_dir)
            .map_err(|error| ServerError::host("clear", &run_dir, &error))?;
    }
    let verdict = |worker| {
        let elsewhere = recovery.adopted.then_some(Reason::HostRebooted);
        elsewhere.or_else(|| deaths::verdict(worker, &run_dir, &boot_id))
    };
    let grace = config.worker.suspect_after;
    let belief = Belief {
        plausible_since: engine.rules().plausible_since,
        synchronised: config.clock.wait_for_sync.then_some(process::clock_is_synchronised),
    };
    let mut clock = Clock::resume(engine.state().head(), &boot_id, grace, belief);
    let now = clock.now();
    let workers = engine.state().workers();
    let dead = workers.filter_map(|worker| Some((worker.id, verdict(worker)?)));
    let wanted = schedules::specs(config);
    schedules::tell_of_takeovers(engine.state(), &wanted);
    let start = Start {
        version: env!("CARGO_PKG_VERSION").into(),
        boot_id: boot_id.as_str().into(),
        boot_clock: clock.boot(),
        skipped_ahead: recovery.skipped_ahead,
        dead: dead.collect(),
        stepped: clock.take_step().map(|step| (step.from, step.to)),
        schedules: Some(wanted.clone()),
    };
    let outputs = engine.start(start, now)?;
    let workers = engine.state().workers();
    let workers = workers.map(|worker| (worker.id, worker.registration.clone())).collect();
    let store = crate::engine::hex(&engine.journal().store_uuid());
    let recovery = Recovered { took, ..Recovered::of(&recovery) };
    tracing::info!("recovered: {}", recovery.line);
    if let Some(suspicious) = &recovery.suspicious {
        tracing::error!("{suspicious}");
    }
    let arranging = Arranging::begin(wanted, engine.refused_schedules(), clock::monotonic());
    Ok(Opened { engine, clock, arranging, outputs, recovery, boot_id, store, workers, sync_times })
}

/// Opens the engine, on two cores. A record that can't follow is looked for once more on one, for
/// only then the refusal names its place; nothing has been written by then.
fn recover(
    disk: RealDisk,
    options: journal::Options,
    host: journal::Host,
    rules: Rules,
) -> Result<(Core, journal::Recovery), JournalError> {
    match Engine::open_with(disk.clone(), options, host, rules.clone(), Replayer::new()) {
        Err(JournalError::Refused { .. } | JournalError::RefusedStore { .. }) => {
            Engine::open(disk, options, host, rules)
        }
        opened => opened,
    }
}

/// Sixteen bytes that stand for a text of any length.
fn short(text: &str) -> [u8; 16] {
    let mut short = [0; 16];
    short.iter_mut().zip(Sha256::digest(text)).for_each(|(to, from)| *to = from);
    short
}

fn bind(config: &Config) -> Result<(Socket, std::os::unix::net::UnixListener), ServerError> {
    let group = group(config.http.socket_group.as_ref(), "socket_group");
    let group = group.map_err(ServerError::config)?;
    if let Some(group) = &group
        && config.socket.starts_with(&config.data_dir)
    {
        tracing::warn!(
            "the socket lies in the data directory, which only its owner may enter: the group \
             `{}` cannot reach it; name another place with `socket`",
            group.name
        );
    }
    Socket::bind(&config.socket, group.map(|group| group.gid))
        .map_err(|error| ServerError::host("open the socket", &config.socket, &error))
}

/// Serves on the unix socket, and by TCP where the config names an address, once that can be had.
async fn serve_all(
    unix: tokio::net::UnixListener,
    listen: Option<SocketAddr>,
    app: &Arc<App>,
) -> io::Result<()> {
    let by_tcp = async {
        let Some(address) = listen else { return Ok(()) };
        let listener = tokio::select! {
            listener = tcp::open(address, &app.house) => listener,
            () = app.closing() => return Ok(()),
        };
        http::serve(listener, app, TCP_CONNECTIONS_MAX).await
    };
    let (by_socket, by_tcp) = tokio::join!(http::serve(unix, app, room_for_connections()), by_tcp);
    by_socket.and(by_tcp)
}

/// Where what ended tasks leave is seen to.
fn remains_of(config: &Config, data_dir: &Path, store: &str) -> Remains {
    let retention = &config.retention;
    let archive = retention.archive.clone();
    Remains {
        logs: data_dir.join("logs"),
        logs_max: Arc::new(AtomicU64::new(retention.logs)),
        archive: archive.map(|path| Archive::new(path, store.to_owned())),
    }
}

async fn serve(
    config: &Config,
    data_dir: &Path,
    opened: Opened,
    listener: std::os::unix::net::UnixListener,
    orders: Orders,
) -> Result<(), ServerError> {
    let no_runtime = |error: io::Error| ServerError::host("serve", &config.socket, &error);
    let (to, inbox) = sync_channel(INPUTS_QUEUED_MAX);
    let hand = Hand::new(to);
    let (close, closing) = watch::channel(false);
    let supervisor = orders.lifeline.is_some().then(std::os::unix::process::parent_id);
    let app = app(config, data_dir, &opened, (hand.clone(), closing), supervisor)?;
    let (outbox, pulse) = (Arc::new(Outbox::default()), Arc::clone(&app.pulse));
    let ground = Ground {
        run_dir: app.run_dir(),
        store: opened.store.clone(),
        boot_id: opened.boot_id.clone(),
    };
    let remains = remains_of(config, data_dir, &opened.store);
    let logs_max = Arc::clone(&remains.logs_max);
    let helpers = start_helpers(&hand, ground, remains, &app.post).map_err(no_runtime)?;
    for (worker, registration) in opened.workers {
        tokio::spawn(deaths::follow(hand.clone(), app.run_dir(), worker, registration));
    }
    let inbox_ended = start_inbox(&app).map_err(no_runtime)?;
    let core = (opened.engine, opened.clock, opened.arranging);
    let mut host = Host::new(core, inbox, outbox.clone(), pulse.clone(), helpers);
    host.own_health = Arc::clone(&app.own_health);
    let mut ended = start_engine(host, opened.outputs).map_err(no_runtime)?;
    let postman = Arc::clone(&outbox);
    tokio::spawn(async move { postman.postman().await });
    let listener = tokio::net::UnixListener::from_std(listener).map_err(no_runtime)?;
    let (done, reloaded) = tokio::sync::mpsc::channel(1);
    if let Some(probe) = orders.probe {
        tokio::spawn(tell_that_all_is_well(File::from(probe), pulse, reloaded));
    }
    if let Some(Reload { source, taken }) = orders.reload {
        let running = Running::new(source, config.clone());
        let app = Arc::clone(&app);
        let reloading = Reloading { running, taken, app, logs_max, done };
        tokio::spawn(reloading.run(orders.hangup));
    }
    tokio::spawn(timekeeping::tell_of_steps(hand.clone()));
    app.post.take_up(config, &app.hand, &app.about.host);
    tokio::spawn(alerts::keep_watch(Arc::clone(&app)));
    tracing::info!("serving on {}", config.socket.display());
    let house = Arc::clone(&app);
    let serving = serve_all(listener, config.http.listen, &app);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        // A storage error: nothing more may be answered.
        ended = &mut ended => return outcome(ended),
        served = &mut serving => served.map_err(no_runtime)?,
        () = told_to_stop(orders.lifeline, orders.signals, &house.house) => {
            tracing::info!("stopping");
            close.send_replace(true);
            house.inbox.close();
            house.post.close();
            tokio::select! {
                ended = &mut ended => return outcome(ended),
                served = &mut serving => served.map_err(no_runtime)?,
            }
        }
    }
    // Its files are safe wherever it stops; but another daemon must not find it at work.
    if tokio::time::timeout(INBOX_CLOSING_TIME, inbox_ended).await.is_err() {
        tracing::warn!("the inbox did not stop in time");
    }
    tokio::task::spawn_blocking(move || hand.send_patiently(Message::Stop));
    outcome(ended.await)
}

fn outcome(
    ended: Result<Result<(), JournalError>, oneshot::error::RecvError>,
) -> Result<(), ServerError> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            let error = ServerError::from(error);
            tracing::error!("the journal failed, nothing more is answered: {error}");
            Err(error)
        }
        Err(_gone) => Err(ServerError { exit_code: 1, text: "the engine ended".to_owned() }),
    }
}

fn app(
    config: &Config,
    data_dir: &Path,
    opened: &Opened,
    (hand, closing): (Hand, watch::Receiver<bool>),
    supervisor: Option<u32>,
) -> Result<Arc<App>, ServerError> {
    let policy = Policy::of(config).map_err(ServerError::config)?;
    let uname = rustix::system::uname();
    let about = About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: uname.nodename().to_string_lossy().into_owned(),
        since: clock::monotonic(),
        fsync: config.journal.fsync.word(),
        fsync_is_weak: config.journal.fsync != Fsync::Always,
        recovery: opened.recovery.clone(),
        reserve: config.journal.reserve,
        sync_times: Arc::clone(&opened.sync_times),
    };
    Ok(Arc::new(App {
        hand,
        policy: watch::Sender::new(Arc::new(policy)),
        house: House::default(),
        pulse: Arc::default(),
        own_health: Arc::new(OwnHealth::new(supervisor)),
        last_status: Mutex::default(),
        data_dir: data_dir.to_owned(),
        store: opened.store.clone(),
        boot_id: opened.boot_id.clone(),
        about,
        traffic: Traffic::default(),
        post: Arc::default(),
        inbox: Arc::default(),
        wrong_tokens: WrongTokens::default(),
        page_word: page::word(),
        large: Arc::new(Semaphore::new(LARGE_BODIES_MAX)),
        closing,
    }))
}

pub(super) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let guarded = move || {
        let _guard = AbortOnPanic;
        work();
    };
    thread::Builder::new().name(name.to_owned()).spawn(guarded).map(drop)
}

/// A panic anywhere ends the process: nothing lives on half alive.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

fn start_helpers(
    hand: &Hand,
    ground: Ground,
    remains: Remains,
    post: &Arc<Post>,
) -> io::Result<Helpers> {
    let (sweeper, sweeps) = sync_channel(SWEEPS_QUEUED_MAX);
    let back = hand.clone();
    start_thread("sweep", move || helpers::sweeper(&sweeps, &back, &ground))?;
    let (snapshots, images) = sync_channel(1);
    let back = hand.clone();
    start_thread("snapshot", move || helpers::snapshots(&images, &back))?;
    let (keeper, jobs) = sync_channel(remains::JOBS_QUEUED_MAX);
    let back = hand.clone();
    start_thread("remains", move || remains::keeper(&jobs, &back, &remains))?;
    Ok(Helpers { sweeper, snapshots, remains: keeper, post: Arc::clone(post) })
}

fn start_inbox(app: &Arc<App>) -> io::Result<oneshot::Receiver<()>> {
    let (done, ended) = oneshot::channel();
    let app = Arc::clone(app);
    start_thread("inbox", move || {
        inbox::keeper(&app);
        drop(done);
    })?;
    Ok(ended)
}

fn start_engine(
    host: Host,
    outputs: Vec<Output<RealDisk>>,
) -> io::Result<oneshot::Receiver<Result<(), JournalError>>> {
    let (done, ended) = oneshot::channel();
    start_thread("engine", move || drop(done.send(host.run(outputs))))?;
    Ok(ended)
}

/// How many connections may be open at once, after the limit of open files was raised as far as
/// it helps. The journal must never find that a client took its last descriptor.
fn room_for_connections() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = CONNECTIONS_MAX + DESCRIPTORS_KEPT;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let reachable = maximum.unwrap_or(u64::MAX).min(wanted as u64);
    let mut limit = current.unwrap_or(u64::MAX);
    if limit < reachable {
        let raised = Rlimit { current: Some(reachable), maximum };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit = reachable,
            Err(error) => tracing::warn!("cannot raise the limit of open files: {error}"),
        }
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let room = CONNECTIONS_MAX.min(limit.saturating_sub(DESCRIPTORS_KEPT)).max(1);
    if room < CONNECTIONS_MAX {
        tracing::warn!("only {room} connections at once: the limit of open files is {limit}");
    }
    room
}

/// Writes a byte now and every few seconds, unless the engine's thread is stuck. Touches neither
/// the engine nor the disk, so a store that hangs shows as silence, not as a hang of its own.
///
/// A reading of the config that was asked for is told with an `r`, whenever it is done.
async fn tell_that_all_is_well(
    mut probe: File,
    pulse: Arc<Pulse>,
    mut reloaded: Receiver<()>,
) -> ! {
    if let Err(error) = rustix::io::ioctl_fionbio(&probe, true) {
        tracing::warn!("cannot make the probe non-blocking: {error}");
    }
    let mut byte = b".";
    loop {
        if byte == b"r" || !pulse.is_stuck(TURN_TIME_MAX) {
            match probe.write(byte) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => tracing::debug!("nobody reads the probe: {error}"),
            }
        }
        byte = tokio::select! {
            () = tokio::time::sleep(PROBE_EVERY) => b".",
            Some(()) = reloaded.recv() => b"r",
        };
    }
}

async fn told_to_stop(lifeline: Option<OwnedFd>, signals: bool, house: &House) {
    tokio::select! {
        () = lifeline::closed(lifeline, house) => {}
        () = signalled(signals) => {}
    }
}

async fn signalled(signals: bool) {
    if !signals {
        return std::future::pending().await;
    }
    let handlers = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (Ok(mut terminate), Ok(mut interrupt)) = handlers else {
        tracing::error!("cannot catch signals");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
