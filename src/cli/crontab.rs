//! A crontab, read as cron reads it: fields, nicknames, variables, `%`, and in the system's form
//! the user. Nothing is asked and nothing is done here.

use crate::config::{check_times, cron_plan};
use crate::kernel::schedule::ScheduleSpec;
use std::collections::BTreeMap;

/// The shell of a crontab that names none.
const SHELL: &str = "/bin/sh";

/// Where programs are looked for, if the crontab does not say.
const PATH: &str = "/usr/bin:/bin";

/// What a crontab means.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Crontab {
    /// Its commands, in order.
    pub(crate) entries: Vec<Entry>,
    /// The lines that could not be read.
    pub(crate) refused: Vec<Said>,
    /// What is done otherwise than cron would, and is no reason to refuse a line.
    pub(crate) notes: Vec<Said>,
}

/// Something about a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Its number, from 1.
    pub(crate) line: usize,
    /// What.
    pub(crate) what: String,
}

/// One command and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The number of its line, from 1.
    pub(crate) line: usize,
    /// The user that the line names, in the system's form.
    pub(crate) user: Option<String>,
    /// When it runs: an expression, or `@reboot`.
    pub(crate) cron: String,
    /// The zone of those times, where the crontab names one.
    pub(crate) zone: Option<String>,
    /// The variables that hold for it, `SHELL` and `PATH` among them.
    pub(crate) variables: BTreeMap<String, String>,
    /// The command, as the shell gets it.
    pub(crate) command: String,
    /// What it finds on its standard input.
    pub(crate) input: Option<String>,
    /// Times and command as they stand there: what makes it the same at another import.
    pub(crate) source: String,
}

impl Entry {
    /// The shell that runs it.
    pub(crate) fn shell(&self) -> &str {
        self.variables.get("SHELL").map_or(SHELL, String::as_str)
    }

    /// The command without its variables: a shell and what it is given.
    pub(crate) fn argv(&self) -> Vec<String> {
        let shell = self.shell().to_owned();
        match &self.input {
            None => vec![shell, "-c".to_owned(), self.command.clone()],
            // No quoting: the text, the shell and the command are arguments.
            Some(input) => {
                let piped = r#"printf '%s' "$1" | "$2" -c "$3""#;
                let parts = [SHELL, "-c", piped, "cron", input, &shell, &self.command];
                parts.map(str::to_owned).to_vec()
            }
        }
    }
}

/// Which of the two forms a crontab has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A user's own.
    User,
    /// `/etc/crontab` and `/etc/cron.d`: the sixth field is the user.
    System,
}

/// Reads a crontab.
pub(crate) fn parse(text: &str, form: Form) -> Crontab {
    let mut crontab = Crontab::default();
    let defaults = [("SHELL", SHELL), ("PATH", PATH)];
    let mut variables: BTreeMap<_, _> =
        defaults.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut zone = None;
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = variable(text) {
            crontab.notes.extend(about(&name, &value).map(|what| Said { line, what }));
            if name == "CRON_TZ" {
                zone = Some(value.clone()).filter(|zone| !zone.is_empty());
            }
            variables.insert(name, value);
            continue;
        }
        match entry(text, form, zone.as_deref()) {
            Ok(entry) => {
                let (zone, variables) = (zone.clone(), variables.clone());
                crontab.entries.push(Entry { line, zone, variables, ..entry });
            }
            Err(what) => crontab.refused.push(Said { line, what }),
        }
    }
    crontab
}

/// What is not done about a variable.
fn about(name: &str, value: &str) -> Option<String> {
    match name {
        "MAILTO" if value.is_empty() => None,
        "MAILTO" | "MAILFROM" => Some(format!(
            "{name}: nothing is mailed; what a run prints is kept, see `midwatch log`"
        )),
        "TZ" => Some(
            "TZ is passed on to the commands, as cron does; their times are those of CRON_TZ, or of \
             this host"
                .to_owned(),
        ),
        _ => None,
    }
}

/// `NAME = value`, either of them in quotes.
fn variable(text: &str) -> Option<(String, String)> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    let (name, rest) = if let Some(quote) = quote {
        text.get(1..)?.split_once(quote)?
    } else {
        let end = text.find(|c: char| c == '=' || c.is_whitespace())?;
        text.split_at_checked(end)?
    };
    let value = rest.trim_start().strip_prefix('=')?.trim();
    let quoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)));
    let is_name = !name.is_empty() && !name.contains(['*', '@']);
    is_name.then(|| (name.to_owned(), quoted.unwrap_or(value).to_owned()))
}

