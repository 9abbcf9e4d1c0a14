//! `repair`: says what a rebuilt store would hold, then puts it in the place of the damaged one.

use super::failure::{DONE, Failure, note};
use super::place::Store;
use super::verify::{error_json, things};
use clap::ValueEnum;
use midwatch::engine::repair::{Diagnosis, Fault, Method, Outcome, Plan, Span, diagnose};
use midwatch::journal::repair::{install, is_pending};
use midwatch::journal::{DirLock, JournalError, Report, TailClass};
use midwatch::kernel::ids::TaskId;
use midwatch::units::{bytes, count};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// What a disk answers where it can't be read.
const EIO: i32 = rustix::io::Errno::IO.raw_os_error();

/// Ids and spans shown on one line; JSON has them all.
const SHOWN_MAX: usize = 12;

/// What becomes of the whole records behind the first hole.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum By {
    /// They are set aside: the store goes back to a state that it once had
    Cut,
    /// Those that can still follow are applied, the others are set aside and named
    Salvage,
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) by: By,
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
}

/// Repairs the store, or says what a repair would do; the exit code.
pub(crate) fn run(store: &Store, wanted: Wanted, out: &mut impl Write) -> Result<u8, Failure> {
    let refused = |error: JournalError| refusal(store, &error);
    if !store.holds_anything() {
        store.check_there(&Report::default())?; // no lock file where there is no store
    }
    if !wanted.dry_run {
        store.check_owner()?;
    }
    let lock = if wanted.dry_run { DirLock::probe } else { DirLock::acquire };
    let _lock = lock(&store.path).map_err(refused)?;
    if is_pending(&store.disk).map_err(refused)? {
        return finish(store, wanted, out);
    }
    let method = match wanted.by {
        By::Cut => Method::Cut,
        By::Salvage => Method::Salvage,
    };
    match diagnose(&store.disk, method).map_err(refused)? {
        Diagnosis::Healthy(report) => healthy(store, &report, wanted, out),
        Diagnosis::Plan(plan) => repair(store, &plan, wanted, out),
    }
}

/// A refusal with what to do before the next try.
fn refusal(store: &Store, error: &JournalError) -> Failure {
    let failure = store.refusal(error);
    if matches!(is_pending(&store.disk), Ok(true)) {
        let failure = failure.without_help();
        return failure
            .with_help(
                "Some files are in their new place already, and none is lost: mend the cause",
            )
            .with_help(format!("and run `midwatch-journal repair{}` again", store.argument));
    }
    match error {
        // EIO, and not, say, a directory of somebody else.
        JournalError::Io { source, .. } if source.raw_os_error() == Some(EIO) => failure
            .with_help("Nothing was changed. A disk that can't be read is not repaired: copy what")
            .with_help("can be read to a good one (ddrescue) and repair the copy"),
        _ => failure,
    }
}

fn healthy(
    store: &Store,
    report: &Report,
    wanted: Wanted,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    store.check_there(report)?;
    if wanted.json {
        writeln!(out, "{}", done_json(store, "healthy", &Value::Null))?;
        return Ok(DONE);
    }
    writeln!(out, "nothing to repair: the daemon starts on this store")?;
    for bad in report.snapshots.iter().filter(|snapshot| snapshot.fault.is_some()) {
        note(format!("{} is bad; the next start sets it aside and does without it", bad.file));
    }
    Ok(DONE)
}

/// Goes on with a repair that was interrupted.
fn finish(store: &Store, wanted: Wanted, out: &mut impl Write) -> Result<u8, Failure> {
    let verdict = if wanted.dry_run { "interrupted" } else { "finished" };
    if !wanted.dry_run {
        install(&store.disk).map_err(|error| refusal(store, &error))?;
    }
    if wanted.json {
        writeln!(out, "{}", done_json(store, verdict, &Value::Null))?;
    } else if wanted.dry_run {
        writeln!(out, "a repair was interrupted: its new store is ready and not yet in its place")?;
        writeln!(out, "To finish it: midwatch-journal repair{}", store.argument)?;
    } else {
        writeln!(out, "the interrupted repair is finished; the old files are in quarantine/")?;
    }
    Ok(DONE)
}

