//! The end of an attempt's log, fit for a page.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are looked at.
const BYTES_MAX: u64 = 32 << 10;

/// Lines that are shown.
const LINES_MAX: usize = 100;

/// The last lines; none where there is no log.
pub(super) fn tail(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let length = file.metadata()?.len();
    let begin = length.saturating_sub(BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(length - begin).unwrap_or(0)];
    // It may be cut in this moment; then what was read is not its end, and the next look is right.
    let read = file.read_at(&mut bytes, begin)?;
    bytes.truncate(read);
    let text = String::from_utf8_lossy(&bytes);
    let text = match text.split_once('\n') {
        Some((_, whole)) if begin != 0 => whole,
        _ => &text,
    };
    let lines: Vec<_> = plain(text).lines().map(last_state).map(str::to_owned).collect();
    Ok(Some(lines.get(lines.len().saturating_sub(LINES_MAX)..).unwrap_or_default().join("\n")))
}

/// What a terminal shows of a line that was written over and over.
fn last_state(line: &str) -> &str {
    line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default()
}

/// The text without what tells a terminal of colours and places.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            plain.push(c);
            continue;
        }
        match rest.next() {
            // A sequence ends with its first letter; a command to the window with a bell.
            Some('[') => while rest.next().is_some_and(|c| !matches!(c, '@'..='~')) {},
            Some(']') => while rest.next().is_some_and(|c| c != '\u{7}' && c != '\n') {},
            Some('(' | ')') => drop(rest.next()),
            Some(_) | None => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's file need not last")]
    fn the_end_of_a_log_is_its_last_hundred_lines_without_colours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.log");
        assert_eq!(tail(&path).unwrap(), None);
        std::fs::write(&path, b"\x1b[1;31mred\x1b[0m \xff\r\n1 %\r2 %\r\n\x1b]0;title\x07end")
            .unwrap();
        assert_eq!(tail(&path).unwrap().unwrap(), "red \u{fffd}\n2 %\nend");
        let lines: Vec<_> = (0..20_000).map(|n| format!("line {n}\n")).collect();
        std::fs::write(&path, lines.concat()).unwrap();
        let lines = tail(&path).unwrap().unwrap();
        assert_eq!(lines.lines().count(), 100);
        assert!(lines.starts_with("line 19900\n") && lines.ends_with("line 19999"));
        std::fs::write(&path, "x".repeat(100_000)).unwrap();
        assert!(tail(&path).unwrap().unwrap().len() <= 32 << 10);
    }
}
