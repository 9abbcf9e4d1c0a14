//! The data directory before anything in it is read: it is made, it is ours, and it is locked.

use super::run::ServerError;
use crate::config::Config;
use crate::journal::{DirLock, JournalError};
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How long to wait for a lock that somebody holds: an engine whose supervisor was killed ends
/// within moments, and its successor must not give up on it.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How often the lock is tried meanwhile.
const LOCK_AGAIN: Duration = Duration::from_millis(50);

/// Takes the lock of the data directory, or says who still has it after a while.
pub(super) fn lock(data_dir: &Path) -> Result<DirLock, ServerError> {
    let mut waited = Duration::ZERO;
    loop {
        match DirLock::acquire(data_dir) {
            Err(error @ JournalError::InUse { .. }) if LOCK_PATIENCE <= waited => {
                let mut error = ServerError::from(error);
                error.text = format!("{}: {}", data_dir.display(), error.text);
                return Err(error);
            }
            Err(JournalError::InUse { pid }) => {
                if waited.is_zero() {
                    tracing::warn!(pid, "another engine has the data directory; it may be ending");
                }
                thread::park_timeout(LOCK_AGAIN);
                waited = waited.saturating_add(LOCK_AGAIN);
            }
            result => return Ok(result?),
        }
    }
}

/// Makes the directory and what the workers need in it, each name durable.
pub(super) fn make_data_dir(config: &Config) -> Result<PathBuf, ServerError> {
    let make = |path: &Path| {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| ServerError::host("create", path, &error))
    };
    let data_dir = std::path::absolute(&config.data_dir)
        .map_err(|error| ServerError::host("find", &config.data_dir, &error))?;
    let fresh: Vec<_> = data_dir.ancestors().take_while(|path| !path.exists()).collect();
    make(&data_dir)?;
    // A power cut must not take the name of the directory and all that is durable in it.
    for parent in fresh.iter().filter_map(|path| path.parent()) {
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(|error| ServerError::host("sync", parent, &error))?;
    }
    nobody_else_may_write(&data_dir)?;
    for name in ["run", "logs"] {
        make(&data_dir.join(name))?;
    }
    Ok(data_dir)
}

/// Refuses a data directory in which others could put or replace files.
fn nobody_else_may_write(data_dir: &Path) -> Result<(), ServerError> {
    let facts = std::fs::metadata(data_dir)
        .map_err(|error| ServerError::host("look at", data_dir, &error))?;
    let us = rustix::process::geteuid().as_raw();
    let refuse = |what: String| {
        let path = data_dir.display();
        Err(ServerError { exit_code: 7, text: format!("the data directory {path} {what}") })
    };
    if facts.uid() != us && facts.uid() != 0 {
        return refuse(format!(
            "belongs to user {}, not to the user {us} who runs this\n  chown it, or name another one",
            facts.uid()
        ));
    }
    if facts.mode() & 0o022 != 0 {
        return refuse(
            "can be written by others\n  chmod go-w it: what is in it decides what is run"
                .to_owned(),
        );
    }
    Ok(())
}