fn repair(store: &Store, plan: &Plan, wanted: Wanted, out: &mut impl Write) -> Result<u8, Failure> {
    if !wanted.json {
        print(store, plan, out)?;
        out.flush()?; // the plan is read before anything is moved
    }
    if wanted.dry_run {
        if wanted.json {
            writeln!(out, "{}", plan_json(store, plan, "planned", None))?;
        } else {
            let by = if plan.method == Method::Salvage { " --method salvage" } else { "" };
            let dir = &store.argument;
            let short = free(store).is_some_and(|free| free < plan.needed);
            let how = if short { "Make room, then" } else { "To do it" };
            writeln!(out, "Nothing was changed. {how}: midwatch-journal repair{dir}{by}")?;
        }
        return Ok(DONE);
    }
    let done = plan.carry_out(&store.disk, rand::random());
    let aside = done.map_err(|error| refusal(store, &error))?;
    if wanted.json {
        writeln!(out, "{}", plan_json(store, plan, "repaired", Some(&aside)))?;
    } else {
        writeln!(out, "done: the new store was read back and is in its place;")?;
        writeln!(out, "every file of the old one is in {aside}/")?;
    }
    Ok(DONE)
}

fn print(store: &Store, plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "damaged: {}", fault_words(&plan.fault))?;
    for file in &plan.unusable {
        writeln!(out, "  unusable   {}: {}", file.file, file.why)?;
    }
    writeln!(out, "a repair would")?;
    print_result(plan, out)?;
    print_losses(plan, out)?;
    let free = free(store).map_or_else(String::new, |free| format!("; {} are free", bytes(free)));
    writeln!(out, "  move       every file of the old store to quarantine/; none is deleted")?;
    writeln!(out, "  need       {} of free space{free}", bytes(plan.needed))?;
    print_advice(store, plan, out)
}

/// Free space, as far as the file system tells; the repair itself asks again, and stops.
fn free(store: &Store) -> Option<u64> {
    use midwatch::journal::disk::Disk as _;
    store.disk.free_space().ok()
}

fn print_result(plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    let Outcome { state, applied, .. } = &plan.outcome;
    let base = match plan.base {
        Some(seq) => format!("the snapshot at {seq}"),
        None => "the journal's beginning".to_owned(),
    };
    let behind = things(*applied, "record");
    let way = match plan.method {
        Method::Cut => "behind it, up to the first hole",
        Method::Salvage => "behind it that can follow",
    };
    let tasks = things(state.task_count() as u64, "task");
    let workers = things(state.workers().count() as u64, "worker");
    writeln!(out, "  build on   {base}, and {behind} {way}")?;
    writeln!(out, "  hold       {tasks}, {workers}")?;
    let (seq, task) = (plan.next_seq, plan.next_task);
    writeln!(
        out,
        "  go on      with sequence {seq} and task {task}, so that no number comes twice"
    )?;
    writeln!(out, "  digest     {}", plan.digest)
}

fn print_losses(plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    let Outcome { aside, aside_count, lost, older, .. } = &plan.outcome;
    if plan.loses_nothing() {
        return writeln!(out, "  lose       nothing: what is damaged is not needed");
    }
    if !plan.unreadable.is_empty() {
        writeln!(
            out,
            "  miss       sequence {}: no whole record is left",
            spans(&plan.unreadable)
        )?;
    }
    if let Some(seq) = plan.end_unknown {
        writeln!(
            out,
            "  miss       from sequence {seq} on whatever there was: the newest segment"
        )?;
        writeln!(out, "             can't be read, and nothing says how much it held")?;
    }
    if *aside_count != 0 {
        let records = things(*aside_count, "whole record");
        writeln!(out, "  set aside  {records}, sequence {}", spans(aside))?;
    }
    for skipped in plan.skipped.iter().take(SHOWN_MAX) {
        writeln!(out, "             {}: {}", skipped.seq, skipped.why)?;
    }
    if SHOWN_MAX < plan.skipped.len() {
        let more = plan.skipped.len() - SHOWN_MAX;
        writeln!(out, "             and {more} more; --json has them all")?;
    }
    if !lost.is_empty() {
        writeln!(out, "  lose       {}", tasks(lost, ""))?;
    }
    if !plan.nameless.is_empty() {
        let ids = spans(&plan.nameless);
        writeln!(out, "  lose       what tasks {ids} were: nothing whole speaks of them")?;
    }
    if !older.is_empty() {
        writeln!(out, "  take back  {}", tasks(older, " to an older state"))?;
    }
    if !plan.unreadable.is_empty() || plan.end_unknown.is_some() {
        let open = plan.outcome.state.tasks().filter(|task| !task.status.is_terminal()).count();
        let open = things(open as u64, "task");
        writeln!(
            out,
            "             what is missing may have been about any task; {open} that had"
        )?;
        writeln!(out, "             not ended then may have gone further, and may run again")?;
    }
    Ok(())
}

