//! Reading one table of the file: each key at most once, none unseen, every complaint with its
//! line. What the keys mean is `sections.rs` and `handlers.rs`.

use super::fault::Fault;
use super::keys::Key;
use super::nearest::nearest;
use super::show::Origin;
use crate::kernel::ids::Millis;
use crate::units;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Gathers what the file sets and what is wrong with it.
pub(super) struct Reader<'t> {
    file: &'t Path,
    /// Where each line ends, so that thousands of keys find theirs.
    ends: Vec<usize>,
    pub(super) faults: Vec<Fault>,
    pub(super) origins: BTreeMap<String, Origin>,
}

/// A table of the file and the path that names it.
pub(super) struct Table<'t> {
    path: String,
    entries: &'t DeTable<'t>,
}

/// What a value reader says of a value it refuses; follows the name of the key.
type Refusal = String;

impl<'t> Reader<'t> {
    pub(super) fn new(file: &'t Path, text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(end, _)| end).collect();
        Self { file, ends, faults: Vec::new(), origins: BTreeMap::new() }
    }

    /// The table of the whole file, its keys checked against `keys`.
    pub(super) fn top(&mut self, entries: &'t DeTable<'t>, keys: &[Key]) -> Table<'t> {
        let table = Table { path: String::new(), entries };
        self.check_keys(&table, keys);
        table
    }

    /// The table under `key`, its keys checked against `keys`; none when it is absent or no table.
    pub(super) fn table(&mut self, of: &Table<'t>, key: &str, keys: &[Key]) -> Option<Table<'t>> {
        let table = self.any_table(of, key)?;
        self.check_keys(&table, keys);
        Some(table)
    }

    /// The table under `key`, whose keys are the user's own.
    pub(super) fn any_table(&mut self, of: &Table<'t>, key: &str) -> Option<Table<'t>> {
        let value = of.entries.get(key)?;
        let path = of.name(key);
        if let DeValue::Table(entries) = value.get_ref() {
            return Some(Table { path, entries });
        }
        let what = format!("`{path}` must be a table, not {}", kind(value.get_ref()));
        self.fault(value.span().start, Fault::new(what));
        None
    }

    /// Puts what `read` makes of the value under `key` into `slot`; leaves it when the key is
    /// absent or its value refused.
    pub(super) fn set<T>(
        &mut self,
        table: &Table<'t>,
        key: &str,
        slot: &mut T,
        read: impl FnOnce(&DeValue<'t>) -> Result<T, Refusal>,
    ) {
        let Some((name, value)) = table.entries.get_key_value(key) else { return };
        let path = table.name(key);
        match read(value.get_ref()) {
            Ok(value) => *slot = value,
            Err(refusal) => {
                self.fault(value.span().start, Fault::new(format!("`{path}`{refusal}")));
            }
        }
        let line = self.line(name.span().start);
        self.origins.insert(path, Origin::File { path: self.file.to_owned(), line });
    }

    /// Complains about the key at `path`, where it stands if it stands in the file.
    pub(super) fn fault_of_key(&mut self, path: &str, fault: Fault) {
        let fault = match self.origins.get(path) {
            Some(Origin::File { line, .. }) => fault.at(self.file, *line),
            _ => fault.at(self.file, 1),
        };
        self.faults.push(fault);
    }

    /// Complains about the byte at `offset` of the file.
    pub(super) fn fault(&mut self, offset: usize, fault: Fault) {
        let line = self.line(offset);
        self.faults.push(fault.at(self.file, line));
    }

    fn line(&self, offset: usize) -> usize {
        self.ends.partition_point(|end| *end < offset) + 1
    }

    fn check_keys(&mut self, table: &Table<'t>, keys: &[Key]) {
        for (name, _) in table.entries {
            let typed = name.get_ref().as_ref();
            let place =
                if table.path.is_empty() { String::new() } else { format!(" in {}", table.path) };
            if !keys.iter().any(|key| key.name == typed) {
                self.fault(name.span().start, unknown_key(typed, &place, keys));
            }
        }
    }
}

impl<'t> Table<'t> {
    /// The path of a key of this table.
    pub(super) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Its keys and where each stands in the file.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&'t str, usize)> + use<'t> {
        self.entries.iter().map(|(key, _)| (key.get_ref().as_ref(), key.span().start))
    }

    /// Where a key of it stands in the file.
    pub(super) fn place(&self, key: &str) -> Option<usize> {
        self.entries.get_key_value(key).map(|(name, _)| name.span().start)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }
}

fn unknown_key(typed: &str, place: &str, keys: &[Key]) -> Fault {
    let fault = Fault::new(format!("unknown key `{}`{place}", typed.escape_debug()));
    if let Some(word) = nearest(typed, keys.iter().map(|key| key.name)) {
        return fault.with_help(format!("did you mean `{word}`?"));
    }
    let known = keys.iter().map(|key| key.name);
    fault.with_help(format!("known here: {}", known.collect::<Vec<_>>().join(", ")))
}

/// What kind of value somebody wrote, in words.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

pub(super) fn text(value: &DeValue<'_>) -> Result<String, Refusal> {
    let text = value.as_str().ok_or_else(|| format!(" must be text, not {}", kind(value)))?;
    if text.is_empty() {
        return Err(" must not be empty".to_owned());
    }
    no_nul(text)
}

fn no_nul(text: &str) -> Result<String, Refusal> {
    if text.contains('\0') {
        return Err(" must not contain a zero byte".to_owned());
    }
    Ok(text.to_owned())
}

/// Any text, the empty one too.
pub(super) fn any_text(value: &DeValue<'_>) -> Result<String, Refusal> {
    let text = value
        .as_str()
        .ok_or_else(|| format!(" must be text, not {} (put it between quotes)", kind(value)))?;
    no_nul(text)
}

pub(super) fn boolean(value: &DeValue<'_>) -> Result<bool, Refusal> {
    value.as_bool().ok_or_else(|| format!(" must be true or false, not {}", kind(value)))
}

pub(super) fn absolute_path(value: &DeValue<'_>) -> Result<PathBuf, Refusal> {
    let path = PathBuf::from(text(value)?);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(format!(" must be an absolute path, not `{}`", path.display()))
    }
}

/// One word of a list.
pub(super) fn word<T: Copy>(
    words: &'static [(&'static str, T)],
) -> impl Fn(&DeValue<'_>) -> Result<T, Refusal> {
    move |value| {
        let allowed = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let typed = value
            .as_str()
            .ok_or_else(|| format!(" must be one of {}, not {}", allowed(), kind(value)))?;
        let found = words.iter().find(|(word, _)| *word == typed);
        found
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| format!(" must be one of {}, not `{}`", allowed(), typed.escape_debug()))
    }
}

