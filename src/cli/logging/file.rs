//! A file of the log: found again when somebody moved it, set aside when it is full, and silent
//! about its own troubles but for one line.

use super::line::Said;
use super::writer::Settings;
use crate::config::Rotate;
use crate::kernel::ids::{Millis, Timestamp};
use crate::units::Zone;
use flate2::Compression;
use flate2::write::GzEncoder;
use fs2::FileExt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a file that could not be written is left alone.
const AGAIN_AFTER: Millis = Millis::secs(5);

/// How often it is looked whether the file still has its name.
const LOOK_EVERY: Millis = Millis::secs(1);

/// Processes of one name that have files at once.
const NAMESAKES_MAX: u32 = 16;

/// How often a file that another process holds is tried, for that one may just be ending.
const TRIES: u32 = 10;
const TRY_EVERY: Duration = Duration::from_millis(100);

/// Bytes that are kept while the data directory is not there yet.
const EARLY_BYTES_MAX: usize = 64 << 10;

/// A file, and the older ones beside it that were set aside as `NAME.log.1` and so on.
#[derive(Debug)]
pub(super) struct LogFile {
    name: String,
    /// Device and inode of the data directory, where the file stands in it.
    home: Option<(u64, u64)>,
    open: Option<Open>,
    /// Lines that are written when the data directory is there.
    early: String,
    trouble: Option<Trouble>,
    packing: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// The day of its last line.
    day: String,
    /// When it was last looked whether it still has its name.
    looked: Millis,
    /// It ends in the middle of a line.
    torn: bool,
}

/// It could not be written.
#[derive(Debug)]
struct Trouble {
    since: Timestamp,
    why: String,
    lost: u64,
    /// When to try again, on the monotonic clock.
    again: Millis,
}

impl LogFile {
    pub(super) const fn new(name: String) -> Self {
        Self { name, home: None, open: None, early: String::new(), trouble: None, packing: None }
    }

    /// The same in another directory: lines that could not be written here are told of there.
    pub(super) fn elsewhere(&mut self) -> Self {
        let mut moved = Self::new(self.name.clone());
        moved.trouble = self.trouble.take().map(|trouble| Trouble { again: Millis(0), ..trouble });
        moved
    }

    /// Writes a line; what has to be said elsewhere of a trouble that begins.
    pub(super) fn write(&mut self, line: &str, settings: &Settings) -> Option<String> {
        let dir = settings.dir.as_deref()?;
        if settings.within.as_ref().is_some_and(|within| self.open.is_none() && !within.is_dir()) {
            if self.early.len() + line.len() <= EARLY_BYTES_MAX {
                self.early.push_str(line);
            }
            return None;
        }
        let now = crate::clock::monotonic();
        if let Some(trouble) = &mut self.trouble
            && now < trouble.again
        {
            trouble.lost = trouble.lost.saturating_add(1);
            return None;
        }
        match self.try_write(dir, line, settings, now) {
            Ok(()) => None,
            Err(error) => self.note(line, &error, dir, now),
        }
    }

    /// Notes that a line is lost; says so the first time.
    fn note(&mut self, line: &str, error: &io::Error, dir: &Path, now: Millis) -> Option<String> {
        let again = now.plus(AGAIN_AFTER);
        let lost = u64::from(!line.is_empty());
        if let Some(trouble) = &mut self.trouble {
            trouble.again = again;
            trouble.lost = trouble.lost.saturating_add(lost);
            return None;
        }
        let why = error.to_string();
        let path = self.path(dir, 1);
        let told = format!("the log {} cannot be written: {why}", path.display());
        self.trouble = Some(Trouble { since: crate::clock::wall(), why, lost, again });
        Some(told)
    }

    fn try_write(
        &mut self,
        dir: &Path,
        line: &str,
        settings: &Settings,
        now: Millis,
    ) -> io::Result<()> {
        let day = Zone::Local.date(crate::clock::wall());
        self.make_ready(dir, settings, &day, now)?;
        let mut text = std::mem::take(&mut self.early);
        if let Some(Trouble { since, why, lost, .. }) = &self.trouble {
            let since = crate::units::rfc3339(*since);
            let told = format!("{lost} lines since {since} could not be written: {why}");
            let process = self.name.trim_end_matches(".debug");
            text += &Said::own(told).line(process, settings.json);
        }
        text += line;
        let Some(open) = &mut self.open else { return Ok(()) };
        open.append(text.as_bytes())?;
        open.day = day;
        self.trouble = None;
        Ok(())
    }

    /// Another directory in the place of the data directory gets no line of ours.
    fn check_home(&mut self, settings: &Settings) -> io::Result<()> {
        let Some(within) = &settings.within else { return Ok(()) };
        let there = fs::metadata(within)?;
        let there = (there.dev(), there.ino());
        if *self.home.get_or_insert(there) == there {
            return Ok(());
        }
        Err(io::Error::other("the data directory is no longer where it was"))
    }

