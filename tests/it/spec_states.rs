//! `spec/states.md` against the tables in the code, both ways.

use midwatch::kernel::status::{EDGES, Reason, Status, Stop};
use midwatch::kernel::verdict::{Destiny, Verb, Verdict, Way, destiny, verdict};
use std::fs;

/// The rows of the table below a heading, and its head.
fn table(heading: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let text = fs::read_to_string("spec/states.md").unwrap();
    let start = text.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = text[start + 1..].split("\n## ").next().unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let lines = lines.take_while(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut rows: Vec<_> = lines.map(cells).collect();
    let head = rows.remove(0);
    rows.remove(0);
    (head, rows)
}

#[test]
fn the_transitions_on_the_page_are_those_of_the_code() {
    let in_code: Vec<_> = EDGES
        .iter()
        .map(|edge| {
            let reasons: Vec<_> = edge.reasons.iter().map(|reason| reason.word()).collect();
            vec![edge.from.to_string(), edge.to.to_string(), reasons.join(", ")]
        })
        .collect();
    assert_eq!(table("Transitions").1, in_code);
}

#[test]
fn the_drawing_has_the_edges_of_the_table() {
    let text = fs::read_to_string("spec/states.md").unwrap();
    let drawing = text.split("```mermaid").nth(1).unwrap().split("```").next().unwrap();
    let drawn: Vec<_> =
        drawing.lines().map(str::trim).filter(|line| line.contains(" --> ")).collect();
    let mut expected = vec!["[*] --> PENDING: created".to_owned()];
    expected.extend(EDGES.iter().map(|edge| {
        let reasons: Vec<_> = edge.reasons.iter().map(|reason| reason.word()).collect();
        format!("{} --> {}: {}", edge.from, edge.to, reasons.join(" / "))
    }));
    let ended = Status::ALL.iter().filter(|status| status.is_terminal());
    expected.extend(ended.map(|status| format!("{status} --> [*]")));
    assert_eq!(drawn, expected);
}

#[test]
fn every_status_and_every_reason_has_its_row() {
    let (_, rows) = table("Statuses");
    let statuses: Vec<_> = rows.iter().map(|row| (&*row[0], row[2] == "for good")).collect();
    let in_code = Status::ALL.iter().map(|status| (status.word(), status.is_terminal()));
    assert_eq!(statuses, in_code.collect::<Vec<_>>());
    let (_, rows) = table("Reasons");
    let reasons: Vec<_> = rows.iter().map(|row| &*row[0]).collect();
    assert_eq!(reasons, Reason::ALL.iter().map(|reason| reason.word()).collect::<Vec<_>>());
}

#[test]
fn every_status_and_every_command_do_what_the_page_says() {
    let (head, rows) = table("Every status and every command");
    assert_eq!(head[1..], Verb::ALL.iter().map(|verb| verb.word().to_owned()).collect::<Vec<_>>());
    assert_eq!(rows.len(), Status::ALL.len());
    for (row, status) in rows.iter().zip(Status::ALL) {
        assert_eq!(row[0], status.word());
        for (cell, verb) in row[1..].iter().zip(Verb::ALL) {
            let said = match verdict(*status, *verb) {
                Verdict::Move(to, reason) => {
                    status.check_edge(to, reason).unwrap();
                    format!("→ {to}, {reason}")
                }
                Verdict::Ask(stop) => {
                    assert!(status.is_leased(), "only what is leased can be asked to stop");
                    assert_eq!(stop.word(), verb.word());
                    "asks to stop".to_owned()
                }
                Verdict::Hurry => "due at once".to_owned(),
                Verdict::Anew => {
                    assert!(status.is_terminal());
                    "new task".to_owned()
                }
                Verdict::Change => {
                    assert!(!status.is_terminal() && !status.is_leased());
                    "changed".to_owned()
                }
                Verdict::Already => "nothing".to_owned(),
                Verdict::Refuse => "refused".to_owned(),
            };
            assert_eq!(*cell, said, "{status}, {}", verb.word());
        }
    }
}

const fn way_in_words(way: Way) -> &'static str {
    match way {
        Way::Success => "it succeeds",
        Way::Retryable => "it meets an error that another run may mend",
        Way::Fatal => "it meets an error that no other run would mend",
        Way::TimedOut => "it is stopped at its timeout",
        Way::Obeyed => "it obeys a stop",
        Way::Released => "it is handed back by a worker that shuts down",
        Way::NeverStarted => "it is handed back before its start",
        Way::LeaseExpired => "its lease runs out and the executor is silent",
        Way::Lost => "its executor is lost and the lease is over",
    }
}

#[test]
fn every_stop_and_every_end_lead_where_the_page_says() {
    let (head, rows) = table("Every stop and every end of an attempt");
    let stops: Vec<_> = [None].into_iter().chain(Stop::ALL.iter().copied().map(Some)).collect();
    let words = stops.iter().map(|stop| stop.map_or("no stop", Stop::word));
    assert_eq!(head[1..], words.map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(rows.len(), Way::ALL.len());
    for (row, way) in rows.iter().zip(Way::ALL) {
        assert_eq!(row[0], way_in_words(*way));
        for (cell, stop) in row[1..].iter().zip(&stops) {
            let Destiny { to, reason, outcome } = destiny(*stop, *way);
            assert_eq!(*cell, format!("{to}, {reason}, {outcome}"), "{way:?}, {stop:?}");
            let from = if *way == Way::Lost { Status::Lost } else { Status::Running };
            from.check_edge(to, reason).unwrap();
        }
    }
}
