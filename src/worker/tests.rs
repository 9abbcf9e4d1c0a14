//! What can be shown without a process; the rest is in `tests/it/worker`.

#![expect(clippy::disallowed_methods, reason = "a test may have a thread of its own")]

use super::control::{Channel, Line, Request};
use super::handler::HandlerSpec;
use super::outcome::{Exit, Facts, Means, Memory, Word, breach, decide, shorten};
use super::output::{Job, Sink};
use super::stopping::Push::{Kill, Terminate};
use super::stopping::{Graces, Push, Stopping};
use super::task_cmd::{self, Inside, TaskCommand, TaskCommandError};
use crate::api::{StopWord, Usage};
use crate::kernel::ids::{Fence, Millis, Seq};
use crate::kernel::status::Outcome;
use crate::limits::{ERROR_TEXT_BYTES_MAX, deeper_than};
use crate::process::Limits;
use serde_json::value::RawValue;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::time::Instant;

const GRACES: Graces = Graces { cancel: Millis(30_000), kill: Millis(10_000) };

/// The signals of a stop and the seconds after its order at which each is due.
fn signals(mut stopping: Stopping, now: Instant) -> Vec<(u64, Push)> {
    let mut signals = Vec::new();
    while let Some(at) = stopping.next() {
        let push = stopping.due(at).unwrap();
        signals.push(((at - now).as_secs(), push));
    }
    signals
}

// spec: HND-020, HND-021, HND-023
#[test]
fn who_speaks_gets_both_graces_and_who_is_silent_one() {
    let now = Instant::now();
    let order = |word, spoke| signals(Stopping::order(word, spoke, now, GRACES), now);
    for word in [StopWord::Cancel, StopWord::Pause, StopWord::Timeout, StopWord::Shutdown] {
        assert_eq!(order(word, true), [(30, Terminate), (40, Kill)]);
        assert_eq!(order(word, false), [(0, Terminate), (30, Kill)]);
    }
    assert_eq!(order(StopWord::Superseded, true), [(0, Kill)]);
    assert_eq!(order(StopWord::Superseded, false), [(0, Kill)]);
}

// spec: HND-022
#[test]
fn a_later_order_never_prolongs_a_stop_and_the_weightier_word_counts() {
    let now = Instant::now();
    let later = now + Duration::from_secs(5);
    let mut stopping = Stopping::order(StopWord::Shutdown, true, now, GRACES);
    stopping.order_again(StopWord::Cancel, later);
    stopping.order_again(StopWord::Pause, later);
    assert_eq!(stopping.word(), StopWord::Cancel);
    assert_eq!(signals(stopping.clone(), now), [(30, Terminate), (40, Kill)]);
    assert_eq!(stopping.delivered(), None);
    assert_eq!(stopping.tell(), StopWord::Cancel);
    assert_eq!(stopping.delivered(), Some(StopWord::Cancel));
    stopping.order_again(StopWord::Superseded, later);
    assert_eq!(signals(stopping, now), [(5, Kill)]);
}

#[test]
fn every_way_to_end_has_its_outcome() {
    let spec = HandlerSpec {
        fatal_exit_codes: vec![64, 75],
        retryable_exit_codes: vec![0, 64, 65],
        ..HandlerSpec::default()
    };
    let plain = HandlerSpec::default();
    let error = |retryable| Word::Error { message: "m".into(), retryable };
    let decide = |exit, word: Option<&Word>, stop, spec: &HandlerSpec| {
        decide(&Facts { exit, word, stop, spec, last_line: "", breach: None }).0
    };
    let cases = [
        (Exit::Code(0), None, None, &plain, Outcome::Success),
        (Exit::Code(0), None, None, &spec, Outcome::Success),
        (Exit::Code(64), None, None, &plain, Outcome::Fatal),
        (Exit::Code(64), None, None, &spec, Outcome::Retryable),
        (Exit::Code(65), None, None, &spec, Outcome::Retryable),
        (Exit::Code(75), None, None, &plain, Outcome::Retryable),
        (Exit::Code(75), None, None, &spec, Outcome::Fatal),
        (Exit::Signal(9), None, None, &plain, Outcome::Retryable),
        (Exit::Code(0), Some(error(false)), None, &plain, Outcome::Fatal),
        (Exit::Code(64), Some(error(true)), None, &plain, Outcome::Retryable),
        (Exit::Code(0), None, Some(StopWord::Cancel), &plain, Outcome::Cancelled),
        (Exit::Code(64), None, Some(StopWord::Pause), &plain, Outcome::Paused),
        (Exit::Signal(9), None, Some(StopWord::Timeout), &plain, Outcome::TimedOut),
        (Exit::Signal(15), None, Some(StopWord::Shutdown), &plain, Outcome::Released),
        (Exit::Code(0), Some(Word::Result), Some(StopWord::Cancel), &plain, Outcome::Success),
        (Exit::Code(75), Some(Word::Result), Some(StopWord::Cancel), &plain, Outcome::Retryable),
        (Exit::Code(1), Some(error(false)), Some(StopWord::Cancel), &plain, Outcome::Cancelled),
    ];
    for (exit, word, stop, spec, outcome) in cases {
        assert_eq!(decide(exit, word.as_ref(), stop, spec), outcome, "{exit:?} {word:?} {stop:?}");
    }
}

