//! The log of an attempt while it is written: it may be cut in its middle, or removed and made
//! anew, and whoever follows it goes on behind what it has read.
//!
//! A worker that cuts a log writes head, marker and latest bytes to a new file, which takes the
//! name. The old one is then complete, so it is read to its end first. How far the new one goes on
//! from there is told by its marker, which stands where the two begin to differ.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// How the line begins and ends that stands for what was cut out.
const MARKER_BEGINS: &[u8] = b"\n[midwatch: ";
const MARKER_ENDS: &[u8] = b" bytes dropped]\n";

/// Longest marker.
const MARKER_BYTES_MAX: usize = 64;

/// Bytes compared at once.
const COMPARED_BYTES: usize = 64 << 10;

/// A log and how far it was read.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Option<File>,
    offset: u64,
    /// What has its name by now. The file we hold may have got its last bytes just before.
    successor: Option<File>,
}

/// The line that stands for what was cut out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marker {
    begins: u64,
    ends: u64,
    dropped: u64,
}

impl LogFile {
    /// A log that is read from `offset` on; a file that is not there yet is looked for.
    pub(super) const fn new(path: PathBuf, file: Option<File>, offset: u64) -> Self {
        Self { path, file, offset, successor: None }
    }

    /// The next bytes, at most `most`; none when there are no more for now.
    pub(super) fn next(&mut self, most: usize) -> io::Result<Option<Vec<u8>>> {
        loop {
            let Some(file) = &self.file else {
                self.file = self.open()?;
                if self.file.is_none() {
                    return Ok(None);
                }
                continue;
            };
            let piece = read(file, self.offset, most)?;
            if !piece.is_empty() {
                self.offset += length(&piece);
                return Ok(Some(piece));
            }
            if let Some(successor) = self.successor.take() {
                self.offset = place_in(file, &successor, self.offset)?;
                self.file = Some(successor);
                continue;
            }
            let held = file.metadata()?;
            self.successor = match self.open()? {
                Some(named) if !is_same(&held, &named.metadata()?) => Some(named),
                _ => return Ok(None),
            };
        }
    }

    fn open(&self) -> io::Result<Option<File>> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(0)
}

