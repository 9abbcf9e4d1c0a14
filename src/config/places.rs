//! Where the config file, the data directory and the socket are: the search order, in one place
//! for the daemon, its parts, every client and the journal tool, so that they always meet.

use super::fault::{ConfigError, Fault};
use super::files::{self, Unopened};
use super::sections::{FileConfig, read_places_only, read_text};
use super::show::Origin;
use super::{Config, Inbox, LogDir};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest path of a socket: what `sockaddr_un` holds with its closing zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Largest config file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A path somebody named, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path as it was typed.
    pub path: PathBuf,
    /// The flag or the variable.
    pub origin: Origin,
}

/// What the command line or the environment named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The config file.
    pub config: Option<Place>,
    /// The data directory.
    pub data_dir: Option<Place>,
    /// The socket.
    pub socket: Option<Place>,
}

/// What the search for the places depends on besides. By default root, with nothing around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The effective user id.
    pub uid: u32,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub config_home: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub state_home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// The config of the whole host: `/etc/midwatch/midwatch.toml`.
    pub system_config: PathBuf,
}

impl Config {
    /// Finds and reads the config, and settles the places.
    ///
    /// Fails when a file is named and absent, when a file can be written by others, when anything
    /// in it is wrong, and when there is no place for the data. Creates nothing.
    pub fn load(named: &Named, around: &Surroundings) -> Result<Self, ConfigError> {
        let (file, read) = find_file(named, around)?;
        let mut origins = read.origins.clone();
        let data_dir = settle(named.data_dir.as_ref(), read.data_dir.clone(), |origin| {
            origins.insert("data_dir".to_owned(), origin);
        })?;
        let (socket, socket_origin) = find_socket(named, &read, around)?;
        if let Some(origin) = socket_origin {
            origins.insert("socket".to_owned(), origin);
        }
        let data_dir = match data_dir {
            Some(path) => path,
            None => default_data_dir(around)?,
        };
        let FileConfig { journal, worker, retry, retention, dispatch, log, http, .. } = read;
        let clock = read.clock;
        if let Some(archive) = &retention.archive {
            check_place("retention.archive", archive, &data_dir)?;
        }
        if let LogDir::At(dir) = &log.dir
            && *dir != data_dir.join("log")
        {
            check_place("log.dir", dir, &data_dir)?;
        }
        let inbox = read.inbox.map(|inbox| place_inbox(inbox, &data_dir)).transpose()?;
        Ok(Self {
            file,
            data_dir,
            socket,
            journal,
            worker,
            retry,
            retention,
            dispatch,
            log,
            http,
            clock,
            handlers: read.handlers,
            schedules: read.schedules,
            inbox,
            hooks: read.hooks,
            alerts: read.alerts,
            ping: read.ping,
            origins,
        })
    }

    /// The socket, for a client that needs nothing else, and why the config was refused if it was:
    /// a daemon that runs on with the config it took before has to be reached all the same. Reads
    /// no file when the socket is named.
    ///
    /// A refused file still tells its places where they can be made out. Fails when a file is
    /// named that cannot be read at all and no data directory is: the usual socket may be that of
    /// another daemon.
    pub fn find_socket(
        named: &Named,
        around: &Surroundings,
    ) -> Result<(PathBuf, Option<ConfigError>), ConfigError> {
        let (read, refused) = match named.socket {
            Some(_) => (FileConfig::default(), None),
            None => find_places(named, around)?,
        };
        find_socket(named, &read, around).map(|(path, _)| (path, refused))
    }

    /// The data directory, for a tool that needs nothing else. Reads no file when it is named.
    pub fn find_data_dir(named: &Named, around: &Surroundings) -> Result<PathBuf, ConfigError> {
        let read = match named.data_dir {
            Some(_) => FileConfig::default(),
            None => find_file(named, around)?.1,
        };
        match settle(named.data_dir.as_ref(), read.data_dir, |_| ())? {
            Some(path) => Ok(path),
            None => default_data_dir(around),
        }
    }

    /// Takes the numbers of workers and slots that the command line names.
    pub fn override_workers(&mut self, processes: Option<u32>, slots: Option<u32>) {
        if let Some(processes) = processes {
            self.worker.processes = processes;
            self.origins.insert("worker.processes".to_owned(), Origin::Flag("--workers"));
        }
        if let Some(slots) = slots {
            self.worker.slots = slots;
            self.origins.insert("worker.slots".to_owned(), Origin::Flag("--slots"));
        }
    }
}

