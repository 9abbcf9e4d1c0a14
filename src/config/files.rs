//! Files that somebody names in the config: opened and read so that nothing which happens to have
//! that name can hold anybody up or fill the memory.

use crate::units;
use rustix::fs::OFlags;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Largest file with a secret.
const SECRET_BYTES_MAX: u64 = 4 << 10;

/// Why a file was not opened.
#[derive(Debug)]
pub(super) enum Unopened {
    /// The host says no.
    Io(io::Error),
    /// A pipe, a directory, a device.
    NotAFile,
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot open it: {error}"),
            Self::NotAFile => f.write_str("it is not a file"),
        }
    }
}

/// Opens a regular file for reading. What is told of it is the open file's, not the path's.
pub(super) fn open(path: &Path) -> Result<(File, Metadata), Unopened> {
    // Without NONBLOCK a pipe of that name would hold us for ever.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(nonblock).open(path);
    let file = opened.map_err(Unopened::Io)?;
    let metadata = file.metadata().map_err(Unopened::Io)?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(Unopened::NotAFile) }
}

/// The content of a file of at most so many bytes; otherwise what is in the way, in words.
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let (file, _) = open(path).map_err(|why| why.to_string())?;
    read_all(file, bytes_max)
}

/// The content of a file with a secret, of at most 4 KiB, that only its owner may use. `what`
/// names it in a refusal.
pub(crate) fn read_secret(what: &str, path: &Path) -> Result<Vec<u8>, String> {
    let about = |why: String| format!("the {what} {}: {why}", path.display());
    let (file, metadata) = open(path).map_err(|why| about(why.to_string()))?;
    if metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(about(format!(
            "others than its owner may use it (mode {mode:04o})\n  chmod 600 {}",
            path.display()
        )));
    }
    read_all(file, SECRET_BYTES_MAX).map_err(about)
}

fn read_all(file: File, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot read it: {error}"))?;
    if bytes_max < bytes.len() as u64 {
        return Err(format!("it is larger than {}", units::bytes(bytes_max)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's file need not last")]
    fn what_is_no_file_or_too_large_or_open_to_others_is_refused_and_a_pipe_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        for path in [pipe.as_path(), dir.path()] {
            assert_eq!(read(path, 9).unwrap_err(), "it is not a file");
            assert!(read_secret("secret", path).unwrap_err().ends_with(": it is not a file"));
        }
        let file = dir.path().join("file");
        assert!(read(&file, 9).unwrap_err().starts_with("cannot open it: "));
        std::fs::write(&file, [b'x'; 1025]).unwrap();
        assert_eq!(read(&file, 1024).unwrap_err(), "it is larger than 1 KiB");
        assert_eq!(read(&file, 1025).unwrap().len(), 1025);
        for (mode, may) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_secret("secret", &file).is_ok(), may, "{mode:o}");
        }
    }
}
