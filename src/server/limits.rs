//! The limits of handlers as this host and this user can keep them.

use crate::config::{Config, Limits};
use crate::process::{self, Identity};

/// What the worker needs of a handler's limits; refused where a user or group
/// does not exist, or where only root could keep them.
pub fn limits_of(handler: &str, limits: &Limits) -> Result<process::Limits, String> {
    let own = rustix::process::geteuid().as_raw();
    let identity = identity(handler, limits, own)?;
    let Limits { user: _, group: _, umask, memory, cpu_time, open_files, processes, nice } = limits;
    let is_other = identity.as_ref().is_some_and(|it| it.uid != own);
    let key = match (is_other, limits.group.is_some(), nice.is_some_and(|nice| nice < 0)) {
        (true, ..) => Some("user"),
        (_, true, _) => Some("group"),
        (.., true) => Some("nice"),
        _ => None,
    };
    if let Some(key) = key.filter(|_| own != 0) {
        let said = format!("`handlers.{handler}.{key}` takes root, and this is user {own}");
        return Err(format!("{said}\n  start midwatch as root, or leave the key out"));
    }
    if let Some(wanted) = open_files.filter(|_| own != 0) {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        if let Some(most) = limit.maximum.filter(|most| *most < u64::from(wanted)) {
            let said = format!("`handlers.{handler}.open_files` is {wanted}, and this user may");
            return Err(format!("{said} have {most} at most"));
        }
    }
    Ok(process::Limits {
        memory: *memory,
        cpu_time: *cpu_time,
        open_files: open_files.map(u64::from),
        processes: processes.map(u64::from),
        nice: *nice,
        umask: *umask,
        // Without root it can only be the user that this is already.
        identity: identity.filter(|_| own == 0),
    })
}

/// Whether this host and this user can keep the limits of all handlers.
pub(super) fn check(config: &Config) -> Result<(), String> {
    config
        .handlers
        .iter()
        .try_for_each(|(name, handler)| limits_of(name, &handler.limits).map(drop))
}

/// Whether all users and groups exist, whoever asks.
pub fn check_names(config: &Config) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    let mut handlers = config.handlers.iter();
    handlers.try_for_each(|(name, handler)| identity(name, &handler.limits, own).map(drop))
}

fn identity(handler: &str, limits: &Limits, own: u32) -> Result<Option<Identity>, String> {
    let group = limits.group.as_deref();
    let found = match (&limits.user, group) {
        (None, None) => return Ok(None),
        (Some(user), _) => process::identity_of(user, group),
        (None, Some(_)) => process::identity_of(&own.to_string(), group),
    };
    let key = if limits.user.is_some() { "user" } else { "group" };
    let refused = |why: String| format!("`handlers.{handler}.{key}`: {why}");
    found.map(Some).map_err(refused)
}
