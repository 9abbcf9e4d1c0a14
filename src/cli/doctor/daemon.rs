//! The running daemon, as it tells of itself.

use super::super::failure::exit;
use super::Patient;
use super::finding::{Finding, Level, plural};
use crate::api::{StatusView, Workers};
use std::path::Path;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    match &patient.status {
        Ok(status) => {
            let mut findings = answering(status, env!("CARGO_PKG_VERSION"));
            if let Ok(workers) = &patient.workers {
                findings.extend(old_workers(workers, &status.version));
            }
            findings
        }
        Err(failure) => {
            let known = patient.data_dir.as_deref().is_some_and(has_run);
            vec![silent(failure.code(), failure.what(), known)]
        }
    }
}

/// Whether there ever was a daemon.
fn has_run(data_dir: &Path) -> bool {
    data_dir.join("store").exists()
}

pub(super) fn silent(code: u8, what: &str, has_run: bool) -> Finding {
    if code != exit::UNREACHABLE {
        return Finding::problem(
            what,
            "it is there, and gives no good answer",
            &["midwatch status", "ps -C midwatch -o pid,stat,etime,args"],
        );
    }
    if has_run {
        let why = "nothing is dispatched; what was acknowledged is in the journal, and goes on \
                   when it starts";
        return Finding::problem(what, why, &["midwatch daemon", "systemctl start midwatch"]);
    }
    Finding::note("it has never run here", "start it with `midwatch daemon`")
}

pub(super) fn answering(status: &StatusView, version: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if status.version != version {
        findings.push(Finding::warning(
            format!("the daemon is of version {}, and this program of {version}", status.version),
            "it was replaced under a running daemon, which goes on with the old one until it is \
             started anew",
            &["systemctl restart midwatch"],
        ));
    }
    findings.extend(status.attention.iter().map(|point| Finding {
        group: "",
        level: if point.critical { Level::Problem } else { Level::Warning },
        what: point.what.clone(),
        why: Some("`midwatch status` has it too".to_owned()),
        commands: point.commands.clone(),
    }));
    if findings.is_empty() {
        findings.push(Finding::ok(format!(
            "version {}, {} alive",
            status.version,
            plural(status.workers_alive as usize, "worker")
        )));
    }
    findings
}

fn old_workers(workers: &Workers, version: &str) -> Option<Finding> {
    let old = workers.workers.iter().find(|worker| worker.version != version)?;
    let what = format!("worker {} ({}) is of version {}", old.id, old.name, old.version);
    let stop = format!("kill {}    # it drains, and is started anew", old.pid);
    Some(Finding::warning(what, &format!("the engine is of {version}"), &[&stop]))
}