/// A line with times and a command; its number, zone and variables are still to come.
fn entry(text: &str, form: Form, zone: Option<&str>) -> Result<Entry, String> {
    let (cron, rest) = if text.starts_with('@') { nickname(text)? } else { fields(text)? };
    let (user, rest) = match form {
        Form::User => (None, rest),
        Form::System => {
            let (user, rest) = word(rest).ok_or("there is no user after the times")?;
            (Some(user.to_owned()), rest)
        }
    };
    let (command, input) = split_input(rest.trim());
    if command.is_empty() {
        return Err("there is no command after the times".to_owned());
    }
    check(&cron, zone)?;
    let (variables, line, source) = (BTreeMap::new(), 0, text.trim().to_owned());
    Ok(Entry { line, user, cron, zone: None, variables, command, input, source })
}

/// The next word, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(word, _)| !word.is_empty())
}

fn nickname(text: &str) -> Result<(String, &str), String> {
    let (name, rest) = word(text).unwrap_or((text, ""));
    let times = match name.to_ascii_lowercase().as_str() {
        "@reboot" => "@reboot",
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return Err(format!("`{}` is none of cron's nicknames", name.escape_debug())),
    };
    Ok((times.to_owned(), rest))
}

/// The five fields.
fn fields(text: &str) -> Result<(String, &str), String> {
    let (mut fields, mut rest) = (Vec::new(), text);
    for name in ["minute", "hour", "day of month", "month", "day of week"] {
        let (field, after) = word(rest).ok_or_else(|| format!("there is no {name}"))?;
        fields.push(field);
        rest = after;
    }
    Ok((fields.join(" "), rest))
}

/// The command, and after the first `%` what it reads: there each further one ends a line. A `\%`
/// is a `%`.
fn split_input(text: &str) -> (String, Option<String>) {
    let mut parts = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&'%') => {
                letters.next();
                parts.last_mut().into_iter().for_each(|part| part.push('%'));
            }
            '%' => parts.push(String::new()),
            letter => parts.last_mut().into_iter().for_each(|part| part.push(letter)),
        }
    }
    let mut parts = parts.into_iter();
    let command = parts.next().unwrap_or_default().trim_end().to_owned();
    let lines: Vec<_> = parts.collect();
    let input = (!lines.is_empty()).then(|| format!("{}\n", lines.join("\n")));
    (command, input)
}