#[test]
fn an_error_text_is_cut_between_characters() {
    let long = "é".repeat(ERROR_TEXT_BYTES_MAX);
    let short = shorten(long);
    assert!(short.len() <= ERROR_TEXT_BYTES_MAX && short.ends_with('…'));
    assert_eq!(shorten("as it is".into()), "as it is");
}

#[test]
fn brackets_count_only_outside_of_strings() {
    for (text, expected) in [
        ("1", 0),
        ("[]", 1),
        (r#"{"a":[{}]}"#, 3),
        (r#"["[[[["]"#, 1),
        (r#"["\"[[", [1]]"#, 2),
        (r#"["\\", [1]]"#, 2),
        ("]]]][", 1),
    ] {
        let depth = (0..10).find(|most| deeper_than(text.as_bytes(), *most).is_none());
        assert_eq!(depth, Some(expected), "{text}");
    }
}

// spec: HND-012
#[test]
fn lines_are_read_in_order_however_they_are_cut() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut channel = Channel::new(ours).unwrap();
        theirs.write_all(b"\n  \n{\"op\":\"progress\",\"done\":1}\n{\"op\":\"po").unwrap();
        theirs.write_all(b"ll\"}\nnonsense\n{\"op\":\"progress\",\"done\":2}").unwrap();
        drop(theirs);
        let mut seen = Vec::new();
        while let Some(Line { request, .. }) = channel.next().await.unwrap() {
            seen.push(match request {
                Ok(Request::Progress(progress)) => progress.done.to_string(),
                Ok(Request::Poll) => "poll".into(),
                Ok(other) => panic!("{other:?}"),
                Err(_) => "refused".into(),
            });
        }
        assert_eq!(seen, ["refused", "refused", "1", "poll", "refused", "2"]);
    });
}

// spec: HND-041
#[test]
fn a_log_that_takes_nothing_does_not_hold_its_handler_for_ever_and_every_byte_is_counted() {
    const PRINTED: usize = 3 << 20;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (jobs, mut stuck) = tokio::sync::mpsc::channel(1024);
    let (pipe, theirs) = std::io::pipe().unwrap();
    let handler = std::thread::spawn(move || {
        let mut theirs = theirs;
        theirs.write_all(&vec![b'x'; PRINTED]).unwrap();
    });
    runtime.block_on(Sink::new(Fence(1), jobs).pump(pipe.into(), None)).unwrap();
    handler.join().unwrap();
    let (mut kept, mut dropped) = (0, 0);
    while let Ok(Job::Bytes { bytes, missed, .. }) = stuck.try_recv() {
        kept += bytes.len();
        dropped += usize::try_from(missed).unwrap();
    }
    assert!(0 < kept && 0 < dropped, "{kept} kept, {dropped} dropped");
    assert_eq!(kept + dropped, PRINTED);
}

// spec: HND-071, HND-072
#[test]
fn the_limit_that_an_attempt_ran_into_is_named_as_far_as_it_can_be_known() {
    const MIB: u64 = 1 << 20;
    let limits =
        Limits { memory: Some(100 * MIB), cpu_time: Some(Millis(5000)), ..Limits::default() };
    let told = |exit, memory, peak, cpu| {
        let usage = Some(Usage { peak_memory: peak * MIB, cpu_ms: Millis(cpu) });
        breach(exit, &Means { limits: &limits, usage, memory }).unwrap_or_default()
    };
    let memory = "out of memory, its limit `memory` is 100 MiB";
    let near = "it held 80 MiB, near its limit `memory` of 100 MiB of address space";
    let cpu = "its limit of processor time, `cpu_time`, is 5s";
    for (exit, bound, peak, cpu_ms, expected) in [
        (Exit::Signal(9), Memory::Exhausted, 99, 0, memory),
        (Exit::Code(137), Memory::Exhausted, 99, 0, memory),
        (Exit::Code(1), Memory::Counted, 99, 0, ""),
        (Exit::Code(1), Memory::Spaces, 80, 0, near),
        (Exit::Signal(6), Memory::Spaces, 74, 0, ""),
        (Exit::Code(0), Memory::Spaces, 99, 9000, ""),
        (Exit::Signal(24), Memory::Spaces, 1, 0, cpu),
        (Exit::Code(152), Memory::Spaces, 1, 0, cpu),
        (Exit::Signal(9), Memory::Spaces, 1, 5000, cpu),
        (Exit::Signal(9), Memory::Spaces, 1, 4999, ""),
        (Exit::Code(1), Memory::Spaces, 1, 9000, ""),
    ] {
        assert_eq!(told(exit, bound, peak, cpu_ms), expected, "{exit:?} {bound:?}");
    }
    let spec = HandlerSpec::default();
    let facts = Facts {
        exit: Exit::Code(137),
        word: None,
        stop: None,
        spec: &spec,
        last_line: "Killed",
        breach: Some("out of memory"),
    };
    assert_eq!(decide(&facts).1.unwrap(), "exit status 137: out of memory: Killed");
}

/// Says a command to a worker that answers with `answers`, the mark put in for `MARK`.
fn say(command: &TaskCommand, answers: &str) -> Result<task_cmd::Said, TaskCommandError> {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let answers = answers.to_owned();
    let worker = std::thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(&theirs).read_line(&mut line).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let mark = line["id"].as_str().unwrap();
        (&theirs).write_all(answers.replace("MARK", mark).as_bytes()).unwrap();
    });
    let said = task_cmd::say(command, Inside { control: ours.into(), tmp: dir.path().into() });
    worker.join().unwrap();
    said
}

