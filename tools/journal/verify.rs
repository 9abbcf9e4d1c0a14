//! `verify`: is everything that was written still there, whole, and lawful?

use super::check::{Checked, check};
use super::failure::{Failure, note};
use super::place::Store;
use midwatch::engine::{digest, hex};
use midwatch::journal::segment::place;
use midwatch::journal::{Damage, JournalError, Report, SnapshotFile, TailClass};
use midwatch::units::{bytes, count};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Checks the store and says what came of it; the exit code.
pub(crate) fn run(store: &Store, as_json: bool, out: &mut impl Write) -> Result<u8, Failure> {
    let checked = match store.read(check) {
        Ok(checked) => checked,
        Err(error) if as_json => {
            writeln!(out, "{}", refusal_json(store, &error))?;
            return Ok(error.exit_code());
        }
        Err(error) => return Err(store.refusal(&error)),
    };
    store.check_there(&checked.report)?;
    if as_json {
        writeln!(out, "{}", checked_json(store, &checked))?;
    } else {
        print(store, &checked, out)?;
    }
    Ok(checked.report.exit_code())
}

/// The verdict in a word.
fn verdict(report: &Report) -> &'static str {
    match report.tail {
        _ if report.exit_code() != 0 => "suspicious",
        TailClass::Torn { .. } => "torn",
        TailClass::End | TailClass::Suspicious { .. } => "good",
    }
}

fn print(store: &Store, checked: &Checked, out: &mut impl Write) -> io::Result<()> {
    let Checked { report, state, skipped } = checked;
    match verdict(report) {
        "suspicious" => writeln!(out, "SUSPICIOUS: all but what is named below is whole")?,
        _ => writeln!(out, "good: every record is whole and follows from those before it")?,
    }
    print_records(report, out)?;
    let good = report.snapshots.iter().filter(|snapshot| snapshot.fault.is_none());
    let seqs: Vec<_> = good.map(|snapshot| format!("at {}", snapshot.seq)).collect();
    let seqs = if seqs.is_empty() { "none".to_owned() } else { seqs.join(", ") };
    writeln!(out, "  snapshots  {seqs}")?;
    let tasks = things(state.task_count() as u64, "task");
    let workers = things(state.workers().count() as u64, "worker");
    writeln!(out, "  state      {tasks}, {workers}")?;
    writeln!(out, "  digest     {}", digest(&state.image()))?;
    if *skipped != 0 {
        let records = things(*skipped, "record");
        writeln!(
            out,
            "  skipped    {records} that only a newer midwatch can read, and may be skipped"
        )?;
    }
    print_tail(store, report, out)?;
    for SnapshotFile { file, fault, .. } in &report.snapshots {
        if let Some(fault) = fault {
            writeln!(out, "  bad        {file}: {fault}")?;
            writeln!(out, "             the next start sets it aside and does without it")?;
        }
    }
    report.notes.iter().for_each(note);
    Ok(())
}

/// The line that says which records are held.
pub(crate) fn print_records(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let Report { first_seq, next_seq, records, frames, segments, .. } = report;
    let range = match records {
        0 => "none yet".to_owned(),
        _ => format!("{first_seq} to {}", next_seq.saturating_sub(1)),
    };
    let (held, frames) = (count(*records), things(*frames, "frame"));
    let (segments, size) = (things(*segments, "segment"), bytes(report.bytes));
    writeln!(out, "  records    {range}: {held} in {frames}, {segments}, {size}")
}

