//! `midwatch import`: many submissions, a line each, sent in pieces. A bad line is reported with
//! its number and stops no other.

use super::connection::{Request, lost};
use super::failure::{Failure, exit};
use super::session::{Format, Session};
use super::text::tame;
use crate::api::BulkLine;
use crate::limits::{BODY_BYTES_MAX, BULK_BODY_BYTES_MAX};
use crate::units;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// What to import.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: String,
}

/// Lines sent in one request: enough that the daemon shares a sync among many, few enough that
/// progress is seen.
const LINES_PER_PIECE: usize = 1000;

/// Bytes sent in one request, unless a single line has more.
const PIECE_BYTES: usize = 8 << 20;
const _: () = assert!(PIECE_BYTES + BODY_BYTES_MAX < BULK_BODY_BYTES_MAX);

/// What became of the lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Tally {
    /// Lines that were answered, or passed over because they are empty.
    lines: u64,
    /// Tasks that are new.
    accepted: u64,
    /// Tasks that were there already under their keys.
    existed: u64,
    /// Lines that were refused.
    refused: u64,
    /// The exit code so far.
    #[serde(skip)]
    worst: u8,
}

/// The lines as they are read.
struct Source {
    input: Box<dyn BufRead>,
    /// Bytes in all, where known.
    length: Option<u64>,
    bytes: u64,
    number: u64,
}

/// Lines on their way.
#[derive(Default)]
struct Piece {
    body: Vec<u8>,
    /// The number of each line in the whole import.
    numbers: Vec<u64>,
    /// Lines that are not sent, for they are longer than any that is accepted.
    too_long: Vec<u64>,
}

/// Imports them.
pub(crate) fn run(args: &Args, session: &mut Session<'_>) -> Result<u8, Failure> {
    let mut source = if args.file == "-" {
        let input = std::mem::replace(&mut session.input, Box::new(io::empty()));
        Source { input, length: None, bytes: 0, number: 0 }
    } else {
        let file = File::open(&args.file).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (length, file) =
            file.map_err(|error| Failure::usage(format!("cannot read {}: {error}", args.file)))?;
        let input = Box::new(BufReader::new(file));
        Source { input, length: Some(length), bytes: 0, number: 0 }
    };
    let mut tally = Tally::default();
    let done = import(&mut source, &mut tally, session);
    draw("", session);
    let said = summary(&tally);
    if let Err(failure) = done {
        return Err(failure.with_help(format!("{said}; go on from line {}", tally.lines + 1)));
    }
    match session.format {
        Format::Table => session.print(&format!("{said}\n"))?,
        Format::Json => session.json(&tally)?,
        Format::Ndjson => session.note(&said),
    }
    Ok(tally.worst)
}

fn import(
    source: &mut Source,
    tally: &mut Tally,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    loop {
        let piece = source.piece().map_err(|error| {
            Failure::usage(format!("cannot read on after line {}: {error}", source.number))
        })?;
        for number in &piece.too_long {
            tally.worst = tally.worst.max(exit::USAGE);
            tally.refused += 1;
            bad_line(*number, "it is longer than any line that is accepted", session);
        }
        if !piece.numbers.is_empty() {
            send(piece, tally, session)?;
        } else if piece.too_long.is_empty() {
            tally.lines = source.number;
            return Ok(());
        }
        tally.lines = source.number;
        draw(&progress(source, tally), session);
    }
}

impl Source {
    /// The next lines; none at the end.
    fn piece(&mut self) -> io::Result<Piece> {
        let mut piece = Piece::default();
        let mut line = Vec::new();
        let bound = BODY_BYTES_MAX as u64 + 1;
        while piece.numbers.len() < LINES_PER_PIECE && piece.body.len() < PIECE_BYTES {
            line.clear();
            let read = (&mut *self.input).take(bound).read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            self.number += 1;
            self.bytes += read as u64;
            if line.last() != Some(&b'\n') {
                self.bytes += self.input.skip_until(b'\n')? as u64;
            }
            let text = line.trim_ascii();
            if BODY_BYTES_MAX < text.len() {
                piece.too_long.push(self.number);
            } else if !text.is_empty() {
                piece.body.extend_from_slice(text);
                piece.body.push(b'\n');
                piece.numbers.push(self.number);
            }
        }
        Ok(piece)
    }
}

