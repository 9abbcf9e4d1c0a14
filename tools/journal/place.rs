//! Which data directory is meant, and the door to it.

use super::failure::{self, Failure};
use midwatch::config::{Config, Named, Origin, Place, Surroundings};
use midwatch::journal::disk::Disk as _;
use midwatch::journal::store::{JOURNAL_DIR, SNAPSHOT_DIR};
use midwatch::journal::{JournalError, RealDisk, Report};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The config of the whole host.
const SYSTEM_CONFIG: &str = "/etc/midwatch/midwatch.toml";

/// How often a read is tried again when a running daemon removes a file underneath: each try sees a
/// newer store, so only a daemon that compacts faster than files are opened could use them up.
const TRIES: u32 = 100;

/// A data directory, open for reading.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) path: PathBuf,
    pub(crate) disk: RealDisk,
    /// The directory as the commands in our advice need it: empty where the default serves.
    pub(crate) argument: String,
}

impl Store {
    /// Opens the directory that was named, or else the one of environment and config.
    pub(crate) fn open(dir: Option<PathBuf>, config: Option<PathBuf>) -> Result<Self, Failure> {
        let argument = dir.as_deref().map(|dir| format!(" {}", quoted(dir))).unwrap_or_default();
        let path = match dir {
            Some(dir) => dir,
            None => find(config)?,
        };
        let disk = RealDisk::open(&path).map_err(|error| unopened(&path, &error))?;
        let store = Self { path, disk, argument };
        store.check_readable()?;
        Ok(store)
    }

    /// A directory of another user would look empty: say what it is instead.
    fn check_readable(&self) -> Result<(), Failure> {
        match self.disk.list("") {
            Err(error) => Err(unopened(&self.path, &error)),
            Ok(_) => Ok(()),
        }
    }

    /// Reads with `read`, again when a running daemon removes a file underneath. What looks damaged
    /// because a snapshot went meanwhile does not once it is read anew.
    pub(crate) fn read<T>(
        &self,
        mut read: impl FnMut(&RealDisk) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let before = self.names();
            match read(&self.disk) {
                Err(JournalError::Io { source, .. })
                    if tries != 0 && source.kind() == io::ErrorKind::NotFound => {}
                Err(_) if tries != 0 && self.names() != before => {}
                result => return result,
            }
        }
    }

    /// The files of journal and snapshots.
    fn names(&self) -> [Option<Vec<String>>; 2] {
        [JOURNAL_DIR, SNAPSHOT_DIR].map(|dir| self.disk.list(dir).ok())
    }

    /// A refusal of the journal as this tool says it.
    pub(crate) fn refusal(&self, error: &JournalError) -> Failure {
        failure::refusal(error, &self.argument)
    }

    /// Whether the directory has any of the names of a store.
    pub(crate) fn holds_anything(&self) -> bool {
        let names = ["store", "floor", "journal", "snapshots", "repair"];
        let absent = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
        names.iter().any(|name| !self.disk.open_read(name).is_err_and(absent))
    }

    /// Fails when what this process writes would not belong to whom the directory belongs to: the
    /// daemon could not read it.
    pub(crate) fn check_owner(&self) -> Result<(), Failure> {
        let dir = std::fs::metadata(&self.path).map_err(|error| unopened(&self.path, &error))?;
        if dir.uid() == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        let (path, owner, dir) = (self.path.display(), dir.uid(), &self.argument);
        let what = format!("{path} belongs to uid {owner}, and so must what is written in it");
        Err(Failure::new(7, what).with_help(format!(
            "run it as that user: sudo -u '#{owner}' midwatch-journal repair{dir}"
        )))
    }

    /// Fails when the directory holds no store at all.
    pub(crate) fn check_there(&self, report: &Report) -> Result<(), Failure> {
        if report.store.is_some() || report.segments != 0 {
            return Ok(());
        }
        let dir = self.path.display();
        Err(Failure::usage(format!("there is no store in {dir}"))
            .with_help("name its directory as argument or in MIDWATCH_DATA_DIR"))
    }
}

fn unopened(path: &Path, error: &io::Error) -> Failure {
    let dir = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => Failure::usage(format!("there is no directory {dir}"))
            .with_help("name the data directory as argument or in MIDWATCH_DATA_DIR"),
        io::ErrorKind::NotADirectory => Failure::usage(format!("{dir} is not a directory")),
        io::ErrorKind::PermissionDenied => Failure::new(7, format!("no permission to read {dir}"))
            .with_help("run it as the daemon's own user, or as root"),
        _ => Failure::new(1, format!("cannot open {dir}: {error}")),
    }
}

fn find(config: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = |name: &str| variable(name).map(PathBuf::from);
    let named = Named {
        config: config.map(|path| Place { path, origin: Origin::Flag("--config") }),
        data_dir: path("MIDWATCH_DATA_DIR")
            .map(|path| Place { path, origin: Origin::Environment("MIDWATCH_DATA_DIR") }),
        socket: None,
    };
    let around = Surroundings {
        uid: rustix::process::geteuid().as_raw(),
        home: path("HOME"),
        config_home: path("XDG_CONFIG_HOME"),
        state_home: path("XDG_STATE_HOME"),
        runtime_dir: path("XDG_RUNTIME_DIR"),
        system_config: PathBuf::from(SYSTEM_CONFIG),
    };
    Ok(Config::find_data_dir(&named, &around)?)
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