/// Passes times that can be planned; of a zone it matters whether there is one, also at `@reboot`.
fn check(cron: &str, zone: Option<&str>) -> Result<(), String> {
    let mut spec = ScheduleSpec::new("exec", cron_plan(cron));
    if let Some(zone) = zone {
        spec.zone = zone.into();
    }
    check_times(&spec).map_err(|bad| match bad.error.key {
        "cron" => format!("`{cron}`: {}", bad.error.why),
        _ => bad.error.why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<(String, String, Option<String>), String> {
        let mut crontab = parse(line, Form::User);
        match (crontab.entries.pop(), crontab.refused.pop()) {
            (Some(entry), None) => Ok((entry.cron, entry.command, entry.input)),
            (None, Some(refused)) => Err(refused.what),
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Lines as they stand in crontabs of the world, with what cron makes of them.
    const LINES: &[(&str, &str, &str, Option<&str>)] = &[
        ("0 3 * * * /usr/local/bin/backup", "0 3 * * *", "/usr/local/bin/backup", None),
        (
            "*/5 * * * * cd /srv && ./poll >/dev/null 2>&1",
            "*/5 * * * *",
            "cd /srv && ./poll >/dev/null 2>&1",
            None,
        ),
        (
            "17 *\t* * *\trun-parts /etc/cron.hourly",
            "17 * * * *",
            "run-parts /etc/cron.hourly",
            None,
        ),
        (
            "0 4 8-14 * * test $(date +\\%u) -eq 7 && mdcheck",
            "0 4 8-14 * *",
            "test $(date +%u) -eq 7 && mdcheck",
            None,
        ),
        (
            "0 22 * * 1-5 mail -s \"It's 10pm\" joe%Joe,%%Where are your kids?%",
            "0 22 * * 1-5",
            "mail -s \"It's 10pm\" joe",
            Some("Joe,\n\nWhere are your kids?\n\n"),
        ),
        ("23 0-23/2 * * * echo every even hour", "23 0-23/2 * * *", "echo every even hour", None),
        ("5 4 * * sun echo run at 5 after 4", "5 4 * * sun", "echo run at 5 after 4", None),
        ("0 9 * JAN-mar MON,wed,Fri report", "0 9 * JAN-mar MON,wed,Fri", "report", None),
        ("0 0 1,15 * 1 both", "0 0 1,15 * 1", "both", None),
        ("0 0 */2 * 1 and", "0 0 */2 * 1", "and", None),
        ("0 0 * * 5-7 weekend", "0 0 * * 5-7", "weekend", None),
        ("0 0 * * 0-7 daily", "0 0 * * 0-7", "daily", None),
        ("0 0 * * 7 sunday", "0 0 * * 7", "sunday", None),
        ("@reboot /usr/bin/start", "@reboot", "/usr/bin/start", None),
        ("@midnight x", "0 0 * * *", "x", None),
        ("@Weekly x y", "0 0 * * 0", "x y", None),
        ("  30 2 * * *   tidy up  ", "30 2 * * *", "tidy up", None),
        ("0 1 * * * cat%one line", "0 1 * * *", "cat", Some("one line\n")),
        ("0 1 * * * cat%", "0 1 * * *", "cat", Some("\n")),
        ("59 23 31 12 * PASS=a b", "59 23 31 12 *", "PASS=a b", None),
    ];

    // spec: TIM-140
    #[test]
    fn lines_mean_what_cron_makes_of_them() {
        for (line, cron, command, input) in LINES {
            let read = one(line).unwrap_or_else(|why| panic!("{line}: {why}"));
            assert_eq!(
                (read.0.as_str(), read.1.as_str(), read.2.as_deref()),
                (*cron, *command, *input)
            );
        }
    }

    // spec: TIM-143
    #[test]
    fn lines_that_cannot_be_taken_say_why() {
        for (line, why) in [
            ("61 * * * * x", "61 * * * *"),
            ("* * * * *", "no command"),
            ("* * * *", "no day of week"),
            ("@fortnightly x", "@fortnightly"),
            ("0~30 * * * * x", "minute"),
            ("0 0 30 2 * x", "no date matches"),
            ("hello", "no hour"),
            ("5/15 * * * * x", "minute"),
            ("CRON_TZ=Mars/Base\n0 3 * * * x", "no time zone `Mars/Base`"),
            ("0 0 * * * %input", "no command"),
        ] {
            match one(line) {
                Err(said) => assert!(said.contains(why), "{line}: {said}"),
                Ok(read) => panic!("{line}: {read:?}"),
            }
        }
    }

    // spec: TIM-141
    #[test]
    fn variables_hold_from_their_line_on() {
        let text = "# a comment\nMAILTO=root\nA=1\n* * * * * first\nSHELL=/bin/bash\nA = \"two words\"\n\
                    'B C'=' x '\nCRON_TZ=Asia/Tokyo\nTZ=UTC\n\n* * * * * second\nMAILTO=\"\"\n";
        let Crontab { entries, refused, notes } = parse(text, Form::User);
        assert_eq!(refused, []);
        let said: Vec<_> =
            notes.iter().map(|note| (note.line, note.what.split(' ').next())).collect();
        assert_eq!(said, [(2, Some("MAILTO:")), (9, Some("TZ"))]);
        let of = |entry: &Entry, name: &str| entry.variables.get(name).cloned();
        let [first, second] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((first.line, second.line), (4, 11));
        assert_eq!(
            (of(first, "A"), first.shell(), &first.zone),
            (Some("1".into()), "/bin/sh", &None)
        );
        assert_eq!(of(second, "A").as_deref(), Some("two words"));
        assert_eq!(of(second, "B C").as_deref(), Some(" x "));
        assert_eq!((second.shell(), second.zone.as_deref()), ("/bin/bash", Some("Asia/Tokyo")));
        assert_eq!(second.argv(), ["/bin/bash", "-c", "second"]);
    }

    // spec: TIM-142
    #[test]
    fn the_system_s_form_names_the_user_and_input_goes_through_no_quoting() {
        let text = "17 * * * * root cd / && run-parts /etc/cron.hourly\n@daily www-data x%it's\n1 2 3 4 5 \n";
        let Crontab { entries, refused, .. } = parse(text, Form::System);
        assert_eq!(
            refused,
            [Said { line: 3, what: "there is no user after the times".to_owned() }]
        );
        let [first, second] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!(first.user.as_deref(), Some("root"));
        assert_eq!(first.command, "cd / && run-parts /etc/cron.hourly");
        assert_eq!(second.user.as_deref(), Some("www-data"));
        let piped = r#"printf '%s' "$1" | "$2" -c "$3""#;
        assert_eq!(second.argv(), ["/bin/sh", "-c", piped, "cron", "it's\n", "/bin/sh", "x"]);
    }
}
