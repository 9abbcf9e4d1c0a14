//! Files are taken in batches, so that a crash at any point neither loses nor doubles one.
//!
//! A batch is a directory of a random name below `.taken/`. It holds a marker from before the
//! first file comes until after the last one was answered for, all of it synced in that order:
//!
//! 1. the directory and its marker are made,
//! 2. the files are renamed into it,
//! 3. they are submitted, each under a key made of the batch's name and its number in it,
//! 4. once the answers are there, and so are durable, files that were tasks are removed; files
//!    that belong to a task stay where its payload says,
//! 5. the marker is removed.
//!
//! A batch with a marker is submitted again under the same keys: what was taken before is known.

use super::{Asked, Decided, Desk, Ended};
use crate::kernel::text::Text;
use crate::limits::{BODY_BYTES_MAX, INBOX_BATCH_MAX};
use crate::units::format_size;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of files that are read before they are submitted, give or take one file.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Longest part of a name that is kept.
const NAME_BYTES_MAX: usize = 200;

/// Where batches are, below the inbox.
const TAKEN: &str = ".taken";

/// Where files are set aside that no task could be made of, below the inbox.
const REJECTED: &str = "rejected";

/// The marker of a batch that is not done with.
const MARKER: &str = ".batch";

/// What a batch's marker says.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    /// The type that its files become tasks of; none where they are tasks themselves.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The files that were answered for although others were not.
    #[serde(default)]
    done: BTreeSet<u32>,
}

/// Called between two steps that could be the last; an error ends the work there, as a crash would.
pub(super) type AfterStep<'a> = &'a dyn Fn() -> io::Result<()>;

/// Takes files out of one inbox.
pub(super) struct Taker<'a> {
    /// The inbox.
    pub(super) root: &'a Path,
    /// Who takes what they ask for.
    pub(super) desk: &'a dyn Desk,
    /// For tests.
    pub(super) after_step: AfterStep<'a>,
}

/// Why files could not be taken.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The file system.
    Io(String),
    /// There is no room for more work now; what was taken waits.
    Later(String),
    /// The daemon is going away.
    Ended,
}

impl From<Ended> for Trouble {
    fn from(Ended: Ended) -> Self {
        Self::Ended
    }
}

/// Adds what was done, and with what.
fn about<'a>(doing: &'a str, path: &'a Path) -> impl Fn(io::Error) -> Trouble + 'a {
    move |error| Trouble::Io(format!("cannot {doing} {}: {error}", path.display()))
}

/// A batch that is not done with.
struct Batch {
    name: String,
    dir: PathBuf,
    marker: Marker,
}

/// A file in a batch, and its number there.
struct Taken {
    number: u32,
    name: String,
    path: PathBuf,
}