/// A number and what it counts.
pub(crate) fn things(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// The lines that say how the journal ends.
pub(crate) fn print_tail(store: &Store, report: &Report, out: &mut impl Write) -> io::Result<()> {
    match &report.tail {
        TailClass::End if report.clean_close => writeln!(out, "  end        closed by its writer"),
        TailClass::End => writeln!(out, "  end        whole; its writer runs, or was killed"),
        TailClass::Torn { file, offset, bytes, .. } => {
            writeln!(out, "  end        torn: {file}, byte {offset}, {bytes} bytes")?;
            writeln!(
                out,
                "             of a write that a crash cut short before it was answered;"
            )?;
            writeln!(out, "             the next start disregards them")
        }
        TailClass::Suspicious { file, offset, bytes, what, .. } => {
            writeln!(out, "  end        suspicious: {file}, byte {offset}, {bytes} bytes")?;
            writeln!(out, "             the last write is there in full, yet {what}")?;
            writeln!(
                out,
                "             the next start sets them aside in quarantine/ and goes on,"
            )?;
            writeln!(out, "             unless on_suspicious_tail = \"halt\"")?;
            let (dir, at) = (&store.argument, place(file, *offset));
            writeln!(out, "  To look: midwatch-journal inspect{dir} --at {at}")
        }
    }
}

fn checked_json(store: &Store, checked: &Checked) -> Value {
    let Checked { report, state, skipped } = checked;
    json!({
        "data_dir": store.path.display().to_string(),
        "verdict": verdict(report),
        "exit": report.exit_code(),
        "report": report_json(report),
        "skipped": skipped,
        "state": {
            "tasks": state.task_count(),
            "workers": state.workers().count(),
            "digest": digest(&state.image()),
        },
        "error": null,
    })
}

fn refusal_json(store: &Store, error: &JournalError) -> Value {
    let exit = error.exit_code();
    json!({
        "data_dir": store.path.display().to_string(),
        "verdict": if exit == super::failure::DAMAGED { "damaged" } else { "refused" },
        "exit": exit,
        "report": null,
        "state": null,
        "error": error_json(error),
    })
}

/// A refusal, for programs.
pub(crate) fn error_json(error: &JournalError) -> Value {
    let at = |file: &str, offset: u64, seq: u64, what: &str| json!({"file": file, "offset": offset, "seq": seq, "what": what});
    let more = match error {
        JournalError::Damage(damage) | JournalError::Suspicious(damage) => {
            let Damage { file, offset, seq, what, before, after, bytes } = &**damage;
            let around = json!({
                "records_before": before,
                "records_after": after,
                "bytes_after": bytes,
            });
            joined(at(file, *offset, *seq, what), around)
        }
        JournalError::Refused { file, offset, seq, text } => at(file, *offset, *seq, text),
        JournalError::Missing { shown_by, what, first_seq, last_seq } => json!({
            "file": shown_by,
            "what": what,
            "first_missing": first_seq,
            "last_missing": last_seq,
        }),
        JournalError::Foreign { file } | JournalError::Newer { file, .. } => json!({"file": file}),
        _ => Value::Null,
    };
    joined(json!({"code": error.code(), "message": error.headline()}), more)
}

/// Two objects as one.
fn joined(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

/// What a scan found, for programs.
pub(crate) fn report_json(report: &Report) -> Value {
    let Report {
        store,
        segments,
        bytes,
        frames,
        records,
        record_bytes,
        first_seq,
        next_seq,
        floor,
        snapshots,
        tail,
        clean_close,
        notes,
    } = report;
    json!({
        "store": store.as_ref().map(|store| hex(store)),
        "segments": segments,
        "bytes": bytes,
        "frames": frames,
        "records": records,
        "record_bytes": record_bytes,
        "first_seq": first_seq,
        "next_seq": next_seq,
        "floor": floor,
        "snapshots": snapshots.iter().map(snapshot_json).collect::<Vec<_>>(),
        "tail": tail_json(tail),
        "clean_close": clean_close,
        "notes": notes,
    })
}

fn snapshot_json(snapshot: &SnapshotFile) -> Value {
    let SnapshotFile { seq, file, records, bytes, fault } = snapshot;
    json!({"seq": seq, "file": file, "records": records, "bytes": bytes, "fault": fault})
}

fn tail_json(tail: &TailClass) -> Value {
    match tail {
        TailClass::End => json!({"class": "end"}),
        TailClass::Torn { file, offset, bytes, frames_after } => json!({
            "class": "torn",
            "file": file,
            "offset": offset,
            "bytes": bytes,
            "frames_after": frames_after,
        }),
        TailClass::Suspicious { file, offset, bytes, quarantined: _, what } => json!({
            "class": "suspicious",
            "file": file,
            "offset": offset,
            "bytes": bytes,
            "what": what,
        }),
    }
}