#[test]
fn task_commands_exit_as_promised() {
    let data = || RawValue::from_string("1".into()).unwrap();
    let checkpoint = TaskCommand::Checkpoint { data: data() };
    let progress = TaskCommand::Progress { done: 1, total: None, note: None };
    let result = TaskCommand::Result { data: data() };
    let go_on = "{\"ok\":true,\"seq\":7,\"stop\":null,\"id\":\"MARK\"}\n";
    let stop = "{\"ok\":true,\"seq\":7,\"stop\":\"cancel\",\"id\":\"MARK\"}\n";
    let exit = |command: &TaskCommand, answer| say(command, answer).unwrap().exit;
    assert_eq!((exit(&checkpoint, go_on), exit(&checkpoint, stop)), (0, 10));
    assert_eq!((exit(&progress, go_on), exit(&progress, stop)), (0, 10));
    assert_eq!((exit(&result, go_on), exit(&result, stop)), (0, 0));
    let ask = TaskCommand::ShouldStop;
    assert_eq!((exit(&ask, go_on), exit(&ask, stop)), (1, 0));
    let refused =
        say(&checkpoint, "{\"ok\":false,\"error\":\"no\",\"stop\":null,\"id\":\"MARK\"}\n");
    assert_eq!(refused.unwrap_err(), TaskCommandError::Refused("no".into()));
    assert_eq!(say(&checkpoint, "").unwrap_err().exit(), 8);
}

// spec: HND-013
#[test]
fn an_answer_that_nobody_fetched_is_not_taken_for_ours() {
    let old =
        "{\"ok\":true,\"seq\":1,\"stop\":null}\n{\"ok\":false,\"error\":\"x\",\"stop\":null}\n";
    let ours = "{\"ok\":true,\"seq\":9,\"stop\":null,\"id\":\"MARK\"}\n";
    let command = TaskCommand::Checkpoint { data: RawValue::from_string("{}".into()).unwrap() };
    assert_eq!(say(&command, &format!("{old}{ours}")).unwrap().seq, Some(Seq(9)));
    assert_eq!(say(&command, old).unwrap_err().exit(), 8);
}