fn print_advice(store: &Store, plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    if plan.loses_nothing() {
        return Ok(());
    }
    if plan.salvageable != 0 {
        let records = things(plan.salvageable, "record");
        let dir = &store.argument;
        writeln!(out, "The other method would keep {records} more; its plan:")?;
        writeln!(out, "  midwatch-journal repair{dir} --method salvage --dry-run")?;
    }
    writeln!(
        out,
        "Stop all workers before the daemon starts again: one of them may still run what"
    )?;
    writeln!(out, "the new store does not know of")
}

fn fault_words(fault: &Fault) -> String {
    match fault {
        Fault::Refused(error) => fault_line(error),
        Fault::SuspiciousEnd(TailClass::Suspicious { file, offset, what, .. }) => {
            format!("{file}, byte {offset}: the last write is there in full, yet {what}")
        }
        Fault::SuspiciousEnd(_) => "the end of the journal is suspicious".to_owned(),
    }
}

/// What is wrong and where, on one line.
fn fault_line(error: &JournalError) -> String {
    let line = error.headline();
    let line = line.strip_prefix("damaged journal: ").unwrap_or(&line);
    match error {
        JournalError::Damage(damage) => format!("{line}: {}", damage.what),
        JournalError::Refused { text, .. } => format!("{line}: {text}"),
        _ => line.to_owned(),
    }
}

/// Sequences or ids as a person writes them.
fn spans(spans: &[Span]) -> String {
    let shown = spans.iter().take(SHOWN_MAX).map(|span| match span.count() {
        1 => span.first.to_string(),
        _ => format!("{} to {}", span.first, span.last),
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if SHOWN_MAX < spans.len() {
        text += &format!(" and {} more", count((spans.len() - SHOWN_MAX) as u64));
    }
    text
}

fn tasks(ids: &BTreeSet<TaskId>, what: &str) -> String {
    let shown: Vec<_> = ids.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let mut text = things(ids.len() as u64, "task");
    text += &format!("{what}: {}", shown.join(", "));
    if SHOWN_MAX < ids.len() {
        text += " …; --json has them all";
    }
    text
}

fn done_json(store: &Store, verdict: &str, plan: &Value) -> Value {
    json!({
        "data_dir": store.path.display().to_string(),
        "verdict": verdict,
        "plan": plan,
    })
}

fn plan_json(store: &Store, plan: &Plan, verdict: &str, aside: Option<&str>) -> Value {
    let Outcome { state, applied, aside: set_aside, aside_count, lost, older } = &plan.outcome;
    let fault = match &plan.fault {
        Fault::Refused(error) => error_json(error),
        Fault::SuspiciousEnd(_) => json!({"message": fault_words(&plan.fault)}),
    };
    let unusable = plan.unusable.iter().map(|bad| json!({"file": bad.file, "why": bad.why}));
    let skipped = plan.skipped.iter().map(|skipped| {
        json!({
            "seq": skipped.seq,
            "event": skipped.event,
            "task": skipped.task.map(|id| id.0),
            "why": skipped.why,
        })
    });
    let ids = |ids: &BTreeSet<TaskId>| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    let plan = json!({
            "method": if plan.method == Method::Salvage { "salvage" } else { "cut" },
            "fault": fault,
            "unusable": unusable.collect::<Vec<_>>(),
            "base": plan.base,
            "records": applied,
            "tasks": state.task_count(),
            "workers": state.workers().count(),
            "digest": plan.digest,
            "next_seq": plan.next_seq,
            "next_task": plan.next_task.0,
            "missing": spans_json(&plan.unreadable),
            "end_unknown_from": plan.end_unknown,
            "set_aside": {"records": aside_count, "sequences": spans_json(set_aside)},
            "skipped": skipped.collect::<Vec<_>>(),
            "tasks_lost": ids(lost),
            "tasks_without_trace": spans_json(&plan.nameless),
            "tasks_older": ids(older),
            "salvage_keeps_more": plan.salvageable,
            "bytes_needed": plan.needed,
            "quarantine": aside,
    });
    done_json(store, verdict, &plan)
}

fn spans_json(spans: &[Span]) -> Value {
    spans.iter().map(|span| json!([span.first, span.last])).collect()
}
