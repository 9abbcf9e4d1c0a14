//! What the keys of `[inbox]` and `[hooks.NAME]` mean, and their bounds.

use super::Handler;
use super::fault::Fault;
use super::handlers::{check_short_name, rate};
use super::keys;
use super::read::{Reader, Table, absolute_path, duration, size, text};
use super::schedules::priority;
use crate::kernel::ids::Millis;
use crate::kernel::task_type::{Per, Rate};
use crate::limits::PAYLOAD_BYTES_MAX;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::de::DeValue;

/// `[inbox]`: a directory whose files become tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// The directory; absolute.
    pub path: PathBuf,
    /// How often it is looked through although nothing was heard of it.
    pub rescan: Millis,
    /// How long a file that was written in place has to stay as it is before it is taken.
    pub settle: Millis,
    /// Task types by the name of a directory below it: any file there becomes a task.
    pub types: BTreeMap<String, String>,
}

/// `[hooks.NAME]`: an address for signed webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The type of the tasks.
    pub kind: String,
    /// The file with the secret that signatures are made with; absolute.
    pub secret_file: PathBuf,
    /// The header with the id of a delivery; absent means the first known one that is there.
    pub key_header: Option<String>,
    /// Deliveries that are taken.
    pub rate: Rate,
    /// Largest body, in bytes.
    pub max_body: u64,
    /// The tasks' priority; absent means the usual one.
    pub priority: Option<i32>,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            path: PathBuf::new(),
            rescan: Millis::secs(30),
            settle: Millis::secs(10),
            types: BTreeMap::new(),
        }
    }
}

/// Longest name of a hook: with the longest id of a delivery it fits an idempotency key.
const HOOK_LETTERS_MAX: usize = 40;

/// Longest name of a directory in the inbox.
const DIRECTORY_LETTERS_MAX: usize = 64;

/// Where the inbox keeps what it could not make tasks of.
const REJECTED: &str = "rejected";

const HOUR: Millis = Millis(3_600_000);

type Handlers = BTreeMap<String, Handler>;

/// The inbox, its path empty where the file names none.
pub(super) fn read_inbox<'t>(
    reader: &mut Reader<'t>,
    top: &Table<'t>,
    handlers: &Handlers,
) -> Option<Inbox> {
    let table = reader.table(top, "inbox", keys::INBOX)?;
    let mut inbox = Inbox::default();
    reader.set(&table, "path", &mut inbox.path, absolute_path);
    reader.set(&table, "rescan", &mut inbox.rescan, duration(Millis::secs(1)..=HOUR.times(24)));
    reader.set(&table, "settle", &mut inbox.settle, duration(Millis(100)..=HOUR));
    let Some(types) = reader.any_table(&table, "types") else { return Some(inbox) };
    for (name, offset) in types.keys() {
        if name == REJECTED {
            let what = format!("a directory of the inbox may not be called `{REJECTED}`");
            let help = "that is where files are put that no task could be made of";
            reader.fault(offset, Fault::new(what).with_help(help));
        } else if let Err(fault) =
            check_short_name("directory of the inbox", name, DIRECTORY_LETTERS_MAX)
        {
            reader.fault(offset, fault);
        } else {
            let mut kind = String::new();
            reader.set(&types, name, &mut kind, |value| known_type(value, handlers));
            inbox.types.insert(name.to_owned(), kind);
        }
    }
    Some(inbox)
}

pub(super) fn read_hooks<'t>(
    reader: &mut Reader<'t>,
    top: &Table<'t>,
    handlers: &Handlers,
) -> BTreeMap<String, Hook> {
    let mut hooks = BTreeMap::new();
    let Some(all) = reader.any_table(top, "hooks") else { return hooks };
    for (name, offset) in all.keys() {
        if let Err(fault) = check_short_name("hook", name, HOOK_LETTERS_MAX) {
            reader.fault(offset, fault);
            continue;
        }
        let Some(table) = reader.table(&all, name, keys::HOOK) else { continue };
        let mut hook = Hook {
            kind: String::new(),
            secret_file: PathBuf::new(),
            key_header: None,
            rate: Rate { count: 600, per: Per::Minute },
            max_body: PAYLOAD_BYTES_MAX as u64,
            priority: None,
        };
        reader.set(&table, "type", &mut hook.kind, |value| known_type(value, handlers));
        reader.set(&table, "secret_file", &mut hook.secret_file, absolute_path);
        reader.set(&table, "key_header", &mut hook.key_header, |value| header(value).map(Some));
        reader.set(&table, "rate", &mut hook.rate, rate);
        reader.set(&table, "max_body", &mut hook.max_body, size(1..=PAYLOAD_BYTES_MAX as u64));
        reader.set(&table, "priority", &mut hook.priority, |value| priority(value).map(Some));
        for (key, help) in [
            ("type", "name the type of the tasks that it makes: type = \"deploy\""),
            ("secret_file", "name a file with the secret: secret_file = \"/etc/midwatch/secret\""),
        ] {
            if !table.has(key) {
                let what = format!("`{}` has no `{key}`", all.name(name));
                reader.fault(offset, Fault::new(what).with_help(help));
            }
        }
        hooks.insert(name.to_owned(), hook);
    }
    hooks
}

/// A type that has a handler; commands of one's own come by no trigger.
fn known_type(value: &DeValue<'_>, handlers: &Handlers) -> Result<String, String> {
    let kind = text(value)?;
    if handlers.contains_key(&kind) {
        return Ok(kind);
    }
    let known = handlers.keys().map(String::as_str);
    let near = super::nearest(&kind, known).map(|near| format!("; did you mean `{near}`?"));
    let near = near.unwrap_or_default();
    Err(format!(": there is no [handlers.{}]{near}", kind.escape_debug()))
}

/// The name of an HTTP header.
fn header(value: &DeValue<'_>) -> Result<String, String> {
    let name = text(value)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.len() <= DIRECTORY_LETTERS_MAX && name.chars().all(plain) {
        return Ok(name);
    }
    Err(" must be the name of a header: letters, digits, `-` and `_`".to_owned())
}
