//! The config while it is in force: read again on demand, taken whole or refused whole.
//!
//! What a program runs with stays until the next reading is good in every line. Keys that a
//! running program cannot change keep their values, and are named, so that nobody believes that
//! they were taken.

use super::keys::{KEYS, Section};
use super::{Config, ConfigError, Journal, Named, Surroundings, Worker};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// Where a config came from, so that it can be read again.
#[derive(Clone, Debug)]
pub struct Source {
    /// The places that were named.
    pub named: Named,
    /// What the search depends on besides.
    pub around: Surroundings,
    /// Processes and slots that flags named; a flag outweighs the file, also later.
    pub workers: (Option<u32>, Option<u32>),
}

impl Source {
    /// Reads the config as it is now.
    pub fn read(&self) -> Result<Config, ConfigError> {
        let mut config = Config::load(&self.named, &self.around)?;
        config.override_workers(self.workers.0, self.workers.1);
        Ok(config)
    }

    /// The files that decide, or would if they were there.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        match &self.named.config {
            Some(place) => vec![place.path.clone()],
            None => super::places::own_and_system(&self.around),
        }
    }
}

/// A config in force, and how its last reading went.
#[derive(Clone, Debug)]
pub struct Running {
    source: Source,
    config: Config,
    refused: Option<ConfigError>,
    restart: BTreeSet<String>,
}

/// A config that could be taken up, with what would become of it.
#[derive(Clone, Debug)]
pub struct Next {
    config: Config,
    changed: BTreeSet<String>,
    restart: BTreeSet<String>,
}

impl Next {
    /// What would be in force.
    pub const fn config(&self) -> &Config {
        &self.config
    }
}

/// How a reading went, where it went otherwise than the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reread {
    /// Nothing to be taken up.
    Same,
    /// Taken up.
    Taken {
        /// The keys that changed.
        changed: BTreeSet<String>,
        /// The keys whose new values wait for a restart.
        restart: BTreeSet<String>,
    },
    /// Refused as a whole; what was in force stays.
    Refused(ConfigError),
}

impl Running {
    /// A config that a program begins with.
    pub const fn new(source: Source, config: Config) -> Self {
        Self { source, config, refused: None, restart: BTreeSet::new() }
    }

    /// Where it came from.
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// What is in force.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Why the file as it is now was refused.
    pub const fn refused(&self) -> Option<&ConfigError> {
        self.refused.as_ref()
    }

    /// The keys whose values in the file wait for a restart.
    pub const fn restart(&self) -> &BTreeSet<String> {
        &self.restart
    }

    /// Reads the config again; changes nothing yet.
    pub fn look(&self) -> Result<Next, ConfigError> {
        let mut config = self.source.read()?;
        let (before, now) = (values(&self.config), values(&config));
        let keys: BTreeSet<_> = before.keys().chain(now.keys()).collect();
        let differ = keys.into_iter().filter(|key| before.get(*key) != now.get(*key));
        let (restart, changed) = differ.cloned().partition(|key| needs_restart(key));
        config.keep_what_needs_a_restart(&self.config);
        Ok(Next { config, changed, restart })
    }

    /// Puts in force what was looked at; says what changed since the last time somebody was told.
    pub fn take(&mut self, next: Next) -> Reread {
        let Next { config, changed, restart } = next;
        let mended = self.refused.take().is_some();
        self.config = config;
        if changed.is_empty() && restart == self.restart && !mended {
            return Reread::Same;
        }
        self.restart.clone_from(&restart);
        Reread::Taken { changed, restart }
    }

    /// Leaves everything as it is; says why, unless that was said before.
    pub fn refuse(&mut self, why: ConfigError) -> Reread {
        if self.refused.as_ref() == Some(&why) {
            return Reread::Same;
        }
        self.refused = Some(why.clone());
        Reread::Refused(why)
    }
}

impl fmt::Display for Reread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |keys: &BTreeSet<String>| keys.iter().cloned().collect::<Vec<_>>().join(", ");
        match self {
            Self::Same => f.write_str("the config is as it was"),
            Self::Taken { changed, restart } => {
                if changed.is_empty() {
                    f.write_str("the config is good, and nothing is to be taken up")?;
                } else {
                    write!(f, "the config was taken up: {}", list(changed))?;
                }
                if !restart.is_empty() {
                    write!(f, "; not before a restart: {}", list(restart))?;
                }
                Ok(())
            }
            Self::Refused(why) => {
                write!(f, "the config was refused, and what was in force stays: {why}")
            }
        }
    }
}

fn values(config: &Config) -> BTreeMap<String, Option<toml::Value>> {
    config.effective().into_iter().map(|value| (value.key, value.value)).collect()
}

/// Whether a running program cannot take up another value of this key, such as `worker.processes`.
fn needs_restart(key: &str) -> bool {
    let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
    let section = KEYS.iter().find(|Section { path: its, .. }| *its == path);
    let key = section.and_then(|section| section.keys.iter().find(|known| known.name == name));
    key.is_some_and(|key| key.restart)
}

