//! Who may read and write the data directory and the socket.

use super::Patient;
use super::finding::Finding;
use crate::config::{Config, LogDir};
use rustix::fs::{Access, access};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(data_dir) = &patient.data_dir {
        findings.extend(match fs::metadata(data_dir) {
            Ok(facts) => owner(data_dir, facts.uid(), facts.mode(), Patient::us()),
            Err(error) => vec![unseen(data_dir, &error)],
        });
    }
    if let Ok(config) = &patient.config {
        findings.extend(socket(config));
        if let LogDir::At(dir) = &config.log.dir {
            findings.extend(log_dir(dir));
        }
    }
    findings
}

pub(super) fn owner(data_dir: &Path, uid: u32, mode: u32, us: u32) -> Vec<Finding> {
    let place = data_dir.display();
    let mut findings = Vec::new();
    if uid != us && uid != 0 {
        let what = format!("{place} belongs to user {uid}, and this is user {us}");
        let why = "a daemon of this user would be refused; as the other one, doctor sees more";
        // Root may look at the data of others.
        findings.push(match us {
            0 => Finding::problem(
                what,
                "the daemon is refused as root there",
                &[&format!("chown -R root: {place}")],
            ),
            _ => Finding::note(what, why),
        });
    }
    if mode & 0o022 != 0 {
        let what = format!("{place} can be written by others (mode {:04o})", mode & 0o7777);
        let why = "what is in it decides what is run, so a start is refused";
        findings.push(Finding::problem(what, why, &[&format!("chmod 700 {place}")]));
    } else if mode & 0o055 != 0 {
        let what = format!("{place} can be read by others (mode {:04o})", mode & 0o7777);
        let why = "payloads and the output of handlers may be secret";
        findings.push(Finding::warning(what, why, &[&format!("chmod 700 {place}")]));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(format!("{place} is its owner's alone")));
    }
    findings
}

fn unseen(data_dir: &Path, error: &std::io::Error) -> Finding {
    let place = data_dir.display();
    if error.kind() != std::io::ErrorKind::NotFound {
        let what = format!("{place} cannot be looked at: {error}");
        return Finding::note(what, "run doctor as the daemon's user to have it looked at");
    }
    let parent = data_dir.ancestors().skip(1).find(|path| path.exists());
    if parent.is_some_and(|parent| access(parent, Access::WRITE_OK).is_ok()) {
        return Finding::note(
            format!("{place} is not there yet"),
            "the first start of the daemon makes it",
        );
    }
    Finding::problem(
        format!("{place} is not there, and this user cannot make it"),
        "the daemon would not start",
        &[&format!("install -d -m 700 -o USER {place}")],
    )
}

fn socket(config: &Config) -> Option<Finding> {
    let place = config.socket.display();
    let facts = fs::metadata(&config.socket).ok()?;
    if !facts.file_type().is_socket() {
        return Some(Finding::problem(
            format!("{place} is there and is no socket"),
            "the daemon cannot listen where something else is",
            &[&format!("ls -l {place}")],
        ));
    }
    let expected = if config.http.socket_group.is_some() { 0o660 } else { 0o600 };
    let mode = facts.mode() & 0o777;
    Some(if mode & !expected == 0 {
        Finding::ok(format!("socket {mode:04o}"))
    } else {
        Finding::warning(
            format!("{place} has mode {mode:04o}, and was made with {expected:04o}"),
            "more people may give orders than the config says",
            &[&format!("chmod {expected:04o} {place}")],
        )
    })
}

fn log_dir(dir: &Path) -> Option<Finding> {
    let lacks = dir.is_dir() && access(dir, Access::WRITE_OK | Access::EXEC_OK).is_err();
    let what = format!("this user cannot write logs in {}", dir.display());
    let why = "the daemon goes on, and its log has only what it says on stderr";
    lacks.then(|| Finding::warning(what, why, &[&format!("ls -ld {}", dir.display())]))
}
