//! `midwatch schedule import-crontab`: each line of a crontab becomes a schedule of type `exec`.
//!
//! Its name is made of the file's name, the command's and the line's text, so that importing the
//! same again changes nothing, whatever the order of the lines is.

use super::path;
use crate::api::{ScheduleActed, ScheduleRequest, Schedules, StatusView};
use crate::cli::connection::{get, post};
use crate::cli::crontab::{self, Crontab, Entry, Form, Said};
use crate::cli::failure::{Failure, exit};
use crate::cli::session::{Format, Session};
use crate::cli::table::{Column, Table};
use crate::process::{Identity, identity_of};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest crontab that is read.
const BYTES_MAX: u64 = 4 << 20;

/// Letters of the file's name, and of the command's, that a schedule is called by.
const SLUG_MAX: usize = 20;

/// A crontab.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every line becomes a schedule of type exec; importing the same file again changes nothing. Lines for
another user than the daemon's are reported with the piece of config that runs them. Exits 1 when
some lines could not be taken.

  midwatch schedule import-crontab --dry-run /var/spool/cron/crontabs/root
  crontab -l | midwatch schedule import-crontab -
  midwatch schedule import-crontab --system /etc/crontab")]
pub(crate) struct Args {
    /// The crontab, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Whose crontab it is [default: the daemon's own user]
    #[arg(long, value_name = "USER", conflicts_with = "system")]
    user: Option<String>,
    /// Each line names its user, as in /etc/crontab and /etc/cron.d
    #[arg(long)]
    system: bool,
    /// Only tell what would be made
    #[arg(long)]
    dry_run: bool,
}

/// A line that was taken.
#[derive(Debug, Serialize)]
struct Taken {
    line: usize,
    name: String,
    cron: String,
    timezone: String,
    command: String,
    /// Whether anything changed; null for a dry run.
    changed: Option<bool>,
}

/// A line that was not, or something to know of one.
#[derive(Debug, Serialize)]
struct Told {
    line: usize,
    what: String,
    /// What would help: a piece of config.
    help: Option<String>,
}

/// Whom the daemon runs as, and where.
struct Ground {
    uid: u32,
    own: Option<Identity>,
    zone: String,
}

/// Takes it over.
pub(super) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let text = read(&args.file, session)?;
    let form = if args.system { Form::System } else { Form::User };
    let Crontab { entries, refused, notes } = crontab::parse(&text, form);
    let ground = Ground::find(args.dry_run, session);
    let mut refused: Vec<_> = refused.into_iter().map(told).collect();
    let notes: Vec<_> = notes.into_iter().map(told).collect();
    let stem = stem(&args.file);
    let mut taken = Vec::new();
    for (name, entry) in named(&stem, entries) {
        let user = entry.user.as_ref().or(args.user.as_ref());
        match ground.home(user) {
            Ok(home) => {
                let line = Taken::of(name, &entry, &ground);
                let sent = (!args.dry_run).then(|| send(&line, &entry, &home, &ground, session));
                match sent.transpose() {
                    Ok(changed) => taken.push(Taken { changed, ..line }),
                    // Without a daemon the others fare no better.
                    Err(gone) if [exit::UNREACHABLE, exit::UNKNOWN].contains(&gone.code()) => {
                        return Err(gone);
                    }
                    Err(refusal) => {
                        let what = refusal.what().to_owned();
                        refused.push(Told { line: entry.line, what, help: None });
                    }
                }
            }
            Err(what) => {
                let help = Some(ground.handler(&name, &entry, user));
                refused.push(Told { line: entry.line, what, help });
            }
        }
    }
    refused.sort_by_key(|told| told.line);
    let left = if args.dry_run { Vec::new() } else { left_over(&stem, &taken, session) };
    report(&taken, &refused, &notes, &left, session)?;
    Ok(if refused.is_empty() { exit::DONE } else { exit::FAILED })
}

fn told(Said { line, what }: Said) -> Told {
    Told { line, what, help: None }
}