impl Taker<'_> {
    /// Takes files of one directory: those that are still there, at most [`INBOX_BATCH_MAX`]. With a type
    /// they belong to tasks of it, without one they are tasks. Says how many were taken, and why
    /// another was not.
    pub(super) fn take(
        &self,
        from: &Path,
        kind: Option<&str>,
        names: &[OsString],
    ) -> Result<(usize, Option<Trouble>), Trouble> {
        let dir = self.open_dir(from)?;
        let batch = self.begin(kind)?;
        let (mut taken, mut trouble) = (0, None);
        for (number, name) in names.iter().take(INBOX_BATCH_MAX).enumerate() {
            let to = batch.dir.join(format!("{number}-{}", tame(name)));
            match rustix::fs::renameat(&dir, name, CWD, &to).map_err(io::Error::from) {
                Ok(()) => taken += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => trouble = Some(about("take", &from.join(name))(error)),
            }
            self.step()?;
        }
        dir.sync_all().map_err(about("sync", from))?;
        sync_dir(&batch.dir)?;
        self.step()?;
        self.settle(batch)?;
        Ok((taken, trouble))
    }

    /// Opens a directory that files are taken out of. The inbox may be a link, for its path is the
    /// config's; what lies in it may not, for whoever drops files there could turn it to any place.
    fn open_dir(&self, dir: &Path) -> Result<File, Trouble> {
        let nofollow = if dir == self.root { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | nofollow;
        let opened = rustix::fs::open(dir, flags, Mode::empty());
        opened.map(File::from).map_err(|errno| about("open the directory", dir)(errno.into()))
    }

    /// Submits again what a crash, or a lack of room, left in batches. Removes what is left of
    /// those that are done with.
    pub(super) fn resume(&self) -> Result<(), Trouble> {
        let taken = self.root.join(TAKEN);
        let entries = match fs::read_dir(&taken) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(about("read", &taken)(error)),
        };
        for entry in entries {
            let dir = entry.map_err(about("read", &taken))?.path();
            let name = dir.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
            match read_marker(&dir) {
                Ok(Some(marker)) => self.settle(Batch { name, dir, marker })?,
                // Made, and never used; or done with, and its files belong to tasks.
                Ok(None) => drop(fs::remove_dir(&dir)),
                Err(error) => return Err(about("read the marker of", &dir)(error)),
            }
        }
        Ok(())
    }

    fn step(&self) -> Result<(), Trouble> {
        (self.after_step)().map_err(|error| Trouble::Io(error.to_string()))
    }

    fn begin(&self, kind: Option<&str>) -> Result<Batch, Trouble> {
        let taken = self.root.join(TAKEN);
        make_own_dir(&taken)?;
        sync_dir(self.root)?;
        let name = format!("{:016x}", rand::random::<u64>());
        let dir = taken.join(&name);
        fs::DirBuilder::new().mode(0o700).create(&dir).map_err(about("make", &dir))?;
        self.step()?;
        let marker = Marker { kind: kind.map(str::to_owned), done: BTreeSet::new() };
        self.mark(&dir, &marker)?;
        sync_dir(&taken)?;
        self.step()?;
        Ok(Batch { name, dir, marker })
    }

    /// Puts a marker in the place of the one there is, whole or not at all.
    fn mark(&self, dir: &Path, marker: &Marker) -> Result<(), Trouble> {
        let text = serde_json::to_vec(marker).unwrap_or_default();
        let new = dir.join(format!("{MARKER}.new"));
        write(&new, &text).map_err(about("write", &new))?;
        self.step()?;
        rename(&new, &dir.join(MARKER)).map_err(about("write", &new))?;
        sync_dir(dir)
    }

    /// Submits what a batch holds, and is done with it unless some of it has to wait.
    fn settle(&self, mut batch: Batch) -> Result<(), Trouble> {
        let mut files = files(&batch)?.into_iter().peekable();
        let (mut later, mut refused) = (None, Refused::default());
        while files.peek().is_some() {
            let (mut asked, mut owners, mut bytes) = (Vec::new(), Vec::new(), 0);
            while bytes < BYTES_AT_ONCE
                && let Some(file) = files.next()
            {
                match ask(&batch, &file)? {
                    Ok(one) => {
                        bytes += one.bytes();
                        asked.push(one);
                        owners.push(file);
                    }
                    Err(why) => self.reject(&batch, &file, &why, &mut refused)?,
                }
            }
            let decided = self.desk.decide(asked)?;
            self.step()?;
            for (file, decided) in owners.iter().zip(decided) {
                match decided {
                    Decided::Taken => self.done(&mut batch, file)?,
                    Decided::Refused(why) => self.reject(&batch, file, &why, &mut refused)?,
                    Decided::Later(why) => later = Some(why),
                }
            }
        }
        refused.tell(self.root);
        if let Some(why) = later {
            if !batch.marker.done.is_empty() {
                self.mark(&batch.dir, &batch.marker)?;
            }
            return Err(Trouble::Later(why));
        }
        self.finish(&batch)
    }

    /// A file was answered for.
    fn done(&self, batch: &mut Batch, file: &Taken) -> Result<(), Trouble> {
        if batch.marker.kind.is_some() {
            batch.marker.done.insert(file.number);
            return Ok(());
        }
        fs::remove_file(&file.path).map_err(about("remove", &file.path))?;
        self.step()
    }

    fn finish(&self, batch: &Batch) -> Result<(), Trouble> {
        sync_dir(&batch.dir)?;
        self.step()?;
        let marker = batch.dir.join(MARKER);
        fs::remove_file(&marker).map_err(about("remove", &marker))?;
        sync_dir(&batch.dir)?;
        self.step()?;
        // Files of tasks keep it; whoever removes the last of them leaves it to the next look.
        if fs::remove_dir(&batch.dir).is_err() {
            tracing::trace!("files of tasks stay in {}", batch.dir.display());
        }
        Ok(())
    }

    /// Sets a file aside, with the reason beside it. The same file gets the same name again, so a
    /// crash in between leaves no second reason.
    fn reject(
        &self,
        batch: &Batch,
        file: &Taken,
        why: &str,
        refused: &mut Refused,
    ) -> Result<(), Trouble> {
        let rejected = self.root.join(REJECTED);
        make_own_dir(&rejected)?;
        sync_dir(self.root)?;
        let name = format!("{}{}-{}", batch.name, file.number, file.name);
        let reason = rejected.join(format!("{name}.reason"));
        write(&reason, format!("{why}\n").as_bytes()).map_err(about("write", &reason))?;
        self.step()?;
        rename(&file.path, &rejected.join(&name)).map_err(about("set aside", &file.path))?;
        sync_dir(&rejected)?;
        sync_dir(&batch.dir)?;
        refused.note(&file.name, why);
        self.step()
    }
}

/// What was set aside of a batch: one line of the log, however many.
#[derive(Default)]
struct Refused {
    first: Option<String>,
    number: usize,
}