pub(super) fn integer(range: RangeInclusive<u32>) -> impl Fn(&DeValue<'_>) -> Result<u32, Refusal> {
    move |value| {
        let (min, max) = (range.start(), range.end());
        let integer = value.as_integer().ok_or_else(|| {
            format!(" must be a whole number from {min} to {max}, not {}", kind(value))
        })?;
        let number = u32::from_str_radix(integer.as_str(), integer.radix()).ok();
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| format!(" must be from {min} to {max}, not {integer}"))
    }
}

/// The same with a sign.
pub(super) fn signed(range: RangeInclusive<i32>) -> impl Fn(&DeValue<'_>) -> Result<i32, Refusal> {
    move |value| {
        let number = value.as_integer().filter(|integer| integer.radix() == 10);
        let number = number.and_then(|integer| integer.as_str().parse().ok());
        let number = number.filter(|number| range.contains(number));
        let (min, max) = (range.start(), range.end());
        number.ok_or_else(|| format!(" must be a whole number from {min} to {max}"))
    }
}

pub(super) fn duration(
    range: RangeInclusive<Millis>,
) -> impl Fn(&DeValue<'_>) -> Result<Millis, Refusal> {
    move |value| {
        let typed = value
            .as_str()
            .ok_or_else(|| format!(" must be a duration such as \"30s\", not {}", kind(value)))?;
        let found = units::parse_duration(typed).map_err(|error| format!(": {error}"))?;
        if range.contains(&found) {
            return Ok(found);
        }
        let (min, max) = (range.start(), range.end());
        let (min, max) = (units::format_duration(*min), units::format_duration(*max));
        Err(format!(" must be from {min} to {max}, not {typed}"))
    }
}

pub(super) fn size(range: RangeInclusive<u64>) -> impl Fn(&DeValue<'_>) -> Result<u64, Refusal> {
    move |value| {
        let typed = value
            .as_str()
            .ok_or_else(|| format!(" must be a size such as \"4MiB\", not {}", kind(value)))?;
        let found = units::parse_size(typed).map_err(|error| format!(": {error}"))?;
        if range.contains(&found) {
            return Ok(found);
        }
        let (min, max) = (range.start(), range.end());
        let (min, max) = (units::format_size(*min), units::format_size(*max));
        Err(format!(" must be from {min} to {max}, not {typed}"))
    }
}

/// A list of what `read` reads, at most 1,000 of them.
pub(super) fn list<T>(
    read: impl Fn(&DeValue<'_>) -> Result<T, Refusal>,
) -> impl Fn(&DeValue<'_>) -> Result<Vec<T>, Refusal> {
    move |value| {
        let values =
            value.as_array().ok_or_else(|| format!(" must be a list, not {}", kind(value)))?;
        if 1000 < values.len() {
            return Err(" must have at most 1000 entries".to_owned());
        }
        let number = |(index, value): (usize, &toml::Spanned<DeValue<'_>>)| {
            read(value.get_ref()).map_err(|refusal| format!(", entry {}{refusal}", index + 1))
        };
        values.iter().enumerate().map(number).collect()
    }
}