fn read(file: &Path, session: &mut Session<'_>) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        session.input.by_ref().take(BYTES_MAX).read_to_string(&mut text)
    } else {
        fs::File::open(file).and_then(|open| open.take(BYTES_MAX).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    Ok(text)
}

/// Schedules with their names, each once: of lines that are the same, the later ones are numbered.
fn named(stem: &str, entries: Vec<Entry>) -> Vec<(String, Entry)> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let named = entries.into_iter().map(|entry| {
        let mark = fnv1a(entry.source.as_bytes());
        let program = slug(program(&entry.command));
        let name = format!("cron-{stem}-{program}-{:08x}", mark >> 32);
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        (if *count == 1 { name } else { format!("{name}-{count}") }, entry)
    });
    named.collect()
}

/// The name of the program that a command begins with.
fn program(command: &str) -> &str {
    let word = command.split_whitespace().next().unwrap_or_default();
    word.rsplit('/').next().unwrap_or(word)
}

fn stem(file: &Path) -> String {
    match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("-") | None => "stdin".to_owned(),
        Some(stem) => slug(stem),
    }
}

/// A text as part of a name.
fn slug(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let slug: String = text.chars().take(SLUG_MAX).map(plain).collect();
    let slug = slug.trim_matches('_');
    if slug.is_empty() { "line".to_owned() } else { slug.to_owned() }
}

/// Fowler, Noll and Vo's hash: names must stay the same from one version to the next.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

impl Ground {
    fn find(dry_run: bool, session: &Session<'_>) -> Self {
        let status = || get::<StatusView>(session.api, "/v1/status").ok();
        let pid = if dry_run { None } else { status() }.map(|status| status.pid);
        let daemon = pid.and_then(|pid| fs::metadata(format!("/proc/{pid}")).ok());
        let uid = daemon.map_or(session.environment.surroundings.uid, |daemon| daemon.uid());
        let own = identity_of(&uid.to_string(), None).ok();
        Self { uid, own, zone: zone_of_the_host(Path::new("/etc")) }
    }

    /// Where a user's commands run, if the daemon can run them as that user.
    fn home(&self, user: Option<&String>) -> Result<String, String> {
        let wanted = match user {
            Some(user) => Some(identity_of(user, None)?),
            None => None,
        };
        if let (Some(user), Some(wanted)) = (user, &wanted)
            && wanted.uid != self.uid
        {
            let uid = self.uid;
            return Err(format!(
                "it is for user {user}, and the daemon runs commands as uid {uid}"
            ));
        }
        let entry = self.own.as_ref().and_then(|own| own.entry.as_ref());
        let home = entry.map(|(_, home)| home.to_string_lossy().into_owned());
        Ok(home.filter(|home| home.starts_with('/')).unwrap_or_else(|| "/".to_owned()))
    }

    fn zone<'a>(&'a self, entry: &'a Entry) -> &'a str {
        entry.zone.as_deref().unwrap_or(&self.zone)
    }

    /// The piece of config that runs a command as another user.
    fn handler(&self, name: &str, entry: &Entry, user: Option<&String>) -> String {
        let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let argv: Vec<_> = entry.argv().iter().map(|part| text(part)).collect();
        let env: Vec<_> = entry
            .variables
            .iter()
            .map(|(name, value)| format!("{} = {}", text(name), text(value)))
            .collect();
        let zone = text(self.zone(entry));
        format!(
            "put this into the config, and reload it:\n\
             [handlers.\"{name}\"]\ncommand = [{}]\nuser = {}\nenv = {{ {} }}\n\
             [schedules.\"{name}\"]\ntype = \"{name}\"\ncron = {}\ntimezone = {zone}",
            argv.join(", "),
            text(user.map_or("", String::as_str)),
            env.join(", "),
            text(&entry.cron),
        )
    }
}

/// The zone that cron plans by: that of the host.
fn zone_of_the_host(etc: &Path) -> String {
    let linked = fs::read_link(etc.join("localtime")).ok();
    let linked = linked.and_then(|path| path.to_str().map(str::to_owned));
    let named = || fs::read_to_string(etc.join("timezone")).ok();
    let zone =
        linked.as_deref().and_then(|path| path.split_once("zoneinfo/")).map(|(_, zone)| zone);
    let zone = zone.map(str::to_owned).or_else(named).unwrap_or_default();
    let zone = zone.trim();
    let zone = zone.strip_prefix("posix/").unwrap_or(zone);
    if zone.is_empty() || zone == "localtime" { "UTC".to_owned() } else { zone.to_owned() }
}