impl Refused {
    fn note(&mut self, name: &str, why: &str) {
        self.number += 1;
        let said = || format!("{}: {}", name.escape_debug(), Text::clipped(why, 500));
        self.first.get_or_insert_with(said);
    }

    fn tell(&self, root: &Path) {
        let Self { first: Some(first), number } = self else { return };
        let rejected = root.join(REJECTED);
        tracing::warn!("inbox: {number} of its files set aside in {}: {first}", rejected.display());
    }
}

/// What a file of a batch asks for, or why it asks for nothing.
fn ask(batch: &Batch, file: &Taken) -> Result<Result<Asked, String>, Trouble> {
    let key = format!("{}/{}", batch.name, file.number);
    let open = || -> io::Result<Result<Asked, String>> {
        let mut opened = match open_regular(&file.path)? {
            Ok(opened) => opened,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(kind) = &batch.marker.kind {
            // The task must not outlive its file.
            opened.sync_all()?;
            let Some(path) = file.path.to_str().map(str::to_owned) else {
                return Ok(Err(
                    "the path of the inbox is not UTF-8, so no payload can name it".into()
                ));
            };
            let (kind, name) = (kind.clone(), file.name.clone());
            return Ok(Ok(Asked::File { key, kind, path, name }));
        }
        let size = opened.metadata()?.len();
        let text = if size <= BODY_BYTES_MAX as u64 { read(&mut opened)? } else { None };
        let max = format_size(BODY_BYTES_MAX as u64);
        Ok(text
            .map(|text| Asked::Task { key, text })
            .ok_or_else(|| format!("it is larger than {max}")))
    };
    match open() {
        Ok(asked) => Ok(asked),
        Err(error) if is_passing(&error) => Err(about("read", &file.path)(error)),
        Err(error) => Ok(Err(format!("it cannot be read: {error}"))),
    }
}

/// Whether it says nothing about the file: descriptors or memory are short.
fn is_passing(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR))
}

/// Opens a file without following a link, or waiting for who writes to a pipe.
fn open_regular(path: &Path) -> io::Result<Result<File, String>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return Ok(Err("it is a link".to_owned()));
        }
        Err(error) => return Err(error),
    };
    let is_file = file.metadata()?.is_file();
    Ok(if is_file { Ok(file) } else { Err("it is not a regular file".to_owned()) })
}

/// The content of a file that may still grow; none when it is too large.
fn read(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    file.take(BODY_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok((text.len() <= BODY_BYTES_MAX).then_some(text))
}

/// The files of a batch that were not answered for, in their order.
fn files(batch: &Batch) -> Result<Vec<Taken>, Trouble> {
    let mut files = Vec::new();
    for entry in fs::read_dir(&batch.dir).map_err(about("read", &batch.dir))? {
        let path = entry.map_err(about("read", &batch.dir))?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some((number, name)) = name.split_once('-') else { continue };
        let Ok(number) = number.parse() else { continue };
        if !batch.marker.done.contains(&number) {
            files.push(Taken { number, name: name.to_owned(), path });
        }
    }
    files.sort_by_key(|file| file.number);
    Ok(files)
}

/// The marker of a batch; none where it is done with, or was never begun.
fn read_marker(dir: &Path) -> io::Result<Option<Marker>> {
    let new = dir.join(format!("{MARKER}.new"));
    if let Err(error) = fs::remove_file(&new)
        && !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    {
        return Err(error);
    }
    let text = match fs::read(dir.join(MARKER)) {
        Ok(text) => text,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&text).map(Some).map_err(io::Error::other)
}

/// A name that is text and not too long; what follows its last dot stays.
fn tame(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    if name.len() <= NAME_BYTES_MAX {
        return name.into_owned();
    }
    let ending = name.rsplit_once('.').map(|(_, ending)| ending).filter(|it| it.len() <= 16);
    let ending = ending.map_or_else(String::new, |ending| format!(".{ending}"));
    let head = Text::clipped(&name, NAME_BYTES_MAX.saturating_sub(ending.len()));
    format!("{head}{ending}")
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat(CWD, from, CWD, to)?)
}

/// Writes a file anew, and syncs it.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let nofollow = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(nofollow);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_dir(dir: &Path) -> Result<(), Trouble> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(about("sync", dir))
}

/// Makes a directory that nobody else may enter, unless it is there; one of somebody else's in its
/// place is refused.
fn make_own_dir(dir: &Path) -> Result<(), Trouble> {
    match rustix::fs::mkdirat(CWD, dir, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(about("make", dir)(error.into())),
    }
    let metadata = fs::symlink_metadata(dir).map_err(about("look at", dir))?;
    if metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let why = format!("{} is not a directory of midwatch's own user", dir.display());
    Err(Trouble::Io(why))
}
