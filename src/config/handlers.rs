//! What the keys of `[handlers.NAME]` mean, and their bounds.

use super::exec::EXEC;
use super::fault::Fault;
use super::keys;
use super::read::{
    Reader, Table, absolute_path, any_text, boolean, duration, integer, list, signed, size, text,
};
use super::sections::read_retry;
use super::{Handler, Limits, Retry};
use crate::kernel::ids::Millis;
use crate::kernel::task_type::Rate;
use crate::limits::{ALERT_TEXT_BYTES_MAX, MAX_RUNNING_MAX};
use std::collections::BTreeMap;
use toml::de::DeValue;

/// Longest name of a handler or a schedule. It stands in tables, logs and variables.
const NAME_LETTERS_MAX: usize = 64;

/// Smallest bound of memory; next to no program starts with less.
const MEMORY_BYTES_MIN: u64 = 4 << 20;

/// Fewest descriptors: the four that a handler has, and what it takes to load a program.
const OPEN_FILES_MIN: u32 = 16;

/// What means nothing to a handler that is no process of its own.
const OF_COMMANDS: &[&str] = &[
    "command",
    "cwd",
    "env",
    "env_pass",
    "log_max",
    "fatal_exit_codes",
    "retryable_exit_codes",
    "user",
    "group",
    "umask",
    "memory",
    "cpu_time",
    "open_files",
    "processes",
    "nice",
];

const DAY: Millis = Millis(86_400_000);

/// The largest `max_running`.
const MAX_RUNNING: u32 = 100_000;
const _: () = assert!(MAX_RUNNING as usize == MAX_RUNNING_MAX);

pub(super) fn read_handlers<'t>(
    reader: &mut Reader<'t>,
    top: &Table<'t>,
    retry: &Retry,
) -> BTreeMap<String, Handler> {
    let mut handlers = BTreeMap::new();
    let Some(all) = reader.any_table(top, "handlers") else { return handlers };
    for (name, offset) in all.keys() {
        if name == EXEC {
            let fault = Fault::new(format!("a handler may not be called `{EXEC}`"))
                .with_help("that name is taken by `midwatch submit --exec`");
            reader.fault(offset, fault);
            continue;
        }
        if let Err(fault) = check_name("handler", name) {
            reader.fault(offset, fault);
            continue;
        }
        let Some(table) = reader.table(&all, name, keys::HANDLER) else { continue };
        let mut handler = Handler::new(Vec::new(), retry.clone());
        read_handler(reader, &table, &mut handler);
        if handler.embedded {
            refuse_what_only_a_command_has(reader, &table);
        } else if !table.has("command") {
            let fault = Fault::new(format!("`{}` has no `command`", all.name(name)))
                .with_help("name its program and arguments: command = [\"/usr/bin/true\"]");
            reader.fault(offset, fault);
        }
        handlers.insert(name.to_owned(), handler);
    }
    handlers
}

fn refuse_what_only_a_command_has<'t>(reader: &mut Reader<'t>, table: &Table<'t>) {
    for (key, offset) in table.keys().filter(|(key, _)| OF_COMMANDS.contains(key)) {
        let fault = Fault::new(format!("`{}` means nothing beside `embedded`", table.name(key)))
            .with_help("an embedded handler is code of a program of yours, not a command");
        reader.fault(offset, fault);
    }
}

/// Passes the name of a handler or of a schedule, whichever `what` says.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Fault> {
    check_short_name(what, name, NAME_LETTERS_MAX)
}

/// Passes a name that does in tables, logs, paths and variables, and is not too long.
pub(super) fn check_short_name(what: &str, name: &str, letters_max: usize) -> Result<(), Fault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && name.chars().all(plain) && name.len() <= letters_max {
        return Ok(());
    }
    let fault = Fault::new(format!("`{}` cannot be the name of a {what}", name.escape_debug()));
    Err(fault.with_help(format!(
        "at most {letters_max} letters a-z, digits, `_`, `-` and `.`, a letter or digit first"
    )))
}

fn read_handler<'t>(reader: &mut Reader<'t>, table: &Table<'t>, handler: &mut Handler) {
    reader.set(table, "command", &mut handler.command, command);
    reader.set(table, "embedded", &mut handler.embedded, boolean);
    reader.set(table, "cwd", &mut handler.cwd, |value| absolute_path(value).map(Some));
    reader.set(table, "env_pass", &mut handler.env_pass, list(variable));
    let timeout = |value: &DeValue<'t>| duration(Millis(1)..=DAY.times(3650))(value).map(Some);
    reader.set(table, "timeout", &mut handler.timeout, timeout);
    let grace = || duration(Millis(0)..=DAY);
    reader.set(table, "cancel_grace", &mut handler.cancel_grace, grace());
    reader.set(table, "kill_grace", &mut handler.kill_grace, grace());
    reader.set(table, "log_max", &mut handler.log_max, size(4 << 10..=1 << 40));
    reader.set(table, "fatal_exit_codes", &mut handler.fatal_exit_codes, exit_codes);
    reader.set(table, "retryable_exit_codes", &mut handler.retryable_exit_codes, exit_codes);
    reader.set(table, "schema", &mut handler.schema, |value| absolute_path(value).map(Some));
    read_limits(reader, table, &mut handler.limits);
    reader.set(table, "stall_after", &mut handler.stall_after, duration(Millis(0)..=DAY.times(31)));
    reader.set(table, "advice", &mut handler.advice, |value| short_text(value).map(Some));
    reader.set(table, "contact", &mut handler.contact, |value| short_text(value).map(Some));
    let max_running = |value: &DeValue<'t>| integer(1..=MAX_RUNNING)(value).map(Some);
    reader.set(table, "max_running", &mut handler.max_running, max_running);
    reader.set(table, "rate", &mut handler.rate, |value| rate(value).map(Some));
    read_env(reader, table, handler);
    if let Some(retry) = reader.table(table, "retry", keys::RETRY) {
        read_retry(reader, &retry, &mut handler.retry);
    }
    settle_exit_codes(reader, table, handler);
}