/// At most `most` bytes from `offset` on; fewer only at the end.
fn read(file: &File, offset: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; most];
    let mut filled = 0;
    while let Some(room) = piece.get_mut(filled..).filter(|room| !room.is_empty()) {
        match file.read_at(room, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    piece.truncate(filled);
    Ok(piece)
}

/// Where a reader that has all of `old` up to `offset` goes on in the file that took its name.
fn place_in(old: &File, new: &File, offset: u64) -> io::Result<u64> {
    let same = common_beginning(old, new)?;
    // Without a marker where it differs it is no cut log but one that was made anew.
    if same == new.metadata()?.len() {
        return Ok(0);
    }
    let Some(cut) = marker_near(new, same)? else { return Ok(0) };
    let before = marker_near(old, same)?.filter(|before| before.begins == cut.begins);
    // Counted in all bytes that were ever written to it.
    let reached = match before {
        Some(before) => offset.saturating_sub(before.ends - before.begins) + before.dropped,
        None => offset,
    };
    if reached < cut.begins + cut.dropped {
        // Some of what was cut out has not been read: the marker stands for it.
        return Ok(cut.begins);
    }
    Ok(reached - cut.dropped + (cut.ends - cut.begins))
}

/// How many bytes two files have in common at their beginning.
fn common_beginning(one: &File, other: &File) -> io::Result<u64> {
    let mut same = 0;
    loop {
        let (left, right) = (read(one, same, COMPARED_BYTES)?, read(other, same, COMPARED_BYTES)?);
        let equal = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
        same += equal as u64;
        if equal < COMPARED_BYTES {
            return Ok(same);
        }
    }
}

/// The last marker that begins at this place or so shortly before that the place is within it.
fn marker_near(file: &File, place: u64) -> io::Result<Option<Marker>> {
    let from = place.saturating_sub(MARKER_BYTES_MAX as u64);
    let bytes = read(file, from, 2 * MARKER_BYTES_MAX)?;
    let reach = usize::try_from(place - from).unwrap_or(0);
    let found = (0..=reach).rev().find_map(|begin| {
        let rest = bytes.get(begin..)?.strip_prefix(MARKER_BEGINS)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(rest.get(..digits)?).ok()?;
        rest.get(digits..)?.strip_prefix(MARKER_ENDS)?;
        let size = MARKER_BEGINS.len() + digits + MARKER_ENDS.len();
        let begins = from + begin as u64;
        Some(Marker { begins, ends: begins + size as u64, dropped: number.parse().ok()? })
    });
    Ok(found.filter(|found| place <= found.ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A log that is cut as a worker does it.
    struct Log {
        path: PathBuf,
        file: File,
        length: u64,
        marker: u64,
        cut: u64,
    }

    impl Log {
        fn make(path: PathBuf) -> Self {
            let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
            Self { path, file, length: 0, marker: 0, cut: 0 }
        }

        fn print(&mut self, text: &str) {
            self.file.write_all_at(text.as_bytes(), self.length).unwrap();
            self.length += text.len() as u64;
        }

        #[expect(clippy::disallowed_methods, reason = "a test's file need not last")]
        fn cut(&mut self, head: usize, tail: usize) {
            let from = self.length - tail as u64;
            self.cut += from - head as u64 - self.marker;
            let marker = format!("\n[midwatch: {} bytes dropped]\n", self.cut);
            let mut bytes = read(&self.file, 0, head).unwrap();
            bytes.extend(marker.as_bytes());
            bytes.extend(read(&self.file, from, tail).unwrap());
            let beside = self.path.with_extension("new");
            fs::write(&beside, &bytes).unwrap();
            fs::rename(&beside, &self.path).unwrap();
            self.file = File::options().read(true).write(true).open(&self.path).unwrap();
            (self.length, self.marker) = (bytes.len() as u64, marker.len() as u64);
        }
    }

    fn rest(log: &mut LogFile) -> String {
        let mut all = Vec::new();
        while let Some(piece) = log.next(7).unwrap() {
            all.extend(piece);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn a_follower_loses_nothing_by_a_cut_and_nothing_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.log");
        let mut follower = LogFile::new(path.clone(), None, 0);
        assert_eq!(rest(&mut follower), "");
        let mut log = Log::make(path);
        log.print("head0-head1-abcdefghij");
        assert_eq!(rest(&mut follower), "head0-head1-abcdefghij");
        // Printed before the cut, and after it.
        log.print("klm");
        log.cut(12, 5);
        log.print("nop");
        assert_eq!(rest(&mut follower), "klmnop");
        log.print("qrstu");
        log.cut(12, 4);
        assert_eq!(rest(&mut follower), "qrstu");
        log.cut(12, 2);
        log.print("vw");
        assert_eq!(rest(&mut follower), "vw");
        // Two cuts between two looks: what only the file between them had is gone, and that is told.
        log.print("0123456789");
        log.cut(12, 8);
        log.print("ABCDEFGHIJ");
        log.cut(12, 3);
        log.print("xyz");
        assert_eq!(rest(&mut follower), "0123456789\n[midwatch: 40 bytes dropped]\nHIJxyz");
    }

    #[test]
    fn a_log_that_was_removed_is_followed_from_the_beginning_of_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.log");
        let mut log = Log::make(path.clone());
        log.print("y\ny\ny\n");
        let mut follower = LogFile::new(path.clone(), File::open(&path).ok(), 2);
        assert_eq!(rest(&mut follower), "y\ny\n");
        log.print("last\n");
        fs::remove_file(&path).unwrap();
        assert_eq!(rest(&mut follower), "last\n");
        // The same text as before, which is no proof of a cut.
        let mut log = Log::make(path.clone());
        log.print("y\n");
        assert_eq!(rest(&mut follower), "y\n");
        fs::remove_file(&path).unwrap();
        let mut log = Log::make(path);
        log.print("other");
        assert_eq!(rest(&mut follower), "other");
    }
}