impl Config {
    /// Takes over from `old` whatever a running program cannot change.
    fn keep_what_needs_a_restart(&mut self, old: &Self) {
        self.data_dir.clone_from(&old.data_dir);
        self.socket.clone_from(&old.socket);
        let snapshot_after = self.journal.snapshot_after;
        self.journal = Journal { snapshot_after, ..old.journal.clone() };
        let slots = self.worker.slots;
        self.worker = Worker { slots, ..old.worker.clone() };
        self.retention.archive.clone_from(&old.retention.archive);
        self.http.socket_group.clone_from(&old.http.socket_group);
        self.http.listen = old.http.listen;
        self.clock = old.clock;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Origin, Place};
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// A config file that is read again.
    struct Bench {
        dir: tempfile::TempDir,
        running: Running,
    }

    impl Bench {
        fn new(text: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("midwatch.toml");
            write(&file, text);
            let named = Named {
                config: Some(Place { path: file, origin: Origin::Flag("--config") }),
                ..Named::default()
            };
            let around = Surroundings {
                uid: rustix::process::geteuid().as_raw(),
                home: Some(dir.path().to_owned()),
                system_config: dir.path().join("none"),
                ..Surroundings::default()
            };
            let source = Source { named, around, workers: (None, Some(7)) };
            let config = source.read().unwrap();
            Self { dir, running: Running::new(source, config) }
        }

        fn read(&mut self, text: &str) -> Reread {
            write(&self.dir.path().join("midwatch.toml"), text);
            match self.running.look() {
                Ok(next) => self.running.take(next),
                Err(why) => self.running.refuse(why),
            }
        }
    }

    fn write(path: &Path, text: &str) {
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    const OLD: &str = "data_dir = '/srv/a'\n[handlers.a]\ncommand = ['x']\n";

    #[test]
    fn handlers_limits_and_policies_are_taken_up_and_a_flag_outweighs_the_file() {
        let mut bench = Bench::new(OLD);
        let new = format!(
            "{OLD}timeout = '5s'\n[handlers.b]\ncommand = ['y']\n[worker]\nslots = 3\n\
             [retry]\nbase = '1s'\n[retention]\nmax_finished = 5\n[log]\nlevel = 'debug'\n"
        );
        let Reread::Taken { changed, restart } = bench.read(&new) else { panic!("not taken") };
        for key in ["handlers.a.timeout", "handlers.b.command", "retry.base", "log.level"] {
            assert!(changed.contains(key), "{key}: {changed:?}");
        }
        assert_eq!(restart, BTreeSet::new());
        let config = bench.running.config();
        assert_eq!((config.handlers.len(), config.worker.slots), (2, 7));
        assert_eq!(bench.read(&new), Reread::Same);
    }

    #[test]
    fn what_needs_a_restart_keeps_its_value_and_is_named_once() {
        let mut bench = Bench::new(OLD);
        let new = "data_dir = '/srv/b'\nsocket = '/srv/s'\n[handlers.a]\ncommand = ['z']\n\
                   [journal]\nfsync = 'never'\non_suspicious_tail = 'halt'\n\
                   segment_size = '1MiB'\nreserve = '2MiB'\nsnapshot_after = '1MiB'\n\
                   [worker]\nprocesses = 9\nheartbeat = '1s'\nsuspect_after = '2s'\n\
                   offline_after = '3s'\nmemory_max = '64MiB'\n[retention]\narchive = '/srv/ended'\n\
                   [http]\nsocket_group = 'g'\noperate_group = 'h'\n\
                   listen = '127.0.0.1:1'\ntoken_file = '/srv/t'\n\
                   [clock]\nwait_for_sync = true\n";
        let before = bench.running.config().clone();
        let Reread::Taken { changed, restart } = bench.read(new) else { panic!("not taken") };
        let fixed = KEYS.iter().flat_map(|section| {
            let keys = section.keys.iter().filter(|key| key.restart);
            keys.map(|key| match section.path {
                "" => key.name.to_owned(),
                path => format!("{path}.{}", key.name),
            })
        });
        assert_eq!(restart, fixed.collect::<BTreeSet<_>>(), "each such key has another value here");
        let taken = [
            "handlers.a.command",
            "http.operate_group",
            "http.token_file",
            "journal.snapshot_after",
        ];
        assert_eq!(changed, taken.map(str::to_owned).into());
        let (old, now) = (values(&before), values(bench.running.config()));
        for key in &restart {
            assert_eq!(old.get(key), now.get(key), "{key}");
        }
        assert_eq!(bench.read(new), Reread::Same);
        assert_eq!(bench.running.restart(), &restart);
        let Reread::Taken { restart, .. } = bench.read(OLD) else { panic!("not taken") };
        assert!(restart.is_empty(), "what was taken back waits no more: {restart:?}");
    }

    #[test]
    fn a_bad_file_is_refused_as_a_whole_and_told_once_and_so_is_its_end() {
        let mut bench = Bench::new(OLD);
        let bad = format!("{OLD}[handlers.b]\ncommand = ['y']\n[worker]\nslots = 0\n");
        let Reread::Refused(why) = bench.read(&bad) else { panic!("not refused") };
        assert!(why.to_string().contains("worker.slots"), "{why}");
        assert_eq!(bench.running.config().handlers.len(), 1);
        assert_eq!(bench.read(&bad), Reread::Same);
        assert_eq!(bench.running.refused(), Some(&why));
        let said = bench.read(OLD).to_string();
        assert_eq!(said, "the config is good, and nothing is to be taken up");
        assert_eq!(bench.running.refused(), None);
    }
}
