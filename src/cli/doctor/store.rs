//! The journal of a daemon that does not run: read as it is, and left as it is.

use super::Patient;
use super::finding::Finding;
use crate::journal::{DirLock, JournalError, RealDisk, Report, TailClass, scan};
use crate::units::{bytes, count};
use std::fs;
use std::path::Path;

/// A journal larger than this is left to the journal tool.
const BYTES_MAX: u64 = 256 << 20;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    if let Ok(status) = &patient.status {
        let size = bytes(status.journal_bytes);
        return vec![Finding::ok(format!("in the daemon's hands, {size}"))];
    }
    let Some(data_dir) = &patient.data_dir else {
        return vec![Finding::note("not looked at", "there is no place for the data")];
    };
    vec![look(data_dir)]
}

fn look(data_dir: &Path) -> Finding {
    let place = data_dir.display();
    if !data_dir.join("store").exists() {
        return Finding::ok("there is none yet");
    }
    let verify = format!("midwatch-journal verify {place}");
    match DirLock::probe(data_dir) {
        Err(JournalError::InUse { pid }) => {
            let who = pid.map_or_else(|| "somebody".to_owned(), |pid| format!("pid {pid}"));
            let why = "an engine that starts, or that does not answer, has it";
            let ps = pid.map(|pid| format!("ps -o pid,stat,etime,args -p {pid}"));
            let ps = ps.unwrap_or_else(|| format!("fuser -v {place}/midwatch.lock"));
            return Finding::warning(format!("{who} holds {place}"), why, &[&ps]);
        }
        Err(error) => return Finding::note(error.to_string(), "run doctor as the daemon's user"),
        Ok(_free) => {}
    }
    if BYTES_MAX < size(&data_dir.join("journal")) {
        return Finding::note("too large for a quick look", &format!("`{verify}` reads all of it"));
    }
    let read = RealDisk::open(data_dir)
        .map_err(|error| error.to_string())
        .and_then(|disk| scan(&disk, &mut ()).map_err(|error| error.to_string()));
    match read {
        Ok(report) => tell(&report, &verify),
        Err(why) => Finding::problem(
            why,
            "a start is refused, and changes nothing",
            &[&verify, &format!("midwatch-journal repair --dry-run {place}")],
        ),
    }
}

fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

pub(super) fn tell(report: &Report, verify: &str) -> Finding {
    let held = format!("{} records in {}", count(report.records), bytes(report.bytes));
    match &report.tail {
        TailClass::End => Finding::ok(format!("{held}, whole to its end")),
        TailClass::Torn { bytes, .. } => Finding::note(
            format!("{held}, and {bytes} bytes of a write that a crash cut short"),
            "they were never acknowledged; the next start passes over them",
        ),
        TailClass::Suspicious { file, offset, what, .. } => Finding::problem(
            format!("the last record of {file} at byte {offset} is whole but wrong: {what}"),
            "the next start sets it aside, or refuses, as `journal.on_suspicious_tail` says",
            &[verify],
        ),
    }
}
