//! The archive: one line of JSON for each ended task that goes, appended and synced.

use super::views;
use crate::kernel::ids::Moment;
use crate::kernel::task::Task;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where ended tasks are written before they go. The file is opened for each group of them, so it
/// may be moved aside at any time.
#[derive(Clone, Debug)]
pub(super) struct Archive {
    path: PathBuf,
    /// The store, in hex: with the task's id it names a line.
    store: String,
}

impl Archive {
    pub(super) fn new(path: PathBuf, store: String) -> Self {
        Self { path, store }
    }

    /// Appends a line for each task and makes them durable.
    ///
    /// On an error the file is as long as it was, if that can be had.
    ///
    /// # After a crash
    /// Any of the lines may be there, the last of them in part; they are written again.
    pub(super) fn append(&self, tasks: &[Task], now: Moment) -> Result<(), String> {
        let wrong = |error: io::Error| format!("cannot write {}: {error}", self.path.display());
        let (mut file, is_new) = self.open().map_err(wrong)?;
        let length = file.metadata().map_err(wrong)?.len();
        if let Err(error) = self.write(&mut file, length, tasks, now) {
            // Half of a group would only stand there twice.
            if let Err(error) = file.set_len(length) {
                tracing::debug!("{} keeps what was written of it: {error}", self.path.display());
            }
            return Err(wrong(error));
        }
        if is_new {
            sync_name(&self.path).map_err(wrong)?;
        }
        Ok(())
    }

    /// The file, and whether it was made just now.
    fn open(&self) -> io::Result<(File, bool)> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).mode(0o600);
        // A FIFO under that name must not hold anybody up.
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let opened = match options.clone().create_new(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.open(&self.path)?, false)
            }
            file => (file?, true),
        };
        if opened.0.metadata()?.is_file() {
            return Ok(opened);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }

    fn write(&self, file: &mut File, length: u64, tasks: &[Task], now: Moment) -> io::Result<()> {
        let torn = 0 < length && last_byte(file)? != b'\n';
        let mut out = BufWriter::new(&*file);
        if torn {
            out.write_all(b"\n")?; // a crash cut the last line; it stands by itself
        }
        for task in tasks {
            out.write_all(&line(&self.store, task, now)?)?;
        }
        out.flush()?;
        drop(out);
        file.sync_data()
    }
}

/// The object of `show --json`, with the store in front.
fn line(store: &str, task: &Task, now: Moment) -> io::Result<Vec<u8>> {
    let mut line = format!("{{\"store\":\"{store}\",").into_bytes();
    let view = serde_json::to_vec(&views::task(task, now).finish())?;
    line.extend_from_slice(view.get(1..).unwrap_or_default());
    // A payload may have come in on several lines; between its tokens they are only space.
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.push(b'\n');
    Ok(line)
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    let [last] = last;
    Ok(last)
}

fn sync_name(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or_else(|| Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ids::TaskId;
    use serde_json::Value;
    use std::os::unix::fs::symlink;

    fn archive(dir: &Path) -> Archive {
        Archive::new(dir.join("ended.ndjson"), "5107e".to_owned())
    }

    fn ids(dir: &Path) -> Vec<Option<u64>> {
        let text = std::fs::read_to_string(dir.join("ended.ndjson")).unwrap();
        let id = |line: &str| serde_json::from_str::<Value>(line).ok()?["id"].as_u64();
        text.lines().map(id).collect()
    }

    fn task(id: u64) -> Task {
        Task { payload: "{\n\"page\":\r\n7}".into(), ..Task::pending(TaskId(id)) }
    }

    #[test]
    fn each_task_is_one_line_that_names_its_store_whatever_its_payload_looks_like() {
        let dir = tempfile::tempdir().unwrap();
        archive(dir.path()).append(&[task(1), task(2)], Moment::default()).unwrap();
        archive(dir.path()).append(&[task(3)], Moment::default()).unwrap();
        assert_eq!(ids(dir.path()), [Some(1), Some(2), Some(3)]);
        let text = std::fs::read_to_string(dir.path().join("ended.ndjson")).unwrap();
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((&line["store"], &line["payload"]["page"]), (&"5107e".into(), &7.into()));
    }

    #[test]
    fn a_line_that_a_crash_has_cut_stands_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        archive(dir.path()).append(&[task(1), task(2)], Moment::default()).unwrap();
        let file = OpenOptions::new().write(true).open(dir.path().join("ended.ndjson")).unwrap();
        file.set_len(file.metadata().unwrap().len() - 9).unwrap();
        archive(dir.path()).append(&[task(2)], Moment::default()).unwrap();
        assert_eq!(ids(dir.path()), [Some(1), None, Some(2)]);
    }

    #[test]
    fn what_is_no_file_of_its_own_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ended.ndjson");
        std::fs::create_dir(&path).unwrap();
        archive(dir.path()).append(&[task(1)], Moment::default()).unwrap_err();
        std::fs::remove_dir(&path).unwrap();
        symlink(dir.path().join("elsewhere"), &path).unwrap();
        archive(dir.path()).append(&[task(1)], Moment::default()).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        let nowhere = Archive::new(dir.path().join("none/ended.ndjson"), String::new());
        let error = nowhere.append(&[task(1)], Moment::default()).unwrap_err();
        assert!(error.contains("none/ended.ndjson") && error.contains("No such file"), "{error}");
    }
}