impl Taken {
    fn of(name: String, entry: &Entry, ground: &Ground) -> Self {
        let (line, cron, command) = (entry.line, entry.cron.clone(), entry.command.clone());
        let timezone = ground.zone(entry).to_owned();
        Self { line, name, cron, timezone, command, changed: None }
    }
}

/// Asks for the schedule of a line; whether anything changed.
fn send(
    line: &Taken,
    entry: &Entry,
    home: &str,
    ground: &Ground,
    session: &Session<'_>,
) -> Result<bool, Failure> {
    let payload = json!({ "argv": argv(entry, home, ground), "cwd": home });
    let payload = serde_json::value::to_raw_value(&payload)
        .map_err(|error| Failure::usage(format!("line {}: {error}", line.line)))?;
    let boot = line.cron == "@reboot";
    let request = ScheduleRequest {
        kind: "exec".to_owned(),
        payload: Some(payload),
        cron: (!boot).then(|| line.cron.clone()),
        boot,
        timezone: Some(line.timezone.clone()),
        // As cron: a run that failed is not tried again before its next time.
        max_retry: Some(0),
        replace: true,
        ..ScheduleRequest::default()
    };
    let acted: ScheduleActed = post(session.api, &path(&line.name), &request)?;
    Ok(acted.changed)
}

/// The whole command, its variables set as cron would.
fn argv(entry: &Entry, home: &str, ground: &Ground) -> Vec<String> {
    let user = ground.own.as_ref().and_then(|own| own.entry.as_ref()).map(|(name, _)| name);
    let mut variables: BTreeMap<&str, &str> = [("HOME", home)].into();
    variables.extend(entry.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    variables.extend(user.map(|user| ("LOGNAME", user.as_str())));
    let set = variables.iter().map(|(name, value)| format!("{name}={value}"));
    let env = std::iter::once("/usr/bin/env".to_owned());
    env.chain(set).chain(entry.argv()).collect()
}

/// Schedules of an earlier import of this file that it has no more.
fn left_over(stem: &str, taken: &[Taken], session: &Session<'_>) -> Vec<String> {
    let Ok(known) = get::<Schedules>(session.api, "/v1/schedules") else { return Vec::new() };
    let names = known.schedules.into_iter().filter(|one| one.origin == "runtime");
    let names = names.map(|one| one.name).filter(|name| {
        name.starts_with(&format!("cron-{stem}-")) && taken.iter().all(|taken| taken.name != *name)
    });
    names.collect()
}

fn report(
    taken: &[Taken],
    refused: &[Told],
    notes: &[Told],
    left: &[String],
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    if session.format != Format::Table {
        let report =
            json!({ "schedules": taken, "refused": refused, "notes": notes, "left_over": left });
        return session.json(&report);
    }
    let mut table = Table::new(&[
        Column::right("LINE"),
        Column::left("SCHEDULE"),
        Column::left("").rank(2),
        Column::left("WHEN").rank(1),
        Column::left("COMMAND"),
    ]);
    for one in taken {
        let done = match one.changed {
            None => "would be set",
            Some(true) => "set",
            Some(false) => "as it was",
        };
        table.row(vec![
            one.line.to_string().into(),
            one.name.as_str().into(),
            done.into(),
            one.cron.as_str().into(),
            one.command.as_str().into(),
        ]);
    }
    if !taken.is_empty() {
        let text = table.render(session.view.width, session.view.paint);
        session.print(&text)?;
    }
    for Told { line, what, .. } in notes {
        session.note(&format!("line {line}: {what}"));
    }
    for Told { line, what, help } in refused {
        let failure = Failure::new(exit::FAILED, format!("line {line}: {what}"));
        session.complain(&help.iter().fold(failure, Failure::with_help));
    }
    if !left.is_empty() {
        let names = left.join(" ");
        session.note(&format!(
            "of an earlier import, and no more in this file: midwatch schedule remove {names}"
        ));
    }
    Ok(())
}
