//! What a check found, and how it is shown.

use super::super::paint::Ink;
use super::super::session::View;
use super::super::text::{cut, tame, width};
use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Something may go wrong.
    Warning,
    /// Something must be done.
    Problem,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    const fn ink(self) -> Ink {
        match self {
            Self::Ok => Ink::Green,
            Self::Note => Ink::Dim,
            Self::Warning => Ink::Yellow,
            Self::Problem => Ink::Red,
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The part of the setup.
    pub(crate) group: &'static str,
    pub(crate) level: Level,
    /// What is so.
    pub(crate) what: String,
    /// Why it matters; null where all is well.
    pub(crate) why: Option<String>,
    /// What to do.
    pub(crate) commands: Vec<String>,
}

impl Finding {
    fn new(level: Level, what: impl Into<String>, why: Option<&str>, commands: &[&str]) -> Self {
        let commands = commands.iter().map(|command| (*command).to_owned()).collect();
        Self { group: "", level, what: what.into(), why: why.map(str::to_owned), commands }
    }

    pub(crate) fn ok(what: impl Into<String>) -> Self {
        Self::new(Level::Ok, what, None, &[])
    }

    pub(crate) fn note(what: impl Into<String>, why: &str) -> Self {
        Self::new(Level::Note, what, Some(why), &[])
    }

    pub(crate) fn warning(what: impl Into<String>, why: &str, commands: &[&str]) -> Self {
        Self::new(Level::Warning, what, Some(why), commands)
    }

    pub(crate) fn problem(what: impl Into<String>, why: &str, commands: &[&str]) -> Self {
        Self::new(Level::Problem, what, Some(why), commands)
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Examined {
    /// The gravest.
    pub(crate) level: Level,
    pub(crate) findings: Vec<Finding>,
}

impl Examined {
    pub(crate) fn new(findings: Vec<Finding>) -> Self {
        let level = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
        Self { level, findings }
    }
}

/// Columns before the words of a finding.
const INDENT: usize = 22;

/// The screen: what is well in a line for each part, the rest one by one.
pub(crate) fn render(examined: &Examined, view: &View) -> String {
    let mut text = String::new();
    let mut groups: Vec<&str> = examined.findings.iter().map(|finding| finding.group).collect();
    groups.dedup();
    for group in groups {
        let findings = examined.findings.iter().filter(|finding| finding.group == group);
        let (well, ill): (Vec<_>, Vec<_>) = findings.partition(|it| it.level == Level::Ok);
        if !well.is_empty() && ill.iter().all(|finding| finding.level == Level::Note) {
            let all: Vec<_> = well.iter().map(|finding| finding.what.as_str()).collect();
            text += &head(Level::Ok, group, &all.join(", "), view);
        }
        for finding in ill {
            text += &tell(finding, view);
        }
    }
    text + &last_line(examined)
}

fn columns(view: &View) -> usize {
    view.width.unwrap_or(80).clamp(40, 100)
}

fn head(level: Level, group: &str, what: &str, view: &View) -> String {
    let word = view.paint.with(level.ink(), &format!("{:<9}", level.word()));
    let what = cut(&tame(what), columns(view) - INDENT);
    format!("{word}{group:<13}{what}\n")
}

fn tell(finding: &Finding, view: &View) -> String {
    let room = columns(view) - INDENT;
    let mut lines = wrap(&tame(&finding.what), room).into_iter();
    let mut text = head(finding.level, finding.group, &lines.next().unwrap_or_default(), view);
    let rest = lines.chain(finding.why.iter().flat_map(|why| wrap(&tame(why), room)));
    for line in rest {
        text += &format!("{:INDENT$}{line}\n", "");
    }
    for command in &finding.commands {
        // Whole, for it is to be copied.
        text += &format!("{:INDENT$}  {}\n", "", tame(command));
    }
    text
}

fn last_line(examined: &Examined) -> String {
    let count = |level| examined.findings.iter().filter(|it| it.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    match (problems, warnings) {
        (0, 0) => "\nnothing needs to be done\n".to_owned(),
        (0, _) => format!("\n{}\n", plural(warnings, "warning")),
        (_, 0) => format!("\n{}\n", plural(problems, "problem")),
        _ => format!("\n{}, {}\n", plural(problems, "problem"), plural(warnings, "warning")),
    }
}

/// So many of something.
pub(super) fn plural(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A text in lines of at most so many columns, broken between words.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && columns < width(line) + 1 + width(word) {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.into_iter().map(|line| cut(&line, columns)).collect()
}
