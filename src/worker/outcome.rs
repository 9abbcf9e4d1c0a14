//! What the end of a handler means.

use super::handler::HandlerSpec;
use crate::api::StopWord;
use crate::kernel::status::Outcome;
use crate::limits::ERROR_TEXT_BYTES_MAX;
use rustix::process::Signal;

/// How a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Its leader process did, with this status.
    Code(i32),
    /// Its leader process did, by this signal.
    Signal(i32),
    /// Its thread came back. Whether it failed is its last word.
    Returned,
}

/// What the handler said of its end; the last word counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It left a result.
    Result,
    /// It told an error.
    Error {
        /// In words.
        message: String,
        /// Whether another attempt may mend it.
        retryable: bool,
    },
}

/// Everything an outcome depends on.
#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    pub(super) exit: Exit,
    pub(super) word: Option<&'a Word>,
    /// The stop that the handler knew of.
    pub(super) stop: Option<StopWord>,
    pub(super) spec: &'a HandlerSpec,
    /// The last line on standard error that was not empty.
    pub(super) last_line: &'a str,
}

/// The outcome of an attempt and its error in words.
///
/// A stop that was delivered was obeyed, unless the handler left a result all the same. Then the
/// handler's own error counts, then its exit status.
pub(super) fn decide(facts: &Facts<'_>) -> (Outcome, Option<String>) {
    if let Some(stop) = facts.stop.filter(|_| facts.word != Some(&Word::Result)) {
        return obeyed(stop);
    }
    let (outcome, text) = match (facts.word, facts.exit) {
        (Some(Word::Error { message, retryable }), _) => {
            let outcome = if *retryable { Outcome::Retryable } else { Outcome::Fatal };
            (outcome, message.clone())
        }
        (_, Exit::Code(0) | Exit::Returned) => return (Outcome::Success, None),
        (_, exit) => (classify(exit, facts.spec), describe(exit, facts.last_line)),
    };
    (outcome, Some(shorten(text)))
}

fn obeyed(stop: StopWord) -> (Outcome, Option<String>) {
    match stop {
        StopWord::Cancel => (Outcome::Cancelled, None),
        StopWord::Pause => (Outcome::Paused, None),
        StopWord::Timeout => (Outcome::TimedOut, Some("it ran longer than it may".into())),
        // Nothing is reported of a superseded attempt, so its outcome is never seen.
        StopWord::Shutdown | StopWord::Superseded => (Outcome::Released, None),
    }
}

fn classify(exit: Exit, spec: &HandlerSpec) -> Outcome {
    match exit {
        Exit::Code(code) if spec.retryable_exit_codes.contains(&code) => Outcome::Retryable,
        Exit::Code(code) if spec.fatal_exit_codes.contains(&code) => Outcome::Fatal,
        // EX_TEMPFAIL (75) says so itself; of anything else nobody knows better.
        Exit::Code(_) | Exit::Signal(_) | Exit::Returned => Outcome::Retryable,
    }
}

fn describe(exit: Exit, last_line: &str) -> String {
    let end = match exit {
        Exit::Code(code) => format!("exit status {code}"),
        Exit::Signal(number) => match signal_name(number) {
            Some(name) => format!("killed by signal {number} ({name})"),
            None => format!("killed by signal {number}"),
        },
        Exit::Returned => "it came back".to_owned(),
    };
    if last_line.is_empty() { end } else { format!("{end}: {last_line}") }
}

fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: &[(Signal, &str)] = &[
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    NAMES.iter().find(|(signal, _)| signal.as_raw() == number).map(|(_, name)| *name)
}

/// At most as much text as is kept with an attempt, cut between characters.
pub(super) fn shorten(mut text: String) -> String {
    if ERROR_TEXT_BYTES_MAX < text.len() {
        let cut = text.floor_char_boundary(ERROR_TEXT_BYTES_MAX - '…'.len_utf8());
        text.truncate(cut);
        text.push('…');
    }
    text
}