    /// Sees to it that there is a file with room.
    fn make_ready(
        &mut self,
        dir: &Path,
        settings: &Settings,
        day: &str,
        now: Millis,
    ) -> io::Result<()> {
        if let Some(open) = &mut self.open
            && open.looked.plus(LOOK_EVERY) <= now
        {
            open.looked = now;
            if !open.has_its_name() {
                self.open = None;
            }
        }
        let full = |open: &Open| {
            let old = settings.rotate == Rotate::Daily && open.day != day;
            open.bytes != 0 && (old || settings.max_size <= open.bytes)
        };
        if self.open.is_none() {
            self.check_home(settings)?;
            self.open = Some(self.open_one(dir, day, now)?);
        }
        if let Some(path) = self.open.as_ref().filter(|open| full(open)).map(|it| it.path.clone()) {
            self.set_aside(&path, settings)?;
            // Its lock goes with it; the name is free only now.
            self.open = Some(Open::at(&path, day, now)?.ok_or(io::ErrorKind::ResourceBusy)?);
        }
        Ok(())
    }

    /// Opens the file, or that of the next number where a namesake of ours holds it.
    fn open_one(&self, dir: &Path, day: &str, now: Millis) -> io::Result<Open> {
        // Not its parents: a data directory that is gone does not come back by this.
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().mode(0o755).recursive(true).create(dir)?;
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        for tried in 0..TRIES {
            if let Some(open) = Open::at(&self.path(dir, 1), day, now)? {
                return Ok(open);
            }
            if tried + 1 < TRIES {
                #[expect(clippy::disallowed_methods, reason = "a thread that does nothing else")]
                thread::sleep(TRY_EVERY);
            }
        }
        for number in 2..=NAMESAKES_MAX {
            if let Some(open) = Open::at(&self.path(dir, number), day, now)? {
                return Ok(open);
            }
        }
        Err(io::Error::other(format!("{NAMESAKES_MAX} processes of this name hold theirs")))
    }

    fn path(&self, dir: &Path, number: u32) -> PathBuf {
        let name = &self.name;
        dir.join(if number == 1 { format!("{name}.log") } else { format!("{name}-{number}.log") })
    }

    /// Gives the file the number 1, and the older ones the next; the oldest goes.
    fn set_aside(&mut self, path: &Path, settings: &Settings) -> io::Result<()> {
        self.finish_packing();
        // Those beyond `keep`, also where it was larger before.
        let mut beyond = settings.keep;
        while remove(&old(path, beyond))? | remove(&packed(path, beyond))? {
            beyond = beyond.saturating_add(1);
        }
        for number in (1..settings.keep).rev() {
            rename(&old(path, number), &old(path, number + 1))?;
            rename(&packed(path, number), &packed(path, number + 1))?;
        }
        rename(path, &old(path, 1))?;
        if settings.compress {
            let (from, to) = (old(path, 1), packed(path, 1));
            // Not by the thread that writes: lines would wait for it.
            let packing = thread::Builder::new().name("log gzip".to_owned());
            self.packing = packing.spawn(move || pack(&from, &to)).ok();
        }
        Ok(())
    }

    /// The older file must have its last name before that is passed on.
    fn finish_packing(&mut self) {
        if let Some(Ok(Err(error))) = self.packing.take().map(JoinHandle::join) {
            tracing::warn!("a log file was not compressed: {error}");
        }
    }
}

impl Open {
    /// Opens a file; none when another process holds it.
    fn at(path: &Path, day: &str, now: Millis) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        if file.try_lock_exclusive().is_err() {
            return Ok(None);
        }
        let metadata = file.metadata()?;
        let bytes = metadata.len();
        let written = Timestamp(u64::try_from(metadata.mtime()).unwrap_or(0).saturating_mul(1000));
        let day = if bytes == 0 { day.to_owned() } else { Zone::Local.date(written) };
        // Whether a crash left half a line is not worth reading: an empty line harms nobody, and
        // it is only there when the process before ended in a trouble.
        Ok(Some(Self { file, path: path.to_owned(), bytes, day, looked: now, torn: false }))
    }

    fn has_its_name(&self) -> bool {
        let (Ok(named), Ok(held)) = (fs::metadata(&self.path), self.file.metadata()) else {
            return false;
        };
        (named.dev(), named.ino()) == (held.dev(), held.ino())
    }

    /// Adds whole lines. Where only some bytes of them fit, the next line begins behind an end.
    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.write_all(b"\n")?;
            self.bytes = self.bytes.saturating_add(1);
            self.torn = false;
        }
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.bytes = self.bytes.saturating_add(written as u64);
                    bytes = bytes.get(written..).unwrap_or_default();
                    self.torn = !bytes.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn old(path: &Path, number: u32) -> PathBuf {
    PathBuf::from(format!("{}.{number}", path.display()))
}

fn packed(path: &Path, number: u32) -> PathBuf {
    PathBuf::from(format!("{}.{number}.gz", path.display()))
}

/// Whether there was such a file.
fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a log line need not outlive a power cut")]
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Compresses a file; a crash leaves it as it was, and the piece of a new one that is written over.
fn pack(from: &Path, to: &Path) -> io::Result<()> {
    let part = to.with_extension("gz.part");
    let file =
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&part)?;
    let mut packer = GzEncoder::new(file, Compression::fast());
    io::copy(&mut File::open(from)?, &mut packer)?;
    packer.finish()?;
    rename(&part, to)?;
    remove(from).map(drop)
}

#[cfg(test)]
mod tests;
