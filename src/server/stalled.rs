//! What is said while the engine gives no answer: its thread hangs, as a rule in a write or a sync
//! that the disk does not finish. Whoever asks for the status then is told just that, and soon; who
//! looks at anything else is refused, and not left to wait.

use super::app::App;
use super::hand::Pending;
use super::host::Facts;
use super::pulse::Pulse;
use super::status::{grade, of_the_house, point};
use crate::api::{Attention, ClockView, Code, Problem, StatusView};
use crate::clock;
use crate::kernel::ids::{Millis, Seq};
use crate::units::span;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

/// How long the engine is waited for: longer than a sync takes on a slow card that is well, shorter
/// than a client waits for us.
const PATIENCE: Millis = Millis::secs(5);

/// The answer; none when it does not come in time, or the engine is so far behind that it cannot
/// even be asked.
pub(crate) async fn within_patience<T>(
    asked: Result<Pending<T>, Problem>,
    pulse: &Pulse,
) -> Result<Option<T>, Problem> {
    let pending = match asked {
        Ok(pending) => pending,
        Err(problem) => {
            let behind = problem.code == Code::Busy && pulse.is_stuck(Millis::secs(1));
            return if behind { Ok(None) } else { Err(problem) };
        }
    };
    match tokio::time::timeout(Duration::from_millis(PATIENCE.0), pending).await {
        Ok(answer) => answer.map(Some),
        Err(_late) => Ok(None),
    }
}

/// How often it is looked whether who does not answer hangs.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl App {
    /// Looks at the facts; refused when the engine has been at one turn for too long. One that has
    /// much to do, and does it, is waited for.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Facts<'_>) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let mut pending = self.hand.read(look)?;
        loop {
            match tokio::time::timeout(LOOK_EVERY, &mut pending).await {
                Ok(answer) => return answer,
                Err(_late) => self.refuse_if_stalled()?,
            }
        }
    }

    fn refuse_if_stalled(&self) -> Result<(), Problem> {
        let busy = self.pulse.busy_for().filter(|busy| PATIENCE < *busy);
        let Some(busy) = busy else { return Ok(()) };
        let (silent, place) = (whole_seconds(busy), self.data_dir.display());
        let detail = format!(
            "the store has not answered for {silent}: a write or a sync in {place} hangs; nothing \
             was done"
        );
        Err(Problem::new(Code::Busy, detail).with_help("midwatch status"))
    }

    /// For how long the engine has not answered.
    pub(crate) fn silent_for(&self) -> Millis {
        self.pulse.busy_for().unwrap_or(PATIENCE)
    }

    /// Keeps a status for the time in which there is no other.
    pub(crate) fn remember(&self, view: &StatusView) {
        let mut last = self.last_status.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((clock::monotonic(), StatusView { digest: None, ..view.clone() }));
    }
}

/// What can be said without the engine, with the figures of the last status that it gave.
pub(crate) fn stalled(app: &App, uptime: Millis) -> StatusView {
    let last = app.last_status.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let busy = app.pulse.busy_for();
    let silent = busy.unwrap_or(PATIENCE);
    let mut attention = vec![silence(silent, busy.is_some(), &app.data_dir.display().to_string())];
    // The disk is not asked: it may hold up whoever asks it anything.
    attention.extend(of_the_house(&app.about, None));
    attention.extend(app.house.points());
    attention.extend(app.own_health.points());
    let known = last.map(|(_, view)| view);
    let view = known.unwrap_or_else(|| nothing_known(app));
    StatusView {
        uptime_ms: uptime.0,
        health: grade(&mut attention),
        attention,
        disk_free: None,
        config_reload_ok: app.house.config_is_ok(),
        processes: app.own_health.processes(),
        stalled_ms: Some(silent.0),
        ..view
    }
}

fn whole_seconds(time: Millis) -> String {
    span(Millis(time.0 / 1000 * 1000))
}

fn silence(silent: Millis, busy: bool, data_dir: &str) -> Attention {
    let silent = whole_seconds(silent);
    let what = if busy {
        format!(
            "the store has not answered for {silent}: a write or a sync in {data_dir} hangs; \
             nothing is accepted, dispatched or ended meanwhile"
        )
    } else {
        format!("the engine has not answered for {silent}; the host may be short of processor time")
    };
    let commands = ["dmesg | tail -n 20".to_owned(), format!("timeout 5 df -h {data_dir}")];
    point(true, what, &commands)
}

fn nothing_known(app: &App) -> StatusView {
    let about = &app.about;
    StatusView {
        version: about.version.clone(),
        host: about.host.clone(),
        pid: std::process::id(),
        uptime_ms: 0,
        data_dir: app.data_dir.display().to_string(),
        fsync: about.fsync.clone(),
        health: String::new(),
        attention: Vec::new(),
        seq: Seq(0),
        tasks: BTreeMap::new(),
        oldest_waiting_ms: None,
        schedules: 0,
        next_fire: None,
        workers_alive: 0,
        workers_suspect: 0,
        workers_offline: 0,
        slots: 0,
        slots_busy: 0,
        state_bytes: 0,
        state_bytes_max: 0,
        journal_segments: 0,
        journal_bytes: 0,
        syncs: 0,
        disk_free: None,
        recovery: about.recovery.line.clone(),
        config_reload_ok: true,
        clock: ClockView::default(),
        processes: Vec::new(),
        stalled_ms: None,
        digest: None,
    }
}
