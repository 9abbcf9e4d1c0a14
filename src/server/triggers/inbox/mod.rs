//! The inbox: a directory whose files become tasks.
//!
//! It has a thread of its own, for files may lie on slow disks. It submits as any client does, a
//! batch at a time, and waits for each answer; so it never has more than one batch of requests on
//! the way, however many files there are.

mod look;
mod taking;
mod watch;

pub(crate) use watch::Bell;

use self::look::{Memory, Sight};
use self::taking::{Taker, Trouble};
use self::watch::{Ears, News, Plan};
use crate::api::{Code, Problem};
use crate::clock;
use crate::config::Inbox;
use crate::kernel::event::Actor;
use crate::kernel::ids::Millis;
use crate::kernel::{Command, Rejection};
use crate::server::app::App;
use crate::server::peer::{Access, Peer};
use crate::server::problems::{Failure, problem};
use crate::server::submission::INBOX_KEYS;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How soon it is looked again at the earliest after a file was renamed in.
const MOVED_GAP: Millis = Millis(20);

/// How soon after anything else was heard; files that are written wait for longer anyway.
const HEARD_GAP: Millis = Millis(500);

/// How much longer than a look the rest after it is, so that a directory with very many files that
/// cannot be taken costs little.
const REST: u64 = 9;

/// How soon what found no room is tried again, if that is before the next look.
const AGAIN: Millis = Millis::secs(5);

/// What a file asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    /// The task that it is, as JSON.
    Task { key: String, text: Vec<u8> },
    /// A task of a type, which is told where the file is.
    File { key: String, kind: String, path: String, name: String },
}

impl Asked {
    fn bytes(&self) -> usize {
        match self {
            Self::Task { text, .. } => text.len(),
            Self::File { path, name, .. } => path.len() + name.len(),
        }
    }
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decided {
    /// There is a task, and that is durable.
    Taken,
    /// There will be none.
    Refused(String),
    /// There is no room for one now.
    Later(String),
}

/// The daemon is going away, or is gone.
#[derive(Debug)]
struct Ended;

/// Takes what files ask for, and says what became of each, in their order.
trait Desk {
    fn decide(&self, asked: Vec<Asked>) -> Result<Vec<Decided>, Ended>;
}

impl Desk for App {
    fn decide(&self, asked: Vec<Asked>) -> Result<Vec<Decided>, Ended> {
        let mut commands = Vec::new();
        let judged: Vec<_> = asked.into_iter().map(|asked| self.command(asked)).collect();
        let refused: Vec<Option<Problem>> = judged
            .into_iter()
            .map(|judged| match judged {
                Ok(command) => {
                    commands.push(command);
                    None
                }
                Err(Failure(problem)) => Some(problem),
            })
            .collect();
        let by = Actor::Trigger("inbox".into());
        let answers = if commands.is_empty() {
            Vec::new()
        } else {
            self.hand.ask_patiently(by, commands).ok_or(Ended)?
        };
        let mut answers = answers.into_iter();
        let decided = refused.into_iter().map(|refused| match refused {
            Some(problem) => Ok(Decided::Refused(said(&problem))),
            None => match answers.next() {
                Some(Ok(_submitted)) => Ok(Decided::Taken),
                Some(Err(rejection @ (Rejection::NoSpace | Rejection::StateFull { .. }))) => {
                    Ok(Decided::Later(rejection.to_string()))
                }
                Some(Err(rejection)) => Ok(Decided::Refused(said(&problem(&rejection)))),
                None => Err(Ended),
            },
        });
        decided.collect()
    }
}

/// A refusal as the command line says it.
fn said(problem: &Problem) -> String {
    let help = problem.help.as_ref().map(|help| format!("\n  {help}")).unwrap_or_default();
    format!("{}{help}", problem.detail)
}

impl App {
    /// The command for what a file asks for.
    fn command(&self, asked: Asked) -> Result<Command, Failure> {
        let policy = self.policy();
        match asked {
            Asked::Task { key, text } => {
                // Whoever can drop a file is nobody in particular.
                let peer = Peer::user(policy.doors.owner, Access::Submit);
                let mut spec = policy.judge(peer).spec_of_any_payload(&text).map_err(named)?;
                spec.key.get_or_insert_with(|| format!("{INBOX_KEYS}{key}").into());
                Ok(policy.kinds.recorded(spec))
            }
            Asked::File { key, kind, path, name } => {
                let payload = serde_json::json!({ "path": path, "name": name }).to_string();
                let key = format!("{INBOX_KEYS}{key}");
                policy.kinds.order(&kind, payload.into(), None, Some(key.into()))
            }
        }
    }
}

/// Commands of one's own need a person who may run them.
fn named(Failure(problem): Failure) -> Failure {
    if problem.code != Code::NotPermitted {
        return Failure(problem);
    }
    let detail = "files in the inbox cannot be commands of their own";
    Failure(Problem::new(Code::NotPermitted, detail).with_help("name a type of the config"))
}

/// The inbox's thread: takes files until the daemon goes away. Sleeps where there is no inbox.
pub(crate) fn keeper(app: &App) {
    let bell = &app.inbox;
    let mut keeper = Keeper {
        desk: app,
        bell,
        ears: None,
        memory: Memory::default(),
        root: PathBuf::new(),
        rescan_at: Millis(0),
        trouble: None,
    };
    let mut news = News::default();
    while !news.closed {
        let policy = app.policy();
        let plan = if let Some(inbox) = &policy.inbox {
            keeper.look(inbox, &news)
        } else {
            keeper.ears = None;
            keeper.note(None);
            Plan { anyway: None, heard: Millis(0), moved: Millis(0) }
        };
        app.house.note_inbox(keeper.trouble.clone());
        news = bell.wait(plan);
    }
}

struct Keeper<'a> {
    desk: &'a dyn Desk,
    bell: &'a Arc<Bell>,
    ears: Option<Ears>,
    memory: Memory,
    /// The inbox that was looked through last.
    root: PathBuf,
    /// When what was left over is looked through next, on the monotonic clock.
    rescan_at: Millis,
    /// What stands in the way of the inbox, as it was last said.
    trouble: Option<String>,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

impl Keeper<'_> {
    /// Takes what is complete; says when to look again.
    fn look(&mut self, inbox: &Inbox, news: &News) -> Plan {
        let began = clock::monotonic();
        let trouble = match self.take(inbox, &news.moved, began) {
            Ok(trouble) => trouble,
            Err(trouble) => Some(trouble),
        };
        let now = clock::monotonic();
        let next = self.memory.next(inbox.settle).unwrap_or(Millis(u64::MAX));
        let mut anyway = self.rescan_at.min(next);
        if let Some(trouble) = trouble {
            anyway = now.plus(inbox.rescan.min(AGAIN));
            self.rescan_at = anyway;
            match trouble {
                Trouble::Io(why) => self.note(Some(why)),
                Trouble::Later(why) => self.note(Some(format!("what was taken waits: {why}"))),
                Trouble::Ended => self.bell.close(),
            }
        } else {
            self.note(None);
        }
        let rest = Millis(now.0.saturating_sub(began.0)).times(REST);
        let after = |gap: Millis| now.plus(gap.max(rest));
        let heard = after(HEARD_GAP.min(Millis(inbox.settle.0 / 4)));
        Plan { anyway: Some(anyway.max(after(MOVED_GAP))), heard, moved: after(MOVED_GAP) }
    }