/// Sends some lines and reads the answer to each.
fn send(mut piece: Piece, tally: &mut Tally, session: &mut Session<'_>) -> Result<(), Failure> {
    let lines = std::mem::take(&mut piece.body);
    let request = Request::Lines { path: "/v1/tasks".to_owned(), lines };
    // The session is needed below, so the daemon is borrowed apart from it.
    let api = session.api;
    let answer = api.send(&request)?;
    let mut answered = 0;
    for line in answer.lines() {
        let line = line.map_err(|error| lost(&error))?;
        let answer: BulkLine = serde_json::from_str(&line).map_err(|error| {
            Failure::new(exit::UNKNOWN, format!("an answer is not understood: {error}"))
        })?;
        let index = answer.line.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let Some(number) = index.and_then(|index| piece.numbers.get(index)) else {
            let unasked = format!("there is an answer to line {}, which was not sent", answer.line);
            return Err(Failure::new(exit::UNKNOWN, unasked));
        };
        answered += 1;
        take(&BulkLine { line: *number, ..answer }, tally, session)?;
    }
    if answered < piece.numbers.len() {
        return Err(lost(&io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

fn take(answer: &BulkLine, tally: &mut Tally, session: &mut Session<'_>) -> Result<(), Failure> {
    tally.lines = answer.line;
    match &answer.error {
        Some(problem) => {
            tally.refused += 1;
            // A line that can never be accepted is the importer's slip, whatever the code.
            let code = problem.code.exit();
            tally.worst =
                tally.worst.max(if code < exit::UNREACHABLE { exit::USAGE } else { code });
            bad_line(answer.line, &problem.detail, session);
        }
        None if answer.existed => tally.existed += 1,
        None => tally.accepted += 1,
    }
    match session.format {
        Format::Ndjson => session.json(answer),
        Format::Table | Format::Json => Ok(()),
    }
}

fn bad_line(number: u64, why: &str, session: &mut Session<'_>) {
    draw("", session);
    session.say(&format!("line {number}: {}", tame(why)));
}

fn summary(tally: &Tally) -> String {
    let Tally { accepted, existed, refused, .. } = tally;
    let tasks = if *accepted == 1 { "task" } else { "tasks" };
    let mut text = format!("{} {tasks} accepted", units::count(*accepted));
    if *existed != 0 {
        text += &format!(", {} known already", units::count(*existed));
    }
    if *refused != 0 {
        text += &format!(", {} refused", units::count(*refused));
    }
    text
}

/// `[#####-----]  50 %  12,000 lines`, without the bar where the length is not known.
fn progress(source: &Source, tally: &Tally) -> String {
    let lines = format!("{} lines", units::count(tally.lines));
    let Some(length) = source.length.filter(|length| *length != 0) else { return lines };
    let percent = usize::try_from(source.bytes.min(length) * 100 / length).unwrap_or_default();
    let bar = "#".repeat(percent / 5) + &"-".repeat(20 - percent / 5);
    format!("[{bar}]  {percent:>3} %  {lines}")
}

/// Draws over the line of progress, where somebody watches.
fn draw(text: &str, session: &mut Session<'_>) {
    if session.lively && !session.quiet {
        let drawn = write!(session.err, "\r\u{1b}[K{text}").and_then(|()| session.err.flush());
        drop(drawn);
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::samples::{self, Played};
    use expect_test::expect;

    fn import(words: &str, input: &str, answers: &[(&str, &str)]) -> Played {
        let answers: Vec<_> =
            answers.iter().map(|(asked, answer)| (*asked, (*answer).to_owned())).collect();
        let words: Vec<_> = words.split(' ').collect();
        samples::play_input(&words, input.as_bytes(), &answers)
    }

    const INPUT: &str = "{\"type\":\"a\"}\n\n  {\"type\":\"a\",}\r\n{\"type\":\"b\"}";
    const ASKED: &str = "POST /v1/tasks {\"type\":\"a\"}\n{\"type\":\"a\",}\n{\"type\":\"b\"}\n";
    const ANSWER: &str = "{\"line\":1,\"id\":7,\"existed\":false}\n\
        {\"line\":2,\"existed\":false,\"error\":{\"code\":\"invalid_request\",\"title\":\"t\",\
        \"status\":400,\"detail\":\"trailing comma at column 12\"}}\n\
        {\"line\":3,\"id\":8,\"existed\":true}\n";

    #[test]
    fn a_bad_line_is_named_by_its_number_in_the_file_and_stops_no_other() {
        let played = import("import", INPUT, &[(ASKED, ANSWER)]);
        expect![[r#"
            exit 2
            --- stdout
            1 task accepted, 1 known already, 1 refused
            --- stderr
            line 3: trailing comma at column 12
        "#]]
        .assert_eq(&played.to_string());
    }

    #[test]
    fn programs_get_an_answer_a_line_or_the_tally() {
        let played = import("import - --format ndjson", INPUT, &[(ASKED, ANSWER)]);
        expect![[r#"
            {"line":1,"id":7,"existed":false}
            {"line":3,"existed":false,"error":{"code":"invalid_request","title":"t","status":400,"detail":"trailing comma at column 12"}}
            {"line":4,"id":8,"existed":true}
        "#]].assert_eq(&played.out);
        let played = import("import --json", INPUT, &[(ASKED, ANSWER)]);
        expect![[r#"
            {"lines":4,"accepted":1,"existed":1,"refused":1}
        "#]]
        .assert_eq(&played.out);
    }

    #[test]
    fn an_answer_that_breaks_off_tells_where_to_go_on() {
        let short = ANSWER.lines().next().unwrap();
        let played = import("import", INPUT, &[(ASKED, short)]);
        expect![[r#"
            exit 8
            --- stdout
            --- stderr
            error: the daemon did not answer to the end: unexpected end of file
              look with `midwatch list` what was done
              1 task accepted; go on from line 2
        "#]]
        .assert_eq(&played.to_string());
    }

    #[test]
    fn many_lines_go_in_pieces_of_a_thousand() {
        let line = "{\"type\":\"a\"}\n";
        let answer = |lines: u64| {
            let line = |line| format!("{{\"line\":{line},\"id\":{line},\"existed\":false}}\n");
            (1..=lines).map(line).collect::<String>()
        };
        let asked = |lines| format!("POST /v1/tasks {}", line.repeat(lines));
        let (full, rest) = (asked(1000), asked(1));
        let answers = [(full.as_str(), &*answer(1000)), (&rest, &answer(1))];
        let played = import("import", &line.repeat(1001), &answers);
        assert_eq!(played.out, "1,001 tasks accepted\n");
        assert_eq!(played.code, 0);
        assert_eq!(import("import", "", &[]).out, "0 tasks accepted\n");
    }
}