/// The config file in force and what it says.
fn find_file(
    named: &Named,
    around: &Surroundings,
) -> Result<(Option<PathBuf>, FileConfig), ConfigError> {
    let Some((path, text)) = find_text(named, around)? else {
        return Ok((None, FileConfig::default()));
    };
    let read = read_text(&path, &text)?;
    Ok((Some(path), read))
}

/// What the config file in force says of the places, and why it was refused if it was.
fn find_places(
    named: &Named,
    around: &Surroundings,
) -> Result<(FileConfig, Option<ConfigError>), ConfigError> {
    let (path, text) = match find_text(named, around) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok((FileConfig::default(), None)),
        Err(error) if named.config.is_some() && named.data_dir.is_none() => return Err(error),
        Err(error) => return Ok((FileConfig::default(), Some(error))),
    };
    match read_text(&path, &text) {
        Ok(read) => Ok((read, None)),
        Err(error) => Ok((read_places_only(&path, &text), Some(error))),
    }
}

/// The config file in force and its text.
fn find_text(
    named: &Named,
    around: &Surroundings,
) -> Result<Option<(PathBuf, String)>, ConfigError> {
    if let Some(place) = &named.config {
        let text = read_file(&place.path, around.uid).map_err(|refused| {
            let fault = refused.fault(&place.path);
            match place.origin {
                Origin::Environment(name) => fault.with_help(format!("{name} names it")),
                Origin::Default | Origin::File { .. } | Origin::Flag(_) => fault,
            }
        })?;
        return Ok(Some((place.path.clone(), text)));
    }
    for path in own_and_system(around) {
        match read_file(&path, around.uid) {
            Ok(text) => return Ok(Some((path, text))),
            Err(Refused::Io(error)) if is_absent(&error) => {}
            Err(refused) => return Err(refused.fault(&path).into()),
        }
    }
    Ok(None)
}

