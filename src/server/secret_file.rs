//! Files with what nobody else may know.

use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Largest such file.
const BYTES_MAX: u64 = 4 << 10;

/// The content of a file that only its owner may use. `what` names it in a refusal.
pub(super) fn read(what: &str, path: &Path) -> Result<Vec<u8>, String> {
    let about = |why: String| format!("the {what} {}: {why}", path.display());
    let io = |error: std::io::Error| about(format!("cannot read it: {error}"));
    // Without NONBLOCK a pipe of that name would hold us for ever.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        return Err(about("it is not a file".to_owned()));
    }
    if metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(about(format!(
            "others than its owner may use it (mode {mode:04o})\n  chmod 600 {}",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if BYTES_MAX < bytes.len() as u64 {
        return Err(about("it is larger than 4 KiB".to_owned()));
    }
    Ok(bytes)
}