    /// Looks through the inbox until a look finds nothing more to take.
    fn take(
        &mut self,
        inbox: &Inbox,
        moved: &BTreeSet<PathBuf>,
        now: Millis,
    ) -> Result<Option<Trouble>, Trouble> {
        if self.root != inbox.path {
            self.root.clone_from(&inbox.path);
            self.rescan_at = now;
        }
        let known: BTreeSet<OsString> =
            inbox.types.keys().map(OsString::from).chain(["rejected".into()]).collect();
        let mut dirs = vec![(inbox.path.clone(), None)];
        let bound = |(name, kind): (&String, &String)| (inbox.path.join(name), Some(kind.clone()));
        dirs.extend(inbox.types.iter().map(bound));
        for (dir, kind) in &dirs {
            make_dir(dir, kind.is_none())?;
        }
        let ears = self.ears.get_or_insert_with(|| Ears::new(self.bell));
        ears.follow(dirs.iter().map(|(dir, _)| dir.as_path()));
        let taker = Taker { root: &inbox.path, desk: self.desk, after_step: &|| Ok(()) };
        if self.rescan_at <= now {
            taker.resume()?;
            self.rescan_at = now.plus(inbox.rescan);
        }
        let sight = Sight { moved, now, settle: inbox.settle };
        let (mut trouble, none) = (None, BTreeSet::new());
        loop {
            let mut taken = 0;
            self.memory.begin();
            for (dir, kind) in &dirs {
                let known = if kind.is_none() { &known } else { &none };
                self.memory.through(dir, known, &sight, |names| {
                    let (number, stuck) = taker.take(dir, kind.as_deref(), &names)?;
                    taken += number;
                    trouble = stuck.or_else(|| trouble.take());
                    // Files wait for the next daemon.
                    (!self.bell.is_closed()).then_some(()).ok_or(Trouble::Ended)
                })?;
            }
            self.memory.end();
            if taken == 0 {
                return Ok(trouble);
            }
        }
    }

    /// Says once what stands in the way, and once that it no longer does.
    fn note(&mut self, trouble: Option<String>) {
        if trouble.as_deref().map(nameless) == self.trouble.as_deref().map(nameless) {
            return;
        }
        if let Some(why) = &trouble {
            tracing::error!("inbox: {why}");
        } else {
            tracing::info!("inbox: it works again");
        }
        self.trouble = trouble;
    }
}

/// A complaint without the random names in it, by which it would be another one each time.
fn nameless(why: &str) -> String {
    let random = |part: &&str| part.len() != 16 || !part.bytes().all(|b| b.is_ascii_hexdigit());
    why.split(['/', ':', ' ']).filter(random).collect()
}

/// Makes a directory unless it is there; its parent has to be. One that is a link to a directory
/// will do where links are followed.
fn make_dir(dir: &Path, follow: bool) -> Result<(), Trouble> {
    let made = rustix::fs::mkdirat(rustix::fs::CWD, dir, rustix::fs::Mode::RWXU);
    let why = |why: &dyn std::fmt::Display| Trouble::Io(format!("{}: {why}", dir.display()));
    let is_dir = if follow { dir.is_dir() } else { dir.is_dir() && !dir.is_symlink() };
    match made {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) if is_dir => Ok(()),
        Err(rustix::io::Errno::EXIST) => Err(why(&"it is not a directory")),
        Err(error) => Err(why(&format!("cannot make it: {error}"))),
    }
}

#[cfg(test)]
mod tests;