/// The files that are looked for where none is named, in order.
pub(super) fn own_and_system(around: &Surroundings) -> Vec<PathBuf> {
    let own = base(around.config_home.as_ref(), around.home.as_ref(), ".config");
    let own = own.map(|base| base.join("midwatch/midwatch.toml"));
    own.into_iter().chain([around.system_config.clone()]).collect()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Why a file was not read.
enum Refused {
    Io(io::Error),
    NotAFile,
    TooLarge,
    NotText { line: usize },
    Foreign { owner: u32 },
    Writable { mode: u32 },
}

impl Refused {
    fn fault(self, path: &Path) -> Fault {
        let file = path.display();
        match self {
            Self::Io(error) => {
                Fault::new(format!("cannot read the config {file}: {}", reason(&error)))
            }
            Self::NotAFile => Fault::new(format!("the config {file} is not a file")),
            Self::TooLarge => Fault::new(format!("the config {file} is larger than 1 MiB")),
            Self::NotText { line } => {
                Fault::new("the config is not UTF-8 text".to_owned()).at(path, line)
            }
            Self::Foreign { owner } => Fault::new(format!(
                "the config {file} belongs to user {owner}, who could change what is run"
            ))
            .with_help(format!("chown it to root or to your own user, then look at it: {file}")),
            Self::Writable { mode } => Fault::new(format!(
                "others than its owner may write to the config {file} (mode {mode:04o})"
            ))
            .with_help(format!("chmod go-w {file}")),
        }
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads a file that only root or `uid` can have written. What is checked is what is read: the
/// open file, not the path.
fn read_file(path: &Path, uid: u32) -> Result<String, Refused> {
    let (file, metadata) = files::open(path).map_err(|why| match why {
        Unopened::Io(error) => Refused::Io(error),
        Unopened::NotAFile => Refused::NotAFile,
    })?;
    if metadata.uid() != 0 && metadata.uid() != uid {
        return Err(Refused::Foreign { owner: metadata.uid() });
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(Refused::Writable { mode: metadata.mode() & 0o7777 });
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Refused::Io)?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        return Err(Refused::TooLarge);
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        Refused::NotText { line: good.filter(|byte| **byte == b'\n').count() + 1 }
    })
}

/// The path that was named, or else the one of the file; absolute.
fn settle(
    named: Option<&Place>,
    of_file: Option<PathBuf>,
    note: impl FnOnce(Origin),
) -> Result<Option<PathBuf>, ConfigError> {
    let Some(place) = named else { return Ok(of_file) };
    note(place.origin.clone());
    std::path::absolute(&place.path)
        .map(Some)
        .map_err(|error| Fault::new(format!("{}: {error}", place.path.display())).into())
}

/// The socket, and its origin where that is not what the file's own keys say.
fn find_socket(
    named: &Named,
    read: &FileConfig,
    around: &Surroundings,
) -> Result<(PathBuf, Option<Origin>), ConfigError> {
    let mut origin = None;
    let socket = settle(named.socket.as_ref(), read.socket.clone(), |named| origin = Some(named))?;
    let socket = match socket {
        Some(path) => path,
        None => default_socket(named, read, around)?,
    };
    let length = socket.as_os_str().as_bytes().len();
    if SOCKET_PATH_BYTES_MAX < length {
        return Err(Fault::new(format!(
            "the path of the socket is {length} bytes long, and {SOCKET_PATH_BYTES_MAX} is the \
             most a socket can have: {}",
            socket.display()
        ))
        .with_help("name a shorter one with --socket, MIDWATCH_SOCKET or `socket` in the config")
        .into());
    }
    Ok((socket, origin))
}

fn default_socket(
    named: &Named,
    read: &FileConfig,
    around: &Surroundings,
) -> Result<PathBuf, ConfigError> {
    let data_dir = settle(named.data_dir.as_ref(), read.data_dir.clone(), |_| ())?;
    if let Some(data_dir) = data_dir {
        return Ok(data_dir.join("midwatch.sock"));
    }
    if around.uid == 0 {
        return Ok(PathBuf::from("/run/midwatch/midwatch.sock"));
    }
    match around.runtime_dir.as_ref().filter(|path| path.is_absolute()) {
        Some(runtime_dir) => Ok(runtime_dir.join("midwatch/midwatch.sock")),
        // No session, no runtime directory: the data directory is ours alone too.
        None => default_data_dir(around).map(|data_dir| data_dir.join("midwatch.sock")),
    }
}

/// What the data directory holds by itself; an archive there would be damage.
const OWN_NAMES: [&str; 12] = [
    "floor",
    "inbox",
    "journal",
    "log",
    "logs",
    "midwatch.lock",
    "quarantine",
    "repair",
    "reserve",
    "run",
    "snapshots",
    "store",
];

/// Refuses a file or directory of the user's where midwatch keeps what is its own.
fn check_place(key: &str, path: &Path, data_dir: &Path) -> Result<(), ConfigError> {
    let Ok(within) = path.strip_prefix(data_dir) else { return Ok(()) };
    let first = within.components().next();
    let name = first.and_then(|first| first.as_os_str().to_str()).unwrap_or_default();
    if !name.is_empty() && !OWN_NAMES.contains(&name) {
        return Ok(());
    }
    let what = format!("`{key}` is {}, a place of midwatch's own", path.display());
    Err(Fault::new(what).with_help("name a place that nothing else writes").into())
}

/// An inbox with its place, which is the data directory's own where none is named.
fn place_inbox(mut inbox: Inbox, data_dir: &Path) -> Result<Inbox, ConfigError> {
    let own = data_dir.join("inbox");
    if inbox.path.as_os_str().is_empty() {
        inbox.path = own;
    } else if inbox.path != own {
        check_place("inbox.path", &inbox.path, data_dir)?;
    }
    Ok(inbox)
}

fn default_data_dir(around: &Surroundings) -> Result<PathBuf, ConfigError> {
    if around.uid == 0 {
        return Ok(PathBuf::from("/var/lib/midwatch"));
    }
    let base = base(around.state_home.as_ref(), around.home.as_ref(), ".local/state");
    base.map(|base| base.join("midwatch")).ok_or_else(|| {
        Fault::new("there is no place for the data: neither XDG_STATE_HOME nor HOME is set")
            .with_help("name a directory with --data-dir, MIDWATCH_DATA_DIR or the config")
            .into()
    })
}

/// A base directory by the rules of XDG: a relative path counts as unset.
fn base(xdg: Option<&PathBuf>, home: Option<&PathBuf>, below_home: &str) -> Option<PathBuf> {
    let set = xdg.filter(|path| path.is_absolute()).cloned();
    set.or_else(|| home.filter(|path| path.is_absolute()).map(|home| home.join(below_home)))
}