/// Words that alerts bring along.
fn short_text(value: &DeValue<'_>) -> Result<String, String> {
    let words = text(value)?;
    if words.len() <= ALERT_TEXT_BYTES_MAX {
        return Ok(words);
    }
    Err(format!(" must be at most {ALERT_TEXT_BYTES_MAX} bytes long"))
}

/// How often something may happen: `10/m`.
pub(super) fn rate(value: &DeValue<'_>) -> Result<Rate, String> {
    text(value)?.parse().map_err(|error| format!(": {error}"))
}

fn read_limits<'t>(reader: &mut Reader<'t>, table: &Table<'t>, limits: &mut Limits) {
    let name = |value: &DeValue<'_>| text(value).map(Some);
    reader.set(table, "user", &mut limits.user, name);
    reader.set(table, "group", &mut limits.group, name);
    reader.set(table, "umask", &mut limits.umask, |value| umask(value).map(Some));
    let memory = |value: &DeValue<'_>| size(MEMORY_BYTES_MIN..=1 << 50)(value).map(Some);
    reader.set(table, "memory", &mut limits.memory, memory);
    let time = |value: &DeValue<'_>| duration(Millis::secs(1)..=DAY.times(3650))(value).map(Some);
    reader.set(table, "cpu_time", &mut limits.cpu_time, time);
    let files = |value: &DeValue<'_>| integer(OPEN_FILES_MIN..=1 << 30)(value).map(Some);
    reader.set(table, "open_files", &mut limits.open_files, files);
    let processes = |value: &DeValue<'_>| integer(1..=1 << 22)(value).map(Some);
    reader.set(table, "processes", &mut limits.processes, processes);
    reader.set(table, "nice", &mut limits.nice, |value| signed(-20..=19)(value).map(Some));
}

/// Three or four octal digits, as `umask` prints them.
fn umask(value: &DeValue<'_>) -> Result<u32, String> {
    let bad = || " must be octal digits such as \"027\"".to_owned();
    let typed = value.as_str().ok_or_else(bad)?;
    let is_octal =
        matches!(typed.len(), 3 | 4) && typed.bytes().all(|b| (b'0'..=b'7').contains(&b));
    let mask = u32::from_str_radix(typed, 8).ok().filter(|mask| is_octal && *mask <= 0o777);
    mask.ok_or_else(bad)
}

pub(super) fn command(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    if value.is_str() {
        let parts = " must be a list: the program, then each argument on its own; for a shell \
                     write [\"/bin/sh\", \"-c\", \"…\"]";
        return Err(parts.to_owned());
    }
    let command = list(any_text)(value)?;
    match command.first().map(String::as_str) {
        None | Some("") => Err(" must begin with a program".to_owned()),
        Some(program) if program.contains('/') && !program.starts_with('/') => Err(format!(
            " must begin with an absolute path or a name that PATH finds, not `{}`",
            program.escape_debug()
        )),
        Some(_) => Ok(command),
    }
}

/// The name of an environment variable that a handler may have.
fn variable(value: &DeValue<'_>) -> Result<String, String> {
    let name = text(value)?;
    check_variable(&name).map(|()| name)
}

fn check_variable(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        Err(" must be the name of a variable".to_owned())
    } else if name.starts_with("MIDWATCH_") {
        Err(" must not begin with MIDWATCH_: those say which task it is".to_owned())
    } else {
        Ok(())
    }
}

fn read_env<'t>(reader: &mut Reader<'t>, table: &Table<'t>, handler: &mut Handler) {
    let Some(env) = reader.any_table(table, "env") else { return };
    for (name, offset) in env.keys() {
        if let Err(refusal) = check_variable(name) {
            reader.fault(offset, Fault::new(format!("`{}`{refusal}", env.name(name))));
            continue;
        }
        let mut content = String::new();
        reader.set(&env, name, &mut content, any_text);
        handler.env.insert(name.to_owned(), content);
    }
}

fn exit_codes(value: &DeValue<'_>) -> Result<Vec<u8>, String> {
    let codes = list(integer(1..=255))(value)?;
    Ok(codes.into_iter().filter_map(|code| u8::try_from(code).ok()).collect())
}

/// A status named as retryable is no longer fatal by default; one named as both is refused.
fn settle_exit_codes<'t>(reader: &mut Reader<'t>, table: &Table<'t>, handler: &mut Handler) {
    let retryable = handler.retryable_exit_codes.clone();
    if !table.has("fatal_exit_codes") {
        handler.fatal_exit_codes.retain(|code| !retryable.contains(code));
        return;
    }
    if let Some(code) = retryable.iter().find(|code| handler.fatal_exit_codes.contains(code)) {
        let fault = Fault::new(format!(
            "exit status {code} is both in `{}` and in `{}`",
            table.name("fatal_exit_codes"),
            table.name("retryable_exit_codes")
        ));
        reader.fault_of_key(&table.name("retryable_exit_codes"), fault);
    }
}
