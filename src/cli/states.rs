//! `midwatch states`: the table of transitions, as the daemon itself asks it.

use super::failure::Failure;
use super::session::{Format, Session};
use super::table::{Column, Table};
use crate::kernel::status::{EDGES, Edge, Status};
use serde_json::json;

/// How to show it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// As a drawing, in the language of Graphviz: midwatch states --dot | dot -Tsvg
    #[arg(long)]
    dot: bool,
}

/// Shows it. Needs no daemon.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let row = |edge: &Edge| {
        let reasons: Vec<_> = edge.reasons.iter().map(|reason| reason.word()).collect();
        json!({ "from": edge.from, "to": edge.to, "reasons": reasons })
    };
    match session.format {
        _ if args.dot => session.print(&dot())?,
        Format::Json => session.json(&EDGES.iter().map(row).collect::<Vec<_>>())?,
        Format::Ndjson => EDGES.iter().try_for_each(|edge| session.json(&row(edge)))?,
        Format::Table => {
            let text = table(session.view.width.unwrap_or(usize::MAX), session);
            session.print(&text)?;
        }
    }
    Ok(0)
}

/// The table: a line an edge, and the reasons that do not fit on lines below it.
fn table(width: usize, session: &Session<'_>) -> String {
    let mut table =
        Table::new(&[Column::left("FROM"), Column::left("TO"), Column::left("REASONS")]);
    // Two columns of statuses, the longest of nine letters, before the reasons.
    let room = width.saturating_sub(2 + 9 + 2 + 9 + 2);
    let mut before = None;
    for edge in EDGES {
        let from = if before == Some(edge.from) { "" } else { edge.from.word() };
        before = Some(edge.from);
        let mut lines = vec![String::new()];
        for reason in edge.reasons {
            let Some(line) = lines.last_mut() else { continue };
            if line.is_empty() {
                line.push_str(reason.word());
            } else if line.len() + 2 + reason.word().len() <= room {
                line.push_str(&format!(", {reason}"));
            } else {
                lines.push(reason.word().to_owned());
            }
        }
        for (index, line) in lines.iter().enumerate() {
            let (from, to) = if index == 0 { (from, edge.to.word()) } else { ("", "") };
            table.row(vec![from.into(), to.into(), line.into()]);
        }
    }
    for status in Status::ALL.iter().filter(|status| status.is_terminal()) {
        table.row(vec![status.word().into(), "–".into(), "ended for good".into()]);
    }
    table.render(session.view.width, session.view.paint)
}

/// The drawing.
pub(crate) fn dot() -> String {
    let mut text = String::from(
        "digraph midwatch {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n  \
         edge [fontname=\"sans-serif\", fontsize=9];\n",
    );
    for status in Status::ALL.iter().filter(|status| status.is_terminal()) {
        text += &format!("  {status} [peripheries=2];\n");
    }
    for edge in EDGES {
        let reasons: Vec<_> = edge.reasons.iter().map(|reason| reason.word()).collect();
        text += &format!("  {} -> {} [label=\"{}\"];\n", edge.from, edge.to, reasons.join("\\n"));
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::samples;
    use expect_test::expect;

    #[test]
    fn the_table_fits_eighty_columns() {
        let played = samples::play("states", &[]);
        assert!(played.out.lines().all(|line| crate::cli::text::width(line) <= 80));
        expect![[r#"
            screen
              FROM       TO         REASONS
              PENDING    RUNNING    dispatched
                         CANCELLED  user_cancel, dependency_failed, superseded
                         PAUSED     user_pause
                         FAILED     invalid_input
              RUNNING    SUCCESS    completed
                         FAILED     fatal_error
                         RETRYING   retryable_error, timeout, lease_expired
                         PAUSED     user_pause
                         CANCELLED  user_cancel
                         LOST       worker_lost, worker_crash, host_rebooted
                         PENDING    worker_shutdown, user_reset, never_started
              PAUSED     PENDING    user_resume
                         CANCELLED  user_cancel, dependency_failed, superseded
              RETRYING   RUNNING    dispatched
                         DEAD       retries_exhausted
                         CANCELLED  user_cancel, superseded
                         PAUSED     user_pause
              LOST       RUNNING    executor_returned
                         PENDING    lease_revoked, lease_expired, user_reset
                         DEAD       lost_too_often
                         CANCELLED  user_cancel
                         PAUSED     user_pause
              SUCCESS    –          ended for good
              FAILED     –          ended for good
              DEAD       –          ended for good
              CANCELLED  –          ended for good
        "#]]
        .assert_eq(&samples::screen(&played.out));
    }

    #[test]
    fn the_drawing_has_every_edge_once() {
        let drawing = dot();
        assert_eq!(drawing.matches(" -> ").count(), EDGES.len());
        assert_eq!(drawing.matches("peripheries").count(), 4);
        let played = samples::play("states --json", &[]);
        let edges: Vec<serde_json::Value> = serde_json::from_str(&played.out).unwrap();
        assert_eq!(edges.len(), EDGES.len());
        assert_eq!(samples::play("states --dot", &[]).out, drawing);
    }
}
