//! A status for the time in which the engine gives none: its thread hangs, as a rule in a write or
//! a sync that the disk does not finish. Whoever asks then is told just that, and soon.

use super::app::App;
use super::hand::Pending;
use super::pulse::Pulse;
use super::status::{free_space, grade, of_the_house, point};
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

impl App {
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
    let disk_free = free_space(&app.data_dir);
    let mut attention = vec![silence(silent, busy.is_some(), &app.data_dir.display().to_string())];
    attention.extend(of_the_house(&app.about, disk_free));
    attention.extend(app.house.points());
    attention.extend(app.own_health.points());
    let known = last.map(|(_, view)| view);
    let view = known.unwrap_or_else(|| nothing_known(app));
    StatusView {
        uptime_ms: uptime.0,
        health: grade(&mut attention),
        attention,
        disk_free,
        config_reload_ok: app.house.config_is_ok(),
        processes: app.own_health.processes(),
        stalled_ms: Some(silent.0),
        ..view
    }
}

fn silence(silent: Millis, busy: bool, data_dir: &str) -> Attention {
    let silent = span(Millis(silent.0 / 1000 * 1000));
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
