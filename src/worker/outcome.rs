//! What the end of a handler means.

use super::handler::HandlerSpec;
use crate::api::{StopWord, Usage};
use crate::kernel::status::Outcome;
use crate::limits::ERROR_TEXT_BYTES_MAX;
use crate::process::Limits;
use crate::units;
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
    /// The limit it ran into, in words.
    pub(super) breach: Option<&'a str>,
}

/// What is known of the limits of an attempt that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means<'a> {
    pub(super) limits: &'a Limits,
    pub(super) usage: Option<Usage>,
    pub(super) memory: Memory,
}

/// How the memory of an attempt is bounded, where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Memory {
    /// By the address space of each process.
    #[default]
    Spaces,
    /// By its control group.
    Counted,
    /// By its control group, and the kernel killed it for that.
    Exhausted,
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
        (_, exit) => (classify(exit, facts.spec), describe(exit, facts)),
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

fn describe(exit: Exit, facts: &Facts<'_>) -> String {
    let end = match exit {
        Exit::Code(code) => format!("exit status {code}"),
        Exit::Signal(number) => match signal_name(number) {
            Some(name) => format!("killed by signal {number} ({name})"),
            None => format!("killed by signal {number}"),
        },
        Exit::Returned => "it came back".to_owned(),
    };
    let last_line = Some(facts.last_line).filter(|line| !line.is_empty());
    let parts = [Some(end.as_str()), facts.breach, last_line];
    parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// A shell whose command was ended by a signal ends with 128 and its number.
fn is_by(exit: Exit, signal: Signal) -> bool {
    exit == Exit::Signal(signal.as_raw()) || exit == Exit::Code(128 + signal.as_raw())
}

/// The limit that an attempt which did not end well ran into, as far as that can be known.
///
/// Certain where a control group counts its memory and where the kernel signals that its processor
/// time is over. An address space that is full only makes calls fail, so there the figures are
/// told when they come near, and the handler's own words are all that remains otherwise.
pub(super) fn breach(exit: Exit, means: &Means<'_>) -> Option<String> {
    if matches!(exit, Exit::Code(0) | Exit::Returned) {
        return None;
    }
    let Means { limits, usage, memory } = means;
    if let Some(most) = limits.memory {
        let most_shown = units::bytes(most);
        if *memory == Memory::Exhausted {
            return Some(format!("out of memory, its limit `memory` is {most_shown}"));
        }
        let peak = usage.map_or(0, |usage| usage.peak_memory);
        if *memory == Memory::Spaces && most / 4 * 3 <= peak {
            let peak = units::bytes(peak);
            return Some(format!(
                "it held {peak}, near its limit `memory` of {most_shown} of address space"
            ));
        }
    }
    let most = limits.cpu_time?;
    let used_up = usage.is_some_and(|usage| most <= usage.cpu_ms) && is_by(exit, Signal::KILL);
    (used_up || is_by(exit, Signal::XCPU)).then(|| {
        let most = units::format_duration(most);
        format!("its limit of processor time, `cpu_time`, is {most}")
    })
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
